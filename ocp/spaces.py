"""State manifolds: a record of functions over CasADi expressions.

A state x [nx] is stored in coordinates; its variations dx [ndx] live in the tangent space, as right perturbations
``x [+] dx``. Vector spaces have nx = ndx and ``[+]`` is addition; a floating base has a unit quaternion in x.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import casadi as ca
import numpy as np

Expr = Any


@dataclass(frozen=True)
class Space:
    """A state manifold.

    names [nx], tangent_names [ndx]: one name per component
    plus(x, dx) -> x;  minus(x0, x1) -> the dx with x0 [+] dx = x1
    rate(x): N [nx, ndx], ``dx/dt = N(x) xi`` for a tangent rate xi; the derivative of plus at dx = 0
    rate_inverse(x): [ndx, nx], left inverse of N on the tangent space
    jet(x, dx): polynomial equal to plus up to second order in dx (exact second derivatives at dx = 0)
    tangent_index [nx]: tangent component equal to this coordinate where the space is flat, -1 elsewhere
    quaternions: start indices of unit quaternions (w, x, y, z) in x
    """

    names: tuple[str, ...]
    tangent_names: tuple[str, ...]
    plus: Callable[[Expr, Expr], Expr]
    minus: Callable[[Expr, Expr], Expr]
    rate: Callable[[Expr], Expr]
    rate_inverse: Callable[[Expr], Expr]
    jet: Callable[[Expr, Expr], Expr]
    neutral: tuple[float, ...]
    tangent_index: tuple[int, ...]
    quaternions: tuple[int, ...] = ()

    @property
    def nx(self) -> int:
        """Number of coordinates."""
        return len(self.names)

    @property
    def ndx(self) -> int:
        """Dimension of the tangent space."""
        return len(self.tangent_names)

    @property
    def is_vector_space(self) -> bool:
        """Whether coordinates add."""
        return all(i >= 0 for i in self.tangent_index)

    def moved(self, x: Any, dx: Any) -> np.ndarray:
        """States x [k, nx] moved by tangent vectors dx [k, ndx], or all by one [1, ndx], in numbers."""
        return np.asarray(_numeric(self)[0](np.asarray(x).T, np.asarray(dx).T)).T

    def apart(self, x0: Any, x1: Any) -> np.ndarray:
        """Tangent vectors [k, ndx] that move states x0 [k, nx] to x1 [k, nx], in numbers."""
        return np.asarray(_numeric(self)[1](np.asarray(x0).T, np.asarray(x1).T)).T

    def by_tangent(self, values: Any, curved: float = 1.0) -> np.ndarray:
        """Values of coordinates [..., nx] as those of tangent components [..., ndx]; ``curved`` where the space is not flat."""
        index, values = np.array(self.tangent_index, dtype=int), np.asarray(values)
        found = np.full((*values.shape[:-1], self.ndx), curved)
        found[..., index[index >= 0]] = values[..., index >= 0]
        return found


@lru_cache(maxsize=64)
def _numeric(space: Space) -> list[ca.Function]:
    """``plus`` and ``minus`` as functions of numbers; made once for a space, so that solving again costs nothing here."""
    x, y, dx = ca.SX.sym("x", space.nx), ca.SX.sym("y", space.nx), ca.SX.sym("dx", space.ndx)
    return [ca.Function(name, [x, by], [ca.densify(ca.SX(move(x, by)))])
            for name, by, move in (("plus", dx, space.plus), ("minus", y, space.minus))]


def product(first: Space, second: Space) -> Space:
    """Both side by side: points and variations of the first, then those of the second."""
    nx, ndx = first.nx, first.ndx

    def both(name: str, left: int, right: int) -> Any:
        one, other = getattr(first, name), getattr(second, name)
        return lambda a, b: ca.vertcat(one(a[:left], b[:right]), other(a[left:], b[right:]))

    return Space(
        names=first.names + second.names, tangent_names=first.tangent_names + second.tangent_names,
        plus=both("plus", nx, ndx), jet=both("jet", nx, ndx), minus=both("minus", nx, nx),
        rate=lambda x: ca.diagcat(first.rate(x[:nx]), second.rate(x[nx:])),
        rate_inverse=lambda x: ca.diagcat(first.rate_inverse(x[:nx]), second.rate_inverse(x[nx:])),
        neutral=first.neutral + second.neutral,
        tangent_index=first.tangent_index + tuple(i + ndx if i >= 0 else -1 for i in second.tangent_index),
        quaternions=first.quaternions + tuple(nx + i for i in second.quaternions))


def euclidean(names: tuple[str, ...]) -> Space:
    """The vector space with one coordinate per name."""
    n = len(names)
    return Space(
        names=names, tangent_names=names,
        plus=lambda x, d: x + d, minus=lambda x0, x1: x1 - x0,
        rate=lambda x: ca.DM.eye(n), rate_inverse=lambda x: ca.DM.eye(n), jet=lambda x, d: x + d,
        neutral=(0.0,) * n, tangent_index=tuple(range(n)),
    )
