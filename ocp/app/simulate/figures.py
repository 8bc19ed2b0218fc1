"""The pictures of a simulation: energy, drift of constraints, states, controls, constraints, each as PNG bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ocp.app.pages import plots, sheet
from ocp.app.pages.legs import legs
from ocp.app.pages.sheet import Axes, Cell, Group, line_cell
from ocp.app.simulate.findings import Drift, Energy
from ocp.problem import Solution

CAPTIONS = {
    "energy": ("Energy", "Total energy, where the system tells them apart its potential and kinetic parts, and the energy at the "
               "start with what drives supplied since. Below: what the total has too much, the work of the integrator itself."),
    "drift": ("Drift of constraints", "The largest row of each constraint of the mechanism, on a logarithmic axis."),
    "states": ("States", "Dots: the ends of steps. Shaded: forbidden by a bound of the problem."),
    "controls": ("Controls", "As applied, held over each step. Shaded: forbidden by a bound of the problem."),
    "constraints": ("Constraints", "The path constraints of the problem, which nothing enforces here. Red: violated."),
}
MOST_POINTS = 4000
TINY = 1e-18


def plot_motion(solution: Solution, energy: Energy | None, drift: Sequence[Drift]) -> dict[str, bytes]:
    """All pictures by the names in CAPTIONS; those of energy and drift only where there is something to draw."""
    motion = [plots.Drawn(leg.phase, leg.trajectory, plots.sample(leg.trajectory)) for leg in legs(solution)]
    span = (motion[0].samples.span[0], motion[-1].samples.span[1])
    marks = [(one.samples.span[0], one.phase.name) for one in motion] if len(motion) > 1 else []
    found = {}
    with np.errstate(over="ignore", invalid="ignore"):
        if energy is not None:
            found["energy"] = plot_energy(energy, span, marks)
        if drift:
            found["drift"] = plot_drift(drift, span, marks)
        found |= {"states": plots.plot_states(motion), "controls": plots.plot_controls(motion)}
        if any(c.at.value == "path" for one in motion for c in one.phase.constraints):
            found["constraints"] = plots.plot_constraints(motion, None)
    return found


def plot_energy(energy: Energy, span: tuple[float, float], marks: sheet.Marks) -> bytes:
    """Energies, and the balance."""
    pick = slice(None, None, max(1, len(energy.t) // MOST_POINTS))
    columns = {"total": energy.total, "start + work": energy.total[0] + energy.supplied}
    if energy.potential is not None:
        columns |= {"potential": energy.potential, "kinetic": energy.total - energy.potential}
    data = np.column_stack(list(columns.values()))[pick]
    balance = (energy.total - energy.total[0] - energy.supplied)[pick, None]
    return sheet.sheet([Group("energy [J]", (line_cell("", "", energy.t[pick], data, tuple(columns)),)),
                        Group("total less start and work [J]", (line_cell("", "", energy.t[pick], balance, ("",)),))], span, marks)


def plot_drift(drift: Sequence[Drift], span: tuple[float, float], marks: sheet.Marks) -> bytes:
    """Gaps and rates of every constraint."""
    groups = []
    for heading, which in (("gap, as a power of ten [m, rad]", "gap"), ("rate, as a power of ten [m/s, rad/s]", "rate")):
        cells = []
        for one in drift[:plots.MOST_PANELS]:
            sizes = getattr(one, which)
            if np.isfinite(sizes).any():
                pick = slice(None, None, max(1, len(one.t) // MOST_POINTS))
                cells.append(_log_cell(one.name, one.t[pick], sizes[pick]))
        if cells:
            groups.append(Group(heading, tuple(cells)))
    return sheet.sheet(groups, span, marks) if groups else sheet.sentence("The constraints have no rows that move.")


def _log_cell(title: str, t: np.ndarray, sizes: np.ndarray) -> Cell:
    level = np.log10(np.maximum(sizes, TINY))

    def draw(ax: Axes) -> None:
        low, high = float(np.nanmin(level)), float(np.nanmax(level))
        ax.set_ylim(low - 0.3, max(high, low + 1.0) + 0.3)
        ax.plot(t, level, lw=1.4, color=sheet.PALETTE[0], zorder=3)

    return Cell(title, draw)
