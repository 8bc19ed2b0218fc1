"""Strict reading of YAML 1.2 problem files: plain Python values, and the location of every key and value.

Scalars follow the core schema of YAML 1.2.2 (section 10.3): ``1e-3`` is a number; ``on``, ``yes``, ``no`` are text. Features
of YAML that mislead a reader of the file are refused: duplicate keys, keys that are not text, anchors,
aliases, merge keys, tags, several documents and ``.nan``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError

from ocp.errors import ProblemError

Key = str | int
KeyPath = tuple[Key, ...]

MAX_DEPTH = 64
MAX_CHARACTERS = 1_000_000
MAX_VALUES = 50_000  # a second of reading for every few thousand

_SIMPLE_KEY = re.compile(r"[^\W\d][\w-]*")


@dataclass(frozen=True)
class Mark:
    """A location in the text; ``line`` and ``column`` count from 1."""

    line: int
    column: int


@dataclass(frozen=True)
class Entry:
    """Where one node stands: its key (None for list items and the root) and its value.

    ``content`` is the location of the first character of a scalar whose characters appear unchanged on one line (plain, or
    quoted without escapes), so that an offset into the value is an offset in the line; None otherwise.
    """

    key: Mark | None
    value: Mark
    content: Mark | None = None


@dataclass(frozen=True)
class Source:
    """A YAML document: its name, its text, the plain Python ``tree`` and the location of every node.

    ``origins`` names, for values that did not come from the text, where they did come from. ``moved``: by the location in the tree
    of what stands elsewhere in the text, as entries of a list behind one that is left out, its key or index there. ``copies``: by
    the location of what was made of another part, the location of that.
    """

    name: str
    text: str
    tree: Any
    entries: Mapping[KeyPath, Entry]
    origins: Mapping[KeyPath, str] = field(default_factory=dict)
    moved: dict[KeyPath, str | int] = field(default_factory=dict)
    copies: Mapping[KeyPath, KeyPath] = field(default_factory=dict)

    def at(self, path: KeyPath) -> Any:
        """The part of the tree at a path; None where there is none."""
        node = self.tree
        for key in path:
            known = isinstance(node, dict) and key in node or isinstance(node, list) and isinstance(key, int) and key < len(node)
            node = node[key] if known else None
        return node

    def left_out(self, path: KeyPath) -> Any:
        """Take a part out of the tree; returns it, None where it is gone already."""
        parent, found = self.at(path[:-1]), self.at(path)
        if isinstance(parent, dict):
            parent.pop(path[-1], None)
        if isinstance(parent, list) and isinstance(i := path[-1], int) and i < len(parent):  # those behind it move up
            del parent[i]
            here = [self.moved.get((*path[:-1], k), k) for k in range(len(parent) + 1)]
            inner = {p: old for p, old in self.moved.items() if p[:len(path)][:-1] == path[:-1] and len(p) > len(path)}
            for p in inner:
                del self.moved[p]
            self.moved.update({(*path[:-1], k): old for k, old in enumerate([*here[:i], *here[i + 1:]])})
            self.moved.update({(*path[:-1], k - (k > i), *p[len(path):]): old for p, old in inner.items()
                               if isinstance(k := p[len(path) - 1], int) and k != i})
        return found

    def renamed(self, path: KeyPath, name: str) -> None:
        """Put what is under a key under another."""
        parent = self.at(path[:-1])
        parent[name] = parent.pop(path[-1])
        self.moved[(*path[:-1], name)] = path[-1]

    def written(self, path: KeyPath) -> KeyPath:
        """The path in the text of what is at a path in the tree."""
        if known := [k for k in range(1, len(path) + 1) if path[:k] in self.copies]:
            path = (*self.copies[path[:known[-1]]], *path[known[-1]:])
        return tuple(self.moved.get(path[:k + 1], key) for k, key in enumerate(path))

    def where(self, path: KeyPath, offset: int | None = None, *, at_key: bool = False) -> str:
        """The location of a node in words, ``file.yaml:12:5: phase.bounds.force``.

        ``offset`` counts characters into a scalar; ``at_key`` points at the key instead of the value. A node that is not
        in the file is placed at its nearest ancestor.
        """
        path = self.written(path)
        label = format_path(path)
        for length in range(len(path), -1, -1):
            if path[:length] in self.origins:
                return f"{self.origins[path[:length]]}: {label}" if label else self.origins[path[:length]]
            entry = self.entries.get(path[:length])
            if entry is None:
                continue
            mark = entry.key if at_key and entry.key is not None else entry.value
            if offset is not None and entry.content is not None and length == len(path):
                mark = Mark(entry.content.line, entry.content.column + offset)
            key_path = f"{self.name}:{mark.line}:{mark.column}"
            return f"{key_path}: {label}" if label else key_path
        return f"{self.name}: {label}" if label else self.name

    def cut_at_comma(self, path: KeyPath) -> bool:
        """Whether a key is likely what follows the comma of an unquoted expression: ``b`` in ``{y: max(a, b)}`` without a value."""
        entry, tree = self.entries.get(path), self.tree
        if entry is None or entry.key is None or entry.key != entry.value:
            return False
        for key in path[:-1]:
            tree = tree[key]
        keys = list(tree)
        before = keys[: keys.index(path[-1])]
        mark = self.entries[(*path[:-1], before[-1])].key if before else None
        return mark is not None and mark.line == entry.key.line


def format_path(path: KeyPath) -> str:
    """``("phase", "costs", 0, "running")`` as ``phase.costs[0].running``."""
    words = ""
    for key in path:
        if isinstance(key, int):
            words += f"[{key}]"
        elif _SIMPLE_KEY.fullmatch(key):
            words += f".{key}" if words else key
        else:
            words += f'["{key}"]'
    return words


def read_source(path: Path) -> Source:
    """Read a file in UTF-8. Raises ProblemError when it cannot be read or is not strict YAML."""
    return parse_source(read_text(path), str(path))


def read_text(path: Path) -> str:
    """The text of a file in UTF-8. Raises ProblemError with its location when it cannot be read."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ProblemError(f"cannot read the file: {error.strerror or error}", where=str(path)) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ProblemError("the file is not UTF-8 text", where=f"{path}:{line}") from None


