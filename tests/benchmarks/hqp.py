"""Time of one whole-body control step of a quadruped (18 velocities, 12 motors), strict and weighted, by each engine.

    pip install lieocp daqp quadprog && python tests/benchmarks/hqp.py

The textbook quadruped shifts its mass centre along a circle, 1 kHz, on four feet with friction and motors that are weak enough to
reach their limits; the plant is constrained dynamics. Every row steps through the states of one such run. A step goes from (q, v)
to torques: kernel, levels, solve. "strict": equations, stances, limits, motion, least efforts. "weighted": motion and efforts in
one level below the first three. "quadprog": that one level as a single programme with everything above as hard constraints, the
way of one-level controllers, by the package quadprog (Goldfarb and Idnani), with the same kernel and levels.

Processor time of one thread. Writes results/benchmarks/hqp.csv and .md; rows of engines that are not installed are left out.
"""

from __future__ import annotations

import csv
import importlib.util
import os
import sys
import time
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import casadi as ca  # noqa: E402  # threads are set before anything loads BLAS
import numpy as np  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

import dynamics  # noqa: E402  # the repository's packages need the path above
from dynamics import algorithms as alg  # noqa: E402
from dynamics.algorithms import contact_kinematics  # noqa: E402
from dynamics.notation.textbook_robots import quadruped  # noqa: E402
from ocp.control.stance import Stance  # noqa: E402
from ocp.control.tasks import com_task, orientation_task  # noqa: E402
from ocp.control.whole_body import EffortTask, WholeBody  # noqa: E402
from ocp.solvers.engines import ENGINES  # noqa: E402
from ocp.solvers.hqp import HQPOptions, merged  # noqa: E402

STEPS = int(os.environ.get("HQP_STEPS", "10000"))
DT, REST = 1e-3, 20.0
FOLDER = ROOT / "results" / "benchmarks"
LEGS = ("LF", "RF", "LH", "RH")
WEIGHT = 1e4  # of the motion against the efforts


class Stand:
    """The robot, what it should do at a time, and its plant."""

    def __init__(self, engine: str) -> None:
        self.model = quadruped()
        self.q = np.array(alg.neutral(self.model)).ravel()
        for i, name in enumerate(self.model.coordinate_names):
            self.q[i] = {"HFE": 0.7, "KFE": -1.3}.get(name[-3:], self.q[i])
        self.stances = tuple(Stance(f"{leg}_FOOT", name=leg, friction=0.5, least=2.0) for leg in LEGS)
        self.centre = np.array(dynamics.make(self.model, "centre_of_mass")(self.q)).ravel()
        R, _ = dynamics.make_frame(self.model, "pose", "trunk")(self.q)
        self.trunk = orientation_task("trunk", np.array(R), gain=12.0)
        self.whole = WholeBody(self.model, self.stances, [self.com(0.0), self.trunk], efforts=14.0, rest_gain=REST,
                               options=HQPOptions(engine=engine))

    def com(self, t: float) -> Any:
        """A circle of 5 cm once in 2 s, and up and down, with the rates that belong to it."""
        w = np.pi
        aim = np.array([0.05 * np.cos(w * t), 0.05 * np.sin(w * t), 0.03 * np.sin(2 * w * t) - 0.03])
        rate = np.array([-0.05 * w * np.sin(w * t), 0.05 * w * np.cos(w * t), 0.06 * w * np.cos(2 * w * t)])
        bend = np.array([-0.05 * w**2 * np.cos(w * t), -0.05 * w**2 * np.sin(w * t), -0.12 * w**2 * np.sin(2 * w * t)])
        return com_task(self.centre + aim, rate=rate, acceleration=bend, gain=12.0)

    def states(self) -> list[tuple[float, np.ndarray, np.ndarray]]:
        """(t, q, v) of one closed loop under the strict controller."""
        x, w = ca.SX.sym("q", self.model.nq), ca.SX.sym("v", 18)
        where = [s.contact for s in self.stances]
        terms = ca.Function("plant", [x, w], [ca.densify(ca.SX(y)) for y in (
            alg.mass_matrix(self.model, x), alg.bias_force(self.model, x, w),
            contact_kinematics.contact_jacobian(self.model, x, where), contact_kinematics.contact_drift(self.model, x, w, where))])
        plus, q, v, out = dynamics.make(self.model, "integrate"), self.q.copy(), np.zeros(18), []
        for k in range(STEPS):
            out.append((k * DT, q, v))
            control = self.whole.step(q, v, [[self.com(k * DT), self.trunk], EffortTask()])
            assert control.ok, control.solution.trouble
            M, h, J, drift = (np.array(y) for y in terms(q, v))
            K = np.block([[M, -J.T], [J, np.zeros((12, 12))]])
            rest = -drift.ravel() - REST * (J @ v)
            v = v + DT * np.linalg.solve(K, np.r_[self.whole.S.T @ control.torque - h.ravel(), rest])[:18]
            q = np.array(plus(q, DT * v)).ravel()
        return out


