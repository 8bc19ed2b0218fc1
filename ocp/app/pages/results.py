"""One run, one folder: write it so that an interrupted write is never mistaken for a result, and read it back.

A run folder holds

- ``problem.yaml``: the input, fully expanded, as it was handed in; ``models/``: robot files and matrices that it names;
- ``trajectory.npz``: named arrays ``t`` [N+1], ``x`` [N+1, nx], ``u`` [M, nu], ``t_u`` [M], ``state_names``,
  ``control_names`` (of u: controls, then algebraic unknowns, which ``algebraic_names`` names, too), of a robot ``tau`` [N+1, n]
  and ``tau_names`` (what its drives give at the times t), and the extra arrays of the solution; of several phases
  the same by phase (``drop.x``) and ``phase_names``, and the whole only where all phases have the same states and controls; no
  pickle;
- ``trajectory.csv``: time, states and controls at the knots; the header carries the names and so the order; of several phases the
  name of the phase comes first, and what a phase lacks is empty;
- ``summary.json``: status, objective, certificate, timings, options, provenance;
- ``freeze.yaml``: the section ``solve`` of a problem file with everything that was chosen, the mesh included;
- ``checkpoint.npz``: where a solve that did not converge can go on from (``ocp resume``);
- ``iterations.jsonl``: one line per iteration; ``*.png``: plots; ``report.html``: everything on one page.
"""

from __future__ import annotations

import json
import math
import os
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ocp.app.files.syntax.yaml_text import YAML_WORDS
from ocp.app.pages.certificate_record import certificate_of, certificate_record
from ocp.app.pages.folders import (
    CHECKPOINT,
    FORMAT,
    check_run,
    csv_text,
    jsonable,
    new_folder,
    read_arrays,
    restore,
    write_arrays,
    write_summary,
)
from ocp.app.pages.legs import Leg, alike, chosen, legs, union, widened
from ocp.app.pages.scene import Scene
from ocp.app.sentences import STATUSES, message, remarks, sentences, tried
from ocp.errors import ProblemError
from ocp.interrupts import Activity, attempt, check
from ocp.methods import in_discrete_time
from ocp.problem.finding import Finding
from ocp.problem.solution import Certificate, Solution

FORMAT_VERSION = 2
REPORT, FROZEN = "report.html", "freeze.yaml"
RESERVED = ("t", "x", "u", "t_u", "state_names", "control_names", "algebraic_names", "tau", "tau_names")


@dataclass(frozen=True)
class Run:
    """A run read back. ``summary`` is the JSON as it stands; ``arrays`` what the archive holds, by name."""

    folder: Path
    problem_yaml: str
    summary: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]
    iterations: tuple[Mapping[str, Any], ...]

    @property
    def certificate(self) -> Certificate | None:
        """The certificate as data, its numbers restored; None when the run has none."""
        record = self.summary["certificate"]
        return None if record is None else certificate_of(record)


def write_run(solution: Solution, folder: str | Path, *, problem_yaml: str, provenance: Mapping[str, Any],
              overwrite: bool = False, scene: Scene | None = None, scene_note: str = "",
              files: Mapping[str, bytes] | None = None, checkpoint: Mapping[str, np.ndarray] | None = None) -> Path:
    """Write a solution and its report to ``folder``; returns the folder.

    problem_yaml: fully expanded input, and files what it names, by paths relative to it; checkpoint: from which the solve can go
    on; provenance: versions, machine, seed, command, ...; scene: the animation of the report, or None with ``scene_note`` saying
    why. A folder that is absent or empty is filled. An earlier run is
    replaced only with ``overwrite``, as a whole and after the new one is complete. Raises ProblemError for any other
    folder, and for arrays that cannot be stored without pickle.
    """
    with new_folder(Path(folder), overwrite, FORMAT) as partial:
        summary = _write_data(partial, solution, problem_yaml, provenance, files, checkpoint)
        _write_pages(partial, solution, problem_yaml, summary, scene, scene_note)
        write_summary(partial, summary)
    return Path(folder)


def write_data(solution: Solution, folder: str | Path, *, problem_yaml: str, provenance: Mapping[str, Any],
               overwrite: bool = False, files: Mapping[str, bytes] | None = None,
               checkpoint: Mapping[str, np.ndarray] | None = None) -> Path:
    """As :func:`write_run`, without pictures and report: the essential files, within milliseconds."""
    with new_folder(Path(folder), overwrite, FORMAT) as partial:
        write_summary(partial, _write_data(partial, solution, problem_yaml, provenance, files, checkpoint))
    return Path(folder)


