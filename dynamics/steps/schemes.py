"""Implicit schemes as one table: BDF1, SDIRK2, and BDF2, whose first step is one of SDIRK2. Every user of them reads it here.

A stage finds y, and its derivative y', from nodes j that are known, with the step h:

    y = sum_j (a_j y_j + h b_j y_j') + gamma h y'

Of second-order equations it holds for positions and for velocities in its own turn, so that positions are solved for alone:

    v = (q - sum a_j q_j - h sum b_j v_j) / (gamma h)          w = q - sum c_j q_j - h sum d_j v_j = (gamma h)^2 q''

Sources: Sueda, "Analytically differentiable articulated rigid body dynamics", section 3.4; Alexander 1977 (SDIRK2, L-stable);
Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, section III.5, Eq. 5.10 (BDF2 with steps of any length).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dynamics.errors import ModelError, near

ALPHA = 1 - 2**-0.5
METHODS = ("bdf1", "sdirk2", "bdf2")
Number = Any
"""A float, or an expression where the step before may have any length."""


class Term(NamedTuple):
    """Contribution of a known node. node: 0 for the state where the step begins, -1 for the one before, k > 0 for that of
    this step found."""

    node: int
    a: Number
    b: Number


class Stage(NamedTuple):
    """One solve of a step; time: in steps, since the step began."""

    gamma: Number
    terms: tuple[Term, ...]
    time: float


EULER = (Stage(1.0, (Term(0, 1.0, 0.0),), 1.0),)
SDIRK2 = (Stage(ALPHA, (Term(0, 1.0, 0.0),), ALPHA), Stage(ALPHA, (Term(0, 1.0, 0.0), Term(1, 0.0, 1 - ALPHA)), 1.0))


def backward(ratio: Number = 1.0) -> tuple[Stage, ...]:
    """BDF2; ratio: the step over the one before."""
    whole = 1 + 2 * ratio
    return (Stage((1 + ratio) / whole, (Term(0, (1 + ratio) ** 2 / whole, 0.0), Term(-1, -(ratio**2) / whole, 0.0)), 1.0),)


def stages(method: str, ratio: Number | None = 1.0) -> tuple[Stage, ...]:
    """The solves of one step; ratio: the step over the one before, None: no state before it is known. Raises ModelError for an
    unknown method."""
    if method not in METHODS:
        raise ModelError(f"no implicit method {method!r}{near(method, METHODS)}")
    if method == "bdf1":
        return EULER
    return SDIRK2 if method == "sdirk2" or ratio is None else backward(ratio)


class Weight(NamedTuple):
    """Contribution of a known node to second-order equations: a and b of the velocity, c and d of w."""

    a: float
    b: float
    c: float
    d: float


def weights(step: tuple[Stage, ...], number: int) -> tuple[Weight, ...]:
    """Weights of the terms of a stage, from 0, of second-order equations. ``b_j`` of an acceleration is one of velocities, by the
    stage that found node j."""
    stage = step[number]
    d = {term.node: stage.gamma * term.a + term.b for term in stage.terms}
    for term in stage.terms:
        if term.b:
            found = step[term.node - 1]
            share = stage.gamma * term.b / found.gamma
            d[term.node] += share
            for known in found.terms:
                d[known.node] -= share * known.a
    return tuple(Weight(term.a, term.b, term.a, d[term.node]) for term in stage.terms)


Rows = tuple[tuple[float, ...], ...]


class Butcher(NamedTuple):
    """Coefficients a [s, s], b [s], c [s]."""

    a: Rows
    b: tuple[float, ...]
    c: tuple[float, ...]


def butcher(method: str) -> Butcher:
    """Runge-Kutta coefficients (a, b, c) of a one-step method whose last stage ends the step."""
    own = stages(method, None)
    inner = [{term.node - 1: term.b for term in stage.terms} | {i: stage.gamma} for i, stage in enumerate(own)]
    rows = tuple(tuple(row.get(j, 0.0) for j in range(len(own))) for row in inner)
    return Butcher(rows, rows[-1], tuple(stage.time for stage in own))


class Solve(NamedTuple):
    """One entry of a plan: gamma and the weights, its past nodes, the step it belongs to, its time in steps, and whether it is its
    last. Node 0 is the initial state, node k + 1 is what entry k finds."""

    gamma: float
    weights: tuple[Weight, ...]
    past: tuple[int, ...]
    step: int
    time: float
    last: bool


def plan(method: str, steps: int) -> tuple[Solve, ...]:
    """The solves of so many steps of one length. Raises ModelError for an unknown method."""
    out: list[Solve] = []
    ends = [0]  # nodes at the ends of steps
    for k in range(steps):
        known = {0: ends[-1], -1: ends[-2] if k else 0}
        own = stages(method, 1.0 if k else None)
        for number, stage in enumerate(own):
            past = tuple(known[term.node] for term in stage.terms)
            out.append(Solve(stage.gamma, weights(own, number), past, k, k + stage.time, number == len(own) - 1))
            known[number + 1] = len(out)
        ends.append(len(out))
    return tuple(out)
