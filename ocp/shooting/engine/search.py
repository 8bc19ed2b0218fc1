"""One run of the solver: batches of compiled iterations, between them reports, Ctrl-C and the multipliers of hard constraints."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ocp.errors import ProblemError
from ocp.problem import Status
from ocp.problem.checkpoint import Checkpoint, Keep, Pace, joined, log_rows
from ocp.shooting.engine import checkpoint as saved
from ocp.shooting.engine import iterate as it
from ocp.shooting.engine import record as r
from ocp.shooting.engine.expansion import bend_range, differentiate_range, expand, finish
from ocp.shooting.engine.multipliers import Multipliers
from ocp.shooting.engine.record import Engine, Store
from ocp.shooting.engine.rollout import rollout
from ocp.shooting.engine.words import first_not_finite, lost, not_a_number
from ocp.shooting.options import ILQROptions
from ocp.shooting.polish import PolishStatus
from ocp.shooting.stages.horizon import Horizon

Progress = Callable[[Mapping[str, float]], None]
Ending = tuple[Status, str]

LOOSE = 1e-2
"""The first minimisation with multipliers still to change ends when its model promises less than this share of the cost; each of
the next ones is held to a tenth of that."""
POLISH_FROM = 1e-3
"""Largest violation from which Newton's method is tried."""
NEAR = 1e-3
"""Largest projected gradient, relative to the cost, from which it is tried where the limit of iterations ended the search."""
BATCH_SECONDS = 0.05
"""Time between two looks at the keyboard and two reports."""


