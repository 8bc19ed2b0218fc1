"""The command ``ocp view``."""

from __future__ import annotations

from ocp.app.commands.common import CERTIFIED, Run


def view(run: Run, /, *, port: int = 8080) -> int:
    """Show the motion of a run in the browser, live: turn it, stop it, look closer. Needs the extra viz.

    Parameters
    ----------
    port
        Where the page is served; the next free one is taken if it is in use.
    """
    from ocp.app.viewer import view as serve

    serve(run, port, lambda words: print(words, flush=True))
    return CERTIFIED
