"""Crocoddyl's own benchmark problems in our classes: arms that reach a pose, a quadrotor, a double pendulum, the unicycle, an LQR.

Definitions of the examples and benchmarks of Crocoddyl 3.2.1 (loco-3d, BSD-3-Clause), from their parameters: running costs are
``dt sum w a(r)`` with ``a(r) = 1/2 r' diag(weights) r``, the cost at the end is not scaled by dt, and a step is
``v+ = v + a dt, q+ = q [+] v+ dt``. The unicycle and the LQR are maps from step to step; here time counts steps, so that
``x + 1 rate(x, u)`` is the map itself.

Differences of coordinates, none of which changes a cost: continuous joints are one angle here and (cos, sin) there, so that a
residual of theirs is taken between -pi and pi; quaternions are (w, x, y, z) here and (x, y, z, w) there. Pinocchio's forward
dynamics leave out the viscous damping that URDF files give, and so do these models; the Talos arm carries the rotor inertias of its
SRDF file, as example-robot-data loads it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import casadi as ca
import numpy as np

from dynamics import algorithms as alg
from dynamics.mechanism import Mechanism, Thruster, direct_motors
from dynamics.model.lock import lock_joints
from dynamics.model.model import Frame, Model, Placement
from dynamics.model.robots import find_robot
from dynamics.model.urdf import read_urdf
from ocp.bridge import model_space, robot_system
from ocp.integrators import INTEGRATORS
from ocp.problem import At, Boundary, Cost, Duration, Form, Formulation, Guess, Phase, Problem, System
from ocp.robot_terms import RobotTerms
from ocp.spaces import Space, euclidean

GUESSES = ("zero", "hold")
"""zero: every knot at the neutral state with zero velocity, zero controls, so that the first trajectory has gaps (what Crocoddyl's
solvers take when they are given nothing). hold: the start state at every knot and the controls that hold it there."""

_ARM_UP = (1.5707, 2.618, -1.5707, 3.1415, 2.618, 0.0)
_PANDA = (0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785)
_TALOS = (0.173046, 1.0, -0.52366, 0.0, 0.0, 0.1, -0.005)
_EYE = np.eye(3)


@dataclass(frozen=True)
class Case:
    """A problem with the options that reproduce its discretisation, and Crocoddyl's figures for it.

    published: cost and iterations of its FDDP, which stops at an expected decrease of 1e-9, from the guess ``published_from``.
    optima: costs of the local optima that are known, converged, best first. The published one is among them to 1e-7, the others
        come from Crocoddyl or from us with other guesses.
    robot: short name of the URDF file of example-robot-data, None where there is no robot.
    """

    problem: Problem
    intervals: int
    options: dict[str, Any]
    published: float
    published_iterations: int
    published_from: str
    optima: tuple[float, ...]
    robot: str | None = None

    @property
    def step_length(self) -> float:
        return self.problem.phase.duration.guess / self.intervals


def case(name: str, guess: str = "zero") -> Case:
    """One of ``CASES`` from one of ``GUESSES``. Raises ModelError where example-robot-data is needed and not installed."""
    if guess not in GUESSES:
        raise ValueError(f"no guess named {guess!r}; there are {', '.join(GUESSES)}")
    return _BUILDERS[name](guess)


def pieces(built: Case) -> tuple[ca.Function, ca.Function]:
    """(x, u) -> next state, stage cost; x -> cost at the end. From the definition, by no solver's code."""
    phase, h = built.problem.phase, built.step_length
    system, integrator = phase.system, INTEGRATORS[built.options["integrator"]]
    t, x, u, p = ca.SX.sym("t"), ca.SX.sym("x", system.nx), ca.SX.sym("u", system.nu), ca.SX.sym("p", 0)
    running, final = (sum((cost.expression(t, x, u, p) for cost in phase.costs if cost.at is at), start=ca.SX(0))
                      for at in (At.PATH, At.FINAL))
    return (ca.Function("step", [x, u], [integrator.step(system, t, x, u, p, h), h * running]),
            ca.Function("end", [x], [ca.substitute(final, u, ca.DM.zeros(system.nu))]))


