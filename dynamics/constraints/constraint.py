"""A constraint on a mechanism: one record with its value, Jacobian, rate and drift.

Positions are held by ``g(q, t) = 0`` and with it ``J v + dg/dt = 0``; a row that holds velocities alone says ``A(q) v = b(q, t)``
and has no g. Either way the rate ``J v - b`` vanishes along the motion, and so does its derivative ``J a + drift``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import fields
from functools import cached_property

import casadi as ca

from dynamics import spatial
from dynamics.algorithms import frame_jacobian, frame_jacobian_drift, frame_pose, rate_matrix
from dynamics.lie.expression import Expr
from dynamics.model.model import Model
from dynamics.spatial import Transform

#: the square of the cosine of half an angle, below which half a turn begins
SLIVER = 1e-3
#: 1/s at which violations of constraints decay unless they say otherwise, critically damped (Baumgarte 1972)
RATE = 10.0


class Constraint(ABC):
    """Scalar equations on positions, velocities, or both; they may be redundant. t [s]: time, for motions that are prescribed.

    Records are frozen, compare by value and have a ``repr`` that tells everything.
    """

    name: str
    gains: tuple[float, float] = (RATE**2, 2 * RATE)
    """(k, d) of the decay of violations, g'' + d g' + k g = 0 [1/s^2, 1/s]."""

    @abstractmethod
    def check(self, model: Model) -> None:
        """Raises ModelError or UnknownNameError where the record does not fit the robot."""

    @abstractmethod
    def value(self, model: Model, q: Expr, t: Expr = 0.0) -> Expr:
        """g [m], in m and rad; zero in velocity constraints."""

    @abstractmethod
    def jacobian(self, model: Model, q: Expr, t: Expr = 0.0) -> Expr:
        """J [m, nv] = dg/dq along the right perturbation of q, or A where velocities are constrained."""

    def size(self, model: Model) -> int:
        """m, the number of scalar equations."""
        return int(self.jacobian(model, ca.SX.sym("q", model.nq)).shape[0])

    @property
    def velocity_rows(self) -> tuple[int, ...]:
        """Numbers of the equations on velocities alone: no slip, no sideways motion."""
        return ()

    def position_rows(self, model: Model) -> tuple[int, ...]:
        """Numbers of the equations on positions."""
        return tuple(i for i in range(self.size(model)) if i not in self.velocity_rows)

    def facing(self, model: Model, q: Expr, t: Expr = 0.0) -> Expr:
        """Cosine of the angle of what is to be aligned, [1] or [0]: where g = 0 it is 1, or -1 where it is turned round by half."""
        return ca.DM(0, 1)

    def rate(self, model: Model, q: Expr, v: Expr, t: Expr = 0.0) -> Expr:
        """``J v + dg/dt``, or ``A v - b`` where velocities are constrained [m]: what vanishes along the motion."""
        return self.jacobian(model, q, t) @ v

    def drift(self, model: Model, q: Expr, v: Expr, t: Expr = 0.0) -> Expr:
        """Velocity terms [m] of the second derivative, which is ``J a`` + these: the derivative of the rate for a = 0, time
        included."""
        x, w, s = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv), ca.SX.sym("t")
        along = ca.vertcat(rate_matrix(model, x) @ w, 1)
        return ca.Function("drift", [x, w, s], [ca.jtimes(self.rate(model, x, w, s), ca.vertcat(x, s), along)])(q, v, t)

    @property
    def reduced(self) -> Constraint:
        """The same constraint in rows that do not repeat each other: what equations of motion hold."""
        return self

    def spread(self, model: Model, q: Expr, multipliers: Expr) -> Expr:
        """Multipliers of all rows [m] from those of ``reduced``: the smallest that have the same effect."""
        return multipliers

    def remaining(self, model: Model) -> Constraint | None:
        """What is left on a robot some of whose joints were locked."""
        return self


