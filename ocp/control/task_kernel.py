"""Compiled errors and Jacobians of task lists: one kernel for a robot and the shapes of its tasks, targets as parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamics import algorithms as alg
from dynamics import spatial
from dynamics.algorithms import tree
from dynamics.kernels import Kernel, compile_kernel
from dynamics.lie import se3, so3
from dynamics.model.model import Model
from ocp.control.tasks import Shape, Task
from ocp.errors import ProblemError

Array = NDArray[np.float64]
Expr = Any


@dataclass(frozen=True, eq=False)
class TaskKernel:
    """Compiled errors of a list of task shapes on one robot. kernel: (q [nq], d [nv], p) -> (q [+] d [nq], e [m], J [m, nv] at
    q [+] d). starts [tasks + 1]: rows of each task; parameters [tasks + 1]: its part of p."""

    model: Model
    shapes: tuple[Shape, ...]
    kernel: Kernel
    starts: tuple[int, ...]
    parameters: tuple[int, ...]

    def __call__(self, q: ArrayLike, p: ArrayLike) -> tuple[Array, Array]:
        """(e [m], J [m, nv]) at q for the targets p (see `targets`)."""
        _, e, J = self.kernel(q, np.zeros(self.model.nv), p)
        return np.asarray(e).reshape(-1), np.asarray(J).reshape(self.starts[-1], self.model.nv)

    def plus(self, q: ArrayLike, d: ArrayLike, p: ArrayLike) -> Array:
        """q [+] d [nq]."""
        return np.asarray(self.kernel(q, d, p)[0]).reshape(-1)

    def targets(self, tasks: Sequence[Task]) -> Array:
        """The targets of tasks of these shapes, stacked. Raises ProblemError when they do not fit."""
        self._check(tasks)
        for task, a, b in zip(tasks, self.parameters, self.parameters[1:], strict=False):
            if task.target.size != b - a:
                raise ProblemError(f"target has {task.target.size} numbers, expected {b - a}", where=f"task {task.name!r}")
        return np.concatenate([task.target for task in tasks])

    def spread(self, tasks: Sequence[Task], values: Sequence[Any], name: str) -> Array:
        """One number per row [m] from a number or a vector per task."""
        self._check(tasks)
        out = np.empty(self.starts[-1])
        for task, value, a, b in zip(tasks, values, self.starts, self.starts[1:], strict=False):
            array = np.asarray(value, float)
            if array.shape not in ((), (b - a,)):
                raise ProblemError(f"{name} has shape {array.shape}, expected a number or ({b - a},)", where=f"task {task.name!r}")
            out[a:b] = array
        return out

    def _check(self, tasks: Sequence[Task]) -> None:
        if tuple(task.shape for task in tasks) != self.shapes:
            raise ProblemError("the tasks are not those that were compiled; compile again", where="TaskKernel")


def compile_tasks(model: Model, tasks: Sequence[Task], mode: str = "auto") -> TaskKernel:
    """Compiled errors of the tasks (of their shapes: targets, weights and gains may change afterwards). Kept for the next call
    with the same robot and shapes. Raises UnknownNameError for frames and joints, ProblemError for no task."""
    if not tasks:
        raise ProblemError("needs at least one task", where="compile_tasks")
    return _compiled(RobotKey(model), tuple(task.shape for task in tasks), mode)


class RobotKey:
    """A model as a key: equal when the fingerprints are."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def __hash__(self) -> int:
        return hash(self.model.fingerprint)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RobotKey) and (self.model is other.model or self.model.fingerprint == other.model.fingerprint)


@lru_cache(maxsize=256)
def _compiled(robot: RobotKey, shapes: tuple[Shape, ...], mode: Any) -> TaskKernel:
    function, starts, parameters = task_function(robot.model, shapes)
    return TaskKernel(robot.model, shapes, compile_kernel(function, mode), starts, parameters)


class TaskFunction(NamedTuple):
    """(q, d, p) -> (q_next, e, J) as an SX Function, first rows of the tasks, first parameters of the tasks."""

    function: ca.Function
    rows: tuple[int, ...]
    parameters: tuple[int, ...]


