"""Kernels that another process tunes while they run."""

from __future__ import annotations

import ctypes
import time

import casadi as ca
import numpy as np
import pytest

from dynamics.kernels import compile_kernel, compile_many, tuning, workspace


def functions() -> list[ca.Function]:
    x = ca.SX.sym("x", 6)
    y = ca.vertcat(*(ca.sin(x[i] * x[(i + 1) % 6]) / (1.5 + ca.cos(x[i])) - x[i] * x[(i + 2) % 6] for i in range(6)))
    return [ca.Function("f", [x], [y, ca.hessian(ca.sumsqr(y), x)[0]]), ca.Function("g", [x], [ca.jacobian(y, x)])]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LIEOCP_CACHE_DIR", str(tmp_path))


def goal(kernel):
    return ctypes.c_void_p.from_address(kernel.code.tuning.place).value


def test_calls_go_to_tuned_code_as_soon_as_it_is_there():
    made, plain = (compile_many(functions(), mode=mode) for mode in ("tunable", "interpreted"))
    held, before = workspace(made[0]), [goal(kernel) for kernel in made]
    at = np.random.default_rng(3).normal(size=6)
    first = [kernel(at) for kernel in made]
    with tuning.tuned_while(made, patience=0.0):
        end = time.monotonic() + 60.0
        while any(goal(kernel) == old for kernel, old in zip(made, before, strict=True)) and time.monotonic() < end:
            time.sleep(0.02)
    assert all(goal(kernel) != old for kernel, old in zip(made, before, strict=True))
    assert held.address == made[0].address  # whoever holds an address need not know
    for kernel, one, other in zip(made, first, plain, strict=True):
        for a, b, c in zip(kernel(at), one, other(at), strict=True):
            np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(a, c)
    again = compile_many(functions(), mode="tunable")
    assert all(kernel.code.tuning is None and kernel.code.cache_hit for kernel in again)  # tuned from the start


def test_nothing_is_tuned_for_a_short_while():
    (made,) = compile_many(functions()[:1], mode="tunable")
    before = goal(made)
    with tuning.tuned_while([made]):
        made(np.ones(6))
    assert goal(made) == before
    assert not tuning._running


def test_kernels_of_other_kinds_pass_through():
    kernel = compile_kernel(functions()[0], "interpreted")
    with tuning.tuned_while([kernel], patience=0.0):
        assert kernel.code is None
