"""Derivatives with respect to q on the configuration manifold, and their form in the coordinates of q.

First derivatives are right-tangent: component j is d/ds f(q [+] s e_j) at s = 0. A *raw* second derivative applies two such
derivatives one after the other: entry [j, k] is d/ds_k d/ds_j f(q [+] s_k e_k [+] s_j e_j), so the perturbation k moves the
point first. Raw derivatives of different joints commute; inside one joint with velocity components j, k

    raw[j, k] - raw[k, j] = -sum_l c^l_jk df/dq_l,      S_j x S_k = sum_l c^l_jk S_l.

The *symmetrised* derivative (raw + raw^T) / 2 is the Hessian of d -> f(q [+] d) at d = 0: what a solver that steps with [+]
wants, and what differentiation through ``dynamics.algorithms.jet`` gives. A solver that owns the coordinates of q (quaternions
and all) wants derivatives in those: :func:`ambient_gradient`, :func:`ambient_hessian`.

Source: Singh, Russell and Wensing (2022), section on Lie derivatives; Sola, Deray and Atchuthan (2018), A micro Lie theory.
"""

from __future__ import annotations

import casadi as ca
import numpy as np

from dynamics.algorithms import configuration, tree
from dynamics.joints.kind import part
from dynamics.lie.expression import Expr
from dynamics.model.model import Model


def structure_constants(model: Model) -> np.ndarray:
    """c[l, j, k], [nv, nv, nv], with ``S_j x S_k = sum_l c[l, j, k] S_l`` inside each joint, zero across joints.

    Read from the manifold, where ``Ad(exp(-d)) = 1 - ad_d + ...``: joints whose coordinates are a vector space commute.
    """
    out = np.zeros((model.nv,) * 3)
    for kind, _, vs in model.factors:
        if not kind.is_vector_space:
            d, n = ca.SX.sym("d", kind.nv), kind.nv
            slope = ca.jacobian(ca.densify(kind.transport(d)), d)
            at_zero = ca.Function("slope", [d], [ca.densify(slope)])(ca.DM.zeros(n))
            out[vs, vs, vs] = -np.array(at_zero).reshape(n, n, n, order="F").swapaxes(1, 2)
    return out


def symmetrised(raw: Expr) -> Expr:
    """(raw + raw^T) / 2 [nv, nv]: the Hessian of ``d -> f(q [+] d)`` at d = 0."""
    return (raw + raw.T) / 2


def symmetrised_tensor(raw: Expr) -> Expr:
    """The same for every row of a tensor [nv, nv * nv] (column j + nv k)."""
    n = raw.shape[0]
    exchanged = np.arange(n * n).reshape(n, n).T.ravel().tolist()
    return (raw + raw[:, exchanged]) / 2


def unit_configuration(model: Model, q: Expr) -> tuple[Expr, Expr]:
    """q [nq] with every quaternion scaled to unit length, and the scale [nq] that did it (1 for other coordinates)."""
    q = tree.as_column(q)
    tree.check_sizes(model, q=(q, model.nq))
    parts = []
    for kind, qs, _ in model.factors:
        if kind.quaternion is None:
            parts.append(ca.DM.ones(kind.nq))
            continue
        own = part(q, qs)[kind.quaternion]
        before, count = kind.quaternion.start, own.shape[0]
        factor = 1 / ca.sqrt(ca.dot(own, own))
        parts += [ca.DM.ones(before), ca.repmat(factor, count, 1), ca.DM.ones(kind.nq - before - count)]
    scale = ca.vertcat(*parts) if parts else ca.DM(0, 1)
    return q * scale, scale


def ambient_map(model: Model, q: Expr) -> Expr:
    """[nv, nq]: tangent displacement per change of the coordinates of q, the radial direction of quaternions mapped to zero."""
    unit, scale = unit_configuration(model, q)
    return configuration.rate_matrix_inverse(model, unit) @ ca.diag(scale)


def ambient_gradient(model: Model, q: Expr, gradient: Expr) -> Expr:
    """Gradient [nq] in the coordinates of q from the tangent gradient [nv] of f, for the function ``q -> f(q / |q|)``.

    Quaternions are divided by their length, so the function is defined, and the gradient exact, off the unit sphere as well;
    the tangent gradient is taken at the unit configuration.
    """
    return ambient_map(model, q).T @ tree.as_column(gradient)


def ambient_hessian(model: Model, q: Expr, gradient: Expr, hessian: Expr) -> Expr:
    """Hessian [nq, nq] in the coordinates of q of ``q -> f(q / |q|)``, from tangent gradient [nv] and symmetrised Hessian
    [nv, nv] of f at the unit configuration.

    With E the tangent map, J = d(jet)/dd and x the coordinates, ``E^T (H - sum_m df/dx_m d2 jet_m/dd2) E``, and for every
    quaternion the terms ``-(g u^T + u g^T) / |q|`` that follow from f being homogeneous of degree zero in it.
    """
    unit, scale = unit_configuration(model, q)
    E = ambient_map(model, q)
    g_unit = configuration.rate_matrix_inverse(model, unit).T @ tree.as_column(gradient)
    out = E.T @ (hessian - _curvature(model, unit, g_unit)) @ E
    radial = tree.zeros(model.nq, model.nq, out)
    for kind, qs, _ in model.factors:
        if kind.quaternion is None:
            continue
        at = slice(qs.start + kind.quaternion.start, qs.start + kind.quaternion.stop)
        g, u = g_unit[at] * scale[at], unit[at] * scale[at]
        radial[at, at] = -(g @ u.T + u @ g.T)
    return out + radial


def _curvature(model: Model, q: Expr, gradient: Expr) -> Expr:
    """``sum_m gradient_m d2 jet_m / dd2`` [nv, nv] at d = 0, joint by joint."""
    blocks = []
    for kind, qs, _ in model.factors:
        x, g, d = ca.SX.sym("x", kind.nq), ca.SX.sym("g", kind.nq), ca.SX.sym("d", kind.nv)
        H = ca.substitute(ca.hessian(ca.dot(g, kind.jet(x, d)), d)[0], d, ca.SX.zeros(kind.nv))
        blocks.append(ca.Function("curvature", [x, g], [H])(part(q, qs), part(gradient, qs)))
    return ca.diagcat(*blocks) if blocks else ca.DM(0, 0)
