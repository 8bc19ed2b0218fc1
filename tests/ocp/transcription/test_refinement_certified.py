"""Refinement driven by the certificate: it ends when that holds, measures overshoots, draws bounds in, and no unit matters."""

from __future__ import annotations

from dataclasses import replace
from importlib import metadata
from types import SimpleNamespace

import casadi as ca
import control_problems as known
import numpy as np
import pytest
from repository import ROOT
from uncertified import by_collocation

from ocp.app.files.load import load_problem, load_text
from ocp.certify import Tolerances, certify
from ocp.certify.consistent import Consistent
from ocp.errors import ProblemError
from ocp.methods import solve
from ocp.options import record_of
from ocp.problem import INF, At, Constraint, Cost, Duration, Kind, Phase, Sense
from ocp.reductions.algebraic_equations import state_equations
from ocp.strategy.collocation import searching
from ocp.strategy.solved import _stalled
from ocp.transcription.charts import form
from ocp.transcription.collocation import CollocationOptions, plans_of, uniform_meshes
from ocp.transcription.refine.criteria import ByCertificate, _peaks
from ocp.transcription.refine.error import Estimator
from ocp.transcription.refine.margins import Margins
from ocp.transcription.refine.plan import Plan, uniform_plan
from ocp.transcription.refine.policy import POLICIES

FIRST = ROOT / "tests" / "first_files"
JUMPS = (Kind.EDGES_AT_JUMPS, Kind.EDGES_MOVED, Kind.EDGES_NOT_MOVED, Kind.EDGES_STAY, Kind.NO_SWITCH)
SINGULAR = (Kind.SINGULAR_SMOOTHED, Kind.SINGULAR_NEARLY_SMOOTH, Kind.SINGULAR_CHATTERS)


def test_auto_means_the_certificate_only_where_no_mesh_is_given():
    chosen = CollocationOptions()
    assert (chosen.scheme, chosen.intervals, chosen.refine) == ("radau", 20, "certificate")
    for given in ({"intervals": 7}, {"scheme": "gauss"}, {"degree": 3}, {"mesh": "0:3 1"}, {"form": "compressed"}):
        assert CollocationOptions(**given).refine == "none", given
    assert CollocationOptions(intervals=7).scheme == "hermite_simpson"
    assert CollocationOptions(scheme="gauss").intervals == 50
    assert CollocationOptions(tolerance=1e-8).refine == "certificate"


def test_ends_as_soon_as_the_certificate_holds():
    found = solve(known.block_move())
    assert found.ok
    assert len(found.extra["refinement"]) == 1
    assert found.objective == pytest.approx(12, abs=1e-7)


def test_refines_until_it_holds():
    found = solve(known.bang_bang(), tolerances=Tolerances(gap_segment=1e-6))
    assert found.ok
    assert found.certificate.gap_segment.value <= 1e-6
    assert found.trajectory.t[-1] == pytest.approx(2, abs=1e-5)


def test_needs_what_certifies():
    assert by_collocation(known.block_move(), CollocationOptions()).ok  # which ``uncertified`` gives
    with pytest.raises(ProblemError, match="certif"):
        searching(known.block_move(), CollocationOptions())


def test_bounds_are_tightened_by_what_was_measured():
    """A speed limit along an arc of the move: 8 V^2 / (3 tau), tau = 3/2 (1 - 1/V)."""
    system = known.flat_system("limited", ("x", "v"), ("u",), lambda t, x, u, p: ca.vertcat(x[1], u[0]))
    cost = Cost("effort", At.PATH, known.function(2, 1, lambda t, x, u, p: u[0] ** 2))
    problem = known.problem(Phase("limited", system, Duration(1.0, 1.0, 1.0), known.line([0, 0], [1, 0], 1), known.fixed(0, 0),
                                  known.fixed(1, 0), x_upper=(INF, 1.13), costs=(cost,)))
    strict = Tolerances(violation_between=1e-5)
    coarse = certify(by_collocation(problem, CollocationOptions(scheme="radau", intervals=20)), strict)
    assert not coarse.ok
    found = solve(problem, tolerances=strict)
    assert found.ok
    assert np.max(found.trajectory.state(np.linspace(0, 1, 20001))[:, 1]) <= 1.13 + 1.2e-5
    V = 1.13
    assert found.objective == pytest.approx(8 * V**2 / 3 / (1.5 * (1 - 1 / V)), rel=1e-3)
    assert any(one.kind is Kind.BOUNDS_TIGHTENED and one.value > 0 for one in found.findings)
    assert found.freeze["refine"] == "certificate"


def test_margins_follow_intervals_to_another_mesh():
    before, after = uniform_plan(2, 3), Plan((0.0, 0.5, 0.75, 1.0), (3, 3, 3))
    margins = Margins.none(2, 1, 0).grown(np.array([[[0.0, 0.2]], [[0.0, 0.4]]]), np.zeros((2, 0, 2)))
    moved = margins.on(before, after)
    np.testing.assert_allclose(moved.states[:, 0, 1], 1.1 * np.array([0.2, 0.1, 0.1]))
    assert moved.times.tolist() == [1, 0, 0]


