"""A kernel of machine code at many points, without Python between them."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamics.kernels import llvm
from dynamics.kernels.compiler import KernelError
from dynamics.kernels.kernel import Kernel

Array = NDArray[np.float64]

_SYMBOL = "lieocp_mapped"
#: n times: call f, then move every pointer on by its step; gives the first status that is not 0
_CODE = f"""
define i32 @{_SYMBOL}(ptr %f, i64 %n, ptr %arg, i64 %inputs, i64 %pointers, ptr %steps, ptr %w) nounwind {{
begin:
  %res = getelementptr i64, ptr %arg, i64 %inputs
  br label %point
point:
  %k = phi i64 [ 0, %begin ], [ %k1, %moved ]
  %more = icmp slt i64 %k, %n
  br i1 %more, label %evaluate, label %done
evaluate:
  %status = call i32 %f(ptr %arg, ptr %res, ptr null, ptr %w, i32 0)
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %failed, label %pointer
pointer:
  %i = phi i64 [ 0, %evaluate ], [ %i1, %move ]
  %left = icmp slt i64 %i, %pointers
  br i1 %left, label %move, label %moved
move:
  %at = getelementptr i64, ptr %arg, i64 %i
  %by = getelementptr i64, ptr %steps, i64 %i
  %here = load i64, ptr %at
  %step = load i64, ptr %by
  %next = add i64 %here, %step
  store i64 %next, ptr %at
  %i1 = add i64 %i, 1
  br label %pointer
moved:
  %k1 = add i64 %k, 1
  br label %point
failed:
  ret i32 %status
done:
  ret i32 0
}}
"""


@lru_cache(maxsize=1)
def _function() -> tuple[Any, Any]:
    """(the function above, what keeps it in memory)."""
    addresses, keep = llvm.assembled(_CODE, [_SYMBOL])
    long, pointer = ctypes.c_int64, ctypes.c_void_p
    return ctypes.CFUNCTYPE(ctypes.c_int, pointer, long, pointer, long, long, pointer, pointer)(addresses[_SYMBOL]), keep


def mapped(kernel: Kernel, *columns: Array) -> list[Array]:
    """The outputs [rows * columns, n] at n points, of inputs [rows * columns, n], or [.., 1] where one serves all points.

    Raises KernelError for kernels that are no machine code ("jit"), and for wrong shapes.
    """
    if kernel.mode != "jit":
        raise KernelError(f"kernel {kernel.name!r} is {kernel.mode}, expected machine code")
    sizes = [rows * width for rows, width in kernel.input_shapes]
    n = max((c.shape[1] for c in columns), default=1)
    if len(columns) != len(sizes) or any(c.shape not in ((size, n), (size, 1)) for size, c in zip(sizes, columns, strict=True)):
        raise KernelError(f"kernel {kernel.name!r} takes inputs of {sizes} entries at n points or one, got shapes "
                          f"{[c.shape for c in columns]}")
    given = [np.asfortranarray(c, dtype=float) for c in columns]
    found = [np.zeros((rows * width, n), order="F") for rows, width in kernel.output_shapes]
    pointers = np.array([a.ctypes.data for a in (*given, *found)], dtype=np.int64)
    steps = np.array([a.itemsize * a.shape[0] * (a.shape[1] == n) for a in (*given, *found)], dtype=np.int64)
    work = np.zeros(kernel.sz_w + 1)
    status = _function()[0](kernel.address, n, pointers.ctypes.data, len(given), len(pointers), steps.ctypes.data, work.ctypes.data)
    if status != 0:
        raise KernelError(f"evaluation of kernel {kernel.name!r} failed with status {status}")
    return found
