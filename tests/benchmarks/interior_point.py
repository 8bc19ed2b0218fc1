"""The interior-point method in compiled loops beside IPOPT: whole solves, and solves again of a program that stands ready.

    python tests/benchmarks/interior_point.py [--limit SECONDS] [problem ...]

Every file is solved by collocation with the options that are chosen for it, by either solver in a process of its own, forked with
everything imported; twice where the first solve takes less than ``SHORT`` seconds, so that code comes from the caches. Then the
program stands ready (``ocp.batch.compiled``) and takes ``CASES`` other starts, each from the solution of the first.
Writes results/benchmarks/interior_point.{csv,md} after every file; files that are not asked for keep their rows.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import multiprocessing as mp
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from result_tables import FOLDER, read_table, write_page, write_table

from ocp.app.files.load import LoadedProblem, load_problem
from ocp.app.pipeline import processor
from ocp.batch.compiled import compiled
from ocp.errors import ProblemError
from ocp.methods import solve
from ocp.problem import SOLVED, Problem
from ocp.problem.numbers import numbers_of, with_numbers

PROBLEMS = Path(__file__).resolve().parents[2] / "problems"
FIRST = PROBLEMS.parent / "tests" / "first_files"
GALLERY = ("acrobot", "block_move", "brachistochrone", "bryson_denham", "cannonball", "car_parking", "cartpole_free_time",
           "cartpole_swingup", "catalyst_mixing", "container_crane", "double_integrator_min_time", "double_pendulum_swingup",
           "dubins_car", "flexible_joint", "free_flying_robot", "goddard_arcs", "hang_glider", "hypersensitive",
           "moon_landing", "particle_steering", "pendulum_min_time", "planar_quadrotor", "quadrotor", "rayleigh_mixed",
           "rocket_landing", "two_link_arm_min_time", "van_der_pol_limited")
ROBOTS = ("ur5_reach", "panda_reach_obstacle", "kinova_reach", "talos_arm_reach")
CONTACTS = ("compass_gait", "biped_walking", "monopod_hopping", "leg_leap", "iris_hop", "solo_righting")
KINDS = {**dict.fromkeys(GALLERY, "gallery"), **dict.fromkeys(ROBOTS, "robot"), **dict.fromkeys(CONTACTS, "contact")}
SOLVERS = ("ipopt", "interior_point")
SHORT, CASES = 30.0, 8
FIELDS = ("problem", "kind", "solver", "verdict", "objective", "passes", "iterations", "seconds", "again_solved",
          "again_iterations", "again_ms", "why")

Row = dict[str, str]


def moved(problem: Problem) -> list[Problem]:
    """The problem with the first component of its start a little elsewhere: 1, 2, ... hundredths of its unit to either side, those
    that its bounds allow."""
    start = problem.phases[0].start
    at = next((i for i, value in enumerate(numbers_of(problem).tolist()) if start and i >= 3 and value == start.value[0]), None)
    found = []
    for step in (0.01 * k * side for k in range(1, CASES + 1) for side in (1, -1)):
        numbers = numbers_of(problem)
        if at is not None:
            numbers[at] += step
        with contextlib.suppress(ProblemError):
            found.append(with_numbers(problem, numbers))
    return found[:CASES]


def measured(loaded: LoadedProblem, solver: str, out: Connection) -> None:
    """Sends the row of whole solves, and then that of solves again; runs in a process of its own."""
    options, row = {"solver": solver}, {"solver": solver}
    try:
        for turn in range(2):
            begin = time.process_time()
            found = solve(loaded.problem, "collocation", options)
            spent = time.process_time() - begin
            row |= {"verdict": "certified" if found.ok else "refused" if found.status in SOLVED else "not solved",
                    "objective": f"{found.objective:.9g}", "passes": str(len(found.extra.get("refinement", [0]))),
                    "iterations": str(len(found.iterations)), "seconds": f"{spent:.2f}",
                    "why": "" if found.ok else found.status.name.lower()}
            out.send(row)
            if turn or spent > SHORT:
                break
        made = compiled(loaded.problem, "collocation", options)
        cases = []
        for case in moved(loaded.problem):
            made.solve(case, certified=False)
            begin = time.process_time()
            own = made.solve(case, certified=False).solution
            cases.append((own.status in SOLVED, len(own.iterations), 1e3 * (time.process_time() - begin)))
        solved, iterations, ms = zip(*cases, strict=True)
        row |= {"again_solved": f"{sum(solved)}/{CASES}", "again_iterations": f"{np.median(iterations):.0f}",
                "again_ms": f"{np.median(ms):.1f}"}
    except Exception as error:  # whatever goes wrong is a row
        row |= {"verdict": row.get("verdict", "error"), "why": f"{type(error).__name__}: {error}"[:120]}
    out.send({**row, "end": ""})


def timed(loaded: LoadedProblem, solver: str, limit: float) -> Row:
    context = mp.get_context("fork")
    mine, other = context.Pipe()
    process = context.Process(target=measured, args=(loaded, solver, other))
    process.start()
    other.close()
    row: Row = {"solver": solver, "verdict": "timeout", "seconds": f"{limit:.0f}"}
    end = time.monotonic() + limit
    with contextlib.suppress(EOFError):
        while mine.poll(max(0.0, end - time.monotonic())):
            row = mine.recv()
            if row.pop("end", None) is not None:
                break
    process.kill()
    process.join()
    return row


def report(rows: Sequence[Row]) -> list[str]:
    of = {(row["problem"], row["solver"]): row for row in rows}
    names = [name for name in KINDS if all((name, solver) in of for solver in SOLVERS)]
    lines = ["# The interior-point method in compiled loops beside IPOPT", "",
             f"{processor()}, shared with other work. Collocation with what is chosen for each file; seconds of processor",
             "time for solve, passes of the mesh and certificate, code from the caches. Iterations: of the last pass. Again: other",
             f"starts of a program that stands ready, from the solution of the first, {CASES} cases; medians. Ratio: of the times,",
             "the loops over IPOPT. Written by tests/benchmarks/interior_point.py.", "",
             "| set | files | certified: IPOPT | loops | other optimum | ratio of solves | solved again: IPOPT | loops | ratio |",
             "|---|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for kind in ("gallery", "robot", "contact"):
        own = [name for name in names if KINDS[name] == kind]
        pairs = [(of[name, "ipopt"], of[name, "interior_point"]) for name in own]
        certified = [sum(pair[k]["verdict"] == "certified" for pair in pairs) for k in (0, 1)]
        solved = [sum(int(pair[k]["again_solved"].split("/")[0]) for pair in pairs if pair[k].get("again_solved")) for k in (0, 1)]
        lines.append(f"| {kind} | {len(own)} | {certified[0]} | {certified[1]} | {sum(map(elsewhere, pairs))} | "
                     f"{ratio(pairs, 'seconds')} | {solved[0]} | {solved[1]} | {ratio(pairs, 'again_ms')} |")
    lines += ["", "| problem | solver | verdict | objective | passes | iterations | s | solved again | iterations | ms | |",
              "|---|---|---|---:|---:|---:|---:|---:|---:|---:|---|"]
    lines += ["| " + " | ".join(of[name, solver].get(key) or "" for key in FIELDS if key != "kind") + " |"
              for name in names for solver in SOLVERS]
    return lines


def elsewhere(pair: tuple[Row, Row]) -> bool:
    """Whether both are certified, at objectives that differ by more than a thousandth."""
    if any(row["verdict"] != "certified" for row in pair):
        return False
    one, other = (float(row["objective"]) for row in pair)
    return abs(one - other) > 1e-3 * max(abs(one), abs(other), 1e-6)


def ratio(pairs: Sequence[tuple[Row, Row]], key: str) -> str:
    found = [float(b[key]) / float(a[key]) for a, b in pairs
             if a.get(key) and b.get(key) and a["verdict"] == b["verdict"] == "certified"]
    return f"{np.median(found):.2f}" if found else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="*")
    parser.add_argument("--limit", type=float, default=150.0)
    given = parser.parse_args()
    table = FOLDER / "interior_point.csv"
    rows = {(row["problem"], row["solver"]): row for row in read_table(table)}
    for name in given.problems or (*CONTACTS, *ROBOTS, *GALLERY):
        file = next(path for path in (PROBLEMS / f"{name}.yaml", FIRST / f"{name}.yaml") if path.is_file())
        with contextlib.redirect_stdout(io.StringIO()):
            loaded = load_problem(file)
        for solver in SOLVERS:
            row = {"problem": name, "kind": KINDS[name], **timed(loaded, solver, given.limit)}
            rows[name, solver] = {key: row.get(key, "") for key in FIELDS}
            print(row, flush=True)
        ordered = [rows[key] for own in KINDS for key in ((own, s) for s in SOLVERS) if key in rows]
        write_table(table, ordered, FIELDS)
        write_page(FOLDER / "interior_point.md", report(ordered))


if __name__ == "__main__":
    main()