def test_margins_spread_to_the_intervals_beside_and_grow_twice_where_they_did_not_suffice():
    over = np.array([0.0, 0.0, 0.4, 0.0])[:, None, None] * np.array([0.0, 1.0])
    rows = np.zeros((4, 0, 2))
    once = Margins.none(4, 1, 0).grown(over, rows)
    np.testing.assert_allclose(once.states[:, 0, 1], 1.1 * np.array([0, 0.1, 0.4, 0.1]))
    assert once.times.tolist() == [0, 0, 1, 0]
    assert not once.states[:, 0, 0].any()
    again = once.grown(0.1 * over, rows)
    np.testing.assert_allclose(again.states[:, 0, 1], once.states[:, 0, 1] + 0.04 * np.array([0, 1.1 / 4, 2, 1.1 / 4]))


def test_estimates_that_only_rounding_moves_are_left_to_the_certificate():
    """A third state that stays at 1e-14: over its range its errors are never small, and finer meshes change nothing."""
    system = known.flat_system("idle", ("x", "v", "w"), ("u",), lambda t, x, u, p: ca.vertcat(
        x[1], u[0], 1e-14 * ca.sin(400 * t)))
    cost = Cost("effort", At.PATH, known.function(3, 1, lambda t, x, u, p: u[0] ** 2))
    problem = known.problem(Phase("idle", system, Duration(1.0, 1.0, 1.0), known.line([0, 0, 0], [1, 0, 0], 1),
                                  known.fixed(0, 0, 0), replace(known.fixed(1, 0, 0), fixed=(True, True, False)), costs=(cost,)))
    found = solve(problem)
    assert found.ok
    assert len(found.extra["refinement"]) <= 3
    assert found.objective == pytest.approx(12, abs=1e-6)


@pytest.mark.skipif(not list(metadata.distributions(name="example-robot-data")), reason="the robots extra is not installed")
@pytest.mark.parametrize(("name", "objective"), [
    pytest.param("talos_min_time", 0.28167, marks=pytest.mark.slow), ("ur10_move", 1265.8)])
def test_arms_along_limits_of_speed_are_certified(name, objective):
    """Motions along bounds, with many controls that jump and are singular in turn: no edges are moved, and bounds drawn in a few
    times suffice."""
    found = solve(load_problem(FIRST / f"{name}.yaml").problem)
    assert found.ok
    assert len(found.extra["refinement"]) <= 9
    assert found.objective == pytest.approx(objective, rel=3e-4)
    assert not {one.kind for one in found.findings} & {*JUMPS, *SINGULAR}


@pytest.mark.parametrize("unit", [1e-12, 1e-9, 1e9])
def test_units_of_the_cost_do_not_matter(unit):
    problem = known.cart_pole()
    plain = solve(problem)

    def scaled(c):
        a = [ca.SX.sym(name, c.function.size1_in(i)) for i, name in enumerate("txup")]
        return replace(c, function=ca.Function("cost", a, [unit * c.expression(*a)]), weights=None)

    phase = problem.phase
    found = solve(replace(problem, phases=(replace(phase, costs=tuple(scaled(c) for c in phase.costs)),)))
    assert found.ok == plain.ok
    assert found.objective / unit == pytest.approx(plain.objective, rel=1e-6)
    np.testing.assert_allclose(found.trajectory.x, plain.trajectory.x, atol=1e-5)


def test_an_obstacle_for_an_instant_beside_an_edge_is_seen():
    """x >= 1/2 - 1e4 (t - 0.3)^2 touches a block at one instant s near 0.3, on whose steep side the next node lies: the least
    int u^2 through 1/2 - 1e4 (s - 0.3)^2 at s, by the Gramian of the three conditions, for the worst s."""
    def effort(s):
        a, b = s**2 / 2 - s**3 / 6, s**2 / 2
        wanted = np.array([1.0, 0.0, 0.5 - 1e4 * (s - 0.3) ** 2])
        return wanted @ np.linalg.solve([[1 / 3, 1 / 2, a], [1 / 2, 1.0, b], [a, b, s**3 / 3]], wanted)

    found = solve(load_text("""
name: touch
system: {states: {x: m, v: m/s}, controls: {u: N}, dynamics: {x: v, v: u}}
phase:
  duration: 1
  start: {x: 0, v: 0}
  final: {x: 1, v: 0}
  costs: [{name: effort, running: u**2}]
  constraints: [{name: touch, expression: x + 1e4*(t - 0.3)**2, lower: 0.5}]
""").problem)
    assert found.ok, found.certificate.failures
    truth = max(map(effort, np.linspace(0.299, 0.301, 20001)))
    assert abs(found.objective - truth) <= found.certificate.error_bound
    assert truth - effort(0.3) > 1e-2


