"""A step of symplectic Euler of a robot with its derivative in closed form, for one scalar graph without calls.

    v' = v + h a(q, v, u),    q' = q [+] h v'

    dv' = dv + h (a_q dq + a_v dv + a_u du) + a dh
    dq' = T dq + J (h dv' + v' dh)         T, J: derivatives of ``q [+] h v'`` by q and by h v' (``integrate_partials``)

The derivatives of a come from those of inverse dynamics at a and from the factorisation of the mass matrix that a itself takes
(``dynamics.derivatives``). The dynamics are evaluated at one point, so that everything they have in common with each other and with
the costs there is computed once: on arms half of the operations of differentiating the step, or less.
"""

from __future__ import annotations

from typing import NamedTuple

import casadi as ca

from dynamics import algorithms as alg
from dynamics.derivatives.forward_second import contracted_forward_dynamics, forward_dynamics_partials
from dynamics.lie.expression import Expr
from ocp.bridge import inner
from ocp.problem import System


class RobotStep(NamedTuple):
    """State after the step [nx]; its derivatives by (dq, dv) [ndx, ndx], by u [ndx, nu] and by h [ndx, 1], in tangent spaces;
    accelerations and multipliers under constraints, with their derivative by (dq, dv, u)."""

    after: Expr
    by_x: Expr
    by_u: Expr
    by_h: Expr
    inner: tuple[Expr, Expr] | None


def robot_step(system: System, x: Expr, u: Expr, h: Expr) -> RobotStep:
    """The step from x [nx] under u [nu] of length h [s], for the forward dynamics of a robot (``ocp.bridge.robot_system``).

    Thrusts are constant in the axes of the bodies that they push. Raises ModelError for a joint kind without closed form.
    """
    model = system.model
    n, q, v = model.nv, x[:model.nq], x[model.nq:]
    known = inner(system) if system.mechanism.constraints else None  # a graph that costs of the forces share
    held = None if known is None else known.first(0.0, x, u)
    a, derivatives = _free(system, q, v, u) if held is None else (held[0][:n], held[1][:n, :])
    by_state, by_u = derivatives[:, :2 * n], derivatives[:, 2 * n:]
    moved = v + h * a
    dv_x = h * by_state + ca.horzcat(ca.SX(n, n), ca.SX.eye(n))
    dv_u = h * by_u
    base, turn = alg.integrate_partials(model, h * moved)
    dq_x = h * ca.mtimes(turn, dv_x) + ca.horzcat(base, ca.SX(n, n))
    return RobotStep(
        after=ca.vertcat(alg.integrate(model, q, h * moved), moved),
        by_x=ca.vertcat(dq_x, dv_x),
        by_u=ca.vertcat(h * ca.mtimes(turn, dv_u), dv_u),
        by_h=ca.vertcat(ca.mtimes(turn, h * a + moved), a), inner=held)


def _free(system: System, q: Expr, v: Expr, u: Expr) -> tuple[Expr, Expr]:
    """Accelerations without constraints, and their derivatives by (dq, dv, u) [n, 2 n + nu]."""
    model, mechanism = system.model, system.mechanism
    tau = mechanism.motor_effort(u) + mechanism.force(q, v)
    a, by_q, by_v, by_tau, _ = forward_dynamics_partials(model, q, v, tau, mechanism.wrenches(u[len(mechanism.motors):]))
    pushes = [alg.frame_jacobian(model, q, thruster.frame, "body").T @ thruster.unit_wrench() for thruster in mechanism.thrusters]
    if mechanism.forces:
        by_q = by_q + ca.mtimes(by_tau, mechanism.stiffness(q, v))
        by_v = by_v + ca.mtimes(by_tau, mechanism.damping(q, v))
    return a, ca.horzcat(by_q, by_v, ca.mtimes(by_tau, ca.horzcat(ca.SX(mechanism.selection), *pushes)))


def robot_curvature(system: System, x: Expr, u: Expr, h: Expr, costate: Expr) -> Expr:
    """Hessian [ndx + nu, ndx + nu] of ``costate . minus(x', step)`` for a robot of flat coordinates without thrusters and forces.

    There the step is linear in a, ``(h^2 costate_q + h costate_v) . a`` in all, and a'' contracted has a closed form.
    """
    model, S = system.model, ca.SX(system.mechanism.selection)
    n = model.nv
    q, v, tau = x[:model.nq], x[model.nq:], ca.mtimes(S, u)
    found = contracted_forward_dynamics(model, q, v, tau, h * (h * costate[:n] + costate[n:]))
    by_u = ca.mtimes(found.qtau, S)
    m = u.shape[0]
    return ca.vertcat(
        ca.horzcat((found.qq + found.qq.T) / 2, found.qv, by_u), ca.horzcat(found.qv.T, found.vv, ca.SX(n, m)),
        ca.horzcat(by_u.T, ca.SX(m, n + m)))
