"""Actuators: motors geared to joints, and thrusters that push bodies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from dynamics import spatial
from dynamics.algorithms.tree import placement_transform
from dynamics.errors import ModelError, UnknownNameError, near
from dynamics.lie.expression import Expr
from dynamics.model.model import Model, Placement

INF = float("inf")


@dataclass(frozen=True)
class Motor:
    """A control u that gives the generalised force ``gear u`` at each velocity it is geared to.

    gears: (name of a velocity of the robot, ratio); one entry is a motor at a joint, several are a transmission between joints.
    lower, upper: limits of u [N m or N].
    """

    name: str
    gears: tuple[tuple[str, float], ...]
    lower: float = -INF
    upper: float = INF


@dataclass(frozen=True)
class Thruster:
    """A control that pushes along a fixed axis of a frame: force ``u axis`` [N] and moment ``(moment_ratio axis + moment) u``
    [N m] (propeller drag), in frame axes at the point ``position`` [3] (m) of the frame.

    axis: any length but zero, divided by it; all zero for a control that only twists by ``moment``. lower, upper: limits of u [N].
    against: a frame whose body bears the opposite of it all, at the same point: a motor or a piston between two bodies, neighbours
    in the tree or not; the world where it is empty.
    """

    name: str
    frame: str
    axis: tuple[float, float, float] = (0.0, 0.0, 1.0)
    moment_ratio: float = 0.0
    position: tuple[float, float, float] = (0.0, 0.0, 0.0)
    moment: tuple[float, float, float] = (0.0, 0.0, 0.0)
    lower: float = -INF
    upper: float = INF
    against: str = ""

    def unit_wrench(self) -> Expr:
        """Wrench [6] per newton of thrust, at the origin of the frame in its axes."""
        length = float(np.linalg.norm(self.axis))
        axis = np.asarray(self.axis, float) / (length or 1.0)
        local = spatial.force(spatial.constant(axis), spatial.constant(axis * self.moment_ratio + np.asarray(self.moment, float)))
        return spatial.force_to_parent(placement_transform(Placement(position=self.position)), local)


def reflected(model: Model, rotors: Mapping[str, float]) -> Model:
    """The model with what rotors behind gears add to the armature [kg m^2 or kg] of its velocities, by name: ``ratio^2`` times the
    inertia of the rotor. Raises UnknownNameError for a velocity that the model does not have."""
    for name in rotors:
        if name not in model.velocity_names:
            raise UnknownNameError("velocity", name, model.velocity_names)
    bodies = []
    for i, body in enumerate(model.bodies):
        more = [rotors.get(name, 0.0) for name in model.velocity_names[model.v_slice(i)]]
        if any(more) and body.joint.mimic is None:
            total = np.add(more, body.joint.armature or 0.0)
            body = replace(body, joint=replace(body.joint, armature=tuple(total.tolist())))
        bodies.append(body)
    return replace(model, bodies=tuple(bodies))


def check_drives(model: Model, motors: tuple[Motor, ...], thrusters: tuple[Thruster, ...]) -> None:
    """Raises ModelError or UnknownNameError for a drive that the robot cannot have, naming it."""
    names = [*(motor.name for motor in motors), *(thruster.name for thruster in thrusters)]
    for name in names:
        if names.count(name) > 1:
            raise ModelError(f"control name {name!r} is used twice", element=f"model {model.name!r}")
    for motor in motors:
        where = f"motor {motor.name!r}"
        if not motor.gears:
            raise ModelError("has no gear ratios: it drives nothing", element=where)
        for velocity, ratio in motor.gears:
            if velocity not in model.velocity_names:
                raise ModelError(f"no velocity named {velocity!r}{near(velocity, model.velocity_names)}", element=where)
            if not np.isfinite(ratio) or ratio == 0.0:
                raise ModelError(f"the gear ratio to {velocity!r} must be finite and not zero, got {ratio:g}", element=where)
        if not motor.lower <= motor.upper:
            raise ModelError(f"limits must be in order, got {motor.lower:g} to {motor.upper:g}", element=where)
    for thruster in thrusters:
        where = f"thruster {thruster.name!r}"
        if model.frame(thruster.frame).body < 0:
            raise ModelError(f"frame {thruster.frame!r} is fixed to the world and cannot be pushed", element=where)
        if thruster.against and model.frame(thruster.against).body == model.frame(thruster.frame).body:
            raise ModelError(f"frames {thruster.frame!r} and {thruster.against!r} are fixed to the same body", element=where)
        if not any(thruster.axis) and not any(thruster.moment):
            raise ModelError("axis and moment are both zero", element=where)
        if not thruster.lower <= thruster.upper:
            raise ModelError(f"limits must be in order, got {thruster.lower:g} to {thruster.upper:g}", element=where)
