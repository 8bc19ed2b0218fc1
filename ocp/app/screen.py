"""The console of commands that print wide tables."""

from __future__ import annotations

from rich.console import Console

#: characters a line may have where the output is no terminal, so that nothing is cut off in files and pipes
WIDE = 140


def wide_console() -> Console:
    """A console as wide as the terminal, and wide where there is none."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=WIDE)
