"""The folder of a simulation.

``problem.yaml`` (the input, fully expanded), ``trajectory.npz`` and ``trajectory.csv`` (states at the ends of steps, controls held
over them; ``energy`` and ``supplied`` at the same times), ``summary.json``, plots and ``report.html``.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ocp.app.files.load import LoadedProblem
from ocp.app.pages.folders import jsonable, write_arrays, write_summary
from ocp.app.pages.report import environment
from ocp.app.pages.report import motion as animated
from ocp.app.pages.results import solution_arrays, solution_csv
from ocp.app.pipeline import picture, provenance
from ocp.app.simulate import findings
from ocp.app.simulate.figures import CAPTIONS, plot_motion
from ocp.simulation import Motion

FORMAT, FORMAT_VERSION = "lieocp simulation", 1


@dataclass(frozen=True)
class Found:
    """A motion and all that is said about it. halved: (largest difference, of which state, when) to the motion with steps half as
    long, None where it was not made; why: the reason; away: of the end from that of an earlier run, and of which state."""

    motion: Motion
    energy: findings.Energy | None
    drift: tuple[findings.Drift, ...]
    costs: Mapping[str, float]
    violations: tuple[Any, ...]
    halved: tuple[float, str, float] | None = None
    why: str = ""
    away: tuple[float, str] | None = None


def find(motion: Motion, halved: tuple[float, str, float] | None = None, why: str = "", *, of_run: bool = False) -> Found:
    """Gather what there is to say. of_run: whether the controls are those of an earlier run, to be compared with."""
    return Found(motion, findings.energies(motion), findings.drifts(motion), findings.costs(motion), findings.broken(motion),
                 halved, why, findings.away_from(motion) if of_run else None)


def write(loaded: LoadedProblem, found: Found, folder: Path, command: Sequence[str] = ()) -> None:
    """Fill an empty folder."""
    motion, text = found.motion, loaded.expanded()
    solution = findings.as_solution(motion)
    summary = summarise(found, provenance(loaded.model, command))
    (folder / "problem.yaml").write_text(text, encoding="utf-8")
    more = {} if found.energy is None else {"energy": found.energy.total, "supplied": found.energy.supplied}
    write_arrays(folder / "trajectory.npz", solution_arrays(solution) | more)
    (folder / "trajectory.csv").write_text(solution_csv(solution), encoding="utf-8", newline="")
    images = plot_motion(solution, found.energy, found.drift)
    for name, data in images.items():
        (folder / f"{name}.png").write_bytes(data)
    scene, note = picture(loaded, solution)
    figures = [(name, *CAPTIONS[name], base64.b64encode(data).decode("ascii")) for name, data in images.items()]
    page = environment().get_template("simulate.html.j2").render(
        s=summary, title=motion.problem.name, figures=figures, problem_yaml=text, facts=list(summary["provenance"].items()),
        **animated(scene, note))
    (folder / "report.html").write_text(str(page), encoding="utf-8")
    write_summary(folder, summary)


def summarise(found: Found, record: Mapping[str, Any]) -> dict[str, Any]:
    """Everything about a simulation but its arrays, as plain JSON data."""
    motion, energy = found.motion, found.energy
    systems = [leg.phase.system for leg in motion.legs]
    plain = jsonable({
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
        "away": None if found.away is None else dict(zip(("difference", "component"), found.away, strict=True)),
        "charts": [switch._asdict() for leg in motion.legs for switch in leg.switches],
        "costs": found.costs, "violations": [asdict(v) for v in found.violations],
        "seconds": motion.seconds, "notes": motion.notes, "provenance": record,
    })
    assert isinstance(plain, dict)
    return plain


def _largest(sizes: np.ndarray) -> float | None:
    return float(np.nanmax(sizes)) if np.isfinite(sizes).any() else None
