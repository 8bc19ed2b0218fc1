"""A controller in a loop of one's own: its answers, references and parameters at run time, and what it does without a plan."""

import threading
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

import ocp
from ocp.errors import ProblemError
from ocp.mpc.controller import Controller
from ocp.mpc.step import StepStatus

N, h = 20, 0.05


def mass(q_ref=None, gain=1.0, bound=None, wall=None):
    """A mass on a line, its end expensive; costs are sums over the knots, so that the discrete problem is known exactly."""
    p = ocp.Problem("mass", duration=N * h)
    q, v, a = p.state("q", "m"), p.state("v", "m/s"), p.control("a", "m/s^2")
    reference = p.parameter("q_ref", 0.0) if q_ref is None else q_ref
    p.dynamics({q: v, v: p.parameter("gain", gain) * a})
    p.start(q=1 if wall is None else wall[1], v=0)
    p.cost(10 * (q - reference) ** 2, name="position")
    p.cost(0.09 * v**2, name="speed")
    p.cost(0.1 * a**2, name="effort")
    p.cost(final=10 * (q - reference) ** 2, name="end")
    if bound is not None:
        p.bounds({a: (-bound, bound)})
    if wall is not None:
        p.bounds({q: wall})
    return p


OPTIONS = {"rate": 1 / h, "ilqr": {"intervals": N, "cost_quadrature": "rectangle"}}
CACHE = {}


def controller(safe="hold", **how):
    """One controller for each problem, begun anew: it is what it costs to compile that takes time."""
    key = repr(sorted(how.items()))
    if key not in CACHE:
        CACHE[key] = mass(**how).controller(**OPTIONS)
    found = CACHE[key]
    found.safe = safe
    found.reference(**{name: 0.0 for name in ("q_ref",) if name in found.phase.system.parameters})
    found.set(gain=how.get("gain", 1.0))
    return found


def regulator(gain=1.0):
    """Gain [1, 2] of the first step by the Riccati recursion."""
    A, B = np.array([[1, h], [0, 1]]), gain * np.array([[h * h / 2], [h]])
    P = np.diag([10.0, 0.0])
    for _ in range(N):
        K = np.linalg.solve(np.array([[h * 0.1]]) + B.T @ P @ B, B.T @ P @ A)
        P = h * np.diag([10.0, 0.09]) + A.T @ P @ (A - B @ K)
    return K


def moved(x, u):
    return np.array([x[0] + h * x[1] + h * h / 2 * u[0], x[1] + h * u[0]])


# ---- what it answers ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("parts", [False, True], ids=["step", "prepare and feedback"])
def test_a_linear_problem_is_the_linear_quadratic_regulator(parts):
    """One iteration is exact, so every control is that of the Riccati recursion; also from states that no plan foresaw."""
    mpc, K, x, rng = controller(), regulator(), np.array([1.0, 0.0]), np.random.default_rng(0)
    mpc.reset(x)
    for k in range(30):
        if parts:
            mpc.prepare()
            u = mpc.feedback(x)
        else:
            u = mpc.step(x, k * h)
        assert u == pytest.approx(-K @ x, abs=1e-8)
        assert mpc.report.ok
        assert mpc.report.status is StepStatus.SOLVED
        x = moved(x, u) + 0.1 * rng.standard_normal(2)
    assert -mpc.gains[0] == pytest.approx(K, abs=1e-8)


def test_parts_of_a_step_agree_with_the_whole_where_the_plant_is_the_model():
    """Bounds that act: after convergence prepare and feedback hold the same motion as steps do."""
    found = []
    for parts in (False, True):
        mpc, x, motion = controller(bound=2.0), np.array([1.0, 0.0]), []
        mpc.reset(x)
        for _ in range(40):
            if parts:
                mpc.prepare()
            u = mpc.feedback(x) if parts else mpc.step(x)
            x = moved(x, u)
            motion.append([*x, *u])
        found.append(np.array(motion))
    assert np.abs(found[0][:, 2]).max() == 2.0
    # parts know the last state of a plan one period earlier than its last control: at most that differs
    assert found[0] == pytest.approx(found[1], abs=2e-2)
    assert np.abs(found[1][-1, :2]).max() < 0.05


def test_a_state_may_be_a_mapping_of_names():
    mpc = controller()
    mpc.reset({"q": 0.5, "v": -0.2})
    u = mpc.step({"v": -0.2, "q": 0.5}, 0.0)
    assert u == pytest.approx(-regulator() @ [0.5, -0.2], abs=1e-8)
    with pytest.raises(ProblemError, match="no state named 'w'"):
        mpc.step({"q": 0.5, "w": 0.0})
    with pytest.raises(ProblemError, match="the state lacks v"):
        mpc.step({"q": 0.5})
    with pytest.raises(ProblemError, match=r"shape \(3,\), expected \(2,\)"):
        mpc.step([0.0, 1.0, 2.0])


