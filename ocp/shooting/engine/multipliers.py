"""The outer iterations of the augmented Lagrangian: how far rows are violated, and what becomes of multipliers and penalties."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocp.shooting.options import ILQROptions
from ocp.shooting.stages.horizon import Horizon

if TYPE_CHECKING:
    from ocp.shooting.engine.record import Store

ENOUGH = 0.25
"""A row whose violation fell to this share since the last update keeps its penalty."""


class Multipliers:
    """Multipliers and penalties of the rows of one solve; the numbers live in the record that the loops read."""

    def __init__(self, horizon: Horizon, store: Store, options: ILQROptions):
        self.horizon, self.store, self.options = horizon, store, options
        self.any_rows = any(stage.rows.count for stage in horizon.kinds)
        self.found, self.previous = (np.full(store.held.kind.shape, fill) for fill in (0.0, np.inf))
        self.largest_penalty = options.penalty if self.any_rows else 0.0
        self.exhausted = False

    def worst(self) -> tuple[float, str]:
        """The largest violation of the path last expanded, and the row it belongs to."""
        from ocp.shooting.engine import augmented

        if not self.any_rows:
            return 0.0, "no row"
        augmented.measure(self.store.held, self.horizon.which, self.found)
        kind, row = np.unravel_index(int(self.found.argmax()), self.found.shape)
        names = self.horizon.kinds[kind].rows.names
        return float(self.found[kind, row]), names[row] if row < len(names) else "no row"

    def not_finite(self, k: int) -> str | None:
        """Name of the first row that is not finite at knot k, if any."""
        stage = self.horizon.kind(k)
        tried = self.store.held.c_try[0, :stage.rows.count]
        bad = np.flatnonzero(~np.isfinite(tried) & (self.store.held.holds[k, :stage.rows.count] > 0))
        return repr(stage.rows.names[bad[0]]) if bad.size else None

    def update(self) -> None:
        """After ``worst``: take over the multipliers, raise the penalties of rows that were not violated much less than last time,
        and
        price the path anew."""
        from ocp.shooting.engine import augmented
        from ocp.shooting.engine.record import COST

        held, options, which = self.store.held, self.options, self.horizon.which
        self.exhausted, self.largest_penalty = augmented.renew(
            held, which, self.found, self.previous, options.constraint_tolerance, ENOUGH, options.penalty_growth,
            options.penalty_max)
        self.store.state[COST] = augmented.reprice(held, which, self.store.path.cost)
