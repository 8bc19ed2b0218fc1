"""A step of an explicit Runge-Kutta method and its expansions by the chain rule, node by node, as one scalar graph.

The method runs in ambient coordinates (``ocp.integrators.runge_kutta``): with the field ``f = N(x) rate``, the projection P onto
the manifold and the rises ``y_j = h f(t_j, p_j, u)``,

    c_j = x + sum_i a_ji y_i        p_j = P(c_j)        e = x + sum_j b_j y_j        x' = P(e)

Derivatives in z = (dx, u) are carried forward, ``Y_j = h (f_x P' C_j + f_u [0 1])``; adjoints ``p_bar`` of the cost and of
``lambda . minus(x', .)`` back. The full Hessian is the sum over all that is not linear, each with its own small Hessian K,

    sum_j [P' C_j; U]' K_j [P' C_j; U] + sum_j C_j' (p_bar_j . P'') C_j + E' (lambda . minus(x', P))'' E + x_bar . jet''

with K_j that of ``h y_bar_j . f + h b_j l`` at p_j. Differentiating the whole step instead, one direction after the other, takes
1.2 to 2.2 times the operations on two to four joints and on a quadrotor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import casadi as ca

from dynamics.lie.expression import Expr
from ocp.integrators import project
from ocp.integrators.tableaus import Tableau
from ocp.problem import At
from ocp.shooting.stages.costs import slopes, total
from ocp.shooting.stages.stretch import Stretch
from ocp.shooting.stages.written import Written


class Point(NamedTuple):
    """What a step begins with: time, state, control, parameters, length."""

    t: Expr
    x: Expr
    u: Expr
    p: Expr
    h: Expr


class End(NamedTuple):
    """Of a step: e in ambient coordinates and E = de/dz, P(e), and its derivative F in its tangent space."""

    e: Expr
    E: Expr
    after: Expr
    F: Expr


@dataclass(frozen=True)
class Node:
    """One node: time; base point c and C = dc/dz [nx, n + m]; point p = P(c) on the manifold and its derivative; projection
    [nx, nx] = P', None where p is c; A [nx, nx], B [nx, m] of the field there; rise y and Y = dy/dz; weight of the running cost."""

    t: Expr
    c: Expr
    C: Expr
    p: Expr
    dp: Expr
    projection: Expr | None
    A: Expr
    B: Expr
    y: Expr
    Y: Expr
    weight: Expr | None


def write(stretch: Stretch, tableau: Tableau, rectangle: bool, t: Expr, x: Expr, u: Expr, p: Expr, h: Expr) -> Written:
    """The step from x under u. rectangle: the running cost counts at x alone, with weight h."""
    local, at = _Local(stretch), Point(t, x, u, p, h)
    nodes: list[Node] = []
    base = ca.horzcat(ca.SX(stretch.space.rate(x)), ca.SX(x.shape[0], u.shape[0]))
    weights = (1.0, *(0.0,) * (len(tableau.b) - 1)) if rectangle else tableau.b
    for c, row, b in zip(tableau.c, tableau.a, weights, strict=True):
        nodes.append(local.node(at._replace(t=t + c * h if c else t), base, nodes, row, h * b if b else None))
    end = local.landed(*_moved(x, base, nodes, tableau.b))
    costs = [(node.weight, *local.cost(node.t, node.p, u, p)) for node in nodes if node.weight is not None]
    x_bar, u_bar, _, _ = local.back(nodes, tableau, at, None)

    def full(costate: Expr) -> Expr:
        return local.hessian(nodes, tableau, at, end, costate)

    return Written(
        after=end.after, cost=sum((w * value for w, value, _ in costs), start=ca.SX(0)),
        gradient=ca.vertcat(ca.mtimes(base[:, :stretch.space.ndx].T, x_bar), u_bar), F=end.F,
        gauss_newton=local.gauss_newton(nodes, u, p), full=full)


def _moved(x: Expr, base: Expr, nodes: Sequence[Node], weights: Sequence[float]) -> tuple[Expr, Expr]:
    """``x + sum_i w_i y_i`` and its derivative."""
    used = [(w, node) for w, node in zip(weights, nodes, strict=False) if w]
    return (x + sum((w * node.y for w, node in used[1:]), start=used[0][0] * used[0][1].y) if used else x,
            base + sum((w * node.Y for w, node in used[1:]), start=used[0][0] * used[0][1].Y) if used else base)


