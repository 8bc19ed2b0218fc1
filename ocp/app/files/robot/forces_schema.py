"""Forces and constraints of a robot in a problem file: springs, dampers, cables, drag, contacts, and equations that are written
out; and the numbers among them that the solver may choose."""

from __future__ import annotations

from typing import Literal

from pydantic import StrictBool

from dynamics import constraints as held
from dynamics import forces as law
from dynamics.redmax.parameters import AddedInertia, Length
from ocp.app.files.robot.tree_schema import AtFrame
from ocp.app.files.syntax.parts import Key, Name, Number, NumberOrList, OneOf, Pair, Part, Vector3, listed, refuse, unit_vector
from ocp.contacts import CONES
from ocp.problem import INF


class AtJoint(Part):
    """A force at a joint."""

    joint: Name = Key("joint")


class Point(Part):
    """A point of the robot, or of the world."""

    makes = law.Place
    frame: Name = Key("frame of the robot, or world", "world")
    position: Vector3 = Key("coordinates in the frame [m]", (0.0, 0.0, 0.0))


class JointSpring(AtJoint):
    """``-stiffness (q - rest)``; of a spherical joint the rotation vector from rest."""

    makes = law.JointSpring
    stiffness: Number = Key("stiffness [N m/rad or N/m]", name="k")
    rest: NumberOrList | None = Key("coordinates at which the force vanishes [rad or m]; null: neutral", None, then=listed)


class JointDamper(AtJoint):
    """``-linear v - quadratic |v| v`` at each velocity of the joint."""

    makes = law.JointDamper
    linear: Number = Key("viscous damping [N m s/rad or N s/m]", 0.0, name="c")
    quadratic: Number = Key("quadratic damping [N m s^2/rad^2 or N s^2/m^2]", 0.0)


class JointFriction(AtJoint):
    """Dry friction made smooth: ``-level tanh(v / speed)``."""

    makes = law.JointFriction
    level: Number = Key("friction at sliding speeds [N m or N]")
    speed: Number = Key("speed of the transition; 99.5 % of the level act at three times of it [rad/s or m/s]", 0.01)


class JointStop(Part):
    """Elastic end stops: a spring, with damping, at each coordinate beyond its stops."""

    makes = law.JointStop
    joint: Name = Key("joint whose velocities are the rates of its coordinates")
    lower: NumberOrList = Key("coordinates of the lower stops [rad or m]", then=listed)
    upper: NumberOrList = Key("coordinates of the upper stops [rad or m]", then=listed)
    stiffness: Number = Key("stiffness [N m/rad or N/m]", name="k")
    damping: Number = Key("damping at the stop, where the force then jumps [N m s/rad or N s/m]", 0.0, name="c")


class Spring(Part):
    """A spring and damper along straight lines from point to point."""

    makes = law.Spring
    points: tuple[Point, ...] = Key("points in order", name="places", min_length=2)
    stiffness: Number = Key("stiffness [N/m]", name="k")
    damping: Number = Key("damping [N s/m]", 0.0, name="c")
    length: Number = Key("rest length [m]")


class Cable(Spring):
    """The same, under tension alone: slack it exerts no force."""

    makes = law.Cable


class Bushing(Part):
    """A spring and damper of the same strength in all directions between two points that may meet."""

    makes = law.Bushing
    points: tuple[Point, ...] = Key("the two points", name=("first", "second"), min_length=2, max_length=2)
    stiffness: Number = Key("stiffness [N/m]", name="k")
    damping: Number = Key("damping [N s/m]", 0.0, name="c")


class Torsion(Part):
    """A torsion spring and damper between two frames: ``-stiffness phi``, phi the rotation vector from the first to the second."""

    makes = law.Torsion
    first: Name = Key("frame of the robot, or world")
    second: Name = Key("frame of another body, or world", examples=["world"])
    stiffness: Number = Key("stiffness [N m/rad]", name="k")
    damping: Number = Key("damping [N m s/rad]", 0.0, name="c")
    rest: Vector3 = Key("rotation vector at which the torque vanishes [rad]", (0.0, 0.0, 0.0))


class Push(Part):
    """A constant force in the axes of the world."""

    makes = law.PointForce
    point: Point = Key("where it acts", name="place")
    force: Vector3 = Key("force in world axes [N]", examples=["[0, 0, 5]"])


class Drag(AtFrame):
    """``-linear V - quadratic |V| V`` for each component of the twist V of a frame, in its axes."""

    makes = law.Drag
    linear: tuple[Number, ...] | None = Key("drag, translation then rotation [N s/m; N m s]", None, min_length=6, max_length=6)
    quadratic: tuple[Number, ...] | None = Key("quadratic drag [N s^2/m^2; N m s^2]", None, min_length=6, max_length=6)


