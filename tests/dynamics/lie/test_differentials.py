"""Differential identities on both sides, Γ and its inverse, and the accuracy of all of them down to angle 0."""

import casadi as ca
import lie_reference as ref
import mpmath as mp
import numpy as np
import pytest
import scipy.linalg
from arrays import column, number, vee
from scipy.spatial.transform import Rotation

from dynamics.errors import ChartSingularityError
from dynamics.lie import angle_axis, euler, quaternion, rotation, rotation_vector, series, so3
from dynamics.lie.perturbation import LEFT, RIGHT

ANGLES = [0.0, 1e-12, 1e-8, 1e-4, 1.0, np.pi - 1e-6]
AXIS = np.array([2.0, -3.0, 6.0]) / 7.0
both_sides = pytest.mark.parametrize("side", [LEFT, RIGHT], ids=lambda s: s.side)


def close(actual, expected, tolerance=1e-12):
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=0, atol=tolerance)


def plus(side, r, d):
    turn = Rotation.from_rotvec(d).as_matrix()
    return turn @ r if side is LEFT else r @ turn


def minus(side, end, start):
    return Rotation.from_matrix(end @ start.T if side is LEFT else start.T @ end).as_rotvec()


def finite_difference(f, difference):
    """Columns (f(+h e) - f(-h e)) / 2h in 4th order, with the difference of the space of f."""
    columns = []
    for unit in np.eye(3):
        one, two = (difference(f(h * unit), f(-h * unit)) / (2 * h) for h in (1e-3, 2e-3))
        columns.append((4 * one - two) / 3)
    return np.array(columns).T


@pytest.mark.row("000:K-111", "000:K-112", "000:K-113", "000:K-114", "000:K-115", "000:K-116", "000:K-117", "000:K-118",
                 "000:X-119", "000:X-120", "000:X-127")
@both_sides
@pytest.mark.parametrize("size", [1e-3, 0.7, 1.9])
def test_derivatives_against_finite_differences_on_the_group(side, size):
    """All identities of the cheat sheet, on the left and on the right; the differences are SciPy's."""
    rng = np.random.default_rng(41)
    v, w, r = rng.normal(size=(3, 3))
    v, w = size * v / np.linalg.norm(v), 1.1 * w / np.linalg.norm(w)
    a, b = Rotation.from_rotvec(v).as_matrix(), Rotation.from_rotvec(w).as_matrix()

    def on_group(x, y):
        return minus(side, x, y)

    def plain(x, y):
        return x - y

    def moved(rotation_, d):
        return plus(side, rotation_, d)

    def exp(x):
        return Rotation.from_rotvec(x).as_matrix()

    cases = [
        (side.rotate_by_vector(a, r), lambda d: a @ (r + d), plain),
        (side.rotate_by_rotation(a, r), lambda d: moved(a, d) @ r, plain),
        (side.inverse(a), lambda d: moved(a, d).T, on_group),
        (side.compose_by_first(a, b), lambda d: moved(a, d) @ b, on_group),
        (side.compose_by_second(a, b), lambda d: a @ moved(b, d), on_group),
        (side.exp(v), lambda d: exp(v + d), on_group),
        (side.log(a), lambda d: Rotation.from_matrix(moved(a, d)).as_rotvec(), plain),
        (side.minus_by_end(a, b), lambda d: minus(side, moved(a, d), b), plain),
        (side.minus_by_start(a, b), lambda d: minus(side, a, moved(b, d)), plain),
        (side.plus_by_rotation(b, v), lambda d: plus(side, moved(b, d), v), on_group),
        (side.plus_by_vector(b, v), lambda d: plus(side, b, v + d), on_group),
    ]
    for count, (jacobian, f, difference) in enumerate(cases):
        expected = finite_difference(f, difference)
        np.testing.assert_allclose(number(jacobian), expected, atol=2e-10, err_msg=f"identity {count}")
    close(number(side.plus(a, w)), moved(a, w))
    close(column(side.minus(a, b)), minus(side, a, b))