def task_function(model: Model, shapes: Sequence[Shape]) -> TaskFunction:
    """(q, d, p) -> (q_next, e, J) as an SX Function, first rows of the tasks, first parameters of the tasks."""
    count = parameter_starts(model, shapes)
    q, d, p = ca.SX.sym("q", model.nq), ca.SX.sym("d", model.nv), ca.SX.sym("p", count[-1])
    moved = ca.SX.sym("moved", model.nq)  # one name for q [+] d keeps the errors' expressions short
    errors, jacobians, rows = _stacked(model, shapes, moved, p)
    at = ca.SX(alg.integrate(model, q, d))
    e, J = ca.substitute([errors, jacobians], [moved], [at])
    outputs = ca.cse([ca.densify(at), ca.densify(e), ca.densify(J)])
    return TaskFunction(ca.Function("tasks", [q, d, p], outputs, ["q", "d", "p"], ["q_next", "e", "J"]), rows, count)


class TaskRates(NamedTuple):
    """e [m], J [m, nv], dJ/dt v [m], first rows of the tasks."""

    e: Expr
    J: Expr
    drift: Expr
    rows: tuple[int, ...]


def task_rates(model: Model, shapes: Sequence[Shape], q: Expr, v: Expr, p: Expr) -> TaskRates:
    """(e [m], J [m, nv], dJ/dt v [m], first rows of the tasks) at SX symbols q and v, targets p: ``e' = J v``,
    ``e'' = J a + dJ/dt v``."""
    e, J, rows = _stacked(model, shapes, q, p)
    return TaskRates(e, J, ca.jtimes(J @ v, q, alg.rate_matrix(model, q) @ v), rows)


def parameter_starts(model: Model, shapes: Sequence[Shape]) -> tuple[int, ...]:
    """First target parameter of each shape, and their number."""
    return tuple(np.cumsum([0, *(_BUILDERS[shape.kind](model, shape)[0] for shape in shapes)]).tolist())


def _stacked(model: Model, shapes: Sequence[Shape], q: Expr, p: Expr) -> tuple[Expr, Expr, tuple[int, ...]]:
    ends = parameter_starts(model, shapes)
    errors, jacobians, rows = [ca.SX(0, 1)], [ca.SX(0, model.nv)], [0]
    for shape, a, b in zip(shapes, ends, ends[1:], strict=False):
        e, J = _BUILDERS[shape.kind](model, shape)[1](q, p[a:b])
        e, J = ca.SX(e), ca.SX(J)
        if shape.components is not None:
            e, J = e[list(shape.components)], J[list(shape.components), :]
        errors.append(ca.densify(e))
        jacobians.append(ca.densify(J))
        rows.append(rows[-1] + e.shape[0])
    return ca.vertcat(*errors), ca.vertcat(*jacobians), tuple(rows)


Build = Callable[[Expr, Expr], tuple[Expr, Expr]]


def _relative(model: Model, shape: Shape, q: Expr) -> tuple[spatial.Transform, Expr]:
    """Pose A_H_B of the frame B in the reference A, and the body-frame Jacobian [6, nv] of B's motion relative to A."""
    pose = alg.frame_pose(model, q, shape.frame)
    if shape.reference == "world":
        return pose, alg.frame_jacobian(model, q, shape.frame, "body")
    A_H_B = spatial.compose(spatial.inverse(alg.frame_pose(model, q, shape.reference)), pose)
    J = alg.relative_jacobian(model, q, shape.reference, shape.frame)  # axes of A
    return A_H_B, spatial.motion(A_H_B.R.T @ spatial.linear(J), A_H_B.R.T @ spatial.angular(J))


def _position(model: Model, shape: Shape) -> tuple[int, Build]:
    def build(q: Expr, p: Expr) -> tuple[Expr, Expr]:
        at, J = _relative(model, shape, q)
        return at.p - p, at.R @ spatial.linear(J)

    return _known(model, shape, 3), build


