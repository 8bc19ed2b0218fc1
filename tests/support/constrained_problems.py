"""Twenty optimal-control problems with hard constraints and fixed time, and seeded starts for each of them.

Six are those of Altro.jl v0.5 (RoboticExplorationLab, MIT) with its models, weights, knots and bounds, two its second-order cone
programmes; the rest are classics or motions of robots of this repository. Every problem states how it is cut into steps, so that
different solvers can be given exactly the same discrete problem.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import casadi as ca
import numpy as np
from repository import ROOT

from ocp.app.files.load import load_problem, load_text
from ocp.problem import INF, At, Boundary, Constraint, Cost, Duration, Guess, Phase, Problem, Sense, System
from ocp.spaces import euclidean

FOLDER = ROOT / "problems"
PI = np.pi
Rate = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Constrained:
    """A problem and its discretisation.

    options: intervals, integrator and cost_quadrature, named as the options of iLQR; route [k, nx]: states that a guess of the
    motion passes; noise_u [nu], noise_x [nx]: sizes of the seeded disturbances of controls and of states.
    """

    name: str
    problem: Problem
    options: Mapping[str, Any]
    route: np.ndarray
    noise_u: np.ndarray
    noise_x: np.ndarray

    @property
    def intervals(self) -> int:
        return int(self.options["intervals"])


def start_guess(c: Constrained, seed: int, kind: str) -> Guess:
    """The guess of one seed, exact at knots and in the middle of every interval.

    Controls are the nominal guess plus smooth noise, inside their bounds. States: kind "line" joins the route and adds smooth
    noise that vanishes at the start; kind "still" leaves the nominal guess, for solvers that roll the controls out.
    """
    phase, N, rng = c.problem.phase, c.intervals, np.random.default_rng([seed, 7])
    s = np.linspace(0.0, 1.0, 2 * N + 1)

    def smooth(size: np.ndarray) -> np.ndarray:
        values = rng.standard_normal((7, len(size))) * size
        return np.column_stack([np.interp(s, np.linspace(0, 1, 7), column) for column in values.T])

    given = np.asarray(phase.guess.u, float).reshape(len(phase.guess.s), -1)
    u = np.column_stack([np.interp(s, phase.guess.s, column) for column in given.T]) + smooth(c.noise_u)
    u = np.clip(u, phase.u_lower, phase.u_upper)
    if kind == "line":
        x = np.column_stack([np.interp(s, np.linspace(0, 1, len(c.route)), column) for column in c.route.T])
        x += smooth(c.noise_x) * np.minimum(1.0, 10 * s)[:, None]
    else:
        x = np.column_stack([np.interp(s, phase.guess.s, column) for column in np.asarray(phase.guess.x, float).T])
    return Guess(s, x, u)


def with_guess(problem: Problem, guess: Guess) -> Problem:
    return replace(problem, phases=(replace(problem.phase, guess=guess),))


@dataclass(frozen=True)
class _Row:
    """A hard constraint built from (t, x, u): between bounds, or a second-order cone."""

    name: str
    build: Callable[[Any, Any, Any], Any]
    lower: float = 0.0
    upper: float = INF
    at: At = At.PATH
    sense: Sense = Sense.BOX


@dataclass(frozen=True)
class _Bounds:
    x: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    u: Sequence[tuple[float, float]] = ()


def _make(name: str, states: str, controls: str, rate: Rate, start: Sequence[float], goal: Sequence[float], duration: float,
          N: int, *, path: Sequence[tuple[Callable[[Any, Any], Any], Sequence[float]]], final: Sequence[float] = (),
          bounds: _Bounds | None = None, rows: Sequence[_Row] = (), u0: Sequence[float] = (), free: Sequence[int] = (),
          noise_u: Sequence[float] | None = None, route: Sequence[Sequence[float]] | None = None,
          noise_x: float | Sequence[float] = 0.2, integrator: str = "rk4", quadrature: str = "rectangle") -> Constrained:
    """path: residuals of (x, u) with their weights; final: weights of the distance to the goal; free: components of the goal that
    nothing prescribes; noise_u: by default half the way from the guess to the bounds."""
    xs, us = tuple(states.split()), tuple(controls.split())
    nx, nu = len(xs), len(us)
    t, x, u, p = ca.SX.sym("t"), ca.SX.sym("x", nx), ca.SX.sym("u", nu), ca.SX.sym("p", 0)

    def function(label: str, value: Any) -> ca.Function:
        return ca.Function(label, [t, x, u, p], [ca.densify(ca.SX(value))])

    costs = [Cost(f"cost{i}", At.PATH, function("cost", residual(x, u)), weights=tuple(map(float, weights)))
             for i, (residual, weights) in enumerate(path)]
    if len(final):
        costs.append(Cost("end", At.FINAL, function("end", x - ca.DM(goal)), weights=tuple(map(float, final))))
    constraints = []
    for row in rows:
        value = row.build(t, x, u)
        size = ca.SX(value).shape[0]
        cone = row.sense is Sense.CONE
        constraints.append(Constraint(row.name, row.at, function("row", value), (-INF if cone else row.lower,) * size,
                                      (INF if cone else row.upper,) * size, row.sense))
    bounds = bounds or _Bounds()
    u_box = np.array(bounds.u or [(-INF, INF)] * nu, float)
    x_box = np.array([bounds.x.get(n, (-INF, INF)) for n in xs], float)
    guess_u = np.zeros(nu) if not len(u0) else np.array(u0, float)
    if noise_u is None:
        noise_u = 0.5 * np.minimum(u_box[:, 1] - guess_u, (u_box[:, 1] - u_box[:, 0]) / 2)
    phase = Phase(
        name, System(name, euclidean(xs), us, function("rate", rate(x, u))), Duration(duration, duration, duration),
        Guess(np.array([0.0, 1.0]), np.tile(np.array(start, float), (2, 1)), np.tile(guess_u, (2, 1))),
        start=Boundary(tuple(map(float, start)), (True,) * nx),
        final=Boundary(tuple(map(float, goal)), tuple(i not in free for i in range(nx))),
        x_lower=tuple(x_box[:, 0]), x_upper=tuple(x_box[:, 1]), u_lower=tuple(u_box[:, 0]), u_upper=tuple(u_box[:, 1]),
        costs=tuple(costs), constraints=tuple(constraints))
    way = np.array([start, goal] if route is None else route, float)
    options = {"intervals": N, "integrator": integrator, "cost_quadrature": quadrature}
    return Constrained(name, Problem(name, (phase,)), options, way, np.array(noise_u, float),
                       np.broadcast_to(np.array(noise_x, float), (nx,)).copy())


def _quadratic(goal: Sequence[float], Q: float, R: float, nu: int) -> list:
    """The running cost of the Altro set: 1/2 Q |x - goal|^2 + 1/2 R |u|^2."""
    return [(lambda x, u: ca.vertcat(x - ca.DM(goal), u), [Q] * len(goal) + [R] * nu)]


def _pendulum(x, u):
    return ca.vertcat(x[1], (u - 9.81 * 0.5 * ca.sin(x[0]) - 0.1 * x[1]) / 0.25)


def _cart_pole(x, u):
    c, s, w = ca.cos(x[1]), ca.sin(x[1]), x[3]
    M = ca.vertcat(ca.horzcat(1.2, 0.1 * c), ca.horzcat(0.1 * c, 0.05))
    return ca.vertcat(x[2:], ca.solve(M, ca.vertcat(u + 0.1 * s * w**2, -0.2 * 9.81 * 0.5 * s)))


def _acrobot(x, u):
    c2, s2, w1, w2 = ca.cos(x[1]), ca.sin(x[1]), x[2], x[3]
    M = ca.vertcat(ca.horzcat(5 + 2 * c2, 2 + c2), ca.horzcat(2 + c2, 2))
    bias = ca.vertcat(-(2 * w1 * w2 + w2**2) * s2, s2 * w1**2)
    gravity = 9.81 * ca.vertcat(2 * ca.cos(x[0]) + ca.cos(x[0] + x[1]), ca.cos(x[0] + x[1]))
    return ca.vertcat(x[2:], ca.solve(M, ca.vertcat(0, u) - bias - gravity - x[2:]))


def _car(x, u):
    return ca.vertcat(u[0] * ca.cos(x[2]), u[0] * ca.sin(x[2]), u[1])


def _bicycle(x, u):
    slip = ca.atan2(1.5 * x[3], 2.7)
    return ca.vertcat(u[0] * ca.cos(x[2] + slip), u[0] * ca.sin(x[2] + slip), u[0] * ca.cos(slip) * ca.tan(x[3]) / 2.7, u[1])


def _mass(x, u):
    n = x.shape[0] // 2
    return ca.vertcat(x[n:], u)


def _lander(x, u):
    return ca.vertcat(x[3:], u - ca.DM([0, 0, 9.81]))


def _planar_quadrotor(x, u):
    lift = (u[0] + u[1]) / 0.5
    return ca.vertcat(x[3:], -lift * ca.sin(x[2]), lift * ca.cos(x[2]) - 9.81, 0.175 * (u[1] - u[0]) / 0.0023)


def _quadrotor(x, u):
    """Position, roll pitch yaw, velocity in the world, angular velocity in the body; four rotors in a plus."""
    r, q, y = x[3], x[4], x[5]
    cr, sr, cq, sq, cy, sy = ca.cos(r), ca.sin(r), ca.cos(q), ca.sin(q), ca.cos(y), ca.sin(y)
    w, J = x[9:], ca.DM([0.0023, 0.0023, 0.004])
    up = ca.vertcat(cy * sq * cr + sy * sr, sy * sq * cr - cy * sr, cq * cr)
    angles = ca.vertcat(w[0] + sr * sq / cq * w[1] + cr * sq / cq * w[2], cr * w[1] - sr * w[2], (sr * w[1] + cr * w[2]) / cq)
    moment = ca.vertcat(0.175 * (u[1] - u[3]), 0.175 * (u[2] - u[0]), 0.0245 * (u[0] - u[1] + u[2] - u[3]))
    return ca.vertcat(x[6:9], angles, up * ca.sum1(u) / 0.5 - ca.DM([0, 0, 9.81]), (moment - ca.cross(w, J * w)) / J)


def _chain(x, u):
    """Six unit masses between two walls, springs of unit stiffness; three actuators, each between two masses."""
    K = 2 * np.eye(6) - np.eye(6, k=1) - np.eye(6, k=-1)
    B = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, 0, 1], [0, -1, 0], [0, 0, -1]])
    return ca.vertcat(x[6:], -ca.DM(K) @ x[:6] + ca.DM(B) @ u)


def _discs(centres: Sequence[tuple[float, float]], radius: float | Sequence[float], name: str = "obstacles") -> _Row:
    radii = np.broadcast_to(radius, (len(centres),))
    return _Row(name, lambda t, x, u: ca.vertcat(*((x[0] - a) ** 2 + (x[1] - b) ** 2 - r**2
                                                   for (a, b), r in zip(centres, radii, strict=True))))


def _ball(limit: float) -> _Row:
    return _Row("thrust cone", lambda t, x, u: ca.vertcat(limit, u), sense=Sense.CONE)


def _walls() -> list[tuple[float, float]]:
    """The 170 discs of the escape of the Altro set."""
    side, top = np.linspace(0, 5, 30), np.linspace(0, 10, 50)
    return [*((c, y) for c in (0.0, 5.0, 10.0) for y in side), *((x, 0.0) for x in top),
            *((x, 5.0) for x in np.r_[np.linspace(0, 3, 15), np.linspace(5, 8, 15)])]


def _window(x, t, at: float, place: Sequence[float], speed: float, radius: float) -> Any:
    """Positive while the place is nearer than it takes to be there at a time, at a speed."""
    away = x[:3] - ca.DM(place)
    return radius**2 + (speed * (t - at)) ** 2 - ca.dot(away, away)


def double_integrator() -> Constrained:
    return _make("double integrator", "p v", "a", _mass, (0, 0), (1, 0), 2.0, 20, path=_quadratic((1, 0), 1.0, 0.1, 1),
                 final=(1, 1), bounds=_Bounds({"v": (-0.6, 0.6)}, [(-3, 3)]))


def bryson_denham() -> Constrained:
    return _make("Bryson-Denham", "x v", "a", _mass, (0, 1), (0, -1), 1.0, 50, path=[(lambda x, u: u, [1.0])], noise_u=(5,),
                 bounds=_Bounds({"x": (-INF, 1 / 9)}), quadrature="integrator")


def pendulum() -> Constrained:
    return _make("pendulum", "th w", "u", _pendulum, (0, 0), (PI, 0), 3.0, 50, path=_quadratic((PI, 0), 1e-3, 1e-3, 1),
                 final=(1, 1), bounds=_Bounds({}, [(-3, 3)]), u0=(0.1,))


def cart_pole() -> Constrained:
    goal = (0, PI, 0, 0)
    return _make("cart-pole", "y th dy dth", "F", _cart_pole, (0,) * 4, goal, 5.0, 100, path=_quadratic(goal, 1e-2, 1e-1, 1),
                 final=(100,) * 4, bounds=_Bounds({}, [(-3, 3)]), u0=(0.01,))


def acrobot() -> Constrained:
    goal = (PI / 2, 0, 0, 0)
    return _make("acrobot", "th1 th2 w1 w2", "u", _acrobot, (-PI / 2, 0, 0, 0), goal, 5.0, 100, path=_quadratic(goal, 1.0, 0.01, 1),
                 final=(100,) * 4, bounds=_Bounds({}, [(-15, 15)]), noise_u=(3,))


def parallel_park() -> Constrained:
    goal = (0, 1.5, 0)
    return _make("parallel park", "x y th", "v w", _car, (0, 0, 0), goal, 3.0, 100, path=_quadratic(goal, 1e-2, 1e-2, 2),
                 final=(100,) * 3, bounds=_Bounds({"x": (-0.25, 0.25), "y": (-0.001, 1.501)}, [(-2, 2)] * 2), u0=(0.1, 0.1))


def three_obstacles() -> Constrained:
    goal = (3, 3, 0)
    return _make("three obstacles", "x y th", "v w", _car, (0, 0, 0), goal, 5.0, 100, path=_quadratic(goal, 1.0, 0.5, 2),
                 final=(10,) * 3, bounds=_Bounds({}, [(0, 3), (-3, 3)]),
                 rows=[_discs([(0.75, 0.75), (1.5, 1.5), (2.25, 2.25)], 0.425)],
                 u0=(0.01, 0.01), noise_u=(0.7, 0.7))


def escape() -> Constrained:
    goal = (7.5, 2.5, 0)
    route = [(2.5, 2.5, 0), (4, 5, 0.785), (5, 6.25, 0), (7.5, 6.25, -0.261), (9, 5, -1.57), goal]
    return _make("escape", "x y th", "v w", _car, (2.5, 2.5, 0), goal, 3.0, 50, path=_quadratic(goal, 1e-3, 1e-2, 2),
                 final=(100,) * 3, bounds=_Bounds({}, [(-5, 5)] * 2), rows=[_discs(_walls(), 0.5, "walls")], u0=(1, 1),
                 noise_u=(1, 1), route=route, noise_x=(0.15, 0.15, 0.3))


def unicycle_obstacles() -> Constrained:
    centres = [(0.9, 0.4), (0.5, 1.5), (1.7, 1.6), (2.8, 0.9), (2.6, 2.5), (1.3, 2.9), (3.6, 1.9), (3.3, 3.5)]
    return _make("unicycle among discs", "x y th", "v w", _car, (0, 0, 0), (4, 4, PI / 2), 5.0, 60,
                 path=[(lambda x, u: u, [0.2, 0.2])], bounds=_Bounds({}, [(-0.5, 2.5), (-3, 3)]), rows=[_discs(centres, 0.42)],
                 u0=(0.8, 0.0), noise_u=(0.5, 0.7))


def bicycle_parking() -> Constrained:
    goal = (0, 2, 0, 0)
    return _make("bicycle parking", "x y th delta", "v rate", _bicycle, (0,) * 4, goal, 4.0, 80,
                 path=[(lambda x, u: ca.vertcat(x - ca.DM(goal), u), [1, 1, 1e-2, 1e-2, 1, 1])], final=(1, 1, 1, 10),
                 bounds=_Bounds({"x": (-3, 3), "y": (-1, 3), "delta": (-PI / 4, PI / 4)}, [(-4, 4), (-3, 3)]), u0=(-0.1, 0),
                 noise_u=(1.5, 0.7))


def planar_quadrotor() -> Constrained:
    hover = 0.25 * 9.81
    return _make("planar quadrotor between discs", "x y th vx vy w", "left right", _planar_quadrotor, (0,) * 6, (4, 0, 0, 0, 0, 0),
                 2.5, 60, path=[(lambda x, u: u - hover, [1, 1]), (lambda x, u: x[2:], [0.1, 0, 0, 0.01])],
                 bounds=_Bounds({"th": (-1.2, 1.2)}, [(0, 2 * hover)] * 2), rows=[_discs([(1.3, 0.3), (2.7, -0.3)], 0.6)],
                 u0=(hover, hover), noise_u=(0.15, 0.15), noise_x=(0.3, 0.3, 0.1, 0.2, 0.2, 0.2))


def quadrotor_waypoint() -> Constrained:
    hover, goal = 0.125 * 9.81, (0, 3, 1, *(0,) * 9)
    start, via = (0, -3, 1, *(0,) * 9), (3, 0, 1.5)
    rows = [_Row("waypoint", lambda t, x, u: _window(x, t, 1.5, via, 4.0, 0.1))]
    box = {"x": (-3.2, 3.2), "y": (-3.2, 3.2), "z": (0.2, 2.0), "roll": (-1.2, 1.2), "pitch": (-1.2, 1.2)}
    return _make("quadrotor by a waypoint", "x y z roll pitch yaw vx vy vz wx wy wz", "f1 f2 f3 f4", _quadrotor, start, goal, 3.0,
                 60, path=[(lambda x, u: u - hover, [1] * 4), (lambda x, u: x[9:], [0.01] * 3)], bounds=_Bounds(box, [(0, 3)] * 4),
                 rows=rows, u0=(hover,) * 4, noise_u=(0.02,) * 4, route=[start, (*via, *(0,) * 9), goal],
                 noise_x=(0.3,) * 3 + (0.1,) * 3 + (0.3,) * 3 + (0.1,) * 3)


def rocket_landing() -> Constrained:
    return _make("rocket landing", "x y z vx vy vz", "ax ay az", _lander, (10, 10, 100, 0, 0, -10), (0,) * 6, 10.0, 100,
                 path=_quadratic((0,) * 6, 1.0, 0.1, 3), final=(1000,) * 6, rows=[_ball(100.0)], noise_u=(10, 10, 10), noise_x=5.0)


def planar_cone() -> Constrained:
    return _make("planar thrust cone", "x y vx vy", "ax ay", _mass, (0,) * 4, (1, 1, 0, 0), 1.0, 10,
                 path=_quadratic((1, 1, 0, 0), 1, 0.1, 2), final=(100,) * 4, rows=[_ball(6.0)], noise_u=(3, 3), integrator="euler")


def pendulum_speed() -> Constrained:
    text = """
