"""Robots by name: rotations, configurations and states, and the joints, bodies and frames that a file adds or builds a robot of."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StrictBool, Tag
from typing_extensions import TypeAliasType

from dynamics.forces import Place
from dynamics.model.builder import BodyInertia
from dynamics.redmax import deformable
from ocp.app.files.syntax import parts
from ocp.app.files.syntax.parts import (
    Key,
    LimitOrList,
    Name,
    Number,
    NumberOrList,
    OneOf,
    Part,
    Vector3,
    by_form,
    listed,
    one_of,
    refuse,
)
from ocp.problem import INF

ROTATION_FORMS = ("rpy: [roll, pitch, yaw], quaternion: {w: .., x: .., y: .., z: ..} or "
                  "axis_angle: {axis: [.., .., ..], angle: ..}")


class AtFrame(Part):
    """Items attached to a frame of the robot."""

    frame: Name = Key("frame of the robot")


class PushForce(Part):
    """A force on a robot."""

    frame: Name = Key("frame at whose origin it acts")
    force: Vector3 = Key("force in world axes [N]")


class RandomPush(Part):
    """A push of a robot in a random direction, once in a trial, at a random time."""

    frame: Name = Key("frame at whose origin it acts")
    force: Number = Key("how strong it is [N]", above=0)
    duration: Number = Key("how long it lasts [s]", 0.1, above=0)


class RandomStart(Part):
    """What is random in trials of closed loops of any kind."""

    start: dict[str, Number] = Key("half the width of a uniform distribution about the start, by name of the state as in a "
                                   "kick", dict, least=0)
    push: RandomPush | None = Key("a push of a robot", None)


def _named_components(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        raise refuse("a bare list is never a rotation, because the order of its entries is ambiguous; write one of "
                     f"{ROTATION_FORMS}")
    return value


class Quaternion(Part):
    """A unit quaternion by component; scaled to unit length when it is within 1e-3 of it."""

    w: Number = Key("scalar part")
    x: Number = Key("vector part, x")
    y: Number = Key("vector part, y")
    z: Number = Key("vector part, z")


class AxisAngle(Part):
    """A rotation about an axis."""

    axis: Vector3 = Key("direction of the axis, any nonzero vector", nonzero=True)
    angle: Number = Key("angle about the axis [rad]")


class Rotation(OneOf):
    """A rotation in exactly one of three forms."""

    forms = ("rpy", "quaternion", "axis_angle")

    rpy: Vector3 | None = Key("roll, pitch, yaw [rad] about the fixed axes x, y, z in this order", None)
    quaternion: Annotated[Quaternion | None, BeforeValidator(_named_components)] = Key("Hamilton quaternion {w, x, y, z}", None)
    axis_angle: Annotated[AxisAngle | None, BeforeValidator(_named_components)] = Key("rotation by angle about axis", None)


class FreeRotation(Rotation):
    """A rotation in one of three forms, or none."""

    optional = "rotation"


class BasePose(FreeRotation):
    """Pose of a floating base; what is left out stays free."""

    position: Vector3 | None = Key("origin in the world [m]", None)


class Base(BasePose):
    """Pose and velocity of a floating base; what is left out stays free."""

    linear_velocity: Vector3 | None = Key("velocity of the origin in base axes [m/s]", None)
    angular_velocity: Vector3 | None = Key("angular velocity in base axes [rad/s]", None)


class JointPose(BasePose):
    """Value of a joint that turns freely: a rotation, and where it also moves freely a position."""

    position: Vector3 | None = Key("free_flyer only: origin in the joint frame [m]", None)


JointValue = TypeAliasType("JointValue", Annotated[
    parts.Float | parts.Text | parts.InDegrees | Annotated[tuple[Number, ...], Tag("<list>"), Field(min_length=1)]
    | Annotated[JointPose, Tag("<JointPose>")],
    by_form(f"a number [rad or m], a list with one for each coordinate of the joint, or a rotation ({ROTATION_FORMS})",
            "<JointPose>"),
    Field(description="value of a joint: number, list of coordinates, or for one that turns freely a rotation")])


class Configuration(Part):
    """A configuration of a robot by names."""

    configuration: str | None = Key("named configuration (SRDF or MJCF keyframe): fixes every joint that is not named here", None)
    base: BasePose | None = Key("floating base", None)
    joints: dict[str, JointValue] = Key("joint values by joint name [rad or m]", dict)


class RobotState(Configuration):
    """A state of a robot by names. What is not named is free; in a guess it follows the line from start to final."""

    base: Base | None = Key("floating base", None)
    velocities: dict[str, NumberOrList] = Key("joint velocities by joint name [rad/s or m/s]", dict)
    rest: StrictBool = Key("true: every velocity is zero", False)


class StartState(RobotState):
    """The state at the start: in the first phase everything is named, or ``others`` says what holds for the rest."""

    others: Annotated[str, Field(min_length=1)] | None = Key(
        "what is not named here: free (the solver chooses), neutral (zero and at rest), or a named configuration (there and at "
        "rest); null: everything is named", None)


# ---- joints, bodies and frames ----------------------------------------------------------------------------------------
KINDS = ("fixed, revolute, continuous, prismatic, universal, planar, spherical, free_flyer, euler, exponential, "
         "planar_translation, translation, free_2d, free_3d, free_3d_reversed, spline_curve, frame_spline, spline_surface or "
         "composite")


class Placed(BasePose):
    """Where a frame sits in its parent."""

    position: Vector3 | None = Key("origin in the parent's frame [m]", None)


class Motion(Placed):
    """Fields of one kind of joint."""

    axis: Vector3 | None = Key("axis in the joint frame, any nonzero vector (kinds of one axis)", None)
    axes: tuple[Vector3, ...] = Key("axes in the joint frame, in their order (universal: two)", ())
    chart: str = Key("euler, free_3d: three letters, such as zyx, the moving axes of the turns in their order; free_3d also "
                     "rotation_vector", "")
    points: tuple[Vector3, ...] = Key("spline_curve: points that the curve goes through, in the joint frame [m]", ())
    frames: tuple[Placed, ...] = Key("frame_spline: at least four frames, in the joint frame, one unit apart", ())
    grid: tuple[tuple[tuple[Number, ...], ...], ...] = Key("spline_surface: rows of at least 4 x 4 points of six numbers, "
                                                           "translation [m], turns about x, y, z [rad]", (), examples=["[]"])
    parts: tuple[JointPart, ...] = Key("composite: joints in a row, each placed in the frame of the one before", (),
                                         examples=["[{name: yaw, kind: revolute, axis: [0, 0, 1]}]"])

    def check(self) -> None:
        super().check()
        if self.axis is not None and self.axes:
            raise refuse("needs one of axis and axes; found both")


class JointPart(Motion):
    """One joint of a composite joint."""

    name: Name = Key("name of the part; its coordinates are called JOINT.PART", examples=["yaw"])
    kind: Name = Key(KINDS)


class Laws(Motion):
    """A joint with its limits and its own forces."""

    lower: LimitOrList | None = Key("lower limits of the coordinates [rad or m]; null: none", None, null=-INF, then=listed)
    upper: LimitOrList | None = Key("upper limits of the coordinates [rad or m]; null: none", None, null=INF, then=listed)
    velocity: LimitOrList | None = Key("limits of the speeds [rad/s or m/s]; null: none", None, null=INF, then=listed)
    effort: LimitOrList | None = Key("limits of the efforts [N m or N]; null: none", None, null=INF, then=listed)
    damping: NumberOrList | None = Key("viscous damping [N m s/rad or N s/m]", None, then=listed)
    armature: NumberOrList | None = Key("reflected inertia of a rotor [kg m^2 or kg]", None, then=listed)


class JointChange(Laws):
    """A joint of the robot file in another form: of another kind, or of its own kind with other numbers."""

    kind: Name | None = Key(f"{KINDS}; of the joint in the robot file only the placement stays, unless it is given; null: the kind "
                          "stays, and all that is not given", None, examples=["revolute"])


class JointOfBody(Laws):
    """The joint that carries a body."""

    name: Name | None = Key("name of the joint; null: that of the body", None)
    kind: Name = Key(KINDS)


def _symmetric(xx: float, yy: float, zz: float, xy: float, xz: float, yz: float) -> tuple[tuple[float, ...], ...]:
    return (xx, xy, xz), (xy, yy, yz), (xz, yz, zz)


class Inertia(Part):
    """Inertia about the centre of mass in body axes."""

    makes = _symmetric
    xx: Number = Key("moment of inertia [kg m^2]")
    yy: Number = Key("moment of inertia [kg m^2]")
    zz: Number = Key("moment of inertia [kg m^2]")
    xy: Number = Key("product of inertia, the entry of the matrix [kg m^2]", 0.0)
    xz: Number = Key("product of inertia, the entry of the matrix [kg m^2]", 0.0)
    yz: Number = Key("product of inertia, the entry of the matrix [kg m^2]", 0.0)


class Cylinder(Part):
    """A cylinder along z."""

    radius: Number = Key("radius [m]", above=0)
    length: Number = Key("length [m]", above=0)


class Shape(Placed):
    """Something to draw, centred where it is placed in the body frame. Dynamics know nothing of it but for a density."""

    sphere: Number | None = Key("radius [m]", None, above=0)
    box: Vector3 | None = Key("edges along x, y, z [m]", None, above=0)
    cylinder: Cylinder | None = Key("a cylinder along z", None)
    mesh: Name | None = Key("file of triangles (STL, OBJ, PLY, COLLADA, glTF), closed where a density is given", None,
                             path=True, examples=["parts/block.stl"])
    scale: Number | None = Key("metres of one unit of the mesh; null: 1", None, above=0)

    def check(self) -> None:
        super().check()
        if self.shape() != "mesh" and self.scale is not None:
            raise refuse("'scale' applies to a mesh")

    def shape(self) -> str:
        """Which of the shapes is given."""
        return one_of(self, ("sphere", "box", "cylinder", "mesh"))


class BodyPart(Part):
    """A rigid body and the joint that carries it."""

    parent: Name = Key("body or frame that carries it, or world", "world")
    joint: JointOfBody = Key("joint between the two; the body frame is the joint frame after its motion")
    mass: Number | None = Key("mass [kg]; null: 0, or from 'density'", None, null=0.0)
    com: Vector3 | None = Key("centre of mass in the body frame [m]; null: its origin, or what 'density' gives", None,
                               null=BodyInertia().com)
    inertia: Inertia | None = Key("inertia about the centre of mass; null: none, a point mass", None, null=BodyInertia().inertia)
    shapes: tuple[Shape, ...] = Key("what is drawn", ())
    density: Number | None = Key("of the shapes [kg/m^3], which then give mass, com and inertia; null: as mass, com and inertia "
                                 "say", None)

    def check(self) -> None:
        if self.density is not None:
            if not self.shapes:
                raise refuse("'density' needs 'shapes'")
            if spec := [key for key in ("com", "inertia", "mass") if getattr(self, key) is not None]:
                raise refuse(f"'density' gives mass, com and inertia; found {', '.join(spec)}, too")


def _vertex(name: str, mass: float, frame: str, position: tuple[float, float, float]) -> deformable.Vertex:
    return deformable.Vertex(name, mass, Place(frame, position))


class Vertex(Part):
    """A point mass of a mass-spring body."""

    makes = _vertex
    mass: Number = Key("mass [kg]", examples=[0.2])
    frame: Name = Key("frame of the robot that carries it; world: it moves freely from where it is placed", "world")
    position: Vector3 = Key("in the frame [m]")


class Edge(Part):
    """A spring between two vertices with the energy ``stiffness / 2 (l / length - 1)^2``."""

    makes = deformable.Edge
    between: tuple[Name, Name] = Key("two vertices", examples=["[left, right]"], name=("first", "second"))
    stiffness: Number = Key("stiffness [J]", examples=[50], least=0, name="K")
    length: Number | None = Key("rest length [m]; null: the distance of the vertices in the neutral configuration", None)
    damping: Number = Key("damping [N s/m]", 0.0, least=0, name="c")


class MassSprings(Part):
    """A deformable body of point masses and springs; a free vertex is a joint of three translations from where it is placed."""

    vertices: dict[str, Vertex] = Key("point masses by name", min_length=1)
    edges: tuple[Edge, ...] = Key("springs between them", ())


class FramePart(Placed):
    """A frame fixed to a body."""

    body: Name = Key("body or frame of the robot, or world")
