"""The forward sweep that all closed-form derivatives share: subspaces, their rates, inertias, Coriolis matrices and forces.

Names follow Singh, Russell and Wensing (2022), "Analytical Second-Order Partial Derivatives of Rigid-Body Inverse Dynamics",
Eqs. 5-8, in the component order of ``dynamics.spatial``. Their formulas hold in any fixed coordinates. Here every link i
works in the coordinates of its *hub*, the body frame of one of its ancestors (or its own): with the root as the hub of all,
subspaces of the root are constants and each ancestor-descendant pair costs a few dot products; with every link its own hub,
S is constant everywhere but vectors have to be carried from joint to joint.

The matrix B(I, v) of their Eq. 6 has only twelve independent entries: for a body made of particles m at c with velocities
v_c it is, in [linear; angular] order,

    2 B = 2 [[0, -p^], [0, K]],   p = sum m v_c,   K = -sum m c^ v_c^ = (J w)^ - I w^ - h^ v^,   J = tr(I)/2 1 - I,

so ``2 B u`` depends only on the angular part of u and ``2 B^T u`` is a pure moment. Much of what the paper does with 6-vectors
is done with 3-vectors here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import casadi as ca

from dynamics import spatial
from dynamics.algorithms import tree
from dynamics.algorithms.reduced_tree import ReducedTree, link_wrenches, reduced_tree
from dynamics.derivatives.pullback import Pullback, pullback
from dynamics.errors import ModelError, near
from dynamics.joints.kind import part
from dynamics.lie.expression import Expr
from dynamics.model.model import Model
from dynamics.spatial import Inertia, Transform, angular, linear


class Coriolis(NamedTuple):
    """Twice B(I, v): p2 [3] and K2 [3, 3] of the module's text, doubled."""

    p2: Expr
    K2: Expr

    def times(self, u: Expr) -> Expr:
        """``2 B u`` [6, k] for motion vectors u."""
        w = angular(u)
        return spatial.force(-(spatial.hat(self.p2) @ w), self.K2 @ w)

    def transposed(self, u: Expr) -> Expr:
        """Moment [3, k] of ``2 B^T u``, whose force is zero."""
        return spatial.hat(self.p2) @ linear(u) + self.K2.T @ angular(u)


def coriolis(inertia: Inertia, v: Expr) -> Coriolis:
    """2 B(I, v) of one body, or of a composite body for one motion vector v."""
    w, Iw = angular(v), inertia.I @ angular(v)
    p = inertia.m * linear(v) - spatial.hat(inertia.h) @ w
    half_trace = ca.trace(inertia.I) / 2
    hv = inertia.h.T @ linear(v)
    K = spatial.hat(half_trace * w - Iw) - inertia.I @ spatial.hat(w) - linear(v) @ inertia.h.T + hv * ca.DM.eye(3)
    return Coriolis(2 * p, 2 * K)


def add_coriolis(a: Coriolis, b: Coriolis) -> Coriolis:
    """The sum of two Coriolis terms in the same frame."""
    return Coriolis(a.p2 + b.p2, a.K2 + b.K2)


def coriolis_to_parent(A_H_B: Transform, B: Coriolis) -> Coriolis:
    """A Coriolis term of child B in the coordinates of parent A."""
    p2 = A_H_B.R @ B.p2
    return Coriolis(p2, A_H_B.R @ B.K2 @ A_H_B.R.T - spatial.hat(A_H_B.p) @ spatial.hat(p2))


def turned_coriolis(s: Expr, B: Coriolis) -> Coriolis:
    """``s x* 2B - 2B s x``: the change of 2B when what it belongs to is displaced along s [6]."""
    w, p = spatial.hat(angular(s)), spatial.hat(B.p2)
    return Coriolis(w @ B.p2, w @ B.K2 - B.K2 @ w - spatial.hat(linear(s)) @ p)


def turned_inertia(s: Expr, inertia: Inertia) -> Inertia:
    """``s x* I - I s x``: the change of a spatial inertia displaced along s [6]; no mass, and symmetric."""
    v, w = linear(s), spatial.hat(angular(s))
    wI, hv = w @ inertia.I, inertia.h @ v.T
    moved = wI + wI.T - hv - hv.T + 2 * (inertia.h.T @ v) * ca.DM.eye(3)
    return Inertia(ca.DM(1, 1), w @ inertia.h + inertia.m * v, ca.triu2symm(ca.triu(moved)))


def moment_columns(U: Expr, f: Expr) -> Expr:
    """Moments [3, k] of ``u x* f`` for motion columns U [6, k] and one wrench f [6]."""
    return -(spatial.hat(linear(f)) @ linear(U)) - spatial.hat(angular(f)) @ angular(U)


