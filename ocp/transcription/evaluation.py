"""The functions of a phase at the evaluation points of its mesh: scaled rates, running costs and path constraints, and the defects.

One block holds what is evaluated at every evaluation point, one what constraints on the state alone ask of nodes that are no
evaluation point (the ends of Gauss schemes), and one, with tangent unknowns, the states as each interval's chart sees them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from ocp.nlp.names import Names
from ocp.problem import At, Constraint, Phase, Sense
from ocp.spaces import Expr
from ocp.transcription.blocks import Block, vector
from ocp.transcription.conditions import Rows, cost_value, gauss_newton, hard_names, hard_rows, penalty
from ocp.transcription.mesh import Discretisation, Mesh, Table
from ocp.transcription.part import Columns, Part, graph_kind, identity, join, nothing, stacked
from ocp.transcription.static_unknowns import Clock, clock

#: ends the names of constraints of integrals
WHOLE = " @ whole phase"


def phase_part(cols: Columns, mesh: Mesh, by_loops: bool) -> Part:
    """Defects and path constraints of one phase. by_loops: accelerations come from loops over the robot model."""
    form, n = cols.form, cols.n
    system = cols.phase.system
    explicit = by_loops and system.residual is None
    node, path = point_block(cols, mesh, with_dynamics=not explicit)
    D, W = mesh.tables(charts=form.tangent)
    E, ny = len(mesh.evaluation.node), node.size
    integrals = integral_rows(cols.phase)
    here = ny - len(path.names) - len(integrals.names)
    e, chosen = _kept_rows(cols, mesh, path)
    defects = D.shape[0] * form.size
    total = defects + len(e) + len(integrals.names)
    # constraints of rates; by loops these are the first of each evaluation point's rates, and the loops give the others
    r, c, value = _spread(W, form.size, ny, min(here, form.size))
    sums = np.arange(len(integrals.names))
    r = np.concatenate([r, defects + np.arange(len(e)), np.repeat(defects + len(e) + sums, E)])
    c = np.concatenate([c, e * ny + here + chosen, ((ny - len(sums) + sums)[:, None] + ny * np.arange(E)).ravel()])
    value = np.concatenate([value, np.ones(len(e)), np.tile(mesh.weights, len(sums))])
    blocks = [replace(node, matrix=Table(r, c, value, (total, E * ny)))]
    r, c, value = _spread(D, form.size, form.size, form.size)
    if form.tangent:
        charted = _chart_block(cols, mesh)
        # before the rates: states of neighbours cancel to the last digit where they are subtracted first
        blocks.insert(0, replace(charted, matrix=Table(r, c, value, (total, D.shape[1] * form.size))))
        linear = nothing(total, n)
    else:
        linear = Table(r, cols.layout.states.ravel()[c], value, (total, n))
    external = {}
    if by_loops and not explicit:
        from ocp.transcription.residual_rows import residual_functions  # only here: Numba costs half a second

        equations = dynamics_block(cols, mesh)
        r, c = _equations(cols.phase, e, chosen)
        matrix = Table(defects + r, c, np.ones(len(r)), (total, E * equations.block.size))
        blocks.append(replace(equations.block, matrix=matrix))
        external[equations.block.name] = residual_functions(equations.block, system, equations.point[:2], equations.time)
    if explicit:
        from ocp.transcription.robot_rows import dynamics_functions  # only here: Numba costs half a second

        dynamics, inputs, t = dynamics_block(cols, mesh)
        nv = system.model.nv
        r, c, value = _spread(W, nv, nv, nv)
        blocks.append(replace(dynamics, matrix=Table(r // nv * form.size + form.size - nv + r % nv, c, value, (total, E * nv))))
        external[dynamics.name] = dynamics_functions(dynamics, system, inputs, t)
    lower, upper = (np.concatenate([np.zeros(defects), np.array(bounds, dtype=float)[chosen], whole])
                    for bounds, whole in ((path.lower, integrals.lower), (path.upper, integrals.upper)))

    def names() -> list[str]:
        at = mesh.evaluation_names
        return [f"{cols.prefix}{name}" for name in (
            *_defect_names(cols, mesh), *(f"{path.names[i]} @ {at[k]}" for k, i in zip(e.tolist(), chosen.tolist(), strict=True)),
            *(f"{name}{WHOLE}" for name in integrals.names))]

    return Part(linear, tuple(blocks), lower, upper, Names(total, names), external, defects)


def _equations(phase: Phase, e: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which kept rows are equations of motion, and which rows of the block of these equations they are."""
    first = 0
    for c in phase.constraints:
        if c.at is At.PATH and c.soft is None:
            if c.function is phase.system.residual:
                break
            first += len(hard_names(c))
    size = phase.system.residual.size1_out(0)
    kept = np.flatnonzero((chosen >= first) & (chosen < first + size))
    return kept, e[kept] * size + chosen[kept] - first


