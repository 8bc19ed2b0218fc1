"""Result of a solver: trajectory, status and, once certified, the certificate."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ocp.pickles import Portable
from ocp.problem.finding import Finding, Kind


class Status(enum.StrEnum):
    """How a solve ended, by name; ``ocp.app.sentences`` has the words."""

    CONVERGED = "CONVERGED"
    MESH_TOLERANCE = "MESH_TOLERANCE"
    ITERATION_LIMIT = "ITERATION_LIMIT"
    INFEASIBLE = "INFEASIBLE"
    STALLED = "STALLED"
    DIVERGED = "DIVERGED"
    UNBOUNDED = "UNBOUNDED"
    NOT_A_NUMBER = "NOT_A_NUMBER"
    INTERRUPTED = "INTERRUPTED"
    TIME_LIMIT = "TIME_LIMIT"
    FAILED = "FAILED"


#: how a solve ends that found what it looked for
SOLVED = (Status.CONVERGED, Status.MESH_TOLERANCE)
#: kinds of points that the second-order conditions take
MINIMA = (Kind.STRICT_MINIMUM, Kind.FLAT_MINIMUM)


@dataclass(frozen=True)
class Trajectory(Portable):
    """A solution in time. t [N+1] s, x [N+1, nx], u [M, nu] at the control times ``t_u`` [M].

    t_path: times at which the method holds path constraints on controls; None: the control times.

    ``state(t)`` -> [nx] and ``control(t)`` -> [nu] interpolate as the method itself does (cubic state for
    Hermite-Simpson, constant control for shooting, ...); both accept scalars or arrays of times (then [k, n]).
    """

    t: np.ndarray
    x: np.ndarray
    u: np.ndarray
    t_u: np.ndarray
    state: Callable[[Any], np.ndarray]
    control: Callable[[Any], np.ndarray]
    t_path: np.ndarray | None = None


def join(parts: Sequence[Trajectory]) -> Trajectory:
    """The trajectories of several phases one after another; at the instant between two phases both ends of the jump are knots.

    It has as many columns as the widest phase, NaN in those that a phase does not have: the parts are exact.
    """
    if len(parts) == 1:
        return parts[0]
    nx, nu = (max(getattr(part, name).shape[1] for part in parts) for name in "xu")
    parts = [_widened(part, nx, nu) for part in parts]
    return Trajectory(
        t=np.concatenate([p.t for p in parts]), x=np.vstack([p.x for p in parts]), u=np.vstack([p.u for p in parts]),
        t_u=np.concatenate([p.t_u for p in parts]), state=_one_after_another(parts, "state"),
        control=_one_after_another(parts, "control"))


def glued(parts: Sequence[Trajectory]) -> Trajectory:
    """The trajectories of pieces of one phase as one: where two meet there is one knot, and a control on each side."""
    if len(parts) == 1:
        return parts[0]
    whole, paths = join(parts), [part.t_path for part in parts if part.t_path is not None]
    keep = np.delete(np.arange(len(whole.t)), np.cumsum([len(part.t) for part in parts[:-1]]))
    return replace(whole, t=whole.t[keep], x=whole.x[keep], t_path=np.concatenate(paths) if len(paths) == len(parts) else None)


def _one_after_another(parts: Sequence[Trajectory], name: str) -> Callable[[Any], np.ndarray]:
    starts, width = np.array([part.t[0] for part in parts[1:]]), parts[0].x.shape[1] if name == "state" else parts[0].u.shape[1]

    def at(times: Any) -> np.ndarray:
        flat = np.asarray(times, dtype=float).ravel()
        which, found = np.searchsorted(starts, flat, side="right"), np.empty((len(flat), width))
        for i in np.unique(which):
            own = getattr(parts[i], name)(np.clip(flat[which == i], parts[i].t[0], parts[i].t[-1]))
            found[which == i] = own
        return found[0] if np.ndim(times) == 0 else found

    return at


def _widened(part: Trajectory, nx: int, nu: int) -> Trajectory:
    """The same with as many columns as the widest phase has."""
    if part.x.shape[1] == nx and part.u.shape[1] == nu:
        return part

    def wide(values: np.ndarray, width: int) -> np.ndarray:
        out = np.full((*values.shape[:-1], width), np.nan)
        out[..., :values.shape[-1]] = values
        return out

    return replace(part, x=wide(part.x, nx), u=wide(part.u, nu), state=lambda t: wide(part.state(t), nx),
                   control=lambda t: wide(part.control(t), nu))


@dataclass(frozen=True)
class Residual:
    """One number of the certificate beside its tolerance; ``holds`` is computed, never set.

    kind: the check; value: NaN where it could not be computed: then it does not hold; phase, span [s]: where it is largest, "" of a
    single phase, None of no segment; time [s]: of its cause; cause: what the value comes from, where that is special; data: what
    else the check has.
    """

    kind: Kind
    value: float
    tolerance: float
    phase: str = ""
    span: tuple[float, float] | None = None
    time: float | None = None
    cause: Kind | None = None
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether the value is within its tolerance."""
        return bool(self.value <= self.tolerance)

    @property
    def finding(self) -> Finding:
        """The check as a finding; ``data`` has span and cause."""
        more = {"span": self.span, "cause": self.cause}
        data = {**self.data, **{name: value for name, value in more.items() if value is not None}}
        return Finding(self.kind, self.phase, time=self.time, value=self.value, tolerance=self.tolerance, data=data)


