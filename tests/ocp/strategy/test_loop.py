"""The loop that every method runs through, by methods that answer from a script: it ends, keeps to budgets, and loses nothing."""

from collections import Counter
from dataclasses import replace

import control_problems as known
import numpy as np
import pytest
from made_solutions import certificate

from ocp.guesses.table import perturbations
from ocp.problem import SOLVED, Finding, Kind, Solution, Status, Trajectory
from ocp.strategy import loop, table, unsolved
from ocp.strategy.collocation import Collocation, searching
from ocp.strategy.loop import concluded, searched
from ocp.strategy.records import Attempt, Judged, State, Task
from ocp.strategy.rule import Rule, Stage
from ocp.strategy.search import Method, Refining, Search
from ocp.strategy.table import RULES
from ocp.transcription.collocation import CollocationOptions
from ocp.transcription.refine.criteria import Verdict
from ocp.transcription.refine.error import Estimate, PhaseErrors
from ocp.transcription.refine.margins import Margins

PROBLEM = known.block_move()
UNSOLVED = tuple(status for status in Status if status not in SOLVED)
#: rows in the log of every attempt, and passes at most
ROWS, PASSES = 3, 6


def motion(t):
    t = np.asarray(t, float)
    return np.stack([3 * t**2 - 2 * t**3, 6 * t - 6 * t**2], axis=-1)


def force(t):
    return (6 - 12 * np.asarray(t, float))[..., None]


def made(status, objective=12.0, **more):
    """A solution of the block move that ended so."""
    t = np.linspace(0, 1, 5)
    rows = tuple({"iteration": k, "objective": objective} for k in range(ROWS))
    return replace(Solution(PROBLEM, "scripted", {}, status, objective, Trajectory(t, motion(t), force(t), t, motion, force),
                            rows, {"solve": 0.1}), **more)


def judged(found, task, error):
    """What is known of a pass whose intervals all have this error."""
    (plan,) = task.plans
    n, zeros = plan.intervals, np.zeros(plan.intervals)
    errors = PhaseErrors(np.full(n, error), zeros, zeros, zeros, error, np.full(n, 2.0), np.zeros(n, bool), ("x",) * n)
    estimate = Estimate((errors,), 0.0)
    verdict = Verdict(found, (errors,), (Margins.none(n, 2, 0),), estimate.finding(PROBLEM), error)
    row = (float(task.number), float(n), 3.0, 3.0, 10.0, found.objective, error, error, 0.0, 0.1)
    return Judged(estimate, verdict, row, None, (), (), (np.zeros(0),) * 4)


class Scripted(Method):
    """Attempts end as the script says, the last entry for ever: a status, (status, what is missed), the error of a pass that is
    solved, a solution, or KeyboardInterrupt. nothing: guesses that have nothing to offer."""

    name = "scripted"

    def __init__(self, *script, nothing=()):
        self.script, self.nothing, self.tasks = script, nothing, []

    def attempt(self, search, state):
        task, entry = state.task, self.script[min(len(self.tasks), len(self.script) - 1)]
        self.tasks.append(task)
        number = len(self.tasks)
        if entry is KeyboardInterrupt:
            raise KeyboardInterrupt
        if isinstance(entry, Solution):
            return Attempt(task, entry)
        if isinstance(entry, float):
            found = made(Status.CONVERGED, 12 + 1 / number)
            return Attempt(task, found, judged=judged(found, task, entry))
        status, missed = entry if isinstance(entry, tuple) else (entry, 1.0)
        return Attempt(task, made(status, 12 + 1 / number), (0.0 if status in SOLVED else missed,))

    def restarted(self, search, problem, **changes):
        pytest.fail("a script goes on")

    def on_finer_mesh(self, search, problem, found):
        pytest.fail("a script has one mesh")

    def started(self, search, task, guess):
        return None if guess in self.nothing else search.problem


def given(method, guesses=("given",), **more):
    """A search on a given mesh, from these guesses."""
    search = Search(PROBLEM, method, CollocationOptions(intervals=10), guesses, **more)
    return search, State(Task(PROBLEM, guess=guesses[0], left=guesses[1:], begun=0))


def refining(method, **more):
    """A search that refines its mesh, by an error estimate."""
    options = CollocationOptions(scheme="gauss", intervals=4, refine="hp", max_passes=PASSES)
    search, state = searching(PROBLEM, options)
    return replace(search, method=method, **more), state


