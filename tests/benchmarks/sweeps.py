"""Sweeps and solves again: one worker against two, what a case costs beyond its solve, a sweep that is killed, and a program that
takes other numbers beside CasADi's Opti with parameters. Writes results/benchmarks/sweeps.{csv,md}.

    python tests/benchmarks/sweeps.py [part ...] [--cases 100]     # parts that are not named stay as they are
    parts: again, opti, around, workers, dask, threads, kills

Solves again are measured in processor time, both sides in turn in one process; Opti has the same transcription (Hermite-Simpson
in separated form, 60 intervals), the same IPOPT, tolerance and first point. Workers are measured by wall time.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import casadi as ca
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from block_file import SOLVED_BLOCK  # noqa: E402  # the repository's own modules need the path above
from result_tables import FOLDER, read_table, write_page, write_table  # noqa: E402

import ocp  # noqa: E402
from ocp.app.batch.plan import Axis, cases  # noqa: E402
from ocp.app.batch.run import Sweep, swept  # noqa: E402
from ocp.app.files.load import load_problem  # noqa: E402
from ocp.batch.compiled import compiled  # noqa: E402

PROBLEMS = ROOT / "problems"
#: turns, solves in each, and solves beside Opti
TURNS, EACH, AGAIN = 11, 20, 12
#: file, method, and a path whose values differ from case to case
SOLVES = {"pendulum": ("pendulum_swingup", "collocation", "phase.start.joints.hinge"),
          "cart-pole": ("cartpole_swingup", "collocation", "phase.start.x"),
          "Panda": ("panda_reach", "collocation", "phase.start.joints.panda_joint1"),
          "leg with contacts": ("leg_leap", "collocation", "phases[2].final.joints.base_x"),
          "quadrotor": ("quadrotor", "collocation", "phase.start.base.position[0]"),
          "pendulum, iLQR": ("pendulum_swingup", "ilqr", "phase.start.joints.hinge"),
          "cart-pole, iLQR": ("cartpole_to_goal", "ilqr", "phase.start.x")}


def solves_again() -> list[dict[str, object]]:
    """Processor milliseconds of a solve from scratch; of one by the program that stands ready, as Python calls it and as workers
    do; and of IPOPT or the loops alone within it. The three take turns, each with the same cases one after another."""
    rows = []
    for name, (file, method, path) in SOLVES.items():
        begin = time.process_time()
        solver = ocp.load(PROBLEMS / f"{file}.yaml").compile(method)
        problem, made = solver.compiled.loaded.problem, solver.compiled.program
        first, value, times = time.process_time() - begin, float(solver._value(path)), []
        for turn in range(TURNS + 1):
            steps = [1e-3 * (turn % 5 + 1 + k / EACH) for k in range(EACH)]
            cases = [beside(problem, step) for step in steps]
            begin = time.process_time()
            shown = [solver.solve({path: value + step}, certify=False).objective for step in steps]
            middle = time.process_time()
            found = [made.solve(case, certified=False) for case in cases]
            times.append((middle - begin, time.process_time() - middle, sum(pure_time(made, case) for case in cases)))
            assert shown == [one.objective for one in found]
        times = 1e3 / EACH * np.array(times[1:])
        from_python, program, alone = map(float, np.median(times, axis=0))
        ratios = np.median(times[:, :2] / times[:, 2:], axis=0).tolist()
        rows.append({"problem": name, "iterations": len(found[-1].solution.iterations) - 1, "first [ms]": 1e3 * first,
                     "solver.solve [ms]": from_python, "program [ms]": program, "solver alone [ms]": alone, "ratio": ratios[0],
                     "ratio of the program": ratios[1]})
        print(rows[-1], flush=True)
    return rows


def beside(problem, step: float):
    """From a start whose first state is another; of several phases, to such a goal."""
    *rest, last = problem.phases
    name = "final" if rest else "start"
    end = getattr(last, name)
    moved = replace(end, value=(end.value[0] + step, *end.value[1:]))
    return replace(problem, phases=(*rest, replace(last, **{name: moved})))


def pure_time(made, case) -> float:
    """Of the same solve without what moves numbers and makes a solution of the point."""
    from ocp.batch.compiled import RETRY_BARRIER, WARM_BARRIER, pinned
    from ocp.methods import method
    from ocp.nlp import Warm

    program = made.program
    reduced = method(made.name).reduce(case, made.options)
    if hasattr(program, "solver"):
        own = program.program.moved(pinned(reduced, program.varied))
        solver = program.solver.moved(program.margins(own.nlp))
        point = made.base.point
        begin = time.process_time()
        solver.solve(Warm(point["x"], point["lam_x"], point["lam_g"], WARM_BARRIER, RETRY_BARRIER))
        return time.process_time() - begin
    from ocp.shooting import ilqr

    begin = time.process_time()
    ilqr.shot(program.program)
    return time.process_time() - begin


def beside_opti() -> list[dict[str, object]]:
    """The cart-pole from other starts and with another mass of the pole."""
    loaded = load_problem(PROBLEMS / "cartpole_swingup.yaml")
    tree = loaded.text.replace("m2: 0.3, l: 0.5, g: 9.81}", "l: 0.5, g: 9.81}\nparameters: {m2: 0.3}")
    tree = tree.replace("intervals: 100", "intervals: 60")
    from ocp.app.files.load import load_text
    from ocp.problem import with_parameters

    ours = load_text(tree, PROBLEMS)
    made = compiled(ours.problem, "collocation", ours.options_for("collocation"), parameters=("m2",))
    opti, start, mass, x, u = opti_cartpole(60)
    times: dict[str, list[float]] = {"ours": [], "Opti": []}
    worst = 0.0
    rng = np.random.default_rng(0)
    for _ in range(AGAIN):
        x0, m2 = (0.0, float(rng.uniform(-0.2, 0.2)), 0.0, 0.0), float(rng.uniform(0.25, 0.35))
        phase = ours.problem.phase
        case = with_parameters(replace(ours.problem, phases=(replace(phase, start=replace(phase.start, value=x0)),)), {"m2": m2})
        begin = time.process_time()
        found = made.solve(case, certified=False).solution
        times["ours"].append(time.process_time() - begin)
        opti.set_value(start, x0)
        opti.set_value(mass, m2)
        begin = time.process_time()
        solved = opti.solve()
        times["Opti"].append(time.process_time() - begin)
        worst = max(worst, abs(float(solved.value(opti.f)) / found.objective - 1))
        opti.set_initial(x, solved.value(x))
        opti.set_initial(u, solved.value(u))
    return [{"solver": name, "median [ms]": 1e3 * float(np.median(own)), "largest [ms]": 1e3 * max(own), "objectives differ": worst}
            for name, own in times.items()]


def opti_cartpole(count: int):
    """The problem in Opti: states and controls at knots and midpoints, defects of Hermite-Simpson in separated form."""
    opti = ca.Opti()
    x, u = opti.variable(4, 2 * count + 1), opti.variable(1, 2 * count + 1)
    start, m2 = opti.parameter(4), opti.parameter()
    m1, length, g, h = 1.0, 0.5, 9.81, 2.0 / count

    def rate(y, force):
        theta, v, omega = y[1], y[2], y[3]
        s, c = ca.sin(theta), ca.cos(theta)
        below = m1 + m2 * (1 - c**2)
        return ca.vertcat(v, omega, (length * m2 * s * omega**2 + force + m2 * g * c * s) / below,
                          -(length * m2 * c * s * omega**2 + force * c + (m1 + m2) * g * s) / (length * below))

    cost = 0
    for k in range(count):
        a, m, b = 2 * k, 2 * k + 1, 2 * k + 2
        fa, fm, fb = (rate(x[:, j], u[j]) for j in (a, m, b))
        opti.subject_to(x[:, b] - x[:, a] == h / 6 * (fa + 4 * fm + fb))
        opti.subject_to(x[:, m] == (x[:, a] + x[:, b]) / 2 + h / 8 * (fa - fb))
        cost += h / 6 * (u[a] ** 2 + 4 * u[m] ** 2 + u[b] ** 2)
    opti.minimize(cost)
    opti.subject_to(x[:, 0] == start)
    opti.subject_to(x[:, -1] == ca.vertcat(1, ca.pi, 0, 0))
    opti.subject_to(opti.bounded(-2, x[0, :], 2))
    opti.subject_to(opti.bounded(-20, u, 20))
    opti.set_initial(x, np.outer([1, np.pi, 0, 0], np.linspace(0, 1, 2 * count + 1)))
    opti.solver("ipopt", {"print_time": False}, {"print_level": 0, "sb": "yes", "tol": 1e-9})
    return opti, start, m2, x, u


def overhead(count: int) -> list[dict[str, object]]:
    """Processor milliseconds of a case, and of the sweep around it (tree, journal, points to the disk), in one process."""
    from ocp.app.batch import workers as rooms

    inner, spent = rooms.done, []

    def timed(work):
        begin = time.process_time()
        found = inner(work)
        spent.append(time.process_time() - begin)
        return found

    sweep = cartpole_sweep(count)
    with tempfile.TemporaryDirectory() as work:
        rooms.done = timed
        try:
            begin = time.process_time()
            swept(sweep, Path(work) / "sweep", processes=0)
            whole = time.process_time() - begin
        finally:
            rooms.done = inner
    return [{"cases": count, "first case, program built [ms]": 1e3 * spent[0],
             "median case, certified [ms]": 1e3 * float(np.median(spent)), "around it [ms]": 1e3 * (whole - sum(spent)) / count}]


def cartpole_sweep(count: int) -> Sweep:
    text = (PROBLEMS / "cartpole_swingup.yaml").read_text(encoding="utf-8")
    axes = [Axis("phase.start.theta", (), -0.3, 0.3, count // 10), Axis("constants.m2", (), 0.2, 0.4, 10)]
    return Sweep(text, str(PROBLEMS), "cartpole_swingup.yaml", tuple(axis.path for axis in axes), tuple(cases(axes)))


def workers(count: int) -> list[dict[str, object]]:
    """One process and two of this machine."""
    return compared(cartpole_sweep(count), {"1 process": {"processes": 1}, "2 processes": {"processes": 2}})


def on_dask(count: int) -> list[dict[str, object]]:
    """One process of this machine, and a scheduler with two workers, each a process of its own."""
    # workers else sample their own stack every 10 ms, and all look at their own event loops every 20 ms
    quiet = {"DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False", "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "1s"}
    sweep, environment = cartpole_sweep(count), {**os.environ, "PYTHONPATH": str(ROOT), **quiet}
    with tempfile.TemporaryDirectory() as work:
        file, begin = Path(work) / "scheduler.json", time.perf_counter()
        words = [sys.executable, "-m"]
        here = ["--scheduler-file", str(file), "--no-dashboard"]
        commands = [[*words, "distributed.cli.dask_scheduler", "--port", "0", "--host", "127.0.0.1", *here],
                    *([*words, "distributed.cli.dask_worker", "--nthreads", "1", "--no-nanny", *here],) * 2]
        running = [subprocess.Popen(own, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for own in commands]
        try:
            while not file.exists() or not file.read_text():
                time.sleep(0.1)
            address = json.loads(file.read_text())["address"]
            from distributed import Client

            with Client(address, timeout=60) as client:
                client.wait_for_workers(2, timeout=120)
            start = time.perf_counter() - begin
            rows = compared(sweep, {"1 process": {"processes": 1}, "Dask, 2 workers": {"scheduler": address}})
        finally:
            for own in running:
                own.kill()
                own.wait()
    return [{**row, "scheduler and workers stand after [s]": start if k else 0.0} for k, row in enumerate(rows)]


def compared(sweep: Sweep, ways: dict[str, dict[str, object]]) -> list[dict[str, object]]:
    """Wall seconds of a sweep in several ways, and whether the tables are those of the first."""
    rows, tables = [], []
    with tempfile.TemporaryDirectory() as work:
        for way, how in ways.items():
            place = Path(work) / str(len(rows))
            begin = time.perf_counter()
            found = swept(sweep, place, **how)
            wall = time.perf_counter() - begin
            tables.append((place / "cases.csv").read_bytes())
            spent = np.genfromtxt(place / "seconds.csv", delimiter=",", names=True)["seconds"]
            rows.append({"workers": way, "cases": len(found), "certified": sum(map(bool, found["ok"])), "wall [s]": wall,
                         "cases [s]": float(spent.sum()), "median case [ms]": 1e3 * float(np.median(spent)),
                         "speed-up": 1.0 if not rows else rows[0]["wall [s]"] / wall, "same table": tables[0] == tables[-1]})
            print(rows[-1], flush=True)
    return rows


def kills(count: int, times: int = 10, seed: int = 0) -> list[dict[str, object]]:
    """``ocp sweep`` by two processes, killed with all of them (signal 9) at moments that are drawn evenly, and begun again until it
    ends: its table, and how often each case is in its journal, beside one that nobody disturbs."""
    rng, rows = random.Random(seed), list[dict[str, object]]()
    axes = ("parameters.mass=1:2:20", f"phase.start.x=0:0.5:{count // 20}")
    with tempfile.TemporaryDirectory() as work:
        file = Path(work) / "block.yaml"
        file.write_text(SOLVED_BLOCK, encoding="utf-8")
        words = [sys.executable, "-m", "ocp.app.cli", "sweep", str(file), "-q", "-j", "2",
                 *(word for axis in axes for word in ("--over", axis))]
        whole = _until(words, Path(work) / "whole", None)
        place, dead, at = Path(work) / "killed", 0, list[int]()
        while dead < times and _until(words, place, rng.uniform(0.0, whole / 8)) < 0:
            dead += 1
            at.append(_lines(place))
        rest = _until(words, place, None)
        again = (place / "cases.csv").read_bytes() == (Path(work) / "whole" / "cases.csv").read_bytes()
        numbers = [line.split(b",")[0] for line in (place / "journal.jsonl").read_bytes().splitlines()]
        rows.append({"cases": count, "undisturbed [s]": whole, "kills": dead, "cases done at each": ",".join(map(str, at)),
                     "last run [s]": rest, "solved twice": len(numbers) - len(set(numbers)),
                     "missing": count - len(set(numbers)), "same table": again})
    return rows


def _lines(place: Path) -> int:
    journal = place / "journal.jsonl"
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


def _until(words: list[str], out: Path, seconds: float | None) -> float:
    """Wall seconds of a command to its end, which must be good; -1 where it was killed so many seconds after its first row."""
    begin, before = time.perf_counter(), _lines(out)
    process = subprocess.Popen([*words, "--out", str(out)], start_new_session=True, stdout=subprocess.DEVNULL,
                               env={**os.environ, "PYTHONPATH": str(PROBLEMS.parent)})
    while seconds is not None and process.poll() is None and _lines(out) == before:
        time.sleep(0.01)
    try:
        if process.wait(seconds):
            raise RuntimeError(f"exit code {process.returncode}")
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return -1.0
    return time.perf_counter() - begin


def threads() -> list[dict[str, object]]:
    """Wall seconds of tables by this process alone, by two threads and by two processes, from the program of a solver, which stands
    ready: of processes with their start."""
    rows = []
    counts = {"pendulum": (4000, 100), "cart-pole": (2000, 100), "Panda": (800, 40), "leg with contacts": (200, 30),
              "pendulum, iLQR": (4000, 100)}
    for name, (plain, certified) in counts.items():
        file, method, path = SOLVES[name]
        solver = ocp.load(PROBLEMS / f"{file}.yaml").compile(method)
        value = float(solver._value(path))
        for certify, count in ((False, plain), (True, certified)):
            table = {path: value + np.linspace(0.0, 0.01, count)}
            solver.solve_many({path: table[path][::count // 4]}, certify=certify)
            row: dict[str, object] = {"problem": name, "certificates": certify, "cases": count}
            first: list[object] = []
            for way, how in {"alone": {}, "2 threads": {"workers": 2, "by": "threads"},
                             "2 processes": {"workers": 2, "by": "processes"}}.items():
                begin = time.perf_counter()
                found = solver.solve_many(table, certify=certify, **how).rows
                row[f"{way} [s]"] = wall = time.perf_counter() - begin
                first = first or [wall, found]
                if how:
                    row[f"speed-up by {way[2:]}"] = first[0] / wall
            row["same rows"] = first[1] == found
            rows.append(row)
            print(row, flush=True)
    return rows


#: what measures each part
PARTS: dict[str, Callable[..., list[dict[str, object]]]] = {
    "again": solves_again, "opti": beside_opti, "around": overhead, "workers": workers, "dask": on_dask, "threads": threads,
    "kills": kills}


WITHOUT_COUNT = ("again", "opti", "threads")


def table(first: str, rows: list[dict[str, str]]) -> str:
    """Of a part, as Markdown. first: the heading of its first column."""
    def text(value: str) -> str:
        return f"{float(value):.3g}" if re.fullmatch(r"-?\d+\.\d+(e-?\d+)?", value) else value

    if not rows:
        return "Not measured."
    found = [{first: row["what"], **dict(one.rsplit(" ", 1) for one in row["figures"].split("; "))} for row in rows]
    return "\n".join([f"| {' | '.join(found[0])} |", "|---" * len(found[0]) + "|",
                      *(f"| {' | '.join(map(text, row.values()))} |" for row in found)])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=", ".join(PARTS))
    parser.add_argument("--cases", type=int, default=100)
    given = parser.parse_args()
    path = FOLDER / "sweeps.csv"
    rows: dict[str, list[dict[str, str]]] = {part: [row for row in read_table(path) if row["part"] == part] for part in PARTS}
    for part in given.parts:
        found = PARTS[part]() if part in WITHOUT_COUNT else PARTS[part](given.cases)
        rows[part] = [{"part": part, "what": str(next(iter(row.values()))),
                       "figures": "; ".join(f"{key} {value}" for key, value in list(row.items())[1:])} for row in found]
        write_table(path, [row for part in PARTS for row in rows[part]])
    write_page(path.with_suffix(".md"), page(rows).splitlines())


def page(rows: dict[str, list[dict[str, str]]]) -> str:
    return f"""# Sweeps, and solves with other numbers

