"""Which functions of a transcription are compiled: compiling costs seconds, interpreting costs every iteration."""

from __future__ import annotations

import time
from dataclasses import fields, replace
from typing import Any

import casadi as ca

from dynamics.kernels import compile_many
from ocp.transcription.blocks import BlockFunctions

KERNELS = ("auto", "compiled", "interpreted")

#: "auto" compiles functions of at least so many instructions. Below, the interpreter needs less than a millisecond for a
#: hundred nodes, and the compiler would not pay within one solve.
WORTH_COMPILING = 3000


def with_kernels(functions: BlockFunctions, mode: Any) -> tuple[BlockFunctions, tuple[str, ...], float]:
    """(the functions with compiled code where ``mode`` asks for it, sentences about the choice, seconds it took).

    "auto" stays with the interpreter where there is no compiler, and says so; "compiled" raises KernelError there.
    """
    started = time.perf_counter()
    named = {f.name: getattr(functions, f.name) for f in fields(functions)}
    own = {name: value for name, value in named.items() if isinstance(value, ca.Function)}
    wanted = [name for name, function in own.items()
              if mode == "compiled" or (mode == "auto" and function.n_instructions() >= WORTH_COMPILING)]
    if not wanted:
        return functions, (), 0.0
    kernels = dict(zip(wanted, compile_many([own[name] for name in wanted], mode=mode), strict=True))
    compiled = {name: kernel for name, kernel in kernels.items() if kernel.mode == "compiled"}
    sizes = ", ".join(f"{own[name].name()} ({own[name].n_instructions()} instructions)" for name in compiled)
    notes = [f"kernels: compiled {sizes}; the rest interpreted"] if compiled else []
    notes += sorted({note for kernel in kernels.values() for note in kernel.notes})
    chosen = replace(functions, **{name: kernel.as_casadi() for name, kernel in compiled.items()})
    return chosen, tuple(notes), time.perf_counter() - started
