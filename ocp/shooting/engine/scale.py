"""Scales of the tolerances of the search."""

from __future__ import annotations

from dynamics.kernels.linked import linked

LOOSEST = 64.0  # a power of two: costs times powers of two have the same bits


@linked
def scale(unit: float, cost: float) -> float:
    """The size that a gradient and an expected decrease are small beside: that of the cost or its unit, whichever is larger; of
    what is less than one up to 64 times as much, but no more than one. So costs around 1e-2 do not ask for more digits
    than rounding leaves them, and costs of 1e-12 are still solved as their certificate asks."""
    size = max(unit, abs(cost))
    return max(size, min(1.0, LOOSEST * size))
