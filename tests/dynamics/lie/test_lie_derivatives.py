"""Value, Jacobian and Hessian of the group functions against multi-precision power series, down to θ = 0.

Every case is a smooth map x -> array. Reference derivatives are central differences in 45 digits.
"""

from collections.abc import Callable
from dataclasses import dataclass

import casadi as ca
import lie_reference as ref
import numpy as np
import pytest

from dynamics.lie import quaternion, se2, se3, series, so3

SWITCH = np.sqrt(series.THRESHOLD)
ARCTANGENT_SWITCH = 2.0 * np.arctan(np.sqrt(series.ARCTANGENT_THRESHOLD))
ANGLES = [
    0.0, 1e-12, 1e-8, 1e-4, 0.1, ARCTANGENT_SWITCH - 1e-3, ARCTANGENT_SWITCH + 1e-3,
    1.0, SWITCH - 1e-3, SWITCH + 1e-3, np.pi - 1e-6,
]  # fmt: skip
AXIS = np.array([2.0, -3.0, 6.0]) / 7.0
LINEAR = np.array([0.8, -0.5, 1.1])


@dataclass(frozen=True)
class Case:
    """A function under test, its reference, and the point that belongs to an angle.

    `increment`: the map is x0, δ -> f(x0, δ), differentiated at δ = 0; otherwise x -> f(x).
    """

    function: Callable
    reference: Callable
    size: int
    increment: bool = False

    def point(self, angle: float) -> np.ndarray:
        if self.size == 6:
            return np.concatenate([LINEAR, angle * AXIS])
        return angle * AXIS

    def __str__(self) -> str:
        return self.function.__name__


@dataclass(frozen=True)
class PlanarCase(Case):
    def point(self, angle: float) -> np.ndarray:
        return np.array([LINEAR[0], LINEAR[1], -angle])


def so3_exp(x):
    return so3.exp(x)


def quaternion_exp(x):
    return quaternion.exp(x)


def se3_exp(x):
    return se3.to_matrix(se3.exp(x))


def se2_exp(x):
    return se2.to_matrix(se2.exp(x))


def so3_log(x, delta):
    return so3.log(so3.integrate(so3.exp(x), delta))


def quaternion_log(x, delta):
    return quaternion.log(quaternion.product(quaternion.exp(x), quaternion.exp(delta)))


def quaternion_difference(x, delta):
    return quaternion.difference(quaternion.exp(-x), quaternion.exp(delta))


def se3_log(x, delta):
    return se3.log(se3.compose(se3.exp(x), se3.exp(delta)))


def se3_vector_difference(x, delta):
    start = ca.DM([0.3, -1.0, 2.0, 0.5, -0.1, 0.7, 0.5])
    return se3.difference(start, se3.integrate(se3.integrate(start, x), delta))


def se2_difference(x, delta):
    start = ca.DM([0.3, -1.0, 2.5])
    return se2.difference(start, se2.integrate(se2.integrate(start, x), delta))


