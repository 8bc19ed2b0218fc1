"""The equations of motion of all nodes as residuals, by compiled loops over the robot (``dynamics.loops.residual``).

The rows are functions of q, v, accelerations and multipliers of a node; what is linear in the rest, efforts of motors among it,
stays with the other functions of the node (``ocp.bridge.motion.linear_part``). As in ``ocp.transcription.robot_rows`` small CasADi
functions carry derivatives in the tangent space over to the coordinates of the program, entries that are zero left out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from dynamics.algorithms import random_configuration
from dynamics.derivatives import ambient_hessian, unit_configuration
from dynamics.derivatives.manifold import ambient_map
from dynamics.loops import layout, make_tables, residual
from ocp.problem import System
from ocp.transcription.blocks import Block, BlockFunctions
from ocp.transcription.robot_rows import Loop, nonzeros

Expr = Any
Array = np.ndarray
FIRST, BY, SECOND, TURNED = range(4)


class Running:
    """The loops for the nodes of one block."""

    def __init__(self, system: System, count: int):
        self.tables = make_tables(system.implicit)
        self.start = self.tables.integers, self.tables.reals, self.tables.workspace()
        self.held = int(self.tables.integers[layout.N_ROWS])
        self.out = self.results(count)

    def results(self, count: int) -> residual.Results:
        """Arrays for values and derivatives at so many points."""
        n, m = self.tables.nv, self.held
        return residual.Results(*(np.zeros((count, *shape)) for shape in ((n + m,), (3, n, n), (3, m, n), (4, n, n), (m, n))))

    def values(self, at: list[Array]) -> tuple[Array, ...]:
        """The residual."""
        residual.values(*self.start, *at, self.out.out)
        return (self.out.out,)

    def firsts(self, at: list[Array]) -> tuple[Array, ...]:
        """The residual and its first derivatives."""
        residual.derivatives(*self.start, *at, self.out)
        return self.out.out, self.out.first, self.out.by

    def seconds(self, at: list[Array]) -> tuple[Array, ...]:
        """First derivatives and contracted second ones."""
        residual.contracted(*self.start, *at, self.out)
        return tuple(self.out)[1:]

    def patterns(self, system: System) -> list[ca.Sparsity]:
        """Entries that are not zero somewhere: of first derivatives of both kinds of rows, and of both kinds of second ones, as
        ``matrices``; from states by chance, at which nothing vanishes unless it does everywhere."""
        rng, to = np.random.default_rng(0), self.results(3)
        n, m = self.tables.nv, self.held
        q = np.array([random_configuration(system.model, rng) for _ in range(3)])
        v, a = rng.normal(size=(2, 3, n))
        residual.contracted(*self.start, q, v, a, rng.normal(size=(3, m)), np.full((3, 1), 0.1), rng.normal(size=(3, n + m)), to)
        return [ca.DM(np.abs(x).sum(axis=0).reshape(-1, n)).sparsity() if not x.size else
                ca.sparsify(ca.DM(np.abs(x).sum(axis=0).reshape(-1, n))).sparsity() for x in tuple(to)[1:]]


def residual_functions(block: Block, system: System, point: tuple[Expr, Expr], t: Expr) -> BlockFunctions:
    """Functions of the block of equations of motion, no cost. point: state and inputs (controls, accelerations, multipliers) as
    expressions of the block's unknowns and data; t: the time as one of its data alone."""
    model, count, name, n = system.model, block.count, block.name, block.v.shape[0]
    (x, u), controls = point, len(system.controls)
    unit, _ = unit_configuration(model, x[:model.nq])
    a, lam = u[controls:controls + model.nv], u[controls + model.nv:]
    before = ca.Function("before", [block.v, block.data], [ca.densify(ca.SX(e)) for e in (unit, x[model.nq:], a, lam, t)])
    run = Running(system, count)
    here = [model.nq, model.nv, model.nv, run.held, 1]
    wide = [int(np.prod(matrix.shape[1:])) for matrix in tuple(run.out)[1:]]
    loops = (Loop(f"{name}_values", here, [block.size], count, run.values),
             Loop(f"{name}_firsts", here, [block.size, *wide[:SECOND]], count, run.firsts),
             Loop(f"{name}_seconds", [*here, block.size], wide, count, run.seconds))
    V, D = ca.MX.sym("v", n, count), ca.MX.sym("d", block.data.shape[0], count)
    s, mu = ca.MX.sym("s", 1, count), ca.MX.sym("mu", block.size, count)
    points = before.map(count)(V, D)
    firsts, seconds, patterns = _after(system, block, point, run.patterns(system))
    nothing = ca.MX.zeros(1, count)
    rows, *first = loops[1](*points)
    return BlockFunctions(
        cost=ca.Function(f"{name}_cost", [V, D], [nothing]), rows=ca.Function(f"{name}_rows", [V, D], [loops[0](*points)]),
        gradient=ca.Function(f"{name}_gradient", [V, D], [nothing, ca.MX.zeros(n, count)]),
        jacobian=ca.Function(f"{name}_jacobian", [V, D], [rows, firsts.map(count)(V, D, *first)]),
        hessian=ca.Function(f"{name}_hessian", [V, D, s, mu], [seconds.map(count)(V, D, mu, *loops[2](*points, mu))]),
        jacobian_pattern=patterns[0], hessian_pattern=patterns[1], batched=True, keep=(loops, run))