def share(value: float, tolerance: float) -> float:
    """Of a tolerance that a value takes; of none, which a size of zero or one that is not a number leaves, all or nothing."""
    if tolerance > 0:
        return float(value / tolerance)
    return 0.0 if value <= 0 else float("inf")


@dataclass(frozen=True)
class Violation:
    """Largest violation of one named constraint, at the knots and between them, each beside its tolerance.

    time, component: where the violation at the knots is largest; time_between [s]: where it is between them, None where nobody
    looked; phase: "" of a single one. Between knots a direct method promises only its order of accuracy, hence the looser tolerance
    there.
    """

    name: str
    at_knots: float
    between_knots: float
    time: float
    component: str
    tolerance: float
    soft: bool = False
    tolerance_between: float = float("inf")
    time_between: float | None = None
    phase: str = ""

    @property
    def label(self) -> str:
        """The name, behind that of its phase where there are several."""
        return f"{self.phase}: {self.name}" if self.phase else self.name

    @property
    def share(self) -> float:
        """Of its tolerance that the violation at the knots takes."""
        return share(self.at_knots, self.tolerance)

    @property
    def holds(self) -> bool:
        """Whether the violation is within its tolerances at and between knots, or the constraint is soft."""
        return self.soft or bool(self.at_knots <= self.tolerance and self.between_knots <= self.tolerance_between)

    @property
    def finding(self) -> Finding:
        """The violation at the knots, or, where that is within its tolerance, the one between them."""
        if self.at_knots <= self.tolerance:
            return Finding(Kind.VIOLATION_BETWEEN, self.phase, self.name, time=self.time_between, value=self.between_knots,
                           tolerance=self.tolerance_between)
        return Finding(Kind.VIOLATION, self.phase, self.name, self.component, self.time, self.at_knots, self.tolerance)


@dataclass(frozen=True)
class Statement:
    """The kind of stationary point of a solution, by second-order conditions; ``holds`` is computed, never set.

    below, of free: directions of negative curvature; discrete: why this holds for the discrete problem alone, empty where it holds
    of the continuous one; weak: whether a minimum is one beside motions with nearby controls alone, as far as is known: the minimum
    principle, which compares with all admissible controls, was not checked.
    """

    kind: Kind
    below: int = 0
    free: int = 0
    discrete: tuple[Kind, ...] = ()
    weak: bool = False

    @property
    def holds(self) -> bool:
        """Whether second-order conditions show a local minimum."""
        return self.kind in MINIMA

    @property
    def finding(self) -> Finding:
        """The finding for reports."""
        return Finding(self.kind, data={"below": self.below, "free": self.free, "discrete": self.discrete, "weak": self.weak})


