"""Guesses as numbers: states on the manifold and controls at any fractions of a phase, and the sizes of states there."""

from __future__ import annotations

from typing import Any

import numpy as np

from ocp.errors import ProblemError
from ocp.problem import Guess, Phase, Trajectory
from ocp.spaces import Space

#: points at which a solution is sampled for a guess, besides its own knots
SAMPLES = 201
#: equal intervals of a phase on which guesses are perturbed, fitted, simulated, and made consistent with algebraic equations
INTERVALS = 40


def sample_guess(guess: Guess, space: Space, fractions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """States [k, nx] and controls [k, nu] of a guess at these fractions; its end values continue where it does not reach.

    States lie on the manifold: ``x_i [+] r (x_{i+1} [-] x_i)``. Raises ProblemError for a malformed guess.
    """
    s, x, u = (np.asarray(a, dtype=float) for a in (guess.s, guess.x, guess.u))
    if s.ndim != 1 or len(s) == 0 or np.any(np.diff(s) <= 0) or s[0] < 0 or s[-1] > 1:
        raise ProblemError("fractions must increase within [0, 1]", where="guess.s")
    for name, value, width in (("x", x, space.nx), ("u", u, None)):
        if value.ndim != 2 or len(value) != len(s) or (width is not None and value.shape[1] != width):
            raise ProblemError(f"expected shape ({len(s)}, {'nu' if width is None else width}), got {value.shape}",
                               where=f"guess.{name}")
        if not np.all(np.isfinite(value)):
            raise ProblemError("holds NaN or infinity", where=f"guess.{name}")
    return states_at(guess, space, fractions), controls_at(guess, fractions)


def controls_at(guess: Guess, fractions: np.ndarray) -> np.ndarray:
    """Controls [k, nu] of a guess."""
    u = np.asarray(guess.u, dtype=float)
    if (u == u[0]).all():
        return np.repeat(u[:1], len(fractions), axis=0)
    return np.column_stack([np.interp(fractions, guess.s, c) for c in u.T])


def states_at(guess: Guess, space: Space, fractions: np.ndarray) -> np.ndarray:
    """States [k, nx] of a guess, interpolated on the manifold."""
    return _between(np.asarray(guess.s, dtype=float), np.asarray(guess.x, dtype=float), space, fractions)


def _between(s: np.ndarray, x: np.ndarray, space: Space, at: np.ndarray) -> np.ndarray:
    """States [k, nx] at some abscissas, interpolated on the manifold between knots s [n], x [n, nx]; at its ends beyond."""
    if (x == x[0]).all():
        return np.repeat(x[:1], len(at), axis=0)
    if space.is_vector_space:
        return np.column_stack([np.interp(at, s, column) for column in x.T])
    i = np.clip(np.searchsorted(s, at, side="right") - 1, 0, len(s) - 2)
    ratio = np.clip((at - s[i]) / (s[i + 1] - s[i]), 0.0, 1.0)
    return np.ascontiguousarray(space.moved(x[i], ratio[:, None] * space.apart(x[i], x[i + 1])))


def on_manifold(space: Space, x: np.ndarray) -> np.ndarray:
    """States [..., nx] with their quaternions brought back to unit length. Raises ProblemError for one of length zero."""
    x = np.array(x, dtype=float)
    for q in space.quaternions:
        length = np.linalg.norm(x[..., q:q + 4], axis=-1, keepdims=True)
        if np.any(length == 0.0):
            raise ProblemError(f"the quaternion {', '.join(space.names[q:q + 4])} has length zero: it stands for no rotation")
        x[..., q:q + 4] /= length
    return x


def ranges(phase: Phase, x: np.ndarray) -> np.ndarray:
    """Range of each tangent component [ndx]; 1 where the space is not flat."""
    return phase.system.space.by_tangent(phase.state_bounds.width_or(1.0 + np.abs(x).max(axis=0)))


def polyline(space: Space, t: np.ndarray, x: np.ndarray, u: np.ndarray) -> Trajectory:
    """A trajectory of states t [N+1], x [N+1, nx], interpolated on the manifold, and piecewise-constant controls u [N, nu]."""
    def state(times: Any) -> np.ndarray:
        found = _between(t, x, space, np.atleast_1d(np.asarray(times, float)))
        return found if np.ndim(times) else found[0]

    def control(times: Any) -> np.ndarray:
        held = u if len(u) else np.zeros((1, u.shape[1]))
        return np.asarray(held[np.clip(np.searchsorted(t, times, side="right") - 1, 0, len(held) - 1)])

    return Trajectory(t, x, u, t[:len(u)], state, control)
