"""Eight numbers at once: an explicit SIMD type for Numba loops.

The compiler's own vectoriser gives up on long loop bodies over runtime-sized arrays (it cannot prove that they do not
overlap), so the loops of this package say what they mean: ``load`` eight neighbours, compute, ``store`` them. LLVM lowers the
eight lanes to whatever the processor has (one AVX-512 register, two of AVX, four of SSE or NEON).

Products followed by sums may be fused (``contract``); nothing else of fast-math is allowed, so NaN and infinity propagate.
``get``, ``put``, ``load``, ``store`` take the array's flat index, unchecked and without wrap-around of negative indices.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic, lower_builtin, models, register_model

from dynamics.kernels.insides import (
    AbstractTemplate,
    Builder,
    Context,
    Signature,
    Type,
    Typed,
    TypingContext,
    Value,
    infer_global,
    signature,
)

WIDTH = 8
_DOUBLE = ir.DoubleType()
_VECTOR = ir.VectorType(_DOUBLE, WIDTH)
_MASK = ir.VectorType(ir.IntType(1), WIDTH)
_FLAGS = ("contract",)
_BYTES = 8  # alignment that is promised: any float64 address


class LanesType(types.Type):
    """Numba type of eight float64 numbers."""

    def __init__(self) -> None:
        super().__init__(name="lanes8")


lanes = LanesType()

#: eight numbers, or one that stands for eight, in compiled code
Lanes: TypeAlias = Any


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, dmm: object, fe_type: Type) -> None:
        super().__init__(dmm, fe_type, _VECTOR)


def _splat(builder: Builder, value: Value) -> Value:
    zero = ir.Constant(ir.IntType(32), 0)
    single = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), value, zero)
    order = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [zero] * WIDTH)
    return builder.shuffle_vector(single, ir.Constant(_VECTOR, ir.Undefined), order)


def _as_vector(context: Context, builder: Builder, value: Value, kind: Type) -> Value:
    if isinstance(kind, LanesType):
        return value
    return _splat(builder, context.cast(builder, value, kind, types.float64))


def _binary(op: Callable[..., object], instruction: str) -> None:
    @infer_global(op)
    class Template(AbstractTemplate):
        def generic(self, args: Sequence[Type], kws: Mapping[str, Type]) -> Signature | None:
            if len(args) == 2 and any(isinstance(a, LanesType) for a in args):
                out = [a if isinstance(a, LanesType) else types.float64 for a in args]
                if all(isinstance(a, LanesType | types.Number) for a in args):
                    return signature(lanes, *out)
            return None

    def lower(context: Context, builder: Builder, sig: Signature, values: Sequence[Value]) -> Value:
        a, b = (_as_vector(context, builder, x, kind) for x, kind in zip(values, sig.args, strict=True))
        return getattr(builder, instruction)(a, b, flags=_FLAGS)

    for left, right in ((LanesType, LanesType), (LanesType, types.Float), (types.Float, LanesType)):
        lower_builtin(op, left, right)(lower)


_binary(operator.add, "fadd")
_binary(operator.sub, "fsub")
_binary(operator.mul, "fmul")
_binary(operator.truediv, "fdiv")


@infer_global(operator.neg)
class _NegTemplate(AbstractTemplate):
    def generic(self, args: Sequence[Type], kws: Mapping[str, Type]) -> Signature | None:
        return signature(lanes, lanes) if len(args) == 1 and isinstance(args[0], LanesType) else None


@lower_builtin(operator.neg, LanesType)
def _lower_neg(context: Context, builder: Builder, sig: Signature, values: Sequence[Value]) -> Value:
    return builder.fneg(values[0])


def _pointer(context: Context, builder: Builder, kind: Type, array: Value, index: Value) -> Value:
    data = context.make_array(kind)(context, builder, array).data
    return builder.gep(data, [index], inbounds=True)


def _float_array(kind: Type) -> bool:
    return isinstance(kind, types.Array) and kind.dtype in (types.float64, types.int64)


@intrinsic
def get(typingctx: TypingContext, array: Type, index: Type) -> Typed | None:
    """get(array, i) -> the number at flat index i."""
    def codegen(context: Context, builder: Builder, sig: Signature, values: Sequence[Value]) -> Value:
        return builder.load(_pointer(context, builder, sig.args[0], values[0], values[1]))

    return (array.dtype(array, types.int64), codegen) if _float_array(array) else None


@intrinsic
def put(typingctx: TypingContext, array: Type, index: Type, value: Type) -> Typed | None:
    """put(array, i, x): write one number at flat index i."""
    def codegen(context: Context, builder: Builder, sig: Signature, values: Sequence[Value]) -> Value:
        builder.store(values[2], _pointer(context, builder, sig.args[0], values[0], values[1]))
        return context.get_dummy_value()

    return (types.none(array, types.int64, array.dtype), codegen) if _float_array(array) else None


@intrinsic
def load(typingctx: TypingContext, array: Type, index: Type) -> Typed | None:
    """load(array, i) -> eight neighbours from flat index i."""
    def codegen(context: Context, builder: Builder, sig: Signature, values: Sequence[Value]) -> Value:
        pointer = _pointer(context, builder, sig.args[0], values[0], values[1])
        return builder.load(builder.bitcast(pointer, _VECTOR.as_pointer()), align=_BYTES)

    return (lanes(array, types.int64), codegen) if _float_array(array) else None


@intrinsic
def store(typingctx: TypingContext, array: Type, index: Type, value: Type) -> Typed | None:
    """store(array, i, lanes): write eight neighbours from flat index i."""
    def codegen(context: Context, builder: Builder, sig: Signature, values: Sequence[Value]) -> Value:
        pointer = _pointer(context, builder, sig.args[0], values[0], values[1])
        builder.store(values[2], builder.bitcast(pointer, _VECTOR.as_pointer()), align=_BYTES)
        return context.get_dummy_value()

    return (types.none(array, types.int64, lanes), codegen) if _float_array(array) else None


@intrinsic
def store_masked(typingctx: TypingContext, array: Type, index: Type, value: Type, mask: Type) -> Typed | None:
    """store_masked(array, i, lanes, mask): write lane l where bit l of the integer ``mask`` is set, touch nothing else."""
    def codegen(context: Context, builder: Builder, sig: Signature, values: Sequence[Value]) -> Value:
        pointer = _pointer(context, builder, sig.args[0], values[0], values[1])
        pointer = builder.bitcast(pointer, _VECTOR.as_pointer())
        bits = builder.bitcast(builder.trunc(values[3], ir.IntType(WIDTH)), _MASK)
        kind = ir.FunctionType(ir.VoidType(), [_VECTOR, pointer.type, ir.IntType(32), _MASK])
        function = builder.module.declare_intrinsic("llvm.masked.store.v8f64.p0", fnty=kind)
        builder.call(function, [values[2], pointer, ir.Constant(ir.IntType(32), _BYTES), bits])
        return context.get_dummy_value()

    return (types.none(array, types.int64, lanes, types.int64), codegen) if _float_array(array) else None


@intrinsic
def load_masked(typingctx: TypingContext, array: Type, index: Type, mask: Type) -> Typed | None:
    """load_masked(array, i, mask) -> lanes whose bit is set in the integer ``mask``; zero elsewhere, which is not read."""
    def codegen(context: Context, builder: Builder, sig: Signature, values: Sequence[Value]) -> Value:
        pointer = _pointer(context, builder, sig.args[0], values[0], values[1])
        pointer = builder.bitcast(pointer, _VECTOR.as_pointer())
        bits = builder.bitcast(builder.trunc(values[2], ir.IntType(WIDTH)), _MASK)
        kind = ir.FunctionType(_VECTOR, [pointer.type, ir.IntType(32), _MASK, _VECTOR])
        function = builder.module.declare_intrinsic("llvm.masked.load.v8f64.p0", fnty=kind)
        zero = ir.Constant(_VECTOR, [0.0] * WIDTH)
        return builder.call(function, [pointer, ir.Constant(ir.IntType(32), _BYTES), bits, zero])

    return (lanes(array, types.int64, types.int64), codegen) if _float_array(array) else None


@intrinsic
def splat(typingctx: TypingContext, value: Type) -> Typed | None:
    """splat(x) -> eight copies of one number."""
    def codegen(context: Context, builder: Builder, sig: Signature, values: Sequence[Value]) -> Value:
        return _splat(builder, values[0])

    return (lanes(types.float64), codegen) if isinstance(value, types.Number) else None


@intrinsic
def where_negative(typingctx: TypingContext, test: Type, negative: Type, otherwise: Type) -> Typed | None:
    """Lane by lane: ``negative`` where test < 0, else ``otherwise`` (also where test is NaN)."""
    def codegen(context: Context, builder: Builder, sig: Signature, values: Sequence[Value]) -> Value:
        flags = builder.fcmp_ordered("<", values[0], ir.Constant(_VECTOR, [0.0] * WIDTH))
        return builder.select(flags, values[1], values[2])

    return (lanes(lanes, lanes, lanes), codegen) if isinstance(test, LanesType) else None


@intrinsic
def blend(typingctx: TypingContext, mask: Type, yes: Type, no: Type) -> Typed | None:
    """Lane l of ``yes`` where bit l of the integer ``mask`` is set, of ``no`` elsewhere."""
    def codegen(context: Context, builder: Builder, sig: Signature, values: Sequence[Value]) -> Value:
        bits = builder.bitcast(builder.trunc(values[0], ir.IntType(WIDTH)), _MASK)
        return builder.select(bits, values[1], values[2])

    return (lanes(types.int64, lanes, lanes), codegen) if isinstance(yes, LanesType) else None


@intrinsic
def nearest(typingctx: TypingContext, value: Type) -> Typed | None:
    """Round each lane to the nearest integer, ties to even."""
    def codegen(context: Context, builder: Builder, sig: Signature, values: Sequence[Value]) -> Value:
        function = builder.module.declare_intrinsic("llvm.rint.v8f64", fnty=ir.FunctionType(_VECTOR, [_VECTOR]))
        return builder.call(function, [values[0]])

    return (lanes(lanes), codegen) if isinstance(value, LanesType) else None


@intrinsic
def fused(typingctx: TypingContext, a: Type, b: Type, c: Type) -> Typed | None:
    """a b + c with one rounding, as the reduction of large angles needs it."""
    def codegen(context: Context, builder: Builder, sig: Signature, values: Sequence[Value]) -> Value:
        function = builder.module.declare_intrinsic("llvm.fma.v8f64", fnty=ir.FunctionType(_VECTOR, [_VECTOR] * 3))
        return builder.call(function, list(values))

    return (lanes(lanes, lanes, lanes), codegen) if isinstance(a, LanesType) else None


@intrinsic
def total(typingctx: TypingContext, value: Type) -> Typed | None:
    """total(lanes) -> their sum, in pairs."""
    def codegen(context: Context, builder: Builder, sig: Signature, values: Sequence[Value]) -> Value:
        index, vector = ir.IntType(32), values[0]
        width = WIDTH
        while width > 1:
            width //= 2
            kind = ir.VectorType(index, width)
            low = builder.shuffle_vector(vector, vector, ir.Constant(kind, list(range(width))))
            high = builder.shuffle_vector(vector, vector, ir.Constant(kind, list(range(width, 2 * width))))
            vector = builder.fadd(low, high)
        return builder.extract_element(vector, ir.Constant(index, 0))

    return (types.float64(value), codegen) if isinstance(value, LanesType) else None
