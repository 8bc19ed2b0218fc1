"""A contact with a plane of the world as every method needs it, in one record: its plane, friction with its cone, limits of its
force, how it begins. Its kinds (``contacts``) add the geometry.

Optimal control, whole-body control, simulators, programs, inverse kinematics and pictures read the same record; what a contact
does at a time (open, sticking, sliding, landing) is the state of whoever runs it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from dynamics import spatial
from dynamics.constraints.constraint import Constraint, FrameConstraint
from dynamics.constraints.friction_cone import EXACT, Cone
from dynamics.errors import ModelError
from dynamics.lie.expression import Expr
from dynamics.model.model import Model
from dynamics.model.rigid import rotation_from_z

Array = NDArray[np.float64]
Vector = tuple[float, float, float]


@dataclass(frozen=True, kw_only=True)
class ContactTerms:
    """Fields common to all kinds of contact: plane and friction.

    cone: of friction, exact or a pyramid; unilateral: it only pushes, and friction is limited. least, most: normal force of each
    point (N). restitution: Newton's, in [0, 1]. within [3, 2] (m, world): box outside of which the plane ends, None: it does not.
    clearance (m): least height over the plane where the contact is open, None: any. slip [3]: None for points that stand; for
    those that slide the direction, of length 1 or less (0: not known): friction is then -mu f_n slip. taken: at the start; ramp
    (s): in which a controller lets its force grow, or shrink. gains: see ``Constraint``.
    """

    cone: Cone = EXACT
    unilateral: bool = True
    least: float = 0.0
    most: float = float("inf")
    restitution: float = 0.0
    within: tuple[tuple[float, float], ...] | None = None
    clearance: float | None = None
    slip: Vector | None = None
    taken: bool = True
    ramp: float = 0.1
    gains: tuple[float, float] = Constraint.gains


class Contact(ContactTerms, FrameConstraint):
    """A constraint that holds while something touches the ground: it can only push, and friction is limited.

    normal [3]: of the plane, in the world, any length; height [m]: ``n . x`` of its points, n a unit. friction: coefficient of
    Coulomb, None for as much as it takes. Neither pushing nor friction is part of the dynamics: ``pushes`` and ``cones`` say what
    must hold.
    """

    frame: str
    normal: Vector
    height: float
    friction: float | None

    def check(self, model: Model) -> None:
        if model.frame(self.frame).body < 0:
            raise ModelError(f"frame {self.frame!r} is fixed to the world; a contact needs a moving frame", element=self._where)
        if self.slip is not None:
            raise ModelError("sliding friction is a force, not a constraint", element=self._where)
        self.check_numbers()

    def check_numbers(self) -> None:
        """Raises ModelError for what no robot could have."""
        check_axis(self.name, "normal", self.normal)
        if not np.isfinite(self.height):
            raise ModelError(f"height must be finite, got {self.height:g}", element=self._where)
        if self.friction is not None and not 0.0 <= self.friction < np.inf:
            raise ModelError(f"friction must be finite and not negative, got {self.friction:g}", element=self._where)
        if not 0.0 <= self.least <= self.most:
            raise ModelError(f"expected 0 <= least <= most, got {self.least!r} and {self.most!r}", element=self._where)
        if len(self.gains) != 2 or not all(0.0 <= x < np.inf for x in self.gains):
            raise ModelError(f"gains must be two finite nonnegative numbers, got {self.gains}", element=self._where)
        if not 0.0 <= self.restitution <= 1.0:
            raise ModelError(f"restitution must lie between 0 and 1, got {self.restitution:g}", element=self._where)
        if np.shape(self.box) != (3, 2) or not (self.box[:, 0] < self.box[:, 1]).all():
            raise ModelError(f"'within' is not a box: {self.box.tolist()}", element=self._where)

    @property
    def _where(self) -> str:
        return f"constraint {self.name!r}"

    def but(self, **changes: Any) -> Self:
        """The same with other fields."""
        return replace(self, **changes)

    @property
    def terms(self) -> dict[str, Any]:
        """The fields that contacts of all kinds share, by name."""
        return {f.name: getattr(self, f.name) for f in fields(ContactTerms)}

    @property
    def frames(self) -> tuple[str, ...]:
        return (self.frame,)

    @cached_property
    def plane(self) -> Array:
        """[3, 3]: rows are the tangents and the normal of the plane, in the world."""
        return plane_axes(self.normal)

    @property
    def axes(self) -> ca.DM:
        """``plane`` for expressions."""
        return spatial.constant(self.plane)

    @property
    def box(self) -> Array:
        """[3, 2] (m, world): where there is a plane."""
        return np.array(((-np.inf, np.inf),) * 3 if self.within is None else self.within, float)

    @abstractmethod
    def apart(self) -> tuple[Contact, ...]:
        """One contact for each point that touches, named as this one, with a number where there are several."""

    @abstractmethod
    def touching(self, model: Model, q: Expr) -> Expr:
        """World positions [3, n] (m) of what touches: points, corners of a sole, where a wheel meets the plane."""

    def gap(self, model: Model, q: Expr) -> Expr:
        """Heights [k] (m) of what may touch over the plane."""
        return (self.axes[2, :] @ self.touching(model, q)).T - self.height

    @abstractmethod
    def pushes(self, force: Expr) -> Expr:
        """What is not negative [k] (N, N m) while the contact only pushes; force [m]: the multipliers."""

    @abstractmethod
    def cones(self, force: Expr) -> tuple[Expr, ...]:
        """``(mu f_n, f_t)`` [3] of every point with friction: in the second-order cone where it does not slip."""


def plane_axes(normal: Sequence[float]) -> Array:
    """[3, 3]: rows are two tangents of a plane and its unit normal; normal [3]: any length but zero."""
    n = np.asarray(normal, float)
    return np.array(rotation_from_z(tuple((n / np.linalg.norm(n)).tolist())), float).T


def check_axis(constraint: str, what: str, axis: tuple[float, ...]) -> None:
    """Raises ModelError for an axis that is not three finite numbers, not all zero."""
    if len(axis) != 3 or not np.all(np.isfinite(axis)) or not any(axis):
        raise ModelError(f"{what} must be three finite numbers, not all zero; got {axis}", element=f"constraint {constraint!r}")
