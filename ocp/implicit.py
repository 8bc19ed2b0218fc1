"""Functions that equations define, inside a graph: Newton's method for the value, the implicit-function theorem for derivatives.

    0 = G(y, a)    defines    y(a)    with    J dy = -dG/da da,    J = dG/dy

Derivatives of every order are those of the implicit function, so they are exact where the equations hold and do not see how the
solution was found: the first ones from one factorisation of J, those of adjoints from the rules of CasADi's root finders.

The iteration stops when a step is short or the iterations are used up; then one more Newton step gives the result, and its length
the evidence. Where that step is not short the solution is NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import casadi as ca
import numpy as np

Expr = Any
#: (start [n], arguments) -> solution [n]
Solve = Callable[[Expr, Sequence[Expr]], Expr]

STEP = 1e-8
"""Length (largest component, units of the unknowns) of a Newton step that ends the iteration."""

CONVERGED = 1e-8
"""Longest last step of a solved system, relative to the largest unknown where that is above 1: near the solution a Newton step
squares an error of this size."""

ITERATIONS = 30
"""Limit on Newton steps. Where it is reached, Newton's method has no convergence to offer."""


def implicit(name: str, inputs: Sequence[Expr], residual: Expr, J: Expr, right: Expr) -> Solve:
    """``(start, (a_1, ..., a_k)) -> y [n]``, expressions of SX or MX; NaN where Newton's method does not converge.

    inputs: symbols y [n], a_1, ..., a_k, all SX or all MX; residual: G [n]; J [n, n]: dG/dy; right: -dG/d(a_1, ..., a_k).
    """
    equations = ca.Function(f"{name}_equations", list(inputs), [residual])
    # fast_newton alone of CasADi's root finders leaves as C code; failure is ours to find, so it must not raise
    options = {"abstol": 0.0, "abstolStep": STEP, "error_on_fail": False,
               "jacobian_function": ca.Function(f"{name}_slopes", list(inputs), ca.cse([J, residual]))}
    newton = ca.rootfinder(f"{name}_newton", "fast_newton", equations, {**options, "max_iter": ITERATIONS})
    once = ca.rootfinder(f"{name}_step", "fast_newton", equations, {**options, "max_iter": 1})
    symbols = [ca.MX.sym(equations.name_in(i), equations.size1_in(i)) for i in range(equations.n_in())]
    # without the forward rules of the root finder: they would factorise J for every argument, and evaluate it as often
    last = ca.Function("last_step", symbols, [once(*symbols)], {
        "custom_jacobian": _theorem(ca.Function(f"{name}_system", list(inputs), ca.cse([J, right]))), "jac_penalty": 0,
        "enable_forward": False, "never_inline": True})

    def solve(start: Expr, arguments: Sequence[Expr]) -> Expr:
        near = newton(start, *arguments)
        found = last(near, *arguments)
        short = ca.norm_inf(found - near) <= CONVERGED * ca.fmax(1, ca.norm_inf(found))
        return found * ca.if_else(short, 1.0, np.nan)

    return solve


def _theorem(system: ca.Function) -> ca.Function:
    """Jacobians of the solution by (guess, arguments), from J and the derivatives of the right-hand sides at it."""
    rows = system.size1_in(0)
    guess, found = ca.MX.sym("guess", rows), ca.MX.sym("found", rows)
    inputs = [ca.MX.sym(system.name_in(i), system.size1_in(i)) for i in range(1, system.n_in())]
    J, right = system(found, *inputs)
    slopes = ca.solve(J, ca.densify(right), "qr")
    edges = np.cumsum([0, *(symbol.shape[0] for symbol in inputs)]).tolist()
    return ca.Function("jac_last_step", [guess, *inputs, found], [ca.MX(rows, rows), *ca.horzsplit(slopes, edges)])
