"""Newton polishing of a discrete optimal-control problem: from a good point to an optimum at rounding level.

Each step evaluates the problem once, guesses the active set from multipliers and violations, solves the optimality conditions
linearised with that set fixed, and exchanges constraints on this model until the set no longer changes (``active_set``); then
states, controls, costates and multipliers move together. It is the primal-dual counterpart of the projected Newton method that
ends ALTRO (Howell, Jackson, Manchester 2019, section III-D): that one projects onto the constraints and re-estimates multipliers by
least squares; this one solves for both, and so converges quadratically in both with exact Hessians, linearly with those of
Gauss-Newton.

A step is halved until it leads closer: until the largest residual falls, or the next correction with the same matrix is
shorter than the step (natural monotonicity test; Deuflhard 2004, Newton Methods for Nonlinear Problems). The test
knows no units, where the residual weighs gradients against gaps. It returns the point with the smallest residual, so
never a worse one than came in.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ocp.errors import ProblemError, check_counts, check_positive
from ocp.problem import Kind
from ocp.shooting.active_set import ActiveSet
from ocp.shooting.kkt import Array, Knot, Multipliers, Residuals, System, lagrangian_gradients, residuals

Vectors = tuple[Array, ...]
Evaluate = Callable[[Sequence[Array], Sequence[Array], Multipliers], Sequence[Knot]]
Retract = Callable[[Sequence[Array], Sequence[Array]], Sequence[Array]]


MAX_HALVINGS = 5
"""Of one step."""
RECENTRED, SETTLED = 8, 1e-12
"""Moves of the proximal centre within one Newton step, and by how much rows may be missed when it rests."""


class PolishStatus(enum.Enum):
    """How polishing ended; each value is a sentence."""

    SOLVED = "All residuals are within the tolerance."
    IMPROVED = "The residuals fell, but not to the tolerance."
    NO_IMPROVEMENT = "No step reduces the residuals; the point is as it came in."


@dataclass(frozen=True)
class PolishOptions:
    """tolerance: largest residual at the end (``kkt.Residuals.worst``). scale: divides the residuals of the gradient and of
    complementarity, usually ``max(1, |cost|)``. max_steps: Newton steps. max_exchanges: corrections of the active set within one.
