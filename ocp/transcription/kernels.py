"""How the functions of a transcription are evaluated: compiling costs seconds, interpreting costs every iteration, machine code
made here (``dynamics.kernels.machine``) a millisecond.
"""

from __future__ import annotations

import time
from dataclasses import fields, replace
from typing import Any

import casadi as ca

from dynamics.kernels import compile_many, find_compiler, in_graphs, is_cached, operations
from ocp.transcription.blocks import BlockFunctions

KERNELS = ("auto", "compiled", "interpreted")

#: "auto" never compiles smaller functions: the interpreter needs less than a millisecond for a hundred nodes.
WORTH_COMPILING = 3000
#: Larger functions that are not in the cache yet are compiled only where they are evaluated at so many nodes. Measured, the
#: compiler takes about 2e-4 s an instruction and the interpreter 4e-9 s, so that over a hundred iterations the two break even at
#: 2e-4 / (100 * 4e-9) = 500 nodes.
WORTH_WAITING = 500
#: Seconds of machine code: to load a function, to make an operation, and what evaluating an operation takes less than interpreted.
#: A solve is taken for so many iterations. At 50 nodes this pays from 300 operations on, below 20 nodes never.
LOADING, MAKING, SAVED, ITERATIONS = 6e-4, 1.1e-6, 2e-9, 30


def with_kernels(functions: BlockFunctions, mode: Any, nodes: int) -> tuple[BlockFunctions, tuple[str, ...], float]:
    """(the functions with compiled code where ``mode`` asks for it, sentences about the choice, seconds it took).

    nodes: at how many the functions are evaluated. "auto" takes compiled code where it is in the cache or where compiling
    pays within one solve, and machine code where that pays; it stays with the interpreter where there is no compiler, and says so;
    "compiled" raises KernelError there.
    """
    started = time.perf_counter()
    named = {f.name: getattr(functions, f.name) for f in fields(functions)}
    own = {name: value for name, value in named.items() if isinstance(value, ca.Function)}
    sizes = {name: operations(function) for name, function in own.items()}
    large = [name for name in own if sizes[name] >= WORTH_COMPILING]
    wanted, quick = list(own) if mode == "compiled" else [], list[str]()
    notes: list[str] = []
    if mode == "auto":
        wanted = [name for name in large if nodes >= WORTH_WAITING or is_cached(own[name])]
        quick = [name for name in own if name not in wanted and in_graphs() and _pays(sizes[name], nodes)]
        waiting = [own[name].name() for name in large if name not in wanted and name not in quick]
        if waiting and find_compiler() is not None:
            notes = [f"kernels: {', '.join(waiting)} interpreted; with the option kernels=compiled the first solve waits for "
                     "the compiler and later ones are faster"]
        elif waiting:
            wanted += [name for name in large if own[name].name() in waiting]  # the kernels themselves say what they looked for
    chosen: dict[str, ca.Function] = {}
    said: list[str] = []
    quickly: Any = "jit"
    for names, word, kind in ((wanted, "compiled", mode), (quick, "machine code of", quickly)):
        kernels = dict(zip(names, compile_many([own[name] for name in names], mode=kind), strict=True)) if names else {}
        made = {name: kernel.as_casadi() for name, kernel in kernels.items() if kernel.mode != "interpreted"}
        made = {name: function for name, function in made.items() if function.class_name() == "External"}
        if made:
            said.append(f"{word} {', '.join(f'{own[name].name()} ({sizes[name]} operations)' for name in made)}")
        chosen |= made
        notes += sorted({note for kernel in kernels.values() for note in kernel.notes})
    if said:
        notes.insert(0, f"kernels: {'; '.join(said)}; the rest interpreted")
    if not wanted and not quick:
        return functions, tuple(notes), 0.0
    return replace(functions, **chosen), tuple(notes), time.perf_counter() - started


def _pays(size: int, nodes: int) -> bool:
    """Whether machine code of a function of so many operations saves time within one solve."""
    return size * (nodes * ITERATIONS * SAVED - MAKING) > LOADING
