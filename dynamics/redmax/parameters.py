"""Numbers of a mechanism that stay free: lengths of links, inertial parameters, fields of forces. All are 0 for the mechanism as it
is, but those of forces, which are the field itself.

No copy of the algorithms is needed. A length is the coordinate of a massless slider that is locked, put before a joint; an added
inertia is a wrench on its body, linear in the parameter; a field of a force is a symbol in its record.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import casadi as ca
import numpy as np

from dynamics import algorithms as alg
from dynamics import spatial
from dynamics.algorithms.kinematics import body_accelerations
from dynamics.errors import ModelError, near
from dynamics.lie.expression import Expr
from dynamics.mechanism import Mechanism
from dynamics.model.model import Body, Joint, Model, Placement
from dynamics.spatial import Inertia

COMPONENTS = ("mass", "hx", "hy", "hz", "xx", "yy", "zz", "xy", "xz", "yz")


@dataclass(frozen=True)
class Length:
    """Metres by which the joint's frame moves along an axis [3] of itself, in its parent body; what hangs from it goes along."""

    joint: str
    axis: tuple[float, float, float]


@dataclass(frozen=True)
class AddedInertia:
    """Added to a body: ``mass`` at its origin [kg], first moment h [kg m], or an entry of the inertia about its origin [kg m^2]."""

    body: str
    component: str


@dataclass(frozen=True)
class ForceField:
    """A field of a force's record, such as ``k`` of a spring; at the mechanism as it is, the parameter is the field."""

    force: str
    field: str


Parameter = Length | AddedInertia | ForceField


def nominal(mechanism: Mechanism, parameters: Sequence[Parameter]) -> list[float]:
    """The values at which the mechanism is itself."""
    forces = {force.name: force for force in mechanism.forces}
    return [float(getattr(forces[p.force], p.field)) if isinstance(p, ForceField) else 0.0 for p in parameters]


def check(mechanism: Mechanism, parameters: Sequence[Parameter]) -> None:
    """Raises ModelError or UnknownNameError for a parameter that the mechanism does not have, or twice the same."""
    forces = {force.name: force for force in mechanism.forces}
    for k, p in enumerate(parameters):
        if p in parameters[:k]:
            raise ModelError("is given twice", element=f"parameter {p}")
        if isinstance(p, Length):
            mechanism.model.joint_index(p.joint)
            if not abs(sum(x * x for x in p.axis) - 1.0) < 1e-9:
                raise ModelError(f"axis must be a unit vector, got {p.axis}", element=f"length at joint {p.joint!r}")
        elif isinstance(p, AddedInertia):
            mechanism.model.body_index(p.body)
            if p.component not in COMPONENTS:
                raise ModelError(f"no inertial parameter {p.component!r}{near(p.component, COMPONENTS)}",
                                 element=f"body {p.body!r}")
        elif p.force not in forces:
            raise ModelError(f"no force named {p.force!r}{near(p.force, forces)}", element="parameter")
        elif not isinstance(getattr(forces[p.force], p.field, None), float | int):
            known = [name for name, value in vars(forces[p.force]).items() if isinstance(value, float | int)]
            raise ModelError(f"no numeric field {p.field!r} in its record{near(p.field, known)}", element=f"force {p.force!r}")


@dataclass(frozen=True)
class Varied:
    """A mechanism with free numbers as expressions: ``mechanism``, longer by massless sliders, at (q, v, a), all widened;
    ``rows`` of its velocities that are the mechanism's own."""

    mechanism: Mechanism
    q: Expr
    v: Expr
    a: Expr
    rows: list[int]
    added: Sequence[Parameter]
    p: Expr

    def effort(self, thrusts: Expr) -> Expr:
        """``ID(q, v, a) - f(q, v) - thrusts`` [nv] of the mechanism's own joints."""
        state = (self.q, self.v, self.a)
        tau = self.mechanism.inverse_dynamics(*state, thrusts)
        return (tau + _inertia_effort(self.mechanism.model, self.added, state, self.p))[self.rows]


def varied(mechanism: Mechanism, parameters: Sequence[Parameter], p: Expr, q: Expr, v: Expr, a: Expr) -> Varied:
    """The mechanism at parameters p [np] and (q, v, a), columns of its own coordinates."""
    longer, (rows, places, lengths) = _with_sliders(mechanism.model, parameters)
    wide_q, wide_v, wide_a = ca.SX(longer.nq, 1), ca.SX(longer.nv, 1), ca.SX(longer.nv, 1)
    wide_q[places], wide_v[rows], wide_a[rows] = q, v, a
    forces = {force.name: force for force in mechanism.forces}
    for k, parameter in enumerate(parameters):
        if isinstance(parameter, Length):
            wide_q[lengths[k]] = p[k]
        elif isinstance(parameter, ForceField):
            forces[parameter.force] = replace(forces[parameter.force], **{parameter.field: p[k]})  # type: ignore[type-var]
    wide = copy.copy(mechanism)  # as it is, but for expressions in the place of numbers, which checks would refuse
    object.__setattr__(wide, "model", longer)
    object.__setattr__(wide, "forces", tuple(forces.values()))
    return Varied(wide, wide_q, wide_v, wide_a, rows, parameters, p)


