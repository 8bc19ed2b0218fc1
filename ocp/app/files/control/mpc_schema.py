"""The section ``mpc`` of a problem file: how its horizon recedes, against which plant, disturbed by what, judged by what."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictInt, Tag
from typing_extensions import TypeAliasType

from ocp.app.files.problem.sections_schema import Option
from ocp.app.files.robot.tree_schema import PushForce, RandomStart
from ocp.app.files.syntax.parts import Key, Name, Number, NumberOrList, Part, by_form, refuse

Noise = TypeAliasType("Noise", Annotated[
    Annotated[Number, Tag("<number>")] | Annotated[Number, Tag("<text>")] | Annotated[Number, Tag("<Degrees>")]
    | Annotated[dict[str, Number], Tag("<names>")],
    by_form("a number for every state, or a mapping from names of states to numbers", "<names>"),
    Field(description="standard deviation: a number for every state, or by name of the state")])


class TrackedQuantity(Part):
    """A quantity whose error is reported and judged."""

    name: Name = Key("name in tables and plots")
    quantity: NumberOrList = Key("expression, or a list of them: what is tracked")
    reference: NumberOrList = Key("reference: as many expressions of the time t", 0.0)
    unit: str = Key("unit in tables and plots", "")
    within: Number | None = Key("largest error over the last horizon of the run; null: it must only stay tracked", None, above=0)


class Kick(Part):
    """A jump of the state."""

    time: Number = Key("when [s]", least=0, hint="; the run begins at 0")
    state: Annotated[dict[str, Number], Field(min_length=1)] = Key("jump by name of the state; for a robot q.JOINT and v.JOINT "
                                                                   "(attitudes: tangent components)")


class Push(Part):
    """Something that acts for a while."""

    time: Number = Key("start time [s]", least=0, hint="; the run begins at 0")
    duration: Number = Key("duration [s]", above=0)
    rate: dict[str, Number] = Key("added to the rates of states, by name as in a kick", dict)
    controls: dict[str, Number] = Key("added to controls after their bounds, by name", dict)
    force: PushForce | None = Key("force on a frame of a robot", None)

    def check(self) -> None:
        if not self.rate and not self.controls and self.force is None:
            raise refuse("has no effect; give 'rate', 'controls' or 'force'")


class RandomPushes(Part):
    """Pushes in random directions spread over the run; the report says from which the plant recovered before the next."""

    count: Annotated[StrictInt, Field(ge=1)] = Key("number of pushes, one in each equal part of the run")
    frame: str = Key("frame of the robot that is pushed", examples=["trunk"])
    force: Number = Key("magnitude of the force [N]", above=0)
    duration: Number = Key("duration of each push [s]", 0.1, above=0)


class Disturbances(Part):
    """Disturbances of the plant and of its measurement."""

    seed: Annotated[StrictInt, Field(ge=0)] = Key("seed of all noise; the same seed gives the same run", 0)
    process_noise: Noise = Key("noise of the state, as its standard deviation after one second [unit / sqrt(s)]", 0.0, least=0)
    measurement_noise: Noise = Key("standard deviation of the noise of measurements", 0.0, least=0)
    kicks: tuple[Kick, ...] = Key("jumps of the state", ())
    pushes: tuple[Push, ...] = Key("forces and rates over a period of time", ())
    random_pushes: RandomPushes | None = Key("pushes in random directions, drawn by the seed", None)


class Trials(RandomStart):
    """What is random in the trials of ``ocp mpc FILE --trials N``, beside the noise."""

    kick: dict[str, Number] = Key("standard deviation of a jump of the state, once, at a random time, by name", dict, least=0)


class Sensor(Part):
    """A measured quantity."""

    name: Name = Key("name in messages")
    quantity: NumberOrList = Key("expression, or a list of them: what is measured")
    deviation: NumberOrList = Key("standard deviation of its noise, of each component or of all")


class EstimatedParameter(Part):
    """A parameter of the file that is estimated; its value there is the first guess."""

    deviation: Number = Key("standard deviation of the initial guess", least=0)
    walk: Number = Key("standard deviation of its random walk after one second [unit / sqrt(s)]", 0.0, least=0)
    lower: Number | None = Key("smallest value, in moving horizons", None)
    upper: Number | None = Key("largest value, in moving horizons", None)


class Estimate(Part):
    """The controller acts by an estimate: of the state, and of parameters, which it takes over."""

    sensors: Annotated[tuple[Sensor, ...], Field(min_length=1)] = Key("what is measured, with noise of these deviations")
    method: Literal["moving_horizon", "kalman"] = Key("over a window, or an extended Kalman filter", "moving_horizon")
    window: Annotated[StrictInt, Field(ge=1)] = Key("sampling periods in the window", 10)
    iterations: Annotated[StrictInt, Field(ge=1)] = Key("iterations of the window at every sample", 2)
    process: Noise = Key("noise of the state that the estimator assumes, after one second [unit / sqrt(s)]", 0.1,
                         least=0)
    initial: Noise = Key("standard deviation of the start state that the estimator assumes", 0.1, least=0)
    parameters: dict[str, EstimatedParameter] = Key("parameters that are estimated", dict)


class Plant(Part):
    """The simulated plant: this file's system, with changes that the solver does not know of."""

    kind: Literal["auto", "integrated", "hybrid", "mujoco"] = Key(
        "integrated: steps of its integrator, contacts always closed; hybrid: our simulator of contacts that open, stick and slip; "
        "mujoco: the extra of that name; auto: hybrid for robots whose contacts all have friction, else integrated", "auto")
    integrator: Literal["euler", "semi_implicit_euler", "midpoint", "rk4", "bdf1", "sdirk2"] = Key(
        "of 'integrated': its one-step map; bdf1 and sdirk2 are implicit, for stiff robots", "rk4")
    substeps: Annotated[StrictInt, Field(ge=1)] = Key("steps in one sampling period", 4)
    set: dict[str, Any] = Key("keys of this file that differ, as after --set: path.to.key: value", dict)
    masses: dict[str, Number] = Key("masses of bodies of a robot that differ [kg]; inertias scale with them", dict, least=0)
    damping: dict[str, Number] = Key("viscous damping of joints of a robot that differs [N m s/rad or N s/m]", dict, least=0)


