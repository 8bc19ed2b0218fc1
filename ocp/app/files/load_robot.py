"""A robot problem file turned into a Problem."""

from __future__ import annotations

import functools
import keyword
from dataclasses import replace
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np

from dynamics.errors import near
from dynamics.model.model import Model
from ocp.app.files import load_parts as lp
from ocp.app.files import robot_state
from ocp.app.files.expressions import RESERVED_NAMES, Scope, Table, VectorFunction
from ocp.app.files.findings import Findings
from ocp.app.files.load_model import read_model
from ocp.app.files.schema_robot import GuessState, RobotConstraint, RobotProblem
from ocp.app.files.yaml_source import KeyPath
from ocp.bridge import RobotTerms, Thruster, actuated_joints, robot_system
from ocp.problem import Constraint, Guess, Phase, Problem, System

SX = Any
RESERVED = ("q", "v", "tau", "position", "velocity", "com", "energy")


def load_robot(file: RobotProblem, findings: Findings, folder: Path) -> tuple[Problem | None, Model | None, lp.Reader]:
    """The problem and its robot; paths are relative to ``folder``. Errors go to ``findings``."""
    constants = lp.read_constants(findings, file.constants, RESERVED)
    none = ca.SX(0, 1)
    numbers = lp.make_reader(findings, replace(constants, unavailable=UNAVAILABLE), none, none, Scope())
    model = read_model(numbers, file.system, folder, "system", configurations=_names_configurations(file))
    system = _system(numbers, file, model) if model is not None else None
    if model is None or system is None:
        return None, model, numbers
    reader = _reader(numbers, model, system)
    phase = _phase(reader, file, model, system)
    reference = lp.read_reference(reader, file.reference)
    problem = None if findings.found else Problem(file.name, (phase,), file.description, file.source, reference)
    return problem, model, reader


UNAVAILABLE = {**dict.fromkeys(RESERVED, "it belongs to the state or the controls; only numbers and constants can"),
                "t": "it is the time; only numbers and constants can"}


# ---- the robot ----------------------------------------------------------------------------------------------------------
def _names_configurations(file: RobotProblem) -> bool:
    guess = file.phase.guess.states
    guesses = list(guess) if isinstance(guess, tuple) else [] if guess is None else [guess]
    postures = [task.posture for state in guesses for task in state.ik]
    return any(given is not None and given.configuration for given in (file.phase.start, file.phase.final, *guesses, *postures))


def _system(numbers: lp.Reader, file: RobotProblem, model: Model) -> System | None:
    given, findings = file.system, numbers.findings
    before = len(findings.found)
    if isinstance(given.actuated, tuple):
        known = actuated_joints(model)
        for i, joint in enumerate(given.actuated):
            if joint not in known:
                findings.add(("system", "actuated", i),
                             f"no joint named {joint!r} that can have a motor{near(joint, known)}")
            elif joint in given.actuated[:i]:
                findings.add(("system", "actuated", i), f"the joint {joint!r} is listed twice")
    thrusters = []
    for i, thruster in enumerate(given.thrusters):
        path: KeyPath = ("system", "thrusters", i)
        axis = numbers.vector(thruster.axis, 3, (*path, "axis"), "components")
        if not any(axis):
            findings.add((*path, "axis"), "the axis is zero")
        with findings.collecting((*path, "frame")):
            model.frame(thruster.frame)
        ratio = numbers.number(thruster.moment_ratio, (*path, "moment_ratio"))
        thrusters.append(Thruster(thruster.name, thruster.frame, (axis[0], axis[1], axis[2]), ratio))
    if len(findings.found) > before:
        return None
    actuated = given.actuated if isinstance(given.actuated, str) else list(given.actuated)
    with findings.collecting(("system",)):
        return robot_system(model, actuated=actuated, thrusters=thrusters)
    return None


# ---- what names mean ----------------------------------------------------------------------------------------------------
def _reader(numbers: lp.Reader, model: Model, system: System) -> lp.Reader:
    x = ca.vertcat(*(ca.SX.sym(name) for name in system.space.names))
    u = ca.vertcat(ca.SX(0, 1), *(ca.SX.sym(name) for name in system.controls))
    q, v, terms = x[: model.nq], x[model.nq :], RobotTerms(model)
    controls = {name: u[i] for i, name in enumerate(system.controls)}
    taken = {*RESERVED, *RESERVED_NAMES, *numbers.constants.names}
    plain = {name: value for name, value in controls.items()
             if name.isidentifier() and not keyword.iskeyword(name) and name not in taken}

    @functools.cache
    def position(frame: str) -> SX:
        return terms.position(frame, q)

    @functools.cache
    def velocity(frame: str) -> SX:
        return terms.velocity(frame, q, v)

    scope = Scope(
        names=plain,
        tables={"q": Table(q, robot_state.entries(model, q, velocities=False)),
                "v": Table(v, robot_state.entries(model, v, velocities=True)), "tau": Table(u, controls)},
        functions={"position": VectorFunction(position), "velocity": VectorFunction(velocity),
                   "com": VectorFunction(lambda: terms.com(q), takes_name=False),
                   "energy": VectorFunction(lambda: terms.energy(q, v), takes_name=False)},
    )
    return lp.make_reader(numbers.findings, numbers.constants, x, u, scope)


