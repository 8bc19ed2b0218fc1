"""The dynamics constraints of all nodes by compiled loops over the robot: nothing is generated for its tree, small functions for
what acts on it.

The scaled accelerations ``T a(q, v, S u, t, thrusts)`` of every node are one block of the program. Its functions take all nodes at
once: Numba computes accelerations, first derivatives and contracted second derivatives in the tangent space
(``dynamics.loops.batch``), and small CasADi functions carry them over to the coordinates of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from dynamics.derivatives import ambient_hessian, unit_configuration
from dynamics.derivatives.manifold import ambient_map
from dynamics.loops import batch, forward, make_tables
from ocp.nlp.watch import Buffered
from ocp.problem import System
from ocp.transcription.blocks import Block, BlockFunctions

Expr = Any
Array = np.ndarray


class Loop(Buffered):
    """A compiled loop over all nodes as a CasADi function; arguments and results have one column a node."""

    def __init__(self, name: str, rows_in: Sequence[int], rows_out: Sequence[int], count: int,
                 run: Callable[[list[Array]], Sequence[Array]]):
        self._run = run
        super().__init__(name, [(rows, count) for rows in rows_in], [(rows, count) for rows in rows_out])

    def eval_buffer(self, arg: Any, res: Any) -> int:
        # columns of CasADi are rows of NumPy: the memory is the same
        inputs = [np.frombuffer(a, dtype=np.float64).reshape(count, rows)
                  for a, (rows, count) in zip(arg, self.shapes_in, strict=True)]
        for target, value in zip(res, self._run(inputs), strict=True):
            if target is not None:
                np.frombuffer(target, dtype=np.float64)[:] = value.ravel()
        return 0


def dynamics_functions(block: Block, system: System, point: tuple[Expr, Expr, Expr], t: Expr) -> BlockFunctions:
    """Functions of the block of accelerations, rows = T a, no cost. point: state, control and duration as expressions of the
    block's unknowns and data; t: the time as one of its data alone, where accelerations depend on it."""
    model, count, name = system.model, block.count, block.name
    nv, nq = model.nv, model.nq
    x, u, T = point
    q, w, motors = x[:nq], x[nq:], len(system.mechanism.motors)
    n, size = block.v.shape[0], block.size
    unit, _ = unit_configuration(model, q)
    given = ca.vertcat(t, *(u[i] for i in range(motors, system.nu)))
    before = ca.Function("before", [block.v, block.data], [ca.densify(ca.SX(e)) for e in (
        unit, w, system.mechanism.motor_effort(u), given, T)])
    tables = make_tables(system.mechanism)
    start, none = (tables.integers, tables.reals, tables.workspace()), np.zeros((0, 6))
    to = forward.Results(np.zeros((count, nv)), np.zeros((count, 3, nv, nv)), np.zeros((count, 4, nv, nv)), np.zeros(nv),
                         np.zeros((4, nv, nv)))

    def values(at: list[Array]) -> Sequence[Array]:
        batch.forward_dynamics(*start, *at, none, to.a)
        return (to.a,)

    def firsts(at: list[Array]) -> Sequence[Array]:
        batch.forward_dynamics_derivatives(*start, *at, none, to.a, to.first)
        return to.a, to.first

    def seconds(at: list[Array]) -> Sequence[Array]:
        batch.forward_contracted_second_order(*start, *at, none, to)
        return to.a, to.first, to.second

    here, matrices = [nq, nv, nv, 1 + system.nu - motors], 3 * nv * nv
    loops = (Loop(f"{name}_values", here, [nv], count, values),
             Loop(f"{name}_firsts", here, [nv, matrices], count, firsts),
             Loop(f"{name}_seconds", [*here, nv], [nv, matrices, 4 * nv * nv], count, seconds))
    V, D = ca.MX.sym("v", n, count), ca.MX.sym("d", block.data.shape[0], count)
    s, mu = ca.MX.sym("s", 1, count), ca.MX.sym("mu", size, count)
    *points, duration = before.map(count)(V, D)
    after_first, after_second, patterns = _after(system, block, point)
    nothing = ca.MX.zeros(1, count)
    A, first_order = loops[1](*points)
    results = loops[2](*points, ca.repmat(duration, nv, 1) * mu)
    rows, jacobian = after_first.map(count)(V, D, A, first_order)
    functions = BlockFunctions(
        cost=ca.Function(f"{name}_cost", [V, D], [nothing]),
        rows=ca.Function(f"{name}_rows", [V, D], [ca.repmat(duration, nv, 1) * loops[0](*points)]),
        gradient=ca.Function(f"{name}_gradient", [V, D], [nothing, ca.MX.zeros(n, count)]),
        jacobian=ca.Function(f"{name}_jacobian", [V, D], [rows, jacobian]),
        hessian=ca.Function(f"{name}_hessian", [V, D, s, mu], [after_second.map(count)(V, D, mu, *results[1:])]),
        jacobian_pattern=patterns[0], hessian_pattern=patterns[1], batched=True, keep=loops)
    return functions


