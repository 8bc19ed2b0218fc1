"""Kernels: compiled (or interpreted) functions that are called by address.

Inputs and outputs are dense and column-major. A kernel is identified to callers by two integers. `address` is that of a C
function; `handle` says how to call it:

    handle < 0    compiled:     address(arg, res, iw, w, ~handle)
    handle >= 0   interpreted:  address(handle >> 32, arg, res, iw, w, handle & 0xffffffff)

The last argument is a memory that serves one evaluation at a time; `workspace` checks out one per workspace, hence one
workspace per thread. `Kernel.handle` carries memory of its own, which the caller must not use from two threads.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamics.kernels import cache, interpreter
from dynamics.kernels.compiler import (
    DEFAULT_FLAGS,
    MAX_OPTIMISED_STATEMENTS,
    Compiler,
    KernelError,
    compile_source,
    current_compiler,
    densified,
    effective_flags,
    generate_source,
    searched,
)

Mode = Literal["auto", "compiled", "interpreted"]
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
    """A function callable by address; made by `compile_kernel`.

    input_shapes, output_shapes: (rows, columns). n_instructions: CasADi's count (0 for kinds that it does not count).
    sz_arg, sz_res, sz_iw, sz_w: lengths of the work arrays. compile_seconds: what the compiler took when the library was built,
    now or when it entered the cache. cache_hit: the library came from the cache. library: its file, None if interpreted. notes:
    why the kernel is interpreted or compiled with other flags than asked for. function: the densified CasADi function.
    """

    name: str
    mode: Literal["compiled", "interpreted"]
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

        Interpreted: the function itself. Compiled: an external function without derivatives; kernels of the derivatives have to
        be made and attached by whoever needs them.
        """
        if self.library is None:
            return self.function
        return ca.external(cache.entry_symbol(self.library.name[:40]), str(self.library))


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


def compile_kernel(
    function: ca.Function,
    mode: Mode = "auto",
    flags: Sequence[str] = DEFAULT_FLAGS,
    cache_dir: str | os.PathLike[str] | None = None,
    max_optimised_statements: int = MAX_OPTIMISED_STATEMENTS,
) -> Kernel:
    """Make a kernel of a CasADi function.

    mode "compiled": by the cache or the C compiler, else KernelError. "interpreted": by CasADi's interpreter. "auto": compiled
    if possible, else interpreted, with the reason in `Kernel.notes`. flags: compiler flags; -ffp-contract=off is always set
    first.
    cache_dir: see `cache_directory`. Functions with more C statements than max_optimised_statements are compiled with -O0
    (noted).
    Raises KernelError if the function has free variables, cannot be serialised, or (mode "compiled") cannot be compiled.
    """
    return compile_many([function], 1, mode, flags, cache_dir, max_optimised_statements)[0]


def compile_many(
    functions: Sequence[ca.Function],
    workers: int = 2,
    mode: Mode = "auto",
    flags: Sequence[str] = DEFAULT_FLAGS,
    cache_dir: str | os.PathLike[str] | None = None,
    max_optimised_statements: int = MAX_OPTIMISED_STATEMENTS,
) -> tuple[Kernel, ...]:
    """`compile_kernel` for several functions, with up to `workers` compiler processes at a time."""
    if mode not in ("auto", "compiled", "interpreted"):
        raise KernelError(f"mode must be 'auto', 'compiled' or 'interpreted', got {mode!r}")
    if isinstance(flags, str):
        raise KernelError(f"flags must be a sequence of flags such as ('-O1',), got the string {flags!r}")
    if workers < 1:
        raise KernelError(f"workers must be at least 1, got {workers}")
    dense = [densified(function) for function in functions]
    if mode == "interpreted":
        return tuple(_interpreted(function, ()) for function in dense)
    compiler, directories = current_compiler(), cache.lookup_directories(cache_dir)
    keys = [_key(function, flags, max_optimised_statements) for function in dense]
    entries = {key: cache.find_entry(directories, key, compiler) for key in keys}
    hits = {key for key, entry in entries.items() if entry is not None}
    # CasADi objects are not thread-safe: sources are generated here, and threads see text and files only.
    outcomes: dict[str, cache.Entry | KernelError] = {key: entry for key, entry in entries.items() if entry is not None}
    jobs: dict[str, tuple[str, str]] = {}
    for function, key in zip(dense, keys, strict=True):
        if key in outcomes or key in jobs:
            continue
        try:
            if compiler is None:
                raise KernelError(f"no C compiler for function {function.name()!r}: looked for {searched()}")
            jobs[key] = (function.name(), generate_source(function, cache.entry_symbol(key)))
        except KernelError as error:
            outcomes[key] = error

    def build(key: str) -> cache.Entry | KernelError:
        assert compiler is not None
        try:
            return _built(key, *jobs[key], compiler, flags, max_optimised_statements, directories[-1])
        except KernelError as error:
            return error

    with ThreadPoolExecutor(workers) as pool:
        outcomes.update(zip(jobs, pool.map(build, jobs), strict=True))
    return tuple(_finished(f, outcomes[k], k in hits, mode) for f, k in zip(dense, keys, strict=True))


