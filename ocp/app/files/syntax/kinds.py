"""The kind of a file, recognised by its keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ocp.app.files.syntax.findings import describe
from ocp.app.files.syntax.yaml_source import Source
from ocp.errors import ProblemError

#: by kind: what it is, what tells it, and what runs it
KINDS = {"problem": ("a problem file", "'system' and 'phase'", "ocp solve"),
         "ik": ("a file of inverse kinematics", "'tasks'", "ocp ik"),
         "wbc": ("a file of whole-body control", "'wbc'", "ocp wbc, or ocp.WholeBody(file).run()")}


def kind_of(tree: Any) -> str:
    """The kind of a file's tree."""
    keys = set(tree) if isinstance(tree, Mapping) else set()
    special = "wbc" if "wbc" in keys else "ik" if "tasks" in keys else "problem"
    return "problem" if keys & {"phase", "system"} else special


def expect(source: Source, kind: str) -> None:
    """Raises ProblemError for what is no mapping, and for a file of another kind."""
    tree, found = source.tree, kind_of(source.tree)
    if not isinstance(tree, dict):
        raise ProblemError(f"expected a mapping such as 'name: ...'; got {describe(tree)}", where=source.where(()))
    if found != kind and (found != "problem" or tree.keys() & {"phase", "system"}):
        what, keys, run = KINDS[found]
        raise ProblemError(f"is {what} (it has {keys}), not {KINDS[kind][0]}; run: {run}", where=source.name)
