"""Inverse dynamics by the recursive Newton-Euler algorithm, and what follows from it: bias and gravity forces.

Source: Featherstone, Rigid Body Dynamics Algorithms (2008), Table 5.1, with [linear; angular] component order.
"""

from __future__ import annotations

from collections.abc import Mapping

import casadi as ca

from dynamics import spatial
from dynamics.algorithms import tree
from dynamics.algorithms.built import built_once
from dynamics.joints.kind import part
from dynamics.lie.expression import Expr
from dynamics.model.model import Model


@built_once
def inverse_dynamics(model: Model, q: Expr, v: Expr, a: Expr, f_ext: Mapping[str, Expr] | None = None) -> Expr:
    """Generalised force tau [nv] that produces the acceleration a.

    q: [nq]; v, a: [nv]; f_ext: body name -> wrench [6] acting on that body, body coordinates, N and N m.
    tau = M(q) a + h(q, v) - sum J^T f_ext, where h holds Coriolis, gravity and viscous joint damping, and M includes
    armature. Dry friction is not part of it. Raises ModelError on wrong sizes, UnknownNameError on unknown bodies.
    """
    q, v, a = tree.as_column(q), tree.as_column(v), tree.as_column(a)
    tree.check_sizes(model, q=(q, model.nq), v=(v, model.nv), a=(a, model.nv))
    external = tree.wrench_by_body(model, f_ext)
    # a base accelerating against gravity stands in for the weight of every body, RBDA section 5.3
    base = spatial.motion(-spatial.constant(model.gravity), spatial.constant((0.0, 0.0, 0.0)))

    transforms: list[spatial.Transform] = []
    subspaces: list[Expr] = []
    twists: list[Expr] = []
    accelerations: list[Expr] = []
    forces: list[Expr] = []
    for i, body in enumerate(model.bodies):
        X, S, vs = tree.parent_transform(model, i, q), tree.coupled_subspace(model, i, q), model.v_slice(i)
        own = S @ part(v, vs)
        above = accelerations[body.parent] if body.parent >= 0 else base
        acc = spatial.motion_to_child(X, above) + S @ part(a, vs)
        if body.parent >= 0:
            twist = spatial.motion_to_child(X, twists[body.parent]) + own
            acc = acc + spatial.cross_motion(twist, own)
        else:
            twist = own  # own x own = 0
        bias = tree.joint_bias(model, i, q, v)
        if bias is not None:
            acc = acc + bias
        inertia = spatial.inertia_from_com(body.inertia.mass, body.inertia.com, body.inertia.inertia)
        f = spatial.apply_inertia(inertia, acc) + spatial.cross_force(twist, spatial.apply_inertia(inertia, twist))
        transforms.append(X)
        subspaces.append(S)
        twists.append(twist)
        accelerations.append(acc)
        forces.append(f - external[i] if i in external else f)

    tau = tree.zeros(model.nv, 1, q, v, a, *external.values())
    tau += tree.diagonal(model, "armature") * a + tree.diagonal(model, "damping") * v
    for i in reversed(range(len(model.bodies))):
        tau[model.v_slice(i), :] += subspaces[i].T @ forces[i]
        parent = model.bodies[i].parent
        if parent >= 0:
            forces[parent] = forces[parent] + spatial.force_to_parent(transforms[i], forces[i])
    return tau


def bias_force(model: Model, q: Expr, v: Expr, f_ext: Mapping[str, Expr] | None = None) -> Expr:
    """h(q, v) [nv]: the generalised force that keeps a = 0 (Coriolis, gravity, damping, minus external forces)."""
    return inverse_dynamics(model, q, v, ca.DM(model.nv, 1), f_ext)


def gravity_force(model: Model, q: Expr) -> Expr:
    """g(q) [nv]: the generalised force that holds the robot still against gravity."""
    return inverse_dynamics(model, q, ca.DM(model.nv, 1), ca.DM(model.nv, 1))
