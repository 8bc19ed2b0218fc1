"""The equations of implicit Runge-Kutta stages, solved by Newton's method inside the graph.

For one block of stages, with the rises ``y_i`` as unknowns and everything known about a stage in its base point,

    y_i = h f(t_i, x_i, u, p)        x_i = base_i + sum_j a_ij y_j        f = N(x) rate(x) at the projected point

The iteration starts from ``y = 0``, whose first iterate is the linearly implicit method: it is as good at a stiff system as at
any other, where an explicit guess would be thrown far away. ``ocp.implicit`` has the iteration and its exact derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import casadi as ca

from ocp.implicit import implicit
from ocp.integrators.integrator import Expr, project, velocity
from ocp.problem import System

Solve = Callable[[Expr, Sequence[Expr], Expr, Expr, Expr], Expr]

INLINE_LIMIT = 400
"""Instructions of a rate up to which the equations are one scalar graph; larger ones are called, so that the size of the code
does not grow with the number of stages."""


def field(system: System) -> ca.Function:
    """(t, x, u, p) -> dx/dt at the projected point. In MX graphs its directional derivatives are products with one Jacobian,
    evaluated once for all directions, and not one graph for each of them."""
    sym = ca.SX.sym if system.rate.is_a("SXFunction") else ca.MX.sym
    t, x, u, p = arguments = [sym(name, size) for name, size in zip("txup", (1, system.nx, system.nu, system.np), strict=True)]
    value = velocity(system, t, project(system.space, x), u, p)
    return ca.Function("velocity", arguments, [ca.densify(value)], {"enable_forward": False})


def stage_equations(system: System, weights: Sequence[Sequence[float]], delays: Sequence[float], shared: bool) -> Solve:
    """``(t, bases, u, p, h) -> rises [s nx]`` of a block with weights a [s, s] and stages at ``t + delay h``.

    bases: points [nx] of the stages, or a single one if ``shared``. All are SX or MX expressions. Rises are NaN where Newton's
    method does not converge.
    """
    size = len(weights) * system.nx
    inputs, residual, J, right = _linearised(system, weights, delays, shared)
    found = implicit("stage", inputs, residual, J, right)

    def solve(t: Expr, bases: Sequence[Expr], u: Expr, p: Expr, h: Expr) -> Expr:
        return found(ca.DM.zeros(size), (t, ca.vertcat(*bases), u, p, h))

    return solve


class Linearised(NamedTuple):
    """Symbols (y, t, base, u, p, h); the equations G; dG/dy; and -dG/d(t, base, u, p, h)."""

    symbols: list[Expr]
    G: Expr
    J: Expr
    right: Expr


def _linearised(system: System, weights: Sequence[Sequence[float]], delays: Sequence[float], shared: bool
                ) -> Linearised:
    """Symbols (y, t, base, u, p, h); the equations G; J = dG/dy; and -dG/d(t, base, u, p, h), assembled from df/d(t, x, u, p)."""
    stages, n, f = len(weights), system.nx, field(system)
    scalar = f.is_a("SXFunction") and f.n_instructions() <= INLINE_LIMIT
    sym = ca.SX.sym if scalar else ca.MX.sym
    y, t, base, u, p, h = inputs = [sym(name, size) for name, size in (
        ("y", stages * n), ("t", 1), ("base", n if shared else stages * n), ("u", system.nu), ("p", system.np), ("h", 1))]
    rises, bases = ca.vertsplit(y, n), ca.vertsplit(base, n) * (stages if shared else 1)
    points = [(t + delay * h, base + sum(a * rise for a, rise in zip(row, rises, strict=True) if a), u, p)
              for delay, row, base in zip(delays, weights, bases, strict=True)]
    values = [f(*point) for point in points]
    slopes = [f.jacobian()(*point, ca.DM(n, 1)) for point in points]
    by_t, by_x, by_u, by_p = zip(*slopes, strict=True)
    J = ca.DM.eye(stages * n) - h * ca.vertcat(*(ca.horzcat(*(a * slope for a in row))
                                                 for row, slope in zip(weights, by_x, strict=True)))
    by_h = [value + delay * h * slope for value, delay, slope in zip(values, delays, by_t, strict=True)]
    right = ca.horzcat(h * ca.vertcat(*by_t), h * (ca.vertcat(*by_x) if shared else ca.diagcat(*by_x)), h * ca.vertcat(*by_u),
                       h * ca.vertcat(*by_p), ca.vertcat(*by_h))
    return Linearised(inputs, y - h * ca.vertcat(*values), J, right)