def _orientation(model: Model, shape: Shape) -> tuple[int, Build]:
    def build(q: Expr, p: Expr) -> tuple[Expr, Expr]:
        at, J = _relative(model, shape, q)
        e = so3.log(ca.reshape(p, 3, 3).T @ at.R)
        return e, so3.right_jacobian_inverse(e) @ spatial.angular(J)

    return _known(model, shape, 9), build


def _pose(model: Model, shape: Shape) -> tuple[int, Build]:
    def build(q: Expr, p: Expr) -> tuple[Expr, Expr]:
        at, J = _relative(model, shape, q)
        offset = spatial.compose(spatial.inverse(spatial.Transform(ca.reshape(p[:9], 3, 3), p[9:])), at)
        e = se3.log(se3.Pose(offset.R, offset.p))
        return e, se3.right_jacobian_inverse(e) @ J

    return _known(model, shape, 12), build


def _com(model: Model, shape: Shape) -> tuple[int, Build]:
    return 3, lambda q, p: (alg.centre_of_mass(model, q) - p, alg.centre_of_mass_jacobian(model, q))


def _alignment(model: Model, shape: Shape) -> tuple[int, Build]:
    def build(q: Expr, p: Expr) -> tuple[Expr, Expr]:
        at, J = _relative(model, shape, q)
        a = spatial.constant(shape.axis)
        return at.R @ a - p, -at.R @ spatial.hat(a) @ spatial.angular(J)

    return _known(model, shape, 3), build


def _aim(model: Model, shape: Shape) -> tuple[int, Build]:
    def build(q: Expr, p: Expr) -> tuple[Expr, Expr]:
        at, J = _relative(model, shape, q)
        a, line = spatial.constant(shape.axis), p - at.p
        distance = ca.sqrt(ca.dot(line, line))
        d = line / distance
        turn = -at.R @ spatial.hat(a) @ spatial.angular(J)
        return at.R @ a - d, turn + (ca.SX.eye(3) - d @ d.T) / distance @ (at.R @ spatial.linear(J))

    return _known(model, shape, 3), build


def _posture(model: Model, shape: Shape) -> tuple[int, Build]:
    free = [b.joint.name for i, b in enumerate(model.bodies) if b.joint.mimic is None and model.kind(i).nv]
    bodies = [model.joint_index(name) for name in (free if shape.joints is None else shape.joints)]
    if coupled := [model.bodies[i].joint.name for i in bodies if model.bodies[i].joint.mimic or not model.kind(i).nv]:
        raise ProblemError(
            f"joint {coupled[0]!r} has no coordinate of its own (it is fixed or mimics another)", where="posture task"
        )

    def build(q: Expr, p: Expr) -> tuple[Expr, Expr]:
        errors, J, start, row = [], tree.zeros(sum(model.kind(i).nv for i in bodies), model.nv, q), 0, 0
        for i in bodies:
            kind, own, goal = model.kind(i), q[model.q_slice(i)], p[start : start + model.kind(i).nq]
            errors.append(kind.minus(goal, own))
            if kind.is_vector_space:
                block: Expr = ca.SX.eye(kind.nv)
            else:  # derivative along the manifold: the jet agrees with [+] to second order and has no branches at zero
                d = ca.SX.sym("d", kind.nv)
                block = ca.substitute(ca.jacobian(kind.minus(goal, kind.jet(own, d)), d), d, ca.SX.zeros(kind.nv))
            J[row : row + kind.nv, model.v_slice(i)] = block
            start, row = start + kind.nq, row + kind.nv
        return ca.vertcat(*errors), J

    return sum(model.kind(i).nq for i in bodies), build


def _closure(model: Model, shape: Shape) -> tuple[int, Build]:
    constraint = shape.constraint
    assert constraint is not None
    return 0, lambda q, p: (constraint.value(model, q), constraint.jacobian(model, q))


_BUILDERS: dict[str, Callable[[Model, Shape], tuple[int, Build]]] = {
    "position": _position,
    "orientation": _orientation,
    "pose": _pose,
    "com": _com,
    "posture": _posture,
    "alignment": _alignment,
    "aim": _aim,
    "closure": _closure,
}


def _known(model: Model, shape: Shape, size: int) -> int:
    model.frame(shape.frame)
    model.frame(shape.reference)
    return size
