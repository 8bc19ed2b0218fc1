"""Strict hierarchies in other units: rows, levels and unknowns scaled by up to a million either way are the same problem."""

import numpy as np
import pytest
from level_stacks import enumerated, excess, random_stack
from scipy.optimize import nnls

from ocp.solvers.hqp import Hierarchy, Level, solve_hqp


def walls(seed):
    """Limits that oppose each other, some with both ends at one place, above tasks that push against them."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 6))
    D, f = rng.standard_normal((2, n)), rng.uniform(-0.5, 0.5, 2)
    across = rng.standard_normal((1, n))
    return [Level("walls", D=np.vstack([D, -D[:1]]), f=np.r_[f, -f[0] + 0.2 * rng.standard_normal()]),
            Level("across", D=across, f=[0.3], lower=[0.3]),
            Level("pushed", rng.standard_normal((2, n)), 3 * rng.standard_normal(2)),
            Level("last", rng.standard_normal((n, n)), rng.standard_normal(n), D=rng.standard_normal((2, n)), f=[-1.0, 0.2])]


def unmet(seed):
    """Limits at the bottom, and in between, that cannot be met."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 6))
    wish = rng.standard_normal((4, n))
    wish[3] = -wish[2]
    D = rng.standard_normal((3, n))
    return [Level("equations", rng.standard_normal((1, n)), rng.standard_normal(1)),
            Level("limits", D=D, f=D @ rng.standard_normal(n)),
            Level("wish", D=wish, f=rng.standard_normal(4) - 2)]


def tall(seed):
    """More equations than unknowns, with weights, and few limits."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 5))
    A = rng.standard_normal((n + 2, n))
    A[-1] = A[0] + A[1]
    return [Level("limits", D=rng.standard_normal((2, n)), f=rng.uniform(-1, 1, 2), lower=[-2.0, -np.inf]),
            Level("tall", A, rng.standard_normal(n + 2), weights=rng.uniform(0.1, 10, n + 2)),
            Level("more", rng.standard_normal((1, n)), [1.0], D=rng.standard_normal((2, n)), f=[0.0, -1.0])]


def scaled(levels, seed, by):
    """(the same problem in other units, units of the residuals and slacks of each level, of the unknowns)."""
    rng, out, rows = np.random.default_rng(seed), [], []
    unit = 10 ** rng.uniform(-6, 6, levels[0].n) if by in ("unknowns", "all") else np.ones(levels[0].n)
    for level in levels:
        own = 10 ** rng.uniform(-6, 6, level.weights.size) if by in ("rows", "all") else np.ones(level.weights.size)
        whole = 10 ** rng.uniform(-6, 6) if by in ("levels", "all") else 1.0
        a, d = own[:level.b.size] * whole, own[level.b.size:] * whole
        out.append(Level(level.name, a[:, None] * level.A * unit, a * level.b, d[:, None] * level.D * unit, d * level.f,
                         d * level.lower, level.weights / own**2))
        rows.append(np.r_[a, d])
    return out, rows, unit


def large(seed):
    return random_stack(seed, unknowns=(14, 25), levels=(3, 6), limits=30)


def missing(levels, x):
    """What the rows above each level lack to make up its gradient, as a share of the level's size (Lawson and Hanson's non-negative
    least squares): nothing at the optimum."""
    cone, worst = np.zeros((x.size, 0)), 0.0
    for level in levels:
        split, slack = level.b.size, excess(level.D, x, level.lower, level.f)
        size = np.linalg.norm(np.vstack([level.A, level.D]) * np.sqrt(level.weights)[:, None])
        gradient = level.A.T @ (level.weights[:split] * (level.A @ x - level.b)) + level.D.T @ (level.weights[split:] * slack)
        worst = max(worst, (nnls(cone, -gradient / size)[1] if cone.size else np.linalg.norm(gradient) / size))
        w = level.D @ x
        up, down = w >= level.f - 1e-9, w <= level.lower + 1e-9
        cone = np.hstack([cone, level.A.T, -level.A.T, level.D[up].T, -level.D[down].T])
    return worst


MADE = {"random": lambda seed: random_stack(seed, limits=2), "walls": walls, "unmet": unmet, "tall": tall}
KINDS = [(kind, by) for kind in MADE for by in ("rows", "levels", "unknowns", "all")]


def against_enumeration(kind, by, seed):
    levels = MADE[kind](seed)
    other, rows, _ = scaled(levels, seed, by)
    answer, warm = solve_hqp(other), Hierarchy()
    assert answer.ok, (kind, by, seed)
    x, reached = enumerated(levels)
    for outcome, (residual, slack), own in zip(answer.levels, reached, rows, strict=True):
        exact = np.r_[residual, slack]
        np.testing.assert_allclose(np.r_[outcome.residual, outcome.slack] / own, exact, atol=1e-7 * (1 + np.abs(exact).max()),
                                   rtol=0, err_msg=f"{kind}, {by}, {seed}, {outcome.name}")
    if by in ("rows", "levels"):  # the least |x| is another one in other units
        np.testing.assert_allclose(answer.x, x, atol=1e-7 * (1 + np.abs(x).max()), rtol=0, err_msg=f"{kind}, {by}, {seed}")
    for _ in range(2):
        again = warm.solve(other).x
        np.testing.assert_allclose(again, answer.x, rtol=0, atol=1e-6 * np.abs(answer.x).max(), err_msg=f"{kind}, {by}, {seed}")


@pytest.mark.row("001:C18")
@pytest.mark.parametrize(("kind", "by"), KINDS)
def test_the_same_in_other_units(kind, by):
    for seed in range(3):
        against_enumeration(kind, by, seed)


@pytest.mark.slow
@pytest.mark.row("001:C18")
@pytest.mark.parametrize(("kind", "by"), KINDS)
def test_the_same_in_other_units_of_six_hundred_and_forty_stacks(kind, by):
    for seed in range(100, 140):
        against_enumeration(kind, by, seed)


@pytest.mark.row("001:C18")
@pytest.mark.parametrize("first", [0, pytest.param(100, marks=pytest.mark.slow)])
def test_large_stacks_in_other_units_are_optimal(first):
    for seed in range(first, first + (40 if first else 4)):
        levels = large(seed)
        other, rows, unit = scaled(levels, seed, "all")
        answer, plain = solve_hqp(other), solve_hqp(levels)
        assert answer.ok, seed
        assert missing(levels, plain.x) < 1e-10 * (1 + np.linalg.norm(plain.x)), seed
        for one, same, own in zip(answer.levels, plain.levels, rows, strict=True):
            np.testing.assert_allclose(np.r_[one.residual, one.slack] / own, np.r_[same.residual, same.slack], rtol=0, atol=1e-8)