def residual(mechanism: Mechanism, parameters: Sequence[Parameter], at: Sequence[Expr]) -> Expr:
    """``r = ID(q, v, a) - f(q, v) - S u - thrusts`` [nv] at = (q, v, a, u, p), all columns; zero along motions."""
    q, v, a, u, p = at
    return varied(mechanism, parameters, p, q, v, a).effort(u[len(mechanism.motors):]) - mechanism.motor_effort(u)


def _inertia_effort(model: Model, parameters: Sequence[Parameter], state: Sequence[Expr], p: Expr) -> Expr:
    """``J' (I A + V x* I V)`` [nv] of the added inertias, A the body's acceleration less gravity."""
    q, v, a = state
    total = ca.SX(model.nv, 1)
    chosen = [(k, x) for k, x in enumerate(parameters) if isinstance(x, AddedInertia)]
    if not chosen:
        return total
    poses, twists, accelerations = alg.body_poses(model, q), alg.body_velocities(model, q, v), body_accelerations(model, q, v, a)
    for body in {x.body for _, x in chosen}:
        m, h, I = ca.SX(1, 1), ca.SX(3, 1), ca.SX(3, 3)
        for k, x in chosen:
            if x.body != body:
                continue
            if x.component == "mass":
                m += p[k]
            elif x.component[0] == "h":
                h["xyz".index(x.component[1])] += p[k]
            else:
                one, two = ("xyz".index(letter) for letter in x.component)
                I[one, two] += p[k]
                if one != two:
                    I[two, one] += p[k]
        i = model.body_index(body)
        fall = spatial.motion(poses[i].R.T @ ca.DM(model.gravity), ca.DM(3, 1))
        inertia, V = Inertia(m, h, I), twists[i]
        wrench = spatial.apply_inertia(inertia, accelerations[i] - fall) + spatial.cross_force(V, spatial.apply_inertia(inertia, V))
        total = total + alg.frame_jacobian(model, q, body, "body").T @ wrench
    return total


def _with_sliders(model: Model, parameters: Sequence[Parameter]) -> tuple[Model, tuple[list[int], list[int], dict[int, int]]]:
    """The model with a massless slider before the joint of every length; rows of its velocities and of its coordinates that are the
    model's own, and the coordinate of each length by the index of its parameter."""
    bodies: list[Body] = []
    moved: dict[int, int] = {-1: -1}
    names: dict[int, str] = {}
    for i, body in enumerate(model.bodies):
        parent, joint = moved[body.parent], body.joint
        for k, x in enumerate(parameters):
            if isinstance(x, Length) and x.joint == joint.name:
                names[k] = f"{joint.name} length {k}"
                bodies.append(Body(names[k], parent, Joint(names[k], "prismatic", joint.placement, (x.axis,))))
                parent, joint = len(bodies) - 1, replace(joint, placement=Placement())
        bodies.append(replace(body, parent=parent, joint=joint))
        moved[i] = len(bodies) - 1
    frames = tuple(replace(frame, body=moved[frame.body]) for frame in model.frames)
    longer = replace(model, bodies=tuple(bodies), frames=frames, configurations={})
    rows = {name: j for j, name in enumerate(longer.velocity_names)}
    places = {name: j for j, name in enumerate(longer.coordinate_names)}
    return longer, ([rows[name] for name in model.velocity_names], [places[name] for name in model.coordinate_names],
                    {k: places[name] for k, name in names.items()})


def lengthened(model: Model, values: Mapping[Parameter, float]) -> Model:
    """The model with its joints where these lengths [m] put them; other parameters move nothing."""
    bodies = list(model.bodies)
    for parameter, value in values.items():
        if isinstance(parameter, Length):
            i = model.joint_index(parameter.joint)
            joint, place = bodies[i].joint, bodies[i].joint.placement
            moved = np.array(place.position) + value * np.array(place.rotation) @ np.array(parameter.axis)
            bodies[i] = replace(bodies[i], joint=replace(joint, placement=replace(place, position=tuple(moved.tolist()))))
    return replace(model, bodies=tuple(bodies))


def flat_coordinates(mechanism: Mechanism) -> None:
    """Raises ModelError for a joint whose velocities are not the rates of its coordinates, or a mechanism with constraints."""
    for kind, _, vs in mechanism.model.factors:
        if not kind.is_vector_space:
            joint = mechanism.model.velocity_names[vs.start].split(".")[0]
            raise ModelError(f"implicit steps need coordinates whose rates are velocities, which kind {kind.name!r} has not; "
                             "'exponential', 'euler', 'free_2d' and 'free_3d' have them", element=f"joint {joint!r}")
    if mechanism.constraints:
        raise ModelError("implicit steps do not support constraints; close the loop by a stiff Bushing",
                         element=f"constraint {mechanism.constraints[0].name!r}")


__all__ = ["AddedInertia", "ForceField", "Length", "Parameter", "check", "flat_coordinates", "lengthened", "nominal", "residual"]
