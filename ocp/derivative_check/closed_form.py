"""The closed-form derivatives of a robot's rate, assembled by the chain rule from those of its dynamics, constrained or not.

The rate is (v, FD(q, v, tau)) with tau = S u + sum J_k(q)' w_k u_k over the thrusters + f(q, v). With w = (dq, v, tau, t)
and B = dw/dz the Jacobian is ``[v-rows of B; D FD(w) B]`` and the Hessian of ``mu' FD`` is ``B' H_w B + g_tau' d2 tau/dz2``.
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca

from dynamics import algorithms as alg
from dynamics import derivatives as der
from dynamics.errors import ModelError
from dynamics.mechanism import Mechanism
from ocp.problem import System


@dataclass(frozen=True)
class ClosedForm:
    """jacobian (x, u, t) -> [ndx, n]; hessian (x, u, lam, t) -> [n, n] for ``lam' rate``; n counts dx, u, p and t."""

    jacobian: ca.Function
    hessian: ca.Function


def closed_form(system: System) -> tuple[ClosedForm | None, str]:
    """The fourth road, or why there is none."""
    model = system.model
    if model is None or system.mechanism is None:
        return None, "the system is not the forward dynamics of a robot"
    try:
        first, second = _forms(system.mechanism)
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
    t, last = ca.SX.sym("t"), ca.DM(1, nz)
    last[nz - 1] = 1
    B = ca.vertcat(ca.SX(ca.DM.eye(nz)[:2 * nv, :]), T, last)
    acceleration = first(q, v, tau, t) @ B
    gradient, H = second(q, v, tau, t, lam[nv:])
    gtau = gradient[2 * nv:3 * nv]
    weight = ca.SX.sym("weight", nv)
    bend = ca.substitute([ca.hessian(ca.dot(weight, force), z)[0]], [z], [nothing])[0]
    bend = ca.substitute([bend], [weight], [gtau])[0]
    return ClosedForm(
        ca.Function("closed_jacobian", [x, u, t], [ca.densify(ca.vertcat(B[nv:2 * nv, :], acceleration))]),
        ca.Function("closed_hessian", [x, u, lam, t], [ca.densify(B.T @ H @ B + bend)]),
    ), ""


def _forms(mechanism: Mechanism) -> tuple[ca.Function, ca.Function]:
    """(q, v, tau, t) -> da/d(q, v, tau, t) [nv, 3 nv + 1], and with a weight of a its gradient and Hessian."""
    model, nv = mechanism.model, mechanism.model.nv
    symbols = [ca.SX.sym("q", model.nq), ca.SX.sym("v", nv), ca.SX.sym("tau", nv), ca.SX.sym("t")]
    weight = ca.SX.sym("weight", nv)
    if mechanism.constraints:
        found = der.constrained_dynamics_derivatives(model, mechanism.constraints)(*symbols)
        rows = found[1].shape[0]
        gradient, H = der.constrained_dynamics_hessian(model, mechanism.constraints)(*symbols, weight, ca.SX(rows, 1))
        J = found[2][:nv, :]
    else:
        J = ca.horzcat(*der.forward_dynamics_derivatives(model, "analytic")(*symbols[:3]), ca.SX(nv, 1))
        gq, gv, gtau, qq, qv, vv, qtau = der.forward_dynamics_hessian(model)(*symbols[:3], weight)
        gradient = ca.vertcat(gq, gv, gtau, 0)
        H = ca.diagcat(ca.vertcat(ca.horzcat(der.symmetrised(qq), qv, qtau), ca.horzcat(qv.T, vv, ca.SX(nv, nv)),
                                  ca.horzcat(qtau.T, ca.SX(nv, 2 * nv))), ca.SX(1, 1))
    return ca.Function("first", symbols, [J]), ca.Function("second", [*symbols, weight], [gradient, H])
