"""Problems with free durations, parameters and start states, most of them with a solution in closed form."""

from __future__ import annotations

import casadi as ca
import numpy as np
from control_problems import fixed, flat_system, function, minimum_time, problem

from ocp.problem import INF, At, Boundary, Cost, Duration, Guess, Phase


def constant(x, u, points=2):
    """A guess that stands still at x with constant controls."""
    return Guess(np.linspace(0, 1, points), np.tile(np.array(x, float), (points, 1)), np.tile(np.array(u, float), (points, 1)))


def cost(name, at, expression, nx, nu=1, np_=0, weights=None):
    return Cost(name, at, function(nx, nu, expression, np_), weights)


def particle_steering():
    """Thrust of constant size turned so that a height of 5 is reached soonest with (45, 0): 0.5545708783 (linear tangent law)."""
    system = flat_system("particle", ("x", "y", "vx", "vy"), ("angle",), lambda t, x, u, p: ca.vertcat(
        x[2], x[3], 100 * ca.cos(u[0]), 100 * ca.sin(u[0])))
    guess = Guess(np.array([0.0, 1.0]), np.array([[0.0, 0, 0, 0], [12, 5, 45, 0]]), np.array([[0.8], [-0.8]]))
    return problem(Phase("steer", system, Duration(0.1, 2.0, 0.6), guess, fixed(0, 0, 0, 0),
                         Boundary((0.0, 5.0, 45.0, 0.0), (False, True, True, True)), u_lower=(-np.pi / 2,), u_upper=(np.pi / 2,),
                         costs=(minimum_time(4),)))


def fast_pendulum():
    """th'' = u - sin th, |u| <= 1/2, from hanging to upright as soon as possible: 7.58668."""
    system = flat_system("pendulum", ("th", "w"), ("u",), lambda t, x, u, p: ca.vertcat(x[1], u[0] - ca.sin(x[0])))
    u = np.array([[0.5, 0.5, -0.5, -0.5, -0.5, 0.5, 0.5, 0.5, -0.2]]).T
    guess = Guess(np.linspace(0, 1, 9), np.zeros((9, 2)), u)
    return problem(Phase("swing", system, Duration(1.0, 20.0, 7.0), guess, fixed(0, 0), fixed(np.pi, 0), u_lower=(-0.5,),
                         u_upper=(0.5,), costs=(minimum_time(2),)))


def hurried_block(form):
    """Unit mass over unit distance from rest to rest: min T + 1/2 int u^2. With any control it is 18^(1/4) s; held controls are a
    little worse. form: how effort is written and where time is charged."""
    system = flat_system("block", ("x", "v"), ("u",), lambda t, x, u, p: ca.vertcat(x[1], u[0]))
    effort = {"scalar": cost("effort", At.PATH, lambda t, x, u, p: u[0]**2 / 2, 2),
              "residual": cost("effort", At.PATH, lambda t, x, u, p: u[0], 2, weights=(1.0,))}[form.split()[0]]
    time = {"final": minimum_time(2), "running": cost("time", At.PATH, lambda t, x, u, p: ca.SX(1), 2)}[form.split()[1]]
    return problem(Phase("move", system, Duration(0.3, 9.0, 1.0), constant((0, 0), (0.1,)), fixed(0, 0), fixed(1, 0),
                         costs=(effort, time)))


def held_effort(N):
    """Least ``1/2 int u^2`` for unit distance in unit time, rest to rest, with N held controls; T seconds cost T^-3 of it."""
    h, k = 1 / N, np.arange(N)
    A = np.vstack([h * h * (N - k - 0.5), np.full(N, h)])
    u = A.T @ np.linalg.solve(A @ A.T, [1.0, 0.0])
    return h * u @ u / 2


def late_start(a=2.0, goal=1.0, b=5.0, duration=3.0, lower=-INF):
    """x' = u with a free start: min a/2 (x(0) - goal)^2 + 1/2 int u^2 + b/2 x(T)^2. u = -b x0 / (1 + b T) is constant and
    x0 = a goal / (a + b / (1 + b T))."""
    system = flat_system("point", ("x",), ("u",), lambda t, x, u, p: u[0])
    costs = (cost("begin", At.START, lambda t, x, u, p: x[0] - goal, 1, weights=(a,)),
             cost("effort", At.PATH, lambda t, x, u, p: u[0], 1, weights=(1.0,)),
             cost("end", At.FINAL, lambda t, x, u, p: x[0], 1, weights=(b,)))
    return problem(Phase("slide", system, Duration(duration, duration, duration), constant((3.0,), (0.0,)),
                         Boundary((0.0,), (False,)), x_lower=(lower,), costs=costs))


def wind(w=4.0, r=3.0, upper=INF):
    """x' = p + u from 0: min r/2 p^2 + 1/2 int u^2 + w/2 (x(2) - 1)^2. Both push alike: with y = w (1 - x(2)),
    u = y and r p = 2 y."""
    system = flat_system("boat", ("x",), ("u",), lambda t, x, u, p: p[0] + u[0], ("wind",), (0.0,))
    costs = (cost("buy", At.START, lambda t, x, u, p: r / 2 * p[0]**2, 1, np_=1),
             cost("effort", At.PATH, lambda t, x, u, p: u[0], 1, np_=1, weights=(1.0,)),
             cost("end", At.FINAL, lambda t, x, u, p: x[0] - 1, 1, np_=1, weights=(w,)))
    return problem(Phase("sail", system, Duration(2.0, 2.0, 2.0), constant((0.0,), (0.0,)), fixed(0.0), costs=costs,
                         free_parameters=((0, -INF, upper),)))
