"""iLQR with hard constraints on the benchmark set of ALTRO: iterations beside the published counts, violation, cost, time.

    pip install lieocp && python tests/benchmarks/altro_set.py

Definitions of Altro.jl v0.5 (RoboticExplorationLab, MIT): knots, weights, bounds, obstacles and initial controls as there; RK4
and rectangle sums; the cart-pole is that of its quickstart, which uses RK4. Its counts are augmented-Lagrangian iLQR steps plus
steps of a projected Newton method, to a violation of 1e-6 and a cost that still changes by up to 1e-4 an iteration. Ours are all
Riccati sweeps that led to a step or a refusal; control bounds are part of the sweep. Writes results/benchmarks/altro_set.csv and
.md.
"""

from __future__ import annotations

import statistics
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import casadi as ca
import numpy as np
from result_tables import FOLDER, write_page, write_table
from scipy.interpolate import CubicSpline

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

import constrained_problems  # noqa: E402  # the repository's own modules need the path above
from constrained_problems import Constrained  # noqa: E402

from ocp.app.pipeline import processor  # noqa: E402  # the repository's own packages need the path above
from ocp.methods import solve  # noqa: E402
from ocp.problem import At, Boundary, Cost, Duration, Guess, Phase, Problem, System  # noqa: E402
from ocp.spaces import euclidean  # noqa: E402

VIOLATION, TOLERANCE, REPEATS = 1e-6, 1e-6, 5


@dataclass(frozen=True)
class Case:
    """One problem: published iterations, the optimum that IPOPT finds from the same start, and our options."""

    problem: Problem
    intervals: int
    published: int
    ipopt: float
    options: dict


THEIRS = {"tolerance": 1e-2, "polish": "newton"}
"""Options of the run that stops where ALTRO stops, the same for all problems: a loose tolerance, then Newton's method."""


def case(made: Constrained, published: int, ipopt: float, **options) -> Case:
    return Case(made.problem, made.intervals, published, ipopt, options)


def cases():
    yield case(constrained_problems.double_integrator(), 8, 0.7440873053)
    yield case(constrained_problems.pendulum(), 18, 0.01840462615)
    made = case(constrained_problems.cart_pole(), 44, 1.486186727)
    yield replace(made, problem=replace(made.problem, name="cart-pole (quickstart, RK4)"))
    yield case(constrained_problems.acrobot(), 50, 50.04661122)
    yield case(constrained_problems.parallel_park(), 13, 0.05406699390)
    yield case(constrained_problems.three_obstacles(), 20, 9.435505742)


def escape():
    """From one room to the next around 170 discs, from states that no control explains (Altro.jl: infeasible start)."""
    made = constrained_problems.escape()
    x = CubicSpline(np.linspace(0, 1, len(made.route)), made.route, bc_type="natural")(s := np.linspace(0, 1, 101))
    problem = constrained_problems.with_guess(made.problem, Guess(s, x, np.ones((101, 2))))
    return Case(problem, 100, 14, float("nan"), {"shooting": "feasible", "constraint_tolerance": 1e-5, "penalty": 100.0})


