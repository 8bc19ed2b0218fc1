"""The costs of a phase: their sum, and gradient and Hessian at one point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import casadi as ca
import numpy as np

from dynamics.derivatives.inner import Inner, split, through
from dynamics.lie.expression import Expr
from ocp.bridge import inner as inner_of
from ocp.errors import ProblemError
from ocp.problem import At, Constraint, Cost, Phase, Sense, System
from ocp.shooting.stages.expressions import Symbol, shared, symbol_for
from ocp.spaces import Space

Quadratic = Callable[[Expr, Expr, Expr, Expr], tuple[Expr, Expr]]


def terms(phase: Phase, at: At) -> tuple[Cost, ...]:
    """Costs that apply there, soft constraints among them as residual costs. Raises ProblemError when a cost at an end
    depends on the control."""
    found = [cost for cost in phase.costs if cost.at is at]
    found += [_penalty(c) for c in phase.constraints if c.at is at and c.soft is not None]
    for cost in found:
        if at is not At.PATH and cost.function.jac_sparsity(0, 2).nnz():
            raise ProblemError(f"cost {cost.name!r} ({at.value}) depends on the control, which has no value there",
                               where=f"phase {phase.name!r}")
    return tuple(found)


@lru_cache(maxsize=256)
def _penalty(constraint: Constraint) -> Cost:
    """``1/2 soft |violation|^2`` as a residual cost: one component per finite bound."""
    if constraint.sense is Sense.CONE or constraint.soft is None:
        raise ProblemError("only a soft constraint between bounds can become a penalty",
                           where=f"constraint {constraint.name!r}")
    sym = (ca.SX if constraint.function.is_a("SXFunction") else ca.MX).sym
    arguments = [sym(name, constraint.function.size1_in(i)) for i, name in enumerate("txup")]
    value = constraint.function(*arguments)
    excess = []
    for i, (lower, upper) in enumerate(zip(constraint.lower, constraint.upper, strict=True)):
        if lower == upper:
            excess.append(value[i] - lower)
            continue
        if np.isfinite(upper):
            excess.append(ca.fmax(value[i] - upper, 0))
        if np.isfinite(lower):
            excess.append(ca.fmax(lower - value[i], 0))
    function = ca.Function("penalty", arguments, [ca.vertcat(*excess)])
    return Cost(constraint.name, constraint.at, function, weights=(float(constraint.soft),) * len(excess))


def total(costs: Sequence[Cost], t: Expr, x: Expr, u: Expr, p: Expr) -> Expr:
    """Sum of the costs."""
    return sum((cost.expression(t, x, u, p) for cost in costs), start=ca.DM(0))


def quadratic(space: Space, nu: int, np_: int, costs: Sequence[Cost], sym: Symbol, exact: bool = False, inner: Inner | None = None
           ) -> Quadratic:
    """(t, x, u, p) -> gradient [ndx + nu] and Hessian of the costs at one point, in (dx, u).

    The Hessian is exact for scalar costs (taken along ``jet``, which agrees with ``plus`` to second order) and that of
    Gauss-Newton, ``J_r' W J_r``, for residual costs unless ``exact``. inner: values of the dynamics that costs may hold, which are
    differentiated in closed form.
    """
    ndx = space.ndx
    behind = [cost for cost in costs if cost.jumps is not None and not exact]
    if behind:
        return _behind(space, nu, np_, behind, [cost for cost in costs if cost not in behind], sym)
    rests = [None if inner is None else split(cost.function, inner.sought) for cost in costs]
    known = 0 if inner is None or not any(rests) else inner.count
    t, x, p, z, k = sym("t"), sym("x", space.nx), sym("p", np_), sym("z", ndx + nu), sym("k", known)
    T, (dx, u) = sym("T", known, ndx + nu), ca.vertsplit(z, [0, ndx, ndx + nu])
    near = space.jet(x, dx)
    gradient, hessian, weights = ca.DM(ndx + nu, 1), ca.DM(ndx + nu, ndx + nu), ca.DM(known, 1)
    for cost, rest in zip(costs, rests, strict=True):
        function = cost.function if rest is None else _filled(rest, k)
        near_cost, variables = replace(cost, function=function), z if rest is None else ca.vertcat(z, k)
        if cost.weights is None or exact:
            H, g = ca.hessian(near_cost.expression(t, near, u, p), variables)
        else:
            residual = function(t, near, u, p)
            J = ca.jacobian(residual, variables)
            weighted = ca.mtimes(J.T, ca.diag(ca.DM(cost.weights)))
            g, H = ca.mtimes(weighted, residual), ca.mtimes(weighted, J)
        if rest is not None:
            if cost.weights is None or exact:
                weights += g[ndx + nu:]
            g, H = g[:ndx + nu] + ca.mtimes(T.T, g[ndx + nu:]), through(H, T)
        gradient, hessian = gradient + g, hessian + H
    function = ca.Function("local", [t, x, z, p, k, T], [gradient, hessian, weights])

    def at(t: Expr, x: Expr, u: Expr, p: Expr) -> tuple[Expr, Expr]:
        found = inner.first(t, x, u) if known and inner is not None else (ca.DM(0, 1), ca.DM(0, ndx + nu))
        g, H, adjoint = function(t, x, ca.vertcat(ca.DM.zeros(ndx), u), p, *found)
        if known and inner is not None and adjoint.nnz():
            H = H + inner.second(t, x, u, adjoint)
        return g, H

    return at


def _behind(space: Space, nu: int, np_: int, behind: Sequence[Cost], others: Sequence[Cost], sym: Symbol) -> Quadratic:
    """``quadratic`` where some costs are of states behind jumps, through the closed-form derivatives F of the jumps: F' g, F' H
    F."""
    plain = quadratic(space, nu, np_, others, sym)
    groups: dict[Callable[[], ca.Function], list[Cost]] = {}
    for cost in behind:
        assert cost.jumps is not None
        groups.setdefault(cost.jumps.derivative, []).append(replace(cost, function=cost.jumps.outer))
    parts = [(derivative(), quadratic(space, nu, np_, own, sym)) for derivative, own in groups.items()]

    def at(t: Expr, x: Expr, u: Expr, p: Expr) -> tuple[Expr, Expr]:
        g, H = plain(t, x, u, p)
        for jump, local in parts:
            after, F = jump(x)
            F = ca.diagcat(F, ca.DM.eye(nu))
            g_after, H_after = local(t, after, u, p)
            g, H = g + ca.mtimes(F.T, g_after), H + ca.mtimes(F.T, ca.mtimes(H_after, F))
        return g, H

    return at


def _filled(rest: ca.Function, k: Expr) -> Callable[..., Expr]:
    return lambda t, x, u, p: rest(t, x, u, p, k)


@dataclass(frozen=True)
class LocalCost:
    """The running cost at one point, functions of (t, x, u, p), for the loops over a robot: no dynamics are in them.

    value -> l;  gradient -> [ndx + nu] in (dx, u)
    hessian -> gradient, then the Hessian: lxx [r, r], lux [nu, r], luu [nu, nu], transposed, with the r components of dx in
        ``support`` (of the rest, nothing is quadratic); Gauss-Newton for residual costs
    exact -> the same with the exact Hessian
    system: that of the robot
    """

    value: ca.Function
    gradient: ca.Function
    hessian: ca.Function
    exact: ca.Function
    support: tuple[int, ...]
    system: System


def local_cost(phase: Phase) -> LocalCost:
    """Running cost, gradient and Hessians at a point."""
    system, ndx, costs = phase.system, phase.system.space.ndx, terms(phase, At.PATH)
    sym = symbol_for([cost.function for cost in costs])
    arguments = [sym("t"), sym("x", system.nx), sym("u", system.nu), sym("p", system.np)]
    gradient, hessian = quadratic(system.space, system.nu, system.np, costs, sym, inner=inner_of(system))(*arguments)
    exact = quadratic(system.space, system.nu, system.np, costs, sym, True, inner_of(system))(*arguments)[1]
    pattern = np.array(ca.DM(_sparsity(arguments, exact), 1).full()).reshape(exact.shape)
    support = tuple(int(i) for i in np.flatnonzero(pattern[:ndx].any(axis=1)))
    rows = list(support)

    blocks = [block for H in (hessian, exact) for block in (H[rows, rows], H[ndx:, rows].T, H[ndx:, ndx:])]
    value, gradient, *blocks = shared([total(costs, *arguments), gradient, *blocks], type(arguments[0]))
    return LocalCost(
        value=ca.Function("cost", arguments, [value]), gradient=ca.Function("cost_gradient", arguments, [gradient]),
        hessian=ca.Function("cost_hessian", arguments, [gradient, *blocks[:3]]),
        exact=ca.Function("cost_exact", arguments, [gradient, *blocks[3:]]), support=support, system=system)


def _sparsity(arguments: Sequence[Expr], matrix: Expr) -> ca.Sparsity:
    """Structural nonzeros once calls are inlined; all of them where that cannot be done."""
    function = ca.Function("pattern", list(arguments), [matrix])
    try:
        return function.expand().sparsity_out(0)
    except RuntimeError:
        return matrix.sparsity()
