"""Inverse kinematics: ours beside Pink, Mink and a damped Pinocchio loop, from Python, in one process.

    pip install "lieocp[robots,peers]" pin-pink mink quadprog daqp && python tests/benchmarks/inverse_kinematics.py [targets]

Targets are poses of random configurations within the joint limits, so each of them can be reached; every search begins at the
middle of the limits. Solved means: position within 1e-4 m, orientation within 1e-3 rad, joints within their limits, judged by
Pinocchio for everyone. All methods have the same most iterations, and the same random restarts where a row says so. Writes
results/benchmarks/inverse_kinematics.csv and .md.
"""

from __future__ import annotations

import re
import sys
import textwrap
import time
import warnings
from importlib import metadata
from pathlib import Path

import numpy as np
import pinocchio as pin
from result_tables import FOLDER, write_page, write_table

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from urdf_twin import UrdfTwin  # noqa: E402

from dynamics import algorithms as alg  # noqa: E402  # the repository's own packages need the path above
from dynamics.model.robots import find_robot  # noqa: E402
from ocp.app.pipeline import processor  # noqa: E402
from ocp.control.ik import solve_ik  # noqa: E402
from ocp.control.limits import sampler  # noqa: E402
from ocp.control.tasks import pose_task, position_task  # noqa: E402

POSITION, ROTATION, LIMIT = 1e-4, 1e-3, 1e-6  # m, rad, rad or m
ITERATIONS, RESTARTS = 100, 20
FEET = ("lf_foot", "rf_foot", "lh_foot", "rh_foot")
# (title, file, root, frames of which the pose counts, frames of which the position counts)
CASES = (
    ("Panda", "panda", "fixed", ("panda_hand",), ()),
    ("UR5", "ur5_robot", "fixed", ("tool0",), ()),
    ("HyQ, one leg", "hyq_no_sensors", "fixed", (), ("lf_foot",)),
    ("HyQ, trunk and feet", "hyq_no_sensors", "free_flyer", ("trunk",), FEET),
)


class Case:
    """One robot with its targets, in our coordinates and in Pinocchio's."""

    def __init__(self, title, file, root, poses, points, targets):
        self.title, self.path, self.root, self.poses, self.points = title, find_robot(file), root, poses, points
        self.twin = UrdfTwin(self.path, root)
        self.model, self.other, self.data = self.twin.ours, self.twin.theirs, self.twin.data
        self.frames = [*((name, True) for name in poses), *((name, False) for name in points)]
        self.ids = [self.other.getFrameId(name) for name, _ in self.frames]
        neutral = alg.neutral(self.model)
        draw = sampler(self.model, neutral, 0.3)
        rng = np.random.default_rng(0)
        self.start = neutral.copy()
        flat = [k for i, b in enumerate(self.model.bodies) if self.model.kind(i).nv and b.joint.kind != "free_flyer"
                for k in range(self.model.q_slice(i).start, self.model.q_slice(i).stop)]
        self.start[flat] = (draw.lower[flat] + draw.upper[flat]) / 2
        self.goals = []
        for _ in range(targets):
            q = draw.draw(rng, 1)[0]
            if root == "free_flyer":  # a trunk anywhere within 0.3 m, tilted by half a radian at most
                turn = rng.standard_normal(3)
                turn *= 0.5 * rng.uniform() / np.linalg.norm(turn)
                half = np.linalg.norm(turn) / 2
                q[3:7] = np.r_[np.cos(half), np.sin(half) * turn / (2 * half)]
            self.goals.append([self.pose(self.twin.configuration(q), k) for k in self.ids])
        self.draw = draw
        self.seeds = draw.draw(np.random.default_rng(1), RESTARTS)
        if root == "free_flyer":
            self.seeds[:, :7] = self.start[:7]

    def pose(self, x, frame):
        pin.framesForwardKinematics(self.other, self.data, x)
        return self.data.oMf[frame].copy()

    def solved(self, x, goals):
        """Whether Pinocchio's configuration x meets the goals within the limits."""
        if x is None or not np.isfinite(x).all():
            return False
        pin.framesForwardKinematics(self.other, self.data, x)
        return self.within(x) and self.met(goals)

    def met(self, goals):
        """As frames of ``data`` stand."""
        for (_, turns), frame, goal in zip(self.frames, self.ids, goals):
            at = self.data.oMf[frame]
            if not np.linalg.norm(at.translation - goal.translation) < POSITION:
                return False
            if turns and not np.linalg.norm(pin.log3(goal.rotation.T @ at.rotation)) < ROTATION:
                return False
        return True

    def within(self, x):
        low, high = self.other.lowerPositionLimit - LIMIT, self.other.upperPositionLimit + LIMIT
        flat = slice(7, None) if self.root == "free_flyer" else slice(None)
        return bool(np.all(x[flat] >= low[flat]) and np.all(x[flat] <= high[flat]))


