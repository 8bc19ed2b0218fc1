"""Sweeps and solves again: one worker against two, what a case costs beyond its solve, a sweep that is killed, and a program that
takes other numbers beside CasADi's Opti with parameters. Writes results/benchmarks/sweeps.{csv,md}.

    python tests/benchmarks/sweeps.py [part ...] [--cases 100]     # parts that are not named stay as they are

Solves again are measured in processor time, both sides in turn in one process; Opti has the same transcription (Hermite-Simpson
in separated form, 60 intervals), the same IPOPT, tolerance and first point. Workers are measured by wall time.
"""

from __future__ import annotations

import argparse
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

from ocp.app.batch.plan import Axis, cases  # noqa: E402
from ocp.app.batch.run import Sweep, swept  # noqa: E402
from ocp.app.files.load import load_problem  # noqa: E402
from ocp.batch.compiled import compiled  # noqa: E402

PROBLEMS = ROOT / "problems"
TURNS, AGAIN = 5, 12
SOLVES = {"pendulum": ("pendulum_swingup", "collocation"), "cart-pole": ("cartpole_swingup", "collocation"),
          "Panda": ("panda_reach", "collocation"), "leg with contacts": ("leg_leap", "collocation"),
          "quadrotor": ("quadrotor", "collocation"), "pendulum, iLQR": ("pendulum_swingup", "ilqr"),
          "cart-pole, iLQR": ("cartpole_to_goal", "ilqr")}


def solves_again() -> list[dict[str, object]]:
    """Processor milliseconds of a solve from scratch, of one by the program that stands ready, and of IPOPT or the loops alone
    within it."""
    rows = []
    for name, (file, method) in SOLVES.items():
        loaded = load_problem(PROBLEMS / f"{file}.yaml")
        options = loaded.options_for(method)
        begin = time.process_time()
        made = compiled(loaded.problem, method, options)
        first = time.process_time() - begin
        whole, pure = [], []
        for k in range(TURNS):
            case = beside(loaded.problem, 1e-3 * (k + 1))
            begin = time.process_time()
            found = made.solve(case, certified=False)
            whole.append(time.process_time() - begin)
            pure.append(pure_time(made, case))
        rows.append({"problem": name, "iterations": len(found.solution.iterations) - 1, "first [ms]": 1e3 * first,
                     "again [ms]": 1e3 * float(np.median(whole)), "solver alone [ms]": 1e3 * float(np.median(pure)),
                     "ratio": float(np.median(np.array(whole) / np.array(pure)))})
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
    """Wall seconds of a sweep by one process and by two, its overhead a case, and whether the tables are the same."""
    sweep = cartpole_sweep(count)
    rows, tables = [], []
    with tempfile.TemporaryDirectory() as work:
        for processes in (1, 2):
            place = Path(work) / str(processes)
            begin = time.perf_counter()
            found = swept(sweep, place, processes=processes)
            wall = time.perf_counter() - begin
            tables.append((place / "cases.csv").read_bytes())
            spent = np.genfromtxt(place / "seconds.csv", delimiter=",", names=True)["seconds"]
            rows.append({"processes": processes, "cases": len(found), "certified": sum(map(bool, found["ok"])), "wall [s]": wall,
                         "cases [s]": float(spent.sum()), "median case [ms]": 1e3 * float(np.median(spent))})
    for row in rows:
        row |= {"speed-up": rows[0]["wall [s]"] / row["wall [s]"], "same table": tables[0] == tables[1]}
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
    """What threads could win at most: the part of a case that is spent in compiled loops, which need no lock of the interpreter,
    and by it the speed-up of two threads (Amdahl 1967), with the certificate and without."""
    from ocp.nlp.interior_point import prepare

    rows, inner, spent, released = list[dict[str, object]](), prepare.advance, [0.0], _releases()

    def timed(*given):
        begin = time.process_time()
        inner(*given)
        spent[0] += time.process_time() - begin

    prepare.advance = timed
    try:
        for name in ("pendulum", "cart-pole", "Panda"):
            loaded = load_problem(PROBLEMS / f"{SOLVES[name][0]}.yaml")
            made = compiled(loaded.problem, SOLVES[name][1], loaded.options_for(SOLVES[name][1]))
            row: dict[str, object] = {"problem": name}
            for certified, word in ((False, "solve"), (True, "with certificate")):
                begin, spent[0] = time.process_time(), 0.0
                for k in range(TURNS):
                    case = beside(loaded.problem, 1e-3 * (k + 1))
                    assert made.solve(case, certified=certified).solution.trajectory is not None
                share = spent[0] / (time.process_time() - begin)
                row |= {f"{word}: in loops": share, f"{word}: two threads at most": 1 / (1 - share / 2)}
            rows.append(row)
    finally:
        prepare.advance = inner
    return [{**row, "CasADi releases the lock": released} for row in rows]


def _releases() -> bool:
    """Whether another thread gets on while a function of CasADi is evaluated."""
    import threading

    x = ca.SX.sym("x")
    y = x
    for _ in range(200):
        y = ca.sin(y)
    f = ca.Function("f", [x], [y])
    many = f.map(100_000)
    count, stop, data = [0], threading.Event(), np.ones((1, 100_000))

    def counting() -> None:
        while not stop.is_set():
            count[0] += 1
            time.sleep(1e-4)

    thread = threading.Thread(target=counting)
    thread.start()
    inside = ca.DM(data)
    before = count[0]
    many(inside)
    after = count[0]
    stop.set()
    thread.join()
    return after - before > 10


#: what measures each part
PARTS: dict[str, Callable[..., list[dict[str, object]]]] = {
    "again": solves_again, "opti": beside_opti, "around": overhead, "workers": workers, "threads": threads, "kills": kills}


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
        found = PARTS[part]() if part in ("again", "opti", "threads") else PARTS[part](given.cases)
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
goal), up to 5 mm or mrad away, without its certificate, and of the solver alone within the same case.

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

{table("processes", rows["workers"])}

Threads are not offered: of a case with its certificate little is spent in compiled loops, which need no lock of the interpreter.
Functions of CasADi release it, too; what they take of a certificate is not in these figures.

{table("problem", rows["threads"])}

## Kills

A block over masses and starts, swept by two processes; all of them are killed (signal 9) at moments drawn from a seed, and the same
command begins again until the sweep is whole.

{table("cases", rows["kills"])}
"""


if __name__ == "__main__":
    main()
