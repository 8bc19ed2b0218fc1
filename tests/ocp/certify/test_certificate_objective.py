"""The objective of a solution against an integral of its own, and the point that its multipliers belong to: whatever is changed
after the solve, by however little, is seen; and so is an objective that the method itself mistakes."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import control_problems as known
import direct_problems as direct
import numpy as np
import pytest
from control_problems import fixed, function, moved
from repository import ROOT
from scipy.integrate import quad
from scipy.optimize import brentq

from ocp.app.files.load import load_problem, load_text
from ocp.app.sentences import sentence
from ocp.certify import Tolerances, certify, objective
from ocp.certify.motion import Motion
from ocp.methods import solve
from ocp.problem import INF, At, Boundary, Constraint, Cost, Duration, Guess, Kind, Sense, Trajectory

FOLDER = ROOT / "problems"

WAYS = [("collocation", {"intervals": 20}), ("collocation", {"form": "compressed", "intervals": 20}),
        ("collocation", {"scheme": "trapezoid", "intervals": 40}),
        ("collocation", {"scheme": "gauss", "form": "differential", "intervals": 12}),
        ("collocation", {"scheme": "gauss", "degree": 3, "intervals": 8}), ("collocation", {"scheme": "radau", "intervals": 8}),
        ("collocation", {"scheme": "radau_left", "intervals": 8}), ("collocation", {"scheme": "lobatto", "intervals": 8}),
        ("collocation", {"scheme": "gauss", "controls": "held", "intervals": 25}),
        ("collocation", {"scheme": "gauss", "degree": 12, "intervals": 2}),
        ("multiple_shooting", {"intervals": 25}), ("multiple_shooting", {"intervals": 25, "controls": "linear"}),
        ("multiple_shooting", {"intervals": 25, "integrator": "radau_iia_2"}), ("ilqr", {"intervals": 40, "integrator": "rk4"}),
        ("ilqr", {"intervals": 200})]
TERMS = ("effort", "lean", "start", "end", "time", "soft wall", "soft goal")


def rich():
    """A spring with a free stiffness k, over a free time, with every kind of term: scalar and residual running costs, costs at both
    ends and of time, and penalties along the path and at its end."""
    system = known.flat_system("spring", ("x", "v"), ("u",), lambda t, x, u, p: ca.vertcat(x[1], u[0] - p[0] * x[0]), ("k",),
                               (0.5,))

    def f(expression):
        return function(2, 1, expression, 1)

    costs = (Cost("effort", At.PATH, f(lambda t, x, u, p: u[0] ** 2 + ca.sin(3 * t) * x[1])),
             Cost("lean", At.PATH, f(lambda t, x, u, p: ca.vertcat(x[0] - 0.2, u[0] * x[1])), weights=(2.0, 0.5)),
             Cost("start", At.START, f(lambda t, x, u, p: 1 + x[1] ** 2 + 0.3 * x[0])),
             Cost("end", At.FINAL, f(lambda t, x, u, p: ca.vertcat(x[1] - 0.3, p[0])), weights=(1.0, 3.0)),
             Cost("time", At.FINAL, f(lambda t, x, u, p: t + 0.1 * t**2)))
    constraints = (Constraint("soft wall", At.PATH, f(lambda t, x, u, p: x[0]), (-INF,), (0.6,), soft=40.0),
                   Constraint("soft goal", At.FINAL, f(lambda t, x, u, p: x[0]), (1.3,), (1.3,), Sense.EQUAL, soft=25.0))
    phase = known.block_move().phase
    return known.problem(replace(
        phase, name="rich", system=system, duration=Duration(0.6, 3.0, 1.0), start=Boundary((0.1, 0.0), (True, False)), final=None,
        guess=Guess(np.array([0.0, 1.0]), np.array([[0.1, 0.5], [1.0, 0.5]]), np.ones((2, 1))), costs=costs,
        constraints=constraints, free_parameters=((0, 0.1, 2.0),)))


@pytest.fixture(scope="module")
def solved():
    """The rich problem by each way, once."""
    found = {}

    def run(way):
        key = str(way)
        if key not in found:
            found[key] = solve(rich(), *way)
            assert found[key].ok, found[key].certificate.failures
        return found[key]

    return run


on_ways = pytest.mark.parametrize("way", WAYS, ids=str)


def failures(solution, **changes):
    """Kinds of the checks that fail."""
    return [one.kind for one in certify(replace(solution, **changes)).certificate.failures]


def without_point(solution):
    """As by a method that leaves no point to compare with."""
    class Bare:
        residuals = solution.optimality.residuals
        local = solution.optimality.local
        values = solution.optimality.values

    return replace(solution, optimality=Bare())


# ---- honest solutions -------------------------------------------------------------------------------------------------------
@on_ways
@pytest.mark.sample(3)
def test_honest_objectives_hold(solved, way):
    certificate = solved(way).certificate
    assert certificate.objective.holds
    assert certificate.objective.value < 2e-3
    assert certificate.point.holds
    assert certificate.point.value < 1e-10
    assert {Kind.OBJECTIVE, Kind.POINT} <= {check.kind for check in certificate.checks}


@pytest.mark.parametrize(("way", "order", "counts"), [({"scheme": "trapezoid"}, 2, (100, 200)), ({}, 4, (40, 80)),
                                                      ({"form": "compressed"}, 4, (40, 80))], ids=str)
def test_the_difference_falls_with_the_order_of_the_scheme(way, order, counts):
    """A mesh of any coarseness holds, and the difference is that of discretisation."""
    found = [solve(known.cart_pole(), "collocation", {**way, "intervals": n}).certificate.objective for n in counts]
    assert all(one.holds for one in found)
    assert np.log2(found[0].value / found[1].value) == pytest.approx(order, abs=0.5)


def test_the_tolerance_follows_the_mesh():
    rough, fine = (solve(known.cart_pole(), "collocation", {"intervals": n}).certificate.objective for n in (20, 160))
    assert rough.holds
    assert fine.holds
    assert fine.value < rough.value / 100
    assert fine.tolerance < 5e-4
    assert rough.tolerance <= 1e-2 + 1e-5  # whatever the mesh, an objective off by a hundredth is not certified


def test_two_phases_with_a_reset():
    solution = solve(direct.bouncing_ball(), "collocation", {"scheme": "gauss", "intervals": 10, "degree": 4})
    assert solution.ok
    assert solution.certificate.objective.value < 1e-9
    for scale in (1.001, 0.999):
        assert Kind.OBJECTIVE in failures(solution, objective=solution.objective * scale)
    drop, rise = solution.parts
    late = moved(rise, stretch=1 + 1e-6)
    assert failures(solution, parts=(drop, late)) == [Kind.POINT]
    assert certify(replace(solution, parts=(drop, late))).certificate.point.phase == "rise"


# ---- what is changed after the solve -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("way", WAYS[::2], ids=str)
@pytest.mark.parametrize("change", [1e-6, -0.2])
@pytest.mark.sample(3)
def test_a_tampered_objective_is_seen(solved, way, change):
    solution = solved(way)
    scale = solution.certificate.objective_size + abs(solution.objective)
    wrong = certify(replace(solution, objective=solution.objective + change * scale)).certificate
    assert not wrong.point.holds
    assert wrong.point.value == pytest.approx(abs(change), rel=1e-3)
    assert wrong.point.data["quantity"] == "objective"
    if abs(change) > 2 * solution.certificate.objective.tolerance:
        assert not wrong.objective.holds
        assert wrong.objective.data["reported"] == solution.objective + change * scale


@pytest.mark.parametrize("way", WAYS[::2], ids=str)
@pytest.mark.sample(3)
def test_an_objective_is_judged_even_where_no_point_is_left(solved, way):
    solution = without_point(solved(way))
    assert certify(solution).ok
    assert certify(solution).certificate.point is None
    assert Kind.OBJECTIVE in failures(solution, objective=solution.objective + 0.1)


@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize("way", [WAYS[4], pytest.param(WAYS[10], marks=pytest.mark.slow)], ids=str)
@pytest.mark.sample(3)
def test_every_term_counts(solved, way, term):
    """A problem that lacks one term, or has it twice, has another objective."""
    solution = without_point(solved(way))
    phase = solution.problem.phase
    for times in (0, 2):
        costs = tuple(c for cost in phase.costs for c in (cost,) * (times if cost.name == term else 1))
        constraints = tuple(c for given in phase.constraints for c in (given,) * (times if given.name == term else 1))
        other = known.problem(replace(phase, costs=costs, constraints=constraints))
        assert Kind.OBJECTIVE in failures(solution, problem=other), times


@pytest.mark.parametrize("way", WAYS[1::3], ids=str)
@pytest.mark.parametrize(("change", "what"), [({"dx": np.array([1e-6, 0])}, "states"), ({"du": 1e-6}, "controls"),
                                              ({"stretch": 1 + 1e-6}, "times")], ids=["state", "control", "duration"])
@pytest.mark.sample(3)
def test_a_motion_changed_by_a_millionth_is_not_the_one_of_the_multipliers(solved, way, change, what):
    """Too little for any gap, yet stationarity was shown for another motion."""
    solution = solved(way)
    wrong = certify(replace(solution, trajectory=moved(solution.trajectory, **change))).certificate
    assert not wrong.point.holds
    assert wrong.point.value < 3e-6
    assert wrong.point.data["quantity"] == what
    assert wrong.gap_segment.holds


@pytest.mark.parametrize("way", [WAYS[0], WAYS[10], WAYS[13]], ids=str)
@pytest.mark.parametrize("change", [{"dx": np.array([0.3, 0])}, {"du": 1.0}, {"stretch": 1.2}],
                         ids=["state", "control", "duration"])
@pytest.mark.sample(3)
def test_a_motion_changed_by_more_breaks_the_dynamics_as_well(solved, way, change):
    solution = without_point(solved(way))
    wrong = failures(solution, trajectory=moved(solution.trajectory, **change))
    assert {Kind.GAP_SEGMENT, Kind.GAP_TOTAL, Kind.ERROR_ESTIMATE} & set(wrong), wrong


@pytest.mark.parametrize("way", [WAYS[0], WAYS[1], WAYS[4], WAYS[10], WAYS[13]], ids=str)
@pytest.mark.sample(2)
def test_tampered_multipliers_are_seen(way):
    """Of an active limit on the force: a hundredth more is not stationary, and the other sign is not complementary."""
    limit = Constraint("limit", At.PATH, function(2, 1, lambda t, x, u, p: u[0]), (-4.6,), (4.6,))
    solution = solve(known.problem(replace(known.block_move().phase, constraints=(limit,))), *way)
    kkt = [solution.certificate.stationarity, solution.certificate.complementarity]
    assert all(one.holds for one in kkt), kkt
    left, name = solution.optimality, "lam_g" if hasattr(solution.optimality, "lam_g") else "weights"
    value = np.array(getattr(left, name))
    if name == "lam_g":
        active = np.array(["limit" in row for row in left.nlp.constraints]) * np.abs(value)
    else:
        active = np.abs(value)
    worst = np.unravel_index(int(np.argmax(active)), value.shape)
    assert active[worst] > 1e-3
    for factor in (1.01, -1.0, 0.0):
        changed = value.copy()
        changed[worst] *= factor
        wrong = failures(solution, optimality=replace(left, **{name: changed}))
        assert Kind.STATIONARITY in wrong, factor


@pytest.mark.parametrize("way", [WAYS[4], WAYS[10], WAYS[13]], ids=str)
def test_a_point_changed_by_a_millionth_is_seen(solved, way):
    """Residuals at a point that is not the trajectory's."""
    solution = solved(way)
    x = np.array(solution.optimality.x)
    x[7 if x.ndim == 1 else (7, 0)] += 1e-6 * (1 + np.abs(x).max())
    assert Kind.POINT in failures(solution, optimality=replace(solution.optimality, x=x))


