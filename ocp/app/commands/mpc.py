"""The command ``ocp mpc``."""

from __future__ import annotations

from ocp.app.commands.common import Out, Overrides, Overwrite, Problem, Quiet, TimeLimit, started
from ocp.interrupts import limited


def mpc(
    file: Problem, /, *, set_: Overrides = None, out: Out = None, overwrite: Overwrite = False, quiet: Quiet = False,
    time_limit: TimeLimit = None,
) -> int:
    """Run a problem file in closed loop, its horizon receding, against a simulated plant; see its section ``mpc``.
    """
    from ocp.app.files.load import parse_overrides
    from ocp.app.mpc.run import mpc as run_mpc

    with limited(time_limit):
        return run_mpc(file, overrides=parse_overrides(set_ or []), out=out, overwrite=overwrite, quiet=quiet, command=started())