def write_pages(solution: Solution, folder: Path, *, problem_yaml: str, scene: Scene | None = None, scene_note: str = "",
                summary: Mapping[str, Any] | None = None) -> None:
    """Pictures and report of a run whose data are there; the report comes last and whole, and not where the time is up. summary:
    what the report tells, where that is not what stands in the folder."""
    summary = read_summary(folder) if summary is None else summary
    attempt(lambda: _write_pages(folder, solution, problem_yaml, summary, scene, scene_note), None, Activity.PICTURES, "report")


def read_summary(folder: Path) -> dict[str, Any]:
    """The summary of a run as it stands."""
    return json.loads((folder / "summary.json").read_text(encoding="utf-8"))


def put_summary(folder: Path, summary: Mapping[str, Any], findings: Sequence[Finding] = ()) -> None:
    """The summary of a run that is written, in place of the one that it has, with more findings."""
    summary = {**summary, "findings": [*summary["findings"], *(jsonable(one.record()) for one in findings)],
               "notes": [*summary["notes"], *sentences(findings)]}
    partial = folder / f".summary.{uuid.uuid4().hex[:8]}"
    partial.mkdir()
    write_summary(partial, summary)
    os.replace(partial / "summary.json", folder / "summary.json")
    partial.rmdir()


def _write_data(partial: Path, solution: Solution, problem_yaml: str, provenance: Mapping[str, Any],
                files: Mapping[str, bytes] | None, checkpoint: Mapping[str, np.ndarray] | None) -> dict[str, Any]:
    """Everything but the summary, which is returned, and the pages."""
    (partial / "problem.yaml").write_text(problem_yaml, encoding="utf-8")
    for name, data in (files or {}).items():
        (partial / name).parent.mkdir(parents=True, exist_ok=True)
        (partial / name).write_bytes(data)
    if checkpoint is not None:
        write_arrays(partial / CHECKPOINT, checkpoint)
    write_arrays(partial / "trajectory.npz", solution_arrays(solution))
    (partial / "trajectory.csv").write_text(solution_csv(solution), encoding="utf-8", newline="")
    if solution.freeze:
        (partial / FROZEN).write_text(frozen_lines(solution.method, solution.freeze) + "\n", encoding="utf-8")
    rows = (json.dumps(jsonable(row), allow_nan=False) + "\n" for row in solution.iterations)
    (partial / "iterations.jsonl").write_text("".join(rows), encoding="utf-8")
    return summarise(solution, provenance)


def _write_pages(folder: Path, solution: Solution, problem_yaml: str, summary: Mapping[str, Any], scene: Scene | None,
                 scene_note: str) -> None:
    check(Activity.PICTURES)
    from ocp.app.pages.plots import plot_run
    from ocp.app.pages.report import render_report

    images = plot_run(solution)
    check(Activity.PICTURES)
    for name, image in images.items():
        (folder / f"{name}.png").write_bytes(image)
    page = render_report(summary, [jsonable(row) for row in solution.iterations], problem_yaml=problem_yaml, images=images,
                         scene=scene, scene_note=scene_note)
    partial = folder / f".{REPORT}.{uuid.uuid4().hex[:8]}"
    try:
        partial.write_text(page, encoding="utf-8")
        os.replace(partial, folder / REPORT)
    finally:
        partial.unlink(missing_ok=True)


def read_run(folder: str | Path) -> Run:
    """Load a run folder. Raises ProblemError where a file is missing or the folder is not a run."""
    place = Path(folder)
    check_run(place)
    missing = [n for n in ("problem.yaml", "trajectory.npz", "iterations.jsonl") if not (place / n).is_file()]
    if missing:
        raise ProblemError(f"run is incomplete: {', '.join(missing)} missing", where=str(place))
    summary = json.loads((place / "summary.json").read_text(encoding="utf-8"))
    if not 1 <= summary["format_version"] <= FORMAT_VERSION:  # what earlier ones lack has a default wherever it is read
        raise ProblemError(f"run has format version {summary['format_version']}; this version reads up to {FORMAT_VERSION}",
                           where=str(place))
    arrays = read_arrays(place / "trajectory.npz")
    lines = (place / "iterations.jsonl").read_text(encoding="utf-8").splitlines()
    return Run(place, (place / "problem.yaml").read_text(encoding="utf-8"), summary, arrays,
               tuple({k: restore(v) for k, v in json.loads(line).items()} for line in lines))