name: Pendulum with a speed limit
system: {robot: models/pendulum.urdf, limits: {position: false, velocity: false}}
phase:
  duration: 4.0
  start: {joints: {hinge: 0}, rest: true}
  final: {joints: {hinge: pi}, rest: true}
  bounds: {controls: {hinge: [-2.5, 2.5]}, velocities: {hinge: [-5.5, 5.5]}}
  costs: [{name: effort, running: 'tau["hinge"]**2 / 2'}]
solve: {method: ilqr}
"""
    return _loaded("pendulum with a speed limit", load_text(text, FOLDER).problem, 60, (0.1,), (1.0,))


def two_link_arm() -> Constrained:
    text = """
name: Two-link arm around an obstacle
system: {robot: models/acrobot.urdf, actuated: all, limits: {position: false, velocity: false}}
phase:
  duration: 1.5
  start: {joints: {shoulder: {deg: 20}, elbow: {deg: 30}}, rest: true}
  final: {joints: {shoulder: {deg: 110}, elbow: {deg: 20}}, rest: true}
  bounds: {controls: {shoulder: [-25, 25], elbow: [-12, 12]}}
  costs:
    - {name: effort, running_residual: ['tau["shoulder"] / 25', 'tau["elbow"] / 12'], weights: 1.0}
  constraints:
    - {name: tip clear, expression: '(position("tip")[0] + 1.6)**2 + (position("tip")[2] + 0.6)**2', lower: 0.16}
    - {name: elbow clear, expression: '(position("lower")[0] + 1.6)**2 + (position("lower")[2] + 0.6)**2', lower: 0.16}
