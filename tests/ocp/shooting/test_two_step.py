"""BDF2 as the step of iLQR, DDP and adjoints: stages with the state before, derivatives on manifolds, the optima of other roads."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
import uncertified
from integrator_systems import OSCILLATOR, PENDULUM, order, symbols
from manifold_differences import columns, hessian
from plain_shooting import flat
from repository import ROOT
from rich_horizon import DRAG, DURATIONS, RICH, START, Point, local, minus, parameters, plus, split

from dynamics.algorithms import random_configuration
from dynamics.forces import JointSpring
from dynamics.mechanism import Mechanism, direct_motors
from dynamics.model.synthetic import random_tree
from ocp import mpc
from ocp.app.files.load import load_problem
from ocp.bridge import robot_system
from ocp.errors import ProblemError
from ocp.integrators import MULTISTEP, sampled
from ocp.methods import make_options, solve
from ocp.mpc import MPCOptions
from ocp.problem import At, Boundary, Cost, Duration, Finding, Guess, Kind, Phase, Problem
from ocp.shooting import ilqr
from ocp.shooting.adjoint import AdjointOptions, Shot
from ocp.shooting.options import ILQROptions
from ocp.shooting.receding import Receding
from ocp.shooting.sensitivity import sensitivities
from ocp.shooting.stages.horizon import build
from ocp.simulation.stepper import stepper
from ocp.transcription.multiple_shooting import MultipleShootingOptions

BDF2 = {"integrator": "bdf2"}
FLIGHT = RICH.phases[0]
NX, N = 16, 15
"""Coordinates and tangent components of the flight with its three constants; those of the state before stand behind."""


# ---- stages, with quaternions, free durations, parameters, a passage -----------------------------------------------------------
@pytest.fixture(scope="module")
def horizon():
    return build(RICH, ILQROptions(integrator="bdf2", intervals=5, hessian="full"))


def both(x, d):
    return np.r_[plus(FLIGHT)(x[:NX], d[:N]), plus(FLIGHT)(x[NX:], d[N:])]


def apart(a, b):
    return np.r_[minus(FLIGHT)(a[:NX], b[:NX]), minus(FLIGHT)(a[NX:], b[NX:])]


def point(seed=3):
    """A state of the flight with the one before near it, and controls."""
    rng = np.random.default_rng(seed)
    x = plus(FLIGHT)(np.r_[START, DURATIONS, DRAG], np.r_[0.3 * rng.normal(size=12), rng.uniform(-0.3, 0.3, 3)])
    return np.r_[x, plus(FLIGHT)(x[:13], 0.1 * rng.normal(size=12))], rng.normal(size=2)


def given(x, u, h=0.04, last=0.05):
    """Arguments of a step that is shorter than the one before, its costs counted 0.8 times; the free parameter is rubbish here."""
    return 0.3, x, u, [9.0, np.nan, 0.8, last], h


def test_every_phase_begins_anew(horizon):
    assert [horizon.kinds[i].label for i in horizon.which] == ["start", *["flight"] * 5, "flight to slide", *["slide"] * 5, "end"]
    assert [horizon.kind(k).space.nx for k in (0, 1, 2, 5, 6, 7, 8, 11, 12)] == [16, 16, 29, 29, 29, 5, 7, 7, 7]
    assert horizon.kind(2).space.names[13:17] == ("duration of flight", "duration of slide", "drag", "x before")
    np.testing.assert_allclose(horizon.p[1:6, 2], MULTISTEP["bdf2"].weights(np.arange(6.0)))
    np.testing.assert_array_equal(horizon.p[2:6, 3], horizon.h[1:5])


def test_a_step_has_the_derivative_of_its_parabola(horizon):
    """(1 + 2 w)/(1 + w) y_{n+1} + w^2/(1 + w) y_{n-1} = h y' in the chart of the present state, y' by a difference along the flow;
    constants and the present state are handed on, and running costs count as often as they should."""
    x, u = point()
    after, cost = (flat(one) for one in horizon.kind(2).step(*given(x, u))[:2])
    state, theta = split(FLIGHT, x[:NX])
    w, seconds, now = 0.04 / 0.05, 0.04 * theta[0], (0.3 + 0.04) * theta[0]
    rate, e = flat(FLIGHT.system.rate(now, after[:13], u, parameters(theta))), 1e-5
    away = minus(FLIGHT)
    slope = (away(state, plus(FLIGHT)(after[:13], e * rate)) - away(state, plus(FLIGHT)(after[:13], -e * rate))) / (2 * e)
    left = (1 + 2 * w) / (1 + w) * away(state, after[:13]) + w**2 / (1 + w) * away(state, x[NX:])
    np.testing.assert_allclose(left, seconds * slope, atol=1e-9)
    np.testing.assert_array_equal(after[13:], np.r_[theta, state])
    end = Point(1.0, None, FLIGHT, At.PATH, lambda theta: now, lambda theta: theta[0])
    assert cost[0] == pytest.approx(0.8 * 0.04 * local(end, after[:NX], u), rel=1e-12)


def test_first_and_second_derivatives_against_differences_on_the_manifold(horizon):
    stage, (x, u) = horizon.kind(2), point()
    after = flat(stage.step(*given(x, u))[0])
    y, size = np.random.default_rng(5).normal(size=stage.after.ndx), 2 * N - 3 + 2

    def moved(x, u):
        return apart(after, flat(stage.step(*given(x, u))[0]))

    def cost(x, u):
        return float(stage.step(*given(x, u))[1])

    g, F = flat(stage.first_order(*given(x, u))[0])[:size], np.asarray(stage.first_order(*given(x, u))[1]).T[:, :size]
    np.testing.assert_allclose(F, columns(moved, both, x, u, 2 * N - 3), atol=1e-8)
    np.testing.assert_allclose(g, columns(cost, both, x, u, 2 * N - 3)[0], atol=1e-8)
    H = np.asarray(stage.hessian(*given(x, u), y)).T[:, :size]
    expected = hessian(lambda x, u: cost(x, u) + y @ moved(x, u), both, x, u, 2 * N - 3)
    np.testing.assert_allclose(H + np.tril(H, -1).T, expected, atol=3e-6 * np.abs(expected).max())


def test_gradients_of_free_durations_parameters_and_starts_against_differences():
    assert_gradient(Shot(build(RICH, AdjointOptions(integrator="bdf2", intervals=6).steps()), "interpreted"), 4)


def assert_gradient(shot, seed, rows=None):
    rng = np.random.default_rng(seed)
    horizon = shot.horizon
    start = np.clip(0.3 * rng.normal(size=horizon.lower.shape), horizon.lower, horizon.upper)[:horizon.stages]
    start[0, :len(horizon.chosen)] = horizon.chosen
    u = start[shot.filled]
    shot.value(u)
    slope = shot.gradient()
    forward = by_forward_differentiation(shot)
    np.testing.assert_allclose(slope, forward, atol=1e-9 * np.abs(slope).max())
    for i in range(len(u)) if rows is None else rng.integers(0, len(u), rows):
        step = 1e-5 * np.eye(len(u))[i] * max(1.0, abs(u[i]))
        expected = (shot.value(u + step) - shot.value(u - step)) / (2 * step[i])
        assert slope[i] == pytest.approx(expected, rel=1e-6, abs=1e-7 * np.abs(slope).max()), i


def by_forward_differentiation(shot):
    """The gradient by Jacobians of the steps, Newton's method inside, one knot after another in tangent spaces."""
    horizon, total, y = shot.horizon, np.zeros_like(shot.u), np.zeros(0)
    for k in range(horizon.stages, -1, -1):
        stage = horizon.kind(k)
        n, m = stage.space.ndx, shot.sizes[k] if k < horizon.stages else 0
        g, F = (np.asarray(one) for one in stage.expand(*shot.at(k))[:2])
        slope = flat(g)[:n + m] + (F.T[:, :n + m].T @ y if len(y) else 0.0)
        if k < horizon.stages:
            total[k, :m] = slope[n:]
        y = slope[:n]
    return total[shot.filled]