@pytest.mark.row("000:K-112", "000:K-118", "000:X-119", "000:X-127")
@both_sides
@pytest.mark.parametrize("symbol", [ca.SX, ca.MX])
def test_derivatives_against_algorithmic_differentiation(side, symbol):
    d = symbol.sym("d", 3)
    rng = np.random.default_rng(42)
    v, w, r = rng.normal(size=(3, 3))
    a, b = number(so3.exp(v)), number(so3.exp(w))
    cases = [
        (side.rotate_by_rotation(a, r), side.plus(a, d) @ ca.DM(r)),
        (side.log(a), so3.log(side.plus(a, d))),
        (side.minus_by_end(a, b), side.minus(side.plus(a, d), b)),
        (side.minus_by_start(a, b), side.minus(a, side.plus(b, d))),
        (side.inverse(a), side.minus(side.plus(a, d).T, a.T)),
        (side.plus_by_vector(b, v), side.minus(side.plus(b, v + d), side.plus(b, v))),
    ]
    for analytic, value in cases:
        jacobian = ca.Function("j", [d], [ca.jacobian(value, d)])(np.zeros(3))
        close(number(jacobian), number(analytic))


@pytest.mark.row("000:X-127")
def test_the_two_sides_are_joined_by_the_rotation():
    """R exp(d) = exp(R d) R: a derivative on the right is the one on the left, carried by the rotations."""
    rng = np.random.default_rng(43)
    v, w, r = rng.normal(size=(3, 3))
    a, b = number(so3.exp(v)), number(so3.exp(w))
    close(number(RIGHT.rotate_by_rotation(a, r)), number(LEFT.rotate_by_rotation(a, r)) @ a)
    close(a.T @ number(LEFT.exp(v)), number(RIGHT.exp(v)))
    close(a.T @ number(RIGHT.inverse(a)), number(LEFT.inverse(a)) @ a)
    close((a @ b).T @ number(LEFT.compose_by_second(a, b)) @ b, number(RIGHT.compose_by_second(a, b)))
    close((a @ b).T @ number(LEFT.compose_by_first(a, b)) @ a, number(RIGHT.compose_by_first(a, b)))


@pytest.mark.row("000:K-110")
@pytest.mark.parametrize("kind", list(rotation.PARAMETERISATIONS))
def test_rate_of_the_inverse_rotation_is_minus_the_body_velocity(kind):
    """(Φ_BI(t + h) ⊟ Φ_BI(t)) / h -> -ω of B relative to I, in B, for a motion with changing ω."""
    def attitude(t):
        return Rotation.from_rotvec([0.3 + 0.5 * t, 0.2 * t * t - 0.4, 0.6 - t])

    t, h = 0.4, 1e-4
    c = attitude(t).as_matrix()
    rate = (attitude(t + h).as_matrix() - attitude(t - h).as_matrix()) / (2 * h)
    omega = vee(c.T @ rate)
    before, after = (rotation.convert(attitude(s).inv().as_matrix(), "matrix", kind) for s in (t - h, t + h))
    close(column(rotation.box_minus_left(kind, after, before)) / (2 * h), -omega, 1e-8)
    close(column(rotation.mean_velocity_inverse(kind, after, before, 2 * h)), omega, 1e-8)


# ------------------------------------------------------------------------------------------------ Γ
@pytest.mark.row("000:K-121", "000:K-122", "000:K-123", "000:K-124", "000:X-125", "000:X-126")
@pytest.mark.parametrize("size", [0.0, 1e-9, 1e-3, 1.0, 3.0, 5.0])
def test_gamma_identities(size):
    rng = np.random.default_rng(44)
    for direction in rng.normal(size=(4, 3)):
        v = size * direction / np.linalg.norm(direction)
        gamma, inverse = number(rotation_vector.gamma(v)), number(rotation_vector.gamma_inverse(v))
        skew = np.cross(np.eye(3), v)
        close(gamma @ v, v)
        close(inverse @ v, v)
        close(number(rotation_vector.gamma(-v)), gamma.T, 1e-15)
        close(number(rotation_vector.gamma(-v)), number(so3.right_jacobian(v)), 1e-15)
        close(gamma @ inverse, np.eye(3))
        close(scipy.linalg.expm(skew), np.eye(3) + skew @ gamma)
        close(scipy.linalg.expm(skew), gamma @ np.linalg.inv(gamma.T))
        close(number(rotation_vector.gamma_inverse(-v)), inverse + skew)
        # Γ is the mean of exp(s v) over 0 <= s <= 1: the block of an augmented exponential
        augmented = scipy.linalg.expm(np.block([[skew, np.eye(3)], [np.zeros((3, 6))]]))[:3, 3:]
        close(gamma, augmented)
        if size >= 1e-3:
            t = size
            close(gamma, np.eye(3) + (1 - np.cos(t)) / t**2 * skew + (t - np.sin(t)) / t**3 * skew @ skew, 1e-10)
            closed = (1 - (t / 2) * np.sin(t) / (1 - np.cos(t))) / t**2
            close(inverse, np.eye(3) - skew / 2 + closed * skew @ skew, 1e-10)