def ruled(monkeypatch, *rules):
    monkeypatch.setattr(table, "RULES", rules)


def rule(name, remedy, stages=(Stage.UNSOLVED,), diagnose=lambda search, state: Finding(Kind.NO_RULE_LEFT), **more):
    return Rule(name, stages, diagnose, remedy, "always", "something", **more)


def again(search, state, why):
    return replace(state, task=state.task.next(PROBLEM, warm=False))


def fired(found):
    return [one.rule for one in found.strategy]


# ---- on a given mesh ---------------------------------------------------------------------------------------------------
def test_a_program_that_is_solved_ends_the_search():
    method = Scripted(Status.CONVERGED)
    found = searched(*given(method, ("given", "dynamics")))
    assert (found.status, len(method.tasks), fired(found)) == (Status.CONVERGED, 1, ["certified"])
    assert found.ending is None
    assert [row["iteration"] for row in found.iterations] == list(range(ROWS))


def test_guesses_are_tried_in_their_order_and_those_with_nothing_to_offer_are_left_out():
    method = Scripted(Status.STALLED, Status.INFEASIBLE, Status.CONVERGED, nothing=("simulated",))
    found = searched(*given(method, ("given", "dynamics", "simulated", "coarse 8", "other")))
    assert [task.guess for task in method.tasks] == ["given", "dynamics", "coarse 8"]
    assert found.status is Status.CONVERGED
    (served,) = [one for one in found.findings if one.kind is Kind.GUESS_SERVED]
    assert (served.name, served.data["failed"]) == ("coarse 8", {"given": "STALLED", "dynamics": "INFEASIBLE"})
    assert fired(found) == ["next_guess", "next_guess", "certified"]
    assert [row["iteration"] for row in found.iterations] == list(range(3 * ROWS))
    assert [(one.programs, one.iterations) for one in found.strategy] == [(1, ROWS), (1, ROWS), (0, 0)]


def test_where_no_guess_serves_the_attempt_that_misses_least_is_handed_back():
    method = Scripted((Status.STALLED, 3.0), (Status.INFEASIBLE, 0.5), (Status.ITERATION_LIMIT, 2.0))
    found = searched(*given(method, ("given", "dynamics", "simulated")))
    assert len(method.tasks) == 3
    assert found.status is Status.INFEASIBLE
    assert found.objective == 12 + 1 / 2
    assert [one.data["guesses"] for one in found.findings] == [("given", "dynamics", "simulated")]
    assert len(found.iterations) == 3 * ROWS  # of all of them


@pytest.mark.parametrize("status", UNSOLVED)
def test_every_status_ends_a_search(status):
    guesses = ("given", "dynamics", "simulated")
    method = Scripted((status, 1.0))
    found = searched(*given(method, guesses))
    assert found.status is status
    assert len(method.tasks) == (1 if status is Status.INTERRUPTED else len(guesses))


# ---- tables that are made up -------------------------------------------------------------------------------------------
def test_a_rule_keeps_to_its_budget_and_the_next_one_is_asked(monkeypatch):
    ruled(monkeypatch, rule("first", again, at_most=2), rule("second", again, at_most=3))
    method = Scripted(Status.STALLED)
    found = searched(*given(method))
    assert fired(found) == ["first"] * 2 + ["second"] * 3
    assert [task.number for task in method.tasks] == [1, 2, 3, 4, 5, 6]
    assert all((one.taken, one.programs, one.iterations) == (True, 1, ROWS) for one in found.strategy)
    assert found.status is Status.STALLED


def test_a_remedy_that_came_to_nothing_is_not_asked_again(monkeypatch):
    asked = Counter()

    def nothing(search, state, why):
        asked["remedy"] += 1

    def diagnose(search, state):
        asked["diagnosis"] += 1
        return Finding(Kind.HARD_PROGRAM, data={"status": "STALLED"})

    ruled(monkeypatch, rule("nothing", nothing, diagnose=diagnose), rule("again", again, at_most=4))
    found = searched(*given(Scripted(Status.STALLED)))
    assert asked == {"remedy": 1, "diagnosis": 1}
    assert fired(found) == ["nothing"] + ["again"] * 4
    assert [one.taken for one in found.strategy] == [False] + [True] * 4
    assert found.strategy[0].diagnosis.kind is Kind.HARD_PROGRAM


