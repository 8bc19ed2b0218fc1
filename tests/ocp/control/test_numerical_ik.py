"""Textbook iterations of inverse kinematics: rates of convergence, singular and distant targets, and the four ways to turn a
wrist."""

import casadi as ca
import numpy as np
import pytest
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation

import dynamics
from dynamics import algorithms as alg
from dynamics.lie import euler
from dynamics.model.synthetic import random_rotation, random_tree
from dynamics.notation.textbook_robots import planar_arm, wrist_zyx
from ocp.control.notation import numerical_ik as ik
from ocp.control.tasks import pose_task, position_task
from ocp.errors import ProblemError

FRAME = "end_effector"
START, GOAL = np.array([-0.7, 0.0, 1.5]), np.array([0.7, 1.5, -0.5])


def wrist_rotation(q):
    """Independent of the package: product of elementary turns."""
    return Rotation.from_euler("ZYX", q).as_matrix()


def reachable_pose(rng):
    """A floating, branching tree of mixed joints, and the pose of a frame at a random configuration."""
    model = random_tree(5, rng, root="free_flyer", kinds=["revolute", "spherical", "prismatic"], branching=0.6)
    q = alg.random_configuration(model, rng)
    R, p = (np.array(x) for x in dynamics.make_frame(model, "pose", "f4")(q))
    return model, q, R, p.ravel()


@pytest.mark.row("001:K60")
def test_newton_converges_quadratically_on_the_manifold():
    rng = np.random.default_rng(0)
    for _ in range(5):
        model, q, R, p = reachable_pose(rng)
        equations = ik.task_equations(model, [pose_task("f4", R, p)])
        near = equations.plus(q, rng.uniform(-0.3, 0.3, model.nv))
        log = ik.iterate(equations, near, tolerance=1e-12)
        assert log.converged
        assert log.iterations <= 7
        tail = log.errors[log.errors > 1e-7]
        assert (log.errors[1 : len(tail)] <= 3.0 * tail[:-1] ** 2 + 1e-12).all()
        reached = [np.array(x) for x in dynamics.make_frame(model, "pose", "f4")(log.q)]
        np.testing.assert_allclose(reached[0], R, atol=1e-11)
        np.testing.assert_allclose(reached[1].ravel(), p, atol=1e-11)
        quaternion = log.q[model.q_slice(0)][3:]
        assert np.linalg.norm(quaternion) == pytest.approx(1.0, abs=1e-14)


@pytest.mark.row("001:K61")
def test_scaled_steps_converge_linearly_at_one_minus_k():
    rng = np.random.default_rng(1)
    model, q, R, p = reachable_pose(rng)
    equations = ik.task_equations(model, [pose_task("f4", R, p)])
    near = equations.plus(q, rng.uniform(-0.05, 0.05, model.nv))
    for k in (0.1, 0.5, 0.9):
        log = ik.iterate(equations, near, ik.IterationRule("newton", step=k), tolerance=1e-9, max_iterations=400)
        assert log.converged
        late = log.errors[log.errors < 1e-3]
        np.testing.assert_allclose(late[1:4] / late[:3], 1 - k, atol=2e-3)


def bounded_tree(root, seed):
    """A branching tree of joints that only turn, so that no frame leaves a ball about the root; two leaf frames of it."""
    rng = np.random.default_rng(seed)
    model = random_tree(8, rng, root=root, kinds=["revolute", "spherical", "universal"], branching=0.8)
    parents = {body.parent for body in model.bodies}
    leaves = [f"f{i}" for i in range(len(model.bodies)) if i not in parents]
    return model, alg.random_configuration(model, rng), leaves[0], leaves[-1]


def positions_of(model, frames):
    """(q, d) -> the frames' positions at q [+] d, from poses alone."""
    q, d = ca.SX.sym("q", model.nq), ca.SX.sym("d", model.nv)
    at = dynamics.make(model, "integrate")(q, d)
    f = ca.Function("p", [q, d], [ca.densify(ca.vertcat(*(dynamics.make_frame(model, "pose", x)(at)[1] for x in frames)))])
    return lambda q, d=0: np.array(f(q, d)).ravel()


