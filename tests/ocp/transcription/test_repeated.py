"""Path equations that say twice the same are named at once; what is named is independent by construction otherwise."""

from dataclasses import replace

import casadi as ca
import control_problems as known
import numpy as np

from ocp.methods import solve
from ocp.problem import At, Constraint, Finding, Kind, Phase, Sense, Status
from ocp.transcription.repeated import crowded, repeated


def pushed(*equations):
    """A unit mass moved by two forces, with path equations on (x, u), each zero."""
    system = known.flat_system("block", ("x", "v"), ("a", "b"), lambda t, x, u, p: ca.vertcat(x[1], u[0] + u[1]))
    rows = [(known.function(2, 2, lambda t, x, u, p, f=f: f(x, u)), (value,)) for f, value in equations]
    held = tuple(Constraint(f"row {i}", At.PATH, f, value, value, Sense.EQUAL) for i, (f, value) in enumerate(rows))
    phase = known.block_move().phase
    guess = replace(phase.guess, u=np.zeros((2, 2)))
    effort = replace(phase.costs[0], function=known.function(2, 2, lambda t, x, u, p: u[0]**2 + u[1]**2))
    return known.problem(Phase("pushed", system, phase.duration, guess, phase.start, phase.final, costs=(effort,),
                               constraints=held))


SAME = (lambda x, u: u[0] - u[1], 0.0)


def test_a_solve_with_more_equations_than_unknowns_ends_at_once_and_names_what_repeats(monkeypatch):
    import ocp.transcription.direct as direct
    once, count = direct._solved, []
    monkeypatch.setattr(direct, "_solved", lambda *given: count.append(1) or once(*given))
    found = solve(pushed(SAME, (lambda x, u: 3 * u[1] - 3 * u[0], 0.0), SAME))
    assert found.status is Status.FAILED
    assert len(count) == 1
    told = [one for one in found.findings if one.kind is Kind.REDUNDANT_EQUATION]
    assert told == [Finding(Kind.REDUNDANT_EQUATION, name=f"row {i}", data={"repeats": ("row 0",)}) for i in (1, 2)]


def test_rows_that_others_make_together_are_named_with_these_alone():
    first, second = (lambda x, u: u[0] - x[0] * u[1], 0.0), (lambda x, u: u[1] + ca.sin(x[1]), 0.0)
    both = (lambda x, u: u[0] - x[0] * u[1] + 2 * (u[1] + ca.sin(x[1])), 1.0)
    assert repeated(pushed(first, second)) == ()
    told = repeated(pushed(first, second, (lambda x, u: x[1]**2, 0.0), both))
    assert told == (Finding(Kind.REDUNDANT_EQUATION, name="row 3", data={"repeats": ("row 0", "row 1")}),)


def test_equations_that_leave_a_control_open_are_not_crowded():
    assert not crowded(pushed(SAME))
    assert crowded(pushed(SAME, SAME))
    assert solve(pushed(SAME)).ok
