"""From a file of whole-body control to its setup and its plant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from dynamics.constraints import Cone, Contact
from dynamics.mechanism import Mechanism
from dynamics.model.model import Model
from ocp.app.files.control import wbc_schema as schema
from ocp.app.files.control.trials import read_trials
from ocp.app.files.control.wbc_tasks import Stage, read_schedule, read_tasks
from ocp.app.files.robot import states as robot_state
from ocp.app.files.robot.model import begin, robot_of
from ocp.app.files.syntax import reader as lp
from ocp.app.files.syntax.findings import Findings
from ocp.app.files.syntax.reader import Section, sound
from ocp.app.files.syntax.yaml_source import Source, parse_source, read_source
from ocp.app.files.syntax.yaml_text import dump
from ocp.bridge import model_space
from ocp.mpc.trials import RandomTrials
from ocp.plants import Plant, Push
from ocp.plants.table import PLANTS, Setting, plant_named
from ocp.problem import INF
from ocp.wbc import Setup
from ocp.wbc.follow import Following
from ocp.wbc.ground import Ground
from ocp.wbc.start import close_contacts, unsupported
from ocp.wbc.trials import draw

CLOSED = 0.02  # m: contacts that are taken at the start may be so far from their planes


@dataclass(frozen=True)
class LoadedWbc:
    """A file of whole-body control, read. notes: what was done to the start, in words; pushes, friction, restitution: of the
    plant; expect: by name of a state its index in x, what it is at the end, and the tolerance; following: a motion; folder: of
    the file."""

    file: schema.WbcFile
    text: str
    mechanism: Mechanism
    setup: Setup
    pushes: tuple[Push, ...]
    friction: Mapping[str, float]
    restitution: Mapping[str, float]
    notes: tuple[str, ...]
    expect: Mapping[str, tuple[int, float, float]]
    following: Following | None = None
    trials: RandomTrials = field(default_factory=RandomTrials)
    folder: FilePath = FilePath()

    def expanded(self) -> str:
        """The file as YAML with every default written out."""
        return dump(self.tree())

    def tree(self) -> dict[str, Any]:
        """The document of :meth:`expanded`, as plain values."""
        return self.file.model_dump(mode="json", exclude_none=True)

    def trial(self, seed: int, number: int) -> LoadedWbc:
        """A trial: another start, friction and pushes."""
        setup, pushes, friction = draw(self.setup, self.trials, self.friction, seed, number)
        return replace(self, setup=setup, pushes=(*self.pushes, *pushes), friction=friction)

    def plant(self, kind: str = "") -> Plant:
        """A plant of the kind (default: the file's). Raises ProblemError, also for MuJoCo where it is not installed."""
        contacts: list[Contact] = [one.but(friction=self.friction.get(one.name, one.friction),
                                           restitution=self.restitution.get(one.name, 0.0)) for one in self.setup.contacts]
        ground = Ground.below(self.mechanism, self.setup.contacts, self.setup.start)
        contacts += ground.parts if ground else ()
        cone = Cone() if self.file.plant.cone == "exact" else Cone(self.file.plant.sides, self.file.plant.cone)
        made = PLANTS[plant_named(kind or self.file.plant.kind)]
        return made.make(Setting(self.mechanism, tuple(contacts), self.pushes, cone))


def load_wbc(path: str | FilePath, overrides: Mapping[str, str] | None = None) -> LoadedWbc:
    """Read a file; ``overrides`` as for problem files. Raises ProblemFileError with all that is wrong, each with its location."""
    path = FilePath(path)
    return _load(read_source(path), path.parent, overrides or {})


def load_wbc_text(text: str, folder: str | FilePath = ".", name: str = "wbc.yaml", overrides: Mapping[str, str] | None = None
                  ) -> LoadedWbc:
    """As :func:`load_wbc`, for text; paths in it are relative to ``folder``."""
    return _load(parse_source(text, name), FilePath(folder), overrides or {})


def _load(source: Source, folder: FilePath, overrides: Mapping[str, str]) -> LoadedWbc:
    source, file, numbers = begin(source, overrides, schema.WbcFile, "wbc")
    findings, mechanism = numbers.findings, robot_of(numbers, file, folder, bool(file.start.configuration))
    model, space = mechanism.model, model_space(mechanism.model)
    names = robot_state.RobotNames(numbers, model, space, np.tile([-INF, INF], (space.nx, 1)), "robot")
    start = robot_state.complete(names, robot_state.read_state(names, file.start, ("start",)))
    whole = Section(numbers, file, ())
    contacts = _contacts(whole, model)
    start, notes = (start, ()) if findings.found else _closed(findings, mechanism, contacts, start)
    stage, before = Stage(names, mechanism, contacts, start), len(findings.found)
    tasks = read_tasks(stage, whole)
    switches, pushes = read_schedule(stage, whole, tasks) if len(findings.found) == before else ((), ())
    control, plant, known = whole.part("wbc"), whole.part("plant"), [plan.name for plan in contacts]
    values = {"efforts": _efforts(control, mechanism), **control.made()}
    if plant.spec.kind not in PLANTS:
        lp.unknown(findings, plant.spec.kind, tuple(PLANTS), plant.at("kind"), "plant")
    friction, restitution = (dict(plant.known(key, known, "contact")) for key in ("friction", "restitution"))
    expect = _expected(numbers, mechanism, file)
    trials = read_trials(whole.part("trials"), space, model, known)
    following = None if file.follow is None else whole.part("follow").made()
    findings.raise_any()
    with findings.collecting(("wbc",)):
        setup = Setup(mechanism, start, contacts, tasks, switches, **values)
        advice = unsupported(setup)
        return LoadedWbc(file, source.text, mechanism, setup, pushes, friction, restitution, (*notes, *advice), expect, following,
                         trials, folder)
    findings.raised()


def _contacts(file: Section, model: Model) -> tuple[Contact, ...]:
    found = [_contact(file.part("contacts", name), name, model) for name in file.spec.contacts]
    return tuple(plan for plan in found if plan is not None)


@sound
def _contact(section: Section, name: str, model: Model) -> Contact:
    made: Contact = section.made(name=name)
    if made.most <= made.least:
        section.refuse(f"must be above least ({made.least:g} N), got {made.most:g} N", "most")
    for axis, (low, high) in zip("xyz", made.within or (), strict=False):
        if not low < high:
            section.refuse(f"must end above its beginning, got {low:g} to {high:g} m", "within", axis)
    section.frame(model, "frame")
    section.findings.settle()
    made.but(slip=None).check(model)
    return made


def _closed(findings: Findings, mechanism: Mechanism, contacts: tuple[Contact, ...], start: np.ndarray
            ) -> tuple[np.ndarray, tuple[str, ...]]:
    """The start with its contacts closed, where they nearly are."""
    x, gaps = close_contacts(mechanism, contacts, start, CLOSED)
    far = {name: gap for name, gap in gaps.items() if abs(gap) > CLOSED}
    for name, gap in far.items():
        findings.add(("contacts", name), f"is taken at the start, but does not touch: a point is {abs(gap):.3g} m "
                     f"{'above' if gap > 0 else 'below'} its plane; move the start, or say 'taken: false'", at_key=True)
    moved = max((abs(gap) for gap in gaps.values()), default=0.0)
    return x, (f"the start was moved by up to {1e3 * moved:.3g} mm, so that contacts touch",) if moved > 1e-6 else ()


def _efforts(control: Section, mechanism: Mechanism) -> np.ndarray | None:
    spec = control.spec.efforts
    if spec is None:
        return None
    driven, most = mechanism.controls, np.abs(mechanism.control_limits).max(axis=1, initial=0.0)
    if isinstance(spec, Mapping):
        for name, value in control.known("efforts", driven, "driven joint"):
            most[driven.index(name)] = value
    else:
        most = np.array(control.reader.vector(spec, len(driven), control.at("efforts"), "driven joints"))
    if (most < 0.0).any():
        control.refuse("limits of torques must not be negative", "efforts")
    return most


def _expected(reader: lp.Reader, mechanism: Mechanism, file: schema.WbcFile) -> dict[str, tuple[int, float, float]]:
    model, found = mechanism.model, {}
    names = list(model_space(model).names)
    for prefix in ("q.", "v."):
        short = {name: short for short, name in robot_state.aliases(model, names, prefix).items()}
        names = [short.get(name, name) for name in names]
    for name, spec in file.expect.items():
        section = Section(reader, spec, ("expect", name))
        if name not in names:
            lp.unknown(reader.findings, name, names, section.path, "state")
        else:
            found[name] = (names.index(name), section.value("value"), section.value("tolerance"))
    return found
