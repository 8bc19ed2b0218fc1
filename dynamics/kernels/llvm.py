"""Machine code for any processor by LLVM, through llvmlite.

LLVM runs without optimisation: values are in registers already, and what its better register allocators gain here (up to 10 %)
costs five times the time. Code models larger than the small one would keep it from its fast instruction selection.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from dynamics.kernels import library, text
from dynamics.kernels.compiler import cpu_identity
from dynamics.kernels.tape import Tape

# Reentrant: while code is being made the garbage collector may finalise other code.
_lock = threading.RLock()
_names = iter(range(1 << 62))


@lru_cache(maxsize=1)
def _llvm() -> Any:
    # Imported on first use: others need not wait for it.
    import llvmlite.binding as llvm  # type: ignore[import-untyped]

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


def identity() -> tuple[str, ...]:
    """What object files depend on, apart from the functions."""
    import llvmlite

    return str(llvmlite.__version__), str(_llvm().get_process_triple()), cpu_identity()


def _target_machine() -> Any:
    llvm = _llvm()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=0, codemodel="small", jit=True)


@lru_cache(maxsize=1)
def _generator() -> Any:
    return _target_machine()


@lru_cache(maxsize=1)
def _linker() -> Any:
    linker = _llvm().create_lljit_compiler(_target_machine())
    # Left to the end of the process: code that is given back later, while Python comes down, must find it there.
    atexit.register(linker.detach)
    return linker


def compiled(functions: dict[str, tuple[Tape, int, int, int]]) -> bytes:
    """An object file: functions by symbol, with the numbers of inputs and outputs, and the numbers of the longest input."""
    opaque = _llvm().llvm_version_info[0] >= 17
    parts = [text.declarations(opaque)]
    parts += [text.written(*given, symbol, opaque) for symbol, given in functions.items()]
    with _lock:
        return bytes(_generator().emit_object(_llvm().parse_assembly("\n".join(parts))))


def linked(binary: bytes, symbols: Sequence[str]) -> tuple[dict[str, int], Any]:
    """Addresses of the symbols of an object file, and what keeps the code in memory as long as it is referred to."""
    builder = _llvm().JITLibraryBuilder().add_object_img(binary)
    for name, address in zip(library.NAMES, library.addresses().tolist(), strict=True):
        builder.import_symbol(name, address)
    for symbol in symbols:
        builder.export_symbol(symbol)
    with _lock:
        tracker = builder.link(_linker(), f"lieocp{next(_names)}")
    return {symbol: int(tracker[symbol]) for symbol in symbols}, tracker
