"""Multi-start on problems of the gallery that have several optima: whether every seed finds the best, and in how many starts.

    python tests/benchmarks/multi_start.py [problem ...] [--seeds 20]

A program is built once, and solved from the guess of the problem and from starts of a scrambled Sobol sequence around it, then in
rounds around the best optimum so far (``ocp.batch.starts``) until a round finds no better one. Known: the best of all
seeds, which is at most that of the file.
Writes results/benchmarks/multi_start.csv and .md.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from result_tables import FOLDER, read_table, write_page, write_table  # noqa: E402  # the repository's packages need the path above

from ocp.app.files.load import load_problem  # noqa: E402
from ocp.batch.compiled import Case, compiled  # noqa: E402
from ocp.batch.starts import MISSING, MOST, optima, round_size, searched, started  # noqa: E402
from ocp.guesses.motion import from_solution  # noqa: E402

PROBLEMS = ("free_flying_robot", "double_pendulum_swingup", "cartpole_free_time", "car_obstacles", "cartpole_to_goal", "acrobot")
SAME = 1e-4


def study(name: str, seeds: int) -> dict[str, Any]:
    loaded = load_problem(ROOT / "problems" / f"{name}.yaml")
    method = loaded.method if loaded.method != "ilqr" else "collocation"
    made = compiled(loaded.problem, method, loaded.options_for(method))
    begin, runs = time.process_time(), []
    for seed in range(seeds):
        cases: list[Case] = []

        def solve(number: int, centre: int, seed: int = seed, cases: list[Case] = cases) -> float | None:
            near = loaded.problem if centre < 0 else from_solution(loaded.problem, cases[centre].solution)
            cases.append(made.solve(started(near, number, seed), guess=True, certified=False))
            return cases[-1].objective if cases[-1].point is not None else None

        runs.append(searched(solve, MISSING, MOST))
        found = optima(runs[-1])
        print(name, seed, len(runs[-1]), [(f"{one.objective:.6g}", len(one.starts)) for one in found[:3]], flush=True)
    spent, every = time.process_time() - begin, [value for run in runs for value in run]
    best = min(value for value in every if value is not None)
    hits = sum(any(v is not None and v - best <= SAME * abs(best) for v in run) for run in runs)
    alone = sum(any(v is not None and v - best <= SAME * abs(best) for v in run[1:round_size(MISSING)]) for run in runs)
    found = optima(every)
    counts = [len(run) for run in runs]
    return {"problem": name, "optima": len(found), "best": best, "second": found[1].objective if len(found) > 1 else float("nan"),
            "share of best": len(found[0].starts) / len(every), "solved": sum(v is not None for v in every) / len(every),
            "starts, median": float(np.median(counts)), "starts, most": max(counts), "found": f"{hits}/{seeds}",
            "first round": f"{alone}/{seeds}", "ms a start": 1e3 * spent / len(every)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("problems", nargs="*", default=PROBLEMS)
    parser.add_argument("--seeds", type=int, default=20)
    given = parser.parse_args()
    path = FOLDER / "multi_start.csv"
    rows: dict[str, dict[str, Any]] = {row["problem"]: dict(row) for row in read_table(path)}
    for name in given.problems:
        rows[name] = {key: format(value, ".6g") if isinstance(value, float) else value
                      for key, value in study(name, given.seeds).items()}
        print(rows[name], flush=True)
        table = [rows[key] for key in PROBLEMS if key in rows]
        write_table(path, table)
        head = list(table[0])
        write_page(path.with_suffix(".md"), [
            "# Multi-start on problems with several optima", "", *(__doc__ or "").split("\n\n")[2].splitlines(), "",
            f"A round has {round_size(MISSING)} starts, a search {MOST} at most; {given.seeds} seeds each. *Found*: in",
            "how many the best is among the optima; *first round*: in how many the random starts around the guess lead there.", "",
            f"| {' | '.join(head)} |", "|---" * len(head) + "|",
            *(f"| {' | '.join(str(value) for value in row.values())} |" for row in table)])


if __name__ == "__main__":
    main()
