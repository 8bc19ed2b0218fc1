"""The section ``mpc`` of a problem file: how its horizon recedes, against which plant, disturbed by what, judged by what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, StrictBool, StrictInt, Tag, model_validator
from typing_extensions import TypeAliasType

from ocp.app.files.schema_parts import Name, Number, NumberOrList, Option, Part, Vector3, expected, number_tag, refuse


def _noise_tag(value: Any) -> str | None:
    return "<names>" if isinstance(value, Mapping) and "deg" not in value else number_tag(value)


Noise = TypeAliasType("Noise", Annotated[
    Annotated[Number, Tag("<number>")] | Annotated[Number, Tag("<expression>")] | Annotated[Number, Tag("<Degrees>")]
    | Annotated[dict[str, Number], Tag("<names>")],
    Discriminator(_noise_tag, **expected("a number for every state, or a mapping from names of states to numbers")),
    Field(description="standard deviation: a number for every state, or by name of the state")])


class TrackedQuantity(Part):
    """A quantity whose error is reported."""

    name: Name = Field(description="name in tables and plots")
    quantity: NumberOrList = Field(description="expression, or a list of them: what is tracked")
    reference: NumberOrList = Field(0.0, description="what it should be: expressions of the time t, as many")
    unit: str = Field("", description="unit in tables and plots")


class Kick(Part):
    """A jump of the state."""

    time: Number = Field(description="when [s]")
    state: Annotated[dict[str, Number], Field(min_length=1)] = Field(
        description="jump by name of the state; for a robot q.JOINT and v.JOINT (attitudes: tangent components)")


class PushForce(Part):
    """A force on a robot."""

    frame: Name = Field(description="frame at whose origin it acts")
    force: Vector3 = Field(description="force in world axes [N]")


class Push(Part):
    """Something that acts for a while."""

    time: Number = Field(description="when it begins [s]")
    duration: Number = Field(description="how long it lasts [s]")
    rate: dict[str, Number] = Field(default_factory=dict, description="added to the rates of states, by name as in a kick")
    controls: dict[str, Number] = Field(default_factory=dict, description="added to controls after their bounds, by name")
    force: PushForce | None = Field(None, description="force on a frame of a robot")

    @model_validator(mode="after")
    def _does_something(self) -> Push:
        if not self.rate and not self.controls and self.force is None:
            raise refuse("pushes nothing; give 'rate', 'controls' or 'force'")
        return self


class Disturbances(Part):
    """What happens to the plant and to its measurement."""

    seed: Annotated[StrictInt, Field(ge=0)] = Field(0, description="seed of all noise; the same seed gives the same run")
    process_noise: Noise = Field(0.0, description="on the state: what it gathers in one second (unit / sqrt(s))")
    measurement_noise: Noise = Field(0.0, description="on every measurement")
    kicks: tuple[Kick, ...] = Field((), description="jumps of the state")
    pushes: tuple[Push, ...] = Field((), description="forces and rates that act for a while")


class Plant(Part):
    """What stands for the real thing: this file's system, with changes that the solver does not know of."""

    integrator: Literal["euler", "semi_implicit_euler", "midpoint", "rk4", "bdf1", "sdirk2"] = Field(
        "rk4", description="its one-step map; bdf1 and sdirk2 are implicit, for stiff robots")
    substeps: Annotated[StrictInt, Field(ge=1)] = Field(4, description="steps in one sampling period")
    set: dict[str, Any] = Field(
        default_factory=dict, description="keys of this file that differ, as after --set: path.to.key: value")
    masses: dict[str, Number] = Field(
        default_factory=dict, description="masses of bodies of a robot that differ [kg]; inertias scale with them")
    damping: dict[str, Number] = Field(
        default_factory=dict, description="viscous damping of joints of a robot that differs [N m s/rad or N s/m]")


class MPC(Part):
    """A receding horizon in closed loop (``ocp mpc``)."""

    rate: Number | None = Field(
        None, description="samples per second [Hz]; one sampling period is the deadline of a step. null: 100, or one at each "
                          "step of a system in discrete time")
    duration: Number = Field(10.0, description="simulated time [s]")
    horizon: Number | None = Field(None, description="length of the horizon [s]; null: the duration of the phase")
    intervals: Annotated[StrictInt, Field(ge=1)] | None = Field(
        None, description="steps of the horizon; null: those of iLQR's options")
    iterations: Annotated[StrictInt, Field(ge=1)] = Field(1, description="solver iterations in every step")
    start_iterations: Annotated[StrictInt, Field(ge=0)] = Field(
        100, description="iterations from the guess before the clock starts")
    feedback: StrictBool = Field(False, description="true: Riccati feedback between samples; false: the plan as it stands")
    delay: Literal["none", "predicted", "ignored"] = Field(
        "none", description="none: a control acts at once. One sampling period late: predicted (the solver starts from the state "
                            "that its model predicts for then) or ignored")
    ilqr: dict[str, Option] = Field(default_factory=dict, description="options of iLQR that differ from those under solve.ilqr")
    track: tuple[TrackedQuantity, ...] = Field((), description="quantities whose errors are reported")
    plant: Plant = Field(default_factory=lambda: Plant.model_validate({}), description="how the plant differs from the model")
    disturbances: Disturbances = Field(
        default_factory=lambda: Disturbances.model_validate({}), description="noise, kicks and pushes")
