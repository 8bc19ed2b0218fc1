"""Solves that go wrong: the right status, words that name the thing, and the last good iterate."""

import re
from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from control_problems import bang_bang, block_move
from control_problems import cart_pole as constrained_cart_pole
from direct_problems import with_phase
from plain_shooting import of_solution
from shooting_problems import cart_pole, function, make, options

from ocp.problem import INF, At, Boundary, Constraint, Duration, Finding, Guess, Kind, Status
from ocp.shooting.ilqr import ILQROptions, solve
from ocp.spaces import euclidean

WAYS = ("single", "open", "feasible", "multiple")


def scalar(rate, start=1.0, duration=2.0, running=lambda t, x, u: x**2 + u**2, **more):
    return make("scalar", euclidean(("level",)), ("pump",), rate, (start,), duration, running=[("cost", running, None)], **more)


# ---- numbers that are none
@pytest.mark.parametrize("shooting", ["single", "open"])
def test_nan_of_the_dynamics_at_the_guess_is_located(shooting):
    problem = scalar(lambda t, x, u: -ca.sqrt(x - 0.5) - 0.1 + u)
    solution = solve(problem, options(intervals=20, integrator="euler", shooting=shooting))
    assert solution.status is Status.NOT_A_NUMBER
    assert (solution.ending.kind, solution.ending.name) == (Kind.STATE_NOT_FINITE, "level")
    assert np.isnan(solution.ending.value)
    assert 0 <= solution.ending.time < 2
    assert not np.isfinite(solution.objective)


@pytest.mark.parametrize("shooting", ["feasible", "multiple"])
def test_nan_of_the_dynamics_at_a_guess_of_the_states(shooting):
    """The states of the guess are finite; the step from one of them is not."""
    problem = scalar(lambda t, x, u: ca.sqrt(x) + u)
    guess = Guess(np.array([0.0, 0.5, 1.0]), np.array([[1.0], [0.5], [-1.0]]), np.zeros((3, 1)))
    solution = solve(with_phase(problem, guess=guess), options(intervals=8, integrator="euler", shooting=shooting))
    assert solution.status is Status.NOT_A_NUMBER
    assert (solution.ending.kind, solution.ending.name) == (Kind.STATE_NOT_FINITE, "level")
    assert solution.ending.time == pytest.approx(1.5)  # the first knot with a negative level
    assert solution.ending.data["from"] == {"level": pytest.approx(-0.25)}


def test_nan_of_the_cost_and_of_derivatives_are_distinguished():
    solution = solve(scalar(lambda t, x, u: u, running=lambda t, x, u: ca.log(x - 2)), options(intervals=5))
    assert solution.status is Status.NOT_A_NUMBER
    assert solution.ending.kind is Kind.RUNNING_COST_NOT_FINITE
    solution = solve(scalar(lambda t, x, u: u, start=0.0, running=lambda t, x, u: ca.sqrt(x) + u**2), options(intervals=5))
    assert solution.status is Status.NOT_A_NUMBER
    assert solution.ending == Finding(Kind.COST_DERIVATIVE_NOT_FINITE, time=0.0, value=np.inf, data={"by": "level"})
    solution = solve(scalar(lambda t, x, u: u, final=[("end", lambda t, x, u: ca.log(x - 5), None)]), options(intervals=5))
    assert solution.ending.kind is Kind.FINAL_COST_NOT_FINITE
    solution = solve(scalar(lambda t, x, u: ca.sqrt(u), running=lambda t, x, u: x**2 + (u - 1)**2), options(intervals=5))
    assert solution.ending == Finding(
        Kind.DYNAMICS_DERIVATIVE_NOT_FINITE, component="level", time=0.0, value=np.inf, data={"by": "pump"})
    # with a root in the state and in the curvature only
    bent = scalar(lambda t, x, u: ca.sin(u), start=0.0, running=lambda t, x, u: ca.fabs(x) ** 1.5 + u**2, u_guess=[[0.0], [0.0]])
    solution = solve(bent, options(intervals=5, hessian="full"))
    assert solution.ending.kind is Kind.COST_HESSIAN_NOT_FINITE
    assert solution.ending.data == {"by": ("level", "level"), "controls": False}


