"""The command ``ocp wbc``."""

from __future__ import annotations

from typing import Literal

from ocp.app.commands.common import Out, Overrides, Overwrite, Problem, Quiet, TimeLimit, started
from ocp.interrupts import limited


def wbc(
    file: Problem, /, *, plant: Literal["hybrid", "mujoco"] | None = None, set_: Overrides = None, out: Out = None,
    overwrite: Overwrite = False, quiet: Quiet = False, time_limit: TimeLimit = None,
) -> int:
    """Run a file of whole-body control in closed loop: tasks by strict priority, contacts with friction, a schedule.

    Exit code 0 only if every step was solved and no equation, cone or torque limit was violated.

    Parameters
    ----------
    plant
        hybrid, our simulator of events, or mujoco (the extra of that name); default: what the file says.
    """
    from ocp.app.files.load import parse_overrides
    from ocp.app.wbc.run import wbc as run_wbc

    with limited(time_limit):
        return run_wbc(file, plant=plant or "", overrides=parse_overrides(set_ or []), out=out, overwrite=overwrite, quiet=quiet,
                       command=started())
