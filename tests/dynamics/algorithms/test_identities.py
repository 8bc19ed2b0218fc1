"""Identities between independent algorithms on random trees with every joint kind."""

import casadi as ca
import numpy as np
import pytest
from joint_examples import example
from made import made
from numerical_symbols import NumericalSymbols
from states import state

import dynamics
from dynamics import algorithms as alg
from dynamics.joints import KINDS, record
from dynamics.model import BodyInertia, Builder, Joint, Mimic, Placement
from dynamics.model.synthetic import random_tree

MOVING = [k for k in KINDS if k != "fixed"]
CASES = [(n, seed) for n in (1, 4, 9) for seed in range(3)]


def tree(n, seed, **options):
    return random_tree(n, np.random.default_rng(100 * n + seed), **options)


def call(model, name, *args):
    out = made(dynamics.make, model, name)(*args)
    return np.array(out).squeeze() if out.shape[1] == 1 else np.array(out)


def every_kind(seed=0):
    """One chain that contains each joint kind, so that none can hide."""
    rng = np.random.default_rng(seed)
    model = random_tree(len(MOVING), rng, kinds=["revolute"], branching=0.5)
    from dataclasses import replace

    bodies = []
    for body, kind in zip(model.bodies, MOVING, strict=True):
        joint = example(replace(body.joint, axes=()), kind)
        n = record(joint).nv
        joint = replace(joint, armature=(0.05,) * n, damping=(0.3,) * n)
        bodies.append(replace(body, joint=joint))
    return replace(model, bodies=tuple(bodies))


def coupled():
    """A gripper-like branching robot: two fingers follow one drive, one of them backwards, with an offset."""
    b = Builder("coupled")
    rng = np.random.default_rng(5)
    from dynamics.model.synthetic import random_inertia

    b.body("base", parent="world", joint=Joint("root", "free_flyer"), inertia=random_inertia(rng))
    b.body("drive", parent="base", joint=Joint("drive", "revolute", axes=((0.0, 0.0, 1.0),), armature=(0.1,), damping=(0.2,)),
           inertia=random_inertia(rng))
    b.body("left", parent="drive", joint=Joint("left", "prismatic", Placement(position=(0.1, 0.0, 0.0)), ((0.0, 1.0, 0.0),),
                                               mimic=Mimic("drive", -0.5, 0.2), damping=(0.4,)), inertia=random_inertia(rng))
    b.body("right", parent="base", joint=Joint("right", "revolute", axes=((0.6, 0.0, 0.8),), mimic=Mimic("drive", 2.0, 0.1)),
           inertia=random_inertia(rng))
    b.body("tip", parent="left", joint=Joint("tip", "spherical"), inertia=BodyInertia(0.2, (0.0, 0.1, 0.0), (
        (0.01, 0.0, 0.0), (0.0, 0.02, 0.0), (0.0, 0.0, 0.015))))
    return b.build()


MODELS = [pytest.param(tree(n, s, damping=True), id=f"tree{n}-{s}") for n, s in CASES]
MODELS += [pytest.param(every_kind(), id="every-kind"), pytest.param(coupled(), id="mimic")]
QUICK = [pytest.param(*m.values, id=m.id, marks=pytest.mark.slow) if m.id == "every-kind" else m for m in MODELS]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.sample(3)
def test_forward_dynamics_inverts_inverse_dynamics(model):
    q, v, a = state(model, 1)
    rng = np.random.default_rng(2)
    wrenches = {model.bodies[i].name: rng.standard_normal(6) for i in {0, len(model.bodies) - 1}}
    syms = [ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv), ca.SX.sym("w", model.nv)]
    inverse = ca.Function("i", syms, [alg.inverse_dynamics(model, *syms, wrenches)])
    forward = ca.Function("f", syms, [alg.forward_dynamics(model, *syms, wrenches)])
    tau = inverse(q, v, a)
    np.testing.assert_allclose(np.array(forward(q, v, tau)).ravel(), a, atol=1e-9 * (1 + np.abs(np.array(tau)).max()))
    # the wrench reaches the result: without it the torque differs
    assert np.abs(np.array(tau).ravel() - call(model, "inverse_dynamics", q, v, a)).max() > 1e-3


@pytest.mark.parametrize("model", MODELS)
def test_mass_matrix_is_the_derivative_of_inverse_dynamics_and_positive_definite(model):
    q, v, _ = state(model, 3)
    M = np.atleast_2d(call(model, "mass_matrix", q))
    h = np.atleast_1d(call(model, "bias_force", q, v))
    columns = np.column_stack([np.atleast_1d(call(model, "inverse_dynamics", q, v, e)) - h for e in np.eye(model.nv)])
    np.testing.assert_allclose(M, columns, atol=1e-11 * (1 + np.abs(h).max() + np.abs(M).max()))
    np.testing.assert_array_equal(M, M.T)
    assert np.linalg.eigvalsh(M).min() > 0


