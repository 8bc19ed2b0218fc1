"""Values and derivatives of a partially separable program in compiled loops over its elements, by address.

Every function writes its numbers where they belong in flat arrays, point by point; gathers add them up.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from dynamics.kernels import compile_many, workspace
from dynamics.kernels.calls import address_of, call
from dynamics.kernels.linked import linked
from dynamics.kernels.record import Record
from ocp.nlp.separable import Gather, Matrix, Separable

Array = np.ndarray

FUNCTIONS = ("cost", "rows", "gradient", "jacobian", "hessian")
#: columns of the table of elements
COUNT, NV, ND, NY, NJ, NH, INDEX, DATA, WEIGHT, Y, J, H, COST, BATCHED, GRADIENT, WIDTH = range(16)


class Program(Record):
    """A program as compiled loops take it.

    table [E, WIDTH]: sizes of each element and where its numbers begin; columns, data, weight: of all elements; address, handle [E,
        5]
    arg, res, iw, w: what kernels work in; v, s, mu: their inputs; costs, gradients, ys, js, hs: their results
    linear, rows, jacobian, hessian as in ``Separable``; jacobian_rows, jacobian_columns, hessian_rows, hessian_columns: triplets
    """

    table: Array
    columns: Array
    data: Array
    weight: Array
    address: Array
    handle: Array
    arg: Array
    res: Array
    iw: Array
    w: Array
    v: Array
    s: Array
    mu: Array
    costs: Array
    gradients: Array
    ys: Array
    js: Array
    hs: Array
    linear_start: Array
    linear_columns: Array
    linear_values: Array
    rows_start: Array
    rows_source: Array
    rows_weight: Array
    jacobian_start: Array
    jacobian_source: Array
    jacobian_weight: Array
    jacobian_base: Array
    jacobian_rows: Array
    jacobian_columns: Array
    hessian_start: Array
    hessian_source: Array
    hessian_weight: Array
    hessian_rows: Array
    hessian_columns: Array


@dataclass(frozen=True, eq=False)
class Loaded:
    """A program and what must live as long as it."""

    program: Program
    keep: Any


@linked(error_model="numpy")
def _run(p: Program, e: int, which: int, x: Array, sigma: float) -> int:
    """One function of one element at all its evaluation points; 0 is success. ``mu`` must be set for Hessians."""
    t = p.table[e]
    count, nv, nd = t[COUNT], t[NV], t[ND]
    address, handle = p.address[e, which], p.handle[e, which]
    v, s, arg, res = address_of(p.v), address_of(p.s), p.arg, p.res
    data, mu, costs, gradients = address_of(p.data), address_of(p.mu), address_of(p.costs), address_of(p.gradients)
    ys, js, hs = address_of(p.ys), address_of(p.js), address_of(p.hs)
    places = count if t[BATCHED] else 1
    for j in range(0, count, places):
        for i in range(places * nv):
            p.v[i] = x[p.columns[t[INDEX] + j * nv + i]]
        arg[0], arg[1] = v, data + 8 * (t[DATA] + j * nd)
        if which == 0:
            res[0] = costs + 8 * (t[COST] + j)
        elif which == 1:
            res[0] = ys + 8 * (t[Y] + j * t[NY])
        elif which == 2:
            res[0], res[1] = costs + 8 * (t[COST] + j), gradients + 8 * (t[GRADIENT] + j * nv)
        elif which == 3:
            res[0], res[1] = ys + 8 * (t[Y] + j * t[NY]), js + 8 * (t[J] + j * t[NJ])
        else:
            for i in range(places):
                p.s[i] = sigma * p.weight[t[WEIGHT] + j + i]
            arg[2], arg[3] = s, mu + 8 * (t[Y] + j * t[NY])
            res[0] = hs + 8 * (t[H] + j * t[NH])
        if call(address, handle, arg, res, p.iw, p.w) != 0:
            return 1
    return 0


@linked(error_model="numpy")
def values(p: Program, x: Array, g: Array) -> tuple[int, float]:
    """g(x) [m]; returns (0 is success, f)."""
    f, failed = 0.0, 0
    for e in range(len(p.table)):
        t = p.table[e]
        if t[NY] > 0:
            failed += _run(p, e, 1, x, 0.0)
        if t[COST] >= 0:
            failed += _run(p, e, 0, x, 0.0)
            for j in range(t[COUNT]):
                f += p.weight[t[WEIGHT] + j] * p.costs[t[COST] + j]
    _rows(p, x, g)
    return failed, f


@linked(error_model="numpy")
def firsts(p: Program, x: Array, g: Array, gradient: Array, J: Array) -> tuple[int, float]:
    """g(x) [m], the gradient [n] and the Jacobian's nonzeros; returns (0 is success, f)."""
    f, failed = 0.0, 0
    gradient[:] = 0.0
    for e in range(len(p.table)):
        t = p.table[e]
        if t[NY] > 0:
            failed += _run(p, e, 3, x, 0.0)
        if t[COST] >= 0:
            failed += _run(p, e, 2, x, 0.0)
            nv = t[NV]
            for j in range(t[COUNT]):
                weight = p.weight[t[WEIGHT] + j]
                f += weight * p.costs[t[COST] + j]
                for i in range(nv):
                    gradient[p.columns[t[INDEX] + j * nv + i]] += weight * p.gradients[t[GRADIENT] + j * nv + i]
    _rows(p, x, g)
    for i in range(len(J)):
        total = p.jacobian_base[i]
        for k in range(p.jacobian_start[i], p.jacobian_start[i + 1]):
            total += p.jacobian_weight[k] * p.js[p.jacobian_source[k]]
        J[i] = total
    return failed, f


