"""Joints, bodies and frames of a robot that a problem file adds to a robot file, or builds a robot of."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from ocp.app.files.schema_parts import LimitOrList, Name, Number, NumberOrList, Part, Vector3, key, one_of, refuse
from ocp.app.files.schema_state import BasePose

KINDS = ("fixed, revolute, continuous, prismatic, universal, planar, spherical, free_flyer, euler, exponential, "
         "planar_translation, translation, free_2d, free_3d, free_3d_reversed, spline_curve, frame_spline, spline_surface or "
         "composite")


class Placed(BasePose):
    """Where a frame sits in its parent."""

    position: Vector3 | None = key("origin in the parent's frame [m]", None)


class Motion(Placed):
    """What a kind of joint needs to be told."""

    axis: Vector3 | None = key("axis in the joint frame, any length but zero (kinds of one axis)", None)
    axes: tuple[Vector3, ...] = key("axes in the joint frame, in their order (universal: two)", ())
    chart: str = key("euler, free_3d: three letters, such as zyx, the moving axes of the turns in their order; free_3d also "
                     "rotation_vector", "")
    points: tuple[Vector3, ...] = key("spline_curve: points that the curve goes through, in the joint frame [m]", ())
    frames: tuple[Placed, ...] = key("frame_spline: at least four frames, in the joint frame, one unit apart", ())
    grid: tuple[tuple[tuple[Number, ...], ...], ...] = key("spline_surface: rows of at least 4 x 4 points of six numbers, "
                                                           "translation [m], turns about x, y, z [rad]", ())
    parts: tuple[JointPart, ...] = key("composite: joints in a row, each placed in the frame of the one before", ())

    @model_validator(mode="after")
    def _axes(self) -> Self:
        if self.axis is not None and self.axes:
            raise refuse("needs one of axis and axes; found both")
        return self


class JointPart(Motion):
    """One joint of a composite joint."""

    name: Name = key("name of the part; its coordinates are called JOINT.PART")
    kind: Name = key(KINDS)


class Laws(Motion):
    """A joint with its limits and its own forces."""

    lower: LimitOrList | None = key("lower limits of the coordinates [rad or m]; null: none", None)
    upper: LimitOrList | None = key("upper limits of the coordinates [rad or m]; null: none", None)
    velocity: LimitOrList | None = key("limits of the speeds [rad/s or m/s]; null: none", None)
    effort: LimitOrList | None = key("limits of the efforts [N m or N]; null: none", None)
    damping: NumberOrList | None = key("viscous damping [N m s/rad or N s/m]", None)
    armature: NumberOrList | None = key("reflected inertia of a rotor [kg m^2 or kg]", None)


class JointChange(Laws):
    """A joint of the robot file in another form: of another kind, or of its own kind with other numbers."""

    kind: Name | None = key(f"{KINDS}; of the joint in the robot file only the place stays, unless it is given; null: the kind "
                          "stays, and all that is not given", None)


class JointOfBody(Laws):
    """The joint that carries a body."""

    name: Name | None = key("name of the joint; null: that of the body", None)
    kind: Name = key(KINDS)


class Inertia(Part):
    """Inertia about the centre of mass in body axes."""

    xx: Number = key("kg m^2")
    yy: Number = key("kg m^2")
    zz: Number = key("kg m^2")
    xy: Number = key("kg m^2, the entry of the matrix", 0.0)
    xz: Number = key("kg m^2, the entry of the matrix", 0.0)
    yz: Number = key("kg m^2, the entry of the matrix", 0.0)


class Cylinder(Part):
    """A cylinder along z."""

    radius: Number = key("m")
    length: Number = key("m")


class Shape(Placed):
    """Something to draw, centred where it is placed in the body frame. Dynamics know nothing of it but for a density."""

    sphere: Number | None = key("radius [m]", None)
    box: Vector3 | None = key("edges along x, y, z [m]", None)
    cylinder: Cylinder | None = key("a cylinder along z", None)
    mesh: Name | None = key("file of triangles (STL, OBJ, PLY, COLLADA, glTF), closed where a density is given", None)
    scale: Number | None = key("metres of one unit of the mesh; null: 1", None)

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

    parent: Name = key("body or frame that carries it, or world", "world")
    joint: JointOfBody = key("joint between the two; the body frame is the joint frame after its motion")
    mass: Number | None = key("kg; null: 0, or what 'density' gives", None)
    com: Vector3 | None = key("centre of mass in the body frame [m]; null: its origin, or what 'density' gives", None)
    inertia: Inertia | None = key("inertia about the centre of mass; null: none, a point mass", None)
    shapes: tuple[Shape, ...] = key("what is drawn", ())
    density: Number | None = key("of the shapes [kg/m^3], which then give mass, com and inertia; null: as mass, com and inertia say",
                                 None)

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

    mass: Number = key("kg")
    frame: Name = key("frame of the robot that carries it; world: it moves freely from where it is placed", "world")
    position: Vector3 = key("in the frame [m]")


class Edge(Part):
    """A spring between two vertices with the energy ``stiffness / 2 (l / length - 1)^2``."""

    between: tuple[Name, Name] = key("two vertices")
    stiffness: Number = key("J")
    length: Number | None = key("without force [m]; null: as the vertices are placed, the robot neutral", None)
    damping: Number = key("N s/m", 0.0)


class MassSprings(Part):
    """A deformable body of point masses and springs; a free vertex is a joint of three translations from where it is placed."""

    vertices: dict[str, Vertex] = key("point masses by name", min_length=1)
    edges: tuple[Edge, ...] = key("springs between them", ())


class FramePart(Placed):
    """A frame fixed to a body."""

    body: Name = key("body or frame of the robot, or world")
