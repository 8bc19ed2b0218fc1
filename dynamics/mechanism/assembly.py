"""Loops and contacts closed: Newton's method onto the constraints of a mechanism, and the velocities that keep them closed.

>>> from dynamics.constraints import Closure
>>> from dynamics.model.synthetic import serial_chain
>>> loops = Assembly(serial_chain(3), [Closure("pin", "b2", "world", "spherical")])  # the last joint, back at the first one
>>> loops.close(np.array([0.4, 0.0, -0.8])).closed
True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from dynamics.constraints import Constraint
from dynamics.functions import make
from dynamics.model.model import Model

Array = np.ndarray
#: misses [m, rad] below which a loop is closed; Newton steps; shares of the largest singular value below which rows repeat others
CLOSED, STEPS, RANK = 1e-9, 50, 1e-9
#: longest step of a component of the velocity [m, rad]; starts that are tried, the first one among them
LONGEST, TRIES = 0.5, 20


def least_step(jacobian: Array, miss: Array, metric: Array | None = None, rank: float = RANK) -> Array:
    """The smallest step [n] with ``jacobian step = -miss``, as closely as it can be; jacobian [m, n]. metric: positive definite
    [n, n] that measures steps, such as the mass matrix for least kinetic energy; None: identity."""
    if metric is None:
        return np.asarray(-np.linalg.lstsq(jacobian, miss, rcond=rank)[0])
    across = np.linalg.solve(metric, jacobian.T)
    return np.asarray(-across @ np.linalg.lstsq(jacobian @ across, miss, rcond=rank)[0])


def onto(rows: Callable[[Any], tuple[Array, ...]], move: Callable[[Any, Array], Any], start: Any, *, near: float = CLOSED,
         steps: int = STEPS, rank: float = RANK, longest: float = np.inf) -> tuple[Any, float]:
    """(point, largest miss there) by Gauss-Newton steps onto rows(point) -> (misses [m], Jacobian [m, n]) or (.., .., metric), see
    ``least_step``; move(point, step [n]) is the next point. What is not finite ends it."""
    point = start
    for count in range(steps + 1):
        miss, slope, *more = rows(point)
        left = float(np.abs(miss).max(initial=0.0)) if np.isfinite(slope).all() else np.inf
        if left <= near or count == steps or not np.isfinite(left):
            break
        step = least_step(slope, miss, more[0] if more else None, rank)
        point = move(point, step * min(1.0, longest / max(float(np.abs(step).max(initial=0.0)), 1e-300)))
    return point, left


class Assembled(NamedTuple):
    """q [nq] at the last of the trials, and whether all loops are closed there, none of them with frames half a turn apart."""

    q: Array
    closed: bool


class Misses(NamedTuple):
    """How far each constraint is open [m, rad] and how fast it opens, by name; those whose frames are half a turn apart."""

    gaps: dict[str, float]
    rates: dict[str, float]
    turned: list[str]


class Assembly:
    """The loops of a mechanism as numbers."""

    def __init__(self, model: Model, constraints: Sequence[Constraint]):
        self.model, self.constraints = model, tuple(constraints)
        q, v = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv)
        held = [list(c.position_rows(model)) for c in constraints]
        value = [c.value(model, q) for c in constraints]
        slope = [c.jacobian(model, q) for c in constraints]
        parts: Mapping[str, tuple[list[ca.SX], list[Any]]] = {
            "places": ([q], [ca.vertcat(*(x[own] for x, own in zip(value, held, strict=True))),
                             ca.vertcat(*(J[own, :] for J, own in zip(slope, held, strict=True)))]),
            "rates": ([q], [ca.vertcat(*(c.rate(model, q, ca.SX(model.nv, 1)) for c in constraints)), ca.vertcat(*slope)]),
            "misses": ([q, v], [ca.vertcat(*(ca.norm_inf(x) for x in value)),
                                ca.vertcat(*(ca.norm_inf(c.rate(model, q, v)) for c in constraints)),
                                ca.vertcat(*(_least(c.facing(model, q)) for c in constraints))])}
        self._places, self._rates, self._misses = (
            ca.Function(name, inputs, [ca.densify(ca.SX(x)) for x in outputs]) for name, (inputs, outputs) in parts.items())
        self._move = make(model, "integrate")

    def misses(self, q: Array, v: Array | None = None) -> Misses:
        """How far each constraint is open [m, rad] and how fast it opens, by name; those whose frames are half a turn apart."""
        gap, rate, facing = (np.asarray(x).ravel().tolist() for x in self._misses(q, np.zeros(self.model.nv) if v is None else v))
        names = [c.name for c in self.constraints]
        return Misses(dict(zip(names, gap, strict=True)), dict(zip(names, rate, strict=True)),
                [name for name, cosine in zip(names, facing, strict=True) if cosine < 0.0])

    def close(self, q: Array, free: Array | None = None) -> Assembled:
        """The configuration next to q [nq] that closes the loops, moved in the components of the velocity that are ``free`` (mask
        [nv], None: all). Where Newton's method does not converge (mechanisms are often stretched out where they are neutral), it
        begins again at random configurations around q."""
        left = np.arange(self.model.nv) if free is None else np.flatnonzero(free)

        def rows(at: Array) -> tuple[Array, Array]:
            miss, slope = (np.asarray(x) for x in self._places(at))
            return miss.ravel(), slope[:, left]

        def move(at: Array, step: Array) -> Array:
            whole = np.zeros(self.model.nv)
            whole[left] = step
            return np.asarray(self._move(at, whole)).ravel()

        rng, away = np.random.default_rng(0), np.zeros(len(left))
        for _ in range(TRIES):
            found, miss = onto(rows, move, move(q, away), longest=LONGEST)
            if miss <= CLOSED and not self.misses(found)[2]:
                return Assembled(found, True)
            away = rng.standard_normal(len(left))
        return Assembled(found, False)

    def velocities(self, q: Array, v: Array, prescribed: Array) -> Array:
        """v [nv] with the components that are not given (mask) replaced by the smallest ones that keep the loops closed."""
        pace, slope = (np.asarray(x) for x in self._rates(q))
        found = np.where(prescribed, v, 0.0)
        found[~prescribed] = least_step(slope[:, ~prescribed], slope @ found + pace.ravel())
        return found


def _least(x: Any) -> Any:
    return ca.mmin(x) if x.numel() else ca.SX(1)