# ---- robots ---------------------------------------------------------------------------------------------------------------------
def robot(kind):
    """Branching arm; tree with a spherical joint; free-flying tree with quaternions at its root and in its limbs."""
    kinds, root, seed = {"arm": (("revolute",), "revolute", 2), "spherical": (("revolute", "spherical"), "spherical", 5),
                         "floating": (("revolute", "spherical"), "free_flyer", 12)}[kind]
    rng = np.random.default_rng(seed)
    model = random_tree(4 if kind == "arm" else 2, rng, kinds=kinds, root=root, damping=True, branching=0.8)
    moved = [b.joint.name for b in model.bodies if b.joint.kind != "free_flyer"]
    springs = [JointSpring("spring", b.joint.name, 30.0) for b in model.bodies if b.joint.kind == "revolute"][:1]
    system = robot_system(Mechanism(model, direct_motors(model, moved), forces=tuple(springs)))
    start = np.r_[random_configuration(model, rng), 0.3 * rng.normal(size=model.nv)]
    t, x, u, p = symbols(system.nx, system.nu)
    target = ca.DM(flat(system.space.plus(ca.DM(start), ca.DM(0.2 * rng.normal(size=system.space.ndx)))))
    costs = (Cost("way", At.PATH, ca.Function("way", [t, x, u, p], [ca.vertcat(system.space.minus(target, x), u)]),
                  (1.0,) * system.space.ndx + (0.05,) * system.nu),
             Cost("end", At.FINAL, ca.Function("end", [t, x, u, p], [system.space.minus(target, x)]), (20.0,) * system.space.ndx))
    return problem_of(system, start, costs, 0.4)


