"""Where the states of a phase can be, from bounds alone: a box for every slice of time that holds every motion within them.

Rates are enclosed over the box of a slice by interval arithmetic; what they allow from the start onwards and from the end backwards
narrows the boxes, which narrows the rates. A box that is empty proves that there is no motion.

Intervals go over scalar graphs by natural extension, operation by operation; what an operation does not say is left open (minus to
plus infinity). They are arrays, so that many boxes are enclosed at once. Rounding is not directed: whoever compares leaves a hair.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np

from dynamics.kernels.tape import replay
from ocp.interrupts import Activity, check
from ocp.problem import At, Boundary, Constraint, Finding, Kind, Phase, Sense
from ocp.reach.intervals import Interval, enclosure
from ocp.thresholds import REACH, ROUNDING

Array = np.ndarray

INF = np.inf
_OPEN = np.full(1, -INF), np.full(1, INF)


def enclosed(function: ca.Function, arguments: Sequence[Sequence[Interval]], rows: Sequence[int] | None = None
             ) -> list[Interval] | None:
    """Intervals of the entries of the first output (of these rows of it), each argument given entry by entry; None where the
    function is no scalar graph, or too large."""
    symbols = [ca.SX.sym(f"a{i}", function.size1_in(i)) for i in range(function.n_in())]
    if not function.is_a("SXFunction"):
        return None
    output = ca.densify(function(*symbols))
    graph = ca.Function("rows", symbols, [output if rows is None else output[list(rows)]])
    if graph.n_instructions() > REACH.max_operations:
        return None
    with np.errstate(all="ignore"):
        found = replay(graph, lambda i, j: arguments[i][j], lambda value: (np.array([value]), np.array([value])), _operation,
                       lambda k, operands: [_OPEN] * len(graph.instruction_output(k)))
    return found[0]


def _operation(code: int, operands: Sequence[Interval]) -> Interval:
    """Nobody is where a root or a logarithm is not defined."""
    low, high = operands[0]
    first = (np.maximum(low, 0.0), np.maximum(high, 0.0)) if code in (ca.OP_SQRT, ca.OP_LOG) else (low, high)
    return enclosure(code, first, operands[-1])


@dataclass(frozen=True)
class Tube:
    """low, high [k+1, nx]: of the states at the edges of slices; slice_low, slice_high [k, nx]: within them; t: of slices, since
    the start of the first phase; empty: why there is no motion at all, or None."""

    low: np.ndarray
    high: np.ndarray
    slice_low: np.ndarray
    slice_high: np.ndarray
    t: Interval
    empty: Finding | None = None


def plain(phase: Phase) -> dict[int, int]:
    """Coordinates that are plain numbers, and which component of the tangent each is."""
    return {i: component for i, component in enumerate(phase.system.space.tangent_index) if component >= 0}


def prescribed(phase: Phase, end: Boundary | None) -> dict[int, float]:
    """Prescribed values of an end, by coordinates that are plain numbers."""
    if end is None:
        return {}
    return {i: float(end.value[i]) for i, component in plain(phase).items() if end.fixed[component]}


def tube(phase: Phase, begins: tuple[float, float]) -> Tube:
    """The tube of a phase; begins [s]: between which times it does."""
    T = phase.duration.lower, min(phase.duration.upper, REACH.unbounded_duration)
    low, high = (np.tile(side, (REACH.slices + 1, 1)) for side in phase.state_bounds.arrays)
    for at, end in ((0, phase.start), (-1, phase.final)):
        for i, value in prescribed(phase, end).items():
            low[at, i] = high[at, i] = value
    s = np.arange(REACH.slices + 1) / REACH.slices
    t = begins[0] + T[0] * s[:-1], begins[1] + T[1] * s[1:]
    inner_low, inner_high = (np.tile(side, (REACH.slices, 1)) for side in phase.state_bounds.arrays)
    for _ in range(REACH.sweeps):
        travel = _travel(phase, t, (inner_low, inner_high))
        if travel is None:
            break
        found = Tube(low, high, inner_low, inner_high, t, _narrowed(phase, low, high, *travel))
        if found.empty is not None:
            return found
        down, up = np.minimum(travel[0], 0.0), np.maximum(travel[1], 0.0)
        inner_low = np.maximum.reduce([inner_low, low[:-1] + down, low[1:] - up])
        inner_high = np.minimum.reduce([inner_high, high[:-1] + up, high[1:] - down])
    return Tube(low, high, inner_low, inner_high, t)


def _travel(phase: Phase, t: Interval, box: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray] | None:
    """How far each coordinate moves in each slice [k, nx], at least and at most; None where nothing is known."""
    system, where = phase.system, plain(phase)
    moves = range(system.model.nv) if system.model is not None else range(system.space.ndx)  # forward dynamics bound nothing
    rows = [component for component in where.values() if component in moves]
    rates = enclosed(system.rate, _arguments(phase, t, box), rows) if rows else None
    if rates is None:
        return None
    low, high = np.full(box[0].shape, -INF), np.full(box[0].shape, INF)
    by_row = dict(zip(rows, rates, strict=True))
    shortest, longest = phase.duration.lower / REACH.slices, min(phase.duration.upper, REACH.unbounded_duration) / REACH.slices
    for i, component in where.items():
        if component in by_row:
            least, most = by_row[component]
            with np.errstate(invalid="ignore"):
                down, up = np.minimum(least * shortest, least * longest), np.maximum(most * shortest, most * longest)
            low[:, i], high[:, i] = np.where(np.isnan(down), -INF, down), np.where(np.isnan(up), INF, up)
    return low, high


def _arguments(phase: Phase, t: Interval, box: tuple[np.ndarray, np.ndarray]) -> list[list[Interval]]:
    """Intervals of t, x, u, p."""
    system = phase.system
    values = [(np.full(1, v), np.full(1, v)) for v in system.parameter_values]
    for index, lower, upper in phase.free_parameters:
        values[index] = np.full(1, lower), np.full(1, upper)
    controls = [(np.full(1, a), np.full(1, b)) for a, b in phase.control_bounds.pairs()]
    return [[t], list(zip(box[0].T, box[1].T, strict=True)), controls, values]


def _narrowed(phase: Phase, low: np.ndarray, high: np.ndarray, down: np.ndarray, up: np.ndarray) -> Finding | None:
    """Narrow the boxes at edges by what slices allow, onwards and backwards; why one is empty, or None."""
    for way, edges in ((1, range(1, REACH.slices + 1)), (-1, range(REACH.slices - 1, -1, -1))):
        check(Activity.BOUNDS)
        for k in edges:
            before, slice_ = k - way, k - 1 if way > 0 else k
            reached = (low[before] + down[slice_], high[before] + up[slice_]) if way > 0 else (
                low[before] - up[slice_], high[before] - down[slice_])
            a, b = np.maximum(low[k], reached[0]), np.minimum(high[k], reached[1])
            ends = np.stack([low[k], high[k], *reached])
            room = ROUNDING.resolution * (1.0 + np.max(np.abs(ends), axis=0, where=np.isfinite(ends), initial=0.0))
            for i in np.flatnonzero(a > b + room):
                pair = _floats((reached[0][i], reached[1][i])), _floats((low[k, i], high[k, i]))
                within, asked = pair if way > 0 else pair[::-1]
                return Finding(Kind.STATE_OUT_OF_REACH, name=phase.system.space.names[i], data={
                    "within": within, "asked": asked, "share": k / REACH.slices, "duration": float(phase.duration.upper),
                    "free": phase.duration.free, "sure": True})
            low[k], high[k] = np.minimum(a, b), np.maximum(a, b)
    return None


def _floats(ends: tuple[float, float]) -> tuple[float, float]:
    return float(ends[0]), float(ends[1])


def impossible(phase: Phase, found: Tube) -> Iterator[Finding]:
    """Constraints that no motion in the tube can meet."""
    first, last = (found.t[0][:1], found.t[1][:1]), (found.t[0][-1:], found.t[1][-1:])
    times = {At.START: first, At.FINAL: last, At.PATH: (np.r_[first[0], found.t[0], last[0]], np.r_[first[1], found.t[1], last[1]])}
    low, high = found.low, found.high
    boxes = {At.START: (low[:1], high[:1]), At.FINAL: (low[-1:], high[-1:]),  # ends are known better than the slices beside them
             At.PATH: (np.vstack([low[:1], found.slice_low, low[-1:]]), np.vstack([high[:1], found.slice_high, high[-1:]]))}
    for constraint in phase.constraints:
        if constraint.soft is None and constraint.sense is not Sense.CONE and constraint.at in boxes:
            values = enclosed(constraint.function, _arguments(phase, times[constraint.at], boxes[constraint.at]))
            yield from () if values is None else _missed(constraint, values)


def _missed(constraint: Constraint, values: list[Interval]) -> Iterator[Finding]:
    for name, (low, high), lower, upper in zip(constraint.components(), values, constraint.lower, constraint.upper, strict=True):
        low, high = np.broadcast_arrays(low, high)
        room = ROUNDING.resolution * (1.0 + np.max(np.abs([v for v in (lower, upper) if np.isfinite(v)]), initial=0.0))
        for k in np.flatnonzero((low > upper + room) | (high < lower - room))[:1]:
            yield Finding(Kind.CONSTRAINT_OUT_OF_REACH, name=constraint.name, component=name,
                          data={"within": _floats((low[k], high[k])), "asked": _floats((lower, upper)), "at": constraint.at.value,
                                "sure": True})
