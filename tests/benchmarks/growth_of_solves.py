"""How solving grows with intervals, joints and phases, beside CasADi's Opti with IPOPT and beside Crocoddyl.

    python tests/benchmarks/growth_of_solves.py [--peers PYTHON]   # some minutes; PYTHON has Crocoddyl 3.2.1 and Pinocchio 4.0.0

Intervals: the swing-up of a cart-pole by Hermite-Simpson collocation and by iLQR, certificates included; Opti has none. Joints: an
iteration with its trials of step lengths, of the first ten, for hanging chains that move by 0.2 rad in a second, on 100 steps of
semi-implicit Euler (Crocoddyl: the same) and on 20 Radau intervals of collocation, whose building is included. Phases: a block
that stops after every metre, on 20 intervals each. Processor seconds of a second solve, for the first compiles.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "benchmarks")]
INTERVALS, JOINTS, PHASES = (50, 100, 200, 400, 800, 1600, 3200, 6400), (2, 4, 8, 16, 32), (1, 2, 4, 8, 16)
KNOTS, ITERATIONS, PER_PHASE, DURATION = 100, 10, 20, 2.0
SERIES = ("intervals", "joints", "phases")


def chain(joints: int) -> str:
    """A URDF of links of 0.3 m and 1 kg whose axes alternate."""
    inertial = ('<inertial><origin xyz="0 0 -0.15"/><mass value="1"/>'
                '<inertia ixx="0.01" iyy="0.01" izz="0.001" ixy="0" ixz="0" iyz="0"/></inertial>')
    links = [f'<link name="l{i}">{inertial}</link><joint name="j{i}" type="revolute"><parent link="l{i - 1}"/><child link="l{i}"/>'
             f'<origin xyz="0 0 {-0.3 if i > 1 else 0}"/><axis xyz="{"0 1 0" if i % 2 else "1 0 0"}"/>'
             '<limit lower="-3" upper="3" effort="500" velocity="50"/></joint>' for i in range(1, joints + 1)]
    return f'<robot name="chain{joints}"><link name="l0"/>{"".join(links)}</robot>'


def spent(run: Callable[[], Any]) -> tuple[float, Any]:
    """(processor seconds of the second of two runs, what it returns)."""
    run()
    begin = time.process_time()
    found = run()
    return time.process_time() - begin, found


# ------------------------------------------------------------------------------------------------ the cart-pole
def rates(v: Any, w: Any, angle: Any, u: Any, sin: Any, cos: Any) -> tuple[Any, Any]:
    """Accelerations of cart and pole: 1 kg, 0.3 kg, 0.5 m."""
    s, c = sin(angle), cos(angle)
    below = 1.3 - 0.3 * c * c
    return (0.15 * s * w**2 + u + 0.3 * 9.81 * c * s) / below, -(0.15 * c * s * w**2 + u * c + 1.3 * 9.81 * s) / (0.5 * below)


def cart_pole(method: str, intervals: int) -> Any:
    import ocp

    p = ocp.Problem("Cart-pole", duration=DURATION)
    x, angle, v, w = p.state("x", "m"), p.state("angle", "rad"), p.state("v", "m/s"), p.state("w", "rad/s")
    u = p.control("u", "N")
    cart, pole = rates(v, w, angle, u, ocp.sin, ocp.cos)
    p.dynamics({x: v, angle: w, v: cart, w: pole})
    p.start(x=0, angle=0, v=0, w=0)
    p.final(x=1, angle=np.pi, v=0, w=0)
    p.bounds({u: (-20, 20), x: (-2, 2)})
    p.cost(u**2)
    options = {"scheme": "hermite_simpson"} if method == "collocation" else {}
    return lambda: p.solve(method, intervals=intervals, **options)


def cart_pole_by_opti(intervals: int) -> tuple[float, int]:
    """(objective, iterations) of the same transcription by CasADi's Opti."""
    import casadi as ca

    opti, h = ca.Opti(), DURATION / intervals
    X, M, U, V = opti.variable(4, intervals + 1), opti.variable(4, intervals), opti.variable(1, intervals + 1), opti.variable(
        1, intervals)
    x, u = ca.SX.sym("x", 4), ca.SX.sym("u")
    f = ca.Function("f", [x, u], [ca.vertcat(x[2], x[3], *rates(x[2], x[3], x[1], u, ca.sin, ca.cos))])
    F, G = f.map(intervals + 1)(X, U), f.map(intervals)(M, V)
    a, b, Fa, Fb = X[:, :-1], X[:, 1:], F[:, :-1], F[:, 1:]
    opti.subject_to(ca.vec(M - (a + b) / 2 - h / 8 * (Fa - Fb)) == 0)
    opti.subject_to(ca.vec(b - a - h / 6 * (Fa + 4 * G + Fb)) == 0)
    opti.subject_to(X[:, 0] == 0)
    opti.subject_to(X[:, -1] == ca.DM([1, np.pi, 0, 0]))
    for control, position in ((U, X), (V, M)):
        opti.subject_to(opti.bounded(-20, ca.vec(control), 20))
        opti.subject_to(opti.bounded(-2, ca.vec(position[0, :]), 2))
    opti.minimize(h / 6 * (ca.sumsqr(U[:-1]) + 4 * ca.sumsqr(V) + ca.sumsqr(U[1:])))
    s = np.linspace(0, 1, 2 * intervals + 1)
    opti.set_initial(X[:2, :], np.outer([1, np.pi], s[::2]))
    opti.set_initial(M[:2, :], np.outer([1, np.pi], s[1::2]))
    return by_ipopt(opti)


