"""Making kernels: look in the cache, else generate, compile and store, else interpret."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

import casadi as ca

from dynamics.kernels import cache, interpreter, llvm
from dynamics.kernels.compiler import (
    MAX_OPTIMISED_STATEMENTS,
    NATIVE,
    Compiler,
    CompilerTimeout,
    KernelError,
    automatic_flags,
    compile_source,
    current_compiler,
    densified,
    effective_flags,
    generate_source,
    searched,
)
from dynamics.kernels.kernel import Kernel

Mode = Literal["auto", "compiled", "interpreted", "jit", "quick", "tuned"]


def compile_kernel(
    function: ca.Function,
    mode: Mode = "auto",
    flags: Sequence[str] | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    max_optimised_statements: int = MAX_OPTIMISED_STATEMENTS,
) -> Kernel:
    """Make a kernel of a CasADi function.

    mode "compiled": by the cache or the C compiler, else KernelError. "interpreted": by CasADi's interpreter. "auto": compiled
    if possible, else interpreted, with the reason in `Kernel.notes`. "jit": machine code by LLVM (`dynamics.kernels.llvm`), for
    functions that are SX or can be expanded, else interpreted, with the reason in the notes; needs no compiler, flags or limit.
    "quick": the same, but "auto" for those that LLVM cannot make. "tuned": "quick" with more care, for functions that are evaluated
    thousands of times.
    flags: compiler flags; -ffp-contract=off is always set first. None: -O1, for large functions with -march=native unless the
    compiler refuses it (noted). cache_dir: see `cache_directory`. Functions with more C statements than max_optimised_statements
    are compiled with -O0 (noted).
    Raises KernelError if the function has free variables, cannot be serialised, or (mode "compiled") cannot be compiled.
    """
    return compile_many([function], 1, mode, flags, cache_dir, max_optimised_statements)[0]


def compile_many(
    functions: Sequence[ca.Function],
    workers: int = 2,
    mode: Mode = "auto",
    flags: Sequence[str] | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    max_optimised_statements: int = MAX_OPTIMISED_STATEMENTS,
    seconds_left: Callable[[], float] | None = None,
) -> tuple[Kernel, ...]:
    """`compile_kernel` for several functions, with up to `workers` compiler processes at a time.

    seconds_left: asked before each function; when these are over, the compiler is killed, and functions whose machine code is not
    there yet are interpreted, with the reason in the notes, also with mode "compiled".
    """
    if mode not in get_args(Mode):
        raise KernelError(f"mode must be one of {', '.join(map(repr, get_args(Mode)))}, got {mode!r}")
    if isinstance(flags, str):
        raise KernelError(f"flags must be a sequence of flags such as ('-O1',), got the string {flags!r}")
    if workers < 1:
        raise KernelError(f"workers must be at least 1, got {workers}")
    dense = [densified(function) for function in functions]
    if mode == "interpreted":
        return tuple(_interpreted(function, ()) for function in dense)
    if mode == "jit":
        codes = llvm.machine_code(dense, cache_dir)
        return tuple(_machine(function, code) for function, code in zip(dense, codes, strict=True))
    if mode in ("quick", "tuned"):
        codes = llvm.machine_code(dense, cache_dir, mode == "tuned")
        return tuple(_machine(function, code) if isinstance(code, llvm.Code) else compile_kernel(function, "auto", flags, cache_dir)
                     for function, code in zip(dense, codes, strict=True))
    compiler, directories = current_compiler(), cache.lookup_directories(cache_dir)
    used = [automatic_flags(function) if flags is None else tuple(flags) for function in dense]
    keys = [_key(function, own, max_optimised_statements) for function, own in zip(dense, used, strict=True)]
    entries = {key: cache.find_entry(directories, key, compiler) for key in keys}
    hits = {key for key, entry in entries.items() if entry is not None}
    # CasADi objects are not thread-safe: sources are generated here, and threads see text and files only.
    outcomes: dict[str, cache.Entry | KernelError] = {key: entry for key, entry in entries.items() if entry is not None}
    jobs: dict[str, tuple[str, str, tuple[str, ...]]] = {}
    for function, key, own in zip(dense, keys, used, strict=True):
        if key in outcomes or key in jobs:
            continue
        try:
            if _no_time_left(seconds_left):
                raise CompilerTimeout(f"no time was left to compile function {function.name()!r}")
            if compiler is None:
                raise KernelError(f"no C compiler for function {function.name()!r}: looked for {searched()}")
            jobs[key] = (function.name(), generate_source(function, cache.entry_symbol(key)), own)
        except KernelError as error:
            outcomes[key] = error

    def build(key: str) -> cache.Entry | KernelError:
        assert compiler is not None
        try:
            return _built(key, *jobs[key], flags is None, compiler, max_optimised_statements, directories[-1], seconds_left)
        except KernelError as error:
            return error

    with ThreadPoolExecutor(workers) as pool:
        outcomes.update(zip(jobs, pool.map(build, jobs), strict=True))
    return tuple(_finished(f, outcomes[k], k in hits, mode) for f, k in zip(dense, keys, strict=True))


def _no_time_left(seconds_left: Callable[[], float] | None) -> bool:
    return seconds_left is not None and seconds_left() <= 0


def is_cached(
    function: ca.Function, flags: Sequence[str] | None = None, cache_dir: str | os.PathLike[str] | None = None,
    max_optimised_statements: int = MAX_OPTIMISED_STATEMENTS,
) -> bool:
    """Whether `compile_kernel` with the same arguments would find the compiled function in the cache."""
    dense = densified(function)
    key = _key(dense, automatic_flags(dense) if flags is None else flags, max_optimised_statements)
    return cache.find_entry(cache.lookup_directories(cache_dir), key, current_compiler()) is not None


def _key(function: ca.Function, flags: Sequence[str], limit: int) -> str:
    try:
        return cache.entry_key(function, flags, limit)
    except RuntimeError as error:
        raise KernelError(f"CasADi cannot serialise function {function.name()!r}: {error}") from error


def _built(
    key: str, name: str, source: str, flags: tuple[str, ...], automatic: bool, compiler: Compiler, limit: int, directory: Path,
    seconds_left: Callable[[], float] | None = None,
) -> cache.Entry:
    used, notes = effective_flags(source, flags, limit)
    try:
        with cache.build_folder(directory) as folder:
            try:
                library, seconds = compile_source(source, name, used, compiler, Path(folder), _timeout(seconds_left))
            except KernelError as error:
                if isinstance(error, CompilerTimeout) or not (automatic and NATIVE in used):
                    raise
                used, notes = tuple(flag for flag in used if flag != NATIVE), (*notes, f"the compiler rejects {NATIVE}")
                library, seconds = compile_source(source, name, used, compiler, Path(folder), _timeout(seconds_left))
            return cache.store_entry(library, directory, key, compiler, used, seconds, notes)
    except OSError as error:
        raise KernelError(f"cannot write the kernel of function {name!r} to the cache {directory}: {error}") from error


def _timeout(seconds_left: Callable[[], float] | None) -> float | None:
    """For one run of the compiler; None without a limit."""
    left = float("inf") if seconds_left is None else seconds_left()
    return max(left, 0.0) if left < float("inf") else None


def _finished(function: ca.Function, outcome: cache.Entry | KernelError, hit: bool, mode: Mode) -> Kernel:
    try:
        if isinstance(outcome, KernelError):
            raise outcome
        return _loaded(function, outcome, hit)
    except KernelError as error:
        if mode == "compiled" and not isinstance(error, CompilerTimeout):
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


def _machine(function: ca.Function, code: llvm.Code | KernelError) -> Kernel:
    if isinstance(code, KernelError):
        return _interpreted(function, (f"interpreted: {code}",))

    def check_out() -> int:
        return -1  # no memory is needed

    def give_back(handle: int, keep: object = code) -> None:
        pass  # referring to the code keeps it in memory as long as a kernel or a workspace exists

    work = (function.n_in(), function.n_out(), 0, code.work)
    kernel = _kernel(function, "jit", code.address, work, check_out, give_back, None, code.cache_hit, ())
    return replace(kernel, compile_seconds=code.seconds)


def _kernel(
    function: ca.Function,
    mode: Literal["compiled", "interpreted", "jit"],
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
