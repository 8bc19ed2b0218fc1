"""Partially separable programs: sums of element functions of few unknowns each (Griewank and Toint 1982).

    f(x) = sum_e sum_j weight_ej l_e(v_ej, d_ej)          g(x) = linear x + R Y,   Y = [y_e(v_ej, d_ej) for all e, j]

with ``v_ej = x[index_ej]``. Derivatives need only those of the elements; where their numbers go is known once and for all.
Solvers that are written here evaluate elements one by one, without a function of the whole program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Element:
    """One small function and the ``count`` places where it applies.

    index [count, nv]: columns that v stands for; values [count, nd]: the data d; weight [count]: of the costs; size: rows y [ny]
    cost(v, d) -> l;  rows(v, d) -> y;  gradient(v, d) -> (l, dl/dv [nv]);  jacobian(v, d) -> (y, nonzeros of dy/dv)
    hessian(v, d, s, mu [ny]) -> nonzeros of the upper triangle of d2/dv2 (s l + mu' y);  gauss_newton(v, d, s) or None
    batched: the functions take all places at once, one column each; has_cost: whether l is anything but 0
    """

    name: str
    index: Array
    values: Array
    weight: Array
    size: int
    cost: ca.Function
    rows: ca.Function
    gradient: ca.Function
    jacobian: ca.Function
    hessian: ca.Function
    gauss_newton: ca.Function | None = None
    batched: bool = False
    has_cost: bool = True
    keep: Any = None

    @property
    def count(self) -> int:
        """Number of evaluation points."""
        return len(self.index)


@dataclass(frozen=True, eq=False)
class Gather:
    """``result[i] = base[i] + sum_k weight[k] source[k]``, k from start[i] to start[i + 1].

    source: numbers of entries of a flat array.
    """

    start: Array
    source: Array
    weight: Array
    base: Array


@dataclass(frozen=True, eq=False)
class Matrix:
    """A sparse matrix whose nonzeros are gathered: pattern by columns as CasADi stores it (indptr, rows)."""

    indptr: Array
    rows: Array
    entries: Gather


@dataclass(frozen=True, eq=False)
class Separable:
    """A program of n unknowns and m rows by its elements.

    Flat arrays hold the results of all elements one after another, place by place: Y of ``rows``, nonzeros of ``jacobian`` and of
    ``hessian``. linear [m, n]: as (indptr, columns, values) by rows; rows: the Gather with ``g = linear x + rows(Y)`` (base 0)
    jacobian [m, n]: gathered from the nonzeros of the elements' Jacobians, the linear part in ``base``
    hessian, gauss_newton: upper triangle [n, n], gathered from the elements' nonzeros
    """

    n: int
    m: int
    elements: tuple[Element, ...]
    linear: tuple[Array, Array, Array]
    rows: Gather
    jacobian: Matrix
    hessian: Matrix
    gauss_newton: Matrix | None = None
