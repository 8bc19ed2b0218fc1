"""The RedMax equations of motion of a mechanism and their derivatives by q and v, nothing of it differentiated algorithmically.

    M a = f,  M = J' M_m J,  f = f_r + J' (f_m - M_m dJ/dt v)

M_m are the inertias of the bodies, f_m the wrenches on them (gravity, gyroscopic, thrusts), f_r forces of joints and of records.
Source: Sueda, Eqs. 2.19, 3.54 to 3.58.

>>> from dynamics.model.synthetic import serial_chain
>>> z = ca.SX.sym("z")
>>> curl = ca.Function("curl", [z], [ca.vertcat(z, 2 * z)])  # two joints that move as one coordinate
>>> hyper_reduced(Mechanism(serial_chain(2)), curl, ca.DM(0.3), ca.DM(0))
(DM(0.93135), DM(8.14415))
"""

from __future__ import annotations

from typing import NamedTuple

import casadi as ca

from dynamics import spatial
from dynamics.algorithms import body_poses, tree
from dynamics.errors import ModelError
from dynamics.lie.expression import Expr
from dynamics.mechanism import Mechanism
from dynamics.model.model import Model
from dynamics.redmax.kinematics import Maximal, maximal


class RedMax(NamedTuple):
    """M [nv, nv], f [nv], K = df/dq and D = df/dv [nv, nv] and dM[k] = D_k M [nv, nv] along right perturbations of q.

    Parts of K and D: those of the quadratic velocity vector, ``f_qvv = -J' M_m dJ/dt v``; and those that a linearly implicit step
    takes, ``J' K_m J + K_r``, which leave out what J and dJ/dt contribute."""

    M: Expr
    f: Expr
    K: Expr
    D: Expr
    dM: list[Expr]
    f_qvv: Expr
    K_qvv: Expr
    D_qvv: Expr
    K_forces: Expr
    D_forces: Expr


class Wrenches(NamedTuple):
    """f_m [6n] and its derivatives [6n, 6n] by right perturbations of body poses and by body twists."""

    f: Expr
    K: Expr
    D: Expr


def redmax(mechanism: Mechanism, q: Expr, v: Expr, u: Expr | None = None) -> RedMax:
    """q [nq], v [nv], u [nu] (None: 0): expressions or numbers. Constraints of the mechanism are left out."""
    model = mechanism.model
    q, v = tree.as_column(q), tree.as_column(v)
    u = ca.DM(mechanism.nu, 1) if u is None else tree.as_column(u)
    at = maximal(model, q, v)
    M_m = body_inertias(model)
    wrenches = body_wrenches(mechanism, q, at.J @ v, u)
    damping = ca.diag(tree.diagonal(model, "damping"))
    K_r, D_r = mechanism.stiffness(q, v), mechanism.damping(q, v) - damping
    f_r = mechanism.force(q, v) - damping @ v + mechanism.motor_effort(u)
    f_qvv, K_qvv, D_qvv = quadratic_velocity(at, M_m, v)
    dM = mass_slices(at, M_m)
    K_forces, D_forces = K_r + at.J.T @ wrenches.K @ at.J, D_r + at.J.T @ wrenches.D @ at.J
    bent = ca.horzcat(*(D.T @ wrenches.f for D in at.dJ))
    return RedMax(
        at.J.T @ M_m @ at.J + ca.diag(tree.diagonal(model, "armature")), f_r + at.J.T @ wrenches.f + f_qvv,
        K_forces + bent + at.J.T @ wrenches.D @ twist_derivatives(at, v) + K_qvv, D_forces + D_qvv,
        dM, f_qvv, K_qvv, D_qvv, K_forces, D_forces)


def body_inertias(model: Model) -> ca.DM:
    """M_m [6n, 6n], a block for each body, at body origins."""
    return ca.diagcat(*(spatial.inertia_matrix(spatial.inertia_from_com(b.inertia.mass, b.inertia.com, b.inertia.inertia))
                        for b in model.bodies))


