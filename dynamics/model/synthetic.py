"""Synthetic robots of any size and shape, for tests and scaling studies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dynamics.joints import KINDS, record
from dynamics.model.builder import Builder
from dynamics.model.model import BodyInertia, Joint, Model, Placement

SIMPLE = ("revolute", "continuous", "prismatic", "universal", "planar", "spherical", "free_flyer")


def random_tree(
    bodies: int, rng: np.random.Generator, *, kinds: Sequence[str] | None = None, branching: float = 0.4,
    root: str | None = None, armature: bool = True, damping: bool = False, depth_first: bool = False,
) -> Model:
    """A random tree: body i hangs from its predecessor, or with probability ``branching`` from any earlier body.

    depth_first: branch only from ancestors of the predecessor, so that every subtree is contiguous.

    kinds: joint kinds to draw from, of those that need nothing but axes (default: ``SIMPLE``); root: kind of the first joint
    (default: drawn).
    Joint placements, axes and inertias are random; every tensor is that of a real body (random point masses), so the
    triangle inequality holds. Raises KeyError for an unknown kind.
    """
    names = list(kinds) if kinds is not None else list(SIMPLE)
    builder = Builder(f"random_tree_{bodies}")
    parents: list[int] = []
    for i in range(bodies):
        family = KINDS[root if (i == 0 and root) else str(rng.choice(names))]
        above = i - 1
        if i and rng.random() < branching:
            above = int(rng.choice(_ancestors(parents, i - 1) if depth_first else range(i)))
        parents.append(above)
        parent = f"b{above}" if i else "world"
        joint = Joint(
            f"j{i}", family.name,
            Placement(as_tuple(random_rotation(rng)), tuple(rng.uniform(-0.4, 0.4, 3).tolist())),
            tuple(random_unit(rng) for _ in range(family.n_axes)))
        kind = record(joint)
        joint = replace(
            joint, armature=tuple(rng.uniform(0.01, 0.1, kind.nv).tolist()) if armature else (),
            damping=tuple(rng.uniform(0.1, 1.0, kind.nv).tolist()) if damping else (),
        )
        builder.body(f"b{i}", parent=parent, joint=joint, inertia=random_inertia(rng))
        builder.frame(f"f{i}", body=f"b{i}",
                      placement=Placement(as_tuple(random_rotation(rng)), tuple(rng.uniform(-0.3, 0.3, 3).tolist())))
    return builder.build()


def _ancestors(parents: list[int], i: int) -> list[int]:
    path = []
    while i >= 0:
        path.append(i)
        i = parents[i]
    return path


def serial_chain(bodies: int, *, kind: str = "revolute", root: str | None = None) -> Model:
    """A regular chain of identical links of 0.5 m and 1 kg, axes alternating between y and z."""
    builder = Builder(f"serial_chain_{bodies}")
    inertia = BodyInertia(1.0, (0.25, 0.0, 0.0), ((0.002, 0.0, 0.0), (0.0, 0.021, 0.0), (0.0, 0.0, 0.021)))
    for i in range(bodies):
        family = KINDS[root if (i == 0 and root) else kind]
        axis = (0.0, 1.0, 0.0) if i % 2 == 0 else (0.0, 0.0, 1.0)
        joint = Joint(f"j{i}", family.name, Placement(position=(0.5 if i else 0.0, 0.0, 0.0)), (axis,) * family.n_axes)
        builder.body(f"b{i}", parent="world" if i == 0 else f"b{i - 1}", joint=joint, inertia=inertia)
    return builder.build()


def branched_tree(bodies: int, branching: int) -> Model:
    """A regular tree of revolute joints: body 0 on the world, ``branching`` children on every body, filled level by level.

    branching 1 is a serial chain. Equal links of 0.5 m and 1 kg along x; the joint turns about z; every joint is skewed by 60
    degrees about x against its parent, siblings are spread around z, so that no axis is parallel to the next and nothing cancels.
    Raises ValueError unless both numbers are positive.
    """
    if bodies < 1 or branching < 1:
        raise ValueError(f"a tree needs a positive number of bodies and of branches, got {bodies} and {branching}")
    return _skewed(f"branched_tree_{bodies}_{branching}", [(i - 1) // branching for i in range(bodies)])


def star_tree(arms: int, length: int) -> Model:
    """A root body with equal serial arms: 1 + arms * length revolute joints at depth 1 + length, links as in ``branched_tree``.

    Raises ValueError for negative numbers.
    """
    if arms < 0 or length < 0:
        raise ValueError(f"numbers of arms and of their links cannot be negative, got {arms} and {length}")
    parents = [-1] + [0 if k == 0 else arm * length + k for arm in range(arms) for k in range(length)]
    return _skewed(f"star_tree_{arms}_{length}", parents)


def _skewed(name: str, parents: Sequence[int]) -> Model:
    builder = Builder(name)
    inertia = BodyInertia(1.0, (0.25, 0.02, -0.03), ((0.004, 0.001, 0.0), (0.001, 0.021, 0.002), (0.0, 0.002, 0.022)))
    skew = np.pi / 3
    tilt = np.array([[1.0, 0.0, 0.0], [0.0, np.cos(skew), -np.sin(skew)], [0.0, np.sin(skew), np.cos(skew)]])
    for i, parent in enumerate(parents):
        siblings = [k for k, other in enumerate(parents) if other == parent]
        spread = 2 * np.pi * siblings.index(i) / len(siblings)
        turn = np.array([[np.cos(spread), -np.sin(spread), 0.0], [np.sin(spread), np.cos(spread), 0.0], [0.0, 0.0, 1.0]])
        at = Placement(as_tuple(turn @ tilt), (0.5 if i else 0.0, 0.0, 0.0))
        builder.body(f"b{i}", parent=f"b{parent}" if parent >= 0 else "world", inertia=inertia,
                     joint=Joint(f"j{i}", "revolute", at, ((0.0, 0.0, 1.0),)))
    return builder.build()


def random_unit(rng: np.random.Generator) -> tuple[float, ...]:
    """A unit vector, uniform on the sphere."""
    x = rng.standard_normal(3)
    return tuple((x / np.linalg.norm(x)).tolist())


def random_rotation(rng: np.random.Generator) -> np.ndarray:
    """A rotation matrix, uniform on SO(3)."""
    Q, R = np.linalg.qr(rng.standard_normal((3, 3)))
    Q = Q * np.sign(np.diag(R))
    if np.linalg.det(Q) < 0:
        Q[:, 0] = -Q[:, 0]
    return np.asarray(Q)


def random_inertia(rng: np.random.Generator) -> BodyInertia:
    """Inertia of eight random point masses within 0.2 m of a random centre of mass."""
    points, masses = rng.uniform(-0.2, 0.2, (8, 3)), rng.uniform(0.05, 0.3, 8)
    points = points - masses @ points / masses.sum()
    tensor = sum(m * (p @ p * np.eye(3) - np.outer(p, p)) for m, p in zip(masses, points, strict=True))
    return BodyInertia(float(masses.sum()), tuple(rng.uniform(-0.2, 0.2, 3).tolist()), as_tuple(np.asarray(tensor)))


def as_tuple(matrix: np.ndarray) -> tuple[tuple[float, ...], ...]:
    """A matrix as nested tuples, as the records of the Model want it."""
    return tuple(tuple(row) for row in matrix.tolist())
