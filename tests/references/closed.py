"""Objectives of first files that need no transcription: Riccati, Gramian, geometry, quadrature and switching times.

    python tests/references/closed.py [problem ...]

The models are written out here once more, from the literature and not from the files.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence

import numpy as np
from scipy.integrate import quad, solve_ivp
from scipy.linalg import expm
from scipy.optimize import brentq, fsolve, minimize


def riccati(A: np.ndarray, B: np.ndarray, Q: np.ndarray, R: float, final: np.ndarray, T: float) -> np.ndarray:
    """P(0) of min x'Fx + int x'Qx + R u^2, by the exponential of the Hamiltonian matrix, in a hundred steps from the end."""
    n = len(A)
    step = expm(-T / 100 * np.block([[A, -B @ B.T / R], [-Q, -A.T]]))
    P = final
    for _ in range(100):
        both = step @ np.vstack([np.eye(n), P])
        P = both[n:] @ np.linalg.inv(both[:n])
    return P


def nagurka() -> float:
    A = np.diag(np.ones(5), 1)
    A[5] = [1, -2, 3, -4, 5, -6]
    x = np.arange(1.0, 7.0)
    return float(x @ riccati(A, np.eye(6)[:, 5:], np.eye(6), 1.0, np.diag([10.0, 0, 0, 0, 0, 0]), 1.0) @ x)


def hot_rod() -> float:
    """The goal y = 1 is an equilibrium without control: a regulator of y - 1 that begins at -1."""
    A = 100 * (np.diag(np.ones(9), 1) + np.diag(np.ones(9), -1) - 2 * np.eye(10))
    A[0, 0] = A[9, 9] = -100
    x = -np.ones(10)
    return float(x @ riccati(A, 10 * np.eye(10)[:, 9:], np.zeros((10, 10)), 0.001, np.eye(10), 0.5) @ x)


def crane_move() -> float:
    """Least effort between two states: d' W^-1 d with the Gramian W."""
    A = np.array([[0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1], [0, 0, -9.81 / 5, 0]])
    B = np.array([[0], [1], [0], [-1 / 5]])
    whole = expm(10.0 * np.block([[-A, B @ B.T], [np.zeros((4, 4)), A.T]]))
    gramian, d = whole[4:, 4:].T @ whole[:4, 4:], np.array([10.0, 0, 0, 0])
    return float(d @ np.linalg.solve(gramian, d))


def river() -> float:
    """The costate of x is constant, so that 2 / cos(heading) + stream is; the drift must vanish."""
    def stream(y: float) -> float:
        return 0.8 * y * (1 - y / 100) / 25

    def integrals(level: float) -> tuple[float, float]:
        cosine = lambda y: 2 / (level - stream(y))  # noqa: E731
        time = lambda y: 1 / (2 * np.sqrt(1 - cosine(y)**2))  # noqa: E731
        drift = quad(lambda y: (2 * cosine(y) + stream(y)) * time(y), 0, 100, epsabs=1e-12, epsrel=1e-12)[0]
        return drift, quad(time, 0, 100, epsabs=1e-12, epsrel=1e-12)[0]

    level = brentq(lambda value: integrals(value)[0], -500, -2.5, xtol=1e-12)
    return integrals(level)[1]


