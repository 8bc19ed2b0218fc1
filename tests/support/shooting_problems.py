"""Small problems for tests of shooting methods, written down directly, without files or robot models."""

import casadi as ca
import numpy as np

from dynamics import algorithms as alg
from dynamics.lie import quaternion
from ocp.bridge import robot_system
from ocp.methods import make_options
from ocp.problem import INF, At, Boundary, Cost, Duration, Guess, Phase, Problem, System
from ocp.spaces import Space, euclidean, product


def symbols(nx, nu):
    return ca.SX.sym("t"), ca.SX.sym("x", nx), ca.SX.sym("u", nu), ca.SX.sym("p", 0)


def function(nx, nu, build, name="f"):
    """A Function of (t, x, u, p) from build(t, x, u)."""
    t, x, u, p = symbols(nx, nu)
    return ca.Function(name, [t, x, u, p], [ca.densify(ca.SX(build(t, x, u)))])


def options(**more):
    """Options that compile nothing."""
    return make_options("ilqr", {"kernels": "interpreted", **more})


def reset(expression, nx, np_=0):
    x, p = ca.SX.sym("x", nx), ca.SX.sym("p", np_)
    return ca.Function("reset", [x, p], [expression(x, p)])


def held(duration):
    return Duration(duration, duration, duration)


def make(name, space, controls, rate, start, duration, *, running=(), final=(), u_max=INF, u_guess=None, x_guess=None,
         **more):
    """A one-phase problem with complete fixed start. running, final: (name, build, weights or None)."""
    nx, nu = space.nx, len(controls)
    costs = [Cost(n, at, function(nx, nu, build), weights=w)
             for at, given in ((At.PATH, running), (At.FINAL, final)) for n, build, w in given]
    u_guess = np.zeros((2, nu)) if u_guess is None else np.asarray(u_guess, float)
    s = np.linspace(0, 1, len(u_guess))
    phase = Phase(
        "move", System(name, space, tuple(controls), function(nx, nu, rate, "rate")), Duration(duration, duration, duration),
        Guess(s, np.tile(np.asarray(start, float), (len(s), 1)), u_guess),
        start=Boundary(tuple(map(float, start)), (True,) * space.ndx), costs=tuple(costs),
        u_lower=(-u_max,) * nu, u_upper=(u_max,) * nu, **more)
    return Problem(name, (phase,))


def coupled(system, seed=5, duration=0.4, final=(), s=(0.0, 1.0)):
    """A system, often a robot, from a random state under random controls; costs that couple everything, time and controls
    included. final: costs at the end; s: where the guess is given."""
    rng, nx, nu = np.random.default_rng(seed), system.nx, system.nu
    x0 = rng.normal(size=nx) if system.model is None else np.r_[alg.random_configuration(system.model, rng),
                                                                rng.normal(size=system.model.nv)]
    a, b = ca.DM(rng.normal(size=nx)), ca.DM(rng.normal(size=nu))
    costs = (
        Cost("coupled", At.PATH, function(nx, nu, lambda t, x, u: ca.sin(ca.dot(a, x) + t) * (1 + ca.dot(b, u)) + x[0]**2 * x[1])),
        Cost("residual", At.PATH, function(nx, nu, lambda t, x, u: ca.vertcat(u, ca.cos(x[nx - 1]) * x[0], x[1] * ca.sum1(u))),
             weights=tuple(rng.uniform(0.5, 1, nu + 2))))
    guess = Guess(np.array(s), np.tile(x0, (2, 1)), rng.normal(size=(2, nu)))
    return Problem("robot", (Phase("move", system, duration if isinstance(duration, Duration) else held(duration), guess,
                                   start=Boundary(tuple(x0), (True,) * system.space.ndx), costs=(*costs, *final)),))


def towards(model, duration, seed, weight=10.0, **more):
    """A robot from its neutral configuration at rest towards one nearby, by cost."""
    system = robot_system(model, **more)
    nx, nu, nv = system.nx, system.nu, model.nv
    x0 = np.r_[alg.neutral(model), np.zeros(nv)]
    goal = np.array(alg.integrate(model, x0[:model.nq], np.random.default_rng(seed).uniform(-0.2, 0.2, nv))).ravel()
    costs = (Cost("effort", At.PATH, function(nx, nu, lambda t, x, u: u), weights=(1e-1,) * nu),
             Cost("calm", At.PATH, function(nx, nu, lambda t, x, u: x[nx - nv:]), weights=(0.1,) * nv),
             Cost("goal", At.FINAL, function(nx, nu, lambda t, x, u: system.space.minus(ca.DM(np.r_[goal, np.zeros(nv)]), x)),
                  weights=(weight,) * nv + (1.0,) * nv))
    guess = Guess(np.array([0.0, 1.0]), np.tile(x0, (2, 1)), 0.1 * np.ones((2, nu)))
    return Problem(model.name, (Phase("move", system, held(duration), guess, start=Boundary(tuple(x0), (True,) * (2 * nv)),
                                      costs=costs),))


