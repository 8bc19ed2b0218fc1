"""A receding horizon as an object: the next control from a measured state, in a loop of one's own.

At a sampling instant t the plan of the step before is moved on to t and improved from the measured state by a fixed number of
iterations (real-time iteration: Diehl, Bock, Schloeder 2005, "A real-time iteration scheme for nonlinear optimization in optimal
feedback control"; here a Riccati sweep is one iteration). ``step`` does it at once. ``prepare`` and ``feedback`` do it in two
parts: all that needs no measurement before it arrives, and then one product with the gains. Costs and constraints are functions of
absolute time, so knot 0 of the plan lies at t.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from dynamics.errors import near
from ocp.errors import ProblemError
from ocp.methods import method
from ocp.mpc.options import MPCOptions, horizon_problem
from ocp.mpc.reference import References, Source, source_of
from ocp.mpc.step import Plan, StepReport, StepStatus
from ocp.problem import Problem, Status
from ocp.reductions import with_dropped_conditions
from ocp.shooting.options import ILQROptions
from ocp.shooting.stages.by_time import arriving

Array = np.ndarray
State = Array | Mapping[str, float]
Make = Callable[[Problem, ILQROptions], Any]
Safe = str | Callable[[float, Array], Array]
SAFE = ("hold", "plan")
PATIENCE = 2
"""Failed steps after which the solver begins again from the guess; until then it tries with the plan that it has."""
SLACK = 1e-9  # of a sampling period: a knot this near has been reached


class Controller:
    """A receding horizon, ready for the next measurement; for one thread at a time, whichever it is.

    After ``reset(x, t)`` every sampling period ``u = step(x, t)``, or ``prepare()`` and, with the measurement, ``u = feedback(x)``.
    A state is a vector [nx], or a mapping of names of states to numbers; times are absolute [s]. Events are data: ``report``.

    Where a step has no plan to act by (state or reference not finite, time that runs backwards, a solver that failed) a control by
    stated policy acts. safe: "hold", the last control; "plan", the last plan as time goes on; or a function (t, x) -> u [nu], whose
    values are moved into the bounds. After two failures of the solver it begins again from the guess.
    """

    def __init__(self, problem: Problem, options: MPCOptions | None = None, solver: ILQROptions | None = None, *,
                 safe: Safe = "hold", receding: Make | None = None, names: Mapping[str, str] | None = None):
        """problem: one horizon, as the solver takes it (``controller`` makes it of any). receding: makes the solver from problem
        and options, default ``ocp.shooting.receding.Receding``. names: other names of states. Raises ProblemError,
        UnsupportedError."""
        if not callable(safe) and safe not in SAFE:
            raise ProblemError(f"no policy named {safe!r}{near(str(safe), SAFE)}", where="controller")
        self.options, self.solver_options, self.safe = options or MPCOptions(), solver or ILQROptions(), safe
        self.phase = with_dropped_conditions(problem).phase
        if self.options.period > self.phase.duration.guess:
            raise ProblemError(f"a sampling period ({self.options.period:g} s) is longer than the horizon "
                               f"({self.phase.duration.guess:g} s)", where="mpc")
        if self.options.arrives(self.phase):
            problem = arriving(problem)
        self.horizon = (receding or partial(_ours, barrier=self.options.barrier))(problem, self.solver_options)
        system = self.phase.system
        self._names = {name: i for i, name in enumerate(system.space.names)}
        self._names |= {name: self._names[other] for name, other in (names or {}).items()}
        self._references = References(self.phase, getattr(self.horizon, "parameters", None), self.horizon.t)
        self._lower, self._upper = self.phase.control_bounds.arrays
        self._floor, self._ceiling = self.phase.state_bounds.arrays
        self._bounded = bool(self.phase.state_bounds.bounded.any())
        self._knots = np.ascontiguousarray(self.horizon.t[:-1]) - SLACK * self.options.period
        self._length = float(self.horizon.t[-1])
        self._slack = SLACK * self.options.period
        self._x, self._held = np.full(system.nx, np.nan), np.zeros(system.nu)
        self._begins = self._next = self.time = 0.0
        self.failing = 0  # steps since the solver last succeeded
        self.code = 0
        self.status = StepStatus.NOT_BEGUN
        self.seconds = 0.0

    # ---- in the loop ------------------------------------------------------------------------------------------------
    def reset(self, x: State, t: float = 0.0, iterations: int | None = None) -> None:
        """Begin at the state x at time t from the guess, with so many iterations of the whole solver (default: those of the
        options). Raises ProblemError where it cannot."""
        state = self._state(x)
        if not (np.isfinite(state).all() and math.isfinite(t)):
            raise ProblemError("the state or the time is not finite", where="mpc")
        self._x[:] = state
        if not self._references.refresh(t):
            raise ProblemError("a reference is not finite", where="mpc")
        status, ending = self.horizon.reset(self._x, t, self.options.start_iterations if iterations is None else iterations)
        if status in (Status.NOT_A_NUMBER, Status.DIVERGED):
            raise ProblemError(f"the solver cannot begin from the guess: {ending}", where="mpc")
        # every compiled function once, so that no step pays for loading it
        self.horizon.iterate(self._x, 1)
        self.horizon.shift(0.0)
        self.horizon.control(0.0, self._x)
        self._begins = self._next = self.time = t
        self.failing, self.code, self.status = 0, 0, StepStatus.RESTARTED
        self._keep()

    def step(self, x: State, t: float | None = None, out: Array | None = None) -> Array:
        """The control [nu] for the state x measured at time t, default one sampling period after the last; into ``out`` if
        given."""
        began = time.perf_counter_ns()
        self.update(x, t)
        u = self.control(self.time, self._x)
        self.seconds = (time.perf_counter_ns() - began) * 1e-9
        if out is None:
            return u.copy() if u is self._held else u
        out[:] = u
        return out

    def update(self, x: State, t: float | None = None) -> int:
        """Improve the plan from the state x at time t, without acting. Returns 0, or the code of the solver or -1 where it
        failed."""
        now = self._arrive(x, t)
        if self.status.safe:
            return self._end(now, -1)
        if self.failing >= PATIENCE or now - self._begins > self._length:
            self.horizon.reset(self._x, now)
            self._begins, self.status = now, StepStatus.RESTARTED
        else:
            self._shift(now)
        return self._end(now, int(self.horizon.iterate(self._x, self.options.iterations)))

    def prepare(self, t: float | None = None) -> None:
        """The part of the step at time t, default the next, that needs no measurement: take up the last one, move the plan on,
        linearise about it, sweep. For ``feedback``, which then answers at once."""
        now = self._next if t is None else t
        if self.failing >= PATIENCE:
            self.horizon.reset(self._x, now)
            self._begins = now
        ahead = now - self._begins
        self.code = -1
        if -self._slack <= ahead <= self._length and self._references.refresh(now):
            self.code = int(self.horizon.prepare(self._ahead(now)))
            self._begins = self.horizon.time
        self._next = now

    def feedback(self, x: State) -> Array:
        """The control [nu] for the state x, measured at the time that was prepared for: that of the quadratic model, within
        bounds."""
        began = time.perf_counter_ns()
        now = self._arrive(x, None)
        if self.code < 0:
            self.status = StepStatus.NOT_PREPARED
        if not self.status.safe and not self.code:
            self._held[:] = self.horizon.react(self._x)
        self._end(now, self.code or (-1 if self.status.safe else 0), keep=True)
        u = self._safe(now, self._x) if self.status.safe else self._held
        self.seconds = (time.perf_counter_ns() - began) * 1e-9
        return u.copy()

    def control(self, t: float, x: Array | None = None) -> Array:
        """The control [nu] that acts at time t after the last update: the plan's, with feedback by the gains from the state x [nx]
        if the options ask for it, or the safe one."""
        if self.status.safe:
            return self._safe(t, self._x if x is None else x)
        since = t - self._begins
        if self.options.feedback and x is not None:
            u = np.array(self.horizon.control(since, x))
        elif since <= 0.0:
            return self._held
        else:
            u = self._planned(since)
        return u if math.isfinite(u.sum()) else self._held

    # ---- what there is to know ----------------------------------------------------------------------------------------
    @property
    def report(self) -> StepReport:
        """The last step as data."""
        outside = np.maximum(self._floor - self._x, self._x - self._ceiling) if self._bounded else np.zeros(0)
        return StepReport(
            self.status, self.time, self.seconds, self.options.iterations, self.code, float(self.horizon.cost),
            float(self.horizon.violation), self.horizon.message if self.code > 0 else "",
            {self.phase.system.space.names[i]: float(outside[i]) for i in np.flatnonzero(outside > 0.0)},
            self._references.outside(), lambda: self.plan)

    @property
    def plan(self) -> Plan:
        """The plan: a copy."""
        system = self.phase.system
        values = np.array(system.parameter_values, float)
        if self._references.parameters is not None:
            values = self._references.parameters[0, :len(values)].copy()
        return Plan(self.phase, self._begins + self.horizon.t, np.array(self.horizon.x), np.array(self.horizon.u), values)

    @property
    def gains(self) -> Array | None:
        """K [N, nu, ndx] of the plan, du = K dx; None of a solver that has none. A copy."""
        return np.array(self.horizon.K) if hasattr(self.horizon, "K") else None

    # ---- what may change ----------------------------------------------------------------------------------------------
    def set(self, **parameters: float) -> None:
        """Values of parameters of the problem, from the next step on. Raises ProblemError for unknown names."""
        for name, value in parameters.items():
            self._references.put(name, source_of(name, float(value)))

    def reference(self, motion: Any = None, /, **sources: Source) -> None:
        """Set parameters along the horizon, from the next step on: ``reference(x_ref=lambda t: np.sin(t))``.

        A source is a number, a function of times [k] (or of one time), a pair (times, values) read linearly, or a value for every
        knot [N+1]. motion: a solved one (a trajectory, a result): parameters NAME_ref follow its state or control NAME; of others
        say which: ``reference(result, height="z")``. Each knot has its value, which holds until the next. Raises ProblemError.
        """
        self._references.take(motion, sources)

    # ---- parts of a step ----------------------------------------------------------------------------------------------
    def _state(self, x: State) -> Array:
        if isinstance(x, Mapping):
            found = np.full(self._x.size, np.nan)
            for name, value in x.items():
                if name not in self._names:
                    raise ProblemError(f"no state named {name!r}{near(name, list(self._names))}", where="mpc")
                found[self._names[name]] = value
            given = {self._names[name] for name in x}
            if missing := [name for i, name in enumerate(self.phase.system.space.names) if i not in given]:
                raise ProblemError(f"the state lacks {', '.join(missing)}", where="mpc")
            return found
        found = np.asarray(x, float)
        if found.shape != self._x.shape:
            raise ProblemError(f"the state has shape {found.shape}, expected {self._x.shape}", where="mpc")
        return found

    def _arrive(self, x: State, t: float | None) -> float:
        """Take in the measurement and the time, and say in ``status`` whether they allow a step."""
        if type(x) is not np.ndarray or x.shape != self._x.shape:
            x = self._state(x)
        now = self._next if t is None else float(t)
        if self.status is StepStatus.NOT_BEGUN:
            raise ProblemError("call reset(x, t) before the first step", where="mpc")
        self.status = StepStatus.SOLVED
        if not math.isfinite(x.sum()):
            self.status = StepStatus.STATE_NOT_FINITE
        elif not now >= self.time - self._slack:  # or NaN
            self.status = StepStatus.TIME_REVERSED
            return self.time
        elif self._references.moving and not self._references.refresh(now):
            self.status = StepStatus.REFERENCE_NOT_FINITE
        elif self._bounded and ((x < self._floor).any() or (x > self._ceiling).any()):
            self.status = StepStatus.STATE_OUTSIDE_BOUNDS
        self._x[:] = x
        return now

    def _ahead(self, now: float) -> float:
        """How far the plan is to be moved on [s]: exactly one period, where it is nearly one."""
        ahead = now - self._begins
        return self.options.period if abs(ahead - self.options.period) <= self._slack else max(0.0, ahead)

    def _shift(self, now: float) -> None:
        if now - self._begins > self._slack:
            self.horizon.shift(self._ahead(now))
            self._begins = now

    def _end(self, now: float, code: int, keep: bool = False) -> int:
        self.code, self.time, self._next = code, now, now + self.options.period
        if code > 0:
            self.failing += 1
            self.status = StepStatus.SOLVER_FAILED
        elif code == 0:
            self.failing = 0
            if not keep:
                self._keep()
        return code

    def _keep(self) -> None:
        np.clip(self.horizon.u[0], self._lower, self._upper, out=self._held)

    def _planned(self, since: float) -> Array:
        k = max(0, int(np.searchsorted(self._knots, since, side="right")) - 1)
        return np.clip(self.horizon.u[k], self._lower, self._upper)

    def _safe(self, t: float, x: Array) -> Array:
        if callable(self.safe):
            u = np.clip(np.asarray(self.safe(t, x), float), self._lower, self._upper)
            if u.shape != self._held.shape:
                raise ProblemError(f"the safe control has shape {u.shape}, expected {self._held.shape}", where="controller")
        else:
            u = self._planned(max(0.0, t - self._begins)) if self.safe == "plan" else self._held
        return u if np.isfinite(u).all() else self._held


def controller(problem: Problem, options: MPCOptions | None = None, solver: ILQROptions | None = None, *, safe: Safe = "hold",
               names: Mapping[str, str] | None = None) -> Controller:
    """The controller of a problem as it stands; see :class:`Controller`."""
    options, solver = options or MPCOptions(), solver or ILQROptions()
    return Controller(method("ilqr").reduce(horizon_problem(problem, options), solver), options, solver, safe=safe, names=names)


def _ours(problem: Problem, options: ILQROptions, barrier: float) -> Any:
    from ocp.shooting.receding import Receding  # loads Numba

    return Receding(problem, options, barrier)
