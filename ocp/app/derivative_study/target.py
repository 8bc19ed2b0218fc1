"""The robot that the command line names: a robot file, a robot of the collection, or the robot of a problem file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dynamics.constraints import Constraint, PointContact
from dynamics.errors import near
from dynamics.model.model import Model
from ocp.app.robot import read_robot
from ocp.errors import ProblemError


@dataclass(frozen=True)
class Target:
    """name: of the folder; root: how its root link is attached; what: the words that say where the robot is from; constraints: that
    hold."""

    name: str
    model: Model
    root: str
    what: str
    constraints: tuple[Constraint, ...] = ()

    def holding(self, names: Sequence[str]) -> Target:
        """The same with those of its constraints, and with the origins of those frames fixed. Raises ProblemError, ModelError."""
        known: dict[str, Constraint] = {c.name: c for c in self.constraints}
        frames = [frame.name for frame in self.model.frames] + [body.name for body in self.model.bodies]
        for name in names:
            if name not in known and name not in frames:
                raise ProblemError(f"no constraint or frame named {name!r}{near(name, [*known, *frames])}", where="--contacts")
        active = tuple(known.get(name) or PointContact(name, name) for name in names)
        for one in active:
            one.check(self.model)
        return replace(self, constraints=active)


def find_target(name: str, *, root: str | None = None, mimic: str | None = None) -> Target:
    """The robot of a name, with the constraints of all phases: a .urdf or .xml file, a problem file (.yaml), or a name of the
    ``robots`` extra.

    root, mimic: for URDF files, as in problem files; default ``fixed`` and ``couple``. Raises ProblemError, ModelError.
    """
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        return _of_problem(path, root, mimic)
    if path.suffix == ".xml":
        _only_urdf(name, root, mimic, "an MJCF file says itself whether its base floats")
    robot = read_robot(name, root=root, mimic=mimic)
    attached = "as the file says" if path.suffix == ".xml" else robot.root
    return Target(robot.stem, robot.mechanism.model, attached, robot.file, robot.mechanism.constraints)


def _of_problem(path: Path, root: str | None, mimic: str | None) -> Target:
    from ocp.app.files.control.ik import load_ik
    from ocp.app.files.load import load_problem
    from ocp.app.files.robot.schema import RobotModel, RobotPhases, RobotProblem
    from ocp.app.files.syntax.kinds import kind_of
    from ocp.app.files.syntax.yaml_source import read_source

    _only_urdf(str(path), root, mimic, "a problem file says itself how its robot is read")
    if kind_of(read_source(path).tree) == "ik":
        loaded = load_ik(path)
        robot = loaded.file.robot
        return Target(path.stem, loaded.model, robot.root if isinstance(robot, RobotModel) else "fixed", f"the robot of {path}",
                      loaded.names.constraints)
    problem = load_problem(path)
    if problem.model is None or not isinstance(problem.file, (RobotProblem, RobotPhases)):
        raise ProblemError("has no robot, so there are no rigid-body derivatives to compare; for the derivatives of its own "
                           "functions run: ocp check-derivatives", where=str(path))
    robots = [phase.system.robot for phase in problem.problem.phases]
    known = {c.name: c for robot in robots if robot is not None for c in robot.constraints}
    system = problem.file.phases[0].system if isinstance(problem.file, RobotPhases) else None
    root = getattr(problem.file.system or system, "root", "fixed")
    return Target(path.stem, problem.model, root, f"the robot of {path}", tuple(known.values()))


def _only_urdf(where: str, root: str | None, mimic: str | None, why: str) -> None:
    for option, given in (("--root", root), ("--mimic", mimic)):
        if given is not None:
            raise ProblemError(f"{option} applies to URDF files; {why}", where=where)
