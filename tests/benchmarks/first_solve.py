"""How long a newcomer waits: ``ocp solve`` as a whole process, cold and warm.

    python tests/benchmarks/first_solve.py

Cold: right after ``pip install -e .``: no kernel cache, no Numba cache and no byte code of ours; that of other packages is there,
for pip writes it. Warm: the same command again. Verdict: when it is printed; pictures and report come afterwards. By this script's
clock, and in seconds of the processor, which other processes on the machine disturb less. Writes results/benchmarks/first_solve.csv
and .md.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from result_tables import FOLDER, write_page, write_table

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from ocp.app.pipeline import processor  # noqa: E402  # the repository's own package needs the path above

# problem, method, further arguments, cold runs: those that wait for a compiler half a minute and more are made once
CASES = [("cartpole_swingup", "collocation", (), 3), ("ur5_reach", "collocation", (), 3), ("quadrotor", "ilqr", (), 1),
         ("cartpole_swingup", "collocation", ("--set", "solve.collocation.solver=interior_point"), 1)]
WARM = 5
CLOCKS = ("verdict", "whole", "processor")


def installed(folder: str) -> str:
    """A copy of what a clone holds, without byte code."""
    for part in ("dynamics", "ocp", "problems"):
        shutil.copytree(ROOT / part, Path(folder) / "clone" / part, ignore=shutil.ignore_patterns("__pycache__"))
    return f"{folder}/clone"


def once(problem: str, method: str, more: tuple[str, ...], clone: str, out: str) -> tuple[float, float, float]:
    """Seconds to the verdict, of the whole process, and of the processor."""
    caches = f"{out}-caches"
    environment = dict(os.environ, LIEOCP_CACHE_DIR=f"{caches}/kernels", NUMBA_CACHE_DIR=f"{caches}/numba",
                       MPLCONFIGDIR=f"{caches}/matplotlib", PYTHONPATH=clone, PYTHONUNBUFFERED="1")
    for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"):
        environment.pop(name, None)
    before, begin, verdict = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter(), float("nan")
    command = [sys.executable, "-c", "from ocp.app.cli import main; main()", "solve", f"problems/{problem}.yaml", "--method",
               method, "--out", out, "--overwrite", "--quiet", *more]
    with subprocess.Popen(command, cwd=clone, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "written to" in line:
                verdict = time.perf_counter() - begin
    if process.returncode:
        raise RuntimeError(f"{problem} by {method} ended with code {process.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return verdict, time.perf_counter() - begin, used


def main() -> None:
    rows = []
    for problem, method, more, count in CASES:
        runs: dict[str, list[tuple[float, float, float]]] = {"cold": [], "warm": []}
        for last in range(count):
            with tempfile.TemporaryDirectory() as folder:
                place = problem, method, more, installed(folder), f"{folder}/run"
                runs["cold"].append(once(*place))
                if last == count - 1:
                    runs["warm"] = [once(*place) for _ in range(WARM)]
        row = {"problem": problem, "method": "interior_point" if more else method}
        row |= {f"{when}_{clock}_s": f"{statistics.median(run[k] for run in found):.2f}"
                for when, found in runs.items() for k, clock in enumerate(CLOCKS)}
        rows.append(row)
        print(row, flush=True)
    write_table(FOLDER / "first_solve.csv", rows)
    lines = ["# Time to the first answer", "",
             f"{processor()}, shared with other work; Python {sys.version.split()[0]}. Process `ocp solve`, medians in seconds of",
             f"3 cold runs (1 of iLQR and of the interior-point method) and {WARM} warm ones. Cold: right after `pip install",
             "-e .`, no kernel or Numba cache and no byte code but that of other packages, which pip writes (tables up to version",
             "0.8.0 threw that away, too: some two seconds more). Verdict: until it is printed; whole: pictures and report",
             "included; processor: user and system time of it.",
             f"Load of the machine at the end: {os.getloadavg()[1]:.1f}. Written by tests/benchmarks/first_solve.py.", "",
             "| problem | method | cold: verdict | whole | processor | warm: verdict | whole | processor |",
             "|---|---|---:|---:|---:|---:|---:|---:|"]
    lines += ["| " + " | ".join(row.values()) + " |" for row in rows]
    write_page(FOLDER / "first_solve.md", lines)


if __name__ == "__main__":
    main()
