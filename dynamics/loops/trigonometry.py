"""Sine and cosine of eight angles at once."""

from __future__ import annotations

from typing import Any

from dynamics.kernels.linked import linked
from dynamics.loops.lanes import Lanes, fused, nearest, splat, where_negative
from dynamics.loops.vectors import INLINE

LARGEST = 1.0e6  # rad; beyond it (and for NaN and infinity) callers use the C library
# pi/2 in three pieces; with fused multiply-add each product is subtracted with one rounding
_TURN, _HIGH, _MIDDLE, _LOW = 0.6366197723675814, 1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33
# Taylor coefficients; on [-pi/4, pi/4] the first term left out is below a tenth of the last digit
_S = (-1 / 6, 1 / 120, -1 / 5040, 1 / 362880, -1 / 39916800, 1 / 6227020800, -1 / 1307674368000)
_C = (-1 / 2, 1 / 24, -1 / 720, 1 / 40320, -1 / 3628800, 1 / 479001600, -1 / 87178291200, 1 / 20922789888000)


@linked(**INLINE)
def sine_cosine(x: Lanes) -> tuple[Any, Any]:
    """(sin x, cos x) of eight angles (rad) of at most LARGEST."""
    k = nearest(x * _TURN)
    r = fused(k, splat(-_LOW), fused(k, splat(-_MIDDLE), fused(k, splat(-_HIGH), x)))
    z = r * r
    s, c = splat(_S[6]), splat(_C[7])
    s = fused(s, z, splat(_S[5]))
    s = fused(s, z, splat(_S[4]))
    s = fused(s, z, splat(_S[3]))
    s = fused(s, z, splat(_S[2]))
    s = fused(s, z, splat(_S[1]))
    s = fused(s, z, splat(_S[0]))
    c = fused(c, z, splat(_C[6]))
    c = fused(c, z, splat(_C[5]))
    c = fused(c, z, splat(_C[4]))
    c = fused(c, z, splat(_C[3]))
    c = fused(c, z, splat(_C[2]))
    c = fused(c, z, splat(_C[1]))
    c = fused(c, z, splat(_C[0]))
    s, c = fused(s * z, r, r), fused(c, z, splat(1.0))
    # quarter turn t in {-2, ..., 2}: odd ones exchange sine and cosine, then the signs
    odd = k - 2.0 * nearest(k * 0.5)
    t = k - 4.0 * nearest(k * 0.25)
    exchanged = 0.5 - odd * odd
    sine, cosine = where_negative(exchanged, c, s), where_negative(exchanged, s, c)
    sine = where_negative((t + 0.5) * (1.5 - t), -sine, sine)
    cosine = where_negative((t - 0.5) * (-1.5 - t), -cosine, cosine)
    return sine, cosine
