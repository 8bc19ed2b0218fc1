"""Twenty constrained problems from many random starts: iLQR beside IPOPT and FATROP on exactly the same discrete problem.

    pip install lieocp && python tests/benchmarks/robust_starts.py [--problems a,b] [--starts 50] [--solvers ilqr] [--fresh]

The peers solve direct multiple shooting (``tests/support/shooting_nlp.py``) with exact Hessians; their NLP functions are generated
C, compiled with gcc -O2, as our kernels are. FATROP is told its stages. All solvers get the same guess of every start: smooth noise
on the controls; on starts of even number the states are the rollout of these controls, on odd ones a noisy line through the
states that the problem names. What a solver returns is judged by one rule for all: largest gap of the steps and violation of
any hard constraint at most VIOLATION, and gradient of the Lagrangian and complementarity with the solver's own multipliers at most
KKT, relative to max(1, |cost|). Rows already in the table are kept (--fresh forgets them), so a run can be interrupted.
Writes results/benchmarks/robust_starts.csv, .md and .png.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import hashlib
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np
from result_tables import FOLDER

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from constrained_problems import PROBLEMS, Constrained, start_guess  # noqa: E402  # the repository's own packages need the path above
from shooting_nlp import StagedNLP, staged_nlp  # noqa: E402

from ocp.app.pipeline import processor  # noqa: E402
from ocp.app.sentences import message  # noqa: E402
from ocp.methods import make_options  # noqa: E402
from ocp.shooting import ilqr  # noqa: E402
from ocp.strategy.loop import searched  # noqa: E402
from ocp.strategy.shooting import searching_prepared  # noqa: E402

VIOLATION, KKT, NEAR = 1e-6, 1e-5, 0.01
LIMIT = 500  # iterations of any solver
HEAVY = {"escape": 10, "ur5_reach": 10, "panda_reach": 10}  # starts where the peers take seconds each
PATIENCE = 15.0  # seconds after which a peer that has not returned is stopped
LARGE = 5_000_000  # bytes of generated C beyond which the compiler optimises less
OURS, PEERS = "ilqr", ("ipopt", "fatrop")
OPTIONS = {"shooting": "feasible", "tolerance": 1e-6, "constraint_tolerance": 1e-9, "max_iterations": LIMIT}
FIELDS = ("problem", "start", "solver", "guess", "success", "status", "cost", "violation", "worst", "defect", "stationarity",
          "complementarity", "iterations", "seconds")
Row = dict[str, Any]


# ---- the solvers: each a function of a guess -> row -------
def ours(c: Constrained, extra: Mapping[str, Any]) -> Callable[..., Row]:
    program = ilqr.prepare(c.problem, make_options("ilqr", {**c.options, **OPTIONS, **extra}))

    def run(guess: Any, x: np.ndarray, u: np.ndarray) -> Row:
        began = time.process_time()
        found = searched(*searching_prepared(program, guess=guess))
        seconds = time.process_time() - began
        stationarity, complementarity = found.optimality.residuals()
        return {"x": found.trajectory.x, "u": found.trajectory.u, "status": found.status.name,
                "iterations": len(found.iterations) - 1, "seconds": seconds, "stationarity": stationarity,
                "complementarity": complementarity, "message": message(found)}

    run(start_guess(c, 0, "still"), None, None)  # loads what is loaded on first use
    return run


def peer(name: str, nlp: StagedNLP, compiled: bool = True) -> Callable[..., Row]:
    options: dict[str, Any] = {"print_time": False, "error_on_fail": False}
    if name == "ipopt":
        options["ipopt"] = {"print_level": 0, "sb": "yes", "tol": 1e-8, "max_iter": LIMIT, "max_cpu_time": 10.0}
    else:
        options |= {**nlp.structure, "fatrop": {"print_level": 0, "tol": 1e-8, "max_iter": LIMIT}}
    solver = ca.nlpsol(name, name, nlp.nlp, options)
    if compiled:
        solver = ca.nlpsol(name, name, _library(solver), options)
    bounds = {"lbx": nlp.w_lower, "ubx": nlp.w_upper, "lbg": nlp.g_lower, "ubg": nlp.g_upper}
    stationarity, rows = nlp.stationarity(), ca.Function("rows", [nlp.nlp["x"]], [nlp.nlp["g"], nlp.nlp["f"]])

    def run(guess: Any, x: np.ndarray, u: np.ndarray) -> Row:
        began = time.process_time()
        found = solver(x0=nlp.join(x, u), **bounds)
        seconds = time.process_time() - began
        w, lam_g, lam_x = (np.array(found[key]).ravel() for key in ("x", "lam_g", "lam_x"))
        g, f = (np.array(value).ravel() for value in rows(w))
        products = [_products(*four) for four in ((lam_g, g, nlp.g_lower, nlp.g_upper), (lam_x, w, nlp.w_lower, nlp.w_upper))]
        stats = solver.stats()
        states, controls = nlp.split(w)
        return {"x": states, "u": controls, "status": str(stats["return_status"]), "iterations": int(stats["iter_count"]),
                "seconds": seconds, "stationarity": float(stationarity(w, lam_g, lam_x)),
                "complementarity": float(max(np.abs(p).max() for p in products)) / max(1.0, abs(f[0]))}

    return run


def _serve(pipe: Any, name: str, nlp: StagedNLP) -> None:
    """A peer in a process of its own: guesses in, rows out."""
    run = peer(name, nlp)
    pipe.send("ready")
    while (given := pipe.recv()) is not None:
        pipe.send(run(None, *given))


class Watched:
    """A peer that is stopped where one solve takes longer than PATIENCE: FATROP does not return from every rollout that tumbles."""

    def __init__(self, name: str, nlp: StagedNLP):
        self.name, self.nlp, self.process, self.pipe = name, nlp, None, None

    def __call__(self, guess: Any, x: np.ndarray, u: np.ndarray) -> Row:
        if self.process is None:
            context = multiprocessing.get_context("fork")
            self.pipe, other = context.Pipe()
            self.process = context.Process(target=_serve, args=(other, self.name, self.nlp), daemon=True)
            self.process.start()
            other.close()  # so that a peer that crashes is noticed
            self.pipe.recv()
        self.pipe.send((x, u))
        try:
            if self.pipe.poll(PATIENCE):
                return self.pipe.recv()
            status = "no return"
        except EOFError:
            status = "crash"
        self.process.kill()
        self.process = None
        return {"x": x, "u": u, "status": status, "iterations": 0, "seconds": PATIENCE, "stationarity": np.inf,
                "complementarity": np.inf}

    def close(self) -> None:
        if self.process is not None:
            self.pipe.send(None)
            self.process.join()


def _products(lam: np.ndarray, value: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Multipliers times the distance to the bound that their sign names; where there is none, the multiplier itself is wrong."""
    slack = np.where(lam > 0, high - value, value - low)
    return np.where(low == high, 0.0, lam * np.where(np.isfinite(slack), slack, 1.0))


