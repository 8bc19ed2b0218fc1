"""Three-vectors and spatial vectors as tuples, for numbers and for eight lanes alike; rows of a workspace.

A row is eight neighbouring numbers, one for each of eight degrees of freedom; row ``k`` of a quantity that starts at ``i`` is
at ``i + 8 k``. Motion vectors are pairs (linear, angular), force vectors pairs (force, moment).
"""

from __future__ import annotations

from typing import Any

from dynamics.kernels.linked import PLAIN, linked
from dynamics.loops.lanes import WIDTH, Lanes, get, load, put, store

OPTIONS: dict[str, Any] = {**PLAIN, "cache": True, "fastmath": {"contract"}, "error_model": "numpy"}
INLINE: dict[str, Any] = {**PLAIN, "forceinline": True, "fastmath": {"contract"}, "error_model": "numpy"}
Vector = tuple[Lanes, Lanes, Lanes]


@linked(**INLINE)
def load3(array: Lanes, i: int) -> Vector:
    """The 3-vector of lanes at i, aligned."""
    return load(array, i), load(array, i + WIDTH), load(array, i + 2 * WIDTH)


@linked(**INLINE)
def store3(array: Lanes, i: int, a: Vector) -> None:
    """Write a 3-vector of lanes at i, aligned."""
    store(array, i, a[0])
    store(array, i + WIDTH, a[1])
    store(array, i + 2 * WIDTH, a[2])


@linked(**INLINE)
def get3(array: Lanes, i: int) -> Vector:
    """The 3-vector of lanes at i, unaligned."""
    return get(array, i), get(array, i + WIDTH), get(array, i + 2 * WIDTH)


@linked(**INLINE)
def put3(array: Lanes, i: int, a: Vector) -> None:
    """Write a 3-vector of lanes at i, unaligned."""
    put(array, i, a[0])
    put(array, i + WIDTH, a[1])
    put(array, i + 2 * WIDTH, a[2])


@linked(**INLINE)
def load6(array: Lanes, i: int) -> tuple[Vector, Vector]:
    """The spatial vector [angular; linear] at i."""
    return load3(array, i), load3(array, i + 3 * WIDTH)


@linked(**INLINE)
def store6(array: Lanes, i: int, x: tuple[Vector, Vector]) -> None:
    """Write a spatial vector at i."""
    store3(array, i, x[0])
    store3(array, i + 3 * WIDTH, x[1])


@linked(**INLINE)
def add3(a: Vector, b: Vector) -> Vector:
    """a + b."""
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


@linked(**INLINE)
def sub3(a: Vector, b: Vector) -> Vector:
    """a - b."""
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


@linked(**INLINE)
def mul3(s: Lanes, a: Vector) -> Vector:
    """s a."""
    return s * a[0], s * a[1], s * a[2]


@linked(**INLINE)
def dot3(a: Vector, b: Vector) -> Lanes:
    """a . b."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@linked(**INLINE)
def cross3(a: Vector, b: Vector) -> Vector:
    """a x b."""
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@linked(**INLINE)
def apply(c0: Vector, c1: Vector, c2: Vector, a: Vector) -> Vector:
    """A matrix, given by its columns, times a vector."""
    return (c0[0] * a[0] + c1[0] * a[1] + c2[0] * a[2], c0[1] * a[0] + c1[1] * a[1] + c2[1] * a[2],
            c0[2] * a[0] + c1[2] * a[1] + c2[2] * a[2])


@linked(**INLINE)
def apply_symmetric(m: tuple[Vector, Vector], a: Vector) -> Vector:
    """A symmetric matrix ((xx, yy, zz), (xy, xz, yz)) times a vector."""
    d, o = m
    return (d[0] * a[0] + o[0] * a[1] + o[1] * a[2], o[0] * a[0] + d[1] * a[1] + o[2] * a[2],
            o[1] * a[0] + o[2] * a[1] + d[2] * a[2])


@linked(**INLINE)
def add6(x: tuple[Vector, Vector], y: tuple[Vector, Vector]) -> tuple[Vector, Vector]:
    """x + y."""
    return add3(x[0], y[0]), add3(x[1], y[1])


@linked(**INLINE)
def mul6(s: Lanes, x: tuple[Vector, Vector]) -> tuple[Vector, Vector]:
    """s x."""
    return mul3(s, x[0]), mul3(s, x[1])


@linked(**INLINE)
def dot6(x: tuple[Vector, Vector], y: tuple[Vector, Vector]) -> Lanes:
    """x . y, the power of a wrench and a twist."""
    return dot3(x[0], y[0]) + dot3(x[1], y[1])


@linked(**INLINE)
def cross_motion(v: tuple[Vector, Vector], m: tuple[Vector, Vector]) -> tuple[Vector, Vector]:
    """``v x m``, Featherstone, Rigid Body Dynamics Algorithms (2008), Eq. 2.31."""
    return add3(cross3(v[1], m[0]), cross3(v[0], m[1])), cross3(v[1], m[1])


@linked(**INLINE)
def cross_force(v: tuple[Vector, Vector], f: tuple[Vector, Vector]) -> tuple[Vector, Vector]:
    """``v x* f``, Eq. 2.32 of the same book."""
    return cross3(v[1], f[0]), add3(cross3(v[1], f[1]), cross3(v[0], f[0]))


@linked(**INLINE)
def inertia_times(m: Lanes, h: Vector, s: tuple[Vector, Vector], x: tuple[Vector, Vector]) -> tuple[Vector, Vector]:
    """Momentum of twist x: mass m, first moment h, second moments s = integral of r r^T (so that I = tr(s) 1 - s)."""
    spin = x[1]
    total = s[0][0] + s[0][1] + s[0][2]
    force = add3(mul3(m, x[0]), cross3(spin, h))
    return force, add3(cross3(h, x[0]), sub3(mul3(total, spin), apply_symmetric(s, spin)))
