"""How RedMax's recursions and products grow with a chain, beside the dense equations: operations and times, and where they cross.

Writes results/benchmarks/redmax_growth.csv, .md and .png. Operations are instructions of scalar graphs, times the least of several
batches of the same graphs in CasADi's interpreter; the dense road is J from its own recursion, then ``J' M_m J`` and a Cholesky
solve by LAPACK. About three minutes.
"""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import casadi as ca
import matplotlib
from result_tables import FOLDER, write_table

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import cho_factor, cho_solve
from threadpoolctl import threadpool_limits

import dynamics
from dynamics.mechanism import Mechanism
from dynamics.model.synthetic import serial_chain
from dynamics.redmax.equations import body_inertias, body_wrenches
from dynamics.redmax.recursive import efforts, hybrid_dynamics, preconditioner, twist_drift, twists
from ocp.app.pipeline import processor

SIZES = (4, 8, 16, 32, 64, 128, 256)
CROSSING = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64)
BATCHES, SECONDS = 9, 0.02
TITLES = {"J x": "J x", "dJ/dt v": "dJ/dt v", "J' y": "J' y", "M^-1 x": "M⁻¹ x", "forward": "forward dynamics, recursive",
          "hybrid": "hybrid dynamics, every other joint prescribed", "crba": "forward dynamics, CRBA and Cholesky",
          "dense": "forward dynamics, J' M J and Cholesky"}


def least(run: Callable[[], object]) -> float:
    """Microseconds of one call: the least of batches of about SECONDS / BATCHES each."""
    run()
    begin = time.perf_counter()
    run()
    count = max(1, int(SECONDS / BATCHES / max(time.perf_counter() - begin, 1e-9)))
    found = []
    for _ in range(BATCHES):
        begin = time.thread_time()
        for _ in range(count):
            run()
        found.append((time.thread_time() - begin) / count)
    return min(found) * 1e6


def recursions(n: int) -> dict[str, ca.Function]:
    """The recursions of a chain of n links as functions of (q, v, x, y)."""
    model = serial_chain(n)
    symbols = [ca.SX.sym(name, size) for name, size in zip("qvxy", (n, n, n, 6 * n), strict=True)]
    q, v, x, y = symbols
    held = [body.joint.name for body in model.bodies[1::2]]
    values = {"J x": twists(model, q, x), "dJ/dt v": twist_drift(model, q, v), "J' y": efforts(model, q, y),
              "M^-1 x": preconditioner(model, q).times(x), "forward": hybrid_dynamics(model, q, v, x).a,
              "hybrid": hybrid_dynamics(model, q, v, x, held).a}
    return {name: ca.Function("f", symbols, [ca.cse(ca.densify(value))]) for name, value in values.items()}


def dense(n: int) -> tuple[Callable[..., np.ndarray], int]:
    """(q, v, tau) -> a by J, ``J' M_m J`` and Cholesky; and its operations, those of the products and of the solve as LAPACK's."""
    model = serial_chain(n)
    mechanism = Mechanism(model)
    q, v = ca.SX.sym("q", n), ca.SX.sym("v", n)
    J = ca.densify(ca.SX(ca.horzcat(*(twists(model, q, ca.DM.eye(n)[:, k]) for k in range(n)))))
    f_m, drift = body_wrenches(mechanism, q, twists(model, q, v), ca.DM(0, 1)).f, twist_drift(model, q, v)
    terms = ca.Function("terms", [q, v], ca.cse([J, ca.densify(f_m), ca.densify(drift)]))
    M_m = np.array(ca.densify(body_inertias(model)))
    blocks = np.array([M_m[6 * i:6 * i + 6, 6 * i:6 * i + 6] for i in range(n)])
    damping = np.concatenate([body.joint.damping or (0.0,) for body in model.bodies])
    armature = np.concatenate([body.joint.armature or (0.0,) for body in model.bodies])

    def accelerations(x: np.ndarray, w: np.ndarray, tau: np.ndarray) -> np.ndarray:
        J, f_m, drift = (np.asarray(part) for part in terms(x, w))
        MJ = np.einsum("nij,njk->nik", blocks, J.reshape(n, 6, n)).reshape(6 * n, n)
        M = J.T @ MJ + np.diag(armature)
        momentum = np.einsum("nij,nj->ni", blocks, drift.reshape(n, 6)).ravel()
        return cho_solve(cho_factor(M), tau - damping * w + J.T @ (f_m.ravel() - momentum))

    return accelerations, terms.n_instructions() + 36 * n * n + 6 * n * n * (n + 1) + n**3 // 3 + 2 * n * n + 12 * n * n


def composite(n: int) -> tuple[Callable[..., np.ndarray], int]:
    """The same by the composite-rigid-body algorithm, the bias by Newton and Euler's recursion, and Cholesky."""
    model = serial_chain(n)
    q, v = ca.SX.sym("q", n), ca.SX.sym("v", n)
    parts = [dynamics.make(model, "mass_matrix")(q), dynamics.make(model, "inverse_dynamics")(q, v, ca.DM.zeros(n))]
    terms = ca.Function("terms", [q, v], ca.cse([ca.densify(part) for part in parts]))

    def accelerations(x: np.ndarray, w: np.ndarray, tau: np.ndarray) -> np.ndarray:
        M, bias = (np.asarray(part) for part in terms(x, w))
        return cho_solve(cho_factor(M), tau - bias.ravel())

    return accelerations, terms.n_instructions() + n**3 // 3 + 2 * n * n


