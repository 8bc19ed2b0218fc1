"""Whole-body control: accelerations, contact forces and torques of one step, by a strict hierarchy.

    x = (a [nv], f [3 per stance], tau [driven])

    equations   M a - sum J' f - S' tau = -h                     what mechanics demand
    stances     J_c a = -dJ_c/dt v - rest_gain J_c v              points that stand do not move
    limits      friction pyramids, normal forces, torques         by name
    joints      a within what keeps, or brings back, positions and velocities (where a horizon is given)
    priorities  tasks, in the order given: motions J a = a* - dJ/dt v, forces, momentum, efforts

f is the force of the ground on the robot (world axes). Hutter et al., Robot Dynamics lecture notes (ETH Zurich, HS 2023), section
3.10, Eqs. 3.109 to 3.113, with the opposite sign of f, and with inequalities. One kernel gives everything that depends on the
state; building levels and solving them are separate steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import block_diag

from dynamics import algorithms as alg
from dynamics.algorithms import contact_kinematics
from dynamics.errors import near
from dynamics.kernels import Kernel, compile_kernel
from dynamics.model.model import Model
from ocp.control.limits import limit_box, velocity_bounds
from ocp.control.stance import Stance
from ocp.control.task_kernel import RobotKey, parameter_starts, task_rates
from ocp.control.tasks import Shape, Task
from ocp.errors import ProblemError
from ocp.solvers.hqp import Hierarchy, HQPOptions, HQPResult, Level

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
Priority = Item | Level | Sequence[Item]


@dataclass(frozen=True, eq=False)
class Terms:
    """What a state gives: M [nv, nv], h [nv], J_c [3 c, nv] and drift_c [3 c] of all known stances; e, J, drift of all known tasks,
    rates [m] = J v; momentum [6] about the centre of mass, its Jacobian A_g [6, nv] and drift_g [6]; q [nq], v [nv]."""

    M: Array
    h: Array
    J_c: Array
    drift_c: Array
    e: Array
    J: Array
    drift: Array
    momentum: Array
    A_g: Array
    drift_g: Array
    q: Array
    v: Array

    @property
    def rates(self) -> Array:
        return self.J @ self.v


@dataclass(frozen=True, eq=False)
class Control:
    """One step: torque [driven], acceleration [nv], forces [3] (N, on the robot) by stance, and the hierarchy's own result, with
    the residuals, slacks and active limits of every level. Where the hierarchy failed everything is NaN; nothing is repeated."""

    torque: Array
    acceleration: Array
    forces: dict[str, Array]
    solution: HQPResult

    @property
    def ok(self) -> bool:
        return self.solution.ok


@dataclass(eq=False)
class WholeBody:
    """Controller of one robot: stances and tasks that it may ever use (their shapes are compiled; targets, gains, weights, normals,
    frictions and forces may change at every step).

    driven: names of the velocities with a motor (default: all but those of free-flyers); efforts: their limits (N m, N; default:
    the model's). rest_gain [1/s]: how fast velocities of stances decay. horizon T (s): joints keep the model's limits of position
    and velocity by ``a <= (w - v) / T``, where w is the velocity limit or a quarter of the way to the position limit over T,
    whichever is less: they arrive without overshoot, and come back from outside. None: no such rows. options: of the hierarchy.
    Raises UnknownNameError, ProblemError.
    """

    model: Model
    stances: Sequence[Stance]
    tasks: Sequence[Task] = ()
    driven: Sequence[str] | None = None
    efforts: ArrayLike | None = None
    rest_gain: float = 0.0
    horizon: float | None = None
    options: HQPOptions = field(default_factory=HQPOptions)
    mode: str = "auto"

    def __post_init__(self) -> None:
        model = self.model
        names = [s.name for s in self.stances]
        if len(set(names)) < len(names):
            raise ProblemError(f"stances share a name: {sorted(n for n in set(names) if names.count(n) > 1)}", where="WholeBody")
        free = {name for i, body in enumerate(model.bodies) if body.joint.kind == "free_flyer"
                for name in model.velocity_names[model.v_slice(i)]}
        known = [name for name in model.velocity_names if name not in free]
        driven = tuple(known if self.driven is None else self.driven)
        for name in driven:
            if name not in model.velocity_names:
                raise ProblemError(f"no velocity named {name!r}{near(name, model.velocity_names)}", where="WholeBody.driven")
        rows = [model.velocity_names.index(name) for name in driven]
        self.driven, self.S = driven, np.eye(model.nv)[rows]
        most = model.limit("effort")[rows] if self.efforts is None else np.asarray(self.efforts, float)
        self._efforts = np.broadcast_to(most, (len(rows),)).copy()
        if not (self._efforts >= 0.0).all():
            raise ProblemError("limits of efforts must not be negative", where="WholeBody.efforts")
        if self.horizon is not None and not self.horizon > 0.0:
            raise ProblemError(f"must be positive, got {self.horizon!r}", where="WholeBody.horizon")
        self._box = limit_box(model)
        self._names = tuple(names)
        self._shapes = tuple(dict.fromkeys(task.shape for task in self.tasks))
        contacts = tuple(s.contact for s in self.stances)
        self._kernel, self._rows, self._targets = _kernel(RobotKey(model), contacts, self._shapes, self.mode)
        self._hierarchy = Hierarchy(self.options)
        self._limits: tuple[tuple[Stance, ...], Level] | None = None

    # ---- the state ------------------------------------------------------------------------------------------------------
    def terms(self, q: ArrayLike, v: ArrayLike, tasks: Sequence[Task] = ()) -> Terms:
        """Everything that depends on q [nq] and v [nv], with the targets of ``tasks``, by one call of the kernel."""
        v = np.asarray(v, float)
        p = np.zeros(self._targets[-1])
        for task in tasks:
            k = self._index(task)
            if task.target.size != self._targets[k + 1] - self._targets[k]:
                raise ProblemError(f"target has {task.target.size} numbers, expected {self._targets[k + 1] - self._targets[k]}",
                                   where=f"task {task.name!r}")
            p[self._targets[k] : self._targets[k + 1]] = task.target
        values = [np.asarray(x) for x in self._kernel(q, v, p)]
        if not all(np.isfinite(x).all() for x in values):
            raise ProblemError("the state gives numbers that are not finite", where="WholeBody.terms")
        nv = self.model.nv
        M, h, J_c, drift_c, e, J, drift, momentum, A_g, drift_g = values
        return Terms(M.reshape(nv, nv), h.reshape(-1), J_c.reshape(-1, nv), drift_c.reshape(-1), e.reshape(-1), J.reshape(-1, nv),
                     drift.reshape(-1), momentum, A_g.reshape(6, nv), drift_g, np.asarray(q, float), v)

    def _index(self, task: Task) -> int:
        if task.shape not in self._shapes:
            raise ProblemError("was not among the tasks when the controller was made", where=f"task {task.name!r}")
        return self._shapes.index(task.shape)

    # ---- levels ---------------------------------------------------------------------------------------------------------
    def levels(self, terms: Terms, priorities: Sequence[Priority], stances: Sequence[Stance] | None = None) -> tuple[Level, ...]:
        """Equations, stances, limits, then the priorities. stances: those taken now (default: all), known ones by name."""
        stances = tuple(self.stances if stances is None else stances)
        layout = _Layout(self, terms, stances)
        out = [layout.equations()]
        if stances:
            out.append(layout.at_rest(self.rest_gain))
        if (limits := layout.limits(self._efforts)) is not None:
            out.append(limits)
        if self.horizon is not None and (joints := layout.joints(self.horizon)) is not None:
            out.append(joints)
        for k, priority in enumerate(priorities, start=1):
            if isinstance(priority, Level):
                out.append(priority)
                continue
            items = (priority,) if isinstance(priority, Item) else tuple(priority)
            if not items:
                raise ProblemError("has no task", where=f"priority {k}")
            blocks = [layout.rows(item) for item in items]
            out.append(Level(f"priority {k}", np.vstack([b[0] for b in blocks]), np.concatenate([b[1] for b in blocks]),
                             weights=np.concatenate([b[2] for b in blocks])))
        return tuple(out)

    def solve(self, levels: Sequence[Level], stances: Sequence[Stance] | None = None) -> Control:
        """Torques, accelerations and forces of levels that `levels` made for the same stances."""
        stances = tuple(self.stances if stances is None else stances)
        answer = self._hierarchy.solve(levels)
        nv, end = self.model.nv, self.model.nv + 3 * len(stances)
        forces = {s.name: answer.x[nv + 3 * k : nv + 3 * k + 3] for k, s in enumerate(stances)}
        return Control(answer.x[end:], answer.x[:nv], forces, answer)

    def step(self, q: ArrayLike, v: ArrayLike, priorities: Sequence[Priority], stances: Sequence[Stance] | None = None) -> Control:
        """One control step at q [nq], v [nv]: terms, levels, solve."""
        groups = [(p,) if isinstance(p, Item | Level) else p for p in priorities]
        terms = self.terms(q, v, [item for group in groups for item in group if isinstance(item, Task)])
        return self.solve(self.levels(terms, priorities, stances), stances)

    def task_rows(self, task: Task) -> slice:
        """Where the task's rows sit in the terms."""
        k = self._index(task)
        return slice(self._rows[k], self._rows[k + 1])

    def stance_rows(self, name: str) -> slice:
        """Where the stance's rows sit in the terms. Raises ProblemError with what is near."""
        if name not in self._names:
            raise ProblemError(f"no stance named {name!r}{near(name, self._names)}", where="WholeBody")
        return slice(3 * self._names.index(name), 3 * self._names.index(name) + 3)


class _Layout:
    """Rows over x = (a, f, tau) for one state and the stances of one step."""

    def __init__(self, whole: WholeBody, terms: Terms, stances: tuple[Stance, ...]) -> None:
        self.whole, self.terms, self.stances = whole, terms, stances
        self.nv, self.nf, self.nu = whole.model.nv, 3 * len(stances), whole.S.shape[0]
        self.n = self.nv + self.nf + self.nu
        rows = [i for s in stances for i in range(whole.stance_rows(s.name).start, whole.stance_rows(s.name).stop)]
        self.J_c, self.drift_c = terms.J_c[rows], terms.drift_c[rows]

    def _over(self, block: Array, first: int) -> Array:
        A = np.zeros((block.shape[0], self.n))
        A[:, first : first + block.shape[1]] = block
        return A

    def equations(self) -> Level:
        return Level("equations", np.hstack([self.terms.M, -self.J_c.T, -self.whole.S.T]), -self.terms.h)

    def at_rest(self, gain: float) -> Level:
        A, b = self._over(self.J_c, 0), -self.drift_c - gain * (self.J_c @ self.terms.v)
        if all(s.slip is None for s in self.stances):
            return Level("stances", A, b)
        held = [s.slides() for s in self.stances]
        keep = block_diag(*(N for N, _ in held))
        return Level("stances", np.vstack([keep @ A, self._over(block_diag(*(F for _, F in held)), self.nv)]),
                     np.concatenate([keep @ b, np.zeros(sum(len(F) for _, F in held))]))

    def limits(self, efforts: Array) -> Level | None:
        made = self.whole._limits
        if made is not None and made[0] == self.stances:
            return made[1]
        blocks: list[Array] = []
        lower: list[Array] = []
        upper: list[Array] = []
        names: list[str] = []
        for k, stance in enumerate(self.stances):
            D, low, high, called = stance.rows()
            blocks.append(self._over(D, self.nv + 3 * k))
            lower.append(low)
            upper.append(high)
            names += called
        bounded = np.flatnonzero(np.isfinite(efforts))
        if bounded.size:
            blocks.append(self._over(np.eye(self.nu)[bounded], self.nv + self.nf))
            lower.append(-efforts[bounded])
            upper.append(efforts[bounded])
            names += [f"effort of {tuple(self.whole.driven or ())[i]}" for i in bounded]
        if not blocks:
            return None
        level = Level("limits", D=np.vstack(blocks), f=np.concatenate(upper), lower=np.concatenate(lower), limits=tuple(names))
        self.whole._limits = self.stances, level  # it does not depend on the state
        return level

    def joints(self, horizon: float) -> Level | None:
        model, v = self.whole.model, self.terms.v
        lower, upper = velocity_bounds(model, self.terms.q, self.whole._box, horizon, gain=0.25)
        rows = np.flatnonzero(np.isfinite(lower) | np.isfinite(upper))
        if not rows.size:
            return None
        return Level("joints", D=self._over(np.eye(self.nv)[rows], 0), f=(upper[rows] - v[rows]) / horizon,
                     lower=(lower[rows] - v[rows]) / horizon, limits=tuple(model.velocity_names[i] for i in rows))

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
            b = np.broadcast_to(np.asarray(item.force, float), (3,))[chosen]
        elif isinstance(item, MomentumTask):
            chosen, terms = list(item.components), self.terms
            wanted = np.asarray(item.rate, float) + item.gain * (np.asarray(item.target, float) - terms.momentum) - terms.drift_g
            A, b = self._over(terms.A_g[chosen], 0), wanted[chosen]
        else:
            A, b = self._over(np.eye(self.nu), self.nv + self.nf), np.broadcast_to(np.asarray(item.effort, float), (self.nu,))
        return A, b, np.broadcast_to(np.asarray(item.weight, float), (b.size,))

    def _motion(self, task: Task) -> tuple[Array, Array, Array]:
        rows, terms = self.whole.task_rows(task), self.terms
        J, e, omega = terms.J[rows], terms.e[rows], task.gain
        for name, value in (("rate", task.rate), ("acceleration", task.acceleration), ("weight", task.weight)):
            if np.shape(value) not in ((), e.shape):
                raise ProblemError(f"{name} has shape {np.shape(value)}, expected a number or {e.shape}",
                                   where=f"task {task.name!r}")
        wanted = task.acceleration + 2 * task.damping_ratio * omega * (task.rate - J @ terms.v) - omega**2 * e
        return self._over(J, 0), wanted - terms.drift[rows], np.broadcast_to(np.asarray(task.weight, float), e.shape)


@lru_cache(maxsize=64)
def _kernel(robot: RobotKey, contacts: tuple[contact_kinematics.Contact, ...], shapes: tuple[Shape, ...],
            mode: str) -> tuple[Kernel, tuple[int, ...], tuple[int, ...]]:
    """((q, v, targets) -> the fields of `Terms`, first rows and first targets of the tasks)."""
    model = robot.model
    targets = parameter_starts(model, shapes)
    q, v, p = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv), ca.SX.sym("p", targets[-1])
    e, J, drift, rows = task_rates(model, shapes, q, v, p)
    momentum = alg.momentum(model, q, v)
    momentum = ca.vertcat(momentum[:3], momentum[3:] - ca.cross(alg.centre_of_mass(model, q), momentum[:3]))
    outputs = [alg.mass_matrix(model, q), alg.bias_force(model, q, v), contact_kinematics.contact_jacobian(model, q, contacts),
               contact_kinematics.contact_drift(model, q, v, contacts), e, J, drift, momentum, ca.jacobian(momentum, v),
               ca.jtimes(momentum, q, alg.rate_matrix(model, q) @ v)]
    names = ["M", "h", "J_c", "drift_c", "e", "J", "drift", "momentum", "A_g", "drift_g"]
    function = ca.Function("whole_body", [q, v, p], ca.cse([ca.densify(ca.SX(x)) for x in outputs]), ["q", "v", "p"], names)
    return compile_kernel(function, mode), rows, targets  # type: ignore[arg-type]
