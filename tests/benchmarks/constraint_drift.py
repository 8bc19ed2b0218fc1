"""How far a joint that a constraint makes drifts apart in the hybrid simulator: by projection, Baumgarte's method, neither.

    pip install lieocp && python tests/benchmarks/constraint_drift.py

A rod of a metre, a free body in six coordinates, hangs by its end from the world by a spherical closure and swings from the
horizontal for ten seconds; steps of 10, 5 and 2 ms of the classical Runge-Kutta method. The largest gap of the joint, and what
became of the energy. Writes results/benchmarks/constraint_drift.md.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from boxes import solid  # noqa: E402  # the repository's packages need the path above

from dynamics.constraints import Closure  # noqa: E402
from dynamics.mechanism import Mechanism  # noqa: E402
from dynamics.model.model import Frame, Placement  # noqa: E402
from ocp.plants.hybrid import STABILISATIONS, HybridOptions, HybridPlant  # noqa: E402

LENGTH, SECONDS, STEPS = 1.0, 10.0, (0.01, 0.005, 0.002)


def drift(how: str, step: float) -> tuple[float, float]:
    """(largest gap (m), change of energy (J))."""
    rod = solid(1.0, [1e-4, LENGTH**2 / 12, LENGTH**2 / 12]).model
    model = replace(rod, frames=(*rod.frames, Frame("end", 0, Placement(position=(-LENGTH / 2, 0.0, 0.0)))))
    mechanism = Mechanism(model, constraints=(Closure("pivot", "world", "end", "spherical"),))
    plant = HybridPlant(mechanism, [], options=HybridOptions(max_step=step, stabilisation=how))
    plant.reset(np.r_[LENGTH / 2, 0, 0, 1, 0, 0, 0, np.zeros(6)])
    before, gap = plant.energy, 0.0
    for _ in range(round(SECONDS / step)):
        x = plant.step(np.zeros(0), step)
        w, y = x[3], x[5]
        along = np.array([w * w - y * y, 0.0, -2 * w * y])
        gap = max(gap, float(np.linalg.norm(x[:3] - LENGTH / 2 * along)))
    return gap, plant.energy - before


def main() -> None:
    lines = ["# Drift of a constraint", "", __doc__.split("\n\n")[2].replace("\n", " ").partition(" Writes")[0], "",
             "| stabilisation | step | largest gap | energy |", "|---|---:|---:|---:|"]
    for how in STABILISATIONS:
        for step in STEPS:
            gap, energy = drift(how, step)
            lines.append(f"| {how} | {1e3 * step:g} ms | {gap:.1e} m | {energy:+.1e} J |")
    text = "\n".join([*lines, ""])
    (ROOT / "results" / "benchmarks" / "constraint_drift.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
