"""The equations of implicit Runge-Kutta stages, solved by Newton's method inside the graph.

For one block of stages, with the rises ``y_i`` as unknowns and everything known about a stage in its base point,

    y_i = h f(t_i, x_i)        x_i = base_i + sum_j a_ij y_j        f = N(x) rate(x) at the projected point

Derivatives of every order are those of the implicit function (the derivative rules of CasADi's root finders), so they are exact
where the equations hold and do not see how the solution was found.

The iteration starts from ``y = 0``, whose first iterate is the linearly implicit method: it is as good at a stiff system as at
any other, where an explicit guess would be thrown far away. It stops when a step is short or the iterations are used up; then one more
Newton step gives the result, and its length the evidence. Where that step is not short the rises are NaN.
"""

from __future__ import annotations

from collections.abc import Callable

import casadi as ca
import numpy as np

from ocp.integrators.integrator import Expr, project, velocity
from ocp.problem import System

STEP = 1e-10
"""Length (largest component, units of the state) of a Newton step that ends the iteration."""

CONVERGED = 1e-8
"""Longest last step of a solved system, relative to the largest rise where that is above 1: near the solution a Newton step
squares an error of this size."""

ITERATIONS = 30
"""Limit on Newton steps. Where it is reached, Newton's method has no convergence to offer."""

INLINE_LIMIT = 400
"""Instructions of a rate up to which the equations are one scalar graph; larger ones are called, so that the size of the code
does not grow with the number of stages and of directions."""


def stage_equations(system: System, weights: np.ndarray) -> Callable[..., Expr]:
    """The solution ``(times [s], bases [s nx], u, p, h) -> rises [s nx]`` for the weights a [s, s] of a block of stages.

    Of SX and MX expressions. Rises are NaN where Newton's method does not converge.
    """
    stages, n = len(weights), system.nx
    inline = _inlined(system)
    sym = ca.SX.sym if inline else ca.MX.sym
    times, bases, u, p, h, y = _arguments(sym, system, stages)
    field = (lambda t, x: velocity(system, t, project(system.space, x), u, p)) if inline else _called(system, u, p)
    rises = ca.vertsplit(y, n)
    residuals = []
    for i, base in enumerate(ca.vertsplit(bases, n)):
        point = base + sum(weights[i, j] * rises[j] for j in np.flatnonzero(weights[i]))
        residuals.append(rises[i] - h * field(times[i], point))
    equations = ca.Function("stage_equations", [y, times, bases, u, p, h], [ca.densify(ca.vertcat(*residuals))])
    # fast_newton alone of CasADi's root finders leaves as C code; failure is ours to find, so it must not raise
    options = {"abstol": 0.0, "abstolStep": STEP, "error_on_fail": False}
    newton = ca.rootfinder("newton", "fast_newton", equations, {**options, "max_iter": ITERATIONS, "is_diff_out": [False]})
    last = ca.rootfinder("last_step", "fast_newton", equations, {**options, "max_iter": 1})

    def solve(times: Expr, bases: Expr, u: Expr, p: Expr, h: Expr) -> Expr:
        near = newton(ca.DM.zeros(stages * n), times, bases, u, p, h)
        found = last(near, times, bases, u, p, h)
        short = ca.norm_inf(found - near) <= CONVERGED * ca.fmax(1, ca.norm_inf(found))
        return found * ca.if_else(short, 1.0, np.nan)
    return solve


def _arguments(sym: Callable[..., Expr], system: System, stages: int) -> list[Expr]:
    sizes = {"t": stages, "base": stages * system.nx, "u": system.nu, "p": system.np, "h": 1, "y": stages * system.nx}
    return [sym(name, size) for name, size in sizes.items()]


def _inlined(system: System) -> bool:
    return bool(system.rate.is_a("SXFunction") and system.rate.n_instructions() <= INLINE_LIMIT)


def _called(system: System, u: Expr, p: Expr) -> Callable[[Expr, Expr], Expr]:
    """(t, x) -> dx/dt at the projected point, as a call. Its directional derivatives are products with one Jacobian, which is
    evaluated once for all directions, and not one graph for each of them."""
    sym = ca.SX.sym if system.rate.is_a("SXFunction") else ca.MX.sym
    arguments = [sym(name, size) for name, size in zip("txup", (1, system.nx, system.nu, system.np), strict=True)]
    point = project(system.space, arguments[1])
    field = ca.densify(velocity(system, arguments[0], point, *arguments[2:]))
    function = ca.Function("velocity", arguments, [field], {"never_inline": True, "enable_forward": False})
    return lambda t, x: function(t, x, u, p)