def total_cost(built: Case, x: np.ndarray, u: np.ndarray) -> tuple[float, np.ndarray]:
    """Cost of states x [N + 1, nx] and controls u [N, nu], which need not fit together, and where each step leads [N, nx]."""
    step, end = pieces(built)
    after, stage = step(x[:-1].T, u.T)
    return float(ca.sum2(stage)) + float(end(x[-1])), np.array(after).T


def moves(built: Case, x: np.ndarray, after: np.ndarray) -> float:
    """Sum of squares of where steps lead, ``minus(x[k], after[k])``: one number for all next states."""
    space = built.problem.phase.system.space
    a, b = ca.SX.sym("a", space.nx), ca.SX.sym("b", space.nx)
    minus = ca.Function("minus", [a, b], [space.minus(a, b)])
    return float(np.sum(np.array(minus(x[:-1].T, after.T)) ** 2))


def rollout(built: Case, u: np.ndarray) -> np.ndarray:
    """States [N + 1, nx] under controls u [N, nu] from the start."""
    step, _ = pieces(built)
    assert built.problem.phase.start is not None
    states = [np.array(built.problem.phase.start.value)]
    for row in u:
        states.append(np.array(step(states[-1], row)[0]).ravel())
    return np.array(states)


def probe(built: Case) -> tuple[np.ndarray, np.ndarray]:
    """States [N + 1, nx] and controls [N, nu] that fit no dynamics, to compare definitions by: around the start, then ever farther
    from it, until angles have gone more than half a turn."""
    phase, N = built.problem.phase, built.intervals
    space = phase.system.space
    start, d = ca.SX.sym("x", space.nx), ca.SX.sym("d", space.ndx)
    plus = ca.Function("plus", [start, d], [space.plus(start, d)])
    assert phase.start is not None
    k, i, j = np.arange(N + 1)[:, None], np.arange(space.ndx), np.arange(phase.system.nu)
    x = np.array(plus(ca.repmat(ca.DM(phase.start.value), 1, N + 1), ((0.3 + 4 * k / N) * np.sin(0.7 * k + i)).T)).T
    return x, 0.5 * np.sin(0.9 * k[:-1] + 2 * j + 1)


# ---- parts -----------------------------------------------------------------------------------------------------------
Numbers = Sequence[float] | np.ndarray
Term = tuple[str, Callable[[Any, Any], Any], tuple[float, ...]]
"""Name, residual of (x, u), weights."""


def _problem(name: str, system: System, start: Sequence[float], duration: float, running: Sequence[Term], final: Sequence[Term],
             guess: tuple[Numbers, Numbers], scalars: Sequence[tuple[str, At, Callable[[Any, Any], Any]]] = ()
             ) -> Problem:
    """One phase with a fixed start; guess: state and control, the same at all times. Crocoddyl knows no limits of robots."""
    system = replace(system, x_limits=(), u_limits=())
    symbols = [ca.SX.sym("t"), ca.SX.sym("x", system.nx), ca.SX.sym("u", system.nu), ca.SX.sym("p", 0)]

    def function(label: str, value: Any) -> ca.Function:
        return ca.Function(label, symbols, [ca.densify(ca.SX(value))], ["t", "x", "u", "p"], ["r"])

    costs = [Cost(label, at, function(label, build(*symbols[1:3])), weights)
             for at, terms in ((At.PATH, running), (At.FINAL, final)) for label, build, weights in terms]
    costs += [Cost(label, at, function(label, build(*symbols[1:3]))) for label, at, build in scalars]
    x, u = (np.tile(np.asarray(value, dtype=float), (2, 1)) for value in guess)
    phase = Phase("motion", system, Duration(duration, duration, duration), Guess(np.array([0.0, 1.0]), x, u),
                  start=Boundary(tuple(map(float, start)), (True,) * system.space.ndx), costs=tuple(costs))
    return Problem(name, (phase,), source="Crocoddyl 3.2.1")


