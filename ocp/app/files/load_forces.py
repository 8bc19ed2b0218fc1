"""Forces and constraints of a robot, read from a problem file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import casadi as ca

from dynamics import forces as law
from dynamics.constraints import (
    Closure,
    Constraint,
    Contact,
    Coupling,
    FlatContact,
    FrameMotion,
    JointMotion,
    PointContact,
    PositionEquation,
    Rod,
    RollingContact,
    Skate,
    VelocityEquation,
)
from dynamics.forces import Force, Place
from dynamics.lie import rpy as rpy_angles
from dynamics.model.model import Model
from ocp.app.files import load_parts as lp
from ocp.app.files import robot_state
from ocp.app.files import schema_forces as schema
from ocp.app.files.state_scope import state_reader
from ocp.app.files.yaml_source import KeyPath

SX = Any


def read_forces(state: lp.Reader, model: Model, given: tuple[schema.RobotForce, ...], path: KeyPath) -> tuple[Force, ...]:
    """The forces under the key ``path``; errors go to the findings of ``state``, the reader of expressions of x = (q, v)."""
    found: list[Force] = []
    for i, item in enumerate(given):
        form = item.form()
        at: KeyPath = (*path, i, form)
        name = item.name or f"{form.replace('_', ' ')} {i + 1}"
        force = _READERS[form](state, model, name, getattr(item, form), at)
        if force is None:
            continue
        with state.findings.collecting(at):
            force.check(model)
            found.append(force)
    lp.unique_names(state.findings, [force.name for force in found], path)
    return tuple(found)


def read_constraints(numbers: lp.Reader, model: Model, given: tuple[schema.MechanismConstraint, ...], path: KeyPath
                     ) -> tuple[Constraint, ...]:
    """The constraints under the key ``path``; errors go to the findings."""
    found: list[Constraint] = []
    for i, item in enumerate(given):
        form = item.form()
        at: KeyPath = (*path, i, form)
        name = item.name or f"{form} {i + 1}"
        before = len(numbers.findings.found)
        with numbers.findings.collecting(at):
            made = _constraint(numbers, model, name, getattr(item, form), at)
            if len(numbers.findings.found) == before:
                made.check(model)
                found.append(made)
    lp.unique_names(numbers.findings, [constraint.name for constraint in found], path)
    return tuple(found)


def _constraint(numbers: lp.Reader, model: Model, name: str, given: Any, at: KeyPath) -> Constraint:
    if isinstance(given, schema.Ground):
        return _contact(numbers, name, given, at)
    if isinstance(given, schema.Blade):
        return Skate(name, given.frame, _vector(numbers, given.axis, (*at, "axis")),
                     _vector(numbers, given.position, (*at, "position")))
    if isinstance(given, schema.JointPath):
        return JointMotion(name, robot_state.alias(model, given.joint), _path(numbers, given.path, (*at, "path")))
    if isinstance(given, schema.FramePath):
        position = None if given.position is None else _path(numbers, given.position, (*at, "position"))
        angles = None if given.rpy is None else _path(numbers, given.rpy, (*at, "rpy"))
        t = ca.SX.sym("t")
        turn = None if angles is None else ca.Function("R", [t], [ca.densify(rpy_angles.to_matrix(angles(t)))])
        return FrameMotion(name, given.frame, position, turn)
    if isinstance(given, schema.Equation):
        return _equation(numbers, model, name, given, at)
    if isinstance(given, schema.Loop):
        x, y, z = numbers.vector(given.axis, 3, (*at, "axis"), "components")
        return Closure(name, given.first, given.second, given.joint, (x, y, z))
    if isinstance(given, schema.Rod):
        first, second = _places(numbers, given.points, at)
        return Rod(name, first, second, numbers.number(given.length, (*at, "length")))
    ratios = tuple((joint, numbers.number(ratio, (*at, "ratios", joint))) for joint, ratio in given.ratios.items())
    return Coupling(name, ratios, numbers.number(given.offset, (*at, "offset")))


def _contact(numbers: lp.Reader, name: str, given: schema.Ground, at: KeyPath) -> Contact:
    normal, height = _vector(numbers, given.normal, (*at, "normal")), numbers.number(given.height, (*at, "height"))
    friction = None if given.friction is None else numbers.number(given.friction, (*at, "friction"))
    if given.clearance is not None:
        numbers.number(given.clearance, (*at, "clearance"))
    if isinstance(given, schema.Touch):
        points, places = (tuple(_vector(numbers, x, (*at, key, i)) for i, x in enumerate(getattr(given, key)))
                          for key in ("points", "places"))
        return PointContact(name, given.frame, points, normal, height, friction, places, given.slides)
    if isinstance(given, schema.Sole):
        sizes = None if given.half_sizes is None else numbers.vector(given.half_sizes, 2, (*at, "half_sizes"), "lengths")
        return FlatContact(name, given.frame, _vector(numbers, given.position, (*at, "position")),
                           _vector(numbers, given.axis, (*at, "axis")), normal, height, friction,
                           None if sizes is None else (sizes[0], sizes[1]))
    assert isinstance(given, schema.Roller)
    axis = None if given.axis is None else _vector(numbers, given.axis, (*at, "axis"))
    return RollingContact(name, given.frame, numbers.number(given.radius, (*at, "radius")), axis, normal, height, friction)


def _vector(numbers: lp.Reader, value: Any, path: KeyPath) -> tuple[float, float, float]:
    x, y, z = numbers.vector(value, 3, path, "components")
    return x, y, z


def _path(numbers: lp.Reader, value: Any, path: KeyPath) -> ca.Function:
    """Expressions of time alone as a function of it; errors are recorded."""
    found = _timed(numbers).column(value, path)
    if found is not None and numbers.depends(found, numbers.p):
        numbers.findings.add(path, "depends on parameters; a prescribed motion is a function of t and constants")
        found = None
    return ca.Function("path", [numbers.t], [ca.SX(0) if found is None else ca.densify(found)])


def _timed(reader: lp.Reader) -> lp.Reader:
    """The reader whose expressions know the time."""
    scope = reader.scope
    unavailable = {name: why for name, why in scope.unavailable.items() if name != "t"}
    return replace(reader, scope=replace(scope, names={**scope.names, "t": reader.t}, unavailable=unavailable))


def _equation(numbers: lp.Reader, model: Model, name: str, given: schema.Equation, at: KeyPath) -> Constraint:
    state, key = _timed(state_reader(numbers, model)), "velocity" if given.position is None else "position"
    value = state.column(getattr(given, key), (*at, key))
    q, v = state.x[:model.nq], state.x[model.nq:]
    if value is not None and state.depends(value, state.p):
        state.findings.add((*at, key), "depends on parameters; a constraint is an equation of q, v, t and constants")
    if value is not None and key == "position" and state.depends(value, v):
        state.findings.add((*at, key), "depends on velocities; write it under 'velocity'")
    found = ca.SX(1, 1) if value is None or len(state.findings.found) else ca.densify(value)
    if key == "position":
        return PositionEquation(name, ca.Function("g", [q, state.t], [found]))
    return VelocityEquation(name, ca.Function("rate", [q, v, state.t], [found]))


def _place(state: lp.Reader, point: schema.Point, at: KeyPath) -> Place:
    x, y, z = state.vector(point.position, 3, (*at, "position"), "components")
    return Place(point.frame, (x, y, z))


def _places(state: lp.Reader, points: tuple[schema.Point, ...], at: KeyPath) -> tuple[Place, ...]:
    return tuple(_place(state, point, (*at, "points", k)) for k, point in enumerate(points))


def _joint_spring(state: lp.Reader, model: Model, name: str, given: schema.JointSpring, at: KeyPath) -> Force:
    rest = given.rest
    listed = rest if isinstance(rest, tuple) else () if rest is None else (rest,)
    values = tuple(state.number(x, (*at, "rest", k) if isinstance(rest, tuple) else (*at, "rest")) for k, x in enumerate(listed))
    return law.JointSpring(name, given.joint, state.number(given.stiffness, (*at, "stiffness")), values or None)


def _joint_damper(state: lp.Reader, model: Model, name: str, given: schema.JointDamper, at: KeyPath) -> Force:
    return law.JointDamper(name, given.joint, state.number(given.linear, (*at, "linear")),
                           state.number(given.quadratic, (*at, "quadratic")))


def _joint_friction(state: lp.Reader, model: Model, name: str, given: schema.JointFriction, at: KeyPath) -> Force:
    level, speed = (state.number(getattr(given, key), (*at, key)) for key in ("level", "speed"))
    return law.JointFriction(name, given.joint, level, speed)


def _joint_stop(state: lp.Reader, model: Model, name: str, given: schema.JointStop, at: KeyPath) -> Force:
    lower, upper = (tuple(state.number(x, spot) for x, spot in (
        [(value, (*at, key))] if not isinstance(value, tuple) else [(x, (*at, key, i)) for i, x in enumerate(value)]))
        for key, value in (("lower", given.lower), ("upper", given.upper)))
    return law.JointStop(name, given.joint, lower, upper, state.number(given.stiffness, (*at, "stiffness")),
                         state.number(given.damping, (*at, "damping")))


def _spring(state: lp.Reader, model: Model, name: str, given: schema.Spring, at: KeyPath) -> Force:
    kind = law.Cable if isinstance(given, schema.Cable) else law.Spring
    return kind(name, _places(state, given.points, at), state.number(given.stiffness, (*at, "stiffness")),
                state.number(given.length, (*at, "length")), state.number(given.damping, (*at, "damping")))


def _bushing(state: lp.Reader, model: Model, name: str, given: schema.Bushing, at: KeyPath) -> Force:
    first, second = _places(state, given.points, at)
    return law.Bushing(name, first, second, state.number(given.stiffness, (*at, "stiffness")),
                       state.number(given.damping, (*at, "damping")))


def _torsion(state: lp.Reader, model: Model, name: str, given: schema.Torsion, at: KeyPath) -> Force:
    x, y, z = state.vector(given.rest, 3, (*at, "rest"), "components")
    return law.Torsion(name, given.first, given.second, state.number(given.stiffness, (*at, "stiffness")),
                       state.number(given.damping, (*at, "damping")), (x, y, z))


def _push(state: lp.Reader, model: Model, name: str, given: schema.Push, at: KeyPath) -> Force:
    x, y, z = state.vector(given.force, 3, (*at, "force"), "components")
    return law.PointForce(name, _place(state, given.point, (*at, "point")), (x, y, z))


def _ground(state: lp.Reader, model: Model, name: str, given: schema.ElasticGround, at: KeyPath) -> Force:
    k, c, mu, k_t, e = (state.number(getattr(given, key), (*at, key))
                        for key in ("stiffness", "damping", "friction", "creep", "dissipation"))
    return law.Ground(name, _places(state, given.points, at), k, c, mu, k_t, _vector(state, given.normal, (*at, "normal")),
                      _vector(state, given.origin, (*at, "origin")), e)


def _drag(state: lp.Reader, model: Model, name: str, given: schema.Drag, at: KeyPath) -> Force:
    linear, quadratic = (state.vector(values, 6, (*at, key), "components") if values is not None else (0.0,) * 6
                         for key, values in (("linear", given.linear), ("quadratic", given.quadratic)))
    return law.Drag(name, given.frame, linear, quadratic)


def _efforts(state: lp.Reader, model: Model, name: str, given: Mapping[str, Any], at: KeyPath) -> Force | None:
    total, before = ca.SX(model.nv, 1), len(state.findings.found)
    for joint, text in given.items():
        real = robot_state.alias(model, joint)
        if real not in model.velocity_names:
            lp.unknown(state.findings, joint, model.velocity_names, (*at, joint), "joint")
        elif (value := state.expression(text, (*at, joint))) is not None:
            if state.depends(value, ca.vertcat(state.t, state.p)):
                state.findings.add((*at, joint), "depends on time or parameters; a force is a function of q and v")
            total[model.velocity_names.index(real)] = value
    if len(state.findings.found) > before:
        return None
    q, v = state.x[:model.nq], state.x[model.nq:]
    return law.Expression(name, ca.Function("force", [q, v], [ca.densify(total)]))


_READERS: dict[str, Callable[[lp.Reader, Model, str, Any, KeyPath], Force | None]] = {
    "joint_spring": _joint_spring, "joint_damper": _joint_damper, "joint_friction": _joint_friction, "joint_stop": _joint_stop,
    "spring": _spring,
    "cable": _spring, "bushing": _bushing, "torsion": _torsion, "push": _push, "drag": _drag,
    "ground": _ground, "efforts": _efforts}

