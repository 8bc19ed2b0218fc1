"""Further attempts of a search that fails: which, in what order, what is told, what is handed back."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from constrained_problems import PROBLEMS, start_guess, with_guess
from control_problems import block_move
from plain_shooting import of_solution, with_phase

from ocp.errors import ProblemError
from ocp.problem import INF, At, Boundary, Constraint, Guess, Status
from ocp.shooting.attempts import ways
from ocp.shooting.ilqr import ILQROptions, prepare, run, solve


def pendulum(seed, kind="line"):
    c = PROBLEMS["pendulum_speed"]()
    return with_guess(c.problem, start_guess(c, seed, kind)), dict(c.options)


def quiet(**more):
    return ILQROptions(**{"kernels": "interpreted", **more})


FAILS = {"shooting": "feasible", "tolerance": 1e-6, "constraint_tolerance": 1e-7, "penalty": 20.0}


def test_another_attempt_succeeds_where_the_first_ends_in_a_local_minimum_of_the_violation():
    problem, cut = pendulum(15)
    alone = solve(problem, quiet(**cut, **FAILS, retry="never"))
    assert alone.status is Status.INFEASIBLE
    assert not any("attempt" in note for note in alone.notes)
    assert not any("attempt" in row for row in alone.iterations)
    rows = []
    found = solve(problem, quiet(**cut, **FAILS), rows.append)
    assert found.status is Status.CONVERGED, found.ending
    assert max(found.optimality.residuals()) < 1e-5
    assert of_solution(found).cost == pytest.approx(found.objective, rel=1e-7)
    np.testing.assert_allclose(found.trajectory.x[-1], [np.pi, 0], atol=1e-6)
    # told: notes and rows
    told = [note for note in found.notes if note.startswith("attempt ")]
    assert told[0].startswith("attempt 1 (as asked): infeasible, the largest violation stays at ")
    assert told[1].startswith("attempt 2 (a straight line of states from the start to the final state): ")
    assert "converged" in told[-1]
    assert [row["iteration"] for row in found.iterations] == list(range(len(found.iterations)))
    numbers = [row.get("attempt", 1.0) for row in found.iterations]
    assert numbers == sorted(numbers)
    assert set(numbers) == {float(k + 1) for k in range(len(told))}
    assert [dict(row) for row in rows] == [dict(row) for row in found.iterations]
    seconds = [row["seconds"] for row in found.iterations]
    assert seconds == sorted(seconds)
    # the first attempt is the same as without others
    first = [row for row in found.iterations if "attempt" not in row]
    assert [row["cost"] for row in first] == [row["cost"] for row in alone.iterations[:len(first)]]


def test_a_first_attempt_that_succeeds_is_all():
    problem, cut = pendulum(0)
    found = solve(problem, quiet(**cut, **FAILS))
    assert found.status is Status.CONVERGED
    assert not any("attempt" in note for note in found.notes)
    assert not any("attempt" in row for row in found.iterations)


def contradiction():
    """The block must end at 1 and stay below 0.5."""
    t, x, u, p = ca.SX.sym("t"), ca.SX.sym("x", 2), ca.SX.sym("u", 1), ca.SX.sym("p", 0)
    wall = Constraint("wall", At.FINAL, ca.Function("c", [t, x, u, p], [x[0]]), (-INF,), (0.5,))
    return with_phase(block_move(), constraints=(wall,))


@pytest.mark.parametrize("shooting", ["single", "feasible"])
def test_the_failure_that_misses_least_is_handed_back(shooting):
    rows = []
    found = solve(contradiction(), quiet(intervals=20, penalty_max=1e6, shooting=shooting), rows.append)
    assert found.status in (Status.INFEASIBLE, Status.STALLED)
    told = [note for note in found.notes if note.startswith("attempt ")]
    assert len(told) >= 2
    last = {}
    for row in found.iterations:
        last[int(row.get("attempt", 1))] = row
    assert len(last) == len(told)
    best = min(last, key=lambda k: (max(last[k]["violation"], last[k].get("gap", 0.0)), last[k]["cost"]))
    assert found.notes[found.notes.index(told[-1]) + 1] == (
        f"no attempt succeeded; this is the result of attempt {best}, which misses least")
    assert found.objective == pytest.approx(last[best]["cost"], rel=1e-12)
    assert of_solution(found).cost == pytest.approx(found.objective, rel=1e-9)
    # what is missed at one end is saved at the other: nothing misses both by less than 0.25
    assert abs(found.trajectory.x[-1, 0] - 0.75) == pytest.approx(last[best]["violation"] - 0.25, abs=1e-6)
    assert "K" in found.extra


def test_ways_by_options_and_problem():
    problem, cut = pendulum(1)

    def of(given=problem, **more):
        program = prepare(given, quiet(**cut, **more))
        return [(one.shooting, one.line) for one in ways(program.horizon, given.phases, program.options)]

    assert of(shooting="feasible") == [("feasible", False), ("feasible", True), ("single", False)]
    assert of(shooting="multiple") == [("multiple", False), ("feasible", True), ("single", False)]
    assert of(shooting="single") == [("single", False), ("feasible", True), ("feasible", False)]
    assert of(shooting="feasible", retry="never") == [("feasible", False)]
    assert of(shooting="feasible", max_iterations=100) == [("feasible", False)]
    still = with_phase(problem, guess=Guess(np.array([0.0, 1.0]), np.zeros((2, 2)), np.zeros((2, 1))))
    assert of(still, shooting="single") == [("single", False), ("feasible", True)]
    open_end = with_phase(problem, final=None)
    assert of(open_end, shooting="feasible") == [("feasible", False), ("single", False)]
    nothing_hard = with_phase(open_end, x_lower=(), x_upper=())
    assert of(nothing_hard, shooting="single") == [("single", False)]
    with pytest.raises(ProblemError, match="retry"):
        ILQROptions(retry="alway")


def test_the_line_ends_where_the_final_state_is_prescribed_and_else_where_the_guess_ends():
    from ocp.shooting.guess import write_guess

    problem, cut = pendulum(1)
    half = with_phase(problem, final=Boundary((2.0, 5.0), (True, False)))
    program = prepare(half, quiet(**cut))
    path = program.store.path
    given, _ = write_guess(program.horizon, replace(program.options, shooting="feasible"), path, half.phases, line=True)
    assert given
    start, end = np.array(half.phase.start.value), np.array([2.0, half.phase.guess.x[-1, 1]])
    s = np.linspace(0, 1, cut["intervals"] + 1)[:, None]
    np.testing.assert_allclose(path.x, start + s * (end - start), atol=1e-14)


def test_an_attempt_that_does_not_halve_its_violation_is_given_up():
    """Against a wall of constraints no descent of the cost helps: not all 500 iterations are spent on the first attempt."""
    c = PROBLEMS["quadrotor_waypoint"]()
    guess = start_guess(c, 2, "still")
    found = solve(with_guess(c.problem, guess), quiet(**c.options, **FAILS | {"shooting": "single"}, hessian="gauss_newton"))
    first = [row for row in found.iterations if "attempt" not in row]
    missed = np.array([row["violation"] for row in first])
    marks = [0]
    for k, value in enumerate(missed):
        if value <= 0.5 * missed[marks[-1]]:
            marks.append(k)
    assert len(first) - 1 - marks[-1] <= 150


def test_interrupted_attempts_are_told_and_resumed(tmp_path):
    problem, cut = pendulum(15)
    kept = []

    def stop(row):
        if row.get("attempt", 1.0) == 2.0 and row["step"] > 0:
            raise KeyboardInterrupt

    options = quiet(**cut, **FAILS)
    part = solve(problem, options, stop, kept.append)
    assert part.status in (Status.INTERRUPTED, Status.INFEASIBLE)
    assert any("attempt 2" in note for note in part.notes)
    found = kept[-1]
    on = solve(problem, options, resume=found)
    assert on.status is Status.CONVERGED, on.ending
    assert len(on.iterations) > len(part.iterations)
    assert [row["iteration"] for row in on.iterations] == list(range(len(on.iterations)))


def test_a_prepared_problem_takes_other_guesses():
    problem, cut = pendulum(0)
    program = prepare(problem, quiet(**cut, **FAILS))
    first = run(program)
    c = PROBLEMS["pendulum_speed"]()
    guess = start_guess(c, 4, "line")
    other = run(program, guess=guess)
    alone = solve(with_guess(problem, guess), quiet(**cut, **FAILS))
    np.testing.assert_array_equal(other.trajectory.u, alone.trajectory.u)
    assert other.problem.phase.guess is guess
    assert [row["cost"] for row in other.iterations] == [row["cost"] for row in alone.iterations]
    assert other.iterations[0]["cost"] != first.iterations[0]["cost"]
    np.testing.assert_array_equal(run(program).trajectory.u, first.trajectory.u)  # and forgets them
    with pytest.raises(ProblemError, match="x of shape"):
        run(program, guess=replace(guess, x=guess.x[:, :1]))
    with pytest.raises(ProblemError, match="2 guesses for 1 phases"):
        run(program, guess=[guess, guess])