def _pose(model: Model, frame: str, position: Sequence[float], weight: float, name: str = "gripperPose") -> Term:
    terms, p = RobotTerms(model), np.asarray(position, dtype=float)
    return name, lambda x, u: terms.pose_error(frame, x[:model.nq], _EYE, p), (weight,) * 6


def _state(space: Space, reference: Numbers, weights: Numbers, model: Model | None = None) -> Term:
    """minus(reference, x); joints of the model that turn without end take the short way round."""
    turns = [] if model is None else [model.v_slice(i).start for i, body in enumerate(model.bodies)
                                      if body.joint.kind == "continuous"]

    def away(x: Any, u: Any) -> Any:
        parts = ca.vertsplit(space.minus(ca.DM(reference), x))
        for i in turns:
            parts[i] -= 2 * np.pi * ca.floor(parts[i] / (2 * np.pi) + 0.5)
        return ca.vertcat(*parts)

    return "xReg", away, tuple(map(float, weights))


def _control(nu: int, weight: float) -> Term:
    return "uReg", lambda x, u: u, (weight,) * nu


def _frictionless(model: Model, armature: Sequence[float] = ()) -> Model:
    """The model without viscous damping; armature (kg m^2) for its first moving joints."""
    bodies, rotors = [], list(armature)
    for body in model.bodies:
        own = (rotors.pop(0),) if rotors and body.joint.kind != "fixed" else ()
        bodies.append(replace(body, joint=replace(body.joint, damping=(), armature=own)))
    return replace(model, bodies=tuple(bodies))


def _holding(model: Model, q: Sequence[float]) -> np.ndarray:
    """Generalised forces that hold a configuration at rest."""
    still = np.zeros(model.nv)
    return np.array(ca.DM(alg.inverse_dynamics(model, ca.DM(q), ca.DM(still), ca.DM(still)))).ravel()


# ---- arms ------------------------------------------------------------------------------------------------------------
def _reach(name: str, model: Model, robot: str, frame: str, target: Sequence[float], q: Sequence[float], published: float,
           iterations: int, optima: tuple[float, ...], guess: str) -> Case:
    """An arm under joint torques brings a frame to a pose, near its start configuration and with little torque, within 1 s."""
    system = robot_system(model)
    start = (*q, *(0.0,) * model.nv)
    from_guess = (system.space.neutral, (0.0,) * model.nv) if guess == "zero" else (start, _holding(model, q))
    problem = _problem(
        name, system, start, 1.0,
        [_pose(model, frame, target, 1.0), _state(system.space, start, (0.1,) * 2 * model.nv, model),
         _control(model.nv, 0.1)],
        [_pose(model, frame, target, 1000.0)], from_guess)
    return Case(problem, 100, _SYMPLECTIC, published, iterations, "zero", optima, robot)


def _kinova(guess: str) -> Case:
    model = _frictionless(read_urdf(find_robot("kinova")))
    return _reach("kinova", model, "kinova", "j2s6s200_end_effector", (0.6, 0.2, 0.5), _ARM_UP, 8.125078008, 72,
                  (3.698422748929, 6.869699575763, 8.125078005773), guess)


def _panda(guess: str) -> Case:
    # the second finger follows the first
    model = _frictionless(lock_joints(read_urdf(find_robot("panda")), {"panda_finger_joint1": 0.0}))
    return _reach("panda", model, "panda", "panda_hand", (0.4, 0.3, 0.5), _PANDA, 31.4323637, 87,
                  (5.832821659245, 9.882235648081, 13.75815028077, 14.0352312536, 15.62780989661, 31.43236369322), guess)


