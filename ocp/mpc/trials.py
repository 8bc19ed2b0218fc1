"""Monte Carlo of a closed loop: random starts, kicks and pushes.

Everything random of a trial comes from the pair (seed, number of the trial): it is the same alone, in any order and among any
number of others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from ocp.errors import ProblemError
from ocp.mpc.closed_loop import Loop
from ocp.plants import Disturbances, Kick, Push
from ocp.spaces import Space

Array = np.ndarray


@dataclass(frozen=True)
class RandomTrials:
    """Random differences between trials. start [ndx]: half the width of a uniform distribution about the start; kick [ndx]:
    standard deviation of a jump of the state, once, at a random time; frame, force (N), push_duration (s): a push of a robot in a
    random direction, once, at a random time; friction: half the width of a uniform distribution about that of a contact of the
    plant, by name. Empty: none. Noise has another seed in every trial."""

    start: tuple[float, ...] = ()
    kick: tuple[float, ...] = ()
    frame: str = ""
    force: float = 0.0
    push_duration: float = 0.1
    friction: tuple[tuple[str, float], ...] = ()

    def __bool__(self) -> bool:
        """Whether anything is random."""
        return any(self.start) or any(self.kick) or bool(self.frame) or any(width for _, width in self.friction)

    @property
    def pushes(self) -> tuple[Push, ...]:
        """A push along each axis of the world, whose scales a trial draws."""
        return tuple(Push(0.0, self.push_duration, frame=self.frame, force=tuple(axis)) for axis in self.force * np.eye(3)) \
            if self.frame else ()


def draw(loop: Loop, random: RandomTrials, disturbances: Disturbances, seed: int, number: int) -> tuple[Array, Disturbances]:
    """Start [nx] and disturbances of a trial; disturbances: those of the file, which every trial has."""
    rng = np.random.default_rng([seed, number])
    phase, duration = loop.phase, loop.options.duration
    assert phase.start is not None
    space = phase.system.space
    noise = int(rng.integers(2**31))
    start, kicks = random_start(space, phase.start.value, random, rng), disturbances.kicks
    if random.kick:
        change = np.array(random.kick) * rng.standard_normal(space.ndx)
        kicks = (*kicks, Kick(float(rng.uniform(0.0, duration)), tuple(change.tolist())))
    return start, replace(disturbances, seed=noise, kicks=kicks,
                          pushes=(*disturbances.pushes, *random_pushes(random, duration, rng)))


def random_start(space: Space, start: ArrayLike, random: RandomTrials, rng: np.random.Generator) -> Array:
    """A state [nx] near a start."""
    x = np.array(start, float)
    if random.start:
        away = np.array(random.start) * rng.uniform(-1.0, 1.0, space.ndx)
        x = np.asarray(space.plus(ca.DM(x), ca.DM(away)), float).ravel()
    return x


def random_pushes(random: RandomTrials, duration: float, rng: np.random.Generator) -> tuple[Push, ...]:
    """A push in a random direction, as one along each axis at the same time; none where none is asked for. duration: of the run
    (s)."""
    if not random.frame:
        return ()
    direction, begins = rng.standard_normal(3), float(rng.uniform(0.0, max(0.0, duration - random.push_duration)))
    direction /= math.sqrt(direction @ direction)
    return tuple(replace(push, time=begins, scale=float(scale)) for push, scale in zip(random.pushes, direction, strict=True))


def check_random(random: bool, where: str) -> None:
    """Raises ProblemError where all trials would be the same."""
    if not random:
        raise ProblemError(f"nothing is random, so all trials are the same: give {where}", where="--trials")
