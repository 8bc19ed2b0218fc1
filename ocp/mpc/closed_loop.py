"""The loop: measure, solve, act, for as long as asked. Only the solver is on the clock.

At sample i (time t_i = i / rate) a controller (``ocp.mpc.controller``) improves its plan from the measured state; knot 0 of its
horizon lies at t_i, or one period later where it predicts over its own delay.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from ocp.errors import ProblemError
from ocp.estimation.model import EstimateSpec
from ocp.integrators import looking_back
from ocp.interrupts import Activity, asked, check, time_is_up
from ocp.mpc import evaluate
from ocp.mpc.controller import Controller, Make
from ocp.mpc.judge import Points, judged
from ocp.mpc.observer import Observer
from ocp.mpc.options import MPCOptions, Tracked, horizon_problem
from ocp.mpc.pushes import recoveries
from ocp.mpc.result import ClosedLoop, Ending, step_times
from ocp.plants import Disturbances, IntegratedPlant, Plant, PlantSpec
from ocp.plants.integrated import INTEGRATED
from ocp.plants.table import plant_of
from ocp.problem import At, Cost, Problem, System
from ocp.reductions.algebraic_elimination import composer, explicit_system
from ocp.reductions.algebraic_equations import state_equations
from ocp.shooting.options import ILQROptions
from ocp.thresholds import CLOSED_LOOPS

Progress = Callable[[Mapping[str, float]], None]
REPORT_EVERY = 0.1  # s of wall time


def run(problem: Problem, options: MPCOptions, *, solver: ILQROptions | None = None, plant: PlantSpec | Plant | None = None,
        tracked: Sequence[Tracked] = (), progress: Progress | None = None, receding: Make | None = None,
        broken: float = CLOSED_LOOPS.broken, estimate: EstimateSpec | None = None) -> ClosedLoop:
    """Run a problem in closed loop from the start state of its phase; the arguments are those of :func:`prepare`."""
    return prepare(problem, options, solver=solver, plant=plant, tracked=tracked, progress=progress, receding=receding,
                   broken=broken, estimate=estimate).run()


def prepare(problem: Problem, options: MPCOptions, *, solver: ILQROptions | None = None, plant: PlantSpec | Plant | None = None,
            tracked: Sequence[Tracked] = (), progress: Progress | None = None, receding: Make | None = None,
            broken: float = CLOSED_LOOPS.broken, estimate: EstimateSpec | None = None) -> Loop:
    """A closed loop with everything compiled, for several runs.

    plant: what it is tried on, our integrators by a spec or anything with the face of ``ocp.plants.Plant`` (stepped once a
    sample, running costs by the trapezium rule); default: the model itself. progress: gets {time, duration, median, largest,
    missed} ten times a second. receding: makes the solver from problem and options, default ``ocp.shooting.receding.Receding``;
    any other with its face will do. broken: violation from which a constraint is broken, as part of the range that its row moves
    through. estimate: sensors and an estimator, by which the controller acts. Ctrl-C hands back what ran. Raises ProblemError for
    what cannot run so, UnsupportedError for what the solver cannot enforce.
    """
    given, solver = plant if isinstance(plant, PlantSpec) else None, solver or ILQROptions()
    made, spec, tracked = _reduced(horizon_problem(problem, options), options, solver, given, tracked)
    if plant is not None and given is None:
        spec = replace(spec, substeps=1, changed=(f"the plant is a {type(plant).__name__}",))
    own = None if isinstance(plant, PlantSpec) else plant
    observer = None if estimate is None else Observer(estimate)
    return Loop(made, options, solver, spec, tracked, progress=progress, receding=receding, plant=own, broken=broken,
                observer=observer)


def _reduced(problem: Problem, options: MPCOptions, solver: ILQROptions, plant: PlantSpec | None, tracked: Sequence[Tracked]
             ) -> tuple[Problem, PlantSpec, Sequence[Tracked]]:
    """The reduced problem of the solver; plant and what is tracked as explicit functions, each with its own equations solved."""
    from ocp.methods import method  # whole-body control takes records of this package and solves nothing

    given, made = state_equations(problem).phase, method("ilqr").reduce(problem, solver)
    spec = plant or PlantSpec(made.phase.system)
    if (period := made.phase.system.period) is not None:
        if abs(options.period - period) > 1e-9 * period:
            raise ProblemError(f"must be {1 / period:.9g}: the system is in discrete time, with a step every {period:g} s, and a "
                               "closed loop samples at each", where="mpc.rate")
        if spec.system.period is not None:
            spec = replace(spec, substeps=1)
    if spec.system.residual is not None and spec.kind == INTEGRATED:
        spec = replace(spec, system=explicit_system(replace(given, system=spec.system)))
    if given.system.residual is not None:
        plain = composer(given)
        tracked = [replace(one, value=plain(one.value), reference=plain(one.reference)) for one in tracked]
    return made, spec, tracked


class Loop:
    """Solver, plant, and the arrays of a run, which are filled as it goes."""

    def __init__(self, problem: Problem, options: MPCOptions, solver_options: ILQROptions, spec: PlantSpec,
                 tracked: Sequence[Tracked], *, progress: Progress | None, receding: Make | None, plant: Plant | None,
                 broken: float, observer: Observer | None):
        began = time.perf_counter()
        self.controller = Controller(problem, options, solver_options, receding=receding)
        compiled = time.perf_counter()
        phase = self.controller.phase
        system = phase.system
        _check_plant(system, spec)
        self.problem, self.phase, self.options, self.spec, self.tracked = problem, phase, options, spec, tracked
        self.solver_options, self.progress, self.broken, self.observer = solver_options, progress, broken, observer
        self.costs = [cost for cost in phase.costs if cost.at is At.PATH]
        self.foreign, self.disturbances = plant, spec.disturbances
        self.plant: Plant = plant or plant_of(spec, self.costs, solver_options.kernels)
        self.prepared = {"solver": compiled - began, "plant": time.perf_counter() - compiled}
        # the model over one period, where the solver predicts over its delay
        two = looking_back(system, solver_options.integrator)
        steps = solver_options.integrator if two is None else two.first
        self.model = IntegratedPlant(PlantSpec(system, steps, 1), kernels=solver_options.kernels) \
            if options.delay == "predicted" else None

    def run(self, start: np.ndarray | None = None, disturbances: Disturbances | None = None) -> ClosedLoop:
        """One run from a state [nx], default that of the phase, with other disturbances than the plant's if given."""
        if disturbances is not None:
            self.disturbances = disturbances
        if disturbances is not None and self.foreign is None:
            self.plant = plant_of(replace(self.spec, disturbances=disturbances), self.costs, self.solver_options.kernels)
        self._allocate(start)
        return self._run()

    def _allocate(self, start: np.ndarray | None) -> None:
        phase, options, spec = self.phase, self.options, self.spec
        n, m, system = options.steps, spec.substeps, phase.system
        assert phase.start is not None  # the solver has refused a phase without one
        self.t = np.arange(n + 1) / options.rate
        self.fine_t = np.append((self.t[:-1, None] + np.arange(m) * (options.period / m)).ravel(), self.t[-1])
        self.fine_x, self.fine_u = np.full((n * m + 1, system.nx), np.nan), np.full((n * m, system.nu), np.nan)
        self.fine_x[0] = phase.start.value if start is None else start
        self.plant.reset(self.fine_x[0])
        self.measured = np.full((n, system.nx), np.nan)
        if self.observer is not None:
            self.observer.begin(self.controller, n, phase.start.value, self.disturbances.seed)
        self.seconds, self.processor, self.codes = np.zeros(n), np.zeros(n), np.zeros(n, dtype=np.int64)
        self.solver_cost, self.solver_violation = np.full(n, np.nan), np.full(n, np.nan)
        known = options.delay == "none" and hasattr(self.controller.horizon, "K")
        self.gains = np.zeros((n if known else 0, system.nu, system.space.ndx))
        self.done = 0
        self.messages: dict[str, int] = {}

    def _run(self) -> ClosedLoop:
        ending, message = Ending.FINISHED, ""
        try:
            with _no_collection():
                self._start()
                step = self._step if self.options.delay == "none" else self._late_step
                reported = time.perf_counter()
                for i in range(self.options.steps):
                    check(Activity.CLOSED_LOOP)
                    step(i)
                    self.done = i + 1
                    if not np.all(np.isfinite(self.fine_x[(i + 1) * self.spec.substeps])):
                        ending, message = Ending.DIVERGED, self._diverged(i)
                        break
                    if self.progress is not None and (time.perf_counter() - reported > REPORT_EVERY or i + 1 == self.options.steps):
                        self.progress(self._report())
                        reported = time.perf_counter()
        except KeyboardInterrupt:
            if not self.done:
                raise
            ending = Ending.TIME_LIMIT if time_is_up() and not asked() else Ending.INTERRUPTED
            message = f"after {self.t[self.done]:g} of {self.t[-1]:g} s"
        return self._result(ending, message)

    def _start(self) -> None:
        """Converge from the guess before the clock starts."""
        began = time.perf_counter()
        self.controller.reset(self.fine_x[0])
        self.prepared["converge"] = time.perf_counter() - began

    # ---- one sample -----------------------------------------------------------------------------------------------------
    def _step(self, i: int) -> None:
        """Measure, solve, act."""
        measured = self.measured[i] = self._measure(i)
        began, busy = time.perf_counter_ns(), time.thread_time_ns()
        code = self.controller.update(measured, self.t[i])
        control = self.controller.control(self.t[i], measured)
        self._clock(i, began, busy)
        self._note(i, code)
        self._act(i, control)

    def _late_step(self, i: int) -> None:
        """Act by the plan at hand while the next one is made. Simulated one after the other: the solver gets the measurement
        at the beginning, and what is applied meanwhile it has decided itself."""
        measured = self.measured[i] = self._measure(i)
        # a plan that ignores its delay was made for the sample before, whose clock it keeps
        applied = self.controller.control(self.controller.time, measured)
        self._act(i, applied)
        began, busy = time.perf_counter_ns(), time.thread_time_ns()
        x_then = measured if self.model is None else self.model.advance(self.t[i], measured, applied, self.options.period)[0]
        code = self.controller.update(x_then, self.t[i] if self.model is None else self.t[i + 1])
        self._clock(i, began, busy)
        self._note(i, code)

    def _measure(self, i: int) -> np.ndarray:
        """The state for the controller: measured, or estimated from its sensors."""
        state = self.plant.measure()
        if self.observer is None:
            return state
        return self.observer.estimate(i, state, None if i == 0 else self.fine_u[(i - 1) * self.spec.substeps])

    def _clock(self, i: int, began: int, busy: int) -> None:
        self.processor[i] = (time.thread_time_ns() - busy) * 1e-9
        self.seconds[i] = (time.perf_counter_ns() - began) * 1e-9

    def _act(self, i: int, control: np.ndarray) -> None:
        """The plant over one sampling period; ``control`` acts at its beginning."""
        m, period, begin = self.spec.substeps, self.options.period, self.controller.time
        x = self.fine_x[i * m]
        for j in range(m):
            u = control if j == 0 else self.controller.control(begin + j * period / m, x)
            k = i * m + j
            self.fine_u[k] = u
            x = self.fine_x[k + 1] = self.plant.step(u, period / m)

    def _note(self, i: int, code: int) -> None:
        self.codes[i] = code
        solver = self.controller.horizon
        if code:
            words = solver.message if code > 0 else self.controller.status.value
            self.messages[words] = self.messages.get(words, 0) + 1
            return
        self.solver_cost[i], self.solver_violation[i] = solver.cost, solver.violation
        if len(self.gains):
            self.gains[i] = solver.K[0]

    # ---- the end --------------------------------------------------------------------------------------------------------
    def _diverged(self, i: int) -> str:
        m = self.spec.substeps
        last = self.fine_x[i * m]
        state = ", ".join(f"{name} = {value:.6g}" for name, value in zip(self.phase.system.space.names, last, strict=True))
        return f"in the sample from t = {self.t[i]:.6g} s, from {state}"

    def _report(self) -> dict[str, float]:
        times = step_times(self.seconds[:self.done], self.options.period)
        return {"time": float(self.t[self.done]), "duration": float(self.t[-1]), "deadline": times.deadline, "median": times.median,
                "largest": times.largest, "missed": times.missed, "failed": int((self.codes[:self.done] != 0).sum())}

    def _result(self, ending: Ending, message: str) -> ClosedLoop:
        n, m, system = self.done, self.spec.substeps, self.phase.system
        fine_t, fine_x, fine_u = self.fine_t[: n * m + 1], self.fine_x[: n * m + 1], self.fine_u[: n * m]
        # judged where everything is finite; at the last point with the last control, which is constant until then
        u = np.vstack([fine_u, fine_u[-1:] if n else np.zeros((1, system.nu))])
        good = np.isfinite(fine_x).all(axis=1)
        t, x, u = fine_t[good], fine_x[good], u[good]
        notes = [f"the solver failed in {count} step{'s' if count > 1 else ''}: {words}" for words, count in self.messages.items()]
        if self.phase.final is not None and any(self.phase.final.fixed) and not self.options.arrives(self.phase):
            notes.append("the final state is that of every horizon, so it recedes with them and may never be reached; a motion "
                         "arrives at its time where the file prescribes every component of its final state, and no mpc.horizon")
        ours = [one for one in (self.plant, self.model) if isinstance(one, IntegratedPlant)]
        notes += dict.fromkeys(f"kernel {kernel.name}: {note}" for one in ours for kernel in (one.kernel, one.plus)
                               for note in kernel.notes)
        spent = self.plant.spent if isinstance(self.plant, IntegratedPlant) else _spent(self.costs, system, t, x, u)
        # forces of a plant that simulates contacts are its own: those of the model say nothing of them
        judged_by = self.phase if self.spec.kind == INTEGRATED else replace(
            self.phase, constraints=tuple(c for c in self.phase.constraints if not c.physical))
        tracking, violations = evaluate.track(system, self.tracked, t, x, u), evaluate.violations(judged_by, t, x, u, self.broken)
        return ClosedLoop(
            problem=self.problem, options=self.options, solver_options=self.solver_options, ending=ending, message=message,
            t=self.t[: n + 1], x=fine_x[::m], measured=self.measured[:n], u=fine_u[::m],
            fine_t=fine_t, fine_x=fine_x, fine_u=fine_u, seconds=self.seconds[:n], processor=self.processor[:n],
            codes=self.codes[:n], solver_cost=self.solver_cost[:n], solver_violation=self.solver_violation[:n],
            costs={cost.name: float(value) for cost, value in zip(self.costs, spent, strict=True)},
            tracking=tracking, violations=violations,
            times=step_times(self.seconds[:n], self.options.period),
            processor_times=step_times(self.processor[:n], self.options.period), prepared=self.prepared,
            gains=self.gains[:n], changed=self.spec.changed, notes=tuple(notes),
            estimation=None if self.observer is None else self.observer.result(n, fine_x[::m]),
            recoveries=recoveries(self.disturbances.pushes, tracking, t),
            findings=judged(self.phase, violations, tracking, self.tracked, (t, x, u), self._alone) if n else ())

    def _alone(self) -> Points | None:
        """Where the plant goes without control, as far as it is finite; None for a plant that is not ours."""
        if not isinstance(self.plant, IntegratedPlant):
            return None
        u = self.phase.control_bounds.clip(np.zeros(self.phase.system.nu))
        steps = np.diff(self.fine_t[: self.done * self.spec.substeps + 1])
        self.plant.reset(self.fine_x[0])
        x = np.array([self.fine_x[0], *(self.plant.step(u, step) for step in steps)])
        good = np.isfinite(x).all(axis=1)
        return self.fine_t[: len(x)][good], x[good], np.broadcast_to(u, (int(good.sum()), u.size))


def _spent(costs: Sequence[Cost], system: System, t: np.ndarray, x: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Integrals of running costs by the trapezium rule, each control constant until the next."""
    found = []
    for cost in costs:
        function = evaluate.running(cost, system)
        before, after = (evaluate.values(function, system, ends, states, u[:-1])[:, 0] for ends, states in (
            (t[:-1], x[:-1]), (t[1:], x[1:])))
        found.append(float(np.diff(t) @ (before + after)) / 2)
    return np.array(found)


def _check_plant(system: Any, spec: PlantSpec) -> None:
    for what, mine, theirs in (("states", system.space.names, spec.system.space.names),
                               ("controls", system.controls, spec.system.controls)):
        if tuple(mine) != tuple(theirs):
            different = [f"{a!r} against {b!r}" for a, b in zip(mine, theirs, strict=False) if a != b]
            sizes = f"{len(theirs)} instead of {len(mine)}" if len(mine) != len(theirs) else different[0]
            raise ProblemError(f"the {what} of the plant are not those of the model: {sizes}", where="plant")


@contextmanager
def _no_collection() -> Iterator[None]:
    """Python's collector of reference cycles rests: its pauses would be counted as the solver's."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
