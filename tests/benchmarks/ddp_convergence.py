"""How fast the residual falls with Gauss-Newton Hessians (iLQR), full ones (DDP), and with "auto", and what an iteration costs.

    python tests/benchmarks/ddp_convergence.py [--quick] [--only NAME]

Every problem is solved from the guess of its file with the options of its file and a tolerance of TOLERANCE. Residual: projected
gradient (largest component) over max(1, |cost|). Order of one step: one iteration from each of several iterates of the Gauss-Newton
run, and the slope of log(residual after) over log(residual before). Times are of the processor, median and best of REPEATS, the
three Hessians in turns. Writes results/benchmarks/ddp_convergence.csv, .md and .png.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from ddp_convergence_pages import write  # noqa: E402  # the repository's own packages need the path above
from solver_derivatives import LIMIT, to_state  # noqa: E402

from dynamics.kernels.size import operations  # noqa: E402
from ocp.app.files.load import load_problem  # noqa: E402
from ocp.errors import ProblemError  # noqa: E402
from ocp.methods import make_options  # noqa: E402
from ocp.problem import Guess, Problem, Solution  # noqa: E402
from ocp.shooting import ilqr  # noqa: E402
from ocp.shooting.ilqr import ILQROptions, Program  # noqa: E402
from ocp.shooting.stages.horizon import build  # noqa: E402

HESSIANS = ("gauss_newton", "full", "auto")
SOURCES = (("ad", "generated"), ("analytic", "generated"), ("analytic", "loops"))
TOLERANCE, REACHED = 1e-12, 1e-9
MOST, SHORT, REPEATS = 1000, 10, 5
FROM = 10.0 ** -np.arange(2.0, 8.5, 0.5)
"""Residuals of Gauss-Newton's run below which one iteration is tried."""
NEAR, NEARER = 1e-4, 2e-5
"""Rates are taken from residuals below the first, orders of one step from below the second."""


@dataclass(frozen=True)
class Case:
    """A problem without hard constraints other than bounds of controls, with the options of its file."""

    name: str
    problem: Problem
    options: dict[str, Any]
    robot: bool


def cases() -> Iterator[Case]:
    names = {"pendulum": "pendulum_swingup", "acrobot": "acrobot", "double pendulum": "double_pendulum_swingup",
             "cart-pole": "cartpole_to_goal", "car parking": "car_parking", "planar quadrotor": "planar_quadrotor",
             "quadrotor": "quadrotor"}
    for name, file in names.items():
        loaded = load_problem(ROOT / "problems" / f"{file}.yaml")
        yield Case(name, loaded.problem, dict(loaded.options["ilqr"]), loaded.problem.phases[0].system.model is not None)
    # the arm's problem file prescribes its final pose; here the goal is a cost, and there is nothing but the cost to converge
    arm = to_state(ROOT / "problems" / "models" / "ur5.urdf", "fixed", 1.0, 1)
    yield Case("UR5 to a state", arm, {"intervals": 100, "integrator": "rk4"}, True)


# ---- residuals
def residuals(solution: Solution) -> np.ndarray:
    """Projected gradient over max(1, |cost|), iteration by iteration."""
    return np.array([row["gradient"] / max(1.0, abs(row["cost"])) for row in solution.iterations])


def falling(r: np.ndarray, rounding: float) -> np.ndarray:
    """Residuals up to the first one at most ``rounding``, that one included."""
    return r[:int(np.argmax(r <= rounding)) + 1] if np.any(r <= rounding) else r


def first_below(r: np.ndarray, level: float = REACHED) -> int | None:
    """Iterations to a residual of at most ``level``; None where it is not reached."""
    return int(np.argmax(r <= level)) if np.any(r <= level) else None


def slope(before: np.ndarray, after: np.ndarray) -> float:
    """Of log(after) over log(before) by least squares; NaN for less than three points."""
    return float(np.polyfit(np.log(before), np.log(after), 1)[0]) if len(before) > 2 else float("nan")


