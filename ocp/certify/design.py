"""Free parameters on which only costs depend: their values are compared over their whole range, for the same motion.
A degenerate stationary value, such as that of ``-(p - 1/2)^4``, passes first- and second-order conditions. If rates and constraints
do not depend on a parameter, every value is feasible with the same motion, and its cost is known.

"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import casadi as ca
import numpy as np

from ocp.certify.motion import Motion
from ocp.problem import At, Problem
from ocp.thresholds import MINIMUM_PRINCIPLE, ROUNDING

Array = np.ndarray


@dataclass(frozen=True)
class Value:
    """A better value of a parameter; gain: decrease of the objective, in its unit."""

    name: str
    value: float
    gain: float


def better_value(problem: Problem, motions: Sequence[Motion]) -> Value | None:
    """The value of largest gain of a parameter on which only costs depend; None without a gain."""
    bounds = {motion.phase.system.parameters[i]: (low, high) for motion in motions for i, low, high in motion.phase.free_parameters}
    linked = {name for linkage in problem.linkages for name in linkage.parameters}
    found = [own for name, (low, high) in bounds.items()
             if name not in linked and np.isfinite(high - low) and not any(_felt(motion, name) for motion in motions)
             if (own := _best(motions, name, low, high)) is not None]
    return max(found, key=lambda own: own.gain, default=None)


def _felt(motion: Motion, name: str) -> bool:
    """Whether rates, constraints or a reset depend on the parameter."""
    phase = motion.phase
    if name not in phase.system.parameters:
        return False
    column = phase.system.parameters.index(name)
    functions = [(phase.system.rate, 3), *((c.function, 3) for c in phase.constraints)]
    functions += [(phase.reset, 1)] if phase.reset is not None else []
    return any(_depends(function, k, column) for function, k in functions)


def _depends(function: ca.Function, argument: int, column: int) -> bool:
    return column in function.jac_sparsity(0, argument).get_col()


def _best(motions: Sequence[Motion], name: str, low: float, high: float) -> Value | None:
    values = np.linspace(low, high, MINIMUM_PRINCIPLE.points_of_axis)
    now, costs = _cost(motions, name, None), np.array([_cost(motions, name, value) for value in values])
    costs = np.where(np.isfinite(costs), costs, np.inf)
    gain = now - float(costs.min())
    return Value(name, float(values[np.argmin(costs)]), gain) if gain > ROUNDING.resolution * abs(now) else None


def _cost(motions: Sequence[Motion], name: str, value: float | None) -> float:
    """The terms of the objective that depend on the parameter, at this value; None: its own."""
    total = 0.0
    for motion in motions:
        if name not in (names := motion.phase.system.parameters):
            continue
        other = copy(motion)  # with its code of functions
        other.p = motion.p.copy()
        column = names.index(name)
        other.p[column] = motion.p[column] if value is None else value
        look, part, none = motion.look, motion.trajectory, np.zeros((1, motion.phase.system.nu))
        places = {At.PATH: (look.t, look.x, look.u), At.START: (part.t[:1], part.x[:1], none),
                  At.FINAL: (part.t[-1:], part.x[-1:], none)}
        for cost in motion.phase.costs:
            if not _depends(cost.function, 3, column):
                continue
            t = places[cost.at][0]
            rows = other.call(cost.function, *places[cost.at])
            values = rows[:, 0] if cost.weights is None else rows**2 @ np.asarray(cost.weights) / 2
            total += float(values[0]) if cost.at is not At.PATH else float(np.sum(np.diff(t) * (values[1:] + values[:-1]) / 2))
    return total