def test_the_first_rule_with_a_diagnosis_decides(monkeypatch):
    never = rule("never", again, diagnose=lambda search, state: None)
    other = rule("other", lambda *given: pytest.fail("its turn never comes"))
    ruled(monkeypatch, never, rule("again", again, at_most=1), rule("end", lambda search, state, why: state.ended(why)), other)
    assert fired(searched(*given(Scripted(Status.STALLED)))) == ["again", "end"]


def test_rules_are_asked_at_their_stage(monkeypatch):
    """After programs that were solved, that were not, and once the search has ended, where an answer may still come."""
    better = made(Status.CONVERGED, 5.0)
    ruled(monkeypatch,
          rule("unsolved", again, at_most=2),
          rule("solved", again, (Stage.SOLVED,), at_most=1),
          rule("end", lambda search, state, why: state.ended(why), (Stage.SOLVED,)),
          rule("ended", lambda search, state, why: replace(state, answer=better), (Stage.ENDED,)),
          rule("answer", lambda *given: pytest.fail("nobody concludes"), (Stage.ANSWER,)))
    found = searched(*given(Scripted(Status.STALLED, Status.CONVERGED, Status.STALLED, Status.CONVERGED)))
    assert fired(found) == ["unsolved", "solved", "unsolved", "end", "ended"]
    assert found.objective == 5.0


def test_rules_that_are_switched_off_or_for_meshes_alone_are_left_out(monkeypatch):
    ruled(monkeypatch, rule("off", again), rule("meshes", again, refines=True), rule("again", again, at_most=1))
    assert fired(searched(*given(Scripted(Status.STALLED), without=frozenset({"off"})))) == ["again"]


# ---- on meshes that are refined ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("status", UNSOLVED)
def test_a_refinement_of_which_no_program_is_solved_ends(status):
    method = Scripted((status, 1.0))
    search, state = refining(method)
    found = searched(search, state)
    assert found.status is status
    assert len(method.tasks) <= PASSES + len(search.guesses)
    assert max(task.number for task in method.tasks) <= PASSES


@pytest.mark.parametrize("more", [{"max_passes": 4}, {"max_passes": 2, "brief": True}])
def test_all_guesses_of_the_cascade_are_one_pass(more):
    """Neither the last pass nor a search that ends at the first failure cuts it short."""
    method = Scripted(Status.STALLED)
    search, state = refining(method, guesses=("given", "dynamics", "simulated"), brief=more.get("brief", False))
    search = replace(search, refinement=replace(search.refinement, max_passes=more["max_passes"]))
    if search.brief:  # it begins with the cascade
        state = State(replace(state.task, left=search.guesses[1:], begun=0))
    searched(search, state)
    before = [] if search.brief else ["given"] * 3
    assert [task.guess for task in method.tasks] == [*before, *search.guesses[not search.brief:]]
    assert [task.number for task in method.tasks][len(before):] == [1 if search.brief else 4] * (3 if search.brief else 2)


def test_a_guess_that_was_chosen_is_the_only_one_and_comes_again_after_passes_that_failed():
    method = Scripted(1e-3, Status.STALLED)
    searched(*refining(method, guesses=("dynamics",)))
    assert [(task.guess, task.warm) for task in method.tasks] == [
        ("given", False), ("given", True), ("given", False), ("given", False), ("dynamics", False)]


@pytest.mark.parametrize("seed", range(40))
def test_whatever_comes_a_refinement_ends_within_its_budgets(seed):
    """Any programs may fail in any way, errors may be of any size."""
    rng = np.random.default_rng(seed)
    script = [float(10 ** rng.uniform(-8, -3)) if rng.random() < 0.6 else (UNSOLVED[rng.integers(len(UNSOLVED))], rng.random())
              for _ in range(60)]
    method = Scripted(*script)
    search, state = refining(method, without=frozenset(name for name in ("next_guess", "original_guess") if rng.random() < 0.2))
    found = searched(search, state)
    assert len(method.tasks) <= PASSES + len(search.guesses)
    assert max(task.number for task in method.tasks) <= PASSES
    count = Counter(fired(found))
    assert all(row.at_most is None or count[row.name] <= row.at_most for row in RULES)
    assert not count.keys() & search.without
    solved = [k for k, entry in enumerate(script[:len(method.tasks)]) if isinstance(entry, float)]
    if solved:  # the last pass that was solved
        assert found.objective == 12 + 1 / (solved[-1] + 1)
    else:
        assert found.status in UNSOLVED
    assert [row["iteration"] for row in found.iterations] == list(range(ROWS * len(method.tasks)))
    assert len(found.extra["refinement"]) == len(solved)


