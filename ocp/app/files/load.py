"""From a problem file to a Problem: read, override, validate, and turn into mathematics. All errors come at once."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dynamics.errors import near
from dynamics.model.model import Model
from ocp.app.files.findings import Findings, add_validation_errors, describe
from ocp.app.files.load_parts import Reader
from ocp.app.files.load_robot import load_robot
from ocp.app.files.load_symbolic import load_symbolic
from ocp.app.files.overrides import apply_overrides
from ocp.app.files.schema import ProblemFile, problem_class, to_yaml
from ocp.app.files.schema_robot import RobotProblem
from ocp.app.files.schema_tasks import is_ik_tree
from ocp.app.files.yaml_source import KeyPath, Source, parse_source, read_source
from ocp.app.pages.scene import Drawing
from ocp.certify import Tolerances
from ocp.errors import ProblemError
from ocp.methods import METHODS
from ocp.problem import Problem


@dataclass(frozen=True)
class LoadedProblem:
    """A problem file, read.

    problem: the mathematics; file: what the file says, validated, with overrides; text: the file as it was read
    drawing: what to animate (symbolic systems), model: the robot (robot systems), or None
    method, method_options: the default method and the options given for it, ready for ``ocp.methods.solve``
    accept: certificate tolerances that differ from the default; options: given options by method
    """

    problem: Problem
    file: ProblemFile
    text: str
    drawing: Drawing | None
    model: Model | None
    method: str
    method_options: dict[str, Any]
    accept: dict[str, float]
    options: dict[str, dict[str, Any]] = field(default_factory=dict)

    def options_for(self, method: str) -> dict[str, Any]:
        """The options that the file gives for a method; those under its own name win over what is said for all."""
        shared = self.file.solve.derivatives
        return {**({} if shared is None else {"derivatives": shared}), **self.options.get(method, {})}

    def expanded(self, method: str | None = None) -> str:
        """The file as YAML with every default written out, those of the method (default: the file's) and of the
        certificate included; reading it gives the same problem."""
        name = method or self.method
        record = METHODS[name].options_type()(**self.options_for(name))
        solve = self.file.solve.model_copy(update={"method": name, name: dataclasses.asdict(record)})
        accept = {**dataclasses.asdict(Tolerances()), **self.accept}
        return to_yaml(self.file.model_copy(update={"solve": solve, "accept": accept}))


def load_problem(path: str | Path, overrides: Mapping[str, str] | None = None) -> LoadedProblem:
    """Read a problem file; ``overrides`` maps paths in it to YAML values (``{"phase.duration": "3"}``).

    Raises ProblemFileError (a ProblemError) listing everything that is wrong, each with file, line, column and key.
    """
    path = Path(path)
    return _load(read_source(path), path.parent, overrides or {})


def load_text(text: str, folder: str | Path = ".", name: str = "problem.yaml", overrides: Mapping[str, str] | None = None
              ) -> LoadedProblem:
    """As :func:`load_problem`, for text; paths in it are relative to ``folder``, and ``name`` stands for the file."""
    return _load(parse_source(text, name), Path(folder), overrides or {})


def parse_overrides(words: Sequence[str]) -> dict[str, str]:
    """``["phase.duration=3"]`` as a mapping. Raises ProblemError for a word without ``=`` and for a path given twice."""
    found: dict[str, str] = {}
    for word in words:
        path, equals, value = word.partition("=")
        path = path.strip()
        if not equals:
            raise ProblemError("expected path.to.key=value", where=f"--set {word}")
        if path in found:
            raise ProblemError(f"{path} is set twice", where=f"--set {word}")
        found[path] = value
    return found


def _load(source: Source, folder: Path, overrides: Mapping[str, str]) -> LoadedProblem:
    source = apply_overrides(source, overrides)
    findings = Findings(source)
    file = _validate(source, findings)
    drawing: Drawing | None = None
    model: Model | None = None
    if isinstance(file, RobotProblem):
        problem, model, reader = load_robot(file, findings, folder)
    else:
        problem, drawing, reader = load_symbolic(file, findings)
    options = {name: _options(reader, getattr(file.solve, name), name) for name in METHODS}
    accept = _accept(reader, file)
    findings.raise_any()
    assert problem is not None  # a missing problem always leaves a finding
    return LoadedProblem(problem, file, source.text, drawing, model, file.solve.method, options[file.solve.method], accept,
                         {name: values for name, values in options.items() if values})


def _validate(source: Source, findings: Findings) -> ProblemFile:
    if not isinstance(source.tree, dict):
        raise ProblemError(f"expected a mapping such as 'name: ...'; got {describe(source.tree)}", where=source.where(()))
    if is_ik_tree(source.tree):
        raise ProblemError("is a file of inverse kinematics (it has 'tasks'), not a problem; run: ocp ik", where=source.name)
    kind = problem_class(source.tree)
    try:
        return kind.model_validate(source.tree)
    except ValidationError as error:
        add_validation_errors(findings, error, kind)
        findings.raise_any()
        raise


# ---- solve and accept ---------------------------------------------------------------------------------------------------
def _options(reader: Reader, given: Mapping[str, Any], method: str) -> dict[str, Any]:
    if not given:
        return {}
    kind, path = METHODS[method].options_type(), ("solve", method)
    hints, values, before = typing.get_type_hints(kind), {}, len(reader.findings.found)
    known = [f.name for f in dataclasses.fields(kind)]
    for key, value in given.items():
        place: KeyPath = (*path, key)
        if key not in known:
            reader.findings.add(place, f"unknown option of {method}{near(key, known, most=len(known))}", at_key=True)
        else:
            values[key] = _option(reader, value, hints[key], place)
    if len(reader.findings.found) == before:
        try:
            kind(**values)
        except ProblemError as error:
            named = [key for key in values if re.search(rf"\b{key}\b", f"{error.where} {error.message}")]
            reader.findings.add((*path, named[0]) if named else path, error.message)
    return values


def _option(reader: Reader, value: Any, kind: Any, path: KeyPath) -> Any:
    kinds = typing.get_args(kind) or (kind,)
    if bool in kinds and isinstance(value, bool):
        return value
    if str in kinds and isinstance(value, str):
        return value
    # text where a number is wanted is an expression; a bool is an int in Python but never a number in a file
    numeric = not isinstance(value, bool) and (not isinstance(value, str) or bool not in kinds)
    if numeric and (int in kinds or float in kinds):
        number = reader.number(value, path)
        if int in kinds and number == round(number, 0) and abs(number) < 2**53:
            return int(number)
        if float in kinds or number != number:
            return number
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
    expected = " or ".join(words[k] for k in kinds if k in words)
    reader.findings.add(path, f"expected {expected}; got {describe(value)}")
    return value


def _accept(reader: Reader, file: ProblemFile) -> dict[str, float]:
    known = [f.name for f in dataclasses.fields(Tolerances)]
    found = {}
    for key, value in file.accept.items():
        path: KeyPath = ("accept", key)
        if key not in known:
            reader.findings.add(path, f"unknown tolerance{near(key, known)}", at_key=True)
            continue
        found[key] = reader.number(value, path)
        with reader.findings.collecting(path):
            Tolerances(**{key: found[key]}) if found[key] == found[key] else None
    return found
