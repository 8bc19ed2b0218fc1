"""A robot problem file turned into a Problem, in the forward or the inverse formulation of its dynamics."""

from __future__ import annotations

import functools
import keyword
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import casadi as ca
import numpy as np

from dynamics.constraints import Contact
from dynamics.errors import UnknownNameError
from dynamics.mechanism import Mechanism
from dynamics.model.model import Model
from dynamics.redmax.parameters import AddedInertia, Parameter, Varied, varied
from ocp import bridge
from ocp.app.files.problem.names import free_parameters
from ocp.app.files.problem.sections import in_samples, named_error, read_constraint, read_costs, read_duration
from ocp.app.files.problem.symbolic import read_robot_definitions
from ocp.app.files.robot import states as robot_state
from ocp.app.files.robot.forces import read_design
from ocp.app.files.robot.loaded import LoadedRobot, RobotBoxes, formulation, read_bounds, read_guess
from ocp.app.files.robot.model import RESERVED, mechanism_of_file
from ocp.app.files.robot.schema import RobotConstraint, RobotCost, RobotPhase, RobotSystem
from ocp.app.files.robot.scope import state_scope
from ocp.app.files.robot.start import START_WORDS, read_start
from ocp.app.files.syntax import reader as lp
from ocp.app.files.syntax.scope import RESERVED_NAMES, Scope, Table, VectorFunction
from ocp.app.files.syntax.yaml_source import KeyPath
from ocp.contacts import clear_constraint, constraint_forces, contact_constraints, impact_derivative, impact_map, with_contacts
from ocp.errors import ProblemError
from ocp.guesses.inverse_dynamics import standing
from ocp.interrupts import Activity, check
from ocp.problem import At, Behind, Bounds, Constraint, Cost, Phase, System
from ocp.robot_terms import RobotTerms

SX = Any
Item = TypeVar("Item", Cost, Constraint)
#: what the components of a difference from a frame's target are called
AXES = {"position_error": ("x", "y", "z"), "orientation_error": ("about x", "about y", "about z"),
        "pose_error": ("x", "y", "z", "about x", "about y", "about z")}


# ---- the robot ----------------------------------------------------------------------------------------------------------
def names_configurations(phases: Sequence[RobotPhase]) -> bool:
    """Whether phases use named configurations, so that an SRDF file must be read."""
    named: list[Any] = []
    for phase in phases:
        guess = phase.guess.states
        guesses = list(guess) if isinstance(guess, tuple) else [] if guess is None else [guess]
        named += [phase.start, phase.final, *guesses, *(cost.state_error for cost in phase.costs),
                  *(task.posture for state in guesses for task in state.ik)]
    others = (getattr(phase.start, "others", None) for phase in phases)
    known = (None, *START_WORDS)
    return any(spec is not None and spec.configuration for spec in named) or any(word not in known for word in others)


def robot_of_file(numbers: lp.Reader, spec: RobotSystem, base: Mechanism, active: Sequence[str] | None = None
                  ) -> LoadedRobot | None:
    """The robot of the robot file as the system of the problem file, with the contacts of the phase (None: all); None after an
    error was recorded."""
    mechanism = mechanism_of_file(numbers, spec, base)
    if mechanism is None:
        return None
    contacts = {c.name: c for c in mechanism.constraints if isinstance(c, Contact)}
    for i, name in enumerate(active or ()):
        if name not in contacts:
            lp.unknown(numbers.findings, name, list(contacts), (*numbers.phase, "contacts", i), "contact in system.constraints")
            return None
    held = mechanism if active is None else with_contacts(mechanism, active)
    idle = () if active is None else tuple(c for name, c in contacts.items() if name not in active)
    with numbers.findings.collecting(numbers.key_path):
        return replace(controlled(numbers, spec, held, base), idle=idle)
    return None


