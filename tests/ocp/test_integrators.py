"""One-step maps: measured order against closed forms, on vector spaces and with a quaternion in the state."""

import casadi as ca
import numpy as np
import pytest

from dynamics.lie import quaternion
from ocp.errors import ProblemError
from ocp.integrators import INTEGRATORS, project
from ocp.problem import System
from ocp.spaces import Space, euclidean


def symbols(nx, nu):
    return ca.SX.sym("t"), ca.SX.sym("x", nx), ca.SX.sym("u", nu), ca.SX.sym("p", 0)


def system(space, nu, rate, name="test"):
    t, x, u, p = symbols(space.nx, nu)
    return System(name, space, tuple(f"u{i}" for i in range(nu)), ca.Function("rate", [t, x, u, p], [rate(t, x, u)]))


def stepper(sys, name, cost=lambda t, x, u: ca.SX(0)):
    """step(t, x, u, h) -> (x_next, integral of the cost by the quadrature of the integrator)."""
    t, x, u, p = symbols(sys.nx, sys.nu)
    h = ca.SX.sym("h")
    after, nodes = INTEGRATORS[name].advance(sys, t, x, u, p, h)
    integral = h * sum(w * cost(ti, xi, u) for w, ti, xi in nodes)
    function = ca.Function("step", [t, x, u, h], [after, integral])
    return lambda *args: [np.asarray(out).ravel() for out in function(*args)]


def integrate(step, x, u, duration, n):
    total, h = 0.0, duration / n
    for k in range(n):
        x, part = step(k * h, x, u, h)
        total += part[0]
    return x, total


def order(errors, counts):
    return -np.polyfit(np.log(counts), np.log(errors), 1)[0]


# x' = x cos t + u exp(sin t): x(t) = exp(sin t) (x0 + u t)
SCALAR = system(euclidean(("x",)), 1, lambda t, x, u: x * ca.cos(t) + u * ca.exp(ca.sin(t)))


@pytest.mark.parametrize("name", ["euler", "midpoint", "rk4"])
def test_order_of_the_state_on_a_time_varying_system(name):
    step, counts = stepper(SCALAR, name), np.array([16, 32, 64, 128])
    exact = np.exp(np.sin(2.0)) * (0.7 + 0.4 * 2.0)
    errors = [abs(integrate(step, [0.7], [0.4], 2.0, n)[0][0] - exact) for n in counts]
    assert order(errors, counts) == pytest.approx(INTEGRATORS[name].order, abs=0.12)


@pytest.mark.parametrize("name", ["euler", "midpoint", "rk4"])
def test_running_costs_are_integrated_to_the_same_order(name):
    # int x cos t dt with x = x0 exp(sin t) is x0 (exp(sin T) - 1)
    step, counts = stepper(SCALAR, name, lambda t, x, u: x * ca.cos(t)), np.array([16, 32, 64, 128])
    exact = 0.7 * (np.exp(np.sin(2.0)) - 1)
    errors = [abs(integrate(step, [0.7], [0.0], 2.0, n)[1] - exact) for n in counts]
    assert order(errors, counts) == pytest.approx(INTEGRATORS[name].order, abs=0.2)


OSCILLATOR = system(euclidean(("q", "v")), 1, lambda t, x, u: ca.vertcat(x[1], u - 4 * x[0]))


def test_semi_implicit_euler_has_order_one_and_keeps_its_invariant():
    step, counts = stepper(OSCILLATOR, "semi_implicit_euler"), np.array([64, 128, 256])
    # about the equilibrium u/4: q = u/4 + (q0 - u/4) cos 2t
    exact = 0.05 + (1 - 0.05) * np.cos(2 * 1.7)
    errors = [abs(integrate(step, [1.0, 0.0], [0.2], 1.7, n)[0][0] - exact) for n in counts]
    assert order(errors, counts) == pytest.approx(1, abs=0.15)
    # the modified energy v^2 + w^2 q^2 - h w^2 q v of the symplectic Euler oscillator is an exact invariant
    x, h = np.array([1.0, 0.3]), 0.05

    def invariant(s):
        return s[1] ** 2 + 4 * s[0] ** 2 - h * 4 * s[0] * s[1]

    start = invariant(x)
    for k in range(500):
        x, _ = step(k * h, x, [0.0], h)
    assert invariant(x) == pytest.approx(start, rel=1e-12)


