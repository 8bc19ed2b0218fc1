"""The pictures of a run as PNG: states, controls, constraints, certificate, convergence.

Drawn with Matplotlib's object interface on fixed rectangles: no global state, and no layout engine, which would cost
more than the drawing. Lines are the method's own interpolant, dots its knots, shaded stripes where bounds forbid.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ocp.app.iterations import columns
from ocp.problem.problem import At, Constraint, Sense, System
from ocp.problem.solution import Solution, Trajectory

DPI = 110
WIDTH = 11.0  # inches
MOST_COLUMNS, MOST_PANELS, MOST_LINES = 4, 16, 6
FEWEST_SAMPLES, MOST_SAMPLES, TARGET_SAMPLES = 3, 24, 480
MOST_KNOT_DOTS = 161  # more knots than this would hide the line; then only the line is drawn
HUGE = 1e100  # beyond this Matplotlib's transforms overflow; such values are drawn as gaps

INK, SOFT, GRID = "#27303f", "#6b7687", "#e4e8ee"
PALETTE = ("#2f6fb5", "#d9812c", "#2a9b8a", "#b6507c", "#7b66bd", "#7d8b33")
PASS, FAIL, FORBIDDEN = "#2a9b8a", "#cf3a34", "#c9a39b"

Rate = Callable[[Any], np.ndarray]


@dataclass(frozen=True)
class Samples:
    """A solution on a fine grid: t [k], x [k, nx], u [k, nu] by the method's own interpolants."""

    t: np.ndarray
    x: np.ndarray
    u: np.ndarray


@dataclass(frozen=True)
class Panel:
    """One small plot: which columns it shows, its title and unit, and a short name per line."""

    title: str
    columns: tuple[int, ...]
    labels: tuple[str, ...]
    unit: str = ""


def plot_run(solution: Solution) -> dict[str, bytes]:
    """All pictures of a solution as PNG bytes: states, controls, constraints, certificate, convergence."""
    system = solution.problem.phase.system
    samples = sample(solution.trajectory)
    return {
        "states": _states(solution, system, samples),
        "controls": _controls(solution, system, samples),
        "constraints": _constraints(solution, system, samples),
        "certificate": _certificate(solution),
        "convergence": _convergence(solution),
    }


