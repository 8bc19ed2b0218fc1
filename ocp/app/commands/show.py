"""The command ``ocp show``."""

from __future__ import annotations

import json
from typing import Annotated

from cyclopts import Parameter

from ocp.app.commands.common import CERTIFIED, Flag, Overrides, Target


def show(
    file: Annotated[Target | None, Parameter(help="The file (YAML); the options below need none, but --set.")] = None, /, *,
    set_: Overrides = None, schema: Flag = False, functions: Flag = False, strategy: Flag = False, thresholds: Flag = False,
) -> int:
    """Print a problem file fully expanded, every default written out.

    Parameters
    ----------
    schema
        The JSON Schema of problem files instead (for editors).
    functions
        Every function, constant and quantity that expressions know instead; with a file its own names, too.
    strategy
        The table of rules by which answers are found instead: diagnosis, remedy, budget.
    thresholds
        Every number that decides in solves and certificates instead, with its unit and its reason.
    """
    from ocp.errors import ProblemError

    if schema:
        from ocp.app.files.schema import problem_json_schema

        print(json.dumps(problem_json_schema(), indent=2))
        return CERTIFIED
    if strategy:
        from ocp.app.pages.strategy import print_rules

        print_rules()
        return CERTIFIED
    if thresholds:
        from ocp.app.pages.thresholds import print_thresholds

        print_thresholds()
        return CERTIFIED
    from ocp.app.files.load import load_problem, parse_overrides

    loaded = None if file is None else load_problem(file, parse_overrides(set_ or []))
    if functions:
        from ocp.app.pages.vocabulary import print_vocabulary

        print_vocabulary(loaded)
        return CERTIFIED
    if loaded is None:
        raise ProblemError("name a problem file, or say --schema, --functions, --strategy or --thresholds", where="ocp show")
    print(loaded.expanded(), end="")
    return CERTIFIED