solve: {method: ilqr}
"""
    return _loaded("two-link arm around a disc", load_text(text, FOLDER).problem, 60, (0.0, 0.0), (2.0, 1.0))


def cart_pole_bounded() -> Constrained:
    return _loaded("cart-pole with a short rail", load_problem(FOLDER / "cartpole_swingup.yaml").problem, 100, (0.0,), (5.0,))


def ur5_reach() -> Constrained:
    problem = load_problem(FOLDER / "ur5_reach.yaml").problem
    return _loaded("UR5 reaching a pose", problem, 30, _holding(problem), (3, 3, 3, 0.5, 0.5, 0.5), 0.1)


def panda_reach() -> Constrained:
    problem = load_problem(FOLDER / "panda_reach.yaml").problem
    return _loaded("Panda reaching a pose", problem, 30, _holding(problem), (2, 2, 2, 2, 0.4, 0.4, 0.4), 0.1)


def chain() -> Constrained:
    start = (1, -1, 0.8, 0.5, -1, 0.6, *(0,) * 6)
    box = {f"q{i}": (-1.1, 1.1) for i in range(6)}
    names = " ".join([f"{letter}{i}" for letter in "qv" for i in range(6)])
    return _make("chain of springs", names, "a b c", _chain, start, (0,) * 12, 15.0, 50,
                 path=_quadratic((0,) * 12, 0.1, 1.0, 3), bounds=_Bounds(box, [(-0.5, 0.5)] * 3))


def _holding(problem: Problem) -> np.ndarray:
    """Joint forces that hold a robot still at the start."""
    import dynamics

    system = problem.phase.system
    q = np.array(problem.phase.start.value[:system.model.nq])
    zero = np.zeros(system.model.nv)
    tau = np.array(dynamics.make(system.model, "inverse_dynamics")(q, zero, zero)).ravel()
    return np.array(ca.DM(system.mechanism.selection)).T @ tau


def _loaded(name: str, problem: Problem, N: int, u0: Sequence[float], noise_u: Sequence[float],
            noise_x: float = 0.2) -> Constrained:
    """A problem file with constant controls as its guess; the states of its guess are the route."""
    phase = problem.phase
    route = np.asarray(phase.guess.x, float)
    if phase.final is not None and phase.final.complete:
        route = np.array([phase.start.value, phase.final.value], float)
    still = np.tile(np.array(phase.start.value, float), (2, 1))
    guess = Guess(np.array([0.0, 1.0]), still, np.tile(np.array(u0, float), (2, 1)))
    options = {"intervals": N, "integrator": "rk4", "cost_quadrature": "integrator"}
    return Constrained(name, with_guess(problem, guess), options, route, np.array(noise_u, float),
                       np.full(phase.system.nx, noise_x))


PROBLEMS: Mapping[str, Callable[[], Constrained]] = {f.__name__: f for f in (
    double_integrator, bryson_denham, planar_cone, rocket_landing, chain, pendulum, pendulum_speed, cart_pole, cart_pole_bounded,
    acrobot, parallel_park, bicycle_parking, three_obstacles, unicycle_obstacles, escape, planar_quadrotor, quadrotor_waypoint,
    two_link_arm, ur5_reach, panda_reach)}
