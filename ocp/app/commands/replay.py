"""The commands ``ocp diff`` and ``ocp replay``."""

from __future__ import annotations

from ocp.app.commands.common import CERTIFIED, NOT_SOLVED, Run, Target


def diff(first: Target, second: Target, /) -> int:
    """Say in what two problem files or runs differ: expanded files, then method, status, objective. Exit code 1 where they do.

    Parameters
    ----------
    first
        A problem file, or the folder of a run.
    second
        Another.
    """
    from ocp.app.replay import difference

    lines = difference(first, second)
    print("\n".join(lines) if lines else "the same")
    return NOT_SOLVED if lines else CERTIFIED


def replay(run: Run, /) -> int:
    """Solve the problem of a run again and compare: exit code 0 where the outcome is the same, 1 where it is not."""
    from ocp.app.replay import replay as again

    same, lines = again(run)
    print("\n".join([*lines, "the same" if same else "NOT the same"]))
    return CERTIFIED if same else NOT_SOLVED