def test_nan_later_is_avoided_and_the_last_iterate_is_good():
    """The logarithm ends at -0.2: steps beyond are refused, the answer is on the good side."""
    problem = scalar(lambda t, x, u: u, running=lambda t, x, u: 0.01 * u**2 + x - 1e-3 * ca.log(x + 0.2))
    solution = solve(problem, options(intervals=20))
    assert solution.status is Status.CONVERGED, solution.ending
    assert solution.trajectory.x.min() > -0.2
    assert any(row["trials"] > 1 for row in solution.iterations)
    assert of_solution(solution).cost == pytest.approx(solution.objective, rel=1e-12)


def test_a_derivative_that_breaks_on_the_way_leaves_a_finite_iterate():
    """fabs(x - 0.5)^1.5-like kinks: the exact Hessian is infinite on the line that the optimum sits on."""
    problem = scalar(lambda t, x, u: u, start=0.0, duration=1.0, running=lambda t, x, u: u**2,
                     final=[("kink", lambda t, x, u: ca.sqrt(ca.fabs(x - 0.5)), None)])
    solution = solve(problem, options(intervals=10))
    assert solution.status in (Status.CONVERGED, Status.STALLED, Status.ITERATION_LIMIT, Status.NOT_A_NUMBER)
    assert solution.status is not Status.CONVERGED or solution.optimality.residuals()[0] < 1e-6
    assert np.isfinite(solution.objective)
    assert np.isfinite(solution.trajectory.x).all()
    assert solution.objective <= solution.iterations[0]["cost"]


def test_constraints_that_are_not_finite_are_named():
    t, x, u, p = ca.SX.sym("t"), ca.SX.sym("x", 2), ca.SX.sym("u", 1), ca.SX.sym("p", 0)
    for build, kind in ((ca.log(x[0] - 5), Kind.PATH_CONSTRAINT_NOT_FINITE),
                        (ca.sqrt(x[0]), Kind.CONSTRAINT_DERIVATIVE_NOT_FINITE)):
        bad = Constraint("bad", At.FINAL, ca.Function("c", [t, x, u, p], [build]), (0.5,), (0.5,))
        found = solve(with_phase(block_move(), constraints=(bad,)), options(intervals=10))
        assert found.status is Status.NOT_A_NUMBER
        assert (found.ending.kind, found.ending.name, found.ending.time) == (kind, "bad", 1.0)
        assert found.ending.data.get("by") == ("x" if kind is Kind.CONSTRAINT_DERIVATIVE_NOT_FINITE else None)


# ---- growth
@pytest.mark.parametrize("shooting", ["single", "open"])
def test_an_exploding_guess_is_reported_as_divergence(shooting):
    solution = solve(scalar(lambda t, x, u: x**3 + u, start=3.0), options(intervals=50, shooting=shooting))
    assert solution.status is Status.DIVERGED
    assert (solution.ending.kind, solution.ending.name) == (Kind.STATE_TOO_LARGE, "level")


def test_diverging_trial_steps_are_survived():
    """x' = x^3 + u explodes for moderately wrong controls; the search must back off instead of failing."""
    solution = solve(scalar(lambda t, x, u: x**3 + u, start=0.9, duration=1.5, u_guess=[[-1.0], [-1.0]],
                            final=[("end", lambda t, x, u: x - 1.5, (1000.0,))]), options(intervals=60))
    assert solution.status is Status.CONVERGED, solution.ending
    assert solution.trajectory.x[-1, 0] == pytest.approx(1.5, abs=0.02)


@pytest.mark.parametrize("shooting", WAYS)
def test_a_cost_without_a_minimum_does_not_converge(shooting):
    """-x^4 of an integrator: the more control the better, beyond all bounds."""
    problem = scalar(lambda t, x, u: u, running=lambda t, x, u: u**2 - x**4)
    solution = solve(problem, options(intervals=10, shooting=shooting, max_iterations=60))
    assert solution.status in (Status.STALLED, Status.DIVERGED, Status.ITERATION_LIMIT), solution.ending
    assert solution.ending is not None
    assert np.isfinite(solution.objective)
    assert solution.objective < 0


