"""The list of operations of a scalar graph (CasADi's SX function) as arrays.

CasADi gives its tape one operation at a time, which takes longer than anything that is done with it here. The serialised function
holds it as records of sixteen bytes. That form is not documented: so what is found there is compared with what CasADi says at
places all over the tape, and where they differ, or nothing is found, the tape is asked for operation by operation.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import casadi as ca
import numpy as np

#: Places of a tape that are compared.
COMPARED = 8
_RECORD = np.dtype([("op", "<i4"), ("to", "<i4"), ("a", "<i4"), ("b", "<i4")])


class Tape(NamedTuple):
    """Operations ``slot[to] = op(slot[a], slot[b])`` in their order; b counts for operations of two arguments only.

    OP_INPUT: a is the input, b the nonzero. OP_OUTPUT: to is the output, a the slot, b the nonzero. OP_CONST: value.
    slots: how many there are.
    """

    op: np.ndarray
    to: np.ndarray
    a: np.ndarray
    b: np.ndarray
    value: np.ndarray
    slots: int


def tape(function: ca.Function, serialised: str | None = None) -> Tape:
    """The tape of an SX function; serialised: ``function.serialize()``, where it is known already."""
    found = _deserialised(function, function.serialize() if serialised is None else serialised)
    return found if found is not None else _asked(function)


def _deserialised(function: ca.Function, text: str) -> Tape | None:
    """From the serialised form: letters a ... p stand for half bytes, the lower half first."""
    letters = np.frombuffer(text.encode(), dtype=np.uint8) - ord("a")
    if len(letters) % 2 or letters.max(initial=0) > 15:
        return None
    data = (letters[0::2] | letters[1::2] << 4).tobytes()
    count = function.n_instructions()
    # A flag of one byte for each operation comes first, with their number before it.
    mark = np.array([count], dtype="<i8").tobytes()
    at = data.rfind(mark)
    while at >= 0:
        start = at + len(mark) + count
        if start + count * _RECORD.itemsize <= len(data):
            found = _read(data, start, count)
            if _agrees(function, found):
                return found
        at = data.rfind(mark, 0, at + len(mark) - 1)
    return None


def _read(data: bytes, start: int, count: int) -> Tape:
    records = np.frombuffer(data, dtype=_RECORD, count=count, offset=start)
    numbers = np.frombuffer(data, dtype=np.dtype([("head", "<i8"), ("value", "<f8")]), count=count, offset=start)
    op, to, a, b = (records[name].astype(np.int64) for name in ("op", "to", "a", "b"))
    return Tape(op, to, a, b, np.where(op == ca.OP_CONST, numbers["value"], 0.0), _slots(op, to))


def _slots(op: np.ndarray, to: np.ndarray) -> int:
    return int(to[op != ca.OP_OUTPUT].max(initial=-1)) + 1


def _agrees(function: ca.Function, found: Tape) -> bool:
    count, inputs, outputs = len(found.op), found.op == ca.OP_INPUT, found.op == ca.OP_OUTPUT
    slots = max(1, function.sz_w())
    sound = (found.op >= 0) & (found.to >= 0) & (found.to < np.where(outputs, function.n_out(), slots))
    sound &= (found.op == ca.OP_CONST) | (found.a >= 0) & (found.a < np.where(inputs, function.n_in(), slots))
    if not sound.all():
        return False
    places = {(count - 1) * i // (COMPARED - 1) for i in range(COMPARED)} if count else set()
    return all(repr(_said(function, k)) == repr(_held(found, k)) for k in places)  # as text: NaN is NaN, and zeros have signs


def _said(function: ca.Function, k: int) -> tuple[Any, ...]:
    """An operation as CasADi tells it: code, targets, sources, value."""
    op, to, sources = function.instruction_id(k), function.instruction_output(k), function.instruction_input(k)
    return op, to, sources, function.instruction_constant(k) if op == ca.OP_CONST else 0.0


def _held(found: Tape, k: int) -> tuple[Any, ...]:
    op, to, a, b = int(found.op[k]), int(found.to[k]), int(found.a[k]), int(found.b[k])
    if op == ca.OP_CONST:
        return op, [to], [], float(found.value[k])
    if op == ca.OP_OUTPUT:
        return op, [to, b], [a], 0.0
    return op, [to], [a, b] if op == ca.OP_INPUT or binary(op) else [a], 0.0


def binary(op: int) -> bool:
    """Whether an operation has two arguments."""
    return op in _BINARY


_BINARY = frozenset({
    ca.OP_ADD, ca.OP_SUB, ca.OP_MUL, ca.OP_DIV, ca.OP_POW, ca.OP_CONSTPOW, ca.OP_LT, ca.OP_LE, ca.OP_EQ, ca.OP_NE, ca.OP_AND,
    ca.OP_OR, ca.OP_FMOD, ca.OP_REMAINDER, ca.OP_COPYSIGN, ca.OP_IF_ELSE_ZERO, ca.OP_FMIN, ca.OP_FMAX, ca.OP_ATAN2, ca.OP_HYPOT,
    ca.OP_LIFT, ca.OP_PRINTME})


def _asked(function: ca.Function) -> Tape:
    count = function.n_instructions()
    op, to, a, b = (np.zeros(count, dtype=np.int64) for _ in range(4))
    value = np.zeros(count)
    for k in range(count):
        op[k], targets, sources, value[k] = _said(function, k)
        if op[k] == ca.OP_OUTPUT:
            (to[k], b[k]), a[k] = targets, sources[0]
        elif op[k] != ca.OP_CALL:
            to[k] = targets[0]
            a[k], b[k] = (*sources, 0, 0)[:2]
    return Tape(op, to, a, b, value, _slots(op, to))
