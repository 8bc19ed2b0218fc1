"""Task hierarchies: priorities hold in a thousand stacks, also conflicting and rank-deficient ones; optimality by independent
roads."""

import numpy as np
import pytest
import scipy.linalg

from ocp.control.notation.prioritised import Level, solve_levels, stacked, two_levels
from ocp.errors import ProblemError


def random_stack(rng):
    """Levels with duplicates, combinations of higher rows (feasible or conflicting), rank-deficient and nearly deficient
    Jacobians."""
    n = int(rng.integers(2, 12))
    levels = []
    for _ in range(int(rng.integers(2, 6))):
        m = int(rng.integers(1, n + 2))
        J = rng.standard_normal((m, n)) * 10 ** rng.uniform(-1, 1)
        kind = rng.integers(0, 6)
        if kind == 0 and m > 1:
            r = int(rng.integers(1, m))
            J = rng.standard_normal((m, r)) @ rng.standard_normal((r, n))
        elif kind == 1 and levels:
            above = np.vstack([level[0] for level in levels])
            J = rng.standard_normal((m, above.shape[0])) @ above  # conflicts with the higher levels
        elif kind == 2:
            J[-1] = J[0] * (1 + 1e-9) + 1e-9 * rng.standard_normal(n)  # nearly dependent
        elif kind == 3:
            J[:, int(rng.integers(0, n))] = 0.0
        elif kind == 4 and m > 1:
            J[0] = 0.0
        levels.append((J, rng.standard_normal(m)))
    return levels


@pytest.mark.row("001:K58")
def test_a_lower_level_never_moves_a_higher_one_in_a_thousand_stacks():
    rng = np.random.default_rng(7)
    worst = 0.0
    for _ in range(1000):
        levels = random_stack(rng)
        before: list = []
        for k in range(1, len(levels) + 1):
            now = solve_levels(levels[:k]).residuals
            for higher, then in zip(now, before, strict=False):
                worst = max(worst, float(np.abs(higher - then).max()))
            before = list(now)
    assert worst < 1e-9


@pytest.mark.row("001:K58")
def test_each_level_is_optimal_given_those_above():
    """Independent road: least squares with the optimal values of all higher levels as equations (scipy, null space by QR of the
    stack)."""
    rng = np.random.default_rng(8)
    for _ in range(150):
        n = int(rng.integers(3, 10))
        levels = [(rng.standard_normal((int(rng.integers(1, n)), n)), None) for _ in range(3)]
        levels = [(J, rng.standard_normal(J.shape[0])) for J, _ in levels]
        if rng.random() < 0.3:
            levels[1] = (rng.standard_normal((2, levels[0][0].shape[0])) @ levels[0][0], rng.standard_normal(2))
        got = solve_levels(levels)
        x, rows = np.zeros(n), np.zeros((0, n))
        for (J, w), residual in zip(levels, got.residuals, strict=True):
            basis = scipy.linalg.null_space(rows, rcond=1e-9) if rows.size else np.eye(n)
            if basis.shape[1] and np.linalg.norm(J @ basis) > 1e-9 * np.linalg.norm(J):  # rounding is not freedom
                x = x + basis @ scipy.linalg.lstsq(J @ basis, w - J @ x, cond=1e-9)[0]
            assert np.linalg.norm(residual) == pytest.approx(np.linalg.norm(w - J @ x), abs=1e-9)
            rows = np.vstack([rows, J])


@pytest.mark.row("001:K58")
def test_the_recursion_by_projectors_and_its_index():
    """The sum of N_{i-1} q_i with N_i = null([J_1..J_i]) written out; with N_i = null([J_1..J_{i-1}]) tasks would be missed."""
    rng = np.random.default_rng(9)
    levels = [(rng.standard_normal((2, 8)), rng.standard_normal(2)) for _ in range(3)]

    def recursion(shift):
        total, N = np.zeros(8), np.eye(8)
        for i, (J, w) in enumerate(levels):
            total = total + N @ (np.linalg.pinv(J @ N, 1e-9) @ (w - J @ total))
            above = np.vstack([J for J, _ in levels[: i + 1 - shift]]) if i + 1 > shift else np.zeros((1, 8))
            N = np.eye(8) - np.linalg.pinv(above, 1e-9) @ above
        return total

    got = solve_levels(levels)
    np.testing.assert_allclose(got.v, recursion(0), atol=1e-12)
    assert max(np.abs(r).max() for r in got.residuals) < 1e-12
    off_by_one = recursion(1)
    assert max(np.abs(w - J @ off_by_one).max() for J, w in levels) > 1e-2
    for i, N in enumerate(got.projectors):
        np.testing.assert_allclose(N @ N, N, atol=1e-12)
        np.testing.assert_allclose(N, N.T, atol=1e-15)
        if i:
            np.testing.assert_allclose(np.vstack([J for J, _ in levels[:i]]) @ N, 0.0, atol=1e-12)
    np.testing.assert_allclose(got.contributions.sum(axis=0), got.v, atol=1e-14)
    assert got.ranks == (2, 2, 2)
    assert got.free.shape == (8, 2)


