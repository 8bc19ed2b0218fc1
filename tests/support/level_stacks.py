"""Random stacks of levels, and their lexicographic optimum by trying every set of rows that can be held."""

from __future__ import annotations

import itertools

import numpy as np

from ocp.solvers.hqp import Level


def random_stack(seed: int, *, unknowns=(2, 6), levels=(2, 5), limits=3) -> list[Level]:
    """Levels that conflict, repeat rows of their own and of others, and cannot be met; at most ``limits`` rows of D in each."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(*unknowns))
    x_ref = rng.standard_normal(n)
    earlier: list[np.ndarray] = []
    out = []
    for k in range(int(rng.integers(*levels))):
        A = b = D = f = lower = None
        if rng.random() < 0.8:
            rows = int(rng.integers(1, max(2, n // 2 + 1)))
            A = rng.standard_normal((rows, n))
            if rows > 1 and rng.random() < 0.4:
                A[-1] = 2 * A[0]
            if earlier and rng.random() < 0.4:
                A[0] = earlier[int(rng.integers(len(earlier)))]
            earlier += list(A)
            b = A @ x_ref if rng.random() < 0.3 else 2 * rng.standard_normal(rows)
        if A is None or rng.random() < 0.7:
            m = int(rng.integers(1, limits + 1))
            D = rng.standard_normal((m, n))
            if m > 1 and rng.random() < 0.4:
                D[-1] = -D[0]
            if m > 2 and rng.random() < 0.3:
                D[1] = D[0]
            f = rng.uniform(-0.7, 1.0, m)
            if rng.random() < 0.5:
                lower = f - rng.exponential(1.0, m) * (rng.random(m) < 0.9)
        rows = (0 if b is None else b.size) + (0 if f is None else f.size)
        weights = rng.uniform(0.2, 5.0, rows) if rng.random() < 0.3 else None
        out.append(Level(f"level {k}", A, b, D, f, lower, weights))
    return out


def excess(D, x, lower, upper):
    w = D @ x
    return np.maximum(w - upper, 0.0) + np.minimum(w - lower, 0.0)


def enumerated(levels: list[Level]) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    """(x, [(residual, slack) of each level]): per level the least cost over all sets of held rows whose point keeps what the
    levels above have reached; last the least |x|."""
    n = levels[0].n
    E, c, C, lower, upper = np.zeros((0, n)), np.zeros(0), np.zeros((0, n)), np.zeros(0), np.zeros(0)
    least = Level("least norm", A=np.eye(n), b=np.zeros(n))
    reached, x = [], np.zeros(n)
    for level in (*levels, least):
        x = _best(level, E, c, C, lower, upper)
        s = excess(level.D, x, level.lower, level.f)
        reached.append((level.A @ x - level.b, s))
        E, c = np.vstack([E, level.A]), np.r_[c, level.A @ x]
        C = np.vstack([C, level.D])
        lower, upper = np.r_[lower, level.lower + np.minimum(s, 0)], np.r_[upper, level.f + np.maximum(s, 0)]
    return x, reached[:-1]


def _best(level, E, c, C, lower, upper):
    split, root = level.b.size, np.sqrt(level.weights)
    best, point = np.inf, None
    ends = [_ends(l, u) for l, u in zip((*lower, *level.lower), (*upper, *level.f), strict=True)]
    for chosen in itertools.product(*ends):
        hard, soft = chosen[: len(lower)], chosen[len(lower):]
        held = [i for i, end in enumerate(hard) if end is not None]
        loose = [i for i, end in enumerate(soft) if end is not None]
        W = np.vstack([E, C[held]])
        right = np.r_[c, [hard[i] for i in held]]
        x0, N = np.zeros(level.n), np.eye(level.n)
        if W.size:
            U, s, Vt = np.linalg.svd(W)
            r = int(np.sum(s > 1e-10 * s[0]))
            x0, N = Vt[:r].T @ ((U.T @ right)[:r] / s[:r]), Vt[r:].T
        A = np.vstack([root[:split, None] * level.A, root[split:][loose, None] * level.D[loose]])
        b = np.r_[root[:split] * level.b, root[split:][loose] * np.array([soft[i] for i in loose])]
        x = x0 + N @ _shortest(A @ N, b - A @ x0, np.linalg.norm(A)) if N.size and A.size else x0
        kept = np.abs(E @ x - c).max(initial=0.0) <= 1e-9 and np.abs(excess(C, x, lower, upper)).max(initial=0.0) <= 1e-9
        cost = np.r_[root[:split] * (level.A @ x - level.b), root[split:] * excess(level.D, x, level.lower, level.f)]
        if kept and cost @ cost < best - 1e-13:
            best, point = cost @ cost, x
    assert point is not None
    return point


def _shortest(A, b, size):
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    r = int(np.sum(s > 1e-10 * size))
    return Vt[:r].T @ ((U.T @ b)[:r] / s[:r])


def _ends(lower, upper):
    return [None] + [end for end in dict.fromkeys((lower, upper)) if np.isfinite(end)]
