"""One rigid body: brackets, exponentials, adjoints and their rates on the group; Newton-Euler with gravity, and its steps."""

import casadi as ca
import numpy as np
import pytest
from arrays import column, number
from scipy.integrate import solve_ivp
from scipy.linalg import expm, logm
from states import free_body

import dynamics
from dynamics import algorithms as alg
from dynamics import spatial
from dynamics.forces import Place, PointForce
from dynamics.lie import se3, so3
from dynamics.model import BodyInertia
from dynamics.model.synthetic import random_inertia, random_rotation
from dynamics.notation.inertia import free_body_acceleration

GRAVITY = np.array([0.0, 0.0, -9.81])


def random_pose(rng):
    return se3.Pose(ca.DM(random_rotation(rng)), ca.DM(rng.standard_normal(3)))


def matrix(pose):
    return number(se3.to_matrix(pose))


@pytest.mark.row("003:M01")
def test_poses_are_a_group():
    rng = np.random.default_rng(0)
    E, x = random_pose(rng), rng.standard_normal(3)
    R = number(E.R)
    np.testing.assert_allclose(R @ R.T, np.eye(3), atol=1e-14)
    assert np.linalg.det(R) == pytest.approx(1.0)
    np.testing.assert_allclose(matrix(se3.inverse(E)), np.linalg.inv(matrix(E)), atol=1e-13)
    np.testing.assert_allclose(column(se3.act(E, x)), (matrix(E) @ np.r_[x, 1.0])[:3], atol=1e-14)
    # the columns of R are the body's axes in the world
    for k in range(3):
        np.testing.assert_allclose(column(se3.act(E, np.eye(3)[k]) - se3.act(E, np.zeros(3))), R[:, k], atol=1e-14)


@pytest.mark.row("003:M02")
def test_brackets():
    rng = np.random.default_rng(1)
    a, b, xi = rng.standard_normal(3), rng.standard_normal(3), rng.standard_normal(6)
    np.testing.assert_allclose(number(so3.hat(a)) @ b, np.cross(a, b), atol=1e-15)
    np.testing.assert_allclose(number(so3.hat(a)), -number(so3.hat(a)).T, atol=0)
    np.testing.assert_allclose(column(so3.vee(so3.hat(a))), a, atol=0)
    bracket = number(se3.hat(xi))
    np.testing.assert_allclose(bracket[:3, :3] @ b, np.cross(column(spatial.angular(ca.DM(xi))), b), atol=1e-15)
    np.testing.assert_allclose(bracket[:3, 3], column(spatial.linear(ca.DM(xi))), atol=0)
    np.testing.assert_allclose(bracket[3], 0, atol=0)
    np.testing.assert_allclose(column(se3.vee(bracket)), xi, atol=0)


@pytest.mark.row("003:M04")
@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-4, 1.0, 3.0, np.pi - 1e-6])
def test_exponential_and_logarithm_of_rotations(angle):
    w = angle * np.array([0.48, -0.6, 0.64])
    R = number(so3.exp(w))
    np.testing.assert_allclose(R, expm(number(so3.hat(w))), atol=2e-15)
    np.testing.assert_allclose(column(so3.log(R)), w, atol=1e-9 if angle > 3.1 else 1e-14)
    if 1e-6 < angle < 3.1:
        np.testing.assert_allclose(number(so3.hat(so3.log(R))), logm(R), atol=1e-12)


@pytest.mark.row("003:M06", "003:M09")
def test_rates_on_the_group_by_differences():
    """``dE/dt = E [phi]`` and ``dA/dt = A a(phi)``, ``d(A^-1)/dt = -a(phi) A^-1``, to second order in the step."""
    rng = np.random.default_rng(2)
    E, phi = random_pose(rng), rng.standard_normal(6)

    def differences(f, dt):
        ends = [f(se3.compose(E, se3.exp(s * dt * phi))) for s in (1, -1)]
        return (ends[0] - ends[1]) / (2 * dt)

    A, a = number(se3.adjoint(E)), number(se3.ad(phi))
    for f, exact in ((matrix, matrix(E) @ number(se3.hat(phi))), (lambda x: number(se3.adjoint(x)), A @ a),
                     (lambda x: np.linalg.inv(number(se3.adjoint(x))), -a @ np.linalg.inv(A))):
        errors = [np.abs(differences(f, dt) - exact).max() for dt in (1e-2, 5e-3)]
        assert errors[1] < 1e-3
        assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.02)


@pytest.mark.row("003:M09")
def test_the_spatial_cross_product_is_a_lie_bracket():
    rng = np.random.default_rng(3)
    x, y, z = rng.standard_normal((3, 6))

    def cross(m, n):
        return column(spatial.cross_motion(ca.DM(m), ca.DM(n)))

    np.testing.assert_allclose(cross(x, y), -cross(y, x), atol=1e-15)
    np.testing.assert_allclose(cross(x, cross(y, z)) + cross(y, cross(z, x)) + cross(z, cross(x, y)), 0, atol=1e-14)
    E = random_pose(rng)
    A = number(se3.adjoint(E))
    np.testing.assert_allclose(number(se3.ad(A @ x)), A @ number(se3.ad(x)) @ np.linalg.inv(A), atol=1e-13)
    np.testing.assert_allclose(number(se3.ad(x)) @ y, cross(x, y), atol=1e-15)
    # [x, y] as matrices
    X, Y = number(se3.hat(x)), number(se3.hat(y))
    np.testing.assert_allclose(number(se3.hat(cross(x, y))), X @ Y - Y @ X, atol=1e-14)


