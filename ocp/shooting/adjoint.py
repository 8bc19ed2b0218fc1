"""Single shooting by adjoint gradients: one simulation and one sweep backwards for each gradient, whatever the number of unknowns.

Unknowns are the controls of all steps, free parameters, durations and components of the start; L-BFGS-B moves them within their
bounds. Nothing is stored but states, and no second derivative is taken: made for parameters of motions of thousands of steps, by
the implicit steps of stiff robots. Hard constraints on states are not supported: ``unsupported`` names them. Source of L-BFGS-B:
Byrd, Lu, Nocedal, Zhu 1995.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from dynamics.kernels import compile_kernel
from ocp.errors import ProblemError, UnsupportedError, check_fractions
from ocp.interrupts import Progress
from ocp.problem import At, Finding, Kind, Problem, Solution, Status, Trajectory, in_steps, join, with_parameters
from ocp.problem.checkpoint import Checkpoint, Keep
from ocp.reductions.algebraic_elimination import require_explicit
from ocp.shooting import options as shooting
from ocp.shooting.optimality import ShootingOptimality
from ocp.shooting.options import StepOptions
from ocp.shooting.outcome import chosen_constants, constants, held_trajectory
from ocp.shooting.row_units import own_unit
from ocp.shooting.stages.horizon import Horizon, Leg, build
from ocp.shooting.written_guess import write_guess

Array = np.ndarray


@dataclass(frozen=True)
class AdjointOptions(StepOptions):
    """Options of single shooting by adjoint gradients.

    tolerance: largest component of the projected gradient of a converged solution, over ``max(unit, |cost|)`` with the
        unit of the cost at the guess, in unknowns over their sizes (curvature, guess or range).
    max_iterations: of L-BFGS-B; memory: pairs it keeps.
    """

    METHOD: ClassVar[str] = "adjoint"
    MIN_COUNTS: ClassVar[Mapping[str, int]] = {**StepOptions.MIN_COUNTS, "memory": 1}

    intervals: int = 200
    integrator: str = "sdirk2"
    tolerance: float = 1e-6
    memory: int = 30

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fractions(self, ("tolerance",), self.METHOD)

    def steps(self) -> shooting.ILQROptions:
        """How the steps are made."""
        return shooting.ILQROptions(intervals=self.intervals, integrator=self.integrator, kernels=self.kernels,
                                    hessian="gauss_newton", derivatives=self.derivatives, execution="generated")


def unsupported(problem: Problem) -> list[str]:
    """One sentence for each thing that the problem asks for and no gradient of a single shot holds."""
    found = [*shooting.unsupported(problem), *shooting.linked(problem), *in_steps(problem)]
    for phase in problem.phases:
        place, names = f"phase {phase.name!r}", phase.system.space.names
        bound = [names[i] for i in np.flatnonzero(phase.state_bounds.bounded)]
        if bound:
            found.append(f"bounds of states ({', '.join(bound[:3])}{', ..' if len(bound) > 3 else ''}) in {place} (take 'limits' "
                         "off, or write a cost)")
        if phase.final is not None and any(phase.final.fixed):
            found.append(f"prescribed final state of {place} (write a cost at the end)")
        found += [f"hard constraint {c.name!r} in {place} (give it 'soft', or write a cost)" for c in phase.constraints
                  if c.soft is None and c.at is not At.START]
    return found


class Shot:
    """The objective of all unknowns and its gradient; x [S+1, nx]: the last simulation."""

    def __init__(self, horizon: Horizon, mode: str):
        self.horizon = horizon
        self.steps = [compile_kernel(kind.step, mode) for kind in horizon.kinds]  # type: ignore[arg-type]
        self.adjoints = [compile_kernel(kind.adjoint, mode) for kind in horizon.kinds]  # type: ignore[arg-type]
        self.sizes = [horizon.kind(k).nu for k in range(horizon.stages)]
        self.x = np.zeros((horizon.stages + 1, max(kind.space.nx for kind in horizon.kinds)))
        self.u = np.zeros((horizon.stages, horizon.lower.shape[1]))
        self.filled = np.arange(horizon.lower.shape[1]) < np.array(self.sizes)[:, None]
        self.lost = -1

    def at(self, k: int) -> tuple[Any, ...]:
        """Arguments of the functions of step k, and its length [s]."""
        return *self.horizon.at(k, self.x, self.u), self.horizon.h[k]

    def value(self, u: Array) -> float:
        """Of the unknowns [sum nu]; NaN where a step fails, number ``lost``."""
        h, total = self.horizon, self.horizon.constant
        self.u[self.filled] = u
        self.x[0, :len(h.start)], self.lost = h.start, -1
        for k in range(h.stages + 1):
            after, cost, *_ = self.steps[h.which[k]](*self.at(k))
            if k < h.stages:
                self.x[k + 1, :h.kind(k).after.nx] = after
            total += float(np.ravel(cost)[0])
            if not np.isfinite(total) or not np.all(np.isfinite(after)):
                self.lost = k
                return float("nan")
        return total

    def gradient(self) -> Array:
        """[sum nu], of the last simulation."""
        h, found = self.horizon, np.zeros_like(self.u)
        y: Any = np.zeros(0)
        for k in range(h.stages, -1, -1):
            y, slope = self.adjoints[h.which[k]](*self.at(k), np.ravel(y))
            if k < h.stages:
                found[k, :self.sizes[k]] = np.ravel(slope)
        return found[self.filled]


def solve(problem: Problem, options: AdjointOptions, progress: Progress | None = None, checkpoint: Keep | None = None,
          resume: Checkpoint | None = None) -> Solution:
    """Solve from the guess of the problem. progress: gets every row of the log; an exception that it raises with Ctrl-C ends the
    search with the best so far. Raises UnsupportedError; ProblemError also for a checkpoint, which this method does not keep."""
    if reasons := unsupported(problem):
        raise UnsupportedError("adjoint", reasons, ())
    if resume is not None:
        raise ProblemError("method adjoint keeps no checkpoints; give the earlier run as a start (--from)", where="resume")
    require_explicit(problem)
    began = time.perf_counter()
    horizon = build(problem, options.steps())
    shot = Shot(horizon, {"compiled": "compiled", "interpreted": "interpreted"}.get(options.kernels, "auto"))
    built = time.perf_counter()
    lower, upper = (bound[:horizon.stages][shot.filled] for bound in (horizon.lower, horizon.upper))
    guess, findings = _guess(horizon, options.steps())
    start = np.clip(guess[shot.filled], lower, upper)
    unit = _unit(shot, start)
    search = _Search(shot, unit, (lower, upper), _sizes(shot, unit, start, upper - lower), progress, began)
    status, ending = search.run(start, options)
    shot.value(search.best)
    slope = shot.gradient()
    chosen = constants(horizon, shot.x)
    parts = tuple(_trajectory(shot, leg) for leg in horizon.legs)
    rows = max(kind.rows.count for kind in horizon.kinds)
    seconds = {"build": built - began, "solve": time.perf_counter() - built, "total": time.perf_counter() - began}
    return Solution(
        problem=with_parameters(problem, chosen), method="adjoint", options=asdict(options), status=status, ending=ending,
        objective=unit * search.lowest, trajectory=join(parts), parts=parts if len(parts) > 1 else (), iterations=tuple(search.log),
        seconds=seconds, findings=(*findings, *chosen_constants(horizon, chosen)),
        extra={"gradient": slope}, optimality=ShootingOptimality(horizon, shot.x.copy(), shot.u.copy(),
                                                                 np.zeros((horizon.stages + 1, rows))))


def finer(problem: Problem, options: AdjointOptions, solution: Solution) -> Solution:
    """The problem, whose guess is the solution, in twice as many steps."""
    return solve(problem, replace(options, intervals=2 * options.intervals))


class _Search:
    """L-BFGS-B in unknowns over their sizes, the objective over its unit."""

    def __init__(self, shot: Shot, unit: float, bounds: tuple[Array, Array], size: Array, progress: Progress | None, began: float):
        self.shot, self.unit, self.size, self.progress, self.began = shot, unit, size, progress, began
        self.lower, self.upper = bounds
        self.log: list[dict[str, float]] = []
        self.best, self.lowest, self.left, self.method = np.zeros(0), float("inf"), float("inf"), ""

    def run(self, start: Array, options: AdjointOptions) -> tuple[Status, Finding]:
        from scipy.optimize import minimize  # only here: it takes a third of a second

        self.best, self.method = start, options.integrator
        if not np.isfinite(self.shot.value(start)):
            return self.failed()
        self.note(start)
        if not len(start):
            return Status.CONVERGED, Finding(Kind.NOTHING_FREE)
        try:
            found = minimize(self.both, start / self.size, jac=True, method="L-BFGS-B", callback=lambda y: self.note(y * self.size),
                             bounds=list(zip(self.lower / self.size, self.upper / self.size, strict=True)),
                             options={"maxcor": options.memory, "maxiter": options.max_iterations,
                                      "maxfun": 10 * options.max_iterations, "ftol": 0.0, "gtol": options.tolerance / 2,
                                      "maxls": 40})
            self.note(found.x * self.size, count=False)
        except KeyboardInterrupt:
            return Status.INTERRUPTED, Finding(Kind.SEARCH_INTERRUPTED, value=self.left, data={
                "iterations": max(0, len(self.log) - 1), "cost": self.unit * self.lowest})
        reached = options.tolerance * max(1.0, abs(self.lowest))
        data = {"cost": self.unit * self.lowest, "solver": "L-BFGS-B", "status": str(found.message)}
        if self.left <= reached:
            return Status.CONVERGED, Finding(Kind.GRADIENT_CONVERGED, value=self.left, tolerance=reached, data=data)
        if len(self.log) > options.max_iterations:
            return Status.ITERATION_LIMIT, Finding(Kind.ITERATIONS_USED_UP, value=self.left, tolerance=reached, data={
                **data, "iterations": options.max_iterations})
        return Status.STALLED, Finding(Kind.LINE_SEARCH_STOPPED, value=self.left, tolerance=reached, data=data)

    def both(self, y: Array) -> tuple[float, Array]:
        value = self.shot.value(y * self.size) / self.unit
        if not np.isfinite(value):  # a step that is too long: the search comes back
            return abs(self.lowest) * 1e3 + 1e3, np.zeros_like(y)
        return value, self.shot.gradient() * self.size / self.unit

    def note(self, u: Array, count: bool = True) -> None:
        value, slope = self.both(u / self.size)
        y = u / self.size
        projected = np.clip(slope, y - self.upper / self.size, y - self.lower / self.size)
        largest = float(np.max(np.abs(projected), initial=0.0))
        if value <= self.lowest:
            self.best, self.lowest, self.left = u.copy(), value, largest
        row = {"iteration": float(len(self.log)), "cost": self.unit * value, "gradient": largest,
               "seconds": time.perf_counter() - self.began}
        if not count:
            return
        self.log.append(row)
        if self.progress is not None:
            self.progress(row)

    def failed(self) -> tuple[Status, Finding]:
        """Why the simulation of the guess ends."""
        shot, h = self.shot, self.shot.horizon
        k = shot.lost
        t, x, u, _, length = shot.at(k)
        self.lowest = float("nan")
        phase, time_ = h.locate(k, shot.x)
        why = h.leg(k).stretch.failure(self.method, float(t), x, u, float(length)) if k < h.stages else None
        return Status.NOT_A_NUMBER, Finding(Kind.STEP_FAILED, phase, time=time_, data={
            "step": max(0, k - h.leg(k).first), **({} if why is None else {"failure": why._asdict()})})


def _unit(shot: Shot, start: Array) -> float:
    """The unit of the objective: the power of 1024 nearest to that of the guess, so 1 for ordinary numbers."""
    value = abs(shot.value(start))
    return float(own_unit(np.array(value if np.isfinite(value) else 1.0)))


def _sizes(shot: Shot, unit: float, start: Array, ranges: Array) -> Array:
    """Scales of L-BFGS-B's unknowns: ``1 / sqrt(H)`` with the curvature H of the costs of their own step, so that the Hessian
    is near 1 but in the few directions that the end sees; without one the guess or the range."""
    h, found = shot.horizon, np.zeros_like(shot.u)
    if np.isfinite(shot.value(start)):
        for k in range(h.stages):
            stage, nu = h.kind(k), shot.sizes[k]
            if nu and stage.expand is not None:
                n = stage.space.ndx
                H = np.asarray(stage.expand(*shot.at(k))[2]).T  # by rows of the matrix
                found[k, :nu] = np.diag(H[n:n + nu, n:n + nu]) / unit
    curvature = found[shot.filled]
    plain = np.maximum(np.abs(start), np.where(np.isfinite(ranges), ranges, 0.0) / 2)
    plain = np.where(plain > 1e-3, plain, 1.0)
    return np.where(curvature > 1e-12, 1 / np.sqrt(np.maximum(curvature, 1e-12)), plain)


def _guess(horizon: Horizon, steps: shooting.ILQROptions) -> tuple[Array, list[Finding]]:
    """Unknowns [S, M] of the guess, and findings about them."""
    path = SimpleNamespace(x=np.zeros((horizon.stages + 1, horizon.width)), gap=np.zeros(0),
                           u=np.zeros((horizon.stages, horizon.lower.shape[1])))
    _, findings = write_guess(horizon, steps, path)  # type: ignore[arg-type]
    return path.u, findings


def _trajectory(shot: Shot, leg: Leg) -> Trajectory:
    """The trajectory of a phase."""
    horizon, x, u = shot.horizon, shot.x[leg.first:leg.last + 1].copy(), shot.u[leg.first:leg.last].copy()

    def between(numbers: Array, states: Array, lengths: Array) -> Array:
        out = states.copy()
        for i, k in enumerate(numbers):
            stage = horizon.kind(k)
            held = u[k - leg.first, :stage.nu], horizon.p[k, :stage.step.size1_in(3)]
            after = shot.steps[horizon.which[k]](horizon.t[k], states[i, :stage.space.nx], *held, lengths[i])[0]
            out[i, :stage.after.nx] = np.ravel(after)
        return out

    return held_trajectory(horizon, leg, x, u, between)
