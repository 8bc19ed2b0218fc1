"""Whole-body control that follows the plan of a receding horizon: two loops, each at its own rate."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dynamics.model.model import Model
from ocp.errors import ProblemError
from ocp.mpc.controller import Controller
from ocp.wbc.follow import Following, Interpolation, Stretch, followed
from ocp.wbc.paths import At
from ocp.wbc.setup import Setup

Array = NDArray[np.float64]
SLACK = 1e-9  # of a period: an instant this near has come


class PlannedMotion:
    """The plan of a controller, improved once in its sampling period, as a target (q, v, a) for every step of a faster loop.

    seconds: what each improvement took (s); failed: how many of them failed, when the plan before goes on.
    """

    def __init__(self, controller: Controller, model: Model, rate: float):
        """rate (Hz): of the faster loop. Raises ProblemError where the states of the plan are not those of the robot."""
        system, robot = controller.phase.system, controller.phase.system.robot
        if robot is None or robot.model.coordinate_names != model.coordinate_names or system.nx != model.nq + model.nv:
            raise ProblemError(f"the receding horizon has the states {', '.join(system.space.names)}; the robot of this file has "
                               f"the coordinates {', '.join(model.coordinate_names)}", where="follow")
        if controller.options.rate > rate:
            raise ProblemError(f"plans are made at {controller.options.rate:g} Hz, faster than they are followed, {rate:g} Hz",
                               where="follow")
        self.controller, self.model, self.rate, self._on = controller, model, rate, Interpolation(model)
        self.steps = int(np.ceil(rate * controller.options.period)) + 1
        self.seconds: list[float] = []
        self.failed = 0

    def begin(self, x: Array) -> None:
        """Plan from the state x [nq + nv] at time 0. Raises ProblemError where there is no plan."""
        self.controller.reset(x)
        self.seconds, self.failed = [], 0
        self._next = 0.0

    def update(self, t: float, x: Array) -> None:
        """Improve the plan where a sampling period is over, from the state x [nq + nv] at time t (s)."""
        period = self.controller.options.period
        if t < self._next - SLACK * period:
            return
        began = time.perf_counter()
        self.failed += self.controller.update(x, t) != 0
        plan, system = self.controller.plan, self.controller.phase.system
        times = t + np.arange(self.steps) / self.rate
        n = min(int(np.searchsorted(plan.t, times[-1])) + 1, len(plan.u))
        nq, nv, knots, states = self.model.nq, self.model.nv, plan.t[:n + 1], plan.x[:n + 1]
        inputs, values = plan.u[:n].T, np.tile(plan.parameters[:, None], n)
        begin, end = (np.asarray(system.rate(knots[None, where], states[where].T, inputs, values).full()).T[:, nv:]
                      for where in (slice(0, n), slice(1, n + 1)))
        stretch = Stretch(knots, states[:, :nq], states[:, nq:], np.vstack([begin, end[-1:]]), ends=end)
        self._begins, self._samples = t, self._on.between(stretch, np.minimum(times, knots[-1]))
        self.seconds.append(time.perf_counter() - began)
        self._next += period

    def __call__(self, t: float) -> At:
        k = min(max(round((t - self._begins) * self.rate), 0), self.steps - 1)
        q, v, a = self._samples
        return q[k], v[k], a[k]


def follow_plan(setup: Setup, plan: PlannedMotion, how: Following) -> Setup:
    """The setup with a task that follows a plan. Raises ProblemError where there is no plan at its start."""
    plan.begin(setup.start)
    plan.update(0.0, setup.start)
    return replace(setup, planner=plan, tasks=(*setup.tasks, followed(setup, how, plan)))
