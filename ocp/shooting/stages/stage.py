"""The functions of one kind of stage: step, costs, their expansions, rows of hard constraints.

A horizon is a sequence of stages. Every stage takes a state x and a control u to the state after it and has a cost: a step of the
integrator along a phase, a *passage* (the choice of what is free at the start, the reset between two phases) or the end, which
has no control and leads nowhere. All derivatives are taken in the tangent space, z = (dx, u): with x' = f(x, u),
``F = N^+(x') [df/dx N(x), df/du]``, exact at dx = 0 because N is the derivative of ``plus`` there. The running cost of a step is
``L(x, u) = h sum_i w_i l(t_i, x_i(x, u), u)`` with the nodes of the integrator.

Gauss-Newton Hessian: with ``J_i`` the derivative of node i in its own tangent space, ``h sum_i w_i J_i' H_i J_i`` where H_i is
the Hessian of l at the node (``ocp.shooting.stages.costs.slopes``). It drops the second derivatives of the dynamics, within the
step as well as across it, and is positive semidefinite whenever every H_i is. The full Hessian (DDP) keeps them: it is that of
``L + lambda . minus(f(x, u), f(x [+] dx, u + du))``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import casadi as ca

from dynamics.derivatives.inner import Inner
from dynamics.lie.expression import Expr
from ocp.problem import Cost
from ocp.shooting.stages.costs import LocalCost, quadratic, total
from ocp.shooting.stages.expressions import Symbol, by_rows, dense_function, filled, shared
from ocp.shooting.stages.rows import Row, Rows, make_rows
from ocp.shooting.stages.written import Write, Written
from ocp.spaces import Space, euclidean

NOWHERE = euclidean(())


@dataclass(frozen=True)
class Term:
    """Costs at one point of a stage: ``weight sum costs(t, x, u, p)``, x in ``space``; controlled: they see the stage's u."""

    weight: Expr
    t: Expr
    x: Expr
    space: Space
    costs: tuple[Cost, ...]
    quadratic: Callable[..., tuple[Expr, Expr]]
    controlled: bool


@dataclass(frozen=True)
class Draft:
    """A stage before its functions are made.

    advance(t, x, u, p, h) -> state after it in ``after``, cost terms;  rows(t, x, u, p) -> rows of hard constraints
    sym: SX.sym or MX.sym; local: the running cost where loops over a robot take the step or, beside ``single``, its full Hessian.
    inner: values of the dynamics that constraints may hold; constraints then takes symbols for them as its last argument.
    single: the same as ``advance``, with its expansions, as one scalar graph (SX); None: by algorithmic differentiation.
    """

    label: str
    space: Space
    controls: tuple[str, ...]
    parameters: int
    after: Space
    advance: Callable[[Expr, Expr, Expr, Expr, Expr], tuple[Expr, list[Term]]]
    rows: Callable[..., list[Row]]
    sym: Symbol
    local: LocalCost | None = None
    single: Write | None = None
    inner: Inner | None = None


@dataclass(frozen=True)
class Stage:
    """Functions of one kind of stage; arguments are columns, matrices come row by row, filled up to the width w of the horizon.

    step(t, x, u, p, h) -> state after it, cost, k [n]: values of the dynamics in constraints
    expand(t, x, u, p, h) -> g [w], F [ndx_after, w], H [ndx + nu, w], T [n, w], k: gradient, derivative of the step, Gauss-Newton
        Hessian of the cost on and below the diagonal, derivative of k
    first_order(t, x, u, p, h) -> g, F, T, k, where the Hessian comes from ``hessian``
    hessian(t, x, u, p, h, lambda [ndx_after]) -> H, the full Hessian
    whole(t, x, u, p, h, lambda) -> H, g, F, T, k: the full Hessian and, to the last bit, ``first_order``; None: not in one graph
    difference(x0, x1) -> minus(x0, x1);  plus(x, dx) -> x
    adjoint(t, x, u, p, h, y [nx_after]) -> y of the knot before [nx], gradient [nu]: a reverse sweep in ambient coordinates

    Where loops over a robot give the full Hessian, hessian is None; where they give the step too, so are expand and first_order.
    step, without k, and adjoint then are for the certificate alone, and adjoint is differentiated algorithmically in any case.
    """

    label: str
    space: Space
    controls: tuple[str, ...]
    after: Space
    step: ca.Function
    expand: ca.Function | None
    first_order: ca.Function | None
    hessian: ca.Function | None
    whole: ca.Function | None
    difference: ca.Function
    plus: ca.Function
    adjoint: ca.Function
    rows: Rows
    local: LocalCost | None = None

    @property
    def nu(self) -> int:
        """Number of controls."""
        return len(self.controls)


