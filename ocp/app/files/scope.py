"""What the names of an expression mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ocp.errors import ProblemError

SX = Any


@dataclass(frozen=True)
class Table:
    """Named entries of a vector, read as ``name["entry"]``; the bare name is the whole ``vector``.

    unavailable: entries that one might expect and that there cannot be, with the reason.
    """

    vector: SX
    entries: Mapping[str, SX]
    unavailable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class VectorFunction:
    """A function of the system, such as ``position("tool")``; ``call`` takes ``count`` quoted names, or nothing.

    ``call`` may raise ValueError (for example for an unknown frame); the message is kept.
    """

    call: Callable[..., SX]
    takes_name: bool = True
    what: str = "frame"
    count: int = 1


class FollowOnError(ProblemError):
    """An expression uses a name whose own definition is wrong; that one is reported, this one need not be."""


@dataclass(frozen=True)
class Scope:
    """What the names of an expression mean.

    names: scalars (states, controls, constants); tables: ``q["joint"]``; functions: ``position("frame")``
    unavailable: names that exist elsewhere in the file but cannot be used here, with the reason; broken: names whose
    definition is wrong, so that using them raises FollowOnError; derivatives: ``der(state)`` by the name of the state; curves:
    tables of the file, functions of one or two numbers.
    """

    names: Mapping[str, SX] = field(default_factory=dict)
    tables: Mapping[str, Table] = field(default_factory=dict)
    functions: Mapping[str, VectorFunction] = field(default_factory=dict)
    unavailable: Mapping[str, str] = field(default_factory=dict)
    broken: frozenset[str] = frozenset()
    derivatives: Mapping[str, SX] = field(default_factory=dict)
    curves: Mapping[str, Any] = field(default_factory=dict)
