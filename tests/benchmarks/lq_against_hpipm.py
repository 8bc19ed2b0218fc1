"""The linear-quadratic solve of the shooting engine: right, linear in the horizon, cubic in the state, and how fast beside HPIPM.

    pip install "lieocp[dev]" && python tests/benchmarks/lq_against_hpipm.py [--quick] [--native libhpipm_native.so]

Unconstrained problems with a fixed start, so that both sides do one Riccati sweep and one rollout. HPIPM is called three ways:
through CasADi's ``conic`` with the structure given, on fixed buffers; itself, on a problem that is already in its own format, in
the library that CasADi ships (BLASFEO without processor kernels); and, with ``--native``, in a library built for this processor:
BLASFEO with TARGET = X64_INTEL_SKYLAKE_X or X64_INTEL_HASWELL and HPIPM, their object files linked into one by
``gcc -shared -Wl,-Bsymbolic``. Writes results/benchmarks/lq_against_hpipm.csv and .md.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np
from numba import njit
from result_tables import FOLDER, write_page, write_table
from scipy.sparse import block_diag, bmat, csc_matrix, diags, hstack, vstack
from scipy.sparse.linalg import splu

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "benchmarks")]

import timing  # noqa: E402  # the repository's own modules need the path above

from ocp.app.pipeline import processor  # noqa: E402
from ocp.shooting.engine import lq  # noqa: E402

HALVES = ((4, 2), (8, 4), (12, 6), (20, 10), (36, 18), (80, 40))
CASES = (*HALVES, (4, 1), (14, 7), (36, 12))
HORIZONS = (10, 25, 50, 100, 200, 400)
LARGEST, LARGEST_SLOW = 8000, 1300  # states along the horizon, for all and for the slow sides
AT = 10  # the horizon at which all sides have every size
DENSE = 1500  # unknowns up to which the dense KKT system is solved
# the plugin makes a bound of every infinity: at its own 1e8 the interior point does not end, at this it takes two iterations
FAR = 1e4
SIDES = ("conic", "shipped", "native")


# ---- problems
def problem(n: int, m: int, N: int) -> lq.Model:
    """Random and convex; the start is fixed, so stage 0 has no state."""
    rng = np.random.default_rng([n, m, N])
    model = lq.model([0] + [n] * N, [m] * N + [0])
    for k in range(N + 1):
        size = int(model.n[k] + model.m[k])
        root = rng.normal(size=(size, size))
        model.H[k, :size, :size] = np.tril(root @ root.T / size + 0.1 * np.eye(size))
        model.g[k, :size] = rng.normal(size=size)
        if k < N:
            model.F[k, :n, :model.n[k]] = 0.95 * np.eye(n, model.n[k]) + 0.2 * rng.normal(size=(n, model.n[k])) / n**0.5
            model.F[k, :n, model.n[k]:size] = rng.normal(size=(n, m)) / m**0.5
            model.gap[k, :n] = rng.normal(size=n)
    return model


def blocks(model: lq.Model, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A, B, symmetric H, g, gap of a stage without padding."""
    n, m = int(model.n[k]), int(model.m[k])
    lower = np.tril(model.H[k, :n + m, :n + m])
    H, g = lower + np.tril(lower, -1).T, model.g[k, :n + m]
    if k == len(model.m) - 1:
        return np.zeros((0, n)), np.zeros((0, 0)), H, g, np.zeros(0)
    rows = int(model.n[k + 1])
    return model.F[k, :rows, :n], model.F[k, :rows, n:n + m], H, g, model.gap[k, :rows]


