"""Machine code of scalar functions without a C compiler: ready in about a microsecond an operation.

Two generators make it. `dynamics.kernels.stencils` puts fixed patterns together, on x86-64 with Linux or macOS;
`dynamics.kernels.llvm` works everywhere, takes longer, and gives faster code. Both round as CasADi's interpreter does.

Measured on dynamics of a six-axis arm and a quadruped and their Jacobians, 600 to 93 000 operations, on one core of an x86-64 of
2021; seconds, to make a kernel and to evaluate one operation:

    =============  ====================================  ===================
    kernel         to make: operation, function          to evaluate
    =============  ====================================  ===================
    interpreted    2.1e-6, 4e-4                          1.7e-9 ... 3.3e-9
    stencils       1.1e-6, 1e-4 (and 4e-4 a request)     0.37e-9 ... 0.6e-9
    LLVM           4e-6, 1e-4 (and 1e-3 a request)       0.25e-9 ... 0.5e-9
    LLVM, cached   0.9e-6, 1e-4 (and 1e-3 a request)     0.25e-9 ... 0.5e-9
    gcc -O1        8e-5 ... 5e-4, 5e-2                   0.23e-9 ... 0.47e-9
    =============  ====================================  ===================

Half of what stencils take is CasADi's serialising of the function. So they take less time than interpreting from the first
evaluation on, and LLVM pays where a function is evaluated WORTH_LLVM times: (4e-6 - 1.1e-6) / (0.43e-9 - 0.28e-9).
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import mmap
import os
import sys
import tempfile
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np

from dynamics.kernels import cache, elf, library, llvm, stencils, text
from dynamics.kernels.compiler import KernelError, densified
from dynamics.kernels.size import operations
from dynamics.kernels.tape import Tape, tape

#: Larger functions are not expanded into scalar operations.
MAX_OPERATIONS = 1_000_000
#: Evaluations from which LLVM pays where stencils are to be had.
WORTH_LLVM = 20_000
#: Modules of LLVM of fewer operations are not worth a file.
WORTH_STORING = 1000


@dataclass(frozen=True, eq=False)
class Code:
    """Machine code of one function: its address, how many bytes (0: they cannot be put elsewhere), the length of ``w`` that it
    needs, seconds that it took, whether from the cache, and what keeps the code in memory as long as it is referred to."""

    address: int
    size: int
    work: int
    seconds: float
    cache_hit: bool
    keep: Any


@dataclass(frozen=True, eq=False)
class _Scalar:
    """A dense SX function, its serialised form, and the hash of that."""

    function: ca.Function
    serialised: str
    content: str

    @cached_property
    def tape(self) -> Tape:
        return tape(self.function, self.serialised)

    @property
    def inputs(self) -> int:
        return int(self.function.n_in())

    @property
    def outputs(self) -> int:
        return int(self.function.n_out())

    @cached_property
    def longest_input(self) -> int:
        return max(map(self.function.numel_in, range(self.inputs)), default=0)

    @cached_property
    def longest_output(self) -> int:
        return max(map(self.function.numel_out, range(self.outputs)), default=0)


# Code by stencils that some kernel or workspace refers to: solvers ask for the same functions again and again.
_alive: weakref.WeakValueDictionary[str, Code] = weakref.WeakValueDictionary()


def machine_code(
    functions: Sequence[ca.Function], evaluations: float | None = None, cache_dir: str | os.PathLike[str] | None = None,
) -> list[Code | KernelError]:
    """Machine code of dense functions (see `densified`): SX functions, others that CasADi expands into SX, and what `external` has
    given; KernelError for the rest. evaluations: how often each will be evaluated, roughly, for the choice of the generator; None:
    not often.
    """
    scalar = [_external[function.name()][0] if function.name() in _external else _scalar(function) for function in functions]
    good = [given for given in scalar if isinstance(given, _Scalar)]
    quick = stencils.available() and (evaluations is None or evaluations < WORTH_LLVM)
    try:
        codes = iter((_by_stencils(good) if quick else _by_llvm(good, cache_dir)) if good else ())
    except (RuntimeError, ImportError, OSError) as error:  # no executable memory, no llvmlite, or not for this processor
        failed = KernelError(f"no machine code here: {error}")
        return [failed if isinstance(given, _Scalar) else given for given in scalar]
    return [next(codes) if isinstance(given, _Scalar) else given for given in scalar]


def worthwhile(function: ca.Function, evaluations: float) -> bool:
    """Whether machine code (mode "jit") takes less time than interpreting, making the kernel and ``evaluations`` included.

    The evaluations of a block function are nodes times iterations, for which 30 is a fair guess. The estimate is that of the table
    above, a function taken by itself: with stencils always, with LLVM from a thousand evaluations or so (2e-6 / 2.1e-9), small
    functions a little later. False where the function has no scalar form.
    """
    size = operations(function)
    if size > MAX_OPERATIONS:
        return False
    if not function.is_a("SXFunction"):
        try:
            function = function.expand()
        except RuntimeError:  # external code has no scalar form
            return False
    if not set(map(function.instruction_id, range(function.n_instructions()))) <= text.KNOWN:
        return False
    fixed, made, run = (1e-4, 1.1e-6, 0.5e-9) if stencils.available() else (1e-3, 4e-6, 0.3e-9)
    return fixed + size * (made + run * evaluations) <= 4e-4 + size * (2.1e-6 + 2.4e-9 * evaluations)


def _scalar(function: ca.Function) -> _Scalar | KernelError:
    name = function.name()
    if function.class_name() == "External":
        return KernelError(f"function {name!r} is external code, which CasADi calls")
    try:
        if not function.is_a("SXFunction"):
            size = operations(function)
            if size > MAX_OPERATIONS:
                return KernelError(f"function {name!r} has {size} operations: no machine code above {MAX_OPERATIONS}")
            function = densified(function.expand())
        serialised = function.serialize()
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1]
        return KernelError(f"function {name!r} cannot be expanded into scalar operations: {reason}")
    given = _Scalar(function, serialised, hashlib.sha256(serialised.encode()).hexdigest())
    if given.content in _alive:
        return given
    unknown = sorted(set(np.flatnonzero(np.bincount(given.tape.op)).tolist()) - (text.KNOWN & stencils.KNOWN))
    if unknown:
        return KernelError(f"function {name!r} has operations without machine code: {', '.join(map(_operation, unknown))}")
    return given


def _operation(code: int) -> str:
    return next((name for name in vars(ca) if name.startswith("OP_") and getattr(ca, name) == code), str(code))


# ---- stencils ----
def _by_stencils(functions: Sequence[_Scalar]) -> list[Code]:
    start = time.perf_counter()
    codes = {given.content: _alive.get(given.content) for given in functions}
    new = list({given.content: given for given in functions if codes[given.content] is None}.values())
    if new:
        zeros = np.zeros(max(given.longest_input for given in new) + 1)
        binary, begins = stencils.translated([(given.tape, given.inputs, given.outputs) for given in new],
                                             library.addresses().ctypes.data, zeros.ctypes.data)
        memory = _Memory(binary)
        seconds = (time.perf_counter() - start) / len(new)
        ends = [*begins[1:], len(binary)]
        for given, begin, end in zip(new, begins, ends, strict=True):
            work = stencils.work_length(given.tape, given.inputs, given.outputs, given.longest_output)
            codes[given.content] = Code(memory.address + begin, end - begin, work, seconds, False, (memory, zeros))
    made = [code for given in functions if (code := codes[given.content]) is not None]
    _alive.update(zip((given.content for given in functions), made, strict=True))
    return made


def in_graphs() -> bool:
    """Whether CasADi's graphs can call machine code made here, see `Kernel.as_casadi`."""
    return stencils.available() and sys.platform == "linux"


