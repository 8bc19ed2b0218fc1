"""From a problem file to a Problem: read, override, validate, and turn into mathematics. All errors come at once."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import typing
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynamics.errors import near
from dynamics.model.model import Model
from dynamics.model.records import Geometry
from ocp.app.files.problem.phases import load_robot, load_symbolic
from ocp.app.files.problem.schema import AnyFile, ProblemFile, problem_class, to_tree
from ocp.app.files.problem.sections import read_linkages, read_simulate
from ocp.app.files.problem.sections_schema import LoadedSimulation, Sweep
from ocp.app.files.robot.gait_schema import RobotGait
from ocp.app.files.robot.schema import RobotPhases, RobotProblem
from ocp.app.files.robot.tree import read_shape
from ocp.app.files.syntax.findings import Findings, describe
from ocp.app.files.syntax.kinds import expect
from ocp.app.files.syntax.overrides import apply_overrides, changed
from ocp.app.files.syntax.readable import validated
from ocp.app.files.syntax.reader import Reader, Section
from ocp.app.files.syntax.yaml_source import KeyPath, Source, parse_source, read_source
from ocp.app.files.syntax.yaml_text import dump
from ocp.app.pages.scene import Drawing
from ocp.certify import Tolerances
from ocp.derivatives import choose
from ocp.errors import ProblemError
from ocp.interrupts import Activity, check
from ocp.methods import METHODS, NOTHING_TO_SAY, idle, in_discrete_time, make_options, switched_off
from ocp.options import section_of, sections
from ocp.pickles import Portable
from ocp.problem import Problem
from ocp.problem.numbers import Numbers, numbers_in
from ocp.reductions.algebraic_equations import state_equations

if TYPE_CHECKING:
    from ocp.app.files.control.mpc import LoadedMPC


@dataclass(frozen=True)
class LoadedProblem(Portable):
    """A problem file, read.

    problem: the mathematics; file: what the file says, validated, with overrides; text: the file as it was read
    drawing: what to animate (symbolic systems), model: the robot (robot systems), or None
    method, method_options: the default method and the options given for it, ready for ``ocp.methods.solve``
    accept: certificate tolerances that differ from the default; options: given options by method; mpc: the section of that name
    folder: what paths in the file are relative to; time_limit: of a solve [s], or None; simulate: the section of that name
    scenery: what stands in the world and is drawn; without: rules of the strategy that are switched off
    written_out: the file with its gait written out as phases; "" of files without one
    """

    problem: Problem
    file: ProblemFile
    text: str
    drawing: Drawing | None
    model: Model | None
    method: str
    method_options: dict[str, Any]
    accept: dict[str, float]
    options: dict[str, dict[str, Any]] = field(default_factory=dict)
    mpc: LoadedMPC | None = None
    folder: Path = Path()
    time_limit: float | None = None
    simulate: LoadedSimulation = field(default_factory=LoadedSimulation)
    scenery: tuple[Geometry, ...] = ()
    without: tuple[str, ...] = ()
    written_out: str = ""

    @cached_property
    def numbers(self) -> Numbers:
        """The numbers of the problem, to be moved."""
        return numbers_in(self.problem)

    def options_for(self, method: str) -> dict[str, Any]:
        """The options that the file gives for a method; those under its own name win over what is given for all."""
        shared = self.file.solve.derivatives
        return {**({} if shared is None else {"derivatives": shared}), **self.options.get(method, {})}

    def expanded(self, method: str | None = None) -> str:
        """The file as YAML with every default written out, those of the method (default: the file's) and of the
        certificate included; reading it gives the same problem."""
        return dump(self.tree(method))

    def tree(self, method: str | None = None) -> dict[str, Any]:
        """The document of :meth:`expanded`, as plain values."""
        name = method or self.method
        record = make_options(name, self.options_for(name))
        solve = self.file.solve.model_copy(update={"method": name, name: dataclasses.asdict(record)})
        accept = {**dataclasses.asdict(Tolerances()), **self.accept}
        return to_tree(self.file.model_copy(update={"solve": solve, "accept": accept}))


def load_problem(path: str | Path, overrides: Mapping[str, str] | None = None) -> LoadedProblem:
    """Read a problem file; ``overrides`` maps paths in it to YAML values (``{"phase.duration": "3"}``).

    Raises ProblemFileError (a ProblemError) listing everything that is wrong, each with file, line, column and key.
    """
    path = Path(path)
    return _load(apply_overrides(read_source(path), overrides or {}), path.parent)


def load_text(text: str, folder: str | Path = ".", name: str = "problem.yaml", overrides: Mapping[str, str] | None = None,
              by: str = "--set") -> LoadedProblem:
    """As :func:`load_problem`, for text; paths in it are relative to ``folder``, ``name`` stands for the file, and ``by`` says who
    wants the overrides."""
    return _load(apply_overrides(parse_source(text, name), overrides or {}, by), Path(folder))


def load_tree(source: Source, folder: str | Path = ".") -> LoadedProblem:
    """As :func:`load_problem`, for a tree that did not come from a file; its ``origins`` say in words where it did come from."""
    return _load(source, Path(folder))


def parse_overrides(assignments: Sequence[str]) -> dict[str, str]:
    """``["phase.duration=3"]`` as a mapping. Raises ProblemError for a word without ``=`` and for a path given twice."""
    found: dict[str, str] = {}
    for word in assignments:
        path, equals, value = word.partition("=")
        path = path.strip()
        if not equals:
            raise ProblemError("expected path.to.key=value", where=f"--set {word}")
        if path in found:
            raise ProblemError(f"{path} is set twice", where=f"--set {word}")
        found[path] = value
    return found


def _load(source: Source, folder: Path) -> LoadedProblem:
    findings = Findings(source)
    expect(source, "problem")
    written: AnyFile = validated(findings, problem_class(source.tree))
    if written.sweep is not None:
        _check_sweep(findings, source, written.sweep)
    if isinstance(written, RobotGait):
        from ocp.app.files.robot.gait import expanded  # inverse kinematics, which few files need

        file: ProblemFile = expanded(written, findings, folder)
    else:
        file = written
    source = findings.source
    drawing: Drawing | None = None
    model: Model | None = None
    if isinstance(file, (RobotProblem, RobotPhases)):
        problem, model, readers = load_robot(file, findings, folder)
    else:
        problem, drawing, readers = load_symbolic(file, findings, folder)
    reader = readers[0]
    drawn = Section(reader, file.system, ("system",)).parts("scenery") if hasattr(file.system, "scenery") else []
    scenery = tuple(read_shape(shape, folder) for shape in drawn)
    if problem is not None and file.linkages:
        linkages = read_linkages(readers, file, problem)
        problem = problem if findings.found else dataclasses.replace(problem, linkages=linkages)
    if problem is not None and not findings.found:
        with findings.collecting(("system",)):
            problem = state_equations(problem)
    if problem is not None and not findings.found:
        _refuse_idle_parameters(findings, problem)
    check(Activity.READING)
    options = {name: read_options(reader, getattr(file.solve, name), name, ("solve", name)) for name in METHODS}
    accept, limit = _accept(reader, file), Section(reader, file.solve, ("solve",)).value("time_limit")
    if problem is not None and not findings.found:
        check_fit(findings, file, problem, options)
    mpc = None
    if getattr(file, "mpc", None) is not None:
        from ocp.app.files.control.mpc import read_mpc  # few files have a closed loop

        whole = None if findings.found else problem
        mpc = read_mpc(reader, file, whole, lambda changed: _load(changed, folder).problem)
    simulation = LoadedSimulation()
    if problem is not None and file.simulate is not None:
        simulation = read_simulate(reader, file.simulate, problem)
    without = _without(reader, file)
    findings.raise_any()
    assert problem is not None  # a missing problem always leaves a finding
    method = file.solve.method
    if in_discrete_time(problem) and "method" not in file.solve.model_fields_set:
        method = "multiple_shooting"  # the default of files has no time to discretise
    return LoadedProblem(problem, file, source.text, drawing, model, method, options[method], accept,
                         {name: values for name, values in options.items() if values}, mpc, folder, limit, simulation, scenery,
                         without, dump(source.tree) if isinstance(written, RobotGait) else "")


def _check_sweep(findings: Findings, source: Source, sweep: Sweep) -> None:
    """Record axes that cannot be read, and paths that the file does not have."""
    from ocp.app.batch.plan import axis_of  # few files have a sweep

    for path, values in sweep.over.items():
        with findings.collecting(("sweep", "over", path)):
            first = Findings(changed(source, path, axis_of(path, values).pick(0.0), path))
            with contextlib.suppress(ProblemError):
                validated(first, problem_class(first.source.tree))
            for where, message in first.found:
                if where.startswith(path):
                    findings.add(("sweep", "over", path), message)


def _refuse_idle_parameters(findings: Findings, problem: Problem) -> None:
    """Record parameters that the solver shall choose and that nothing depends on."""
    used: set[str] = set()
    free: dict[str, None] = {}
    for phase in problem.phases:
        system = phase.system
        free |= {system.parameters[index]: None for index, _, _ in phase.free_parameters}
        functions = [(system.rate, 3), *((c.function, 3) for c in phase.costs), *((c.function, 3) for c in phase.constraints)]
        functions += [] if phase.reset is None else [(phase.reset, 1)]
        for function, key_path in functions:
            used |= {system.parameters[column] for column in function.jac_sparsity(0, key_path).get_col()}
    used |= {name for linkage in problem.linkages for name in linkage.parameters}
    for name in free:
        if name not in used:
            findings.add(("parameters", name, "optimise"), f"nothing depends on {name!r}; there is nothing to choose", at_key=True)


# ---- solve and accept ---------------------------------------------------------------------------------------------------
def _without(reader: Reader, file: ProblemFile) -> tuple[str, ...]:
    names = tuple(file.solve.strategy.without)
    if names:
        with reader.findings.collecting(("solve", "strategy", "without")):
            switched_off(names)
    return names


def _accept(reader: Reader, file: ProblemFile) -> dict[str, float]:
    names, found = [f.name for f in dataclasses.fields(Tolerances)], {}
    for key, value in file.accept.items():
        path: KeyPath = ("accept", key)
        if key not in names:
            reader.findings.add(path, f"unknown tolerance{near(key, names)}", at_key=True)
            continue
        found[key] = reader.number(value, path)
        with reader.findings.collecting(path):
            Tolerances(**{key: found[key]}) if found[key] == found[key] else None
    return found


# ---- options of methods -----------------------------------------------------------------------------------------------
def read_options(reader: Reader, spec: Mapping[str, Any], method: str, path: KeyPath) -> dict[str, Any]:
    """Values by name of the options that stand at ``path``, those of sections among the others; errors are recorded there."""
    if not spec:
        return {}
    kind = METHODS[method].options_type()
    fixed: Mapping[str, Any] = getattr(kind, "FIXED", {})
    within = sections(kind)
    records = {record: typing.get_type_hints(record) for record in (kind, *within.values())}
    hints = {f.name: own[f.name] for record, own in records.items() for f in dataclasses.fields(record)}
    values, sound = dict[str, Any](), dict[str, tuple[Any, KeyPath]]()
    for key, value, key_path in _spread(spec, within, path):
        known = [name for name in hints if key_path[-2] not in within or section_of(kind).get(name) == key_path[-2]]
        if key in fixed and key not in known:
            if value != fixed[key]:
                reader.findings.add(key_path, f"is no option any more: it is always {fixed[key]!r}")
        elif key not in known:
            reader.findings.add(key_path, f"unknown option of {method}{near(key, known, most=len(known))}", at_key=True)
        elif key in values:
            reader.findings.add(key_path, f"{key} is given twice: here and outside {key_path[-2]}", at_key=True)
        else:
            before = len(reader.findings.found)
            values[key] = _option(reader, value, hints[key], key_path)
            if len(reader.findings.found) == before:
                sound[key] = values[key], key_path
    _refuse_options(reader, method, sound, path)
    return values


def _refuse_options(reader: Reader, method: str, options: Mapping[str, tuple[object, KeyPath]], path: KeyPath) -> None:
    """Record what the method says against its options (value, location), one after the other: that which an error names is left
    out, and the rest is tried again."""
    left = dict(options)
    for _ in range(len(left)):
        try:
            make_options(method, {key: value for key, (value, _) in left.items()})
            return
        except ProblemError as error:
            named = next((key for key in left if re.search(rf"\b{key}\b", f"{error.where} {error.message}")), None)
            reader.findings.add(path if named is None else left.pop(named)[1], error.message)
            if named is None:
                return


def _spread(spec: Mapping[str, Any], within: Container[str], path: KeyPath) -> Iterator[tuple[str, Any, KeyPath]]:
    """(name, value, location) of all options, those of sections last."""
    inner = [name for name in spec if name in within and isinstance(spec[name], Mapping)]
    yield from ((name, value, (*path, name)) for name, value in spec.items() if name not in inner)
    yield from ((name, value, (*path, section, name)) for section in inner for name, value in spec[section].items())


def _option(reader: Reader, value: object, kind: object, path: KeyPath) -> Any:
    kinds = typing.get_args(kind) or (kind,)
    if bool in kinds and isinstance(value, bool):
        return value
    if str in kinds and isinstance(value, str) and (value == "auto" or not {int, float} & set(kinds)):
        return value
    # text where a number is wanted is an expression; a bool is an int in Python but never a number in a file
    numeric = not isinstance(value, (bool, Mapping)) and (not isinstance(value, str) or bool not in kinds)
    if numeric and (int in kinds or float in kinds):
        number = reader.number(value, path)
        if int in kinds and number == round(number, 0) and abs(number) < 2**53:
            return int(number)
        if float in kinds or number != number:
            return number
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
    expected = " or ".join(words[k] for k in kinds if k in words) or "a mapping"
    reader.findings.add(path, f"expected {expected}; got {describe(value)}")
    return value


# ---- whether options fit the problem ----------------------------------------------------------------------------------
def check_fit(findings: Findings, file: ProblemFile, problem: Problem, options: Mapping[str, Mapping[str, Any]]) -> None:
    """Record options of methods that the problem's dynamics or phases exclude. options: what the file gives, by method."""
    for name, spec in options.items():
        path: KeyPath = ("solve", name)
        shared = "derivatives" not in spec and file.solve.derivatives is not None and name == file.solve.method
        if not spec and not shared:
            continue  # nothing that could not fit; and the method is not loaded for it
        fields = make_options(name, spec)
        for key in idle(problem, fields):
            findings.add((*path, key), NOTHING_TO_SAY, at_key=True)
        source = str(file.solve.derivatives) if shared else fields.derivatives
        execution = getattr(fields, "execution", "auto")
        if (source, execution) != ("auto", "auto"):
            try:
                for phase in problem.phases:
                    choose(phase.system, source, execution, exact=name != "ilqr")
            except ProblemError as error:
                key = "execution" if error.where == "execution" else "derivatives"
                findings.add(("solve", key) if shared and key == "derivatives" else (*path, key), error.message)
        if "mesh" in spec:
            from ocp.transcription.collocation import CollocationOptions, plans_of  # only here: it loads the transcription

            if isinstance(fields, CollocationOptions):
                with findings.collecting((*path, "mesh")):
                    plans_of(problem, fields)
