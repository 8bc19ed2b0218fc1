"""Numbers of a robot that parameters of the problem stand for, so that the solver may choose them."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from ocp.app.files.schema_parts import Name, Part, Vector3, exactly_one


class DesignLength(Part):
    """The joint's place in its parent body moves along an axis; what hangs from it goes along."""

    joint: Name = Field(description="joint that moves")
    axis: Vector3 = Field(description="direction in the joint's own frame, any length but zero")


class DesignForce(Part):
    """A number of a force of 'forces' or of the robot file."""

    name: Name = Field(description="name of the force")
    field: Literal["stiffness", "damping", "length", "friction", "creep", "level", "speed", "linear", "quadratic"] = Field(
        description="which number, as 'forces' call it")


class DesignInertia(Part):
    """Added to a body."""

    body: Name = Field(description="body")
    component: Literal["mass", "hx", "hy", "hz", "xx", "yy", "zz", "xy", "xz", "yz"] = Field(
        description="mass at the body's origin [kg], first moment [kg m], or an entry of its inertia about the origin [kg m^2]")


class Design(Part):
    """What one parameter stands for."""

    parameter: Name = Field(description="parameter of the file")
    length: DesignLength | None = Field(None, description="metres that a joint moves away from where the robot file has it")
    force: DesignForce | None = Field(None, description="a number of a force, in its own unit")
    inertia: DesignInertia | None = Field(None, description="inertia added to a body")

    def form(self) -> str:
        return exactly_one(self, ("length", "force", "inertia"))

    @model_validator(mode="after")
    def _one(self) -> Self:
        self.form()
        return self
