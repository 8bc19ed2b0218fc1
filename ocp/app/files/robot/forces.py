"""Forces and constraints of a robot, and those of their numbers that parameters stand for, read from a problem file."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import casadi as ca
import numpy as np

from dynamics import constraints as held
from dynamics import forces as law
from dynamics.constraints import Constraint
from dynamics.errors import ModelError, near
from dynamics.forces import Force
from dynamics.lie import rpy as rpy_angles
from dynamics.mechanism import Mechanism
from dynamics.model.model import Model
from dynamics.redmax.parameters import AddedInertia, ForceField, Parameter, check
from ocp.app.files.robot import forces_schema as schema
from ocp.app.files.robot import states as robot_state
from ocp.app.files.robot.scope import state_reader
from ocp.app.files.syntax import reader as lp
from ocp.app.files.syntax.findings import records
from ocp.app.files.syntax.parts import row_of
from ocp.app.files.syntax.reader import Section, sound

SX = Any


# ---- forces -------------------------------------------------------------------------------------------------------------
def read_forces(state: lp.Reader, model: Model, system: Section) -> tuple[Force, ...]:
    """The forces of a system; errors go to the findings of ``state``, the reader of expressions of x = (q, v)."""
    def read(item: Section) -> Force | None:
        form, section, name = item.chosen()
        return _force(section, model, form, item.spec.name or name.replace("_", " "))

    return replace(system, reader=state).all("forces", read)


@sound
def _force(section: Section, model: Model, form: str, name: str) -> Force:
    made: Force = _efforts(section, model, name) if form == "efforts" else section.made(name=name)
    section.findings.settle()
    made.check(model)
    return made


def _efforts(section: Section, model: Model, name: str) -> Force:
    state, total = section.reader, ca.SX(model.nv, 1)
    for joint, text in section.spec.items():
        real = robot_state.alias(model, joint)
        if real not in model.velocity_names:
            lp.unknown(state.findings, joint, model.velocity_names, section.at(joint), "joint")
        elif (value := state.expression(text, section.at(joint))) is not None:
            if state.depends(value, ca.vertcat(state.t, state.p)):
                section.refuse("depends on time or parameters; a force is a function of q and v", joint)
            total[model.velocity_names.index(real)] = value
    section.findings.settle()
    q, v = state.x[:model.nq], state.x[model.nq:]
    return law.Expression(name, ca.Function("force", [q, v], [ca.densify(total)]))


# ---- constraints ----------------------------------------------------------------------------------------------------------
def read_constraints(model: Model, system: Section) -> tuple[Constraint, ...]:
    """The constraints of a system; errors go to the findings."""
    def read(item: Section) -> Constraint | None:
        form, section, name = item.chosen()
        return _constraint(section, model, form, name)

    return system.all("constraints", read)


@sound
def _constraint(section: Section, model: Model, form: str, name: str) -> Constraint:
    spec = section.spec
    made: Constraint
    if form == "joint_motion":
        made = held.JointMotion(name, robot_state.alias(model, spec.joint), _path(section, "path"))
    elif form == "frame_motion":
        position, angles, t = _path(section, "position"), _path(section, "rpy"), ca.SX.sym("t")
        turn = None if angles is None else ca.Function("R", [t], [ca.densify(rpy_angles.to_matrix(angles(t)))])
        made = held.FrameMotion(name, spec.frame, position, turn)
    else:
        made = _equation(section, model, name) if form == "equation" else section.made(name=name)
    section.findings.settle()
    made.check(model)
    return made


def _path(section: Section, key: str) -> ca.Function | None:
    """Expressions of time alone as a function of it, None where there are none; errors are recorded."""
    numbers, value = section.reader, getattr(section.spec, key)
    if value is None:
        return None
    found = _timed(numbers).column(value, section.at(key))
    if found is not None and numbers.depends(found, numbers.p):
        section.refuse("depends on parameters; a prescribed motion is a function of t and constants", key)
        found = None
    return ca.Function("path", [numbers.t], [ca.SX(0) if found is None else ca.densify(found)])


def _timed(reader: lp.Reader) -> lp.Reader:
    """The reader whose expressions know the time."""
    scope = reader.scope
    unavailable = {name: why for name, why in scope.unavailable.items() if name != "t"}
    return replace(reader, scope=replace(scope, names={**scope.names, "t": reader.t}, unavailable=unavailable))


def _equation(section: Section, model: Model, name: str) -> Constraint:
    state, key = _timed(state_reader(section.reader, model)), section.spec.form()
    value = state.column(getattr(section.spec, key), section.at(key))
    q, v = state.x[:model.nq], state.x[model.nq:]
    if value is not None and state.depends(value, state.p):
        section.refuse("depends on parameters; a constraint is an equation of q, v, t and constants", key)
    if value is not None and key == "position" and state.depends(value, v):
        section.refuse("depends on velocities; write it under 'velocity'", key)
    found = ca.SX(1, 1) if value is None or len(state.findings.found) else ca.densify(value)
    if key == "position":
        return held.PositionEquation(name, ca.Function("g", [q, state.t], [found]))
    return held.VelocityEquation(name, ca.Function("rate", [q, v, state.t], [found]))


# ---- numbers that stay parameters -----------------------------------------------------------------------------------------
@sound
def read_design(system: Section, mechanism: Mechanism) -> dict[str, Parameter]:
    """The robot parameter behind each name."""
    numbers, found = system.reader, dict[str, Parameter]()
    known = [p.name for p in numbers.parameters]
    for section in system.parts("design"):
        name, form = section.spec.parameter, section.spec.form()
        if name not in known:
            section.refuse(f"no parameter named {name!r}{near(name, known)}", "parameter")
            continue
        if name in found:
            section.refuse(f"the parameter {name!r} is assigned already", "parameter")
            continue
        with section.collecting(form):
            made = _made(section.part(form), mechanism)
            check(mechanism, [*found.values(), made])
            found[name] = made
            own = numbers.parameters[known.index(name)]
            for key, values in (("value", (own.value,)), ("optimise", own.bounds or ())):
                with numbers.findings.collecting(("parameters", name, key)):
                    for value in values:
                        _possible(mechanism, made, value)
    if mechanism.constraints and found:
        system.refuse("a robot with constraints has no design parameters; close the loop by a bushing", "design", at_key=True)
    return found


def _made(section: Section, mechanism: Mechanism) -> Parameter:
    spec = section.spec
    if not isinstance(spec, schema.DesignForce):
        made: Parameter = section.made()
        return made
    force = {force.name: force for force in mechanism.forces}.get(spec.name)
    called: dict[str, Any] = {key: row_of(kind, key).name or key for field in reversed(schema.RobotForce.model_fields.values())
                              for kind in records(field.annotation) for key in kind.model_fields}
    fields = {word: called[word] for word in get_args(schema.DesignForce.model_fields["field"].annotation)}
    words = [word for word, field in fields.items() if isinstance(getattr(force, field, None), float | int)]
    if force is not None and spec.field not in words:
        raise ModelError(f"has no numeric field {spec.field!r} (known: {', '.join(words) or 'none'})",
                         element=f"force {spec.name!r}")
    return ForceField(spec.name, fields[spec.field])


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
