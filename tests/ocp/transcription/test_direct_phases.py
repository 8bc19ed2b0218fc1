"""Several phases by collocation and by multiple shooting, against closed forms: passages, switching times, linkages, parameters."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import direct_problems as direct
import numpy as np
import pytest
from control_problems import fixed, flat_system, function, line

from ocp.errors import ProblemError, UnsupportedError
from ocp.methods import solve
from ocp.problem import INF, At, Boundary, Constraint, Cost, Duration, Kind, Linkage, Phase, Problem, Sense, Status

COLLOCATION = ("collocation", {"scheme": "gauss", "intervals": 6})
WAYS = [COLLOCATION, ("collocation", {"scheme": "hermite_simpson", "intervals": 12}),
        ("collocation", {"scheme": "radau", "intervals": 6}), ("multiple_shooting", {"intervals": 12, "controls": "linear"})]
IDS = ["gauss", "hermite_simpson", "radau", "shooting"]
ways = pytest.mark.parametrize("way", WAYS, ids=IDS)


def solved(problem, way, **more):
    method, options = way
    found = solve(problem, method, {"tolerance": 1e-10, **options, **more})
    assert found.status is Status.CONVERGED, found.ending
    return found


def effort(nx, nu=1, weight=1.0, np_=0):
    return Cost("effort", At.PATH, function(nx, nu, lambda t, x, u, p: u, np_), weights=(weight,) * nu)


def mover(name="mover", parameters=(), values=(), rate=lambda t, x, u, p: u[0]):
    """x' = u."""
    return flat_system(name, ("x",), ("u",), rate, parameters, values)


@pytest.mark.parametrize("way", [*WAYS, ("collocation", {"form": "compressed", "intervals": 12}),
                                 ("collocation", {"scheme": "lobatto", "degree": 5, "intervals": 3, "controls": "linear"})])
@pytest.mark.sample(2)
def test_bouncing_ball(way):
    found = solved(direct.bouncing_ball(), way)
    assert found.objective == pytest.approx(6.5479905, abs=6e-8)
    assert found.ok, found.certificate.failures
    drop, rise = found.parts
    assert rise.x[0, 1] == pytest.approx(-0.8 * drop.x[-1, 1], abs=1e-9)
    assert drop.t[-1] == rise.t[0]
    # along each arc the force is linear in time
    t = np.linspace(drop.t[0], drop.t[-1], 9)
    np.testing.assert_allclose(np.diff(drop.control(t)[:, 0], 2), 0, atol=1e-5)


def test_bouncing_ball_with_held_controls_comes_from_above():
    objective = [solved(direct.bouncing_ball(), ("multiple_shooting", {"intervals": n})).objective for n in (10, 20, 40)]
    above = np.array(objective) - 6.5479905
    assert np.all(above > 0)
    np.testing.assert_allclose(np.log2(above[:-1] / above[1:]), 2, atol=0.05)


@ways
@pytest.mark.sample(2)
def test_three_phases_with_other_states_each(way):
    """A push, a push that lasts, two pumps: 1 = int u_1 + int (2 - t) u_2 + int (u_3 + u_4), of norm 1 + 7/3 + 4."""
    first = Phase("push", mover(), direct.held(1.0), line([0], [0], 1), fixed(0), costs=(effort(1),))
    slide = flat_system("slide", ("q", "v"), ("f",), lambda t, x, u, p: ca.vertcat(x[1], u[0]))
    second = Phase("slide", slide, direct.held(1.0), line([0, 0], [0, 0], 1), costs=(effort(2),),
                   reset=direct.reset(lambda x, p: ca.vertcat(x, 0), 1))
    tank = flat_system("tank", ("level",), ("a", "b"), lambda t, x, u, p: u[0] + u[1])
    third = Phase("fill", tank, direct.held(2.0), line([0], [0], 2), final=fixed(1), costs=(effort(1, 2),),
                  reset=direct.reset(lambda x, p: x[0] + x[1], 2))
    found = solved(Problem("three", (first, second, third)), way)
    assert found.objective == pytest.approx(3 / 44, abs=1e-9)
    push, sliding, fill = found.parts
    np.testing.assert_allclose(push.u, 3 / 22, atol=1e-6)
    t = np.array([0.1, 0.5, 0.9])
    np.testing.assert_allclose(sliding.control(1 + t)[:, 0], (2 - t) * 3 / 22, atol=1e-6)
    np.testing.assert_allclose(fill.u, 3 / 22, atol=1e-6)
    assert [part.x.shape[1] for part in found.parts] == [1, 2, 1]
    np.testing.assert_allclose([part.t[-1] for part in found.parts], [1, 2, 4])
    assert found.ok, found.certificate.failures
    np.testing.assert_array_equal(np.isnan(found.trajectory.state(0.5)), [False, True])
    assert not np.any(np.isnan(found.trajectory.state(1.5)))


