"""Closed loops against their deadlines on one core, and Crocoddyl's solver in the same loops.

    pip install lieocp && python tests/benchmarks/mpc_deadlines.py                      # problem files; tables and figure
    pip install crocoddyl==3.2.1 pin==4.0.0 libpinocchio==4.0.0 && pip install lieocp
    python tests/benchmarks/mpc_deadlines.py                                            # the same, beside Crocoddyl, no tables

Each run simulates 30 s with one solver iteration a step. "files": shipped problem files with their noise, mismatch and kicks, the
cart-pole at 500 Hz, the quadrotor at 200 Hz, the seven-joint arm and a quadruped that stands and trots on MuJoCo at 100 Hz (alone:
MPC_FILES="quadruped_stand quadruped_trot"). "set": Crocoddyl's own quadrotor and arm
(tests/support/crocoddyl_problems.py: its horizon, cost and symplectic Euler) as receding horizons with a kick every two seconds, by
our iLQR and by its FDDP, one after the other on the same plant. Ours is timed around the whole step (moving the plan on, one
iteration, reading the control); Crocoddyl's only around ``SolverFDDP.solve(xs, us, 1)``, without what moves its plan on.

The process is pinned to one core and, where the system allows it, given real-time priority, as a controller would be. Writes
results/benchmarks/mpc_deadlines.csv, .md and .png; rows that an environment cannot measure stay as they are.
"""

from __future__ import annotations

import csv
import importlib.util
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from result_tables import FOLDER, write_page, write_table

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support"), str(ROOT / "tests" / "benchmarks")]

from ocp.methods import make_options  # noqa: E402
from ocp.mpc import Disturbances, Kick, MPCOptions, PlantSpec, run  # noqa: E402  # the repository's packages need the path above
from ocp.mpc.options import solver_options  # noqa: E402
from ocp.mpc.result import step_times  # noqa: E402
from ocp.problem import Status  # noqa: E402

SECONDS = float(os.environ.get("MPC_SECONDS", "30"))
REST = 1.2  # s
FILES = {"cartpole_balance": {}, "quadrotor_track": {}, "panda_track": {}, "quadruped_stand": {}, "quadruped_trot": {}}
ONLY = os.environ.get("MPC_FILES", "").split()  # of these; rows of the others stay
PUBLISHED = {"cartpole_balance": "acados RTI, N = 20: 73 us", "quadrotor_track": "acados RTI, N = 20, 12 states: 176 us",
             "quadruped_trot": "wb-mpc-locoman (RA-L 2025), quadruped with an arm, N = 14: 12500 us"}
SET = {"quadrotor": (200.0, {}), "panda": (100.0, {"regularisation": 1e-3})}
COLUMNS = ("kind", "problem", "solver", "rate", "intervals", "states", "controls", "iterations", "steps", "failed", "cost",
           *(f"{clock}_{name}" for clock in ("wall", "processor") for name in ("median", "p99", "p999", "largest")),
           "missed", "processor_missed", "overhead", "priority")


