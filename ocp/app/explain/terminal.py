"""Terminal output of ``ocp explain``: progress, then the findings in tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from ocp.app.explain.records import Explanation, Spot, Subject
from ocp.app.screen import grid, line, plain
from ocp.app.sentences import SENTENCES, sentence, status_and_ending
from ocp.app.sentences.wording import status_word
from ocp.explain import Advice, Amount, Dependence, Infeasibility, Origin, Price, Program, Remedy
from ocp.explain.groups import UPPER
from ocp.problem import SOLVED, Finding

MAX_TABLE_LINES = 12
"""Lines of one table."""
MAX_NAMES_IN_LINE = 6
"""Names in one line."""


def print_first(subject: Subject, found: Sequence[Finding], out: Console) -> None:
    """Print findings that follow from the problem alone."""
    if not found:
        return
    out.print(f"\n[bold]{plain(subject.loaded.problem.name)}[/]  first diagnosis:", soft_wrap=True)
    for one in found[:MAX_TABLE_LINES]:
        word = "[bold red]impossible[/]" if one.data["sure"] else "[yellow]unlikely[/]"
        out.print(f"  {word}  {plain(sentence(one))}", soft_wrap=True)


def print_worst(worst: Sequence[tuple[str, float]], out: Console | None) -> None:
    """Print the largest violations of the point, before the search for the cause."""
    if out is not None and worst:
        line(out, f"  violated most: {', '.join(f'{name} by {size:.3g}' for name, size in worst)}; looking for the cause")


def print_improved(before: Infeasibility | None, found: Infeasibility, out: Console | None) -> None:
    """What is known more than before: who is in conflict, then which of these would be enough to relax alone."""
    if out is None:
        return
    if before is None:
        more = f" and {len(found.conflict) - MAX_NAMES_IN_LINE} more" if len(found.conflict) > MAX_NAMES_IN_LINE else ""
        line(out, f"  inconsistent: {', '.join(found.conflict[:MAX_NAMES_IN_LINE])}{more}; testing which to relax")
        return
    for remedy in found.remedies[len(before.remedies):]:
        amounts = " and ".join(f"{a.group} by {a.by:.3g}{' ' + a.unit if a.unit else ''}" for a in remedy.amounts)
        line(out, f"  sufficient alone: relax {amounts}")


def print_advice(subject: Subject, found: Sequence[Advice], out: Console) -> None:
    """Why a run that converged is not certified, and what helps."""
    out.print(f"\n[bold]{plain(subject.loaded.problem.name)}[/]  [bold red]converged, not certified[/]", soft_wrap=True)
    out.print(f"  run of {subject.method}: the method solved its program, but the certificate fails", style="dim", markup=False)
    for one in found:
        out.print(f"\n  [red]fails[/]  {plain(sentence(one.failure))}", soft_wrap=True)
        line(out, f"         {SENTENCES[one.why]}")
        for word, (key, value) in zip(("try", *["or"] * len(one.settings)), one.settings, strict=False):
            line(out, f"    {word:<5}  {_lines(key, value)}      (--set {key}={_value(value)})")


def _lines(key: str, value: Any) -> str:
    """A key and its value as one line of a file."""
    head, _, rest = key.partition(".")
    return f"{head}: {_braced(rest, value)}"


def _braced(key: str, value: Any) -> str:
    head, _, rest = key.partition(".")
    return f"{{{head}: {_braced(rest, value) if rest else _value(value)}}}"


def _value(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def print_explanation(found: Explanation, out: Console) -> None:
    """Print the explanation in tables."""
    subject = found.subject
    if found.interrupted:
        out.print("\n  [yellow]interrupted[/]: the diagnosis is incomplete", soft_wrap=True)
    out.print(f"\n[bold]{plain(subject.loaded.problem.name)}[/]  {_headline(found)}", soft_wrap=True)
    made = f"run of {subject.method} ({status_word(subject.status.name)})" if subject.status is not None else \
        f"solved just now ({status_word(found.status.name)})" if found.solved else "not solved"
    line(out, f"  {made}, seen through {found.mesh}", "dim")
    if found.origins:
        _origins(found.origins, found.spots, out)
        return
    if found.status in SOLVED:
        _prices(found, out)
        _dependences(found.dependences, out)
        return
    if found.infeasibility is not None:
        _infeasibility(found.program, found.infeasibility, out)
        if any(remedy.verified for remedy in found.infeasibility.remedies):
            _dependences(found.dependences, out)
            return
    _conditioning(found, out)


def _headline(found: Explanation) -> str:
    if found.origins:
        return "[bold red]not finite[/]"
    if found.status in SOLVED:
        return f"[bold green]solved[/]  cost {found.cost:.10g}"
    found_out = found.infeasibility
    if found_out is not None and not found_out.feasible and found_out.remedies:
        return "[bold red]its constraints are inconsistent[/]"
    return f"[bold red]{status_word(found.status.name)}[/]"


# ---- not finite ---------------------------------------------------------------------------------------------------------
def _origins(origins: Sequence[Origin], spots: Sequence[Spot | None], out: Console) -> None:
    for origin, spot in zip(origins, spots, strict=True):
        out.print(f"\n  [bold]{plain(origin.label)}[/] at {origin.location}, t = {origin.t:.6g} s", soft_wrap=True)
        if spot is not None:
            line(out, f"    {spot.where}: {spot.key}")
            if spot.end > spot.begin:
                shown = spot.line.strip()
                cut = len(spot.line) - len(spot.line.lstrip())
                text = Text("      " + shown)
                text.stylize("bold red", 6 + spot.begin - cut, 6 + spot.end - cut)
                out.print(text, soft_wrap=True)
                out.print(Text("      " + " " * (spot.begin - cut) + "^" * (spot.end - spot.begin), "red"), soft_wrap=True)
            given = ", ".join(f"{name} = {value:.6g}" for name, value in spot.values)
            line(out, f"    {spot.part}" + (f" where {given}" if given else ""))
        line(out, f"    first of its operations: {origin.sentence}")
        values = ", ".join(f"{name} = {value:.6g}" for name, value in (*origin.values, *origin.parameters))
        line(out, f"    there {values}", "dim")


# ---- infeasible ---------------------------------------------------------------------------------------------------------
def _infeasibility(program: Program, found: Infeasibility, out: Console) -> None:
    if found.feasible:
        out.print("\n  The constraints do not contradict each other: a motion that meets them all was found.", soft_wrap=True)
        told = f"From there the problem was solved, at cost {found.cost:.10g}: it needs a better guess."
        if found.status is not None:
            told = f"Solving from there ended: {status_and_ending(found.status, found.ending)}"
        line(out, f"  {told}")
        return
    if not found.remedies:
        told = f"In conflict: {', '.join(found.conflict)}; the amounts are not known yet." if found.status is None else \
            f"even with every constraint relaxed no motion was found: {status_and_ending(found.status, found.ending)}"
        line(out, f"\n  {told}")
        return
    more = f" and {len(found.conflict) - MAX_TABLE_LINES} more" if len(found.conflict) > MAX_TABLE_LINES else ""
    out.print(f"\n  In conflict: [bold]{plain(', '.join(found.conflict[:MAX_TABLE_LINES]))}[/]{more}. The others are "
              "consistent.",
              soft_wrap=True)
    single = all(len(remedy.groups) == 1 for remedy in found.remedies)
    out.print("  Relax any one of these; the least relative change comes first:" if single and len(found.remedies) > 1 else
              "  Relax this:" if single else "  No single one is sufficient. Relax all of these together:")
    table = grid("  constraint", ">in the file", ">relax to", ">at least by", "needed at", ">cost then", "", pad=2,
                 folded="needed at")
    for remedy in found.remedies[:MAX_TABLE_LINES]:
        for i, amount in enumerate(remedy.amounts):
            table.add_row(*_amount(amount, program, first=i == 0 or amount.group != remedy.amounts[i - 1].group),
                          *(_verdict(remedy) if i == 0 else ("", "")))
    out.print(table)
    done = [remedy for remedy in found.remedies if remedy.verified]
    if len(done) == len(found.remedies):
        each = "Each was verified" if single and len(found.remedies) > 1 else "Verified"
        out.print(f"  {each}: the problem was solved with these amounts ({found.solves} small solves in all).", style="dim",
                  soft_wrap=True)
    for remedy in found.remedies:
        if not remedy.verified:
            told = "" if remedy.status is None else status_and_ending(remedy.status, remedy.ending)
            line(out, f"  not verified: {', '.join(remedy.groups)}: {told}", "yellow")
    for note in found.notes:
        line(out, f"  {note}", "dim")


def _amount(amount: Amount, program: Program, *, first: bool) -> tuple[str, ...]:
    unit = f" {amount.unit}" if amount.unit else ""
    sign = "" if program.group(amount.group).is_value else ("≤ " if amount.side == UPPER else "≥ ")
    time = "" if amount.time is None else f"t = {amount.time:.4g} s"
    return (f"  {plain(amount.group)}" if first else "", f"{sign}{amount.bound:.6g}{unit}", f"{sign}{amount.relaxed:.6g}{unit}",
            f"{amount.least:.4g}{unit}", time)


def _verdict(remedy: Remedy) -> tuple[str, str]:
    return (f"{remedy.cost:.6g}", "[green]solves[/]") if remedy.verified else ("", "[yellow]not verified[/]")


# ---- solved -------------------------------------------------------------------------------------------------------------
def _prices(found: Explanation, out: Console) -> None:
    if not found.prices:
        out.print("\n  No constraint is active: without any of them the cost is the same.")
        return
    out.print("\n  Sensitivity of the optimal cost to the numbers of the file:")
    table = grid("  constraint", ">in the file", "presses", ">price per unit", "to first order", pad=2, folded="to first order")
    for price in found.prices[:MAX_TABLE_LINES]:
        unit = f" {price.unit}" if price.unit else ""
        sign = {"lower": "≥ ", "upper": "≤ "}.get(price.side, "")
        bound = "varies" if price.bound != price.bound else f"{sign}{price.bound:.6g}{unit}"
        table.add_row(f"  {plain(price.group)}", bound, _when(price), f"{price.price:+.6g}", saving(price))
    out.print(table)
    if len(found.prices) > MAX_TABLE_LINES:
        out.print(f"  and {len(found.prices) - MAX_TABLE_LINES} with smaller ones", style="dim")


def _when(price: Price) -> str:
    if price.first is None or price.last is None:
        return ""
    if price.knots == 1:
        return f"at {price.first:.4g} s"
    return f"at {price.knots} points, {price.first:.4g} to {price.last:.4g} s"


def saving(price: Price) -> str:
    """A price in words: the saving by a relaxation, to first order."""
    way = {"lower": "lower", "upper": "higher"}.get(price.side) or ("less" if price.price > 0 else "more")
    return f"saves {price.relief:.4g} per {price.unit or 'unit'} {way}"


# ---- neither ------------------------------------------------------------------------------------------------------------
def _conditioning(found: Explanation, out: Console) -> None:
    if found.message:
        line(out, f"\n  {found.message}")
    at = found.conditioning
    if at is None:
        return
    if at.worst:
        out.print("\n  Largest violations at the last iterate")
        for name, value in at.worst:
            line(out, f"    {value:10.3g}  {name}")
    if at.active:
        listed = ", ".join(f"{name} ({count})" for name, count in at.active[:MAX_TABLE_LINES])
        more = f" and {len(at.active) - MAX_TABLE_LINES} more" if len(at.active) > MAX_TABLE_LINES else ""
        line(out, f"\n  Active there: {listed}{more}")
    for what, pair, spread in (("rows", at.rows, at.spread[0]), ("columns", at.columns, at.spread[1])):
        if pair is not None:
            line(out, f"  Scales of the Jacobian, {what}: {pair[0][1]:.3g} ({pair[0][0]}) to {pair[1][1]:.3g} "
                      f"({pair[1][0]}), ratio {spread:.2g}", "yellow" if spread > 1e6 else None)
    for title, names in (("no variable moves", at.empty_rows), ("nothing depends on", at.idle)):
        if names:
            more = f" and {len(names) - 4} more" if len(names) > 4 else ""
            out.print(f"  [yellow]{title}[/] {plain(', '.join(names[:4]))}{more}", soft_wrap=True)
    _dependences(found.dependences, out)
    for hint in found.hints:
        out.print(f"  [yellow]may be unbounded[/]: {plain(hint)}", soft_wrap=True)


def _dependences(dependences: Sequence[Dependence], out: Console) -> None:
    if not dependences:
        return
    out.print("\n  [yellow]Linearly dependent equations[/]; one of each line is redundant or inconsistent:",
              soft_wrap=True)
    for one in dependences[:MAX_TABLE_LINES]:
        listed = ", ".join(f"{name} ({weight:+.2g})" for name, weight in one.rows[:6])
        more = f" and {len(one.rows) - 6} more equations of {', '.join(one.groups[:4])}" if len(one.rows) > 6 else ""
        line(out, f"    {listed}{more}")
