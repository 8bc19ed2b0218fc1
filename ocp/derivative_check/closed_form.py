"""The closed-form derivatives of a robot's rate, assembled by the chain rule from those of forward dynamics.

The rate is (v, FD(q, v, tau)) with tau = S u + sum J_k(q)' w_k u_k over the thrusters. With w = (dq, v, tau) and B = dw/dz the
Jacobian is ``[v-rows of B; D FD(w) B]`` and the Hessian of ``mu' FD`` is ``B' H_w B + g_tau' d2 tau/dz2``.
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca
import numpy as np

from dynamics import algorithms as alg
from dynamics import spatial
from dynamics.derivatives import forward_dynamics_derivatives, forward_dynamics_hessian, symmetrised
from dynamics.errors import ModelError
from ocp.problem import System


@dataclass(frozen=True)
class ClosedForm:
    """jacobian (x, u) -> [ndx, n]; hessian (x, u, lam) -> [n, n] for ``lam' rate``; n counts dx, u, p and t."""

    jacobian: ca.Function
    hessian: ca.Function


def closed_form(system: System) -> tuple[ClosedForm | None, str]:
    """The fourth road, or why there is none."""
    model, actuation = system.model, system.actuation
    if model is None or actuation is None:
        return None, "the system is not the forward dynamics of a robot"
    try:
        first, second = forward_dynamics_derivatives(model, "analytic"), forward_dynamics_hessian(model)
    except ModelError as error:
        return None, str(error)
    nv, nz = model.nv, system.space.ndx + system.nu + system.np + 1
    x, z = ca.SX.sym("x", system.nx), ca.SX.sym("z", nz)
    u, lam = ca.SX.sym("u", system.nu), ca.SX.sym("lam", 2 * nv)
    q, v = x[:model.nq], x[model.nq:]
    nothing = ca.SX.zeros(nz)
    force = _force(system, alg.jet(model, q, z[:nv]), u + z[2 * nv:2 * nv + system.nu])
    tau, T = ca.substitute([force, ca.jacobian(force, z)], [z], [nothing])
    B = ca.vertcat(ca.SX(ca.DM.eye(nz)[:2 * nv, :]), T)
    acceleration = ca.horzcat(*first(q, v, tau)) @ B
    gq, gv, gtau, qq, qv, vv, qtau = second(q, v, tau, lam[nv:])
    H = ca.vertcat(ca.horzcat(symmetrised(qq), qv, qtau), ca.horzcat(qv.T, vv, ca.SX(nv, nv)),
                   ca.horzcat(qtau.T, ca.SX(nv, 2 * nv)))
    weight = ca.SX.sym("weight", nv)
    bend = ca.substitute([ca.hessian(ca.dot(weight, force), z)[0]], [z], [nothing])[0]
    bend = ca.substitute([bend], [weight], [gtau])[0]
    return ClosedForm(
        ca.Function("closed_jacobian", [x, u], [ca.densify(ca.vertcat(B[nv:2 * nv, :], acceleration))]),
        ca.Function("closed_hessian", [x, u, lam], [ca.densify(B.T @ H @ B + bend)]),
    ), ""


def _force(system: System, q: ca.SX, u: ca.SX) -> ca.SX:
    """Generalised force [nv] of the controls."""
    model, actuation = system.model, system.actuation
    efforts = actuation.selection.shape[1]
    force = ca.SX(actuation.selection) @ u[:efforts] if efforts else ca.SX(model.nv, 1)
    for k, thruster in enumerate(actuation.thrusters):
        axis = np.asarray(thruster.axis, float) / np.linalg.norm(thruster.axis)
        wrench = spatial.force(ca.DM(axis), ca.DM(thruster.moment_ratio * axis))
        force += alg.frame_jacobian(model, q, thruster.frame, "body").T @ wrench * u[efforts + k]
    return force
