"""From a robot's URDF file to its first contracted Hessian of inverse dynamics, in a new process: generated code and loops, with
empty caches and with full ones.

    pip install "lieocp[robots]" && python tests/benchmarks/time_to_first.py

Wall-clock seconds, and seconds of processor time (compiler included), which other work on the machine disturbs less. Caches are in
temporary folders, so that nothing of the user's is used or touched. Writes results/benchmarks/time_to_first.csv and .md.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from result_tables import FOLDER, write_page, write_table

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from ocp.app.pipeline import processor  # noqa: E402  # the repository's own packages need the path above

ROBOTS = {"HyQ": "hyq_no_sensors", "Talos": "talos_full_v2"}
# seconds: generated code with nothing cached by robot; generated code from the cache beyond imports; loops beyond imports
GENERATED, CACHED, LOOPS = {"HyQ": 15.0, "Talos": 60.0}, 0.5, 2.0
REPEATS = 5  # of what is cached; what is compiled is done once or twice
TIMER = """
import json, resource, sys, time
laps, at = {}, [0.0, 0.0]
def now():
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return time.perf_counter(), own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
def lap(name):
    t = now()
    laps[name] = [t[0] - at[0], t[1] - at[1]]
    at[:] = now()
at[:] = now()
"""
STATE = "v = a = lam = np.linspace(-1.0, 1.0, model.nv)\n"
SCRIPTS = {
    "generated code": TIMER + """
import numpy as np
from dynamics import algorithms as alg
from dynamics.derivatives import inverse_dynamics_hessian
from dynamics.kernels import compile_kernel, remembered
from dynamics.model.urdf import read_urdf
lap("imports")
model = read_urdf(sys.argv[1], root="free_flyer", mimic="independent")
lap("URDF")
function = remembered(["inverse_dynamics_hessian", model.fingerprint], lambda: inverse_dynamics_hessian(model))
lap("expressions")
kernel = compile_kernel(function, "compiled")
lap("kernel")
""" + STATE + """
H = kernel(alg.neutral(model), v, a, lam)[3]
lap("first call")
print(json.dumps([laps, float(np.abs(H).sum()), kernel.cache_hit, function.n_instructions()]))
""",
    "loops": TIMER + """
import numpy as np
from dynamics import algorithms as alg
from dynamics.loops import LoopDynamics
from dynamics.model.urdf import read_urdf
lap("imports")
model = read_urdf(sys.argv[1], root="free_flyer", mimic="independent")
lap("URDF")
loops = LoopDynamics(model)
lap("expressions")
lap("kernel")
""" + STATE + """
H = loops.contracted_second_order(alg.neutral(model), v, a, lam, symmetric=False)[0]
lap("first call")
print(json.dumps([laps, float(np.abs(H).sum()), True, 0]))
"""}
PHASES = ("imports", "URDF", "expressions", "kernel", "first call")


def run(script: str, path: Path, caches: str) -> tuple[dict[str, list[float]], float, bool]:
    """(phase -> [wall, processor] seconds, sum of the absolute entries of qq, whether nothing was compiled to C)."""
    environment = {**os.environ, "LIEOCP_CACHE_DIR": f"{caches}/kernels", "NUMBA_CACHE_DIR": f"{caches}/numba"}
    done = subprocess.run([sys.executable, "-c", script, str(path)], cwd=ROOT, env=environment, capture_output=True, text=True,
                          check=True)
    laps, total, hit, _ = json.loads(done.stdout)
    return laps, total, hit


def cases(name: str, path: Path):
    """Rows of one robot: execution, state of the caches, phases by wall and by processor."""
    totals = []
    for execution, script in SCRIPTS.items():
        with tempfile.TemporaryDirectory() as caches:
            for cache, times in (("empty", 1), ("full", REPEATS)):
                results = [run(script, path, caches) for _ in range(times)]
                totals += [total for _, total, _ in results]
                assert all(hit == (cache == "full") for _, _, hit in results) or execution == "loops"
                row = {"robot": name, "execution": execution, "cache": cache}
                for k, kind in enumerate(("wall", "cpu")):
                    row |= {f"{phase} {kind}": statistics.median(laps[phase][k] for laps, _, _ in results) for phase in PHASES}
                    row[f"total {kind}"] = statistics.median(sum(laps[p][k] for p in PHASES) for laps, _, _ in results)
                    row[f"beyond imports {kind}"] = statistics.median(
                        sum(laps[p][k] for p in PHASES if p != "imports") for laps, _, _ in results)
                row["load"] = os.getloadavg()[0]
                yield row
    # all of them made the same Hessian
    assert max(totals) - min(totals) < 1e-8 * max(totals), totals


def aims(rows: list[dict]) -> list[tuple[str, str, float, float, float]]:
    """(aim, robot, limit, wall seconds, processor seconds)."""
    out = []
    for row in rows:
        key, robot = (row["execution"], row["cache"]), row["robot"]
        if key == ("generated code", "empty"):
            out.append(("generated code, nothing cached, imports included", robot, GENERATED[robot], row["total wall"],
                        row["total cpu"]))
        else:
            limit = CACHED if row["execution"] == "generated code" else LOOPS
            words = "in the cache" if row["cache"] == "full" else "nothing cached"
            out.append((f"{row['execution']}, {words}, beyond imports", robot, limit, row["beyond imports wall"],
                        row["beyond imports cpu"]))
    return out


def write(rows: list[dict]) -> None:
    write_table(FOLDER / "time_to_first.csv", rows, digits=".4g")
    lines = [
        "# From a URDF file to the first contracted Hessian", "",
        f"{processor()}; a new process each time, {REPEATS} times where the caches are full (median), once where they are",
        "empty. The robots have a floating base. Seconds by the clock, and in brackets seconds of processor time, compiler",
        "included; the load average while measuring is in the last column (2 cores: above 2 the clock runs ahead of the work).",
        "Loops have no expressions and no kernel: their compilation is in the first call. They are the default inside solvers for",
        "robots of this size; generated code is what `compile_kernel` makes. No other tool is compared here. Written by",
        "tests/benchmarks/time_to_first.py.", "",
        "| robot | execution | caches | " + " | ".join(PHASES) + " | total | beyond imports | load |",
        "|---" * (len(PHASES) + 6) + "|",
    ]
    columns = (*PHASES, "total", "beyond imports")
    lines += [f"| {r['robot']} | {r['execution']} | {r['cache']} | "
              + " | ".join(f"{r[c + ' wall']:.2f} ({r[c + ' cpu']:.2f})" for c in columns) + f" | {r['load']:.1f} |" for r in rows]
    lines += ["", "## Aims", "", "| what | robot | aim | by the clock | processor | met |", "|---|---|---|---|---|---|"]
    lines += [f"| {what} | {robot} | {limit:g} | {wall:.2f} | {cpu:.2f} | {'yes' if wall <= limit else '**no**'} |"
              for what, robot, limit, wall, cpu in aims(rows)]
    write_page(FOLDER / "time_to_first.md", lines)


def main(names: list[str]) -> None:
    from dynamics.model.robots import find_robot

    rows = []
    for name in names or ROBOTS:
        for row in cases(name, find_robot(ROBOTS[name])):
            rows.append(row)
            print(f"{name:<6} {row['execution']:<15} {row['cache']:<6} " + "  ".join(
                f"{c} {row[c + ' wall']:.2f} ({row[c + ' cpu']:.2f})" for c in (*PHASES, "total")), f" load {row['load']:.1f}",
                flush=True)
    if not names:
        write(rows)


if __name__ == "__main__":
    main(sys.argv[1:])
