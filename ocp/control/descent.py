"""A list of tasks on a robot made ready for the compiled loops: evaluator, weights, limits, work arrays of one thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dynamics.kernels import Workspace, workspace
from dynamics.model.model import Model
from ocp.control.arrays import Box, Evaluator, Scratch, Weights, scratch
from ocp.control.engine import loops
from ocp.control.task_kernel import TaskKernel, compile_tasks
from ocp.control.tasks import Task

Array = NDArray[np.float64]


class Reached(NamedTuple):
    """q [+] d [nq], e [m] and J [m, nv] there."""

    q: Array
    e: Array
    J: Array


@dataclass(frozen=True, eq=False)
class Descent:
    """levels: rows of each priority, first to last. ``memory`` owns what ``evaluator`` points to. For one thread at a time."""

    model: Model
    tasks: tuple[Task, ...]
    kernel: TaskKernel
    levels: tuple[slice, ...]
    evaluator: Evaluator
    weights: Weights
    box: Box
    scratch: Scratch
    memory: Workspace

    def evaluate(self, q: Array, d: Array | None = None) -> Reached:
        """(q [+] d, e [m], J [m, nv] there)."""
        d = np.zeros(self.model.nv) if d is None else d
        q_next, e, Jt = np.empty(self.model.nq), np.empty(self.scratch.e.size), np.empty(self.scratch.Jt.shape)
        loops.evaluate(self.evaluator, np.ascontiguousarray(q), np.ascontiguousarray(d), q_next, e, Jt)
        return Reached(q_next, e, Jt.T)

    def upto(self, level: int) -> Weights:
        """Weights that see the priorities 0 .. level only."""
        root, tolerance = self.weights.root.copy(), self.weights.tolerance.copy()
        end = self.levels[level].stop
        root[end:] = 0.0
        tolerance[self.weights.starts[:-1] >= end] = np.inf
        return Weights(root, self.weights.starts, tolerance)

    def task_norms(self, e: Array) -> Array:
        """Norm of each task's raw error [tasks]."""
        starts = self.weights.starts
        return np.array([np.sqrt(e[a:b] @ e[a:b]) for a, b in zip(starts, starts[1:], strict=False)])


def prepare(model: Model, levels: Sequence[Sequence[Task]], tolerances: Array, box: Box) -> Descent:
    """Compile (or recall) the tasks of all priorities and lay out the arrays. tolerances: one per task."""
    tasks = tuple(task for level in levels for task in level)
    kernel = compile_tasks(model, tasks)
    memory = workspace(kernel.kernel)
    ends = np.cumsum([0, *(len(level) for level in levels)])
    rows = tuple(slice(kernel.starts[a], kernel.starts[b]) for a, b in zip(ends, ends[1:], strict=False))
    evaluator = Evaluator(memory.address, memory.handle, memory.arg, memory.res, memory.iw, memory.w, kernel.targets(tasks))
    root = np.sqrt(kernel.spread(tasks, [task.weight for task in tasks], "weight"))
    weights = Weights(root, np.array(kernel.starts), np.array(tolerances, float))
    return Descent(
        model, tasks, kernel, rows, evaluator, weights, box, scratch(model.nq, model.nv, kernel.starts[-1]), memory
    )
