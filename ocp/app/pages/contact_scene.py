"""Contacts in an animation: an arrow for the force of each, with the edge of its cone around the tip, walls, and the polygon of
support on the ground."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dynamics.constraints import Contact
from ocp.app.pages.scene import Dot, Edge, Scene

Array = NDArray[np.float64]
LONGEST, WALL = 0.3, 0.2  # of the scene's extent: the arrow of a large force, and half a wall
RING, HEAD = 12, 0.12  # points of the edge of a cone; the head of an arrow, of its length
FORCE_QUANTILE = 0.98  # quantile of the forces over time that is drawn LONGEST: impacts last for one step


@dataclass(frozen=True, eq=False)
class Pressed:
    """A contact over the frames of a scene: place [frames, 3] (m) where its force [frames, 3] (N, world axes) acts on the robot."""

    contact: Contact
    place: Array
    force: Array


@dataclass(frozen=True, eq=False)
class Supported:
    """corners: of the polygon of support of every frame [m, 3] (m), none where there is none; pressure [frames, 3]: the centre of
    pressure, NaN where there is none."""

    corners: Sequence[Array]
    pressure: Array


def with_contacts(scene: Scene, contacts: Sequence[Pressed], supported: Supported | None = None) -> tuple[Scene, str]:
    """The scene with contacts at its frames, and a sentence on what they are."""
    if not contacts:
        return scene, ""
    sizes = np.linalg.norm(np.array([one.force for one in contacts]), axis=2).max(axis=0)
    extent = float(np.ptp(scene.points[0], axis=0).max(initial=0.0)) or 1.0
    largest = float(np.quantile(sizes, FORCE_QUANTILE)) or 1.0
    scale = LONGEST * extent / largest
    blocks: list[tuple[Array, list[Edge]]] = []
    for one in contacts:
        blocks.append(_arrow(one.place, scale * one.force, one.contact))
        if (wall := _wall(one.contact, one.place, WALL * extent, scene.ground)) is not None:
            blocks.append(wall)
    dots, drawn = list(scene.dots), supported is not None and any(len(corners) > 1 for corners in supported.corners)
    if supported is not None and drawn:
        blocks.append(_outline(supported))
    points, edges, at = [scene.points], list(scene.edges), scene.points.shape[1]
    for block, own in blocks:
        points.append(np.broadcast_to(block, (len(scene.t), *block.shape[-2:])))
        edges += [replace(edge, points=tuple(at + k for k in edge.points)) for edge in own]
        at += block.shape[-2]
    if drawn:
        dots.append(Dot(at - 1, 0.0, "target"))
    shown = 10.0 ** np.floor(np.log10(largest))
    words = (f"Arrows are the forces of contacts on the robot ({scale * shown:.2g} m long for {shown:g} N), with their friction "
             "cones up to the normal force of the moment: a tip on the rim is about to slip."
             + " The outline on the ground is the support, the dot in it the centre of pressure." * drawn)
    return replace(scene, points=np.concatenate(points, axis=1), edges=tuple(edges), dots=tuple(dots)), words


def _outline(supported: Supported) -> tuple[Array, list[Edge]]:
    """The polygon of every frame, with as many corners as the largest has, some of them twice, and the centre of pressure last;
    where there is none, it waits where it was."""
    most = max(map(len, supported.corners))
    points, last = np.zeros((len(supported.corners), most + 1, 3)), next(c[0] for c in supported.corners if len(c))
    for frame, corners in zip(points, supported.corners, strict=True):
        frame[:most] = corners[np.minimum(np.arange(most), len(corners) - 1)] if len(corners) else last
        last = frame[0].copy()
    known = np.flatnonzero(np.isfinite(supported.pressure).all(axis=1))
    points[:, most] = points[:, 0]
    if len(known):
        before = np.searchsorted(known, np.arange(len(points)), side="right") - 1
        points[:, most] = supported.pressure[known[np.maximum(before, 0)]]
    return points, [Edge((*range(most), 0), role="ground")]


def _arrow(place: Array, force: Array, contact: Contact) -> tuple[Array, list[Edge]]:
    """Points [frames, n, 3] and edges of an arrow ``force`` [frames, 3] (m) at ``place`` [frames, 3], and of its cone."""
    axes = contact.plane
    tip, normal = place + force, np.maximum(force @ axes[2], 0.0)[:, None]
    length = np.linalg.norm(force, axis=1, keepdims=True)
    aside = [np.cross(force, axis) for axis in (axes[0], axes[1])]
    aside = [HEAD / 2 * length * x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12) for x in aside]
    back = tip - HEAD * force
    angle = 2 * np.pi * np.arange(RING) / RING
    around = float(contact.friction or 0.0) * (np.cos(angle)[:, None] * axes[0] + np.sin(angle)[:, None] * axes[1]) + axes[2]
    ring = place[:, None, :] + normal[:, :, None] * around
    points = np.concatenate([np.stack([place, tip, *(back + s * x for x in aside for s in (1, -1))], axis=1), ring], axis=1)
    rim = range(6, 6 + RING)
    edges = [Edge((*rim, 6), role="target"), *(Edge((0, k), role="target") for k in rim[::RING // 4]),
             Edge((0, 1), role="force"), Edge((2, 1, 3), role="force"), Edge((4, 1, 5), role="force")]
    return points, edges


def _wall(contact: Contact, place: Array, half: float, ground: float) -> tuple[Array, list[Edge]] | None:
    """The outline [n, 3] of a plane where the contact came nearest to it; None for the ground, which is drawn anyway."""
    axes, height = contact.plane, contact.height
    if contact.within is None and axes[2, 2] > 1.0 - 1e-9 and abs(height - ground) < 1e-3:
        return None
    gap = place @ axes[2] - height
    k = int(np.abs(gap).argmin())
    middle = place[k] - gap[k] * axes[2]
    outline = [middle + half * (a * axes[0] + b * axes[1]) for a, b in ((1, 1), (-1, 1), (-1, -1), (1, -1))]
    for i, (low, high) in enumerate(contact.within or ()):
        outline = _cut(_cut(outline, i, low, 1.0), i, high, -1.0)
    if not outline:
        return None
    return np.array(outline), [Edge((*range(len(outline)), 0), role="ground")]


def _cut(outline: list[Array], i: int, end: float, sign: float) -> list[Array]:
    """What of a convex polygon has ``sign (x_i - end) >= 0``."""
    kept: list[Array] = []
    if not np.isfinite(end):
        return outline
    for p, q in zip(outline, [*outline[1:], *outline[:1]], strict=True):
        a, b = sign * (p[i] - end), sign * (q[i] - end)
        if a >= 0.0:
            kept.append(p)
        if a * b < 0.0:
            kept.append(p + a / (a - b) * (q - p))
    return kept
