"""The map from joint velocities to the twists of all bodies, its rate, and both once more differentiated by q, in closed form.

With X the motion transform from parent p to body i, s = S v its joint's twist and D_k the derivative along velocity component k:

    J_i = X J_p + S                          D_k J_i  = X D_k J_p - [own k] S_k x X J_p + D_k S
    dJ_i/dt = X dJ_p/dt - s x X J_p + dS/dt  D_k of it by the product rule, with ``D_k X = -S_k x X`` for the joint's own k

Only components on the way from the root to a body move it: the others have no slice. Source: Sueda, Algorithms 1, 2 and 11; of the
last, the body adjoints' derivatives are written here as brackets with S, which holds for every joint.
"""

from __future__ import annotations

from typing import NamedTuple

import casadi as ca

from dynamics import spatial
from dynamics.algorithms import tree
from dynamics.joints.derivatives import rates, slices
from dynamics.joints.kind import part
from dynamics.lie.expression import Expr
from dynamics.model.model import Model


class Maximal(NamedTuple):
    """J and dJ/dt [6n, nv] of the twists of n bodies (body coordinates at body origins), and their derivatives by q: one [6n, nv]
    for each velocity component."""

    J: Expr
    J_dot: Expr
    dJ: list[Expr]
    dJ_dot: list[Expr]


class _Joint(NamedTuple):
    """S, dS/dt and their derivatives by the joint's own components, all with respect to the model's velocities."""

    S: Expr
    S_dot: Expr
    dS: list[Expr]
    dS_dot: list[Expr]


class _Body(NamedTuple):
    """Blocks of :class:`Maximal`; dJ and dJ_dot by velocity component, those that move the body."""

    J: Expr
    J_dot: Expr
    dJ: dict[int, Expr]
    dJ_dot: dict[int, Expr]


def maximal(model: Model, q: Expr, v: Expr) -> Maximal:
    """q [nq], v [nv]: expressions or numbers."""
    q, v = tree.as_column(q), tree.as_column(v)
    tree.check_sizes(model, q=(q, model.nq), v=(v, model.nv))
    zero = tree.zeros(6, model.nv, q, v)
    bodies: list[_Body] = []
    for i, body in enumerate(model.bodies):
        above = bodies[body.parent] if body.parent >= 0 else _Body(zero, zero, {}, {})
        bodies.append(_below(model, i, above, q, v))

    def stacked(blocks: list[Expr]) -> Expr:
        return ca.vertcat(*blocks)

    return Maximal(stacked([b.J for b in bodies]), stacked([b.J_dot for b in bodies]),
                   [stacked([b.dJ.get(k, zero) for b in bodies]) for k in range(model.nv)],
                   [stacked([b.dJ_dot.get(k, zero) for b in bodies]) for k in range(model.nv)])


def _joint(model: Model, i: int, q: Expr, v: Expr) -> _Joint:
    joint, kind = model.bodies[i].joint, model.kind(i)
    scale = joint.mimic.multiplier if joint.mimic else 1.0
    own = tree.joint_configuration(model, i, q)
    known = slices(kind, own)
    S_dot, dS_dot = rates(known, tree.joint_velocity(model, i, v))
    return _Joint(kind.subspace(own) * scale, S_dot * scale, [x * scale**2 for x in known.first], [x * scale**2 for x in dS_dot])


def _below(model: Model, i: int, above: _Body, q: Expr, v: Expr) -> _Body:
    """One step of the recursion."""
    X, vs, own = tree.parent_transform(model, i, q), model.v_slice(i), _joint(model, i, q, v)
    own_v = part(v, vs)
    s = own.S @ own_v

    def placed(columns: Expr) -> Expr:
        out = tree.zeros(6, model.nv, q, v)
        out[:, vs] = columns
        return out

    def child(M: Expr) -> Expr:
        return spatial.motion_to_child(X, M)

    XJ, XJ_dot = child(above.J), child(above.J_dot)
    dJ = {k: child(D) for k, D in above.dJ.items()}
    dJ_dot = {k: child(D) - spatial.cross_motion(s, dJ[k]) for k, D in above.dJ_dot.items()}
    nothing = tree.zeros(6, model.nv, q, v)
    for c in range(vs.stop - vs.start):
        k, S_k = vs.start + c, own.S[:, c]
        turned = spatial.cross_motion(S_k, XJ)
        dJ[k] = dJ.get(k, nothing) - turned + placed(own.dS[c])
        dJ_dot[k] = dJ_dot.get(k, nothing) - spatial.cross_motion(S_k, XJ_dot) - spatial.cross_motion(own.dS[c] @ own_v, XJ) \
            + spatial.cross_motion(s, turned) + placed(own.dS_dot[c])
    return _Body(XJ + placed(own.S), XJ_dot - spatial.cross_motion(s, XJ) + placed(own.S_dot), dJ, dJ_dot)
