"""Machine code for x86-64 from a tape, one fixed pattern of bytes an operation, all operations of a kind at a time.

The simplest code generator that there is ("copy and patch", Xu and Kjolstad 2021, without a compiler to make the patterns): every
slot of the tape has its place in the work array ``w``, an operation loads its first argument into a register, applies the second
and stores the result. A result that the next operation starts from stays in the register, and is not stored if nobody else reads
it. The code is what CasADi's virtual machine does without the machine: about 0.3e-6 s an operation to make once the tape
is there, and an eighth to a third of the interpreter's time to run (measurements in `dynamics.kernels.machine`).

    frame, from w:  1.0 | sign bit | all other bits | slots | addresses of inputs | addresses of results | room for unwanted results

Registers: rbx the frame (128 bytes in, so that the first 32 places are within one signed byte), r12 the table of libm's functions,
r13 and r14 the input and the result in use. Convention: System V (Linux, macOS).
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from typing import NamedTuple

import casadi as ca
import numpy as np

from dynamics.kernels.library import NAMES, ONE, TWO
from dynamics.kernels.tape import Tape

_BIAS = 128
_ONE, _SIGN, _REST, _FIRST = 0, 1, 2, 3


def available() -> bool:
    """Whether this machine runs such code."""
    return platform.machine().lower() in ("x86_64", "amd64") and sys.platform in ("linux", "darwin") and sys.maxsize > 2**32


class _Stencil(NamedTuple):
    """Bytes of an operation between loading and storing; ``holes``: (offset, width, field) to be filled in."""

    code: bytes
    holes: tuple[tuple[int, int, str], ...] = ()


def _stencil(*parts: str) -> _Stencil:
    """From hexadecimal digits and names of fields: a, b, p are places of the frame or offsets (4 bytes), v a number (8 bytes)."""
    code, holes = b"", []
    for part in parts:
        if part in ("a", "b", "p", "v"):
            width = 8 if part == "v" else 4
            holes.append((len(code), width, part))
            code += bytes(width)
        else:
            code += bytes.fromhex(part)
    return _Stencil(code, tuple(holes))


def _place(index: int) -> str:
    """Displacement of one of the first places of the frame, as hexadecimal digits of one byte."""
    return (8 * index - _BIAS).to_bytes(1, "little", signed=True).hex()


# xmm0 holds the first argument before, and the result after; xmm1 ... xmm3 and rax are free.
_ONES = f"F20F104B{_place(_ONE)} 0F54C1"  # xmm1 = 1.0; and xmm0, xmm1: a mask becomes 1 or 0
_NOT_ZERO = "0F57C9 F20FC2C104"  # xmm0 = mask of xmm0 != 0
_SECOND = "F20F108B"  # movsd xmm1, [b]
_SELECTED = "0F28D8 F20FC2DB03 0F56D3 0F54CA 0F55D0 0F56D1 0F28C2"
_COMPARED = {ca.OP_EQ: "00", ca.OP_LT: "01", ca.OP_LE: "02", ca.OP_NE: "04"}
_ARITHMETIC = {ca.OP_ADD: 0x58, ca.OP_MUL: 0x59, ca.OP_SUB: 0x5C, ca.OP_DIV: 0x5E}
_LOAD, _STORE = 0x10, 0x11
_FETCH = 1000  # added to the codes of inputs and outputs whose address is not in its register yet


def _stencils() -> dict[int, _Stencil]:
    entry = {name: (8 * k).to_bytes(4, "little").hex() for k, name in enumerate(NAMES)}
    found = {
        ca.OP_ASSIGN: _stencil(), ca.OP_LIFT: _stencil(),
        ca.OP_SQ: _stencil("F20F59C0"), ca.OP_TWICE: _stencil("F20F58C0"), ca.OP_SQRT: _stencil("F20F51C0"),
        ca.OP_NEG: _stencil(f"F20F104B{_place(_SIGN)} 0F57C1"), ca.OP_FABS: _stencil(f"F20F104B{_place(_REST)} 0F54C1"),
        ca.OP_INV: _stencil(f"0F28C8 F20F1043{_place(_ONE)} F20F5EC1"),
        ca.OP_NOT: _stencil("0F57C9 F20FC2C100", _ONES),
        ca.OP_IF_ELSE_ZERO: _stencil(_NOT_ZERO, _SECOND, "b", "0F54C1"),
        ca.OP_AND: _stencil(_NOT_ZERO, "0F28D0 F20F1083", "b", _NOT_ZERO, "0F54C2", _ONES),
        ca.OP_OR: _stencil(_NOT_ZERO, "0F28D0 F20F1083", "b", _NOT_ZERO, "0F56C2", _ONES),
        # all but the sign of the first, the sign of the second
        ca.OP_COPYSIGN: _stencil(f"F20F104B{_place(_REST)} 0F54C1 F20F1053{_place(_SIGN)}", _SECOND, "b", "0F54D1 0F56C2"),
        # xmm2 = mask of x < 0 or 0 < x, xmm1 = 1 with the sign of x: x itself remains where the mask is empty (zeros, NaN)
        ca.OP_SIGN: _stencil("0F57C9 0F28D0 F20FC2D101 0F28D9 F20FC2D801 0F56D3", f"F20F104B{_place(_SIGN)} 0F54C8",
                             f"F20F105B{_place(_ONE)} 0F56CB 0F54CA 0F55D0 0F56CA 0F28C1"),
        # xmm2 = mask of b < a (a < b), or a NaN: there b, else a
        ca.OP_FMIN: _stencil(_SECOND, "b", "0F28D1 F20FC2D001", _SELECTED),
        ca.OP_FMAX: _stencil(_SECOND, "b", "0F28D0 F20FC2D101", _SELECTED),
        ca.OP_CONST: _stencil("48B8", "v", "66480F6EC0"),
        ca.OP_INPUT: _stencil("F2410F1085", "b"), ca.OP_INPUT + _FETCH: _stencil("4C8BAB", "p", "F2410F1085", "b"),
        ca.OP_OUTPUT: _stencil("F2410F1186", "b"), ca.OP_OUTPUT + _FETCH: _stencil("4C8BB3", "p", "F2410F1186", "b"),
    }
    found |= {op: _stencil("F20FC283", "b", predicate, _ONES) for op, predicate in _COMPARED.items()}
    found |= {op: _stencil(f"41FF9424{entry[name]}") for op, name in ONE.items()}
    return found | {op: _stencil(_SECOND, "b", f"41FF9424{entry[name]}") for op, name in TWO.items()}


_STENCILS = _stencils()
KNOWN = frozenset({op for op in _STENCILS if op < _FETCH} | _ARITHMETIC.keys())
"""Operations that can be translated."""
_LENGTHS = np.zeros(2 * _FETCH, dtype=np.int64)
_LENGTHS[list(_STENCILS)] = [len(stencil.code) for stencil in _STENCILS.values()]
_HAS_FIRST = np.ones(2 * _FETCH, dtype=bool)
_HAS_FIRST[[ca.OP_CONST, ca.OP_INPUT]] = False
_HAS_SECOND = np.zeros(2 * _FETCH, dtype=bool)
_HAS_SECOND[[*_ARITHMETIC, *(op for op, stencil in _STENCILS.items() if any(field == "b" for _, _, field in stencil.holes))]] = True
_HAS_SECOND[[op + fetch for op in (ca.OP_INPUT, ca.OP_OUTPUT) for fetch in (0, _FETCH)]] = False
_OPCODE = np.zeros(2 * _FETCH, dtype=np.uint8)
_OPCODE[list(_ARITHMETIC)] = list(_ARITHMETIC.values())


def work_length(tape: Tape, inputs: int, outputs: int, longest: int) -> int:
    """How long ``w`` must be; longest: numbers of the longest output."""
    return _FIRST + tape.slots + inputs + outputs + longest


def translated(functions: Sequence[tuple[Tape, int, int]], library: int, zeros: int) -> tuple[np.ndarray, list[int]]:
    """Machine code [bytes] of functions ``int f(const double** arg, double** res, long long* iw, double* w, int mem)``, and where
    each begins.

    functions: tape, how many inputs and how many outputs; all are done at once. library: address of the table `library.addresses`.
    zeros: address of as many zeros as the longest input has, read where an input has no address. Results without an address go to
    ``w``. The code can lie anywhere, and refers to no data but these two.
    """
    sizes = np.array([len(tape.op) for tape, _, _ in functions])
    slots = np.array([tape.slots for tape, _, _ in functions])
    own = np.repeat(np.arange(len(functions)), sizes)
    op, to, a, b, value = (np.concatenate([np.asarray(getattr(tape, name)) for tape, _, _ in functions])
                           for name in ("op", "to", "a", "b", "value"))
    is_input, is_output = op == ca.OP_INPUT, op == ca.OP_OUTPUT
    first, second = _HAS_FIRST[op], _HAS_SECOND[op]
    # Slots are numbered through all functions; the numbers of inputs, outputs and their elements stay what they are.
    shift = (np.cumsum(slots) - slots)[own]
    a, b, to = np.where(first, a + shift, a), np.where(second, b + shift, b), np.where(is_output, to, to + shift)
    held = np.append(-1, np.where(is_output, a, to))[:-1]  # the slot that xmm0 holds when an operation begins
    swapped = ((op == ca.OP_ADD) | (op == ca.OP_MUL)) & (b == held)
    a[swapped], b[swapped] = b[swapped], a[swapped]
    kept = first & (a == held)
    loaded, stored = first & ~kept, ~is_output & ~_passed_on(to, a, b, first, second, kept, is_output)
    for which, index in ((is_input, a), (is_output, to)):
        places = np.flatnonzero(which)
        op[places[(np.diff(index[places], prepend=-1) != 0) | (np.diff(own[places], prepend=-1) != 0)]] += _FETCH
    arithmetic = _OPCODE[op] != 0
    place = _places(slots, [a[loaded], b[second], to[stored]])
    at_a, at_b, at_to = (place[np.where(which, of, 0)] for which, of in ((first, a), (second, b), (~is_output, to)))
    frames = [_frame(n_in, n_out, 8 * (_FIRST + tape.slots) - _BIAS, library, zeros) for tape, n_in, n_out in functions]
    lengths = np.zeros((len(op), 3), dtype=np.int64)
    lengths[:, 0] = np.where(loaded, _wide(at_a), 0)
    lengths[:, 1] = np.where(arithmetic, _wide(at_b), _LENGTHS[op])
    lengths[:, 2] = np.where(stored, _wide(at_to), 0)
    bodies = np.bincount(own, lengths.sum(axis=1), len(functions)).astype(np.int64)
    wholes = -(-(bodies + [len(before) + len(_AFTER) for before in frames]) // 16) * 16
    begins = np.cumsum(wholes) - wholes
    starts = (np.cumsum(lengths) - lengths.ravel()).reshape(-1, 3)
    starts += (begins + [len(before) for before in frames] - (np.cumsum(bodies) - bodies))[own][:, None]
    code = np.zeros(int(wholes.sum()), dtype=np.uint8)
    for begin, before, body in zip(begins.tolist(), frames, bodies.tolist(), strict=True):
        code[begin : begin + len(before)] = np.frombuffer(before, dtype=np.uint8)
        end = begin + len(before) + body
        code[end : end + len(_AFTER)] = np.frombuffer(_AFTER, dtype=np.uint8)
    _put(code, starts[loaded, 0], _LOAD, at_a[loaded])
    _put(code, starts[arithmetic, 1], _OPCODE[op[arithmetic]], at_b[arithmetic])
    _put(code, starts[stored, 2], _STORE, at_to[stored])
    pointers = _FIRST + slots[own] + np.where(is_input, a, np.array([n_in for _, n_in, _ in functions])[own] + to)
    fields = {"b": np.where(is_input | is_output, 8 * b, at_b), "p": 8 * pointers - _BIAS}
    for kind in np.flatnonzero(np.bincount(op[~arithmetic])).tolist():
        stencil, chosen = _STENCILS[kind], np.flatnonzero(op == kind)
        block = np.tile(np.frombuffer(stencil.code, dtype=np.uint8), (len(chosen), 1))
        for offset, width, field in stencil.holes:
            numbers = value[chosen].astype("<f8") if field == "v" else fields[field][chosen].astype("<i4")
            block[:, offset : offset + width] = numbers.view(np.uint8).reshape(-1, width)
        code[starts[chosen, 1][:, None] + np.arange(len(stencil.code))] = block
    return code, begins.tolist()


def _passed_on(to: np.ndarray, a: np.ndarray, b: np.ndarray, first: np.ndarray, second: np.ndarray, kept: np.ndarray,
               is_output: np.ndarray) -> np.ndarray:
    """Results that are read never, or once, by the next operation, from the register: they need no place in memory."""
    count = len(to)
    k = np.arange(count)
    # Events of a slot one after another; an operation reads (even) before it writes (odd).
    reads = [(slots[which] * (2 * count + 2) + 2 * k[which]) for slots, which in ((a, first), (b, second))]
    events = np.sort(np.concatenate([*reads, (to * (2 * count + 2) + 2 * k + 1)[~is_output]]))
    writes = np.flatnonzero(events & 1)
    readers = np.zeros(count, dtype=np.int64)
    readers[(events[writes] % (2 * count + 2)) >> 1] = np.diff(writes, append=len(events)) - 1
    by_next: np.ndarray = (readers == 1) & np.append(kept, False)[1:]
    return by_next | (readers == 0)


def _places(slots: np.ndarray, used: list[np.ndarray]) -> np.ndarray:
    """Displacement of every slot from the frame's register: those used most come first, where one byte tells it.

    slots: how many each function has.
    """
    total = int(slots.sum())
    function = np.repeat(np.arange(len(slots)), slots)
    rank = np.zeros(total + 1, dtype=np.int64)
    order = np.lexsort((-np.bincount(np.concatenate(used), minlength=total), function))
    rank[order] = np.arange(total) - np.repeat(np.cumsum(slots) - slots, slots)
    return 8 * (_FIRST + rank) - _BIAS


def _wide(displacement: np.ndarray) -> np.ndarray:
    """Bytes of an operation on a place of the frame."""
    return np.where((displacement >= -128) & (displacement < 128), 5, 8)


def _put(body: np.ndarray, starts: np.ndarray, code: int | np.ndarray, displacement: np.ndarray) -> None:
    """Operations of xmm0 with places of the frame: F2 0F code, then the displacement in one byte or in four."""
    near = _wide(displacement) == 5
    for which, modes, width in ((near, 0x43, 1), (~near, 0x83, 4)):
        block = np.empty((int(which.sum()), 4 + width), dtype=np.uint8)
        block[:, 0], block[:, 1], block[:, 3] = 0xF2, 0x0F, modes
        block[:, 2] = code if isinstance(code, int) else code[which]
        block[:, 4:] = displacement[which].astype("<i4").view(np.uint8).reshape(-1, 4)[:, :width]
        body[starts[which][:, None] + np.arange(4 + width)] = block


# xor eax, eax; add rsp, 8; pop r14, r13, r12, rbx; ret
_AFTER = bytes.fromhex("31C0 4883C408 415E 415D 415C 5B C3")


def _frame(inputs: int, outputs: int, pointers: int, library: int, zeros: int) -> bytes:
    """What comes before the operations: the frame, and addresses put in the place of those that are not given."""
    def four(number: int) -> str:
        return number.to_bytes(4, "little", signed=True).hex()

    def eight(number: int) -> str:
        return number.to_bytes(8, "little").hex()

    # endbr64; push rbx, r12, r13, r14; sub rsp, 8; lea rbx, [rcx + 128]; mov r12, library; mov r11, zeros
    before = [f"F30F1EFA 53 4154 4155 4156 4883EC08 488D99{four(_BIAS)} 49BC{eight(library)} 49BB{eight(zeros)}"]
    for place, bits in ((_ONE, 0x3FF0 << 48), (_SIGN, 1 << 63), (_REST, (1 << 63) - 1)):
        before.append(f"48B8{eight(bits)} 488943{_place(place)}")
    for k in range(inputs + outputs):
        # mov rax, [rdi or rsi + 8 i]; test rax, rax; cmovz rax, r11; mov [pointer], rax
        source = f"488B87{four(8 * k)}" if k < inputs else f"488B86{four(8 * (k - inputs))}"
        if k == inputs:
            before.append(f"4C8D9B{four(pointers + 8 * (inputs + outputs))}")  # lea r11, [room]
        before.append(f"{source} 4885C0 490F44C3 488983{four(pointers + 8 * k)}")
    return bytes.fromhex("".join(before))
