"""Hard constraints of a phase as rows at the knots: what must vanish, stay negative, or lie in a second-order cone.

Path rows hold at the knots 0 ... N-1 (those that do not depend on the control from knot 1 on: the start is given), final rows
at knot N, where path rows without control join them. Bounds on states, prescribed final states and constraints of the problem
all become rows; bounds on controls stay bounds. Derivatives are taken in the tangent space of the state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from ocp.problem import At, Constraint, Phase, Sense

Expr = Any
EQUAL, BELOW, CONE, IN_CONE = 0, 1, 2, 3
"""Kinds of rows: c = 0; c <= 0; first row of a cone ``|c[1:]| <= c[0]``; its other rows."""


@dataclass(frozen=True)
class Rows:
    """Rows of one place. value(t, x, u, p) -> c [r]; jacobian(t, x, u, p) -> c, Cx [r, ndx], Cu [r, nu], matrices transposed as
    all that leaves for the loops; curvature(t, x, u, p, w) -> Hessians xx, uu, ux (transposed) of w' c [r];
    adjoint(t, x, u, p, w) -> gradients of w' c by the coordinates of x and by u.

    kind [r]; size [r]: rows of the cone that begins here; needs_control [r]; names [r]: component by component.
    """

    value: ca.Function
    jacobian: ca.Function
    curvature: ca.Function
    adjoint: ca.Function
    kind: np.ndarray
    size: np.ndarray
    needs_control: np.ndarray
    names: tuple[str, ...]

    @property
    def count(self) -> int:
        return len(self.names)


@dataclass(frozen=True)
class _Row:
    name: str
    expression: Expr
    kind: int
    size: int = 1


def path_rows(phase: Phase) -> Rows:
    """Rows along the path: bounds on states, hard path constraints."""
    return _rows(phase, "path", lambda t, x, u, p: [
        *_state_bounds(phase, x), *(row for c in _hard(phase, At.PATH) for row in _constraint(c, t, x, u, p))])


def final_rows(phase: Phase) -> Rows:
    """Rows at the end: path rows that need no control, prescribed final states, hard final constraints."""
    path = path_rows(phase)

    def made(t: Expr, x: Expr, u: Expr, p: Expr) -> list[_Row]:
        c = path.value(t, x, u, p)
        kept = [_Row(path.names[i], c[i], int(path.kind[i]), int(path.size[i]))
                for i in range(path.count) if not path.needs_control[i]]
        fixed = []
        if phase.final is not None:
            away = phase.system.space.minus(ca.DM(phase.final.value), x)
            fixed = [_Row(f"final {name}", away[i], EQUAL)
                     for i, name in enumerate(phase.system.space.tangent_names) if phase.final.fixed[i]]
        return [*kept, *fixed, *(row for c in _hard(phase, At.FINAL) for row in _constraint(c, t, x, u, p))]

    return _rows(phase, "final", made)


def _hard(phase: Phase, at: At) -> list[Constraint]:
    return [c for c in phase.constraints if c.at is at and c.soft is None]


def _state_bounds(phase: Phase, x: Expr) -> list[_Row]:
    rows = []
    for i, (name, lower, upper) in enumerate(zip(phase.system.space.names, phase.x_lower, phase.x_upper, strict=True)):
        rows += _between(f"bound {name}", x[i], lower, upper)
    return rows


def _constraint(constraint: Constraint, t: Expr, x: Expr, u: Expr, p: Expr) -> list[_Row]:
    value = constraint.function(t, x, u, p)
    if constraint.sense is Sense.CONE:
        return [_Row(constraint.name, value[i], IN_CONE if i else CONE, constraint.size) for i in range(value.shape[0])]
    rows = []
    for i, name in enumerate(constraint.components()):
        rows += _between(name, value[i], constraint.lower[i], constraint.upper[i])
    return rows


def _between(name: str, value: Expr, lower: float, upper: float) -> list[_Row]:
    if lower == upper:
        return [_Row(name, value - lower, EQUAL)]
    rows = [_Row(f"{name} (upper)", value - upper, BELOW)] if np.isfinite(upper) else []
    return rows + ([_Row(f"{name} (lower)", lower - value, BELOW)] if np.isfinite(lower) else [])


def _rows(phase: Phase, label: str, make: Callable[..., list[_Row]]) -> Rows:
    system, space = phase.system, phase.system.space
    ndx, nu = space.ndx, system.nu
    t, x, u, p = (ca.SX.sym(n, size) for n, size in zip("txup", (1, system.nx, nu, system.np), strict=True))
    z = ca.SX.sym("z", ndx + nu)
    made = make(t, x, u, p)
    c = ca.densify(ca.vertcat(ca.SX(0, 1), *(row.expression for row in made)))
    near = [row.expression for row in make(t, space.jet(x, z[:ndx]), u + z[ndx:], p)]
    at_z = ca.densify(ca.vertcat(ca.SX(0, 1), *near))
    w = ca.SX.sym("w", len(made))

    def here(expression: Expr) -> Expr:
        return ca.densify(ca.substitute(ca.SX(expression), z, ca.SX.zeros(ndx + nu)))

    J = here(ca.jacobian(at_z, z))
    H = here(ca.hessian(ca.dot(w, at_z), z)[0]) if made else ca.SX.zeros(ndx + nu, ndx + nu)
    arguments, product = [t, x, u, p], ca.dot(w, c)
    needs = np.array([bool(ca.depends_on(row.expression, u)) if nu else False for row in made], dtype=np.int64)
    return Rows(
        value=_function(f"{label}_rows", arguments, [c]),
        jacobian=_function(f"{label}_jacobian", arguments, [c, J[:, :ndx].T, J[:, ndx:].T]),
        curvature=_function(f"{label}_curvature", [*arguments, w], [H[:ndx, :ndx], H[ndx:, ndx:], H[ndx:, :ndx].T]),
        adjoint=_function(f"{label}_adjoint", [*arguments, w], [ca.gradient(product, x), ca.gradient(product, u)]),
        kind=np.array([row.kind for row in made], dtype=np.int64),
        size=np.array([row.size for row in made], dtype=np.int64),
        needs_control=_whole_cones(made, needs), names=tuple(row.name for row in made))


def _whole_cones(made: Sequence[_Row], needs: np.ndarray) -> np.ndarray:
    """A cone needs the control where any of its rows does."""
    for i, row in enumerate(made):
        if row.kind == CONE:
            needs[i:i + row.size] = needs[i:i + row.size].max()
    return needs


def _function(name: str, inputs: Sequence[Expr], outputs: Sequence[Expr]) -> ca.Function:
    return ca.Function(name, list(inputs), ca.cse([ca.densify(ca.SX(y)) for y in outputs]))
