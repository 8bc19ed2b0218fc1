"""Costs and constraints at the ends of phases: boundary states, start and final terms, passages from phase to phase, linkages."""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca
import numpy as np

from ocp.errors import ProblemError
from ocp.nlp.names import Names
from ocp.problem import At, Boundary, Linkage, Phase
from ocp.spaces import Expr
from ocp.transcription.blocks import Block, has_cost, vector
from ocp.transcription.conditions import Rows, cost_value, gauss_newton, hard_rows, independent_of_control, penalty
from ocp.transcription.layout import held_by_rows
from ocp.transcription.part import Columns, Part, identity, join, nothing
from ocp.transcription.static_unknowns import clock


def ends_part(cols: Columns) -> Part:
    """Start and final costs, constraints and prescribed states of a phase, as one function of (x_0, x_N, static)."""
    phase, form = cols.phase, cols.form
    system = phase.system
    own = clock(ca.SX, cols.problem, cols.number, cols.static)
    cost, soft, residuals, rows = ca.SX(0), ca.SX(0), [], []
    states, centres = [], []
    u = ca.SX.sym("u", system.nu)
    for at, boundary in ((At.START, phase.start), (At.FINAL, phase.final)):
        z, centre = ca.SX.sym(f"z_{at.value}", form.size), ca.SX.sym(f"centre_{at.value}", form.centre_size)
        states.append(z)
        centres.append(centre)
        here = (own.start if at is At.START else own.start + own.T, form.state(z, centre), u, own.p)
        for item in phase.costs:
            if item.at is at:
                value = cost_value(item, here)
                independent_of_control(f"cost {item.name!r}", value, u)
                cost += value
                residuals.append((item, here, ca.SX(1)))
        for c in phase.constraints:
            if c.at is not at:
                continue
            expression = penalty(c, here) if c.soft is not None else hard_rows(c, here)
            independent_of_control(c.where or f"constraint {c.name!r}",
                                   expression.expression if isinstance(expression, Rows) else expression, u)
            if isinstance(expression, Rows):
                rows.append(Rows(expression.expression, expression.lower, expression.upper,
                                 tuple(f"{name} @ {at.value}" for name in expression.names)))
            else:
                soft += expression
        rows += _boundary_rows(cols, at, boundary, here[1])
    joined = join(ca.SX, rows)
    layout = cols.layout
    index, values = cols.index(own, layout.states[:1], layout.states[-1:]), own.beside(cols.centres([0]), cols.centres([-1]))
    v = vector(ca.SX, *states, own.variable)
    block = Block(
        name=f"ends_{cols.number}" if cols.number else "ends", v=v, data=vector(ca.SX, *centres, own.data), cost=cost + soft,
        rows=joined.expression, index=index, values=values,
        weight=np.ones(1), matrix=identity(len(joined.names)), gauss_newton=lambda: gauss_newton(residuals, soft, v))
    return _part(cols.n, block, joined, cols.prefix)


def _boundary_rows(cols: Columns, at: At, boundary: Boundary | None, x: Expr) -> list[Rows]:
    """Prescribed tangent components that cannot be bounds of unknowns, and unit norms at a start that leaves them open."""
    space, rows = cols.phase.system.space, []
    held, norms = held_by_rows(cols.phase, cols.form, at)
    if boundary is not None and held:
        away = space.minus(ca.DM(boundary.value), x)
        names = tuple(f"{at.value} value of {space.tangent_names[i]}" for i in held)
        limits = _from_reference(cols, at, boundary, held)
        rows.append(Rows(ca.vertcat(*(away[i] for i in held)), limits, limits, names))
    if norms:
        for q in space.quaternions:
            rows.append(Rows(ca.sumsqr(x[q:q + 4]), (1.0,), (1.0,), (f"unit norm of {space.names[q]} ... @ start",)))
    return rows


def _from_reference(cols: Columns, at: At, boundary: Boundary, prescribed: Sequence[int]) -> tuple[float, ...]:
    """Values of the constraints of a prescribed state at it: they measure from the state in the functions of the program."""
    phase = cols.reference
    before = None if phase is None else phase.start if at is At.START else phase.final
    if before is None:
        return (0.0,) * len(prescribed)
    away = np.array(ca.DM(cols.phase.system.space.minus(ca.DM(before.value), ca.DM(boundary.value)))).ravel()
    return tuple(away[list(prescribed)].tolist())


