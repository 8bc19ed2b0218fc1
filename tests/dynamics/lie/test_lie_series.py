"""The entire functions of θ² and their derivatives against multi-precision series, on both sides of each switch."""

import casadi as ca
import mpmath as mp
import numpy as np
import pytest

from dynamics.lie import series

DIGITS = 50
GRID = np.concatenate(
    [
        [0.0, 1e-24, 1e-16, 1e-8, 0.01],
        np.linspace(0.1, 9.8, 15),
        [series.THRESHOLD * (1 - 1e-15), series.THRESHOLD, 4 * series.THRESHOLD * (1 - 1e-9), 4 * series.THRESHOLD],
        [np.pi**2, (np.pi - 1e-6) ** 2],
    ]
)


def with_derivatives(function, symbol=ca.SX):
    """s -> value, first and second derivative of a tuple of functions of s."""
    s = symbol.sym("s")
    value = ca.vertcat(*function(s))
    first = ca.jacobian(value, s)
    return ca.Function("f", [s], [value, ca.densify(first), ca.densify(ca.jacobian(first, s))])


def power_series(coefficient, s, order):
    """Derivative of Σ_j coefficient(j) s^j, summed until the terms vanish."""
    s, total, j = mp.mpf(s), mp.mpf(0), order
    while True:
        term = coefficient(j) * mp.ff(j, order) * (s ** (j - order) if j > order else 1)
        total += term
        j += 1
        if j > 8 and abs(term) < mp.mpf(10) ** -DIGITS:
            return total


def stumpff_coefficient(k):
    return lambda j: mp.mpf(-1) ** j / mp.factorial(k + 2 * j)


def cotangent_coefficient(j):
    return abs(mp.bernoulli(2 * j + 2)) / mp.factorial(2 * j + 2)


def assert_close(function, references, tolerance, symbols=(ca.SX, ca.MX)):
    """`references`: per function, (s, derivative order) -> exact value."""
    with mp.workdps(DIGITS):
        for symbol in symbols:
            evaluate = with_derivatives(function, symbol)
            for s in GRID:
                for order, actual in enumerate(evaluate(s)):
                    for k, reference in enumerate(references):
                        exact = reference(s, order)
                        error = abs(mp.mpf(float(actual[k])) - exact)
                        # Functions with zeros are held to their size at s = 0.
                        scale = max(abs(exact), abs(reference(0.0, order)) if order < 3 else 0)
                        assert error <= tolerance * scale, f"{symbol.__name__} s={s} order {order} function {k}"


@pytest.mark.parametrize("top", [1, 2, pytest.param(3, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.slow), 5])
def test_stumpff_functions_match_their_series(top):
    references = [lambda s, order, k=k: power_series(stumpff_coefficient(k), s, order) for k in range(top + 1)]
    assert_close(lambda s: series.stumpff(s, top), references, 1e-11)


def test_stumpff_functions_match_the_trigonometric_forms():
    theta = 2.5
    c = [float(value) for value in series.stumpff(theta**2, 3)]
    expected = [np.cos(theta), np.sin(theta) / theta, (1 - np.cos(theta)) / theta**2]
    np.testing.assert_allclose(c, [*expected, (theta - np.sin(theta)) / theta**3], rtol=1e-14)


def test_stumpff_derivatives():
    s = ca.SX.sym("s")
    c = series.stumpff(s, 5)
    derivative = 2 * ca.jacobian(ca.vertcat(*c[1:4]), s)
    difference = ca.Function("d", [s], [derivative - ca.vertcat(*series.stumpff_derivatives(c))])
    for value in GRID:
        np.testing.assert_allclose(difference(value), 0.0, atol=1e-14)


def test_half_angle_functions_match_their_series():
    references = [
        lambda s, order: power_series(lambda j: stumpff_coefficient(0)(j) / mp.mpf(4) ** j, s, order),
        lambda s, order: power_series(lambda j: stumpff_coefficient(1)(j) / mp.mpf(4) ** j / 2, s, order),
    ]
    assert_close(series.half_angle, references, 1e-11)


def test_cotangent_functions_and_derivatives_match_their_series():
    def k(j):
        return mp.mpf(1) if j == 0 else -cotangent_coefficient(j - 1)

    coefficients = [
        k,
        cotangent_coefficient,
        lambda j: 2 * (j + 1) * k(j + 1),
        lambda j: 2 * (j + 1) * cotangent_coefficient(j + 1),
    ]
    references = [lambda s, order, c=c: power_series(c, s, order) for c in coefficients]
    assert_close(series.cotangent_with_derivatives, references, 1e-11)


def test_quadratic_coefficient_is_the_textbook_form():
    theta = 2.2
    textbook = 1 / theta**2 - (1 + np.cos(theta)) / (2 * theta * np.sin(theta))
    assert float(series.cotangent(theta**2)[1]) == pytest.approx(textbook, rel=1e-13)


