"""Time of one whole-body control step of a quadruped and of a humanoid beside TSID, and of its programmes beside cascades.

    pip install lieocp[robots] daqp proxsuite && TSID_PYTHON=/path/to/python python tests/benchmarks/hqp.py [steps]

HyQ (18 velocities, 12 motors, four point feet) and Talos (38, 32, two soles of four points) sway and squat at 1 kHz with motors
weak enough to reach their limits; the plant is constrained dynamics. Every row steps through the states of one such run.

    step, strict      (q, v) to torques: equations, stances, limits, motion (mass centre, trunk), posture, least efforts
    step, weighted    the same with motion and posture in one level
    TSID              its whole step from Python, the same tasks with the same weights in its one level, in an environment of
                      its own (TSID_PYTHON: TSID 1.7.1 with pin 3.4.0); its solver is eiquadprog
    programmes        the strict levels below the limits, one after the other, torques eliminated: only the time in the solver
                      is counted, ours is that of all levels from their matrices

Processor time of one thread. All rows take turns HQP_ROUNDS times, and of every step the smallest time counts. Writes
results/benchmarks/hqp.csv and .md; rows of engines that are not installed are left out.
"steps": no times, only what STEPS of either robot kept under the strict controller, into hqp_steps.md.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from result_tables import FOLDER, write_page, write_table

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import casadi as ca  # noqa: E402  # threads are set before anything loads BLAS
import numpy as np  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

import dynamics  # noqa: E402  # the repository's packages need the path above
from dynamics import algorithms as alg  # noqa: E402
from dynamics.algorithms import contact_kinematics  # noqa: E402
from dynamics.model.robots import find_robot  # noqa: E402
from dynamics.model.urdf import read_urdf  # noqa: E402
from ocp.control.stance import Stance  # noqa: E402
from ocp.control.tasks import com_task, orientation_task, posture_task  # noqa: E402
from ocp.control.whole_body import EffortTask, WholeBody  # noqa: E402
from ocp.solvers.engines import ENGINES  # noqa: E402
from ocp.solvers.hqp import HQPOptions  # noqa: E402

STEPS = int(os.environ.get("HQP_STEPS", "10000"))
ROUNDS = int(os.environ.get("HQP_ROUNDS", "5"))
DT, REST, GAIN, POSTURE = 1e-3, 20.0, 12.0, 1e-3
Round = tuple[np.ndarray, list[Any]]  # microseconds of every step; how many failed, were at a limit, asked an engine
CORNERS = ((0.1, 0.06), (0.1, -0.06), (-0.1, 0.06), (-0.1, -0.06))
ROBOTS: dict[str, dict[str, Any]] = {
    "quadruped": {"robot": "hyq_no_sensors", "trunk": "trunk", "height": 0.6, "efforts": 75.0, "feet": [
        (f"{leg}_foot", (0.0, 0.0, 0.0)) for leg in ("lf", "rf", "lh", "rh")],
        "joints": {"haa": -0.1, "f_hfe": 0.7, "f_kfe": -1.3, "h_hfe": -0.7, "h_kfe": 1.3}},
    "humanoid": {"robot": "talos_reduced", "trunk": "torso_2_link", "height": 1.02, "efforts": 110.0, "feet": [
        (f"{side}_sole_link", (x, y, 0.0)) for side in ("left", "right") for x, y in CORNERS],
        "joints": {"leg_left_3": -0.41, "leg_left_4": 0.86, "leg_left_5": -0.45, "leg_right_3": -0.41, "leg_right_4": 0.86,
                   "leg_right_5": -0.45, "arm_left_2": 0.25, "arm_right_2": -0.25, "arm_left_4": -0.5, "arm_right_4": -0.5}}}


class Stand:
    """A robot, what it should do at a time, and its plant."""

    def __init__(self, kind: str, engine: str = "active_set") -> None:
        self.kind, self.given = kind, ROBOTS[kind]
        self.model = read_urdf(find_robot(self.given["robot"]), root="free_flyer")
        self.q = np.array(alg.neutral(self.model), float).ravel()
        for i, name in enumerate(self.model.coordinate_names):
            for part, value in self.given["joints"].items():
                self.q[i] = value if part in name else self.q[i]
        self.q[2] = self.given["height"]
        self.stances = tuple(Stance(frame, point=at, name=f"{frame} {k}", friction=0.6, least=2.0)
                             for k, (frame, at) in enumerate(self.given["feet"]))
        self.centre = np.array(dynamics.make(self.model, "centre_of_mass")(self.q)).ravel()
        R, _ = dynamics.make_frame(self.model, "pose", self.given["trunk"])(self.q)
        self.trunk = orientation_task(self.given["trunk"], np.array(R), gain=GAIN)
        joints = [b.joint.name for b in self.model.bodies if b.joint.kind not in ("free_flyer", "fixed")]
        self.posture = posture_task(self.q[7:], joints=joints, gain=GAIN)
        self.weighed = replace(self.posture, weight=POSTURE)
        self.first = self.com(0.0)
        self.whole = WholeBody(self.model, self.stances, [self.first, self.trunk, self.posture], efforts=self.given["efforts"],
                               rest_gain=REST, options=HQPOptions(engine=engine))

    def com(self, t: float) -> Any:
        """A circle once in 2 s, and up and down, with the rates that belong to it."""
        w, r, z = np.pi, 0.04, 0.03
        aim = np.array([r * np.cos(w * t), r * np.sin(w * t), z * np.sin(2 * w * t) - z])
        rate = np.array([-r * w * np.sin(w * t), r * w * np.cos(w * t), 2 * z * w * np.cos(2 * w * t)])
        bend = np.array([-r * w**2 * np.cos(w * t), -r * w**2 * np.sin(w * t), -4 * z * w**2 * np.sin(2 * w * t)])
        return com_task(self.centre + aim, rate=rate, acceleration=bend, gain=GAIN)

    def states(self, watch: Callable[[Any, np.ndarray], None] | None = None) -> list[tuple[Any, np.ndarray, np.ndarray]]:
        """(mass-centre task, q, v) of one closed loop under the strict controller; watch: sees what came of every step, and the
        residual of the equations of motion by the plant's own terms. The first step without an answer ends it."""
        nv, x, w = self.model.nv, ca.SX.sym("q", self.model.nq), ca.SX.sym("v", self.model.nv)
        where = [s.contact_point for s in self.stances]
        terms = ca.Function("plant", [x, w], [ca.densify(ca.SX(y)) for y in (
            alg.mass_matrix(self.model, x), alg.bias_force(self.model, x, w),
            contact_kinematics.contact_jacobian(self.model, x, where), contact_kinematics.contact_drift(self.model, x, w, where))])
        plus, q, v, out = dynamics.make(self.model, "integrate"), self.q.copy(), np.zeros(nv), []
        for k in range(STEPS):
            com = self.com(k * DT)
            out.append((com, q, v))
            control = self.whole.step(q, v, [[com, self.trunk], self.posture, EffortTask()])
            M, h, J, drift = (np.array(y) for y in terms(q, v))
            if watch is not None:
                forces = np.concatenate([control.forces[s.name] for s in self.stances])
                watch(control, M @ control.acceleration + h.ravel() - J.T @ forces - self.whole.S.T @ control.torque)
            if not control.ok:
                break
            K = np.block([[M, -J.T], [J, 1e-9 * np.eye(J.shape[0])]])
            rest = -drift.ravel() - REST * (J @ v)
            v = v + DT * np.linalg.solve(K, np.r_[self.whole.S.T @ control.torque - h.ravel(), rest])[:nv]
            q = np.array(plus(q, DT * v)).ravel()
        return out