def double_integrator(**more):
    """x'' = u with quadratic costs that do not vanish at the start."""
    return make("double integrator", euclidean(("q", "v")), ("a",), lambda t, x, u: ca.vertcat(x[1], u), (1.0, -0.5), 2.0,
                running=[("state", lambda t, x, u: 0.7 * x[0] ** 2 + 0.2 * x[1] ** 2 + 0.3 * x[0], None),
                         ("effort", lambda t, x, u: u, (0.5,))],
                final=[("end", lambda t, x, u: x - ca.DM([0.2, 0.1]), (10.0, 4.0))], **more)


def pendulum(u_max=2.5, duration=5.0, weight=200.0, **more):
    """Torque-limited pendulum (m = l = 1, g = 9.81), from hanging to upright, too weak to go straight up."""
    return make("pendulum", euclidean(("theta", "omega")), ("torque",),
                lambda t, x, u: ca.vertcat(x[1], u - 9.81 * ca.sin(x[0]) - 0.05 * x[1]), (0.0, 0.0), duration,
                running=[("effort", lambda t, x, u: u, (0.1,))],
                final=[("upright", lambda t, x, u: x - ca.DM([np.pi, 0]), (weight, weight))], u_max=u_max, **more)


def cart_pole(weight=1000.0, **more):
    """Cart-pole swing-up in 2 s: Kelly 2017, "An introduction to trajectory optimization", Eqs. 6.1 and 6.2."""
    m1, m2, l, g = 1.0, 0.3, 0.5, 9.81

    def rate(t, x, u):
        s, c, w = ca.sin(x[1]), ca.cos(x[1]), x[3]
        cart = (l * m2 * s * w**2 + u + m2 * g * c * s) / (m1 + m2 * (1 - c**2))
        pole = -(l * m2 * c * s * w**2 + u * c + (m1 + m2) * g * s) / (l * m1 + l * m2 * (1 - c**2))
        return ca.vertcat(x[2], x[3], cart, pole)

    return make("cart-pole", euclidean(("q1", "q2", "dq1", "dq2")), ("force",), rate, (0.0,) * 4, 2.0,
                running=[("effort", lambda t, x, u: u, (2.0,))],
                final=[("goal", lambda t, x, u: x - ca.DM([1, np.pi, 0, 0]), (weight,) * 4)], **more)


def attitude():
    """Rotations as unit quaternions, with rotation vectors in body axes as tangents."""
    return Space(
        names=("qw", "qx", "qy", "qz"), tangent_names=("rx", "ry", "rz"), plus=quaternion.integrate, minus=quaternion.difference,
        rate=quaternion.rate_map, rate_inverse=quaternion.rate_map_inverse,
        # q (1 - |d|^2 / 8, d / 2) is q exp(d) up to second order
        jet=lambda q, d: quaternion.product(q, ca.vertcat(1 - ca.dot(d, d) / 8, d / 2)),
        neutral=(1.0, 0.0, 0.0, 0.0), tangent_index=(-1,) * 4, quaternions=(0,))


def body_space():
    """Position in the world, attitude, velocity in the world, angular velocity in the body."""
    return product(product(euclidean(("x", "y", "z")), attitude()), euclidean(("vx", "vy", "vz", "wx", "wy", "wz")))


def quadrotor(**more):
    """A quadrotor brought from a tilted, moving start to hover at a turned pose: thrust and three moments."""
    mass, inertia, target = 0.5, ca.DM([2.3e-3, 2.3e-3, 4e-3]), np.array([np.cos(0.4), 0, 0, np.sin(0.4)])

    def rate(t, x, u):
        thrust = quaternion.rotate(x[3:7], ca.vertcat(0, 0, u[0])) / mass
        spin = (1e-2 * u[1:] - ca.cross(x[10:], inertia * x[10:])) / inertia
        return ca.vertcat(x[7:10], x[10:], thrust - ca.DM([0, 0, 9.81]), spin)

    def error(t, x, u):
        return ca.vertcat(x[:3] - ca.DM([0.5, -0.3, 1.0]), quaternion.difference(ca.DM(target), x[3:7]), x[7:])

    tilt = np.array([np.cos(0.3), np.sin(0.3) * 0.6, np.sin(0.3) * 0.8, 0])
    hover = mass * 9.81
    return make("quadrotor", body_space(), ("thrust", "mx", "my", "mz"), rate,
                (0, 0, 0, *tilt, 0.2, 0, 0, 0.3, -0.2, 0.5), 1.5,
                running=[("pose", error, (1.0,) * 12),
                         ("effort", lambda t, x, u: u - ca.DM([hover, 0, 0, 0]), (0.1,) * 4)],
                final=[("arrive", error, (100.0,) * 12)], u_guess=np.tile([hover, 0, 0, 0], (2, 1)), **more)