def problem_of(system, start, costs, duration, final=None):
    guess = Guess(np.array([0.0, 1.0]), np.tile(start, (2, 1)), np.zeros((2, system.nu)))
    return Problem(system.name, (Phase("move", system, Duration(duration, duration, duration), guess, costs=tuple(costs),
                                       start=Boundary(tuple(start), (True,) * system.space.ndx), final=final),))


def oscillator(system=OSCILLATOR, effort=0.1):
    t, x, u, p = symbols(2, 1)
    costs = (Cost("way", At.PATH, ca.Function("way", [t, x, u, p], [ca.vertcat(x, u)]), (1.0, 0.5, effort)),
             Cost("end", At.FINAL, ca.Function("end", [t, x, u, p], [x]), (3.0, 1.0)))
    return problem_of(system, (1.0, -0.5), costs, 1.5)


def by_ilqr(problem, **options):
    """Without a certificate; what is solved once is not worth its compilation."""
    found = ilqr.solve(problem, ILQROptions(integrator="bdf2", kernels="interpreted", **options))
    assert found.status.name == "CONVERGED", found.ending
    return found


def by_multiple_shooting(problem, **options):
    found = uncertified.by_multiple_shooting(problem, MultipleShootingOptions(integrator="bdf2", kernels="interpreted", **options))
    assert found.status.name == "CONVERGED", found.ending
    return found


