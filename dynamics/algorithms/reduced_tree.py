"""The one reduction of the tree: every robot as a tree of *links* on joints whose motions form a group, without fixed bodies.

Closed-form derivatives and compiled loops need motion subspaces that are constant in the coordinates of the moved body, and joints
that share no coordinates. Every Model is such a tree in the velocities u = G(q) v of its links, [nu]:

* a fixed body is part of the body that carries it, and wrenches on it are moved there;
* a joint that is a chain (universal, Euler angles, composite) becomes its steps, with massless bodies between, which is exact;
* a mimic joint is a joint of its own, and G carries its multiplier;
* any other joint, given by its pose and S(q) alone, is a free link that moves as they say: six velocities ``u_i = S(q_i) v_i``.

The last ones apart, G is constant and the coordinates of the links are affine in q.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import casadi as ca
import numpy as np

from dynamics import spatial
from dynamics.algorithms import tree
from dynamics.joints import JointKind
from dynamics.joints.kind import part
from dynamics.lie.expression import Expr
from dynamics.model import rigid
from dynamics.model.model import BodyInertia, Model, Placement
from dynamics.spatial import Inertia, Transform


@dataclass(frozen=True)
class Link:
    """A moving body: index of its parent link (-1: world), of the body of the Model whose joint moves it, placement of the
    joint in the parent link, the joint's record (no chain), its coordinates and velocities in those of the Model (``multiplier``
    and ``offset`` where it follows another), where the link's velocities sit in u, and its inertia."""

    parent: int
    body: int
    placement: Placement
    kind: JointKind
    q: slice
    v: slice
    multiplier: float
    offset: float
    columns: slice
    inertia: BodyInertia

    @property
    def general(self) -> bool:
        """True where the joint is known by its pose and S(q) alone."""
        return not self.kind.group

    @cached_property
    def subspace(self) -> ca.DM:
        """Constant motion subspace [6, n] of the link's velocities."""
        return ca.DM.eye(6) if self.general else ca.sparsify(ca.DM(self.kind.subspace(ca.DM(self.kind.neutral))))

    @cached_property
    def spatial_inertia(self) -> Inertia:
        """Spatial inertia about the origin of the link."""
        return spatial.inertia_from_com(self.inertia.mass, self.inertia.com, self.inertia.inertia)

    def coordinates(self, q: Expr) -> Expr:
        """The joint's own coordinates out of q [nq]."""
        own = part(q, self.q)
        return own if self.multiplier == 1.0 and self.offset == 0.0 else self.multiplier * own + self.offset

    def velocities(self, v: Expr) -> Expr:
        """The joint's own velocities, or accelerations, out of v [nv]."""
        own = part(v, self.v)
        return own if self.multiplier == 1.0 else self.multiplier * own

    def pose(self, q: Expr) -> Transform:
        """Pose of the link in its parent link."""
        return spatial.compose(tree.placement_transform(self.placement), self.kind.transform(self.coordinates(q)))


@dataclass(frozen=True)
class ReducedTree:
    """links in topological order; where[i]: link that body i of the Model belongs to (-1: world) and its placement there."""

    links: tuple[Link, ...]
    nv: int
    where: tuple[tuple[int, Placement], ...]

    @property
    def nu(self) -> int:
        """Number of link velocities u."""
        return self.links[-1].columns.stop if self.links else 0

    @cached_property
    def moving(self) -> tuple[Link, ...]:
        """The general links, those with S(q)."""
        return tuple(link for link in self.links if link.general)

    @cached_property
    def constant_map(self) -> ca.DM:
        """The constant part of G [nu, nv]: all rows of the matrix but those of general links."""
        G = ca.DM(self.nu, self.nv)
        for link in self.links:
            if not link.general:
                for k in range(link.columns.stop - link.columns.start):
                    G[link.columns.start + k, link.v.start + k] = link.multiplier
        return G

    @cached_property
    def plain(self) -> bool:
        """True when u = v."""
        return not self.moving and self.nu == self.nv and np.array_equal(np.array(self.constant_map), np.eye(self.nu))

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Children of each link."""
        out: list[list[int]] = [[] for _ in self.links]
        for i, link in enumerate(self.links):
            if link.parent >= 0:
                out[link.parent].append(i)
        return tuple(map(tuple, out))


def reduced_tree(model: Model) -> ReducedTree:
    """The links of a model."""
    made: list[dict[str, Any]] = []
    where: list[tuple[int, Placement]] = []
    inertias: list[list[BodyInertia]] = []
    columns = 0
    for i, body in enumerate(model.bodies):
        joint, mimic = body.joint, body.joint.mimic
        above, place = where[body.parent] if body.parent >= 0 else (-1, Placement())
        place = rigid.compose(place, joint.placement)
        q, v = model.q_slice(i).start, model.v_slice(i).start
        for step in model.kind(i).chain:
            kind = step.kind
            place = rigid.compose(place, step.pose)  # type: ignore[arg-type]  # as Placements are
            if kind.nv == 0:
                continue
            size = kind.nv if kind.group else 6
            made.append({
                "parent": above, "body": i, "placement": place, "kind": kind,
                "q": slice(q + step.q, q + step.q + kind.nq), "v": slice(v + step.v, v + step.v + kind.nv),
                "multiplier": mimic.multiplier if mimic else 1.0, "offset": mimic.offset if mimic else 0.0,
                "columns": slice(columns, columns + size)})
            inertias.append([])
            columns, above, place = columns + size, len(made) - 1, Placement()
        if above >= 0:
            inertias[above].append(rigid.moved(place, body.inertia) if place != Placement() else body.inertia)
        where.append((above, place))
    links = tuple(Link(inertia=rigid.merged(parts), **fields) for fields, parts in zip(made, inertias, strict=True))
    return ReducedTree(links, model.nv, tuple(where))


def link_wrenches(model: Model, reduced: ReducedTree, f_ext: Mapping[str, Expr] | None) -> dict[int, Expr]:
    """External wrenches by link index, link coordinates; those on bodies fixed to the world do no work and drop out."""
    out: dict[int, Expr] = {}
    for body, wrench in tree.wrench_by_body(model, f_ext).items():
        link, placement = reduced.where[body]
        if link >= 0:
            moved = spatial.force_to_parent(tree.placement_transform(placement), wrench)
            out[link] = out[link] + moved if link in out else moved
    return out
