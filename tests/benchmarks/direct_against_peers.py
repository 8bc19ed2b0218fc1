"""The direct methods beside other tools: CasADi's Opti with IPOPT, rockit, FATROP by hand, Drake and dymos.

    pip install lieocp rockit-meco drake dymos
    python tests/benchmarks/direct_against_peers.py [problem ...] [--fresh]      # all of them: some five minutes

Two tables. *The same program*: the same scheme, mesh and guess, so that objectives agree; ours against every tool that has that
program. *Equal accuracy*: every tool with its own best choice from a stated list of schemes on the coarsest uniform mesh on which
the objective is within a tolerance of the reference. Times are processor time; re-solves are medians of repeats that take turns.
Tools that take seconds run in a process of their own and are stopped after a while. Rows of problems that are not named stay in
the table. Writes results/benchmarks/direct_against_peers.csv and .md.
"""

from __future__ import annotations

import argparse
import csv
import logging
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

import direct_peers as peers  # noqa: E402  # the repository's own packages need the path above
from direct_against_peers_pages import page, ratios  # noqa: E402

from ocp.app.files.load import load_problem  # noqa: E402
from ocp.nlp import prepare_solver  # noqa: E402
from ocp.problem import Problem, Status  # noqa: E402
from ocp.transcription import collocation, multiple_shooting  # noqa: E402

PROBLEMS = ("block_move", "bryson_denham", "brachistochrone_flat", "van_der_pol", "cartpole_swingup", "particle_steering",
            "hypersensitive", "pendulum_min_time", "planar_quadrotor", "acrobot", "robot_arm_min_time", "container_crane",
            "biped_walking")
N, REPEATS, ITERATIONS = 50, 7, peers.ITERATIONS
LADDER = (6, 9, 12, 18, 24, 36, 48, 72, 96, 144, 192, 288, 384, 576, 768)
#: where files give too few digits: Gauss of degree 5 on 80 and 120 intervals, Radau 5 on 100, Hermite-Simpson on 600
REFERENCES = {"planar_quadrotor": 0.12544335019, "acrobot": 0.7323856393}
#: relative; where controls jump no uniform mesh comes near 1e-6
ACCURACY, LOOSE = 1e-6, {"pendulum_min_time": 1e-4, "robot_arm_min_time": 1e-4, "biped_walking": 1e-5}
SAME = 1e-6  # by which objectives of the same program may differ
PATIENCE = 7  # seconds of processor time after which a slow tool is stopped
LONG = 200  # milliseconds of a solve from which one set-up and three re-solves have to do
UNTIL = 2.0  # seconds of processor time for the search for a mesh
FEW = 10  # intervals for dymos, whose SLSQP is dense
LINEAR, COMPRESSED = "Hermite-Simpson, linear controls", "Hermite-Simpson, compressed"  # Drake's is the first; dymos' the second
FIELDS = ("table", "problem", "program", "tool", "intervals", "set_up_ms", "first_ms", "resolve_ms", "iterations", "objective",
          "error", "function_ms", "status")
OUT = ROOT / "results" / "benchmarks" / "direct_against_peers"
Row = dict[str, Any]
Build = Callable[[], Callable[[], tuple[float, int, bool, float]]]


# ---- ours ------
def ours(problem: Problem, intervals: int, method: str = "collocation", iterations: int = ITERATIONS,
         **options: Any) -> Callable[[], peers.Answer]:
    module: Any = {"collocation": collocation, "shooting": multiple_shooting}[method]
    kind = {"collocation": "CollocationOptions", "shooting": "MultipleShootingOptions"}[method]
    record = getattr(module, kind)(intervals=intervals, max_iterations=iterations, **options)
    solver = prepare_solver(module.transcribe(problem, record).nlp, record.nlp())

    def solve() -> peers.Answer:
        found = solver.solve()
        return found.f, len(found.iterations) - 1, found.status is Status.CONVERGED, found.seconds["functions"]

    return solve