def system(model: lq.Model) -> tuple[csc_matrix, csc_matrix, np.ndarray, np.ndarray]:
    """Hessian, constraints [A B -I] z = -gap, gradient and gaps of the whole horizon, sparse; z = (u_0, x_1, u_1, ...)."""
    stages = [blocks(model, k) for k in range(len(model.n))]
    H = block_diag([csc_matrix(H) for _, _, H, _, _ in stages], format="csc")
    widths = (model.n + model.m).tolist()
    starts = np.r_[0, np.cumsum(widths)]
    rows = []
    for k, (A, B, _, _, gap) in enumerate(stages[:-1]):
        count = len(gap)
        parts = [csc_matrix((count, starts[k])), csc_matrix(np.hstack([A, B])), -diags(np.ones(count)),
                 csc_matrix((count, starts[-1] - starts[k + 1] - count))]
        rows.append(hstack(parts, format="csc"))
    g, gaps = np.concatenate([s[3] for s in stages]), np.concatenate([s[4] for s in stages[:-1]])
    return H, vstack(rows, format="csc"), g, gaps


def stacked(model: lq.Model, dx: np.ndarray, du: np.ndarray) -> np.ndarray:
    return np.concatenate([np.r_[dx[k, :n], du[k, :m] if m else ()] for k, (n, m) in enumerate(zip(model.n, model.m, strict=True))])


# ---- ours
@njit
def _ours(count, model, u, lower, upper, policy, work, dx, du):
    for _ in range(count):
        lq.backward(model, u, lower, upper, 0.0, policy, work)
        lq.forward(model, policy, 1.0, dx, du)


class Ours:
    """Backward sweep and rollout, repeated from a compiled loop."""

    def __init__(self, model: lq.Model) -> None:
        self.model, self.policy, self.work = model, lq.policy(model.n, model.m), lq.scratch(model.n, model.m)
        self.dx, self.du = np.zeros(self.policy.Vx.shape), np.zeros(self.policy.k.shape)
        self.free = np.full(self.du.shape, np.inf)

    def run(self, count: int) -> None:
        _ours(count, self.model, self.du * 0.0, -self.free, self.free, self.policy, self.work, self.dx, self.du)

    def answer(self) -> tuple[np.ndarray, np.ndarray]:
        """z and the multipliers of the dynamics, from the value."""
        m, policy = self.model, self.policy
        multipliers = [policy.Vx[k, :n] + policy.Vxx[k, :n, :n] @ self.dx[k, :n] for k, n in enumerate(m.n) if k > 0]
        return stacked(m, self.dx, self.du), np.concatenate(multipliers)


# ---- HPIPM through CasADi
class Conic:
    """The plugin on fixed buffers: it sorts the nonzeros into stages, solves, and copies the answer out."""

    def __init__(self, model: lq.Model, H: csc_matrix, C: csc_matrix, g: np.ndarray, gaps: np.ndarray) -> None:
        N, count, rows = len(model.n) - 1, len(g), len(gaps)
        H, C = csc_matrix(H), csc_matrix(C)
        H.sort_indices()
        C.sort_indices()
        sparsity = {"h": ca.Sparsity(count, count, H.indptr.tolist(), H.indices.tolist()),
                    "a": ca.Sparsity(rows, count, C.indptr.tolist(), C.indices.tolist())}
        options = {"N": N, "nx": model.n.tolist(), "nu": model.m.tolist(), "ng": [0] * (N + 1), "error_on_fail": False,
                   "print_time": False, "inf": FAR}
        self.solver = ca.conic("solver", "hpipm", sparsity, options)
        self.buffer, self.trigger = self.solver.buffer()
        free = np.full(count, np.inf)
        self.inputs = {"h": H.data.copy(), "g": g.copy(), "a": C.data.copy(), "lba": -gaps, "uba": -gaps, "lbx": -free, "ubx": free,
                       "x0": np.zeros(count), "lam_x0": np.zeros(count), "lam_a0": np.zeros(rows)}
        for name, value in self.inputs.items():
            self.buffer.set_arg(self.solver.index_in(name), memoryview(value))
        self.outputs = {"x": np.zeros(count), "cost": np.zeros(1), "lam_a": np.zeros(rows), "lam_x": np.zeros(count)}
        for name, value in self.outputs.items():
            self.buffer.set_res(self.solver.index_out(name), memoryview(value))

    def run(self, count: int) -> None:
        trigger = self.trigger
        for _ in range(count):
            trigger()

    def answer(self) -> np.ndarray:
        return self.outputs["x"]

    def iterations(self) -> int:
        """Of the interior point, in a call of its own: buffers keep no statistics."""
        self.solver(**{name: ca.DM(self.solver.sparsity_in(name), value) for name, value in self.inputs.items()})
        return int(self.solver.stats()["iter_count"])


