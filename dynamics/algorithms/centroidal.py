"""Centre of mass, momentum and mechanical energy."""

from __future__ import annotations

import casadi as ca

from dynamics import spatial
from dynamics.algorithms import kinematics, tree
from dynamics.errors import ModelError
from dynamics.lie.expression import Expr
from dynamics.model.model import Model


def _inertia(model: Model, i: int) -> spatial.Inertia:
    body = model.bodies[i].inertia
    return spatial.inertia_from_com(body.mass, body.com, body.inertia)


def _check_mass(model: Model) -> None:
    if model.mass <= 0.0:
        raise ModelError("has no mass, so its centre of mass is undefined", element=f"model {model.name!r}")


def centre_of_mass(model: Model, q: Expr) -> Expr:
    """World position [3] (m) of the centre of mass. Raises ModelError for a robot without mass."""
    _check_mass(model)
    poses = kinematics.body_poses(model, q)
    moment = sum(b.inertia.mass * spatial.act_point(poses[i], spatial.constant(b.inertia.com))
                 for i, b in enumerate(model.bodies))
    return moment / model.mass


def centre_of_mass_jacobian(model: Model, q: Expr) -> Expr:
    """J [3, nv] with d/dt centre_of_mass = J v."""
    q = tree.as_column(q)
    _check_mass(model)
    J = tree.zeros(3, model.nv, q)
    poses = kinematics.body_poses(model, q)
    first = [b.inertia.mass * spatial.act_point(poses[i], spatial.constant(b.inertia.com)) for i, b in enumerate(model.bodies)]
    mass = [b.inertia.mass for b in model.bodies]
    for i in reversed(range(len(model.bodies))):  # mass and first moment of the subtree carried by each joint
        parent = model.bodies[i].parent
        if parent >= 0:
            first[parent], mass[parent] = first[parent] + first[i], mass[parent] + mass[i]
    for i in range(len(model.bodies)):
        W_S = spatial.motion_to_parent(poses[i], tree.coupled_subspace(model, i, q))
        J[:, model.v_slice(i)] += mass[i] * spatial.linear(W_S) - ca.skew(first[i]) @ spatial.angular(W_S)
    return J / model.mass


def momentum(model: Model, q: Expr, v: Expr) -> Expr:
    """Total spatial momentum [6] about the world origin, world axes: [linear; angular], kg m/s and kg m^2/s."""
    poses, twists = kinematics.body_poses(model, q), kinematics.body_velocities(model, q, v)
    return sum((spatial.force_to_parent(poses[i], spatial.apply_inertia(_inertia(model, i), twists[i]))
                for i in range(len(model.bodies))), ca.DM(6, 1))


def subtree_angular_momentum(model: Model, q: Expr, v: Expr, first: int, point: Expr) -> Expr:
    """Angular momentum [3] (kg m^2/s), world axes, of body ``first`` and all that it carries, about the ``point`` [3] (m) of the
    world. ``first`` -1: of the whole robot. Rotors (armature) are left out."""
    poses, twists = kinematics.body_poses(model, q), kinematics.body_velocities(model, q, v)
    carried = [i for i in range(len(model.bodies)) if first < 0 or i == first]
    for i, body in enumerate(model.bodies):  # parents come before children
        if body.parent in carried and i not in carried:
            carried.append(i)
    total = sum((spatial.force_to_parent(poses[i], spatial.apply_inertia(_inertia(model, i), twists[i])) for i in carried),
                ca.DM(6, 1))
    return spatial.angular(total) - ca.cross(point, spatial.linear(total))


def kinetic_energy(model: Model, q: Expr, v: Expr) -> Expr:
    """Kinetic energy [J], rotors (armature) included."""
    v = tree.as_column(v)
    twists = kinematics.body_velocities(model, q, v)
    bodies = sum(ca.dot(twists[i], spatial.apply_inertia(_inertia(model, i), twists[i])) for i in range(len(model.bodies)))
    return (bodies + ca.dot(v, tree.diagonal(model, "armature") * v)) / 2


def potential_energy(model: Model, q: Expr) -> Expr:
    """Gravitational potential energy [J], zero when every mass sits at the world origin."""
    poses = kinematics.body_poses(model, q)
    g = spatial.constant(model.gravity)
    return sum((-b.inertia.mass * ca.dot(g, spatial.act_point(poses[i], spatial.constant(b.inertia.com)))
                for i, b in enumerate(model.bodies)), ca.DM(0))


def total_energy(model: Model, q: Expr, v: Expr) -> Expr:
    """Kinetic plus potential energy [J]."""
    return kinetic_energy(model, q, v) + potential_energy(model, q)
