"""Contributions of constraints to the equations of motion and to their derivatives, record by record.

With multipliers lambda, a direction x [nv] and weights w [m], the parts of a constrained system are the rows

    k(q, v, a, t) = J a + drift + 2 RATE rate + RATE^2 g,        ``J' lambda``        and        phi = w' k - lambda' J x

and at an impact k(q, v, t) = rate.

Relations between frames are differentiated through the frames' motion, which is known in closed form, and through their own algebra
of a handful of variables; constraints that are equations in the coordinates of the robot, whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import casadi as ca

from dynamics import algorithms as alg
from dynamics.algorithms import tree
from dynamics.constraints import Constraint
from dynamics.constraints.constraint import FrameConstraint
from dynamics.constraints.relation import relation
from dynamics.derivatives.frame_motions import FrameMotions, frame_motions
from dynamics.lie.expression import Expr
from dynamics.model.model import Model


class Rows(NamedTuple):
    """k [m] and J x by (q, v, t), ``J' w`` by (q, t): first derivatives, [m, .] and [nv, .]."""

    k_q: Expr
    k_v: Expr
    k_t: Expr
    Jx_q: Expr
    Jx_t: Expr


class Curvature(NamedTuple):
    """Second derivatives of phi by q (tangent, symmetrised), v and t."""

    qq: Expr
    qv: Expr
    vv: Expr
    qt: Expr
    vt: Expr
    tt: Expr


@dataclass(frozen=True)
class Point:
    """Where the terms are taken: q [nq], v, a [nv], t; struck: at an impact, where k is the rate."""

    model: Model
    constraints: tuple[Constraint, ...]
    q: Expr
    v: Expr
    a: Expr
    t: Expr
    struck: bool = False

    def rows(self, x: Expr) -> Rows:
        """First derivatives of the rows, for a direction x."""
        found = [_record(c).rows(self, c, x) for c in self.constraints]
        return Rows(*(ca.vertcat(*parts) for parts in zip(*found, strict=True)))

    def effort(self, w: Expr) -> tuple[Expr, Expr]:
        """Derivatives of ``J' w`` by q [nv, nv] and t [nv], w constant."""
        found = [_record(c).effort(self, c, part) for c, part in self._split(w)]
        n = self.model.nv
        return sum((x[0] for x in found), tree.zeros(n, n)), sum((x[1] for x in found), tree.zeros(n, 1))

    def curvature(self, x: Expr, w: Expr, multipliers: Expr) -> Curvature:
        """Second derivatives of phi, with x, w, lambda and a constant."""
        found = [_record(c).curvature(self, c, x, part, own)
                 for (c, part), (_, own) in zip(self._split(w), self._split(multipliers), strict=True)]
        return Curvature(*(sum(parts[1:], parts[0]) for parts in zip(*found, strict=True)))

    def _split(self, rows: Expr) -> list[tuple[Constraint, Expr]]:
        out, start = [], 0
        for c in self.constraints:
            count = c.size(self.model)
            out.append((c, rows[start:start + count]))
            start += count
        return out


def _record(c: Constraint) -> Any:
    return Between if isinstance(c, FrameConstraint) else Coordinates


# ------------------------------------------------------------------------------------------------ relations between frames
class MovedFrames(NamedTuple):
    """Motions of the frames, the arguments of the functions of a relation, and z by (q, v) [24 k + 1, nv]."""

    motions: FrameMotions
    arguments: list[Expr]
    by_state: list[Expr]


class Between:
    """Terms of relations between frames."""

    @staticmethod
    def _motions(at: Point, c: FrameConstraint, x: Expr) -> MovedFrames:
        """Motions of the frames, the arguments of the functions of a relation, and z by (q, v) [24 k + 1, nv]."""
        motions = frame_motions(at.model, c.frames, at.q, at.v, at.a, x)
        jets, n = motions.jets, at.model.nv
        arguments = [ca.horzcat(*(j.pose.R for j in jets)), ca.horzcat(*(j.pose.p for j in jets)),
                     *(ca.vertcat(*parts) for parts in zip(*((j.V, j.A, j.W) for j in jets), strict=True)), at.t]
        none, still = ca.DM(6 * len(jets), n), ca.DM(1, n)
        moved, driven = ([ca.vertcat(*parts) for parts in zip(*blocks, strict=True)] for blocks in (
            [(j.pose_q, j.V_q, j.A_q, j.W_q) for j in jets], [(j.V_v, j.A_v) for j in jets]))
        by_q, by_v = ca.vertcat(*moved, still), ca.vertcat(none, *driven, none, still)
        return MovedFrames(motions, arguments, [by_q, by_v])

    @classmethod
    def rows(cls, at: Point, c: FrameConstraint, x: Expr) -> Rows:
        """First derivatives of the constraint's acceleration and of J x."""
        _, arguments, (by_q, by_v) = cls._motions(at, c, x)
        k, Jx = relation(c, at.struck).rows(*arguments)
        return Rows(k @ by_q, k @ by_v, k[:, -1], Jx @ by_q, Jx[:, -1])

    @classmethod
    def effort(cls, at: Point, c: FrameConstraint, w: Expr) -> tuple[Expr, Expr]:
        """J' w and its derivatives by time and configuration."""
        motions, arguments, _ = cls._motions(at, c, ca.DM(at.model.nv, 1))
        F, F_xi, F_t = relation(c, at.struck).effort(*arguments, w)
        lifted, nu = motions.lifted, motions.lifted.reduced.nu
        tau, turning = tree.zeros(nu, 1), tree.zeros(nu, nu)
        for i, jet in enumerate(motions.jets):
            own = jet.force(F[6 * i:6 * i + 6])
            tau, turning = tau + own[0], turning + own[1]
        J = ca.vertcat(*(jet.V_v for jet in motions.jets))
        none = ca.DM(nu, nu)
        return lifted.first(tau, turning, none, none)[1] + J.T @ F_xi @ J, J.T @ F_t

    @classmethod
    def curvature(cls, at: Point, c: FrameConstraint, x: Expr, w: Expr, multipliers: Expr) -> Curvature:
        """Second derivatives of the contraction with weights w and multipliers."""
        motions, arguments, (by_q, by_v) = cls._motions(at, c, x)
        gradient, H = relation(c, at.struck).curvature(*arguments, w, multipliers)
        k, nu = len(motions.jets), motions.lifted.reduced.nu
        parts = [jet.contracted(*(gradient[6 * (k * kind + i):6 * (k * kind + i) + 6] for kind in range(4)))
                 for i, jet in enumerate(motions.jets)]
        *contracted, tau, turning = (sum(column[1:], column[0]) for column in zip(*parts, strict=True))
        none = ca.DM(nu, nu)
        _, _, _, qq, qv, vv, _ = motions.lifted.second(x, (tau, turning, none, none), tuple(contracted))
        Hq, Hv, Ht = (H @ y for y in (by_q, by_v, ca.vertcat(ca.DM(24 * k, 1), 1)))
        return Curvature((qq + qq.T) / 2 + by_q.T @ Hq, qv + by_q.T @ Hv, vv + by_v.T @ Hv, by_q.T @ Ht, by_v.T @ Ht, Ht[-1])