OURS: dict[str, dict[str, Any]] = {
    "Hermite-Simpson": {}, "Hermite-Simpson, compressed": {"form": "compressed"},
    **{f"{scheme} {degree}": {"scheme": scheme, "degree": degree} for scheme in ("gauss", "radau", "lobatto")
       for degree in (3, 4, 5)}}
SHOOTING: dict[str, Any] = {"method": "shooting", "integrator": "rk4", "steps": 1}
THEIRS: dict[str, Callable[..., Any]] = {
    "Opti: Hermite-Simpson": peers.opti_hermite_simpson,
    "Opti: Hermite-Simpson, compressed": partial(peers.opti_hermite_simpson, compressed=True),
    "Opti: Radau 3": partial(peers.opti_collocation, kind="radau"),
    "Opti: Legendre 3": partial(peers.opti_collocation, kind="legendre")}
COARSE: dict[str, Callable[..., Any]] = {
    "Opti: RK4 shooting": peers.opti_shooting, "FATROP by hand: RK4 shooting": peers.fatrop_shooting}


# ---- measuring -------
def clocked(call: Callable[[], Any]) -> tuple[Any, float]:
    began = time.process_time()
    found = call()
    return found, 1e3 * (time.process_time() - began)


def once(build: Build) -> tuple[Callable[[], peers.Answer], Row]:
    """Set up and solve for the first time."""
    solve, set_up = clocked(build)
    answer, first = clocked(solve)
    return solve, {"set_up_ms": set_up, "first_ms": first, **told(answer)}


def told(answer: peers.Answer) -> Row:
    objective, iterations, good, functions = answer
    return {"objective": objective, "iterations": iterations if iterations >= 0 else np.nan, "function_ms": 1e3 * functions,
            "status": "converged" if good else "not converged"}


def interleaved(builds: Mapping[str, Build], repeats: int = REPEATS, sets: int = 3) -> dict[str, Row]:
    """Every tool set up ``sets`` times and solved once each, then re-solves in turns; what fails gives its message."""
    rows: dict[str, list[Row]] = {}
    failed: dict[str, Row] = {}
    solvers: dict[str, Callable[[], peers.Answer]] = {}
    for _ in range(sets):
        if any(row["first_ms"] > LONG for own in rows.values() for row in own):
            repeats = min(repeats, 3)
            break
        for name, build in builds.items():
            if name not in failed:
                try:
                    solvers[name], row = once(build)
                    rows.setdefault(name, []).append(row)
                except Exception as error:  # a peer's failure is a result
                    failed[name] = {"status": message(error)}
    times: dict[str, list[float]] = {name: [] for name in solvers}
    functions: dict[str, list[float]] = {name: [] for name in solvers}
    for _ in range(repeats):
        for name, solve in solvers.items():
            answer, spent = clocked(solve)
            times[name].append(spent)
            functions[name].append(1e3 * answer[3])
    return failed | {name: {**rows[name][-1], "resolve_ms": statistics.median(times[name]),
                            "function_ms": statistics.median(functions[name]),
                            **{key: statistics.median(row[key] for row in rows[name]) for key in ("set_up_ms", "first_ms")}}
                     for name in solvers if name not in failed}


