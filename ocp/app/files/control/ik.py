"""The inverse-kinematics file: a robot, where the search starts, tasks by priority; read with the strictness of problem files."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field, StrictBool, StrictInt

from dynamics.model.model import Model
from ocp.app.files.control.tasks import Clearance as ClearancePart
from ocp.app.files.control.tasks import Task as TaskPart
from ocp.app.files.control.tasks import TaskList, open_loops, read_clearances, read_tasks, unmet
from ocp.app.files.robot import states as robot_state
from ocp.app.files.robot.model import begin, robot_of
from ocp.app.files.robot.schema import RobotFile
from ocp.app.files.robot.tree_schema import Configuration
from ocp.app.files.syntax import reader as lp
from ocp.app.files.syntax.parts import Key, Number, Part
from ocp.app.files.syntax.yaml_source import Source, parse_source, read_source
from ocp.app.files.syntax.yaml_text import dump
from ocp.bridge import model_space, state_limits
from ocp.control.clearance import Clearance
from ocp.control.ik import IKResult, solve_ik
from ocp.problem import INF

SLACK = 1e-9  # m, rad: rounding at a limit is no violation


# ---- schema -------------------------------------------------------------------------------------------------------------
class Limits(Part):
    """Which limits of the robot file hold."""

    position: StrictBool = Key("joint positions", True)


class Options(Part):
    """How the search goes."""

    tolerance: Number = Key("largest error of a fulfilled task [m or rad]", 1e-6, above=0)
    restarts: StrictInt = Key("largest number of random starts after the given one", 50, least=0)
    max_iterations: StrictInt = Key("largest number of iterations from each start", 60, least=1)
    seed: StrictInt = Key("seed of the random starts; the same seed gives the same answer", 0, least=0)


class IKFile(RobotFile):
    """An inverse-kinematics file."""

    start: Configuration | None = Key("initial configuration; default: neutral, within the limits", None)
    tasks: Annotated[tuple[TaskPart, ...], Field(min_length=1)] = Key("tasks in order of priority, or each with its priority")
    limits: Limits = Key("limits of the robot file that are enforced", Limits)
    clearances: tuple[ClearancePart, ...] = Key("pairs of shapes that stay apart; with one priority only", ())
    options: Options = Key("options of the search", Options)


# ---- loading ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class LoadedIK:
    """An inverse-kinematics file, read. start [nq]: where the search begins; names: what reads configurations of the robot;
    tolerances: of each task in the order of ``tasks.tasks``."""

    file: IKFile
    text: str
    model: Model
    names: robot_state.RobotNames
    start: np.ndarray
    tasks: TaskList
    tolerances: tuple[float, ...]
    clearances: tuple[Clearance, ...]

    def expanded(self) -> str:
        """The file as YAML with every default written out; reading it gives the same question."""
        return dump(self.file.model_dump(mode="json", exclude_none=True))


@dataclass(frozen=True)
class IKOutcome:
    """The request and its outcome. unmet: names of tasks of the first priority beyond their tolerance; broken: what else
    does not hold, in words; seconds: of reading the file and of compiling and searching."""

    loaded: LoadedIK
    result: IKResult
    unmet: tuple[str, ...]
    broken: tuple[str, ...]
    seconds: Mapping[str, float]

    @property
    def ok(self) -> bool:
        """Every task of the first priority is met, and limits and clearances hold."""
        return not self.unmet and not self.broken


def load_ik(path: str | Path, overrides: Mapping[str, str] | None = None) -> LoadedIK:
    """Read an inverse-kinematics file; ``overrides`` as for problem files.

    Raises ProblemFileError (a ProblemError) listing everything that is wrong, each with file, line, column and key.
    """
    path = Path(path)
    return _load(read_source(path), path.parent, overrides or {})


def load_ik_text(text: str, folder: str | Path = ".", name: str = "ik.yaml",
                 overrides: Mapping[str, str] | None = None) -> LoadedIK:
    """As :func:`load_ik`, for text; paths in it are relative to ``folder``, and ``name`` stands for the file."""
    return _load(parse_source(text, name), Path(folder), overrides or {})


def _load(source: Source, folder: Path, overrides: Mapping[str, str]) -> LoadedIK:
    source, file, numbers = begin(source, overrides, IKFile, "ik")
    findings = numbers.findings
    tolerance = lp.Section(numbers, file.options, ("options",)).made()["tolerance"]
    named = [file.start, *(task.posture for task in file.tasks)]
    uses_names = any(part is not None and part.configuration for part in named)
    mechanism = robot_of(numbers, file, folder, uses_names)
    model = mechanism.model
    names = _names(numbers, model, file)
    start = robot_state.read_configuration(names, file.start, ("start",)) if file.start else None
    whole = lp.Section(numbers, file, ())
    tasks = read_tasks(names, whole, "tasks")
    clearances = read_clearances(names, whole)
    if tasks is not None and clearances and len(tasks.levels) > 1:
        findings.add(("clearances",), f"go with one priority, the tasks have {len(tasks.levels)}; give each task 'priority: 1' "
                     "and let weights decide", at_key=True)
    findings.raise_any()
    assert tasks is not None
    tolerances = tuple(tolerance if t is None else t for t in tasks.tolerances)
    names = replace(names, constraints=mechanism.constraints)
    return LoadedIK(file, source.text, model, names, robot_state.complete(names, start)[: model.nq], tasks, tolerances, clearances)


def _names(numbers: lp.Reader, model: Model, file: IKFile) -> robot_state.RobotNames:
    space = model_space(model)
    bounds = np.tile([-INF, INF], (space.nx, 1))
    if file.limits.position:
        bounds[: model.nq] = state_limits(model)[: model.nq]
        stuck = [n for k, n in enumerate(model.coordinate_names) if not bounds[k].any()]
        if stuck:  # robot files write 0 for "not known"
            numbers.findings.add(("robot",), f"the robot file limits the position of {', '.join(map(repr, stuck))} to 0; set "
                                 "limits.position: false")
    return robot_state.RobotNames(numbers, model, space, bounds, "robot")


# ---- solving ------------------------------------------------------------------------------------------------------------
def solve_loaded(loaded: LoadedIK, *, begin: float | None = None) -> IKOutcome:
    """Search for the configuration. ``begin``: when reading began (``time.perf_counter``)."""
    options, read = loaded.file.options, time.perf_counter()
    result = solve_ik(
        loaded.model, loaded.tasks.levels, q0=loaded.start, limits=loaded.file.limits.position, restarts=options.restarts,
        rng=np.random.default_rng(options.seed), tolerance=loaded.tolerances, max_iterations=options.max_iterations,
        clearances=loaded.clearances, constraints=loaded.names.constraints)
    broken = [f"{name} is {excess:.3g} beyond its limit" for name, excess in result.violations.items() if excess > SLACK]
    broken += [f"{name} is {-distance:.3g} m too close" for name, distance in result.clearances.items() if not distance >= -SLACK]
    broken += open_loops(loaded.model, loaded.names.constraints, result, min(loaded.tolerances))
    missed = tuple(loaded.tasks.tasks[k].name for k in unmet(result, loaded.tasks, loaded.tolerances))
    seconds = {"search": time.perf_counter() - read}
    if begin is not None:
        seconds = {"read": read - begin, **seconds}
    return IKOutcome(loaded, result, missed, tuple(broken), seconds)
