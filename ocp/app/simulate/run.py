"""From a problem file, or a bare robot file, to the folder of a simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from ocp.app.files.load import LoadedProblem, load_problem, load_text
from ocp.app.files.yaml_source import dump
from ocp.app.pages.folders import new_folder
from ocp.app.screen import busy, wide_console
from ocp.app.simulate import terminal
from ocp.app.simulate.controls import MPC, choose
from ocp.app.simulate.folder import FORMAT, find, write
from ocp.app.supervisor import report
from ocp.interrupts import late
from ocp.simulation import Controls, Ending, Motion, simulate, with_steps_halved

GOOD, BAD = 0, 1
ROBOTS = (".urdf", ".xml")


def run(file: Path, *, integrator: str | None = None, dt: float | None = None, until: float | None = None,
        controls: Sequence[str] | None = None, from_: Path | None = None, policy: str | None = None, quick: bool = False,
        overrides: Mapping[str, str] | None = None, out: Path | None = None, overwrite: bool = False, quiet: bool = False,
        command: Sequence[str] = (), console: Console | None = None) -> int:
    """Simulate, write the folder, print the tables; returns the exit code: 0 where the motion reached its end.

    Raises ProblemError and ModelError for what the user got wrong, before anything runs.
    """
    loaded = load(file, overrides or {})
    said = loaded.simulate
    problem, driven = choose(loaded, controls, from_, policy)
    if policy == MPC and loaded.mpc is not None:
        until = until or said.until or loaded.mpc.options.duration
        dt = dt or said.dt or loaded.mpc.options.period / 4
    screen, place = console or wide_console(), out or Path("results") / f"{file.stem}-simulate"
    with new_folder(place, overwrite or out is None, FORMAT) as partial:
        with busy(screen, quiet=quiet) as say:
            say("compiling")
            motion = simulate(problem, integrator or said.integrator, driven, dt=dt or said.dt, until=until or said.until,
                              progress=None if quiet else lambda row: say(terminal.where(row)))
            report(holding=True)
            halved, why = _halved(motion, driven, quick or policy == MPC)
        found = find(motion, halved, why, of_run=from_ is not None)
        write(loaded, found, partial, command)
    terminal.print_found(found, place, screen)
    return GOOD if motion.ok else BAD


def _halved(motion: Motion, driven: Controls, skip: bool) -> tuple[tuple[float, str, float] | None, str]:
    """The difference to the motion with steps half as long, or why there is none."""
    if motion.ending is not Ending.FINISHED:
        return None, "the motion did not reach its end"
    if any(leg.phase.steps is not None for leg in motion.legs):
        return None, "steps in discrete time are given"
    if skip:
        return None, "steps half as long were not tried"
    try:
        found = with_steps_halved(motion, driven)
    except KeyboardInterrupt:
        return None, "interrupted"
    if found is None and late():
        return None, "there was no time for steps half as long"
    return found, "" if found is not None else "with steps half as long the motion does not reach its end"


def load(file: Path, overrides: Mapping[str, str]) -> LoadedProblem:
    """A problem file; or a robot file as a problem of its own: at home or neutral, at rest, for a second."""
    if file.suffix not in ROBOTS:
        return load_problem(file, overrides)
    tree = {"name": file.stem, "system": {"robot": file.name}, "phase": {
        "duration": 1.0, "start": {"rest": True, "others": "neutral"}, "costs": []}}
    return load_text(dump(tree), file.parent, str(file), overrides)
