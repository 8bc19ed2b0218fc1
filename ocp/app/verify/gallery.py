"""The page that lists a gallery by theme: description, size, methods and reference of each problem."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ocp.app.files.control.wbc import load_wbc
from ocp.app.files.load import LoadedProblem, load_problem
from ocp.app.verify.records import NEEDS_ROBOTS, gather, is_wbc, not_a_problem
from ocp.errors import ProblemError

PAGE = "README.md"
OTHERS = "Others"


def gallery_page(folder: Path) -> str:
    """Markdown: a table for each theme in the order of the alphabet, files by name; files of other kinds are left out.

    Raises ProblemError where a file needs robots that are not installed: the page would lack it.
    """
    groups: dict[str, list[str]] = {}
    for path in gather([folder]):
        if is_wbc(path):
            file = load_wbc(path).file
            told = "; ".join(f"{name} = {item.value} at the end" for name, item in file.expect.items())
            groups.setdefault("Whole-body control (ocp wbc)", []).append(
                f"| [{_cell(file.name)}]({path.relative_to(folder).as_posix()}) | | {file.plant.kind} | {_cell(told)} | "
                f"{_cell(file.description)} |")
            continue
        reason = not_a_problem(path)
        if reason == NEEDS_ROBOTS:
            raise ProblemError(f"{reason} to be listed", where=str(path))
        if reason:
            continue
        loaded = load_problem(path)
        groups.setdefault(loaded.file.theme or OTHERS, []).append(_row(path.relative_to(folder), loaded))
    lines = ["# The problem gallery", "",
             f"{sum(map(len, groups.values()))} problem files by theme; `ocp solve FILE` solves one, `ocp verify` all of them, and "
             "`ocp check FILE` says which methods can serve it. Sizes: states, controls. Written by `ocp verify --index`; a test "
             "keeps it true.", ""]
    for theme in sorted(groups, key=lambda name: (name == OTHERS, name.lower())):
        lines += [f"## {theme}", "", "| problem | size | options | reference | what it is |", "|---|---|---|---|---|",
                  *groups[theme], ""]
    return "\n".join(lines)


def write_gallery(folder: Path) -> Path:
    """Write the page into the folder."""
    page = folder / PAGE
    page.write_text(gallery_page(folder), encoding="utf-8")
    return page


def _row(path: Path, loaded: LoadedProblem) -> str:
    problem = loaded.problem
    phases, systems = problem.phases, [phase.system for phase in problem.phases]
    size = f"{_range([s.nx for s in systems])}, {_range([len(s.controls) for s in systems])}"
    size += f", {_range([len(s.algebraic) for s in systems])} algebraic" if any(s.algebraic for s in systems) else ""
    size += f"; {len(phases)} phases" if len(phases) > 1 else ""
    reference = problem.reference
    told = "" if reference is None else f"{reference.objective:.10g} ± {reference.tolerance:.0e}: {_cell(reference.source)}"
    methods = ", ".join(dict.fromkeys([loaded.method, *loaded.options]))
    if loaded.simulate.expect:
        known = loaded.simulate.expect
        methods = ", ".join(item.integrator for item in known)
        told = "; ".join(f"energy by {item.integrator} {item.energy:.10g} J ± {item.tolerance:.0e}" for item in known)
    return f"| [{_cell(problem.name)}]({path.as_posix()}) | {size} | {methods} | {told} | {_cell(problem.description)} |"


def _range(values: Sequence[int]) -> str:
    return str(values[0]) if len(set(values)) == 1 else f"{min(values)} to {max(values)}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