"""

    tolerance: float = 1e-10
    scale: float = 1.0
    max_steps: int = 10
    max_exchanges: int = 60

    def __post_init__(self) -> None:
        check_positive(self, ("tolerance", "scale"), "polish options")
        check_counts(self, {"max_steps": 0, "max_exchanges": 0}, "polish options")


@dataclass(frozen=True)
class Polished:
    """The best point: states x [S+1] of [nx_k], controls u [S] of [m_k], multipliers, its residuals; ending: why it was not solved.

    log: one row for every point kept, the first before any step: step, stationarity, feasibility, gap, complementarity, length
    (of the step that led there), trials (evaluations for it), exchanges, active (constraints and bounds active).
    """

    x: Vectors
    u: Vectors
    multipliers: Multipliers
    residuals: Residuals
    status: PolishStatus
    ending: Kind | None
    log: tuple[Mapping[str, float], ...]


@dataclass(frozen=True)
class _Point:
    x: Vectors
    u: Vectors
    multipliers: Multipliers
    knots: Sequence[Knot]
    residuals: Residuals
    worst: float


@dataclass(frozen=True)
class Direction:
    """A Newton step: z [S+1] of [n+m], the multipliers at its end, the system that gave it, the active set and how often it
    was changed."""

    z: Vectors
    multipliers: Multipliers
    system: System
    active: ActiveSet
    exchanges: int


def polish(evaluate: Evaluate, retract: Retract, x: Sequence[Array], u: Sequence[Array], multipliers: Multipliers,
           options: PolishOptions | None = None) -> Polished:
    """Polish a point; see the module docstring.

    evaluate(x, u, multipliers) -> one ``kkt.Knot`` for each of the S + 1 knots, the Hessians with these multipliers (costate_{k+1}
    with the step of knot k, constraints with theirs); it may raise ArithmeticError or return numbers that are not finite where the
    problem cannot be evaluated. retract(x, dx) -> the states ``x_k [+] dx_k``. x [S+1] of [nx_k], u [S] of [m_k]; arrays with more
    columns than a knot has controls are cut. multipliers: an estimate (``kkt.costates`` makes the costates from constraint
    multipliers).
    """
    options = options or PolishOptions()
    states, controls = (tuple(np.asarray(v, dtype=float) for v in given) for given in (x, u))
    first = _point(evaluate, states, controls, multipliers, options)
    if first is None:
        raise ProblemError("the problem cannot be evaluated at the point to polish", where="polish")
    best = here = first
    log = [_row(0, first, 0.0, 1, 0, 0)]
    ending = Kind.ITERATION_LIMIT
    for step in range(1, options.max_steps + 1):
        if best.worst <= options.tolerance:
            break
        direction = newton(here.knots, here.multipliers, options.max_exchanges)
        if direction is None:
            ending = Kind.SINGULAR_SYSTEM
            break
        found, length, trials = _search(evaluate, retract, here, direction, options)
        if found is None:
            ending = Kind.NO_STEP
            break
        here = found
        log.append(_row(step, here, length, trials, direction.exchanges, direction.active.count))
        best = here if here.worst < best.worst else best
    if best.worst <= options.tolerance:
        return Polished(best.x, best.u, best.multipliers, best.residuals, PolishStatus.SOLVED, None, tuple(log))
    status = PolishStatus.IMPROVED if best.worst < first.worst else PolishStatus.NO_IMPROVEMENT
    return Polished(best.x, best.u, best.multipliers, best.residuals, status, ending, tuple(log))


def newton(knots: Sequence[Knot], multipliers: Multipliers, max_exchanges: int = 60) -> Direction | None:
    """The Newton step from a point, its active set settled on the linear model; None when the system is singular."""
    active, exchanges, centred = ActiveSet(knots, multipliers), 0, 0
    system = System(knots, active.conditions)
    while True:
        found = _solve(system, active, knots, multipliers)
        if found is None:
            return None
        z, after = found
        direction = Direction(z, after, system, active, exchanges)
        if exchanges < max_exchanges and active.exchange(z, after):
            exchanges += 1
            system = System(knots, active.conditions)
        elif centred < RECENTRED and active.recentre(after) > SETTLED:
            centred += 1
        else:
            return direction


def _solve(system: System, active: ActiveSet, knots: Sequence[Knot],
           multipliers: Multipliers) -> tuple[Vectors, Multipliers] | None:
    y = [have.T.T @ w for have, w in zip(active.conditions, multipliers.rows, strict=True)]
    rows = tuple(have.T @ v + have.rest for have, v in zip(active.conditions, y, strict=True))
    b = _right(system, active, knots, Multipliers(multipliers.costate, rows),
               [have.b + have.soft * v for have, v in zip(active.conditions, y, strict=True)])
    step, _ = system.solve(b)
    if not np.all(np.isfinite(step)):
        return None
    z = tuple(np.concatenate([step[system.states(k)], step[system.controls(k)]]) for k in range(len(knots)))
    costate = tuple(old + step[system.costates(k)] for k, old in enumerate(multipliers.costate))
    pairs = enumerate(zip(rows, active.conditions))
    return z, Multipliers(costate, tuple(w + have.T @ step[system.active(k)] for k, (w, have) in pairs))


def _right(system: System, active: ActiveSet, knots: Sequence[Knot], multipliers: Multipliers, rows: Sequence[Array]) -> Array:
    """Right-hand side of a Newton step: minus the residuals of the conditions with the fixed set, [a] for each of S+1 stages."""
    b = np.zeros(system.size)
    gradients = lagrangian_gradients(knots, multipliers)
    for k, (knot, have, gradient) in enumerate(zip(knots, active.conditions, gradients, strict=True)):
        if len(knot.gap):
            b[system.costates(k + 1)] = -knot.gap
        right = -gradient
        low, high = np.flatnonzero(have.side < 0), np.flatnonzero(have.side > 0)
        right[knot.n + low] = knot.lower[low] - knot.u[low]
        right[knot.n + high] = knot.upper[high] - knot.u[high]
        b[system.states(k)], b[system.controls(k)] = right[:knot.n], right[knot.n:]
        b[system.active(k)] = rows[k]
    return b


class Searched(NamedTuple):
    """The next point or None, the length of the step, evaluations."""

    point: _Point | None
    length: float
    evaluations: int


def _search(evaluate: Evaluate, retract: Retract, here: _Point, direction: Direction,
            options: PolishOptions) -> Searched:
    """(next point or None, length of the step, evaluations)."""
    length = 1.0
    for trial in range(1, MAX_HALVINGS + 2):
        new = _point(evaluate, *_moved(retract, here, direction, length), options)
        if new is not None and (new.worst <= (1.0 - 0.5 * length) * here.worst
                                or _correction(direction, new) <= (1.0 - 0.5 * length) * _size(direction.z)):
            return Searched(new, length, trial)
        length *= 0.5
    return Searched(None, 0.0, MAX_HALVINGS + 1)


def _correction(direction: Direction, new: _Point) -> float:
    """Size of the simplified Newton step from a new point, with the matrix and the active set of the old one."""
    system, active = direction.system, direction.active
    b = _right(system, active, new.knots, new.multipliers,
               [active.miss(k, knot, w) for k, (knot, w) in enumerate(zip(new.knots, new.multipliers.rows, strict=True))])
    step, _ = system.solve(b)
    return _size([step[i] for k in range(len(new.knots)) for i in (system.states(k), system.controls(k))])


def _size(z: Sequence[Array]) -> float:
    return float(np.sqrt(sum(float(v @ v) for v in z)))


def _moved(retract: Retract, here: _Point, direction: Direction, length: float) -> tuple[Vectors, Vectors, Multipliers]:
    sizes = [knot.n for knot in here.knots]
    x = tuple(retract(here.x, [length * z[:n] for z, n in zip(direction.z, sizes, strict=True)]))
    # a bound that is reached is reached exactly
    u = tuple(np.clip(old + length * z[n:], knot.lower, knot.upper)
              for old, z, n, knot in zip(here.u, direction.z, sizes, here.knots, strict=False))
    old, new = here.multipliers, direction.multipliers
    if length < 1.0:
        new = Multipliers(*(tuple(a + length * (b - a) for a, b in zip(p, q, strict=True))
                            for p, q in ((old.costate, new.costate), (old.rows, new.rows))))
    return x, u, new


def _point(evaluate: Evaluate, x: Vectors, u: Vectors, multipliers: Multipliers, options: PolishOptions) -> _Point | None:
    try:
        knots = evaluate(x, u, multipliers)
    except ArithmeticError:
        return None
    found = residuals(knots, multipliers)
    if not found.finite or not all(np.isfinite(knot.H).all() for knot in knots):
        return None
    return _Point(x, tuple(v[:knot.m] for v, knot in zip(u, knots, strict=False)), multipliers, knots, found,
                  found.worst(options.scale))


def _row(step: int, point: _Point, length: float, trials: int, exchanges: int, active: int) -> dict[str, float]:
    r = point.residuals
    return {"step": step, "stationarity": r.stationarity, "feasibility": r.feasibility, "gap": r.gap,
            "complementarity": r.complementarity, "length": length, "trials": trials, "exchanges": exchanges, "active": active}
