"""Whether limits of time are kept: slow problems with ``--time-limit 5``, or another, a process each.

    python tests/benchmarks/time_limits.py [--limit 20] [words of names]

Contacts of a quadruped in every formulation, the slowest of the gallery and of tests/first_files, a first run without caches, and
other commands. Overrun: wall clock of the process after the limit, less what a process takes that does nothing; beside it the
seconds of the processor, which tell how much of the machine the process had. Ended: by itself, or by its supervisor, which kills
what stays inside one operation. Writes results/benchmarks/time_limits.csv and .md.
"""

from __future__ import annotations

import csv
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from ocp.app.pipeline import processor  # noqa: E402  # the repository's own package needs the path above

LIMIT = 5.0
FEET = "".join(f"    - {{name: {name}, contact: {{frame: {name}_FOOT, friction: 0.7}}}}\n" for name in ("FL", "FR", "HL", "HR"))
SYSTEM = "system:\n  robot: robots:solo12\n  root: free_flyer\n  formulation: FORMULATION\n  constraints:\n" + FEET
STAND = 'base: {position: [0, 0, "0.32*cos(0.8)"], rpy: [0, 0, 0]}, rest: true'
START = f"start: {{configuration: straight_standing, {STAND}}}"
COSTS = 'costs: [{name: effort, running: "dot(tau, tau)"}, {name: calm, running: "0.01*dot(v, v)"}]'
SQUAT = f"""name: Quadruped squats
{SYSTEM}phase:
  duration: 0.6
  {START}
  final: {{base: {{position: [0, 0, 0.14], rpy: [0, 0, 0]}}, rest: true}}
  {COSTS}
"""
JUMP = f"""name: Quadruped jumps
{SYSTEM}phases:
  - {{name: push, contacts: [FL, FR, HL, HR], duration: 0.4, {START}, {COSTS}}}
  - {{name: flight, contacts: [], duration: 0.25, {COSTS}}}
  - {{name: landing, contacts: [FL, FR, HL, HR], reset: {{impact: true}}, duration: 0.4, final: {{{STAND}}}, {COSTS}}}
"""
MADE = {f"{name}_{formulation.partition('_')[0]}": text.replace("FORMULATION", formulation) for name, text, formulation in (
    ("squat", SQUAT, "forward_dynamics"), ("squat", SQUAT, "residual"), ("squat", SQUAT, "inverse_dynamics"),
    ("jump", JUMP, "forward_dynamics"), ("jump", JUMP, "residual"))}
#: name, command, file, further arguments; "first" runs without caches
CASES: list[tuple[str, str, str, tuple[str, ...]]] = [
    *((name, "solve", name, ()) for name in MADE),
    ("squat_forward by ilqr", "solve", "squat_forward", ("--method", "ilqr")),
    ("squat_residual by interior point", "solve", "squat_residual",
     ("--set", "solve.collocation.solver=interior_point", "--set", "solve.collocation.kernels=compiled")),
    *((name, "solve", f"problems/{name}.yaml", ()) for name in (
        "monopod_hopping", "leg_leap", "quadruped_righting", "hexacopter_arm", "free_floating_robot_min_time")),
    *((name, "solve", f"tests/first_files/{name}.yaml", ()) for name in (
        "kinova_min_time", "alp_rider", "talos_min_time", "iris_min_time", "solo_righting")),
    ("first run of cartpole_to_goal", "solve", "problems/cartpole_to_goal.yaml", ("--method", "ilqr")),
    ("compare leg_leap", "compare", "problems/leg_leap.yaml", ()),
    ("explain kinova_min_time", "explain", "tests/first_files/kinova_min_time.yaml", ()),
    ("mpc panda_track", "mpc", "problems/mpc/panda_track.yaml", ()),
    ("wbc humanoid_squats", "wbc", "problems/wbc/humanoid_squats.yaml", ()),
    ("derivatives of talos_reduced", "derivatives", "talos_reduced", ()),
    ("verify the gallery", "verify", "problems", ()),
]
FOLDERLESS = ("explain",)
HEADINGS = ("problem", "seconds", "overrun", "processor", "ended", "status", "left out")