class _Local:
    """Functions of one point, small enough to be written out at every node."""

    def __init__(self, stretch: Stretch):
        space, system = stretch.space, stretch.phase.system
        self.space, self.nu, nx, nu = space, system.nu, space.nx, system.nu
        costs = stretch.costs(At.PATH)
        t, c, u, p, y = (ca.SX.sym(name, size) for name, size in (("t", 1), ("c", nx), ("u", nu), ("p", system.np), ("y", nx)))
        at, z = [t, c, u, p], ca.vertcat(c, u)
        f = stretch.field(t, c, u, p)
        self.field = ca.Function("field", at, [f, ca.jacobian(f, c), ca.jacobian(f, u)])
        self.bend = ca.Function("bend", [*at, y], [ca.hessian(ca.dot(y, f), z)[0]])
        self.slopes = slopes(space, nu, system.np, costs, ca.SX.sym, inner=stretch.inner)
        value, self.curved = ca.SX(total(costs, *at)), not (space.is_vector_space and space.nx == space.ndx)
        slope, bend = ca.gradient(value, z), ca.SX(nx + nu, nx + nu)
        if self.curved:
            bend = ca.hessian(value, z)[0]
        elif costs:  # in flat coordinates what ``slopes`` knows of the structure of costs holds
            slope, bend = slopes(space, nu, system.np, costs, ca.SX.sym, True, stretch.inner)(*at)
        self.cost = ca.Function("cost", at, [value, slope])
        self.cost_bend = ca.Function("cost_bend", at, [bend])
        landed = project(space, c)
        self.project = ca.Function("project", [c], [landed, ca.jacobian(landed, c)])
        self.project_bend = ca.Function("project_bend", [c, y], [ca.hessian(ca.dot(y, landed), c)[0]])

    def node(self, begin: Point, base: Expr, before: Sequence[Node], row: Sequence[float], weight: Expr | None) -> Node:
        """The node whose base point is x moved by the rises before."""
        t, x, u, p, h = begin
        c, C = _moved(x, base, before, row)
        at, dp, projection = c, C, None
        if self.curved and c is not x:
            at, projection = self.project(c)
            dp = ca.mtimes(projection, C)
        f, A, B = self.field(t, at, u, p)
        n = base.shape[1] - self.nu
        Y = h * (ca.mtimes(A, dp) + ca.horzcat(ca.SX(c.shape[0], n), B))
        return Node(t, c, C, at, dp, projection, A, B, h * f, Y, weight)

    def landed(self, e: Expr, E: Expr) -> End:
        """The end of a step on the manifold."""
        if not self.curved:
            return End(e, E, e, E)
        after, projection = self.project(e)
        return End(e, E, after, ca.mtimes(ca.mtimes(self.space.rate_inverse(after), projection), E))

    def back(self, nodes: Sequence[Node], tableau: Tableau, begin: Point, end_bar: Expr | None
             ) -> tuple[Expr, Expr, list[Expr], list[Expr]]:
        """Adjoints of the running cost and, if given, of the end: of x and u, of the rises and of the points of every node."""
        nx, (_, _, u, p, h) = self.space.nx, begin
        nothing = ca.SX(nx, 1)
        x_bar, u_bar = nothing if end_bar is None else end_bar, ca.SX(self.nu, 1)
        rises, points, bases = ([nothing] * len(nodes) for _ in range(3))
        for j in reversed(range(len(nodes))):
            node = nodes[j]
            rise = nothing if end_bar is None else tableau.b[j] * end_bar
            for later in range(j + 1, len(nodes)):
                if tableau.a[later][j]:
                    rise = rise + tableau.a[later][j] * bases[later]
            rises[j] = h * rise
            point, control = ca.mtimes(node.A.T, rises[j]), ca.mtimes(node.B.T, rises[j])
            if node.weight is not None:
                slope = node.weight * self.cost(node.t, node.p, u, p)[1]
                point, control = point + slope[:nx], control + slope[nx:]
            points[j], u_bar = point, u_bar + control
            bases[j] = point if node.projection is None else ca.mtimes(node.projection.T, point)
            x_bar = x_bar + bases[j]
        return x_bar, u_bar, rises, points

    def gauss_newton(self, nodes: Sequence[Node], u: Expr, p: Expr) -> Expr:
        """Hessians of the costs at the nodes, each in its own tangent space."""
        n, m = self.space.ndx, self.nu
        found = ca.SX(n + m, n + m)
        for j, node in enumerate(nodes):
            if node.weight is None:
                continue
            J = node.dp
            if self.curved:
                J = ca.mtimes(self.space.rate_inverse(node.p), node.dp) if j else ca.horzcat(ca.SX.eye(n), ca.SX(n, m))
            found += node.weight * self._congruence(self.slopes(node.t, node.p, u, p)[1], J)
        return found

    def _congruence(self, K: Expr, X: Expr) -> Expr:
        """``[X; U]' K [X; U]``."""
        n, m = self.space.ndx, self.nu
        Z = ca.vertcat(X, ca.horzcat(ca.SX(m, n), ca.SX.eye(m)))
        return ca.mtimes(Z.T, ca.mtimes(K, Z))

    def hessian(self, nodes: Sequence[Node], tableau: Tableau, begin: Point, end: End, costate: Expr) -> Expr:
        """The full Hessian of cost and ``costate . minus(after, step)``."""
        space, n, m = self.space, self.space.ndx, self.nu
        found, end_bar = ca.SX(n + m, n + m), costate
        if self.curved:
            a, e, y = (ca.SX.sym(name, size) for name, size in (("a", space.nx), ("e", space.nx), ("y", n)))
            K, slope = ca.hessian(ca.dot(y, space.minus(a, project(space, e))), e)
            K, end_bar = ca.Function("end", [a, e, y], [K, slope])(end.after, end.e, costate)
            found += ca.mtimes(end.E.T, ca.mtimes(K, end.E))
        x_bar, _, rises, points = self.back(nodes, tableau, begin, end_bar)
        for node, rise, point in zip(nodes, rises, points, strict=True):
            K = self.bend(node.t, node.p, begin.u, begin.p, rise)
            if node.weight is not None:
                K = K + node.weight * self.cost_bend(node.t, node.p, begin.u, begin.p)
            found += self._congruence(K, node.dp)
            if node.projection is not None:
                found += ca.mtimes(node.C.T, ca.mtimes(self.project_bend(node.c, point), node.C))
        if self.curved:
            dx, at, y = (ca.SX.sym(name, size) for name, size in (("dx", n), ("x", space.nx), ("y", space.nx)))
            bend = ca.substitute(ca.hessian(ca.dot(y, space.jet(at, dx)), dx)[0], dx, ca.SX.zeros(n))
            found += ca.diagcat(ca.Function("start", [at, y], [bend])(begin.x, x_bar), ca.SX(m, m))
        return found
