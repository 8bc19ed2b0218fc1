"""The folder of a run of whole-body control."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ocp.app.files.control.wbc import LoadedWbc
from ocp.app.files.problem.portable import standing_alone
from ocp.app.pages.contact_scene import with_contacts
from ocp.app.pages.folders import held_csv, jsonable, write_arrays
from ocp.app.pages.report import motion, write_report
from ocp.app.pages.scene import Scene, scene_from_model, shown_frames
from ocp.app.pipeline import body_poses, provenance
from ocp.app.sentences import sentences
from ocp.app.wbc.figures import CAPTIONS, plot_run, pressed
from ocp.bridge import model_space
from ocp.plants.hybrid import Event
from ocp.wbc import Ending, WholeBodyRun

FORMAT, FORMAT_VERSION = "lieocp whole-body control", 1
#: kinds of events where the plant took a step as a whole: their name, and why
WHOLE = {"painleve": ("Painlevé's paradox", "rigid bodies that slide with this friction have no consistent acceleration, so one "
                                            "step was taken for velocities as a whole"),
         "crowded": ("crowded events", "they come too fast to be separated, as where bouncing ends, or forces grow without bound; "
                                       "one step was taken for velocities as a whole")}


@dataclass(frozen=True)
class Outcome:
    """A finished run: what was loaded, what came of it, what the plant logged, and seconds."""

    loaded: LoadedWbc
    run: WholeBodyRun
    events: tuple[Event, ...]
    seconds: Mapping[str, float]

    @property
    def missed(self) -> tuple[str, ...]:
        """Expected values that were not reached at the end, in words."""
        x = self.run.x[-1]
        return tuple(f"{name} ends at {x[i]:.10g}, expected {value:.10g} ± {tolerance:.0e}"
                     for name, (i, value, tolerance) in self.loaded.expect.items() if not abs(x[i] - value) <= tolerance)

    @property
    def notes(self) -> tuple[str, ...]:
        """Those of the file, and where the plant took steps as a whole."""
        found = list(self.loaded.notes)
        for kind, (name, why) in WHOLE.items():
            if at := [event for event in self.events if event.kind == kind]:
                where = f" of contact {at[0].contact}" if at[0].contact else ""
                times = f"{at[0].time:.6g} s" + (f" and {len(at) - 1} times later" if len(at) > 1 else "")
                found.append(f"{name}{where} at {times}: {why}")
        return tuple(found)

    @property
    def ok(self) -> bool:
        """The run went well, and ended as the file expects."""
        return self.run.ok and not self.missed


def write(outcome: Outcome, folder: Path, command: Sequence[str] = ()) -> None:
    """Fill an empty folder."""
    loaded = outcome.loaded
    text = standing_alone(loaded.tree(), (type(loaded.file),), loaded.folder).write(folder)
    summary = summarise(outcome, provenance(outcome.loaded.mechanism.model, command, 0))
    write_arrays(folder / "trajectory.npz", arrays(outcome.run))
    states, run = model_space(outcome.loaded.mechanism.model).names, outcome.run
    header = (*(f"x.{name}" for name in states), *(f"tau.{name}" for name in run.driven))
    (folder / "trajectory.csv").write_text(held_csv(header, run.t, run.x, run.torque), encoding="utf-8", newline="")
    animated, words = scene(outcome)
    write_report(folder, "wbc.html.j2", summary, plot_run(outcome.run), CAPTIONS, title=outcome.loaded.file.name, problem_yaml=text,
                 motion_caption=f"Motion of the plant. {words}" if animated is not None else "", **motion(animated, words))


def scene(outcome: Outcome) -> tuple[Scene | None, str]:
    """The animation with the forces of contacts and what they are in words, or None and a sentence that says why there is none."""
    run, model = outcome.run, outcome.loaded.mechanism.model
    pick = shown_frames(run.t, run.x)
    if pick is None:
        return None, "There is no motion to animate."
    q = run.x[pick, : model.nq]
    return with_contacts(scene_from_model(model, run.t[pick], q, body_poses(model, q)), pressed(run, model, pick))


# ---- numbers ------------------------------------------------------------------------------------------------------------
def verdict(outcome: Outcome) -> str:
    """How it ended, in a few sentences."""
    run = outcome.run
    words = [run.ending.value, *(f"{told[0].upper()}{told[1:]}." for told in sentences(run.findings))]
    if run.failures:
        words.append(f"{run.failures} of {len(run.solved)} steps had no solution; joints were braked.")
    if not run.setup.tasks:
        words.append("The plant alone: no task, so no controller.")
    else:
        words.append("Equations, cones and torque limits were kept in every step." if run.within_limits
                     else "Equations, cones or torque limits were not kept.")
    if outcome.loaded.expect:
        words += [f"{line}." for line in outcome.missed] or [f"{', '.join(outcome.loaded.expect)}: as expected."]
    return " ".join(words)


def level_rows(outcome: Outcome) -> list[dict[str, Any]]:
    """One record for each level: its name, the tasks in it, median and largest residual, share of steps in which it was not met."""
    run, rows = outcome.run, []
    ranks = sorted({task.priority for task in outcome.loaded.setup.tasks})
    for name, values in run.levels.items():
        tasks = ""
        if name.startswith("priority "):
            rank = ranks[min(int(name.split()[1]), len(ranks)) - 1]
            tasks = ", ".join(t.name for t in outcome.loaded.setup.tasks if t.priority == rank)
        known = values[np.isfinite(values)]
        rows.append({"name": name, "tasks": tasks, "median": float(np.median(known)) if known.size else 0.0,
                     "largest": float(known.max(initial=0.0)), "share": float((known > 1e-6).mean()) if known.size else 0.0})
    return rows


def contact_rows(run: WholeBodyRun) -> list[dict[str, Any]]:
    """One record for each contact: steps taken, range of its normal force, shares of friction, how far standing points moved."""
    rows = []
    for plan, c in zip(run.setup.contacts, run.contacts, strict=True):
        told = bool(np.isfinite(c.actual).any())
        taken = c.state > 0
        # a contact that is never taken is the plant's
        normal = (c.commanded[taken] if taken.any() or not told else c.actual) @ plan.plane[2]
        share, actual = (float(np.nanmax(c.share[:, k], initial=0.0)) for k in range(2))
        rows.append({"name": c.name, "taken": float((c.state > 0).mean()) if c.state.size else 0.0,
                     "least": float(normal.min(initial=np.inf)) if normal.size else 0.0, "most": float(normal.max(initial=0.0)),
                     "share": share, "actual": actual, "told": told, "drift": c.drift})
    return rows


def task_rows(run: WholeBodyRun) -> list[dict[str, Any]]:
    """One record for each task with an error: root mean square, largest, last."""
    rows = []
    for name, values in run.errors.items():
        known = values[np.isfinite(values)]
        if known.size:
            rows.append({"name": name, "rms": float(np.sqrt(np.mean(known**2))), "largest": float(known.max()),
                         "last": float(known[-1])})
    return rows


def summarise(outcome: Outcome, record: Mapping[str, Any]) -> dict[str, Any]:
    """Everything about a run but its arrays, as plain JSON data."""
    run, file, plans = outcome.run, outcome.loaded.file, outcome.run.setup.planner
    return jsonable({
        "format": FORMAT, "format_version": FORMAT_VERSION,
        "problem": {"name": file.name, "description": file.description, "source": file.source},
        "ok": outcome.ok, "findings": [one.record() for one in run.findings],
        "status": {"name": run.ending.name, "sentence": run.ending.value},
        "verdict": verdict(outcome),
        "finished": run.ending is Ending.FINISHED, "failed_steps": run.failures, "kept": run.within_limits, "plant": run.plant,
        "levels": level_rows(outcome), "contacts": contact_rows(run), "tasks": task_rows(run), "effort_share": run.effort_share,
        "step_times": dataclasses.asdict(run.times), "rate": run.setup.rate, "duration": float(run.t[-1]),
        "sizes": {"velocities": outcome.loaded.mechanism.model.nv, "motors": len(run.driven), "steps": len(run.solved)},
        "events": [dataclasses.asdict(event) for event in outcome.events[:400]],
        "plans": None if plans is None else {"count": len(plans.seconds), "failed": plans.failed},
        "log": [dataclasses.asdict(note) for note in run.notes], "notes": outcome.notes, "seconds": dict(outcome.seconds),
        "provenance": record,
    })


def arrays(run: WholeBodyRun) -> dict[str, np.ndarray]:
    """Reproducible contents, bit by bit: everything but wall times."""
    found = {"t": run.t, "x": run.x, "torque": run.torque, "efforts": run.efforts, "solved": run.solved,
             "driven": np.array(run.driven, dtype=np.str_), "levels": np.array(list(run.levels), dtype=np.str_),
             "residuals": np.column_stack([*run.levels.values(), np.zeros((len(run.solved), 0))]),
             "contacts": np.array([c.name for c in run.contacts], dtype=np.str_)}
    for key in ("state", "commanded", "actual", "share", "gap"):
        if run.contacts:
            found[f"contact_{key}"] = np.stack([getattr(c, key) for c in run.contacts])
    return found
