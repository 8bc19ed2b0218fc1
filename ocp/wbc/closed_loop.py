"""The loop: measure, choose contacts and tasks, solve the hierarchy, act.

Contacts come and go by the schedule, and by what is measured (``contact_state``). A level that has no answer is left out of the
step, with a note; a step without any brakes the joints and says so. Nothing is repeated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dynamics.algorithms import contact_kinematics
from dynamics.algorithms.mass_matrix import check_inertia
from dynamics.constraints import PointContact
from ocp.control.tasks import Task
from ocp.control.whole_body import Control, ForceTask, Item, WholeBody
from ocp.errors import ProblemError
from ocp.interrupts import Activity, asked, check, time_is_up
from ocp.mpc.result import step_times
from ocp.plants import Plant
from ocp.problem import Finding, Kind
from ocp.solvers.hqp import Level
from ocp.thresholds import CLOSED_LOOPS
from ocp.wbc.contact_state import LOST, MAX_SOLE_GAP, ContactState
from ocp.wbc.ground import Ground, beyond_limits, faces_up
from ocp.wbc.paths import value_at
from ocp.wbc.result import ContactRecord, Ending, Note, WholeBodyRun
from ocp.wbc.setup import Setup

Array = NDArray[np.float64]
Progress = Callable[[Mapping[str, float]], None]
BRAKE = 2.0  # N m s/rad: damping of the joints in a step without a solution
RANK = 1e-8  # singular value below which equations repeat each other
REPORT_EVERY = 0.1  # s of wall time


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
        self.contacts: list[ContactState] = []
        for contact in setup.contacts:
            self.contacts.append(ContactState(contact, self.contacts[-1].rows.stop if self.contacts else 0))
        every = [s for c in self.contacts for s in c.stances]
        items = [task.item for task in setup.tasks if isinstance(task.item, Task)]
        self.whole = WholeBody(setup.mechanism, every, items, efforts=setup.efforts, rest_gain=setup.rest_gain,
                               horizon=setup.horizon, options=setup.options)
        driven = tuple(self.whole.driven or ())
        q = ca.SX.sym("q", model.nq)
        where = [s.contact_point for s in every]
        self.positions = ca.Function("points", [q], [ca.densify(ca.SX(contact_kinematics.contact_positions(model, q, where)))])
        self.normals = np.array([s.plane[2] for s in every]).reshape(-1, 3)
        self.heights = np.array([s.height for s in every])
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
        if self.setup.planner is not None:
            self.setup.planner.begin(self.setup.start)
        self.x[0] = self.setup.start
        gaps, _ = self._where(self.setup.start)
        for contact in self.contacts:
            if contact.taken and gaps[contact.rows].max() > MAX_SOLE_GAP:
                raise ProblemError("is taken at the start, but does not touch its plane: a point is "
                                   f"{gaps[contact.rows].max():.3g} m above it", where=f"contact {contact.name!r}")
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
        held = [terms.J_l, *(s.equations()[0] @ terms.J_c[self.whole.stance_rows(s.name)]
                             for s in self._stances(0.0, np.zeros((terms.J_c.shape[0] // 3, 3))))]
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
                                       f"of which contacts and loops leave {free} free: they are redundant or in "
                                       "conflict; choose components, or separate priorities"))

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
            ending = Ending.TIME_LIMIT if time_is_up() and not asked() else Ending.INTERRUPTED
        return ending, done

    def _step(self, k: int) -> None:
        if not self.setup.tasks:  # the plant alone
            self._passive(k)
            return
        t, x = float(self.t[k]), self.plant.measure()
        q, v = x[:self.nq], x[self.nq:]
        gaps, points = self._where(x)
        self._switch(t, q)
        if self.setup.planner is not None:
            self.setup.planner.update(t, x)
        began = time.perf_counter_ns()
        current = self._items(t)
        terms = self.whole.terms(q, v, [item for level in current for _, item in level if isinstance(item, Task)])
        stances = self._feel(t, gaps, points, terms.J_c @ v if terms.J_c.size else np.zeros(0))
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

    def _solved(self, t: float, levels: tuple[Level, ...], stances: tuple[PointContact, ...]) -> Control:
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

    def _possible(self, item: Item, stances: tuple[PointContact, ...]) -> bool:
        """A force is asked of a contact that is taken; until then the task waits."""
        return not isinstance(item, ForceTask) or any(s.name == item.stance for s in stances)

    # ---- contacts and tasks of a step -----------------------------------------------------------------------------------
    def _where(self, x: Array) -> tuple[Array, Array]:
        """Gaps [n] and positions [n, 3] of all points."""
        points = np.asarray(self.positions(x[:self.nq]).full()).T
        return np.einsum("ij,ij->i", points, self.normals) - self.heights, points

    def _switch(self, t: float, q: Array) -> None:
        while self.pending and self.pending[0].time <= t + 1e-9:
            switch = self.pending.pop(0)
            if switch.what in ("take", "release"):
                contact = next(c for c in self.contacts if c.name == switch.name)
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

    def _feel(self, t: float, gaps: Array, points: Array, speeds: Array) -> tuple[PointContact, ...]:
        """The stances of a step, after who is taken, given up and slips by what is measured."""
        setup, v = self.setup, speeds.reshape(-1, 3)
        for c in self.contacts:
            self.notes += c.feel(t, gaps[c.rows], points[c.rows], v[c.rows], 1.0 / setup.rate)
        return self._stances(t, v)

    def _stances(self, t: float, v: Array) -> tuple[PointContact, ...]:
        setup = self.setup
        return tuple(s for c in self.contacts for s in c.standing(t, v[c.rows], setup.trust, setup.caution, self.weight))

    # ---- records --------------------------------------------------------------------------------------------------------
    def _note(self, k: int, t: float, control: Control, stances: tuple[PointContact, ...], terms: Any,
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
            self.state[c, k] = contact.code
            forces = [(s, control.forces[s.name]) for s in contact.stances if s.name in control.forces]
            if forces and control.ok:
                self.commanded[c, k] = sum(f for _, f in forces)
                self.share[c, k, 0] = max(s.used(f) for s, f in forces)

    def _forces(self, k: int) -> None:
        """The plant's report on its contacts, where it has one."""
        measured: Mapping[str, Array] | None = getattr(self.plant, "forces", None)
        if measured is None:
            return
        for c, contact in enumerate(self.contacts):
            forces = [(s, measured[s.name]) for s in contact.stances if s.name in measured]
            if forces:
                self.actual[c, k] = sum(f for _, f in forces)
                self.share[c, k, 1] = max(s.used(f) for s, f in forces)

    def _judged(self, ending: Ending, done: int) -> list[Finding]:
        """Findings about violated limits on the way, and whether the robot stands at its end."""
        found, x = list(self.findings), self.x[done]
        if not self.setup.tasks or not np.isfinite(x).all():
            return found
        found += [Finding(Kind.CONTACT_SLID, name=c.name, value=c.drift, tolerance=CLOSED_LOOPS.slid)
                  for c in self.contacts if c.drift > CLOSED_LOOPS.slid]
        if self.setup.horizon is not None:
            found += beyond_limits(self.model, self.t[:done + 1], self.x[:done + 1])
        if self.ground and ending is Ending.FINISHED:
            gaps, points = self._where(x)
            touching = np.zeros((0, 3))
            for contact in self.contacts:
                near = points[contact.rows][gaps[contact.rows] <= LOST]
                if len(near) and not faces_up(contact.contact, np.asarray(self.model.gravity, float)):
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
        contacts = tuple(ContactRecord(c.name, self.state[i, :done], self.commanded[i, :done], self.actual[i, :done],
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
