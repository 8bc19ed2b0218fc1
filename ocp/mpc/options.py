"""Options of a closed loop, what it is judged by, and the problem that each of its horizons is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import casadi as ca

from dynamics.errors import near
from ocp.errors import ProblemError, check_counts, check_positive
from ocp.options import record_of
from ocp.problem import Duration, Phase, Problem
from ocp.shooting.options import ILQROptions

DELAYS = ("none", "predicted", "ignored")
STEP = 0.02
"""Length [s] of the steps of a horizon under constraints of a robot, where nobody says how many there are."""


@dataclass(frozen=True)
class MPCOptions:
    """Options of ``ocp.mpc.run``. Raises ProblemError for a value out of range.

    rate: samples per second [Hz]; one sampling period is the deadline of a step.
    repeat: name of the phase that follows the last of several; empty: the last one goes on.
    duration: simulated time [s], rounded to whole sampling periods.
    horizon: length of the horizon [s]; None: the duration of the problem's phase, and where that prescribes its whole final state
    the motion ends there at its time: later knots keep that state. With a length the end recedes with the horizon.
    iterations: solver iterations in every step.
    start_iterations: iterations from the guess before the clock starts.
    feedback: between samples the control follows the Riccati gains, with the plant's own state as if measured without noise; else
        the plan is applied as it stands.
    barrier: weight of the logarithmic barrier that holds inequalities in a step, in units of the cost: plans keep away from what
    they must not violate by about the weight over the multiplier. 0: multipliers alone, one update of them a step; plans then
    violate what has just become active. delay: "none": a control acts as soon as its state is measured, as if the step took no
    time. Otherwise it acts one sampling period later: "predicted" starts the solver from the state that its model predicts for
    then, "ignored" from the measured one, as a controller that knows nothing of its delay.
    """

    rate: float = 100.0
    duration: float = 10.0
    horizon: float | None = None
    iterations: int = 1
    start_iterations: int = 100
    feedback: bool = False
    barrier: float = 1e-3
    delay: str = "none"
    repeat: str = ""

    def __post_init__(self) -> None:
        check_positive(self, ("rate", "duration", *(() if self.horizon is None else ("horizon",))), "mpc")
        check_counts(self, {"iterations": 1, "start_iterations": 0}, "mpc")
        if not 0 <= self.barrier < float("inf"):
            raise ProblemError(f"barrier must be at least 0, got {self.barrier!r}", where="mpc")
        if self.delay not in DELAYS:
            raise ProblemError(f"no delay named {self.delay!r}{near(str(self.delay), DELAYS)}", where="mpc")
        if self.steps < 1:
            raise ProblemError(f"duration ({self.duration:g} s) is shorter than half a sampling period ({self.period:g} s)",
                               where="mpc")

    def arrives(self, phase: Phase) -> bool:
        """Whether a horizon of a phase ends where the phase does, at its time: it prescribes the whole state there, and no horizon
        of another length is asked for."""
        return self.horizon is None and phase.final is not None and phase.final.complete and not phase.duration.free

    @property
    def period(self) -> float:
        """Sampling period and deadline [s]."""
        return 1.0 / self.rate

    @property
    def steps(self) -> int:
        """Number of samples."""
        return round(self.duration * self.rate)


@dataclass(frozen=True)
class Tracked:
    """A quantity and what it should be: functions of (t, x, u, p) with n components each; the reference depends on t alone.

    state: the component of x that a scalar quantity is, or None; kept for plots. within: what the error must not exceed over the
    last horizon of a run, or None.
    """

    name: str
    value: ca.Function
    reference: ca.Function
    unit: str = ""
    state: int | None = None
    within: float | None = None


def solver_options(problem: Problem, options: MPCOptions, named: Mapping[str, Any]) -> ILQROptions:
    """Options of the solver from those by name. A robot under constraints has others by default, so that a step keeps its deadline:
    Gauss-Newton Hessians, and symplectic Euler, which takes velocities to rest that constraints hold. Raises ProblemError."""
    usual: dict[str, Any] = {}
    if any(phase.system.robot is not None and phase.system.robot.constraints for phase in problem.phases):
        usual["hessian"] = "gauss_newton"
        if all(phase.system.period is None for phase in problem.phases):
            length = options.horizon or sum(phase.duration.guess for phase in problem.phases)
            usual |= {"integrator": "semi_implicit_euler", "cost_quadrature": "rectangle",
                      "intervals": max(1, round(length / STEP))}
    return record_of(ILQROptions, {**usual, **named}, "solve.ilqr")


def horizon_problem(problem: Problem, options: MPCOptions) -> Problem:
    """The problem with the duration of one horizon; its guess is stretched with it.

    Several phases of fixed durations become one whose terms change with time (``ocp.mpc.schedule``), in steps of a sampling period;
    the horizon is by default as long as all of them. Raises ProblemError for what does not fit, and for a free duration where
    ``options.horizon`` does not fix it.
    """
    if len(problem.phases) > 1:
        from ocp.mpc.schedule import scheduled  # few problems need it

        total = options.horizon or sum(phase.duration.guess for phase in problem.phases)
        return scheduled(problem, total, options.period, repeat=options.repeat)
    phase = problem.phase
    length = options.horizon
    if length is None:
        if phase.duration.free:
            raise ProblemError(f"the duration is free between {phase.duration.lower:g} and {phase.duration.upper:g} s; a receding "
                               "horizon needs a length, set mpc.horizon", where=f"phase {phase.name!r}")
        length = phase.duration.guess
    return replace(problem, phases=(replace(phase, duration=Duration(length, length, length)),))
