"""From a problem file to a run folder: load, solve, certify, write. The command line's steps, callable from Python."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from dynamics.model.model import Model
from ocp.app.checkpoints import SoFar, Started, free_folder
from ocp.app.files.load import LoadedProblem, load_problem
from ocp.app.files.problem.portable import Portable, portable
from ocp.app.pages.folders import is_run
from ocp.app.pages.legs import legs
from ocp.app.pages.results import put_summary, read_summary, write_data, write_pages
from ocp.app.prepare import compile_ahead
from ocp.app.supervisor import is_supervised
from ocp.certify import Tolerances
from ocp.interrupts import LAST_PICTURE_S, Activity, Budget, attempt, closing, holding_interrupts, limited, seconds_left
from ocp.methods import Progress, make_options, method, solve, spelt_otherwise
from ocp.problem import SOLVED, Solution
from ocp.problem.checkpoint import Checkpoint
from ocp.problem.finding import Finding, Kind
from ocp.problem.left_out import by, left_out

PACKAGES = ("lieocp", "casadi", "numpy", "scipy", "osqp", "numba", "pydantic", "matplotlib")


@dataclass(frozen=True)
class Outcome:
    """A finished run: what was loaded, the certified solution and where it was written (None when not written, with ``lost``
    saying why where it should have been). draw: makes the pictures and the report, which the folder still lacks; certified_before:
    a certified run that was to be gone on from, and is left as it was, for this one came to less."""

    loaded: LoadedProblem
    solution: Solution
    folder: Path | None
    seconds: Mapping[str, float]
    lost: str = ""
    draw: Callable[[], None] = lambda: None
    certified_before: Path | None = None


def run(
    file: str | Path, *, method_name: str | None = None, overrides: Mapping[str, str] | None = None,
    out: str | Path | None = None, overwrite: bool = False, write: bool = True, progress: Progress | None = None,
    command: Sequence[str] = (),
) -> Outcome:
    """Solve a problem file and write its run folder (default ``results/<file>-<method>``, replaced when it is a run).

    Raises ProblemError (bad file, unknown method, folder that is not a run), UnsupportedError (a constraint that the
    method cannot enforce), ModelError (bad robot file).
    """
    begin = time.perf_counter()
    loaded = load_problem(file, overrides or {})
    return run_loaded(loaded, Path(file).stem, method_name=method_name, out=out, overwrite=overwrite, write=write,
                      progress=progress, command=command, begin=begin)


def run_loaded(
    loaded: LoadedProblem, stem: str, *, method_name: str | None = None, out: str | Path | None = None,
    overwrite: bool = False, write: bool = True, progress: Progress | None = None, command: Sequence[str] = (),
    begin: float | None = None, resume: Checkpoint | None = None, draw: bool = True, keep_certified: bool = False,
) -> Outcome:
    """As :func:`run`, for a problem already loaded; ``stem`` names the default folder, ``begin`` when reading began, ``draw``
    whether pictures and report are made now (else by ``Outcome.draw``).

    The folder is there before the solve begins and gets a checkpoint every ten seconds; resume: a checkpoint to go on from;
    keep_certified: a certified run in the folder is replaced by a certified one only, anything else is written beside. The limit of
    time of the file counts from ``begin``.
    """
    begin = time.perf_counter() if begin is None else begin
    left = None if loaded.time_limit is None else loaded.time_limit - (time.perf_counter() - begin)
    with limited(left) as budget:
        outcome = _run(loaded, stem, budget, method_name=method_name, out=out, overwrite=overwrite, write=write, progress=progress,
                       command=command, begin=begin, resume=resume, keep_certified=keep_certified, alone=not draw)
        if draw:
            outcome.draw()
    return outcome


def _run(loaded: LoadedProblem, stem: str, budget: Budget, *, method_name: str | None, out: str | Path | None, overwrite: bool,
         write: bool, progress: Progress | None, command: Sequence[str], begin: float, resume: Checkpoint | None,
         keep_certified: bool, alone: bool) -> Outcome:
    """As ``run_loaded``, within its budget and without pictures. alone: whether the process is for this run."""
    chosen = method(method_name or loaded.method)
    options = make_options(chosen.name, loaded.options_for(chosen.name))
    spelt = spelt_otherwise(chosen.name, getattr(loaded.file.solve, chosen.name))
    read = time.perf_counter()
    started = None
    if write:
        place = Path(out) if out is not None else Path("results") / f"{stem}-{chosen.name}"
        started = Started(free_folder(place) if keep_certified else place, portable(loaded, chosen.name))
    aside: SoFar | None = None
    try:
        if started is not None:
            started.begin(overwrite=overwrite or out is None)
        if started is not None and alone and is_supervised():
            aside = SoFar(started, partial(write_run_data, loaded, command))
        compile_ahead(loaded, chosen.name)
        solution = solve(loaded.problem, chosen.name, options, tolerances=Tolerances(**loaded.accept), progress=progress,
                         checkpoint=None if started is None else started.keep, resume=resume, so_far=aside,
                         without=loaded.without)
        solved = time.perf_counter()
        solution = replace(solution, findings=(*left_out(budget), *spelt, *solution.findings),
                           seconds={**solution.seconds, "read": read - begin, "solve and certify": solved - read})
        with holding_interrupts():
            if started is not None and solution.ok and started.target != place:
                started.replaces(place)
            folder, lost = (None, "") if started is None else _write(started, loaded, solution, command, resume)
    except KeyboardInterrupt:
        if started is None or started.last is None:
            raise
        raise KeyboardInterrupt(f"interrupted; to continue: ocp resume {started.target}") from None
    finally:
        if started is not None and not is_run(started.target):
            started.abandon()
        if aside is not None:
            aside.remove()
    seconds = {"read": read - begin, "solve": solved - read, "write": time.perf_counter() - solved}
    drawing = partial(_draw, started, loaded, solution) if started is not None and folder is not None else lambda: None
    return Outcome(loaded, solution, folder, seconds, lost, drawing,
                   place if started is not None and started.target != place else None)


def _write(started: Started, loaded: LoadedProblem, solution: Solution, command: Sequence[str], resume: Checkpoint | None
           ) -> tuple[Path | None, str]:
    """The finished run, as data, in place of the folder that was made for it, or why there is none. Where a resumed solve came to
    nothing, the checkpoint it began from stays."""
    try:
        checkpoint = None if solution.status in SOLVED else started.last or resume
        return write_run_data(loaded, command, started.portable, solution, started.target, checkpoint), ""
    except OSError as error:  # a full disk shall not cost the answer, which is printed
        return None, f"the run could not be written: {error}"


def write_run_data(loaded: LoadedProblem, command: Sequence[str], made: Portable, solution: Solution, folder: Path,
                   checkpoint: Checkpoint | None = None) -> Path:
    """A solution as the data of a run."""
    return write_data(solution, folder, problem_yaml=made.text, provenance=provenance(loaded.model, command), overwrite=True,
                      files=made.files, checkpoint=checkpoint)


def _draw(started: Started, loaded: LoadedProblem, solution: Solution) -> None:
    """Pictures and report, as far as there is time. Until they are there the summary says that they are left out: the process may
    be killed at its limit."""
    summary = read_summary(started.target)
    with limited() as budget, closing(LAST_PICTURE_S):
        if pending := seconds_left() < float("inf"):
            put_summary(started.target, summary, [Finding(Kind.LEFT_OUT, name=str(Activity.PICTURES),
                                                          data={"parts": ("report",), "by": by(budget)})])
        nothing: tuple[Any, str] = (None, "There was no time for an animation.")
        scene, note = attempt(lambda: picture(loaded, solution), nothing, Activity.PICTURES, "animation")
        write_pages(solution, started.target, problem_yaml=started.portable.text, scene=scene, scene_note=note, summary=summary)
    if (missing := left_out(budget)) or pending:
        put_summary(started.target, summary, missing)


def picture(loaded: LoadedProblem, solution: Solution) -> tuple[Any, str]:
    """The scene that the report animates, or None and a sentence that says why there is none."""
    from ocp.app.pages.camera import viewpoint
    from ocp.app.pages.contact_scene import with_contacts
    from ocp.app.pages.contacts import pressed
    from ocp.app.pages.scene import frame_times, scene_from_drawing, scene_from_model

    found = legs(solution)
    if not all(np.all(np.isfinite(leg.trajectory.x)) for leg in found):
        return None, "The trajectory is not finite, so there is nothing to animate."
    t = frame_times(found[0].span[0], found[-1].span[1])
    # frames at the instant between two phases show the later one
    which = np.searchsorted([leg.span[0] for leg in found[1:]], t, side="right")
    times = [np.clip(t[which == i], *leg.span) for i, leg in enumerate(found)]
    x = [np.asarray(leg.trajectory.state(at)).reshape(len(at), leg.phase.system.nx) for leg, at in zip(found, times, strict=True)]
    system = found[0].phase.system
    models = [leg.phase.system.model for leg in found]
    if all(model is not None for model in models):
        if len({model.fingerprint for model in models}) > 1:
            return None, "The phases have different robots, so there is no one picture to animate."
        q, model = np.concatenate([part[:, :system.model.nq] for part in x]), drawn(system)
        scene, words = with_contacts(scene_from_model(model, t, q, body_poses(model, q), loaded.scenery), *pressed(found, times))
        return replace(scene, notes=(*scene.notes, words) if words else scene.notes, yaw=viewpoint(scene)), ""
    if loaded.drawing is not None:
        u = [np.asarray(leg.trajectory.control(at)).reshape(len(at), leg.phase.system.nu)
             for leg, at in zip(found, times, strict=True)]
        return scene_from_drawing(loaded.drawing, t, np.concatenate(x), np.concatenate(u), system.parameter_values), ""
    return None, "The problem has neither a robot nor a drawing section, so there is nothing to animate."


def drawn(system: Any) -> Any:
    """The model of a robot as its parameters make it."""
    return system.model if system.drawn is None else system.drawn(system.parameter_values)


def body_poses(model: Any, q: np.ndarray) -> np.ndarray:
    """World poses [frames, bodies, 4, 4] of every body along configurations q [frames, nq]."""
    import dynamics

    stacked = np.asarray(dynamics.make(model, "body_poses")(q.T))  # [3, 4 * bodies * frames], evaluations side by side
    blocks = stacked.reshape(3, len(q), len(model.bodies), 4).transpose(1, 2, 0, 3)
    poses = np.zeros((*blocks.shape[:2], 4, 4))
    poses[:, :, :3, :] = blocks
    poses[:, :, 3, 3] = 1.0
    return poses


def provenance(model: Model | None, command: Sequence[str] = (), seed: int | None = None) -> dict[str, Any]:
    """Everything needed to make the run again: versions, machine, command, seed and model fingerprint."""
    versions: dict[str, str] = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "not installed as a package"
    record: dict[str, Any] = {
        "command": " ".join(command) or "ocp.app.pipeline.run", "versions": versions,
        "machine": f"{platform.system()} {platform.machine()}, {processor()}", "seed": seed,
    }
    if model is not None:
        record["model"] = {"name": model.name, "sha256": model.fingerprint, "notes": list(model.notes)}
    return record


def processor() -> str:
    """The processor's name, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]} x {len(names)}" if names else platform.processor() or sys.platform
