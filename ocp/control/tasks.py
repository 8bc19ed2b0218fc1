"""Tasks: what a robot should achieve, as an error e(q), its Jacobian J(q) and a desired rate.

Every error is "actual minus target" on its own manifold, zero at the target, and d/dt e = J v for the velocity v [nv] of the model (body-frame
tangent for floating bases and spherical joints). Jacobians are analytic: the geometric body Jacobian of the frame, times the
inverse right Jacobian of the rotation or pose error where the error is a logarithm (Sola, Deray, Atchuthan 2018, Eq. 144 and 179).

    kind          error e                                    rows   target (parameters)
    position      p - p*, reference axes                     3      p* [3]
    orientation   log(R*' R), a rotation vector              3      R* [3, 3]
    pose          log(T*^-1 T), [linear; angular]            6      R* [3, 3], p* [3]
    com           c - c*, world axes                         3      c* [3]
    posture       q [-] q*, of the chosen joints             nv_j   q* [nq_j]
    alignment     R a - d, a in the frame, d a direction     3      d [3]
    aim           R a - (t - p)/|t - p|, t a point           3      t [3]

Position, orientation, pose, alignment and aim are those of ``frame`` seen from ``reference`` (a frame of the robot or "world").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamics import algorithms as alg
from dynamics import spatial
from dynamics.algorithms import tree
from dynamics.kernels import Kernel, compile_kernel
from dynamics.lie import se3, so3
from dynamics.model.model import Model
from ocp.errors import ProblemError

Array = NDArray[np.float64]
Expr = Any


@dataclass(frozen=True)
class Shape:
    """What of a task enters compiled code: kind, frame, reference, axis in the frame, joints, chosen rows of the error."""

    kind: str
    frame: str = "world"
    reference: str = "world"
    axis: tuple[float, ...] = ()
    joints: tuple[str, ...] | None = None
    components: tuple[int, ...] | None = None


@dataclass(frozen=True, eq=False)
class Task:
    """One task: shape, target (parameters of its kind, flat, matrices column by column), weight per row of |e|², rate: desired
    d/dt e* [rows] of the target in the coordinates of the error (0: the target stands still), gain [1/s]: feedback of e."""

    name: str
    shape: Shape
    target: Array
    weight: Array | float = 1.0
    rate: Array | float = 0.0
    gain: float = 1.0


def position_task(frame: str, position: ArrayLike, *, reference: str = "world", components: Sequence[int] | None = None,
                  weight: ArrayLike = 1.0, rate: ArrayLike = 0.0, gain: float = 1.0, name: str | None = None) -> Task:
    """Origin of ``frame`` at ``position`` [3] (m) in the axes of ``reference``; components: which of x, y, z (0, 1, 2)."""
    shape = Shape("position", frame, reference, components=_rows(components, 3))
    return _task(name or f"position of {frame}", shape, _vector(position, 3, "position"), weight, rate, gain)


def orientation_task(frame: str, rotation: ArrayLike, *, reference: str = "world", components: Sequence[int] | None = None,
                     weight: ArrayLike = 1.0, rate: ArrayLike = 0.0, gain: float = 1.0, name: str | None = None) -> Task:
    """Axes of ``frame`` as the columns of ``rotation`` [3, 3] in ``reference``; components: error axes, those of the target."""
    shape = Shape("orientation", frame, reference, components=_rows(components, 3))
    return _task(name or f"orientation of {frame}", shape, _rotation(rotation), weight, rate, gain)


def pose_task(frame: str, rotation: ArrayLike, position: ArrayLike, *, reference: str = "world",
              components: Sequence[int] | None = None, weight: ArrayLike = 1.0, rate: ArrayLike = 0.0, gain: float = 1.0,
              name: str | None = None) -> Task:
    """Pose of ``frame`` in ``reference``: rotation [3, 3] and position [3] (m). The error is [linear; angular]."""
    target = np.concatenate([_rotation(rotation), _vector(position, 3, "position")])
    return _task(name or f"pose of {frame}", Shape("pose", frame, reference, components=_rows(components, 6)), target, weight, rate, gain)


def com_task(position: ArrayLike, *, components: Sequence[int] | None = None, weight: ArrayLike = 1.0, rate: ArrayLike = 0.0,
             gain: float = 1.0, name: str | None = None) -> Task:
    """Centre of mass at ``position`` [3] (m, world)."""
    return _task(name or "centre of mass", Shape("com", components=_rows(components, 3)), _vector(position, 3, "position"),
                 weight, rate, gain)


def posture_task(configuration: ArrayLike, *, joints: Sequence[str] | None = None, weight: ArrayLike = 1.0, rate: ArrayLike = 0.0,
                 gain: float = 1.0, name: str | None = None) -> Task:
    """The named joints (default: all) at ``configuration``, their coordinates one after the other."""
    target = np.asarray(configuration, float).ravel()
    shape = Shape("posture", joints=None if joints is None else tuple(joints))
    return _task(name or "posture", shape, target, weight, rate, gain)


def joint_task(joint: str, value: ArrayLike, *, weight: ArrayLike = 1.0, rate: ArrayLike = 0.0, gain: float = 1.0,
               name: str | None = None) -> Task:
    """One joint at ``value`` (rad or m; its coordinates for a joint with several)."""
    return posture_task(np.atleast_1d(np.asarray(value, float)), joints=(joint,), weight=weight, rate=rate, gain=gain,
                        name=name or f"joint {joint}")


def alignment_task(frame: str, axis: ArrayLike, direction: ArrayLike, *, reference: str = "world", weight: ArrayLike = 1.0,
                   rate: ArrayLike = 0.0, gain: float = 1.0, name: str | None = None) -> Task:
    """``axis`` [3] of ``frame`` along ``direction`` [3] of ``reference``. The chord error vanishes only when they agree; its
    length is 2 sin(half the angle), so opposite directions are a maximum that a solver leaves only by chance."""
    shape = Shape("alignment", frame, reference, axis=tuple(_unit(axis, "axis").tolist()))
    return _task(name or f"alignment of {frame}", shape, _unit(direction, "direction"), weight, rate, gain)


def aim_task(frame: str, axis: ArrayLike, point: ArrayLike, *, reference: str = "world", weight: ArrayLike = 1.0,
             rate: ArrayLike = 0.0, gain: float = 1.0, name: str | None = None) -> Task:
    """``axis`` [3] of ``frame`` from its origin towards ``point`` [3] (m) of ``reference`` (undefined at the point itself)."""
    shape = Shape("aim", frame, reference, axis=tuple(_unit(axis, "axis").tolist()))
    return _task(name or f"aim of {frame}", shape, _vector(point, 3, "point"), weight, rate, gain)


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
    """Compiled errors of the tasks (of their shapes: targets, weights and gains may change afterwards). Kept for the next call with the
    same robot and shapes. Raises UnknownNameError for frames and joints, ProblemError for no task."""
    if not tasks:
        raise ProblemError("needs at least one task", where="compile_tasks")
    return _compiled(_Robot(model), tuple(task.shape for task in tasks), mode)


class _Robot:
    """A model as a key: equal when the fingerprints are."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def __hash__(self) -> int:
        return hash(self.model.fingerprint)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Robot) and (self.model is other.model or self.model.fingerprint == other.model.fingerprint)