def make_stage(draft: Draft, width: int, full: bool) -> Stage:
    """The functions of a draft. width: columns of every matrix; full: whether the full Hessian is wanted."""
    sym, space, nu = draft.sym, draft.space, len(draft.controls)
    inputs = _inputs(draft, sym)
    x, u = inputs[1], inputs[2]
    dx, other, y = sym("dx", space.ndx), sym("x1", space.nx), sym("y", draft.after.nx)
    after, terms = draft.advance(*inputs)
    pulled = cost_of(terms, u, inputs[3]) + ca.dot(y, after)
    whole: ca.Function | None = None
    rows = make_rows("stage", space, nu, draft.parameters, draft.rows, width, draft.inner, full)
    if draft.single is None:
        step, expand, first = _first_order(draft, rows, inputs, after, terms, width)
        hessian = _hessian(draft, width) if full and draft.local is None else None
    else:
        scalars = _inputs(draft, ca.SX.sym)
        step, expand, first, whole = _written(scalars, draft.single(*scalars), rows.value_indices, draft.after.ndx, width, full)
        hessian = _first_output(whole) if whole is not None else _hessian(draft, width) if full and draft.local is None else None
    return Stage(
        label=draft.label, space=space, controls=draft.controls, after=draft.after, step=step, expand=expand,
        first_order=first if full else None, hessian=hessian, whole=whole,
        difference=dense_function("difference", [x, other], [space.minus(x, other)]),
        plus=dense_function("plus", [x, dx], [space.plus(x, dx)]),
        adjoint=dense_function("adjoint", [*inputs, y], [ca.gradient(pulled, x), ca.gradient(pulled, u)]),
        rows=rows, local=draft.local)


def _inputs(draft: Draft, sym: Symbol) -> list[Expr]:
    """Symbols of (t, x, u, p, h)."""
    return [sym("t"), sym("x", draft.space.nx), sym("u", len(draft.controls)), sym("p", draft.parameters), sym("h")]


def _first_order(draft: Draft, rows: Rows, inputs: Sequence[Expr], after: Expr, terms: Sequence[Term], width: int
                 ) -> tuple[ca.Function, ca.Function | None, ca.Function | None]:
    """step, expand, gradient by algorithmic differentiation; the step alone where loops over a robot do the rest."""
    t, x, u, p, _ = inputs
    if draft.local is not None:
        return dense_function("step", inputs, [after, cost_of(terms, u, p)]), None, None
    step = dense_function("step", inputs, [after, cost_of(terms, u, p), type(x)(rows.inner(t, x, u))])
    g, F, H = first_order(draft.space, draft.after, x, u, p, terms, after, None)
    used = rows.value_indices
    k, T = _values(used, draft.inner.first(t, x, u) if draft.inner is not None and used else None, type(x), width)
    g, F, H, T, k = shared([filled(g, width), by_rows(F, width), by_rows(ca.tril(H), width), T, k], type(x))
    return step, ca.Function("expand", inputs, [g, F, H, T, k]), ca.Function("first_order", inputs, [g, F, T, k])


def _values(used: Sequence[int], first: tuple[Expr, Expr] | None, kind: type, width: int) -> tuple[Expr, Expr]:
    """Values of the dynamics in constraints and their derivative by rows of the matrix, from all of them."""
    k, T = (kind(0, 1), kind(0, width)) if first is None or not used else (first[0][list(used), :], first[1][list(used), :])
    return k, by_rows(T, width)


def _written(inputs: Sequence[Expr], found: Written, used: Sequence[int], ndx_after: int, width: int, full: bool
             ) -> tuple[ca.Function, ca.Function, ca.Function, ca.Function | None]:
    """step, expand, gradient and, if wanted and given, whole of a step that is written out."""
    costate = ca.SX.sym("lambda", ndx_after)
    hessians = [found.gauss_newton, *([found.full(costate)] if full and found.full is not None else [])]
    inside = _values(used, found.inner() if used and found.inner is not None else None, ca.SX, width)
    after, cost, k, T, g, F, *H = shared([found.after, found.cost, *inside, filled(found.gradient, width),
                                          by_rows(found.F, width), *(by_rows(ca.tril(H), width) for H in hessians)], ca.SX)
    return (ca.Function("step", inputs, [after, cost, k]), ca.Function("expand", inputs, [g, F, H[0], T, k]),
            ca.Function("first_order", inputs, [g, F, T, k]),
            ca.Function("whole", [*inputs, costate], [H[1], g, F, T, k]) if len(H) > 1 else None)


def _first_output(function: ca.Function) -> ca.Function:
    """The function that gives the first output alone."""
    inputs = [ca.MX.sym(function.name_in(i), function.sparsity_in(i)) for i in range(function.n_in())]
    return ca.Function("hessian", inputs, [function.call(inputs)[0]])