@linked(error_model="numpy")
def second(p: Program, x: Array, sigma: float, lam: Array, H: Array) -> int:
    """Nonzeros of the upper triangle of the Hessian of ``sigma f + lam' g``; 0 is success."""
    p.mu[:] = 0.0
    for i in range(len(lam)):
        if lam[i] != 0.0:
            for k in range(p.rows_start[i], p.rows_start[i + 1]):
                p.mu[p.rows_source[k]] += p.rows_weight[k] * lam[i]
    failed = 0
    for e in range(len(p.table)):
        if p.table[e, NH] > 0:
            failed += _run(p, e, 4, x, sigma)
    for i in range(len(H)):
        total = 0.0
        for k in range(p.hessian_start[i], p.hessian_start[i + 1]):
            total += p.hessian_weight[k] * p.hs[p.hessian_source[k]]
        H[i] = total
    return failed


@linked(error_model="numpy")
def _rows(p: Program, x: Array, g: Array) -> None:
    for i in range(len(g)):
        total = 0.0
        for k in range(p.linear_start[i], p.linear_start[i + 1]):
            total += p.linear_values[k] * x[p.linear_columns[k]]
        for k in range(p.rows_start[i], p.rows_start[i + 1]):
            total += p.rows_weight[k] * p.ys[p.rows_source[k]]
        g[i] = total


def load(program: Separable, gauss_newton: bool = False, mode: Any = "interpreted") -> Loaded:
    """The program with its kernels; gauss_newton: that Hessian in place of the exact one; mode: of the kernels."""
    elements = program.elements
    E = len(elements)
    table = np.zeros((E, WIDTH), dtype=np.int64)
    wanted: list[tuple[int, int, ca.Function]] = []
    at = dict.fromkeys((INDEX, DATA, WEIGHT, Y, J, H, COST, GRADIENT), 0)
    for e, own in enumerate(elements):
        count, nv = own.index.shape
        nd = own.values.shape[1]
        places = count if own.batched else 1
        second_order = own.gauss_newton if gauss_newton else own.hessian
        nj = own.jacobian.numel_out(1) // places
        nh = 0 if second_order is None else second_order.numel_out(0) // places
        costly = own.has_cost
        table[e] = (count, nv, nd, own.size, nj, nh, at[INDEX], at[DATA], at[WEIGHT], at[Y], at[J], at[H],
                    at[COST] if costly else -1, int(own.batched), at[GRADIENT])
        for key, amount in ((INDEX, count * nv), (DATA, count * nd), (WEIGHT, count), (Y, count * own.size), (J, count * nj),
                            (H, count * nh), (COST, count * costly), (GRADIENT, count * nv * costly)):
            at[key] += amount
        functions = (own.cost if costly else None, own.rows if own.size else None, own.gradient if costly else None,
                     own.jacobian if own.size else None, second_order if nh else None)
        wanted += [(e, which, function) for which, function in enumerate(functions) if function is not None]
    address, handle = np.zeros((E, 5), dtype=np.int64), np.zeros((E, 5), dtype=np.int64)
    kernels, keep = _kernels([function for _, _, function in wanted], [elements[e].batched for e, _, _ in wanted], mode)
    sizes = [1, 1, 1, 1]
    for (e, which, _), kernel in zip(wanted, kernels, strict=True):
        address[e, which], handle[e, which] = kernel.address, kernel.handle
        sizes = [max(a, b) for a, b in zip(sizes, kernel.sizes, strict=True)]
    widest = max((own.index.shape[1] * (own.count if own.batched else 1) for own in elements), default=0)
    longest = max((own.count if own.batched else 1 for own in elements), default=0)
    jr, jc = _triplets(program.jacobian)
    matrix = program.gauss_newton if gauss_newton else program.hessian
    assert matrix is not None
    hr, hc = _triplets(matrix)
    loaded = Program(
        table, _joined([own.index for own in elements], np.int64), _joined([own.values for own in elements]),
        _joined([own.weight for own in elements]), address, handle, np.zeros(sizes[0] + 4, dtype=np.intp),
        np.zeros(sizes[1] + 4, dtype=np.intp), np.zeros(sizes[2] + 1, dtype=np.int64), np.zeros(sizes[3] + 1),
        np.zeros(widest + 1), np.zeros(longest + 1), np.zeros(at[Y] + 1), np.zeros(at[COST] + 1), np.zeros(at[GRADIENT] + 1),
        np.zeros(at[Y] + 1), np.zeros(at[J] + 1), np.zeros(at[H] + 1),
        *(np.ascontiguousarray(a, dtype=kind) for a, kind in zip(program.linear, (np.int64, np.int64, float), strict=True)),
        *_gather(program.rows)[:3], *_gather(program.jacobian.entries), jr, jc, *_gather(matrix.entries)[:3], hr, hc)
    return Loaded(loaded, (keep, [own.keep for own in elements]))


