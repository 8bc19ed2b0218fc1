"""The robot as a tree of simple joints: constant motion subspaces, no couplings, no fixed bodies.

The closed-form derivatives need joints whose motion subspace S is constant in the coordinates of the moved body and which
share no coordinates. Every Model is such a tree in *simple velocities* u = G v with a constant G [nu, nv]:

* a fixed body is part of the body that carries it;
* a universal joint is a chain of two revolute joints with a massless body between them, which is exact;
* a mimic joint is a joint of its own, and G carries its multiplier.

The map from q to the simple joints is affine where G is not the identity, so first derivatives map with G on the right,
rows with G^T on the left, and second derivatives need nothing else.
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
from dynamics.errors import ModelError
from dynamics.joints.one_dof import rotation_about
from dynamics.model import rigid
from dynamics.model.model import BodyInertia, Model, Placement
from dynamics.spatial import Inertia, Transform

Expr = Any


@dataclass(frozen=True)
class Link:
    """A moving body: index of its parent link (-1: world), of the body of the Model whose joint moves it, placement of the
    joint in the parent link, S [6, n], where its velocities sit in u, its inertia, and, for one half of a split joint,
    which half (else -1)."""

    parent: int
    body: int
    placement: Placement
    subspace: ca.DM
    columns: slice
    inertia: BodyInertia
    half: int = -1

    @cached_property
    def spatial_inertia(self) -> Inertia:
        return spatial.inertia_from_com(self.inertia.mass, self.inertia.com, self.inertia.inertia)

    def pose(self, model: Model, q: Expr) -> Transform:
        """Pose of the link in its parent link."""
        joint, own = model.bodies[self.body].joint, tree.joint_configuration(model, self.body, q)
        if self.half < 0:
            moved = model.kind(self.body).transform(joint.axes, own)
        else:
            moved = Transform(rotation_about(joint.axes[self.half], own[self.half]), spatial.constant(np.zeros(3)))
        return spatial.compose(tree.placement_transform(self.placement), moved)


@dataclass(frozen=True)
class SimpleTree:
    """links in topological order; G [nu, nv] with u = G v; where[i]: link that body i of the Model belongs to (-1: world)
    and its placement there."""

    links: tuple[Link, ...]
    G: ca.DM
    where: tuple[tuple[int, Placement], ...]

    @property
    def nu(self) -> int:
        return int(self.G.shape[0])

    @cached_property
    def plain(self) -> bool:
        """True when u = v."""
        return bool(self.G.shape[0] == self.G.shape[1] and np.array_equal(np.array(self.G), np.eye(self.nu)))

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        out: list[list[int]] = [[] for _ in self.links]
        for i, link in enumerate(self.links):
            if link.parent >= 0:
                out[link.parent].append(i)
        return tuple(map(tuple, out))

    def lift(self, vector: Expr) -> Expr:
        """u = G v."""
        return vector if self.plain else self.G @ vector

    def lower_rows(self, rows: Expr) -> Expr:
        """``G^T x``: generalised forces (or rows of a matrix) of the simple joints seen from v."""
        return rows if self.plain else self.G.T @ rows

    def lower(self, matrix: Expr) -> Expr:
        """``G^T X G``."""
        return matrix if self.plain else self.G.T @ matrix @ self.G


def simple_tree(model: Model) -> SimpleTree:
    """Raises ModelError for a joint kind with a varying motion subspace that is not known as a chain of simple joints."""
    links: list[Link] = []
    where: list[tuple[int, Placement]] = []
    inertias: list[list[BodyInertia]] = []
    rows: list[tuple[int, float]] = []  # per component of u: component of v, factor
    for i, body in enumerate(model.bodies):
        kind, joint = model.kind(i), body.joint
        above, offset = where[body.parent] if body.parent >= 0 else (-1, Placement())
        placement = rigid.compose(offset, joint.placement)
        if kind.nv == 0:
            where.append((above, placement))
            if above >= 0:
                inertias[above].append(rigid.moved(placement, body.inertia))
            continue
        vs, factor = model.v_slice(i), joint.mimic.multiplier if joint.mimic else 1.0
        for half, subspace in _parts(model, i):
            columns = slice(len(rows), len(rows) + subspace.shape[1])
            start = vs.start + max(half, 0)
            rows += [(start + k, factor) for k in range(subspace.shape[1])]
            links.append(Link(above, i, placement, subspace, columns, BodyInertia(), half))
            inertias.append([])
            above, placement = len(links) - 1, Placement()
        inertias[above].append(body.inertia)
        where.append((above, Placement()))
    G = ca.DM(len(rows), model.nv)
    for r, (c, factor) in enumerate(rows):
        G[r, c] = factor
    whole = tuple(Link(x.parent, x.body, x.placement, x.subspace, x.columns, rigid.merged(parts), x.half)
                  for x, parts in zip(links, inertias, strict=True))
    return SimpleTree(whole, G, tuple(where))


def _parts(model: Model, i: int) -> list[tuple[int, ca.DM]]:
    """(half, S) of the simple joints that joint i is made of."""
    kind, joint = model.kind(i), model.bodies[i].joint
    if kind.bias is None:
        return [(-1, ca.sparsify(ca.DM(kind.subspace(joint.axes, ca.DM(kind.neutral)))))]
    if kind.name == "universal":
        return [(k, ca.sparsify(spatial.motion(ca.DM(3, 1), spatial.constant(joint.axes[k])))) for k in (0, 1)]
    raise ModelError(f"the motion subspace of a joint of kind {kind.name!r} varies with its configuration, and no chain of simple "
                     "joints is known for it: analytic derivatives would be wrong; use the source 'ad'",
                     element=f"joint {joint.name!r}")


def link_wrenches(model: Model, simple: SimpleTree, f_ext: Mapping[str, Expr] | None) -> dict[int, Expr]:
    """External wrenches by link index, link coordinates; those on bodies fixed to the world do no work and drop out."""
    out: dict[int, Expr] = {}
    for body, wrench in tree.wrench_by_body(model, f_ext).items():
        link, placement = simple.where[body]
        if link >= 0:
            moved = spatial.force_to_parent(tree.placement_transform(placement), wrench)
            out[link] = out[link] + moved if link in out else moved
    return out
