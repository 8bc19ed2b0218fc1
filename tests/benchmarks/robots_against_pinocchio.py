"""Load every URDF robot of the ``robots`` extra and compare all algorithms with Pinocchio at a random state.

    pip install "lieocp[robots,peers]" && python tests/benchmarks/robots_against_pinocchio.py

Writes results/benchmarks/robots_against_pinocchio.csv and exits with 1 when a robot fails to load or disagrees by more
than 1e-9 relative.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from result_tables import write_table

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]
TOLERANCE = 1e-9


def main() -> int:
    from urdf_twin import UrdfTwin

    from dynamics.errors import ModelError
    from dynamics.model.robots import robot_paths

    rows, bad = [], []
    for name, path in robot_paths().items():
        for root in ("fixed", "free_flyer"):
            begin = time.perf_counter()
            try:
                twin = UrdfTwin(path, root)
            except (ModelError, AssertionError, ValueError) as error:
                bad.append(f"{name} ({root}): {error}")
                print(f"{name:<36} {root:<10} NOT COMPARED: {error}")
                continue
            gaps = twin.compare(np.random.default_rng(0))
            worst = max(gaps, key=gaps.get)
            rows.append({"robot": name, "root": root, "nq": twin.ours.nq, "nv": twin.ours.nv, "bodies": len(twin.ours.bodies),
                         "mass_kg": f"{twin.ours.mass:.6g}", **{k: f"{v:.1e}" for k, v in gaps.items()}})
            if gaps[worst] > TOLERANCE:
                bad.append(f"{name} ({root}): {worst} differs by {gaps[worst]:.2e}")
            took = time.perf_counter() - begin
            print(f"{name:<36} {root:<10} nv {twin.ours.nv:>3}  worst {worst} {gaps[worst]:.1e}  {took:.1f} s")
    fields = list(dict.fromkeys(key for row in rows for key in row))
    target = ROOT / "results" / "benchmarks" / "robots_against_pinocchio.csv"
    write_table(target, rows, fields)
    robots = {row["robot"] for row in rows}
    print(f"{len(robots)} robots, {len(rows)} models compared; {len(bad)} problems")
    for line in bad:
        print("  " + line)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
