"""First and second derivatives of dynamics with constraints and of impacts: one saddle-point system for both.

    ID(q, v, a) - J' lambda = tau        k(q, v, a, t) = J a + drift + 2 RATE rate + RATE^2 g = 0
    M (v+ - v) - J' Lambda = P           rate(v+) + e rate(v) = 0

Both read r(x, y) = 0 with the unknowns y = (a, lambda) or (v+, Lambda), r linear in y, and the same matrix ``dr/dy = K``, so

    dy/dx = -K^-1 r_x         d2(mu' y)/dx dx = -(r_xx + r_xy Y + (r_xy Y)') contracted with l = K^-T mu,  Y = dy/dx.

The dynamics in r come in closed form, the constraints by ``dynamics.derivatives.constraint_terms``. Second derivatives with respect
to q are symmetrised: Hessians of ``d -> f(q [+] d)``. Source: Singh and Wensing, arXiv:2203.00679, sections on constrained dynamics
and impact. Rows of J may depend on each other as long as they do so everywhere: then a is unique, and lambda is the smallest that
serves, whose derivative also turns with the null space N of J', ``N' dlambda = N' dJ s`` for any s with J s = lambda. Hessians then
hold for weights mu of lambda in the range of J.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import casadi as ca
import numpy as np

from dynamics import algorithms as alg
from dynamics.algorithms import tree
from dynamics.algorithms.saddle import Saddle
from dynamics.constraints import Constraint
from dynamics.derivatives.constraint_terms import Point
from dynamics.derivatives.frame_motions import frame_motions
from dynamics.derivatives.inverse_contracted import contracted_inverse_dynamics
from dynamics.derivatives.inverse_first import InversePartials, inverse_dynamics_and_mass, inverse_dynamics_partials
from dynamics.derivatives.manifold import symmetrised
from dynamics.lie.expression import Expr
from dynamics.mechanism import constrained as equations
from dynamics.mechanism.constrained import Restitution
from dynamics.model.model import Model

Wrenches = Mapping[str, Expr] | None


class Constrained(NamedTuple):
    """a [nv], lambda [m] of the reduced constraints, and their derivatives Y [nv + m, n_x] by x = (q (tangent), v, tau, t,
    wrenches on ``bodies``)."""

    a: Expr
    force: Expr
    Y: Expr


class Struck(NamedTuple):
    """v_after [nv], impulse [m] (N s, N m s), and their derivatives Y [nv + m, n_x] by x = (q (tangent), v, t, impulses on
    ``bodies``)."""

    v_after: Expr
    impulse: Expr
    Y: Expr


class _System(NamedTuple):
    """The linear system at a point: solution y, residuals' derivatives by the parts of x in order, as pairs of blocks; whether rows
    of constraints depend on each other."""

    at: Point
    saddle: Saddle
    y: tuple[Expr, Expr]
    by: dict[str, tuple[Expr, Expr]]
    dependent: bool

    def solved(self) -> Expr:
        """Y."""
        f, c = (-ca.horzcat(*(blocks[i] for blocks in self.by.values())) for i in (0, 1))
        if self.dependent:  # no inverse: right-hand sides in the range of J alone
            x, multipliers = self.saddle.solve(f, c)
            multipliers = multipliers + self._turning()
        else:
            x, multipliers = self.saddle.solve_by_inverse(f, c)
        return ca.vertcat(x, multipliers)

    def _turning(self) -> Expr:
        """Change of the smallest multipliers as the null space of J' turns [m, n_x]."""
        n, J = self.at.model.nv, self.saddle.J
        s, _ = self.saddle.solve(ca.DM(n, 1), self.y[1])
        rows = self.at.rows(s)
        moved = {"q": rows.Jx_q, "t": rows.Jx_t}
        turned = ca.horzcat(*(moved.get(key, ca.DM(*block.shape)) for key, (_, block) in self.by.items()))
        within, _ = self.saddle.solve(ca.DM(n, turned.shape[1]), turned)
        return turned - J @ within

    def adjoint(self, mu: Expr, mu_rows: Expr) -> tuple[Expr, Expr]:
        """l = K^-T mu, for weights of both parts of y."""
        x, multipliers = self.saddle.solve(mu, -mu_rows)
        return x, -multipliers

    def contracted(self, l: tuple[Expr, Expr], second: Mapping[tuple[str, str], Expr], q_first: Expr) -> tuple[Expr, Expr]:
        """Gradient [n_x] and Hessian [n_x, n_x] of ``mu' y``. second: ``l' r`` by pairs of parts of x, without what the multipliers
        and directions change; q_first: by q and the first part of y."""
        gradient = -ca.vertcat(*(b[0].T @ l[0] + b[1].T @ l[1] for b in self.by.values()))
        (effort_q, effort_t), rows = self.at.effort(l[1]), self.at.rows(l[0])
        n, m = l[0].shape[0], l[1].shape[0]
        mixed = {"q": ca.horzcat(q_first + effort_q.T, -rows.Jx_q.T), "t": ca.horzcat(effort_t.T, -rows.Jx_t.T)}
        sizes = {key: b[0].shape[1] for key, b in self.by.items()}
        r_xy = ca.vertcat(*(mixed.get(key, ca.DM(size, n + m)) for key, size in sizes.items()))
        r_xx = ca.vertcat(*(ca.horzcat(*(second[i, j] if (i, j) in second else second[j, i].T if (j, i) in second
                                         else ca.DM(sizes[i], sizes[j]) for j in sizes)) for i in sizes))
        through = r_xy @ self.solved()
        return gradient, -(r_xx + through + through.T)