@ways
def test_time_goes_on_and_the_switch_is_free(way):
    """Waiting costs 1/2 a second, later (t - 2)^2 / 2: the switch is at t = 1. The end at t = 3 is a linkage of durations; reaching
    x = 1 by then costs 1/6, whatever the switch; 1/2 + 1/3 + 1/6 = 1."""
    wait = Cost("wait", At.PATH, function(1, 1, lambda t, x, u, p: ca.SX(0.5)))
    late = Cost("late", At.PATH, function(1, 1, lambda t, x, u, p: (t - 2) ** 2 / 2))
    first = Phase("wait", mover(), Duration(0.2, 5.0, 1.7), line([0], [0.5], 1), fixed(0), costs=(effort(1), wait))
    second = Phase("go", mover(), Duration(0.2, 5.0, 1.0), line([0.5], [1], 1), final=fixed(1), costs=(effort(1), late))
    total = Linkage("total", ((1, At.FINAL),), direct.linkage_function(lambda x, T, p: T[0] + T[1], (1,), 2), (3.0,), (3.0,))
    found = solved(Problem("switch", (first, second), linkages=(total,)), way)
    assert found.objective == pytest.approx(1, abs=1e-7)
    assert found.parts[1].t[0] == pytest.approx(1, abs=1e-4)
    assert found.parts[1].t[-1] == pytest.approx(3, abs=1e-8)
    assert found.ok, found.certificate.failures
    # the linkage as an upper bound that is reached: its multiplier is the price of time, -dJ/dT = -(1/2 - 1/18) there
    lam = found.extra["lam_g"][found.optimality.nlp.constraints.index("total @ linkage")]
    assert lam == pytest.approx(-(1 / 2 - 1 / 18), abs=1e-4)


@ways
def test_one_free_parameter_for_all_phases(way):
    """x' = wind + u for three seconds: 1 = 3 p + int u, at r/2 p^2 + 1/2 int u^2; 1 / (9/r + 3) = 1/6 for r = 3."""
    def phase(name, seconds, **more):
        own = ("other", "wind") if name == "late" else ("wind",)
        system = mover(name, own, (5.0, 0.0)[-len(own):], lambda t, x, u, p: p[len(own) - 1] + u[0])
        costs = (effort(1, np_=len(own)), *more.pop("costs", ()))
        return Phase(name, system, direct.held(seconds), line([0], [1], 1), costs=costs, **more)

    buy = Cost("buy", At.START, function(1, 1, lambda t, x, u, p: 1.5 * p[0] ** 2, 1))
    early = phase("early", 1.0, start=fixed(0), costs=(buy,), free_parameters=((0, -3.0, 3.0),))
    phases = (early, phase("late", 2.0, final=fixed(1)))
    found = solved(Problem("wind", phases), way)
    assert found.objective == pytest.approx(1 / 12, abs=1e-9)
    assert found.extra["parameters"] == pytest.approx([1 / 6], abs=1e-7)  # p = 3 / r * lambda
    assert found.problem.phases[0].system.parameter_values == pytest.approx((1 / 6,), abs=1e-7)
    assert found.problem.phases[1].system.parameter_values == pytest.approx((5.0, 1 / 6), abs=1e-7)
    assert found.parts[0].x[-1, 0] == pytest.approx(1 / 3, abs=1e-7)
    assert found.ok, found.certificate.failures


