"""Initial guesses at given fractions of a phase, and states brought back to their manifold."""

from __future__ import annotations

import casadi as ca
import numpy as np

from ocp.errors import ProblemError
from ocp.problem import Guess
from ocp.spaces import Space


def sample_guess(guess: Guess, space: Space, fractions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """States [k, nx] and controls [k, nu] of a guess at these fractions; its ends are held where it does not reach.

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
    controls = np.column_stack([np.interp(fractions, s, c) for c in u.T]) if u.shape[1] else np.zeros((len(fractions), 0))
    if space.is_vector_space:
        return np.column_stack([np.interp(fractions, s, c) for c in x.T]), controls
    if len(s) == 1:
        return np.repeat(x, len(fractions), axis=0), controls
    a, b, r = ca.SX.sym("a", space.nx), ca.SX.sym("b", space.nx), ca.SX.sym("r")
    between = ca.Function("between", [a, b, r], [space.plus(a, r * space.minus(a, b))])
    i = np.clip(np.searchsorted(s, fractions, side="right") - 1, 0, len(s) - 2)
    ratio = np.clip((fractions - s[i]) / (s[i + 1] - s[i]), 0.0, 1.0)
    return between(x[i].T, x[i + 1].T, ratio[None, :]).full().T, controls


def on_manifold(space: Space, x: np.ndarray) -> np.ndarray:
    """States [..., nx] with their quaternions brought back to unit length."""
    x = np.array(x, dtype=float)
    for q in space.quaternions:
        x[..., q:q + 4] /= np.linalg.norm(x[..., q:q + 4], axis=-1, keepdims=True)
    return x
