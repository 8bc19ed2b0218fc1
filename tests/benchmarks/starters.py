"""Starter files of ``ocp init`` over every robot of the robots extra: which certify as they are written, and why the others do not.

    python tests/benchmarks/starters.py [--seconds 120] [name ...]

Writes ``results/benchmarks/starters.csv`` and ``starters.md``; with names, rows of the others stay. Each robot has a process of its
own, files cold, kernels as cached.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from result_tables import FOLDER, write_table

from dynamics.model.robots import robot_paths

ROOT = Path(__file__).resolve().parents[2]
OCP = [sys.executable, "-c", "from ocp.app.cli import main; main()"]
COLD = "## From an installed wheel, cold"  # written by hand: it needs an environment of its own
COLUMNS = ("robot", "nv", "verdict", "seconds", "objective", "why")


def attempt(name: str, seconds: float) -> dict[str, object]:
    """One robot from its file to a certified motion."""
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        written = subprocess.run([*OCP, "init", name, "--out", "starter.yaml"], cwd=folder, capture_output=True, text=True)
        if written.returncode:
            return {"robot": name, "verdict": "refused", "why": re.sub(r"\S*/", "", written.stderr.strip().splitlines()[0])[:200],
                    "seconds": f"{time.perf_counter() - begin:.1f}"}
        command = [*OCP, "solve", "starter.yaml", "--out", "run", "--quiet", "--time-limit", str(seconds)]
        solved = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        took = time.perf_counter() - begin
        summary = Path(folder) / "run" / "summary.json"
        if not summary.is_file():
            return {"robot": name, "verdict": "failed", "why": solved.stderr.strip()[-200:], "seconds": f"{took:.1f}"}
        found = json.loads(summary.read_text(encoding="utf-8"))
        why = [] if found["ok"] else [found["status"]["name"], *(found["certificate"] or {}).get("failures", [])]
        text = (Path(folder) / "starter.yaml").read_text(encoding="utf-8")
        notes = [line.removeprefix("# Note: ") for line in text.splitlines() if line.startswith("# Note")]
        return {"robot": name, "nv": found["sizes"]["states"] // 2, "verdict": "certified" if found["ok"] else "not certified",
                "seconds": f"{took:.1f}", "objective": found["objective"], "why": "; ".join([*map(str, why), *notes])[:300]}


def write(rows: list[dict[str, object]], seconds: float) -> None:
    """The table as CSV and as a page."""
    write_table(FOLDER / "starters.csv", rows, COLUMNS)
    moving = [row for row in rows if row["verdict"] != "refused"]
    good = [row for row in moving if row["verdict"] == "certified"]
    times = sorted(float(str(row["seconds"])) for row in good)
    left = [name for name in robot_paths() if name not in {row["robot"] for row in rows}]
    words = (f"`ocp init ROBOT`, then `ocp solve` of the file as it is written, at most {seconds:g} s: {len(good)} of "
             f"{len(moving)} certified, median {times[len(times) // 2]:.1f} s, slowest {times[-1]:.1f} s, each in a process of its "
             "own with everything read and built anew, on two cores that other work was keeping busy (load 3 to 25): "
             "processor time, where it was looked at, is a sixth to a ninth. "
             "Refused are robots without a moving joint and files that cannot be read."
             + (f" Not measured yet: {', '.join(left)}." if left else ""))
    heading = ["| robot | degrees of freedom | verdict | seconds | remark |", "|---|---:|---|---:|---|"]
    lines = ["# Starter files over the robots extra", "", words, "", *heading]
    lines += [f"| {' | '.join(str(row.get(key, '')) for key in ('robot', 'nv', 'verdict', 'seconds', 'why'))} |" for row in rows]
    page = FOLDER / "starters.md"
    _, cold, kept = page.read_text(encoding="utf-8").partition(COLD) if page.is_file() else ("", "", "")
    page.write_text("\n".join(lines) + "\n" + (f"\n{cold}{kept}" if cold else ""), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seconds", type=float, default=120.0)
    given = parser.parse_args()
    rows: dict[str, dict[str, object]] = {}
    if given.names and (table := FOLDER / "starters.csv").is_file():
        with table.open(encoding="utf-8", newline="") as file:
            rows = {row["robot"]: dict(row) for row in csv.DictReader(file)}
    for name in given.names or robot_paths():
        rows[name] = attempt(name, given.seconds)
        print(rows[name], flush=True)
        if any(row["verdict"] == "certified" for row in rows.values()):
            write([rows[known] for known in robot_paths() if known in rows], given.seconds)


if __name__ == "__main__":
    main()
