"""Parts that many commands share: exit codes, and parameters by name."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

CERTIFIED, NOT_SOLVED, BAD_INPUT, INTERNAL = 0, 1, 2, 3


def _file(kind: type, tokens: Sequence[Any]) -> Path:
    """A file or folder, which may be one of the installed gallery."""
    from ocp.app.files.problem.gallery import in_gallery

    return in_gallery(Path(tokens[0].value))


def _text(kind: type, tokens: Sequence[Any]) -> str:
    return str(_file(kind, tokens))


Target = Annotated[Path, Parameter(converter=_file)]
Robot = Annotated[str, Parameter(converter=_text)]  # a file, or a name
Problem = Annotated[Target, Parameter(help="The file (YAML).")]
Overrides = Annotated[
    list[str] | None,
    Parameter(name="--set", help="Override a key of the file: path.to.key=value (YAML). May be repeated."),
]
Out = Annotated[Path | None, Parameter(help="Folder to write; default: one below results/ named after the file and the command, "
                                            "replaced if it holds an earlier result of the same kind.")]
Flag = Annotated[bool, Parameter(show_default=False)]  # is off unless given
Overwrite = Annotated[Flag, Parameter(help="Replace the result that --out holds.")]
Quiet = Annotated[Flag, Parameter(name=["--quiet", "-q"], help="The outcome only, no progress.")]
Run = Annotated[Path, Parameter(help="The folder of the run.")]
TimeLimit = Annotated[float | None, Parameter(
    help="Seconds after which the command ends and keeps the best answer so far. Default: none.")]

Processes = Annotated[int | None, Parameter(name=["--processes", "-j"], help="How many processes of this machine work; 0: only "
                                            "this one. Default: as many as there are processors.")]
Scheduler = Annotated[str | None, Parameter(help="Address of a Dask scheduler, tcp://host:8786, whose workers take the cases "
                                                 "(pip install 'lieocp[cluster]').")]
Trials = Annotated[int | None, Parameter(validator=Number(gte=1), help="Number of runs with random starts, pushes and noise "
                                         "(section trials): how many succeed by the criteria of the file. Runs that fail are kept; "
                                         "the same command continues what was interrupted.")]
Trial = Annotated[int | None, Parameter(validator=Number(gte=0), help="Run this one of the trials alone, with its report.")]
Seed = Annotated[int, Parameter(help="Seed of all that is random in trials.")]


def overridden(assignments: Sequence[str] | None) -> dict[str, str]:
    """Values that ``--set`` changes, by key."""
    from ocp.app.files.load import parse_overrides

    return parse_overrides(assignments or [])


def started() -> list[str]:
    """The command as it was given, for the record."""
    return ["ocp", *sys.argv[1:]]
