"""``ocp init``: which file to write, and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import casadi as ca
import numpy as np
from scipy.linalg import null_space

from dynamics import algorithms as alg
from ocp.app.files.robot.model import COLLECTION
from ocp.app.robot import NamedRobot
from ocp.app.starter.fly import flight, flying_file
from ocp.app.starter.plan import Plan, make_plan
from ocp.app.starter.stand import standing_file, walking_file
from ocp.app.starter.text import Target, end_frame, rpy_of, starter
from ocp.control.ik import solve_ik
from ocp.control.tasks import closure_tasks, posture_task
from ocp.errors import ProblemError

RANK = 1e-3  # singular values of a Jacobian that count, beside the largest, or in m/rad


def write_starter(robot: NamedRobot, kind: str, *, frame: str | None = None, gait: str = "", mpc: bool = False,
                  legs: bool = False, out: Path | None = None, overwrite: bool = False, command: Sequence[str] = ()) -> Path:
    """Write a starter file of the kind ``move``, ``pose``, ``mpc``, ``ik``, ``wbc`` or ``gait``; returns it.

    frame: moved by ``pose`` and ``ik``; default: a tool or hand by its name, else the end of the longest branch. mpc: a gait
    repeats in a receding horizon; legs: in a gait all other joints are locked. Raises ProblemError for robots that cannot move, and
    where the file is there.
    """
    place = out or Path(f"{robot.stem}_{gait or kind}{'_mpc' * (mpc and bool(gait))}.yaml")
    if place.exists() and not overwrite:
        raise ProblemError("already exists; give --overwrite, or another file with --out", where=str(place))
    if not robot.file.startswith(COLLECTION):
        robot = replace(robot, file=_seen(robot.path, place.parent))
    said = " ".join(command) or "ocp init"
    text = walking_file(robot, gait, said, receding=mpc, legs=legs) if kind == "gait" else _text(robot, kind, frame, said)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, encoding="utf-8")
    return place


def _text(robot: NamedRobot, kind: str, frame: str | None, command: str) -> str:
    if kind == "wbc":
        return standing_file(robot, command)
    if (found := flight(robot)) is not None:
        if kind not in ("move", "pose"):
            raise ProblemError(f"it flies on rotors; use ocp init without --{kind}", where=f"robot {robot.stem!r}")
        return flying_file(robot, found, command)
    plan, tool = make_plan(robot.mechanism), frame or end_frame(robot)
    robot.mechanism.model.frame(tool)  # raises with near misses
    return starter(robot, plan, kind, command, _target(robot, plan, tool) if kind in ("pose", "ik") else None)


def _seen(path: Path, folder: Path) -> str:
    import os

    return Path(os.path.relpath(path, folder)).as_posix()


def _target(robot: NamedRobot, plan: Plan, frame: str) -> Target:
    """Where the goal of the joint move brings a frame: a pose that can be reached, or the coordinates that the joints decide."""
    mechanism = robot.mechanism.locked(plan.lock) if plan.lock else robot.mechanism
    model = mechanism.model
    q = np.array(alg.neutral(model), dtype=float)
    for name, value in {**plan.start, **plan.goal}.items():
        q[model.q_slice(model.joint_index(name))] = value
    symbol, loops = ca.SX.sym("q", model.nq), closure_tasks(model, mechanism.constraints)
    if loops:  # the nearest configuration in which they are closed
        q = solve_ik(model, [loops, posture_task(q)], q0=q).q
    pose = alg.frame_pose(model, symbol, frame)
    outputs = [ca.densify(part) for part in (pose.R, pose.p, alg.frame_jacobian(model, symbol, frame, "world_aligned"))]
    R, p, J = (np.asarray(part) for part in ca.Function("pose", [symbol], outputs)(q))
    rows = [np.asarray(ca.DM(task.shape.constraint.jacobian(model, ca.DM(q)))) for task in loops if task.shape.constraint]
    J = J @ null_space(np.vstack(rows), rcond=RANK) if rows else J
    if np.linalg.matrix_rank(J, tol=RANK * float(np.linalg.norm(J, 2))) == 6:
        return Target(frame, tuple(round(float(x), 4) for x in p.ravel()), tuple(round(float(x), 4) for x in rpy_of(R)), "xyz")
    chosen: list[int] = []
    for i in range(3):
        if np.linalg.matrix_rank(J[[*chosen, i]], tol=RANK) > len(chosen):
            chosen.append(i)
    if not chosen:
        raise ProblemError(f"no joint moves the frame {frame!r}; name another with --frame", where="ocp init")
    return Target(frame, tuple(round(float(x), 4) for x in p.ravel()), None, "".join("xyz"[i] for i in chosen))