def test_errors_within_their_tolerance_end_a_refinement():
    method = Scripted(1e-3, 1e-5, 1e-9)
    found = searched(*refining(method))
    assert (found.status, len(method.tasks)) == (Status.CONVERGED, 3)
    assert fired(found) == ["refine_mesh", "refine_mesh", "accurate"]
    assert [row["pass"] for row in found.iterations] == [1.0] * ROWS + [2.0] * ROWS + [3.0] * ROWS


@pytest.mark.parametrize("stop", [KeyboardInterrupt, Status.INTERRUPTED])
def test_an_interrupt_hands_back_the_last_pass(stop):
    method = Scripted(1e-3, 1e-4, stop)
    found = searched(*refining(method))
    assert found.status is Status.INTERRUPTED
    assert (found.ending.kind, found.ending.data["pass"]) == (Kind.LAST_PASS_RETURNED, 2)
    assert found.objective == 12 + 1 / 2
    assert len(found.extra["refinement"]) == 2
    assert len(method.tasks) == 3


@pytest.mark.parametrize("search", [given, refining])
def test_an_interrupt_before_anything_was_solved_goes_through(search):
    with pytest.raises(KeyboardInterrupt):
        searched(*search(Scripted(KeyboardInterrupt)))


@pytest.mark.parametrize(("guesses", "nothing"), [(("given",), ()), (("given", "dynamics"), ("given", "dynamics")),
                                                  (("given", "dynamics"), ())])
@pytest.mark.parametrize("without", [(), ("original_guess",)])
def test_a_mesh_that_fails_after_others_hands_back_the_last_pass_and_says_so(guesses, nothing, without):
    """Also where no guess is left, or those that are have nothing to offer."""
    method = Scripted(1e-3, Status.STALLED, nothing=nothing)
    found = searched(*refining(method, guesses=guesses, without=frozenset(without)))
    assert found.status is Status.STALLED
    assert found.ending.kind is Kind.REFINED_MESH_NOT_SOLVED
    assert found.objective == 13.0


# ---- diagnoses by themselves -------------------------------------------------------------------------------------------
ALL = ("given", "dynamics", *perturbations())


@pytest.mark.parametrize(("status", "rows", "guesses", "beside", "final"), [
    (Status.NOT_A_NUMBER, 1, ALL, None, False),  # perturbed guesses may be finite
    (Status.NOT_A_NUMBER, 1, ("given",), None, True),
    (Status.NOT_A_NUMBER, 1, perturbations(), None, True),  # this is what was asked for
    (Status.NOT_A_NUMBER, 5, ALL, None, True),
    (Status.NOT_A_NUMBER, 5, ALL, 0, False),  # from a perturbed guess: the next one
    (Status.UNBOUNDED, 5, ALL, None, True),
    (Status.STALLED, 5, ALL, None, False),
    (Status.INFEASIBLE, 5, ALL, None, False)])
def test_what_no_other_guess_mends(status, rows, guesses, beside, final):
    options = CollocationOptions(intervals=10)
    search, task = Search(PROBLEM, Collocation(options), options, guesses), Task(PROBLEM, begun=0, beside=beside)
    found = made(status, iterations=tuple({"iteration": k} for k in range(rows)))
    state = State(task, (Attempt(task, found, (1.0,)),))
    assert search.method.final(search, state) is final
    assert (unsolved.without_remedy(search, state) is not None) is final


def test_where_the_guess_is_not_finite_only_perturbed_ones_are_tried():
    method = Scripted(made(Status.NOT_A_NUMBER, iterations=({"iteration": 0},)), Status.STALLED, Status.CONVERGED)
    found = searched(*given(method, ALL))
    assert [task.guess for task in method.tasks] == ["given", *perturbations()[:2]]
    assert found.status is Status.CONVERGED
    lost = Scripted(made(Status.NOT_A_NUMBER, iterations=({"iteration": 0},)), Status.STALLED)
    assert searched(*given(lost, ALL)).status is Status.NOT_A_NUMBER  # the first attempt, where none of them serves
    assert len(lost.tasks) == 1 + len(perturbations())


