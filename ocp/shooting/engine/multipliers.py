"""The outer iterations of the augmented Lagrangian: how far rows are violated, and what becomes of multipliers and penalties."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocp.shooting.options import ILQROptions
from ocp.shooting.stages.horizon import Horizon
from ocp.shooting.stages.rows import BELOW, CONE, EQUAL

if TYPE_CHECKING:
    from ocp.shooting.engine.record import Store

ENOUGH = 0.25
"""A row whose violation fell to this share since the last update keeps its penalty."""


class Multipliers:
    """Multipliers and penalties of the rows of one solve; the numbers live in the record that the loops read."""

    def __init__(self, horizon: Horizon, store: Store, options: ILQROptions):
        self.horizon, self.store, self.options = horizon, store, options
        self.any_rows = any(stage.rows.count for stage in horizon.kinds)
        self.knots = [np.flatnonzero(horizon.which == i) for i in range(len(horizon.kinds))]
        self.previous = [np.full(stage.rows.count, np.inf) for stage in horizon.kinds]
        self.exhausted = False

    @property
    def largest_penalty(self) -> float:
        """Of all rows that there are."""
        return max((float(self.store.held.mu[k[0], :s.rows.count].max()) for k, s in zip(self.knots, self.horizon.kinds, strict=True)
                    if s.rows.count), default=0.0)

    def violations(self, kind: int) -> np.ndarray:
        """Largest violation of each row of a kind of stage [r] over its knots; a cone counts in its first row."""
        rows, held = self.horizon.kinds[kind].rows, self.store.held
        c = np.where(held.holds[self.knots[kind], :rows.count] > 0, held.c[self.knots[kind], :rows.count], 0.0)
        found = np.zeros(rows.count)
        for r in range(rows.count):
            if rows.kind[r] == EQUAL:
                found[r] = np.abs(c[:, r]).max()
            elif rows.kind[r] == BELOW:
                found[r] = max(0.0, c[:, r].max())
            elif rows.kind[r] == CONE:
                found[r] = max(0.0, (np.linalg.norm(c[:, r + 1:r + rows.size[r]], axis=1) - c[:, r]).max())
        return found

    def worst(self) -> tuple[float, str]:
        """The largest violation and the row it belongs to."""
        best = (0.0, "no row")
        for kind, stage in enumerate(self.horizon.kinds):
            if stage.rows.count:
                found = self.violations(kind)
                if found.max() >= best[0]:
                    best = (float(found.max()), stage.rows.names[int(found.argmax())])
        return best

    def not_finite(self, k: int) -> str | None:
        """Name of the first row that is not finite at knot k, if any."""
        stage = self.horizon.kind(k)
        tried = self.store.held.c_try[0, :stage.rows.count]
        bad = np.flatnonzero(~np.isfinite(tried) & (self.store.held.holds[k, :stage.rows.count] > 0))
        return repr(stage.rows.names[bad[0]]) if bad.size else None

    def update(self) -> None:
        """Take over the multipliers; raise the penalties of rows that were not violated much less than last time."""
        from ocp.shooting.engine import augmented

        options, stuck, held = self.options, False, self.store.held
        now = [self.violations(kind) for kind in range(len(self.knots))]
        augmented.update(held, self.horizon.which)
        for kind, (found, before) in enumerate(zip(now, self.previous, strict=True)):
            if not found.size:
                continue
            slow = (found > options.constraint_tolerance) & (found > ENOUGH * before)
            mu = held.mu[self.knots[kind][0], :found.size]
            stuck |= bool(np.any(slow & (mu >= options.penalty_max)))
            held.mu[self.knots[kind], :found.size] = np.where(slow, np.minimum(mu * options.penalty_growth, options.penalty_max), mu)
            before[:] = found
        self.exhausted = stuck
