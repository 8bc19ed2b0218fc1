"""Group laws, exponential, logarithm, adjoint and Jacobians of every group, by one set of properties."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np
import pytest
import scipy.linalg
from arrays import close, number

from dynamics.lie import Pose, quaternion, se2, se3, so2, so3


@dataclass(frozen=True)
class Group:
    """What the properties need of a group; elements are whatever its functions exchange."""

    name: str
    size: int
    angular: slice
    exp: Callable[[Any], Any]
    log: Callable[[Any], Any]
    compose: Callable[[Any, Any], Any]
    inverse: Callable[[Any], Any]
    matrix: Callable[[Any], Any]
    hat: Callable[[Any], Any]
    adjoint: Callable[[Any], Any]
    right_jacobian: Callable[[Any], Any]
    right_jacobian_inverse: Callable[[Any], Any]
    left_jacobian: Callable[[Any], Any]
    left_jacobian_inverse: Callable[[Any], Any]
    integrate: Callable[[Any, Any], Any]
    difference: Callable[[Any, Any], Any]

    def __str__(self) -> str:
        return self.name


def one(_: Any) -> ca.DM:
    return ca.DM(1.0)


def so3_jacobians() -> dict[str, Callable]:
    names = ("right_jacobian", "right_jacobian_inverse", "left_jacobian", "left_jacobian_inverse")
    return {name: getattr(so3, name) for name in names}


GROUPS = [
    Group(
        "SO2", 1, slice(0, 1), so2.exp, so2.log, so2.compose, so2.inverse, so2.to_matrix, so2.hat,
        one, one, one, one, one, so2.integrate, so2.difference,
    ),
    Group(
        "SO3", 3, slice(0, 3), so3.exp, so3.log, lambda a, b: a @ b, lambda a: a.T, lambda a: a, so3.hat,
        lambda a: a, **so3_jacobians(), integrate=so3.integrate, difference=so3.difference,
    ),
    Group(
        "quaternion", 3, slice(0, 3), quaternion.exp, quaternion.log, quaternion.product, quaternion.conjugate,
        quaternion.to_matrix, so3.hat, quaternion.to_matrix, **so3_jacobians(),
        integrate=quaternion.integrate, difference=quaternion.difference,
    ),
    Group(
        "SE2", 3, slice(2, 3), se2.exp, se2.log, se2.compose, se2.inverse, se2.to_matrix, se2.hat,
        se2.adjoint, se2.right_jacobian, se2.right_jacobian_inverse, se2.left_jacobian,
        se2.left_jacobian_inverse, se2.integrate, se2.difference,
    ),
    Group(
        "SE3", 6, slice(3, 6), se3.exp, se3.log, se3.compose, se3.inverse, se3.to_matrix, se3.hat,
        se3.adjoint, se3.right_jacobian, se3.right_jacobian_inverse, se3.left_jacobian,
        se3.left_jacobian_inverse,
        lambda x, d: se3.compose(x, se3.exp(d)), lambda a, b: se3.log(se3.compose(se3.inverse(a), b)),
    ),
    Group(
        "SE3 as 7-vector", 6, slice(3, 6),
        lambda xi: se3.integrate([0, 0, 0, 1, 0, 0, 0], xi), lambda q: se3.log(se3.from_vector(q)),
        lambda a, b: se3.to_vector(se3.compose(se3.from_vector(a), se3.from_vector(b))),
        lambda q: se3.to_vector(se3.inverse(se3.from_vector(q))),
        lambda q: se3.to_matrix(se3.from_vector(q)), se3.hat, lambda q: se3.adjoint(se3.from_vector(q)),
        se3.right_jacobian, se3.right_jacobian_inverse, se3.left_jacobian, se3.left_jacobian_inverse,
        se3.integrate, se3.difference,
    ),
]  # fmt: skip
every_group = pytest.mark.parametrize("group", GROUPS, ids=str)


def tangents(group: Group) -> list[np.ndarray]:
    """Random tangents with rotation angles from 0 up to just below a half turn."""
    rng = np.random.default_rng(11)
    samples = []
    for angle in [0.0, 1e-9, 1e-3, 0.4, 1.0, 1.9, 2.1, 3.0, np.pi - 1e-6]:
        xi = rng.normal(size=group.size)
        xi[group.angular] *= angle / np.linalg.norm(xi[group.angular])
        samples.append(xi)
    return samples


def matrix_of(group: Group, element: Any) -> np.ndarray:
    return np.asarray(group.matrix(element), dtype=float)


@every_group
def test_exponential_is_the_matrix_exponential(group):
    for xi in tangents(group):
        close(matrix_of(group, group.exp(xi)), scipy.linalg.expm(number(group.hat(xi))), 1e-13)


@pytest.mark.row("003:M01")
@every_group
def test_group_axioms(group):
    samples = tangents(group)
    identity = group.exp(np.zeros(group.size))
    close(matrix_of(group, identity), np.eye(len(matrix_of(group, identity))), 0)
    for xa, xb, xc in zip(samples, samples[1:], samples[2:]):
        a, b, c = group.exp(xa), group.exp(xb), group.exp(xc)
        close(matrix_of(group, group.compose(a, b)), matrix_of(group, a) @ matrix_of(group, b))
        left = group.compose(group.compose(a, b), c)
        close(matrix_of(group, left), matrix_of(group, group.compose(a, group.compose(b, c))))
        close(matrix_of(group, group.compose(a, group.inverse(a))), matrix_of(group, identity))
        close(matrix_of(group, group.inverse(a)), np.linalg.inv(matrix_of(group, a)))
        close(matrix_of(group, group.compose(a, identity)), matrix_of(group, a))


@every_group
def test_logarithm_inverts_exponential(group):
    for xi in tangents(group):
        close(number(group.log(group.exp(xi))).ravel(), xi, 1e-12)


@every_group
def test_integrate_and_difference_are_inverse(group):
    samples = tangents(group)
    for start, delta in zip(samples, reversed(samples)):
        x = group.exp(start)
        moved = group.integrate(x, delta)
        expected = matrix_of(group, x) @ scipy.linalg.expm(number(group.hat(delta)))
        close(matrix_of(group, moved), expected, 1e-12)
        close(number(group.difference(x, moved)).ravel(), delta, 1e-11)
        close(number(group.difference(x, x)), 0.0)


@every_group
def test_adjoint_conjugates(group):
    samples = tangents(group)
    for xi, eta in zip(samples, reversed(samples)):
        x = matrix_of(group, group.exp(xi))
        moved = number(group.adjoint(group.exp(xi))) @ eta
        close(number(group.hat(moved)), x @ number(group.hat(eta)) @ np.linalg.inv(x), 1e-12)


@every_group
@pytest.mark.sample(2)
def test_jacobians_by_finite_differences_on_the_group(group):
    step = 1e-5
    for xi in tangents(group):
        x = group.exp(xi)
        right, left = np.zeros((group.size, group.size)), np.zeros((group.size, group.size))
        for i, unit in enumerate(step * np.eye(group.size)):
            ahead, behind = group.exp(xi + unit), group.exp(xi - unit)
            right[:, i] = number(group.difference(x, ahead) - group.difference(x, behind)).ravel() / (2 * step)
            outer = [group.log(group.compose(y, group.inverse(x))) for y in (ahead, behind)]
            left[:, i] = number(outer[0] - outer[1]).ravel() / (2 * step)
        close(number(group.right_jacobian(xi)), right, 1e-9)
        close(number(group.left_jacobian(xi)), left, 1e-9)


@every_group
def test_jacobian_identities(group):
    for xi in tangents(group):
        right, left = number(group.right_jacobian(xi)), number(group.left_jacobian(xi))
        close(right @ number(group.right_jacobian_inverse(xi)), np.eye(group.size))
        close(left @ number(group.left_jacobian_inverse(xi)), np.eye(group.size))
        close(left, number(group.adjoint(group.exp(xi))) @ right, 1e-12)


@pytest.mark.parametrize("group", [g for g in GROUPS if g.size > 1], ids=str)
def test_inverse_jacobian_differentiates_the_logarithm(group):
    """Automatic differentiation of log(X exp(δ)) at δ = 0, a road that does not use the inverse Jacobian."""
    delta = ca.SX.sym("delta", group.size)
    for xi in tangents(group):
        moved = group.log(group.integrate(group.exp(xi), delta))
        jacobian = ca.Function("j", [delta], [ca.jacobian(moved, delta)])
        close(jacobian(np.zeros(group.size)), number(group.right_jacobian_inverse(xi)), 1e-10)


@pytest.mark.row("003:M06", "003:M09")
def test_little_adjoint_is_the_derivative_of_the_adjoint():
    rng = np.random.default_rng(3)
    for _ in range(5):
        xi = rng.normal(size=6)
        close(number(se3.adjoint(se3.exp(xi))), scipy.linalg.expm(number(se3.ad(xi))), 1e-12)


def test_coadjoint_keeps_power():
    """Duality catches the confusion of motion and force transforms that component orders hide."""
    rng = np.random.default_rng(4)
    for _ in range(5):
        pose = se3.exp(rng.normal(size=6))
        twist, wrench = rng.normal(size=(2, 6))
        moved = number(se3.coadjoint(pose)) @ wrench
        assert (number(se3.adjoint(pose)) @ twist) @ moved == pytest.approx(twist @ wrench, rel=1e-12)


def test_coadjoint_moves_moments_by_the_lever_arm():
    pose = Pose(np.eye(3), [1.0, 2.0, 3.0])
    force, moment = np.array([0.3, -0.2, 0.9]), np.array([1.0, 0.5, -2.0])
    expected = np.concatenate([force, moment + np.cross([1.0, 2.0, 3.0], force)])
    close(number(se3.coadjoint(pose) @ np.concatenate([force, moment])).ravel(), expected)


def test_act_moves_points():
    rng = np.random.default_rng(8)
    xi, point = rng.normal(size=6), rng.normal(size=3)
    expected = scipy.linalg.expm(number(se3.hat(xi))) @ np.append(point, 1.0)
    close(number(se3.act(se3.exp(xi), point)).ravel(), expected[:3])
    planar = rng.normal(size=3)
    expected = scipy.linalg.expm(number(se2.hat(planar))) @ np.append(point[:2], 1.0)
    close(number(se2.act(se2.exp(planar), point[:2])).ravel(), expected[:2])


def test_seven_vector_rate_map_is_the_derivative_of_integrate():
    rng = np.random.default_rng(6)
    q = number(se3.to_vector(se3.exp(rng.normal(size=6)))).ravel()
    delta = ca.SX.sym("delta", 6)
    jacobian = ca.Function("j", [delta], [ca.jacobian(se3.integrate(q, delta), delta)])(np.zeros(6))
    close(number(se3.rate_map(q)), number(jacobian), 1e-13)
    close(number(se3.rate_map_inverse(q) @ se3.rate_map(q)), np.eye(6), 1e-13)


def test_seven_vector_ignores_the_sign_of_the_quaternion():
    rng = np.random.default_rng(9)
    start, end = (number(se3.to_vector(se3.exp(rng.normal(size=6)))).ravel() for _ in range(2))
    flipped = np.concatenate([end[:3], -end[3:]])
    close(number(se3.difference(start, flipped)), number(se3.difference(start, end)))


def test_vee_inverts_hat_and_ignores_the_symmetric_part():
    phi = np.array([0.3, -1.2, 2.0])
    symmetric = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 5.0], [3.0, 5.0, 6.0]])
    close(number(so3.vee(number(so3.hat(phi)) + symmetric)).ravel(), phi)
    close(number(so3.hat(phi)) @ [1.0, 0.0, 0.0], np.cross(phi, [1.0, 0.0, 0.0]))


@pytest.mark.parametrize("turns", [-3, -1, 0, 1, 2])
@pytest.mark.parametrize("angle", [-3.1, -1.0, 0.0, 0.5, 3.1])
def test_wrap_removes_full_turns(turns, angle):
    assert float(so2.wrap(angle + 2 * np.pi * turns)) == pytest.approx(angle, abs=1e-13)


def test_wrap_interval_is_closed_above_and_derivative_is_one():
    assert float(so2.wrap(np.pi)) == np.pi
    assert float(so2.wrap(-np.pi)) == np.pi
    x = ca.SX.sym("x")
    slope = ca.Function("s", [x], [ca.jacobian(so2.wrap(x), x)])
    assert [float(slope(value)) for value in (-7.0, -np.pi, 0.0, np.pi, 4.0)] == [1.0] * 5


def test_planar_differences_take_the_short_way():
    close(number(se2.difference([0, 0, 3.0], [0, 0, -3.0])).ravel(), [0, 0, 2 * np.pi - 6.0])
    assert float(so2.difference(-3.0, 3.0)) == pytest.approx(6.0 - 2 * np.pi)
    assert float(se2.compose([0, 0, 3.0], [0, 0, 3.0])[2]) == 6.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: so3.exp([1.0, 2.0]), r"phi: expected shape \(3, 1\), got \(2, 1\)"),
        (lambda: so3.exp(np.ones((1, 3))), r"phi: expected shape \(3, 1\), got \(1, 3\)"),
        (lambda: so3.log(np.ones((3, 3, 1))), r"rotation: expected shape \(3, 3\), got \(3, 3, 1\)"),
        (lambda: se3.log(Pose(ca.SX.sym("R", 3, 3), ca.SX.sym("p", 2))), r"pose\.p: expected shape \(3, 1\)"),
        (lambda: se3.right_jacobian(ca.MX.sym("xi", 3)), r"xi: expected shape \(6, 1\), got \(3, 1\)"),
    ],
)
def test_wrong_shapes_are_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_values_that_are_not_numbers_are_refused_by_name():
    with pytest.raises(TypeError, match="phi: expected a CasADi expression or numbers, got 'abc'"):
        so3.exp("abc")


def test_lists_of_scalar_expressions_are_columns():
    x = ca.SX.sym("x")
    function = ca.Function("f", [x], [so3.exp([x, 0.0, 0.0])])
    close(function(0.3), scipy.linalg.expm(0.3 * number(so3.hat([1.0, 0.0, 0.0]))))
