"""Inverse dynamics and its first and second derivatives beside Pinocchio's C++: what Fig. 4 of Singh, Russell and Wensing (2022)
shows, on this machine, with our loops and generated code.

    pip install "lieocp[robots,peers]" cmeel-eigen && python tests/benchmarks/second_order.py [robot ...]

One process, one thread. Every execution repeats itself in compiled code: Pinocchio in C++ (header-only, native instructions),
our loops in a compiled loop, our kernels by address in a compiled loop. All executions of one robot take turns, batch by batch.
Writes results/benchmarks/second_order.csv, .md and second_order_fig4.png; with robots named, prints only; ``--pages`` writes page
and figure again from second_order.csv and measures nothing.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import casadi as ca
import numpy as np
from result_tables import FOLDER

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support"), str(ROOT / "tests" / "benchmarks")]

from loop_references import hessians  # noqa: E402
from pinocchio_cpp import PinocchioCpp  # noqa: E402
from second_order_pages import read, write  # noqa: E402
from timing import default_execution, kernel_run, loop_runs, measure, spread  # noqa: E402

import dynamics  # noqa: E402  # the repository's own packages need the path above
from dynamics import algorithms as alg  # noqa: E402
from dynamics import derivatives as by  # noqa: E402
from dynamics.kernels import compile_many  # noqa: E402
from dynamics.loops import LoopDynamics  # noqa: E402
from dynamics.model.robots import find_robot  # noqa: E402
from dynamics.model.urdf import read_urdf  # noqa: E402

# The paper: UR3, Baxter, HyQ, ATLAS, Talos. G1, 29 joints, stands in for ATLAS, 30 joints.
ROBOTS = {"UR3": ("ur3_robot", "fixed"), "UR5": ("ur5_robot", "fixed"), "Panda": ("panda", "fixed"), "Baxter": ("baxter", "fixed"),
          "HyQ": ("hyq_no_sensors", "free_flyer"), "G1": ("g1_29dof_rev_1_0", "free_flyer"),
          "Talos": ("talos_full_v2", "free_flyer")}
# what Pinocchio offers for each; for the last nothing, its first derivatives are a yardstick
PINOCCHIO = {"RNEA": "rnea", "ID first order": "rnea_derivatives", "FD first order": "aba_derivatives",
             "ID second-order tensors": "second_order_unzeroed", "ID contracted second order": "second_order_unzeroed",
             "FD contracted second order": "aba_derivatives"}
# as shipped; and with multiplications and additions fused, which gcc does to Pinocchio's C++ by default
SHIPPED, NATIVE = None, ("-O2", "-march=native", "-ffp-contract=fast")
MOST = {"C": 75_000, "C native": 25_000, "AD C": 25_000}  # instructions; beyond, compilation takes minutes


def second_by_differentiation(model) -> ca.Function:
    """(q, v, a) -> qq, vv, qv, Mq, nonzeros only, by differentiating the recursive Newton-Euler algorithm twice."""
    n = model.nv
    q, d, v, a = (ca.SX.sym(name, size) for name, size in (("q", model.nq), ("d", n), ("v", n), ("a", n)))
    tau = alg.inverse_dynamics(model, alg.jet(model, q, d), v, a)
    by_q, by_v, M = (ca.vec(ca.jacobian(tau, x)) for x in (d, v, a))
    parts = [ca.jacobian(by_q, d), ca.jacobian(by_v, v), ca.jacobian(by_q, v), ca.jacobian(M, d)]
    f = ca.Function("second", [q, d, v, a], [ca.SX(x).nz[:] for x in parts])
    return ca.Function("second_by_differentiation", [q, v, a], f.call([q, ca.DM.zeros(n), v, a]))


def nonzeros(function: ca.Function) -> ca.Function:
    """The function with the nonzeros of its outputs as vectors: kernels store structural zeros otherwise."""
    x = [ca.SX.sym(function.name_in(i), *function.size_in(i)) for i in range(function.n_in())]
    return ca.Function(function.name() + "_nonzeros", x, [ca.SX(y).nz[:] for y in function.call(x)])


def functions(model) -> dict[tuple[str, str], ca.Function | int]:
    """(execution, title) -> the function to compile, or its number of instructions where that is over the limit."""
    analytic = {
        "RNEA": lambda: dynamics.make(model, "inverse_dynamics"),
        "ID first order": lambda: by.inverse_dynamics_derivatives(model, "analytic"),
        "ID contracted second order": lambda: by.inverse_dynamics_hessian(model),
        "FD first order": lambda: by.forward_dynamics_derivatives(model, "analytic"),
        "ID second-order tensors": lambda: nonzeros(by.inverse_dynamics_second_derivatives(model)),
        "FD contracted second order": lambda: by.forward_dynamics_hessian(model)}
    differentiated = {
        "ID first order": lambda: by.inverse_dynamics_derivatives(model, "ad"),
        "FD first order": lambda: by.forward_dynamics_derivatives(model, "ad"),
        "ID contracted second order": lambda: hessians(model, alg.inverse_dynamics),
        "ID second-order tensors": lambda: second_by_differentiation(model),
        "FD contracted second order": lambda: hessians(model, alg.forward_dynamics)}
    # building a graph only to see that it is too long takes half a minute on a humanoid: each holds at least these others
    holds = {"FD first order": ("ID first order",), "ID second-order tensors": ("ID contracted second order",),
             "FD contracted second order": ("FD first order", "ID contracted second order")}
    out: dict[tuple[str, str], ca.Function | int] = {}
    for execution, table in (("C", analytic), ("AD C", differentiated)):
        for title in PINOCCHIO:
            if title not in table:
                continue
            least = sum(_size(out.get((execution, other), 0)) for other in holds.get(title, ()))
            if execution == "AD C":
                least = max(least, _size(out["C", title]))
            out[execution, title] = least if least > MOST[execution] else table[title]()
            if (size := _size(out[execution, title])) > MOST[execution]:
                out[execution, title] = size
    for title in PINOCCHIO:
        f = out["C", title]
        out["C native", title] = size if (size := _size(f)) > MOST["C native"] else f
    return out


def _size(f: ca.Function | int) -> int:
    return f if isinstance(f, int) else int(f.n_instructions())


def agree(ours, theirs, what, tolerance: float = 1e-8) -> None:
    """Refuse to time two things that do not compute the same."""
    ours, theirs = np.asarray(ours, float), np.asarray(theirs, float)
    gap = np.abs(ours - theirs).max(initial=0.0) / max(1.0, np.abs(theirs).max(initial=0.0))
    if ours.shape != theirs.shape or not gap < tolerance:
        raise AssertionError(f"{what}: shapes {ours.shape} and {theirs.shape}, difference {gap:.1e}")


def kernels(model, inputs) -> tuple[dict, dict]:
    """(execution, title) -> run, and -> what is known of its kernel. Each kernel is checked against CasADi's interpreter."""
    runs, known = {}, {}
    wanted = functions(model)
    for flags, executions in ((SHIPPED, ("C", "AD C")), (NATIVE, ("C native",))):
        keys = [key for key, f in wanted.items() if key[0] in executions and not isinstance(f, int)]
        for key, kernel in zip(keys, compile_many([wanted[k] for k in keys], 2, "compiled", flags), strict=True):
            x = inputs[key[1]]
            results = kernel(*x)
            for ours, theirs in zip(results if isinstance(results, tuple) else (results,), wanted[key].call(list(x)), strict=True):
                agree(np.asarray(ours).ravel("F"), np.array(ca.densify(theirs)).ravel("F"), key)
            runs[key] = kernel_run(kernel, x)
            known[key] = {"instructions": _size(wanted[key]), "compile_s": kernel.compile_seconds}
    for key, f in wanted.items():
        if isinstance(f, int):
            known[key] = {"instructions": f}
    return runs, known