# ---- the phase ----------------------------------------------------------------------------------------------------------
def _phase(reader: lp.Reader, file: RobotProblem, model: Model, system: System) -> Phase:
    given = file.phase
    x_bounds, u_bounds = robot_state.read_bounds(reader, model, system, file)
    names = robot_state.RobotNames(reader, model, system.space, x_bounds)
    start = robot_state.read_state(names, given.start, ("phase", "start")) if given.start else None
    final = robot_state.read_state(names, given.final, ("phase", "final")) if given.final else None
    constraints = [found for i, c in enumerate(given.constraints)
                   if (found := _constraint(reader, model, c, ("phase", "constraints", i))) is not None]
    lp.unique_names(reader.findings, [c.name for c in given.constraints], ("phase", "constraints"))
    return Phase(
        name="phase", system=system, duration=lp.read_duration(reader, given.duration),
        guess=_guess(names, system, file, start, final, u_bounds),
        start=start.boundary() if start else None, final=final.boundary() if final else None,
        x_lower=tuple(x_bounds[:, 0]), x_upper=tuple(x_bounds[:, 1]),
        u_lower=tuple(u_bounds[:, 0]), u_upper=tuple(u_bounds[:, 1]),
        costs=lp.read_costs(reader, given.costs), constraints=tuple(constraints),
    )


def _constraint(reader: lp.Reader, model: Model, constraint: RobotConstraint, path: KeyPath) -> Constraint | None:
    quantity = constraint.one_quantity()
    if quantity == "expression":
        value = reader.column(constraint.expression, (*path, "expression"))
    else:
        value = _frame_error(reader, model, getattr(constraint, quantity), (*path, quantity), quantity)
    return None if value is None else lp.read_constraint(reader, constraint, value, path, quantity)


def _frame_error(reader: lp.Reader, model: Model, target: Any, path: KeyPath, quantity: str) -> SX | None:
    terms, q = RobotTerms(model), reader.x[: model.nq]
    with reader.findings.collecting((*path, "frame")):
        model.frame(target.frame)
        if quantity == "position_error":
            goal = reader.vector(target.position, 3, (*path, "position"), "components")
            return terms.position(target.frame, q) - ca.DM(goal)
        quaternion = robot_state.read_rotation(reader, target, path)
        if quaternion is None:
            return None
        rotation = robot_state.rotation_matrix(quaternion)
        if quantity == "orientation_error":
            return terms.orientation_error(target.frame, q, rotation)
        goal = reader.vector(target.position, 3, (*path, "position"), "components")
        return terms.pose_error(target.frame, q, rotation, np.array(goal))
    return None


def _guess(names: robot_state.RobotNames, system: System, file: RobotProblem, start: robot_state.PartialState | None,
           final: robot_state.PartialState | None, u_bounds: np.ndarray) -> Guess:
    reader, given = names.reader, file.phase.guess
    rows: list[tuple[float, ...]] = [(lp.resting_value(*bound),) for bound in u_bounds]
    for name, value in given.controls.items():
        path: KeyPath = ("phase", "guess", "controls", name)
        if name in system.controls:
            rows[system.controls.index(name)] = lp.series(reader, value, path)
        else:
            lp.unknown(reader.findings, name, system.controls, path, "control")
    listed = isinstance(given.states, tuple)
    states = given.states if isinstance(given.states, tuple) else () if given.states is None else (given.states,)
    pieces = [_guess_state(names, state, start, ("phase", "guess", "states", *((i,) if listed else ())))
              for i, state in enumerate(states)]
    s = lp.common_fractions([len(pieces), *(len(row) for row in rows)])
    u = np.array([lp.sample(row, s) for row in rows]).T if rows else np.zeros((len(s), 0))
    if reader.findings.found:
        return Guess(s, np.tile(system.space.neutral, (len(s), 1)), u)
    return Guess(s, robot_state.guess_path(names, start, final, pieces, s), u)


def _guess_state(names: robot_state.RobotNames, state: GuessState, start: robot_state.PartialState | None, path: KeyPath
                 ) -> robot_state.PartialState:
    piece = robot_state.read_state(names, state, path)
    if not state.ik:
        return piece
    from ocp.app.files.ik_tasks import solve_guess  # only here: inverse kinematics loads Numba and OSQP

    return solve_guess(names, state.ik, piece, start, path)
