"""Direct collocation with derivatives of the dynamics from each source, in each execution: what a user waits for.

    pip install lieocp && python tests/benchmarks/collocation_derivatives.py

The same program each time (exact Hessian, the file's mesh, IPOPT), of forward dynamics and with accelerations as controls. One
first solve of each road with an empty cache of kernels and expressions, then REPEATS rounds over all roads of a case in turn;
medians of processor time. A second table shows where closed forms begin to pay on chains, trees and arms: set-up and the functions
of ITERATIONS iterations. Writes results/benchmarks/collocation_derivatives.csv, collocation_derivatives_size.csv and
collocation_derivatives.md.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from result_tables import FOLDER, write_page, write_table


def processor_time() -> float:
    """Of this process and of compilers that it waited for [s]."""
    spent = os.times()
    return time.process_time() + spent.children_user + spent.children_system


time.perf_counter = processor_time  # every clock of the packages, whatever else the machine does
os.environ["LIEOCP_CACHE_DIR"] = tempfile.mkdtemp()

import casadi as ca  # noqa: E402  # after the clock
import numpy as np  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from dynamics.derivatives import analytic  # noqa: E402  # the repository's own packages need the path above
from dynamics.model.model import Model  # noqa: E402
from dynamics.model.synthetic import branched_tree, serial_chain  # noqa: E402
from dynamics.model.urdf import read_urdf  # noqa: E402
from ocp.app.files.load import load_problem  # noqa: E402
from ocp.app.pipeline import processor  # noqa: E402
from ocp.bridge import effort_constraints, inverse_dynamics_system, inverse_effort, robot_system  # noqa: E402
from ocp.derivatives import operations_of  # noqa: E402
from ocp.methods import solve  # noqa: E402
from ocp.problem import At, Boundary, Cost, Duration, Guess, Phase, Problem  # noqa: E402
from ocp.transcription.collocation import CollocationOptions, transcribe  # noqa: E402

plain_stats = ca.Function.stats


def stats(function: ca.Function, *arguments: int) -> dict:
    """IPOPT's own clocks: processor time under the names of wall time."""
    found = plain_stats(function, *arguments)
    return {**found, **{key.replace("t_proc", "t_wall"): value for key, value in found.items() if key.startswith("t_proc")}}


ca.Function.stats = stats
INVERSE = {"system.formulation": "inverse_dynamics"}
#: name in the table, file, settings, roads that are left out
CASES: tuple[tuple[str, str, dict[str, str], tuple[str, ...]], ...] = (
    ("acrobot", "acrobot", {}, ()),
    ("UR5", "ur5_reach", {}, ()), ("UR5, inverse dynamics", "ur5_reach", INVERSE, ()),
    ("Panda", "panda_reach", {}, ()), ("Panda, inverse dynamics", "panda_reach", INVERSE, ()),
    ("Kinova, inverse dynamics", "arm_inverse_dynamics", {}, ()),
    ("space manipulator", "space_manipulator", {}, ("compiled",)),
    ("space manipulator, inverse dynamics", "space_manipulator", INVERSE, ("compiled",)),
    ("quadruped", "quadruped_righting", {}, ("compiled",)))
ROADS = (("ad", "generated", "interpreted"), ("ad", "generated", "compiled"), ("analytic", "generated", "interpreted"),
         ("analytic", "generated", "compiled"), ("analytic", "loops", "interpreted"))
REPEATS = 2
ITERATIONS = 30
COLUMNS = ("problem", "derivatives", "execution", "kernels", "iterations", "functions_ms_per_iteration", "functions_s", "solve_s",
           "setup_s", "total_s", "first_setup_s", "first_compile_s", "first_total_s", "objective", "certified")
SIZES = ("robot", "form", "operations", "ad_setup_s", "ad_functions_s", "analytic_made_s", "analytic_setup_s",
         "analytic_functions_s", "ratio", "ratio_first")


