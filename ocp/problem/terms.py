"""Costs and constraints: what is wanted of a motion, and where along it."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import casadi as ca
import numpy as np

from ocp.problem.bounds import Bounds


def component_names(name: str, size: int, labels: tuple[str, ...]) -> tuple[str, ...]:
    """Names of the components of a condition: by labels, else by number; by its own name where there is one."""
    if labels:
        return tuple(f"{name}[{label}]" for label in labels)
    return (name,) if size == 1 else tuple(f"{name}[{i}]" for i in range(size))


class At(enum.Enum):
    """Where a cost or constraint applies."""

    START = "start"
    PATH = "path"  # at every knot and, for the certificate, between them
    FINAL = "final"
    INTEGRAL = "integral"  # of a constraint: its function is integrated over the phase


class Sense(enum.Enum):
    """The sense of a constraint: equal to ``lower``, between ``lower`` and ``upper``, or in the second-order cone
    ``|c[1:]| <= c[0]``."""

    EQUAL = "equal"
    BOX = "box"
    CONE = "cone"


@dataclass(frozen=True)
class Behind:
    """A function as one of the state behind a jump, ``whole(t, x, u, p) = outer(t, after(x), u, p)``. derivative(): x -> after [nx]
    and its derivative [ndx, ndx] in closed form."""

    whole: ca.Function
    outer: ca.Function
    derivative: Callable[[], ca.Function]


@dataclass(frozen=True)
class Cost:
    """A scalar cost: integrated over the phase (PATH) or added at the end (FINAL).

    Either a scalar ``function``, or, with ``weights`` [nr] set, a residual r [nr] that costs ``1/2 sum w r^2`` (this
    allows Gauss-Newton Hessians). behind: what is known of a function of the state behind a jump.
    """

    name: str
    at: At
    function: ca.Function
    weights: tuple[float, ...] | None = None
    behind: Behind | None = None

    @property
    def jumps(self) -> Behind | None:
        """What is known of the function, where it is still that one."""
        return self.behind if self.behind is not None and self.behind.whole is self.function else None

    def expression(self, t: Any, x: Any, u: Any, p: Any) -> Any:
        """The scalar cost as an expression."""
        value = self.function(t, x, u, p)
        if self.weights is None:
            return value
        return ca.dot(ca.DM(self.weights), value**2) / 2


@dataclass(frozen=True)
class Constraint:
    """``lower <= function(t, x, u, p) <= upper`` component by component; equal where the two are equal.

    ``soft`` is None for a hard constraint (the default); a weight turns it into the penalty
    ``1/2 soft |violation|^2``, and only where the user wrote it.
    met: whether other conditions hold a path constraint with equality where the phase starts, and where it ends. Collocation does
    not state it there once more: an inequality beside its own equality leaves no interior (Mangasarian and Fromovitz 1967).
    unit: what the squares of a cone are measured by in programs: of forces of contacts the weight that they bear.
    physical: a law of contact, which a plant that simulates contacts keeps by itself.
    """

    name: str
    at: At
    function: ca.Function
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    sense: Sense = Sense.BOX
    soft: float | None = None
    where: str | None = None  # location in the user's file
    labels: tuple[str, ...] = ()  # names of the components, such as joints; numbers where there are none
    met: tuple[bool, bool] = (False, False)
    unit: float = 1.0
    physical: bool = False

    @classmethod
    def within(cls, name: str, at: At, function: ca.Function, bounds: Bounds, **more: Any) -> Constraint:
        """The constraint that keeps a function within bounds."""
        return cls(name, at, function, bounds.lower, bounds.upper, **more)

    @cached_property
    def bounds(self) -> Bounds:
        """Lower and upper bounds; equal for equations."""
        return Bounds(self.lower, self.lower if self.sense is Sense.EQUAL else self.upper)

    def excess(self, values: np.ndarray) -> np.ndarray:
        """How far rows of values [k, size] lie outside [k, size], negative inside; of a cone as a whole [k, 1]."""
        if self.sense is Sense.CONE:
            return np.asarray(np.linalg.norm(values[:, 1:], axis=1, keepdims=True) - values[:, :1])
        return self.bounds.excess(values)

    @property
    def size(self) -> int:
        """Number of components."""
        return len(self.lower)

    def components(self) -> tuple[str, ...]:
        """Names of the components."""
        return component_names(self.name, self.size, self.labels)