def robot(name: str):
    """Our model, mimic joints independent, without damping, which Pinocchio leaves out."""
    file, root = ROBOTS[name]
    model = read_urdf(find_robot(file), root=root, mimic="independent")
    bodies = tuple(replace(body, joint=replace(body.joint, damping=())) for body in model.bodies)
    return replace(model, bodies=bodies)


def rows_of(name: str) -> list[dict]:
    """One row for each function and execution of one robot."""
    model, rng = robot(name), np.random.default_rng(0)
    face, twin, n = LoopDynamics(model), PinocchioCpp(model), model.nv
    q = alg.random_configuration(model, rng)
    v, a, lam = rng.standard_normal((3, n))
    tau = face.inverse_dynamics(q, v, a)
    tensors = face.second_order(q, v, a, symmetric=False)
    for what, ours in (("rnea", tau), ("rnea_derivatives", face.inverse_dynamics_derivatives(q, v, a)),
                       ("second_order", np.stack([tensors[:, 0], tensors[:, 2], tensors[:, 1].swapaxes(1, 2), tensors[:, 3]]))):
        agree(ours, twin.values(what, q, v, a), what)
    agree(face.forward_dynamics_derivatives(q, v, tau)[1], twin.values("aba_derivatives", q, v, tau), "aba_derivatives", 1e-6)
    forward = {title: "FD" in title for title in PINOCCHIO}
    inputs = {title: (q, v, tau if forward[title] else a, *((lam,) if "contracted" in title else ())) for title in PINOCCHIO}
    generated, known = kernels(model, inputs)
    peers = {peer: twin.runner(peer, q, v, tau if peer == "aba_derivatives" else a)
             for peer in ("rnea", "rnea_derivatives", "aba_derivatives", "second_order_unzeroed", "second_order")}
    loops = loop_runs(face, q, v, a, tau, lam)
    runs = {**{("Pinocchio", peer): run for peer, run in peers.items()}, **{("loop", title): loops[title] for title in PINOCCHIO},
            **generated}
    times = dict(zip(runs, measure(*runs.values()), strict=True))
    rows, usual = [], {"loops": "loop", "kernel": "C"}[default_execution(model)]

    def add(title: str, execution: str, key: tuple[str, str]) -> None:
        about, theirs = known.get(key, {}), times["Pinocchio", PINOCCHIO[title]]
        row = {"robot": name, "file": ROBOTS[name][0], "nv": n, "function": title, "execution": execution, "us": float("nan"),
               "spread": float("nan"), "default": usual, "yardstick": PINOCCHIO[title], "ratio": float("nan"),
               "instructions": about.get("instructions", ""), "compile_s": about.get("compile_s", "")}
        if key in times:
            row |= {"us": float(np.median(times[key])), "spread": spread(times[key]),
                    "ratio": float(np.median(times[key]) / np.median(theirs))}
        rows.append(row)

    for title, peer in PINOCCHIO.items():
        if title in ("RNEA", "ID first order", "FD first order", "ID second-order tensors"):
            add(title, "Pinocchio", ("Pinocchio", peer))
        if title == "ID second-order tensors":
            add(title, "Pinocchio zeroing", ("Pinocchio", "second_order"))
        for execution in ("loop", "C", "C native", "AD C"):
            if (execution, title) in times or (execution, title) in known:
                add(title, execution, (execution, title))
    return rows


def main(names: list[str]) -> None:
    if names == ["--pages"]:
        write(read(FOLDER), FOLDER, MOST)
        return
    rows = []
    for name in names or ROBOTS:
        mine = rows_of(name)
        rows += mine
        for title in PINOCCHIO:
            cells = [f"{row['execution']} {row['us']:.2f}" for row in mine if row["function"] == title and row["us"] == row["us"]]
            print(f"{name:<7} {title:<27} " + "  ".join(cells), flush=True)
        print(f"{name:<7} spread of batches: median {np.nanmedian([r['spread'] for r in mine]):.0%}, largest "
              f"{np.nanmax([r['spread'] for r in mine]):.0%}", flush=True)
    if not names:
        write(rows, FOLDER, MOST)


if __name__ == "__main__":
    main(sys.argv[1:])