class FrameConstraint(Constraint):
    """A constraint on the motion of one or several frames, whatever moves them: everything follows from ``relation``.

    Its derivatives are those of the frames, in closed form, and of a relation between a handful of variables.
    """

    @property
    @abstractmethod
    def frames(self) -> tuple[str, ...]:
        """Names of frames, ``world`` among them where the world takes part."""

    def aligned(self, poses: Sequence[Transform], t: Expr) -> Expr:
        """``facing`` from the world poses of the frames."""
        return ca.DM(0, 1)

    def facing(self, model: Model, q: Expr, t: Expr = 0.0) -> Expr:
        return self.aligned(self._poses(model, q), t)

    @abstractmethod
    def relation(self, poses: Sequence[Transform], twists: Sequence[Expr], t: Expr) -> tuple[Expr, Expr]:
        """g and rate [m] from the world poses of the frames and their twists [6], body coordinates; affine in twists."""

    def value(self, model: Model, q: Expr, t: Expr = 0.0) -> Expr:
        return self.relation(self._poses(model, q), [ca.DM(6, 1)] * len(self.frames), t)[0]

    def rate(self, model: Model, q: Expr, v: Expr, t: Expr = 0.0) -> Expr:
        twists = [frame_jacobian(model, q, frame, "body") @ v for frame in self.frames]
        return self.relation(self._poses(model, q), twists, t)[1]

    def jacobian(self, model: Model, q: Expr, t: Expr = 0.0) -> Expr:
        rows = self.rate_derivatives[0](*self._entries(model, q), ca.DM(6 * len(self.frames), 1), t)
        return rows @ ca.vertcat(*(frame_jacobian(model, q, frame, "body") for frame in self.frames))

    def drift(self, model: Model, q: Expr, v: Expr, t: Expr = 0.0) -> Expr:
        twists = ca.vertcat(*(frame_jacobian(model, q, frame, "body") @ v for frame in self.frames))
        drifts = ca.vertcat(*(frame_jacobian_drift(model, q, v, frame, "body") for frame in self.frames))
        at = (*self._entries(model, q), twists, t)
        return self.rate_derivatives[1](*at) + self.rate_derivatives[0](*at) @ drifts

    def size(self, model: Model) -> int:
        return int(self.rate_derivatives[0].size1_out(0))

    @cached_property
    def rate_derivatives(self) -> tuple[ca.Function, ca.Function]:
        """(R [3, 3 k], p [3, k], V [6 k], t) -> the rate by V [m, 6 k], and its change as V carries the frames on [m]."""
        k = len(self.frames)
        R, p, V, t = ca.SX.sym("R", 3, 3 * k), ca.SX.sym("p", 3, k), ca.SX.sym("V", 6 * k), ca.SX.sym("t")
        rate = ca.densify(ca.SX(self.relation(*self.unpacked(R, p, V), t)[1]))
        carried = self.carried(R, p, V, t)
        return ca.Function("by_V", [R, p, V, t], [ca.jacobian(rate, V)]), ca.Function("carried", [R, p, V, t], [carried])

    def carried(self, R: Expr, p: Expr, V: Expr, t: Expr) -> Expr:
        """Change of the rate [m] as time passes and constant twists carry the frames along; arguments: symbols."""
        poses, twists = self.unpacked(R, p, V)
        turned = [x.R @ spatial.hat(spatial.angular(w)) for x, w in zip(poses, twists, strict=True)]
        moved = [x.R @ spatial.linear(w) for x, w in zip(poses, twists, strict=True)]
        rate = ca.densify(ca.SX(self.relation(poses, twists, t)[1]))
        return ca.jtimes(rate, ca.vertcat(ca.vec(R), ca.vec(p), t), ca.vertcat(*map(ca.vec, turned), *moved, 1))

    def unpacked(self, R: Expr, p: Expr, V: Expr) -> tuple[list[Transform], list[Expr]]:
        """Poses and twists of the frames from R [3, 3 k], p [3, k], V [6 k]."""
        count = range(len(self.frames))
        return [Transform(R[:, 3 * i:3 * i + 3], p[:, i]) for i in count], [V[6 * i:6 * i + 6] for i in count]

    def _poses(self, model: Model, q: Expr) -> list[Transform]:
        return [frame_pose(model, q, frame) for frame in self.frames]

    def _entries(self, model: Model, q: Expr) -> tuple[Expr, Expr]:
        poses = self._poses(model, q)
        return ca.horzcat(*(x.R for x in poses)), ca.horzcat(*(x.p for x in poses))

    def remaining(self, model: Model) -> Constraint | None:
        bodies = {model.frame(frame).body for frame in self.frames}
        return self if bodies - {-1} and (len(bodies) > 1 or len(self.frames) == 1) else None


def unfolded(sine: Expr, cosine: Expr, sine_rate: Expr, cosine_rate: Expr) -> tuple[Expr, Expr]:
    """(g, rate) [k] of an angle that is to be zero: twice the sine of its half, for the sine itself is zero at half a turn, too.

    sine [k]: along axes across; cosine: of the same angle. A smooth function that is zero at one rotation is zero at another: this
    one crosses zero within ``SLIVER`` of half a turn, so steeply that nothing settles there. Where g is zero so is the difference.
    """
    half = (1 + cosine) / 2 + SLIVER
    factor = ca.sqrt((1 + SLIVER) / half)
    return factor * sine, factor * (sine_rate - sine * (cosine_rate / (4 * half)))


def misaligned(R: Expr, spin: Expr) -> tuple[Expr, Expr]:
    """(g, rate) [3] of a rotation R that is to be none, by its skew part, unfolded; spin [3]: its angular velocity in its axes."""
    sine, trace = ca.inv_skew((R - R.T) / 2), ca.trace(R)
    return unfolded(sine, (trace - 1) / 2, (trace * spin - R.T @ spin) / 2, -ca.dot(sine, spin))


def point(pose: Transform, twist: Expr, at: Sequence[float]) -> tuple[Expr, Expr]:
    """World position and velocity [3] of a point [3] (m) fixed to a frame."""
    arm = spatial.constant(at)
    velocity = spatial.linear(twist) - spatial.hat(arm) @ spatial.angular(twist)
    return spatial.act_point(pose, arm), pose.R @ velocity


class ByContent:
    """Records that hold CasADi Functions compare by what these say, not by where they lie."""

    @cached_property
    def _text(self) -> str:
        def text_of(value: object) -> str:
            return str(value.serialize()) if isinstance(value, ca.Function) else repr(value)

        entries = (f"{f.name}={text_of(getattr(self, f.name))}" for f in fields(self))  # type: ignore[arg-type]  # they are dataclasses
        return f"{type(self).__name__}({', '.join(entries)})"

    def __repr__(self) -> str:
        return self._text

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(self._text)