def external(function: ca.Function, code: Code) -> ca.Function:
    """A dense function as one that CasADi calls as machine code in its own graphs; without derivatives.

    The function itself where there is no such way: code by LLVM, systems other than Linux, a temporary folder from which nothing
    may be loaded.
    """
    if code.size == 0 or not in_graphs():
        return function
    ports = [[(names[i], *shapes(i)) for i in range(len(names))] for names, shapes in (
        (function.name_in(), function.size_in), (function.name_out(), function.size_out))]
    symbol = f"lieocp_{code.address:x}"
    if symbol in _external:
        return _external[symbol][1]
    work = (function.n_in(), function.n_out(), 0, code.work)
    try:
        file = Path(_folder().name) / f"{symbol}.so"
        file.write_bytes(elf.shared_library(symbol, ctypes.string_at(code.address, code.size), work, *ports))
        found = ca.external(symbol, str(file))
    except (OSError, RuntimeError):
        return function
    _external[symbol] = code, found
    return found


# By their names in CasADi, and for good: the libraries refer to the same zeros, and graphs to the libraries.
_external: dict[str, tuple[Code, ca.Function]] = {}


@lru_cache(maxsize=1)
def _folder() -> tempfile.TemporaryDirectory[str]:
    # Until the process ends: CasADi refers to libraries by their files.
    return tempfile.TemporaryDirectory(prefix="lieocp-")


class _Memory:
    """Executable memory that holds some bytes, given back when it is no longer referred to."""

    def __init__(self, code: np.ndarray) -> None:
        self._map = mmap.mmap(-1, len(code), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        self._map.write(code.tobytes())
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        # Never writable and executable at once: hardened systems refuse that.
        if _libc().mprotect(ctypes.c_void_p(self.address), ctypes.c_size_t(len(code)), mmap.PROT_READ | mmap.PROT_EXEC) != 0:
            raise OSError(ctypes.get_errno(), "the system gives no executable memory")


@lru_cache(maxsize=1)
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


# ---- LLVM ----
def _by_llvm(functions: Sequence[_Scalar], cache_dir: str | os.PathLike[str] | None) -> list[Code]:
    """All functions in one module: LLVM's fixed costs are paid once."""
    start = time.perf_counter()
    distinct = {given.content: given for given in functions}
    parts = [list(distinct), _source(), ca.CasadiMeta.version(), llvm.identity()]
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:40]
    symbols = {content: f"lieocp_{key[:16]}_{i}" for i, content in enumerate(distinct)}
    stored = sum(len(given.tape.op) for given in distinct.values()) >= WORTH_STORING
    directories = cache.lookup_directories(cache_dir) if stored else ()
    binary = cache.find_object(directories, key)
    hit = binary is not None
    if binary is None:
        binary = llvm.compiled({symbols[content]: (given.tape, given.inputs, given.outputs, given.longest_input)
                                for content, given in distinct.items()})
        if stored:
            cache.store_object(directories[-1], key, binary)
    addresses, keep = llvm.linked(binary, list(symbols.values()))
    seconds = (time.perf_counter() - start) / len(functions)
    return [Code(addresses[symbols[given.content]], 0, given.longest_output, seconds, hit, keep) for given in functions]


@lru_cache(maxsize=1)
def _source() -> str:
    files = (text.__file__, llvm.__file__, library.__file__)
    return hashlib.sha256(b"".join(Path(file).read_bytes() for file in files)).hexdigest()
