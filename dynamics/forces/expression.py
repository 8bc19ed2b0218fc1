"""A force that the user writes down: any differentiable expression of q and v."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import casadi as ca

from dynamics.algorithms import jet
from dynamics.errors import ModelError
from dynamics.forces.force import Force
from dynamics.lie.expression import Expr
from dynamics.model.model import Model


@dataclass(frozen=True)
class Expression(Force):
    """Generalised force ``function(q, v)`` [nv] as a CasADi Function; K and D are its derivatives by CasADi.

    It counts as work done from outside: without a potential, all of its power enters the balance of energy.
    """

    name: str
    function: ca.Function

    def __repr__(self) -> str:
        # a fingerprint needs the content, not the address
        return f"Expression(name={self.name!r}, function={self._text!r})"

    @cached_property
    def _text(self) -> str:
        return str(self.function.serialize())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def check(self, model: Model) -> None:
        f = self.function
        shapes = [f.size_in(i) for i in range(f.n_in())] + [f.size_out(i) for i in range(f.n_out())]
        wanted = [(model.nq, 1), (model.nv, 1), (model.nv, 1)]
        if shapes != wanted:
            raise ModelError(f"needs a function (q, v) -> f of shapes {wanted}, got {shapes}", element=f"force {self.name!r}")

    def effort(self, model: Model, q: Expr, v: Expr) -> Expr:
        return self.function(q, v)

    def stiffness(self, model: Model, q: Expr, v: Expr) -> Expr:
        x, y, d = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv), ca.SX.sym("d", model.nv)
        along = ca.jacobian(self.function(jet(model, x, d), y), d)
        return ca.Function("K", [x, y], [ca.substitute(along, d, ca.SX.zeros(model.nv))])(q, v)

    def damping(self, model: Model, q: Expr, v: Expr) -> Expr:
        x, y = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv)
        return ca.Function("D", [x, y], [ca.jacobian(self.function(x, y), y)])(q, v)
