"""Pictures of a run of whole-body control: levels, tasks, contacts and torques as PNG bytes; in its animation an
arrow for every force of a contact with the edge of its cone around the tip, and walls."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from dynamics.algorithms import contact_kinematics
from dynamics.constraints import Contact
from dynamics.model.model import Model
from ocp.app.pages import sheet
from ocp.app.pages.scene import Edge, Scene
from ocp.app.pages.sheet import Group, bundle, line_cell, stem
from ocp.control.stance import stances_of
from ocp.problem import INF, Bounds
from ocp.wbc import WholeBodyRun

CAPTIONS = {
    "levels": ("Levels", "Residuals and slacks of every level over time, on a logarithmic axis: zero to rounding as long as "
               "the levels above leave room for it."),
    "tasks": ("Tasks", "Length of the error of every task while it is on."),
    "contacts": ("Contacts", "Normal force of every contact, commanded and in the plant, and the share of its friction that the "
                 "worst point uses: beyond 1 it would slip."),
    "torques": ("Torques", "As commanded. Shaded: beyond their limits."),
}
FLOOR = -16.0
#: excess over a bound that is drawn red
VISIBLE = 1e-6
MAX_PANELS = 24


def plot_run(run: WholeBodyRun) -> dict[str, bytes]:
    """All pictures of a run, by the names in CAPTIONS."""
    return {"levels": _levels(run), "tasks": _tasks(run), "contacts": _contacts(run), "torques": _torques(run)}


def _span(run: WholeBodyRun) -> tuple[float, float]:
    return float(run.t[0]), float(run.t[-1])


def _levels(run: WholeBodyRun) -> bytes:
    pick = sheet.thinned(len(run.solved))
    t = run.t[:-1][pick]
    with np.errstate(divide="ignore"):
        cells = [line_cell(f"log10 |{name}|", "", t, np.maximum(np.log10(values[pick]), FLOOR)[:, None])
                 for name, values in run.levels.items()]
    return sheet.sheet([Group("levels", tuple(cells))], _span(run)) if cells else sheet.sentence("No level was solved.")


def _tasks(run: WholeBodyRun) -> bytes:
    pick = sheet.thinned(len(run.solved))
    cells = [line_cell(name, "", run.t[:-1][pick], values[pick][:, None]) for name, values in run.errors.items()
             if np.isfinite(values).any()]
    return sheet.sheet([Group("errors", tuple(cells))], _span(run)) if cells else sheet.sentence("No task has an error to draw.")


def _contacts(run: WholeBodyRun) -> bytes:
    if not run.contacts:
        return sheet.sentence("There are no contacts.")
    pick, forces, shares = sheet.thinned(len(run.solved)), [], []
    t = run.t[:-1][pick]
    for plan, c in zip(run.setup.contacts, run.contacts, strict=True):
        told = bool(np.isfinite(c.actual).any())
        both = [force @ plan.plane[2] for force in ((c.actual, c.commanded) if told else (c.commanded,))]
        labels = ("plant", "commanded") if told else ("",)
        forces.append(line_cell(c.name, "N", t, np.column_stack(both)[pick], labels))
        share = c.share[pick][:, ::-1] if told else c.share[pick][:, :1]
        shares.append(line_cell(c.name, "", t, np.where(np.isfinite(share), share, np.nan), labels,
                                Bounds.of([(-INF, 1.0)] * len(labels)), VISIBLE))
    columns = min(4, len(forces))
    return sheet.sheet([Group("normal force", tuple(forces), columns=columns),
                        Group("share of friction", tuple(shares), columns=columns)], _span(run))


def _torques(run: WholeBodyRun) -> bytes:
    if not run.driven:
        return sheet.sentence("There are no motors.")
    pick = sheet.thinned(len(run.solved))
    cells = []
    for columns in bundle(run.driven, range(len(run.driven)), {}, (), MAX_PANELS):
        title, labels = stem([run.driven[i] for i in columns])
        most = float(run.efforts[columns].max())
        cells.append(line_cell(title, "N m", run.t[:-1][pick], run.torque[pick][:, columns], labels,
                               Bounds.of([(-most, most)] * len(columns)), VISIBLE))
    return sheet.sheet([Group("torques", tuple(cells))], _span(run))


Array = NDArray[np.float64]
LONGEST, WALL = 0.3, 0.2  # of the scene's extent: the arrow of a large force, and half a wall
RING, HEAD = 12, 0.12  # points of the edge of a cone; the head of an arrow, of its length
FORCE_QUANTILE = 0.98  # quantile of the forces over time that is drawn LONGEST: impacts last for one step


def with_contacts(scene: Scene, run: WholeBodyRun, model: Model, pick: NDArray[np.int64]) -> tuple[Scene, str]:
    """The scene with contacts at its frames (``pick`` [frames]: which states they show), and a sentence on what they are.

    Forces are those of the plant, where it tells them; they act at the mean of the contact's points.
    """
    if not run.contacts or not len(run.solved):
        return scene, ""
    told = [c.actual if np.isfinite(c.actual).any() else c.commanded for c in run.contacts]
    sizes = np.linalg.norm(np.nan_to_num(np.array(told)), axis=2).max(axis=0)
    extent = float(np.ptp(scene.points[0], axis=0).max(initial=0.0)) or 1.0
    largest = float(np.quantile(sizes, FORCE_QUANTILE)) or 1.0
    scale = LONGEST * extent / largest
    points, edges, at = [scene.points], list(scene.edges), scene.points.shape[1]
    for plan, place, force in zip(run.setup.contacts, _places(run, model, scene, pick), told, strict=True):
        forces = np.nan_to_num(force[np.clip(pick - 1, 0, len(force) - 1)])  # those that led to the state
        blocks = [_arrow(place, scale * forces, plan)]
        if (wall := _wall(plan, place, WALL * extent, scene.ground)) is not None:
            blocks.append(wall)
        for block, own in blocks:
            points.append(np.broadcast_to(block, (len(scene.t), *block.shape[-2:])))
            edges += [replace(edge, points=tuple(at + k for k in edge.points)) for edge in own]
            at += block.shape[-2]
    shown = 10.0 ** np.floor(np.log10(largest))
    words = (f"Arrows are the forces of contacts on the robot ({scale * shown:.2g} m long for {shown:g} N), with their friction "
             "cones up to the normal force of the moment: a tip on the rim is about to slip.")
    return replace(scene, points=np.concatenate(points, axis=1), edges=tuple(edges)), words


def _places(run: WholeBodyRun, model: Model, scene: Scene, pick: NDArray[np.int64]) -> list[Array]:
    """By contact the mean [frames, 3] of its points."""
    stances = [[s.place for s in stances_of(plan)] for plan in run.setup.contacts]
    q = ca.SX.sym("q", model.nq)
    means = [ca.sum2(contact_kinematics.contact_positions(model, q, own)) / len(own) for own in stances]
    found = ca.Function("places", [q], [ca.densify(ca.horzcat(*means))])(run.x[pick[:len(scene.t)], :model.nq].T).full()
    both = found.reshape(3, len(scene.t), len(stances))  # CasADi lays the evaluations side by side
    return [both[:, :, k].T for k in range(len(stances))]


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
    """The part of a convex polygon with ``sign (x_i - end) >= 0``."""
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
