"""The section ``simulate`` of a problem file turned into numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ocp.app.files import schema_parts as schema
from ocp.app.files.load_parts import Reader, Section
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
    section = Section(reader, given, ("simulate",))

    def integrator(part: Section) -> str:
        with part.collecting("integrator"):
            check_integrator(part.given.integrator)
        return str(part.given.integrator)

    known = list(dict.fromkeys(name for phase in problem.phases for name in phase.system.controls))
    controls = None if given.controls is None else dict(section.known("controls", known, "control"))
    expect = []
    for part in section.parts("expect"):
        if part.given.integrator in [other.integrator for other in expect]:
            part.refuse(f"there is an energy by {part.given.integrator!r} already", "integrator")
        expect.append(Expected(integrator(part), part.number("energy"), part.positive("tolerance")))
    if expect and any(phase.system.energy is None for phase in problem.phases):
        section.refuse("an energy is expected, and the system has none; add 'energy' and 'power' to it", "expect")
    return LoadedSimulation(integrator(section), section.positive("dt"), section.positive("until"), controls, tuple(expect))
