"""Absolute values of controls as sums of two parts, norms as slack controls: the same values, the closed form of least effort,
the solution in the problem's terms."""

from dataclasses import replace
from types import SimpleNamespace

import casadi as ca
import control_problems as known
import numpy as np
import pytest

from ocp.app.sentences import remarks
from ocp.explain.groups import UPPER, program_of
from ocp.methods import method, solve
from ocp.problem import At, Constraint, Cost, Guess, Kind
from ocp.reductions import chain_of, invert, objective_shortfall
from ocp.reductions.control_norms import NEGATIVE_PART
from ocp.transcription.collocation import CollocationOptions

#: one metre in three seconds from rest to rest with at most 1 N: pushes of s at both ends with s (3 - s) = 1; the effort is 2 s
EXACT = 3 - np.sqrt(5)


def split(problem):
    return chain_of(["control_norms"]).apply(problem)


def moved(cost, bound=1.0, *, at=At.PATH):
    phase = known.block_move(3.0).phase
    return known.problem(replace(phase, u_lower=(-bound,), u_upper=(bound,), costs=(Cost("fuel", at, known.function(2, 1, cost)),)))


def test_least_effort_is_certified_by_default_and_handed_back_with_its_one_control():
    problem = moved(lambda t, x, u, p: ca.fabs(u[0]))
    found = solve(problem)
    assert found.ok
    assert abs(found.objective - EXACT) <= found.certificate.error_bound <= 1e-5
    assert found.problem.phase.system.controls == ("u",)
    assert found.problem.phase.costs == problem.phase.costs
    assert found.trajectory.u.shape[1] == 1
    t = np.linspace(0.0, 3.0, 30001)
    u = found.trajectory.control(t)
    assert u.shape == (30001, 1)
    assert np.trapezoid(np.abs(u[:, 0]), t) == pytest.approx(EXACT, abs=1e-3)
    assert found.trajectory.control(0.1) == pytest.approx([1.0], abs=1e-6)
    assert [one.name for one in found.findings if one.kind is Kind.ABSOLUTE_VALUE_AS_SUM] == ["u"]
    assert any("two nonnegative controls" in words for words in remarks(found))


def test_causes_and_prices_know_the_bounds_that_were_written_alone():
    problem = method("collocation").reduce(moved(lambda t, x, u, p: ca.fabs(u[0])), CollocationOptions())
    groups = program_of(problem).groups
    sides = {group.name: {limit.side for limit in group.limits} for group in groups if group.name.startswith("bound of ")}
    assert sides == {"bound of u": {UPPER}, f"bound of u{NEGATIVE_PART}": {UPPER}}


@pytest.mark.parametrize(("method", "options"), [("collocation", {"controls": "held", "intervals": 60, "scheme": "radau"}),
                                                 ("multiple_shooting", {"intervals": 60})])
def test_held_controls_and_both_ways_of_cost_agree(method, options):
    found = solve(moved(lambda t, x, u, p: 2 * ca.fabs(u[0]) + ca.fabs(x[1] - 7)), method, options)
    assert found.problem.phase.system.controls == ("u",)
    assert found.objective == pytest.approx(2 * EXACT + 3 * 7 - 1, rel=2e-3)  # the speed, integrated, is the way
    assert np.max(np.abs(found.trajectory.u)) <= 1 + 1e-9


def test_functions_of_parts_have_the_values_of_the_control():
    rng = np.random.default_rng(3)
    system = known.flat_system("two", ("x",), ("a", "b"), lambda t, x, u, p: u[0] * x[0] + ca.fabs(u[1]))

    def running(t, x, u, p):
        return 2 * ca.fabs(u[1]) + ca.fabs(u[0]) * x[0] + u[1]**2 + ca.fabs(u[1] + 1)

    phase = replace(known.block_move().phase, system=system, guess=Guess(np.array([0.0, 1.0]), np.zeros((2, 1)), np.zeros((2, 2))),
                    start=None, final=None, x_lower=(), x_upper=(), u_lower=(-1.0, -2.0), u_upper=(1.0, 3.0),
                    costs=(Cost("c", At.PATH, known.function(1, 2, running)),),
                    constraints=(Constraint("r", At.PATH, known.function(1, 2, lambda t, x, u, p: ca.fabs(u[1])), (0.0,), (1.0,)),))
    parts = split(known.problem(phase)).phase
    assert parts.system.controls == ("a", "b", "b" + NEGATIVE_PART)
    assert (parts.u_lower, parts.u_upper) == ((-1.0, 0.0, 0.0), (1.0, 3.0, 2.0))
    for _ in range(20):
        x, a, b, more = rng.normal(size=4)
        w = [a, max(b, 0), max(-b, 0)]
        for mine, other in ((parts.system.rate, system.rate), (parts.costs[0].function, phase.costs[0].function),
                            (parts.constraints[0].function, phase.constraints[0].function)):
            assert float(mine(0, x, w, [])) == pytest.approx(float(other(0, x, [a, b], [])), rel=1e-13)
        both = [a, w[1] + abs(more), w[2] + abs(more)]  # more of both parts costs more, and moves nothing
        assert float(parts.costs[0].function(0, x, both, [])) == pytest.approx(
            float(phase.costs[0].function(0, x, [a, b], [])) + 4 * abs(more), rel=1e-12)
        assert float(parts.system.rate(0, x, both, [])) == pytest.approx(float(system.rate(0, x, [a, b], [])), rel=1e-12)


@pytest.mark.parametrize("cost", [lambda t, x, u, p: -ca.fabs(u[0]), lambda t, x, u, p: ca.fabs(u[0]) * ca.sin(t),
                                  lambda t, x, u, p: ca.fabs(u[0])**2, lambda t, x, u, p: ca.fabs(u[0] - x[0]),
                                  lambda t, x, u, p: ca.sqrt(ca.fabs(u[0]))])
