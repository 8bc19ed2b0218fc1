"""Kinematic control of the robot-dynamics lecture notes (sections 2.9, 2.10.5 and appendix A.1), row by row, with their
numbers."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import dynamics
from dynamics import algorithms as alg
from dynamics.model.synthetic import random_rotation, random_tree, serial_chain
from dynamics.notation.textbook_robots import planar_arm, quadruped, scara, wrist_zyx
from ocp.control import pseudo_inverse as pi
from ocp.control.notation import trajectory_control as tc
from ocp.control.notation.closed_forms import planar_arm_ik, scara_ik, wrist_zyx_ik
from ocp.control.notation.prioritised import Level, stacked, two_levels
from ocp.control.notation.support import contact_tasks, solve_supported_ik, support_motion, support_velocity
from ocp.control.task_kernel import compile_tasks
from ocp.control.tasks import pose_task
from ocp.errors import ProblemError

Q_T = np.array([np.pi / 6, np.pi / 3, np.pi / 3])
W_E, W_J, J_J = np.ones(2), np.zeros(2), np.eye(3)[:2]
S3 = np.sqrt(3.0)


def tip_jacobian(q):
    """x and z rows of the planar arm's geometric Jacobian, from the package."""
    J = np.array(dynamics.make_frame(planar_arm(), "jacobian", "end_effector", "world_aligned")(q))
    return J[[0, 2]]


def wide(rng, m, n, r):
    return rng.standard_normal((m, r)) @ rng.standard_normal((r, n))


# ------------------------------------------------------------------------------------------------ Example 2.9.1, appendix A.1
@pytest.mark.row("001:K49", "001:K55", "001:K56", "001:K57", "001:K51", "001:M01")
def test_multi_task_example_reproduces_every_number():
    J = tip_jacobian(Q_T)
    np.testing.assert_allclose(J, 0.5 * np.array([[0, -S3, -S3], [-4, -3, -1]]), atol=1e-14)
    np.testing.assert_allclose(pi.singularity(J).singular_values, [2.653560, 0.979091], atol=1e-6)
    assert pi.singularity(J).manipulability ** 2 == pytest.approx(6.75, abs=1e-12)

    single = pi.solve(J, W_E)
    np.testing.assert_allclose(single, [0.069, -0.560, -0.595], atol=6e-4)
    exact = [-4 / 9 + 8 * S3 / 27, -1 / 9 - 7 * S3 / 27, 1 / 9 - 11 * S3 / 27]
    np.testing.assert_allclose(single, exact, atol=1e-14)
    np.testing.assert_allclose(J @ single, W_E, atol=1e-14)
    assert np.sum((J_J @ single) ** 2) == pytest.approx(0.31850806, abs=1e-8)

    equal = stacked([(J, W_E), (J_J, W_J)]).v
    np.testing.assert_allclose(equal, [-0.133, -0.067, -1.132], atol=6e-4)
    np.testing.assert_allclose(equal, [(2 * S3 - 6) / 19, (S3 - 3) / 19, (1 - 13 * S3) / 19], atol=1e-14)
    np.testing.assert_allclose(np.r_[J @ equal, J_J @ equal], [1.039, 0.933, -0.133, -0.067], atol=6e-4)
    assert np.sum((W_E - J @ equal) ** 2) == pytest.approx(0.00593793, abs=1e-8)
    assert np.sum((W_J - J_J @ equal) ** 2) == pytest.approx(0.02226725, abs=1e-8)

    N1 = pi.null_space_projector(J)
    np.testing.assert_allclose(N1, np.array([[1, -2, 2], [-2, 4, -4], [2, -4, 4]]) / 9, atol=1e-14)
    assert pi.rank(N1, 1e-9) == 1
    strict = two_levels(J, W_E, J_J, W_J)
    np.testing.assert_allclose(strict, [-0.169, -0.085, -1.070], atol=6e-4)
    np.testing.assert_allclose(strict, [(2 * S3 - 6) / 15, (S3 - 3) / 15, (3 - 11 * S3) / 15], atol=1e-13)
    np.testing.assert_allclose(J @ strict, W_E, atol=1e-13)
    assert np.sum((W_J - J_J @ strict) ** 2) == pytest.approx((3 - S3) ** 2 / 45, abs=1e-12)

    for weight, expected in ((100, (-0.16861027, -0.08430513, -1.07095744)), (1e4, (-0.16905538, -0.08452769, -1.07017848))):
        W = np.array([weight, weight, 1, 1])
        np.testing.assert_allclose(pi.weighted_inverse(np.vstack([J, J_J]), W) @ np.r_[W_E, W_J], expected, atol=1e-8)
        np.testing.assert_allclose(stacked([Level(J, W_E, W[:2]), (J_J, W_J)]).v, expected, atol=1e-8)
    for lam, expected in ((0.1, (0.06502125, -0.55705614, -0.58956677)), (0.5, (-0.00407358, -0.49618102, -0.49414424))):
        np.testing.assert_allclose(pi.damped_inverse(J, lam) @ W_E, expected, atol=1e-8)


