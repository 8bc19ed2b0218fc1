"""The command ``ocp init``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ocp.app.commands.common import CERTIFIED, Overwrite, started

Flag = Annotated[bool, Parameter(negative=())]


def init(
    robot: str, /, *, pose: Flag = False, mpc: Flag = False, ik: Flag = False, frame: str | None = None, root: str | None = None,
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
    frame
        What --pose and --ik move; default: a tool or hand by its name, else the end of the longest branch.
    root
        fixed, free_flyer or planar (URDF): how its root link is attached; default: fixed.
    """
    from ocp.app.robot.reading import read_robot
    from ocp.app.starter.write import write_starter
    from ocp.errors import ProblemError

    kinds = [name for name, wanted in (("pose", pose), ("mpc", mpc), ("ik", ik)) if wanted]
    if len(kinds) > 1:
        raise ProblemError("one of --pose, --mpc and --ik at a time", where="ocp init")
    kind = kinds[0] if kinds else "move"
    place = write_starter(read_robot(robot, root=root), kind, frame=frame, out=out, overwrite=overwrite, command=started())
    print(f"written: {place}\nnow run: ocp {kind if kind in ('ik', 'mpc') else 'solve'} {place}")
    return CERTIFIED
