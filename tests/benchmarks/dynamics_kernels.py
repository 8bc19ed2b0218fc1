"""Rigid-body algorithms: ours compiled and interpreted beside Pinocchio, called from Python, in one process.

    pip install "lieocp[robots,peers]" && python tests/benchmarks/dynamics_kernels.py

Each figure is the median over repeated batches of the time per call in microseconds. "by address" is our compiled kernel called
from a compiled loop, as the solvers call it; everything else is one call from Python on NumPy arrays. Writes
results/benchmarks/dynamics_kernels.csv and .md.
"""

from __future__ import annotations

import csv
import statistics
import sys
import time
from pathlib import Path

import casadi as ca
import numpy as np
import pinocchio as pin
from numba import njit

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from urdf_twin import UrdfTwin  # noqa: E402

import dynamics  # noqa: E402  # the repository's own packages need the path above
from dynamics import algorithms as alg  # noqa: E402
from dynamics.derivatives import forward_dynamics_derivatives, inverse_dynamics_derivatives  # noqa: E402
from dynamics.kernels import compile_kernel, workspace  # noqa: E402
from dynamics.kernels.calls import call  # noqa: E402
from dynamics.model.robots import find_robot  # noqa: E402
from ocp.app.pipeline import processor  # noqa: E402

ROBOTS = {"panda": ("arm", "fixed"), "hyq_no_sensors": ("quadruped", "free_flyer"), "talos_full_v2": ("humanoid", "free_flyer")}
BATCHES, SECONDS = 15, 0.01


def per_call(function) -> float:
    """Median time of one call over batches that each last about SECONDS, in microseconds."""
    function()
    begin, count = time.perf_counter(), 0
    while time.perf_counter() - begin < SECONDS:
        function()
        count += 1
    times = []
    for _ in range(BATCHES):
        begin = time.perf_counter()
        for _ in range(count):
            function()
        times.append((time.perf_counter() - begin) / count * 1e6)
    return statistics.median(times)


@njit
def loop(address, handle, arg, res, iw, w, count):
    for _ in range(count):
        call(address, handle, arg, res, iw, w)


def by_address(kernel, inputs) -> float:
    space = workspace(kernel)
    arrays = [np.ascontiguousarray(x, float) for x in inputs]
    outputs = [np.zeros(rows * columns) for rows, columns in kernel.output_shapes]
    space.arg[: len(arrays)] = [a.ctypes.data for a in arrays]
    space.res[: len(outputs)] = [o.ctypes.data for o in outputs]
    loop(space.address, space.handle, space.arg, space.res, space.iw, space.w, 1)
    count = 2000
    times = []
    for _ in range(BATCHES):
        begin = time.perf_counter()
        loop(space.address, space.handle, space.arg, space.res, space.iw, space.w, count)
        times.append((time.perf_counter() - begin) / count * 1e6)
    return statistics.median(times)


def cases(twin):
    """(name, our function, our inputs, their call)."""
    rng = np.random.default_rng(0)
    model, other, data = twin.ours, twin.theirs, twin.data
    q = alg.random_configuration(model, rng)
    v, a = rng.standard_normal(model.nv), rng.standard_normal(model.nv)
    tau = np.array(dynamics.make(model, "inverse_dynamics")(q, v, a)).ravel()
    x, vv, aa, tt = twin.configuration(q), twin.velocity(v), twin.velocity(a), twin.velocity(tau)
    yield "RNEA", dynamics.make(model, "inverse_dynamics"), (q, v, a), lambda: pin.rnea(other, data, x, vv, aa)
    yield "ABA", dynamics.make(model, "forward_dynamics"), (q, v, tau), lambda: pin.aba(other, data, x, vv, tt)
    yield "CRBA", dynamics.make(model, "mass_matrix"), (q,), lambda: pin.crba(other, data, x)
    for source in ("ad", "analytic"):
        yield (f"RNEA derivatives, {source}", inverse_dynamics_derivatives(model, source), (q, v, a),
               lambda: pin.computeRNEADerivatives(other, data, x, vv, aa))
    yield ("ABA derivatives, ad", forward_dynamics_derivatives(model), (q, v, tau),
           lambda: pin.computeABADerivatives(other, data, x, vv, tt))


def main() -> None:
    rows = []
    for name, (kind, root) in ROBOTS.items():
        twin = UrdfTwin(find_robot(name), root)
        for title, function, inputs, theirs in cases(twin):
            begin = time.perf_counter()
            compiled = compile_kernel(function, "compiled")
            ready = time.perf_counter() - begin
            interpreted = compile_kernel(function, "interpreted")
            row = {
                "robot": name, "kind": kind, "nv": twin.ours.nv, "function": title,
                "instructions": function.n_instructions(), "pinocchio_us": per_call(theirs),
                "compiled_us": per_call(lambda k=compiled, i=inputs: k(*i)), "by_address_us": by_address(compiled, inputs),
                "interpreted_us": per_call(lambda k=interpreted, i=inputs: k(*i)), "compile_s": compiled.compile_seconds,
                "load_s": ready if compiled.cache_hit else float("nan"),
            }
            row["ratio_compiled"] = row["compiled_us"] / row["pinocchio_us"]
            row["ratio_by_address"] = row["by_address_us"] / row["pinocchio_us"]
            rows.append(row)
            print(f"{name:<16} {title:<26} pinocchio {row['pinocchio_us']:8.2f}  compiled {row['compiled_us']:8.2f}  "
                  f"by address {row['by_address_us']:8.2f}  interpreted {row['interpreted_us']:8.2f} us", flush=True)
    write(rows)


def write(rows) -> None:
    folder = ROOT / "results" / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "dynamics_kernels.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows({k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)
    lines = [
        "# Rigid-body kernels beside Pinocchio", "",
        f"{processor()}; casadi {ca.__version__}, pin {pin.__version__}, one thread. Median microseconds per call. Pinocchio,",
        "compiled and interpreted are called from Python; by address is our compiled kernel in a compiled loop. The last two",
        "columns are ratios to Pinocchio called from Python: below 1 we are faster. Written by",
        "tests/benchmarks/dynamics_kernels.py.",
        "", "| robot (nv) | function | instructions | Pinocchio | compiled | by address | interpreted | compile s | compiled / "
        "Pinocchio | by address / Pinocchio |", "|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [f"| {r['robot']} ({r['nv']}) | {r['function']} | {r['instructions']} | {r['pinocchio_us']:.2f} | "
              f"{r['compiled_us']:.2f} | {r['by_address_us']:.2f} | {r['interpreted_us']:.2f} | "
              f"{r['compile_s']:.1f} | {r['ratio_compiled']:.2f} | {r['ratio_by_address']:.2f} |" for r in rows]
    (folder / "dynamics_kernels.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
