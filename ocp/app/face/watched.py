"""Observers of a solve: a callback of the user, which may stop it, and the log of the program."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ocp.app.face.shown import column
from ocp.observed import present
from ocp.problem import Problem, Trajectory

#: every row at level DEBUG, the outcome at INFO, or at WARNING where it is not certified
LOG = logging.getLogger("ocp")
LOG.addHandler(logging.NullHandler())
Progress = Callable[[Mapping[str, Any]], None]
Callback = Callable[["Iterate"], Any]


@dataclass(frozen=True)
class Iterate:
    """The argument of a callback after each iteration. row: of the iteration log, ``iteration`` and ``pass`` among it.

    ``iterate["x"]`` is a state or control at the knots of the iterate, ``iterate("x", t)`` anywhere; of several phases take
    :attr:`parts`.
    """

    row: Mapping[str, Any]
    _problem: Problem = field(repr=False)
    _present: Callable[[], Any] = field(repr=False, default=present)

    @property
    def number(self) -> int:
        """Of the iteration, counted over all passes."""
        return int(self.row["iteration"])

    @property
    def number_of_pass(self) -> int:
        """Of the mesh that is being solved; 1 where none is refined."""
        return int(self.row.get("pass", 1))

    @property
    def objective(self) -> float:
        """The objective, or the cost, of the iterate; NaN without one."""
        return float(self.row.get("objective", self.row.get("cost", np.nan)))

    @cached_property
    def parts(self) -> tuple[Trajectory, ...]:
        """The motion, phase by phase; only while the callback runs."""
        found: Sequence[Trajectory] | None = self._present()
        return () if found is None else tuple(found)

    def _column(self, name: object) -> tuple[str, int]:
        system = self._problem.phases[0].system
        return column(name, system.space.names, system.inputs)

    def __getitem__(self, name: object) -> np.ndarray:
        which, index = self._column(name)
        return getattr(self.parts[0], which)[:, index]

    def __call__(self, name: object, times: object) -> np.ndarray:
        which, index = self._column(name)
        path = self.parts[0]
        return np.asarray((path.state if which == "x" else path.control)(times))[..., index]


def watched(problem: Problem, callback: Callback | None, progress: Progress | None = None) -> Progress | None:
    """Progress that goes to the log, to the callback, and on; None where nobody listens. Where the callback returns something true,
    the solve ends as by Ctrl-C, with its best iterate."""
    if callback is None and progress is None and not LOG.isEnabledFor(logging.DEBUG):
        return None

    def notify(row: Mapping[str, Any]) -> None:
        if LOG.isEnabledFor(logging.DEBUG):
            LOG.debug("%s: %s", problem.name, " ".join(f"{key}={value:.6g}" for key, value in row.items()))
        if progress is not None:
            progress(row)
        if callback is not None and callback(Iterate(dict(row), problem)):
            raise KeyboardInterrupt

    return notify


def logged(solution: Any) -> None:
    """The outcome, to the log."""
    LOG.log(logging.INFO if solution.ok else logging.WARNING, "%s: %s by %s, objective %.8g, %s", solution.problem.name,
            solution.status.name, solution.method, solution.objective, "certified" if solution.ok else "not certified")