# ---- the methods: each makes (goals, restarts) -> Pinocchio configuration or None -----------------------------------------
def ours(case):
    def solve(goals, restarts):
        tasks = [pose_task(name, g.rotation, g.translation) if turns else position_task(name, g.translation)
                 for (name, turns), g in zip(case.frames, goals)]
        seeds = case.seeds if restarts else None
        answer = solve_ik(case.model, [tasks], q0=case.start, restarts=0, seeds=seeds, tolerance=0.9 * POSITION,
                          max_iterations=ITERATIONS)
        return case.twin.configuration(answer.q)
    return solve


def stepper(case, step):
    """A method from its one step: from the start, then from the seeds, until the goals are met within the limits."""
    starts = [case.twin.configuration(q) for q in (case.start, *case.seeds)]

    def solve(goals, restarts):
        for x in starts[: 1 + (RESTARTS if restarts else 0)]:
            x = x.copy()
            for _ in range(ITERATIONS):
                pin.framesForwardKinematics(case.other, case.data, x)
                if case.met(goals):
                    if case.within(x):
                        return x
                    break
                x = step(x, goals)
                if x is None:
                    break
        return x
    return solve


def clik(case, step_length, damping):
    """Damped closed-loop inverse kinematics on all frames at once, clipped to the limits after each step."""
    other, data = case.other, case.data
    flat = slice(7, None) if case.root == "free_flyer" else slice(None)
    low, high = other.lowerPositionLimit[flat], other.upperPositionLimit[flat]

    def step(x, goals):
        errors, rows = [], []
        for (_, turns), frame, goal in zip(case.frames, case.ids, goals):
            at = data.oMf[frame]
            J = pin.computeFrameJacobian(other, data, x, frame, pin.LOCAL)
            if turns:
                offset = at.actInv(goal)
                e = pin.log6(offset).vector
                errors.append(e)
                rows.append(pin.Jlog6(offset.inverse()) @ J)
            else:
                errors.append(at.rotation.T @ (goal.translation - at.translation))
                rows.append(J[:3])
        e, J = np.concatenate(errors), np.vstack(rows)
        v = J.T @ np.linalg.solve(J @ J.T + damping ** 2 * np.eye(e.size), e)
        x = pin.integrate(other, x, step_length * v)
        x[flat] = np.clip(x[flat], low, high)
        return x
    return stepper(case, step)


def pink(case, damping=1e-2):
    from pink import Configuration
    from pink import solve_ik as pink_solve
    from pink.exceptions import PinkError
    from pink.limits import ConfigurationLimit
    from pink.tasks import FrameTask

    configuration = Configuration(case.other, case.data, case.twin.configuration(case.start))
    tasks = [FrameTask(name, 1.0, 1.0 if turns else 0.0, lm_damping=damping) for name, turns in case.frames]
    limits = [ConfigurationLimit(case.other, config_limit_gain=0.99)]

    def step(x, goals):
        configuration.update(x)
        for task, goal in zip(tasks, goals):
            task.set_target(goal)
        try:
            v = pink_solve(configuration, tasks, 1.0, solver="quadprog", limits=limits, safety_break=False)
        except (PinkError, ValueError):  # a step without a solution ends the search from this start
            return None
        return configuration.integrate(v, 1.0)
    return stepper(case, step)


