"""The explicit integrator of the certificate: its order, its steps, beside SciPy's."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from ocp.certify import explicit


def test_the_method_satisfies_its_order_conditions():
    A = np.zeros((explicit.STAGES, explicit.STAGES))
    for i, row in enumerate(explicit.A[:-1]):
        A[i + 1, :len(row)] = row
    c, b = np.r_[0.0, explicit.C[:-1]], explicit.A[-1]
    for k in range(8):  # bushy trees and tall ones
        assert b @ c**k == pytest.approx(1 / (k + 1), abs=1e-14)
    tall, factorial = b, 1.0
    for k in range(1, 9):
        assert tall.sum() == pytest.approx(1 / factorial, abs=1e-13)
        tall, factorial = tall @ A, factorial * (k + 1)
    for weights, order in ((explicit.FIFTH, 5), (explicit.THIRD, 3)):
        assert [abs(weights @ c**k) < 1e-13 for k in range(order)] == [True] * order
        assert abs(weights @ c**order) > 1e-6


def counted(field):
    calls = []

    def own(s, y):
        calls.append(s)
        return field(s, y)

    return own, calls


@pytest.mark.parametrize(("field", "y"), [
    (lambda s, y: np.array([y[1], -400 * y[0]]), [1.0, 0.0]),
    (lambda s, y: np.array([20 * y[1], 20 * (1 - y[0]**2) * y[1] - 20 * y[0]]), [2.0, 0.0]),
    (lambda s, y: np.cos(30 * s) * y, [1.0, -2.0, 3.0]),
])
def test_values_and_calls_are_those_of_scipy(field, y):
    ours, mine = counted(field)
    theirs, other = counted(field)
    found = explicit.integrate(ours, np.array(y), 1e-10, 1e-12)
    wanted = solve_ivp(theirs, (0, 1), y, method="DOP853", rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found, wanted.y[:, -1], rtol=1e-8, atol=1e-9)
    assert len(mine) <= 1.1 * len(other)


def test_a_value_that_goes_to_infinity_has_no_end():
    with np.errstate(all="ignore"):
        assert explicit.integrate(lambda s, y: y**2, np.array([2.0]), 1e-8, 1e-10) is None  # infinite at s = 1/2
    assert explicit.integrate(lambda s, y: 0 * y, np.array([2.0]), 1e-8, 1e-10) == pytest.approx([2.0])
    assert explicit.integrate(lambda s, y: y, np.zeros(0), 1e-8, 1e-10).shape == (0,)
