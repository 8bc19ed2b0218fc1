"""Pictures of inverse kinematics: the robot at its start and at the configuration found, with the targets drawn as axes, points and
arrows; still, and as a scene for the player."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import casadi as ca
import numpy as np

from dynamics import algorithms as alg
from dynamics.model.model import Model
from ocp.app.pages import sheet
from ocp.app.pages.scene import Dot, Edge, Scene, frame_times, scene_from_model
from ocp.app.pipeline import body_poses
from ocp.control.ik import IKResult
from ocp.control.tasks import Task

DURATION = 2.0  # s; how long the motion from start to solution takes on the page
AXES = ("axis_x", "axis_y", "axis_z")
COLOURS = {"axis_x": "#d1453b", "axis_y": "#2f9e58", "axis_z": "#4a55d6", "target": "#b6507c"}
LINK, START, SHADOW, SOLID = "#2f6fb5", "#8a94a3", "#27303f", "#9db8d6"
ELEVATION, AZIMUTH = 20.0, -58.0  # degrees
WIDTH, HEIGHT = 9.0, 6.6  # inches
LARGEST, MIN_RELATIVE_EXTENT = 1e50, 1e-9  # m; of coordinates, whose squares must be numbers; of a robot, by how far away it stands
MARGIN_M = 0.5  # m; what is shown on all sides of a robot that is a single point


@dataclass(frozen=True)
class Mark:
    """A target in the world: rotation [3, 3] drawn as axes, or an arrow to ``tip`` [3], or a point; at [3]: where the robot is."""

    name: str
    position: np.ndarray
    at: np.ndarray
    rotation: np.ndarray | None = None
    tip: np.ndarray | None = None


def marks(model: Model, q: np.ndarray, tasks: Sequence[Task]) -> tuple[Mark, ...]:
    """The targets that have a position in the world, those of moving references as they lie at q."""
    names = sorted({name for task in tasks for name in (task.shape.frame, task.shape.reference)} - {"world"})
    symbol = ca.SX.sym("q", model.nq)
    frames = [alg.frame_pose(model, symbol, name) for name in names]
    outputs = [ca.densify(part) for frame in frames for part in (ca.SX(frame.R), ca.SX(frame.p))]
    values = ca.Function("frames", [symbol], [*outputs, ca.densify(alg.centre_of_mass(model, symbol))]).call([ca.DM(q)])
    arrays = [np.asarray(value, float) for value in values]
    poses = {name: (arrays[2 * k], arrays[2 * k + 1].ravel()) for k, name in enumerate(names)}
    poses["world"] = np.eye(3), np.zeros(3)
    made = []
    for task in tasks:
        (R_ref, p_ref), (_, at) = poses[task.shape.reference], poses[task.shape.frame]
        kind, target = task.shape.kind, task.target
        if kind == "pose":
            made.append(Mark(task.name, p_ref + R_ref @ target[9:], at, R_ref @ target[:9].reshape(3, 3, order="F")))
        elif kind == "orientation":
            made.append(Mark(task.name, at, at, R_ref @ target.reshape(3, 3, order="F")))
        elif kind == "position":
            made.append(Mark(task.name, p_ref + R_ref @ target, at))
        elif kind == "com":
            made.append(Mark(task.name, target, arrays[-1].ravel()))
        elif kind == "alignment":
            made.append(Mark(task.name, at, at, tip=R_ref @ target))
        elif kind == "aim":
            made.append(Mark(task.name, p_ref + R_ref @ target, at, tip=p_ref + R_ref @ target))
    return tuple(made)


def ik_scene(model: Model, start: np.ndarray, result: IKResult, found: Sequence[Mark]) -> Scene:
    """The motion along the geodesic from start to solution, with the start as a thin line and fixed targets."""
    t = frame_times(0.0, DURATION)
    s = t / DURATION
    q0, d, r = ca.SX.sym("q0", model.nq), ca.SX.sym("d", model.nv), ca.SX.sym("r")
    difference = ca.Function("difference", [q0, ca.SX.sym("q1", 0)], [ca.densify(alg.difference(model, q0, ca.DM(result.q)))])
    along = ca.Function("along", [q0, d, r], [ca.densify(alg.integrate(model, q0, r * d))])
    step = difference(start, ca.DM(0, 1))
    q = np.array([np.asarray(along(start, step, w)).ravel() for w in s * s * (3.0 - 2.0 * s)])  # at rest at both ends
    scene = scene_from_model(model, t, q, body_poses(model, q))
    still: list[np.ndarray] = []
    edges, dots = list(scene.edges), list(scene.dots)
    base = scene.points.shape[1]

    def add(point: np.ndarray) -> int:
        still.append(np.asarray(point, float))
        return base + len(still) - 1

    for edge in scene.edges:
        if edge.role == "link":
            edges.append(Edge(tuple(add(scene.points[0, i]) for i in edge.points), edge.closed, "ground"))
    size = axis_length(scene)
    for mark in found:
        if mark.rotation is not None:
            edges += [Edge((add(mark.position), add(mark.position + size * mark.rotation[:, k])), role=AXES[k]) for k in range(3)]
        elif mark.tip is not None:
            edges.append(Edge((add(mark.at), add(_tip(mark, size))), role="target"))
        else:
            dots.append(Dot(add(mark.position), 0.12 * size, "target"))
    if not still:
        return scene
    points = np.concatenate([scene.points, np.broadcast_to(np.array(still), (len(t), len(still), 3))], axis=1)
    return replace(scene, points=points, edges=tuple(edges), dots=tuple(dots))


def axis_length(scene: Scene) -> float:
    """How long the axes of a target are drawn [m]."""
    return 0.16 * float(np.ptp(scene.points[[0, -1]].reshape(-1, 3), axis=0).max(initial=1e-3))


def _tip(mark: Mark, size: float) -> np.ndarray:
    if mark.tip is not None and np.array_equal(mark.position, mark.tip):  # an aim ends at its point
        return mark.tip
    assert mark.tip is not None
    return mark.at + 1.5 * size * mark.tip


# ---- the still picture --------------------------------------------------------------------------------------------------
def draw(model: Model, start: np.ndarray, end: np.ndarray, found: Sequence[Mark], title: str, verdict: str, *,
         source: str = "") -> bytes:
    """PNG: the robot at the configuration ``end``, faintly at the start, targets, and its shadow on the ground. source: of what it
    is, kept in the file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    q = np.stack([start, end])
    scene = scene_from_model(model, np.array([0.0, 1.0]), q, body_poses(model, q))
    size = axis_length(scene)
    points = _extent(scene, found, size)
    low, high = points.min(axis=0), points.max(axis=0)
    if not np.isfinite(low).all() or max(-low.min(), high.max()) > LARGEST:
        return sheet.sentence(f"{title} cannot be drawn: it has coordinates beyond {LARGEST:g} m.", source)
    if (high - low).max() <= MIN_RELATIVE_EXTENT * max(1.0, np.abs(low + high).max()):  # one point, to rounding
        room = max(MARGIN_M, MIN_RELATIVE_EXTENT * float(np.abs(low + high).max()))
        points = np.vstack([points - room, points + room])
        low, high = points.min(axis=0), points.max(axis=0)
    half = float((high - low).max()) / 2
    fig = Figure(figsize=(WIDTH, HEIGHT), dpi=sheet.DPI, facecolor="white")
    FigureCanvasAgg(fig)
    ax: Any = fig.add_axes((0.0, 0.0, 1.0, 1.0), projection="3d", computed_zorder=False)
    ax.set_axis_off()
    ground = float(min(scene.ground, low[2]))
    _ground(ax, (low + high) / 2, max(0.75 * float(np.hypot(*(high - low)[:2])), 0.5 * half), ground)
    shadow = scene.points.copy()
    shadow[..., 2] = ground
    _skeleton(ax, replace(scene, points=shadow), 1, SHADOW, width=7.0, zorder=1.2, alpha=0.06, joints=False)
    _skeleton(ax, scene, 0, START, width=3.4, zorder=2.0, alpha=0.5)
    _solids(ax, scene, 1, zorder=3.0)
    _skeleton(ax, scene, 1, LINK, width=5.4, zorder=3.2)
    for mark in found:
        _mark(ax, mark, size)
    for i, axis in enumerate("xyz"):
        getattr(ax, f"set_{axis}lim")((low + high)[i] / 2 - half, (low + high)[i] / 2 + half)
    ax.set_box_aspect((1.0, 1.0, 1.0))
    ax.set_proj_type("persp", focal_length=1.8)
    ax.view_init(elev=ELEVATION, azim=AZIMUTH)
    _fit(ax, points)
    fig.text(0.035, 0.955, sheet.plain(sheet.clip_text(title, 80)), fontsize=13, weight="bold", color=sheet.INK, va="center")
    fig.text(0.035, 0.918, sheet.plain(verdict), fontsize=9, color=sheet.SOFT, va="center")
    return sheet.png(fig, source)


