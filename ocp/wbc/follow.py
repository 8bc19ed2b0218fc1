"""Whole-body control that follows a solved motion: joints and base along it, contacts by its schedule, its contact forces.

Between samples configurations are cubic Hermite curves in the coordinates of the tangent space at the sample before, velocities
cubic Hermite curves, accelerations lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from dynamics import algorithms as alg
from dynamics.constraints import Contact
from dynamics.model.model import Model
from ocp.control import tasks as control
from ocp.control.stance import stances_of
from ocp.control.whole_body import ForceTask
from ocp.errors import ProblemError
from ocp.wbc.paths import At, Path, Source, path_kind
from ocp.wbc.setup import Assignment, Setup, Switch

Array = NDArray[np.float64]
FOLLOWED = "followed motion"


@dataclass(frozen=True, eq=False)
class Stretch:
    """A motion in which the contacts do not change.

    t [n] (s), increasing; q [n, nq], v [n, nv], a [n, nv]: configurations, velocities and accelerations at these times; contacts:
    those that are held; forces: of each of them on the robot [n, 3] (N, world axes), where they are known; ends [n-1, nv]:
    accelerations as the next time comes, where they jump there.
    """

    t: Array
    q: Array
    v: Array
    a: Array
    contacts: tuple[Contact, ...] = ()
    forces: Mapping[str, Array] = field(default_factory=dict)
    ends: Array | None = None


class Interpolation:
    """Motions of a model between samples."""

    def __init__(self, model: Model):
        self.nv = model.nv
        a, b, e = ca.SX.sym("a", model.nq), ca.SX.sym("b", model.nq), ca.SX.sym("e", model.nv)
        moved = alg.difference(model, a, alg.integrate(model, b, e))
        turn = ca.substitute(ca.jacobian(moved, e), e, ca.SX.zeros(model.nv))
        self._apart = ca.Function("apart", [a, b], [ca.densify(alg.difference(model, a, b)), ca.densify(ca.vec(ca.SX(turn)))])
        self._beyond = ca.Function("beyond", [a, e], [ca.densify(ca.SX(alg.integrate(model, a, e)))])

    def between(self, stretch: Stretch, times: Array) -> tuple[Array, Array, Array]:
        """(q, v, a) within a stretch. The tangent of the curve at the end of an interval is the velocity there in coordinates of
        its beginning: the inverse of the right Jacobian of the step between them."""
        k = np.clip(np.searchsorted(stretch.t, times, side="right") - 1, 0, len(stretch.t) - 2)
        h = (stretch.t[k + 1] - stretch.t[k])[:, None]
        r = (times - stretch.t[k])[:, None] / h
        first, last, end = 3 * r**2 - 2 * r**3, r**3 - 2 * r**2 + r, r**3 - r**2
        step, turn = (np.asarray(part.full()).T for part in self._apart(stretch.q[k].T, stretch.q[k + 1].T))
        ahead = np.einsum("kji,kj->ki", turn.reshape(len(times), self.nv, self.nv), stretch.v[k + 1])
        before = stretch.a[k + 1] if stretch.ends is None else stretch.ends[k]
        along = first * step + h * (last * stretch.v[k] + end * ahead)
        v = stretch.v[k] + first * (stretch.v[k + 1] - stretch.v[k]) + h * (last * stretch.a[k] + end * before)
        return np.asarray(self._beyond(stretch.q[k].T, along.T).full()).T, v, (1.0 - r) * stretch.a[k] + r * before


class Motion:
    """The stretches of a motion of a model one after the other; velocities may jump between them. Raises ProblemError for fewer
    than two samples, and for coordinates that do not fit the model."""

    def __init__(self, model: Model, stretches: Sequence[Stretch]):
        self.model, self.stretches, self._on = model, tuple(stretches), Interpolation(model)
        for stretch in self.stretches:
            shape = len(stretch.t)
            if shape < 2 or stretch.q.shape != (shape, model.nq) or not stretch.v.shape == stretch.a.shape == (shape, model.nv):
                raise ProblemError(f"expected at least two samples of {model.nq} coordinates and {model.nv} velocities, got "
                                   f"{stretch.q.shape} and {stretch.v.shape}", where="follow")
    @property
    def begins(self) -> float:
        """Time of the first state [s]."""
        return float(self.stretches[0].t[0])

    @property
    def ends(self) -> float:
        """Time of the last state [s]."""
        return float(self.stretches[-1].t[-1])

    def stretch_at(self, t: float) -> Stretch:
        """The stretch of a time; at a change of contacts the later one."""
        return next((stretch for stretch in reversed(self.stretches) if stretch.t[0] <= t), self.stretches[0])

    def sample(self, times: Array) -> tuple[Array, Array, Array]:
        """(q [n, nq], v [n, nv], a [n, nv]) at times (s); before and after the motion its ends at rest."""
        q, v, a = np.zeros((len(times), self.model.nq)), *np.zeros((2, len(times), self.model.nv))
        rows: dict[int, list[int]] = {}
        for i, t in enumerate(np.clip(times, self.begins, self.ends)):
            rows.setdefault(id(self.stretch_at(t)), []).append(i)
        for stretch in self.stretches:
            if own := rows.get(id(stretch)):
                inside = np.clip(times[own], stretch.t[0], stretch.t[-1])
                q[own], v[own], a[own] = self._on.between(stretch, inside)
        still = (times < self.begins) | (times > self.ends)
        v[still], a[still] = 0.0, 0.0
        return q, v, a

    def force(self, contact: str, times: Array) -> Array:
        """Force [n, 3] of a contact at times (s); zero where it is not held or not known."""
        found = np.zeros((len(times), 3))
        for i, t in enumerate(times):
            stretch = self.stretch_at(t)
            if t <= self.ends and contact in stretch.forces:
                found[i] = [np.interp(t, stretch.t, column) for column in stretch.forces[contact].T]
        return found


@dataclass(frozen=True)
class Following:
    """How a motion is followed. run: where a solved one is kept; mpc: the file of a receding horizon that plans it; priority: of
    the joints; gain: frequency of the errors (rad/s); forces: contact forces are followed, too, one priority lower."""

    run: str = ""
    mpc: str = ""
    priority: int = 1
    gain: float = 20.0
    forces: bool = True


class _Sampled:
    """A target that was computed beforehand for every step of the controller."""

    def __init__(self, rate: float, value: Array, first: Array, second: Array):
        self.rate, self.value, self.first, self.second = rate, value, first, second

    def __call__(self, t: float) -> At:
        k = min(max(round(t * self.rate), 0), len(self.value) - 1)
        return self.value[k], self.first[k], self.second[k]


def follow(setup: Setup, motion: Motion, how: Following = Following()) -> Setup:
    """The setup with tasks that follow a motion, and the motion's schedule of contacts; time counts from its beginning.

    All joints are followed as one posture, a floating base among them, and the forces of contacts of one point. Contacts of the
    motion that the setup does not know are added. Tasks of the setup keep their priorities.
    """
    rate = setup.rate
    times = motion.begins + np.arange(setup.steps + 1) / rate
    tasks = [*setup.tasks, followed(setup, how, _Sampled(rate, *motion.sample(times)))]
    plans, switches = _contacts(setup, motion)
    if how.forces:
        for plan in plans:
            values = motion.force(plan.name, times)
            stances = stances_of(plan)
            if len(stances) == 1 and values.any():
                none = np.zeros_like(values)
                tasks.append(Assignment(f"force of {plan.name}", how.priority + 1, ForceTask(stances[0].name, np.zeros(3)),
                                        Path.of("vector", _Sampled(rate, values, none, none))))
    return replace(setup, contacts=plans, tasks=tuple(tasks), switches=(*setup.switches, *switches))


def followed(setup: Setup, how: Following, source: Source) -> Assignment:
    """The posture of all joints, a floating base among them, whose target (q, v, a) a source says."""
    model = setup.mechanism.model
    joints = [body.joint.name for i, body in enumerate(model.bodies) if model.kind(i).nv and body.joint.mimic is None]
    at, along = (np.concatenate([np.r_[part(model.joint_index(joint))] for joint in joints])
                 for part in (model.q_slice, model.v_slice))

    def target(t: float) -> At:
        q, v, a = source(t)
        return q[at], v[along], a[along]

    posture = control.posture_task(setup.start[:model.nq][at], joints=joints, gain=how.gain, name=FOLLOWED)
    return Assignment(FOLLOWED, how.priority, posture, Path.of(path_kind(posture), target))


def _contacts(setup: Setup, motion: Motion) -> tuple[tuple[Contact, ...], list[Switch]]:
    """The contacts, taken as the motion begins, and when each is taken and released after that."""
    plans = {plan.name: plan for plan in setup.contacts}
    for stretch in motion.stretches:
        for contact in stretch.contacts:
            plans.setdefault(contact.name, contact.but(ramp=0.0))
    held = [{contact.name for contact in stretch.contacts} for stretch in motion.stretches]
    scheduled = set().union(*held)
    switches = [Switch(float(stretch.t[0]) - motion.begins, "take" if name in now else "release", name)
                for stretch, before, now in zip(motion.stretches[1:], held, held[1:], strict=False)
                for name in sorted(before ^ now)]
    return tuple(plan.but(taken=plan.name in held[0]) if plan.name in scheduled else plan for plan in plans.values()), switches
