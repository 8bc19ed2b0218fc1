"""Shared libraries for Linux on x86-64 from ready machine code, without a linker: what CasADi can load and call.

The least that a dynamic loader asks for: one segment to read and execute (names, symbols, code), one to write (the dynamic section,
which some loaders fill in), no sections. Layout and constants: System V ABI, generic part (chapters 4 and 5) and AMD64 supplement.
Beside the function itself the library exports what CasADi asks of external functions: numbers, names and shapes of inputs and
outputs (dense), and lengths of work arrays.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

_PAGE = 0x1000
_HEADERS = 64 + 4 * 56
Port = tuple[str, int, int]
"""Name, rows and columns of an input or output."""


def shared_library(symbol: str, code: bytes, work: Sequence[int], inputs: Sequence[Port], outputs: Sequence[Port]) -> bytes:
    """The library's file. code: of ``int symbol(arg, res, iw, w, mem)``, wherever it lies; work: lengths of arg, res, iw, w."""
    functions = {symbol: code, f"{symbol}_work": _lengths(work)}
    for end, ports in (("in", inputs), ("out", outputs)):
        functions[f"{symbol}_n_{end}"] = bytes.fromhex("B8") + struct.pack("<i", len(ports)) + b"\xc3"  # mov eax, n; ret
        width = max((len(name.encode()) for name, _, _ in ports), default=0) + 1
        functions[f"{symbol}_name_{end}"] = _table([name.encode().ljust(width, b"\0") for name, _, _ in ports], width)
        functions[f"{symbol}_sparsity_{end}"] = _table([struct.pack("<3q", rows, columns, 1) for _, rows, columns in ports], 24)
    return _file(functions)


def _lengths(work: Sequence[int]) -> bytes:
    """int work(long long* arg, long long* res, long long* iw, long long* w): a number wherever there is an address."""
    # test; jz; mov qword [pointer], length -- for rdi, rsi, rdx, rcx
    stores = ("4885FF 7407 48C707", "4885F6 7407 48C706", "4885D2 7407 48C702", "4885C9 7407 48C701")
    code = b"".join(bytes.fromhex(store) + struct.pack("<i", length) for store, length in zip(stores, work, strict=True))
    return code + bytes.fromhex("31C0 C3")


def _table(rows: Sequence[bytes], width: int) -> bytes:
    """const void* row(long long i): the address of row i of the table behind the code."""
    # lea rax, [rip + 12]; imul rdi, rdi, width; add rax, rdi; ret; nop
    return bytes.fromhex("488D050C000000 4869FF") + struct.pack("<i", width) + bytes.fromhex("4801F8 C3 90") + b"".join(rows)


def _file(functions: Mapping[str, bytes]) -> bytes:
    names = b"\0" + b"".join(name.encode() + b"\0" for name in functions)
    count = len(functions) + 1
    # One bucket: every symbol is looked at, and no hash is needed.
    table = struct.pack(f"<{3 + count}I", 1, count, 1, 0, *range(2, count), 0)
    at_table = _HEADERS
    at_symbols = _round(at_table + len(table), 8)
    at_names = at_symbols + 24 * count
    at_code = _round(at_names + len(names), 64)
    symbols, code, name_at = bytes(24), b"", 1
    for name, body in functions.items():
        # global function, of some section: the number only has to differ from that of undefined symbols
        symbols += struct.pack("<IBBHQQ", name_at, 0x12, 0, 1, at_code + len(code), len(body))
        name_at += len(name.encode()) + 1
        code += body.ljust(_round(len(body), 64), b"\xcc")
    text_end = at_code + len(code)
    at_dynamic = _round(text_end, _PAGE)
    entries = ((4, at_table), (5, at_names), (6, at_symbols), (10, len(names)), (11, 24), (0, 0))
    dynamic = b"".join(struct.pack("<2Q", tag, value) for tag, value in entries)
    header = b"\x7fELF" + bytes((2, 1, 1)) + bytes(9) + struct.pack(
        "<2HI3QI6H", 3, 62, 1, 0, 64, 0, 0, 64, 56, 4, 0, 0, 0)
    segments = ((1, 5, 0, text_end, _PAGE), (1, 6, at_dynamic, len(dynamic), _PAGE), (2, 6, at_dynamic, len(dynamic), 8),
                (0x6474E551, 6, 0, 0, 16))  # load, load, dynamic, and a stack that is not executable
    program = b"".join(struct.pack("<2I6Q", kind, flags, at, at, at, size, size, align)
                       for kind, flags, at, size, align in segments)
    text = (header + program + table).ljust(at_symbols, b"\0") + symbols + names
    return (text.ljust(at_code, b"\0") + code).ljust(at_dynamic, b"\0") + dynamic


def _round(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
