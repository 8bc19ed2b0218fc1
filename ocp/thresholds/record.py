"""A threshold: a number that decides, with its unit, the reason for it, and a test of what it decides.

Thresholds that belong to one concern are the fields of one frozen record; code reads them there and nowhere else. Numbers that are
mathematics (coefficients, nodes of a quadrature, stages of a method) are none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True)
class Threshold:
    """One number. record: the concern; why: what it bounds, and the reason; test: one of what it decides, as pytest names it."""

    record: str
    name: str
    value: float
    unit: str
    why: str
    test: str


def threshold(value: float, *, why: str, test: str, unit: str = "1") -> Any:
    """A field of a record of thresholds."""
    return field(default=value, metadata={"unit": unit, "why": why, "test": test})


def listed(records: Iterable[Any]) -> tuple[Threshold, ...]:
    """The thresholds of records, in their order."""
    return tuple(Threshold(type(record).__name__, one.name, getattr(record, one.name), one.metadata["unit"], one.metadata["why"],
                           one.metadata["test"])
                 for record in records for one in fields(record))
