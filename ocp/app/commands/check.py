"""The command ``ocp check``."""

from __future__ import annotations

from ocp.app.commands.common import CERTIFIED, Overrides, Problem


def check(file: Problem, /, *, set_: Overrides = None) -> int:
    """Validate a problem file, and say which methods can solve it, without solving; or a file of inverse kinematics."""
    from ocp.app.files.ik_file import load_ik
    from ocp.app.files.load import load_problem, parse_overrides
    from ocp.app.files.schema_tasks import is_ik_tree
    from ocp.app.files.schema_wbc import is_wbc_tree
    from ocp.app.files.wbc_file import load_wbc
    from ocp.app.files.yaml_source import read_source
    from ocp.app.pages.ik_report import print_check as print_ik_check
    from ocp.app.pages.summary import print_check
    from ocp.app.wbc.terminal import print_check as print_wbc_check
    from ocp.errors import ProblemError

    if file.suffix in (".urdf", ".xml"):
        raise ProblemError(f"is a robot, not a problem; see what it holds with: ocp robot {file}, and get a problem about it with: "
                           f"ocp init {file}", where=str(file))
    if is_wbc_tree(tree := read_source(file).tree):
        print_wbc_check(load_wbc(file, parse_overrides(set_ or [])))
        return CERTIFIED
    if is_ik_tree(tree):
        print_ik_check(load_ik(file, parse_overrides(set_ or [])))
        return CERTIFIED
    print_check(load_problem(file, parse_overrides(set_ or [])))
    return CERTIFIED
