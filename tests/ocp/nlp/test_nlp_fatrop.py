"""FATROP on programs whose stages are stated: against IPOPT, in any order of rows and columns, and when things go wrong."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import direct_problems as direct
import numpy as np
import pytest
from nlp_programs import program, scaled, staged, with_functions

from ocp.errors import ProblemError
from ocp.methods import solve
from ocp.nlp import SolverOptions, Stages, check_stages, kkt, prepare_solver, solve_nlp
from ocp.problem import Finding, Kind, Status

FATROP = SolverOptions(solver="fatrop")


@pytest.mark.parametrize(("order", "factor", "limit"), [(None, -1.0, np.inf), (3, -1.0, 2.0), (4, 2.5, 2.0)])
def test_same_point_and_multipliers_as_ipopt(order, factor, limit):
    nlp = staged(order=order, factor=factor, limit=limit)
    found, other = solve_nlp(nlp, FATROP), solve_nlp(nlp, SolverOptions())
    assert found.status is Status.CONVERGED
    assert found.ending is None
    np.testing.assert_allclose(found.x, other.x, atol=1e-6)
    np.testing.assert_allclose(found.lam_g, other.lam_g, atol=1e-5)
    np.testing.assert_allclose(found.lam_x, other.lam_x, atol=1e-5)
    assert found.lam_g[nlp.constraints.index("far")] > 0.01  # active, as an upper bound
    residuals = kkt(nlp, found.x, found.lam_x, found.lam_g)
    assert max(residuals.stationarity, residuals.complementarity, residuals.largest_violation) < 1e-7
    assert found.n_evaluations > 0
    assert 0 < found.seconds["functions"] < found.seconds["solver"]


def test_false_statements_are_refused_by_name():
    nlp = staged(6)
    s = nlp.stages
    np.testing.assert_array_equal(check_stages(nlp), -1.0)
    assert set(check_stages(staged(6, order=1, factor=2.0))) == {2.0, -1.0}
    wrong = {
        "gap 1.0: depends on 'x1.0.' of stage 1, but is a constraint of stage 2, the next state of which is 'x3.0.'": replace(
            s, dynamics=(s.dynamics[0], s.dynamics[2], s.dynamics[1], *s.dynamics[3:])),
        "far: depends on 'x2.0.' of stage 2, but is a constraint of stage 3": replace(
            s, path=(*s.path[:2], s.path[3], s.path[2], *s.path[4:])),
        "x6.1.: stages: this column belongs to no stage": replace(
            s, states=(*s.states[:-1], s.states[-1][:1]), dynamics=(*s.dynamics[:-1], s.dynamics[-1][:1])),
        "u0: stages: this column belongs to 2 stages": replace(s, controls=(s.controls[0], np.r_[s.controls[1], s.controls[0]],
                                                                            *s.controls[2:])),
        "does not depend on its next state|depends on 'x1": replace(s, dynamics=(s.dynamics[0][::-1], *s.dynamics[1:])),
    }
    for words, stages in wrong.items():
        with pytest.raises(ProblemError, match=words):
            solve_nlp(replace(nlp, stages=stages), FATROP)
    with pytest.raises(ProblemError, match="dynamics.0. has 1 equations, but x_1 has 2"):
        replace(s, dynamics=(s.dynamics[0][:1], *s.dynamics[1:]))
    with pytest.raises(ProblemError, match="has no stages"):
        solve_nlp(replace(nlp, stages=None), FATROP)
    free = nlp.g_upper.copy()
    free[0] = 1.0
    with pytest.raises(ProblemError, match="gap 0.0: belongs to the dynamics but is not an equation"):
        solve_nlp(replace(nlp, g_upper=free), FATROP)


def chain(rows, objective=lambda x: ca.sumsqr(x)):
    """x0, u0, x1 of one entry each."""
    one = [np.array([i]) for i in range(3)]
    none = np.empty(0, dtype=int)
    return program(3, objective, rows, [0.5, 0.1, 0.3], g_bounds=(0, 0), rows=("step",), names=("x0", "u0", "x1"),
                   stages=Stages((one[0], one[2]), (one[1], none), (one[0],), (none, none)))


def test_the_next_state_must_stand_alone_and_the_objective_be_a_sum():
    with pytest.raises(ProblemError, match="step: must depend on its next state 'x1' by a constant factor"):
        check_stages(chain(lambda x: [x[0] + x[1] - ca.sin(x[2])]))
    with pytest.raises(ProblemError, match="couples 'x0' of stage 0 and 'x1' of stage 1"):
        check_stages(chain(lambda x: [x[0] + x[1] - x[2]], lambda x: (x[0] - x[2]) ** 2 + x[1] ** 2))
    # x1 = x0 + u0: the least sum of squares is 0
    found = solve_nlp(chain(lambda x: [3 * (x[2] - x[0] - x[1])]), FATROP)
    assert found.status is Status.CONVERGED
    np.testing.assert_allclose(found.x, 0, atol=1e-8)


def test_fatrop_uses_the_derivatives_it_is_given():
    right = solve_nlp(staged(), FATROP)
    for name, factor in (("grad", 1.5), ("hess", 3.0)):
        nlp = staged()
        other = solve_nlp(with_functions(nlp, **{name: scaled(getattr(nlp, name), factor)}),
                          replace(FATROP, max_iterations=30))
        assert [r["objective"] for r in other.iterations] != [r["objective"] for r in right.iterations], name


def test_infeasible_and_short_of_iterations():
    found = solve_nlp(staged(limit=0.01), replace(FATROP, max_iterations=200))
    assert found.status is Status.INFEASIBLE
    assert found.ending.kind is Kind.LARGEST_VIOLATION
    short = solve_nlp(staged(limit=2.0), replace(FATROP, max_iterations=2))
    assert short.status is Status.ITERATION_LIMIT
    assert len(short.iterations) == 3


def test_not_a_number_is_named_and_never_hangs():
    start = replace(chain(lambda x: [ca.sqrt(x[0]) + x[1] - x[2]]), x0=np.array([-1.0, 0.0, 0.0]))
    found = solve_nlp(start, FATROP)
    assert found.status is Status.NOT_A_NUMBER
    assert found.ending.kind is Kind.NOT_FINITE
    assert found.ending.data["found"] == (Finding(Kind.CONSTRAINT_NOT_FINITE, name="step"),)
    # full steps leave the domain of the logarithm: trial points fail, the line search shortens the step
    nlp = chain(lambda x: [x[0] + x[1] - x[2]], lambda x: 30 * x[0] - ca.log(x[0]) + x[1] ** 2 + x[2] ** 2)
    inside = solve_nlp(nlp, FATROP)
    assert inside.status is Status.CONVERGED
    np.testing.assert_allclose(inside.x, solve_nlp(nlp, SolverOptions()).x, atol=1e-7)


def test_a_hessian_that_is_not_finite_does_not_hang():
    nlp = staged(limit=2.0)
    x, sigma, lam = ca.SX.sym("x", nlp.n), ca.SX.sym("sigma"), ca.SX.sym("lam", nlp.m)
    here = ca.if_else(x[3] < 10, ca.inf - ca.inf, 1.0) * 1.0
    broken = ca.Function("hessian", [x, sigma, lam], [nlp.hess(x, sigma, lam) * here])
    found = solve_nlp(with_functions(nlp, hess=broken), replace(FATROP, max_iterations=50))
    assert len(found.iterations) <= 51
    assert np.all(np.isfinite(found.x))


def test_prepared_solver_starts_anywhere_and_warm():
    nlp = staged(order=5, limit=2.0)
    solver = prepare_solver(nlp, FATROP)
    cold = solver.solve()
    other = solver.solve(x0=nlp.x0 + 0.1)
    np.testing.assert_allclose(other.x, cold.x, atol=1e-6)
    warm = solver.solve(warm=cold)
    assert warm.status is Status.CONVERGED
    assert len(warm.iterations) < len(cold.iterations)
    np.testing.assert_allclose(warm.x, cold.x, atol=1e-7)


def test_what_fatrop_cannot_do_is_refused():
    with pytest.raises(ProblemError, match="fatrop with hessian limited_memory"):
        SolverOptions(solver="fatrop", hessian="limited_memory")


@pytest.mark.parametrize(("method", "options"), [("collocation", {"scheme": "gauss", "intervals": 5}),
                                                 ("collocation", {"intervals": 10}),
                                                 ("multiple_shooting", {"intervals": 20})], ids=str)
def test_it_stops_where_only_multipliers_are_left_to_find(method, options):
    """Two phases of free duration: at the last barrier parameter the motion stands still and the multipliers of the copies have to
    move. FATROP's own rule for tiny steps would leave them where they are, for as many iterations as it is given."""
    found, other = (solve(direct.bouncing_ball(), method, {**options, "solver": solver}) for solver in ("fatrop", "ipopt"))
    assert found.status is Status.CONVERGED
    assert found.findings == other.findings
    assert len(found.iterations) <= 2.5 * len(other.iterations)
    assert found.objective == pytest.approx(other.objective, rel=1e-9)
    assert max(found.optimality.residuals()) < 1e-8