def controlled(numbers: lp.Reader, spec: RobotSystem, mechanism: Mechanism, base: Mechanism) -> LoadedRobot:
    """The mechanism as a system, with the reader of its expressions. Raises ProblemError where the formulation does not serve."""
    values, design = {p.name: p.value for p in numbers.parameters}, None
    if not spec.design:
        check(Activity.READING)
    elif formulation(spec) != "forward_dynamics":
        raise ProblemError(f"numbers of the robot can be chosen with forward_dynamics, not with {spec.formulation}",
                           where="system.formulation")
    else:
        design = read_design(lp.Section(numbers, spec, numbers.key_path), mechanism)
    forms = {"forward_dynamics": bridge.robot_system, "inverse_dynamics": bridge.inverse_dynamics_system,
             "residual": bridge.residual_dynamics_system}
    system = bridge.designed_system(mechanism, design, values) if design else \
        forms[formulation(spec)](mechanism, parameters=values)
    return _with_reader(numbers, LoadedRobot(base, mechanism, spec, system, numbers, ca.SX(0, 1)), design)


# ---- what names mean ----------------------------------------------------------------------------------------------------
def _with_reader(numbers: lp.Reader, robot: LoadedRobot, design: Mapping[str, Parameter] | None = None) -> LoadedRobot:
    """The robot with the reader of its expressions. Names of inputs mean efforts and thrusts in both formulations."""
    check(Activity.READING)
    model, system = robot.model, robot.system
    x = ca.vertcat(*(ca.SX.sym(name) for name in system.space.names))
    u = ca.vertcat(ca.SX(0, 1), *(ca.SX.sym(name) for name in system.inputs))
    q, v, t, p = x[: model.nq], x[model.nq :], ca.SX.sym("t"), lp.parameter_symbols(numbers.parameters)
    if robot.inverse:
        a, thrusts = u[: model.nv], u[model.nv :]
        tau = dict(zip(model.velocity_names, ca.vertsplit(bridge.inverse_effort(robot.mechanism, x, u, t=t)), strict=True))
        shares = {name: tau[velocity] if ratio == 1.0 else tau[velocity] / ratio
                  for name, (velocity, ratio) in bridge.motor_shares(robot.mechanism).items()}
        efforts = {**tau, **shares, **{thruster.name: thrusts[i] for i, thruster in enumerate(robot.mechanism.thrusters)}}
    else:
        a = system.rate(t, x, u, p if design else np.zeros(system.np))[model.nv :]
        efforts = {name: u[i] for i, name in enumerate(system.controls)}
    inputs = {name: efforts[name] for name in robot.inputs}
    held = functools.cache(lambda: constraint_forces(robot.mechanism, (t, x, u, None), robot.unknowns)
                           if robot.mechanism.constraints else {})

    def force(name: str) -> SX:
        if name not in held():
            raise UnknownNameError("constraint that is active in this phase", name, held())
        return held()[name]

    effort = ca.vertcat(ca.SX(0, 1), *inputs.values())
    taken = {*RESERVED, *RESERVED_NAMES, *numbers.constants.names, *(p.name for p in numbers.parameters)}
    plain = {name: value for name, value in inputs.items()
             if name.isidentifier() and not keyword.iskeyword(name) and name not in taken}
    state, mechanical = state_scope(numbers, model, x), lambda: robot.mechanism.energy(q, v)
    if design:
        at = [p.name for p in numbers.parameters]
        wide = varied(robot.mechanism, list(design.values()), ca.vertcat(*(p[at.index(name)] for name in design)), q, v,
                      ca.SX(model.nv, 1))
        state = replace(state, functions=state_scope(numbers, wide.mechanism.model, ca.vertcat(wide.q, wide.v)).functions)
        robot = replace(robot, wide=wide)
        mechanical = functools.partial(_energy_of, wide)
    rows = bridge.row_names(robot.mechanism) if robot.inverse or robot.residual else ()
    multipliers = {name: u[i] for i, name in enumerate(system.inputs) if i >= system.nu - len(rows)}
    forces = {"multiplier": Table(ca.vertcat(ca.SX(0, 1), *multipliers.values()), multipliers)} if multipliers else {}
    scope = Scope(
        names=plain,
        tables={**state.tables, "a": Table(a, robot_state.entries(model, a, velocities=True)), "tau": Table(effort, efforts),
                **forces},
        functions={**state.functions,
                   "energy": VectorFunction(mechanical, takes_name=False),
                   "constraint_force": VectorFunction(force, what="constraint")},
    )
    reader = lp.make_reader(numbers.findings, numbers.constants, x, u, scope, numbers.parameters, numbers.key_path, numbers.phase,
                            t, p)
    return replace(robot, reader=read_robot_definitions(reader, robot.spec.define, RESERVED), effort=effort)