def strict(stand: Stand, t: float, q: np.ndarray, v: np.ndarray) -> tuple[bool, bool, bool]:
    """(solved, a limit is active, the engine was asked)."""
    control = stand.whole.step(q, v, [[stand.com(t), stand.trunk], EffortTask()])
    return control.ok, bool(control.solution["limits"].active), control.solution.iterations > 0


def weighted(stand: Stand, t: float, q: np.ndarray, v: np.ndarray) -> tuple[bool, bool, bool]:
    com = stand.com(t)
    levels = stand.whole.levels(stand.whole.terms(q, v, [com, stand.trunk]), [[com, stand.trunk], EffortTask()])
    control = stand.whole.solve([*levels[:3], merged(levels[3:], [WEIGHT, 1.0])])
    return control.ok, bool(control.solution["limits"].active), control.solution.iterations > 0


def single(stand: Stand, t: float, q: np.ndarray, v: np.ndarray) -> tuple[bool, bool, bool]:
    import quadprog

    com = stand.com(t)
    equations, rest, limits, motion, efforts = stand.whole.levels(stand.whole.terms(q, v, [com, stand.trunk]),
                                                                  [[com, stand.trunk], EffortTask()])
    P = WEIGHT * motion.A.T @ motion.A + efforts.A.T @ efforts.A + 1e-8 * np.eye(motion.n)
    up, down = np.isfinite(limits.f), np.isfinite(limits.lower)
    C = np.vstack([equations.A, rest.A, -limits.D[up], limits.D[down]])
    b = np.concatenate([equations.b, rest.b, -limits.f[up], limits.lower[down]])
    x, *_, active = quadprog.solve_qp(P, WEIGHT * motion.A.T @ motion.b + efforts.A.T @ efforts.b, C.T, b, 30)
    return bool(np.isfinite(x).all()), len(active) > 30, True


def main() -> None:
    rows, states = [], Stand("osqp").states()
    load = os.getloadavg()[1]
    contenders = [(form, name, step) for form, step in (("strict, 5 levels", strict), ("weighted, 4 levels", weighted))
                  for name in ENGINES] + [("one programme", "quadprog", single)]
    for form, name, step in contenders:
        if name != "osqp" and importlib.util.find_spec(name) is None:
            continue
        stand = Stand(name if name != "quadprog" else "osqp")
        busy, failed, limited, asked = np.empty(STEPS), 0, 0, 0
        for k, (t, q, v) in enumerate(states):
            begin = time.process_time_ns()
            ok, at_limit, engine = step(stand, t, q, v)
            busy[k] = (time.process_time_ns() - begin) * 1e-6
            failed, limited, asked = failed + (not ok), limited + at_limit, asked + engine
        rows.append({"form": form, "engine": name, "steps": STEPS, "failed": failed, "at_limits": limited, "engine_asked": asked,
                     "median_ms": round(float(np.median(busy)), 4), "p999_ms": round(float(np.percentile(busy, 99.9)), 4),
                     "largest_ms": round(float(busy.max()), 4)})
        print(rows[-1], flush=True)
    load = max(load, os.getloadavg()[1])
    write(rows, load)


def write(rows: list[dict[str, Any]], load: float) -> None:
    with (FOLDER / "hqp.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    lines = ["# Whole-body control steps of a quadruped", "",
             "18 velocities, 12 motors, four feet; 42 unknowns, 30 equations, 32 rows of limits. Processor time of one thread from",
             "(q, v) to torques, arrays in and out, from Python.",
             f"The machine has {os.cpu_count()} cores and was shared with other work (load average up to {load:.1f}), which spoils",
             "caches and the largest times.", "",
             "Limits that were held in the step before are tried first, so the engine is asked in few steps only.", "",
             "| form | engine | steps | failed | at a limit | engine asked | median, ms | 99.9 %, ms | largest, ms |",
             "|---|---|---|---|---|---|---|---|---|"]
    lines += ["| " + " | ".join(str(value) for value in row.values()) + " |" for row in rows]
    (FOLDER / "hqp.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
