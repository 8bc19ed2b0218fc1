"""How the motion of a frame changes with q, v and a, to second order, in closed form: what constraints between frames need.

Of a frame on the link f, in its own coordinates: the twist V, its derivative A (no gravity), and W = J lam for a direction lam.
With Psi_dot, Psi_ddot, S_dot as in ``dynamics.derivatives.sweep`` and Lambda_j = w_parent x S_j, for joints j on the way:

    pose by q: S_j      V by q: Psi_dot_j      A by q: Psi_ddot_j - V x Psi_dot_j                  W by q: Lambda_j
                        V by v: S_j            A by v: Psi_dot_j + S_dot_j - V x S_j    by a: S_j

Second derivatives are contracted with one wrench for each, constant in the coordinates of the frame (k at or above j):

    qq: F_V . Psi_dot_k x S_j + F_A . (Psi_ddot_k x S_j + Psi_dot_k x Psi_dot_j - V x (Psi_dot_k x S_j)) + F_W . Lambda_k x S_j

and likewise for the other pairs. They follow from the identities K1-K16 of Singh, Russell and Wensing (2022), where the terms in
``S_k x`` cancel against the turning of the wrenches. Right-tangent derivatives in raw order, see ``dynamics.derivatives.manifold``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from dynamics import spatial
from dynamics.algorithms import tree
from dynamics.algorithms.reduced_tree import ReducedTree, reduced_tree
from dynamics.derivatives.pullback import Pullback, pullback
from dynamics.derivatives.sweep import cross_columns
from dynamics.joints.kind import part
from dynamics.lie.expression import Expr
from dynamics.model import rigid
from dynamics.model.model import Model
from dynamics.spatial import Transform, cross_force, cross_motion


class Columns(NamedTuple):
    """Of all links on the way to a frame, in its coordinates: S, Psi_dot, Psi_ddot, S_dot, Lambda, each [6, nu]."""

    S: Expr
    psi_dot: Expr
    psi_ddot: Expr
    S_dot: Expr
    turned: Expr

    def through(self, move: Any) -> Columns:
        """The columns after `move` of each."""
        return Columns(*map(move, self))


@dataclass(frozen=True)
class FrameJet:
    """A frame in motion: world pose, V, A, W [6] in its coordinates; derivatives of pose, V, A, W by q, v, a [6, nv] along the
    robot's own velocities; ``columns`` and ``order`` (links by column [nu], -1: not on the way) of its links."""

    pose: Transform
    V: Expr
    A: Expr
    W: Expr
    pose_q: Expr
    V_q: Expr
    A_q: Expr
    A_v: Expr
    W_q: Expr
    columns: Columns
    order: np.ndarray

    @property
    def V_v(self) -> Expr:
        """The Jacobian [6, nv], which is the derivative of V by v, of A by a and of W by lam, too."""
        return self.pose_q

    def contracted(self, F_pose: Expr, F_V: Expr, F_A: Expr, F_W: Expr) -> tuple[Expr, ...]:
        """Of the links: gradients gq, gv, ga of ``F . (pose, V, A, W)``, its second derivatives qq, qv, vv, qa, and of the force
        ``S' F_W`` [nu] itself and its derivative by q."""
        S, psi, ppsi, fast, turned = self.columns
        V, up = self.V, self._mask(np.less_equal)
        strict, down = self._mask(np.less), self._mask(np.greater)
        moved = cross_force(V, F_A)
        C_V, C_A, C_W, C_m = (cross_columns(S, F) for F in (F_V, F_A, F_W, moved))
        x, y = ppsi - cross_motion(V, psi), psi + fast - cross_motion(V, S)
        gradients = (S.T @ F_pose + psi.T @ F_V + x.T @ F_A + turned.T @ F_W, S.T @ F_V + y.T @ F_A, S.T @ F_A)
        at_or_above = (C_V.T @ psi + C_A.T @ ppsi + cross_columns(psi, F_A).T @ psi + C_m.T @ psi + C_W.T @ turned
                       - S.T @ cross_columns(S, F_pose) / 2)
        qq = at_or_above * up.T + (at_or_above * strict.T).T
        SC_V, SC_A = S.T @ C_V, S.T @ C_A
        qv = (SC_V * strict).T + (psi.T @ C_A) * up + (C_A.T @ (psi + fast) - S.T @ C_m - psi.T @ C_A) * down
        vv = SC_A * strict + (SC_A * strict).T
        return *gradients, qq, qv, vv, (SC_A * strict).T, *self.force(F_W)

    def force(self, F: Expr) -> tuple[Expr, Expr]:
        """``S' F`` [nu] of a wrench constant in the coordinates of the frame, and its derivative by q [nu, nu]."""
        S = self.columns.S
        return S.T @ F, (S.T @ cross_columns(S, F)) * self._mask(np.less)

    def _mask(self, relation: Any) -> ca.DM:
        """[nu, nu]: 1 at [j, k] where the joints of both columns are on the way and ``relation(j, k)`` holds from the root on."""
        on = self.order >= 0
        return ca.sparsify(ca.DM((relation(self.order[:, None], self.order[None, :]) & on[:, None] & on[None, :]).astype(float)))


