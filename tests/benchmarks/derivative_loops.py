"""Dynamics and derivatives by compiled loops over the Model beside Pinocchio's C++, in one process and on one thread.

    pip install "lieocp[robots,peers]" && python tests/benchmarks/derivative_loops.py

Median processor microseconds per call. Pinocchio is called from Python; "loop" is our function called from a compiled loop, as
solvers call it; "Python" is the same through LoopDynamics with a preallocated result. What entering Pinocchio from Python costs is
estimated by its cheapest call (the gravity torque of a pendulum) and reported, so that ratios can be judged. Writes
results/benchmarks/derivative_loops.csv and .md.
"""

from __future__ import annotations

import csv
import statistics
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pinocchio as pin

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support"), str(ROOT / "tests" / "benchmarks")]

from timing import batches, from_python, loop_runs  # noqa: E402
from urdf_twin import UrdfTwin  # noqa: E402

from dynamics import algorithms as alg  # noqa: E402  # the repository's own packages need the path above
from dynamics.loops import LoopDynamics  # noqa: E402
from dynamics.model.robots import find_robot  # noqa: E402
from ocp.app.pipeline import processor  # noqa: E402

ROBOTS = {"panda": "fixed", "hyq_no_sensors": "free_flyer", "talos_full_v2": "free_flyer"}


def cases(twin):
    """(title, our compiled loop as run(count), our call from Python, Pinocchio's call or None, what that call is)."""
    rng = np.random.default_rng(0)
    model, other, data, n = twin.ours, twin.theirs, twin.data, twin.ours.nv
    face = LoopDynamics(model)
    q = alg.random_configuration(model, rng)
    v, a, lam = rng.standard_normal((3, n))
    tau = face.inverse_dynamics(q, v, a)
    x, vv, aa, tt = twin.configuration(q), twin.velocity(v), twin.velocity(a), twin.velocity(tau)
    square, first, second, tensor = np.zeros((n, n)), np.zeros((3, n, n)), np.zeros((4, n, n)), np.zeros((n, 4, n, n))
    out = np.zeros(n)
    python = {
        "RNEA": lambda: face.inverse_dynamics(q, v, a, out=out), "CRBA": lambda: face.mass_matrix(q, square),
        "forward dynamics": lambda: face.forward_dynamics(q, v, tau, out=out),
        "ID first order": lambda: face.inverse_dynamics_derivatives(q, v, a, out=first),
        "FD first order": lambda: face.forward_dynamics_derivatives(q, v, tau),
        "ID contracted second order": lambda: face.contracted_second_order(q, v, a, lam, out=second),
        "ID second-order tensors": lambda: face.second_order(q, v, a, out=tensor),
        "FD contracted second order": lambda: face.forward_contracted_second_order(q, v, tau, lam)}
    rnea_derivatives = (lambda: pin.computeRNEADerivatives(other, data, x, vv, aa)), "computeRNEADerivatives"
    aba_derivatives = (lambda: pin.computeABADerivatives(other, data, x, vv, tt)), "computeABADerivatives"
    theirs = {
        "RNEA": ((lambda: pin.rnea(other, data, x, vv, aa)), "rnea"), "CRBA": ((lambda: pin.crba(other, data, x)), "crba"),
        "forward dynamics": ((lambda: pin.aba(other, data, x, vv, tt)), "aba"),
        "ID first order": rnea_derivatives, "FD first order": aba_derivatives, "ID contracted second order": rnea_derivatives,
        "ID second-order tensors": rnea_derivatives, "FD contracted second order": aba_derivatives}
    for title, run in loop_runs(face, q, v, a, tau, lam).items():
        yield title, run, python[title], *theirs[title]


def latency() -> tuple[float, float]:
    """Seconds in a new process, everything cached: import of the loops, then the first contracted Hessian and FD derivatives."""
    code = ("import time; t = time.perf_counter()\nimport numpy as np\nfrom dynamics.loops import LoopDynamics\n"
            "from dynamics.model.synthetic import serial_chain\ns = time.perf_counter()\nf = LoopDynamics(serial_chain(12))\n"
            "x = np.zeros(12)\nf.contracted_second_order(x, x, x, x)\nf.forward_dynamics_derivatives(x, x, x)\n"
            "print(s - t, time.perf_counter() - s)")
    runs = [[float(x) for x in subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True,
                                              check=True).stdout.split()] for _ in range(4)]
    return statistics.median(r[0] for r in runs[1:]), statistics.median(r[1] for r in runs[1:])


def entry() -> float:
    pendulum = pin.Model()
    pendulum.addJoint(0, pin.JointModelRX(), pin.SE3.Identity(), "j")
    data, q = pendulum.createData(), np.zeros(1)
    return batches(from_python(lambda: pin.computeGeneralizedGravity(pendulum, data, q)))[0]


def main() -> None:
    rows, enter = [], entry()
    for name, root in ROBOTS.items():
        twin = UrdfTwin(find_robot(name), root)
        for title, run, python, theirs, their_name in cases(twin):
            loop_us, python_us, pinocchio_us = batches(run, from_python(python), from_python(theirs))
            row = {"robot": name, "nv": twin.ours.nv, "function": title, "loop_us": loop_us, "python_us": python_us,
                   "pinocchio_function": their_name, "pinocchio_us": pinocchio_us}
            row["ratio"] = row["loop_us"] / row["pinocchio_us"]
            row["ratio_net"] = row["loop_us"] / (row["pinocchio_us"] - enter)
            row["ratio_python"] = row["python_us"] / row["pinocchio_us"]
            rows.append(row)
            print(f"{name:<16} {title:<28} loop {row['loop_us']:8.2f}  Python {row['python_us']:8.2f}  Pinocchio "
                  f"{row['pinocchio_us']:8.2f} us ({their_name})  ratio {row['ratio']:.2f}", flush=True)
    write(rows, enter, *latency())


def write(rows, enter, loading, first) -> None:
    folder = ROOT / "results" / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "derivative_loops.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows({k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)
    lines = [
        "# Compiled loops over the Model beside Pinocchio", "",
        f"{processor()}; numba {numba.__version__}, pin {pin.__version__}, "
        "one thread. Median processor time per call in microseconds. Loop: our",
        "function called from a compiled loop, as the solvers call it. Python: the same through `LoopDynamics`, result",
        "preallocated where it takes one. Pinocchio: called from Python, in the wheel's build; where it has no such function in",
        "Python the one named is only a yardstick. Ratio: loop / Pinocchio; net: with the",
        f"{enter:.2f} us that entering Pinocchio from Python costs taken off its time. Below 1 we are faster.",
        f"A new process with everything in Numba's cache: import {loading:.2f} s, then {first:.2f} s to the first contracted",
        "Hessian and forward-dynamics derivatives of a robot not seen before. Written by tests/benchmarks/derivative_loops.py.", "",
        "| robot (nv) | function | loop | Python | Pinocchio | its function | ratio | net | Python / Pinocchio |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [f"| {r['robot']} ({r['nv']}) | {r['function']} | {r['loop_us']:.2f} | {r['python_us']:.2f} | "
              f"{r['pinocchio_us']:.2f} | {r['pinocchio_function']} | {r['ratio']:.2f} | {r['ratio_net']:.2f} | "
              f"{r['ratio_python']:.2f} |" for r in rows]
    (folder / "derivative_loops.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