def _library(solver: ca.Function) -> str:
    """The solver's functions as compiled C, kept by the hash of their text."""
    kept = Path(tempfile.gettempdir()) / "lieocp-peers"
    kept.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "functions.c"
        with contextlib.chdir(folder):  # the generator writes where it stands
            solver.generate_dependencies(source.name)
        library = kept / f"{hashlib.sha256(source.read_bytes()).hexdigest()[:24]}.so"
        if not library.exists():
            level = "-O2" if source.stat().st_size < LARGE else "-O1"
            subprocess.run(["gcc", level, "-fPIC", "-shared", str(source), "-o", str(library)], check=True)
    return str(library)


# ---- one start ------
def starts(c: Constrained, nlp: StagedNLP, seed: int) -> tuple[str, Any, np.ndarray, np.ndarray]:
    """(kind, guess, states [N+1, nx], controls [N, nu]); the guess holds the same numbers for a solver that reads phases."""
    kind = "rollout" if seed % 2 == 0 else "line"
    guess = start_guess(c, seed, "line")
    x, u = guess.x[::2].copy(), guess.u[1::2]
    if kind == "rollout":
        x = nlp.rollout(u)
        if not np.all(np.isfinite(x)):
            raise ArithmeticError(f"{c.name}: the rollout of start {seed} is not finite")
        guess = replace(guess, x=np.column_stack([np.interp(guess.s, guess.s[::2], column) for column in x.T]))
    else:
        x[0] = c.problem.phase.start.value
    return kind, guess, x, u


