"""Everything that is wrong with a problem file, collected and reported at once with its locations."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn, get_args

from pydantic import BaseModel, ValidationError
from typing_extensions import TypeAliasType

from dynamics.errors import ModelError, near
from ocp.app.files.syntax.scope import FollowOnError
from ocp.app.files.syntax.yaml_source import KeyPath, Source, format_path
from ocp.errors import ProblemError


class ProblemFileError(ProblemError):
    """Several things are wrong with a problem file; ``findings`` has one line for each, ``file:line:column: key: what``."""

    def __init__(self, findings: tuple[str, ...]):
        self.findings = findings
        count = f"{len(findings)} errors in the problem:\n" if len(findings) > 1 else ""
        super().__init__(count + "\n".join(findings))


@dataclass
class Findings:
    """Collects errors while a file is read, so that one run shows them all. lost: names of malformed parts that are left out,
    around: where these stood, which lacks them; what follows from either is no error of its own. begun: how many there were when
    the readers that run began (see ``sound``)."""

    source: Source
    found: list[tuple[str, str]] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)
    around: set[KeyPath] = field(default_factory=set)
    begun: list[int] = field(default_factory=list)

    def add(self, path: KeyPath, message: str, *, at_key: bool = False) -> None:
        """Record an error at a node."""
        if self.source.written(path) not in self.around:
            self._record(self.source.where(path, at_key=at_key), message)

    def add_error(self, error: ProblemError) -> None:
        """Record an error that already knows its location."""
        self._record(error.where or self.source.name, error.message)

    def _record(self, where: str, message: str) -> None:
        if not any(repr(name) in message.partition("; did you mean")[0] for name in self.lost):
            self.found.append((where, message))

    def reported(self) -> bool:
        """Whether the innermost ``sound`` reader has recorded an error."""
        return len(self.found) > self.begun[-1]

    def settle(self) -> None:
        """Leave the innermost ``sound`` reader where it has recorded an error."""
        if self.reported():
            raise FollowOnError("an error was recorded")

    @contextmanager
    def collecting(self, path: KeyPath) -> Iterator[None]:
        """Record the error that the block raises, if any, and go on after it. Errors of a robot model, and those without
        a location, are put at ``path``."""
        try:
            yield
        except FollowOnError:
            pass  # what it follows from was reported
        except ModelError as error:
            self.add(path, str(error))
        except ProblemError as error:
            if error.where and error.where.startswith((self.source.name, *set(self.source.origins.values()))):
                self.add_error(error)
            else:
                self.add(path, error.message)

    def raise_any(self) -> None:
        """Raise ProblemFileError when anything was found; in the order of the file."""
        if self.found:
            unique = dict.fromkeys(sorted(self.found, key=lambda item: _position(item[0], self.source.name)))
            raise ProblemFileError(tuple(f"{where}: {message}" for where, message in unique))

    def raised(self) -> NoReturn:
        """The same, where something was found for sure."""
        self.raise_any()
        raise AssertionError("nothing was found")


def _position(where: str, name: str) -> tuple[int, int]:
    match = re.match(r":(\d+):(\d+)", where.removeprefix(name))
    return (int(match[1]), int(match[2])) if match else (0, 0)


# ---- pydantic's errors in the words of this project ---------------------------------------------------------------------
_EXPECTED = {
    "string_type": "text", "float_type": "a number", "int_type": "a whole number", "bool_type": "true or false",
    "finite_number": "a finite number (an absent bound is written null)",
    "tuple_type": "a list", "list_type": "a list", "dict_type": "a mapping", "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}


def add_validation_errors(findings: Findings, error: ValidationError, model: type[BaseModel]) -> None:
    """Record each error of a failed validation of ``model`` with its location, expectation and near misses."""
    items = error.errors(include_url=False)
    extra = [item["loc"] for item in items if item["type"] == "extra_forbidden"]
    for item in items:
        location = item["loc"]
        path = path_of(findings.source.tree, location)
        if item["type"] == "extra_forbidden":
            cut = findings.source.cut_at_comma(path)
            unknown = _unknown_key(str(path[-1]), known_keys(model, location[:-1]), cut)
            findings.add(path, unknown + _elsewhere(findings.source, path, _owners(model, location[:-1])), at_key=True)
        elif findings.source.cut_at_comma(path):
            findings.add(path, f"has no value; {QUOTE}")
        elif item["type"] == "too_short" and len(item["input"]) >= item["ctx"]["min_length"]:
            continue  # an entry failed and has its own error; pydantic does not count it
        elif item["type"] == "missing":
            beside = [str(other[-1]) for other in extra if other[:-1] == location[:-1]]
            if difflib.get_close_matches(str(location[-1]), beside, cutoff=0.5):
                continue  # a misspelt key, reported as unknown with this one as its near miss
            findings.add(path[:-1], f"the key {path[-1]!r} is missing{_meaning(model, location)}")
        else:
            findings.add(path, _message(item))


QUOTE = "inside {..} an expression that contains a comma must be in quotes"


def _unknown_key(key: str, known: list[str], cut: bool) -> str:
    if cut or any(c in key for c in "()[]*/+"):  # what is left of an expression that YAML cut at its comma
        return f"unknown key; {QUOTE}"
    return f"unknown key{near(key, known)}"


def _elsewhere(source: Source, path: KeyPath, owners: Sequence[type[BaseModel]]) -> str:
    """Where the file has the key that an override sets at another path, or one like it; else such options of the sections beside
    it."""
    wanted = max((own for own in source.origins if own[:len(path)] == path), key=len, default=())
    if not wanted:
        return ""
    others = [own for own in source.entries if own and own[:len(path)] != path]
    below: list[Mapping[str, Iterable[str]]] = [getattr(owner, "below", dict)() for owner in owners]
    options = [(*path[:-1], name, key) for sections in below for name, keys in sections.items() for key in keys]
    ends = (wanted, path[-1:], wanted[-1:])
    for known, says in ((others, "; the file has {0}"), (options, "; did you mean {1}?")):
        like = difflib.get_close_matches(str(path[-1]), {str(own[-1]) for own in known}, 1, 0.7)
        for end in (*ends, tuple(like)):
            if end and (found := [format_path(own) for own in known if own[-len(end):] == end]):
                return says.format(*(joint.join(found[:3]) for joint in (", ", " or ")))
    return ""


def _message(item: Mapping[str, Any]) -> str:
    kind, value, context = item["type"], item["input"], item.get("ctx") or {}
    if kind == "problem":
        return str(item["msg"])
    if kind == "expected":
        return f"expected {item['msg']}; got {describe(value)}"
    if kind in _EXPECTED:
        return f"expected {_EXPECTED[kind]}; got {describe(value)}"
    if kind == "literal_error":
        known = re.findall(r"'([^']*)'", context["expected"])
        return f"expected one of {', '.join(known)}; got {describe(value)}{_did_you_mean(value, known)}"
    if kind in ("too_short", "too_long"):
        limit = context.get("min_length", context.get("max_length"))
        sense = "at least" if kind == "too_short" else "at most"
        unit = "entry" if limit == 1 else "entries"
        return f"expected {sense} {limit} {unit}, got {len(value)}"
    if kind == "string_too_short":
        return "expected text, got empty text"
    return f"{item['msg']}; got {describe(value)}"


def _did_you_mean(value: object, known: list[str]) -> str:
    return near(value, known).split(" (known")[0] if isinstance(value, str) else ""


def describe(value: object) -> str:
    """A value of a file in words."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the text {value if len(value) <= 40 else value[:37] + '...'!r}"
    if isinstance(value, (int, float)):
        return f"the number {value!r}"
    if isinstance(value, Mapping):
        keys = ", ".join(map(str, list(value)[:6]))
        return f"a mapping with the keys {keys}" if value else "an empty mapping"
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value)}" if value else "an empty list"
    return repr(value)


