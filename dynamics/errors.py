"""Errors raised by ``dynamics``; every one says what, where, what was expected and what is near."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


def near(name: str, known: Iterable[str], *, most: int = 12) -> str:
    """A clause listing the closest matches of ``name`` (or the known names when few) for error messages."""
    choices = sorted(set(known))
    close = difflib.get_close_matches(name, choices, n=3, cutoff=0.5)
    close = close or [c for c in choices if name and name.lower() in c.lower()][:3]
    clause = f"; did you mean {' or '.join(repr(c) for c in close)}?" if close else ""
    shown = ", ".join(choices[:most]) + (f", ... ({len(choices)} in all)" if len(choices) > most else "")
    return f"{clause} (known: {shown or 'none'})"


class Picklable(BaseException):
    """An error whose arguments are not those that made it; ``pickle`` calls the class with its ``args`` otherwise."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self.args), vars(self)


def _again(kind: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    return kind.__new__(kind, *args)


class ModelError(Picklable, ValueError):
    """A robot model is wrong or cannot be used as asked.

    Attributes: ``source`` (file name or None), ``line`` (1-based or None), ``element`` (XML element, body or joint).
    """

    def __init__(self, message: str, *, source: str | None = None, line: int | None = None, element: str | None = None):
        self.message, self.source, self.line, self.element = message, source, line, element
        place = ":".join(str(part) for part in (source, line) if part is not None)
        super().__init__(": ".join(part for part in (place, element, message) if part))


class UnknownNameError(ModelError, KeyError):
    """A body, joint, frame or configuration name that the model does not have."""

    def __init__(self, kind: str, name: str, known: Iterable[str]):
        ModelError.__init__(self, f"no {kind} named {name!r}{near(name, known)}")

    __str__ = ValueError.__str__


class ChartSingularityError(Picklable, ValueError):
    """A chart of rotations or positions has no inverse rate map where it was asked for, with numbers.

    Attributes: ``chart`` (its name), ``quantity`` (the divisor that vanishes, as a formula), ``value`` (what it is).
    """

    def __init__(self, chart: str, quantity: str, value: float, remedy: str):
        self.chart, self.quantity, self.value = chart, quantity, value
        super().__init__(f"{chart}: singular, {quantity} = {value:.3g}; {remedy}")


class FrameMismatchError(ValueError):
    """Vectors or rotations that belong to different frames or points were put together."""
