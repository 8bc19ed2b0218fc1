"""The page of all keys of files, made from the declarations of the file language, mapping by mapping."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args, get_origin

from pydantic_core import PydanticUndefined

from ocp.app.files.control.ik import IKFile
from ocp.app.files.control.wbc_schema import WbcFile
from ocp.app.files.problem.schema import KINDS
from ocp.app.files.syntax.findings import records
from ocp.app.files.syntax.parts import Part, row_of


def mappings() -> list[type[Part]]:
    """Every mapping that files may contain, from whole files inwards."""
    found: list[type[Part]] = [*KINDS, IKFile, WbcFile]
    for kind in found:  # grows on the way
        inner = [one for field in kind.model_fields.values() for one in records(field.annotation)]
        found += [one for one in dict.fromkeys(inner) if issubclass(one, Part) and one not in found]
    return found


def keys_page() -> str:
    """The page: a table for each mapping."""
    parts = ["# Keys of files\n", "Each table is a mapping; without a default a key must be given. Numbers may be expressions\n"
             "of the constants, and angles `{deg: 45}`.\n"]
    for kind in sorted(mappings(), key=lambda one: one.__name__):
        parts += [f"## {kind.__name__}\n", " ".join((kind.__doc__ or "").split()) + "\n"]
        parts += ["| key | what | default |", "|---|---|---|"]
        parts += [f"| `{key}` | {words} | {default} |" for key, words, default in _rows(kind)]
        parts.append("")
    return "\n".join(parts)


def _rows(kind: type[Part]) -> Iterator[tuple[str, str, str]]:
    for key, field in kind.model_fields.items():
        value = field.get_default(call_default_factory=True)
        default = "" if value is PydanticUndefined else "its own defaults" if isinstance(value, Part) else f"`{value}`"
        words = [field.description or "", *_choices(field.annotation)]
        if limits := row_of(kind, key).limits():
            words.append(f"must {limits}")
        yield key, "; ".join(words).replace("|", "\\|"), default


def _choices(annotation: object) -> list[str]:
    """The words that a key takes where it takes some words only."""
    if get_origin(annotation) is Literal:
        return [f"one of {', '.join(map(str, get_args(annotation)))}"]
    return [one for inner in get_args(annotation) for one in _choices(inner)]
