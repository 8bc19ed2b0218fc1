"""The command ``ocp ik``."""

from __future__ import annotations

import time
from pathlib import Path

from ocp.app.commands.common import CERTIFIED, NOT_SOLVED, Out, Overrides, Overwrite, Problem, Quiet, TimeLimit, started
from ocp.app.supervisor import report
from ocp.interrupts import limited


def ik(
    file: Problem, /, *, set_: Overrides = None, out: Out = None, overwrite: Overwrite = False, quiet: Quiet = False,
    time_limit: TimeLimit = None,
) -> int:
    """Find a configuration that meets tasks by priority, and write it with a picture and a report.
    """
    from ocp.app.files.ik_file import load_ik, solve_loaded
    from ocp.app.files.load import parse_overrides
    from ocp.app.pages.ik_report import print_ik, write_ik

    begin = time.perf_counter()
    with limited(time_limit):
        outcome = solve_loaded(load_ik(file, parse_overrides(set_ or [])), begin=begin)
    report(holding=True)
    place = out if out is not None else Path("results") / f"{file.stem}-ik"
    folder = write_ik(outcome, place, overwrite=overwrite or out is None, command=started())
    print_ik(outcome, folder, quiet=quiet)
    return CERTIFIED if outcome.ok else NOT_SOLVED
