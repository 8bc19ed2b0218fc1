"""Small optimal-control problems with known solutions, built by hand."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import numpy as np
from scipy.integrate import solve_ivp

from ocp.app.files.load import load_text
from ocp.problem import INF, At, Boundary, Constraint, Cost, Duration, Guess, Phase, Problem, System, Trajectory
from ocp.spaces import euclidean


def function(nx, nu, expression, np_=0):
    """CasADi Function of (t, x, u, p) from a Python function of the same."""
    t, x, u, p = ca.SX.sym("t"), ca.SX.sym("x", nx), ca.SX.sym("u", nu), ca.SX.sym("p", np_)
    return ca.Function("function", [t, x, u, p], [expression(t, x, u, p)], ["t", "x", "u", "p"], ["y"])


def flat_system(name, states, controls, rate, parameters=(), values=()):
    return System(name=name, space=euclidean(states), controls=controls, parameters=parameters, parameter_values=values,
                  rate=function(len(states), len(controls), rate, len(parameters)))


def line(first, last, controls, points=2):
    """Guess on a straight line with controls at zero."""
    return Guess(np.linspace(0, 1, points), np.linspace(first, last, points), np.zeros((points, controls)))


def fixed(*value):
    """A boundary with every component prescribed."""
    return Boundary(tuple(map(float, value)), (True,) * len(value))


def problem(phase):
    return Problem(phase.name, (phase,))


def continued(earlier, solution, points=401):
    """The problem with a solution as its guess."""
    s = np.linspace(0, 1, points)
    path, end = solution.trajectory, solution.trajectory.t[-1]
    phase = earlier.phase
    duration = replace(phase.duration, guess=end)
    return problem(replace(phase, duration=duration, guess=Guess(s, path.state(end * s), path.control(end * s))))


def control_effort(nx):
    return Cost("effort", At.PATH, function(nx, 1, lambda t, x, u, p: u[0] ** 2))


def block_move(duration=1.0):
    """Unit mass from rest to rest over unit distance, min int u^2: u = 6 - 12 t, x = 3 t^2 - 2 t^3, objective 12."""
    system = flat_system("block", ("x", "v"), ("u",), lambda t, x, u, p: ca.vertcat(x[1], u[0]))
    return problem(Phase("block move", system, Duration(duration, duration, duration), line([0, 0], [1, 0], 1),
                         fixed(0, 0), fixed(1, 0), costs=(control_effort(2),)))


def minimum_time(nx):
    return Cost("time", At.FINAL, function(nx, 1, lambda t, x, u, p: t))


def bang_bang():
    """The same move in minimum time with |u| <= 1: two seconds."""
    system = flat_system("block", ("x", "v"), ("u",), lambda t, x, u, p: ca.vertcat(x[1], u[0]))
    return problem(Phase("bang bang", system, Duration(0.1, 10.0, 1.5), line([0, 0], [1, 0], 1), fixed(0, 0), fixed(1, 0),
                         u_lower=(-1.0,), u_upper=(1.0,), costs=(minimum_time(2),)))


def brachistochrone():
    """Fastest slide from (0, 0) to 2 m across and 2 m down with g = 9.81: 0.82433867 s."""
    system = flat_system("bead", ("x", "y", "v"), ("angle",), lambda t, x, u, p: ca.vertcat(
        x[2] * ca.sin(u[0]), x[2] * ca.cos(u[0]), 9.81 * ca.cos(u[0])))
    guess = Guess(np.array([0.0, 1.0]), np.array([[0.0, 0, 0], [2, 2, 6]]), np.array([[0.3], [1.0]]))
    return problem(Phase("brachistochrone", system, Duration(0.1, 5.0, 1.0), guess, fixed(0, 0, 0),
                         Boundary((2.0, 2.0, 0.0), (True, True, False)), u_lower=(0.0,), u_upper=(np.pi,),
                         costs=(minimum_time(3),)))


def cart_pole_rate(t, x, u, p):
    """Kelly 2017, Sec. 6: q = (cart position, pole angle from hanging)."""
    m1, m2, length, g = 1.0, 0.3, 0.5, 9.81
    s, c, w, force = ca.sin(x[1]), ca.cos(x[1]), x[3], u[0]
    return ca.vertcat(
        x[2], x[3],
        (length * m2 * s * w**2 + force + m2 * g * c * s) / (m1 + m2 * (1 - c**2)),
        -(length * m2 * c * s * w**2 + force * c + (m1 + m2) * g * s) / (length * m1 + length * m2 * (1 - c**2)))


def cart_pole():
    """Swing-up of Kelly 2017, Sec. 6: 1 m to the side in 2 s, min int F^2."""
    system = flat_system("cart-pole", ("cart", "pole", "cart_rate", "pole_rate"), ("force",), cart_pole_rate)
    return problem(Phase("swing-up", system, Duration(2.0, 2.0, 2.0), line([0, 0, 0, 0], [1, np.pi, 0, 0], 1),
                         fixed(0, 0, 0, 0), fixed(1, np.pi, 0, 0),
                         x_lower=(-2.0, -INF, -INF, -INF), x_upper=(2.0, INF, INF, INF), u_lower=(-20.0,), u_upper=(20.0,),
                         costs=(control_effort(4),)))


def inverse_cubic(y):
    """z with z + z^3 = y, by Cardano."""
    root = np.sqrt(y**2 / 4 + 1 / 27)
    return np.cbrt(y / 2 + root) + np.cbrt(y / 2 - root)


def cubic(**changes):
    """x' = -x + z, 0 = z + z^3 - x - u, with the cost z^2 + u^2, from 1 to 0.2 in two seconds."""
    system = System("cubic", euclidean(("x",)), ("u",), function(1, 2, lambda t, x, w, p: -x + w[1]), algebraic=("z",),
                    residual=function(1, 2, lambda t, x, w, p: w[1] + w[1]**3 - x - w[0]), equations=("valve",))
    phase = Phase("way", system, Duration(2, 2, 2), Guess(np.array([0.0, 1.0]), np.array([[1.0], [0.0]]), np.zeros((2, 2))),
                  start=fixed(1), final=fixed(0.2),
                  costs=(Cost("effort", At.PATH, function(1, 2, lambda t, x, w, p: w[1]**2 + w[0]**2)),))
    return Problem("cubic", (replace(phase, **changes),))