def once(name: str, command: str, file: str, more: tuple[str, ...], idle: float, folder: Path) -> dict[str, object]:
    """A row of the table."""
    made, out = folder / f"{file}.yaml", folder / "out"
    if file in MADE:
        made.write_text(MADE[file], encoding="utf-8")
    environment = dict(os.environ, PYTHONPATH=str(ROOT))
    if name.startswith("first"):
        environment |= {"LIEOCP_CACHE_DIR": f"{folder}/kernels", "NUMBA_CACHE_DIR": f"{folder}/numba"}
    words = [sys.executable, "-m", "ocp.app.cli", command, str(made) if file in MADE else file, *more, "--quiet", "--time-limit",
             str(LIMIT), *(() if command in FOLDERLESS else ("--out", str(out)))]
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    run = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    killed = "was ended" in run.stderr or "pictures and report are left out" in run.stderr
    status, left = _told(out / "summary.json", run)
    row = {"problem": name, "seconds": f"{wall:.2f}", "overrun": f"{wall - LIMIT - idle:.2f}", "processor": f"{used:.2f}",
           "ended": "by supervisor" if killed else "by itself", "status": status, "left out": left}
    print(row, flush=True)
    return row


def _told(summary: Path, run: subprocess.CompletedProcess[str]) -> tuple[str, str]:
    """(status, what was left out)."""
    if not summary.is_file():
        last = (run.stderr.strip().splitlines() or run.stdout.strip().splitlines() or [""])[-1]
        return f"exit code {run.returncode}: {last}"[:120], ""
    record = json.loads(summary.read_text(encoding="utf-8"))
    found = [f"{one['name']}{' (' + ', '.join(parts) + ')' if (parts := one['data'].get('parts')) else ''}"
             for one in record.get("findings", []) if one["kind"] == "left_out"]
    status = record.get("status", {}).get("name") or record.get("verdict") or f"exit code {run.returncode}"
    if record.get("ok"):
        status += ", certified"
    return str(status), "; ".join(found)


def main(words: list[str]) -> None:
    global LIMIT
    if words[:1] == ["--limit"]:
        LIMIT, words = float(words[1]), words[2:]
    idle = []
    for _ in range(5):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-m", "ocp.app.cli", "--version"], cwd=ROOT, env=dict(os.environ, PYTHONPATH=str(ROOT)),
                       capture_output=True, check=True)
        idle.append(time.perf_counter() - begin)
    rows = []
    for case in CASES:
        if words and not any(word in case[0] for word in words):
            continue
        with tempfile.TemporaryDirectory() as folder:
            rows.append(once(*case, statistics.median(idle), Path(folder)))
    if words:
        return
    target = ROOT / "results" / "benchmarks" / f"time_limits{'' if LIMIT == 5 else f'_{LIMIT:g}'}"
    with open(f"{target}.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, HEADINGS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    worst = max(rows, key=lambda row: float(str(row["overrun"])))
    lines = ["# Limits of time", "",
             f"{processor()}, shared with other work (load at the end {os.getloadavg()[0]:.1f}); Python "
             f"{sys.version.split()[0]}. A process each, `--time-limit {LIMIT:g}`. Overrun: of the",
             f"whole process after the limit, less the {statistics.median(idle):.2f} s that a process takes which does nothing; "
             "processor: its user and system time. Written by",
             "tests/benchmarks/time_limits.py.", "",
             f"Largest overrun: {worst['overrun']} s ({worst['problem']}).", "",
             f"| {' | '.join(HEADINGS)} |", "|---|---:|---:|---:|---|---|---|",
             *(f"| {' | '.join(str(row[key]).replace('|', ' ') for key in HEADINGS)} |" for row in rows)]
    Path(f"{target}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
