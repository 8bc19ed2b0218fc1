"""Identities between independent algorithms on random trees with every joint kind."""

import casadi as ca
import numpy as np
import pytest
from joint_examples import example
from made import made
from numerical_symbols import NumericalSymbols

import dynamics
from dynamics import algorithms as alg
from dynamics.joints import KINDS, record
from dynamics.model import BodyInertia, Builder, Joint, Mimic, Placement
from dynamics.model.synthetic import random_tree

MOVING = [k for k in KINDS if k != "fixed"]
CASES = [(n, seed) for n in (1, 4, 9) for seed in range(3)]


def tree(n, seed, **options):
    return random_tree(n, np.random.default_rng(100 * n + seed), **options)


def state(model, seed):
    rng = np.random.default_rng(seed)
    return (alg.random_configuration(model, rng), rng.standard_normal(model.nv), rng.standard_normal(model.nv))


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


@pytest.mark.row("001:D20")
@pytest.mark.parametrize("root", [None, "free_flyer"])
def test_energy_of_a_free_motion_drifts_with_the_order_of_the_steps(root):
    """T + U of a branching tree without friction and motors over 0.4 s: by Runge and Kutta where velocities are rates, a sixteenth
    and less when steps are halved; on a floating base by the midpoint rule, a quarter."""
    kinds = ["revolute", "prismatic"] if root is None else ["revolute", "spherical", "universal"]
    model = random_tree(6, np.random.default_rng(8), root=root, branching=0.5, kinds=kinds)
    start, speed, _ = state(model, 2)
    forward, move = (made(dynamics.make, model, name) for name in ("forward_dynamics", "integrate"))
    none = np.zeros(model.nv)

    def energy(q, v):
        return call(model, "kinetic_energy", q, v) + call(model, "potential_energy", q)

    def rate(q, v):
        return v, np.array(forward(q, v, none)).ravel()

    def step(q, v, h):
        if root is None:
            k1 = rate(q, v)
            k2 = rate(q + h / 2 * k1[0], v + h / 2 * k1[1])
            k3 = rate(q + h / 2 * k2[0], v + h / 2 * k2[1])
            k4 = rate(q + h * k3[0], v + h * k3[1])
            return (x + h / 6 * (a + 2 * b + 2 * c + d) for x, a, b, c, d in zip((q, v), k1, k2, k3, k4, strict=True))
        middle = v
        for _ in range(20):
            middle = v + h / 2 * rate(np.array(move(q, h / 2 * middle)).ravel(), middle)[1]
        return np.array(move(q, h * middle)).ravel(), 2 * middle - v

    drifts = []
    for n in (100, 200):
        q, v, most = start, 0.3 * speed, 0.0
        first = energy(q, v)
        for _ in range(n):
            q, v = step(q, v, 0.4 / n)
            most = max(most, abs(energy(q, v) - first))
        drifts.append(most)
    exchanged = abs(call(model, "potential_energy", q) - call(model, "potential_energy", start))
    assert exchanged > 0.5
    assert drifts[1] < (1e-6 if root is None else 1e-3) * exchanged
    assert drifts[0] / drifts[1] > (12 if root is None else 3.5)


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


@pytest.mark.parametrize("model", QUICK)
@pytest.mark.parametrize("reference", ["body", "world", "world_aligned"])
@pytest.mark.sample(4)
def test_frame_jacobian_velocity_and_drift(model, reference):
    q, v, a = state(model, 8)
    frame = model.frames[-1].name if model.frames else model.bodies[-1].name
    J = dynamics.make_frame(model, "jacobian", frame, reference)
    velocity = dynamics.make_frame(model, "velocity", frame, reference)
    np.testing.assert_allclose(np.array(J(q)) @ v, np.array(velocity(q, v)).ravel(), atol=1e-11)
    move, h = dynamics.make(model, "integrate"), 1e-6
    ahead, behind = move(q, h * v), move(q, -h * v)
    drift = np.array(dynamics.make_frame(model, "drift", frame, reference)(q, v)).ravel()
    numeric = (np.array(J(ahead)) - np.array(J(behind))) @ v / (2 * h)
    np.testing.assert_allclose(drift, numeric, atol=2e-6 * (1 + np.abs(drift).max()))
    # the pose itself moves with that velocity
    pose = dynamics.make_frame(model, "pose", frame)
    if reference == "world_aligned":
        speed = (np.array(pose(ahead)[1]) - np.array(pose(behind)[1])).ravel() / (2 * h)
        np.testing.assert_allclose(np.array(velocity(q, v)).ravel()[:3], speed, atol=1e-7)
        spin = (np.array(pose(ahead)[0]) - np.array(pose(behind)[0])) / (2 * h) @ np.array(pose(q)[0]).T
        np.testing.assert_allclose(np.array(velocity(q, v)).ravel()[3:], [spin[2, 1], spin[0, 2], spin[1, 0]], atol=1e-7)


def test_mimic_equals_the_uncoupled_robot_projected():
    """M and h of a coupled robot are G^T M_full G and G^T h_full of the same tree without coupling."""
    from dataclasses import replace

    model = coupled()
    free = replace(model, bodies=tuple(replace(b, joint=replace(b.joint, mimic=None)) for b in model.bodies))
    q, v, a = state(model, 10)
    G, q_full = np.zeros((free.nv, model.nv)), np.zeros(free.nq)
    for i, body in enumerate(model.bodies):
        mimic = body.joint.mimic
        scale, offset = (mimic.multiplier, mimic.offset) if mimic else (1.0, 0.0)
        own = range(free.v_slice(i).start, free.v_slice(i).stop)
        for row, column in zip(own, range(model.v_slice(i).start, model.v_slice(i).stop), strict=True):
            G[row, column] += scale
        q_full[free.q_slice(i)] = scale * q[model.q_slice(i)] + offset
    np.testing.assert_allclose(call(model, "mass_matrix", q), G.T @ call(free, "mass_matrix", q_full) @ G, atol=1e-12)
    np.testing.assert_allclose(
        call(model, "inverse_dynamics", q, v, a), G.T @ call(free, "inverse_dynamics", q_full, G @ v, G @ a), atol=1e-11)
    tau = call(model, "inverse_dynamics", q, v, a)
    np.testing.assert_allclose(call(model, "forward_dynamics", q, v, tau), a, atol=1e-10)


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