def alone() -> str:
    """Pin the process to one core and ask for real-time priority; what was granted."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    except PermissionError:
        return "normal"
    return "real-time"


def rested(problem: Any, options: Any) -> Any:
    """Our solver, which rests after it has converged, before the clock starts."""
    from ocp.shooting.receding import Receding

    class Rested(Receding):
        def reset(self, x0: np.ndarray, t0: float, iterations: int = 0) -> tuple[Status, str]:
            found = super().reset(x0, t0, iterations)
            time.sleep(REST if iterations else 0.0)
            return found

    return Rested(problem, options)


def breathe(state: Any) -> None:
    """Between two steps, off the clock: real-time processes that never rest are stopped for a twentieth of every second."""
    time.sleep(0.012)


def row(kind: str, problem: str, solver: str, loop: Any, priority: str, wall: np.ndarray, busy: np.ndarray) -> dict[str, Any]:
    system, deadline = loop.problem.phase.system, loop.options.period
    times = {"wall": step_times(wall, deadline), "processor": step_times(busy, deadline)}
    figures = {f"{clock}_{name}": getattr(found, name) * 1e6 for clock, found in times.items()
               for name in ("median", "p99", "p999", "largest")}
    return {"kind": kind, "problem": problem, "solver": solver, "rate": loop.options.rate,
            "intervals": loop.solver_options.intervals,
            "states": system.nx, "controls": system.nu, "iterations": loop.options.iterations, "steps": len(wall),
            "failed": loop.failures, "cost": loop.cost, **figures, "missed": times["wall"].missed,
            "processor_missed": times["processor"].missed, "overhead": overhead(loop) if solver == "ours" else "",
            "priority": priority}


def overhead(loop: Any) -> float:
    """Microseconds that a step costs where the solver does nothing: shift, call and control of an empty face."""
    class Nothing:
        def shift(self, seconds: float) -> None: ...
        def iterate(self, x: np.ndarray, iterations: int) -> int:
            return 0

    face, x, u, knots = Nothing(), loop.x[0], loop.u[:1], np.arange(loop.solver_options.intervals) * 1e-2
    found = []
    for _ in range(2000):
        began, busy = time.perf_counter_ns(), time.thread_time_ns()
        face.shift(0.01)
        face.iterate(x, 1)
        u_now = np.clip(u[max(0, int(np.searchsorted(knots[:1], 0.0, side="right")) - 1)], -1.0, 1.0)
        bool(np.all(np.isfinite(u_now)))
        found.append(time.thread_time_ns() - busy + 0 * began)
    return float(np.median(found)) * 1e-3


# ---- problem files ------------------------------------------------------------------------------------------------------
def from_files(priority: str) -> list[dict[str, Any]]:
    from ocp.app.files.load import load_problem

    rows = []
    for name, changes in FILES.items():
        if ONLY and name not in ONLY:
            continue
        loaded = load_problem(ROOT / "problems" / "mpc" / f"{name}.yaml", {"mpc.duration": str(SECONDS), **changes})
        given = loaded.mpc
        solver = solver_options(loaded.problem, given.options, {**loaded.options_for("ilqr"), **given.ilqr})
        loop = run(given.problem or loaded.problem, given.options, solver=solver, plant=given.plant, tracked=given.tracked,
                   progress=breathe, receding=rested)
        rows.append(row("files", name, "ours", loop, priority, loop.seconds, loop.processor))
        print(name, loop.ending.name, loop.notes, *(f"{k.name}: rms {k.rms:.3g} {k.unit}" for k in loop.tracking), flush=True)
    return rows


# ---- Crocoddyl's problems -----------------------------------------------------------------------------------------------
def kicked(case: Any, period: float) -> PlantSpec:
    """The model itself, kicked every two seconds in every velocity."""
    system = case.problem.phase.system
    rng, half = np.random.default_rng(5), system.space.ndx // 2
    kicks = tuple(Kick(float(t), (0.0,) * half + tuple(0.3 * rng.standard_normal(half))) for t in np.arange(1.0, SECONDS, 2.0))
    return PlantSpec(system, substeps=2, disturbances=Disturbances(kicks=kicks))


class Theirs:
    """SolverFDDP with the face of ``ocp.shooting.receding.Receding``; its plan moves on by interpolation, off the clock."""

    def __init__(self, name: str, case: Any):
        import crocoddyl
        import crocoddyl_set

        self.set, self.case = crocoddyl_set, case
        self.problem = crocoddyl_set.THEIRS[name]()
        self.problem.nthreads = 1
        self.solver = crocoddyl.SolverFDDP(self.problem)
        self.state = self.problem.runningModels[0].state
        self.t = np.arange(case.intervals + 1) * case.step_length
        self.wall: list[float] = []
        self.busy: list[float] = []
        self.message, self.violation = "", 0.0
        self.warm = True

    @property
    def u(self) -> np.ndarray:
        return np.array([np.asarray(u) for u in self.us])

    @property
    def cost(self) -> float:
        return float(self.solver.cost)

    def reset(self, x0: np.ndarray, t0: float, iterations: int = 0) -> tuple[Status, str]:
        xs, us = self.set.guess_for_theirs(self.case, "hold")
        self.problem.x0 = self.set.state_of_theirs(self.case, x0)
        self.solver.solve(xs, us, max(1, iterations), False)
        self.xs, self.us = list(self.solver.xs), list(self.solver.us)
        time.sleep(REST if iterations else 0.0)
        return Status.CONVERGED, ""

    def shift(self, seconds: float) -> None:
        r = seconds / self.case.step_length
        whole, part, N = int(r + 1e-9), max(0.0, r - int(r + 1e-9)), len(self.us)
        xs, us = list(self.xs), list(self.us)
        for k in range(N + 1):
            a, b = xs[min(k + whole, N)], xs[min(k + whole + 1, N)]
            self.xs[k] = self.state.integrate(a, part * self.state.diff(a, b))
        for k in range(N):
            self.us[k] = (1 - part) * us[min(k + whole, N - 1)] + part * us[min(k + whole + 1, N - 1)]

    def iterate(self, x0: np.ndarray, iterations: int = 1) -> int:
        start = self.set.state_of_theirs(self.case, x0)
        self.xs[0] = start
        began, busy = time.perf_counter_ns(), time.thread_time_ns()
        self.problem.x0 = start
        self.solver.solve(self.xs, self.us, iterations, False)
        self.busy.append((time.thread_time_ns() - busy) * 1e-9)
        self.wall.append((time.perf_counter_ns() - began) * 1e-9)
        self.xs, self.us = list(self.solver.xs), list(self.solver.us)
        return 0 if np.isfinite(self.solver.cost) else 1

    def control(self, since: float, x: Any) -> np.ndarray:
        return np.array(self.us[0])


def from_set(priority: str) -> list[dict[str, Any]]:
    import crocoddyl_problems

    rows = []
    for name, (rate, more) in SET.items():
        case = crocoddyl_problems.case(name, "hold")
        options = MPCOptions(rate=rate, duration=SECONDS)
        solver = make_options("ilqr", {"intervals": case.intervals, "armijo": 0.1, **case.options, **more})
        plant = kicked(case, options.period)
        loop = run(case.problem, options, solver=solver, plant=plant, progress=breathe, receding=rested)
        rows.append(row("set", name, "ours", loop, priority, loop.seconds, loop.processor))
        made: list[Theirs] = []

        def theirs(problem: Any, options: Any, made: list = made, name: str = name, case: Any = case) -> Theirs:
            made.append(Theirs(name, case))
            return made[0]

        other = run(case.problem, options, solver=solver, plant=plant, receding=theirs, progress=breathe)
        wall, busy = (np.array(x[-len(other.seconds):]) for x in (made[0].wall, made[0].busy))
        rows.append(row("set", name, "Crocoddyl 3.2.1", other, priority, wall, busy))
        print(name, loop.ending.name, loop.notes, loop.cost, other.ending.name, other.cost, flush=True)
    return rows


# ---- pages --------------------------------------------------------------------------------------------------------------
def merged(new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of the table with new ones in the place of old ones."""
    path, key = FOLDER / "mpc_deadlines.csv", ("kind", "problem", "solver")
    old = list(csv.DictReader(path.open(encoding="utf-8"))) if path.is_file() else []
    fresh = {tuple(r[k] for k in key) for r in new}
    rows = [r for r in old if tuple(r[k] for k in key) not in fresh]
    rows += [{k: f"{v:.6g}" if isinstance(v, float) else str(v) for k, v in r.items()} for r in new]
    order = {name: i for i, name in enumerate([*FILES, *SET])}
    rows.sort(key=lambda r: (r["kind"], order.get(r["problem"], 99), r["solver"] != "ours"))
    write_table(path, rows, COLUMNS)
    return rows


