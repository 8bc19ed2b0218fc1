"""Pushes that a standing quadruped survives under whole-body control, on MuJoCo: by strength and direction, and random ones.

    pip install lieocp mujoco && python tests/benchmarks/wbc_pushes.py [sequence]

The quadruped of problems/models stands on four point feet (friction 0.6, of which the controller counts on 0.95) at 250 Hz and is
pushed at its trunk for 0.1 s. It survives if it stands 1.5 s later, every step was solved, no commanded force left its cone, no
torque its limit, and equations held. The first table: impulses by direction. The second: PUSHES random ones, uniform in
direction on the circle and in impulse up to 16 N s. "sequence": thirty seconds of the tasks of problems/wbc/quadruped_push.yaml,
over and over.

Writes results/benchmarks/wbc_pushes.csv, .md and .png.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from result_tables import FOLDER, write_table

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import matplotlib  # noqa: E402  # threads are set before anything loads BLAS

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from ocp.app.files.control.wbc import load_wbc_text  # noqa: E402  # the repository's packages need the path above
from ocp.wbc import run  # noqa: E402
from ocp.wbc.result import WholeBodyRun  # noqa: E402

FILE = ROOT / "problems" / "wbc" / "quadruped_push.yaml"
PUSHES = int(os.environ.get("WBC_PUSHES", "100"))
LASTS, STRONGEST, SEED = 0.1, 16.0, 7
STRENGTHS, DIRECTIONS = (4.0, 8.0, 12.0, 16.0), 8
PERIOD = 5.0  # s of one round of the sequence


def pushed(angle: float, impulse: float) -> WholeBodyRun:
    """One run: 0.2 s of standing, the push, 1.5 s afterwards."""
    head = FILE.read_text(encoding="utf-8").split("schedule:")[0]
    force = impulse / LASTS * np.array([np.cos(angle), np.sin(angle), 0.0])
    push = f"schedule: [{{time: 0.2, over: {LASTS}, push: {{frame: trunk, force: [{force[0]}, {force[1]}, 0]}}}}]\n"
    loaded = load_wbc_text(head + push + "wbc: {rate: 250, duration: 1.8}\n", FILE.parent)
    return run(loaded.setup, loaded.plant("mujoco"))


def sequence(seconds: float) -> WholeBodyRun:
    """The file's own schedule again and again."""
    head, rest = FILE.read_text(encoding="utf-8").split("schedule:")
    lines = [line for line in rest.splitlines() if line.strip().startswith("- ")]
    entries = []
    for k in range(round(seconds / PERIOD)):
        for line in lines:
            moment = float(line.split("time:")[1].split(",")[0].split("}")[0])
            line = line.replace("by: [0.04, 0, ", f"by: [{-0.04 if k % 2 else 0.04}, 0, ")  # there and back again
            entries.append(line.replace(f"time: {line.split('time:')[1].split(',')[0].strip()}", f"time: {moment + k * PERIOD}", 1))
    text = head + "schedule:\n" + "\n".join(entries) + f"\nwbc: {{rate: 250, duration: {seconds:g}}}\n"
    loaded = load_wbc_text(text, FILE.parent)
    return run(loaded.setup, loaded.plant("mujoco"))


def told(found: WholeBodyRun) -> dict[str, float | str | int]:
    share = max(float(np.nanmax(c.share[:, 0], initial=0.0)) for c in found.contacts)
    return {"survived": int(found.ok), "ending": found.ending.name.lower(), "without_solution": found.failures, "cone": share,
            "torque": found.effort_share, "equations": found.equations, "feet_mm": 1e3 * max(c.drift for c in found.contacts),
            "median_us": 1e6 * found.times.median}


