"""The path that a search starts from: states and controls of the guess, controls from a guess of the motion."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import casadi as ca
import numpy as np

from ocp.errors import ProblemError
from ocp.guess import inverse_dynamics_controls
from ocp.problem import Finding, Guess, Kind, Phase
from ocp.shooting.options import ILQROptions
from ocp.shooting.stages.horizon import Horizon
from ocp.spaces import Space

if TYPE_CHECKING:
    from ocp.shooting.engine.record import Path


def write_guess(horizon: Horizon, options: ILQROptions, path: Path, phases: Sequence[Phase] | None = None, line: bool = False
                ) -> tuple[bool, list[Finding]]:
    """Write controls, and states where the options start from them, into a path. Returns (whether the states count, findings).

    phases: those whose guesses count, by default the phases of the horizon. line: the states are the straight line on the manifold
    from the start to the final state, which must be possible (``straight``).

    Controls: the guess at the middle of every interval, moved into the bounds; where the guess names a motion of a robot and no
    controls, those that inverse dynamics finds along it. States: the guess at the knots, interpolated on the manifold.
    """
    path.x[:], path.u[:], path.gap[:] = np.nan, 0.0, 0.0
    own = [leg.stretch.phase for leg in horizon.legs] if phases is None else phases
    start, chosen = horizon.start, horizon.chosen
    if len(chosen) and own[0] is not horizon.legs[0].stretch.phase:
        start, chosen = _chosen(horizon, own[0])
    path.x[0, :len(start)] = start
    given = options.shooting in ("feasible", "multiple")
    findings: list[Finding] = []
    several = len(own) > 1
    if len(chosen):
        path.u[0, :len(chosen)] = np.clip(chosen, horizon.lower[0, :len(chosen)], horizon.upper[0, :len(chosen)])
    for leg, phase in zip(horizon.legs, own, strict=True):
        steps = leg.last - leg.first
        u = controls(phase.guess, phase.system.nu, steps)
        if not u.any() and (found := inverse_dynamics_controls(phase, steps)) is not None:
            u = found
            findings.append(Finding(Kind.GUESS_FROM_INVERSE_DYNAMICS, phase.name if several else ""))
        inside = np.clip(u, *(bound[leg.first:leg.last, :phase.system.nu] for bound in (horizon.lower, horizon.upper)))
        moved = tuple(name for name, other in zip(phase.system.controls, (u != inside).any(axis=0).tolist(), strict=True) if other)
        if moved:
            findings.append(Finding(Kind.GUESS_MOVED_INTO_BOUNDS, phase.name if several else "", data={"controls": moved}))
        path.u[leg.first:leg.last, :phase.system.nu] = inside
        if given:
            guess = _ends(phase, start) if line else phase.guess
            x, nx = path.x[leg.first:leg.last + 1], phase.system.nx
            x[:, :nx], x[:, nx:nx + horizon.constants.count] = states(guess, phase.system.space, steps), horizon.constants.guess
    if given:
        path.x[0, :len(start)] = start
        for leg in horizon.legs:
            if leg.two is not None:
                now, size = leg.stretch.space.nx, leg.stretch.phase.system.nx
                path.x[leg.first + 1:leg.last + 1, now:now + size] = path.x[leg.first:leg.last, :size]
    return given, findings


def _chosen(horizon: Horizon, phase: Phase) -> tuple[np.ndarray, np.ndarray]:
    """State of the first knot and what is chosen there, where the guess of the first phase is another than the horizon's. Raises
    ProblemError where it would have to turn a rotation."""
    start, chosen, space = horizon.start.copy(), horizon.chosen.copy(), phase.system.space
    fixed = (False,) * space.ndx if phase.start is None else phase.start.fixed
    coordinate = {i: c for c, i in enumerate(space.tangent_index) if i >= 0}
    for j, i in enumerate(i for i, held in enumerate(fixed) if not held):
        if i not in coordinate:
            raise ProblemError("a guess of its own needs a start whose rotations are prescribed", where=f"phase {phase.name!r}")
        start[coordinate[i]] = chosen[j] = phase.guess.x[0][coordinate[i]]
    return start, chosen


def straight(phases: Sequence[Phase]) -> bool:
    """Whether there is a straight line from a start to a final state: one phase, some of its final state prescribed."""
    return len(phases) == 1 and phases[0].final is not None and any(phases[0].final.fixed)


def _ends(phase: Phase, start: np.ndarray) -> Guess:
    """The start and the final state; what is not prescribed there ends where the guess ends."""
    space, final = phase.system.space, phase.final
    assert final is not None
    x0 = start[:space.nx]
    to_final, to_guess = (np.asarray(ca.DM(space.minus(ca.DM(x0), ca.DM(np.asarray(x, dtype=float))))).ravel()
                          for x in (final.value, phase.guess.x[-1]))
    x1 = ca.DM(space.plus(ca.DM(x0), ca.DM(np.where(final.fixed, to_final, to_guess))))
    return Guess(np.array([0.0, 1.0]), np.vstack([x0, np.asarray(x1).ravel()]), phase.guess.u[:1])


def controls(guess: Guess, nu: int, steps: int) -> np.ndarray:
    """Controls [steps, nu] of a guess at the middle of every interval."""
    values = np.asarray(guess.u, dtype=float).reshape(len(guess.s), nu)
    if not nu or (values == values[0]).all():
        return np.repeat(values[:1], steps, axis=0)
    s = (np.arange(steps) + 0.5) / steps
    return np.column_stack([np.interp(s, guess.s, column) for column in values.T])


@lru_cache(maxsize=64)
def _between(space: Space) -> ca.Function:
    """(x0, x1, r) -> the point at the fraction r of the way; made once for a space, so that solving again costs nothing here."""
    x0, x1, r = ca.SX.sym("x0", space.nx), ca.SX.sym("x1", space.nx), ca.SX.sym("r")
    return ca.Function("between", [x0, x1, r], [space.plus(x0, r * space.minus(x0, x1))])


def states(guess: Guess, space: Space, steps: int) -> np.ndarray:
    """States [steps + 1, nx] of a guess at the knots, interpolated on the manifold."""
    given = np.asarray(guess.x, dtype=float)
    if (given == given[0]).all():
        return np.repeat(given[:1], steps + 1, axis=0)
    s = np.arange(steps + 1) / steps
    if space.is_vector_space and space.nx == space.ndx:
        return np.column_stack([np.interp(s, guess.s, column) for column in given.T])
    between = _between(space)
    i = np.clip(np.searchsorted(guess.s, s, side="right") - 1, 0, len(given) - 2)
    share = (s - guess.s[i]) / (np.asarray(guess.s)[i + 1] - np.asarray(guess.s)[i])
    return np.ascontiguousarray(np.asarray(between(given[i].T, given[i + 1].T, share[None, :])).T)
