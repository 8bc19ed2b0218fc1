"""Moving-base equations of motion in every representation of the base velocity, and Hamel's equations as an oracle."""

import casadi as ca
import numpy as np
import pytest
import se3_trajectories as ref
from arrays import num
from numerical_symbols import NumericalSymbols
from row_trees import coupled, tree_of
from scipy.integrate import solve_ivp
from states import mover, state

from dynamics import algorithms as alg
from dynamics.errors import ModelError
from dynamics.joints import KINDS
from dynamics.lie import se3
from dynamics.model import Builder, Joint
from dynamics.model.synthetic import random_inertia, random_tree, serial_chain
from dynamics.notation import hamel, moving_base
from dynamics.notation.representation import REPRESENTATIONS

NAMES = list(REPRESENTATIONS)


def close(a, b, tol=1e-9):
    np.testing.assert_allclose(a, b, atol=tol, rtol=0)


def floating(seed, n=6, **options):
    return random_tree(n, np.random.default_rng(seed), root="free_flyer", **options)


MODELS = {
    "floating": lambda: floating(0, damping=True), "second": lambda: floating(3), "mimic": coupled,
    "every_kind": lambda: tree_of("free_flyer", "universal", "planar", "spherical", "prismatic", "continuous", seed=1),
}


def newton_euler(model, q, v, a):
    """M a + g - weight [nv] by differences of poses."""
    by_hand = NumericalSymbols(model, q)
    return by_hand.newton_euler(v, a) - by_hand.weight()


def base_pose_along(model, q, v, a):
    """s -> 4x4 base pose along a motion with velocity v and acceleration a at s = 0."""
    Q = ca.SX.sym("q", model.nq)
    H = ca.Function("H", [Q], [se3.to_matrix(se3.Pose(*moving_base.base_pose(model, Q)))])
    step = mover(model)
    return lambda s: num(H(step(q, s * v + s * s / 2 * a)))


@pytest.mark.row("004:T-160", "004:T-161", "004:T-162", "000:K-162", "000:K-163")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("which", MODELS)
def test_generalised_velocity_and_its_kinematics(which, name):
    model = MODELS[which]()
    q, v, a = state(model, 1)
    B = base_pose_along(model, q, v, a)
    nu = num(moving_base.convert_velocity(model, q, v, "left", name))
    close(nu[:6], ref.BY_DEFINITION[name](B, 0.0), 1e-8)
    close(nu[6:], v[6:])
    close(num(moving_base.convert_velocity(model, q, nu, name, "left")), v)
    nu_dot = num(moving_base.convert_acceleration(model, q, v, a, "left", name))
    close(nu_dot[:6], ref.derivative(lambda s: ref.BY_DEFINITION[name](B, s), 0.0, 1e-2), 1e-6)
    close(num(moving_base.convert_acceleration(model, q, nu, nu_dot, name, "left")), a)
    # dq/dt = N Y nu, against the motion on the manifold; dH/dt = H (X v)^ is its base part
    step = mover(model)
    close(num(moving_base.configuration_rate(model, q, nu, name)), ref.derivative(lambda s: num(step(q, s * v)), 0.0, 1e-3), 1e-8)
    H = B(0.0)
    X = num(moving_base.velocity_map(model, q, name))[:6, :6]
    close(ref.derivative(B, 0.0), H @ ref.hat6(X @ nu[:6]), 1e-8)
    # power, and the pieces of the map
    tau = np.random.default_rng(2).standard_normal(model.nv)
    other = num(moving_base.convert_force(model, q, tau, "left", name))
    assert other @ nu == pytest.approx(tau @ v)
    close(num(moving_base.convert_force(model, q, other, name, "left")), tau)
    Y, back = (num(f(model, q, name)) for f in (moving_base.velocity_map, moving_base.velocity_map_inverse))
    close(Y @ back, np.eye(model.nv))


