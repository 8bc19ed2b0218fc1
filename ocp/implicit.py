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

BATCH, ROUNDS, HALVINGS = 8, 5, 10
"""With a line search: limits on steps, in rounds of which later ones cost nothing once it has ended, and on halvings of a step."""


def implicit(name: str, inputs: Sequence[Expr], residual: Expr, J: Expr, right: Expr, search: bool = False) -> Solve:
    """``(start, (a_1, ..., a_k)) -> y [n]``, expressions of SX or MX; NaN where Newton's method does not converge.

    inputs: symbols y [n], a_1, ..., a_k, all SX or all MX; residual: G [n]; J [n, n]: dG/dy; right: -dG/d(a_1, ..., a_k).
    search: steps of Newton's method are halved where they do not bring the residual down.
    """
    equations = ca.Function(f"{name}_equations", list(inputs), [residual])
    slopes = ca.Function(f"{name}_slopes", list(inputs), ca.cse([J, residual]))
    # fast_newton alone of CasADi's root finders leaves as C code; failure is ours to find, so it must not raise
    options = {"abstol": 0.0, "abstolStep": STEP, "error_on_fail": False, "jacobian_function": slopes}
    newton = ca.rootfinder(f"{name}_newton", "fast_newton", equations, {**options, "max_iter": ITERATIONS})
    once = ca.rootfinder(f"{name}_step", "fast_newton", equations, {**options, "max_iter": 1})
    symbols = [ca.MX.sym(equations.name_in(i), equations.size1_in(i)) for i in range(equations.n_in())]
    # without the forward rules of the root finder: they would factorise J for every argument, and evaluate it as often
    last = ca.Function("last_step", symbols, [once(*symbols)], {
        "custom_jacobian": _theorem(ca.Function(f"{name}_system", list(inputs), ca.cse([J, right]))), "jac_penalty": 0,
        "enable_forward": False, "never_inline": True})
    if search:
        newton = searched(name, equations, slopes)
    newton = _constant(name, symbols, newton)

    def solve(start: Expr, arguments: Sequence[Expr]) -> Expr:
        near = newton(start, *arguments)
        found = last(near, *arguments)
        return found * ca.if_else(_short(near, found), 1.0, np.nan)

    return solve


def _short(near: Expr, found: Expr) -> Expr:
    """Whether the step from one to the other is that of a solved system; false for what is not a number."""
    return ca.norm_inf(found - near) <= CONVERGED * ca.fmax(1, ca.norm_inf(found))


def searched(name: str, equations: ca.Function, jacobian: ca.Function) -> ca.Function:
    """(y, a_1, ..., a_k) -> y after Newton's method with a line search: steps are halved until the length of the residual falls by
    a fourth of what they promise. It ends after a step shorter than STEP, or ROUNDS times BATCH steps; where these fail
    it begins again at 0, and then once more with every row over its entry on the diagonal of J. jacobian: (J, residual).

    Against stiff kinks Deuflhard's natural test, lengths of next steps, was found to be worse."""
    y, *known = symbols = [ca.MX.sym(equations.name_in(i), equations.size1_in(i)) for i in range(equations.n_in())]
    n, state = y.shape[0], ca.MX.sym("state", y.shape[0] + 2)  # last entries: whether it has ended, rows are weighed
    step, size, weights = ca.MX.sym("step", n), ca.MX.sym("size"), ca.MX.sym("weights", n)
    shares = [0.5**k for k in range(1, HALVINGS + 1)]
    trials = ca.repmat(y, 1, HALVINGS) - step @ ca.DM(shares).T
    values = equations.map(HALVINGS)(trials, *(ca.repmat(a, 1, HALVINGS) for a in known))
    sizes = ca.sqrt(ca.sum1((ca.repmat(weights, 1, HALVINGS) * values) ** 2))
    share: Expr = ca.MX(shares[-1])
    for k in reversed(range(HALVINGS - 1)):  # the largest that passes; what is not a number does not
        share = ca.if_else(sizes[k] < (1 - shares[k] / 4) * size, shares[k], share)
    halved = ca.Function(f"{name}_halved", [y, step, size, weights, *known], [y - share * step])
    whole = ca.Function(f"{name}_whole", [y, step, size, weights, *known], [y - step])
    either = ca.Function.if_else(f"{name}_either", whole, halved)

    J, value = jacobian(state[:n], *known)
    own = ca.diag(J)
    weigh = ca.if_else(state[n + 1], 1 / ca.if_else(own == 0, ca.sqrt(ca.sum2(J**2)), ca.fabs(own)), 1)
    step, size = ca.solve(J, value, "qr"), ca.norm_2(weigh * value)
    short = ca.norm_inf(step) <= STEP * ca.fmax(1, ca.norm_inf(state[:n]))
    passes = ca.logic_or(short, ca.norm_2(weigh * equations(state[:n] - step, *known)) < 0.75 * size)
    after = ca.vertcat(either(passes, state[:n], step, size, weigh, *known), short, state[n + 1])
    keep = ca.Function(f"{name}_keep", [state, *known], [state])
    for count in (BATCH, ROUNDS):
        work = ca.Function(f"{name}_work_{count}", [state, *known], [after])
        guarded = ca.Function(f"{name}_guarded_{count}", [state, *known], [
            ca.Function.if_else(f"{name}_ended_{count}", keep, work)(state[n], state, *known)])
        after = guarded.fold(count)(state, *known)
    attempt = ca.Function(f"{name}_attempt", [state, *known], [after])
    found = attempt(ca.vertcat(y, 0, 0), *known)
    for weighed in (0, 1):
        again = ca.vertcat(ca.if_else(found[n], found[:n], ca.DM.zeros(n)), found[n], weighed)
        found = attempt(again, *known)
    return ca.Function(f"{name}_search", symbols, [found[:n]])


def _constant(name: str, symbols: Sequence[Expr], newton: ca.Function) -> ca.Function:
    """The same without derivatives: those of the last step do not see where it begins."""
    rows = symbols[0].shape[0]
    output = ca.MX.sym("out", rows)
    nothing = [ca.MX(rows, symbol.shape[0]) for symbol in symbols]
    return ca.Function(f"{name}_near", symbols, [newton(*symbols)], {
        "custom_jacobian": ca.Function(f"jac_{name}_near", [*symbols, output], nothing), "jac_penalty": 0,
        "enable_forward": False, "enable_reverse": False, "never_inline": True})


def _theorem(system: ca.Function) -> ca.Function:
    """Jacobians of the solution by (guess, arguments), from J and the derivatives of the right-hand sides at it."""
    rows = system.size1_in(0)
    guess, found = ca.MX.sym("guess", rows), ca.MX.sym("found", rows)
    inputs = [ca.MX.sym(system.name_in(i), system.size1_in(i)) for i in range(1, system.n_in())]
    J, right = system(found, *inputs)
    slopes = ca.solve(J, ca.densify(right), "qr")
    edges = np.cumsum([0, *(symbol.shape[0] for symbol in inputs)]).tolist()
    return ca.Function("jac_last_step", [guess, *inputs, found], [ca.MX(rows, rows), *ca.horzsplit(slopes, edges)])
