"""Lagrange's equations of the first kind: constrained motion by differentiation alone.

    d/dt dl/dv - dl/dq (+ brackets) = tau + J_m' lambda_m + (df/dq)' lambda_c
    f(q, t) = 0                     holonomic; rheonomic where it depends on t
    J_m(q) v + a_0(q, t) = 0        conditions on velocities, with a part that moves by itself

Hutter et al., Robot Dynamics lecture notes (ETH Zurich, HS 2023), Eqs. 3.35 to 3.37 (J_m there has to be transposed), with the
multipliers as forces on the robot, so that they stand on the right. The left side is Hamel's (`dynamics.notation.hamel`), the rows
are what differentiation along the motion leaves of the conditions; nothing of the records of `dynamics.constraints` is used.
"""

from __future__ import annotations

from typing import NamedTuple

import casadi as ca

from dynamics import algorithms as alg
from dynamics.algorithms import tree
from dynamics.errors import ModelError
from dynamics.lie.expression import Expr
from dynamics.model.model import Model
from dynamics.notation.hamel import hamel_function


class FirstKind(NamedTuple):
    """a [nv]; motion [m], holonomic [c]: multipliers lambda_m and lambda_c, forces on the robot along the rows of the Jacobian."""

    acceleration: Expr
    motion: Expr
    holonomic: Expr


def first_kind(model: Model, holonomic: ca.Function | None = None, motion: ca.Function | None = None, rate: float = 0.0
               ) -> ca.Function:
    """(q, v, tau, t) -> `FirstKind`, joint damping not included.

    holonomic: (q, t) -> f [c]. motion: (q, t) -> (J_m [m, nv], a_0 [m]). rate [1/s]: how fast drift off the conditions decays, f
    like a critically damped oscillator (Baumgarte 1972); 0: no damping. Constraints are independent. Raises ModelError for wrong
    sizes.
    """
    q, v, a, t = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv), ca.SX.sym("a", model.nv), ca.SX.sym("t")
    tau, along = ca.SX.sym("tau", model.nv), alg.rate_matrix(model, q)
    left = hamel_function(model)(q, v, a)
    M, bias = ca.jacobian(left, a), ca.substitute(left, a, ca.SX.zeros(model.nv))

    def after(value: Expr) -> Expr:
        """Its rate along the motion."""
        return ca.jtimes(value, q, along @ v) + ca.jtimes(value, t, ca.SX(1))

    rows, wanted, counts = [ca.SX(0, model.nv)], [ca.SX(0, 1)], []
    f = ca.SX(0, 1) if holonomic is None else holonomic(q, t)
    J_m, a_0 = (ca.SX(0, model.nv), ca.SX(0, 1)) if motion is None else motion(q, t)
    if J_m.shape != (a_0.shape[0], model.nv) or f.shape[1] != 1:
        raise ModelError(f"J_m has shape {J_m.shape}, a_0 {a_0.shape}, f {f.shape}: expected (m, {model.nv}), (m, 1) and (c, 1)")
    for J, off, drift in ((J_m, a_0, rate * (J_m @ v + a_0)),
                          (ca.jacobian(f, q) @ along, ca.jtimes(f, t, ca.SX(1)), 2 * rate * after(f) + rate**2 * f)):
        counts.append(J.shape[0])
        rows.append(J)
        wanted.append(-after(J @ v + off) - drift)
    J, right = ca.vertcat(*rows), ca.vertcat(*wanted)
    K = ca.blockcat([[M, -J.T], [J, ca.SX(J.shape[0], J.shape[0])]])
    x = ca.solve(K, ca.vertcat(tau - bias, right))
    parts = tree.as_column(x)
    split = model.nv, model.nv + counts[0]
    return ca.Function("first_kind", [q, v, tau, t], list(FirstKind(parts[:split[0]], parts[split[0]:split[1]], parts[split[1]:])),
                       ["q", "v", "tau", "t"], list(FirstKind._fields))