def _extent(scene: Scene, found: Sequence[Mark], size: float) -> np.ndarray:
    """Points [n, 3] that the picture has to show."""
    everything = [scene.points.reshape(-1, 3)]
    for solid in scene.solids:
        pose = scene.pose(1, solid.body)
        everything.append(np.asarray(solid.vertices) @ pose[:3, :3].T + pose[:3, 3])
    for mark in found:
        everything.append(mark.position[None])
        if mark.rotation is not None:
            everything.append(mark.position + size * mark.rotation.T)
        if mark.tip is not None:
            everything.append(_tip(mark, size)[None])
    return np.vstack(everything)


def _fit(ax: Any, points: np.ndarray) -> None:
    """Move and scale the axes, which may exceed the figure, so that the points fill the space below the heading."""
    from mpl_toolkits.mplot3d import proj3d  # type: ignore[import-untyped]

    ax.apply_aspect()
    x, y, _ = proj3d.proj_transform(*points.T, ax.get_proj())
    seen = ax.transData.transform(np.column_stack([x, y])) / sheet.DPI  # inches
    low, high = seen.min(axis=0), seen.max(axis=0)
    room_low, room_high = np.array([0.7, 0.75]), np.array([WIDTH - 0.7, HEIGHT - 0.95])
    scale = float(np.min((room_high - room_low) / np.maximum(high - low, 1e-6)))
    shift = (room_low + room_high) / 2 - scale * (low + high) / 2
    ax.set_position([shift[0] / WIDTH, shift[1] / HEIGHT, scale, scale])


