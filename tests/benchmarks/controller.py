"""A controller in a loop of one's own: what a step costs beside the compiled loop, whether memory grows, and how hard constraints
hold.

    pip install lieocp && python tests/benchmarks/controller.py [--steps 1000000]

"overhead": the shipped closed loops; a step from Python, what is left of it where the solver does nothing, and the two parts of a
step. "memory": so many steps of the cart-pole, resident memory at a tenth of them and at the end. "constraints": loops against
walls and obstacles, the plant the model: barrier and multipliers, beside the nonlinear programs of the same samples solved to
convergence by FATROP in CasADi's stack of its own (multiple shooting, RK4, the same grid). Writes results/benchmarks/controller.csv
and .md.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np
from result_tables import FOLDER, write_page, write_table

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from ocp.app.files.load import load_problem, load_text  # noqa: E402  # the repository's own packages need the path above
from ocp.methods import make_options  # noqa: E402
from ocp.mpc.closed_loop import prepare  # noqa: E402
from ocp.mpc.controller import controller  # noqa: E402

COLUMNS = ("kind", "problem", "variant", "microseconds", "overhead", "cost", "violation", "size", "relative", "failed")
WALL = """
name: wall
system: {states: {q: m, v: m/s}, controls: {a: N}, dynamics: {q: v, v: a}}
phase:
  duration: 1.0
  start: {q: -1, v: 0}
  bounds: {q: [-2, 0.5], v: [-1, 1], a: [-10, 10]}
  costs: [{name: all, running: "10*(q - sin(t))**2 + 0.09*v**2 + 0.1*a**2"}]
mpc: {rate: 20, duration: 10, plant: {substeps: 1}}
solve: {method: ilqr, ilqr: {intervals: 20}}
"""
CAR = """
name: car
system:
  states: {x: m, y: m, psi: rad, v: m/s}
  controls: {a: m/s^2, w: rad/s}
  dynamics: {x: v*cos(psi), y: v*sin(psi), psi: w, v: a}
phase:
  duration: 2.0
  start: {x: 0, y: 0, psi: 0, v: 0}
  bounds: {a: [-3, 3], w: [-2, 2], v: [-1, 1.5]}
  costs:
    - {name: way, running: "5*(x-5)**2+5*(y-0.1)**2+0.1*psi**2+0.5*v**2+0.1*a**2+0.1*w**2"}
    - {name: end, final: "20*(x-5)**2+20*(y-0.1)**2+v**2"}
  constraints:
    - {name: first, expression: "(x-1.5)**2+(y-0.05)**2", lower: 0.25}
    - {name: second, expression: "(x-3.5)**2+(y+0.2)**2", lower: 0.36}
mpc: {rate: 20, duration: 8, plant: {substeps: 1}}
solve: {method: ilqr, ilqr: {intervals: 40}}
"""
CART = (ROOT / "problems" / "mpc" / "cartpole_swingup.yaml").read_text(encoding="utf-8").replace(
    "bounds: {force: [-20, 20]}", "bounds: {force: [-20, 20], x: [-0.8, 0.8]}").replace("delay: predicted", "delay: none").replace(
    "plant: {substeps: 2}", "plant: {substeps: 1}").replace("cost_quadrature: rectangle", "cost_quadrature: integrator").replace(
    "rate: 200", "rate: 20")
SIZES = {"wall": {"q": 2.5, "v": 2.0}, "car": {"v": 2.5, "first": 0.25, "second": 0.36}, "cart-pole": {"x": 1.6}}


# ---- overhead and memory ------------------------------------------------------------------------------------------------
def made(name: str) -> tuple[Any, np.ndarray]:
    loaded = load_problem(ROOT / "problems" / "mpc" / f"{name}.yaml", {})
    mpc = controller(loaded.problem, loaded.mpc.options, make_options("ilqr", {**loaded.options_for("ilqr"), **loaded.mpc.ilqr}))
    x = np.array(loaded.problem.phase.start.value)
    mpc.reset(x)
    return mpc, x


class Idle:
    """The solver of a controller, which moves and improves nothing: what is left is what Python adds."""

    def __init__(self, solver: Any):
        self.t, self.x, self.u, self.K = solver.t, solver.x, solver.u, solver.K

    def shift(self, seconds: float) -> None: ...
    def iterate(self, x: np.ndarray, iterations: int) -> int:
        return 0


def overhead() -> list[dict[str, Any]]:
    """A step, the two parts of a step, and a step whose solver is idle."""
    rows, clock = [], time.perf_counter_ns
    for name in ("cartpole_balance", "quadrotor_track", "panda_track"):
        mpc, x = made(name)
        out, count = np.zeros(mpc.phase.system.nu), 5000 if name == "cartpole_balance" else 500
        whole, prepared, answered, idle = np.zeros((4, count))
        for i in range(count):
            began = clock()
            mpc.step(x, out=out)
            whole[i] = clock() - began
        mpc.reset(x)
        for i in range(count):
            a = clock()
            mpc.prepare()
            b = clock()
            mpc.feedback(x)
            prepared[i], answered[i] = b - a, clock() - b
        mpc.horizon = Idle(mpc.horizon)
        for i in range(count):
            began = clock()
            mpc.step(x, out=out)
            idle[i] = clock() - began
        step, first, second, rest = (float(np.median(part)) * 1e-3 for part in (whole, prepared, answered, idle))
        one = {"kind": "overhead", "problem": name}
        rows += [{**one, "variant": "step", "microseconds": step, "overhead": rest},
                 {**one, "variant": "prepare", "microseconds": first}, {**one, "variant": "feedback", "microseconds": second}]
        print(rows[-3:], flush=True)
    return rows


def memory(steps: int) -> list[dict[str, Any]]:
    mpc, x = made("cartpole_balance")
    out, found = np.zeros(1), []
    for part in (steps // 10, steps - steps // 10):
        for _ in range(part):
            mpc.step(x, out=out)
        found.append(resident())
    print("memory", found, flush=True)
    return [{"kind": "memory", "problem": "cartpole_balance", "variant": f"{steps} steps", "size": found[0],
             "overhead": found[1] - found[0]}]


def resident() -> int:
    """Resident memory of the process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