@pytest.mark.row("001:K62")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("root", ["fixed", "free_flyer"])
def test_damped_step_is_the_damped_least_squares_step(root, seed):
    """One step on branching trees of mixed joints: the minimiser of |J d + e|^2 + lambda^2 |d|^2 with J by differences of poses, by
    least squares of the stacked system; no inverse of the package on the other side."""
    model, q, first, second = bounded_tree(root, seed)
    assert len({body.parent for body in model.bodies}) < len(model.bodies)
    positions = positions_of(model, (first, second))
    goal, lam, h = positions(q) + np.random.default_rng(seed).uniform(-1, 1, 6), 0.3, 1e-6
    equations = ik.task_equations(model, [position_task(first, goal[:3]), position_task(second, goal[3:])])
    log = ik.iterate(equations, q, ik.IterationRule("damped", damping=lam), max_iterations=2)
    move = dynamics.make(model, "integrate")
    J = np.array([(positions(q, h * e) - positions(q, -h * e)) / (2 * h) for e in np.eye(model.nv)]).T
    error = positions(q) - goal
    d = np.linalg.lstsq(np.vstack([J, lam * np.eye(model.nv)]), np.r_[-error, np.zeros(model.nv)], rcond=None)[0]
    np.testing.assert_allclose(log.path[1], np.array(move(q, d)).ravel(), atol=1e-7)
    assert log.steps[0] == pytest.approx(np.linalg.norm(d), rel=1e-6)