@pytest.mark.row("003:M10")
def test_newton_euler_of_a_free_body():
    """The tree's forward dynamics, the law about the centre of mass written out, and what it conserves."""
    rng = np.random.default_rng(4)
    inertia = random_inertia(rng)
    centred = BodyInertia(inertia.mass, (0.0, 0.0, 0.0), inertia.inertia)
    model, I = free_body(centred), np.array(inertia.inertia)
    q, v = alg.random_configuration(model, rng), rng.standard_normal(6)
    f = dynamics.make(model, "forward_dynamics")
    w, speed = column(spatial.angular(ca.DM(v))), column(spatial.linear(ca.DM(v)))
    a = ca.DM(f(q, v, np.zeros(6)))
    np.testing.assert_allclose(column(spatial.angular(a)), -np.linalg.solve(I, np.cross(w, I @ w)), atol=1e-12)
    np.testing.assert_allclose(column(spatial.linear(a)), -np.cross(w, speed), atol=1e-12)
    wrench = rng.standard_normal(6)
    M = spatial.inertia_matrix(spatial.inertia_from_com(inertia.mass, inertia.com, inertia.inertia))
    offset = dynamics.make(free_body(inertia), "forward_dynamics")
    np.testing.assert_allclose(column(offset(q, v, wrench)), column(free_body_acceleration(random_pose(rng), v, wrench, M)),
                               atol=1e-11)
    rate, momentum, energy = (ca.Function("f", [x, y], [g]) for x, y in [(ca.SX.sym("q", 7), ca.SX.sym("v", 6))] for g in (
        alg.rate_matrix(model, x) @ y, alg.momentum(model, x, y), alg.kinetic_energy(model, x, y)))
    run = solve_ivp(lambda t, s: np.r_[column(rate(s[:7], s[7:])), column(f(s[:7], s[7:], np.zeros(6)))], (0, 2),
                    np.r_[q, v], rtol=1e-11, atol=1e-12)
    for conserved in (momentum, energy):
        np.testing.assert_allclose(column(conserved(run.y[:7, -1], run.y[7:, -1])), column(conserved(q, v)), atol=1e-9)
    assert np.abs(run.y[7:, -1] - v).max() > 0.1


@pytest.mark.row("003:M11")
def test_gravity_is_a_body_wrench_with_a_potential_and_a_body_falls_as_it_must():
    rng = np.random.default_rng(5)
    inertia = random_inertia(rng)
    model = free_body(BodyInertia(inertia.mass, (0.0, 0.0, 0.0), inertia.inertia), tuple(GRAVITY))
    q = alg.random_configuration(model, rng)
    R = number(alg.frame_pose(model, q, "body").R)
    wrench = -column(dynamics.make(model, "gravity_force")(q))
    np.testing.assert_allclose(wrench, np.r_[R.T @ GRAVITY * inertia.mass, np.zeros(3)], atol=1e-13)
    move, V, h = dynamics.make(model, "integrate"), dynamics.make(model, "potential_energy"), 1e-5
    slope = [float(V(move(q, h * e)) - V(move(q, -h * e))) / (2 * h) for e in np.eye(6)]
    np.testing.assert_allclose(wrench, -np.array(slope), atol=1e-8)
    # a weight as a force of its own is the same wrench
    bare = free_body(BodyInertia(inertia.mass, (0.0, 0.0, 0.0), inertia.inertia))
    pull = PointForce("weight", Place("body"), tuple(inertia.mass * GRAVITY))
    np.testing.assert_allclose(column(pull.effort(bare, ca.DM(q), ca.DM(np.zeros(6)))), wrench, atol=1e-13)
    f, N = dynamics.make(model, "forward_dynamics"), ca.Function("N", [x := ca.SX.sym("q", 7)], [alg.rate_matrix(model, x)])
    v = rng.standard_normal(6)
    run = solve_ivp(lambda t, s: np.r_[number(N(s[:7])) @ s[7:], column(f(s[:7], s[7:], np.zeros(6)))], (0, 1),
                    np.r_[q, v], rtol=1e-10, atol=1e-11)
    thrown = q[:3] + R @ v[:3] + GRAVITY / 2
    np.testing.assert_allclose(run.y[:3, -1], thrown, atol=1e-8)


@pytest.mark.row("003:M16")
def test_semi_implicit_steps_of_a_spinning_body():
    """``M phi+ = M phi + h (...)``, ``E+ = E exp(h [phi+])``: first order in energy, and the pose stays one."""
    model = free_body(BodyInertia(1.0, (0.0, 0.0, 0.0), ((1.0, 0.0, 0.0), (0.0, 2.0, 0.0), (0.0, 0.0, 3.0))))
    f, move = dynamics.make(model, "forward_dynamics"), dynamics.make(model, "integrate")
    energy = dynamics.make(model, "kinetic_energy")
    start, drift, M = np.r_[1.0, 0.0, 0.0, 0.1, 2.0, 0.1], [], np.diag([1.0, 1.0, 1.0, 1.0, 2.0, 3.0])
    for n in (100, 1000):
        q, v, h = ca.DM(alg.neutral(model)), ca.DM(start), 1 / n
        for _ in range(n):
            push = M @ column(v) + h * column(-spatial.cross_force(v, ca.DM(M) @ v))
            v = v + h * f(q, v, ca.DM.zeros(6))
            np.testing.assert_allclose(M @ column(v), push, atol=1e-13)
            q = move(q, h * v)
        R = number(alg.frame_pose(model, q, "body").R)
        np.testing.assert_allclose(R.T @ R, np.eye(3), atol=1e-12)
        drift.append(float(energy(q, v)) / float(energy(q, start)) - 1)
    assert abs(drift[0]) == pytest.approx(4.57e-3, rel=0.01)
    assert abs(drift[1]) == pytest.approx(4.49e-4, rel=0.01)