def table(rows: list[dict[str, Any]], clock: str) -> list[str]:
    lines = ["| problem | solver | rate | N | states, controls | median | 99 % | 99.9 % | largest | deadline | missed |",
             "|---|---|---|---|---|---|---|---|---|---|---|"]
    for r in rows:
        figures = " | ".join(f"{float(r[f'{clock}_{name}']):.0f}" for name in ("median", "p99", "p999", "largest"))
        missed = r["missed"] if clock == "wall" else r["processor_missed"]
        lines.append(f"| {r['problem']} | {r['solver']} | {float(r['rate']):.0f} Hz | {r['intervals']} | {r['states']}, "
                     f"{r['controls']} | {figures} | {1e6 / float(r['rate']):.0f} | {missed} of {r['steps']} |")
    return lines


def pages(rows: list[dict[str, Any]]) -> None:
    from ocp.app.pipeline import processor

    files, both = ([r for r in rows if r["kind"] == kind] for kind in ("files", "set"))
    ratios = []
    for name in SET:
        pair = {r["solver"]: r for r in both if r["problem"] == name}
        if len(pair) == 2:
            ours, theirs = pair["ours"], pair["Crocoddyl 3.2.1"]
            ratios.append(f"{name} {float(theirs['processor_median']) / float(ours['processor_median']):.2f}")
    lines = [
        "# Closed loops against their deadlines", "",
        f"{processor()}; {SECONDS:g} s of simulated time, one process on one core with {rows[0]['priority']} priority, "
        "on a machine that others use too.",
        "All times in microseconds. One solver iteration a step (the arm of the files: two).", "",
        "## Shipped problem files", "",
        "With their noise, mismatch, kicks and pushes. The whole step: moving the plan on, iterating, reading the control.",
        "Published for comparison, other machines: " + "; ".join(f"{k}: {v}" for k, v in PUBLISHED.items()) + ".", "",
        "Wall time:", "", *table(files, "wall"), "", "Processor time:", "", *table(files, "processor"), "",
        "## Crocoddyl's own quadrotor and arm as receding horizons", "",
        "Same horizon, cost and integrator, same plant, kicked every two seconds; one iteration of iLQR beside one of FDDP. Ours",
        "is the whole step, Crocoddyl's only `SolverFDDP.solve(xs, us, 1)`. Its wheel is built for SSE2. The arm, a reach that is",
        "chased anew at every sample, starts with a regularisation of 1e-3 in ours; without it one iteration a step does not",
        "hold its plan together.", "",
        "Wall time:", "", *table(both, "wall"), "", "Processor time:", "", *table(both, "processor"), "",
        "Crocoddyl's median processor time over ours: " + (", ".join(ratios) or "not measured") + ".",
        "Cost of the closed loop (time integral): " + ", ".join(
            f"{r['problem']} {r['solver']} {float(r['cost']):.6g}" for r in both) + ".", "",
        "What Python adds to a step beside the compiled call, measured with a solver that does nothing: "
        f"{max((float(r['overhead']) for r in rows if r['overhead']), default=float('nan')):.0f} us at most.",
        "Written by tests/benchmarks/mpc_deadlines.py.",
    ]
    write_page(FOLDER / "mpc_deadlines.md", lines)
    (FOLDER / "mpc_deadlines.png").write_bytes(picture(rows))


