"""How fast the residual falls with Gauss-Newton Hessians (iLQR), full ones (DDP), and with "auto", and what an iteration costs.

    python tests/benchmarks/ddp_convergence.py [--quick] [--only NAME]

Every problem is solved from the guess of its file with the options of its file and a tolerance of TOLERANCE. Residual: projected
gradient (largest component) over max(1, |cost|). Order near the solution: one iteration from each of several starts, the solution's
controls plus noise of a known size, and the slope of log(residual after) over log(residual before). Times are of the processor, median
and best of REPEATS, the three Hessians in turns. Writes results/benchmarks/ddp_convergence.csv, .md and .png.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
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
from ocp.problem import Guess, Problem, Solution  # noqa: E402
from ocp.shooting import ilqr  # noqa: E402
from ocp.shooting.guess import controls  # noqa: E402
from ocp.shooting.ilqr import ILQROptions, Program  # noqa: E402
from ocp.shooting.stages.horizon import build  # noqa: E402

HESSIANS = ("gauss_newton", "full", "auto")
SOURCES = (("ad", "generated"), ("analytic", "generated"), ("analytic", "loops"))
TOLERANCE, REACHED = 1e-12, 1e-9
MOST, SHORT, REPEATS = 1000, 10, 5
SIZES = 10.0 ** -np.arange(1.0, 7.0, 0.5)
"""Noise on the controls of the solution, as a share of the largest control."""
BLUR = 10.0
"""Residuals below so many times the smallest one of a run count as rounding."""


@dataclass(frozen=True)
class Case:
    """A problem without hard constraints other than bounds of controls, with the options of its file."""

    name: str
    problem: Problem
    options: dict[str, Any]
    robot: bool


def cases() -> Iterator[Case]:
    names = {"pendulum": "pendulum_swingup", "acrobot": "acrobot", "double pendulum": "double_pendulum_swingup", "cart-pole": "cartpole_to_goal",
             "car parking": "car_parking", "planar quadrotor": "planar_quadrotor", "quadrotor": "quadrotor"}
    for name, file in names.items():
        loaded = load_problem(ROOT / "problems" / f"{file}.yaml")
        yield Case(name, loaded.problem, dict(loaded.options["ilqr"]), loaded.problem.phases[0].system.model is not None)
    # the arm's problem file prescribes its final pose; here the goal is a cost, and there is nothing but the cost to converge
    yield Case("UR5 to a state", to_state(ROOT / "problems" / "models" / "ur5.urdf", "fixed", 1.0, 1), {"intervals": 100, "integrator": "rk4"}, True)


# ---- residuals
def residuals(solution: Solution) -> np.ndarray:
    """Projected gradient over max(1, |cost|), iteration by iteration."""
    return np.array([row["gradient"] / max(1.0, abs(row["cost"])) for row in solution.iterations])


def falling(r: np.ndarray) -> np.ndarray:
    """Residuals up to the first one at the rounding level of its run, that one included."""
    return r[:int(np.argmax(r <= BLUR * r.min())) + 1]


def first_below(r: np.ndarray, level: float = REACHED) -> int | None:
    """Iterations to a residual of at most ``level``; None where it is not reached."""
    return int(np.argmax(r <= level)) if np.any(r <= level) else None


def slope(before: np.ndarray, after: np.ndarray) -> float:
    """Of log(after) over log(before) by least squares; NaN for less than two points."""
    return float(np.polyfit(np.log(before), np.log(after), 1)[0]) if len(before) > 1 else float("nan")


def last_order(r: np.ndarray) -> float:
    """Slope over the last three pairs of successive residuals above rounding."""
    r = falling(r)[:-1]
    return slope(r[:-1][-3:], r[1:][-3:])


def linear_rate(r: np.ndarray) -> float:
    """Factor by which the residual falls in an iteration, by least squares of its logarithm over the last thirty iterations above
    rounding."""
    tail = falling(r)[:-1][-30:]
    return float(np.exp(np.polyfit(np.arange(len(tail)), np.log(tail), 1)[0])) if len(tail) > 2 else float("nan")


def one_step(case: Case, u: np.ndarray, hessian: str, noise: np.ndarray) -> np.ndarray:
    """[sizes, 3]: residual before and after one iteration, and the length of its step, from the controls u [N, nu] plus noise."""
    phase, found = case.problem.phases[0], []
    middle = (np.arange(len(u)) + 0.5) / len(u)
    for size in SIZES:
        given = np.clip(u + size * np.abs(u).max() * noise, phase.u_lower, phase.u_upper)
        guess = Guess(np.r_[0.0, middle, 1.0], np.tile(phase.guess.x[0], (len(u) + 2, 1)), given[np.r_[0, :len(u), -1]])
        assert np.allclose(controls(guess, u.shape[1], len(u)), given, rtol=0, atol=1e-15 * np.abs(given).max())
        program = prepared(replace(case, problem=replace(case.problem, phases=(replace(phase, guess=guess),))), hessian, max_iterations=1)
        solution = ilqr.run(program)
        if len(solution.iterations) > 1:
            found.append((*residuals(solution), solution.iterations[-1]["step"]))
    return np.array(found).reshape(-1, 3)


def local_order(steps: np.ndarray, rounding: float) -> float:
    """Slope over whole steps that end above rounding, from where the residual falls by half at least."""
    before, after, length = steps.T
    good = (length == 1.0) & (after > BLUR * rounding) & (after < 0.5 * before)
    return slope(before[good], after[good])


# ---- times
def prepared(case: Case, hessian: str, **changes: Any) -> Program:
    return ilqr.prepare(case.problem, ILQROptions(**{**case.options, "hessian": hessian, "tolerance": TOLERANCE, "polish": "never",
                                                     "max_iterations": MOST, **changes}))


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
    """Rows for each source of derivatives, SHORT iterations from the guess; nothing is timed where the code is too long to compile."""
    for derivatives, how in SOURCES:
        changes = {"derivatives": derivatives, "execution": how, "max_iterations": SHORT}
        size = 0
        if how == "generated":
            stage = build(case.problem, prepared_options(case, changes)).kinds[0]
            size = max(operations(f) for f in (stage.slope or stage.expand, stage.bend) if f is not None)
        row: dict[str, Any] = {"problem": case.name, "derivatives": derivatives, "execution": how, "operations": size}
        if size <= LIMIT:
            median = per_iteration([prepared(case, hessian, **changes) for hessian in HESSIANS[:2]], repeats)[:, 0]
            row |= {"gauss_newton": median[0], "full": median[1], "ratio": median[1] / median[0]}
        yield row


def prepared_options(case: Case, changes: dict[str, Any]) -> ILQROptions:
    return ILQROptions(**{**case.options, "hessian": "full", **changes})


# ---- one problem
def measure(case: Case, repeats: int, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """One row for each Hessian."""
    programs = [prepared(case, hessian) for hessian in HESSIANS]
    solutions = [ilqr.run(program) for program in programs]
    best = solutions[HESSIANS.index("full")]
    noise = np.random.default_rng(0).uniform(-1.0, 1.0, best.trajectory.u[:case.options["intervals"]].shape)
    times = per_iteration(programs, repeats)
    rows = []
    for hessian, solution, (median, least) in zip(HESSIANS, solutions, times, strict=True):
        r = residuals(solution)
        steps = np.zeros((0, 3)) if hessian == "auto" else one_step(case, best.trajectory.u[:case.options["intervals"]], hessian, noise)
        trials = np.mean([row["trials"] for row in solution.iterations[1:]])
        rows.append({
            "problem": case.name, "hessian": hessian, "iterations": len(r) - 1, "to_reached": first_below(r), "smallest": r.min(),
            "order": last_order(r), "local_order": local_order(steps, r.min()), "rate": linear_rate(r), "cost": solution.objective,
            "status": solution.status.name.lower(), "trials": trials, "ms": median, "ms_best": least, "residuals": r, "steps": steps})
        row = rows[-1]
        say(f"{case.name:<17} {hessian:<13} {row['iterations']:5d} iterations, to {REACHED:g}: {row['to_reached']}, smallest {row['smallest']:.1e}"
            f", order {row['order']:.2f} one step {row['local_order']:.2f}, rate {row['rate']:.3f}, cost {row['cost']:.10g}, {row['trials']:.2f} "
            f"trials, {row['ms']:.3f} ms (best {row['ms_best']:.3f})")
    for row in rows:
        row["ratio"] = row["ms"] / rows[0]["ms"]
    return rows


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
        rows += measure(case, repeats, lambda text: print(text, flush=True))
        if case.robot and not given.quick:
            for row in by_source(case, repeats):
                sources.append(row)
                print("    " + "  ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{v}" for k, v in row.items()), flush=True)
    if not given.quick and not given.only:
        write(rows, sources, ROOT / "results" / "benchmarks", falling)


if __name__ == "__main__":
    main()
