"""Hard constraints as rows at the knots: what must vanish, stay negative, or lie in a second-order cone.

Bounds on states, prescribed states and hard constraints of a phase all become rows; bounds on controls stay bounds. Derivatives are
taken in the tangent space of the state, z = (dx, u).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np

from dynamics.derivatives.inner import Inner, through
from dynamics.lie.expression import Expr
from ocp.problem import At, Boundary, Constraint, Sense
from ocp.shooting.stages.expressions import by_rows, dense_function
from ocp.shooting.stages.stretch import Stretch
from ocp.spaces import Space

EQUAL, BELOW, CONE, IN_CONE = 0, 1, 2, 3
"""Kinds of rows: c = 0; c <= 0; first row of a cone ``|c[1:]| <= c[0]``; its other rows."""


@dataclass(frozen=True)
class Row:
    """One constraint as an expression; size: constraints of the cone that begins here."""

    name: str
    expression: Expr
    kind: int
    size: int = 1


@dataclass(frozen=True)
class Rows:
    """Rows of one kind of stage. value(t, x, u, p) -> c [r]; jacobian(t, x, u, p) -> c, C [r, w] by z; curvature(t, x, u, p, y) ->
    Hessian [ndx + nu, w] of y' c by z, on and below the diagonal; adjoint(t, x, u, p, y) -> gradients of y' c by the
    coordinates of x and by u. Matrices row by row, w the width of the horizon.

    kind [r]; size [r]: rows of the cone that begins here; needs_control [r]; names [r]: component by component; unit [r]: what one
    of a row is in the unit of its constraint (``ocp.shooting.row_units``).
    """

    value: ca.Function
    jacobian: ca.Function
    curvature: ca.Function
    adjoint: ca.Function
    kind: np.ndarray
    size: np.ndarray
    needs_control: np.ndarray
    names: tuple[str, ...]
    unit: np.ndarray

    @property
    def count(self) -> int:
        """Number of constraint components."""
        return len(self.names)


def path_rows(stretch: Stretch, t: Expr, x: Expr, u: Expr, p: Expr, k: Expr | None = None) -> list[Row]:
    """Constraints along the path: bounds on states, hard path constraints. k: symbols for values of the dynamics that they may hold
    (``dynamics.derivatives.inner``)."""
    found, phase = [], stretch.phase
    for i, (name, (lower, upper)) in enumerate(zip(phase.system.space.names, phase.state_bounds.pairs(), strict=True)):
        found += _between(f"bound {name}", x[i], lower, upper)
    return found + _constraints(stretch, At.PATH, t, x, u, p, k)


def final_rows(stretch: Stretch, t: Expr, x: Expr, p: Expr) -> list[Row]:
    """Rows at the end of a phase: path rows that need no control, prescribed final states, hard final constraints."""
    u = ca.SX.sym("u", stretch.phase.system.nu)
    nothing = ca.SX.zeros(u.shape[0])
    path = path_rows(stretch, t, x, u, p)
    needs = _needs(path, u)
    kept = [Row(row.name, ca.substitute(row.expression, u, nothing), row.kind, row.size)
            for row, needed in zip(path, needs, strict=True) if not needed]
    return [*kept, *_prescribed("final", stretch, stretch.phase.final, x),
            *_constraints(stretch, At.FINAL, t, x, nothing, p), *_linkages(stretch, At.FINAL, x, p)]


def start_rows(stretch: Stretch, t: Expr, x: Expr, p: Expr, prescribed: bool) -> list[Row]:
    """Rows at the start of a phase: hard start constraints and, if wanted, the prescribed start state."""
    fixed = _prescribed("start", stretch, stretch.phase.start, x) if prescribed else []
    return [*fixed, *_constraints(stretch, At.START, t, x, ca.SX.zeros(stretch.phase.system.nu), p),
            *_linkages(stretch, At.START, x, p)]


def _linkages(stretch: Stretch, at: At, x: Expr, p: Expr) -> list[Row]:
    """Linkages whose last end is here."""
    found = []
    for linkage in stretch.constants.linkages.get((stretch.number, at), ()):
        value = stretch.linkage(linkage, x, p)
        for i, name in enumerate(linkage.components()):
            found += _between(name, value[i], linkage.lower[i], linkage.upper[i])
    return found


def _prescribed(label: str, stretch: Stretch, boundary: Boundary | None, x: Expr) -> list[Row]:
    if boundary is None:
        return []
    space = stretch.phase.system.space
    away = space.minus(ca.DM(boundary.value), stretch.split(x)[0])
    return [Row(f"{label} {name}", away[i], EQUAL) for i, name in enumerate(space.tangent_names) if boundary.fixed[i]]


def _constraints(stretch: Stretch, at: At, t: Expr, x: Expr, u: Expr, p: Expr, k: Expr | None = None) -> list[Row]:
    found = []
    for c in stretch.hard(at):
        rest = None if k is None else stretch.around(c.function)
        found += _constraint(c, stretch.at_point(c.function)(t, x, u, p) if rest is None else rest(t, x, u, p, k))
    return found


def _constraint(constraint: Constraint, value: Expr) -> list[Row]:
    if constraint.sense is Sense.CONE:
        return [Row(constraint.name, value[i], IN_CONE if i else CONE, constraint.size) for i in range(value.shape[0])]
    rows = []
    for i, name in enumerate(constraint.components()):
        rows += _between(name, value[i], constraint.lower[i], constraint.upper[i])
    return rows


def _between(name: str, value: Expr, lower: float, upper: float) -> list[Row]:
    if lower == upper:
        return [Row(name, value - lower, EQUAL)]
    rows = [Row(f"{name} (upper)", value - upper, BELOW)] if np.isfinite(upper) else []
    return rows + ([Row(f"{name} (lower)", lower - value, BELOW)] if np.isfinite(lower) else [])


def make_rows(label: str, space: Space, nu: int, np_: int, make: Callable[..., list[Row]], width: int, inner: Inner | None = None,
              full: bool = True) -> Rows:
    """Functions of the constraints that ``make(t, x, u, p)`` lists. inner: values of the dynamics that they may hold; ``make`` then
    takes symbols for these, whose derivatives are known in closed form. full: the curvature has that of forward dynamics, which
    Gauss-Newton Hessians leave out."""
    sizes = (1, space.nx, nu, np_)
    at = [ca.SX.sym(n, size) for n, size in zip("txup", sizes, strict=True)]
    k = ca.SX.sym("k", 0 if inner is None else inner.count)
    control = at[2]
    made = make(*at, *(() if inner is None else (k,)))
    c, y = ca.densify(ca.vertcat(ca.SX(0, 1), *(row.expression for row in made))), ca.SX.sym("y", len(made))
    inner = inner if inner is not None and ca.depends_on(c, k) else None
    jacobian, curvature = _derivatives(label, space, at, make, y, width, k, inner, full)
    if inner is not None:  # what is large is called: nothing else is shared with it
        outer = ca.Function("outer", [*at, k], [ca.cse(c)])
        *at, y = (ca.MX.sym(n, size) for n, size in zip("txupy", (*sizes, len(made)), strict=True))
        c = outer(*at, inner.sought(*at[:3]))
    product, make_function = ca.dot(y, c), dense_function if inner is None else ca.Function
    return Rows(
        value=make_function(f"{label}_rows", [*at], [c]), jacobian=jacobian, curvature=curvature,
        adjoint=make_function(f"{label}_adjoint", [*at, y], [ca.densify(ca.gradient(product, at[i])) for i in (1, 2)]),
        kind=np.array([row.kind for row in made], dtype=np.int64), size=np.array([row.size for row in made], dtype=np.int64),
        needs_control=_needs(made, ca.vertcat(control, k)), names=tuple(row.name for row in made),
        unit=np.ones(len(made)))


def _derivatives(label: str, space: Space, at: Sequence[Expr], make: Callable[..., list[Row]], y: Expr, width: int,
                 k: Expr, inner: Inner | None, full: bool) -> tuple[ca.Function, ca.Function]:
    """Of (t, x, u, p): the rows and their derivative by z = (dx, u); of these and y: the Hessian of ``y . rows``, on and below the
    diagonal. k: symbols of ``make``; inner: what they stand for, None where constraints hold nothing of it; full: see
    ``make_rows``."""
    t, x, u, p = at
    size = space.ndx + u.shape[0]
    z = ca.SX.sym("z", size)
    dx, du = ca.vertsplit(z, [0, space.ndx, size])
    near = make(t, space.jet(x, dx), u + du, p, *((k,) if k.shape[0] else ()))
    at_z, variables = ca.densify(ca.vertcat(ca.SX(0, 1), *(row.expression for row in near))), ca.vertcat(z, k)
    J = ca.jacobian(at_z, variables)
    H, gradient = ca.hessian(ca.dot(y, at_z), variables) if near else (ca.SX(variables.shape[0], variables.shape[0]), 0 * variables)
    value, J, H, gradient = ca.substitute([at_z, J, H, gradient], [z], [ca.SX.zeros(size)])
    names = f"{label}_jacobian", f"{label}_hessian"
    if inner is None:
        return (dense_function(names[0], [*at], [value, by_rows(J[:, :size], width)]),
                dense_function(names[1], [*at, y], [by_rows(ca.tril(H[:size, :size]), width)]))
    first = ca.Function("first", [*at, k], [value, J])
    second = ca.Function("second", [*at, k, y], ca.cse([H, gradient[size:]]))
    t, x, u, p, y = (ca.MX.sym(name, part.shape[0]) for name, part in zip("txupy", (*at, y), strict=True))
    known, T = inner.first(t, x, u)
    value, J = first(t, x, u, p, known)
    H, adjoint = second(t, x, u, p, known, y)
    H = ca.MX(size, size) if not second.nnz_out(0) else through(H, T)
    H = ca.tril(H + inner.second(t, x, u, adjoint) if full or not inner.forward else H)
    return (ca.Function(names[0], [t, x, u, p], [ca.densify(value), ca.densify(by_rows(J[:, :size] + J[:, size:] @ T, width))]),
            ca.Function(names[1], [t, x, u, p, y], [ca.densify(by_rows(H, width))]))


def _needs(made: Sequence[Row], u: Expr) -> np.ndarray:
    """Which rows depend on the control; a cone does where any of its rows does."""
    needs = np.array([bool(ca.depends_on(ca.SX(row.expression), u)) if u.shape[0] else False for row in made], dtype=np.int64)
    for i, row in enumerate(made):
        if row.kind == CONE:
            needs[i:i + row.size] = needs[i:i + row.size].max()
    return needs