class Search:
    """The iterations of one solve on a store; ``store.path`` is the iterate, always the best so far.

    given: the states of the path are a guess whose gaps are to be closed. helpers: records for further threads. checkpoint: gets
    the state of the search every now and then. resume: a checkpoint that the store was restored from.
    """

    def __init__(self, horizon: Horizon, options: ILQROptions, store: Store, helpers: tuple[Engine, ...] = (), given: bool = False,
                 progress: Progress | None = None, checkpoint: Keep | None = None, resume: Checkpoint | None = None):
        self.horizon, self.options, self.store, self.given, self.progress = horizon, options, store, given, progress
        self.team = (store.engine, *helpers)
        self.multipliers = Multipliers(horizon, store, options)
        self.log: list[dict[str, float]] = []
        self.rows = np.zeros((max(2, options.max_iterations + 2), len(it.COLUMNS)))
        self.batch = 1
        self.penalty = self.multipliers.largest_penalty
        self.load_seconds = 0.0
        self.polished, self.began = False, 0.0
        self.schedule: saved.Schedule | None = None
        self.checkpoint, self.pace = checkpoint, Pace()
        self.before: tuple[Mapping[str, float], ...] = ()
        self.first = 0
        if resume is not None:
            self.schedule, self.before = saved.schedule_of(resume, options), log_rows(resume)
            self.first = int(resume["iterations"][0])
            saved.restore_violations(resume, self.multipliers)

    @property
    def objective(self) -> float:
        """The cost of the path alone, without the terms of constraints."""
        return float(self.store.path.cost.sum())

    @property
    def swept(self) -> bool:
        """Whether the policy belongs to the path."""
        return bool(self.store.state[r.SWEPT])

    @property
    def whole_log(self) -> tuple[Mapping[str, float], ...]:
        """The rows of this search, after those of the search that it goes on with."""
        return joined(self.before, self.log)

    def save(self) -> None:
        """Hand out a checkpoint, if anyone wants it and there is an iterate."""
        if self.checkpoint is not None and np.all(np.isfinite(self.store.path.cost)):
            self.checkpoint(saved.save(self.horizon, self.store, self.multipliers, self.schedule, list(self.whole_log),
                                       self.first + max(0, len(self.log) - 1)))

    def run(self) -> Ending:
        """Iterate from the path. Returns the status and what there is to say about it."""
        began = self.began = time.perf_counter()
        try:
            it.iterate(self.store.engine, self.rows, 1.0, 1.0, 0)  # loads, or compiles, the loops: ``solve`` times iterations only
            ending = self._begin()
            self.began = time.perf_counter()
            self.load_seconds = self.began - began
            if ending is not None:
                return ending
            self._report_first()
            found = self._constrained() if self.multipliers.any_rows else self._minimise(self.options.tolerance)
            return self._rescued(found)
        except KeyboardInterrupt:
            return Status.INTERRUPTED, f"after {max(0, len(self.log) - 1)} iterations, cost {self.objective:.9g}"

    def _rescued(self, found: Ending) -> Ending:
        """What is left to do for polishing after the search has ended."""
        state = self.store.state
        near = state[r.GRADIENT] <= NEAR * max(1.0, abs(state[r.COST]))
        short = (found[0] is Status.STALLED or (found[0] is Status.ITERATION_LIMIT and near)) and state[r.VIOLATION] <= POLISH_FROM
        wanted = (short and self.options.polish != "never") or (
            found[0] is Status.CONVERGED and self.options.polish == "newton" and not self.polished)
        return (self._polish() or found) if wanted else found

    def _begin(self) -> Ending | None:
        """Evaluate and expand the path."""
        given = self.given and not self.log
        _, failed = rollout(self.store.engine, given)
        if failed >= 0:
            return lost(self.horizon, self.store, self.multipliers, self.options, int(failed), given)
        return self._expand()

    def _expand(self) -> Ending | None:
        if len(self.team) == 1:
            failed = expand(self.store.engine)
        else:
            failed = self._expand_together()
        if failed >= 0 or not np.isfinite(self.store.state[r.GRADIENT]):
            return Status.NOT_A_NUMBER, not_a_number(self.horizon, self.store)
        return None

    def _expand_together(self) -> int:
        """The stages shared among threads; every knot is a computation of its own, so the numbers do not depend on how many."""
        stages, count = len(self.horizon.which), len(self.team)
        cuts = [stages * i // count for i in range(count + 1)]
        with ThreadPoolExecutor(count) as pool:
            found = list(pool.map(differentiate_range, self.team, cuts[:-1], cuts[1:]))
            failed = max(k for k, _ in found)
            if failed >= 0:
                return int(failed)
            if not finish(self.store.engine, max(v for _, v in found)):
                return 0
            return int(max(pool.map(bend_range, self.team, cuts[:-1], cuts[1:])))

    def _iterate(self, tolerance: float, loose: float, most: int) -> tuple[int, int]:
        """As ``iterate.iterate``, with the expansions shared among threads where there are several."""
        engine = self.store.engine
        if len(self.team) == 1:
            rows, ending = it.iterate(engine, self.rows, tolerance, loose, most)
            return int(rows), int(ending)
        ending = it.direct(engine, tolerance, loose)
        if ending != it.RUNNING:
            return 0, int(ending)
        ending = it.step(engine, self.rows, 0)
        if ending == it.RUNNING:
            failed = self._expand_together()
            if failed >= 0:
                self.store.state[r.FAILED] = failed
                return 1, it.BROKEN
            ending = it.settle(engine, self.rows, 0)
        return 1, int(it.RUNNING if ending == it.REFUSED else ending)

    def _minimise(self, tolerance: float, loose: float = 0.0) -> Ending:
        """Batches of iterations until an ending."""
        state, options = self.store.state, self.options
        state[[r.SMALLEST, r.WAITED, r.FILTERED, r.STEPS, r.FIRST_GAP]] = state[r.GRADIENT], 0.0, 0.0, 0.0, state[r.GAP]
        while True:
            room = options.max_iterations - (len(self.log) - 1)
            began = time.perf_counter()
            rows, ending = self._iterate(tolerance, loose, max(1, min(self.batch, room))) if room > 0 else (0, it.RUNNING)
            self.batch = 2 * self.batch if time.perf_counter() - began < BATCH_SECONDS else max(1, self.batch // 2)
            self._report(rows)
            if self.checkpoint is not None and self.pace.due():
                self.save()
            if ending == it.SOFTEN:
                if it.soften(self.store.engine) >= 0:
                    ending = it.BROKEN
                else:
                    continue
            if ending != it.RUNNING:
                return self._ended(ending, tolerance)
            if options.max_iterations - (len(self.log) - 1) <= 0:
                if it.direct(self.store.engine, tolerance, loose) == it.CONVERGED:
                    return self._ended(it.CONVERGED, tolerance)
                reached = f"projected gradient {state[r.GRADIENT]:.3g} after {options.max_iterations} iterations"
                return Status.ITERATION_LIMIT, reached

    def _ended(self, ending: int, tolerance: float) -> Ending:
        state, horizon, options = self.store.state, self.horizon, self.options
        scaled = tolerance * max(1.0, abs(state[r.COST]))
        if ending == it.CONVERGED:
            return Status.CONVERGED, (f"projected gradient {state[r.GRADIENT]:.3g}, expected decrease "
                                      f"{-(state[r.LINEAR] + state[r.QUADRATIC]):.3g}, cost {self.objective:.9g}")
        if ending == it.INDEFINITE:
            k = int(state[r.FAILED])
            if (words := first_not_finite(horizon, self.store)) is not None:
                return Status.NOT_A_NUMBER, words
            return Status.STALLED, (f"Quu is not positive definite at {horizon.place(k, self.store.path.x)} even with "
                                    f"regularisation {options.regularisation_max:.3g}")
        if ending == it.STUCK:
            why = "; the last trial rollout diverged" if state[r.LOST] >= 0 else ""
            return Status.STALLED, (f"no step decreases the cost with regularisation {state[r.FAILED]:.3g}; projected gradient "
                                    f"{state[r.GRADIENT]:.3g}, tolerance {scaled:.3g}{why}")
        if ending == it.LEVEL:
            return Status.STALLED, ("the cost is at its rounding level and the projected gradient stays at "
                                    f"{state[r.SMALLEST]:.3g}, above its tolerance {scaled:.3g}")
        return Status.NOT_A_NUMBER, not_a_number(horizon, self.store)

    def _constrained(self) -> Ending:
        """Outer iterations: minimise the augmented Lagrangian, take over multipliers, raise penalties where that was too little."""
        options, held, state = self.options, self.multipliers, self.store.state
        # relative to where the search begins, so that costs of 1e-2 and 1e4 start equally loosely
        plan = self.schedule = self.schedule or saved.Schedule(
            max(options.tolerance, options.inner_tolerance * state[r.GRADIENT] / max(1.0, abs(state[r.COST]))), LOOSE, POLISH_FROM)
        for _ in range(options.max_outer):
            before = len(self.log)
            status, message = self._minimise(plan.tolerance, plan.loose if plan.tolerance > options.tolerance else 0.0)
            violation, name = held.worst()
            message = f"{message}; largest violation {violation:.3g} ({name})"
            if status in (Status.NOT_A_NUMBER, Status.DIVERGED, Status.ITERATION_LIMIT):
                return status, message
            if options.polish == "newton" and violation <= plan.near:
                if (found := self._polish()) is not None:
                    return found
                plan.near = 0.1 * violation
            met = violation <= options.constraint_tolerance and plan.tolerance == options.tolerance
            # where neither the minimisation nor the multipliers move any more, nothing else will
            if met and (status is Status.CONVERGED or len(self.log) == before):
                return status, message
            held.update()
            if held.exhausted:
                return Status.INFEASIBLE, f"the largest violation stays at {violation:.3g} ({name}) whatever the penalty"
            self.penalty, plan.loose, plan.updates = held.largest_penalty, 0.1 * plan.loose, plan.updates + 1
            tighter = 0.1 * plan.tolerance if violation > options.constraint_tolerance else options.tolerance
            plan.tolerance = max(options.tolerance, tighter)
            state[[r.MU, r.MU_FACTOR]] = options.regularisation, 1.0
            if (ending := self._expand()) is not None:
                return ending
        return Status.ITERATION_LIMIT, (f"largest violation {violation:.3g} ({name}) after {options.max_outer} updates of the "
                                        "multipliers")

    def _polish(self) -> Ending | None:
        """Newton's method on the optimality conditions; None where it does not reach the tolerance or leads to a point that is no
        minimum, and then nothing has changed."""
        from ocp.shooting.engine.polishing import polished

        store, options = self.store, self.options
        touched = (*store.path, store.held.lam, store.held.slope, store.settings, store.state)
        kept = [array.copy() for array in touched]

        def back() -> None:
            for array, old in zip(touched, kept, strict=True):
                array[:] = old

        try:
            found = polished(self.horizon, store, options.hessian != "gauss_newton", options.polish_tolerance)
        except ProblemError:  # it cannot be evaluated where it stands
            found = None
        except KeyboardInterrupt:
            back()
            raise
        if found is None or found.status is not PolishStatus.SOLVED or not self._convex():
            back()
            self._expand()
            return None
        for row in found.log[1:]:
            self.log.append({
                "iteration": self.first + len(self.log), "gradient": row["stationarity"], "violation": row["feasibility"],
                "gap": row["gap"], "step": row["length"], "trials": row["trials"], "newton": 1.0,
                "seconds": time.perf_counter() - self.began})
        self.log[-1]["cost"] = self.objective
        self.polished = True
        if self.progress is not None:
            for row in self.log[1 - len(found.log):] if len(found.log) > 1 else ():
                self.progress(row)
        return Status.CONVERGED, (f"polished: projected gradient {found.residuals.stationarity:.3g}, largest violation "
                                  f"{found.residuals.feasibility:.3g}, cost {self.objective:.9g}")

    def _convex(self) -> bool:
        """Whether the path is a minimum to second order: the sweep succeeds with next to no regularisation."""
        state = self.store.state
        state[r.MU], state[r.BLEND] = self.options.regularisation_min, 0.0
        return int(it.sweep(self.store.engine)[2]) < 0

    def sweep_again(self) -> None:
        """The policy of the path, if the search stopped before it was made."""
        store, state = self.store, self.store.state
        if not self.swept and np.isfinite(state[r.COST]) and np.isfinite(state[r.GRADIENT]):
            state[r.BLEND] = it.MOST_BLENDS  # nobody softens the Hessians any more: regularise as much as it takes
            it.sweep(store.engine)

    def _report_first(self) -> None:
        s = self.store.state
        s[r.PLAIN] = self.objective
        self.rows[0] = self.objective, np.nan, s[r.GRADIENT], s[r.VIOLATION], s[r.GAP], 0.0, s[r.MU], 0.0
        self._report(1)

    def _report(self, rows: int) -> None:
        """Take rows into the log, all of them before anyone is told: whoever interrupts loses none."""
        now = time.perf_counter() - self.began
        last = self.log[-1]["seconds"] if self.log else now
        for row in range(rows):  # a batch has one clock: its iterations share the time
            self._log(row, last + (now - last) * (row + 1) / rows)
        if self.progress is not None:
            for row in range(rows):
                self.progress(self.log[row - rows])

    def _log(self, row: int, seconds: float) -> None:
        numbers = dict(zip(it.COLUMNS, (float(value) for value in self.rows[row]), strict=True))
        if np.isnan(numbers["expected"]):
            del numbers["expected"]
        if self.options.shooting in ("single", "open"):
            del numbers["gap"]
        if self.multipliers.any_rows:
            numbers["penalty"] = self.penalty
            numbers["outer"] = float(self.schedule.updates if self.schedule is not None else 0)
        else:
            del numbers["violation"]
        self.log.append({"iteration": self.first + len(self.log), **numbers, "seconds": seconds})


