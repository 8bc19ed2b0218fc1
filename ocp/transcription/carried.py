"""Algebraic unknowns at the points of an explicit step: each evaluation of the rate has unknowns of its own.

    k_i = rate(t_i, x_i, (u_i, z_i), p)        0 = residual(t_i, x_i, (u_i, z_i), p)

The first evaluation of an interval is at its knot: its unknowns are those of the knot, where path constraints state the equations.
Those of the others, ``later`` ones, are unknowns of the interval, and their equations constraints of it. Steps that solve equations
of their own solve these with them (``ocp.reductions.AlgebraicElimination``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

import casadi as ca

from ocp.integrators import INTEGRATORS, MULTISTEP
from ocp.problem import System
from ocp.spaces import Expr, euclidean


def carries(integrator: str) -> bool:
    """Whether the points of a step are known to the program: those of explicit steps are."""
    return integrator not in MULTISTEP and not INTEGRATORS[integrator].implicit


@functools.cache
def evaluations(integrator: str) -> int:
    """How often an explicit step evaluates the rate."""
    t, x, none = ca.SX.sym("t"), ca.SX.sym("x", 2), ca.SX(0, 1)
    rate = ca.Function("rate", [t, x, none, none], [x])
    points = Points(System("two", euclidean(("q", "v")), (), rate), lambda t: none, none, none)
    INTEGRATORS[integrator].advance(points.system, t, x, none, none, ca.SX.sym("h"))
    return len(points.seen)


def later(system: System, integrator: str, steps: int) -> int:
    """Points of an interval beyond its knot that have unknowns of their own; 0 for an explicit system."""
    return 0 if system.residual is None else steps * evaluations(integrator) - 1


class Points:
    """A system as an explicit step sees it, ``system``, and what it evaluates: ``rows``, the equations at the later points.

    control: time -> controls; knot, others: unknowns z of the first evaluation, and those of all later ones in a column.
    """

    def __init__(self, system: System, control: Callable[[Expr], Expr], knot: Expr, others: Expr):
        self.given, self.control, self.knot, self.others = system, control, knot, others
        self.seen: list[tuple[Expr, Expr]] = []
        self.rows: list[Expr] = []
        self.system = replace(system, rate=self._rate, residual=None, algebraic=(), equations=())

    def _rate(self, t: Expr, x: Expr, _: Expr, p: Expr) -> Expr:
        number, nz = len(self.seen), len(self.given.algebraic)
        z = self.others[(number - 1) * nz:number * nz] if number else self.knot
        inputs = ca.vertcat(self.control(t), z)
        self.seen.append((x, inputs))
        if number and nz:
            self.rows.append(self.given.residual(t, x, inputs, p))
        return self.given.rate(t, x, inputs, p)

    def inputs(self, x: Expr) -> Expr:
        """Controls and unknowns at a point of the step, the very expression that was evaluated."""
        return next(inputs for point, inputs in reversed(self.seen) if point is x)