@pytest.mark.row("000:X-125")
def test_gamma_has_no_inverse_at_full_turns():
    for turns in (1, 2):
        with pytest.raises(ChartSingularityError, match=r"rotation_vector: singular, sin\(\|φ\|/2\)"):
            rotation_vector.gamma_inverse(2 * np.pi * turns * AXIS)
    close(number(rotation_vector.gamma_inverse(np.zeros(3))), np.eye(3), 0)


def series_reference(s):
    """A, B, C, D of s = θ² with two derivatives, from their power series in multi-precision."""
    rows = []
    for shift in (1, 2, 3, None):
        coefficients = [
            abs(mp.bernoulli(2 * k + 2)) / mp.factorial(2 * k + 2)
            if shift is None
            else mp.mpf(-1) ** k / mp.factorial(2 * k + shift)
            for k in range(160)
        ]
        for order in range(3):
            terms = (
                c * mp.ff(k, order) * mp.mpf(s) ** (k - order) for k, c in enumerate(coefficients) if k >= order
            )
            rows.append(float(mp.fsum(terms)))
    return np.array(rows).reshape(4, 3)


@pytest.mark.row("000:X-900", "000:K-003")
@pytest.mark.parametrize("symbol", [ca.SX, ca.MX])
def test_small_angle_coefficients_on_both_sides_of_the_switch(symbol):
    """sin θ/θ, (1 - cos θ)/s, (θ - sin θ)/(sθ), (1 - θ/2 cot(θ/2))/s: value and two derivatives in s = θ²."""
    s = symbol.sym("s")
    functions = [*series.stumpff(s, 3)[1:], series.cotangent(s)[1]]
    rows = []
    for function in functions:
        first = ca.jacobian(function, s)
        rows.append(ca.horzcat(function, first, ca.jacobian(first, s)))
    evaluate = ca.Function("c", [s], [ca.vertcat(*rows)])
    switch = series.THRESHOLD
    for value in (0.0, 1e-32, 1e-16, 1e-8, 1e-4, 0.49, 0.51, 0.5 * switch, 0.99 * switch, 1.01 * switch, 2 * switch):
        with mp.workdps(60):
            expected = series_reference(value)
        np.testing.assert_allclose(number(evaluate(value)), expected, rtol=2e-12, atol=0, err_msg=f"s = {value}")


@pytest.mark.row("000:X-900", "000:K-003")
def test_the_hessian_of_exp_at_zero_is_not_zero():
    """A branch "1 + φ^" for small φ has none; the largest entry is 1."""
    phi = ca.SX.sym("phi", 3)
    hessian = ca.jacobian(ca.jacobian(ca.vec(so3.exp(phi)), phi), phi)
    values = number(ca.Function("h", [phi], [hessian])(np.zeros(3)))
    assert np.abs(values).max() == pytest.approx(1.0, abs=1e-15)
    a, b = np.array([0.3, -1.0, 2.0]), np.array([1.0, 0.5, -0.7])
    skew_a, skew_b = np.cross(np.eye(3), a), np.cross(np.eye(3), b)
    close(number(rotation_vector.exp_second_derivative(np.zeros(3), a, b)), (skew_a @ skew_b + skew_b @ skew_a) / 2, 1e-15)


