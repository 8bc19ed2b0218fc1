"""The command ``ocp simulate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ocp.app.commands.common import Flag, Out, Overrides, Overwrite, Problem, Quiet, TimeLimit, started
from ocp.interrupts import at_once, limited


def simulate(
    file: Problem, /, *, integrator: str | None = None, dt: float | None = None, until: float | None = None,
    controls: list[str] | None = None,
    from_: Annotated[Path | None, Parameter(name="--from")] = None, policy: str | None = None,
    quick: Flag = False, set_: Overrides = None, out: Out = None, overwrite: Overwrite = False,
    quiet: Quiet = False, time_limit: TimeLimit = None,
) -> int:
    """Move the system of a problem file (or of a bare robot file) on from its start, under given controls; nothing is optimised.

    Exit code 0 where the motion reached its end. Ctrl-C, and a step that fails, keep what there is.

    Parameters
    ----------
    integrator
        Any integrator of shooting methods (rk4, radau_iia_3, ..); bdf1, sdirk2, bdf2, which solve for positions where the system is
        a mechanism; or dop853, whose inner steps follow their own error. Default: what the file says, or rk4.
    dt
        Longest step [s]; default: what the file says, or a 500th of the whole.
    until
        When to stop [s]; default: at the end of the last phase. Later, the last phase goes on.
    controls
        guess (that of the file, the default), zero, or constants NAME=VALUE.
    from_
        Folder of an earlier run, whose start, durations and controls are taken.
    policy
        policy.npz, or the folder of an iLQR run: its gains act; or mpc: the receding horizon of the file.
    quick
        Leave out the second motion, with steps half as long, that tells the accuracy.
    """
    with at_once():
        from ocp.app.files.load import parse_overrides
        from ocp.app.simulate.run import run

    with limited(time_limit):
        return run(file, integrator=integrator, dt=dt, until=until, controls=controls, from_=from_, policy=policy, quick=quick,
                   overrides=parse_overrides(set_ or []), out=out, overwrite=overwrite, quiet=quiet, command=started())
