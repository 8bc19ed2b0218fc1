"""Where the states of a phase can be, from bounds alone: a box for every slice of time that holds every motion within them.

Rates are enclosed over the box of a slice by interval arithmetic; what they allow from the start onwards and from the end backwards
narrows the boxes, which narrows the rates. A box that is empty proves that there is no motion.

Intervals go over scalar graphs by natural extension, operation by operation; what an operation does not say is left open (minus to
plus infinity). They are arrays, so that many boxes are enclosed at once. Rounding is not directed: whoever compares leaves a hair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np

from ocp.interrupts import Activity, check
from ocp.problem import At, Boundary, Constraint, Finding, Kind, Phase, Sense
from ocp.thresholds import REACH, ROUNDING

Array = np.ndarray
#: lower and upper ends, arrays of one shape
Interval = tuple[Array, Array]

INF = np.inf
_OPEN = np.full(1, -INF), np.full(1, INF)
_TRUTH = np.zeros(1), np.ones(1)


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
    found: list[Interval] = [(np.zeros(1), np.zeros(1))] * graph.size1_out(0)
    slots: list[Interval] = [(np.zeros(1), np.zeros(1))] * max(1, graph.sz_w())
    with np.errstate(all="ignore"):
        for k in range(graph.n_instructions()):
            op, to, source = graph.instruction_id(k), graph.instruction_output(k), graph.instruction_input(k)
            if op == ca.OP_INPUT:
                slots[to[0]] = arguments[source[0]][source[1]]
            elif op == ca.OP_OUTPUT:
                found[to[1]] = slots[source[0]]
            elif op == ca.OP_CONST:
                value = np.array([graph.instruction_constant(k)])
                slots[to[0]] = value, value
            else:
                slots[to[0]] = _known(_RULES[op](slots[source[0]], slots[source[-1]])) if op in _RULES else _OPEN
    return found


def _known(found: Interval) -> Interval:
    """NaN, as of infinity less infinity, stands for what is not known."""
    low, high = found
    return np.where(np.isnan(low), -INF, low), np.where(np.isnan(high), INF, high)


def _product(a: Interval, b: Interval) -> Interval:
    # zero times an open end is zero: the factor is finite at every point
    corners = [np.where((p == 0) | (q == 0), 0.0, p * q) for p in a for q in b]
    return np.minimum.reduce(corners), np.maximum.reduce(corners)


def _inverse(a: Interval) -> Interval:
    zero = (a[0] <= 0) & (a[1] >= 0)
    return np.where(zero, -INF, 1 / a[1]), np.where(zero, INF, 1 / a[0])


def _square(a: Interval) -> Interval:
    ends = a[0] ** 2, a[1] ** 2
    return np.where((a[0] <= 0) & (a[1] >= 0), 0.0, np.minimum(*ends)), np.maximum(*ends)


def _power(a: Interval, b: Interval) -> Interval:
    """Constant exponents only; fractional ones for what is not negative."""
    if np.any(b[0] != b[1]):
        return _OPEN
    n = b[0]
    ends = a[0] ** n, a[1] ** n
    low, high = np.minimum(*ends), np.maximum(*ends)
    even, inside = n % 2 == 0, (a[0] <= 0) & (a[1] >= 0)
    open_ = ((n % 1 != 0) & (a[0] < 0)) | ((n < 0) & inside)
    return np.where(open_, -INF, np.where(even & inside, 0.0, low)), np.where(open_, INF, high)


def _cosine(a: Interval) -> Interval:
    """Extremes are at the ends and at multiples of pi within."""
    first = np.ceil(a[0] / np.pi)
    one, two = first * np.pi <= a[1], (first + 1) * np.pi <= a[1]
    even = first % 2 == 0
    ends = np.cos(a[0]), np.cos(a[1])
    top, bottom = two | (one & even), two | (one & ~even)
    wide = ~(np.isfinite(a[0]) & np.isfinite(a[1]))
    return (np.where(wide | bottom, -1.0, np.minimum(*ends)), np.where(wide | top, 1.0, np.maximum(*ends)))


def _rising(f: Callable[[Array], Array], least: float = -INF) -> Callable[[Interval, Interval], Interval]:
    """A function that rises everywhere; below ``least`` it is not defined, and nobody is there."""
    return lambda a, b: (f(np.maximum(a[0], least)), f(np.maximum(a[1], least)))


def _size(a: Interval) -> Interval:
    inside = (a[0] <= 0) & (a[1] >= 0)
    ends = np.abs(a[0]), np.abs(a[1])
    return np.where(inside, 0.0, np.minimum(*ends)), np.maximum(*ends)


_RULES: dict[int, Callable[[Interval, Interval], Interval]] = {
    ca.OP_ASSIGN: lambda a, b: a,
    ca.OP_ADD: lambda a, b: (a[0] + b[0], a[1] + b[1]),
    ca.OP_SUB: lambda a, b: (a[0] - b[1], a[1] - b[0]),
    ca.OP_NEG: lambda a, b: (-a[1], -a[0]),
    ca.OP_TWICE: lambda a, b: (2 * a[0], 2 * a[1]),
    ca.OP_MUL: _product,
    ca.OP_DIV: lambda a, b: _product(a, _known(_inverse(b))),
    ca.OP_INV: lambda a, b: _inverse(a),
    ca.OP_SQ: lambda a, b: _square(a),
    ca.OP_POW: _power,
    ca.OP_CONSTPOW: _power,
    ca.OP_SQRT: _rising(np.sqrt, 0.0),
    ca.OP_EXP: _rising(np.exp),
    ca.OP_LOG: _rising(np.log, 0.0),
    ca.OP_ATAN: _rising(np.arctan),
    ca.OP_ATAN2: lambda a, b: (np.full(1, -np.pi), np.full(1, np.pi)),
    ca.OP_TANH: _rising(np.tanh),
    ca.OP_SINH: _rising(np.sinh),
    ca.OP_COS: lambda a, b: _cosine(a),
    ca.OP_SIN: lambda a, b: _cosine((a[0] - np.pi / 2, a[1] - np.pi / 2)),
    ca.OP_FABS: lambda a, b: _size(a),
    ca.OP_FMIN: lambda a, b: (np.minimum(a[0], b[0]), np.minimum(a[1], b[1])),
    ca.OP_FMAX: lambda a, b: (np.maximum(a[0], b[0]), np.maximum(a[1], b[1])),
    ca.OP_IF_ELSE_ZERO: lambda a, b: (np.minimum(b[0], 0.0), np.maximum(b[1], 0.0)),
    **dict.fromkeys((ca.OP_LT, ca.OP_LE, ca.OP_EQ, ca.OP_NE, ca.OP_NOT, ca.OP_AND, ca.OP_OR), lambda a, b: _TRUTH),
}


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
