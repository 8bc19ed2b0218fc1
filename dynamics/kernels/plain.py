"""Modules of compiled loops run as plain Python: the same source, without Numba.

Importing Numba takes half a second and its compiler many; loops that run a few milliseconds are done before that. ``plain_twin``
executes the source of a module with Numba's ``njit`` as the identity and with the calls below in place of those of
``dynamics.kernels.calls``. Numbers agree with the compiled ones to rounding.
"""

from __future__ import annotations

import builtins
import importlib.util
from functools import lru_cache
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from dynamics.kernels.kernel import _InterpreterCall, _KernelCall


def call(address: int, handle: int, arg: Any, res: Any, iw: Any, w: Any) -> int:
    """``dynamics.kernels.calls.call`` for Python: evaluate the kernel, 0 is success."""
    pointers = [array.ctypes.data for array in (arg, res, iw, w)]
    if handle < 0:
        return int(_function(_KernelCall, address)(*pointers, ~handle))
    return int(_function(_InterpreterCall, address)(handle >> 32, *pointers, handle & 0xFFFFFFFF))


def address_of(array: Any) -> int:
    """Address of the first element of a contiguous float64 array."""
    if array.dtype != np.float64 or not (array.flags.c_contiguous or array.flags.f_contiguous):
        raise TypeError(f"array must be a contiguous array of float64, got {array.dtype} of strides {array.strides}")
    return int(array.ctypes.data)


@lru_cache(maxsize=64)
def _function(kind: Any, address: int) -> Any:
    return kind(address)


def plain_twin(name: str, *below: str) -> ModuleType:
    """The module ``name`` once more, as plain Python. Of its imports ``numba.njit`` and ``dynamics.kernels.calls`` are replaced,
    and the modules ``below`` by their own twins."""
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    with open(spec.origin, encoding="utf-8") as file:
        code = compile(file.read(), spec.origin, "exec")
    replaced: dict[str, Any] = {"numba": SimpleNamespace(njit=_identity),
                                "dynamics.kernels.linked": SimpleNamespace(linked=_identity),
                                "dynamics.kernels.calls": SimpleNamespace(call=call, address_of=address_of)}
    replaced |= {other: plain_twin(other) for other in below}

    def load(module: str, *rest: Any) -> Any:
        return replaced[module] if module in replaced else __import__(module, *rest)

    twin = ModuleType(f"{name} (plain)")
    twin.__dict__["__builtins__"] = vars(builtins) | {"__import__": load}
    exec(code, twin.__dict__)
    return twin


def _identity(*function: Any, **options: Any) -> Any:
    return function[0] if function else _identity