def end_of(found, rate):
    """Where the controls of a solution lead by a rate of our own, from its start."""
    path = found.trajectory
    ran = solve_ivp(lambda t, x: rate(t, x, path.control(t)), (path.t[0], path.t[-1]), path.x[0], rtol=1e-9, atol=1e-9,
                    max_step=0.01)
    return ran.y[:, -1]


def moved(path, dx=0.0, du=0.0, stretch=1.0):
    """The trajectory with states and controls shifted in the middle, or run at another speed."""
    begin, length = path.t[0], path.t[-1] - path.t[0]

    def bump(t):
        return np.sin(np.pi * (np.asarray(t) - begin) / length)[..., None]

    def back(t):
        return begin + (np.asarray(t) - begin) / stretch

    def on(t):
        return None if t is None else begin + (t - begin) * stretch

    return Trajectory(on(path.t), path.x + bump(path.t) * dx, path.u + bump(path.t_u) * du, on(path.t_u),
                      lambda t: path.state(back(t)) + bump(back(t)) * dx, lambda t: path.control(back(t)) + bump(back(t)) * du,
                      on(path.t_path))


def centred_disc():
    """A disc whose centre the straight guess meets: the gradient of the distance is not a number there."""
    system = flat_system("point", ("x", "y"), ("u", "w"), lambda t, x, u, p: u)
    clear = Constraint("disc", At.PATH, function(2, 2, lambda t, x, u, p: ca.norm_2(x - ca.DM([0.5, 0.0]))), (0.2,), (INF,))
    effort = Cost("effort", At.PATH, function(2, 2, lambda t, x, u, p: ca.sumsqr(u)))
    guess = Guess(np.array([0.0, 1.0]), np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([[1.0, 0.0], [1.0, 0.0]]))
    return problem(Phase("phase", system, Duration(1.0, 1.0, 1.0), guess, fixed(0, 0), fixed(1, 0),
                               costs=(effort,), constraints=(clear,)))


def one_state(cost, bounds="{}", start="{x: 0}", dynamics="u", duration=1.0):
    return load_text(f"""
name: one state
system: {{states: {{x: m}}, controls: {{u: m/s}}, dynamics: {{x: {dynamics!r}}}}}
phase: {{duration: {duration}, start: {start}, bounds: {bounds}, costs: [{{name: c, running: "{cost}"}}]}}
""").problem