# ---- hard constraints ---------------------------------------------------------------------------------------------------
def constraints() -> list[dict[str, Any]]:
    rows = []
    for name, text in (("wall", WALL), ("car", CAR), ("cart-pole", CART)):
        loaded = load_text(text)
        given = loaded.mpc
        solver = make_options("ilqr", {**loaded.options_for("ilqr"), **given.ilqr})
        for engine, iterations in (("barrier", 1), ("barrier", 5), ("multipliers", 1), ("multipliers", 5)):
            barrier = 1e-3 if engine == "barrier" else 0.0
            options, variant = replace(given.options, barrier=barrier, iterations=iterations), f"{engine}, iterations: {iterations}"
            loop = prepare(loaded.problem, options, solver=solver, plant=given.plant).run()
            rows.append(judged(name, variant, loaded.problem.phase, loop.x[1:], loop.cost, float(np.median(loop.processor)) * 1e6,
                               loop.failures))
        rows.append(fatrop(name, loaded, solver.intervals))
        print(*rows[-5:], sep="\n", flush=True)
    return rows


def judged(name: str, variant: str, phase: Any, x: np.ndarray, cost: float, microseconds: float, failed: int
           ) -> dict[str, Any]:
    """Largest violation at the samples, and over the size of its row."""
    worst, size = 0.0, 1.0
    lower, upper = phase.state_bounds.arrays
    excess = {s: np.maximum(lower[i] - x[:, i], x[:, i] - upper[i]).max() for i, s in enumerate(phase.system.space.names)}
    for c in phase.constraints:
        value = np.array([float(c.function(0.0, one, np.zeros(phase.system.nu), phase.system.parameter_values)) for one in x])
        excess[c.name] = (c.lower[0] - value).max()
    for row, most in SIZES[name].items():
        if excess[row] / most > worst / size:
            worst, size = float(excess[row]), most
    return {"kind": "constraints", "problem": name, "variant": variant, "microseconds": microseconds, "cost": cost,
            "violation": worst, "size": size, "relative": worst / size, "failed": failed}