@pytest.mark.row("001:K57")
def test_two_levels_as_the_formula_says():
    rng = np.random.default_rng(10)
    for _ in range(50):
        n = int(rng.integers(3, 9))
        J1, J2 = rng.standard_normal((int(rng.integers(1, n)), n)), rng.standard_normal((int(rng.integers(1, n)), n))
        w1, w2 = rng.standard_normal(J1.shape[0]), rng.standard_normal(J2.shape[0])
        P1 = np.linalg.pinv(J1)
        N1 = np.eye(n) - P1 @ J1
        v = P1 @ w1 + N1 @ np.linalg.pinv(J2 @ N1, 1e-8) @ (w2 - J2 @ P1 @ w1)
        np.testing.assert_allclose(two_levels(J1, w1, J2, w2), v, atol=1e-9)
        np.testing.assert_allclose(J1 @ v, w1, atol=1e-9)


def test_weights_damping_and_null_motion():
    rng = np.random.default_rng(11)
    J, w, weights = rng.standard_normal((5, 3)), rng.standard_normal(5), rng.uniform(0.1, 9.0, 5)
    root = np.sqrt(weights)[:, None]
    np.testing.assert_allclose(solve_levels([Level(J, w, weights)]).v, np.linalg.lstsq(root * J, root[:, 0] * w)[0], atol=1e-12)
    J, w = rng.standard_normal((2, 6)), rng.standard_normal(2)
    lam = 0.3
    np.testing.assert_allclose(
        solve_levels([Level(J, w, damping=lam)]).v, J.T @ np.linalg.solve(J @ J.T + lam**2 * np.eye(2), w), atol=1e-12
    )
    wish = rng.standard_normal(6)
    with_wish = solve_levels([(J, w)], null_motion=wish).v
    np.testing.assert_allclose(J @ with_wish, w, atol=1e-12)
    np.testing.assert_allclose(with_wish, np.linalg.pinv(J) @ w + (np.eye(6) - np.linalg.pinv(J) @ J) @ wish, atol=1e-12)


@pytest.mark.row("001:K55", "001:K54")
def test_equal_priority_is_least_squares_of_the_stack():
    rng = np.random.default_rng(12)
    levels = [(rng.standard_normal((3, 4)), rng.standard_normal(3)) for _ in range(3)]
    got = stacked(levels)
    J, w = np.vstack([J for J, _ in levels]), np.concatenate([w for _, w in levels])
    np.testing.assert_allclose(got.v, np.linalg.solve(J.T @ J, J.T @ w), atol=1e-12)
    assert len(got.residuals) == 3
    np.testing.assert_allclose(np.concatenate(got.residuals), w - J @ got.v, atol=1e-14)
    # weights tending to infinity on one task tend to its strict priority
    heavy = stacked([Level(levels[0][0], levels[0][1], np.full(3, 1e8)), levels[1], levels[2]], tolerance=1e-12)
    strict = solve_levels([levels[0], (J[3:], w[3:])])
    np.testing.assert_allclose(heavy.v, strict.v, atol=1e-6)


def test_wrong_input_is_named():
    for call, text in (
        (lambda: solve_levels([]), "at least one level"),
        (lambda: solve_levels([(np.eye(2), np.zeros(2)), (np.eye(3), np.zeros(3))]), "columns"),
        (lambda: Level(np.eye(2), np.zeros(3)), "one per row"),
        (lambda: Level(np.eye(2), np.zeros(2), np.array([1.0, -1.0])), "positive weights"),
        (lambda: Level(np.eye(2), np.array([np.nan, 0.0])), "not finite"),
        (lambda: Level(np.eye(2), np.zeros(2), damping=-1.0), "negative"),
        (lambda: solve_levels([(np.eye(2), np.zeros(2))], tolerance=2.0), "tolerance|between"),
        (lambda: solve_levels([(np.eye(2), np.zeros(2))], null_motion=np.zeros(3)), "shape"),
    ):
        with pytest.raises(ProblemError, match=text):
            call()
