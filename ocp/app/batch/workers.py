"""Who solves the cases: threads of this process, processes of this machine, or the workers of a Dask cluster; to all of them cases
are the same pure data.

Every process has one thread: of BLAS, of Numba and of OpenMP. Numba's and the kernels' caches are written by atomic renames, so
that processes share them. Threads gain what is spent in compiled loops and functions, which release the lock of the interpreter.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache
from types import MappingProxyType
from typing import Any

from dynamics.kernels import threads
from ocp.app.batch.schedule import WINDOW, Done, Task, Workers
from ocp.app.batch.work import LOST, LoadedProgram, adopt, empty_row
from ocp.errors import ProblemError
from ocp.interrupts import Budget, limited

#: who works on this machine
THREADS, PROCESSES = "threads", "processes"
#: how often a case may take its process down with it
LIVES = 2
#: seconds within which a scheduler answers
ANSWERS = 10.0
#: seconds between looks at what a cluster has done
POLLED = 0.02
#: seconds that the cases of one message to a cluster take, and how many these are at most
BATCH_S, MAX_BATCH = 1.0, 64


def done(task: Task) -> Done:
    """Do a task."""
    return task.solved()


def prepared(task: Task) -> None:
    """Prepare for tasks like this one."""
    task.prepare()


class Here(Workers):
    """This process, one case at a time."""

    count = 1

    def __init__(self) -> None:
        self._waiting: list[Task] = []

    def submit(self, task: Task) -> None:
        self._waiting.append(task)

    def finished(self, seconds: float) -> list[Done]:
        return [done(self._waiting.pop(0))] if self._waiting else []


class Threads(Workers):
    """Threads of this process, which has one thread for each library meanwhile."""

    def __init__(self, count: int):
        self.count, self.running, self.budgets = count, dict[Future[Done], Task](), set[Budget]()
        self.pool, self._libraries = ThreadPoolExecutor(count), threads.limits()

    def submit(self, task: Task) -> None:
        self.running[self.pool.submit(self._done, task)] = task

    def _done(self, task: Task) -> Done:
        with limited() as budget:
            self.budgets.add(budget)
            try:
                return done(task)
            finally:
                self.budgets.remove(budget)

    def finished(self, seconds: float) -> list[Done]:
        over = wait(self.running, seconds, FIRST_COMPLETED).done
        for future in over:
            self.running.pop(future)
        return [future.result() for future in over]

    def close(self, wait_for_them: bool) -> None:
        """End the threads, after their running cases or after their present iterations."""
        for budget in () if wait_for_them else tuple(self.budgets):
            budget.stop()
        self.pool.shutdown(wait=True, cancel_futures=True)
        self._libraries.restore_original_limits()


class Processes(Workers):
    """Processes of this machine. One that dies is replaced, and its cases are tried again, each alone: one that takes its process
    down twice becomes a row that says so."""

    def __init__(self, count: int, programs: Mapping[str, LoadedProgram] = MappingProxyType({})):
        self.count, self.running, self.deaths = count, dict[Future[Done], Task](), dict[int, int]()
        self.programs = pickle.dumps(dict(programs))
        self.alone: list[Task] = []  # after a death nobody knows whose fault it was: one by one
        self._start()

    def _start(self) -> None:
        with threads.inherited():
            self.pool = ProcessPoolExecutor(self.count, multiprocessing.get_context("spawn"), initializer=_ready,
                                            initargs=(self.programs,))
            list(self.pool.map(abs, range(self.count)))  # all are there while the environment holds

    def submit(self, task: Task) -> None:
        if self.alone:
            self.alone.append(task)
        else:
            self._run(task)

    def prepare(self, task: Task) -> None:
        self.pool.submit(prepared, task)

    def _run(self, task: Task) -> None:
        try:
            self.running[self.pool.submit(done, task)] = task
        except BrokenProcessPool:
            self.alone.append(task)

    def finished(self, seconds: float) -> list[Done]:
        if not self.running and self.alone:
            self._run(self.alone.pop(0))
        found = []
        over = wait(self.running, seconds, FIRST_COMPLETED).done
        died = []
        for future in over:
            task = self.running.pop(future)
            try:
                found.append(future.result())
            except BrokenProcessPool:
                died.append(task)
        if died:
            found += self._replaced([*died, *self.running.values()])
        return found

    def _replaced(self, lost: list[Task]) -> list[Done]:
        """New processes in the place of those that died; what cannot be tried again."""
        self.running.clear()
        self.pool.shutdown(wait=False, cancel_futures=True)
        self._start()
        gone = []
        for task in lost:
            self.deaths[task.number] = self.deaths.get(task.number, 0) + (len(lost) == 1)
            if self.deaths[task.number] >= LIVES:
                gone.append(Done(task.number, empty_row("WORKER_DIED", LOST, "the process that solved it died"), 0.0))
            else:
                self.alone.append(task)
        return gone

    def close(self, wait_for_them: bool) -> None:
        """End the processes, after their running cases or at once."""
        if not wait_for_them:
            for process in list((getattr(self.pool, "_processes", None) or {}).values()):
                process.terminate()
        self.pool.shutdown(wait=True, cancel_futures=True)


class Cluster(Workers):
    """Workers of a Dask scheduler (extra ``cluster``). Cases travel in batches that take about ``BATCH_S``: every message costs
    scheduler and client milliseconds of processor time, which workers of the same machine lose."""

    def __init__(self, address: str):
        try:
            from distributed import Client
        except ImportError:
            raise ProblemError("needs the package distributed: pip install 'lieocp[cluster]'", where="--scheduler") from None
        try:
            self.client = Client(address, timeout=ANSWERS, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise ProblemError(f"no scheduler answers: {error}", where=f"--scheduler {address}") from None
        self.address = address
        self.waiting, self.batches = list[Task](), dict[Any, list[Task]]()  # the latter by future
        self.early = list[Any]()  # futures of preparations
        self.threads = self.count = max(1, sum(self.client.nthreads().values()))
        self.client.run(_pinned)

    def submit(self, task: Task) -> None:
        self.waiting.append(task)

    def prepare(self, task: Task) -> None:
        self.early.append(self._submit(prepared, task))

    def _submit(self, function: Callable[[Any], Any], argument: object) -> Any:
        return self.client.submit(pickle.loads, pickle.dumps(_Call(function, argument)), pure=False)

    def _send(self) -> None:
        """Batches of waiting cases, one for each free slot, at most ``WINDOW`` for each thread."""
        while self.waiting and (free := WINDOW * self.threads - len(self.batches)) > 0:
            size = min(self.count // self.threads, -(-len(self.waiting) // free))
            self._run(self.waiting[:size])
            del self.waiting[:size]

    def _run(self, tasks: list[Task]) -> None:
        self.batches[self._submit(all_done, tasks)] = tasks

    def finished(self, seconds: float) -> list[Done]:
        self._send()
        end = time.monotonic() + seconds
        while not (ready := [future for future in self.batches if future.done()]) and time.monotonic() < end:
            time.sleep(POLLED)
        if self.client.status != "running":
            logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # it reports the end of its attempts to reconnect
            raise ProblemError("the scheduler is unreachable; finished cases are kept, and the same command continues",
                               where=f"--scheduler {self.address}")
        whole = [future for future in ready if future.status == "finished"]
        found = [one for batch in self.client.gather(whole) for one in batch]  # in one message
        if found:
            seconds = sum(one.seconds for one in found) / len(found)
            self.count = self.threads * max(1, int(BATCH_S / max(seconds, BATCH_S / MAX_BATCH)))
        for future in ready:
            tasks = self.batches.pop(future)
            if future in whole:
                continue
            if type(error := future.exception()).__name__ != "KilledWorker":
                raise error
            if len(tasks) == 1:
                gone = empty_row("WORKER_DIED", LOST, f"the workers that solved it died: {error}")
                found.append(Done(tasks[0].number, gone, 0.0))
            for task in tasks if len(tasks) > 1 else ():  # nobody knows whose fault it was: each alone
                self._run([task])
        return found

    def close(self, wait_for_them: bool) -> None:
        """End the processes, after their running cases or at once."""
        if not wait_for_them:
            self.client.cancel([*self.early, *self.batches])
        self.client.close()


class _Call:
    """A call that is made where it is unpickled: by a worker, while a scheduler, which unpickles functions and their arguments,
    need not import this package."""

    def __init__(self, function: Callable[[Any], Any], argument: object):
        self.function, self.argument = function, argument

    def __reduce__(self) -> tuple[Any, ...]:
        return self.function, (self.argument,)


@cache
def _pinned() -> None:
    threads.pinned()


def all_done(tasks: list[Task]) -> list[Done]:
    """Do the tasks of a batch, by one thread for each library."""
    _pinned()
    return [done(task) for task in tasks]


def _ready(programs: bytes) -> None:
    """Of a process: one thread, the programs that stand ready, and deaf to Ctrl-C, which is for the one who asked, who ends the
    others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threads.pinned()
    for key, made in pickle.loads(programs).items():
        adopt(key, made)


@contextmanager
def workers(count: int, scheduler: str | None, by: str = PROCESSES, programs: Mapping[str, LoadedProgram] | None = None
            ) -> Iterator[Workers]:
    """Who works: a scheduler's workers, processes, threads, or this process where the count is 0. programs: by the keys of their
    recipes, that stand ready."""
    programs = programs or {}
    for key, one in programs.items():
        adopt(key, one)
    if scheduler is None and count == 0:
        yield Here()
        return
    made: Threads | Processes | Cluster = (Cluster(scheduler) if scheduler is not None else Threads(count) if by == THREADS
                                           else Processes(count, programs))
    whole = False
    try:
        yield made
        whole = True
    finally:
        made.close(whole)


def processors() -> int:
    """How many processes of this machine may task at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
