"""Calling kernels from Numba loops by address.

    from dynamics.kernels.calls import address_of, call, row_address

    @njit(cache=True)
    def rollout(address, handle, arg, res, iw, w, x, u):      # x: (N+1, nx), u: (N, nu)
        for k in range(u.shape[0]):
            arg[0], arg[1] = row_address(x, k), row_address(u, k)
            res[0] = row_address(x, k + 1)
            if call(address, handle, arg, res, iw, w) != 0:
                return k
        return -1

Address and handle are arguments, so that one machine code serves all kernels and is cached on disk. This module imports Numba,
the rest of `dynamics.kernels` does not. Matrices are column-major: to a kernel a C-contiguous block `A[k]` is the transpose.

An address does not keep its array alive. Arrays whose addresses are stored must be arguments of the compiled function, or be
used again after the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from dynamics.kernels.insides import Builder, Context, Signature, Type, Typed, TypingContext, TypingError, Value
from dynamics.kernels.linked import linked

_INT = ir.IntType(32)
_LONG = ir.IntType(64)
_POINTER = ir.IntType(8).as_pointer()


def _require(array: Type, dtype: Type, name: str, layouts: str = "C") -> None:
    if not isinstance(array, types.Array) or array.dtype != dtype or array.layout not in layouts:
        raise TypingError(f"{name} must be a contiguous array of {dtype} (layout {' or '.join(layouts)}), got {array}")


@intrinsic
def call(typingctx: TypingContext, address: Type, handle: Type, arg: Type, res: Type, iw: Type, w: Type) -> Typed | None:
    """call(address, handle, arg, res, iw, w) -> status (int64, 0 is success); for use inside @njit.

    address, handle: integers of a `Workspace` (or a `Kernel`). arg, res: intp arrays that hold the addresses of the inputs and
    outputs (0: a zero input, an output not wanted). iw: int64 array, w: float64 array. One workspace serves one thread.
    """
    for number, name in ((address, "address"), (handle, "handle")):
        if not isinstance(number, types.Integer):
            raise TypingError(f"{name} must be an integer, got {number}")
    _require(arg, types.intp, "arg")
    _require(res, types.intp, "res")
    _require(iw, types.int64, "iw")
    _require(w, types.float64, "w")

    def codegen(context: Context, builder: Builder, signature: Signature, values: Sequence[Value]) -> Value:
        work = [
            builder.bitcast(context.make_array(kind)(context, builder, value).data, _POINTER)
            for kind, value in zip(signature.args[2:], values[2:], strict=True)
        ]
        return _called(context, builder, signature, values, work)

    return types.int64(address, handle, arg, res, iw, w), codegen


@intrinsic
def call_at(typingctx: TypingContext, address: Type, handle: Type, arg: Type, res: Type, iw: Type, w: Type) -> Typed | None:
    """``call`` with the addresses of the four arrays (intp) in place of the arrays."""
    for number, name in ((address, "address"), (handle, "handle"), (arg, "arg"), (res, "res"), (iw, "iw"), (w, "w")):
        if not isinstance(number, types.Integer):
            raise TypingError(f"{name} must be an integer, got {number}")

    def codegen(context: Context, builder: Builder, signature: Signature, values: Sequence[Value]) -> Value:
        work = [builder.inttoptr(context.cast(builder, value, kind, types.int64), _POINTER)
                for kind, value in zip(signature.args[2:], values[2:], strict=True)]
        return _called(context, builder, signature, values, work)

    return types.int64(address, handle, arg, res, iw, w), codegen


def _called(context: Context, builder: Builder, signature: Signature, values: Sequence[Value],
            work: Sequence[Value]) -> Value:
    """Code that calls a kernel, compiled or interpreted, with pointers to arg, res, iw, w; its status as int64."""
    where, which = (context.cast(builder, value, kind, types.int64)
                    for kind, value in zip(signature.args[:2], values[:2], strict=True))
    compiled = builder.icmp_signed("<", which, ir.Constant(_LONG, 0))
    kernel_type = ir.FunctionType(_INT, [_POINTER] * 4 + [_INT])
    interpreter_type = ir.FunctionType(_INT, [_INT] + [_POINTER] * 4 + [_INT])
    with builder.if_else(compiled, likely=True) as (then, otherwise):
        with then:
            function = builder.inttoptr(where, kernel_type.as_pointer())
            memory = builder.trunc(builder.not_(which), _INT)
            kernel_status = builder.call(function, [*work, memory])
            kernel_block = builder.block
        with otherwise:
            function = builder.inttoptr(where, interpreter_type.as_pointer())
            number = builder.trunc(builder.lshr(which, ir.Constant(_LONG, 32)), _INT)
            memory = builder.trunc(which, _INT)
            interpreter_status = builder.call(function, [number, *work, memory])
            interpreter_block = builder.block
    status = builder.phi(_INT)
    status.add_incoming(kernel_status, kernel_block)
    status.add_incoming(interpreter_status, interpreter_block)
    return builder.sext(status, _LONG)


@intrinsic
def put_integer(typingctx: TypingContext, array: Type, index: Type, value: Type) -> Typed | None:
    """put_integer(array, i, n): write the eight bytes of an integer (an address, say) in place of one number of a float64 array."""
    _require(array, types.float64, "array", "CF")

    def codegen(context: Context, builder: Builder, signature: Signature, values: Sequence[Value]) -> Value:
        data = context.make_array(signature.args[0])(context, builder, values[0]).data
        at = builder.gep(data, [context.cast(builder, values[1], signature.args[1], types.int64)])
        number = context.cast(builder, values[2], signature.args[2], types.int64)
        builder.store(number, builder.bitcast(at, _LONG.as_pointer()))
        return context.get_dummy_value()

    return types.none(array, index, value), codegen


@intrinsic
def address_of(typingctx: TypingContext, array: Type) -> Typed | None:
    """address_of(array) -> intp: address of the first element of a contiguous float64 array; for use inside @njit."""
    _require(array, types.float64, "array", "CF")

    def codegen(context: Context, builder: Builder, signature: Signature, values: Sequence[Value]) -> Value:
        data = context.make_array(signature.args[0])(context, builder, values[0]).data
        return builder.ptrtoint(data, context.get_value_type(types.intp))

    return types.intp(array), codegen


@intrinsic
def _row_major(typingctx: TypingContext, array: Type) -> Typed | None:
    _require(array, types.float64, "array")

    def codegen(context: Context, builder: Builder, signature: Signature, values: Sequence[Value]) -> Value:
        return context.get_dummy_value()

    return types.none(array), codegen


@linked(forceinline=True)
def row_address(array: Any, index: int) -> int:
    """row_address(array, k) -> intp: address of `array[k]` in a C-contiguous float64 array; k is not checked."""
    _row_major(array)
    return address_of(array) + index * array.strides[0]
