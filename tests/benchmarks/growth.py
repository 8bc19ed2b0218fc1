"""How dynamics and its derivatives grow with the robot: the experiment of Fig. 3 of Singh, Russell and Wensing (2022), and more.

    pip install "lieocp[dev]" && python tests/benchmarks/growth.py            # some minutes; --quick: a short trial, kept apart
    python tests/benchmarks/growth.py --repeats                 # the tensors of Fig. 3 again and again: growth_fig3.csv

Trees of 2 to 90 revolute joints, serial and with 2 or 5 children per body, and stars of equal arms. Differentiated graphs, closed
form, complex steps and compiled loops; CasADi's interpreter and compiled C; sparse and dense outputs. Writes growth.csv, growth.md
and the figures growth_*.png to results/benchmarks. Exponents of counts are machine independent, times are of this machine.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import casadi as ca
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "benchmarks")]

import growth_pages  # noqa: E402  # the repository's own modules need the path above
from timing import kernel_run, loop_runs  # noqa: E402

import dynamics  # noqa: E402
from dynamics.derivatives.candidates import QUANTITIES, candidate  # noqa: E402
from dynamics.kernels import compile_kernel, find_compiler  # noqa: E402
from dynamics.loops import LoopDynamics  # noqa: E402
from dynamics.model.model import Model  # noqa: E402
from dynamics.model.synthetic import branched_tree, star_tree  # noqa: E402

SIZES = (2, 3, 5, 8, 12, 16, 20, 31, 50, 70, 90)
BRANCHINGS = (1, 2, 5)
STARS = ((24, 1), (12, 2), (8, 3), (6, 4), (4, 6), (3, 8), (2, 12), (1, 24))  # always 25 joints
VALUES = {"RNEA": "inverse_dynamics", "CRBA": "mass_matrix", "ABA": "forward_dynamics"}
ROADS = {"inverse_first": ("analytic", "ad_sx", "complex_step"),
         "inverse_contracted": ("analytic", "ad_sx", "ad_of_analytic", "complex_step"),
         "inverse_second": ("analytic", "ad_sx", "ad_of_analytic", "complex_step")}
# instructions up to which graphs are made, and compiled; joints up to which the complex step is taken
LARGEST, LARGEST_COMPILED, LARGEST_STEPPED = 2_500_000, 7_000, 20
# two chains are compiled further, to see whether what the interpreter shows holds for machine code
COMPILED_CHAINS, LARGEST_CHAIN = (12, 16), 75_000
BATCHES, SECONDS = 7, 0.006
PROCESSES, ROUNDS = 3, 3  # of Fig. 3


@dataclass
class Row:
    """One measurement. outputs: sparse or dense; runtime: interpreter, compiled, loop, or count (nothing run); us: per call."""

    series: str
    joints: int
    depth: int
    quantity: str
    source: str
    outputs: str = ""
    runtime: str = "count"
    us: float = float("nan")
    instructions: int = 0
    build_s: float = float("nan")
    compile_s: float = float("nan")
    note: str = ""


# ------------------------------------------------------------------------------------------------ clocks
def microseconds(run: Callable[[int], object], of: Callable[[list[float]], float] = min) -> float:
    """Processor time of one of run's calls: the least disturbed of some batches, or their median."""
    run(1)
    count, spent = 1, 0.0
    while True:
        begin = time.thread_time()
        run(count)
        spent = time.thread_time() - begin
        if spent > SECONDS / 2:
            break
        count *= 2
    batches = [spent / count]
    for _ in range(BATCHES):
        begin = time.thread_time()
        run(count)
        batches.append((time.thread_time() - begin) / count)
    return of(batches) * 1e6


def interpreted_us(function: ca.Function, inputs: list[np.ndarray], of: Callable[[list[float]], float] = min) -> float:
    """By CasADi's interpreter on fixed memory (``Function.buffer``): no conversions, 0.3 us to enter."""
    buffer, trigger = function.buffer()
    kept = [*inputs, *(np.zeros(function.nnz_out(k)) for k in range(function.n_out()))]
    for k, x in enumerate(kept[:len(inputs)]):
        buffer.set_arg(k, x.data)
    for k, y in enumerate(kept[len(inputs):]):
        buffer.set_res(k, y.data)

    def run(count: int) -> None:
        for _ in range(count):
            trigger()

    us = microseconds(run, of)
    assert buffer.ret() == 0
    return us


def compiled_us(function: ca.Function, inputs: list[np.ndarray]) -> tuple[float, float]:
    """(time by address from a compiled loop, seconds of the C compiler)."""
    kernel = compile_kernel(function, mode="compiled")
    return microseconds(kernel_run(kernel, inputs)), kernel.compile_seconds


