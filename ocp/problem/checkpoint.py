"""Checkpoints: the arrays from which a method can go on with a solve that was cut short.

A checkpoint is a mapping of arrays without Python objects. Every method leaves ``method``, ``problem``, ``iterations`` (so
far), ``cost`` (of the iterate it holds), the iteration log (``log`` [rows, columns], ``log_columns``) and, in its own keys, the
iterate and what it belongs to; the keys of the layout say for which problem it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ocp.errors import ProblemError
from ocp.interrupts import Progress
from ocp.problem.problem import Problem

Checkpoint = Mapping[str, np.ndarray]
Keep = Callable[[Checkpoint], None]
"""Stores a checkpoint; it may keep the arrays, which nobody changes later."""
Rows = Sequence[Mapping[str, float]]


@dataclass(frozen=True)
class Outside:
    """Who wants to know of a solve: progress gets each row of the iteration log, checkpoint an iterate now and then; resume: a
    checkpoint to go on from."""

    progress: Progress | None = None
    checkpoint: Keep | None = None
    resume: Checkpoint | None = None


NOBODY = Outside()
SECONDS = 10.0
"""Time between two checkpoints while a solve goes on."""


class Pace:
    """Says when the next checkpoint is due: ``seconds`` after the start, then as long after each."""

    def __init__(self, seconds: float | None = None):
        self.seconds = SECONDS if seconds is None else seconds
        self.last = time.perf_counter()

    def due(self) -> bool:
        """Whether it is time; if so the next interval begins."""
        now = time.perf_counter()
        if now - self.last < self.seconds:
            return False
        self.last = now
        return True


def layout(method: str, problem: Problem) -> dict[str, np.ndarray]:
    """Identity of a checkpoint of any method: method, name of the problem, states and controls of its phases."""
    return {"method": text([method]), "problem": text([problem.name]),
            "states": text([f"{phase.name}: {name}" for phase in problem.phases for name in phase.system.space.names]),
            "controls": text([f"{phase.name}: {name}" for phase in problem.phases for name in phase.system.inputs])}


def text(strings: Sequence[str]) -> np.ndarray:
    """Strings as an array that needs no pickle."""
    return np.array(list(strings), dtype=np.str_)


def check_layout(checkpoint: Checkpoint, expected: Mapping[str, np.ndarray]) -> None:
    """Raises ProblemError where a checkpoint is not of the problem with this layout, saying what differs."""
    for key, wanted in expected.items():
        if key not in checkpoint:
            raise ProblemError(f"holds no {key!r}; it was not written by this method", where="checkpoint")
        found = np.asarray(checkpoint[key])
        if found.shape == wanted.shape and np.array_equal(found, wanted):
            continue
        if len(wanted) == 1 and len(found) == 1:
            raise ProblemError(f"is of {key} {_shown(found[0])}; this is {_shown(wanted[0])}", where="checkpoint")
        if len(found) != len(wanted):
            raise ProblemError(f"is of a problem with {len(found)} {key}; this one has {len(wanted)}", where="checkpoint")
        at = int(np.flatnonzero(found != wanted)[0])
        raise ProblemError(f"is of a problem with other {key}: {_shown(found[at])} where this one has {_shown(wanted[at])}",
                           where="checkpoint")


def _shown(value: object) -> str:
    return repr(str(value)) if isinstance(value, str) else str(value)


def log_arrays(rows: Rows) -> dict[str, np.ndarray]:
    """An iteration log as arrays; what a row lacks is NaN."""
    names = list(dict.fromkeys(key for row in rows for key in row))
    numbers = np.array([[row.get(name, np.nan) for name in names] for row in rows], dtype=float).reshape(len(rows), len(names))
    return {"log": numbers, "log_columns": text(names)}


def log_rows(checkpoint: Checkpoint) -> tuple[dict[str, float], ...]:
    """The iteration log of a checkpoint; values that a row lacked are left out again."""
    names = [str(name) for name in checkpoint["log_columns"]]
    return tuple({name: int(value) if name == "iteration" else float(value) for name, value in zip(names, row, strict=True)
                  if not np.isnan(value)} for row in checkpoint["log"])


def joined(before: Rows, after: Rows) -> tuple[Mapping[str, float], ...]:
    """The log of a solve and of its continuation, whose first row is the last of the one before seen again."""
    return (*before, *after[1:]) if before else tuple(after)
