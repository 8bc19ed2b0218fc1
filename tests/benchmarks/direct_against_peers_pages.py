"""The page of ``direct_against_peers.py``: ratios and tables from its rows."""

from __future__ import annotations

import importlib.metadata
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ocp.app.pipeline import processor

Row = dict[str, Any]


def pick(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]


def good(row: Row) -> bool:
    return row["status"] == "converged" and "resolve_ms" in row


def least(rows: Iterable[Row], value: Callable[[Row], float]) -> float:
    return min((value(row) for row in rows if good(row)), default=np.nan)


def resolve(row: Row) -> float:
    return float(row["resolve_ms"])


def total(row: Row) -> float:
    """Set-up and first solve."""
    return float(row["set_up_ms"] + row["first_ms"])


def is_ours(row: Row) -> bool:
    return bool(row["tool"].startswith("ours"))


def ratios(name: str, rows: Sequence[Row], intervals: int) -> Row:
    """The figures of one problem: ours over the best peer."""
    same, near = pick(rows, problem=name, table="same program"), pick(rows, problem=name, table="equal accuracy")
    whole = [row for row in same if row.get("intervals") == intervals]
    found: Row = {"problem": name}
    for key, program in (("separated", "Hermite-Simpson"), ("compressed", "Hermite-Simpson, compressed"),
                         ("shooting", "RK4 shooting")):
        own = [row for row in whole if row["program"] == program]
        found[key] = (least([r for r in own if is_ours(r) and "fatrop" not in r["tool"]], resolve)
                      / least([r for r in own if not is_ours(r) and "FATROP" not in r["tool"]], resolve))
    own = pick(whole, program="RK4 shooting")
    for key, value in (("fatrop", resolve), ("total_fatrop", total)):
        found[key] = least(filter(is_ours, own), value) / least(pick(own, tool="FATROP by hand"), value)
    found["total"] = max((least([r for r in pick(whole, program=p) if is_ours(r)], total)
                          / least([r for r in pick(whole, program=p) if not is_ours(r)], total)
                          for p in ("Hermite-Simpson", "Hermite-Simpson, compressed", "RK4 shooting")
                          if any(good(r) and not is_ours(r) for r in pick(whole, program=p))), default=np.nan)
    for key, value in (("near", resolve), ("near_total", total)):
        found[key] = least(filter(is_ours, near), value) / least((r for r in near if not is_ours(r)), value)
    objectives = {(r["program"], r["intervals"]): [q["objective"] for q in same if good(q) and q["program"] == r["program"]
                                                   and q["intervals"] == r["intervals"]] for r in same if good(r)}
    found["spread"] = max(((max(v) - min(v)) / max(1e-9, abs(v[0])) for v in objectives.values()), default=np.nan)
    return found


def cells(row: Row, *keys: str) -> str:
    formats = {"set_up_ms": ".1f", "first_ms": ".1f", "resolve_ms": ".2f", "function_ms": ".2f", "objective": ".9g", "error": ".1e",
               "iterations": ".0f", "intervals": ".0f"}
    return " | ".join("-" if np.isnan(row.get(key, np.nan)) else format(row[key], formats[key]) for key in keys)