class Spread(NamedTuple):
    """Rows, columns and values."""

    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray


def _spread(table: Table, size: int, width: int, components: int) -> Spread:
    """Rows, columns and values of a table for the first of ``size`` components, where columns stand for groups of ``width``."""
    each = np.arange(components)
    return Spread((table.rows[:, None] * size + each).ravel(), (table.columns[:, None] * width + each).ravel(),
                  np.repeat(table.values, components))


def bare_part(cols: Columns, mesh: Mesh) -> Part:
    """Path constraints at nodes that are no evaluation point: those on states alone, and at the ends of the phase inequalities on
    controls, whose polynomial is extrapolated there. Between two intervals the node of a neighbour bounds controls; at the start of
    a phase, where contacts or dynamics change, nothing else does."""
    phase = cols.phase
    others = np.flatnonzero(np.bincount(mesh.evaluation.node, minlength=mesh.nodes) == 0)
    hard = [c for c in phase.constraints if c.at is At.PATH and c.soft is None]
    on_state = [c for c in hard if not c.function.jac_sparsity(0, 2).nnz()]
    bounding = [c for c in hard if c.function.jac_sparsity(0, 2).nnz() and (c.sense is Sense.CONE or not any(
        low == high for low, high in c.bounds.pairs()))]
    parts = [node_rows(cols, mesh, ca.SX, "nodes", np.setdiff1d(others, [0, mesh.nodes - 1]), on_state)]
    for side, (name, node, k) in enumerate((("first_nodes", 0, 0), ("last_nodes", mesh.nodes - 1, mesh.intervals - 1))):
        met, own = [c for c in on_state if not c.met[side]], [c for c in bounding if not c.met[side]]
        controls = weights = None
        if own:
            points, weights = mesh.point(k), np.atleast_2d(mesh.shapes[k].basis(float(side)))
            controls = cols.layout.controls[points].reshape(1, -1)
        parts.append(node_rows(cols, mesh, graph_kind(phase.system) if own else ca.SX, name, others[others == node], met + own,
                               controls, weights))
    return stacked(parts, cols.n)


def node_rows(cols: Columns, mesh: Discretisation, kind: Any, label: str, nodes: np.ndarray, constraints: Sequence[Constraint],
              controls: np.ndarray | None = None, weights: np.ndarray | None = None) -> Part:
    """Path constraints at nodes of a mesh. controls [k, c nu]: columns of those that they depend on, None where they do on none;
    weights [k, c]: of the c control points that a control is made of, None where it is one of them."""
    z, centre, tau = kind.sym("z", cols.form.size), kind.sym("centre", cols.form.centre_size), kind.sym("tau")
    nu, own = cols.phase.system.nu, clock(kind, cols.problem, cols.number, cols.static)
    U, w = (kind.sym(name, size) for name, size in (("u", 0 if controls is None else controls.shape[1]),
                                                    ("w", 0 if weights is None else weights.shape[1])))
    # an argument of constraints without controls
    u = kind.zeros(nu) if controls is None else U if weights is None else ca.mtimes(ca.reshape(U, nu, w.shape[0]), w)
    x = cols.form.state(z, centre)
    here = (own.start + own.T * tau, x, u, own.p)
    rows = join(kind, [*(hard_rows(c, here) for c in constraints), *coordinate_bounds(cols, x)])
    count, prefix = len(nodes), cols.prefix
    if not count or not rows.names:
        return stacked((), cols.n)
    columns = np.zeros((count, 0), dtype=int) if controls is None else controls
    block = Block(
        name=f"{label}_{cols.number}", v=vector(kind, z, U, own.variable), data=vector(kind, tau, w, centre, own.data),
        cost=kind(0), rows=rows.expression, index=cols.index(own, cols.layout.states[nodes], columns),
        values=own.beside(mesh.fractions[nodes], np.zeros((count, 0)) if weights is None else weights, cols.centres(nodes)),
        weight=np.ones(count), matrix=identity(count * len(rows.names)))
    names = Names(count * len(rows.names), lambda: [f"{prefix}{name} @ {mesh.node_names[j]}" for j in nodes.tolist()
                                                    for name in rows.names])
    return Part(nothing(len(names), cols.n), (block,), np.tile(rows.lower, count), np.tile(rows.upper, count), names)