def test_joints_of_a_robot_have_the_names_of_files():
    mpc = ocp.load("problems/mpc/flexible_arm.yaml").controller(start_iterations=0)
    names = mpc.phase.system.space.names
    state = {f'{name[0]}["{name[2:]}"]': i / 10 for i, name in enumerate(names)}
    assert mpc._state(state) == pytest.approx(np.arange(len(names)) / 10)


def test_the_plan_is_there_by_name_and_at_absolute_times():
    mpc = controller()
    mpc.reset([1.0, 0.0], 3.0)
    mpc.step([1.0, 0.0], 3.0)
    plan = mpc.plan
    assert plan.t == pytest.approx(3.0 + h * np.arange(N + 1))
    assert plan["q"].shape == (N + 1,)
    assert plan["a"].shape == (N,)
    for k in range(N):
        assert plan.x[k + 1] == pytest.approx(moved(plan.x[k], plan.u[k]), abs=1e-12)
    with pytest.raises(ProblemError, match="no state or control named 'p'"):
        plan["p"]
    before = plan.x.copy()
    mpc.step([0.9, 0.0], 3.05)
    assert np.array_equal(before, plan.x)  # a copy


# ---- what changes at run time -------------------------------------------------------------------------------------------
def test_a_parameter_that_is_set_is_that_of_another_problem():
    mpc, x = controller(), np.array([1.0, 0.3])
    mpc.reset(x)
    mpc.set(gain=2.0)
    for _ in range(3):
        u = mpc.step(x, mpc.time)
    assert u == pytest.approx(-regulator(2.0) @ x, abs=1e-8)
    with pytest.raises(ProblemError, match="no parameter named 'gian'; did you mean 'gain'"):
        mpc.set(gian=1.0)
    with pytest.raises(ProblemError, match="not finite"):
        mpc.set(gain=np.nan)


def closed_loop(mpc, steps=40):
    x, found = np.array([1.0, 0.0]), []
    mpc.reset(x)
    for k in range(steps):
        u = mpc.step(x, k * h)
        x = moved(x, u)
        found.append(u[0])
    return np.array(found)


def test_a_reference_at_run_time_is_that_of_the_file():
    """Function of times, of one time, arrays, a number: each what the same expression of t gives in the problem."""
    import math

    sine = mass(q_ref=0.5 * ocp.sin(2 * ocp.t))
    wanted = closed_loop(sine.controller(**OPTIONS))
    t = np.linspace(0, 5, 20001)
    for source in (lambda t: 0.5 * np.sin(2 * t), lambda t: 0.5 * math.sin(2 * t), (t, 0.5 * np.sin(2 * t))):
        mpc = controller()
        mpc.reference(q_ref=source)
        assert closed_loop(mpc) == pytest.approx(wanted, abs=1e-6)
    mpc = controller()
    mpc.reference(q_ref=1.0)
    assert closed_loop(mpc, 3) == pytest.approx(np.zeros(3), abs=1e-8)  # it is there
    mpc.reference(q_ref=np.full(N + 1, 1.0))
    assert closed_loop(mpc, 3) == pytest.approx(np.zeros(3), abs=1e-8)
    for source, words in ((np.zeros(3), "one for every knot"), (([0.0, 0.0], [1.0, 2.0]), "the times rising"),
                          (np.inf, "not finite")):
        with pytest.raises(ProblemError, match=words):
            mpc.reference(q_ref=source)


def test_a_solved_motion_is_a_reference():
    """The motion is a solution of the same dynamics, so following it costs its effort alone: the mass comes near it."""
    other = mass()
    other.set("phase.start", {"q": 0, "v": 0})
    other.final(q=1, v=0)
    motion = other.solve("collocation", intervals=20)
    mpc = controller()
    mpc.reference(motion)
    x, path = np.zeros(2), motion.solution.trajectory
    mpc.reset(x)
    assert mpc.horizon.parameters[:, 0] == pytest.approx(path.state(np.clip(mpc.plan.t, 0, 1))[:, 0], abs=1e-12)
    for k in range(40):
        x = moved(x, mpc.step(x, k * h))
    assert x == pytest.approx([1.0, 0.0], abs=5e-2)
    mpc.reference(motion, q_ref="v")
    mpc.step(x, 2.0)
    assert mpc.horizon.parameters[:, 0] == pytest.approx(np.zeros(N + 1), abs=1e-12)
    with pytest.raises(ProblemError, match="no state or control 'w'"):
        mpc.reference(motion, q_ref="w")
    with pytest.raises(ProblemError, match="is not a motion"):
        mpc.reference(3.0)


