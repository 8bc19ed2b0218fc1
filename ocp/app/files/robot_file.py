"""How files that ask something of one robot begin to be read: those of inverse kinematics and of whole-body control."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NoReturn, TypeVar

import casadi as ca
from pydantic import ValidationError

from dynamics.mechanism import Mechanism
from ocp.app.files import load_parts as lp
from ocp.app.files.findings import Findings, add_validation_errors, describe
from ocp.app.files.load_model import read_mechanism
from ocp.app.files.load_robot import RESERVED, UNAVAILABLE
from ocp.app.files.overrides import apply_overrides
from ocp.app.files.schema_robot import RobotFile, RobotModel
from ocp.app.files.scope import Scope
from ocp.app.files.yaml_source import Source
from ocp.errors import ProblemError

F = TypeVar("F", bound=RobotFile)


def begin(source: Source, overrides: Mapping[str, str], schema: type[F], key: str, what: str) -> tuple[Source, F, lp.Reader]:
    """The source with its overrides, its parts, and a reader of its numbers. key: what tells it from a problem file; what: it is,
    in words. Raises ProblemError."""
    source = apply_overrides(source, overrides)
    findings, tree = Findings(source), source.tree
    if not isinstance(tree, dict):
        raise ProblemError(f"expected a mapping such as 'name: ...'; got {describe(tree)}", where=source.where(()))
    if key not in tree and ("phase" in tree or "system" in tree):
        raise ProblemError(f"is a problem file (it has 'system' and 'phase'), not one of {what}; run: ocp solve", where=source.name)
    try:
        file = schema.model_validate(tree)
    except ValidationError as error:
        add_validation_errors(findings, error, schema)
        raised(findings)
    constants = lp.read_constants(findings, file.constants, RESERVED)
    none = ca.SX(0, 1)
    return source, file, lp.make_reader(findings, replace(constants, unavailable=UNAVAILABLE), none, none, Scope())


def robot_of(numbers: lp.Reader, file: RobotFile, folder: Path, configurations: bool) -> Mechanism:
    """The robot; configurations: whether the file names some of its own. Raises ProblemError."""
    given = RobotModel.model_validate({"robot": file.robot}) if isinstance(file.robot, str) else file.robot
    return read_mechanism(numbers, given, folder, "robot", configurations=configurations) or raised(numbers.findings)


def raised(findings: Findings) -> NoReturn:
    """Raise what was found, where something was."""
    findings.raise_any()
    raise AssertionError("nothing was found")
