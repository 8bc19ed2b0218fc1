"""The closed-form derivatives of a robot's rate, assembled by the chain rule from those of forward dynamics.

The rate is (v, FD(q, v, tau)) with tau = S u + sum J_k(q)' w_k u_k over the thrusters + f(q, v). With w = (dq, v, tau) and B =
dw/dz the
Jacobian is ``[v-rows of B; D FD(w) B]`` and the Hessian of ``mu' FD`` is ``B' H_w B + g_tau' d2 tau/dz2``.
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca

from dynamics import algorithms as alg
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
    model = system.model
    if model is None or system.mechanism is None:
        return None, "the system is not the forward dynamics of a robot"
    if system.mechanism.constraints:
        return None, "closed forms know no constraints of the mechanism"
    try:
        first, second = forward_dynamics_derivatives(model, "analytic"), forward_dynamics_hessian(model)
    except ModelError as error:
        return None, str(error)
    nv, nz = model.nv, system.space.ndx + system.nu + system.np + 1
    x, z = ca.SX.sym("x", system.nx), ca.SX.sym("z", nz)
    u, lam = ca.SX.sym("u", system.nu), ca.SX.sym("lam", 2 * nv)
    q, v = x[:model.nq], x[model.nq:]
    nothing = ca.SX.zeros(nz)
    moved = alg.jet(model, q, z[:nv]), v + z[nv:2 * nv], u + z[2 * nv:2 * nv + system.nu]
    mechanism = system.mechanism
    force = (mechanism.motor_effort(moved[2]) + mechanism.thrust_effort(moved[0], moved[2][len(mechanism.motors):])
             + mechanism.force(*moved[:2]))
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
