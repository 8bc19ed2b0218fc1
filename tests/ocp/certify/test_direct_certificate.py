"""The certificate of the direct methods: what it lets pass, what it must not, and where it looks."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import control_problems as known
import direct_problems as direct
import numpy as np
import pytest
from control_problems import fixed, function, moved

from ocp.certify import certify
from ocp.methods import solve
from ocp.problem import INF, At, Constraint, Kind, Linkage, Sense, Status
from ocp.transcription.collocation import CollocationOptions, uniform_meshes

MESHES = [{"scheme": "gauss", "intervals": 8}, {"scheme": "radau", "intervals": 8}, {"scheme": "hermite_simpson", "intervals": 30},
          {"form": "compressed", "intervals": 30}]
on_meshes = pytest.mark.parametrize("options", MESHES, ids=lambda o: o.get("scheme", "compressed"))


def rich():
    """The bouncing ball with an integral, a linkage and a duration at their limits, and a constraint on the force that is not."""
    problem = direct.bouncing_ball()
    fuel = Constraint("fuel", At.INTEGRAL, function(2, 1, lambda t, x, u, p: u[0] ** 2), (-INF,), (8.0,))
    thrust = Constraint("thrust", At.PATH, function(2, 1, lambda t, x, u, p: u[0] + 0.01 * x[1]), (-INF,), (12.0,))
    total = Linkage("total", ((0, At.FINAL), (1, At.START)), direct.linkage_function(lambda a, b, T, p: T[0] + T[1], (2, 2), 2),
                    (1.1,), (INF,))
    problem = direct.with_phase(problem, 0, duration=replace(problem.phases[0].duration, upper=0.36, guess=0.3))
    return replace(direct.with_phase(problem, 1, constraints=(fuel, thrust)), linkages=(total,))


@pytest.fixture(scope="module")
def solution():
    found = solve(rich(), "collocation", {"scheme": "gauss", "intervals": 10, "degree": 4})
    assert found.ok, found.certificate.failures
    return found


GAPS = {Kind.GAP_SEGMENT, Kind.GAP_TOTAL}


def failures(solution, **changes):
    """Kinds of the checks that fail, and phases and names of the constraints that are violated."""
    found = certify(replace(solution, **changes)).certificate.failures
    return {one.kind for one in found} | {(one.phase, one.name) for one in found if one.name}


def test_every_kind_of_row_is_listed(solution):
    names = {v.label for v in solution.certificate.violations}
    assert {"drop: start state", "drop: final state", "rise: fuel", "rise: thrust", "rise: final state", "drop to rise",
            "total"} <= names
    assert all(v.holds for v in solution.certificate.violations)
    fuel = next(v for v in solution.certificate.violations if (v.phase, v.name) == ("rise", "fuel"))
    assert fuel.at_knots < 1e-7


def test_tampered_states_and_controls_are_caught(solution):
    drop, rise = solution.parts
    assert GAPS & failures(solution, parts=(moved(drop, dx=np.array([0.05, 0])), rise))
    assert GAPS & failures(solution, parts=(drop, moved(rise, du=0.4)))
    wrong = failures(solution, parts=(drop, moved(rise, du=9.0)))
    assert ("rise", "thrust") in wrong
    assert ("rise", "fuel") in wrong


def test_a_tampered_duration_is_caught(solution):
    drop, rise = solution.parts
    wrong = failures(solution, parts=(drop, moved(rise, stretch=0.95)))
    assert GAPS & wrong
    assert ("", "total") in wrong
    tight = direct.with_phase(solution.problem, 1, duration=replace(solution.problem.phases[1].duration, lower=1.0))
    assert ("rise", "duration") in failures(solution, problem=tight)


def test_a_tampered_passage_is_caught(solution):
    other = direct.reset(lambda x, p: ca.vertcat(x[0], -0.79 * x[1]), 2)
    assert ("", "drop to rise") in failures(solution, problem=direct.with_phase(solution.problem, 1, reset=other))
    drop, rise = solution.parts
    bent = replace(rise, x=np.vstack([rise.x[:1] + [[0, 1e-5]], rise.x[1:]]))
    assert ("", "drop to rise") in failures(solution, parts=(drop, bent))


def test_tampered_integrals_and_linkages_are_caught(solution):
    fuel, thrust = solution.problem.phases[1].constraints
    for tighter in (replace(fuel, upper=(7.999,)), replace(fuel, lower=(8.001,), upper=(INF,))):
        assert ("rise", "fuel") in failures(solution, problem=direct.with_phase(solution.problem, 1, constraints=(tighter, thrust)))
    equal = replace(fuel, lower=(7.0,), upper=(7.0,), sense=Sense.EQUAL)
    assert ("rise", "fuel") in failures(solution, problem=direct.with_phase(solution.problem, 1, constraints=(equal, thrust)))
    link = replace(solution.problem.linkages[0], lower=(1.11,))
    assert ("", "total") in failures(solution, problem=replace(solution.problem, linkages=(link,)))


@pytest.mark.parametrize("what", ["lam_g", "lam_x", "x"])
def test_tampered_multipliers_are_caught(solution, what):
    left = solution.optimality
    value = np.array(getattr(left, what))
    free = left.nlp.x_lower < left.nlp.x_upper if what != "lam_g" else np.ones(left.nlp.m, dtype=bool)
    worst = int(np.argmax(np.abs(value) * free))
    assert abs(value[worst]) > 1e-2
    value[worst] *= 1.01
    assert Kind.STATIONARITY in failures(solution, optimality=replace(left, **{what: value}))
    if what != "x":
        flipped = np.array(getattr(left, what))
        rows = (left.nlp.g_lower < left.nlp.g_upper) if what == "lam_g" else (left.nlp.x_lower < left.nlp.x_upper)
        flipped[np.flatnonzero(rows & (np.abs(flipped) > 1e-3))[0]] *= -1
        assert Kind.STATIONARITY in failures(solution, optimality=replace(left, **{what: flipped}))


def test_a_solution_without_multipliers_is_not_certified(solution):
    found = certify(replace(solution, optimality=None)).certificate
    assert found.second_order.kind is Kind.POINT_NOT_EXAMINED
    assert np.isnan([found.stationarity.value, found.complementarity.value]).all()
    assert not found.holds


def steep():
    """Least effort with |u| limited through a path constraint, not a bound: active at the start and the end."""
    limit = Constraint("limit", At.PATH, function(2, 1, lambda t, x, u, p: u[0]), (-4.6,), (4.6,))
    return direct.with_phase(known.block_move(), constraints=(limit,))


@pytest.mark.parametrize("options", [
    *MESHES, {"scheme": "lobatto", "degree": 4, "intervals": 8}, {"scheme": "radau_left", "intervals": 8},
    {"scheme": "gauss", "controls": "held", "intervals": 20}, {"scheme": "radau", "controls": "linear"},
    {"scheme": "lobatto", "degree": 3, "controls": "held", "intervals": 20}], ids=str)
@pytest.mark.sample(3)
def test_constraints_on_controls_are_judged_where_the_scheme_holds_them(options):
    """At the places of its own interval: the polynomial of the neighbour, or its own beyond the last place, may overshoot."""
    found = solve(steep(), "collocation", options)
    limit = next(v for v in found.certificate.violations if v.name == "limit")
    assert limit.at_knots <= 1e-7
    assert found.trajectory.u.max() == pytest.approx(4.6, abs=1e-6)
    if options.get("form") != "compressed":
        places = uniform_meshes(steep(), CollocationOptions(**options))[0].evaluation
        own = np.einsum("ec,ecu->eu", places.weights, found.trajectory.u[places.points])
        np.testing.assert_allclose(found.trajectory.control(found.trajectory.t_path), own, atol=1e-6)
    over = np.abs(found.trajectory.control(np.linspace(0, 1, 501))).max() - 4.6
    assert limit.between_knots <= 1.02 * max(over, 0) + 1e-6
    tight = replace(steep().phase.constraints[0], upper=(4.5999,))
    wrong = certify(replace(found, problem=direct.with_phase(found.problem, constraints=(tight,))))
    assert next(v for v in wrong.certificate.violations if v.name == "limit").at_knots == pytest.approx(1e-4, rel=1e-2)


def bead(limit=1 / 9, path=True):
    """Bryson and Denham: 4 / (9 l); programs with a coarse mesh find less, by leaving the wall between the knots."""
    ceiling = Constraint("ceiling", At.PATH, function(2, 1, lambda t, x, u, p: x[0]), (-INF,), (limit,))
    effort = replace(known.control_effort(2), function=function(2, 1, lambda t, x, u, p: u[0] ** 2 / 2))
    changes = {"constraints": (ceiling,)} if path else {"x_upper": (limit, INF)}
    return direct.with_phase(known.block_move(), start=fixed(0, 1), final=fixed(0, -1), costs=(effort,), **changes)


@pytest.mark.parametrize("path", [True, False], ids=["path", "bound"])
@pytest.mark.parametrize("way", [("collocation", {"intervals": 7}), ("collocation", {"form": "compressed", "intervals": 7}),
                                 ("collocation", {"scheme": "gauss", "degree": 3, "intervals": 4}),
                                 ("collocation", {"scheme": "radau", "degree": 3, "intervals": 5}),
                                 ("multiple_shooting", {"intervals": 7, "controls": "linear"})], ids=str)
@pytest.mark.sample(3)
def test_a_wall_left_between_knots_is_flagged(way, path):
    """The objective is off, mostly below the true 4, and the constraint is broken where the program did not look."""
    found = solve(bead(path=path), *way)
    assert found.status is Status.CONVERGED
    assert abs(found.objective - 4) > 5e-4
    assert not found.ok
    name = "ceiling" if path else "bound x"
    broken = next(v for v in found.certificate.violations if v.name == name)
    assert broken.at_knots < 1e-6
    t = np.linspace(0, 1, 2001)
    over = found.trajectory.state(t)[:, 0].max() - 1 / 9
    assert broken.between_knots == pytest.approx(over, rel=0.25)
    assert over > 1e-4
    assert broken.finding.kind is Kind.VIOLATION_BETWEEN


@on_meshes
def test_knots_where_the_wall_begins_make_it_exact(options):
    """With knots at 3 l and 1 - 3 l the arcs are cubic and the wall is held everywhere."""
    found = solve(bead(), "collocation", {**options, "intervals": 9})
    assert found.objective == pytest.approx(4, abs=2e-6)
    assert found.ok, found.certificate.failures


@pytest.mark.parametrize("way", [("collocation", {"scheme": "trapezoid", "intervals": 12}), ("collocation", {"intervals": 6}),
                                 ("collocation", {"scheme": "radau", "degree": 2, "intervals": 8}),
                                 ("multiple_shooting", {"integrator": "euler", "intervals": 40}),
                                 ("multiple_shooting", {"integrator": "implicit_euler", "intervals": 60})], ids=str)
@pytest.mark.sample(2)
def test_a_mesh_too_coarse_for_the_dynamics_is_flagged(way):
    found = solve(known.cart_pole(), *way)
    assert found.status is Status.CONVERGED
    assert not found.ok
    assert not found.certificate.gap_segment.holds or not found.certificate.gap_total.holds


def test_integrals_are_certified_to_the_order_of_the_scheme():
    """The length of the chain is 4 by the program's own quadrature; the certificate integrates the interpolants."""
    found = [solve(direct.hanging_chain(), "collocation", {"scheme": "gauss", "intervals": n}) for n in (10, 20, 40)]
    excess = [next(v for v in one.certificate.violations if v.name == "length") for one in found]
    assert excess[0].at_knots > 10 * excess[1].at_knots > 100 * excess[2].at_knots
    assert excess[2].at_knots < 1e-6