def parse_source(text: str, name: str) -> Source:
    """Parse YAML text; ``name`` stands for the file in messages. Raises ProblemError with line and column."""
    if len(text) > MAX_CHARACTERS:
        raise ProblemError(f"{len(text)} characters; at most {MAX_CHARACTERS} are read", where=name)
    reader = _Reader(name, re.split(r"\r\n|\r|\n", text))
    try:
        for event in YAML(typ="safe", pure=True).parse(text):
            reader.take(event)
    except MarkedYAMLError as error:
        raise _syntax_error(error, name, reader.lines) from None
    except ReaderError as error:
        character = chr(error.character) if isinstance(error.character, int) else error.character
        line = text.count("\n", 0, max(text.find(character), 0)) + 1
        raise ProblemError(f"the character {character!r} is not allowed in YAML", where=f"{name}:{line}") from None
    except YAMLError as error:
        raise ProblemError(f"not valid YAML: {error}", where=name) from None
    if not reader.documents:
        raise ProblemError("the file is empty; expected a mapping such as 'name: ...'", where=name)
    return Source(name, text, reader.root, reader.entries)


# Errors of the parser, and their commonest cause: an expression that is not in quotes.
_HINTS = (
    (("'\\t'",), "indent with spaces, tabs are not allowed"),
    (("mapping values are not allowed",), "check the indentation, and put text that contains ': ' in quotes"),
    (("expected ',' or",), "inside {..} and [..] put an expression that contains a comma, a colon, a quote or a bracket in quotes, "
                           "and close every bracket"),
    (("cannot start any token", "expected alphabetic or numeric"), "put the whole expression in quotes"),
    (("expected <block end>",), "check the indentation, and put an expression that starts with a bracket or a quote in quotes as a "
                                "whole"),
)


def _syntax_error(error: MarkedYAMLError, name: str, lines: list[str]) -> ProblemError:
    mark = error.problem_mark or error.context_mark
    key_path = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
    problem = error.problem or "cannot be read"
    hint = next((f"; {words}" for parts, words in _HINTS if any(part in problem for part in parts)), "")
    if not hint and mark and mark.line < len(lines) and lines[mark.line].lstrip().startswith(("%", "@", "`")):
        hint = "; put the text in quotes"
    context = f" ({error.context} that starts at line {error.context_mark.line + 1})" \
        if error.context and error.context_mark and error.context_mark.line != mark.line else ""
    return ProblemError(f"not valid YAML: {problem}{context}{hint}", where=key_path)


def _integer(text: str) -> int:
    if len(text) > 300:
        raise ValueError(f"a whole number of {len(text)} digits is too large")
    return int(text)


def _finite(text: str) -> float:
    if abs(value := float(text)) == float("inf"):
        raise ValueError(f"{text} is too large for a double-precision number")
    return value


def _not_a_number(text: str) -> NoReturn:
    raise ValueError(".nan is not a number that a problem can use")


