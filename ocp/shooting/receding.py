"""A receding horizon: one problem kept in memory, moved along in time and improved by a fixed number of iterations per measurement.

One call of ``iterate`` is one compiled call: the plan is followed from the measured state with its feedback gains, then expanded,
swept and searched (Diehl et al. 2005, real-time iterations, with a rollout in place of the linear prediction). Costs and
constraints see absolute time.

Steps that look back (bdf2) begin anew in every horizon: what was measured before counts for nothing, the first step from a measured
state is one of sdirk2. Where the state between later knots is fed back, the state before is taken to miss the plan by as much.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ocp.errors import ProblemError
from ocp.problem import Finding, Problem, Status
from ocp.shooting.engine import records
from ocp.shooting.ilqr import prepare
from ocp.shooting.options import ILQROptions
from ocp.shooting.written_guess import write_guess

FOLLOWING = 0
"""Code of ``iterate`` for a plan that was improved, or could not be any more."""


class Receding:
    """The horizon of a problem with one phase of fixed duration, ready for the next measurement; not for several threads.

    t [N+1]: knot times relative to the first; x [N+1, nx], u [N, nu]: the plan; K [N, nu, ndx]: gains by the present state,
    du = K dx.
    """

    def __init__(self, problem: Problem, options: ILQROptions | None = None):
        """Compile and allocate. Raises ProblemError for several phases or anything free beside controls, and what ``prepare``
        raises."""
        from ocp.shooting.engine import iterate as it
        from ocp.shooting.engine import pursue

        self.options = options or ILQROptions()
        # steps have deadlines: code is tuned before the first one
        self.program = prepare(problem, replace(self.options, kernels="tuned") if self.options.kernels == "auto" else self.options)
        horizon, store = self.program.horizon, self.program.store
        if len(horizon.legs) != 1 or len(horizon.chosen) or problem.linkages:
            raise ProblemError("a receding horizon needs one phase of fixed duration and parameters, its whole start state, and no "
                               "linkages", where=f"problem {problem.name!r}")
        system = horizon.legs[0].stretch.phase.system
        self._it, self._pursue, self._store = it, pursue, store
        self.nx, self.nu, self.ndx = system.nx, system.nu, system.space.ndx
        self.t = horizon.t.copy()
        self.step = float(horizon.h[0])
        self.x, self.u, self.K = store.path.x[:, :self.nx], store.path.u, store.policy.K[:, :, :self.ndx]
        self._measured, self._log = np.zeros((1, store.path.x.shape[1])), np.zeros((64, len(it.COLUMNS)))
        self._applied = np.zeros(self.nu)
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
        solver, multipliers included. Returns how that ended."""
        from ocp.shooting.engine.search import Search

        store, horizon = self._store, self.program.horizon
        records.reset(store, self.options)
        store.policy.K[:] = 0.0
        write_guess(horizon, replace(self.options, shooting="single"), store.path)
        store.plan.t[:] = horizon.t + t0
        store.path.x[0, :self.nx] = x0
        options = replace(self.options, max_iterations=iterations)
        return Search(horizon, options, store).run()

    def shift(self, seconds: float) -> None:
        """Move the plan on by a time not longer than the horizon. Raises ValueError for others."""
        steps = seconds / self.step
        if not 0 <= steps <= len(self.u):
            raise ValueError(f"cannot shift a horizon of {self.t[-1]:g} s by {seconds:g} s")
        whole = int(np.floor(steps + 1e-9))
        part = max(0.0, steps - whole)
        if not self._pursue.shift(self._store, whole, part if part > 1e-9 else 0.0, float(seconds)):
            raise ArithmeticError("a state of the plan could not be interpolated")

    def iterate(self, x0: np.ndarray, iterations: int = 1) -> int:
        """Take over the measured state x0 [nx] and improve the plan. Returns 0, or a code whose words are ``message``."""
        self._measured[0, :self.nx] = x0
        self._code = int(self._pursue.pursue(self._store, self._measured, self._log, iterations))
        return FOLLOWING if self._code in (self._it.RUNNING, self._it.STUCK) else self._code

    @property
    def message(self) -> str:
        """What the last ``iterate`` had to say."""
        words = {self._it.RUNNING: "improved", self._it.STUCK: "no step decreases the cost: the plan stays",
                 self._it.INDEFINITE: "no regularisation makes the quadratic model convex",
                 self._it.BROKEN: "the plan cannot be followed from the measured state, or a derivative is not finite"}
        return words[self._code]

    def control(self, since: float, x: Any) -> np.ndarray:
        """Control [nu] at the time ``since`` [s] after the first knot for the state x [nx]: held control plus feedback, within
        bounds."""
        k = min(max(int(since / self.step + 1e-9), 0), len(self.u) - 1)
        self._measured[0, :self.nx] = x
        if not self._pursue.feedback(self._store, k, min(1.0, max(0.0, since / self.step - k)), self._measured, self._applied):
            raise ArithmeticError("the distance to the plan could not be evaluated")
        return self._applied.copy()
