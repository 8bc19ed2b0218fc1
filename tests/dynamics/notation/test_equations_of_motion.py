"""Three roads to the equations of motion, and what acts on a robot: the dynamics chapter of the lecture notes on branching
trees."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from row_trees import coupled, frame_jacobian, moved, numbers, pose, state, tree_of

import dynamics
from dynamics import algorithms as alg
from dynamics.algorithms import floating_base, jacobian_rate, jacobians, moving_frames
from dynamics.forces import Bushing, JointSpring, Place, Spring
from dynamics.model import BodyInertia, Builder, Joint
from dynamics.model.synthetic import random_tree
from dynamics.notation import projected_newton_euler as pne
from dynamics.notation.hamel import hamel_function
from dynamics.notation.inertia import parallel_axis
from dynamics.notation.newton_euler import cut_free

KINDS = ["revolute", "prismatic", "spherical", "universal", "planar"]


def floating(seed, bodies=7, **options):
    rng = np.random.default_rng(seed)
    return random_tree(bodies, rng, root="free_flyer", branching=0.5, kinds=KINDS, **options)


def values(function):
    return [np.array(x).ravel() if x.shape[1] == 1 else np.array(x) for x in function]


# ------------------------------------------------------------------------------------------------ three roads
@pytest.mark.row("001:D01", "001:D07", "001:D17")
@pytest.mark.parametrize("model", [floating(0), floating(1, damping=True), random_tree(7, np.random.default_rng(2), branching=0.5),
                                   tree_of("revolute", "spherical", "prismatic", "universal", branching=0.6), coupled()],
                         ids=lambda m: f"{m.name}-{m.nv}")
def test_three_roads_agree(model):
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


@pytest.mark.row("001:D09")
@pytest.mark.parametrize("seed", range(3))
def test_lagrange_of_the_second_kind(seed):
    """d/dt dL/dq' - dL/dq by differentiation alone is RNEA where velocities are rates; in quasi-velocities it is not, and lacks the
    bracket."""
    model = random_tree(6, np.random.default_rng(seed), kinds=["revolute", "prismatic", "universal"], branching=0.5)
    q, v, a = state(model, seed)
    tau = np.array(dynamics.make(model, "inverse_dynamics")(q, v, a)).ravel()
    np.testing.assert_allclose(np.array(hamel_function(model, brackets=False)(q, v, a)).ravel(), tau, rtol=1e-9, atol=1e-9)
    quasi = floating(seed, armature=False)
    q, v, a = state(quasi, seed)
    tau = np.array(dynamics.make(quasi, "inverse_dynamics")(q, v, a)).ravel()
    assert np.abs(np.array(hamel_function(quasi, brackets=False)(q, v, a)).ravel() - tau).max() > 1e-2
    np.testing.assert_allclose(np.array(hamel_function(quasi)(q, v, a)).ravel(), tau, rtol=1e-9, atol=1e-9)


@pytest.mark.row("001:D17")
@pytest.mark.parametrize("seed", range(2))
def test_projection_in_inertial_axes(seed):
    """M and b as sums over bodies with everything in world axes, Jacobians of the mass centres and their rates by differences, are
    those of body axes; dM/dt - 2 C is skew in the quadratic form v'(dM/dt) v = 2 v'b for velocities that are rates."""
    model = random_tree(6, np.random.default_rng(seed), kinds=["revolute", "prismatic"], branching=0.5, armature=False)
    (q, v, _), h = state(model, seed), 1e-6
    M, b, g = np.zeros((model.nv,) * 2), np.zeros(model.nv), np.zeros(model.nv)

    def at(q, body):
        R, _ = pose(model, q, body.name)
        J = frame_jacobian(model, q, body.name)
        arm = R @ np.array(body.inertia.com)
        return J[:3] - np.cross(np.eye(3), arm) @ J[3:], J[3:], R @ np.array(body.inertia.inertia) @ R.T

    for body in model.bodies:
        J_S, J_R, theta = at(q, body)
        ahead, behind = at(q + h * v, body), at(q - h * v, body)
        rate_S, rate_R = ((ahead[k] - behind[k]) / (2 * h) for k in (0, 1))
        omega, m = J_R @ v, body.inertia.mass
        M += m * J_S.T @ J_S + J_R.T @ theta @ J_R
        b += m * J_S.T @ (rate_S @ v) + J_R.T @ (theta @ rate_R @ v + np.cross(omega, theta @ omega))
        g -= J_S.T @ (m * np.array(model.gravity))
    np.testing.assert_allclose(M, np.array(dynamics.make(model, "mass_matrix")(q)), atol=1e-9)
    np.testing.assert_allclose(b + g, np.array(dynamics.make(model, "bias_force")(q, v)).ravel(), atol=1e-6)
    mass = dynamics.make(model, "mass_matrix")
    rate = (np.array(mass(q + h * v)) - np.array(mass(q - h * v))) / (2 * h)
    assert v @ rate @ v == pytest.approx(2 * v @ b, abs=1e-5 * (1 + abs(v @ b)))


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


@pytest.mark.row("001:D02")
def test_a_particle_falls_on_a_parabola():
    b = Builder("particle")
    b.body("particle", parent="world", joint=Joint("at", "translation"), inertia=BodyInertia(2.0, (0, 0, 0), ((0,) * 3,) * 3))
    model = b.build()
    force = np.array([0.6, -1.0, 4.0])
    a = np.array(dynamics.make(model, "forward_dynamics")([1, 2, 3], [0.5, 0, 1], force)).ravel()
    np.testing.assert_allclose(a, force / 2.0 + [0, 0, -9.81], atol=1e-14)


@pytest.mark.row("001:D03")
@pytest.mark.parametrize("seed", range(3))
def test_points_of_a_body(seed):
    """r' = [1, -ρ^] (v_S; Ω), r'' = [1, -ρ^] (a_S; Ψ) + Ω^² ρ, and virtual displacements alike: by differences of a moving
    point."""
    model, rng = floating(20 + seed), np.random.default_rng(seed)
    q, v, a = state(model, seed)
    body = model.bodies[-1].name
    at_S, rho_B = np.array(model.bodies[-1].inertia.com), rng.standard_normal(3)
    R, _ = pose(model, q, body)
    rho = R @ rho_B
    J = [numbers(lambda m, x, p=p: moving_frames.point_jacobian(m, x, body, ca.DM(p)), model, q) for p in (at_S, at_S + rho_B)]
    J_R = frame_jacobian(model, q, body)[3:]
    block = np.hstack([np.eye(3), -np.cross(np.eye(3), rho)])
    d = rng.standard_normal(model.nv)
    shift = [pose(model, moved(model, q, s * 1e-6 * d), body) for s in (1, -1)]
    points = [p + R @ (at_S + rho_B) for R, p in shift]
    np.testing.assert_allclose(block @ np.r_[J[0] @ d, J_R @ d], (points[0] - points[1]) / 2e-6, atol=1e-7)
    acc = [numbers(lambda m, x, y, z, p=p: moving_frames.point_acceleration(m, x, y, z, body, ca.DM(p)), model, q, v, a)
           for p in (at_S, at_S + rho_B)]
    omega = J_R @ v
    psi = J_R @ a + numbers(lambda m, x, y: jacobians.frame_jacobian_drift(m, x, y, body, "world_aligned"), model, q, v)[3:]
    hat = np.cross(np.eye(3), omega)
    np.testing.assert_allclose(block @ np.r_[acc[0], psi] + hat @ hat @ rho, acc[1], atol=1e-9 * (1 + np.abs(acc[1]).max()))


@pytest.mark.row("001:D04")
@pytest.mark.parametrize("reference", ["body", "world_aligned"])
def test_rates_of_jacobians(reference):
    """dJ/dt along the motion by differences, translation and rotation, on a floating branching tree; (a; Ψ) = J a + dJ/dt v."""
    for seed in range(2):
        model = floating(30 + seed)
        q, v, _ = state(model, seed)
        frame = model.bodies[-1].name
        rate = numbers(lambda m, x, y: jacobian_rate.frame_jacobian_rate(m, x, y, frame, reference), model, q, v)  # noqa: B023
        ahead, behind = (frame_jacobian(model, moved(model, q, s * 1e-6 * v), frame, reference) for s in (1, -1))
        np.testing.assert_allclose(rate, (ahead - behind) / 2e-6, atol=2e-8 * (1 + np.abs(rate).max()))
        drift = numbers(lambda m, x, y: jacobians.frame_jacobian_drift(m, x, y, frame, reference), model, q, v)  # noqa: B023
        np.testing.assert_allclose(rate @ v, drift, atol=1e-10 * (1 + np.abs(drift).max()))


@pytest.mark.row("001:D06")
def test_one_rigid_body():
    """m a_S = F, Θ Ψ + Ω x Θ Ω = T about the mass centre, which is not the origin; without moments the angular momentum and energy
    stay while Ω tumbles; the tensor turns and shifts with its axes."""
    model, rng = brick(), np.random.default_rng(0)
    q, v, tau = alg.random_configuration(model, rng), 3 * rng.standard_normal(6), rng.standard_normal(6)
    R, _ = pose(model, q, "brick")
    body = model.bodies[0].inertia
    com, theta, m, omega = np.array(body.com), np.array(body.inertia), body.mass, v[3:]
    a = np.array(dynamics.make(model, "forward_dynamics")(q, v, tau)).ravel()
    a_B = a[:3] + np.cross(omega, v[:3])  # of the origin, in body axes
    a_S = a_B + np.cross(a[3:], com) + np.cross(omega, np.cross(omega, com))
    np.testing.assert_allclose(m * a_S, tau[:3] + m * R.T @ np.array(model.gravity), atol=1e-10)
    np.testing.assert_allclose(theta @ a[3:] + np.cross(omega, theta @ omega), tau[3:] - np.cross(com, tau[:3]), atol=1e-10)
    plus, momentum = dynamics.make(model, "integrate"), dynamics.make(model, "momentum")
    energy, dt, x, w = dynamics.make(model, "kinetic_energy"), 1e-3, q, v
    free = dynamics.make(replace(model, gravity=(0.0, 0.0, 0.0)), "forward_dynamics")
    start = np.array(momentum(q, v)).ravel()
    first = float(energy(q, v))
    for _ in range(400):  # the midpoint rule, two rounds
        middle = w
        for _ in range(3):
            half = np.array(plus(x, dt / 2 * middle)).ravel()
            middle = w + dt / 2 * np.array(free(half, middle, np.zeros(6))).ravel()
        x, w = np.array(plus(x, dt * middle)).ravel(), 2 * middle - w
    np.testing.assert_allclose(np.array(momentum(x, w)).ravel(), start, atol=1e-3 * np.abs(start).max())
    assert float(energy(x, w)) == pytest.approx(first, rel=1e-4)
    assert np.abs(w[3:] - v[3:]).max() > 0.1
    # Θ = ∫ ρ^ ρ^T dm of forty masses, turned and shifted: what the body of their sum has as its mass matrix at the origin
    masses, points = rng.uniform(0.1, 1.0, 40), 0.3 * rng.standard_normal((40, 3))
    skew = [np.cross(np.eye(3), r) for r in points - masses @ points / masses.sum()]
    at_com, shift = sum(m * s @ s.T for m, s in zip(masses, skew, strict=True)), rng.standard_normal(3)
    b = Builder("cloud")
    b.body("cloud", parent="world", joint=Joint("base", "free_flyer"), inertia=BodyInertia(
        masses.sum(), tuple(shift), tuple(map(tuple, R @ at_com @ R.T))))
    whole = np.zeros((6, 6))
    for m, r in zip(masses, points - masses @ points / masses.sum(), strict=True):
        J = np.hstack([np.eye(3), -np.cross(np.eye(3), R @ r + shift)])
        whole += m * J.T @ J
    np.testing.assert_allclose(np.array(dynamics.make(b.build(), "mass_matrix")(q)), whole, atol=1e-12)
    about_origin = parallel_axis(masses.sum(), ca.DM(shift), ca.DM(R), ca.DM(at_com))
    np.testing.assert_allclose(np.array(about_origin), whole[3:, 3:], atol=1e-12)


# ------------------------------------------------------------------------------------------------ what acts on a robot
@pytest.mark.row("001:D12")
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_springs_are_potentials_and_external_forces(seed):
    """Springs between points and at joints on a floating tree: minus the gradient of 1/2 k (d - d0)², and J'F of the pull at both
    ends."""
    model, rng = floating(40 + seed), np.random.default_rng(seed)
    q, v, _ = state(model, seed)
    joint = next(b.joint.name for b in model.bodies if b.joint.kind in ("revolute", "prismatic"))
    ends = Place("b3", tuple(rng.standard_normal(3))), Place("b5", tuple(rng.standard_normal(3)))
    line = Spring("line", ends, k=30.0, length=0.4)
    for force in (line, JointSpring("knee", joint, 12.0, 0.3), Bushing("soft", *ends, k=9.0)):
        energy, effort = force.energy, numbers(force.effort, model, q, v)
        slope = [(numbers(energy, model, moved(model, q, 1e-6 * e)) - numbers(energy, model, moved(model, q, -1e-6 * e))) / 2e-6
                 for e in np.eye(model.nv)]
        np.testing.assert_allclose(effort, -np.ravel(slope), atol=1e-6 * (1 + np.abs(effort).max()))
    points = [numbers(place.at, model, q) for place in ends]
    length = np.linalg.norm(points[1] - points[0])
    pull = 30.0 * (length - 0.4) * (points[1] - points[0]) / length
    both = [pne.Applied("b3", tuple(pull), ends[0].position), pne.Applied("b5", tuple(-pull), ends[1].position)]
    weight = numbers(lambda m, x: pne.applied_force(m, x, []), model, q)
    np.testing.assert_allclose(numbers(lambda m, x: pne.applied_force(m, x, both), model, q) - weight,
                               numbers(line.effort, model, q, v), atol=1e-9 * (1 + np.abs(pull).max()))


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


@pytest.mark.row("001:D21")
def test_selection_of_a_floating_base():
    """S = [0 1] picks the joints, in house and in hybrid velocities: no torque acts on the base rows, M a + h = S'tau there is free
    fall, and the power of the motors is tau . joint rates."""
    model = floating(70, armature=False)
    q, v, _ = state(model, 2)
    S = np.eye(model.nv)[6:]
    tau = np.random.default_rng(3).standard_normal(model.nv - 6)
    a = np.array(dynamics.make(model, "forward_dynamics")(q, v, S.T @ tau)).ravel()
    M, h = np.array(dynamics.make(model, "mass_matrix")(q)), np.array(dynamics.make(model, "bias_force")(q, v)).ravel()
    np.testing.assert_allclose((M @ a + h)[:6], 0, atol=1e-8)
    np.testing.assert_allclose(S @ (M @ a + h), tau, atol=1e-8)
    assert (S.T @ tau) @ v == pytest.approx(tau @ v[6:])
    B = numbers(floating_base.hybrid_from_body, model, q)
    np.testing.assert_allclose(B.T @ S.T, S.T, atol=1e-15)  # the joints keep their torques in hybrid velocities
    h_, com, momentum = 1e-5, dynamics.make(model, "centre_of_mass"), dynamics.make(model, "momentum")
    at = [moved(model, q, s * h_ * v + h_**2 / 2 * a) for s in (1, -1)]
    base = [pose(model, x, model.bodies[0].name)[1] for x in at]
    np.testing.assert_allclose((B @ v)[:3], (base[0] - base[1]) / (2 * h_), atol=1e-8)
    M_u = numbers(lambda m, x: pne.mass_matrix(m, x, "hybrid"), model, q)
    du = numbers(floating_base.hybrid_acceleration, model, q, v, a)
    pushed = numbers(lambda m, x, u: pne.combined_force(m, x, u, velocity="hybrid"), model, q, B @ v)
    np.testing.assert_allclose(M_u @ du - pushed, S.T @ tau, atol=1e-8)
    speeds = [np.array(momentum(x, v + s * h_ * a)).ravel() for x, s in zip(at, (1, -1), strict=True)]
    weight, size = model.mass * np.array(model.gravity), 1e-6 * np.abs(speeds).max()
    np.testing.assert_allclose((speeds[0][:3] - speeds[1][:3]) / (2 * h_), weight, atol=size)
    about = [s[3:] - np.cross(np.array(com(x)).ravel(), s[:3]) for x, s in zip(at, speeds, strict=True)]
    np.testing.assert_allclose((about[0] - about[1]) / (2 * h_), 0, atol=1e-6 * (1 + np.abs(about[0]).max()))


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
