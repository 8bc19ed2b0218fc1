"""The command ``ocp compare``."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from ocp.app.commands.common import Out, Overrides, Overwrite, Problem, Quiet, TimeLimit, started
from ocp.interrupts import limited


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
        name or name:key=value,key=value; several of them, or the flag repeated. Default: every method that can serve the file.
    repeat
        Solve each so many times again, for the time without first builds.
    tolerance
        Relative difference of costs that counts as agreement; default: 1e-3, or the reference's where that is wider.
    """
    from ocp.app.compare.run import compare as run_compare
    from ocp.app.files.load import parse_overrides

    with limited(time_limit):
        return run_compare(file, methods=methods or (), overrides=parse_overrides(set_ or []), repeat=repeat, tolerance=tolerance,
                           out=out, overwrite=overwrite, quiet=quiet, command=started())