def two_discs() -> float:
    """The square of the shortest path, over the four ways to pass two discs, strings pulled tight."""
    start, goal, r = np.zeros(2), np.array([1.2, 1.6]), np.sqrt(0.1)
    discs = [np.array([0.4, 0.5]), np.array([0.8, 1.5])]

    def length(angles: Sequence[float], chosen: Sequence[np.ndarray], sides: Sequence[int]) -> float:
        """The path that touches each disc on an arc from angle to angle."""
        total, now = 0.0, start
        for k, (disc, side) in enumerate(zip(chosen, sides, strict=True)):
            a, b = angles[2 * k], angles[2 * k + 1]
            touch = disc + r * np.array([np.cos(a), np.sin(a)])
            total += np.linalg.norm(touch - now) + r * max(side * (b - a), 0.0)
            now = disc + r * np.array([np.cos(b), np.sin(b)])
        return float(total + np.linalg.norm(goal - now))

    def free(a: np.ndarray, b: np.ndarray) -> bool:
        s = np.linspace(0, 1, 2001)[:, None]
        points = (1 - s) * a + s * b
        return all(np.min(np.linalg.norm(points - disc, axis=1)) > r - 1e-9 for disc in discs)

    def tight(chosen: Sequence[np.ndarray], sides: Sequence[int]) -> float:
        """Tangent points by their equations: each straight piece is orthogonal to the radii at its ends."""
        def off(angles: np.ndarray) -> list[float]:
            found, now = [], start
            for k, disc in enumerate(chosen):
                for angle, ahead in ((angles[2 * k], False), (angles[2 * k + 1], True)):
                    normal = np.array([np.cos(angle), np.sin(angle)])
                    point = disc + r * normal
                    if ahead:
                        after = goal if k + 1 == len(chosen) else chosen[k + 1] + r * np.array(
                            [np.cos(angles[2 * k + 2]), np.sin(angles[2 * k + 2])])
                        found.append(float(normal @ (after - point)))
                        now = point
                    else:
                        found.append(float(normal @ (point - now)))
            return found

        best = np.inf
        for begin in itertools.product(np.linspace(-np.pi, np.pi, 9), repeat=len(chosen)):
            guess = np.ravel([[b, b + 0.3 * side] for b, side in zip(begin, sides, strict=True)])
            angles, _, flag, _ = fsolve(off, guess, xtol=1e-14, full_output=True)
            arcs = [sides[k] * (angles[2 * k + 1] - angles[2 * k]) for k in range(len(chosen))]
            if flag != 1 or not all(0 <= arc < np.pi for arc in arcs):
                continue
            corners = [start, *(chosen[k // 2] + r * np.array([np.cos(a), np.sin(a)]) for k, a in enumerate(angles)), goal]
            if all(free(corners[i], corners[i + 1]) for i in range(0, len(corners), 2)):
                best = min(best, length(angles, chosen, sides))
        return best

    ways = [(chosen, sides) for chosen in ([discs[0]], [discs[1]], discs)
            for sides in itertools.product((-1, 1), repeat=len(chosen))]
    found = sorted((tight(chosen, sides)**2, sides) for chosen, sides in ways)
    print("two_discs, all ways:", found)
    return float(found[0][0])


def singular_regulator() -> float:
    """Full brake until v / x = -tanh(5 - t); from there the singular arc x = A cosh(5 - t), v = -A sinh(5 - t), u = x."""
    def place(t: float) -> tuple[float, float]:
        return t - t**2 / 2, 1 - t

    switch = brentq(lambda t: place(t)[1] + place(t)[0] * np.tanh(5 - t), 1.0, 1.9, xtol=1e-15)
    amplitude = place(switch)[0] / np.cosh(5 - switch)
    braking = quad(lambda t: sum(c**2 for c in place(t)), 0, switch, epsabs=1e-14)[0]
    return float(braking + amplitude**2 * np.sinh(2 * (5 - switch)) / 2)


def switched(rate: Callable[[float, np.ndarray, float], Sequence[float]], start: Sequence[float], times: Sequence[float],
             first: float) -> np.ndarray:
    """The state after arcs of these lengths with controls first, -first, first, ..."""
    x = np.array(start, dtype=float)
    for k, length in enumerate(times):
        x = solve_ivp(rate, (0, abs(length)), x, "DOP853", args=(first * (-1)**k,), rtol=1e-13, atol=1e-14).y[:, -1]
    return x


def van_der_pol_min_time() -> float:
    """Bang-bang with one or two switches to rest; the least of all that arrive."""
    def rate(t: float, x: np.ndarray, u: float) -> list[float]:
        return [x[1], -x[0] + (1 - x[0]**2) * x[1] + u]

    found = set()
    for first in (-1.0, 1.0):
        for begin in itertools.product((0.3, 0.8, 1.5, 2.5), repeat=2):
            times, _, flag, _ = fsolve(lambda s, f=first: switched(rate, (1, 1), s, f), begin, xtol=1e-13, full_output=True)
            if flag == 1 and min(times) > 0:
                found.add(round(float(sum(times)), 9))
    print("van_der_pol_min_time, one switch:", sorted(found))
    return min(found)


def mountain_car() -> float:
    """Bang-bang: right, left, right; the last arc ends where x = 0.5. The least time over the switches."""
    def rate(t: float, x: np.ndarray, u: float) -> list[float]:
        return [x[1], 0.001 * u - 0.0025 * np.cos(3 * x[0])]

    def out(t: float, x: np.ndarray, u: float) -> float:
        return x[0] - 0.5

    out.terminal = True  # type: ignore[attr-defined]

    def time(lengths: Sequence[float], first: float) -> float:
        if min(lengths) < 0:
            return 1e3
        x = switched(rate, (-0.5, 0), lengths, first)
        last = solve_ivp(rate, (0, 300), x, "DOP853", args=(first * (-1)**len(lengths),), rtol=1e-13, atol=1e-14, events=out)
        return float(sum(lengths) + last.t[-1]) if len(last.t_events[0]) else 1e3 - 100 * float(np.max(last.y[0]))

    best = np.inf
    for first, switches in ((1.0, 2), (-1.0, 1), (-1.0, 3), (1.0, 4)):
        for begin in itertools.product((20.0, 35.0), repeat=switches):
            found = minimize(time, begin, (first,), method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-11, "maxiter": 400})
            if found.fun < best - 1e-9:
                best = float(found.fun)
                print(f"mountain_car: first {first:+.0f}, switches after {found.x}: {best:.12g}", flush=True)
    return best


ALL = (nagurka, hot_rod, crane_move, river, two_discs, singular_regulator, van_der_pol_min_time, mountain_car)

if __name__ == "__main__":
    for problem in ALL:
        if not sys.argv[1:] or problem.__name__ in sys.argv[1:]:
            print(f"{problem.__name__}: {problem():.12g}", flush=True)
