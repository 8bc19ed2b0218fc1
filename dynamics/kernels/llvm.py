"""Machine code of scalar functions without a C compiler, by LLVM, which comes with Numba; it rounds as CasADi's interpreter does.

LLVM runs without optimisation: values are in registers already. Its better instruction selection and register allocator cost ten
times the time or more; who evaluates a function thousands of times asks for them (``tuned``). Code models larger than the small one
would keep it from its fast instruction selection.

Measured on dynamics of a six-axis arm and a quadruped and their Jacobians, 600 to 93 000 operations, on one core of an x86-64 of
2021; seconds, to make a kernel and to evaluate one operation (the first request of a process waits 0.02 s more for LLVM):

    =============  ====================================  ===================
    kernel         to make: operation, function          to evaluate
    =============  ====================================  ===================
    interpreted    2.1e-6, 4e-4                          1.7e-9 ... 3.3e-9
    LLVM           8e-6, 1e-4 (and 1e-3 a request)       0.25e-9 ... 0.5e-9
    LLVM, cached   0.9e-6, 1e-4 (and 1e-3 a request)     0.25e-9 ... 0.5e-9
    LLVM, tuned    4e-5 ... 7e-5, 1e-2                   0.19e-9 ... 0.45e-9
    gcc -O1        8e-5 ... 5e-4, 5e-2                   0.23e-9 ... 0.47e-9
    =============  ====================================  ===================
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import casadi as ca

from dynamics.kernels import cache, library, text
from dynamics.kernels.compiler import KernelError, cpu_identity, densified
from dynamics.kernels.size import operations

#: Larger functions are not expanded into scalar operations.
MAX_OPERATIONS = 1_000_000
#: Modules of fewer operations are not worth a file.
WORTH_STORING = 500
#: Larger functions are not tuned: the time grows faster than the size.
MAX_TUNED = 40_000

# Reentrant: while code is being made the garbage collector may finalise other code.
_lock = threading.RLock()
_names = iter(range(1 << 62))


@dataclass(frozen=True, eq=False)
class Code:
    """Machine code of one function: its address, the length of ``w`` that it needs, seconds that it took, whether from the cache,
    and what keeps the code in memory as long as it is referred to."""

    address: int
    work: int
    seconds: float
    cache_hit: bool
    keep: Any


# Code that some kernel or workspace refers to, by the hash of the serialised function: solvers ask for the same functions again.
_alive: weakref.WeakValueDictionary[str, Code] = weakref.WeakValueDictionary()


def machine_code(
    functions: Sequence[ca.Function], cache_dir: str | os.PathLike[str] | None = None, tuned: bool = False,
) -> list[Code | KernelError]:
    """Machine code of dense functions (see `densified`): SX functions, and others that CasADi expands into SX; KernelError for the
    rest. What is not there yet is made as one module: LLVM's fixed costs are paid once. tuned: see the module, except for large
    functions."""
    if tuned:
        return [one for function in functions for one in _codes([function], cache_dir, operations(function) <= MAX_TUNED)]
    return _codes(functions, cache_dir, False)


def _codes(functions: Sequence[ca.Function], cache_dir: str | os.PathLike[str] | None, tuned: bool) -> list[Code | KernelError]:
    found: dict[str, Code] = {}
    new: dict[str, ca.Function] = {}
    asked: list[str | KernelError] = []
    for function in functions:
        try:
            scalar, content = _scalar(function)
            if not tuned:
                _checked(scalar)
        except KernelError as error:
            asked.append(error)
            continue
        content += "tuned" if tuned else ""
        asked.append(content)
        alive = _alive.get(content)
        if alive is not None:
            found[content] = alive
        else:
            new[content] = scalar
    if new:
        try:
            found |= _made(new, cache_dir, tuned)
        except (RuntimeError, ImportError, OSError) as error:  # no llvmlite, or not for this processor
            failed = KernelError(f"no machine code here: {error}")
            return [given if isinstance(given, KernelError) else found.get(given, failed) for given in asked]
    return [given if isinstance(given, KernelError) else found[given] for given in asked]


def _scalar(function: ca.Function) -> tuple[ca.Function, str]:
    """(A dense SX function, the hash of its serialised form). Raises KernelError where there is none that can be written."""
    name, size = function.name(), operations(function)
    if not function.is_a("SXFunction") and size > MAX_OPERATIONS:
        raise KernelError(f"function {name!r} has {size} operations: no machine code above {MAX_OPERATIONS}")
    try:
        if not function.is_a("SXFunction"):
            function = densified(function.expand())
        content = hashlib.sha256(function.serialize().encode()).hexdigest()
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1]
        raise KernelError(f"function {name!r} cannot be expanded into scalar operations: {reason}") from error
    return function, content


def _checked(function: ca.Function) -> None:
    """Raises KernelError for a function with operations that cannot be written."""
    unknown = sorted(set(map(function.instruction_id, range(function.n_instructions()))) - text.KNOWN)
    if unknown:
        words = ", ".join(map(_operation, unknown))
        raise KernelError(f"function {function.name()!r} has operations without machine code: {words}")


def _operation(code: int) -> str:
    return next((name for name in vars(ca) if name.startswith("OP_") and getattr(ca, name) == code), str(code))


def _made(functions: Mapping[str, ca.Function], cache_dir: str | os.PathLike[str] | None, tuned: bool) -> dict[str, Code]:
    """Code of SX functions by content, from the cache or new."""
    start = time.perf_counter()
    parts = [list(functions), _source(), ca.CasadiMeta.version(), _identity()]
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:40]
    symbols = {f"lieocp_{key[:16]}_{i}": function for i, function in enumerate(functions.values())}
    stored = sum(function.n_instructions() for function in functions.values()) >= WORTH_STORING
    directories = cache.lookup_directories(cache_dir) if stored else ()
    binary = cache.find_object(directories, key)
    hit = binary is not None
    if binary is None:
        for function in functions.values() if tuned else ():  # one that is in the cache needs no look at all its operations
            _checked(function)
        binary = compiled(symbols, tuned)
        if stored:
            cache.store_object(directories[-1], key, binary)
    addresses, keep = _linked(binary, list(symbols))
    seconds = (time.perf_counter() - start) / len(functions)
    codes = {content: Code(addresses[symbol], text.longest_output(function), seconds, hit, keep)
             for content, (symbol, function) in zip(functions, symbols.items(), strict=True)}
    _alive.update(codes)
    return codes


def compiled(functions: Mapping[str, ca.Function], tuned: bool = False) -> bytes:
    """An object file with dense SX functions, by symbol."""
    opaque = _llvm().llvm_version_info[0] >= 17
    parts = [text.declarations(opaque), *(text.written(function, symbol, opaque) for symbol, function in functions.items())]
    with _lock:
        return bytes(_generator(tuned).emit_object(_llvm().parse_assembly("\n".join(parts))))


def _linked(binary: bytes, symbols: Sequence[str]) -> tuple[dict[str, int], Any]:
    """Addresses of the symbols of an object file, and what keeps the code in memory as long as it is referred to."""
    builder = _llvm().JITLibraryBuilder().add_object_img(binary)
    for name, address in zip(library.NAMES, library.addresses().tolist(), strict=True):
        builder.import_symbol(name, address)
    for symbol in symbols:
        builder.export_symbol(symbol)
    with _lock:
        tracker = builder.link(_linker(), f"lieocp{next(_names)}")
    return {symbol: int(tracker[symbol]) for symbol in symbols}, tracker


@lru_cache(maxsize=1)
def _llvm() -> Any:
    # Imported on first use: others need not wait for it.
    import llvmlite.binding as llvm  # type: ignore[import-untyped]

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


@lru_cache(maxsize=1)
def _identity() -> tuple[str, ...]:
    """What object files depend on, apart from the functions."""
    import llvmlite

    return str(llvmlite.__version__), str(_llvm().get_process_triple()), cpu_identity()


@lru_cache(maxsize=1)
def _source() -> str:
    return hashlib.sha256(b"".join(Path(file).read_bytes() for file in (__file__, text.__file__, library.__file__))).hexdigest()


def _target_machine(tuned: bool) -> Any:
    llvm = _llvm()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    # constants in memory, which only tuned code has, may be far away
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=1 if tuned else 0, codemodel="small",
        reloc="pic" if tuned else "default", jit=True)


@lru_cache(maxsize=2)
def _generator(tuned: bool) -> Any:
    return _target_machine(tuned)


@lru_cache(maxsize=1)
def _linker() -> Any:
    linker = _llvm().create_lljit_compiler(_target_machine(False))
    # Left to the end of the process: code that is given back later, while Python comes down, must find it there.
    atexit.register(linker.detach)
    return linker
