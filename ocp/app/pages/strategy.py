"""The table of rules by which answers are found, for the terminal and for the documentation."""

from __future__ import annotations

from rich.console import Console

from ocp.app.screen import wide_console
from ocp.strategy.rule import Rule
from ocp.strategy.table import RULES


def rows() -> list[tuple[str, ...]]:
    """Asked when, name, diagnosis, remedy, what it must improve, times, whether a file may switch it off."""
    return [(_asked(rule), rule.name, rule.when, rule.does, rule.improves, "" if rule.at_most is None else str(rule.at_most),
             "yes" if rule.optional else "") for rule in RULES]


def _asked(rule: Rule) -> str:
    return " or ".join(stage.name.lower() for stage in rule.stages)


def table() -> str:
    """The table in Markdown."""
    head = ("asked", "rule", "diagnosis", "remedy", "must improve", "at most", "optional")
    lines = [head, ("---",) * len(head), *((a, f"`{name}`", *rest) for a, name, *rest in rows())]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def print_rules(console: Console | None = None) -> None:
    """The table on the terminal."""
    out = console or wide_console()
    for asked, name, when, does, improves, most, optional in rows():
        often = f", at most {most} times" if most else ""
        out.print(f"  {name}  ({asked}{often}{'' if optional else '; always on'})", markup=False, style="bold")
        out.print(f"      when  {when}", markup=False, soft_wrap=True)
        out.print(f"      then  {does}{f'; must improve {improves}' if improves else ''}", markup=False, soft_wrap=True)
    out.print("\n  To switch rules off: solve: {strategy: {without: [rule, ...]}}", markup=False)