# ---- HPIPM itself
def load(path: Path | str) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    for name in ("dim_strsize", "dim_memsize", "strsize", "memsize", "sol_strsize", "sol_memsize", "ipm_arg_strsize",
                 "ipm_arg_memsize", "ipm_ws_strsize", "ipm_ws_memsize"):
        getattr(library, "d_ocp_qp_" + name).restype = ctypes.c_size_t
    library.d_ocp_qp_ipm_solve.argtypes = [ctypes.c_void_p] * 4
    library.d_ocp_qp_ipm_solve.restype = None
    return library


def shipped() -> Path:
    """The library beside CasADi's."""
    return next(Path(ca.__file__).parent.glob("libhpipm.*"))


_LOOPS: dict[int, Callable[..., None]] = {}


def _loop(library: ctypes.CDLL) -> Callable[..., None]:
    """A compiled loop over d_ocp_qp_ipm_solve of a library."""
    solve = library.d_ocp_qp_ipm_solve

    def repeat(count, qp, solution, argument, workspace):
        for _ in range(count):
            solve(qp, solution, argument, workspace)

    return _LOOPS.setdefault(id(library), njit(repeat))


class Hpipm:
    """d_ocp_qp_ipm_solve in its fastest mode on data that is already in the library's own format."""

    def __init__(self, library: ctypes.CDLL, model: lq.Model) -> None:
        self.library, self.model, self.kept = library, model, []
        N = len(model.n) - 1
        self.dim = self._new("dim", [ctypes.c_int(N)], [])
        for k in range(N + 1):
            for name, size in (("nx", model.n[k]), ("nu", model.m[k])):
                library.d_ocp_qp_dim_set(name.encode(), k, int(size), self.dim)
        self.qp = self._new("", [self.dim], [self.dim])
        library.d_ocp_qp_set_all_zero(self.qp)
        for k in range(N + 1):
            A, B, H, g, gap = blocks(model, k)
            n = int(model.n[k])
            values = {"Q": H[:n, :n], "q": g[:n]}
            if k < N:
                values |= {"A": A, "B": B, "b": gap, "R": H[n:, n:], "S": H[n:, :n], "r": g[n:]}
            for name, value in values.items():
                data = np.asfortranarray(value).ravel(order="F").copy()  # column-major
                library.d_ocp_qp_set(name.encode(), k, data.ctypes.data_as(ctypes.c_void_p), self.qp)
        self.solution = self._new("sol", [self.dim], [self.dim])
        self.argument = self._new("ipm_arg", [self.dim], [self.dim])
        library.d_ocp_qp_ipm_arg_set_default(0, self.argument)  # SPEED_ABS
        self.workspace = self._new("ipm_ws", [self.dim, self.argument], [self.dim, self.argument])
        self.loop = _loop(library)
        self.addresses = [int(p.value) for p in (self.qp, self.solution, self.argument, self.workspace)]

    def _new(self, kind: str, sized_by: list[Any], made_from: list[Any]) -> ctypes.c_void_p:
        prefix = "d_ocp_qp_" + (kind + "_" if kind else "")
        structure = ctypes.create_string_buffer(getattr(self.library, prefix + "strsize")())
        memory = ctypes.create_string_buffer(getattr(self.library, prefix + "memsize")(*sized_by) + 64)
        self.kept += [structure, memory]
        pointer = ctypes.c_void_p(ctypes.addressof(structure))
        if kind == "dim":
            self.library.d_ocp_qp_dim_create(*sized_by, pointer, memory)
        else:
            getattr(self.library, prefix + "create")(*made_from, pointer, memory)
        return pointer

    def run(self, count: int) -> None:
        self.loop(count, *self.addresses)

    def answer(self) -> np.ndarray:
        parts = []
        for k, (n, m) in enumerate(zip(self.model.n, self.model.m, strict=True)):
            for name, size in (("x", n), ("u", m)):
                value = np.zeros(int(size))
                if size:
                    self.library.d_ocp_qp_sol_get(name.encode(), k, self.solution, value.ctypes.data_as(ctypes.c_void_p))
                parts.append(value)
        return np.concatenate(parts)


