"""Three roads to the equations of motion, and what acts on a robot: the dynamics chapter of the lecture notes on branching
trees."""


import casadi as ca
import numpy as np
import pytest
from row_trees import coupled, frame_jacobian, moved, numbers, pose, state, tree_of

import dynamics
from dynamics import algorithms as alg
from dynamics.algorithms import moving_frames
from dynamics.forces import Bushing, Place
from dynamics.model import BodyInertia, Builder, Joint
from dynamics.model.synthetic import random_tree
from dynamics.notation import projected_newton_euler as pne
from dynamics.notation.hamel import hamel_function
from dynamics.notation.newton_euler import cut_free

KINDS = ["revolute", "prismatic", "spherical", "universal", "planar"]


def floating(seed, bodies=7, **options):
    rng = np.random.default_rng(seed)
    return random_tree(bodies, rng, root="free_flyer", branching=0.5, kinds=KINDS, **options)


# ------------------------------------------------------------------------------------------------ three roads
@pytest.mark.row("001:D01", "001:D07", "001:D17")
@pytest.mark.parametrize("model", [floating(0), floating(1, damping=True), random_tree(7, np.random.default_rng(2), branching=0.5),
                                   tree_of("revolute", "spherical", "prismatic", "universal", branching=0.6), coupled()],
                         ids=lambda m: f"{m.name}-{m.nv}")
def test_three_methods_agree(model):
    """M a + h = tau by recursion, by projected Newton-Euler, by Hamel-Lagrange, and for every body cut free; M is positive
    definite."""
    q, v, a = state(model, 3)
    tau = np.array(dynamics.make(model, "inverse_dynamics")(q, v, a)).ravel()
    M = numbers(pne.mass_matrix, model, q)
    assert np.linalg.eigvalsh(M).min() > 0
    np.testing.assert_allclose(M, np.array(dynamics.make(model, "mass_matrix")(q)), atol=1e-10)
    np.testing.assert_allclose(M @ a - numbers(pne.combined_force, model, q, v), tau, rtol=1e-9, atol=1e-9)
    free = cut_free(model, ca.DM(q), ca.DM(v), ca.DM(tau))
    np.testing.assert_allclose(np.array(free.acceleration).ravel(), a, rtol=1e-7, atol=1e-7)
    if not model.has_coupling:
        damping = np.concatenate([np.broadcast_to(b.joint.damping or (0.0,), model.kind(i).nv) for i, b in enumerate(model.bodies)])
        np.testing.assert_allclose(np.array(hamel_function(model)(q, v, a)).ravel() + damping * v, tau, rtol=1e-9, atol=1e-9)


# ------------------------------------------------------------------------------------------------ bodies cut free
@pytest.mark.row("001:D05", "001:D07")
@pytest.mark.parametrize("seed", range(3))
def test_reactions_do_no_virtual_work(seed):
    """What a joint transmits across its motion is what its motor gives; the rest does no work on any virtual velocity; together the
    reactions at the root and gravity change the momentum."""
    model = floating(10 + seed, armature=False)
    q, v, _ = state(model, seed)
    tau = np.random.default_rng(seed).standard_normal(model.nv)
    free = cut_free(model, ca.DM(q), ca.DM(v), ca.DM(tau))
    f = np.array(free.reactions)
    for i in range(len(model.bodies)):
        S = numbers(lambda m, x, i=i: alg.tree.coupled_subspace(m, i, x), model, q).reshape(6, -1)
        np.testing.assert_allclose(S.T @ f[:, i], tau[model.v_slice(i)], atol=1e-8)
    np.testing.assert_allclose(f[:, 0], tau[:6], atol=1e-8)  # nothing holds a floating base
    h = 1e-5
    a = np.array(free.acceleration).ravel()
    momentum = dynamics.make(model, "momentum")
    # the free motion changes momentum by the outer wrench alone: tau on the base acts on its parent, the world
    ahead, behind = (np.array(momentum(moved(model, q, s * h * v + h * h / 2 * a), v + s * h * a)).ravel() for s in (1, -1))
    R, p = pose(model, q, model.bodies[0].name)
    push, turn = R @ tau[:3], R @ tau[3:6]
    com = np.array(dynamics.make(model, "centre_of_mass")(q)).ravel()
    weight = model.mass * np.array(model.gravity)
    np.testing.assert_allclose((ahead - behind)[:3] / (2 * h), push + weight, atol=1e-6 * (1 + np.abs(ahead).max()))
    np.testing.assert_allclose((ahead - behind)[3:] / (2 * h), turn + np.cross(p, push) + np.cross(com, weight),
                               atol=1e-6 * (1 + np.abs(ahead).max()))