def test_a_trajectory_of_another_mesh_is_seen(solved):
    few, many = solved(WAYS[0]), solve(rich(), "collocation", {"intervals": 21})
    point = certify(replace(many, trajectory=few.trajectory)).certificate.point
    assert (point.cause, point.data["quantity"], point.holds) == (Kind.SIZES_DIFFER, "times", False)


@pytest.mark.parametrize("what", ["objective", "x"])
def test_numbers_that_are_none_do_not_hold(solved, what):
    solution = solved(WAYS[0])
    if what == "objective":
        wrong = certify(replace(solution, objective=float("nan"))).certificate
        assert not wrong.point.holds
    else:
        x = solution.trajectory.x.copy()
        x[3, 1] = np.nan
        wrong = certify(replace(solution, trajectory=replace(solution.trajectory, x=x))).certificate
    assert not wrong.objective.holds
    assert "could not be computed" in sentence(wrong.objective.finding)


def test_tolerances_have_an_effect(solved):
    solution = solved(WAYS[4])
    assert solution.certificate.objective.tolerance < 1e-3
    wrong = replace(solution, objective=solution.objective + 0.02 * (1 + abs(solution.objective)))
    loose = certify(wrong, Tolerances(objective=0.03, point=0.03)).certificate
    assert loose.objective.holds
    assert loose.point.holds
    assert not certify(wrong, Tolerances(objective=0.03)).certificate.point.holds