# ------------------------------------------------------------------------------------------------ pseudo-inverses
@pytest.mark.row("001:K49", "001:K50")
def test_moore_penrose_conditions_in_every_rank():
    rng = np.random.default_rng(0)
    for m, n, r in ((3, 7, 3), (7, 3, 3), (4, 4, 4), (5, 6, 2), (6, 5, 3), (3, 3, 0), (1, 5, 1)):
        A = wide(rng, m, n, r) if r else np.zeros((m, n))
        P = pi.pseudo_inverse(A, 1e-10)
        assert pi.rank(A, 1e-10) == r
        for lhs, rhs in ((A @ P @ A, A), (P @ A @ P, P), ((P @ A).T, P @ A), ((A @ P).T, A @ P)):
            np.testing.assert_allclose(lhs, rhs, atol=1e-11)
        N, Z = pi.null_space_projector(A, 1e-10), pi.null_space_basis(A, 1e-10)
        assert Z.shape == (n, n - r)
        np.testing.assert_allclose(Z @ Z.T, N, atol=1e-12)
        np.testing.assert_allclose(A @ N, 0.0, atol=1e-11)
        b, x0 = rng.standard_normal(m), rng.standard_normal(n)
        np.testing.assert_allclose(pi.solve(A, b, x0, 1e-10), P @ b + (np.eye(n) - P @ A) @ x0, atol=1e-11)
    tall, flat = rng.standard_normal((6, 3)), rng.standard_normal((3, 6))
    np.testing.assert_allclose(pi.left_inverse(tall) @ tall, np.eye(3), atol=1e-13)
    np.testing.assert_allclose(pi.left_inverse(tall), pi.pseudo_inverse(tall), atol=1e-13)
    np.testing.assert_allclose(flat @ pi.right_inverse(flat), np.eye(3), atol=1e-13)
    np.testing.assert_allclose(pi.right_inverse(flat), pi.pseudo_inverse(flat), atol=1e-13)
    # least squares for tall, least norm for wide matrices, against NumPy's own solver
    b = rng.standard_normal(6)
    np.testing.assert_allclose(pi.solve(tall, b), np.linalg.lstsq(tall, b)[0], atol=1e-13)
    np.testing.assert_allclose(pi.solve(flat, b[:3]), np.linalg.lstsq(flat, b[:3])[0], atol=1e-13)
    with pytest.raises(ProblemError, match="rank 1, not full column rank"):
        pi.left_inverse(np.ones((4, 2)))
    with pytest.raises(ProblemError, match="rank 1, not full row rank"):
        pi.right_inverse(np.ones((2, 4)))
    with pytest.raises(ProblemError, match="not finite"):
        pi.pseudo_inverse([[np.nan, 0.0]])
    with pytest.raises(ProblemError, match="relative"):
        pi.rank(np.eye(2), 1.0)
    with pytest.raises(ProblemError, match="shape"):
        pi.solve(np.eye(2), np.zeros(3))


