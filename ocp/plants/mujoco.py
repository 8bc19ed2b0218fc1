"""MuJoCo as a plant (the extra ``mujoco``): the robot with planes to touch, torques at its joints, forces that push it.

Contacts are tiny spheres around the points, against planes that lie lower by their radius, with the elliptic cone and a stiff
constraint. MuJoCo's contacts are soft: they give way by micrometres, and creep. Forces and thrusters of the mechanism are evaluated
by its own functions at every time step and applied from there on; closures of loops by fixed, spherical and revolute joints are
MuJoCo's constraints, soft as contacts are.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamics.constraints import Closure, Contact, PointContact
from dynamics.kernels import compile_kernel
from dynamics.lie import so3
from dynamics.mechanism import Mechanism
from dynamics.model.model import Model
from ocp.errors import ProblemError
from ocp.plants.integrated import Push
from ocp.plants.touching import touches

Array = NDArray[np.float64]
RADIUS = 1e-4  # m, of the spheres: they stand for points, and roll by their radius times the angle of the link
SLIGHT, SMALL = 1e-6, 0.05  # of the robot's mass, and m: radius of inertia, of a body without mass that touches something
CLOSED_BY = ("fixed", "spherical", "revolute")
KINDS = {"free_flyer": "free", "spherical": "ball", "revolute": "hinge", "continuous": "hinge", "prismatic": "slide"}


class MujocoPlant:
    """A plant (`ocp.plants.Plant`) with x = (q, v) of a mechanism and its controls u; ``forces`` as those of the hybrid plant.

    timestep (s): MuJoCo's own; a control is constant over as many as fit. Raises ProblemError where MuJoCo is not installed, and
    for joints and constraints that this plant does not know.
    """

    def __init__(self, mechanism: Mechanism, contacts: Sequence[Contact], *, pushes: Sequence[Push] = (), timestep: float = 5e-4):
        try:
            self._mj: Any = importlib.import_module("mujoco")
        except ImportError as error:
            raise ProblemError("MuJoCo is not installed; pip install 'lieocp[mujoco]'", where="plant 'mujoco'") from error
        _check(mechanism)
        self.mechanism, self.pushes, self.timestep = mechanism, tuple(pushes), timestep
        model = self.robot = mechanism.model
        self.points = touches(contacts)
        closures = [part for part in mechanism.constraints if isinstance(part, Closure)]
        self.model = self._mj.MjModel.from_xml_string(mjcf(model, self.points, timestep, closures))
        self.data = self._mj.MjData(self.model)
        self._joints = []
        for i, body in enumerate(model.bodies):
            if model.kind(i).nv:
                j = self.model.joint(body.joint.name)
                self._joints.append((body.joint.kind, model.q_slice(i), model.v_slice(i), int(j.qposadr[0]), int(j.dofadr[0])))
        q, v, u = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv), ca.SX.sym("u", mechanism.nu)
        effort = mechanism.motor_effort(u) + mechanism.force(q, v)
        if mechanism.thrusters:
            effort += mechanism.thrust_effort(q, u[len(mechanism.motors):])
        self._effort = compile_kernel(ca.Function("effort", [q, v, u], [ca.densify(ca.SX(effort))]))
        self._changes = bool(mechanism.forces or mechanism.thrusters)  # within a control step
        self._pushed = [self._frame(push.frame) for push in self.pushes]
        self._geoms = [self.model.geom(f"point {k}").id for k in range(len(self.points))]

    # ---- the protocol -----------------------------------------------------------------------------------------------
    def reset(self, x: ArrayLike, t: float = 0.0) -> None:
        """Begins at x [nq + nv] and t (s)."""
        x = np.asarray(x, float)
        self._mj.mj_resetData(self.model, self.data)
        self.data.time = t
        q, v = x[: self.robot.nq], x[self.robot.nq:]
        for kind, qs, vs, qa, va in self._joints:
            self.data.qpos[qa:qa + qs.stop - qs.start] = q[qs]
            w = v[vs].copy()
            if kind == "free_flyer":  # MuJoCo: linear velocity in world axes, angular in the body's
                w[:3] = _rotation(q[qs][3:]) @ w[:3]
            self.data.qvel[va:va + w.size] = w
        self._mj.mj_forward(self.model, self.data)

    def measure(self) -> Array:
        """The state [nq + nv], without noise."""
        q, v = np.zeros(self.robot.nq), np.zeros(self.robot.nv)
        for kind, qs, vs, qa, va in self._joints:
            q[qs] = self.data.qpos[qa:qa + qs.stop - qs.start]
            v[vs] = self.data.qvel[va:va + vs.stop - vs.start]
            if kind == "free_flyer":
                at = slice(vs.start, vs.start + 3)
                v[at] = _rotation(q[qs][3:]).T @ v[at]
        return np.concatenate([q, v])

    def step(self, u: ArrayLike, dt: float) -> Array:
        """Holds u [nu] for dt (s), a whole number of time steps; the state afterwards."""
        controls, x = np.asarray(u, float), self.measure()
        count = round(dt / self.timestep)
        if count < 1 or abs(count * self.timestep - dt) > 1e-6 * dt:
            raise ProblemError(f"a control step of {dt:g} s is no multiple of the time step, {self.timestep:g} s", where="plant")
        self._drive(x, controls)
        for k in range(count):
            if k and self._changes:
                self._drive(self.measure(), controls)
            self.data.xfrc_applied[:] = 0.0
            for push, (body, local) in zip(self.pushes, self._pushed, strict=True):
                if push.time - 1e-9 <= self.data.time < push.time + push.duration - 1e-9:
                    turned = self.data.xmat[body].reshape(3, 3)
                    arm = self.data.xpos[body] + turned @ local - self.data.xipos[body]
                    self.data.xfrc_applied[body] += push.scale * np.r_[push.force, np.cross(arm, push.force)]
            self._mj.mj_step(self.model, self.data)
        return self.measure()

    def _drive(self, x: Array, u: Array) -> None:
        """Applies what motors, thrusters and forces do at a state."""
        q, v = x[: self.robot.nq], x[self.robot.nq:]
        effort = np.ravel(self._effort(q, v, u))
        for kind, qs, vs, _, va in self._joints:
            own = effort[vs].copy()
            if kind == "free_flyer":
                own[:3] = _rotation(q[qs][3:]) @ own[:3]
            self.data.qfrc_applied[va:va + own.size] = own

    @property
    def forces(self) -> dict[str, Array]:
        """Force [3] (N, world axes, on the robot) at every point, by name, as of the last step of time."""
        found = {point.name: np.zeros(3) for point in self.points}
        local = np.zeros(6)
        for i in range(self.data.ncon):
            contact = self.data.contact[i]
            which = [k for k, geom in enumerate(self._geoms) if geom in (contact.geom1, contact.geom2)]
            if not which:
                continue
            self._mj.mj_contactForce(self.model, self.data, i, local)
            force = contact.frame.reshape(3, 3).T @ local[:3]  # on the second geom
            sign = 1.0 if contact.geom2 == self._geoms[which[0]] else -1.0
            found[self.points[which[0]].name] += sign * force
        return found

    def _frame(self, name: str) -> tuple[int, Array]:
        """(body of MuJoCo, point in it [3]) of a frame of the robot."""
        frame = self.robot.frame(name)
        return self.model.body(self.robot.bodies[frame.body].name).id, np.asarray(frame.placement.position, float)


def mjcf(model: Model, points: Sequence[Contact] = (), timestep: float = 5e-4, closures: Sequence[Closure] = ()) -> str:
    """The tree as MJCF text, with a sphere at each point and the plane that it may touch, and its loops; nothing else collides.

    MuJoCo has no moving bodies without mass: their joints go to the one body that they carry; those that touch something get
    SLIGHT of the robot's mass."""
    soft = f'solref="{4 * timestep:g} 1" solimp="0.99 0.9999 0.0001 0.5 2"'
    sites, loops = _loops(model, closures, soft)

    def moved(i: int, R: Array, p: Array) -> str:
        """The joint of a body whose frame, at rest, is (R, p) in the body that has the joint."""
        joint = model.bodies[i].joint
        if joint.kind == "free_flyer":
            return f'<freejoint name="{joint.name}"/>'
        if not model.kind(i).nv:
            return ""
        axis = "" if joint.kind == "spherical" else f'axis="{_numbers(R @ joint.axes[0])}" '
        return (f'<joint name="{joint.name}" type="{KINDS[joint.kind]}" pos="{_numbers(p)}" {axis}'
                f'damping="{_first(joint.damping)}" armature="{_first(joint.armature)}"/>')

    def body(i: int) -> str:
        chain, poses, R, p = [i], [], np.eye(3), np.zeros(3)
        while _passes(model, chain[-1], {*sites, *(model.frame(point.frame).body for point in points)}):
            chain += model.children(chain[-1])
        for k in chain:
            joint = model.bodies[k].joint
            R, p = R @ np.array(joint.placement.rotation, float), p + R @ np.asarray(joint.placement.position, float)
            poses.append((R, p))
        made = "".join(moved(k, R.T @ turned, R.T @ (at - p)) for k, (turned, at) in zip(chain, poses, strict=True))
        i = chain[-1]
        b, inertia = model.bodies[i], np.array(model.bodies[i].inertia.inertia)
        full = [inertia[0, 0], inertia[1, 1], inertia[2, 2], inertia[0, 1], inertia[0, 2], inertia[1, 2]]
        geoms = sites.get(i, "")
        for k, point in enumerate(points):
            assert isinstance(point, PointContact)
            frame = model.frame(point.frame)
            if frame.body == i:
                at = np.asarray(frame.placement.position) + np.array(frame.placement.rotation, float) @ point.points[0]
                geoms += (f'<geom name="point {k}" type="sphere" size="{RADIUS}" pos="{_numbers(at)}" mass="0" contype="0" '
                          'conaffinity="0"/>')
        mass = b.inertia.mass
        if not mass and model.kind(i).nv:
            mass = SLIGHT * model.mass
            full = [mass * SMALL**2] * 3 + [0.0] * 3
        inside = "" if not mass else (f'<inertial pos="{_numbers(b.inertia.com)}" mass="{mass:.17g}" '
                                      f'fullinertia="{_numbers(full)}"/>')
        place = f'pos="{_numbers(p)}" quat="{_quaternion(R)}"'
        return (f'<body name="{b.name}" {place}>{made}{inside}{geoms}' + "".join(body(j) for j in model.children(i)) + "</body>")

    planes, pairs = _ground(points, soft)
    roots = "".join(body(j) for j in model.children(-1))
    return (f'<mujoco><compiler angle="radian" boundmass="0" boundinertia="0"/><option timestep="{timestep:g}" '
            f'cone="elliptic" impratio="100" integrator="implicitfast" tolerance="1e-12" iterations="200" '
            f'gravity="{_numbers(model.gravity)}"/><worldbody>{planes}{sites.get(-1, "")}{roots}</worldbody>'
            f'<contact>{pairs}</contact><equality>{loops}</equality></mujoco>')


