"""Numbers of a robot that stay parameters, read from a problem file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np

from dynamics.errors import ModelError, near
from dynamics.mechanism import Mechanism
from dynamics.redmax.parameters import AddedInertia, ForceField, Length, Parameter, check
from ocp.app.files import load_parts as lp
from ocp.app.files.schema_forces import Design, DesignForce

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
            made = _made(numbers, mechanism, getattr(item, form), (*path, form))
            check(mechanism, [*found.values(), made])
            found[item.parameter] = made
            own = numbers.parameters[known.index(item.parameter)]
            for key, values in (("value", (own.value,)), ("optimise", own.bounds or ())):
                with findings.collecting(("parameters", item.parameter, key)):
                    for value in values:
                        _possible(mechanism, made, value)
    if mechanism.constraints and given:
        findings.add((*numbers.place, "design"), "a robot with constraints has no numbers to choose; close the loop by a bushing",
                     at_key=True)
    return found if len(findings.found) == before else None


def _made(numbers: lp.Reader, mechanism: Mechanism, given: Any, path: tuple[Any, ...]) -> Parameter:
    if hasattr(given, "joint"):
        axis = np.array(numbers.vector(given.axis, 3, (*path, "axis"), "components"))
        if not axis.any():
            raise ModelError("axis has no direction", element=f"length at joint {given.joint!r}")
        return Length(given.joint, tuple((axis / np.linalg.norm(axis)).tolist()))
    if hasattr(given, "body"):
        return AddedInertia(given.body, given.component)
    force = {force.name: force for force in mechanism.forces}.get(given.name)
    words = [word for word in get_args(DesignForce.model_fields["field"].annotation)
             if isinstance(getattr(force, FIELDS.get(word, word), None), float | int)]
    if force is not None and given.field not in words:
        raise ModelError(f"has no number {given.field!r} (known: {', '.join(words) or 'none'})", element=f"force {given.name!r}")
    return ForceField(given.name, FIELDS.get(given.field, given.field))


def _possible(mechanism: Mechanism, made: Parameter, value: float) -> None:
    """Raises ModelError for a number that the record of a force refuses, or a mass below zero; what is infinite bounds nothing."""
    if not np.isfinite(value):
        return
    if isinstance(made, ForceField):
        force = next(force for force in mechanism.forces if force.name == made.force)
        replace(force, **{made.field: value}).check(mechanism.model)  # type: ignore[type-var]
    elif isinstance(made, AddedInertia) and made.component == "mass":
        mass = mechanism.model.bodies[mechanism.model.body_index(made.body)].inertia.mass
        if mass + value < 0:
            raise ModelError(f"mass must not be negative: {mass:g} kg and {value:g} kg", element=f"body {made.body!r}")
