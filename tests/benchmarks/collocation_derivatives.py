"""Direct collocation with derivatives of the dynamics from each source, in each execution: what IPOPT waits for.

    pip install lieocp && python tests/benchmarks/collocation_derivatives.py

The same program each time (exact Hessian, the file's mesh), solved REPEATS times in turn; medians. Kernels come from the cache, so
compiling is listed apart. Writes results/benchmarks/collocation_derivatives.csv and .md.
"""

from __future__ import annotations

import csv
import os
import statistics
import sys
from pathlib import Path

import casadi as ca

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from ocp.app.files.load import load_problem  # noqa: E402  # the repository's own packages need the path above
from ocp.app.pipeline import processor  # noqa: E402
from ocp.methods import solve  # noqa: E402

PROBLEMS = ("acrobot", "ur5_reach", "panda_reach", "quadruped_righting")
ROADS = (("ad", "generated", "interpreted"), ("ad", "generated", "compiled"), ("analytic", "generated", "interpreted"),
         ("analytic", "generated", "compiled"), ("analytic", "loops", "interpreted"), ("complex_step", "generated", "interpreted"),
         ("fd", "generated", "interpreted"))
REPEATS = 3
#: values alone take minutes on robots larger than this
NUMERICAL = ("acrobot",)
COLUMNS = ("problem", "derivatives", "execution", "kernels", "iterations", "functions_ms_per_iteration", "functions_s", "solve_s",
           "setup_s", "compile_s", "objective", "certified")


def measured(name: str, source: str, execution: str, kernels: str) -> dict:
    loaded = load_problem(ROOT / "problems" / f"{name}.yaml")
    options = {**loaded.options_for("collocation"), "derivatives": source, "execution": execution, "kernels": kernels}
    first = solve(loaded.problem, "collocation", options)
    again = [solve(loaded.problem, "collocation", options) for _ in range(REPEATS)]
    seconds = {key: statistics.median(s.seconds[key] for s in again) for key in ("functions", "solve", "transcription")}
    count = len(first.iterations) - 1
    return {"problem": name, "derivatives": source, "execution": execution, "kernels": kernels, "iterations": count,
            "functions_ms_per_iteration": 1e3 * seconds["functions"] / count, "functions_s": seconds["functions"],
            "solve_s": seconds["solve"], "setup_s": seconds["transcription"], "compile_s": first.seconds["compile"],
            "objective": first.objective, "certified": first.ok}


def main() -> None:
    rows = []
    for name in PROBLEMS:
        for road in ROADS:
            if road[0] in ("complex_step", "fd") and name not in NUMERICAL:
                continue
            if name == "quadruped_righting" and road[2] == "compiled":
                continue  # beyond a minute of compiling
            rows.append(measured(name, *road))
            print(rows[-1], flush=True)
    write(rows)


def write(rows: list[dict]) -> None:
    folder = ROOT / "results" / "benchmarks"
    with (folder / "collocation_derivatives.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)
    lines = [
        "# Collocation by source of derivatives", "",
        f"{processor()}; casadi {ca.__version__}, IPOPT with MUMPS, exact Hessians, the meshes of the problem files. Medians of",
        f"{REPEATS} solves after a first one; load average at the end {os.getloadavg()[0]:.1f}. Functions: objective, constraints",
        "and derivatives; solve: with IPOPT's own work; set-up: building them; compile: C compiler, first run only (0: from the",
        "cache). Complex steps and differences are run where they take seconds; the quadruped's code is not compiled, which would",
        "take more than a minute. Written by tests/benchmarks/collocation_derivatives.py.", "",
        "| problem | derivatives | execution | functions, ms / iteration | functions s | solve s | set-up s | compile s | "
        "iterations | objective | certified |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        how = "loops" if r["execution"] == "loops" else f"generated, {r['kernels']}"
        lines.append(f"| {r['problem']} | {r['derivatives']} | {how} | {r['functions_ms_per_iteration']:.2f} | "
                     f"{r['functions_s']:.2f} | {r['solve_s']:.2f} | {r['setup_s']:.2f} | {r['compile_s']:.1f} | "
                     f"{r['iterations']} | {r['objective']:.8g} | {'yes' if r['certified'] else '**no**'} |")
    (folder / "collocation_derivatives.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