# ---- rows
def measure(n: int, m: int, N: int, libraries: dict[str, ctypes.CDLL]) -> dict[str, Any]:
    """Errors, and microseconds of one solve: medians of batches that take turns."""
    model = problem(n, m, N)
    H, C, g, gaps = system(model)
    ours = Ours(model)
    small = n * N <= LARGEST_SLOW
    sides: dict[str, Any] = {"conic": Conic(model, H, C, g, gaps)} if small else {}
    sides |= {name: Hpipm(library, model) for name, library in libraries.items() if small or name != "shipped"}
    for side in (ours, *sides.values()):
        side.run(1)
    z, multipliers = ours.answer()
    scale = max(1.0, np.abs(z).max())
    stationarity = np.abs(H @ z + g + C.T @ multipliers).max()
    row: dict[str, Any] = {"n": n, "m": m, "N": N, "kkt": max(stationarity, np.abs(C @ z + gaps).max())}
    K, right = bmat([[H, C.T], [C, None]], format="csc"), np.r_[-g, -gaps]
    exact = np.linalg.solve(K.toarray(), right) if K.shape[0] <= DENSE else splu(K).solve(right)
    row["against_kkt"] = np.abs(z - exact[:len(z)]).max() / scale
    if small:
        row["conic_iterations"] = sides["conic"].iterations()
    row |= {f"{name}_differs": np.abs(side.answer() - z).max() / scale for name, side in sides.items()}
    times = timing.measure(ours.run, *(side.run for side in sides.values()))
    row["ours_us"] = float(np.median(times[0]))
    for i, name in enumerate(sides, 1):
        row[f"{name}_us"] = float(np.median(times[i]))
        row[f"{name}_ratio"] = float(np.median(times[i] / times[0]))
    return row


def exponent(x: list[float], y: list[float]) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few sizes; writes nothing")
    parser.add_argument("--native", type=Path, help="a libhpipm built for this processor, BLASFEO inside")
    given = parser.parse_args()
    libraries = {"shipped": load(shipped())} | ({"native": load(given.native)} if given.native else {})
    timing.BATCHES = 9
    rows = []
    for n, m in CASES:
        for N in HORIZONS:
            if n * N > LARGEST or (given.quick and N not in (10, 50)):
                continue
            row = measure(n, m, N, libraries)
            rows.append(row)
            others = "".join(f"  {s} {row[s + '_us']:9.1f} us ({row[s + '_ratio']:.2f}, {row[s + '_differs']:.0e})"
                             for s in SIDES if s + "_us" in row)
            print(f"{n:3d}/{m:<3d} N {N:4d}  KKT {row['kkt']:.1e}  against KKT solve {row['against_kkt']:.1e}  "
                  f"ours {row['ours_us']:9.1f} us{others}", flush=True)
    if not given.quick:
        write(rows)


TITLES = {"conic": "HPIPM through CasADi", "shipped": "HPIPM as shipped", "native": "HPIPM for this processor"}
ABOUT = """\
{machine}; casadi {casadi}; one thread, other programs at work beside it. Microseconds of processor time for one solve: medians of
9 batches that take turns, ratios batch by batch (above 1: we are faster). No inequalities, the start fixed: ours is a backward
sweep with gains and value function, and a rollout; HPIPM's is a factorisation in square root form, a rollout and the multipliers.
Through CasADi: the `conic` plugin with the structure given, on fixed buffers; that includes sorting nonzeros into stages, copying
in and out, and {iterations} iterations of the interior point, because the plugin makes bounds of infinities. HPIPM itself is called
from a compiled loop on data already in its own format (packing it is not counted), mode SPEED_ABS, where it sees that there are
no inequalities. As shipped: the library inside CasADi's wheel, whose BLASFEO has no processor kernels; for this processor: BLASFEO
with hand-written AVX-512 kernels. Written by tests/benchmarks/lq_against_hpipm.py."""


