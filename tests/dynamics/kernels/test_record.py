"""Records in compiled functions, functions whose callers take their code in, and kernels that LLVM makes with care."""

import casadi as ca
import numpy as np
import pytest

from dynamics.kernels import compile_kernel
from dynamics.kernels.linked import linked
from dynamics.kernels.record import Record


class Table(Record):
    rows: np.ndarray
    weights: np.ndarray


class Whole(Record):
    out: np.ndarray
    table: Table


@linked
def row(table, i, power):
    total = 0.0
    for j in range(table.rows.shape[1]):
        total += table.rows[i, j] * table.weights[j] ** power
    return total


@linked
def fill(whole):
    for i in range(whole.out.shape[0]):
        whole.out[i] = row(whole.table, i, 1) + row(whole.table, i, 2)


def made():
    rng = np.random.default_rng(0)
    return Whole(np.zeros(3), Table(rng.normal(size=(3, 5)), np.array([1, 2, -1, 3, 0])))


def test_compiled_functions_read_and_write_what_a_record_names():
    whole = made()
    fill(whole)
    w = whole.table.weights
    np.testing.assert_allclose(whole.out, whole.table.rows @ (w + w**2), rtol=1e-14)
    assert row(whole.table, 1, 2) == pytest.approx(whole.table.rows[1] @ w**2)  # the same function from Python
    assert len(row.inner.signatures) <= 1  # two constants, one piece of code; none where all comes from the cache


class Counted(Record):
    weights: np.ndarray
    scale: float
    count: int


@linked
def add(counted, weight):
    counted.weights[counted.count] = weight * counted.scale
    counted.count += 1
    counted.scale /= 2


@linked
def twice(counted, weight):
    add(counted, weight)
    add(counted, weight)
    return counted.scale


def test_numbers_are_set_from_both_sides():
    counted = Counted(np.zeros(4), 8.0, 1)
    assert twice(counted, 3.0) == 2.0
    assert (counted.scale, counted.count) == (2.0, 3)
    counted.scale, counted.count = 1, 0  # kept as the kinds that they were
    assert (type(counted.scale), type(counted.count)) == (float, int)
    assert twice(counted, 5.0) == 0.25
    np.testing.assert_array_equal(counted.weights, [5.0, 2.5, 12.0, 0.0])
    other = counted.replace(count=3)
    add(other, 4.0)
    assert (other.scale, other.count, counted.scale, counted.count) == (0.125, 4, 0.25, 2)
    assert counted.weights[3] == 1.0  # arrays are shared
    with pytest.raises(AttributeError, match=r"Counted\.weights cannot be set"):
        counted.weights = np.ones(4)


def test_another_record_shares_what_is_not_replaced():
    whole = made()
    other = whole.replace(out=np.ones(3))
    assert other.table is whole.table
    fill(other)
    assert not whole.out.any()
    assert other.out.all()


def test_what_a_record_cannot_hold_is_refused():
    whole = made()
    with pytest.raises(TypeError, match=r"Table\.rows: expected .*C-contiguous.*strides"):
        Table(np.zeros((4, 4)).T[:2], np.zeros(2))
    with pytest.raises(TypeError, match=r"Table\.weights: expected.*list"):
        Table(np.zeros((1, 1)), [1.0])
    with pytest.raises(TypeError, match="has the fields rows, weights; 1 values"):
        Table(np.zeros((1, 1)))
    with pytest.raises(TypeError, match="no field length; it has out, table"):
        whole.replace(length=np.zeros(1))
    with pytest.raises(AttributeError, match=r"Whole\.out cannot be set.*replace"):
        whole.out = np.zeros(3)


def test_tuned_kernels_round_as_the_interpreter(tmp_path):
    x = ca.SX.sym("x", 6)
    y = ca.vertcat(*(ca.sin(x[i] * x[(i + 1) % 6]) / (1.5 + ca.cos(x[i])) - x[i] * x[i] * x[(i + 2) % 6] + 0.1 for i in range(6)))
    function = ca.Function("f", [x], [y, ca.jacobian(ca.sumsqr(y), x), ca.hessian(ca.sumsqr(y), x)[0]])
    tuned, plain = (compile_kernel(function, mode, cache_dir=tmp_path) for mode in ("tuned", "interpreted"))
    assert (tuned.mode, plain.mode) == ("jit", "interpreted")
    rng = np.random.default_rng(1)
    for _ in range(20):
        at = rng.normal(size=6)
        for a, b in zip(tuned(at), plain(at), strict=True):
            np.testing.assert_array_equal(a, b)