def _ground(points: Sequence[Contact], soft: str) -> tuple[str, str]:
    """(planes, the pairs of a plane and a point that may touch)."""
    planes, pairs = "", ""
    for k, point in enumerate(points):
        n, friction = point.plane[2], point.friction or 0.0
        at = (point.height - RADIUS) * n
        planes += (f'<geom name="plane {k}" type="plane" size="5 5 0.1" pos="{_numbers(at)}" quat="{_quaternion(point.plane.T)}" '
                   'contype="0" conaffinity="0"/>')
        pairs += (f'<pair geom1="plane {k}" geom2="point {k}" condim="{3 if friction else 1}" '
                  f'friction="{max(friction, 1e-5):.17g} {max(friction, 1e-5):.17g} 0.005 0.0001 0.0001" '
                  f'{soft}/>')
    return planes, pairs


def _loops(model: Model, closures: Sequence[Closure], soft: str) -> tuple[dict[int, str], str]:
    """(sites by body, what holds them together): a weld, or one point, or two on the axis of a hinge."""
    sites: dict[int, str] = {}
    loops = ""
    for k, closure in enumerate(closures):
        axis = np.asarray(closure.axis, float) / np.linalg.norm(closure.axis)
        for j, away in enumerate([np.zeros(3), axis][:1 + (closure.joint == "revolute")]):
            for end, name in enumerate((closure.first, closure.second)):
                frame = model.frame(name)
                R, p = np.array(frame.placement.rotation, float), np.asarray(frame.placement.position, float)
                sites[frame.body] = sites.get(frame.body, "") + (f'<site name="loop {k} {j} {end}" pos="{_numbers(p + R @ away)}" '
                                                                 f'quat="{_quaternion(R)}"/>')
            kind = "weld" if closure.joint == "fixed" else "connect"
            loops += f'<{kind} site1="loop {k} {j} 0" site2="loop {k} {j} 1" {soft}/>'
    return sites, loops