@pytest.mark.row("001:K62")
@pytest.mark.parametrize("seed", [0, 1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("root", ["fixed", "free_flyer"])
def test_damped_steps_end_at_the_closest_point(root, seed):
    """Two frames on different branches asked further apart than the tree can stretch, the base held or floating: steps stay within
    |e| / (2 lambda), and the end is where a general optimiser ends that starts there, with the error it cannot remove."""
    model, q, first, second = bounded_tree(root, seed + 10)
    reach = 2.0 * sum(np.linalg.norm(body.joint.placement.position) for body in model.bodies) + 2.0
    apart = np.r_[reach, 0.3, -0.2]
    goal = np.r_[-apart, apart]
    equations = ik.task_equations(model, [position_task(first, goal[:3]), position_task(second, goal[3:])])
    lam = 2.5 * np.sqrt(reach)  # smaller ones overshoot: far targets bend more than J'J
    log = ik.iterate(equations, q, ik.IterationRule("damped", damping=lam), max_iterations=6000)
    assert not log.converged
    assert (log.steps <= log.errors / (2 * lam) + 1e-12).all()
    positions = positions_of(model, (first, second))
    best = least_squares(lambda d: positions(log.q, d) - goal, np.zeros(model.nv), xtol=1e-14,
                         ftol=1e-14, gtol=1e-12)
    assert log.errors[-1] > reach / 2
    assert log.errors[-1] == pytest.approx(np.linalg.norm(best.fun), rel=1e-5)
    # no configuration near is closer
    rng = np.random.default_rng(seed)
    for size in (1e-3, 1e-2, 0.1):
        near = positions(log.q, size * rng.standard_normal(model.nv)) - goal
        assert np.linalg.norm(near) > log.errors[-1] * (1 - 1e-5)


@pytest.mark.row("001:K62")
def test_damping_reaches_reachable_targets_from_a_singular_start():
    model = planar_arm()
    target = np.array([0.0, 0.0, 2.0])
    equations = ik.task_equations(model, [position_task(FRAME, target, components=(0, 2))])
    start = np.array([1e-5, 1e-6, 0.0])  # stretched: the Jacobian has nearly lost the radial direction
    wild = ik.iterate(equations, start, max_iterations=1)
    assert wild.steps[0] > 1e4
    for rule in ("damped", "adaptive", "levenberg_marquardt"):
        log = ik.iterate(equations, start, ik.IterationRule(rule, damping=0.2, threshold=0.3), tolerance=1e-8, max_iterations=500)
        assert log.converged
        assert log.steps.max() < (np.inf if rule == "levenberg_marquardt" else 1.0 / 0.2)


@pytest.mark.row("001:K63")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("root", ["fixed", "free_flyer"])
def test_transpose_steps_of_trees(root, seed):
    """Branching trees of mixed joints: one step is alpha J' times the error, J by differences of poses; from next to a target the
    error shrinks each time for alpha below 2 / sigma_max^2 and grows above."""
    model, q, first, second = bounded_tree(root, seed + 20)
    positions, h = positions_of(model, (first, second)), 1e-6
    goal = positions(q)
    equations = ik.task_equations(model, [position_task(first, goal[:3]), position_task(second, goal[3:])])
    J = np.array([(positions(q, h * e) - positions(q, -h * e)) / (2 * h) for e in np.eye(model.nv)]).T
    values = np.linalg.svd(J)
    limit = 2 / values[1][0] ** 2
    assert ik.transpose_gain_limit(equations.evaluate(q)[1]) == pytest.approx(limit, rel=1e-7)
    near = np.array(dynamics.make(model, "integrate")(q, 1e-5 * values[2][0])).ravel()  # along the stiffest direction
    for factor, shrinks in ((0.5, True), (0.95, True), (1.05, False)):
        log = ik.iterate(equations, near, ik.IterationRule("transpose", alpha=factor * limit), tolerance=1e-16, max_iterations=12)
        assert (np.diff(log.errors) < 0).all() == shrinks
        np.testing.assert_allclose(log.path[1], np.array(dynamics.make(model, "integrate")(
            near, -factor * limit * J.T @ (positions(near) - goal))).ravel(), atol=1e-9)


# ------------------------------------------------------------------------------------------------ Examples 2.9.7 and 2.9.8
SCHEMES = {
    "zyx": (5657, 3.395023, (0.69512, 1.49478, -0.49303)),
    "xyz": (5867, 3.712109, (0.73350, 1.49224, -0.46914)),
    "rotation_vector": (5804, 3.279277, (0.70759, 1.49236, -0.48616)),
    "relative rotation": (5705, 2.997225, (0.67105, 1.50676, 5.74722)),
}


def run_scheme(equations, k=1e-3, tolerance=0.01, most=10000):
    """As the reference program: the update is made before the test, so the answer is one update later than the last
    evaluation."""
    log = ik.iterate(equations, START, ik.IterationRule("newton", step=k), tolerance=tolerance, max_iterations=most)
    e, J = equations.evaluate(log.q)
    final = log.q - k * np.linalg.solve(J, e) if log.converged else log.q
    path = np.array([wrist_rotation(q) for q in [*log.path, final]])
    return log, final, path


@pytest.mark.row("001:K64", "001:K65", "001:K66", "001:M02")
@pytest.mark.parametrize("scheme", SCHEMES)
def test_four_schemes_of_the_wrist(scheme):
    iterations, length, q_end = SCHEMES[scheme]
    model, goal = wrist_zyx(), wrist_rotation(GOAL)
    if scheme == "relative rotation":
        equations = ik.rotation_equations(model, FRAME, goal)
    else:
        equations = ik.chart_equations(model, FRAME, goal, scheme)
    log, final, path = run_scheme(equations)
    assert log.converged
    assert log.iterations == iterations
    np.testing.assert_allclose(final, q_end, atol=6e-6)
    assert ik.rotation_path_length(path) == pytest.approx(length, abs=2e-6)
    angles = [np.linalg.norm(Rotation.from_matrix(a.T @ b).as_rotvec()) for a, b in zip(path[::40], path[40::40], strict=False)]
    assert ik.rotation_path_length(path[::40]) == pytest.approx(sum(angles), abs=1e-9)  # SciPy's angles
    if scheme == "relative rotation":
        whole = np.linalg.norm(Rotation.from_matrix(goal @ path[0].T).as_rotvec())
        left = np.linalg.norm(Rotation.from_matrix(goal @ path[-1].T).as_rotvec())
        assert whole == pytest.approx(3.00720677, abs=1e-8)
        assert ik.rotation_path_length(path) == pytest.approx(whole - left, abs=2e-6)  # the geodesic
        # about a fixed axis: every rotation on the way is exp(s n) of the start
        axis = Rotation.from_matrix(goal @ path[0].T).as_rotvec() / whole
        for R in path[::500][1:]:
            made = Rotation.from_matrix(R @ path[0].T).as_rotvec()
            np.testing.assert_allclose(made / np.linalg.norm(made), axis, atol=2e-3)
    else:
        assert ik.rotation_path_length(path) > 3.2


@pytest.mark.row("001:M02")
def test_the_sign_error_of_the_reference_program_does_not_converge():
    """Its map of XYZ rates has +cos(y) sin(x) where the derivation has the minus sign."""
    goal = euler.from_matrix_numeric("xyz", wrist_rotation(GOAL))

    def evaluate(q, sign=1.0):
        x, y, z = euler.from_matrix_numeric("xyz", wrist_rotation(q))
        E = np.array([[1, 0, np.sin(y)], [0, np.cos(x), sign * np.cos(y) * np.sin(x)], [0, np.sin(x), np.cos(x) * np.cos(y)]])
        sz, cz, sy, cy = np.sin(q[0]), np.cos(q[0]), np.sin(q[1]), np.cos(q[1])
        J0 = np.array([[0, -sz, cy * cz], [0, cz, cy * sz], [1, 0, -sy]])
        return np.array([x, y, z]) - goal, np.linalg.solve(E, J0)

    wrong = ik.iterate(
        ik.Equations(evaluate, lambda q, d: q + d), START, ik.IterationRule("newton", step=1e-2), tolerance=0.1, max_iterations=1000
    )
    assert not wrong.converged
    assert wrong.errors[-1] > 1.0
    right = ik.iterate(
        ik.Equations(lambda q: evaluate(q, -1.0), lambda q, d: q + d),
        START,
        ik.IterationRule("newton", step=1e-2),
        tolerance=0.1,
        max_iterations=1000,
    )
    assert right.converged
    ours = ik.chart_equations(wrist_zyx(), FRAME, wrist_rotation(GOAL), "xyz")
    for q in (START, np.array([0.3, 0.4, -0.5])):
        np.testing.assert_allclose(ours.evaluate(q)[1], evaluate(q, -1.0)[1], atol=1e-11)


@pytest.mark.row("001:K65")
def test_rotation_error_in_both_frames():
    rng = np.random.default_rng(5)
    for _ in range(30):
        A, B = random_rotation(rng), random_rotation(rng)
        world, body = (np.array(ik.rotation_error(A, B, frame)).ravel() for frame in ("world", "body"))
        np.testing.assert_allclose(world, A @ body, atol=1e-12)
        np.testing.assert_allclose(B @ body, world, atol=1e-12)  # the axis is the same seen from either end
        np.testing.assert_allclose(world, Rotation.from_matrix(B @ A.T).as_rotvec(), atol=1e-10)
        np.testing.assert_allclose(Rotation.from_rotvec(world).as_matrix() @ A, B, atol=1e-12)
        assert np.linalg.norm(world) <= np.pi + 1e-12
    with pytest.raises(ProblemError, match="did you mean 'world'"):
        ik.rotation_error(A, B, "wrld")


@pytest.mark.row("001:K66")
def test_geometric_jacobian_takes_the_short_way_on_a_redundant_arm():
    rng = np.random.default_rng(6)
    model = random_tree(5, rng, kinds=["revolute"], branching=0.0)
    fk = dynamics.make_frame(model, "pose", "f4")
    q, goal = alg.random_configuration(model, rng), None
    R0 = np.array(fk(q)[0])
    goal = R0 @ Rotation.from_rotvec([0.8, -0.5, 0.6]).as_matrix()
    turn = ik.rotation_equations(model, "f4", goal)
    log = ik.iterate(turn, q, ik.IterationRule("newton", step=0.01), tolerance=1e-3, max_iterations=2000)
    assert log.converged
    path = np.array([np.array(fk(x)[0]) for x in log.path])
    assert ik.rotation_path_length(path) + log.errors[-1] == pytest.approx(np.linalg.norm([0.8, -0.5, 0.6]), rel=1e-3)
    quick = ik.iterate(turn, q, tolerance=1e-12)
    assert quick.converged
    assert quick.iterations < 15


def test_wrong_input_is_named():
    with pytest.raises(ProblemError, match="did you mean 'newton'"):
        ik.IterationRule("newtn")
    with pytest.raises(ProblemError, match="positive"):
        ik.IterationRule(step=0.0)
    with pytest.raises(ValueError, match="did you mean"):
        ik.chart_equations(wrist_zyx(), FRAME, np.eye(3), "zyxx")
    with pytest.raises(ProblemError, match="not finite at iteration 1"):
        ik.iterate(ik.Equations(lambda q: (q * np.nan, np.eye(1)), lambda q, d: q + d), [0.0])
