"""The command ``ocp policy``."""

from __future__ import annotations

from pathlib import Path

from ocp.app.commands.common import CERTIFIED, Overwrite, Run


def policy(run: Run, /, *, out: Path | None = None, models: Path | None = None, overwrite: Overwrite = False) -> int:
    """Write the feedback policy of an iLQR run as policy.npz (NumPy) and policy.h, policy.c (portable C99).

    Parameters
    ----------
    out
        Folder to write; default: policy within that of the run.
    models
        The folder that the run's robot file is relative to; default: that of the run, which holds it.
    """
    from ocp.app.policy import policy as export

    export(run, out=out, models=models, overwrite=overwrite)
    return CERTIFIED