# ---- what the method itself mistakes ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("way", [("ilqr", {"integrator": "euler", "intervals": 100}), pytest.param(
    ("multiple_shooting", {"integrator": "euler", "intervals": 100}), marks=pytest.mark.slow)], ids=str)
def test_an_optimum_of_the_quadrature_alone_is_not_certified(way):
    """Euler's rule sums x sqrt(1 + u^2) at the left knots, where a slope of hundreds costs nothing as long as x is small: 1.4 in
    place of the catenary's 5.07, and every other residual is content, for the dynamics are exact."""
    problem = load_problem(FOLDER / "hanging_chain.yaml").problem
    wrong = solve(problem, *way)
    assert wrong.objective < 1.5
    assert [c.kind for c in wrong.certificate.checks if not c.holds] == [Kind.OBJECTIVE, Kind.OBJECTIVE_ERROR]
    assert not wrong.ok


def test_controls_that_ring_between_the_nodes_of_the_quadrature_are_not_certified():
    """The midpoint rule sees the mean of two linear ends, and ringing controls are free."""
    problem = load_problem(FOLDER / "lqr_scalar.yaml").problem
    wrong = solve(problem, "multiple_shooting", {"integrator": "midpoint", "intervals": 60, "controls": "linear"})
    assert not wrong.ok
    assert not wrong.certificate.objective.holds


