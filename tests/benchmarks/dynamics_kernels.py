"""Rigid-body algorithms beside Pinocchio, like with like: both called from Python, and both repeated inside compiled code.

    pip install "lieocp[robots,peers]" && python tests/benchmarks/dynamics_kernels.py

From Python: one call on NumPy arrays, ours and Pinocchio's bindings. By address: our kernel and our loops from a compiled loop, as
solvers call them, Pinocchio header-only in a loop of C++ (g++ -O3 -march=native). All executions of one function take turns, batch
by batch; each figure is the median of processor time, each ratio that of the medians. Writes
results/benchmarks/dynamics_kernels.csv and .md.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import casadi as ca
import numpy as np
import pinocchio as pin
from result_tables import FOLDER, write_page, write_table

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support"), str(ROOT / "tests" / "benchmarks")]

from pinocchio_cpp import PinocchioCpp  # noqa: E402
from timing import default_execution, from_python, kernel_run, loop_runs, measure, spread  # noqa: E402
from urdf_twin import UrdfTwin  # noqa: E402

import dynamics  # noqa: E402  # the repository's own packages need the path above
from dynamics import algorithms as alg  # noqa: E402
from dynamics.derivatives import forward_dynamics_derivatives, inverse_dynamics_derivatives  # noqa: E402
from dynamics.kernels import compile_kernel  # noqa: E402
from dynamics.loops import LoopDynamics  # noqa: E402
from dynamics.model.robots import find_robot  # noqa: E402
from ocp.app.pipeline import processor  # noqa: E402

ROBOTS = {"UR5": ("ur5_robot", "fixed"), "Panda": ("panda", "fixed"), "HyQ": ("hyq_no_sensors", "free_flyer"),
          "Talos": ("talos_full_v2", "free_flyer")}
LARGEST = 75_000  # instructions; beyond, the C compiler takes minutes
# title here -> (title of the loop, name in the C++ harness)
PEERS = {"RNEA": ("RNEA", "rnea"), "ABA": ("forward dynamics", "aba"), "CRBA": ("CRBA", "crba"),
         "ID first order": ("ID first order", "rnea_derivatives"), "FD first order": ("FD first order", "aba_derivatives")}


def cases(twin: UrdfTwin):
    """(title, our function, its inputs, our loops called from Python, Pinocchio called from Python)."""
    rng, model, other, data = np.random.default_rng(0), twin.ours, twin.theirs, twin.data
    face = LoopDynamics(model)
    q = alg.random_configuration(model, rng)
    v, a = rng.standard_normal((2, model.nv))
    tau = face.inverse_dynamics(q, v, a)
    x, vv, aa, tt = twin.configuration(q), twin.velocity(v), twin.velocity(a), twin.velocity(tau)
    yield ("RNEA", dynamics.make(model, "inverse_dynamics"), (q, v, a), lambda: face.inverse_dynamics(q, v, a),
           lambda: pin.rnea(other, data, x, vv, aa))
    yield ("ABA", dynamics.make(model, "forward_dynamics"), (q, v, tau), lambda: face.forward_dynamics(q, v, tau),
           lambda: pin.aba(other, data, x, vv, tt))
    yield "CRBA", dynamics.make(model, "mass_matrix"), (q,), lambda: face.mass_matrix(q), lambda: pin.crba(other, data, x)
    yield ("ID first order", inverse_dynamics_derivatives(model, "analytic"), (q, v, a),
           lambda: face.inverse_dynamics_derivatives(q, v, a), lambda: pin.computeRNEADerivatives(other, data, x, vv, aa))
    yield ("FD first order", forward_dynamics_derivatives(model, "analytic"), (q, v, tau),
           lambda: face.forward_dynamics_derivatives(q, v, tau), lambda: pin.computeABADerivatives(other, data, x, vv, tt))


def undamped(twin: UrdfTwin) -> UrdfTwin:
    """The same without joint damping, which Pinocchio's algorithms leave out."""
    bodies = tuple(replace(body, joint=replace(body.joint, damping=())) for body in twin.ours.bodies)
    twin.ours = replace(twin.ours, bodies=bodies)
    return twin


def check(ours, theirs, what) -> None:
    """Refuse to time two things that do not compute the same."""
    ours, theirs = np.asarray(ours, float), np.asarray(theirs, float)
    gap = np.abs(ours - theirs).max() / max(1.0, np.abs(theirs).max())
    if ours.shape != theirs.shape or not gap < 1e-8:
        raise AssertionError((what, ours.shape, theirs.shape, gap))


