"""Inverse kinematics to 200 random reachable targets: `solve_ik` and loops over Pinocchio, same robots, targets and starts.

    pip install "lieocp[robots,peers]" && python tests/benchmarks/ik_against_pinocchio.py

Two loops over Pinocchio. ``clik``: damped pseudo-inverse steps with 0.1 of the error, up to 1000, from one start, limits
ignored in the loop (as in Pinocchio's own example). ``clik restarts``: full damped steps clipped to the limits, up to 100, from
up to 51 starts. A target counts as reached when position and orientation errors are below 1e-6 and every joint is within its
limits. Writes results/benchmarks/ik_against_pinocchio.csv.
"""

from __future__ import annotations

import csv
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]
TARGETS, TOLERANCE = 200, 1e-6


def clik(twin, frames, goals, q, step, most, clip, full):
    """Damped closed-loop iteration; full: 6-D errors, otherwise positions only."""
    pin, model, data = twin.pin, twin.theirs, twin.data
    rows = 6 if full else 3
    for k in range(most):
        pin.computeJointJacobians(model, data, q)
        pin.updateFramePlacements(model, data)
        errors, jacobians = [], []
        for index, goal in zip(frames, goals, strict=True):
            if full:
                offset = data.oMf[index].actInv(goal)
                e = pin.log6(offset).vector
                J = -pin.Jlog6(offset.inverse()) @ pin.getFrameJacobian(model, data, index, pin.LOCAL)
            else:
                e = goal.translation - data.oMf[index].translation
                J = -pin.getFrameJacobian(model, data, index, pin.LOCAL_WORLD_ALIGNED)[:3]
            errors.append(e)
            jacobians.append(J)
        e, J = np.concatenate(errors), np.vstack(jacobians)
        if np.linalg.norm(e) < TOLERANCE:
            return q, True, k
        v = -J.T @ np.linalg.solve(J @ J.T + 1e-6 * np.eye(rows * len(frames)), e)
        q = pin.integrate(model, q, step * v)
        if clip:
            q = np.clip(q, model.lowerPositionLimit, model.upperPositionLimit)
    return q, False, most


def within(model, q):
    return bool((q >= model.lowerPositionLimit - 1e-9).all() and (q <= model.upperPositionLimit + 1e-9).all())


def main() -> int:
    from urdf_twin import UrdfTwin

    from dynamics import make_frame
    from dynamics.model.robots import find_robot
    from ocp.control.ik import solve_ik
    from ocp.control.tasks import pose_task, position_task

    models = ROOT / "problems" / "models"
    cases = [("panda", models / "panda.urdf", ["panda_hand_tcp"], True), ("ur5", models / "ur5.urdf", ["tool0"], True)]
    cases.append(("solo12 feet", find_robot("solo12"), ["FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT"], False))
    table = []
    for name, path, frames, full in cases:
        twin = UrdfTwin(path, "fixed")
        model, pin = twin.ours, twin.pin
        rng, restarts = np.random.default_rng(42), np.random.default_rng(7)
        lower, upper = model.limit("lower"), model.limit("upper")
        lo, hi = np.clip(lower, -np.pi, np.pi), np.clip(upper, -np.pi, np.pi)
        q0 = 0.5 * (lo + hi) + 0.1
        fk = {f: make_frame(model, "pose", f) for f in frames}
        ids = [twin.theirs.getFrameId(f) for f in frames]
        outcome = {"solve_ik": [], "clik": [], "clik restarts": []}
        for k in range(TARGETS):
            q = rng.uniform(lo, hi)
            poses = [tuple(np.array(x) for x in fk[f](q)) for f in frames]
            tasks = [
                pose_task(f, R, p.ravel()) if full else position_task(f, p.ravel()) for f, (R, p) in zip(frames, poses, strict=True)
            ]
            goals = [pin.SE3(R, p.ravel()) for R, p in poses]
            if k == 0:
                solve_ik(model, [tasks], q0=q0)  # compile
            begin = time.perf_counter()
            got = solve_ik(model, [tasks], q0=q0, rng=rng, tolerance=TOLERANCE)
            outcome["solve_ik"].append((got.converged and not got.violations, time.perf_counter() - begin, got.iterations))
            begin = time.perf_counter()
            x, ok, n = clik(twin, ids, goals, twin.configuration(q0), 0.1, 1000, False, full)
            outcome["clik"].append((ok and within(twin.theirs, x), time.perf_counter() - begin, n))
            begin, total, start = time.perf_counter(), 0, twin.configuration(q0)
            for _ in range(51):
                x, ok, n = clik(twin, ids, goals, start, 1.0, 100, True, full)
                total += n
                if ok:
                    break
                start = twin.configuration(restarts.uniform(lo, hi))
            outcome["clik restarts"].append((ok and within(twin.theirs, x), time.perf_counter() - begin, total))
        for solver, rows in outcome.items():
            ok, seconds, steps = (np.array(column, float) for column in zip(*rows, strict=True))
            table.append(
                [
                    name,
                    solver,
                    f"{ok.mean():.3f}",
                    f"{1e6 * seconds.mean():.0f}",
                    f"{1e6 * np.median(seconds):.0f}",
                    f"{1e6 * np.quantile(seconds, 0.99):.0f}",
                    f"{steps.mean():.1f}",
                ]
            )
            print(*table[-1], sep="\t")
    out = ROOT / "results" / "benchmarks" / "ik_against_pinocchio.csv"
    with out.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle)
        writer.writerow(["robot", "solver", "success", "mean_us", "median_us", "p99_us", "mean_steps"])
        writer.writerows(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