@pytest.mark.row("001:D08")
def test_cart_and_pendulum():
    """Example 3.3.1 with numbers: accelerations, force at the pivot, force of the rail, from the six planar equations of two
    bodies."""
    m_c, m_p, l, theta, g, F, phi, rate, phi_rate = 1.3, 0.7, 0.5, 0.04, 9.81, 0.9, 0.6, 0.3, -1.1
    b = Builder("cart_pendulum")
    thin = ((theta, 0, 0), (0, theta, 0), (0, 0, theta))
    b.body("cart", parent="world", joint=Joint("rail", "prismatic", axes=((1.0, 0, 0),)), inertia=BodyInertia(m_c, (0, 0, 0), thin))
    b.body("pendulum", parent="cart", joint=Joint("pivot", "revolute", axes=((0, -1.0, 0),)),
           inertia=BodyInertia(m_p, (0, 0, -l), thin))
    model = b.build()
    free = cut_free(model, ca.DM([0.2, phi]), ca.DM([rate, phi_rate]), ca.DM([F, 0.0]))
    c, s = np.cos(phi), np.sin(phi)
    M = np.array([[m_c + m_p, m_p * l * c], [m_p * l * c, m_p * l**2 + theta]])
    lagrange = np.linalg.solve(M, [F + m_p * l * s * phi_rate**2, -m_p * g * l * s])
    np.testing.assert_allclose(np.array(free.acceleration).ravel(), lagrange, atol=1e-12)
    np.testing.assert_allclose(lagrange, [2.32268494, -12.13789788], atol=1e-8)
    R, _ = pose(model, np.array([0.2, phi]), "pendulum")
    np.testing.assert_allclose((R @ np.array(free.reactions)[:3, 1])[[0, 2]], [-2.11949042, 4.81777920], atol=1e-8)
    assert float(free.reactions[2, 0]) == pytest.approx(17.57077920, abs=1e-8)


# ------------------------------------------------------------------------------------------------ single bodies
def brick(theta=((0.4, 0.05, 0.0), (0.05, 0.7, 0.1), (0.0, 0.1, 0.5)), com=(0.1, -0.2, 0.05)):
    b = Builder("brick")
    b.body("brick", parent="world", joint=Joint("base", "free_flyer"), inertia=BodyInertia(1.7, com, theta))
    return b.build()


# ------------------------------------------------------------------------------------------------ what acts on a robot
@pytest.mark.row("001:D13", "001:D19")
@pytest.mark.parametrize("seed", range(2))
def test_external_forces_by_their_power(seed):
    """tau'v = sum F.v + T.Ω over forces anywhere on a floating tree; a force at P is the same force at the mass centre and a
    moment."""
    model, rng = floating(50 + seed), np.random.default_rng(seed)
    q, v, _ = state(model, seed)
    items = [pne.Applied(f"b{i}", tuple(rng.standard_normal(3)), tuple(rng.standard_normal(3)), tuple(rng.standard_normal(3)))
             for i in (1, 4, 6)]
    weight = numbers(lambda m, x: pne.applied_force(m, x, []), model, q)
    tau = numbers(lambda m, x: pne.applied_force(m, x, items), model, q) - weight
    power = 0.0
    for item in items:
        ahead, behind = (pose(model, moved(model, q, s * 1e-6 * v), item.frame) for s in (1, -1))
        speed = (ahead[1] + ahead[0] @ np.array(item.point) - behind[1] - behind[0] @ np.array(item.point)) / 2e-6
        spin = (ahead[0] - behind[0]) / 2e-6 @ pose(model, q, item.frame)[0].T
        power += np.array(item.force) @ speed + np.array(item.torque) @ [spin[2, 1], spin[0, 2], spin[1, 0]]
    assert tau @ v == pytest.approx(power, abs=1e-6 * (1 + abs(power)))
    one, body = items[1], model.bodies[4]
    R, com = pose(model, q, "b4")[0], np.array(body.inertia.com)
    arm = R @ (np.array(one.point) - com)
    J_S, J_P = (numbers(lambda m, x, p=p: moving_frames.point_jacobian(m, x, "b4", ca.DM(p)), model, q) for p in (com, one.point))
    J_R = frame_jacobian(model, q, "b4")[3:]
    np.testing.assert_allclose(J_P, J_S - np.cross(np.eye(3), arm) @ J_R, atol=1e-12)
    F = np.array(one.force)
    np.testing.assert_allclose(J_P.T @ F, J_S.T @ F + J_R.T @ np.cross(arm, F), atol=1e-11)


