"""Problem files of one phase or several turned into Problems, with what jumps between the phases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import casadi as ca

from dynamics.constraints import Constraint as MechanismConstraint
from dynamics.constraints import Contact
from dynamics.model.model import Model
from ocp.app.files.problem.names import read_names, read_parameters
from ocp.app.files.problem.schema import ProblemFile, SymbolicPhases, SymbolicProblem
from ocp.app.files.problem.sections import read_drawing
from ocp.app.files.problem.symbolic import symbolic_phase, symbolic_system
from ocp.app.files.robot import states as robot_state
from ocp.app.files.robot.loaded import LoadedRobot
from ocp.app.files.robot.model import RESERVED, read_mechanism, robot_numbers
from ocp.app.files.robot.schema import RobotPhaseInOrder, RobotPhases, RobotProblem, RobotReset
from ocp.app.files.robot.system import names_configurations, robot_of_file, robot_phase
from ocp.app.files.syntax import reader as lp
from ocp.app.files.syntax.findings import Findings
from ocp.app.files.syntax.yaml_source import KeyPath
from ocp.app.pages import scene
from ocp.bridge import closed
from ocp.contacts import impact_derivative, impact_map
from ocp.errors import ProblemError
from ocp.guesses.silent import bridged
from ocp.interrupts import Activity, check
from ocp.problem import Constraint, Phase, Problem
from ocp.spaces import Space

SX = Any


def stretches(file: ProblemFile) -> list[tuple[KeyPath, str, Any]]:
    """Phases of a file: the keys under which they stand, names, and what the file says."""
    if isinstance(file, (SymbolicPhases, RobotPhases)):
        phases: tuple[Any, ...] = file.phases
        return [(("phases", i), spec.name, spec) for i, spec in enumerate(phases)]
    return [(("phase",), "phase", file.phase)]


def load_symbolic(file: SymbolicProblem | SymbolicPhases, findings: Findings, folder: Path
                  ) -> tuple[Problem | None, scene.Drawing | None, list[lp.Reader]]:
    """The problem, its drawing where one system serves all phases, and the reader of every phase. Errors go to ``findings``."""
    constants = read_names(findings, file, folder)
    parameters = read_parameters(findings, constants, file.parameters)
    phases: list[Phase] = []
    readers: list[lp.Reader] = []
    for at, name, spec, key_path, system in _each(findings, file):
        reader, made = symbolic_system(findings, constants, parameters, system, file.name, folder, key_path, at)
        phase = symbolic_phase(reader, spec, made, name)
        if phases:
            space, before = made.space, phases[-1].system.space
            named = lp.known(reader, spec.reset or {}, (*at, "reset"), space.names, "state")
            values = {state: value for state, text, path in named if (value := readers[-1].expression(text, path)) is not None}
            phase = replace(phase, reset=_reset(reader, readers[-1], before, space, values, spec.reset is None))
        phases.append(phase)
        readers.append(reader)
    drawing = None
    if file.drawing and any(key_path != ("system",) for key_path in (reader.key_path for reader in readers)):
        findings.add(("drawing",), "needs one system for all phases", at_key=True)
    elif file.drawing:
        drawing = read_drawing(readers[0], file.drawing)
    return _problem(file, findings, phases, readers[0]), drawing, readers


def load_robot(file: RobotProblem | RobotPhases, findings: Findings, folder: Path
               ) -> tuple[Problem | None, Model | None, list[lp.Reader]]:
    """The problem, the robot of the first phase, and the reader of every phase. Errors go to ``findings``."""
    constants = read_names(findings, file, folder, RESERVED)
    parameters = read_parameters(findings, constants, file.parameters, RESERVED)
    configurations = names_configurations([spec for _, _, spec in stretches(file)])
    phases: list[Phase] = []
    robots: list[LoadedRobot] = []
    for at, name, spec, key_path, system in _each(findings, file):
        numbers = robot_numbers(findings, constants, parameters, key_path, at)
        # phases of one robot share its model, those that stand on the same contacts its dynamics: each takes a moment to read
        same = [robot for robot in robots if robot.spec == system]
        base = same[0].base if same else read_mechanism(lp.Section(numbers, system, key_path), folder,
                                                              configurations=configurations)
        robot = next((replace(robot, reader=replace(robot.reader, phase=at, key_path=key_path)) for robot in same
                      if robot.stands_on(spec.contacts)), None)
        robot = robot or (robot_of_file(numbers, system, base, spec.contacts) if base is not None else None)
        if base is None or robot is None:
            return None, None if base is None else base.model, [numbers]
        phase = robot_phase(robot, spec, name)
        if phases:
            old = robots[-1]
            values = {} if spec.reset is None else _robot_reset(robot, old, spec.reset)
            phase = replace(phase, constraints=(*phase.constraints, *_touched(robot, old, spec)))
            phase = replace(phase, reset=_reset(robot.reader, old.reader, old.system.space, robot.system.space, values,
                                                spec.reset is None), reset_derivative=_reset_derivative(robot, old, spec.reset))
        phases.append(phase)
        robots.append(robot)
    if not findings.found and len({phase.system.space.names for phase in phases}) == 1:
        said = [spec.start or spec.final or spec.guess.states is not None for _, _, spec in stretches(file)]
        phases = list(bridged(phases, [not one for one in said]))
    phases = [_beside_touches(phases, robots, i) for i in range(len(phases))]
    # records of runs hold the fingerprint of this model: of one phase that of the robot file, of several that of the first phase
    model = robots[0].model if isinstance(file, RobotPhases) else robots[0].base.model
    return _problem(file, findings, phases, robots[0].reader), model, [robot.reader for robot in robots]


def _each(findings: Findings, file: ProblemFile) -> Iterator[tuple[KeyPath, str, Any, KeyPath, Any]]:
    """The phases of a file, each with where its system is described and the description."""
    for i, (at, name, spec) in enumerate(stretches(file)):
        check(Activity.READING)
        yield at, name, spec, *system_of(findings, file.system, spec, at)
        if not i and getattr(spec, "reset", None) is not None:
            findings.add((*at, "reset"), "nothing comes before the first phase", at_key=True)


def system_of(findings: Findings, common: Any, spec: Any, phase: KeyPath) -> tuple[KeyPath, Any]:
    """Where the system of a phase is described, and the description."""
    if getattr(spec, "system", None) is not None:
        return (*phase, "system"), spec.system
    if common is None:
        findings.add(phase, "has no system, and the file has none for all phases")
        findings.raise_any()
    return ("system",), common


def _problem(file: ProblemFile, findings: Findings, phases: list[Phase], reader: lp.Reader) -> Problem | None:
    names = [phase.name for phase in phases]
    for i, name in enumerate(names):
        if name in names[:i]:
            findings.add(("phases", i, "name"), f"the name {name!r} is already used by phases[{names.index(name)}]")
    reference = None if file.reference is None else lp.Section(reader, file.reference, ("reference",)).made()
    try:
        return Problem(file.name, tuple(phases), file.description, file.source, reference)
    except ProblemError:
        if findings.found:  # what they left is no problem
            return None
        raise


# ---- what jumps ---------------------------------------------------------------------------------------------------------
def _reset(reader: lp.Reader, old: lp.Reader, before: Space, after: Space, values: Mapping[str, SX], silent: bool
           ) -> ca.Function | None:
    """(x before, p) -> x after. Components that ``values`` leaves out continue under their own names; None where all do."""
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


def _touched(robot: LoadedRobot, before: LoadedRobot, spec: RobotPhaseInOrder) -> tuple[Constraint, ...]:
    """Conditions at the start of a phase: positions of constraints that were not active before, and velocities, unless they impact;
    where an impact is that of some contacts only, the velocities of the others. None where that is left to stabilisation."""
    if spec.reset is not None and not spec.reset.consistent:
        return ()
    held, strikes = [c.name for c in before.mechanism.constraints], _striking(robot, spec.reset)
    partial = spec.reset is not None and isinstance(spec.reset.impact, tuple)
    where = robot.reader.findings.source.where((*robot.reader.phase, "contacts"))
    conditions = (closed(robot.mechanism, c, robot.system.np, robot.unknowns, position=c.name not in held, speeds=c not in strikes,
                         where=where)
                  for c in robot.mechanism.constraints if c.name not in held or (partial and c not in strikes))
    return tuple(replace(c, name=f"{c.name} begins") for c in conditions if c.size)


def _striking(robot: LoadedRobot, spec: RobotReset | None) -> tuple[MechanismConstraint, ...]:
    """The constraints that strike at the start of a phase: all of the mechanism, or without the contacts that are not listed."""
    if spec is None or not spec.impact:
        return ()
    listed = spec.impact if isinstance(spec.impact, tuple) else None
    return tuple(c for c in robot.mechanism.constraints if listed is None or not isinstance(c, Contact) or c.name in listed)


def _beside_touches(phases: list[Phase], robots: list[LoadedRobot], i: int) -> Phase:
    """The phase whose idle contacts know of the phases beside it in which they touch: their height there follows from these."""
    before, after = (robots[k].mechanism.constraints if 0 <= k < len(robots) else () for k in (i - 1, i + 1))
    touching = {f"{c.name} clear": (c in before, c in after) for c in robots[i].idle}
    return replace(phases[i], constraints=tuple(
        replace(c, met=touching[c.name]) if c.name in touching else c for c in phases[i].constraints))


def _robot_reset(robot: LoadedRobot, before: LoadedRobot, spec: RobotReset) -> dict[str, SX]:
    model, values = robot.model, {}
    if spec.impact:
        if spec.velocities:
            robot.reader.findings.add((*robot.reader.phase, "reset", "velocities"),
                                      "an impact says what all velocities become; give one of the two", at_key=True)
        values = _struck(robot, before, spec)
    groups = (("joints", spec.joints, model.coordinate_names, "q."), ("velocities", spec.velocities, model.velocity_names, "v."))
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


def _restitution(robot: LoadedRobot, before: LoadedRobot, spec: RobotReset) -> dict[str, float]:
    """Of the constraints that strike and did not hold before."""
    e, held = robot.reader.number(spec.restitution, (*robot.reader.phase, "reset", "restitution")), before.mechanism.constraints
    return {c.name: e for c in _striking(robot, spec) if c.name not in [one.name for one in held]}


def _reset_derivative(robot: LoadedRobot, before: LoadedRobot, spec: RobotReset | None) -> Callable[[], ca.Function] | None:
    """The derivative of an impact that leaves the joints where they are."""
    striking = _striking(robot, spec)
    if not striking or spec is None or spec.joints or robot.reader.findings.found or robot.mechanism.prescribed:
        return None
    return partial(impact_derivative, replace(robot.mechanism, constraints=striking), _restitution(robot, before, spec))


def _struck(robot: LoadedRobot, before: LoadedRobot, spec: RobotReset) -> dict[str, SX]:
    """Velocities after the impact of a phase's constraints, by the names of the state."""
    findings, model, path = robot.reader.findings, robot.model, (*robot.reader.phase, "reset", "impact")
    if before.model.coordinate_names != model.coordinate_names or before.model.velocity_names != model.velocity_names:
        findings.add(path, "an impact needs the same joints before and after", at_key=True)
        return {}
    striking, held = _striking(robot, spec), [c.name for c in before.mechanism.constraints]
    new = [c.name for c in striking if c.name not in held]
    known = [c.name for c in robot.mechanism.constraints if isinstance(c, Contact)]
    unknown = [(i, name) for i, name in enumerate(spec.impact) if name not in known] if isinstance(spec.impact, tuple) else []
    for i, name in unknown:
        lp.unknown(findings, name, known, (*path, i), "contact that is active in this phase")
    if not new:
        findings.add(path, "nothing strikes: every constraint of this phase was active before", at_key=True)
    if unknown or not new:
        return {}
    with findings.collecting(path):
        x = impact_map(replace(robot.mechanism, constraints=striking), before.reader.x, _restitution(robot, before, spec))
        return {f"v.{name}": x[model.nq + i] for i, name in enumerate(model.velocity_names)}
    return {}