@pytest.mark.row("001:K51")
def test_damped_inverse():
    rng = np.random.default_rng(1)
    for m, n, r in ((3, 6, 3), (6, 3, 3), (4, 5, 2)):
        A, b = wide(rng, m, n, r), rng.standard_normal(m)
        for lam in (1e-3, 0.3, 5.0):
            D = pi.damped_inverse(A, lam)
            np.testing.assert_allclose(D, A.T @ np.linalg.inv(A @ A.T + lam**2 * np.eye(m)), atol=1e-9)
            np.testing.assert_allclose(D, np.linalg.inv(A.T @ A + lam**2 * np.eye(n)) @ A.T, atol=1e-9)
            assert np.linalg.norm(D @ b) <= np.linalg.norm(b) / (2 * lam) * (1 + 1e-12)
            # the minimiser of |Ax - b|² + λ²|x|²: gradient zero
            x = D @ b
            np.testing.assert_allclose(A.T @ (A @ x - b) + lam**2 * x, 0.0, atol=1e-10)
        np.testing.assert_allclose(pi.damped_inverse(A, 1e-5), pi.pseudo_inverse(A, 1e-9), atol=1e-5)
        np.testing.assert_allclose(pi.damped_inverse(A, 0.0), pi.pseudo_inverse(A), atol=1e-15)
    # at s = λ the bound 1/(2λ) is attained
    assert pi.damped_inverse(np.array([[0.2]]), 0.2)[0, 0] == pytest.approx(1 / 0.4)
    with pytest.raises(ProblemError, match="negative"):
        pi.damped_inverse(np.eye(2), -0.1)


@pytest.mark.row("001:K51")
def test_adaptive_damping_only_near_singularities():
    J = np.diag([2.0, 0.5])
    np.testing.assert_array_equal(pi.adaptively_damped_inverse(J, 0.1, 0.3), np.diag([0.5, 2.0]))
    assert pi.adaptive_damping(0.1, 0.1, 0.3) == 0.0
    assert pi.adaptive_damping(0.0, 0.1, 0.3) == pytest.approx(0.3)
    near = np.diag([2.0, 0.06])
    np.testing.assert_allclose(pi.adaptively_damped_inverse(near, 0.1, 0.3), pi.damped_inverse(near, 0.3 * 0.8), atol=1e-14)
    assert np.isfinite(pi.adaptively_damped_inverse(np.diag([1.0, 0.0]), 0.1, 0.3)).all()


@pytest.mark.row("001:K56")
def test_weighted_inverses():
    rng = np.random.default_rng(2)
    A, b = rng.standard_normal((7, 4)), rng.standard_normal(7)
    G = rng.standard_normal((7, 7))
    for W in (rng.uniform(0.1, 5, 7), G @ G.T + np.eye(7)):
        full = np.diag(W) if W.ndim == 1 else W
        np.testing.assert_allclose(pi.weighted_inverse(A, W), np.linalg.inv(A.T @ full @ A) @ A.T @ full, atol=1e-11)
        x = pi.weighted_inverse(A, W) @ b
        np.testing.assert_allclose(A.T @ full @ (A @ x - b), 0.0, atol=1e-11)  # stationary point of the weighted error
    J, w = rng.standard_normal((3, 6)), rng.standard_normal(3)
    H = rng.standard_normal((6, 6))
    M = H @ H.T + np.eye(6)
    v = pi.metric_inverse(J, M) @ w
    np.testing.assert_allclose(J @ v, w, atol=1e-12)
    np.testing.assert_allclose(pi.null_space_projector(J) @ M @ v, 0.0, atol=1e-10)  # least v'Mv among the solutions
    with pytest.raises(ProblemError, match="positive"):
        pi.weighted_inverse(A, -np.ones(7))
    with pytest.raises(ProblemError, match="positive definite"):
        pi.weighted_inverse(A, np.zeros((7, 7)))
    with pytest.raises(ProblemError, match="shape"):
        pi.weighted_inverse(A, np.ones(5))


