"""How often the direct methods solve problems from random guesses, with and without scaling and the ladder of guesses.

    python tests/benchmarks/direct_robustness.py [--starts N] [problem ...]

Fifteen problems of the gallery, each from perturbed guesses: smooth random waves of half the range of every component, free
durations scaled by up to 1.5 (``ocp.guess.perturbed``, seeds 0, 1, ...). Solved: the certificate's residuals at the returned point
hold (stationarity, complementarity and violation at the knots). Writes results/benchmarks/direct_robustness.{csv,md}.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path

import numpy as np

from ocp.app.files.load import load_problem
from ocp.guess import perturbed
from ocp.methods import make_options
from ocp.nlp import kkt
from ocp.problem import Problem, Status
from ocp.transcription.collocation import solve

ROOT = Path(__file__).resolve().parent.parent.parent
OUT = ROOT / "results" / "benchmarks" / "direct_robustness"
PROBLEMS = ("brachistochrone", "cartpole_swingup", "pendulum_swingup", "double_pendulum_swingup", "acrobot", "car_parking",
            "unicycle",
            "planar_quadrotor", "quadrotor", "quadrotor_obstacles", "ur5_reach", "robot_arm_min_time", "goddard_rocket",
            "container_crane", "shuttle_reentry")
WAYS = {"as given": {"guess": "given", "scaling": "none"}, "scaled": {"guess": "given", "scaling": "auto"},
        "ladder": {"guess": "auto", "scaling": "none"}, "scaled, ladder": {"guess": "auto", "scaling": "auto"}}
SIZE, TOLERANCE, ITERATIONS = 0.5, 1e-6, 500


def attempt(problem: Problem, options: dict[str, object]) -> dict[str, object]:
    record = make_options("collocation", {**options, "max_iterations": ITERATIONS})
    began = time.process_time()
    found = solve(problem, record)
    seconds = time.process_time() - began
    left = found.optimality
    residual = kkt(left.nlp, left.x, left.lam_x, left.lam_g)
    good = max(residual.stationarity, residual.complementarity, residual.largest_violation) <= TOLERANCE
    return {"solved": found.status is Status.CONVERGED and bool(good), "cost": found.objective, "seconds": seconds,
            "iterations": len(found.iterations)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("problems", nargs="*", default=PROBLEMS)
    parser.add_argument("--starts", type=int, default=20)
    arguments = parser.parse_args()
    rows = []
    for name in arguments.problems:
        loaded = load_problem(ROOT / "problems" / f"{name}.yaml")
        given = loaded.options.get("collocation", {})
        for seed in range(arguments.starts):
            start = perturbed(loaded.problem, seed, SIZE)
            for way, options in WAYS.items():
                rows.append({"problem": name, "seed": seed, "way": way, **attempt(start, {**given, **options})})
        print(name, {way: sum(bool(r["solved"]) for r in rows if r["problem"] == name and r["way"] == way) for way in WAYS},
              flush=True)
    with OUT.with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    OUT.with_suffix(".md").write_text(table(rows, arguments.problems, arguments.starts), encoding="utf-8")


def machine() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if Path("/proc/cpuinfo").is_file() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "processor unknown")


def table(rows: list[dict[str, object]], problems: tuple[str, ...], starts: int) -> str:
    lines = ["# Direct collocation from random guesses", "",
             f"{machine()}. {starts} guesses for each problem: smooth waves of half the range of every component added to the "
             "guess of the file, free durations scaled by up to 1.5; the options of the file, at most "
             f"{ITERATIONS} iterations. Solved: converged, and KKT residuals evaluated at the returned point at most "
             f"{TOLERANCE:g}. Near best: of these, within 1e-3 of the lowest cost found. Seconds: processor time, median over all "
             "starts, transcription included. Written by tests/benchmarks/direct_robustness.py.", "",
             "| problem | " + " | ".join(f"{way}: solved | near best | s" for way in WAYS) + " |",
             "|---|" + "---|---|---|" * len(WAYS)]
    totals = dict.fromkeys(WAYS, 0)
    for name in problems:
        best = min((float(r["cost"]) for r in rows if r["problem"] == name and r["solved"]), default=np.nan)
        cells = []
        for way in WAYS:
            own = [r for r in rows if r["problem"] == name and r["way"] == way]
            solved = [r for r in own if r["solved"]]
            near = sum(float(r["cost"]) <= best + 1e-3 * max(1e-3, abs(best)) for r in solved)
            totals[way] += len(solved)
            cells.append(f"{len(solved)}/{len(own)} | {near} | {np.median([float(r['seconds']) for r in own]):.2f}")
        lines.append(f"| {name.replace('_', ' ')} | " + " | ".join(cells) + " |")
    count = len(problems) * starts
    lines += ["", *(f"- {way}: {solved} of {count} ({100 * solved / count:.1f} %)" for way, solved in totals.items()), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
