"""How long a newcomer waits: ``ocp solve problems/cartpole_swingup.yaml`` as a whole process, cold and warm.

    python tests/benchmarks/first_solve.py

Cold: no kernel cache, no byte code and no Numba cache, as after a fresh installation. Warm: the same command again. Whole-process
wall time, by this script's clock. Writes results/benchmarks/first_solve.csv and .md.
"""

from __future__ import annotations

import csv
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from ocp.app.pipeline import processor  # noqa: E402  # the repository's own package needs the path above

CASES = [("cartpole_swingup", "collocation"), ("cartpole_to_goal", "ilqr"), ("quadrotor", "ilqr"), ("ur5_reach", "collocation")]
COLD, WARM = 3, 5


def once(problem: str, method: str, caches: str, out: str) -> float:
    environment = dict(os.environ, LIEOCP_CACHE_DIR=f"{caches}/kernels", PYTHONPYCACHEPREFIX=f"{caches}/bytecode",
                       NUMBA_CACHE_DIR=f"{caches}/numba", MPLCONFIGDIR=f"{caches}/matplotlib", PYTHONPATH=str(ROOT))
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", "from ocp.app.cli import main; main()", "solve", f"problems/{problem}.yaml", "--method",
                    method, "--out", out, "--overwrite", "--quiet"], cwd=ROOT, env=environment, check=True, capture_output=True)
    return time.perf_counter() - begin


def main() -> None:
    rows = []
    for problem, method in CASES:
        cold, warm = [], []
        for _ in range(COLD):
            with tempfile.TemporaryDirectory() as folder:
                cold.append(once(problem, method, f"{folder}/caches", f"{folder}/run"))
                if len(cold) == COLD:
                    warm = [once(problem, method, f"{folder}/caches", f"{folder}/run") for _ in range(WARM)]
        rows.append({"problem": problem, "method": method, "cold_s": statistics.median(cold), "cold_max_s": max(cold),
                     "warm_s": statistics.median(warm), "warm_max_s": max(warm)})
        print(f"{problem:<20} {method:<12} cold {rows[-1]['cold_s']:.2f} s (max {rows[-1]['cold_max_s']:.2f})  "
              f"warm {rows[-1]['warm_s']:.2f} s (max {rows[-1]['warm_max_s']:.2f})", flush=True)
    folder = ROOT / "results" / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "first_solve.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows({k: f"{v:.3f}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)
    lines = ["# Time to the first answer", "",
             f"{processor()}; Python {sys.version.split()[0]}. Whole process `ocp solve`, pictures and report included:",
             f"median (largest) of {COLD} cold and {WARM} warm runs, in seconds. Cold: no kernel, byte-code or Numba cache.",
             "Written by tests/benchmarks/first_solve.py.", "", "| problem | method | cold | warm |", "|---|---|---|---|"]
    lines += [f"| {r['problem']} | {r['method']} | {r['cold_s']:.2f} ({r['cold_max_s']:.2f}) | "
              f"{r['warm_s']:.2f} ({r['warm_max_s']:.2f}) |" for r in rows]
    (folder / "first_solve.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
