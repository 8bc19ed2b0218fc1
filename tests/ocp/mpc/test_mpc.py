"""Receding horizons in closed loop: plant, disturbances, timing of references, delay, determinism, what a run is judged by."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
import scipy.linalg
from repository import ROOT
from scipy.integrate import solve_ivp
from shooting_problems import function, make, quadrotor

from ocp.app.files.load import load_problem
from ocp.errors import ProblemError
from ocp.mpc import Disturbances, Ending, Kick, MPCOptions, PlantSpec, Push, Tracked, run
from ocp.mpc.evaluate import track, violations
from ocp.mpc.options import horizon_problem
from ocp.mpc.result import step_times
from ocp.plants import IntegratedPlant, Plant
from ocp.problem import INF, At, Constraint, Duration
from ocp.shooting.options import ILQROptions
from ocp.spaces import euclidean

SOLVER = ILQROptions(intervals=20, cost_quadrature="rectangle")


def cart(start=(1.0, 0.0), reference=lambda t: 0.0, weight=10.0, u_max=INF, **more):
    """A mass on a line that follows a reference of absolute time."""
    return make("mass", euclidean(("q", "v")), ("a",), lambda t, x, u: ca.vertcat(x[1], u), start, 1.0,
                running=[("state", lambda t, x, u: ca.vertcat(x[0] - reference(t), 0.3 * x[1]), (weight, 1.0)),
                         ("effort", lambda t, x, u: u, (0.1,))],
                final=[("end", lambda t, x, u: x[0] - reference(t), (weight,))], u_max=u_max, **more)


def pendulum_system():
    """theta'' = u - 9.81 sin(theta): nonlinear, and its energy is known."""
    return make("pendulum", euclidean(("theta", "omega")), ("u",), lambda t, x, u: ca.vertcat(x[1], u - 9.81 * ca.sin(x[0])),
                (0.5, 0.0), 1.0, running=[("energy", lambda t, x, u: x[1] ** 2, None)]).phase


def tracked(name, value, reference):
    return Tracked(name, function(2, 1, value), function(2, 1, reference))


# ---- the plant ----------------------------------------------------------------------------------------------------------
def test_the_plant_and_its_costs_agree_with_an_independent_integrator():
    phase = pendulum_system()
    plant = IntegratedPlant(PlantSpec(phase.system), phase.costs)
    x, total = np.array([0.5, 0.0]), 0.0
    for k in range(200):
        x, cost = plant.advance(0.01 * k, x, np.array([0.3]), 0.01)
        total += cost[0]
    exact = solve_ivp(lambda t, y: [y[1], 0.3 - 9.81 * np.sin(y[0]), y[1] ** 2], (0, 2), [0.5, 0, 0], method="DOP853", rtol=1e-12,
                      atol=1e-12).y[:, -1]
    assert x == pytest.approx(exact[:2], abs=1e-6)
    assert total == pytest.approx(exact[2], abs=1e-6)


@pytest.mark.parametrize(("integrator", "order"), [("euler", 1), ("midpoint", 2), ("rk4", 4)])
def test_substeps_converge_at_the_order_of_the_integrator(integrator, order):
    phase = pendulum_system()
    exact = solve_ivp(lambda t, y: [y[1], -9.81 * np.sin(y[0])], (0, 0.5), [0.5, 0], method="DOP853", rtol=1e-13,
                      atol=1e-13).y[:, -1]
    errors = []
    for steps in (20, 40):
        plant, x = IntegratedPlant(PlantSpec(phase.system, integrator)), np.array([0.5, 0.0])
        for k in range(steps):
            x = plant.advance(k * 0.5 / steps, x, np.zeros(1), 0.5 / steps)[0]
        errors.append(np.linalg.norm(x - exact))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.35)


def test_pushes_and_kicks_come_at_their_times():
    """Double integrator, closed form: a push that begins and ends inside substeps, a kick inside another."""
    system = cart().phase.system
    push = Push(0.123, 0.456, rate=(0.0, 2.0), controls=(3.0,))
    both = Disturbances(kicks=(Kick(0.777, (0.1, -0.5)),), pushes=(push,))
    plant = IntegratedPlant(PlantSpec(system, disturbances=both))
    x = np.zeros(2)
    for k in range(10):
        x = plant.advance(0.1 * k, x, np.zeros(1), 0.1)[0]
    a, duration, after = 5.0, 0.456, 1.0 - 0.123 - 0.456
    v = a * duration
    assert x[1] == pytest.approx(v - 0.5, abs=1e-12)
    assert x[0] == pytest.approx(a * duration**2 / 2 + v * after + 0.1 - 0.5 * (1 - 0.777), abs=1e-12)
    # an event on a boundary of substeps happens once
    plant = IntegratedPlant(PlantSpec(system, disturbances=Disturbances(kicks=(Kick(0.1, (1.0, 0.0)),))))
    x = np.zeros(2)
    for k in range(3):
        x = plant.advance(0.1 * k, x, np.zeros(1), 0.1)[0]
    assert x[0] == 1.0


def test_a_force_on_a_robot_is_a_force_on_a_frame():
    """A free body pushed off its centre: momentum and angular momentum about the origin grow by force and torque times time."""
    import dynamics
    from dynamics.model.model import Body, BodyInertia, Frame, Joint, Model, Placement
    from ocp.bridge import robot_system

    inertia = BodyInertia(2.0, (0.1, 0.0, 0.0), ((0.1, 0.0, 0.0), (0.0, 0.2, 0.0), (0.0, 0.0, 0.25)))
    model = Model("brick", (Body("brick", -1, Joint("base", "free_flyer"), inertia),),
                  (Frame("corner", 0, Placement(position=(0.3, 0.2, 0.1))),), gravity=(0.0, 0.0, 0.0))
    system = robot_system(model, actuated=[])
    force = np.array([1.0, -2.0, 0.5])
    pushed = Disturbances(pushes=(Push(0.0, 1.0, frame="corner", force=tuple(force)),))
    plant = IntegratedPlant(PlantSpec(system, disturbances=pushed))
    momentum, corner = dynamics.make(model, "momentum"), dynamics.make_frame(model, "pose", "corner")  # about the world origin
    x, torque, h = np.array(system.space.neutral), np.zeros(3), 1e-3
    x[7:] = [0.1, 0.2, -0.1, 0.5, -0.4, 0.3]
    before = np.array(momentum(x[:7], x[7:])).ravel()
    for k in range(500):
        new = plant.advance(k * h, x, np.zeros(0), h)[0]
        torque += h * sum(np.cross(np.array(corner(state[:7])[1]).ravel(), force) for state in (x, new)) / 2
        x = new
    grown = np.array(momentum(x[:7], x[7:])).ravel() - before
    assert grown[:3] == pytest.approx(0.5 * force, abs=1e-9)
    assert grown[3:] == pytest.approx(torque, abs=1e-6)


def test_noise_has_the_deviation_that_was_asked_for_and_streams_of_its_own():
    system = cart().phase.system
    both = Disturbances(seed=3, process=(0.5, 0.0), measurement=(0.0, 0.2))
    plant = IntegratedPlant(PlantSpec(system, disturbances=both))
    steps = np.array([plant.wander(np.zeros(2), 0.01) for _ in range(4000)])
    seen = np.array([plant.measure() for _ in range(4000)])
    assert steps[:, 0].std() == pytest.approx(0.5 * 0.1, rel=0.05)
    assert seen[:, 1].std() == pytest.approx(0.2, rel=0.05)
    assert not steps[:, 1].any()
    assert not seen[:, 0].any()
    # more process noise leaves the measurement noise as it was; another seed does not
    louder = IntegratedPlant(PlantSpec(system, disturbances=replace(both, process=(5.0, 1.0))))
    assert np.array_equal([louder.measure() for _ in range(5)], seen[:5])
    other = IntegratedPlant(PlantSpec(system, disturbances=replace(both, seed=4)))
    assert not np.array_equal([other.measure() for _ in range(5)], seen[:5])


def test_noise_on_an_attitude_keeps_its_unit_length():
    phase = quadrotor().phase
    spec = PlantSpec(phase.system, disturbances=Disturbances(process=(1.0,) * 12, measurement=(0.3,) * 12))
    plant, x = IntegratedPlant(spec), np.array(phase.start.value)
    i = phase.system.space.quaternions[0]
    for _ in range(20):
        x = plant.wander(x, 0.1)
        plant.reset(x)
        assert np.linalg.norm(x[i:i + 4]) == pytest.approx(1.0, abs=1e-12)
        assert np.linalg.norm(plant.measure()[i:i + 4]) == pytest.approx(1.0, abs=1e-12)


# ---- the loop -----------------------------------------------------------------------------------------------------------
def test_a_linear_loop_is_the_linear_quadratic_regulator():
    """Linear dynamics, quadratic costs: one iteration is exact, so the loop is that of a discrete LQR with the same horizon."""
    N, h = 20, 0.05
    loop = run(cart(), MPCOptions(rate=1 / h, duration=1.0), solver=SOLVER)
    A, B = np.array([[1, h], [0, 1]]), np.array([[h * h / 2], [h]])
    Q, R = h * np.diag([10.0, 0.09]), np.array([[h * 0.1]])
    P = np.diag([10.0, 0.0])
    for _ in range(N):
        K = np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)
        P = Q + A.T @ P @ (A - B @ K)
    x = np.array([1.0, 0.0])
    for k in range(20):
        assert loop.x[k] == pytest.approx(x, abs=1e-9)
        assert loop.u[k] == pytest.approx(-K @ x, abs=1e-7)
        x = A @ x - B @ (K @ x)
    # an endless horizon says the same of where it goes
    infinite = scipy.linalg.solve_discrete_are(A, B, Q, R)
    assert np.linalg.eigvals(A - B @ np.linalg.solve(R + B.T @ infinite @ B, B.T @ infinite @ A)) == pytest.approx(
        np.linalg.eigvals(A - B @ K), abs=0.02)


def test_references_are_functions_of_absolute_time():
    """A horizon of one second follows a sine of several periods, which only absolute knot times allow."""
    problem = cart((0.0, 0.0), lambda t: ca.sin(3 * t), weight=200.0)
    goal = tracked("q", lambda t, x, u: x[0], lambda t, x, u: ca.sin(3 * t))
    loop = run(problem, MPCOptions(rate=20, duration=5.0), solver=SOLVER, tracked=[goal])
    assert loop.ok
    late = loop.fine_t > 1.0
    error = np.abs(loop.tracking[0].value - loop.tracking[0].reference).ravel()
    assert error[late].max() < 0.1
    assert loop.tracking[0].largest == pytest.approx(error.max())
    # the same horizon at a frozen clock could not: half a second late is a large error
    assert np.abs(np.sin(3 * loop.fine_t) - np.sin(3 * (loop.fine_t - 0.5)))[late].max() > 0.5


@pytest.mark.parametrize("rate", [20.0, 50.0, 33.0], ids=["a knot", "part of a knot", "odd"])
def test_any_sampling_period_tracks(rate):
    problem = cart((0.3, 0.0), lambda t: ca.sin(2 * t), weight=100.0)
    goal = tracked("q", lambda t, x, u: x[0], lambda t, x, u: ca.sin(2 * t))
    loop = run(problem, MPCOptions(rate=rate, duration=4.0), solver=SOLVER, tracked=[goal])
    assert loop.ok
    assert loop.t[1] == pytest.approx(1 / rate)
    late = np.abs(loop.tracking[0].value - loop.tracking[0].reference).ravel()[loop.fine_t > 1.5]
    assert late.max() < 0.12


def test_bounds_of_the_control_hold_in_closed_loop():
    loop = run(cart((2.0, 0.0), u_max=1.5), MPCOptions(rate=20, duration=4.0), solver=SOLVER)
    assert np.abs(loop.fine_u).max() == 1.5
    assert {v.name: v.largest for v in loop.violations} == {"control bounds": 0.0}
    assert np.abs(loop.x[-1]).max() < 0.1


def test_feedback_between_samples_rejects_what_open_loop_cannot():
    """An unstable plant sampled slowly and disturbed: the gains act at every substep, the bare plan does not."""
    def rate(t, x, u):
        return ca.vertcat(x[1], 9.0 * x[0] + u)

    problem = make("unstable", euclidean(("q", "v")), ("a",), rate, (0.0, 0.0), 2.0,
                   running=[("state", lambda t, x, u: x, (50.0, 1.0)), ("effort", lambda t, x, u: u, (0.05,))])
    plant = PlantSpec(problem.phase.system, substeps=16,
                      disturbances=Disturbances(pushes=(Push(0.0, 6.0, rate=(0.0, 3.0)),)))
    options = MPCOptions(rate=4, duration=6.0, horizon=2.0)
    solver = replace(SOLVER, intervals=80)
    errors = [np.abs(run(problem, replace(options, feedback=feedback), solver=solver, plant=plant).fine_x[:, 0]).max()
              for feedback in (False, True)]
    assert errors[1] < 0.7 * errors[0]


def test_predicting_over_the_delay_is_better_than_ignoring_it():
    """A stiff regulator one sample late: with a prediction nothing is lost but the first sample, without one it rings."""
    problem = cart((1.0, 0.0), weight=2000.0)
    loops = {delay: run(problem, MPCOptions(rate=20, duration=4.0, delay=delay), solver=SOLVER)
             for delay in ("none", "predicted", "ignored")}
    # no noise, no mismatch: the state at the next sample is known, and so every control is the one without delay
    assert loops["predicted"].u == pytest.approx(loops["none"].u, abs=1e-6)
    assert loops["ignored"].cost > 1.5 * loops["predicted"].cost
    late = loops["none"].fine_t > 2.0
    assert np.abs(loops["ignored"].fine_x[late, 0]).max() > 10 * np.abs(loops["predicted"].fine_x[late, 0]).max()


def test_a_plant_that_differs_is_another_motion():
    problem = cart()
    heavy = replace(problem.phase.system, rate=function(2, 1, lambda t, x, u: ca.vertcat(x[1], u / 1.5), "rate"))
    options = MPCOptions(rate=20, duration=2.0)
    same, other = run(problem, options, solver=SOLVER), run(problem, options, solver=SOLVER, plant=PlantSpec(heavy, changed=("m",)))
    assert other.changed == ("m",)
    k = 1
    assert other.x[k, 1] == pytest.approx(same.x[k, 1] / 1.5, rel=1e-9)  # the first control is the same
    assert other.ok
    with pytest.raises(ProblemError, match="states of the plant"):
        run(problem, options, solver=SOLVER, plant=PlantSpec(pendulum_system().system))


class Foreign:
    """A plant that is none of ours: the double integrator in closed form."""

    def reset(self, x, t=0.0):
        self.x = np.array(x, float)

    def measure(self):
        return self.x.copy()

    def step(self, u, dt):
        self.x = self.x + dt * np.array([self.x[1] + dt * u[0] / 2, u[0]])
        return self.x


def test_any_plant_with_the_three_methods_will_do():
    """The same loop as with our integrator, which is exact here; costs by the trapezium rule come near those of its quadrature."""
    problem, options = cart(), MPCOptions(rate=50, duration=1.0)
    assert isinstance(Foreign(), Plant)
    ours, theirs = run(problem, options, solver=SOLVER), run(problem, options, solver=SOLVER, plant=Foreign())
    assert theirs.ok
    assert theirs.changed == ("the plant is a Foreign",)
    assert theirs.x == pytest.approx(ours.x, abs=1e-12)
    assert theirs.cost == pytest.approx(ours.cost, rel=1e-2)


def test_the_same_run_twice_bit_by_bit():
    problem = quadrotor()
    system = problem.phase.system
    noisy = PlantSpec(system, disturbances=Disturbances(seed=7, process=(0.02,) * 12, measurement=(0.01,) * 12,
                                                        kicks=(Kick(0.1, (0.05,) * 12),)))
    options = MPCOptions(rate=40, duration=0.5)
    first, again = (run(problem, options, solver=SOLVER, plant=noisy) for _ in range(2))
    for name in ("t", "x", "measured", "u", "fine_x", "fine_u", "codes", "solver_cost"):
        assert getattr(first, name).tobytes() == getattr(again, name).tobytes(), name
    other = run(problem, options, solver=SOLVER, plant=replace(noisy, disturbances=replace(noisy.disturbances, seed=8)))
    assert not np.array_equal(first.x, other.x)


def test_a_diverging_plant_is_reported():
    def rate(t, x, u):
        return ca.vertcat(x[1], x[0] ** 3 * 50 + u)

    problem = make("explosive", euclidean(("q", "v")), ("a",), rate, (0.1, 0.0), 0.2,
                   running=[("effort", lambda t, x, u: u, (1.0,))], u_max=0.1)
    plant = PlantSpec(problem.phase.system, disturbances=Disturbances(kicks=(Kick(0.5, (60.0, 0.0)),)))
    loop = run(problem, MPCOptions(rate=20, duration=3.0), solver=SOLVER, plant=plant)
    assert loop.ending is Ending.DIVERGED
    assert not loop.ok
    assert "q = " in loop.message
    assert 10 <= len(loop.seconds) < 60
    assert len(loop.t) == len(loop.seconds) + 1 == len(loop.x)


def test_interrupting_keeps_what_ran():
    def stop(state):
        if state["time"] > 1.0:
            raise KeyboardInterrupt

    import ocp.mpc.closed_loop as module
    every, module.REPORT_EVERY = module.REPORT_EVERY, 0.0
    try:
        loop = run(cart(), MPCOptions(rate=20, duration=5.0), solver=SOLVER, progress=stop)
    finally:
        module.REPORT_EVERY = every
    assert loop.ending is Ending.INTERRUPTED
    assert 20 <= len(loop.seconds) <= 25
    assert len(loop.x) == len(loop.seconds) + 1
    assert len(loop.fine_u) == 4 * len(loop.seconds)
    assert loop.cost > 0


@pytest.mark.parametrize("count", [1, 2])
def test_failed_steps_hold_the_last_control_and_the_second_begins_again(count, monkeypatch):
    """The solver fails once or twice: the control stays, failures are counted, and after two of them the solver starts afresh."""
    from ocp.shooting.receding import Receding

    calls, resets = [0], []
    iterate, reset = Receding.iterate, Receding.reset

    def sometimes(self, x0, iterations=1):
        calls[0] += 1
        return iterate(self, x0, iterations) if not 10 <= calls[0] < 10 + count else 5

    def counted(self, x0, t0, *more):
        resets.append(t0)
        return reset(self, x0, t0, *more)

    monkeypatch.setattr(Receding, "iterate", sometimes)
    monkeypatch.setattr(Receding, "reset", counted)
    monkeypatch.setattr(Receding, "message", property(lambda self: "made to fail"))
    loop = run(cart(), MPCOptions(rate=20, duration=2.0), solver=SOLVER)
    failed = np.flatnonzero(loop.codes)
    assert len(failed) == loop.failures == count
    k = failed[0]
    for i in failed:
        assert loop.u[i] == pytest.approx(loop.u[k - 1])
    begun = [t for t in resets if t > 0]
    assert begun == ([] if count == 1 else [pytest.approx(loop.t[k + 2])])
    assert np.abs(loop.x[-1]).max() < 0.1  # and then it goes on
    assert not loop.ok
    assert "made to fail" in loop.notes[0]


# ---- what a run is judged by --------------------------------------------------------------------------------------------
def test_tracking_errors_are_means_over_time():
    t = np.array([0.0, 1.0, 3.0])
    x = np.array([[1.0, 0.0], [1.0, 0.0], [3.0, 0.0]])
    found = track(cart().phase.system, [tracked("q", lambda t, x, u: x[0], lambda t, x, u: 1.0 + 0 * t)], t, x, np.zeros((3, 1)))[0]
    # squares 0, 0, 4 by trapezoids over 3 s
    assert found.rms == pytest.approx(np.sqrt(4 / 3))
    assert (found.largest, found.time) == (2.0, 3.0)


def test_violations_by_name():
    phase = cart().phase
    rows = (Constraint("fast", At.PATH, function(2, 1, lambda t, x, u: ca.vertcat(x[1], -x[1])), (-INF, -INF), (1.0, 2.0)),
            Constraint("soft wall", At.PATH, function(2, 1, lambda t, x, u: x[0]), (-INF,), (0.5,), soft=10.0),
            Constraint("end", At.FINAL, function(2, 1, lambda t, x, u: x[0]), (9.0,), (9.0,)))
    phase = replace(phase, constraints=rows, x_lower=(-1.0, -INF), x_upper=(INF, 5.0), u_lower=(-1.0,), u_upper=(1.0,))
    t = np.array([0.0, 1.0, 2.0, 3.0])
    x = np.array([[0.0, 0.0], [0.0, 1.5], [0.7, -2.5], [-1.25, 0.0]])
    found = {v.name: v for v in violations(phase, t, x, np.array([[0.0], [1.0], [-1.0], [0.5]]))}
    assert set(found) == {"fast", "soft wall", "state bounds", "control bounds"}  # what holds at the end of a horizon is no matter
    assert (found["fast"].largest, found["fast"].time, found["fast"].component) == (0.5, 1.0, "fast[0]")
    assert found["fast"].share == 0.5
    assert (found["state bounds"].largest, found["state bounds"].component) == (0.25, "q")
    assert found["control bounds"].largest == 0.0
    assert found["soft wall"].soft
    assert found["soft wall"].largest == pytest.approx(0.2)


def test_step_times_count_what_is_late():
    seconds = np.r_[np.full(995, 1e-3), np.full(5, 3e-3)]
    times = step_times(seconds, 2e-3)
    assert (times.missed, times.steps) == (5, 1000)
    assert (times.median, times.p99, times.p999, times.largest) == (1e-3, 1e-3, 3e-3, 3e-3)
    assert np.isnan(step_times(np.zeros(0), 1e-3).median)


@pytest.mark.parametrize(("changes", "words"), [
    ({"rate": 0.0}, "rate must be positive"), ({"duration": float("inf")}, "duration must be positive"),
    ({"horizon": -1.0}, "horizon must be positive"), ({"iterations": 0}, "iterations must be a whole number >= 1"),
    ({"iterations": True}, "whole number"), ({"delay": "late"}, "no delay named 'late'"),
    ({"rate": 1.0, "duration": 0.4}, "shorter than half a sampling period"),
])
def test_options_are_checked(changes, words):
    with pytest.raises(ProblemError, match=words):
        MPCOptions(**changes)


def test_plants_are_checked():
    system = cart().phase.system
    for spec, words in (({"substeps": 0}, "substeps"), ({"integrator": "rk5"}, "no integrator named 'rk5'"),
                        ({"disturbances": Disturbances(process=(1.0,))}, "process noise has 1 components, expected 2"),
                        ({"disturbances": Disturbances(pushes=(Push(0, 0),))}, "must last longer")):
        with pytest.raises(ProblemError, match=words):
            PlantSpec(system, **spec)
    with pytest.raises(ProblemError, match="needs a robot"):
        IntegratedPlant(PlantSpec(system, disturbances=Disturbances(pushes=(Push(0, 1, frame="hand", force=(1.0, 0, 0)),))))


def test_horizons_need_a_length():
    free = cart()
    phase = replace(free.phase, duration=Duration(0.5, 2.0, 1.0))
    free = replace(free, phases=(phase,))
    with pytest.raises(ProblemError, match="set mpc.horizon"):
        horizon_problem(free, MPCOptions())
    assert horizon_problem(free, MPCOptions(horizon=0.8)).phase.duration == Duration(0.8, 0.8, 0.8)
    with pytest.raises(ProblemError, match="longer than the horizon"):
        run(cart(), MPCOptions(rate=0.5, duration=4), solver=SOLVER)


class Fine:
    """A plant by SciPy's adaptive DOP853 at 1e-9, of any explicit system."""

    def __init__(self, system):
        self.rate = system.rate

    def reset(self, x, t=0.0):
        self.x, self.t = np.array(x, float), t

    def measure(self):
        return self.x.copy()

    def step(self, u, dt):
        self.x = solve_ivp(lambda t, x: np.array(self.rate(t, x, u, [])).ravel(), (self.t, self.t + dt), self.x, method="DOP853",
                           rtol=1e-9, atol=1e-10).y[:, -1]
        self.t += dt
        return self.x


@pytest.mark.slow
@pytest.mark.parametrize("integrator", ["sdirk2", "bdf1", "rk4"])
def test_implicit_steps_hold_a_stiff_robot_where_explicit_ones_are_lost(integrator):
    """Steps of 25 ms against springs that swing at 60 Hz; the plant is exact."""
    loaded = load_problem(ROOT / "problems" / "mpc" / "flexible_arm.yaml")
    plant = Fine(loaded.problem.phase.system)
    found = run(loaded.problem, MPCOptions(rate=40, duration=1.0), plant=plant,
                solver=ILQROptions(intervals=20, integrator=integrator, hessian="gauss_newton"))
    angle = found.x[:, 0] + found.x[:, 1]
    if integrator == "rk4":
        assert not found.ok or np.abs(angle[-5:] - 0.8).max() > 0.1
    else:
        assert found.ok
        assert np.abs(angle[-5:] - 0.8).max() < 0.02
        assert np.abs(found.x[:, 1]).max() < 0.02  # the spring gives by no more than its torque
