"""How an integrator moves the coordinates of one curved joint, with tangent derivatives: kinematics, as small CasADi functions.

A joint with curved coordinates q reaches its next value from a base q and sources (q_i, v_i) with weights alpha_i [s]:

    chart:        project(q + sum alpha_i N(q_i) v_i)      the Runge-Kutta methods, in ambient coordinates
    exponential:  q [+] alpha_1 v_1                        the Euler methods; q_1 is not used

Derivatives are those of minus(next, next(...)) in z = (d, d_1, w_1, d_2, w_2, ...): q [+] d, q_i [+] d_i, v_i + w_i. They depend
on the manifold only, so every robot shares the kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import casadi as ca

from dynamics.joints import JointKind
from dynamics.model.model import Model

Expr = Any


@dataclass(frozen=True)
class Motion:
    """Functions of (q, alpha [sources], q_1, v_1, q_2, v_2, ...); matrices leave transposed, to be read by rows.

    value -> q_next [nq];  jacobian -> J [nv, nv (1 + 2 sources)]
    hessian(..., lambda [nv]) -> the Hessian of lambda' minus(next, next(z)) [nv (1 + 2 sources)] squared
    """

    value: ca.Function
    jacobian: ca.Function
    hessian: ca.Function


def curved_kinds(model: Model) -> tuple[JointKind, ...]:
    """The different records among the curved joints of a robot."""
    return tuple(dict.fromkeys(kind for kind, _, _ in model.factors if not kind.is_vector_space))


def motion(kind: JointKind, sources: int, exponential: bool) -> Motion:
    """The functions of one curved joint."""
    q, alpha, z = ca.SX.sym("q", kind.nq), ca.SX.sym("alpha", sources), ca.SX.sym("z", kind.nv * (1 + 2 * sources))
    costate, pairs, near = ca.SX.sym("lambda", kind.nv), [], []
    d = ca.vertsplit(z, kind.nv)
    for i in range(sources):
        pairs.append((ca.SX.sym(f"q{i}", kind.nq), ca.SX.sym(f"v{i}", kind.nv)))
        near.append((kind.jet(pairs[i][0], d[1 + 2 * i]), pairs[i][1] + d[2 + 2 * i]))
    after = _moved(kind, q, alpha, pairs, exponential)
    change = kind.minus(after, _moved(kind, kind.jet(q, d[0]), alpha, near, exponential))
    arguments = [q, alpha, *(symbol for pair in pairs for symbol in pair)]
    label = f"{kind.name}_{'plus' if exponential else sources}"
    J = ca.substitute(ca.jacobian(change, z), z, ca.DM.zeros(z.shape))
    H = ca.substitute(ca.hessian(ca.dot(costate, change), z)[0], z, ca.DM.zeros(z.shape))
    return Motion(_function(f"move_{label}", arguments, after), _function(f"jacobian_{label}", arguments, J.T),
                  _function(f"hessian_{label}", [*arguments, costate], H))


def _moved(kind: JointKind, q: Expr, alpha: Expr, sources: list[tuple[Expr, Expr]], exponential: bool) -> Expr:
    if exponential:
        return kind.plus(q, alpha[0] * sources[0][1])
    for i, (qi, vi) in enumerate(sources):
        q = q + alpha[i] * ca.mtimes(kind.rate(qi), vi)
    if kind.quaternion is None:
        return q
    unit = q[kind.quaternion]
    return ca.vertcat(q[:kind.quaternion.start], unit / ca.sqrt(ca.dot(unit, unit)), q[kind.quaternion.stop:])


def _function(name: str, arguments: list[Expr], result: Expr) -> ca.Function:
    return ca.Function(name, arguments, ca.cse([ca.densify(result)]))