def by_ipopt(opti: Any) -> tuple[float, int]:
    opti.solver("ipopt", {"print_time": False, "expand": False}, {"print_level": 0, "sb": "yes", "tol": 1e-9})
    found = opti.solve()
    return float(found.value(opti.f)), int(found.stats()["iter_count"])


# ------------------------------------------------------------------------------------------------ phases
def hops(phases: int) -> Any:
    import ocp

    p = ocp.Problem("Hops")
    x, v = p.state("x", "m"), p.state("v", "m/s")
    u = p.control("u", "N")
    p.dynamics({x: v, v: u})
    for k in range(phases):
        leg = p.phase(f"hop {k}", duration=1.0)
        if k == 0:
            leg.start(x=0, v=0)
        leg.final(x=k + 1, v=0)
        leg.cost(u**2)
    return lambda: p.solve("collocation", scheme="hermite_simpson", intervals=PER_PHASE)


def hops_by_opti(phases: int) -> tuple[float, int]:
    import casadi as ca

    opti, h, cost, last = ca.Opti(), 1.0 / PER_PHASE, 0, None
    for k in range(phases):
        X, U, V = opti.variable(2, PER_PHASE + 1), opti.variable(1, PER_PHASE + 1), opti.variable(1, PER_PHASE)
        a, b = X[:, :-1], X[:, 1:]
        middle = (a[1, :] + b[1, :]) / 2 + h / 8 * (U[:, :-1] - U[:, 1:])
        opti.subject_to(ca.vec(b[0, :] - a[0, :] - h / 6 * (a[1, :] + 4 * middle + b[1, :])) == 0)
        opti.subject_to(ca.vec(b[1, :] - a[1, :] - h / 6 * (U[:, :-1] + 4 * V + U[:, 1:])) == 0)
        opti.subject_to(X[:, 0] == (ca.DM.zeros(2) if last is None else last))
        opti.subject_to(X[:, -1] == ca.DM([k + 1, 0]))
        cost += h / 6 * (ca.sumsqr(U[:, :-1]) + 4 * ca.sumsqr(V) + ca.sumsqr(U[:, 1:]))
        last = X[:, -1]
    opti.minimize(cost)
    return by_ipopt(opti)


