"""Functions of libm that scalar graphs call: the very ones that CasADi's interpreter calls, so that both round alike."""

from __future__ import annotations

import ctypes
import sys
from functools import lru_cache

import casadi as ca
import numpy as np

from dynamics.kernels.compiler import KernelError

ONE = {ca.OP_EXP: "exp", ca.OP_LOG: "log", ca.OP_SIN: "sin", ca.OP_COS: "cos", ca.OP_TAN: "tan", ca.OP_ASIN: "asin",
       ca.OP_ACOS: "acos", ca.OP_ATAN: "atan", ca.OP_SINH: "sinh", ca.OP_COSH: "cosh", ca.OP_TANH: "tanh",
       ca.OP_ASINH: "asinh", ca.OP_ACOSH: "acosh", ca.OP_ATANH: "atanh", ca.OP_ERF: "erf", ca.OP_LOG1P: "log1p",
       ca.OP_EXPM1: "expm1", ca.OP_FLOOR: "floor", ca.OP_CEIL: "ceil"}
"""Operations of CasADi that are functions of one argument, by their codes."""
TWO = {ca.OP_POW: "pow", ca.OP_CONSTPOW: "pow", ca.OP_FMOD: "fmod", ca.OP_ATAN2: "atan2", ca.OP_HYPOT: "hypot",
       ca.OP_REMAINDER: "remainder"}
"""And of two."""
NAMES = tuple(sorted({*ONE.values(), *TWO.values(), "memset"}))


@lru_cache(maxsize=1)
def addresses() -> np.ndarray:
    """Where the functions NAMES are, as int64, in an array that lives as long as the process. Raises KernelError."""
    # Through CasADi's Python extension symbols are found in the library that it is linked with; Windows has one table of symbols.
    library = ctypes.CDLL("ucrtbase" if sys.platform == "win32" else ca._casadi.__file__)
    try:
        return np.array([ctypes.cast(library[name], ctypes.c_void_p).value for name in NAMES], dtype=np.int64)
    except AttributeError as error:
        raise KernelError(f"machine code needs all of libm: {error}") from error
