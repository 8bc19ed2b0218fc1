"""The commands ``ocp derivatives`` and ``ocp check-derivatives``."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from ocp.app.commands.common import (
    CERTIFIED,
    NOT_SOLVED,
    Flag,
    Out,
    Overrides,
    Overwrite,
    Problem,
    Quiet,
    Robot,
    TimeLimit,
    started,
)
from ocp.interrupts import limited


def derivatives(
    robot: Robot, /, *, root: str | None = None, mimic: str | None = None, functions: list[str] | None = None,
    sources: list[str] | None = None, compile_: Annotated[str, Parameter(name="--compile")] = "auto", seed: int = 0,
    samples: int = 3, out: Out = None, overwrite: Overwrite = False, quick: Flag = False, quiet: Quiet = False,
    time_limit: TimeLimit = None,
) -> int:
    """Every way to the derivatives of a robot's dynamics side by side: errors, times, sizes, and which one to use.

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

        return study(robot, root=root, mimic=mimic, functions=functions, sources=sources, compiling=compile_, seed=seed,
                     samples=samples, out=out, overwrite=overwrite, quick=quick, quiet=quiet, command=started())


def check_derivatives(
    file: Problem, /, *, set_: Overrides = None, points: int = 3, seed: int = 0, first_order: Flag = False,
    time_limit: TimeLimit = None,
) -> int:
    """Compare the derivatives of every term of a problem file by independent roads, and name the entry that disagrees.

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
        from ocp.app.files.load import load_problem, parse_overrides
        from ocp.app.pages.derivative_check import print_derivative_check, term_places
        from ocp.derivative_check import check_derivatives as run_check

        loaded = load_problem(file, parse_overrides(set_ or []))
        found = run_check(loaded.problem, points=points, seed=seed, second=not first_order, places=term_places(loaded, str(file)))
    print_derivative_check(found)
    return CERTIFIED if found.ok else NOT_SOLVED
