"""One shooting step and its expansion, as CasADi Functions built once per problem.

Derivatives of the dynamics come from the source that the options name. All are taken in the tangent space: with
x' = f(x, u), ``A = N^+(x') df/dx N(x)`` and ``B = N^+(x') df/du``, exact at dx = 0 because N is the derivative of ``plus``
there. The stage cost is the integral of the running cost over the step, ``L(x, u) = h sum_i w_i l(t_i, x_i(x, u), u)`` with
the nodes of the integrator.

Gauss-Newton Hessian: with ``J_i`` the derivative of node i in its own tangent space,
``h sum_i w_i J_i' H_i J_i`` where H_i is the exact Hessian of l at the node (taken along ``jet``, which agrees with
``plus`` to second order) for a scalar cost and ``J_r' W J_r`` for a residual cost. It drops the second derivatives of
the dynamics, within the step as well as across it, and is positive semidefinite whenever every H_i is. The full Hessian
(DDP) keeps them: it is that of ``L + lambda . minus(f(x, u), f(x [+] dx, u + du))`` in (dx, du).

Every matrix leaves its Function transposed, because CasADi stores by columns and the loops read by rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import casadi as ca
import numpy as np

from ocp.derivatives import choose, differentiated
from ocp.errors import ProblemError
from ocp.integrators import INTEGRATORS, Integrator, Node
from ocp.problem import At, Constraint, Cost, Phase, Sense
from ocp.shooting.options import ILQROptions

Expr = Any
Symbol = Callable[..., Expr]

INLINE_LIMIT = 400
"""Instructions of a function up to which it is inlined into one scalar graph (shared terms are then computed once);
larger ones stay calls, so that code size and compile time do not grow with the number of stages. Measured: a six-joint
arm (1260 instructions) under RK4 expands in 118 000 inlined instructions, 2.7 times slower than the calls."""


@dataclass(frozen=True)
class Stages:
    """Functions of one phase; arguments are columns, matrices come row by row (see the module docstring).

    step(t, x, u, p, h) -> x_next [nx], L
    final(t, x, p) -> Phi
    expand(t, x, u, p, h) -> lx [ndx], lu [nu], A [ndx, ndx], B [ndx, nu],
        then (Gauss-Newton only) lxx [ndx, ndx], luu [nu, nu], lux [nu, ndx]
    curvature(t, x, u, p, h, lambda [ndx]) -> lxx, luu, lux for the full Hessian, else None
    expand_final(t, x, p) -> Phi_x [ndx], Phi_xx [ndx, ndx]
    difference(x0, x1) -> dx = minus(x0, x1);  plus(x, dx) -> x
    adjoint(t, x, u, p, h, y [nx]) -> y of the knot before [nx], gradient [nu]: a reverse sweep in ambient coordinates
    adjoint_final(t, x, p) -> y [nx]
    constant: costs at the start, where nothing is left to choose.

    Where the dynamics run as loops over the robot, ``local`` holds the running cost, ``expand`` and ``curvature`` are None, and
    step and adjoint (which nothing compiles) are differentiated algorithmically.
    """

    nx: int
    ndx: int
    nu: int
    step: ca.Function
    final: ca.Function
    expand: ca.Function | None
    curvature: ca.Function | None
    expand_final: ca.Function
    difference: ca.Function
    plus: ca.Function
    adjoint: ca.Function
    adjoint_final: ca.Function
    constant: float
    local: LocalCost | None = None


@dataclass(frozen=True)
class LocalCost:
    """The running cost at one point, functions of (t, x, u, p), for the loops over a robot: no dynamics are in them.

    value -> l;  slope -> gradient [ndx + nu] in (dx, u)
    bend -> gradient, then the Hessian: lxx [r, r], lux [nu, r], luu [nu, nu], transposed, with the r components of dx in
        ``support`` (of the rest, nothing is quadratic). Gauss-Newton for residual costs, or exact.
    """

    value: ca.Function
    slope: ca.Function
    bend: ca.Function
    support: tuple[int, ...]


def build(phase: Phase, options: ILQROptions, loops: bool = False) -> Stages:
    """Functions of a phase with a fixed start; loops: the dynamics are left to loops over the robot.

    Raises ProblemError for costs and integrators that do not fit it.
    """
    integrator = INTEGRATORS[options.integrator]
    integrator.check(phase.system)
    if not loops:
        phase = replace(phase, system=differentiated(phase.system, choose(phase.system, options.derivatives, "auto")[0]))
    system, space = phase.system, phase.system.space
    running, final = terms(phase, At.PATH), terms(phase, At.FINAL)
    full = options.hessian == "full"
    sym = ca.MX.sym if system.derivatives != "ad" else _symbol([system.rate, *(cost.function for cost in (*running, *final))])
    t, h, x, u, p = sym("t"), sym("h"), sym("x", system.nx), sym("u", system.nu), sym("p", system.np)
    y, dx, other = sym("y", system.nx), sym("dx", space.ndx), sym("x1", system.nx)
    inputs, end, no_control = [t, x, u, p, h], [t, x, p], ca.DM.zeros(system.nu)

    after, nodes = _advance(phase, integrator, options, t, x, u, p, h)
    cost = _stage_cost(running, nodes, u, p, h)
    expand = None if loops else _function("expand", inputs, _expansion(phase, running, nodes, after, sym, x, u, p, h, full))

    terminal = _total(final, t, x, no_control, p)
    slope, bend = _local(phase, final, sym, exact=full)(t, x, no_control, p)
    pulled = cost + ca.dot(y, after)
    constant = 0.0
    if phase.start is not None:
        constant = float(_total(terms(phase, At.START), 0.0, ca.DM(phase.start.value), no_control,
                                ca.DM(system.parameter_values)))
    return Stages(
        nx=system.nx, ndx=space.ndx, nu=system.nu, constant=constant,
        step=_function("step", inputs, [after, cost]),
        final=_function("final", end, [terminal]),
        expand=expand,
        curvature=_curvature(phase, integrator, options, running, sym) if full and not loops else None,
        expand_final=_function("expand_final", end, [slope[:space.ndx], bend[:space.ndx, :space.ndx]]),
        difference=_function("difference", [x, other], [space.minus(x, other)]),
        plus=_function("plus", [x, dx], [space.plus(x, dx)]),
        adjoint=_function("adjoint", [*inputs, y], [ca.gradient(pulled, x), ca.gradient(pulled, u)]),
        adjoint_final=_function("adjoint_final", end, [ca.gradient(terminal, x)]),
        local=local_cost(phase, exact=full) if loops else None,
    )


def local_cost(phase: Phase, exact: bool) -> LocalCost:
    """Running cost, gradient and Hessian at a point. exact: of residual costs too, not Gauss-Newton."""
    system, ndx, costs = phase.system, phase.system.space.ndx, terms(phase, At.PATH)
    sym = _symbol([cost.function for cost in costs])
    arguments = [sym("t"), sym("x", system.nx), sym("u", system.nu), sym("p", system.np)]
    slope, bend = _local(phase, costs, sym, exact)(*arguments)
    pattern = np.array(ca.DM(_sparsity(arguments, bend), 1).full()).reshape(bend.shape)
    support = tuple(int(i) for i in np.flatnonzero(pattern[:ndx].any(axis=1)))
    rows = list(support)
    return LocalCost(
        value=_function("cost", arguments, [_total(costs, *arguments)]),
        slope=_function("cost_slope", arguments, [slope]),
        bend=_function("cost_bend", arguments, [slope, bend[rows, rows], bend[ndx:, rows].T, bend[ndx:, ndx:]]),
        support=support)


def _sparsity(arguments: Sequence[Expr], matrix: Expr) -> ca.Sparsity:
    """Structural nonzeros once calls are inlined; all of them where that cannot be done."""
    function = ca.Function("pattern", list(arguments), [matrix])
    try:
        return function.expand().sparsity_out(0)
    except RuntimeError:
        return matrix.sparsity()


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


def _penalty(constraint: Constraint) -> Cost:
    """``1/2 soft |violation|^2`` as a residual cost: one component per finite bound."""
    if constraint.sense is Sense.CONE or constraint.soft is None:
        raise ProblemError("only a soft constraint between bounds can become a penalty",
                           where=f"constraint {constraint.name!r}")
    sym = _symbol([constraint.function])
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


def _symbol(functions: Sequence[ca.Function]) -> Symbol:
    """``SX.sym`` where every Function can be inlined into one scalar graph of reasonable size, else ``MX.sym``."""
    for function in functions:
        try:
            size = (function if function.is_a("SXFunction") else function.expand()).n_instructions()
        except RuntimeError:  # an operation without scalar form: linear solver, root finder, external code
            return ca.MX.sym
        if size > INLINE_LIMIT:
            return ca.MX.sym
    return ca.SX.sym


def _total(costs: Sequence[Cost], t: Expr, x: Expr, u: Expr, p: Expr) -> Expr:
    return sum((cost.expression(t, x, u, p) for cost in costs), start=ca.DM(0))


def _advance(phase: Phase, integrator: Integrator, options: ILQROptions, t: Expr, x: Expr, u: Expr, p: Expr,
             h: Expr) -> tuple[Expr, tuple[Node, ...]]:
    after, nodes = integrator.advance(phase.system, t, x, u, p, h)
    return after, ((1.0, t, x),) if options.cost_quadrature == "rectangle" else nodes


def _stage_cost(costs: Sequence[Cost], nodes: Sequence[Node], u: Expr, p: Expr, h: Expr) -> Expr:
    return h * sum((w * _total(costs, ti, xi, u, p) for w, ti, xi in nodes), start=ca.DM(0))


def _expansion(phase: Phase, running: Sequence[Cost], nodes: Sequence[Node], after: Expr, sym: Symbol, x: Expr, u: Expr, p: Expr,
               h: Expr, full: bool) -> list[Expr]:
    """What ``expand`` returns."""
    ndx = phase.system.space.ndx
    jacobians = _tangent_jacobians(phase, x, u, after, nodes)
    lx, lu, lxx, luu, lux = _sum_of_nodes(phase, running, nodes, jacobians, sym, u, p, h)
    A, B = jacobians[-1][:, :ndx], jacobians[-1][:, ndx:]
    return [lx, lu, A.T, B.T] if full else [lx, lu, A.T, B.T, lxx, luu, lux.T]


def _tangent_jacobians(phase: Phase, x: Expr, u: Expr, after: Expr, nodes: Sequence[Node]) -> list[Expr]:
    """Derivatives [ndx, ndx + nu] in (dx, u) of every node and, last, of the next state, each in its own tangent
    space."""
    space = phase.system.space
    unmoved = ca.horzcat(ca.DM.eye(space.ndx), ca.DM(space.ndx, phase.system.nu))
    points = [xi for _, _, xi in nodes if xi is not x] + [after]
    stacked = ca.vertcat(*points)
    ambient = ca.horzcat(ca.mtimes(ca.jacobian(stacked, x), space.rate(x)), ca.jacobian(stacked, u))
    moved = iter(ca.mtimes(space.rate_inverse(point), block)
                 for point, block in zip(points, ca.vertsplit(ambient, space.nx), strict=True))
    return [unmoved if xi is x else next(moved) for _, _, xi in nodes] + [next(moved)]


def _sum_of_nodes(phase: Phase, costs: Sequence[Cost], nodes: Sequence[Node], jacobians: Sequence[Expr], sym: Symbol,
                  u: Expr, p: Expr, h: Expr) -> tuple[Expr, ...]:
    """lx, lu, lxx, luu, lux (Gauss-Newton) of the stage cost from those of the running cost at the nodes."""
    ndx, nu = phase.system.space.ndx, phase.system.nu
    local = _local(phase, costs, sym)
    gradient, hessian = ca.DM(ndx + nu, 1), ca.DM(ndx + nu, ndx + nu)
    held = ca.horzcat(ca.DM(nu, ndx), ca.DM.eye(nu))
    for (w, ti, xi), J in zip(nodes, jacobians, strict=False):  # the last Jacobian is that of the next state
        Jz = ca.vertcat(J, held)
        slope, bend = local(ti, xi, u, p)
        gradient += h * w * ca.mtimes(Jz.T, slope)
        hessian += h * w * ca.mtimes(Jz.T, ca.mtimes(bend, Jz))
    return gradient[:ndx], gradient[ndx:], hessian[:ndx, :ndx], hessian[ndx:, ndx:], hessian[ndx:, :ndx]


def _local(phase: Phase, costs: Sequence[Cost], sym: Symbol, exact: bool = False) -> Callable[..., tuple[Expr, Expr]]:
    """(t, x, u, p) -> gradient [ndx + nu] and Hessian of the costs at one point, in (dx, u).

    ``exact``: the exact Hessian of residual costs too, not that of Gauss-Newton.
    """
    system, ndx = phase.system, phase.system.space.ndx
    t, x, p, z = sym("t"), sym("x", system.nx), sym("p", system.np), sym("z", ndx + system.nu)
    near, u = system.space.jet(x, z[:ndx]), z[ndx:]
    gradient, hessian = ca.DM(ndx + system.nu, 1), ca.DM(ndx + system.nu, ndx + system.nu)
    for cost in costs:
        if cost.weights is None or exact:
            bend, slope = ca.hessian(cost.expression(t, near, u, p), z)
        else:
            residual = cost.function(t, near, u, p)
            J = ca.jacobian(residual, z)
            weighted = ca.mtimes(J.T, ca.diag(ca.DM(cost.weights)))
            slope, bend = ca.mtimes(weighted, residual), ca.mtimes(weighted, J)
        gradient, hessian = gradient + slope, hessian + bend
    function = ca.Function("local", [t, x, z, p], [gradient, hessian])

    def at(t: Expr, x: Expr, u: Expr, p: Expr) -> tuple[Expr, Expr]:
        slope, bend = function(t, x, ca.vertcat(ca.DM.zeros(ndx), u), p)
        return slope, bend

    return at


def _curvature(phase: Phase, integrator: Integrator, options: ILQROptions, costs: Sequence[Cost],
               sym: Symbol) -> ca.Function:
    """Full Hessian of the stage with the costate lambda of the next knot."""
    system, space, ndx = phase.system, phase.system.space, phase.system.space.ndx
    t, h, p, x = sym("t"), sym("h"), sym("p", system.np), sym("x", system.nx)
    z, after, costate, u = sym("z", ndx + system.nu), sym("x_next", system.nx), sym("lambda", ndx), sym("u", system.nu)
    near = space.jet(x, z[:ndx])
    moved, nodes = _advance(phase, integrator, options, t, near, z[ndx:], p, h)
    value = _stage_cost(costs, nodes, z[ndx:], p, h) + ca.dot(costate, space.minus(after, moved))
    hessian = ca.Function("hessian", [t, x, z, p, h, after, costate], [ca.hessian(value, z)[0]])
    H = hessian(t, x, ca.vertcat(ca.DM.zeros(ndx), u), p, h, integrator.step(system, t, x, u, p, h), costate)
    return _function("curvature", [t, x, u, p, h, costate], [H[:ndx, :ndx], H[ndx:, ndx:], H[ndx:, :ndx].T])


def _function(name: str, inputs: Sequence[Expr], outputs: Sequence[Expr]) -> ca.Function:
    """Function with dense outputs and, in a scalar graph, every shared term computed once."""
    kind = type(inputs[0])
    dense = [ca.densify(kind(output)) for output in outputs]
    return ca.Function(name, list(inputs), ca.cse(dense) if kind is ca.SX else dense)