def point_block(cols: Columns, mesh: Mesh, with_dynamics: bool = True) -> tuple[Block, Rows]:
    """Function of an evaluation point: [duration * ydot; path constraints; duration * integrands], and duration * running cost.

    Without dynamics, the rate is the part that is kinematics.
    """
    phase, form, system = cols.phase, cols.form, cols.phase.system
    kind = graph_kind(system)
    v, data, point, own, chart = _symbols(kind, cols, mesh)
    x, u, t = point
    here = (t, x, u, own.p)
    if with_dynamics:
        scaled = form.rate(x, system.rate(*here), chart, own.T)
    else:
        nv = system.model.nv
        kinematics = ca.vertcat(x[system.model.nq:], kind(nv, 1))
        scaled = form.rate(x, kinematics, chart, own.T)[:form.size - nv]
    running = [item for item in phase.costs if item.at is At.PATH]
    soft = sum((penalty(c, here) for c in phase.constraints if c.at is At.PATH and c.soft is not None), start=kind(0))
    cost = sum((cost_value(item, here) for item in running), start=soft)
    rows = join(kind, [*(hard_rows(c, here) for c in phase.constraints if c.at is At.PATH and c.soft is None),
                       *coordinate_bounds(cols, x)])
    integrands = [own.T * hard_rows(c, here).expression for c in phase.constraints if c.at is At.INTEGRAL]
    block = Block(
        name=f"node_{cols.number}" if cols.number else "node", v=v, data=data, cost=own.T * cost,
        rows=vector(kind, scaled, rows.expression, *integrands), index=_index(cols, mesh, own), values=_values(cols, mesh, own),
        weight=mesh.weights, matrix=nothing(0, 0),
        gauss_newton=lambda: gauss_newton([(item, here, own.T) for item in running], own.T * soft, v))
    return block, rows


class DynamicsBlock(NamedTuple):
    """Accelerations of every evaluation point; state, control and duration, and the time, as expressions of the symbols of the
    block."""

    block: Block
    point: tuple[Expr, Expr, Expr]
    time: Expr


def dynamics_block(cols: Columns, mesh: Mesh) -> DynamicsBlock:
    """The scaled accelerations [duration * a (nv)] of every evaluation point, or its equations of motion as residuals, whose
    functions come from elsewhere; and state, control and duration, and the time (zero where nothing depends on it), as expressions
    of the block's symbols."""
    v, data, (x, u, t), own, _ = _symbols(ca.SX, cols, mesh, parameters=False)
    system = cols.phase.system
    block = Block(
        name=f"dynamics_{cols.number}" if cols.number else "dynamics", v=v, data=data, cost=ca.SX(0),
        rows=ca.SX.zeros(system.model.nv if system.residual is None else system.residual.size1_out(0)),
        index=_index(cols, mesh, own), values=_values(cols, mesh, own), weight=mesh.weights, matrix=nothing(0, 0))
    return DynamicsBlock(block, (x, u, own.T), t if (system.mechanism or system.implicit).timed else ca.SX(0))


class PointSymbols(NamedTuple):
    """Unknowns, data, (x, u, t), static part and centre of the chart of an evaluation point."""

    unknowns: Expr
    data: Expr
    point: tuple[Expr, Expr, Expr]
    clock: Clock
    centre: Expr


def _symbols(kind: Any, cols: Columns, mesh: Mesh, parameters: bool = True) -> PointSymbols:
    """(unknowns, data, (x, u, t), static part, centre of the chart) of one evaluation point."""
    form, nu, c = cols.form, cols.phase.system.nu, mesh.evaluation.points.shape[1]
    z, U, tau = kind.sym("z", form.size), kind.sym("u", nu * c), kind.sym("tau")
    centre, chart, weights = kind.sym("centre", form.centre_size), kind.sym("chart", form.centre_size), kind.sym("w",
                                                                                                                 c if c > 1 else 0)
    own = clock(kind, cols.problem, cols.number, cols.static, parameters)
    u = U if c == 1 else ca.mtimes(ca.reshape(U, nu, c), weights)
    x, t = form.state(z, centre), own.start + own.T * tau
    return PointSymbols(vector(kind, z, U, own.variable), vector(kind, tau, weights, centre, chart, own.data),
                        (x, u, t), own, chart)


