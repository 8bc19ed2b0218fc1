"""Tasks, limits, inverse kinematics with priorities, differential IK as a programme, clearances."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.spatial.transform import Rotation

import dynamics
from dynamics import algorithms as alg
from dynamics.errors import UnknownNameError
from dynamics.model import read_urdf
from dynamics.model.builder import Builder, replace_limits
from dynamics.model.model import Joint, Limits, Mimic, Placement
from dynamics.model.synthetic import random_rotation, random_tree, random_unit
from dynamics.notation.textbook_robots import planar_arm
from ocp.control import tasks as tk
from ocp.control.clearance import Ball, Capsule, Clearance, HalfSpace, compile_clearances
from ocp.control.ik import solve_ik
from ocp.control.ik_qp import bounded_minimum, differential_ik
from ocp.control.limits import limit_box, sampler, velocity_bounds, violations
from ocp.control.task_kernel import compile_tasks
from ocp.errors import ProblemError

PANDA, UR5 = "problems/models/panda.urdf", "problems/models/ur5.urdf"
FRAME = {PANDA: "panda_hand_tcp", UR5: "tool0"}


def pose_of(model, frame, q):
    R, p = dynamics.make_frame(model, "pose", frame)(q)
    return np.array(R), np.array(p).ravel()


def every_task(model, frame, other, q_goal, rng):
    R, p = random_rotation(rng), rng.uniform(-1, 1, 3)
    return [
        tk.position_task(frame, p),
        tk.orientation_task(frame, R),
        tk.pose_task(frame, R, p),
        tk.com_task(p),
        tk.posture_task(q_goal),
        tk.position_task(frame, p, reference=other, name="p in"),
        tk.orientation_task(frame, R, reference=other, name="R in"),
        tk.pose_task(frame, R, p, reference=other, name="T in"),
        tk.position_task(frame, p, components=(2, 0), name="z and x"),
        tk.alignment_task(frame, random_unit(rng), random_unit(rng)),
        tk.aim_task(frame, random_unit(rng), p + 3.0),
        tk.alignment_task(frame, random_unit(rng), random_unit(rng), reference=other, name="a in"),
        tk.aim_task(frame, random_unit(rng), p + 3.0, reference=other, name="aim in"),
    ]


@pytest.mark.row("001:K54")
def test_every_error_is_what_it_says_and_every_jacobian_its_derivative():
    rng = np.random.default_rng(0)
    for root in ("free_flyer", "planar", "universal"):
        model = random_tree(7, rng, root=root)
        q, goal = alg.random_configuration(model, rng), alg.random_configuration(model, rng)
        tasks = every_task(model, "f6", "f3", goal, rng)
        kernel = compile_tasks(model, tasks, mode="interpreted")
        p = kernel.targets(tasks)
        e, J = kernel(q, p)
        h = 1e-6
        numeric = np.column_stack(
            [(kernel(kernel.plus(q, h * d, p), p)[0] - kernel(kernel.plus(q, -h * d, p), p)[0]) / (2 * h) for d in np.eye(model.nv)]
        )
        np.testing.assert_allclose(J, numeric, atol=2e-7 * (1 + np.abs(J).max()))
        parts = {t.name: e[a:b] for t, a, b in zip(tasks, kernel.starts, kernel.starts[1:], strict=False)}
        (R, x), (R_o, x_o) = pose_of(model, "f6", q), pose_of(model, "f3", q)
        goals = {t.name: t.target for t in tasks}
        R_star = goals["orientation of f6"].reshape(3, 3, order="F")
        np.testing.assert_allclose(parts["position of f6"], x - goals["position of f6"], atol=1e-12)
        np.testing.assert_allclose(parts["orientation of f6"], Rotation.from_matrix(R_star.T @ R).as_rotvec(), atol=1e-9)
        np.testing.assert_allclose(parts["p in"], R_o.T @ (x - x_o) - goals["p in"], atol=1e-12)
        np.testing.assert_allclose(parts["z and x"], (x - goals["z and x"])[[2, 0]], atol=1e-12)
        np.testing.assert_allclose(parts["R in"], Rotation.from_matrix(R_star.T @ R_o.T @ R).as_rotvec(), atol=1e-9)
        np.testing.assert_allclose(parts["posture"], np.array(dynamics.make(model, "difference")(goal, q)).ravel(), atol=1e-12)
        axis = np.array(tasks[9].shape.axis)
        np.testing.assert_allclose(parts["alignment of f6"], R @ axis - goals["alignment of f6"], atol=1e-12)
        line = goals["aim of f6"] - x
        np.testing.assert_allclose(parts["aim of f6"], R @ np.array(tasks[10].shape.axis) - line / np.linalg.norm(line), atol=1e-12)


def test_pose_error_against_pinocchio():
    pin = pytest.importorskip("pinocchio")
    import pinocchio_twin

    rng = np.random.default_rng(1)
    model = random_tree(6, rng, kinds=["revolute", "spherical", "prismatic"], root="free_flyer")
    twin = pinocchio_twin.build(model)
    data, index = twin.createData(), twin.getFrameId("f5")
    for _ in range(10):
        q = alg.random_configuration(model, rng)
        R, p = random_rotation(rng), rng.uniform(-1, 1, 3)
        task = tk.pose_task("f5", R, p)
        kernel = compile_tasks(model, [task], mode="interpreted")
        e, J = kernel(q, kernel.targets([task]))
        x = pinocchio_twin.configuration(model, q)
        pin.framesForwardKinematics(twin, data, x)
        error = pin.SE3(R, p).inverse() * data.oMf[index]
        np.testing.assert_allclose(e, pin.log6(error).vector, atol=1e-9)
        J_pin = pin.Jlog6(error) @ pin.computeFrameJacobian(twin, data, x, index, pin.LOCAL)
        np.testing.assert_allclose(J, J_pin, atol=1e-8)


@pytest.mark.parametrize("path", [PANDA, UR5])
def test_reachable_targets_are_always_found_within_the_limits(path):
    model, frame = read_urdf(path), FRAME[path]
    rng = np.random.default_rng(2)
    lower, upper = model.limit("lower"), model.limit("upper")
    q0 = 0.5 * (np.clip(lower, -3, 3) + np.clip(upper, -3, 3))
    for _ in range(100):
        R, p = pose_of(model, frame, alg.random_configuration(model, rng))
        got = solve_ik(model, [tk.pose_task(frame, R, p)], q0=q0, rng=rng)
        assert got.converged
        assert not got.violations
        R_got, p_got = pose_of(model, frame, got.q)
        np.testing.assert_allclose(p_got, p, atol=3e-8)
        np.testing.assert_allclose(R_got, R, atol=3e-8)
        assert (got.q >= lower).all()
        assert (got.q <= upper).all()
        np.testing.assert_array_equal(got.path[-1], got.q)
        assert (got.path >= lower - 1e-15).all()


def test_limits_bind_where_they_must():
    """A planar arm whose first joint may not turn far: the answer is the closest point on the boundary, as SciPy finds it."""
    model = planar_arm()
    narrow = replace_limits(
        model, {"joint1": Limits((-0.2,), (0.2,)), "joint2": Limits((-0.4,), (0.4,)), "joint3": Limits((-0.4,), (0.4,))}
    )
    target = np.array([2.5, 0.0, 0.5])
    task = tk.position_task("end_effector", target, components=(0, 2))
    free = solve_ik(model, [task], q0=[0.1, 0.1, 0.1])
    assert free.converged
    tight = solve_ik(narrow, [task], q0=[0.1, 0.1, 0.1], restarts=20)
    assert not tight.converged
    assert not tight.violations
    assert "no start of 21" in tight.message

    def miss(q):
        a = np.cumsum(q)
        return (np.sin(a).sum() - 2.5) ** 2 + (np.cos(a).sum() - 0.5) ** 2

    best = min(
        minimize(miss, x, bounds=[(-0.2, 0.2), (-0.4, 0.4), (-0.4, 0.4)]).fun
        for x in np.random.default_rng(4).uniform(-0.2, 0.2, (10, 3))
    )
    assert tight.residuals["position of end_effector"] == pytest.approx(np.sqrt(best), abs=1e-6)
    unlimited = solve_ik(narrow, [task], q0=[0.1, 0.1, 0.1], limits=False)
    assert unlimited.converged
    outside = solve_ik(narrow, [tk.position_task("end_effector", [0.6, 0.0, 2.8], components=(0, 2))], q0=[1.5, -2.0, 3.0])
    assert not outside.violations  # a start outside recovers
    assert np.abs(outside.q).max() <= 0.4


def test_mimic_joints_and_limits_of_their_followers():
    builder = Builder("coupled")
    y = ((0.0, 1.0, 0.0),)
    builder.body("a", parent="world", joint=Joint("lead", "revolute", axes=y, limits=Limits((-2.0,), (2.0,))))
    builder.body(
        "b",
        parent="a",
        joint=Joint(
            "follow", "revolute", Placement(position=(0.0, 0.0, 1.0)), y, Limits((-0.5,), (0.5,)), mimic=Mimic("lead", 0.5)
        ),
    )
    builder.frame("tip", body="b", placement=Placement(position=(0.0, 0.0, 1.0)))
    model = builder.build()
    got = solve_ik(model, [tk.position_task("tip", [np.sin(0.8) + np.sin(1.2), 0.0, np.cos(0.8) + np.cos(1.2)])], q0=[0.1])
    assert got.converged
    assert got.q[0] == pytest.approx(0.8, abs=1e-7)
    over = solve_ik(model, [tk.joint_task("lead", 1.5)], q0=[0.0], restarts=0)
    assert over.q[0] == pytest.approx(1.0)  # the follower's limit
    assert not over.converged
    with pytest.raises(ProblemError, match="'follow' has no coordinate"):
        solve_ik(model, [tk.joint_task("follow", 0.1)], q0=[0.0])


# ------------------------------------------------------------------------------------------------ priorities
@pytest.mark.row("001:K58")
def test_lower_priorities_never_disturb_higher_ones():
    """Three levels on the Panda; dropping the last ones changes no higher residual; each level is at its constrained
    minimum."""
    model, frame = read_urdf(PANDA), FRAME[PANDA]
    rng = np.random.default_rng(5)
    for k in range(12):
        q = alg.random_configuration(model, rng)
        _, p = pose_of(model, frame, q)
        if k % 4 == 3:
            p = p * 3.0 / np.linalg.norm(p)  # out of reach: the first level is only as close as can be
        levels = [tk.position_task(frame, p), tk.alignment_task(frame, [0, 0, 1], [0, 0, -1]),
                  tk.posture_task(0.5 * q, name="rest")]
        results = [solve_ik(model, levels[:n], q0=q * 0.9, max_iterations=300, restarts=20) for n in (1, 2, 3)]
        first = [r.residuals[levels[0].name] for r in results]
        assert max(first) - min(first) < 1e-8
        second = [r.residuals[levels[1].name] for r in results[1:]]
        assert abs(second[1] - second[0]) < 1e-8
        assert not results[2].violations
        # gain where it is free: the posture is nearer than before it was asked for
        before = np.linalg.norm(results[1].q - 0.5 * q)
        assert results[2].residuals["rest"] <= before + 1e-9


def test_second_priority_is_optimal_on_the_self_motion_manifold():
    """A planar arm of four links reaches a point and stays near a posture: compared with SciPy's constrained minimum."""
    model = planar_arm((1.0, 1.0, 1.0, 1.0))
    target, rest = np.array([1.5, 0.0, 1.2]), np.array([0.2, 0.4, -0.3, 0.5])
    got = solve_ik(
        model,
        [tk.position_task("end_effector", target, components=(0, 2)), tk.posture_task(rest)],
        q0=[0.3, 0.5, 0.2, 0.4],
        max_iterations=500,
    )
    assert got.converged
    assert got.levels == ("met", "best possible")

    def reach(q):
        a = np.cumsum(q)
        return np.array([np.sin(a).sum() - 1.5, np.cos(a).sum() - 1.2])

    best = minimize(
        lambda q: np.sum((q - rest) ** 2),
        got.q + 0.01,
        constraints={"type": "eq", "fun": reach},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    np.testing.assert_allclose(got.q, best.x, atol=1e-5)


def test_seeds_tolerances_and_repeatability():
    model, frame = read_urdf(UR5), FRAME[UR5]
    rng = np.random.default_rng(6)
    q = alg.random_configuration(model, rng)
    task = tk.pose_task(frame, *pose_of(model, frame, q))
    a, b = (solve_ik(model, [task], q0=np.zeros(6)) for _ in range(2))
    np.testing.assert_array_equal(a.q, b.q)
    seeded = solve_ik(model, [task], q0=np.full(6, 1.0), seeds=[q + 1e-3], restarts=0)
    assert seeded.converged
    loose = solve_ik(model, [task], q0=q + 0.3, tolerance=1e-2)
    assert loose.converged
    assert 1e-2 >= loose.residuals[task.name] > 0.0
    weighted = solve_ik(model, [[tk.position_task(frame, [0.4, 0.1, 0.3], weight=100.0), tk.com_task([0, 0, 1.0])]], q0=q,
                        restarts=0)
    assert not weighted.converged
    assert weighted.residuals[f"position of {frame}"] < weighted.residuals["centre of mass"]


def test_wrong_input_is_named():
    model = planar_arm()
    task = tk.position_task("end_effector", [1, 0, 1])
    for call, text in (
        (lambda: solve_ik(model, [], q0=np.zeros(3)), "at least one task"),
        (lambda: solve_ik(model, [[]], q0=np.zeros(3)), "at least one task"),
        (lambda: solve_ik(model, [task, task], q0=np.zeros(3)), "two tasks are called"),
        (lambda: solve_ik(model, [task], q0=np.zeros(2)), "expected 3 finite"),
        (lambda: solve_ik(model, [task], q0=np.full(3, np.nan)), "finite"),
        (lambda: solve_ik(model, [task], q0=np.zeros(3), seeds=np.zeros((2, 4))), "seeds"),
        (lambda: solve_ik(model, [task], q0=np.zeros(3), tolerance=0.0), "tolerance"),
        (lambda: solve_ik(model, [task], q0=np.zeros(3), max_iterations=0), "max_iterations"),
        (lambda: solve_ik(model, [tk.posture_task([0.0, 0.0])], q0=np.zeros(3)), "target has 2 numbers, expected 3"),
        (lambda: tk.position_task("end_effector", [1, 0]), "position has shape"),
        (lambda: tk.position_task("end_effector", [1, 0, np.inf]), "not finite"),
        (lambda: tk.position_task("end_effector", [1, 0, 0], components=(3,)), "from 0 to 2"),
        (lambda: tk.position_task("end_effector", [1, 0, 0], weight=-1.0), "weights must be positive"),
        (lambda: tk.orientation_task("end_effector", 2 * np.eye(3)), "not a rotation"),
        (lambda: tk.orientation_task("end_effector", np.diag([1, 1, -1])), "not a rotation"),
        (lambda: tk.alignment_task("end_effector", [0, 0, 0], [0, 0, 1]), "no direction"),
        (lambda: compile_tasks(model, []), "at least one task"),
    ):
        with pytest.raises(ProblemError, match=text):
            call()
    with pytest.raises(UnknownNameError, match="did you mean 'end_effector'"):
        solve_ik(model, [tk.position_task("end_efector", [1, 0, 1])], q0=np.zeros(3))
    with pytest.raises(UnknownNameError, match="joint"):
        solve_ik(model, [tk.joint_task("joint9", 0.0)], q0=np.zeros(3))


def test_random_starts_cover_limits_turns_and_rotations():
    rng = np.random.default_rng(7)
    model = random_tree(5, rng, root="free_flyer", kinds=["revolute", "spherical", "planar"])
    model = replace_limits(model, {b.joint.name: Limits((0.5,), (0.7,)) for b in model.bodies if b.joint.kind == "revolute"})
    q0 = alg.random_configuration(model, rng)
    draws = sampler(model, q0).draw(rng, 400)
    for i, body in enumerate(model.bodies):
        part = draws[:, model.q_slice(i)]
        if body.joint.kind == "revolute":
            assert part.min() >= 0.5
            assert part.max() <= 0.7
        if body.joint.kind in ("spherical", "free_flyer"):
            np.testing.assert_allclose(np.linalg.norm(part[:, -4:], axis=1), 1.0, atol=1e-14)
            assert np.abs(part[:, -4:].mean(axis=0)).max() < 0.15  # no direction preferred


# ------------------------------------------------------------------------------------------------ differential IK as a
# programme
def test_bounded_minimum_satisfies_its_optimality_conditions():
    rng = np.random.default_rng(8)
    for _ in range(300):
        n = int(rng.integers(1, 12))
        G = rng.standard_normal((n, n))
        H, g = G @ G.T + 1e-6 * np.eye(n), rng.standard_normal(n) * 3
        lower = rng.uniform(-1, 0.5, n)
        upper = lower + rng.uniform(0, 1, n) * (rng.random(n) > 0.1)
        x = bounded_minimum(H, g, lower, upper)
        slope = H @ x + g
        assert (x >= lower).all()
        assert (x <= upper).all()
        inside = (x > lower + 1e-12) & (x < upper - 1e-12)
        assert np.abs(slope[inside]).max(initial=0.0) < 1e-8
        assert (slope[(x <= lower + 1e-12) & (upper > lower)] > -1e-8).all()
        assert (slope[(x >= upper - 1e-12) & (upper > lower)] < 1e-8).all()
    with pytest.raises(ProblemError, match="exceeds"):
        bounded_minimum(np.eye(1), np.zeros(1), np.ones(1), np.zeros(1))


def test_differential_ik_keeps_velocity_and_position_limits():
    model, frame = read_urdf(PANDA), FRAME[PANDA]
    rng = np.random.default_rng(9)
    lower, upper = model.limit("lower"), model.limit("upper")
    fastest, dt = model.limit("velocity"), 0.02
    box = limit_box(model)
    for _ in range(5):
        q = alg.random_configuration(model, rng)
        R, p = pose_of(model, frame, alg.random_configuration(model, rng))
        task = tk.pose_task(frame, R, p, gain=5.0)
        for _ in range(200):
            got = differential_ik(model, [task], q, dt=dt, damping=0.05)
            assert (np.abs(got.v) <= fastest + 1e-9).all()
            q = q + dt * got.v
            assert not any(excess > 1e-12 for excess in violations(model, q, box).values())
    # far from every bound it is the damped inverse
    q = 0.5 * (lower + upper)
    R, p = pose_of(model, frame, q)
    near = tk.pose_task(frame, R, p + [1e-4, 0, 0])
    kernel = compile_tasks(model, [near])
    e, J = kernel(q, kernel.targets([near]))
    np.testing.assert_allclose(
        differential_ik(model, [near], q, damping=0.1).v, -J.T @ np.linalg.solve(J @ J.T + 0.01 * np.eye(6), e), atol=1e-10
    )


def test_a_start_outside_the_limits_returns_at_the_velocity_limit():
    model, frame = read_urdf(PANDA), FRAME[PANDA]
    q = 0.5 * (model.limit("lower") + model.limit("upper"))
    q[1], q[3] = model.limit("upper")[1] + 0.5, model.limit("lower")[3] - 0.3
    box, fastest = limit_box(model), model.limit("velocity")
    assert set(violations(model, q, box)) == {"panda_joint2", "panda_joint4"}
    task = tk.position_task(frame, [0.3, 0.2, 0.5])
    excess = [0.5]
    for _ in range(60):
        low, high = velocity_bounds(model, q, box, 0.02)
        assert (low <= high).all()
        got = differential_ik(model, [task], q, dt=0.02)
        assert (np.abs(got.v) <= fastest + 1e-12).all()
        q = q + 0.02 * got.v
        excess.append(violations(model, q, box).get("panda_joint2", 0.0))
    assert all(b <= a for a, b in zip(excess, excess[1:], strict=False))
    assert excess[-1] < 1e-12
    assert excess[1] == pytest.approx(0.5 - 0.02 * fastest[1])


# ------------------------------------------------------------------------------------------------ clearances
def sampled_distance(a, b):
    """Distance of two segments [2, 3] by a bounded minimisation over both parameters."""
    return (
        min(
            minimize(
                lambda s: np.sum((a[0] + s[0] * (a[1] - a[0]) - b[0] - s[1] * (b[1] - b[0])) ** 2),
                x,
                bounds=[(0, 1)] * 2,
                options={"ftol": 1e-16, "gtol": 1e-12},
            ).fun
            for x in ((0.5, 0.5), (0.0, 1.0), (1.0, 0.0))
        )
        ** 0.5
    )


def test_distances_and_their_gradients():
    rng = np.random.default_rng(10)
    model = random_tree(6, rng, root="free_flyer", kinds=["revolute", "spherical"])
    ends = [tuple(rng.uniform(-0.4, 0.4, 3)) for _ in range(4)]
    pairs = [
        Clearance(Ball("f5", 0.1, ends[0]), Ball("f2", 0.05), 0.02, "balls"),
        Clearance(Capsule("f5", 0.1, ends[0], ends[1]), Ball("world", 0.3, (0.5, 0.2, 0.1)), 0.0, "capsule and ball"),
        Clearance(Ball("f5", 0.1), Capsule("f1", 0.1, ends[0], ends[1]), 0.0, "ball and capsule"),
        Clearance(Capsule("f5", 0.1, ends[0], ends[1]), Capsule("f2", 0.05, ends[2], ends[3]), 0.0, "capsules"),
        Clearance(Capsule("f4", 0.1, ends[0], ends[1]), HalfSpace((0, 1, 2), (0, 0, -1), "f0"), 0.0, "ground"),
    ]
    kernel = compile_clearances(model, pairs, mode="interpreted")
    assert kernel.names == ("balls", "capsule and ball", "ball and capsule", "capsules", "ground", "ground (2)")
    plus = dynamics.make(model, "integrate")
    for _ in range(15):
        q = alg.random_configuration(model, rng)
        h, G = kernel(q)
        numeric = np.column_stack(
            [
                (kernel(np.array(plus(q, 1e-6 * d)).ravel())[0] - kernel(np.array(plus(q, -1e-6 * d)).ravel())[0]) / 2e-6
                for d in np.eye(model.nv)
            ]
        )
        np.testing.assert_allclose(G, numeric, atol=1e-6)

        def point(frame, x, q=q):
            R, p = pose_of(model, frame, q)
            return R @ np.array(x) + p

        a = np.array([point("f5", ends[0]), point("f5", ends[1])])
        b = np.array([point("f2", ends[2]), point("f2", ends[3])])
        assert h[0] == pytest.approx(np.linalg.norm(point("f5", ends[0]) - point("f2", (0, 0, 0))) - 0.17, abs=1e-12)
        assert h[1] == pytest.approx(sampled_distance(a, np.array([[0.5, 0.2, 0.1]] * 2)) - 0.4, abs=1e-6)
        assert h[3] == pytest.approx(sampled_distance(a, b) - 0.15, abs=1e-6)
        R0, p0 = pose_of(model, "f0", q)
        n = R0 @ np.array([0, 1, 2]) / np.sqrt(5)
        assert h[4] == pytest.approx(n @ (point("f4", ends[0]) - p0 - R0 @ [0, 0, -1]) - 0.1, abs=1e-12)
    with pytest.raises(ProblemError, match="must be the second shape"):
        Clearance(HalfSpace((0, 0, 1)), Ball("f1", 0.1))
    with pytest.raises(ProblemError, match="negative"):
        Clearance(Ball("f1", -0.1), Ball("f2", 0.1))


def test_parallel_and_crossing_capsules():
    builder = Builder("brick")
    builder.body("b0", parent="world", joint=Joint("base", "free_flyer"))
    model = builder.build()
    here = Capsule("b0", 0.1, (0, 0, 0), (1, 0, 0))
    for other, q, expected in (
        (Capsule("world", 0.1, (0.0, 0, 0), (1.0, 0, 0)), (0.2, 0.5, 0.0), 0.3),  # side by side
        (Capsule("world", 0.1, (0.0, 0, 0), (1.0, 0, 0)), (1.5, 0.0, 0.0), 0.3),  # one behind the other
        (Capsule("world", 0.1, (0.5, -1, 0), (0.5, 1, 0)), (0.0, 0.0, 0.4), 0.2),  # crossing
    ):
        kernel = compile_clearances(model, [Clearance(here, other)], mode="interpreted")
        assert kernel([*q, 1.0, 0.0, 0.0, 0.0])[0][0] == pytest.approx(expected, abs=1e-12)


def test_reach_around_an_obstacle():
    model, frame = read_urdf(UR5), FRAME[UR5]
    rng = np.random.default_rng(12)
    guards = [
        Clearance(Capsule("wrist_3_link", 0.05, (0, 0, -0.1), (0, 0, 0.1)), HalfSpace((0, 0, 1)), 0.02, "table"),
        Clearance(Capsule("forearm_link", 0.06, (0, 0, 0), (0.39, 0, 0)), Ball("world", 0.15, (0.3, 0.3, 0.4)), 0.01, "ball"),
    ]
    kernel = compile_clearances(model, guards)
    met = 0
    for _ in range(15):
        q = alg.random_configuration(model, rng)
        while kernel(q)[0].min() < 0.01:
            q = alg.random_configuration(model, rng)
        got = solve_ik(
            model,
            [tk.pose_task(frame, *pose_of(model, frame, q))],
            q0=alg.random_configuration(model, rng),
            clearances=guards,
            restarts=30,
            rng=rng,
        )
        met += got.converged
        if got.converged:
            assert min(got.clearances.values()) >= 0.0
            assert not got.violations
            np.testing.assert_allclose(pose_of(model, frame, got.q)[1], pose_of(model, frame, q)[1], atol=2e-8)
    assert met == 15
    # a target inside the ball is approached until contact
    inside = solve_ik(model, [tk.position_task("forearm_link", [0.3, 0.3, 0.4])], q0=np.full(6, 0.3), clearances=guards, restarts=3)
    assert not inside.converged
    assert min(inside.clearances.values()) > -1e-6
    with pytest.raises(ProblemError, match="one priority"):
        solve_ik(model, [tk.joint_task("elbow_joint", 0.0), tk.posture_task(np.zeros(6))], q0=np.zeros(6), clearances=guards)


def test_differential_ik_slides_along_an_obstacle_and_leaves_it():
    model = planar_arm((0.5, 0.5, 0.5))
    wall = Clearance(Ball("end_effector", 0.05), HalfSpace((-1.0, 0.0, 0.0), (0.8, 0.0, 0.0)), 0.0, "wall")
    kernel = compile_clearances(model, [wall])
    q, task = np.array([0.0, 0.4, 0.3]), tk.position_task("end_effector", [1.2, 0.0, 0.6], components=(0, 2), gain=3.0)
    for _ in range(300):
        got = differential_ik(model, [task], q, dt=0.02, clearances=[wall], damping=0.02)
        q = q + 0.02 * got.v
        assert kernel(q)[0][0] > -2e-3  # the linearisation of one step
    tip = pose_of(model, "end_effector", q)[1]
    assert tip[0] == pytest.approx(0.75, abs=2e-3)
    assert tip[2] == pytest.approx(0.6, abs=2e-2)  # the closest point on the clear side
    deep = np.array([0.9, 0.6, 0.3])
    before = kernel(deep)[0][0]
    assert before < -0.1
    out = differential_ik(model, [task], deep, dt=0.02, clearances=[wall], speed=1.0)
    assert kernel(deep + 0.02 * out.v)[0][0] > before
    assert out.slack  # it cannot leave within one step at this speed, and says so
    assert (np.abs(out.v) <= 1.0).all()
