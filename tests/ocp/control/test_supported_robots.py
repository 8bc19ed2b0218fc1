"""Robots on their supports: forces, motions and torques against one linear system of all unknowns."""

import numpy as np
import pytest
from cascade import solve_cascade
from standing import biped, feet_accelerations, feet_positions, quadruped, standing, tree

import dynamics
from dynamics import algorithms as alg
from dynamics.algorithms.contact_kinematics import Contact
from dynamics.model import BodyInertia, Builder, Joint
from dynamics.model.synthetic import random_tree
from ocp.control.notation.supported import supported, virtual_model
from ocp.errors import ProblemError
from ocp.solvers.hqp import Level, solve_hqp

ROBOTS = [(quadruped, 3), (quadruped, 4, 1), (tree, 2), (tree, 4, 1), (biped,)]


@pytest.fixture
def robot(request):
    make, *arguments = request.param
    return make(*arguments)


def on(robot):
    return supported(robot.M, robot.h, robot.J, robot.drift, robot.S)


def consistent(robot, seed=0):
    """A random acceleration that leaves the contacts at rest."""
    a = np.random.default_rng(seed).standard_normal(len(robot.h))
    return a - np.linalg.pinv(robot.J, rcond=1e-9) @ (robot.J @ a + robot.drift)


@pytest.mark.row("001:D22", "001:D24", "001:D26")
@pytest.mark.parametrize("robot", ROBOTS, indirect=True)
def test_forces_and_motion_on_hard_contacts(robot):
    """F_c of Eq. 3.62 is the multiplier of the constrained motion, with the sign of the robot on its supports; the projected
    equations hold. With redundant contacts too."""
    torque = 10 * np.random.default_rng(1).standard_normal(len(robot.S))
    own, (a, force) = on(robot), robot.motion(torque)
    np.testing.assert_allclose(own.acceleration(torque), a, atol=1e-7 * (1 + np.abs(a).max()))
    np.testing.assert_allclose(own.force(torque), force, atol=1e-7 * (1 + np.abs(force).max()))
    np.testing.assert_allclose(feet_accelerations(robot, own.acceleration(torque)), 0, atol=1e-5 * (1 + np.abs(a).max()))
    np.testing.assert_allclose(robot.M @ a + robot.h + robot.J.T @ own.force(torque), robot.S.T @ torque, atol=1e-7)
    N = own.projector
    np.testing.assert_allclose(N.T @ (robot.M @ a + robot.h), N.T @ robot.S.T @ torque, atol=1e-7)
    # Eq. 3.65 alone leaves the accelerations of the supports open: its rank is what the supports leave
    assert np.linalg.matrix_rank(N.T @ robot.M, tol=1e-8) == len(robot.h) - np.linalg.matrix_rank(robot.J, tol=1e-8)


@pytest.mark.row("001:D24", "001:D25", "001:D28")
def test_contact_inertia_in_closed_form():
    """A mass at rest pushes down with its weight; a rod hit across its end answers with a quarter of its mass."""
    b = Builder("block")
    b.body("block", parent="world", joint=Joint("base", "free_flyer"),
           inertia=BodyInertia(2.0, (0, 0, 0), ((0.1, 0, 0), (0, 0.1, 0), (0, 0, 0.1))))
    model = b.build()
    robot = standing(model, [Contact("block")], np.array(alg.neutral(model)).ravel(), np.zeros(6))
    own = supported(robot.M, robot.h, robot.J, robot.drift, np.zeros((0, 6)))
    np.testing.assert_allclose(own.force(np.zeros(0)), [0, 0, -2.0 * 9.81], atol=1e-12)
    b = Builder("rod")
    m, length = 3.0, 0.8
    b.body("rod", parent="world", joint=Joint("base", "free_flyer"),
           inertia=BodyInertia(m, (0, 0, 0), ((m * length**2 / 12, 0, 0), (0, m * length**2 / 12, 0), (0, 0, 1e-6))))
    rod = b.build()
    robot = standing(rod, [Contact("rod", (0, 0, length / 2))], np.array(alg.neutral(rod)).ravel(), np.zeros(6))
    Lambda = supported(robot.M, robot.h, robot.J, robot.drift, robot.S).inertia
    np.testing.assert_allclose(Lambda, np.diag([m / 4, m / 4, m]), atol=1e-12)


