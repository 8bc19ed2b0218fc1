"""Quadratic programmes: closed forms, an independent active-set enumeration, certificates of infeasibility, repeatability."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from ocp.errors import ProblemError
from ocp.solvers.interior_qp import interior_point
from ocp.solvers.qp import QP, QPOptions, QPStatus, residuals, solve_qp


def enumerated(P, q, A, l, u):
    """Optimum of a strictly convex programme by trying every active set (each row free, at l or at u)."""
    n, best = len(q), None
    for sides in itertools.product((0, -1, 1), repeat=len(l)):
        rows = [i for i, s in enumerate(sides) if s]
        if len(rows) > n or any(not np.isfinite(l[i] if s < 0 else u[i]) for i, s in enumerate(sides) if s):
            continue
        b = np.array([l[i] if sides[i] < 0 else u[i] for i in rows])
        B = A[rows]
        K = np.block([[P, B.T], [B, np.zeros((len(rows),) * 2)]])
        if np.linalg.matrix_rank(K) < len(K):
            continue
        x = np.linalg.solve(K, np.r_[-q, b])[:n]
        z = A @ x
        if (z >= l - 1e-9).all() and (z <= u + 1e-9).all():
            value = 0.5 * x @ P @ x + q @ x
            if best is None or value < best[0] - 1e-12:
                best = (value, x)
    return best


def test_small_programs_against_every_active_set():
    rng = np.random.default_rng(1)
    for _ in range(40):
        n, m = int(rng.integers(1, 5)), int(rng.integers(1, 6))
        G = rng.standard_normal((n, n))
        P, q, A = G.T @ G + 0.1 * np.eye(n), rng.standard_normal(n) * 3, rng.standard_normal((m, n))
        z = A @ rng.standard_normal(n)
        l, u = z - rng.exponential(0.5, m), z + rng.exponential(0.5, m)
        l[rng.random(m) < 0.2] = -np.inf
        answer = solve_qp(QP(P, q, A, l, u))
        value, x = enumerated(P, q, A, l, u)
        assert answer.ok
        assert answer.exact
        assert answer.objective == pytest.approx(value, abs=1e-11 * (1 + abs(value)))
        np.testing.assert_allclose(answer.x, x, atol=1e-10)


def test_random_programs_of_every_kind_are_exact():
    """Singular P, dependent and equal rows, one-sided rows, badly scaled costs; residuals recomputed by the definition here."""
    rng = np.random.default_rng(2)
    solved = 0
    for _ in range(200):
        n, m = int(rng.integers(2, 30)), int(rng.integers(1, 40))
        G = rng.standard_normal((int(rng.integers(1, n + 1)), n))
        P = G.T @ G * 10 ** rng.uniform(-2, 2)
        A = rng.standard_normal((m, n))
        if m > 3:
            A[-1] = A[0]  # the same row twice
        z = A @ rng.standard_normal(n)
        l, u = z - rng.exponential(1, m), z + rng.exponential(1, m)
        equal = rng.random(m) < 0.15
        l[equal] = u[equal] = z[equal]
        # a cost with a minimum: q is the gradient of something bounded
        q = P @ rng.standard_normal(n) - A.T @ rng.standard_normal(m)
        answer = solve_qp(QP(P, q, A, l, u))
        assert answer.status is QPStatus.SOLVED, answer
        x, y = answer.x, answer.y
        scale = 1 + max(np.abs(P @ x).max(), np.abs(q).max(), np.abs(A.T @ y).max(), np.abs(A @ x).max())
        assert np.abs(P @ x + q + A.T @ y).max() < 1e-11 * scale
        assert (A @ x >= l - 1e-11 * scale).all()
        assert (A @ x <= u + 1e-11 * scale).all()
        pushed = np.abs(np.where(y > 0, u - A @ x, A @ x - l)) * (np.abs(y) > 1e-9 * scale)
        assert pushed.max() < 1e-9 * scale
        solved += answer.exact
    assert solved > 195  # the exact step closes nearly always


def test_known_answers():
    # projection of (2, 2) onto the unit simplex edge x + y <= 1
    answer = solve_qp(QP(np.eye(2), [-2.0, -2.0], [[1.0, 1.0]], [-np.inf], [1.0]))
    np.testing.assert_allclose(answer.x, [0.5, 0.5], atol=1e-14)
    np.testing.assert_allclose(answer.y, [1.5], atol=1e-13)
    assert answer.active.tolist() == [1]
    # a linear programme: P = 0
    corner = solve_qp(QP(np.zeros((2, 2)), [-1.0, -2.0], np.eye(2), [0.0, 0.0], [3.0, 4.0]))
    np.testing.assert_allclose(corner.x, [3.0, 4.0], atol=1e-12)
    # no rows at all, and a cost that is flat in one direction
    flat = solve_qp(QP(np.diag([2.0, 0.0]), [-4.0, 0.0]))
    np.testing.assert_allclose(flat.x, [2.0, 0.0], atol=1e-14)


def test_infeasible_and_unbounded_are_reported_with_a_certificate():
    A = np.array([[1.0, 1.0], [1.0, 1.0]])
    l, u = np.array([2.0, -np.inf]), np.array([np.inf, 1.0])
    none = solve_qp(QP(np.eye(2), [0.0, 0.0], A, l, u))
    assert none.status is QPStatus.INFEASIBLE
    assert not none.ok
    y = none.y
    assert np.abs(A.T @ y).max() < 1e-6
    assert u[1] * max(y[1], 0) + l[0] * min(y[0], 0) < -1e-3
    falls = solve_qp(QP(np.diag([1.0, 0.0]), [0.0, -1.0], [[1.0, 0.0]], [-1.0], [1.0]))
    assert falls.status is QPStatus.UNBOUNDED
    assert falls.x[1] > 0.5
    assert abs(falls.x[0]) < 1e-6
    assert solve_qp(QP(np.zeros((1, 1)), [1.0])).status is QPStatus.UNBOUNDED


def test_inputs_are_left_alone_and_answers_repeat():
    rng = np.random.default_rng(3)
    P, q, A = np.eye(6), rng.standard_normal(6), rng.standard_normal((9, 6))
    l, u = -np.ones(9), np.full(9, 0.2)
    l[0] = -np.inf
    copies = [x.copy() for x in (P, q, A, l, u)]
    qp = QP(P, q, A, l, u)
    first, second = solve_qp(qp), solve_qp(qp)
    assert first.x.tobytes() == second.x.tobytes()
    assert first.y.tobytes() == second.y.tobytes()
    for now, then in zip((P, q, A, l, u), copies, strict=True):
        np.testing.assert_array_equal(now, then)
    x0, y0 = first.x.copy(), first.y.copy()
    again = solve_qp(qp, x0=x0, y0=y0)
    assert again.iterations == 0  # the answer is recognised
    np.testing.assert_array_equal(x0, first.x)
    np.testing.assert_allclose(again.x, first.x, atol=1e-12)


def test_warm_start_from_the_neighbour_and_from_a_bad_point():
    rng = np.random.default_rng(4)
    G = rng.standard_normal((8, 8))
    P, A = G.T @ G, rng.standard_normal((12, 8))
    near = solve_qp(QP(P, rng.standard_normal(8), A, -np.ones(12), np.ones(12)))
    qp = QP(P, rng.standard_normal(8), A, -np.ones(12), np.ones(12))
    cold = solve_qp(qp)
    for x0, y0 in ((near.x, near.y), (rng.standard_normal(8) * 100, rng.standard_normal(12) * 100)):
        warm = solve_qp(qp, x0=x0, y0=y0)
        assert warm.ok
        np.testing.assert_allclose(warm.x, cold.x, atol=1e-10)


def test_without_the_exact_step_osqp_alone_reaches_its_accuracy():
    rng = np.random.default_rng(5)
    G = rng.standard_normal((5, 5))
    qp = QP(G.T @ G + np.eye(5), rng.standard_normal(5), rng.standard_normal((7, 5)), -0.1 * np.ones(7), 0.1 * np.ones(7))
    plain, exact = solve_qp(qp, QPOptions(finish=False)), solve_qp(qp)
    assert not plain.exact
    np.testing.assert_allclose(plain.x, exact.x, atol=1e-6)
    assert exact.residuals.worst <= plain.residuals.worst
    few = solve_qp(qp, QPOptions(finish=False, max_iterations=1, check_interval=1))
    assert few.status is QPStatus.INACCURATE


def test_large_sparse_program():
    """1500 unknowns: the exact step takes its sparse road; a chain with end conditions is a cubic spline in closed form."""
    n = 1500
    D = sp.diags([1.0, -2.0, 1.0], [0, 1, 2], shape=(n - 2, n))
    A = sp.csc_matrix(([1.0, 1.0, 1.0], ([0, 1, 2], [0, n - 1, n // 2])), shape=(3, n))
    answer = solve_qp(QP(1e3 * (D.T @ D), np.zeros(n), A, [0.0, 1.0, -np.inf], [0.0, 1.0, 0.75]))
    assert answer.ok
    np.testing.assert_allclose(answer.x, np.linspace(0, 1, n), atol=1e-6)  # a straight line bends nothing


def test_wrong_input_is_named():
    for arguments, text in (
        ((np.eye(3), [0.0, 0.0]), "P has shape"),
        ((np.array([[1.0, 2.0], [0.0, 1.0]]), [0.0, 0.0]), "not symmetric"),
        ((np.eye(2), [np.nan, 0.0]), "q has entries"),
        ((np.eye(2), [0.0, 0.0], np.eye(2), [1.0, 0.0], [0.0, 1.0]), "row 0"),
        ((np.eye(2), [0.0, 0.0], np.eye(2), [0.0], [1.0]), "l has shape"),
        ((np.eye(1), [0.0], [[1.0]], [np.inf], [np.inf]), "row 0"),
    ):
        with pytest.raises(ProblemError, match=text):
            QP(*arguments)
    with pytest.raises(ProblemError, match="semidefinite|refuses"):
        solve_qp(QP(np.diag([1.0, -1.0]), [0.0, 0.0], np.eye(2), [-1.0, -1.0], [1.0, 1.0]))
    with pytest.raises(ProblemError, match="semidefinite"):
        solve_qp(QP(np.diag([1.0, -1.0]), [0.0, 0.0]))
    with pytest.raises(ProblemError, match="semidefinite|refuses"):  # zero is stationary there, and no optimum
        solve_qp(QP(np.diag([1.0, -1.0]), [0.0, 0.0], np.eye(2), [-1.0, -1.0], [1.0, 1.0]), x0=[0.0, 0.0])
    with pytest.raises(ProblemError, match="x0"):
        solve_qp(QP(np.eye(2), [0.0, 0.0]), x0=[1.0])
    with pytest.raises(ProblemError, match="accuracy"):
        QPOptions(accuracy=0.0)


def test_residuals_see_each_kind_of_error():
    qp = QP(np.eye(1), [0.0], [[1.0]], [1.0], [2.0])
    right = residuals(qp, [1.0], [-1.0])
    assert right.worst == 0.0
    assert residuals(qp, [0.5], [-0.5]).primal == pytest.approx(0.5)
    assert residuals(qp, [1.0], [-0.9]).dual == pytest.approx(0.1)
    assert residuals(qp, [1.5], [-1.5]).complementarity == pytest.approx(0.5)
    assert residuals(qp, [1.5], [1.0]).complementarity == pytest.approx(0.5)


def test_equations_of_very_different_scales_hide_no_violation():
    """A row with numbers of a million does not excuse another that is off by a thousandth."""
    qp = QP(np.eye(2), [0.0, 0.0], np.diag([1e6, 1.0]), [1e6, 1.0], [np.inf, np.inf])
    assert residuals(qp, [1.0, 1.0], [-1e-6, -1.0]).worst < 1e-15
    assert residuals(qp, [1.0, 0.999], [-1e-6, -0.999]).worst > 1e-4
    assert solve_qp(qp).residuals.worst < 1e-12


def scaled(seed):
    """(programme, its optimum): flat directions, dependent rows, unknowns and rows of sizes from 1e-3 to 1e3; made backwards."""
    rng = np.random.default_rng(seed)
    n, m = 14, 24
    G, A, x = rng.standard_normal((6, n)), rng.standard_normal((m, n)), rng.standard_normal(n)
    A[3], A[5] = A[4], A[6] + A[7]
    y = np.zeros(m)
    held = rng.choice(m, 11, replace=False)
    y[held] = rng.uniform(0.5, 2.0, held.size) * rng.choice([-1.0, 1.0], held.size)
    z = A @ x
    room = np.where(y == 0.0, rng.exponential(1.0, m), 0.0)
    l, u = np.where(y > 0.0, -np.inf, z - room), np.where(y < 0.0, np.inf, z + room)
    d, e = 10.0**rng.uniform(-3, 3, n), 10.0**rng.uniform(-3, 3, m)
    P, q = G.T @ G, -(G.T @ (G @ x)) - A.T @ y
    return QP(P * np.outer(d, d), q * d, A * np.outer(e, d), l * e, u * e), x / d


def test_programs_of_very_different_scales():
    """The interior-point method finds the active set of badly scaled, degenerate programmes; the answer has the known cost."""
    for seed in range(12):
        qp, x = scaled(seed)
        near = interior_point(qp.P.toarray(), qp.q, qp.A.toarray(), qp.l, qp.u)
        answer, best = solve_qp(qp), 0.5 * x @ (qp.P @ x) + qp.q @ x
        assert answer.ok
        assert answer.objective == pytest.approx(best, rel=1e-6)
        assert near is not None
        assert 0.5 * near[0] @ (qp.P @ near[0]) + qp.q @ near[0] == pytest.approx(best, rel=1e-6)


def test_nothing_is_printed(capfd):
    solve_qp(QP(np.eye(2), [0.1, 0.1], np.eye(2), [-9.0, -9.0], [9.0, 9.0]))
    out, err = capfd.readouterr()
    assert out == ""
    assert err == ""


def test_the_exact_step_exchanges_wrong_rows():
    """From the wrong end of the interval, with a multiplier that claims it: one row leaves, another enters, no iteration."""
    answer = solve_qp(QP([[2.0]], [-4.0], [[1.0]], [0.0], [1.0]), x0=[0.0], y0=[-5.0])
    assert answer.iterations == 0
    assert answer.exact
    np.testing.assert_allclose(answer.x, [1.0], atol=1e-15)
    np.testing.assert_allclose(answer.y, [2.0], atol=1e-14)