@pytest.mark.parametrize("kind", ["arm", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("spherical", "floating"))])
def test_optima_of_multiple_shooting_are_stationary_and_motions_those_of_simulations(kind):
    """Its defects know neither stages nor Newton's method inside a step; of the floating robot it finds another, worse optimum."""
    problem, steps = robot(kind), 8
    other = by_multiple_shooting(problem, intervals=steps)
    shot = Shot(build(problem, AdjointOptions(integrator="bdf2", intervals=steps).steps()), "interpreted")
    assert shot.value(other.trajectory.u.ravel()) == pytest.approx(other.objective, rel=1e-11)
    assert np.abs(shot.gradient()).max() < 1e-6 * other.objective
    np.testing.assert_allclose(shot.x[:, :problem.phase.system.nx], other.trajectory.x, atol=1e-9)
    one = by_ilqr(problem, intervals=steps, hessian="auto" if kind == "spherical" else "gauss_newton")
    assert one.objective <= other.objective * (1 + 1e-8)
    assert kind == "floating" or one.objective == pytest.approx(other.objective, rel=1e-8)
    assert np.abs(one.optimality.gradient()).max() < 1e-6 * one.objective
    system, moves = problem.phase.system, stepper(problem.phase.system, "bdf2")
    moves.reset(problem.phase.start.value)
    for k in range(steps):
        x = moves.step(one.trajectory.u[k], 0.4 / steps)
        assert np.abs(flat(system.space.minus(ca.DM(x), ca.DM(one.trajectory.x[k + 1])))).max() < 1e-9
    ends = np.nextafter(one.trajectory.t[1:], 0)
    np.testing.assert_allclose(one.trajectory.state(ends), one.trajectory.x[1:], atol=1e-9)  # no jumps between intervals


@pytest.mark.parametrize("kind", ["arm", "floating"])
def test_gradients_of_robots_against_forward_differentiation_and_differences(kind):
    assert_gradient(Shot(build(robot(kind), AdjointOptions(integrator="bdf2", intervals=8).steps()), "interpreted"), 7, rows=6)


@pytest.mark.slow
def test_a_gradient_of_thousands_of_steps():
    """By torques, a length and stiffnesses along one direction, from 3000 steps of the arm on springs."""
    options = AdjointOptions(integrator="bdf2", intervals=3000)
    shot = Shot(build(load_problem(ROOT / "problems/spring_arm_design.yaml").problem, options.steps()), "auto")
    rng = np.random.default_rng(1)
    u, along = rng.normal(size=int(shot.filled.sum())), rng.normal(size=int(shot.filled.sum()))
    u[:3] = 0.1, 6.0, 4.0
    shot.value(u)
    slope = shot.gradient() @ along
    ahead, behind = (shot.value(u + sign * 1e-5 * along) for sign in (1, -1))
    assert slope == pytest.approx((ahead - behind) / 2e-5, rel=1e-6)


@pytest.mark.slow
def test_the_optimum_by_adjoints_is_that_of_ddp():
    problem = load_problem(ROOT / "problems/spring_arm_design.yaml").problem
    one = solve(problem, "adjoint", {**BDF2, "intervals": 40, "tolerance": 1e-5})
    other = by_ilqr(problem, intervals=40, hessian="gauss_newton")
    assert one.objective == pytest.approx(other.objective, rel=3e-7)  # 1e-7 is what is left of the gradient at 1e-5
    assert one.certificate.stationarity.holds
    times = np.linspace(0, one.trajectory.t[-1], 33)
    np.testing.assert_allclose(one.trajectory.state(times), other.trajectory.state(times), atol=1e-3)


# ---- systems by their rate -----------------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_the_least_cost_converges_with_order_two():
    """To the optimum of fine collocation, of a pendulum."""
    problem = oscillator(PENDULUM)
    best = solve(problem, "collocation", {"scheme": "gauss", "degree": 5, "intervals": 20}).objective
    counts = np.array([40, 80, 160])
    found = [by_ilqr(problem, intervals=int(n)) for n in counts[:-1]] + [solve(problem, "ilqr", {**BDF2, "intervals": 160})]
    assert found[-1].ok, found[-1].certificate.failures
    errors = [abs(one.objective - best) for one in found]
    assert order(errors, counts) == pytest.approx(2, abs=0.3)


