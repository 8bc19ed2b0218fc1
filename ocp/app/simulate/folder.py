"""The folder of a simulation and its pictures.

``problem.yaml`` (the input, fully expanded), ``trajectory.npz`` and ``trajectory.csv`` (states at the ends of steps, controls
constant over them; ``energy`` and ``supplied`` at the same times), ``summary.json``, plots and ``report.html``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ocp.app.files.load import LoadedProblem
from ocp.app.files.problem.portable import portable
from ocp.app.pages import plots, sheet
from ocp.app.pages.folders import jsonable, write_arrays
from ocp.app.pages.legs import legs
from ocp.app.pages.report import motion as animated
from ocp.app.pages.report import write_report
from ocp.app.pages.results import solution_arrays, solution_csv
from ocp.app.pages.sheet import Axes, Cell, Group
from ocp.app.pipeline import picture, provenance
from ocp.app.simulate import findings
from ocp.app.simulate.events import Broken
from ocp.app.simulate.findings import Drift, Energy
from ocp.problem import Solution
from ocp.simulation import Motion

CAPTIONS = {
    "energy": ("Energy", "Total energy, where the system tells them apart its potential and kinetic parts, and the energy at the "
               "start with what drives supplied since. Below: what the total has too much, the work of the integrator itself."),
    "drift": ("Drift of constraints", "The largest row of each constraint of the mechanism, on a logarithmic axis."),
    "states": ("States", "Dots: the ends of steps. Shaded: forbidden by a bound of the problem."),
    "controls": ("Controls", "As applied, constant over each step. Shaded: forbidden by a bound of the problem."),
    "constraints": ("Constraints", "The path constraints of the problem, which nothing enforces here. Red: violated."),
}
MIN_DRIFT_SHOWN = 1e-18


def plot_motion(solution: Solution, energy: Energy | None, drift: Sequence[Drift]) -> dict[str, bytes]:
    """All pictures by the names in CAPTIONS; those of energy and drift only where there is something to draw."""
    motion = legs(solution)
    span, marks = plots.span_of(motion), plots.marks_of(motion)
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
    pick = sheet.thinned(len(energy.t))
    columns = {"total": energy.total, "start + work": energy.total[0] + energy.supplied}
    if energy.potential is not None:
        columns |= {"potential": energy.potential, "kinetic": energy.total - energy.potential}
    data = np.column_stack(list(columns.values()))[pick]
    balance = (energy.total - energy.total[0] - energy.supplied)[pick, None]
    return sheet.sheet([Group("energy [J]", (sheet.line_cell("", "", energy.t[pick], data, tuple(columns)),)),
                        Group("total less start and work [J]", (sheet.line_cell("", "", energy.t[pick], balance),))], span, marks)


def plot_drift(drift: Sequence[Drift], span: tuple[float, float], marks: sheet.Marks) -> bytes:
    """Gaps and rates of every constraint."""
    groups = []
    for heading, which in (("gap, as a power of ten [m, rad]", "gap"), ("rate, as a power of ten [m/s, rad/s]", "rate")):
        cells = []
        for one in drift[:plots.MAX_PANELS]:
            sizes = getattr(one, which)
            if np.isfinite(sizes).any():
                pick = sheet.thinned(len(one.t))
                cells.append(_log_cell(one.name, one.t[pick], sizes[pick]))
        if cells:
            groups.append(Group(heading, tuple(cells)))
    return sheet.sheet(groups, span, marks) if groups else sheet.sentence("The constraints hold by construction: none can drift.")


def _log_cell(title: str, t: np.ndarray, sizes: np.ndarray) -> Cell:
    level = np.log10(np.maximum(sizes, MIN_DRIFT_SHOWN))

    def draw(ax: Axes) -> None:
        low, high = float(np.nanmin(level)), float(np.nanmax(level))
        ax.set_ylim(low - 0.3, max(high, low + 1.0) + 0.3)
        ax.plot(t, level, lw=1.4, color=sheet.PALETTE[0], zorder=3)

    return Cell(title, draw)


FORMAT, FORMAT_VERSION = "lieocp simulation", 1
BLIND = 10.0  # times the change by halved steps


@dataclass(frozen=True)
class Found:
    """A motion and its measures. halved: (largest difference, of which state, when) to the motion with steps half as
    long, None where it was not made; why: the reason; away: of the end from that of an earlier run, and of which state; crossed:
    where rates break inside steps."""

    motion: Motion
    energy: findings.Energy | None
    drift: tuple[findings.Drift, ...]
    costs: Mapping[str, float]
    violations: tuple[Any, ...]
    halved: tuple[float, str, float] | None = None
    why: str = ""
    away: tuple[float, str] | None = None
    crossed: Broken | None = None


def find(motion: Motion, halved: tuple[float, str, float] | None = None, why: str = "", *, of_run: bool = False,
         crossed: Broken | None = None) -> Found:
    """Gather what there is to say. of_run: whether the controls are those of an earlier run, to be compared with; crossed: events
    that steps run across. Where stopping at these changes far more than halving steps, which shows half of the error at least,
    halved steps say nothing of accuracy."""
    if crossed is not None and halved is not None and (crossed.away is None or crossed.away[0] > BLIND * halved[0]):
        halved, why = None, "steps half as long run across the same events"
    return Found(motion, findings.energies(motion), findings.drifts(motion), findings.costs(motion), findings.broken(motion),
                 halved, why, findings.away_from(motion) if of_run else None, crossed)


def write(loaded: LoadedProblem, found: Found, folder: Path, command: Sequence[str] = ()) -> None:
    """Fill an empty folder."""
    motion, text = found.motion, portable(loaded).write(folder)
    solution = findings.as_solution(motion)
    summary = summarise(found, provenance(loaded.model, command))
    more = {} if found.energy is None else {"energy": found.energy.total, "supplied": found.energy.supplied}
    write_arrays(folder / "trajectory.npz", solution_arrays(solution) | more)
    (folder / "trajectory.csv").write_text(solution_csv(solution), encoding="utf-8", newline="")
    write_report(folder, "simulate.html.j2", summary, plot_motion(solution, found.energy, found.drift), CAPTIONS,
                 title=motion.problem.name, problem_yaml=text, **animated(*picture(loaded, solution)))


def summarise(found: Found, record: Mapping[str, Any]) -> dict[str, Any]:
    """Everything about a simulation but its arrays, as plain JSON data."""
    motion, energy = found.motion, found.energy
    systems = [leg.phase.system for leg in motion.legs]
    return jsonable({
        "format": FORMAT, "format_version": FORMAT_VERSION,
        "problem": {"name": motion.problem.name, "description": motion.problem.description, "source": motion.problem.source},
        "ok": motion.ok, "status": {"name": motion.ending.name, "sentence": motion.ending.value, "message": motion.message},
        "integrator": motion.integrator, "controls": motion.controls, "dt": motion.dt, "until": motion.until,
        "reached": float(motion.t[-1]), "steps": motion.steps,
        "sizes": {"states": max(s.nx for s in systems), "controls": max(len(s.controls) for s in systems)},
        "phases": [{"name": leg.phase.name, "start": leg.t[0], "end": leg.t[-1], "steps": len(leg.u)} for leg in motion.legs],
        "final": {name: float(value) for name, value in zip(systems[-1].space.names, motion.legs[-1].x[-1], strict=True)},
        "energy": None if energy is None else {
            "start": energy.total[0], "end": energy.total[-1], "supplied": energy.supplied[-1], "jumps": energy.jumps,
            "unexplained": energy.unexplained, "change": energy.change},
        "drift": [{"name": d.name, "gap": _largest(d.gap), "rate": _largest(d.rate)} for d in found.drift],
        "halved": None if found.halved is None else dict(zip(("difference", "component", "time"), found.halved, strict=True)),
        "halved_why": found.why,
        "events": None if found.crossed is None else {"times": found.crossed.times, "located": None if found.crossed.away is None
                                                      else dict(zip(("difference", "component", "time"), found.crossed.away,
                                                                    strict=True))},
        "away": None if found.away is None else dict(zip(("difference", "component"), found.away, strict=True)),
        "charts": [switch._asdict() for leg in motion.legs for switch in leg.switches],
        "costs": found.costs, "violations": [v.record() for v in found.violations],
        "seconds": motion.seconds, "notes": motion.notes, "provenance": record,
    })


def _largest(sizes: np.ndarray) -> float | None:
    return float(np.nanmax(sizes)) if np.isfinite(sizes).any() else None