def quadrotor():
    """Zig-zag through two waypoints that are costs at single knots; the quaternion in ambient coordinates, as in RobotZoo."""
    names = ("x", "y", "z", "qw", "qx", "qy", "qz", "vx", "vy", "vz", "wx", "wy", "wz")
    t, x, u, p = ca.SX.sym("t"), ca.SX.sym("x", 13), ca.SX.sym("u", 4), ca.SX.sym("p", 0)
    w, r, omega = x[3], x[4:7], x[10:13]
    thrust = ca.vertcat(0, 0, ca.sum1(u))
    force = (w**2 - ca.dot(r, r)) * thrust + 2 * r * ca.dot(r, thrust) + 2 * w * ca.cross(r, thrust)
    torque = ca.vertcat(0.175 * (u[1] - u[3]), 0.175 * (u[2] - u[0]), 0.0245 * (u[0] - u[1] + u[2] - u[3]))
    inertia = ca.DM([0.0023, 0.0023, 0.004])
    turn = 0.5 * ca.vertcat(-ca.dot(r, omega), w * omega + ca.cross(r, omega))
    rate = ca.vertcat(x[7:10], turn, force / 0.5 - ca.vertcat(0, 0, 9.81), (torque - ca.cross(omega, inertia * omega)) / inertia)

    def away(place, weights):
        error = x - ca.DM([*place, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0])
        position, rotation, rest = weights
        return ca.dot(ca.DM([position] * 3 + [rotation] * 4 + [rest] * 6), error**2) / 2

    via = [(1.6, (10, 0, 1)), (3.25, (-10, 0, 1))]
    stage = away((0, 0, 0), (1e-5, 1e-5, 1e-3))
    for time, place in via:
        stage = ca.if_else(ca.fabs(t - time) < 0.01, away(place, (1, 1e-3, 1e-3)), stage)
    arguments = [t, x, u, p]
    costs = (Cost("stage", At.PATH, ca.Function("stage", arguments, [stage + 1e-4 * ca.dot(u, u) / 2])),
             Cost("end", At.FINAL, ca.Function("end", arguments, [away((0, 10, 1), (10, 100, 10))])))
    start = (0, -10, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    hover = np.full((2, 4), 0.5 * 9.81 / 4)
    phase = Phase("quadrotor", System("quadrotor", euclidean(names), tuple(f"u{i}" for i in range(4)), ca.Function("rate",
                                                                                                                   arguments,
                                                                                                                   [rate])),
                  Duration(5.0, 5.0, 5.0), Guess(np.array([0.0, 1.0]), np.tile(np.array(start, float), (2, 1)), hover),
                  start=Boundary(tuple(map(float, start)), (True,) * 13), u_lower=(0.0,) * 4, u_upper=(12.0,) * 4, costs=costs)
    return Case(Problem("quadrotor zig-zag", (phase,)), 100, 14, 0.2878716803, {"control_bounds": "rows"})


def measured(c: Case) -> dict:
    options = {"intervals": c.intervals, "cost_quadrature": "rectangle", "constraint_tolerance": VIOLATION, "tolerance": TOLERANCE,
               **c.options}
    runs = [solve(c.problem, "ilqr", options) for _ in range(REPEATS)]
    theirs = solve(c.problem, "ilqr", options | THEIRS)
    # rows of Newton's method promise nothing: it has projected once it is feasible
    early = next((row["iteration"] for row in theirs.iterations if row.get("violation", 0.0) <= options["constraint_tolerance"]
                  and row["step"] > 0 and (row.get("newton") or row.get("expected", 1.0) <= 1e-4)), len(theirs.iterations) - 1)
    first, log = runs[0], runs[0].iterations
    reached = next((row["iteration"] for row in log if row.get("violation", 0.0) <= VIOLATION), None)
    return {"problem": c.problem.name, "status": first.status.name, "iterations": len(log) - 1, "published": c.published,
            "ratio": (len(log) - 1) / c.published, "first_below": reached, "their_stop": early, "their_cost": theirs.objective,
            "violation": max(v.at_knots for v in first.certificate.violations), "cost": first.objective, "ipopt": c.ipopt,
            "stationarity": first.certificate.stationarity.value,
            "solve_ms": 1e3 * statistics.median(s.seconds["solve"] for s in runs)}


def main() -> None:
    rows = []
    for c in (*cases(), escape(), quadrotor()):
        rows.append(measured(c))
        print(rows[-1], flush=True)
    write_table(FOLDER / "altro_set.csv", rows, digits=".6g")
    lines = [
        "# The benchmark set of ALTRO", "",
        f"{processor()}; casadi {ca.__version__}. iLQR with an augmented Lagrangian, default options but the tolerances (escape:",
        "penalty 100 and the states of its guess; zig-zag: control bounds as rows of the augmented Lagrangian, as ALTRO holds",
        "them everywhere): violation at the knots",
        f"below {VIOLATION:g}, projected gradient below {TOLERANCE:g} of the cost; median of {REPEATS} solves, kernels and loops",
        "loaded. Published: iterations in Altro.jl's own tests, which stop at that violation while the cost still changes by up to",
        "1e-4 an iteration. At their stop: our iterations, steps of Newton's method included, until the violation is met and the",
        "model promises less than 1e-4, with the same options for all problems (tolerance 1e-2, polish newton); the cost at its",
        "end. The full count goes on to an optimum, that of IPOPT by direct multiple shooting from the same start (last",
        "digits). First below: the iteration at which the violation was first small enough. Escape is held to 1e-5, as published.",
        "Written by tests/benchmarks/altro_set.py.", "",
        "| problem | published | at their stop | ratio | cost there | to the optimum | first below | violation | cost | IPOPT | "
        "stationarity | solve, ms | status |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [f"| {r['problem']} | {r['published']} | {r['their_stop']} | {r['their_stop'] / r['published']:.2f} | "
              f"{r['their_cost']:.6g} | {r['iterations']} | {r['first_below']} | "
              f"{r['violation']:.1e} | {r['cost']:.8g} | {'' if np.isnan(r['ipopt']) else format(r['ipopt'], '.8g')} | "
              f"{r['stationarity']:.1e} | {r['solve_ms']:.1f} | "
              f"{r['status'].lower()} |" for r in rows]
    write_page(FOLDER / "altro_set.md", lines)


if __name__ == "__main__":
    main()
