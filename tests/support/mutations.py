"""Seeded damage to problem files and robot files, as editors, disks and strangers do it."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

ODD_VALUES = (
    "null", "true", "[]", "{}", "[1, [2, {a: b}]]", "-1", "0", "1e400", "9" * 300, ".inf", "-.inf", ".nan", "''", "\"\\0\"",
    "{deg: x}", "[null, null]", "2026-11-22", "0x1F", "*a", "&a 1", "!!python/object:os.system ls", "a: b", "${x}",
    "<b>x</b>", "../../evil", "=1+1", "t", "nan", "1/0", "(" * 200, "'" + "-" * 300 + "1'", "[" * 70 + "]" * 70,
    "1e308*1e308", "x**x**x**x", "\ufeff", "\u202e", "a" * 5000,
)
ODD_KEYS = ("? [a, b] ", "? {a: b} ", "<b>", "null", "", "1.5", "true", "x" * 5000, "'a: b'", "\"\\0\"", "<<", "others", "../..")
ODD_ATTRIBUTES = ("", " ", "nan", "inf", "-inf", "1e999", "9" * 400, "1,5", "a", "1 2", "1 2 3 4", "0 0 0", "-1", "0", "${x}",
                  "&#0;", "&bomb;", "<", "../../evil", "package://nowhere/x.stl", "1_0", "\u0661", "true")


def mutate(data: bytes, kind: str, rng: random.Random) -> bytes:
    """One to three mutations of a file of ``kind`` yaml, xml, csv or mesh."""
    ways = (*COMMON, *{"yaml": YAML, "xml": XML, "csv": CSV, "mesh": MESH}[kind])
    for _ in range(rng.choice((1, 1, 2, 3))):
        data = rng.choice(ways)(data, rng)
    return data


# ---- any file -------------------------------------------------------------------------------------------------------------
def _flip(data: bytes, rng: random.Random) -> bytes:
    if not data:
        return data
    i = rng.randrange(len(data))
    return data[:i] + bytes((data[i] ^ (1 << rng.randrange(8)),)) + data[i + 1 :]


def _insert(data: bytes, rng: random.Random) -> bytes:
    i = rng.randrange(len(data) + 1)
    piece = rng.choice((b"\0", b"\xff\xfe", b"\t", b"\r", b"{", b"]", b"'", b'"', b"<", b"&", b":", b"#", b"\xc2\x85", b"%", b"@",
                        rng.randbytes(8)))
    return data[:i] + piece + data[i:]


def _cut(data: bytes, rng: random.Random) -> bytes:
    i, j = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    return data[:i] + data[rng.choice((j, min(i + 20, len(data)))) :]


def _lines(data: bytes, rng: random.Random) -> bytes:
    lines = data.splitlines(keepends=True) or [b""]
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    way = rng.randrange(4)
    if way == 0:
        del lines[i]
    elif way == 1:
        lines.insert(j, lines[i])
    elif way == 2:
        lines[i], lines[j] = lines[j], lines[i]
    else:
        lines[i] = rng.choice((b" ", b"    ", b"\t")) + lines[i]
    return b"".join(lines)


def _numbers(data: bytes, rng: random.Random) -> bytes:
    """Another number in the place of one."""
    digits = [i for i in range(len(data)) if data[i : i + 1].isdigit()]
    if not digits:
        return data
    i = rng.choice(digits)
    return data[:i] + rng.choice((b"-1", b"0", b"1e300", b"1e-300", b"nan", b"9" * 30, b".5", b"e")) + data[i + 1 :]


def _number(data: bytes, rng: random.Random) -> bytes:
    """Another number in the place of a whole one, so that the file mostly stays readable."""
    spots = list(re.finditer(rb"(?<![\w.])-?\d+(\.\d*)?(e[-+]?\d+)?(?![\w.])", data))
    if not spots:
        return data
    spot = rng.choice(spots)
    odd = (b"0", b"1", b"-" + spot[0].lstrip(b"-"), b"1e308", b"-1e308", b"1e-308", b"1e9", b"1e-9", b"1e20", b"3", b"0.5", b"1e4")
    return data[: spot.start()] + rng.choice(odd) + data[spot.end() :]


def _whole(data: bytes, rng: random.Random) -> bytes:
    return rng.choice((b"\xef\xbb\xbf" + data, data.replace(b"\n", b"\r\n"), data.replace(b"\n", b"\r"), data[:1], data * 2,
                       data.decode("utf-8", "replace").encode("utf-16"), b"\n---\n".join((data, data))))


COMMON: tuple[Callable[[bytes, random.Random], bytes], ...] = (_flip, _insert, _cut, _lines, _numbers, _number, _number, _number,
                                                                      _whole)


# ---- YAML -----------------------------------------------------------------------------------------------------------------
def _value(data: bytes, rng: random.Random) -> bytes:
    """An odd value after a colon, or in place of what stands there."""
    spots = [i for i in range(len(data)) if data[i : i + 2] == b": "]
    if not spots:
        return data
    i = rng.choice(spots) + 2
    j = i
    while j < len(data) and data[j : j + 1] not in b",}\n":
        j += 1
    return data[:i] + rng.choice(ODD_VALUES).encode() + data[j:]


def _key(data: bytes, rng: random.Random) -> bytes:
    spots = [i for i in range(len(data)) if data[i : i + 2] == b": "]
    if not spots:
        return data
    j = rng.choice(spots)
    i = j
    while i > 0 and data[i - 1 : i] not in b" {\n":
        i -= 1
    return data[:i] + rng.choice(ODD_KEYS).encode() + data[j:]


def _swap_values(data: bytes, rng: random.Random) -> bytes:
    """The values of two lines change places, whatever their types."""
    lines = data.split(b"\n")
    spots = [i for i, line in enumerate(lines) if b": " in line]
    if len(spots) < 2:
        return data
    i, j = rng.sample(spots, 2)
    (a, x), (b, y) = lines[i].split(b": ", 1), lines[j].split(b": ", 1)
    lines[i], lines[j] = a + b": " + y, b + b": " + x
    return b"\n".join(lines)


YAML = (_value, _value, _value, _key, _key, _swap_values)


# ---- XML ------------------------------------------------------------------------------------------------------------------
def _attribute(data: bytes, rng: random.Random) -> bytes:
    quotes = [i for i in range(len(data)) if data[i : i + 2] == b'="']
    if not quotes:
        return data
    i = rng.choice(quotes) + 2
    j = data.find(b'"', i)
    return data if j < 0 else data[:i] + rng.choice(ODD_ATTRIBUTES).encode() + data[j:]


def _swap_attributes(data: bytes, rng: random.Random) -> bytes:
    parts = data.split(b'"')
    if len(parts) < 5:
        return data
    i, j = (2 * rng.randrange(len(parts) // 2) + 1 for _ in range(2))
    parts[i], parts[j] = parts[j], parts[i]
    return b'"'.join(parts)


def _head(data: bytes, rng: random.Random) -> bytes:
    return rng.choice((
        b'<?xml version="1.0" encoding="klingon"?>\n', b'<?xml version="1.0" encoding="utf-16"?>\n', b'<?xml version="9"?>\n',
        b'<!DOCTYPE r [<!ENTITY bomb "ha">]>\n', b'<!DOCTYPE r SYSTEM "file:///etc/passwd">\n',
        b'<!DOCTYPE r [<!ENTITY % bomb SYSTEM "http://127.0.0.1/">%bomb;]>\n', b"<a>" * 2000)) + data


def _tag(data: bytes, rng: random.Random) -> bytes:
    names = (b"link", b"joint", b"inertial", b"origin", b"axis", b"limit", b"mimic", b"parent", b"child", b"robot", b"mass")
    a, b = rng.choice(names), rng.choice((*names, b"xacro:macro", b"sdf", b"b"))
    return data.replace(b"<" + a, b"<" + b, 1).replace(b"</" + a, b"</" + b, 1)


XML = (_attribute, _attribute, _attribute, _swap_attributes, _head, _tag)


# ---- tables and meshes ----------------------------------------------------------------------------------------------------
def _cell(data: bytes, rng: random.Random) -> bytes:
    cells = data.split(b",")
    odd = (b"", b"nan", b"inf", b"1e308", b"-1e308", b"1;5", b'"', b"\xff", b"x", b"0x1", b"1_0")
    cells[rng.randrange(len(cells))] = rng.choice(odd)
    return b",".join(cells)


def _word(data: bytes, rng: random.Random) -> bytes:
    """Four bytes of a binary file, which may be a number or an index, are others."""
    i = rng.randrange(max(len(data) - 4, 1))
    odd = (b"\xff\xff\xff\xff", b"\xff\xff\x7f\x7f", b"\0\0\xc0\x7f", b"\0\0\0\0", rng.randbytes(4))
    return data[:i] + rng.choice(odd) + data[i + 4:]


CSV = (_cell, _cell, _cell)
MESH = (_word, _word, _word)
