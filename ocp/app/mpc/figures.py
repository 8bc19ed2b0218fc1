"""The pictures of a closed loop: tracking, states, controls, step times, each as PNG bytes."""

from __future__ import annotations

from functools import partial

import numpy as np

from ocp.app.pages import sheet
from ocp.app.pages.plots import MOST_PANELS, bundle, stem
from ocp.app.pages.sheet import Cell, Group
from ocp.mpc import ClosedLoop
from ocp.mpc.evaluate import TOLERANCE

CAPTIONS = {
    "tracking": ("Tracking", "Each tracked quantity beside its reference, and the length of the error."),
    "states": ("States of the plant", "At every substep. Shaded: forbidden by a bound. Red: beyond it."),
    "controls": ("Controls", "As applied, held between substeps. Shaded: forbidden by a bound."),
    "times": ("Step times", "Wall time of the solver in every step, on a logarithmic axis, and how often each was taken. "
              "Red: the deadline, one sampling period."),
}
BARS = 60
_cell = partial(sheet.line_cell, tolerance=TOLERANCE)


def plot_loop(loop: ClosedLoop) -> dict[str, bytes]:
    """All pictures of a run as PNG bytes, by the names in CAPTIONS."""
    with np.errstate(over="ignore", invalid="ignore"):  # a diverged motion is drawn as far as it goes
        return {"tracking": plot_tracking(loop), "states": plot_states(loop), "controls": plot_controls(loop),
                "times": plot_times(loop)}


def _span(loop: ClosedLoop) -> tuple[float, float]:
    return float(loop.fine_t[0]), float(loop.fine_t[-1])


# ---- lines over time ----------------------------------------------------------------------------------------------------
def plot_tracking(loop: ClosedLoop) -> bytes:
    """Quantities over their references, and errors."""
    if not loop.tracking:
        return sheet.sentence("The file tracks no quantity; name some under mpc.track.")
    quantities: list[Cell] = []
    errors: list[Cell] = []
    for item in loop.tracking:
        pick = sheet.thinned(len(item.value))
        t = loop.fine_t[: len(item.value)][pick]
        for i in range(item.value.shape[1]):
            both = np.column_stack([item.reference[pick, i], item.value[pick, i]])
            title = item.name if item.value.shape[1] == 1 else f"{item.name}[{i}]"
            quantities.append(_cell(title, item.unit, t, both, ("reference", "plant")))
        distance = np.linalg.norm(item.value[pick] - item.reference[pick], axis=1)[:, None]
        errors.append(_cell(f"|error| of {item.name}", item.unit, t, distance, ("",)))
    return sheet.sheet([Group("quantities", tuple(quantities[:MOST_PANELS]), columns=min(3, len(quantities))),
                        Group("errors", tuple(errors[:MOST_PANELS]))], _span(loop))


