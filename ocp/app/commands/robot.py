"""The command ``ocp robot``."""

from __future__ import annotations

from pathlib import Path

from ocp.app.commands.common import CERTIFIED, Flag, Robot


def robot(robot: Robot, /, *, root: str | None = None, picture: Path | None = None, notes: Flag = False) -> int:
    """What a robot file holds, by the names that problem files use: joints, limits, actuators, frames, masses, configurations.

    Parameters
    ----------
    robot
        A .urdf or .xml (MJCF) file, or the name of a robot of the robots extra.
    root
        fixed, free_flyer or planar (URDF): how its root link is attached; default: fixed.
    picture
        Where to draw it; default: results, under its name.
    notes
        All that was noted or left out, line by line.
    """
    from ocp.app.robot.reading import read_robot
    from ocp.app.robot.terminal import draw_robot, print_robot

    found = read_robot(robot, root=root)
    if notes:
        print("\n".join(found.mechanism.model.notes) or "nothing was changed or left out")
        return CERTIFIED
    print_robot(found.mechanism, found.what)
    place = draw_robot(found.mechanism, picture or Path("results") / f"{found.stem}-robot.png")
    print(f"\npicture: {place}\nto start: ocp init {robot}")
    return CERTIFIED
