"""Products of row-major matrices in eight lanes, for loops over runtime sizes.

Matrices are given by an array and the flat index and strides of what is meant in it. Rows of ``right`` and ``out`` are padded
to whole lanes, so that nothing is masked; four rows and sixteen columns of the result stay in registers.
"""

from __future__ import annotations

import numpy as np

from dynamics.kernels.linked import linked
from dynamics.loops.lanes import WIDTH, get, load, put, store
from dynamics.loops.vectors import OPTIONS

Array = np.ndarray


def padded(columns: int) -> int:
    """The number of columns rounded up to whole lanes."""
    return -(-columns // WIDTH) * WIDTH


@linked(**OPTIONS)
def multiply_add(left: Array, at_left: int, row: int, column: int, right: Array, at_right: int, right_row: int,
                 out: Array, at_out: int, out_row: int, rows: int, inner: int, columns: int, lower: bool) -> None:
    """``out += left right`` for left [rows, inner] with strides (row, column), right [inner, columns], out [rows, columns].

    columns: a multiple of eight. lower: only what lies on and below the diagonal (and the rest of the lanes there).
    """
    for r in range(0, rows, 4):
        # a row count that is no multiple of four repeats its last row: the same numbers are written twice
        r1, r2, r3 = min(r + 1, rows - 1), min(r + 2, rows - 1), min(r + 3, rows - 1)
        p0, p1, p2, p3 = at_left + r * row, at_left + r1 * row, at_left + r2 * row, at_left + r3 * row
        o0, o1, o2, o3 = at_out + r * out_row, at_out + r1 * out_row, at_out + r2 * out_row, at_out + r3 * out_row
        end = min(columns, (r3 // WIDTH + 1) * WIDTH) if lower else columns
        b = 0
        while b + 2 * WIDTH <= end:
            s0, s1, s2, s3 = load(out, o0 + b), load(out, o1 + b), load(out, o2 + b), load(out, o3 + b)
            c = b + WIDTH
            t0, t1, t2, t3 = load(out, o0 + c), load(out, o1 + c), load(out, o2 + c), load(out, o3 + c)
            for k in range(inner):
                x, y = load(right, at_right + k * right_row + b), load(right, at_right + k * right_row + c)
                shift = k * column
                f0, f1, f2, f3 = get(left, p0 + shift), get(left, p1 + shift), get(left, p2 + shift), get(left, p3 + shift)
                s0, s1, s2, s3 = s0 + f0 * x, s1 + f1 * x, s2 + f2 * x, s3 + f3 * x
                t0, t1, t2, t3 = t0 + f0 * y, t1 + f1 * y, t2 + f2 * y, t3 + f3 * y
            store(out, o0 + b, s0)
            store(out, o1 + b, s1)
            store(out, o2 + b, s2)
            store(out, o3 + b, s3)
            store(out, o0 + c, t0)
            store(out, o1 + c, t1)
            store(out, o2 + c, t2)
            store(out, o3 + c, t3)
            b += 2 * WIDTH
        if b < end:
            s0, s1, s2, s3 = load(out, o0 + b), load(out, o1 + b), load(out, o2 + b), load(out, o3 + b)
            for k in range(inner):
                x = load(right, at_right + k * right_row + b)
                shift = k * column
                s0, s1 = s0 + get(left, p0 + shift) * x, s1 + get(left, p1 + shift) * x
                s2, s3 = s2 + get(left, p2 + shift) * x, s3 + get(left, p3 + shift) * x
            store(out, o0 + b, s0)
            store(out, o1 + b, s1)
            store(out, o2 + b, s2)
            store(out, o3 + b, s3)


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

    Z, T, H have rows of ``columns`` numbers, padding included; of H the first ``rows`` rows are written.
    """
    clear(T, 0, size * columns)
    multiply_add(K, 0, size, 1, Z, 0, columns, T, 0, columns, size, size, columns, False)
    multiply_add(Z, 0, 1, columns, T, 0, columns, H, 0, columns, rows, size, columns, True)
