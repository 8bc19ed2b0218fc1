"""What is worked on next: tasks whose parents are done, few at a time, so that neither workers wait nor queues grow.

Those that others wait for come first, then those that took longest in an earlier run, else those whose parents took longest:
neighbours take about as long, and what is long shall not begin last (Graham 1969). The same loop serves sweeps and trials, this
process, processes of this machine and a cluster; whoever works hands back what is done.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ocp.batch.compiled import Point
from ocp.interrupts import holding_interrupts

#: reported after tasks are done: how many, of which well, and all
Tell = Callable[[int, int, int], Any]
#: tasks that are handed out at once, for each worker: the one that it works on, and one that waits beside it
WINDOW = 2


@dataclass(frozen=True)
class Done:
    """Outcome of a task. row: of the table; seconds that it took; point: that children start from; measured: what differs from
    run to run, beside the seconds."""

    number: int
    row: dict[str, Any]
    seconds: float
    point: Point | None = None
    measured: Mapping[str, float] = field(default_factory=dict)


class Task(Protocol):
    """A piece of work as pure data, that any process can do."""

    @property
    def number(self) -> int:
        """Number of the case."""

    def solved(self) -> Done:
        """Solve the case. Errors of the user become results; other exceptions end the sweep."""
        ...

    def prepare(self) -> None:
        """Make what the case needs and others share."""


class Workers(Protocol):
    """Takes tasks, hands back what is done. count: of tasks that keep all of them busy."""

    count: int

    def submit(self, task: Task) -> None:
        """Queue a task."""

    def prepare(self, task: Task) -> None:
        """Let a worker without a task prepare for such ones; by default nothing."""
        return

    def finished(self, seconds: float) -> list[Done]:
        """What is done since the last call; waits so long where nothing is."""


class Ledger(Protocol):
    """What is done, by number. expected: seconds of cases in an earlier run, where there was one."""

    done: dict[int, dict[str, Any]]
    measured: dict[int, dict[str, float]]
    expected: Mapping[int, float]

    def add(self, found: Sequence[Done]) -> None:
        """Record finished cases."""

    def point(self, number: int) -> Point | None:
        """The optimal point of a case, or None."""


class Memory(Ledger):
    """A ledger without a folder."""

    def __init__(self, expected: Mapping[int, float] | None = None) -> None:
        self.expected = expected or {}
        self.done: dict[int, dict[str, Any]] = {}
        self.measured: dict[int, dict[str, float]] = {}
        self.points: dict[int, Point] = {}

    def add(self, found: Sequence[Done]) -> None:
        for one in found:
            self.done[one.number] = one.row
            self.measured[one.number] = {"seconds": one.seconds, **one.measured}
            if one.point is not None:
                self.points[one.number] = one.point

    def point(self, number: int) -> Point | None:
        return self.points.get(number)


def scheduled(parent: np.ndarray, task: Callable[[int, Point | None], Task], ledger: Ledger, who: Workers,
              tell: Tell | None = None) -> None:
    """Do all that the ledger has not yet. parent [n]: the task that each waits for and whose point it starts from, -1: none; task:
    made from number and point, the nearest one up the tree."""
    above = parent.tolist()
    children: defaultdict[int, list[int]] = defaultdict(list)
    for number, one in enumerate(above):
        children[one].append(number)
    ready: list[tuple[bool, float, int]] = []
    running = 0
    good = sum(bool(row["ok"]) for row in ledger.done.values())

    def release(number: int, seconds: float) -> None:
        for child in children.pop(number, ()):
            heapq.heappush(ready, (child not in children, -ledger.expected.get(child, seconds), child))

    def start(number: int) -> Point | None:
        at = above[number]
        while at >= 0:
            if (found := ledger.point(at)) is not None:
                return found
            at = above[at]
        return None

    release(-1, 0.0)
    begun = False
    while ready or running:
        while ready and running < WINDOW * who.count:
            number = heapq.heappop(ready)[2]
            if number in ledger.done:
                release(number, ledger.measured[number]["seconds"])
            else:
                who.submit(own := task(number, start(number)))
                running += 1
        if running and not begun:
            begun = True
            for _ in range(who.count - running):
                who.prepare(own)
        found = who.finished(1.0) if running else []
        with holding_interrupts() as waiting:  # what is written is done
            ledger.add(found)
        if waiting.asked:
            raise KeyboardInterrupt
        for done in found:
            running -= 1
            good += bool(done.row["ok"])
            release(done.number, done.seconds)
            if tell is not None:
                tell(len(ledger.done), good, len(above))