class RowFunctions(NamedTuple):
    """Functions of first and second derivatives, and the patterns of what they give."""

    firsts: ca.Function
    seconds: ca.Function
    patterns: tuple[ca.Sparsity, ca.Sparsity]


def _after(system: System, block: Block, point: tuple[Expr, Expr, Expr]) -> RowFunctions:
    """From tangent derivatives of a to the nonzeros of those of the rows T a by the unknowns v of one node.

    (v, d, a, first) -> rows, nonzeros of the Jacobian;  (v, d, mu, first, second) -> nonzeros of the upper Hessian, where second
    was contracted with T mu. Flat arrays hold matrices by rows. Derivatives are formed by (x, u, T) in ambient coordinates, then
    by v with the chain rule: ``J' H J`` and, along the gradient, the second derivatives of these as functions of v.
    """
    model, v, d = system.model, block.v, block.data
    nv, nq, nx, nu = model.nv, model.nq, system.nx, system.nu
    ambient = ca.SX.sym("ambient", nx + nu + 1)
    x, T = ambient[:nx], ambient[nx + nu]
    a, mu = ca.SX.sym("a", nv), ca.SX.sym("mu", nv)
    first, second = ca.SX.sym("first", 3 * nv * nv), ca.SX.sym("second", 4 * nv * nv)
    by_q, by_v, by_tau = (ca.reshape(first[k * nv * nv:(k + 1) * nv * nv], nv, nv).T for k in range(3))
    qq, vq, vv, tq = (ca.reshape(second[k * nv * nv:(k + 1) * nv * nv], nv, nv).T for k in range(4))
    q, mechanism, thrusts = x[:nq], system.mechanism, ca.SX.sym("thrusts", len(system.mechanism.thrusters))
    E, psi = ambient_map(model, q), ca.SX.sym("psi", nv)
    B = ca.jacobian(ca.SX(mechanism.thrust_effort(unit_configuration(model, q)[0], thrusts)), thrusts)
    S = ca.horzcat(ca.SX(mechanism.selection), B)
    slopes = ca.horzcat(by_q @ E, by_v, by_tau @ S)
    jacobian = ca.horzcat(T * slopes, a)
    H = ca.SX(nx + nu, nx + nu)
    H[:nq, :nq] = ambient_hessian(model, q, T * (by_q.T @ mu), qq)
    H[nq:nx, :nq], H[:nq, nq:nx] = vq @ E, (vq @ E).T
    H[nq:nx, nq:nx] = vv
    # of the efforts, and of the directions of the thrusts
    turned = S.T @ tq @ E + ca.substitute(ca.jacobian(S.T @ psi, q), psi, T * (by_tau.T @ mu))
    H[nx:, :nq], H[:nq, nx:] = turned, turned.T
    cross = slopes.T @ mu
    H = ca.vertcat(ca.horzcat(H, cross), ca.horzcat(cross.T, ca.SX(1, 1)))

    where = ca.vertcat(*point)
    pull = ca.jacobian(where, v)
    here = [ca.substitute(e, ambient, where) for e in (T * a, ca.densify(jacobian), H)]
    g = ca.SX.sym("g", nx + nu + 1)
    bend = ca.hessian(ca.dot(g, where), v)[0]
    gradient = ca.substitute(ca.mtimes(jacobian.T, mu), ambient, where)
    by_v_here = ca.sparsify(ca.mtimes(here[1], pull))
    # the gradient by T is mu' a, but a is linear in T, an unknown or data of its own: a is not among the arguments
    gradient = ca.vertcat(gradient[:nx + nu], 0)
    upper = ca.triu(ca.sparsify(ca.mtimes([pull.T, here[2], pull]) + ca.substitute(bend, g, gradient)))
    firsts = ca.Function("after_first", [v, d, a, first], [here[0], nonzeros(by_v_here)])
    seconds = ca.Function("after_second", [v, d, mu, first, second], [nonzeros(upper)])
    return RowFunctions(firsts, seconds, (by_v_here.sparsity(), upper.sparsity()))


def nonzeros(matrix: ca.SX) -> ca.SX:
    """The structural nonzeros as a column."""
    return ca.vertcat(*matrix.nonzeros())
