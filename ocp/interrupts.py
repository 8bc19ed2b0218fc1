"""Ctrl-C while an answer is in the making: it stops work, and never costs what has been found.

Until the first iteration there is nothing to lose, and Ctrl-C raises KeyboardInterrupt at once. From then on it waits for the next
iteration, where every method stops with its iterate (``Held.progress`` raises there). A second Ctrl-C raises at once.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

Progress = Callable[[Mapping[str, Any]], None]
#: seconds after which a KeyboardInterrupt that Python dropped comes again
AGAIN = 0.01


class Held:
    """What ``held`` yields. asked: Ctrl-C has come and waits; anything: whether there is something to lose by it; raised: whether
    it was raised."""

    def __init__(self, anything: bool, progress: Progress | None):
        self.asked, self.anything, self.raised, self._progress = False, anything, False, progress

    def progress(self, row: Mapping[str, Any]) -> None:
        """For a method, in place of the progress that was given: after the first row there is an iterate."""
        self.anything = True
        if self.asked:
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
