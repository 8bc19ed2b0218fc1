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
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import casadi as ca

from dynamics.kernels import cache, compiler, library, text
from dynamics.kernels.compiler import KernelError, cpu_identity, densified
from dynamics.kernels.size import operations

#: Larger functions are not expanded into scalar operations.
MAX_OPERATIONS = 1_000_000
#: Modules of fewer operations are not worth a file.
WORTH_STORING = 500
#: Larger functions are not tuned: the time grows faster than the size.
MAX_TUNED = 15_000

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


@dataclass(frozen=True)
class _Asked:
    """A dense function and the hash of how CasADi writes it."""

    function: ca.Function
    content: str

    @cached_property
    def size(self) -> int:
        return operations(self.function)

    @cached_property
    def scalar(self) -> ca.Function | KernelError:
        """The function in scalar operations, which nobody asks for where the code is there already: to expand a graph of matrices
        takes as long as to write it down. KernelError where it cannot be had."""
        name, function = self.function.name(), self.function
        if not function.is_a("SXFunction"):
            if self.size > MAX_OPERATIONS:
                return KernelError(f"function {name!r} has {self.size} operations: no machine code above {MAX_OPERATIONS}")
            try:
                function = densified(function.expand())
            except RuntimeError as error:
                return _no_scalars(name, error)
        unknown = sorted(set(map(function.instruction_id, range(function.n_instructions()))) - text.KNOWN)
        if unknown:
            words = ", ".join(map(_operation, unknown))
            return KernelError(f"function {name!r} has operations without machine code: {words}")
        return function


# Code that some kernel or workspace refers to, by the hash of the serialised function: solvers ask for the same functions again.
_alive: weakref.WeakValueDictionary[str, Code] = weakref.WeakValueDictionary()
# Hashes of functions that still exist: writing them down to ask again takes as long as loading their code.
_contents: weakref.WeakKeyDictionary[ca.Function, str] = weakref.WeakKeyDictionary()


def machine_code(
    functions: Sequence[ca.Function], cache_dir: str | os.PathLike[str] | None = None, tuned: bool = False,
) -> list[Code | KernelError]:
    """Machine code of dense functions (see `densified`): SX functions, and others that CasADi expands into SX; KernelError for the
    rest. What is not there yet is made as one module: LLVM's fixed costs are paid once. tuned: see the module, except for large
    functions."""
    asked = [_asked(function) for function in functions]
    if not tuned:
        return _codes(asked, cache_dir, False)
    return [code for one in asked for code in _codes(
        [one], cache_dir, isinstance(one, _Asked) and one.size <= MAX_TUNED)]


def _codes(
    functions: Sequence[_Asked | KernelError], cache_dir: str | os.PathLike[str] | None, tuned: bool,
) -> list[Code | KernelError]:
    found: dict[str, Code | KernelError] = {}
    new: dict[str, _Asked] = {}
    for one in functions:
        if isinstance(one, _Asked):
            alive = _alive.get(f"{one.content} {tuned}")
            if alive is None:
                new[one.content] = one
            else:
                found[one.content] = alive
    try:
        found |= _made(new, cache_dir, tuned) if new else {}
    except (RuntimeError, ImportError, OSError) as error:  # no llvmlite, or not for this processor
        found |= dict.fromkeys(new, KernelError(f"no machine code here: {error}"))
    return [one if isinstance(one, KernelError) else found[one.content] for one in functions]


def _asked(function: ca.Function) -> _Asked | KernelError:
    """A dense function with its name in the cache; KernelError where it has none, for it calls back into Python."""
    if (known := _contents.get(function)) is not None:
        return _Asked(function, known)
    try:
        content = _contents[function] = hashlib.sha256(function.serialize().encode()).hexdigest()
        return _Asked(function, content)
    except RuntimeError as error:
        return _no_scalars(function.name(), error)


def _no_scalars(name: str, error: RuntimeError) -> KernelError:
    reason = str(error).strip().splitlines()[-1]
    return KernelError(f"function {name!r} cannot be expanded into scalar operations: {reason}")


def _operation(code: int) -> str:
    return next((name for name in vars(ca) if name.startswith("OP_") and getattr(ca, name) == code), str(code))


def _names_of(contents: Sequence[str], tuned: bool) -> tuple[str, list[str]]:
    """The key of code in the cache, and its symbols."""
    parts = [list(contents), tuned, _source(), ca.CasadiMeta.version(), _identity()]
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:40]
    return key, [f"lieocp_{key[:16]}_{i}" for i in range(len(contents))]


def _made(asked: Mapping[str, _Asked], cache_dir: str | os.PathLike[str] | None, tuned: bool) -> dict[str, Code | KernelError]:
    """Code of functions by content, from the cache or new."""
    start = time.perf_counter()
    key, names = _names_of(list(asked), tuned)
    stored = tuned or sum(one.size for one in asked.values()) >= WORTH_STORING
    directories = cache.lookup_directories(cache_dir) if stored else ()
    binary = cache.find_object(directories, key)
    hit = binary is not None
    if binary is None:
        scalars = {content: one.scalar for content, one in asked.items()}
        wrong: dict[str, Code | KernelError] = {c: found for c, found in scalars.items() if isinstance(found, KernelError)}
        if wrong:
            rest = {content: one for content, one in asked.items() if content not in wrong}
            return wrong | (_made(rest, cache_dir, tuned) if rest else {})
        binary = compiled(dict(zip(names, scalars.values(), strict=True)), tuned)
        if stored:
            cache.store_object(directories[-1], key, binary)
    addresses, keep = _linked(binary, names)
    seconds = (time.perf_counter() - start) / len(asked)
    codes: dict[str, Code | KernelError] = {}
    for symbol, one in zip(names, asked.values(), strict=True):
        code = Code(addresses[symbol], text.longest_output(one.function), seconds, hit, keep)
        codes[one.content] = _alive[f"{one.content} {tuned}"] = code
    return codes


def compiled(functions: Mapping[str, ca.Function], tuned: bool = False) -> bytes:
    """An object file with dense SX functions, by symbol."""
    parts = [text.declarations(), *(text.written(function, symbol) for symbol, function in functions.items())]
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


def assembled(code: str, symbols: Sequence[str]) -> tuple[dict[str, int], Any]:
    """Addresses of functions written in LLVM's language, by symbol, and what keeps them in memory."""
    with _lock:
        binary = bytes(_generator(False).emit_object(_llvm().parse_assembly(code)))
    return _linked(binary, symbols)


@lru_cache(maxsize=1)
def _llvm() -> Any:
    # Imported on first use: others need not wait for it.
    import llvmlite.binding as llvm  # type: ignore[import-untyped]

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


@lru_cache(maxsize=1)
def _identity() -> tuple[str, ...]:
    """Dependencies of object files apart from the functions."""
    import llvmlite

    return str(llvmlite.__version__), str(_llvm().get_process_triple()), cpu_identity()


@lru_cache(maxsize=1)
def _source() -> str:
    files = (__file__, compiler.__file__, text.__file__, library.__file__)
    return hashlib.sha256(b"".join(Path(file).read_bytes() for file in files)).hexdigest()


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
