"""Problem files in Python: read as problems that can be changed, or solved at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ocp.app.face.document import Document
from ocp.app.face.problem import Problem

if TYPE_CHECKING:
    from ocp.app.face.result import Result


def load(file: str | Path, /, **changes: Any) -> Problem:
    """The problem of a YAML file, to be changed, solved and saved. changes: keys by path, ``**{"phase.duration": 2}``.

    Raises ProblemError where the file cannot be read. What it says is checked when it is compiled: ``problem.check()``.
    """
    from ocp.app.files.findings import describe
    from ocp.app.files.gallery import in_gallery
    from ocp.app.files.schema_tasks import is_ik_tree
    from ocp.app.files.schema_wbc import is_wbc_tree
    from ocp.app.files.yaml_source import read_source
    from ocp.errors import ProblemError

    file = in_gallery(Path(file))
    source = read_source(file)
    if not isinstance(source.tree, dict):
        raise ProblemError(f"expected a mapping such as 'name: ...'; got {describe(source.tree)}", where=source.where(()))
    if is_ik_tree(source.tree):
        raise ProblemError("is a file of inverse kinematics (it has 'tasks'), not a problem; run: ocp ik", where=source.name)
    if is_wbc_tree(source.tree):
        raise ProblemError("is a file of whole-body control (it has 'wbc'), not a problem; run: ocp wbc, or "
                           "ocp.WholeBody(file).run()", where=source.name)
    problem = Problem._of(Document(source.tree, file.parent, str(file), {}, source.entries))
    for path, value in changes.items():
        problem.set(path, value)
    return problem


def solve(file: str | Path, method: str | None = None, /, **how: Any) -> Result:
    """Solve a problem file: ``load(file).solve(method, ..)``."""
    return load(file).solve(method, **how)
