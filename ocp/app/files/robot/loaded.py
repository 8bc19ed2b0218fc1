"""A robot problem's section ``system``, read, with its bounds and its initial guess."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynamics.constraints import Contact
from dynamics.mechanism import Mechanism
from dynamics.model.model import Model
from dynamics.redmax.parameters import Varied
from ocp.app.files.robot import states as robot_state
from ocp.app.files.robot.forces_schema import Ground
from ocp.app.files.robot.schema import GuessState, RobotBounds, RobotPhase, RobotSystem, UseLimits
from ocp.app.files.robot.states import alias, quaternion_coordinates
from ocp.app.files.syntax import reader as lp
from ocp.app.files.syntax.yaml_source import KeyPath
from ocp.bridge import robot_system, row_names, state_limits
from ocp.problem import INF, Guess, System

SX = Any


@dataclass(frozen=True)
class LoadedRobot:
    """A robot as a system of a file.

    base: as its own file has it; mechanism: with what the problem file adds.
    idle: contacts that are not active in this phase. wide: the robot as expressions of its free numbers, where it has some.
    inputs: names of efforts of driven joints, then of thrusts; effort [ni]: these as expressions of ``reader``.
    """

    base: Mechanism
    mechanism: Mechanism
    spec: RobotSystem
    system: System
    reader: lp.Reader
    effort: SX
    idle: tuple[Contact, ...] = ()
    wide: Varied | None = None

    def stands_on(self, contacts: Sequence[str] | None) -> bool:
        """Whether these contacts are the active ones (None: all)."""
        return not self.idle if contacts is None else {c.name for c in self.mechanism.constraints
                                                       if isinstance(c, Contact)} == {*contacts}

    @property
    def model_and_configuration(self) -> tuple[Model, SX]:
        """The model and the configuration by which frames stand where they do, also where lengths are parameters."""
        return (self.model, self.reader.x[:self.model.nq]) if self.wide is None else (self.wide.mechanism.model, self.wide.q)

    @property
    def model(self) -> Model:
        """The model of the mechanism."""
        return self.mechanism.model

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of motors and thrusters."""
        return self.mechanism.controls

    @property
    def inverse(self) -> bool:
        """Whether accelerations are the controls."""
        return formulation(self.spec) == "inverse_dynamics"

    @property
    def residual(self) -> bool:
        """Whether accelerations are algebraic unknowns."""
        return formulation(self.spec) == "residual"

    @property
    def unknowns(self) -> int:
        """Inputs of the system beyond its drives; the multipliers of constraints, where they are inputs, are the last."""
        return self.system.nu - self.mechanism.nu


def formulation(spec: RobotSystem) -> str:
    """The formulation that "auto" selects. Cones of friction are functions of the forces of contacts: where these are unknowns they
    are short, and everything that is differentiated twice is. Numbers of the robot that are parameters, and steps, need forward
    dynamics."""
    if spec.formulation != "auto":
        return spec.formulation
    contacts = any(isinstance(getattr(item, item.form()), Ground) for item in spec.constraints)
    return "residual" if contacts and not spec.design and spec.sampled is None else "forward_dynamics"


# ---- bounds -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class RobotBoxes:
    """Bounds [n, 2] of states, of inputs (efforts of driven joints, then thrusts) and of accelerations."""

    x: np.ndarray
    inputs: np.ndarray
    accelerations: np.ndarray


def read_bounds(reader: lp.Reader, mechanism: Mechanism, use: UseLimits, spec: RobotBounds) -> RobotBoxes:
    """The robot's limits, replaced where the problem names others."""
    model, inputs, nq = mechanism.model, mechanism.controls, mechanism.model.nq
    x, u, a = state_limits(model), mechanism.control_limits.copy(), np.tile([-INF, INF], (model.nv, 1))
    for used, values in ((use.position, x[:nq]), (use.velocity, x[nq:]), (use.effort, u)):
        if not used:
            values[:] = -INF, INF
    groups = {"joints": (model.coordinate_names, x[:nq]), "velocities": (model.velocity_names, x[nq:]),
              "controls": (inputs, u), "accelerations": (model.velocity_names, a)}
    own = {group: _own_bounds(reader, model, getattr(spec, group), known, group) for group, (known, _) in groups.items()}
    for group, (_, rows) in groups.items():
        for k, bound in own[group].items():
            rows[k] = bound
    for group, key in (("joints", "position"), ("velocities", "velocity"), ("controls", "effort")):
        known, rows = groups[group]
        # robot files write 0 for "not known"; taken literally, nothing could move
        frozen = [name for k, name in enumerate(known) if k not in own[group] and not rows[k].any()]
        if frozen:
            reader.findings.add((*reader.key_path, "robot"), f"the robot file limits the {key} of {', '.join(map(repr, frozen))} "
                                f"to 0; give phase.bounds.{group}, or set system.limits.{key}: false")
    return RobotBoxes(x, u, a)