def test_a_cost_without_curvature_stalls_in_words():
    solution = solve(scalar(lambda t, x, u: u, running=lambda t, x, u: -u**2 + x), options(intervals=5))
    assert solution.status in (Status.STALLED, Status.DIVERGED, Status.ITERATION_LIMIT)
    assert solution.ending is not None
    bounded = solve(scalar(lambda t, x, u: u, running=lambda t, x, u: x, u_max=1.0), options(intervals=5))
    np.testing.assert_allclose(bounded.trajectory.u, -1.0)  # linear: bang, once regularised


def test_a_singular_control_hessian_is_regularised_away():
    """One of two controls has no effect and no cost: the other is optimal all the same, this one stays where it was."""
    problem = make("two", euclidean(("q", "v")), ("push", "idle"), lambda t, x, u: ca.vertcat(x[1], u[0]), (1.0, 0.0), 2.0,
                   running=[("all", lambda t, x, u: ca.vertcat(x, u[0]), (1.0, 1.0, 0.1))], u_guess=[[0.3, 0.7], [0.3, 0.7]])
    solution = solve(problem, options(intervals=20))
    assert solution.status is Status.CONVERGED, solution.ending
    np.testing.assert_array_equal(solution.trajectory.u[:, 1], 0.7)
    alone = make("one", euclidean(("q", "v")), ("push",), lambda t, x, u: ca.vertcat(x[1], u[0]), (1.0, 0.0), 2.0,
                 running=[("all", lambda t, x, u: ca.vertcat(x, u[0]), (1.0, 1.0, 0.1))])
    assert solution.objective == pytest.approx(solve(alone, options(intervals=20)).objective, rel=1e-9)


# ---- constraints that contradict each other
def violated(found):
    """The row that is violated most where a search ended."""
    return found.ending.data.get("constraint", found.ending.name)


@pytest.mark.parametrize("shooting", ["single", "multiple"])
def test_infeasible_constraints_are_named(shooting):
    wall = Constraint("wall", At.FINAL, function(2, 1, lambda t, x, u: x[0]), (-INF,), (0.5,))
    found = solve(with_phase(block_move(), constraints=(wall,)), options(intervals=20, penalty_max=1e6, shooting=shooting))
    assert found.status in (Status.INFEASIBLE, Status.STALLED), found.ending
    assert re.search("wall|final x", violated(found))  # the two that contradict each other
    assert 0.5 - 1e-3 < found.trajectory.x[-1, 0] < 1 + 1e-3  # a compromise
    assert np.isfinite(found.objective)


def test_a_search_that_cannot_move_is_not_called_infeasible():
    """Only full steps and no regularisation to speak of: stuck at once. No penalty says that nothing could help."""
    alone = solve(constrained_cart_pole(), options(intervals=40, step_min=0.9, regularisation_max=1e-6, hessian="full",
                                                   retry="never", polish="never"))
    assert alone.status is Status.STALLED, alone.ending
    assert alone.ending.kind in (Kind.NO_DECREASE, Kind.HESSIAN_INDEFINITE)
    assert alone.iterations[-1]["violation"] > 0.1
    assert alone.iterations[-1]["penalty"] < 1e6


def test_open_rollouts_of_a_bang_bang_problem():
    found = solve(bang_bang(), options(intervals=20, shooting="open", hessian="full"))
    assert found.status is Status.CONVERGED, found.ending
    assert found.objective == pytest.approx(2.0, rel=1e-6)


def test_a_goal_out_of_reach_of_the_bounds_is_infeasible_in_words():
    base = block_move()
    slow = with_phase(base, u_lower=(-1.0,), u_upper=(1.0,))  # u = 1, then -1, moves it by 1/4 in one second
    found = solve(slow, options(intervals=20, penalty_max=1e6))
    assert found.status in (Status.INFEASIBLE, Status.STALLED), found.ending
    assert "final" in violated(found)
    assert found.trajectory.x[-1, 0] < 0.5
    assert np.abs(found.trajectory.u).max() <= 1.0


