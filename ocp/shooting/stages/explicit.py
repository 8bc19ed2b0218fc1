"""A step of an explicit Runge-Kutta method as the nodes of ``dynamics.derivatives.chain_rule``, in one scalar graph.

The method runs in ambient coordinates (``ocp.integrators.runge_kutta``), with the field ``f = N(x) rate``, the projection P onto
the manifold and the running cost l:

    x = jet(x, dx)    c_j = x + sum_i h a_ji f_i    p_j = P(c_j)    (f_j, l_j) = (f, l)(t_j, p_j, u)
    e = x + sum_j h b_j f_j    end = minus(P(e), .)

The unknowns are z = (dx, u), and L = sum_j h b_j l_j + costate . end is linear, as are the inputs of all nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import casadi as ca

from dynamics.derivatives.chain_rule import Node, backward, congruence, curvature, forward
from ocp.integrators import project
from ocp.integrators.tableaus import Tableau
from ocp.problem import At
from ocp.shooting.stages.costs import quadratic, total
from ocp.shooting.stages.stretch import Stretch
from ocp.shooting.stages.written import Written

Expr = Any
Parts = Mapping[int, Expr]
"""Factors of blocks of y in a linear combination."""
_DX, _U = 0, 1  # the first two blocks


def write(stretch: Stretch, tableau: Tableau, rectangle: bool, t: Expr, x: Expr, u: Expr, p: Expr, h: Expr) -> Written:
    """The step from x under u. rectangle: the running cost counts at x alone, with weight h."""
    local, space, y = _Local(stretch), stretch.space, _Blocks(stretch.space.ndx, u.shape[0])
    start = y.add(y.pick({_DX: 1}), ca.SX(space.rate(x)), partial(local.start, x), space.nx)
    fields: dict[int, Expr] = {}  # by block
    costs: list[tuple[int, int, Expr, Sequence[Expr]]] = []  # node, block, weight, arguments

    def moved(weights: Sequence[float]) -> tuple[Expr, Parts]:
        parts = {k: h * w for k, w in zip(fields, weights, strict=False) if w}
        rise = [w * fields[k] for k, w in parts.items()]
        return x + sum(rise[1:], start=rise[0]) if rise else x, {start: 1, **parts}

    weights = (1.0, *(0.0,) * (len(tableau.b) - 1)) if rectangle else tableau.b
    values = []
    for c, row, b in zip(tableau.c, tableau.a, weights, strict=True):
        at, parts = moved(row)
        if local.curved and at is not x:
            at, parts = _projected(local, y, at, parts)
        given, X_y = (t + c * h if c else t, at, u, p), ca.vertcat(y.pick(parts), y.pick({_U: 1}))
        f, J = local.field(*given)
        if b:
            value, gradient = local.cost(*given)
            values.append(h * b * value)
            k = y.add(X_y, ca.vertcat(J, gradient.T), partial(local.point_hessian, given), space.nx, 1)
            costs.append((len(y.nodes) - 1, k + 1, h * b, given))
        else:
            k = y.add(X_y, J, partial(local.hessian, *given), space.nx)
        fields[k] = f
    e, parts = moved(tableau.b)
    after, J = local.landed(e)
    end = y.add(y.pick(parts), J, partial(local.end_hessian, after, e), space.ndx)
    seed = {block: weight for _, block, weight, _ in costs}
    gradient, links = backward(y.nodes, y.seed(seed))
    Y, inputs = forward(y.nodes, links)

    def full(costate: Expr) -> Expr:
        _, links = backward(y.nodes, y.seed({**seed, end: costate}))
        return curvature(y.nodes, links, Y, inputs)

    gauss_newton = sum((weight * congruence(local.quadratic(*given)[1], local.tangent(given[1], x, inputs[k]))
                        for k, _, weight, given in costs), start=ca.SX(*(Y.shape[1],) * 2))
    return Written(after=after, cost=sum(values, start=ca.SX(0)), gradient=gradient, F=Y[-space.ndx:, :], gauss_newton=gauss_newton,
                   full=full)


def _projected(local: _Local, y: _Blocks, c: Expr, parts: Parts) -> tuple[Expr, Parts]:
    at, J = local.project(c)
    return at, {y.add(y.pick(parts), J, partial(local.project_bend, c), c.shape[0]): 1}


class _Blocks:
    """y = (dx, u, x, ..) in blocks, the results of the nodes so far among them."""

    def __init__(self, *sizes: int):
        self.sizes, self.nodes = [*sizes], list[Node]()

    def pick(self, parts: Parts) -> Expr:
        """Derivative by y of the sum of ``parts``, blocks of one size."""
        rows = self.sizes[next(iter(parts))]
        return ca.horzcat(*(parts[k] * ca.SX.eye(rows) if k in parts else ca.SX(rows, size) for k, size in enumerate(self.sizes)))

    def add(self, X_y: Expr, J: Expr, hessian: Callable[[Expr], Expr], *sizes: int) -> int:
        """A node whose results have these sizes: the block of the first."""
        self.nodes.append(Node(X_y, lambda lam: (J, partial(hessian, lam))))
        self.sizes += sizes
        return len(self.sizes) - len(sizes)

    def seed(self, parts: Parts) -> Expr:
        """A vector [ny] of these blocks, zero elsewhere."""
        return ca.vertcat(*(parts.get(k, ca.SX(size, 1)) for k, size in enumerate(self.sizes)))


class _Local:
    """Functions of one point, small enough to be written out at every node, with derivatives and contracted second derivatives."""

    def __init__(self, stretch: Stretch):
        space, system = stretch.space, stretch.phase.system
        self.space, nx, nu = space, space.nx, system.nu
        costs = stretch.costs(At.PATH)
        t, c, u, p, y = (ca.SX.sym(name, size) for name, size in (("t", 1), ("c", nx), ("u", nu), ("p", system.np), ("y", nx)))
        at, z = [t, c, u, p], ca.vertcat(c, u)
        f = stretch.field(t, c, u, p)
        self.field = ca.Function("field", at, [f, ca.horzcat(ca.jacobian(f, c), ca.jacobian(f, u))])
        self.hessian = ca.Function("hessian", [*at, y], [ca.hessian(ca.dot(y, f), z)[0]])
        self.quadratic = quadratic(space, nu, system.np, costs, ca.SX.sym, inner=stretch.inner)
        value, self.curved = ca.SX(total(costs, *at)), not (space.is_vector_space and space.nx == space.ndx)
        gradient, hessian = ca.gradient(value, z), ca.SX(nx + nu, nx + nu)
        if self.curved:
            hessian = ca.hessian(value, z)[0]
        elif costs:  # in flat coordinates what ``quadratic`` knows of the structure of costs holds
            gradient, hessian = quadratic(space, nu, system.np, costs, ca.SX.sym, True, stretch.inner)(*at)
        self.cost = ca.Function("cost", at, [value, gradient])
        self.cost_hessian = ca.Function("cost_hessian", at, [hessian])
        landed = project(space, c)
        self.project = ca.Function("project", [c], [landed, ca.jacobian(landed, c)])
        self.project_bend = ca.Function("project_bend", [c, y], [ca.hessian(ca.dot(y, landed), c)[0]])

    def point_hessian(self, point: Sequence[Expr], lam: Expr) -> Expr:
        """Of ``lam . (f, l)`` by (x, u)."""
        return self.hessian(*point, lam[:-1]) + lam[-1] * self.cost_hessian(*point)

    def start(self, x: Expr, x_bar: Expr) -> Expr:
        """Of ``x_bar . jet(x, dx)`` by dx."""
        n = self.space.ndx
        if not self.curved:
            return ca.SX(n, n)
        dx, at, y = (ca.SX.sym(name, size) for name, size in (("dx", n), ("x", self.space.nx), ("y", self.space.nx)))
        hessian = ca.substitute(ca.hessian(ca.dot(y, self.space.jet(at, dx)), dx)[0], dx, ca.SX.zeros(n))
        return ca.Function("start", [at, y], [hessian])(x, x_bar)

    def landed(self, e: Expr) -> tuple[Expr, Expr]:
        """The end of a step on the manifold, and its derivative in the tangent space there."""
        if not self.curved:
            return e, ca.SX.eye(self.space.nx)
        after, projection = self.project(e)
        return after, ca.mtimes(self.space.rate_inverse(after), projection)

    def end_hessian(self, after: Expr, e: Expr, costate: Expr) -> Expr:
        """Of ``costate . minus(after, P(e))`` by e, with constant ``after``."""
        space = self.space
        if not self.curved:
            return ca.SX(space.nx, space.nx)
        a, at, y = (ca.SX.sym(name, size) for name, size in (("a", space.nx), ("e", space.nx), ("y", space.ndx)))
        return ca.Function("end", [a, at, y], [ca.hessian(ca.dot(y, space.minus(a, project(space, at))), at)[0]])(after, e, costate)

    def tangent(self, at: Expr, x: Expr, W: Expr) -> Expr:
        """W [nx + m, n + m] with its upper rows in the tangent space at a point, where x has dx."""
        if not self.curved:
            return W
        if at is x:
            return ca.SX.eye(W.shape[1])
        return ca.vertcat(ca.mtimes(self.space.rate_inverse(at), W[:self.space.nx, :]), W[self.space.nx:, :])