# ---- problems of the gallery ----------------------------------------------------------------------------------------------
def case(name: str, file: str, settings: dict[str, str], without: tuple[str, ...]) -> list[dict]:
    loaded = load_problem(ROOT / "problems" / f"{file}.yaml", settings)
    inverse = "inverse" in name
    roads = [road for road in ROADS if road[2] not in without and not (inverse and road[1] == "loops")]
    if any(execution == "loops" for _, execution, _ in roads):  # Numba compiles once for all robots, which is told apart
        run(loaded, roads[-1])
    firsts = [run(loaded, road) for road in roads]
    again = [[run(loaded, road) for road in roads] for _ in range(REPEATS)]
    rows = []
    for k, (road, first) in enumerate(zip(roads, firsts, strict=True)):
        seconds = {key: statistics.median(rounds[k].seconds[key] for rounds in again)
                   for key in ("functions", "solve", "transcription", "total")}
        count = len(first.iterations) - 1
        rows.append({
            "problem": name, "derivatives": road[0], "execution": road[1], "kernels": road[2], "iterations": count,
            "functions_ms_per_iteration": 1e3 * seconds["functions"] / count, "functions_s": seconds["functions"],
            "solve_s": seconds["solve"], "setup_s": seconds["transcription"], "total_s": seconds["total"],
            "first_setup_s": first.seconds["transcription"], "first_compile_s": first.seconds["compile"],
            "first_total_s": first.seconds["total"], "objective": first.objective, "certified": first.ok})
        print(rows[-1], flush=True)
    return rows


def run(loaded, road: tuple[str, str, str]):
    source, execution, kernels = road
    options = {**loaded.options_for("collocation"), "derivatives": source, "execution": execution, "kernels": kernels,
               "guess": "given"}
    return solve(loaded.problem, "collocation", options)


# ---- by size --------------------------------------------------------------------------------------------------------------
def robots() -> dict[str, Callable[[], Model]]:
    models = ROOT / "problems" / "models"
    return {**{f"chain of {n}": (lambda n=n: serial_chain(n)) for n in range(2, 9)}, "tree of 6": lambda: branched_tree(6, 2),
            "five-link biped": lambda: read_urdf(models / "rabbit.urdf"), "UR5": lambda: read_urdf(models / "ur5.urdf"),
            "Panda": lambda: read_urdf(models / "panda.urdf")}


def sized(model: Model, form: str) -> Problem:
    """Effort as cost and limits of effort, from rest: nothing else for functions to compute."""
    inverse = form == "inverse"
    system = inverse_dynamics_system(model) if inverse else robot_system(model)
    nu, limit = system.nu, 1e3 if inverse else 50.0
    t, x, u, p = (ca.SX.sym(name, size) for name, size in zip("txup", (1, system.nx, nu, 0), strict=True))
    effort = inverse_effort(model, x, u) if inverse else u
    costs = (Cost("effort", At.PATH, ca.Function("effort", [t, x, u, p], [ca.densify(effort)]), weights=(0.1,) * effort.shape[0]),)
    limits = effort_constraints(model, limits=dict.fromkeys(model.velocity_names, (-50.0, 50.0))) if inverse else ()
    rest = np.array(system.space.neutral)
    phase = Phase("move", system, Duration(1.0, 1.0, 1.0), Guess(np.array([0.0, 1.0]), np.tile(rest, (2, 1)), np.zeros((2, nu))),
                  start=Boundary(tuple(rest), (True,) * system.space.ndx), costs=costs, constraints=limits,
                  u_lower=(-limit,) * nu, u_upper=(limit,) * nu)
    return Problem("move", (phase,))


def by_size(name: str, model: Model, form: str) -> dict:
    problem, remembered = sized(model, form), analytic.remembered
    found: dict[str, list[tuple[float, float]]] = {}
    for _ in range(REPEATS + 1):
        for road in ("ad", "made", "read"):
            analytic.remembered = (lambda words, build: build()) if road == "made" else remembered
            found.setdefault(road, []).append(functions(problem, "ad" if road == "ad" else "analytic"))
    analytic.remembered = remembered
    ad, made, read = ([min(pair[i] for pair in found[road]) for i in (0, 1)] for road in ("ad", "made", "read"))
    row = {"robot": name, "form": form, "operations": operations_of(problem.phase.system), "ad_setup_s": ad[0],
           "ad_functions_s": ad[1], "analytic_made_s": made[0], "analytic_setup_s": read[0], "analytic_functions_s": read[1],
           "ratio": sum(read) / sum(ad), "ratio_first": (made[0] + read[1]) / sum(ad)}
    print(row, flush=True)
    return row


