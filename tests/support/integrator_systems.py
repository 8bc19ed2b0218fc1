"""Systems with known solutions for tests of integrators, and how their steps are called with numbers."""

from __future__ import annotations

import casadi as ca
import numpy as np
from manifold_differences import columns, hessian
from shooting_problems import attitude

from dynamics.lie import quaternion
from ocp.integrators import INTEGRATORS
from ocp.problem import System
from ocp.spaces import euclidean, product


def symbols(nx, nu, kind=ca.SX):
    return kind.sym("t"), kind.sym("x", nx), kind.sym("u", nu), kind.sym("p", 0)


def system(space, nu, rate, name="test"):
    t, x, u, p = symbols(space.nx, nu)
    return System(name, space, tuple(f"u{i}" for i in range(nu)), ca.Function("rate", [t, x, u, p], [rate(t, x, u)]))


def step_function(sys, name, kind=ca.SX, cost=lambda t, x, u: 0):
    """(t, x, u, h) -> x_next, integral of the cost by the quadrature of the integrator."""
    t, x, u, p = symbols(sys.nx, sys.nu, kind)
    h = kind.sym("h")
    after, nodes = INTEGRATORS[name].advance(sys, t, x, u, p, h)
    integral = h * sum(w * cost(ti, xi, u) for w, ti, xi in nodes)
    return ca.Function("step", [t, x, u, h], [ca.densify(kind(after)), ca.densify(kind(integral))])


def stepper(sys, name, cost=lambda t, x, u: 0, kind=ca.SX):
    """The same with arrays."""
    function = step_function(sys, name, kind, cost)
    return lambda *args: [np.asarray(out).ravel() for out in function(*args)]


def integrate(step, x, u, duration, n):
    total, h = 0.0, duration / n
    for k in range(n):
        x, part = step(k * h, x, u, h)
        total += part[0]
    return x, total


def order(errors, counts):
    return -np.polyfit(np.log(counts), np.log(errors), 1)[0]


#: x' = x cos t + u exp(sin t): x(t) = exp(sin t) (x0 + u t)
SCALAR = system(euclidean(("x",)), 1, lambda t, x, u: x * ca.cos(t) + u * ca.exp(ca.sin(t)))
OSCILLATOR = system(euclidean(("q", "v")), 1, lambda t, x, u: ca.vertcat(x[1], u - 4 * x[0]))
PENDULUM = system(euclidean(("q", "v")), 1, lambda t, x, u: ca.vertcat(x[1], u - 9.81 * ca.sin(x[0])))


def scalar_error(name, n, cost=False):
    """Error of the state or of ``int x cos t dt`` on SCALAR after 2 s in n steps."""
    growth = np.exp(np.sin(2.0))
    if cost:
        step = stepper(SCALAR, name, lambda t, x, u: x * ca.cos(t))
        return abs(integrate(step, [0.7], [0.0], 2.0, n)[1] - 0.7 * (growth - 1))
    return abs(integrate(stepper(SCALAR, name), [0.7], [0.4], 2.0, n)[0][0] - growth * (0.7 + 0.4 * 2.0))


# ---- a free rigid body: attitude quaternion and body-frame angular velocity ---------------------------------------
INERTIA = (0.5, 0.5, 0.2)  # symmetric about the third body axis


def attitude_space():
    return product(attitude(), euclidean(("wx", "wy", "wz")))


def _body(t, x, u):
    w, inertia = x[4:], ca.DM(INERTIA)
    return ca.vertcat(w, (u - ca.cross(w, inertia * w)) / inertia)


TOP = system(attitude_space(), 3, _body)


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


def top_start(seed=3):
    q = np.random.default_rng(seed).normal(size=4)
    return np.r_[q / np.linalg.norm(q), 0.8, -0.5, 2.0]


def top_error(name, n):
    """Error of a tumbling body after 1.5 s in n steps, and the error of the length of its quaternion."""
    start = top_start()
    attitude, velocity = symmetric_top(start[:4], start[4:], 1.5)
    x, _ = integrate(stepper(TOP, name), start, np.zeros(3), 1.5, n)
    apart = np.r_[np.abs(x[:4] @ attitude) - 1, x[0] * attitude[1:] - attitude[0] * x[1:4] - np.cross(attitude[1:], x[1:4]),
                  x[4:] - velocity]
    return np.linalg.norm(apart), abs(np.linalg.norm(x[:4]) - 1)


# ---- derivatives of one step on its manifold -----------------------------------------------------------------------
def derivatives(sys, name, kind, x, u, h, weights):
    """minus(step, step(x [+] dx, u + du)): its Jacobian in (dx, du), and the Hessian of its product with weights."""
    n, z = sys.space.ndx, kind.sym("z", sys.space.ndx + sys.nu)
    t, xs, us, p = (kind.sym(s, size) for s, size in zip("txup", (1, sys.nx, sys.nu, 0), strict=True))
    after = INTEGRATORS[name].step(sys, t, sys.space.jet(xs, z[:n]), us + z[n:], p, h)
    there = kind.sym("there", sys.nx)
    change = sys.space.minus(there, after)
    step = step_function(sys, name, kind)(0.1, x, u, h)[0]
    function = ca.Function("derivatives", [t, xs, us, p, z, there], [
        ca.densify(ca.jacobian(change, z)), ca.densify(ca.hessian(ca.dot(ca.DM(weights), change), z)[0])])
    return [np.array(out) for out in function(0.1, x, u, [], np.zeros(n + sys.nu), step)]


def manifold(name, sys):
    """``plus`` or ``minus`` of the state space for numbers."""
    size = sys.space.ndx if name == "plus" else sys.nx
    a, b = ca.SX.sym("a", sys.nx), ca.SX.sym("b", size)
    function = ca.Function(name, [a, b], [getattr(sys.space, name)(a, b)])
    return lambda *values: np.array(function(*values)).ravel()


def by_differences(sys, name, kind, x, u, h, weights):
    """The same Jacobian and Hessian by differences along the manifold."""
    step, plus, minus = stepper(sys, name, kind=kind), manifold("plus", sys), manifold("minus", sys)
    after = step(0.1, x, u, h)[0]

    def change(x, u):
        return minus(after, step(0.1, x, u, h)[0])

    n = sys.space.ndx
    return columns(change, plus, x, u, n), hessian(lambda x, u: weights @ change(x, u), plus, x, u, n, step=1e-3)