def rows_of(name: str) -> list[dict]:
    """One row for each function of one robot."""
    file, root = ROBOTS[name]
    twin = undamped(UrdfTwin(find_robot(file), root))
    model, cpp, rows = twin.ours, PinocchioCpp(twin.ours), []
    for title, function, inputs, loops, theirs in cases(twin):
        loop_title, peer = PEERS[title]
        q, v, x = inputs if len(inputs) == 3 else (inputs[0], np.zeros(model.nv), np.zeros(model.nv))
        answer, reference = loops(), cpp.values(peer, q, v, x)
        check(answer[1] if title == "FD first order" else answer, reference, (name, title))
        runs = {"python pinocchio": from_python(theirs), "python loops": from_python(loops),
                "address pinocchio": cpp.runner(peer, q, v, x),
                "address loops": loop_runs(LoopDynamics(model), q, v, x, x, v)[loop_title]}
        if function.n_instructions() <= LARGEST:
            compiled = compile_kernel(function, "compiled")
            values = compiled(*inputs)
            blocks = values if isinstance(values, tuple) else (values,)
            check(np.stack(blocks[-3:]) if title.endswith("first order") else blocks[0], reference, (name, title, "kernel"))
            runs["python kernel"] = from_python(lambda k=compiled, i=inputs: k(*i))
            runs["address kernel"] = kernel_run(compiled, inputs)
        times = dict(zip(runs, measure(*runs.values()), strict=True))
        row = {"robot": name, "nv": model.nv, "function": title, "instructions": function.n_instructions(),
               "default": default_execution(model)}
        for run in ("python pinocchio", "python kernel", "python loops", "address pinocchio", "address kernel", "address loops"):
            row[f"{run} us"] = float(np.median(times[run])) if run in times else float("nan")
        row["spread"] = max(spread(t) for t in times.values())
        rows.append(row)
        print("  ".join(f"{k} {v:.3g}" if isinstance(v, float) else str(v) for k, v in row.items()), flush=True)
    return rows


def page(rows: list[dict]) -> list[str]:
    lines = [
        "# Rigid-body kernels beside Pinocchio", "",
        f"{processor()}; casadi {ca.__version__}, pin {pin.__version__}, one thread. Median processor microseconds per call at one",
        "random state, on a machine in use; all executions of a function in turns, batch by batch; quartile distance over median",
        f"at most {max(r['spread'] for r in rows):.0%}.",
        "Kernel: code generated from our closed forms, compiled as shipped. Loops: our Numba loops, one binary for all robots.",
        "Ratios below 1: we are faster; **lost**: slower than Pinocchio. Bold: the execution that is the default, from Python",
        "`compile_kernel`, inside solvers what `execution: auto` takes for the dynamics of this robot. Kernels above "
        f"{LARGEST // 1000}k instructions are not compiled. Written by tests/benchmarks/dynamics_kernels.py.", "",
        "## From Python against Pinocchio from Python", "",
        "| robot (nv) | function | Pinocchio | **kernel** | loops | kernel / Pinocchio | loops / Pinocchio |", "|---" * 7 + "|",
    ]
    for r in rows:
        lines.append(f"| {r['robot']} ({r['nv']}) | {r['function']} | {_cells(r, 'python')} |")
    lines += ["", "## By address against Pinocchio's C++", "", "The default is named in the last column.", "",
              "| robot (nv) | function | Pinocchio C++ | kernel | loops | kernel / C++ | loops / C++ | default |", "|---" * 8 + "|"]
    for r in rows:
        lines.append(f"| {r['robot']} ({r['nv']}) | {r['function']} | {_cells(r, 'address')} | {r['default']} |")
    return lines


def _cells(row: dict, road: str) -> str:
    times = [_us(row[f"{road} {who} us"]) for who in ("pinocchio", "kernel", "loops")]
    return " | ".join([*times, _ratio(row, road, "kernel"), _ratio(row, road, "loops")])


def _us(value: float) -> str:
    return "–" if value != value else f"{value:.2f}"


def _ratio(row: dict, road: str, execution: str) -> str:
    ratio = row[f"{road} {execution} us"] / row[f"{road} pinocchio us"]
    return "–" if ratio != ratio else f"{ratio:.2f}{' **lost**' if ratio > 1 else ''}"


def main(names: list[str]) -> None:
    rows = [row for name in names or ROBOTS for row in rows_of(name)]
    if names:
        return
    write_table(FOLDER / "dynamics_kernels.csv", rows, digits=".4g")
    write_page(FOLDER / "dynamics_kernels.md", page(rows))


if __name__ == "__main__":
    main(sys.argv[1:])
