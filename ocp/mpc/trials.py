"""Monte Carlo of a closed loop: random starts, kicks and pushes, and what each run is judged to be.

Everything random of a trial comes from the pair (seed, number of the trial): it is the same alone, in any order and among any
number of others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import casadi as ca
import numpy as np

from ocp.errors import ProblemError
from ocp.mpc.closed_loop import Loop
from ocp.mpc.result import ClosedLoop
from ocp.plants import Disturbances, Kick, Push

Array = np.ndarray


@dataclass(frozen=True)
class RandomTrials:
    """What differs between trials. start [ndx]: half the width of a uniform distribution about the start; kick [ndx]: standard
    deviation of a jump of the state, once, at a random time; frame, force (N), push_duration (s): a push of a robot in a random
    direction, once, at a random time. Empty: none. Noise has another seed in every trial."""

    start: tuple[float, ...] = ()
    kick: tuple[float, ...] = ()
    frame: str = ""
    force: float = 0.0
    push_duration: float = 0.1

    @property
    def pushes(self) -> tuple[Push, ...]:
        """A push along each axis of the world, whose scales a trial draws."""
        return tuple(Push(0.0, self.push_duration, frame=self.frame, force=tuple(axis)) for axis in self.force * np.eye(3)) \
            if self.frame else ()


@dataclass(frozen=True)
class Trial:
    """One trial: the state [nx] that it begins at and what happens to its plant; loop: the run, None where the controller could not
    begin, for the reason ``message``."""

    number: int
    start: Array
    disturbances: Disturbances
    loop: ClosedLoop | None
    message: str = ""

    @property
    def ok(self) -> bool:
        """Success by the criteria of the file (``ClosedLoop.ok``)."""
        return self.loop is not None and self.loop.ok


def draw(loop: Loop, random: RandomTrials, given: Disturbances, seed: int, number: int) -> tuple[Array, Disturbances]:
    """Start [nx] and disturbances of a trial; given: those of the file, which every trial has."""
    rng = np.random.default_rng([seed, number])
    phase, duration = loop.phase, loop.options.duration
    assert phase.start is not None
    start, space = np.array(phase.start.value, float), phase.system.space
    noise = int(rng.integers(2**31))
    if random.start:
        away = np.array(random.start) * rng.uniform(-1.0, 1.0, space.ndx)
        start = np.asarray(space.plus(ca.DM(start), ca.DM(away)), float).ravel()
    kicks, pushes = given.kicks, given.pushes
    if random.kick:
        change = np.array(random.kick) * rng.standard_normal(space.ndx)
        kicks = (*kicks, Kick(float(rng.uniform(0.0, duration)), tuple(change.tolist())))
    if random.frame:
        direction, begins = rng.standard_normal(3), float(rng.uniform(0.0, max(0.0, duration - random.push_duration)))
        direction /= math.sqrt(direction @ direction)
        pushes = (*pushes, *(replace(push, time=begins, scale=float(scale))
                             for push, scale in zip(random.pushes, direction, strict=True)))
    return start, replace(given, seed=noise, kicks=kicks, pushes=pushes)


def trials(loop: Loop, random: RandomTrials, numbers: Iterator[int] | range, seed: int,
           told: Callable[[Trial], None] | None = None) -> list[Trial]:
    """Run trials one after another; ``told`` gets each as it ends. Ctrl-C hands back those that ended. Raises ProblemError where
    nothing is random."""
    given = loop.spec.disturbances
    if not (any(random.start) or any(random.kick) or random.frame or any(given.process) or any(given.measurement)):
        raise ProblemError("nothing is random, so all trials are the same: give mpc.trials, or noise under mpc.disturbances",
                           where="--trials")
    found: list[Trial] = []
    try:
        for number in numbers:
            start, disturbances = draw(loop, random, given, seed, number)
            try:
                one = Trial(number, start, disturbances, loop.run(start, disturbances))
            except ProblemError as error:
                one = Trial(number, start, disturbances, None, error.message)
            found.append(one)
            if told is not None:
                told(one)
    except KeyboardInterrupt:
        if not found:
            raise
    return found
