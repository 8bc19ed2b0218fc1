"""The ladder of guesses: it ends where no start can help, and climbs where one can."""

from dataclasses import replace

import casadi as ca
import control_problems as known
import numpy as np
import pytest

from ocp.guess import perturbed
from ocp.methods import solve
from ocp.problem import At, Boundary, Constraint, Cost, Duration, Guess, Phase, Status
from ocp.transcription import ladder
from ocp.transcription.collocation import CollocationOptions
from ocp.transcription.collocation import solve as collocate

INF = float("inf")


def goal_at(nearness):
    """The block shall be fast where it started: out of reach of its force, which no look at bounds alone tells."""
    phase = known.block_move().phase
    goal = Constraint("goal", At.FINAL, known.function(2, 1, lambda t, x, u, p: x[0]**2 + (x[1] - 1.9)**2), (-INF,), (nearness,))
    return known.problem(replace(phase, final=None, u_lower=(-2.0,), u_upper=(2.0,), constraints=(goal,)))


def counting(monkeypatch):
    """The statuses of all programs that are solved."""
    import ocp.transcription.direct as direct
    seen, once = [], direct._solved

    def counted(nlp, *rest):
        found = once(nlp, *rest)
        seen.append((nlp.n, found.status))
        return found

    monkeypatch.setattr(direct, "_solved", counted)
    return seen


@pytest.mark.parametrize("options", [{"scheme": "hermite_simpson", "intervals": 40}, {}])
def test_what_is_not_possible_ends_after_scouts_on_few_intervals(monkeypatch, options):
    seen = counting(monkeypatch)
    found = solve(goal_at(0.2), "collocation", options)  # the least is 0.45
    assert found.status is Status.INFEASIBLE
    assert found.message.startswith("Most violated: goal @ final: 0.")
    assert [note for note in found.notes if note.startswith("guess: given; no other was tried")]
    assert len(seen) == 2 + ladder.STARTS
    assert all(n < seen[0][0] / 2 for n, _ in seen[1:])
    assert solve(goal_at(1.0), "collocation", options).ok


def test_another_start_is_tried_where_a_scout_violates_less(monkeypatch):
    problem = known.block_move()
    good = collocate(problem, CollocationOptions(scheme="hermite_simpson", intervals=10, guess="given"))
    stuck = replace(good, status=Status.INFEASIBLE, optimality=replace(good.optimality, x=np.zeros_like(good.optimality.x)))
    far = [np.max(np.abs(perturbed(problem, k, ladder.SIZE * ladder.GROWTH**k).phase.guess.x - [[0.0, 0.0]]))
           for k in range(ladder.STARTS)]
    tried = []

    def attempt(given, options):
        """A solver that ends where it violates the program, but from the guess that lies farthest off."""
        tried.append(np.max(np.abs(given.phase.guess.x)))
        return good if len(given.phase.guess.s) > 2 and tried[-1] == max(far) else stuck

    found = ladder.climb(problem, CollocationOptions(intervals=40, scheme="hermite_simpson"), attempt)
    assert found.status is Status.CONVERGED
    assert found.freeze["guess"] == f"multistart {int(np.argmax(far))}"
    assert len(tried) > 2 + ladder.STARTS  # all scouts, then the rungs


def test_an_interrupted_climb_hands_back_the_start_that_misses_least():
    problem = goal_at(0.2)
    first = collocate(problem, CollocationOptions(scheme="hermite_simpson", intervals=10, guess="given"))
    worse = replace(first, status=Status.INTERRUPTED, optimality=replace(first.optimality, x=first.optimality.x + 1.0))
    answers = iter([replace(first, status=Status.ITERATION_LIMIT), worse, worse])
    found = ladder.climb(problem, CollocationOptions(intervals=10), lambda given, options: next(answers))
    assert found.status is Status.INTERRUPTED
    assert ladder.left_over(found) == ladder.left_over(first)


def test_a_guess_on_a_singular_point_is_left():
    """A disc whose centre the guess meets: the gradient of the distance is not a number there, and everywhere else it is."""
    system = known.flat_system("point", ("x", "y"), ("u", "w"), lambda t, x, u, p: u)
    clear = Constraint("disc", At.PATH, known.function(2, 2, lambda t, x, u, p: ca.norm_2(x - ca.DM([0.5, 0.0]))), (0.2,), (INF,))
    effort = Cost("effort", At.PATH, known.function(2, 2, lambda t, x, u, p: ca.sumsqr(u)))
    both = (True, True)
    guess = Guess(np.array([0.0, 1.0]), np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([[1.0, 0.0], [1.0, 0.0]]))
    phase = Phase("phase", system, Duration(1.0, 1.0, 1.0), guess, Boundary((0.0, 0.0), both), Boundary((1.0, 0.0), both),
                  costs=(effort,), constraints=(clear,))
    found = collocate(known.problem(phase), CollocationOptions(scheme="hermite_simpson", intervals=10))
    assert found.status is Status.CONVERGED
    assert found.freeze["guess"].startswith("multistart")
    assert any("not a number" in note for note in found.notes)
    alone = collocate(known.problem(phase), CollocationOptions(scheme="hermite_simpson", intervals=10, guess="given"))
    assert alone.status is Status.NOT_A_NUMBER
