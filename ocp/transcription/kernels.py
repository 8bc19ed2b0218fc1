"""Which functions of a transcription are compiled: compiling costs seconds, interpreting costs every iteration."""

from __future__ import annotations

import time
from dataclasses import fields, replace

import casadi as ca

from ocp.transcription.blocks import BlockFunctions

KERNELS = ("auto", "compiled", "interpreted")

#: "auto" compiles functions of at least so many instructions. Below, the interpreter needs less than a millisecond for a
#: hundred nodes, and the compiler would not pay within one solve.
WORTH_COMPILING = 3000


def with_kernels(functions: BlockFunctions, mode: str) -> tuple[BlockFunctions, tuple[str, ...], float]:
    """(the functions with compiled code where ``mode`` asks for it, sentences about the choice, seconds it took).

    "auto" stays with the interpreter where there is no compiler; "compiled" is an error there.
    """
    started = time.perf_counter()
    named = {f.name: getattr(functions, f.name) for f in fields(functions)}
    own = {name: value for name, value in named.items() if isinstance(value, ca.Function)}
    wanted = [name for name, function in own.items()
              if mode == "compiled" or (mode == "auto" and function.n_instructions() >= WORTH_COMPILING)]
    if not wanted:
        return functions, (), 0.0
    from dynamics.kernels import compile_kernel  # it brings Numba, which small problems need not wait for

    kernels = {name: compile_kernel(own[name], mode) for name in wanted}
    compiled = {name: kernel.as_casadi() for name, kernel in kernels.items() if kernel.mode == "compiled"}
    sizes = ", ".join(f"{own[name].name()} ({own[name].n_instructions()} instructions)" for name in wanted)
    note = f"kernels: {'compiled' if compiled else 'interpreted, for want of a compiler,'} {sizes}"
    return replace(functions, **compiled), (note,), time.perf_counter() - started