def fatrop(name: str, loaded: Any, intervals: int) -> dict[str, Any]:
    """The same loop, every sample solved to convergence: stages (x, u), RK4, costs by its tableau."""
    phase, options = loaded.problem.phase, loaded.mpc.options
    system, h = phase.system, phase.duration.guess / intervals
    running = sum_of(phase, "PATH")
    X, U, P = ca.MX.sym("x", system.nx), ca.MX.sym("u", system.nu), list(system.parameter_values)
    T, H = ca.MX.sym("t"), ca.MX.sym("h")

    def slope(t: Any, x: Any) -> Any:
        return ca.vertcat(system.rate(t, x, U, P), running(t, x, U))

    k1 = slope(T, X)
    k2 = slope(T + H / 2, X + H / 2 * k1[:-1])
    k3 = slope(T + H / 2, X + H / 2 * k2[:-1])
    k4 = slope(T + H, X + H * k3[:-1])
    whole = (k1 + 2 * k2 + 2 * k3 + k4) * (H / 6)
    step = ca.Function("step", [T, X, U, H], [X + whole[:-1], whole[-1]])
    opti = ca.Opti()
    start, begins = opti.parameter(system.nx), opti.parameter()
    (x_low, x_up), (u_low, u_up) = phase.state_bounds.arrays, phase.control_bounds.arrays
    x, u, cost = [opti.variable(system.nx)], [], 0
    for k in range(intervals):
        u.append(opti.variable(system.nu))
        after, value = step(begins + k * h, x[k], u[k], h)
        x.append(opti.variable(system.nx))
        opti.subject_to(x[k + 1] == after)
        if k == 0:
            opti.subject_to(x[0] == start)
        cost += value
        opti.subject_to(opti.bounded(u_low, u[k], u_up))
        if k:
            rows(opti, phase, x[k], x_low, x_up)
    rows(opti, phase, x[-1], x_low, x_up)
    final = sum_of(phase, "FINAL")
    opti.minimize(cost + final(begins + intervals * h, x[-1], np.zeros(system.nu)))
    opti.solver("fatrop", {"structure_detection": "auto", "print_time": False, "expand": True, "error_on_fail": False},
                {"print_level": 0, "tol": 1e-8})
    state, spent, seconds, failed = np.array(phase.start.value), 0.0, [], 0
    before, motion = None, []
    for i in range(options.steps):
        opti.set_value(start, state)
        opti.set_value(begins, i * options.period)
        for k, one in enumerate(x):
            opti.set_initial(one, state if before is None else before[0][min(k + 1, intervals)])
        for k, one in enumerate(u):
            opti.set_initial(one, np.zeros(system.nu) if before is None else before[1][min(k + 1, intervals - 1)])
        clock = time.thread_time_ns()
        found = opti.solve_limited()
        seconds.append(time.thread_time_ns() - clock)
        failed += not found.stats()["success"]
        before = ([np.ravel(found.value(one)) for one in x], [np.ravel(found.value(one)) for one in u])
        moved, value = step(i * options.period, state, before[1][0], options.period)
        spent, state = spent + float(value), np.asarray(moved, float).ravel()
        motion.append(state)
    return judged(name, "FATROP, converged", phase, np.array(motion), spent, float(np.median(seconds)) * 1e-3, failed)


def rows(opti: Any, phase: Any, x: Any, low: np.ndarray, up: np.ndarray) -> None:
    bounded = np.flatnonzero(phase.state_bounds.bounded)
    if bounded.size:
        opti.subject_to(opti.bounded(low[bounded], x[bounded.tolist()], up[bounded]))
    for c in phase.constraints:
        opti.subject_to(c.function(0, x, np.zeros(phase.system.nu), phase.system.parameter_values) >= c.lower[0])


def sum_of(phase: Any, at: str) -> ca.Function:
    """All costs of one kind as a function of (t, x, u)."""
    system = phase.system
    t, x, u = ca.MX.sym("t"), ca.MX.sym("x", system.nx), ca.MX.sym("u", system.nu)
    total = sum((cost.expression(t, x, u, ca.DM(system.parameter_values)) for cost in phase.costs if cost.at.name == at), ca.MX(0))
    return ca.Function("costs", [t, x, u], [total])


# ---- pages --------------------------------------------------------------------------------------------------------------
def pages(found: list[dict[str, Any]], steps: int) -> None:
    from ocp.app.pages.folders import markdown_table
    from ocp.app.pipeline import processor

    cost = [r for r in found if r["kind"] == "overhead"]
    table = []
    for name in dict.fromkeys(r["problem"] for r in cost):
        by = {r["variant"]: r for r in cost if r["problem"] == name}
        step = by["step"]
        table.append([name, *(f"{value:.1f}" for value in (step["microseconds"], step["overhead"], by["prepare"]["microseconds"],
                                                           by["feedback"]["microseconds"]))])
    lines = ["# A controller in a loop of one's own", "", f"{processor()}, a machine that others use too; medians.", "",
             "## What a step costs", "",
             *markdown_table(("problem", ">step [us]", ">of that Python [us]", ">prepare [us]", ">feedback [us]"), table)]
    for r in found:
        if r["kind"] == "memory":
            lines += ["", f"Over {r['variant']} of the cart-pole resident memory grows by {r['overhead'] / 1024:.0f} KiB after the "
                      f"first tenth (of {r['size'] / 2**20:.0f} MiB)."]
    held = [[r["problem"], r["variant"], f"{r['microseconds']:.0f}", f"{r['cost']:.6g}", f"{r['violation']:.1e}",
             f"{r['relative']:.1e}", str(r["failed"])] for r in found if r["kind"] == "constraints"]
    lines += ["", "## Hard constraints", "",
              "The plant is the model, violations at the samples; relative: to the width of the bound, or the squared radius.",
              "", *markdown_table(("problem", "engine", ">step [us]", ">cost", ">violation", ">relative", ">failed steps"), held)]
    write_page(FOLDER / "controller.md", [*lines, "", "Written by tests/benchmarks/controller.py."])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1_000_000)
    steps = parser.parse_args().steps
    found = [*overhead(), *constraints(), *memory(steps)]
    write_table(FOLDER / "controller.csv", found, COLUMNS, digits="6g")
    pages(found, steps)


if __name__ == "__main__":
    main()