@lru_cache(maxsize=256)
def _compiled(robot: _Robot, shapes: tuple[Shape, ...], mode: Any) -> TaskKernel:
    function, starts, parameters = task_function(robot.model, shapes)
    return TaskKernel(robot.model, shapes, compile_kernel(function, mode), starts, parameters)


def task_function(model: Model, shapes: Sequence[Shape]) -> tuple[ca.Function, tuple[int, ...], tuple[int, ...]]:
    """(q, d, p) -> (q_next, e, J) as an SX Function, first rows of the tasks, first parameters of the tasks."""
    built = [_BUILDERS[shape.kind](model, shape) for shape in shapes]
    sizes = [size for size, _ in built]
    q, d, p = ca.SX.sym("q", model.nq), ca.SX.sym("d", model.nv), ca.SX.sym("p", sum(sizes))
    moved = ca.SX.sym("moved", model.nq)  # one name for q [+] d keeps the errors' expressions short
    ends = np.cumsum([0, *sizes]).tolist()
    errors, jacobians, rows = [], [], [0]
    for shape, (_, build), a, b in zip(shapes, built, ends, ends[1:], strict=False):
        e, J = build(moved, p[a:b])
        e, J = ca.SX(e), ca.SX(J)
        if shape.components is not None:
            e, J = e[list(shape.components)], J[list(shape.components), :]
        errors.append(ca.densify(e))
        jacobians.append(ca.densify(J))
        rows.append(rows[-1] + e.shape[0])
    at = ca.SX(alg.integrate(model, q, d))
    e, J = ca.substitute([ca.vertcat(*errors), ca.vertcat(*jacobians)], [moved], [at])
    outputs = ca.cse([ca.densify(at), ca.densify(e), ca.densify(J)])
    return ca.Function("tasks", [q, d, p], outputs, ["q", "d", "p"], ["q_next", "e", "J"]), tuple(rows), tuple(ends)


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
        raise ProblemError(f"joint {coupled[0]!r} has no coordinate of its own (it is fixed or mimics another)", where="posture task")

    def build(q: Expr, p: Expr) -> tuple[Expr, Expr]:
        errors, J, start, row = [], tree.zeros(sum(model.kind(i).nv for i in bodies), model.nv, q), 0, 0
        for i in bodies:
            kind, own, goal = model.kind(i), q[model.q_slice(i)], p[start:start + model.kind(i).nq]
            errors.append(kind.minus(goal, own))
            if kind.is_vector_space:
                block: Expr = ca.SX.eye(kind.nv)
            else:  # derivative along the manifold: the jet agrees with [+] to second order and has no branches at zero
                d = ca.SX.sym("d", kind.nv)
                block = ca.substitute(ca.jacobian(kind.minus(goal, kind.jet(own, d)), d), d, ca.SX.zeros(kind.nv))
            J[row:row + kind.nv, model.v_slice(i)] = block
            start, row = start + kind.nq, row + kind.nv
        return ca.vertcat(*errors), J
    return sum(model.kind(i).nq for i in bodies), build


