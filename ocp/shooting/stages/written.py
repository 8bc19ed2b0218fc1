"""A step with all its expansions as one scalar graph: what ``ocp.shooting.stages.single`` and ``chain`` write for a stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dynamics.lie.expression import Expr


@dataclass(frozen=True)
class Written:
    """Expressions of one stage in (t, x, u, p, h), all SX; z = (dx, u).

    after [nx_after]; cost; gradient [ndx + nu] of the cost and derivative F [ndx_after, ndx + nu] of the step;
    gauss_newton [ndx + nu, ndx + nu]: Hessian of the cost. full(costate [ndx_after]) -> the full Hessian, None where it comes from
    elsewhere. Of Hessians the lower triangle is read. inner() -> values of the dynamics in constraints, at the beginning of the
    step, and their derivative [n, ndx + nu].
    """

    after: Expr
    cost: Expr
    gradient: Expr
    F: Expr
    gauss_newton: Expr
    full: Callable[[Expr], Expr] | None
    inner: Callable[[], tuple[Expr, Expr]] | None = None


Write = Callable[[Expr, Expr, Expr, Expr, Expr], Written]
"""(t, x, u, p, h) -> the step written out."""