def term(weight: Expr, t: Expr, x: Expr, space: Space, nu: int, np_: int, costs: Sequence[Cost], sym: Symbol,
         controlled: bool, inner: Inner | None = None) -> Term:
    """Costs at a point; nu: size of the control that the cost functions take; inner: see ``quadratic``."""
    return Term(weight, t, x, space, tuple(costs), quadratic(space, nu, np_, costs, sym, inner=inner), controlled)


def _control(term: Term, u: Expr) -> Expr:
    return u if term.controlled else ca.DM.zeros(term.costs[0].function.size1_in(2) if term.costs else 0)


def _known(term: Term, p: Expr) -> Expr:
    """Parameters of costs: those of their system."""
    size = term.costs[0].function.size1_in(3) if term.costs else p.shape[0]
    return p if size == p.shape[0] else p[:size]


def cost_of(terms: Sequence[Term], u: Expr, p: Expr) -> Expr:
    """Weighted costs of all terms."""
    return sum((at.weight * total(at.costs, at.t, at.x, _control(at, u), _known(at, p)) for at in terms), start=ca.DM(0))


def first_order(space: Space, space_after: Space, x: Expr, u: Expr, p: Expr, terms: Sequence[Term], after: Expr, F: Expr | None
                ) -> tuple[Expr, Expr, Expr]:
    """Gradient [n + m] of costs, derivative of the step [ndx_after, n + m] and Gauss-Newton Hessian. F: derivative of the step,
    None: by algorithmic differentiation."""
    n, m = space.ndx, u.shape[0]
    points = [(t.x, t.space) for t in terms] + ([(after, space_after)] if F is None else [])
    jacobians = _tangent_jacobians(space, x, u, points)
    F = jacobians.pop() if F is None else F
    gradient, hessian = ca.DM(n + m, 1), ca.DM(n + m, n + m)
    held = ca.horzcat(ca.DM(m, n), ca.DM.eye(m))
    for at, J in zip(terms, jacobians, strict=True):
        g, H = at.quadratic(at.t, at.x, _control(at, u), _known(at, p))
        ndx = at.space.ndx
        Jz = ca.vertcat(J, held) if at.controlled else J
        if not at.controlled:
            g, H = g[:ndx], H[:ndx, :ndx]
        gradient += at.weight * ca.mtimes(Jz.T, g)
        hessian += at.weight * ca.mtimes(Jz.T, ca.mtimes(H, Jz))
    return gradient, F, hessian


def _tangent_jacobians(space: Space, x: Expr, u: Expr, points: Sequence[tuple[Expr, Space]]) -> list[Expr]:
    """Derivatives [ndx of the point, n + m] in (dx, u) of points of a stage, each in its own tangent space."""
    n, m = space.ndx, u.shape[0]
    unmoved = ca.horzcat(ca.DM.eye(n), ca.DM(n, m))
    moved = [(point, around) for point, around in points if point is not x]
    found = iter(())
    if moved:
        stacked = ca.vertcat(*(point for point, _ in moved))
        ambient = ca.horzcat(ca.mtimes(ca.jacobian(stacked, x), space.rate(x)), ca.jacobian(stacked, u))
        ends = [0]
        for _, around in moved:
            ends.append(ends[-1] + around.nx)
        found = iter([ca.mtimes(around.rate_inverse(point), ambient[a:b, :])
                      for (point, around), a, b in zip(moved, ends[:-1], ends[1:], strict=True)])
    return [unmoved if point is x else next(found) for point, _ in points]


def _hessian(draft: Draft, width: int) -> ca.Function:
    """Full Hessian of the stage with the costate lambda of the next knot."""
    sym, space, m = draft.sym, draft.space, len(draft.controls)
    n = space.ndx
    t, h, p, x, u = sym("t"), sym("h"), sym("p", draft.parameters), sym("x", space.nx), sym("u", m)
    z, after, costate = sym("z", n + m), sym("x_next", draft.after.nx), sym("lambda", draft.after.ndx)
    dx, control = ca.vertsplit(z, [0, n, n + m])
    moved, terms = draft.advance(t, space.jet(x, dx), control, p, h)
    value = cost_of(terms, control, p)
    value += ca.dot(costate, draft.after.minus(after, moved))
    hessian = ca.Function("hessian", [t, x, z, p, h, after, costate], [ca.tril(ca.hessian(value, z)[0])])
    inputs, (there,) = [t, x, u, p, h, costate], shared([draft.advance(t, x, u, p, h)[0]], type(x))
    H = by_rows(hessian(t, x, ca.vertcat(ca.DM.zeros(n), u), p, h, there, costate), width)
    if isinstance(H, ca.MX):  # a call, which has nothing to share
        return ca.Function("hessian", inputs, [ca.densify(H)])
    return dense_function("hessian", inputs, [H])