# ---- where there is no plan ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("safe", ["hold", "plan", lambda t, x: np.array([7.0])], ids=["hold", "plan", "function"])
@pytest.mark.parametrize("what", ["state", "time", "reference"])
def test_the_safe_control_acts_where_there_is_nothing_to_go_by(safe, what):
    mpc, x = controller(safe), np.array([1.0, 0.0])
    now = [1.0]
    mpc.reference(q_ref=lambda t: 0.0 * t * now[0])
    mpc.reset(x)
    u = mpc.step(x, 0.0)
    x, plan = moved(x, u), mpc.plan
    bad, t = x, h
    if what == "state":
        bad = np.array([np.nan, 0.0])
    elif what == "time":
        t = -1.0
    else:
        now[0] = np.nan
    acted = mpc.step(bad, t)
    wanted = {"hold": u, "plan": plan.u[0 if what == "time" else 1]}.get(safe, np.array([7.0]))
    if what == "reference" and safe == "plan":
        wanted = plan.u[1]
    assert acted == pytest.approx(wanted, abs=1e-12)
    assert mpc.report.status is {"state": StepStatus.STATE_NOT_FINITE, "time": StepStatus.TIME_REVERSED,
                                 "reference": StepStatus.REFERENCE_NOT_FINITE}[what]
    assert not mpc.report.ok
    now[0] = 1.0
    assert mpc.step(x, 2 * h) == pytest.approx(-regulator() @ x, abs=1e-8)  # and then it goes on
    assert mpc.report.ok


def test_safe_controls_keep_the_bounds_and_have_a_name():
    mpc = controller(lambda t, x: np.array([99.0]), bound=2.0)
    mpc.reset([1.0, 0.0])
    assert mpc.step([np.nan, 0.0]) == [2.0]
    with pytest.raises(ProblemError, match="no policy named 'brake'"):
        Controller(None, safe="brake")
    fresh = object.__new__(Controller)
    fresh.__dict__.update(mpc.__dict__, status=StepStatus.NOT_BEGUN)
    with pytest.raises(ProblemError, match=r"call reset\(x, t\) before"):
        fresh.step([1.0, 0.0])


def test_a_horizon_that_is_used_up_begins_anew():
    mpc, x = controller(), np.array([0.4, 0.1])
    mpc.reset([1.0, 0.0])
    assert mpc.step(x, 100.0) == pytest.approx(-regulator() @ x, abs=1e-8)
    assert mpc.plan.t[0] == 100.0
    assert mpc.report.time == 100.0


def test_failures_begin_again_from_the_guess(monkeypatch):
    from ocp.shooting.receding import Receding

    mpc, x = controller(), np.array([1.0, 0.0])
    mpc.reset(x)
    u, iterate, calls = mpc.step(x), Receding.iterate, [0]

    def failing(self, state, iterations=1):
        calls[0] += 1
        return 5 if calls[0] <= 2 else iterate(self, state, iterations)

    monkeypatch.setattr(Receding, "iterate", failing)
    monkeypatch.setattr(Receding, "message", property(lambda self: "made to fail"))
    for _ in range(2):
        assert mpc.step(x) == pytest.approx(u)
        assert mpc.report.status is StepStatus.SOLVER_FAILED
        assert mpc.report.message == "made to fail"
    assert mpc.failing == 2
    assert mpc.step(x) == pytest.approx(u, abs=1e-8)
    assert mpc.failing == 0


def test_a_state_outside_its_bounds_is_reported_and_led_back():
    mpc = controller(wall=(-1.2, 0.5))
    x = np.array([0.5, 0.0])
    mpc.reset(x)
    x = np.array([0.62, 0.0])  # pushed through the wall
    u = mpc.step(x)
    assert mpc.report.ok
    assert mpc.report.status is StepStatus.STATE_OUTSIDE_BOUNDS
    assert mpc.report.outside == {"q": pytest.approx(0.12)}
    for _ in range(15):
        x = moved(x, u)
        u = mpc.step(x)
    assert x[0] < 0.5
    assert mpc.report.outside == {}
    mpc.reference(q_ref=0.75)
    assert mpc.report.beyond == {"q_ref": pytest.approx(0.25)}
    for _ in range(60):
        x = moved(x, mpc.step(x))
        assert x[0] < 0.5
    names = {v.name for v in mpc.report.violations()}
    assert "state bounds" in names