def judged(nlp: StagedNLP, found: Row) -> Row:
    """The numbers of a returned point by the one rule for all."""
    x, u = found.pop("x"), found.pop("u")
    if not (np.all(np.isfinite(x)) and np.all(np.isfinite(u))):
        return {**found, "success": 0, "cost": np.nan, "violation": np.inf, "worst": "not finite", "defect": np.inf}
    violations = {**nlp.violations(x, u), "none": 0.0}
    worst = max(violations, key=violations.__getitem__)
    defect = nlp.defect(x, u)
    good = (violations[worst] <= VIOLATION and defect <= VIOLATION and found["stationarity"] <= KKT
            and found["complementarity"] <= KKT)
    return {**found, "success": int(good), "cost": nlp.cost(x, u), "violation": violations[worst], "worst": worst, "defect": defect}


def measured(key: str, count: int, solvers: Sequence[str], have: Mapping[tuple, Row], extra: Mapping[str, Any]) -> list[Row]:
    """Missing rows of one problem; solvers take turns on every start."""
    missing = [(seed, name) for seed in range(count) for name in solvers if (key, seed, name) not in have]
    if not missing:
        return []
    c = PROBLEMS[key]()
    nlp = staged_nlp(c.problem.phase, **c.options)
    runs = {name: ours(c, extra) if name == OURS else Watched(name, nlp) for name in solvers if any(n == name for _, n in missing)}
    rows = []
    for seed, name in missing:
        kind, guess, x, u = starts(c, nlp, seed)
        row = judged(nlp, runs[name](guess, x, u))
        rows.append({"problem": key, "start": seed, "solver": name, "guess": kind, **row})
        if not row["success"]:
            print(f"    {key} {seed} {kind} {name}: {row['status']} cost {row['cost']:.6g} violation {row['violation']:.1e} "
                  f"({row['worst']}) defect {row['defect']:.1e} stationarity {row['stationarity']:.1e} complementarity "
                  f"{row['complementarity']:.1e} {row['iterations']} iterations {row['seconds']:.3f} s {row.get('message', '')}")
    for run in runs.values():
        if isinstance(run, Watched):
            run.close()
    return rows


# ---- tables -------
def read(path: Path) -> dict[tuple, Row]:
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        rows = [{k: v if k in ("problem", "solver", "guess", "status", "worst") else float(v) for k, v in row.items()}
                for row in csv.DictReader(file)]
    return {(r["problem"], int(r["start"]), r["solver"]): {**r, "start": int(r["start"]), "success": int(r["success"])}
            for r in rows}


def write(path: Path, rows: Mapping[tuple, Row]) -> None:
    order = {name: i for i, name in enumerate(PROBLEMS)}
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, extrasaction="ignore")
        writer.writeheader()
        for _, row in sorted(rows.items(), key=lambda item: (order.get(item[0][0], 99), *item[0][1:])):
            writer.writerow({k: f"{v:.6g}" if isinstance(v, float) and k != "cost" else f"{v:.12g}" if k == "cost" else v
                             for k, v in row.items() if k in FIELDS})


def _median(values: Sequence[float]) -> float:
    return statistics.median(values) if values else float("nan")


