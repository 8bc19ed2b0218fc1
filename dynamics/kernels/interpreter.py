"""CasADi's interpreter by address, through the C interface that the CasADi library exports (`casadi_c.h`).

The interface keeps loaded functions in one list of the process, by position, and unloads only the last batch. So a function,
once loaded, stays until the process ends; `function_id` remembers positions by content, and each distinct function is loaded
once. The list may move in memory when it grows: make interpreted kernels before starting threads that evaluate them.
"""

from __future__ import annotations

import ctypes
import hashlib
import tempfile
import threading
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import casadi as ca

from dynamics.kernels.compiler import KernelError

# Reentrant: while a function is being loaded the garbage collector may finalise another kernel, which gives its memory back here.
_lock = threading.RLock()
_ids: dict[str, int] = {}  # serialised function (hash) -> position in CasADi's own process-wide list


@lru_cache(maxsize=1)
def _casadi_library() -> ctypes.CDLL:
    # Symbols are looked up through the Python extension, which leads to the very library it is linked with; the wheel
    # holds a second copy of that library under another name. Windows does not search dependencies: name the file there.
    library = ctypes.CDLL(ca._casadi.__file__)
    if not hasattr(library, "casadi_c_push_file"):
        library = ctypes.CDLL(str(Path(ca.__file__).parent / "libcasadi.dll"))
    library.casadi_c_push_file.argtypes = [ctypes.c_char_p]
    library.casadi_c_name_id.restype = ctypes.c_char_p
    library.casadi_c_work_id.argtypes = [ctypes.c_int] + [ctypes.POINTER(ctypes.c_longlong)] * 4
    return library


def function_id(function: ca.Function) -> int:
    """Position of `function` in CasADi's list of loaded functions; loads it on the first call. Raises KernelError."""
    try:
        content = hashlib.sha256(function.serialize().encode()).hexdigest()
    except RuntimeError as error:
        raise KernelError(f"CasADi cannot serialise function {function.name()!r}: {error}") from error
    library = _casadi_library()
    with _lock:
        if content not in _ids:
            with tempfile.TemporaryDirectory(prefix="lieocp-") as folder:
                file = Path(folder) / "function.casadi"
                function.save(str(file))
                status = library.casadi_c_push_file(str(file).encode())
            number = library.casadi_c_n_loaded() - 1
            if status != 0 or library.casadi_c_name_id(number) != function.name().encode():
                raise KernelError(f"CasADi's C interface did not load function {function.name()!r} (status {status})")
            _ids[content] = number
        return _ids[content]


def evaluation_address() -> int:
    """Address of `int casadi_c_eval_id(int id, const double** arg, double** res, long long* iw, double* w, int mem)`."""
    return ctypes.cast(_casadi_library().casadi_c_eval_id, ctypes.c_void_p).value or 0


class WorkSizes(NamedTuple):
    """Lengths of arg, res, iw and w."""

    arg: int
    res: int
    iw: int
    w: int


def work_sizes(number: int) -> WorkSizes:
    """Lengths of arg, res, iw and w for the loaded function `number`."""
    sizes = [ctypes.c_longlong() for _ in range(4)]
    if _casadi_library().casadi_c_work_id(number, *(ctypes.byref(size) for size in sizes)) != 0:
        raise KernelError(f"CasADi's C interface gives no work sizes for function number {number}")
    return WorkSizes(sizes[0].value, sizes[1].value, sizes[2].value, sizes[3].value)


def checkout(number: int) -> int:
    """A memory of the loaded function `number`, for one evaluation at a time."""
    with _lock:
        memory = _casadi_library().casadi_c_checkout_id(number)
    if memory < 0:
        raise KernelError(f"CasADi's C interface gives no memory for function number {number}")
    return int(memory)


def release(number: int, memory: int) -> None:
    """Give a memory back."""
    with _lock:
        _casadi_library().casadi_c_release_id(number, memory)