def mink(case, damping=1e-2):
    import mink as peer
    import mujoco

    model = mujoco_model(case)
    configuration = peer.Configuration(model)
    tasks = [peer.FrameTask(name, "body", 1.0, 1.0 if turns else 0.0, lm_damping=damping) for name, turns in case.frames]
    limits = [peer.ConfigurationLimit(model, gain=0.99)]
    joints = [(model.joint(j).name, model.jnt_qposadr[j]) for j in range(model.njnt)
              if model.jnt_type[j] != mujoco.mjtJoint.mjJNT_FREE]
    place = [(at, case.other.joints[case.other.getJointId(name)].idx_q) for name, at in joints]
    base = 7 if case.root == "free_flyer" else 0

    def to_mujoco(x):
        q = np.zeros(model.nq)
        if base:
            q[:3], q[3], q[4:7] = x[:3], x[6], x[3:6]
        for a, b in place:
            q[a] = x[b]
        return q

    def from_mujoco(q):
        x = np.zeros(case.other.nq)
        if base:
            x[:3], x[3:6], x[6] = q[:3], q[4:7], q[3]
        for a, b in place:
            x[b] = q[a]
        return x

    def step(x, goals):
        configuration.update(to_mujoco(x))
        for task, goal in zip(tasks, goals):
            task.set_target(peer.SE3.from_rotation_and_translation(peer.SO3.from_matrix(goal.rotation), goal.translation))
        try:
            v = peer.solve_ik(configuration, tasks, 1.0, solver="quadprog", limits=limits)
        except (peer.MinkError, ValueError):
            return None
        return from_mujoco(configuration.integrate(v, 1.0))

    # its frames must be where Pinocchio's are, or the comparison means nothing
    x = case.twin.configuration(case.draw.draw(np.random.default_rng(2), 1)[0])
    configuration.update(to_mujoco(x))
    for (name, _), frame in zip(case.frames, case.ids):
        there = configuration.get_transform_frame_to_world(name, "body").translation()
        assert np.allclose(there, case.pose(x, frame).translation, atol=1e-9), name
    return stepper(case, step)


def mujoco_model(case):
    """MuJoCo's reading of the URDF without its geometry, links behind fixed joints kept, and a free joint where the base floats."""
    import mujoco

    text = case.path.read_text(encoding="utf-8")
    text = re.sub(r"<(visual|collision|transmission|gazebo)\b[^>]*?/>", "", text)
    text = re.sub(r"<(visual|collision|transmission|gazebo)\b.*?</\1>", "", text, flags=re.S)
    options = ('<mujoco><compiler fusestatic="false" boundmass="1e-6" boundinertia="1e-9" balanceinertia="true" strippath="true"/>'
               "</mujoco>")
    spec = mujoco.MjSpec.from_string(re.sub(r"(<robot\b[^>]*>)", rf"\1{options}", text, count=1))
    if case.root == "free_flyer":
        spec.worldbody.first_body().add_freejoint()
    return spec.compile()


METHODS = {"ours": ours, "Pink": pink, "Mink": mink, "Pinocchio loop, full step": lambda case: clik(case, 1.0, 0.1),
           "Pinocchio loop, step 0.3": lambda case: clik(case, 0.3, 0.03)}


def main() -> None:
    targets = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    rows, skipped = [], []
    for description in CASES:
        case = Case(*description, targets)
        for name, make in METHODS.items():
            try:
                solve = make(case)
                solve(case.goals[0], False)  # compile, load, warm up
            except Exception as error:
                skipped.append(f"{name} on {case.title}: {type(error).__name__}: {error}".splitlines()[0])
                print("skipped", skipped[-1], flush=True)
                continue
            for restarts in (False, True):
                rows.append(measure(case, name, solve, restarts))
    write(rows, skipped, targets)