def dependent(model: Model, constraints: Sequence[Constraint]) -> bool:
    """Whether rows depend on each other wherever the robot is; those that the tree keeps anyway, whose forces are zero, do not
    count."""
    q, t = ca.SX.sym("q", model.nq), ca.SX.sym("t")
    J = np.array(ca.Function("J", [q, t], [ca.densify(ca.SX(equations.stacked(model, constraints, "jacobian", q, t)))])(
        alg.random_configuration(model, np.random.default_rng(0)), 0.3))
    least = 1e-9 * np.abs(J).max(initial=0.0)
    J = J[np.abs(J).max(axis=1) > least]
    return bool(np.linalg.matrix_rank(J, tol=least) < len(J))


def _wrench_terms(model: Model, bodies: Sequence[str], q: Expr, x: Expr) -> tuple[Expr, Expr]:
    """The Jacobians [6 k, nv] of bodies, in their own coordinates, and the derivatives of ``J x`` by q."""
    named = replace(model, frames=())
    jets = frame_motions(named, bodies, q, ca.DM(model.nv, 1), ca.DM(model.nv, 1), x).jets
    none = ca.DM(0, model.nv)
    return ca.vertcat(none, *(j.V_v for j in jets)), ca.vertcat(none, *(j.W_q for j in jets))


# ------------------------------------------------------------------------------------------------ dynamics
def _dynamics(model: Model, constraints: Sequence[Constraint], q: Expr, v: Expr, tau: Expr, t: Expr, f_ext: Wrenches,
              bodies: Sequence[str]) -> _System:
    n, constraints = model.nv, equations.reduced(constraints)
    bias, M = inverse_dynamics_and_mass(model, q, v, tree.zeros(n, 1, q, v, tau), f_ext)
    saddle = Saddle(ca.SX(M), ca.SX(equations.stacked(model, constraints, "jacobian", q, t)))
    y = saddle.solve(tau - bias, equations.demanded(model, constraints, q, v, t))
    first = inverse_dynamics_partials(model, q, v, y[0], f_ext)
    at = Point(model, tuple(constraints), q, v, y[0], t)
    (effort_q, effort_t), rows, m = at.effort(y[1]), at.rows(ca.DM(n, 1)), saddle.J.shape[0]
    by = {"q": (first.dtau_dq - effort_q, rows.k_q), "v": (first.dtau_dv, rows.k_v), "tau": (-ca.DM.eye(n), ca.DM(m, n)),
          "t": (-effort_t, rows.k_t), "w": (-_wrench_terms(model, bodies, q, ca.DM(n, 1))[0].T, ca.DM(m, 6 * len(bodies)))}
    return _System(at, saddle, y, by, dependent(model, constraints))


def constrained_dynamics_partials(model: Model, constraints: Sequence[Constraint], q: Expr, v: Expr, tau: Expr, *, t: Expr = 0.0,
                                  f_ext: Wrenches = None, bodies: Sequence[str] = ()) -> Constrained:
    """Accelerations and multipliers under tau [nv], and their first derivatives. q: [nq]; v: [nv]; f_ext: body name -> wrench [6],
    body coordinates; bodies: those by whose wrenches is differentiated. Raises ModelError, UnknownNameError."""
    q, v, tau = tree.as_column(q), tree.as_column(v), tree.as_column(tau)
    system = _dynamics(model, constraints, q, v, tau, t, f_ext, bodies)
    return Constrained(*system.y, system.solved())


def contracted_constrained_dynamics(model: Model, constraints: Sequence[Constraint], q: Expr, v: Expr, tau: Expr,
                                    mu: tuple[Expr, Expr], *, t: Expr = 0.0, f_ext: Wrenches = None, bodies: Sequence[str] = ()
                                    ) -> tuple[Expr, Expr]:
    """Gradient [n_x] and Hessian [n_x, n_x] of ``mu_a' a + mu_f' lambda`` by x as in ``Constrained``. mu: (mu_a [nv], mu_f [m])."""
    q, v, tau, *mu_ = (tree.as_column(x) for x in (q, v, tau, *mu))
    system = _dynamics(model, constraints, q, v, tau, t, f_ext, bodies)
    l = system.adjoint(*mu_)
    dyn = contracted_inverse_dynamics(model, q, v, system.y[0], l[0], f_ext)
    phi = system.at.curvature(l[0], l[1], system.y[1])
    second = {("q", "q"): symmetrised(dyn.qq) + phi.qq, ("q", "v"): dyn.qv + phi.qv, ("v", "v"): dyn.vv + phi.vv,
              ("q", "t"): phi.qt, ("v", "t"): phi.vt, ("t", "t"): phi.tt,
              ("q", "w"): -_wrench_terms(model, bodies, q, l[0])[1].T}
    return system.contracted(l, second, dyn.qa)


