"""The pictures of a run: states, controls, constraints, certificate, convergence, each as PNG bytes.

Lines are the method's own interpolant, dots its knots, shaded stripes where bounds forbid, red where one is violated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ocp.app.pages import sheet
from ocp.app.pages.contacts import plot_contacts
from ocp.app.pages.iterations import columns
from ocp.app.pages.legs import Leg, Samples, legs, union, widened
from ocp.app.pages.panels import bundle, stem
from ocp.app.pages.sheet import Axes, Cell, Group
from ocp.app.sentences.certificate import CHECKS
from ocp.bridge import row_names
from ocp.interrupts import Activity, attempt
from ocp.problem import At, Bounds, Certificate, Constraint, Sense, Solution, System
from ocp.problem.solution import share

MAX_PANELS = 16
GAPS = "certificate_segment_gap"  # the array of ``Solution.extra`` [N] that the certificate leaves; drawn when present
DEFAULT_TOLERANCE = 1e-6  # for colouring violations where no certificate says how much is allowed


def plot_run(solution: Solution) -> dict[str, bytes]:
    """All pictures of a solution as PNG bytes, by name; without those that there is no time for."""
    motion = legs(solution)
    with np.errstate(over="ignore", invalid="ignore"):  # a diverged motion is drawn as far as it goes
        drawn = {name: attempt(draw, b"", Activity.PICTURES, name) for name, draw in {
            "states": lambda: plot_states(motion, solution.certificate),
            "controls": lambda: plot_controls(motion, solution.certificate),
            "contacts": lambda: plot_contacts(motion, marks_of(motion)),
            "constraints": lambda: plot_constraints(motion, solution.certificate),
            "certificate": lambda: plot_certificate(solution.certificate, solution.trajectory.t, solution.extra.get(GAPS),
                                                    marks_of(motion)),
            "convergence": lambda: plot_convergence(solution.method, solution.iterations),
        }.items()}
    return {name: image for name, image in drawn.items() if image}


def marks_of(motion: Sequence[Leg]) -> list[tuple[float, str]]:
    """Where the phases begin, if there are several."""
    return [(one.span[0], one.phase.name) for one in motion] if len(motion) > 1 else []


def span_of(motion: Sequence[Leg]) -> tuple[float, float]:
    """The start and end of the motion [s]."""
    return motion[0].span[0], motion[-1].span[1]


# ------------------------------------------------------------------------------------------------ states and controls
def plot_states(motion: Sequence[Leg], certificate: Certificate | None = None) -> bytes:
    """States in small multiples, positions above velocities where known."""
    names = union([one.phase.system.space.names for one in motion])
    if not names:
        return sheet.sentence("This system has no states.")
    one = motion[0].phase.system
    same = all(part.phase.system.space.names == names for part in motion)
    split, quaternions = (_split(one), one.space.quaternions) if same else (None, ())
    parts = [("states", range(len(names)))] if split is None else [
        ("positions", range(split)), ("velocities", range(split, len(names)))]
    curves = _curves(motion, names, "x", _allowed(certificate))
    return _multiples(motion, curves, parts, quaternions)


def plot_controls(motion: Sequence[Leg], certificate: Certificate | None = None) -> bytes:
    """Efforts of the drives of a robot, by joint, in every formulation; controls and algebraic unknowns; in small multiples."""
    names = union([one.phase.system.inputs for one in motion])
    if not names:
        return sheet.sentence("This system has no controls.")
    curves = _curves(motion, names, "u", _allowed(certificate))
    found = union([one.phase.system.algebraic for one in motion])
    forces = union([row_names(one.phase.system.robot) for one in motion if one.phase.system.robot is not None])
    drives = union([one.drives.names for one in motion if one.drives is not None])
    given = {heading: [i for i, name in enumerate(names) if chosen(name)] for heading, chosen in (
        ("torques", lambda name: name in drives), ("controls", lambda name: name not in (*drives, *found)),
        ("algebraic unknowns", lambda name: name in found and name not in forces),
        ("forces of constraints", lambda name: name in found and name in forces))}
    parts = [(heading, members) for heading, members in given.items() if members]
    if not drives or given["torques"]:
        return _multiples(motion, curves, parts)
    efforts = _curves(motion, drives, "tau", {})
    return _multiples(motion, curves, parts, before=((efforts, "torques"),))


@dataclass(frozen=True)
class Curves:
    """Named components of all phases over time: t [k] and values [k, n] with a row of NaN between phases, knots likewise; bounds
    [n] by phase; units by name; how far the certificate lets them beyond their bounds, [n]."""

    names: tuple[str, ...]
    t: np.ndarray
    values: np.ndarray
    knots: tuple[np.ndarray, np.ndarray]
    bounds: tuple[sheet.Stretch, ...]
    units: Mapping[str, str]
    allowed: np.ndarray


def _allowed(certificate: Certificate | None) -> dict[str, float]:
    """How far each named constraint may be beyond its bounds along the motion, by the certificate."""
    return {v.label: v.tolerance_between if np.isfinite(v.tolerance_between) else v.tolerance
            for v in (certificate.violations if certificate else ())}


def _curves(motion: Sequence[Leg], names: tuple[str, ...], which: str, allowed: Mapping[str, float]) -> Curves:
    """The states (``x``), controls (``u``) or what drives give (``tau``) of all phases; a component that a phase lacks is a gap
    without bounds."""
    t, values, knots_t, knots, bounds = [], [], [], [], []
    units: dict[str, str] = {}
    for one in motion:
        own, fine, at, given, limits = _component(one, which)
        t.append(one.samples.t)
        values.append(widened(fine, own, names))
        knots_t.append(at)
        knots.append(widened(np.asarray(given, float), own, names))
        known = limits.joined(Bounds.free(1))
        bounds.append(sheet.Stretch(one.span if len(motion) > 1 else (-np.inf, np.inf),
                                    known[[own.index(name) if name in own else -1 for name in names]]))
        drives = {} if one.drives is None else dict(zip(one.drives.names, one.drives.units, strict=True))
        units = {**one.phase.system.units, **drives, **units}
    prefixes = [f"{one.phase.name}: " for one in motion] if len(motion) > 1 else [""]
    most = np.array([max(allowed.get(f"{prefix}bound {name}", DEFAULT_TOLERANCE) for prefix in prefixes) for name in names])
    return Curves(names, _apart(t), _apart(values), (np.concatenate(knots_t), np.concatenate(knots)), tuple(bounds), units, most)


def _component(one: Leg, which: str) -> tuple[tuple[str, ...], np.ndarray, np.ndarray, np.ndarray, Bounds]:
    """(names, values at the samples [k, n], times of knots, values there, bounds) of states, controls or drives of a phase."""
    phase, path, samples = one.phase, one.trajectory, one.samples
    if which == "x":
        return phase.system.space.names, samples.x, path.t, path.x, phase.state_bounds
    if which == "u":
        return phase.system.inputs, samples.u, path.t_u, path.u, phase.control_bounds
    if one.drives is None:
        return (), np.zeros((len(samples.t), 0)), path.t, np.zeros((len(path.t), 0)), Bounds.free(0)
    return (one.drives.names, one.drives.at_nodes(samples.t, samples.x, samples.u), path.t,
            one.drives.at_nodes(path.t, path.x, one.at_knots), Bounds.of(zip(one.drives.lower, one.drives.upper, strict=True)))


def _apart(pieces: Sequence[np.ndarray]) -> np.ndarray:
    """Arrays one after another with a row of NaN in between."""
    gap = np.full((1, *pieces[0].shape[1:]), np.nan)
    return np.concatenate([part for piece in pieces for part in (gap, piece)][1:])


def _cells(curves: Curves, bundles: Sequence[Sequence[int]]) -> tuple[Cell, ...]:
    out = []
    for members in bundles:
        cols = list(members)
        title, labels = stem([curves.names[i] for i in cols])

        def draw(ax: Axes, cols: list[int] = cols, labels: tuple[str, ...] = labels) -> None:
            bounds = [sheet.Stretch(b.span, b.bounds[cols]) for b in curves.bounds]
            sheet.stretched(ax, curves.t, curves.values[:, cols], bounds, labels, (curves.knots[0], curves.knots[1][:, cols]),
                            curves.allowed[cols])

        out.append(Cell(title, draw, curves.units.get(curves.names[cols[0]], ""), reserve=max(map(len, labels))))
    return tuple(out)


def _multiples(motion: Sequence[Leg], curves: Curves, parts: Sequence[tuple[str, Sequence[int]]], quaternions: Sequence[int] = (),
               before: Sequence[tuple[Curves, str]] = ()) -> bytes:
    """A group of small multiples for each part: a heading and the components in it. before: whole groups of other curves."""
    most = MAX_PANELS // (len(parts) + len(before))
    groups = [Group(heading, _cells(of, bundle(of.names, members, of.units, quaternions, most))) for of, heading, members in (
        *((of, heading, range(len(of.names))) for of, heading in before), *((curves, *part) for part in parts))]
    return sheet.sheet(groups, span_of(motion), marks_of(motion))


def _split(system: System) -> int | None:
    """Where velocities begin in x: known for robots, otherwise by units (m above m/s, component by component)."""
    names, units = system.space.names, system.units
    if system.model is not None and 0 < system.model.nq < len(names):
        return int(system.model.nq)
    half = len(names) // 2
    pairs = list(zip(names[:half], names[half:], strict=False))
    matched = bool(pairs) and len(names) % 2 == 0 and all(units.get(a) and f"{units[a]}/s" == units.get(b) for a, b in pairs)
    return half if matched else None


# ------------------------------------------------------------------------------------------------ constraints
def plot_constraints(motion: Sequence[Leg], certificate: Certificate | None) -> bytes:
    """Each named constraint with its bounds; the violated part red. Last, how near bounded components come to bounds."""
    tolerances = _allowed(certificate)
    path: list[Cell] = []
    ends: list[Cell] = []
    for one in motion:
        prefix = f"{one.phase.name}: " if len(motion) > 1 else ""
        for c in one.phase.constraints if len(one.samples.t) else ():
            (path if c.at is At.PATH else ends).append(_constraint_cell(c, one, prefix, tolerances))
    groups = []
    for heading, cells, across in (("along the path", path, 0), ("at the ends and as a whole" if any(
            c.at is At.INTEGRAL for one in motion for c in one.phase.constraints) else "at the ends", ends, sheet.MAX_COLUMNS)):
        more = f" — first {MAX_PANELS} of {len(cells)}, all are in the table" if len(cells) > MAX_PANELS else ""
        if cells:
            groups.append(Group(heading + more, tuple(cells[:MAX_PANELS]), across))
    names = union([_margins(one)[0] for one in motion])
    if names:
        scaled = _apart([widened(_margins(one)[1], _margins(one)[0], names) for one in motion])
        reach = np.nan_to_num(np.abs(scaled - 0.5)).max(axis=0, initial=0.0)
        nearest, t = names[int(np.argmax(reach))], _apart([one.samples.t for one in motion])
        groups.append(Group("position between the bounds", (Cell(
            f"states and controls with two bounds: 0 is the lower one, 1 the upper; closest is {nearest}",
            lambda ax: sheet.lines(ax, t, scaled, Bounds.of([(0.0, 1.0)] * len(names)), names, tolerance=DEFAULT_TOLERANCE),
            reserve=max(map(len, names)) if len(names) > 1 else 0),)))
    if not groups:
        return sheet.sentence("This problem has no constraints and no two-sided bounds.")
    return sheet.sheet(groups, span_of(motion), marks_of(motion))


def _constraint_cell(c: Constraint, one: Leg, prefix: str, tolerances: Mapping[str, float]) -> Cell:
    system, samples, along = one.phase.system, one.samples, c.at is At.PATH
    allowed = tolerances.get(prefix + c.name, DEFAULT_TOLERANCE)

    def show(ax: Axes) -> None:
        if not along:
            _end_constraint(ax, c, system, samples, allowed)
            return
        values, bounds, labels = constraint_values(c, system, samples.t, samples.x, samples.u)
        sheet.stretched(ax, samples.t, values, [sheet.Stretch(one.span if prefix else (-np.inf, np.inf), bounds)], labels,
                        tolerance=allowed)

    title = prefix + c.name + ("" if along else f" · {c.at.value}") + (" · soft" if c.soft is not None else "")
    room = 0 if c.size == 1 or c.sense is Sense.CONE else max(map(len, c.components())) - len(c.name) - 2
    return Cell(title, show, system.units.get(c.name, ""), time=along, reserve=room)


def constraint_values(c: Constraint, system: System, t: np.ndarray, x: np.ndarray,
                      u: np.ndarray) -> tuple[np.ndarray, Bounds, tuple[str, ...]]:
    """Values [k, n] of a constraint, its bounds [n] and component labels; a cone becomes ``|c[1:]| - c[0] <= 0``."""
    p = np.asarray(system.parameter_values, float).reshape(-1, 1)
    # columns side by side are evaluated in one call
    raw = np.asarray(c.function(t[None, :], x.T, u.T, p), float).T.reshape(len(t), -1)
    if c.sense is Sense.CONE:
        return c.excess(raw), Bounds((-np.inf,), (0.0,)), ("",)
    return raw, c.bounds, tuple(
        n[len(c.name):] if n[len(c.name):].strip("[]").isdigit() else n[len(c.name):].strip("[]") for n in c.components())


def _end_constraint(ax: Axes, c: Constraint, system: System, samples: Samples, tolerance: float) -> None:
    """A constraint at one end, or on the whole: each component a dot beside the range it must lie in."""
    at = {At.START: slice(0, 1), At.FINAL: slice(-1, None)}.get(c.at, slice(None))
    values, bounds, _ = constraint_values(c, system, samples.t[at], samples.x[at], samples.u[at])
    low, high = bounds.arrays
    held = np.trapezoid(values, samples.t, axis=0) if c.at is At.INTEGRAL else values[0]
    value, place = sheet.drawable(held), np.arange(values.shape[1])
    bottom, top = sheet.limits(value, low, high)
    ax.set_ylim(bottom, top)
    ax.set_xlim(-0.8, len(value) - 0.2)
    for k in place if 1 < len(value) <= 12 else ():
        ax.text(k, bottom - 0.04 * (top - bottom), f"[{k}]", fontsize=7.5, color=sheet.SOFT, ha="center", va="top")
    floor, ceiling = np.clip(low, bottom, top), np.clip(high, bottom, top)
    ax.vlines(place, floor, ceiling, color=sheet.EDGE, lw=8, alpha=0.5, zorder=1)
    ax.hlines(np.concatenate([floor, ceiling]), np.tile(place - 0.16, 2), np.tile(place + 0.16, 2), color=sheet.SOFT, lw=1.0)
    bad = ~(bounds.excess(value) <= tolerance)
    ax.scatter(place, value, s=28, c=[sheet.FAIL if b else sheet.PALETTE[0] for b in bad], zorder=4, lw=0)


def _margins(one: Leg) -> tuple[tuple[str, ...], np.ndarray]:
    """Names and values [k, n] of states and controls with two finite bounds, scaled to 0 (lower) ... 1 (upper)."""
    phase, samples = one.phase, one.samples
    names = (*phase.system.space.names, *phase.system.inputs)
    bounds = phase.state_bounds.joined(phase.control_bounds)
    use = bounds.two_sided & (bounds.width > 0)
    values = sheet.drawable(np.hstack([samples.x, samples.u]))
    return tuple(n for n, w in zip(names, use, strict=True) if w), bounds[use].fraction(values[:, use])


# ------------------------------------------------------------------------------------------------ certificate
def plot_certificate(certificate: Certificate | None, t: np.ndarray, gaps: np.ndarray | None = None, marks: sheet.Marks = ()
                     ) -> bytes:
    """Residuals over tolerances as bars, and the re-integration gap of each segment (gaps [N]) where it is known."""
    if certificate is None:
        return sheet.sentence("This solution carries no certificate.")
    rows = [(CHECKS[c.kind], c.value, c.tolerance, c.holds, "") for c in certificate.checks]
    worst_first = sorted(certificate.violations, key=lambda v: -np.nan_to_num(v.share, nan=np.inf))
    rows += [(v.label, v.at_knots, v.tolerance, v.holds, ", soft" if v.soft else "") for v in worst_first[:MAX_PANELS]]
    known = sheet.drawable(np.zeros(0) if gaps is None else np.asarray(gaps).ravel())
    lower_part = 2.0 if len(known) == len(t) - 1 and np.isfinite(known).any() else 0.0
    bars, left, right = 0.27 * len(rows), 2.9, 2.0
    height = 0.85 + bars + lower_part
    fig = sheet.figure(height)
    ax = sheet.axes(fig, (left, 0.42 + lower_part, sheet.WIDTH - left - right, bars))
    ratio = np.array([share(value, tolerance) for _, value, tolerance, _, _ in rows])
    with np.errstate(divide="ignore"):
        power = np.where(np.isnan(ratio), np.inf, np.log10(np.maximum(ratio, 0.0)))
    seen = power[np.isfinite(power)]
    floor = float(np.clip(np.floor(seen.min(initial=-1.0)) - 0.5, -14, -2))
    ceiling = float(np.clip(np.ceil(seen.max(initial=0.0)) + 0.7, 1, 14))
    place = np.arange(len(rows))[::-1]
    ax.set_xlim(floor, ceiling)
    ax.set_ylim(-0.6, len(rows) - 0.4)
    ax.barh(place, np.clip(power, floor + 0.04, ceiling) - floor, left=floor, height=0.5, lw=0, zorder=3,
            color=[sheet.PASS if r[3] else sheet.FAIL for r in rows])
    ax.axvspan(0.0, ceiling, color=sheet.FORBIDDEN, alpha=0.25, lw=0, zorder=0.1)
    ax.axvline(0.0, color=sheet.INK, lw=1.2, zorder=4)
    sheet.ticks(ax, "log", "")
    beside = ax.get_yaxis_transform()
    for (name, value, tolerance, holds, soft), y in zip(rows, place, strict=True):
        ax.text(-0.012, y, sheet.plain(sheet.clip_text(name, 40)), transform=beside, ha="right", va="center", fontsize=8.5,
                color=sheet.INK if holds else sheet.FAIL)
        amount = f"{value:.1e}" if value else "0"
        text = "not computed" if np.isnan(value) else f"{amount} of {tolerance:.0e}{soft}"
        ax.text(1.012, y, text, transform=beside, va="center", fontsize=8, color=sheet.SOFT if holds else sheet.FAIL)
    rest = f", the {MAX_PANELS} largest of {len(worst_first)} violations" if len(worst_first) > MAX_PANELS else ""
    sheet.caption(fig, left, height - 0.2, "residual ÷ tolerance" + rest)
    if lower_part:
        below = sheet.axes(fig, (left, 0.5, sheet.WIDTH - left - right, 1.1))
        allowed = certificate.gap_segment.tolerance
        level = np.log10(np.maximum(known / allowed, 1e-12)) if allowed > 0 else np.zeros(len(known))
        low, high = min(-1.0, float(np.nanmin(level))) - 0.3, max(0.0, float(np.nanmax(level))) + 0.4
        below.set_xlim(t[0], t[-1])
        below.set_ylim(low, high)
        below.bar(t[:-1], level - low, bottom=low, width=np.diff(t) * 0.85, align="edge", lw=0, zorder=3,
                  color=[sheet.PASS if g <= allowed else sheet.FAIL for g in known])
        below.axhline(0.0, color=sheet.INK, lw=1.0, zorder=4)
        sheet.mark(below, marks)
        sheet.ticks(below, "linear", "log")
        fig.text((sheet.WIDTH - right) / sheet.WIDTH, 0.13 / height, "time [s]", fontsize=8, color=sheet.SOFT, ha="right")
        sheet.caption(fig, left, 1.78, "re-integration gap of each segment ÷ tolerance")
    return sheet.png(fig)


# ------------------------------------------------------------------------------------------------ convergence
def plot_convergence(method: str, rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Objective, residuals, and steps and weights over the iterations."""
    if not rows:
        return sheet.sentence("The method recorded no iterations.")
    chosen = columns(method, rows)
    series = {c.key: sheet.drawable(np.array([_number(r.get(c.key)) for r in rows])) for c in chosen}
    parts = []
    for title, roles, log in (("objective", ("objective",), False), ("residuals", ("residual",), True),
                              ("steps and weights", ("step", "weight"), True)):
        members = [c for c in chosen if c.role in roles and np.isfinite(series[c.key]).any()]
        data = np.stack([series[c.key] for c in members], axis=1) if members else np.zeros((0, 0))
        data = np.where(data > 0, data, np.nan) if log else data
        if np.isfinite(data).any():
            parts.append((title, members, data, log))
    if not parts:
        return sheet.sentence("The iteration log holds nothing to plot.")
    height, left, gap = 2.7, 0.72, 1.28
    fig = sheet.figure(height)
    wide = (sheet.WIDTH - left - 0.95 - gap * (len(parts) - 1)) / len(parts)
    number = np.arange(len(rows), dtype=float)
    for k, (title, members, data, log) in enumerate(parts):
        ax = sheet.axes(fig, (left + k * (wide + gap), 0.5, wide, height - 0.95))
        drawn = np.log10(data) if log else data
        low, high = sheet.limits(drawn, np.zeros(0), np.zeros(0))
        ax.set_ylim(low, high)
        ax.set_xlim(-0.02 * len(rows), max(1.0, len(rows) - 1.0) + 0.02 * len(rows))
        for j in range(len(members)):
            ax.plot(number, drawn[:, j], color=sheet.PALETTE[j % len(sheet.PALETTE)], lw=1.5, marker="o", mew=0, zorder=3,
                    ms=3.0 if len(rows) <= 80 else 0.0)
        sheet.direct_labels(ax, (drawn - low) / (high - low), [c.title for c in members])
        sheet.ticks(ax, "linear", "log" if log else "linear")
        sheet.caption(fig, left + k * (wide + gap), height - 0.2, title)
    fig.text((sheet.WIDTH - 0.95) / sheet.WIDTH, 0.13 / height, "iteration", fontsize=8, color=sheet.SOFT, ha="right")
    return sheet.png(fig)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")
