"""Whole-body control: accelerations, contact forces and controls of one step, by a strict hierarchy.

    x = (a [nv], f [3 per stance], closures [rows that close loops], u [controls])

    equations   M a - sum J' f - J_l' closures - S' u = -h       what mechanics demand
    closures    J_l a = -drift_l                                  closed loops stay closed (where the mechanism has any)
    stances     J_c a = -dJ_c/dt v - rest_gain J_c v              points that stand do not move
    limits      friction pyramids, normal forces, controls         by name; where stances break them, stances yield
    joints      a within what keeps, or brings back, positions and velocities (where a horizon is given)
    priorities  tasks, in the order given: motions J a = a* - dJ/dt v, forces, momentum, efforts

f is the force of the ground on the robot (world axes). Hutter et al., Robot Dynamics lecture notes (ETH Zurich, HS 2023), section
3.10, Eqs. 3.109 to 3.113, with the opposite sign of f, and with inequalities. One kernel gives everything that depends on the
state; building levels and solving them are separate steps, which `WholeBody.step` takes in compiled loops. Stances come before
limits, because equations are solved for at once; a step whose limits do not hold so is solved again with stances below limits,
which gives the same answer wherever both can hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamics.constraints import PointContact
from dynamics.errors import near
from dynamics.mechanism import Mechanism, Motor
from dynamics.model.model import Model
from ocp.control.limits import limit_box
from ocp.control.prepared_step import PreparedStep, shape_of
from ocp.control.task_kernel import RobotKey
from ocp.control.tasks import Task
from ocp.control.whole_body_kernel import Terms, state_kernel
from ocp.control.whole_body_levels import EffortTask, ForceTask, Item, Layout, MomentumTask, Priority, groups_of
from ocp.errors import ProblemError, positive
from ocp.solvers.hqp import Hierarchy, HQPOptions, HQPResult, Level

__all__ = ["Control", "EffortTask", "ForceTask", "Item", "MomentumTask", "Priority", "Terms", "WholeBody"]

Array = NDArray[np.float64]

_ROUNDING = 1e-8
"""Share of the largest force that counts as none: what points of a sole that bear each other's load leave."""


@dataclass(eq=False)
class Control:
    """One step: torque [controls] (of motors N m or N, of thrusters N), acceleration [nv], forces [3] (N, on the robot) by stance,
    closures: multipliers of the rows that close the mechanism's loops, and the hierarchy's own result, with the residuals,
    slacks and active limits of every level. Where the hierarchy failed everything is NaN; nothing is repeated."""

    torque: Array
    acceleration: Array
    solution: HQPResult
    stances: tuple[PointContact, ...] = field(repr=False)

    @cached_property
    def forces(self) -> dict[str, Array]:
        """Contact forces [3] (N, world axes, on the robot) by stance."""
        x, at = self.solution.x, self.acceleration.size
        return {s.name: x[at + 3 * k:at + 3 * k + 3] for k, s in enumerate(self.stances)}

    @property
    def closures(self) -> Array:
        """Multipliers of the closed loops."""
        x = self.solution.x
        return x[self.acceleration.size + 3 * len(self.stances):x.size - self.torque.size]

    @property
    def ok(self) -> bool:
        """Whether the hierarchy was solved."""
        return self.solution.ok