@pytest.mark.row("001:D18")
def test_actuators_between_bodies():
    """Action and reaction: a motor at a revolute joint is one entry of tau, at any place of the tree; a cylinder between two
    points of different branches is its force times the gradient of its length."""
    model = floating(60, bodies=8, armature=False)
    q, v, _ = state(model, 1)
    weight = numbers(lambda m, x: pne.applied_force(m, x, []), model, q)
    for i, body in enumerate(model.bodies):
        if body.joint.kind == "revolute" and body.parent >= 0:
            axis = pose(model, q, body.name)[0] @ np.array(body.joint.axes[0]) / np.linalg.norm(body.joint.axes[0])
            torque = tuple(3.0 * axis)
            pair = [pne.Applied(body.name, torque=torque), pne.Applied(model.bodies[body.parent].name, torque=tuple(-3.0 * axis))]
            got = numbers(lambda m, x, pair=pair: pne.applied_force(m, x, pair), model, q) - weight
            np.testing.assert_allclose(got, 3.0 * np.eye(model.nv)[model.v_slice(i).start], atol=1e-10)
    one, two = Place("b2", (0.1, 0.2, 0.0)), Place("b7", (-0.1, 0.0, 0.3))
    x1, x2 = numbers(one.at, model, q), numbers(two.at, model, q)
    along = (x2 - x1) / np.linalg.norm(x2 - x1)
    pair = [pne.Applied("b7", tuple(5.0 * along), two.position), pne.Applied("b2", tuple(-5.0 * along), one.position)]
    got = numbers(lambda m, x: pne.applied_force(m, x, pair), model, q) - weight

    def length(x):
        return np.linalg.norm(numbers(two.at, model, x) - numbers(one.at, model, x))

    slope = [(length(moved(model, q, 1e-6 * e)) - length(moved(model, q, -1e-6 * e))) / 2e-6 for e in np.eye(model.nv)]
    np.testing.assert_allclose(got, 5.0 * np.array(slope), atol=1e-7)


@pytest.mark.row("001:D23")
def test_soft_contact():
    """F = k_p (r - r_0) + k_d r' on the ground, anchored at the first touch: at rest a foot sinks in by its load over k; towards
    infinite stiffness the robot moves as on a hard contact."""
    model = brick(((0.4, 0, 0), (0, 0.4, 0), (0, 0, 0.4)), (0, 0, 0))
    ground = Bushing("ground", Place("world"), Place("brick"), k=400.0, c=30.0)
    forward, plus = dynamics.make(model, "forward_dynamics"), dynamics.make(model, "integrate")
    x, w = ca.SX.sym("q", model.nq), ca.SX.sym("v", 6)
    push = ca.Function("push", [x, w], [ground.effort(model, x, w)])
    q, v, _ = state(model, 5)
    R, p = pose(model, q, "brick")
    np.testing.assert_allclose(np.array(push(q, v)).ravel(), np.r_[-400.0 * R.T @ p - 30.0 * v[:3], 0, 0, 0], atol=1e-10)
    q, v, dt = np.array(alg.neutral(model)).ravel(), np.zeros(6), 2e-3
    for _ in range(1500):
        v = v + dt * np.array(forward(q, v, push(q, v))).ravel()
        q = np.array(plus(q, dt * v)).ravel()
    assert pose(model, q, "brick")[1][2] == pytest.approx(-1.7 * 9.81 / 400.0, abs=1e-6)
    tree = floating(80)
    q, v, _ = state(tree, 4)
    foot = ("b6", (0.1, -0.2, 0.3))
    J = numbers(lambda m, x: moving_frames.point_jacobian(m, x, foot[0], ca.DM(foot[1])), tree, q)
    v = v - np.linalg.pinv(J) @ (J @ v)
    anchor = Place("world", tuple(numbers(Place(*foot).at, tree, q)))
    M, h = np.array(dynamics.make(tree, "mass_matrix")(q)), np.array(dynamics.make(tree, "bias_force")(q, v)).ravel()
    drift = numbers(lambda m, x, y: moving_frames.point_acceleration(m, x, y, ca.DM(m.nv, 1), foot[0], ca.DM(foot[1])), tree, q, v)
    hard = np.linalg.solve(M, -h - J.T @ np.linalg.solve(J @ np.linalg.solve(M, J.T), drift - J @ np.linalg.solve(M, h)))
    np.testing.assert_allclose(J @ hard + drift, 0, atol=1e-9)
    gaps = []
    for k in (1e8, 1e10):  # one implicit step, short against the motion and long against the spring
        soft, dt = Bushing("soft", anchor, Place(*foot), k=k), 1e-3
        K = -numbers(soft.stiffness, tree, q, v)
        np.testing.assert_allclose(K, k * J.T @ J, atol=1e-6 * k)
        a = np.linalg.solve(M + dt**2 * K, -h - dt**2 * k * J.T @ drift)
        gaps.append(np.abs(a - hard).max())
    assert gaps[1] < 0.02 * gaps[0]
    assert gaps[1] < 1e-2 * (1 + np.abs(hard).max())