# ------------------------------------------------------------------------------------------------ singularities, redundancy
@pytest.mark.row("001:K52")
def test_singular_configurations_are_found():
    J_scara = dynamics.make_frame(scara(), "jacobian", "end_effector", "world_aligned")

    def rows(q):
        return np.array(J_scara(q))[[0, 1, 2, 5]]  # operational space: x, y, z and the heading, m0 = 4

    assert not pi.singularity(rows([0.3, 0.9, -0.2, 0.1]), 4).singular
    for beta in (0.0, np.pi):
        found = pi.singularity(rows([0.3, beta, -0.2, 0.1]), 4)
        assert found.singular
        assert found.rank == 3
        # the lost direction is along the stretched arm
        lost = found.lost[:, 0]
        np.testing.assert_allclose(np.abs(lost[:2]), [np.cos(0.3), np.sin(0.3)], atol=1e-7)
        assert np.abs(lost @ rows([0.3, beta, -0.2, 0.1])).max() < 1e-12
    J_wrist = dynamics.make_frame(wrist_zyx(), "jacobian", "end_effector", "world_aligned")
    assert pi.singularity(np.array(J_wrist([0.4, 0.2, 1.0]))[3:]).rank == 3
    for y in (np.pi / 2, -np.pi / 2):
        found = pi.singularity(np.array(J_wrist([0.4, y, 1.0]))[3:])
        assert found.rank == 2
        assert found.singular
        assert found.condition > 1e9
    # how hard it is close by: the smallest singular value of the wrist is about the distance to the singularity over sqrt 2
    close = pi.singularity(np.array(J_wrist([0.4, np.pi / 2 - 1e-3, 1.0]))[3:])
    assert not close.singular
    assert close.singular_values[-1] == pytest.approx(1e-3 / np.sqrt(2), rel=1e-3)
    assert pi.singularity(np.zeros((2, 5))).redundancy == 5
    with pytest.raises(ProblemError, match="expected rank"):
        pi.singularity(np.eye(3), 4)


@pytest.mark.row("001:K53")
def test_null_space_motion_moves_the_robot_and_not_the_task():
    rng = np.random.default_rng(3)
    model = random_tree(8, rng, root="free_flyer", kinds=["revolute", "spherical", "prismatic", "universal"], branching=0.6)
    assert len({body.parent for body in model.bodies}) < 8
    J_of = dynamics.make_frame(model, "jacobian", "b7", "world_aligned")
    pose, move = dynamics.make_frame(model, "pose", "b7"), dynamics.make(model, "integrate")
    for _ in range(20):
        q = alg.random_configuration(model, rng)
        J = np.array(J_of(q))
        w, wish = rng.standard_normal(6), rng.standard_normal(model.nv)
        # the frame stays where it is to first order while the tree moves: by its pose, not by J
        ahead, behind = (pose(move(q, s * 1e-5 * pi.null_space_projector(J) @ wish)) for s in (1, -1))
        assert max(np.abs(np.array(a) - np.array(b)).max() for a, b in zip(ahead, behind, strict=True)) / 2e-5 < 1e-8
        N = pi.null_space_projector(J)
        np.testing.assert_allclose(N @ N, N, atol=1e-12)
        np.testing.assert_allclose(N, N.T, atol=1e-13)
        np.testing.assert_allclose(J @ N, 0.0, atol=1e-12)
        plain, moved = pi.solve(J, w), pi.solve(J, w, wish)
        np.testing.assert_allclose(J @ moved, J @ plain, atol=1e-10)
        assert np.linalg.norm(moved - plain) > 1e-3
        assert np.linalg.norm(plain) <= np.linalg.norm(moved) + 1e-12  # least norm without a wish
    assert pi.singularity(J).redundancy == model.nv - 6


