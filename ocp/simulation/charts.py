"""Steps that leave charts of rotations before they get singular: Euler angles at gimbal lock, rotation vectors at a whole turn.

Between two steps a joint goes on in a quaternion, with the same pose and body twist; methods that look back begin anew. What is
seen is in the chart of the file all along (``dynamics.joints.charts.continued``). A chart that was left is not taken again: nothing
is gained by it, and every change restarts a method that looks back. What is written in the coordinates of a joint (springs,
dampers, armature, constraints) has no finite meaning at its singular place: such a joint stays in its chart. So does one while a
motor acts on its rates, and where a motor sets in later, it returns to its chart. The trigger on det S, and the switch of rates:
Sueda, "Analytically differentiable articulated rigid body dynamics", Table 3, Eq. 2.40, and the text after Eq. 2.52; there from
chart to chart, here to coordinates that need no further switch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from dynamics import spatial
from dynamics.algorithms import random_configuration
from dynamics.errors import ModelError
from dynamics.joints import charts
from dynamics.joints.derivatives import joint_derivatives
from dynamics.mechanism.quaternions import charted_rotations, in_quaternions
from ocp.bridge import robot_system
from ocp.errors import ProblemError
from ocp.integrators import INTEGRATORS
from ocp.problem import System
from ocp.simulation.one_step import StepError, Stretch, by_steps
from ocp.simulation.stepper import Stepper, stepper

#: |det S| below which a chart is left, and below half of which a step that ended there is made again without it
LEAVE = 0.5
#: states at which a system and its twin are compared, and how near accelerations have to be
TRIES, SAME = 4, 1e-6
#: events in words, and times that a sentence names
SAYS = {"leaves": "left its chart {} for a quaternion", "returns": "returned to its chart {} for a motor",
        "stays": "stays in its chart {}, nearest to singular", "switches": "changed its chart {}"}
MAX_SPOTS = 5
GONE = ("leaves", "switches")
Joints = frozenset[str]


class Switch(NamedTuple):
    """Event of the chart of a joint at t [s], and det S there. event: it ``leaves`` its chart, ``returns`` to it, or ``stays``
    in it, then at the smallest det S, or ``switches`` to another; why: it stays, or the other chart."""

    joint: str
    chart: str
    t: float
    det: float
    event: str
    why: str = ""


class Twin:
    """The same system with the rotations of some joints in quaternions. Raises ModelError or ProblemError where there is none."""

    def __init__(self, system: System, joints: Joints):
        mechanism = system.mechanism or system.implicit
        if mechanism is None:
            raise ProblemError("the controls or parameters of this form of the system act on its coordinates")
        self._given, self.turns = system, [turn for turn in charted_rotations(mechanism.model) if turn.joint in joints]
        self.system = replace(robot_system(in_quaternions(mechanism, joints), parameters=dict(
            zip(system.parameters, system.parameter_values, strict=True))), derivatives=system.derivatives)
        x, a, nq, nv = ca.SX.sym("x", system.nx), ca.SX.sym("a", mechanism.model.nv), mechanism.model.nq, mechanism.model.nv
        q, at, spins, accelerations = [], 0, x[nq:] + ca.SX(nv, 1), a + ca.SX(nv, 1)
        for turn in self.turns:
            own, rates, v = x[turn.q:turn.q + 3], x[nq + turn.v:nq + turn.v + 3], slice(turn.v, turn.v + 3)
            d = joint_derivatives(charts.joint_of(turn.chart), own, rates)
            q += [x[at:turn.q], charts.to_quaternion(turn.chart, own)]
            spins[v] = spatial.angular(d.S) @ rates
            accelerations[v] = spatial.angular(d.S) @ a[v] + spatial.angular(d.S_dot) @ rates
            at = turn.q + 3
        self._map = ca.Function("twin", [x, a], [ca.densify(ca.vertcat(*q, x[at:nq], spins)), ca.densify(accelerations)])
        self._still = np.zeros(nv)

    def states(self, x: np.ndarray) -> np.ndarray:
        """States [nx'] of the twin, or [k, nx'] of states [k, nx]."""
        found = np.asarray(self._map(x.T, self._still)[0]).T
        return found if x.ndim == 2 else found[0]

    def seen(self, x: np.ndarray, before: np.ndarray) -> np.ndarray:
        """The state [nx] of the system that goes on from the one before, of a state [nx'] of the twin."""
        nq = self._given.nx - len(self._still)
        start = len(x) - len(self._still)
        pieces, at, v = [], 0, x[start:].copy()
        for turn, (q, spin) in zip(self.turns, self.spots, strict=True):
            own = slice(turn.q, turn.q + 3), slice(nq + turn.v, nq + turn.v + 3)
            angles, v[turn.v:turn.v + 3] = charts.continued(turn.chart, x[q], x[spin], (before[own[0]], before[own[1]]))
            pieces += [x[at:q.start], angles]
            at = q.stop
        return np.concatenate([*pieces, x[at:start], v])

    @cached_property
    def spots(self) -> list[tuple[slice, slice]]:
        """Where quaternion and angular velocity of each turn sit in states of the twin."""
        start = self.system.nx - len(self._still)
        return [(slice(turn.q + k, turn.q + k + 4), slice(start + turn.v, start + turn.v + 3)) for k, turn in enumerate(self.turns)]

    def check(self, driven: np.ndarray) -> None:
        """Whether the twin has the accelerations of the system at random states, controls that are not driven [nu] among them.
        Raises ModelError where it has not: something acts on the coordinates."""
        given, model, rng = self._given, self._given.model, np.random.default_rng(0)
        if given.nu != self.system.nu:
            raise ModelError("its controls act on its coordinates")
        for _ in range(TRIES):
            x = np.concatenate([random_configuration(model, rng), rng.standard_normal(model.nv)])
            for turn in self.turns:
                x[turn.q:turn.q + 3] = rng.uniform(0.5, 1.0, 3)  # where no chart is singular
            u, p = np.where(driven, 0.0, rng.standard_normal(given.nu)), np.array(given.parameter_values)
            found = np.asarray(self._map(x, np.asarray(given.rate(0.0, x, u, p)).ravel()[model.nv:])[1]).ravel()
            own = np.asarray(self.system.rate(0.0, self.states(x), u, p)).ravel()[model.nv:]
            if not np.all(np.abs(found - own) <= SAME * (1.0 + np.abs(own).max())):
                raise ModelError("armature, damping, friction or another force acts on its coordinates")


def event_lines(switches: Sequence[Switch]) -> list[str]:
    """Chart events of each joint, how often and when."""
    found = []
    for joint, chart, event in dict.fromkeys((s.joint, s.chart, s.event) for s in switches):
        own = [s for s in switches if (s.joint, s.chart, s.event) == (joint, chart, event)]
        spots = ", ".join(f"t = {s.t:.6g} s (det S = {s.det:.2g})" for s in own[:MAX_SPOTS]) + ", .." * (len(own) > MAX_SPOTS)
        times = "" if event == "stays" else "once, " if len(own) == 1 else f"{len(own)} times, "
        found.append(f"joint {joint!r} {SAYS[event].format(chart)} {times}at {spots}{own[0].why and ': ' + own[0].why}")
    return found


class ChartSteps:
    """A stepper that leaves charts of rotations where they get singular. switches: what happened since the state was set.

    Integrals while a chart is left: of the power by the method, all others by the trapezoidal rule over the states that are seen,
    as integrands are written in the coordinates of the file: of second order.
    """

    def __init__(self, system: System, integrator: str, integrands: Sequence[ca.Function] = (), mode: str = "auto"):
        self._given, self._how, self._integrands = system, (integrator, mode), tuple(integrands)
        self._chart = stepper(system, integrator, integrands, mode)
        self.notes, self._twins, self._stays = self._chart.notes, dict[Joints, tuple[Twin, Stepper]](), dict[str, str]()
        self._turns, self._kept = charted_rotations(system.model), dict[str, Switch]()
        x = ca.SX.sym("x", system.nx)
        sizes = (charts.measure(turn.chart, x[turn.q:turn.q + 3]) for turn in self._turns)
        self._dets = ca.Function("dets", [x], [ca.vertcat(*sizes)])
        mechanism = system.mechanism or system.implicit
        rates = {system.model.velocity_names[turn.v + i]: turn.joint for turn in self._turns for i in range(3)}
        self._motors = [{rates[v] for v, _ in motor.gears if v in rates} for motor in mechanism.motors] if mechanism else []
        self.risen, self._switches = np.zeros(len(integrands)), list[Switch]()
        self.reset(system.space.neutral)

    def reset(self, x: ArrayLike, t: float = 0.0) -> None:
        """Start from state x at time t [s]."""
        self._t, self._x, self._left = float(t), np.array(x, float), Joints()
        self._own = self._x  # the state that is seen, as the joints that left make it
        self._chart.reset(x, t)
        self._det = self._measures(self._x)
        self._switches, self._kept = [], {}

    @property
    def switches(self) -> tuple[Switch, ...]:
        """Changes of chart so far."""
        return *self._switches, *self._kept.values()

    def measure(self) -> np.ndarray:
        """The state [nx]."""
        return self._x.copy()

    def step(self, u: ArrayLike, dt: float) -> np.ndarray:
        """Advance by dt [s] under constant controls u [nu]."""
        u, before = np.asarray(u, float), self._det
        pushed = self._pushed(u)
        self._go(self._wanted(pushed))
        try:
            x = self._moved(u, dt)
            after = self._measures(x)
            beyond = self._leaving({joint: 2 * det * np.sign(before[joint]) for joint, det in after.items()}, pushed)
        except StepError:
            beyond = self._leaving(dict.fromkeys(before, 0.0), pushed)
            if not beyond:
                raise
        if beyond:  # the step went too far in a chart
            self._go(self._left | beyond)
            x = self._moved(u, dt)
            after = self._measures(x)
        self._t, self._x, self._det, self._own = float(self._t + dt), x, after, self._mover.measure()
        return self.measure()

    def run(self, u: np.ndarray, t: np.ndarray) -> Stretch:
        """One step for every row of controls u [k, nu] between times t [k + 1] s."""
        return by_steps(self.step, lambda: self.risen, u, t)

    def look_back(self, before: np.ndarray, h: float, rose: np.ndarray) -> None:
        """Nothing: a change of charts is made inside."""

    def _pushed(self, u: np.ndarray) -> Joints:
        """Joints on whose rates a motor acts."""
        return frozenset().union(*(joints for joints, control in zip(self._motors, u, strict=False) if control))

    def _rises(self, mover: Stepper, x: np.ndarray, u: np.ndarray, dt: float) -> np.ndarray:
        """Of integrals in a step that ends in x, made in other coordinates than those of the file."""
        p = np.array(self._given.parameter_values)
        return np.array([mover.risen[0] if f is self._given.power else dt / 2 * float(
            f(self._t, self._x, u, p) + f(self._t + dt, x, u, p)) for f in self._integrands])

    def _measures(self, x: np.ndarray) -> dict[str, float]:
        """det S of each joint, of several turns in it the smallest one."""
        found: dict[str, float] = {}
        for turn, det in zip(self._turns, np.asarray(self._dets(x)).ravel().tolist(), strict=True):
            if turn.joint not in found or abs(det) < abs(found[turn.joint]):
                found[turn.joint] = det
        return found

    def _wanted(self, pushed: Joints) -> Joints:
        """Joints without a chart in the next step. Raises StepError where a motor acts on rates that have no meaning."""
        dets = self._det
        for joint in sorted(self._left & pushed):
            if abs(dets[joint]) < charts.SINGULAR:
                raise StepError(joint, float("nan"), f"a motor acts on the coordinates of joint {joint!r}, whose chart is singular "
                                f"at t = {self._t:.6g} s (det S = {dets[joint]:.2g})")
        for joint, det in dets.items():
            why = "" if abs(det) >= LEAVE or joint in self._left - pushed else self._why(joint, pushed)
            if why and (joint not in self._kept or abs(det) < abs(self._kept[joint].det)):
                self._kept[joint] = Switch(joint, self._chart_of(joint), self._t, det, "stays", why)
        return (self._left - pushed) | self._leaving({joint: abs(det) for joint, det in dets.items()}, pushed)

    def _leaving(self, sizes: dict[str, float], pushed: Joints) -> Joints:
        """Joints that leave their charts, of those whose size of det S is small."""
        return frozenset(joint for joint, size in sizes.items()
                         if size < LEAVE and joint not in self._left and not self._why(joint, pushed))

    def _why(self, joint: str, pushed: Joints) -> str:
        return "a motor acts on its rates" if joint in pushed else self._stay(joint)

    def _stay(self, joint: str) -> str:
        """Why a joint cannot leave its chart; empty where it can."""
        if joint not in self._stays:
            try:
                twin = Twin(self._given, Joints([joint]))
                twin.check(np.array([joint in joints for joints in self._motors] + [False] * (self._given.nu - len(self._motors))))
                if (method := INTEGRATORS.get(self._how[0])) is not None:
                    method.check(twin.system)
                self._stays[joint] = ""
            except (ModelError, ProblemError) as error:
                self._stays[joint] = str(error)
        return self._stays[joint]

    def _go(self, joints: Joints) -> None:
        """On with these joints in quaternions from the state that is seen; where they were in some before, from those."""
        if joints == self._left:
            return
        state = self._x
        if joints:
            twin, known = self._twin(joints)[0], {}
            state = twin.states(self._x)
            if self._left:
                old = self._twin(self._left)[0]
                known = dict(zip(old.turns, old.spots, strict=True))
            for turn, spots in zip(twin.turns, twin.spots, strict=True):
                for here, there in zip(spots, known.get(turn, ()), strict=False):
                    state[here] = self._own[there]
        for joint in sorted(joints ^ self._left):
            event = "leaves" if joint in joints else "returns"
            self._switches.append(Switch(joint, self._chart_of(joint), self._t, self._det[joint], event))
        self._left, self._own = joints, state
        self._mover.reset(state, self._t)

    @property
    def _mover(self) -> Stepper:
        return self._twin(self._left)[1] if self._left else self._chart

    def _chart_of(self, joint: str) -> str:
        return next(turn.chart for turn in self._turns if turn.joint == joint)

    def _twin(self, joints: Joints) -> tuple[Twin, Stepper]:
        if joints not in self._twins:
            twin = Twin(self._given, joints)
            work = [twin.system.power] if any(f is self._given.power for f in self._integrands) else []
            self._twins[joints] = twin, stepper(twin.system, self._how[0], work, self._how[1])
        return self._twins[joints]

    def _moved(self, u: np.ndarray, dt: float) -> np.ndarray:
        """The state that is seen after a step, and what integrals rose by."""
        if not self._left:
            x, self.risen = self._chart.step(u, dt), self._chart.risen
            return x
        twin, mover = self._twin(self._left)
        x = twin.seen(mover.step(u, dt), self._x)
        self.risen = self._rises(mover, x, u, dt)
        return x
