"""Where an animation is seen from: a planar motion from its side, and no obstacle before the robot where that can be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ocp.app.pages.scene import Face, Scene

Array = NDArray[np.float64]
YAW, PITCH = -0.9, 0.3  # rad, where nothing speaks for another side; pitch: above the horizon
ASIDE = 0.35  # rad, by which a planar motion is turned to look solid
FLAT = 0.2  # less spread across than this part of that along is a planar motion
SIDES, FRAMES = 24, 12  # sides that are tried, frames that are looked at
DEVIATION = 0.05  # share of hidden points that half a turn from the usual side is worth


def viewpoint(scene: Scene) -> float:
    """Yaw (rad) of the camera: horizontally, the picture's right is (cos yaw, -sin yaw)."""
    robot = {i for edge in scene.edges if edge.role == "link" for i in edge.points}
    still = {dot.point for dot in scene.dots if dot.role == "ground"}
    chosen = scene.points[:: max(1, len(scene.t) // FRAMES), sorted(robot - still)].reshape(-1, 3)
    if scene.kind != "3d" or not len(chosen):
        return YAW
    usual = _side(chosen)
    sides = usual + 2 * np.pi * np.arange(-SIDES // 2, SIDES // 2) / SIDES
    worth = [hidden(scene, chosen, yaw).mean() + DEVIATION * abs(yaw - usual) / np.pi for yaw in sides]
    return float(sides[int(np.argmin(worth))])


def hidden(scene: Scene, points: Array, yaw: float) -> NDArray[np.bool_]:
    """Whether scenery stands between each point [n, 3] and a distant eye on that side."""
    eye = np.array([-np.sin(yaw) * np.cos(PITCH), -np.cos(yaw) * np.cos(PITCH), np.sin(PITCH)])
    found = np.zeros(len(points), bool)
    for dot in scene.dots:
        if dot.role == "ground" and dot.radius:
            away = scene.points[0, dot.point] - points
            along = away @ eye
            found |= (along > 0) & (np.linalg.norm(away - along[:, None] * eye, axis=1) < dot.radius)
    for solid in scene.solids:
        if solid.body < 0 and not solid.mesh:
            found |= _crossed(np.asarray(solid.vertices), solid.faces, points, eye)
    return found


def _crossed(vertices: Array, faces: Sequence[Face], points: Array, eye: Array) -> NDArray[np.bool_]:
    """Whether the rays from points towards the eye cross a convex solid: they are inside of all its planes at once somewhere."""
    begin, end = np.zeros(len(points)), np.full(len(points), np.inf)
    for face in faces:
        a, b, c = (vertices[k] for k in face[:3])
        normal = np.cross(b - a, c - a)
        gap, rate = (a - points) @ normal, float(eye @ normal)
        with np.errstate(divide="ignore", invalid="ignore"):
            at = gap / rate
        if rate > 0:
            end = np.minimum(end, at)
        elif rate < 0:
            begin = np.maximum(begin, at)
        else:
            end = np.where(gap < 0, -np.inf, end)
    return np.asarray(begin < end)


def _side(points: Array) -> float:
    """The yaw that sees the spread of a planar motion; the usual one of any other."""
    flat = points[:, :2] - points[:, :2].mean(axis=0)
    _, spread, along = np.linalg.svd(flat, full_matrices=False)
    if spread[0] < 1e-9 or spread[1] > FLAT * spread[0]:
        return YAW
    x, y = along[0] * (1.0 if along[0, 0] >= 0 else -1.0)
    return float(np.arctan2(-y, x)) - ASIDE
