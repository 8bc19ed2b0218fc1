"""The levels of one step of whole-body control, from what a state gives: rows over x = (a, f, closures, u)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import block_diag

from dynamics.constraints import PointContact
from dynamics.errors import near
from ocp.control.limits import velocity_bounds
from ocp.control.tasks import Task
from ocp.control.whole_body_kernel import Terms
from ocp.errors import ProblemError
from ocp.solvers.hqp import Level

if TYPE_CHECKING:
    from ocp.control.whole_body import WholeBody

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ForceTask:
    """Force [3] (N, world axes, on the robot) at a stance; components: which of x, y, z (default: all)."""

    stance: str
    force: ArrayLike
    components: tuple[int, ...] = (0, 1, 2)
    weight: ArrayLike = 1.0


@dataclass(frozen=True, eq=False)
class MomentumTask:
    """Rate of the momentum [linear; angular] about the centre of mass, world axes: ``rate + gain (target - momentum)``; rate,
    target [6] (N, N m; kg m/s, kg m²/s), gain [1/s]; components: which of the six."""

    rate: ArrayLike = 0.0
    target: ArrayLike = 0.0
    gain: float = 0.0
    components: tuple[int, ...] = (0, 1, 2, 3, 4, 5)
    weight: ArrayLike = 1.0


@dataclass(frozen=True, eq=False)
class EffortTask:
    """Torques [driven] (N m, N) near ``effort``: zero for the least ones."""

    effort: ArrayLike = 0.0
    weight: ArrayLike = 1.0


Item = Task | ForceTask | MomentumTask | EffortTask
ITEMS = (Task, ForceTask, MomentumTask, EffortTask)
Priority = Item | Level | Sequence[Item]


def groups_of(priorities: Sequence[Priority]) -> list[Level | tuple[Item, ...]]:
    """Every priority as a level or a group of items. Raises ProblemError for one without."""
    out: list[Level | tuple[Item, ...]] = []
    for k, priority in enumerate(priorities, start=1):
        group = priority if isinstance(priority, Level) else (priority,) if isinstance(priority, ITEMS) else tuple(priority)
        if not isinstance(group, Level) and not group:
            raise ProblemError("has no task", where=f"priority {k}")
        out.append(group)
    return out


class Layout:
    """The levels of one step, for one state and its stances."""

    def __init__(self, whole: WholeBody, terms: Terms, stances: tuple[PointContact, ...]) -> None:
        self.whole, self.terms, self.stances = whole, terms, stances
        self.nv, self.nf, self.nl, self.nu = whole.model.nv, 3 * len(stances), terms.J_l.shape[0], whole.S.shape[0]
        self.u = self.nv + self.nf + self.nl  # where controls begin
        self.n = self.u + self.nu
        rows = [i for s in stances for i in range(whole.stance_rows(s.name).start, whole.stance_rows(s.name).stop)]
        self.J_c, self.drift_c = terms.J_c[rows], terms.drift_c[rows]

    def _over(self, block: Array, first: int) -> Array:
        A = np.zeros((block.shape[0], self.n))
        A[:, first : first + block.shape[1]] = block
        return A

    def equations(self) -> Level:
        """The equations of motion as a level."""
        return Level("equations", np.hstack([self.terms.M, -self.J_c.T, -self.terms.J_l.T, -self.terms.S.T]), -self.terms.h)

    def closures(self) -> Level:
        """The closed loops as a level."""
        return Level("closures", self._over(self.terms.J_l, 0), -self.terms.drift_l)

    def at_rest(self, gain: float) -> Level:
        """Contact points at rest as a level; gain [1/s]: feedback of their velocities."""
        A, b = self._over(self.J_c, 0), -self.drift_c - gain * (self.J_c @ self.terms.v)
        if all(s.slip is None for s in self.stances):
            return Level("stances", A, b)
        held = [s.equations() for s in self.stances]
        keep = block_diag(*(N for N, _ in held))
        return Level("stances", np.vstack([keep @ A, self._over(block_diag(*(F for _, F in held)), self.nv)]),
                     np.concatenate([keep @ b, np.zeros(sum(len(F) for _, F in held))]))

    def limits(self) -> Level | None:
        """Of stances and controls; it does not depend on the state."""
        blocks: list[Array] = []
        lower: list[Array] = []
        upper: list[Array] = []
        names: list[str] = []
        for k, stance in enumerate(self.stances):
            D, low, high = stance.limits()
            blocks.append(self._over(D, self.nv + 3 * k))
            lower.append(low)
            upper.append(high)
            names += [*(f"{stance.name}: friction {i}" for i in range(len(D) - 1)), f"{stance.name}: normal force"]
        rows, low, high, called = self.whole.control_limits
        if len(rows):
            blocks.append(self._over(rows, self.u))
            lower.append(low)
            upper.append(high)
            names += called
        if not blocks:
            return None
        return Level("limits", D=np.vstack(blocks), f=np.concatenate(upper), lower=np.concatenate(lower), limits=tuple(names))

    def joints(self, horizon: float) -> Level | None:
        """Joint limits over the horizon [s] as bounds on accelerations."""
        model, v = self.whole.model, self.terms.v
        lower, upper = velocity_bounds(model, self.terms.q, self.whole._box, horizon, gain=0.25)
        rows = np.flatnonzero(np.isfinite(lower) | np.isfinite(upper))
        if not rows.size:
            return None
        return Level("joints", D=self._over(np.eye(self.nv)[rows], 0), f=(upper[rows] - v[rows]) / horizon,
                     lower=(lower[rows] - v[rows]) / horizon, limits=tuple(model.velocity_names[i] for i in rows))

    def level(self, name: str, items: Sequence[Item]) -> Level:
        """The items in one level, weighed against each other."""
        A, b, weights = zip(*(self.rows(item) for item in items), strict=True)
        return Level(name, np.vstack(A), np.concatenate(b), weights=np.concatenate(weights))

    def rows(self, item: Item) -> tuple[Array, Array, Array]:
        """(A, b, weights) of one task."""
        if isinstance(item, Task):
            return self._motion(item)
        if isinstance(item, ForceTask):
            found = [k for k, s in enumerate(self.stances) if s.name == item.stance]
            if not found:
                raise ProblemError(f"no stance named {item.stance!r} is taken{near(item.stance, [s.name for s in self.stances])}",
                                   where="ForceTask")
            chosen = list(item.components)
            A = self._over(np.eye(3)[chosen], self.nv + 3 * found[0])
            b = spread(item.force, 3, "force", "ForceTask")[chosen]
        elif isinstance(item, MomentumTask):
            chosen, terms = list(item.components), self.terms
            rate, target = spread(item.rate, 6, "rate", "MomentumTask"), spread(item.target, 6, "target", "MomentumTask")
            wanted = rate + item.gain * (target - terms.momentum) - terms.drift_g
            A, b = self._over(terms.A_g[chosen], 0), wanted[chosen]
        else:
            A, b = self._over(np.eye(self.nu), self.u), spread(item.effort, self.nu, "effort", "EffortTask")
        return A, b, spread(item.weight, b.size, "weight", type(item).__name__)

    def _motion(self, task: Task) -> tuple[Array, Array, Array]:
        rows, terms = self.whole.task_rows(task), self.terms
        J, e, omega = terms.J[rows], terms.e[rows], task.gain
        check_shapes(task, e.shape)
        wanted = task.acceleration + 2 * task.damping_ratio * omega * (task.rate - J @ terms.v) - omega**2 * e
        return self._over(J, 0), wanted - terms.drift[rows], np.broadcast_to(np.asarray(task.weight, float), e.shape)


def spread(value: ArrayLike, size: int, name: str, where: str) -> Array:
    """A number or [size] as [size]. Raises ProblemError for other shapes."""
    array = np.asarray(value, float)
    if array.shape not in ((), (size,)):
        raise ProblemError(f"{name} has shape {array.shape}, expected a number or ({size},)", where=where)
    return np.broadcast_to(array, (size,))


def check_shapes(task: Task, shape: tuple[int, ...]) -> None:
    """Raises ProblemError where what is given by rows is neither a number nor [rows]."""
    for name, value in (("rate", task.rate), ("acceleration", task.acceleration), ("weight", task.weight)):
        if type(value) is not float and np.shape(value) not in ((), shape):
            raise ProblemError(f"{name} has shape {np.shape(value)}, expected a number or {shape}", where=f"task {task.name!r}")