def timed(states: list[Any], step: Callable[[Any, np.ndarray, np.ndarray], tuple[bool, bool, bool, int]]) -> Round:
    """step: (solved, at a limit, engine asked, nanoseconds)."""
    busy, told = np.empty(len(states)), np.zeros(3, int)
    for k, state in enumerate(states):
        ok, limited, asked, own = step(*state)
        busy[k] = own * 1e-3
        told += [not ok, limited, asked]
    return busy, told.tolist()


def in_turns(kind: str, what: dict[tuple[str, str], Callable[[], Round]]) -> list[dict[str, Any]]:
    """Rounds over all that is measured; the smallest time of each step counts, so that what else the machine does does not."""
    rows: list[dict[str, Any]] = []
    found: dict[tuple[str, str], list[Round]] = {key: [] for key in what}
    for _ in range(ROUNDS):
        for key, once in what.items():
            found[key].append(once())
    for (name, by), rounds in found.items():
        busy, (failed, limits, engines) = np.min([busy for busy, _ in rounds], axis=0), rounds[-1][1]
        rows.append({"robot": kind, "what": name, "by": by, "steps": busy.size, "failed": failed, "at_limits": limits,
                     "engine_asked": engines, **times(busy)})
        print(rows[-1], flush=True)
    return rows


def times(busy: np.ndarray) -> dict[str, float]:
    return {"median_us": round(float(np.median(busy)), 1), "p999_us": round(float(np.percentile(busy, 99.9)), 1),
            "largest_us": round(float(busy.max()), 1)}


def steps_of(stand: Stand, weighted: bool) -> Callable[..., tuple[bool, bool, bool, int]]:
    def step(com: Any, q: np.ndarray, v: np.ndarray) -> tuple[bool, bool, bool, int]:
        motion = [[com, stand.trunk, stand.weighed]] if weighted else [[com, stand.trunk], stand.posture]
        wanted = [*motion, EffortTask()]
        begin = time.process_time_ns()
        control = stand.whole.step(q, v, wanted)
        spent = time.process_time_ns() - begin
        return control.ok, control.ok and bool(control.solution["limits"].active), control.solution.iterations > 0, spent

    return step


