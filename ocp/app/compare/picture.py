"""The motions of all methods laid over each other: every state and control in a panel, one colour for each method."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ocp.app.compare.records import Comparison
from ocp.app.pages import sheet
from ocp.app.pages.legs import Leg, legs, union
from ocp.app.pages.plots import sample
from ocp.app.pages.sheet import Axes, Cell, Group

MOST_PANELS, ABREAST = 24, 3
DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)))
Line = tuple[np.ndarray, np.ndarray]  # t [k] and values [k], NaN between phases


def overlay(found: Comparison) -> bytes | None:
    """PNG bytes; None where no run left a finite motion."""
    runs = [(e.spec.label, legs(e.solution)) for e in found.solved if e.solution is not None
            and np.all(np.isfinite(e.solution.trajectory.x))]
    if not runs:
        return None
    labels, motions = [label for label, _ in runs], [motion for _, motion in runs]
    units = {name: unit for leg in motions[0] for name, unit in leg.phase.system.units.items()}
    names = {"x": union([leg.phase.system.space.names for leg in motions[0]]),
             "u": union([leg.phase.system.inputs for motion in motions for leg in motion])}
    groups = [Group("methods", (Cell("", partial(_legend, labels), time=False, bare=True),), 1)]
    for heading, which in (("states", "x"), ("controls", "u")):
        cells = tuple(Cell(name, partial(_draw, [_line(motion, name, which) for motion in motions]), units.get(name, ""))
                      for name in names[which][:MOST_PANELS])
        groups += [Group(heading, cells)] if cells else []
    return sheet.sheet(groups, (0.0, max(motion[-1].span[1] for motion in motions)))


def _style(i: int) -> dict[str, Any]:
    count = len(sheet.PALETTE)
    return {"color": sheet.PALETTE[i % count], "ls": DASHES[min(i // count if i >= count else int(i > 0), len(DASHES) - 1)]}


def _legend(labels: Sequence[str], ax: Axes) -> None:
    """A line and a name for each run, some abreast."""
    rows = -(-len(labels) // ABREAST)
    ax.set_xlim(0, ABREAST)
    ax.set_ylim(-0.5, rows - 0.5)
    for i, label in enumerate(labels):
        x, y = i % ABREAST, rows - 1 - i // ABREAST
        ax.plot([x, x + 0.1], [y, y], lw=2.0, **_style(i))
        ax.text(x + 0.13, y, sheet.plain(sheet.clip_text(label, 44)), fontsize=8.5, color=sheet.INK, va="center")


def _draw(lines: Sequence[Line], ax: Axes) -> None:
    drawn = [(t, sheet.drawable(values)) for t, values in lines]
    ax.set_ylim(*sheet.limits(np.concatenate([values for _, values in drawn]), np.zeros(0), np.zeros(0)))
    for i, (t, values) in enumerate(drawn):
        ax.plot(t, values, **_style(i), lw=1.2 if i else 1.5, zorder=3 + i / 100)


def _line(motion: Sequence[Leg], name: str, which: str) -> Line:
    """A component over all phases of a run; what a phase lacks is a gap."""
    t: list[np.ndarray] = []
    values: list[np.ndarray] = []
    gap = np.array([np.nan])
    for leg in motion:
        own = leg.phase.system.space.names if which == "x" else leg.phase.system.inputs
        samples = sample(leg.trajectory)
        columns = samples.x if which == "x" else samples.u
        t += [samples.t, gap]
        values += [columns[:, own.index(name)] if name in own else np.full(len(samples.t), np.nan), gap]
    return np.concatenate(t[:-1]), np.concatenate(values[:-1])