def test_a_sum_at_the_knots_is_judged_as_one():
    """``cost_quadrature: rectangle`` promises a sum, not an integral: it is added up again, and a tampered one is seen."""
    solution = solve(known.block_move(), "ilqr", {"intervals": 50, "integrator": "rk4", "cost_quadrature": "rectangle"})
    assert solution.ok, solution.certificate.failures
    u, t = solution.trajectory.u[:, 0], solution.trajectory.t
    assert solution.objective == pytest.approx(np.diff(t) @ u**2, rel=1e-12)
    assert solution.certificate.objective.value < 1e-12
    assert Kind.OBJECTIVE in failures(solution, objective=solution.objective * 1.001)


# ---- the quadrature itself ----------------------------------------------------------------------------------------------------
def test_the_quadrature_agrees_with_closed_forms_and_with_quadpack():
    """A given motion x = sin 5t, u = |t - 0.37| over three segments: a kink, a penalty that is not smooth, costs at the ends."""
    def state(t):
        t = np.asarray(t, float)
        return np.stack([np.sin(5 * t), 5 * np.cos(5 * t)], axis=-1)

    def control(t):
        return np.abs(np.asarray(t, float) - 0.37)[..., None]

    knots = np.array([0.0, 0.2, 0.5, 1.0])
    motion = Trajectory(knots, state(knots), control(knots[:-1]), knots[:-1], state, control)
    wall = Constraint("wall", At.PATH, function(2, 1, lambda t, x, u, p: x[0]), (-0.5,), (0.4,), soft=3.0)
    cost = Cost("cost", At.PATH, function(2, 1, lambda t, x, u, p: t * u[0] * ca.exp(x[0])))
    start = Cost("start", At.START, function(2, 1, lambda t, x, u, p: x), weights=(1.0, 2.0))
    phase = replace(known.block_move().phase, costs=(cost, start), constraints=(wall,))
    found, doubt = objective.integrated([Motion(phase, motion)], 1.0)

    def running(t):
        x = np.sin(5 * t)
        return t * abs(t - 0.37) * np.exp(x) + 1.5 * (max(0, x - 0.4) ** 2 + max(0, -0.5 - x) ** 2)

    high, low = np.arcsin(0.4), np.arcsin(0.5)
    kinks = np.r_[0.37, np.array([high, np.pi - high, np.pi + low, 2 * np.pi - low]) / 5]
    expected = quad(running, 0, 1, points=kinks[kinks < 1], epsabs=1e-13)[0] + (0 + 2 * 25) / 2
    assert found == pytest.approx(expected, abs=2e-6)
    assert abs(found - expected) <= 10 * doubt + 1e-10
    smooth, doubt = objective.integrated([Motion(replace(phase, constraints=()), Trajectory(
        knots, state(knots), control(knots[:-1]), knots[:-1], state, lambda t: np.ones(np.shape(t) + (1,))))], 1.0)
    assert smooth == pytest.approx(25 + quad(lambda t: t * np.exp(np.sin(5 * t)), 0, 1, epsabs=1e-14)[0], abs=1e-11)
    assert doubt < 1e-8


