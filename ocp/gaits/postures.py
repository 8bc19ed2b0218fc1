"""Where the feet and the base of a walking robot are at the events of its gait, and postures in which they are there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np

from dynamics import algorithms as alg
from dynamics.constraints import Constraint, FlatContact
from dynamics.constraints.contacts import Contact
from dynamics.model.model import Model
from ocp.control.ik import solve_ik
from ocp.control.tasks import Task, pose_task, position_task, posture_task
from ocp.errors import ProblemError
from ocp.gaits.schedule import Landing, Schedule, Stretch
from ocp.gaits.sway import sway

Array = np.ndarray
REACHED = 1e-6  # m and rad: feet so near are where they are to be
RESTARTS = 10  # of inverse kinematics, from random configurations


@dataclass(frozen=True)
class Course:
    """advance [2]: of the base over the whole motion [m]; lift [m]: of feet at mid-swing; landings: of every foot in order; levels:
    the heights of the ground [m] on which it stands, the first one at the start; periodic: the base moves at the end as at the
    start."""

    advance: tuple[float, ...]
    lift: float
    landings: Mapping[str, tuple[Landing, ...]]
    levels: Mapping[str, tuple[float, ...]]
    periodic: bool = False

    def foot_position(self, schedule: Schedule, foot: str, origin: Array, time: float, up: Array) -> tuple[Array, Array]:
        """Where a foot from ``origin`` is at a time, on a parabola from its last foothold to the next; and the ground below [3].
        up: the normal."""
        own = schedule.swings[foot]
        begun = sum(lift < time - schedule.near for lift, _ in own)
        if not begun:
            return origin, origin
        last, after = (self._landed(foot, origin, k, len(own), up) for k in (begun - 1, begun))
        lift, land = own[begun - 1]
        f = min((time - lift) / (land - lift), 1.0)
        ground = (1 - f) * last + f * after
        return ground + 4 * f * (1 - f) * self.lift * up, ground

    def _landed(self, foot: str, origin: Array, swings: int, of: int, up: Array) -> Array:
        """Where a foot stands after some of its swings."""
        place, given = origin + np.r_[self.advance, 0.0] * swings / of, self.landings.get(foot, ())
        if 0 < swings <= len(given):
            centre = np.array(given[swings - 1].centre)
            place[:2] = np.where(np.isfinite(centre), centre, place[:2])
        rise = self.levels[foot][swings] - self.levels[foot][0]
        return place + (up @ (origin - place) + rise) * np.array([0.0, 0.0, 1.0 / up[2]]) if up[2] else place + rise * up


def postures(model: Model, contacts: Mapping[str, Contact], schedule: Schedule, stretches: Sequence[Stretch], course: Course,
             q0: Array, constraints: Sequence[Constraint] = ()) -> tuple[list[Array], list[Array]]:
    """Configurations [nq] and velocities [nv] at the start of each stretch and at the end of the last, by inverse kinematics: feet
    at their footholds or on their swing paths, the base above its support, joints as near to q0 as possible. constraints: of the
    mechanism, contacts excluded. Raises ProblemError where feet cannot reach."""
    root, start = model.bodies[0].name, {name: stood(model, q0, c) for name, c in contacts.items()}
    (R, p), carried = pose_of(model, q0, root), _carried(model, contacts, start, schedule, course, q0)
    joints = [body.joint.name for i, body in enumerate(model.bodies) if model.kind(i).nv and not body.joint.mimic]
    stay = posture_task(np.concatenate([q0[model.q_slice(model.joint_index(name))] for name in joints]), joints=joints)
    found, speeds, q = list[Array](), list[Array](), q0
    before = {name: pose_of(model, q0, c.frame)[1] for name, c in contacts.items()} | {root: p}
    for time in (0.0, *(one.end for one in stretches)):
        ways = {name: course.foot_position(schedule, name, start[name][1], time, c.axes.full()[2]) for name, c in contacts.items()}
        base, speed = carried(time, [ground - start[name][1] for name, (_, ground) in ways.items()])
        places = {name: place for name, (place, _) in ways.items()}
        feet = {name: _foot_task(c, start[name][0], places[name]) for name, c in contacts.items()}
        trunk = [pose_task(root, R, p + base)] if model.kind(0).nv == 6 else []
        if any(np.linalg.norm(place - before[name]) > REACHED for name, place in (places | {root: p + base}).items()):
            result = solve_ik(model, [[*feet.values()], *([trunk] if trunk else []), stay], q0=q, tolerance=REACHED,
                              constraints=constraints, restarts=RESTARTS)
            missed = {name: result.residuals[task.name] for name, task in feet.items()}
            if not missed[worst := max(missed, key=lambda name: missed[name])] <= 10 * REACHED:
                where = ", ".join(f"{x:.3g}" for x in places[worst])
                raise ProblemError(f"the foot {worst!r} does not reach [{where}] m at {time:.3g} s with the other feet in place: "
                                   f"inverse kinematics misses it by {missed[worst]:.2g} m", where="gait")
            q, before = result.q, places | {root: p + base}
        found.append(q)
        moving = [(feet[name], _speed(course, schedule, name, start[name][1], time, c.axes.full()[2]))
                  for name, c in contacts.items()]
        speeds.append(_velocity(model, q, [*moving, *((task, speed) for task in trunk)]))
    return found, speeds


def _carried(model: Model, contacts: Mapping[str, Contact], start: Mapping[str, tuple[Array, Array]], schedule: Schedule,
             course: Course, q0: Array) -> Callable[[float, Sequence[Array]], tuple[Array, Array]]:
    """(time, displacements of the grounds below the feet) -> displacement and velocity [3] of the base: along gravity as these in
    the mean, across it so that the feet that stand carry it."""
    gravity = np.array(model.gravity)
    g = float(np.linalg.norm(gravity))
    if not g:
        return lambda time, grounds: (np.mean(grounds, axis=0), np.zeros(3))
    up = -gravity / g
    across = np.eye(3) - np.outer(up, up)
    com = np.array(ca.DM(ca.densify(alg.centre_of_mass(model, ca.DM(q0))))).ravel()
    feet = {name: at for name, (_, at) in start.items()}
    height = float(up @ (com - np.mean(list(feet.values()), axis=0)))

    def middle(time: float) -> Array | None:
        standing = [name for name, own in schedule.swings.items()
                    if not any(lift + schedule.near < time < land - schedule.near for lift, land in own)]
        centres = [course.foot_position(schedule, name, feet[name], time, contacts[name].axes.full()[2])[1] for name in standing]
        return across @ (np.mean(centres, axis=0) - np.mean(list(feet.values()), axis=0)) if standing else None

    if height <= 0:
        return lambda time, grounds: (np.mean(grounds, axis=0), np.zeros(3))
    t, c, speed = sway(schedule.duration, middle, height, g, periodic=course.periodic)
    if course.periodic:  # about the feet, wherever the mass centre is in the posture
        c += across @ (np.mean(list(feet.values()), axis=0) - com)

    def at(time: float, grounds: Sequence[Array]) -> tuple[Array, Array]:
        moved, velocity = (np.array([np.interp(time, t, column) for column in rows.T]) for rows in (c, speed))
        return moved + (np.eye(3) - across) @ np.mean(grounds, axis=0), velocity

    return at


def _speed(course: Course, schedule: Schedule, foot: str, origin: Array, time: float, up: Array) -> Array:
    """Velocity [3] of a foot: zero in stance, at lift-off and at touch-down."""
    if not any(lift + schedule.near < time < land - schedule.near for lift, land in schedule.swings[foot]):
        return np.zeros(3)
    step = 1e-6 * schedule.duration
    later, earlier = (course.foot_position(schedule, foot, origin, time + s, up)[0] for s in (step, -step))
    return (later - earlier) / (2 * step)


def _velocity(model: Model, q: Array, moving: Sequence[tuple[Task, Array]]) -> Array:
    """The smallest velocity [nv] with which what tasks hold moves at these velocities [3] and does not turn, by least squares."""
    if not any(speed.any() for _, speed in moving):
        return np.zeros(model.nv)
    rows, wanted = list[Array](), list[Array]()
    for task, speed in moving:
        J = alg.frame_jacobian(model, ca.DM(q), task.shape.frame, "world_aligned")
        size = 6 if task.shape.kind == "pose" else 3
        rows.append(np.array(ca.DM(ca.densify(J)))[:size])
        wanted.append(np.r_[speed, 0, 0, 0][:size])
    return np.linalg.lstsq(np.vstack(rows), np.concatenate(wanted), rcond=1e-9)[0]


def stood(model: Model, q: Array, contact: Contact) -> tuple[Array, Array]:
    """R [3, 3] of the frame of a contact, and its position p [3] moved along the normal until the contact touches."""
    R, p = pose_of(model, q, contact.frame)
    return R, p - float(np.min(np.array(ca.DM(ca.densify(contact.gap(model, ca.DM(q))))))) * contact.axes.full()[2]


def _foot_task(contact: Contact, R: Array, position: Array) -> Task:
    return pose_task(contact.frame, R, position) if isinstance(contact, FlatContact) or len(getattr(contact, "points", ((),))) > 2 \
        else position_task(contact.frame, position)


def pose_of(model: Model, q: Array, frame: str) -> tuple[Array, Array]:
    """R [3, 3] and p [3] of a frame in the world."""
    pose = alg.frame_pose(model, ca.DM(q), frame)
    R, p = (np.asarray(ca.DM(ca.densify(part))) for part in (pose.R, pose.p))
    return R, p.ravel()
