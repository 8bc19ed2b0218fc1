"""Forces of a robot in a problem file: springs, dampers, cables, drag, and whatever is written down."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, StrictBool, model_validator

from ocp.app.files.schema_parts import Name, Number, NumberOrList, Part, Vector3, exactly_one


class Point(Part):
    """A point of the robot, or of the world."""

    frame: Name = Field("world", description="frame of the robot, or world")
    position: Vector3 = Field((0.0, 0.0, 0.0), description="coordinates in the frame [m]")


class JointSpring(Part):
    """``-stiffness (q - rest)``; of a spherical joint the rotation vector from rest."""

    joint: Name = Field(description="joint")
    stiffness: Number = Field(description="N m/rad or N/m")
    rest: NumberOrList | None = Field(None, description="coordinates without force; null: the neutral ones")


class JointDamper(Part):
    """``-linear v - quadratic |v| v`` at each velocity of the joint."""

    joint: Name = Field(description="joint")
    linear: Number = Field(0.0, description="N m s/rad or N s/m")
    quadratic: Number = Field(0.0, description="N m s^2/rad^2 or N s^2/m^2")


class JointFriction(Part):
    """Dry friction made smooth: ``-level tanh(v / speed)``."""

    joint: Name = Field(description="joint")
    level: Number = Field(description="N m or N")
    speed: Number = Field(0.01, description="at three times this speed 99.5 % of the level act [rad/s or m/s]")


class JointStop(Part):
    """Elastic end stops: a spring, with damping, at each coordinate beyond its stops."""

    joint: Name = Field(description="joint whose velocities are the rates of its coordinates")
    lower: NumberOrList = Field(description="where the lower stops begin [rad or m]")
    upper: NumberOrList = Field(description="where the upper stops begin [rad or m]")
    stiffness: Number = Field(description="N m/rad or N/m")
    damping: Number = Field(0.0, description="N m s/rad or N s/m; the force then jumps at the stop")


class Spring(Part):
    """A spring and damper along straight lines from point to point."""

    points: tuple[Point, ...] = Field(min_length=2, description="points in order")
    stiffness: Number = Field(description="N/m")
    damping: Number = Field(0.0, description="N s/m")
    length: Number = Field(description="length without force [m]")


class Cable(Spring):
    """The same, which pulls or does nothing."""


class Bushing(Part):
    """A spring and damper of the same strength in all directions between two points that may meet."""

    points: tuple[Point, ...] = Field(min_length=2, max_length=2, description="the two points")
    stiffness: Number = Field(description="N/m")
    damping: Number = Field(0.0, description="N s/m")


class Torsion(Part):
    """A torsion spring and damper between two frames: ``-stiffness phi``, phi the rotation vector from the first to the second."""

    first: Name = Field(description="frame of the robot, or world")
    second: Name = Field(description="frame of another body, or world")
    stiffness: Number = Field(description="N m/rad")
    damping: Number = Field(0.0, description="N m s/rad")
    rest: Vector3 = Field((0.0, 0.0, 0.0), description="rotation vector without torque [rad]")


class Push(Part):
    """A constant force in the axes of the world."""

    point: Point = Field(description="where it acts")
    force: Vector3 = Field(description="N")


class Drag(Part):
    """``-linear V - quadratic |V| V`` for each component of the twist V of a frame, in its axes."""

    frame: Name = Field(description="frame of the robot")
    linear: tuple[Number, ...] | None = Field(None, min_length=6, max_length=6, description="[translation; rotation], N s/m, N m s")
    quadratic: tuple[Number, ...] | None = Field(
        None, min_length=6, max_length=6, description="[translation; rotation], N s^2/m^2, N m s^2")


class ElasticGround(Part):
    """Points that a flat ground pushes out and rubs: elastic and damped along the normal; friction creeps, or slides where that
    is less."""

    points: tuple[Point, ...] = Field(min_length=1, description="points that may touch")
    stiffness: Number = Field(description="along the normal [N/m]")
    damping: Number = Field(0.0, description="along the normal, inside [N s/m]; it may pull, and jumps where a point touches")
    dissipation: Number = Field(0.0, description="damping that grows with the depth: the elastic force times 1 + dissipation times "
                                                 "the speed inwards, never pulling [s/m]")
    friction: Number = Field(0.0, description="coefficient of sliding friction, of the elastic part of the normal force")
    creep: Number = Field(0.0, description="viscous friction below sliding [N s/m]")
    normal: Vector3 = Field((0.0, 0.0, 1.0), description="out of the ground, any length but zero")
    origin: Vector3 = Field((0.0, 0.0, 0.0), description="a point of the ground [m]")


class Loop(Part):
    """A joint between two frames that the tree of the robot does not have."""

    first: Name = Field(description="frame of the robot, or world")
    second: Name = Field(description="frame of another body; it coincides with the first but for the joint's motion")
    joint: Name = Field("fixed", description="fixed, revolute, prismatic, cylindrical, spherical or planar")
    axis: Vector3 = Field((0.0, 0.0, 1.0), description="of the joint, in the axes of both frames; planar: the normal")


class Rod(Part):
    """Two points at a constant distance."""

    points: tuple[Point, ...] = Field(min_length=2, max_length=2, description="the two points")
    length: Number = Field(description="distance [m]")


class Belt(Part):
    """``sum ratio q + offset = 0``."""

    ratios: dict[str, Number] = Field(min_length=1, description="joints of one coordinate and their ratios")
    offset: Number = Field(0.0, description="rad or m")


class Ground(Part):
    """What all contacts with the ground say."""

    frame: Name = Field(description="frame of the robot that touches")
    normal: Vector3 = Field((0.0, 0.0, 1.0), description="of the ground, in the world, any length but zero")
    height: Number = Field(0.0, description="of the ground along the normal [m]")
    friction: Number | None = Field(None, description="coefficient of friction; null: as much as it takes")
    cone: Literal["second_order", "pyramid"] = Field(
        "second_order", description="limit of friction: the cone, or the four-sided pyramid inside it")
    unilateral: StrictBool = Field(True, description="the ground only pushes, and friction is limited")
    clearance: Number | None = Field(
        None, description="least height over the ground in phases where the contact is not active [m]; null: not held")


class Touch(Ground):
    """Points of a frame that do not slip on the ground."""

    points: tuple[Vector3, ...] = Field(((0.0, 0.0, 0.0),), min_length=1, description="coordinates in the frame [m]")
    places: tuple[Vector3, ...] = Field((), description="world positions where they are held; none: wherever they touch [m]")
    slides: StrictBool = Field(False, description="without friction: only the normal is held")


class Sole(Ground):
    """A sole that lies flat on the ground and neither slips nor turns."""

    position: Vector3 = Field((0.0, 0.0, 0.0), description="its origin in the frame [m]")
    axis: Vector3 = Field((0.0, 0.0, 1.0), description="axis of the frame that points along the normal")
    half_sizes: tuple[Number, ...] | None = Field(
        None, min_length=2, max_length=2, description="of the rectangle that holds the centre of pressure [m]; null: no limit")


class Roller(Ground):
    """A wheel or a ball that rolls on the ground without slipping."""

    radius: Number = Field(description="around the origin of the frame [m]")
    axis: Vector3 | None = Field(None, description="of a wheel, in the frame; null: a ball")


class Blade(Part):
    """A point of a frame does not move along an axis of the frame."""

    frame: Name = Field(description="frame of the robot")
    axis: Vector3 = Field(description="sideways, in the frame")
    position: Vector3 = Field((0.0, 0.0, 0.0), description="of the point in the frame [m]")


class JointPath(Part):
    """A joint follows a function of time."""

    joint: Name = Field(description="joint")
    path: NumberOrList = Field(description="its coordinates, expressions of t [rad or m]")


class FramePath(Part):
    """A frame follows a function of time, in its position, its rotation, or both."""

    frame: Name = Field(description="frame of the robot")
    position: Vector3 | None = Field(None, description="of its origin in the world, expressions of t [m]; null: free")
    rpy: Vector3 | None = Field(None, description="roll, pitch, yaw about fixed axes, expressions of t [rad]; null: free")


class Equation(Part):
    """Equations that are written down."""

    position: NumberOrList | None = Field(None, description="expressions of q and t that are zero")
    velocity: NumberOrList | None = Field(None, description="expressions of q, v and t, affine in v, that are zero")

    @model_validator(mode="after")
    def _one(self) -> Self:
        exactly_one(self, ("position", "velocity"))
        return self


CONTACTS = ("contact", "flat_contact", "rolling")
CONSTRAINTS = ("closure", "rod", "coupling", *CONTACTS, "skate", "joint_motion", "frame_motion", "equation")


class MechanismConstraint(Part):
    """What the robot's own mechanics hold."""

    name: Name | None = Field(None, description="name; null: what it is, with a number")
    closure: Loop | None = Field(None, description="a joint that closes a loop")
    rod: Rod | None = Field(None, description="a rod between two points")
    coupling: Belt | None = Field(None, description="a linear coupling of joints")
    contact: Touch | None = Field(None, description="points that stand on the ground")
    flat_contact: Sole | None = Field(None, description="a sole that stands on the ground")
    rolling: Roller | None = Field(None, description="a wheel or ball that rolls on the ground")
    skate: Blade | None = Field(None, description="a blade or thin wheel that does not move sideways")
    joint_motion: JointPath | None = Field(None, description="a joint that follows a function of time")
    frame_motion: FramePath | None = Field(None, description="a frame that follows a function of time")
    equation: Equation | None = Field(None, description="an equation of positions or of velocities")

    @model_validator(mode="after")
    def _one(self) -> Self:
        self.form()
        return self

    def form(self) -> str:
        """Which of the forms is given."""
        return exactly_one(self, CONSTRAINTS)


