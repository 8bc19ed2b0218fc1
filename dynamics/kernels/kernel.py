"""Kernels: compiled (or interpreted) functions that are called by address.

Inputs and outputs are dense and column-major. A kernel is identified to callers by two integers. `address` is that of a C
function; `handle` says how to call it:

    handle < 0    compiled, jit: address(arg, res, iw, w, ~handle)
    handle >= 0   interpreted:   address(handle >> 32, arg, res, iw, w, handle & 0xffffffff)

The last argument is a memory that serves one evaluation at a time; `workspace` checks out one per workspace, hence one
workspace per thread. `Kernel.handle` carries memory of its own, which the caller must not use from two threads.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamics.kernels.cache import entry_symbol
from dynamics.kernels.compiler import KernelError

_FLOAT64 = np.dtype(np.float64)
_KernelCall = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4, ctypes.c_int)
_InterpreterCall = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, *[ctypes.c_void_p] * 4, ctypes.c_int)


@dataclass(frozen=True, eq=False)
class Workspace:
    """Preallocated arguments of `dynamics.kernels.calls.call`, for one thread.

    arg, res: intp arrays (at least sz_arg, sz_res long) to be filled with addresses of inputs and outputs. iw: int64, w:
    float64. Keep the workspace alive as long as its handle is in use.
    """

    address: int
    handle: int
    arg: NDArray[np.intp]
    res: NDArray[np.intp]
    iw: NDArray[np.int64]
    w: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Kernel:
    """A function callable by address; made by `compile_kernel` and `compile_many`.

    mode: by a C compiler, by CasADi's interpreter, or "jit", machine code by LLVM. input_shapes, output_shapes: (rows, columns).
    n_instructions: CasADi's count (0 for kinds that it does not count). sz_arg, sz_res, sz_iw, sz_w: lengths of the work arrays.
    compile_seconds: what the compiler took when the library was built, now or when it entered the cache; of machine code its part
    of the request. cache_hit: the library, or the machine code, came from the cache. library: its file, None unless compiled.
    notes: why the kernel is interpreted or compiled with other flags than asked for. function: the densified CasADi function.
    """

    name: str
    mode: Literal["compiled", "interpreted", "jit"]
    input_shapes: tuple[tuple[int, int], ...]
    output_shapes: tuple[tuple[int, int], ...]
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    n_instructions: int
    address: int
    handle: int
    sz_arg: int
    sz_res: int
    sz_iw: int
    sz_w: int
    compile_seconds: float
    cache_hit: bool
    library: Path | None
    notes: tuple[str, ...]
    function: ca.Function = field(repr=False)
    _checkout: Callable[[], int] = field(repr=False)
    _release: Callable[[int], None] = field(repr=False)
    _local: threading.local = field(repr=False, default_factory=threading.local)

    def __call__(self, *arrays: ArrayLike) -> Any:
        """Evaluate; returns one array, or a tuple if the function has not exactly one output.

        An n x 1 output is a vector (n,), a 1 x 1 output a float, any other a matrix. Inputs are real arrays of the input's
        shape; (n,) will do for n x 1, a number for 1 x 1. NaN passes through. Safe from several threads.
        Raises KernelError for a wrong number of arguments, a wrong shape or a type that is not exactly representable in
        float64.
        """
        try:
            buffers = self._local.buffers
        except AttributeError:
            buffers = self._local.buffers = _Buffers(self)
        views = buffers.inputs
        if len(arrays) != len(views):
            raise KernelError(
                f"kernel {self.name!r} takes {len(views)} arguments ({', '.join(self.input_names)}), got {len(arrays)}"
            )
        for index, array in enumerate(arrays):
            view = views[index]
            if type(array) is np.ndarray and array.dtype is _FLOAT64 and array.shape == view.shape:
                view[...] = array
            else:
                view[...] = _checked(self, index, array).reshape(view.shape)
        status = buffers.evaluate()
        if status != 0:
            raise KernelError(f"evaluation of kernel {self.name!r} failed with status {status}")
        if len(buffers.outputs) == 1:
            return buffers.outputs[0]()
        return tuple([output() for output in buffers.outputs])

    def as_casadi(self) -> ca.Function:
        """A CasADi function that evaluates this kernel, for use in MX graphs (also under `map`).

        Interpreted, and machine code ("jit"), which graphs cannot call: the function itself. Compiled: an external function
        without derivatives; kernels of the derivatives have to be made and attached by whoever needs them.
        """
        if self.library is None:
            return self.function
        return ca.external(entry_symbol(self.library.name[:40]), str(self.library))


class _Buffers:
    """Fixed memory of one kernel in one thread, with the pointers to it set once (taking addresses costs more than copying)."""

    def __init__(self, kernel: Kernel) -> None:
        work = workspace(kernel)
        # Matrices are viewed column-major, so that assignment converts from any layout.
        self.inputs = [_column_major(shape) for shape in kernel.input_shapes]
        results = [_column_major(shape) for shape in kernel.output_shapes]
        self.outputs = [_reader(result, shape) for result, shape in zip(results, kernel.output_shapes, strict=True)]
        work.arg[: len(self.inputs)] = [view.ctypes.data for view in self.inputs]
        work.res[: len(results)] = [view.ctypes.data for view in results]
        pointers = tuple(ctypes.c_void_p(array.ctypes.data) for array in (work.arg, work.res, work.iw, work.w))
        self.work = work
        if work.handle < 0:
            compiled, memory = _KernelCall(work.address), ctypes.c_int(~work.handle)
            self.evaluate = lambda: compiled(*pointers, memory)
        else:
            evaluate, number = _InterpreterCall(work.address), ctypes.c_int(work.handle >> 32)
            memory = ctypes.c_int(work.handle & 0xFFFFFFFF)
            self.evaluate = lambda: evaluate(number, *pointers, memory)


def _column_major(shape: tuple[int, int]) -> NDArray[np.float64]:
    return np.zeros(shape[0]) if shape[1] == 1 else np.zeros(shape, order="F")


def _reader(result: NDArray[np.float64], shape: tuple[int, int]) -> Callable[[], Any]:
    if shape == (1, 1):
        return result.item
    if result.ndim == 1:
        return result.copy
    return lambda: result.copy("F")


def _checked(kernel: Kernel, index: int, value: ArrayLike) -> NDArray[np.float64]:
    """`value` as a float64 array of the right number of rows and columns, or a KernelError that names the input."""
    rows, columns = kernel.input_shapes[index]
    where = f"kernel {kernel.name!r}, input {index} ({kernel.input_names[index]!r})"
    try:
        array = np.asarray(value)
    except ValueError as error:  # ragged sequences
        raise KernelError(f"{where}: expected an array of shape {(rows, columns)}: {error}") from error
    allowed: list[tuple[int, ...]] = [(rows, columns)]
    if columns == 1:
        allowed.insert(0, (rows,))
    if (rows, columns) == (1, 1):
        allowed.insert(0, ())
    if rows * columns == 0 and (0,) not in allowed:
        allowed.append((0,))
    if array.shape not in allowed:
        raise KernelError(f"{where}: expected shape {' or '.join(map(str, allowed))}, got {array.shape}")
    # Integers are welcome: 64-bit ones above 2^53 are the only ones that round, as everywhere in NumPy.
    if array.dtype.kind not in "fiub" or not np.can_cast(array.dtype, _FLOAT64, "safe"):
        raise KernelError(f"{where}: expected real numbers (float64), got dtype {array.dtype}")
    return array.astype(_FLOAT64, copy=False)


def workspace(kernel: Kernel) -> Workspace:
    """Fresh work arrays for one thread, with memory of their own, given back when the workspace is collected."""
    handle = kernel._checkout()
    result = Workspace(
        kernel.address,
        handle,
        # One element more than needed: an array of length zero need not have an address.
        np.zeros(kernel.sz_arg + 1, dtype=np.intp),
        np.zeros(kernel.sz_res + 1, dtype=np.intp),
        np.zeros(kernel.sz_iw + 1, dtype=np.int64),
        np.zeros(kernel.sz_w + 1, dtype=np.float64),
    )
    weakref.finalize(result, kernel._release, handle)
    return result
