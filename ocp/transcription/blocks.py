"""Nonlinear programs built from small functions repeated many times, with exact sparse derivatives.

A block is a cost l(v, d) and a vector of rows y(v, d) of few variables v, evaluated at ``count`` choices v_j = x[index_j]
with data d_j. The program is linear in everything that blocks return:

    f(x) = sum_j w_j l(v_j, d_j)            g(x) = G0 x + sum_blocks G vec(Y),   Y = [y(v_0, d_0), y(v_1, d_1), ...]

so its derivatives need only those of the small functions, evaluated at all j, and constant sparse matrices:

    J = G0 + sum G blockdiag(dy/dv)         Hessian of sigma f + lam' g: blocks  d2/dv2 (sigma w_j l + mu_j' y),  mu = G' lam

No derivative is taken through the program as a whole. ``ocp.transcription.elements`` finds out where the numbers go.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import casadi as ca
import numpy as np

from dynamics.kernels import operations
from ocp.interrupts import Activity, check
from ocp.spaces import Expr
from ocp.transcription.calls import Written, written
from ocp.transcription.mesh import Table

#: below so many instructions in all, calling a small function over and over costs more than what it computes, and one flat function
#: is faster: the objective of a cart-pole at 101 nodes takes 0.8 instead of 7.7 us. To write it costs 0.3 ms more. Beyond, a flat
#: function pays after 70 to 900 calls, more than a solve makes
FLAT_BELOW = 1000

#: derivatives that a rate brings along live in matrix graphs; up to so many operations these are flattened to scalar ones, which
#: the interpreter runs several times faster
EXPAND_BELOW = 150_000


@dataclass(frozen=True)
class Block:
    """One small function and where it applies.

    v [nv], data [nd]: symbols, all SX or, where the rate brings its own derivatives, all MX; cost: a scalar of them, rows: [ny]
    index [count, nv]: columns of the program that v stands for; values [count, nd]: the data; weight [count]: of the costs
    matrix [m, count * ny]: entries of G, from the stacked rows to the constraints
    gauss_newton() -> upper triangle [nv, nv] of the cost's Hessian without the curvature of residuals, None where there are none;
        None: no such costs
    """

    name: str
    v: Expr
    data: Expr
    cost: Expr
    rows: Expr
    index: np.ndarray
    values: np.ndarray
    weight: np.ndarray
    matrix: Table
    gauss_newton: Callable[[], Expr | None] | None = None

    @property
    def count(self) -> int:
        """Number of evaluation points."""
        return len(self.index)

    @property
    def size(self) -> int:
        """Number of components per evaluation point."""
        return int(self.rows.shape[0])


@dataclass(frozen=True)
class BlockFunctions:
    """CasADi Functions of one block.

    cost(v, d) -> l;  rows(v, d) -> y [ny];  gradient(v, d) -> (l, dl/dv [nv])
    jacobian(v, d) -> (y, nonzeros of dy/dv in the pattern ``jacobian_pattern`` [ny, nv])
    hessian(v, d, s, mu) -> nonzeros of the upper triangle of d2/dv2 (s l + mu' y) in ``hessian_pattern`` [nv, nv]
    gauss_newton(v, d, s) -> nonzeros of s times the Gauss-Newton Hessian of the cost in ``gauss_newton_pattern`` [nv, nv]; None: no
        cost, or not wanted
    batched: the functions take all ``count`` choices at once, one column each. keep: what must live as long as they do.
    """

    cost: ca.Function
    rows: ca.Function
    gradient: ca.Function
    jacobian: ca.Function
    hessian: ca.Function
    jacobian_pattern: ca.Sparsity
    hessian_pattern: ca.Sparsity
    gauss_newton: ca.Function | None = None
    gauss_newton_pattern: ca.Sparsity | None = None
    batched: bool = False
    keep: Any = None


#: of the latest ``MAX_BLOCKS`` blocks, by their graphs
_DIFFERENTIATED: OrderedDict[bytes, BlockFunctions] = OrderedDict()
MAX_BLOCKS = 64


def differentiated(block: Block, gauss_newton: bool = False) -> BlockFunctions:
    """The same as ``differentiate``, once for equal graphs: passes on other meshes and phases that repeat have the functions of the
    first."""
    graph = ca.Function("graph", [block.v, block.data], [block.cost, block.rows])
    try:
        text = "" if gauss_newton else graph.serialize()  # that Hessian is no function of the values alone
    except RuntimeError:  # external code has no text
        text = ""
    if not text:
        return differentiate(block, gauss_newton)
    key = sha256(text.encode()).digest()
    found = _DIFFERENTIATED.pop(key) if key in _DIFFERENTIATED else differentiate(block)
    _DIFFERENTIATED[key] = found
    if len(_DIFFERENTIATED) > MAX_BLOCKS:
        _DIFFERENTIATED.popitem(last=False)
    return found


def differentiate(block: Block, gauss_newton: bool = False) -> BlockFunctions:
    """Functions of a block: algorithmic differentiation, and where functions bring derivatives of their own, those.

    gauss_newton: whether that Hessian is wanted as well.
    """
    name, costs = block.name, has_cost(block)
    check(Activity.FUNCTIONS)
    found = written(block.v, block.data, block.cost, block.rows) or _plain(block, costs)
    v, d, s, mu, cost, rows, gradient, jacobian, hessian = found
    here, scale = [block.v, block.data], type(block.v).sym("s")
    gauss = type(block.v)(1, 1)
    if gauss_newton and costs:
        own = None if block.gauss_newton is None else block.gauss_newton()
        gauss = ca.triu(ca.hessian(block.cost, block.v)[0]) if own is None else own
    return BlockFunctions(
        cost=_function(f"{name}_cost", [v, d], [cost]),
        rows=_function(f"{name}_rows", [v, d], [rows]),
        gradient=_function(f"{name}_gradient", [v, d], [cost, gradient]),
        jacobian=_function(f"{name}_jacobian", [v, d], [rows, _nonzeros(jacobian)]),
        hessian=_function(f"{name}_hessian", [v, d, s, mu], [_nonzeros(hessian)]),
        jacobian_pattern=jacobian.sparsity(), hessian_pattern=hessian.sparsity(),
        gauss_newton=_function(f"{name}_gauss_newton", [*here, scale], [scale * _nonzeros(gauss)]) if gauss.nnz() else None,
        gauss_newton_pattern=gauss.sparsity() if gauss.nnz() else None,
    )


def _plain(block: Block, costs: bool) -> Written:
    """Derivatives as CasADi takes them."""
    v, kind = block.v, type(block.v)
    cost, rows = _dense(block.cost), _dense(block.rows)
    s, mu = kind.sym("s"), kind.sym("mu", block.size)
    # every call of CasADi takes longer than what it does for a small function: what is nothing is not differentiated
    some = block.size > 0
    terms = ([s * cost] if costs else []) + ([ca.dot(mu, rows)] if some else [])
    return Written(
        v, block.data, s, mu, cost, rows, gradient=_dense(ca.gradient(cost, v)) if costs else kind.zeros(v.shape[0]),
        jacobian=ca.jacobian(rows, v) if some else kind(0, v.shape[0]),
        hessian=ca.triu(ca.hessian(sum(terms[1:], start=terms[0]), v)[0]) if terms else kind(v.shape[0], v.shape[0]))


def _function(name: str, inputs: Sequence[Expr], outputs: Sequence[Expr]) -> ca.Function:
    check(Activity.FUNCTIONS)
    function = ca.Function(name, list(inputs), list(outputs))
    if function.is_a("SXFunction") or operations(function) > EXPAND_BELOW:
        return function
    try:
        flat = function.expand()
    except RuntimeError:  # external code has no scalar form
        return function
    if flat.get_function():  # with calls inside, looking for common parts takes up to seconds and finds one in a hundred at best
        return flat
    symbols = flat.sx_in()
    return ca.Function(name, symbols, ca.cse(flat.call(symbols)), flat.name_in(), flat.name_out())


def has_cost(block: Block) -> bool:
    """Whether the cost of a block is anything but 0."""
    return not (block.cost.is_zero() if isinstance(block.cost, ca.SX) else block.cost.is_constant() and ca.MX(block.cost).is_zero())


def _nonzeros(matrix: Expr) -> Expr:
    """The nonzeros of a matrix as a dense column."""
    return matrix.nz[:] if matrix.nnz() else type(matrix)(0, 1)


def _dense(value: Expr) -> Expr:
    return value if value.is_dense() else ca.densify(value)


def vector(kind: Any, *parts: Expr) -> Expr:
    """The parts stacked into one column [k] of the kind ca.SX or ca.MX; a proper empty column where there are none."""
    given = [part if type(part) is kind else kind(part) for part in parts]
    given = [part for part in given if part.numel()]
    if not given:
        return kind(0, 1)
    return _dense(given[0] if len(given) == 1 and given[0].is_column() else ca.veccat(*given))
