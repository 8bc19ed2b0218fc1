"""XML in which every element knows its line, and typed access to attributes with errors that say where."""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from xml.parsers import expat

from dynamics.errors import ModelError, near


@dataclass(frozen=True)
class Element:
    """One XML element: its tag, attributes, line (1-based), children and stripped text."""

    tag: str
    attributes: Mapping[str, str]
    line: int
    source: str | None
    children: list[Element] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text of the element without surrounding blanks."""
        return "".join(self.pieces).strip()

    def all(self, tag: str) -> list[Element]:
        """The children with this tag, in file order."""
        return [child for child in self.children if child.tag == tag]

    def error(self, where: str | None, message: str) -> ModelError:
        """A ModelError at this element's line; ``where`` names the link or joint it belongs to."""
        return ModelError(message, source=self.source, line=self.line, element=where)


class Notes:
    """Collects what a reader changed or could not carry over; repeated matters become one line with a count."""

    def __init__(self) -> None:
        self._lines: dict[str, list[int]] = {}

    def tell(self, text: str, line: int | None = None) -> None:
        """Record a note about a line of the file."""
        self._lines.setdefault(text, []).extend([] if line is None else [line])

    def lines(self) -> tuple[str, ...]:
        """The notes in order, each with the lines that it concerns."""
        return tuple(_with_lines(text, at) for text, at in self._lines.items())


def _with_lines(text: str, at: list[int]) -> str:
    if not at:
        return text
    return f"line {at[0]}: {text}" if len(at) == 1 else f"line {at[0]} and {len(at) - 1} more: {text}"


class Document(NamedTuple):
    """Content, source name for errors, and path; None where text was given."""

    content: str | bytes
    source: str | None
    path: Path | None


def load(path_or_text: str | os.PathLike[str], what: str) -> Document:
    """Content, source name for errors, and path of a document given as a path or as text (recognised by its ``<``).

    Raises ModelError when the file cannot be read.
    """
    if isinstance(path_or_text, str) and "<" in path_or_text:
        return Document(path_or_text, None, None)
    if isinstance(path_or_text, str) and not path_or_text.strip():
        raise ModelError(f"expected a path or the text of a {what} file, got an empty string")
    path = Path(path_or_text)
    try:
        return Document(path.read_bytes(), str(path), path)
    except OSError as err:
        siblings = sorted(p.name for p in path.parent.iterdir() if p.is_file()) if path.parent.is_dir() else []
        close = difflib.get_close_matches(path.name, siblings, n=3)
        hint = f"; did you mean {' or '.join(repr(c) for c in close)}?" if close else ""
        raise ModelError(f"cannot read the {what} file: {err.strerror or err}{hint}", source=str(path)) from err


def parse(content: str | bytes, source: str | None) -> Element:
    """The root element. Raises ModelError with the line where the text stops being XML."""
    parser = expat.ParserCreate()
    parser.buffer_text = True
    stack: list[Element] = []
    roots: list[Element] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        element = Element(tag, attributes, parser.CurrentLineNumber, source)
        (stack[-1].children if stack else roots).append(element)
        stack.append(element)

    def end(tag: str) -> None:
        stack.pop()

    def text(piece: str) -> None:
        if stack:
            stack[-1].pieces.append(piece)

    def entity(name: str, *_: object) -> None:
        # entities can multiply without bound; no robot file needs them
        raise ModelError(f"declares the XML entity {name!r}; entities are not read", source=source,
                         line=parser.CurrentLineNumber)

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.EntityDeclHandler = text, entity
    try:
        parser.Parse(content, True)
    except expat.ExpatError as err:
        still = f"; <{stack[-1].tag}> opened on line {stack[-1].line} is not closed" if stack else ""
        raise ModelError(f"not well-formed XML: {expat.ErrorString(err.code)}{still}", source=source,
                         line=err.lineno) from err
    except (LookupError, ValueError) as err:  # an encoding that Python does not know, or one of several bytes a character
        raise ModelError(f"{err}; save the file as UTF-8", source=source, line=parser.CurrentLineNumber) from err
    return roots[0]


# ------------------------------------------------------------------------------------------------ typed access
def only(parent: Element, tag: str, where: str) -> Element | None:
    """The one child with this tag, or None. Raises ModelError when there are several."""
    found = parent.all(tag)
    if len(found) > 1:
        raise found[1].error(where, f"<{tag}> appears {len(found)} times (first on line {found[0].line}); expected one")
    return found[0] if found else None


def attribute(element: Element, name: str, where: str | None) -> str:
    """A required, non-empty attribute."""
    if name not in element.attributes:
        given = ", ".join(repr(a) for a in element.attributes) or "none"
        raise element.error(where, f"<{element.tag}> lacks the attribute {name!r} (attributes given: {given})")
    value = element.attributes[name]
    if not value.strip():
        raise element.error(where, f"attribute {name!r} of <{element.tag}> is empty")
    return value


def to_number(text: str, element: Element, where: str | None, what: str, *, infinite: bool = False) -> float:
    """A float from text. Raises ModelError unless it is one plain finite number (infinite: +-inf is welcome too)."""
    try:
        if "_" in text:  # Python reads 1_0 as 10; no robot file means that
            raise ValueError
        value = float(text)
    except ValueError:
        hint = "; run xacro on this file first" if "${" in text or "$(" in text else \
            "; use a decimal point" if "," in text else ""
        raise element.error(where, f"{what} must be a number, got {text!r}{hint}") from None
    if math.isnan(value) or (math.isinf(value) and not infinite):
        raise element.error(where, f"{what} must be a finite number, got {text!r}")
    return value


def number(element: Element, name: str, where: str, default: float | None = None, *, infinite: bool = False) -> float:
    """A number attribute; required when ``default`` is None."""
    if default is not None and name not in element.attributes:
        return default
    return to_number(attribute(element, name, where).strip(), element, where, f"{name!r} of <{element.tag}>",
                     infinite=infinite)


def numbers(element: Element, name: str, count: int, where: str, default: tuple[float, ...] | None = None
            ) -> tuple[float, ...]:
    """An attribute of ``count`` numbers separated by white space; required when ``default`` is None."""
    if default is not None and name not in element.attributes:
        return default
    parts = attribute(element, name, where).split()
    what = f"{name!r} of <{element.tag}>"
    values = tuple(to_number(part, element, where, what) for part in parts)
    if len(values) != count:
        raise element.error(where, f"{what} needs {count} numbers, got {len(values)}: {' '.join(parts)!r}")
    return values


def vocabulary(element: Element, where: str, notes: Notes, *, tags: Collection[str] = (),
               attributes: Collection[str] = ()) -> None:
    """Note every child and attribute that is not read; what looks like a misspelling of a missing one is an error."""
    for child in element.children:
        if child.tag not in tags:
            close = difflib.get_close_matches(child.tag, tags, n=1, cutoff=0.8)
            if close:
                raise child.error(where, f"unknown element <{child.tag}> in <{element.tag}>{near(child.tag, tags)}")
            notes.tell(f"<{child.tag}> in <{element.tag}> is not read", child.line)
    for name in element.attributes:
        if name not in attributes:
            absent = [a for a in attributes if a not in element.attributes]
            if difflib.get_close_matches(name, absent, n=1, cutoff=0.66):
                raise element.error(where, f"unknown attribute {name!r} of <{element.tag}>{near(name, attributes)}")
            notes.tell(f"attribute {name!r} of <{element.tag}> is not read", element.line)
