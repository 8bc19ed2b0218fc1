"""One run of the solver: batches of compiled iterations, between them reports, Ctrl-C, checkpoints and Newton's method."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ocp.errors import ProblemError
from ocp.interrupts import Activity, check
from ocp.problem import Finding, Kind, Status
from ocp.problem.checkpoint import NOBODY, Outside, Pace, joined, log_rows
from ocp.shooting.engine import checkpoint as saved
from ocp.shooting.engine import iterate as it
from ocp.shooting.engine import outer, unit
from ocp.shooting.engine import record as r
from ocp.shooting.engine.endings import ended, lost, not_a_number
from ocp.shooting.engine.multipliers import Multipliers
from ocp.shooting.engine.record import Engine
from ocp.shooting.engine.scale import scale
from ocp.shooting.engine.team import expand
from ocp.shooting.options import ILQROptions
from ocp.shooting.polish import PolishStatus
from ocp.shooting.stages.horizon import Horizon

Ending = tuple[Status, Finding]

INNER_TOLERANCE = 0.1
"""Tolerance of the first minimisation with multipliers, relative to the gradient that it starts from."""
POLISH_TOLERANCE = 1e-9
"""Largest residual of a polished point."""
INNER_SHARE = 1e-2
"""The first minimisation with multipliers still to change ends when its model promises less than this share of the cost; each of
the next ones is held to a tenth of that."""
POLISH_FROM = 1e-3
"""Largest violation from which Newton's method is tried; a search that is nearer than this is never given up as hopeless."""
POLISHING_GRADIENT = 1e-3
"""Largest projected gradient, relative to the cost, from which it is tried where the limit of iterations ended the search."""
BATCH_SECONDS = 0.05
"""Time between two looks at the keyboard and two reports."""
SHARES = (1e-6, 1e-4, 1e-2, 1.0)
"""Of the penalties of the search, with which a polished point is tried for a minimum."""
MAX_BATCH = 64
"""Iterations in one batch, at most."""
PATIENCE = 150
"""Iterations in which violation and gaps must halve where a search may be given up for another attempt."""
COLUMNS = (*it.COLUMNS, "penalty", "outer")


