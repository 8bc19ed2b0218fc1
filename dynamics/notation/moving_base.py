"""Floating-base equations in any representation of the base velocity, and with any body as the base.

The model velocity v carries the left-trivialised twist of the base; ``nu`` is the same motion with the base twist in another
representation, ``v = Y nu``, and (M, h, tau) follow by

    M_nu = Y^T M Y,   h_nu = Y^T (h + M dY/dt nu),   J_nu = J Y,   tau_nu = Y^T tau,   a = Y dnu/dt + dY/dt nu.

The base is the one free-flyer that hangs from the world. Source: Traversaro and Saccon, Multibody dynamics notation, sections 8
and 9 (Eqs. 75-83); ANYbotics/kindr cheat sheet, "Transformation of EoM".
"""

from __future__ import annotations

import casadi as ca

from dynamics import algorithms as alg
from dynamics import spatial
from dynamics.algorithms import jacobian_rate, kinematics, tree
from dynamics.algorithms.floating_base import base_index, base_pose
from dynamics.algorithms.tree import as_column
from dynamics.errors import ModelError
from dynamics.lie.expression import Expr
from dynamics.model.model import Model
from dynamics.notation.representation import (
    motion_map,
    motion_map_inverse,
    motion_map_inverse_rate,
    motion_map_rate,
)


def has_base(model: Model) -> bool:
    """True when the robot has a moving base."""
    return sum(b.parent < 0 and b.joint.kind == "free_flyer" for b in model.bodies) == 1


def _embed(model: Model, block: Expr, rest: float) -> Expr:
    """[nv, nv] with the base block and ``rest`` times the identity for the joints: ``B_Y_C``, Eq. 76."""
    vs = model.v_slice(base_index(model))
    others = ca.DM.eye if rest else lambda n: ca.DM(n, n)
    return ca.diagcat(others(vs.start), block, others(model.nv - vs.stop))


# ------------------------------------------------------------------------------------------------ change of velocity
def twist_joint_transform(model: Model, B_X_C: Expr) -> Expr:
    """``B_Y_C = diag(B_X_C, 1)`` [nv, nv] for any 6x6 map of the base twist; Traversaro and Saccon, Eq. 76."""
    block = as_column(B_X_C)
    return _embed(model, block, 1.0)


def velocity_map(model: Model, q: Expr, representation: str) -> Expr:
    """Y [nv, nv] with ``v = Y nu``: from the base twist in ``representation`` to the model velocity."""
    q = as_column(q)
    return _embed(model, motion_map_inverse(base_pose(model, q), representation), 1.0)


def velocity_map_inverse(model: Model, q: Expr, representation: str) -> Expr:
    """Y^-1 [nv, nv] with ``nu = Y^-1 v``, by structure."""
    q = as_column(q)
    return _embed(model, motion_map(base_pose(model, q), representation), 1.0)


def velocity_map_rate(model: Model, q: Expr, v: Expr, representation: str) -> Expr:
    """dY/dt [nv, nv] along the model velocity v."""
    q, v = as_column(q), as_column(v)
    B_v = v[model.v_slice(base_index(model))]
    return _embed(model, motion_map_inverse_rate(base_pose(model, q), B_v, representation), 0.0)


def convert_velocity(model: Model, q: Expr, nu: Expr, source: str, target: str) -> Expr:
    """Generalised velocity [nv] with the base twist in another representation."""
    return velocity_map_inverse(model, q, target) @ (velocity_map(model, q, source) @ as_column(nu))


def convert_acceleration(model: Model, q: Expr, nu: Expr, nu_dot: Expr, source: str, target: str) -> Expr:
    """Entrywise derivative [nv] of the generalised velocity in the target representation; nu, nu_dot in the source one."""
    v = velocity_map(model, q, source) @ as_column(nu)
    a = velocity_map(model, q, source) @ as_column(nu_dot) + velocity_map_rate(model, q, v, source) @ as_column(nu)
    B_v = v[model.v_slice(base_index(model))]
    rate = _embed(model, motion_map_rate(base_pose(model, q), B_v, target), 0.0)
    return velocity_map_inverse(model, q, target) @ a + rate @ v


def convert_force(model: Model, q: Expr, tau: Expr, source: str, target: str) -> Expr:
    """Generalised force [nv] with the base wrench in another representation; ``tau^T nu`` is kept."""
    return velocity_map(model, q, target).T @ (velocity_map_inverse(model, q, source).T @ as_column(tau))


def transform_dynamics(M: Expr, h: Expr, Y: Expr, Y_dot: Expr, nu: Expr) -> tuple[Expr, Expr]:
    """(M, h) of ``M a + h = tau`` under ``v = Y nu``: ``(Y^T M Y, Y^T (h + M dY/dt nu))``, for any invertible Y [nv, nv]."""
    M, Y = as_column(M), as_column(Y)
    return Y.T @ M @ Y, Y.T @ (as_column(h) + M @ (as_column(Y_dot) @ as_column(nu)))


# ------------------------------------------------------------------------------------------------ equations of motion
def mass_matrix(model: Model, q: Expr, representation: str = "left") -> Expr:
    """M [nv, nv] for the base twist in a representation. q: [nq]."""
    Y = velocity_map(model, q, representation)
    return Y.T @ alg.mass_matrix(model, q) @ Y


def bias_force(model: Model, q: Expr, nu: Expr, representation: str = "left") -> Expr:
    """h = C nu + G (+ damping) [nv] for the base twist in a representation: ``M dnu/dt + h = tau``."""
    Y = velocity_map(model, q, representation)
    v = Y @ as_column(nu)
    rate = velocity_map_rate(model, q, v, representation)
    return Y.T @ (alg.bias_force(model, q, v) + alg.mass_matrix(model, q) @ (rate @ as_column(nu)))


