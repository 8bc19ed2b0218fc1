"""A problem of one phase as the discrete problem that polishing sees: CasADi Functions evaluated knot by knot, no engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from ocp.integrators import INTEGRATORS
from ocp.problem import At
from ocp.shooting.kkt import Knot, Multipliers, costates
from ocp.shooting.stages.rows import final_rows, path_rows

Expr = Any


def flat(value):
    return np.asarray(value, dtype=float).ravel()


@dataclass(frozen=True)
class Discrete:
    """Functions of one step: value(t, x, u, p, h) -> next, cost; first(t, x, u, p, h) -> next, g, F;
    second(t, x, u, p, h, costate) -> H; end(t, x, p) -> final cost; last(t, x, p) -> g, H."""

    phase: Any
    N: int
    h: float
    p: np.ndarray
    value: ca.Function
    first: ca.Function
    second: ca.Function
    end: ca.Function
    last: ca.Function
    plus: ca.Function
    minus: ca.Function
    rows: tuple[Any, Any]
    exact: bool

    @property
    def n(self):
        return self.phase.system.space.ndx

    def _held(self, which, t, x, u, k):
        """c, C, kind, size of the rows that hold at knot k."""
        rows = self.rows[which]
        if not rows.count:
            return np.zeros(0), np.zeros((0, self.n + self.phase.system.nu)), rows.kind, rows.size, np.zeros(0, bool)
        c, Cx, Cu = rows.jacobian(t, x, u, self.p)
        holds = (rows.needs_control == 1) if k == 0 else np.ones(rows.count, bool)
        C = np.hstack([np.asarray(Cx).T.reshape(rows.count, -1), np.asarray(Cu).T.reshape(rows.count, -1)])
        return flat(c)[holds], C[holds], rows.kind[holds], rows.size[holds], holds

    def evaluate(self, x, u, multipliers):
        """The knots at a point; curvature of steps and rows by the multipliers."""
        n, m, knots = self.n, self.phase.system.nu, []
        lower, upper = np.array(self.phase.u_lower), np.array(self.phase.u_upper)
        for k in range(self.N + 1):
            t, inside = k * self.h, k < self.N
            control = u[k] if inside else np.zeros(m)
            c, C, kind, size, holds = self._held(0 if inside else 1, t, x[k], control, k)
            if inside:
                after, g, F = self.first(t, x[k], control, self.p, self.h)
                H = np.array(self.second(t, x[k], control, self.p, self.h, multipliers.costate[k + 1]))
                gap = flat(self.minus(x[k + 1], after))
            else:
                g, H = self.last(t, x[k], self.p)
                H = np.array(H)
            if len(c) and self.exact:
                w = np.zeros(len(holds))
                w[holds] = multipliers.rows[k]
                xx, uu, ux = (np.asarray(v) for v in self.rows[0 if inside else 1].curvature(t, x[k], control, self.p, w))
                H[:n, :n] += xx
                if inside:
                    H[n:, n:] += uu
                    H[n:, :n] += ux.T
                    H[:n, n:] += ux
            more = {"c": c, "C": C if inside else C[:, :n], "kind": kind, "size": size}
            if inside:
                more |= {"F": np.asarray(F), "gap": gap, "u": np.asarray(control), "lower": lower, "upper": upper}
            knots.append(Knot(n, flat(g), H, **more))
        return knots

    def retract(self, x, dx):
        return [flat(self.plus(a, b)) for a, b in zip(x, dx, strict=True)]

    def rollout(self, x0, u):
        x = [np.asarray(x0, float)]
        for k, control in enumerate(u):
            x.append(flat(self.value(k * self.h, x[-1], control, self.p, self.h)[0]))
        return x

    def cost(self, x, u):
        """Sum of all costs but those at the start."""
        steps = (self.value(k * self.h, a, b, self.p, self.h)[1] for k, (a, b) in enumerate(zip(x, u, strict=False)))
        return float(sum(steps, start=self.end(self.N * self.h, x[-1], self.p)))

    def row_multipliers(self, path, final):
        """Those of a solution ([N, r] and [r]) without the rows that do not hold at the start."""
        needs = self.rows[0].needs_control == 1
        return [np.asarray(w)[needs] if k == 0 else np.asarray(w) for k, w in enumerate(path)] + [np.asarray(final)]

    def start(self, x, u, path, final):
        """Multipliers with costates by a backward sweep."""
        rows = self.row_multipliers(path, final)
        empty = Multipliers(tuple(np.zeros(self.n) for _ in x), tuple(rows))
        return costates(self.evaluate(x, u, empty), rows)


def discrete(problem, intervals, exact=True, rectangle=False):
    """RK4 with held controls; running costs by the tableau of RK4, or h times the cost at the knot (``rectangle``)."""
    phase = problem.phase
    system, space = phase.system, phase.system.space
    n, m = space.ndx, system.nu
    t, h, x, u, p = ca.SX.sym("t"), ca.SX.sym("h"), ca.SX.sym("x", system.nx), ca.SX.sym("u", m), ca.SX.sym("p", system.np)
    z, costate, y = ca.SX.sym("z", n + m), ca.SX.sym("costate", n), ca.SX.sym("y", system.nx)

    def total(at, t, x, u):
        return sum((cost.expression(t, x, u, p) for cost in phase.costs if cost.at is at), start=ca.SX(0))

    def advance(t, x, u):
        after, nodes = INTEGRATORS["rk4"].advance(system, t, x, u, p, h)
        nodes = ((1.0, t, x),) if rectangle else nodes
        return after, h * sum(w * total(At.PATH, at, near, u) for w, at, near in nodes)

    def at_zero(expression):
        return ca.densify(ca.substitute(expression, z, ca.SX.zeros(n + m)))

    near, moved_u = space.jet(x, z[:n]), u + z[n:]
    after, cost = advance(t, x, u)
    moved, moved_cost = advance(t, near, moved_u)
    away = space.minus(y, moved)
    F = ca.jacobian(away, z)
    value = moved_cost + ca.dot(costate, away)
    if exact:
        H = ca.hessian(value, z)[0]
    else:  # curvature of the costs only
        H = ca.hessian(moved_cost, z)[0]
    arguments = [t, x, u, p, h]
    made_F = ca.Function("F", [*arguments, y, z], [F])(*arguments, after, ca.SX.zeros(n + m))
    made_H = ca.Function("H", [*arguments, y, costate, z], [H])(*arguments, after, costate, ca.SX.zeros(n + m))
    end = total(At.FINAL, t, near, ca.SX.zeros(m))
    bend, slope = ca.hessian(end, z[:n])
    a, b = ca.SX.sym("a", system.nx), ca.SX.sym("b", n)
    N = intervals
    return Discrete(
        phase, N, phase.duration.guess / N, np.array(system.parameter_values, float),
        ca.Function("value", arguments, [after, cost]),
        ca.Function("first", arguments, [after, at_zero(ca.gradient(moved_cost, z)), ca.densify(made_F)]),
        ca.Function("second", [*arguments, costate], [ca.densify(made_H)]),
        ca.Function("end", [t, x, p], [total(At.FINAL, t, x, ca.SX.zeros(m))]),
        ca.Function("last", [t, x, p], [at_zero(slope), at_zero(bend)]),
        ca.Function("plus", [a, b], [space.plus(a, b)]), ca.Function("minus", [a, x], [space.minus(a, x)]),
        (path_rows(phase), final_rows(phase)), exact)
