"""Problem files of one phase or several turned into Problems, with what jumps between the phases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import casadi as ca

from dynamics.model.model import Model
from ocp.app.files import load_parts as lp
from ocp.app.files import robot_state
from ocp.app.files.findings import Findings
from ocp.app.files.load_model import RESERVED, read_mechanism, robot_numbers
from ocp.app.files.load_robot import names_configurations, robot_of_file, robot_phase
from ocp.app.files.load_sections import read_drawing, read_reference
from ocp.app.files.load_symbolic import symbolic_phase, symbolic_system
from ocp.app.files.load_tables import read_names
from ocp.app.files.loaded_robot import LoadedRobot
from ocp.app.files.schema import ProblemFile, SymbolicPhases, SymbolicProblem
from ocp.app.files.schema_robot import RobotPhaseInOrder, RobotPhases, RobotProblem, RobotReset
from ocp.app.files.yaml_source import KeyPath
from ocp.app.pages import scene
from ocp.bridge import closed
from ocp.contacts import impact_map
from ocp.errors import ProblemError
from ocp.guesses.silent import bridged
from ocp.interrupts import Activity, check
from ocp.problem import Constraint, Phase, Problem
from ocp.spaces import Space

SX = Any
FIRST = "nothing comes before the first phase"


def stretches(file: ProblemFile) -> list[tuple[KeyPath, str, Any]]:
    """Phases of a file: the keys under which they stand, names, and what the file says."""
    if isinstance(file, (SymbolicPhases, RobotPhases)):
        phases: tuple[Any, ...] = file.phases
        return [(("phases", i), given.name, given) for i, given in enumerate(phases)]
    return [(("phase",), "phase", file.phase)]


def load_symbolic(file: SymbolicProblem | SymbolicPhases, findings: Findings, folder: Path
                  ) -> tuple[Problem | None, scene.Drawing | None, list[lp.Reader]]:
    """The problem, its drawing where one system serves all phases, and the reader of every phase. Errors go to ``findings``."""
    constants = read_names(findings, file, folder)
    parameters = lp.read_parameters(findings, constants, file.parameters)
    phases: list[Phase] = []
    readers: list[lp.Reader] = []
    for at, name, given in stretches(file):
        check(Activity.READING)
        place, system = _system_of(findings, file.system, given, at)
        reader, made = symbolic_system(findings, constants, parameters, system, file.name, folder, place, at)
        phase = symbolic_phase(reader, given, made, name)
        if phases:
            space, before = made.space, phases[-1].system.space
            named = lp.known(reader, given.reset or {}, (*at, "reset"), space.names, "state")
            values = {state: value for state, text, path in named if (value := readers[-1].expression(text, path)) is not None}
            phase = replace(phase, reset=_reset(reader, readers[-1], before, space, values, given.reset is None))
        elif getattr(given, "reset", None) is not None:
            findings.add((*at, "reset"), FIRST, at_key=True)
        phases.append(phase)
        readers.append(reader)
    drawing = None
    if file.drawing and any(place != ("system",) for place in (reader.place for reader in readers)):
        findings.add(("drawing",), "needs one system for all phases", at_key=True)
    elif file.drawing:
        drawing = read_drawing(readers[0], file.drawing)
    return _problem(file, findings, phases, readers[0]), drawing, readers


def load_robot(file: RobotProblem | RobotPhases, findings: Findings, folder: Path
               ) -> tuple[Problem | None, Model | None, list[lp.Reader]]:
    """The problem, the robot of the first phase, and the reader of every phase. Errors go to ``findings``."""
    constants = read_names(findings, file, folder, RESERVED)
    parameters = lp.read_parameters(findings, constants, file.parameters, RESERVED)
    given_phases = stretches(file)
    configurations = names_configurations([given for _, _, given in given_phases])
    phases: list[Phase] = []
    robots: list[LoadedRobot] = []
    for at, name, given in given_phases:
        check(Activity.READING)
        place, system = _system_of(findings, file.system, given, at)
        numbers = robot_numbers(findings, constants, parameters, place, at)
        # phases of one robot share its model, which takes a moment to read
        same = next((robot for robot in robots if robot.given == system), None)
        base = same.base if same else read_mechanism(numbers, system, folder, place, configurations=configurations)
        robot = robot_of_file(numbers, system, base, given.contacts) if base is not None else None
        if base is None or robot is None:
            return None, None if base is None else base.model, [numbers]
        phase = robot_phase(robot, given, name)
        if phases:
            old = robots[-1]
            values = {} if given.reset is None else _robot_reset(robot, old, given.reset)
            phase = replace(phase, constraints=(*phase.constraints, *_touched(robot, old, given)))
            phase = replace(phase, reset=_reset(robot.reader, old.reader, old.system.space, robot.system.space, values,
                                                given.reset is None))
        elif getattr(given, "reset", None) is not None:
            findings.add((*at, "reset"), FIRST, at_key=True)
        phases.append(phase)
        robots.append(robot)
    if not findings.found and len({phase.system.space.names for phase in phases}) == 1:
        said = [given.start or given.final or given.guess.states is not None for _, _, given in given_phases]
        phases = list(bridged(phases, [not one for one in said]))
    # records of runs hold the fingerprint of this model: of one phase that of the robot file, of several that of the first phase
    model = robots[0].model if isinstance(file, RobotPhases) else robots[0].base.model
    return _problem(file, findings, phases, robots[0].reader), model, [robot.reader for robot in robots]


def _system_of(findings: Findings, common: Any, given: Any, phase: KeyPath) -> tuple[KeyPath, Any]:
    """Where the system of a phase is described, and the description."""
    if getattr(given, "system", None) is not None:
        return (*phase, "system"), given.system
    if common is None:
        findings.add(phase, "has no system, and the file has none for all phases")
        findings.raise_any()
    return ("system",), common


def _problem(file: ProblemFile, findings: Findings, phases: list[Phase], reader: lp.Reader) -> Problem | None:
    lp.unique_names(findings, [phase.name for phase in phases], ("phases",))
    reference = None if file.reference is None else read_reference(lp.Section(reader, file.reference, ("reference",)))
    try:
        return Problem(file.name, tuple(phases), file.description, file.source, reference)
    except ProblemError:
        if findings.found:  # what they left is no problem
            return None
        raise


# ---- what jumps ---------------------------------------------------------------------------------------------------------
def _reset(reader: lp.Reader, old: lp.Reader, before: Space, after: Space, values: Mapping[str, SX], silent: bool
           ) -> ca.Function | None:
    """(x before, p) -> x after. What ``values`` leaves out goes on under its own name; None where everything does."""
    if before.names == after.names and not values:
        return None
    lost = [name for name in after.names if name not in before.names and name not in values]
    if lost:
        path: KeyPath = reader.phase if silent else (*reader.phase, "reset")
        reader.findings.add(path, f"the phase before has no {', '.join(map(repr, lost))}; give a value under 'reset'")
        return None
    x = ca.vertcat(*(values[name] if name in values else old.x[before.names.index(name)] for name in after.names))
    if ca.depends_on(x, ca.vertcat(old.t, old.u)):
        reader.findings.add((*reader.phase, "reset"), "depends on time or on controls; a jump is a function of the state before")
        return None
    # the parameters are the same in all phases, each reader has symbols of its own
    x = ca.substitute(x, old.p, reader.p) if len(reader.parameters) else x
    return ca.Function("reset", [old.x, reader.p], [ca.densify(x)], ["x", "p"], ["x_start"])


def _touched(robot: LoadedRobot, before: LoadedRobot, given: RobotPhaseInOrder) -> tuple[Constraint, ...]:
    """What holds at the start of a phase for constraints that did not hold before: positions, and velocities unless an impact
    brings them about."""
    held, impact = [c.name for c in before.mechanism.constraints], given.reset is not None and given.reset.impact
    where = robot.reader.findings.source.where((*robot.reader.phase, "contacts"))
    conditions = (closed(robot.mechanism, c, robot.system.np, robot.unknowns, speeds=not impact, where=where)
                  for c in robot.mechanism.constraints if c.name not in held)
    return tuple(replace(c, name=f"{c.name} begins") for c in conditions if c.size)


def _robot_reset(robot: LoadedRobot, before: LoadedRobot, given: RobotReset) -> dict[str, SX]:
    model, values = robot.model, {}
    if given.impact:
        if given.velocities:
            robot.reader.findings.add((*robot.reader.phase, "reset", "velocities"),
                                      "an impact says what all velocities become; give one of the two", at_key=True)
        values = _struck(robot, before, given)
    groups = (("joints", given.joints, model.coordinate_names, "q."), ("velocities", given.velocities, model.velocity_names, "v."))
    for group, items, known, prefix in groups:
        for name, text in items.items():
            path: KeyPath = (*robot.reader.phase, "reset", group, name)
            real = robot_state.alias(model, name)
            if real not in known:
                lp.unknown(robot.reader.findings, name, known, path, "joint")
            elif group == "joints" and real in robot_state.quaternion_coordinates(model):
                robot.reader.findings.add(path, f"{name!r} is a component of a quaternion and cannot jump by itself", at_key=True)
            elif (value := before.reader.expression(text, path)) is not None:
                values[f"{prefix}{real}"] = value
    return values


def _struck(robot: LoadedRobot, before: LoadedRobot, given: RobotReset) -> dict[str, SX]:
    """Velocities after the impact of a phase's constraints, by the names of the state."""
    findings, model, path = robot.reader.findings, robot.model, (*robot.reader.phase, "reset", "impact")
    if before.model.coordinate_names != model.coordinate_names or before.model.velocity_names != model.velocity_names:
        findings.add(path, "an impact needs the same joints before and after", at_key=True)
        return {}
    held = [c.name for c in before.mechanism.constraints]
    new = [c.name for c in robot.mechanism.constraints if c.name not in held]
    if not new:
        findings.add(path, "nothing strikes: every constraint of this phase held before", at_key=True)
        return {}
    e = robot.reader.number(given.restitution, (*path[:-1], "restitution"))
    with findings.collecting(path):
        x = impact_map(robot.mechanism, before.reader.x, dict.fromkeys(new, e))
        return {f"v.{name}": x[model.nq + i] for i, name in enumerate(model.velocity_names)}
    return {}
