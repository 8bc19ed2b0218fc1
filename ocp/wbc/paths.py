"""Where the targets of tasks go: constants and functions of time, and smooth moves from one to the next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamics import algorithms as alg
from dynamics.lie import so3
from dynamics.model.model import Model
from ocp.control.tasks import Task
from ocp.control.whole_body import EffortTask, ForceTask, Item, MomentumTask

Array = NDArray[np.float64]
At = tuple[Array, Array, Array]
Source = Callable[[float], At]


def constant(value: ArrayLike) -> Source:
    """A target that is constant."""
    x = np.asarray(value, float)
    return lambda t: (x, np.zeros_like(x), np.zeros_like(x))


def moving(function: ca.Function) -> Source:
    """A target [n] that follows ``function(t)``; its rates by differentiation."""
    t = ca.SX.sym("t")
    x = ca.vec(ca.SX(function(t)))
    rate = ca.jacobian(x, t)
    both = ca.Function("target", [t], [ca.densify(x), ca.densify(rate), ca.densify(ca.jacobian(rate, t))])

    def at(time: float) -> At:
        value, first, second = (np.asarray(y.full()).ravel() for y in both(time))
        return value, first, second

    return at


@dataclass
class Path:
    """A target over time. kind: "vector" (numbers that may be added), "rotation" (a matrix [9], column by column) or "pose"
    (rotation [9], then position [3]). Rates and accelerations of rotations are in axes of the target, [linear; angular] of poses.

    Moves begin and end with zero rate and acceleration relative to what they leave and reach (quintic).
    """

    kind: str
    pieces: list[tuple[float, float, Source]] = field(default_factory=list)

    @staticmethod
    def of(kind: str, source: Source) -> Path:
        """A path that follows the source from the beginning."""
        return Path(kind, [(-np.inf, 0.0, source)])

    def move(self, time: float, over: float, source: Source) -> None:
        """From ``time`` (s) on, within ``over`` (s), to another source; moves come in the order of time."""
        self.pieces.append((time, over, source))

    def begin(self, value: ArrayLike, t: float = -np.inf) -> None:
        """Start the path at this value at a time (s), until the next move: where a task is taken up."""
        k = max(k for k, piece in enumerate(self.pieces) if piece[0] <= max(t, self.pieces[0][0]))
        self.pieces[k] = (self.pieces[k][0], 0.0, constant(value))

    def shifted(self, time: float, by: Array) -> Source:
        """Shift the path before ``time`` by ``by`` (vectors; the position of poses)."""
        last = max(k for k, piece in enumerate(self.pieces) if piece[0] < time)

        def source(t: float) -> At:
            x, rate, bend = self.pieces[last][2](t)  # what is there then: ``begin`` may have changed it
            x = x.copy()
            x[-by.size:] += by
            return x, rate, bend

        return source

    def at(self, t: float) -> At:
        """(target, rate, acceleration) at a time (s)."""
        begun = [k for k, (start, _, _) in enumerate(self.pieces) if start <= t]
        start, over, source = self.pieces[begun[-1]]
        here = self._as_rates(source(t))
        if not over or t >= start + over:
            return here
        s, first, second = _quintic((t - start) / over)
        leaving = self._as_rates(self.pieces[begun[-2]][2](t))
        return self._blend(leaving, here, s, first / over, second / over**2)

    def _as_rates(self, found: At) -> At:
        if self.kind == "vector" or found[1].size < 9:
            return found
        x, rate, second = found  # rotations are constant or follow moves alone
        tail = slice(9, None)
        return x, np.r_[rate[tail], np.zeros(3)], np.r_[second[tail], np.zeros(3)]

    def _blend(self, a: At, b: At, s: float, ds: float, dds: float) -> At:
        if self.kind == "vector":
            return _mixed(a, b, s, ds, dds)
        R, S = (np.reshape(x[0][:9], (3, 3), order="F") for x in (a, b))
        turn = np.asarray(ca.DM(so3.log(ca.DM(R.T @ S))).full()).ravel()
        now = R @ np.asarray(ca.DM(so3.exp(ca.DM(s * turn))).full())
        if self.kind == "rotation":
            return now.ravel(order="F"), ds * turn, dds * turn
        first, second = ((x[0][9:], x[1][:3], x[2][:3]) for x in (a, b))
        p, rate, bend = _mixed(first, second, s, ds, dds)
        return np.r_[now.ravel(order="F"), p], np.r_[now.T @ rate, ds * turn], np.r_[now.T @ bend, dds * turn]


def _mixed(a: At, b: At, s: float, ds: float, dds: float) -> At:
    apart = [y - x for x, y in zip(a, b, strict=True)]
    return (a[0] + s * apart[0], a[1] + s * apart[1] + ds * apart[0],
            a[2] + s * apart[2] + 2 * ds * apart[1] + dds * apart[0])


def _quintic(r: float) -> tuple[float, float, float]:
    """From 0 to 1 with no rate and no acceleration at both ends."""
    return r**3 * (10 - 15 * r + 6 * r**2), 30 * r**2 * (1 - r) ** 2, 60 * r * (1 - r) * (1 - 2 * r)


def at_target(item: Item, path: Path, t: float) -> Item:
    """An item with its target where the path is at a time (s)."""
    target, rate, bend = path.at(t)
    if isinstance(item, ForceTask):
        return replace(item, force=target)
    if isinstance(item, MomentumTask):
        return replace(item, target=target, rate=rate)
    if isinstance(item, EffortTask):
        return replace(item, effort=target)
    if item.shape.kind == "aim":
        return replace(item, target=target)
    chosen = slice(None) if item.shape.components is None else list(item.shape.components)
    return replace(item, target=target, rate=rate[chosen], acceleration=bend[chosen])


def value_at(model: Model, item: Task, q: Array) -> Array:
    """The target that a task would have to have to be met at q: where its frame, mass centre or joints are."""
    shape = item.shape
    if shape.kind == "com":
        return np.asarray(ca.DM(alg.centre_of_mass(model, ca.DM(q))).full()).ravel()
    if shape.kind == "posture":
        return np.concatenate([q[model.q_slice(model.joint_index(joint))] for joint in shape.joints or ()])
    A, B = (alg.frame_pose(model, ca.DM(q), name) for name in (shape.reference, shape.frame))
    R, S = np.asarray(ca.DM(A.R).full()), np.asarray(ca.DM(B.R).full())
    p = R.T @ (np.asarray(ca.DM(B.p).full()).ravel() - np.asarray(ca.DM(A.p).full()).ravel())
    turn = (R.T @ S).ravel(order="F")
    if shape.kind == "alignment":
        return R.T @ S @ np.asarray(shape.axis)
    return {"position": p, "orientation": turn, "pose": np.r_[turn, p]}.get(shape.kind, item.target)


def path_kind(item: Item) -> str:
    """How targets of an item move: see `Path`."""
    return {"orientation": "rotation", "pose": "pose"}.get(item.shape.kind, "vector") if isinstance(item, Task) else "vector"
