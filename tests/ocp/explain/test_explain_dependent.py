"""Dependent equations, scales and what may be unbounded, on programs where they are known."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from control_problems import block_move, flat_system, function, line, problem

from ocp.explain import condition, conditioning, dependent_rows, program_of, unbounded_hints
from ocp.problem import INF, At, Boundary, Constraint, Cost, Duration, Phase, Sense
from ocp.thresholds import EXPLANATION
from ocp.transcription.collocation import CollocationOptions

OPTIONS = CollocationOptions(intervals=10)


def equal(name, expression, at=At.FINAL, value=1.0):
    return Constraint(name, at, function(2, 1, expression), (value,), (value,), Sense.EQUAL)


def with_rows(*constraints, **more):
    return program_of(problem(replace(block_move().phase, **{"final": None, "constraints": constraints, **more})), OPTIONS)


TWICE = (equal("twice", lambda t, x, u, p: 2 * x[0] + 3 * x[1]), equal("place", lambda t, x, u, p: x[0]),
         equal("speed", lambda t, x, u, p: x[1]))


@pytest.mark.parametrize("dense", [10**9, 0])
def test_a_combination_is_named_with_its_weights(dense, monkeypatch):
    """twice = 2 place + 3 speed."""
    monkeypatch.setattr(conditioning, "EXPLANATION", replace(EXPLANATION, max_dense_entries=dense))
    program = with_rows(*TWICE)
    (found,) = dependent_rows(program.nlp, program.nlp.x0)
    weights = dict(found.rows)
    assert set(weights) == {"twice @ final", "place @ final", "speed @ final"}
    assert set(found.groups) == {"twice", "place", "speed"}
    assert weights["place @ final"] / weights["twice @ final"] == pytest.approx(-2)
    assert weights["speed @ final"] / weights["twice @ final"] == pytest.approx(-3)
    # the combination of the rows themselves vanishes
    rows = [program.nlp.constraints.index(name) for name in weights]
    J = program.nlp.jac(program.nlp.x0)[1].full()[rows]
    np.testing.assert_allclose(np.array(list(weights.values())) @ J, 0, atol=1e-9)


@pytest.mark.parametrize("dense", [10**9, 0])
def test_two_combinations_are_kept_apart(dense, monkeypatch):
    monkeypatch.setattr(conditioning, "EXPLANATION", replace(EXPLANATION, max_dense_entries=dense))
    program = with_rows(equal("a", lambda t, x, u, p: x[0]), equal("a again", lambda t, x, u, p: 5 * x[0]),
                        equal("b", lambda t, x, u, p: x[1]), equal("b again", lambda t, x, u, p: -x[1]))
    found = dependent_rows(program.nlp, program.nlp.x0)
    assert sorted(sorted(one.groups) for one in found) == [["a", "a again"], ["b", "b again"]]


@pytest.mark.parametrize("dense", [10**9, 0])
def test_independent_equations_are_left_alone(dense, monkeypatch):
    monkeypatch.setattr(conditioning, "EXPLANATION", replace(EXPLANATION, max_dense_entries=dense))
    assert dependent_rows(with_rows(*TWICE[1:]).nlp, with_rows(*TWICE[1:]).nlp.x0) == ()
    assert dependent_rows(program_of(block_move(), OPTIONS).nlp, program_of(block_move(), OPTIONS).nlp.x0) == ()


def test_a_row_that_nothing_moves_stands_by_itself():
    """The final place is prescribed by the fixed state: the equation says it again."""
    program = with_rows(equal("again", lambda t, x, u, p: x[0]), final=Boundary((1.0, 0.0), (True, True)))
    (found,) = dependent_rows(program.nlp, program.nlp.x0)
    assert found.rows == (("again @ final", pytest.approx(1.0)),)
    assert condition(program.nlp, program.nlp.x0).empty_rows == ("again @ final",)


def test_active_inequalities_count_where_asked():
    low = Constraint("low", At.FINAL, function(2, 1, lambda t, x, u, p: x[0]), (-INF,), (1.0,))
    program = with_rows(equal("place", lambda t, x, u, p: x[0]), low)
    x = program.nlp.x0.copy()
    x[program.nlp.variables.index("x.x @ knot 10")] = 1.0
    assert dependent_rows(program.nlp, x) == ()
    (found,) = dependent_rows(program.nlp, x, active=True)
    assert set(found.groups) == {"low", "place"}


def test_scales_name_their_rows_and_columns():
    program = with_rows(equal("huge", lambda t, x, u, p: 1e7 * x[0], value=0.0), equal("tiny", lambda t, x, u, p: 1e-5 * x[1],
                                                                                       value=0.0))
    found = condition(program.nlp, program.nlp.x0)
    assert found.rows[0] == ("huge @ final", pytest.approx(1e7))
    assert found.rows[1][0] == "tiny @ final"
    assert found.spread[0] == pytest.approx(1e12)
    assert found.worst[0][0] == "huge @ final"
    assert found.worst[0][1] == pytest.approx(1e7)


def test_what_may_run_away_is_named():
    system = flat_system("two", ("x", "v"), ("u", "idle", "held"), lambda t, x, u, p: ca.vertcat(x[1], u[0]))
    phase = Phase("two", system, Duration(1.0, 1.0, 1.0), line([0, 0], [1, 0], 3), Boundary((0.0, 0.0), (True, True)),
                  u_lower=(-INF, -INF, -1.0), u_upper=(INF, INF, 1.0),
                  costs=(Cost("effort", At.PATH, function(2, 3, lambda t, x, u, p: u[0] ** 2)),))
    program = program_of(problem(phase), OPTIONS)
    x = program.nlp.x0.copy()
    (hint,) = unbounded_hints(program.problem, program.nlp, x)
    assert "control idle has no cost" in hint
    x[program.nlp.variables.index("u.u @ knot 3")] = -1e9
    first, second = unbounded_hints(program.problem, program.nlp, x)
    assert first.startswith("u.u has grown to 1e+09")
    assert "idle" in second
    assert {name.split(" @ ")[0] for name in condition(program.nlp, x).idle} == {"u.idle", "u.held"}
