"""Records of arrays and numbers that compiled functions take by one pointer.

    class Path(Record):
        x: np.ndarray
        cost: np.ndarray
        step: float

    path = Path(np.zeros((11, 4)), np.zeros(11), 0.1)    # path.x is the array, in Python and in compiled functions

A named tuple of arrays goes by value: every call moves, and every function counts, what all its arrays consist of, which costs
seconds of compilation. A record is the address of a table with the address and the shape of each array; a compiled function looks
up what it names. Nothing is counted there: whoever calls keeps the record, and so its arrays and the records within it. Numbers lie
in the table itself; both sides may set them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Self

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import from_dtype, types
from numba.extending import NativeValue, infer_getattr, intrinsic, lower_getattr_generic, register_model, unbox

from dynamics.kernels.insides import (
    AttributeTemplate,
    Builder,
    Context,
    PrimitiveModel,
    Signature,
    Type,
    Typed,
    TypingContext,
    TypingError,
    Value,
    cgutils,
    lower_setattr_generic,
    populate_array,
)

_WORD = ir.IntType(64)


class RecordType(types.Type):
    """Numba's type of a record: its class and the types of its fields."""

    def __init__(self, record: type[Record], fields: tuple[tuple[str, Type], ...]):
        self.record, self.fields = record, fields
        listed = ", ".join(f"{name}: {kind}" for name, kind in fields)
        super().__init__(f"{record.__module__}.{record.__qualname__}({listed})")

    def offset(self, name: str) -> tuple[int, Type]:
        """(first word in the table, type) of a field."""
        at = 0
        for field, kind in self.fields:
            if field == name:
                return at, kind
            at += 1 + getattr(kind, "ndim", 0)
        raise AttributeError(name)


@lru_cache
def _array_type(dtype: np.dtype[Any], dimensions: int) -> Type:
    return types.Array(from_dtype(dtype), dimensions, "C")


@lru_cache(maxsize=256)
def _record_type(record: Any, fields: tuple[tuple[str, Type], ...]) -> RecordType:
    return RecordType(record, fields)


class _Number:
    """A number of a record, for Python: it lies in the table."""

    def __init__(self, name: str):
        self.name = name

    def __get__(self, record: Any, owner: type | None = None) -> Any:
        return record._numbers[self.name].item()


class Record:
    """Base of records: a subclass annotates its fields, each a C-contiguous array of float64 or int64, a number, or a record."""

    _where: int
    _numba_type_: RecordType
    _numbers: dict[str, np.ndarray]
    _table: np.ndarray
    _offsets: list[int]

    def __init__(self, *values: Any):
        names = tuple(type(self).__annotations__)
        if len(values) != len(names):
            raise TypeError(f"{type(self).__name__} has the fields {', '.join(names)}; {len(values)} values were given")
        fields: list[tuple[str, Type]] = []
        words: list[int] = []
        numbers: dict[str, tuple[type, int]] = {}
        for name, value in zip(names, values, strict=True):
            if isinstance(value, Record):
                fields.append((name, value._numba_type_))
                words.append(value._where)
            elif isinstance(value, np.ndarray) and value.flags.c_contiguous and value.dtype in (np.float64, np.int64):
                fields.append((name, _array_type(value.dtype, value.ndim)))
                words += [value.ctypes.data, *value.shape]
            elif type(value) in (float, int):
                fields.append((name, types.float64 if type(value) is float else types.int64))
                numbers[name] = type(value), len(words)
                words.append(0)
            else:
                what = f"{value.dtype} of strides {value.strides}" if isinstance(value, np.ndarray) else type(value).__name__
                raise TypeError(f"{type(self).__name__}.{name}: expected a record, a number or a C-contiguous array of float64 or "
                                f"int64, got {what}")
        table = np.array(words, dtype=np.int64)
        places: dict[str, np.ndarray] = {name: table[at:at + 1].view(kind) for name, (kind, at) in numbers.items()}
        vars(self).update((name, value) for name, value in zip(names, values, strict=True) if name not in places)
        vars(self).update(_table=table, _where=table.ctypes.data, _numbers=places, _offsets=[at for _, at in numbers.values()],
                          _numba_type_=_record_type(type(self), tuple(fields)))  # type: ignore[arg-type]
        for name in places:
            setattr(self, name, values[names.index(name)])

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name, kind in cls.__annotations__.items():
            if kind in ("float", "int", float, int):
                setattr(cls, name, _Number(name))

    def __setattr__(self, name: str, value: float) -> None:
        if name not in self._numbers:
            raise AttributeError(f"{type(self).__name__}.{name} cannot be set: compiled functions would not see it; use replace")
        self._numbers[name][0] = value

    @property
    def pointer(self) -> int:
        """Of its table; it does not keep the record alive."""
        return self._where

    def clear(self) -> None:
        """All numbers, not the arrays, to zero: the same bits for both kinds."""
        self._table[self._offsets] = 0

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, name) for name in type(self).__annotations__)

    def replace(self, **fields: Any) -> Self:
        """Another record with other values of these fields; the others are shared."""
        names = tuple(type(self).__annotations__)
        if unknown := set(fields) - set(names):
            raise TypeError(f"{type(self).__name__} has no field {', '.join(sorted(unknown))}; it has {', '.join(names)}")
        return type(self)(*(fields.get(name, getattr(self, name)) for name in names))