@pytest.mark.row("000:K-116", "000:K-124", "000:X-900")
@pytest.mark.parametrize("angle", ANGLES)
def test_derivatives_of_exp_and_rates_of_gamma_match_power_series(angle):
    rng = np.random.default_rng(45)
    phi, (a, b) = angle * AXIS, rng.normal(size=(2, 3))
    _, first, second = ref.second_order(lambda x: ref.power_series(ref.hat3(x), 0), phi, a, b)
    close(number(rotation_vector.exp_derivative(phi, a)), first, 1e-13)
    close(number(rotation_vector.exp_second_derivative(phi, a, b)), second, 1e-12)
    close(number(rotation_vector.exp_second_derivative(phi, b, a)), second, 1e-12)
    _, rate, _ = ref.second_order(lambda x: ref.power_series(ref.hat3(x), 1), phi, a, b)
    close(number(rotation_vector.gamma_rate(phi, a)), rate, 1e-13)
    _, rate, _ = ref.second_order(lambda x: ref.inverse(ref.power_series(ref.hat3(x), 1)), phi, a, b)
    close(number(rotation_vector.gamma_inverse_rate(phi, a)), rate, 1e-12)
    close(number(rotation_vector.gamma_inverse_rate(phi, a)),
          -number(rotation_vector.gamma_inverse(phi)) @ number(rotation_vector.gamma_rate(phi, a))
          @ number(rotation_vector.gamma_inverse(phi)), 1e-12)  # fmt: skip


# ------------------------------------------------------------------------------------------------ accuracy of conversions
def mp_elementary(axis, angle):
    vector = ref.exact(np.zeros(3))
    vector[axis] = angle
    return ref.power_series(ref.hat3(vector), 0)


def mp_chart(kind, r):
    """Coordinates of a multi-precision matrix, by the forms with atan2 of the lecture notes."""
    if kind == "matrix":
        return r.ravel(order="F")
    phi = ref.log3(r)
    if kind == "rotation_vector":
        return phi
    if kind == "quaternion":
        return ref.quaternion_exp(phi)
    if kind == "angle_axis":
        angle = mp.sqrt(phi @ phi)
        return np.concatenate([[angle], phi / angle])
    at, hyp = mp.atan2, mp.hypot
    if kind == "zyx":
        return ref.exact([at(r[1, 0], r[0, 0]), at(-r[2, 0], hyp(r[2, 1], r[2, 2])), at(r[2, 1], r[2, 2])])
    if kind == "xyz":
        return ref.exact([at(-r[1, 2], r[2, 2]), at(r[0, 2], hyp(r[0, 0], r[0, 1])), at(-r[0, 1], r[0, 0])])
    if kind == "zyz":
        return ref.exact([at(r[1, 2], r[0, 2]), at(hyp(r[0, 2], r[1, 2]), r[2, 2]), at(r[2, 1], -r[2, 0])])
    return ref.exact([at(r[0, 2], -r[1, 2]), at(hyp(r[0, 2], r[1, 2]), r[2, 2]), at(r[2, 0], r[2, 1])])


FIRST_CLASS = ["matrix", "quaternion", "angle_axis", "rotation_vector", "zyx", "xyz", "zyz", "zxz"]
SINGULAR_AT_IDENTITY = {"angle_axis", "zyz", "zxz"}


def second_order_function(symbol, value, variable, inputs):
    """Value and first and second derivative of `value` along two directions, as a function."""
    a, b = symbol.sym("a", variable.shape[0]), symbol.sym("b", variable.shape[0])
    flat_value = ca.vec(ca.densify(value))
    first = ca.jtimes(flat_value, variable, a)
    second = ca.jtimes(first, variable, b)
    return ca.Function("f", [*inputs, variable, a, b], [flat_value, first, second])


def check_second_order(actual, expected, message, tolerance=1e-9):
    for order, (got, want) in enumerate(zip(actual, expected, strict=True)):
        want = np.asarray(want).ravel(order="F")
        error = np.abs(np.asarray(got).ravel() - want).max()
        bound = tolerance * max(1.0, np.abs(want).max())
        assert error <= bound, f"{message}, order {order}: error {error:.2e}, size {np.abs(want).max():.2e}"


@pytest.fixture(scope="module")
def references():
    """(target, angle) -> value and derivatives of R exp(δ) at δ = 0 in the chart of the target."""
    rng = np.random.default_rng(46)
    a, b = rng.normal(size=(2, 3))
    table = {}
    for angle in ANGLES:
        for target in FIRST_CLASS:
            if angle == 0.0 and target in SINGULAR_AT_IDENTITY:
                continue

            def chart(d, angle=angle, target=target):
                base = ref.power_series(ref.hat3(ref.exact(angle) * ref.exact(AXIS)), 0)
                return mp_chart(target, base @ ref.power_series(ref.hat3(d), 0))

            # the step of the reference must be small against the distance from a singular identity
            with mp.workdps(80):
                table[target, angle] = tiny_step_second_order(chart, a, b)
    return a, b, table


