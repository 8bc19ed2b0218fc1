"""The commands that run a file and write a folder: ``ocp ik``, ``mpc``, ``wbc``, ``simulate``, ``compare``, ``verify``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ocp.app.commands import common
from ocp.app.commands.common import (
    CERTIFIED,
    NOT_SOLVED,
    Flag,
    Out,
    Overrides,
    Overwrite,
    Problem,
    Processes,
    Quiet,
    Scheduler,
    Seed,
    TimeLimit,
    Trial,
    Trials,
)
from ocp.app.supervisor import report
from ocp.interrupts import at_once, limited


def ik(
    file: Problem, /, *, set_: Overrides = None, out: Out = None, overwrite: Overwrite = False, quiet: Quiet = False,
    time_limit: TimeLimit = None,
) -> int:
    """Find a configuration that meets tasks by priority, and write it with a picture and a report.
    """
    from ocp.app.files.control.ik import load_ik, solve_loaded
    from ocp.app.pages.ik_report import print_ik, write_ik

    begin = time.perf_counter()
    with limited(time_limit):
        outcome = solve_loaded(load_ik(file, common.overridden(set_)), begin=begin)
    report(holding=True)
    place = out if out is not None else Path("results") / f"{file.stem}-ik"
    folder = write_ik(outcome, place, overwrite=overwrite or out is None, command=common.started())
    print_ik(outcome, folder, quiet=quiet)
    return CERTIFIED if outcome.ok else NOT_SOLVED


def mpc(
    file: Problem, /, *, trials: Trials = None, seed: Seed = 0, trial: Trial = None, compare: Flag = False,
    processes: Processes = None, scheduler: Scheduler = None, set_: Overrides = None, out: Out = None,
    overwrite: Overwrite = False, quiet: Quiet = False, time_limit: TimeLimit = None,
) -> int:
    """Run a problem file in closed loop, its horizon receding, against a simulated plant; see its section ``mpc``.

    Parameters
    ----------
    compare
        Compare real-time and converged iterations, engines for constraints, rates and horizons, each in its own run: one table and
        one figure.
    """
    from ocp.app.mpc.run import mpc as run_mpc

    if sum((trials is not None, trial is not None, compare)) > 1:
        from ocp.errors import ProblemError

        raise ProblemError("give only one of them", where="--trials, --trial and --compare")
    with limited(time_limit):
        if trials is not None:
            return _trials("mpc", file, trials, seed, set_, out=out, processes=processes, scheduler=scheduler, overwrite=overwrite,
                           quiet=quiet)
        if compare:
            from ocp.app.mpc.compare import run_compare

            return run_compare(file, overrides=common.overridden(set_), out=out, overwrite=overwrite, quiet=quiet,
                               command=common.started())
        return run_mpc(file, overrides=common.overridden(set_), out=out, overwrite=overwrite, quiet=quiet, command=common.started(),
                       drawn=None if trial is None else (seed, trial))


def _trials(kind: str, file: Path, count: int, seed: int, set_: list[str] | None, plant: str = "", *, out: Path | None,
            processes: int | None, scheduler: str | None, overwrite: bool, quiet: bool) -> int:
    with at_once():
        from ocp.app.batch.trials import read_trials, run_trials
        from ocp.app.batch.workers import processors
    made = read_trials(kind, file, common.overridden(set_), count, seed, plant)
    good = run_trials(made, file, processes=processors() if processes is None else processes, out=out,
                      scheduler=scheduler, overwrite=overwrite, quiet=quiet)
    return CERTIFIED if good else NOT_SOLVED


def wbc(
    file: Problem, /, *, plant: str | None = None, follow: Path | None = None, trials: Trials = None, seed: Seed = 0,
    trial: Trial = None, processes: Processes = None, scheduler: Scheduler = None, set_: Overrides = None, out: Out = None,
    overwrite: Overwrite = False, quiet: Quiet = False, time_limit: TimeLimit = None,
) -> int:
    """Run a file of whole-body control in closed loop: tasks by strict priority, contacts with friction, a schedule.

    Exit code 0 only if every step was solved and no equation, cone or torque limit was violated.

    Parameters
    ----------
    plant
        hybrid, our simulator of events, or mujoco (the extra of that name); default: what the file says.
    follow
        Folder of a run of ocp solve: the robot follows its motion, contacts and forces; or a problem file with a section mpc, which
        plans the motion at its own rate.
    """
    from ocp.app.wbc.run import wbc as run_wbc

    follows = [] if follow is None else [f"follow.{'run' if follow.is_dir() else 'mpc'}={follow.absolute()}"]
    given = [*(set_ or ()), *follows]
    overrides = common.overridden(given)
    with limited(time_limit):
        if trials is not None:
            return _trials("wbc", file, trials, seed, given, plant or "", out=out, processes=processes, scheduler=scheduler,
                           overwrite=overwrite, quiet=quiet)
        return run_wbc(file, plant=plant or "", overrides=overrides, out=out, overwrite=overwrite, quiet=quiet,
                       command=common.started(), drawn=None if trial is None else (seed, trial))


def simulate(
    file: Problem, /, *, integrator: str | None = None, dt: float | None = None, until: float | None = None,
    charts: str | None = None, controls: list[str] | None = None,
    from_: Annotated[Path | None, Parameter(name="--from")] = None, policy: str | None = None,
    quick: Flag = False, set_: Overrides = None, out: Out = None, overwrite: Overwrite = False,
    quiet: Quiet = False, time_limit: TimeLimit = None,
) -> int:
    """Simulate the system of a problem file (or of a bare robot file) from its start, under given controls; nothing is optimised.

    Exit code 0 if the motion reached its end. After Ctrl-C and after a step that fails, the motion until then is kept.

    Parameters
    ----------
    integrator
        Any integrator of shooting methods (rk4, radau_iia_3, ..); bdf1, sdirk2 and bdf2, which solve for the positions of
        mechanisms; linearly_implicit, for robots, one linear solve a step; or dop853, with error control. Default: that of the
        file, or rk4.
    dt
        Longest step [s]; default: that of the file, or a 500th of the duration.
    until
        When to stop [s]; default: at the end of the last phase. A later time extends the last phase.
    charts
        At singular charts of rotations: quaternion (continue in a quaternion) or switch (to another chart, also in multistep
        methods). Default: that of the file, or quaternion.
    controls
        guess (that of the file, the default), zero, or constants NAME=VALUE.
    from_
        Folder of an earlier run, whose start, durations and controls are taken.
    policy
        policy.npz, or the folder of an iLQR run: its gains act; or mpc: the receding horizon of the file.
    quick
        Leave out the second simulation, with halved steps, which measures the accuracy.
    """
    with at_once():
        from ocp.app.simulate.run import run

    with limited(time_limit):
        return run(file, integrator=integrator, dt=dt, until=until, charts=charts, controls=controls, from_=from_, policy=policy,
                   quick=quick, overrides=common.overridden(set_), out=out, overwrite=overwrite, quiet=quiet,
                   command=common.started())


def compare(
    file: Problem, /, *, methods: Annotated[list[str] | None, Parameter(consume_multiple=True)] = None,
    set_: Overrides = None, repeat: int = 0, tolerance: float | None = None, out: Out = None, overwrite: Overwrite = False,
    quiet: Quiet = False, time_limit: TimeLimit = None,
) -> int:
    """Solve one problem file by several methods and options, side by side in one table, one picture and one folder.

    Exit code 0: all are certified and agree; 1: something was not solved, not certified or refused though it was asked for; 4: all
    are certified, but their costs differ by more than the tolerance.

    Parameters
    ----------
    methods
        Name or name:key=value,key=value; several of them, or the flag repeated. Default: every method that supports the problem.
    repeat
        How often each is solved again, for times without compilation.
    tolerance
        Relative difference of costs that counts as agreement; default: 1e-3, or the reference's where that is wider.
    """
    from ocp.app.compare.run import compare as run_compare

    with limited(time_limit):
        return run_compare(file, methods=methods or (), overrides=common.overridden(set_), repeat=repeat, tolerance=tolerance,
                           out=out, overwrite=overwrite, quiet=quiet, command=common.started())


def verify(
    files: list[Path] | None = None, /, *, quick: Flag = False,
    all_: Annotated[Flag, Parameter(name="--all")] = False, seconds: float | None = None, set_: Overrides = None,
    out: Out = None, quiet: Quiet = False, index: Flag = False, time_limit: TimeLimit = None,
) -> int:
    """Solve a whole gallery of problem files and print a scoreboard: certificate, cost beside the reference, time, verdict.

    Exit code 0 only if all pass. Ctrl-C keeps what there is. Files of ``ocp ik`` and ``ocp mpc`` are skipped.

    Parameters
    ----------
    files
        Problem files and folders of them; default: the folder problems, or the gallery that came with the installation.
    quick
        Small problems only, and 20 s for each.
    all_
        Every method that a file gives options for, not only its own.
    seconds
        Time limit of each file; a longer solve counts as failed.
    index
        Solve nothing: write the page that lists the gallery by theme, README.md in its folder.
    """
    from ocp.app.files.problem.gallery import in_gallery
    from ocp.app.verify.run import verify as run_verify

    if index:
        from ocp.app.files.problem.gallery import gallery
        from ocp.app.verify.gallery import write_gallery

        for folder in files or [gallery()]:
            print(write_gallery(folder))
        return CERTIFIED

    with limited(time_limit):
        return run_verify([in_gallery(path) for path in files or ()], quick=quick, every=all_, seconds=seconds,
                          overrides=common.overridden(set_), out=out, quiet=quiet, command=common.started())