def body_wrenches(mechanism: Mechanism, q: Expr, twists: Expr, u: Expr) -> Wrenches:
    """Gravity, ``-phi x* M phi`` and thrusts on every body, in its own coordinates."""
    model = mechanism.model
    thrusts = mechanism.wrenches(u[len(mechanism.motors):])
    f, K, D = [], [], []
    for i, (body, pose) in enumerate(zip(model.bodies, body_poses(model, q), strict=True)):
        inertia = spatial.inertia_from_com(body.inertia.mass, body.inertia.com, body.inertia.inertia)
        phi = twists[6 * i:6 * i + 6]
        momentum = spatial.apply_inertia(inertia, phi)
        fall = pose.R.T @ spatial.constant(model.gravity)
        total = spatial.force(inertia.m * fall, ca.cross(inertia.h, fall)) - spatial.cross_force(phi, momentum)
        f.append(total + thrusts[body.name] if body.name in thrusts else total)
        # d(R' g) = (R' g) x d theta
        turn = spatial.hat(fall)
        K.append(spatial.blocks(ca.DM(3, 3), inertia.m * turn, ca.DM(3, 3), spatial.hat(inertia.h) @ turn))
        D.append(-spatial.cross_force(phi, spatial.inertia_matrix(inertia)) - spatial.cross_swapped_matrix(momentum))
    return Wrenches(ca.vertcat(*f), ca.diagcat(*K), ca.diagcat(*D))


def mass_slices(at: Maximal, M_m: Expr) -> list[Expr]:
    """``D_k M = P + P'``, ``P = J' M_m D_k J``; Eq. 3.54. The armature is constant."""
    halves = [at.J.T @ (M_m @ D) for D in at.dJ]
    return [P + P.T for P in halves]


def inverse_mass_slices(M: Expr, dM: list[Expr]) -> list[Expr]:
    """``D_k M^-1 = -M^-1 D_k M M^-1``; Eq. 3.55."""
    return [-ca.solve(M, ca.solve(M, slope).T).T for slope in dM]


def twist_derivatives(at: Maximal, v: Expr) -> Expr:
    """d(J v)/dq [6n, nv] at constant v: column k is ``D_k J v``; Eq. 3.57."""
    return ca.horzcat(*(D @ v for D in at.dJ))


class QuadraticVelocity(NamedTuple):
    """f [nv] and its derivatives K by q and D by v [nv, nv]."""

    f: Expr
    K: Expr
    D: Expr


def quadratic_velocity(at: Maximal, M_m: Expr, v: Expr) -> QuadraticVelocity:
    """``f = -J' M_m dJ/dt v`` [nv] and its K and D [nv, nv]; Eqs. 3.53 and 3.56, with ``d(dJ/dt)/dv_k = D_k J``."""
    drift = M_m @ (at.J_dot @ v)
    K = ca.horzcat(*(-D.T @ drift - at.J.T @ (M_m @ (D_dot @ v)) for D, D_dot in zip(at.dJ, at.dJ_dot, strict=True)))
    return QuadraticVelocity(-at.J.T @ drift, K, -at.J.T @ (M_m @ (at.J_dot + twist_derivatives(at, v))))


def acceleration_derivatives(M: Expr, K: Expr, D: Expr, dM: list[Expr], a: Expr) -> tuple[Expr, Expr]:
    """da/dq and da/dv [nv, nv] at the acceleration a: ``M^-1 (K - dM a)`` and ``M^-1 D``."""
    moved = ca.horzcat(*(slope @ a for slope in dM))
    return ca.solve(M, ca.densify(K - moved)), ca.solve(M, ca.densify(D))


def hyper_reduced(mechanism: Mechanism, coordinates: ca.Function, z: Expr, w: Expr, u: Expr | None = None) -> tuple[Expr, Expr]:
    """(M, f) of the mechanism in coordinates z [k] with rates w [k]: ``coordinates`` is the Function z -> q [nq], of which the
    first and second derivatives are taken. ``M_z = P' M P``, ``f_z = P' (f - M dP/dt w)``; Eqs. 2.87 to 2.90.

    Raises ModelError where velocities of the mechanism are not the rates of its coordinates.
    """
    model = mechanism.model
    if any(not kind.is_vector_space for kind, _, _ in model.factors) or coordinates.size_out(0) != (model.nq, 1):
        raise ModelError(f"needs a Function to {model.nq} coordinates whose rates are velocities",
                         element=f"model {model.name!r}")
    x = ca.SX.sym("z", coordinates.size1_in(0))
    y = ca.SX.sym("w", x.shape[0])
    slope = ca.jacobian(coordinates(x), x)
    P, drift = ca.Function("P", [x, y], [slope, ca.jtimes(slope @ y, x, y)])(z, w)
    at = redmax(mechanism, coordinates(z), P @ w, u)
    return P.T @ at.M @ P, P.T @ (at.f - at.M @ drift)