# ------------------------------------------------------------------------------------------------ joints
def chain_problem(joints: int, folder: Path) -> Any:
    import ocp

    file = folder / f"chain{joints}.urdf"
    file.write_text(chain(joints), encoding="utf-8")
    robot = ocp.Robot(str(file))
    p = ocp.Problem("Chain", robot, duration=1.0)
    p.start(joints=dict.fromkeys(robot.joints, 0.1), rest=True)
    p.cost(ocp.sumsqr(robot.tau) + 0.1 * ocp.sumsqr(robot.v))
    p.cost(final=1e3 * (sum((robot.q[name] - 0.3)**2 for name in robot.joints) + ocp.sumsqr(robot.v)))
    return p.load().problem


def chain_seconds(joints: int, folder: Path) -> tuple[float, float]:
    """Processor seconds of an iteration: (of iLQR, of collocation on 20 intervals)."""
    from ocp.methods import make_options, method, uncertified
    from ocp.shooting import ilqr
    from ocp.shooting.options import Tuning

    problem = chain_problem(joints, folder)
    options = ilqr.ILQROptions(intervals=KNOTS, integrator="semi_implicit_euler", cost_quadrature="rectangle",
                               hessian="gauss_newton", max_iterations=ITERATIONS,
                               tuning=Tuning(retry="never", polish="never"))
    program = ilqr.prepare(method("ilqr").reduce(problem, options), options)
    ours, found = spent(lambda: ilqr.run(program))
    few = make_options("collocation", {"scheme": "radau", "intervals": 20, "guess": "given", "max_iterations": ITERATIONS})
    direct, solved = spent(lambda: uncertified(problem, "collocation", few))
    return ours / max(1, len(found.iterations) - 1), direct / max(1, len(solved.iterations) - 1)


def chain_by_crocoddyl(joints: int) -> float:
    """Processor seconds of an iteration of FDDP."""
    import crocoddyl
    import pinocchio as pin

    state = crocoddyl.StateMultibody(pin.buildModelFromXML(chain(joints)))
    actuation, dt = crocoddyl.ActuationModelFull(state), 1.0 / KNOTS
    goal = np.r_[np.full(joints, 0.3), np.zeros(joints)]

    def action(terms: list[tuple[Any, float]], length: float) -> Any:
        total = crocoddyl.CostModelSum(state, joints)
        for i, (residual, weight) in enumerate(terms):
            total.addCost(str(i), crocoddyl.CostModelResidual(state, *residual), weight)
        model = crocoddyl.DifferentialActionModelFreeFwdDynamics(state, actuation, total)
        return crocoddyl.IntegratedActionModelEuler(model, length)

    speeds = crocoddyl.ActivationModelWeightedQuad(np.r_[np.zeros(joints), np.ones(joints)])
    running = action([((crocoddyl.ResidualModelControl(state, joints),), 2.0),
                      ((speeds, crocoddyl.ResidualModelState(state, 0 * goal, joints)), 0.2)], dt)
    final = action([((crocoddyl.ResidualModelState(state, goal, joints),), 2e3)], 0.0)
    start = np.r_[np.full(joints, 0.1), np.zeros(joints)]
    problem = crocoddyl.ShootingProblem(start, [running] * KNOTS, final)
    problem.nthreads = 1  # threads that wait would count
    solver = crocoddyl.SolverFDDP(problem)
    solver.th_stop = 1e-300
    xs, us = [start] * (KNOTS + 1), problem.quasiStatic([start] * KNOTS)

    def solve() -> int:
        solver.solve(xs, us, ITERATIONS, False)
        return max(1, solver.iter)

    seconds, count = spent(solve)
    return seconds / count


