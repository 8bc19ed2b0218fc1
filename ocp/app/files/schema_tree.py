"""Joints, bodies and frames of a robot that a problem file adds to a robot file, or builds a robot of."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from ocp.app.files.schema_parts import Key, LimitOrList, Name, Number, NumberOrList, Part, Vector3, one_of, refuse
from ocp.app.files.schema_state import BasePose

KINDS = ("fixed, revolute, continuous, prismatic, universal, planar, spherical, free_flyer, euler, exponential, "
         "planar_translation, translation, free_2d, free_3d, free_3d_reversed, spline_curve, frame_spline, spline_surface or "
         "composite")


class Placed(BasePose):
    """Where a frame sits in its parent."""

    position: Vector3 | None = Key("origin in the parent's frame [m]", None)


class Motion(Placed):
    """What a kind of joint needs to be told."""

    axis: Vector3 | None = Key("axis in the joint frame, any length but zero (kinds of one axis)", None)
    axes: tuple[Vector3, ...] = Key("axes in the joint frame, in their order (universal: two)", ())
    chart: str = Key("euler, free_3d: three letters, such as zyx, the moving axes of the turns in their order; free_3d also "
                     "rotation_vector", "")
    points: tuple[Vector3, ...] = Key("spline_curve: points that the curve goes through, in the joint frame [m]", ())
    frames: tuple[Placed, ...] = Key("frame_spline: at least four frames, in the joint frame, one unit apart", ())
    grid: tuple[tuple[tuple[Number, ...], ...], ...] = Key("spline_surface: rows of at least 4 x 4 points of six numbers, "
                                                           "translation [m], turns about x, y, z [rad]", ())
    parts: tuple[JointPart, ...] = Key("composite: joints in a row, each placed in the frame of the one before", ())

    @model_validator(mode="after")
    def _axes(self) -> Self:
        if self.axis is not None and self.axes:
            raise refuse("needs one of axis and axes; found both")
        return self


class JointPart(Motion):
    """One joint of a composite joint."""

    name: Name = Key("name of the part; its coordinates are called JOINT.PART")
    kind: Name = Key(KINDS)


class Laws(Motion):
    """A joint with its limits and its own forces."""

    lower: LimitOrList | None = Key("lower limits of the coordinates [rad or m]; null: none", None)
    upper: LimitOrList | None = Key("upper limits of the coordinates [rad or m]; null: none", None)
    velocity: LimitOrList | None = Key("limits of the speeds [rad/s or m/s]; null: none", None)
    effort: LimitOrList | None = Key("limits of the efforts [N m or N]; null: none", None)
    damping: NumberOrList | None = Key("viscous damping [N m s/rad or N s/m]", None)
    armature: NumberOrList | None = Key("reflected inertia of a rotor [kg m^2 or kg]", None)


class JointChange(Laws):
    """A joint of the robot file in another form: of another kind, or of its own kind with other numbers."""

    kind: Name | None = Key(f"{KINDS}; of the joint in the robot file only the place stays, unless it is given; null: the kind "
                          "stays, and all that is not given", None)


class JointOfBody(Laws):
    """The joint that carries a body."""

    name: Name | None = Key("name of the joint; null: that of the body", None)
    kind: Name = Key(KINDS)


class Inertia(Part):
    """Inertia about the centre of mass in body axes."""

    xx: Number = Key("kg m^2")
    yy: Number = Key("kg m^2")
    zz: Number = Key("kg m^2")
    xy: Number = Key("kg m^2, the entry of the matrix", 0.0)
    xz: Number = Key("kg m^2, the entry of the matrix", 0.0)
    yz: Number = Key("kg m^2, the entry of the matrix", 0.0)


class Cylinder(Part):
    """A cylinder along z."""

    radius: Number = Key("m")
    length: Number = Key("m")


class Shape(Placed):
    """Something to draw, centred where it is placed in the body frame. Dynamics know nothing of it but for a density."""

    sphere: Number | None = Key("radius [m]", None)
    box: Vector3 | None = Key("edges along x, y, z [m]", None)
    cylinder: Cylinder | None = Key("a cylinder along z", None)
    mesh: Name | None = Key("file of triangles (STL, OBJ, PLY, COLLADA, glTF), closed where a density is given", None)
    scale: Number | None = Key("metres of one unit of the mesh; null: 1", None)

    @model_validator(mode="after")
    def _one(self) -> Self:
        if self.shape() != "mesh" and self.scale is not None:
            raise refuse("'scale' is that of a mesh")
        return self

    def shape(self) -> str:
        """Which of the shapes is given."""
        return one_of(self, ("sphere", "box", "cylinder", "mesh"))


class BodyPart(Part):
    """A rigid body and the joint that carries it."""

    parent: Name = Key("body or frame that carries it, or world", "world")
    joint: JointOfBody = Key("joint between the two; the body frame is the joint frame after its motion")
    mass: Number | None = Key("kg; null: 0, or what 'density' gives", None)
    com: Vector3 | None = Key("centre of mass in the body frame [m]; null: its origin, or what 'density' gives", None)
    inertia: Inertia | None = Key("inertia about the centre of mass; null: none, a point mass", None)
    shapes: tuple[Shape, ...] = Key("what is drawn", ())
    density: Number | None = Key("of the shapes [kg/m^3], which then give mass, com and inertia; null: as mass, com and inertia "
                                 "say", None)

    @model_validator(mode="after")
    def _mass_once(self) -> Self:
        if self.density is not None:
            if not self.shapes:
                raise refuse("'density' needs 'shapes'")
            if given := [key for key in ("com", "inertia", "mass") if getattr(self, key) is not None]:
                raise refuse(f"'density' gives mass, com and inertia; found {', '.join(given)}, too")
        return self


class Vertex(Part):
    """A point mass of a mass-spring body."""

    mass: Number = Key("kg")
    frame: Name = Key("frame of the robot that carries it; world: it moves freely from where it is placed", "world")
    position: Vector3 = Key("in the frame [m]")


class Edge(Part):
    """A spring between two vertices with the energy ``stiffness / 2 (l / length - 1)^2``."""

    between: tuple[Name, Name] = Key("two vertices")
    stiffness: Number = Key("J")
    length: Number | None = Key("without force [m]; null: as the vertices are placed, the robot neutral", None)
    damping: Number = Key("N s/m", 0.0)


class MassSprings(Part):
    """A deformable body of point masses and springs; a free vertex is a joint of three translations from where it is placed."""

    vertices: dict[str, Vertex] = Key("point masses by name", min_length=1)
    edges: tuple[Edge, ...] = Key("springs between them", ())


class FramePart(Placed):
    """A frame fixed to a body."""

    body: Name = Key("body or frame of the robot, or world")
