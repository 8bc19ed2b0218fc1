"""Options of a method as a file gives them, turned into values of its record, and whether they fit the problem."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Mapping
from typing import Any

from dynamics.errors import near
from ocp.app.files.findings import Findings, describe
from ocp.app.files.load_parts import Reader
from ocp.app.files.schema import ProblemFile
from ocp.app.files.yaml_source import KeyPath
from ocp.derivatives import choose
from ocp.errors import ProblemError
from ocp.methods import METHODS, NOTHING_TO_SAY, idle
from ocp.problem import Problem


def read_options(reader: Reader, given: Mapping[str, Any], method: str, path: KeyPath) -> dict[str, Any]:
    """Values by name of the options that stand at ``path``; errors are recorded there."""
    if not given:
        return {}
    kind = METHODS[method].options_type()
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
    if str in kinds and isinstance(value, str) and (value == "auto" or not {int, float} & set(kinds)):
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


# ---- whether options fit the problem ----------------------------------------------------------------------------------
def check_fit(findings: Findings, file: ProblemFile, problem: Problem, options: Mapping[str, Mapping[str, Any]]) -> None:
    """Record options of methods that the problem's dynamics or phases exclude. options: what the file gives, by method."""
    for name, given in options.items():
        path: KeyPath = ("solve", name)
        shared = "derivatives" not in given and file.solve.derivatives is not None and name == file.solve.method
        if not given and not shared:
            continue  # nothing that could not fit; and the method is not loaded for it
        fields = METHODS[name].options_type()(**given)
        for key in idle(problem, fields):
            findings.add((*path, key), NOTHING_TO_SAY, at_key=True)
        source, execution = fields.derivatives, getattr(fields, "execution", "auto")
        if shared:
            source = file.solve.derivatives
        if (source, execution) != ("auto", "auto"):
            try:
                for phase in problem.phases:
                    choose(phase.system, source, execution, exact=name != "ilqr")
            except ProblemError as error:
                key = "execution" if error.where == "execution" else "derivatives"
                findings.add(("solve", key) if shared and key == "derivatives" else (*path, key), error.message)
        if "mesh" in given:
            from ocp.transcription.refine.plan import UNIFORM, read_plans  # only here: it loads the transcription

            if fields.mesh != UNIFORM:
                with findings.collecting((*path, "mesh")):
                    read_plans(fields.mesh, [phase.name for phase in problem.phases], fields.scheme, "mesh")