@pytest.mark.parametrize("sense", [Sense.BOX, Sense.CONE])
def test_overshoots_are_those_of_unknowns_that_solve_their_equations_everywhere(sense):
    """z + z^3 = x + u by Cardano at every time, and not its polynomial through nodes; and of a cone its distance from the surface,
    whatever unit measures its squares."""
    limit, allowed = 0.29, 1e-4
    value, size = (lambda t, x, w, p: w[1], 1) if sense is Sense.BOX else (lambda t, x, w, p: ca.vertcat(limit, w[1]), 2)
    bounds = ((-INF,), (limit,)) if sense is Sense.BOX else ((0.0,) * size, (INF,) * size)
    flow = Constraint("flow", At.PATH, known.function(1, 2, value), *bounds, sense, unit=25.0 if sense is Sense.CONE else 1.0)
    problem = state_equations(known.cubic(constraints=(flow,)))
    found = by_collocation(problem, CollocationOptions(scheme="radau", degree=3, intervals=4))
    system, path = problem.phase.system, found.trajectory
    estimator = Estimator(problem, [form(system.space, "coordinates")], [Consistent(system).solved])
    measured, = ByCertificate(lambda solution: solution, estimator, (1.0, 1.0))._overshoots(
        found, {"flow": allowed})
    at = [np.linspace(a, b - 1e-9, 4001) for a, b in zip(path.t[:-1], path.t[1:], strict=True)]
    excess = np.array([np.abs(known.inverse_cubic(path.state(t)[:, 0] + path.control(t)[:, 0])).max() - limit for t in at])
    returned = np.array([np.abs(path.control(t)[:, 1]).max() - limit for t in at])
    assert min(excess.max(), np.abs(excess - returned).max()) > 10 * allowed
    np.testing.assert_allclose(np.max(measured.ratio[:, 1:], axis=1), np.maximum(0, excess) / allowed, rtol=0.02, atol=0.02)


def test_estimated_defects_are_those_of_unknowns_that_solve_their_equations_everywhere():
    """z + z^3 = x + u by Cardano, and the derivative of the state by differences, at every time."""
    problem, options = state_equations(known.cubic()), CollocationOptions(scheme="radau", degree=3, intervals=4)
    found, system = by_collocation(problem, options), problem.phase.system
    path, own = found.trajectory, [form(system.space, "coordinates")]
    solved, returned = (Estimator(problem, own, inputs).estimate(found, uniform_meshes(problem, options)).phases[0].defect
                        for inputs in ([Consistent(system).solved], None))
    expected = []
    for a, b in zip(path.t[:-1], path.t[1:], strict=True):
        t = np.linspace(a, b, 4002)[1:-1]
        x, slope = path.state(t)[:, 0], (path.state(t + 1e-6) - path.state(t - 1e-6))[:, 0] / 2e-6
        expected.append(np.trapezoid(np.abs(known.inverse_cubic(x + path.control(t)[:, 0]) - x - slope), t) / np.ptp(path.x))
    np.testing.assert_allclose(solved, expected, rtol=0.2)
    assert np.max(np.abs(returned / expected - 1)) > 0.5


@pytest.mark.parametrize(("errors", "stalls"), [([100, 90, 50, 20, 6], False), ([100, 90, 50, 48, 47, 46, 46], True)])
def test_overshoots_stall_beside_overshoots_alone(errors, stalls):
    """Before the first certificate nothing is known of what it allows: small errors of those passes are of motions alone."""
    passes = [SimpleNamespace(verdict=SimpleNamespace(worst=worst, allowed=allowed, solution=SimpleNamespace(
        objective=1.0, optimality=None))) for worst, allowed in [(40, {}), (3.6, {}), *((e, {"cone": 1e-4}) for e in errors)]]
    refinement = SimpleNamespace(certified=True, rules=SimpleNamespace(policy=POLICIES["certificate"]),
                                 criterion=SimpleNamespace(still=1e-9))
    assert _stalled(refinement, SimpleNamespace(verdicts=passes)) is stalls


def test_peaks_lie_between_the_outermost_places_as_well():
    t = np.linspace(0, 1, 5)
    for top in (0.02, 0.3, 0.77, 0.98):
        assert _peaks(-(t - top)[None, :, None] ** 2)[0, 0] == pytest.approx(0.0, abs=1e-12)
    assert _peaks(t[None, :, None])[0, 0] == 1.0


@pytest.mark.parametrize(("phases", "options", "each"), [
    (1, {}, 20), (3, {}, 20), (7, {}, 8), (13, {}, 4), (7, {"intervals": 20, "refine": "certificate"}, 20),
    (7, {"refine": "h"}, 50)])
def test_many_phases_share_the_intervals_of_the_first_mesh(phases, options, each):
    phase = known.block_move().phase
    several = replace(known.block_move(), phases=tuple(replace(phase, name=f"phase {i}") for i in range(phases)))
    assert [plan.intervals for plan in plans_of(several, record_of(CollocationOptions, options, ""))] == [each] * phases
