"""Tasks: desired motions as an error e(q), its Jacobian J(q) and a desired rate.

Every error is "actual minus target" on its own manifold, zero at the target, and d/dt e = J v for the velocity v [nv] of the
model (body-frame tangent for floating bases and spherical joints). Jacobians are analytic: the geometric body Jacobian of the
frame, times the inverse right Jacobian of the rotation or pose error where the error is a logarithm (Sola, Deray, Atchuthan
2018, Eq. 144 and 179).

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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamics.constraints import Constraint, Contact
from dynamics.model.model import Model
from ocp.errors import ProblemError

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Shape:
    """The part of a task that enters compiled code: kind, frame, reference, axis in the frame, joints, selected components of the
    error, and the constraint of a task of kind "closure"."""

    kind: str
    frame: str = "world"
    reference: str = "world"
    axis: tuple[float, ...] = ()
    joints: tuple[str, ...] | None = None
    components: tuple[int, ...] | None = None
    constraint: Constraint | None = None


@dataclass(frozen=True, eq=False)
class Task:
    """One task: shape, target (parameters of its kind, flat, matrices column by column), weight per row of |e|², rate: desired
    d/dt e* [rows] of the target in the coordinates of the error (0: a constant target), gain [1/s]: feedback of e.

    At the level of velocities ``e' = rate - gain e``, at that of accelerations the error swings with the frequency ``gain``
    (rad/s): ``e'' = acceleration + 2 damping_ratio gain (rate - e') - gain² e``.
    """

    name: str
    shape: Shape
    target: Array
    weight: Array | float = 1.0
    rate: Array | float = 0.0
    gain: float = 1.0
    acceleration: Array | float = 0.0
    damping_ratio: float = 1.0

    def __post_init__(self) -> None:
        for name in ("target", "weight", "rate", "acceleration"):  # a task stays what it is: controllers know it by itself
            value = getattr(self, name)
            if isinstance(value, np.ndarray) and value.flags.writeable:
                value = value.copy()
                value.flags.writeable = False
                object.__setattr__(self, name, value)


class How(TypedDict, total=False):
    """Common arguments of all kinds of tasks, see ``Task``; name: default by kind and frame."""

    weight: ArrayLike
    rate: ArrayLike
    gain: float
    acceleration: ArrayLike
    damping_ratio: float
    name: str | None


def position_task(frame: str, position: ArrayLike, *, reference: str = "world", components: Sequence[int] | None = None,
                  **how: Unpack[How]) -> Task:
    """Origin of ``frame`` at ``position`` [3] (m) in the axes of ``reference``; components: which of x, y, z (0, 1, 2)."""
    shape = Shape("position", frame, reference, components=_rows(components, 3))
    return _task(f"position of {frame}", shape, _vector(position, 3, "position"), **how)


def orientation_task(frame: str, rotation: ArrayLike, *, reference: str = "world", components: Sequence[int] | None = None,
                     **how: Unpack[How]) -> Task:
    """Axes of ``frame`` as the columns of ``rotation`` [3, 3] in ``reference``; components: error axes, those of the target."""
    shape = Shape("orientation", frame, reference, components=_rows(components, 3))
    return _task(f"orientation of {frame}", shape, _rotation(rotation), **how)


def pose_task(frame: str, rotation: ArrayLike, position: ArrayLike, *, reference: str = "world",
              components: Sequence[int] | None = None, **how: Unpack[How]) -> Task:
    """Pose of ``frame`` in ``reference``: rotation [3, 3] and position [3] (m). The error is [linear; angular]."""
    target = np.concatenate([_rotation(rotation), _vector(position, 3, "position")])
    return _task(f"pose of {frame}", Shape("pose", frame, reference, components=_rows(components, 6)), target, **how)


def com_task(position: ArrayLike, *, components: Sequence[int] | None = None, **how: Unpack[How]) -> Task:
    """Centre of mass at ``position`` [3] (m, world)."""
    return _task("centre of mass", Shape("com", components=_rows(components, 3)), _vector(position, 3, "position"), **how)


def posture_task(configuration: ArrayLike, *, joints: Sequence[str] | None = None, **how: Unpack[How]) -> Task:
    """The named joints (default: all) at ``configuration``, their coordinates one after the other."""
    shape = Shape("posture", joints=None if joints is None else tuple(joints))
    return _task("posture", shape, np.asarray(configuration, float).ravel(), **how)


def joint_task(joint: str, value: ArrayLike, **how: Unpack[How]) -> Task:
    """One joint at ``value`` (rad or m; its coordinates for a joint with several)."""
    return _task(f"joint {joint}", Shape("posture", joints=(joint,)), np.atleast_1d(np.asarray(value, float)).ravel(), **how)


def alignment_task(frame: str, axis: ArrayLike, direction: ArrayLike, *, reference: str = "world", **how: Unpack[How]) -> Task:
    """``axis`` [3] of ``frame`` along ``direction`` [3] of ``reference``. The chord error vanishes only when they agree; its
    length is 2 sin(half the angle), so opposite directions are a maximum that a solver leaves only by chance."""
    shape = Shape("alignment", frame, reference, axis=tuple(_unit(axis, "axis").tolist()))
    return _task(f"alignment of {frame}", shape, _unit(direction, "direction"), **how)


def aim_task(frame: str, axis: ArrayLike, point: ArrayLike, *, reference: str = "world", **how: Unpack[How]) -> Task:
    """``axis`` [3] of ``frame`` from its origin towards ``point`` [3] (m) of ``reference`` (undefined at the point itself)."""
    shape = Shape("aim", frame, reference, axis=tuple(_unit(axis, "axis").tolist()))
    return _task(f"aim of {frame}", shape, _vector(point, 3, "point"), **how)


def closure_tasks(model: Model, constraints: Sequence[Constraint]) -> list[Task]:
    """Constraints of a mechanism as tasks that its positions meet them: loops are closed, gears mesh. Contacts are none: they hold
    where somebody takes them."""
    kept = [c for c in constraints if not isinstance(c, Contact) and c.position_rows(model)]
    return [Task(f"constraint {c.name!r}", Shape("closure", constraint=c, components=c.position_rows(model)), np.zeros(0))
            for c in kept]


def _task(kind: str, shape: Shape, target: Array, *, weight: ArrayLike = 1.0, rate: ArrayLike = 0.0, gain: float = 1.0,
          acceleration: ArrayLike = 0.0, damping_ratio: float = 1.0, name: str | None = None) -> Task:
    name = name or kind
    if not np.isfinite(target).all():
        raise ProblemError("the target has entries that are not finite", where=f"task {name!r}")
    w, r, a = np.asarray(weight, float), np.asarray(rate, float), np.asarray(acceleration, float)
    if not ((w > 0).all() and np.isfinite(w).all()):
        raise ProblemError(f"weights must be positive and finite, got {w.tolist()}", where=f"task {name!r}")
    weight_, rate_, acceleration_ = (float(x) if x.ndim == 0 else x for x in (w, r, a))
    return Task(name, shape, target, weight_, rate_, float(gain), acceleration_, float(damping_ratio))


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
