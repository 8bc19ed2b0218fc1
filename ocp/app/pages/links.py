"""Links without shapes as solids: the convex hull of balls at their joints and ends, a capsule where there are two of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import ConvexHull

Array = NDArray[np.float64]
THICK = 0.09  # radius of the balls, of the median length of all links
BALL = 26  # points of a ball
SHORTEST = 1e-3  # of the longest link: shorter ones are drawn by their neighbours


def bare_links(model: Any, drawn: Sequence[int]) -> dict[int, tuple[Array, Array]]:
    """(vertices [V, 3] (m, body frame), triangles [k, 3] counter-clockwise from outside) of each body with mass that is not among
    those ``drawn`` and joins two places or more."""
    places = {i: _places(model, i) for i in range(len(model.bodies)) if model.bodies[i].inertia.mass > 0}
    lengths = {i: float(np.linalg.norm(np.ptp(at, axis=0))) for i, at in places.items()}
    longest = max(lengths.values(), default=0.0)
    long = [length for length in lengths.values() if length > SHORTEST * longest]
    if not long:
        return {}
    ball = THICK * float(np.median(long)) * _ball()
    return {i: _hull((at[:, None] + ball).reshape(-1, 3)) for i, at in places.items()
            if i not in drawn and lengths[i] > SHORTEST * longest}


def _places(model: Any, i: int) -> Array:
    """Where joints and end frames sit on a body [n, 3]; its origin where a joint holds it there."""
    body, children = model.bodies[i], model.children(i)
    found = [model.bodies[k].joint.placement.position for k in children]
    if not children:
        found = [frame.placement.position for frame in model.frames if frame.body == i] or [body.inertia.com]
    floats = body.parent < 0 and body.joint.kind in ("free_flyer", "planar")
    return np.asarray(found if floats and len(found) > 1 else [(0.0, 0.0, 0.0), *found], float)


def _ball() -> Array:
    """Points [BALL, 3] of the unit sphere, evenly on a spiral."""
    k = np.arange(BALL) + 0.5
    height, turn = 1.0 - 2.0 * k / BALL, np.pi * (1.0 + np.sqrt(5.0)) * k
    round_ = np.sqrt(1.0 - height**2)
    return np.column_stack([round_ * np.cos(turn), round_ * np.sin(turn), height])


def _hull(points: Array) -> tuple[Array, Array]:
    hull = ConvexHull(points)
    used, faces = np.unique(hull.simplices, return_inverse=True)
    corners, faces = points[used], faces.reshape(-1, 3)
    turned = np.cross(corners[faces[:, 1]] - corners[faces[:, 0]], corners[faces[:, 2]] - corners[faces[:, 0]])
    inward = np.einsum("ij,ij->i", turned, hull.equations[:, :3]) < 0
    faces[inward] = faces[inward][:, ::-1]
    return corners, faces
