"""Multi-start on problems of the gallery that have several optima: whether every seed finds the best, and in how many starts.

    python tests/benchmarks/multi_start.py [problem ...] [--seeds 20]

A program is built once, and solved from the guess of the problem and from starts of a scrambled Sobol sequence around it, then in
rounds around the best optimum so far (``ocp.batch.starts``) until a round finds no better one. Known: the best of all
seeds, which is at most that of the file.
Writes results/benchmarks/multi_start.csv and .md.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from result_tables import FOLDER, read_table, write_page, write_table  # noqa: E402  # the repository's packages need the path above

from ocp.app.files.load import load_problem  # noqa: E402
from ocp.app.pages.folders import markdown_table  # noqa: E402
from ocp.batch.compiled import Case, compiled  # noqa: E402
from ocp.batch.starts import MISSING, MOST, optima, round_size, searched, started  # noqa: E402
from ocp.guesses.motion import from_solution  # noqa: E402
from ocp.methods import solve as solve_alone  # noqa: E402

PROBLEMS = ("free_flying_robot", "double_pendulum_swingup", "cartpole_free_time", "car_obstacles", "cartpole_to_goal", "acrobot")
SAME = 1e-4


def study(name: str, seeds: int) -> list[dict[str, Any]]:
    """A row for each seed."""
    loaded = load_problem(ROOT / "problems" / f"{name}.yaml")
    method = loaded.method if loaded.method != "ilqr" else "collocation"
    made = compiled(loaded.problem, method, loaded.options_for(method))
    rows, kept = [], []
    for seed in range(seeds):
        cases: list[Case] = []

        def solve(number: int, centre: int, seed: int = seed, cases: list[Case] = cases) -> float | None:
            near = loaded.problem if centre < 0 else from_solution(loaded.problem, cases[centre].solution)
            cases.append(made.solve(started(near, number, seed), guess=True, certified=False))
            return cases[-1].objective if cases[-1].point is not None else None

        begin = time.process_time()
        values = searched(solve, MISSING, MOST)
        found = optima(values)
        rows.append({"problem": name, "seed": seed, "starts": len(values), "solved": sum(v is not None for v in values),
                     "optima": len(found), "best": found[0].objective, "share of best": len(found[0].starts) / len(values),
                     "best of random starts": min(v for v in values[1:round_size(MISSING)] if v is not None),
                     "seconds": time.process_time() - begin})
        print(rows[-1], flush=True)
        kept.append(cases[found[0].starts[0]])
    best = min(kept, key=lambda case: case.objective)
    whole = solve_alone(from_solution(loaded.problem, best.solution), method, {**loaded.options_for(method), "guess": "given"})
    return [{**row, "certified": whole.objective if whole.ok else float("nan")} for row in rows]


def summary(rows: list[dict[str, str]]) -> list[str]:
    """Of one problem."""
    column = {key: [row[key] for row in rows] for key in rows[0]}
    best = min(map(float, column["best"]))

    def reached(key: str) -> str:
        return f"{sum(float(value) - best <= SAME * abs(best) for value in column[key])}/{len(rows)}"

    starts, seconds = list(map(int, column["starts"])), sum(map(float, column["seconds"]))
    return [rows[0]["problem"], f"{best:.6g}", reached("best"), reached("best of random starts"),
            f"{float(rows[0]['certified']):.6g}", f"{statistics.median(starts):g}", str(max(starts)),
            f"{sum(map(int, column['solved'])) / sum(starts):.3f}", f"{statistics.mean(map(float, column['share of best'])):.2f}",
            f"{1e3 * seconds / sum(starts):.0f}"]


HEADS = ("problem", "best", "found", "first round", "certified", "starts, median", "most", "solved", "share of best", "ms a start")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("problems", nargs="*", default=PROBLEMS)
    parser.add_argument("--seeds", type=int, default=20)
    given = parser.parse_args()
    path = FOLDER / "multi_start.csv"
    for name in given.problems:
        new = study(name, given.seeds)
        kept = [row for row in read_table(path) if row["problem"] != name] + [
            {key: format(value, ".8g") if isinstance(value, float) else str(value) for key, value in row.items()} for row in new]
        write_table(path, kept)
        names = list(dict.fromkeys(row["problem"] for row in kept))
        seeds = [[row[key] for key in ("problem", "seed", "starts", "optima", "best", "best of random starts")] for row in kept]
        write_page(path.with_suffix(".md"), [
            "# Multi-start on problems with several optima", "", *(__doc__ or "").split("\n\n")[2].splitlines(), "",
            f"A round has {round_size(MISSING)} starts, a search {MOST} at most; {given.seeds} seeds each. *Found*: in",
            "how many the best is among the optima; *first round*: in how many the random starts around the guess lead there;",
            "*certified*: the objective of the best once its mesh is refined, where it has its certificate.", "",
            *markdown_table(HEADS, [summary([row for row in kept if row["problem"] == name]) for name in names]), "",
            "Every seed:", "", *markdown_table(("problem", "seed", "starts", "optima", "best", "best of random starts"), seeds)])


if __name__ == "__main__":
    main()
