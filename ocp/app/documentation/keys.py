"""The page of all keys of files, made from the declarations of the file language. Examples are from the gallery."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic_core import PydanticUndefined
from typing_extensions import TypeAliasType

from ocp.app.files.control.ik import IKFile
from ocp.app.files.control.wbc_schema import WbcFile
from ocp.app.files.problem.schema import KINDS, problem_class
from ocp.app.files.syntax.findings import Findings, records
from ocp.app.files.syntax.kinds import kind_of
from ocp.app.files.syntax.parts import Part, row_of
from ocp.app.files.syntax.readable import validated
from ocp.app.files.syntax.yaml_source import read_source
from ocp.app.files.syntax.yaml_text import dump

#: characters of an example; longer values are not shown
LONGEST = 160
#: what stands in brackets in a description and is a unit
UNIT = re.compile(r"^\(?(?:k?g|m|mm|s|rad|N|J|W|Hz|1/s|unit|1$)\b")
TYPE_NAMES = {float: "number", int: "integer", bool: "true, false", str: "text", dict: "mapping", tuple: "list", NoneType: "null"}
#: values of a type, for keys that the gallery does not have
SAMPLES = {"number": "1", "integer": "1", "[x, y, z]": "[0, 0, 1]", "[lower, upper]": "[0, 1]", "number, list": "1",
           "list of [x, y, z]": "[[0, 0, 1], [0, 1, 0]]", "list of number": "[0, 1]", "mapping of number": "{a: 1}",
           "mapping of number, list": "{a: [0, 1]}", "list of [lower, upper]": "[[0, 1], [0, 1]]",
           "mapping of [lower, upper]": "{a: [0, 1]}"}
#: types that the file language names, in words
NAMED = {"Number": "number", "NumberOrList": "number, list", "LimitOrList": "number, list", "NamedNumbers": "numbers by name",
         "StateNumbers": "numbers by state", "Vector3": "[x, y, z]", "Bound": "[lower, upper]"}


def mappings() -> list[type[Part]]:
    """Every mapping that files may contain, from whole files inwards."""
    found: list[type[Part]] = [*KINDS, IKFile, WbcFile]
    for kind in found:  # grows on the way
        kind.model_rebuild()  # resolves names of later classes
        inner = [one for field in kind.model_fields.values() for one in records(field.annotation)]
        found += [one for one in dict.fromkeys(inner) if issubclass(one, Part) and one not in found]
    return found


def keys_page(gallery: Path | None = None) -> str:
    """The page: a table for each mapping. gallery: folder of problem files, for examples."""
    parts = ["# Keys of files\n", "Each table is a mapping; a key without a default is required. Numbers may be expressions\n"
             "of the constants, and angles `{deg: 45}`. Unit –: dimensionless, or that of the expression.\n"]
    for kind in sorted(mappings(), key=lambda one: one.__name__):
        parts += [f"## {kind.__name__}\n", " ".join((kind.__doc__ or "").split()) + "\n"]
        parts += [":::{container} keys", "| key | meaning | type | unit | default | example |", "|---|---|---|---|---|---|"]
        parts += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in _rows(kind, gallery)]
        parts.append(":::\n")
    return "\n".join(parts)


def _rows(kind: type[Part], gallery: Path | None) -> Iterator[tuple[str, ...]]:
    for key, field in kind.model_fields.items():
        value = field.get_default(call_default_factory=True)
        default = "" if value is PydanticUndefined else "its own defaults" if isinstance(value, Part) else f"`{_text(value)}`"
        limits, found = row_of(kind, key).limits(), example(kind, key, gallery)
        kinds, unit = ", ".join(dict.fromkeys(types(field.annotation))), unit_of(field.description or "")
        yield (f"`{key}`", f"{field.description}{f'; must {limits}' if limits else ''}", kinds,
               unit or "–" * bool(re.search(r"number|\[x|\[lower", kinds)), default, f"`{key}: {found}`" if found else "")


def example(kind: type[Part], key: str, gallery: Path | None) -> str:
    """A value of a key, as YAML: of the gallery, else of the same key elsewhere, its default, or of its type; "" for a
    mapping, whose keys have their own examples."""
    field, given = kind.model_fields[key], {} if gallery is None else examples(gallery)
    text = given.get((kind, key)) or next((text for (other, name), text in given.items() if name == key
                                           and (one := other.model_fields[name]).description == field.description
                                           and one.annotation == field.annotation), "")
    if not text and field.default not in (None, PydanticUndefined, (), {}):
        text = _text(field.default)
    return text or (str(field.examples[0]) if field.examples else SAMPLES.get(next(iter(types(field.annotation)), ""), ""))


def unit_of(text: str) -> str:
    """The units that a description has in brackets; "" for none."""
    return "; ".join(one for one in re.findall(r"\[([^\]]*)\]", text) if UNIT.match(one))


def types(annotation: Any) -> list[str]:
    """The types of the values that a key accepts, in words; choices are listed."""
    if isinstance(annotation, TypeAliasType):
        return [NAMED[annotation.__name__]] if annotation.__name__ in NAMED else types(annotation.__value__)
    origin, inner = get_origin(annotation) or annotation, get_args(annotation)
    if origin is Literal:
        return [f"`{one}`" for one in inner]
    if origin in (Union, UnionType, Annotated):
        return [one for part in (inner if origin is not Annotated else inner[:1]) for one in types(part)]
    if origin in TYPE_NAMES:
        of = dict.fromkeys(one for part in (inner[-1:] if origin is dict else inner) if part is not Ellipsis for one in types(part))
        return [f"{TYPE_NAMES[origin]} of {' or '.join(of)}" if of else TYPE_NAMES[origin]]
    if isinstance(origin, TypeAliasType):
        return types(origin.__value__)
    return [f"[{origin.__name__}](#{origin.__name__.lower()})"] if isinstance(origin, type) and issubclass(origin, Part) else []


@cache
def examples(gallery: Path) -> dict[tuple[type[Part], str], str]:
    """A value of every key that the gallery gives, as YAML: the shortest that differs from the default."""
    found: dict[tuple[type[Part], str], str] = {}
    for path in sorted(gallery.rglob("*.yaml")):
        source = read_source(path)
        kind: Any = {"ik": IKFile, "wbc": WbcFile}.get(kind_of(source.tree)) or problem_class(source.tree)
        for part in _parts(validated(Findings(source), kind)):
            for key, value in part.model_dump(mode="json", exclude_unset=True).items():
                text = _text(value)
                if 0 < len(text) < min(LONGEST, len(found.get((type(part), key), text + " "))):
                    found[type(part), key] = text
    return found


def _parts(value: Any) -> Iterator[Part]:
    """The mappings inside a value, itself included."""
    inner: Any = ()
    if isinstance(value, Part):
        yield value
        inner = [getattr(value, key) for key in type(value).model_fields]
    elif isinstance(value, dict | list | tuple):
        inner = value.values() if isinstance(value, dict) else value
    for one in inner:
        yield from _parts(one)


def _text(value: Any) -> str:
    """A value as YAML on one line; "" where it takes several."""
    text = dump({"x": value})[:-1]
    return "" if "\n" in text else text[4:-1] if text[0] == "{" else text[3:]
