"""``ocp mpc FILE --trials N`` and ``ocp wbc FILE --trials N``: success by the file's own criteria over random starts, kicks,
pushes, friction and noise, by the machinery of sweeps.

The folder is that of a sweep (``ocp.app.batch.store``) whose cases are numbers of trials; ``runs`` has the run of each failure, and
``points`` an error over time of every trial. ``--trial K --seed S`` runs trial K again to the last bit.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from rich.console import Console

from ocp.app.batch.command import progress_bar
from ocp.app.batch.schedule import Done, Task
from ocp.app.batch.store import Store
from ocp.app.batch.study import Table, swept
from ocp.app.batch.work import finite, refused_row
from ocp.app.files.control.wbc import load_wbc_text
from ocp.app.files.load import load_text
from ocp.app.files.syntax.overrides import apply_overrides
from ocp.app.files.syntax.yaml_source import read_source
from ocp.app.files.syntax.yaml_text import dump
from ocp.app.mpc.folder import write as write_mpc
from ocp.app.mpc.run import prepare_loaded
from ocp.app.pages.sheet import thinned
from ocp.app.prepare import compile_ahead, compile_in_time
from ocp.app.screen import grid, line, wide_console
from ocp.app.sentences import sentences
from ocp.app.wbc.folder import task_rows, verdict
from ocp.app.wbc.folder import write as write_wbc
from ocp.app.wbc.follow import followed
from ocp.app.wbc.run import run_loaded
from ocp.batch.compiled import Point
from ocp.bridge import model_space
from ocp.errors import ProblemError
from ocp.mpc import trials as mpc_trials
from ocp.plants import Push
from ocp.spaces import Space

#: how a row came about
BY_TRIAL = "trial"
#: what a trial gives its row, by name, and a curve over time
Drawn = dict[str, float]


@dataclass(frozen=True)
class Ran:
    """A trial that ran. row: what the table says beside what was drawn; curve: t [k], value [k]; measured: times of steps; write:
    fills an empty folder with its run."""

    row: dict[str, Any]
    curve: Point
    measured: dict[str, float]
    write: Callable[[Path], None]


class MpcTrials:
    """Closed loops of receding horizons of one file."""

    def __init__(self, text: str, folder: str, name: str, plant: str):
        self.loaded = load_text(text, folder, name)
        if self.loaded.mpc is None:
            raise ProblemError("has no section 'mpc'", where=name)
        self.random, self.given = self.loaded.mpc.trials, self.loaded.mpc.plant.disturbances
        mpc_trials.check_random(bool(self.random) or any(self.given.process) or any(self.given.measurement),
                                "mpc.trials, or noise under mpc.disturbances")
        compile_ahead(self.loaded, "ilqr")
        self.loop = prepare_loaded(self.loaded)

    def draw(self, seed: int, number: int) -> tuple[Drawn, Any]:
        """Random start and disturbances of a trial, as columns of the table and as input of `run`."""
        start, given = mpc_trials.draw(self.loop, self.random, self.given, seed, number)
        kicks, pushes = given.kicks[len(self.given.kicks):], given.pushes[len(self.given.pushes):]
        return {**_starts(self.loop.phase.system.space, start, self.random.start),
                **({"kick.time": kicks[0].time} if kicks else {}), **_pushed(pushes)}, (start, given)

    def run(self, drawn: Any) -> Ran:
        """Simulate one trial in closed loop."""
        loop = self.loop.run(*drawn)
        _whole(loop.ending.name)
        good, notes = loop.ok, [*sentences(loop.findings), *loop.notes]
        why = "" if good else (notes[0] if notes else f"{loop.ending.value} {loop.message}".strip())
        worst = max((v.largest for v in loop.violations if not v.soft), default=0.0)
        error = loop.tracking[0].error if loop.tracking else loop.fine_x[:, 0]
        row = {"status": loop.ending.name, "ok": good, "objective": finite(loop.cost), "duration": float(loop.t[-1]),
               "iterations": len(loop.seconds), "by": BY_TRIAL,
               "findings": json.dumps(list(dict.fromkeys(str(one.kind) for one in loop.findings))), "message": why,
               "largest violation": finite(worst), "failed steps": loop.failures}
        return Ran(row, _curve(loop.fine_t, error), {"median us": loop.times.median * 1e6, "missed": float(loop.times.missed)},
                   lambda folder: write_mpc(self.loaded, loop, folder, {"read": 0.0, "run": 0.0}, ["ocp", "mpc"]))


class WbcTrials:
    """Closed loops of whole-body control of one file."""

    def __init__(self, text: str, folder: str, name: str, plant: str):
        self.read, self.plant = load_wbc_text(text, folder, name), plant
        self.loaded = followed(self.read)
        mpc_trials.check_random(bool(self.loaded.trials), "trials")
        compile_in_time(("whole-body control",) if self.loaded.setup.tasks else ())

    def draw(self, seed: int, number: int) -> tuple[Drawn, Any]:
        """Random start and disturbances of a trial, as columns of the table and as input of `run`."""
        planned = self.read.following is not None and bool(self.read.following.mpc)
        loaded = followed(self.read) if planned else self.loaded  # a horizon goes on from where its last trial ended
        drawn = loaded.trial(seed, number)
        row = {**_starts(model_space(loaded.mechanism.model), drawn.setup.start, loaded.trials.start),
               **_pushed(drawn.pushes[len(loaded.pushes):]),
               **{f"friction.{name}": drawn.friction[name] for name, _ in loaded.trials.friction}}
        return row, drawn

    def run(self, drawn: Any) -> Ran:
        """Simulate one trial in closed loop."""
        outcome = run_loaded(drawn, self.plant)
        run, tasks = outcome.run, task_rows(outcome.run)
        _whole(run.ending.name)
        error = next(iter(run.errors.values()), run.x[1:, 0])
        row = {"status": run.ending.name, "ok": outcome.ok, "objective": tasks[0]["rms"] if tasks else None,
               "duration": float(run.t[-1]), "iterations": len(run.solved), "by": BY_TRIAL,
               "findings": json.dumps(list(dict.fromkeys(str(one.kind) for one in run.findings))),
               "message": "" if outcome.ok else verdict(outcome), "largest torque": finite(run.effort_share),
               "failed steps": run.failures}
        return Ran(row, _curve(run.t[1:], error), {"median us": run.times.median * 1e6, "missed": float(run.times.missed)},
                   lambda folder: write_wbc(outcome, folder, ["ocp", "wbc"]))


KINDS: dict[str, type[MpcTrials] | type[WbcTrials]] = {"mpc": MpcTrials, "wbc": WbcTrials}


@lru_cache(maxsize=2)
def loops(kind: str, text: str, folder: str, name: str, plant: str) -> MpcTrials | WbcTrials:
    """The loops of a file, made once by each worker."""
    return KINDS[kind](text, folder, name, plant)


@dataclass(frozen=True)
class Trial:
    """A trial as a task; runs: the folder of runs that are kept."""

    number: int
    trials: Trials
    runs: str = ""

    def solved(self) -> Done:
        """The outcome of the trial."""
        begin, given = time.perf_counter(), self.trials
        made = loops(*given.file)
        drawn, what = made.draw(given.seed, self.number)
        try:
            ran = made.run(what)
        except ProblemError as error:
            return Done(self.number, {**refused_row(error), **drawn}, time.perf_counter() - begin)
        if self.runs and not ran.row["ok"]:
            place = Path(self.runs) / f"{self.number:06d}"
            place.mkdir(parents=True, exist_ok=True)
            ran.write(place)
        return Done(self.number, {**ran.row, **drawn}, time.perf_counter() - begin, ran.curve, ran.measured)

    def prepare(self) -> None:
        """Make the loops of the file."""
        loops(*self.trials.file)


@dataclass(frozen=True)
class Trials:
    """Trials of a file as a study. kind: "mpc" or "wbc"; text, folder, name: of the file; plant: of whole-body control."""

    kind: str
    text: str
    folder: str
    name: str
    count: int
    seed: int
    plant: str = ""
    paths: ClassVar[tuple[str, ...]] = ()
    keeps_points: ClassVar[bool] = True

    @property
    def file(self) -> tuple[str, str, str, str, str]:
        """Identity of the file: kind, text, folder, name, plant."""
        return self.kind, self.text, self.folder, self.name, self.plant

    def values(self) -> list[dict[str, Any]]:
        """One empty record per trial; trials vary nothing by path."""
        return [{} for _ in range(self.count)]

    def head(self) -> dict[str, Any]:
        """Identity of the trials."""
        return {"file": self.name, "text": self.text, "paths": [], "cases": [[]] * self.count, "trials": self.kind,
                "seed": self.seed, "plant": self.plant, "lieocp": metadata.version("lieocp")}

    def plan(self, runs: str) -> tuple[np.ndarray, Callable[[int, Point | None], Task]]:
        """None waits for another. Raises ProblemError for what the file does not say rightly, and where nothing is random."""
        loops(*self.file)
        return np.full(self.count, -1), lambda number, point: Trial(number, self, runs)

    def further(self, parent: np.ndarray, done: Mapping[int, Mapping[str, Any]]) -> np.ndarray | None:
        """All trials are known beforehand."""
        return None

    def finish(self, store: Store) -> None:
        """Nothing is left to do."""


def read_trials(kind: str, file: Path, overrides: Mapping[str, str], count: int, seed: int, plant: str = "") -> Trials:
    """The trials of a file."""
    source = apply_overrides(read_source(file), overrides)
    return Trials(kind, dump(source.tree), str(file.parent.resolve()), file.name, count, seed, plant)


def run_trials(made: Trials, file: Path, *, out: Path | None, processes: int, scheduler: str | None, overwrite: bool, quiet: bool
               ) -> bool:
    """Run trials, fill the folder, print the table; whether all succeed. Raises ProblemError before anything runs."""
    place = out or Path("results") / f"{file.stem}-{made.kind}-trials"
    with progress_bar(made.count, quiet, "succeed") as tell:
        found = swept(made, place, processes=min(processes, made.count), scheduler=scheduler, overwrite=overwrite or out is None,
                      tell=tell)
    print_trials(found, made, file)
    return found.ok


def print_trials(found: Table, made: Trials, file: Path, console: Console | None = None) -> None:
    """How many succeed, why others do not, and how long steps took."""
    screen, bad = console or wide_console(), [row for row in found.rows if not row["ok"]]
    line(screen, f"\n{file.stem}  {len(found) - len(bad)} of {len(found)} trials succeed (seed {made.seed})",
         "bold red" if bad else "bold green")
    if bad:
        screen.print(grid("  trial", "why", folded="why", rows=[(f"  {row['case']}", row["message"]) for row in bad[:20]]))
        line(screen, f"  again       ocp {made.kind} {file} --trial {bad[0]['case']} --seed {made.seed}")
    cost = np.array([row["objective"] for row in found.rows if row["objective"] is not None])
    if cost.size:
        word = "cost " if made.kind == "mpc" else "error"
        line(screen, f"  {word}       median {np.median(cost):.6g}, from {cost.min():.6g} to {cost.max():.6g}")
    steps = [one for one in found.measured.values() if "median us" in one]
    if steps:
        median, missed = np.median([one["median us"] for one in steps]), sum(int(one["missed"]) for one in steps)
        line(screen, f"  step        median {median:.0f} us, missed {missed} of {sum(row['iterations'] for row in found.rows)}")
    line(screen, f"  written to  {found.folder}  (ocp report {found.folder})")


def _starts(space: Space, start: np.ndarray, widths: Sequence[float]) -> Drawn:
    """Coordinates of a start that are random, by name."""
    varied = set(np.flatnonzero(np.array(widths)).tolist()) if len(widths) else set()
    turns = any(space.tangent_index.count(i) == 0 for i in varied)  # of an attitude: all coordinates of it
    return {f"start.{name}": float(value) for name, value, i in zip(space.names, start, space.tangent_index, strict=True)
            if i in varied or turns and i < 0}


def _pushed(pushes: Sequence[Push]) -> Drawn:
    """Time and force [N] of random pushes."""
    if not pushes:
        return {}
    force = np.sum([push.scale * np.array(push.force) for push in pushes], axis=0)
    return {"push.time": pushes[0].time, **{f"push.{axis}": float(value) for axis, value in zip("xyz", force, strict=True)}}


def _curve(t: np.ndarray, value: np.ndarray) -> Point:
    count = min(len(t), len(value))
    pick = thinned(count)
    return {"t": np.asarray(t[:count], float)[pick], "value": np.asarray(value[:count], float)[pick]}


def _whole(ending: str) -> None:
    """Raise KeyboardInterrupt where a run hands back what there was before it was interrupted: such a trial is not done."""
    if ending in ("INTERRUPTED", "TIME_LIMIT"):
        raise KeyboardInterrupt