def gravity_force(model: Model, q: Expr, representation: str = "left") -> Expr:
    """G [nv] for the base twist in a representation."""
    return velocity_map(model, q, representation).T @ alg.gravity_force(model, q)


def coriolis_matrix(model: Model, q: Expr, nu: Expr, representation: str = "left") -> Expr:
    """C [nv, nv] with ``C nu`` the velocity-product force and ``dM/dt - 2 C`` skew, for the base twist in a representation.

    ``C = sum J^T (M_i dJ/dt + (M_i v_i) x~ J)`` over the bodies, in body coordinates, where ``f x~`` is the dual cross
    product as a map of its twist: it is skew, hence the property (Echeandia and Wensing 2021, Numerical methods to compute
    the Coriolis matrix and Christoffel symbols, section 3). The change of representation keeps it: ``Y^T (M dY/dt + C Y)``.
    Serves fixed-base robots too (left only).
    """
    q, nu = as_column(q), as_column(nu)
    v = nu if representation == "left" else velocity_map(model, q, representation) @ nu
    C = tree.zeros(model.nv, model.nv, q, nu)
    M = tree.zeros(model.nv, model.nv, q, nu)
    twists = kinematics.body_velocities(model, q, v)
    for i, body in enumerate(model.bodies):
        inertia = spatial.inertia_from_com(body.inertia.mass, body.inertia.com, body.inertia.inertia)
        J = alg.frame_jacobian(model, q, body.name, "body")
        rate = jacobian_rate.frame_jacobian_rate(model, q, v, body.name, "body")
        swapped = spatial.cross_swapped_matrix(spatial.apply_inertia(inertia, twists[i]))
        C += J.T @ (spatial.apply_inertia(inertia, rate) + swapped @ J)
        M += J.T @ spatial.apply_inertia(inertia, J)
    if representation == "left":
        return C
    Y = velocity_map(model, q, representation)
    M = M + ca.diag(tree.diagonal(model, "armature"))
    return Y.T @ (M @ velocity_map_rate(model, q, v, representation) + C @ Y)


def selection_matrix(model: Model) -> ca.DM:
    """S [nv, nv - 6] of ``S tau``: joints are actuated, the base is not; Traversaro and Saccon, footnote 2."""
    vs = model.v_slice(base_index(model))
    keep = [k for k in range(model.nv) if not vs.start <= k < vs.stop]
    return ca.sparsify(ca.DM.eye(model.nv)[:, keep])


def configuration_rate(model: Model, q: Expr, nu: Expr, representation: str = "mixed") -> Expr:
    """dq/dt [nq] from the generalised velocity: ``dq/dt = N(q) Y nu``; Traversaro and Saccon, Eqs. 77-79."""
    return alg.rate_matrix(model, q) @ (velocity_map(model, q, representation) @ as_column(nu))


# ------------------------------------------------------------------------------------------------ change of base
def base_change(model: Model, q: Expr, frame: str) -> Expr:
    """T [nv, nv] with ``nu = T v``: the base twist of v replaced by the left-trivialised twist of ``frame``, joints kept.

    With ``Y = T^-1`` (:func:`base_change_inverse`) everything in this file applies: any link can serve as the moving base.
    """
    q = as_column(q)
    T = _embed(model, tree.zeros(6, 6, q), 1.0)
    T[model.v_slice(base_index(model)), :] = alg.frame_jacobian(model, q, frame, "body")
    return T


def base_change_inverse(model: Model, q: Expr, frame: str) -> Expr:
    """T^-1 [nv, nv] by structure: ``B_v = B_X_F (F_v - J_s ds/dt)``. The frame must be carried by the base's tree."""
    q = as_column(q)
    i = base_index(model)
    vs = model.v_slice(i)
    body = model.frame(frame).body
    if i not in alg.jacobians.support(model, body):
        raise ModelError(f"frame {frame!r} does not move with the base {model.bodies[i].name!r}: it cannot replace it")
    J = alg.frame_jacobian(model, q, frame, "body")
    F_H_B = spatial.compose(spatial.inverse(alg.frame_pose(model, q, frame)), base_pose(model, q))
    back = spatial.motion_matrix(spatial.inverse(F_H_B))
    T = _embed(model, tree.zeros(6, 6, q), 1.0)
    T[vs, :] = -back @ J
    T[vs, vs] = back
    return T


def base_change_inverse_rate(model: Model, q: Expr, v: Expr, frame: str) -> Expr:
    """d(T^-1)/dt [nv, nv] along the model velocity v: ``-T^-1 dT/dt T^-1``."""
    q, v = as_column(q), as_column(v)
    rate = tree.zeros(model.nv, model.nv, q, v)
    rate[model.v_slice(base_index(model)), :] = jacobian_rate.frame_jacobian_rate(model, q, v, frame, "body")
    back = base_change_inverse(model, q, frame)
    return -back @ rate @ back


def rebased_dynamics(model: Model, q: Expr, nu: Expr, frame: str) -> tuple[Expr, Expr]:
    """(M, h) of the equations of motion with ``frame`` as the moving base, nu = [F_v_AF; joint velocities]."""
    Y = base_change_inverse(model, q, frame)
    v = Y @ as_column(nu)
    rate = base_change_inverse_rate(model, q, v, frame)
    return transform_dynamics(alg.mass_matrix(model, q), alg.bias_force(model, q, v), Y, rate, nu)