def main() -> None:
    rng, rows, began = np.random.default_rng(SEED), [], time.perf_counter()
    cases = [("table", 2 * np.pi * k / DIRECTIONS, s) for s in STRENGTHS for k in range(DIRECTIONS)]
    cases += [("random", rng.uniform(0, 2 * np.pi), rng.uniform(0, STRONGEST)) for _ in range(PUSHES)]
    for kind, angle, impulse in cases:
        rows.append({"kind": kind, "angle": angle, "impulse": impulse, **told(pushed(angle, impulse))})
        print(rows[-1], flush=True)
    if "sequence" in sys.argv[1:]:
        rows.append({"kind": "sequence", "angle": 0.0, "impulse": 6.0, **told(sequence(30.0))})
        print(rows[-1], flush=True)
    write_table(FOLDER / "wbc_pushes.csv", rows)
    (FOLDER / "wbc_pushes.md").write_text(page(rows, time.perf_counter() - began), encoding="utf-8")
    figure(rows)


def page(rows: list[dict], seconds: float) -> str:
    table, random = ([r for r in rows if r["kind"] == kind] for kind in ("table", "random"))
    told = __doc__.split("\n\n")[2].replace("\n", " ").partition(' "sequence":')[0]
    lines = ["# Pushes under whole-body control, on MuJoCo", "", told, "",
             "Survived, by impulse and direction (0 degrees: forwards, 90: left):", "",
             "| impulse | " + " | ".join(f"{360 * k / DIRECTIONS:.0f}" for k in range(DIRECTIONS)) + " |",
             "|---:|" + "---|" * DIRECTIONS]
    for s in STRENGTHS:
        cells = ["yes" if r["survived"] else str(r["ending"]) if r["ending"] != "finished" else "not kept"
                 for r in table if r["impulse"] == s]
        lines.append(f"| {s:g} N s | " + " | ".join(cells) + " |")
    lines += ["", f"Random: {sum(r['survived'] for r in random)} of {len(random)} survived. By impulse:", "",
              "| impulse | pushes | survived |", "|---|---:|---:|"]
    for low in np.arange(0.0, STRONGEST, 4.0):
        own = [r for r in random if low <= r["impulse"] < low + 4.0]
        lines.append(f"| {low:g} to {low + 4:g} N s | {len(own)} | {sum(r['survived'] for r in own)} |")
    kept = [r for r in rows if r["survived"]]
    lines += ["", f"Over all that survived: the largest share of a cone is {max(r['cone'] for r in kept):.4f} (1 is its edge), "
              f"of a torque limit {max(r['torque'] for r in kept):.3f}; equations hold to "
              f"{max(r['equations'] for r in kept):.1e} N; "
              f"{sum(r['without_solution'] for r in rows)} steps of all runs had no solution."]
    for r in rows:
        if r["kind"] == "sequence":
            words = "survived" if r["survived"] else r["ending"]
            lines += ["", "Thirty seconds of shifting, lifting and setting down a foot, with a push of 6 N s in every round: "
                      f"{words}; feet moved by at most {r['feet_mm']:.2f} mm while they stood."]
    return "\n".join([*lines, "", f"{len(rows)} runs in {seconds:.0f} s on a busy machine.", ""])


def figure(rows: list[dict]) -> None:
    fig, ax = plt.subplots(figsize=(5.6, 5.2), subplot_kw={"projection": "polar"})
    for good, colour, words in ((1, "#1d7f70", "survived"), (0, "#b52f2a", "not")):
        own = [r for r in rows if r["survived"] == good and r["kind"] != "sequence"]
        ax.plot([r["angle"] for r in own], [r["impulse"] for r in own], "o", ms=4.5, mew=0, color=colour,
                label=f"{words} ({len(own)})")
    ax.set_rlabel_position(22)
    ax.set_title("Pushes at the trunk: direction (0: forwards), impulse [N s]", fontsize=9)
    ax.legend(loc="lower left", bbox_to_anchor=(-0.1, -0.1), fontsize=8, frameon=False)
    fig.tight_layout()
    fig.savefig(FOLDER / "wbc_pushes.png", dpi=140)


if __name__ == "__main__":
    main()
