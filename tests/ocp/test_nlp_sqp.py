"""Our SQP: closed forms, published optima, IPOPT as another road, rates of convergence, and when things go wrong."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from constrained_problems import PROBLEMS, start_guess
from nlp_programs import from_shooting, program, staged
from shooting_nlp import staged_nlp

from ocp.errors import ProblemError
from ocp.nlp import SolverOptions, kkt, prepare_solver, solve_nlp
from ocp.problem import Status

INF = np.inf
SQP = SolverOptions(solver="sqp", max_iterations=100)

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


@pytest.mark.parametrize("number", HS)
def test_published_optima(number):
    nlp, optimum = HS[number]
    found = solve_nlp(nlp, SQP)
    assert found.status is Status.CONVERGED
    assert found.f == pytest.approx(optimum, rel=1e-7, abs=1e-7)
    residuals = kkt(nlp, found.x, found.lam_x, found.lam_g)
    assert max(residuals.stationarity, residuals.complementarity, residuals.largest_violation) <= 1e-9
    other = solve_nlp(nlp, SolverOptions())
    np.testing.assert_allclose(found.x, other.x, atol=2e-5)
    np.testing.assert_allclose(found.lam_g, other.lam_g, atol=2e-4 * (1 + np.abs(other.lam_g).max(initial=0)))


def test_multiplier_signs_and_an_active_set_that_is_exact():
    # min (x-3)^2 + (y+2)^2 with x <= 1 (bound), y >= -1 (row): x = 1, y = -1; gradient (-4, 2)
    nlp = program(2, lambda x: (x[0] - 3) ** 2 + (x[1] + 2) ** 2, lambda x: [x[1]], [0, 0],
                  x_bounds=np.array([[-INF, -INF], [1, INF]]), g_bounds=(-1, INF))
    found = solve_nlp(nlp, SQP)
    np.testing.assert_allclose(found.x, [1, -1], atol=1e-14)
    np.testing.assert_allclose(found.lam_x, [4, 0], atol=1e-13)
    np.testing.assert_allclose(found.lam_g, [-2], atol=1e-13)
    assert len(found.iterations) == 2  # a quadratic program is one step


@pytest.mark.parametrize("number", [7, 43, 71, 100])
def test_quadratic_convergence(number):
    nlp, _ = HS[number]
    sharp = solve_nlp(nlp, replace(SQP, tolerance=1e-13))
    errors = []

    def take(point, rows):
        errors.append(np.linalg.norm(np.r_[point.x - sharp.x, point.lam_g - sharp.lam_g]))

    solve_nlp(nlp, replace(SQP, tolerance=1e-13), None, (lambda: True, take))
    last = [e for e in errors if 1e-7 < e < 0.3][-3:]
    assert len(last) >= 2
    following = [errors[errors.index(e) + 1] for e in last]
    assert all(b <= 30 * e ** 2 + 1e-12 for e, b in zip(last, following, strict=True)), errors


def test_second_order_corrections_overcome_the_maratos_effect(monkeypatch):
    # Powell's example: full steps from points on the circle raise both objective and violation
    start = [np.cos(0.3), np.sin(0.3)]
    nlp = program(2, lambda x: 2 * (ca.sumsqr(x) - 1) - x[0], lambda x: [ca.sumsqr(x)], start, g_bounds=(1, 1))
    found = solve_nlp(nlp, SQP)
    assert found.status is Status.CONVERGED
    np.testing.assert_allclose(found.x, [1, 0], atol=1e-8)
    assert [row["alpha_pr"] for row in found.iterations[1:]] == [1.0] * (len(found.iterations) - 1)
    monkeypatch.setattr("ocp.nlp.sqp.method.CORRECTIONS", 0)
    without = solve_nlp(nlp, SQP)
    assert without.iterations[1]["alpha_pr"] < 1
    assert len(without.iterations) > len(found.iterations)


def test_contradicting_linearisations_are_crossed_elastically():
    # at 0.1 the row asks for a step of 4.95, the bound allows 1.9
    nlp = program(1, lambda x: x[0], lambda x: [x[0] ** 2], [0.1], x_bounds=(0, 2), g_bounds=(1, INF))
    found = solve_nlp(nlp, SQP)
    assert found.status is Status.CONVERGED
    assert found.x[0] == pytest.approx(1.0, abs=1e-9)


def test_infeasible_names_the_constraints():
    nlp = program(2, lambda x: ca.sumsqr(x), lambda x: [x[0] + x[1], x[0] - x[1]], [0.3, 0.1], x_bounds=(-1, 1),
                  g_bounds=np.array([[5, 0], [INF, 0]]), rows=("reach", "symmetry"))
    found = solve_nlp(nlp, SQP)
    assert found.status is Status.INFEASIBLE
    assert "reach: 3" in found.message
    curved = program(2, lambda x: x[0], lambda x: [ca.sumsqr(x)], [1.0, 1.0], g_bounds=(-2, -1), rows=("ball",))
    assert "ball: 1" in solve_nlp(curved, SQP).message  # the nearest point is the origin


def test_not_a_number_at_the_start_and_on_the_way():
    nlp = program(2, lambda x: ca.sumsqr(x - 3), lambda x: [x[1], ca.sqrt(x[0])], [-1, 1], g_bounds=(0, 1),
                  rows=("distance", "speed"))
    found = solve_nlp(nlp, SQP)
    assert found.status is Status.NOT_A_NUMBER
    assert "speed is not finite" in found.message
    # Newton's step for 30 x - log x from 0.5 leaves the domain; the minimum is 1 / 30
    inside = solve_nlp(program(1, lambda x: 30 * x[0] - ca.log(x[0]), lambda x: [], [0.5]), SQP)
    assert inside.status is Status.CONVERGED
    assert inside.x[0] == pytest.approx(1 / 30, rel=1e-9)
    assert min(row["alpha_pr"] for row in inside.iterations[1:]) < 1


def test_indefinite_hessians_are_regularised_towards_minima():
    # a saddle at the origin, minima at (+-1, 0)
    nlp = program(2, lambda x: (x[0] ** 2 - 1) ** 2 + x[1] ** 2, lambda x: [], [0.1, 1.0])
    found = solve_nlp(nlp, SQP)
    assert found.status is Status.CONVERGED
    np.testing.assert_allclose(found.x, [1, 0], atol=1e-8)
    assert max(row["regularization"] for row in found.iterations) > 0
    unbounded = solve_nlp(program(2, lambda x: x[0] - x[1], lambda x: [x[0] - 2 * x[1]], [0, 0], g_bounds=(0, 0)), SQP)
    assert unbounded.status in (Status.DIVERGED, Status.ITERATION_LIMIT)


def test_gauss_newton_solves_least_squares():
    A = np.random.default_rng(1).normal(size=(8, 3))
    b = np.arange(8.0)
    linear = program(3, None, lambda x: [], [0, 0, 0], residual=lambda x: ca.DM(A) @ x - b)
    found = solve_nlp(linear, replace(SQP, hessian="gauss_newton"))
    np.testing.assert_allclose(found.x, np.linalg.lstsq(A, b, rcond=None)[0], atol=1e-12)
    assert len(found.iterations) == 2
    # a residual that vanishes at the solution, with a bend: both Hessians end at the same point on different paths
    bent = program(2, None, lambda x: [x[0] + x[1]], [0.5, 2.0], residual=lambda x: ca.vertcat(x[0] ** 2 - x[1], x[0] - 1),
                   g_bounds=(1.5, INF))
    paths = [solve_nlp(bent, replace(SQP, hessian=h)) for h in ("gauss_newton", "exact")]
    for path in paths:
        np.testing.assert_allclose(path.x, [1, 1], atol=1e-7)
    assert [r["objective"] for r in paths[0].iterations] != [r["objective"] for r in paths[1].iterations]
    ipopt = solve_nlp(bent, SolverOptions(hessian="gauss_newton"))
    np.testing.assert_allclose(ipopt.x, [1, 1], atol=1e-6)
    with pytest.raises(ProblemError, match="gauss_newton, but the program brings none"):
        solve_nlp(HS[7][0], replace(SQP, hessian="gauss_newton"))


@pytest.mark.parametrize("limit", [INF, 2.0])
def test_shooting_agrees_with_ipopt(limit):
    nlp = staged(order=1, limit=limit)
    found, other = solve_nlp(nlp, SQP), solve_nlp(nlp, SolverOptions())
    assert found.status is Status.CONVERGED
    np.testing.assert_allclose(found.x, other.x, atol=1e-6)
    np.testing.assert_allclose(found.lam_g, other.lam_g, atol=1e-5)


@pytest.mark.parametrize("name", ["double_integrator", "cart_pole"])
def test_shooting_of_the_benchmark_by_three_solvers(name):
    c = PROBLEMS[name]()
    s = staged_nlp(c.problem.phase, **c.options)
    guess = start_guess(c, 0, "line")
    u = guess.u[1::2]
    nlp = from_shooting(s, s.rollout(u), u)
    found = {solver: solve_nlp(nlp, SolverOptions(solver=solver, tolerance=1e-8, max_iterations=300))
             for solver in ("ipopt", "fatrop", "sqp")}
    assert all(r.status is Status.CONVERGED for r in found.values())
    assert found["sqp"].f == pytest.approx(found["ipopt"].f, rel=1e-6)
    assert found["fatrop"].f == pytest.approx(found["ipopt"].f, rel=1e-6)
    assert s.defect(*s.split(found["sqp"].x)) < 1e-8


def test_warm_starts_and_other_starts():
    nlp, _ = HS[71]
    solver = prepare_solver(nlp, SQP)
    cold = solver.solve()
    assert len(solver.solve(warm=cold).iterations) == 1
    near = replace(nlp, g_lower=nlp.g_lower + np.array([0.5, 0.1]), g_upper=nlp.g_upper + np.array([0.0, 0.1]))
    warm, again = prepare_solver(near, SQP).solve(warm=cold), solve_nlp(near, SQP)
    np.testing.assert_allclose(warm.x, again.x, atol=1e-8)
    assert len(warm.iterations) < len(again.iterations)
    assert all(row["systems"] == 1 for row in warm.iterations[1:])  # the active set stays
    other = solver.solve(x0=[1, 4, 4, 2])
    np.testing.assert_allclose(other.x, cold.x, atol=1e-7)
    with pytest.raises(ProblemError, match="not both"):
        solver.solve(warm=cold, x0=nlp.x0)
    with pytest.raises(ProblemError, match="x0 needs 4 values"):
        solver.solve(x0=[1.0])


def test_log_and_progress_are_the_same_rows(capfd):
    seen = []
    found = solve_nlp(HS[71][0], SQP, seen.append)
    assert tuple(seen) == found.iterations
    assert seen[-1]["objective"] == found.f
    assert found.n_evaluations > 0
    short = solve_nlp(HS[71][0], replace(SQP, max_iterations=2))
    assert short.status is Status.ITERATION_LIMIT
    assert len(short.iterations) == 3
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("way", ["raise", "signal"])
def test_interrupt_returns_the_last_iterate(way):
    def progress(row):
        if row["iteration"] == 2:
            if way == "raise":
                raise KeyboardInterrupt
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    full = solve_nlp(HS[71][0], SQP)
    found = solve_nlp(HS[71][0], SQP, progress)
    assert signal.getsignal(signal.SIGINT) is before
    assert found.status is Status.INTERRUPTED
    assert len(found.iterations) == 3
    assert found.f == full.iterations[2]["objective"]
    with pytest.raises(RuntimeError, match="disk full"):
        solve_nlp(HS[71][0], SQP, lambda row: (_ for _ in ()).throw(RuntimeError("disk full")))
