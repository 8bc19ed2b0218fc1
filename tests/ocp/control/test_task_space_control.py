"""Laws in task space: what frames do under them, by the articulated-body algorithm and by constrained dynamics."""

import casadi as ca
import numpy as np
import pytest
from row_trees import frame_jacobian, moved, pose
from scipy.linalg import expm

import dynamics
from dynamics import algorithms as alg
from dynamics.lie import euler, so3
from dynamics.model.synthetic import random_tree, serial_chain
from dynamics.notation.textbook_robots import planar_arm
from ocp.control.notation import task_space
from ocp.errors import ProblemError
from ocp.solvers.hqp import Level, solve_hqp


def skew(n):
    return np.cross(np.eye(3), n)


def redundant(seed):
    """A branching tree of mixed joints, one frame of it with more joints than it needs, and a state."""
    rng = np.random.default_rng(seed)
    model = random_tree(6, rng, branching=0.15, kinds=["revolute", "prismatic", "universal", "spherical"])
    return model, "f5", alg.random_configuration(model, rng), rng.standard_normal(model.nv)


def acceleration(model, q, v, tau):
    return np.array(dynamics.make(model, "forward_dynamics")(q, v, tau)).ravel()


def motion(model, frame, q, v, a):
    """w' of the frame by central differences of its twist along q(t), without any of the Jacobian's rates."""
    h, twists = 1e-5, []
    for t in (h, -h):
        at = moved(model, q, t * v + t * t / 2 * a)
        # the velocity of that curve: differences of poses would lose half the digits, so transport it by the tangent map
        twists.append(frame_jacobian(model, at, frame) @ velocity(model, q, v, a, t))
    return (twists[0] - twists[1]) / (2 * h)


def velocity(model, q, v, a, t):
    """d/dt of q [+] (t v + t²/2 a): the right Jacobian of the step acts on v + t a."""
    d = ca.SX.sym("d", model.nv)
    right = ca.Function("right", [d], [alg.integrate_partials(model, d)[1]])
    return np.array(right(t * v + t * t / 2 * a)) @ (v + t * a)


@pytest.mark.row("001:C05")
@pytest.mark.parametrize("seed", range(3))
def test_task_acceleration(seed):
    model, frame, q, v = redundant(seed)
    a = np.random.default_rng(seed).standard_normal(model.nv)
    task = task_space.frame_space(model, frame).dynamics(q, v)
    np.testing.assert_allclose(task.J @ a + task.drift, motion(model, frame, q, v, a), atol=1e-6)


def planar_tasks(seed):
    rng = np.random.default_rng(seed)
    model = planar_arm((0.5, 0.4, 0.3, 0.3, 0.2))
    q, v = rng.uniform(0.2, 1.0, 5), rng.standard_normal(5)
    tip = task_space.frame_space(model, "end_effector").dynamics(q, v)
    middle = task_space.frame_space(model, "link3").dynamics(q, v)
    rows = [0, 2]
    return [(tip.J[rows], tip.drift[rows], rng.standard_normal(2)), (middle.J[rows], middle.drift[rows], rng.standard_normal(2)),
            (np.eye(5)[:3], np.zeros(3), rng.standard_normal(3))]


@pytest.mark.row("001:C06")
def test_stacked_accelerations_are_one_least_squares():
    for seed in range(5):
        tasks = planar_tasks(seed)
        a = task_space.stacked_accelerations(tasks).v
        J = np.vstack([t[0] for t in tasks])
        np.testing.assert_allclose(J.T @ (J @ a - np.concatenate([w - d for _, d, w in tasks])), 0, atol=1e-10)
        both = task_space.stacked_accelerations(tasks[:2]).v
        for J_i, drift, wanted in tasks[:2]:
            np.testing.assert_allclose(J_i @ both + drift, wanted, atol=1e-10)


