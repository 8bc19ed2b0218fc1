"""The tables of ``ocp show``: names that expressions of problem files know, rules by which answers are found, and the numbers that
decide in solves and certificates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.markup import escape

from ocp.app.files.load import LoadedProblem
from ocp.app.files.syntax.scope import BUILTINS, SPECIAL
from ocp.app.screen import grid, line, plain, wide_console
from ocp.strategy.table import RULES
from ocp.thresholds import thresholds

Rows = list[tuple[str, str]]
GENERAL: Rows = [("t", "time since the start of the first phase [s]"), ("pi", "3.14159..."),
                 ("[a, b]", "a vector; components are v[0], v[1], ..., of three also v[x], v[y], v[z]")]
ROBOT: Rows = [
    ('q["joint"]', "configuration [rad or m]; q alone: all of it"), ('v["joint"]', "velocity [rad/s or m/s]"),
    ('a["joint"]', "acceleration [rad/s^2 or m/s^2]"),
    ('tau["joint"]', "effort of a drive, or thrust [N m or N]; tau alone: all controls"),
    ('position("frame")', "origin of a frame in the world [m], three components"),
    ('velocity("frame")', "velocity of that point, world axes [m/s], three components"),
    ("com()", "centre of mass in the world [m], three components"), ("energy()", "kinetic and potential energy [J]"),
    ('angular_momentum("frame", "about")', "of the part of the robot that a frame carries, about another; three components"),
    ('constraint_force("name")', "force of a constraint or contact that is active"),
    ('multiplier["name[0]"]', "force of a constraint as an unknown; formulation: residual")]
LINKAGES: Rows = [('start["state"], final["state"]', 'a state at the ends, in linkages; start["phase.state"] with several phases'),
                  ("duration", 'length of the phase [s]; duration["phase"] with several')]


def print_vocabulary(loaded: LoadedProblem | None = None) -> None:
    """The general vocabulary, and with a file its own names."""
    out = wide_console()
    arguments = {1: "a", 2: "a, b"}
    usual = [(f"{name}({arguments[b.least]}{', ...' if b.most is None else ''})", b.description) for name, b in BUILTINS.items()]
    special = [(words.split(": ", 1)[0], words.split(": ", 1)[1]) for words in SPECIAL.values()]
    operators = "of numbers; + and - also of vectors of one length, * and / of a vector and a number"
    _print(out, "operators", [("+ - * / **", operators)])
    _print(out, "functions", usual + special)
    _print(out, "names", GENERAL)
    if loaded is None or loaded.model is not None:
        _print(out, "of robots", ROBOT)
    _print(out, "in linkages", LINKAGES)
    for title, rows in _own(loaded) if loaded is not None else ():
        _print(out, title, rows)


def _own(loaded: LoadedProblem) -> Iterator[tuple[str, Rows]]:
    file = loaded.file
    for title in ("constants", "parameters", "tables"):
        given = getattr(file, title)
        if given:
            yield f"{title} of the file", [(name, str(value)) for name, value in given.items()]
    for phase in loaded.problem.phases:
        where = f" of phase {phase.name}" if len(loaded.problem.phases) > 1 else ""
        system, model = phase.system, phase.system.model
        units = system.units
        yield f"states{where}", [(_state(name, model is not None), units.get(name, "")) for name in system.space.names]
        inputs = [(name if name.isidentifier() else f'tau["{name}"]', units.get(name, "")) for name in system.inputs]
        yield f"controls{where}", inputs
        if model is not None:
            names: Sequence[str] = [*dict.fromkeys([*(f.name for f in model.frames), *(b.name for b in model.bodies)])]
            yield f"frames{where}", [(name, "") for name in names]


def _state(name: str, robot: bool) -> str:
    return f'{name[0]}["{name[2:]}"]' if robot and name[:2] in ("q.", "v.") else name


def _print(out: Console, title: str, rows: Rows) -> None:
    if not rows:
        return
    out.print(f"\n[bold]{escape(title)}[/]")
    if all(not words for _, words in rows):
        line(out, "  " + ", ".join(name for name, _ in rows))
        return
    table = grid("", "", pad=2, folded="")
    table.show_header = False
    for name, words in rows:
        table.add_row(f"  {escape(name)}", escape(words))
    out.print(table)


# ---- strategy and thresholds ----------------------------------------------------------------------------------------------
def print_rules() -> None:
    """The rules on the terminal."""
    out = wide_console()
    for rule in RULES:
        often = "" if rule.at_most is None else f", at most {rule.at_most} times"
        asked = " or ".join(stage.name.lower() for stage in rule.stages)
        out.print(f"  {rule.name}  ({asked}{often}{'' if rule.optional else '; always on'})", markup=False, style="bold")
        line(out, f"      when  {rule.when}")
        line(out, f"      then  {rule.does}{f'; must improve {rule.improves}' if rule.improves else ''}")
    out.print("\n  To switch rules off: solve: {strategy: {without: [rule, ...]}}", markup=False)


def print_thresholds() -> None:
    """Record, name, value, unit and reason of every threshold."""
    out = wide_console()
    table = grid("record", "name", ">value", "unit", "bounds", pad=2, folded="bounds")
    before = ""
    for one in thresholds():
        table.add_row(one.record if one.record != before else "", one.name, f"{one.value:g}", one.unit, plain(one.why))
        before = one.record
    out.print(table)