class Search:
    """The iterations of one solve on a store; ``store.path`` is the iterate, always the best so far.

    from_guess: the states of the path are a guess whose gaps are to be closed. helpers: records for further threads. outside:
    its checkpoint to go on from is what the store was restored from. attempt: its number where others came before, whose
    constraints are ``before``; patient: not to be given up while there are iterations left.
    """

    def __init__(self, horizon: Horizon, options: ILQROptions, store: Engine, helpers: tuple[Engine, ...] = (),
                 from_guess: bool = False, outside: Outside = NOBODY, *, attempt: int = 1,
                 before: tuple[Mapping[str, float], ...] = (), patient: bool = True):
        self.horizon, self.options, self.store, self.from_guess = horizon, options, store, from_guess
        self.progress, self.checkpoint, resume = outside.progress, outside.checkpoint, outside.resume
        self.team = (store, *helpers)
        self.multipliers = Multipliers(horizon, store)
        self.log: list[dict[str, float]] = []
        self.rows = np.empty((min(options.max_iterations + 2, MAX_BATCH), outer.WIDTH))
        self.batch = 1
        self.load_seconds = 0.0
        self.polished, self.began = False, 0.0
        self.schedule: np.ndarray | None = None
        limits = (options.tolerance, options.constraint_tolerance, options.tuning.penalty_max, options.tuning.regularisation,
                  options.tuning.polish == "newton")
        self.outer = outer.Outer(np.ones(outer.SCHEDULE), np.array(limits, dtype=float), self.multipliers.found,
                                 self.multipliers.previous) if self.multipliers.any_rows else None
        self.attempt, self.patient, self.pace = attempt, patient, Pace()
        self._best, self._since, self._looked = np.inf, 0, 0
        self.resumed: tuple[Mapping[str, float], ...] = ()
        self.before, self.first = before, len(before)
        if resume is not None:
            self.resumed = log_rows(resume)
            if self.outer is not None and (schedule := saved.schedule_of(resume, options)) is not None:
                self.schedule = self.outer.schedule
                self.schedule[:] = schedule
            self.first = int(resume["iterations"][0])
            self.multipliers.previous[:] = resume["violations"]  # they decide about the penalties of the next update
        if options.tuning.globalisation == "auto" and options.shooting == "multiple":
            # a filter alone can dead-end; with rows gaps and multipliers trade against each other under it
            store.settings[r.FILTER] = 0.0 if self.multipliers.any_rows else it.EITHER
        dropped = {"gap"} if options.shooting in ("single", "open") else set()
        dropped |= set() if self.multipliers.any_rows else {"violation", "penalty", "outer"}
        self._columns = [(i, name) for i, name in enumerate(COLUMNS) if name not in dropped]

    @property
    def objective(self) -> float:
        """The cost of the path alone, without the terms of constraints."""
        return float(self.store.path.cost.sum())

    @property
    def swept(self) -> bool:
        """Whether the policy belongs to the path."""
        return bool(self.store.state[r.SWEPT])

    def left_over(self) -> float:
        """The larger of violation and gaps of the path, zero where both are within their tolerances, infinite where the path cannot
        be evaluated."""
        state, options = self.store.state, self.options
        found = max(float(state[r.VIOLATION]), float(state[r.GAP]))
        if not (np.isfinite(found) and np.isfinite(state[r.COST])):
            return np.inf
        within = state[r.VIOLATION] <= options.constraint_tolerance and state[r.GAP] <= options.tuning.gap_tolerance
        return 0.0 if within else found

    @property
    def whole_log(self) -> tuple[Mapping[str, float], ...]:
        """The constraints of this search, after those of attempts before it or of the search that it goes on with."""
        return (*self.before, *joined(self.resumed, self.log))

    def save(self) -> None:
        """Hand out a checkpoint, if anyone wants it and there is an iterate."""
        if self.checkpoint is not None and np.all(np.isfinite(self.store.path.cost)):
            last = self.first + max(0, len(self.log) - 1)
            self.checkpoint(saved.save(self.horizon, self.store, self.multipliers, self.schedule, list(self.whole_log), last,
                                       self.attempt))

    def run(self) -> Ending:
        """Iterate from the path. Returns the status and how the search ended."""
        began = self.began = time.perf_counter()
        try:
            # loads, or compiles, the loops: ``solve`` times iterations only
            self._rows(it.ITERATE, 0)
            ending = self._begin()
            self.began = time.perf_counter()
            self.load_seconds = self.began - began
            if ending is not None:
                return ending
            self._report_first()
            return self._rescued(self._search())
        except KeyboardInterrupt:
            return Status.INTERRUPTED, Finding(Kind.SEARCH_INTERRUPTED, data={
                "iterations": max(0, len(self.log) - 1), "cost": self.objective})

    def _rescued(self, found: Ending) -> Ending:
        """What is left to do for polishing after the search has ended."""
        state = self.store.state
        near = found[0] is Status.STALLED or (
            found[0] is Status.ITERATION_LIMIT
            and state[r.GRADIENT] <= POLISHING_GRADIENT * scale.py_func(self.store.settings[r.UNIT], state[r.COST]))
        short = near and state[r.VIOLATION] <= POLISH_FROM
        wanted = (short and self.options.tuning.polish != "never") or (
            found[0] is Status.CONVERGED and self.options.tuning.polish == "newton" and not self.polished)
        return (self._polish() or found) if wanted else found

    def _begin(self) -> Ending | None:
        """Evaluate and expand the path."""
        from_guess = self.from_guess and not self.log
        follow = it.ROLLOUT_OF_GUESS if from_guess else it.ROLLOUT
        fresh, rows = not self.resumed, self.multipliers.any_rows
        if fresh:
            self.store.conset.mu[:] = unit.NONE
        failed = self._perform(follow)
        if failed >= 0:
            return lost(self.horizon, self.store, self.multipliers, self.options, failed, from_guess)
        began = time.perf_counter()
        found = self._expand()
        if found is None and fresh:
            unit.find(self.store, self.options.tuning.penalty)
            if rows:
                self._perform(follow)
                found = self._expand()
        if self.progress is None and self.checkpoint is None:  # nobody watches; an iteration takes a few times its expansion
            self.batch = max(1, int(BATCH_SECONDS / (8.0 * (time.perf_counter() - began) + 1e-6)))
        return found

    def _rows(self, task: int, most: int) -> tuple[int, int]:
        """Let the compiled loops do a task of ``iterate`` or ``outer``. Returns (rows of the log, ending or failed knot or -1)."""
        engine = self.store
        if self.outer is not None:
            rows, ending = outer.perform(engine, self.outer, task, self.rows, most)
        else:
            rows, ending = it.perform(engine, task, self.rows, self.options.tolerance, -1.0, most)
        return int(rows), int(ending)

    def _perform(self, task: int, ending: int = 0) -> int:
        """A task without rows of the log: the failed knot or -1, or an ending. ending: what is judged."""
        return self._rows(task, ending)[1]

    def _expand(self) -> Ending | None:
        failed = self._perform(it.EXPAND) if len(self.team) == 1 else expand(self.team)
        if failed >= 0 or not np.isfinite(self.store.state[r.GRADIENT]):
            return Status.NOT_A_NUMBER, not_a_number(self.horizon, self.store)
        return None

    def _iterate(self, most: int) -> tuple[int, int]:
        """As ``iterate.iterate``, with the expansions shared among threads where there are several."""
        if len(self.team) == 1:
            return self._rows(it.ITERATE, most)
        engine, ending = self.store, self._perform(it.AIM)
        if ending != it.RUNNING:
            return 0, ending
        ending = it.step(engine, self.rows, 0)
        if ending == it.RUNNING:
            failed = expand(self.team)
            if failed >= 0:
                self.store.state[r.FAILED] = failed
                return 1, it.BROKEN
            ending = it.settle(engine, self.rows, 0)
        return 1, int(it.RUNNING if ending == it.REFUSED else ending)

    def _some(self, most: int) -> tuple[int, int]:
        """At most ``most`` iterations, with the updates of the multipliers between them. Returns (constraints, ending)."""
        if not self.multipliers.any_rows:
            return self._softened(*self._iterate(most))
        plan = self.schedule
        assert plan is not None
        if len(self.team) == 1:
            return self._rows(outer.CONSTRAINED, most)
        rows, ending = self._softened(*self._iterate(most))
        self.rows[:rows, outer.WIDTH - 2:] = plan[outer.PENALTY], plan[outer.UPDATES]
        if ending != it.RUNNING:
            meant = self._perform(outer.JUDGE, ending)
            ending = self._updated(ending) if meant == it.RUNNING else meant
        return rows, ending

    def _softened(self, rows: int, ending: int) -> tuple[int, int]:
        if ending == it.SOFTEN:
            ending = it.BROKEN if self._perform(it.SOFTEN_ONCE) >= 0 else it.RUNNING
        return rows, ending

    def _updated(self, ending: int) -> int:
        """Multipliers and penalties after a minimisation, the path expanded with them."""
        ending = self._perform(outer.ADVANCE, ending)
        if ending == it.RUNNING:
            ending = it.BROKEN if self._expand() is not None else it.RUNNING
            self._perform(it.BEGIN)
        return ending

    def _search(self) -> Ending:
        """Batches of iterations until an ending."""
        options, state = self.options, self.store.state
        if self.outer is not None and self.schedule is None:
            self.schedule = self.outer.schedule
            self.schedule[:] = 0.0
            # relative to where the search begins, so that costs of 1e-2 and 1e4 start equally loosely
            size = scale.py_func(self.store.settings[r.UNIT], state[r.COST])
            self.schedule[[outer.TOLERANCE, outer.LOOSE, outer.NEWTON_VIOLATION, outer.PENALTY]] = (
                max(options.tolerance, INNER_TOLERANCE * state[r.GRADIENT] / size), INNER_SHARE,
                POLISH_FROM, self.store.conset.mu.max())
        self._perform(it.BEGIN)
        while (room := options.max_iterations - (len(self.log) - 1)) > 0:
            began = time.perf_counter()
            rows, ending = self._some(max(1, min(self.batch, room, self._left, len(self.rows))))
            self.batch = 2 * self.batch if time.perf_counter() - began < BATCH_SECONDS else max(1, self.batch // 2)
            self._report(rows)
            check(Activity.SOLVING)
            if self.checkpoint is not None and self.pace.due():
                self.save()
            if ending == outer.POLISH:
                if (found := self._polish()) is not None:
                    return found
                assert self.schedule is not None
                self.schedule[outer.NEWTON_VIOLATION] = 0.1 * self.schedule[outer.WORST]
                ending = self._updated(it.CONVERGED)
            if ending != it.RUNNING:
                return self._ended(ending)
            if self._left <= 0:
                return self._named(Status.STALLED, Finding(Kind.VIOLATION_NOT_HALVED, data={"iterations": PATIENCE}))
        return self._at_limit()

    def _at_limit(self) -> Ending:
        options, ending = self.options, self._perform(it.AIM)
        if ending == it.CONVERGED and self.schedule is not None:
            ending = self._perform(outer.JUDGE, ending)
        if ending == it.CONVERGED:
            return self._ended(ending)
        return self._named(Status.ITERATION_LIMIT, Finding(
            Kind.ITERATIONS_USED_UP, value=float(self.store.state[r.GRADIENT]), data={"iterations": options.max_iterations}))

    def _ended(self, ending: int) -> Ending:
        """Status and finding of an ending of the loops."""
        if ending in (outer.EXHAUSTED, outer.UPDATED):
            violation, name = self.multipliers.worst()
            if ending == outer.EXHAUSTED:
                return Status.INFEASIBLE, Finding(Kind.VIOLATION_STAYS, name=name, value=violation)
            return Status.ITERATION_LIMIT, Finding(Kind.MULTIPLIER_UPDATES_USED_UP, name=name, value=violation, data={
                "updates": outer.MAX_UPDATES})
        return self._named(*ended(ending, self.horizon, self.store, self.options))

    def _named(self, status: Status, ending: Finding) -> Ending:
        """With the constraint that is violated most, if there are constraints."""
        if not self.multipliers.any_rows or status is Status.NOT_A_NUMBER:
            return status, ending
        violation, name = self.multipliers.worst()
        return status, replace(ending, data={**ending.data, "violation": violation, "constraint": name})

    @property
    def _left(self) -> int:
        """Iterations until this search is given up unless violation and gaps halve; never where it is patient or near."""
        if self.patient:
            return self.options.max_iterations + 1
        for k in range(self._looked, len(self.log)):
            row = self.log[k]
            missed = max(row.get("violation", 0.0), row.get("gap", 0.0))
            if missed <= 0.5 * self._best or missed <= POLISH_FROM:
                self._best, self._since = missed, k
        self._looked = len(self.log)
        return self._since + PATIENCE - (len(self.log) - 1)

    def _polish(self) -> Ending | None:
        """Newton's method on the optimality conditions; None where it does not reach the tolerance or leads to a point that is no
        minimum, and then nothing has changed."""
        from ocp.shooting.engine.polishing import polished

        store, options = self.store, self.options
        touched = (*store.path, store.conset.lam, store.conset.mu, store.conset.gradient, store.settings, store.state)
        kept = [array.copy() for array in touched]

        def back() -> None:
            for array, old in zip(touched, kept, strict=True):
                array[:] = old

        try:
            found = polished(self.horizon, store, options.hessian != "gauss_newton", POLISH_TOLERANCE, self._perform)
        except ProblemError:  # it cannot be evaluated where it stands
            found = None
        except KeyboardInterrupt:
            back()
            raise
        if found is None or found.status is not PolishStatus.SOLVED or not self._convex():
            back()
            self._expand()
            return None
        size = float(store.settings[r.UNIT])
        for row in found.log[1:]:
            self.log.append({
                "iteration": self.first + len(self.log), "gradient": size * row["stationarity"], "violation": row["feasibility"],
                "gap": row["gap"], "step": row["length"], "trials": row["trials"], "newton": 1.0,
                "seconds": self._clock()} | ({"attempt": float(self.attempt)} if self.attempt > 1 else {}))
        self.log[-1]["cost"] = self.objective
        self.polished = True
        if self.progress is not None:
            for row in self.log[1 - len(found.log):] if len(found.log) > 1 else ():
                self.progress(row)
        return Status.CONVERGED, Finding(Kind.POLISHED, value=size * found.residuals.stationarity, data={
            "feasibility": found.residuals.feasibility, "cost": self.objective})

    def _convex(self) -> bool:
        """Whether the path is a minimum to second order: the sweep succeeds with next to no regularisation, and the least penalties
        that do. Small ones leave the multipliers as they are where constraints are zero up to rounding; large ones drown the
        cost."""
        state, penalties = self.store.state, self.store.conset.mu
        from_guess = penalties.copy()
        for share in SHARES if self.multipliers.any_rows else SHARES[-1:]:
            penalties[:] = share * from_guess
            self._perform(it.EXPAND)
            state[r.MU], state[r.BLEND] = self.store.settings[r.MU_LEAST], 0.0
            if self._perform(it.SWEEP) < 0:
                return True
        return False

    def sweep_again(self) -> None:
        """The policy of the path, if the search stopped before it was made."""
        state = self.store.state
        if not self.swept and np.isfinite(state[r.COST]) and np.isfinite(state[r.GRADIENT]):
            state[r.BLEND] = it.MAX_BLENDS  # nobody softens the Hessians any more: regularise as much as it takes
            self._perform(it.SWEEP)

    def _report_first(self) -> None:
        s, conset = self.store.state, self.store.conset
        s[r.PLAIN] = self.objective
        penalty, updates = 0.0, 0.0
        if self.outer is not None:
            penalty, updates = (conset.mu.max(), 0.0) if self.schedule is None else self.schedule[[outer.PENALTY, outer.UPDATES]]
        self.rows[0] = s[r.PLAIN], np.nan, s[r.GRADIENT], s[r.VIOLATION], s[r.GAP], 0.0, s[r.MU], 0.0, penalty, updates
        self._report(1)

    def _report(self, rows: int) -> None:
        """Append rows to the log before observers are called, so that an interrupt loses none."""
        now = self._clock()
        last = self.log[-1]["seconds"] if self.log else now
        columns, log = self._columns, self.log
        for row, numbers in enumerate(self.rows[:rows].tolist()):  # a batch has one clock: its iterations share the time
            entry: dict[str, float] = {"iteration": self.first + len(log)}
            for i, name in columns:
                entry[name] = numbers[i]
            if numbers[1] != numbers[1]:
                del entry["expected"]  # the first row
            if self.attempt > 1:
                entry["attempt"] = float(self.attempt)
            entry["seconds"] = last + (now - last) * (row + 1) / rows
            log.append(entry)
        if self.progress is not None:
            for entry in log[len(log) - rows:]:
                self.progress(entry)

    def _clock(self) -> float:
        """Seconds since the start of the first attempt."""
        return time.perf_counter() - self.began + (self.before[-1]["seconds"] if self.before else 0.0)