# ------------------------------------------------------------------------------------------------ closed forms
@pytest.mark.row("001:K59")
def test_closed_form_of_the_planar_arm():
    rng = np.random.default_rng(4)
    lengths, base = (0.7, 0.5, 0.2), 0.3
    fk = dynamics.make_frame(planar_arm(lengths, base), "pose", "end_effector")
    for _ in range(100):
        q = rng.uniform(-np.pi, np.pi, 3)
        _, p = fk(q)
        x, _, z = np.array(p).ravel()
        found = planar_arm_ik(x, z, q.sum(), lengths, base)
        assert found.shape == (2, 3)
        for row in found:
            np.testing.assert_allclose(np.array(fk(row)[1]).ravel(), [x, 0, z], atol=1e-12)
            np.testing.assert_allclose(np.array(fk(row)[0]), np.array(fk(q)[0]), atol=1e-12)
        assert found[0, 1] > 0 > found[1, 1]
        assert np.abs(np.angle(np.exp(1j * (found - q)))).max(axis=1).min() < 1e-7  # one branch is the arm's own
    assert planar_arm_ik(0.0, 1.7, 0.0, lengths, base).shape == (1, 3)
    with pytest.raises(ProblemError, match="1.5 m away, reach is 0.2 to 1.2"):
        planar_arm_ik(0.0, 2.0, 0.0, lengths, base)
    with pytest.raises(ProblemError, match="any first angle"):
        planar_arm_ik(0.0, 1.0, 0.0, (1.0, 1.0, 1.0))
    with pytest.raises(ProblemError, match="positive lengths"):
        planar_arm_ik(0.0, 1.0, 0.0, (1.0, 1.0))


@pytest.mark.row("001:K59")
def test_closed_form_of_the_scara():
    rng = np.random.default_rng(5)
    fk = dynamics.make_frame(scara(), "pose", "end_effector")
    for _ in range(100):
        q = np.r_[rng.uniform(-np.pi, np.pi, 3), rng.uniform(-0.2, 0.2)]
        R, p = fk(q)
        found = scara_ik(*np.array(p).ravel(), q[:3].sum())
        assert found.shape == (2, 4)
        for row in found:
            R2, p2 = fk(row)
            np.testing.assert_allclose(np.array(p2), np.array(p), atol=1e-12)
            np.testing.assert_allclose(np.array(R2), np.array(R), atol=1e-12)
    with pytest.raises(ProblemError, match="away, reach is"):
        scara_ik(1.0, 0.0, 0.5, 0.0)


@pytest.mark.row("001:K59")
def test_closed_form_of_the_wrist():
    rng = np.random.default_rng(6)
    fk = dynamics.make_frame(wrist_zyx(), "pose", "end_effector")
    for _ in range(100):
        R = random_rotation(rng)
        found = wrist_zyx_ik(R)
        assert found.shape == (2, 3)
        assert np.abs(found[0, 1]) <= np.pi / 2
        for row in found:
            np.testing.assert_allclose(np.array(fk(row)[0]), R, atol=1e-12)
    for y in (np.pi / 2, -np.pi / 2):
        R = Rotation.from_euler("ZYX", [0.4, y, -0.9]).as_matrix()
        one = wrist_zyx_ik(R)
        assert one.shape == (1, 3)
        np.testing.assert_allclose(np.array(fk(one[0])[0]), R, atol=1e-12)
    with pytest.raises(ValueError, match="rotation"):
        wrist_zyx_ik(2 * np.eye(3))


# ------------------------------------------------------------------------------------------------ trajectory control
def follow(model, control, q, seconds, dt, record):
    """Euler steps on the manifold; returns the recorded errors."""
    plus = dynamics.make(model, "integrate")
    out = [record(q, 0.0)]
    for k in range(round(seconds / dt)):
        q = np.array(plus(q, dt * control(q, k * dt))).ravel()
        out.append(record(q, (k + 1) * dt))
    return np.array(out), q


@pytest.mark.row("001:K67")
def test_position_error_decays_exponentially_and_does_not_drift():
    rng = np.random.default_rng(7)
    model = random_tree(6, rng, kinds=["revolute"], branching=0.0)
    tracker, fk = tc.compile_tracker(model, "f5"), dynamics.make_frame(model, "pose", "f5")
    q = alg.random_configuration(model, rng)
    start = np.array(fk(q)[1]).ravel()
    gain, dt, goal = 4.0, 1e-3, start + [0.03, -0.02, 0.04]

    def error(x, t):
        return goal - np.array(fk(x)[1]).ravel()

    errors, _ = follow(model, lambda x, t: tc.position_control(tracker, x, goal, np.zeros(3), gain), q, 1.0, dt, error)
    times = dt * np.arange(len(errors))
    np.testing.assert_allclose(errors, np.exp(-gain * times)[:, None] * errors[0], atol=2e-4)  # along the straight line

    def moving(t):
        return start + 0.05 * np.array([np.sin(2 * t), 1 - np.cos(2 * t), 0.0])

    def rate(t):
        return 0.1 * np.array([np.cos(2 * t), np.sin(2 * t), 0.0])

    for gain, bound in ((20.0, 2e-4), (0.0, None)):
        errors, _ = follow(
            model,
            lambda x, t, k=gain: tc.position_control(tracker, x, moving(t), rate(t), k),
            q,
            2.0,
            2e-3,
            lambda x, t: np.linalg.norm(moving(t) - np.array(fk(x)[1]).ravel()),
        )
        if bound:
            feedback = errors[-1]
            assert errors.max() < bound
        else:
            assert errors[-1] > 5 * feedback  # feed-forward alone drifts


