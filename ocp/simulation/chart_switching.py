"""Steps that go from one chart of rotations to another before it gets singular, and look back over the change.

After a step whose ``|det S|`` is small, the chart of the joint is the one of the twelve sequences of Euler angles that is farthest
from singular at this state and the one before, and both states go on in it: methods that look back keep their order without
beginning anew. What is seen is in the chart of the file all along. Source: Sueda, "Analytically differentiable articulated rigid
body dynamics", section 2.6 and Table 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from dynamics.errors import near
from dynamics.joints import charts
from dynamics.mechanism.quaternions import charted_rotations, in_charts
from ocp.bridge import robot_system
from ocp.errors import ProblemError
from ocp.problem import System
from ocp.simulation.charts import LEAVE, ChartSteps, Joints, Switch
from ocp.simulation.one_step import StepError
from ocp.simulation.stepper import Stepper, stepper


class SwitchedCharts(ChartSteps):
    """A stepper whose joints change their charts. Integrals as those of ``ChartSteps``."""

    def reset(self, x: ArrayLike, t: float = 0.0) -> None:
        """Start from state x at time t [s] in the preferred charts."""
        super().reset(x, t)
        self._names = tuple(turn.chart for turn in self._turns)
        self._movers: dict[tuple[str, ...], Stepper] = {self._names: self._chart}
        self._before, self._h = self._own, 0.0

    def step(self, u: ArrayLike, dt: float) -> np.ndarray:
        """Advance by dt [s] under constant controls u [nu]."""
        u = np.asarray(u, float)
        driven = self._pushed(u)
        left = {turn.joint for turn, name in zip(self._turns, self._names, strict=True) if name != turn.chart}
        if driven & left:
            joint = min(driven & left)
            raise StepError(joint, float("nan"), f"a motor acts on the coordinates of joint {joint!r}, whose chart was left")
        mover, before = self._movers[self._names], self._own
        after = mover.step(u, dt)
        x = self._seen(after)
        self.risen = mover.risen if mover is self._chart else self._rises(mover, x, u, dt)
        self._t, self._x, self._own, self._before, self._h = float(self._t + dt), x, after, before, dt
        self._det = self._measures(x)
        self._switch(driven)
        return self.measure()

    def _switch(self, driven: Joints) -> None:
        """Other charts for joints that come near to singular."""
        names, states, nq = list(self._names), [self._before.copy(), self._own.copy()], self._given.model.nq
        for k, turn in enumerate(self._turns):
            q, v = slice(turn.q, turn.q + 3), slice(nq + turn.v, nq + turn.v + 3)
            det = float(charts.measure(names[k], ca.DM(self._own[q])))
            if abs(det) > LEAVE:
                continue
            if why := "only Euler angles are switched" if turn.chart == charts.VECTOR else self._why(turn.joint, driven):
                if turn.joint not in self._kept or abs(det) < abs(self._kept[turn.joint].det):
                    self._kept[turn.joint] = Switch(turn.joint, names[k], self._t, det, "stays", why)
                continue
            old = charts.joint_of(names[k])
            name = charts.best([np.array(old.transform(ca.DM(state[q])).R) for state in states])
            for state in states:
                found = charts.switch(charts.ChartState(names[k], state[q], state[v], np.zeros(3)), name)
                state[q], state[v] = found.q, found.v
            self._switches.append(Switch(turn.joint, names[k], self._t, det, "switches", name))
            names[k] = name
        if tuple(names) == self._names:
            return
        self._names, (self._before, self._own) = tuple(names), states
        mover = self._in_charts()
        mover.reset(self._own, self._t)
        mover.look_back(self._before, self._h, self.risen)

    def _in_charts(self) -> Stepper:
        if self._names not in self._movers:
            mechanism = self._given.mechanism or self._given.implicit
            other = in_charts(mechanism, dict(zip(self._turns, self._names, strict=True)))
            system: System = replace(robot_system(other, parameters=dict(zip(
                self._given.parameters, self._given.parameter_values, strict=True))), derivatives=self._given.derivatives)
            work: Sequence[ca.Function] = [system.power] if any(f is self._given.power for f in self._integrands) else []
            self._movers[self._names] = stepper(system, self._how[0], work, self._how[1])
        return self._movers[self._names]

    def _seen(self, own: np.ndarray) -> np.ndarray:
        """The state in the charts of the file that goes on from the one before."""
        x, nq = own.copy(), self._given.model.nq
        for turn, name in zip(self._turns, self._names, strict=True):
            if name != turn.chart:
                q, v = slice(turn.q, turn.q + 3), slice(nq + turn.v, nq + turn.v + 3)
                spin = np.asarray(charts.joint_of(name).subspace(ca.DM(own[q])))[3:] @ own[v]
                turned = np.asarray(charts.to_quaternion(name, ca.DM(own[q]))).ravel()
                x[q], x[v] = charts.continued(turn.chart, turned, spin, (self._x[q], self._x[v]))
        return x


#: what happens where charts of rotations get singular: on in a quaternion, or in another chart
CHARTS = ("quaternion", "switch")


def charted(system: System, integrator: str, integrands: Sequence[ca.Function] = (), mode: str = "auto", how: str = CHARTS[0]
            ) -> Stepper:
    """The stepper of a system, as ``stepper`` takes and makes it; of robots with charts of rotations one that leaves them. how: one
    of CHARTS. Raises ProblemError for another."""
    if how not in CHARTS:
        raise ProblemError(f"must be one of {', '.join(CHARTS)}, got {how!r}{near(how, CHARTS)}", where="charts")
    if system.model is None or system.period is not None or not charted_rotations(system.model):
        return stepper(system, integrator, integrands, mode)
    return (SwitchedCharts if how == "switch" else ChartSteps)(system, integrator, integrands, mode)