class ElasticGround(Part):
    """Points that a flat ground pushes out and rubs: elastic and damped along the normal; friction creeps, or slides where that
    is less."""

    makes = law.Ground
    points: tuple[Point, ...] = Key("points that may touch", name="places", min_length=1)
    stiffness: Number = Key("stiffness along the normal [N/m]", name="k")
    damping: Number = Key("damping along the normal [N s/m]; the force may pull, and jumps at touchdown", 0.0, name="c")
    dissipation: Number = Key("damping that grows with the depth: the elastic force times 1 + dissipation times the speed inwards, "
                              "never pulling [s/m]", 0.0, name="e")
    friction: Number = Key("coefficient of sliding friction, of the elastic part of the normal force", 0.0, name="mu")
    creep: Number = Key("viscous coefficient of friction before sliding [N s/m]", 0.0, name="k_t")
    normal: Vector3 = Key("outward normal of the ground; any nonzero vector", (0.0, 0.0, 1.0))
    origin: Vector3 = Key("a point of the ground [m]", (0.0, 0.0, 0.0))


class Loop(Part):
    """A joint between two frames that the tree of the robot does not have."""

    makes = held.Closure
    first: Name = Key("frame of the robot, or world")
    second: Name = Key("frame of another body; both coincide where the joint coordinate is zero")
    joint: Name = Key("kind of joint", "fixed")
    axis: Vector3 = Key("axis of the joint in both frames; planar: the normal", (0.0, 0.0, 1.0))


class Rod(Part):
    """Two points at a constant distance."""

    makes = held.Rod
    points: tuple[Point, ...] = Key("the two points", name=("first", "second"), min_length=2, max_length=2)
    length: Number = Key("distance [m]")


class Belt(Part):
    """``sum ratio q + offset = 0``."""

    makes = held.Coupling
    ratios: dict[str, Number] = Key("joints of one coordinate and their ratios", then=lambda found: tuple(found.items()),
                                   min_length=1)
    offset: Number = Key("value of the weighted sum [rad or m]", 0.0)


class Ground(Part):
    """Fields common to all contacts with the ground."""

    frame: Name = Key("frame of the robot that touches")
    normal: Vector3 = Key("normal of the ground in world axes; any nonzero vector", (0.0, 0.0, 1.0))
    height: Number = Key("height of the ground along the normal [m]", 0.0)
    friction: Number | None = Key("coefficient of friction; null: unlimited", None, above=0,
                                  hint="; what glides takes slides: true")
    cone: Literal["second_order", "pyramid", "outer_pyramid"] = Key(
        "limit of friction: the cone, or the four-sided pyramid inside it or around it", "second_order", then=CONES.get)
    min_force: Number = Key("smallest normal force of each point [N]", 0.0, least=0, name="least")
    max_force: Number | None = Key("largest normal force of each point [N]; null: unbounded", None, above=0, null=INF, name="most")
    gains: Pair = Key("gains k and d of Baumgarte's stabilisation, g'' + d g' + k g = 0 for a violation g [1/s^2; 1/s]",
                      held.Constraint.gains, least=0)
    unilateral: StrictBool = Key("the ground only pushes, and friction is limited", True)
    clearance: Number | None = Key("smallest height over the ground in phases without the contact [m]; null: any", None)


class Touch(Ground):
    """Points of a frame that do not slip on the ground."""

    makes = held.PointContact
    points: tuple[Vector3, ...] = Key("coordinates in the frame [m]", ((0.0, 0.0, 0.0),), min_length=1)
    places: tuple[Vector3, ...] = Key("world positions of the points [m]; none: where they touch down", ())
    slides: StrictBool = Key("frictionless: only the normal direction is constrained", False)


class Sole(Ground):
    """A sole that lies flat on the ground and neither slips nor turns."""

    makes = held.FlatContact
    position: Vector3 = Key("origin of the sole in the frame [m]", (0.0, 0.0, 0.0))
    axis: Vector3 = Key("axis of the frame that points along the normal", (0.0, 0.0, 1.0))
    half_sizes: tuple[Number, ...] | None = Key("half sizes, the limits of the centre of pressure [m]", None, min_length=2,
                                                max_length=2)

    def check(self) -> None:
        if self.half_sizes is None:
            raise refuse("needs half_sizes [along, across] in m: a sole without edges could never tip; to fix a body to the "
                         "ground, use a closure with joint: fixed")