# ------------------------------------------------------------------------------------------------ summary
def summarise(solution: Solution, provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Everything about a solution but its arrays, as plain JSON data."""
    problem, certificate, found = solution.problem, solution.certificate, legs(solution)
    systems, t = [leg.phase.system for leg in found], solution.trajectory.t
    model_hash = getattr(systems[0].model, "fingerprint", None)
    durations, parameters = chosen(problem, found)
    record = {
        "format": FORMAT, "format_version": FORMAT_VERSION,
        "problem": {"name": problem.name, "description": problem.description, "source": problem.source},
        "method": solution.method,
        "status": {"name": solution.status.name, "sentence": STATUSES[solution.status], "message": message(solution)},
        "ok": solution.ok,
        "objective": solution.objective,
        "objective_text": with_bar(solution),
        "reference": _reference(solution),
        "certificate": None if certificate is None else certificate_record(certificate),
        "duration": float(t[-1] - t[0]) if len(t) else 0.0,
        "phases": [{"name": leg.phase.name, "start": leg.span[0], "end": leg.span[1], "duration": leg.span[1] - leg.span[0],
                    "free": leg.phase.duration.free, "states": leg.phase.system.nx,
                    "controls": len(leg.phase.system.controls), "algebraic": len(leg.phase.system.algebraic),
                    "knots": len(leg.trajectory.t)} for leg in found],
        "chosen": {"durations": durations, "parameters": parameters},
        "sizes": {"states": max(s.nx for s in systems), "controls": max(len(s.controls) for s in systems), "knots": len(t),
                  "iterations": len(solution.iterations)},
        "units": {"time": "s", **{name: unit for system in systems for name, unit in system.units.items()}},
        "seconds": solution.seconds,
        "options": solution.options,
        "notes": remarks(solution), "findings": [one.record() for one in solution.findings],
        "ending": None if solution.ending is None else solution.ending.record(),
        "tried": tried(solution), "strategy": [one.record() for one in solution.strategy],
        "freeze": frozen_lines(solution.method, solution.freeze) if solution.freeze else "",
        "model_hash": model_hash,
        "provenance": provenance,
    }
    return jsonable(record)


def with_bar(solution: Solution) -> str:
    """The objective with its error bound, ``58.8076661 ± 2e-6``; without one, the objective alone."""
    bar = float("nan") if solution.certificate is None else solution.certificate.error_bound
    if not math.isfinite(bar) or not math.isfinite(solution.objective):
        return f"{solution.objective:.10g}"
    if bar == 0.0 or abs(solution.objective) > 1e15 * bar:
        return f"{solution.objective:.10g} ± {bar:.1g}"
    digits = max(1, min(17, math.ceil(math.log10(max(abs(solution.objective), bar) / bar)) + 1))
    return f"{solution.objective:.{digits}g} ± {bar:.1g}"


def _reference(solution: Solution) -> dict[str, Any] | None:
    reference = solution.problem.reference
    if reference is None:
        return None
    difference = abs(reference.off(solution.objective))
    return {"objective": reference.objective, "tolerance": reference.tolerance, "source": reference.source,
            "relative_difference": difference, "agrees": bool(difference <= reference.tolerance)}


# ------------------------------------------------------------------------------------------------ arrays
def solution_arrays(solution: Solution) -> dict[str, np.ndarray]:
    """Of several phases: each one's arrays under its name, the whole where all have the same states and controls."""
    arrays: dict[str, np.ndarray] = {}
    found, path = legs(solution), solution.trajectory
    if alike(found):
        arrays |= _trajectory_arrays(Leg(found[0].phase, path))
    if len(found) > 1:
        arrays["phase_names"] = np.array([leg.phase.name for leg in found], dtype=np.str_)
        arrays |= {f"{leg.phase.name}.{name}": value for leg in found for name, value in _trajectory_arrays(leg).items()}
    for name, value in solution.extra.items():
        arrays[f"extra_{name}" if name in RESERVED else name] = np.asarray(value)
    for name, array in arrays.items():
        if np.asarray(array).dtype.hasobject:
            raise ProblemError(f"array {name!r} holds Python objects; only numbers and text can be saved")
    return {name: np.asarray(array) for name, array in arrays.items()}


def _trajectory_arrays(leg: Leg) -> dict[str, np.ndarray]:
    path, system, drives = leg.trajectory, leg.phase.system, leg.drives
    return {"t": path.t, "x": path.x, "u": path.u, "t_u": path.t_u, "state_names": np.array(system.space.names, dtype=np.str_),
            "control_names": np.array(system.inputs, dtype=np.str_),
            **({"algebraic_names": np.array(system.algebraic, dtype=np.str_)} if system.algebraic else {}),
            **({} if drives is None else {"tau": drives.at_nodes(path.t, path.x, leg.at_knots),
                                          "tau_names": np.array(drives.names, dtype=np.str_)})}


def solution_csv(solution: Solution) -> str:
    """Time, states, controls and algebraic unknowns at the knots; of several phases the name of the phase comes first."""
    found = legs(solution)
    states, controls = union([leg.phase.system.space.names for leg in found]), union([leg.phase.system.inputs for leg in found])
    several = len(found) > 1
    # a torque is often named after its joint; then both names say what they are
    same = set(states) & set(controls) | ({"t", *(("phase",) if several else ())} & {*states, *controls})
    header = ["t", *(f"x.{n}" if n in same else n for n in states), *(f"u.{n}" if n in same else n for n in controls)]
    drives = [leg.drives for leg in found]
    # accelerations as controls: what the drives give stands beside them
    torques = union([one.names if one is not None and one.function is not None else () for one in drives])
    rows = [[*(("phase",) if several else ()), *header, *(f"tau.{name}" for name in torques)]]
    for leg, own in zip(found, drives, strict=True):
        path, system = leg.trajectory, leg.phase.system
        u = leg.at_knots
        values = np.column_stack([path.t, widened(path.x, system.space.names, states), widened(u, system.inputs, controls),
                                  *([widened(own.at_nodes(path.t, path.x, u), own.names, torques)] if own and torques else [])])
        lacks = [False, *(n not in system.space.names for n in states), *(n not in system.inputs for n in controls),
                 *(own is None or n not in own.names for n in torques)]
        for row in values:
            cells = [None if missing else v for v, missing in zip(row.tolist(), lacks, strict=True)]
            rows.append([*((leg.phase.name,) if several else ()), *cells])
    return csv_text(rows)


#: text that YAML reads as text without quotation marks
_PLAIN = re.compile(r"^[A-Za-z][A-Za-z_]*( \d+)?$")


def frozen_lines(method: str, freeze: Mapping[str, Any]) -> str:
    """The section ``solve`` of a problem file with these options; it stands for the section that was there."""
    head = ["solve:", f"  method: {method}"]
    if not freeze:
        return "\n".join(head)
    return "\n".join([*head, f"  {method}:", *(f"    {name}: {_value(value)}" for name, value in freeze.items())])


def choice(solution: Solution) -> str:
    """The configuration of the solve in one line: method, scheme, mesh and passes. The mesh itself may be kilobytes of text."""
    options, rows = solution.options, solution.extra.get("refinement")
    words = [solution.method]
    if in_discrete_time(solution.problem):
        return f"{solution.method}, {sum(phase.steps or 0 for phase in solution.problem.phases)} given steps"
    if rows is not None and len(rows):
        last = dict(zip(solution.extra["refinement_columns"].tolist(), rows[-1].tolist(), strict=True))
        low, high = int(last["lowest degree"]), int(last["highest degree"])
        words.append(f"{options['scheme']} of degree {low}" + (f" to {high}" if high > low else ""))
        words.append(f"{int(last['intervals'])} intervals after {len(rows)} pass{'es' if len(rows) > 1 else ''}")
    else:
        words += [str(options[name]) for name in ("scheme", "integrator") if name in options]
        words += ["a mesh of the file"] if options.get("mesh", "uniform") != "uniform" else [
            f"{options['intervals']} intervals"] if "intervals" in options else []
    return ", ".join(words)


def _value(value: Any) -> str:
    if isinstance(value, str) and (not _PLAIN.match(value) or value.lower() in YAML_WORDS):
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value) if isinstance(value, (bool, int, float)) else str(value)
