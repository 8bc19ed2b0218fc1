"""The command ``ocp doctor``."""

from __future__ import annotations

from ocp.app.commands.common import CERTIFIED, NOT_SOLVED, Flag


def doctor(*, prepare: Flag = False) -> int:
    """Versions, compiler, kernel cache, loops that are not compiled yet, and a self-test that solves one problem each way.

    Parameters
    ----------
    prepare
        Compile all loops now, so that no solve has to wait for it: about two minutes, once after an installation.
    """
    from ocp.app.doctor import print_diagnosis, print_preparation

    return CERTIFIED if (print_preparation() if prepare else print_diagnosis()) else NOT_SOLVED
