"""The table of rules: each row has words and a budget and may be switched off; one more row is one more remedy."""

from dataclasses import replace

import casadi as ca
import control_problems as known
import numpy as np
import pytest
from uncertified import by_collocation

from ocp.app.files.load import load_text
from ocp.app.sentences import sentence
from ocp.certify import Tolerances
from ocp.errors import ProblemError
from ocp.methods import METHODS, solve, uncertified
from ocp.problem import INF, At, Constraint, Cost, Duration, Kind, Phase, Status
from ocp.strategy import programs, table, unsolved
from ocp.strategy.rule import Rule, Stage
from ocp.strategy.table import OPTIONAL, RULES
from ocp.transcription.collocation import CollocationOptions
from ocp.transcription.refine import policy
from ocp.transcription.refine.policy import POLICIES, Policy

#: Fuller's problem: the optimum switches ever faster, and its cost is tiny
FULLER = """
name: Fuller's problem
system: {states: {x: m, v: m/s}, controls: {u: m/s**2}, dynamics: {x: v, v: u}}
phase: {duration: 0.0127, start: {x: 1.0e-6, v: 0}, bounds: {u: [-1, 1]}, costs: [{name: off, running: "3.2e+6*x**2"}]}
"""
#: least cost over x^(5/2) from rest, by the ratio in which its switches follow each other (tests/ocp/gallery/test_tiny_sizes.py)
FULLER_VALUE = 0.7641


def fired(found):
    return [one.rule for one in found.strategy]


