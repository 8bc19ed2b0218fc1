"""Scaled programs: derivatives by differences, the same answers with the same multipliers, and the rules of the factors."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from nlp_programs import program, staged

from ocp.app.sentences import sentence
from ocp.errors import ProblemError
from ocp.nlp import Scaling, SolverOptions, choose_scaling, extraordinary, kkt, prepare_solver, scaled, solve_nlp
from ocp.nlp.scaling import beside_equations, lifted
from ocp.problem import Kind, Status

INF = np.inf


def badly(**more):
    """Unknowns of size 1e6 and 1e-4, a row of size 1e9, an objective of size 1e-5."""
    return program(3, lambda x: 1e-5 * ((x[0] / 1e6 - 2) ** 2 + (x[1] * 1e4 - 1) ** 4 + (x[2] - 1) ** 2 + x[2] * x[0] * 1e-6),
                   lambda x: [1e3 * x[0] + 1e13 * x[1] ** 1, x[2] ** 2 + x[0] * 1e-6], [5e5, 2e-4, 0.5],
                   x_bounds=np.array([[0, 0, -INF], [4e6, 5e-4, INF]]), g_bounds=np.array([[2e9, -INF], [2e9, 1.5]]), **more)


@pytest.mark.parametrize("how", ["bounds", "jacobian", "auto"])
def test_derivatives_of_the_scaled_program(how):
    nlp, way = scaled(badly(), how)
    z = nlp.x0 + np.array([0.1, 0.2, 0.3])
    original = badly()
    assert float(nlp.f(z)) == pytest.approx(way.scaling.objective * float(original.f(z * way.scaling.columns)), rel=1e-14)
    step, lam = 1e-5, np.array([0.7, -0.3])
    gradient, jacobian = nlp.grad(z)[1].full().ravel(), nlp.jac(z)[1].full()
    second = ca.triu2symm(nlp.hess(z, 1.3, lam)).full()

    def slope(point):
        return 1.3 * nlp.grad(point)[1].full().ravel() + nlp.jac(point)[1].full().T @ lam

    for i in range(3):
        e = np.zeros(3)
        e[i] = step * max(1.0, abs(z[i]))
        for function, exact in ((nlp.f, gradient[i]), (nlp.g, jacobian[:, i]), (slope, second[:, i])):
            high, low = (np.array(function(z + s * e)).ravel() for s in (1, -1))
            rounding = 1e-14 * np.abs(high).max() / step
            np.testing.assert_allclose((high - low) / (2 * e[i]), np.atleast_1d(exact), rtol=1e-5, atol=rounding + 1e-12)
    assert nlp.variables == original.variables
    assert nlp.constraints == original.constraints


def test_factors_follow_bounds_magnitudes_and_the_first_jacobian():
    nlp = badly()
    s = choose_scaling(nlp, "auto")
    for values in (s.columns, s.rows, np.array([s.objective])):
        np.testing.assert_array_equal(np.log2(values), np.round(np.log2(values)))  # exact in floating point
    np.testing.assert_allclose(s.columns[:2], [4e6, 5e-4], rtol=0.42)  # half a power of two
    inner, _ = scaled(nlp, s)
    largest = np.abs(inner.jac(inner.x0)[1].full()).max(axis=1)
    np.testing.assert_allclose(np.log2(largest), [np.log2(largest[0]), 0], atol=0.51)
    assert largest[0] == pytest.approx(4e9 * 2.0 ** -30, rel=0.5)  # factors are cut at 2^-30
    assert choose_scaling(nlp, "none").objective == 1.0
    assert np.all(choose_scaling(nlp, "bounds").rows == 1.0)
    assert np.all(choose_scaling(nlp, "jacobian").columns == 1.0)
    np.testing.assert_array_equal(choose_scaling(nlp, "auto", np.array([8.0, 2.0, 0.5])).columns, [8, 2, 0.5])
    assert sentence(Scaling("auto", np.array([0.5, 4.0]), np.array([2.0]), 8.0).finding) == \
        "scaling auto: columns 0.5 to 4, constraints 2 to 2, objective 8"
    with pytest.raises(ProblemError, match="scaling must be one of"):
        choose_scaling(nlp, "max")
    with pytest.raises(ProblemError, match="3 positive numbers"):
        choose_scaling(nlp, "auto", np.array([1.0, 0.0, 1.0]))
    with pytest.raises(ProblemError, match="did you mean 'auto'"):
        SolverOptions(scaling="autos")


@pytest.mark.parametrize("solver", ["ipopt", "interior_point"])
@pytest.mark.parametrize("how", ["bounds", "jacobian", "auto"])
def test_answers_and_multipliers_come_back_unscaled(solver, how):
    nlp = staged(order=3, limit=2.0)
    plain = solve_nlp(nlp, SolverOptions())
    found = prepare_solver(nlp, SolverOptions(solver=solver, scaling=how)).solve()
    assert found.status is Status.CONVERGED
    np.testing.assert_allclose(found.x, plain.x, atol=1e-6)
    np.testing.assert_allclose(found.lam_g, plain.lam_g, atol=1e-5)
    np.testing.assert_allclose(found.lam_x, plain.lam_x, atol=1e-5)
    assert found.iterations[-1]["objective"] == pytest.approx(plain.f, rel=1e-6)
    assert (found.findings[0].kind, found.findings[0].name) == (Kind.SCALED, how)


def test_stages_survive_scaling():
    nlp = staged(order=3, limit=2.0, factor=5.0)
    plain, found = solve_nlp(nlp, SolverOptions()), solve_nlp(nlp, SolverOptions(solver="fatrop", scaling="auto"))
    assert found.status is Status.CONVERGED
    np.testing.assert_allclose(found.x, plain.x, atol=1e-6)
    np.testing.assert_allclose(found.lam_g, plain.lam_g, atol=1e-5)


def test_a_badly_scaled_program_becomes_easy():
    nlp = badly()
    found = solve_nlp(nlp, SolverOptions(solver="interior_point", scaling="auto"))
    assert found.status is Status.CONVERGED
    # unscaled, by hand: 1e3 x0 + 1e13 x1 = 2e9 with x0 = 1e6 a, x1 = 1e-4 b is a + b = 2
    easy = program(3, lambda x: (x[0] - 2) ** 2 + (x[1] - 1) ** 4 + (x[2] - 1) ** 2 + x[2] * x[0],
                   lambda x: [x[0] + x[1], x[2] ** 2 + x[0]], [0.5, 2, 0.5], x_bounds=np.array([[0, 0, -INF], [4, 5, INF]]),
                   g_bounds=np.array([[2, -INF], [2, 1.5]]))
    other = solve_nlp(easy, SolverOptions())
    np.testing.assert_allclose(found.x * [1e-6, 1e4, 1], other.x, atol=1e-6)
    np.testing.assert_allclose(found.lam_g * [1e5 * 1e9, 1e5], other.lam_g, atol=1e-5)
    assert kkt(nlp, found.x, found.lam_x, found.lam_g).stationarity < 1e-9


def test_progress_watch_and_warm_starts_speak_of_the_program_itself():
    nlp, seen, points = replace(badly(), diagnose=None), [], []
    solver = prepare_solver(nlp, SolverOptions(solver="interior_point", scaling="auto"))
    cold = solver.solve(progress=seen.append, watch_point=(lambda: True, lambda point, rows: points.append(point)))
    assert [row["objective"] for row in seen] == [row["objective"] for row in cold.iterations]
    np.testing.assert_allclose(points[-1].x, cold.x)
    np.testing.assert_allclose(points[-1].lam_g, cold.lam_g)
    assert seen[0]["objective"] == pytest.approx(float(nlp.f(nlp.x0)), rel=1e-12)
    assert len(solver.solve(warm=points[-1]).iterations) == 1


def test_unknowns_with_tiny_bounds_keep_them():
    """Solvers relax bounds by absolute amounts: a thousandth of a bound of 1e-6 is seen in the solution."""
    nlp = program(3, lambda x: -x[0] - 1e6 * x[1] + x[2] ** 2, lambda x: [x[0] - x[2]], [0.0, 0.0, 0.0], rows=("same",),
                  x_bounds=np.array([[-INF, -1e-6, 0.0], [INF, 1e-6, 0.0]]))
    found = extraordinary(nlp)
    np.testing.assert_array_equal(found.columns, [1.0, 2.0 ** -20, 1.0])  # what is free or fixed at nothing keeps its unit
    assert (found.how, found.reasons[0]) == ("guess", "bounds")
    assert extraordinary(scaled(nlp, found)[0]) is None


def test_rows_in_tiny_numbers_are_lifted_name_by_name():
    """A row of size 1e-6 is below what a solver tells from nothing; rows of one name share a factor."""
    nlp = program(2, lambda x: x[0] ** 2 + x[1] ** 2, lambda x: [1e-6 * x[0], 3e-9 * x[1], 2.0 * x[1]], [3.0, 3.0],
                  rows=("near @ knot 0", "near @ knot 1", "far"), g_bounds=np.array([[1e-6, 3e-9, -INF], [INF, INF, INF]]))
    factors = extraordinary(nlp)
    np.testing.assert_array_equal(factors.rows, [2.0 ** 18, 2.0 ** 18, 0.125])
    np.testing.assert_array_equal(factors.columns, 4.0)
    assert extraordinary(scaled(nlp, factors)[0]) is None
    inner, way = scaled(nlp, factors)
    found = way.result(solve_nlp(inner, SolverOptions()))
    np.testing.assert_allclose(found.x[0], 1.0, rtol=1e-7)
    np.testing.assert_allclose(found.lam_g[0], -2e6, rtol=1e-6)


@pytest.mark.parametrize("solver", ["ipopt", "interior_point"])
def test_a_program_in_huge_numbers_is_solved_by_the_same_iterations_in_any(solver):
    """Unknowns, rows and objective in other units, by powers of two: the scaled programs are the same to the bit."""
    def rosenbrock(a, b, c, d):
        return program(2, lambda x: d * ((x[0] / a - 1) ** 2 + 100 * (x[1] / b - (x[0] / a) ** 2) ** 2),
                       lambda x: [c * ((x[0] / a) ** 2 + (x[1] / b) ** 2)], [-1.2 * a, 1.0 * b],
                       x_bounds=np.array([[-2 * a, -INF], [2 * a, INF]]), g_bounds=np.array([[-INF], [1.5 * c]]))

    def solved(nlp):
        inner, way = scaled(nlp, extraordinary(nlp))
        return way.result(solve_nlp(inner, SolverOptions(solver=solver)))

    units = ((2.0**12, 1.0, 1.0, 1.0), (1.0, 2.0**15, 2.0**8, 1.0), (2.0**-14, 1.0, 2.0**-9, 2.0**6), (1.0, 1.0, 1.0, 2.0**30),
             (1.0, 1.0, 2.0**20, 1.0))
    first, *others = (solved(rosenbrock(*by)) for by in units)
    assert first.status is Status.CONVERGED
    assert len(first.iterations) > 8
    for other in others:
        assert [row["inf_du"] for row in other.iterations] == [row["inf_du"] for row in first.iterations]
    assert extraordinary(rosenbrock(1.0, 1.0, 1.0, 1.0)) is None


def test_rounding_at_the_first_point_is_no_size():
    nlp = program(3, lambda x: x[0] ** 2 + x[1] ** 2 + x[2] ** 2, lambda x: [x[0] + x[1] + x[2]], [4000.0, 1e-13, 1e-13],
                  x_bounds=np.array([[-INF, -INF, -8.0], [INF, INF, 8.0]]))
    np.testing.assert_array_equal(extraordinary(nlp).columns, [4096.0, 1.0, 8.0])


def test_what_equations_determine_tells_no_unit():
    """Accelerations of a robot at rest are rounding: of an unknown that equations determine no size is extraordinary."""
    for size in (9e-7, 3e3):
        given = {"n": 3, "objective": lambda x: ca.sumsqr(x), "constraints": lambda x: [x[1] + x[2]], "x0": [1.0, size, 1.0]}
        assert extraordinary(program(**given)).reasons == ("unknowns",)
        assert extraordinary(program(**given, algebraic=np.array([1]))) is None


@pytest.mark.parametrize("curvature", [0.01, 0.5, 20.0])
def test_beside_equations_the_objective_is_curved_by_one(curvature):
    nlp = program(2, lambda x: curvature * (x[0] - 1)**2 / 2, lambda x: [x[0] + x[1]], [1.0, 1.0], algebraic=np.array([1]))
    factor = beside_equations(nlp)
    assert factor == max(1.0, 2.0**-np.round(np.log2(curvature)))
    assert beside_equations(replace(nlp, algebraic=np.zeros(0, dtype=int))) == lifted(nlp)