class After(NamedTuple):
    """Functions to the nonzeros of first and second derivatives by the unknowns of a node, and their patterns."""

    firsts: ca.Function
    seconds: ca.Function
    patterns: tuple[ca.Sparsity, ca.Sparsity]


def _after(system: System, block: Block, point: tuple[Expr, Expr], patterns: list[ca.Sparsity]) -> After:
    """From tangent derivatives to the nonzeros of those by the unknowns v of one node."""
    model, v, d = system.model, block.v, block.data
    nv, nq, nx, nu, controls = model.nv, model.nq, system.nx, system.nu, len(system.controls)
    m, ambient, mu = block.size - nv, ca.SX.sym("ambient", nx + nu), ca.SX.sym("mu", block.size)
    given = [ca.SX.sym(label, k * nv) for label, k in (("first", 3 * nv), ("by", 3 * m), ("second", 4 * nv), ("turned", m))]
    # matrices by rows, with the entries that are known to be zero left out
    kept = [ca.project(ca.reshape(x, nv, x.shape[0] // nv).T, pattern) for x, pattern in zip(given, patterns, strict=True)]
    top, low = ca.vertsplit(kept[FIRST], nv), ca.vertsplit(kept[BY], m) if m else [ca.SX(0, nv)] * 3
    qq, vq, vv, aq = ca.vertsplit(kept[SECOND], nv)
    q = ambient[:nq]
    E = ambient_map(model, q)
    by_q, by_v, by_a = (ca.vertcat(*parts) for parts in zip(top, low, strict=True))
    jacobian = ca.horzcat(by_q @ E, by_v, ca.SX(block.size, controls), by_a, ca.vertcat(-low[2].T, ca.SX(m, m)))
    H = ca.SX(nx + nu, nx + nu)
    H[:nq, :nq] = ambient_hessian(model, q, by_q.T @ mu, qq)
    H[nq:nx, nq:nx] = vv
    start = nx + controls
    for at, rows in ((slice(nq, nx), vq), (slice(start, start + nv), aq), (slice(start + nv, nx + nu), kept[TURNED])):
        H[at, :nq], H[:nq, at] = rows @ E, (rows @ E).T

    where = ca.vertcat(*point)
    pull, g = ca.jacobian(where, v), ca.SX.sym("g", nx + nu)
    slope, curved = (ca.substitute(e, ambient, where) for e in (jacobian, H))
    first = ca.sparsify(ca.mtimes(slope, pull))
    bend = ca.substitute(ca.hessian(ca.dot(g, where), v)[0], g, ca.densify(ca.mtimes(slope.T, mu)))
    upper = ca.triu(ca.sparsify(ca.mtimes([pull.T, curved, pull]) + bend))
    return After(ca.Function("after_first", [v, d, *given[:SECOND]], [nonzeros(first)]),
                 ca.Function("after_second", [v, d, mu, *given], [nonzeros(upper)]), (first.sparsity(), upper.sparsity()))