_BUILDERS: dict[str, Callable[[Model, Shape], tuple[int, Build]]] = {
    "position": _position, "orientation": _orientation, "pose": _pose, "com": _com, "posture": _posture, "alignment": _alignment, "aim": _aim,
}


def _known(model: Model, shape: Shape, size: int) -> int:
    model.frame(shape.frame)
    model.frame(shape.reference)
    return size


def _task(name: str, shape: Shape, target: Array, weight: ArrayLike, rate: ArrayLike, gain: float) -> Task:
    if not np.isfinite(target).all():
        raise ProblemError("the target has entries that are not finite", where=f"task {name!r}")
    w, r = np.asarray(weight, float), np.asarray(rate, float)
    if not ((w > 0).all() and np.isfinite(w).all()):
        raise ProblemError(f"weights must be positive and finite, got {w.tolist()}", where=f"task {name!r}")
    return Task(name, shape, target, float(w) if w.ndim == 0 else w, float(r) if r.ndim == 0 else r, float(gain))


def _rows(components: Sequence[int] | None, rows: int) -> tuple[int, ...] | None:
    if components is None:
        return None
    chosen = tuple(int(c) for c in components)
    if not chosen or len(set(chosen)) < len(chosen) or not all(0 <= c < rows for c in chosen):
        raise ProblemError(f"expected different numbers from 0 to {rows - 1}, got {list(components)!r}", where="task components")
    return chosen


def _vector(value: ArrayLike, size: int, name: str) -> Array:
    array = np.asarray(value, float)
    if array.shape != (size,):
        raise ProblemError(f"{name} has shape {array.shape}, expected ({size},)", where="task")
    return array.copy()


def _unit(value: ArrayLike, name: str) -> Array:
    array = _vector(value, 3, name)
    length = float(np.linalg.norm(array))
    if not length > 0.0:
        raise ProblemError(f"{name} has no direction: {array.tolist()}", where="task")
    return array / length


def _rotation(value: ArrayLike) -> Array:
    R = np.asarray(value, float)
    if R.shape != (3, 3):
        raise ProblemError(f"rotation has shape {R.shape}, expected (3, 3)", where="task")
    if not np.isfinite(R).all() or np.abs(R.T @ R - np.eye(3)).max() > 1e-6 or np.linalg.det(R) < 0.0:
        raise ProblemError(f"not a rotation matrix (R'R = I, det R = 1): {R.tolist()}", where="task")
    return R.ravel(order="F").copy()
