"""Hard constraints as rows at the knots: what must vanish, stay negative, or lie in a second-order cone.

Bounds on states, prescribed states and hard constraints of a phase all become rows; bounds on controls stay bounds. Derivatives are
taken in the tangent space of the state, z = (dx, u).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

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
    """Constraints of one kind of stage. They may depend on values k [n] of the dynamics, which the step evaluates: entries
    ``value_indices`` of ``sought(t, x, u)``; T [n, w] is their derivative by z.

    outer(t, x, u, p, k) -> c [r];  jacobian(t, x, u, p, k) -> c, C [r, w] by z, B [r, n] by k;  curvature(t, x, u, p, k, T, y) ->
    Hessian [ndx + nu, w] of y' c by z, on and below the diagonal. Matrices row by row, w the width of the horizon.

    kind [r]; size [r]: rows of the cone that begins here; needs_control [r]; names [r]: component by component; unit [r]: what one
    of a row is in the unit of its constraint (``ocp.shooting.row_units``).
    """

    outer: ca.Function
    jacobian: ca.Function
    curvature: ca.Function
    sought: ca.Function | None
    value_indices: tuple[int, ...]
    kind: np.ndarray
    size: np.ndarray
    needs_control: np.ndarray
    names: tuple[str, ...]
    unit: np.ndarray

    @cached_property
    def value(self) -> ca.Function:
        """(t, x, u, p) -> c [r]."""
        at = self._symbols()
        return ca.Function("rows", at, [self.outer(*at, self.inner(*at[:3]))])

    @cached_property
    def adjoint(self) -> ca.Function:
        """(t, x, u, p, y) -> gradients of y' c by the coordinates of x and by u."""
        at, y = self._symbols(), (ca.SX if self.sought is None else ca.MX).sym("y", self.count)
        product, make = ca.dot(y, self.value(*at)), dense_function if self.sought is None else ca.Function
        return make("adjoint", [*at, y], [ca.densify(ca.gradient(product, at[i])) for i in (1, 2)])

    def inner(self, t: Expr, x: Expr, u: Expr) -> Expr:
        """Values k of the dynamics in the constraints."""
        return ca.DM(0, 1) if self.sought is None else self.sought(t, x, u)[list(self.value_indices), :]

    def _symbols(self) -> list[Expr]:
        """Of (t, x, u, p); what is large is called."""
        kind = ca.SX if self.sought is None else ca.MX
        return [kind.sym(name, self.outer.size1_in(i)) for i, name in enumerate("txup")]

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
    takes symbols for these. full: the curvature has that of forward dynamics, which Gauss-Newton Hessians leave out."""
    at = [ca.SX.sym(n, size) for n, size in zip("txup", (1, space.nx, nu, np_), strict=True)]
    k = ca.SX.sym("k", 0 if inner is None else inner.count)
    made = make(*at, *(() if inner is None else (k,)))
    c = ca.densify(ca.vertcat(ca.SX(0, 1), *(row.expression for row in made)))
    used = tuple(np.flatnonzero(ca.which_depends(c, k)).tolist()) if inner is not None and ca.depends_on(c, k) else ()
    known = k[list(used), :]
    jacobian, curvature = _derivatives(label, space, at, make, k, used, width, inner, full)
    return Rows(
        outer=dense_function(f"{label}_rows", [*at, known], [c]), jacobian=jacobian, curvature=curvature,
        sought=inner.sought if inner is not None and used else None, value_indices=used,
        kind=np.array([row.kind for row in made], dtype=np.int64), size=np.array([row.size for row in made], dtype=np.int64),
        needs_control=_needs(made, ca.vertcat(at[2], k)), names=tuple(row.name for row in made), unit=np.ones(len(made)))


def _derivatives(label: str, space: Space, at: Sequence[Expr], make: Callable[..., list[Row]], k: Expr, used: Sequence[int],
                 width: int, inner: Inner | None, full: bool) -> tuple[ca.Function, ca.Function]:
    """``Rows.jacobian`` and ``Rows.curvature``. k: symbols of ``make``; inner: what they stand for; full: see ``make_rows``."""
    t, x, u, p = at
    size, known = space.ndx + u.shape[0], k[list(used), :]
    z = ca.SX.sym("z", size)
    dx, du = ca.vertsplit(z, [0, space.ndx, size])
    near = make(t, space.jet(x, dx), u + du, p, *((k,) if k.shape[0] else ()))
    y, T = ca.SX.sym("y", len(near)), ca.SX.sym("T", width, len(used))
    at_z, variables = ca.densify(ca.vertcat(ca.SX(0, 1), *(row.expression for row in near))), ca.vertcat(z, known)
    J = ca.jacobian(at_z, variables)
    H, gradient = ca.hessian(ca.dot(y, at_z), variables) if near else (ca.SX(variables.shape[0], variables.shape[0]), 0 * variables)
    value, J, H, gradient = ca.substitute([at_z, J, H, gradient], [z], [ca.SX.zeros(size)])
    bent = through(H, T.T[:, :size]) if used else H
    inputs, name = [*at, known, T, y], f"{label}_hessian"
    jacobian = dense_function(f"{label}_jacobian", [*at, known],
                            [value, by_rows(J[:, :size], width), by_rows(J[:, size:], len(used))])
    if inner is None or not used or (inner.forward and not full):
        return jacobian, dense_function(name, inputs, [by_rows(ca.tril(bent), width)])
    weights = ca.SX(inner.count, 1)
    weights[list(used)] = gradient[size:]
    outer = ca.Function("outer", inputs, ca.cse([bent, weights]))
    given = [ca.MX.sym(outer.name_in(i), outer.sparsity_in(i)) for i in range(outer.n_in())]
    H, weights = outer.call(given)  # what is large is called: nothing else is shared with it
    H = ca.tril(H + inner.second(given[0], given[1], given[2], weights))
    return jacobian, ca.Function(name, given, [ca.densify(by_rows(H, width))])


def _needs(made: Sequence[Row], u: Expr) -> np.ndarray:
    """Which rows depend on the control; a cone does where any of its rows does."""
    needs = np.array([bool(ca.depends_on(ca.SX(row.expression), u)) if u.shape[0] else False for row in made], dtype=np.int64)
    for i, row in enumerate(made):
        if row.kind == CONE:
            needs[i:i + row.size] = needs[i:i + row.size].max()
    return needs
