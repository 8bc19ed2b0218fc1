"""What a closed-loop run leaves on disk, and what its report animates."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ocp.app.files.load import LoadedProblem
from ocp.app.mpc.figures import CAPTIONS, plot_loop
from ocp.app.pages.folders import csv_text, jsonable, write_arrays
from ocp.app.pages.report import motion, write_report
from ocp.app.pages.scene import Dot, Scene, frame_times, scene_from_drawing, scene_from_model
from ocp.app.pipeline import body_poses, drawn, provenance
from ocp.mpc import ClosedLoop, Ending, PlantSpec

FORMAT, FORMAT_VERSION = "lieocp closed loop", 1


def write(loaded: LoadedProblem, loop: ClosedLoop, folder: Path, seconds: Mapping[str, float], command: Sequence[str] = ()) -> None:
    """Fill an empty folder."""
    assert loaded.mpc is not None
    text = loaded.expanded("ilqr")
    summary = summarise(loop, loaded.mpc.plant, provenance(loaded.model, command, loaded.mpc.plant.disturbances.seed), seconds)
    (folder / "problem.yaml").write_text(text, encoding="utf-8")
    write_arrays(folder / "trajectory.npz", arrays(loop))
    (folder / "trajectory.csv").write_text(trajectory_csv(loop), encoding="utf-8", newline="")
    (folder / "steps.csv").write_text(steps_csv(loop), encoding="utf-8", newline="")
    scene, note = loop_scene(loaded, loop)
    target = scene is not None and any(dot.role == "target" for dot in scene.dots)
    write_report(folder, "mpc.html.j2", summary, plot_loop(loop), CAPTIONS, title=loop.problem.name, problem_yaml=text,
                 motion_caption="What the plant did." + (" Pink: the reference." if target else ""), **motion(scene, note))


# ---- numbers ------------------------------------------------------------------------------------------------------------
def verdict(loop: ClosedLoop) -> str:
    """How it ended, in one or two sentences."""
    words = [loop.ending.value + (f" {loop.message}" if loop.message else "")]
    if loop.failures:
        words.append(f"The solver failed in {loop.failures} of {len(loop.codes)} steps.")
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
        "cost": loop.cost, "costs": loop.costs,
        "violations": [dataclasses.asdict(v) for v in loop.violations],
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
    """What the same file gives again bit by bit: everything but wall times."""
    system = loop.problem.phase.system
    found = {name: getattr(loop, name) for name in ("t", "x", "measured", "u", "fine_t", "fine_x", "fine_u", "codes", "solver_cost",
                                                    "solver_violation")}
    rows = len(loop.tracking[0].value) if loop.tracking else 0
    for part in ("value", "reference"):
        found[f"tracking_{part}"] = np.hstack([np.zeros((rows, 0)), *(getattr(k, part) for k in loop.tracking)])
    names = [k.name if k.value.shape[1] == 1 else f"{k.name}[{i}]" for k in loop.tracking for i in range(k.value.shape[1])]
    if len(loop.gains):
        found["K"] = loop.gains
    return found | {"tracking_names": np.array(names, dtype=np.str_), "state_names": np.array(system.space.names, dtype=np.str_),
                    "control_names": np.array(system.controls, dtype=np.str_)}


def trajectory_csv(loop: ClosedLoop) -> str:
    """Time, states and controls at the samples; the last state has no control."""
    system = loop.problem.phase.system
    header = ["t", *(f"x.{name}" for name in system.space.names), *(f"u.{name}" for name in system.controls)]
    u = np.vstack([loop.u, np.full((1, system.nu), np.nan)])
    return csv_text([header, *([repr(float(v)) if np.isfinite(v) else "" for v in row]
                               for row in np.column_stack([loop.t, loop.x, u]))])


def steps_csv(loop: ClosedLoop) -> str:
    """Every step of the solver: when, its wall and processor time, what it answered, cost and violation of its horizon."""
    columns = zip(loop.t, loop.seconds * 1e6, loop.processor * 1e6, loop.codes, loop.solver_cost, loop.solver_violation,
                  strict=False)
    return csv_text([["t", "microseconds", "processor_microseconds", "code", "cost", "violation"],
                     *([repr(float(t)), f"{wall:.1f}", f"{busy:.1f}", int(code), repr(float(c)), repr(float(v))]
                       for t, wall, busy, code, c, v in columns)])


def loop_scene(loaded: LoadedProblem, loop: ClosedLoop) -> tuple[Scene | None, str]:
    """The scene, or None and a sentence that says why there is none."""
    good = np.flatnonzero(np.isfinite(loop.fine_x).all(axis=1))
    if len(good) < 2:
        return None, "There is no motion to animate."
    t, x = loop.fine_t[good], loop.fine_x[good]
    u = loop.fine_u[np.minimum(good, len(loop.fine_u) - 1)]
    pick = np.clip(np.searchsorted(t, frame_times(float(t[0]), float(t[-1]))), 0, len(t) - 1)
    system = loop.problem.phase.system
    if system.model is not None:
        q = x[pick, : system.model.nq]
        scene = scene_from_model(drawn(system), t[pick], q, body_poses(drawn(system), q))
        for item in loop.tracking:
            if item.value.shape[1] == 3 and item.unit == "m":
                scene = _with_target(scene, item.reference[pick][: len(scene.t)])
        return scene, ""
    if loaded.drawing is not None:
        return scene_from_drawing(loaded.drawing, t[pick], x[pick], u[pick], system.parameter_values), ""
    return None, "The problem has neither a robot nor a drawing section, so there is nothing to animate."


def _with_target(scene: Scene, points: np.ndarray) -> Scene:
    """The scene with one more point [frames, 3] that moves along a reference."""
    number = scene.points.shape[1]
    return replace(scene, points=np.concatenate([scene.points, points[:, None, :]], axis=1),
                   dots=(*scene.dots, Dot(number, 0.02, "target")), traces=(*scene.traces, number))
