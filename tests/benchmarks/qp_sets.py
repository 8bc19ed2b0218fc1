"""Quadratic programmes of public sets: `ocp.solvers.qp`, the hierarchy and other solvers, with Clarabel as the referee.

    pip install lieocp daqp clarabel proxsuite && MPC_SET=folder MM_SET=folder python tests/benchmarks/qp_sets.py

MPC_SET: the .npz files of mpc_qpbenchmark (Caron and others), MM_SET: the .mat files of the Maros-Meszaros test set (1999) as
maros_meszaros_qpbenchmark keeps them; nothing of either is part of this repository. Programmes of at most SIZE unknowns and ROWS
rows. Solved: every row holds to 1e-6 (relative to its numbers) and the objective is the referee's to 1e-6 (relative). The
hierarchy gets the rows as its first level and the objective as its second, where it is a sum of squares. Seconds are wall clock,
set-up included.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from result_tables import FOLDER, write_page, write_table

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402  # threads are set before anything loads BLAS
import scipy.io  # noqa: E402
import scipy.sparse as sp  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from ocp.solvers.hqp import Level, solve_hqp  # noqa: E402  # the repository's packages need the path above
from ocp.solvers.qp import QP, solve_qp  # noqa: E402

SIZE, ROWS = int(os.environ.get("SIZE", "300")), int(os.environ.get("ROWS", "600"))
Solve = Callable[[QP], Any]


def sets() -> Iterator[tuple[str, str, QP]]:
    """(set, name, programme)."""
    if "MPC_SET" in os.environ:
        for path in sorted(Path(os.environ["MPC_SET"]).glob("*.npz")):
            with np.load(path, allow_pickle=False) as file:
                data = {}
                for key in file.files:
                    try:
                        data[key] = file[key]
                    except ValueError:  # an object, such as None: what is not there
                        continue
            if "P" in data and "q" in data and data["q"].size <= SIZE:
                yield "mpc", path.stem, two_sided(data)
    if "MM_SET" in os.environ:
        for path in sorted(Path(os.environ["MM_SET"]).glob("*.mat")):
            file = scipy.io.loadmat(path)
            n = file["q"].size
            l, u = (file[key].ravel() for key in "lu")
            l, u = np.where(l <= -9e19, -np.inf, l), np.where(u >= 9e19, np.inf, u)
            if n <= SIZE and l.size <= ROWS:
                yield "Maros-Meszaros", path.stem, QP(file["P"], file["q"].ravel(), file["A"], l, u)


def two_sided(data: dict[str, np.ndarray]) -> QP:
    n = data["q"].size
    rows, lower, upper = [np.zeros((0, n))], [np.zeros(0)], [np.zeros(0)]
    if "G" in data:
        rows.append(data["G"])
        lower.append(np.full(data["h"].size, -np.inf))
        upper.append(data["h"].ravel())
    if "A" in data:
        rows.append(data["A"])
        lower.append(data["b"].ravel())
        upper.append(data["b"].ravel())
    if "lb" in data or "ub" in data:
        rows.append(np.eye(n))
        lower.append(data.get("lb", np.full(n, -np.inf)).ravel())
        upper.append(data.get("ub", np.full(n, np.inf)).ravel())
    P = (data["P"] + data["P"].T) / 2
    return QP(P, data["q"].ravel(), np.vstack(rows), np.concatenate(lower), np.concatenate(upper))


def by_clarabel(qp: QP) -> np.ndarray | None:
    import clarabel

    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    equal, up, down = qp.l == qp.u, np.isfinite(qp.u), np.isfinite(qp.l)
    up, down = up & ~equal, down & ~equal
    A = sp.vstack([qp.A[equal], qp.A[up], -qp.A[down]], format="csc")
    b = np.concatenate([qp.l[equal], qp.u[up], -qp.l[down]])
    cones = [clarabel.ZeroConeT(int(equal.sum())), clarabel.NonnegativeConeT(int(up.sum() + down.sum()))]
    answer = clarabel.DefaultSolver(sp.triu(qp.P, format="csc"), qp.q, A, b, cones, settings).solve()
    return np.array(answer.x) if str(answer.status) in ("Solved", "AlmostSolved") else None


def by_lieocp(qp: QP) -> np.ndarray | None:
    answer = solve_qp(qp)
    return answer.x if answer.ok else None


class NotASumOfSquares(ValueError):
    """A programme that a level of a hierarchy cannot be."""


def by_hierarchy(qp: QP) -> np.ndarray | None:
    values, vectors = np.linalg.eigh(qp.P.toarray())
    kept = values > 1e-12 * max(values.max(), 1e-300)
    root = np.sqrt(values[kept])
    if np.abs(vectors[:, ~kept].T @ qp.q).max(initial=0.0) > 1e-9 * (1 + np.abs(qp.q).max()):
        raise NotASumOfSquares("linear where P is flat")
    levels = [Level("objective", root[:, None] * vectors[:, kept].T, -(vectors[:, kept].T @ qp.q) / root)]
    if qp.m:
        levels.insert(0, Level("rows", D=qp.A.toarray(), lower=qp.l, f=qp.u))
    answer = solve_hqp(levels)
    return answer.x if answer.ok else None


def by_osqp(qp: QP) -> np.ndarray | None:
    import osqp

    solver = osqp.OSQP()
    solver.setup(sp.triu(qp.P, format="csc"), qp.q.copy(), qp.A.copy(), qp.l.copy(), qp.u.copy(), verbose=False, eps_abs=1e-8,
                 eps_rel=1e-8, max_iter=20000, adaptive_rho_interval=50, time_limit=30.0)
    return np.array(solver.solve(raise_error=False).x)


def by_daqp(qp: QP) -> np.ndarray | None:
    import daqp

    sense = np.where(qp.l == qp.u, 5, 0).astype(np.int32)
    x, _, flag, _ = daqp.solve(qp.P.toarray(), qp.q.copy(), np.ascontiguousarray(qp.A.toarray()), np.minimum(qp.u, 1e30),
                               np.maximum(qp.l, -1e30), sense)
    return np.array(x) if flag > 0 else None


def by_proxqp(qp: QP) -> np.ndarray | None:
    from proxsuite import proxqp

    equal = qp.l == qp.u
    solver = proxqp.dense.QP(qp.n, int(equal.sum()), int((~equal).sum()))
    solver.settings.eps_abs = 1e-9
    A, low, high = qp.A.toarray(), np.maximum(qp.l, -1e20), np.minimum(qp.u, 1e20)
    solver.init(qp.P.toarray(), qp.q, A[equal], qp.l[equal], A[~equal], low[~equal], high[~equal])
    solver.solve()
    return np.array(solver.results.x)


SOLVERS: dict[str, Solve] = {"lieocp": by_lieocp, "hierarchy": by_hierarchy, "OSQP 1e-8": by_osqp, "DAQP": by_daqp,
                             "ProxQP": by_proxqp, "Clarabel": by_clarabel}


def objective(qp: QP, x: np.ndarray) -> float:
    return float(0.5 * x @ (qp.P @ x) + qp.q @ x)


def holds(qp: QP, x: np.ndarray) -> bool:
    z = qp.A @ x
    scale = 1.0 + np.abs(z) + abs(qp.A) @ np.abs(x)
    return bool((np.maximum(qp.l - z, z - qp.u) <= 1e-6 * scale).all())


def main() -> None:
    rows: list[dict[str, Any]] = []
    for family, name, qp in sets():
        reference = by_clarabel(qp)
        if reference is None:
            print(family, name, "has no referee", flush=True)
            continue
        best = objective(qp, reference)
        for solver, solve in SOLVERS.items():
            begin = time.perf_counter()
            try:
                x = solve(qp)
            except NotASumOfSquares:
                continue
            except Exception as error:  # whatever a solver does is its answer
                print(family, name, solver, repr(error)[:100], flush=True)
                x = None
            seconds = time.perf_counter() - begin
            good = x is not None and bool(np.isfinite(x).all()) and holds(qp, x) and (
                abs(objective(qp, x) - best) <= 1e-6 * (1.0 + abs(best)))
            rows.append({"set": family, "problem": name, "n": qp.n, "m": qp.m, "solver": solver, "solved": int(good),
                         "ms": round(1e3 * seconds, 3)})
    write(rows)


def write(rows: list[dict[str, Any]]) -> None:
    write_table(FOLDER / "qp_sets.csv", rows, lineterminator="\n")
    lines = ["# Public quadratic programmes", "",
             "Solved: rows hold and the objective is that of Clarabel at 1e-10, each to 1e-6. Milliseconds with set-up, from",
             f"Python, of those solved; at most {SIZE} unknowns and {ROWS} rows; the machine was shared with other work.", "",
             "| set | solver | programmes | solved | median, ms | largest, ms | not solved |", "|---|---|---|---|---|---|---|"]
    for family in dict.fromkeys(row["set"] for row in rows):
        for solver in SOLVERS:
            own = [row for row in rows if row["set"] == family and row["solver"] == solver]
            if not own:
                continue
            ms = [row["ms"] for row in own if row["solved"]] or [float("nan")]
            missed = [row["problem"] for row in own if not row["solved"]]
            lines.append(f"| {family} | {solver} | {len(own)} | {len(own) - len(missed)} | {np.median(ms):.2f} | {max(ms):.1f} | "
                         f"{', '.join(missed[:6])}{f' and {len(missed) - 6} more' if len(missed) > 6 else ''} |")
            print(lines[-1])
    write_page(FOLDER / "qp_sets.md", lines)


if __name__ == "__main__":
    main()