@pytest.mark.row("001:C07")
def test_prioritised_accelerations_are_the_hierarchy():
    """The first two tasks are met, the third takes what is left; the constrained programmes say the same."""
    for seed in range(5):
        tasks = planar_tasks(seed)
        a = task_space.prioritised_accelerations(tasks).v
        for J, drift, wanted in tasks[:2]:
            np.testing.assert_allclose(J @ a + drift, wanted, atol=1e-10)
        levels = [Level(f"{k}", J, w - d) for k, (J, d, w) in enumerate(tasks)]
        np.testing.assert_allclose(solve_hqp(levels).x, a, atol=1e-9)
        # the third by hand: a on the affine set of the first two, nearest in its own rows
        J = np.vstack([t[0] for t in tasks[:2]])
        b = np.concatenate([w - d for _, d, w in tasks[:2]])
        K = np.block([[np.diag([1.0, 1, 1, 0, 0]), J.T], [J, np.zeros((4, 4))]])
        third = np.linalg.lstsq(K, np.r_[tasks[2][2], 0, 0, b], rcond=None)[0][:5]
        np.testing.assert_allclose(third[:3], a[:3], atol=1e-9)


@pytest.mark.row("001:C08")
@pytest.mark.parametrize("seed", range(4))
def test_end_effector_dynamics(seed):
    """tau = J'F moves the frame as Λ w' + μ + p = F says, on redundant branching trees."""
    model, frame, q, v = redundant(seed)
    task, F = task_space.frame_space(model, frame).dynamics(q, v), np.random.default_rng(seed).standard_normal(6)
    assert np.linalg.matrix_rank(task.J) == 6 < model.nv
    moves = motion(model, frame, q, v, acceleration(model, q, v, task.J.T @ F))
    got = task.inertia @ moves + task.coriolis + task.gravity
    np.testing.assert_allclose(got, F, atol=1e-5 * (1 + np.abs(task.inertia).max()))


@pytest.mark.row("001:C08")
def test_inertia_of_a_singular_arm_ignores_the_lost_direction():
    """Stretched out, a planar arm cannot move its tip along itself: no force there, and the rest as predicted."""
    model, q = planar_arm(), np.array([0.4, 0.0, 0.0])
    task = task_space.frame_space(model, "end_effector").dynamics(q, np.zeros(3))
    planar = task_space.task_dynamics(task.M, task.b, task.g, task.J[[0, 2]], task.drift[[0, 2]])
    along = np.array([np.sin(0.4), np.cos(0.4)])
    np.testing.assert_allclose(planar.inertia @ along, 0, atol=1e-9)
    across = np.array([np.cos(0.4), -np.sin(0.4)])
    a = acceleration(model, q, np.zeros(3), planar.torque(3.0 * across))
    np.testing.assert_allclose(planar.J @ a, 3.0 * across, atol=1e-9)
    with pytest.raises(ProblemError, match="do not fit"):
        task_space.task_dynamics(task.M, task.b, task.g, task.J, np.zeros(3))


@pytest.mark.row("001:C09")
@pytest.mark.parametrize("seed", range(3))
def test_motion_control_gives_the_acceleration(seed):
    model, frame, q, v = redundant(20 + seed)
    task, wanted = task_space.frame_space(model, frame).dynamics(q, v), np.random.default_rng(seed).standard_normal(6)
    a = acceleration(model, q, v, task.torque(wanted))
    np.testing.assert_allclose(task.J @ a + task.drift, wanted, rtol=1e-7, atol=1e-7)
    # Eq. 3.91 towards a pose that moves and accelerates; the frame's own velocity by differences of its poses
    R, p = pose(model, q, frame)
    (ahead, to), (behind, back) = (pose(model, moved(model, q, s * 1e-6 * v), frame) for s in (1, -1))
    spin = (ahead - behind) / 2e-6 @ R.T
    own, twist, off = np.r_[(to - back) / 2e-6, spin[2, 1], spin[0, 2], spin[1, 0]], 2 * wanted[::-1], np.array([0.3, -0.2, 0.5])
    space, gains = task_space.frame_space(model, frame), task_space.Gains(30.0, 4.0)
    got = space.wanted(gains, q, v, p - off, expm(skew(off)) @ R, twist, wanted)
    np.testing.assert_allclose(got, wanted + 30.0 * np.r_[-off, off] + 4.0 * (twist - own), atol=1e-6)