def measured() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    rng = np.random.default_rng(0)
    for n in sorted({*SIZES, *CROSSING}):
        at = [rng.uniform(-1, 1, size) for size in (n, n, n, 6 * n)]
        functions = recursions(n)
        for name, (accelerations, count) in {"dense": dense(n), "crba": composite(n)}.items():
            np.testing.assert_allclose(accelerations(*at[:3]), np.array(functions["forward"](*at)).ravel(), rtol=1e-5, atol=1e-5)
            rows.append({"n": n, "what": name, "operations": count, "microseconds": least(partial(accelerations, *at[:3]))})
        for name, f in functions.items():
            buffer, trigger = f.buffer()
            value, inputs = np.zeros(f.numel_out(0)), [np.ascontiguousarray(x) for x in at]
            for k, x in enumerate(inputs):
                buffer.set_arg(k, memoryview(x))
            buffer.set_res(0, memoryview(value))
            rows.append({"n": n, "what": name, "operations": f.n_instructions(), "microseconds": least(trigger)})
        print(n, {r["what"]: round(float(r["microseconds"]), 1) for r in rows[-8:]}, flush=True)
    return rows


def slope(rows: list[dict[str, Any]], what: str, key: str, first: int = 16) -> float:
    picked = [(float(r["n"]), float(r[key])) for r in rows if r["what"] == what and float(r["n"]) >= first]
    x, y = np.log(np.array(picked)).T
    return float(np.polyfit(x, y, 1)[0])


def crossing(rows: list[dict[str, Any]], key: str, rival: str) -> float:
    """Links at which recursive forward dynamics become cheaper for good, between sizes by straight lines in logarithms."""
    by = {what: {int(r["n"]): float(r[key]) for r in rows if r["what"] == what} for what in ("forward", rival)}
    sizes = sorted(by["forward"])
    gap = np.log([by["forward"][n] / by[rival][n] for n in sizes])
    last = max((i for i, g in enumerate(gap) if g > 0), default=-1)
    if last < 0:
        return float(sizes[0])
    if last + 1 == len(sizes):
        return float("inf")
    share = gap[last] / (gap[last] - gap[last + 1])
    return float(np.exp(np.log(sizes[last]) + share * np.log(sizes[last + 1] / sizes[last])))


def page(rows: list[dict[str, Any]]) -> str:
    value = {(int(r["n"]), r["what"]): r for r in rows}
    text = (f"{processor()}; casadi {ca.__version__}, one thread, other programs at work beside it. Chains of revolute joints, "
            "axes turned from link to link. Operations: instructions of the scalar graph, for the dense roads with those of full "
            "matrix products and of Cholesky's factorisation as LAPACK does them. Times: the least of nine batches; graphs in "
            "CasADi's interpreter, recursions on fixed memory, dense roads called from Python with products by BLAS. Written by "
            "tests/benchmarks/redmax_growth.py; all rows are in redmax_growth.csv.")
    lines = ["# Growth of RedMax's recursions", "", textwrap.fill(text, 130), "", "![growth](redmax_growth.png)", ""]
    for key, title in (("operations", "Operations"), ("microseconds", "Time [µs]")):
        lines += [f"## {title}", "", "| links | " + " | ".join(TITLES.values()) + " |", "|---:|" + "---:|" * len(TITLES)]
        for n in SIZES:
            cells = [f"{float(value[n, what][key]):.0f}" if key == "operations" else f"{float(value[n, what][key]):.3g}"
                     for what in TITLES]
            lines.append(f"| {n} | " + " | ".join(cells) + " |")
        slopes = [f"{slope(rows, what, key):.2f}" for what in TITLES]
        lines += ["| exponent from 16 on | " + " | ".join(slopes) + " |", ""]
    cross = {(key, rival): f"{crossing(rows, key, rival):.1f}"
             for key in ("operations", "microseconds") for rival in ("dense", "crba")}
    said = ("Operations and times of every recursion and product grow with the first power of the length; the dense roads with the "
            "third in the end. In operations recursive forward dynamics are the cheaper ones "
            f"from {cross['operations', 'dense']} links on beside J' M J, which the document writes, and from "
            f"{cross['operations', 'crba']} links on beside the composite-rigid-body algorithm, which forms the same matrix in the "
            f"second power. By the clock they lead from {cross['microseconds', 'dense']} and {cross['microseconds', 'crba']} links "
            "on: calls from Python and conversions cost the dense roads some tens of microseconds whatever the length, so that "
            "crossings by the clock say more about the surroundings than about the algorithms. "
            "Jumps of the dense times are those of BLAS and of a machine that others use, too.")
    return "\n".join([*lines, "## What it says", "", textwrap.fill(said, 130), ""])


def figure(rows: list[dict[str, Any]], place: Path) -> None:
    fig, axes = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    for ax, key, title in zip(axes, ("operations", "microseconds"), ("operations", "time [µs]"), strict=True):
        for k, (what, label) in enumerate(TITLES.items()):
            x, y = np.array(sorted((int(r["n"]), float(r[key])) for r in rows if r["what"] == what)).T
            ax.loglog(x, y, {"dense": "k--", "crba": "k:"}.get(what, "-"), marker="osv^Dx.+"[k], ms=4, lw=1.3, label=label)
        for rival in ("crba", "dense"):
            ax.axvline(crossing(rows, key, rival), color="0.6", lw=0.8, ls=":")
        ax.set(xlabel="links", title=title)
        ax.grid(alpha=0.3)
    axes[0].legend(fontsize=8)
    fig.savefig(place, dpi=110)


def main() -> None:
    with threadpool_limits(1):
        rows = measured()
    write_table(FOLDER / "redmax_growth.csv", rows, ["n", "what", "operations", "microseconds"])
    (FOLDER / "redmax_growth.md").write_text(page(rows), encoding="utf-8")
    figure(rows, FOLDER / "redmax_growth.png")


if __name__ == "__main__":
    main()