def path_of(tree: object, location: tuple[Any, ...]) -> KeyPath:
    """The keys of the file in a location, which names members of unions (``<list>``), too."""
    path: list[str | int] = []
    for key in location:
        inside = tree[key] if isinstance(tree, Mapping) and key in tree else \
            tree[key] if isinstance(tree, (list, tuple)) and isinstance(key, int) and key < len(tree) else None
        if _is_tag(key) and not (isinstance(tree, Mapping) and key in tree):
            continue
        path, tree = [*path, key], inside
    return tuple(path)


def _is_tag(key: object) -> bool:
    return isinstance(key, str) and key.startswith("<") and key.endswith(">")


def _owners(model: type[BaseModel], location: tuple[Any, ...]) -> list[type[BaseModel]]:
    """The records that the mapping at ``location`` may be, following fields and the tags of unions."""
    owners = [model]
    for key in location:
        fields = [owner.model_fields[key] for owner in owners if key in owner.model_fields]
        if fields:
            owners = [found for field in fields for found in records(field.annotation)]
        elif _is_tag(key):
            owners = [owner for owner in owners if f"<{owner.__name__}>" == key] or owners
    return owners


def records(annotation: object) -> list[type[BaseModel]]:
    """The records that a type allows."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    inner = (annotation.__value__,) if isinstance(annotation, TypeAliasType) else get_args(annotation)
    return [found for part in inner for found in records(part)]


def known_keys(model: type[BaseModel], location: tuple[Any, ...]) -> list[str]:
    """Keys that the record at a location accepts."""
    return [name for owner in _owners(model, location) for name in owner.model_fields]


def _meaning(model: type[BaseModel], location: tuple[Any, ...]) -> str:
    for owner in _owners(model, location[:-1]):
        field = owner.model_fields.get(str(location[-1]))
        if field is not None and field.description:
            return f" ({field.description})"
    return ""


def paths(tree: Any, kinds: Sequence[type[BaseModel]]) -> Iterator[tuple[Any, str, str]]:
    """Where a tree that may be one of some records names files or folders: the mapping that holds the text, its key there, and the
    key that declares it."""
    for key, value in tree.items() if isinstance(tree, Mapping) else ():
        fields = [kind.model_fields[key] for kind in kinds if key in kind.model_fields]
        if any(getattr(data, "path", False) for field in fields for data in field.metadata):
            holder, keys = (value, list(value)) if isinstance(value, Mapping) else (tree, [key])
            yield from ((holder, name, key) for name in keys if isinstance(holder[name], str))
        if known := list(dict.fromkeys(one for field in fields for one in records(field.annotation))):
            below = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
            for node in (value, *below):
                yield from paths(node, known)