# ---- what it costs ------------------------------------------------------------------------------------------------------
def test_steps_leave_no_memory_behind_and_repeat_bit_by_bit():
    mpc, out, found = controller(), np.zeros(1), []
    states = 0.1 * np.random.default_rng(1).standard_normal((500, 2))
    for _ in range(2):
        mpc.reset(states[0])
        controls = np.zeros((500, 1))
        for k, x in enumerate(states):
            mpc.step(x, k * h, controls[k])
        found.append(controls)
    assert found[0].tobytes() == found[1].tobytes()
    for _ in range(100):
        mpc.step(states[0], out=out)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(10000):
            mpc.step(states[0], out=out)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 2000  # bytes: a few objects at most, none a step


def test_a_controller_works_in_another_thread():
    mpc = controller()
    here, there = closed_loop(mpc), []
    thread = threading.Thread(target=lambda: there.append(closed_loop(mpc)))
    thread.start()
    thread.join(60)
    assert here.tobytes() == there[0].tobytes()


def test_a_closed_loop_runs_through_it():
    """The loop of the file against the model, and a loop of one's own with the same integrator: the same controls."""
    loop = mass().mpc(**OPTIONS, duration=1.0, plant={"substeps": 1})
    assert loop.loop.u[:, 0] == pytest.approx(closed_loop(controller(), 20), abs=1e-12)
    assert replace(loop.loop.options).rate == 1 / h


# ---- hard constraints at one iteration a step ---------------------------------------------------------------------------
def run_into(problem, steps, kick=None, **options):
    """Largest violations of q <= 0.5 in closed loop, before and after a kick, where the plant is the model."""
    mpc = problem.controller(**{**OPTIONS, **options})
    x, found = np.array([-1.0, 0.0]), []
    mpc.reset(x)
    mpc.reference(q_ref=lambda t: np.sin(2 * t))
    for k in range(steps):
        if k == kick:
            x = x + np.array([0.3, 0.0])
        u = mpc.step(x, k * h)
        x = moved(x, u)
        found.append(x[0] - 0.5)
    return np.array(found)


def test_walls_hold_at_one_iteration_a_step_and_a_state_beyond_is_led_back():
    problem = mass(wall=(-2.0, 0.5), bound=10.0)
    problem.set("phase.start", {"q": -1, "v": 0})
    beyond = run_into(problem, 140)
    assert beyond.max() <= 1e-4 * 2.5  # of the range of the bound
    assert np.sort(beyond)[-20:].min() > -0.02  # it is the wall that stops it
    assert run_into(problem, 140, barrier=0).max() > 1e-3  # which multipliers alone do not
    kicked = run_into(problem, 140, kick=16)
    assert kicked[16] > 0.1
    assert kicked[22:].max() <= 1e-4 * 2.5


def test_the_derivatives_of_the_barrier_are_those_of_its_value():
    """Rows c <= 0 and a cone, within and beyond their margin: slopes and weights against central differences."""
    from ocp.shooting.engine import augmented
    from ocp.shooting.engine.record import ConstraintSet
    from ocp.shooting.stages.rows import BELOW, CONE, IN_CONE

    z = np.zeros
    kinds, sizes = np.array([[BELOW, CONE, IN_CONE, IN_CONE]]), np.array([[1, 3, 1, 1]])
    held = ConstraintSet(np.array([4]), np.zeros(1, dtype=np.int64), kinds, sizes, np.ones((1, 4), dtype=np.int64), z((1, 4)),
                         np.ones((1, 4)), z((1, 4)), z((1, 4)), z((1, 4, 8)), z((1, 0, 8)), z(0), z((1, 4)), z((1, 4)),
                         z((2, 8, 8)), z((4, 4)), z((4, 8)), z((4, 8)), 0.3, 0.05)

    def value(c):
        held.c[0] = c
        return augmented.terms(held, 0, 0, held.c[0], held.gradient[0])

    for c in ([-0.4, 2.0, 0.5, -0.3], [-0.01, 0.6, 0.5, 0.3], [0.2, 0.1, 0.5, -0.7], [-1.0, 1.0, 0.0, 0.0]):
        c, e = np.array(c), 1e-6 * np.eye(4)
        value(c)
        augmented._weights(held, 0, 0)
        slope, weights = held.gradient[0].copy(), held.cone.copy()
        assert slope == pytest.approx([(value(c + d) - value(c - d)) / 2e-6 for d in e], rel=1e-5, abs=1e-7)
        differences = []
        for d in e:
            value(c + d)
            up = held.gradient[0].copy()
            value(c - d)
            differences.append((up - held.gradient[0]) / 2e-6)
        assert weights == pytest.approx(np.array(differences), rel=1e-4, abs=1e-5)
        assert np.linalg.eigvalsh(weights).min() > -1e-9
