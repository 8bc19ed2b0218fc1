"""The command ``ocp verify``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ocp.app.commands.common import CERTIFIED, Flag, Out, Overrides, Quiet, TimeLimit, started
from ocp.interrupts import limited


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
        What one file may take; more counts as failed.
    index
        Solve nothing: write the page that lists the gallery by theme, README.md in its folder.
    """
    from ocp.app.files.gallery import in_gallery
    from ocp.app.files.load import parse_overrides
    from ocp.app.verify.run import verify as run_verify

    if index:
        from ocp.app.files.gallery import gallery
        from ocp.app.verify.gallery import write_gallery

        for folder in files or [gallery()]:
            print(write_gallery(folder))
        return CERTIFIED

    with limited(time_limit):
        return run_verify([in_gallery(path) for path in files or ()], quick=quick, every=all_, seconds=seconds,
                          overrides=parse_overrides(set_ or []), out=out, quiet=quiet, command=started())
