"""The iterate that progress is reported of, for whoever wants to see it: made on demand, so that nobody else pays for it.

A solver says what its iterate is before it calls progress (``presenting``); those around it, who know what its unknowns stand for,
say the same in their own terms; whoever is called asks (``present``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Progress = Callable[[Any], Any]
_PRESENT: ContextVar[Callable[[], Any] | None] = ContextVar("present", default=None)


def present() -> Any:
    """The iterate of the log entry that progress is called with; None where its solver has none."""
    make = _PRESENT.get()
    return None if make is None else make()


@contextmanager
def presenting(make: Callable[[], Any] | None) -> Iterator[None]:
    """Within, the iterate is what ``make`` makes."""
    token = _PRESENT.set(make)
    try:
        yield
    finally:
        _PRESENT.reset(token)


def translated(progress: Progress | None, way: Callable[[Any], Any]) -> Progress | None:
    """Progress that sees the iterate by ``way``."""
    if progress is None:
        return None

    def report(row: Any) -> Any:
        inner = _PRESENT.get()
        with presenting(None if inner is None else lambda: way(inner())):
            return progress(row)

    return report
