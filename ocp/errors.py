"""Errors of ``ocp``: user mistakes with their location, and requests that a method cannot serve."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from dynamics.errors import Picklable, near


class ProblemError(Picklable, ValueError):
    """The problem is wrong: what, where and what was expected.

    ``where`` is a location in the user's words: ``file.yaml:12: phase.bounds.force``.
    """

    def __init__(self, message: str, *, where: str | None = None):
        self.message, self.where = message, where
        super().__init__(f"{where}: {message}" if where else message)


class UnsupportedError(ProblemError):
    """The chosen method cannot enforce something that the problem asks for; names it and the methods that can."""

    def __init__(self, method: str, reasons: Sequence[str], able: Sequence[str]):
        self.method, self.reasons, self.able = method, tuple(reasons), tuple(able)
        listed = "\n".join(f"  - {reason}" for reason in reasons)
        others = f"Methods that can: {', '.join(able)}." if able else "No method of this version can."
        super().__init__(f"method {method!r} cannot enforce:\n{listed}\n{others}")


def check_choices(options: object, known: Mapping[str, Collection[str]], where: str) -> None:
    """Raise ProblemError, with near misses, for an option of this name that is none of these."""
    for name, choices in known.items():
        value = getattr(options, name)
        if value not in choices:
            raise ProblemError(f"no {name} named {value!r}{near(str(value), choices)}", where=where)


def check_counts(options: object, least: Mapping[str, int], where: str) -> None:
    """Raise ProblemError for an option of this name that is no whole number, or less than this."""
    for name, lowest in least.items():
        value = getattr(options, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < lowest:
            raise ProblemError(f"{name} must be a whole number >= {lowest}, got {value!r}", where=where)


def positive(value: float | None, where: str) -> None:
    """Raise ProblemError for a number that is not positive and finite; None is allowed."""
    if value is not None and not 0 < value < math.inf:
        raise ProblemError(f"must be positive, got {value:g}", where=where)


def check_positive(options: object, names: Sequence[str], where: str) -> None:
    """Raise ProblemError for an option of this name that is not positive and finite."""
    for name in names:
        value = getattr(options, name)
        if not (value > 0 and math.isfinite(value)):
            raise ProblemError(f"{name} must be positive and finite, got {value!r}", where=where)


def check_fractions(options: object, names: Sequence[str], where: str) -> None:
    """Raise ProblemError for an option of this name that is not strictly between 0 and 1."""
    for name in names:
        value = getattr(options, name)
        if not 0 < value < 1:
            raise ProblemError(f"{name} must lie strictly between 0 and 1, got {value!r}", where=where)
