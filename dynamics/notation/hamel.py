"""The trivialised Lagrangian and Hamel's equations: the equations of motion by differentiation alone.

Where the velocity v is not the derivative of coordinates but a body twist, the Euler-Lagrange equations gain a term from the
Lie bracket of each joint's velocity space (Marsden and Ratiu, Introduction to mechanics and symmetry, section 13.6):

    tau_i = d/dt (dl/dv_i) - N_i^T dl/dq_i - ad*(v_i) dl/dv_i,     l(q, v) = T - V.

For the free-flyer the last term is ``v x* p``, for a spherical joint ``w x p``, for one-axis joints nothing. This method knows no
recursion and no frame Jacobian, so it checks inverse dynamics; it is slow. Source of the setting: Traversaro and Saccon,
Multibody dynamics notation, section 9, Eqs. 83 and 84.
"""

from __future__ import annotations

import casadi as ca

from dynamics import algorithms as alg
from dynamics import spatial
from dynamics.algorithms import tree
from dynamics.joints.kind import part
from dynamics.lie.expression import Expr
from dynamics.model.model import Model


def trivialised_lagrangian(model: Model, q: Expr, xi: Expr) -> Expr:
    """``l(q, xi) = 1/2 xi^T M(q) xi - V(q)`` (J), xi the left-trivialised velocity [nv]."""
    return alg.kinetic_energy(model, q, xi) - alg.potential_energy(model, q)


def hamel_function(model: Model, brackets: bool = True) -> ca.Function:
    """(q, v, a) -> tau [nv]: Hamel's equations, joint damping not included.

    brackets: False drops the Lie-bracket term, which gives the classical Euler-Lagrange equations in quasi-velocities:
    right only where every joint's velocity is the rate of its coordinates.
    """
    q, v, a = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv), ca.SX.sym("a", model.nv)
    lagrangian = trivialised_lagrangian(model, q, v)
    rate = alg.rate_matrix(model, q)
    p = ca.gradient(lagrangian, v)
    tau = ca.jtimes(p, v, a) + ca.jtimes(p, q, rate @ v) - rate.T @ ca.gradient(lagrangian, q)
    if brackets:
        moving = p - tree.diagonal(model, "armature") * v  # rotors are fixed to their axes: no bracket, as everywhere else
        for kind, qs, vs in model.factors:
            if not kind.is_vector_space:
                # such joints have constant orthonormal S whose span is closed under the bracket: ad* is that of SE(3) in it
                S = kind.subspace(part(q, qs))
                tau[vs] += S.T @ spatial.cross_force(S @ part(v, vs), S @ part(moving, vs))
    return ca.Function("hamel", [q, v, a], [tau], ["q", "v", "a"], ["tau"])
