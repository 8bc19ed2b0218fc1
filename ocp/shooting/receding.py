"""A receding horizon: one problem kept in memory, moved along in time and improved by a fixed number of iterations per measurement.

One call of ``iterate`` is one compiled call: the plan is followed from the measured state with its feedback gains, then expanded,
swept and searched (Diehl et al. 2005, real-time iterations, with a rollout in place of the linear prediction). Costs and
constraints see absolute time.

Where phases hold by a timetable (``ocp.shooting.stages.by_time``), stages change their kinds as the horizon moves.

Steps that look back (bdf2) begin anew in every horizon: what was measured before counts for nothing, the first step from a measured
state is one of sdirk2. Where the state between later knots is fed back, the state before is taken to miss the plan by as much.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ocp.errors import ProblemError
from ocp.problem import Finding, Problem, Status
from ocp.shooting.engine import records
from ocp.shooting.ilqr import prepare
from ocp.shooting.options import ILQROptions
from ocp.shooting.stages.by_time import TimedProblem
from ocp.shooting.written_guess import write_guess

FOLLOWING = 0
"""Code of ``iterate`` for a plan that was improved, or could not be any more."""
LOST = (Status.NOT_A_NUMBER, Status.DIVERGED)
CLOSING = 50
"""Iterations in which FDDP closes the gaps of a start that cannot be followed, at least."""
MARGIN = 1e-4
"""Slack of a row, in its unit, below which its barrier is quadratic: plans are closer to their constraints the smaller it is, and
move in the shorter steps (results/benchmarks/controller.md)."""


class Receding:
    """The horizon of a problem with one phase of fixed duration, ready for the next measurement; not for several threads.

    t [N+1]: knot times relative to the first; x [N+1, nx], u [N, nu]: the plan; K [N, nu, ndx]: gains by the present state,
    du = K dx.
    """

    def __init__(self, problem: Problem, options: ILQROptions | None = None, barrier: float = 1e-3):
        """Compile and allocate. barrier: weight of the logarithmic barrier, in units of the cost, that holds inequalities and cones
        in ``iterate``; 0: by multipliers. Raises ProblemError for several phases or anything free beside controls, and what
        ``prepare`` raises."""
        from ocp.shooting.engine import iterate as it
        from ocp.shooting.engine import pursue

        self.options, self.barrier = options or ILQROptions(), barrier
        # steps have deadlines: code is tuned before the first one
        self.program = prepare(problem, replace(self.options, kernels="tuned") if self.options.kernels == "auto" else self.options)
        horizon, store = self.program.horizon, self.program.store
        if len(horizon.legs) != 1 or len(horizon.chosen) or problem.linkages:
            raise ProblemError("a receding horizon needs one phase of fixed duration and parameters, its whole start state, and no "
                               "linkages", where=f"problem {problem.name!r}")
        system = horizon.legs[0].stretch.phase.system
        self._it, self._pursue, self._store = it, pursue, store
        self._table = problem.table if isinstance(problem, TimedProblem) else None
        self._horizon = horizon
        self.nx, self.nu, self.ndx = system.nx, system.nu, system.space.ndx
        self.t = horizon.t.copy()
        self.step = float(horizon.h[0])
        self.x, self.u, self.K = store.path.x[:, :self.nx], store.path.u, store.policy.K[:, :, :self.ndx]
        self._measured, self._seen = np.zeros((2, 1, store.path.x.shape[1]))
        self._log = np.zeros((64, len(it.COLUMNS)))
        self._applied, self._pending = np.zeros(self.nu), False
        self.parameters = store.plan.p  # [N+1, np], of every knot
        self.reset(horizon.start, 0.0)

    @property
    def time(self) -> float:
        """Absolute time of the first knot [s]."""
        return float(self._store.plan.t[0])

    @property
    def cost(self) -> float:
        """Cost of the plan, with the augmented terms of constraints."""
        from ocp.shooting.engine import record

        return float(self._store.state[record.COST])

    @property
    def violation(self) -> float:
        """Largest violation of a hard constraint along the plan that was last expanded."""
        from ocp.shooting.engine import record

        return float(self._store.state[record.VIOLATION])

    def reset(self, x0: np.ndarray, t0: float, iterations: int = 0) -> tuple[Status, Finding]:
        """Start again from the guess of the phase: state x0 [nx] at absolute time t0 [s], then up to ``iterations`` of the whole
        solver, multipliers included; where the controls of the guess cannot be followed, from the state at rest in all knots, whose
        gaps are closed by FDDP. Returns how that ended."""
        from ocp.shooting.engine import record

        found, store = self._begin(x0, t0, replace(self.options, max_iterations=iterations), False), self._store
        if found[0] in LOST:
            attempt = replace(self.options, shooting="feasible", max_iterations=max(iterations, CLOSING))
            again = self._begin(x0, t0, attempt, True)
            if store.state[record.GAP] <= self.options.tuning.gap_tolerance and again[0] not in LOST:
                found = again
                store.settings[record.SHOOTING] = record.SINGLE
                store.path.gap[:] = store.state[record.GAP] = 0.0
        store.conset.barrier, store.conset.margin = self.barrier * max(1.0, float(store.settings[record.UNIT])), MARGIN
        return found

    def _begin(self, x0: np.ndarray, t0: float, options: ILQROptions, at_rest: bool) -> tuple[Status, Finding]:
        from ocp.shooting.engine.search import Search

        store, horizon = self._store, self.program.horizon
        self._pending = False
        records.reset(store, options)
        store.policy.K[:] = 0.0
        write_guess(horizon, replace(options, shooting="feasible" if at_rest else "single"), store.path)
        store.plan.t[:] = horizon.t + t0
        if self._table is not None:
            self._change(store.plan.which)
        store.path.x[:len(horizon.t) if at_rest else 1, :self.nx] = x0
        return Search(self._horizon, options, store, from_guess=at_rest).run()

    def shift(self, seconds: float) -> None:
        """Move the plan on by a time not longer than the horizon. Raises ValueError for others."""
        moved, table, store = self._moved(seconds), self._table, self._store
        before = [array.copy() for array in (store.path.u, store.policy.K, store.plan.which, store.plan.t)] if table else []
        if not self._pursue.shift(store, *moved):
            raise ArithmeticError("a state of the plan could not be interpolated")
        if table is None:
            return
        (u, K, old, t), (whole, part, _), plan = before, moved, store.plan
        self._change(old[np.minimum(np.arange(len(t)) + whole, len(t) - 1)])
        # controls and gains of a step are those of a step of its phase: a mixture of two phases fits neither
        for k, m in table.sources(old[:-1], plan.which[:-1], (whole, part), (t[:-1], plan.t[:-1])):
            store.path.u[k], store.policy.K[k] = u[m], K[m] if k + whole + (part > 0.0) < len(u) else 0.0

    def _change(self, came: np.ndarray) -> None:
        """Kinds of the stages by the time at which they now are; multipliers come from stages of these kinds, and begin anew where
        theirs are others."""
        assert self._table is not None
        plan, conset = self._store.plan, self._store.conset
        self._horizon = replace(self._horizon, which=self._table.kinds(plan.t, self.step))
        new = came != self._horizon.which
        conset.lam[new] = 0.0
        conset.mu[new] = conset.mu[-1].max()  # as hard as it has become
        plan.which[:] = self._horizon.which
        holds = self._horizon.holds()
        conset.holds[:, :holds.shape[1]] = holds

    def _moved(self, seconds: float) -> tuple[int, float, float]:
        """(whole steps, fraction of one, seconds)."""
        steps = seconds / self.step
        if not 0 <= steps <= len(self.u):
            raise ValueError(f"cannot shift a horizon of {self.t[-1]:g} s by {seconds:g} s")
        whole = int(math.floor(steps + 1e-9))
        part = max(0.0, steps - whole)
        return whole, part if part > 1e-9 else 0.0, float(seconds)

    def iterate(self, x0: np.ndarray, iterations: int = 1) -> int:
        """Take over the measured state x0 [nx] and improve the plan. Returns 0, or a code whose words are ``message``."""
        self._measured[0, :self.nx], self._pending = x0, False
        return self._answer(self._pursue.pursue(self._store, self._measured, self._log, iterations))

    def prepare(self, seconds: float) -> int:
        """Take the step from the state that ``react`` was given, move the plan on by a time, expand and sweep about what it
        predicts: all of an iteration that needs no measurement. Returns as ``iterate``."""
        pending, self._pending = self._pending, False
        if self._table is not None:  # kinds change between the step and what is linearised next
            code = self._answer(self._pursue.prepare(self._store, self._measured, self._log, True, 0, 0.0, 0.0)) if pending else 0
            self.shift(seconds)
            if code:
                return code
            pending, seconds = False, 0.0
        return self._answer(self._pursue.prepare(self._store, self._measured, self._log, pending, *self._moved(seconds)))

    def react(self, x: Any) -> np.ndarray:
        """After ``prepare``: the control [nu] for the state x [nx], ``u + k + K dx`` within bounds; a view of what the next
        overwrites."""
        self._measured[0, :self.nx] = x
        self._pending = bool(self._pursue.react(self._store, self._measured, self._applied))
        if not self._pending:
            raise ArithmeticError("the distance to the plan could not be evaluated")
        return self._applied

    def _answer(self, ending: int) -> int:
        self._code = int(ending)
        return FOLLOWING if self._code in (self._it.RUNNING, self._it.STUCK) else self._code

    @property
    def message(self) -> str:
        """The report of the last ``iterate``."""
        words = {self._it.RUNNING: "improved", self._it.STUCK: "no step decreases the cost: the plan stays",
                 self._it.INDEFINITE: "no regularisation makes the quadratic model convex",
                 self._it.BROKEN: "the plan cannot be followed from the measured state, or a derivative is not finite"}
        return words[self._code]

    def control(self, since: float, x: Any) -> np.ndarray:
        """Control [nu] at the time ``since`` [s] after the first knot for the state x [nx]: constant control plus feedback, within
        bounds."""
        k = min(max(int(since / self.step + 1e-9), 0), len(self.u) - 1)
        self._seen[0, :self.nx] = x
        if not self._pursue.feedback(self._store, k, min(1.0, max(0.0, since / self.step - k)), self._seen, self._applied):
            raise ArithmeticError("the distance to the plan could not be evaluated")
        return self._applied.copy()