@pytest.mark.row("001:K67")
def test_discrete_gain_is_stable_below_two_over_dt():
    """Linear task (prismatic gantry): the error is multiplied by exactly 1 - k dt."""
    model = random_tree(3, np.random.default_rng(8), kinds=["prismatic"], branching=0.0)
    tracker, fk = tc.compile_tracker(model, "f2"), dynamics.make_frame(model, "pose", "f2")
    dt, q, goal = 0.1, np.zeros(3), np.array([0.2, -0.1, 0.3])
    for gain, stable in ((5.0, True), (10.0, True), (19.0, True), (20.5, False)):
        errors, _ = follow(
            model,
            lambda x, t, k=gain: tc.position_control(tracker, x, goal, np.zeros(3), k),
            q,
            2.0,
            dt,
            lambda x, t: goal - np.array(fk(x)[1]).ravel(),
        )
        np.testing.assert_allclose(errors[1], tc.error_ratio(gain, dt) * errors[0], atol=1e-12)
        assert (np.linalg.norm(errors[-1]) < np.linalg.norm(errors[0])) == stable == (gain < tc.gain_limit(dt))
        if gain == 10.0:
            np.testing.assert_allclose(errors[1], 0.0, atol=1e-12)  # deadbeat
    with pytest.raises(ProblemError, match="negative"):
        tc.position_control(tracker, q, goal, np.zeros(3), -1.0)
    with pytest.raises(ProblemError, match="positive"):
        tc.gain_limit(0.0)


@pytest.mark.row("001:K68")
def test_rotation_error_decays_about_a_fixed_axis():
    rng = np.random.default_rng(9)
    model = wrist_zyx()
    tracker, fk = tc.compile_tracker(model, "end_effector"), dynamics.make_frame(model, "pose", "end_effector")
    q, goal = np.array([-0.4, 0.1, 0.6]), Rotation.from_euler("ZYX", [0.5, 0.7, -0.4]).as_matrix()

    def error(x, t):
        return Rotation.from_matrix(goal @ np.array(fk(x)[0]).T).as_rotvec()

    gain, dt = 3.0, 5e-4
    errors, _ = follow(model, lambda x, t: tc.orientation_control(tracker, x, goal, np.zeros(3), gain), q, 1.0, dt, error)
    times = dt * np.arange(len(errors))
    np.testing.assert_allclose(errors, np.exp(-gain * times)[:, None] * errors[0], atol=2e-3)
    ratio = tc.error_ratio(gain, dt) ** (len(errors) - 1)  # what 2000 held steps leave; exp(-k t) in the limit
    assert np.linalg.norm(errors[-1]) == pytest.approx(ratio * np.linalg.norm(errors[0]), rel=1e-3)

    # a turning target is followed without drift, with a chain of seven joints and a wish in the null space
    arm = serial_chain(7)
    tracker, fk = tc.compile_tracker(arm, "b6"), dynamics.make_frame(arm, "pose", "b6")
    q = alg.random_configuration(arm, rng)
    first, omega = np.array(fk(q)[0]), np.array([0.3, -0.5, 0.4])

    def target(t):
        return Rotation.from_rotvec(omega * t).as_matrix() @ first

    errors, _ = follow(
        arm,
        lambda x, t: tc.orientation_control(tracker, x, target(t), omega, 10.0, null_motion=0.1 * np.ones(7)),
        q,
        2.0,
        2e-3,
        lambda x, t: np.linalg.norm(Rotation.from_matrix(target(t) @ np.array(fk(x)[0]).T).as_rotvec()),
    )
    assert errors.max() < 2e-3


