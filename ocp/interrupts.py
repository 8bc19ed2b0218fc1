"""The time that work may take, and Ctrl-C: both end it at the same points, and neither costs what has been found.

``limited`` starts a budget. Long work asks at well-defined points: ``check`` raises ``Stopped`` where nothing can be handed back,
``time_is_up`` tells a loop to stop with what there is. Ctrl-C moves the limit to the present (``stop``). After the limit there are
``GRACE_S`` seconds in all: the certificate asks within ``closing``, then the answer is written, and pictures take what remains.
What is skipped is recorded by ``leave_out``.

Until the first iteration there is nothing to lose, and Ctrl-C raises KeyboardInterrupt at once. From then on it waits for the next
of these points (``holding_interrupts``). A second Ctrl-C raises at once. A single call of compiled code is not left before it
returns.
"""

from __future__ import annotations

import _thread
import enum
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

Progress = Callable[[Mapping[str, Any]], None]
Clock = Callable[[], float]
T = TypeVar("T")
#: seconds after a limit, or after Ctrl-C, within which everything ends: certificate, writing and pictures together
GRACE_S = 2.0
#: of which the certificate may take so many, and after which no picture is begun
CERTIFICATE_S, LAST_PICTURE_S = 1.0, 1.2
#: seconds after which a KeyboardInterrupt that Python dropped comes again
AGAIN = 0.01


class Activity(enum.StrEnum):
    """Where long work asks whether it may go on."""

    READING = "reading"
    BOUNDS = "interval analysis of the bounds"
    COMPILATION = "compilation"
    FUNCTIONS = "building of functions"
    KERNELS = "compilation of kernels"
    SCALING = "scaling"
    SOLVING = "solving"
    REFINEMENT = "refinement of the mesh"
    CERTIFICATE = "certificate"
    EVALUATION = "evaluation along the motion"
    INTEGRATION = "re-integration"
    CURVATURE = "second-order conditions"
    ERROR_BOUND = "error bound of the objective"
    PICTURES = "pictures"
    SIMULATION = "simulation"
    CLOSED_LOOP = "closed loop"
    SEARCH = "search"
    EXPLANATION = "explanation"
    MEASUREMENT = "measurement"


class Stopped(KeyboardInterrupt):
    """The time is up, at a point where there is nothing to hand back yet. stage: what was at work."""

    def __init__(self, stage: Activity | None):
        super().__init__(f"the time limit was reached ({stage or 'before the first stage'}), before there was anything to keep")
        self.stage = stage

    def __reduce__(self) -> tuple[Any, ...]:
        return Stopped, (self.stage,)


class Budget:
    """Time and interrupts of a piece of work and of that around it. stage: the last that
    asked, which ``say`` hears as it begins; left_out: what was not done because of it, in order. Any thread may end it."""

    def __init__(self, end: float, clock: Clock, outer: Budget | None):
        self._end, self.clock, self.outer = end, clock, outer
        self._asked = False
        self.stage: Activity | None = None
        self.say: Callable[[str], object] = lambda words: None
        self.left_out: list[tuple[Activity, str]] = []

    @property
    def end(self) -> float:
        """The end of the time, by ``clock``."""
        return self._end if self.outer is None else min(self._end, self.outer.end)

    @property
    def asked(self) -> bool:
        """Whether Ctrl-C ended it."""
        return self._asked or self.outer is not None and self.outer.asked

    def stop(self) -> None:
        """Ctrl-C: the time is up now, of the work around it, too."""
        self._asked, self._end = True, min(self._end, self.clock())
        if self.outer is not None:
            self.outer.stop()


_BUDGET: ContextVar[Budget | None] = ContextVar("budget", default=None)
#: seconds after the limit that what is at work may take
_EXTRA: ContextVar[float] = ContextVar("extra", default=0.0)


@contextmanager
def limited(seconds: float | None = None, clock: Clock | None = None) -> Iterator[Budget]:
    """A budget of time for all work within, as part of that around it; None: no other limit than there is."""
    outer = _BUDGET.get()
    own = clock or (time.perf_counter if outer is None else outer.clock)
    end = float("inf") if seconds is None else own() + seconds
    budget = Budget(end, own, outer)
    token, extra = _BUDGET.set(budget), _EXTRA.set(0.0)
    try:
        yield budget
    finally:
        _EXTRA.reset(extra)
        _BUDGET.reset(token)


