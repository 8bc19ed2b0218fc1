"""The commands ``ocp sweep`` and ``ocp report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from ocp.app.commands.common import (
    CERTIFIED,
    NOT_SOLVED,
    Out,
    Overrides,
    Overwrite,
    Problem,
    Processes,
    Quiet,
    Scheduler,
    overridden,
)
from ocp.interrupts import at_once


def sweep(
    file: Problem, /, *, over: list[str] | None = None, table: Path | None = None, design: str | None = None,
    samples: int | None = None, seed: int | None = None, starts: int | Literal["auto"] | None = None, set_: Overrides = None,
    out: Out = None, processes: Processes = None, scheduler: Scheduler = None, keep: str | None = None,
    overwrite: Overwrite = False, quiet: Quiet = False,
) -> int:
    """Solve a file for many values of its keys: masses, starts, goals, weights, methods. The same command continues an interrupted
    sweep.

    Parameters
    ----------
    over
        What is varied: path=a:b:n, path=log(a:b:n), path=[v1, v2, ..], or a range path=a:b to be sampled. May be repeated;
        default: the section sweep of the file.
    table
        CSV file with the cases: its first line names paths, the others have their values.
    design
        grid (all combinations), random, latin or sobol. Default: grid.
    samples
        How many cases a random, latin or sobol design has.
    seed
        Of random, latin and sobol designs.
    starts
        Multi-start: every case is solved from so many starts, the guess and perturbed ones, and local optima are listed. auto: in
        rounds around the best optimum so far, until none is better.
    keep
        Cases of which the run is kept as a folder: none, all, failed or best. Default: none.
    """
    with at_once():
        from ocp.app.batch.command import Asked, prepared, print_table, progress_bar
        from ocp.app.batch.run import swept
        from ocp.app.batch.workers import processors
    asked = Asked(over=tuple(over or ()), table=table, design=design, samples=samples, seed=seed, starts=starts, keep=keep)
    made = prepared(file, overridden(set_), asked)
    place = out or Path("results") / f"{file.stem}-sweep"
    count = processors() if processes is None else processes
    with progress_bar(len(made.cases), quiet) as tell:
        found = swept(made, place, processes=count, scheduler=scheduler, overwrite=overwrite, tell=tell)
    print_table(found, made)
    return CERTIFIED if found.ok else NOT_SOLVED


def report(
    sweep: Path, /, *, pareto: Annotated[str, Parameter(help="Two columns of the Pareto front.")] = "duration,objective",
) -> int:
    """Write the report of a sweep or of trials, done or not: a table that sorts, and pictures of how answers depend on what varies.

    Parameters
    ----------
    sweep
        The folder of the sweep, or of trials.
    """
    with at_once():
        from ocp.app.batch.report import write_report
    print(f"written to {write_report(sweep, pareto)}")
    return CERTIFIED