def _ground(ax: Any, centre: np.ndarray, radius: float, z: float) -> None:
    """A round patch of grid that fades out, one line per round length."""
    step = sheet.round_numbers(0.0, 2.0 * radius, 8, "linear")[1]
    first, last = np.floor((centre - radius) / step).astype(int), np.ceil((centre + radius) / step).astype(int)
    for axis in (0, 1):
        for k in range(first[axis], last[axis] + 1):
            away = k * step - centre[axis]
            if abs(away) >= radius:
                continue
            reach = np.sqrt(radius**2 - away**2)
            pieces = np.linspace(-reach, reach, 25)
            for a, b in zip(pieces[:-1], pieces[1:], strict=True):
                ends = np.full((2, 2), k * step)
                ends[:, 1 - axis] = centre[1 - axis] + np.array([a, b])
                fade = max(0.0, 1.0 - (np.hypot(away, (a + b) / 2) / radius) ** 2)
                ax.plot(ends[:, 0], ends[:, 1], [z, z], color=sheet.EDGE, lw=0.8, alpha=fade, zorder=1.0, solid_capstyle="butt")
    ax.figure.text(1.0 - 0.3 / WIDTH, 0.25 / HEIGHT, f"grid {step:.3g} m", fontsize=8, color=sheet.SOFT, ha="right")


def _skeleton(ax: Any, scene: Scene, frame: int, colour: str, *, width: float, zorder: float, alpha: float = 1.0,
              joints: bool = True) -> None:
    points = scene.points[frame]
    for edge in scene.edges:
        line = points[list(edge.points)]
        ax.plot(*line.T, color=colour, lw=width, alpha=alpha, zorder=zorder, solid_capstyle="round", solid_joinstyle="round")
    hinges = points[[dot.point for dot in scene.dots if not dot.radius]]
    if joints and len(hinges):
        ax.plot(*hinges.T, ls="", marker="o", ms=1.25 * width, mfc="white", mec=colour, mew=1.4, alpha=alpha, zorder=zorder + 0.1)