Made by `tests/benchmarks/sweeps.py`, {os.cpu_count()} processors: wall times of workers are worth what the machine gave them;
processor times and ratios taken in turn do not depend on that.

## A program that stands ready

Processor time of the first solve with everything that is built for it, of a case with another start (of the leg: another
goal), up to 5 mm or mrad away, without its certificate, as Python calls it (``solver.solve``) and as workers do, and of the solver
alone within the same case.

{table("problem", rows["again"])}

## Beside Opti with parameters

Cart-pole, Hermite-Simpson in separated form, 60 intervals, other start angles and pole masses, in turn in one process. Opti starts
from its last solution, ours from the solution of the problem as its file has it.

{table("solver", rows["opti"])}

## What a case costs beyond its solve

The cart-pole over start angles and pole masses, processor time in one process: tree of neighbours, reading of the file with other
values, rows and points to the disk.

{table("cases", rows["around"])}

## Workers

The same sweep by wall time, start of the processes and a program built by each included.

{table("workers", rows["workers"])}

By a scheduler that stands, with two workers, each a process of its own that builds the program:

{table("workers", rows["dask"])}

## Threads

Tables of the program of a solver (``solver.solve_many``) by wall time: by one process, by two of its threads, and by two further
processes, whose start and copies of the program count.

{table("problem", rows["threads"])}

## Kills

A block over masses and starts, swept by two processes; all of them are killed (signal 9) at moments drawn from a seed, and the same
command begins again until the sweep is whole.

{table("cases", rows["kills"])}
"""


if __name__ == "__main__":
    main()