@pytest.mark.row("004:T-163", "004:T-164", "004:T-172", "000:K-174", "000:K-175")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("which", MODELS)
def test_equations_of_motion_in_every_representation(which, name):
    model = MODELS[which]()
    q, v, tau = state(model, 2)
    nu = num(moving_base.convert_velocity(model, q, v, "left", name))
    M, h = num(moving_base.mass_matrix(model, q, name)), num(moving_base.bias_force(model, q, nu, name))
    # the acceleration is that of forward dynamics, which knows no representation
    a = num(alg.forward_dynamics(model, q, v, tau))
    tau_nu = num(moving_base.convert_force(model, q, tau, "left", name))
    nu_dot = np.linalg.solve(M, tau_nu - h)
    close(num(moving_base.convert_acceleration(model, q, nu, nu_dot, name, "left")), a, 1e-8 * (1 + np.abs(a).max()))
    assert nu @ M @ nu / 2 == pytest.approx(float(alg.kinetic_energy(model, q, v)))
    # M = Y^T I Y and the general transformation with dY/dt
    Y = num(moving_base.velocity_map(model, q, name))
    rate = num(moving_base.velocity_map_rate(model, q, v, name))
    along, Q = mover(model), ca.SX.sym("q", model.nq)
    f = ca.Function("Y", [Q], [moving_base.velocity_map(model, Q, name)])
    close(rate, ref.derivative(lambda s: num(f(along(q, s * v))), 0.0, 1e-3), 1e-7)
    M2, h2 = moving_base.transform_dynamics(alg.mass_matrix(model, q), alg.bias_force(model, q, v), Y, rate, nu)
    close(num(M2), M)
    close(num(h2), h)
    without_rate = num(moving_base.transform_dynamics(alg.mass_matrix(model, q), alg.bias_force(model, q, v), Y, 0 * rate, nu)[1])
    # the term with dY/dt counts, but not between left and right: their accelerations differ by no cross product
    assert (np.abs(without_rate - h).max() > 1e-3) == (name in ("mixed", "kindr"))
    if name in ("mixed", "kindr"):
        armature = np.array(model.bodies[0].joint.armature or (0,) * 6)[:3]
        R = num(moving_base.base_pose(model, q).R)
        close(M[:3, :3] - R @ np.diag(armature) @ R.T, model.mass * np.eye(3))


@pytest.mark.row("004:T-163", "004:T-164")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("which", MODELS)
def test_coriolis_matrix(which, name):
    from dynamics.algorithms import tree

    model = MODELS[which]()
    q, v, w = state(model, 3)
    nu = num(moving_base.convert_velocity(model, q, v, "left", name))
    C = num(moving_base.coriolis_matrix(model, q, nu, name))
    G = num(moving_base.gravity_force(model, q, name))
    damping = num(moving_base.convert_force(model, q, tree.diagonal(model, "damping") * ca.DM(v), "left", name))
    close(C @ nu + G + damping, num(moving_base.bias_force(model, q, nu, name)))
    Q = ca.SX.sym("q", model.nq)
    M = ca.Function("M", [Q], [moving_base.mass_matrix(model, Q, name)])
    step = mover(model)
    Mdot = ref.derivative(lambda s: num(M(step(q, s * v))), 0.0, 1e-3)
    skew = Mdot - 2 * C
    close(skew, -skew.T, 1e-7)
    assert np.abs(w @ C @ w) > 1e-6  # not trivially so


@pytest.mark.row("004:T-163")
def test_coriolis_matrix_of_a_fixed_base_arm():
    """C v is the gyroscopic force of branching trees of mixed joints by differences of poses, and dM/dt - 2 C is skew where
    velocities are rates of coordinates."""
    model = tree_of("revolute", "spherical", "prismatic", "universal", "planar", "continuous", seed=75, branching=0.7)
    q, v, _ = state(model, 0)
    C = num(moving_base.coriolis_matrix(model, q, v))
    expected = NumericalSymbols(model, q).newton_euler(v, np.zeros(model.nv))
    close(C @ v, expected, 2e-6 * (1 + np.abs(expected).max()))
    arm = random_tree(6, np.random.default_rng(76), kinds=["revolute", "prismatic"], branching=0.7)
    q, v, _ = state(arm, 1)
    C, h = num(moving_base.coriolis_matrix(arm, q, v)), 1e-3
    M_dot = (NumericalSymbols(arm, q + h * v).M() - NumericalSymbols(arm, q - h * v).M()) / (2 * h)
    close(M_dot - 2 * C, -(M_dot - 2 * C).T, 1e-5 * (1 + np.abs(M_dot).max()))


