"""From a file of whole-body control to its setup and its plant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from dynamics.constraints import Contact, FlatContact, PointContact
from dynamics.mechanism import Mechanism
from ocp.app.files import load_parts as lp
from ocp.app.files import robot_state, yaml_source
from ocp.app.files import schema_wbc as schema
from ocp.app.files.findings import Findings
from ocp.app.files.robot_file import begin, raised, robot_of
from ocp.app.files.wbc_tasks import read_schedule, read_tasks
from ocp.app.files.yaml_source import KeyPath, Source, parse_source, read_source
from ocp.bridge import model_space
from ocp.errors import ProblemError
from ocp.plants import Plant, Push
from ocp.plants.coulomb import EXACT, Cone
from ocp.plants.hybrid import HybridOptions, HybridPlant
from ocp.problem import INF
from ocp.solvers.hqp import HQPOptions
from ocp.wbc import ContactPlan, Setup
from ocp.wbc.start import close_contacts, unsupported

CLOSED = 0.02  # m: contacts that are taken at the start may be so far from their planes


@dataclass(frozen=True)
class LoadedWbc:
    """A file of whole-body control, read. notes: what was done to the start, in words; pushes, friction, restitution: of the
    plant; expect: by name of a state its place in x, what it is at the end, and the tolerance."""

    file: schema.WbcFile
    text: str
    mechanism: Mechanism
    setup: Setup
    pushes: tuple[Push, ...]
    friction: Mapping[str, float]
    restitution: Mapping[str, float]
    notes: tuple[str, ...]
    expect: Mapping[str, tuple[int, float, float]]

    def expanded(self) -> str:
        """The file as YAML with every default written out."""
        return yaml_source.dump(self.file.model_dump(mode="json", exclude_none=True))

    def plant(self, kind: str = "") -> Plant:
        """A plant of the kind (default: the file's). Raises ProblemError, also for MuJoCo where it is not installed."""
        contacts = [replace(plan.record, friction=self.friction.get(plan.name, plan.record.friction))  # type: ignore[type-var]
                    for plan in self.setup.contacts]
        within = {plan.name: plan.within for plan in self.setup.contacts if plan.within is not None}
        if (kind or self.file.plant.kind) == "mujoco":
            if within:
                raise ProblemError(f"the plane of contact {next(iter(within))!r} ends ('within'), which this plant does not know; "
                                   "take the hybrid plant", where="plant 'mujoco'")
            if self.file.plant.cone != "exact":
                raise ProblemError("knows the exact cone alone; take the hybrid plant for pyramids", where="plant 'mujoco'")
            from ocp.plants.mujoco import MujocoPlant  # an extra

            return MujocoPlant(self.mechanism, contacts, pushes=self.pushes)
        cone = EXACT if self.file.plant.cone == "exact" else Cone(self.file.plant.sides, self.file.plant.cone)
        return HybridPlant(self.mechanism, contacts, restitution=self.restitution, options=HybridOptions(cone=cone),
                           pushes=self.pushes, within=within)


def load_wbc(path: str | FilePath, overrides: Mapping[str, str] | None = None) -> LoadedWbc:
    """Read a file; ``overrides`` as for problem files. Raises ProblemFileError with all that is wrong, each with its place."""
    path = FilePath(path)
    return _load(read_source(path), path.parent, overrides or {})


def load_wbc_text(text: str, folder: str | FilePath = ".", name: str = "wbc.yaml", overrides: Mapping[str, str] | None = None
                  ) -> LoadedWbc:
    """As :func:`load_wbc`, for text; paths in it are relative to ``folder``."""
    return _load(parse_source(text, name), FilePath(folder), overrides or {})


def _load(source: Source, folder: FilePath, overrides: Mapping[str, str]) -> LoadedWbc:
    source, file, numbers = begin(source, overrides, schema.WbcFile, "wbc", "whole-body control")
    findings, mechanism = numbers.findings, robot_of(numbers, file, folder, bool(file.start.configuration))
    model, space = mechanism.model, model_space(mechanism.model)
    names = robot_state.RobotNames(numbers, model, space, np.tile([-INF, INF], (space.nx, 1)), "robot")
    start = robot_state.complete(names, robot_state.read_state(names, file.start, ("start",)))
    contacts = _contacts(numbers, mechanism, file)
    findings.raise_any()
    start, notes = _closed(findings, mechanism, contacts, start)
    tasks = read_tasks(names, mechanism, file.tasks, contacts, start)
    findings.raise_any()
    switches, pushes = read_schedule(names, file.schedule, tasks, contacts)
    control, efforts = file.wbc, _efforts(numbers, mechanism, file.wbc.efforts)
    values = {key: numbers.number(getattr(control, key), ("wbc", key)) for key in ("rate", "duration", "rest_gain", "trust")}
    if not 0.0 < values["trust"] <= 1.0:
        findings.add(("wbc", "trust"), f"must lie above 0 and be at most 1, got {values['trust']:g}")
    for key in ("rate", "duration"):
        if values[key] <= 0.0:
            findings.add(("wbc", key), f"must be positive, got {values[key]:g}")
    horizon = None if control.horizon is None else numbers.number(control.horizon, ("wbc", "horizon"))
    if horizon is not None and horizon <= 0.0:
        findings.add(("wbc", "horizon"), f"must be positive, got {horizon:g} s; null leaves limits of joints out")
    friction, restitution = (_by_contact(numbers, contacts, getattr(file.plant, key), key) for key in ("friction", "restitution"))
    expect = _expected(numbers, mechanism, file)
    findings.raise_any()
    with findings.collecting(("wbc",)):
        setup = Setup(mechanism, start, contacts, tasks, switches, efforts=efforts, horizon=horizon,
                      options=HQPOptions(engine=control.engine), **values)
        advice = unsupported(setup)
        return LoadedWbc(file, source.text, mechanism, setup, pushes, friction, restitution, (*notes, *advice), expect)
    raised(findings)


def _contacts(reader: lp.Reader, mechanism: Mechanism, file: schema.WbcFile) -> tuple[ContactPlan, ...]:
    found = []
    for name, given in file.contacts.items():
        path: KeyPath = ("contacts", name)
        before = len(reader.findings.found)

        def vector(key: str, value: Any, at: KeyPath = path) -> tuple[float, float, float]:
            x, y, z = reader.vector(value, 3, (*at, key), "components")
            return x, y, z

        friction = reader.number(given.friction, (*path, "friction"))
        if friction <= 0.0:
            reader.findings.add((*path, "friction"), f"a cone needs a positive coefficient of friction, got {friction:g}; on ice "
                                "take a small one")
        values = {key: reader.number(getattr(given, key), (*path, key)) for key in ("least", "ramp", "height")}
        for key in ("least", "ramp"):
            if values[key] < 0.0:
                reader.findings.add((*path, key), f"must not be negative, got {values[key]:g}")
        most = INF if given.most is None else reader.number(given.most, (*path, "most"))
        if most <= values["least"]:
            reader.findings.add((*path, "most"), f"must be above least ({values['least']:g} N), got {most:g} N")
        if given.sides < 3:
            reader.findings.add((*path, "sides"), f"a pyramid has at least 3 sides, got {given.sides}")
        if len(reader.findings.found) > before:
            continue
        record: Contact
        normal = vector("normal", given.normal)
        if given.half_sizes is not None:
            a, b = (reader.number(value, (*path, "half_sizes", i)) for i, value in enumerate(given.half_sizes))
            record = FlatContact(name, given.frame, vector("position", given.position), vector("axis", given.axis), normal,
                                 values["height"], friction, (a, b))
        else:
            points = tuple(vector("points", point) for point in given.points)
            record = PointContact(name, given.frame, points, normal, values["height"], friction)
        with reader.findings.collecting((*path, "frame")):
            mechanism.model.frame(given.frame)
            with reader.findings.collecting(path):
                record.check(mechanism.model)
            found.append(ContactPlan(record, given.taken, values["least"], most, values["ramp"], given.sides, given.pyramid,
                                     given.slides, _within(reader, given.within, (*path, "within"))))
    return tuple(found)


def _within(reader: lp.Reader, given: schema.Within | None, path: KeyPath) -> tuple[tuple[float, float], ...] | None:
    if given is None:
        return None
    found = []
    for axis in "xyz":
        ends = getattr(given, axis)
        low, high = (rest if end is None else reader.number(end, (*path, axis))
                     for end, rest in zip(ends, (-INF, INF), strict=True))
        if not low < high:
            reader.findings.add((*path, axis), f"must end above its beginning, got {low:g} to {high:g} m")
        found.append((low, high))
    return tuple(found)


def _closed(findings: Findings, mechanism: Mechanism, contacts: tuple[ContactPlan, ...], start: np.ndarray
            ) -> tuple[np.ndarray, tuple[str, ...]]:
    """The start with its contacts closed, where they nearly are."""
    x, gaps = close_contacts(mechanism, contacts, start, CLOSED)
    far = {name: gap for name, gap in gaps.items() if abs(gap) > CLOSED}
    for name, gap in far.items():
        findings.add(("contacts", name), f"is taken at the start, but does not touch: a point is {abs(gap):.3g} m "
                     f"{'above' if gap > 0 else 'below'} its plane; move the start, or say 'taken: false'", at_key=True)
    findings.raise_any()
    moved = max((abs(gap) for gap in gaps.values()), default=0.0)
    return x, (f"the start was moved by up to {1e3 * moved:.3g} mm, so that contacts touch",) if moved > 1e-6 else ()


def _efforts(reader: lp.Reader, mechanism: Mechanism, given: Any) -> np.ndarray | None:
    if given is None:
        return None
    driven, most = mechanism.controls, np.abs(mechanism.control_limits).max(axis=1, initial=0.0)
    if isinstance(given, Mapping):
        for name, value in given.items():
            if name not in driven:
                lp.unknown(reader.findings, name, driven, ("wbc", "efforts", name), "driven joint")
            else:
                most[driven.index(name)] = reader.number(value, ("wbc", "efforts", name))
    else:
        most = np.array(reader.vector(given, len(driven), ("wbc", "efforts"), "driven joints"))
    if (most < 0.0).any():
        reader.findings.add(("wbc", "efforts"), "limits of torques must not be negative")
    return most


def _expected(reader: lp.Reader, mechanism: Mechanism, file: schema.WbcFile) -> dict[str, tuple[int, float, float]]:
    names, found = list(model_space(mechanism.model).names), {}
    base = robot_state.floating_base(mechanism.model)
    if base is not None:
        joint = mechanism.model.bodies[base].joint.name
        names = [f"{name[0]}.base.{name.removeprefix(f'{name[0]}.{joint}.')}" if name[2:].startswith(f"{joint}.") else name
                 for name in names]
    for name, given in file.expect.items():
        path: KeyPath = ("expect", name)
        if name not in names:
            lp.unknown(reader.findings, name, names, path, "state")
            continue
        found[name] = (names.index(name), reader.number(given.value, (*path, "value")),
                       reader.number(given.tolerance, (*path, "tolerance")))
    return found


def _by_contact(reader: lp.Reader, contacts: tuple[ContactPlan, ...], given: Mapping[str, Any], key: str) -> dict[str, float]:
    known, found = [plan.name for plan in contacts], {}
    for name, value in given.items():
        path: KeyPath = ("plant", key, name)
        if name not in known:
            lp.unknown(reader.findings, name, known, path, "contact")
            continue
        found[name] = reader.number(value, path)
        if not 0.0 <= found[name] <= (1.0 if key == "restitution" else INF):
            reader.findings.add(path, f"{'must lie between 0 and 1' if key == 'restitution' else 'must not be negative'}, got "
                                f"{found[name]:g}")
    return found
