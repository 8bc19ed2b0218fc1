"""The gait form of the robot problem file: one phase, and a gait that makes several of it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictInt, Tag

from ocp.app.files.control.mpc_schema import MPC
from ocp.app.files.problem import sections_schema as sections
from ocp.app.files.robot.schema import RobotPhase, RobotSystem
from ocp.app.files.syntax import parts
from ocp.app.files.syntax.parts import Bound, Key, Name, Number, Pair, Part, refuse
from ocp.gaits import schedule

Patterns = Literal["stand", "step", "walk", "trot", "pace", "bound", "jump"]
Swing = Annotated[tuple[Number, ...], Field(min_length=2, max_length=2, description="[lift-off, touch-down] [s]")]


class Landing(Part):
    """Where a foot touches down; what is null is free."""

    makes = schedule.Landing
    height: Number | None = Key("height of the ground along the normal [m]; null: that of its contact", None)
    place: Pair | None = Key("foothold, x and y in the world [m]", None)
    region: tuple[Bound, ...] | None = Key("limits of x and of y in the world [m]", None, min_length=2, max_length=2)

    def check(self) -> None:
        if self.place is not None and self.region is not None:
            raise refuse("give either a position or a region")


class Gait(Part):
    """Which feet swing when: a pattern by name, or a table of feet and times."""

    pattern: Patterns | None = Key("gait by name; null: that of 'swings'", None, examples=["trot"])
    swings: dict[str, tuple[Swing, ...]] = Key("swing intervals [lift-off, touchdown] of contacts [s], in order; the others stand "
                                               "throughout", dict, examples=["{left: [[0.2, 0.5]]}"])
    duration: Number | None = Key("duration of the whole motion, with 'swings' [s]", None, above=0)
    feet: dict[Literal["L", "R", "LF", "RF", "LH", "RH"], Name] = Key(
        "which contact is which foot of a pattern: left, right, front, hind; default: by their positions at the start", dict,
        examples=["{LF: lf, RF: rf, LH: lh, RH: rh}"])
    cycles: StrictInt = Key("number of swings of every foot in a pattern", 1, ge=1)
    swing: Number | None = Key("swing time of a foot [s]; null: that of the pattern", None, above=0)
    stance: Number | None = Key("time on all feet between two swings; negative: of flight [s]; null: that of the pattern", None)
    end: Number | None = Key("time that all feet stand at start and end [s]; null: that of the pattern", None, above=0)
    height: Number = Key("least height of feet over the ground in the middle of their swings while others stand [m]", 0.05,
                         least=0)
    weight: Number = Key("with a section 'mpc': weight of the cost that holds swinging feet at their heights [1/m^2]", 2000.0,
                         least=0)
    advance: Pair | None = Key("total displacement of the base, x and y [m]; null: free, and 0 in the guess", None)
    landings: dict[str, tuple[Landing, ...]] = Key("by contact where it touches down after its swings, in order", dict)
    touchdown: Literal["soft", "impact"] = Key("soft: feet come to rest as they touch down; impact: they strike, and velocities "
                                               "jump", "soft")
    shares: Bound | None = Key("[lower, upper] share of its time that a phase may take, 1 in the guess; null: 1", None)
    periodic: StrictBool = Key("whether the motion ends as it began, but for where the base is in the plane", False)

    def check(self) -> None:
        if (self.pattern is None) == (not self.swings):
            raise refuse("needs a pattern, or 'swings' and their duration")
        if (self.duration is None) == bool(self.swings):
            raise refuse("'duration' goes with 'swings'; a pattern follows from swing, stance, end and cycles")
        if self.swings and (key := self.differs(("feet", "cycles", "swing", "stance", "end"))):
            raise refuse(f"{key!r} is of patterns; 'swings' gives all times")


AnyGait = Annotated[
    Annotated[Patterns, Tag("<text>")] | Annotated[Gait, Tag("<Gait>")],
    parts.by_form("a gait by name (stand, step, walk, trot, pace, bound, jump) or a mapping", "<Gait>", degrees=False)]


class GaitPhase(RobotPhase):
    """Fields of all phases of a gait: start and 'at: start' of the first, final and 'at: final' of the last; the guess is the
    posture at the start, where that leaves it free."""

    duration: sections.Duration | None = Key("given by the gait", None)  # type: ignore[assignment]

    def check(self) -> None:
        guess = self.guess.states
        if (key := self.differs(("duration", "contacts"))) or isinstance(guess, tuple) or self.guess.controls or \
                self.guess.accelerations:
            raise refuse(f"the gait says the {key or 'guess, but for the posture at the start (guess.states)'}; to set it phase by "
                         "phase, edit the file that ocp show prints")


class RobotGait(sections.Common):
    """A problem file about a robot that stands on contacts and moves them by a gait."""

    system: RobotSystem = Key("the robot; its contacts are the feet")
    gait: AnyGait = Key("contact schedule")
    phase: GaitPhase = Key("boundary states, bounds, costs and constraints")
    mpc: MPC | None = Key("receding horizon in closed loop, for ocp mpc, in which the gait repeats", None)
