"""The initial guess of a phase about a robot: states by name, efforts, accelerations."""

from __future__ import annotations

import numpy as np

from ocp.app.files import load_parts as lp
from ocp.app.files import robot_state
from ocp.app.files.loaded_robot import LoadedRobot
from ocp.app.files.schema_robot import GuessState, RobotPhase
from ocp.app.files.yaml_source import KeyPath
from ocp.bridge import row_names
from ocp.problem import Guess


def read_guess(names: robot_state.RobotNames, robot: LoadedRobot, given: RobotPhase, start: robot_state.PartialState | None,
               final: robot_state.PartialState | None, bounds: np.ndarray) -> Guess:
    """States and inputs at equally spaced times. bounds [ni, 2]: of the inputs, between which what is not named rests."""
    reader, place = names.reader, (*names.reader.phase, "guess")
    rows: list[tuple[float, ...]] = [(lp.resting_value(*bound),) for bound in bounds]
    for name, value in given.guess.controls.items():
        if name in robot.inputs:
            rows[robot.inputs.index(name)] = lp.series(reader, value, (*place, "controls", name))
        else:
            lp.unknown(reader.findings, name, robot.inputs, (*place, "controls", name), "control")
    moves: list[tuple[float, ...]] = [(0.0,)] * robot.model.nv
    for name, value in given.guess.accelerations.items():
        if name in robot.model.velocity_names:
            moves[robot.model.velocity_names.index(name)] = lp.series(reader, value, (*place, "accelerations", name))
        else:
            lp.unknown(reader.findings, name, robot.model.velocity_names, (*place, "accelerations", name), "joint")
    states = given.guess.states
    listed = isinstance(states, tuple)
    each = states if isinstance(states, tuple) else () if states is None else (states,)
    pieces = [_guess_state(names, state, start, (*place, "states", *((i,) if listed else ()))) for i, state in enumerate(each)]
    s = lp.common_fractions([len(pieces), *(len(row) for row in (*rows, *moves))])
    u = np.array([lp.sample(row, s) for row in rows]).T if rows else np.zeros((len(s), 0))
    x = np.tile(robot.system.space.neutral, (len(s), 1))
    if not reader.findings.found:
        x = robot_state.guess_path(names, start, final, pieces, s)
    if robot.inverse:
        a = np.array([lp.sample(row, s) for row in moves]).T
        if any(name in robot.inputs[: len(robot.mechanism.motors)] for name in given.guess.controls):
            rates = robot.forward.rate(np.zeros((1, len(s))), x.T, u.T, np.zeros((robot.system.np, len(s))))
            a = np.asarray(rates).T[:, robot.model.nv :]
        u = np.column_stack([a, u[:, len(robot.mechanism.motors) :], np.zeros((len(s), len(row_names(robot.mechanism))))])
    if robot.residual:
        a = np.array([lp.sample(row, s) for row in moves]).T
        u = np.column_stack([u, a, np.zeros((len(s), len(robot.system.algebraic) - robot.model.nv))])
    return Guess(s, x, u)


def _guess_state(names: robot_state.RobotNames, state: GuessState, start: robot_state.PartialState | None, path: KeyPath
                 ) -> robot_state.PartialState:
    piece = robot_state.read_state(names, state, path)
    if not state.ik:
        return piece
    from ocp.app.files.ik_tasks import solve_guess  # only here: inverse kinematics loads Numba and OSQP

    return solve_guess(names, state.ik, piece, start, path)