@pytest.mark.row("001:K69")
def test_pose_tracking_stacks_both_laws_on_a_floating_base():
    rng = np.random.default_rng(10)
    model = random_tree(6, rng, root="free_flyer", kinds=["revolute", "spherical", "prismatic"], branching=0.2)
    frame = "f5"
    tracker, fk = tc.compile_tracker(model, frame), dynamics.make_frame(model, "pose", frame)
    q = alg.random_configuration(model, rng)
    R0, p0 = (np.array(x) for x in fk(q))
    v_goal, omega = np.array([0.2, -0.1, 0.3]), np.array([0.5, 0.2, -0.3])

    def target(t):
        return p0.ravel() + [0.05, 0.02, -0.04] + v_goal * t, Rotation.from_rotvec(omega * t + [0.1, 0.0, 0.05]).as_matrix() @ R0

    def error(x, t):
        p, R = target(t)
        R_now, p_now = (np.array(part) for part in fk(x))
        return np.r_[p - p_now.ravel(), Rotation.from_matrix(R @ R_now.T).as_rotvec()]

    def control(x, t):
        p, R = target(t)
        return tc.pose_control(tracker, x, p, R, v_goal, turning(t), 8.0, 5.0)

    def turning(t, h=1e-6):
        """Angular velocity of the target by differences: exp(omega t + c) does not turn at omega."""
        return Rotation.from_matrix(target(t + h)[1] @ target(t - h)[1].T).as_rotvec() / (2 * h)

    errors, _ = follow(model, control, q, 1.0, 2e-3, error)
    times = 2e-3 * np.arange(len(errors))
    np.testing.assert_allclose(np.linalg.norm(errors[:, :3], axis=1), np.exp(-8 * times) * np.linalg.norm(errors[0, :3]), atol=2e-3)
    np.testing.assert_allclose(np.linalg.norm(errors[:, 3:], axis=1), np.exp(-5 * times) * np.linalg.norm(errors[0, 3:]), atol=2e-3)


# ------------------------------------------------------------------------------------------------ support consistency
def standing(model):
    q = np.array(alg.neutral(model))
    for leg in ("LF", "RF", "LH", "RH"):
        q[model.q_slice(model.joint_index(f"{leg}_HFE"))] = 0.6
        q[model.q_slice(model.joint_index(f"{leg}_KFE"))] = -1.2
    return q


FEET = tuple(f"{leg}_FOOT" for leg in ("LF", "RF", "LH", "RH"))


@pytest.mark.row("001:K79")
def test_support_consistent_velocity():
    rng = np.random.default_rng(12)
    model = quadruped()
    q = standing(model)
    jacobians = [np.array(dynamics.make_frame(model, "jacobian", f, "world_aligned")(q))[:3] for f in FEET]
    J_t = np.array(dynamics.make_frame(model, "jacobian", "trunk", "world_aligned")(q))
    for feet in (4, 3):
        J_c, w = np.vstack(jacobians[:feet]), rng.standard_normal(6)
        got = support_motion(J_c, J_t, w)
        assert np.abs(J_c @ got.u).max() < 1e-12
        assert got.feasible
        np.testing.assert_allclose(J_t @ got.u, w, atol=1e-10)
        # equation 2.276 written out
        N = np.eye(18) - np.linalg.pinv(J_c, 1e-9) @ J_c
        np.testing.assert_allclose(got.projector, N, atol=1e-10)
        np.testing.assert_allclose(got.u, N @ np.linalg.pinv(J_t @ N, 1e-9) @ w, atol=1e-10)
        assert got.contact_rank == 3 * feet
    # two diagonal feet: turning about the line between them is left to the base alone, no joint moves
    diagonal = np.vstack([jacobians[0], jacobians[3]])
    feet = [np.array(dynamics.make_frame(model, "pose", f)(q)[1]).ravel() for f in (FEET[0], FEET[3])]
    trunk = np.array(dynamics.make_frame(model, "pose", "trunk")(q)[1]).ravel()
    axis = (feet[1] - feet[0]) / np.linalg.norm(feet[1] - feet[0])
    two = support_motion(diagonal, J_t, np.r_[np.cross(axis, trunk - feet[0]), axis])
    assert two.feasible
    assert np.abs(two.u[6:]).max() < 1e-9
    assert np.abs(diagonal @ two.u).max() < 1e-12
    # a task that a contact forbids: nothing moves, and the residual says how much is missing
    stuck = support_motion(diagonal, jacobians[0], [0.1, 0.0, 0.2])
    assert not stuck.feasible
    assert stuck.task_rank == 0
    np.testing.assert_allclose(stuck.u, 0.0, atol=1e-14)
    np.testing.assert_allclose(stuck.residual, [0.1, 0.0, 0.2], atol=1e-14)
    # redundant rows (the same foot twice) change nothing
    again = support_motion(np.vstack([diagonal, diagonal]), J_t, J_t @ two.u)
    assert again.contact_rank == 6
    np.testing.assert_allclose(J_t @ again.u, J_t @ two.u, atol=1e-10)