@pytest.mark.parametrize(("hessian", "missed", "beside", "ends"), [
    ("limited_memory", 1e-9, None, True), ("limited_memory", 1e-2, None, False), ("exact", 1e-9, None, False),
    ("limited_memory", 1e-9, 0, False)])
def test_a_quasi_newton_method_that_stalls_at_a_feasible_point_needs_no_guess(hessian, missed, beside, ends):
    options = CollocationOptions(intervals=10, hessian=hessian)
    search, task = Search(PROBLEM, Scripted(), options, ALL), Task(PROBLEM, begun=0, beside=beside)
    state = State(task, (Attempt(task, made(Status.STALLED), (missed,)),))
    assert (unsolved.quasi_newton_stalled(search, state) is not None) is ends


# ---- another parameterisation of the controls --------------------------------------------------------------------------
def certified(objective):
    return made(Status.CONVERGED, objective, certificate=certificate())


class Held(Scripted):
    """A search with zero-order hold whose pass has a certificate that holds, or none."""

    def attempt(self, search, state):
        attempt = super().attempt(search, state)
        found = certified(7.0) if self.script[0] == 1e-9 else attempt.solution
        return replace(attempt, solution=found, judged=judged(found, state.task, self.script[0]))


class Chattering(Scripted, Refining):
    """Programs with polynomial controls are hard; ``held`` is the error of passes with zero-order hold."""

    def __init__(self, *script, held):
        super().__init__(*script)
        self.held, self.holds = held, 0

    def zero_order_hold(self, search, problem, outside, *, early, cascade):
        self.holds += 1
        assert early
        return refining(Held(self.held), outside=outside)

    def on_arcs(self, search, task, problem, plans, meshes):
        pytest.fail("nothing jumps")

    def gauss_nodes(self, search, problem, outside):
        pytest.fail("nothing jumps")


def test_zero_order_hold_serves_where_its_certificate_holds():
    method = Chattering(Status.ITERATION_LIMIT, held=1e-9)
    found = searched(*refining(method, alternative=True))
    assert (found.objective, method.holds, len(method.tasks)) == (7.0, 1, 1)
    assert fired(found) == ["zero_order_hold", "accurate"]
    assert [one.data["early"] for one in found.findings if one.kind is Kind.ZERO_ORDER_HOLD] == [True]
    assert [row["iteration"] for row in found.iterations] == list(range(2 * ROWS))
    assert [row["pass"] for row in found.iterations] == [1.0] * 2 * ROWS


def test_zero_order_hold_that_does_not_serve_is_not_tried_again():
    method = Chattering(Status.ITERATION_LIMIT, Status.STALLED, 1e-3, Status.ITERATION_LIMIT, 1e-9, held=1e-3)
    found = searched(*refining(method, alternative=True))
    assert (found.status, method.holds) == (Status.CONVERGED, 1)
    assert [one.taken for one in found.strategy if one.rule == "zero_order_hold"] == [False]
    assert fired(found) == ["zero_order_hold", "halve_intervals", "halve_intervals", "refine_mesh", "next_guess", "accurate"]


# ---- once there is an answer -------------------------------------------------------------------------------------------
def test_an_answer_is_improved_until_no_rule_has_a_better_one(monkeypatch):
    def lower(search, state, why):
        return replace(state, answer=replace(state.answer, objective=state.answer.objective - 1))

    asked = []
    monkeypatch.setattr(loop, "ringing", lambda found: ())
    ruled(monkeypatch, rule("nothing", lambda *given: asked.append(1), (Stage.ANSWER,)),
          rule("lower", lower, (Stage.ANSWER,), at_most=2),
          rule("end", lambda *given: pytest.fail("the search is over"), (Stage.SOLVED, Stage.UNSOLVED, Stage.ENDED)))
    search, _ = given(Scripted(Status.CONVERGED))
    found = concluded(search, replace(certified(12.0), strategy=()))
    assert found.objective == 10.0
    assert fired(found) == ["nothing", "lower", "lower"]
    assert asked == [1]
    assert found.ok
