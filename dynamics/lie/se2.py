"""SE(2): a pose is (x, y, θ), 3 x 1, m and rad; a tangent is the body-frame twist [vx, vy, ω], linear first.

Angles of poses are not wrapped, so that turns are kept; `log` and `difference` return the shortest tangent.
Source of the formulas: Solà, Deray, Atchuthan 2018, "A micro Lie theory", Appendix C; the entire functions
are those of `series`: sin ω / ω = c_1(ω²), (1 - cos ω) / ω = ω c_2(ω²), (ω - sin ω) / ω² = ω c_3(ω²).
"""

import casadi as ca

from dynamics.lie import series, so2
from dynamics.lie.expression import Expression, ExpressionLike, column, rows, zeros


def exp(xi: ExpressionLike) -> Expression:
    """Pose (3 x 1) reached by the constant body twist ξ in unit time (Solà 2018, Eq. 156)."""
    xi = column(xi, 3, "xi")
    vx, vy, omega = xi[0], xi[1], xi[2]
    _, along, turning = series.stumpff(omega * omega, 2)
    across = omega * turning
    return ca.vertcat(along * vx - across * vy, across * vx + along * vy, omega)


def log(pose: ExpressionLike) -> Expression:
    """Tangent (3 x 1) with exp(log(X)) = X up to full turns, ω in (-π, π] (Solà 2018, Eq. 157)."""
    pose = column(pose, 3, "pose")
    x, y, omega = pose[0], pose[1], so2.wrap(pose[2])
    k, _ = series.cotangent(omega * omega)
    half = 0.5 * omega
    return ca.vertcat(k * x + half * y, k * y - half * x, omega)


def compose(a: ExpressionLike, b: ExpressionLike) -> Expression:
    """Pose a b (3 x 1)."""
    a, b = column(a, 3, "a"), column(b, 3, "b")
    sine, cosine = ca.sin(a[2]), ca.cos(a[2])
    return ca.vertcat(
        a[0] + cosine * b[0] - sine * b[1],
        a[1] + sine * b[0] + cosine * b[1],
        a[2] + b[2],
    )


def inverse(pose: ExpressionLike) -> Expression:
    """Pose X⁻¹ (3 x 1)."""
    pose = column(pose, 3, "pose")
    return _relative(pose[2], -pose)


def act(pose: ExpressionLike, point: ExpressionLike) -> Expression:
    """Point (2 x 1) given in the body frame, in the outer frame."""
    pose, point = column(pose, 3, "pose"), column(point, 2, "point")
    return pose[:2] + ca.mtimes(so2.to_matrix(pose[2]), point)


def to_matrix(pose: ExpressionLike) -> Expression:
    """Homogeneous matrix (3 x 3)."""
    pose = column(pose, 3, "pose")
    return rows((so2.to_matrix(pose[2]), pose[:2]), (zeros(1, 2), 1.0))


def hat(xi: ExpressionLike) -> Expression:
    """Matrix (3 x 3) of the Lie algebra, whose matrix exponential is `to_matrix(exp(xi))`."""
    xi = column(xi, 3, "xi")
    return rows((so2.hat(xi[2]), xi[:2]), (zeros(1, 3),))


def adjoint(pose: ExpressionLike) -> Expression:
    """Ad(X) (3 x 3): X exp(ξ) X⁻¹ = exp(Ad(X) ξ) (Solà 2018, Eq. 159)."""
    pose = column(pose, 3, "pose")
    return rows((so2.to_matrix(pose[2]), ca.vertcat(pose[1], -pose[0])), (zeros(1, 2), 1.0))


def right_jacobian(xi: ExpressionLike) -> Expression:
    """J_r(ξ) (3 x 3): exp(ξ + δ) = exp(ξ) exp(J_r(ξ) δ) to first order (Solà 2018, Eq. 163)."""
    xi = column(xi, 3, "xi")
    vx, vy, omega = xi[0], xi[1], xi[2]
    _, along, turning, lag = series.stumpff(omega * omega, 3)
    across, late = omega * turning, omega * lag
    return rows(
        (along, across, late * vx - turning * vy),
        (-across, along, late * vy + turning * vx),
        (zeros(1, 2), 1.0),
    )


def left_jacobian(xi: ExpressionLike) -> Expression:
    """J_l(ξ) = J_r(-ξ) (3 x 3): exp(ξ + δ) = exp(J_l(ξ) δ) exp(ξ) to first order."""
    return right_jacobian(-column(xi, 3, "xi"))


def right_jacobian_inverse(xi: ExpressionLike) -> Expression:
    """J_r(ξ)⁻¹ (3 x 3) for |ω| < 2π.

    With planar vectors as complex numbers and V = (1 - exp(-iω)) / (iω) the linear block, the last column of
    J_r is (1 - V) v / ω, hence that of the inverse (1 - V⁻¹) v / ω, and V⁻¹ = (ω/2) cot(ω/2) + iω/2.
    """
    xi = column(xi, 3, "xi")
    vx, vy, omega = xi[0], xi[1], xi[2]
    k, quadratic = series.cotangent(omega * omega)
    half, late = 0.5 * omega, omega * quadratic
    return rows(
        (k, -half, late * vx + 0.5 * vy),
        (half, k, late * vy - 0.5 * vx),
        (zeros(1, 2), 1.0),
    )


def left_jacobian_inverse(xi: ExpressionLike) -> Expression:
    """J_l(ξ)⁻¹ = J_r(-ξ)⁻¹ (3 x 3) for |ω| < 2π."""
    return right_jacobian_inverse(-column(xi, 3, "xi"))


def integrate(pose: ExpressionLike, delta: ExpressionLike) -> Expression:
    """X exp(δ) (3 x 1), for the body-frame tangent δ (3 x 1)."""
    return compose(pose, exp(delta))


def difference(start: ExpressionLike, end: ExpressionLike) -> Expression:
    """δ = log(X0⁻¹ X1) (3 x 1, body frame of X0); smooth while the headings are less than π apart."""
    start, end = column(start, 3, "start"), column(end, 3, "end")
    return log(_relative(start[2], end - start))


def _relative(angle: Expression, offset: Expression) -> Expression:
    """Offset (3 x 1) between two poses, its linear part turned by -angle."""
    sine, cosine = ca.sin(angle), ca.cos(angle)
    return ca.vertcat(
        cosine * offset[0] + sine * offset[1],
        cosine * offset[1] - sine * offset[0],
        offset[2],
    )
