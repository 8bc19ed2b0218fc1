"""From the links of the reduced tree to the robot: derivatives in u = G(q) v become derivatives in (q, v, a).

For links, ``tau_u(chi, u, du)`` and its derivatives are known, chi their poses. The robot moves them by

    chi = chi(q),  D_k chi = G e_k        u = G v        du = G a + dG/dt v        tau = G^T tau_u

so that with mu = G lam the contraction is ``lam^T tau = F(chi, mu, u, du) = mu^T tau_u``. The chain rule needs F's own derivatives
(those of the contraction, and where mu moves those of tau_u) and how mu, u and du move with q: small blocks of single joints,
``dynamics.joints.moving``, zero but for joints with S(q). Where there are none, G is constant and everything is a congruence.
Second derivatives are raw: ``D_k D_j f`` at [j, k], as in ``dynamics.derivatives.manifold``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from dynamics.algorithms import tree
from dynamics.algorithms.reduced_tree import Link, ReducedTree
from dynamics.joints.kind import part
from dynamics.joints.moving import first_derivatives, second_derivatives
from dynamics.lie.expression import Expr


class FirstOrderBack(NamedTuple):
    """tau [nv] and its derivatives by q, v and a [nv, nv]."""

    tau: Expr
    dq: Expr
    dv: Expr
    da: Expr


class FrameDerivatives(NamedTuple):
    """Derivatives [6, nv]: of a pose, a twist and an acceleration by q, and of the acceleration by v."""

    pose_q: Expr
    twist_q: Expr
    acceleration_q: Expr
    acceleration_v: Expr


@dataclass(frozen=True)
class Pullback:
    """At one (q, v, a): G [nu, nv] (None where u = v), u, du [nu], and where joints with S(q) exist D u, D du and d(du)/dv,
    each [nu, nv]."""

    reduced: ReducedTree
    state: tuple[Expr, Expr, Expr]
    G: Expr | None
    u: Expr
    du: Expr
    Du: Expr = None
    Ddu: Expr = None
    du_dv: Expr = None

    def lift(self, vector: Expr) -> Expr:
        """``G x``."""
        return vector if self.G is None else self.G @ vector

    def rows(self, rows: Expr) -> Expr:
        """``G^T x``: generalised forces (or rows of a matrix) of the links seen from v."""
        return rows if self.G is None else self.G.T @ rows

    def congruence(self, matrix: Expr) -> Expr:
        """``G^T X G``."""
        return matrix if self.G is None else self.G.T @ matrix @ self.G

    def direction(self, lam: Expr) -> tuple[Expr, Expr]:
        """``mu = G lam`` [nu] of a direction lam [nv], and its derivative by q [nu, nv]."""
        if not self.reduced.moving:
            return self.lift(lam), tree.zeros(self.reduced.nu, self.reduced.nv, lam)
        return self.lift(lam), _assembled(self.reduced, [(link, x[0]) for link, x in self._second_derivatives(lam)], lam,
                                          *self.state)

    def columns(self, columns: Expr) -> Expr:
        """``X G`` [., nv]: what depends on the velocities of the links, seen from v."""
        return columns if self.G is None else columns @ self.G

    def frame_derivatives(self, pose: Expr, V_q: Expr, A_q: Expr, A_v: Expr) -> FrameDerivatives:
        """Derivatives [6, nv] by q of a frame's pose, twist and acceleration, and of the latter by v, from those by the links."""
        out = [self.columns(x) for x in (pose, V_q, A_q, A_v)]
        if self.reduced.moving:
            out[1] = out[1] + pose @ self.Du
            out[2] = out[2] + A_v @ self.Du + pose @ self.Ddu
            out[3] = out[3] + pose @ self.du_dv
        return FrameDerivatives(out[0], out[1], out[2], out[3])

    def first(self, tau: Expr, dq: Expr, dv: Expr, M: Expr) -> FirstOrderBack:
        """tau [nv] and its derivatives by q, v, a from those of the links."""
        out = [self.congruence(x) for x in (dq, dv, M)]
        if self.reduced.moving:
            out[0] = out[0] + self.rows(dv @ self.Du + M @ self.Ddu)
            out[1] = out[1] + self.rows(M @ self.du_dv)
            for link, found in self._second_derivatives(tree.zeros(self.reduced.nv, 1), w_q=tau):
                out[0][link.v, link.v] += found[1]
        return FirstOrderBack(self.rows(tau), out[0], out[1], out[2])

    def second(self, lam: Expr, first: tuple[Expr, ...], contracted: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Gradients gq, gv, ga and second derivatives qq, qv, vv, qa of ``lam^T tau``. lam: [nv]; first: tau, dq, dv, M of the
        links, needed where joints with S(q) exist; contracted: the results for the links with the multiplier G lam."""
        gq, gv, ga, qq, qv, vv, qa = contracted
        gradients, matrices = [self.rows(x) for x in (gq, gv, ga)], [self.congruence(x) for x in (qq, qv, vv, qa)]
        if not self.reduced.moving:
            return *gradients, *matrices
        tau, dq, dv, M = first
        found = list(self._second_derivatives(lam, gq, tau, gv, ga))
        Dmu = _assembled(self.reduced, [(link, x[0]) for link, x in found], lam, *self.state)
        Du, Ddu, du_dv = self.Du, self.Ddu, self.du_dv
        gradients[0] = gradients[0] + Dmu.T @ tau + Du.T @ gv + Ddu.T @ ga
        gradients[1] = gradients[1] + du_dv.T @ ga
        mixed = self.rows(dq.T @ Dmu + qv @ Du + qa @ Ddu) + Dmu.T @ (dv @ Du + M @ Ddu)
        matrices[0] = matrices[0] + mixed + mixed.T + Du.T @ vv @ Du
        matrices[1] = (matrices[1] + self.rows(qa @ du_dv) + Dmu.T @ (dv @ self.G + M @ du_dv) + Du.T @ vv @ self.G)
        matrices[3] = matrices[3] + Dmu.T @ M @ self.G
        for link, x in found:
            for matrix, block in zip(matrices, x[1:], strict=True):
                matrix[link.v, link.v] += block
        return *gradients, *matrices

    def _second_derivatives(self, lam: Expr, w_q: Expr = None, w_t: Expr = None, w_v: Expr = None, w_a: Expr = None) -> Any:
        """(link, ``joints.moving.second_derivatives``) of all general links; weights [nu] left out are zero."""
        for link in self.reduced.moving:
            weights = [tree.zeros(6, 1) if w is None else part(w, link.columns) for w in (w_q, w_t, w_v, w_a)]
            q, v, a = self.state
            first, *second = second_derivatives(link.kind)(link.coordinates(q), *(link.velocities(x) for x in (v, a, lam)),
                                                           *weights)
            yield link, (link.multiplier * first, *(link.multiplier**2 * x for x in second))


def pullback(reduced: ReducedTree, q: Expr, v: Expr, a: Expr) -> Pullback:
    """q: [nq]; v, a: [nv]."""
    if reduced.plain:
        return Pullback(reduced, (q, v, a), None, v, a)
    G = reduced.constant_map
    if not reduced.moving:
        return Pullback(reduced, (q, v, a), G, G @ v, G @ a)
    found = [(link, first_derivatives(link.kind)(link.coordinates(q), link.velocities(v), link.velocities(a)))
             for link in reduced.moving]
    blocks = [_assembled(reduced, [(link, link.multiplier * x[k]) for link, x in found], q, v, a) for k in (0, 2, 3, 4)]
    G = blocks[0] + G
    du = G @ a
    for link, x in found:
        du[link.columns, :] += x[1]
    return Pullback(reduced, (q, v, a), G, G @ v, du, *blocks[1:])


def _assembled(reduced: ReducedTree, blocks: list[tuple[Link, Expr]], *like: Expr) -> Expr:
    """[nu, nv] with the block [6, n] of each general link in its place."""
    out = tree.zeros(reduced.nu, reduced.nv, *like)
    for link, block in blocks:
        out[link.columns, link.v] = block
    return out