def test_one_interval_of_high_degree_is_resolved():
    """Forty nodes in one interval: the quadrature refines itself until it agrees."""
    system = known.flat_system("drift", ("x",), ("u",), lambda t, x, u, p: u)
    target = Cost("follow", At.PATH, function(1, 1, lambda t, x, u, p: ca.vertcat(x - ca.sin(20 * t), u / 30)), weights=(1.0, 1.0))
    problem = known.problem(replace(known.block_move().phase, system=system, start=fixed(0), final=None, x_lower=(-INF,),
                                    x_upper=(INF,), guess=known.line([0], [0], 1), costs=(target,)))
    solution = solve(problem, "collocation", {"scheme": "gauss", "degree": 40, "intervals": 1})
    assert solution.certificate.objective.value < 1e-8


def test_equal_means_equal_to_lower():
    """The upper limits of an equality do not count, here as in the program."""
    held = Constraint("held", At.PATH, function(2, 1, lambda t, x, u, p: x[0]), (1.0,), (INF,), Sense.EQUAL)
    np.testing.assert_allclose(held.excess(np.array([[1.5], [1.0], [0.75]])), [[0.5], [0.0], [0.25]])


def test_a_free_parameter_ends_on_its_bound_and_is_judged_there(solved):
    """The stiffness goes to its lower bound, up to rounding beyond it; a value further out is named."""
    solution = solved(WAYS[0])
    assert solution.problem.phase.system.parameter_values[0] == pytest.approx(0.1, abs=1e-7)
    bound = next(v for v in solution.certificate.violations if v.name == "bound k")
    assert bound.holds
    tighter = replace(solution.problem.phase, free_parameters=())
    object.__setattr__(tighter, "free_parameters", ((0, 0.11, 2.0),))  # a phase itself refuses such a value
    wrong = certify(replace(solution, problem=known.problem(tighter))).certificate
    assert next(v for v in wrong.violations if v.name == "bound k").at_knots == pytest.approx(0.01, abs=1e-6)
    assert (Kind.VIOLATION, "bound k") in [(one.kind, one.name) for one in wrong.failures]


