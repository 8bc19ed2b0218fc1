"""The plant: a system under our own integrator, with substeps and disturbances; its dynamics may differ from the model's.

Noise is Gaussian in the tangent space, ``x [+] w``. Kicks are jumps of the state, pushes act for a while; a substep is cut
where one begins or ends, so that both come exactly on time. Everything random comes from one seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from dynamics import algorithms as alg
from dynamics.errors import near
from dynamics.kernels import Kernel, compile_many
from dynamics.lie.expression import Expr
from dynamics.mechanism import Mechanism
from ocp.errors import ProblemError, check_counts
from ocp.integrators import INTEGRATORS, refuse_history
from ocp.problem import Cost, System
from ocp.simulation import integrand, step_function

INTEGRATED = "integrated"
_SLACK = 1e-9  # s; events closer than this to a substep's end belong to it


@dataclass(frozen=True)
class Kick:
    """A jump ``x [+] change`` at one time [s]; change [ndx]."""

    time: float
    change: tuple[float, ...]


@dataclass(frozen=True)
class Push:
    """Something that acts from ``time`` for ``duration`` [s].

    rate [ndx]: added to the tangent rate of the state; controls [nu]: added to the control after its bounds; force [3] (N, world
    axes) at the origin of ``frame`` of a robot. Empty: none of that kind. scale: factor of all of them.
    """

    time: float
    duration: float
    rate: tuple[float, ...] = ()
    controls: tuple[float, ...] = ()
    frame: str = ""
    force: tuple[float, ...] = ()
    scale: float = 1.0


@dataclass(frozen=True)
class Disturbances:
    """Disturbances of the plant and of its measurement.

    process [ndx]: standard deviation that the noise on the state has gathered after one second (unit / sqrt(s)); measurement [ndx]:
    standard deviation of every measurement. Empty: none.
    """

    seed: int = 0
    process: tuple[float, ...] = ()
    measurement: tuple[float, ...] = ()
    kicks: tuple[Kick, ...] = ()
    pushes: tuple[Push, ...] = ()


@dataclass(frozen=True)
class PlantSpec:
    """A simulated plant.

    system: its dynamics, with the states and controls of the model; changed: how it differs from the model, in words.
    integrator, substeps: the step between samples. kind: INTEGRATED, by these alone; or one of ``ocp.plants.table``, of the robot,
    which may touch the ground at all contacts among its constraints.
    """

    system: System
    integrator: str = "rk4"
    substeps: int = 4
    disturbances: Disturbances = field(default_factory=Disturbances)
    changed: tuple[str, ...] = ()
    kind: str = INTEGRATED
    robot: Mechanism | None = None

    def __post_init__(self) -> None:
        refuse_history(self.integrator, "plant")
        if self.integrator not in INTEGRATORS:
            raise ProblemError(f"no integrator named {self.integrator!r}{near(str(self.integrator), INTEGRATORS)}", where="plant")
        check_counts(self, {"substeps": 1}, "plant")
        ndx, nu = self.system.space.ndx, self.system.nu
        given = self.disturbances
        sized = [("process noise", given.process, ndx), ("measurement noise", given.measurement, ndx),
                 *(("a kick", kick.change, ndx) for kick in given.kicks),
                 *((f"a push of {what}", values, size) for push in given.pushes for what, values, size in (
                     ("the rate", push.rate, ndx), ("the controls", push.controls, nu), (f"frame {push.frame!r}", push.force, 3)))]
        for what, values, size in sized:
            if values and len(values) != size:
                raise ProblemError(f"{what} has {len(values)} components, expected {size}", where="plant")
            if not all(math.isfinite(value) for value in values):
                raise ProblemError(f"{what} is not finite", where="plant")
        for push in given.pushes:
            if not push.duration > 0:
                raise ProblemError(f"the push at {push.time:g} s must last longer than {push.duration:g} s", where="plant")


def pushed_system(system: System, pushes: Sequence[Push]) -> System:
    """The system with one more control for each push: 0 when it does not act, 1 while it does."""
    if not pushes:
        return system
    nu, space = system.nu, system.space
    kind = ca.SX if system.rate.is_a("SXFunction") else ca.MX
    t, x, s, p = kind.sym("t"), kind.sym("x", system.nx), kind.sym("s", nu + len(pushes)), kind.sym("p", system.np)
    u, rate = s[:nu], kind(space.ndx, 1)
    for i, push in enumerate(pushes):
        active = s[nu + i]
        if push.controls:
            u = u + active * ca.DM(push.controls)
        if push.rate:
            rate = rate + active * ca.DM(push.rate)
        if push.force:
            rate = rate + active * _force_rate(system, push, x)
    total = ca.Function("pushed", [t, x, s, p], [ca.densify(system.rate(t, x, u, p) + rate)])
    controls = (*system.controls, *(f"push {i}" for i in range(len(pushes))))
    return system.with_controls(controls, total)


def _force_rate(system: System, push: Push, x: Expr) -> Expr:
    """Effect of a force on the tangent rate: forward dynamics are affine in it, ``a += M^-1 J' f``."""
    model = system.model
    if model is None:
        raise ProblemError(f"a force on frame {push.frame!r} needs a robot; push the rate of a state instead", where="plant")
    q = x[:model.nq]
    J = alg.frame_jacobian(model, q, push.frame, "world_aligned")
    along = ca.mtimes(J[:3, :].T, ca.DM(push.force))  # twists are [linear; angular]
    return ca.vertcat(type(x)(model.nv, 1), ca.solve(alg.mass_matrix(model, q), along))