def _index(cols: Columns, mesh: Mesh, own: Clock) -> np.ndarray:
    at, layout = mesh.evaluation, cols.layout
    return cols.index(own, layout.states[at.node], layout.controls[at.points].reshape(len(at.node), -1))


def _values(cols: Columns, mesh: Mesh, own: Clock) -> np.ndarray:
    at = mesh.evaluation
    return own.beside(at.fraction, at.weights if at.combined else np.zeros((len(at.node), 0)), cols.centres(at.node),
                      cols.centres(mesh.knots[at.interval]))


def _chart_block(cols: Columns, mesh: Mesh) -> Block:
    """States in the chart of their interval: rows y [size] for every node of every interval."""
    form = cols.form
    z, centre, chart = (ca.SX.sym(name, size) for name, size in (("z", form.size), ("centre", form.centre_size),
                                                                  ("chart", form.centre_size)))
    node = np.concatenate([mesh.node(k) for k in range(mesh.intervals)])
    first = np.repeat(mesh.knots[:-1], [len(s.nodes) for s in mesh.schemes])
    return Block(
        name=f"chart_{cols.number}", v=z, data=vector(ca.SX, centre, chart), cost=ca.SX(0),
        rows=ca.densify(form.space.minus(chart, form.state(z, centre))), index=cols.layout.states[node],
        values=np.column_stack([cols.centres(node), cols.centres(first)]), weight=np.ones(len(node)),
        matrix=nothing(0, 0))


def coordinate_bounds(cols: Columns, x: Expr) -> list[Rows]:
    """Bounds of coordinates that are no unknowns."""
    space, bounds = cols.phase.system.space, cols.phase.state_bounds
    return [Rows(x[i], bounds[i].lower, bounds[i].upper, (f"bound {space.names[i]}",))
            for i, k in enumerate(space.tangent_index) if cols.form.tangent and k < 0 and bounds.bounded[i]]


def _kept_rows(cols: Columns, mesh: Mesh, path: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Evaluation points and rows of path constraints; at a node that is two evaluation points, rows that would be the same twice
    are kept once."""
    if not path.names:
        return np.zeros(0, dtype=int), np.zeros(0, dtype=int)
    on_control = rows_on_control(cols.phase)
    on_control += [False] * (len(path.names) - len(on_control))
    again = np.array(on_control) & (mesh.controls == "held")
    met = np.zeros((len(path.names), 2), dtype=bool)
    own = [c.met for c in cols.phase.constraints if c.at is At.PATH and c.soft is None for _ in hard_names(c)]
    met[:len(own)] = np.reshape(own, (-1, 2))
    at = mesh.evaluation
    ends = np.column_stack([at.node == 0, at.node == mesh.nodes - 1])
    points, rows = np.nonzero((at.first_of_node[:, None] | again) & ~(ends.astype(int) @ met.T.astype(int)).astype(bool))
    return points, rows


def integral_rows(phase: Phase) -> Rows:
    """Bounds and names of integral constraints; their expressions are integrands at symbols of no further use."""
    found = []
    for c in phase.constraints:
        if c.at is At.INTEGRAL:
            found.append(hard_rows(c, [ca.SX.sym(c.function.name_in(i), c.function.sparsity_in(i)) for i in range(4)]))
    return join(ca.SX, found)


def rows_on_control(phase: Phase) -> list[bool]:
    """For each component of the hard path constraints, whether its constraint depends on the control."""
    found: list[bool] = []
    for c in phase.constraints:
        if c.at is At.PATH and c.soft is None:
            zeros = [ca.SX.sym(c.function.name_in(i), c.function.sparsity_in(i)) for i in range(4)]
            found += [bool(c.function.jac_sparsity(0, 2).nnz())] * len(hard_rows(c, zeros).names)
    return found


def _defect_names(cols: Columns, mesh: Mesh) -> list[str]:
    """"defect theta @ interval 3"; "inner defect ..." at nodes inside an interval."""
    names = cols.form.names
    return [f"{'' if i == len(s.nodes) - 2 else 'inner '}defect {name} @ interval {k}" if len(s.nodes) <= 3 or i == len(s.nodes) - 2
            else f"inner defect {i + 1} {name} @ interval {k}"
            for k, s in enumerate(mesh.schemes) for i in range(len(s.nodes) - 1) for name in names]