@pytest.mark.row("004:T-165")
def test_selection_matrix_and_underactuation():
    model = floating(1)
    S = num(moving_base.selection_matrix(model))
    assert S.shape == (model.nv, model.nv - 6)
    assert np.linalg.matrix_rank(S) == model.nv - 6
    close(S[:6], np.zeros((6, model.nv - 6)))
    close(S.T @ S, np.eye(model.nv - 6))
    # no torque of the joints changes the total momentum: in free fall it grows by the weight alone
    q, v, _ = state(model, 4)
    tau = S @ np.random.default_rng(0).standard_normal(model.nv - 6)
    a = num(alg.forward_dynamics(model, q, v, tau))
    Q, V = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv)
    h = ca.Function("h", [Q, V], [alg.momentum(model, Q, V)])
    step = mover(model)
    hdot = ref.derivative(lambda s: num(h(step(q, s * v + s * s / 2 * a), v + s * a)), 0.0, 1e-3)
    armature = np.array(model.bodies[0].joint.armature)
    weight = model.mass * np.array(model.gravity)
    # armature on the base's own coordinates is not a body's momentum: it enters as -armature * a
    base = num(alg.frame_pose(model, q, "b0").R) @ (armature[:3] * a[:3])
    close(hdot[:3], weight - base, 1e-6)


@pytest.mark.row("004:T-169")
@pytest.mark.parametrize("name", NAMES)
def test_unforced_motion_conserves_energy(name):
    model = floating(2, n=3, armature=False)
    q, v, _ = state(model, 5)
    Q, NU = ca.SX.sym("q", model.nq), ca.SX.sym("nu", model.nv)
    M, h = moving_base.mass_matrix(model, Q, name), moving_base.bias_force(model, Q, NU, name)
    f = ca.Function("f", [Q, NU], [moving_base.configuration_rate(model, Q, NU, name), ca.solve(M, -h)])
    nu = num(moving_base.convert_velocity(model, q, v, "left", name))

    def rhs(_, x):
        return np.concatenate([np.array(y).ravel() for y in f(x[:model.nq], x[model.nq:])])

    end = solve_ivp(rhs, (0, 0.5), np.r_[q, nu], rtol=1e-10, atol=1e-11).y[:, -1]
    q1, v1 = end[:model.nq], num(moving_base.convert_velocity(model, end[:model.nq], end[model.nq:], name, "left"))
    energy = [float(alg.total_energy(model, x, y)) for x, y in ((q, v), (q1, v1))]
    assert energy[1] == pytest.approx(energy[0], abs=1e-7)
    assert float(alg.potential_energy(model, q1)) < float(alg.potential_energy(model, q)) - 0.1  # it fell


# ------------------------------------------------------------------------------------------------ Hamel
@pytest.mark.row("004:T-171", "004:T-172")
@pytest.mark.parametrize("which", MODELS)
def test_trivialised_lagrangian(which):
    """1/2 <I xi, xi> - V with I, and the M = Y' I Y that follows from it, summed over the bodies by differences of their poses."""
    model = MODELS[which]()
    q, v, _ = state(model, 6)
    by_hand = NumericalSymbols(model, q)
    expected = by_hand.kinetic_energy(v) - by_hand.potential_energy()
    assert float(hamel.trivialised_lagrangian(model, q, v)) == pytest.approx(expected, rel=1e-7)
    x, xi = ca.SX.sym("q", model.nq), ca.SX.sym("xi", model.nv)
    bend = ca.Function("M", [x, xi], [ca.hessian(hamel.trivialised_lagrangian(model, x, xi), xi)[0]])
    close(num(bend(q, v)), by_hand.M(), 1e-8 * (1 + np.abs(by_hand.M()).max()))


