"""The variables of a collocation program, ``[x_0 u_0 x_1 u_1 ... (duration) (parameters)]``: bounds, guess and names."""

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
    shared = [(duration.lower, duration.upper, duration.guess)] if duration.free else []
    shared += [(low, high, system.parameter_values[i]) for i, low, high in phase.free_parameters]
    ends = np.array(shared).reshape(-1, 3).T
    return np.append(lower, ends[0]), np.append(upper, ends[1]), np.append(values, ends[2])


def shared_count(phase: Phase) -> int:
    """How many variables belong to no node: the duration if it is free, and free parameters."""
    return int(phase.duration.free) + len(phase.free_parameters)


def splitter(phase: Phase, mesh: Mesh) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, float, np.ndarray]]:
    """Takes variables [n] apart."""
    nx, M, free = phase.system.nx, mesh.nodes, phase.duration.free
    end = M * (nx + phase.system.nu)

    def split(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, np.ndarray]:
        """Node states [M, nx], node controls [M, nu], the duration and all parameters [np] out of the variables."""
        table = np.asarray(values)[:end].reshape(M, -1)
        p = np.array(phase.system.parameter_values, dtype=float)
        for k, (i, _, _) in enumerate(phase.free_parameters):
            p[i] = values[end + free + k]
        return table[:, :nx], table[:, nx:], float(values[end]) if free else phase.duration.lower, p

    return split


def variable_names(phase: Phase, mesh: Mesh) -> tuple[str, ...]:
    """A name for each variable: "x.theta @ knot 5", "u.force @ midpoint 0", "duration", "p.mass"."""
    own = [*(f"x.{name}" for name in phase.system.space.names), *(f"u.{name}" for name in phase.system.controls)]
    names = [f"{name} @ {mesh.node_name(j)}" for j in range(mesh.nodes) for name in own]
    chosen = [f"p.{phase.system.parameters[i]}" for i, _, _ in phase.free_parameters]
    return (*names, *(["duration"] if phase.duration.free else []), *chosen)


def defect_names(phase: Phase, mesh: Mesh) -> tuple[str, ...]:
    """A name for each defect: "defect theta @ interval 3"; "inner defect ..." at nodes inside an interval."""
    last = mesh.scheme.size - 2
    return tuple(f"{'' if i == last else 'inner '}defect {name} @ interval {k}"
                 for k in range(mesh.intervals) for i in range(last + 1) for name in phase.system.space.names)