def message(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"


# ---- table A: the same program -------
def same_program(name: str, problem: Problem) -> list[Row]:
    if name == "biped_walking":  # linkages: no other tool here takes them but a program written by hand
        programs: dict[str, dict[str, Build]] = {"Hermite-Simpson": {
            "ours, interior_point": partial(ours, problem, N, solver="interior_point"),
            "ours, ipopt": partial(ours, problem, N),
            "ours, ipopt, kernels compiled": partial(ours, problem, N, kernels="compiled"),
            "Opti": partial(peers.opti_hermite_simpson, problem, N)}}
    else:
        programs = {
            LINEAR: {"ours, interior_point": partial(ours, problem, N, controls="linear", solver="interior_point"),
                     "ours, ipopt": partial(ours, problem, N, controls="linear")},
            "Hermite-Simpson": {"ours, interior_point": partial(ours, problem, N, solver="interior_point"),
                                "ours, ipopt": partial(ours, problem, N),
                                "ours, fatrop": partial(ours, problem, N, solver="fatrop"),
                                "Opti": partial(peers.opti_hermite_simpson, problem, N)},
            COMPRESSED: {"ours, interior_point": partial(ours, problem, N, form="compressed", solver="interior_point"),
                         "ours, ipopt": partial(ours, problem, N, form="compressed"),
                         "ours, fatrop": partial(ours, problem, N, form="compressed", solver="fatrop"),
                         "Opti": partial(peers.opti_hermite_simpson, problem, N, True)},
            "RK4 shooting": {"ours, interior_point": partial(ours, problem, N, **SHOOTING, solver="interior_point"),
                             "ours, ipopt": partial(ours, problem, N, **SHOOTING),
                             "ours, fatrop": partial(ours, problem, N, **SHOOTING, solver="fatrop"),
                             "Opti": partial(peers.opti_shooting, problem, N),
                             "rockit": partial(peers.rockit_shooting, problem, N),
                             "FATROP by hand": partial(peers.fatrop_shooting, problem, N)}}
    rows = [{"table": "same program", "problem": name, "program": program, "tool": tool, "intervals": N, **row}
            for program, builds in programs.items() for tool, row in interleaved(builds).items()]
    if name != "biped_walking":
        rows += [{"table": "same program", "problem": name, "program": COMPRESSED, "tool": tool, "intervals": FEW, **row}
                 for tool, row in interleaved({"ours, ipopt": partial(ours, problem, FEW, form="compressed")}).items()]
    return rows


# ---- table B: equal accuracy -------
def search(build: Callable[[int], Build], reference: float, tolerance: float, until: float = np.inf, rung: int = 2) -> Row:
    """The coarsest mesh of the ladder on which the objective is near the reference, and on the next finer one too; where the ladder
    ends, what the order of convergence foretells."""
    errors: dict[int, float] = {}
    row: Row = {}

    def error(rung: int) -> float:
        nonlocal row
        if rung not in errors:
            _, row = once(build(LADDER[rung]))
            far = abs(row["objective"] - reference) / abs(reference)
            errors[rung] = far if row["status"] == "converged" else np.inf
        return errors[rung]

    began = time.process_time()
    while error(rung) > tolerance:
        known = sorted((r, e) for r, e in errors.items() if np.isfinite(e))
        step = 1
        if len(known) > 1:
            (a, e_a), (b, e_b) = known[-2:]
            order = max(0.5, np.log(e_a / e_b) / np.log(LADDER[b] / LADDER[a])) if e_b < e_a else 0.5
            needed = LADDER[b] * (e_b / tolerance) ** (1 / order)
            if needed > 1.2 * LADDER[-1] and b > 3:
                return {"status": f"needs some {needed:.2g} intervals (error {e_b:.1e} at {LADDER[b]})"}
            step = max(1, min(3, int(np.searchsorted(LADDER, 0.7 * needed)) - rung))
        rung = rung + step
        if rung >= len(LADDER):
            last = max(errors)
            return {"status": f"error {errors[last]:.1e} at {LADDER[last]} intervals"}
        if time.process_time() - began > until:
            return {"status": f"error {errors[max(errors)]:.1e} at {LADDER[max(errors)]} intervals"}
    while rung > 0 and error(rung - 1) <= tolerance:
        rung -= 1
    error(rung)
    return {"intervals": LADDER[rung], "error": errors[rung], "status": "converged"}


def equal_accuracy(name: str, problem: Problem) -> list[Row]:
    assert problem.reference is not None
    reference, tolerance = REFERENCES.get(name, problem.reference.objective), LOOSE.get(name, ACCURACY)
    mine = {program: partial(ours, problem, **options) for program, options in OURS.items()}
    other = {program: partial(build, problem) for program, build in THEIRS.items()}
    if name == "biped_walking":
        other = {program: build for program, build in other.items() if program == "Opti: Hermite-Simpson"}  # has linkages
        del mine["Hermite-Simpson, compressed"]
    rows: list[Row] = []
    builds: dict[str, Build] = {}
    meshes: dict[str, Row] = {}
    for program, make in (*((f"ours: {key}", value) for key, value in mine.items()), *other.items()):
        try:
            found = search(lambda count, make=make: partial(make, intervals=count), reference, tolerance, UNTIL)
        except Exception as error:
            found = {"status": message(error)}
        if "intervals" in found:
            meshes[program], builds[program] = found, partial(make, intervals=found["intervals"])
        else:
            rows.append(entry(name, program, found))
    quick = interleaved(builds, 1, 1)
    fast = sorted((p for p in quick if p.startswith("ours")), key=lambda p: quick[p]["resolve_ms"])[:2]
    for program in fast:  # the other solvers on the best schemes
        for solver in ("interior_point", "fatrop"):
            scheme = OURS[program.removeprefix("ours: ")]
            meshes[f"{program}, {solver}"] = own = meshes[program]
            builds[f"{program}, {solver}"] = partial(ours, problem, own["intervals"], **scheme, solver=solver)
    for program, build in COARSE.items() if name != "biped_walking" else ():
        try:
            found = search(lambda count, build=build: partial(build, problem, count), reference, tolerance, UNTIL,
                           LADDER.index(72))  # on coarser ones RK4 may diverge, and FATROP not return
        except Exception as error:
            found = {"status": message(error)}
        if "intervals" not in found:
            rows.append(entry(name, program, found))
            continue
        meshes[program], builds[program] = found, partial(build, problem, found["intervals"])
        if "FATROP" in program:
            for solver in ("interior_point", "fatrop"):
                meshes[f"ours: RK4 shooting, {solver}"] = found
                builds[f"ours: RK4 shooting, {solver}"] = partial(ours, problem, found["intervals"], **SHOOTING, solver=solver)
    quick |= interleaved({p: b for p, b in builds.items() if p not in quick}, 1, 1)
    near = {p: row for p, row in quick.items() if row["status"] == "converged"
            and abs(row["objective"] - reference) <= tolerance * abs(reference)}
    best = [p for side in (True, False) for p in sorted((p for p in near if p.startswith("ours") is side),
                                                        key=lambda p: near[p]["resolve_ms"])[:2]]
    measured = interleaved({p: builds[p] for p in best})
    for program, row in quick.items():
        rows.append(entry(name, program, {**meshes[program], **row, **measured.get(program, {})}, reference, tolerance))
    return rows


def entry(name: str, program: str, found: Row, reference: float = np.nan, tolerance: float = np.inf) -> Row:
    tool, _, scheme = program.partition(": ")
    row = {"table": "equal accuracy", "problem": name, "program": scheme, "tool": tool, **found}
    if "objective" in row and np.isfinite(reference):
        row["error"] = abs(row["objective"] - reference) / abs(reference)
        if row["error"] > tolerance and row["status"] == "converged":
            row["status"] = "another solution"
    return row


# ---- tools that take seconds: in a process of their own --------
def steps_of(tool: str, name: str) -> list[tuple[Row, Callable[[], Row]]]:
    """What is asked of a slow tool, one after another: the head of a row, and what gives the rest."""
    problem = load_problem(ROOT / "problems" / f"{name}.yaml").problem
    assert problem.reference is not None
    reference, tolerance = REFERENCES.get(name, problem.reference.objective), LOOSE.get(name, ACCURACY)
    found: list[tuple[Row, Callable[[], Row]]] = []

    def ask(label: str, make: Callable[[int], Build], program: str, intervals: int, scheme: str, rung: int) -> None:
        def same() -> Row:
            return interleaved({label: make(intervals)}, 1, 1)[label]

        def near() -> Row:
            row = search(make, reference, tolerance, rung=rung)
            return {**row, **interleaved({label: make(row["intervals"])}, 1, 1)[label]} if "intervals" in row else row

        found.append(({"table": "same program", "problem": name, "program": program, "tool": label, "intervals": intervals}, same))
        found.append(({"table": "equal accuracy", "problem": name, "program": scheme, "tool": label}, near))

    if tool == "drake":
        from direct_peers_drake import drake_collocation

        for solver in ("ipopt", "snopt"):
            ask(f"Drake, {solver}", lambda count, solver=solver: partial(drake_collocation, problem, count, solver), LINEAR, N,
                LINEAR, 2)
    else:
        from direct_peers_dymos import dymos_phase, optimiser

        ask(f"dymos, {optimiser()}", lambda count: partial(dymos_phase, problem, count), COMPRESSED, FEW,
            "Gauss-Lobatto 3", 0)
    return found


def _serve(pipe: Any, tool: str, name: str) -> None:
    try:
        steps = steps_of(tool, name)
    except Exception as error:
        pipe.send(({"table": "same program", "problem": name, "program": "", "tool": tool}, {"status": message(error)}))
        steps = []
    for head, step in steps:
        pipe.send((head, None))
        try:
            row = step()
        except Exception as error:
            row = {"status": message(error)}
        pipe.send((head, row))
    pipe.send(None)


def processor_time(pid: int | None) -> float:
    """Seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def slow(tool: str, name: str) -> list[Row]:
    """Rows of a tool that is stopped after PATIENCE seconds of processor time for all that is asked of it."""
    context = multiprocessing.get_context("fork")
    pipe, other = context.Pipe()
    process = context.Process(target=_serve, args=(other, tool, name), daemon=True)
    process.start()
    other.close()
    rows: list[Row] = []
    head: Row = {"table": "same program", "problem": name, "program": "", "tool": tool}
    given: Any = head
    while given is not None:
        if pipe.poll(0.2):
            try:
                given = pipe.recv()
            except EOFError:
                rows.append({**head, "status": "crashed"})
                break
            if given is not None:
                head, row = given
                rows += [{**head, **row}] if row is not None else []
        elif processor_time(process.pid) > PATIENCE:  # a limit by the system would make the clock of the process coarse
            rows.append({**head, "status": f"stopped after {PATIENCE} s"})
            break
    process.kill()
    process.join()
    return rows


# ---- tables -------
def read() -> list[Row]:
    path = OUT.with_suffix(".csv")
    if not path.exists():
        return []
    text = ("table", "problem", "program", "tool", "status")
    with path.open(encoding="utf-8", newline="") as file:
        return [{k: v if k in text else float(v) for k, v in row.items() if v != ""} for row in csv.DictReader(file)]


def write(rows: Sequence[Row]) -> None:
    with OUT.with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.10g}" if k == "objective" else f"{v:.4g}" if isinstance(v, float) else v
                             for k, v in row.items() if not (isinstance(v, float) and np.isnan(v))})


def settings() -> dict[str, Any]:
    """What the page tells about how things were measured."""
    return {"names": PROBLEMS, "intervals": N, "repeats": REPEATS, "patience": PATIENCE, "accuracy": ACCURACY, "loose": LOOSE,
            "ladder": LADDER}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("problems", nargs="*", default=PROBLEMS)
    parser.add_argument("--fresh", action="store_true", help="forget the rows of other problems")
    parser.add_argument("--page", action="store_true", help="write the page anew from the rows, measure nothing")
    parser.add_argument("--quick", action="store_true", help="without Drake and dymos")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    kept = [] if arguments.fresh else [row for row in read() if row["problem"] not in arguments.problems]
    if arguments.page:
        OUT.with_suffix(".md").write_text(page(read(), settings()), encoding="utf-8")
        return
    for name in arguments.problems:
        began = time.perf_counter()
        problem = load_problem(ROOT / "problems" / f"{name}.yaml").problem
        interleaved({s: partial(ours, problem, 4, solver=s) for s in ("ipopt", "interior_point")}, 1)  # loads what is loaded once
        new = same_program(name, problem) + equal_accuracy(name, problem)
        if name != "biped_walking" and not arguments.quick:
            new += [*slow("drake", name), *slow("dymos", name)]
        kept = sorted(kept + new, key=lambda row: PROBLEMS.index(row["problem"]))
        write(kept)
        OUT.with_suffix(".md").write_text(page(kept, settings()), encoding="utf-8")
        figures = {key: round(value, 2) for key, value in ratios(name, kept, N).items() if not isinstance(value, str)}
        print(f"{name}: {time.perf_counter() - began:.0f} s {figures}", flush=True)


if __name__ == "__main__":
    main()
