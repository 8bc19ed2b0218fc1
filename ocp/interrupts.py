"""Ctrl-C, and limits of time, while an answer is in the making: they stop work, and never cost what has been found.

Until the first iteration there is nothing to lose, and Ctrl-C raises KeyboardInterrupt at once. From then on it waits for the next
iteration, where every method stops with its iterate (``Held.progress`` raises there). A second Ctrl-C raises at once. A limit of
time stops the same way, at the first iteration after it (``late``).
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Progress = Callable[[Mapping[str, Any]], None]
#: seconds after which a KeyboardInterrupt that Python dropped comes again
AGAIN = 0.01
#: when the time is up, by ``time.perf_counter``
_UP: ContextVar[float] = ContextVar("up", default=float("inf"))


@contextmanager
def limited(seconds: float | None) -> Iterator[None]:
    """A limit of time for all solves within; None: no other than there is."""
    token = _UP.set(_UP.get() if seconds is None else min(_UP.get(), time.perf_counter() + seconds))
    try:
        yield
    finally:
        _UP.reset(token)


def late() -> bool:
    """Whether the time is up."""
    return time.perf_counter() > _UP.get()


def deadline(grace: float) -> float | None:
    """A value of ``time.perf_counter`` by which to end what must not be left out: so many seconds after the limit, at least so many
    from now; None where there is no limit."""
    return None if _UP.get() == float("inf") else max(_UP.get(), time.perf_counter()) + grace


class Held:
    """What ``held`` yields. asked: Ctrl-C has come and waits; anything: whether there is something to lose by it; raised: whether
    it was raised."""

    def __init__(self, anything: bool, progress: Progress | None):
        self.asked, self.anything, self.raised, self._progress = False, anything, False, progress

    def progress(self, row: Mapping[str, Any]) -> None:
        """For a method, in place of the progress that was given: after the first row there is an iterate."""
        self.anything = True
        if self.asked or late():
            raise KeyboardInterrupt
        if self._progress is not None:
            self._progress(row)

    def handle(self, number: int, frame: Any) -> None:
        """Of the signal."""
        if not self.anything or self.asked:
            self.raised = True
            raise KeyboardInterrupt
        self.asked = True


@contextmanager
def held(anything: bool = True, progress: Progress | None = None) -> Iterator[Held]:
    """Hold Ctrl-C back while there is something to lose; only the main thread may handle signals, elsewhere nothing changes.

    A KeyboardInterrupt that comes up in the middle of compiled code, as CasADi's, leaves it as another exception; here it becomes
    one again. One that comes up while an object is thrown away is dropped by Python; here it comes again.
    """
    found = Held(anything, progress)
    if threading.current_thread() is not threading.main_thread():
        yield found
        return
    hook, before = sys.unraisablehook, signal.signal(signal.SIGINT, found.handle)

    def again(dropped: Any) -> None:
        if not isinstance(dropped.exc_value, KeyboardInterrupt):
            hook(dropped)
            return
        timer = threading.Timer(AGAIN, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)) \
            if hasattr(signal, "pthread_kill") else threading.Timer(AGAIN, _thread.interrupt_main)
        timer.daemon = True
        timer.start()

    sys.unraisablehook = again
    try:
        yield found
    except Exception as error:
        if found.raised:
            raise KeyboardInterrupt from error
        raise
    finally:
        sys.unraisablehook = hook
        signal.signal(signal.SIGINT, before)


NOTHING = "interrupted before there was anything to keep"


@contextmanager
def at_once() -> Iterator[None]:
    """End the process with exit code 1 and a sentence at Ctrl-C, for imports and reading: an exception in the middle of an import
    comes out as anything, and nothing is lost."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: Any) -> None:
        os.write(2, f"{NOTHING}\n".encode())
        os._exit(1)

    before = signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
