"""What the command shows: a line of progress while it measures, then the table, the recommendations and what was left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table

from ocp.app.derivatives.figures import trivial
from ocp.app.derivatives.recommend import duration, undecided
from ocp.app.derivatives.records import FAILED, FUNCTIONS, MEASURED, SKIPPED, SOURCES, Entry, Study
from ocp.app.derivatives.study import Progress

HEADINGS = ("  source", "error", "instr.", "nonzero", "build", "compile", "interpr.", "compiled", "memory")
WIDTHS = (16, 9, 9, 7, 7, 7, 8, 8, 7)


@contextmanager
def progress_line(console: Console, *, quiet: bool = False) -> Iterator[Progress | None]:
    """A bar on a terminal; elsewhere a line for each entry."""
    if quiet:
        yield None
    elif not console.is_terminal:
        def line(done: int, total: int, function: str, source: str, entry: Entry | None) -> None:
            if entry is not None and not trivial(entry):
                console.print(f"[{done}/{total}] {FUNCTIONS[function]}, {SOURCES[source].label}: {brief(entry)}", markup=False,
                              soft_wrap=True)
        yield line
    else:
        with Bar(TextColumn("  {task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn(),
                 console=console, transient=True) as bar:
            task = bar.add_task("starting", total=None)

            def show(done: int, total: int, function: str, source: str, entry: Entry | None) -> None:
                bar.update(task, completed=done, total=total, description=f"{FUNCTIONS[function]}: {SOURCES[source].label}")

            yield show


def brief(e: Entry) -> str:
    if e.status != MEASURED:
        return f"{e.status}, {e.reason}"
    parts = [f"{by} {duration(t)}" for t, by in ((e.interpreted_us, e.interpreted_by), (e.compiled_us, e.compiled_by))
             if t is not None]
    return ", ".join(parts) + ("" if e.build_s is None else f" (built in {e.build_s:.2f} s)")


def print_study(study: Study, folder: Path | None, console: Console, *, quiet: bool = False) -> None:
    """The table by function, the recommendations, what is wrong and what was left out."""
    robot = study.robot
    console.print(f"\n{robot['name']}  {robot['nv']} degrees of freedom, {robot['bodies']} bodies, depth {robot['depth']}, "
                  f"root {robot['root']}", style="bold", markup=False, soft_wrap=True)
    if not quiet:
        for title, found in tables(study, console.width >= 96):
            console.print(f"\n{title}", style="bold", markup=False)
            console.print(found)
        console.print()
    for note in left_out(study.entries):
        console.print(f"  {note}", style="dim", markup=False, soft_wrap=True)
    if study.entries:
        console.print("\nRecommended for this robot", style="bold")
        for pick in study.picks:
            console.print(f"  {FUNCTIONS[pick.function]}", markup=False)
            console.print(f"    [bold green]{SOURCES[pick.source].label}, {pick.execution}[/]" if pick.execution != "loop"
                          else f"    [bold green]{SOURCES[pick.source].label}[/]", end="  ")
            console.print(pick.why + (f" In an expression graph: {pick.in_graph}." if pick.in_graph else ""), markup=False,
                          soft_wrap=True)
        for function in study.functions:
            if function not in {p.function for p in study.picks}:
                console.print(f"  {FUNCTIONS[function]}\n    nothing: {undecided(function, study.of(function))}.", markup=False,
                              soft_wrap=True)
    for e in study.wrong:
        words = e.reason if e.status == FAILED else f"error {e.error:.1e} against {SOURCES[e.against].label}"
        console.print(f"  [red]wrong[/]  {FUNCTIONS[e.function]}, {SOURCES[e.source].label}: {words}", soft_wrap=True)
    if not study.complete:
        console.print(f"  [yellow]interrupted[/]: {len(study.missing)} of {len(study.missing) + len(study.entries)} ways were not "
                      "reached; what was measured is written and marked incomplete", soft_wrap=True)
    console.print(f"  {study.seconds:.0f} s in all" + (f"; written to {folder}  (open {folder / 'report.html'})" if folder else ""),
                  markup=False, soft_wrap=True)


def tables(study: Study, wide: bool) -> Iterator[tuple[str, Table]]:
    """(title, table) of each function; columns stand under each other. wide: with memory."""
    picked = {(p.function, p.source): p.execution for p in study.picks}
    for function in study.functions:
        out = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 1, 0, 0))
        for title, width in zip(HEADINGS, WIDTHS, strict=True):
            if wide or title != "memory":
                out.add_column(title, justify="right" if title.strip() != "source" else "left", no_wrap=True, min_width=width)
        reference = study.references.get(function)
        for e in study.of(function):
            if e.status != MEASURED and trivial(e):
                continue
            chosen = picked.get((function, e.source), "")
            name = f"{'[green]★[/]' if chosen else ' '} {e.label}"
            if e.status != MEASURED:
                out.add_row(name, f"[{'red' if e.status == FAILED else 'yellow'}]{e.status}[/]")
                continue
            own = reference is not None and reference.source == e.source
            error = "" if e.error is None else "reference" if own and e.right else f"{e.error:.0e}"
            cells = [name, f"[red]{error}[/]" if e.right is False else error, plain(e.instructions), plain(e.nonzeros),
                     seconds(e.build_s), seconds(e.compile_s), _time(e.interpreted_us, chosen == "interpreted"),
                     _time(e.compiled_us, chosen in ("compiled", "loop")) or "[dim]no[/]", memory(e)]
            out.add_row(*cells[: len(out.columns)])
        yield FUNCTIONS[function], out


def left_out(entries: Sequence[Entry], *, named: bool = True) -> list[str]:
    """One sentence for each reason why something was not measured; ``named``: with the functions."""
    found: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for e in entries:
        for reason in ((e.reason,) if e.status == SKIPPED else ()) + e.notes:
            labels, functions = found.setdefault(reason, ({}, {}))
            labels[e.label] = None
            functions[FUNCTIONS[e.function]] = None
    return [f"{', '.join(labels)}: {reason}" + (f" ({'; '.join(functions)})" if named else "")
            for reason, (labels, functions) in found.items()]


def plain(value: int | None) -> str:
    return "" if value is None else f"{value:,}".replace(",", "\u202f")


def seconds(value: float | None) -> str:
    return "" if value is None else "none" if value == 0 else f"{value:.2f} s" if value < 10 else f"{value:.0f} s"


def memory(e: Entry) -> str:
    known = [b for b in (e.work_bytes, e.library_bytes, e.result_bytes) if b]
    return size(sum(known)) if known else ""


def size(value: int | None) -> str:
    if value is None:
        return ""
    return f"{value} B" if value < 1000 else f"{value / 1e3:.3g} kB" if value < 1e6 else f"{value / 1e6:.3g} MB"


def _time(value: float | None, chosen: bool) -> str:
    words = "" if value is None else duration(value)
    return f"[bold green]{words}[/]" if chosen else words