@intrinsic
def record_at(typingctx: TypingContext, like: Type, address: Type) -> Typed | None:
    """record_at(like, address) -> the record of the type of another at an address (``Record.pointer``), for use in loops."""
    if not isinstance(like, RecordType) or not isinstance(address, types.Integer):
        raise TypingError(f"expected a record and an integer, got {like} and {address}")

    def codegen(context: Context, builder: Builder, signature: Signature, values: Sequence[Value]) -> Value:
        return builder.inttoptr(values[1], _WORD.as_pointer())

    return like(like, address), codegen


@register_model(RecordType)
class _Model(PrimitiveModel):
    def __init__(self, manager: object, kind: Type):
        super().__init__(manager, kind, _WORD.as_pointer())


@unbox(RecordType)
def _unbox(kind: Type, value: Value, c: Any) -> NativeValue:
    number = c.pyapi.object_getattr_string(value, "_where")
    address = c.pyapi.long_as_voidptr(number)
    c.pyapi.decref(number)
    failed = cgutils.is_not_null(c.builder, c.pyapi.err_occurred())
    return NativeValue(c.builder.bitcast(address, _WORD.as_pointer()), is_error=failed)


@infer_getattr
class _Fields(AttributeTemplate):
    key = RecordType

    def generic_resolve(self, kind: RecordType, name: str) -> Type | None:
        return dict(kind.fields).get(name)


def _number(context: Context, builder: Builder, table: Value, at: int, kind: Type) -> Value:
    """The address of a number in a table."""
    return builder.bitcast(cgutils.gep_inbounds(builder, table, at), context.get_data_type(kind).as_pointer())


@lower_setattr_generic(RecordType)
def _set(context: Context, builder: Builder, sig: Signature, values: Sequence[Value], name: str) -> Value:
    at, kind = sig.args[0].offset(name)
    if not isinstance(kind, types.Number):
        raise TypeError(f"{sig.args[0].record.__name__}.{name} cannot be set: only numbers of a record can")
    return builder.store(values[1], _number(context, builder, values[0], at, kind))


@lower_getattr_generic(RecordType)
def _field(context: Context, builder: Builder, kind: RecordType, table: Value, name: str) -> Value:
    at, field = kind.offset(name)
    if isinstance(field, types.Number):
        return builder.load(_number(context, builder, table, at, field))

    def word(i: int) -> Value:
        found = builder.load(cgutils.gep_inbounds(builder, table, at + i))
        found.set_metadata("invariant.load", builder.module.add_metadata([]))  # addresses of arrays never change
        return found

    if isinstance(field, RecordType):
        return builder.inttoptr(word(0), _WORD.as_pointer())
    array = context.make_array(field)(context, builder)
    shape = [word(1 + i) for i in range(field.ndim)]
    strides = [ir.Constant(_WORD, 8)]
    for extent in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], extent))
    populate_array(array, data=builder.inttoptr(word(0), context.get_data_type(field.dtype).as_pointer()), shape=shape,
                   strides=strides, itemsize=ir.Constant(_WORD, 8), meminfo=None)
    return array._getvalue()
