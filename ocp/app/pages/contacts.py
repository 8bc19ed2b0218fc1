"""Contacts along a solved motion, where they touch and how they press, and their pictures: gait, heights of feet, forces, and
centres of pressure in their polygons of support."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from dynamics import algorithms as alg
from dynamics.constraints import Contact, FlatContact, PointContact
from dynamics.mechanism import Mechanism
from ocp.app.pages import sheet
from ocp.app.pages.contact_scene import Pressed, Supported
from ocp.app.pages.legs import Leg
from ocp.app.pages.sheet import Axes, Cell, Group, Marks, line_cell
from ocp.contacts import constraint_forces
from ocp.problem import INF, Bounds

Array = NDArray[np.float64]
MAX_VIEWS = 8  # phases whose support is drawn
NO_FORCE = 1e-9  # of the largest normal force: less is none, and presses nowhere
SIDE_BY_SIDE = 1e-9  # m^2; turns of a polygon below are straight lines


@dataclass(frozen=True, eq=False)
class Touch:
    """A contact over a phase: t [k] (s); points [k, n, 3] (m, world) of it that may touch; active: in the phase.

    force [k, 3] (N, world axes): on the robot; pressure [k, 3] (m, world): centre of pressure. Zero and NaN where it is not active.
    """

    contact: Contact
    t: Array
    points: Array
    active: bool
    force: Array
    pressure: Array

    @property
    def height(self) -> Array:
        """Of the lowest point over the plane [k] (m)."""
        return np.asarray((self.points @ self.contact.plane[2] - self.contact.height).min(axis=1))

    @property
    def normal(self) -> Array:
        """Normal force [k] (N)."""
        return np.asarray(self.force @ self.contact.plane[2])

    @property
    def share(self) -> Array:
        """Of its friction that the force uses [k]: 1 on the cone; NaN without a limit, and where it is not active."""
        across = np.linalg.norm(self.force @ self.contact.plane[:2].T, axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.active & (self.normal > 0), across / ((self.contact.friction or np.nan) * self.normal), np.nan)


@dataclass(frozen=True, eq=False)
class Support:
    """The support of a robot over a phase: active contacts on one plane; com [k, 3] (m): its centre of mass."""

    name: str
    touches: tuple[Touch, ...]
    com: Array

    @property
    def plane(self) -> Array:
        """[3, 3]: rows are the tangents and the normal, in the world."""
        return self.touches[0].contact.plane

    @cached_property
    def pressure(self) -> Array:
        """Centre of pressure of all contacts [k, 2] (m) along the tangents of the plane."""
        normal = np.array([one.normal for one in self.touches])
        total = normal.sum(axis=0)
        moment = sum(n[:, None] * np.nan_to_num(one.pressure) for n, one in zip(normal, self.touches, strict=True))
        with np.errstate(divide="ignore", invalid="ignore"):
            found = moment @ self.plane[:2].T / np.where(total > NO_FORCE * normal.max(initial=0.0), total, np.nan)[:, None]
        return np.asarray(found)

    def polygon(self, k: int) -> Array:
        """Corners [m, 2] of the support at a sample, counter-clockwise; fewer than three where feet stand on a line."""
        return hull(np.concatenate([one.points[k] for one in self.touches]) @ self.plane[:2].T)

    def in_world(self, points: Array) -> Array:
        """Points [k, 3] (m) of the world from [k, 2] along the tangents of the plane."""
        return np.asarray(points @ self.plane[:2] + self.touches[0].contact.height * self.plane[2])

    @cached_property
    def margin(self) -> Array:
        """Distance [k] (m) of the centre of pressure from the edge, negative outside; NaN where the support has no area."""
        found = np.full(len(self.com), np.nan)
        for k, place in enumerate(self.pressure):
            corners = self.polygon(k)
            if len(corners) > 2:
                along = np.roll(corners, -1, axis=0) - corners
                away = place - corners
                found[k] = ((along[:, 0] * away[:, 1] - along[:, 1] * away[:, 0]) / np.linalg.norm(along, axis=1)).min()
        return found


def hull(points: Array) -> Array:
    """Corners [m, 2] of the convex hull of points [n, 2], counter-clockwise (Andrew 1979, Information Processing Letters 9)."""
    ordered = np.unique(np.round(points, 9), axis=0)

    def half(row: Array) -> list[Array]:
        kept: list[Array] = []
        for p in row:
            while len(kept) > 1:
                (ax, ay), (bx, by) = kept[-1] - kept[-2], p - kept[-1]
                if ax * by - ay * bx > SIDE_BY_SIDE:
                    break
                kept.pop()
            kept.append(p)
        return kept

    return ordered if len(ordered) < 3 else np.array([*half(ordered)[:-1], *half(ordered[::-1])[:-1]])


def contacts_of(motion: Sequence[Leg]) -> tuple[Contact, ...]:
    """The contacts that are active in any phase, by name, in order of appearance."""
    robots = [one.phase.system.robot for one in motion]
    return tuple({c.name: c for robot in robots if robot is not None for c in robot.constraints if isinstance(c, Contact)}.values())


def touches(one: Leg, contacts: Sequence[Contact], t: Array, x: Array, u: Array) -> tuple[tuple[Touch, ...], Array]:
    """The contacts of a phase at times t [k] under states x [k, nx] and inputs u [k, nu], and the centre of mass [k, 3] (m)."""
    robot, count = one.phase.system.robot, len(t)
    held = {c.name: c for c in robot.constraints if isinstance(c, Contact)}
    known = tuple(held.get(c.name, c) for c in contacts)
    com, *found = _function(robot, known, x.shape[1], u.shape[1]).call([ca.DM(t).T, ca.DM(x.T), ca.DM(u.T)])
    made = []
    for contact, place, force in zip(known, found[::2], found[1::2], strict=True):
        points = np.asarray(place.full()).reshape(3, count, -1).transpose(1, 2, 0)  # CasADi lays the evaluations side by side
        own, pressure = _pressed(contact, np.asarray(force.full()).T, points)
        made.append(Touch(contact, t, points, contact.name in held, own @ contact.plane, pressure))
    return tuple(made), np.asarray(com.full()).T


def _function(robot: Mechanism, contacts: tuple[Contact, ...], nx: int, nu: int) -> ca.Function:
    """(t, x, u) -> centre of mass, then by contact its points [3, n] and its multipliers, none where it is not active."""
    arguments = [ca.SX.sym(name, size) for name, size in (("t", 1), ("x", nx), ("u", nu))]
    model, q = robot.model, arguments[1][:robot.model.nq]
    by = constraint_forces(robot, (*arguments, None), nu - robot.nu)
    outputs = [alg.centre_of_mass(model, q)]
    for c in contacts:
        outputs += [c.touching(model, q), by.get(c.name, ca.SX(0, 1))]
    return ca.Function("contacts", arguments, [ca.densify(ca.cse(ca.SX(part))) for part in outputs])


def _pressed(contact: Contact, multipliers: Array, points: Array) -> tuple[Array, Array]:
    """(force [k, 3] in the axes of the plane, centre of pressure [k, 3] in the world); points [k, n, 3]."""
    count, n = points.shape[:2]
    if not multipliers.shape[1]:
        return np.zeros((count, 3)), np.full((count, 3), np.nan)
    if isinstance(contact, PointContact):
        each = multipliers.reshape(count, n, -1)
        normal, force = each[..., -1], np.zeros((count, 3))
        force[:, -each.shape[2]:] = each.sum(axis=1)
        moment = np.einsum("ki,kij->kj", normal, points)
    else:
        force = multipliers[:, :3]
        moment = force[:, 2:] * points.mean(axis=1)
        if isinstance(contact, FlatContact):
            moment = moment + np.column_stack([-multipliers[:, 4], multipliers[:, 3]]) @ contact.plane[:2]
    least = NO_FORCE * np.abs(force[:, 2]).max(initial=0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return force, moment / np.where(force[:, 2] > least, force[:, 2], np.nan)[:, None]


def pressed(motion: Sequence[Leg], times: Sequence[Array]) -> tuple[list[Pressed], Supported | None]:
    """The contacts at times [k] of each phase, one after the other, for an animation; the support where planes agree."""
    contacts, made = contacts_of(motion), []
    if not contacts:
        return [], None
    for one, t in zip(motion, times, strict=True):
        x, u = (np.asarray(part(t), float).reshape(len(t), -1) for part in (one.trajectory.state, one.trajectory.control))
        made.append((one, *touches(one, contacts, t, x, u)))
    found = []
    for k, contact in enumerate(contacts):
        each = [own[k] for _, own, _ in made]
        places = [np.where(np.isfinite(one.pressure), one.pressure, one.points.mean(axis=1)) for one in each]
        found.append(Pressed(contact, np.concatenate(places), np.concatenate([one.force for one in each])))
    corners: list[Array] = []
    pressure: list[Array] = []
    for one, own, com in made:
        support = _support(one, own, com)
        if support is None:
            corners += [np.zeros((0, 3))] * len(com)
            pressure.append(np.full((len(com), 3), np.nan))
        else:
            corners += [support.in_world(support.polygon(k)) for k in range(len(com))]
            pressure.append(support.in_world(support.pressure))
    return found, Supported(corners, np.concatenate(pressure))


def gait(motion: Sequence[Leg]) -> dict[str, list[tuple[float, float]]]:
    """When each contact is active: intervals (from, to) in s, in order of time, joined over phases that both hold it."""
    found: dict[str, list[tuple[float, float]]] = {c.name: [] for c in contacts_of(motion)}
    for one in motion:
        for c in one.phase.system.robot.constraints:
            if isinstance(c, Contact):
                bars, (begin, end) = found[c.name], one.span
                joined = bool(bars) and abs(bars[-1][1] - begin) <= 1e-9 * max(1.0, abs(begin))
                bars[-1:] = [(bars[-1][0], end)] if joined else [*bars[-1:], (begin, end)]
    return found


# ------------------------------------------------------------------------------------------------ pictures
def plot_contacts(motion: Sequence[Leg], marks: Marks) -> bytes:
    """Gait, heights, normal forces, shares of friction, and centres of pressure; nothing of a motion without contacts."""
    contacts = contacts_of(motion) if all(one.phase.system.robot is not None for one in motion) else ()
    if not contacts:
        return b""
    found = [touches(one, contacts, one.samples.t, one.samples.x, one.samples.u) for one in motion]
    names, gap = tuple(c.name for c in contacts), np.full((1, len(contacts)), np.nan)
    t = np.concatenate([part for one in motion for part in (np.full(1, np.nan), one.samples.t)][1:])

    def series(what: str) -> Array:
        each = [np.column_stack([np.where(one.active | (what == "height"), getattr(one, what), np.nan) for one in own])
                for own, _ in found]
        return np.concatenate([part for values in each for part in (gap, values)][1:])

    cells = [line_cell("normal force", "N", t, series("normal"), names, Bounds.of([
        (c.least if c.unilateral else -INF, c.most) for c in contacts]), 1e-6)]
    if not all(touch.active for own, _ in found for touch in own):
        cells.insert(0, line_cell("height of the lowest point over the ground", "m", t, series("height"), names))
    if any(c.friction for c in contacts):
        cells.append(line_cell("share of friction that is used: 1 is the edge of the cone", "", t, series("share"), names,
                               Bounds.of([(-INF, 1.0)] * len(names)), 1e-6))
    supports = [s for one, (own, com) in zip(motion, found, strict=True) if (s := _support(one, own, com)) is not None]
    if sum(s is not None for s in supports) == len(motion) and any(np.isfinite(s.margin).any() for s in supports):
        margin = np.concatenate([part for s in supports for part in (np.full(1, np.nan), s.margin)][1:])
        cells.append(line_cell("distance of the centre of pressure from the edge of the support", "m", t, margin[:, None], ("",),
                               Bounds((0.0,), (INF,)), 1e-6))
    bars = gait(motion)
    stands = Cell("when each contact is active", lambda ax: _draw_gait(ax, bars), reserve=max(map(len, names)), bare=True)
    groups = [Group("gait", (stands,), 1)] if len(motion) > 1 else []
    groups.append(Group("contacts", tuple(cells), 1))
    views = [s for s in supports if np.isfinite(s.pressure).any()][:MAX_VIEWS]
    if any(len(s.polygon(0)) > 1 for s in views):
        seen = tuple(Cell(s.name if len(motion) > 1 else "whole motion", partial(_view, support=s), "m", time=False, bare=True)
                     for s in views)
        groups.append(Group("centre of pressure (line), centre of mass (dashes) and support, from above", seen,
                            min(4, max(2, len(views))), 2.0))
    return sheet.sheet(groups, (motion[0].span[0], motion[-1].span[1]), marks)


def _support(one: Leg, own: Sequence[Touch], com: Array) -> Support | None:
    """The support of a phase; None where there is none, or planes differ."""
    held = tuple(touch for touch in own if touch.active)
    planes = {(*touch.contact.plane[2].round(9), round(touch.contact.height, 9)) for touch in held}
    return Support(one.phase.name, held, com) if len(planes) == 1 else None


def _draw_gait(ax: Axes, stances: dict[str, list[tuple[float, float]]]) -> None:
    """A row for each contact, the first at the top."""
    ax.set_ylim(-0.6, len(stances) - 0.4)
    for k, (name, spans) in enumerate(stances.items()):
        place, colour = len(stances) - 1 - k, sheet.PALETTE[k % len(sheet.PALETTE)]
        ax.broken_barh([(a, b - a) for a, b in spans], (place - 0.36, 0.72), color=colour, lw=0, zorder=3)
        ax.text(1.0, place, " " + sheet.plain(sheet.clip_text(name, sheet.MAX_LABEL)), transform=ax.get_yaxis_transform(),
                fontsize=7.5, va="center", color=colour)
    sheet.ticks(ax, "linear", "")


def _view(ax: Axes, support: Support) -> None:
    """The plane from above, to scale."""
    ends = [support.polygon(0), support.polygon(len(support.com) - 1)]
    com, pressure = support.com @ support.plane[:2].T, support.pressure
    seen = np.concatenate([*ends, com, pressure[np.isfinite(pressure).all(axis=1)]])
    low, high = seen.min(axis=0), seen.max(axis=0)
    wide, tall = (float(v) for v in ax.get_position().size * ax.figure.get_size_inches())
    scale = max((high[0] - low[0]) / wide, (high[1] - low[1]) / tall, 1e-3) * 1.4  # m per inch
    middle = (low + high) / 2
    ax.set_xlim(middle[0] - scale * wide / 2, middle[0] + scale * wide / 2)
    ax.set_ylim(middle[1] - scale * tall / 2, middle[1] + scale * tall / 2)
    for corners in ends:
        ax.fill(*corners.T, facecolor=sheet.GRID, edgecolor=sheet.EDGE, lw=1.0, zorder=0.5)
    for touch in support.touches:
        at = touch.points[0] @ support.plane[:2].T
        ax.fill(*hull(at).T, fill=False, edgecolor=sheet.SOFT, lw=0.8, zorder=2)  # a sole has an outline
        ax.plot(*at.T, ls="", marker="o", ms=4, mfc="white", mec=sheet.INK, mew=1.0, zorder=3)
        ax.text(*at.mean(axis=0), f"  {sheet.plain(sheet.clip_text(touch.contact.name, sheet.MAX_LABEL))}", fontsize=7,
                color=sheet.SOFT, va="bottom", zorder=3.5, clip_on=True)
    ax.plot(*com.T, color=sheet.SOFT, lw=1.2, ls=(0, (3, 2)), zorder=3.8)
    ax.plot(*pressure.T, color=sheet.PALETTE[0], lw=1.8, zorder=4)
    good = pressure[np.isfinite(pressure).all(axis=1)]
    ax.plot(*good[0], marker="o", ms=4, color=sheet.PALETTE[0], zorder=5)
    sheet.ticks(ax)