def sample(trajectory: Trajectory) -> Samples:
    """Evaluate the interpolants on a grid that touches both sides of every knot, so that jumps stay vertical."""
    knots = np.asarray(trajectory.t, float)
    knots = np.unique(np.concatenate([knots, np.asarray(trajectory.t_u, float)]))
    knots = knots[(knots >= trajectory.t[0]) & (knots <= trajectory.t[-1])] if len(trajectory.t) else knots[:0]
    if len(knots) > 1:
        per = int(np.clip(TARGET_SAMPLES // (len(knots) - 1), FEWEST_SAMPLES, MOST_SAMPLES))
        inside = np.linspace(1e-9, 1.0 - 1e-9, per)
        t = (knots[:-1, None] + np.diff(knots)[:, None] * inside).ravel()
        t[0], t[-1] = knots[0], knots[-1]
    else:
        t = knots
    x = np.asarray(trajectory.state(t), float).reshape(len(t), -1)
    u = np.asarray(trajectory.control(t), float).reshape(len(t), -1)
    return Samples(t, x, u)


# ------------------------------------------------------------------------------------------------ states, controls
def panels(names: Sequence[str], units: Mapping[str, str], quaternions: Sequence[int] = (), most: int = MOST_PANELS,
           offset: int = 0) -> list[Panel]:
    """Group named quantities into at most about ``most`` panels: a quaternion in one, otherwise one each, or
    several of the same unit when there are many. ``offset`` is the column of the first name."""
    single: list[list[int]] = []
    k = 0
    per = int(np.ceil((len(names) - 3 * len(quaternions)) / most))
    while k < len(names):
        if offset + k in quaternions:
            single.append([k, k + 1, k + 2, k + 3])
            k += 4
            continue
        last = single[-1] if single else []
        unit = units.get(names[k], "")
        if last and offset + last[0] not in quaternions and len(last) < per and units.get(names[last[0]], "") == unit:
            last.append(k)
        else:
            single.append([k])
        k += 1
    out = []
    for group in single:
        title, labels = _shared([names[i] for i in group])
        out.append(Panel(title, tuple(offset + i for i in group), labels, units.get(names[group[0]], "")))
    return out


def _shared(names: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """A title for several names and what tells them apart: the common stem up to a separator, and the rests."""
    if len(names) == 1:
        return names[0], ("",)
    stem = names[0]
    for name in names[1:]:
        while not name.startswith(stem):
            stem = stem[:-1]
    stem = stem[: max((stem.rfind(s) for s in "._[ /"), default=-1) + 1]
    title = stem.rstrip("._[ /") or f"{names[0]} … {names[-1]}"
    return title, tuple(n[len(stem):].rstrip("]") for n in names)


def _state_groups(system: System) -> list[tuple[str, list[Panel]]]:
    names, units = system.space.names, system.units
    if system.model is not None:
        split = system.model.nq
    else:
        half = len(names) // 2
        rates = [units.get(a, "") + "/s" == units.get(b, "") for a, b in zip(names[:half], names[half:], strict=False)]
        split = half if half and len(names) % 2 == 0 and all(rates) else len(names)
    if split == len(names):
        return [("states", panels(names, units, system.space.quaternions))]
    return [("positions", panels(names[:split], units, system.space.quaternions, MOST_PANELS // 2)),
            ("velocities", panels(names[split:], units, (), MOST_PANELS // 2, offset=split))]


def _states(solution: Solution, system: System, samples: Samples) -> bytes:
    phase, trajectory = solution.problem.phase, solution.trajectory
    sheet = _Sheet(_state_groups(system))
    for axes, panel in sheet.panels():
        _lines(axes, panel, samples.t, samples.x, phase.x_lower, phase.x_upper, (trajectory.t, trajectory.x))
    return sheet.png()


def _controls(solution: Solution, system: System, samples: Samples) -> bytes:
    phase, trajectory = solution.problem.phase, solution.trajectory
    if not system.controls:
        return _sentence("This system has no controls.")
    sheet = _Sheet([("controls", panels(system.controls, system.units))])
    for axes, panel in sheet.panels():
        _lines(axes, panel, samples.t, samples.u, phase.u_lower, phase.u_upper, (trajectory.t_u, trajectory.u))
    return sheet.png()


def _lines(axes: Any, panel: Panel, t: np.ndarray, values: np.ndarray, lower: Sequence[float], upper: Sequence[float],
           knots: tuple[np.ndarray, np.ndarray] | None, tolerance: float = 0.0) -> None:
    """Draw one panel: forbidden stripes, lines, knots, violated stretches, direct labels."""
    cols = list(panel.columns)
    data = _drawable(values[:, cols])
    low, high = np.asarray(lower, float)[cols], np.asarray(upper, float)[cols]
    common = bool(len(cols)) and np.ptp(np.nan_to_num(low, neginf=-HUGE)) == 0 == np.ptp(np.nan_to_num(high, posinf=HUGE))
    bottom, top = _limits(data, low[:1] if common else low, high[:1] if common else high)
    axes.set_ylim(bottom, top)
    for bound, edge in ((low, bottom), (high, top)):
        for k, value in enumerate(bound[:1] if common else bound):
            if not bottom < value < top:
                continue
            if common:
                axes.axhspan(value, edge, color=FORBIDDEN, alpha=0.22, lw=0, zorder=0.5)
            axes.axhline(value, color=SOFT if common else PALETTE[k % len(PALETTE)], lw=0.8, zorder=1,
                         ls="-" if common else (0, (3, 2)))
    many = len(cols) > MOST_LINES
    for k in range(len(cols)):
        colour = PALETTE[0 if many else k % len(PALETTE)]
        axes.plot(t, data[:, k], color=colour, lw=1.0 if many else 1.5, alpha=0.6 if many else 1.0, zorder=3)
        if knots is not None and len(knots[0]) <= MOST_KNOT_DOTS:
            axes.plot(knots[0], _drawable(np.asarray(knots[1], float)[:, cols[k]]), ls="", marker="o", ms=2.6, mew=0,
                      color=colour, zorder=4)
        bad = (data[:, k] < low[k] - tolerance) | (data[:, k] > high[k] + tolerance)
        if tolerance > 0 and bad.any():
            axes.plot(t, np.where(bad, data[:, k], np.nan), color=FAIL, lw=2.6, zorder=5, solid_capstyle="round",
                      marker="o", ms=2.0, mew=0)
    if len(cols) > 1 and not many:
        _direct_labels(axes, data, panel.labels)


def _direct_labels(axes: Any, data: np.ndarray, labels: Sequence[str]) -> None:
    """Names at the right end of their lines, pushed apart where they would overlap."""
    bottom, top = axes.get_ylim()
    finite = np.isfinite(data)
    ends = [data[f, k][-1] if (f := finite[:, k]).any() else (bottom + top) / 2 for k in range(data.shape[1])]
    place = (np.clip(ends, bottom, top) - bottom) / (top - bottom)
    order, gap = np.argsort(place, kind="stable"), min(0.15, 1.0 / max(1, len(labels)))
    spread = place[order].copy()
    for k in range(1, len(spread)):
        spread[k] = max(spread[k], spread[k - 1] + gap)
    spread -= max(0.0, spread[-1] - 1.0)
    for k in range(len(spread) - 2, -1, -1):
        spread[k] = min(spread[k], spread[k + 1] - gap)
    for at, k in zip(spread, order, strict=True):
        axes.text(1.02, at, labels[k], transform=axes.transAxes, color=PALETTE[k % len(PALETTE)], fontsize=7.5,
                  va="center", parse_math=False)


# ------------------------------------------------------------------------------------------------ constraints
def _constraints(solution: Solution, system: System, samples: Samples) -> bytes:
    phase = solution.problem.phase
    tolerances = {v.name: v.tolerance for v in solution.certificate.violations} if solution.certificate else {}
    path = [c for c in phase.constraints if c.at is At.PATH]
    ends = [c for c in phase.constraints if c.at is not At.PATH]
    shown, left = path[:MOST_PANELS], path[MOST_PANELS:]
    groups: list[tuple[str, list[Panel]]] = []
    drawn: list[tuple[Panel, np.ndarray, np.ndarray, np.ndarray, float]] = []
    for c in shown:
        values, low, high, labels = _values(c, system, samples.t, samples.x, samples.u)
        panel = Panel(c.name + (" (soft)" if c.soft is not None else ""), tuple(range(values.shape[1])), labels,
                      system.units.get(c.name, ""))
        drawn.append((panel, values, low, high, tolerances.get(c.name, 1e-6)))
    if drawn:
        groups.append(("along the path" + (f" (first {len(shown)} of {len(path)})" if left else ""), [d[0] for d in drawn]))
    if ends and len(samples.t):
        groups.append(("at the ends", [Panel(f"{c.name} ({c.at.value})", (), (), system.units.get(c.name, ""))
                                       for c in ends[:MOST_PANELS]]))
    margins = _margins(phase, samples)
    if margins is not None:
        groups.append(("bounds of states and controls", [Panel("place within the bounds: 0 lower, 1 upper", (), ())]))
    if not groups:
        return _sentence("This problem has no constraints and no two-sided bounds.")
    sheet = _Sheet(groups)
    for k, (axes, panel) in enumerate(sheet.panels()):
        if k < len(drawn):
            _, values, low, high, tolerance = drawn[k]
            _lines(axes, panel, samples.t, values, low, high, None, tolerance)
        elif panel.title.startswith("place within") and margins is not None and k == sheet.count - 1:
            names, values = margins
            wide = Panel(panel.title, tuple(range(len(names))), tuple(names))
            _lines(axes, wide, samples.t, values, np.zeros(len(names)), np.ones(len(names)), None, 1e-6)
        else:
            _end_constraint(axes, ends[k - len(drawn)], system, samples, tolerances)
    return sheet.png()


def _values(c: Constraint, system: System, t: np.ndarray, x: np.ndarray,
            u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[str, ...]]:
    """Values [k, n] of a constraint with bounds [n] and component names; a cone becomes ``|c[1:]| - c[0] <= 0``."""
    p = np.asarray(system.parameter_values, float).reshape(-1, 1)
    raw = np.asarray(c.function(t[None, :], x.T, u.T, p), float).T.reshape(len(t), -1)
    if c.sense is Sense.CONE:
        return (np.linalg.norm(raw[:, 1:], axis=1) - raw[:, 0])[:, None], np.array([-np.inf]), np.zeros(1), ("",)
    labels = tuple(n[len(c.name):] for n in c.components())
    return raw, np.asarray(c.lower, float), np.asarray(c.upper, float), labels


def _end_constraint(axes: Any, c: Constraint, system: System, samples: Samples, tolerances: Mapping[str, float]) -> None:
    """A constraint at one end: each component a dot beside the range it must lie in."""
    at = slice(0, 1) if c.at is At.START else slice(-1, None)
    values, low, high, _ = _values(c, system, samples.t[at], samples.x[at], samples.u[at])
    value, tolerance = _drawable(values[0]), tolerances.get(c.name, 1e-6)
    bottom, top = _limits(value, low, high)
    axes.set_ylim(bottom, top)
    place = np.arange(len(value))
    axes.set_xlim(-0.6, len(value) - 0.4)
    axes.set_xticks(place, [f"[{k}]" if len(value) > 1 else "" for k in place])
    axes.tick_params(labelbottom=True)
    clear_low, clear_high = np.clip(low, bottom, top), np.clip(high, bottom, top)
    axes.vlines(place, clear_low, clear_high, color=GRID, lw=7, zorder=1)
    axes.hlines(np.concatenate([clear_low, clear_high]), np.tile(place - 0.18, 2), np.tile(place + 0.18, 2), color=SOFT,
                lw=1.0, zorder=2)
    bad = ~((value >= low - tolerance) & (value <= high + tolerance))
    axes.scatter(place, value, s=26, c=[FAIL if b else PALETTE[0] for b in bad], zorder=4, lw=0)


def _margins(phase: Any, samples: Samples) -> tuple[list[str], np.ndarray] | None:
    """States and controls with two finite bounds, scaled to 0 at the lower and 1 at the upper: [k, n]."""
    names = [*phase.system.space.names, *phase.system.controls]
    low = np.array([*phase.x_lower, *phase.u_lower], float)
    high = np.array([*phase.x_upper, *phase.u_upper], float)
    use = np.isfinite(low) & np.isfinite(high) & (high > low)
    if not use.any():
        return None
    values = np.hstack([samples.x, samples.u])[:, use]
    return [n for n, w in zip(names, use, strict=True) if w], (values - low[use]) / (high[use] - low[use])


# ------------------------------------------------------------------------------------------------ certificate
def _certificate(solution: Solution) -> bytes:
    certificate = solution.certificate
    if certificate is None:
        return _sentence("This solution carries no certificate.")
    rows = [(c.name, c.value, c.tolerance, c.holds, False) for c in certificate.checks]
    rows += [(v.name, v.at_knots, v.tolerance, v.holds, v.soft) for v in certificate.violations]
    gaps = _drawable(np.asarray(solution.extra.get("gap_segments", ()), float).ravel())
    with_gaps = len(gaps) == len(solution.trajectory.t) - 1 and len(gaps) > 0
    height = 0.95 + 0.27 * len(rows) + (2.1 if with_gaps else 0.0)
    figure = _figure(height)
    axes = _axes(figure, (3.0, (2.45 if with_gaps else 0.55), WIDTH - 4.9, 0.27 * len(rows)))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.array([value / tolerance if tolerance > 0 else (0.0 if value <= 0 else np.inf)
                          for _, value, tolerance, _, _ in rows], float)
    seen = ratio[np.isfinite(ratio) & (ratio > 0)]
    floor = 10.0 ** np.clip(np.floor(np.log10(seen.min(initial=1e-1))) - 0.5, -14, -2)
    ceiling = 10.0 ** np.clip(np.ceil(np.log10(seen.max(initial=1.0))) + 0.7, 1, 14)
    shown = np.clip(np.where(np.isfinite(ratio), ratio, ceiling), floor * 1.15, ceiling)
    place = np.arange(len(rows))[::-1]
    axes.set_xscale("log")
    axes.set_xlim(floor, ceiling)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.barh(place, shown - floor, left=floor, height=0.56, color=[PASS if r[3] else FAIL for r in rows], lw=0, zorder=3)
    axes.axvline(1.0, color=INK, lw=1.2, zorder=4)
    axes.axvspan(1.0, ceiling, color=FORBIDDEN, alpha=0.18, lw=0, zorder=0.5)
    axes.set_yticks(place, [""] * len(rows))
    axes.grid(False, axis="y")
    for (name, value, tolerance, holds, soft), y in zip(rows, place, strict=True):
        axes.text(-0.012, y, _clip_text(name, 40), transform=axes.get_yaxis_transform(), ha="right", va="center", fontsize=8.5,
                  color=INK if holds else FAIL, parse_math=False)
        number = "not computed" if np.isnan(value) else f"{value:.1e} of {tolerance:.0e}{', soft' if soft else ''}"
        axes.text(1.012, y, number, transform=axes.get_yaxis_transform(), va="center", fontsize=8,
                  color=SOFT if holds else FAIL)
    figure.text(3.0 / WIDTH, 1 - 0.22 / height, "residual ÷ tolerance", fontsize=9.5, color=INK, weight="bold")
    figure.text((WIDTH - 1.9) / WIDTH, 1 - 0.22 / height, "left of the line: holds", fontsize=8, color=SOFT, ha="right")
    if with_gaps:
        below = _axes(figure, (3.0, 0.5, WIDTH - 4.9, 1.25))
        t, tolerance = solution.trajectory.t, certificate.gap_segment.tolerance
        values = np.maximum(gaps, tolerance * 1e-9)
        below.set_yscale("log")
        below.bar(t[:-1], values, width=np.diff(t) * 0.86, align="edge", lw=0, zorder=3,
                  color=[PASS if g <= tolerance else FAIL for g in gaps])
        below.axhline(tolerance, color=INK, lw=1.0, zorder=4)
        below.set_xlim(t[0], t[-1])
        below.set_xlabel("time [s]", fontsize=8, color=SOFT)
        figure.text(3.0 / WIDTH, 1.82 / height, "re-integration gap per segment", fontsize=9.5, color=INK, weight="bold")
    return _png(figure)


# ------------------------------------------------------------------------------------------------ convergence
def _convergence(solution: Solution) -> bytes:
    rows = solution.iterations
    if not rows:
        return _sentence("The method recorded no iterations.")
    chosen = columns(solution.method, rows)
    series = {c: _drawable(np.array([_number(r.get(c.key)) for r in rows])) for c in chosen}
    number = np.arange(len(rows), dtype=float)
    wanted = (("objective", ("objective",), False), ("residuals", ("residual",), True),
              ("steps and regularisation", ("step", "weight"), True))
    parts = [(title, [c for c in chosen if c.role in roles and np.isfinite(series[c]).any()], log) for title, roles, log in wanted]
    parts = [part for part in parts if part[1]]
    if not parts:
        return _sentence("The iteration log holds nothing to plot.")
    height, gap, left = 2.9, 1.15, 0.75
    figure = _figure(height)
    wide = (WIDTH - left - gap * len(parts) + 0.25) / len(parts)
    for k, (title, members, log) in enumerate(parts):
        axes = _axes(figure, (left + k * (wide + gap), 0.55, wide, height - 1.0))
        data = np.stack([series[c] for c in members], axis=1)
        if log:
            data = np.where(data > 0, data, np.nan)
            axes.set_yscale("log")
            if not np.isfinite(data).any():
                data = np.full_like(data, 1.0)
        else:
            axes.set_ylim(*_limits(data, np.array([]), np.array([])))
        for j in range(len(members)):
            axes.plot(number, data[:, j], color=PALETTE[j % len(PALETTE)], lw=1.5, marker="o", mew=0, zorder=3,
                      ms=3.0 if len(rows) <= 80 else 0.0)
        axes.set_xlim(-0.02 * len(rows), max(1.0, len(rows) - 1) + 0.02 * len(rows))
        axes.set_title(title, loc="left", fontsize=9.5, color=INK, weight="bold")
        axes.set_xlabel("iteration", fontsize=8, color=SOFT)
        if log or len(members) > 1:
            bottom, top = axes.get_ylim()
            scale = np.log10 if log else np.asarray
            flat = np.clip((scale(data) - scale(bottom)) / (scale(top) - scale(bottom)), 0, 1)
            _label_fractions(axes, flat, [c.title for c in members])
    return _png(figure)


def _label_fractions(axes: Any, flat: np.ndarray, labels: Sequence[str]) -> None:
    """Direct labels for lines whose heights are given as fractions of the axes."""
    view = _Unit(axes)
    _direct_labels(view, flat, labels)


@dataclass(frozen=True)
class _Unit:
    """Axes seen through a vertical range of 0 to 1."""

    axes: Any

    def get_ylim(self) -> tuple[float, float]:
        return 0.0, 1.0

    def text(self, *args: Any, **options: Any) -> Any:
        return self.axes.text(*args, **options)

    @property
    def transAxes(self) -> Any:  # noqa: N802 - Matplotlib's name
        return self.axes.transAxes


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")
