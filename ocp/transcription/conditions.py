"""Constraints of a problem as smooth rows with bounds, and soft ones as penalties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca

from ocp.errors import ProblemError
from ocp.nlp.names import MEASURED
from ocp.problem import INF, Constraint, Cost, Sense
from ocp.spaces import Expr


@dataclass(frozen=True)
class Rows:
    """Named constraints ``lower <= expression <= upper``; expression: SX or MX [k]."""

    expression: Expr
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    names: tuple[str, ...]


def hard_rows(constraint: Constraint, arguments: Sequence[Expr]) -> Rows:
    """Rows of a hard constraint at (t, x, u, p).

    A cone ``|c[1:]| <= c[0]`` becomes ``(c[0]^2 - |c[1:]|^2) / unit^2 >= 0`` and ``c[0] >= 0``, smooth also at its apex.
    """
    value = _value(constraint, arguments)
    if constraint.sense is Sense.CONE:
        rows = ca.vertcat((value[0] ** 2 - ca.sumsqr(value[1:])) / constraint.unit**2, value[0])
        return Rows(rows, (0.0, 0.0), (INF, INF), hard_names(constraint))
    return Rows(value, constraint.lower, constraint.bounds.upper, hard_names(constraint))


def hard_names(constraint: Constraint) -> tuple[str, ...]:
    """Names of the rows of a hard constraint."""
    if constraint.sense is Sense.CONE:
        return f"{constraint.name}{' (cone)' if constraint.unit == 1 else MEASURED}", f"{constraint.name} (cone axis)"
    return constraint.components()


def penalty(constraint: Constraint, arguments: Sequence[Expr]) -> Expr:
    """``1/2 soft |violation|^2`` of a soft constraint at (t, x, u, p); once continuously differentiable."""
    value = _value(constraint, arguments)
    total = type(value)(0)
    for i, (low, high) in enumerate(constraint.bounds.pairs()):
        if low == high:
            total += (value[i] - low) ** 2
            continue
        if low > -INF:
            total += ca.fmax(0, low - value[i]) ** 2
        if high < INF:
            total += ca.fmax(0, value[i] - high) ** 2
    assert constraint.soft is not None
    return constraint.soft / 2 * total


def cost_value(cost: Cost, arguments: Sequence[Expr]) -> Expr:
    """The scalar cost at (t, x, u, p). Raises ProblemError where it is not scalar."""
    value = cost.expression(*arguments)
    if value.shape != (1, 1):
        raise ProblemError(f"must be scalar or carry weights, but has shape {value.shape}", where=f"cost {cost.name!r}")
    return value


def gauss_newton(costs: Sequence[tuple[Cost, Sequence[Expr], Expr]], rest: Expr, v: Expr) -> Expr | None:
    """Upper triangle of the Gauss-Newton Hessian by v of ``sum scale * cost(arguments) + rest``: residuals lose their curvature,
    what is no sum of squares keeps its Hessian. None where no cost is a residual."""
    if not any(cost.weights is not None for cost, _, _ in costs):
        return None
    total = type(v)(v.shape[0], v.shape[0])
    for cost, arguments, scale in costs:
        if cost.weights is None:
            rest = rest + scale * cost_value(cost, arguments)
            continue
        J = ca.jacobian(ca.vec(cost.function(*arguments)), v)
        total += scale * ca.mtimes(J.T, ca.mtimes(ca.diag(ca.DM(cost.weights)), J))
    return ca.triu(ca.sparsify(total + ca.hessian(rest, v)[0]) if isinstance(v, ca.SX) else total + ca.hessian(rest, v)[0])


def independent_of_control(name: str, expression: Any, u: Expr) -> None:
    """Raise ProblemError if an expression that holds at an end of the phase depends on the control."""
    if u.numel() and ca.depends_on(type(u)(expression), u):
        raise ProblemError("holds at the start or the end and must not depend on the control", where=name)


def _value(constraint: Constraint, arguments: Sequence[Expr]) -> Expr:
    value = ca.vec(constraint.function(*arguments))
    sizes = {"function": value.shape[0], "lower": len(constraint.lower), "upper": len(constraint.upper)}
    if len(set(sizes.values())) != 1:
        listed = ", ".join(f"{key} {size}" for key, size in sizes.items())
        raise ProblemError(f"sizes differ: {listed}", where=constraint.where or f"constraint {constraint.name!r}")
    return ca.densify(value)
