"""A problem that has everything a horizon can have, and its stages written down once more in plain NumPy.

Two phases with different systems: a body with a quaternion flies, a reset map drops it onto a rail. Both durations are free, one of
two parameters is, and components of the start state, flat ones and one of the attitude. Costs, scalar and residual, and hard
constraints sit at every place and depend on time and parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np
from manifold_differences import columns, hessian
from plain_shooting import advance, flat, total
from shooting_problems import body_space

from dynamics.lie import quaternion
from ocp.problem import INF, At, Boundary, Constraint, Cost, Duration, Guess, Phase, Problem, Sense, System
from ocp.spaces import euclidean

PARAMETERS, VALUES = ("weight", "drag"), (9.0, 0.4)
DURATIONS, DRAG = (1.1, 0.7), 0.4
FREE = (0, 4, 8)
"""Tangent components of the start that are free: x, ry, vz."""
TILT = (np.cos(0.3), 0.6 * np.sin(0.3), 0.0, 0.8 * np.sin(0.3))
START = (0.1, -0.2, 0.3, *TILT, 0.5, 0.1, -0.3, 0.2, -0.1, 0.4)


def function(nx, nu, build, name="f"):
    t, x, u, p = ca.SX.sym("t"), ca.SX.sym("x", nx), ca.SX.sym("u", nu), ca.SX.sym("p", 2)
    return ca.Function(name, [t, x, u, p], [ca.densify(ca.SX(build(t, x, u, p)))])


def _flight() -> Phase:
    space, controls = body_space(), ("lift", "turn")

    def rate(t, x, u, p):
        push = quaternion.rotate(x[3:7], ca.vertcat(0, ca.sin(t), u[0])) - p[1] * x[7:10]
        return ca.vertcat(x[7:10], x[10:], push - ca.vertcat(0, 0, p[0]), ca.vertcat(u[1], x[10] * x[12], -u[1] * x[10]))

    def f(build):
        return function(13, 2, build)

    costs = (
        Cost("begin", At.START, f(lambda t, x, u, p: ca.sin(x[0]) * x[4] + x[9] ** 3 * p[1])),
        Cost("bend", At.PATH, f(lambda t, x, u, p: ca.sin(x[0] + 2 * t) * x[12] * p[1] + ca.cos(x[3]) * u[0])),
        Cost("track", At.PATH, f(lambda t, x, u, p: ca.vertcat(x[0] - t**2, x[5] * x[1], u * p[1])), (1.0, 2.0, 0.3, 0.4)),
        Cost("leave", At.FINAL, f(lambda t, x, u, p: ca.cos(x[0]) * x[3] ** 2 * t + p[1] * x[12] * x[9])),
        Cost("there", At.FINAL, f(lambda t, x, u, p: ca.vertcat(x[2] - t, x[6])), (3.0, 2.0)))
    rows = (
        Constraint("begin low", At.START, f(lambda t, x, u, p: x[2] + x[5] * p[1]), (-INF,), (0.9,)),
        Constraint("corridor", At.PATH, f(lambda t, x, u, p: x[0] ** 2 + ca.sin(t) * x[4]), (-1.0,), (2.0,)),
        Constraint("thrust", At.PATH, f(lambda t, x, u, p: u[0] ** 2 * p[1] + x[3]), (-INF,), (3.0,)),
        Constraint("cone", At.PATH, f(lambda t, x, u, p: ca.vertcat(2 + x[0], x[7] * t, x[8])), (-INF,) * 3, (INF,) * 3,
                   Sense.CONE),
        Constraint("soft", At.PATH, f(lambda t, x, u, p: x[1] - 0.1), (0.0,), (0.0,), soft=3.0),
        Constraint("meet", At.FINAL, f(lambda t, x, u, p: x[0] * x[1] - t * p[1]), (0.2,), (0.2,)))
    fixed = tuple(i not in FREE for i in range(12))
    final = Boundary(START, tuple(i == 3 for i in range(12)))
    return Phase("flight", System("body", space, controls, f(rate), PARAMETERS, VALUES), Duration(0.5, 3.0, DURATIONS[0]),
                 Guess(np.array([0.0]), np.array([START]), np.array([[9.0, 0.1]])), start=Boundary(START, fixed), final=final,
                 x_upper=tuple(1.5 if i == 2 else INF for i in range(13)), u_lower=(0.0, -5.0), u_upper=(20.0, 5.0), costs=costs,
                 constraints=rows, free_parameters=((1, 0.0, 2.0),))


def _slide() -> Phase:
    def f(build):
        return function(2, 1, build)

    x, p = ca.SX.sym("x", 13), ca.SX.sym("p", 2)
    turned = quaternion.rotate(x[3:7], x[7:10])
    reset = ca.Function("reset", [x, p], [ca.vertcat(x[0] + ca.sin(x[2]), p[1] * turned[0] + x[10] * x[5])])
    costs = (
        Cost("land", At.START, f(lambda t, x, u, p: x[1] ** 2 * ca.cos(x[0]) * p[1] + t * x[0])),
        Cost("rub", At.PATH, f(lambda t, x, u, p: p[1] * x[1] ** 2 * ca.exp(-t) + u[0] ** 2)),
        Cost("pull", At.PATH, f(lambda t, x, u, p: ca.vertcat(u[0] * t, x[0] * x[1])), (0.5, 1.5)),
        Cost("stop", At.FINAL, f(lambda t, x, u, p: ca.vertcat(x[0] - ca.sin(t), x[1] * p[1])), (4.0, 5.0)),
        Cost("late", At.FINAL, f(lambda t, x, u, p: t**2 * x[0])))
    rows = (Constraint("soft landing", At.START, f(lambda t, x, u, p: x[1] * x[0] + t), (-INF,), (1.0,)),
            Constraint("end", At.FINAL, f(lambda t, x, u, p: x[0] * p[1] + t), (-1.0,), (3.0,)))
    rail = System("rail", euclidean(("s", "w")), ("pull",),
                  f(lambda t, x, u, p: ca.vertcat(x[1], u[0] - p[1] * x[1] * ca.fabs(1 + x[1] ** 2) + 0.1 * ca.sin(t + x[0]))),
                  PARAMETERS, VALUES)
    return Phase("slide", rail, Duration(0.2, 2.0, DURATIONS[1]), Guess(np.array([0.0]), np.array([[0.0, 0.0]]), np.array([[0.2]])),
                 start=Boundary((0.3, 0.0), (True, False)), x_lower=(-2.0, -INF), costs=costs, constraints=rows, reset=reset)


@dataclass(frozen=True)
class Point:
    """Costs at one point of a stage: weight times those of a phase at the state ``locate(x, u)``; constants stand behind states.

    clock(theta) -> time [s]; pace(theta) -> seconds per unit of the argument of time.
    """

    weight: float
    locate: Callable[[Any, Any], np.ndarray]
    phase: Phase
    at: At
    clock: Callable[[Any], float]
    pace: Callable[[Any], float] = lambda theta: 1.0


@dataclass(frozen=True)
class PlainStage:
    """One stage: after(x, u) -> state after it; its cost points; the phases of the states before and after (None: the end)."""

    before: Phase
    following: Phase | None
    after: Callable[[Any, Any], np.ndarray]
    points: tuple[Point, ...]


def split(phase: Phase, x):
    """State, and constants (duration of the flight, of the slide, drag)."""
    return x[:phase.system.nx], x[phase.system.nx:]


def _space(phase: Phase) -> tuple[ca.Function, ca.Function]:
    space = phase.system.space
    a, b, d = ca.SX.sym("a", space.nx), ca.SX.sym("b", space.nx), ca.SX.sym("d", space.ndx)
    return ca.Function("plus", [a, d], [space.plus(a, d)]), ca.Function("minus", [a, b], [space.minus(a, b)])


RICH = Problem("rich", (_flight(), _slide()))
_SPACES = {phase.name: _space(phase) for phase in RICH.phases}
_TURN = ca.Function("turn", [q := ca.SX.sym("q", 4), d := ca.SX.sym("d", 3)], [quaternion.integrate(q, d)])


def plus(phase: Phase) -> Callable:
    nx, ndx = phase.system.nx, phase.system.space.ndx
    return lambda x, d: np.r_[flat(_SPACES[phase.name][0](x[:nx], d[:ndx])), x[nx:] + d[ndx:]]


def minus(phase: Phase) -> Callable:
    nx = phase.system.nx
    return lambda a, b: np.r_[flat(_SPACES[phase.name][1](a[:nx], b[:nx])), b[nx:] - a[nx:]]


def parameters(theta):
    return np.array([VALUES[0], theta[2]])


def plain_stages(s: float, h: float, integrator: str = "rk4", rectangle: bool = False) -> dict[str, PlainStage]:
    """By name: start, flight, passage, slide, end. s, h: argument of time and length of the stage, fractions of a phase."""
    flight, slide = RICH.phases

    def chosen(x, u):
        turn = flat(_TURN(x[3:7], [0, u[1], 0]))
        return np.r_[u[0], x[1:3], turn, x[7:9], u[2], x[10:13], u[3:]]

    def dropped(x, u):
        state, theta = split(flight, x)
        return np.r_[flat(slide.reset(state, parameters(theta))), theta]

    def step(phase, began, duration):
        def moved(x, u):
            state, theta = split(phase, x)
            after, nodes = advance(phase.system, integrator, began(theta) + s * duration(theta), state, u, parameters(theta),
                                   h * duration(theta))
            return np.r_[after, theta], [(w, np.r_[node, theta]) for w, _, node in nodes]

        x = np.r_[phase.system.space.neutral, DURATIONS, DRAG]
        fractions = [0.0] if rectangle else _fractions(phase, integrator)
        weights = [1.0] if rectangle else [w for w, _ in moved(x, np.zeros(phase.system.nu))[1]]

        def node(i):
            return (lambda x, u: x) if rectangle else (lambda x, u: moved(x, u)[1][i][1])

        points = [Point(h * w, node(i), phase, At.PATH, lambda theta, c=c: began(theta) + (s + c * h) * duration(theta), duration)
                  for i, (w, c) in enumerate(zip(weights, fractions, strict=True))]
        return PlainStage(phase, phase, lambda x, u: moved(x, u)[0], tuple(points))

    def same(x, u):
        return x

    return {
        "start": PlainStage(flight, flight, chosen, (Point(1.0, chosen, flight, At.START, lambda theta: 0.0),)),
        "flight": step(flight, lambda theta: 0.0, lambda theta: theta[0]),
        "passage": PlainStage(flight, slide, dropped, (Point(1.0, same, flight, At.FINAL, lambda theta: theta[0]),
                                                       Point(1.0, dropped, slide, At.START, lambda theta: theta[0]))),
        "slide": step(slide, lambda theta: theta[0], lambda theta: theta[1]),
        "end": PlainStage(slide, None, lambda x, u: np.zeros(0),
                          (Point(1.0, same, slide, At.FINAL, lambda theta: theta[0] + theta[1]),))}


def _fractions(phase, integrator):
    """Where the nodes stand in a step, by a step of one second from time zero."""
    system = phase.system
    _, nodes = advance(system, integrator, 0.0, np.array(system.space.neutral), np.zeros(system.nu), VALUES, 1.0)
    return [time for _, time, _ in nodes]


def local(point: Point, x, u) -> float:
    """Costs of a point at the carried state x."""
    state, theta = split(point.phase, x)
    control = u if point.at is At.PATH else np.zeros(point.phase.system.nu)
    value = total(point.phase, point.at, point.clock(theta), state, control, parameters(theta)) * point.pace(theta)
    if point.at is At.PATH and point.phase.name == "flight":  # its soft constraint x[1] = 0.1
        value += 0.5 * 3.0 * (state[1] - 0.1) ** 2 * point.pace(theta)
    return value


def residuals(point: Point, x, u):
    """Residual costs of a point with the root of their weights: half the square of this is their cost."""
    state, theta = split(point.phase, x)
    control = u if point.at is At.PATH else np.zeros(point.phase.system.nu)
    found = [np.sqrt(cost.weights) * flat(cost.function(point.clock(theta), state, control, parameters(theta)))
             for cost in point.phase.costs if cost.at is point.at and cost.weights is not None]
    if point.at is At.PATH and point.phase.name == "flight":
        found.append(np.array([np.sqrt(3.0) * (state[1] - 0.1)]))
    return np.concatenate([np.zeros(0), *found]) * np.sqrt(point.pace(theta))


def cost(stage: PlainStage, x, u) -> float:
    return sum(p.weight * local(p, p.locate(x, u), u) for p in stage.points)


def gauss_newton(stage: PlainStage, x, u):
    """``sum w J' H J`` with J of the points and H of the costs there, all by differences; residuals without their curvature."""
    n, m = stage.before.system.space.ndx + 3, len(u)
    H = np.zeros((n + m, n + m))
    for p in stage.points:
        here, k = p.locate(x, u), p.phase.system.space.ndx + 3
        away = minus(p.phase)
        J = columns(lambda a, b, p=p, here=here, away=away: away(here, p.locate(a, b)), plus(stage.before), x, u, n)
        J = np.vstack([J, np.hstack([np.zeros((m, n)), np.eye(m)])])
        scalar = hessian(lambda a, b, p=p: local(p, a, b) - 0.5 * np.sum(residuals(p, a, b) ** 2), plus(p.phase), here, u, k)
        R = columns(lambda a, b, p=p: residuals(p, a, b), plus(p.phase), here, u, k)
        H += p.weight * J.T @ (scalar + R.T @ R) @ J
    return H