def _energy_of(wide: Varied) -> SX:
    if any(isinstance(one, AddedInertia) for one in wide.added):
        raise ProblemError("energy() does not know inertias that are parameters", where="design")
    return wide.mechanism.energy(wide.q, wide.v)


# ---- the phase ----------------------------------------------------------------------------------------------------------
def robot_phase(robot: LoadedRobot, spec: RobotPhase, name: str) -> Phase:
    """The phase at the keys ``robot.reader.phase``."""
    reader, model, system, at = robot.reader, robot.model, _in_time(robot, robot.system), robot.reader.phase
    boxes = read_bounds(reader, robot.mechanism, robot.spec.limits, spec.bounds)
    controls, efforts = _control_bounds(robot, spec, boxes)
    names = robot_state.RobotNames(reader, model, system.space, boxes.x, constraints=robot.mechanism.constraints)
    begins = spec.guess.states[0] if isinstance(spec.guess.states, tuple) else spec.guess.states
    start = read_start(names, spec.start, at, begins)
    final = robot_state.read_state(names, spec.final, (*at, "final")) if spec.final else None
    whole = lp.Section(reader, spec, at)
    constraints = whole.all("constraints", lambda section: _constraint(section, robot.model_and_configuration))

    def error(cost: Any, form: str, path: KeyPath) -> SX | None:
        return _error(robot, names, lp.Section(reader, getattr(cost, form), path), form)

    free_start = spec.start is not None and not (start and start.coordinates.all())
    where = reader.findings.source.where((*reader.key_path, "constraints"))
    closed = tuple(replace(c, where=where) for c in system.constraints if c.at is At.START and free_start)

    phase = Phase(
        name=name, system=replace(system, constraints=()), duration=read_duration(reader, spec.duration, system.period),
        guess=read_guess(names, robot, spec, start, final, boxes.inputs),
        start=start.boundary() if start else None, final=final.boundary() if final else None,
        costs=_after_impacts(robot, spec.costs, read_costs(whole, error, system.period), (*at, "costs")),
        constraints=(*_after_impacts(robot, spec.constraints, constraints, (*at, "constraints")), *efforts, *closed,
                     *_ground(robot)),
        free_parameters=free_parameters(reader),
    ).with_bounds(states=Bounds.of(boxes.x), controls=Bounds.of(controls))
    # without efforts a robot on contacts falls, and their forces lie outside their cones
    return phase if spec.guess.controls or reader.findings.found else standing(phase)


def _after_impacts(robot: LoadedRobot, spec: Sequence[RobotCost | RobotConstraint], found: tuple[Item, ...], path: KeyPath
                   ) -> tuple[Item, ...]:
    """Costs or constraints of a phase; those at its end that name contacts that strike there as functions of the state before."""
    findings, contacts = robot.reader.findings, {c.name: c for c in (*robot.mechanism.constraints, *robot.idle)}
    unknown = [(i, k, name) for i, one in enumerate(spec) for k, name in enumerate(one.impact)
               if not isinstance(contacts.get(name), Contact)]
    for i, k, name in unknown:
        known = [name for name, c in contacts.items() if isinstance(c, Contact)]
        lp.unknown(findings, name, known, (*path, i, "impact", k), "contact in system.constraints")
    if unknown or len(spec) != len(found):  # some could not be read
        return found
    struck = {names: replace(robot.mechanism, constraints=tuple(
        c for c in contacts.values() if not isinstance(c, Contact) or c.name in names)) for names in {one.impact for one in spec}}
    slopes = {names: functools.partial(impact_derivative, mechanism) for names, mechanism in struck.items()}
    return tuple(_after_impact(robot.reader, item, struck[one.impact], slopes[one.impact]) if one.impact else item
                 for one, item in zip(spec, found, strict=True))


def _after_impact(reader: lp.Reader, item: Item, struck: Mechanism, derivative: Callable[[], ca.Function]) -> Item:
    value = item.function(reader.t, impact_map(struck, reader.x), reader.u, reader.p)
    whole = reader.function(item.name, value)
    if isinstance(item, Constraint):
        return replace(item, function=whole)
    return replace(item, function=whole, behind=Behind(whole, item.function, derivative))


