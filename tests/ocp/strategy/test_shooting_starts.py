"""Further starts of iLQR after a search that fails: which, in what order, what is found, what is handed back."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from constrained_problems import PROBLEMS, start_guess, with_guess
from control_problems import block_move
from direct_problems import with_phase
from plain_shooting import of_solution
from scipy.integrate import solve_ivp
from shooting_problems import function, held, options
from uncertified import by_ilqr

from dynamics.forces import Expression
from dynamics.model.synthetic import serial_chain
from ocp.bridge import robot_system
from ocp.errors import ProblemError
from ocp.guesses.inverse_dynamics import inverse_dynamics_motion
from ocp.guesses.table import Start, starts
from ocp.problem import INF, At, Boundary, Constraint, Cost, Guess, Kind, Phase, Problem, Status
from ocp.shooting.ilqr import ILQROptions, prepare, run, shot, solve
from ocp.shooting.options import Tuning
from ocp.strategy.loop import searched
from ocp.strategy.shooting import searching_prepared
from ocp.thresholds import GUESSES


def pendulum(seed, kind="line"):
    c = PROBLEMS["pendulum_speed"]()
    return with_guess(c.problem, start_guess(c, seed, kind)), dict(c.options)


def of_kind(kind, found):
    return [one for one in found.findings if one.kind is kind]


FAILS = {"shooting": "feasible", "tolerance": 1e-6, "constraint_tolerance": 1e-7, "penalty": 20.0}


def test_another_start_succeeds_where_the_first_ends_in_a_local_minimum_of_the_violation():
    problem, cut = pendulum(15)
    alone = by_ilqr(problem, options(**cut, **FAILS, retry="never"))
    assert alone.status is Status.INFEASIBLE
    assert not of_kind(Kind.GUESS_SERVED, alone)
    assert not of_kind(Kind.GUESSES_FAILED, alone)
    assert not any("attempt" in row for row in alone.iterations)
    rows = []
    found = by_ilqr(problem, options(**cut, **FAILS), rows.append)
    assert found.status is Status.CONVERGED, found.ending
    assert max(found.optimality.residuals()) < 1e-5
    assert of_solution(found).cost == pytest.approx(found.objective, rel=1e-7)
    np.testing.assert_allclose(found.trajectory.x[-1], [np.pi, 0], atol=1e-6)
    # findings, rules that fired, and rows
    (served,) = of_kind(Kind.GUESS_SERVED, found)
    names = [*served.data["failed"], served.name]
    assert names == ["given", "straight line", "controls alone"][:len(names)]
    assert served.data["failed"]["given"] == "INFEASIBLE"
    fired = [one for one in found.strategy if one.rule == "next_guess"]
    assert [one.diagnosis.data["guess"] for one in fired] == names[:-1]
    assert sum(one.iterations for one in fired) == sum("attempt" in row for row in found.iterations)
    assert [row["iteration"] for row in found.iterations] == list(range(len(found.iterations)))
    numbers = [row.get("attempt", 1.0) for row in found.iterations]
    assert numbers == sorted(numbers)
    assert set(numbers) == {float(k + 1) for k in range(len(names))}
    assert [dict(row) for row in rows] == [dict(row) for row in found.iterations]
    seconds = [row["seconds"] for row in found.iterations]
    assert seconds == sorted(seconds)
    assert found.seconds["solve"] >= seconds[-1]  # of all searches
    # the first search is the same as without others
    first = [row for row in found.iterations if "attempt" not in row]
    assert [row["cost"] for row in first] == [row["cost"] for row in alone.iterations[:len(first)]]


def test_a_first_start_that_succeeds_is_all():
    problem, cut = pendulum(0)
    found = by_ilqr(problem, options(**cut, **FAILS))
    assert found.status is Status.CONVERGED
    assert not of_kind(Kind.GUESS_SERVED, found)
    assert not any("attempt" in row for row in found.iterations)


def contradiction():
    """The block must end at 1 and stay below 0.5."""
    t, x, u, p = ca.SX.sym("t"), ca.SX.sym("x", 2), ca.SX.sym("u", 1), ca.SX.sym("p", 0)
    wall = Constraint("wall", At.FINAL, ca.Function("c", [t, x, u, p], [x[0]]), (-INF,), (0.5,))
    return with_phase(block_move(), constraints=(wall,))


@pytest.mark.parametrize("shooting", ["single", "feasible"])
def test_the_failure_that_misses_least_is_handed_back(shooting):
    kept = []
    found = by_ilqr(contradiction(), options(intervals=20, penalty_max=1e6, shooting=shooting), checkpoint=kept.append)
    assert found.status in (Status.INFEASIBLE, Status.STALLED)
    (failed,) = of_kind(Kind.GUESSES_FAILED, found)
    assert len(failed.data["guesses"]) >= 2
    last = {}
    for row in found.iterations:
        last[int(row.get("attempt", 1))] = row
    assert len(last) == len(failed.data["guesses"])
    best = min(last, key=lambda k: (max(last[k]["violation"], last[k].get("gap", 0.0)), last[k]["cost"]))
    assert found.objective == pytest.approx(last[best]["cost"], rel=1e-12)
    assert kept[-1]["attempt"] == best  # and from there a solve goes on
    assert kept[-1]["cost"] == pytest.approx(found.objective, rel=1e-12)
    assert len(kept[-1]["log"]) == len(found.iterations)
    assert of_solution(found).cost == pytest.approx(found.objective, rel=1e-9)
    # what is missed at one end is saved at the other: nothing misses both by less than 0.25
    assert abs(found.trajectory.x[-1, 0] - 0.75) == pytest.approx(last[best]["violation"] - 0.25, abs=1e-6)
    assert "K" in found.extra


def test_starts_by_options_and_problem():
    problem, cut = pendulum(1)

    def of(given=problem, **more):
        program = prepare(given, options(**cut, **more))
        return [(one.shooting, one.states) for one in starts(given.phases, program.options.shooting, program.retries)]

    assert of(shooting="feasible") == [("feasible", ""), ("feasible", "line"), ("single", "")]
    assert of(shooting="multiple") == [("multiple", ""), ("feasible", "line"), ("single", "")]
    assert of(shooting="single") == [("single", ""), ("feasible", "line"), ("feasible", "")]
    assert of(shooting="feasible", retry="never") == [("feasible", "")]
    assert of(shooting="feasible", max_iterations=100) == [("feasible", "")]
    still = with_phase(problem, guess=Guess(np.array([0.0, 1.0]), np.zeros((2, 2)), np.zeros((2, 1))))
    assert of(still, shooting="single") == [("single", ""), ("feasible", "line")]
    open_end = with_phase(problem, final=None)
    assert of(open_end, shooting="feasible") == [("feasible", ""), ("single", "")]
    nothing_hard = with_phase(open_end, x_lower=(), x_upper=())
    assert of(nothing_hard, shooting="single") == [("single", "")]
    with pytest.raises(ProblemError, match="retry"):
        ILQROptions(tuning=Tuning(retry="alway"))


def test_the_line_ends_where_the_final_state_is_prescribed_and_else_where_the_guess_ends():
    from ocp.shooting.written_guess import write_guess

    problem, cut = pendulum(1)
    half = with_phase(problem, final=Boundary((2.0, 5.0), (True, False)))
    program = prepare(half, options(**cut))
    path = program.store.path
    given, _ = write_guess(program.horizon, replace(program.options, shooting="feasible"), path, half.phases, "line")
    assert given
    start, end = np.array(half.phase.start.value), np.array([2.0, half.phase.guess.x[-1, 1]])
    s = np.linspace(0, 1, cut["intervals"] + 1)[:, None]
    np.testing.assert_allclose(path.x, start + s * (end - start), atol=1e-14)


def falling(duration=3.0, kind="prismatic", stiffness=400.0):
    """Two links from rest to rest, whose joints are pushed away from zero: left alone they leave it exponentially."""
    model = serial_chain(2, kind=kind)
    q, v = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv)
    push = Expression("push", ca.Function("push", [q, v], [stiffness * q]))
    system, end = robot_system(model, forces=(push,)), (0.3, -0.2, 0.0, 0.0)
    guess = Guess(np.array([0.0, 1.0]), np.array([np.zeros(4), end]), np.zeros((2, 2)))
    efforts = Cost("effort", At.PATH, function(4, 2, lambda t, x, u: ca.sumsqr(u)))
    return Problem("falling", (Phase("", system, held(duration), guess, Boundary((0.0,) * 4, (True,) * 4),
                                     Boundary(end, (True,) * 4), costs=(efforts,)),))


@pytest.mark.parametrize("kind", ["revolute", "prismatic"])
def test_the_motion_of_inverse_dynamics_obeys_the_equations_of_motion(kind):
    """Within an interval efforts are held at their middle, which misses velocities by the cube of its length."""
    phase, misses = falling(0.5, kind, 4.0).phase, []
    for count in (80, 160):
        x, u = inverse_dynamics_motion(phase, count)
        h = 0.5 / count
        ends = [solve_ivp(lambda t, x, u=one: phase.system.rate(t, x, u, []).full().ravel(), (0, h), at, rtol=1e-10, atol=1e-12)
                .y[:, -1] for at, one in zip(x[:-1], u, strict=True)]
        misses.append(np.max(np.abs(np.array(ends) - x[1:])))
    np.testing.assert_allclose(x[[0, -1]], phase.guess.x, atol=1e-14)
    assert misses[0] / misses[1] == pytest.approx(8.0, rel=0.15)


def test_where_a_rollout_runs_away_its_motion_is_what_the_search_starts_from():
    found = by_ilqr(falling(), options())
    alone = by_ilqr(falling(), options(retry="never"))
    assert alone.status is Status.DIVERGED
    assert not np.isfinite(alone.objective)
    assert shot(prepare(falling(), options()))[1] == (np.inf, np.inf)  # whatever else is found misses less
    assert found.status is Status.CONVERGED, found.ending
    (served,) = of_kind(Kind.GUESS_SERVED, found)
    assert served.name == "motion of inverse dynamics"
    assert served.data["failed"] == {"given": "DIVERGED"}
    np.testing.assert_allclose(found.trajectory.x[-1], [0.3, -0.2, 0, 0], atol=1e-6)
    first, stiff = ([row["penalty"] for row in log if "penalty" in row][0] for log in (
        found.iterations, shot(prepare(falling(), options()), start=Start("as asked", "feasible", "motion"))[0].iterations))
    assert first == pytest.approx(GUESSES.motion_penalties * stiff)
    assert of_solution(found).cost == pytest.approx(found.objective, rel=1e-7)


def test_a_search_that_does_not_halve_its_violation_is_given_up():
    """Against a wall of constraints no descent of the cost helps: not all 500 iterations are spent on the first start."""
    c = PROBLEMS["quadrotor_waypoint"]()
    guess = start_guess(c, 2, "still")
    found = by_ilqr(with_guess(c.problem, guess), options(**c.options, **FAILS | {"shooting": "single"}, hessian="gauss_newton"))
    first = [row for row in found.iterations if "attempt" not in row]
    missed = np.array([row["violation"] for row in first])
    marks = [0]
    for k, value in enumerate(missed):
        if value <= 0.5 * missed[marks[-1]]:
            marks.append(k)
    assert len(first) - 1 - marks[-1] <= 150


def test_an_interrupted_search_from_another_start_is_resumed():
    problem, cut = pendulum(15)
    kept = []

    def stop(row):
        if row.get("attempt", 1.0) == 2.0 and row["step"] > 0:
            raise KeyboardInterrupt

    settings = options(**cut, **FAILS)
    part = by_ilqr(problem, settings, stop, kept.append)
    assert part.status is Status.INTERRUPTED
    assert part.iterations[-1]["attempt"] == 2
    found = kept[-1]
    on = by_ilqr(problem, settings, resume=found)
    assert on.status is Status.CONVERGED, on.ending
    assert len(on.iterations) > len(part.iterations)
    assert [row["iteration"] for row in on.iterations] == list(range(len(on.iterations)))


def test_a_prepared_problem_takes_other_guesses():
    problem, cut = pendulum(0)
    program = prepare(problem, options(**cut, **FAILS))
    first = run(program)
    c = PROBLEMS["pendulum_speed"]()
    guess = start_guess(c, 4, "line")
    other = run(program, guess=guess)
    alone = solve(with_guess(problem, guess), options(**cut, **FAILS))
    np.testing.assert_array_equal(other.trajectory.u, alone.trajectory.u)
    assert other.problem.phase.guess is guess
    assert [row["cost"] for row in other.iterations] == [row["cost"] for row in alone.iterations]
    assert other.iterations[0]["cost"] != first.iterations[0]["cost"]
    np.testing.assert_array_equal(run(program).trajectory.u, first.trajectory.u)  # and forgets them
    with pytest.raises(ProblemError, match="x of shape"):
        run(program, guess=replace(guess, x=guess.x[:, :1]))
    with pytest.raises(ProblemError, match="2 guesses for 1 phases"):
        run(program, guess=[guess, guess])


def test_a_prepared_problem_is_searched_from_another_guess_and_its_further_starts():
    (easy, cut), (hard, _) = pendulum(0), pendulum(15)
    program, guess = prepare(easy, options(**cut, **FAILS)), hard.phase.guess
    found, alone = searched(*searching_prepared(program, guess=guess)), by_ilqr(hard, options(**cut, **FAILS))
    assert [one.name for one in of_kind(Kind.GUESS_SERVED, found)] == [one.name for one in of_kind(Kind.GUESS_SERVED, alone)]
    assert of_kind(Kind.GUESS_SERVED, found)
    assert [row["cost"] for row in found.iterations] == [row["cost"] for row in alone.iterations]
    np.testing.assert_array_equal(found.trajectory.u, alone.trajectory.u)