# ------------------------------------------------------------------------------------------------ impact
def _impact(model: Model, constraints: Sequence[Constraint], q: Expr, v: Expr, restitution: Restitution, t: Expr,
            impulses: Wrenches, bodies: Sequence[str]) -> tuple[_System, Expr]:
    """The system, and the restitution of its constraints."""
    n, constraints = model.nv, equations.reduced(constraints)
    e = equations.bounce(model, constraints, restitution)
    M = ca.SX(alg.mass_matrix(model, q))
    saddle = Saddle(M, ca.SX(equations.stacked(model, constraints, "jacobian", q, t)))
    rate = equations.stacked(model, constraints, "rate", q, v, t)
    change, impulse = saddle.solve(equations.push(model, q, impulses), -(1 + e) * rate)
    first = _change(model, q, change, impulses)
    before, after = (Point(model, constraints, q, x, ca.DM(n, 1), t, struck=True) for x in (v, v + change))
    rows, later, (effort_q, effort_t) = before.rows(ca.DM(n, 1)), after.rows(ca.DM(n, 1)), after.effort(impulse)
    m, scale = saddle.J.shape[0], ca.diag(e)
    by = {"q": (first.dtau_dq - effort_q, later.k_q + scale @ rows.k_q), "v": (-M, scale @ saddle.J),
          "t": (-effort_t, later.k_t + scale @ rows.k_t),
          "w": (-_wrench_terms(model, bodies, q, ca.DM(n, 1))[0].T, ca.DM(m, 6 * len(bodies)))}
    return _System(after, saddle, (v + change, impulse), by, dependent(model, constraints)), e


def _change(model: Model, q: Expr, change: Expr, impulses: Wrenches) -> InversePartials:
    """``M(q) (v+ - v) - P``: the inverse dynamics of the change of velocity, at rest and without gravity."""
    return inverse_dynamics_partials(replace(model, gravity=(0.0, 0.0, 0.0)), q, ca.DM.zeros(model.nv), change, impulses)


def impact_partials(model: Model, constraints: Sequence[Constraint], q: Expr, v: Expr, restitution: Restitution = 0.0, *,
                    t: Expr = 0.0, impulses: Wrenches = None, bodies: Sequence[str] = ()) -> Struck:
    """Velocity after an impact on all constraints, impulses, and their first derivatives. q: [nq]; v: [nv] before; impulses: body
    name -> impulsive wrench [6] from outside, body coordinates. Raises as ``mechanism.constrained.impact`` does."""
    q, v = tree.as_column(q), tree.as_column(v)
    system, _ = _impact(model, constraints, q, v, restitution, t, impulses, bodies)
    return Struck(*system.y, system.solved())


def contracted_impact(model: Model, constraints: Sequence[Constraint], q: Expr, v: Expr, mu: tuple[Expr, Expr],
                      restitution: Restitution = 0.0, *, t: Expr = 0.0, impulses: Wrenches = None, bodies: Sequence[str] = ()
                      ) -> tuple[Expr, Expr]:
    """Gradient [n_x] and Hessian [n_x, n_x] of ``mu_v' v_after + mu_F' impulse`` by x as in ``Struck``. mu: (mu_v, mu_F)."""
    q, v, *mu_ = (tree.as_column(x) for x in (q, v, *mu))
    system, e = _impact(model, constraints, q, v, restitution, t, impulses, bodies)
    n, l = model.nv, system.adjoint(*mu_)
    dyn = contracted_inverse_dynamics(replace(model, gravity=(0.0, 0.0, 0.0)), q, ca.DM.zeros(n), system.y[0] - v, l[0], impulses)
    after = system.at.curvature(l[0], l[1], system.y[1])
    before = replace(system.at, v=v).curvature(ca.DM(n, 1), e * l[1], ca.DM(l[1].shape[0], 1))
    second = {("q", "q"): symmetrised(dyn.qq) + after.qq + before.qq, ("q", "v"): before.qv - dyn.qa,
              ("q", "t"): after.qt + before.qt, ("v", "t"): before.vt, ("t", "t"): after.tt + before.tt,
              ("q", "w"): -_wrench_terms(model, bodies, q, l[0])[1].T}
    return system.contracted(l, second, dyn.qa)