@pytest.mark.parametrize("theta", [3.0, np.pi, 3.5, 5.0, 6.0])
def test_cotangent_is_regular_beyond_a_half_turn(theta):
    with mp.workdps(DIGITS):
        half = mp.mpf(theta) / 2
        exact_k = half * mp.cot(half)
        exact_quadratic = (1 - exact_k) / mp.mpf(theta) ** 2
    k, quadratic = series.cotangent(theta**2)
    assert float(k) == pytest.approx(float(exact_k), rel=1e-13, abs=1e-14)
    assert float(quadratic) == pytest.approx(float(exact_quadratic), rel=1e-13)


@pytest.mark.parametrize("length", [1.0, 0.5, 3.0])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_rotation_angle_ratio_and_derivatives(length, sign):
    """Against 50-digit θ/n, in which w and n² vary independently."""
    w, m = ca.SX.sym("w"), ca.SX.sym("m")
    value = series.rotation_angle_ratio(w, m)
    hessian, gradient = ca.hessian(value, ca.vertcat(w, m))
    evaluate = ca.Function("f", [w, m], [value, gradient, hessian])
    switch = 2 * np.arctan(np.sqrt(series.ARCTANGENT_THRESHOLD))
    for theta in [1e-8, 1e-4, 0.1, switch - 1e-9, switch + 1e-9, 1.0, 3.0, np.pi - 1e-6]:
        point = (sign * length * np.cos(theta / 2), (length * np.sin(theta / 2)) ** 2)
        got_value, got_gradient, got_hessian = evaluate(*point)
        with mp.workdps(120):  # second differences of steps 1e-12 relative to n² = 1e-17

            def exact(w, m):
                n = mp.sqrt(m)
                return 2 * (mp.atan2(n, w) if w > 0 else mp.atan2(n, w) - mp.pi) / n

            w0, m0 = mp.mpf(point[0]), mp.mpf(point[1])
            step_w, step_m = mp.mpf(10) ** -12 * abs(w0), mp.mpf(10) ** -12 * m0
            dw = (exact(w0 + step_w, m0) - exact(w0 - step_w, m0)) / (2 * step_w)
            dm = (exact(w0, m0 + step_m) - exact(w0, m0 - step_m)) / (2 * step_m)
            dww = (exact(w0 + step_w, m0) - 2 * exact(w0, m0) + exact(w0 - step_w, m0)) / step_w**2
            dmm = (exact(w0, m0 + step_m) - 2 * exact(w0, m0) + exact(w0, m0 - step_m)) / step_m**2
            expected = float(exact(w0, m0))
        assert float(got_value) == pytest.approx(expected, rel=1e-13)
        np.testing.assert_allclose(np.asarray(got_gradient).ravel(), [float(dw), float(dm)], rtol=1e-10)
        diagonal = np.diag(np.asarray(got_hessian))
        np.testing.assert_allclose(diagonal, [float(dww), float(dmm)], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("function", [lambda s: series.stumpff(s, 5), series.cotangent_with_derivatives])
def test_not_a_number_stays_not_a_number(function):
    assert all(np.isnan(float(value)) for value in function(ca.DM(np.nan)))


def test_order_below_one_is_refused():
    with pytest.raises(ValueError, match="top: expected at least 1, got 0"):
        series.stumpff(1.0, 0)


def assert_every_node_is_finite(variables, value, points):
    """Evaluates every operation of value, Jacobian and Hessian: the branch that is not chosen counts too."""
    x = ca.vertcat(*variables)
    first = ca.jacobian(value, x)
    function = ca.Function("f", [x], [value, first, ca.jacobian(ca.vec(first), x)])
    inputs_and_outputs = (ca.OP_INPUT, ca.OP_OUTPUT)
    ids = [function.instruction_id(k) for k in range(function.n_instructions())]
    operations = [k for k, operation in enumerate(ids) if operation not in inputs_and_outputs]
    nodes = ca.Function("nodes", function.sx_in(), [function.instructions_sx()[operations]])
    for point in points:
        assert np.isfinite(nodes(point).full()).all(), f"not finite at {point}"


@pytest.mark.parametrize("function", [lambda s: series.stumpff(s, 5), series.half_angle, series.cotangent_with_derivatives])
def test_no_branch_meets_a_singularity(function):
    """Whether a NaN of the other branch leaks depends on how CasADi arranges the selection; none arises."""
    s = ca.SX.sym("s")
    assert_every_node_is_finite([s], ca.vertcat(*function(s)), [0.0, 1e-300, 1e-12, 3.9, 4.0, 9.8])


def test_no_branch_of_the_quaternion_logarithm_meets_a_singularity():
    w, m = ca.SX.sym("w"), ca.SX.sym("m")
    points = [[1.0, 0.0], [-1.0, 0.0], [1.0, 1e-300], [0.0, 1.0], [-1e-300, 1.0], [0.5, 0.75], [-0.5, 0.75]]
    assert_every_node_is_finite([w, m], series.rotation_angle_ratio(w, m), points)