def test_a_free_duration_too_short_for_its_bounds_is_infeasible():
    base = block_move()
    phase = base.phase
    hurried = with_phase(base, duration=Duration(0.5, 1.5, 1.0), u_lower=(-1.0,), u_upper=(1.0,))  # two seconds are needed
    found = solve(hurried, options(intervals=20, penalty_max=1e6))
    assert found.status in (Status.INFEASIBLE, Status.STALLED), found.ending
    assert "final" in violated(found)
    assert found.trajectory.t[-1] == pytest.approx(1.5, abs=1e-6)  # as long as it may be
    assert phase.duration.guess == 1.0


# ---- interruption and limits
@pytest.mark.parametrize(("shooting", "when"), [("single", 1), ("single", 6), ("multiple", 12)])
def test_interrupt_hands_back_the_best_iterate(shooting, when):
    seen = []

    def progress(row):
        seen.append(row)
        if len(seen) == when:
            raise KeyboardInterrupt

    solution = solve(cart_pole(), ILQROptions(shooting=shooting), progress)
    assert solution.status is Status.INTERRUPTED
    assert [dict(r) for r in seen] == [dict(r) for r in solution.iterations[:len(seen)]]  # a batch may be under way
    assert len(solution.iterations) < when + 20
    assert solution.objective == pytest.approx(solution.iterations[-1]["cost"], rel=1e-14)
    assert solution.optimality.cost() == pytest.approx(solution.objective, rel=1e-12)
    if shooting == "single":
        assert solution.objective == pytest.approx(min(row["cost"] for row in solution.iterations), rel=1e-14)
        assert of_solution(solution).cost == pytest.approx(solution.objective, rel=1e-12)
    assert solution.ending.kind is Kind.SEARCH_INTERRUPTED
    assert solution.ending.data["iterations"] == len(solution.iterations) - 1


def test_interrupt_between_updates_of_multipliers():
    count = []

    def progress(row):
        count.append(row)
        if row["violation"] < 1e-2 and row["iteration"] > 1:
            raise KeyboardInterrupt

    base = block_move()
    problem = with_phase(base, u_lower=(-5.0,), u_upper=(5.0,))
    solution = solve(problem, options(intervals=20), progress)
    assert solution.status is Status.INTERRUPTED
    assert np.isfinite(solution.objective)
    assert solution.objective == pytest.approx(solution.iterations[-1]["cost"], rel=1e-14)


def test_iteration_limit_and_a_stationary_guess():
    solution = solve(cart_pole(), ILQROptions(max_iterations=3))
    assert solution.status is Status.ITERATION_LIMIT
    assert [r["iteration"] for r in solution.iterations] == [0, 1, 2, 3]
    resting = make("rest", euclidean(("q",)), ("u",), lambda t, x, u: u, (0.0,), 1.0,
                   running=[("all", lambda t, x, u: ca.vertcat(x, u), (1.0, 1.0))])
    solution = solve(resting)
    assert solution.status is Status.CONVERGED
    assert Kind.GUESS_STATIONARY in [one.kind for one in solution.findings]


def test_a_start_outside_its_bounds_is_moved_or_named():
    """A free start component takes its bounds as a control does; a prescribed one is not looked at."""
    base = make("rest", euclidean(("q", "v")), ("u",), lambda t, x, u: ca.vertcat(x[1], u), (3.0, 0.0), 1.0,
                running=[("all", lambda t, x, u: ca.vertcat(x - ca.DM([4.0, 0.0]), u), (1.0, 1.0, 1.0))])
    phase = base.phase
    free = replace(base, phases=(replace(phase, start=Boundary((3.0, 0.0), (False, True)), x_upper=(2.0, INF)),))
    found = solve(free, options(intervals=10))
    assert found.status is Status.CONVERGED, found.ending
    assert found.trajectory.x[0, 0] == pytest.approx(2.0, abs=1e-9)
    assert found.trajectory.x[:, 0].max() < 2.0 + 1e-6
