"""Where rates or running costs jump as the state passes a place, the place in time is a choice that no program on a mesh sees.

A program evaluates functions at its nodes, and which side of the jump a node lies on does not change with small moves. At an
optimum the Hamiltonian goes on through such an instant, by a jump of the costate along the gradient of the place (Bryson and Ho
1975, Applied Optimal Control, section 3.7); costates of the program do not jump, so what the Hamiltonian jumps by is what the
objective would change per second that the instant is moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ocp.certify.motion import Motion
from ocp.certify.objective import running
from ocp.problem import Solution
from ocp.thresholds import ROUNDING, VERDICTS

Array = np.ndarray


@dataclass(frozen=True)
class Jump:
    """size: of the Hamiltonian, times the duration, in the unit of the objective; NaN where rates or costs jump and the method left
    no costates; time [s]: of the instant; phase: "" of a single one."""

    size: float = 0.0
    time: float | None = None
    phase: str = ""


def unseen(solution: Solution, motions: Sequence[Motion]) -> Jump:
    """The largest jump of the Hamiltonian."""
    found = [Jump()]
    for motion in motions:
        phase = "" if len(motions) == 1 else motion.phase.name
        found.append(replace(_of_phase(motion, solution.extra.get(f"{phase}.costate" if phase else "costate")), phase=phase))
    return max(found, key=lambda one: np.inf if np.isnan(one.size) else one.size)


def _of_phase(motion: Motion, costate: Array | None) -> Jump:
    if motion.stepped or motion.phase.system.residual is not None or not len(b := motion.look.breaks):
        return Jump()
    aside = VERDICTS.jump_distance * motion.duration
    before, after = motion.state(b - aside), motion.state(b + aside)
    u = motion.control(b - aside), motion.control(b + aside)
    jumps = np.zeros(len(b), dtype=bool)
    for held in u:  # of the same control: else it is the control that jumps
        one, other = (np.column_stack([motion.call(motion.field, b, x, held), running(motion, b, x, held)])
                      for x in (before, after))
        largest = np.max(np.abs(np.vstack([one, other])), axis=0)
        jumps |= np.any(np.abs(other - one) > ROUNDING.resolution * largest, axis=1)
    if not jumps.any():
        return Jump()
    t = motion.trajectory.t_u if motion.trajectory.t_path is None else motion.trajectory.t_path
    if costate is None or costate.shape != (len(t), before.shape[1]):
        return Jump(float("nan"), float(b[np.argmax(jumps)]))
    p = np.column_stack([np.interp(b, t, own) for own in costate.T])
    H = [running(motion, b, x, own) + np.sum(p * motion.call(motion.field, b, x, own), axis=1)
         for x, own in zip((before, after), u, strict=True)]
    jump = np.where(jumps, np.abs(H[1] - H[0]), 0.0)
    worst = int(np.argmax(jump))
    return Jump(float(jump[worst]) * motion.duration, float(b[worst]))