def _passes(model: Model, i: int, touched: set[int]) -> bool:
    """Whether a body has no mass and nothing on it, and moves a single other one."""
    return bool(model.kind(i).nv and model.bodies[i].joint.kind != "free_flyer" and not model.bodies[i].inertia.mass
                and len(model.children(i)) == 1 and i not in touched)


def _check(mechanism: Mechanism) -> None:
    model = mechanism.model
    for i, body in enumerate(model.bodies):
        if model.kind(i).nv and (body.joint.kind not in KINDS or body.joint.mimic is not None):
            raise ProblemError(f"joint {body.joint.name!r} is {body.joint.kind}"
                               f"{' and mimics another' if body.joint.mimic else ''}; this plant supports {', '.join(KINDS)}",
                               where="plant 'mujoco'")
    for part in mechanism.constraints:
        if isinstance(part, Contact):
            raise ProblemError(f"{part.name!r} is a contact among the constraints of the robot; give it to the plant as a contact",
                               where="plant 'mujoco'")
        if not isinstance(part, Closure) or part.joint not in CLOSED_BY:
            what = f"a closure by a {part.joint} joint" if isinstance(part, Closure) else f"a {type(part).__name__}"
            raise ProblemError(f"{part.name!r} is {what}; this plant supports only closures by {', '.join(CLOSED_BY)} joints; "
                               "use the hybrid plant", where="plant 'mujoco'")


def _numbers(values: ArrayLike) -> str:
    return " ".join(f"{float(x):.17g}" for x in np.ravel(values))


def _first(values: ArrayLike | None) -> str:
    return _numbers(np.atleast_1d(values if values is not None and np.size(values) else 0.0)[:1])


def _rotation(w: Array) -> Array:
    a, b, c, d = w
    u, n = np.array([b, c, d]), 2.0 / float(w @ w)
    return np.asarray((a * a * n - 1.0) * np.eye(3) + n * (np.outer(u, u) + a * np.array([[0, -d, c], [d, 0, -b], [-c, b, 0]])))


def _quaternion(R: ArrayLike) -> str:
    phi = np.asarray(so3.log(np.array(R, float)).full()).ravel()
    angle = float(np.linalg.norm(phi))
    return _numbers(np.r_[np.cos(angle / 2), (np.sin(angle / 2) / angle if angle > 1e-12 else 0.5) * phi])