def _own_bounds(reader: lp.Reader, model: Model, spec: Mapping[str, Any], known: tuple[str, ...], group: str
                ) -> dict[int, tuple[float, float]]:
    found = {}
    mimics = {b.joint.name: b.joint.mimic.leader for b in model.bodies if b.joint.mimic}
    index = {n: i for i, n in enumerate(known)}
    rotations = quaternion_coordinates(model) if group == "joints" else set[str]()
    for name, value in spec.items():
        path: KeyPath = (*reader.phase, "bounds", group, name)
        real = name if group == "controls" else alias(model, name)
        if real in rotations and real in index:
            reader.findings.add(path, f"{name!r} is a component of a quaternion and cannot be bounded; use a constraint",
                                at_key=True)
        elif real in index:
            found[index[real]] = lp.read_bound(reader, value, path)
        elif parts := [n for n in known if n.startswith(f"{real}.")]:
            reader.findings.add(path, f"{name!r} has several components; bound one of {', '.join(parts)}", at_key=True)
        elif name in mimics:
            reader.findings.add(path, f"the joint {name!r} follows {mimics[name]!r}; bound that one", at_key=True)
        else:
            lp.unknown(reader.findings, name, known, path, "control" if group == "controls" else "joint")
    return found


# ---- the initial guess ----------------------------------------------------------------------------------------------------
def read_guess(names: robot_state.RobotNames, robot: LoadedRobot, spec: RobotPhase, start: robot_state.PartialState | None,
               final: robot_state.PartialState | None, bounds: np.ndarray) -> Guess:
    """States and inputs at equally spaced times. bounds [ni, 2]: of the inputs, between which what is not named rests."""
    reader, key_path = names.reader, (*names.reader.phase, "guess")
    rows: list[tuple[float, ...]] = [(lp.resting_value(*bound),) for bound in bounds]
    moves: list[tuple[float, ...]] = [(0.0,)] * robot.model.nv
    for key, known, found, what in (("controls", robot.inputs, rows, "control"),
                                    ("accelerations", robot.model.velocity_names, moves, "joint")):
        for name, value, path in lp.known(reader, getattr(spec.guess, key), (*key_path, key), known, what):
            found[known.index(name)] = lp.series(reader, value, path)
    states = spec.guess.states
    listed = isinstance(states, tuple)
    each = states if isinstance(states, tuple) else () if states is None else (states,)
    pieces = [guess_state(names, state, start, (*key_path, "states", *((i,) if listed else ()))) for i, state in enumerate(each)]
    s = lp.common_fractions([len(pieces), *(len(row) for row in (*rows, *moves))])
    u = np.array([lp.sample(row, s) for row in rows]).T if rows else np.zeros((len(s), 0))
    x = np.tile(robot.system.space.neutral, (len(s), 1))
    if not reader.findings.found:
        x = robot_state.guess_path(names, start, final, pieces, s)
    if robot.inverse:
        a = np.array([lp.sample(row, s) for row in moves]).T
        if any(name in robot.inputs[: len(robot.mechanism.motors)] for name in spec.guess.controls):
            forward = robot_system(robot.mechanism, parameters=dict.fromkeys(robot.system.parameters, 0.0))
            rates = forward.rate(np.zeros((1, len(s))), x.T, u.T, np.zeros((robot.system.np, len(s))))
            a = np.asarray(rates).T[:, robot.model.nv :]
        u = np.column_stack([a, u[:, len(robot.mechanism.motors) :], np.zeros((len(s), len(row_names(robot.mechanism))))])
    if robot.residual:
        a = np.array([lp.sample(row, s) for row in moves]).T
        u = np.column_stack([u, a, np.zeros((len(s), len(robot.system.algebraic) - robot.model.nv))])
    return Guess(s, x, u)


def guess_state(names: robot_state.RobotNames, state: GuessState, start: robot_state.PartialState | None, path: KeyPath
                ) -> robot_state.PartialState:
    """The given part of a state of the guess at ``path``; errors are recorded. start: from which inverse kinematics begins."""
    piece = robot_state.read_state(names, state, path)
    if not state.ik:
        return piece
    from ocp.app.files.control.tasks import solve_guess  # only here: inverse kinematics loads Numba and OSQP

    return solve_guess(names, state, piece, start, path)