def passage_part(before: Columns, after: Columns) -> Part:
    """The start of a phase is where its reset puts the end of the phase before, or that end itself."""
    phase = after.phase
    if phase.reset is None and phase.system.nx != before.phase.system.nx:
        raise ProblemError(f"has {phase.system.nx} states and no reset, the phase before has {before.phase.system.nx}",
                           where=f"phase {phase.name!r}")
    own = clock(ca.SX, after.problem, after.number, after.static)
    (z0, c0), (z1, c1) = ((ca.SX.sym(f"z{i}", p.form.size), ca.SX.sym(f"c{i}", p.form.centre_size)) for i, p in enumerate((before,
                                                                                                                           after)))
    left, right = before.form.state(z0, c0), after.form.state(z1, c1)
    there = left if phase.reset is None else phase.reset(left, own.p)
    space = phase.system.space
    gap = ca.densify(space.minus(there, right))
    name = f"{before.phase.name} to {phase.name}"
    rows = Rows(gap, (0.0,) * space.ndx, (0.0,) * space.ndx, tuple(f"{name} {part} @ passage" for part in space.tangent_names))
    index = after.index(own, before.layout.states[-1:], after.layout.states[:1])
    values = own.beside(before.centres([-1]), after.centres([0]))
    block = Block(
        name=f"passage_{after.number}", v=vector(ca.SX, z0, z1, own.variable), data=vector(ca.SX, c0, c1, own.data), cost=ca.SX(0),
        rows=rows.expression, index=index, values=values, weight=np.ones(1),
        matrix=identity(space.ndx))
    return _part(after.n, block, rows, "")


def linkage_part(linkage: Linkage, placed: tuple[Columns, ...], number: int) -> Part:
    """A constraint between ends of phases: a function of these states, the durations of all phases and parameters by name."""
    static, problem = placed[0].static, placed[0].problem
    states, arguments, index, values, data = [], [], [], [], []
    for i, (phase_number, at) in enumerate(linkage.ends):
        cols, k = placed[phase_number], 0 if at is At.START else -1
        z, c = ca.SX.sym(f"z{i}", cols.form.size), ca.SX.sym(f"c{i}", cols.form.centre_size)
        states.append(z)
        data.append(c)
        arguments.append(cols.form.state(z, c))
        index += cols.layout.states[k].tolist()
        values += list(cols.centres([k])[0])
    extra: list[Expr] = []
    durations = []
    for i, phase in enumerate(problem.phases):
        if (at_column := static.durations[i]) is None:
            durations.append(ca.SX(phase.duration.lower))
        else:
            durations.append(ca.SX.sym(f"T{i}"))
            extra.append(durations[-1])
            index.append(placed[0].first + at_column)
    p = []
    for name in linkage.parameters:
        if name in static.parameters:
            p.append(ca.SX.sym(f"p_{name}"))
            extra.append(p[-1])
            index.append(placed[0].first + static.parameters[name])
        else:
            p.append(ca.SX(_fixed_value(problem.phases, name, linkage)))
    value = ca.densify(ca.vec(linkage.function(*arguments, ca.vertcat(*durations), ca.vertcat(ca.SX(0, 1), *p))))
    if value.shape[0] != linkage.size:
        raise ProblemError(f"sizes differ: function {value.shape[0]}, lower {linkage.size}", where=linkage.where or
                           f"linkage {linkage.name!r}")
    rows = Rows(value, linkage.lower, linkage.upper, tuple(f"{name} @ linkage" for name in linkage.components()))
    block = Block(name=f"linkage_{number}", v=vector(ca.SX, *states, *extra), data=vector(ca.SX, *data), cost=ca.SX(0),
                  rows=rows.expression,
                  index=np.array([index], dtype=int), values=np.array(values, dtype=float).reshape(1, -1), weight=np.ones(1),
                  matrix=identity(linkage.size))
    return _part(placed[0].n, block, rows, "")


def _fixed_value(phases: tuple[Phase, ...], name: str, linkage: Linkage) -> float:
    where = linkage.where or f"linkage {linkage.name!r}"
    found = {phase.system.parameter_values[phase.system.parameters.index(name)]: phase.name for phase in phases
             if name in phase.system.parameters}
    if not found:
        raise ProblemError(f"no phase has a parameter {name!r}", where=where)
    if len(found) > 1:
        told = ", ".join(f"{value:g} in phase {phase!r}" for value, phase in found.items())
        raise ProblemError(f"parameter {name!r} has several values ({told}); a linkage needs one", where=where)
    return next(iter(found))


def _part(n: int, block: Block, rows: Rows, prefix: str) -> Part:
    names = tuple(f"{prefix}{name}" for name in rows.names)
    blocks = (block,) if names or has_cost(block) else ()
    lower, upper = np.array(rows.lower, dtype=float), np.array(rows.upper, dtype=float)
    return Part(nothing(len(names), n), blocks, lower, upper, Names.of(names))
