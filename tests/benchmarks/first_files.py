"""What a new user meets: problem files without a ``solve`` section, solved by what is chosen for them.

    python tests/benchmarks/first_files.py [--set first|gallery] [--policies old new] [--limit SECONDS] [problem ...]

first: the files of tests/first_files; gallery: those of problems/ with their ``solve`` and ``accept`` sections removed. Policies:
``old``, Hermite-Simpson on 50 equal intervals, the default up to version 0.5; ``new``, what ``ocp solve`` chooses today. Every
solve has a process of its own, forked with everything imported, and a limit of time. Kernels and Numba's code come from the cache
where they are there; a first run of a set fills it. Writes results/benchmarks/first_files.{csv,md} (gallery: first_files_gallery)
after every problem; policies that are not asked for keep their rows. Without policies (``--policies``) nothing is solved, and the
rows are judged anew by the references that the files give today.
"""

from __future__ import annotations

import argparse
import multiprocessing as mp
import statistics
import time
from collections.abc import Sequence
from decimal import Decimal
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from result_tables import read_table, write_table

from ocp.app.files.load import LoadedProblem, load_problem
from ocp.app.pipeline import processor
from ocp.app.sentences import sentences
from ocp.methods import solve
from ocp.problem import Reference, in_steps

ROOT = Path(__file__).resolve().parents[2]
SETS = {"first": (ROOT / "tests" / "first_files", "first_files"), "gallery": (ROOT / "problems", "first_files_gallery")}
POLICIES: dict[str, dict[str, Any]] = {
    "old": {"scheme": "hermite_simpson", "intervals": 50, "degree": "auto", "refine": "none", "scaling": "none"}, "new": {}}
FIELDS = ("problem", "policy", "verdict", "objective", "bar", "reference", "error", "reference_error", "within", "seconds",
          "passes", "unknowns", "why")
#: a reference without an error of its own has so many digits
ROUNDING = 1e-9
#: what the page says of each policy
COLUMNS = ("verdict", "objective", "bar", "error", "within", "seconds")

Row = dict[str, str]


def judged(row: Row, reference: Reference | None) -> Row:
    """The row with its objective beside the reference: within, whether the bar, and what is open of the reference, cover it."""
    row = {key: value for key, value in row.items() if key not in ("reference", "error", "reference_error", "within")}
    if reference is None or not row.get("objective"):
        return row
    away = float(row["objective"]) - reference.objective
    # a reference that does not say how far it may be off is as sure as its digits
    own = reference.error or 0.5 * 10.0 ** Decimal(repr(reference.objective)).as_tuple().exponent
    row |= {"reference": repr(reference.objective), "reference_error": f"{own:.1e}",
            "error": f"{away / (abs(reference.objective) or 1.0):+.1e}"}
    if row["verdict"] == "certified" and row.get("bar"):
        open_ = float(row["bar"]) + own + ROUNDING * (1 + abs(reference.objective))
        row["within"] = "yes" if abs(away) <= open_ else "no"
    return row


def solved(loaded: LoadedProblem, options: dict[str, Any], out: Connection) -> None:
    """Sends the row of one solve; runs in a process of its own."""
    begin = time.perf_counter()
    try:
        steps = in_steps(loaded.problem)  # nothing to discretise, so no policy
        found = solve(loaded.problem, *(("multiple_shooting", {}) if steps else ("collocation", options)))
    except Exception as error:  # whatever goes wrong is a row
        seconds = f"{time.perf_counter() - begin:.2f}"
        out.send({"verdict": "error", "seconds": seconds, "why": f"{type(error).__name__}: {error}"[:200]})
        return
    row = {"verdict": "certified" if found.ok else "refused" if found.status.name == "CONVERGED" else "not solved",
           "objective": repr(float(found.objective)), "seconds": f"{time.perf_counter() - begin:.2f}",
           "passes": str(len(found.extra.get("refinement", [0]))), "unknowns": str(len(found.extra["lam_x"]))}
    if found.certificate is not None:
        row["bar"] = f"{found.certificate.error_bound:.3g}"
    failures = sentences(found.certificate.failures) if found.certificate is not None else ()
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


