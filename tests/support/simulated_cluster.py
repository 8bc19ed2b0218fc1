"""A cluster of simulated workers: durations are known beforehand, the clock is ours, all else is the scheduler's own code."""

from __future__ import annotations

import heapq
import time
from collections import deque
from dataclasses import dataclass

import numpy as np

from ocp.app.batch.schedule import Done, Ledger, scheduled
from ocp.batch.order import parents


@dataclass(frozen=True)
class Timed:
    """A task that takes as long as it says."""

    number: int
    duration: float

    def solved(self) -> Done:
        return Done(self.number, {"ok": True, "objective": float(self.number)}, self.duration)


class SimulatedCluster:
    """Workers that take tasks first in, first out. latency (s): from submission to a worker, and back. The time that the
    scheduler itself takes, writing included, passes on the simulated clock, too, where ``honest``. most: tasks that were out at
    once; own: seconds of the scheduler."""

    def __init__(self, count: int, latency: float = 0.0, honest: bool = False):
        self.count, self.prepared = count, list[int]()
        self.free, self.latency, self.honest = [0.0] * count, latency, honest
        self.clock, self.own = 0.0, 0.0
        self.queue: deque[tuple[float, Timed]] = deque()
        self.running: list[tuple[float, int, Timed]] = []  # (known to the scheduler at, number, task)
        self.most, self._last = 0, time.perf_counter()

    def submit(self, task: Timed) -> None:
        self.queue.append((self.clock + self.latency, task))
        self.most = max(self.most, len(self.queue) + len(self.running))

    def prepare(self, task: Timed) -> None:
        self.prepared.append(task.number)

    def finished(self, seconds: float) -> list[Done]:
        spent = time.perf_counter() - self._last
        self.own += spent
        self.clock += spent if self.honest else 0.0
        while self.queue:
            arrives, task = self.queue.popleft()
            begins = max(arrives, heapq.heappop(self.free))
            heapq.heappush(self.free, begins + task.duration)
            heapq.heappush(self.running, (begins + task.duration + self.latency, task.number, task))
        found = []
        if self.running:
            self.clock = max(self.clock, self.running[0][0])
        while self.running and self.running[0][0] <= self.clock:
            found.append(heapq.heappop(self.running)[2].solved())
        self._last = time.perf_counter()
        return found


def durations(kind: str, count: int, seed: int = 0) -> np.ndarray:
    """Seconds of cases: "equal", "uniform" between 0.5 and 1.5, "exponential", "lognormal" with a long tail, or "smooth": over the
    grid, between 0.16 and 6 and like those of neighbours; of mean one."""
    rng = np.random.default_rng(seed)
    if kind == "smooth":
        a, b = (grid(count) / grid(count).max()).T
        found = np.exp(1.6 * np.sin(7 * a + 1) * np.cos(5 * b) + rng.normal(0, 0.2, count))
    else:
        found = {"equal": np.ones(count), "uniform": rng.uniform(0.5, 1.5, count), "exponential": rng.exponential(1.0, count),
                 "lognormal": rng.lognormal(0.0, 0.8, count)}[kind]
    return np.asarray(found / found.mean())


def grid(count: int) -> np.ndarray:
    """Points [count, 2]."""
    side = int(np.ceil(np.sqrt(count)))
    return np.stack(np.unravel_index(np.arange(count), (side, side)), axis=1).astype(float)


def expected(seconds: np.ndarray, error: float = 0.0, seed: int = 1) -> dict[int, float]:
    """Seconds of an earlier run, each up to a random factor with this deviation of its logarithm."""
    return dict(enumerate((seconds * np.exp(np.random.default_rng(seed).normal(0.0, error, len(seconds)))).tolist()))


def makespan(seconds: np.ndarray, workers: int, ledger: Ledger, **options: float) -> tuple[float, SimulatedCluster]:
    """(of the schedule relative to the ideal, where all workers work until all is done; the cluster) for cases on a grid."""
    cluster = SimulatedCluster(workers, **options)
    scheduled(parents(grid(len(seconds)), np.zeros(len(seconds), dtype=int)),
              lambda number, point: Timed(number, float(seconds[number])), ledger, cluster)
    return cluster.clock / (seconds.sum() / workers), cluster