def summary(rows: Mapping[tuple, Row]) -> list[Row]:
    """One record a problem: for each solver successes, those near the best known cost, median violation and time; and the ratio of
    times to the faster peer over the starts that both solved."""
    found = []
    for key in PROBLEMS:
        mine = {(seed, name): row for (problem, seed, name), row in rows.items() if problem == key}
        if not mine:
            continue
        good = {k: row for k, row in mine.items() if row["success"]}
        best = min((row["cost"] for row in good.values()), default=float("nan"))
        record: Row = {"problem": key, "best": best}
        for name in (OURS, *PEERS):
            all_of, good_of = ([row for (_, n), row in which.items() if n == name] for which in (mine, good))
            record |= {f"{name}_starts": len(all_of), f"{name}_success": len(good_of),
                       f"{name}_best": sum(row["cost"] <= best + NEAR * abs(best) for row in good_of),
                       f"{name}_violation": _median([row["violation"] for row in all_of]),
                       f"{name}_ms": 1e3 * _median([row["seconds"] for row in good_of]),
                       f"{name}_iterations": _median([row["iterations"] for row in good_of])}
        for name in PEERS:
            both = [seed for (seed, n) in good if n == OURS and (seed, name) in good]
            record[f"{name}_ratio"] = _median([good[s, OURS]["seconds"] / good[s, name]["seconds"] for s in both])
        ratios = [record[f"{name}_ratio"] for name in PEERS if record[f"{name}_ratio"] == record[f"{name}_ratio"]]
        record["ratio"] = max(ratios, default=float("nan"))
        found.append(record)
    return found


def interpreted() -> str:
    """What compiling the functions of the peers is worth: one start of a few problems, a sentence."""
    found: dict[str, list[float]] = {name: [] for name in PEERS}
    keys = ("pendulum", "three_obstacles", "planar_quadrotor")
    for key in keys:
        c = PROBLEMS[key]()
        nlp = staged_nlp(c.problem.phase, **c.options)
        _, guess, x, u = starts(c, nlp, 1)
        for name in PEERS:
            slow, fast = (min(run(guess, x, u)["seconds"] for _ in range(3)) for run in (peer(name, nlp, False), peer(name, nlp)))
            found[name].append(slow / fast)
    return "; ".join(f"{name} " + ", ".join(f"{v:.1f}" for v in found[name]) for name in PEERS) + f" ({', '.join(keys)})"


def page(records: Sequence[Row], note: str) -> str:
    names = (OURS, *PEERS)
    total = {name: (sum(r[f"{name}_success"] for r in records), sum(r[f"{name}_starts"] for r in records),
                    sum(r[f"{name}_best"] for r in records)) for name in names}
    finite = [r["ratio"] for r in records if r["ratio"] == r["ratio"]]
    lines = [
        "# Constrained problems from random starts", "",
        f"{processor()}; casadi {ca.__version__}. {len(records)} problems with hard constraints; the same discrete problem (direct",
        "multiple shooting: the same steps and quadrature) and the same seeded guesses for iLQR, IPOPT (MUMPS) and FATROP with its",
        f"stages stated; exact Hessians and default options for the peers but tol = 1e-8 and {LIMIT} iterations, as ours. iLQR",
        "starts from the states of the guess (shooting: feasible), tolerance 1e-6, constraints 1e-9 of",
        "the sizes of their rows. All functions are compiled C;",
        "times are those of a solve, without building and compiling. On even starts the states of the guess are the rollout of its",
        "controls, on odd ones a noisy line through the route of the problem. A peer that has not returned after "
        f"{PATIENCE:g} s is stopped.", "",
        f"Solved: gaps and every named constraint at most {VIOLATION:g} at the knots; gradient of the Lagrangian and",
        f"complementarity with the solver's own multipliers at most {KKT:g} of max(1, cost), at the returned point. Near best: of",
        f"these, within {100 * NEAR:.0f} % of the lowest cost that any solver found. Violation: median over all starts; ms:",
        "processor time, median over the solved ones; ratio: median over the starts that both solved. Written by",
        "tests/benchmarks/robust_starts.py.", "",
        "| problem | best cost | " + " | ".join(f"{n}: solved | near best | violation | iterations | ms" for n in names)
        + " | " + " | ".join(f"iLQR / {n}" for n in PEERS) + " |",
        "|" + "---|" * (2 + 5 * len(names) + len(PEERS))]
    for r in records:
        cells = [c for n in names for c in (f"{r[f'{n}_success']}/{r[f'{n}_starts']}", f"{r[f'{n}_best']}",
                                            f"{r[f'{n}_violation']:.0e}", f"{r[f'{n}_iterations']:.0f}", f"{r[f'{n}_ms']:.2f}")]
        ratios = [f"{r[f'{n}_ratio']:.2f}" for n in PEERS]
        lines.append(f"| {r['problem'].replace('_', ' ')} | {r['best']:.7g} | " + " | ".join(cells + ratios) + " |")
    lines += ["", "| | " + " | ".join(names) + " |", "|---|" + "---|" * len(names),
              "| solved | " + " | ".join(f"{a}/{b} ({100 * a / max(1, b):.1f} %)" for a, b, _ in total.values()) + " |",
              "| near best | " + " | ".join(f"{total[n][2]}" for n in names) + " |"]
    lines += ["", "Interpreted by CasADi instead of compiled, the peers take so many times as long: " + note + "."]
    if finite:
        lines += ["", f"Time of iLQR to the faster peer of each problem: median {statistics.median(finite):.2f}, from "
                  f"{min(finite):.2f} to {max(finite):.2f}; at most 0.3 on {sum(v <= 0.3 for v in finite)} of {len(finite)}."]
    return "\n".join(lines) + "\n"


