"""The page of all options: what the records of options say of themselves, and their defaults."""

import dataclasses
import re
from inspect import cleandoc

from ocp.methods import METHODS
from ocp.mpc.options import MPCOptions


def options_page() -> str:
    """The page: a part for each method and for closed loops."""
    parts = ["# Options\n", "In a file under `solve:` (`solve: {method: ilqr, ilqr: {intervals: 200}}`) or `mpc:`, on the command\n"
             "line as `--set solve.ilqr.intervals=200`. Where nothing is given, defaults hold.\n"]
    for name, method in METHODS.items():
        parts += [f"## `{name}`\n", f"{method.summary[0].upper()}{method.summary[1:]}.\n", *_record(method.options_type())]
    return "\n".join([*parts, "## `mpc`\n", *_record(MPCOptions)])


def _record(kind: type) -> list[str]:
    """A record's fields with their defaults, and the entries of its docstring."""
    fields = {f.name: f.default for f in dataclasses.fields(kind)}
    table = ["| option | default |", "|---|---|"]
    table += [f"| `{name}` | {'' if value is dataclasses.MISSING else f'`{value}`'} |" for name, value in fields.items()]
    _, _, entries = cleandoc(kind.__doc__ or "").partition("\n\n")
    name = r"(?<![\w.`\"])(" + "|".join(fields) + r")"
    told = []
    for entry in re.split(r"\n(?=\S)", entries):
        head, colon, rest = " ".join(entry.replace("``", "`").split()).partition(":")
        told.append("- " + re.sub(name + r"\b", r"**\1**", head) + colon + re.sub(name + ":", r"**\1**:", rest))
    return [*table, "", *told, ""]