class Roller(Ground):
    """A wheel or a ball that rolls on the ground without slipping."""

    makes = held.RollingContact
    radius: Number = Key("radius around the origin of the frame [m]")
    axis: Vector3 | None = Key("axis of a wheel in the frame; null: a ball", None)


class Blade(AtFrame):
    """A point of a frame does not move along an axis of the frame."""

    makes = held.Skate
    axis: Vector3 = Key("axis without motion, in the frame")
    position: Vector3 = Key("position of the point in the frame [m]", (0.0, 0.0, 0.0))


class JointPath(AtJoint):
    """A joint follows a function of time."""

    path: NumberOrList = Key("coordinates of the joint, expressions of t [rad or m]")


class FramePath(AtFrame):
    """A frame follows a function of time, in its position, its rotation, or both."""

    position: Vector3 | None = Key("position of its origin in the world, expressions of t [m]; null: free", None)
    rpy: Vector3 | None = Key("roll, pitch, yaw about fixed axes, expressions of t [rad]; null: free", None)


class Equation(OneOf):
    """Equations that are written down."""

    position: NumberOrList | None = Key("expressions of q and t that are zero", None)
    velocity: NumberOrList | None = Key("expressions of q, v and t, affine in v, that are zero", None)


class MechanismConstraint(OneOf):
    """Constraints within the robot's own mechanism."""

    name: Name | None = Key("name; null: its kind and a number", None)
    closure: Loop | None = Key("a joint that closes a loop", None)
    rod: Rod | None = Key("a rod between two points", None)
    coupling: Belt | None = Key("a linear coupling of joints", None)
    contact: Touch | None = Key("points that stand on the ground", None)
    flat_contact: Sole | None = Key("a sole that stands on the ground", None)
    rolling: Roller | None = Key("a wheel or ball that rolls on the ground", None)
    skate: Blade | None = Key("a blade or thin wheel that does not move sideways", None)
    joint_motion: JointPath | None = Key("a joint that follows a function of time", None)
    frame_motion: FramePath | None = Key("a frame that follows a function of time", None)
    equation: Equation | None = Key("an equation of positions or of velocities", None)


class RobotForce(OneOf):
    """A force that acts on the robot by itself."""

    name: Name | None = Key("name; null: its kind and a number", None)
    joint_spring: JointSpring | None = Key("a spring at a joint", None)
    joint_damper: JointDamper | None = Key("a damper at a joint", None)
    joint_friction: JointFriction | None = Key("dry friction at a joint", None)
    joint_stop: JointStop | None = Key("elastic end stops of a joint", None)
    spring: Spring | None = Key("a spring and damper between points", None)
    cable: Cable | None = Key("a cable over points", None)
    bushing: Bushing | None = Key("a spring of the same strength in all directions between two points", None)
    torsion: Torsion | None = Key("a torsion spring and damper between two frames", None)
    push: Push | None = Key("a constant force at a point", None)
    drag: Drag | None = Key("resistance of a medium", None)
    ground: ElasticGround | None = Key("a flat ground as a force on points", None)
    efforts: dict[str, Number] | None = Key("efforts [N m or N] by joint, as expressions of q, v and constants", None)


# ---- numbers that parameters of the problem stand for ---------------------------------------------------------------------
class DesignLength(Part):
    """The joint's location in its parent body moves along an axis; what hangs from it goes along."""

    makes = Length
    joint: Name = Key("joint that moves")
    axis: Vector3 = Key("direction in the joint frame; any nonzero vector", nonzero=True, then=unit_vector)


class DesignForce(Part):
    """A number of a force of 'forces' or of the robot file."""

    name: Name = Key("name of the force")
    field: Literal["stiffness", "damping", "length", "friction", "creep", "level", "speed", "linear", "quadratic"] = Key(
        "name of the number in 'forces'")


class DesignInertia(Part):
    """Added to a body."""

    makes = AddedInertia
    body: Name = Key("body", examples=["forearm"])
    component: Literal["mass", "hx", "hy", "hz", "xx", "yy", "zz", "xy", "xz", "yz"] = Key(
        "mass at the body's origin [kg], first moment [kg m], or inertia about the origin [kg m^2]", examples=["mass"])


class Design(OneOf):
    """The quantity of the robot that one parameter sets."""

    beside = ("parameter",)

    parameter: Name = Key("parameter of the file")
    length: DesignLength | None = Key("displacement of a joint from its position in the robot file [m]", None)
    force: DesignForce | None = Key("a number of a force, in its unit", None)
    inertia: DesignInertia | None = Key("inertia added to a body", None)
