"""The command ``ocp show``."""

from __future__ import annotations

import json

from ocp.app.commands.common import CERTIFIED, Overrides, Problem


def show(file: Problem, /, *, set_: Overrides = None, schema: bool = False) -> int:
    """Print a problem file fully expanded, every default written out.

    Parameters
    ----------
    schema
        Print the JSON Schema of problem files instead (for editors); the file is not read.
    """
    from ocp.app.files.load import load_problem, parse_overrides
    from ocp.app.files.schema import problem_json_schema

    if schema:
        print(json.dumps(problem_json_schema(), indent=2))
        return CERTIFIED
    print(load_problem(file, parse_overrides(set_ or [])).expanded(), end="")
    return CERTIFIED
