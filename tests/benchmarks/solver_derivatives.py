"""What one iteration of a solver costs with derivatives from each source, in each execution.

    pip install "lieocp[robots]" && python tests/benchmarks/solver_derivatives.py [--quick]

A row for every problem, method, source of derivatives and execution. Seconds per iteration: wall clock of a solve by the number of
its iterations, line search included, median of REPEATS solves. Set-up: building functions, and loading kernels and loops that are
in the caches.
Code: time of the C compiler on a first run. Generated code beyond LIMIT operations is not compiled (``--limit``); the row says so.
Writes results/benchmarks/solver_derivatives.csv and .md.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np
from result_tables import FOLDER, write_page, write_table

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from dynamics import algorithms as alg  # noqa: E402  # the repository's own packages need the path above
from dynamics.errors import ModelError  # noqa: E402
from dynamics.kernels.size import operations  # noqa: E402
from dynamics.model.robots import find_robot  # noqa: E402
from dynamics.model.urdf import read_urdf  # noqa: E402
from ocp.app.files.load import load_problem  # noqa: E402
from ocp.app.pipeline import processor  # noqa: E402
from ocp.bridge import robot_system  # noqa: E402
from ocp.derivatives import choose  # noqa: E402
from ocp.problem import At, Boundary, Cost, Duration, Guess, Phase, Problem  # noqa: E402
from ocp.shooting import ilqr  # noqa: E402
from ocp.shooting.ilqr import ILQROptions  # noqa: E402
from ocp.shooting.options import Tuning  # noqa: E402
from ocp.shooting.stages.horizon import build  # noqa: E402

LIMIT = 1_200_000
ITERATIONS, REPEATS = 12, 5


@dataclass(frozen=True)
class Case:
    """One problem as one method sees it."""

    name: str
    problem: Callable[[], Problem]
    method: str
    options: dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """Median seconds per iteration, set-up and compiler seconds; what stood in the way otherwise."""

    seconds: float = float("nan")
    setup: float = float("nan")
    code: float = float("nan")
    iterations: int = 0
    cost: float = float("nan")
    note: str = ""


# ---- problems
def to_state(path: Path, root: str, duration: float, seed: int) -> Problem:
    """From rest towards a nearby configuration: running effort, final state by cost."""
    model = read_urdf(path, root=root)
    system = robot_system(model)
    nx, nu, nv = system.nx, system.nu, model.nv
    x0 = np.r_[alg.neutral(model), np.zeros(nv)]
    d = np.random.default_rng(seed).uniform(-0.2, 0.2, nv)
    goal = ca.DM(np.r_[np.array(alg.integrate(model, x0[:model.nq], d)).ravel(), np.zeros(nv)])
    t, x, u, p = ca.SX.sym("t"), ca.SX.sym("x", nx), ca.SX.sym("u", nu), ca.SX.sym("p", 0)
    costs = (Cost("effort", At.PATH, ca.Function("effort", [t, x, u, p], [u]), weights=(0.1,) * nu),
             Cost("calm", At.PATH, ca.Function("calm", [t, x, u, p], [x[nx - nv:]]), weights=(0.1,) * nv),
             Cost("goal", At.FINAL, ca.Function("goal", [t, x, u, p], [system.space.minus(goal, x)]),
                  weights=(10.0,) * nv + (1.0,) * nv))
    guess = Guess(np.array([0.0, 1.0]), np.tile(x0, (2, 1)), np.zeros((2, nu)))
    return Problem(model.name, (Phase("move", system, Duration(duration, duration, duration), guess,
                                      start=Boundary(tuple(x0), (True,) * (2 * nv)), costs=costs),))


def shipped(name: str) -> Problem:
    return load_problem(ROOT / "problems" / f"{name}.yaml").problem


def floating(path: Path) -> Problem:
    return to_state(path, "free_flyer", 0.4, 3)


def cases() -> Iterator[Case]:
    models = ROOT / "problems" / "models"
    yield Case("pendulum", lambda: shipped("pendulum_swingup"), "ilqr", {"intervals": 100})
    yield Case("acrobot", lambda: shipped("acrobot"), "ilqr", {"intervals": 200})
    for integrator in ("rk4", "semi_implicit_euler"):
        yield Case(f"UR5 reach, {integrator}", lambda: to_state(models / "ur5.urdf", "fixed", 1.0, 1), "ilqr",
                   {"intervals": 100, "integrator": integrator})
    for integrator in ("rk4", "semi_implicit_euler"):
        yield Case(f"quadruped, {integrator}", lambda: floating(models / "quadruped.urdf"), "ilqr",
                   {"intervals": 100, "integrator": integrator})
    try:
        talos = find_robot("talos_full_v2")
    except ModelError:
        return
    for integrator in ("rk4", "semi_implicit_euler"):
        yield Case(f"Talos, {integrator}", lambda: floating(talos), "ilqr", {"intervals": 400, "integrator": integrator})


# ---- methods: a function of (case, derivatives, execution, hessian) each
def by_ilqr(case: Case, derivatives: str, how: str, hessian: str, iterations: int, limit: int) -> Outcome:
    problem = case.problem()
    options = ILQROptions(**case.options, derivatives=derivatives, execution=how, hessian=hessian, max_iterations=iterations,
                          tuning=Tuning(polish="never"))
    if how == "generated":
        stage = build(problem, options).kinds[0]
        size = max(operations(f) for f in (stage.first_order or stage.expand, stage.hessian) if f is not None)
        if size > limit:
            return Outcome(note=f"not run: {size} operations")
        note = f"{size} operations"
    else:
        note = ""
    ilqr.run(ilqr.prepare(problem, replace(options, max_iterations=1)))  # fills the caches
    program = ilqr.prepare(problem, options)
    runs = [ilqr.run(program) for _ in range(REPEATS)]
    solution = runs[0]
    setup = solution.seconds["build"] + solution.seconds["compile"] + solution.seconds["load"]
    code = sum(kernel.compile_seconds for kernel in program.compiled.kernels)
    steps = len(solution.iterations) - 1
    spent = statistics.median(run.seconds["solve"] for run in runs)
    return Outcome(spent / steps if steps else float("nan"), setup, code, steps, solution.objective, note)


def default(case: Case) -> tuple[str, str]:
    """(source, execution) that "auto" takes."""
    source, loops, _ = choose(case.problem().phase.system, "auto", "auto")
    return source, "loops" if loops else "generated"


METHODS = {"ilqr": by_ilqr}
SOURCES = (("ad", "generated"), ("analytic", "generated"), ("analytic", "loops"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few iterations; writes nothing")
    parser.add_argument("--limit", type=int, default=LIMIT, help="operations of the largest function that is compiled")
    parser.add_argument("--only", default="", help="part of a problem's name")
    given = parser.parse_args()
    rows = []
    for case in cases():
        if given.only not in case.name:
            continue
        for hessian, (derivatives, how) in itertools.product(("gauss_newton", "full"), SOURCES):
            outcome = METHODS[case.method](case, derivatives, how, hessian, 4 if given.quick else ITERATIONS, given.limit)
            usual = (derivatives, how) == default(case)
            row = {"problem": case.name, "method": case.method, "hessian": hessian, "derivatives": derivatives, "execution": how,
                   "default": "yes" if usual else "", **vars(outcome)}
            rows.append(row)
            print(f"{case.name:<28} {case.method} {hessian:<13} {derivatives:<9} {how:<9} {1e3 * outcome.seconds:9.3f} ms/iteration"
                  f"  set-up {outcome.setup:6.2f} s  code {outcome.code:6.1f} s  {outcome.iterations:3d} iterations to "
                  f"{outcome.cost:.9g}  {outcome.note}", flush=True)
    if not given.quick:
        write(rows, given.limit)


def write(rows: list[dict[str, Any]], limit: int) -> None:
    write_table(FOLDER / "solver_derivatives.csv", rows, digits=".9g")
    lines = [
        "# What one iteration costs, by source of derivatives", "",
        f"{processor()}; casadi {ca.__version__}. Milliseconds per iteration: wall clock of a solve by its iterations,",
        f"line search included, median of {REPEATS} solves. Set-up:",
        "building functions, loading kernels and loops from the caches. Code: C compiler, first run only; Numba compiles the loops",
        f"once for all robots. Beyond {limit:,} operations code is not generated.".replace(",", " ") + " Bold: the default,",
        "what `derivatives: auto` takes for the dynamics of this robot. No other tool is compared here.",
        "Written by tests/benchmarks/solver_derivatives.py.", "",
        "| problem | method | Hessian | derivatives | execution | ms / iteration | set-up s | code s | cost (iterations) | notes |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        numbers = ("", "", "", "") if not r["iterations"] else (
            f"{1e3 * r['seconds']:.3f}", f"{r['setup']:.2f}", f"{r['code']:.1f}", f"{r['cost']:.8g} ({r['iterations']})")
        usual = [f"**{r[k]}**" if r["default"] else r[k] for k in ("derivatives", "execution")]
        what = (r["problem"], r["method"], r["hessian"].replace("_", "-"), *usual)
        lines.append("| " + " | ".join((*what, *numbers, r["note"])) + " |")
    write_page(FOLDER / "solver_derivatives.md", lines)


if __name__ == "__main__":
    main()
