"""A problem file for a robot that flies on rotors: which of its joints or frames these are, and a flight from hover to hover."""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca
import numpy as np

from dynamics import algorithms as alg
from dynamics.mechanism import Thruster
from dynamics.model.model import Model
from ocp.app.robot import NamedRobot, resting
from ocp.app.starter.text import rendered

UPRIGHT = 0.7  # cosine to the vertical of an axis that lifts
TURN = 4 * np.pi  # rad: a joint with so wide a range turns on and on
ROTOR_NAMES = ("rotor", "prop")  # what frames are called that push
DRAG = 0.016  # m: moment of a propeller per force
STRONG = 2.5  # largest thrust beside that of hovering


@dataclass(frozen=True)
class Flight:
    """thrusters: of the file, or of the rotors; named: whether the robot's own file has them; lock: joints that are held; hover:
    the thrust of each [N]."""

    thrusters: tuple[Thruster, ...]
    named: bool
    lock: dict[str, list[float]]
    hover: float


def flight(robot: NamedRobot) -> Flight | None:
    """How it flies; None for what has no thrusters and not four rotors or more."""
    model, own = robot.mechanism.model, robot.mechanism.thrusters
    q, spins = resting(model), rotors(model)
    thrusters = own or _turning(model, q, spins)
    if len(thrusters) < 4 or len(thrusters) % 2:
        return None
    floats = [i for i, body in enumerate(model.bodies) if body.parent < 0 and model.kind(i).nv == 6]
    lock = {body.joint.name: [float(x) for x in q[model.q_slice(i)]] for i, body in enumerate(model.bodies)
            if i not in floats and model.kind(i).nv and body.joint.mimic is None}
    return Flight(thrusters, bool(own), lock, float(np.linalg.norm(model.gravity)) * model.mass / len(thrusters))


def rotors(model: Model) -> dict[str, np.ndarray]:
    """Bodies that turn without end about upright axes with nothing behind them, and the axis of each in its frame [3]; else frames
    that are called so, which push along z."""
    q, found = resting(model), {}
    for i, body in enumerate(model.bodies):
        if model.kind(i).nv != 1 or body.joint.kind not in ("revolute", "continuous") or model.children(i):
            continue
        (axis,) = body.joint.axes
        up = float((_poses(model, q, [body.name])[0][0] @ axis)[2])
        at = model.q_slice(i).start
        if abs(up) > UPRIGHT and not model.limit("upper")[at] - model.limit("lower")[at] < TURN:
            found[body.name] = np.sign(up) * np.asarray(axis, float)
    return found or {frame.name: np.array([0.0, 0.0, 1.0]) for frame in model.frames
                     if any(word in frame.name.lower() for word in ROTOR_NAMES)}


def _turning(model: Model, q: np.ndarray, spins: dict[str, np.ndarray]) -> tuple[Thruster, ...]:
    """A thruster for each rotor, in their order around the middle, every other turning the other way."""
    if not spins:
        return ()
    places = np.array([p[:2] for _, p in _poses(model, q, list(spins))])
    x, y = (places - places.mean(axis=0)).T
    around = [list(spins)[k] for k in np.argsort(np.arctan2(y, x), kind="stable")]
    made = {name: Thruster(name.rsplit("/", 1)[-1], name, (float(a), float(b), float(c)), (-1) ** k * DRAG)
            for k, name in enumerate(around) for a, b, c in (spins[name],)}
    return tuple(made[name] for name in spins)


def _poses(model: Model, q: np.ndarray, names: list[str]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rotation and origin of frames in the world."""
    symbol = ca.SX.sym("q", model.nq)
    frames = [alg.frame_pose(model, symbol, name) for name in names]
    found = ca.Function("poses", [symbol], [ca.densify(ca.SX(part)) for frame in frames for part in (frame.R, frame.p)]).call([q])
    return [(np.asarray(found[2 * k]), np.asarray(found[2 * k + 1]).ravel()) for k in range(len(names))]


def flying_file(robot: NamedRobot, found: Flight, command: str) -> str:
    """The file."""
    free = [t for t in found.thrusters if not np.isfinite(t.upper)]
    return rendered("flying.yaml.j2", command=command, robot=robot, title=f"{robot.stem} flies from hover to hover", flight=found,
                    bounds={t.name: [0.0, float(f"{STRONG * found.hover:.3g}")] for t in free})
