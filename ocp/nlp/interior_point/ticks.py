"""A clock inside compiled loops: the counter of processor cycles."""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic


@intrinsic
def ticks(typingctx: Any) -> Any:
    """ticks() -> float64; differences are cycles. Constant where the processor gives no counter."""
    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(64), [])
        counter = builder.module.declare_intrinsic("llvm.readcyclecounter", fnty=kind)
        return builder.uitofp(builder.call(counter, []), ir.DoubleType())

    return types.float64(), codegen