@dataclass(frozen=True)
class Certificate:
    """Independent evidence about a solution; the same fields for every method. All values are relative to sizes that the motion
    itself gives (``ocp.certify.scale``).

    stationarity: gradient of the Lagrangian, and what one more Newton step would change; complementarity: products of multipliers
    and distances to their bounds; second_order: what kind of point it is; gap_segment: largest distance, over the segments, between
    the returned state and an independent high-order re-integration of that segment; gap_total: the same from the start to the end,
    over the growth of errors; error_estimate: discretisation error; energy: energy balance error, None when the system has none;
    objective: the objective against an independent quadrature; point: distance of trajectory and objective from the point whose
    optimality was judged, None where a method leaves no such point; minimum_principle: what controls with a smaller Hamiltonian
    than that of the motion would gain, over how much the objective varies, None where nobody compared; objective_error: half the
    error bound of the objective, None where nobody solved again on a finer mesh; objective_size: what it is measured by;
    resolution: the width [s] down to which the motion was searched everywhere; left_out: checks that there was no time for, by
    name: none of them holds.
    """

    stationarity: Residual
    complementarity: Residual
    violations: tuple[Violation, ...]
    gap_segment: Residual
    gap_total: Residual
    error_estimate: Residual
    energy: Residual | None = None
    objective: Residual | None = None
    point: Residual | None = None
    minimum_principle: Residual | None = None
    second_order: Statement | None = None
    objective_error: Residual | None = None
    objective_size: float = 1.0
    resolution: float | None = None
    left_out: tuple[str, ...] = ()

    @property
    def checks(self) -> tuple[Residual, ...]:
        """The scalar checks that apply."""
        found = (self.stationarity, self.complementarity, self.gap_segment, self.gap_total, self.error_estimate, self.energy,
                 self.objective, self.point, self.minimum_principle, self.objective_error)
        return tuple(c for c in found if c is not None)

    @property
    def holds(self) -> bool:
        """Whether every check and constraint is within its tolerance."""
        return (not self.left_out and all(c.holds for c in self.checks) and all(v.holds for v in self.violations)
                and (self.second_order is None or self.second_order.holds))

    @property
    def error_bound(self) -> float:
        """Half the error bound of the objective, in its own unit; NaN where there is none."""
        return float("nan") if self.objective_error is None else self.objective_error.value * self.objective_size

    @property
    def failures(self) -> tuple[Finding, ...]:
        """Failed checks, the kind of point first."""
        point = () if self.second_order is None or self.second_order.holds else (self.second_order.finding,)
        return (*point, *(c.finding for c in self.checks if not c.holds), *(v.finding for v in self.violations if not v.holds))

    @property
    def causes(self) -> frozenset[Kind]:
        """Special causes of the values of checks, whether these hold or not."""
        return frozenset(c.cause for c in self.checks if c.cause is not None)


@dataclass(frozen=True)
class Solution(Portable):
    """Result of a method on a problem. ``ok`` is true only when the certificate holds."""

    problem: Any
    method: str
    options: Mapping[str, Any]
    status: Status
    objective: float
    trajectory: Trajectory
    iterations: tuple[Mapping[str, float], ...]
    seconds: Mapping[str, float]
    optimality: Any = None  # what the method leaves for the certificate: multipliers, gains, residual functions
    certificate: Certificate | None = None
    findings: tuple[Finding, ...] = ()  # what was found on the way, in order
    ending: Finding | None = None  # why the search ended there, beside the status
    strategy: tuple[Any, ...] = ()  # rules that fired on the way (``ocp.strategy.records.Firing``)
    parts: tuple[Trajectory, ...] = ()  # the phases one by one; empty where there is only one
    extra: Mapping[str, np.ndarray] = field(default_factory=dict)  # gains, multipliers: saved with the trajectory
    escape: Any = None  # a direction, in the unknowns of ``optimality``, of descent from a point that is no minimum
    better_controls: Any = None  # by phase, where the minimum principle fails (``ocp.certify.minimum_principle.Better``)
    freeze: Mapping[str, Any] = field(default_factory=dict)  # options with what was chosen in the place of every "auto"

    @property
    def ok(self) -> bool:
        """Whether the problem is solved and certified."""
        return self.status in SOLVED and self.certificate is not None and self.certificate.holds