# ------------------------------------------------------------------------------------------------ equations in coordinates
class Coordinates:
    """Terms of constraints that are equations in q and v themselves: differentiated as they stand, along right perturbations."""

    @staticmethod
    def _symbols(at: Point) -> tuple[list[Expr], Expr, Expr]:
        n = at.model.nv
        q, v, a, x, t, d = (ca.SX.sym(name, size) for name, size in zip("qvaxtd", (at.model.nq, n, n, n, 1, n), strict=True))
        return [q, v, a, x, t], d, alg.jet(at.model, q, d)

    @classmethod
    def _terms(cls, at: Point, c: Constraint) -> tuple[list[Expr], Expr, Expr, Expr]:
        (q, v, a, x, t), d, moved = cls._symbols(at)
        J = c.jacobian(at.model, moved, t)
        k = c.rate(at.model, moved, v, t) if at.struck else (
            J @ a + c.drift(at.model, moved, v, t) + c.gains[1] * c.rate(at.model, moved, v, t)
            + c.gains[0] * c.value(at.model, moved, t))
        return [q, v, a, x, t], d, ca.densify(ca.SX(k)), J

    @classmethod
    def rows(cls, at: Point, c: Constraint, x: Expr) -> Rows:
        """First derivatives of the constraint's acceleration and of J x."""
        symbols, d, k, J = cls._terms(at, c)
        _, v, _, x_, t = symbols
        Jx = ca.densify(ca.SX(J @ x_))
        return Rows(*cls._at(at, symbols, d, [ca.jacobian(k, d), ca.jacobian(k, v), ca.jacobian(k, t), ca.jacobian(Jx, d),
                                              ca.jacobian(Jx, t)], x))

    @classmethod
    def effort(cls, at: Point, c: Constraint, w: Expr) -> tuple[Expr, Expr]:
        """J' w and its derivatives by time and configuration."""
        symbols, d, _, J = cls._terms(at, c)
        weights = ca.SX.sym("w", J.shape[0])
        force = ca.densify(ca.SX(J.T @ weights))
        found = cls._at(at, symbols, d, [ca.jacobian(force, d), ca.jacobian(force, symbols[4])], ca.DM(at.model.nv, 1),
                        [(weights, w)])
        return found[0], found[1]

    @classmethod
    def curvature(cls, at: Point, c: Constraint, x: Expr, w: Expr, multipliers: Expr) -> Curvature:
        """Second derivatives of the contraction with weights w and multipliers."""
        symbols, d, k, J = cls._terms(at, c)
        weights, forces, n = ca.SX.sym("w", J.shape[0]), ca.SX.sym("l", J.shape[0]), at.model.nv
        phi = ca.dot(weights, k) - ca.dot(forces, J @ symbols[3])
        H, = cls._at(at, symbols, d, [ca.hessian(phi, ca.vertcat(d, symbols[1], symbols[4]))[0]], x,
                     [(weights, w), (forces, multipliers)])
        q, v = slice(0, n), slice(n, 2 * n)
        return Curvature(H[q, q], H[q, v], H[v, v], H[q, 2 * n], H[v, 2 * n], H[2 * n, 2 * n])

    @staticmethod
    def _at(at: Point, symbols: Sequence[Expr], d: Expr, outputs: list[Expr], x: Expr, more: Sequence[tuple[Expr, Expr]] = ()
            ) -> list[Expr]:
        """Outputs at d = 0 and the point."""
        there = ca.substitute(outputs, [d], [ca.SX.zeros(at.model.nv)])
        function = ca.Function("terms", [*symbols, *(symbol for symbol, _ in more)], ca.cse(there))
        return list(function.call([ca.SX(y) for y in (at.q, at.v, at.a, x, at.t, *(value for _, value in more))]))