@pytest.mark.row("001:D25")
@pytest.mark.parametrize("robot", ROBOTS, indirect=True)
def test_support_null_space(robot):
    """Idempotent, no motion of the supports, no force of theirs passes, symmetric in the metric M, of the right rank."""
    N = on(robot).projector
    size = 1e-8 * (1 + np.abs(N).max())
    np.testing.assert_allclose(N @ N, N, atol=size)
    np.testing.assert_allclose(robot.J @ N, 0, atol=size)
    np.testing.assert_allclose(N @ np.linalg.solve(robot.M, robot.J.T), 0, atol=size)
    np.testing.assert_allclose(robot.M @ N, N.T @ robot.M, atol=size * np.abs(robot.M).max())
    assert round(np.trace(N)) == len(robot.h) - np.linalg.matrix_rank(robot.J, tol=1e-8)


@pytest.mark.row("001:D27", "001:D29", "001:D30")
@pytest.mark.parametrize("robot", ROBOTS, indirect=True)
def test_landing_without_rebound(robot):
    """The impulse balances the momentum, the feet stop, nothing else is pushed: of all velocities with feet at rest the nearest in
    the metric M; a second landing changes nothing; energy is lost by two formulas. Redundant contacts included."""
    own, arriving = on(robot), np.random.default_rng(11).standard_normal(len(robot.h))
    left, impulse = own.after_impact(arriving), own.impulse(arriving)
    np.testing.assert_allclose(robot.J @ left, 0, atol=1e-8)
    np.testing.assert_allclose(robot.M @ (left - arriving), -robot.J.T @ impulse, atol=1e-8 * (1 + np.abs(impulse).max()))
    np.testing.assert_allclose(own.after_impact(left), left, atol=1e-8)
    free = np.linalg.svd(robot.J)[2][np.linalg.matrix_rank(robot.J, tol=1e-8):].T
    nearest = free @ np.linalg.solve(free.T @ robot.M @ free, free.T @ robot.M @ arriving)
    np.testing.assert_allclose(left, nearest, atol=1e-8)
    lost = 0.5 * left @ robot.M @ left - 0.5 * arriving @ robot.M @ arriving
    jump = left - arriving
    assert lost < -1e-3
    assert own.impact_energy(arriving) == pytest.approx(lost, rel=1e-8) == pytest.approx(-0.5 * jump @ robot.M @ jump, rel=1e-8)


@pytest.mark.row("001:D30")
def test_energy_of_a_rod_that_lands_on_its_end():
    """A quarter of the mass stops at the end: of 1/2 m v² a quarter is lost."""
    m, length, speed = 3.0, 0.8, 2.0
    b = Builder("rod")
    b.body("rod", parent="world", joint=Joint("base", "free_flyer"),
           inertia=BodyInertia(m, (0, 0, 0), ((m * length**2 / 12, 0, 0), (0, m * length**2 / 12, 0), (0, 0, 1e-6))))
    rod = b.build()
    robot = standing(rod, [Contact("rod", (0, 0, length / 2))], np.array(alg.neutral(rod)).ravel(), np.zeros(6))
    assert on(robot).impact_energy([speed, 0, 0, 0, 0, 0]) == pytest.approx(-m * speed**2 / 8)


@pytest.mark.row("001:C14", "001:C15")
@pytest.mark.parametrize(("feet", "internal", "missing"), [(0, 0, 6), (1, 0, 3), (2, 1, 1), (3, 3, 0), (4, 6, 0)])
def test_floating_base_inverse_dynamics(feet, internal, missing):
    """The table of stance feet: with three or four the torque gives any consistent acceleration, with fewer some motions have no
    torque; and the torques that move nothing count as the forces between the feet do."""
    for seed in range(3):
        robot = quadruped(feet, seed)
        own, wanted = on(robot), consistent(robot, seed)
        assert (own.internal, own.uncommanded) == (internal, missing)
        a, _ = robot.motion(own.torque(wanted))
        error = np.abs(a - wanted).max()
        assert error < 1e-8 if not missing else error > 1e-3


@pytest.mark.row("001:C14")
@pytest.mark.parametrize("robot", [(tree, 3, 2), (tree, 4, 3), (biped, 2)], indirect=True)
def test_inverse_dynamics_of_other_trees(robot):
    wanted = consistent(robot)
    a, _ = robot.motion(on(robot).torque(wanted))
    np.testing.assert_allclose(a, wanted, atol=1e-6)