def cross_columns(U: Expr, f: Expr) -> Expr:
    """``u x* f`` for each column u of U [6, k] and one force vector f [6]: [6, k]."""
    n, m = spatial.hat(linear(f)), spatial.hat(angular(f))
    return spatial.force(-(n @ angular(U)), -(n @ linear(U)) - m @ angular(U))


class Swept(NamedTuple):
    """One link in the coordinates of its hub. hop: pose of its hub in the parent's hub, None where they are the same (at a
    root: pose in the world). S, S_dot, psi_dot, psi_ddot: [6, n]; twist, momentum: [6]; force: [6] net force of the body."""

    hop: Transform | None
    S: Expr
    S_dot: Expr
    psi_dot: Expr
    psi_ddot: Expr
    twist: Expr
    acceleration: Expr
    inertia: Inertia
    B: Coriolis
    force: Expr


@dataclass(frozen=True)
class Sweep:
    """The forward sweep over all links."""

    reduced: ReducedTree
    lifted: Pullback
    links: tuple[Swept, ...]

    def columns(self, i: int) -> slice:
        """Velocity components of link i."""
        return self.reduced.links[i].columns


HUBS = ("root", "link", "limb")
"""How hubs are chosen: one hub for a whole tree; every link its own; or every link its own but for the last two of a limb, which
share the hub above them (the shortest on most robots, by some per cent)."""


def _own_hub(reduced: ReducedTree, i: int, hubs: str) -> bool:
    if reduced.links[i].parent < 0 or hubs == "link":
        return True
    return hubs == "limb" and any(reduced.children[child] for child in reduced.children[i])


def sweep(model: Model, q: Expr, v: Expr, a: Expr, f_ext: Mapping[str, Expr] | None = None, hubs: str = "limb") -> Sweep:
    """q [nq], v, a [nv]; f_ext as in ``inverse_dynamics``; hubs: one of HUBS.

    Raises ModelError (sizes, hubs), UnknownNameError.
    """
    if hubs not in HUBS:
        raise ModelError(f"no selection of hubs named {hubs!r}{near(hubs, HUBS)}")
    q, v, a = tree.as_column(q), tree.as_column(v), tree.as_column(a)
    tree.check_sizes(model, q=(q, model.nq), v=(v, model.nv), a=(a, model.nv))
    reduced = reduced_tree(model)
    external = link_wrenches(model, reduced, f_ext)
    lifted = pullback(reduced, q, v, a)
    # a base accelerating against gravity stands in for the weight of every body
    base = spatial.motion(-spatial.constant(model.gravity), ca.DM(3, 1))
    at: list[Transform | None] = []  # pose of each link in its hub, None for the hub itself
    out: list[Swept] = []
    for i, link in enumerate(reduced.links):
        local = link.pose(q)
        above = out[link.parent] if link.parent >= 0 else None
        parent_at = at[link.parent] if above else None
        pose = spatial.compose(parent_at, local) if parent_at else local
        new = _own_hub(reduced, i, hubs)
        hop = pose if new else None
        at.append(None if new else pose)
        into = (lambda m: spatial.motion_to_child(pose, m)) if new else (lambda m: m)  # noqa: B023  used at once
        v_above = into(above.twist) if above else ca.DM(6, 1)
        a_above = into(above.acceleration if above else base)
        S, inertia = (link.subspace, link.spatial_inertia) if new else (
            spatial.motion_to_parent(pose, link.subspace), spatial.transform_inertia(pose, link.spatial_inertia))
        u, du = part(lifted.u, link.columns), part(lifted.du, link.columns)
        own = S @ u
        psi_dot = spatial.cross_motion(v_above, S)
        # within a joint of one degree of freedom S does not turn itself
        S_dot = psi_dot if S.shape[1] == 1 else psi_dot + spatial.cross_motion(own, S)
        psi_ddot = spatial.cross_motion(a_above, S) + spatial.cross_motion(v_above, psi_dot)
        twist = v_above + own
        acc = a_above + S @ du + psi_dot @ u
        f = spatial.apply_inertia(inertia, acc) + spatial.cross_force(twist, spatial.apply_inertia(inertia, twist))
        if i in external:
            f = f - (external[i] if new else spatial.force_to_parent(pose, external[i]))
        out.append(Swept(hop, S, S_dot, psi_dot, psi_ddot, twist, acc, inertia, coriolis(inertia, twist), f))
    return Sweep(reduced, lifted, tuple(out))
