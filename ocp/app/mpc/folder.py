"""The folder of a closed-loop run: numbers, pictures (tracking, states, controls, step times), and the animation of its report
animates."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ocp.app.files.load import LoadedProblem
from ocp.app.files.problem.portable import portable
from ocp.app.pages import sheet
from ocp.app.pages.camera import viewpoint
from ocp.app.pages.folders import csv_text, held_csv, jsonable, write_arrays
from ocp.app.pages.panels import bundle, stem
from ocp.app.pages.plots import MAX_PANELS
from ocp.app.pages.report import motion, write_report
from ocp.app.pages.scene import Dot, Scene, scene_from_drawing, scene_from_model, shown_frames
from ocp.app.pages.sheet import Cell, Group
from ocp.app.pipeline import body_poses, drawn, provenance
from ocp.app.sentences import sentences
from ocp.bridge import drive_efforts
from ocp.mpc import ClosedLoop, Ending, PlantSpec
from ocp.mpc.evaluate import TOLERANCE

CAPTIONS = {
    "tracking": ("Tracking", "Each tracked quantity beside its reference, and the length of the error."),
    "states": ("States of the plant", "At every substep. Shaded: forbidden by a bound. Red: beyond it."),
    "controls": ("Controls", "As applied, constant between substeps. Shaded: forbidden by a bound."),
    "times": ("Step times", "Wall time of the solver in every step, on a logarithmic axis, and how often each was taken. "
              "Red: the deadline, one sampling period."),
}
HISTOGRAM_BINS = 60
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
    return sheet.sheet([Group("quantities", tuple(quantities[:MAX_PANELS]), columns=min(3, len(quantities))),
                        Group("errors", tuple(errors[:MAX_PANELS]))], _span(loop))


def plot_states(loop: ClosedLoop) -> bytes:
    """States in small multiples, those of a robot in two groups; where a state is tracked, its reference beside it."""
    phase = loop.problem.phase
    system, space, pick = phase.system, phase.system.space, sheet.thinned(len(loop.fine_t))
    t, x = loop.fine_t[pick], loop.fine_x[pick]
    references = {item.state: item.reference for item in loop.tracking if item.state is not None}
    split = system.model.nq if system.model is not None else None
    parts = [("states", range(space.nx))] if split is None else [
        ("configuration", range(split)), ("velocities", range(split, space.nx))]
    groups = []
    for heading, members in parts:
        cells = []
        for columns in bundle(space.names, members, system.units, space.quaternions, MAX_PANELS // len(parts)):
            title, labels = stem([space.names[i] for i in columns])
            values, bounds = x[:, columns], phase.state_bounds[columns]
            if len(columns) == 1 and columns[0] in references:
                reference = np.full(len(loop.fine_t), np.nan)
                known = references[columns[0]].ravel()
                reference[: len(known)] = known
                values, labels = np.column_stack([reference[pick], values]), ("reference", "plant")
                bounds = bounds.joined(bounds)
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
    # both sides of every jump, so that a constant control is drawn as constant
    t = np.append(np.repeat(starts, 2)[1:], loop.fine_t[-1])
    held = np.repeat(u, 2, axis=0)
    cells = []
    for columns in bundle(system.controls, range(len(system.controls)), system.units, (), MAX_PANELS):
        title, labels = stem([system.controls[i] for i in columns])
        cells.append(_cell(title, system.units.get(system.controls[columns[0]], ""), t, held[:, columns], labels,
                           phase.control_bounds[columns]))
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
    counts, edges = np.histogram(level, bins=np.linspace(low, high, HISTOGRAM_BINS + 1))
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


FORMAT, FORMAT_VERSION = "lieocp closed loop", 1


def write(loaded: LoadedProblem, loop: ClosedLoop, folder: Path, seconds: Mapping[str, float], command: Sequence[str] = ()) -> None:
    """Fill an empty folder."""
    assert loaded.mpc is not None
    text = portable(loaded, "ilqr").write(folder)
    summary = summarise(loop, loaded.mpc.plant, provenance(loaded.model, command, loaded.mpc.plant.disturbances.seed), seconds)
    write_arrays(folder / "trajectory.npz", arrays(loop))
    system = loop.problem.phase.system
    header = (*(f"x.{name}" for name in system.space.names), *(f"u.{name}" for name in system.controls))
    held, drives = loop.u, drive_efforts(system)
    if drives is not None and drives.function is not None:
        header += tuple(f"tau.{name}" for name in drives.names)
        held = np.column_stack([held, drives.at_nodes(loop.t[:-1], loop.x[:-1], held)])
    (folder / "trajectory.csv").write_text(held_csv(header, loop.t, loop.x, held), encoding="utf-8", newline="")
    (folder / "steps.csv").write_text(steps_csv(loop), encoding="utf-8", newline="")
    scene, note = loop_scene(loaded, loop)
    target = scene is not None and any(dot.role == "target" for dot in scene.dots)
    write_report(folder, "mpc.html.j2", summary, plot_loop(loop), CAPTIONS, title=loop.problem.name, problem_yaml=text,
                 motion_caption="Motion of the plant." + (" Pink: the reference." if target else ""), **motion(scene, note))


# ---- numbers ------------------------------------------------------------------------------------------------------------
def recovered(loop: ClosedLoop) -> str:
    """From how many pushes the plant recovered, in a sentence."""
    times = [push.after for push in loop.recoveries if push.recovered]
    return (f"recovered from {len(times)} of {len(loop.recoveries)} pushes before the next"
            + (f", after {np.median(times):.2g} s (median) and {max(times):.2g} s (longest)." if times else "."))


def verdict(loop: ClosedLoop) -> str:
    """How it ended, in one or two sentences."""
    words = [loop.ending.value + (f" {loop.message}" if loop.message else "")]
    words += [f"{told[0].upper()}{told[1:]}." for told in sentences(loop.findings)]
    if loop.failures:
        words.append(f"The solver failed in {loop.failures} of {len(loop.codes)} steps.")
    words += [f"The plant {recovered(loop)}"] if loop.recoveries else []
    times = loop.times
    if times.steps:
        words.append(f"{times.missed or 'No'} of {times.steps} steps missed the deadline of {times.deadline * 1e3:.4g} ms."
                     if times.missed else f"Every step kept the deadline of {times.deadline * 1e3:.4g} ms.")
    return " ".join(words)


def summarise(loop: ClosedLoop, plant: PlantSpec, record: Mapping[str, Any], seconds: Mapping[str, float]) -> dict[str, Any]:
    """Everything about a run but its arrays, as plain JSON data."""
    system = loop.problem.phase.system
    return jsonable({
        "format": FORMAT, "format_version": FORMAT_VERSION,
        "problem": {"name": loop.problem.name, "description": loop.problem.description, "source": loop.problem.source},
        "ok": loop.ok, "status": {"name": loop.ending.name, "sentence": loop.ending.value, "message": loop.message},
        "verdict": verdict(loop), "finished": loop.ending is Ending.FINISHED, "failed_steps": loop.failures,
        "tracking": [{"name": k.name, "unit": k.unit, "rms": k.rms, "largest": k.largest, "time": k.time} for k in loop.tracking],
        "cost": loop.cost, "costs": loop.costs, "pushes": [push.record() for push in loop.recoveries],
        "estimation": None if loop.estimation is None else loop.estimation.record(),
        "findings": [one.record() for one in loop.findings],
        "violations": [v.record() for v in loop.violations],
        "step_times": dataclasses.asdict(loop.times),
        "processor_times": dataclasses.asdict(loop.processor_times),
        "sizes": {"states": system.nx, "controls": len(system.controls), "intervals": loop.solver_options.intervals,
                  "steps": len(loop.seconds)},
        "horizon": loop.problem.phase.duration.guess, "duration": float(loop.t[-1]),
        "plant": {"integrator": plant.integrator, "substeps": plant.substeps, "changes": plant.changed,
                  "disturbances": dataclasses.asdict(plant.disturbances)},
        "options": dataclasses.asdict(loop.options), "solver": dataclasses.asdict(loop.solver_options),
        "seconds": {**seconds, **{f"prepare {name}": value for name, value in loop.prepared.items()}},
        "notes": loop.notes, "provenance": record,
    })


def arrays(loop: ClosedLoop) -> dict[str, np.ndarray]:
    """Reproducible contents, bit by bit: everything but wall times."""
    system = loop.problem.phase.system
    found = {name: getattr(loop, name) for name in ("t", "x", "measured", "u", "fine_t", "fine_x", "fine_u", "codes", "solver_cost",
                                                    "solver_violation")}
    rows = len(loop.tracking[0].value) if loop.tracking else 0
    for part in ("value", "reference"):
        found[f"tracking_{part}"] = np.hstack([np.zeros((rows, 0)), *(getattr(k, part) for k in loop.tracking)])
    names = [k.name if k.value.shape[1] == 1 else f"{k.name}[{i}]" for k in loop.tracking for i in range(k.value.shape[1])]
    if len(loop.gains):
        found["K"] = loop.gains
    if loop.estimation is not None:
        found |= {"estimates": loop.estimation.values, "estimate_names": np.array(loop.estimation.names, dtype=np.str_)}
    for v in loop.violations:
        found[f"violation.{v.name}"] = v.excess
    return found | {"tracking_names": np.array(names, dtype=np.str_), "state_names": np.array(system.space.names, dtype=np.str_),
                    "control_names": np.array(system.controls, dtype=np.str_)}


def steps_csv(loop: ClosedLoop) -> str:
    """Every step of the solver: when, its wall and processor time, what it answered, cost and violation of its horizon."""
    columns = zip(loop.t, loop.seconds * 1e6, loop.processor * 1e6, loop.codes, loop.solver_cost, loop.solver_violation,
                  strict=False)
    return csv_text([["t", "microseconds", "processor_microseconds", "code", "cost", "violation"],
                     *([t, f"{wall:.1f}", f"{busy:.1f}", int(code), c, v] for t, wall, busy, code, c, v in columns)])


def loop_scene(loaded: LoadedProblem, loop: ClosedLoop) -> tuple[Scene | None, str]:
    """The scene, or None and a sentence that says why there is none."""
    pick = shown_frames(loop.fine_t, loop.fine_x)
    if pick is None:
        return None, "There is no motion to animate."
    t, x, u = loop.fine_t[pick], loop.fine_x[pick], loop.fine_u[np.minimum(pick, len(loop.fine_u) - 1)]
    system = loop.problem.phase.system
    if system.model is not None:
        q = x[:, : system.model.nq]
        scene = scene_from_model(drawn(system), t, q, body_poses(drawn(system), q), loaded.scenery)
        for item in loop.tracking:
            if item.value.shape[1] == 3 and item.unit == "m":
                target, points = scene.points.shape[1], item.reference[pick][: len(scene.t), None, :]
                scene = replace(scene, points=np.concatenate([scene.points, points], axis=1),
                                dots=(*scene.dots, Dot(target, 0.02, "target")), traces=(*scene.traces, target))
        return replace(scene, yaw=viewpoint(scene)), ""
    if loaded.drawing is not None:
        return scene_from_drawing(loaded.drawing, t, x, u, system.parameter_values), ""
    return None, "The problem has neither a robot nor a drawing section, so there is nothing to animate."
