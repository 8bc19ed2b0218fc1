"""The scene of an animation: points, lines and solids over time, in three dimensions or in a drawing plane.

A :class:`Scene` is plain arrays computed once in Python; the player in the report only interpolates and draws. It comes
from the robot's own links (:func:`scene_from_model`) or from a :class:`Drawing` that the problem declares
(:func:`scene_from_drawing`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ocp.app.pages.links import bare_links
from ocp.app.pages.meshes import UnreadableMesh, read_mesh
from ocp.errors import ProblemError

FRAMES_PER_SECOND, FEWEST_FRAMES, MAX_FRAMES = 30.0, 60, 240  # the player interpolates between frames
MAX_LABELS = 40
STILL = 1e-9  # m; a line of a drawing that never moves by more is scenery, a rail or a wall
RESOLUTION = 1e-4  # of a metre; finer only where the whole scene is smaller than a thousand of them
CYLINDER_SIDES = 16
TRIANGLES, FEWEST_TRIANGLES = 6000, 60  # of all meshes together, and of each
WIRE_POINTS = 41
ROLES = ("link", "body", "ground", "force", "target", "axis_x", "axis_y", "axis_z")

Face = tuple[int, ...]


@dataclass(frozen=True)
class Edge:
    """A polyline through points; ``closed`` makes it a filled polygon. ``role`` (one of ROLES) chooses its colour."""

    points: tuple[int, ...]
    closed: bool = False
    role: str = "link"


@dataclass(frozen=True)
class Dot:
    """A point drawn as a ball of ``radius`` [m], or as a joint mark of fixed size where the radius is 0."""

    point: int
    radius: float = 0.0
    role: str = "link"


@dataclass(frozen=True)
class Solid:
    """A convex solid fixed to a body (-1: to the world): vertices [V, 3] (m, body frame) and faces as vertex loops, seen from
    outside counter-clockwise. ``mesh``: triangles of any shape, which may be seen from either side."""

    body: int
    vertices: np.ndarray
    faces: Sequence[Face]
    mesh: bool = False


@dataclass(frozen=True)
class Scene:
    """Everything the player draws.

    kind: ``3d`` (x, y, z with z up) or ``2d`` (x to the right, y up, z unused)
    t [frames] s; points [frames, n, 3] m in the world; poses [frames, bodies, 4, 4], ``world_H_body``, for the solids
    labels: (point, text); traces: points whose path is drawn; ground: height of the ground grid [m]
    notes: what could not be drawn, and what else a reader should know, in plain words
    inside: points within meshes and links, whose skeleton the player leaves out
    yaw: of the camera at first (rad)
    """

    kind: str
    t: np.ndarray
    points: np.ndarray
    edges: tuple[Edge, ...] = ()
    dots: tuple[Dot, ...] = ()
    solids: tuple[Solid, ...] = ()
    poses: np.ndarray | None = None
    labels: tuple[tuple[int, str], ...] = ()
    traces: tuple[int, ...] = ()
    ground: float = 0.0
    notes: tuple[str, ...] = ()
    inside: frozenset[int] = frozenset()
    yaw: float = -0.9

    def pose(self, frame: int, body: int) -> np.ndarray:
        """``world_H_body`` [4, 4]; of body -1 the identity."""
        return np.eye(4) if body < 0 or self.poses is None else np.asarray(self.poses[frame, body])

    def __post_init__(self) -> None:
        if self.kind not in ("2d", "3d"):
            raise ProblemError(f"scene kind must be '2d' or '3d', got {self.kind!r}")
        if self.points.ndim != 3 or self.points.shape[0] != len(self.t) or self.points.shape[2] != 3:
            raise ProblemError(f"scene points must be [{len(self.t)}, n, 3], got {list(self.points.shape)}")
        count = self.points.shape[1]
        used = [i for e in self.edges for i in e.points] + [d.point for d in self.dots] + [i for i, _ in self.labels]
        wrong = [i for i in (*used, *self.traces) if not 0 <= i < count]
        if wrong:
            raise ProblemError(f"scene refers to point {wrong[0]}, but it has {count} points")
        for role in {e.role for e in self.edges} | {d.role for d in self.dots}:
            if role not in ROLES:
                raise ProblemError(f"unknown scene role {role!r}; known: {', '.join(ROLES)}")


# ------------------------------------------------------------------------------------------------ drawings
@dataclass(frozen=True)
class Polyline:
    """Lines through the columns of ``points(t, x, u, p)`` [2, k] (m); ``closed`` fills the polygon. A line that never
    moves is drawn as ground."""

    points: Any  # casadi.Function
    closed: bool = False
    role: str = "link"


@dataclass(frozen=True)
class Disc:
    """A filled circle of ``radius`` [m] around ``centre(t, x, u, p)`` [2] (m); ``trace`` draws its path."""

    centre: Any  # casadi.Function
    radius: float
    role: str = "body"
    trace: bool = False
    label: str = ""


@dataclass(frozen=True)
class Drawing:
    """A planar picture of a system without a robot model, drawn in order: the first primitive at the back."""

    primitives: tuple[Polyline | Disc, ...]


def scene_from_drawing(drawing: Drawing, t: np.ndarray, x: np.ndarray, u: np.ndarray, p: Sequence[float] = ()) -> Scene:
    """The planar scene of a drawing along sampled times t [frames], states x [frames, nx] and controls u [frames, nu].

    Raises ProblemError where a function returns anything but two rows.
    """
    frames = _finite_frames(t, x)
    t, x, u = t[:frames], x[:frames], u[:frames]
    blocks: list[np.ndarray] = []
    edges, dots, labels, traces, count = [], [], [], [], 0
    for k, item in enumerate(drawing.primitives):
        function = item.points if isinstance(item, Polyline) else item.centre
        rows, columns = function.size_out(0)
        if rows != 2 or columns < 1:
            raise ProblemError(f"needs a function with 2 rows (x right, y up), got [{rows}, {columns}]",
                               where=f"drawing primitive {k}")
        raw = np.asarray(function(t[None, :], x.T, u.T, np.asarray(p, float).reshape(-1, 1)), float)
        # CasADi lays the evaluations side by side: [2, columns * frames]
        block = np.zeros((frames, columns, 3))
        block[:, :, :2] = raw.reshape(2, frames, columns).transpose(1, 2, 0)
        blocks.append(block)
        if isinstance(item, Polyline):
            still = not item.closed and item.role == "link" and frames > 1 and bool(np.ptp(block, axis=0).max() < STILL)
            edges.append(Edge(tuple(range(count, count + columns)), item.closed, "ground" if still else item.role))
        else:
            dots.append(Dot(count, item.radius, item.role))
            if item.trace:
                traces.append(count)
            if item.label:
                labels.append((count, item.label))
        count += columns
    points = np.concatenate(blocks, axis=1) if blocks else np.zeros((frames, 0, 3))
    return Scene("2d", t, points, tuple(edges), tuple(dots), labels=tuple(labels), traces=tuple(traces))


# ------------------------------------------------------------------------------------------------ robots
def scene_from_model(model: Any, t: np.ndarray, q_samples: np.ndarray, body_poses: np.ndarray, scenery: Sequence[Any] = ()
                     ) -> Scene:
    """The skeleton and the primitive geometry of a robot along sampled times t [frames].

    model: ``dynamics.model.Model``; q_samples [frames, nq]; body_poses [frames, bodies, 4, 4] with ``world_H_body``;
    scenery: shapes (``dynamics.model.Geometry``) that stand in the world. Links are lines from a body's origin to the joints
    and end frames it carries; a last body without end frames ends at its centre of mass. Raises ProblemError where the shapes
    disagree.
    """
    bodies = model.bodies
    if body_poses.shape != (len(t), len(bodies), 4, 4):
        raise ProblemError(f"body poses must be [{len(t)}, {len(bodies)}, 4, 4], got {list(body_poses.shape)}")
    frames = min(_finite_frames(t, q_samples), _finite_frames(t, body_poses.reshape(len(t), -1)))
    t, poses = t[:frames], np.asarray(body_poses[:frames], float)
    skeleton = _Skeleton(model, poses)
    skeleton.draw_joints()
    skeleton.draw_tips()
    solids, notes = _meshes(bodies)
    shaped = {i for i, body in enumerate(bodies) for shape in body.geometry if shape.kind != "mesh"}
    bare = bare_links(model, [*shaped, *(solid.body for solid in solids)])
    solids += [Solid(i, vertices, faces.tolist()) for i, (vertices, faces) in bare.items()]
    covered = {solid.body for solid in solids}
    for i, shape in [(i, shape) for i, body in enumerate(bodies) for shape in body.geometry] + [(-1, shape) for shape in scenery]:
        if shape.kind == "sphere":
            point = skeleton.point(i, shape.placement.position)
            skeleton.dots.append(Dot(point, float(shape.size[0]), "body" if i >= 0 else "ground"))
        elif shape.kind != "mesh":
            solids.append(solid_of(i, shape))
    inside = frozenset(point for point, body in enumerate(skeleton.carriers) if body in covered)
    points = np.stack(skeleton.columns, axis=1)
    lowest = float(points[..., 2].min(initial=0.0))
    return Scene("3d", t, points, tuple(skeleton.edges), tuple(skeleton.dots), tuple(solids), poses if solids else None,
                 tuple(skeleton.labels[:MAX_LABELS]), tuple(skeleton.traces), ground=min(0.0, lowest), notes=notes, inside=inside)


class _Skeleton:
    """Lines and dots of a robot; columns: its points over time [frames, 3], carriers: the body that each is fixed to."""

    def __init__(self, model: Any, poses: np.ndarray):
        self.model, self.poses = model, poses
        self.columns: list[np.ndarray] = []
        self.carriers: list[int] = []
        self.edges: list[Edge] = []
        self.dots: list[Dot] = []
        self.labels: list[tuple[int, str]] = []
        self.traces: list[int] = []
        self.origins = [self.point(i, (0.0, 0.0, 0.0)) for i in range(len(model.bodies))]

    def point(self, body: int, local: Sequence[float]) -> int:
        """A point of a body (-1: the world) by its number."""
        at = np.broadcast_to(np.asarray(local, float), (len(self.poses), 3))
        self.columns.append(at if body < 0 else self.poses[:, body, :3, 3] + self.poses[:, body, :3, :3] @ np.asarray(local, float))
        self.carriers.append(body)
        return len(self.columns) - 1

    def join(self, a: int, b: int) -> None:
        """A line, unless the points are one."""
        if np.abs(self.columns[a] - self.columns[b]).max(initial=0.0) > 1e-9:
            self.edges.append(Edge((a, b), role="link"))

    def draw_joints(self) -> None:
        """Lines from the origin of every body to the joints that it carries, dots where these turn or slide."""
        root = self.point(-1, (0.0, 0.0, 0.0))
        for i, body in enumerate(self.model.bodies):
            joint = body.joint
            if self.coordinate(i):
                continue
            self.labels.append((self.origins[i], joint.name))
            if joint.kind not in ("fixed", "free_flyer", "planar"):
                self.dots.append(Dot(self.origins[i]))
            if body.parent < 0 and joint.kind in ("free_flyer", "planar"):
                continue  # nothing holds a floating base
            seat = self.point(body.parent, joint.placement.position)
            if joint.kind == "spline_curve":
                wire = tuple(self.point(body.parent, point) for point in _wire(joint, self.model.kind(i)))
                self.edges.append(Edge(wire, role="ground" if body.parent < 0 else "link"))
                continue
            self.join(self.origins[body.parent] if body.parent >= 0 else root, seat)
            self.join(seat, self.origins[i])  # travel of a sliding joint; empty for a hinge

    def coordinate(self, i: int) -> bool:
        """Whether a body has no mass and no shape, and slides along the world: a coordinate of what it carries, and no link."""
        body = self.model.bodies[i]
        still = body.parent < 0 or self.coordinate(body.parent)
        return still and body.joint.kind == "prismatic" and not body.inertia.mass and not body.geometry

    def draw_tips(self) -> None:
        """Lines from last bodies to their end frames; the farthest of these leaves a trace."""
        for i, body in enumerate(self.model.bodies):
            if self.model.children(i):
                continue
            tips = [self.point(i, f.placement.position) for f in self.model.frames if f.body == i]
            if not tips and not body.geometry and np.linalg.norm(body.inertia.com) > 1e-6:
                tips = [self.point(i, body.inertia.com)]
                self.dots.append(Dot(tips[0], role="body"))
            origin = self.origins[i]
            for tip in tips:
                self.join(origin, tip)
            self.traces.append(max(tips, key=lambda k: float(np.linalg.norm(self.columns[k] - self.columns[origin]).sum()))
                               if tips else origin)


def _wire(joint: Any, kind: Any) -> np.ndarray:
    """Points [k, 3] of the curve that a body slides along, in the frame of the parent (m)."""
    end = float(np.linalg.norm(np.diff(np.asarray(joint.points, float), axis=0), axis=1).sum())
    local = np.array([np.asarray(kind.transform(s).p, float).ravel() for s in np.linspace(0.0, end, WIRE_POINTS)])
    return local @ np.asarray(joint.placement.rotation, float).T + np.asarray(joint.placement.position, float)


def solid_of(body: int, shape: Any) -> Solid:
    """Vertices and faces of a box or a cylinder (its axis is z), placed in the body frame."""
    if shape.kind == "box":
        half = np.asarray(shape.size, float) / 2
        corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * half
        faces: tuple[Face, ...] = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))
    elif shape.kind == "cylinder":
        radius, length = (float(v) for v in shape.size)
        angle = 2 * np.pi * np.arange(CYLINDER_SIDES) / CYLINDER_SIDES
        ring = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
        corners = np.concatenate([np.column_stack([ring, np.full(CYLINDER_SIDES, z)]) for z in (-length / 2, length / 2)])
        n = CYLINDER_SIDES
        faces = (tuple(range(n))[::-1], tuple(range(n, 2 * n)), *((i, (i + 1) % n, n + (i + 1) % n, n + i) for i in range(n)))
    else:
        raise ProblemError(f"cannot draw geometry of kind {shape.kind!r}; known: sphere, box, cylinder, mesh")
    return Solid(body, placed(corners, shape), faces)


def placed(vertices: np.ndarray, shape: Any) -> np.ndarray:
    """Vertices [n, 3] of a shape in the axes of its body."""
    return vertices @ np.asarray(shape.placement.rotation, float).T + np.asarray(shape.placement.position, float)


def _meshes(bodies: Sequence[Any]) -> tuple[list[Solid], tuple[str, ...]]:
    """The meshes of all bodies, and a note on those that cannot be drawn."""
    shapes = [(i, shape) for i, body in enumerate(bodies) for shape in body.geometry if shape.kind == "mesh"]
    most = max(FEWEST_TRIANGLES, TRIANGLES // max(1, len(shapes)))
    found, missed = [], []
    for i, shape in shapes:
        try:
            vertices, faces = read_mesh(shape.path, shape.size, most)
            found.append(Solid(i, placed(vertices, shape), faces.tolist(), mesh=True))
        except UnreadableMesh as why:
            missed.append(f"{shape.path or 'a mesh of the model'} {why}")
    told = f"; {len(missed) - 1} more" if len(missed) > 1 else ""
    return found, (f"Not drawn: {missed[0]}{told}; the links show the motion.",) if missed else ()


# ------------------------------------------------------------------------------------------------ times and encoding
def frame_times(start: float, end: float) -> np.ndarray:
    """Evenly spaced times [frames] from start to end (s) at which a scene is best sampled."""
    count = int(np.clip(np.ceil((end - start) * FRAMES_PER_SECOND) + 1, FEWEST_FRAMES, MAX_FRAMES))
    return np.linspace(start, end, count)


def shown_frames(t: np.ndarray, x: np.ndarray) -> np.ndarray | None:
    """Numbers of the samples t [n], x [n, nx] that an animation shows, all of them finite; None where there are fewer than two."""
    good = np.flatnonzero(np.isfinite(x).all(axis=1))
    if len(good) < 2:
        return None
    times = frame_times(float(t[good[0]]), float(t[good[-1]]))
    return np.asarray(good[np.clip(np.searchsorted(t[good], times), 0, len(good) - 1)])


def encode(scene: Scene) -> str:
    """The scene as compact JSON: lengths as integers, multiples of ``unit`` [m]; rotations as their first two columns.

    ``<`` never appears, so that the text can stand inside a script element whatever the labels say.
    """
    extent = float(np.ptp(scene.points.reshape(-1, 3), axis=0).max(initial=0.0)) if scene.points.size else 1.0
    unit = RESOLUTION * min(1.0, extent) if extent > 0 else RESOLUTION

    def whole(values: np.ndarray, scale: float) -> list[int]:
        return [int(v) for v in np.rint(np.asarray(values, float).ravel() / scale)]

    poses: list[int] = []
    if scene.poses is not None:
        poses = np.concatenate([np.rint(scene.poses[..., :3, 3] / unit), np.rint(scene.poses[..., :3, 0] / RESOLUTION),
                                np.rint(scene.poses[..., :3, 1] / RESOLUTION)], axis=-1).astype(int).ravel().tolist()
    record = {
        "kind": scene.kind, "unit": unit, "turn": RESOLUTION, "frames": len(scene.t), "count": scene.points.shape[1],
        "bodies": 0 if scene.poses is None else scene.poses.shape[1],
        "t": [round(float(v), 6) for v in scene.t], "points": whole(scene.points, unit), "poses": poses,
        "edges": [[list(e.points), int(e.closed), e.role, int(e.role == "link" and e.points[0] in scene.inside)]
                  for e in scene.edges],
        "dots": [[d.point, d.radius, d.role] for d in scene.dots if d.radius or d.point not in scene.inside],
        "solids": [[s.body, whole(s.vertices, unit), [list(f) for f in s.faces], int(s.mesh)] for s in scene.solids],
        "labels": [list(item) for item in scene.labels], "traces": list(scene.traces), "ground": scene.ground, "yaw": scene.yaw,
    }
    return json.dumps(record, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def decode(text: str) -> Scene:
    """The scene that :func:`encode` wrote, to its resolution."""
    record = json.loads(text)
    frames, unit = record["frames"], record["unit"]
    points = unit * np.asarray(record["points"], float).reshape(frames, record["count"], 3)
    poses = None
    if record["bodies"]:
        place, x, y = np.moveaxis(np.asarray(record["poses"], float).reshape(frames, record["bodies"], 3, 3), 2, 0)
        x = x / np.linalg.norm(x, axis=-1, keepdims=True)
        z = np.cross(x, y)
        z /= np.linalg.norm(z, axis=-1, keepdims=True)
        poses = np.zeros((frames, record["bodies"], 4, 4))
        poses[..., :3, :3], poses[..., :3, 3] = np.stack([x, np.cross(z, x), z], axis=-1), unit * place
        poses[..., 3, 3] = 1.0
    return Scene(
        record["kind"], np.asarray(record["t"]), points, tuple(Edge(tuple(p), bool(c), r) for p, c, r, _ in record["edges"]),
        tuple(Dot(*dot) for dot in record["dots"]),
        tuple(Solid(body, unit * np.asarray(corners, float).reshape(-1, 3), faces, bool(mesh))
              for body, corners, faces, mesh in record["solids"]),
        poses, tuple((i, name) for i, name in record["labels"]), tuple(record["traces"]), record["ground"], yaw=record["yaw"])


def _finite_frames(t: np.ndarray, values: np.ndarray) -> int:
    """How many leading frames are finite: a diverged motion is shown up to where it ends."""
    good = np.isfinite(np.asarray(values, float)).all(axis=1) & np.isfinite(t)
    return len(good) if good.all() else int(np.argmin(good))
