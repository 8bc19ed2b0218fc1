"""Files for a robot that stands on feet, whole-body control and gaits: which frames the feet are, how it stands, what it does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np
from scipy.linalg import null_space

from dynamics import algorithms as alg
from dynamics.model.model import Model
from dynamics.model.records import Geometry
from ocp.app.files.robot.states import configuration_by_name
from ocp.app.pages.meshes import UnreadableMesh, whole_mesh
from ocp.app.pages.scene import placed, solid_of
from ocp.app.robot import NamedRobot, ends, resting, single_joints
from ocp.app.starter.plan import without
from ocp.app.starter.text import flow, rendered, rpy_of
from ocp.control.ik import solve_ik
from ocp.control.tasks import pose_task, position_task, posture_task
from ocp.errors import ProblemError
from ocp.gaits import PATTERNS, roles, swings_of
from ocp.gaits.patterns import ALL
from ocp.gaits.postures import pose_of

EXACT = 9  # digits of a posture that touches the ground
SAME = 1e-6  # rad and m: how far solutions of inverse kinematics are off
MAX_HEIGHT_SPREAD, MIN_DEPTH_BELOW_ROOT = 0.06, 0.1  # m: how far feet lie apart in height, and at least below the root
FLAT, INSIDE = 0.02, 0.8  # half width of the smallest sole [m], and the share of it that is counted on
BAND = 0.02  # m: what lies so low on a foot is its sole
#: names of configurations in which robots stand, the surest word first
STANDING = ("half_sitting", "standing", "stand", "home")
#: what to do where the robot does not stand
REMEDY = "give a standing configuration, with bent knees, in its SRDF or MJCF file"
STRETCHED = 0.02  # m: of the velocities of a foot, the least that its joints make
BENT, NUDGE = 0.1, 0.3  # share of its height by which a stretched robot is lowered; rad, of the start of that


@dataclass(frozen=True)
class Foot:
    """A frame, and the points in it that touch: four corners of a sole, or its origin [m]."""

    frame: str
    points: tuple[tuple[float, ...], ...] = ((0.0, 0.0, 0.0),)

    def contact(self) -> str:
        """The foot as a contact in a file."""
        sole = "" if len(self.points) == 1 else f", points: {flow(self.points)}"
        return f"{{frame: {flow(self.frame)}{sole}, friction: 0.7, least: 1}}"

    def contact_text(self, model: Model, q: np.ndarray, more: dict[str, Any]) -> str:
        """As a contact of a problem, with more keys: the origin, or a flat sole of the size of the rectangle that it is at q."""
        if len(self.points) == 1:
            return f"contact: {flow({'frame': self.frame, 'friction': 0.7, **more})}"
        half = np.ptp(self.positions(model, q)[:, :2], axis=0) / 2
        up = pose_of(model, q, self.frame)[0][2]
        given = {"frame": self.frame, "position": _short(np.mean(self.points, axis=0)), "axis": _short(up),
                 "half_sizes": _short(half, 3), "friction": 0.7, **more}
        return f"flat_contact: {flow(given)}"

    def positions(self, model: Model, q: np.ndarray) -> np.ndarray:
        """The points [k, 3] in the world."""
        R, p = pose_of(model, q, self.frame)
        return np.asarray(np.array(self.points) @ R.T + p)


def standing_file(robot: NamedRobot, command: str) -> str:
    """The file. Raises ProblemError for robots that do not stand on feet, saying why."""
    return _file(robot, command, *standing(robot))


def walking_file(robot: NamedRobot, gait: str, command: str, *, receding: bool = False, legs: bool = False) -> str:
    """A problem file of a gait; receding: with a horizon in which it repeats; legs: joints that move no foot are locked. Raises
    ProblemError for robots that do not stand on feet and gaits that they do not have."""
    model, (root, q, feet) = robot.mechanism.model, standing(robot, points=gait != "stand")
    lock = _beside_legs(model, q, feet) if legs else {}
    if lock:
        q, robot = without(model, q, lock), replace(robot, mechanism=robot.mechanism.locked(lock))
        root, model = robot.mechanism.model.body_index(model.bodies[root].name), robot.mechanism.model
    at = {foot.frame: pose_of(model, q, foot.frame)[1].tolist() for foot in feet}
    swings_of(gait, list(at), roles(at))  # raises
    q = _on_the_ground(model, q, root, feet)
    written = configuration_by_name(model, np.round(q, EXACT) + 0.0)
    tall, holding = written["base"]["position"][2], _holding(model, q, root, feet)
    return rendered(
        "walking.yaml.j2", command=command, robot=robot, gait=gait, **written,
        feet={foot.frame: foot.contact_text(model, q, {"gains": [0, 50]} if receding else {"clearance": 0}) for foot in feet},
        given={"robot": robot.file, **({"root": robot.root} if robot.path.suffix == ".urdf" else {})}, lock=lock,
        weight=float(f"{holding:.2g}"), moves=PATTERNS[gait].groups not in (None, ALL),
        lift=min(0.05, round(0.15 * tall, 3)), advance=round(0.3 * tall, 2), periodic=_on_points(feet) and not receding,
        end=PATTERNS[gait].stance / 2,
        horizon=_horizon(model, q, root, tall, holding, bool(PATTERNS[gait].groups)) if receding else None)


def _horizon(model: Model, q: np.ndarray, root: int, tall: float, holding: float, steps: bool) -> dict[str, Any]:
    """Numbers of a receding horizon of a gait. Times go as those of a pendulum as long as the robot is tall [m]; holding
    [N^2 m^2]: efforts are weighed so that standing costs half a unit."""
    calm = np.full(model.nv, 0.03)
    calm[model.v_slice(root)] = [0, 0, 0, 1, 1, 1]
    swing = round(0.34 * np.sqrt(tall), 2)
    return {"trunk": model.bodies[root].name, "rpy": _short(rpy_of(pose_of(model, q, model.bodies[root].name)[0])),
            "swing": swing, "length": round(3 * swing, 2), "speed": round(0.9 * tall, 2) if steps else 0, "calm": calm.tolist(),
            "effort": float(f"{0.5 / holding:.2g}"), "low": float(f"{0.25 * tall:.2g}"), "push": float(f"{3 * model.mass:.2g}")}


def _beside_legs(model: Model, q: np.ndarray, feet: list[Foot]) -> dict[str, list[float]]:
    """Where the joints are that move no foot."""
    moving = set[int]()
    for foot in feet:
        body = model.frame(foot.frame).body
        while body >= 0:
            moving.add(body)
            body = model.bodies[body].parent
    return {body.joint.name: _short(q[model.q_slice(i)]) for i, body in enumerate(model.bodies)
            if i not in moving and model.kind(i).nv and body.joint.mimic is None}


def _holding(model: Model, q: np.ndarray, root: int, feet: list[Foot]) -> float:
    """Sum of the squares of the torques that hold a posture [N^2 m^2], every foot with its share of the weight."""
    still, share = ca.DM.zeros(model.nv), model.mass * np.linalg.norm(model.gravity) / len(feet)
    torques = alg.inverse_dynamics(model, ca.DM(q), still, still)
    for foot in feet:
        torques -= share * alg.frame_jacobian(model, ca.DM(q), foot.frame, "world_aligned")[2, :].T
    own = model.v_slice(root)
    return float(np.sum(np.delete(np.asarray(ca.Function("torques", [], [torques])()["o0"]), range(own.start, own.stop))**2))


def _on_the_ground(model: Model, q: np.ndarray, root: int, feet: list[Foot]) -> np.ndarray:
    """The posture with all feet on the ground exactly, soles flat, and the base over the origin."""
    R, p = pose_of(model, q, model.bodies[root].name)
    low = {foot.frame: np.mean(foot.positions(model, q)[:, 2]) for foot in feet}
    shift = np.array([p[0], p[1], np.mean(list(low.values()))])
    tasks = []
    for foot in feet:
        turn, at = pose_of(model, q, foot.frame)
        place = np.array([*(at - shift)[:2], at[2] - low[foot.frame]])
        tasks.append(pose_task(foot.frame, turn, place) if len(foot.points) > 1 else position_task(foot.frame, place))
    return _merged(q, solve_ik(model, [tasks, pose_task(model.bodies[root].name, R, p - shift)], q0=q, tolerance=10.0**-EXACT).q)


def _on_points(feet: list[Foot]) -> bool:
    """Whether the feet are two points, on which a robot can walk and not stand."""
    return len(feet) == 2 and any(len(foot.points) == 1 for foot in feet)


def standing(robot: NamedRobot, *, points: bool = False) -> tuple[int, np.ndarray, list[Foot]]:
    """The body of the root, a configuration [nq] in which the robot stands, and its feet. points: these may be two points. Raises
    ProblemError where it does not stand."""
    model, where = robot.mechanism.model, f"robot {robot.mechanism.model.name!r}"
    root = next((i for i, body in enumerate(model.bodies) if body.parent < 0 and model.kind(i).nv == 6), None)
    if root is None:
        raise ProblemError("its root is fixed to the world; for a URDF give --root free_flyer", where=where)
    reasons: list[ProblemError] = []
    for q in _postures(model, root):
        try:
            return root, q, _standing(model, q, root, where, points)
        except ProblemError as error:
            reasons.append(error)
    raise reasons[0]


def _standing(model: Model, q: np.ndarray, root: int, where: str, points: bool) -> list[Foot]:
    """The feet on which it stands. Raises ProblemError where it does not."""
    feet = _feet(model, q, pose_of(model, q, model.bodies[root].name)[1][2], where, points)
    _able(model, q, root, feet, where)
    com = _mass_centre(model, q)
    if not _on_points(feet) and not _carried(np.concatenate([foot.positions(model, q) for foot in feet])[:, :2], com):
        raise ProblemError(f"its centre of mass, at x = {com[0]:.3g}, y = {com[1]:.3g} m, does not lie over its feet "
                           f"({', '.join(foot.frame for foot in feet)}); {REMEDY}", where=where)
    return feet


def _mass_centre(model: Model, q: np.ndarray) -> np.ndarray:
    return np.asarray(ca.Function("com", [], [ca.densify(alg.centre_of_mass(model, ca.DM(q)))])()["o0"]).ravel()


def _file(robot: NamedRobot, command: str, root: int, q: np.ndarray, feet: list[Foot]) -> str:
    model = robot.mechanism.model
    (R, p), com = pose_of(model, q, model.bodies[root].name), _mass_centre(model, q)
    touching = np.concatenate([foot.positions(model, q) for foot in feet])
    ground = touching[:, 2].min()
    trunk, height = model.bodies[root].name, com[2] - ground
    joints = {name: float(round(q[at], 4)) + 0.0 for name, at in single_joints(model).items()}
    given = {"robot": robot.file, **({"root": robot.root} if robot.path.suffix == ".urdf" else {})}
    return rendered(
        "standing.yaml.j2", command=command, robot=robot, given=given, joints=joints, feet=feet, trunk=trunk,
        place=[float(round(x, 4)) for x in (p[0], p[1], p[2] - ground)], rpy=[round(float(x), 4) + 0.0 for x in rpy_of(R)],
        down=-float(round(0.06 * height, 3)), side=0.15 * float(np.abs(touching[:, 1] - com[1]).max()))


def _able(model: Model, q: np.ndarray, root: int, feet: list[Foot], where: str) -> None:
    """Raise ProblemError where links have no mass, or where legs are stretched out."""
    M = np.asarray(ca.Function("M", [], [ca.densify(alg.mass_matrix(model, ca.DM(q)))])()["o0"])
    scale = np.sqrt(np.maximum(np.diag(M), 0.0))
    idle = [name for name, size in zip(model.velocity_names, scale, strict=True) if size < 1e-9]
    if idle:
        some = ", ".join(idle[:4]) + (" .." if len(idle) > 4 else "")
        raise ProblemError(f"nothing that its joints {some} move has mass; a file can lock joints, or give mass to bodies",
                           where=where)
    own = model.v_slice(root)
    for foot in feet:
        J = np.asarray(ca.Function("J", [], [ca.densify(alg.frame_jacobian(model, ca.DM(q), foot.frame, "world_aligned"))])()["o0"])
        J = np.delete(J, range(own.start, own.stop), axis=1)
        flat = null_space(J[3:]) if len(foot.points) > 1 else np.zeros((0, 0))  # a sole moves without turning
        if np.linalg.svd(J[:3] @ flat if flat.shape[1] > 2 else J[:3], compute_uv=False)[2] < STRETCHED:
            raise ProblemError(f"the leg to {foot.frame!r} is stretched out; {REMEDY}", where=where)


def _postures(model: Model, root: int) -> list[np.ndarray]:
    """Configurations in which it may stand, the likeliest first."""
    known = {name.lower(): q for name, q in model.configurations.items()}
    order = [*(name for name in STANDING if name in known), *(name for name in known if name not in STANDING)]
    found = [np.asarray(known[name], dtype=float) for name in order] or [resting(model)]
    return [*found, *(bent for q in found[:1] for under in (False, True) if (bent := _bent(model, q, root, under)) is not None)]


def _bent(model: Model, q: np.ndarray, root: int, under: bool) -> np.ndarray | None:
    """The configuration with knees bent: feet where they are, or ``under`` the mass centre, the root lower, all else as near as
    may be. None where that fails."""
    name = model.bodies[root].name
    R, p = pose_of(model, q, name)
    try:
        feet = [foot.frame for foot in _feet(model, q, p[2], "")]
    except ProblemError:
        return None
    positions = {frame: pose_of(model, q, frame) for frame in feet}
    if under:
        away = np.mean([at[:2] for _, at in positions.values()], axis=0) - _mass_centre(model, q)[:2]
        positions = {frame: (turn, at - [*away, 0.0]) for frame, (turn, at) in positions.items()}
    down = np.array([0.0, 0.0, BENT * (p[2] - np.mean([at[2] for _, at in positions.values()]))])
    ankles = len(feet) == 2  # soles stay flat
    tasks = [pose_task(name, R, p - down), *(pose_task(frame, *at) if ankles else position_task(frame, at[1])
                                              for frame, at in positions.items())]
    lower, upper = model.limit("lower"), model.limit("upper")
    single = single_joints(model)
    # stretched legs are singular: from a little towards the middle of each joint's range, which is where knees bend
    start = q.copy()
    for at in single.values():
        if np.isfinite(lower[at]) and np.isfinite(upper[at]):
            start[at] += np.clip((lower[at] + upper[at]) / 2 - q[at], -NUDGE, NUDGE)
    answer = solve_ik(model, [tasks, posture_task(q[list(single.values())], joints=list(single))], q0=start, restarts=0)
    return _merged(q, answer.q) if max(answer.residuals[task.name] for task in tasks) < SAME else None


def _merged(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """The configuration after, with what hardly moved where it was."""
    return np.where(np.abs(after - before) < SAME, before, after)


def _short(values: Any, digits: int = 6) -> list[float]:
    return [float(x) + 0.0 for x in np.round(np.asarray(values, float), digits)]


def _feet(model: Model, q: np.ndarray, root: float, where: str, points: bool = True) -> list[Foot]:
    """The lowest ends of the tree; points: two of them may be points."""
    heights = {name: float(pose_of(model, q, name)[1][2]) for name in ends(model)}
    lowest = min(heights.values())
    names = [name for name, z in heights.items() if z < lowest + MAX_HEIGHT_SPREAD and z < root - MIN_DEPTH_BELOW_ROOT]
    if len(names) < 2:
        why = f"only {names[0]!r} reaches down" if names else "no limb of it reaches down below its root"
        raise ProblemError(f"does not stand on feet in any configuration that its file gives: {why}", where=where)
    feet = [_foot(model, q, name) for name in names]
    bare = [foot.frame for foot in feet if len(foot.points) == 1]
    if len(names) == 2 and bare:
        for frame in bare:
            for shape in model.bodies[model.frame(frame).body].geometry:
                if shape.kind == "mesh" and not Path(str(shape.path)).is_file():
                    raise ProblemError(f"the sole of {frame!r} is not known: its mesh {shape.path} does not exist", where=where)
        if not points:
            raise ProblemError(f"stands on two points ({', '.join(bare)}), on which no robot can stand; whole-body control of a "
                               "standing robot needs soles, or three feet", where=where)
    return feet if len(names) == 2 else [Foot(foot.frame) for foot in feet]


def _foot(model: Model, q: np.ndarray, frame: str) -> Foot:
    """A foot, with a sole where what is drawn of it is flat enough below."""
    (R, p), body = pose_of(model, q, frame), model.bodies[model.frame(frame).body]
    Rb, pb = pose_of(model, q, body.name)
    drawn = np.concatenate([np.zeros((0, 3)), *(_corners(one) for one in body.geometry)]) @ Rb.T + pb
    if not len(drawn):
        return Foot(frame)
    low = drawn[drawn[:, 2] < drawn[:, 2].min() + BAND]
    heading = np.array([[Rb[0, 0], Rb[1, 0]], [-Rb[1, 0], Rb[0, 0]]]) / max(np.hypot(Rb[0, 0], Rb[1, 0]), 1e-12)
    flat = low[:, :2] @ heading.T
    lower, upper = flat.min(axis=0), flat.max(axis=0)
    middle, half = (lower + upper) / 2, INSIDE * (upper - lower) / 2
    if half.min() < FLAT or np.hypot(Rb[0, 0], Rb[1, 0]) < 0.9:
        return Foot(frame)
    corners = np.array([[*(middle + half * (a, b)) @ heading, low[:, 2].min()] for a, b in ((1, 1), (1, -1), (-1, -1))])
    first, second, third = np.round((corners - p) @ R, 6)
    rows = (first, second, third, np.round(first - second + third, 6))  # of rounded corners the fourth is in their plane
    return Foot(frame, tuple(tuple(float(x) + 0.0 for x in row) for row in rows))


def _corners(shape: Geometry) -> np.ndarray:
    """Points [k, 3] of a shape in the frame of its body, those that bound it."""
    if shape.kind == "mesh":
        try:
            local = whole_mesh(str(shape.path))[0]
        except UnreadableMesh:
            return np.zeros((0, 3))
        return placed(local * (np.asarray(shape.size) if shape.size else 1.0), shape)
    return solid_of(0, shape).vertices if shape.kind == "box" else np.zeros((0, 3))  # others are round


def _carried(touching: np.ndarray, com: np.ndarray) -> bool:
    """Whether the mass centre lies over points [k, 2]: it is a convex combination of them."""
    from scipy.optimize import linprog

    A = np.vstack([touching.T, np.ones(len(touching))])
    return bool(linprog(np.zeros(len(touching)), A_eq=A, b_eq=[com[0], com[1], 1.0]).success)
