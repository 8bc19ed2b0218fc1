"""The readable part of a file some of whose parts are malformed, so that one look reports all errors."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ocp.app.files.syntax.findings import Findings, add_validation_errors, known_keys, path_of
from ocp.app.files.syntax.yaml_source import KeyPath, Source

F = TypeVar("F", bound=BaseModel)
ROUNDS = 20  # of leaving out: what remains may lack a key that its surroundings need


def validated(findings: Findings, kind: type[F]) -> F:
    """The file as a record; where parts are malformed, which is recorded, that of the others. ``findings`` goes on with the source
    of what is left. Raises ProblemFileError where nothing of use is."""
    try:
        return kind.model_validate(findings.source.tree)
    except ValidationError as error:
        add_validation_errors(findings, error, kind)
        return readable(findings, kind, error) or findings.raised()


def readable(findings: Findings, kind: type[F], error: ValidationError) -> F | None:
    """The file without its malformed parts, misspelt keys taken for what is near; None where nothing of use is left.

    ``findings`` goes on with the source of what is left, and leaves out what the names that are gone would cause.
    """
    findings.source = replace(findings.source, tree=copy.deepcopy(findings.source.tree))
    for _ in range(ROUNDS):
        # what is missing may be under a key that nobody knows: these first
        items = error.errors(include_url=False)
        unknown = [item for item in items if item["type"] == "extra_forbidden"]
        places = {path_of(findings.source.tree, item["loc"]): item for item in unknown or items}
        done: list[KeyPath] = []
        for path, item in sorted(places.items(), key=lambda pair: [(isinstance(key, str), key) for key in pair[0]], reverse=True):
            if any(path[:len(gone)] == gone for gone in done):
                continue
            cut = bool(unknown) and findings.source.at(path) is None  # what YAML cuts off an expression at its comma has no value
            if unknown and not cut and _renamed(findings.source, path, known_keys(kind, item["loc"][:-1])):
                continue
            gone = path[:-1] if cut or item["type"] == "missing" else path
            if not gone or gone[0] in ("phases", "phase") and len(gone) < 2 + (gone[0] == "phases"):
                return None
            done.append(gone)
            whole = findings.source.written(gone)
            findings.around.update(whole[:k] for k in range(1, len(whole) + 1))
            findings.lost.update(_names(gone, findings.source.left_out(gone)))
        try:
            return kind.model_validate(findings.source.tree)
        except ValidationError as again:
            error = again
    return None


def _renamed(source: Source, path: KeyPath, known: list[str]) -> bool:
    """Whether a key is put under the only near name that there is and that is not given."""
    parent = source.at(path[:-1])
    near = difflib.get_close_matches(str(path[-1]), [name for name in known if name not in (parent or ())], n=1, cutoff=0.6)
    if near and isinstance(parent, dict) and path[-1] in parent:
        source.renamed(path, near[0])
        return True
    return False


def _names(path: KeyPath, value: Any) -> Iterator[str]:
    """Names that a missing part may have defined."""
    yield from (key for key in path[-1:] if isinstance(key, str))
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inside:
        yield from _names((key,), part)
        if key == "name" and isinstance(part, str):
            yield part
