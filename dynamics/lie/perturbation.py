"""Derivatives of rotation algebra with respect to rotations, for perturbations on the left and on the right.

The derivative of f(R) along d is that of f(R ⊞ d), with f(R ⊞ d) ⊟ f(R) in place of the difference when f is a
rotation. On the right, the convention of the whole package, R ⊞ d = R exp(d) with d in the body frame; on the left
R ⊞ v = exp(v) R with v in the world frame. R exp(d) = exp(R d) R takes one into the other.
Source, left: Gehring et al., "Kindr cheat sheet" (with R1 ⊟ R2 in the last line, and its derivative in R2);
right: Solà, Deray, Atchuthan 2018, "A micro Lie theory", Eqs. 143-151.
"""

from collections.abc import Callable
from dataclasses import dataclass

import casadi as ca

from dynamics.lie import so3
from dynamics.lie.expression import Expression, ExpressionLike, column, matrix

Unary = Callable[[ExpressionLike], Expression]
Binary = Callable[[ExpressionLike, ExpressionLike], Expression]


@dataclass(frozen=True)
class Perturbation:
    """The box operators of one side and the derivatives (3 x 3) they give; R is 3 x 3, r, v and d are 3 x 1."""

    side: str
    plus: Binary
    """R, d -> R ⊞ d."""
    minus: Binary
    """R1, R0 -> R1 ⊟ R0, with R0 ⊞ (R1 ⊟ R0) = R1."""
    rotate_by_rotation: Binary
    """R, r -> derivative of R r in R."""
    rotate_by_vector: Binary
    """R, r -> derivative of R r in r."""
    inverse: Unary
    """R -> derivative of Rᵀ."""
    compose_by_first: Binary
    """R1, R2 -> derivative of R1 R2 in R1."""
    compose_by_second: Binary
    """R1, R2 -> derivative of R1 R2 in R2."""
    exp: Unary
    """v -> derivative of exp(v)."""
    log: Unary
    """R -> derivative of log(R)."""
    minus_by_end: Binary
    """R1, R0 -> derivative of R1 ⊟ R0 in R1."""
    minus_by_start: Binary
    """R1, R0 -> derivative of R1 ⊟ R0 in R0."""
    plus_by_rotation: Binary
    """R, d -> derivative of R ⊞ d in R."""
    plus_by_vector: Binary
    """R, d -> derivative of R ⊞ d in d."""


def _r(rotation: ExpressionLike) -> Expression:
    return matrix(rotation, 3, 3, "rotation")


def _left_minus(end: ExpressionLike, start: ExpressionLike) -> Expression:
    return so3.log(ca.mtimes(_r(end), _r(start).T))


def _right_minus(end: ExpressionLike, start: ExpressionLike) -> Expression:
    return so3.difference(start, end)


def _identity(a: ExpressionLike, b: ExpressionLike) -> Expression:
    return ca.DM.eye(3)


LEFT = Perturbation(
    side="left",
    plus=lambda rotation, v: ca.mtimes(so3.exp(v), _r(rotation)),
    minus=_left_minus,
    rotate_by_rotation=lambda rotation, r: -so3.hat(ca.mtimes(_r(rotation), column(r, 3, "r"))),
    rotate_by_vector=lambda rotation, r: _r(rotation),
    inverse=lambda rotation: -_r(rotation).T,
    compose_by_first=_identity,
    compose_by_second=lambda first, second: _r(first),
    exp=so3.left_jacobian,
    log=lambda rotation: so3.left_jacobian_inverse(so3.log(rotation)),
    minus_by_end=lambda end, start: so3.left_jacobian_inverse(_left_minus(end, start)),
    minus_by_start=lambda end, start: -so3.right_jacobian_inverse(_left_minus(end, start)),
    plus_by_rotation=lambda rotation, v: so3.exp(v),
    plus_by_vector=lambda rotation, v: so3.left_jacobian(v),
)
"""R ⊞ v = exp(v) R."""

RIGHT = Perturbation(
    side="right",
    plus=so3.integrate,
    minus=_right_minus,
    rotate_by_rotation=lambda rotation, r: -ca.mtimes(_r(rotation), so3.hat(r)),
    rotate_by_vector=lambda rotation, r: _r(rotation),
    inverse=lambda rotation: -_r(rotation),
    compose_by_first=lambda first, second: _r(second).T,
    compose_by_second=_identity,
    exp=so3.right_jacobian,
    log=lambda rotation: so3.right_jacobian_inverse(so3.log(rotation)),
    minus_by_end=lambda end, start: so3.right_jacobian_inverse(_right_minus(end, start)),
    minus_by_start=lambda end, start: -so3.left_jacobian_inverse(_right_minus(end, start)),
    plus_by_rotation=lambda rotation, d: so3.exp(d).T,
    plus_by_vector=lambda rotation, d: so3.right_jacobian(d),
)
"""R ⊞ d = R exp(d)."""