@pytest.mark.row("001:C15", "001:C16")
@pytest.mark.parametrize("robot", [(quadruped, 3, 4), (quadruped, 4, 5), (biped, 3), (tree, 4, 3)], indirect=True)
def test_internal_forces_and_the_smallest_torque(robot):
    """Null-space torques change the forces but neither the motion nor the net wrench of the supports; without them the torque is
    the smallest of all that give this motion."""
    own, wanted = on(robot), consistent(robot)
    least = own.torque(wanted)
    some = own.torque(wanted, 20 * np.random.default_rng(2).standard_normal(len(robot.S)))
    assert np.linalg.norm(some) > np.linalg.norm(least) + 0.1
    (a, force), (b, other) = robot.motion(least), robot.motion(some)
    np.testing.assert_allclose(b, a, atol=1e-6)
    assert np.abs(other - force).max() > 0.1
    change = (other - force).reshape(-1, 3)
    np.testing.assert_allclose(change.sum(0), 0, atol=1e-7 * np.abs(change).max())
    moments = np.cross(feet_positions(robot).T, change).sum(0)
    np.testing.assert_allclose(moments, 0, atol=1e-7 * np.abs(change).max())
    # all torques that give this motion: S'tau = M a + h + J'F for some F; the smallest of them directly
    passive = np.linalg.lstsq(robot.J.T[:6], -(robot.M @ wanted + robot.h)[:6], rcond=1e-11)
    U, s, Vt = np.linalg.svd(robot.J.T[:6])
    free = Vt[int(np.sum(s > 1e-9 * s[0])):].T
    start = (robot.M @ wanted + robot.h + robot.J.T @ passive[0])[6:]
    best = start - (robot.J.T[6:] @ free) @ np.linalg.lstsq(robot.J.T[6:] @ free, start, rcond=1e-11)[0]
    np.testing.assert_allclose(least, best, atol=1e-6 * (1 + np.abs(best).max()))


@pytest.mark.row("001:C21", "001:C23", "001:C25")
@pytest.mark.parametrize("solve", [solve_hqp, solve_cascade])
@pytest.mark.parametrize("feet", [3, 4])
def test_least_torque_of_the_hierarchy_is_the_closed_form(feet, solve):
    """Equations of motion, contacts at rest, accelerations, least torque, with x = (a, F_c, tau): the torque of Eq. 3.100. The
    signs are those of the notes: F_c pushes the supports."""
    robot = quadruped(feet, 6)
    n, c, k = len(robot.h), len(robot.drift), len(robot.S)
    wanted = consistent(robot)

    def over(block, first):
        A = np.zeros((block.shape[0], n + c + k))
        A[:, first:first + block.shape[1]] = block
        return A

    answer = solve([Level("equations", np.hstack([robot.M, robot.J.T, -robot.S.T]), -robot.h),
                    Level("contacts", over(robot.J, 0), -robot.drift), Level("motion", over(np.eye(n), 0), wanted),
                    Level("least torque", over(np.eye(k), n + c), np.zeros(k))])
    np.testing.assert_allclose(answer.x[n + c:], on(robot).torque(wanted), atol=1e-8)
    np.testing.assert_allclose(answer.x[n:n + c], on(robot).force(answer.x[n + c:]), atol=1e-6)
    for level in answer.levels[:3]:
        assert level.cost < 1e-8


@pytest.mark.row("001:C28")
@pytest.mark.parametrize("mirrored", [True, False])
def test_stances_share_the_weight(mirrored):
    """Four feet at the corners of a rectangle, no pull: a quarter of the weight each, straight down, where knees point at each
    other; where all point forwards, by the lever of the mass centre."""
    robot = quadruped(4)
    model = robot.model
    q = np.array(alg.neutral(model)).ravel()
    for i, name in enumerate(model.coordinate_names):
        side = -1 if mirrored and name[1:2] == "H" else 1
        q[i] = side * {"HFE": 0.7, "KFE": -1.4}[name[-3:]] if name[-3:] in ("HFE", "KFE") else q[i]
    symmetric = standing(model, robot.where, q, np.zeros(18))
    g = np.array(dynamics.make(model, "gravity_force")(q)).ravel()
    answer = virtual_model(g, symmetric.J, [], symmetric.S)
    feet = feet_positions(symmetric)
    com = np.array(dynamics.make(model, "centre_of_mass")(q)).ravel()
    feet_centre = feet.mean(axis=1)
    force = answer.force.reshape(4, 3)
    np.testing.assert_allclose(force.sum(0), [0, 0, -model.mass * 9.81], atol=1e-9)
    np.testing.assert_allclose(force[0], force[1], atol=1e-9)
    np.testing.assert_allclose(force[2], force[3], atol=1e-9)
    if mirrored:
        np.testing.assert_allclose(force, np.tile([0, 0, -model.mass * 9.81 / 4], (4, 1)), atol=1e-9)
    lever = (com - feet_centre)[0]
    assert mirrored or abs(lever) > 1e-3
    half = (feet[0, 0] - feet[0, 2]) / 2
    np.testing.assert_allclose(force[0, 2] / force[2, 2], (half + lever) / (half - lever), atol=1e-9)