# ---- the rows ----------------------------------------------------------------------------------------------------------
def test_every_rule_has_a_name_of_its_own_words_and_a_stage():
    assert len({rule.name for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.name.isidentifier(), rule.name
        assert rule.name == rule.name.lower()
        assert rule.when, rule.name
        assert rule.does, rule.name
        assert rule.stages, rule.name
        assert set(rule.stages) <= set(Stage)
        assert rule.improves or rule.does.startswith("end") or rule.name == "error_bound", rule.name


def test_every_rule_that_goes_on_is_bounded():
    """By its own budget, or by guesses and passes that are used up (``test_loop`` tries that)."""
    assert all(rule.at_most is None or rule.at_most >= 1 for rule in RULES)
    by_itself = {rule.name for rule in RULES if rule.at_most is None and not rule.does.startswith("end")}
    assert by_itself == {"next_guess", "original_guess", "halve_intervals", "refine_mesh"}
    assert all(rule.at_most is not None for rule in RULES if Stage.ANSWER in rule.stages)


def test_rules_that_end_a_search_cannot_be_switched_off():
    assert tuple(rule.name for rule in RULES if rule.optional) == OPTIONAL
    ending = {rule.name for rule in RULES if rule.does.startswith("end")}
    assert ending & set(OPTIONAL) == {"locally_infeasible"}
    for stage in (Stage.UNSOLVED, Stage.SOLVED):
        assert any(stage in rule.stages and rule.name in ending for rule in RULES)


@pytest.mark.parametrize(("names", "words"), [
    (["rescal"], "did you mean 'rescale'"), (["next guess"], "did you mean 'next_guess'"), (["escape", "halve"], "'halve'"),
    (["interrupted"], "no rule named 'interrupted' may be switched off"), (["error_bound"], "known: better_controls")])
def test_what_is_no_optional_rule_is_refused_with_what_is_near(names, words):
    with pytest.raises(ProblemError, match=words) as refused:
        solve(known.block_move(), without=names)
    assert refused.value.where == "solve.strategy.without"


# ---- one rule less -----------------------------------------------------------------------------------------------------
def test_without_next_guess_the_first_guess_is_the_only_one():
    options = {"scheme": "hermite_simpson", "intervals": 10}
    whole = solve(known.centred_disc(), "collocation", options)
    assert whole.status is Status.CONVERGED
    assert "next_guess" in fired(whole)
    found = solve(known.centred_disc(), "collocation", options, without=["next_guess"])
    assert found.status is Status.NOT_A_NUMBER
    assert fired(found) == []


def test_without_rescale_the_solver_stops_before_the_optimum():
    problem = load_text(FULLER).problem
    whole, found = solve(problem), solve(problem, without=["rescale"])
    best = 3.2e6 * FULLER_VALUE * 1e-6**2.5
    assert whole.ok
    assert "rescale" in fired(whole)
    assert whole.objective == pytest.approx(best, rel=4e-3)
    assert "rescale" not in fired(found)
    assert not found.ok
    assert not found.certificate.stationarity.holds
    assert found.objective > 1.1 * best


def test_without_zero_order_hold_controls_stay_polynomial():
    found = solve(load_text(FULLER).problem, without=["zero_order_hold"])
    assert "zero_order_hold" not in fired(found)
    assert not found.ok
    assert found.options["controls"] == "auto"
    t = found.trajectory.t
    ends = found.trajectory.control(t[0] + np.array([0.1, 0.9]) * (t[1] - t[0]))
    assert ends[0] != ends[1]


def test_without_locally_infeasible_every_guess_is_tried_in_full(monkeypatch):
    """At the end the block shall be fast where it started, which its force does not allow."""
    phase = known.block_move().phase
    goal = Constraint("goal", At.FINAL, known.function(2, 1, lambda t, x, u, p: x[0]**2 + (x[1] - 1.9)**2), (-INF,), (0.2,))
    problem = known.problem(replace(phase, final=None, u_lower=(-2.0,), u_upper=(2.0,), constraints=(goal,)))
    options = CollocationOptions(scheme="hermite_simpson", intervals=40)
    sizes, own = [], programs.solve_program

    def counted(problem, method, options, *rest):
        sizes.append(options.intervals)
        return own(problem, method, options, *rest)

    monkeypatch.setattr(programs, "solve_program", counted)
    assert by_collocation(problem, options).ending.kind is Kind.LOCALLY_INFEASIBLE
    assert sizes.count(40) == 1
    sizes.clear()
    found = solve(problem, "collocation", options, without=["locally_infeasible"])
    assert found.status is Status.INFEASIBLE
    tried = next(one.data["guesses"] for one in found.findings if one.kind is Kind.GUESSES_FAILED)
    assert tried[0] == "given"
    assert sizes.count(40) == len(tried) > 5
    assert set(fired(found)) == {"next_guess"}


def test_without_escape_a_maximum_is_handed_back():
    problem, options = known.one_state("-u**2", "{u: [-1, 1]}"), {"intervals": 20}
    whole = solve(problem, "multiple_shooting", options)
    assert whole.objective == pytest.approx(-1.0, abs=1e-6)
    assert "escape" in fired(whole)
    found = solve(problem, "multiple_shooting", options, without=["escape", "better_controls", "other_starts"])
    assert "escape" not in fired(found)
    assert found.objective == pytest.approx(0.0, abs=1e-9)
    assert found.certificate.second_order.kind is Kind.MAXIMUM
    assert not found.ok


def test_without_finer_mesh_a_wide_error_bound_stays():
    """A speed limit along an arc of the move: 8 V^2 / (3 tau), tau = 3/2 (1 - 1/V)."""
    phase, V = known.block_move().phase, 1.3
    problem, tolerances = known.problem(replace(phase, x_upper=(INF, V))), Tolerances(objective_error=1e-6)
    best = 8 * V**2 / 3 / (1.5 * (1 - 1 / V))
    whole, found = (solve(problem, tolerances=tolerances, without=off) for off in ([], ["finer_mesh"]))
    assert whole.ok
    assert "finer_mesh" in fired(whole)
    assert abs(whole.objective - best) <= whole.certificate.error_bound + 1e-9
    assert "finer_mesh" not in fired(found)
    assert [one.kind for one in found.certificate.failures] == [Kind.OBJECTIVE_ERROR]


def failing(monkeypatch, *numbers):
    """The programs of these numbers, counted from 1, are not solved."""
    count, own = [], programs.solve_program

    def program(*given):
        count.append(None)
        found = own(*given)
        return replace(found, status=Status.STALLED) if len(count) in numbers else found

    monkeypatch.setattr(programs, "solve_program", program)


def passes(found):
    """Of all passes: intervals, and whether they were solved."""
    return [(one.data["intervals"], one.kind is Kind.PASS) for one in found.findings
            if one.kind in (Kind.PASS, Kind.PASS_NOT_SOLVED)]


def test_without_halve_intervals_a_first_mesh_that_fails_is_the_last(monkeypatch):
    options = {"scheme": "gauss", "intervals": 4, "refine": "hp"}
    failing(monkeypatch, 1)
    whole = solve(known.block_move(), "collocation", options)
    assert whole.objective == pytest.approx(12, abs=1e-9)
    assert passes(whole)[:2] == [(4, False), (8, True)]
    failing(monkeypatch, 1)
    found = solve(known.block_move(), "collocation", options, without=["halve_intervals"])
    assert found.status is Status.STALLED
    assert passes(found) == [(4, False)]


def test_without_original_guess_a_pass_that_began_at_the_last_one_is_halved(monkeypatch):
    options = {"scheme": "trapezoid", "intervals": 6, "refine": "h", "tolerance_mesh": 1e-3, "max_passes": 4}
    failing(monkeypatch, 2)
    whole = solve(known.block_move(), "collocation", options)
    assert fired(whole)[:2] == ["refine_mesh", "original_guess"]
    second = passes(whole)[1][0]
    assert passes(whole)[1:3] == [(second, False), (second, True)]
    failing(monkeypatch, 2)
    found = solve(known.block_move(), "collocation", options, without=["original_guess"])
    assert fired(found)[:2] == ["refine_mesh", "halve_intervals"]
    assert passes(found)[1:3] == [(second, False), (2 * second, True)]


# ---- one rule more -----------------------------------------------------------------------------------------------------
def mirrored():
    """The block move with a guess that runs the other way, where a path constraint is not a number; it never matters at the
    optimum, 12."""
    phase = known.block_move().phase
    root = Constraint("root", At.PATH, known.function(2, 1, lambda t, x, u, p: ca.sqrt(x[0] + 0.05)), (0.0,), (INF,))
    return known.problem(replace(phase, guess=known.line([0, 0], [-1, 0], 1), constraints=(root,)))


def not_finite(search, state):
    """That functions are not finite at the guess."""
    return unsolved.unsolved(search, state) if state.last.solution.status is Status.NOT_A_NUMBER else None


def mirror(search, state, why):
    """The guess with its sign flipped."""
    phase = state.task.problem.phase
    flipped = replace(phase, guess=replace(phase.guess, x=-phase.guess.x, u=-phase.guess.u))
    return replace(state, task=state.task.next(known.problem(flipped), warm=False))


def same_again(search, state, why):
    """A remedy that changes nothing."""
    return replace(state, task=state.task.next(state.task.problem, warm=False))


def added(monkeypatch, remedy, at_most):
    row = Rule("mirrored_guess", (Stage.UNSOLVED,), not_finite, remedy, "functions are not finite at the guess", "its mirror image",
               "the program", at_most)
    monkeypatch.setattr(table, "RULES", (row, *RULES))


@pytest.mark.parametrize("options", [{"scheme": "radau", "intervals": 8}, {"scheme": "gauss", "intervals": 5, "refine": "hp"}, {}])
def test_a_remedy_is_added_by_one_row(monkeypatch, options):
    options = {**options, "guess": "given"}
    before = solve(mirrored(), "collocation", options)
    assert before.status is Status.NOT_A_NUMBER
    added(monkeypatch, mirror, 1)
    found = solve(mirrored(), "collocation", options)
    assert found.ok, found.certificate.failures
    assert found.objective == pytest.approx(12, abs=1e-7)
    assert found.trajectory.control(0.25)[0] == pytest.approx(3, abs=1e-5)
    first = found.strategy[0]
    assert (first.rule, first.taken, first.programs) == ("mirrored_guess", True, 1)
    assert first.iterations > 0
    assert sentence(first.diagnosis) == "not solved: not a number"
    assert sum(row["iteration"] == 0 for row in found.iterations) == 1  # one log of both searches


def test_a_new_rule_serves_other_methods_too(monkeypatch):
    added(monkeypatch, mirror, 1)
    options = METHODS["multiple_shooting"].options_type()(intervals=40, controls="linear", guess="given")
    found = uncertified(mirrored(), "multiple_shooting", options)
    assert fired(found) == ["mirrored_guess", "certified"]
    assert found.objective == pytest.approx(12, abs=1e-6)


def test_a_new_rule_keeps_to_its_budget(monkeypatch):
    added(monkeypatch, same_again, 3)
    found = by_collocation(mirrored(), CollocationOptions(scheme="radau", intervals=8, guess="given"))
    assert found.status is Status.NOT_A_NUMBER
    assert fired(found).count("mirrored_guess") == 3


# ---- one policy more ---------------------------------------------------------------------------------------------------
def regulator():
    """x' = u from 1, min int x^2 + u^2 over 1 s: tanh(1) by the Riccati equation."""
    system = known.flat_system("integrator", ("x",), ("u",), lambda t, x, u, p: u)
    cost = Cost("both", At.PATH, known.function(1, 1, lambda t, x, u, p: x[0]**2 + u[0]**2))
    return known.problem(Phase("regulator", system, Duration(1.0, 1.0, 1.0), known.line([1], [0.5], 1), known.fixed(1),
                               costs=(cost,)))


@pytest.mark.parametrize(("problem", "best"), [(known.block_move(), 12.0), (regulator(), np.tanh(1.0))], ids=["block", "regulator"])
def test_a_refinement_policy_is_added_by_one_row(monkeypatch, problem, best):
    """Degrees rise everywhere and never fall, from two Gauss points in an interval."""
    with pytest.raises(ProblemError, match="refine"):
        CollocationOptions(scheme="gauss", refine="degrees")
    monkeypatch.setitem(policy.POLICIES, "degrees", Policy(raises="all", failures=0))
    assert "degrees" in POLICIES
    found = solve(problem, "collocation", {"scheme": "gauss", "degree": 2, "intervals": 2, "refine": "degrees"})
    assert found.ok, found.certificate.failures
    assert found.objective == pytest.approx(best, abs=1e-8)
    rows = [dict(zip(found.extra["refinement_columns"], row, strict=True)) for row in found.extra["refinement"]]
    assert [row["intervals"] for row in rows] == [2] * len(rows)
    degrees = [row["lowest degree"] for row in rows]
    assert degrees == sorted(degrees)
    assert degrees[0] == 2
    assert degrees[-1] > 3
    assert rows[0]["error"] > 1e-6 >= rows[-1]["error"]


def test_a_policy_decides_when_other_guesses_are_tried(monkeypatch):
    """``failures``: after how many passes that failed the cascade of guesses begins."""
    for allowed in (0, 1, 2):
        monkeypatch.setitem(policy.POLICIES, "patient", replace(POLICIES["hp"], failures=allowed))
        failing(monkeypatch, 1, 2, 3)
        found = solve(known.block_move(), "collocation", {"scheme": "gauss", "intervals": 2, "refine": "patient"})
        assert found.objective == pytest.approx(12, abs=1e-9)
        assert fired(found)[:3] == ["halve_intervals"] * allowed + ["next_guess"] * (3 - allowed)
