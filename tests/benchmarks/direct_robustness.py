"""How often the direct methods solve problems from random guesses, with and without scaling and the cascade of guesses.

    python tests/benchmarks/direct_robustness.py [--starts N] [problem ...]

Fifteen problems of the gallery, each from perturbed guesses: smooth random waves of half the range of every component and of twice
that range, free durations scaled by up to 1.5 and 3 (``ocp.guesses.perturbed``, seeds 0, 1, ...). Solved: the residuals of the
certificate at the returned point hold (stationarity, complementarity and violation at the knots), on the mesh of the file, without
refinement.
Writes results/benchmarks/direct_robustness.{csv,md} after every problem; those that are not asked for keep their rows.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from result_tables import read_table, write_table

from ocp.app.files.load import load_problem
from ocp.app.pipeline import processor
from ocp.guesses.perturbed import perturbed
from ocp.methods import make_options, uncertified
from ocp.nlp import kkt
from ocp.problem import Kind, Problem, Status

ROOT = Path(__file__).resolve().parent.parent.parent
OUT = ROOT / "results" / "benchmarks" / "direct_robustness"
PROBLEMS = ("brachistochrone", "cartpole_swingup", "pendulum_swingup", "double_pendulum_swingup", "acrobot", "car_parking",
            "unicycle",
            "planar_quadrotor", "quadrotor", "quadrotor_obstacles", "ur5_reach", "robot_arm_min_time", "goddard_rocket",
            "container_crane", "shuttle_reentry")
WAYS = {"as given": {"guess": "given", "scaling": "none"}, "scaled": {"guess": "given", "scaling": "auto"},
        "ladder": {"guess": "auto", "scaling": "none"}, "scaled, ladder": {"guess": "auto", "scaling": "auto"}}
SIZES, TOLERANCE, ITERATIONS = (0.5, 2.0), 1e-6, 500

Row = dict[str, str]


def attempt(problem: Problem, options: dict[str, object]) -> Row:
    record = make_options("collocation", {**options, "max_iterations": ITERATIONS, "refine": "none"})
    began = time.process_time()
    found = uncertified(problem, "collocation", record)
    seconds = time.process_time() - began
    left = found.optimality
    residual = kkt(left.nlp, left.x, left.lam_x, left.lam_g)
    sizes = {"stationarity": residual.stationarity, "complementarity": residual.complementarity,
             "violation": residual.largest_violation}
    solved = found.status is Status.CONVERGED and max(sizes.values()) <= TOLERANCE
    worst = max(sizes, key=lambda name: np.nan_to_num(sizes[name], nan=np.inf))
    why = "" if solved else f"{found.status.name.lower().replace('_', ' ')}, {worst} {sizes[worst]:.0e}"
    rung = next((one.name for one in found.findings if one.kind is Kind.GUESS_SERVED), "given")
    return {"solved": str(int(solved)), "cost": repr(float(found.objective)), "seconds": f"{seconds:.3f}",
            "iterations": str(len(found.iterations)), "rung": rung if solved else "", "why": why}


def write(rows: Sequence[Row]) -> None:
    write_table(OUT.with_suffix(".csv"), rows)
    OUT.with_suffix(".md").write_text(table(rows), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("problems", nargs="*", default=PROBLEMS)
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--sizes", type=float, nargs="*", default=SIZES)
    arguments = parser.parse_args()
    for name in arguments.problems:
        loaded = load_problem(ROOT / "problems" / f"{name}.yaml")
        given = loaded.options.get("collocation", {})
        for size in arguments.sizes:
            rows = []
            for seed in range(arguments.starts):
                start = perturbed(loaded.problem, seed, size)
                for way, options in WAYS.items():
                    rows.append({"problem": name, "size": str(size), "seed": str(seed), "way": way,
                                 **attempt(start, {**given, **options})})
            print(name, size, {way: sum(r["solved"] == "1" for r in rows if r["way"] == way) for way in WAYS}, flush=True)
            earlier = read_table(OUT.with_suffix(".csv"))
            write([*(row for row in earlier if (row["problem"], row["size"]) != (name, str(size))), *rows])


def table(rows: Sequence[Row]) -> str:
    starts = len({row["seed"] for row in rows})
    lines = ["# Direct collocation from random guesses", "",
             f"{processor()}. {starts} guesses for each problem and size: smooth waves of that part of the range of every "
             "component added to the guess of the file, free durations scaled by up to 1 + size; the options of the file without "
             f"refinement, at most {ITERATIONS} iterations. Solved: converged, and KKT residuals evaluated at the returned point "
             f"at most {TOLERANCE:g}. Near best: of these, within 1e-3 of the lowest cost found from any guess. Seconds: processor "
             "time, median over all starts, transcription included. Written by tests/benchmarks/direct_robustness.py.", ""]
    for size in SIZES:
        if any(float(row["size"]) == size for row in rows):
            lines += section(rows, size)
    return "\n".join(lines)


def section(every: Sequence[Row], size: float) -> list[str]:
    rows = [row for row in every if float(row["size"]) == size]
    lines = [f"## Waves of {size:g} of the range", "", "| problem | " + " | ".join(f"{way}: solved | near best | s" for way in WAYS)
             + " |", "|---|" + "---|---|---|" * len(WAYS)]
    totals = dict.fromkeys(WAYS, 0)
    reasons = []
    for name in PROBLEMS:
        if not any(row["problem"] == name for row in rows):
            continue
        best = min((float(r["cost"]) for r in every if r["problem"] == name and r["solved"] == "1"), default=np.nan)
        cells = []
        for way in WAYS:
            own = [r for r in rows if r["problem"] == name and r["way"] == way]
            solved = [r for r in own if r["solved"] == "1"]
            near = sum(float(r["cost"]) <= best + 1e-3 * max(1e-3, abs(best)) for r in solved)
            totals[way] += len(solved)
            cells.append(f"{len(solved)}/{len(own)} | {near} | {np.median([float(r['seconds']) for r in own]):.2f}")
            counted = Counter(r["why"].split(",")[0] for r in own if r["why"])
            if counted:
                told = ", ".join(f"{count} {why}" for why, count in counted.most_common())
                reasons.append(f"- {name.replace('_', ' ')}, {way}: {told} (seeds {', '.join(r['seed'] for r in own if r['why'])})")
        lines.append(f"| {name.replace('_', ' ')} | " + " | ".join(cells) + " |")
    count = len([row for row in rows if row["way"] == "as given"])
    lines += ["", *(f"- {way}: {solved} of {count} ({100 * solved / count:.1f} %)" for way, solved in totals.items())]
    served = Counter(row["rung"] for row in rows if row["way"] == "scaled, ladder" and row["solved"] == "1")
    told = ", ".join(f"{count} {rung}" for rung, count in served.most_common())
    lines += ["", f"Rung of the ladder that served, with scaling: {told}.", ""]
    return lines + (["What was not solved:", "", *reasons, ""] if reasons else [])


if __name__ == "__main__":
    main()
