"""Setup of a closed loop of whole-body control: tasks with priorities and paths, contacts, a schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from dynamics.constraints import Cone, Contact
from dynamics.errors import near
from dynamics.mechanism import Mechanism
from ocp.control.whole_body import Item
from ocp.errors import ProblemError, positive
from ocp.solvers.hqp import HQPOptions
from ocp.wbc.paths import Path, at_target


@dataclass(frozen=True, eq=False)
class Assignment:
    """A task: its item, priority (1 the highest), the path of its target (None: it has none), and whether it is on at the start.

    A task that is taken up later begins from where the robot is then, and goes on along the moves of its path.
    """

    name: str
    priority: int
    item: Item
    path: Path | None = None
    on: bool = True

    def at(self, t: float) -> Item:
        """The item with its target at a time (s)."""
        return self.item if self.path is None else at_target(self.item, self.path, t)


def ContactPlan(record: Contact, taken: bool = True, least: float = 0.0, most: float = float("inf"), ramp: float = 0.1,
                sides: int = 8, pyramid: str = "inner", slides: bool = False,
                within: tuple[tuple[float, float], ...] | None = None) -> Contact:
    """A contact with what a controller asks of it besides. slides: its points move along the plane with known friction."""
    return record.but(taken=taken, least=least, most=most, ramp=ramp, cone=Cone(sides, pyramid), within=within,
                      slip=(0.0, 0.0, 0.0) if slides else None)


@dataclass(frozen=True)
class Switch:
    """At ``time`` (s): "take" or "release" a contact, or put a task "on" or "off"."""

    time: float
    what: str
    name: str


class Planner(Protocol):
    """A planner of a motion that is followed."""

    seconds: list[float]
    failed: int

    def begin(self, x: np.ndarray) -> None:
        """Start from state x."""
    def update(self, t: float, x: np.ndarray) -> None:
        """Advance to time t [s] with the measured state x."""


@dataclass(frozen=True, eq=False)
class Setup:
    """A controller and its schedule.

    start [nq + nv]; efforts: limits by control (default: the robot's). rate (Hz), duration (s). horizon (s): of joint
    limits, None: none. rest_gain [1/s]: how fast velocities of contacts decay. trust: share of the friction that
    the controller counts on, so that feet do not stand on the edge of slipping; caution: share of that at a foot that slips, until
    it stands for a while. planner: gets the measured state before every step. Raises ProblemError for names and numbers
    that cannot be.
    """

    mechanism: Mechanism
    start: np.ndarray
    contacts: Sequence[Contact]
    tasks: Sequence[Assignment]
    switches: Sequence[Switch] = ()
    efforts: ArrayLike | None = None
    rate: float = 500.0
    duration: float = 5.0
    horizon: float | None = 0.05
    rest_gain: float = 20.0
    trust: float = 0.95
    caution: float = 0.7
    options: HQPOptions = field(default_factory=HQPOptions)
    planner: Planner | None = None

    def __post_init__(self) -> None:
        for what, names in (("contact", [c.name for c in self.contacts]), ("task", [t.name for t in self.tasks])):
            twice = [name for name in names if names.count(name) > 1]
            if twice:
                raise ProblemError(f"the name is used twice by a {what}", where=f"{what} {twice[0]!r}")
        known: Mapping[str, list[str]] = {"contact": [c.name for c in self.contacts], "task": [t.name for t in self.tasks]}
        for switch in self.switches:
            what = "contact" if switch.what in ("take", "release") else "task"
            if switch.name not in known[what]:
                raise ProblemError(f"no {what} named {switch.name!r}{near(switch.name, known[what])}", where="schedule")
        for key in ("trust", "caution"):
            if not 0.0 < getattr(self, key) <= 1.0:
                raise ProblemError(f"must lie above 0 and be at most 1, got {getattr(self, key)!r}", where=key)
        for key in ("rate", "duration"):
            positive(getattr(self, key), key)

    @property
    def steps(self) -> int:
        """Number of control steps."""
        return int(np.ceil(self.duration * self.rate - 1e-9))
