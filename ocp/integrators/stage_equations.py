"""The equations of implicit Runge-Kutta stages, solved by Newton's method inside the graph.

For one block of stages, with the rises ``y_i`` as unknowns and everything known about a stage in its base point,

    y_i = h f(t_i, x_i, u, p)        x_i = base_i + sum_j a_ij y_j        f = N(x) rate(x) at the projected point

Derivatives of every order are those of the implicit function, so they are exact where the equations hold and do not see how the
solution was found: the first ones from one factorisation, ``J dy = -dG`` with J [s nx, s nx] the derivative of the equations G in
the rises, those of adjoints from the rules of CasADi's root finders.

The iteration starts from ``y = 0``, whose first iterate is the linearly implicit method: it is as good at a stiff system as at
any other, where an explicit guess would be thrown far away. It stops when a step is short or the iterations are used up; then
one more Newton step gives the result, and its length the evidence. Where that step is not short the rises are NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import casadi as ca
import numpy as np

from ocp.integrators.integrator import Expr, project, velocity
from ocp.problem import System

Solve = Callable[[Expr, Sequence[Expr], Expr, Expr, Expr], Expr]

STEP = 1e-8
"""Length (largest component, units of the state) of a Newton step that ends the iteration."""

CONVERGED = 1e-8
"""Longest last step of a solved system, relative to the largest rise where that is above 1: near the solution a Newton step
squares an error of this size."""

ITERATIONS = 30
"""Limit on Newton steps. Where it is reached, Newton's method has no convergence to offer."""

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
    equations = ca.Function("stage_equations", inputs, [residual])
    # fast_newton alone of CasADi's root finders leaves as C code; failure is ours to find, so it must not raise
    options = {"abstol": 0.0, "abstolStep": STEP, "error_on_fail": False,
               "jacobian_function": ca.Function("stage_slopes", inputs, ca.cse([J, residual]))}
    newton = ca.rootfinder("newton", "fast_newton", equations, {**options, "max_iter": ITERATIONS})
    once = ca.rootfinder("newton_step", "fast_newton", equations, {**options, "max_iter": 1})
    symbols = [ca.MX.sym(equations.name_in(i), equations.size1_in(i)) for i in range(equations.n_in())]
    # without the forward rules of the root finder: they would factorise J for x and again for u, and evaluate it twice as often
    last = ca.Function("last_step", symbols, [once(*symbols)], {
        "custom_jacobian": _implicit(ca.Function("stage_system", inputs, ca.cse([J, right]))), "jac_penalty": 0,
        "enable_forward": False, "never_inline": True})

    def solve(t: Expr, bases: Sequence[Expr], u: Expr, p: Expr, h: Expr) -> Expr:
        arguments = t, ca.vertcat(*bases), u, p, h
        near = newton(ca.DM.zeros(size), *arguments)
        found = last(near, *arguments)
        short = ca.norm_inf(found - near) <= CONVERGED * ca.fmax(1, ca.norm_inf(found))
        return found * ca.if_else(short, 1.0, np.nan)
    return solve


def _linearised(system: System, weights: Sequence[Sequence[float]], delays: Sequence[float], shared: bool
                ) -> tuple[list[Expr], Expr, Expr, Expr]:
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
    return inputs, y - h * ca.vertcat(*values), J, right


def _implicit(system: ca.Function) -> ca.Function:
    """Jacobians of the solution in (guess, t, bases, u, p, h), from J and the derivatives of the right-hand sides at it."""
    rows = system.size1_in(0)
    guess, found = ca.MX.sym("guess", rows), ca.MX.sym("found", rows)
    inputs = [ca.MX.sym(system.name_in(i), system.size1_in(i)) for i in range(1, system.n_in())]
    J, right = system(found, *inputs)
    slopes = ca.solve(J, ca.densify(right), "qr")
    edges = np.cumsum([0, *(symbol.shape[0] for symbol in inputs)]).tolist()
    return ca.Function("jac_last_step", [guess, *inputs, found], [ca.MX(rows, rows), *ca.horzsplit(slopes, edges)])
