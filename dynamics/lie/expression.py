"""Arguments and results of every function of this package: CasADi expressions of a checked shape."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import casadi as ca
import numpy as np

from dynamics.errors import ChartSingularityError

Expression: TypeAlias = Any
"""`casadi.SX`, `casadi.MX` or `casadi.DM`; `Any`, as no type says "the same of the three, in and out"."""

Expr: TypeAlias = Expression
"""Short name of the same type."""

ExpressionLike: TypeAlias = Any
"""An `Expression`, a NumPy array of numbers, or a sequence of numbers or scalar expressions."""

SINGULAR = 1e-12
"""Size below which the divisor of an inverse rate map counts as zero (1, or m for a distance from an axis)."""


def column(x: ExpressionLike, size: int, name: str) -> Expression:
    """Dense `size` x 1 expression from `x`; `ValueError` names the argument when the shape is another.

    One-dimensional arrays and sequences count as columns, rows do not.
    """
    return _checked(x, (size, 1), name)


def matrix(x: ExpressionLike, row_count: int, column_count: int, name: str) -> Expression:
    """Dense matrix expression from `x`; `ValueError` names the argument when the shape is another."""
    return _checked(x, (row_count, column_count), name)


def scalar(x: ExpressionLike, name: str) -> Expression:
    """Dense 1 x 1 expression from `x`; `ValueError` names the argument when the shape is another."""
    return _checked(x, (1, 1), name)


def rows(*entries: Sequence[Expression]) -> Expression:
    """Matrix from its rows, each a sequence of scalars or blocks."""
    return ca.vertcat(*(ca.horzcat(*row) for row in entries))


def zeros(row_count: int, column_count: int) -> Expression:
    """Block of structural zeros: products with it cost nothing."""
    return ca.DM(row_count, column_count)


def regular(divisor: Expression, chart: str, quantity: str, remedy: str) -> Expression:
    """`divisor`, or `ChartSingularityError` when it is a number that vanishes (below `SINGULAR`).

    A symbolic divisor passes: a graph cannot raise, it yields inf or NaN at the singularity.
    """
    if isinstance(divisor, ca.DM) and abs(float(divisor)) < SINGULAR:
        raise ChartSingularityError(chart, quantity, float(divisor), remedy)
    return divisor


def _checked(x: ExpressionLike, shape: tuple[int, int], name: str) -> Expression:
    if isinstance(x, (ca.SX, ca.MX, ca.DM)):
        expression: Expression = x
    elif isinstance(x, (list, tuple)) and any(isinstance(entry, (ca.SX, ca.MX, ca.DM)) for entry in x):
        expression = ca.vertcat(*x)
    else:
        try:
            numbers = np.asarray(x, dtype=float)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{name}: expected a CasADi expression or numbers, got {x!r}") from error
        if numbers.ndim > 2:
            raise ValueError(f"{name}: expected shape {shape}, got {numbers.shape}")
        expression = ca.DM(numbers)
    if expression.shape != shape:
        raise ValueError(f"{name}: expected shape {shape}, got {expression.shape}")
    return ca.densify(expression)