def picture(records: Sequence[Row], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 0.32 * len(records) + 1.6), sharey=True, layout="constrained")
    y = np.arange(len(records))
    for i, (name, colour) in enumerate(zip((OURS, *PEERS), ("#c1272d", "#4a6fa5", "#7f9c5a"), strict=True)):
        share = [100 * r[f"{name}_success"] / max(1, r[f"{name}_starts"]) for r in records]
        left.barh(y + 0.26 * (i - 1), share, 0.24, color=colour, label={"ilqr": "iLQR", "ipopt": "IPOPT", "fatrop": "FATROP"}[name])
        right.plot([r[f"{name}_ms"] for r in records], y, "o", color=colour, markersize=5)
    left.set_yticks(y, [r["problem"].replace("_", " ") for r in records])
    left.invert_yaxis()
    left.set_xlabel("solved, % of starts")
    left.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)
    right.set_xscale("log")
    right.set_xlabel("median time of a solve, ms")
    right.grid(axis="x", which="both", alpha=0.25)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default=",".join(PROBLEMS), help="names, separated by commas")
    parser.add_argument("--starts", type=int, default=50)
    parser.add_argument("--solvers", default=",".join((OURS, *PEERS)))
    parser.add_argument("--fresh", action="store_true", help="forget the rows of these problems and solvers first")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="an option of iLQR")
    parser.add_argument("--out", type=Path, default=FOLDER)
    given = parser.parse_args()
    problems, solvers = given.problems.split(","), given.solvers.split(",")
    for name, known in [*((p, PROBLEMS) for p in problems), *((s, (OURS, *PEERS)) for s in solvers)]:
        if name not in known:
            parser.error(f"no {name!r}; known: {', '.join(known)}")
    extra = {}
    for item in given.option:
        name, value = item.split("=")
        kind = ilqr.ILQROptions.__dataclass_fields__[name].type
        extra[name] = {"int": int, "float": float, "str": str}.get(str(kind), str)(value)
    path = given.out / "robust_starts.csv"
    rows = read(path)
    if given.fresh:
        rows = {k: row for k, row in rows.items() if not (k[0] in problems and k[2] in solvers)}
    began = time.perf_counter()
    for i, key in enumerate(problems):
        new = measured(key, min(given.starts, HEAVY.get(key, given.starts)), solvers, rows, extra)
        rows |= {(row["problem"], row["start"], row["solver"]): row for row in new}
        write(path, rows)
        line = next((r for r in summary(rows) if r["problem"] == key), None)
        if line is not None:
            print(f"[{time.perf_counter() - began:6.1f} s] {i + 1}/{len(problems)} {key}: " + "; ".join(
                f"{n} {line[f'{n}_success']}/{line[f'{n}_starts']}, best {line[f'{n}_best']}, {line[f'{n}_ms']:.1f} ms"
                for n in (OURS, *PEERS)) + f"; ratio {line['ratio']:.2f}", flush=True)
    records = summary(rows)
    (given.out / "robust_starts.md").write_text(page(records, interpreted()), encoding="utf-8")
    picture(records, given.out / "robust_starts.png")


if __name__ == "__main__":
    main()
