"""Vectors that know their frames: light records that refuse a composition whose frame names do not meet.

    A_H_B @ B_H_C     -> A_H_C            A_H_B @ B_p    -> A_p           A_H_B @ B_f   -> A_f
    C_H_D @ D_v_AB    -> C_v_AB           C_v_AB + C_v_BD -> C_v_AD       -C_v_AB       -> C_v_BA
    B_M @ B_v_AB      -> B_f (momentum)   B_f.power(B_v_AB)               D_J_AE @ nu   -> D_v_AE
    A_R_B @ B_R_C     -> A_R_C            A_R_B @ B_r_PQ -> A_r_PQ        A_r_PQ + A_r_QS -> A_r_PS

Values are CasADi expressions or numbers; the composite frame B[A] is the name ``"B[A]"``. Meant for set-up code, checks and
teaching: inner loops use the plain functions. Names after Traversaro and Saccon, Multibody dynamics notation, and for 3-vectors
after Hutter et al. 2023, Robot dynamics lecture notes, section 2.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, overload

import casadi as ca

from dynamics import spatial
from dynamics.algorithms.tree import as_column
from dynamics.errors import FrameMismatchError
from dynamics.lie.expression import Expr, column, matrix
from dynamics.notation import twists, wrenches
from dynamics.notation.representation import as_pose
from dynamics.spatial import Transform


def at_with_axes(B: str, A: str) -> str:
    """Name of the composite frame B[A]: origin of B, axes of A."""
    return f"{B}[{A}]"


def _meet(what: str, left: str, right: str) -> None:
    if left != right:
        raise FrameMismatchError(f"{what}: frame {left!r} meets frame {right!r}, they must be the same")


@dataclass(frozen=True)
class TaggedPoint:
    """``A_p`` [3] (m): coordinates of a point in A."""

    A: str
    value: Expr


@dataclass(frozen=True)
class TaggedVector:
    """``A_r_PQ`` [3] in A, from P to Q: points, or frames for an angular velocity, which adds in the same way."""

    A: str
    P: str
    Q: str
    value: Expr

    def __str__(self) -> str:
        return f"{self.A}_r_{self.P}{self.Q}"

    def __add__(self, other: TaggedVector) -> TaggedVector:
        _meet(f"{self} + {other}, coordinates", self.A, other.A)
        _meet(f"{self} + {other}, chain", self.Q, other.P)
        return TaggedVector(self.A, self.P, other.Q, column(self.value, 3, "value") + column(other.value, 3, "value"))

    def __neg__(self) -> TaggedVector:
        return TaggedVector(self.A, self.Q, self.P, -column(self.value, 3, "value"))

    def derivative(self, time: Expr, rate: Expr = 1.0) -> TaggedVector:
        """Entrywise derivative of a graph in ``time``, whose own derivative is ``rate``; the velocity only where A is inertial."""
        return TaggedVector(self.A, self.P, self.Q, ca.jacobian(column(self.value, 3, "value"), time) @ as_column(rate))


@dataclass(frozen=True)
class TaggedRotation:
    """``A_R_B`` [3, 3]: takes components in B to components in A."""

    A: str
    B: str
    value: Expr

    def inverse(self) -> TaggedRotation:
        """``B_R_A``."""
        return TaggedRotation(self.B, self.A, matrix(self.value, 3, 3, "value").T)

    @overload
    def __matmul__(self, other: TaggedRotation) -> TaggedRotation: ...
    @overload
    def __matmul__(self, other: TaggedVector) -> TaggedVector: ...
    def __matmul__(self, other: Any) -> Any:
        """Change components from B to A. Raises FrameMismatchError when the other is not in B."""
        _meet(f"{self.A}_R_{self.B} times {type(other).__name__}", self.B, other.A)
        R = matrix(self.value, 3, 3, "value")
        if isinstance(other, TaggedRotation):
            return TaggedRotation(self.A, other.B, R @ matrix(other.value, 3, 3, "value"))
        return TaggedVector(self.A, other.P, other.Q, R @ column(other.value, 3, "value"))


@dataclass(frozen=True)
class TaggedTwist:
    """``C_v_AB`` [6]: velocity of B with respect to A, in C."""

    C: str
    A: str
    B: str
    value: Expr

    def __str__(self) -> str:
        return f"{self.C}_v_{{{self.A},{self.B}}}"

    def __add__(self, other: TaggedTwist) -> TaggedTwist:
        _meet(f"{self} + {other}, coordinates", self.C, other.C)
        _meet(f"{self} + {other}, chain", self.B, other.A)
        return TaggedTwist(self.C, self.A, other.B, as_column(self.value) + as_column(other.value))

    def __neg__(self) -> TaggedTwist:
        return TaggedTwist(self.C, self.B, self.A, -as_column(self.value))

    def cross(self, other: TaggedTwist) -> Expr:
        """``C_v_AB x C_v_DE`` [6] in C."""
        _meet(f"{self} x {other}, coordinates", self.C, other.C)
        return spatial.cross_motion(as_column(self.value), as_column(other.value))


@dataclass(frozen=True)
class TaggedAcceleration:
    """Intrinsic ``C_a_AB`` [6]. An apparent acceleration has no such record: it is not a vector that changes coordinates."""

    C: str
    A: str
    B: str
    value: Expr


@dataclass(frozen=True)
class TaggedWrench:
    """``B_f`` [6]: a wrench in B (N, N m about the origin of B)."""

    B: str
    value: Expr

    def __add__(self, other: TaggedWrench) -> TaggedWrench:
        _meet("sum of wrenches, coordinates", self.B, other.B)
        return TaggedWrench(self.B, as_column(self.value) + as_column(other.value))

    def power(self, twist: TaggedTwist) -> Expr:
        """Pairing with a twist in the same coordinates (W)."""
        _meet(f"power of a wrench on {twist}, coordinates", self.B, twist.C)
        return wrenches.power(self.value, twist.value)


@dataclass(frozen=True)
class TaggedInertia:
    """``B_M_L`` [6, 6]: inertia of the link L in B."""

    B: str
    L: str
    value: Expr

    def __matmul__(self, twist: TaggedTwist) -> TaggedWrench:
        _meet(f"inertia times {twist}, coordinates", self.B, twist.C)
        _meet(f"inertia of {self.L!r} times {twist}, body", self.L, twist.B)
        return TaggedWrench(self.B, as_column(self.value) @ as_column(twist.value))


@dataclass(frozen=True)
class TaggedJacobian:
    """``D_J_AE/C`` [6, nv]: twist of E with respect to A, in D, from a velocity whose base twist is in C."""

    D: str
    A: str
    E: str
    C: str
    value: Expr

    def velocity(self, nu: Expr, C: str) -> TaggedTwist:
        """``D_v_AE`` from a generalised velocity nu [nv] whose base twist is in C."""
        _meet(f"{self.D}_J_{{{self.A},{self.E}/{self.C}}} times a velocity, base coordinates", self.C, C)
        return TaggedTwist(self.D, self.A, self.E, as_column(self.value) @ as_column(nu))


@dataclass(frozen=True)
class TaggedPose:
    """``A_H_B``: pose of B in A; H is anything that ``as_pose`` takes. A left-handed rotation is refused there."""

    A: str
    B: str
    H: Any

    @property
    def transform(self) -> Transform:
        """The pose as a `Transform`."""
        return as_pose(self.H)

    def inverse(self) -> TaggedPose:
        """``B_H_A``."""
        return TaggedPose(self.B, self.A, spatial.inverse(self.transform))

    def composite(self) -> TaggedPose:
        """``A_H_B[A]``."""
        return TaggedPose(self.A, at_with_axes(self.B, self.A), twists.composite(self.H))

    @overload
    def __matmul__(self, other: TaggedPose) -> TaggedPose: ...
    @overload
    def __matmul__(self, other: TaggedPoint) -> TaggedPoint: ...
    @overload
    def __matmul__(self, other: TaggedTwist) -> TaggedTwist: ...
    @overload
    def __matmul__(self, other: TaggedAcceleration) -> TaggedAcceleration: ...
    @overload
    def __matmul__(self, other: TaggedWrench) -> TaggedWrench: ...
    @overload
    def __matmul__(self, other: TaggedInertia) -> TaggedInertia: ...
    @overload
    def __matmul__(self, other: TaggedJacobian) -> TaggedJacobian: ...
    def __matmul__(self, other: Any) -> Any:
        """Change coordinates from B to A. Raises FrameMismatchError when the other is not in B."""
        H, what = self.transform, f"{self.A}_H_{self.B} times {type(other).__name__}"
        match other:
            case TaggedPose(B, C, inner):
                _meet(what, self.B, B)
                return TaggedPose(self.A, C, spatial.compose(H, as_pose(inner)))
            case TaggedPoint(B, value):
                _meet(what, self.B, B)
                return TaggedPoint(self.A, spatial.act_point(H, as_column(value)))
            case TaggedTwist(C, A, B, value):
                _meet(what, self.B, C)
                return TaggedTwist(self.A, A, B, spatial.motion_to_parent(H, as_column(value)))
            case TaggedAcceleration(C, A, B, value):
                _meet(what, self.B, C)
                return TaggedAcceleration(self.A, A, B, spatial.motion_to_parent(H, as_column(value)))
            case TaggedWrench(B, value):
                _meet(what, self.B, B)
                return TaggedWrench(self.A, spatial.force_to_parent(H, as_column(value)))
            case TaggedInertia(B, L, value):
                _meet(what, self.B, B)
                back = spatial.motion_matrix(spatial.inverse(H))
                return TaggedInertia(self.A, L, back.T @ as_column(value) @ back)
            case TaggedJacobian(D, A, E, C, value):
                _meet(what, self.B, D)
                return TaggedJacobian(self.A, A, E, C, spatial.motion_to_parent(H, as_column(value)))
        raise FrameMismatchError(f"{what}: a pose acts on poses, points, twists, accelerations, wrenches, inertias, Jacobians")