@dataclass(eq=False)
class WholeBody:
    """Controller of one robot: stances and tasks that it may ever use (their shapes are compiled; targets, gains, weights, normals,
    frictions and forces may change at every step).

    robot: a model with motors at the velocities ``driven`` (default: all but those of free-flyers), or a Mechanism: its drives,
    with their limits, are what is controlled, its forces act, and its constraints are loops that stay closed. efforts: limits of
    the controls (N m, N; default: those of the drives and joints). rest_gain [1/s]: how fast velocities of stances decay. horizon
    T (s): joints keep the model's limits of position and velocity by ``a <= (w - v) / T``, where w is the velocity limit or a
    quarter of the way to the position limit over T, whichever is less: they arrive without overshoot, and come back from outside.
    None: no such rows. options: of the hierarchy. Raises UnknownNameError, ProblemError.
    """

    robot: Model | Mechanism
    stances: Sequence[PointContact]
    tasks: Sequence[Task] = ()
    driven: Sequence[str] | None = None
    efforts: ArrayLike | None = None
    rest_gain: float = 0.0
    horizon: float | None = None
    options: HQPOptions = field(default_factory=HQPOptions)
    mode: str = "auto"

    def __post_init__(self) -> None:
        self.stances = tuple(self.stances)
        names = [s.name for s in self.stances]
        if len(set(names)) < len(names):
            raise ProblemError(f"stances share a name: {sorted(n for n in set(names) if names.count(n) > 1)}", where="WholeBody")
        positive(self.horizon, "WholeBody.horizon")
        self.mechanism = self._driven()
        self.model = self.mechanism.model
        if self.mechanism.timed:
            raise ProblemError("a constraint of the mechanism depends on time, which a controller does not know", where="WholeBody")
        self.driven, motors = self.mechanism.controls, len(self.mechanism.motors)
        self.S = np.vstack([np.array(self.mechanism.selection).reshape(self.model.nv, motors).T,
                            np.zeros((len(self.driven) - motors, self.model.nv))])  # rows of thrusters: Terms.S
        self.control_limits = self._control_limits()
        self._box = limit_box(self.model)
        self._names = tuple(names)
        self._shapes = {shape: k for k, shape in enumerate(dict.fromkeys(task.shape for task in self.tasks))}
        self._state = state_kernel(RobotKey(self.mechanism), tuple(s.contact_point for s in self.stances), tuple(self._shapes),  # type: ignore[arg-type]
                                   self.mode)
        self._hierarchy = Hierarchy(self.options)
        self._prepared: dict[tuple[object, bool], PreparedStep] = {}
        self._latest: PreparedStep | None = None

    def _driven(self) -> Mechanism:
        if isinstance(self.robot, Mechanism):
            if self.driven is not None:
                raise ProblemError("a mechanism's drives say what is driven", where="WholeBody.driven")
            return self.robot
        model = self.robot
        free = {name for i, body in enumerate(model.bodies) if body.joint.kind == "free_flyer"
                for name in model.velocity_names[model.v_slice(i)]}
        driven = [name for name in model.velocity_names if name not in free] if self.driven is None else list(self.driven)
        for name in driven:
            if name not in model.velocity_names:
                raise ProblemError(f"no velocity named {name!r}{near(name, model.velocity_names)}", where="WholeBody.driven")
        return Mechanism(model, tuple(Motor(name, ((name, 1.0),)) for name in driven))

    def _control_limits(self) -> tuple[Array, Array, Array, tuple[str, ...]]:
        """(rows [k, controls], lower, upper [k], names)."""
        count = len(self.driven or ())
        low, high = self.mechanism.control_limits.T
        if self.efforts is not None:
            most = np.broadcast_to(np.asarray(self.efforts, float), (count,))
            if not (most >= 0.0).all():
                raise ProblemError("limits of efforts must not be negative", where="WholeBody.efforts")
            low, high = -most, most
        self.largest = np.minimum(-low, high)  # what either way is allowed
        bounded = np.flatnonzero(np.isfinite(low) | np.isfinite(high))
        shared = [self.model.velocity_names.index(name) for name in self.mechanism.shared_limits]
        most = self.model.limit("effort")[shared]
        rows = np.vstack([np.eye(count)[bounded], self.S[:, shared].T.reshape(len(shared), count)])
        names = [f"effort of {tuple(self.driven or ())[i]}" for i in bounded]
        return (rows, np.r_[low[bounded], -most], np.r_[high[bounded], most],
                (*names, *(f"efforts at {self.model.velocity_names[i]}" for i in shared)))

    # ---- the state ------------------------------------------------------------------------------------------------------
    def terms(self, q: ArrayLike, v: ArrayLike, tasks: Sequence[Task] = ()) -> Terms:
        """Everything that depends on q [nq] and v [nv], with the targets of ``tasks``, by one call of the kernel."""
        p = np.zeros(self._state.targets[-1])
        for task in tasks:
            p[self.target_rows(task)] = task.target
        terms = self._state.terms(np.asarray(q, float), np.asarray(v, float), p, self.S)
        if not all(np.isfinite(x).all() for x in vars(terms).values()):
            raise ProblemError("the state gives numbers that are not finite", where="WholeBody.terms")
        return terms

    def target_rows(self, task: Task) -> slice:
        """Where the task's target sits among all. Raises ProblemError where it does not fit."""
        k = self._index(task)
        at = slice(self._state.targets[k], self._state.targets[k + 1])
        if task.target.size != at.stop - at.start:
            raise ProblemError(f"target has {task.target.size} numbers, expected {at.stop - at.start}", where=f"task {task.name!r}")
        return at

    def _index(self, task: Task) -> int:
        known = self._shapes.get(task.shape)
        if known is None:
            raise ProblemError("was not among the tasks when the controller was made", where=f"task {task.name!r}")
        return known

    # ---- levels ---------------------------------------------------------------------------------------------------------
    def levels(self, terms: Terms, priorities: Sequence[Priority], stances: Sequence[PointContact] | None = None, *,
               stances_yield: bool = False) -> tuple[Level, ...]:
        """Equations, closures, stances, limits, then the priorities. stances: those taken now (default: all), by name.
        stances_yield: stances below limits."""
        stances = tuple(self.stances if stances is None else stances)
        layout = Layout(self, terms, stances)
        out = [layout.equations()]
        if terms.J_l.shape[0]:
            out.append(layout.closures())
        firm = [layout.at_rest(self.rest_gain)] if stances else []
        limits = layout.limits()
        out += [*([] if limits is None else [limits]), *firm] if stances_yield else [*firm, *([] if limits is None else [limits])]
        if self.horizon is not None and (joints := layout.joints(self.horizon)) is not None:
            out.append(joints)
        for k, group in enumerate(groups_of(priorities), start=1):
            out.append(group if isinstance(group, Level) else layout.level(f"priority {k}", group))
        return tuple(out)

    def solve(self, levels: Sequence[Level], stances: Sequence[PointContact] | None = None) -> Control:
        """Torques, accelerations and forces of levels that `levels` made for the same stances."""
        return self._control(self._hierarchy.solve(levels), tuple(self.stances if stances is None else stances))

    def _control(self, answer: HQPResult, stances: tuple[PointContact, ...]) -> Control:
        x = answer.x
        return Control(x[x.size - self.S.shape[0]:], x[:self.S.shape[1]], answer, stances)

    def step(self, q: ArrayLike, v: ArrayLike, priorities: Sequence[Priority], stances: Sequence[PointContact] | None = None
             ) -> Control:
        """One control step at q [nq], v [nv]: `terms`, `levels` and `solve`, with stances below limits if both cannot hold.
        Constant parts are reused, and the rest is filled in by compiled loops."""
        stances = tuple(self.stances if stances is None else stances)
        latest = self._latest
        if latest is not None and (items := latest.fitting(stances, priorities)):
            answer = latest.solve(q, v, stances, items)
        else:
            answer = self._answer(q, v, groups_of(priorities), stances)
        if answer.gave_way and stances and _exceeded(answer, self.model.nv):
            answer = self._answer(q, v, groups_of(priorities), stances, stances_yield=True)
        return self._control(answer, stances)

    def _answer(self, q: ArrayLike, v: ArrayLike, groups: Sequence[Level | tuple[Item, ...]], stances: tuple[PointContact, ...],
                stances_yield: bool = False) -> HQPResult:
        shape = shape_of(stances, groups)
        if shape is None:
            tasks = [item for group in groups if not isinstance(group, Level) for item in group if isinstance(item, Task)]
            return self._hierarchy.solve(self.levels(self.terms(q, v, tasks), groups, stances, stances_yield=stances_yield))
        key = shape, stances_yield
        if key not in self._prepared:
            self._prepared[key] = PreparedStep(self, stances, groups, stances_yield)
        if not stances_yield:
            self._latest = self._prepared[key]
        items = [item for group in groups if not isinstance(group, Level) for item in group]
        return self._prepared[key].solve(q, v, stances, items)

    def task_rows(self, task: Task) -> slice:
        """The rows of the task in the terms."""
        k = self._index(task)
        return slice(self._state.rows[k], self._state.rows[k + 1])

    def stance_rows(self, name: str) -> slice:
        """The equations of the stance in the terms. Raises ProblemError with near spellings."""
        if name not in self._names:
            raise ProblemError(f"no stance named {name!r}{near(name, self._names)}", where="WholeBody")
        return slice(3 * self._names.index(name), 3 * self._names.index(name) + 3)


def _exceeded(answer: HQPResult, first: int) -> bool:
    """Whether forces or controls, which begin at ``first``, are beyond their limits by more than rounding makes of them."""
    if answer.answers is None:
        return False
    own = answer.answers.slack("limits")
    return bool(np.abs(own).max(initial=0.0) > _ROUNDING * np.abs(answer.x[first:]).max(initial=0.0))