def plot_states(loop: ClosedLoop) -> bytes:
    """States in small multiples, those of a robot in two groups; where a state is tracked, its reference beside it."""
    phase = loop.problem.phase
    system, space, pick = phase.system, phase.system.space, sheet.thinned(len(loop.fine_t))
    t, x = loop.fine_t[pick], loop.fine_x[pick]
    low, high = np.array(phase.x_lower), np.array(phase.x_upper)
    references = {item.state: item.reference for item in loop.tracking if item.state is not None}
    split = system.model.nq if system.model is not None else None
    parts = [("states", range(space.nx))] if split is None else [
        ("configuration", range(split)), ("velocities", range(split, space.nx))]
    groups = []
    for heading, members in parts:
        cells = []
        for columns in bundle(space.names, members, system.units, space.quaternions, MOST_PANELS // len(parts)):
            title, labels = stem([space.names[i] for i in columns])
            values, bounds = x[:, columns], (low[columns], high[columns])
            if len(columns) == 1 and columns[0] in references:
                reference = np.full(len(loop.fine_t), np.nan)
                known = references[columns[0]].ravel()
                reference[: len(known)] = known
                values, labels = np.column_stack([reference[pick], values]), ("reference", "plant")
                bounds = (np.repeat(bounds[0], 2), np.repeat(bounds[1], 2))
            cells.append(_cell(title, system.units.get(space.names[columns[0]], ""), t, values, labels, bounds))
        groups.append(Group(heading, tuple(cells)))
    return sheet.sheet(groups, _span(loop))


def plot_controls(loop: ClosedLoop) -> bytes:
    """Controls as they were applied."""
    phase = loop.problem.phase
    system = phase.system
    if not system.controls or not len(loop.fine_u):
        return sheet.sentence("There are no controls to draw.")
    pick = sheet.thinned(len(loop.fine_u))
    starts, u = loop.fine_t[:-1][pick], loop.fine_u[pick]
    # both sides of every jump, so that a held control is drawn as held
    t = np.append(np.repeat(starts, 2)[1:], loop.fine_t[-1])
    held = np.repeat(u, 2, axis=0)
    low, high = np.array(phase.u_lower), np.array(phase.u_upper)
    cells = []
    for columns in bundle(system.controls, range(len(system.controls)), system.units, (), MOST_PANELS):
        title, labels = stem([system.controls[i] for i in columns])
        cells.append(_cell(title, system.units.get(system.controls[columns[0]], ""), t, held[:, columns], labels,
                           (low[columns], high[columns])))
    return sheet.sheet([Group("controls", tuple(cells))], _span(loop))


# ---- step times ---------------------------------------------------------------------------------------------------------
def plot_times(loop: ClosedLoop) -> bytes:
    """Every step's wall time against the deadline, and their distribution."""
    if not len(loop.seconds):
        return sheet.sentence("No step was taken.")
    level = np.log10(np.maximum(loop.seconds, 1e-9) * 1e6)
    deadline = float(np.log10(loop.options.period * 1e6))
    low, high = min(float(level.min()), deadline) - 0.15, max(float(level.max()), deadline) + 0.15
    height, bottom, gap = 2.9, 0.5, 0.75
    fig = sheet.figure(height)
    left, wide = 0.72, (sheet.WIDTH - 0.72 - gap - 0.3) * 0.62
    ax = sheet.axes(fig, (left, bottom, wide, height - 0.95))
    ax.set_xlim(*_span(loop))
    ax.set_ylim(low, high)
    ax.plot(loop.t[:-1], level, ls="", marker="o", ms=1.6, mew=0, color=sheet.PALETTE[0], zorder=3)
    late = level > deadline
    ax.plot(loop.t[:-1][late], level[late], ls="", marker="o", ms=3.2, mew=0, color=sheet.FAIL, zorder=4)
    ax.axhline(deadline, color=sheet.FAIL, lw=1.2, zorder=2)
    sheet.ticks(ax, "linear", "log")
    sheet.caption(fig, left, height - 0.2, "time of each step [µs]")
    other = sheet.axes(fig, (left + wide + gap, bottom, sheet.WIDTH - left - wide - gap - 0.3, height - 0.95))
    counts, edges = np.histogram(level, bins=np.linspace(low, high, BARS + 1))
    drawn = np.log10(np.maximum(counts, 0.5))
    other.set_xlim(low, high)
    other.set_ylim(np.log10(0.5), max(1.0, float(drawn.max())) + 0.1)
    colours = [sheet.FAIL if edge >= deadline else sheet.PALETTE[0] for edge in edges[:-1]]
    other.bar(edges[:-1], drawn - np.log10(0.5), bottom=np.log10(0.5), width=np.diff(edges) * 0.9, align="edge", lw=0, zorder=3,
              color=colours)
    other.axvline(deadline, color=sheet.FAIL, lw=1.2, zorder=4)
    sheet.ticks(other, "log", "log")
    sheet.caption(fig, left + wide + gap, height - 0.2, "number of steps by time [µs]")
    fig.text((left + wide) / sheet.WIDTH, 0.13 / height, "simulated time [s]", fontsize=8, color=sheet.SOFT, ha="right")
    return sheet.png(fig)

