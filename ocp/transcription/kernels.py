"""Which functions of a transcription are compiled: compiling costs seconds, interpreting costs every iteration."""

from __future__ import annotations

import time
from dataclasses import fields, replace

import casadi as ca

from dynamics import kernels
from ocp.transcription.blocks import BlockFunctions

KERNELS = ("auto", "compiled", "interpreted")

#: "auto" compiles functions of at least so many instructions; below, the interpreter costs less than a millisecond for a
#: hundred nodes and the compiler would not pay within one solve
WORTH_COMPILING = 3000


def with_kernels(functions: BlockFunctions, mode: str) -> tuple[BlockFunctions, tuple[str, ...], float]:
    """(the functions with compiled code where ``mode`` asks for it, sentences about the choice, seconds it took)."""
    started = time.perf_counter()
    names = [f.name for f in fields(functions) if isinstance(getattr(functions, f.name), ca.Function)]
    chosen = {}
    for name in names:
        function = getattr(functions, name)
        if mode == "compiled" or (mode == "auto" and function.n_instructions() >= WORTH_COMPILING):
            chosen[name] = kernels.compile_kernel(function)
    return replace(functions, **{name: kernel.as_casadi() for name, kernel in chosen.items()}), (), time.perf_counter() - started