def _key(function: ca.Function, flags: Sequence[str], limit: int) -> str:
    try:
        return cache.entry_key(function, flags, limit)
    except RuntimeError as error:
        raise KernelError(f"CasADi cannot serialise function {function.name()!r}: {error}") from error


def _built(
    key: str, name: str, source: str, compiler: Compiler, flags: Sequence[str], limit: int, directory: Path
) -> cache.Entry:
    used, notes = effective_flags(source, flags, limit)
    try:
        with cache.build_folder(directory) as folder:
            library, seconds = compile_source(source, name, used, compiler, Path(folder))
            return cache.store_entry(library, directory, key, compiler, used, seconds, notes)
    except OSError as error:
        raise KernelError(f"cannot write the kernel of function {name!r} to the cache {directory}: {error}") from error


def _finished(function: ca.Function, outcome: cache.Entry | KernelError, hit: bool, mode: Mode) -> Kernel:
    try:
        if isinstance(outcome, KernelError):
            raise outcome
        return _loaded(function, outcome, hit)
    except KernelError as error:
        if mode == "compiled":
            raise
        return _interpreted(function, (f"interpreted: {error}",))


def _loaded(function: ca.Function, entry: cache.Entry, hit: bool) -> Kernel:
    symbol = cache.entry_symbol(entry.key)
    try:
        library = ctypes.CDLL(str(entry.library))
        address = ctypes.cast(library[symbol], ctypes.c_void_p).value or 0
        checkout, release = library[f"{symbol}_checkout"], library[f"{symbol}_release"]
        library[f"{symbol}_incref"]()
        sizes = [ctypes.c_longlong() for _ in range(4)]
        library[f"{symbol}_work"](*(ctypes.byref(size) for size in sizes))
    except (OSError, AttributeError) as error:  # for instance a cache on a file system mounted without execution
        raise KernelError(f"cannot load the kernel of function {function.name()!r} from {entry.library}: {error}") from error

    def check_out() -> int:
        return ~int(checkout())

    def give_back(handle: int) -> None:
        release(~handle)

    work = (sizes[0].value, sizes[1].value, sizes[2].value, sizes[3].value)
    return _kernel(function, "compiled", address, work, check_out, give_back, entry, hit, entry.notes)


def _interpreted(function: ca.Function, notes: tuple[str, ...]) -> Kernel:
    number = interpreter.function_id(function)

    def check_out() -> int:
        return (number << 32) | interpreter.checkout(number)

    def give_back(handle: int) -> None:
        interpreter.release(number, handle & 0xFFFFFFFF)

    address, work = interpreter.evaluation_address(), interpreter.work_sizes(number)
    return _kernel(function, "interpreted", address, work, check_out, give_back, None, False, notes)


def _kernel(
    function: ca.Function,
    mode: Literal["compiled", "interpreted"],
    address: int,
    work: tuple[int, int, int, int],
    check_out: Callable[[], int],
    give_back: Callable[[int], None],
    entry: cache.Entry | None,
    hit: bool,
    notes: tuple[str, ...],
) -> Kernel:
    counted = function.is_a("SXFunction") or function.is_a("MXFunction")
    return Kernel(
        name=function.name(),
        mode=mode,
        input_shapes=tuple(tuple(function.size_in(i)) for i in range(function.n_in())),
        output_shapes=tuple(tuple(function.size_out(i)) for i in range(function.n_out())),
        input_names=tuple(function.name_in()),
        output_names=tuple(function.name_out()),
        n_instructions=function.n_instructions() if counted else 0,
        address=address,
        handle=check_out(),
        sz_arg=work[0],
        sz_res=work[1],
        sz_iw=work[2],
        sz_w=work[3],
        compile_seconds=0.0 if entry is None else entry.compile_seconds,
        cache_hit=hit,
        library=None if entry is None else entry.library,
        notes=notes,
        function=function,
        _checkout=check_out,
        _release=give_back,
    )
