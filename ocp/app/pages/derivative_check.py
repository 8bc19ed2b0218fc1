"""Terminal output of ``ocp check-derivatives``: a line for every term, then every finding with entry, point and numbers."""

from __future__ import annotations

from rich.console import Console

from ocp.app.files.load import LoadedProblem
from ocp.app.files.problem.phases import stretches
from ocp.app.files.syntax.yaml_source import parse_source
from ocp.app.screen import grid, line, plain, wide_console
from ocp.derivative_check import DerivativeCheck, Finding, Kind, Order, TermCheck

MAX_FINDINGS_OF_TERM = 12
"""Findings shown for each term."""


def term_places(loaded: LoadedProblem, name: str) -> dict[str, str]:
    """Where the system and the costs stand in the file ``name``, as ``check_derivatives`` wants it."""
    source = parse_source(loaded.text, name)
    costs = {f"cost {cost.name}": source.where((*place, "costs", i))
             for place, _, phase in stretches(loaded.file) for i, cost in enumerate(phase.costs)}
    return {"system": source.where(("system",)), **costs}


def print_derivative_check(check: DerivativeCheck, console: Console | None = None, *, most: int = MAX_FINDINGS_OF_TERM) -> None:
    """The table of terms, the findings (at most ``most`` for each term, and how many more), remarks and the verdict."""
    out = console or wide_console()
    out.print(f"\n[bold]{plain(check.problem)}[/]  derivatives of {len(check.terms)} terms, seed {check.seed}", soft_wrap=True)
    several = len({term.phase for term in check.terms}) > 1
    table = grid("  term", ">outputs", ">first", ">bar", ">second", ">bar", "", pad=2, folded="  term")
    for term in check.terms:
        name = f"  {term.kind} {term.name}" + (f" ({term.phase})" if several else "")
        cells = [*_cells(term.first), *(_cells(term.second) if term.second else ("", ""))]
        table.add_row(plain(name), str(term.size), *cells, _verdict(term))
    out.print(table)
    out.print("  first, second: largest relative difference between exact methods (CasADi, complex step, closed form)", style="dim",
              soft_wrap=True)
    out.print("  bar: largest relative error bound of the finite differences for comparison", style="dim", soft_wrap=True)
    for term in check.terms:
        _methods(term, out)
    for term in check.terms:
        for finding in term.findings[:most]:
            _finding(finding, out)
        if len(term.findings) > most:
            out.print(f"  ... and {len(term.findings) - most} more of {term.kind} {term.name!r}", markup=False)
    for term in check.terms:
        for remark in term.remarks:
            line(out, f"  remark      {term.kind} {term.name!r}: {remark}")
    for remark in check.remarks:
        line(out, f"  remark      {remark}")
    failing = [finding for finding in check.findings if finding.fails]
    out.print("  [bold green]all methods agree[/]" if check.ok else
              f"  [bold red]{len(failing)} derivative{'s are' if len(failing) > 1 else ' is'} not ok[/]")


def _cells(order: Order) -> tuple[str, str]:
    if not order.entries:
        return "not compared", ""
    bar = f"{order.error_bound:.0e}"
    return f"{order.difference:.0e}", f"{bar} ({order.unresolved} of {order.entries} unresolved)" if order.unresolved else bar


def _verdict(term: TermCheck) -> str:
    if not term.ok:
        return "[red]not ok[/]"
    kinks = any(f.kind in (Kind.KINK, Kind.JUMP) for f in term.findings)
    return "[yellow]ok, but kinks[/]" if kinks else "[green]ok[/]"


def _methods(term: TermCheck, out: Console) -> None:
    orders = [("", term.first), ("second derivatives of ", term.second)]
    shown: set[tuple[str, str]] = set()
    for which, order in orders:
        for method in order.methods if order else ():
            if not method.available and (method.name, method.note) not in shown:
                shown.add((method.name, method.note))
                line(out, f"  no {method.name} for {which}{term.kind} {term.name!r}: {method.note}", "dim")


def _finding(finding: Finding, out: Console) -> None:
    colour = "red" if finding.fails else "yellow"
    place = f" at {plain(finding.location)}" if finding.location else ""
    out.print(f"  [{colour}]{finding.kind.value}[/] in {plain(finding.term)}{place}", soft_wrap=True)
    line(out, f"    {sentence(finding)}")
    values = ", ".join(f"{name} = {value:.6g}" for name, value in finding.point.values.items())
    more = f"; at {finding.points} points, this is the worst" if finding.points > 1 else ""
    line(out, f"    {finding.point.label}{more}: {values}", "dim")


def sentence(finding: Finding) -> str:
    """What is wrong, where, and the numbers of every method, on one line."""
    by = f" by {' and '.join(finding.by)}" if finding.by else ""
    which = {1: "first derivative", 2: "second derivative"}[finding.order] if finding.by else "value"
    numbers = ", ".join(f"{n.method} {n.value:.10g}" + ("" if n.error is None else f" +- {n.error:.1e}") for n in finding.numbers)
    return f"{finding.kind.value}: {which} of {finding.component}{by}" + (f": {numbers}" if numbers else "")