_SCALARS: tuple[tuple[re.Pattern[str], Callable[[str], Any]], ...] = (
    (re.compile(r"null|Null|NULL|~|"), lambda text: None),
    (re.compile(r"true|True|TRUE"), lambda text: True),
    (re.compile(r"false|False|FALSE"), lambda text: False),
    (re.compile(r"[-+]?[0-9]+"), _integer),
    (re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+"), lambda text: int(text, 0)),
    (re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"), _finite),
    (re.compile(r"[-+]?\.(inf|Inf|INF)"), lambda text: float(text.replace(".", ""))),
    (re.compile(r"\.(nan|NaN|NAN)"), _not_a_number))


@dataclass
class _Open:
    """A collection being read; ``key`` is the key whose value comes next."""

    node: dict[str, Any] | list[Any]
    path: KeyPath
    key: str | None = None
    key_mark: Mark | None = None


class _Reader:
    """Builds the tree from parser events with a stack of its own, so that depth costs no recursion."""

    def __init__(self, name: str, lines: list[str]):
        self.name, self.lines = name, lines
        self.entries: dict[KeyPath, Entry] = {}
        self.stack: list[_Open] = []
        self.root: Any = None
        self.documents = 0

    def take(self, event: Any) -> None:
        kind = type(event).__name__
        if kind == "DocumentStartEvent":
            self._document(event)
        elif kind == "AliasEvent":
            raise self._error(event, f"aliases (*{event.anchor}) are not supported; write the value out, use 'constants', "
                                     "or put an expression that starts with * in quotes")
        elif kind in ("ScalarEvent", "SequenceStartEvent", "MappingStartEvent"):
            self._node(event, kind)
        elif kind in ("SequenceEndEvent", "MappingEndEvent"):
            self.stack.pop()

    def _document(self, event: Any) -> None:
        self.documents += 1
        if self.documents > 1:
            raise self._error(event, "a second document starts here ('---'); a problem file holds one")
        if event.version and tuple(event.version) != (1, 2):
            raise self._error(event, f"YAML {'.'.join(map(str, event.version))} was asked for; problem files are YAML 1.2")

    def _node(self, event: Any, kind: str) -> None:
        if event.anchor:
            raise self._error(event, f"anchors (&{event.anchor}) are not supported; write the value out, or use 'constants'")
        if event.tag and not (kind == "ScalarEvent" and event.tag == "!"):
            raise self._error(event, f"tags ({event.tag}) are not supported; quote text, leave numbers unquoted")
        top = self.stack[-1] if self.stack else None
        mark = Mark(event.start_mark.line + 1, event.start_mark.column + 1)
        if top is not None and isinstance(top.node, dict) and top.key is None:
            self._take_key(event, kind, top, mark)
            return
        path = () if top is None else (*top.path, top.key if top.key is not None else len(top.node))
        value: Any = {} if kind == "MappingStartEvent" else [] if kind == "SequenceStartEvent" else self._scalar(event)
        if value is None and not event.value and top and top.key_mark:
            mark = top.key_mark  # the parser locates an absent value at whatever comes next
        self.entries[path] = Entry(top.key_mark if top else None, mark, self._content(event, value, mark))
        if len(self.entries) > MAX_VALUES:
            raise self._error(event, f"more than {MAX_VALUES} values; large matrices go into CSV files")
        if top is None:
            self.root = value
        elif isinstance(top.node, dict):
            assert top.key is not None
            top.node[top.key] = value
            top.key = top.key_mark = None
        else:
            top.node.append(value)
        if kind != "ScalarEvent":
            if len(self.stack) >= MAX_DEPTH:
                raise self._error(event, f"nested deeper than {MAX_DEPTH} levels")
            self.stack.append(_Open(value, path))

    def _take_key(self, event: Any, kind: str, top: _Open, mark: Mark) -> None:
        if kind != "ScalarEvent":
            raise self._error(event, "a key must be text, not a list or mapping")
        key = self._scalar(event)
        if key == "<<" and event.style is None:
            raise self._error(event, "merge keys (<<) are not supported; write the entries out")
        if not isinstance(key, str):
            shown = repr(event.value) if event.value else "the empty key"
            raise self._error(event, f"a key must be text; put {shown} in quotes if it is meant as one")
        if key in top.node:
            first = self.entries[(*top.path, key)].key
            assert first is not None
            key_path = format_path((*top.path, key))
            raise self._error(event, f"{key_path}: this key was already given at line {first.line}")
        top.key, top.key_mark = key, mark

    def _scalar(self, event: Any) -> Any:
        text = event.value
        if event.style is not None or event.tag == "!":
            return text
        for pattern, read in _SCALARS:
            if pattern.fullmatch(text):
                try:
                    return read(text)
                except ValueError as error:
                    raise self._error(event, str(error)) from None
        return text

    def _content(self, event: Any, value: Any, mark: Mark) -> Mark | None:
        if not isinstance(value, str) or mark.line > len(self.lines):
            return None
        start = mark.column - 1 + (1 if event.style in ("'", '"') else 0)
        same = self.lines[mark.line - 1][start : start + len(value)] == value
        return Mark(mark.line, start + 1) if same and event.style not in ("|", ">") else None

    def _error(self, event: Any, message: str) -> ProblemError:
        return ProblemError(message, where=f"{self.name}:{event.start_mark.line + 1}:{event.start_mark.column + 1}")