def _joined(parts: Sequence[Array], kind: Any = float) -> Array:
    """All entries one after another, and one more: an array of length zero need not have an address."""
    return np.concatenate([*(np.asarray(part, dtype=kind).ravel() for part in parts), np.zeros(1, dtype=kind)])


class GatherArrays(NamedTuple):
    """Where the entries of each element begin, where they come from, by which weights, and what they begin with."""

    start: Array
    source: Array
    weight: Array
    base: Array


def _gather(gather: Gather) -> GatherArrays:
    return GatherArrays(np.ascontiguousarray(gather.start, dtype=np.int64), np.ascontiguousarray(gather.source, dtype=np.int64),
                        np.ascontiguousarray(gather.weight, dtype=float), np.ascontiguousarray(gather.base, dtype=float))


def _triplets(matrix: Matrix) -> tuple[Array, Array]:
    columns = np.repeat(np.arange(len(matrix.indptr) - 1), np.diff(matrix.indptr))
    return np.ascontiguousarray(matrix.rows, dtype=np.int64), columns.astype(np.int64)


# ---- kernels ----
@dataclass(frozen=True)
class _Called:
    address: int
    handle: int
    sizes: tuple[int, int, int, int]


def _kernels(functions: Sequence[ca.Function], through_python: Sequence[bool], mode: Any) -> tuple[list[_Called], list[Any]]:
    """How to call each function. through_python: those that call Python themselves, which have no other way."""
    plain = [function for function, slow in zip(functions, through_python, strict=True) if not slow]
    kernels = iter(compile_many(plain, mode=mode))
    found: list[_Called] = []
    keep: list[Any] = []
    for function, slow in zip(functions, through_python, strict=True):
        if slow:
            through = _through_python(function)
            found.append(_Called(through[0], -1, (function.n_in(), function.n_out(), 0, 0)))
            keep.append(through)
        else:
            kernel = next(kernels)
            space = workspace(kernel)
            found.append(_Called(space.address, space.handle, (kernel.sz_arg, kernel.sz_res, kernel.sz_iw, kernel.sz_w)))
            keep.append((kernel, space))
    return found, keep


_CALL = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.POINTER(ctypes.c_void_p)] * 2, *[ctypes.c_void_p] * 2, ctypes.c_int)


def _through_python(function: ca.Function) -> tuple[int, Any]:
    """(address, what must live as long as it) of a function that leaves compiled code for CasADi's interpreter."""
    if not all(function.sparsity_out(i).is_dense() for i in range(function.n_out())):
        given = [ca.MX.sym(f"i{i}", function.sparsity_in(i)) for i in range(function.n_in())]
        function = ca.Function(function.name(), given, [ca.densify(value) for value in function.call(given)])
    buffer, trigger = function.buffer()
    inputs = [np.zeros(max(1, function.nnz_in(i))) for i in range(function.n_in())]
    outputs = [np.zeros(max(1, function.nnz_out(i))) for i in range(function.n_out())]
    for i, value in enumerate(inputs):
        buffer.set_arg(i, value.data)
    for i, value in enumerate(outputs):
        buffer.set_res(i, value.data)

    def run(arg: Any, res: Any, iw: Any, w: Any, memory: int) -> int:
        for i, value in enumerate(inputs):
            if arg[i]:
                ctypes.memmove(value.ctypes.data, arg[i], value.nbytes)
            else:
                value[:] = 0.0
        trigger()
        if buffer.ret() != 0:
            return 1
        for i, value in enumerate(outputs):
            if res[i]:
                ctypes.memmove(res[i], value.ctypes.data, 8 * function.nnz_out(i))
        return 0

    pointer = _CALL(run)
    address = ctypes.cast(pointer, ctypes.c_void_p).value
    assert address is not None
    return address, (pointer, run, buffer, inputs, outputs, function)