# ------------------------------------------------------------------------------------------------ variants of a function
def dense(function: ca.Function) -> ca.Function:
    x = function.sx_in() if function.is_a("SXFunction") else function.mx_in()
    return ca.Function(f"{function.name()}_dense", x, [ca.densify(y) for y in function.call(x)])


def packed(function: ca.Function) -> ca.Function:
    """One output: the nonzeros of all, so that a kernel writes no structural zeros."""
    x = function.sx_in() if function.is_a("SXFunction") else function.mx_in()
    return ca.Function(f"{function.name()}_packed", x, [ca.vertcat(*(y.nz[:] for y in function.call(x)))])


# ------------------------------------------------------------------------------------------------ measurements
LOOPS = {"RNEA": "RNEA", "CRBA": "CRBA", "ABA": "forward dynamics", "inverse_first": "ID first order",
         "inverse_contracted": "ID contracted second order", "inverse_second": "ID second-order tensors"}


def loops(rows: list[Row], series: str, depth: int, model: Model, x: list[np.ndarray]) -> None:
    q, v, a, lam = x
    runs = loop_runs(LoopDynamics(model), q, v, a, a, lam)
    for name, title in LOOPS.items():
        rows.append(Row(series, model.nv, depth, name, "loop", "dense", "loop", microseconds(runs[title])))


def predicted(history: list[tuple[int, int]], n: int) -> float:
    """Instructions at n joints from the counts seen so far."""
    if not history:
        return 0.0
    (m, c), exponent = history[-1], 3.0
    if len(history) > 1:
        (k, b) = history[-2]
        exponent = np.log(c / b) / np.log(m / k)
    return c * (n / m)**exponent


def road(rows: list[Row], series: str, depth: int, model: Model, quantity: str, source: str, x: list[np.ndarray],
         reference: list[np.ndarray] | None, timed: bool = True) -> tuple[int, list[np.ndarray]]:
    """All rows of one Function; returns its instructions and its values (dense), which are compared with the reference."""
    n, inputs = model.nv, x[:len(QUANTITIES[quantity].inputs)]
    begin = time.perf_counter()
    function = candidate(model, quantity, source).build()
    assert function is not None
    seconds, stepped = time.perf_counter() - begin, source == "complex_step"
    count = 0 if stepped else function.n_instructions()
    common = {"instructions": count, "build_s": seconds}
    values = [np.array(ca.densify(y)) for y in function.call(inputs)] if timed and n <= 31 else []
    for ours, theirs in zip(values, reference or (), strict=False):
        assert np.abs(ours - theirs).max() < 1e-9 * max(1.0, np.abs(theirs).max()), (series, n, quantity, source)
    if not timed:
        rows.append(Row(series, n, depth, quantity, source, **common))
        return count, values
    rows.append(Row(series, n, depth, quantity, source, "sparse", "interpreter", interpreted_us(function, inputs), **common))
    if quantity == "inverse_second":
        filled = dense(function)
        rows.append(Row(series, n, depth, quantity, source, "dense", "interpreter", interpreted_us(filled, inputs),
                        0 if stepped else filled.n_instructions(), seconds))
    further = series == "branching 1" and n in COMPILED_CHAINS and quantity != "inverse_second"
    if find_compiler() and (n <= 8 if stepped else count <= (LARGEST_CHAIN if further else LARGEST_COMPILED)):
        variants = [("sparse", packed(function))]
        if quantity == "inverse_second" and not stepped:
            variants.append(("dense", dense(function)))
        for outputs, variant in variants:
            us, compiler = compiled_us(variant, inputs)
            rows.append(Row(series, n, depth, quantity, source, outputs, "compiled", us, count, seconds, compiler))
    return count, values


def values(rows: list[Row], series: str, depth: int, model: Model) -> None:
    for title, name in VALUES.items():
        begin = time.perf_counter()
        count = dynamics.make(model, name).n_instructions()
        rows.append(Row(series, model.nv, depth, title, "analytic", instructions=count, build_s=time.perf_counter() - begin))


def state(model: Model) -> list[np.ndarray]:
    return list(np.random.default_rng(0).standard_normal((4, model.nv)))


def depth_of(model: Model) -> int:
    deep: list[int] = []
    for body in model.bodies:
        deep.append(1 + (deep[body.parent] if body.parent >= 0 else 0))
    return max(deep)


