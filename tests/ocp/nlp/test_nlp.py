"""Nonlinear programs: solutions known in closed form, multiplier signs, names in messages, interrupts."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from nlp_programs import program, scaled, staged, with_functions

from ocp.errors import ProblemError
from ocp.nlp import IpoptOptions, SolverOptions, kkt, not_finite, prepare_solver, solve_nlp, worst_violations
from ocp.nlp.watch import CIRCLE, circles
from ocp.problem import Finding, Kind, Status

INF = np.inf


def valley(**wrong):
    """Rosenbrock's valley on a circle: nonlinear in objective and constraint; ``wrong`` scales grad, jac or hess: a mistake."""
    nlp = program(2, lambda x: (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2, lambda x: [ca.sumsqr(x)],
                  [-1.0, 1.0], g_bounds=(2.5, 2.5))
    return with_functions(nlp, **{name: scaled(getattr(nlp, name), factor) for name, factor in wrong.items()})


def test_known_solution_and_multiplier_signs():
    # min (x-3)^2 + (y+2)^2 with x <= 1 (bound), y >= -1 (row): x = 1, y = -1; gradient (-4, 2)
    nlp = program(2, lambda x: (x[0] - 3) ** 2 + (x[1] + 2) ** 2, lambda x: [x[1]], [0, 0],
                  x_bounds=np.array([[-INF, -INF], [1, INF]]), g_bounds=(-1, INF))
    found = solve_nlp(nlp, IpoptOptions())
    assert found.status is Status.CONVERGED
    assert found.ending is None
    np.testing.assert_allclose(found.x, [1, -1], atol=1e-8)
    np.testing.assert_allclose(found.lam_x, [4, 0], atol=1e-7)  # upper bound active: positive
    np.testing.assert_allclose(found.lam_g, [-2], atol=1e-7)  # lower bound active: negative
    assert found.f == pytest.approx(5, abs=1e-7)
    assert found.n_evaluations > 0
    assert 0 <= found.seconds["functions"] <= found.seconds["solver"]


def test_kkt_vanishes_only_at_the_solution():
    nlp = program(2, lambda x: (x[0] - 3) ** 2 + (x[1] + 2) ** 2, lambda x: [x[1], x[0]], [0, 0],
                  x_bounds=np.array([[-INF, -INF], [1, INF]]), g_bounds=np.array([[-1, -INF], [INF, INF]]))
    exact = kkt(nlp, np.array([1.0, -1.0]), np.array([4.0, 0.0]), np.array([-2.0, 0.0]))
    assert exact.stationarity == 0
    assert exact.complementarity == 0
    assert np.all(exact.violation == 0)
    assert np.all(exact.bound_violation == 0)
    # gradient at (1.5, -1.25) is (-3, 1.5): residual (-3 + 4, 1.5 - 2); distances 0.5 and 0.25 times forces 4 and 2
    off = kkt(nlp, np.array([1.5, -1.25]), np.array([4.0, 0.0]), np.array([-2.0, 0.0]))
    assert off.stationarity == pytest.approx(1.0)
    assert off.complementarity == pytest.approx(2.0)
    np.testing.assert_allclose(off.violation, [0.25, 0])
    np.testing.assert_allclose(off.bound_violation, [0.5, 0])
    # a force on a bound that does not exist is no multiplier
    assert kkt(nlp, np.array([1.0, -1.0]), np.array([4.0, 0.0]), np.array([-2.0, 0.7])).complementarity == pytest.approx(0.7)


def test_kkt_scaling_and_fixed_variables():
    # min y^2 with x fixed at 2 and 1000 (x + y) = 2000: lam_g is free to be anything with stationarity in y
    nlp = program(2, lambda x: 1e6 * (x[1] - 1) ** 2, lambda x: [x[0] + x[1]], [0, 0],
                  x_bounds=np.array([[2, -INF], [2, INF]]), g_bounds=(2, 2))
    result = kkt(nlp, np.array([2.0, 0.0]), np.zeros(2), np.array([2e6 + 1.0]))
    assert result.stationarity == pytest.approx(1.0 / ((2e6 + 1) / 3 / 100))
    assert result.complementarity == 0
    found = solve_nlp(nlp, IpoptOptions())
    assert found.x[0] == 2
    assert kkt(nlp, found.x, found.lam_x, found.lam_g).stationarity < 1e-9


def test_solver_uses_the_derivatives_it_is_given():
    right = solve_nlp(valley(), IpoptOptions())
    assert right.status is Status.CONVERGED
    assert kkt(valley(), right.x, right.lam_x, right.lam_g).stationarity < 1e-8
    for wrong in ({"grad": 1.3}, {"jac": 1.3}, {"hess": 10.0}):
        other = solve_nlp(valley(**wrong), IpoptOptions(max_iterations=50))
        assert [r["objective"] for r in other.iterations] != [r["objective"] for r in right.iterations], wrong
    # without the exact Hessian a wrong one must not matter
    paths = [[r["objective"] for r in solve_nlp(valley(hess=h), IpoptOptions(hessian="limited_memory")).iterations]
             for h in (1.0, 10.0)]
    assert paths[0] == paths[1]
    assert len(paths[0]) > len(right.iterations)


def test_options_have_an_effect_and_are_checked():
    full = solve_nlp(valley(), IpoptOptions())
    short = solve_nlp(valley(), IpoptOptions(max_iterations=3))
    assert short.status is Status.ITERATION_LIMIT
    assert len(short.iterations) == 4 < len(full.iterations)
    assert short.ending.kind is Kind.SOLVER_STATUS
    assert (short.ending.data["solver"], short.ending.data["status"]) == ("ipopt", "Maximum_Iterations_Exceeded")
    assert short.ending.data["violations"][0][0] == "row 0"
    loose = solve_nlp(valley(), IpoptOptions(tolerance=1e-2))
    assert len(loose.iterations) < len(full.iterations)
    for wrong in ({"hessian": "bfgs"}, {"tolerance": 0.0}, {"max_iterations": -1}):
        with pytest.raises(ProblemError, match=next(iter(wrong))):
            IpoptOptions(**wrong)


ALL = pytest.mark.parametrize("solver", ["ipopt", "fatrop", "interior_point"])


@ALL
def test_log_and_progress_are_the_same_rows_and_end_at_the_answer(solver, capfd):
    seen, points, nlp, options = [], [], staged(order=2, limit=2.0), SolverOptions(solver=solver)
    found = solve_nlp(nlp, options, seen.append)
    assert tuple(seen) == found.iterations
    assert [r["iteration"] for r in seen] == list(range(len(seen)))
    assert {"objective", "inf_pr", "inf_du", "d_norm"} <= set(seen[0])
    assert solver == "fatrop" or {"mu", "alpha_pr", "alpha_du", "regularization"} <= set(seen[0])
    assert seen[-1]["objective"] == pytest.approx(found.f, rel=1e-12)
    assert max(seen[-1]["inf_pr"], seen[-1]["inf_du"]) < 1e-8 < seen[0]["inf_pr"]
    silent = solve_nlp(nlp, options, None, (lambda: True, lambda point, rows: points.append((point, rows))))
    np.testing.assert_array_equal(found.x, silent.x)
    assert points
    for point, rows in points:
        assert float(nlp.f(point.x)) == pytest.approx(rows[-1]["objective"], rel=1e-12)
        assert rows[-1] == seen[len(rows) - 1]
    assert capfd.readouterr() == ("", "")


@ALL
@pytest.mark.parametrize("way", ["raise", "signal"])
def test_interrupt_from_progress_returns_the_last_iterate(way, solver):
    def progress(row):
        if row["iteration"] == 2:
            if way == "raise":
                raise KeyboardInterrupt
            os.kill(os.getpid(), signal.SIGINT)

    before, nlp = signal.getsignal(signal.SIGINT), staged(limit=2.0)
    prepared = prepare_solver(nlp, SolverOptions(solver=solver))
    full, found = prepared.solve(), prepared.solve(progress=progress)
    assert signal.getsignal(signal.SIGINT) is before
    assert found.status is Status.INTERRUPTED
    assert len(found.iterations) == 3 < len(full.iterations)
    assert found.f == pytest.approx(full.iterations[2]["objective"], rel=1e-12)
    assert float(nlp.f(found.x)) == pytest.approx(found.f, rel=1e-12)
    again = prepared.solve()  # the next solve is not affected
    assert again.status is Status.CONVERGED
    np.testing.assert_array_equal(again.x, full.x)


@ALL
def test_errors_of_progress_are_not_lost(solver, capfd):
    def progress(row):
        raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        solve_nlp(staged(), SolverOptions(solver=solver), progress)
    assert "WARNING" not in "".join(capfd.readouterr())


def test_infeasible_names_the_constraints():
    nlp = program(2, lambda x: ca.sumsqr(x), lambda x: [x[0] + x[1], x[0] - x[1]], [0.3, 0.1], x_bounds=(-1, 1),
                  g_bounds=np.array([[5, 0], [INF, 0]]), rows=("reach", "symmetry"))
    found = solve_nlp(nlp, IpoptOptions())
    assert found.status is Status.INFEASIBLE
    assert (found.ending.kind, found.ending.name) == (Kind.LARGEST_VIOLATION, "reach")
    assert found.ending.value == pytest.approx(3, abs=1e-6)
    assert worst_violations(nlp, np.array([1.5, 1.0])) == (("reach", 2.5), ("symmetry", 0.5), ("bound of x0", 0.5))


def test_not_a_number_names_the_row_or_column(capfd):
    rows = ("distance", "speed")
    nlp = program(2, lambda x: ca.sumsqr(x - 3), lambda x: [x[1], ca.sqrt(x[0])], [-1, 1], g_bounds=(0, 1), rows=rows)
    found = solve_nlp(nlp, IpoptOptions())
    assert found.status is Status.NOT_A_NUMBER
    assert found.ending.kind is Kind.NOT_FINITE
    assert found.ending.data["found"] == (Finding(Kind.CONSTRAINT_NOT_FINITE, name="speed"),)
    derivative = program(2, lambda x: ca.sumsqr(x - 3), lambda x: [x[1], ca.sqrt(x[0])], [0, 1], g_bounds=(0, 1), rows=rows)
    assert not_finite(derivative, np.array([0.0, 1.0])) == (
        Finding(Kind.JACOBIAN_NOT_FINITE, name="speed", data={"variable": "x0"}),)
    objective = program(1, lambda x: ca.log(x[0]), lambda x: [], [-1])
    assert solve_nlp(objective, IpoptOptions()).ending.data["found"] == (Finding(Kind.OBJECTIVE_NOT_FINITE),)
    log = Finding(Kind.FUNCTION_NOT_FINITE, name="log")
    assert solve_nlp(replace(objective, diagnose=lambda x: (log,)), IpoptOptions()).ending.data["found"] == (log,)
    assert "WARNING" not in "".join(capfd.readouterr())


def test_malformed_programs_are_refused_by_name():
    with pytest.raises(ProblemError, match="speed"):
        program(1, lambda x: x[0], lambda x: [x[0]], [0], g_bounds=(1, 0), rows=("speed",))
    with pytest.raises(ProblemError, match="angle"):
        program(1, lambda x: x[0], lambda x: [], [0], x_bounds=(np.nan, 0), names=("angle",))
    with pytest.raises(ProblemError, match="x0 needs 1 values"):
        program(1, lambda x: x[0], lambda x: [], [0, 0])


def test_interrupt_without_progress_returns_an_iterate():
    n = 20000  # tens of thousands of coupled valleys: many slow iterations
    nlp = program(n, lambda x: ca.sumsqr(1 - x[:-1]) + 100 * ca.sumsqr(x[1:] - x[:-1] ** 2), lambda x: [], -1.2 * np.ones(n))
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    found = solve_nlp(nlp, IpoptOptions(max_iterations=10**6))
    timer.join()
    assert found.status is Status.INTERRUPTED
    assert found.f == pytest.approx(float(nlp.f(found.x)), rel=1e-12)
    assert 0 < found.f < 0.9 * float(nlp.f(nlp.x0))


def test_circles_are_distinguished_from_progress():
    """Errors a little above the tolerance for long, an objective that stands still, and a feasible end."""
    def rows(count=CIRCLE, fall=0.0, inf_du=1e-7, inf_pr=1e-9):
        return [{"objective": 2.0 - fall * k, "inf_du": inf_du, "inf_pr": inf_pr, "mu": 1e-10} for k in range(count)]

    assert circles(rows(), 1e-9)
    spikes = rows()
    for k in range(0, CIRCLE - 1, 3):
        spikes[k]["inf_du"] = 1.0
    assert circles(spikes, 1e-9)
    for other in (rows(CIRCLE - 1), rows(fall=1e-4), rows(inf_du=1e-5), rows(inf_pr=1e-5),
                  [*rows(), {**rows(1)[0], "inf_pr": 1e-6}]):
        assert not circles(other, 1e-9)
