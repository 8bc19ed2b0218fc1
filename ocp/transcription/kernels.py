"""How the functions of a transcription are evaluated: compiling costs seconds, interpreting costs every iteration."""

from __future__ import annotations

import time
from dataclasses import fields, replace
from typing import Any, NamedTuple

import casadi as ca

from dynamics.kernels import compile_many, find_compiler, is_cached, operations
from ocp.interrupts import Activity, leave_out, seconds_left, time_is_up
from ocp.problem import Finding, Kind
from ocp.transcription.blocks import Block, BlockFunctions, differentiated

#: "auto" never compiles smaller functions: the interpreter needs less than a millisecond for a hundred nodes.
WORTH_COMPILING = 3000
#: Larger functions that are not in the cache yet are compiled only where they are evaluated at so many nodes. Measured, the
#: compiler takes about 2e-4 s an instruction and the interpreter 4e-9 s, so that over a hundred iterations the two break even at
#: 2e-4 / (100 * 4e-9) = 500 nodes.
WORTH_WAITING = 500
#: Seconds an operation to write a function down, for its name in the cache, and to write it in C: no call that would take longer
#: than the time that is left is begun. Measured: 32 s for 4.2 million operations.
SECONDS_TO_WRITE = 8e-6
#: in place of a choice of kernels: elements keep the functions that CasADi wrote, for solvers that make kernels of them
BY_SOLVER = "by solver"


class Prepared(NamedTuple):
    """Functions of a block, findings about their kernels, and the seconds that these took."""

    functions: BlockFunctions
    findings: tuple[Finding, ...]
    seconds: float


def prepared(block: Block, mode: str, gauss_newton: bool) -> Prepared:
    """The functions of a block, findings about their kernels, and the seconds that these took."""
    functions = differentiated(block, gauss_newton)
    return Prepared(functions, (), 0.0) if mode == BY_SOLVER else with_kernels(functions, mode, block.count)


def with_kernels(functions: BlockFunctions, mode: Any, nodes: int) -> Prepared:
    """(the functions with compiled code where ``mode`` asks for it, findings about the choice, seconds it took).

    nodes: at how many the functions are evaluated. "auto" takes compiled code where it is in the cache or where compiling pays
    within one solve; it stays with the interpreter where there is no compiler, and says so; "compiled" raises KernelError there.
    """
    started = time.perf_counter()
    named = {f.name: getattr(functions, f.name) for f in fields(functions)}
    own = {name: value for name, value in named.items() if isinstance(value, ca.Function)}
    sizes = {name: operations(function) for name, function in own.items()}
    if time_is_up(Activity.KERNELS) or sum(sizes.values()) * SECONDS_TO_WRITE > seconds_left():
        leave_out(Activity.KERNELS, ", ".join(own[name].name() for name in own if sizes[name] >= WORTH_COMPILING))
        return Prepared(functions, (), 0.0)
    large = [name for name in own if sizes[name] >= WORTH_COMPILING]
    wanted = list(own) if mode == "compiled" else []
    findings: list[Finding] = []
    if mode == "auto":
        wanted = [name for name in large if nodes >= WORTH_WAITING or is_cached(own[name])]
        waiting = [name for name in large if name not in wanted]
        if waiting and find_compiler() is not None:
            findings = [Finding(Kind.KERNELS_WORTH_COMPILING, data={"functions": tuple(own[name].name() for name in waiting)})]
        else:
            wanted += waiting  # the kernels themselves say what they looked for
    if not wanted:
        return Prepared(functions, tuple(findings), 0.0)
    kernels = dict(zip(wanted, compile_many([own[name] for name in wanted], mode=mode, seconds_left=seconds_left),
                       strict=True))
    if slow := [kernel.name for kernel in kernels.values() if kernel.mode == "interpreted"] if time_is_up(Activity.KERNELS) else []:
        leave_out(Activity.KERNELS, ", ".join(slow))
    chosen = {name: kernel.as_casadi() for name, kernel in kernels.items() if kernel.mode == "compiled"}
    if chosen:
        findings.insert(0, Finding(Kind.KERNELS_COMPILED, data={"operations": {own[name].name(): sizes[name] for name in chosen}}))
    remarks = sorted({remark for kernel in kernels.values() for remark in kernel.notes})
    findings += [Finding(Kind.KERNEL_REMARK, data={"remark": remark}) for remark in remarks]
    return Prepared(replace(functions, **chosen), tuple(findings), time.perf_counter() - started)
