"""Nothing is printed behind the user's back, whatever a program is like: what solvers have to say is in what they return."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import control_problems as known
import numpy as np
import pytest
from control_problems import function
from nlp_programs import program

from ocp.methods import solve
from ocp.nlp import SolverOptions, prepare_solver
from ocp.problem import At, Constraint, Finding, Kind, Status

INF = np.inf


def plane(rows, lower, upper, x_lower=(-INF, -INF), x0=(0.0, 0.0)):
    """min |x|^2 over the plane with these rows."""
    return program(2, ca.sumsqr, rows, x0, (np.array(x_lower), INF), (np.array(lower, float), np.array(upper, float)), ("a", "b"))


def three_lines(off=0.0):
    """Three lines through one point, or not."""
    return plane(lambda x: [x[0] - 1, x[1] - 2, x[0] + x[1] - 3 - off], [0] * 3, [0] * 3)


CASES = {"more equations than unknowns": three_lines(), "contradictions": three_lines(1.0),
         "infeasible": plane(lambda x: [x[0] ** 2], [-2], [-1]),
         "not a number": plane(lambda x: [ca.sqrt(x[0])], [1], [1], x0=(-1, 0)),
         "a start out of bounds": plane(lambda x: [x[0] + x[1]], [1], [INF], x_lower=(3, 3), x0=(-5, 1)),
         "linearly dependent": plane(lambda x: [x[0] - 1, 2 * x[0] - 2], [0] * 2, [0] * 2)}


@pytest.mark.parametrize("solver", ["ipopt", "interior_point"])
@pytest.mark.parametrize("case", CASES)
def test_programs_of_every_kind_are_solved_in_silence(case, solver, capfd):
    prepare_solver(CASES[case], SolverOptions(solver=solver, max_iterations=50)).solve()
    assert capfd.readouterr() == ("", "")


def test_more_equations_than_unknowns_are_reported(capfd):
    """IPOPT refuses such a program; the ending says what is wrong with it, a finding how many equations there are."""
    found = prepare_solver(three_lines(), SolverOptions()).solve()
    assert found.status is not Status.CONVERGED
    assert found.ending.kind is Kind.TOO_FEW_UNKNOWNS
    assert (found.ending.data["equations"], found.ending.data["unknowns"]) == (3, 2)
    assert found.findings == (Finding(Kind.OVERDETERMINED, data={"equations": 3, "unknowns": 2}),)
    fine = prepare_solver(plane(lambda x: [x[0] - 1, x[1] - 2], [0] * 2, [0] * 2), SolverOptions()).solve()
    assert fine.status is Status.CONVERGED
    assert fine.findings == ()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("way", [("collocation", {}), ("multiple_shooting", {"integrator": "midpoint"}),
                                 ("multiple_shooting", {"integrator": "midpoint", "solver": "fatrop"})], ids=str)
def test_a_problem_with_too_few_controls_is_found(way, capfd):
    """One control and one interval from rest to rest: two conditions for one unknown. Redundant ones are no obstacle."""
    method, options = way
    held = {"scheme": "gauss", "degree": 2, "controls": "held"} if method == "collocation" else {}
    solution = solve(known.block_move(), method, {**held, **options, "intervals": 1, "max_iterations": 30,
                                                  **({"guess": "given"} if method == "collocation" else {})})
    assert Kind.OVERDETERMINED in [one.kind for one in solution.findings]
    assert solution.status is not Status.CONVERGED
    assert capfd.readouterr() == ("", "")
    twice = Constraint("twice", At.FINAL, function(2, 1, lambda t, x, u, p: x), (1.0, 0.0), (1.0, 0.0))
    same = known.problem(replace(known.block_move().phase, constraints=(twice,)))
    fine = solve(same, "collocation", {"intervals": 10})
    assert fine.objective == pytest.approx(12, abs=1e-6)
    assert capfd.readouterr() == ("", "")
