"""The command ``ocp explain``."""

from __future__ import annotations

from ocp.app.commands.common import Overrides, Quiet, Target, TimeLimit
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
    from ocp.app.files.load import parse_overrides

    with limited(time_limit):
        return run_explain(target, overrides=parse_overrides(set_ or []), quiet=quiet)
