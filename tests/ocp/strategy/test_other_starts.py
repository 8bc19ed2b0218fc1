"""Other starts on a few intervals: when they are tried, which is followed, and what comes of it."""

from types import SimpleNamespace

import control_problems as known
import numpy as np
import pytest

from ocp.app.files.load import load_text
from ocp.app.sentences import sentence
from ocp.certify import Tolerances
from ocp.methods import solve
from ocp.problem import Finding, Kind, Residual, Status
from ocp.strategy import other_starts
from ocp.strategy.records import Firing, State, Task
from ocp.thresholds import DIAGNOSES

#: Bryson's maximum range with gravity and thrust: straight on from rest lies a local minimum of -0.2523
RANGE = """
name: maximum range
constants: {g: 1, a: 0.5}
system: {states: {x: '', y: '', v: ''}, controls: {u1: '', u2: ''}, dynamics: {x: v*u1, y: v*u2, v: a - g*u2}}
phase:
  duration: 2
  start: {x: 0, y: 0, v: 0}
  final: {y: 0.1}
  costs: [{name: range, final: -x}]
  constraints: [{name: unit direction, expression: u1**2 + u2**2, equal: 1}]
"""

UPSIDE_DOWN = """
name: upside down
system: {states: {th: rad, om: rad/s}, controls: {u: rad/s^2}, dynamics: {th: om, om: u}}
phase:
  duration: 1
  start: {th: 0, om: 0}
  final: {om: 0}
  costs: [{name: effort, running: u**2}]
  constraints: [{name: upside down, at: final, expression: cos(th), equal: -1}]
"""


class Coarse:
    """A method whose coarse solves end at these objectives, guess by guess."""

    def __init__(self, objectives, status=Status.CONVERGED, errors=()):
        self.errors = list(errors)
        self.objectives, self.status, self.tried, self.most = list(objectives), status, [], []

    def started(self, search, task, name):
        self.tried.append(name)
        return search.problem

    def probe(self, search, task, problem, intervals):
        assert intervals < search.options.intervals
        self.most.append(task.max_iterations)
        part = SimpleNamespace(**vars(search.motion))
        return SimpleNamespace(status=self.status, objective=self.objectives.pop(0), parts=(), trajectory=part, extra={})


    def error(self, found, intervals):
        return self.errors.pop(0) if self.errors else 0.0


def searching(objectives=(), *, auto=True, status=Status.CONVERGED, errors=()):
    problem = known.block_move(1.0)
    return SimpleNamespace(auto=auto, problem=problem, options=SimpleNamespace(intervals=20), tolerances=Tolerances(),
                           method=Coarse(objectives, status, errors), motion=solve(problem).trajectory)


def answer(objective, *, cause=None, size=1.0, strategy=()):
    certificate = SimpleNamespace(minimum_principle=Residual(Kind.MINIMUM_PRINCIPLE, 0.0, 1.0, cause=cause), objective_size=size)
    return SimpleNamespace(objective=objective, certificate=certificate, status=Status.CONVERGED, strategy=strategy, extra={},
                           iterations=range(7), freeze={})


def lowest(search, found):
    return other_starts._lowest(search, State(Task(search.problem)), found)


def test_the_lowest_of_the_coarse_solutions_is_followed_where_it_is_lower_by_far():
    search = searching([0.6, 0.4])
    _, told = lowest(search, answer(1.0))
    assert search.method.tried == list(other_starts.TRIED)
    assert search.method.most == [7, 7]
    assert told.name == other_starts.TRIED[1]
    assert "1" in sentence(told)
    assert told.name in sentence(told)


@pytest.mark.parametrize(("objective", "size", "coarse", "follows"), [
    (1.0, 1.0, 1 - 1.1 * DIAGNOSES.min_saving, True), (1.0, 1.0, 1 - 0.9 * DIAGNOSES.min_saving, False),
    (-1.0, 1.0, -1 - 1.1 * DIAGNOSES.min_saving, True), (-1.0, 1.0, -1 - 0.9 * DIAGNOSES.min_saving, False),
    (1e-3, 1.0, 0.0, False),  # less than the error that the certificate allows
    (0.1, 1.0, 0.0, True), (1.0, 1.0, 2.0, False)])
def test_what_a_coarse_mesh_may_be_wrong_by_is_no_lower_start(objective, size, coarse, follows):
    search = searching([coarse] * len(other_starts.TRIED))
    assert (lowest(search, answer(objective, size=size)) is not None) is follows


def test_coarse_programs_that_are_not_solved_are_no_starts():
    assert lowest(searching([0.0] * 2, status=Status.ITERATION_LIMIT), answer(1.0)) is None


def test_coarse_solutions_that_are_no_motions_of_the_system_are_no_starts():
    errors = [share * DIAGNOSES.max_rel_difference for share in (1.1, 0.9)]
    _, told = lowest(searching([0.0, 0.5], errors=errors), answer(1.0))
    assert told.name == other_starts.TRIED[1]


def test_answers_are_doubted_where_the_hamiltonian_is_not_convex_and_the_guess_was_left_to_us():
    def asked(found, auto=True, **state):
        return other_starts.may_be_several(SimpleNamespace(auto=auto), State(Task(None), answer=found, **state))

    assert asked(answer(1.0)).kind is Kind.NONCONVEX_HAMILTONIAN
    assert "convex" in sentence(asked(answer(1.0)))
    assert asked(answer(1.0), auto=False) is None
    assert asked(answer(1.0, cause=Kind.CONVEX_HAMILTONIAN)) is None
    assert asked(answer(1.0), firings=(Firing("error_bound", Finding(Kind.NO_ERROR_BOUND), 1, True),)) is None


def test_random_guesses_begin_near_the_guess_and_move_the_end_that_is_free():
    """A block turned upside down, by a condition without slope where it starts; the optima are half turns, 12 (k pi)^2, k odd."""
    found = solve(load_text(UPSIDE_DOWN.replace("cos(th), equal: -1", "cos(th) + 0.1*cos(th)**2, equal: -0.9")).problem)
    turns = np.sqrt(found.objective / 12) / np.pi
    assert found.ok
    assert turns == pytest.approx(np.round(turns), abs=1e-5)
    assert np.round(turns) in (1, 3)
    asked = next(one for one in found.strategy if one.rule == "other_starts").diagnosis
    assert asked.kind is Kind.RANDOM_GUESS
    assert "random guess multistart" in sentence(asked)


def test_the_longer_range_is_found_and_several_starts_are_reported():
    found = solve(load_text(RANGE).problem, "collocation", {"refine": "none", "intervals": 20})
    assert found.objective == pytest.approx(-1.7123, abs=1e-4)
    assert [one.data["starts"] for one in found.findings if one.kind is Kind.STARTS_DISAGREE][0] >= 2