def functions(problem: Problem, source: str) -> tuple[float, float]:
    """Set-up, and the functions of ITERATIONS iterations, interpreted [s]."""
    options = CollocationOptions(intervals=50, derivatives=source, execution="generated", kernels="interpreted")
    began = time.process_time()
    nlp = transcribe(problem, options).nlp
    rng = np.random.default_rng(0)
    x, lam = nlp.x0 + 0.1 * rng.standard_normal(nlp.n), rng.standard_normal(nlp.m)

    def once() -> None:
        nlp.f(x), nlp.g(x), nlp.grad(x), nlp.jac(x), nlp.hess(x, 1.0, lam)

    once()
    ready = time.process_time()
    for _ in range(3):
        once()
    each = (time.process_time() - ready) / 3
    return ready - began - each, ITERATIONS * each


# ---- what is written ------------------------------------------------------------------------------------------------------
def main() -> None:
    began = time.time()
    rows = [row for one in CASES for row in case(*one)]
    sizes = [by_size(name, make(), form) for name, make in robots().items() for form in ("forward", "inverse")]
    write(rows, sizes, time.time() - began)


def write(rows: list[dict], sizes: list[dict], spent: float) -> None:
    for name, columns, content in (("collocation_derivatives", COLUMNS, rows), ("collocation_derivatives_size", SIZES, sizes)):
        write_table(FOLDER / f"{name}.csv", content, columns, digits=".6g")
    lines = [
        "# Collocation by source of derivatives", "",
        f"{processor()}; casadi {ca.__version__}, IPOPT with MUMPS, exact Hessians, the meshes of the problem files; seconds of",
        "processor time. First: with an empty cache of kernels and closed forms, compiling included; all other columns: medians",
        f"of {REPEATS} rounds over the roads in turn, everything read from the cache. The whole run took {spent:.0f} s, the load",
        f"average at its end is {os.getloadavg()[0]:.1f}. Functions: objective, constraints and derivatives; solve: with IPOPT's",
        "own work; set-up: building them. Inverse dynamics: accelerations are controls, limits and costs of efforts functions of",
        "them; loops are for forward dynamics only. The time that Numba takes to compile the loops, once on a machine, is in no",
        "column. The space manipulator and the quadruped float freely; their code is not compiled, which would take more than a",
        "minute. Written by tests/benchmarks/collocation_derivatives.py.", "",
        *table(("problem", "derivatives", "execution", "functions, ms / iteration", "functions s", "solve s", "set-up s", "total s",
                "first set-up s", "first compile s", "first total s", "iterations", "objective", "certified"), [
            (r["problem"], r["derivatives"], "loops" if r["execution"] == "loops" else f"generated, {r['kernels']}",
             *(f"{r[key]:.2f}" for key in ("functions_ms_per_iteration", "functions_s", "solve_s", "setup_s", "total_s",
                                           "first_setup_s", "first_compile_s", "first_total_s")),
             f"{r['iterations']}", f"{r['objective']:.8g}", "yes" if r["certified"] else "**no**") for r in rows]),
        "", "## By size", "",
        f"Set-up + functions of {ITERATIONS} iterations over 50 intervals of Hermite-Simpson, interpreted; the problem is the",
        "effort and its limits alone. Closed forms are read from the cache, and the first time made. Operations: of one evaluation",
        "of the dynamics, by which `derivatives: auto` chooses. Ratios: closed forms to differentiation, both sums.", "",
        *table(("robot", "form", "operations", "differentiation", "closed forms", "set-up the first time", "ratio",
                "ratio the first time"), [
            (r["robot"], r["form"], f"{r['operations']}", f"{r['ad_setup_s']:.3f} + {r['ad_functions_s']:.3f}",
             f"{r['analytic_setup_s']:.3f} + {r['analytic_functions_s']:.3f}", f"{r['analytic_made_s']:.3f}", f"{r['ratio']:.2f}",
             f"{r['ratio_first']:.2f}") for r in sizes])]
    write_page(FOLDER / "collocation_derivatives.md", lines)


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    return [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *(f"| {' | '.join(row)} |" for row in rows)]


if __name__ == "__main__":
    main()