def steps_round(kind: str, engine: str, weighted: bool, states: list[Any]) -> Round:
    """One round of a new controller."""
    return timed(states, steps_of(Stand(kind, engine), weighted))


def programmes_of(stand: Stand) -> Callable[..., tuple[bool, bool, bool, int]]:
    """Our hierarchy from filled matrices."""
    def step(com: Any, q: np.ndarray, v: np.ndarray) -> tuple[bool, bool, bool, int]:
        stand.whole.step(q, v, [[com, stand.trunk], stand.posture, EffortTask()])
        prepared = next(iter(stand.whole._prepared.values()))
        begin = time.process_time_ns()
        answer = prepared.space.solve()
        spent = time.process_time_ns() - begin
        return answer.ok, answer.ok and bool(answer["limits"].active), answer.iterations > 0, spent

    return step


# ---- cascades: unknowns (a, f), torques eliminated, what is above as equations, limits as they are -------------------------------
class Cascade:
    def __init__(self, stand: Stand, solve: Callable[..., tuple[np.ndarray | None, int]]) -> None:
        self.stand, self.one = stand, solve

    def __call__(self, com: Any, q: np.ndarray, v: np.ndarray) -> tuple[bool, bool, bool, int]:
        whole = self.stand.whole
        terms = whole.terms(q, v, [com, self.stand.trunk, self.stand.posture])
        equations, rest, limits, *below = whole.levels(terms, [[com, self.stand.trunk], self.stand.posture, EffortTask()])
        n = whole.model.nv + 3 * len(self.stand.stances)
        T, t = equations.A[6:, :n], -equations.b[6:]  # tau = T x + t

        def over(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return A[:, :n] + A[:, n:] @ T, A[:, n:] @ t

        E, e = [equations.A[:6, :n], rest.A[:, :n]], [equations.b[:6], rest.b]
        D, d = over(limits.D)
        spent, x = 0, None
        for level in below:
            A, shift = over(level.A)
            above = _independent(np.vstack(E), np.concatenate(e))
            x, time_ = self.one(A, level.b - shift, above, D, limits.lower - d, limits.f - d)
            spent += time_
            if x is None:
                return False, False, True, spent
            E.append(A)
            e.append(A @ x)
        return True, False, True, spent


def _independent(E: np.ndarray, e: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same equations without those that repeat others (solvers want full rank); not counted."""
    U, s, Vt = np.linalg.svd(E, full_matrices=False)
    keep = s > 1e-7 * s[0]
    return Vt[keep], (U.T @ e)[keep] / s[keep]


def by_daqp(A: np.ndarray, b: np.ndarray, eq: Any, D: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[Any, int]:
    import daqp

    H, g = A.T @ A + 1e-8 * np.eye(A.shape[1]), -A.T @ b
    C = np.ascontiguousarray(np.vstack([eq[0], D]))
    lower, upper = np.r_[eq[1], np.maximum(low, -1e30)], np.r_[eq[1], np.minimum(high, 1e30)]
    sense = np.r_[np.full(eq[1].size, 5), np.zeros(low.size)].astype(np.int32)
    begin = time.process_time_ns()
    x, _, flag, _ = daqp.solve(H, g, C, upper, lower, sense)
    return (np.array(x) if flag > 0 else None), time.process_time_ns() - begin


def by_proxqp() -> Callable[..., tuple[Any, int]]:
    from proxsuite import proxqp

    kept: dict[Any, Any] = {}

    def solve(A: np.ndarray, b: np.ndarray, eq: Any, D: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[Any, int]:
        H, g, key = A.T @ A, -A.T @ b, (A.shape, eq[0].shape)
        lower, upper = np.maximum(low, -1e20), np.minimum(high, 1e20)
        fresh = key not in kept
        if fresh:
            kept[key] = proxqp.dense.QP(A.shape[1], eq[1].size, low.size)
            kept[key].settings.max_iter = 500  # what it has not solved by then it does not solve
            kept[key].settings.eps_abs, kept[key].settings.initial_guess = 1e-8, (
                proxqp.InitialGuess.WARM_START_WITH_PREVIOUS_RESULT)
        qp = kept[key]
        begin = time.process_time_ns()
        (qp.init if fresh else qp.update)(H, g, eq[0], eq[1], D, lower, upper)
        qp.solve()
        spent = time.process_time_ns() - begin
        return (np.array(qp.results.x) if qp.results.info.status.name == "PROXQP_SOLVED" else None), spent

    return solve


# ---- TSID ------------------------------------------------------------------------------------------------------------------------
def by_tsid(stand: Stand, states: list[Any], python: str) -> Round:
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "run.npz", q=[q for _, q, _ in states], v=[v for *_, v in states],
                 com=[np.r_[c.target, c.rate, c.acceleration] for c, *_ in states])
        given = stand.given
        feet = sorted({frame for frame, _ in given["feet"]})
        command = [python, str(Path(__file__).with_name("hqp_tsid.py")), str(find_robot(given["robot"])), folder,
                   "points" if len(feet) == len(given["feet"]) else "soles", ",".join(feet), given["trunk"], str(given["efforts"]),
                   str(GAIN), str(POSTURE), ",".join(stand.model.velocity_names[6:])]
        alone = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}  # that environment has its own Pinocchio
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=alone)
        found = np.load(Path(folder) / "tsid.npz")
        return found["busy"] * 1e-3, [int(found["failed"]), "", ""]


def steps_kept() -> None:
    """Writes hqp_steps.md: steps, those without an answer, and the largest of what must not be exceeded."""
    lines = ["# Ten thousand steps of whole-body control", "",
             "HyQ on four points and Talos on two soles sway and squat at 1 kHz with weak motors, under strict priorities:",
             "equations, stances, limits, mass centre and trunk, posture, least efforts. The plant is constrained dynamics.",
             "Equations: their largest residual, computed apart from the controller; friction and torques: largest share of the",
             "exact cone and of a motor's limit.", "",
             "| robot | steps | without an answer | steps at a limit | equations (N, N m) | friction | torques |",
             "|---|---:|---:|---:|---:|---:|---:|"]
    for kind in ROBOTS:
        stand, found = Stand(kind), []

        def watch(control: Any, residual: np.ndarray, stand: Stand = stand, found: list[Any] = found) -> None:
            share = max(np.hypot(*f[:2]) / (s.friction * f[2]) for s, f in ((s, control.forces[s.name]) for s in stand.stances))
            found.append((not control.ok, control.ok and bool(control.solution["limits"].active), np.abs(residual).max(), share,
                          np.abs(control.torque).max() / stand.given["efforts"]))

        stand.states(watch)
        failed, limited, residual, share, torque = np.array(found, float).T
        lines.append(f"| {kind} | {len(found)} | {failed.sum():.0f} | {limited.sum():.0f} | {residual.max():.1e} | "
                     f"{share.max():.4f} | {torque.max():.4f} |")
        print(lines[-1], flush=True)
    write_page(FOLDER / "hqp_steps.md", lines)


def main() -> None:
    if "steps" in sys.argv[1:]:
        steps_kept()
        return
    rows: list[dict[str, Any]] = []
    load, tsid = 0.0, os.environ.get("TSID_PYTHON")
    for kind in ROBOTS:
        stand = Stand(kind)
        states = stand.states()
        few = states[::5]
        what: dict[tuple[str, str], Callable[[], Round]] = {}
        for name in ENGINES:
            if name != "daqp" or importlib.util.find_spec(name):
                for form, weighted in (("strict", False), ("weighted", True)):
                    what[f"step, {form}", name] = partial(steps_round, kind, name, weighted, states)
        if tsid:
            what["step, one level", "TSID"] = partial(by_tsid, stand, states, tsid)
        what["programmes", "lieocp"] = partial(timed, states, programmes_of(Stand(kind)))
        if importlib.util.find_spec("daqp"):
            what["programmes", "DAQP cascade"] = partial(timed, few, Cascade(stand, by_daqp))
        if importlib.util.find_spec("proxsuite"):
            what["programmes", "ProxQP cascade"] = partial(timed, few[::4], Cascade(stand, by_proxqp()))
        rows += in_turns(kind, what)
        load = max(load, os.getloadavg()[1])
    write(rows, load)


def write(rows: list[dict[str, Any]], load: float) -> None:
    write_table(FOLDER / "hqp.csv", rows, lineterminator="\n")
    lines = ["# Whole-body control steps", "",
             "HyQ on four points (18 velocities, 12 motors) and Talos on two soles (38, 32), swaying and squatting at 1 kHz with",
             "weak motors. Processor time of one thread, in microseconds, from Python: a step goes from (q, v) to torques;",
             "\"programmes\" are the strict levels alone, of the cascades only the time within their solver.",
             f"{ROUNDS} rounds in which all take turns, each step by its smallest time: the machine ({os.cpu_count()} cores, load",
             f"average up to {load:.1f}) changes its speed within minutes.", "",
             "| robot | what | by | steps | failed | at a limit | engine asked | median | 99.9 % | largest |",
             "|---|---|---|---|---|---|---|---|---|---|"]
    lines += ["| " + " | ".join(str(value) for value in row.values()) + " |" for row in rows]
    write_page(FOLDER / "hqp.md", lines)


if __name__ == "__main__":
    main()
