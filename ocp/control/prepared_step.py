"""A control step whose shape is known: what stays is laid out once, the rest is filled in by compiled loops and solved in place.

Rows of motion are ``b = acceleration + damping (rate - G v) - stiffness e - drift``, whatever they belong to; other rows of A
are constant.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamics import algorithms as alg
from dynamics.constraints import PointContact
from dynamics.kernels import workspace
from dynamics.kernels.calls import call
from dynamics.kernels.linked import linked
from ocp.control.limits import velocity_bounds
from ocp.control.tasks import Task
from ocp.control.whole_body_levels import ITEMS, EffortTask, ForceTask, Item, MomentumTask, check_shapes, spread
from ocp.errors import ProblemError
from ocp.solvers.blocks import Blocks, matrix, vector, whole
from ocp.solvers.factors import OPTIONS, VIEWS
from ocp.solvers.hqp import HQPResult, Level, Space
from ocp.solvers.stack import Stack, stack

if TYPE_CHECKING:
    from ocp.control.whole_body import WholeBody

Array = NDArray[np.float64]

_FLOATS = ("M", "h", "Gt", "drift", "e", "St", "v", "acceleration", "damping", "rate", "stiffness", "work", "q", "p")
_INTS = ("source", "stances", "arg", "res", "iw", "sizes")
_I = len(_FLOATS)


def shape_of(stances: Sequence[PointContact], groups: Sequence[Level | Sequence[Item]]) -> Hashable | None:
    """A key of the layout of the constraints; None if a point slides or the user gives levels of their own."""
    if any(s.slip is not None for s in stances):
        return None
    out: list[Hashable] = [tuple([(s.name, s.pyramid.sides) for s in stances])]
    for group in groups:
        if isinstance(group, Level):
            return None
        for item in group:
            if isinstance(item, Task):
                out.append(item.shape)
            elif isinstance(item, ForceTask):
                out.append((item.stance, tuple(item.components)))
            elif isinstance(item, MomentumTask):
                out.append((6, tuple(item.components)))
            else:
                out.append("effort")
        out.append("next")
    return tuple(out)


class _Rows(NamedTuple):
    """Where the numbers of an item go: views."""

    target: Array
    acceleration: Array
    damping: Array
    rate: Array
    stiffness: Array
    root: Array
    b: Array


class PreparedStep:
    """The space of one shape of step, for a controller."""

    def __init__(self, whole: WholeBody, stances: tuple[PointContact, ...], groups: Sequence[Any], stances_yield: bool = False
                 ) -> None:
        self.whole = whole
        model, state = whole.model, whole._state
        q = np.array(alg.neutral(model), float).ravel()  # any: levels of the right shape are made there
        tasks = [item for group in groups for item in group if isinstance(item, Task)]
        terms = whole._state.terms(q, np.zeros(model.nv), self._targets(tasks), whole.S)
        levels = whole.levels(terms, groups, stances, stances_yield=stances_yield)
        self.space = Space(levels[0].n, [one.name for one in levels], [(one.b.size, one.f.size) for one in levels],
                           [one.limits for one in levels], whole.options)
        self.space.load(levels)
        rows, nv, nu = sum(one.b.size for one in levels), model.nv, len(whole.driven or ())
        kernel, count = state.kernel, state.starts[-1]
        floats = {"M": (nv, nv), "h": (nv,), "Gt": (nv, count), "drift": (count,), "e": (count,), "St": (nv, nu), "v": (nv,),
                  "acceleration": (rows,), "damping": (rows,), "rate": (rows,), "stiffness": (rows,), "work": (kernel.sz_w + 1,),
                  "q": (model.nq,), "p": (state.targets[-1] + 1,)}
        held = [i for s in stances for i in range(whole.stance_rows(s.name).start, whole.stance_rows(s.name).stop)]
        ints = {"source": (rows,), "stances": (len(held) + 1,), "arg": (kernel.sz_arg + 3,), "res": (kernel.sz_res + 6,),
                "iw": (kernel.sz_iw + 1,), "sizes": (8,)}
        self.arrays = Blocks(floats, ints)
        a = self.arrays
        a.stances[:len(held)] = held
        a.sizes[:6] = nv, len(held), state.starts[2] - state.starts[1], state.starts[1], nu, int(state.thrusts)
        a.arg[:3] = [x.ctypes.data for x in (a.q, a.v, a.p)]
        results = [a.M, a.h, a.Gt, a.drift, a.e, *([a.St] if state.thrusts else [])]
        a.res[:len(results)] = [x.ctypes.data for x in results]
        self._workspace = workspace(kernel)
        self._sources(levels, groups, held)
        self.space.measure()
        measured = self.space.arrays.extent  # constant matrix rows are measured once
        measured[:] = np.where(a.source >= 0, nv, -1)
        measured[:nv] = self.space.n
        self._stances: tuple[PointContact, ...] = stances
        self._set: list[Item] = []
        self._counts = [len(group) for group in groups]
        names = [one.name for one in levels]
        self._limits = slice(0, levels[names.index("limits")].f.size) if "limits" in names else slice(0, 0)
        self._joints = "joints" in names

    def _targets(self, tasks: Sequence[Task]) -> Array:
        p = np.zeros(self.whole._state.targets[-1])
        for task in tasks:
            p[self.whole.target_rows(task)] = task.target
        return p

    def _sources(self, levels: Sequence[Level], groups: Sequence[Any], contact_rows: Sequence[int]) -> None:
        """Which row of G every row of A is, -1 for those that stay; where the items' rows begin."""
        starts, source = self.whole._state.starts, self.arrays.source
        source[:] = -1
        at = self.arrays.sizes[0]
        self._items: list[_Rows] = []
        for one in levels[1:]:
            if one.name == "closures":
                source[at:at + one.b.size] = np.arange(starts[1], starts[2])
            elif one.name == "stances":
                source[at:at + one.b.size] = contact_rows
                self.arrays.damping[at:at + one.b.size] = self.whole.rest_gain
            at += 0 if one.name.startswith("priority") else one.b.size
        for item in (item for group in groups for item in group):
            if isinstance(item, Task):
                own = self.whole.task_rows(item)
                rows = np.arange(starts[2] + own.start, starts[2] + own.stop)
            elif isinstance(item, MomentumTask):
                rows = starts[3] + np.array(item.components)
            else:
                rows = np.full(len(item.components) if isinstance(item, ForceTask) else self.arrays.sizes[4], -1)
            source[at:at + rows.size] = rows
            own, a, s = slice(at, at + rows.size), self.arrays, self.space.arrays
            self._items.append(_Rows(a.p[self.whole.target_rows(item) if isinstance(item, Task) else slice(0)], a.acceleration[own],
                                     a.damping[own], a.rate[own], a.stiffness[own], s.a_root[own], s.b[own]))
            at += rows.size

    def fitting(self, stances: tuple[PointContact, ...], priorities: Sequence[Any]) -> list[Item] | None:
        """The items, if they have the shape of the last ones, found without making and hashing a key; None if unknown."""
        before = self._set
        if stances is not self._stances or len(priorities) != len(self._counts) or not before:
            return None
        found: list[Item] = []
        for group, count in zip(priorities, self._counts, strict=True):
            if isinstance(group, Level):
                return None
            own = (group,) if isinstance(group, ITEMS) else group
            if len(own) != count:
                return None
            for item in own:
                other = before[len(found)]
                if item is not other and not _alike(item, other):
                    return None
                found.append(item)
        return found

    def solve(self, q: ArrayLike, v: ArrayLike, stances: tuple[PointContact, ...], items: list[Item]) -> HQPResult:
        """The optimum at a state. Raises ProblemError for states that are not finite."""
        a, s = self.arrays, self.space.arrays
        a.q[:], a.v[:] = _array_of("q", q, a.q.shape), _array_of("v", v, a.v.shape)
        before: Sequence[Item | None] = self._set or [None] * len(items)
        self._set = []  # what is in the arrays: nothing to trust where an item is refused
        for item, other, rows in zip(items, before, self._items, strict=True):
            if item is not other or type(item) is not Task:
                _set(item, other, rows)
        self._set = items
        if stances is not self._stances:
            self._ends(stances)
        if self._joints:
            self._bounds()
        w = self._workspace
        if not fill(a.numbers, a.integers, s.numbers, s.integers, w.address, w.handle):
            raise ProblemError("the state gives numbers that are not finite", where="WholeBody.step")
        return self.space.solve()

    def _ends(self, stances: tuple[PointContact, ...]) -> None:
        """Limits of stances that are not the objects of last time."""
        s, at, nv = self.space.arrays, self._limits.start, self.arrays.sizes[0]
        for k, (stance, before) in enumerate(zip(stances, self._stances, strict=True)):
            rows = slice(at, at + stance.pyramid.sides + 1)
            if stance is not before:
                s.D[rows, nv + 3 * k:nv + 3 * k + 3], s.low[rows], s.high[rows] = stance.limits()
            at = rows.stop
        s.state[6] = 0
        self._stances = stances

    def _bounds(self) -> None:
        whole, a, s = self.whole, self.arrays, self.space.arrays
        assert whole.horizon is not None
        lower, upper = velocity_bounds(whole.model, a.q, whole._box, whole.horizon, gain=0.25)
        rows = np.flatnonzero(np.isfinite(lower) | np.isfinite(upper))
        at = slice(self._limits.stop, self._limits.stop + rows.size)
        s.low[at], s.high[at] = (lower[rows] - a.v[rows]) / whole.horizon, (upper[rows] - a.v[rows]) / whole.horizon