@dataclass(frozen=True)
class FrameMotions:
    """All frames at one (q, v, a) with one direction lam."""

    lifted: Pullback
    jets: tuple[FrameJet, ...]


def frame_motions(model: Model, frames: Sequence[str], q: Expr, v: Expr, a: Expr, lam: Expr) -> FrameMotions:
    """q [nq]; v, a, lam [nv]. Frames of the world are at rest. Raises UnknownNameError."""
    reduced = reduced_tree(model)
    lifted = pullback(reduced, q, v, a)
    mu, Dmu = lifted.direction(lam)
    wanted = [(model.frame(name).body, model.frame(name).placement) for name in frames]
    targets = {reduced.where[body][0] for body, _ in wanted if body >= 0} - {-1}
    passed = _passed(reduced, lifted, q, mu, targets)
    jets = []
    for body, placement in wanted:
        link, place = reduced.where[body] if body >= 0 else (-1, placement)
        offset = rigid.compose(place, placement) if body >= 0 else placement
        jets.append(_jet(lifted, Dmu, passed.get(link), tree.placement_transform(offset)))
    return FrameMotions(lifted, tuple(jets))


class _Link(NamedTuple):
    """A link in its own coordinates: world pose, V, A, W, columns of the links on the way, and these links from the root on."""

    pose: Transform
    V: Expr
    A: Expr
    W: Expr
    columns: Columns
    order: np.ndarray


def _passed(reduced: ReducedTree, lifted: Pullback, q: Expr, mu: Expr, targets: set[int]) -> dict[int, _Link]:
    """The links on the way to ``targets``."""
    needed: set[int] = set()
    for target in targets:
        while target >= 0 and target not in needed:
            needed.add(target)
            target = reduced.links[target].parent
    still, none = ca.DM(6, 1), tree.zeros(6, reduced.nu, q)
    base = _Link(spatial.identity(), still, still, still, Columns(none, none, none, none, none), np.full(reduced.nu, -1))
    out: dict[int, _Link] = {}
    for i in sorted(needed):
        link, X = reduced.links[i], reduced.links[i].pose(q)
        above = out.get(link.parent, base)

        def move(m: Expr, X: Transform = X) -> Expr:
            return spatial.motion_to_child(X, m)

        V, A, W, S = move(above.V), move(above.A), move(above.W), link.subspace
        u, du, w = (part(x, link.columns) for x in (lifted.u, lifted.du, mu))
        psi = cross_motion(V, S)
        own = Columns(S, psi, cross_motion(A, S) + cross_motion(V, psi), psi + cross_motion(S @ u, S), cross_motion(W, S))
        columns, order = above.columns.through(move), above.order.copy()
        for whole, block in zip(columns, own, strict=True):
            whole[:, link.columns] = block
        order[link.columns] = order.max() + 1
        out[i] = _Link(spatial.compose(above.pose, X), V + S @ u, A + S @ du + psi @ u, W + S @ w, columns, order)
    return out


def _jet(lifted: Pullback, Dmu: Expr, link: _Link | None, offset: Transform) -> FrameJet:
    nu, nv = lifted.reduced.nu, lifted.reduced.nv
    if link is None:
        still, none, links = ca.DM(6, 1), ca.DM(6, nv), ca.DM(6, nu)
        return FrameJet(offset, still, still, still, none, none, none, none, none, Columns(links, links, links, links, links),
                        np.full(nu, -1))

    def move(m: Expr) -> Expr:
        return spatial.motion_to_child(offset, m)

    V, A, W, c = move(link.V), move(link.A), move(link.W), link.columns.through(move)
    A_q, A_v = c.psi_ddot - cross_motion(V, c.psi_dot), c.psi_dot + c.S_dot - cross_motion(V, c.S)
    first = lifted.frame_derivatives(c.S, c.psi_dot, A_q, A_v)
    return FrameJet(spatial.compose(link.pose, offset), V, A, W, *first, lifted.columns(c.turned) + c.S @ Dmu, c, link.order)