ABOUT = """# The direct methods beside other tools

{machine}; {versions}. One process, milliseconds of processor time (in functions: wall time).
Set-up and first solve: medians of three; re-solve: median of {repeats} repeats that take turns (one and three where a solve
takes more than a fifth of a second; Drake and dymos: one).
Set-up of ours is what `transcribe` and `prepare_solver` do with a problem that is loaded; kernels as *auto* chooses,
from the cache where they are in it; *compiled* is from the cache too. The machine code that the interior-point method makes of
its elements is in its set-up; Numba's loops, the same for all problems, are compiled before. Opti's graph is expanded to scalars at
its first solve; rockit builds and expands there too. Tolerance 1e-9 for the interior-point methods. Drake and dymos are stopped
after {patience} s of processor time for all that a problem asks of them; dymos' optimiser is SciPy's SLSQP unless
pyOptSparse is installed. Bounds on states hold at knots and midpoints in the separated form and where controls are
linear, at knots only in the compressed form and in Drake and dymos: where such a bound is active, Drake's program is not
quite ours. rockit's collocation fails with this CasADi. *Not converged* beside FATROP through our interface: FATROP claims
success or stalls at a point whose residuals, evaluated anew, exceed a hundred times the tolerance, or it reaches its limit.
Written by tests/benchmarks/direct_against_peers.py.

## In short: ours over the best peer

Re-solve of the same program on {intervals} intervals, the faster of our interior-point method and IPOPT over the fastest tool
with IPOPT: Hermite-Simpson separated, compressed, RK4 shooting. FATROP: our fastest solver over FATROP with the same shooting
program stated by hand, re-solve, and set-up with first solve. Set-up: set-up with
first solve, the worst of the three programs, our fastest solver over the fastest tool. Equal accuracy: the best scheme and
solver of each side, Drake's SNOPT and FATROP by hand among the peers. Spread: the largest relative difference between
objectives of the same program, which tells whether it is the same, and the same optimum (on the acrobot solvers part ways).

| problem | separated | compressed | shooting | FATROP | FATROP with set-up | set-up | equal accuracy | the same, set-up | spread |
|---|---|---|---|---|---|---|---|---|---|
"""
EQUAL = """Within {accuracy:g} of the reference, relative, on this mesh and the next finer one of {ladder};
{loose}. Schemes to choose from: ours
Hermite-Simpson (separated, compressed), Gauss, Radau, Lobatto of degree 3 to 5 with IPOPT, the other solvers on the best two,
and RK4 shooting with our interior-point method and FATROP where that is accurate enough by hand; Opti Hermite-Simpson (separated,
compressed), Radau and Legendre of degree 3 with a control at every point, RK4 shooting. Of each side the two fastest are measured
in turns, the others once.

"""
AIMS = (("separated", 0.5, "re-solve, separated"), ("compressed", 0.5, "re-solve, compressed"),
        ("shooting", 0.5, "re-solve, shooting"),
        ("near", 0.5, "re-solve at equal accuracy"), ("fatrop", 1.0, "re-solve beside FATROP"),
        ("total", 0.7, "set-up and first solve"), ("near_total", 0.7, "the same at equal accuracy"))


def version(package: str) -> str:
    try:
        return f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return f"{package} not installed"


def number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.2f}"


def page(rows: Sequence[Row], how: Row) -> str:
    names = [name for name in how["names"] if pick(rows, problem=name)]
    figures = [ratios(name, rows, how["intervals"]) for name in names]
    shown = {name: name.replace("_", " ") for name in names}
    packages = ", ".join(version(p) for p in ("casadi", "rockit-meco", "drake", "dymos", "openmdao"))
    text = ABOUT.format(machine=processor(), versions=packages, **how)
    keys = ("separated", "compressed", "shooting", "fatrop", "total_fatrop", "total", "near", "near_total")
    known = {key: [f[key] for f in figures if not np.isnan(f[key])] for key in keys}
    text += "".join(f"| {shown[f['problem']]} | " + " | ".join(number(f[key]) for key in keys) + f" | {f['spread']:.0e} |\n"
                    for f in figures)
    text += "| **median** | " + " | ".join(number(statistics.median(known[key] or [np.nan])) for key in keys) + " | |\n"
    met = [f"{what} at most {aim:g}: {sum(v <= aim for v in known[key])} of {len(known[key])}" for key, aim, what in AIMS]
    lost = [f"{what} of {shown[f['problem']]} {f[key]:.2f}" for key, _, what in AIMS for f in figures if f[key] > 1]
    text += f"\nAims, times over the best peer: {'; '.join(met)}.\n\nSlower than the best peer: {'; '.join(lost) or 'nothing'}.\n"
    for table, title in (("same program", "The same program"), ("equal accuracy", "Equal accuracy")):
        text += f"\n## {title}\n\n"
        columns = {"intervals": "intervals", "set-up": "set_up_ms", "first": "first_ms", "re-solve": "resolve_ms",
                   "iterations": "iterations", "objective": "objective", "functions": "function_ms"}
        if table == "equal accuracy":
            columns["error"] = "error"
            text += EQUAL.format(accuracy=how["accuracy"], ladder=", ".join(str(n) for n in how["ladder"]), loose=", ".join(
                f"{value:g} for {key.replace('_', ' ')}" for key, value in how["loose"].items()))
        text += f"| problem | program | tool | {' | '.join(columns)} | |\n" + "|---" * (len(columns) + 4) + "|\n"
        for name in names:
            for row in pick(rows, problem=name, table=table):
                status = "" if row["status"] == "converged" else row["status"].replace("|", "/")
                text += f"| {shown[name]} | {row['program']} | {row['tool']} | {cells(row, *columns.values())} | {status} |\n"
    return text
