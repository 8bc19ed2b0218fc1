"""The constraints of one solve as Python sees them: which is violated most, which is not finite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocp.shooting.stages.horizon import Horizon

if TYPE_CHECKING:
    from ocp.shooting.engine.record import Engine


class Multipliers:
    """Rows of one solve; multipliers and penalties live in the record that the loops read.

    found, previous [kinds, r]: largest violation of each constraint over its knots, now and at the last update of the multipliers.
    """

    def __init__(self, horizon: Horizon, store: Engine):
        self.horizon, self.store = horizon, store
        self.any_rows = any(stage.rows.count for stage in horizon.kinds)
        self.found, self.previous = (np.full(store.conset.kind.shape, fill) for fill in (0.0, np.inf))

    def worst(self) -> tuple[float, str]:
        """The largest violation of the path last expanded, in the unit of its constraint, and the constraint it belongs to."""
        from ocp.shooting.engine import augmented

        if not self.any_rows:
            return 0.0, "none"
        augmented.measure(self.store.conset, self.horizon.which, self.found)
        kind, row = np.unravel_index(int(self.found.argmax()), self.found.shape)
        rows = self.horizon.kinds[kind].rows
        return (float(self.found[kind, row] * rows.unit[row]), rows.names[row]) if row < rows.count else (0.0, "none")

    def not_finite(self, k: int) -> str | None:
        """Name of the first row that is not finite at knot k, if any."""
        stage = self.horizon.kind(k)
        tried = self.store.conset.c_try[0, :stage.rows.count]
        bad = np.flatnonzero(~np.isfinite(tried) & (self.store.conset.holds[k, :stage.rows.count] > 0))
        return stage.rows.names[bad[0]] if bad.size else None
