"""Numbers of a robot that stay parameters, read from a problem file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dynamics.errors import near
from dynamics.mechanism import Mechanism
from dynamics.redmax.parameters import AddedInertia, ForceField, Length, Parameter, check
from ocp.app.files import load_parts as lp
from ocp.app.files.schema_design import Design

#: what files call a number, in the records of forces
FIELDS = {"stiffness": "k", "damping": "c", "friction": "mu", "creep": "k_t", "linear": "c"}


def read_design(numbers: lp.Reader, mechanism: Mechanism, given: Sequence[Design]) -> dict[str, Parameter] | None:
    """What each parameter stands for, by its name; None after an error was recorded."""
    findings, before, found = numbers.findings, len(numbers.findings.found), dict[str, Parameter]()
    known = [p.name for p in numbers.parameters]
    for i, item in enumerate(given):
        form = item.form()
        path = (*numbers.place, "design", i)
        if item.parameter not in known:
            findings.add((*path, "parameter"), f"no parameter named {item.parameter!r}{near(item.parameter, known)}")
            continue
        if item.parameter in found:
            findings.add((*path, "parameter"), f"the parameter {item.parameter!r} stands for something already")
            continue
        with findings.collecting((*path, form)):
            made = _made(numbers, getattr(item, form), (*path, form))
            check(mechanism, [*found.values(), made])
            found[item.parameter] = made
    if mechanism.constraints and given:
        findings.add((*numbers.place, "design"), "a robot with constraints has no numbers to choose; close the loop by a bushing",
                     at_key=True)
    return found if len(findings.found) == before else None


def _made(numbers: lp.Reader, given: Any, path: tuple[Any, ...]) -> Parameter:
    if hasattr(given, "joint"):
        axis = np.array(numbers.vector(given.axis, 3, (*path, "axis"), "components"))
        size = float(np.linalg.norm(axis)) or 1.0
        return Length(given.joint, tuple((axis / size).tolist()))
    if hasattr(given, "body"):
        return AddedInertia(given.body, given.component)
    return ForceField(given.name, FIELDS.get(given.field, given.field))
