"""The eight-lane type under the loops, and what the loops may not do: allocate."""

import numpy as np
import pytest
from loop_references import mixed_tree, state
from numba import njit
from numba.core.runtime import _nrt_python, rtsys

from dynamics.loops import forward, make_tables, tensors
from dynamics.loops.lanes import blend, fused, load, load_masked, nearest, splat, store, store_masked, where_negative
from dynamics.loops.trigonometry import sine_cosine


@njit(cache=True)
def exercise(x, y, out, mask):
    a, b = load(x, 0), load(y, 0)
    store(out, 0, a + b)
    store(out, 8, a - 2.0 * b)
    store(out, 16, -a / b)
    store(out, 24, fused(a, b, splat(3.0)))
    store(out, 32, nearest(a))
    store(out, 40, where_negative(a, b, splat(7.0)))
    store(out, 48, blend(mask, a, b))
    store_masked(out, 56, a, mask)
    store(out, 64, load_masked(x, 0, mask))


@njit(cache=True)
def turns(angles, sines, cosines):
    for i in range(0, angles.size, 8):
        s, c = sine_cosine(load(angles, i))
        store(sines, i, s)
        store(cosines, i, c)


def test_lanes_do_what_numpy_does():
    rng = np.random.default_rng(0)
    x, y, out = rng.normal(0, 3, 8), rng.normal(0, 3, 8), np.full(72, 99.0)
    x[3] = np.nan
    mask = 0b10110010
    bits = np.array([mask >> k & 1 for k in range(8)], bool)
    exercise(x, y, out, mask)
    expected = [x + y, x - 2 * y, -x / y, x * y + 3, np.rint(x), np.where(x < 0, y, 7.0), np.where(bits, x, y),
                np.where(bits, x, 99.0), np.where(bits, x, 0.0)]
    np.testing.assert_allclose(out.reshape(9, 8), expected, rtol=1e-14, atol=1e-14)


def test_sine_and_cosine_to_the_last_place():
    mpmath = pytest.importorskip("mpmath")
    rng = np.random.default_rng(1)
    quarter = np.pi / 4 * np.arange(-40, 40)
    angles = np.concatenate([quarter, np.nextafter(quarter, 9), rng.uniform(-4, 4, 400), rng.uniform(-1e6, 1e6, 200),
                             10.0 ** rng.uniform(-300, 0, 80)])
    sines, cosines = np.zeros_like(angles), np.zeros_like(angles)
    turns(angles, sines, cosines)
    for x, s, c in zip(angles, sines, cosines, strict=True):
        for ours, exact in ((s, mpmath.sin(mpmath.mpf(x))), (c, mpmath.cos(mpmath.mpf(x)))):
            assert abs(ours - exact) <= 1.5 * np.spacing(abs(float(exact)) + 1e-320), x


@njit(cache=True)
def repeat(count, integers, reals, work, q, v, tau, mu, none, to, unit, tensor):
    for _ in range(count):
        forward.forward_contracted_second_order(integers, reals, work, q, v, tau, mu, none, to)
        tensors.second_order(integers, reals, work, q, v, tau, none, unit, tensor, True)


@pytest.mark.row("002:H26")
@pytest.mark.slow
def test_nothing_is_allocated_per_call():
    """A hundred calls from a compiled loop allocate as much as one: nothing but what entering it from Python takes."""
    model = mixed_tree(6, 3, "free_flyer")
    n, flat = model.nv, make_tables(model)
    q, v, tau, mu, _ = state(model, 4)
    to = forward.Results(np.zeros(n), np.zeros((3, n, n)), np.zeros((4, n, n)), np.zeros(n), np.zeros((4, n, n)))
    arguments = (flat.integers, flat.reals, flat.workspace(), q, v, tau, mu, np.zeros((0, 6)), to, np.zeros(n),
                 np.zeros((n, 4, n, n)))
    repeat(1, *arguments)
    _nrt_python.memsys_enable_stats()
    try:
        counts = []
        for count in (1, 100):
            before = rtsys.get_allocation_stats().alloc
            repeat(count, *arguments)
            counts.append(rtsys.get_allocation_stats().alloc - before)
    finally:
        _nrt_python.memsys_disable_stats()
    assert counts[0] == counts[1] > 0