def _talos_arm(guess: str) -> Case:
    model = _frictionless(read_urdf(find_robot("talos_left_arm")), armature=(0.1,) * 6)
    # a link sits in the frame of its joint, gripper_left_joint
    return _reach("talos_arm", model, "talos_left_arm", "gripper_left_motor_double_link", (0.0, 0.0, 0.4), _TALOS, 6.6245983, 120,
                  (6.009848717659, 6.624598290153, 27.51714817349), guess)


def _kinova_inv(guess: str) -> Case:
    """The first problem with accelerations as controls; the torque that they take is a residual."""
    model = _frictionless(read_urdf(find_robot("kinova")))
    space, nq, nv = model_space(model), model.nq, model.nv
    names = tuple(f"a.{joint}" for joint in model.velocity_names)
    symbols = [ca.SX.sym("t"), ca.SX.sym("x", space.nx), ca.SX.sym("u", nv), ca.SX.sym("p", 0)]
    rate = ca.Function("rate", symbols, [ca.vertcat(symbols[1][nq:], symbols[2])], ["t", "x", "u", "p"], ["xi"])
    start = (*_ARM_UP, *(0.0,) * nv)

    def torque(x: Any, u: Any) -> Any:
        return alg.inverse_dynamics(model, x[:nq], x[nq:], u)

    problem = _problem(
        "kinova_inv", System("kinova", space, names, rate, model=model, formulation=Formulation(
            Form.INVERSE, Mechanism(model, direct_motors(model)))), start, 1.0,
        [_pose(model, "j2s6s200_end_effector", (0.6, 0.2, 0.5), 1.0), _state(space, start, (0.1,) * 2 * nv, model),
         ("uReg", torque, (0.1,) * nv)],
        [_pose(model, "j2s6s200_end_effector", (0.6, 0.2, 0.5), 1000.0)],
        (space.neutral if guess == "zero" else start, (0.0,) * nv))
    return Case(problem, 100, _SYMPLECTIC, 34.81328, 110, "zero", (3.698422748929, 7.779192489189, 34.81328147354), "kinova")


# ---- the others ------------------------------------------------------------------------------------------------------
def _quadrotor(guess: str) -> Case:
    """Four rotors at the ends of a cross, in turn counter-clockwise and clockwise, fly 1 m forward and up in 1 s."""
    plain = read_urdf(find_robot("quadrotor_base"), root="free_flyer")
    arm, drag, target = 0.1525, 1e-6 / 6.6e-5, (1.0, 0.0, 1.0)
    places = ((arm, 0.0, 0.0), (0.0, arm, 0.0), (-arm, 0.0, 0.0), (0.0, -arm, 0.0))
    body = plain.frame("base_link").body
    rotors = tuple(Frame(f"rotor{i}", body, Placement(position=place)) for i, place in enumerate(places))
    model = replace(plain, frames=(*plain.frames, *rotors))
    system = robot_system(model, actuated=(), thrusters=[
        Thruster(f"thrust{i}", f"rotor{i}", moment_ratio=-drag if i % 2 == 0 else drag) for i in range(4)])
    start, hover = system.space.neutral, model.mass * 9.81 / 4
    weights = 1e-6 * np.array((0.1,) * 3 + (1000.0,) * 9)
    problem = _problem(
        "quadrotor", system, start, 33 * 0.03,
        [_pose(model, "base_link", target, 0.01, "trackPose"), _state(system.space, start, weights), _control(4, 1e-6)],
        [_pose(model, "base_link", target, 3.0, "goalPose")],
        (start, (0.0,) * 4 if guess == "zero" else (hover,) * 4))
    return Case(problem, 33, _SYMPLECTIC, 0.00520864133, 24, "zero", (0.005208640921555, 0.007246672512431, 0.01328754884968),
                "quadrotor_base")


