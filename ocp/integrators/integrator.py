"""The record of a one-step map on a state manifold, and the vector field that all of them evaluate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import casadi as ca

from dynamics.lie.expression import Expr
from ocp.integrators.tableaus import Tableau
from ocp.problem import System
from ocp.spaces import Space

Node = tuple[float, Expr, Expr]
"""Weight, time and state at which a running cost is evaluated."""

Advance = Callable[[System, Expr, Expr, Expr, Expr, Expr], tuple[Expr, tuple[Node, ...]]]


@dataclass(frozen=True)
class Integrator:
    """A one-step map: ``advance(system, t, x, u, p, h) -> (x_next [nx], quadrature nodes)``, expressions of SX or MX symbols.

    order: global order of the state for a smooth system and a constant control.
    check(system): raises ProblemError for a system that the method is not defined for.
    tableau: the Runge-Kutta coefficients of the method; None where they do not describe it.
    loops: whether the loops over a robot (``ocp.shooting.robot``) can run it.
    single: whether a step evaluates the rate and the running cost once, both where it starts.
    """

    name: str
    order: int
    advance: Advance
    check: Callable[[System], None] = lambda system: None
    tableau: Tableau | None = None
    loops: bool = False
    single: bool = False

    @property
    def implicit(self) -> bool:
        """Whether a step solves equations: its graph then holds a root finder. MX serves it better than SX, where every
        direction of a derivative factorises the Jacobian of the equations again."""
        return self.tableau is not None and not self.tableau.explicit

    def step(self, system: System, t: Expr, x: Expr, u: Expr, p: Expr, h: Expr) -> Expr:
        """State [nx] after the step."""
        return self.advance(system, t, x, u, p, h)[0]


def project(space: Space, x: Expr) -> Expr:
    """The nearest point of the manifold: unit quaternions, every other coordinate as it is."""
    if not space.quaternions:
        return x
    parts: list[Expr] = []
    done = 0
    for start in sorted(space.quaternions):
        q = x[start:start + 4]
        parts += [x[done:start], q / ca.sqrt(ca.dot(q, q))]
        done = start + 4
    return ca.vertcat(*parts, x[done:])


def velocity(system: System, t: Expr, x: Expr, u: Expr, p: Expr) -> Expr:
    """dx/dt [nx] in ambient coordinates at a point of the manifold."""
    return ca.mtimes(system.space.rate(x), system.rate(t, x, u, p))
