"""Result of a closed loop: trajectories, times of the steps, and how well it tracked, cost and kept its constraints."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np

from ocp.mpc.options import MPCOptions
from ocp.problem.finding import Finding


class Ending(enum.Enum):
    """How a run ended; each value is a sentence."""

    FINISHED = "The run reached its end."
    INTERRUPTED = "Interrupted by the user; what ran until then is kept."
    TIME_LIMIT = "The time limit was reached; what ran until then is kept."
    DIVERGED = "The state of the plant is no longer finite."
    FELL = "The robot fell."


@dataclass(frozen=True)
class StepTimes:
    """Times of the solver's steps against the deadline, all in seconds; ``missed`` steps took longer."""

    deadline: float
    median: float
    p99: float
    p999: float
    largest: float
    missed: int
    steps: int


def step_times(seconds: np.ndarray, deadline: float) -> StepTimes:
    """Summary of step times [n] in seconds; NaN where there are none."""
    if not len(seconds):
        return StepTimes(deadline, *(float("nan"),) * 4, 0, 0)
    # the smallest time that so large a share of the steps keeps: never an average of two
    p99, p999 = np.quantile(seconds, [0.99, 0.999], method="inverted_cdf")
    return StepTimes(deadline, float(np.median(seconds)), float(p99), float(p999), float(seconds.max()),
                     int((seconds > deadline).sum()), len(seconds))


@dataclass(frozen=True)
class Tracking:
    """A quantity beside its reference at the times ``ClosedLoop.fine_t``: value, reference [k, n].

    rms: root of the time mean of |value - reference|^2; largest: largest |value - reference|, at ``time`` [s]; within: what the
    error must not exceed over the last horizon of the run.
    """

    name: str
    unit: str
    value: np.ndarray
    reference: np.ndarray
    rms: float
    largest: float
    time: float
    state: int | None = None
    within: float | None = None

    @property
    def error(self) -> np.ndarray:
        """|value - reference| [k]."""
        return np.asarray(np.linalg.norm(self.value - self.reference, axis=1))


@dataclass(frozen=True)
class Violation:
    """How far a bound or constraint of the path was broken in closed loop: the largest violation, when, and for which share of the
    time by more than ``tolerance``. ``soft``: the problem lets it be broken at a cost. first: when it was broken first; excess [k]:
    the largest violation of its constraints at every substep."""

    name: str
    largest: float
    time: float
    component: str
    share: float
    tolerance: float
    soft: bool = False
    first: float | None = None
    excess: np.ndarray = field(default_factory=lambda: np.zeros(0), repr=False, compare=False)

    @property
    def holds(self) -> bool:
        """Whether the constraint is soft or never violated."""
        return self.soft or self.first is None

    def record(self) -> dict[str, Any]:
        """Everything but what stands for every substep, for JSON."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "excess"}


@dataclass(frozen=True)
class Recovery:
    """A push at ``time`` [s] by a force [N] in world axes. recovered: whether every tracked quantity with ``within`` is within it
    when the next push begins; after: how long after its end [s] errors stay so, NaN where they do not; largest: error until then,
    in shares of ``within``."""

    time: float
    force: tuple[float, ...]
    recovered: bool
    after: float
    largest: float

    def record(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


@dataclass(frozen=True)
class Estimation:
    """Estimates from the measurements: values [n, nx + parameters] at the samples by names, the parameters last; errors:
    root mean square of how far the state was off, by name of the tangent component; seconds [n] of every estimate."""

    names: tuple[str, ...]
    values: np.ndarray
    errors: Mapping[str, float]
    parameters: tuple[str, ...]
    seconds: np.ndarray

    def record(self) -> dict[str, Any]:
        """For JSON: errors of the state, last values of parameters, the median time."""
        last = self.values[-1, self.values.shape[1] - len(self.parameters):].tolist() if len(self.values) else []
        return {"errors": dict(self.errors), "parameters": dict(zip(self.parameters, last, strict=False)),
                "median": float(np.median(self.seconds)) if len(self.seconds) else float("nan")}


@dataclass(frozen=True)
class ClosedLoop:
    """A run of n samples with m substeps each.

    t [n+1], x [n+1, nx]: states of the plant at the samples; measured [n, nx]: the measurement that the solver got; u [n, nu]:
    control at the beginning of each sample. fine_t [n m + 1], fine_x [n m + 1, nx], fine_u [n m, nu]: every substep, each with a
    constant control. seconds, processor, codes, solver_cost, solver_violation [n]: wall time and processor time of each step (the
    difference is what the rest of the machine took), what the solver answered (0: well), its cost and violation over its horizon.
    costs: time integral of every running cost. gains [n, nu, ndx]: of the plan at each sample, du = K dx from what was measured,
    zero where the solver failed; empty where it has none, or acts with a delay. prepared: seconds to compile and to converge before
    the clock started. findings: what the plant did against the file (``ocp.mpc.judge``). estimation: what was estimated, None where
    the state is known; then measured is the estimate. recoveries: from each push by a force, where quantities have ``within``.
    """

    problem: Any
    options: MPCOptions
    solver_options: Any
    ending: Ending
    message: str
    t: np.ndarray
    x: np.ndarray
    measured: np.ndarray
    u: np.ndarray
    fine_t: np.ndarray
    fine_x: np.ndarray
    fine_u: np.ndarray
    seconds: np.ndarray
    processor: np.ndarray
    codes: np.ndarray
    solver_cost: np.ndarray
    solver_violation: np.ndarray
    costs: Mapping[str, float]
    tracking: tuple[Tracking, ...]
    violations: tuple[Violation, ...]
    times: StepTimes
    processor_times: StepTimes
    prepared: Mapping[str, float]
    gains: np.ndarray
    changed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    estimation: Estimation | None = None
    recoveries: tuple[Recovery, ...] = ()

    @property
    def failures(self) -> int:
        """Steps in which the solver failed; the last control was kept."""
        return int((self.codes != 0).sum())

    @property
    def cost(self) -> float:
        """Time integral of all running costs."""
        return float(sum(self.costs.values()))

    @property
    def ok(self) -> bool:
        """The run reached its end, the solver never failed, and the plant did what the file asks (no ``findings``). Deadlines are a
        matter of the machine: see ``times``."""
        return self.ending is Ending.FINISHED and not self.failures and not self.findings
