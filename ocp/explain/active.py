"""Prices of constraints: the multipliers of a solution with respect to the bounds that the user wrote.
At a solution the derivative of the optimal cost with respect to a bound is minus the multiplier of that bound (Fiacco and McCormick
1968; Nocedal and Wright 2006, Sec. 12.8), with the signs of ``ocp.nlp``. A bound that holds at many knots is one number in the
file; its price is the sum.

"""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca
import numpy as np

from ocp.explain.groups import LOWER, UPPER, Group, Limit, Program
from ocp.thresholds import EXPLANATION


@dataclass(frozen=True)
class Price:
    """One side of an active constraint.
    price: d cost / d bound, per unit of the bound; positive: a larger number costs more
    side: "lower", "upper", or "value" for a prescribed value; bound: the number in the file, NaN if it varies in time
    knots: constraints or variables in which the side is active; first, last: times between which they lie [s], None without a time
    effect: |price| times the scale of the bound: the change of cost at stake

    """

    group: str
    kind: str
    side: str
    bound: float
    price: float
    unit: str
    knots: int
    first: float | None
    last: float | None
    effect: float

    @property
    def relief(self) -> float:
        """The decrease of cost by one unit of relaxation; for a prescribed value, by a unit in the better direction."""
        return abs(self.price)


def prices(program: Program, x: np.ndarray, lam_g: np.ndarray) -> tuple[Price, ...]:
    """The active constraints at a solution x [n] with multipliers lam_g [m], the most expensive first.
    Multipliers of bounds follow from stationarity, those of fixed variables included, which solvers may leave out.

    """
    nlp = program.nlp
    f, gradient = nlp.grad(x)
    jacobian = nlp.jac(x)[1]
    lam_g = np.asarray(lam_g, dtype=float)
    force = -(gradient.full().ravel() + ca.mtimes(jacobian.T, ca.DM(lam_g)).full().ravel())
    g = nlp.g(x).full().ravel()
    worth = EXPLANATION.min_price * max(1.0, abs(float(f)))
    found = []
    for group in program.groups:
        found += _prices(program, group, x, g, force, lam_g, worth)
    return tuple(sorted(found, key=lambda price: -price.effect))


def _prices(program: Program, group: Group, x: np.ndarray, g: np.ndarray, force: np.ndarray, lam_g: np.ndarray,
            worth: float) -> list[Price]:
    nlp = program.nlp
    taken = _prescribed(program) if group.kind == "bound" else set()
    active: dict[str, list[tuple[Limit, float]]] = {}
    for limit in group.limits:
        if limit.column and limit.index in taken:
            continue  # the value prescribed at an end takes the force
        lam = float((force if limit.column else lam_g)[limit.index])
        value = float((x if limit.column else g)[limit.index])
        equal = (nlp.x_lower[limit.index] == nlp.x_upper[limit.index]) if limit.column else \
            (nlp.g_lower[limit.index] == nlp.g_upper[limit.index])
        if equal:
            if limit.side == LOWER:
                active.setdefault("value", []).append((limit, lam))
            continue
        # an interior point leaves a little force on every bound, more the nearer it is
        near = abs(value - limit.value) <= 1e-4 * group.scale
        if near and (lam < 0) == (limit.side == LOWER) and lam != 0:
            active.setdefault(limit.side, []).append((limit, lam))
    found = []
    for side in (LOWER, UPPER, "value"):
        members = active.get(side, [])
        price = -sum(lam for _, lam in members)
        largest = max((abs(lam) for _, lam in members), default=0.0)
        if largest * group.scale <= worth:
            continue
        told = [(limit, lam) for limit, lam in members if abs(lam) * group.scale > worth * 1e-3 or abs(lam) > 1e-3 * largest]
        labels = [(nlp.variables if limit.column else nlp.constraints)[limit.index] for limit, _ in told]
        times = [time for time in (program.time(label, x) for label in labels) if time is not None]
        values = {limit.value for limit, _ in members}
        found.append(Price(group.name, group.kind, side, values.pop() if len(values) == 1 else float("nan"), price, group.unit,
                           len(told), min(times, default=None), max(times, default=None), abs(price) * group.scale))
    return found


def _prescribed(program: Program) -> set[int]:
    """Variables that are fixed by a start or final value."""
    return {limit.index for group in program.groups if group.kind in ("start", "final") for limit in group.limits if limit.column}
