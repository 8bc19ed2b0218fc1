"""Nonlinear programs built from small functions repeated many times, with exact sparse derivatives.

A block is a cost l(v, d) and a vector of rows y(v, d) of few variables v, evaluated at ``count`` choices v_j = x[index_j]
with data d_j. The program is linear in everything that blocks return:

    f(x) = sum_j w_j l(v_j, d_j)            g(x) = G0 x + sum_blocks G vec(Y),   Y = [y(v_0, d_0), y(v_1, d_1), ...]

so its derivatives need only those of the small functions, evaluated at all j, and constant sparse matrices:

    J = G0 + sum G blockdiag(dy/dv)         Hessian of sigma f + lam' g: blocks  d2/dv2 (sigma w_j l + mu_j' y),  mu = G' lam

No derivative is taken through the program as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import casadi as ca
import numpy as np
import scipy.sparse as sp

from dynamics.kernels import operations
from ocp.spaces import Expr

#: below so many instructions in all, calling a small function over and over costs more than what it computes; one flat
#: function is then faster (measured: objective and gradient of a 100-node cart-pole 6 times, constraints 1.6 times)
FLAT_BELOW = 5000

#: derivatives that a rate brings along live in matrix graphs; up to so many operations these are flattened to scalar ones, which
#: the interpreter runs several times faster
EXPAND_BELOW = 150_000


@dataclass(frozen=True)
class Block:
    """One small function and where it applies.

    v [nv], data [nd]: symbols, all SX or, where the rate brings its own derivatives, all MX; cost: a scalar of them, rows: [ny]
    index [count, nv]: columns of the program that v stands for; values [count, nd]: the data; weight [count]: of the costs
    matrix [m, count * ny]: G, from the stacked rows to the constraints
    gauss_newton: upper triangle [nv, nv] of the cost's Hessian without the curvature of residuals; None where there are none
    """

    name: str
    v: Expr
    data: Expr
    cost: Expr
    rows: Expr
    index: np.ndarray
    values: np.ndarray
    weight: np.ndarray
    matrix: sp.csr_matrix
    gauss_newton: Expr | None = None

    @property
    def count(self) -> int:
        return len(self.index)

    @property
    def size(self) -> int:
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


@dataclass(frozen=True)
class ProgramFunctions:
    """The functions of an NLP, see ``ocp.nlp.NLP``."""

    f: ca.Function
    g: ca.Function
    grad: ca.Function
    jac: ca.Function
    hess: ca.Function
    gauss_newton: ca.Function


def differentiate(block: Block, gauss_newton: bool = False) -> BlockFunctions:
    """Functions of a block: algorithmic differentiation, and where functions bring derivatives of their own, those.

    gauss_newton: whether that Hessian is wanted as well.
    """
    v, d, name, kind = block.v, block.data, block.name, type(block.v)
    cost, rows = ca.densify(block.cost), ca.densify(block.rows)
    jacobian = ca.jacobian(rows, v)
    s, mu = kind.sym("s"), kind.sym("mu", block.size)
    hessian = ca.triu(ca.hessian(s * cost + ca.dot(mu, rows), v)[0])
    gauss = kind(1, 1) if not gauss_newton else block.gauss_newton if block.gauss_newton is not None else ca.triu(ca.hessian(cost,
                                                                                                                             v)[0])
    return BlockFunctions(
        cost=_function(f"{name}_cost", [v, d], [cost]),
        rows=_function(f"{name}_rows", [v, d], [rows]),
        gradient=_function(f"{name}_gradient", [v, d], [cost, ca.densify(ca.gradient(cost, v))]),
        jacobian=_function(f"{name}_jacobian", [v, d], [rows, _nonzeros(jacobian)]),
        hessian=_function(f"{name}_hessian", [v, d, s, mu], [_nonzeros(hessian)]),
        jacobian_pattern=jacobian.sparsity(), hessian_pattern=hessian.sparsity(),
        gauss_newton=_function(f"{name}_gauss_newton", [v, d, s], [s * _nonzeros(gauss)]) if gauss.nnz() else None,
        gauss_newton_pattern=gauss.sparsity() if gauss.nnz() else None,
    )


def _function(name: str, inputs: Sequence[Expr], outputs: Sequence[Expr]) -> ca.Function:
    function = ca.Function(name, list(inputs), list(outputs))
    if function.is_a("SXFunction") or operations(function) > EXPAND_BELOW:
        return function
    try:
        flat = function.expand()
    except RuntimeError:  # external code has no scalar form
        return function
    symbols = flat.sx_in()
    return ca.Function(name, symbols, ca.cse(flat.call(symbols)), flat.name_in(), flat.name_out())


def assemble(n: int, linear: sp.csr_matrix, blocks: Sequence[Block], functions: Sequence[BlockFunctions]) -> ProgramFunctions:
    """The functions of the program with n variables, G0 = ``linear`` [m, n] and these blocks."""
    m = linear.shape[0]
    x, sigma, lam = ca.MX.sym("x", n), ca.MX.sym("sigma"), ca.MX.sym("lam", m)
    f, g, gradient = ca.MX(0), _product(linear, x), ca.MX.zeros(n)
    arguments = [_arguments(block, x) for block in blocks]
    for block, own, (v, d) in zip(blocks, functions, arguments, strict=True):
        if _has_cost(block):
            f += ca.dot(_column(block.weight), _call(own, "cost", block, v, d)[0].T)
            each = _call(own, "gradient", block, v, d)[1]
            gradient += _product(_gradient_matrix(block, n), ca.vec(each))
        if block.size:
            g += _product(block.matrix, ca.vec(_call(own, "rows", block, v, d)[0]))
    jac_g, jacobian = _jacobian(linear, blocks, functions, arguments, x)
    hessian = _hessian(n, blocks, functions, arguments, sigma, lam)
    gauss = _gauss_newton(n, blocks, functions, arguments, sigma)
    program = ProgramFunctions(
        f=ca.Function("f", [x], [f], ["x"], ["f"]),
        g=ca.Function("g", [x], [g], ["x"], ["g"]),
        grad=ca.Function("gradient", [x], [f, gradient], ["x"], ["f", "gradient"]),
        jac=ca.Function("jacobian", [x], [jac_g, jacobian], ["x"], ["g", "jacobian"]),
        hess=ca.Function("hessian", [x, sigma, lam], [hessian], ["x", "sigma", "lam_g"], ["hessian"]),
        gauss_newton=ca.Function("gauss_newton", [x, sigma], [gauss], ["x", "sigma"], ["hessian"]),
    )
    kinds = {"f": "cost", "g": "rows", "grad": "gradient", "jac": "jacobian", "hess": "hessian", "gauss_newton": "gauss_newton"}
    return replace(program, **{name: getattr(program, name).expand() for name, kind in kinds.items()
                               if _is_small(blocks, [getattr(own, kind) for own in functions])})


def _is_small(blocks: Sequence[Block], functions: Sequence[ca.Function]) -> bool:
    """Whether these functions, one per block, are interpreted and few instructions in all."""
    if not all(f is None or f.is_a("SXFunction") for f in functions):
        return False
    return sum(block.count * f.n_instructions() for block, f in zip(blocks, functions, strict=True) if f is not None) < FLAT_BELOW


def _jacobian(linear: sp.csr_matrix, blocks: Sequence[Block], functions: Sequence[BlockFunctions],
              arguments: Sequence[tuple[ca.MX, ca.MX]], x: ca.MX) -> tuple[ca.MX, ca.MX]:
    """(g, J): one call of each Jacobian function gives both."""
    g, sources, rows, columns, weights = _product(linear, x), [], [], [], []
    for block, own, (v, d) in zip(blocks, functions, arguments, strict=True):
        if not block.size:
            continue
        y, nonzeros = _call(own, "jacobian", block, v, d)
        g += _product(block.matrix, ca.vec(y))
        r, c = (np.array(i, dtype=int) for i in own.jacobian_pattern.get_triplet())
        # entry e of the stacked nonzeros adds to every constraint that its row of Y enters, at its variable's column
        source = np.arange(block.count * len(r))
        y_row = (np.arange(block.count)[:, None] * block.size + r).ravel()
        enters = (block.matrix @ sp.csr_matrix((np.ones(len(source)), (y_row, source)),
                                               shape=(block.matrix.shape[1], len(source)))).tocoo()
        sources.append((ca.vec(nonzeros), enters.col))
        rows.append(enters.row)
        columns.append(block.index[:, c].ravel()[enters.col])
        weights.append(enters.data)
    return g, _scatter(linear.shape, linear.tocoo(), rows, columns, weights, sources)


def _hessian(n: int, blocks: Sequence[Block], functions: Sequence[BlockFunctions],
             arguments: Sequence[tuple[ca.MX, ca.MX]], sigma: ca.MX, lam: ca.MX) -> ca.MX:
    sources, rows, columns, weights = [], [], [], []
    for block, own, (v, d) in zip(blocks, functions, arguments, strict=True):
        mu = ca.reshape(_product(block.matrix.T, lam), block.size, block.count)
        nonzeros = _call(own, "hessian", block, v, d, sigma * _column(block.weight).T, mu)[0]
        r, c = (np.array(i, dtype=int) for i in own.hessian_pattern.get_triplet())
        first, second = block.index[:, r].ravel(), block.index[:, c].ravel()
        sources.append((ca.vec(nonzeros), np.arange(len(first))))
        rows.append(np.minimum(first, second))
        columns.append(np.maximum(first, second))
        weights.append(np.ones(len(first)))
    return _scatter((n, n), sp.coo_matrix((n, n)), rows, columns, weights, sources)


def _gauss_newton(n: int, blocks: Sequence[Block], functions: Sequence[BlockFunctions],
                  arguments: Sequence[tuple[ca.MX, ca.MX]], sigma: ca.MX) -> ca.MX:
    if all(own.gauss_newton is None for own in functions):
        return ca.MX(n, n)
    sources, rows, columns, weights = [], [], [], []
    for block, own, (v, d) in zip(blocks, functions, arguments, strict=True):
        if own.gauss_newton is None or own.gauss_newton_pattern is None:
            continue
        nonzeros = _call(own, "gauss_newton", block, v, d, sigma * _column(block.weight).T)[0]
        r, c = (np.array(i, dtype=int) for i in own.gauss_newton_pattern.get_triplet())
        first, second = block.index[:, r].ravel(), block.index[:, c].ravel()
        sources.append((ca.vec(nonzeros), np.arange(len(first))))
        rows.append(np.minimum(first, second))
        columns.append(np.maximum(first, second))
        weights.append(np.ones(len(first)))
    return _scatter((n, n), sp.coo_matrix((n, n)), rows, columns, weights, sources)


def _scatter(shape: tuple[int, int], constant: sp.coo_matrix, rows: list[np.ndarray], columns: list[np.ndarray],
             weights: list[np.ndarray], sources: list[tuple[ca.MX, np.ndarray]]) -> ca.MX:
    """The sparse matrix ``constant`` plus, for all k and i, ``weights[k][i] * source_k[pick_k[i]]`` at (rows, columns)."""
    keys = [c.astype(np.int64) * shape[0] + r
            for r, c in zip([constant.row, *rows], [constant.col, *columns], strict=True)]
    places = np.unique(np.concatenate(keys))  # column-major, as CasADi stores
    pattern = ca.Sparsity.triplet(*shape, (places % shape[0]).tolist(), (places // shape[0]).tolist())
    start = np.zeros(len(places))
    np.add.at(start, np.searchsorted(places, keys[0]), constant.data)
    total = ca.MX(_column(start))
    for key, weight, (source, pick) in zip(keys[1:], weights, sources, strict=True):
        matrix = sp.csc_matrix((weight, (np.searchsorted(places, key), pick)), shape=(len(places), source.shape[0]))
        total += _product(matrix, source)
    return ca.MX(pattern, total)


def _arguments(block: Block, x: ca.MX) -> tuple[ca.MX, ca.MX]:
    nv = block.index.shape[1]
    data = ca.reshape(_column(block.values.ravel()), block.values.shape[1], block.count)
    return ca.reshape(x[block.index.ravel().tolist()], nv, block.count), ca.MX(data)


def _call(own: BlockFunctions, name: str, block: Block, *arguments: ca.MX) -> list[ca.MX]:
    function: ca.Function = getattr(own, name)
    repeated = function if block.count == 1 or own.batched else function.map(block.count)
    return [ca.densify(value) for value in repeated.call(list(arguments))]


def _gradient_matrix(block: Block, n: int) -> sp.csc_matrix:
    nv = block.index.shape[1]
    return sp.csc_matrix((np.repeat(block.weight, nv), (block.index.ravel(), np.arange(block.count * nv))),
                         shape=(n, block.count * nv))


def _has_cost(block: Block) -> bool:
    return not (block.cost.is_zero() if isinstance(block.cost, ca.SX) else block.cost.is_constant() and ca.MX(block.cost).is_zero())


def _column(values: np.ndarray) -> ca.DM:
    return ca.DM(ca.Sparsity.dense(len(values), 1), values.tolist())


def _product(matrix: sp.spmatrix, vector: ca.MX) -> ca.MX:
    """Constant sparse matrix times dense vector; structurally empty products stay dense zeros."""
    if matrix.nnz == 0:
        return ca.MX.zeros(matrix.shape[0])
    columns = sp.csc_matrix(matrix)
    columns.sort_indices()
    # lists: CasADi takes arrays entry by entry, through Python, many times slower
    pattern = ca.Sparsity(*columns.shape, columns.indptr.tolist(), columns.indices.tolist())
    return ca.densify(ca.mtimes(ca.MX(ca.DM(pattern, columns.data.tolist())), vector))


def _nonzeros(matrix: Expr) -> Expr:
    if isinstance(matrix, ca.MX):
        return matrix.nz[:] if matrix.nnz() else ca.MX(0, 1)
    return ca.SX(ca.Sparsity.dense(matrix.nnz(), 1), ca.vertcat(*matrix.nonzeros()) if matrix.nnz() else ca.SX(0, 1))


def vector(kind: type, *parts: Expr) -> Expr:
    """The parts stacked into one column [k] of the kind ca.SX or ca.MX; a proper empty column where there are none."""
    return ca.densify(ca.vertcat(kind(0, 1), *(ca.vec(kind(part)) for part in parts)))
