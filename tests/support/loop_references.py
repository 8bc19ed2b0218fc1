"""Trees for the compiled loops, and second derivatives by CasADi's algorithmic differentiation to hold against them."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import numpy as np

from dynamics import algorithms as alg
from dynamics.model.model import Mimic, Model
from dynamics.model.synthetic import random_tree

KINDS = ("fixed", "revolute", "continuous", "prismatic", "universal", "planar", "spherical", "free_flyer")
SIMPLE = ("revolute", "continuous", "prismatic")


def mixed_tree(bodies: int, seed: int, root: str | None = None) -> Model:
    """Joints of every kind, also fixed, with armature and damping."""
    return random_tree(bodies, np.random.default_rng(seed), kinds=KINDS, root=root, damping=True)


def coupled_tree(bodies: int, seed: int) -> Model:
    """A mixed tree in which every second later joint of one degree of freedom follows an earlier one."""
    rng = np.random.default_rng(seed)
    model = random_tree(bodies, rng, kinds=(*SIMPLE, "revolute", "spherical", "planar"), damping=True)
    made, leaders, out = 0, [], []
    for body in model.bodies:
        joint = body.joint
        if joint.kind in SIMPLE:
            if leaders and made % 2 == 0:
                leader = leaders[int(rng.integers(len(leaders)))]
                joint = replace(joint, mimic=Mimic(leader, float(rng.uniform(-2.0, 2.0)), float(rng.uniform(-0.5, 0.5))))
                made += 1
            else:
                made += bool(leaders)
                leaders.append(joint.name)
        out.append(replace(body, joint=joint))
    coupled = replace(model, bodies=tuple(out))
    assert coupled.has_coupling
    return coupled


def state(model: Model, seed: int):
    """q [nq] on the manifold and four random vectors [nv]."""
    rng = np.random.default_rng(seed)
    return alg.random_configuration(model, rng), *rng.standard_normal((4, model.nv))


def hessians(model: Model, algorithm, f_ext=None) -> ca.Function:
    """(q, v, w, weights) -> qq, vq, vv, wq of weights^T algorithm(model, q [+] d, v, w) at d = 0, by differentiation."""
    n = model.nv
    q, d = ca.SX.sym("q", model.nq), ca.SX.sym("d", n)
    v, w, weights = (ca.SX.sym(name, n) for name in ("v", "w", "l"))
    value = ca.dot(weights, algorithm(model, alg.jet(model, q, d), v, w, f_ext))
    by_v = ca.gradient(value, v)
    blocks = [ca.jacobian(ca.gradient(value, d), d), ca.jacobian(by_v, d), ca.jacobian(by_v, v),
              ca.jacobian(ca.gradient(value, w), d)]
    f = ca.Function("hessians", [q, d, v, w, weights], [ca.densify(x) for x in blocks])
    return ca.Function("at_zero", [q, v, w, weights], f(q, ca.DM.zeros(n), v, w, weights))


def first_derivatives(model: Model, algorithm, f_ext=None) -> ca.Function:
    """(q, v, w) -> derivatives by q (tangent), v, w."""
    q, v, w = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv), ca.SX.sym("w", model.nv)
    value = algorithm(model, q, v, w, f_ext)
    blocks = [ca.jacobian(value, q) @ alg.rate_matrix(model, q), ca.jacobian(value, v), ca.jacobian(value, w)]
    return ca.Function("first", [q, v, w], [ca.densify(x) for x in blocks])


def close(ours, theirs, tolerance: float = 1e-11) -> None:
    """Entry by entry within ``tolerance`` of the largest entry (at least 1)."""
    ours, theirs = np.asarray(ours, float), np.asarray(theirs, float)
    assert ours.shape == theirs.shape
    scale = max(1.0, float(np.abs(theirs).max(initial=0.0)))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * scale)
