"""Products of row-major matrices in eight lanes, for loops over runtime sizes, and flat views of arrays without reference counts.

Matrices are given by an array and the flat index and strides of what is meant in it. Rows of the right factor and of the result
are padded to whole lanes, so that nothing is masked; four rows and sixteen columns of the result stay in registers. A view from
``flat`` must not outlive its array; inside one compiled call on arrays of the caller it cannot.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import intrinsic

from dynamics.kernels.insides import populate_array
from dynamics.kernels.linked import linked
from dynamics.loops.lanes import WIDTH, get, load, put, splat, store
from dynamics.loops.vectors import OPTIONS

Array = np.ndarray


def padded(columns: int) -> int:
    """The number of columns rounded up to whole lanes."""
    return -(-columns // WIDTH) * WIDTH


@intrinsic
def flat(typingctx: Any, array: Any) -> Any:
    """flat(array) -> the same numbers as a one-dimensional array; of C-contiguous arrays only."""
    if not (isinstance(array, types.Array) and array.layout == "C"):
        return None
    kind = types.Array(array.dtype, 1, "C")

    def codegen(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        source = context.make_array(sig.args[0])(context, builder, values[0])
        out = context.make_array(kind)(context, builder)
        # no meminfo: whoever copies or drops this view has nothing to count
        populate_array(out, data=source.data, shape=[source.nitems], strides=[source.itemsize], itemsize=source.itemsize,
                       meminfo=None)
        return out._getvalue()

    return kind(array), codegen


class Block(NamedTuple):
    """Rows of a matrix in a flat array: the first number, and how far it is from row to row."""

    numbers: Array
    at: int
    row: int


@linked(**OPTIONS)
def product(begin: Block, factor: Block, column: int, other: Block, result: Block, rows: int, inner: int, columns: int,
            lower: bool) -> None:
    """``result = begin + factor other`` for factor [rows, inner], ``column`` from column to column, other [inner, columns]; begin
    may be result.

    columns: a multiple of eight. lower: only what lies on and below the diagonal (and the rest of the lanes there). Strips of
    sixteen columns of ``other`` stay in the nearest cache while four rows of ``factor`` after four go by.
    """
    start, at_start, start_row = begin.numbers, begin.at, begin.row
    left, at_left, row = factor.numbers, factor.at, factor.row
    right, at_right, right_row = other.numbers, other.at, other.row
    out, at_out, out_row = result.numbers, result.at, result.row
    for b in range(0, columns, 2 * WIDTH):
        c = b + WIDTH
        for r in range(b if lower else 0, rows, 4):
            # a row count that is no multiple of four repeats its last row: the same numbers are written twice
            r1, r2, r3 = min(r + 1, rows - 1), min(r + 2, rows - 1), min(r + 3, rows - 1)
            p0, p1, p2, p3 = at_left + r * row, at_left + r1 * row, at_left + r2 * row, at_left + r3 * row
            i0, i1 = at_start + r * start_row + b, at_start + r1 * start_row + b
            i2, i3 = at_start + r2 * start_row + b, at_start + r3 * start_row + b
            o0, o1 = at_out + r * out_row + b, at_out + r1 * out_row + b
            o2, o3 = at_out + r2 * out_row + b, at_out + r3 * out_row + b
            s0, s1, s2, s3 = load(start, i0), load(start, i1), load(start, i2), load(start, i3)
            at, shift = at_right + b, 0
            if c < columns and not (lower and r3 < c):
                t0, t1 = load(start, i0 + WIDTH), load(start, i1 + WIDTH)
                t2, t3 = load(start, i2 + WIDTH), load(start, i3 + WIDTH)
                for _ in range(inner):
                    x, y = load(right, at), load(right, at + WIDTH)
                    f0, f1, f2, f3 = get(left, p0 + shift), get(left, p1 + shift), get(left, p2 + shift), get(left, p3 + shift)
                    s0, s1, s2, s3 = s0 + f0 * x, s1 + f1 * x, s2 + f2 * x, s3 + f3 * x
                    t0, t1, t2, t3 = t0 + f0 * y, t1 + f1 * y, t2 + f2 * y, t3 + f3 * y
                    at, shift = at + right_row, shift + column
                store(out, o0 + WIDTH, t0)
                store(out, o1 + WIDTH, t1)
                store(out, o2 + WIDTH, t2)
                store(out, o3 + WIDTH, t3)
            else:
                # two sums for each row: one alone would wait for itself
                t0, t1, t2, t3 = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
                for _ in range(inner // 2):
                    x, y, odd = load(right, at), load(right, at + right_row), shift + column
                    s0, s1 = s0 + get(left, p0 + shift) * x, s1 + get(left, p1 + shift) * x
                    s2, s3 = s2 + get(left, p2 + shift) * x, s3 + get(left, p3 + shift) * x
                    t0, t1 = t0 + get(left, p0 + odd) * y, t1 + get(left, p1 + odd) * y
                    t2, t3 = t2 + get(left, p2 + odd) * y, t3 + get(left, p3 + odd) * y
                    at, shift = at + 2 * right_row, odd + column
                if inner % 2 == 1:
                    x = load(right, at)
                    s0, s1 = s0 + get(left, p0 + shift) * x, s1 + get(left, p1 + shift) * x
                    s2, s3 = s2 + get(left, p2 + shift) * x, s3 + get(left, p3 + shift) * x
                s0, s1, s2, s3 = s0 + t0, s1 + t1, s2 + t2, s3 + t3
            store(out, o0, s0)
            store(out, o1, s1)
            store(out, o2, s2)
            store(out, o3, s3)


@linked(**OPTIONS)
def multiply_add(out: Block, left: Block, column: int, right: Block, rows: int, inner: int, columns: int) -> None:
    """``out += left right``, as in ``product``."""
    product(out, left, column, right, out, rows, inner, columns, False)


@linked(**OPTIONS)
def clear(out: Array, at: int, count: int) -> None:
    """Zero ``count`` numbers from a flat index."""
    for i in range(count):
        put(out, at + i, 0.0)


@linked(**OPTIONS)
def copy(x: Array, at_x: int, out: Array, at: int, count: int) -> None:
    """``out = x`` for ``count`` numbers, a multiple of eight."""
    for i in range(0, count, WIDTH):
        store(out, at + i, load(x, at_x + i))


@linked(**OPTIONS)
def add(weight: float, x: Array, at_x: int, out: Array, at: int, count: int) -> None:
    """``out += weight x`` for ``count`` numbers, a multiple of eight."""
    for i in range(0, count, WIDTH):
        store(out, at + i, load(out, at + i) + weight * load(x, at_x + i))


@linked(**OPTIONS)
def add_congruence(K: Array, size: int, Z: Array, columns: int, T: Array, H: Array, rows: int) -> None:
    """``H += Z' K Z`` on and below the diagonal, for symmetric K [size, size] and Z [size, rows]; T [size, rows]: scratch.

    Z, T, H have rows of ``columns`` numbers, padding included; of the matrix H the first ``rows`` rows are written.
    """
    zero, one, full, half = 0 * size, 0 * size + 1, size < 0, size >= 0  # a literal would be compiled apart
    z, t, h = Block(flat(Z), zero, columns), Block(flat(T), zero, columns), Block(flat(H), zero, columns)
    clear(T, 0, size * columns)
    product(t, Block(flat(K), zero, size), one, z, t, size, size, columns, full)
    product(h, Block(flat(Z), zero, one), columns, t, h, rows, size, columns, half)
