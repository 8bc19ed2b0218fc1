"""SO(2): an element is its angle θ (1 x 1, rad), a tangent is an angular velocity times time (1 x 1, rad).

The group is commutative: the adjoint and all Jacobians are 1.
"""

import math

import casadi as ca

from dynamics.lie.expression import Expression, ExpressionLike, matrix, rows, scalar


def wrap(angle: ExpressionLike) -> Expression:
    """The equivalent angle in (-π, π]; derivative 1 on either side of the jump at odd multiples of π."""
    angle = scalar(angle, "angle")
    return angle - 2.0 * math.pi * ca.ceil((angle - math.pi) / (2.0 * math.pi))


def wrap_below(angle: ExpressionLike) -> Expression:
    """The equivalent angle in [-π, π), the range of Euler angles and azimuths; derivative 1 as for `wrap`."""
    angle = scalar(angle, "angle")
    return angle - 2.0 * math.pi * ca.floor((angle + math.pi) / (2.0 * math.pi))


def to_matrix(angle: ExpressionLike) -> Expression:
    """Rotation matrix (2 x 2) of an angle."""
    angle = scalar(angle, "angle")
    sine, cosine = ca.sin(angle), ca.cos(angle)
    return rows((cosine, -sine), (sine, cosine))


def from_matrix(rotation: ExpressionLike) -> Expression:
    """Angle in [-π, π] of a rotation matrix (2 x 2)."""
    r = matrix(rotation, 2, 2, "rotation")
    return ca.atan2(r[1, 0], r[0, 0])


def hat(omega: ExpressionLike) -> Expression:
    """Skew matrix (2 x 2) of a tangent."""
    omega = scalar(omega, "omega")
    return rows((0.0, -omega), (omega, 0.0))


def exp(omega: ExpressionLike) -> Expression:
    """Angle of a tangent; not wrapped, so that turns are kept."""
    return scalar(omega, "omega")


def log(angle: ExpressionLike) -> Expression:
    """Shortest tangent, in (-π, π], that leads to an angle."""
    return wrap(angle)


def compose(a: ExpressionLike, b: ExpressionLike) -> Expression:
    """Angle of the product; not wrapped."""
    return scalar(a, "a") + scalar(b, "b")


def inverse(angle: ExpressionLike) -> Expression:
    """Angle of the inverse rotation."""
    return -scalar(angle, "angle")


def integrate(angle: ExpressionLike, delta: ExpressionLike) -> Expression:
    """Angle δ away from `angle`; not wrapped."""
    return compose(angle, delta)


def difference(start: ExpressionLike, end: ExpressionLike) -> Expression:
    """Shortest tangent, in (-π, π], from one angle to the other; smooth while they are less than π apart."""
    return wrap(scalar(end, "end") - scalar(start, "start"))