# ------------------------------------------------------------------------------------------------ tables
def measure(peers: str | None) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []

    def add(series: str, size: int, source: str, seconds: float, note: str = "") -> None:
        rows.append({"series": series, "size": size, "source": source, "seconds": seconds, "note": note})
        print(series, size, source, f"{seconds:.4g} s", note, flush=True)

    def ours(series: str, size: int, source: str, solve: Any) -> None:
        seconds, found = spent(solve)
        add(series, size, source, seconds, f"{found.objective:.9g}, {'' if found.ok else 'not '}certified")

    def theirs(series: str, size: int, solve: Any) -> None:
        seconds, (objective, count) = spent(solve)
        add(series, size, "Opti, IPOPT", seconds, f"{objective:.9g}, {count} iterations")

    for n in PHASES:
        ours("phases", n, "collocation", hops(n))
        theirs("phases", n, lambda n=n: hops_by_opti(n))
    with tempfile.TemporaryDirectory() as folder:
        for n in JOINTS:
            if peers:
                command = [peers, __file__, "--crocoddyl", str(n)]
                told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
                add("joints", n, "Crocoddyl, FDDP", float(json.loads(told)), "an iteration")
            by_ilqr, direct = chain_seconds(n, Path(folder))
            add("joints", n, "iLQR", by_ilqr, "an iteration")
            add("joints", n, "collocation", direct, "an iteration, building included")
    for n in INTERVALS:
        ours("intervals", n, "collocation", cart_pole("collocation", n))
        ours("intervals", n, "iLQR", cart_pole("ilqr", n))
        theirs("intervals", n, lambda n=n: cart_pole_by_opti(n))
    return rows


def exponent(sizes: list[float], seconds: list[float]) -> float:
    """Of growth from the third-largest size to the largest."""
    return float(np.polyfit(np.log(sizes[-3:]), np.log(seconds[-3:]), 1)[0])


def write(rows: list[dict[str, Any]]) -> None:
    import matplotlib
    from result_tables import FOLDER, write_page, write_table

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    write_table(FOLDER / "growth_of_solves.csv", rows, digits=".4g")
    figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    lines = ["# Growth of solves", "", *(__doc__ or "").split("\n\n")[2].strip().splitlines(),
             "The exponent is of the last three sizes. Written by tests/benchmarks/growth_of_solves.py.", ""]
    for axis, name in zip(axes, SERIES, strict=True):
        own = [row for row in rows if row["series"] == name]
        sizes, sources = sorted({row["size"] for row in own}), list(dict.fromkeys(row["source"] for row in own))
        table = {(row["size"], row["source"]): float(row["seconds"]) for row in own}
        lines += ["", f"| {name} | " + " | ".join(f"{source} [s]" for source in sources) + " |", "|---:" * (len(sources) + 1) + "|",
                  *(f"| {n} | " + " | ".join(f"{table[n, source]:.3g}" for source in sources) + " |" for n in sizes),
                  "| exponent | " + " | ".join(f"{exponent(sizes, [table[n, s] for n in sizes]):.2f}" for s in sources) + " |"]
        for source in sources:
            axis.loglog(sizes, [table[n, source] for n in sizes], "o-", label=source)
        axis.set(xlabel=name, ylabel="processor time [s]" + (" of an iteration" if name == "joints" else ""))
        axis.set_xticks(sizes, sizes, fontsize="small")
        axis.minorticks_off()
        axis.grid(True, which="both", alpha=0.3)
        axis.legend()
    figure.savefig(FOLDER / "growth_of_solves.png", dpi=120)
    write_page(FOLDER / "growth_of_solves.md", [*lines, "", "![Growth](growth_of_solves.png)"])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peers", help="a Python with Crocoddyl")
    parser.add_argument("--crocoddyl", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.crocoddyl:
        print(json.dumps(chain_by_crocoddyl(given.crocoddyl)))
        return
    warnings.simplefilter("ignore")
    write(measure(given.peers))


if __name__ == "__main__":
    main()