@pytest.mark.row("001:C09")
@pytest.mark.parametrize("degrees", [90.0, 179.0, 179.99])
def test_pose_regulation_near_half_a_turn(degrees):
    """A frame on a floating tree turned away by up to 179.99 degrees about any axis comes back along the geodesic: the angle obeys
    the linear oscillator of its gains, and the position beside it."""
    rng = np.random.default_rng(4)
    model = random_tree(4, rng, root="free_flyer", branching=0.6, kinds=["revolute", "prismatic"])
    space, gains, omega = task_space.frame_space(model, "f0"), task_space.Gains.tuned(0.8), 2 * np.pi * 0.8
    q, v = alg.random_configuration(model, rng), np.zeros(model.nv)
    axis, away = np.array([2.0, -1.0, 2.0]) / 3, np.radians(degrees)
    R, p = pose(model, q, "f0")
    goal, place = expm(skew(away * axis)) @ R, p + np.array([0.3, -0.2, 0.5])
    forward, plus, dt = dynamics.make(model, "forward_dynamics"), dynamics.make(model, "integrate"), 1e-3
    for k in range(1, 401):
        task = space.dynamics(q, v)
        hold = -20.0 * v  # of what the frame does not see
        N = np.eye(model.nv) - task.J.T @ task.inertia @ task.J @ np.linalg.inv(task.M)
        tau = task.torque(space.wanted(gains, q, v, place, goal)) + N @ hold
        a = np.array(forward(q, v, tau)).ravel()
        q = np.array(plus(q, dt * (v + dt / 2 * a))).ravel()
        v = v + dt * a
        if k % 100 == 0:
            share = (1 + omega * k * dt) * np.exp(-omega * k * dt)
            R, p = pose(model, q, "f0")
            left = np.array(so3.log(ca.DM(goal @ R.T))).ravel()
            np.testing.assert_allclose(left, share * away * axis, atol=2e-2)
            np.testing.assert_allclose(place - p, share * np.array([0.3, -0.2, 0.5]), atol=5e-3)


@pytest.mark.row("001:C10")
@pytest.mark.parametrize("name", ["zyx", "xyz", "zyz", "zxz"])
def test_small_angle_error(name):
    """E_R (χ* - χ) is the rotation vector of the relative rotation to second order: halving the step quarters the difference."""
    rng = np.random.default_rng(0)
    chi, d = np.array([0.4, 0.7, -0.5]), rng.standard_normal(3)
    gaps = []
    for size in (1e-2, 5e-3):
        goal, at = (np.array(euler.to_matrix(name, x)) for x in (chi + size * d, chi))
        exact = np.array(so3.log(ca.DM(goal @ at.T))).ravel()
        gaps.append(np.linalg.norm(task_space.small_rotation_error(name, chi, chi + size * d) - exact))
        assert gaps[-1] < size**2 * 4
    assert 3.5 < gaps[0] / gaps[1] < 4.5


@pytest.mark.row("001:C11")
def test_the_other_notation_compensates_every_joint():
    """Both forms give the task its acceleration; beside it one leaves b and g to the joints, the other does not. Without redundancy
    they are the same torque."""
    for seed in range(3):
        model, frame, q, v = redundant(31 + seed)
        task, wanted = task_space.frame_space(model, frame).dynamics(q, v), np.random.default_rng(seed).standard_normal(6)
        first, second = (acceleration(model, q, v, tau) for tau in (task.torque(wanted), task.torque_all_compensated(wanted)))
        np.testing.assert_allclose(task.J @ second + task.drift, wanted, rtol=1e-7, atol=1e-7)
        N = np.eye(model.nv) - np.linalg.solve(task.M, task.J.T @ task.inertia @ task.J)
        left = np.linalg.solve(task.M, task.b + task.g)
        np.testing.assert_allclose(second - first, N @ left, rtol=1e-7, atol=1e-7)
        assert np.abs(N @ left).max() > 0.1
    model = serial_chain(6)
    q, v = np.random.default_rng(1).uniform(-1, 1, (2, 6))
    task = task_space.frame_space(model, "b5").dynamics(q, v)
    np.testing.assert_allclose(task.torque(np.ones(6)), task.torque_all_compensated(np.ones(6)), atol=1e-8)


