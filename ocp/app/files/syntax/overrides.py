"""Changes to a problem file from the command line: ``--set phase.duration=3``."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

from dynamics.errors import near
from ocp.app.files.syntax.findings import ProblemFileError
from ocp.app.files.syntax.yaml_source import Key, KeyPath, Source, format_path, parse_source
from ocp.errors import ProblemError

_STEP = re.compile(r'\.?(?:([^.\[\]"]+)|"([^"]*)"|\[(\d+)\]|\["([^"]*)"\])')
# Mappings whose keys the user invents: here a key that the file lacks would be read and then never used.
_INVENTED_KEYS = (("constants",), ("parameters",), ("system", "define"), ("drawing", "points"))


def apply_overrides(source: Source, overrides: Mapping[str, str], by: str = "--set") -> Source:
    """The source with values replaced or added.

    Keys of ``overrides`` are paths such as ``phase.costs[0].weights``, ``phase.costs.effort.weights`` (list entries may be
    called by their ``name``) or ``phase.bounds.joints."base.px"``; values are YAML. Raises ProblemError for a path that
    cannot exist, with near misses; keys that the file's format does not know are left to its validation. by: who wants them.
    """
    wrong: list[ProblemError] = []
    for path, text in overrides.items():
        label = f"{by} {path}={text}"
        try:
            if not text.strip():
                raise ProblemError("a value is missing after '='", where=label)
            source = changed(source, path, parse_source(text, label).tree, label)
        except ProblemError as error:
            wrong.append(error)
    if len(wrong) > 1:
        raise ProblemFileError(tuple(map(str, wrong)))
    if wrong:
        raise wrong[0]
    return source


def changed(source: Source, text: str, value: Any, label: str) -> Source:
    """The source with the value at one path; ``label`` says in words who wants it."""
    tree, entries, origins = copy.deepcopy(source.tree), dict(source.entries), dict(source.origins)
    path = _set_at(tree, _parse_path(text, label), label, origins, value)
    for known in (entries, origins):
        for inner in [p for p in known if p[: len(path)] == path]:
            del known[inner]
    origins[path] = label
    return Source(source.name, source.text, tree, entries, origins)


def _parse_path(text: str, label: str) -> list[Key]:
    keys: list[Key] = []
    at = 0
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None or (at == 0 and text.startswith(".")):
            raise ProblemError(f"cannot read the path {text!r} from {text[at:]!r} on; write it like "
                               "phase.costs[0].weights", where=label)
        plain, quoted, index, bracketed = match.groups()
        if index is not None or (plain is not None and plain.isdigit()):
            keys.append(int(index if index is not None else plain))
        else:
            keys.append(next(k for k in (plain, quoted, bracketed) if k is not None).strip())
        at = match.end()
    if not keys:
        raise ProblemError("the path before '=' is empty", where=label)
    return keys


def _set_at(tree: Any, keys: list[Key], label: str, origins: dict[KeyPath, str], value: Any) -> KeyPath:
    node, path = tree, ()  # type: tuple[Any, KeyPath]
    for k, wanted in enumerate(keys):
        last = k == len(keys) - 1
        key: Key
        if isinstance(node, dict):
            key = str(wanted)
            if key not in node and path in _INVENTED_KEYS:
                raise ProblemError(f"{format_path(path)} has no {key!r}{near(str(wanted), node)}", where=label)
            if key not in node and not last:
                node[key] = {}
                origins[(*path, key)] = label
        elif isinstance(node, list):
            key = _index(node, wanted, path, label)
        else:
            shown = "nothing" if node is None else repr(node)
            name = format_path(path)
            raise ProblemError(f"{name} is {shown} and has no part {wanted!r}; set {name} as a whole", where=label)
        path = (*path, key)
        if last:
            node[key] = value
        else:
            if node[key] is None:
                node[key] = {}
            node = node[key]
    return path


def _index(node: list[Any], wanted: Key, path: KeyPath, label: str) -> int:
    if isinstance(wanted, int):
        if wanted >= len(node):
            raise ProblemError(f"{format_path(path)} has {len(node)} entries, the last is [{len(node) - 1}]" if node
                               else f"{format_path(path)} is empty", where=label)
        return wanted
    names = [str(entry.get("name", "")) if isinstance(entry, dict) else "" for entry in node]
    if wanted not in names:
        raise ProblemError(f"{format_path(path)} has no entry named {wanted!r}{near(wanted, filter(None, names))}", where=label)
    return names.index(wanted)
