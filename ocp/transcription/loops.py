"""The dynamics rows of all nodes by compiled loops over the robot model: nothing is generated or compiled for the robot.

The scaled accelerations ``T a(q, v, S u)`` of every node are one block of the program. Its functions take all nodes at once:
Numba computes accelerations, first derivatives and contracted second derivatives in the tangent space
(``dynamics.loops.batch``), and small CasADi functions carry them over to the coordinates of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import casadi as ca
import numpy as np

from dynamics.derivatives import ambient_hessian, unit_configuration
from dynamics.derivatives.manifold import ambient_map
from dynamics.loops import batch, make_tables
from ocp.problem import System
from ocp.transcription.blocks import Block, BlockFunctions

Expr = Any
Array = np.ndarray


class _Loop(ca.Callback):
    """A compiled loop over all nodes as a CasADi function; arguments and results have one column a node."""

    def __init__(self, name: str, rows_in: Sequence[int], rows_out: Sequence[int], count: int,
                 run: Callable[[list[Array]], Sequence[Array]]):
        super().__init__()
        self._in, self._out, self._count, self._run = rows_in, rows_out, count, run
        self.construct(name, {})

    def get_n_in(self) -> int:
        return len(self._in)

    def get_n_out(self) -> int:
        return len(self._out)

    def get_sparsity_in(self, i: int) -> ca.Sparsity:
        return ca.Sparsity.dense(self._in[i], self._count)

    def get_sparsity_out(self, i: int) -> ca.Sparsity:
        return ca.Sparsity.dense(self._out[i], self._count)

    def has_eval_buffer(self) -> bool:
        return True

    def eval_buffer(self, arg: Any, res: Any) -> int:
        # columns of CasADi are rows of NumPy: the memory is the same
        inputs = [np.frombuffer(a, dtype=np.float64).reshape(self._count, rows) for a, rows in zip(arg, self._in, strict=True)]
        for target, value in zip(res, self._run(inputs), strict=True):
            if target is not None:
                np.frombuffer(target, dtype=np.float64)[:] = value.ravel()
        return 0


def dynamics_functions(block: Block, system: System) -> BlockFunctions:
    """Functions of the block of accelerations: v = [x, u, (T)], data = [tau, (T), p], rows = T a, no cost."""
    model, count, name = system.model, block.count, block.name
    nv, nq = model.nv, model.nq
    x, u, T = _parts(system, block.v, block.data)
    q, w = x[:nq], x[nq:]
    n, size = block.v.shape[0], block.size
    unit, _ = unit_configuration(model, q)
    before = ca.Function("before", [block.v, block.data], [ca.densify(ca.SX(e)) for e in (
        unit, w, ca.mtimes(ca.SX(system.actuation.selection), u), T)])
    tables = make_tables(model)
    start, none = (tables.integers, tables.reals, tables.workspace()), np.zeros((0, 6))
    a, first, second = np.zeros((count, nv)), np.zeros((count, 3, nv, nv)), np.zeros((count, 4, nv, nv))
    lam, inverse = np.zeros(nv), np.zeros((4, nv, nv))

    def values(at: list[Array]) -> Sequence[Array]:
        batch.forward_dynamics(*start, *at, none, a)
        return (a,)

    def firsts(at: list[Array]) -> Sequence[Array]:
        batch.forward_dynamics_derivatives(*start, *at, none, a, first)
        return a, first

    def seconds(at: list[Array]) -> Sequence[Array]:
        batch.forward_contracted_second_order(*start, *at, none, a, first, lam, inverse, second)
        return a, first, second

    here, matrices = [nq, nv, nv], 3 * nv * nv
    loops = (_Loop(f"{name}_values", here, [nv], count, values),
             _Loop(f"{name}_firsts", here, [nv, matrices], count, firsts),
             _Loop(f"{name}_seconds", [*here, nv], [nv, matrices, 4 * nv * nv], count, seconds))
    V, D = ca.MX.sym("v", n, count), ca.MX.sym("d", block.data.shape[0], count)
    s, mu = ca.MX.sym("s", 1, count), ca.MX.sym("mu", size, count)
    Q, W, F, duration = before.map(count)(V, D)
    after_first, after_second, patterns = _after(system, block)
    nothing = ca.MX.zeros(1, count)
    A, first_order = loops[1](Q, W, F)
    results = loops[2](Q, W, F, ca.repmat(duration, nv, 1) * mu)
    rows, jacobian = after_first.map(count)(V, D, A, first_order)
    functions = BlockFunctions(
        cost=ca.Function(f"{name}_cost", [V, D], [nothing]),
        rows=ca.Function(f"{name}_rows", [V, D], [ca.repmat(duration, nv, 1) * loops[0](Q, W, F)]),
        gradient=ca.Function(f"{name}_gradient", [V, D], [nothing, ca.MX.zeros(n, count)]),
        jacobian=ca.Function(f"{name}_jacobian", [V, D], [rows, jacobian]),
        hessian=ca.Function(f"{name}_hessian", [V, D, s, mu], [after_second.map(count)(V, D, mu, *results[1:])]),
        jacobian_pattern=patterns[0], hessian_pattern=patterns[1], batched=True, keep=loops)
    return functions


def _parts(system: System, v: Expr, d: Expr) -> tuple[Expr, Expr, Expr]:
    """State, control and duration in the variables and data of a node: the duration follows the time fraction in the data
    unless it is a variable."""
    at = system.nx + system.nu
    return v[:system.nx], v[system.nx:at], v[at] if v.shape[0] > at else d[1]


def _after(system: System, block: Block) -> tuple[ca.Function, ca.Function, tuple[ca.Sparsity, ca.Sparsity]]:
    """From tangent derivatives of a to the nonzeros of those of the rows T a in the coordinates of one node.

    (v, d, a, first) -> rows, nonzeros of the Jacobian;  (v, d, mu, first, second) -> nonzeros of the upper Hessian, where second
    was contracted with T mu. Flat arrays hold matrices by rows.
    """
    model, v, d = system.model, block.v, block.data
    nv, nq, nx = model.nv, model.nq, system.nx
    x, u, T = _parts(system, v, d)
    free = v.shape[0] > nx + system.nu
    a, mu = ca.SX.sym("a", nv), ca.SX.sym("mu", nv)
    first, second = ca.SX.sym("first", 3 * nv * nv), ca.SX.sym("second", 4 * nv * nv)
    by_q, by_v, by_tau = (ca.reshape(first[k * nv * nv:(k + 1) * nv * nv], nv, nv).T for k in range(3))
    qq, vq, vv, tq = (ca.reshape(second[k * nv * nv:(k + 1) * nv * nv], nv, nv).T for k in range(4))
    q, S = x[:nq], ca.SX(system.actuation.selection)
    E = ambient_map(model, q)
    slopes = ca.horzcat(by_q @ E, by_v, by_tau @ S)
    jacobian = ca.horzcat(T * slopes, a) if free else T * slopes
    gradient = by_q.T @ mu
    H = ca.SX(nx + system.nu, nx + system.nu)
    H[:nq, :nq] = ambient_hessian(model, q, T * gradient, qq)
    H[nq:nx, :nq], H[:nq, nq:nx] = vq @ E, (vq @ E).T
    H[nq:nx, nq:nx] = vv
    H[nx:, :nq], H[:nq, nx:] = S.T @ tq @ E, (S.T @ tq @ E).T
    if free:
        cross = slopes.T @ mu
        H = ca.vertcat(ca.horzcat(H, cross), ca.horzcat(cross.T, ca.SX(1, 1)))
    upper = ca.triu(ca.sparsify(H))
    firsts = ca.Function("after_first", [v, d, a, first], [T * a, _nonzeros(jacobian)])
    seconds = ca.Function("after_second", [v, d, mu, first, second], [_nonzeros(upper)])
    return firsts, seconds, (jacobian.sparsity(), upper.sparsity())


def _nonzeros(matrix: ca.SX) -> ca.SX:
    return ca.vertcat(*matrix.nonzeros())