def last_order(r: np.ndarray, rounding: float) -> float:
    """The p of log r[k+1] = p log r[k], by least squares over the last three pairs above rounding: what an iteration multiplies the
    number of correct digits by, which for quadratic convergence tends to two."""
    r = r[:first_below(r, rounding)]
    before, after = np.log(r[:-1][-3:]), np.log(r[1:][-3:])
    return float(before @ after / (before @ before))


def linear_rate(r: np.ndarray, rounding: float) -> float:
    """Factor by which the residual falls in an iteration, by least squares of its logarithm, from NEAR down to rounding, which is
    also where the run itself gets no further. NaN for less than five iterations."""
    tail = r[first_below(r, NEAR):first_below(r, max(3.0 * rounding, 10.0 * r.min()))]
    return float(np.exp(np.polyfit(np.arange(len(tail)), np.log(tail), 1)[0])) if len(tail) > 4 else float("nan")


def started(case: Case, u: np.ndarray) -> Case:
    """The same problem from controls u [N, nu], moved into their bounds."""
    phase, middle = case.problem.phases[0], (np.arange(len(u)) + 0.5) / len(u)
    given = np.clip(u, phase.u_lower, phase.u_upper)
    guess = Guess(np.r_[0.0, middle, 1.0], np.tile(phase.guess.x[0], (len(u) + 2, 1)), given[np.r_[0, :len(u), -1]])
    return replace(case, problem=replace(case.problem, phases=(replace(phase, guess=guess),)))


def one_steps(case: Case, r: np.ndarray) -> np.ndarray:
    """[starts, 5]: residual of an iterate of Gauss-Newton, whose residuals are r; residual after one iteration from there and
    length of its step, with Gauss-Newton Hessians and with full ones."""
    found = []
    for k in dict.fromkeys(first_below(r, level) for level in FROM):
        if not k:
            continue
        u = ilqr.run(prepared(case, "gauss_newton", max_iterations=k)).trajectory.u[:case.options["intervals"]]
        row: list[float] = []
        for hessian in HESSIANS[:2]:
            solution = ilqr.run(prepared(started(case, u), hessian, max_iterations=1))
            if len(solution.iterations) > 1:
                row += [residuals(solution)[1], solution.iterations[1]["step"]]
                before = residuals(solution)[0]
        if len(row) == 4:
            found.append((before, *row))
    return np.array(found).reshape(-1, 5)


def local_order(before: np.ndarray, after: np.ndarray, length: np.ndarray, rounding: float) -> float:
    """Slope over the starts from NEARER on whose whole step ends above rounding."""
    good = (before <= NEARER) & (length == 1.0) & (after > 2.0 * rounding)
    return slope(before[good], after[good])


# ---- times
def prepared(case: Case, hessian: str, **changes: Any) -> Program:
    return ilqr.prepare(case.problem, make_options("ilqr", {
        **case.options, "hessian": hessian, "tolerance": TOLERANCE, "polish": "never", "max_iterations": MOST, **changes}))


def per_iteration(programs: list[Program], repeats: int) -> np.ndarray:
    """[programs, 2]: median and least processor milliseconds per iteration, without what a run of no iteration costs."""
    empty = [replace(program, options=replace(program.options, max_iterations=0)) for program in programs]
    spent = np.zeros((len(programs), repeats))
    for repeat in range(-1, repeats):  # the first round loads
        for i, (program, nothing) in enumerate(zip(programs, empty, strict=True)):
            times, count = [], 1
            for one in (nothing, program):
                begin = time.process_time()
                solution = ilqr.run(one)
                times.append(time.process_time() - begin)
                count = max(1, len(solution.iterations) - 1)
            if repeat >= 0:
                spent[i, repeat] = 1e3 * (times[1] - times[0]) / count
    return np.column_stack([np.median(spent, axis=1), spent.min(axis=1)])


