"""The robot that a file names, read from its URDF or MJCF file with all that moves it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dynamics.errors import near
from dynamics.mechanism import Mechanism, direct_motors
from dynamics.model.model import GRAVITY
from ocp.app.files.gallery import in_gallery
from ocp.app.files.load_deformable import with_deformable
from ocp.app.files.load_parts import Reader
from ocp.app.files.load_tree import read_tree
from ocp.app.files.schema_robot import RobotModel
from ocp.app.files.yaml_source import KeyPath
from ocp.errors import ProblemError

COLLECTION = "robots:"
FILE_ONLY = {"root": "fixed", "mimic": "couple", "srdf": "auto", "packages": {}}  # keys about robot files, and their defaults


def read_mechanism(numbers: Reader, given: RobotModel, folder: Path, place: str | KeyPath, *, configurations: bool
                   ) -> Mechanism | None:
    """The robot with the drives and forces of its file; None after an error was recorded. Paths are relative to ``folder``.

    place: the key, or the keys, that describe the robot; configurations: whether the file uses named ones, so that the SRDF beside
    the URDF is read.
    """
    at: KeyPath = (place,) if isinstance(place, str) else place
    path: KeyPath = (*at, "robot")
    gravity = None if given.gravity is None else numbers.vector(given.gravity, 3, (*at, "gravity"), "components")
    robot: Mechanism | None = None
    if given.robot is not None:
        with numbers.findings.collecting(path if numbers.findings.source.entries.get(path) else at):
            file = robot_path(given.robot, folder)
            if file.suffix == ".urdf":
                robot = _read_urdf(given, file, folder, gravity, configurations)
            else:
                robot = _read_mjcf(given, file, gravity, str(at[-1]))
    if (given.joints or given.bodies or given.frames) and (given.robot is None or robot is not None):
        robot = _with_tree(numbers, given, robot, gravity, at, folder)
    if given.mass_springs is not None and robot is not None:
        robot = with_deformable(numbers, given.mass_springs, robot, (*at, "mass_springs"))
    for name, value in given.lock.items():
        spot: KeyPath = (*at, "lock", name)
        listed = value if isinstance(value, tuple) else (value,)
        values = [numbers.number(x, (*spot, i) if isinstance(value, tuple) else spot) for i, x in enumerate(listed)]
        if robot is not None:
            with numbers.findings.collecting(spot):
                robot = robot.locked({name: values})
    return robot


def robot_path(words: str, folder: Path) -> Path:
    """The robot file that ``words`` name. Raises ProblemError or ModelError where there is none, with near misses."""
    if words.startswith(COLLECTION):
        from dynamics.model.robots import find_robot

        return find_robot(words.removeprefix(COLLECTION))
    path = in_gallery(folder / words)
    if path.suffix not in (".urdf", ".xml"):
        raise ProblemError(f"expected a .urdf or .xml file, or {COLLECTION}NAME; got {words!r}")
    if path.is_dir():
        raise ProblemError(f"{path} is a folder, not a file")
    if not path.is_file():
        if not path.parent.is_dir():
            raise ProblemError(f"no file {path}; the folder {path.parent} does not exist")
        beside = [p.name for p in path.parent.iterdir() if p.suffix in (".urdf", ".xml") and p.is_file()]
        raise ProblemError(f"no file {path}{near(path.name, beside)}")
    return path


def _with_tree(numbers: Reader, given: RobotModel, robot: Mechanism | None, gravity: tuple[float, ...] | None, at: KeyPath,
               folder: Path) -> Mechanism | None:
    """The robot with what the problem file says about its tree. Without drives of its own it has a motor at every joint."""
    if robot is None and (key := next((key for key, plain in FILE_ONLY.items() if getattr(given, key) != plain), None)):
        numbers.findings.add((*at, key), "applies to a robot file, and there is none", at_key=True)
        return None
    model = read_tree(numbers, given, None if robot is None else robot.model, at, folder)
    if model is None:
        return None
    if robot is None:
        model = model if gravity is None else replace(model, gravity=gravity)
    motors = None if robot is None or robot.motors == direct_motors(robot.model) else robot.motors
    with numbers.findings.collecting(at):
        return replace(robot or Mechanism(model), model=model, motors=direct_motors(model) if motors is None else motors)
    return None


def _read_urdf(given: RobotModel, robot: Path, folder: Path, gravity: tuple[float, ...] | None, configurations: bool) -> Mechanism:
    from dynamics.model.urdf import read_urdf

    srdf: str | Path | None = None
    if given.srdf != "auto":
        srdf = folder / given.srdf
    elif configurations:
        srdf = "auto"
    model = read_urdf(robot, root=given.root, keep_fixed=tuple(given.joints), srdf=srdf,
                      packages={name: folder / path for name, path in given.packages.items()},
                      mimic=given.mimic, gravity=GRAVITY if gravity is None else gravity)
    return Mechanism(model, direct_motors(model))


def _read_mjcf(given: RobotModel, robot: Path, gravity: tuple[float, ...] | None, place: str) -> Mechanism:
    from dynamics.mechanism.mjcf import read_mjcf_mechanism  # MuJoCo is an extra

    if given.root != "fixed":
        raise ProblemError(f"{place}.root applies to URDF; an MJCF file says itself whether its base floats (<freejoint/>)")
    if key := next((key for key, plain in FILE_ONLY.items() if getattr(given, key) != plain), None):
        raise ProblemError(f"{place}.{key} applies to URDF, not to MJCF")
    robot_of_file = read_mjcf_mechanism(robot, gravity=gravity)
    if robot_of_file.nu or not robot_of_file.model.nv:
        return robot_of_file
    return replace(robot_of_file, motors=direct_motors(robot_of_file.model))  # a file without actuators says nothing about drives