@pytest.mark.row("001:C28", "001:C29")
@pytest.mark.parametrize("robot", [(quadruped, 3, 7), (quadruped, 4, 8), (biped, 4)], indirect=True)
def test_virtual_model_moves_the_robot_as_its_pulls_say(robot):
    """At rest, with the forces that it computes on the feet, M a = sum J_v' F_v: a pull and a moment on the trunk, and a pull
    elsewhere. Forces and moments balance; without pulls nothing moves (the quasi-static torque)."""
    model, rng = robot.model, np.random.default_rng(9)
    g = np.array(dynamics.make(model, "gravity_force")(robot.q)).ravel()
    jacobian = [np.array(dynamics.make_frame(model, "jacobian", model.bodies[i].name)(robot.q)) for i in (0, 3)]
    pulls = [(jacobian[0], 10 * rng.standard_normal(6)), (jacobian[1][:3], 5 * rng.standard_normal(3))]
    for chosen in (pulls, []):
        answer = virtual_model(g, robot.J, chosen, robot.S)
        np.testing.assert_allclose(answer.missing, 0, atol=1e-9)
        net = robot.S.T @ answer.torque - g - robot.J.T @ answer.force
        np.testing.assert_allclose(net, sum((J.T @ F for J, F in chosen), np.zeros(len(g))), atol=1e-8)
        wrench = sum((F[:3] for _, F in chosen), np.zeros(3))
        np.testing.assert_allclose(answer.force.reshape(-1, 3).sum(0), [0, 0, -model.mass * 9.81] - wrench, atol=1e-8)
    # virtual displacements: tau at rest is minus the gradient of the potential along motions that leave the feet, Eq. 3.119
    still = virtual_model(g, robot.J, [], robot.S)
    N = np.eye(len(g)) - np.linalg.pinv(robot.J, rcond=1e-9) @ robot.J
    potential, move = dynamics.make(model, "potential_energy"), dynamics.make(model, "integrate")
    for d in (N @ rng.standard_normal((len(g), 4))).T:
        work = still.torque @ d[6:]
        gain = (float(potential(move(robot.q, 1e-5 * d))) - float(potential(move(robot.q, -1e-5 * d)))) / 2e-5
        assert work == pytest.approx(gain, abs=1e-5 * (1 + abs(gain)))


@pytest.mark.row("001:C28")
def test_infeasible_forces_of_feet_are_reported():
    """Two feet give no moment about the line between them."""
    robot = quadruped(2, 3)
    g = np.array(dynamics.make(robot.model, "gravity_force")(robot.q)).ravel()
    answer = virtual_model(g, robot.J, [], robot.S)
    assert np.abs(answer.missing).max() > 0.1
    with pytest.raises(ProblemError, match="do not fit"):
        supported(robot.M, robot.h, robot.J[:, :5], robot.drift, robot.S)


@pytest.mark.row("001:C14")
def test_no_floating_base_at_all():
    """On a fixed base without contacts the law is computed torque."""
    model, rng = random_tree(5, np.random.default_rng(0), kinds=["revolute", "spherical"]), np.random.default_rng(1)
    q, v, a = alg.random_configuration(model, rng), rng.standard_normal(model.nv), rng.standard_normal(model.nv)
    M, h = np.array(dynamics.make(model, "mass_matrix")(q)), np.array(dynamics.make(model, "bias_force")(q, v)).ravel()
    own = supported(M, h, np.zeros((0, model.nv)), np.zeros(0), np.eye(model.nv))
    np.testing.assert_allclose(own.torque(a), M @ a + h, atol=1e-9)
    assert (own.internal, own.uncommanded) == (0, 0)
