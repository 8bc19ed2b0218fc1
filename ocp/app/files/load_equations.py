"""Implicit equations under ``system.equations``: ``left = right``, or an expression that is zero."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import casadi as ca

from ocp.app.files.expressions import parse
from ocp.app.files.load_parts import Reader
from ocp.app.files.scope import FollowOnError
from ocp.app.files.yaml_source import KeyPath
from ocp.errors import ProblemError

SX = Any
#: an equals sign that is no part of a comparison
EQUALS = re.compile(r"(?<![=<>!:])=(?!=)")


def read_equations(reader: Reader, given: Mapping[str, Any], unknowns: Sequence[str]) -> dict[str, Any]:
    """The equations as fields of a System. Errors are recorded; wrong equations are 0, so that names still have their meaning."""
    place: KeyPath = (*reader.place, "equations")
    if len(given) != len(unknowns):
        what = f"({', '.join(unknowns)}); give as many" if unknowns else "; every state has its derivative in 'dynamics', and " \
            "'algebraic' names nothing"
        count = f"{len(given) or 'no'} equation{'' if len(given) == 1 else 's'}"
        reader.findings.add(place if given else (*reader.place, "algebraic"), f"{count} for {len(unknowns) or 'no'} unknown"
                            f"{'' if len(unknowns) == 1 else 's'} {what}".replace(" ;", ";"), at_key=True)
    found = [_equation(reader, text, (*place, name)) for name, text in given.items()]
    for name, row in zip(given, found, strict=True):
        if row is not None and not (reader.depends(row, reader.u) or reader.depends(row, reader.x)):
            reader.findings.add((*place, name), "depends on no state, control or unknown")
    rows = [ca.SX(0) if row is None else row for row in found]
    rows += [ca.SX(0)] * (len(unknowns) - len(rows))
    residual = reader.function("residual", ca.vertcat(*rows[:len(unknowns)])) if unknowns else None
    names = tuple(given) if len(given) == len(unknowns) else ()
    return {"algebraic": tuple(unknowns), "equations": names, "residual": residual}


def _equation(reader: Reader, text: Any, path: KeyPath) -> SX | None:
    """left - right; None after an error was recorded."""
    if not isinstance(text, str):
        return reader.expression(text, path)
    cuts = [match.start() for match in EQUALS.finditer(text)]
    if len(cuts) > 1:
        reader.findings.add(path, "has more than one '='; an equation is 'left = right'")
        return None
    sides = [(text, 0)] if not cuts else [(text[:cuts[0]], 0), (text[cuts[0] + 1:], cuts[0] + 1)]
    values = []
    for side, shift in sides:
        try:
            values.append(parse(side, reader.scope, _where(reader, path, shift)))
        except FollowOnError:
            return None
        except ProblemError as error:
            reader.findings.add_error(error)
            return None
    return values[0] if len(values) == 1 else values[0] - values[1]


def _where(reader: Reader, path: KeyPath, shift: int) -> Callable[[int], str]:
    return lambda offset: reader.findings.source.where(path, offset + shift)