def tiny_step_second_order(f, a, b):
    h = mp.mpf(10) ** -22
    a, b = ref.exact(a) * h, ref.exact(b) * h
    first = (f(a) - f(-a)) / (2 * h)
    second = (f(a + b) - f(a - b) - f(b - a) + f(-a - b)) / (4 * h**2)
    return f(0 * a).astype(float), first.astype(float), second.astype(float)


@pytest.mark.row("000:K-070", "000:K-071", "000:K-077", "000:X-076", "000:X-078", "000:X-900")
@pytest.mark.parametrize("symbol", [ca.SX, ca.MX])
@pytest.mark.parametrize("source", FIRST_CLASS)
def test_conversions_keep_value_jacobian_and_hessian(source, symbol, references):
    """d -> convert(R exp(d)) through every pair of charts, where both allow it, to 1e-9 of the size of the answer.

    Charts singular at the identity (axis, proper Euler angles): as a target at every angle but 0, as a source, where
    their own derivatives of size 1/θ² would have to cancel, at 1 and π - 1e-6.
    """
    a, b, table = references
    entry = rotation.parameterisation(source)
    d, base = symbol.sym("d", 3), symbol.sym("base", 3)
    element = entry.from_quaternion(quaternion.product(quaternion.exp(base), quaternion.exp(d)))
    for target in FIRST_CLASS:
        value = rotation.convert(element, source, target)
        function = second_order_function(symbol, value, d, [base])
        for angle in ANGLES:
            if (source in SINGULAR_AT_IDENTITY and angle < 1.0) or (target, angle) not in table:
                continue
            result = function(angle * AXIS, np.zeros(3), a, b)
            expected = list(table[target, angle])
            if target == "quaternion" and float(np.asarray(result[0])[0, 0]) * expected[0][0] < 0.0:
                expected = [-e for e in expected]  # Euler angles may lead to -q
            check_second_order(result, expected, f"{source} -> {target}, θ = {angle}")


@pytest.mark.row("000:K-079", "000:K-081", "000:X-083", "000:X-084", "001:K10", "001:K12")
@pytest.mark.parametrize("angle", ANGLES)
@pytest.mark.parametrize("kind", ["zyx", "xyz", "zyz", "zxz"])
def test_euler_angles_to_matrix_and_quaternion_in_the_angles_themselves(kind, angle):
    q = euler.sequence(kind)
    axes = (q.i, q.j, q.i if q.proper else q.l)
    x, (a, b) = angle * AXIS, np.random.default_rng(47).normal(size=(2, 3))

    def matrix(v):
        parts = [mp_elementary(axis, v[m]) for m, axis in enumerate(axes)]
        return parts[0] @ parts[1] @ parts[2]

    def quat(v):
        parts = []
        for m, axis in enumerate(axes):
            vector = ref.exact(np.zeros(3))
            vector[axis] = v[m]
            parts.append(ref.quaternion_exp(vector))
        return ref.left_product_matrix(parts[0]) @ ref.left_product_matrix(parts[1]) @ parts[2]

    s = ca.SX.sym("x", 3)
    for function, reference in ((euler.to_matrix, matrix), (euler.to_quaternion, quat)):
        evaluate = second_order_function(ca.SX, function(kind, s), s, [])
        check_second_order(evaluate(x, a, b), ref.second_order(reference, x, a, b), function.__name__, 1e-13)


@pytest.mark.row("000:K-072", "001:K15", "001:K18")
@pytest.mark.parametrize("angle", ANGLES)
def test_angle_axis_to_matrix_and_quaternion_in_its_own_coordinates(angle):
    rng = np.random.default_rng(48)
    x = np.array([angle, *AXIS])
    a, b = rng.normal(size=(2, 4))

    def quat(v):
        return np.concatenate([[mp.cos(v[0] / 2)], v[1:] * mp.sin(v[0] / 2)])

    def matrix(v):
        n = v[1:]
        return mp.cos(v[0]) * ref.exact(np.eye(3)) + mp.sin(v[0]) * ref.hat3(n) + (1 - mp.cos(v[0])) * np.outer(n, n)

    s = ca.SX.sym("x", 4)
    for function, reference in ((angle_axis.to_matrix, matrix), (angle_axis.to_quaternion, quat)):
        evaluate = second_order_function(ca.SX, function(s), s, [])
        check_second_order(evaluate(x, a, b), ref.second_order(reference, x, a, b), function.__name__, 1e-13)