def report(which: str, rows: Sequence[Row]) -> str:
    names = sorted({row["problem"] for row in rows})
    of = {(row["problem"], row["policy"]): row for row in rows}
    policies = [policy for policy in POLICIES if any(row["policy"] == policy for row in rows)]
    lines = ["# Files without a solve section" + (", the gallery's" if which == "gallery" else ""), "",
             f"{processor()}. Seconds: solve and certificate, kernels and Numba's code from the cache. "
             "Error: of the objective, relative to the reference (absolute where that is 0); above it where positive. Within: "
             "whether a certified objective is as near to its reference as its bar and what is open of the reference allow."
             " Written by tests/benchmarks/first_files.py.", "",
             "| policy | certified | of these with a reference | outside its bar | refused | not solved | timeout or error | "
             "median s | 90th percentile s |",
             "|---|---|---|---|---|---|---|---|---|"]
    for policy in policies:
        own = [of[name, policy] for name in names if (name, policy) in of]
        count = {v: sum(row["verdict"] == v for row in own) for v in ("certified", "refused", "not solved", "timeout", "error")}
        seconds = sorted(float(row["seconds"] or 0) for row in own)
        covered = [row["within"] for row in own if row.get("within")]
        lines.append(f"| {policy} | {count['certified']} of {len(own)} | {len(covered)} | {covered.count('no')} | "
                     f"{count['refused']} | {count['not solved']} | "
                     f"{count['timeout'] + count['error']} | {statistics.median(seconds):.2f} | "
                     f"{seconds[int(0.9 * (len(seconds) - 1))]:.2f} |")
    heads = [f"{policy}: {head}" if k == 0 else head for policy in policies for k, head in enumerate(COLUMNS)]
    lines += ["", "| problem | reference | its error | " + " | ".join(heads) + " |", "|---|---|---|" + "---|" * len(heads)]
    for name in names:
        cells = [of.get((name, policy), {}).get(key, "") for policy in policies for key in COLUMNS]
        told = next((row for row in rows if row["problem"] == name and row.get("reference")), {})
        own = [name.replace("_", " "), told.get("reference", ""), told.get("reference_error", "")]
        lines.append("| " + " | ".join([*own, *cells]) + " |")
    return "\n".join(lines) + "\n"


def write(which: str, rows: Sequence[Row]) -> None:
    out = ROOT / "results" / "benchmarks" / SETS[which][1]
    write_table(out.with_suffix(".csv"), sorted(rows, key=lambda row: (row["problem"], row["policy"])), FIELDS, restval="")
    out.with_suffix(".md").write_text(report(which, rows), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="*")
    parser.add_argument("--set", choices=SETS, default="first", dest="which")
    parser.add_argument("--policies", nargs="*", choices=POLICIES, default=list(POLICIES))
    parser.add_argument("--limit", type=float, default=90.0)
    arguments = parser.parse_args()
    references = {file.stem: load_problem(file).problem.reference for file in files(arguments.which, ())}
    csv_file = (ROOT / "results" / "benchmarks" / SETS[arguments.which][1]).with_suffix(".csv")
    rows = [judged(row, references.get(row["problem"])) for row in read_table(csv_file)]
    for file in files(arguments.which, arguments.problems):
        loaded = load_problem(file)
        for policy in arguments.policies:
            row = {"problem": file.stem, "policy": policy, **timed(loaded, POLICIES[policy], arguments.limit)}
            row = judged(row, references[file.stem])
            print(f"{file.stem:<26} {policy:<4} {row['verdict']:<10} {row.get('seconds', ''):>6} s  {row.get('error', ''):>9}  "
                  f"{row.get('within', ''):<3}  {row.get('why', '')[:120]}", flush=True)
            rows = [r for r in rows if (r["problem"], r["policy"]) != (file.stem, policy)] + [row]
        write(arguments.which, rows)
    write(arguments.which, rows)


if __name__ == "__main__":
    main()