def _in_time(robot: LoadedRobot, system: System) -> System:
    """The system, or its samples where the file asks for them."""
    if robot.spec.sampled is not None and (robot.inverse or robot.residual):
        robot.reader.findings.add((*robot.reader.key_path, "sampled"), "steps of robots with the formulation "
                                  f"{formulation(robot.spec)} are not known", at_key=True)
        return system
    return in_samples(robot.reader, robot.spec.sampled, system)


def _ground(robot: LoadedRobot) -> tuple[Constraint, ...]:
    """Constraints of active contacts, and the clearance of inactive ones where the file asks for it."""
    reader, mechanism = robot.reader, robot.mechanism
    where = reader.findings.source.where((*reader.key_path, "constraints"))
    sizes = robot.system.np, robot.unknowns
    return (*contact_constraints(mechanism, *sizes, where=where),
            *(clear_constraint(mechanism, c, c.clearance, *sizes, where=where) for c in robot.idle if c.clearance is not None))


def _control_bounds(robot: LoadedRobot, spec: RobotPhase, boxes: RobotBoxes
                    ) -> tuple[np.ndarray, tuple[Constraint, ...]]:
    """Bounds [nu, 2] of the controls, and the constraints on efforts that they do not express."""
    findings, at = robot.reader.findings, robot.reader.phase
    if not robot.inverse:
        for part, key in ((spec.bounds, "bounds"), (spec.guess, "guess")):
            if part.accelerations and not robot.residual:
                findings.add((*at, key, "accelerations"), "accelerations are controls in system.formulation: inverse_dynamics; "
                             'a constraint on a["joint"] holds in both', at_key=True)
        where = findings.source.where((*robot.reader.key_path, "robot"))
        shared = tuple(replace(c, where=where) for c in robot.system.constraints
                       if c.at is At.PATH and robot.spec.limits.effort)
        if not robot.residual:
            return boxes.inputs, shared
        free = np.tile([-np.inf, np.inf], (len(robot.system.algebraic) - robot.model.nv, 1))
        return np.vstack([boxes.inputs, boxes.accelerations, free]), shared
    first = len(robot.mechanism.motors)
    limits = {name: (low, high) for name, (low, high) in zip(robot.inputs[:first], boxes.inputs.tolist(), strict=False)}
    efforts = bridge.effort_constraints(robot.mechanism, limits=limits, parameters=robot.system.np,
                                 where=findings.source.where((*robot.reader.key_path, "formulation")))
    free = np.tile([-np.inf, np.inf], (len(bridge.row_names(robot.mechanism)), 1))
    return np.vstack([boxes.accelerations, boxes.inputs[first:], free]), efforts


def _error(robot: LoadedRobot, names: robot_state.RobotNames, section: lp.Section, form: str) -> SX | None:
    """Residuals of a cost on the difference from a state, from inputs, or from a target of a frame."""
    if form == "control_error":
        return named_error(section.reader, section.spec, robot.inputs, robot.effort, section.path, "control")
    if form != "state_error":
        return _frame_error(section, robot.model_and_configuration, form)
    state = robot_state.read_state(names, section.spec, section.path)
    chosen = np.flatnonzero(state.tangent)
    if not len(chosen):
        section.refuse("names no part of the state")
        return None
    return robot.system.space.minus(ca.DM(state.x), section.reader.x)[chosen.tolist()]


@lp.sound
def _constraint(section: lp.Section, model_and_configuration: tuple[Model, SX]) -> Constraint:
    form = section.spec.form()
    value = section.column(form) if form == "expression" else _frame_error(section.part(form), model_and_configuration, form)
    section.findings.settle()
    found = read_constraint(section, value)
    return replace(found, labels=AXES[form]) if form in AXES else found


@lp.sound
def _frame_error(section: lp.Section, model_and_configuration: tuple[Model, SX], form: str) -> SX:
    (model, q), target = model_and_configuration, section.spec
    terms = RobotTerms(model)
    section.frame(model, "frame")
    quaternion = None if form == "position_error" else robot_state.read_rotation(section.reader, target, section.path)
    section.findings.settle()
    if quaternion is None:
        return terms.position(target.frame, q) - ca.DM(section.value("position"))
    rotation = robot_state.rotation_matrix(quaternion)
    if form == "orientation_error":
        return terms.orientation_error(target.frame, q, rotation)
    return terms.pose_error(target.frame, q, rotation, np.array(section.value("position")))
