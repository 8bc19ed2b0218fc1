"""Optimal-control problems for the direct methods: closed forms, published values, free bodies."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import numpy as np
from control_problems import fixed, flat_system, function, line, problem

from dynamics.model import read_urdf
from ocp.bridge import model_space
from ocp.certify import Tolerances
from ocp.methods import solve
from ocp.problem import INF, At, Boundary, Constraint, Cost, Duration, Guess, Phase, Problem, Sense, Status, System

BODY = """<robot name="body"><link name="body"><inertial><mass value="2.0"/>
<inertia ixx="1" iyy="2" izz="3" ixy="0" ixz="0" iyz="0"/></inertial></link></robot>"""
INERTIA = np.array([1.0, 2.0, 3.0])
MASS = 2.0


def held(seconds):
    return Duration(seconds, seconds, seconds)


def reset(expression, nx, np_=0):
    x, p = ca.SX.sym("x", nx), ca.SX.sym("p", np_)
    return ca.Function("reset", [x, p], [ca.densify(expression(x, p))])


def linkage_function(expression, sizes, phases=1, np_=0):
    """Function of (states of the ends in order, durations, parameters)."""
    states = [ca.SX.sym(f"x{i}", n) for i, n in enumerate(sizes)]
    T, p = ca.SX.sym("T", phases), ca.SX.sym("p", np_)
    return ca.Function("link", [*states, T, p], [expression(*states, T, p)])


# --- a free body -------------------------------------------------------------------------------------------------

def body_system(inertia=INERTIA):
    """A free body of 2 kg without weight: x = (position, attitude, body velocity, body rates), six controls are the body wrench."""
    space = model_space(read_urdf(BODY, root="free_flyer"))

    def rate(t, x, u, p):
        v, w = x[7:10], x[10:13]
        return ca.vertcat(v, w, u[:3] / MASS - ca.cross(w, v), (u[3:] - ca.cross(w, ca.DM(inertia) * w)) / ca.DM(inertia))

    return System(name="body", space=space, controls=("fx", "fy", "fz", "mx", "my", "mz"), rate=function(13, 6, rate))


def attitude(turn):
    """Unit quaternion (w, x, y, z) of a rotation vector."""
    angle = float(np.linalg.norm(turn))
    return np.r_[np.cos(angle / 2), np.sinc(angle / 2 / np.pi) / 2 * np.asarray(turn, float)]


def pose(position=(0, 0, 0), turn=(0, 0, 0), velocity=(0,) * 6):
    return (*map(float, position), *attitude(turn), *map(float, velocity))


def body_transfer(position=(0.5, -0.3, 0.2), turn=(1.2, -0.8, 0.9), inertia=INERTIA, duration=1.0, guess=None, **more):
    """From rest to rest, min 1/2 int |wrench|^2."""
    system = body_system(inertia)
    first, last = pose(), pose(position, turn)
    effort = Cost("effort", At.PATH, function(13, 6, lambda t, x, u, p: u), weights=(1.0,) * 6)
    given = {"start": Boundary(first, (True,) * 12), "final": Boundary(last, (True,) * 12), "costs": (effort,), **more}
    guess = guess or Guess(np.array([0.0, 1.0]), np.array([first, last]), np.zeros((2, 6)))
    return problem(Phase("transfer", system, held(duration), guess, **given))


# --- linear-quadratic --------------------------------------------------------------------------------------------

A, B = np.array([[0.0, 1.0], [-2.0, 0.3]]), np.array([[0.0], [1.5]])
Q, R, S = np.diag([3.0, 1.0]), np.array([[0.7]]), np.diag([2.0, 0.5])
X0, HORIZON = np.array([1.0, -0.6]), 1.6


def regulator(duration=HORIZON):
    """x' = A x + B u, min 1/2 int x'Qx + u'Ru + 1/2 x(T)'S x(T), from X0."""
    system = flat_system("plant", ("a", "b"), ("u",), lambda t, x, u, p: ca.DM(A) @ x + ca.DM(B) @ u)
    run = Cost("run", At.PATH, function(2, 1, lambda t, x, u, p: (x.T @ ca.DM(Q) @ x + u.T @ ca.DM(R) @ u) / 2))
    end = Cost("end", At.FINAL, function(2, 1, lambda t, x, u, p: x.T @ ca.DM(S) @ x / 2))
    return problem(Phase("regulate", system, held(duration), line(X0, [0, 0], 1), start=fixed(*X0), costs=(run, end)))


def regulated(t, duration=HORIZON):
    """States and costates [k, 2] of the regulator by the Hamiltonian matrix: p(t) = P(t) x(t); and the least cost."""
    from scipy.linalg import expm

    H = np.block([[A, -B @ np.linalg.solve(R, B.T)], [-Q, -A.T]])

    def to_the_end(s):
        E = expm(H * (duration - s))
        return np.linalg.solve(S @ E[:2, 2:] - E[2:, 2:], E[2:, :2] - S @ E[:2, :2])

    P = to_the_end(0.0)
    both = np.array([expm(H * s) @ np.r_[X0, P @ X0] for s in np.atleast_1d(t)])
    return both[:, :2], both[:, 2:], float(X0 @ P @ X0 / 2)


# --- published ---------------------------------------------------------------------------------------------------

def goddard():
    """COPS 3.0, problem 9: highest point of a rocket."""
    def rate(t, x, u, p):
        h, v, m = ca.vertsplit(x)
        drag = 310 * v**2 * ca.exp(-500 * (h - 1))
        return ca.vertcat(v, (u[0] - drag) / m - 1 / h**2, -2 * u[0])

    system = flat_system("rocket", ("h", "v", "m"), ("thrust",), rate)
    guess = Guess(np.array([0.0, 1.0]), np.array([[1, 0, 1], [1.01, 0.05, 0.6]]), np.full((2, 1), 1.75))
    return problem(Phase("rise", system, Duration(0.05, 1.0, 0.2), guess, fixed(1, 0, 1),
                         Boundary((0, 0, 0.6), (False, False, True)), x_lower=(1.0, 0.0, 0.6), x_upper=(INF, INF, 1.0),
                         u_lower=(0.0,), u_upper=(3.5,),
                         costs=(Cost("height", At.FINAL, function(3, 1, lambda t, x, u, p: -x[0])),)))


def hanging_chain():
    """COPS 3.0, problem 4, its length an integral constraint."""
    system = flat_system("chain", ("x",), ("u",), lambda t, x, u, p: u)
    energy = Cost("energy", At.PATH, function(1, 1, lambda t, x, u, p: x[0] * ca.sqrt(1 + u[0] ** 2)))
    stretch = function(1, 1, lambda t, x, u, p: ca.sqrt(1 + u[0] ** 2))
    length = Constraint("length", At.INTEGRAL, stretch, (4.0,), (4.0,), Sense.EQUAL)
    guess = Guess(np.array([0, 0.5, 1.0]), np.array([[1.0], [-0.5], [3.0]]), np.array([[-4.0], [2.0], [8.0]]))
    return problem(Phase("hang", system, held(1.0), guess, fixed(1), fixed(3), costs=(energy,), constraints=(length,)))


def robot_arm():
    """COPS 3.0, problem 8: an arm in spherical coordinates in the least time."""
    def rate(t, x, u, p):
        elevation = ((5 - x[0]) ** 3 + x[0] ** 3) / 3
        return ca.vertcat(x[3:], u[0] / 5, u[1] / (elevation * ca.sin(x[2]) ** 2), u[2] / elevation)

    system = flat_system("arm", ("rho", "theta", "phi", "d_rho", "d_theta", "d_phi"), ("a", "b", "c"), rate)
    first, last = (4.5, 0, np.pi / 4, 0, 0, 0), (4.5, 2 * np.pi / 3, np.pi / 4, 0, 0, 0)
    return problem(Phase("turn", system, Duration(1.0, 30.0, 10.0), line(first, last, 3), fixed(*first), fixed(*last),
                         x_lower=(0.0, -np.pi, 0.0, -INF, -INF, -INF), x_upper=(5.0, np.pi, np.pi, INF, INF, INF),
                         u_lower=(-1.0,) * 3, u_upper=(1.0,) * 3,
                         costs=(Cost("time", At.FINAL, function(6, 3, lambda t, x, u, p: t)),)))


# --- several phases ----------------------------------------------------------------------------------------------

def bouncing_ball():
    """From 1 m at rest down, bounce with e = 0.8, to rest at 2 m; 0.05 int force^2 + 5 t: 6.5479905."""
    system = flat_system("ball", ("height", "speed"), ("force",), lambda t, x, u, p: ca.vertcat(x[1], u[0] - 9.81))
    effort = Cost("effort", At.PATH, function(2, 1, lambda t, x, u, p: u), weights=(0.1,))
    late = Cost("late", At.FINAL, function(2, 1, lambda t, x, u, p: 5 * t))
    drop = Phase("drop", system, Duration(0.1, 2.0, 0.45), line([1, 0], [0, -4.4], 1), fixed(1, 0),
                 Boundary((0.0, 0.0), (True, False)), costs=(effort,))
    rise = Phase("rise", system, Duration(0.1, 2.0, 0.6), line([0, 3.5], [2, 0], 1), final=fixed(2, 0), costs=(effort, late),
                 reset=reset(lambda x, p: ca.vertcat(x[0], -0.8 * x[1]), 2))
    return Problem("bounce", (drop, rise))


def with_phase(given, number=0, **changes):
    """The problem with one phase changed."""
    phases = list(given.phases)
    phases[number] = replace(phases[number], **changes)
    return replace(given, phases=tuple(phases))


def solved(problem, method="collocation", **options):
    """The certified solution in tangent unknowns, unless the options say otherwise."""
    found = solve(problem, method, {"states": "tangent", **options}, tolerances=Tolerances(objective_error=0.1))
    assert found.status is Status.CONVERGED, found.ending
    assert found.ok, found.certificate.failures
    return found
