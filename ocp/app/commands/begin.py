"""The commands that begin: ``ocp robot``, ``init``, ``check``, ``show``, and ``doctor``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ocp.app.commands.common import CERTIFIED, NOT_SOLVED, Flag, Overrides, Overwrite, Problem, Robot, Target, overridden, started


def robot(robot: Robot, /, *, root: str | None = None, picture: Path | None = None, notes: Flag = False) -> int:
    """List a robot file by the names that problem files use: joints, limits, actuators, frames, masses, configurations.

    Parameters
    ----------
    robot
        A .urdf or .xml (MJCF) file, or the name of a robot of the robots extra.
    root
        fixed, free_flyer or planar (URDF): how its root link is attached; default: fixed.
    picture
        Where to draw it; default: results, under its name, with a number where that is another robot's.
    notes
        All that was noted or left out, line by line.
    """
    from ocp.app.robot import draw_robot, picture_place, print_robot, read_robot

    found = read_robot(robot, root=root)
    if notes:
        print("\n".join(found.mechanism.model.notes) or "nothing was changed or left out")
        return CERTIFIED
    print_robot(found.mechanism, found.what)
    place = draw_robot(found, picture or picture_place(found, Path("results")))
    print(f"\npicture: {place}\nto start: ocp init {robot}")
    return CERTIFIED


def init(
    robot: Robot, /, *, pose: Flag = False, mpc: Flag = False, ik: Flag = False, wbc: Flag = False, gait: str | None = None,
    legs: Flag = False, frame: str | None = None, root: str | None = None,
    out: Annotated[Path | None, Parameter(help="File to write; default: named after the robot, here.")] = None,
    overwrite: Overwrite = False,
) -> int:
    """Write a commented problem file about a robot that certifies as it is written: a joint move, or a flight on rotors, if not
    reported otherwise.

    Parameters
    ----------
    robot
        A .urdf or .xml (MJCF) file, or the name of a robot of the robots extra.
    pose
        A frame goes to a pose, in place of a joint move.
    mpc
        A receding horizon in closed loop; with --gait one in which the gait repeats.
    ik
        Inverse kinematics of a pose.
    wbc
        Whole-body control of a robot that stands on its feet.
    gait
        A robot that stands on its feet moves them: stand, step, walk, trot, pace, bound or jump.
    legs
        With --gait: only joints between the base and the feet move; all others are locked in the standing posture.
    frame
        What --pose and --ik move; default: a tool or hand by its name, else the end of the longest branch.
    root
        fixed, free_flyer or planar (URDF): how its root link is attached; default: fixed; free_flyer with --wbc, --gait and of what
        flies.
    """
    from ocp.app.robot import read_robot
    from ocp.app.starter.fly import flight
    from ocp.app.starter.write import write_starter
    from ocp.errors import ProblemError

    wishes = (("pose", pose), ("mpc", mpc and not gait), ("ik", ik), ("wbc", wbc), ("gait", gait))
    kinds = [name for name, wanted in wishes if wanted]
    if len(kinds) > 1:
        raise ProblemError("give only one of --pose, --mpc, --ik, --wbc and --gait; --gait and --mpc go together", where="ocp init")
    kind = kinds[0] if kinds else "move"
    if legs and kind != "gait":
        raise ProblemError("--legs goes with --gait", where="ocp init")
    if (wbc or gait) and root is None and not robot.endswith(".xml"):
        root = "free_flyer"
    found = read_robot(robot, root=root)
    if root is None and found.path.suffix == ".urdf" and flight(found) is not None:
        found = read_robot(robot, root="free_flyer")
    place = write_starter(found, kind, frame=frame, gait=gait or "", mpc=mpc, legs=legs, out=out, overwrite=overwrite,
                          command=started())
    print(f"written: {place}\nnow run: ocp {'mpc' if mpc else kind if kind in ('ik', 'wbc') else 'solve'} {place}")
    return CERTIFIED


def check(file: Problem, /, *, set_: Overrides = None) -> int:
    """Validate a problem file, and say which methods can solve it, without solving; or a file of inverse kinematics. Exit code 1
    where rates are infinite at a start or final state, so that none can."""
    from ocp.app.files.control.ik import load_ik
    from ocp.app.files.control.wbc import load_wbc
    from ocp.app.files.load import load_problem
    from ocp.app.files.syntax.kinds import kind_of
    from ocp.app.files.syntax.yaml_source import read_source
    from ocp.app.pages.ik_report import print_check as print_ik_check
    from ocp.app.pages.summary import print_check
    from ocp.app.wbc.run import print_check as print_wbc_check
    from ocp.errors import ProblemError

    if file.suffix in (".urdf", ".xml"):
        raise ProblemError(f"is a robot, not a problem; inspect it with: ocp robot {file}, or write a problem with: "
                           f"ocp init {file}", where=str(file))
    kind, changes = kind_of(read_source(file).tree), overridden(set_)
    if kind == "wbc":
        print_wbc_check(load_wbc(file, changes))
    elif kind == "ik":
        print_ik_check(load_ik(file, changes))
    else:
        return CERTIFIED if print_check(load_problem(file, changes)) else NOT_SOLVED
    return CERTIFIED


def show(
    file: Annotated[Target | None, Parameter(help="The file (YAML); the options below need none, but --set.")] = None, /, *,
    set_: Overrides = None, schema: Flag = False, functions: Flag = False, strategy: Flag = False, thresholds: Flag = False,
    phases: Flag = False,
) -> int:
    """Print a problem file fully expanded, every default written out.

    Parameters
    ----------
    schema
        The JSON Schema of problem files instead (for editors).
    functions
        Every function, constant and quantity that expressions know instead; with a file its own names, too.
    strategy
        The table of rules by which answers are found instead: diagnosis, remedy, budget.
    thresholds
        Every number that decides in solves and certificates instead, with its unit and its reason.
    phases
        The file with its gait written out as phases instead, to go on from.
    """
    from ocp.app.files.load import load_problem
    from ocp.app.files.problem.schema import problem_json_schema
    from ocp.app.pages import tables
    from ocp.errors import ProblemError

    if schema:
        print(json.dumps(problem_json_schema(), indent=2))
    elif strategy:
        tables.print_rules()
    elif thresholds:
        tables.print_thresholds()
    else:
        loaded = None if file is None else load_problem(file, overridden(set_))
        if functions:
            tables.print_vocabulary(loaded)
        elif loaded is None:
            raise ProblemError("name a problem file, or give --schema, --functions, --strategy or --thresholds", where="ocp show")
        elif phases and not loaded.written_out:
            raise ProblemError("has no gait to expand", where=str(file))
        else:
            print(loaded.written_out if phases else loaded.expanded(), end="")
    return CERTIFIED


def doctor(*, prepare: Flag = False) -> int:
    """Versions, compiler, kernel cache, loops that are not compiled yet, and a self-test that solves one problem each way.

    Parameters
    ----------
    prepare
        Compile all loops now, so that no solve has to wait for it: about two minutes, once after an installation.
    """
    from ocp.app.doctor import print_diagnosis, print_preparation

    return CERTIFIED if (print_preparation() if prepare else print_diagnosis()) else NOT_SOLVED