def test_semi_implicit_euler_refuses_states_that_are_not_q_v():
    with pytest.raises(ProblemError, match="second-order state"):
        INTEGRATORS["semi_implicit_euler"].check(SCALAR)
    swapped = system(euclidean(("v", "q")), 1, lambda t, x, u: ca.vertcat(u, x[0]), name="swapped")
    with pytest.raises(ProblemError, match=r"'swapped'.*rate of 'v' to be 'q'"):
        INTEGRATORS["semi_implicit_euler"].check(swapped)
    INTEGRATORS["semi_implicit_euler"].check(OSCILLATOR)


# ---- a free rigid body: attitude quaternion and body-frame angular velocity ---------------------------------------
INERTIA = (0.5, 0.5, 0.2)  # symmetric about the third body axis


def attitude_space():
    names = ("qw", "qx", "qy", "qz", "wx", "wy", "wz")

    def jet(x, d):
        # q (1 - |d|^2/8, d/2): the exponential to second order
        moved = quaternion.product(x[:4], ca.vertcat(1 - ca.dot(d[:3], d[:3]) / 8, d[:3] / 2))
        return ca.vertcat(moved, x[4:] + d[3:])

    return Space(
        names=names, tangent_names=("rx", "ry", "rz", "wx", "wy", "wz"),
        plus=lambda x, d: ca.vertcat(quaternion.integrate(x[:4], d[:3]), x[4:] + d[3:]),
        minus=lambda a, b: ca.vertcat(quaternion.difference(a[:4], b[:4]), b[4:] - a[4:]),
        rate=lambda x: ca.diagcat(quaternion.rate_map(x[:4]), ca.DM.eye(3)),
        rate_inverse=lambda x: ca.diagcat(quaternion.rate_map_inverse(x[:4]), ca.DM.eye(3)),
        jet=jet, neutral=(1.0, 0, 0, 0, 0, 0, 0), tangent_index=(-1,) * 4 + (3, 4, 5), quaternions=(0,))


def body(t, x, u):
    w, inertia = x[4:], ca.DM(INERTIA)
    return ca.vertcat(w, (u - ca.cross(w, inertia * w)) / inertia)


TOP = system(attitude_space(), 3, body)


def turn(axis, angle):
    return np.r_[np.cos(angle / 2), np.sin(angle / 2) * np.asarray(axis)]


def multiply(a, b):
    return np.asarray(quaternion.product(a, b)).ravel()


def symmetric_top(q, w, t):
    """Torque-free symmetric top (Landau, Lifshitz, Mechanics, section 33): spin about the body axis, precession about L."""
    I1, I3 = INERTIA[0], INERTIA[2]
    L = np.asarray(quaternion.rotate(q, np.array(INERTIA) * w)).ravel()
    size = np.linalg.norm(L)
    spin = w[2] * (1 - I3 / I1)
    attitude = multiply(multiply(turn(L / size, size / I1 * t), q), turn([0, 0, 1], spin * t))
    c, s = np.cos(spin * t), np.sin(spin * t)
    return attitude, np.array([c * w[0] + s * w[1], -s * w[0] + c * w[1], w[2]])


@pytest.mark.parametrize("name", ["euler", "semi_implicit_euler", "midpoint", "rk4"])
def test_order_on_a_tumbling_body(name):
    if name == "semi_implicit_euler":
        INTEGRATORS[name].check(TOP)
    rng = np.random.default_rng(3)
    q = rng.normal(size=4)
    q, w = q / np.linalg.norm(q), np.array([0.8, -0.5, 2.0])
    step, counts = stepper(TOP, name), np.array([50, 100, 200])
    attitude, velocity = symmetric_top(q, w, 1.5)
    errors = []
    for n in counts:
        x, _ = integrate(step, np.r_[q, w], np.zeros(3), 1.5, n)
        assert np.linalg.norm(x[:4]) == pytest.approx(1, abs=1e-14)
        errors.append(np.linalg.norm(np.r_[np.abs(x[:4] @ attitude) - 1, np.cross(x[1:4], attitude[1:]), x[4:] - velocity]))
    assert order(errors, counts) == pytest.approx(INTEGRATORS[name].order, abs=0.15)


def test_project_scales_quaternions_only():
    x = np.r_[2.0, 0, 0, 0, 5.0, 6.0, 7.0]
    assert np.asarray(project(TOP.space, ca.DM(x))).ravel() == pytest.approx([1, 0, 0, 0, 5, 6, 7])
