"""The motions of all methods laid over each other: every state and control in a panel, one colour for each method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ocp.app.compare.records import Comparison
from ocp.app.pages import sheet
from ocp.app.pages.legs import Leg, legs, union
from ocp.app.pages.plots import sample

MOST_PANELS = 24
DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)))


@dataclass(frozen=True)
class _Line:
    """One component of one run: t [k] and values [k], NaN between phases."""

    t: np.ndarray
    values: np.ndarray


def overlay(found: Comparison) -> bytes | None:
    """PNG bytes; None where no run left a finite motion."""
    runs = [(e.spec.label, legs(e.solution)) for e in found.solved if e.solution is not None
            and np.all(np.isfinite(e.solution.trajectory.x))]
    if not runs:
        return None
    first = runs[0][1]
    units = {name: unit for leg in first for name, unit in leg.phase.system.units.items()}
    states = union([leg.phase.system.space.names for leg in first])
    controls = union([leg.phase.system.inputs for _, found_legs in runs for leg in found_legs])
    parts = [("states", states, "x"), ("controls", controls, "u")]
    shown = {heading: names[: MOST_PANELS] for heading, names, _ in parts}
    rows = sum(-(-len(names) // sheet.MOST_COLUMNS) for names in shown.values())
    cell, gap, head, after = (1.5 if rows <= 3 else 1.15), 0.3, 0.3, 0.35
    sections = [-(-len(names) // sheet.MOST_COLUMNS) for names in shown.values() if names]
    height = 0.35 + 0.24 * ((len(runs) - 1) // 3) + sum(head + k * cell + (k - 1) * gap + after for k in sections) + 0.2
    fig = sheet.figure(height)
    y = _legend(fig, [label for label, _ in runs], height)
    end = max(found_legs[-1].span[1] for _, found_legs in runs)
    for heading, names, which in parts:
        names = shown[heading]
        if not names:
            continue
        sheet.caption(fig, 0.62, y - 0.12, heading)
        y -= head
        across = min(sheet.MOST_COLUMNS, len(names))
        wide = (sheet.WIDTH - 0.62 - 0.25 - 0.66 * (across - 1)) / across
        for k, name in enumerate(names):
            if k % across == 0:
                y -= cell + (gap if k else 0.0)
            ax = sheet.axes(fig, (0.62 + (k % across) * (wide + 0.66), y, wide, cell - 0.25))
            unit = f"  [{units[name]}]" if units.get(name) else ""
            ax.text(0.0, 1.0 + 0.06 / (cell - 0.25), sheet.plain(sheet.clip_text(name, int(wide * 12)) + unit),
                    transform=ax.transAxes, fontsize=8.5, color=sheet.INK)
            ax.set_xlim(-0.012 * end, 1.012 * end)
            lines = [_line(found_legs, name, which) for _, found_legs in runs]
            values = np.concatenate([sheet.drawable(line.values) for line in lines])
            none = np.zeros(0)
            ax.set_ylim(*sheet.limits(values, none, none))
            for i, line in enumerate(lines):
                ax.plot(line.t, sheet.drawable(line.values), **_style(i), lw=1.5 if i == 0 else 1.2, zorder=3 + i / 100)
            sheet.ticks(ax)
        y -= after
    fig.text((sheet.WIDTH - 0.25) / sheet.WIDTH, 0.1 / height, "time [s]", fontsize=8, color=sheet.SOFT, ha="right")
    return sheet.png(fig)


def _style(i: int) -> dict[str, object]:
    count = len(sheet.PALETTE)
    return {"color": sheet.PALETTE[i % count], "ls": DASHES[min(i // count if i >= count else int(i > 0), len(DASHES) - 1)]}


def _legend(fig: sheet.Figure, labels: Sequence[str], height: float) -> float:
    """A line and a name for each run at the top; returns the height [inches] that is left."""
    from matplotlib.lines import Line2D

    wide = (sheet.WIDTH - 0.62 - 0.25) / 3
    y = height - 0.2
    for i, label in enumerate(labels):
        x, at = 0.62 + (i % 3) * wide, y - 0.24 * (i // 3)
        fig.add_artist(Line2D([x / sheet.WIDTH, (x + 0.34) / sheet.WIDTH], [at / height] * 2, lw=2.0, **_style(i)))
        fig.text((x + 0.42) / sheet.WIDTH, at / height, sheet.plain(sheet.clip_text(label, int((wide - 0.5) * 14))), fontsize=8.5,
                 color=sheet.INK, va="center")
    return y - 0.24 * ((len(labels) - 1) // 3) - 0.15


def _line(found: Sequence[Leg], name: str, which: str) -> _Line:
    """A component over all phases of a run; what a phase lacks is a gap."""
    t: list[np.ndarray] = []
    values: list[np.ndarray] = []
    gap = np.array([np.nan])
    for leg in found:
        own = leg.phase.system.space.names if which == "x" else leg.phase.system.inputs
        samples = sample(leg.trajectory)
        columns = samples.x if which == "x" else samples.u
        t += [samples.t, gap]
        values += [columns[:, own.index(name)] if name in own else np.full(len(samples.t), np.nan), gap]
    return _Line(np.concatenate(t[:-1]), np.concatenate(values[:-1]))