def _alike(item: Item, other: Item) -> bool:
    """Whether an item takes the place of another: the same rows of the same kernel."""
    if isinstance(item, Task) and isinstance(other, Task):
        return item.shape is other.shape or item.shape == other.shape
    return isinstance(item, EffortTask) and isinstance(other, EffortTask)


def _array_of(name: str, value: ArrayLike, shape: tuple[int, ...]) -> Array:
    given = np.asarray(value, float)
    if given.shape == shape:
        return given
    if given.shape != (*shape, 1):
        raise ProblemError(f"{name} has shape {given.shape}, expected {shape}", where="WholeBody.step")
    return given.ravel()


def _number(value: object, before: object) -> bool:
    """Whether this is a number, and the same as before: there is nothing to write."""
    return type(value) is float and type(before) is float and value == before


def _set(item: Item, before: Item | None, rows: _Rows) -> None:
    """Write an item into its rows of the matrices, unless it equals the one before, of the same kind."""
    size = rows.b.size
    if isinstance(item, Task):
        old = before if isinstance(before, Task) else None
        check_shapes(item, (size,))
        if item.target.size != rows.target.size:
            raise ProblemError(f"target has {item.target.size} numbers, expected {rows.target.size}", where=f"task {item.name!r}")
        rows.target[:], rows.acceleration[:], rows.rate[:] = item.target, item.acceleration, item.rate
        if old is None or item.gain != old.gain or item.damping_ratio != old.damping_ratio:
            rows.damping[:], rows.stiffness[:] = 2 * item.damping_ratio * item.gain, item.gain**2
    elif isinstance(item, EffortTask) and isinstance(before, EffortTask) and _number(item.effort, before.effort):
        pass
    elif isinstance(item, MomentumTask):
        chosen, where = list(item.components), "MomentumTask"
        rows.acceleration[:], rows.damping[:] = spread(item.rate, 6, "rate", where)[chosen], item.gain
        rows.rate[:] = spread(item.target, 6, "target", where)[chosen]
    elif isinstance(item, ForceTask):
        rows.b[:] = spread(item.force, 3, "force", "ForceTask")[list(item.components)]
    else:
        rows.b[:] = item.effort if isinstance(item.effort, float) else spread(item.effort, size, "effort", "EffortTask")
    if before is not None and _number(item.weight, before.weight):
        return
    weight = item.weight if isinstance(item.weight, float) else spread(item.weight, size, "weight", type(item).__name__)
    if not (0.0 < weight < np.inf if isinstance(weight, float) else ((weight > 0.0) & (weight < np.inf)).all()):
        raise ProblemError(f"weights must be positive and finite, got {item.weight!r}", where=type(item).__name__)
    rows.root[:] = weight**0.5