@contextmanager
def closing(seconds: float) -> Iterator[None]:
    """For what must not be left out: so many seconds after the limit."""
    token = _EXTRA.set(max(seconds, _EXTRA.get()))
    try:
        yield
    finally:
        _EXTRA.reset(token)


def time_is_up(stage: Activity | None = None) -> bool:
    """Whether the time is up; stage: of what asks."""
    budget = _BUDGET.get()
    if budget is None:
        return False
    if stage is not None and stage is not budget.stage:
        budget.stage = stage
        budget.say(stage)
    return budget.clock() >= budget.end + _EXTRA.get()


def check(stage: Activity) -> None:
    """Raises Stopped where the time is up."""
    if time_is_up(stage):
        raise Stopped(stage)


def activity() -> Activity | None:
    """The last cause."""
    budget = _BUDGET.get()
    return None if budget is None else budget.stage


def asked() -> bool:
    """Whether the user ended the work."""
    budget = _BUDGET.get()
    return budget is not None and budget.asked


def seconds_left() -> float:
    """Seconds until the time is up, infinite without a limit."""
    budget = _BUDGET.get()
    return float("inf") if budget is None else budget.end + _EXTRA.get() - budget.clock()


def stop() -> None:
    """Ctrl-C, wherever it was heard: the time of the present work is up."""
    budget = _BUDGET.get()
    if budget is not None:
        budget.stop()


def attempt(of: Callable[[], T], otherwise: T, stage: Activity, name: str = "") -> T:
    """The result of ``of``; ``otherwise``, and a record that it was left out, where the time is up before."""
    try:
        check(stage)
        return of()
    except Stopped:
        leave_out(stage, name)
        return otherwise


def leave_out(stage: Activity, name: str = "") -> None:
    """Record that a stage, or a part of it by name, was not done because the time was up."""
    budget = _BUDGET.get()
    if budget is not None and (stage, name) not in budget.left_out:
        budget.left_out.append((stage, name))


class InterruptGuard:
    """The state of a section that holds interrupts back. asked: Ctrl-C has come and waits; anything: whether there is something to
    lose by it; raised: whether it was raised."""

    def __init__(self, anything: bool, progress: Progress | None, stage: Activity):
        self.asked, self.anything, self.raised, self._progress, self._stage = False, anything, False, progress, stage

    def progress(self, row: Mapping[str, Any]) -> None:
        """For a method, in place of the progress that was given: after the first row there is an iterate."""
        self.anything = True
        if time_is_up(self._stage) or self.asked:
            raise Stopped(self._stage)
        if self._progress is not None:
            self._progress(row)

    def handle(self, number: int, frame: Any) -> None:
        """Of the signal."""
        if not self.anything or self.asked:
            self.raised = True
            raise KeyboardInterrupt
        self.asked = True
        stop()


@contextmanager
def holding_interrupts(anything: bool = True, progress: Progress | None = None,
                       stage: Activity = Activity.SOLVING) -> Iterator[InterruptGuard]:
    """Hold Ctrl-C back while there is something to lose; only the main thread may handle signals, elsewhere nothing changes.

    A KeyboardInterrupt that comes up in the middle of compiled code, as CasADi's, leaves it as another exception; here it becomes
    one again. One that comes up while an object is thrown away is dropped by Python; here it comes again.
    """
    found = InterruptGuard(anything, progress, stage)
    if threading.current_thread() is not threading.main_thread():
        yield found
        return
    hook, before = sys.unraisablehook, signal.signal(signal.SIGINT, found.handle)

    def again(dropped: Any) -> None:
        if not isinstance(dropped.exc_value, KeyboardInterrupt):
            if not found.raised:
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


def forget(interrupt: BaseException) -> None:
    """Let go of what an interrupted action had in its hands. Callbacks of half-made objects fail then; that concerns nobody."""
    hook, sys.unraisablehook = sys.unraisablehook, lambda dropped: None
    try:
        interrupt.__traceback__ = interrupt.__cause__ = interrupt.__context__ = None
    finally:
        sys.unraisablehook = hook


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
