"""Published optima of nonlinear programs, and shooting as a program, by every solver that takes them."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest
from constrained_problems import PROBLEMS, start_guess
from nlp_programs import from_shooting, program
from shooting_nlp import staged_nlp

from ocp.errors import ProblemError
from ocp.nlp import SolverOptions, kkt, solve_nlp
from ocp.problem import Status
from ocp.transcription.collocation import CollocationOptions
from ocp.transcription.multiple_shooting import MultipleShootingOptions

INF = np.inf

# Hock and Schittkowski 1981, Test Examples for Nonlinear Programming Codes: number -> program and its optimum
HS = {
    6: (program(2, lambda x: (1 - x[0]) ** 2, lambda x: [10 * (x[1] - x[0] ** 2)], [-1.2, 1], g_bounds=(0, 0)), 0.0),
    7: (program(2, lambda x: ca.log(1 + x[0] ** 2) - x[1], lambda x: [(1 + x[0] ** 2) ** 2 + x[1] ** 2], [2, 2], g_bounds=(4, 4)),
        -np.sqrt(3)),
    14: (program(2, lambda x: (x[0] - 2) ** 2 + (x[1] - 1) ** 2, lambda x: [-x[0] ** 2 / 4 - x[1] ** 2 + 1, x[0] - 2 * x[1]],
                 [2, 2], g_bounds=np.array([[0, -1], [INF, -1]])), 9 - 2.875 * np.sqrt(7)),
    21: (program(2, lambda x: 0.01 * x[0] ** 2 + x[1] ** 2 - 100, lambda x: [10 * x[0] - x[1]], [-1, -1],
                 x_bounds=np.array([[2, -50], [50, 50]]), g_bounds=(10, INF)), -99.96),
    35: (program(3, lambda x: 9 - 8 * x[0] - 6 * x[1] - 4 * x[2] + 2 * x[0] ** 2 + 2 * x[1] ** 2 + x[2] ** 2 + 2 * x[0] * x[1]
                 + 2 * x[0] * x[2], lambda x: [x[0] + x[1] + 2 * x[2]], [0.5] * 3, x_bounds=(0, INF), g_bounds=(-INF, 3)), 1 / 9),
    39: (program(4, lambda x: -x[0], lambda x: [x[1] - x[0] ** 3 - x[2] ** 2, x[0] ** 2 - x[1] - x[3] ** 2], [2] * 4,
                 g_bounds=(0, 0)), -1.0),
    43: (program(4, lambda x: x[0] ** 2 + x[1] ** 2 + 2 * x[2] ** 2 + x[3] ** 2 - 5 * x[0] - 5 * x[1] - 21 * x[2] + 7 * x[3],
                 lambda x: [x[0] ** 2 + x[1] ** 2 + x[2] ** 2 + x[3] ** 2 + x[0] - x[1] + x[2] - x[3],
                            x[0] ** 2 + 2 * x[1] ** 2 + x[2] ** 2 + 2 * x[3] ** 2 - x[0] - x[3],
                            2 * x[0] ** 2 + x[1] ** 2 + x[2] ** 2 + 2 * x[0] - x[1] - x[3]], [0] * 4,
                 g_bounds=np.array([[-INF] * 3, [8, 10, 5]])), -44.0),
    48: (program(5, lambda x: (x[0] - 1) ** 2 + (x[1] - x[2]) ** 2 + (x[3] - x[4]) ** 2,
                 lambda x: [ca.sum1(x), x[2] - 2 * (x[3] + x[4])], [3, 5, -3, 2, -2], g_bounds=np.array([[5, -3], [5, -3]])), 0.0),
    71: (program(4, lambda x: x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2], lambda x: [x[0] * x[1] * x[2] * x[3], ca.sumsqr(x)],
                 [1, 5, 5, 1], x_bounds=(1, 5), g_bounds=np.array([[25, 40], [INF, 40]])), 17.0140173),
    76: (program(4, lambda x: x[0] ** 2 + 0.5 * x[1] ** 2 + x[2] ** 2 + 0.5 * x[3] ** 2 - x[0] * x[2] + x[2] * x[3] - x[0]
                 - 3 * x[1] + x[2] - x[3],
                 lambda x: [x[0] + 2 * x[1] + x[2] + x[3], 3 * x[0] + x[1] + 2 * x[2] - x[3], x[1] + 4 * x[2]],
                 [0.5] * 4, x_bounds=(0, INF), g_bounds=np.array([[-INF, -INF, 1.5], [5, 4, INF]])), -4.681818181),
    100: (program(7, lambda x: (x[0] - 10) ** 2 + 5 * (x[1] - 12) ** 2 + x[2] ** 4 + 3 * (x[3] - 11) ** 2 + 10 * x[4] ** 6
                  + 7 * x[5] ** 2 + x[6] ** 4 - 4 * x[5] * x[6] - 10 * x[5] - 8 * x[6],
                  lambda x: [2 * x[0] ** 2 + 3 * x[1] ** 4 + x[2] + 4 * x[3] ** 2 + 5 * x[4],
                             7 * x[0] + 3 * x[1] + 10 * x[2] ** 2 + x[3] - x[4], 23 * x[0] + x[1] ** 2 + 6 * x[5] ** 2 - 8 * x[6],
                             4 * x[0] ** 2 + x[1] ** 2 - 3 * x[0] * x[1] + 2 * x[2] ** 2 + 5 * x[5] - 11 * x[6]],
                  [1, 2, 0, 4, 0, 1, 1], g_bounds=np.array([[-INF] * 4, [127, 282, 196, 0]])), 680.6300573),
}


@pytest.mark.parametrize("solver", ["ipopt", "interior_point"])
@pytest.mark.parametrize("number", HS)
def test_published_optima(number, solver):
    nlp, optimum = HS[number]
    found = solve_nlp(nlp, SolverOptions(solver=solver))
    assert found.status is Status.CONVERGED
    assert found.f == pytest.approx(optimum, rel=1e-7, abs=1e-7)
    residuals = kkt(nlp, found.x, found.lam_x, found.lam_g)
    assert max(residuals.stationarity, residuals.complementarity, residuals.largest_violation) <= 2e-8


@pytest.mark.parametrize("name", ["double_integrator", "cart_pole"])
def test_shooting_of_the_benchmark_by_three_solvers(name):
    c = PROBLEMS[name]()
    s = staged_nlp(c.problem.phase, **c.options)
    guess = start_guess(c, 0, "line")
    u = guess.u[1::2]
    nlp = from_shooting(s, s.rollout(u), u)
    found = {solver: solve_nlp(nlp, SolverOptions(solver=solver, tolerance=1e-8, max_iterations=300))
             for solver in ("ipopt", "fatrop", "interior_point")}
    assert all(r.status is Status.CONVERGED for r in found.values())
    for solver in ("fatrop", "interior_point"):
        assert found[solver].f == pytest.approx(found["ipopt"].f, rel=1e-6)
        assert s.defect(*s.split(found[solver].x)) < 1e-7


def test_options_that_cannot_be_met_are_refused():
    with pytest.raises(ProblemError, match="gauss_newton, but the program has none"):
        solve_nlp(HS[7][0], SolverOptions(hessian="gauss_newton"))
    with pytest.raises(ProblemError, match="no solver named 'sqp'.*ipopt"):
        SolverOptions(solver="sqp")
    for record in (CollocationOptions, MultipleShootingOptions):
        with pytest.raises(ProblemError, match="no solver named 'sqp'.*ipopt"):
            record(solver="sqp")
