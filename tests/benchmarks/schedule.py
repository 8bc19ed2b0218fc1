"""The scheduler of sweeps with a thousand simulated workers and a hundred thousand cases of known durations. Writes
results/benchmarks/schedule.{csv,md}.

    python tests/benchmarks/schedule.py [--cases 100000] [--workers 1000]

Scheduler, order of cases, window of submission and journal are those of the product; workers and clock are simulated. The time
that the scheduler itself takes, its journal on the disk included, passes on the simulated clock, too.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import tracemalloc
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from result_tables import FOLDER, write_page, write_table
from simulated_cluster import durations, expected, makespan

from ocp.app.batch.schedule import Memory
from ocp.app.batch.store import Store
from ocp.app.pages.folders import markdown_table

KINDS = {"equal": "equal", "uniform": "uniform from 0.5 to 1.5 s", "smooth": "like those of neighbours, from 0.1 to 7 s",
         "exponential": "exponential", "lognormal": "lognormal, heavy tail"}
LATENCY_S = 0.005
"""From the scheduler to a worker, and back."""
SPREAD = 0.3
"""Deviation of the logarithm of a duration from that of an earlier run."""


def row(kind: str, count: int, workers: int, seed: int, journal: bool, earlier: bool = False) -> dict[str, object]:
    """One schedule; earlier: with durations of an earlier run, 0.7 to 1.4 times those of this."""
    seconds = durations(kind, count, seed)
    with tempfile.TemporaryDirectory() as folder:
        ledger = Store(Path(folder) / "sweep", {"paths": [], "cases": []}, False) if journal else Memory(
            expected(seconds, SPREAD) if earlier else None)
        relative, cluster = makespan(seconds, workers, ledger, latency=LATENCY_S, honest=True)
    return {"durations": KINDS[kind] + ", known from an earlier run" * earlier, "journal": "on disk" if journal else "in memory",
            "longest [s]": float(seconds.max()), "ideal [s]": max(float(seconds.max()), float(seconds.sum() / workers)),
            "makespan / ideal": relative, "out at once": cluster.most,
            "scheduler [ms/case]": 1e3 * cluster.own / count}


def memory(count: int, workers: int) -> float:
    """MB at most of what Python holds for a schedule."""
    seconds = durations("uniform", count)
    tracemalloc.start()
    makespan(seconds, workers, Memory(), latency=LATENCY_S)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=1_000)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    rows = []
    for kind, earlier in (*((kind, False) for kind in KINDS), ("exponential", True), ("lognormal", True)):
        own = [row(kind, given.cases, given.workers, seed, False, earlier) for seed in range(given.seeds)]
        rows.append(max(own, key=lambda one: one["makespan / ideal"]))
    rows.append(row("smooth", given.cases, given.workers, 0, True))
    held = {count: memory(count, given.workers) for count in (given.cases // 2, given.cases)}
    write_table(FOLDER / "schedule.csv", rows, digits=".4g", lineterminator="\n")
    heads = [name if name in ("durations", "journal") else f">{name}" for name in rows[0]]
    cases, half, ms = f"{given.cases:,}", given.cases // 2, 1e3 * LATENCY_S
    write_page(FOLDER / "schedule.md", [
        "# The scheduler of sweeps, simulated", "",
        f"{cases} cases on a grid, {given.workers:,} workers, durations of mean 1 s, {ms:g} ms to a worker and back:",
        "`python tests/benchmarks/schedule.py`. Order of cases, window, scheduling and journal are those of the product;",
        "workers and clock are simulated, and the time that the scheduler takes passes on that clock. Ideal: the longest case, or",
        f"all of them over the workers, whichever is longer. The worst of {given.seeds} seeds; the journal once.", "",
        *markdown_table(heads, [[f"{v:.4g}" if isinstance(v, float) else str(v) for v in one.values()] for one in rows]), "",
        "Every case starts from the solution of another, so that at first few can work: ten generations of cases pass until a",
        "thousand have begun. Cases that others wait for come first, then those that took longest in an earlier run of the same",
        "cases (one that is overwritten), else those whose parents took longest. Durations of an earlier run are right up to a",
        f"random factor whose logarithm has the deviation {SPREAD:g}. Without them the longest case may be lost at the end",
        "(Graham 1969): a lognormal one lasts a fifth of the ideal, and nothing tells beforehand which it is.", "",
        f"Memory of the scheduler: {held[half]:.0f} MB for {half:,} cases, {held[given.cases]:.0f} MB for {cases}, rows of the",
        "table included; at most twice as many cases as workers are handed out, with their points."])


if __name__ == "__main__":
    main()
