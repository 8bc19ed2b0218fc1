"""The robot that a file names, read from its URDF or MJCF file, with the drives, forces and deformable bodies that are added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import casadi as ca
import numpy as np

from dynamics import algorithms as alg
from dynamics.errors import near
from dynamics.forces import Place
from dynamics.mechanism import Mechanism, Motor, Thruster, direct_motors, drivable_joints, reflected
from dynamics.model.model import GRAVITY, Model
from dynamics.redmax.deformable import Vertex, with_mass_springs
from ocp.app.files.problem.gallery import in_gallery
from ocp.app.files.problem.names import read_constants
from ocp.app.files.robot.forces import read_constraints, read_forces
from ocp.app.files.robot.schema import RobotFile, RobotModel, RobotSystem
from ocp.app.files.robot.scope import state_reader
from ocp.app.files.robot.tree import read_tree
from ocp.app.files.syntax import reader as lp
from ocp.app.files.syntax.findings import Findings
from ocp.app.files.syntax.kinds import expect
from ocp.app.files.syntax.overrides import apply_overrides
from ocp.app.files.syntax.readable import validated
from ocp.app.files.syntax.reader import Section, sound
from ocp.app.files.syntax.scope import Scope
from ocp.app.files.syntax.yaml_source import KeyPath, Source
from ocp.errors import ProblemError

COLLECTION = "robots:"
FILE_ONLY = ("root", "mimic", "srdf", "packages")  # keys about robot files


def read_mechanism(system: Section, folder: Path, *, configurations: bool) -> Mechanism | None:
    """The robot that a section describes, with the drives and forces of its file; None after an error was recorded. Paths are
    relative to ``folder``. configurations: whether the file uses named ones, so that the SRDF beside the URDF is read."""
    spec, robot = system.spec, None
    gravity = system.value("gravity")
    if spec.robot is not None:
        with system.collecting(*(("robot",) if system.findings.source.entries.get(system.at("robot")) else ())):
            file = robot_path(spec.robot, folder)
            if file.suffix == ".urdf":
                robot = _read_urdf(spec, file, folder, gravity, configurations)
            else:
                robot = _read_mjcf(spec, file, gravity, str(system.path[-1]))
    if (spec.joints or spec.bodies or spec.frames) and (spec.robot is None or robot is not None):
        robot = _with_tree(system, robot, gravity, folder)
    if spec.mass_springs is not None and robot is not None:
        robot = with_deformable(system.part("mass_springs"), robot)
    for name, values in system.value("lock").items():
        if robot is not None:
            with system.collecting("lock", name):
                robot = robot.locked({name: lp.listed(values)})
    return robot


def robot_path(name: str, folder: Path) -> Path:
    """The robot file of a name or path. Raises ProblemError or ModelError where there is none, with near misses."""
    if name.startswith(COLLECTION):
        from dynamics.model.robots import find_robot

        return find_robot(name.removeprefix(COLLECTION))
    path = in_gallery(folder / name)
    if path.suffix not in (".urdf", ".xml"):
        raise ProblemError(f"expected a .urdf or .xml file, or {COLLECTION}NAME; got {name!r}")
    if path.is_dir():
        raise ProblemError(f"{path} is a folder, not a file")
    if not path.is_file():
        if not path.parent.is_dir():
            raise ProblemError(f"no file {path}; the folder {path.parent} does not exist")
        beside = [p.name for p in path.parent.iterdir() if p.suffix in (".urdf", ".xml") and p.is_file()]
        raise ProblemError(f"no file {path}{near(path.name, beside)}")
    return path


@sound
def _with_tree(system: Section, robot: Mechanism | None, gravity: tuple[float, ...] | None, folder: Path) -> Mechanism:
    """The robot with what the problem file says about its tree. Without drives of its own it has a motor at every joint."""
    if robot is None and (key := system.spec.differs(FILE_ONLY)):
        system.refuse("needs a robot file", key, at_key=True)
    system.findings.settle()
    model = read_tree(system, None if robot is None else robot.model, folder)
    if robot is None:
        model = model if gravity is None else replace(model, gravity=gravity)
    motors = None if robot is None or robot.motors == direct_motors(robot.model) else robot.motors
    return replace(robot or Mechanism(model), model=model, motors=direct_motors(model) if motors is None else motors)


def _read_urdf(spec: RobotModel, robot: Path, folder: Path, gravity: tuple[float, ...] | None, configurations: bool) -> Mechanism:
    from dynamics.model.urdf import read_urdf

    srdf: str | Path | None = None
    if spec.srdf != "auto":
        srdf = folder / spec.srdf
    elif configurations:
        srdf = "auto"
    model = read_urdf(robot, root=spec.root, keep_fixed=tuple(spec.joints), srdf=srdf,
                      packages={name: folder / path for name, path in spec.packages.items()},
                      mimic=spec.mimic, gravity=GRAVITY if gravity is None else gravity)
    return Mechanism(model, direct_motors(model))


def _read_mjcf(spec: RobotModel, robot: Path, gravity: tuple[float, ...] | None, key_path: str) -> Mechanism:
    from dynamics.mechanism.mjcf import read_mjcf_mechanism  # MuJoCo is an extra

    if spec.root != "fixed":
        raise ProblemError(f"{key_path}.root applies to URDF; an MJCF file says itself whether its base floats (<freejoint/>)")
    if key := spec.differs(FILE_ONLY):
        raise ProblemError(f"{key_path}.{key} applies to URDF, not to MJCF")
    robot_of_file = read_mjcf_mechanism(robot, gravity=gravity)
    if robot_of_file.nu or not robot_of_file.model.nv:
        return robot_of_file
    return replace(robot_of_file, motors=direct_motors(robot_of_file.model))  # a file without actuators says nothing about drives


# ---- what names mean before there is a robot -----------------------------------------------------------------------------
RESERVED = ("q", "v", "tau", "multiplier", "position", "velocity", "com", "energy", "angular_momentum", "constraint_force")


UNAVAILABLE = {**dict.fromkeys(RESERVED, "it belongs to the state or the controls; only numbers and constants can"),
                "t": "it is the time; only numbers and constants can"}


def robot_numbers(findings: Findings, constants: Scope, parameters: Sequence[lp.FileParameter], key_path: KeyPath = ("system",),
                  phase: KeyPath = ("phase",)) -> lp.Reader:
    """A reader of numbers, before there is a robot."""
    none = ca.SX(0, 1)
    named = dict.fromkeys((p.name for p in parameters), "it is a parameter; only numbers and constants can")
    known = replace(constants, unavailable={**named, **UNAVAILABLE})
    return lp.make_reader(findings, known, none, none, Scope(), parameters, key_path, phase)


# ---- drives and forces of the problem file ----------------------------------------------------------------------------
@sound
def mechanism_of_file(numbers: lp.Reader, spec: RobotSystem, robot: Mechanism) -> Mechanism:
    """The robot of the robot file with the drives and forces of the problem file."""
    section = Section(numbers, spec, numbers.key_path)
    written = section.parts("motors")
    drives = tuple(_drive(part, robot.model) for part in written)
    model = _with_rotors(written, drives, robot.model)
    taken = {velocity for drive in drives for velocity, _ in drive.gears}
    motors = tuple(m for m in _motors(numbers, spec, robot)
                   if not isinstance(spec.actuated, str) or any(velocity not in taken for velocity, _ in m.gears))
    thrusters = tuple(_thruster(part, robot.model) for part in section.parts("thrusters"))
    forces = read_forces(state_reader(numbers, robot.model), robot.model, section) if spec.forces else ()
    constraints = read_constraints(robot.model, section)
    numbers.findings.settle()
    own = robot.thrusters if spec.actuated == "all" else ()
    return Mechanism(model, (*motors, *drives), (*own, *thrusters), (*robot.forces, *forces), (*robot.constraints, *constraints))


def _motors(numbers: lp.Reader, spec: RobotSystem, robot: Mechanism) -> tuple[Motor, ...]:
    """Drives by name, of the robot file first, else motors at joints."""
    findings, path = numbers.findings, (*numbers.key_path, "actuated")
    if spec.actuated == "all":
        return robot.motors
    if spec.actuated == "joints":
        return direct_motors(robot.model)
    own, joints = {motor.name: motor for motor in robot.motors}, drivable_joints(robot.model)
    found: list[Motor] = []
    for i, name in enumerate(spec.actuated):
        if name in spec.actuated[:i]:
            findings.add((*path, i), f"the joint {name!r} is listed twice")
        elif name in own:
            found.append(own[name])
        elif name in joints:
            found += direct_motors(robot.model, [name])
        else:
            findings.add((*path, i), f"no joint named {name!r} that can have a motor{near(name, [*own, *joints])}")
    return tuple(found)


def _drive(section: Section, model: Model) -> Motor:
    for name in section.spec.gears:
        if name not in model.velocity_names:
            lp.unknown(section.reader.findings, name, model.velocity_names, section.at("gears", name), "velocity of the robot")
    made: Motor = section.made()
    return made


def _with_rotors(sections: Sequence[Section], drives: Sequence[Motor], model: Model) -> Model:
    """The model with the inertias of the rotors of its drives."""
    more: dict[str, float] = {}
    for section, drive in zip(sections, drives, strict=True):
        rotor = section.value("rotor")
        if rotor and len(drive.gears) > 1:
            section.refuse("a rotor inertia is supported only behind a single gear", "rotor")
        elif rotor > 0:
            more |= {velocity: more.get(velocity, 0.0) + rotor * ratio**2 for velocity, ratio in drive.gears}
    return reflected(model, more)


def _thruster(section: Section, model: Model) -> Thruster:
    made: Thruster = section.made()
    if not any(made.axis) and not any(made.moment):
        section.refuse("axis and moment are both zero", "axis")
    section.frame(model, "frame")
    if made.against:
        section.frame(model, "against")
    return made


# ---- mass-spring bodies -----------------------------------------------------------------------------------------------
@sound
def with_deformable(body: Section, robot: Mechanism) -> Mechanism:
    """The robot with the mass-spring body of the section."""
    vertices, edges = dict[str, Vertex](), []
    for name in body.spec.vertices:
        section = body.part("vertices", name)
        with section.collecting():
            vertices[name] = section.made(name=name)
            robot.model.frame(vertices[name].place.frame)
    for section in body.parts("edges"):
        between = section.spec.between
        for k, name in enumerate(between):
            if name not in body.spec.vertices:
                section.refuse(f"no vertex named {name!r}{near(name, list(body.spec.vertices))}", "between", k)
        if vertices.keys() >= set(between):
            length = section.value("length", _apart(robot, [vertices[name].place for name in between]))
            if not length > 0:
                section.refuse(f"must be positive, got {length:g} m", *(() if section.spec.length is None else ("length",)))
            edges.append(section.made(leave=("length",), length=length))
    body.findings.settle()
    return with_mass_springs(robot, list(vertices.values()), edges)


def _apart(robot: Mechanism, points: list[Place]) -> float:
    """The distance of two points in the neutral configuration."""
    q = alg.neutral(robot.model)
    first, second = (np.asarray(key_path.at(robot.model, q)).ravel() for key_path in points)
    return float(np.linalg.norm(second - first))


# ---- files that ask something of one robot: of inverse kinematics and of whole-body control ---------------------------
F = TypeVar("F", bound=RobotFile)


def begin(source: Source, overrides: Mapping[str, str], schema: type[F], kind: str) -> tuple[Source, F, lp.Reader]:
    """The source of a file of a kind with its overrides, its parts, and a reader of its numbers. Raises ProblemError."""
    findings = Findings(apply_overrides(source, overrides))
    expect(findings.source, kind)
    file = validated(findings, schema)
    return findings.source, file, robot_numbers(findings, read_constants(findings, file.constants, RESERVED), ())


def robot_of(numbers: lp.Reader, file: RobotFile, folder: Path, configurations: bool) -> Mechanism:
    """The robot; configurations: whether the file names some of its own. Raises ProblemError."""
    spec = RobotModel.model_validate({"robot": file.robot}) if isinstance(file.robot, str) else file.robot
    return read_mechanism(Section(numbers, spec, ("robot",)), folder, configurations=configurations) or numbers.findings.raised()