def measure(sizes: tuple[int, ...], stars: tuple[tuple[int, int], ...], path: Path) -> None:
    rows: list[Row] = []
    for branching in BRANCHINGS:
        series, history = f"branching {branching}", {}
        for n in sizes:
            model, begin = branched_tree(n, branching), time.perf_counter()
            depth, x = depth_of(model), state(model)
            values(rows, series, depth, model)
            loops(rows, series, depth, model, x)
            for quantity, sources in ROADS.items():
                reference = None
                for source in sources:
                    seen = history.setdefault((quantity, source), [])
                    guess = predicted(seen, n)
                    if guess > LARGEST or (source == "complex_step" and n > LARGEST_STEPPED):
                        note = f"not made: {guess:.2g} instructions expected" if guess > LARGEST else "not made: graph takes long"
                        rows.append(Row(series, n, depth, quantity, source, note=note))
                        continue
                    count, result = road(rows, series, depth, model, quantity, source, x, reference)
                    reference = reference or result
                    if count:
                        seen.append((n, count))
            write_csv(rows, path)
            print(f"{series}  N {n:3d}  depth {depth:3d}  {time.perf_counter() - begin:6.1f} s", flush=True)
    for arms, length in stars:
        model, begin = star_tree(arms, length), time.perf_counter()
        depth, x = length + 1, state(model)
        values(rows, "star", depth, model)
        loops(rows, "star", depth, model, x)
        for quantity in ROADS:
            road(rows, "star", depth, model, quantity, "analytic", x, None, timed=False)
        write_csv(rows, path)
        print(f"star  {arms} arms of {length}  {time.perf_counter() - begin:6.1f} s", flush=True)


# ------------------------------------------------------------------------------------------------ Fig. 3 with its noise
def repeat(process: int, sizes: tuple[int, ...], path: Path) -> None:
    """The tensors' times of one process: of each tree all functions are built, then they take turns, ROUNDS times."""
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        for branching in BRANCHINGS:
            history: dict[str, list[tuple[int, int]]] = {}
            for n in sizes:
                model = branched_tree(n, branching)
                x, functions = state(model), {}
                for source in ROADS["inverse_second"]:
                    seen = history.setdefault(source, [])
                    if predicted(seen, n) > LARGEST or (source == "complex_step" and n > LARGEST_STEPPED):
                        continue
                    function = candidate(model, "inverse_second", source).build()
                    assert function is not None
                    seen.append((n, 1 if source == "complex_step" else function.n_instructions()))
                    functions |= {(source, "sparse"): function, (source, "dense"): dense(function)}
                for turn in range(ROUNDS):
                    for (source, outputs), function in functions.items():
                        us = interpreted_us(function, x[:3], statistics.median)
                        writer.writerow([f"branching {branching}", n, source, outputs, ROUNDS * process + turn, f"{us:.4g}"])
                file.flush()
                print(f"process {process}  branching {branching}  N {n}", flush=True)


def repeats(sizes: tuple[int, ...], path: Path) -> None:
    """growth_fig3.csv anew: PROCESSES processes one after another, for where code and data lie in memory moves times as well."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerow(["series", "joints", "source", "outputs", "repeat", "us"])
    for process in range(PROCESSES):
        command = [sys.executable, __file__, "--process", str(process), "--into", str(path), *map(str, sizes)]
        subprocess.run(command, check=True)


def write_csv(rows: list[Row], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [f.name for f in fields(Row)])
        writer.writeheader()
        for row in rows:
            writer.writerow({k: ("" if y != y else f"{y:.4g}") if isinstance(y, float) else y for k, y in asdict(row).items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small trees only; results go to a temporary folder")
    parser.add_argument("--pages", action="store_true", help="write tables and figures again from growth.csv, measure nothing")
    parser.add_argument("--repeats", action="store_true", help="measure the tensors of Fig. 3 again, with their noise")
    parser.add_argument("--process", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("sizes", nargs="*", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.process is not None:
        repeat(given.process, tuple(given.sizes), given.into)
        return
    folder = Path(tempfile.mkdtemp(prefix="growth-")) if given.quick else ROOT / "results" / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    begin = time.perf_counter()
    if given.repeats or given.quick:
        repeats(SIZES[:4] if given.quick else SIZES, folder / "growth_fig3.csv")
    if not (given.pages or given.repeats):
        measure(*((SIZES[:4], STARS[3:6]) if given.quick else (SIZES, STARS)), folder / "growth.csv")
    growth_pages.write(folder, (LARGEST, LARGEST_COMPILED, LARGEST_STEPPED, LARGEST_CHAIN))
    print(f"{folder} written after {time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
