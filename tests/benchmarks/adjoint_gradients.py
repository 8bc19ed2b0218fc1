"""One gradient of a simulation of implicit steps: by adjoints, forward sensitivities, differences, over numbers of parameters.

    python tests/benchmarks/adjoint_gradients.py

A chain of revolute joints with a spring at every joint hangs under gravity; the objective is the square of its
coordinates at the end of steps of BDF1. Parameters are stiffnesses of springs. All roads share the kernels and the simulation of
``dynamics.redmax``. Writes results/benchmarks/adjoint_gradients.{md,csv,png}.
"""

from __future__ import annotations

import statistics
import time

import casadi as ca
import matplotlib as mpl
import numpy as np
from result_tables import FOLDER, write_table

from dynamics.forces import JointDamper, JointSpring
from dynamics.mechanism import Mechanism, direct_motors
from dynamics.model.synthetic import serial_chain
from dynamics.redmax.adjoint import Objective, gradient, value
from dynamics.redmax.implicit import simulate, system
from dynamics.redmax.parameters import ForceField

REPEATS = 3


def chain(joints: int, count: int):
    """A system with ``count`` free stiffnesses, and the objective."""
    model = serial_chain(joints)
    names = [body.joint.name for body in model.bodies]
    springs = [JointSpring(f"spring {i}", names[i % joints], 2.0 + 0.1 * i) for i in range(count)]
    dampers = [JointDamper(f"damper {i}", name, 0.2) for i, name in enumerate(names)]
    mechanism = Mechanism(model, direct_motors(model), forces=(*springs, *dampers))
    made = system(mechanism, [ForceField(spring.name, "k") for spring in springs])
    q, v, p = ca.SX.sym("q", joints), ca.SX.sym("v", joints), ca.SX.sym("p", count)
    return made, Objective(final=ca.Function("goal", [q, v, p], [ca.sumsqr(q) + 0.1 * ca.sumsqr(v)]))


def forward(made, objective, run):
    """dJ/dp by sensitivities of all nodes, one linear system with np right-hand sides a step; of BDF1."""
    n, np_ = run.q.shape[1], len(run.p)
    q_p, v_p = np.zeros((n, np_)), np.zeros((n, np_))
    for k, solve in enumerate(run.solves):
        h, node = run.h, run.nodes[k + 1]
        _, r_q, r_v, M = made.linearised(node, run.u[solve.step], run.p)
        r_p = np.column_stack([np.ravel(made.vjp(*node, run.u[solve.step], run.p, one)[1]) for one in np.eye(n)]).T
        right = (M + h * r_v) @ q_p + h * M @ v_p - h**2 * r_p
        new = np.linalg.solve(M + h * r_v + h**2 * r_q, right)
        q_p, v_p = new, (new - q_p) / h
    q, v, p = (ca.SX.sym("s", len(x)) for x in (run.q[-1], run.v[-1], run.p))
    by = ca.Function("by", [q, v, p], [ca.gradient(objective.final(q, v, p), s) for s in (q, v)])(run.q[-1], run.v[-1], run.p)
    return np.ravel(by[0]) @ q_p + np.ravel(by[1]) @ v_p


def differences(made, objective, start, h, steps, p):
    found = []
    for i in range(len(p)):
        step = 1e-6 * np.eye(len(p))[i]
        ends = [value(objective, simulate(made, "bdf1", start, h, steps, p=p + sign * step)) for sign in (1, -1)]
        found.append((ends[0] - ends[1]) / 2e-6)
    return np.array(found)


def timed(call):
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - began)
    return statistics.median(times), result


def over_parameters(joints: int = 5, steps: int = 200, h: float = 5e-3):
    for count in (1, 2, 5, 10, 20, 50, 100):
        made, objective = chain(joints, count)
        start = (np.full(joints, 0.3), np.zeros(joints))
        simulated, run = timed(lambda: simulate(made, "bdf1", start, h, steps))  # noqa: B023
        by_adjoint, one = timed(lambda: gradient(made, objective, run).p)  # noqa: B023
        by_forward, two = timed(lambda: forward(made, objective, run))  # noqa: B023
        began = time.perf_counter()
        three = differences(made, objective, start, h, steps, made.nominal)
        by_differences = time.perf_counter() - began
        size = np.abs(one).max()
        yield {"parameters": count, "simulation_s": simulated, "adjoint": by_adjoint / simulated, "forward": by_forward / simulated,
               "differences": by_differences / simulated, "forward_error": np.abs(two - one).max() / size,
               "difference_error": np.abs(three - one).max() / size}


def long_chain(count: int, joints: int = 20, steps: int = 1000):
    made, objective = chain(joints, count)
    start = (np.full(joints, 0.1), np.zeros(joints))
    simulated, run = timed(lambda: simulate(made, "bdf1", start, 1e-3, steps))
    return simulated, timed(lambda: gradient(made, objective, run))[0]


def main() -> None:
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    rows = list(over_parameters())
    (plain, torques), (simulated, swept) = long_chain(0), long_chain(20)
    write_table(FOLDER / "adjoint_gradients.csv", rows)
    lines = ["# Gradients of implicit simulations", "",
             "Cost of one gradient over the cost of the simulation itself; chain of 5 revolute joints, 200 steps of BDF1,",
             f"stiffnesses of springs as parameters; medians of {REPEATS} (differences: one). Errors: largest difference from the",
             "adjoint gradient over its largest entry.", "",
             "| parameters | adjoint | forward | differences | forward error | difference error |", "|---|---|---|---|---|---|"]
    lines += [f"| {r['parameters']} | {r['adjoint']:.2f} | {r['forward']:.2f} | {r['differences']:.1f} | "
              f"{r['forward_error']:.1e} | {r['difference_error']:.1e} |" for r in rows]
    lines += ["", f"A gradient over 1000 steps of a chain of 20 joints: by its 20000 torques {torques / plain:.2f} of the "
              f"simulation ({torques:.2f} s and {plain:.2f} s), by these and 20 free stiffnesses "
              f"{swept / simulated:.2f} ({swept:.2f} s and {simulated:.2f} s).", "",
              "Up to a hundred parameters forward sensitivities cost little more than adjoints: one factor of the matrix of a step",
              "serves all right-hand sides, and the simulation, with its calls from Python, takes most of the time. They take a",
              "row of r_p for every joint from the kernel of adjoint products: a part that parameters do not change.", "",
              "![cost](adjoint_gradients.png)", ""]
    (FOLDER / "adjoint_gradients.md").write_text("\n".join(lines))
    figure, axes = plt.subplots(figsize=(6, 4))
    for name in ("adjoint", "forward", "differences"):
        axes.loglog([r["parameters"] for r in rows], [r[name] for r in rows], "o-", label=name)
    axes.set_xlabel("parameters")
    axes.set_ylabel("gradient / simulation")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(FOLDER / "adjoint_gradients.png", dpi=120)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
