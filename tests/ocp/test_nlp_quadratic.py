"""Quadratic programs inside SQP: inertia against eigenvalues, answers against OSQP's and against every active set."""

from __future__ import annotations

import itertools

import casadi as ca
import numpy as np
import pytest
import scipy.linalg

from ocp import qp as osqp_room
from ocp.nlp.sqp.elastic import Elastic
from ocp.nlp.sqp.interior import Quadratic, interior
from ocp.nlp.sqp.kkt_system import factorise, pattern, regularised, system
from ocp.nlp.sqp.quadratic import Quick, solve_quadratic

INF = np.inf


def dense(H, A, c, low, high, lower, upper):
    n, m = len(c), len(A)
    hr, hc = np.triu_indices(n)
    ar, ac = (i.ravel() for i in np.indices((m, n)))
    shape = pattern(n, m, (hr, hc), (ar, ac))
    return Quadratic(system(shape, H[hr, hc], A[ar, ac]), c, *(np.array(v, dtype=float) for v in (low, high, lower, upper)))


def random(seed, n=8, m=4, convex=True, equations=2):
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(n, n))
    H = B @ B.T / n if convex else (B + B.T) / 2
    A, inside = rng.normal(size=(m, n)), rng.normal(size=n)
    value = A @ inside
    low, high = value - rng.uniform(0.1, 1, m), value + rng.uniform(0.1, 1, m)
    low[:equations] = high[:equations] = value[:equations]
    low[-1] = -INF
    return H, A, rng.normal(size=n) * 3, low, high, inside - rng.uniform(0.1, 1, n), inside + rng.uniform(0.1, 1, n)


@pytest.mark.parametrize("seed", range(12))
def test_inertia_says_whether_the_reduced_hessian_is_convex(seed):
    H, A, *_ = data = random(seed, convex=False)
    H = H + 0.3 * seed * np.eye(len(H))  # from indefinite to convex
    qp = dense(H, *data[1:])
    null = scipy.linalg.null_space(A)
    convex = bool(np.linalg.eigvalsh(null.T @ H @ null).min() > 0)
    on = np.ones(len(H) + len(A))
    solve = factorise(qp.system, np.zeros(len(H)), np.zeros(len(A)), on)
    assert (solve is not None) == convex
    again, delta = regularised(qp.system, np.zeros(len(H)), np.zeros(len(A)), on, 0.0, 0.0)
    assert (delta > 0) == (not convex)
    assert np.linalg.eigvalsh(null.T @ (H + delta * np.eye(len(H))) @ null).min() > 0
    rhs = np.random.default_rng(seed).normal(size=len(on))
    K = np.block([[H + delta * np.eye(len(H)), A.T], [A, np.zeros((len(A), len(A)))]])
    np.testing.assert_allclose(again(rhs), np.linalg.solve(K, rhs), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_convex_programs_agree_with_osqp(seed):
    H, A, c, low, high, lower, upper = random(seed)
    qp = dense(H, A, c, low, high, lower, upper)
    found = solve_quadratic(qp, None, 0.0)
    other = osqp_room.solve_qp(osqp_room.QP(H, c, np.vstack([A, np.eye(len(c))]), np.r_[low, lower], np.r_[high, upper]))
    np.testing.assert_allclose(found.d, other.x, atol=1e-7)
    assert found.exact
    np.testing.assert_allclose(H @ found.d + c + A.T @ found.lam_g + found.lam_x, 0, atol=1e-10)
    inner = interior(qp, qp.low == qp.high, 0.0, 0.0, 1e-9)
    np.testing.assert_allclose(inner.d, found.d, atol=1e-6)
    np.testing.assert_array_equal(inner.active, found.active)
    again = solve_quadratic(qp, found.active, 0.0)
    assert again.systems == 1
    np.testing.assert_array_equal(again.d, found.d)
    quick = Quick(ca.Sparsity.upper(len(c)), ca.Sparsity.dense(*A.shape)).active(qp, 0.0)
    np.testing.assert_array_equal(np.where(qp.low == qp.high, 2, quick), found.active)


@pytest.mark.parametrize("seed", range(6))
def test_indefinite_programs_end_at_local_minima(seed):
    H, A, c, low, high, lower, upper = random(100 + seed, n=5, m=3, convex=False, equations=1)
    found = solve_quadratic(dense(H, A, c, low, high, lower, upper), None, 0.0)
    value = A @ found.d
    assert np.all(value >= low - 1e-8)
    assert np.all(value <= high + 1e-8)
    assert np.all(found.d >= lower - 1e-8)
    assert np.all(found.d <= upper + 1e-8)
    regular = H + found.delta * np.eye(5)
    np.testing.assert_allclose(regular @ found.d + c + A.T @ found.lam_g + found.lam_x, 0, atol=1e-7)
    cost = 0.5 * found.d @ regular @ found.d + c @ found.d
    rng = np.random.default_rng(seed)
    null = scipy.linalg.null_space(A[:1])
    for _ in range(300):  # nearby feasible points cost no less
        trial = found.d + null @ rng.normal(size=null.shape[1]) * 1e-4
        inside = np.all(A @ trial >= low - 1e-12) and np.all(A @ trial <= high + 1e-12)
        if inside and np.all(trial >= lower) and np.all(trial <= upper):
            assert 0.5 * trial @ regular @ trial + c @ trial >= cost - 1e-12


def test_contradicting_rows_have_no_answer_but_an_elastic_one():
    # d0 + d1 = 3 and d0 - d1 = 0 inside [-1, 1]^2: sum of violations is least with d0 = d1 = 1
    A, c = np.array([[1.0, 1.0], [1.0, -1.0]]), np.zeros(2)
    qp = dense(np.eye(2), A, c, [3, 0], [3, 0], [-1, -1], [1, 1])
    assert solve_quadratic(qp, None, 0.0) is None
    every = np.arange(2)
    rows, columns = (i.ravel() for i in np.indices((2, 2)))
    found = Elastic(2, 2, (every, every), (rows, columns)).solve(np.ones(2), A.ravel(), qp, 100.0)
    np.testing.assert_allclose(found.d, [1, 1], atol=1e-7)


def test_the_best_of_all_active_sets():
    H, A, c, low, high, lower, upper = random(7, n=3, m=1, equations=0)
    low[-1] = -0.1 + A[-1] @ (lower + upper) / 2
    high[-1] = low[-1] + 0.5
    found = solve_quadratic(dense(H, A, c, low, high, lower, upper), None, 0.0)
    rows, lows, highs = np.vstack([np.eye(3), A]), np.r_[lower, low], np.r_[upper, high]
    best = INF
    for choice in itertools.product((-1, 0, 1), repeat=4):
        active = np.flatnonzero(choice)
        if len(active) > 3:
            continue
        bound = np.where(np.array(choice)[active] > 0, highs[active], lows[active])
        K = np.block([[H, rows[active].T], [rows[active], np.zeros((len(active), len(active)))]])
        d = np.linalg.lstsq(K, np.r_[-c, bound], rcond=None)[0][:3]
        if np.all(rows @ d >= lows - 1e-9) and np.all(rows @ d <= highs + 1e-9):
            best = min(best, 0.5 * d @ H @ d + c @ d)
    assert 0.5 * found.d @ H @ found.d + c @ found.d == pytest.approx(best, abs=1e-9)
