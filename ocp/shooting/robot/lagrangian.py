"""Full Hessian of one step contracted with the costate of the next knot, in loops over the robot.

With the costate lambda on the next state, adjoints run back through the slots: x_bar_j of the states, a_bar_j of the accelerations
(all that depends on them, running costs included). The Hessian of ``L + lambda . minus(f, f(x [+] dx, u + du))`` is then

    sum_j [X_j; U]' (h w_j l'' + H_j(a_bar_j)) [X_j; U] + sum over curved joints of Z' (x_bar . motion'') Z

with H_j the contracted second derivatives of forward dynamics (``dynamics.loops.forward``); the second-order chain rule in the
exponential coordinates of every slot, so it holds on curved spaces as it does on flat ones.
"""

from __future__ import annotations

import numpy as np

from dynamics.kernels.calls import address_of, row_address
from dynamics.kernels.linked import linked
from dynamics.loops import forward
from dynamics.loops.acting import directions, thrust_derivatives
from dynamics.loops.dense import add_congruence, clear, copy
from ocp.shooting.robot import sensitivities as steps
from ocp.shooting.robot.mechanics import COST_EXACT, HESSIAN, bind_motion, evaluate

Array = np.ndarray


def curve(record, plan, path, k, costate, out):  # type: ignore[no-untyped-def]
    """``ocp.shooting.engine.knots.curve_hessian`` by loops (compiled where it is used): out [S, n + m, w] at row k."""
    status = steps.walk(record, plan.t[k], path.x[k], path.u[k], plan.h[k])
    return status if status != 0 else _curve(record, plan.t[k], plan.h[k], plan.p[k], path.u[k], k, costate, out)


def complete(record, plan, path, k, model, T, costate):  # type: ignore[no-untyped-def]
    """``ocp.shooting.engine.knots.complete`` by loops (compiled where it is used): one walk for all derivatives."""
    t, h, p, u = plan.t[k], plan.h[k], plan.p[k], path.u[k]
    status = steps.walk(record, t, path.x[k], u, h)
    if status == 0:
        steps.gather_inner(record, path.inner, T, k)
        status = steps.gather_model(record, t, h, p, u, k, model.g, model.F, model.H, False)
    return status if status != 0 else _curve(record, t, h, p, u, k, costate, model.H)


@linked
def _curve(s: steps.Sensitivities, t: float, h: float, p: Array, u: Array, k: int, costate: Array, out: Array) -> int:
    """The full Hessian of the step that was walked through."""
    H, gradient, x_bar, a_bar, quadrature = s.H, s.cost_gradient, s.x_bar, s.a_bar, s.mechanics.quadrature
    nodes, n = a_bar.shape[0], x_bar.shape[1]
    clear(H, 0, H.size)
    clear(x_bar, 0, x_bar.size)
    clear(a_bar, 0, a_bar.size)
    for i in range(n):
        x_bar[nodes, i] = costate[k + 1, i]
    for back in range(nodes + 1):
        j = nodes - back
        if j < nodes:
            if quadrature[j] != 0.0:
                status, weight = steps.cost_derivatives(s, j, t, u, p, h, COST_EXACT)
                if status != 0:
                    return status
                for i in range(n):
                    x_bar[j, i] += weight * gradient[i]
                steps.add_cost_hessian(s, j, weight)
            _dynamics(s, j)
        if j > 0:
            status = _motion(s, j, h)
            if status != 0:
                return status
    copy(H, 0, out, k * H.size, H.size)
    return 0