FORMS = ("joint_spring", "joint_damper", "joint_friction", "joint_stop", "spring", "cable", "bushing", "torsion", "push", "drag",
         "ground", "efforts")


class RobotForce(Part):
    """A force that acts on the robot by itself."""

    name: Name | None = Field(None, description="name; null: what it is, with a number")
    joint_spring: JointSpring | None = Field(None, description="a spring at a joint")
    joint_damper: JointDamper | None = Field(None, description="a damper at a joint")
    joint_friction: JointFriction | None = Field(None, description="dry friction at a joint")
    joint_stop: JointStop | None = Field(None, description="elastic end stops of a joint")
    spring: Spring | None = Field(None, description="a spring and damper between points")
    cable: Cable | None = Field(None, description="a cable over points")
    bushing: Bushing | None = Field(None, description="a spring of the same strength in all directions between two points")
    torsion: Torsion | None = Field(None, description="a torsion spring and damper between two frames")
    push: Push | None = Field(None, description="a constant force at a point")
    drag: Drag | None = Field(None, description="resistance of a medium")
    ground: ElasticGround | None = Field(None, description="a flat ground as a force on points")
    efforts: dict[str, Number] | None = Field(
        None, description="efforts [N m or N] by joint, as expressions of q, v and constants")

    @model_validator(mode="after")
    def _one(self) -> Self:
        self.form()
        return self

    def form(self) -> str:
        """Which of the forms is given."""
        return exactly_one(self, FORMS)
