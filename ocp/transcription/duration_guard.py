"""Durations without an upper end that never stop growing: a search that goes there is ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ocp.nlp import Warm
from ocp.problem.checkpoint import Pace
from ocp.thresholds import DIAGNOSES


class DurationGuard:
    """Watches a search: ends it (``left``) where a duration is longer than ``longest`` [s], and hands points to ``keep``."""

    def __init__(self, longest: Sequence[float], durations: Callable[[np.ndarray], Sequence[float]], pace: Pace | None,
                 keep: Callable[[Warm, Any], None]):
        self.longest, self.durations, self.pace, self.keep = longest, durations, pace, keep
        self.count, self.kept, self.left = 0, False, False

    def due(self) -> bool:
        """Whether durations are to be examined at this iteration."""
        self.count += 1
        self.kept = self.pace is not None and self.pace.due()
        return self.kept or self.count % DIAGNOSES.duration_period == 0

    def take(self, point: Warm, rows: Any) -> None:
        """Examine an iterate, and keep it where one is due."""
        if self.kept:
            self.keep(point, rows)
        if far(self.durations(point.x), self.longest):
            self.left = True
            raise KeyboardInterrupt  # as a user would end it


def far(durations: Sequence[float], longest: Sequence[float]) -> bool:
    """Whether a duration exceeds its limit."""
    return any(one > most for one, most in zip(durations, longest, strict=True))