def periodic(nx, phases=1):
    """x at the end of the last phase = x at the start of the first."""
    return Linkage("period", ((0, At.START), (phases - 1, At.FINAL)),
                   direct.linkage_function(lambda a, b, T, p: b - a, (nx, nx), phases), (0.0,) * nx, (0.0,) * nx)


@pytest.mark.parametrize("phases", [1, 2])
@ways
@pytest.mark.sample(3)
def test_periodic_motion_at_resonance(way, phases):
    """q'' = -q - c v + cos t + u, min 1/2 int u^2 + w q^2 over a period. With q = Re Q e^(it), u = Re U e^(it):
    Q = (1 + U) / (i c), so U = -k / (1 + k) with k = w / c^2, and the cost is pi/2 k / (1 + k)."""
    c, w = 0.4, 0.1
    k = w / c**2
    system = flat_system("oscillator", ("q", "v"), ("u",), lambda t, x, u, p: ca.vertcat(x[1], -x[0] - c * x[1] + ca.cos(t) + u[0]))
    costs = (effort(2), Cost("size", At.PATH, function(2, 1, lambda t, x, u, p: x[0]), weights=(w,)))
    seconds = direct.held(2 * np.pi / phases)
    parts = tuple(Phase(f"part {i}", system, seconds, line([0, 1], [0, 1], 1), costs=costs) for i in range(phases))
    found = solved(Problem("resonance", parts, linkages=(periodic(2, phases),)), way, intervals=40 // phases)
    order = 3e-6 if way[0] == "collocation" else 3e-3
    assert found.objective == pytest.approx(np.pi / 2 * k / (1 + k), rel=order)
    start = found.trajectory.x[0]
    np.testing.assert_allclose(start, [0, 1 / (1 + k) / c], atol=2e-3 if way[0] == "collocation" else 1e-2)
    np.testing.assert_allclose(found.trajectory.x[-1], start, atol=1e-8)
    assert found.trajectory.control(np.pi)[0] == pytest.approx(k / (1 + k), abs=6e-3)
    assert found.ok, found.certificate.failures


@ways
def test_period_and_stiffness_are_found_together(way):
    """q'' = -p q without control, at (1, 0) again after T: sqrt(p) T = 2 pi; with p T = 4 pi, p = 4 and T = pi."""
    system = flat_system("spring", ("q", "v"), ("u",), lambda t, x, u, p: ca.vertcat(x[1], -p[0] * x[0] + u[0]), ("p",), (3.0,))
    phase = Phase("turn", system, Duration(2.0, 4.5, 3.4), line([1, 0], [1, 0], 1), fixed(1, 0), costs=(effort(2, np_=1),),
                  free_parameters=((0, 1.0, 9.0),))
    s = np.linspace(0, 1, 9)
    guess = replace(phase.guess, s=s, x=np.column_stack([np.cos(2 * np.pi * s), -2 * np.sin(2 * np.pi * s)]), u=np.zeros((9, 1)))
    product = Linkage("product", ((0, At.FINAL),), direct.linkage_function(lambda x, T, p: p[0] * T[0], (2,), 1, 1), (4 * np.pi,),
                      (4 * np.pi,), ("p",))
    found = solved(Problem("spring", (replace(phase, guess=guess),), linkages=(periodic(2), product)), way, intervals=40)
    assert found.objective == pytest.approx(0, abs=1e-8)
    assert found.extra["parameters"] == pytest.approx([4.0], abs=1e-3)
    assert found.trajectory.t[-1] == pytest.approx(np.pi, abs=1e-3)


@ways
def test_linkages_may_be_inequalities(way):
    """Two seconds from 0 to 1 with the middle at most 0.3: 1/2 (0.3^2 + 0.7^2), and the multiplier is -dJ/d0.3 = 0.4."""
    first = Phase("one", mover(), direct.held(1.0), line([0], [0.5], 1), fixed(0), costs=(effort(1),))
    second = Phase("two", mover(), direct.held(1.0), line([0.5], [1], 1), final=fixed(1), costs=(effort(1),))

    def link(name, low, high):
        product = direct.linkage_function(lambda a, b, T, p: a * b, (1, 1), 2)
        return Linkage(name, ((0, At.FINAL), (1, At.FINAL)), product, (low,), (high,))

    found = solved(Problem("middle", (first, second), linkages=(link("low", -INF, 0.3), link("far", -4.0, 9.0))), way)
    assert found.objective == pytest.approx(0.29, abs=1e-7)
    assert found.parts[0].x[-1, 0] == pytest.approx(0.3, abs=1e-7)
    lam = dict(zip(found.optimality.nlp.constraints, found.extra["lam_g"], strict=True))
    assert lam["low @ linkage"] == pytest.approx(0.4, abs=1e-5)
    assert lam["far @ linkage"] == pytest.approx(0, abs=1e-6)
    assert found.ok, found.certificate.failures


@ways
def test_not_a_number_names_the_phase_and_the_place(way):
    """A root of the second phase's own, met at its last knot only."""
    problem = direct.bouncing_ball()
    root = Constraint("root", At.FINAL, function(2, 1, lambda t, x, u, p: ca.sqrt(1.5 - x[0])), (-INF,), (9.0,))
    broken = direct.with_phase(problem, 1, constraints=(root,))
    found = solve(broken, way[0], way[1])
    assert found.status is Status.NOT_A_NUMBER
    (first, *_) = found.ending.data["found"]
    assert (first.kind, first.phase, first.name) == (Kind.FUNCTION_NOT_FINITE, "rise", "root")
    assert first.data["values"]["height"] == 2


def test_a_reset_or_linkage_that_is_not_a_number_is_named():
    problem = direct.bouncing_ball()
    bad = direct.with_phase(problem, 1, reset=direct.reset(lambda x, p: ca.vertcat(x[0], ca.sqrt(x[1])), 2))
    found = solve(bad, *COLLOCATION)
    assert found.status is Status.NOT_A_NUMBER
    assert "drop to rise speed @ passage" in [one.name for one in found.ending.data["found"]]
    root = Linkage("root", ((0, At.FINAL),), direct.linkage_function(lambda x, T, p: ca.sqrt(x[1]), (2,), 2), (0.0,), (9.0,))
    found = solve(replace(problem, linkages=(root,)), *COLLOCATION)
    assert "root @ linkage" in [one.name for one in found.ending.data["found"]]


def test_what_does_not_fit_is_refused():
    problem = direct.bouncing_ball()
    other = Phase("rise", mover(), direct.held(1.0), line([0], [1], 1))
    with pytest.raises(ProblemError, match="rise.*1 states and no reset"):
        solve(replace(problem, phases=(problem.phases[0], other)), *COLLOCATION)
    link = Linkage("l", ((0, At.FINAL),), direct.linkage_function(lambda x, T, p: p, (2,), 2, 1), (0.0,), (1.0,), ("mass",))
    with pytest.raises(ProblemError, match="no phase has a parameter 'mass'"):
        solve(replace(problem, linkages=(link,)), *COLLOCATION)
    with pytest.raises(ProblemError, match="phases 0 to 1"):
        replace(problem, linkages=(replace(link, ends=((2, At.START),)),))


def test_a_state_may_be_open_at_the_start_of_a_later_phase_only_by_its_reset():
    """A prescribed start of a later phase is a condition on the end before it: the ball shall land at -3 m/s."""
    start = Boundary((0.0, 2.4), (False, True))
    found = solved(direct.with_phase(direct.bouncing_ball(), 1, start=start), COLLOCATION)
    assert found.parts[0].x[-1, 1] == pytest.approx(-3, abs=1e-8)
    assert found.objective > 6.55


@pytest.mark.parametrize("options", [{"scheme": "gauss", "controls": "linear"}, {"scheme": "radau", "controls": "held"}, {},
                                     {"form": "compressed"}, {"scheme": "radau_left", "form": "differential"}, "shooting"], ids=str)
@pytest.mark.sample(2)
def test_a_phase_may_be_without_controls(options):
    """A fall of one metre, on one interval and on five: sqrt(2 / g) seconds."""
    ball = flat_system("ball", ("z", "v"), (), lambda t, x, u, p: ca.vertcat(x[1], -9.81))
    late = Cost("late", At.FINAL, function(2, 0, lambda t, x, u, p: t))
    low = Constraint("low", At.PATH, function(2, 0, lambda t, x, u, p: x[1]), (-9.0,), (1.0,))
    fall = Phase("fall", ball, Duration(0.1, 2.0, 0.5), line([1, 0], [0, -4], 0), fixed(1, 0), Boundary((0.0, 0.0), (True, False)),
                 costs=(late,), constraints=(low,))
    way = ("multiple_shooting", {}) if options == "shooting" else ("collocation", options)
    for n in (2, 5):
        found = solved(Problem("fall", (fall,)), way, intervals=n)
        assert found.objective == pytest.approx(np.sqrt(2 / 9.81), rel=1e-9)
        assert found.trajectory.u.shape[1] == 0
        assert found.ok, found.certificate.failures


def test_constraints_may_have_any_name():
    """Also that of a row of the program."""
    force = Constraint("defect force", At.PATH, function(2, 1, lambda t, x, u, p: u[0]), (-99.0,), (99.0,))
    named = direct.with_phase(direct.bouncing_ball(), 1, constraints=(force, replace(force, name="inner defect speed")))
    plain, found = solved(direct.bouncing_ball(), COLLOCATION), solved(named, COLLOCATION)
    np.testing.assert_allclose(found.extra["rise.costate"], plain.extra["rise.costate"], atol=1e-6)


@pytest.mark.parametrize("method", ["collocation", "multiple_shooting"])
def test_integrals_are_neither_soft_nor_cones(method):
    fuel = Constraint("fuel", At.INTEGRAL, function(2, 1, lambda t, x, u, p: ca.vertcat(u[0], x[0])), (0.0,) * 2, (1.0,) * 2)
    for wrong in (replace(fuel, soft=1.0), replace(fuel, sense=Sense.CONE)):
        with pytest.raises(UnsupportedError, match="'fuel'"):
            solve(direct.with_phase(direct.bouncing_ball(), 1, constraints=(wrong,)), method)


@pytest.mark.parametrize(("way", "states"), [
    pytest.param(("collocation", {"scheme": "gauss"}), "coordinates", id="gauss-coordinates"),
    pytest.param(("multiple_shooting", {"integrator": "rkmk4"}), "tangent", id="shooting-tangent", marks=pytest.mark.slow),
    pytest.param(("collocation", {"scheme": "gauss"}), "tangent", id="gauss-tangent", marks=pytest.mark.slow),
    pytest.param(("multiple_shooting", {"integrator": "rkmk4"}), "coordinates", id="shooting-coordinates", marks=pytest.mark.slow)])
def test_a_motion_cut_in_two_is_the_same_motion(way, states):
    """A free body: passages are differences on the manifold."""
    whole = direct.body_transfer()
    first, last, middle = *whole.phase.guess.x, direct.pose((0.25, -0.15, 0.1), (0.6, -0.4, 0.45))
    halves = [replace(whole.phase, name=name, duration=direct.held(0.5), guess=replace(whole.phase.guess, x=np.array(ends)))
              for name, ends in (("one", (first, middle)), ("two", (middle, last)))]
    halves = [replace(halves[0], final=None), replace(halves[1], start=None)]
    one = solved(whole, way, intervals=6, states=states)
    two = solved(Problem("two", tuple(halves)), way, intervals=3, states=states)
    assert two.objective == pytest.approx(one.objective, rel=1e-10 if states == "tangent" else 2e-8)
    np.testing.assert_allclose(two.parts[1].x[-2], one.trajectory.x[-2], atol=1e-5)
    rough = [c.kind for c in two.certificate.checks if not c.holds]  # three held controls in each half: the bar is wide
    assert rough in ([], [Kind.OBJECTIVE_ERROR]), two.certificate.failures
    assert all(v.holds for v in two.certificate.violations)
