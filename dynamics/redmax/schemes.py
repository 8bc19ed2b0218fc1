"""Implicit schemes of second-order equations as tables: BDF1, SDIRK2, and BDF2 that starts with a step of SDIRK2.

One solve finds a node (q, v) from past nodes j, with the step h and a number gamma:

    v = (q - sum a_j q_j - h sum b_j v_j) / (gamma h)          w = q - sum c_j q_j - h sum d_j v_j
    g = M(q) w - (gamma h)^2 f(q, v) = 0

w is ``(gamma h)^2`` times the acceleration, which follows from applying the first formula to velocities in its own turn.
Source: Sueda, "Analytically differentiable articulated rigid body dynamics", section 3.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from dynamics.errors import ModelError, near

ALPHA = (2 - 2**0.5) / 2  # of SDIRK2: L-stable


class Weight(NamedTuple):
    """What a past node adds: a and b of the velocity, c and d of the residual."""

    a: float
    b: float
    c: float
    d: float


@dataclass(frozen=True)
class Stage:
    gamma: float
    weights: tuple[Weight, ...]


class Solve(NamedTuple):
    """One entry of a plan: the stage, its past nodes, the step it belongs to, its time in steps, and whether it ends the step.
    Node 0 is the initial state, node k + 1 is what entry k finds."""

    stage: Stage
    past: tuple[int, ...]
    step: int
    time: float
    last: bool


EULER = Stage(1.0, (Weight(1, 0, 1, 1),))
FIRST = Stage(ALPHA, (Weight(1, 0, 1, ALPHA),))
SECOND = Stage(ALPHA, (Weight(1, 0, 1, 2 * ALPHA - 1), Weight(0, 1 - ALPHA, 0, 2 * (1 - ALPHA))))
BACKWARD = Stage(2 / 3, (Weight(4 / 3, 0, 4 / 3, 8 / 9), Weight(-1 / 3, 0, -1 / 3, -2 / 9)))
METHODS = ("bdf1", "sdirk2", "bdf2")


class Part(NamedTuple):
    """One solve of a step. past: 0 for the state where the step begins, -1 for the one before, k > 0 for what the k-th solve of
    this step finds; time: in steps, since the step began."""

    stage: Stage
    past: tuple[int, ...]
    time: float


def parts(method: str, first: bool) -> tuple[Part, ...]:
    """The solves of one step; first: whether no state before its beginning is known. Raises ModelError for an unknown method."""
    if method not in METHODS:
        raise ModelError(f"no implicit method {method!r}{near(method, METHODS)}")
    if method == "bdf1":
        return (Part(EULER, (0,), 1.0),)
    if method == "sdirk2" or first:
        return Part(FIRST, (0,), ALPHA), Part(SECOND, (0, 1), 1.0)
    return (Part(BACKWARD, (0, -1), 1.0),)


def plan(method: str, steps: int) -> tuple[Solve, ...]:
    """The solves of so many steps. Raises ModelError for an unknown method."""
    out: list[Solve] = []
    ends = [0]  # nodes at the ends of steps
    for k in range(steps):
        known = {0: ends[-1], -1: ends[-2] if k else 0}
        own = parts(method, not k)
        for number, part in enumerate(own, 1):
            out.append(Solve(part.stage, tuple(known[j] for j in part.past), k, k + part.time, number == len(own)))
            known[number] = len(out)
        ends.append(len(out))
    return tuple(out)