def picture(rows: list[dict[str, Any]]) -> bytes:
    """Median to 99.9 % of every loop as a bar, its deadline as a mark."""
    from ocp.app.pages import sheet

    left, right, bar = 3.4, 1.2, 0.34
    height = 0.95 + bar * len(rows)
    fig = sheet.figure(height)
    ax = sheet.axes(fig, (left, 0.5, sheet.WIDTH - left - right, bar * len(rows)))
    ax.set_xlim(1.3, 4.6)
    ax.set_ylim(-0.6, len(rows) - 0.4)
    for i, r in enumerate(rows):
        y = len(rows) - 1 - i
        low, high, largest = (np.log10(float(r[f"processor_{name}"])) for name in ("median", "p999", "largest"))
        colour = sheet.PALETTE[0 if r["solver"] == "ours" else 1]
        ax.barh(y, high - low, left=low, height=0.45, color=colour, lw=0, zorder=3)
        ax.plot([largest], [y], marker="o", ms=3, color=colour, ls="", zorder=4)
        deadline = np.log10(1e6 / float(r["rate"]))
        ax.plot([deadline, deadline], [y - 0.4, y + 0.4], color=sheet.FAIL, lw=1.6, zorder=4)
        ax.text(-0.012, y, f"{r['problem']}, {r['solver']}", transform=ax.get_yaxis_transform(), ha="right", va="center",
                fontsize=8.5, color=sheet.INK)
        ax.text(low - 0.02, y, f"{float(r['processor_median']):.0f}", fontsize=7.5, color=sheet.SOFT, ha="right", va="center")
    sheet.ticks(ax, "log", "")
    sheet.caption(fig, left, height - 0.2, "processor time of a step [µs]: median to 99.9 %, dot: largest, red: deadline")
    return bytes(sheet.png(fig))


def main() -> None:
    priority = alone()
    rows = []
    if importlib.util.find_spec("pydantic"):
        rows += from_files(priority)
    if importlib.util.find_spec("crocoddyl"):
        rows += from_set(priority)
    kept = merged(rows)
    if importlib.util.find_spec("matplotlib"):
        pages(kept)


if __name__ == "__main__":
    main()