def _double_pendulum(guess: str) -> Case:
    """Both joints driven. Its published run starts at the start state with zero controls, where nothing holds it."""
    model = _frictionless(read_urdf(find_robot("double_pendulum")))
    system, start = robot_system(model), (3.14, 0.0, 0.0, 0.0)
    goal = np.array((1.0, 1.0, 0.1, 0.1))
    problem = _problem(
        "double_pendulum_cpp", system, start, 1.0,
        [_state(system.space, (0.0,) * 4, 1e-3 * goal), _control(2, 0.01)], [_state(system.space, (0.0,) * 4, 100 * goal)],
        ((0.0,) * 4, (0.0,) * 2) if guess == "zero" else (start, _holding(model, start[:2])))
    return Case(problem, 100, _SYMPLECTIC, 0.002910946607, 13, "hold", (0.002910946480271,), "double_pendulum")


def _unicycle(guess: str) -> Case:
    """x+ = x + 0.1 (v cos th, v sin th, w), cost 1/2 |10 x|^2 + 1/2 |u|^2 a step and 1/2 |10 x|^2 at the end."""
    def rate(x: Any, u: Any) -> Any:
        return 0.1 * ca.vertcat(ca.cos(x[2]) * u[0], ca.sin(x[2]) * u[0], u[1])

    system, start = _map("unicycle", ("x", "y", "th"), ("v", "w"), rate), (1.0, 0.0, 0.0)
    state = _state(system.space, (0.0,) * 3, (100.0,) * 3)
    problem = _problem("unicycle", system, start, 200.0, [state, _control(2, 1.0)], [state], (start, (0.0,) * 2))
    return Case(problem, 200, _DISCRETE, 80.90169944, 1, "zero", (80.90169944,))


def _lqr(guess: str) -> Case:
    """x+ = x + (u, 0), cost 1/2 |x|^2 + 1/2 |u|^2 + sum x + sum u a step and 1/2 |x|^2 + sum x at the end, from x = 0."""
    n, m = 80, 40
    system = _map("lqr80x40", [f"x{i}" for i in range(n)], [f"u{i}" for i in range(m)],
                  lambda x, u: ca.vertcat(u, ca.SX(n - m, 1)))

    def end(x: Any, u: Any) -> Any:
        return ca.sumsqr(x) / 2 + ca.sum1(x)

    problem = _problem("lqr80x40", system, (0.0,) * n, 100.0, (), (), ((0.0,) * n, (0.0,) * m),
                       [("stage", At.PATH, lambda x, u: end(x, u) + ca.sumsqr(u) / 2 + ca.sum1(u)), ("end", At.FINAL, end)])
    return Case(problem, 100, _DISCRETE, -2040.0, 1, "zero", (-2040.0,))


def _map(name: str, states: Sequence[str], controls: Sequence[str], rate: Callable[[Any, Any], Any]) -> System:
    """The system whose Euler step of length one adds rate(x, u)."""
    space = euclidean(tuple(states))
    symbols = [ca.SX.sym("t"), ca.SX.sym("x", space.nx), ca.SX.sym("u", len(controls)), ca.SX.sym("p", 0)]
    function = ca.Function("rate", symbols, [ca.densify(rate(*symbols[1:3]))], ["t", "x", "u", "p"], ["xi"])
    return System(name, space, tuple(controls), function)


_SYMPLECTIC = {"integrator": "semi_implicit_euler", "cost_quadrature": "rectangle"}
_DISCRETE = {"integrator": "euler", "cost_quadrature": "rectangle"}
_BUILDERS: dict[str, Callable[[str], Case]] = {
    "kinova": _kinova, "kinova_inv": _kinova_inv, "panda": _panda, "talos_arm": _talos_arm, "quadrotor": _quadrotor,
    "double_pendulum_cpp": _double_pendulum, "unicycle": _unicycle, "lqr80x40": _lqr,
}
CASES = tuple(_BUILDERS)
ROBOT_FREE = ("unicycle", "lqr80x40")
