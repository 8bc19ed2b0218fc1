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

SX = Any


def mechanism_of_file(numbers: lp.Reader, given: RobotSystem, robot: Mechanism) -> Mechanism | None:
    """The robot of the robot file with the drives and forces of the problem file; None after an error was recorded."""
    findings, place = numbers.findings, numbers.place
    before = len(findings.found)
    section = lp.Section(numbers, given, place)
    written = section.parts("motors")
    drives = tuple(_drive(part, robot.model) for part in written)
    model = robot.model if len(findings.found) > before else _with_rotors(written, drives, robot.model)
    taken = {velocity for drive in drives for velocity, _ in drive.gears}
    motors = tuple(m for m in _motors(numbers, given, robot)
                   if not isinstance(given.actuated, str) or any(velocity not in taken for velocity, _ in m.gears))
    thrusters = tuple(_thruster(part, robot.model) for part in section.parts("thrusters"))
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


def _drive(section: lp.Section, model: Model) -> Motor:
    numbers, gears = section.reader, section.given.gears
    for name in gears:
        if name not in model.velocity_names:
            lp.unknown(numbers.findings, name, model.velocity_names, section.at("gears", name), "velocity of the robot")
    ratios = tuple((name, numbers.number(ratio, section.at("gears", name))) for name, ratio in gears.items())
    return Motor(section.given.name, ratios, section.number("lower", -INF), section.number("upper", INF))


def _with_rotors(sections: Sequence[lp.Section], drives: Sequence[Motor], model: Model) -> Model:
    """The model with the inertias of the rotors of its drives."""
    more: dict[str, float] = {}
    for section, drive in zip(sections, drives, strict=True):
        rotor = section.number("rotor")
        if rotor and len(drive.gears) > 1:
            section.refuse("a rotor behind a transmission couples its joints; only one behind a single gear is taken", "rotor")
        elif not 0.0 <= rotor < INF:
            section.refuse(f"must be finite and not negative, got {rotor:g}", "rotor")
        else:
            for velocity, ratio in drive.gears:
                more[velocity] = more.get(velocity, 0.0) + rotor * ratio**2
    return reflected(model, {name: inertia for name, inertia in more.items() if inertia})


def _thruster(section: lp.Section, model: Model) -> Thruster:
    values = section.reader.record(section.given, section.path)
    if not any(values["axis"]) and not any(values["moment"]):
        section.refuse("the axis is zero, and so is the moment", "axis")
    section.frame(model, "frame")
    if values["against"] is not None:
        section.frame(model, "against")
    return Thruster(**{**values, "against": values["against"] or ""})