def _solids(ax: Any, scene: Scene, frame: int, zorder: float) -> None:
    """The faces of boxes, cylinders and balls that look this way, pale and lit from above, behind the skeleton."""
    from matplotlib.colors import to_rgb
    from mpl_toolkits.mplot3d.art3d import Poly3DCollection  # type: ignore[import-untyped]

    faces: list[np.ndarray] = []
    for solid in scene.solids:
        pose = scene.pose(frame, solid.body)
        world = np.asarray(solid.vertices) @ pose[:3, :3].T + pose[:3, 3]
        faces += [world[list(face)] for face in solid.faces]
    for dot in scene.dots:
        if dot.radius:
            faces += _ball(scene.points[frame, dot.point], dot.radius)
    elevation, azimuth = np.radians([ELEVATION, AZIMUTH])
    eye = np.array([np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)])
    light, seen, shades = np.array([0.35, -0.45, 0.82]), [], []
    for face in faces:
        normal = np.cross(face[1] - face[0], face[-1] - face[0])
        normal = normal / (np.linalg.norm(normal) or 1.0)
        if normal @ eye > 0.0:
            seen.append(face)
            shades.append(np.clip(np.array(to_rgb(SOLID)) * (0.8 + 0.24 * float(normal @ light)), 0.0, 1.0))
    if seen:
        longest = max(map(len, seen))  # of equal length, because Matplotlib fills up with whatever lies in memory
        seen = [np.vstack([face, np.repeat(face[-1:], longest - len(face), axis=0)]) for face in seen]
        ax.add_collection3d(Poly3DCollection(seen, facecolors=shades, linewidths=0.0, alpha=0.5, zorder=zorder))


def _ball(centre: np.ndarray, radius: float) -> list[np.ndarray]:
    u, v = np.linspace(0.0, 2 * np.pi, 13), np.linspace(0.0, np.pi, 7)

    def at(i: int, k: int) -> np.ndarray:
        return centre + radius * np.array([np.cos(u[i]) * np.sin(v[k]), np.sin(u[i]) * np.sin(v[k]), np.cos(v[k])])

    # the poles are triangles, whose first corner is single
    return [np.array([at(i, k), at(i, k + 1), at(i + 1, k + 1), at(i + 1, k)] if k else [at(i, 0), at(i, 1), at(i + 1, 1)])
            for i in range(12) for k in range(6)]


def _mark(ax: Any, mark: Mark, size: float) -> None:
    if np.linalg.norm(mark.position - mark.at) > 1e-3 and mark.tip is None:  # how far off the robot is
        ax.plot(*np.stack([mark.at, mark.position]).T, color=COLOURS["target"], lw=1.2, ls=(0, (3, 2)), zorder=4.9)
    if mark.rotation is not None:
        for k, axis in enumerate(AXES):
            line = np.stack([mark.position, mark.position + size * mark.rotation[:, k]])
            ax.plot(*line.T, color="white", lw=4.4, zorder=5.0, solid_capstyle="round")
            ax.plot(*line.T, color=COLOURS[axis], lw=2.6, zorder=5.1, solid_capstyle="round")
    elif mark.tip is not None:
        ax.plot(*np.stack([mark.at, _tip(mark, size)]).T, color=COLOURS["target"], lw=2.0, zorder=5.0, solid_capstyle="round")
        ax.plot(*_tip(mark, size)[:, None], ls="", marker="o", ms=5, color=COLOURS["target"], zorder=5.2)
    else:
        ax.plot(*mark.position[:, None], ls="", marker="o", ms=11, mfc="none", mec="white", mew=3.4, zorder=5.0)
        ax.plot(*mark.position[:, None], ls="", marker="o", ms=11, mfc="none", mec=COLOURS["target"], mew=1.8, zorder=5.1)
        ax.plot(*mark.position[:, None], ls="", marker="o", ms=2.6, color=COLOURS["target"], zorder=5.2)
