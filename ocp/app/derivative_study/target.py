"""The robot that the command line names: a robot file, a robot of the collection, or the robot of a problem file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dynamics.model.model import Model
from ocp.app.robot import read_robot
from ocp.errors import ProblemError


@dataclass(frozen=True)
class Target:
    """name: of the folder; root: how its root link is attached; what: the words that say where the robot is from."""

    name: str
    model: Model
    root: str
    what: str


def find_target(name: str, *, root: str | None = None, mimic: str | None = None) -> Target:
    """The robot of a name: a .urdf or .xml file, a problem file (.yaml), or a name of the ``robots`` extra.

    root, mimic: for URDF files, as in problem files; default ``fixed`` and ``couple``. Raises ProblemError, ModelError.
    """
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        return _of_problem(path, root, mimic)
    if path.suffix == ".xml":
        _only_urdf(name, root, mimic, "an MJCF file says itself whether its base floats")
    robot = read_robot(name, root=root, mimic=mimic)
    attached = "as the file says" if path.suffix == ".xml" else robot.root
    return Target(robot.stem, robot.mechanism.model, attached, robot.file)


def _of_problem(path: Path, root: str | None, mimic: str | None) -> Target:
    from ocp.app.files.control.ik import load_ik
    from ocp.app.files.load import load_problem
    from ocp.app.files.robot.schema import RobotModel, RobotProblem
    from ocp.app.files.syntax.kinds import kind_of
    from ocp.app.files.syntax.yaml_source import read_source

    _only_urdf(str(path), root, mimic, "a problem file says itself how its robot is read")
    if kind_of(read_source(path).tree) == "ik":
        loaded = load_ik(path)
        robot = loaded.file.robot
        return Target(path.stem, loaded.model, robot.root if isinstance(robot, RobotModel) else "fixed", f"the robot of {path}")
    problem = load_problem(path)
    if problem.model is None or not isinstance(problem.file, RobotProblem):
        raise ProblemError("has no robot, so there are no rigid-body derivatives to compare; for the derivatives of its own "
                           "functions run: ocp check-derivatives", where=str(path))
    return Target(path.stem, problem.model, problem.file.system.root, f"the robot of {path}")


def _only_urdf(where: str, root: str | None, mimic: str | None, why: str) -> None:
    for option, given in (("--root", root), ("--mimic", mimic)):
        if given is not None:
            raise ProblemError(f"{option} applies to URDF files; {why}", where=where)
