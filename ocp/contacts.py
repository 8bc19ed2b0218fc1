"""Contacts of robots in problems: friction while they are active, clearance while they are not, and impacts between phases."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import casadi as ca

from dynamics.constraints import Contact, FlatContact
from dynamics.constraints.friction_cone import EXACT, PYRAMID
from dynamics.derivatives.constrained import impact_partials
from dynamics.errors import near
from dynamics.lie.expression import Expr
from dynamics.mechanism import Mechanism
from dynamics.mechanism.constrained import spread
from ocp.bridge import model_space, row_names
from ocp.errors import ProblemError
from ocp.problem import INF, At, Constraint, Sense

CONES = {"second_order": EXACT, "pyramid": PYRAMID, "outer_pyramid": replace(PYRAMID, pyramid="outer")}


def with_contacts(mechanism: Mechanism, active: Sequence[str]) -> Mechanism:
    """The mechanism with the contacts named ``active`` and no others; constraints of other kinds stay. Raises ProblemError."""
    known = [c.name for c in mechanism.constraints if isinstance(c, Contact)]
    for name in active:
        if name not in known:
            raise ProblemError(f"no contact named {name!r}{near(name, known)}", where="contacts")
    return replace(mechanism, constraints=tuple(
        c for c in mechanism.constraints if not isinstance(c, Contact) or c.name in active))


def contact_constraints(mechanism: Mechanism, parameters: int = 0, unknowns: int = 0, *,
                        cone: str | Mapping[str, str] | None = None, bilateral: Sequence[str] = (),
                        where: str | None = None) -> tuple[Constraint, ...]:
    """Path constraints of all contacts of a mechanism: the ground only pushes, and forces stay in their cones of friction.

    cone: in place of those of the contacts, of all or by name: "second_order", or a pyramid of four sides, "pyramid" inside it and
    "outer_pyramid" around it; bilateral: names of further contacts that may also pull. A cone says that its point pushes; that is
    not given twice. Limits of normal forces are those of the contacts. parameters, unknowns: how many parameters the
    system has, and inputs beyond its drives; multipliers are the last of these. Raises ProblemError.
    """
    arguments = _arguments(mechanism, parameters, unknowns)
    contacts = [c for c in mechanism.constraints if isinstance(c, Contact) and c.unilateral and c.name not in bilateral]
    forces = constraint_forces(mechanism, arguments, unknowns) if contacts else {}
    found, model = [], mechanism.model
    weight = model.mass * math.hypot(*model.gravity) or 1.0
    for c in contacts:
        kind = cone.get(c.name) if isinstance(cone, Mapping) else cone
        if kind is not None and kind not in CONES:
            raise ProblemError(f"no cone named {kind!r}{near(kind, CONES)}", where=f"contact {c.name!r}")
        shape = c.cone if kind is None else CONES[kind]
        cones, pushes = c.cones(forces[c.name]), c.pushes(forces[c.name])
        for i, value in enumerate(cones):
            name = f"{c.name} friction" if len(cones) == 1 else f"{c.name} friction {i + 1}"
            if shape.sides:
                sides = -(ca.sparsify(ca.DM(shape.rows(1.0))) @ ca.vertcat(value[1:], value[0]))
                found.append(_path(name, arguments, sides, Sense.BOX, where))
            else:
                found.append(replace(_path(name, arguments, value, Sense.CONE, where), unit=weight))
        normals = pushes[:1] if isinstance(c, FlatContact) else pushes
        if c.least > 0 or c.most < INF:
            found.append(_path(f"{c.name} force", arguments, normals, Sense.BOX, where, (c.least, c.most)))
        if pushes.shape[0] > len(cones):
            found.append(_path(f"{c.name} pushes", arguments, pushes[len(cones):], Sense.BOX, where))
    return tuple(replace(one, physical=True) for one in found)


def constraint_forces(mechanism: Mechanism, arguments: Sequence[Expr], unknowns: int = 0) -> dict[str, Expr]:
    """Multipliers of all rows of each constraint by its name. arguments: (t, x, u, p) of the system; where it has more inputs than
    drives, so many ``unknowns``, u ends with the multipliers."""
    t, x, u, _ = arguments
    nq = mechanism.model.nq
    if not unknowns:
        return mechanism.constraint_forces(x[:nq], x[nq:], u, t)
    last = u[u.shape[0] - len(row_names(mechanism)):]
    return mechanism.by_constraint(spread(mechanism.model, mechanism.constraints, x[:nq], last))


def clear_constraint(mechanism: Mechanism, contact: Contact, clearance: float = 0.0, parameters: int = 0, unknowns: int = 0, *,
                     where: str | None = None) -> Constraint:
    """The path constraint that an inactive contact stays at least ``clearance`` [m] over its plane."""
    arguments, model = _arguments(mechanism, parameters, unknowns), mechanism.model
    return _path(f"{contact.name} clear", arguments, contact.gap(model, arguments[1][:model.nq]) - clearance, Sense.BOX, where)


def impact_map(mechanism: Mechanism, x: Expr, restitution: float | Mapping[str, float] = 0.0) -> Expr:
    """x = (q, v) after all constraints of the mechanism of the next phase have struck, from x [nx] before: the linkage of phases at
    a touch-down. restitution: as in ``Mechanism.impact``. Raises ProblemError where constraints move by themselves."""
    if mechanism.prescribed:
        raise ProblemError("an impact needs constraints that do not depend on time; those of this mechanism do", where="reset")
    nq = mechanism.model.nq
    return ca.vertcat(x[:nq], mechanism.impact(x[:nq], x[nq:], restitution).v_after)


def impact_derivative(mechanism: Mechanism, restitution: float | Mapping[str, float] = 0.0) -> ca.Function:
    """x -> ``impact_map`` [nx], and its derivative [ndx, ndx] in closed form."""
    model, x = mechanism.model, ca.SX.sym("x", mechanism.model.nq + mechanism.model.nv)
    n, q = model.nv, x[:model.nq]
    struck = impact_partials(model, mechanism.constraints, q, x[model.nq:], restitution)
    derivative = ca.vertcat(ca.horzcat(ca.SX.eye(n), ca.SX(n, n)), struck.Y[:n, :2 * n])
    return ca.Function("impact", [x], ca.cse([ca.vertcat(q, struck.v_after), derivative]), ["x"], ["after", "derivative"])


def _arguments(mechanism: Mechanism, parameters: int, unknowns: int) -> list[Expr]:
    """Symbols [t, x, u, p]."""
    sizes = (1, model_space(mechanism.model).nx, mechanism.nu + unknowns, parameters)
    return [ca.SX.sym(name, size) for name, size in zip("txup", sizes, strict=True)]


def _path(name: str, arguments: Sequence[Expr], value: Expr, sense: Sense, where: str | None,
          ends: tuple[float, float] = (0.0, INF)) -> Constraint:
    function = ca.Function("contact", list(arguments), [ca.densify(ca.cse(ca.SX(value)))], ["t", "x", "u", "p"], ["value"])
    count = value.shape[0]
    return Constraint(name, At.PATH, function, ends[:1] * count, ends[1:] * count, sense, where=where)
