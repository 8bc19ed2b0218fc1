"""What a new user meets: problem files without a ``solve`` section, solved by what is chosen for them.

    python tests/benchmarks/first_files.py [--set first|gallery] [--policies old new] [--limit SECONDS] [problem ...]

first: the files of tests/first_files; gallery: those of problems/ with their ``solve`` and ``accept`` sections removed. Policies:
``old``, Hermite-Simpson on 50 equal intervals, the default up to version 0.5; ``new``, what ``ocp solve`` chooses today. Every
solve has a process of its own, forked with everything imported, and a limit of time. Kernels and Numba's code come from the cache
where they are there; a first run of a set fills it. Writes results/benchmarks/first_files.{csv,md} (gallery: first_files_gallery)
after every problem; policies that are not asked for keep their rows.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing as mp
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ocp.app.files.load import LoadedProblem, load_problem
from ocp.app.pipeline import processor
from ocp.methods import solve

ROOT = Path(__file__).resolve().parents[2]
SETS = {"first": (ROOT / "tests" / "first_files", "first_files"), "gallery": (ROOT / "problems", "first_files_gallery")}
POLICIES: dict[str, dict[str, Any]] = {
    "old": {"scheme": "hermite_simpson", "intervals": 50, "degree": "auto", "refine": "none", "scaling": "none"}, "new": {}}
FIELDS = ("problem", "policy", "verdict", "objective", "reference", "error", "seconds", "passes", "unknowns", "why")
#: a certified objective may lie so far above its reference (relative), beyond what the file itself allows
NEAR = 1e-3

Row = dict[str, str]


def solved(loaded: LoadedProblem, options: dict[str, Any], out: Connection) -> None:
    """Sends the row of one solve; runs in a process of its own."""
    begin = time.perf_counter()
    try:
        found = solve(loaded.problem, "collocation", options)
    except Exception as error:  # whatever goes wrong is a row
        out.send({"verdict": "error", "seconds": f"{time.perf_counter() - begin:.2f}", "why": f"{type(error).__name__}: {error}"[:200]})
        return
    reference = loaded.problem.reference
    row = {"verdict": "certified" if found.ok else "refused" if found.status.name == "CONVERGED" else "not solved",
           "objective": repr(float(found.objective)), "seconds": f"{time.perf_counter() - begin:.2f}",
           "passes": str(len(found.extra.get("refinement", [0]))), "unknowns": str(len(found.extra["lam_x"]))}
    if reference is not None:
        size = abs(reference.objective) or 1.0
        row |= {"reference": repr(reference.objective), "error": f"{(found.objective - reference.objective) / size:+.1e}"}
    failures = found.certificate.failures if found.certificate is not None else ()
    row["why"] = "" if found.ok else "; ".join([found.status.name.lower(), *failures])[:300]
    out.send(row)


def timed(loaded: LoadedProblem, options: dict[str, Any], limit: float) -> Row:
    context = mp.get_context("fork")
    mine, other = context.Pipe()
    process = context.Process(target=solved, args=(loaded, options, other))
    process.start()
    other.close()
    try:
        row: Row = mine.recv() if mine.poll(limit) else {"verdict": "timeout", "seconds": f"{limit:.0f}"}
    except EOFError:
        row = {"verdict": "error", "why": "the process died"}
    process.kill()
    process.join()
    return row


def files(which: str, names: Sequence[str]) -> list[Path]:
    found = sorted(SETS[which][0].glob("*.yaml"))
    return [file for file in found if not names or file.stem in names]


def wrong(row: Row, tolerance: float) -> bool:
    """Whether a certified objective lies above its reference by more than the tolerance."""
    return bool(row["verdict"] == "certified" and row.get("error") and float(row["error"]) > max(tolerance, NEAR))


def report(which: str, rows: Sequence[Row]) -> str:
    names = sorted({row["problem"] for row in rows})
    of = {(row["problem"], row["policy"]): row for row in rows}
    policies = [policy for policy in POLICIES if any(row["policy"] == policy for row in rows)]
    lines = ["# Files without a solve section" + (", the gallery's" if which == "gallery" else ""), "",
             f"{processor()}. Seconds: solve and certificate, kernels and Numba's code from the cache. Error: of the objective, relative "
             "to the reference (absolute where that is 0); above it where positive. Written by tests/benchmarks/first_files.py.", ""]
    lines += ["| policy | certified | refused | not solved | timeout or error | median s | 90th percentile s |", "|---|---|---|---|---|---|---|"]
    for policy in policies:
        own = [of[name, policy] for name in names if (name, policy) in of]
        count = {v: sum(row["verdict"] == v for row in own) for v in ("certified", "refused", "not solved", "timeout", "error")}
        seconds = sorted(float(row["seconds"] or 0) for row in own)
        lines.append(f"| {policy} | {count['certified']} of {len(own)} | {count['refused']} | {count['not solved']} | "
                     f"{count['timeout'] + count['error']} | {statistics.median(seconds):.2f} | {seconds[int(0.9 * (len(seconds) - 1))]:.2f} |")
    lines += ["", "| problem | reference | " + " | ".join(f"{p}: verdict | error | s" for p in policies) + " |",
              "|---|---|" + "---|---|---|" * len(policies)]
    for name in names:
        cells = []
        for policy in policies:
            row = of.get((name, policy), {})
            cells.append(f"{row.get('verdict', '')} | {row.get('error', '')} | {row.get('seconds', '')}")
        reference = next((row["reference"] for row in rows if row["problem"] == name and row.get("reference")), "")
        lines.append(f"| {name.replace('_', ' ')} | {reference} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def kept(file: Path) -> list[Row]:
    """The rows of earlier runs."""
    if not file.is_file():
        return []
    with file.open(newline="", encoding="utf-8") as text:
        return list(csv.DictReader(text))


def write(which: str, rows: Sequence[Row]) -> None:
    out = ROOT / "results" / "benchmarks" / SETS[which][1]
    with out.with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, restval="")
        writer.writeheader()
        writer.writerows(sorted(rows, key=lambda row: (row["problem"], row["policy"])))
    out.with_suffix(".md").write_text(report(which, rows), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="*")
    parser.add_argument("--set", choices=SETS, default="first", dest="which")
    parser.add_argument("--policies", nargs="*", choices=POLICIES, default=list(POLICIES))
    parser.add_argument("--limit", type=float, default=90.0)
    arguments = parser.parse_args()
    for file in files(arguments.which, arguments.problems):
        loaded = load_problem(file)
        loaded = replace(loaded, problem=loaded.problem)
        rows = kept((ROOT / "results" / "benchmarks" / SETS[arguments.which][1]).with_suffix(".csv"))
        for policy in arguments.policies:
            row = {"problem": file.stem, "policy": policy, **timed(loaded, POLICIES[policy], arguments.limit)}
            print(f"{file.stem:<26} {policy:<4} {row['verdict']:<10} {row.get('seconds', ''):>6} s  {row.get('error', ''):>9}  "
                  f"{row.get('why', '')[:120]}", flush=True)
            rows = [r for r in rows if (r["problem"], r["policy"]) != (file.stem, policy)] + [row]
        write(arguments.which, rows)


if __name__ == "__main__":
    main()
