"""Symbolic function -> kernel that is called by address: compiled and cached, machine code by LLVM, or CasADi's interpreter.

`compile_kernel` and `compile_many` make kernels, `workspace` the arrays that Numba loops hand to `dynamics.kernels.calls.call`
(a module apart, because importing Numba takes time that other users need not spend).
"""

from dynamics.kernels.build import compile_kernel, compile_many, is_cached
from dynamics.kernels.cache import CacheStatistics, cache_directory, cache_statistics, clear_cache
from dynamics.kernels.compiler import KernelError, find_compiler
from dynamics.kernels.expressions import remembered
from dynamics.kernels.kernel import Kernel, Workspace, workspace
from dynamics.kernels.size import operations

__all__ = [
    "CacheStatistics",
    "Kernel",
    "KernelError",
    "Workspace",
    "cache_directory",
    "cache_statistics",
    "clear_cache",
    "compile_kernel",
    "compile_many",
    "find_compiler",
    "is_cached",
    "operations",
    "remembered",
    "workspace",
]
