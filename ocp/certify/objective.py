"""An independent quadrature of the objective, and the consistency of trajectory, objective and multipliers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ocp.certify.motion import Motion
from ocp.certify.sizes import cost_size
from ocp.problem import At, Constraint, Cost, Kind, Residual, Solution
from ocp.thresholds import QUADRATURE, VERDICTS

Array = np.ndarray


def size(motions: Sequence[Motion]) -> tuple[float, float]:
    """The scale of the objective, and its variation (``ocp.certify.scale``)."""
    return cost_size(motions, _value, _items)


def integrated(motions: Sequence[Motion], size: float, rectangle: bool = False) -> tuple[float, float]:
    """The objective by Gauss quadrature of running costs and penalties along the interpolants, with the terms at the ends; and the
    change by the last doubling of the quadrature. rectangle: running costs are summed at the left end of every segment. NaN for a
    trajectory or integrand that is not finite."""
    if not all(motion.finite for motion in motions):
        return float("nan"), 0.0
    for motion in motions:
        inside = slice(None) if motion.stepped else slice(1, -1)  # values at the ends count for no time: limits may be all there is
        look = motion.look
        if not np.all(np.isfinite(running(motion, look.t[inside], look.x[inside], look.u[inside]))):
            return float("nan"), 0.0
    ends = sum(_ends(motion) for motion in motions)
    if rectangle:
        return ends + sum(_left_sum(motion) for motion in motions), 0.0
    total, panels = _running(motions, 1), 2
    while True:
        finer = _running(motions, panels)
        change, total = abs(finer - total), finer
        if not change > QUADRATURE.change * (size + abs(ends + total)) or panels >= QUADRATURE.max_panels:
            return ends + total, change
        panels *= 2


def disagreement(solution: Solution, size: float, tolerance: float) -> Residual | None:
    """Largest difference between what a solution says and the point at which its optimality is judged; ``quantity``, what differs:
    times, states and controls at the knots, each over the largest magnitude of its component, and the objective over its own.

    None where the method leaves no such point: ``optimality`` then has no ``motion()`` and ``cost()``.
    """
    left = solution.optimality
    if not (hasattr(left, "motion") and hasattr(left, "cost")):
        return None
    cost = float(left.cost())

    def differs(value: float, quantity: str, phase: str = "", cause: Kind | None = None) -> Residual:
        return Residual(Kind.POINT, value, tolerance, phase, cause=cause, data={"quantity": quantity})

    found = [differs(abs(solution.objective - cost) / (size + abs(cost)), "objective")]
    names = [phase.name for phase in solution.problem.phases] if solution.parts else [""]
    for phase, part, point in zip(names, solution.parts or (solution.trajectory,), left.motion(), strict=True):
        for name, mine, other in zip(("times", "states", "controls"), (part.t, part.x, part.u), point, strict=True):
            if np.shape(mine) != np.shape(other):
                found.append(differs(float("inf"), name, phase, Kind.SIZES_DIFFER))
                continue
            magnitude = np.max(np.abs(other), axis=0, initial=0.0)
            distance = np.abs(mine - other) / np.where(magnitude > 0, magnitude, 1.0)
            found.append(differs(float(np.max(distance, initial=0.0)), name, phase))
    return largest(found)


def largest(found: Sequence[Residual]) -> Residual:
    """The largest of several values of one check; NaN counts as larger than any."""
    return max(found, key=lambda one: np.inf if np.isnan(one.value) else one.value)


def rotations(motions: Sequence[Motion]) -> int:
    """Number of extrema of the running costs, by more than a hundredth of their range, at the evaluation points."""
    found = 0
    for motion in motions:
        values = running(motion, motion.look.t, motion.look.x, motion.look.u)
        if (span := float(np.ptp(values))) > 0 and np.isfinite(span):
            steps = np.diff(np.round(VERDICTS.turn_levels * values / span))
            steps = np.sign(steps[steps != 0])
            found += int(np.sum(steps[1:] != steps[:-1]))
    return found


def _value(motion: Motion, item: Cost | Constraint, t: Array, x: Array, u: Array) -> Array:
    """A cost, or the penalty of a soft constraint, at many times: [k]."""
    values = motion.call(item.function, t, x, u)
    if isinstance(item, Cost):
        return values[:, 0] if item.weights is None else values**2 @ np.asarray(item.weights) / 2
    assert item.soft is not None
    return item.soft / 2 * np.sum(np.maximum(0.0, item.excess(values)) ** 2, axis=1)


def _items(motion: Motion, at: At) -> list[Cost | Constraint]:
    phase = motion.phase
    return [*(c for c in phase.costs if c.at is at), *(c for c in phase.constraints if c.at is at and c.soft is not None)]


def _ends(motion: Motion) -> float:
    trajectory, none = motion.trajectory, np.zeros((1, motion.phase.system.nu))
    return float(sum(_value(motion, item, trajectory.t[k], trajectory.x[k], none)[0]
                     for at, k in ((At.START, slice(0, 1)), (At.FINAL, slice(-1, None))) for item in _items(motion, at)))


def _running(motions: Sequence[Motion], panels: int) -> float:
    return float(sum(motion.integral(lambda *here, motion=motion: running(motion, *here), panels) for motion in motions))


def running(motion: Motion, t: Array, x: Array, u: Array) -> Array:
    """Running costs and penalties at many times: [k]."""
    found = np.zeros(len(t))
    for item in _items(motion, At.PATH):
        found += _value(motion, item, t, x, u)
    return found


def _left_sum(motion: Motion) -> float:
    t, x = motion.trajectory.t[:-1], motion.trajectory.x[:-1]
    return float(np.diff(motion.trajectory.t) @ running(motion, t, x, motion.control(t)))
