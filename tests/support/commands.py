"""Commands run inside the test's process, and solves that are interrupted."""

import pytest

from ocp.app import cli


def call(*arguments):
    """The exit code."""
    with pytest.raises(SystemExit) as stop:
        cli.main([str(a) for a in arguments])
    return stop.value.code


def stop_at(iteration):
    def progress(row):
        if row["iteration"] >= iteration:
            raise KeyboardInterrupt

    return progress
