"""The command ``ocp init``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ocp.app.commands.common import CERTIFIED, Flag, Overwrite, Robot, started


def init(
    robot: Robot, /, *, pose: Flag = False, mpc: Flag = False, ik: Flag = False, wbc: Flag = False, frame: str | None = None,
    root: str | None = None,
    out: Annotated[Path | None, Parameter(help="File to write; default: named after the robot, here.")] = None,
    overwrite: Overwrite = False,
) -> int:
    """Write a commented problem file about a robot that certifies as it is written: a joint move, unless told otherwise.

    Parameters
    ----------
    robot
        A .urdf or .xml (MJCF) file, or the name of a robot of the robots extra.
    pose
        A frame goes to a pose, in place of a joint move.
    mpc
        A receding horizon in closed loop.
    ik
        Inverse kinematics of a pose.
    wbc
        Whole-body control of a robot that stands on its feet.
    frame
        What --pose and --ik move; default: a tool or hand by its name, else the end of the longest branch.
    root
        fixed, free_flyer or planar (URDF): how its root link is attached; default: fixed, with --wbc free_flyer.
    """
    from ocp.app.robot.reading import read_robot
    from ocp.app.starter.write import write_starter
    from ocp.errors import ProblemError

    kinds = [name for name, wanted in (("pose", pose), ("mpc", mpc), ("ik", ik), ("wbc", wbc)) if wanted]
    if len(kinds) > 1:
        raise ProblemError("one of --pose, --mpc, --ik and --wbc at a time", where="ocp init")
    kind = kinds[0] if kinds else "move"
    if wbc and root is None and not robot.endswith(".xml"):
        root = "free_flyer"
    place = write_starter(read_robot(robot, root=root), kind, frame=frame, out=out, overwrite=overwrite, command=started())
    print(f"written: {place}\nnow run: ocp {kind if kind in ('ik', 'mpc', 'wbc') else 'solve'} {place}")
    return CERTIFIED