def test_other_sizes_stay_as_they_are(cost):
    problem = moved(cost)
    assert split(problem) is problem
    one_sided = replace(moved(lambda t, x, u, p: ca.fabs(u[0])).phase, u_lower=(0.0,))
    assert split(known.problem(one_sided)).phase is one_sided


def test_solutions_of_other_problems_are_not_touched():
    found = solve(known.block_move())
    assert invert(found) is found


def in_the_plane(cost, bound=1.0):
    """A metre in three seconds along (0.6, 0.8), from rest to rest, with at most 1 N of both forces together."""
    system = known.flat_system("puck", ("x", "y", "v", "w"), ("a", "b"), lambda t, x, u, p: ca.vertcat(x[2], x[3], u[0], u[1]))
    thrust = Constraint("thrust", At.PATH, known.function(4, 2, lambda t, x, u, p: ca.sumsqr(u)), (-np.inf,), (bound**2,))
    phase = known.block_move(3.0).phase
    return known.problem(replace(
        phase, system=system, guess=known.line([0, 0, 0, 0], [0.6, 0.8, 0, 0], 2), start=known.fixed(0, 0, 0, 0),
        final=known.fixed(0.6, 0.8, 0, 0), x_lower=(), x_upper=(), u_lower=(), u_upper=(), constraints=(thrust,),
        costs=(Cost("fuel", At.PATH, known.function(4, 2, cost)),)))


@pytest.mark.parametrize("weight", [pytest.param(1.0, marks=pytest.mark.slow), 1e3])
def test_least_norm_has_the_optimum_of_the_way_alone(weight):
    # what a force does across the way costs and helps nothing, so that the optimum is that of one direction
    found = solve(in_the_plane(lambda t, x, u, p: weight * ca.norm_2(u)))
    assert found.ok, found.ending
    assert abs(found.objective - weight * EXACT) <= found.certificate.error_bound <= 0.01 * weight
    assert found.trajectory.u.shape[1] == 2
    assert [one.name for one in found.findings if one.kind is Kind.NORM_AS_SLACK] == ["norm of a, b"]
    t = np.linspace(0.0, 3.0, 30001)
    forces = found.trajectory.control(t)
    assert weight * np.trapezoid(np.linalg.norm(forces, axis=1), t) == pytest.approx(found.objective, rel=2e-3)
    np.testing.assert_allclose(forces @ [0.8, -0.6], 0.0, atol=1e-4)


def test_norms_cost_their_root_where_the_cone_is_tight():
    rng = np.random.default_rng(5)
    Q, whole = np.array([[2.0, 1.0], [1.0, 3.0]]), in_the_plane(lambda t, x, u, p: 2 * ca.norm_2(u))

    def running(t, x, u, p):
        return 3 * ca.sqrt(u.T @ ca.DM(Q) @ u + 1e-6) + x[0] * u[1] + ca.fabs(u[0])

    phase = replace(whole.phase, u_lower=(-4.0, -5.0), u_upper=(4.0, 5.0),
                    costs=(Cost("c", At.PATH, known.function(4, 2, running)),))
    new = split(known.problem(phase)).phase
    assert new.system.controls == ("a", "b", "a" + NEGATIVE_PART, "norm of a, b")
    assert new.u_lower == (0.0, -5.0, 0.0, 1e-3)
    cone = new.constraints[-1]
    for _ in range(20):
        x, u = rng.normal(size=4), rng.normal(size=2)
        size = np.sqrt(u @ Q @ u + 1e-6)
        w = [max(u[0], 0), u[1], max(-u[0], 0), size]
        assert float(new.costs[0].function(0, x, w, [])) == pytest.approx(float(phase.costs[0].function(0, x, u, [])), rel=1e-12)
        np.testing.assert_allclose(new.system.rate(0, x, w, []), phase.system.rate(0, x, u, []), rtol=1e-12)
        assert -1e-5 < float(cone.function(0, x, w, [])) <= 0  # short of the norm by half of what keeps the quotient finite
        assert float(cone.function(0, x, [*w[:3], 0.99 * size], [])) > 0
        assert float(cone.function(0, x, [*w[:3], 1.01 * size], [])) < 0


def test_bars_tell_what_sizes_may_fall_short_of_norms():
    problem = split(in_the_plane(lambda t, x, u, p: 7 * ca.norm_2(u), 2.0))
    motion = SimpleNamespace(problem=problem, parts=(), trajectory=SimpleNamespace(t=np.array([1.0, 4.0])))
    cone, short = problem.phase.constraints[-1].function, objective_shortfall(motion)
    least = 1.5 - short / (7 * 3)  # of a size beside a norm of 1.5: to the order of what is added, over the norm
    assert abs(float(cone(0, np.zeros(4), [0.9, 1.2, least], []))) < 1e-4 * short
    assert objective_shortfall(SimpleNamespace(problem=known.block_move(), parts=(), trajectory=motion.trajectory)) == 0.0


@pytest.mark.parametrize("cost", [
    lambda t, x, u, p: -ca.norm_2(u), lambda t, x, u, p: x[0] * ca.norm_2(u), lambda t, x, u, p: ca.norm_2(u)**2,
    lambda t, x, u, p: ca.sqrt(ca.sumsqr(u) + 1), lambda t, x, u, p: ca.sqrt(ca.sumsqr(u) + x[0]**2),
    lambda t, x, u, p: ca.sqrt(u[0] * u[1] + 1e-9), lambda t, x, u, p: ca.sqrt((u[0] - 1)**2 + u[1]**2)])
def test_other_roots_stay_as_they_are(cost):
    problem = in_the_plane(cost)
    assert split(problem) is problem
