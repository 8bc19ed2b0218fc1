"""Building a function with a limit: in a process of its own, which can be stopped, where CasADi itself cannot be."""

from __future__ import annotations

import multiprocessing
import signal
import tempfile
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import casadi as ca

from dynamics.derivatives.candidates import QUANTITIES, Candidate
from ocp.app.derivatives.counting import count

SMALL = 12  # degrees of freedom up to which nothing takes long: built here


class TooLarge(Exception):
    """A function was given up; the message says why."""


@dataclass(frozen=True)
class Limits:
    """build_seconds, instructions: beyond these a function is given up; compile_instructions: beyond these it is not compiled.
    None: no limit."""

    build_seconds: float | None = 20.0
    instructions: int | None = 1_500_000
    compile_instructions: int | None = 75_000

    @property
    def sentence(self) -> str:
        if self.build_seconds is None or self.instructions is None or self.compile_instructions is None:
            return "no limits"
        return (f"a function is given up after {self.build_seconds:g} s of building or beyond {thousands(self.instructions)} "
                f"instructions, and compiled up to {thousands(self.compile_instructions)}")


@dataclass
class Builder:
    """Builds candidates one after the other. ``close`` ends its process."""

    limits: Limits
    _worker: Any = field(default=None, repr=False)
    _pipe: Connection | None = field(default=None, repr=False)

    def build(self, candidate: Candidate) -> tuple[ca.Function, float]:
        """The function and the seconds that building it took. Raises TooLarge, and what the candidate raises."""
        heavy = candidate.model.nv > SMALL and QUANTITIES[candidate.quantity].order == 2
        if self.limits.build_seconds is None or not heavy:
            return _checked(candidate, self.limits.instructions)
        if self._worker is None:
            self._start()
        assert self._pipe is not None
        with tempfile.TemporaryDirectory(prefix="lieocp-") as folder:
            file = str(Path(folder) / "function.casadi")
            self._pipe.send((candidate, self.limits.instructions, file))
            try:
                if not self._pipe.poll(self.limits.build_seconds):
                    self.close()
                    raise TooLarge(f"not built after {self.limits.build_seconds:g} s, the limit")
                kind, value = self._pipe.recv()
            except (EOFError, ConnectionError):
                self.close()
                raise TooLarge("the process that builds it ended, perhaps for lack of memory") from None
            except BaseException:
                self.close()
                raise
            if kind == "error":
                raise value
            return ca.Function.load(file), value

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._worker = context.Process(target=_serve, args=(other,), daemon=True)
        self._worker.start()
        other.close()
        self._pipe.send(None)  # answered when everything is imported, so that no candidate pays for it
        self._pipe.recv()

    def close(self) -> None:
        if self._worker is not None:
            self._worker.kill()
            self._worker.join()
        if self._pipe is not None:
            self._pipe.close()
        self._worker = self._pipe = None


def _checked(candidate: Candidate, most: int | None) -> tuple[ca.Function, float]:
    begin = time.perf_counter()
    function = candidate.build()
    seconds = time.perf_counter() - begin
    assert function is not None
    size = count(function).distinct
    if most is not None and size > most:
        raise TooLarge(f"{thousands(size)} instructions, the limit is {thousands(most)}")
    return function, seconds


def _serve(pipe: Connection) -> None:
    """The other process: an interrupt is the parent's business."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            request = pipe.recv()
        except EOFError:
            return
        if request is None:
            pipe.send(None)
            continue
        candidate, most, file = request
        try:
            function, seconds = _checked(candidate, most)
            function.save(file)
            pipe.send(("built", seconds))
        except Exception as error:  # sent to whoever asked, where it is raised again
            pipe.send(("error", error))


def thousands(value: int) -> str:
    return f"{value:,}".replace(",", "\u202f")
