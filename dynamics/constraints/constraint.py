"""What a constraint on a mechanism is: one record with its value, Jacobian and drift. All are holonomic: g(q) = 0."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import casadi as ca

from dynamics.algorithms import rate_matrix
from dynamics.model.model import Model

Expr = Any


class Constraint(ABC):
    """``g(q) = 0`` [m], and with it ``J v = 0`` and ``J a + dJ/dt v = 0``. Rows may depend on each other.

    Records are frozen, compare by value and have a ``repr`` that tells everything.
    """

    name: str

    @abstractmethod
    def check(self, model: Model) -> None:
        """Raises ModelError or UnknownNameError where the record does not fit the robot."""

    @abstractmethod
    def value(self, model: Model, q: Expr) -> Expr:
        """g [m], in m and rad."""

    @abstractmethod
    def jacobian(self, model: Model, q: Expr) -> Expr:
        """J = dg/dq [m, nv] along the right perturbation of q."""

    def drift(self, model: Model, q: Expr, v: Expr) -> Expr:
        """``dJ/dt v`` [m], by differentiation of J v along the motion; q, v: SX or MX symbols or expressions."""
        x, w = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv)
        speed = self.jacobian(model, x) @ w
        return ca.Function("drift", [x, w], [ca.jtimes(speed, x, rate_matrix(model, x) @ w)])(q, v)

    def remaining(self, model: Model) -> Constraint | None:
        """What is left on a robot some of whose joints were locked."""
        return self
