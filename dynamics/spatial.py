"""Spatial (6-D) algebra: the one owner of component order.

Motion vectors are twists ``[linear; angular]`` and force vectors are wrenches ``[force; moment]``, both in the
coordinates of the body (left-trivialised) unless a name says otherwise. Nothing outside this file indexes into a
6-vector: use :func:`motion`, :func:`linear`, :func:`angular`.

Everything is generic over CasADi SX, MX and DM. Sources: Featherstone, Rigid Body Dynamics Algorithms (2008), chapter 2,
with the two 3-blocks exchanged; Traversaro and Saccon, Multibody dynamics notation, for names.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from dynamics.errors import ModelError

Expr = Any  # ca.SX | ca.MX | ca.DM; CasADi ships no usable common type


class Transform(NamedTuple):
    """Pose of frame B in frame A, ``A_H_B``: rotation ``R`` [3, 3] (A_R_B) and origin ``p`` [3] (A_o_B, m)."""

    R: Expr
    p: Expr


class Inertia(NamedTuple):
    """Rigid-body inertia in body coordinates: mass [kg], first moment ``h = m c`` [kg m], rotational inertia
    ``I`` [3, 3] about the BODY ORIGIN [kg m^2]."""

    m: Expr
    h: Expr
    I: Expr


# ------------------------------------------------------------------------------------------------ component order
def motion(linear_part: Expr, angular_part: Expr) -> Expr:
    """Stack a twist (or any motion vector) from its linear and angular parts [3] -> [6]."""
    return ca.vertcat(linear_part, angular_part)


def linear(vector: Expr) -> Expr:
    """Linear part of a twist, force part of a wrench: [6, k] -> [3, k]."""
    return vector[0:3, :]


def angular(vector: Expr) -> Expr:
    """Angular part of a twist, moment part of a wrench: [6, k] -> [3, k]."""
    return vector[3:6, :]


force = motion  # a wrench stacks [force; moment] in the same order


def blocks(ll: Expr, la: Expr, al: Expr, aa: Expr) -> Expr:
    """6x6 operator from its [3, 3] blocks linear-linear, linear-angular, angular-linear, angular-angular."""
    return ca.blockcat([[ll, la], [al, aa]])


def exchange(vectors: Expr) -> Expr:
    """Angular-first vectors [6, k] from ours, and ours from angular-first ones: its own inverse."""
    return motion(angular(vectors), linear(vectors))


def exchange_operator(operator: Expr) -> Expr:
    """Angular-first 6x6 operator from ours and back, ``P A P``. It makes a motion operator *look like* a force operator of
    the other order and the reverse, so only duality (power) tells the two apart."""
    return exchange(exchange(operator).T).T


# ------------------------------------------------------------------------------------------------ 3-vectors
def hat(a: Expr) -> Expr:
    """Cross-product matrix: ``hat(a) b = a x b``, [3] -> [3, 3]."""
    return ca.skew(a)


def constant(array: Any) -> ca.DM:
    """A numeric array as a sparse DM, so that structural zeros never reach the expression graph."""
    return ca.sparsify(ca.DM(np.asarray(array, dtype=float)))


# ------------------------------------------------------------------------------------------------ transforms
def identity() -> Transform:
    """The transform of coinciding frames."""
    return Transform(constant(np.eye(3)), constant(np.zeros(3)))


def compose(A_H_B: Transform, B_H_C: Transform) -> Transform:
    """``A_H_C = A_H_B B_H_C``."""
    return Transform(A_H_B.R @ B_H_C.R, A_H_B.p + A_H_B.R @ B_H_C.p)


def inverse(A_H_B: Transform) -> Transform:
    """The transform B_H_A."""
    return Transform(A_H_B.R.T, -(A_H_B.R.T @ A_H_B.p))


def act_point(A_H_B: Transform, B_p: Expr) -> Expr:
    """Position [3] in A of a point with position B_p [3] in B."""
    return A_H_B.R @ B_p + A_H_B.p


def motion_to_parent(A_H_B: Transform, B_v: Expr) -> Expr:
    """Motion vectors from B to A coordinates: ``A_X_B v``; RBDA (2.24) re-ordered. [6, k] -> [6, k]."""
    w = A_H_B.R @ angular(B_v)
    return motion(A_H_B.R @ linear(B_v) + hat(A_H_B.p) @ w, w)


def motion_to_child(A_H_B: Transform, A_v: Expr) -> Expr:
    """Motion vectors from A to B coordinates: ``B_X_A v``. [6, k] -> [6, k]."""
    w = angular(A_v)
    return motion(A_H_B.R.T @ (linear(A_v) - hat(A_H_B.p) @ w), A_H_B.R.T @ w)


def force_to_parent(A_H_B: Transform, B_f: Expr) -> Expr:
    """Force vectors from B to A coordinates: ``B_X_A^T f``. [6, k] -> [6, k]."""
    f = A_H_B.R @ linear(B_f)
    return force(f, A_H_B.R @ angular(B_f) + hat(A_H_B.p) @ f)


def force_to_child(A_H_B: Transform, A_f: Expr) -> Expr:
    """Force vectors from A to B coordinates: ``A_X_B^T f``. [6, k] -> [6, k]."""
    f = linear(A_f)
    return force(A_H_B.R.T @ f, A_H_B.R.T @ (angular(A_f) - hat(A_H_B.p) @ f))


def motion_matrix(A_H_B: Transform) -> Expr:
    """The 6x6 matrix ``A_X_B`` (adjoint) of :func:`motion_to_parent`."""
    R = A_H_B.R
    return ca.blockcat([[R, hat(A_H_B.p) @ R], [ca.DM(3, 3), R]])


def force_matrix(A_H_B: Transform) -> Expr:
    """The 6x6 matrix ``A_X^B = (B_X_A)^T`` of :func:`force_to_parent`; Traversaro and Saccon, Eq. 59."""
    R = A_H_B.R
    return ca.blockcat([[R, ca.DM(3, 3)], [hat(A_H_B.p) @ R, R]])


# ------------------------------------------------------------------------------------------------ cross products
def cross_motion(v: Expr, m: Expr) -> Expr:
    """``v x m`` for motion vectors (little adjoint), RBDA (2.31). [6], [6, k] -> [6, k]."""
    vv, w = hat(linear(v)), hat(angular(v))
    return motion(w @ linear(m) + vv @ angular(m), w @ angular(m))


def cross_force(v: Expr, f: Expr) -> Expr:
    """``v x* f`` for force vectors, RBDA (2.32); dual of :func:`cross_motion`. [6], [6, k] -> [6, k]."""
    vv, w = hat(linear(v)), hat(angular(v))
    return force(w @ linear(f), w @ angular(f) + vv @ linear(f))


def cross_motion_matrix(v: Expr) -> Expr:
    """The 6x6 matrix ``v x`` of :func:`cross_motion`; Traversaro and Saccon, Eq. 38."""
    w = hat(angular(v))
    return ca.blockcat([[w, hat(linear(v))], [ca.DM(3, 3), w]])


def cross_force_matrix(v: Expr) -> Expr:
    """The 6x6 matrix ``v x* = -(v x)^T`` of :func:`cross_force`; Traversaro and Saccon, Eq. 62."""
    w = hat(angular(v))
    return ca.blockcat([[w, ca.DM(3, 3)], [hat(linear(v)), w]])


def cross_swapped_matrix(f: Expr) -> Expr:
    """The skew 6x6 matrix that takes a twist v to ``v x* f``: the dual cross product as a map of its twist."""
    n = hat(linear(f))
    return ca.blockcat([[ca.DM(3, 3), -n], [-n, -hat(angular(f))]])


# ------------------------------------------------------------------------------------------------ inertia
def inertia_from_com(mass: float, com: Any, I_com: Any) -> Inertia:
    """Inertia about the body origin from mass [kg], centre of mass [3] (m) and inertia about it [3, 3] (kg m^2).

    Parallel-axis theorem, RBDA (2.63). Raises ModelError where that is no finite number.
    """
    c = np.asarray(com, float)
    C = np.array([[0, -c[2], c[1]], [c[2], 0, -c[0]], [-c[1], c[0], 0]])
    with np.errstate(all="ignore"):
        I = np.asarray(I_com, float) + mass * C @ C.T
    if not np.isfinite(I).all():
        raise ModelError(f"a mass of {mass:g} kg at {c.tolist()} m has no finite inertia about the origin of its body")
    return Inertia(constant(mass), constant(mass * c), constant(I))


def apply_inertia(inertia: Inertia, v: Expr) -> Expr:
    """Momentum ``I v`` [6, k] of a motion vector [6, k], RBDA (2.63) re-ordered."""
    hx = hat(inertia.h)
    return force(inertia.m * linear(v) - hx @ angular(v), hx @ linear(v) + inertia.I @ angular(v))


def transform_inertia(A_H_B: Transform, inertia: Inertia) -> Inertia:
    """Express an inertia given in B in A coordinates, about A's origin. RBDA (2.66)."""
    R, p, m = A_H_B.R, A_H_B.p, inertia.m
    Rh = R @ inertia.h
    # -(p^ r^ + r^ p^) - m p^ p^ = -(p^ s^ + s^ p^) with s = r + m p / 2, and p^ s^ = s p^T - (p . s) 1
    s = Rh + m * p / 2
    sp, ps = s @ p.T, s.T @ p
    moved = R @ inertia.I @ R.T + 2 * ps * ca.DM.eye(3) - sp - sp.T
    # the tensor is symmetric: its lower triangle copies the upper one and costs nothing
    return Inertia(m, Rh + m * p, ca.triu2symm(ca.triu(moved)))


def add_inertia(a: Inertia, b: Inertia) -> Inertia:
    """Spatial inertia of two bodies welded together, in a common frame."""
    return Inertia(a.m + b.m, a.h + b.h, a.I + b.I)


def inertia_matrix(inertia: Inertia) -> Expr:
    """Symmetric 6x6 spatial inertia ``[[m 1, -h^], [h^, I]]``."""
    hx = hat(inertia.h)
    return ca.blockcat([[inertia.m * ca.DM.eye(3), -hx], [hx, inertia.I]])