class MPC(Part):
    """A receding horizon in closed loop (``ocp mpc``)."""

    rate: Number | None = Key("samples per second [Hz]; one sampling period is the deadline of a step. null: 100, or one at each "
                              "step of a system in discrete time", None, above=0)
    duration: Number = Key("simulated time [s]", 10.0, above=0)
    horizon: Number | None = Key("length of the horizon [s]; null: the duration of the phase", None, above=0)
    intervals: Annotated[StrictInt, Field(ge=1)] | None = Key("steps of the horizon; null: those of iLQR's options, for robots on "
                                                              "contacts one each 20 ms", None)
    repeat: str = Key("of several phases: name of the one that follows the last; empty: the last goes on", "")
    iterations: Annotated[StrictInt, Field(ge=1)] = Key("solver iterations in every step", 1)
    start_iterations: Annotated[StrictInt, Field(ge=0)] = Key("iterations from the guess before the clock starts", 100)
    feedback: StrictBool = Key("true: Riccati feedback between samples; false: the plan as it stands", False)
    barrier: Number = Key("weight of the logarithmic barrier that holds inequalities at one iteration a step, in units of the "
                          "cost; 0: multipliers alone", 1e-3)
    delay: Literal["none", "predicted", "ignored"] = Key("none: a control acts at once. One sampling period late: predicted (the "
                                                         "solver starts from the state that its model predicts for then) or "
                                                         "ignored", "none")
    ilqr: dict[str, Option] = Key("options of iLQR that differ from those under solve.ilqr", dict, examples=["{intervals: 40}"])
    track: tuple[TrackedQuantity, ...] = Key("quantities whose errors are reported and judged", ())
    plant: Plant = Key("differences of the plant from the model", Plant)
    disturbances: Disturbances = Key("noise, kicks and pushes", Disturbances)
    trials: Trials = Key("random variations of trials", Trials)
    estimate: Estimate | None = Key("sensors and an estimator, whose estimate the controller acts on; null: the true state", None)
