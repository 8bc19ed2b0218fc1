"""Random states of a robot at which the ways to a derivative are compared."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import dynamics
from dynamics import algorithms as alg
from dynamics.model.model import Model


@dataclass(frozen=True)
class Point:
    """q [nq]; v, a [nv]; tau [nv], the force of that motion; lam, mu [nv], what tau and a are contracted with."""

    q: np.ndarray
    v: np.ndarray
    a: np.ndarray
    tau: np.ndarray
    lam: np.ndarray
    mu: np.ndarray

    def values(self, names: tuple[str, ...]) -> list[np.ndarray]:
        return [getattr(self, name) for name in names]


def draw(model: Model, count: int, seed: int) -> tuple[Point, ...]:
    """``count`` states: configurations within the joint limits, the rest standard normal. tau is made from a, not drawn, because
    random torques on light fingers would mean accelerations of no use."""
    rng, points = np.random.default_rng(seed), []
    inverse = dynamics.make(model, "inverse_dynamics")
    for _ in range(count):
        q = alg.random_configuration(model, rng)
        v, a, lam, mu = rng.standard_normal((4, model.nv))
        points.append(Point(q, v, a, np.array(inverse(q, v, a)).ravel(), lam, mu))
    return tuple(points)
