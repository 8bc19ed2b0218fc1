"""Options common to all methods, how they are checked, and how they are read by name.

A record of options may have a section, a record of its own (``tuning`` of iLQR). Options of a section are also understood outside
it, as they once were written: their names are unique.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from dynamics.errors import near
from ocp.derivatives import DERIVATIVES
from ocp.errors import ProblemError, check_choices, check_counts

Record = TypeVar("Record")
AUTO = "auto"
KERNELS = (AUTO, "compiled", "interpreted")


@dataclass(frozen=True)
class MethodOptions:
    """Options of every method. Raises ProblemError for a value out of range.

    intervals: steps of equal length in every phase.
    max_iterations: limit of the search.
    tolerance: of what has converged.
    derivatives: of the dynamics: "ad", "analytic", "complex_step", "fd", or "auto"; see ``ocp.derivatives``.
    kernels: "compiled" needs a C compiler, "interpreted" makes no machine code, "auto" makes it where it pays.
    """

    METHOD: ClassVar[str]
    #: options that were asked for, where they came by name
    named: ClassVar[frozenset[str]] = frozenset()
    CHOICES: ClassVar[Mapping[str, Collection[str]]] = {"derivatives": DERIVATIVES, "kernels": KERNELS}
    MIN_COUNTS: ClassVar[Mapping[str, int]] = {"intervals": 1, "max_iterations": 0}

    intervals: int | str
    max_iterations: int = 1000
    tolerance: float = 1e-9
    derivatives: str = AUTO
    kernels: str = AUTO

    def __post_init__(self) -> None:
        check_choices(self, self.CHOICES, self.METHOD)
        check_counts(self, {name: least for name, least in self.MIN_COUNTS.items() if getattr(self, name) != AUTO}, self.METHOD)


def sections(kind: type) -> dict[str, type]:
    """Records within a record of options, by name."""
    return {f.name: type(f.default) for f in dataclasses.fields(kind) if dataclasses.is_dataclass(f.default)}


def section_of(kind: type) -> dict[str, str]:
    """The section of every option that stands in one, by its name."""
    return {f.name: name for name, record in sections(kind).items() for f in dataclasses.fields(record)}


def outside(kind: type, values: Mapping[str, Any]) -> dict[str, str]:
    """Options that are given outside their section, and the section, by name."""
    own = section_of(kind)
    return {name: own[name] for name in values if name in own}


def flat(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by name, those within sections among the others, which they override."""
    within = sections(kind)
    found = {name: value for name, value in values.items() if name not in within}
    for name in within:
        value = values.get(name, {})
        found |= dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value
    return found


def record_of(kind: type[Record], options: Mapping[str, Any], where: str) -> Record:
    """The record of these values, flat or in sections. Raises ProblemError for unknown names, with near misses, and bad values."""
    own, values = section_of(kind), flat(kind, options)
    known = {f.name for f in dataclasses.fields(kind)} | set(own)  # type: ignore[arg-type]
    for name in values:
        if name not in known:
            raise ProblemError(f"unknown option {name!r}{near(name, known)}", where=where)
    inside = {section: record(**{name: values[name] for name in values if own.get(name) == section})
              for section, record in sections(kind).items()}
    made = kind(**{name: value for name, value in values.items() if name not in own}, **inside)
    if isinstance(made, MethodOptions):
        object.__setattr__(made, "named", frozenset(values))
    return made
