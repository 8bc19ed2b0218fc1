"""What moves the robot of a problem file: the drives of its own file or those named, thrusters and forces."""

from __future__ import annotations

from typing import Any

from dynamics.errors import near
from dynamics.mechanism import Mechanism, Motor, Thruster, direct_motors, drivable_joints
from dynamics.model.model import Model
from ocp.app.files import load_parts as lp
from ocp.app.files.load_forces import read_constraints, read_forces
from ocp.app.files.schema_robot import RobotSystem
from ocp.app.files.state_scope import state_reader
from ocp.app.files.yaml_source import KeyPath

SX = Any


def mechanism_of_file(numbers: lp.Reader, given: RobotSystem, robot: Mechanism) -> Mechanism | None:
    """The robot of the robot file with the drives and forces of the problem file; None after an error was recorded."""
    findings, place = numbers.findings, numbers.place
    before = len(findings.found)
    motors = _motors(numbers, given, robot)
    thrusters = tuple(_thruster(numbers, robot.model, i, t) for i, t in enumerate(given.thrusters))
    forces = read_forces(state_reader(numbers, robot.model), robot.model, given.forces, (*place, "forces")) if given.forces else ()
    constraints = read_constraints(numbers, robot.model, given.constraints, (*place, "constraints"))
    if len(findings.found) > before:
        return None
    own = robot.thrusters if given.actuated == "all" else ()
    with findings.collecting(place):
        return Mechanism(robot.model, motors, (*own, *thrusters), (*robot.forces, *forces), (*robot.constraints, *constraints))
    return None


def _motors(numbers: lp.Reader, given: RobotSystem, robot: Mechanism) -> tuple[Motor, ...]:
    """Drives by name, of the robot file first, else motors at joints."""
    findings, path = numbers.findings, (*numbers.place, "actuated")
    if given.actuated == "all":
        return robot.motors
    if given.actuated == "joints":
        return direct_motors(robot.model)
    own, joints = {motor.name: motor for motor in robot.motors}, drivable_joints(robot.model)
    found: list[Motor] = []
    for i, name in enumerate(given.actuated):
        if name in given.actuated[:i]:
            findings.add((*path, i), f"the joint {name!r} is listed twice")
        elif name in own:
            found.append(own[name])
        elif name in joints:
            found += direct_motors(robot.model, [name])
        else:
            findings.add((*path, i), f"no joint named {name!r} that can have a motor{near(name, [*own, *joints])}")
    return tuple(found)


def _thruster(numbers: lp.Reader, model: Model, i: int, given: Any) -> Thruster:
    path: KeyPath = (*numbers.place, "thrusters", i)
    axis, position, moment = (numbers.vector(getattr(given, key), 3, (*path, key), "components")
                              for key in ("axis", "position", "moment"))
    if not any(axis) and not any(moment):
        numbers.findings.add((*path, "axis"), "the axis is zero, and so is the moment")
    for key in ("frame", "against"):
        if getattr(given, key) is not None:
            with numbers.findings.collecting((*path, key)):
                model.frame(getattr(given, key))
    ratio = numbers.number(given.moment_ratio, (*path, "moment_ratio"))
    return Thruster(given.name, given.frame, (axis[0], axis[1], axis[2]), ratio, (position[0], position[1], position[2]),
                    (moment[0], moment[1], moment[2]), against=given.against or "")