@linked
def _dynamics(s: steps.Sensitivities, j: int) -> None:
    """Add the curvature of the accelerations at node j, and propagate their adjoint to the state."""
    m, a_bar, second, first = s.mechanics, s.a_bar, s.second, s.first
    nv = a_bar.shape[1]
    forward.contract(m.table, m.reals, s.workspaces[j], a_bar[j], first[j], s.lam, s.inverse, second)
    _add_adjoint(s.x_bar[j], a_bar[j], first[j], second, s.K)
    # the rows of the torques become those of the controls, as wide as K
    controls, drive, gain, H, X = s.controls, m.drive, m.gain, s.H, s.X
    n, width = X.shape[1], X.shape[2]
    clear(controls, 0, controls.size)
    for k in range(drive.shape[0]):
        for i in range(nv):
            controls[drive[k, 1], i] += gain[k] * second[3, drive[k, 0], i]
    thrusts, work, B, bent = m.thrusts, s.workspaces[j], directions(m.table), thrust_derivatives(m.table)
    for k in range(thrusts[1]):  # with psi = FD_tau' a_bar: B' d(psi)/dq + d(B' psi)/dq
        for i in range(nv):
            controls[thrusts[0] + k, i] += work[bent + k * nv + i]
            for row in range(nv):
                controls[thrusts[0] + k, i] += work[B + row * thrusts[1] + k] * second[3, row, i]
    if j > 0:
        add_congruence(s.K, n, X[j], width, s.T, H, H.shape[0])
        steps.add_control_rows(controls, n, X[j], 0, s.R, H, n)
        return
    K = s.K  # X_0 is the identity
    for i in range(n):
        for k in range(i + 1):
            H[i, k] += K[i, k]
    for i in range(controls.shape[0]):
        for k in range(nv):
            H[n + i, k] += controls[i, k]


@linked
def _add_adjoint(x_bar: Array, a_bar: Array, first: Array, second: Array, K: Array) -> None:
    """x_bar += (da/dx)' a_bar, and K [n, n] from the blocks qq, vq, vv of the Hessian."""
    nv = a_bar.shape[0]
    for i in range(nv):
        for k in range(nv):
            x_bar[k] += a_bar[i] * first[0, i, k]
            x_bar[nv + k] += a_bar[i] * first[1, i, k]
            K[i, k] = second[0, i, k]
            K[nv + i, k] = second[1, i, k]
            K[k, nv + i] = second[1, i, k]
            K[nv + i, nv + k] = second[2, i, k]


@linked
def _motion(s: steps.Sensitivities, j: int, h: float) -> int:
    """Add the curvature of the motion into slot j, and propagate its adjoint to the slots before."""
    m, x_bar, a_bar, H, jacobians = s.mechanics, s.x_bar, s.a_bar, s.H, s.motion
    flat, curved, bank, velocity_weights, position_weights = m.flat, m.curved, m.bank, m.velocity_weights, m.position_weights
    nv = a_bar.shape[1]
    for joint in range(curved.shape[0]):
        v, count = curved[joint, 2], curved[joint, 3]
        slot = bind_motion(m, j, joint, h)
        rows = steps.gather(s, j, joint)
        bank.arg[rows // count + 1] = row_address(x_bar, j) + 8 * v
        bank.res[0] = address_of(s.curve_hessian)
        status = evaluate(bank, slot + HESSIAN)
        if status != 0:
            return status
        add_congruence(s.curve_hessian, rows, s.Z, H.shape[1], s.T, H, H.shape[0])
        at = count
        for i in range(x_bar.shape[0]):
            if position_weights[j, i] != 0.0:
                for half in range(2):
                    for r in range(count):
                        for k in range(count):
                            x_bar[i, half * nv + v + r] += x_bar[j, v + k] * jacobians[j, joint, k * rows + at + r]
                    at += count
    for i in range(x_bar.shape[0]):
        if position_weights[j, i] != 0.0:
            for f in range(flat.shape[0]):
                x_bar[i, nv + flat[f, 1]] += h * position_weights[j, i] * x_bar[j, flat[f, 1]]
    for i in range(a_bar.shape[0]):
        if velocity_weights[j, i] != 0.0:
            for k in range(nv):
                a_bar[i, k] += h * velocity_weights[j, i] * x_bar[j, nv + k]
    return 0
