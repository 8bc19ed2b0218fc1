"""The section ``simulate`` of a problem file turned into numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ocp.app.files import schema_parts as schema
from ocp.app.files.load_parts import Reader, unknown
from ocp.app.files.yaml_source import KeyPath
from ocp.problem import Problem
from ocp.simulation import check_integrator


@dataclass(frozen=True)
class Expected:
    """A known energy [J] by an integrator, and the relative difference that counts as agreement."""

    integrator: str
    energy: float
    tolerance: float


@dataclass(frozen=True)
class LoadedSimulation:
    """A section ``simulate``, read. controls: constants by name; None: those of the guess."""

    integrator: str = "rk4"
    dt: float | None = None
    until: float | None = None
    controls: Mapping[str, float] | None = None
    expect: tuple[Expected, ...] = ()


def read_simulate(reader: Reader, given: schema.Simulate, problem: Problem) -> LoadedSimulation:
    """The section of a file whose problem has been read; errors are recorded."""
    at = ("simulate",)

    def positive(value: schema.Number | None, path: KeyPath) -> float | None:
        if value is None:
            return None
        found = reader.number(value, path)
        if not found > 0:
            reader.findings.add(path, f"must be positive, got {found:g}")
        return found

    def integrator(name: str, path: KeyPath) -> str:
        with reader.findings.collecting(path):
            check_integrator(name)
        return name

    known = list(dict.fromkeys(name for phase in problem.phases for name in phase.system.controls))
    controls: dict[str, float] | None = None if given.controls is None else {}
    for name, value in (given.controls or {}).items():
        if name not in known:
            unknown(reader.findings, name, known, (*at, "controls", name), "control")
        elif controls is not None:
            controls[name] = reader.number(value, (*at, "controls", name))
    expect = []
    for i, item in enumerate(given.expect):
        path: KeyPath = (*at, "expect", i)
        expect.append(Expected(integrator(item.integrator, (*path, "integrator")), reader.number(item.energy, (*path, "energy")),
                               positive(item.tolerance, (*path, "tolerance")) or 0.0))
        if item.integrator in [other.integrator for other in expect[:-1]]:
            reader.findings.add((*path, "integrator"), f"there is an energy by {item.integrator!r} already")
    if expect and any(phase.system.energy is None for phase in problem.phases):
        reader.findings.add((*at, "expect"), "an energy is expected, and the system has none; add 'energy' and 'power' to it")
    return LoadedSimulation(integrator(given.integrator, (*at, "integrator")), positive(given.dt, (*at, "dt")),
                            positive(given.until, (*at, "until")), controls, tuple(expect))
