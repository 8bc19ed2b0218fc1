"""Runge-Kutta methods on a state manifold, explicit and implicit, from their tableaus.

They run in the ambient coordinates with ``dx/dt = N(x) rate(x)``; every point at which rate or cost is evaluated is first
projected onto the manifold (unit quaternions). Composing the vector field with that projection is one smooth extension of it to
the ambient space, so the order of the tableau is kept (Hairer, Lubich, Wanner, Geometric Numerical Integration, section IV.4,
projection methods).

A step walks through the blocks of its tableau. A block of one stage that does not depend on itself is an evaluation; any other
is a system of equations for the rises ``y_i = h k_i`` of its stages. Stages written in rises have the units of x whatever the
step, and the next state is ``x + sum_i b_i y_i`` without another evaluation of the rate, which a stiff system would amplify
(Hairer, Wanner, Solving Ordinary Differential Equations II, section IV.8).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import casadi as ca
import numpy as np

from ocp.integrators.integrator import Advance, Expr, Node, project, velocity
from ocp.integrators.stage_equations import field, stage_equations
from ocp.integrators.tableaus import Tableau
from ocp.problem import System


def runge_kutta(tableau: Tableau) -> Advance:
    """The step of a tableau. Its quadrature nodes are its stages: ``int l dt = h sum_i b_i l(t_i, x_i, u)``."""
    def advance(system: System, t: Expr, x: Expr, u: Expr, p: Expr, h: Expr) -> tuple[Expr, tuple[Node, ...]]:
        space, times = system.space, [t + c * h if c else t for c in tableau.c]
        evaluate = functools.partial(velocity, system) if tableau.explicit else field(system)
        equations = functools.cache(lambda *block: stage_equations(system, *block))
        points: list[Expr] = []
        rises: list[Expr] = []
        for block in tableau.blocks():
            first = block[0]
            bases = [_moved(x, tableau.a[i][:first], rises) for i in block]
            weights = tuple(tableau.a[i][first:first + len(block)] for i in block)
            if not np.any(weights):
                points.append(x if bases[0] is x else project(space, bases[0]))
                rises.append(h * evaluate(times[first], points[-1], u, p))
                continue
            if shared := all(base is x for base in bases):
                bases = [x]
            delays = tuple(tableau.c[i] - tableau.c[first] for i in block)
            found = equations(weights, delays, shared)(times[first], bases, u, p, h)
            rises += ca.vertsplit(found, space.nx)
            points += [project(space, _moved(x, tableau.a[i], rises)) for i in block]
        after = points[-1] if tableau.ends_on_stage else project(space, _moved(x, tableau.b, rises))
        return after, tuple((b, ti, xi) for b, ti, xi in zip(tableau.b, times, points, strict=True) if b)
    return advance


def _moved(x: Expr, weights: Sequence[float], rises: Sequence[Expr]) -> Expr:
    """``x + sum_i w_i y_i`` of the rises so far; x itself where no weight is set."""
    terms = [rise if w == 1 else w * rise for w, rise in zip(weights, rises, strict=False) if w]
    return x + sum(terms[1:], start=terms[0]) if terms else x
