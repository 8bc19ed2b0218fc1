"""Inverse kinematics: a configuration whose tasks are met in order of priority, within the joint limits.

The first priority is solved by damped Newton on the configuration manifold from q0 and, where that ends in a local minimum or
at a limit, from further starts. While no limit is active each step is one Cholesky solve; where limits bind, the step is the
exact solution of the bounded quadratic program. Lower priorities then move in the null space of everything above them, and a
step that would cost a higher priority anything is not taken. With clearances, the steps are quadratic programs that keep
shapes apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamics.constraints import Constraint
from dynamics.model.model import Model
from ocp.control.arrays import CONVERGED, EXHAUSTED, Box, Trace
from ocp.control.clearance import Clearance, ClearanceKernel, compile_clearances
from ocp.control.descent import Descent, prepare
from ocp.control.engine import loops
from ocp.control.ik_qp import descend_clear
from ocp.control.limits import limit_box, sampler, violations
from ocp.control.lower_levels import Outcome, refine
from ocp.control.task_kernel import RobotKey
from ocp.control.tasks import Task, closure_tasks
from ocp.errors import ProblemError
from ocp.interrupts import Activity, time_is_up

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class IKResult:
    """Result of `solve_ik`.

    q [nq]. converged: the first priority is met, every lower one met or at its best given those above. residuals: norm of each
    task's error (m, rad) by name. levels: outcome of each priority. iterations: steps tried in all. starts: initial
    configurations used. violations: coordinates outside their limits and by how much. clearances: distance less the required
    clearance (m) by name. path [k, nq]: configurations from the start that led to q. message: how it ended, in a sentence.
    """

    q: Array
    converged: bool
    residuals: dict[str, float]
    levels: tuple[Outcome, ...]
    iterations: int
    starts: int
    violations: dict[str, float]
    clearances: dict[str, float]
    path: Array
    message: str


def solve_ik(
    model: Model,
    tasks_by_priority: Sequence[Task | Sequence[Task]],
    *,
    q0: ArrayLike,
    limits: bool = True,
    restarts: int = 50,
    rng: np.random.Generator | None = None,
    seeds: ArrayLike | None = None,
    tolerance: float | Sequence[float] = 1e-8,
    max_iterations: int = 60,
    largest_step: float = np.pi,
    clearances: Sequence[Clearance] = (),
    constraints: Sequence[Constraint] = (),
) -> IKResult:
    """A configuration of ``model`` that meets the tasks, highest priority first; an entry is a task, or several of equal
    priority.

    q0 [nq]: first start (moved into the limits first). seeds [k, nq]: further starts; then up to ``restarts`` random ones drawn
    from rng (default: a generator of fixed seed, so that answers repeat). tolerance: norm of the raw error of a task (m, rad,
    mixed as the error is), one number or one per task in order. max_iterations: steps from each start. largest_step: most that
    any component of a step may be. clearances: shapes that stay apart (with one priority only). constraints: of the mechanism,
    such as closed loops; they hold with the first priority, to the smallest of its tolerances, and count among its residuals.
    Without convergence the result is the best point found, and says so. Raises ProblemError for wrong sizes, repeated names or
    no task, UnknownNameError for frames and joints.
    """
    levels = [[entry] if isinstance(entry, Task) else list(entry) for entry in tasks_by_priority]
    tasks = [task for level in levels for task in level]
    _check_tasks(levels, tasks)
    starts = _starts(model, q0, seeds)
    if max_iterations < 1 or restarts < 0 or not largest_step > 0.0:
        raise ProblemError(
            f"expected max_iterations >= 1, restarts >= 0, largest_step > 0, got {max_iterations}, {restarts}, {largest_step}",
            where="solve_ik",
        )
    if clearances and len(levels) > 1:
        raise ProblemError("clearances go with one priority; give the tasks weights instead", where="solve_ik.clearances")
    tolerances = np.array(tolerance, float)
    if tolerances.shape not in ((), (len(tasks),)) or not (tolerances > 0.0).all():
        raise ProblemError(f"expected a positive number, or {len(tasks)} of them, got {tolerance!r}", where="solve_ik.tolerance")
    held, first = closure_tasks(model, constraints), len(levels[0])
    each = np.insert(np.broadcast_to(tolerances, (len(tasks),)), first, np.full(len(held), tolerances.min()))
    levels[0] = [*levels[0], *held]
    descent = prepare(model, levels, each, _box(RobotKey(model), limits))
    search = _Search(max_iterations, largest_step, restarts, rng)
    guard = compile_clearances(model, clearances) if clearances else None
    found = _first_level(descent, starts, search) if guard is None else _clear_level(descent, guard, starts, search)
    if len(levels) == 1:
        return _result(descent, guard, found, [])
    q, outcomes, passed, steps = refine(descent, found.q, max_iterations, largest_step)
    path = np.vstack([found.path, *passed]) if passed else found.path
    return _result(descent, guard, _Found(q, found.outcome, found.steps + steps, found.starts, path), outcomes)


def _starts(model: Model, q0: ArrayLike, seeds: ArrayLike | None) -> Array:
    """The starts that are given [1 + k, nq]. Raises ProblemError for other sizes."""
    start = np.array(q0, float)
    if start.shape != (model.nq,) or not np.isfinite(start).all():
        raise ProblemError(f"expected {model.nq} finite numbers, got shape {start.shape}", where="solve_ik.q0")
    given = np.zeros((0, model.nq)) if seeds is None else np.array(seeds, float).reshape(-1, np.shape(seeds)[-1])
    if given.shape[1] != model.nq:
        raise ProblemError(f"seeds have {given.shape[1]} numbers each, expected {model.nq}", where="solve_ik.seeds")
    return np.vstack([start[None], given])


@dataclass(frozen=True, eq=False)
class _Search:
    iterations: int
    largest: float
    restarts: int
    rng: np.random.Generator | None

    def batches(self, descent: Descent, starts: Array) -> Iterator[Array]:
        """The given starts, then random ones, drawn only when asked for."""
        yield starts
        left, rng = self.restarts, self.rng or np.random.default_rng(0)
        draw = sampler(descent.model, starts[0]) if left else None
        size = 8
        while left > 0 and draw is not None and not time_is_up(Activity.SEARCH):
            yield draw.draw(rng, min(size, left))
            left, size = left - size, 4 * size


@dataclass(frozen=True, eq=False)
class _Found:
    q: Array
    outcome: Outcome
    steps: int
    starts: int
    path: Array


def _first_level(descent: Descent, starts: Array, search: _Search) -> _Found:
    n, nq = search.iterations, descent.model.nq
    best, own = (Trace(starts[0].copy(), np.empty((n + 1, nq)), np.full(n + 1, -1.0)) for _ in range(2))
    weights = descent.upto(0)
    cost, steps, used, code = np.inf, 0, 0, EXHAUSTED
    for batch in search.batches(descent, starts):
        code, more, tried, cost = loops.search(descent.evaluator, weights, descent.box, descent.scratch, search.largest, n, batch,
                                               cost, best, own)
        steps, used = steps + more, used + tried
        if code == CONVERGED:
            break
    if not np.isfinite(cost):
        raise ProblemError("no start has finite task errors (an aim task at its own point?)", where="solve_ik.q0")
    kept = int(np.count_nonzero(best.costs >= 0.0))
    outcome: Outcome = "met" if code == CONVERGED else "unfinished"
    return _Found(best.q, outcome, steps, used, best.path[:kept].copy())


def _clear_level(descent: Descent, guard: ClearanceKernel, starts: Array, search: _Search) -> _Found:
    best: tuple[float, float] = (np.inf, np.inf)
    answer, steps, used = _Found(starts[0], "unfinished", 0, 0, starts[:1]), 0, 0
    for batch in search.batches(descent, starts):
        for start in batch:
            q, cost, overlap, path, more = descend_clear(descent, guard, start, search.iterations, search.largest)
            steps, used = steps + more, used + 1
            met = overlap <= 0.0 and loops.within_tolerance(descent.evaluate(q)[1], descent.weights)
            if met or (overlap, cost) < best:  # clear of contact first, then near the target
                best = (overlap, cost)
                answer = _Found(q, "met" if met else "unfinished", steps, used, np.array(path))
            if met:
                return answer
    return _Found(answer.q, answer.outcome, steps, used, answer.path)


def _result(descent: Descent, guard: ClearanceKernel | None, found: _Found, lower: list[Outcome]) -> IKResult:
    e = descent.evaluate(found.q)[1]
    residuals = {task.name: float(norm) for task, norm in zip(descent.tasks, descent.task_norms(e), strict=True)}
    distances = {} if guard is None else dict(zip(guard.names, guard(found.q)[0].tolist(), strict=True))
    outcomes: tuple[Outcome, ...] = (found.outcome, *lower)
    done = found.outcome == "met" and "unfinished" not in lower
    if done:
        message = f"first priority met from start {found.starts}"
        message += "".join(f"; priority {k + 2} {outcome}" for k, outcome in enumerate(lower))
    else:
        worst = max(zip(residuals.values(), residuals, strict=True))
        message = (
            f"no start of {found.starts} met the first priority" if found.outcome != "met" else "a lower priority is unfinished"
        )
        message += f"; largest error {worst[0]:.3g} of task {worst[1]!r}"
    return IKResult(
        found.q,
        done,
        residuals,
        outcomes,
        found.steps,
        found.starts,
        violations(descent.model, found.q, descent.box),
        distances,
        found.path,
        message,
    )


@lru_cache(maxsize=256)
def _box(robot: RobotKey, limits: bool) -> Box:
    return limit_box(robot.model, limits)


def _check_tasks(levels: list[list[Task]], tasks: list[Task]) -> None:
    if not tasks or not all(levels):
        raise ProblemError("every priority needs at least one task", where="solve_ik.tasks_by_priority")
    names = [task.name for task in tasks]
    if len(set(names)) < len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise ProblemError(f"two tasks are called {twice!r}; give each a name of its own", where="solve_ik.tasks_by_priority")
