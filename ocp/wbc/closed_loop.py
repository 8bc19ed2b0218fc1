"""The loop: measure, choose contacts and tasks, solve the hierarchy, act.

Contacts come and go by the schedule, and by what is measured: one that is to be taken is taken when its points touch, one whose
points leave the plane is given up, and the force of each grows and shrinks over its ramp. A point that slips is counted on for less
friction until it stands. A level that has no answer is
left out of the step, with a note; a step without any brakes the joints and says so. Nothing is repeated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dynamics.algorithms import contact_kinematics
from dynamics.algorithms.mass_matrix import check_inertia
from dynamics.constraints import PointContact
from ocp.control.stance import Stance
from ocp.control.tasks import Task
from ocp.control.whole_body import Control, ForceTask, Item, WholeBody
from ocp.errors import ProblemError
from ocp.interrupts import Activity, asked, check, late
from ocp.mpc.result import step_times
from ocp.plants import Plant
from ocp.plants.touching import touches
from ocp.problem import Finding, Kind
from ocp.solvers.hqp import Level
from ocp.thresholds import CLOSED_LOOPS
from ocp.wbc.ground import Ground, beyond_limits, faces_up
from ocp.wbc.paths import value_at
from ocp.wbc.result import ContactRecord, Ending, Note, WholeBodyRun
from ocp.wbc.setup import ContactPlan, Setup

Array = NDArray[np.float64]
Progress = Callable[[Mapping[str, float]], None]
MAX_TOUCHING_GAP, MAX_SOLE_GAP = 1e-4, 1e-3  # m: of one point of a contact that is to be taken, and of the others of its sole
LOST = 5e-3  # m: one that was taken has left its plane
SLIPS = 0.03  # m/s
STANDS = 0.2  # s of standing after which a point is trusted again
CREEP = 5e-3  # m/s: slower, the direction of a sliding point is not known well enough to count on its friction
BRAKE = 2.0  # N m s/rad: damping of the joints in a step without a solution
RANK = 1e-8  # singular value below which rows repeat each other
REPORT_EVERY = 0.1  # s of wall time


@dataclass(eq=False)
class _Contact:
    """A contact as it is now: whether it is wanted and taken, since when its force is ramped, and which of its points slip."""

    plan: ContactPlan
    stances: tuple[Stance, ...]
    rows: slice
    wanted: bool
    taken: bool
    full: float = 1.0  # share of its force
    slipped: float = -np.inf
    places: Array = field(default_factory=lambda: np.zeros((0, 3)))  # of its points when they came to stand
    drift: float = 0.0

    def __post_init__(self) -> None:
        self.now = list(self.stances)  # those of the last step: what does not change stays the same object


def run(setup: Setup, plant: Plant, progress: Progress | None = None) -> WholeBodyRun:
    """Run the controller on a plant from the start of the setup. progress: gets {time, duration, median} ten times a second.

    Raises ProblemError for what cannot run so: contacts that are taken and do not touch, tasks that the robot cannot have.
    """
    return _Loop(setup, plant, progress).run()


class _Loop:
    def __init__(self, setup: Setup, plant: Plant, progress: Progress | None) -> None:
        self.setup, self.plant, self.progress = setup, plant, progress
        model = self.model = setup.mechanism.model
        self.nq, self.notes, self.findings = model.nq, list[Note](), list[Finding]()
        self.ground = Ground.below(setup.mechanism, setup.contacts, setup.start)
        self.contacts: list[_Contact] = []
        at = 0
        for plan in setup.contacts:
            stances = stances_of(plan)
            self.contacts.append(_Contact(plan, stances, slice(at, at + len(stances)), plan.taken, plan.taken))
            at += len(stances)
        every = [s for c in self.contacts for s in c.stances]
        items = [task.item for task in setup.tasks if isinstance(task.item, Task)]
        self.whole = WholeBody(setup.mechanism, every, items, efforts=setup.efforts, rest_gain=setup.rest_gain,
                               horizon=setup.horizon, options=setup.options)
        driven = tuple(self.whole.driven or ())
        q = ca.SX.sym("q", model.nq)
        where = [s.contact for s in every]
        self.positions = ca.Function("points", [q], [ca.densify(ca.SX(contact_kinematics.contact_positions(model, q, where)))])
        self.normals = np.array([s.normal for s in every]).reshape(-1, 3)
        self.heights = np.array([c.plan.record.height for c in self.contacts for _ in c.stances])
        self.weight = model.mass * float(np.linalg.norm(model.gravity)) or 1.0
        self.tasks = {task.name: task for task in setup.tasks}
        self.on = {task.name: task.on for task in setup.tasks}
        self.pending = sorted(setup.switches, key=lambda switch: switch.time)
        n = setup.steps
        self.t = np.arange(n + 1) / setup.rate
        self.x = np.full((n + 1, setup.start.size), np.nan)
        self.torque, self.seconds, self.solved = np.full((n, len(driven)), np.nan), np.zeros(n), np.zeros(n, bool)
        self.levels: dict[str, Array] = {}
        self.errors = {task.name: np.full(n, np.nan) for task in setup.tasks}
        shape = len(self.contacts)
        self.state, self.gap = np.zeros((shape, n), np.int8), np.full((shape, n), np.nan)
        self.commanded, self.actual = np.zeros((shape, n, 3)), np.full((shape, n, 3), np.nan)
        self.share = np.full((shape, n, 2), np.nan)

    # ---- the run --------------------------------------------------------------------------------------------------------
    def run(self) -> WholeBodyRun:
        self.plant.reset(self.setup.start)
        self.x[0] = self.setup.start
        gaps, _ = self._where(self.setup.start)
        for contact in self.contacts:
            if contact.taken and gaps[contact.rows].max() > MAX_SOLE_GAP:
                raise ProblemError("is taken at the start, but does not touch its plane: a point is "
                                   f"{gaps[contact.rows].max():.3g} m above it", where=f"contact {contact.plan.name!r}")
        check_inertia(self.model, self.setup.start[:self.nq])
        if self.setup.tasks:
            self._warm()
            self._advise()
        with threadpool_limits(1):  # matrices are small: threads only wait for each other
            ending, done = self._loop()
        return self._result(ending, done)

    def _warm(self) -> None:
        """One step that is thrown away, so that none pays for what is compiled at its first use."""
        with suppress(ProblemError):
            items = [[item for _, item in level if not isinstance(item, ForceTask)] for level in self._items(0.0)]
            self.whole.step(self.setup.start[:self.nq], self.setup.start[self.nq:], [level for level in items if level])

    def _advise(self) -> None:
        """Notes on tasks of one priority that cannot all be met at the start, whatever the torques."""
        levels, q, v = self._items(0.0), self.setup.start[:self.nq], self.setup.start[self.nq:]
        terms = self.whole.terms(q, v, [item for level in levels for _, item in level if isinstance(item, Task)])
        held = [terms.J_l, *(s.slides()[0] @ terms.J_c[self.whole.stance_rows(s.name)]
                             for s in self._stances(0.0, np.zeros(terms.J_c.shape[0])))]
        known = np.vstack(held)
        for level in levels:
            motions = [(name, item) for name, item in level if isinstance(item, Task)]
            if not motions or (len(motions) == 1 and motions[0][1].shape.kind == "posture"):  # which takes what is left
                continue
            rows = np.vstack([terms.J[self.whole.task_rows(item)] for _, item in motions])
            free = int(np.linalg.matrix_rank(np.vstack([known, rows]), tol=RANK)) - (
                int(np.linalg.matrix_rank(known, tol=RANK)) if known.size else 0)
            if free < len(rows):
                self.notes.append(Note(0.0, ", ".join(name for name, _ in motions), f"{'asks' if len(motions) == 1 else 'ask'} for "
                                       f"{len(rows)} rates at one priority, "
                                       f"of which contacts and loops leave {free} free: they repeat or oppose each other, or what "
                                       "is held; choose components, or priorities of their own"))

    def _loop(self) -> tuple[Ending, int]:
        ending, done, reported = Ending.FINISHED, 0, time.perf_counter()
        try:
            for k in range(self.setup.steps):
                check(Activity.CLOSED_LOOP)
                self._step(k)
                done = k + 1
                if not np.isfinite(self.x[k + 1]).all():
                    ending = Ending.DIVERGED
                    break
                if self.ground and self.setup.tasks and (why := self.ground.fallen(self.x[k + 1], float(self.t[k + 1]))):
                    ending, self.findings = Ending.FELL, [why]
                    break
                if self.progress is not None and time.perf_counter() - reported > REPORT_EVERY:
                    self.progress({"time": float(self.t[done]), "duration": self.setup.duration,
                                   "median": float(np.median(self.seconds[:done])), "failed": int((~self.solved[:done]).sum())})
                    reported = time.perf_counter()
        except KeyboardInterrupt:
            if not done:
                raise
            ending = Ending.TIME_LIMIT if late() and not asked() else Ending.INTERRUPTED
        return ending, done

    def _step(self, k: int) -> None:
        if not self.setup.tasks:  # the plant alone
            self._passive(k)
            return
        t, x = float(self.t[k]), self.plant.measure()
        q, v = x[:self.nq], x[self.nq:]
        gaps, points = self._where(x)
        self._switch(t, q)
        began = time.perf_counter_ns()
        current = self._items(t)
        terms = self.whole.terms(q, v, [item for level in current for _, item in level if isinstance(item, Task)])
        self._feel(t, gaps, points, terms.J_c @ v if terms.J_c.size else np.zeros(0))
        stances = self._stances(t, terms.J_c @ v if terms.J_c.size else np.zeros(0))
        items = [[item for _, item in level if self._possible(item, stances)] for level in current]
        items = [level for level in items if level]
        control = self.whole.step(q, v, items, stances)
        if not control.ok:
            control = self._solved(t, self.whole.levels(terms, items, stances), stances)
        self.seconds[k] = (time.perf_counter_ns() - began) * 1e-9
        self._note(k, t, control, stances, terms, current, gaps)
        self.x[k + 1] = self.plant.step(self.torque[k], float(self.t[k + 1] - self.t[k]))
        self._forces(k)

    def _passive(self, k: int) -> None:
        gaps, _ = self._where(self.x[k])
        for c, contact in enumerate(self.contacts):
            self.gap[c, k] = gaps[contact.rows].min()
        self.torque[k], self.solved[k] = 0.0, True
        self.x[k + 1] = self.plant.step(self.torque[k], float(self.t[k + 1] - self.t[k]))
        self._forces(k)

    def _solved(self, t: float, levels: tuple[Level, ...], stances: tuple[Stance, ...]) -> Control:
        """The answer of the hierarchy; where a level has none, that of the levels above it, which is noted."""
        control = self.whole.solve(levels, stances)
        names = [level.name for level in levels]
        while not control.ok and control.solution.trouble in names[1:]:
            trouble = control.solution.trouble
            self.notes.append(Note(t, trouble, "has no answer, and was left out of one step"))
            levels = levels[:names.index(trouble)]
            names = names[:len(levels)]
            control = self.whole.solve(levels, stances)
        return control

    def _possible(self, item: Item, stances: tuple[Stance, ...]) -> bool:
        """A force is asked of a contact that is taken; until then the task waits."""
        return not isinstance(item, ForceTask) or any(s.name == item.stance for s in stances)

    # ---- contacts and tasks of a step -----------------------------------------------------------------------------------
    def _where(self, x: Array) -> tuple[Array, Array]:
        """Gaps [n] and places [n, 3] of all points."""
        points = np.asarray(self.positions(x[:self.nq]).full()).T
        return np.einsum("ij,ij->i", points, self.normals) - self.heights, points

    def _switch(self, t: float, q: Array) -> None:
        while self.pending and self.pending[0].time <= t + 1e-9:
            switch = self.pending.pop(0)
            if switch.what in ("take", "release"):
                contact = next(c for c in self.contacts if c.plan.name == switch.name)
                contact.wanted = switch.what == "take"
            else:
                task = self.tasks[switch.name]
                if switch.what == "on" and not self.on[switch.name] and task.path is not None and isinstance(task.item, Task):
                    task.path.begin(value_at(self.model, task.item, q), t)
                self.on[switch.name] = switch.what == "on"

    def _items(self, t: float) -> list[list[tuple[str, Item]]]:
        """Tasks that are on, by priority, with their targets at the time."""
        active = [task for task in self.setup.tasks if self.on[task.name]]
        return [[(task.name, task.at(t)) for task in active if task.priority == rank]
                for rank in sorted({task.priority for task in active})]

    def _feel(self, t: float, gaps: Array, points: Array, speeds: Array) -> None:
        """Who is taken, given up and slips, by what is measured; how far ramps have come."""
        for contact in self.contacts:
            gap, name, ramp = gaps[contact.rows], contact.plan.name, contact.plan.ramp
            if contact.wanted and not contact.taken and gap.min() <= MAX_TOUCHING_GAP and gap.max() <= MAX_SOLE_GAP:
                contact.taken, contact.full = True, 0.0 if ramp else 1.0
                self.notes.append(Note(t, name, "touches, and is taken"))
            elif contact.taken and gap.min() > LOST:
                contact.taken = False
                self.notes.append(Note(t, name, "has left its plane, and is given up"
                                       if contact.wanted else "is off its plane"))
            if not contact.taken:
                continue
            step = 1.0 / (ramp * self.setup.rate) if ramp else 1.0
            contact.full = min(1.0, contact.full + step) if contact.wanted else contact.full - step
            if contact.full <= 0.0 and not contact.wanted:
                contact.taken = False
                self.notes.append(Note(t, name, "is released"))
                continue
            here = points[contact.rows]
            if not contact.places.size:
                contact.places = here.copy()
            rows = slice(3 * contact.rows.start, 3 * contact.rows.stop)
            across = speeds[rows].reshape(-1, 3)
            normal = self.normals[contact.rows]
            across = across - np.einsum("ij,ij->i", across, normal)[:, None] * normal
            if not contact.plan.slides:
                if np.linalg.norm(across, axis=1).max() > SLIPS:
                    if contact.slipped < t - STANDS:
                        self.notes.append(Note(t, name, "slips; less of its friction is counted on"))
                    contact.slipped = t
                contact.drift = max(contact.drift, float(np.linalg.norm(here - contact.places, axis=1).max()))

    def _stances(self, t: float, speeds: Array) -> tuple[Stance, ...]:
        found: list[Stance] = []
        for contact in self.contacts:
            if not contact.taken:
                contact.places = np.zeros((0, 3))
                continue
            most = contact.plan.most
            if contact.full < 1.0:
                most = min(most, contact.full * 2.0 * self.weight)
            trust = 1.0 if contact.plan.slides else self.setup.trust
            friction = trust * contact.stances[0].friction * (self.setup.caution if contact.slipped > t - STANDS else 1.0)
            least = min(contact.plan.least, 0.5 * most)
            for i, stance in enumerate(contact.now):
                slip = None
                if contact.plan.slides:
                    u = speeds[3 * (contact.rows.start + i):3 * (contact.rows.start + i) + 3]
                    u = u - np.asarray(stance.normal) * (u @ np.asarray(stance.normal))
                    along = u / max(float(np.linalg.norm(u)), CREEP)
                    slip = float(along[0]), float(along[1]), float(along[2])
                if (most, least, friction, slip) != (stance.most, stance.least, stance.friction, stance.slip):
                    contact.now[i] = replace(stance, most=most, least=least, friction=friction, slip=slip)
            found += contact.now
        return tuple(found)

    # ---- records --------------------------------------------------------------------------------------------------------
    def _note(self, k: int, t: float, control: Control, stances: tuple[Stance, ...], terms: Any,
              current: list[list[tuple[str, Item]]], gaps: Array) -> None:
        self.solved[k] = control.ok
        if control.ok:
            self.torque[k] = control.torque
        else:
            most = self.whole.largest
            self.torque[k] = np.clip(-BRAKE * (self.whole.S @ terms.v), -most, most)
            if not k or self.solved[k - 1]:
                self.notes.append(Note(t, "", f"the hierarchy has no answer ({control.solution.trouble}); joints are braked"))
        for outcome in control.solution.levels:
            self.levels.setdefault(outcome.name, np.full(self.solved.size, np.nan))[k] = outcome.cost
        for level in current:
            for name, item in level:
                if isinstance(item, Task):
                    self.errors[name][k] = float(np.linalg.norm(terms.e[self.whole.task_rows(item)]))
                elif isinstance(item, ForceTask) and item.stance in control.forces:
                    off = control.forces[item.stance] - np.asarray(item.force)
                    self.errors[name][k] = float(np.linalg.norm(off[list(item.components)]))
        for c, contact in enumerate(self.contacts):
            self.gap[c, k] = gaps[contact.rows].min()
            self.state[c, k] = 0 if not contact.taken else 1 if contact.full >= 1.0 else 2
            forces = [(s, control.forces[s.name]) for s in contact.stances if s.name in control.forces]
            if forces and control.ok:
                self.commanded[c, k] = sum(f for _, f in forces)
                self.share[c, k, 0] = max(used(s, f) for s, f in forces)

    def _forces(self, k: int) -> None:
        """What the plant says about its contacts, where it says anything."""
        measured: Mapping[str, Array] | None = getattr(self.plant, "forces", None)
        if measured is None:
            return
        for c, contact in enumerate(self.contacts):
            forces = [(s, measured[s.name]) for s in contact.stances if s.name in measured]
            if forces:
                self.actual[c, k] = sum(f for _, f in forces)
                self.share[c, k, 1] = max(used(s, f) for s, f in forces)

    def _judged(self, ending: Ending, done: int) -> list[Finding]:
        """What was not kept on the way, and whether the robot stands at its end."""
        found, x = list(self.findings), self.x[done]
        if not self.setup.tasks or not np.isfinite(x).all():
            return found
        found += [Finding(Kind.CONTACT_SLID, name=c.plan.name, value=c.drift, tolerance=CLOSED_LOOPS.slid)
                  for c in self.contacts if c.drift > CLOSED_LOOPS.slid]
        if self.setup.horizon is not None:
            found += beyond_limits(self.model, self.t[:done + 1], self.x[:done + 1])
        if self.ground and ending is Ending.FINISHED:
            gaps, points = self._where(x)
            touching = np.zeros((0, 3))
            for contact in self.contacts:
                near = points[contact.rows][gaps[contact.rows] <= LOST]
                if len(near) and not faces_up(contact.plan.record, np.asarray(self.model.gravity, float)):
                    return found  # a wall or a handle holds it, too
                touching = np.vstack([touching, near])
            found += self.ground.unsteady(x, float(self.t[done]), touching, self._upright(done))
        return found

    def _upright(self, done: int) -> bool:
        """Whether a task that turns the base, or looks after its pose, has it where it wants it."""
        assert self.ground is not None
        base = self.model.bodies[self.ground.base].name
        turned = [task.name for task in self.setup.tasks if isinstance(task.item, Task) and task.item.shape.frame == base
                  and task.item.shape.kind in ("orientation", "pose")]
        return any(self.errors[name][done - 1] <= CLOSED_LOOPS.met for name in turned)

    def _result(self, ending: Ending, done: int) -> WholeBodyRun:
        contacts = tuple(ContactRecord(c.plan.name, self.state[i, :done], self.commanded[i, :done], self.actual[i, :done],
                                       self.share[i, :done], self.gap[i, :done], c.drift) for i, c in enumerate(self.contacts))
        return WholeBodyRun(
            self.setup, ending, self.t[:done + 1], self.x[:done + 1], self.torque[:done], self.whole.largest,
            tuple(self.whole.driven or ()), {name: self.levels[name][:done] for name in sorted(self.levels, key=_rank)},
            {name: values[:done] for name, values in self.errors.items()}, contacts, self.seconds[:done], self.solved[:done],
            step_times(self.seconds[:done], 1.0 / self.setup.rate), tuple(self.notes), type(self.plant).__name__,
            tuple(self._judged(ending, done)))


def _rank(name: str) -> tuple[int, str]:
    first = ("equations", "closures", "stances", "limits", "joints")
    return (first.index(name) if name in first else len(first)), name


def used(stance: Stance, force: Array) -> float:
    """The share of its friction that a force uses: 1 on the cone, more outside; infinite where it pulls."""
    n = np.asarray(stance.normal)
    normal = float(force @ n)
    across = float(np.linalg.norm(force - normal * n))
    if normal <= 0.0:
        return 0.0 if across <= 1e-6 and normal > -1e-6 else float("inf")
    return across / (stance.friction * normal) if across > 1e-6 else 0.0


def stances_of(plan: ContactPlan) -> tuple[Stance, ...]:
    """The points of a contact as the controller sees them. Raises ProblemError for what has no points."""
    found = []
    for touch in touches([plan.record]):
        record = touch.record
        if not isinstance(record, PointContact):
            raise ProblemError("rolls; whole-body control knows points and flat soles", where=f"contact {plan.name!r}")
        x, y, z = record.normal
        found.append(Stance(record.frame, (x, y, z), touch.friction, record.points[0], plan.least, plan.most, plan.sides,
                            plan.pyramid, name=touch.name))
    return tuple(found)
