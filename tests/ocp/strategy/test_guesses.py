"""The cascade of guesses: it ends where no guess can help, and goes on where one can."""

from dataclasses import replace

import control_problems as known
import numpy as np
import pytest
from uncertified import by_collocation

from ocp.app.sentences import message
from ocp.guesses.perturbed import perturbed
from ocp.methods import solve
from ocp.problem import At, Constraint, Kind, Status
from ocp.strategy import programs
from ocp.strategy.direct import left_over
from ocp.thresholds import GUESSES
from ocp.transcription.collocation import CollocationOptions

INF = float("inf")


def goal_at(nearness):
    """The block shall be fast where it started: out of reach of its force, which no look at bounds alone tells."""
    phase = known.block_move().phase
    goal = Constraint("goal", At.FINAL, known.function(2, 1, lambda t, x, u, p: x[0]**2 + (x[1] - 1.9)**2), (-INF,), (nearness,))
    return known.problem(replace(phase, final=None, u_lower=(-2.0,), u_upper=(2.0,), constraints=(goal,)))


def counting(monkeypatch):
    """The sizes and statuses of all programs that are solved."""
    import ocp.transcription.direct as direct
    seen, once = [], direct._solved

    def counted(nlp, *rest):
        found = once(nlp, *rest)
        seen.append((nlp.n, found.status))
        return found

    monkeypatch.setattr(direct, "_solved", counted)
    return seen


def scripted(monkeypatch, answer):
    """Programs are answered by ``answer(problem, options)`` in the place of a solver."""
    monkeypatch.setattr(programs, "solve_program", lambda problem, method, options, *rest: answer(problem, options))


@pytest.mark.parametrize("options", [{"scheme": "hermite_simpson", "intervals": 40}, {}])
def test_what_is_not_possible_ends_after_probes_on_few_intervals(monkeypatch, options):
    seen = counting(monkeypatch)
    found = solve(goal_at(0.2), "collocation", options)  # the least is 0.45
    assert found.status is Status.INFEASIBLE
    assert message(found).startswith("Most violated: goal @ final: 0.")
    assert found.ending.kind is Kind.LOCALLY_INFEASIBLE
    assert (found.ending.data["intervals"], found.ending.data["guesses"]) == (8, GUESSES.seeds)
    assert [one.rule for one in found.strategy] == ["locally_infeasible"]
    assert len(seen) == 2 + GUESSES.seeds
    assert all(n < seen[0][0] / 2 for n, _ in seen[1:])
    assert solve(goal_at(1.0), "collocation", options).ok


def test_another_guess_is_tried_where_a_probe_violates_less(monkeypatch):
    problem = known.block_move()
    good = by_collocation(problem, CollocationOptions(scheme="hermite_simpson", intervals=10, guess="given"))
    stuck = replace(good, status=Status.INFEASIBLE, optimality=replace(good.optimality, x=np.zeros_like(good.optimality.x)))
    sizes = [GUESSES.first_perturbation * GUESSES.perturbation_growth**k for k in range(GUESSES.seeds)]
    far = [np.max(np.abs(perturbed(problem, k, size).phase.guess.x - [[0.0, 0.0]])) for k, size in enumerate(sizes)]
    tried = []

    def attempt(given, options):
        """A solver that ends where it violates the program, but from the guess that lies farthest off."""
        tried.append(np.max(np.abs(given.phase.guess.x)))
        return good if len(given.phase.guess.s) > 2 and tried[-1] == max(far) else stuck

    scripted(monkeypatch, attempt)
    found = by_collocation(problem, CollocationOptions(intervals=40, scheme="hermite_simpson"))
    assert found.status is Status.CONVERGED
    assert found.freeze["guess"] == f"multistart {int(np.argmax(far))}"
    assert len(tried) > 2 + GUESSES.seeds  # all probes, then the cascade
    served = [one for one in found.findings if one.kind is Kind.GUESS_SERVED]
    assert [one.name for one in served] == [found.freeze["guess"]]
    assert set(served[0].data["failed"].values()) == {"INFEASIBLE"}
    assert next(iter(served[0].data["failed"])) == "given"


def test_an_interrupted_cascade_hands_back_the_attempt_that_misses_least(monkeypatch):
    problem = goal_at(0.2)
    first = by_collocation(problem, CollocationOptions(scheme="hermite_simpson", intervals=10, guess="given"))
    worse = replace(first, status=Status.INTERRUPTED, optimality=replace(first.optimality, x=first.optimality.x + 1.0))
    answers = iter([replace(first, status=Status.ITERATION_LIMIT), worse, worse])
    scripted(monkeypatch, lambda given, options: next(answers))
    found = by_collocation(problem, CollocationOptions(intervals=10))
    assert found.status is Status.INTERRUPTED
    assert left_over(found) == left_over(first)


def test_a_guess_on_a_singular_point_is_left():
    """The gradient of the distance from the centre of the disc is a number everywhere but there."""
    found = by_collocation(known.centred_disc(), CollocationOptions(scheme="hermite_simpson", intervals=10))
    assert found.status is Status.CONVERGED
    assert found.freeze["guess"].startswith("multistart")
    assert [one.data["failed"] for one in found.findings if one.kind is Kind.GUESS_SERVED] == [{"given": "NOT_A_NUMBER"}]
    alone = by_collocation(known.centred_disc(), CollocationOptions(scheme="hermite_simpson", intervals=10, guess="given"))
    assert alone.status is Status.NOT_A_NUMBER
