"""Iterations watched from outside: progress, points for checkpoints, and Ctrl-C that ends a solve without losing the iterate."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import casadi as ca
import numpy as np

from ocp.interrupts import Activity, stop, time_is_up
from ocp.nlp.result import Progress, Warm, WatchPoint
from ocp.observed import presenting

Rows = tuple[Mapping[str, float], ...]

#: steps go around in circles where over so many iterations the objective changes by no more than this, relatively, and half of them
#: have errors below so many tolerances; an end is feasible to this many
CIRCLE, SAME, NEARLY, FEASIBLE = 30, 1e-5, 1e3, 100.0
#: the log is read every so many iterations
EVERY = 5


def circles(rows: Sequence[Mapping[str, float]], tolerance: float) -> bool:
    """Whether the iterations of a log go around in circles above the tolerance, and the last one is a good end: where the objective
    hardly tells points apart, steps along what it does not feel grow and are cut back for ever."""
    last = rows[-CIRCLE:]
    objectives = [row["objective"] for row in last]
    errors = [max(row["inf_du"], row["inf_pr"], row["mu"]) for row in last]
    near = NEARLY * tolerance
    return (len(last) == CIRCLE and max(objectives) - min(objectives) <= SAME * max(map(abs, objectives))
            and sorted(errors)[CIRCLE // 2] <= near and errors[-1] <= near and last[-1]["inf_pr"] <= FEASIBLE * tolerance)


class Watch:
    """Hears about every iteration: reports progress and says when to stop.

    State is needed here: a signal arrives at any time, and CasADi swallows exceptions of a callback.
    """

    def __init__(self, progress: Progress | None = None, point: WatchPoint | None = None, tolerance: float = 0.0):
        """tolerance: above which iterations that go around in circles are ended (``circled``); 0: they go on."""
        self.progress, self.point, self.tolerance = progress, point, tolerance
        self.stop, self.reported, self.count, self.circled = False, 0, 0, False
        self.error: BaseException | None = None

    def interrupt(self) -> None:
        """End the solve after the present iteration."""
        self.stop = True

    def heard(self, rows: Callable[[int], Rows], point: Callable[[Rows], Warm]) -> bool:
        """After an iteration: ``rows(first)`` of the log and the current point, each made only where somebody wants it. Whether
        to stop."""
        self.stop = self.stop or time_is_up(Activity.SOLVING)
        self.count += 1
        try:
            if self.tolerance and not self.stop and self.count > CIRCLE and self.count % EVERY == 0:
                self.circled = self.stop = circles(rows(max(0, self.count - CIRCLE - EVERY)), self.tolerance)
            if self.progress is not None and not self.stop:
                new = rows(self.reported)
                self.reported += len(new)
                with presenting(lambda: point(rows(0))):
                    for row in new:
                        self.progress(dict(row))
            if self.point is not None and not self.stop:
                due, take = self.point
                if due():
                    log = rows(0)
                    take(point(log), log)
        except KeyboardInterrupt:
            self.stop = True
        except Exception as error:
            self.error, self.stop = error, True
        return self.stop


class Buffered(ca.Callback):
    """A function of Python that gets arguments and results as memory, several times cheaper than as matrices (``eval_buffer``).
    shapes_in, shapes_out: rows and columns of each."""

    def __init__(self, name: str, shapes_in: Sequence[tuple[int, int]], shapes_out: Sequence[tuple[int, int]] = ((1, 1),)):
        ca.Callback.__init__(self)
        self.shapes_in, self.shapes_out = shapes_in, shapes_out
        self.construct(name, {})

    def get_n_in(self) -> int:
        return len(self.shapes_in)

    def get_n_out(self) -> int:
        return len(self.shapes_out)

    def get_sparsity_in(self, i: int) -> ca.Sparsity:
        return ca.Sparsity.dense(*self.shapes_in[i])

    def get_sparsity_out(self, i: int) -> ca.Sparsity:
        return ca.Sparsity.dense(*self.shapes_out[i])

    def has_eval_buffer(self) -> bool:
        return True


class Bell(Buffered):
    """The callback that CasADi's solvers ring between iterations, for a Watch that changes from solve to solve."""

    def __init__(self, n: int, m: int, rows: Callable[[int], Rows]):
        self.sizes, self.rows = {"x": n, "lam_x": n, "lam_g": m}, rows
        self.watch: Watch | None = None
        self.names = [str(ca.nlpsol_out(i)) for i in range(ca.nlpsol_n_out())]
        super().__init__("watch", [(self.sizes.get(name, 0), 1) for name in self.names])

    def get_name_in(self, i: int) -> str:
        return self.names[i]

    def eval_buffer(self, arguments: Any, results: Any) -> int:
        def point(rows: Rows) -> Warm:
            x, lam_x, lam_g = (np.frombuffer(arguments[self.names.index(name)], dtype=float).copy() for name in self.sizes)
            return Warm(x, lam_x, lam_g, barrier(rows))

        stop = self.watch is not None and self.watch.heard(self.rows, point)
        if results[0] is not None:
            results[0].cast("d")[0] = float(stop)
        return 0


def barrier(rows: Sequence[Mapping[str, float]]) -> float:
    """Barrier parameter of the last row of the log."""
    return float(rows[-1].get("mu", 0.0)) if rows else 0.0


@contextmanager
def interrupts(interrupt: Callable[[], None]) -> Iterator[None]:
    """Call ``interrupt`` at the first Ctrl-C instead of raising; only the main thread may handle signals.

    Without this CasADi turns a KeyboardInterrupt inside a function evaluation into a failure and loses the iterate.
    """
    before = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if before is None:
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)
        stop()
        interrupt()

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