CASES = [
    Case(so3_exp, lambda x: ref.power_series(ref.hat3(x), 0), 3),
    Case(so3.right_jacobian, lambda x: ref.power_series(-ref.hat3(x), 1), 3),
    Case(so3.left_jacobian, lambda x: ref.power_series(ref.hat3(x), 1), 3),
    Case(so3.right_jacobian_inverse, lambda x: ref.inverse(ref.power_series(-ref.hat3(x), 1)), 3),
    Case(so3.left_jacobian_inverse, lambda x: ref.inverse(ref.power_series(ref.hat3(x), 1)), 3),
    Case(quaternion_exp, ref.quaternion_exp, 3),
    Case(
        so3_log,
        lambda x, d: ref.log3(ref.power_series(ref.hat3(x), 0) @ ref.power_series(ref.hat3(d), 0)),
        3,
        increment=True,
    ),
    Case(
        quaternion_log,
        lambda x, d: ref.log3(ref.power_series(ref.hat3(x), 0) @ ref.power_series(ref.hat3(d), 0)),
        3,
        increment=True,
    ),
    Case(
        quaternion_difference,
        lambda x, d: ref.log3(ref.power_series(ref.hat3(x), 0) @ ref.power_series(ref.hat3(d), 0)),
        3,
        increment=True,
    ),
    Case(se3_exp, lambda x: ref.power_series(ref.hat_se3(x), 0), 6),
    Case(se3.right_jacobian, lambda x: ref.power_series(-ref.ad_se3(x), 1), 6),
    Case(se3.left_jacobian, lambda x: ref.power_series(ref.ad_se3(x), 1), 6),
    Case(se3.right_jacobian_inverse, lambda x: ref.inverse(ref.power_series(-ref.ad_se3(x), 1)), 6),
    Case(se3.left_jacobian_inverse, lambda x: ref.inverse(ref.power_series(ref.ad_se3(x), 1)), 6),
    Case(
        se3_log,
        lambda x, d: ref.log_se3(ref.power_series(ref.hat_se3(x), 0) @ ref.power_series(ref.hat_se3(d), 0)),
        6,
        increment=True,
    ),
    Case(
        se3_vector_difference,
        lambda x, d: ref.log_se3(ref.power_series(ref.hat_se3(x), 0) @ ref.power_series(ref.hat_se3(d), 0)),
        6,
        increment=True,
    ),
    PlanarCase(se2_exp, lambda x: ref.power_series(ref.hat_se2(x), 0), 3),
    PlanarCase(se2.right_jacobian, lambda x: ref.power_series(-ref.ad_se2(x), 1), 3),
    PlanarCase(se2.left_jacobian, lambda x: ref.power_series(ref.ad_se2(x), 1), 3),
    PlanarCase(se2.right_jacobian_inverse, lambda x: ref.inverse(ref.power_series(-ref.ad_se2(x), 1)), 3),
    PlanarCase(se2.left_jacobian_inverse, lambda x: ref.inverse(ref.power_series(ref.ad_se2(x), 1)), 3),
    PlanarCase(
        se2_difference,
        lambda x, d: ref.log_se2(ref.power_series(ref.hat_se2(x), 0) @ ref.power_series(ref.hat_se2(d), 0)),
        3,
        increment=True,
    ),
]


def second_order_function(case: Case, symbol: type) -> ca.Function:
    """(x, a, b) -> f, its derivative along a, its second derivative along a and b, by CasADi."""
    x, a, b = (symbol.sym(name, case.size) for name in "xab")
    if case.increment:
        variable = symbol.sym("d", case.size)
        value = case.function(x, variable)
    else:
        variable = x
        value = case.function(x)
    flat = ca.vec(ca.densify(value))
    # Jacobian by CasADi's own choice of mode, Hessian by reverse over it: both modes meet the branches.
    first = ca.mtimes(ca.jacobian(flat, variable), a)
    weights = symbol.sym("w", flat.shape[0])
    gradient = ca.jtimes(ca.dot(weights, first), variable, symbol(ca.DM(1.0)), True)
    second = ca.jacobian(ca.dot(gradient, b), weights).T
    outputs = [flat, first, ca.densify(second)]
    if case.increment:
        outputs = ca.substitute(outputs, [variable], [symbol(ca.DM.zeros(case.size))])
    return ca.Function("f", [x, a, b], outputs)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.sample(4)
def test_value_jacobian_and_hessian_match_power_series(case):
    rng = np.random.default_rng(5)
    functions = {symbol.__name__: second_order_function(case, symbol) for symbol in (ca.SX, ca.MX)}
    for angle in ANGLES:
        x = case.point(angle)
        a, b = rng.normal(size=(2, case.size))
        if case.increment:
            expected = ref.second_order(lambda d, x=x: case.reference(ref.exact(x), d), np.zeros(case.size), a, b)
        else:
            expected = ref.second_order(case.reference, x, a, b)
        for kind, function in functions.items():
            actual = function(x, a, b)
            for order, (got, want) in enumerate(zip(actual, expected, strict=True)):
                want = want.ravel(order="F")
                error = np.abs(np.asarray(got).ravel() - want).max()
                bound = 1e-11 * np.abs(want).max() + 1e-14
                assert error <= bound, f"{kind}, θ = {angle}, order {order}: error {error:.2e} of {want}"


@pytest.mark.parametrize("symbol", [ca.SX, ca.MX])
def test_mixed_derivative_of_se3_translation_at_identity(symbol):
    xi = symbol.sym("xi", 6)
    translation_x = se3.exp(xi).p[0]
    hessian = ca.Function("h", [xi], [ca.hessian(translation_x, xi)[0]])
    assert float(hessian(np.zeros(6))[2, 4]) == pytest.approx(0.5, abs=1e-15)