@pytest.mark.row("004:T-173")
@pytest.mark.parametrize("kind", [k for k in KINDS if k != "fixed"])
def test_hamel_equations_are_inverse_dynamics(kind):
    for seed in range(2):
        model = tree_of("free_flyer", kind, "revolute", kind, seed=seed, branching=0.5)
        q, v, a = state(model, seed)
        close(num(hamel.hamel_function(model)(q, v, a)), num(alg.inverse_dynamics(model, q, v, a)), 1e-9 * 100)


@pytest.mark.parametrize("seed", range(2))
def test_hamel_equations_with_rotors(seed):
    """Armature on joints of several degrees of freedom stays a diagonal mass: it takes no part in the bracket."""
    model = tree_of("free_flyer", "spherical", "planar", seed=seed)
    from dataclasses import replace

    bodies = [replace(b, joint=replace(b.joint, armature=tuple(np.linspace(0.05, 0.4, model.kind(i).nv))))
              for i, b in enumerate(model.bodies)]
    model = replace(model, bodies=tuple(bodies))
    q, v, a = state(model, seed)
    close(num(hamel.hamel_function(model)(q, v, a)), num(alg.inverse_dynamics(model, q, v, a)), 1e-9 * 100)


@pytest.mark.row("004:T-170", "001:D09")
def test_euler_lagrange_holds_in_coordinates_and_fails_for_body_twists():
    """Trees whose velocities are rates of coordinates, by differences of poses; floating trees need the brackets."""
    for seed in range(2):
        arm = random_tree(6, np.random.default_rng(70 + seed), kinds=["revolute", "prismatic"], branching=0.7)
        assert len({body.parent for body in arm.bodies}) < 6
        q, v, a = state(arm, 8)
        expected = newton_euler(arm, q, v, a)
        close(num(hamel.hamel_function(arm, brackets=False)(q, v, a)), expected, 2e-6 * (1 + np.abs(expected).max()))
        robot = floating(6 + seed)
        q, v, a = state(robot, 8)
        wrong, right = (num(hamel.hamel_function(robot, brackets=x)(q, v, a)) for x in (False, True))
        expected = newton_euler(robot, q, v, a)
        close(right, expected, 4e-6 * (1 + np.abs(expected).max()))
        assert np.abs(wrong - expected).max() > 1e-1


# ------------------------------------------------------------------------------------------------ another base
@pytest.mark.row("004:T-164")
@pytest.mark.parametrize("which", MODELS)
def test_any_link_can_be_the_moving_base(which):
    model = MODELS[which]()
    frame = model.bodies[-1].name
    q, v, tau = state(model, 9)
    T, Y = num(moving_base.base_change(model, q, frame)), num(moving_base.base_change_inverse(model, q, frame))
    close(T @ Y, np.eye(model.nv))
    nu = T @ v
    close(nu[:6], num(alg.frame_velocity(model, q, v, frame)))
    M, h = map(num, moving_base.rebased_dynamics(model, q, nu, frame))
    assert nu @ M @ nu / 2 == pytest.approx(float(alg.kinetic_energy(model, q, v)))
    nu_dot = np.linalg.solve(M, Y.T @ tau - h)
    a = num(alg.forward_dynamics(model, q, v, tau))
    # d/dt (T v), T differentiated numerically
    Q, step = ca.SX.sym("q", model.nq), mover(model)
    f = ca.Function("T", [Q], [moving_base.base_change(model, Q, frame)])
    expected = T @ a + ref.derivative(lambda s: num(f(step(q, s * v))), 0.0, 1e-3) @ v
    close(nu_dot, expected, 1e-6 * (1 + np.abs(expected).max()))


def test_bases_that_are_not_there_are_refused():
    arm = serial_chain(3)
    with pytest.raises(ModelError, match="expected one body hanging from the world by a free_flyer joint, found none"):
        moving_base.mass_matrix(arm, np.zeros(3), "mixed")
    b = Builder("pair")
    b.body("a", parent="world", joint=Joint("ra", "free_flyer"), inertia=random_inertia(np.random.default_rng(0)))
    b.body("rail", parent="world", joint=Joint("rr", "prismatic", axes=((1.0, 0.0, 0.0),)))
    model = b.build()
    with pytest.raises(ModelError, match="does not move with the base"):
        moving_base.base_change_inverse(model, alg.neutral(model), "rail")
