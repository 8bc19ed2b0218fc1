"""The equations of a tree whose motion is constrained: accelerations with forces, velocities after an impact with impulses.

    M a - J' lambda = tau - h        J a = -drift - d rate - k g
    M v+ - J' Lambda = M v + P       rate(v+) = -e rate(v)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import casadi as ca

from dynamics import algorithms as alg
from dynamics.algorithms import tree
from dynamics.algorithms.jacobians import body_jacobians
from dynamics.algorithms.saddle import Saddle
from dynamics.constraints import Constraint
from dynamics.errors import ModelError, UnknownNameError
from dynamics.lie.expression import Expr
from dynamics.model.model import Model

Restitution = float | Mapping[str, float | Sequence[float]]


class Impact(NamedTuple):
    """v_after [nv], impulse [m] (N s, N m s) of the reduced rows, change of the kinetic energy (J): negative where it is lost."""

    v_after: Expr
    impulse: Expr
    energy: Expr


def stacked(model: Model, constraints: Sequence[Constraint], what: str, *arguments: Expr) -> Expr:
    """``value``, ``jacobian``, ``rate`` or ``drift`` of all records, one below the other."""
    rows = [getattr(c, what)(model, *arguments) for c in constraints]
    return ca.vertcat(*rows) if rows else ca.DM(0, model.nv if what == "jacobian" else 1)


def reduced(constraints: Sequence[Constraint]) -> tuple[Constraint, ...]:
    """The constraints in rows that do not repeat each other within one record."""
    return tuple(c.reduced for c in constraints)


def spread(model: Model, constraints: Sequence[Constraint], q: Expr, multipliers: Expr) -> Expr:
    """Multipliers of all rows [m] from those of the reduced constraints."""
    parts, start = [], 0
    for c in constraints:
        count = c.reduced.size(model)
        parts.append(c.spread(model, q, multipliers[start:start + count]))
        start += count
    return ca.vertcat(*parts)


def demanded(model: Model, constraints: Sequence[Constraint], q: Expr, v: Expr, t: Expr) -> Expr:
    """The required ``J a`` [m]: no acceleration of the rates, and off the constraints their decay by gains (k, d)."""
    rows = [-c.drift(model, q, v, t) - c.gains[1] * c.rate(model, q, v, t) - c.gains[0] * c.value(model, q, t) for c in constraints]
    return ca.vertcat(*rows) if rows else ca.DM(0, 1)


def accelerations(model: Model, constraints: Sequence[Constraint], q: Expr, v: Expr, tau: Expr, t: Expr = 0.0,
                  f_ext: Mapping[str, Expr] | None = None) -> tuple[Expr, Expr]:
    """(a [nv], lambda [m]) under the generalised force tau [nv]; f_ext: body name -> wrench [6], body coordinates.

    lambda is that of the ``reduced`` constraints. Rows may depend on each other: see ``Saddle``. a is unique, lambda the smallest
    one. Raises UnknownNameError.
    """
    q, v, tau, constraints = tree.as_column(q), tree.as_column(v), tree.as_column(tau), reduced(constraints)
    saddle = Saddle(alg.mass_matrix(model, q), stacked(model, constraints, "jacobian", q, t))
    return saddle.solve(tau - alg.bias_force(model, q, v, f_ext), demanded(model, constraints, q, v, t))


def impact(model: Model, constraints: Sequence[Constraint], q: Expr, v: Expr, restitution: Restitution = 0.0, t: Expr = 0.0,
           impulses: Mapping[str, Expr] | None = None) -> Impact:
    """The velocity v [nv] after an impact of all constraints at once; those active before stay active.

    restitution: e in [0, 1] of all rows, or by the name of a record, one number or one for each of its rows; names left out: 0.
    impulses: body name -> impulsive wrench [6] (N s, N m s) from outside, body coordinates. Raises ModelError, UnknownNameError.
    """
    q, v, constraints = tree.as_column(q), tree.as_column(v), reduced(constraints)
    M, J = alg.mass_matrix(model, q), stacked(model, constraints, "jacobian", q, t)
    rate = stacked(model, constraints, "rate", q, v, t)
    pushed = push(model, q, impulses)
    change, impulse = Saddle(M, J).solve(pushed, -(1 + bounce(model, constraints, restitution)) * rate)
    after = v + change
    return Impact(after, impulse, ca.dot(change, M @ (v + after)) / 2)


def push(model: Model, q: Expr, wrenches: Mapping[str, Expr] | None) -> Expr:
    """Generalised force ``sum J' w`` [nv] of wrenches [6] on bodies, by name, body coordinates."""
    total = tree.zeros(model.nv, 1, q)
    for i, wrench in tree.wrench_by_body(model, wrenches).items():
        total = total + body_jacobians(model, q)[i].T @ wrench
    return total


def bounce(model: Model, constraints: Sequence[Constraint], restitution: Restitution) -> ca.DM:
    """Restitution of every row [m]. Raises ModelError for numbers outside [0, 1], UnknownNameError for unknown names."""
    names = [c.name for c in constraints]
    if isinstance(restitution, Mapping):
        for name in restitution:
            if name not in names:
                raise UnknownNameError("constraint", name, names)
    parts = []
    for c in constraints:
        rows = c.size(model)
        e = ca.DM(restitution.get(c.name, 0.0) if isinstance(restitution, Mapping) else restitution)
        if e.numel() not in (1, rows):
            raise ModelError(f"{e.numel()} restitutions for {rows} independent equations; give one for each, or one number",
                             element=f"constraint {c.name!r}")
        if not all(0 <= x <= 1 for x in e.full().ravel()):
            raise ModelError(f"restitution must lie between 0 and 1, got {e}", element=f"constraint {c.name!r}")
        parts.append(e * ca.DM.ones(rows))
    return ca.vertcat(*parts)
