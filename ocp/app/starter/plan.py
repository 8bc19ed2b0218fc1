"""A motion that a robot can make, from its own limits: where it starts and goes, how long it takes, what cannot be asked of it.

The joints move along cubics from rest to rest; velocities and efforts along them say how long that has to take. A robot that the
efforts of its own file cannot hold up gets a file that leaves these limits out, and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import casadi as ca
import numpy as np

from dynamics import algorithms as alg
from dynamics.algorithms.mass_matrix import bare_joints
from dynamics.mechanism import Mechanism
from dynamics.model.model import Model
from ocp.app.robot import resting
from ocp.errors import ProblemError

STEP, SHARE = 0.3, 0.25  # a joint moves so far [rad], at most that share of its range
SLIDE = 0.1  # m
EDGE = 0.1  # share of the range that is kept to its ends
FAST, STRONG = 0.6, 0.8  # shares of velocity and effort limits that the plan may use
DURATIONS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
SHORT = 3.0  # s
SAMPLES = 21


@dataclass(frozen=True)
class Plan:
    """start, goal: of joints of one degree of freedom that are driven; lock: of those that nothing drives while
    they move freely, and of those that move nothing with mass.

    others: joints that the file does not name; limits: kinds of limits that are left out; remarks: on each of these, in words.
    """

    start: dict[str, float]
    goal: dict[str, float]
    duration: float
    lock: dict[str, list[float]] = field(default_factory=dict)
    free: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    scales: tuple[float, ...] = ()


def make_plan(robot: Mechanism) -> Plan:
    """A joint move. Raises ProblemError for robots that cannot make one, saying why."""
    model = robot.model
    if not model.nv:
        raise ProblemError("no joint of it moves; a robot that flies or rolls as a whole takes --root free_flyer or planar",
                           where=f"robot {model.name!r}")
    lock = _floating(robot)
    if lock and model.nv == sum(model.kind(i).nv for i, body in enumerate(model.bodies) if body.joint.name in lock):
        raise ProblemError("nothing drives it: its file has no joint that a motor could move. Thrusters stand under "
                           "system.thrusters", where=f"robot {model.name!r}")
    floating, bare = tuple(lock), _bare(model)
    lock |= bare
    held = robot.locked(lock) if lock else robot
    q0 = _inside(held.model, resting(model) if not lock else without(model, resting(model), lock))
    driven = {name for motor in held.motors for name, _ in motor.gears}
    joints = [(i, body.joint) for i, body in enumerate(held.model.bodies)
              if body.joint.mimic is None and held.model.kind(i).nv == 1 and held.model.kind(i).nq == 1]
    free = tuple(joint.name for _, joint in joints if joint.name not in driven)
    target = q0.copy()
    for i, joint in joints:
        if joint.name in driven:
            at = held.model.q_slice(i).start
            speed = float(held.model.limit("velocity")[held.model.v_slice(i).start])
            target[at] = q0[at] + _step(held.model, joint.kind, at, q0[at], speed)
    if not driven:
        raise ProblemError("has no actuators", where=f"robot {model.name!r}")
    duration, limits, remarks = _timing(held, q0, target)
    if bare:
        remarks = (f"massless parts are fixed: {_some(list(bare))}", *remarks)
    if floating:
        remarks = (f"the base is fixed: nothing drives {', '.join(floating)}", *remarks)
    digits = 9 if held.model.configurations else 4
    start = {joint.name: float(round(q0[held.model.q_slice(i).start], digits)) for i, joint in joints}
    goal = {joint.name: float(round(target[held.model.q_slice(i).start], 4)) for i, joint in joints if joint.name in driven}
    others = tuple(body.joint.name for i, body in enumerate(held.model.bodies)
                   if body.joint.mimic is None and held.model.kind(i).nv > 1)
    return Plan(start, goal, duration, lock, (*free, *others), limits, remarks)


def _floating(robot: Mechanism) -> dict[str, list[float]]:
    """Joints of a root that moves freely and that nothing drives, where they rest."""
    model, found = robot.model, {}
    driven = {name for motor in robot.motors for name, _ in motor.gears}
    q = resting(model)
    for i, body in enumerate(model.bodies):
        if body.parent < 0 and model.kind(i).nv > 1 and body.joint.mimic is None and not robot.thrusters:
            names = model.velocity_names[model.v_slice(i)]
            if not driven.intersection(names):
                found[body.joint.name] = [float(round(x, 6)) for x in q[model.q_slice(i)]]
    return found


def _bare(model: Model) -> dict[str, list[float]]:
    """Joints that move nothing with mass or inertia, where they rest: no acceleration follows from what drives them."""
    bodies, q = {body for _, body in bare_joints(model)}, resting(model)
    return {body.joint.name: [float(round(x, 6)) for x in q[model.q_slice(i)]]
            for i, body in enumerate(model.bodies) if body.name in bodies}


def without(model: Model, q: np.ndarray, lock: dict[str, list[float]]) -> np.ndarray:
    """The configuration without the joints that are locked."""
    keep = np.ones(model.nq, dtype=bool)
    for i, body in enumerate(model.bodies):
        if body.joint.name in lock:
            keep[model.q_slice(i)] = False
    return q[keep]


def _inside(model: Model, q: np.ndarray) -> np.ndarray:
    """Inside the limits: a configuration that the file names at most on them, another a little inside."""
    lower, upper = model.limit("lower"), model.limit("upper")
    with np.errstate(invalid="ignore"):
        margin = np.where(np.isfinite(upper - lower), 0.0 if model.configurations else EDGE * (upper - lower), 0.0)
    return np.clip(q, np.where(np.isfinite(lower), lower + margin, -np.inf), np.where(np.isfinite(upper), upper - margin, np.inf))


def _step(model: Model, kind: str, at: int, q: float, speed: float) -> float:
    """How far a joint goes: towards the middle of its range, and no further than it comes in a short time."""
    lower, upper = float(model.limit("lower")[at]), float(model.limit("upper")[at])
    far = min(SLIDE if kind == "prismatic" else STEP, FAST * speed * SHORT / 1.5 if speed > 0 else STEP)
    if upper <= lower or not np.isfinite(upper - lower):
        return -far if lower < upper <= q + far else far
    return min(far, SHARE * (upper - lower)) * (1.0 if q <= (lower + upper) / 2 else -1.0)


def _timing(robot: Mechanism, q0: np.ndarray, q1: np.ndarray) -> tuple[float, tuple[str, ...], tuple[str, ...]]:
    """Duration, limits that must be left out, and remarks on these."""
    model = robot.model
    d = np.asarray(ca.Function("d", [], [ca.densify(alg.difference(model, ca.DM(q0), ca.DM(q1)))])()["o0"]).ravel()
    limits: list[str] = []
    remarks: list[str] = []
    speed = model.limit("velocity")
    still = [name for name, v, moved in zip(model.velocity_names, speed, d, strict=True) if v <= 0 and moved]
    if still:
        limits.append("velocity")
        remarks.append(f"velocity limits are left out: the file says 0 for {_some(still)}")
        speed = np.full(model.nv, np.inf)
    shut = [name for name, low, high in zip(model.coordinate_names, model.limit("lower"), model.limit("upper"), strict=True)
            if high <= low]
    if shut:
        limits.append("position")
        remarks.append(f"position limits are left out: the file allows {_some(shut)} no motion")
    moves = np.abs(d) > 0
    shortest = float(np.max(1.5 * np.abs(d[moves]) / (FAST * speed[moves]), initial=0.0))
    fitting = [T for T in DURATIONS if shortest <= T] or [float(np.ceil(shortest))]
    effort = _efforts(robot, q0, d)
    low, high = robot.control_limits[: len(robot.motors)].T if len(robot.motors) else (np.zeros(0), np.zeros(0))
    for T in fitting:
        u = effort(T)
        share = np.max(np.where(u > 0, u / np.maximum(high, 1e-300), u / np.minimum(low, -1e-300)), axis=0, initial=0.0)
        if (share <= STRONG).all():
            return T, tuple(limits), tuple(remarks)
    u = effort(fitting[-1])
    weak = [motor.name for motor, s in zip(robot.motors, share, strict=True) if not s <= STRONG]
    remarks.append(f"effort limits are left out: those of {_some(weak)} do not hold the robot up here with something to spare")
    return fitting[0], (*limits, "effort"), tuple(remarks)


def _efforts(robot: Mechanism, q0: np.ndarray, d: np.ndarray) -> Callable[[float], np.ndarray]:
    """Controls of the motors [samples, motors] along the cubic of duration T, as a function of T."""
    model = robot.model
    q, v, a = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv), ca.SX.sym("a", model.nv)
    r = ca.SX.sym("r")
    along = ca.Function("along", [r], [ca.densify(alg.integrate(model, ca.DM(q0), r * ca.DM(d)))])
    inverse = ca.Function("tau", [q, v, a], [ca.densify(robot.inverse_dynamics(q, v, a))])
    back = np.linalg.pinv(np.asarray(ca.densify(robot.selection).full()))

    def found(T: float) -> np.ndarray:
        rows = []
        for s in np.linspace(0.0, 1.0, SAMPLES):
            tau = inverse(along(3 * s**2 - 2 * s**3), d * (6 * s - 6 * s**2) / T, d * (6 - 12 * s) / T**2)
            rows.append(back @ np.asarray(tau).ravel())
        return np.array(rows)

    return found


def _some(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
