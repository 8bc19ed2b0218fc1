"""The outer iterations of the augmented Lagrangian: how far rows are violated, and what becomes of multipliers and penalties."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocp.shooting.engine import augmented
from ocp.shooting.options import ILQROptions

if TYPE_CHECKING:
    from ocp.shooting.engine.loops import Rows

ENOUGH = 0.25
"""A row whose violation fell to this share since the last update keeps its penalty."""


class Multipliers:
    """Multipliers and penalties of the rows of one solve; the numbers live in the records that the loops read."""

    def __init__(self, rows: Rows, names: tuple[tuple[str, ...], tuple[str, ...]], options: ILQROptions):
        self.places, self.names, self.options = (rows.path, rows.final), names, options
        self.any_rows = any(held.kind.shape[0] for held in self.places)
        self.found = [np.zeros(held.kind.shape[0]) for held in self.places]
        self.previous = [np.full(held.kind.shape[0], np.inf) for held in self.places]
        self.exhausted = False
        for held in self.places:
            held.lam[:] = 0.0
            held.mu[:] = options.penalty

    @property
    def largest_penalty(self) -> float:
        return max((float(held.mu.max()) for held in self.places if held.mu.size), default=0.0)

    def measure(self) -> None:
        """Violations of the path just expanded."""
        for held, out in zip(self.places, self.found, strict=True):
            if out.size:
                augmented.violations(held, int(held.start), out)

    def not_finite(self, k: int, N: int) -> str | None:
        """Name of the first row that is not finite at knot k of N, if any."""
        held, names = (self.places[0], self.names[0]) if k < N else (self.places[1], self.names[1])
        bad = np.flatnonzero(~np.isfinite(held.c[k if k < N else 0]) & (held.first <= k))
        return repr(names[bad[0]]) if bad.size else None

    def worst(self) -> tuple[float, str]:
        """The largest violation and the row it belongs to."""
        best = (0.0, "no row")
        for out, names in zip(self.found, self.names, strict=True):
            if out.size and out.max() >= best[0]:
                best = (float(out.max()), names[int(out.argmax())])
        return best

    def update(self) -> None:
        """Take over the multipliers; raise the penalties of rows that were not violated much less than last time."""
        options, stuck = self.options, False
        for held, now, before in zip(self.places, self.found, self.previous, strict=True):
            if not now.size:
                continue
            augmented.update(held)
            slow = (now > options.constraint_tolerance) & (now > ENOUGH * before)
            stuck |= bool(np.any(slow & (held.mu >= options.penalty_max)))
            held.mu[slow] = np.minimum(held.mu[slow] * options.penalty_growth, options.penalty_max)
            before[:] = now
        self.exhausted = stuck
