"""iLQR / DDP with hard constraints: repeat expansion, Riccati sweep and feedback line search until the gradient vanishes.

Li, Todorov 2004 (iLQR); Tassa, Erez, Todorov 2012 (regularisation schedule, line search, value update); Tassa, Mansard,
Todorov 2014 (control bounds). Gauss-Newton by default; ``hessian="full"`` makes it DDP.

Convergence needs both an optimality residual and a predicted decrease below tolerance: the largest component of the
projected gradient of the discrete cost (from the costates, so regularisation does not touch it) and the decrease that
the quadratic model still expects, each relative to ``max(1, |cost|)``. Where the decrease falls below the rounding of
the cost itself, steps are judged by the gradient instead (polishing): the iterations go on until the gradient reaches
its tolerance, or has found no new minimum for ``ocp.shooting.engine.search.PATIENCE`` steps.

Bounds on controls are part of every step. All other hard constraints (bounds on states, prescribed final states, path and final
constraints, second-order cones) hold at the knots by an augmented Lagrangian (``ocp.shooting.engine.augmented``; Howell, Jackson,
Manchester 2019): multipliers and penalties are updated until the largest violation is below ``constraint_tolerance``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ocp.derivatives import choose
from ocp.errors import ProblemError, UnsupportedError
from ocp.problem import Phase, Problem, Solution, Status, Trajectory
from ocp.shooting.engine import records
from ocp.shooting.guess import inverse_dynamics_controls
from ocp.shooting.optimality import ShootingOptimality
from ocp.shooting.options import ILQROptions, unsupported
from ocp.shooting.stages import stage
from ocp.shooting.stages.rows import Rows, final_rows, path_rows

if TYPE_CHECKING:  # Numba costs half a second: it is imported by the functions that run something
    from ocp.shooting.engine import loops

__all__ = ["ILQROptions", "Program", "prepare", "run", "solve", "unsupported"]

Progress = Callable[[Mapping[str, float]], None]


@dataclass(frozen=True)
class Program:
    """A problem with its kernels loaded, ready for several solves (one at a time: the calls own their arguments)."""

    problem: Problem
    phase: Phase
    options: ILQROptions
    stages: stage.Stages
    compiled: records.Compiled
    kept: records.Kept  # alive as long as the calls, which hold their handles
    calls: Mapping[str, Any]
    horizon: loops.Horizon
    constraints: tuple[Rows, Rows]
    rows: loops.Rows
    notes: tuple[str, ...]
    start: np.ndarray
    seconds: Mapping[str, float]


def solve(problem: Problem, options: ILQROptions | None = None, progress: Progress | None = None) -> Solution:
    """Solve a problem by iLQR; see ``ILQROptions``. ``progress`` gets every row of the iteration log as it is written.

    Rows: iteration, cost, expected (decrease that the model promised for the step taken), gradient (projected, largest
    component), step (0 when refused), regularisation, trials. Ctrl-C hands back the best iterate.
    Raises UnsupportedError for what iLQR cannot enforce and ProblemError for a wrong problem.
    """
    return run(prepare(problem, options), progress)


def prepare(problem: Problem, options: ILQROptions | None = None) -> Program:
    """Build and compile the kernels of a problem. Raises UnsupportedError and ProblemError as ``solve`` does, and
    KernelError when compiled kernels are demanded and cannot be had."""
    options = options or ILQROptions()
    reasons = unsupported(problem)
    if reasons:
        raise UnsupportedError("ilqr", reasons, ("collocation",))
    phase = problem.phase
    began = time.perf_counter()
    from ocp.shooting.engine import loops

    imported = time.perf_counter()
    _, by_loops, told = choose(phase.system, options.derivatives, options.execution)
    stages = stage.build(phase, options, by_loops)
    built = time.perf_counter()
    compiled = records.compile_stages(phase, options, stages, by_loops)
    calls, kept = records.records(compiled)
    rows = path_rows(phase), final_rows(phase)
    n, m, N = stages.ndx, stages.nu, options.intervals
    held = [records.hold(made, count, start, n, m, options.kernels)
            for made, count, start in zip(rows, (N, 1), (0, N), strict=True)]
    kept = [*kept, *(space for _, owners in held for space in owners)]
    duration = phase.duration.guess
    horizon = loops.Horizon(
        np.linspace(0.0, duration, options.intervals + 1), np.array([duration / options.intervals]),
        np.array(phase.system.parameter_values, dtype=float), np.array(phase.u_lower, dtype=float),
        np.array(phase.u_upper, dtype=float), float(options.state_limit))
    return Program(problem, phase, options, stages, compiled, kept, calls, horizon, rows,
                   loops.Rows(*(record for record, _ in held)), told, _start(phase),
                   {"import": imported - began, "build": built - imported, "compile": time.perf_counter() - built})


def run(program: Program, progress: Progress | None = None) -> Solution:
    """Solve a prepared problem from the guess of its phase."""
    from ocp.shooting.engine import loops
    from ocp.shooting.engine.search import Search

    began = time.perf_counter()
    u, notes = _initial_controls(program)
    N = program.options.intervals
    x = np.full((N + 1, program.stages.nx), np.nan)
    x[0] = program.start
    system = program.phase.system
    names = program.constraints[0].names, program.constraints[1].names
    search = Search(program.options, system.space, system.controls, program.calls, program.horizon,
                    loops.Path(x, u, np.full(N + 1, np.nan)), program.rows, names, progress)
    status, message = search.run()
    if len(search.log) == 1 and status is Status.CONVERGED:
        notes.append("the initial guess already was a stationary point; "
                     "a symmetric start may need a guess that breaks the symmetry")
    notes += program.notes
    notes.append(f"kernels: {program.compiled.named['final'].mode}")
    notes += [f"kernel {kernel.name}: {note}" for kernel in program.compiled.kernels for note in kernel.notes]
    extra = {"stage_cost": search.path.cost}
    if search.swept:  # otherwise the gains belong to an earlier iterate
        policy = search.policy
        extra |= {"K": policy.K, "k": policy.k, "Vx": policy.Vx, "Vxx": policy.Vxx, "costate": policy.costate}
    weights = program.rows.path.slope.copy(), program.rows.final.slope[0].copy()
    if search.multipliers.any_rows:
        extra |= {"multipliers_path": weights[0], "multipliers_final": weights[1]}
    seconds = {**program.seconds, "load": search.load_seconds,
               "solve": time.perf_counter() - began - search.load_seconds}
    seconds["total"] = sum(seconds.values())
    horizon, trajectory = program.horizon, _trajectory(program, search.path)
    return Solution(
        problem=program.problem, method="ilqr", options=asdict(program.options), status=status, message=message,
        objective=search.objective + program.stages.constant, trajectory=trajectory,
        iterations=tuple(search.log), seconds=seconds, notes=tuple(notes), extra=extra,
        optimality=ShootingOptimality(program.stages, float(horizon.h[0]), horizon.p, horizon.lower, horizon.upper,
                                      trajectory.t, trajectory.x, trajectory.u, program.constraints, weights))


def _start(phase: Phase) -> np.ndarray:
    """The fixed start state. Raises ProblemError for a quaternion that is not of unit length."""
    assert phase.start is not None  # ``unsupported`` has seen to it
    x = np.array(phase.start.value, dtype=float)
    for i in phase.system.space.quaternions:
        length = float(np.linalg.norm(x[i:i + 4]))
        if not abs(length - 1) <= 1e-6:
            raise ProblemError(f"the quaternion of the start state has length {length:.9g}, not 1",
                               where=f"phase {phase.name!r}")
        x[i:i + 4] /= length
    return x


def _initial_controls(program: Program) -> tuple[np.ndarray, list[str]]:
    """Controls at the start of the search [N, nu]: the guess at the middle of every interval, moved into the bounds.

    Where the guess names a motion of a robot and no controls, those that inverse dynamics finds along it. Changes are noted.
    """
    guess, horizon, N = program.phase.guess, program.horizon, program.options.intervals
    given = np.asarray(guess.u, dtype=float).reshape(len(guess.s), program.stages.nu)
    s = (np.arange(N) + 0.5) / N
    u = np.column_stack([np.interp(s, guess.s, column) for column in given.T])
    notes = []
    if not given.any() and (found := inverse_dynamics_controls(program.phase, N)) is not None:
        u, notes = found, ["the guess of the controls comes from inverse dynamics along the guess of the states"]
    inside = np.clip(u, horizon.lower, horizon.upper)
    moved = [name for name, a, b in zip(program.phase.system.controls, u.T, inside.T, strict=True) if np.any(a != b)]
    notes += [f"the guess of control {', '.join(map(repr, moved))} was moved into its bounds"] if moved else []
    return np.ascontiguousarray(inside), notes


def _trajectory(program: Program, path: loops.Path) -> Trajectory:
    """Knot states and held controls; between knots the integrator itself, with a shorter step."""
    from ocp.shooting.engine import loops

    t, h, p = program.horizon.t, float(program.horizon.h[0]), program.horizon.p
    x, u = path.x.copy(), path.u.copy()
    step, kept = records.stepper(program.compiled)

    def interval(times: np.ndarray) -> np.ndarray:
        if not np.all((times >= t[0] - 1e-9 * h) & (times <= t[-1] + 1e-9 * h)):
            raise ValueError(f"time outside the trajectory: [{t[0]:g}, {t[-1]:g}] s")
        return np.clip(np.searchsorted(t, times, side="right") - 1, 0, len(u) - 1)

    def state(times: Any) -> np.ndarray:
        flat = np.atleast_1d(np.asarray(times, dtype=float))
        k = interval(flat)
        out = np.empty((len(flat), x.shape[1]))
        failed = loops.sample(step, t[k], x[k], u[k], p, flat - t[k], out, np.empty(1))
        if failed >= 0:
            raise ArithmeticError(f"the step failed at t = {flat[failed]:g} s ({len(kept)} kernels of its own)")
        at_knot = flat == t[k]
        out[at_knot] = x[k[at_knot]]
        out[flat >= t[-1]] = x[-1]
        return out[0] if np.ndim(times) == 0 else out

    def control(times: Any) -> np.ndarray:
        flat = np.atleast_1d(np.asarray(times, dtype=float))
        out = u[interval(flat)]
        return out[0] if np.ndim(times) == 0 else out

    return Trajectory(t=t.copy(), x=x, u=u, t_u=t[:-1].copy(), state=state, control=control)
