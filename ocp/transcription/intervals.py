"""Multiple shooting: one integration of every interval, its running cost, and path constraints at the knots.

    x_{k+1} = F_k(x_k, u_k, u_{k+1})

with F several steps of any integrator. Algebraic unknowns stand at the points of explicit steps, too, and their equations are
constraints (``ocp.transcription.carried``). Where that looks back (``ocp.integrators.multistep``), the defect is one over two
intervals, ``x_{k+1} = F_k(x_{k-1}, x_k, u_k, u_{k+1})``, but for the first. The running cost is integrated by the same method, as
if it were one more state. Bock and Plitt 1984, A multiple shooting algorithm for direct solution of optimal control problems, IFAC
World Congress.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import casadi as ca
import numpy as np

from ocp.integrators import DISCRETE_TIME, INTEGRATORS, MULTISTEP, Integrator
from ocp.nlp.names import Names
from ocp.problem import At, Cost, Phase
from ocp.spaces import Expr
from ocp.transcription import motion
from ocp.transcription.blocks import Block, vector
from ocp.transcription.carried import Points
from ocp.transcription.conditions import cost_value, gauss_newton, hard_rows, penalty
from ocp.transcription.evaluation import WHOLE, integral_rows, node_rows
from ocp.transcription.mesh import Compressed, Grid, Table
from ocp.transcription.part import Columns, Part, graph_kind, nothing, stacked
from ocp.transcription.static_unknowns import Clock, clock


def shooting_part(cols: Columns, grid: Grid) -> Part:
    """Matching conditions, running costs and path constraints of one phase."""
    form, layout, n, N = cols.form, cols.layout, cols.n, grid.intervals
    size = form.size
    rows = N * size
    integrals, residual = integral_rows(cols.phase), cols.phase.system.residual
    equations = next((c.components() for c in cols.phase.constraints if residual is not None and c.function is residual), ())
    inside = layout.stages.shape[1]
    total = rows + len(integrals.names) + N * inside
    blocks = _matched(grid, lambda group: (interval_block(cols, grid, group), size), rows, inside, total)
    linear = Table(np.arange(rows), layout.states[1:].ravel(), np.full(rows, -1.0), (total, n))

    def names() -> list[str]:
        defects = [f"{cols.prefix}defect {name} @ interval {k}" for k in range(N) for name in form.names]
        return defects + [f"{cols.prefix}{name}{WHOLE}" for name in integrals.names] + [
            f"{cols.prefix}{name} @ stage {i + 1} of interval {k}" for k in range(N)
            for i in range(inside // max(1, len(equations))) for name in equations]

    lower, upper = (np.concatenate([np.zeros(rows), whole, np.zeros(N * inside)]) for whole in (integrals.lower, integrals.upper))
    return Part(linear, blocks, lower, upper, Names(total, names), defects=rows)


def motion_part(cols: Columns, grid: Grid) -> Part:
    """The same with the equations of motion as defects (``ocp.transcription.motion``)."""
    N, integrals = grid.intervals, integral_rows(cols.phase)
    names = [motion.names_of_rows(cols.phase, grid, cols.form.names, k) for k in range(N)]
    rows = sum(len(own) for own in names)
    total = rows + len(integrals.names)
    blocks = _matched(grid, lambda group: (_motion_block(cols, grid, group), len(names[group[0]])), rows, 0, total)
    lower, upper = (np.concatenate([np.zeros(rows), whole]) for whole in (integrals.lower, integrals.upper))
    told = [f"{cols.prefix}{name} @ interval {k}" for k in range(N) for name in names[k]]
    told += [f"{cols.prefix}{name}{WHOLE}" for name in integrals.names]
    return Part(nothing(total, cols.n), blocks, lower, upper, Names(total, lambda: told), defects=rows)


def _matched(grid: Grid, made: Callable[[np.ndarray], tuple[Block, int]], rows: int, inside: int, total: int) -> tuple[Block, ...]:
    """The blocks of the intervals, of the first one apart where an integrator looks back. made(intervals) -> block, and how many of
    its rows are defects; rows: of all defects; inside: how many rows at the end of a block are equations at points within."""
    N, found, first = grid.intervals, [], 0
    groups = (np.arange(1), np.arange(1, N)) if grid.integrator in MULTISTEP else (np.arange(N),)
    for group in (own for own in groups if len(own)):
        block, each = made(group)
        table = picks(len(group), block.size, ((0, each, False), (each, block.size - inside, True),
                                               (block.size - inside, block.size, False)), total)
        defects = table.rows < len(group) * each
        weight = np.where(defects, 1.0, np.repeat(block.weight, block.size)[table.columns])
        at = np.where(defects, table.rows + first, table.rows + rows - len(group) * each)
        found.append(replace(block, matrix=replace(table, rows=at, values=table.values * weight)))
        first += len(group) * each
    return tuple(found)


def _motion_block(cols: Columns, grid: Grid, group: np.ndarray) -> Block:
    """The function of the intervals of a group: rows [evaluation points, motion; integrands], cost = its running cost."""
    phase, form, layout, back = cols.phase, cols.form, cols.layout, grid.integrator in MULTISTEP and bool(group[0])
    kind, inner = motion.graph_kind(phase), np.array([layout.inside[k] for k in group]).reshape(len(group), -1)
    knots = [group - 1] * back + [group, group + 1]  # of whose states the function is one
    states, centres = ([kind.sym("z", size) for _ in knots] for size in (form.size, form.centre_size))
    u, inside, tau, width, ratio = (kind.sym(name, size) for name, size in (
        ("u", phase.system.nu), ("inside", inner.shape[1]), ("tau", 1), ("width", 1), ("ratio", int(back))))
    own = clock(kind, cols.problem, cols.number, cols.static)
    *past, x, after = (form.state(z, centre) for z, centre in zip(states, centres, strict=True))
    end, moved, nodes = motion.equations(phase.system, grid.integrator, own.start + own.T * tau, x, after, inside, u, own.p,
                                         own.T * width, (past[0], ratio) if back else None)
    gap = form.space.minus(after, end) if form.tangent else end - after
    pieces, soft, integrals = charged(phase, kind, [(own.T * width * weight, (t, at, u, own.p)) for weight, t, at in nodes])
    v = vector(kind, *states, u, inside, own.variable)
    widths = np.diff(grid.edges)
    index = cols.index(own, *(layout.states[k] for k in knots), layout.controls[group], inner)
    values = own.beside(grid.edges[group], widths[group], *([widths[group] / widths[group - 1]] * back),
                        *(cols.centres(k) for k in knots))
    return Block(
        name=f"interval_{cols.number}{'_on' if back else ''}", v=v, data=vector(kind, tau, width, ratio, *centres, own.data),
        cost=sum((scale * cost_value(item, here) for item, here, scale in pieces), start=soft),
        rows=vector(kind, gap[:form.size - phase.system.space.ndx // 2], moved, integrals), index=index, values=values,
        weight=_weights(grid)[group], matrix=nothing(0, 0), gauss_newton=lambda: gauss_newton(pieces, soft, v))


def picks(count: int, size: int, spans: Sequence[tuple[int, int, bool]], total: int) -> Table:
    """Entries of the program's constraints from functions of ``size`` components at ``count`` points.

    For each span (first, last, summed): these constraints of point after point, or their sums over all evaluation points.
    """
    rows, columns, above = [], [], 0
    for first, last, summed in spans:
        own = np.arange(first, last)
        columns.append((size * np.arange(count)[:, None] + own).ravel())
        rows.append(above + (np.tile(own - first, count) if summed else np.arange(count * len(own))))
        above += len(own) * (1 if summed else count)
    r, c = np.concatenate(rows), np.concatenate(columns)
    return Table(r, c, np.ones(len(r)), (total, count * size))


def path_part(cols: Columns, grid: Grid | Compressed) -> Part:
    """Path constraints at the knots; with piecewise-constant controls the last knot has none, and keeps those on the state
    alone."""
    phase, kind = cols.phase, graph_kind(cols.phase.system)
    at_knots = cols.layout.controls[grid.at_knots]
    hard = [c for c in phase.constraints if c.at is At.PATH and c.soft is None]
    on_state = [c for c in hard if not c.function.jac_sparsity(0, 2).nnz()]
    both = len(at_knots)
    return stacked([node_rows(cols, grid, kind, "path", np.arange(both), hard, at_knots),
                    node_rows(cols, grid, kind, "last", np.arange(both, grid.intervals + 1), on_state)], cols.n)


def one_step(grid: Grid) -> Integrator:
    """The integrator of a grid, or that of its first step where it looks back."""
    if grid.integrator == DISCRETE_TIME.name:
        return DISCRETE_TIME
    return INTEGRATORS[MULTISTEP[grid.integrator].first if grid.integrator in MULTISTEP else grid.integrator]


def _weights(grid: Grid) -> np.ndarray:
    """How much the integrals over each interval count [N]."""
    return MULTISTEP[grid.integrator].weights(grid.edges) if grid.integrator in MULTISTEP else np.ones(grid.intervals)


def interval_block(cols: Columns, grid: Grid, group: np.ndarray) -> Block:
    """The function of every interval of a group: rows [F, as the next knot's unknowns see it; integrands], cost = its running
    cost."""
    phase, form, layout = cols.phase, cols.form, cols.layout
    back = grid.integrator in MULTISTEP and bool(group[0])
    kind = ca.MX if one_step(grid).implicit else graph_kind(phase.system)
    z, centre, beyond = (kind.sym(name, size) for name, size in (("z", form.size), ("centre", form.centre_size),
                                                                  ("beyond", form.centre_size)))
    z_back, centre_back = (kind.sym(name, size if back else 0) for name, size in (("back", form.size), ("about", form.centre_size)))
    ratio = kind.sym("ratio", int(back))
    u = kind.sym("u", phase.system.nu * (2 if grid.linear else 1))
    stages = kind.sym("stages", layout.stages.shape[1])
    tau, width = kind.sym("tau"), kind.sym("width")
    own = clock(kind, cols.problem, cols.number, cols.static)
    x = form.state(z, centre)
    before = (form.state(z_back, centre_back), ratio) if back else None
    end, pieces, soft, integrals, equations = integrate(cols, grid, own, x, u, tau, width, before=before, stages=stages)
    cost = sum((scale * cost_value(item, here) for item, here, scale in pieces), start=soft)
    v = vector(kind, z_back, z, u, stages, own.variable)
    end = form.space.minus(beyond, end) if form.tangent else end
    none, widths = np.zeros((len(group), 0), dtype=int), np.diff(grid.edges)
    at = [layout.states[group - 1] if back else none, layout.states[group], layout.controls[group],
          layout.controls[group + 1] if grid.linear else none, layout.stages[group]]
    values = own.beside(grid.edges[group], widths[group], widths[group] / widths[group - 1] if back else none,
                        cols.centres(group - 1) if back else none, cols.centres(group), cols.centres(group + 1))
    return Block(
        name=f"interval_{cols.number}{'_on' if back else ''}", v=v,
        data=vector(kind, tau, width, ratio, centre_back, centre, beyond, own.data), cost=cost,
        rows=vector(kind, end, integrals, equations),
        index=cols.index(own, *at), values=values, weight=_weights(grid)[group],
        matrix=nothing(0, 0),
        gauss_newton=lambda: gauss_newton(pieces, soft, v))


def integrate(cols: Columns, grid: Grid, own: Clock, x: Expr, u: Expr, tau: Expr, width: Expr,
              share: Expr = 1.0, before: tuple[Expr, Expr] | None = None, stages: Expr | None = None
              ) -> tuple[Expr, list[tuple[Cost, Sequence[Expr], Expr]], Expr, Expr, Expr]:
    """After the share of an interval that starts at the fraction tau of the phase: state, running cost as (cost, arguments, scale)
    of every stage, penalties of soft constraints, integrals [k], equations at the points beyond the knot. before: the state an
    interval ago and the ratio of this one to it, where the integrator looks back; stages: algebraic unknowns of these points, of a
    system that has any."""
    phase, scheme, kind = cols.phase, one_step(grid), type(x)
    system, nu = phase.system, phase.system.nu
    scheme.check(system)
    h, begin, length = own.T * width * share / grid.steps, own.start + own.T * tau, own.T * width
    pieces: list[tuple[Cost, Sequence[Expr], Expr]] = []
    soft, integrals = kind(0), kind(sum(c.size for c in phase.constraints if c.at is At.INTEGRAL), 1)

    def inputs(t: Expr) -> Expr:
        return u[:nu] + (t - begin) / length * (u[nu:] - u[:nu]) if grid.linear else u

    points = None
    if system.residual is not None:
        count = len(system.controls)
        points = Points(system, lambda t: inputs(t)[:count], u[count:nu], stages)
    held = u[:nu]
    if points is not None:
        system = points.system
    elif grid.linear:  # the control of a step's stages: its value in the middle for one-stage methods, linear in time else
        system, held = _with_linear_control(system, u, begin, length)
    for i in range(grid.steps):
        t = own.start + own.T * (tau + width * (share * i / grid.steps))
        if before is None:
            x, nodes = scheme.advance(system, t, x, held, own.p, h)
        else:
            x, nodes = MULTISTEP[grid.integrator].advance(system, t, before[0], x, held, own.p, h, before[1])
        at = [(h * weight, (ti, xi, inputs(ti) if points is None else points.inputs(xi), own.p)) for weight, ti, xi in nodes]
        more = charged(phase, kind, at)
        pieces, soft, integrals = pieces + more[0], soft + more[1], integrals + more[2]
    return x, pieces, soft, integrals, vector(kind, *(points.rows if points is not None else ()))


def charged(phase: Phase, kind: Any, nodes: Sequence[tuple[Expr, Sequence[Expr]]]
            ) -> tuple[list[tuple[Cost, Sequence[Expr], Expr]], Expr, Expr]:
    """Cost of (weight, (t, x, u, p)): pieces, penalties and integrals as of ``integrate``."""
    pieces: list[tuple[Cost, Sequence[Expr], Expr]] = []
    soft, integrals = kind(0), kind(sum(c.size for c in phase.constraints if c.at is At.INTEGRAL), 1)
    for weight, here in nodes:
        pieces += [(item, here, weight) for item in phase.costs if item.at is At.PATH]
        for c in phase.constraints:
            if c.at is At.PATH and c.soft is not None:
                soft += weight * penalty(c, here)
        found = [hard_rows(c, here).expression for c in phase.constraints if c.at is At.INTEGRAL]
        if found:
            integrals += weight * ca.vertcat(*found)
    return pieces, soft, integrals


def _with_linear_control(system: Any, ends: Expr, begin: Expr, length: Expr) -> tuple[Any, Expr]:
    """The system whose control is (u_0, u_1, begin, length) and which interpolates between the two at its time."""
    nu, nx = system.nu, system.nx
    kind = ca.SX if system.rate.is_a("SXFunction") and system.derivatives == "ad" else ca.MX
    t, x, w, p = kind.sym("t"), kind.sym("x", nx), kind.sym("w", 2 * nu + 2), kind.sym("p", system.np)
    u = w[:nu] + (t - w[2 * nu]) / w[2 * nu + 1] * (w[nu:2 * nu] - w[:nu])
    rate = ca.Function("rate", [t, x, w, p], [system.rate(t, x, u, p)], ["t", "x", "u", "p"], ["xi"])
    names = (*(f"{name} before" for name in system.controls), *(f"{name} after" for name in system.controls), "begin", "length")
    return system.with_controls(names, rate), ca.vertcat(ends, begin, length)