def held(model, q, v, tau, J_c, drift_c):
    """(a, force of the robot on what it touches) with the rows J_c at rest: the optimality conditions of Gauss's principle."""
    M, h = np.array(dynamics.make(model, "mass_matrix")(q)), np.array(dynamics.make(model, "bias_force")(q, v)).ravel()
    K = np.block([[M, J_c.T], [J_c, np.zeros((len(J_c),) * 2)]])
    x = np.linalg.solve(K, np.r_[tau - h, -drift_c])
    return x[:len(h)], x[len(h):]


@pytest.mark.row("001:C12")
@pytest.mark.parametrize(("free_linear", "free_angular"), [
    ((True, True, False), (True, True, True)),    # a sponge on a window
    ((False, False, True), (False, False, True)),  # a peg in a hole
])
def test_force_and_motion_at_once(free_linear, free_angular):
    """On a wall that stands askew: where the frame is held, the wall feels exactly the force asked for (moments too); where it is
    free, it moves as asked for. Constrained dynamics of a redundant branching tree are the judge."""
    for seed in range(3):
        model, frame, q, v = redundant(40 + seed)
        rng = np.random.default_rng(seed)
        wall = expm(skew(rng.standard_normal(3)))
        S = task_space.selection(wall, free_linear, free_angular)
        motion_axes = np.vstack([np.hstack([wall[:, i], np.zeros(3)]) for i in range(3) if not free_linear[i]]
                                + [np.hstack([np.zeros(3), wall[:, i]]) for i in range(3) if not free_angular[i]])
        space = task_space.frame_space(model, frame)
        J = space.dynamics(q, v).J
        v = v - np.linalg.pinv(motion_axes @ J) @ (motion_axes @ J @ v)  # it moves within the wall
        task, wanted, push = space.dynamics(q, v), rng.standard_normal(6), 5 * rng.standard_normal(6)
        tau = task.hybrid_torque(S, wanted, push)
        a, force = held(model, q, v, tau, motion_axes @ task.J, motion_axes @ task.drift)
        np.testing.assert_allclose(force, motion_axes @ push, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(task.J @ a + task.drift, S.motion @ wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.row("001:C13")
def test_selection_in_a_rotated_frame():
    """Projectors that add up to one; the normal of a wall at 30 degrees is removed from the motion, which the notes' R'ΣR
    misses."""
    turn = np.radians(30.0)
    R = np.array([[np.cos(turn), 0, np.sin(turn)], [0, 1, 0], [-np.sin(turn), 0, np.cos(turn)]])
    S = task_space.selection(R, (True, True, False), (False, True, True))
    np.testing.assert_allclose(S.motion + S.force, np.eye(6), atol=1e-15)
    for P in (S.motion, S.force):
        np.testing.assert_allclose(P @ P, P, atol=1e-15)
        np.testing.assert_allclose(P, P.T, atol=1e-15)
    normal, held_turn = R[:, 2], R[:, 0]
    np.testing.assert_allclose(S.motion @ np.r_[normal, np.zeros(3)], 0, atol=1e-15)
    np.testing.assert_allclose(S.motion @ np.r_[np.zeros(3), held_turn], 0, atol=1e-15)
    printed = R.T @ np.diag([1.0, 1, 0]) @ R @ normal
    np.testing.assert_allclose(printed, [0.75, 0, 0.433013], atol=1e-6)
    with pytest.raises(ProblemError, match="rotation"):
        task_space.selection(2 * R, (True,) * 3, (True,) * 3)
    with pytest.raises(ProblemError, match="three flags"):
        task_space.selection(R, (True, True), (True,) * 3)
