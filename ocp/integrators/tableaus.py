"""Butcher tableaus as data, and the order conditions that each of them is held to.

A tableau (A, b, c) stands for the Runge-Kutta step of ``x' = f(t, x)``

    k_i = f(t + c_i h, x + h sum_j a_ij k_j)        x_next = x + h sum_i b_i k_i

HNW: Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I. HW: Hairer, Wanner, Solving Ordinary Differential
Equations II.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dynamics.steps import schemes

Row = tuple[float, ...]
Tree = tuple["Tree", ...]
"""A rooted tree: the branches at its root, in sorted order. The single vertex is the empty tuple."""


@dataclass(frozen=True)
class Tableau:
    """Coefficients a [s, s], b [s], c [s] of a Runge-Kutta method of the given order; raises ValueError if they are not.

    Checked: shapes, ``sum_j a_ij = c_i``, and the order condition of every rooted tree of up to ``order`` vertices, which says
    ``sum b = 1`` first of all (HNW, Theorem II.2.13).
    """

    order: int
    a: tuple[Row, ...]
    b: Row
    c: Row

    def __post_init__(self) -> None:
        sizes = {len(self.a), len(self.c), *(len(row) for row in self.a)}
        if sizes != {len(self.b)} or not self.b:
            raise ValueError(f"a tableau has a [s, s], b [s] and c [s]; got {len(self.a)} rows of {[len(row) for row in self.a]} "
                             f"coefficients, {len(self.b)} weights and {len(self.c)} nodes")
        for condition, error in self.conditions().items():
            if not error <= 1e-14:
                raise ValueError(f"the tableau violates its condition {condition!r} by {error:.3g}")

    def conditions(self) -> dict[str, float]:
        """Errors of all conditions, by name; zero up to rounding."""
        errors = {"rows of a sum to the nodes c": float(np.max(np.abs(np.sum(self.a, axis=1) - self.c)))}
        for order in range(1, self.order + 1):
            for tree in trees(order):
                name = "weights sum to 1" if order == 1 else f"order {order}, tree {tree}"
                errors[name] = abs(float(self._elementary(tree) @ self.b) - 1 / density(tree))
        return errors

    def _elementary(self, tree: Tree) -> np.ndarray:
        a = np.array(self.a)
        return math.prod((a @ self._elementary(branch) for branch in tree), start=np.ones(len(self.b)))

    @property
    def stages(self) -> int:
        """Number of stages."""
        return len(self.b)

    @property
    def explicit(self) -> bool:
        """Whether every stage follows from those before it."""
        return not np.any(np.triu(self.a))

    @property
    def ends_on_stage(self) -> bool:
        """Whether the next state is the last stage (stiffly accurate: b is the last row of a)."""
        return self.b == self.a[-1]

    def blocks(self) -> tuple[tuple[int, ...], ...]:
        """Consecutive groups of stages, as small as can be, each of which depends on itself and on groups before it only.

        One group per stage for explicit and diagonally implicit methods, one group of all stages for Gauss and Radau methods.
        """
        found: list[tuple[int, ...]] = []
        first = reach = 0
        for i, row in enumerate(self.a):
            reach = max(i, reach, *np.flatnonzero(row))
            if reach == i:
                found.append(tuple(range(first, i + 1)))
                first = i + 1
        return tuple(found)


# ---- rooted trees ------------------------------------------------------------------------------------------------
def trees(order: int) -> frozenset[Tree]:
    """All rooted trees with that many vertices: 1, 1, 2, 4, 9, 20, ..."""
    if order == 1:
        return frozenset({()})
    return frozenset(larger for tree in trees(order - 1) for larger in _with_a_leaf(tree))


def _with_a_leaf(tree: Tree) -> Iterator[Tree]:
    yield tuple(sorted((*tree, ())))
    for i, branch in enumerate(tree):
        for larger in _with_a_leaf(branch):
            yield tuple(sorted((*tree[:i], larger, *tree[i + 1:])))


def density(tree: Tree) -> int:
    """gamma of a tree: the product of the sizes of all its subtrees (HNW, Definition II.2.10)."""
    return size(tree) * math.prod(density(branch) for branch in tree)


def size(tree: Tree) -> int:
    """Vertices of a tree."""
    return 1 + sum(size(branch) for branch in tree)


# ---- explicit ----------------------------------------------------------------------------------------------------
EULER = Tableau(1, a=((0.0,),), b=(1.0,), c=(0.0,))

#: Runge 1895 (HNW, Table II.1.1)
MIDPOINT = Tableau(2, a=((0.0, 0.0), (1 / 2, 0.0)), b=(0.0, 1.0), c=(0.0, 1 / 2))

#: the explicit trapezoidal rule: Heun 1900
HEUN = Tableau(2, a=((0.0, 0.0), (1.0, 0.0)), b=(1 / 2, 1 / 2), c=(0.0, 1.0))

#: smallest bound of the error among two-stage methods: Ralston 1962
RALSTON = Tableau(2, a=((0.0, 0.0), (2 / 3, 0.0)), b=(1 / 4, 3 / 4), c=(0.0, 2 / 3))

#: Kutta 1901
RK3 = Tableau(3, a=((0.0, 0.0, 0.0), (1 / 2, 0.0, 0.0), (-1.0, 2.0, 0.0)), b=(1 / 6, 2 / 3, 1 / 6), c=(0.0, 1 / 2, 1.0))

#: Kutta 1901 (HNW, Table II.1.2)
RK4 = Tableau(4, a=((0.0, 0.0, 0.0, 0.0), (1 / 2, 0.0, 0.0, 0.0), (0.0, 1 / 2, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0)),
              b=(1 / 6, 1 / 3, 1 / 3, 1 / 6), c=(0.0, 1 / 2, 1 / 2, 1.0))

# ---- implicit ----------------------------------------------------------------------------------------------------
#: BDF1; the one-stage Radau IIA method. L-stable
IMPLICIT_EULER = Tableau(1, *schemes.butcher("bdf1"))

_G = 2 - math.sqrt(2)
#: a trapezoidal step to t + gamma h, then BDF2 through t and t + gamma h, gamma = 2 - sqrt 2: Bank et al. 1985, as a one-step
#: method with three stages (Hosea, Shampine 1996). L-stable
TR_BDF2 = Tableau(2, a=((0.0, 0.0, 0.0), (_G / 2, _G / 2, 0.0), (math.sqrt(2) / 4, math.sqrt(2) / 4, _G / 2)),
                  b=(math.sqrt(2) / 4, math.sqrt(2) / 4, _G / 2), c=(0.0, _G, 1.0))

#: two stages with one matrix: Alexander 1977, "Diagonally implicit Runge-Kutta methods for stiff ODE's". L-stable
SDIRK2 = Tableau(2, *schemes.butcher("sdirk2"))

def collocation(order: int, nodes: ArrayLike) -> Tableau:
    """The method that collocates at these nodes in (0, 1] (HW, section IV.5): a and b integrate the Lagrange polynomials through
    them."""
    c = np.asarray(nodes, float)
    cardinal = np.linalg.inv(np.vander(c, increasing=True))  # row k: the coefficients of c^k in the Lagrange polynomials
    powers = np.arange(1, len(c) + 1)
    a = (c[:, None] ** powers / powers) @ cardinal
    b = a[-1] if c[-1] == 1 else (1 / powers) @ cardinal
    return Tableau(order, tuple(map(tuple, a.tolist())), tuple(b.tolist()), tuple(c.tolist()))


def gauss(stages: int) -> Tableau:
    """The Gauss method with so many stages, of twice that order: collocation at the zeros of a Legendre polynomial. A-stable,
    symmetric, symplectic, and exact for quadratic invariants (Hairer, Lubich, Wanner, Geometric Numerical Integration, Table
    II.1.1); with one stage the implicit midpoint rule."""
    return collocation(2 * stages, (np.polynomial.legendre.leggauss(stages)[0] + 1) / 2)


GAUSS_LEGENDRE_1, GAUSS_LEGENDRE_2, GAUSS_LEGENDRE_3, GAUSS_LEGENDRE_4 = map(gauss, (1, 2, 3, 4))

#: HW, Tables IV.5.5 and IV.5.6. Radau IIA methods: L-stable, and they end on a stage
RADAU_IIA_2 = collocation(3, (1 / 3, 1.0))
RADAU_IIA_3 = collocation(5, ((4 - math.sqrt(6)) / 10, (4 + math.sqrt(6)) / 10, 1.0))
