"""The variables of a collocation program, ``[x_0 u_0 x_1 u_1 ... (duration)]`` at the nodes: bounds, guess and names."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ocp.errors import ProblemError
from ocp.problem import At, Phase
from ocp.transcription.mesh import Mesh, sample_guess


def variables(phase: Phase, mesh: Mesh) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lower bounds, upper bounds and initial values of all variables [n].

    Prescribed components are fixed by their bounds where the space is flat, and everywhere at a complete start. Raises
    ProblemError for a prescribed value outside the bounds and for a malformed guess.
    """
    system, space, duration = phase.system, phase.system.space, phase.duration
    lower, upper = (np.tile(np.array([*x, *u], dtype=float), (mesh.nodes, 1))
                    for x, u in ((phase.x_lower, phase.u_lower), (phase.x_upper, phase.u_upper)))
    for at, j, boundary in ((At.START, 0, phase.start), (At.FINAL, mesh.nodes - 1, phase.final)):
        if boundary is None:
            continue
        for i, k in enumerate(space.tangent_index):
            if (at is At.START and boundary.complete) or (k >= 0 and boundary.fixed[k]):
                value = boundary.value[i]
                if not lower[j, i] <= value <= upper[j, i]:
                    raise ProblemError(f"{at.value} value {value:.6g} of {space.names[i]} lies outside its bounds "
                                       f"[{lower[j, i]:.6g}, {upper[j, i]:.6g}]", where=at.value)
                lower[j, i] = upper[j, i] = value
    x, u = sample_guess(phase.guess, space, mesh.fractions)
    if u.shape[1] != system.nu:
        raise ProblemError(f"has {u.shape[1]} controls, the system has {system.nu}", where="guess.u")
    values = np.column_stack([x, u])
    fixed = lower == upper
    values[fixed] = lower[fixed]
    if not duration.free:
        return lower.ravel(), upper.ravel(), values.ravel()
    return np.append(lower, duration.lower), np.append(upper, duration.upper), np.append(values, duration.guess)


def splitter(phase: Phase, mesh: Mesh) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, float]]:
    """Takes variables [n] apart."""
    nx, M = phase.system.nx, mesh.nodes

    def split(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Node states [M, nx], node controls [M, nu] and the duration out of the variables."""
        table = np.asarray(values)[: M * (nx + phase.system.nu)].reshape(M, -1)
        return table[:, :nx], table[:, nx:], float(values[-1]) if phase.duration.free else phase.duration.lower

    return split


def variable_names(phase: Phase, mesh: Mesh) -> tuple[str, ...]:
    """A name for each variable: "x.theta @ knot 5", "u.force @ midpoint 0", "duration"."""
    own = [*(f"x.{name}" for name in phase.system.space.names), *(f"u.{name}" for name in phase.system.controls)]
    names = [f"{name} @ {mesh.node_name(j)}" for j in range(mesh.nodes) for name in own]
    return (*names, *(["duration"] if phase.duration.free else []))


def defect_names(phase: Phase, mesh: Mesh) -> tuple[str, ...]:
    """A name for each defect: "defect theta @ interval 3"; "inner defect ..." at nodes inside an interval."""
    last = mesh.scheme.size - 2
    return tuple(f"{'' if i == last else 'inner '}defect {name} @ interval {k}"
                 for k in range(mesh.intervals) for i in range(last + 1) for name in phase.system.space.names)
