"""The command ``ocp``: which commands there are, and what becomes of errors. Each command has a file in ``ocp.app.commands``.

Exit codes: 0 certified (``ik``: tasks met; ``mpc``, ``simulate``: finished; ``explain``: a cause was named), 1 not solved, 2 bad
input, 3 internal, 4 (``compare``) certified, but the costs differ.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import TypeVar

from ocp.app.quick_start import few_collections
from ocp.interrupts import NOTHING, at_once, forget, holding_interrupts

few_collections()
with at_once():
    import cyclopts

    from ocp.app.commands.begin import check, doctor, init, robot, show
    from ocp.app.commands.common import BAD_INPUT, CERTIFIED, INTERNAL, NOT_SOLVED
    from ocp.app.commands.run import compare, ik, mpc, simulate, verify, wbc
    from ocp.app.commands.solve import resume, solve
    from ocp.app.commands.sweep import report, sweep
    from ocp.app.commands.understand import check_derivatives, derivatives, diff, explain, export, policy, replay, view
    from ocp.app.supervisor import supervise

#: what the system says of paths where nothing can be written, or no longer
UNWRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ENOSPC, errno.EDQUOT)

COMMANDS: dict[str, tuple[Callable[..., int], ...]] = {  # as --help lists them
    "Begin": (robot, init, check, show),
    "Run a file": (solve, sweep, ik, mpc, wbc, simulate, compare, verify),
    "Understand an answer": (explain, report, view, diff, derivatives, check_derivatives),
    "Go on from a run": (resume, replay, export, policy),
    "About lieocp": (doctor,),
}
GROUPS = tuple(cyclopts.Group(title, sort_key=order) for order, title in enumerate(COMMANDS))

app = cyclopts.App(
    name="ocp", help="Optimal control and trajectory optimisation of articulated robots from problem files.",
    help_epilogue="Exit codes: 0 certified or done, 1 not solved, 2 bad input, 3 a bug in lieocp.", version_flags=["--version"],
    result_action="return_value", default_parameter=cyclopts.Parameter(negative=()), group_commands=GROUPS[-1],
)
app.suppress_keyboard_interrupt = False  # guarded() reports it
for group, commands in zip(GROUPS, COMMANDS.values(), strict=True):
    for order, command in enumerate(commands):
        app.command(command, group=group, sort_key=order)
app.register_install_completion_command(add_to_startup=False)  # --install-completion: bash, zsh, fish


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the command; every error of the user ends in one message and exit code 2."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout is sys.__stdout__:
        sys.stdout = Output(sys.stdout)
    if arguments is None:
        supervise(sys.argv[1:], time.perf_counter())
    sys.exit(guarded(lambda: app(arguments, exit_on_error=False, print_error=False)))


T = TypeVar("T")


class Output(io.TextIOWrapper):
    """Standard output where work goes on when whoever read has seen enough (``ocp solve FILE | head``): nobody loses an answer by
    not listening to the end. A terminal that has no word for a sign gets a question mark."""

    def __init__(self, stream: io.TextIOWrapper) -> None:
        super().__init__(stream.buffer, encoding=stream.encoding, errors="replace", line_buffering=stream.line_buffering)

    def write(self, text: str, /) -> int:
        """Write text; a closed pipe ends the command quietly."""
        return self._heard(lambda: super(Output, self).write(text), len(text))

    def flush(self) -> None:
        """Flush the stream; a closed pipe ends the command quietly."""
        self._heard(super().flush, None)

    def _heard(self, action: Callable[[], T], otherwise: T) -> T:
        try:
            return action()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            return otherwise


def guarded(action: Callable[[], int | None]) -> int:
    """Run an action and turn what goes wrong into a message and an exit code."""
    try:
        with holding_interrupts(False):
            return action() or CERTIFIED
    except cyclopts.CycloptsError as error:
        print(f"error: {error}\ntry: {' '.join(('ocp', *(error.command_chain or ()), '--help'))}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt as stopped:
        print(str(stopped) or NOTHING, file=sys.stderr)
        forget(stopped)
        return NOT_SOLVED
    except Exception as error:
        return _report(error)


def _report(error: Exception) -> int:
    """The message and the exit code of an error: the user's, the system's or ours."""
    from dynamics.errors import ModelError
    from ocp.errors import ProblemError

    if isinstance(error, ProblemError | ModelError):
        print(f"error: {error}", file=sys.stderr)
        return BAD_INPUT
    if isinstance(error, OSError) and error.errno in UNWRITABLE:
        print(f"error: {error}", file=sys.stderr)
        return BAD_INPUT if error.errno != errno.ENOSPC else NOT_SOLVED
    traceback.print_exception(error)  # the last resort: whatever else goes wrong is our fault, shown whole
    print("This is a bug in lieocp, not in your file; please report it with the text above.", file=sys.stderr)
    return INTERNAL


if __name__ == "__main__":
    main()
