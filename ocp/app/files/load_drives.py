"""What moves the robot of a problem file: the drives of its own file or those named, thrusters and forces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dynamics.errors import near
from dynamics.mechanism import Mechanism, Motor, Thruster, direct_motors, drivable_joints, reflected
from dynamics.mechanism.drives import INF
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
    drives = tuple(_drive(numbers, robot.model, i, drive) for i, drive in enumerate(given.motors))
    model = robot.model if len(findings.found) > before else _with_rotors(numbers, given, drives, robot.model)
    taken = {velocity for drive in drives for velocity, _ in drive.gears}
    motors = tuple(m for m in _motors(numbers, given, robot)
                   if not isinstance(given.actuated, str) or any(velocity not in taken for velocity, _ in m.gears))
    thrusters = tuple(_thruster(numbers, robot.model, i, t) for i, t in enumerate(given.thrusters))
    forces = read_forces(state_reader(numbers, robot.model), robot.model, given.forces, (*place, "forces")) if given.forces else ()
    constraints = read_constraints(numbers, robot.model, given.constraints, (*place, "constraints"))
    if len(findings.found) > before:
        return None
    own = robot.thrusters if given.actuated == "all" else ()
    with findings.collecting(place):
        return Mechanism(model, (*motors, *drives), (*own, *thrusters), (*robot.forces, *forces),
                         (*robot.constraints, *constraints))
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


def _drive(numbers: lp.Reader, model: Model, i: int, given: Any) -> Motor:
    path: KeyPath = (*numbers.place, "motors", i)
    gears = []
    for name, ratio in given.gears.items():
        if name not in model.velocity_names:
            lp.unknown(numbers.findings, name, model.velocity_names, (*path, "gears", name), "velocity of the robot")
        gears.append((name, numbers.number(ratio, (*path, "gears", name))))
    low, high = (none if (end := getattr(given, key)) is None else numbers.number(end, (*path, key))
                 for key, none in (("lower", -INF), ("upper", INF)))
    return Motor(given.name, tuple(gears), low, high)


def _with_rotors(numbers: lp.Reader, given: RobotSystem, drives: Sequence[Motor], model: Model) -> Model:
    """The model with the inertias of the rotors of its drives."""
    more: dict[str, float] = {}
    for i, (drive, written) in enumerate(zip(drives, given.motors, strict=True)):
        path = (*numbers.place, "motors", i, "rotor")
        rotor = numbers.number(written.rotor, path)
        if rotor and len(drive.gears) > 1:
            numbers.findings.add(path, "a rotor behind a transmission couples its joints; only one behind a single gear is taken")
        elif not 0.0 <= rotor < INF:
            numbers.findings.add(path, f"must be finite and not negative, got {rotor:g}")
        else:
            for velocity, ratio in drive.gears:
                more[velocity] = more.get(velocity, 0.0) + rotor * ratio**2
    return reflected(model, {name: inertia for name, inertia in more.items() if inertia})


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