def test_one_iteration_solves_a_linear_system_with_quadratic_costs():
    found = by_ilqr(oscillator(), intervals=30, hessian="gauss_newton")
    assert [row["step"] for row in found.iterations] == [0.0, 1.0]
    assert found.objective == pytest.approx(by_multiple_shooting(oscillator(), intervals=30).objective, rel=1e-9)


@pytest.mark.slow
def test_a_single_interval_is_the_first_step():
    """And the certificate's finer grid has one step that looks back, whose functions the coarse one has not."""
    one = solve(oscillator(), "ilqr", {**BDF2, "intervals": 1})
    other = ilqr.solve(oscillator(), ILQROptions(intervals=1, integrator="sdirk2"))
    assert one.objective == pytest.approx(other.objective, rel=1e-12)
    assert one.certificate.objective_error.value > 0


def test_gains_values_and_costates_are_by_the_present_state():
    """The state before moves as the present one does: then they are those of one-step methods, but for the length of steps."""
    counts, errors = np.array([50, 100, 200]), {"K": [], "Vx": [], "Vxx": [], "costate": []}
    for n in counts:
        one, other = (ilqr.solve(oscillator(), ILQROptions(intervals=int(n), integrator=name)).extra for name in ("bdf2", "rk4"))
        for name, found in errors.items():
            middle = slice(n // 5, 4 * n // 5)
            assert one[name].shape == other[name].shape
            found.append(np.abs(one[name][middle] - other[name][middle]).max() / np.abs(other[name]).max())
    for name, found in errors.items():
        assert order(found, counts) > 0.8, name
        assert found[-1] < 0.03, name


@pytest.mark.parametrize("shooting", ["feasible", "multiple"])
def test_gaps_close_to_the_same_optimum(shooting):
    """From a guess of states whose states before follow it: gaps are those of the motion alone."""
    problem = robot("spherical")
    other, found = (by_ilqr(problem, intervals=8, hessian="gauss_newton", shooting=one) for one in ("single", shooting))
    assert found.objective == pytest.approx(other.objective, rel=1e-8)


def test_hard_constraints_and_prescribed_states_see_the_present_alone():
    problem = oscillator(PENDULUM)
    phase = replace(problem.phase, final=Boundary((0.2, 0.0), (True, True)), x_lower=(-0.1, -1.2), u_upper=(6.0,), u_lower=(-6.0,))
    problem = replace(problem, phases=(phase,))
    one, other = by_ilqr(problem, intervals=25), by_multiple_shooting(problem, intervals=25)
    assert one.objective == pytest.approx(other.objective, rel=1e-6)
    assert one.extra["multipliers_path"].shape[0] == 25
    np.testing.assert_allclose(one.trajectory.x[-1], (0.2, 0.0), atol=1e-6)
    assert one.trajectory.x[:, 1].min() == pytest.approx(-1.2, abs=1e-5)


def test_sensitivities_are_differences_of_optima():
    problem = oscillator(PENDULUM)

    def best(angle):
        phase = replace(problem.phase, start=Boundary((angle, -0.5), (True, True)))
        return by_ilqr(replace(problem, phases=(phase,)), intervals=15, tolerance=1e-12)

    found = sensitivities(best(1.0)).phase
    ahead, behind = best(1.0 + 1e-4), best(1.0 - 1e-4)
    np.testing.assert_allclose(found.du_dx0[:, 0, 0], (ahead.trajectory.u - behind.trajectory.u)[:, 0] / 2e-4, atol=1e-5)
    np.testing.assert_allclose(found.dx_dx0[:, :, 0], (ahead.trajectory.x - behind.trajectory.x) / 2e-4, atol=1e-6)


# ---- receding horizons -----------------------------------------------------------------------------------------------------------
def test_a_horizon_begins_anew_from_what_is_measured():
    """After a shift by two and a half steps: the optimum of a problem that starts there; between knots the feedback is that of the
    gains by the present state."""
    problem = oscillator(PENDULUM)
    options = ILQROptions(integrator="bdf2", intervals=15)
    receding = Receding(problem, options)
    receding.reset(np.array([1.0, -0.5]), 0.0, 50)
    receding.shift(0.25)
    assert receding.x.shape == (16, 2)
    measured = np.array([0.3, -0.8])
    for _ in range(12):
        assert receding.iterate(measured) == 0, receding.message
    phase = replace(problem.phase, start=Boundary(tuple(measured), (True, True)))
    found = by_ilqr(replace(problem, phases=(phase,)), intervals=15)
    np.testing.assert_allclose(receding.u, found.trajectory.u, atol=1e-6)
    away = np.array([1e-3, -2e-3])
    for k in (0, 3):
        expected = found.trajectory.u[k] + found.extra["K"][k] @ away
        assert receding.control(k * 0.1, found.trajectory.x[k] + away) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("more", [
    pytest.param({"feedback": True}, id="feedback"), pytest.param({"delay": "predicted"}, id="delay", marks=pytest.mark.slow)])
def test_closed_loops_come_to_rest_as_by_other_steps(more):
    """They differ by the length of steps: first controls see how a horizon begins."""
    options, errors = MPCOptions(rate=20, duration=3.0, **more), []
    for n in (30, 60):
        one, other = (mpc.run(oscillator(), options, solver=ILQROptions(intervals=n, integrator=name)) for name in ("bdf2", "rk4"))
        assert one.ok, one.notes
        assert one.cost == pytest.approx(other.cost, rel=2e-3)
        errors.append(np.abs(one.x - other.x).max())
    assert order(errors, (30, 60)) > 0.8
    assert errors[-1] < 0.02


# ---- failures and refusals ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", ["adjoint", "ilqr"])
def test_newton_that_fails_in_a_step_that_looks_back_is_named(method):
    problem = load_problem(ROOT / "problems/spring_arm_design.yaml").problem
    phase, u = problem.phase, np.zeros((4, 2))
    u[2:] = 3e5
    guess = Guess(np.array([0.0, 0.5, 0.6, 1.0]), np.tile(phase.guess.x[0], (4, 1)), u)
    wild = replace(phase, guess=guess, u_lower=(-1e9,) * 2, u_upper=(1e9,) * 2)
    found = solve(replace(problem, phases=(wild,)), method, {**BDF2, "intervals": 2, "kernels": "interpreted"})
    assert found.status.name in ("NOT_A_NUMBER", "DIVERGED")
    assert found.ending.data["step"] == 1
    assert found.ending.data["failure"]["t"] == pytest.approx(0.8)
    assert found.ending.data["failure"]["joint"] in ("shoulder", "elbow")


@pytest.mark.slow
def test_unsupported_steps_of_loops_over_the_robot_are_reported():
    options = ILQROptions(intervals=3, integrator="bdf2", hessian="gauss_newton", execution="loops", max_iterations=1)
    found = ilqr.solve(robot("spherical"), options)
    assert Finding(Kind.CODE_GENERATED, data={"integrator": "bdf2"}) in found.findings


@pytest.mark.parametrize("method", ["ilqr", "adjoint"])
def test_other_names_are_refused_with_what_is_near(method):
    with pytest.raises(ProblemError, match=r"no integrator named 'bdf3'.*bdf2"):
        make_options(method, {"integrator": "bdf3"})


def test_steps_of_a_system_in_discrete_time_do_not_look_back():
    with pytest.raises(ProblemError, match=r"multistep method.*use 'sdirk2'"):
        sampled(OSCILLATOR, 0.1, "bdf2")
    problem = replace(oscillator(), phases=(replace(oscillator().phase, system=sampled(OSCILLATOR, 0.1)),))
    with pytest.raises(ProblemError, match="does not apply to a discrete-time system"):
        solve(problem, "ilqr", BDF2)
    assert build(problem, ILQROptions(integrator="bdf2")).legs[0].two is None
