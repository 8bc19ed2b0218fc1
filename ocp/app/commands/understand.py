"""The commands about runs and derivatives: ``ocp explain``, ``view``, ``diff``, ``replay``, ``policy``, ``derivatives`` ..."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ocp.app.commands import common
from ocp.app.commands.common import CERTIFIED, NOT_SOLVED, Flag, Out, Overrides, Overwrite, Problem, Quiet, Robot, Target, TimeLimit
from ocp.interrupts import limited


def explain(target: Target, /, *, set_: Overrides = None, quiet: Quiet = False, time_limit: TimeLimit = None) -> int:
    """Say why a problem was not solved (what to relax and by how much, what is not finite and where), or what its constraints cost.

    Exit code 0 where a cause was named or the problem is solved, 1 otherwise.

    Parameters
    ----------
    target
        The folder of a run, or a problem file, which is solved first.
    """
    from ocp.app.explain.run import explain as run_explain

    with limited(time_limit):
        return run_explain(target, overrides=common.overridden(set_), quiet=quiet)


def view(run: common.Run, /, *, port: int = 8080) -> int:
    """Show the motion of a run in the browser, live: turn it, stop it, look closer. Needs the extra viz.

    Parameters
    ----------
    port
        Where the page is served; the next free one is taken if it is in use.
    """
    from ocp.app.viewer import view as serve

    serve(run, port, lambda words: print(words, flush=True))
    return CERTIFIED


def diff(first: Target, second: Target, /) -> int:
    """Say in what two problem files or runs differ: expanded files, then method, status, objective. Exit code 1 where they do.

    Parameters
    ----------
    first
        A problem file, or the folder of a run.
    second
        Another.
    """
    from ocp.app.runs import difference

    lines = difference(first, second)
    print("\n".join(lines) if lines else "the same")
    return NOT_SOLVED if lines else CERTIFIED


def replay(run: common.Run, /) -> int:
    """Solve the problem of a run again and compare: exit code 0 where the outcome is the same, 1 where it is not."""
    from ocp.app.runs import replay as again

    same, lines = again(run)
    print("\n".join([*lines, "the same" if same else "NOT the same"]))
    return CERTIFIED if same else NOT_SOLVED


def derivatives(
    robot: Robot, /, *, root: str | None = None, mimic: str | None = None, functions: list[str] | None = None,
    sources: list[str] | None = None, contacts: list[str] | None = None,
    compile_: Annotated[str, Parameter(name="--compile")] = "auto", seed: int = 0, samples: int = 3, out: Out = None,
    overwrite: Overwrite = False, quick: Flag = False, quiet: Quiet = False, time_limit: TimeLimit = None,
) -> int:
    """Compare all sources of the derivatives of a robot's dynamics: errors, times, sizes, and which one to use.

    Parameters
    ----------
    robot
        A .urdf or .xml file, the name of a robot of the robots extra, or a problem file.
    root
        fixed, free_flyer or planar (URDF); default: fixed, or what the problem file says.
    mimic
        couple or independent (URDF); default: couple, or what the problem file says.
    functions
        Which functions, repeated or separated by commas; default: all.
    sources
        Which sources of derivatives, likewise; default: all.
    contacts
        What holds the robot, likewise: its contacts and constraints, or frames, whose origins stay. Dynamics, forces and impacts
        under them, and their derivatives, are measured then.
    compile_
        auto (what is affordable), yes or no.
    seed
        Seed of the random states.
    samples
        States at which errors are measured.
    quick
        Short timings.
    """
    with limited(time_limit):
        from ocp.app.derivative_study.run import derivatives as study
        from ocp.app.derivative_study.study import Settings, chosen

        settings = Settings(chosen(functions), chosen(sources), compile_, seed, samples, quick, chosen(contacts))
        return study(robot, settings, root=root, mimic=mimic, out=out, overwrite=overwrite, quiet=quiet, command=common.started())


def check_derivatives(
    file: Problem, /, *, set_: Overrides = None, points: int = 3, seed: int = 0, first_order: Flag = False,
    time_limit: TimeLimit = None,
) -> int:
    """Compare the derivatives of every term of a problem file by independent methods, and name the entry that disagrees.

    Parameters
    ----------
    points
        Points at which to compare: along the guess, and random ones near it.
    seed
        Seed of the random points.
    first_order
        Leave out second derivatives.
    """
    with limited(time_limit):
        from ocp.app.files.load import load_problem
        from ocp.app.pages.derivative_check import print_derivative_check, term_places
        from ocp.derivative_check import check_derivatives as run_check

        loaded = load_problem(file, common.overridden(set_))
        found = run_check(loaded.problem, points=points, seed=seed, second=not first_order,
                          locations=term_places(loaded, str(file)))
    print_derivative_check(found)
    return CERTIFIED if found.ok else NOT_SOLVED


def policy(run: common.Run, /, *, out: Path | None = None, models: Path | None = None, overwrite: Overwrite = False) -> int:
    """Write the feedback policy of an iLQR run as policy.npz (NumPy) and policy.h, policy.c (portable C99).

    Parameters
    ----------
    out
        Folder to write; default: policy within that of the run.
    models
        The folder that the run's robot file is relative to; default: that of the run, which holds it.
    """
    from ocp.app.runs import policy as export

    export(run, out=out, models=models, overwrite=overwrite)
    return CERTIFIED


def export(
    run: common.Run, /, *, formats: Annotated[list[str] | None, Parameter(consume_multiple=True)] = None, rate: float | None = None,
    out: Path | None = None, models: Path | None = None, overwrite: Overwrite = False,
) -> int:
    """Write the motion of a run for other programs: motion.csv, motion.npz (of a robot with MuJoCo's qpos and qvel), motion.c.

    Parameters
    ----------
    formats
        csv, npz, c; default: all of them.
    rate
        Times a second [Hz]; default: the knots of the run.
    out
        Folder to write; default: export within that of the run.
    models
        The folder that the run's robot file is relative to; default: that of the run, which holds it.
    """
    from ocp.app.export import FORMATS
    from ocp.app.export import export as write
    from ocp.app.pages.results import read_summary

    made = write(run, formats or FORMATS, rate=rate, out=out, overwrite=overwrite, models=models)
    print(f"written to {made[0].parent}: {', '.join(place.name for place in made)}")
    if not read_summary(run).get("ok", True):
        print("note: the run is not certified; its motion may violate constraints", file=sys.stderr)
    return CERTIFIED
