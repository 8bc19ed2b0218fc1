"""Output of inverse kinematics: the table, and a folder with the configuration, a picture and a report.

The folder holds ``configuration.yaml`` (to be pasted as ``start:`` of a problem file), ``configuration.csv``, ``configuration.npz``
(arrays ``q0``, ``q`` [nq], ``path`` [k, nq], ``names``, ``task_names``, ``residuals``; no pickle), ``summary.json``,
``picture.png``, ``ik.yaml`` (the input, every default written out) and ``report.html``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from ocp.app.files.control.ik import IKOutcome, LoadedIK
from ocp.app.files.robot.states import configuration_by_name
from ocp.app.files.syntax.yaml_text import dump
from ocp.app.pages.folders import csv_text, jsonable, new_folder, write_arrays
from ocp.app.pages.ik_picture import draw, ik_scene, marks
from ocp.app.pages.report import motion, write_report
from ocp.app.pipeline import provenance
from ocp.app.screen import grid, line, plain, say_robot, say_where

FORMAT, FORMAT_VERSION = "lieocp inverse kinematics", 1
UNITS = {"pose": "m, rad", "position": "m", "orientation": "rad", "com": "m", "posture": "rad, m", "joint": "rad, m",
         "alignment": "chord", "aim": "chord"}
COORDINATES = ("name", "unit", "start", "solution", "lower", "upper")
CAPTIONS = {"picture": ("Configuration", "Blue: the configuration found. Grey: the start. Red, green and blue arms: x, y and z of "
                        "a target frame; rings and rods: target points and directions.")}
MOTION = ("From the start straight along the joints to the configuration found. This shows both ends; it is no planned motion, and "
          "clearances are kept at its end only.")


# ---- records ------------------------------------------------------------------------------------------------------------
def task_rows(outcome: IKOutcome) -> list[dict[str, Any]]:
    """One record for each task, the highest priority first: its name, kind, residual and tolerance, whether it is met, and how."""
    loaded, result = outcome.loaded, outcome.result
    rows, k = [], 0
    for rank, (level, ended) in enumerate(zip(loaded.tasks.levels, result.levels, strict=True)):
        for task in level:
            kind = loaded.file.tasks[loaded.tasks.indices[k]].form()
            residual, tolerance = result.residuals[task.name], loaded.tolerances[k]
            met = residual <= tolerance
            words = "met" if met else "best possible" if rank and ended == "best possible" else "not met"
            rows.append({"name": task.name, "priority": rank + 1, "kind": kind, "unit": UNITS[kind], "residual": residual,
                         "tolerance": tolerance, "met": met, "outcome": words})
            k += 1
    return rows


def coordinate_rows(loaded: LoadedIK, q: np.ndarray) -> list[dict[str, Any]]:
    """One record for each coordinate: name, unit, start, solution, lower, upper."""
    model = loaded.model
    units = [unit for i, body in enumerate(model.bodies) if body.joint.mimic is None for unit in model.kind(i).q_units]
    bounds = loaded.names.bounds[: model.nq]
    return [dict(zip(COORDINATES, (name, unit, float(a), float(b), float(low), float(high)), strict=True))
            for name, unit, a, b, (low, high) in zip(model.coordinate_names, units, loaded.start, q, bounds, strict=True)]


def verdict(outcome: IKOutcome) -> str:
    """How it ended, in one or two sentences."""
    result, loaded = outcome.result, outcome.loaded
    if outcome.unmet:
        names = " and ".join(map(repr, outcome.unmet))
        tried = "The start does not meet" if result.starts == 1 else f"No start of {result.starts} meets"
        words = f"{tried} {names}; the nearest configuration is shown."
    else:
        words = "Every task is met" if all(row["met"] for row in task_rows(outcome)) else "Every task of the first priority is met"
        words += ", within the joint limits" if loaded.file.limits.position else ", joint limits ignored"
        words += " and clear of contact." if loaded.clearances and not outcome.broken else "."
    return " ".join([words, *(f"{line[:1].upper()}{line[1:]}." for line in outcome.broken)])


def summarise(outcome: IKOutcome, command: Sequence[str] = ()) -> dict[str, Any]:
    """Everything about an outcome as plain JSON data."""
    loaded, result, options = outcome.loaded, outcome.result, outcome.loaded.file.options
    record = {
        "format": FORMAT, "format_version": FORMAT_VERSION,
        "name": loaded.file.name, "description": loaded.file.description, "source": loaded.file.source,
        "ok": outcome.ok, "verdict": verdict(outcome), "message": result.message,
        "tasks": task_rows(outcome), "violations": result.violations, "clearances": result.clearances,
        "coordinates": coordinate_rows(loaded, result.q), "starts": result.starts, "iterations": result.iterations,
        "seconds": outcome.seconds, "options": options.model_dump(mode="json"),
        "limits": loaded.file.limits.model_dump(mode="json"),
        "provenance": provenance(loaded.model, command, options.seed),
    }
    return jsonable(record)


# ---- the terminal -------------------------------------------------------------------------------------------------------
def print_ik(outcome: IKOutcome, folder: Path | None, *, quiet: bool = False) -> None:
    """The verdict, a row for each task and clearance, and where the folder is; ``quiet``: no table."""
    out = Console(highlight=False)
    mark = "[bold green]solved[/]" if outcome.ok else "[bold red]not solved[/]"
    out.print(f"\n[bold]{plain(outcome.loaded.file.name)}[/]  inverse kinematics: {mark}", soft_wrap=True)
    line(out, f"  {verdict(outcome)}")
    if not quiet:
        table = grid("  task", ">priority", ">residual", "", ">tolerance", "")
        for row in task_rows(outcome):
            colour = "green" if row["met"] else "yellow" if row["priority"] > 1 else "red"
            table.add_row(f"  {plain(row['name'])}", str(row["priority"]), f"{row['residual']:.2e}", row["unit"],
                          f"{row['tolerance']:.1e}", f"[{colour}]{row['outcome']}[/]")
        out.print(table)
        if outcome.result.clearances:
            out.print(grid("  clearance", ">distance beyond the required one", pad=2, rows=[
                (f"  {plain(name)}", f"[{'green' if room >= -1e-9 else 'red'}]{room:.4f} m[/]")
                for name, room in outcome.result.clearances.items()]))
        times = ", ".join(f"{name} {value:.2f} s" for name, value in outcome.seconds.items())
        starts, steps = outcome.result.starts, outcome.result.iterations
        out.print(f"  {starts} start{'s' if starts != 1 else ''}, {steps} step{'s' if steps != 1 else ''}; {times}", soft_wrap=True)
    say_where(out, folder)


def print_check(loaded: LoadedIK) -> None:
    """The request of a valid file."""
    out = Console(highlight=False)
    model, levels = loaded.model, loaded.tasks.levels
    line(out, f"{loaded.file.name}: valid, a file of inverse kinematics (run: ocp ik)")
    say_robot(out, model)
    for rank, level in enumerate(levels):
        line(out, f"  priority {rank + 1}: {', '.join(task.name for task in level)}")
    for clearance in loaded.clearances:
        line(out, f"  clearance: {clearance.name}")


# ---- the folder ---------------------------------------------------------------------------------------------------------
def write_ik(outcome: IKOutcome, folder: str | Path, *, overwrite: bool = False, command: Sequence[str] = ()) -> Path:
    """Write the folder; returns it. An earlier folder of inverse kinematics is replaced only with ``overwrite``.

    Raises ProblemError for any other folder that is not empty.
    """
    loaded, result = outcome.loaded, outcome.result
    with new_folder(Path(folder), overwrite, FORMAT) as partial:
        summary = summarise(outcome, command)
        found = marks(loaded.model, result.q, loaded.tasks.tasks)
        picture = draw(loaded.model, loaded.start, result.q, found, loaded.file.name, summary["verdict"])
        pasted = "# The configuration found: the mapping under 'start:' of a problem file, with 'rest: true' beside it\n" + dump(
            configuration_by_name(loaded.model, result.q))
        (partial / "ik.yaml").write_text(loaded.expanded(), encoding="utf-8")
        (partial / "configuration.yaml").write_text(pasted, encoding="utf-8")
        rows = [list(row.values()) for row in coordinate_rows(loaded, result.q)]
        (partial / "configuration.csv").write_text(csv_text([COORDINATES, *rows]), encoding="utf-8", newline="")
        write_arrays(partial / "configuration.npz", {
            "q0": loaded.start, "q": result.q, "path": result.path, "names": np.array(loaded.model.coordinate_names, np.str_),
            "task_names": np.array(list(result.residuals), np.str_), "residuals": np.array(list(result.residuals.values()))})
        write_report(partial, "ik.html.j2", summary, {"picture": picture}, CAPTIONS, title=summary["name"], pasted=pasted,
                     joints=[_between_limits(row) for row in summary["coordinates"]], expanded=loaded.expanded(),
                     motion_caption=MOTION, **motion(ik_scene(loaded.model, loaded.start, result, found)))
    return Path(folder)


def _between_limits(row: Mapping[str, Any]) -> dict[str, Any]:
    """A coordinate with the positions of its start and solution between its limits, in percent; None without limits."""
    low, high = float(row["lower"]), float(row["upper"])
    bounded = np.isfinite([low, high]).all() and high > low
    return {**row, **{f"{key}_at": 100.0 * (row[key] - low) / (high - low) if bounded else None for key in ("start", "solution")}}