@pytest.mark.row("001:K79")
def test_body_shifts_over_four_fixed_feet():
    model = quadruped()
    q0 = standing(model)
    contacts = contact_tasks(model, q0, points=FEET)
    fk = {f: dynamics.make_frame(model, "pose", f) for f in (*FEET, "trunk")}
    R0, p0 = (np.array(x) for x in fk["trunk"](q0))
    goal = pose_task("trunk", R0 @ Rotation.from_euler("ZYX", [0.1, 0.05, -0.08]).as_matrix(), p0.ravel() + [0.05, 0.03, -0.04])
    got = solve_supported_ik(model, contacts, [goal], q0=q0)
    assert got.levels == ("met", "met")
    for foot in FEET:
        np.testing.assert_allclose(np.array(fk[foot](got.q)[1]), np.array(fk[foot](q0)[1]), atol=2e-8)
    np.testing.assert_allclose(np.array(fk["trunk"](got.q)[1]).ravel(), p0.ravel() + [0.05, 0.03, -0.04], atol=2e-8)
    # every configuration on the way keeps the feet
    for q in got.path:
        for foot in FEET:
            np.testing.assert_allclose(np.array(fk[foot](q)[1]), np.array(fk[foot](q0)[1]), atol=2e-8)
    # the velocity law: contacts rest, the trunk's error shrinks at its gain
    motion = support_velocity(model, q0, contacts, [goal])
    plus = dynamics.make(model, "integrate")
    h = 1e-4
    q1 = np.array(plus(q0, h * motion.u)).ravel()
    assert max(np.linalg.norm(np.array(fk[f](q1)[1]) - np.array(fk[f](q0)[1])) for f in FEET) < 1e-6
    kernel = compile_tasks(model, [goal])
    e0, e1 = (kernel(x, kernel.targets([goal]))[0] for x in (q0, q1))
    np.testing.assert_allclose(e1, (1 - h) * e0, atol=1e-7)
    # too far for the legs: the feet stay, the trunk goes as far as it can
    far = solve_supported_ik(model, contacts, [pose_task("trunk", R0, p0.ravel() + [0.0, 0.0, 0.5])], q0=q0)
    assert far.levels[0] == "met"
    for foot in FEET:
        np.testing.assert_allclose(np.array(fk[foot](far.q)[1]), np.array(fk[foot](q0)[1]), atol=2e-8)
    height = np.array(fk["trunk"](far.q)[1]).ravel()[2] - p0.ravel()[2]
    legs = [
        np.linalg.norm(np.array(fk[f](far.q)[1]) - np.array(dynamics.make_frame(model, "pose", f"{f[:2]}_THIGH")(far.q)[1]))
        for f in FEET
    ]
    assert height > 0.05
    assert max(legs) < 0.6 + 1e-6
    with pytest.raises(ProblemError, match="at least one contact"):
        contact_tasks(model, q0)
