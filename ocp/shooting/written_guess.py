"""The path that a search starts from: states and controls of the guess, controls from a guess of the motion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ocp.errors import ProblemError
from ocp.guesses.inverse_dynamics import inverse_dynamics_motion
from ocp.guesses.sampling import controls_at, states_at
from ocp.guesses.straight import line as straight_line
from ocp.guesses.table import GAPPED
from ocp.problem import Finding, Kind, Phase
from ocp.shooting.options import ILQROptions
from ocp.shooting.stages.horizon import Horizon

if TYPE_CHECKING:
    from ocp.shooting.engine.record import Path


def write_guess(horizon: Horizon, options: ILQROptions, path: Path, phases: Sequence[Phase] | None = None, states: str = ""
                ) -> tuple[bool, list[Finding]]:
    """Write controls, and states where the options start from them, into a path. Returns (whether the states count, findings).

    phases: those whose guesses count, by default the phases of the horizon. states: "line" for the straight line on the manifold
    from the start to the final state, which must be possible (``ocp.guesses.straight``), "motion" for that of inverse dynamics.

    Controls: the guess at the middle of every interval, moved into the bounds; where the guess names a motion of a robot and no
    controls, those that inverse dynamics finds along it. States: the guess at the knots, interpolated on the manifold.
    """
    path.x[:], path.u[:], path.gap[:] = np.nan, 0.0, 0.0
    own = [leg.stretch.phase for leg in horizon.legs] if phases is None else phases
    start, chosen = horizon.start, horizon.chosen
    if len(chosen) and own[0] is not horizon.legs[0].stretch.phase:
        start, chosen = _chosen(horizon, own[0])
    path.x[0, :len(start)] = start
    given = options.shooting in GAPPED
    findings: list[Finding] = []
    several = len(own) > 1
    if len(chosen):
        path.u[0, :len(chosen)] = np.clip(chosen, horizon.lower[0, :len(chosen)], horizon.upper[0, :len(chosen)])
    for leg, phase in zip(horizon.legs, own, strict=True):
        steps = leg.last - leg.first
        u = controls_at(phase.guess, (np.arange(steps) + 0.5) / steps)
        motion = None if u.any() else inverse_dynamics_motion(phase, steps)
        if motion is not None:
            u = motion[1]
            findings.append(Finding(Kind.GUESS_FROM_INVERSE_DYNAMICS, phase.name if several else ""))
        inside = np.clip(u, *(bound[leg.first:leg.last, :phase.system.nu] for bound in (horizon.lower, horizon.upper)))
        moved = tuple(name for name, other in zip(phase.system.controls, (u != inside).any(axis=0).tolist(), strict=True) if other)
        if moved:
            findings.append(Finding(Kind.GUESS_MOVED_INTO_BOUNDS, phase.name if several else "", data={"controls": moved}))
        path.u[leg.first:leg.last, :phase.system.nu] = inside
        if given:
            guess = straight_line(phase, start) if states == "line" else phase.guess
            x, nx = path.x[leg.first:leg.last + 1], phase.system.nx
            x[:, :nx] = motion[0] if states == "motion" and motion is not None else states_at(
                guess, phase.system.space, np.arange(steps + 1) / steps)
            x[:, nx:nx + horizon.constants.count] = horizon.constants.guess
    if given:
        path.x[0, :len(start)] = start
        for leg in horizon.legs:
            if leg.two is not None:
                now, size = leg.stretch.space.nx, leg.stretch.phase.system.nx
                path.x[leg.first + 1:leg.last + 1, now:now + size] = path.x[leg.first:leg.last, :size]
    return given, findings


def write_path(horizon: Horizon, path: Path, x: np.ndarray, u: np.ndarray) -> None:
    """Write the states and controls of another path of the same stages into a path, from the start of the horizon and with controls
    that are moved into its bounds."""
    path.x[:], path.gap[:] = x, 0.0
    path.x[0, :len(horizon.start)] = horizon.start
    path.u[:] = np.clip(u, horizon.lower[:-1, :u.shape[1]], horizon.upper[:-1, :u.shape[1]])


def _chosen(horizon: Horizon, phase: Phase) -> tuple[np.ndarray, np.ndarray]:
    """State of the first knot and what is chosen there, where the guess of the first phase is another than the horizon's. Raises
    ProblemError where it would have to turn a rotation."""
    start, chosen, space = horizon.start.copy(), horizon.chosen.copy(), phase.system.space
    fixed = (False,) * space.ndx if phase.start is None else phase.start.fixed
    coordinate = {i: c for c, i in enumerate(space.tangent_index) if i >= 0}
    for j, i in enumerate(i for i, held in enumerate(fixed) if not held):
        if i not in coordinate:
            raise ProblemError("another initial guess needs prescribed rotations in the start state", where=f"phase {phase.name!r}")
        start[coordinate[i]] = chosen[j] = phase.guess.x[0][coordinate[i]]
    return start, chosen