class _StepData(NamedTuple):
    """Output of the kernel and targets of tasks: views of the arrays of a step."""

    M: Array
    h: Array
    Gt: Array
    drift: Array
    e: Array
    St: Array
    v: Array
    acceleration: Array
    damping: Array
    rate: Array
    stiffness: Array
    source: NDArray[np.int64]
    stances: NDArray[np.int64]
    sizes: NDArray[np.int64]


@linked(**OPTIONS)
def _rows(s: Stack, data: _StepData) -> bool:
    M, h, Gt, drift, e, St, v, acceleration, damping, rate, stiffness, source, stances, sizes = data
    nv, nf, nl, first, nu, thrusts = sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5]
    total = 0.0
    for i in range(nv):
        for j in range(nv):
            s.A[i, j] = M[i, j]
            total += M[i, j]
        for c in range(nf):
            s.A[i, nv + c] = -Gt[i, stances[c]]
        for c in range(nl):
            s.A[i, nv + nf + c] = -Gt[i, first + c]
        if thrusts:
            for c in range(nu):
                s.A[i, nv + nf + nl + c] = -St[i, c]
        s.b[i] = -h[i]
        total += h[i]
    for i in range(nv, s.b.size):
        k = source[i]
        if k < 0:
            continue
        speed = 0.0
        for c in range(nv):
            s.A[i, c] = Gt[c, k]
            speed += Gt[c, k] * v[c]
        s.b[i] = acceleration[i] + damping[i] * (rate[i] - speed) - stiffness[i] * e[k] - drift[k]
        total += s.b[i]
    return bool(np.isfinite(total))


@linked(**VIEWS)
def fill(w: np.ndarray, iw: np.ndarray, sw: np.ndarray, si: np.ndarray, address: int, handle: int) -> bool:
    """Evaluate the kernel and fill A and b. False where something is not finite."""
    if call(address, handle, whole(iw, _I + 2), whole(iw, _I + 3), whole(iw, _I + 4), vector(w, iw, 11)) != 0:
        return False
    given = _StepData(matrix(w, iw, 0), vector(w, iw, 1), matrix(w, iw, 2), vector(w, iw, 3), vector(w, iw, 4), matrix(w, iw, 5),
                   vector(w, iw, 6), vector(w, iw, 7), vector(w, iw, 8), vector(w, iw, 9), vector(w, iw, 10), whole(iw, _I),
                   whole(iw, _I + 1), whole(iw, _I + 5))
    return _rows(stack(sw, si), given)
