"""Joints, bodies and frames of a robot that a problem file adds to a robot file, or builds a robot of."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from ocp.app.files.schema_parts import LimitOrList, Name, Number, NumberOrList, Part, Vector3, exactly_one, refuse
from ocp.app.files.schema_state import BasePose

KINDS = ("fixed, revolute, continuous, prismatic, universal, planar, spherical, free_flyer, euler, exponential, "
         "planar_translation, translation, free_2d, free_3d, free_3d_reversed, spline_curve, frame_spline, spline_surface or "
         "composite")


class Placed(BasePose):
    """Where a frame sits in its parent."""

    position: Vector3 | None = Field(None, description="origin in the parent's frame [m]")


class Motion(Placed):
    """What a kind of joint needs to be told."""

    axis: Vector3 | None = Field(None, description="axis in the joint frame, any length but zero (kinds of one axis)")
    axes: tuple[Vector3, ...] = Field((), description="axes in the joint frame, in their order (universal: two)")
    chart: str = Field("", description="euler, free_3d: three letters, such as zyx, the moving axes of the turns in their order; "
                                       "free_3d also rotation_vector")
    points: tuple[Vector3, ...] = Field((), description="spline_curve: points that the curve goes through, in the joint frame [m]")
    frames: tuple[Placed, ...] = Field((), description="frame_spline: at least four frames, in the joint frame, one unit apart")
    grid: tuple[tuple[tuple[Number, ...], ...], ...] = Field(
        (), description="spline_surface: rows of at least 4 x 4 points of six numbers, translation [m], turns about x, y, z [rad]")
    parts: tuple[JointPart, ...] = Field((), description="composite: joints in a row, each placed in the frame of the one before")

    @model_validator(mode="after")
    def _axes(self) -> Self:
        if self.axis is not None and self.axes:
            raise refuse("needs one of axis and axes; found both")
        return self


class JointPart(Motion):
    """One joint of a composite joint."""

    name: Name = Field(description="name of the part; its coordinates are called JOINT.PART")
    kind: Name = Field(description=KINDS)


class Laws(Motion):
    """A joint with its limits and its own forces."""

    lower: LimitOrList | None = Field(None, description="lower limits of the coordinates [rad or m]; null: none")
    upper: LimitOrList | None = Field(None, description="upper limits of the coordinates [rad or m]; null: none")
    velocity: LimitOrList | None = Field(None, description="limits of the speeds [rad/s or m/s]; null: none")
    effort: LimitOrList | None = Field(None, description="limits of the efforts [N m or N]; null: none")
    damping: NumberOrList | None = Field(None, description="viscous damping [N m s/rad or N s/m]")
    armature: NumberOrList | None = Field(None, description="reflected inertia of a rotor [kg m^2 or kg]")


class JointChange(Laws):
    """A joint of the robot file in another form: of another kind, or of its own kind with other numbers."""

    kind: Name | None = Field(
        None, description=f"{KINDS}; of the joint in the robot file only the place stays, unless it is given; null: the kind "
                          "stays, and all that is not given")


class JointOfBody(Laws):
    """The joint that carries a body."""

    name: Name | None = Field(None, description="name of the joint; null: that of the body")
    kind: Name = Field(description=KINDS)


class Inertia(Part):
    """Inertia about the centre of mass in body axes."""

    xx: Number = Field(description="kg m^2")
    yy: Number = Field(description="kg m^2")
    zz: Number = Field(description="kg m^2")
    xy: Number = Field(0.0, description="kg m^2, the entry of the matrix")
    xz: Number = Field(0.0, description="kg m^2, the entry of the matrix")
    yz: Number = Field(0.0, description="kg m^2, the entry of the matrix")


class Cylinder(Part):
    """A cylinder along z."""

    radius: Number = Field(description="m")
    length: Number = Field(description="m")


class Shape(Placed):
    """Something to draw, centred where it is placed in the body frame. Dynamics know nothing of it but for a density."""

    sphere: Number | None = Field(None, description="radius [m]")
    box: Vector3 | None = Field(None, description="edges along x, y, z [m]")
    cylinder: Cylinder | None = Field(None, description="a cylinder along z")
    mesh: Name | None = Field(None, description="file of triangles (STL, OBJ, PLY, COLLADA, glTF), closed where a density is given")
    scale: Number | None = Field(None, description="metres of one unit of the mesh; null: 1")

    @model_validator(mode="after")
    def _one(self) -> Self:
        if self.shape() != "mesh" and self.scale is not None:
            raise refuse("'scale' is that of a mesh")
        return self

    def shape(self) -> str:
        """Which of the shapes is given."""
        return exactly_one(self, ("sphere", "box", "cylinder", "mesh"))


class BodyPart(Part):
    """A rigid body and the joint that carries it."""

    parent: Name = Field("world", description="body or frame that carries it, or world")
    joint: JointOfBody = Field(description="joint between the two; the body frame is the joint frame after its motion")
    mass: Number | None = Field(None, description="kg; null: 0, or what 'density' gives")
    com: Vector3 | None = Field(None, description="centre of mass in the body frame [m]; null: its origin, or what 'density' gives")
    inertia: Inertia | None = Field(None, description="inertia about the centre of mass; null: none, a point mass")
    shapes: tuple[Shape, ...] = Field((), description="what is drawn")
    density: Number | None = Field(
        None, description="of the shapes [kg/m^3], which then give mass, com and inertia; null: as mass, com and inertia say")

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

    mass: Number = Field(description="kg")
    frame: Name = Field("world", description="frame of the robot that carries it; world: it moves freely from where it is placed")
    position: Vector3 = Field(description="in the frame [m]")


class Edge(Part):
    """A spring between two vertices with the energy ``stiffness / 2 (l / length - 1)^2``."""

    between: tuple[Name, Name] = Field(description="two vertices")
    stiffness: Number = Field(description="J")
    length: Number | None = Field(None, description="without force [m]; null: as the vertices are placed, the robot neutral")
    damping: Number = Field(0.0, description="N s/m")


class MassSprings(Part):
    """A deformable body of point masses and springs; a free vertex is a joint of three translations from where it is placed."""

    vertices: dict[str, Vertex] = Field(min_length=1, description="point masses by name")
    edges: tuple[Edge, ...] = Field((), description="springs between them")


class FramePart(Placed):
    """A frame fixed to a body."""

    body: Name = Field(description="body or frame of the robot, or world")