@pytest.mark.row("001:D10")
@pytest.mark.parametrize("model", QUICK)
def test_kinetic_energy_and_momentum_agree_with_the_mass_matrix(model):
    """With each other, and with M, energy and momentum summed over the bodies by differences of their poses."""
    q, v, _ = state(model, 4)
    M = np.atleast_2d(call(model, "mass_matrix", q))
    by_hand = NumericalSymbols(model, q)
    size = 1 + np.abs(by_hand.M()).max()
    np.testing.assert_allclose(M, by_hand.M(), atol=1e-8 * size)
    assert call(model, "kinetic_energy", q, v) == pytest.approx(by_hand.kinetic_energy(v), rel=1e-7)
    np.testing.assert_allclose(call(model, "momentum", q, v), by_hand.momentum(v), atol=1e-7 * size)
    assert call(model, "kinetic_energy", q, v) == pytest.approx(v @ M @ v / 2, rel=1e-12)
    J = np.array(dynamics.make(model, "centre_of_mass_jacobian")(q))
    np.testing.assert_allclose(call(model, "momentum", q, v)[:3], model.mass * J @ v, atol=1e-12 * (1 + model.mass * 10))


@pytest.mark.row("001:D11")
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.sample(3)
def test_gravity_force_is_the_gradient_of_potential_energy(model):
    q, _, _ = state(model, 5)
    moved = dynamics.make(model, "integrate")
    V = dynamics.make(model, "potential_energy")
    h = 1e-5
    gradient = [float(V(moved(q, h * e)) - V(moved(q, -h * e))) / (2 * h) for e in np.eye(model.nv)]
    g = np.atleast_1d(call(model, "gravity_force", q))
    by_hand = NumericalSymbols(model, q)
    assert float(V(q)) == pytest.approx(by_hand.potential_energy(), rel=1e-11)
    np.testing.assert_allclose(g, -by_hand.weight(), atol=1e-7 * (1 + np.abs(g).max()))
    np.testing.assert_allclose(g, gradient, atol=1e-7 * (1 + np.abs(g).max()))


@pytest.mark.row("001:D20")
@pytest.mark.parametrize("model", MODELS)
def test_power_balance(model):
    """dE/dt along a motion equals the power of the joint forces minus what damping takes."""
    q, v, a = state(model, 6)
    move, h = dynamics.make(model, "integrate"), 1e-5

    def energy(s):
        # q(s) = q [+] (s v + s^2/2 a) has velocity v + s a to first order, which is all the derivative at s = 0 needs
        qs = move(q, s * v + s * s / 2 * a)
        return float(dynamics.make(model, "kinetic_energy")(qs, v + s * a) + dynamics.make(model, "potential_energy")(qs))

    rate = (energy(h) - energy(-h)) / (2 * h)
    tau = np.atleast_1d(call(model, "inverse_dynamics", q, v, a))
    from dynamics.algorithms import tree as tree_tools

    damping = np.array(ca.densify(tree_tools.diagonal(model, "damping"))).ravel()
    assert rate == pytest.approx(v @ tau - v @ (damping * v), abs=1e-6 * (1 + abs(rate)))


@pytest.mark.row("001:D21")
@pytest.mark.parametrize("seed", range(3))
def test_free_floating_momentum_changes_only_by_weight(seed):
    """Total momentum of a floating tree: d/dt linear = m g, d/dt angular about the origin = c x m g."""
    rng = np.random.default_rng(seed)
    model = random_tree(6, rng, root="free_flyer", armature=False)
    q, v, _ = state(model, seed)
    tau = rng.standard_normal(model.nv)
    tau[:6] = 0.0  # nothing pushes the base: internal forces cannot change the momentum
    a = call(model, "forward_dynamics", q, v, tau)
    move, h = dynamics.make(model, "integrate"), 1e-6
    momentum = dynamics.make(model, "momentum")
    rate = np.array(momentum(move(q, h * v), v + h * a) - momentum(move(q, -h * v), v - h * a)).ravel() / (2 * h)
    weight = model.mass * np.array(model.gravity)
    expected = np.r_[weight, np.cross(call(model, "centre_of_mass", q), weight)]
    np.testing.assert_allclose(rate, expected, atol=1e-6 * (1 + np.abs(expected).max()))


@pytest.mark.slow
def test_graphs_can_be_used_inside_mx():
    model = every_kind()
    q, v, a = state(model, 11)
    Q, V, A = ca.MX.sym("q", model.nq), ca.MX.sym("v", model.nv), ca.MX.sym("a", model.nv)
    embedded = ca.Function("f", [Q, V, A], [dynamics.make(model, "forward_dynamics")(
        Q, V, dynamics.make(model, "inverse_dynamics")(Q, V, A))])
    np.testing.assert_allclose(np.array(embedded(q, v, a)).ravel(), a, atol=1e-9)
    direct = ca.Function("d", [Q, V, A], [alg.inverse_dynamics(model, Q, V, A), alg.forward_dynamics(model, Q, V, A)])
    np.testing.assert_allclose(np.array(direct(q, v, a)[0]).ravel(), call(model, "inverse_dynamics", q, v, a), atol=1e-10)
    np.testing.assert_allclose(np.array(direct(q, v, a)[1]).ravel(), call(model, "forward_dynamics", q, v, a), atol=1e-8)