# ---- between the knots, whatever the degree -----------------------------------------------------------------------------------
@pytest.mark.parametrize("scheme", ["gauss", "radau"])
@pytest.mark.parametrize("degree", [3, 9, *(pytest.param(degree, marks=pytest.mark.slow) for degree in (5, 30))])
@pytest.mark.sample(2)
def test_nothing_is_sampled_only_where_it_was_collocated(scheme, degree):
    """A wall that the program sees at its nodes alone, and dynamics that it obeys there alone: five samples at the nodes of five
    stages would see neither."""
    wall = Constraint("wall", At.PATH, function(4, 1, lambda t, x, u, p: x[0] - 0.3 * x[1]), (-INF,), (0.12,))
    problem = known.problem(replace(known.cart_pole().phase, constraints=(wall,)))
    solution = solve(problem, "collocation", {"scheme": scheme, "degree": degree, "intervals": max(1, 60 // degree // 2)})
    path, certificate = solution.trajectory, solution.certificate
    t = np.linspace(path.t[0], path.t[-1], 4001)
    x = path.state(t)
    over = np.max(x[:, 0] - 0.3 * x[:, 1]) - 0.12
    found = next(v for v in certificate.violations if v.name == "wall")
    assert found.at_knots < 1e-6 < over
    assert 0.4 * over <= found.between_knots <= 1.001 * over
    h = 1e-6
    middle = t[1:-1]
    slope = (path.state(middle + h) - path.state(middle - h)) / (2 * h)
    rate = np.array(problem.phase.system.rate(middle[None], path.state(middle).T, path.control(middle).T, [])).T
    motion = Motion(problem.phase, path)
    error = np.abs(slope - rate).max(axis=0) / motion.scale
    assert certificate.error_estimate.value > 0.02 * np.max(error) * np.diff(path.t).max()


def waving(speed):
    """The block moved with u^2 + cos(speed t): 12 + sin(speed) / speed."""
    phase = known.block_move().phase
    wave = replace(phase.costs[0], function=known.function(2, 1, lambda t, x, u, p: u[0]**2 + 50 * ca.cos(speed * t)))
    return known.problem(replace(phase, costs=(wave,)))


def test_running_costs_that_turn_beyond_any_mesh_end_at_once_and_are_reported_with_their_turns():
    found = solve(waving(1e4))
    assert not found.ok
    assert len(found.extra["refinement"]) == 1
    assert found.certificate.objective.cause is Kind.OSCILLATING_COST
    assert found.certificate.objective.data["turns"] == pytest.approx(1e4 / np.pi, abs=2)
    assert found.ending.kind is Kind.COSTS_TOO_FAST


def test_running_costs_that_a_mesh_can_follow_are_followed():
    found = solve(waving(300.0))
    assert found.ok
    assert found.objective == pytest.approx(12 + 50 * np.sin(300) / 300, abs=1e-4)
    assert len(found.extra["refinement"]) > 1


def test_values_at_the_ends_count_for_no_time():
    """u^2 + x log x from x = 0, where the cost is 0 times minus infinity: u^2 - x log x = c all along, so that time and cost are
    quadratures in x."""
    def entropy(x):
        return x * np.log(x) if x > 0 else 0.0

    c = brentq(lambda c: quad(lambda x: 1 / np.sqrt(c + entropy(x)), 0, 1)[0] - 1, 0.5, 5)
    truth = quad(lambda x: (c + 2 * entropy(x)) / np.sqrt(c + entropy(x)), 0, 1)[0]
    found = solve(load_text("""
name: entropy
system: {states: {x: ''}, controls: {u: ''}, dynamics: {x: u}}
phase: {duration: 1, start: {x: 0}, final: {x: 1}, costs: [{name: cost, running: u**2 + x*log(x)}]}
""").problem)
    assert found.ok, found.certificate.failures
    assert abs(found.objective - truth) <= found.certificate.error_bound