def measure(case, name, solve, restarts):
    times, good = [], 0
    for goals in case.goals:
        begin = time.perf_counter()
        x = solve(goals, restarts)
        times.append(1e3 * (time.perf_counter() - begin))
        good += case.solved(x, goals)
    row = {"robot": case.title, "nv": case.model.nv, "method": name, "starts": 1 + RESTARTS * restarts,
           "success_percent": 100.0 * good / len(times), "median_ms": float(np.median(times)),
           "p90_ms": float(np.percentile(times, 90)), "mean_ms": float(np.mean(times))}
    print(f"{case.title:<20} {name:<25} {row['starts']:>3} starts  {row['success_percent']:5.1f} %  median "
          f"{row['median_ms']:8.3f} ms  90th {row['p90_ms']:9.3f} ms", flush=True)
    return row


def version(package):
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "absent"


def write(rows, skipped, targets) -> None:
    write_table(FOLDER / "inverse_kinematics.csv", rows, digits=".4g", lineterminator="\n")
    own = {(r["robot"], r["starts"]): r for r in rows if r["method"] == "ours"}
    others = [r for r in rows if r["method"] != "ours" and (r["robot"], r["starts"]) in own]
    narrow = [f"{label(r)} ({ratio:.1f})" for r in others
              if (ratio := r["median_ms"] / own[r["robot"], r["starts"]]["median_ms"]) < 2.0]
    behind = [label(r) for r in others if r["success_percent"] > own[r["robot"], r["starts"]]["success_percent"]]
    lines = [
        "# Inverse kinematics beside Pink, Mink and a Pinocchio loop", "",
        *textwrap.fill(
            f"{processor()}; pin {pin.__version__}, pin-pink {version('pin-pink')}, mink {version('mink')}, quadprog "
            f"{version('quadprog')}, one thread. {targets} reachable random targets for each robot, the same for all; every search "
            "begins at the middle of the joint limits. Solved: position within 1e-4 m, orientation within 1e-3 rad, joints within "
            f"their limits, judged by Pinocchio. At most {ITERATIONS} iterations from each start; with {1 + RESTARTS} starts all "
            "methods try the same random configurations after the first. Times per target in milliseconds, failures included; "
            "repeated runs on this shared machine differ by up to a third, and single ratios by up to a factor of two. Pink "
            "and Mink take full steps (dt = 1, gain 1, quadprog, position limits only) with the Levenberg-Marquardt damping that "
            "solves most on the arms, 1e-2 out of 0 and 1e-6 to 1. The loop is the damped least-squares step of Pinocchio's "
            "example, clipped to the limits: full steps with damping 0.1, and steps of 0.3 with damping 0.03, which solve most out "
            "of nine pairs. Written by tests/benchmarks/inverse_kinematics.py.", 128).splitlines(), "",
        "| robot (nv) | method | starts | solved | median ms | 90th percentile ms | mean ms | median / ours | 90th / ours |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        mine = own.get((r["robot"], r["starts"]), r)
        lines.append(f"| {r['robot']} ({r['nv']}) | {r['method']} | {r['starts']} | {r['success_percent']:.1f} % | "
                     f"{r['median_ms']:.3f} | {r['p90_ms']:.3f} | {r['mean_ms']:.3f} | {r['median_ms'] / mine['median_ms']:.1f} | "
                     f"{r['p90_ms'] / mine['p90_ms']:.1f} |")
    lines += ["", f"Solves more than ours from as many starts: {'; '.join(behind) or 'none'}.", "",
              f"Takes less than twice our time in the median: {'; '.join(narrow) or 'none'}. On one leg a loop with little damping "
              "(full steps, 1e-3) takes as long as we do: three equations and no limit in the way leave little to save."]
    if skipped:
        lines += ["", "Not run:", "", *(f"- {line}" for line in skipped)]
    write_page(FOLDER / "inverse_kinematics.md", lines)


def label(row) -> str:
    return f"{row['robot']}, {row['method']}, {row['starts']} start{'s' if row['starts'] > 1 else ''}"


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