def by_source(case: Case, repeats: int) -> Iterator[dict[str, Any]]:
    """A row for each source of derivatives, SHORT iterations from the guess; not timed where the code is too long to compile."""
    for derivatives, how in SOURCES:
        changes = {"derivatives": derivatives, "execution": how, "max_iterations": SHORT}
        size = 0
        if how == "generated":
            stage = build(case.problem, prepared_options(case, changes)).kinds[0]
            size = max(operations(f) for f in (stage.first_order or stage.expand, stage.hessian) if f is not None)
        row: dict[str, Any] = {"problem": case.name, "derivatives": derivatives, "execution": how, "operations": size}
        if size <= LIMIT:
            try:
                programs = [prepared(case, hessian, **changes) for hessian in HESSIANS[:2]]
            except ProblemError as reason:  # loops know joints only, and not every robot has nothing else
                row["note"] = str(reason).partition("possible: ")[2]
            else:
                median = per_iteration(programs, repeats)[:, 0]
                row |= {"gauss_newton": median[0], "full": median[1], "ratio": median[1] / median[0]}
        else:
            row["note"] = "too long to compile"
        yield row


def prepared_options(case: Case, changes: dict[str, Any]) -> ILQROptions:
    return make_options("ilqr", {**case.options, "hessian": "full", **changes})


# ---- one problem
def measure(case: Case, repeats: int) -> Iterator[dict[str, Any]]:
    """One row for each Hessian."""
    programs = [prepared(case, hessian) for hessian in HESSIANS]
    solutions = [ilqr.run(program) for program in programs]
    u = solutions[HESSIANS.index("full")].trajectory.u[:case.options["intervals"]]
    there = [prepared(started(case, u), hessian, tolerance=1e-300) for hessian in HESSIANS]
    rounding = residuals(ilqr.run(there[HESSIANS.index("full")]))[1:].max()
    times, near = per_iteration(programs, repeats), per_iteration(there, repeats)[:, 0]
    steps = one_steps(case, residuals(solutions[0]))
    for i, (hessian, solution) in enumerate(zip(HESSIANS, solutions, strict=True)):
        r = residuals(solution)
        order = float("nan") if hessian == "auto" else local_order(steps[:, 0], steps[:, 1 + 2 * i], steps[:, 2 + 2 * i], rounding)
        yield {
            "problem": case.name, "hessian": hessian, "iterations": len(r) - 1, "to_reached": first_below(r), "smallest": r.min(),
            "rounding": rounding, "order": last_order(r, rounding), "local_order": order,
            "rate": linear_rate(r, rounding), "cost": solution.objective, "status": solution.status.name.lower(),
            "trials": np.mean([row["trials"] for row in solution.iterations[1:]]), "ms": times[i, 0], "ms_best": times[i, 1],
            "ratio": times[i, 0] / times[0, 0], "ms_near": near[i], "ratio_near": near[i] / near[0], "residuals": r, "steps": steps}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one repeat, no sources of derivatives; writes nothing")
    parser.add_argument("--only", default="", help="part of a problem's name; writes nothing")
    given = parser.parse_args()
    repeats = 1 if given.quick else REPEATS
    rows: list[dict[str, Any]] = []
    sources: list[dict[str, Any]] = []
    for case in cases():
        if given.only not in case.name:
            continue
        for row in measure(case, repeats):
            rows.append(row)
            told = ("rounding", "order", "local_order", "rate", "trials", "ms", "ratio", "ms_near", "ratio_near")
            print(f"{case.name:<17} {row['hessian']:<13} {row['iterations']:5d} iterations, to {REACHED:g}: {row['to_reached']}, "
                  + ", ".join(f"{name} {row[name]:.3g}" for name in told) + f", cost {row['cost']:.10g}", flush=True)
        if case.robot and not given.quick:
            for row in by_source(case, repeats):
                sources.append(row)
                print("    " + "  ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{v}" for k, v in row.items()), flush=True)
    if not given.quick and not given.only:
        write(rows, sources, ROOT / "results" / "benchmarks", falling)


if __name__ == "__main__":
    main()
