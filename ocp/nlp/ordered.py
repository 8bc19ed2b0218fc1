"""Sorting of whole numbers, several times faster than a stable argsort."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def ordered(keys: Array) -> tuple[Array, Array]:
    """Keys in increasing order, and which is where; equal ones keep their order. Keys must not be negative."""
    bits = len(keys).bit_length()
    if len(keys) and int(keys.max()).bit_length() + bits > 62:
        order = np.argsort(keys, kind="stable")
        return keys[order], order
    packed = keys.astype(np.int64)  # key and position in one number
    packed <<= bits
    packed |= np.arange(len(keys))
    packed.sort()
    order = packed & ((1 << bits) - 1)
    packed >>= bits
    return packed, order


def starts(keys: Array, count: int) -> Array:
    """Where each of ``count`` keys begins among keys in order [count + 1]."""
    start = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(keys, minlength=count), out=start[1:])
    return start