class IntegratedPlant:
    """A plant ready to run: compiled step, random streams at their seed. For one run.

    t, x: time (s) and true state [nx]; spent: integrals of the running costs since ``reset``.
    """

    def __init__(self, spec: PlantSpec, costs: Sequence[Cost] = (), *, kernels: str = "auto"):
        given = spec.disturbances
        system = pushed_system(spec.system, given.pushes)
        self.spec, self.kicks, self.pushes = spec, given.kicks, given.pushes
        x, dx = ca.SX.sym("x", system.nx), ca.SX.sym("dx", system.space.ndx)
        self.kernel: Kernel
        self.plus: Kernel
        self.kernel, self.plus = compile_many(
            [step_function(system, spec.integrator, [integrand(cost) for cost in costs], spec.system.nu),
             ca.Function("plus", [x, dx], [ca.densify(ca.SX(system.space.plus(x, dx)))])],
            mode=kernels)  # type: ignore[arg-type]
        self._p = np.array(system.parameter_values, float)
        self._u = np.zeros(system.nu)
        self._process, self._measurement = (np.array(values, float) for values in (given.process, given.measurement))
        # a stream each: more process noise leaves the measurement noise as it was
        self._wandering, self._blurring = (np.random.default_rng([given.seed, k]) for k in range(2))
        self.t, self.x, self.spent = 0.0, np.array(spec.system.space.neutral, float), np.zeros(len(costs))
        self._events = sorted({kick.time for kick in self.kicks} | {end for push in self.pushes
                                                                     for end in (push.time, push.time + push.duration)})

    def reset(self, x: ArrayLike, t: float = 0.0) -> None:
        """Begins at x [nx] and t (s); random streams go on."""
        self.t, self.x, self.spent = float(t), np.array(x, float), np.zeros_like(self.spent)

    def measure(self) -> np.ndarray:
        """Measurement of the state [nx]."""
        if not self._measurement.size:
            return self.x.copy()
        return np.asarray(self.plus(self.x, self._measurement * self._blurring.standard_normal(self._measurement.size)))

    def step(self, u: ArrayLike, dt: float) -> np.ndarray:
        """The state [nx] after dt (s) under the control u [nu], process noise included."""
        x, cost = self.advance(self.t, self.x, np.asarray(u, float), dt)
        self.t, self.x, self.spent = self.t + dt, self.wander(x, dt), self.spent + cost
        return self.x

    def wander(self, x: np.ndarray, seconds: float) -> np.ndarray:
        """The state after the process noise of so much time [s]."""
        if not self._process.size:
            return x
        gathered = self._process * math.sqrt(seconds)
        return np.asarray(self.plus(x, gathered * self._wandering.standard_normal(self._process.size)))

    def advance(self, t: float, x: np.ndarray, u: np.ndarray, seconds: float) -> tuple[np.ndarray, np.ndarray]:
        """State [nx] after so much time [s] under a constant control [nu], and the integrals of the running costs. A state that is
        not finite is handed back as it is."""
        nu, end = self.spec.system.nu, t + seconds
        self._u[:nu] = u
        cuts = [t, *(e for e in self._events if t + _SLACK < e < end - _SLACK), end]
        total: np.ndarray | float = 0.0
        for a, b in zip(cuts, cuts[1:], strict=False):
            for kick in self.kicks:
                if abs(kick.time - a) <= _SLACK:
                    x = np.asarray(self.plus(x, np.array(kick.change)))
            middle = (a + b) / 2
            for i, push in enumerate(self.pushes):
                self._u[nu + i] = push.scale * (push.time < middle < push.time + push.duration)
            # a whole substep keeps its own length: b - a would differ from it in the last digit
            x, cost = self.kernel(a, x, self._u, self._p, seconds if len(cuts) == 2 else b - a)
            x, total = np.atleast_1d(x), total + np.atleast_1d(cost)
        return x, np.asarray(total)
