"""When each foot is in the air, and the stretches of time between which the set of feet that stand changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ocp.errors import ProblemError

SAME = 1e-9  # share of the whole time: events so near are one


@dataclass(frozen=True)
class Landing:
    """Where a foot touches down: height of the ground along its normal [m], ``place`` [2] in the world [m], or ``region`` [2, 2],
    the ranges of x and y; None: free."""

    height: float | None = None
    place: tuple[float, ...] | None = None
    region: tuple[tuple[float | None, float | None], ...] | None = None

    @property
    def centre(self) -> tuple[float, ...]:
        """The prescribed position, or the middle of the region [2]; NaN if free."""
        ranges = self.region or ((None, None),) * 2
        return self.place or tuple(float(np.mean(np.array(ends, dtype=float))) for ends in ranges)


@dataclass(frozen=True)
class Stretch:
    """A time in which the same feet stand.

    standing, swinging: feet; landing: those that touch down where it begins; apex: those that are in the middle of their swing
    where it ends; swings: how many swings of each foot have begun.
    """

    start: float
    end: float
    standing: tuple[str, ...]
    swinging: tuple[str, ...]
    landing: tuple[str, ...]
    apex: tuple[str, ...]
    swings: Mapping[str, int]

    @property
    def length(self) -> float:
        """Duration [s]."""
        return self.end - self.start


@dataclass(frozen=True)
class Schedule:
    """swings: (lift-off, touch-down) [s] of every foot in order; duration [s]. Raises ProblemError for times that cannot be."""

    swings: Mapping[str, tuple[tuple[float, float], ...]]
    duration: float

    def __post_init__(self) -> None:
        if not self.duration > 0:
            raise ProblemError(f"the duration must be positive, got {self.duration:g} s", where="gait")
        for foot, own in self.swings.items():
            before = 0.0
            for lift, land in own:
                where = f"the swing of {foot!r} from {lift:g} to {land:g} s"
                if not lift < land:
                    raise ProblemError(f"{where} has zero duration", where="gait")
                if lift < before - self.near or land > self.duration + self.near:
                    why = "before the one ahead of it ends" if before else "before the motion"
                    late = land > self.duration + self.near
                    raise ProblemError(f"{where} {f'ends after the motion, at {self.duration:g} s' if late else f'begins {why}'}",
                                       where="gait")
                before = land
            if own and self.standing_time(foot) <= self.near:
                raise ProblemError(f"the foot {foot!r} never stands: it swings all {self.duration:g} s; leave it out of the "
                                   "contacts, or let it touch down", where="gait")

    @property
    def near(self) -> float:
        """Events closer than this are one [s]."""
        return SAME * self.duration

    def standing_time(self, foot: str) -> float:
        """How long a foot stands [s]."""
        return self.duration - sum(land - lift for lift, land in self.swings[foot])

    @cached_property
    def flights(self) -> tuple[tuple[float, float], ...]:
        """From when to when no foot stands [s]."""
        return tuple((one.start, one.end) for one in self.stretches() if not one.standing)

    def stretches(self, *, apex: bool = False) -> tuple[Stretch, ...]:
        """The stretches in order of time. apex: they also end in the middle of the swings of feet while others stand."""
        every = [event for own in self.swings.values() for event in own]
        edges = self._merged([0.0, self.duration, *np.ravel(every).tolist()])
        if apex:
            middles = [(lift + land) / 2 for lift, land in every]
            flights = self.flights
            edges = self._merged([*edges, *(m for m in middles if not any(a < m < b for a, b in flights))])
        return tuple(self._stretch(a, b, apex) for a, b in zip(edges[:-1], edges[1:], strict=True))

    def _merged(self, times: list[float]) -> list[float]:
        found: list[float] = []
        for time in sorted(times):
            if not found or time - found[-1] > self.near:
                found.append(time)
        return found

    def _stretch(self, start: float, end: float, apex: bool) -> Stretch:
        middle = (start + end) / 2
        swinging = tuple(foot for foot, own in self.swings.items() if any(lift < middle < land for lift, land in own))

        def those(at: float, share: float) -> tuple[str, ...]:
            """The feet that have swung so much of a swing at a time."""
            return tuple(foot for foot, own in self.swings.items()
                         if any(abs((1 - share) * lift + share * land - at) <= self.near for lift, land in own))

        return Stretch(start, end, tuple(foot for foot in self.swings if foot not in swinging), swinging,
                       those(start, 1.0) if start > 0 else (), those(end, 0.5) if apex and len(swinging) < len(self.swings) else (),
                       {foot: sum(lift < middle for lift, _ in own) for foot, own in self.swings.items()})