def write(rows: list[dict[str, Any]]) -> None:
    write_table(FOLDER / "lq_against_hpipm.csv", rows, digits=".6g", restval="")
    sides = [s for s in SIDES if s + "_us" in rows[0]]
    iterations = " or ".join(sorted({str(r["conic_iterations"]) for r in rows if "conic_iterations" in r}))
    titles = [f"{TITLES[s]} us (ratio)" for s in sides]
    lines = ["# The linear-quadratic solve beside HPIPM", "",
             ABOUT.format(machine=processor(), casadi=ca.__version__, iterations=iterations), "", *verdict(rows, sides), "",
             "| " + " | ".join(["n / m", "N", "KKT error", "against KKT solve", "ours us", "us / stage", *titles]) + " |",
             "|---" * (6 + len(sides)) + "|"]
    for r in rows:
        others = (f"{r[s + '_us']:.1f} ({r[s + '_ratio']:.2f})" if s + "_us" in r else "" for s in sides)
        cells = [f"{r['n']} / {r['m']}", f"{r['N']}", f"{r['kkt']:.1e}", f"{r['against_kkt']:.1e}", f"{r['ours_us']:.1f}",
                 f"{r['ours_us'] / r['N']:.2f}", *others]
        lines.append("| " + " | ".join(cells) + " |")
    write_page(FOLDER / "lq_against_hpipm.md", lines)


def verdict(rows: list[dict[str, Any]], sides: list[str]) -> list[str]:
    """Worst errors, exponents, and where we lose."""
    by = {s: [r for r in rows if s + "_us" in r] for s in sides}
    differs = ", ".join(f"{max(r[s + '_differs'] for r in by[s]):.1e} ({TITLES[s]})" for s in sides)
    lines = [f"Largest KKT error {max(r['kkt'] for r in rows):.1e}. Largest relative difference from a KKT solve (dense up to",
             f"{DENSE} unknowns, sparse LU beyond) {max(r['against_kkt'] for r in rows):.1e}; from the others: {differs}.", ""]
    linear = []
    for n, m in CASES:
        mine = [r for r in rows if (r["n"], r["m"]) == (n, m)]
        linear.append(f"{n}/{m}: {exponent([r['N'] for r in mine], [r['ours_us'] for r in mine]):.2f}")
    lines += ["Exponent of the time in N, by n/m: " + ", ".join(linear) + ".", ""]
    pairs = [next(r for r in rows if (r["n"], r["m"], r["N"]) == (n, m, AT)) for n, m in HALVES]
    for part in (pairs, pairs[3:]):
        sizes = [r["n"] for r in part]
        others = ", ".join(f"{TITLES[s]} {exponent(sizes, [r[s + '_us'] for r in part]):.2f}" for s in sides)
        lines.append(f"Exponent of the time in n from {sizes[0]} to {sizes[-1]} (m = n/2, N = {AT}): ours "
                     f"{exponent(sizes, [r['ours_us'] for r in part]):.2f}, {others}.")
    lines.append("")
    for s in sides:
        ratios = [r[s + "_ratio"] for r in by[s]]
        lost = list(dict.fromkeys(f"{r['n']}/{r['m']}" for r in by[s] if r[s + "_ratio"] < 1.0))
        where = "nowhere" if not lost else f"in {sum(x < 1.0 for x in ratios)} of {len(ratios)} rows, at n/m = " + ", ".join(lost)
        lines += [f"{TITLES[s]}: ratio {min(ratios):.2f} to {max(ratios):.2f}, median {np.median(ratios):.2f}; "
                  f"we lose {where}.", ""]
    return lines[:-1]


if __name__ == "__main__":
    main()
