"""The certificate: evidence about a solution that does not come from the solver that made it.

Everything here is computed from the problem's own functions and the returned trajectory: an independent high-order
integrator (Dormand-Prince 8(5,3)) re-integrates the states under the returned controls, constraints are sampled at and
between knots, first-order optimality is re-evaluated at the returned point, and energy is balanced against power.
Distances between states are in the tangent space, each component divided by its scale: 1 + its largest magnitude along
the trajectory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import casadi as ca
import numpy as np
from scipy.integrate import solve_ivp

from ocp.errors import ProblemError
from ocp.problem import (
    At,
    Certificate,
    Constraint,
    Linkage,
    Phase,
    Residual,
    Sense,
    Solution,
    Trajectory,
    Violation,
)

# Interior samples of a segment where constraints are checked and defects integrated (Gauss-Legendre, exact to degree 9).
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(5)
_POINTS, _WEIGHTS = (_POINTS + 1) / 2, _WEIGHTS / 2
# The re-integration must be far more accurate than anything it judges.
_RTOL, _ATOL = 1e-10, 1e-12
# Held controls jump at knots: a segment must never see its successor's control.
_INSIDE = 1.0 - 1e-9


@dataclass(frozen=True)
class Tolerances:
    """What a solution must hold to be certified; override any of them under ``accept:`` in a problem file.

    stationarity, complementarity: scaled KKT residuals, the usual 1e-6 of nonlinear programming
    violation: every named hard constraint at the knots, absolute, in its own unit
    violation_between: the same between knots, where a direct method promises only its order of accuracy
    gap_segment: one segment re-integrated, scaled; a mesh that misses this misrepresents the dynamics
    gap_total: start to end re-integrated in open loop, scaled; unstable motions amplify it, hence the looser default
    error_estimate: integral over a segment of the defect between knots, scaled
    energy: energy balance error divided by the energy exchanged
    """

    stationarity: float = 1e-6
    complementarity: float = 1e-6
    violation: float = 1e-6
    violation_between: float = 1e-4
    gap_segment: float = 1e-3
    gap_total: float = 5e-2
    error_estimate: float = 1e-2
    energy: float = 1e-2

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise ProblemError(f"must be positive, got {value}", where=f"accept.{name}")


def certify(solution: Solution, tolerances: Tolerances | None = None) -> Solution:
    """The same solution with its certificate. A trajectory that contains NaN gets one that holds nothing."""
    tolerances = tolerances or Tolerances()
    phases = solution.problem.phases
    numbers = [_Numbers(phase, part) for phase, part in zip(phases, solution.parts or (solution.trajectory,), strict=True)]
    stationarity, complementarity = _optimality(solution)
    gap, gap_at = _largest([n.segment_gap() for n in numbers])
    defect, defect_at = _largest([n.defect() for n in numbers])
    total, _ = _largest([(n.total_gap(), "") for n in numbers])
    balances = [b for b in (n.energy_balance() for n in numbers) if b is not None]
    found = [(phase, v) for phase, n in zip(phases, numbers, strict=True) for v in n.violations(tolerances)]
    named = [v if len(phases) == 1 else replace(v, name=f"{phase.name}: {v.name}") for phase, v in found]
    links = [_linkage(linkage, numbers, tolerances) for linkage in solution.problem.linkages]
    passages = [_passage(*pair, tolerances) for pair in zip(numbers[:-1], numbers[1:], strict=True)]
    certificate = Certificate(
        stationarity=Residual("stationarity", stationarity, tolerances.stationarity),
        complementarity=Residual("complementarity", complementarity, tolerances.complementarity),
        violations=(*named, *passages, *links),
        gap_segment=Residual("segment re-integration gap", gap, tolerances.gap_segment, gap_at),
        gap_total=Residual("total re-integration gap", total, tolerances.gap_total),
        error_estimate=Residual("defect between knots", defect, tolerances.error_estimate, defect_at),
        energy=Residual("energy balance", float(np.max(balances)), tolerances.energy) if balances else None,
    )
    extra = dict(solution.extra) | {"certificate_segment_gap": _by_segment([n.gaps for n in numbers]),
                                    "certificate_segment_defect": _by_segment([n.defects for n in numbers])}
    return replace(solution, certificate=certificate, extra=extra)


def _largest(found: list[tuple[float, str]]) -> tuple[float, str]:
    """The largest of several numbers and where it stands; NaN counts as larger than any."""
    return max(found, key=lambda one: np.inf if np.isnan(one[0]) else one[0])


def _by_segment(values: list[np.ndarray]) -> np.ndarray:
    """Values of all segments, with a zero for the instant between two phases."""
    return np.concatenate([np.r_[0.0, v] if i else v for i, v in enumerate(values)])


def _passage(before: _Numbers, after: _Numbers, tolerances: Tolerances) -> Violation:
    """How far the start of a phase is from where the reset puts it, or from the end of the phase before."""
    x, phase = before.trajectory.x[-1], after.phase
    there = x if phase.reset is None else np.asarray(phase.reset(x, after.p)).ravel()
    gap = np.abs(np.asarray(after._minus(there, after.trajectory.x[0])).ravel())
    worst = int(np.argmax(np.nan_to_num(gap, nan=np.inf)))
    return Violation(f"{before.phase.name} to {phase.name}", float(gap[worst]), 0.0, float(after.trajectory.t[0]),
                     phase.system.space.tangent_names[worst], tolerances.violation)


def _linkage(linkage: Linkage, numbers: list[_Numbers], tolerances: Tolerances) -> Violation:
    """How far ends of phases are from what links them."""
    states = [numbers[i].trajectory.x[0 if at is At.START else -1] for i, at in linkage.ends]
    durations = [n.trajectory.t[-1] - n.trajectory.t[0] for n in numbers]
    known = {name: value for n in reversed(numbers)  # the first phase that has it, as in the program
             for name, value in zip(n.phase.system.parameters, n.p, strict=True)}
    value = np.asarray(linkage.function(*states, durations, [known[name] for name in linkage.parameters])).ravel()
    over = np.maximum(0.0, np.maximum(np.asarray(linkage.lower) - value, value - np.asarray(linkage.upper)))
    worst = int(np.argmax(np.nan_to_num(over, nan=np.inf)))
    return Violation(linkage.name, float(over[worst]), 0.0, float(numbers[linkage.ends[-1][0]].trajectory.t[-1]),
                     linkage.components()[worst], tolerances.violation)


def _optimality(solution: Solution) -> tuple[float, float]:
    """Scaled first-order residuals, from what the method left; NaN (never holds) when it left nothing."""
    if solution.optimality is None:
        return float("nan"), float("nan")
    stationarity, complementarity = solution.optimality.residuals()
    return float(stationarity), float(complementarity)


class _Numbers:
    """Numeric evaluation of one phase along one trajectory. Rows are times, columns components."""

    def __init__(self, phase: Phase, trajectory: Trajectory):
        self.phase, self.trajectory = phase, trajectory
        system = phase.system
        self.p = np.asarray(system.parameter_values, float)
        space = system.space
        t, x, u, p = ca.SX.sym("t"), ca.SX.sym("x", system.nx), ca.SX.sym("u", system.nu), ca.SX.sym("p", system.np)
        y = ca.SX.sym("y", system.nx)
        self._field = ca.Function("field", [t, x, u, p], [space.rate(x) @ system.rate(t, x, u, p)])
        self._minus = ca.Function("minus", [x, y], [space.minus(x, y)])
        self._tangent = ca.Function("tangent", [x, y], [space.rate_inverse(x) @ y])
        knots = self._minus(np.repeat(np.asarray(space.neutral)[:, None], len(trajectory.t), axis=1), trajectory.x.T)
        self.scale = 1.0 + np.nan_to_num(np.abs(np.array(knots)).max(axis=1), nan=0.0, posinf=0.0)
        self.finite = bool(np.all(np.isfinite(trajectory.x)) and np.all(np.isfinite(trajectory.u)))
        n = len(trajectory.t) - 1
        self.gaps, self.defects = np.full(n, np.nan), np.full(n, np.nan)

    # ---- evaluation ------------------------------------------------------------------------------------------------
    def _call(self, function: ca.Function, t: np.ndarray, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        """A problem function at many times: [k] , [k, nx], [k, nu] -> [k, n]."""
        k = len(t)
        p = np.repeat(self.p[:, None], k, axis=1)
        return np.asarray(function(t[None, :], x.T, u.T, p)).T

    def _control(self, t: np.ndarray) -> np.ndarray:
        return np.asarray(self.trajectory.control(t)).reshape(len(t), self.phase.system.nu)

    def _state(self, t: np.ndarray) -> np.ndarray:
        return np.asarray(self.trajectory.state(t)).reshape(len(t), self.phase.system.nx)

    def _distance(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Scaled tangent distance row by row, [k]."""
        return np.abs(np.asarray(self._minus(a.T, b.T)).T / self.scale).max(axis=1)

    # ---- dynamics --------------------------------------------------------------------------------------------------
    def segment_gap(self) -> tuple[float, str]:
        """Every segment re-integrated from its left knot, all of them as one stacked system in s in [0, 1]."""
        if not self.finite:
            return float("nan"), ""
        t, x = self.trajectory.t, self.trajectory.x
        h, n, nx = np.diff(t), len(t) - 1, x.shape[1]

        def field(s: float, y: np.ndarray) -> np.ndarray:
            times = t[:-1] + min(s, _INSIDE) * h
            return (self._call(self._field, times, y.reshape(n, nx), self._control(times)) * h[:, None]).ravel()

        with np.errstate(all="ignore"):
            end = solve_ivp(field, (0.0, 1.0), x[:-1].ravel(), method="DOP853", rtol=_RTOL, atol=_ATOL)
        if not end.success or not np.all(np.isfinite(end.y[:, -1])):
            return float("nan"), "the re-integration failed"
        self.gaps = self._distance(x[1:], end.y[:, -1].reshape(n, nx))
        worst = int(np.argmax(self.gaps))
        return float(self.gaps[worst]), f"on [{t[worst]:.6g}, {t[worst + 1]:.6g}] s"

    def total_gap(self) -> float:
        """Start to end in open loop, restarted at every knot so that held controls stay smooth inside a step."""
        if not self.finite:
            return float("nan")
        t, y, worst = self.trajectory.t, self.trajectory.x[0], 0.0
        for k in range(len(t) - 1):
            h = t[k + 1] - t[k]

            def field(s: float, state: np.ndarray, k: int = k, h: float = h) -> np.ndarray:
                time = np.array([t[k] + min(s, _INSIDE) * h])
                return np.asarray(self._call(self._field, time, state[None, :], self._control(time))[0] * h)

            with np.errstate(all="ignore"):
                step = solve_ivp(field, (0.0, 1.0), y, method="DOP853", rtol=1e-9, atol=1e-11)
            y = step.y[:, -1]
            if not step.success or not np.all(np.isfinite(y)):
                return float("inf")
            worst = max(worst, float(self._distance(self.trajectory.x[k + 1][None, :], y[None, :])[0]))
        return worst

    def defect(self) -> tuple[float, str]:
        """Integral over each segment of |dx/dt - f| along the method's own interpolant, scaled (Kelly 2017, Eq. 6.2)."""
        if not self.finite:
            return float("nan"), ""
        t = self.trajectory.t
        h = np.diff(t)
        times = (t[:-1, None] + h[:, None] * _POINTS).ravel()
        step = np.repeat(1e-5 * h, len(_POINTS))
        x, u = self._state(times), self._control(times)
        slope = (self._state(times + step) - self._state(times - step)) / (2 * step[:, None])
        error = np.asarray(self._tangent(x.T, (slope - self._call(self._field, times, x, u)).T)).T / self.scale
        self.defects = (np.abs(error).max(axis=1).reshape(len(h), -1) @ _WEIGHTS) * h
        worst = int(np.argmax(self.defects))
        return float(self.defects[worst]), f"on [{t[worst]:.6g}, {t[worst + 1]:.6g}] s"

    def energy_balance(self) -> float | None:
        """|E(T) - E(0) - integral of power| over the energy exchanged; None where the system has no energy."""
        system = self.phase.system
        if system.energy is None or system.power is None:
            return None
        if not self.finite:
            return float("nan")
        t = self.trajectory.t
        h = np.diff(t)
        times = (t[:-1, None] + h[:, None] * _POINTS).ravel()
        power = self._call(system.power, times, self._state(times), self._control(times))[:, 0].reshape(len(h), -1)
        knots = t.copy()
        knots[-1] = t[-2] + _INSIDE * h[-1]
        energy = self._call(system.energy, knots, self.trajectory.x, self._control(knots))[:, 0]
        work = (power @ _WEIGHTS) * h
        # a motion that exchanges nothing must still balance to rounding: hence the floor of a millionth of a joule
        exchanged = float((np.abs(power) @ _WEIGHTS) @ h) + float(np.ptp(energy)) + 1e-6 * (1 + float(np.abs(energy).max()))
        return float(abs(energy[-1] - energy[0] - work.sum())) / exchanged

    # ---- constraints -----------------------------------------------------------------------------------------------
    def violations(self, tolerances: Tolerances) -> Iterator[Violation]:
        """One entry per named constraint, bounds and boundary states included."""
        for found in self._violations(tolerances.violation):
            yield replace(found, tolerance_between=max(tolerances.violation_between, found.tolerance))

    def _violations(self, tolerance: float) -> Iterator[Violation]:
        phase, system, trajectory = self.phase, self.phase.system, self.trajectory
        t = trajectory.t
        inner = (t[:-1, None] + np.diff(t)[:, None] * _POINTS).ravel()
        states, between = trajectory.x, self._state(inner)
        between_u = self._control(inner)
        for i, name in enumerate(system.space.names):
            yield from _bound(f"bound {name}", phase.x_lower[i], phase.x_upper[i],
                              (t, states[:, i]), (inner, between[:, i]), tolerance)
        for i, name in enumerate(system.controls):
            yield from _bound(f"bound {name}", phase.u_lower[i], phase.u_upper[i],
                              (trajectory.t_u, trajectory.u[:, i]), (inner, between_u[:, i]), tolerance)
        for label, boundary, k in (("start", phase.start, 0), ("final", phase.final, -1)):
            if boundary is None or not any(boundary.fixed):
                continue
            gap = np.asarray(self._minus(np.asarray(boundary.value), states[k])).ravel() * np.asarray(boundary.fixed, float)
            worst = int(np.argmax(np.abs(np.nan_to_num(gap, nan=np.inf))))
            yield Violation(f"{label} state", float(np.abs(gap[worst])), 0.0, float(t[k]),
                            system.space.tangent_names[worst], tolerance)
        for start in system.space.quaternions:
            norms = [np.abs(np.linalg.norm(x[:, start:start + 4], axis=1) - 1) for x in (states, between)]
            worst = int(np.argmax(norms[0]))
            yield Violation(f"unit quaternion {system.space.names[start]}", float(norms[0][worst]), float(norms[1].max()),
                            float(t[worst]), system.space.names[start], max(tolerance, 1e-5))
        if not phase.duration.lower <= t[-1] - t[0] + tolerance or not t[-1] - t[0] - tolerance <= phase.duration.upper:
            excess = max(phase.duration.lower - (t[-1] - t[0]), (t[-1] - t[0]) - phase.duration.upper)
            yield Violation("duration", float(excess), 0.0, float(t[-1]), "duration", tolerance)
        for constraint in phase.constraints:
            yield self._constraint(constraint, (inner, between, between_u), tolerance)

    def _constraint(self, constraint: Constraint, inner: Any, tolerance: float) -> Violation:
        trajectory, beside = self.trajectory, np.zeros((1, constraint.size))
        t, x = trajectory.t, trajectory.x
        if constraint.at is At.INTEGRAL:
            t, at = t[-1:], excess(constraint, self._integral(constraint.function)[None, :])
        elif constraint.at is At.PATH:
            if constraint.function.jac_sparsity(0, 2).nnz():  # holds where the method holds controls, which need not be at knots
                t = trajectory.t_u if trajectory.t_path is None else trajectory.t_path
                x = self._state(t)
            # a held control belongs to the segment on its right
            last = trajectory.t[-2] + _INSIDE * (trajectory.t[-1] - trajectory.t[-2])
            at = excess(constraint, self._call(constraint.function, t, x, self._control(np.minimum(t, last))))
            beside = excess(constraint, self._call(constraint.function, *inner))
        else:
            k = slice(0, 1) if constraint.at is At.START else slice(len(t) - 1, len(t))
            t = t[k]
            at = excess(constraint, self._call(constraint.function, t, x[k], self.trajectory.u[k]))
        row, column = np.unravel_index(int(np.argmax(np.nan_to_num(at, nan=np.inf))), at.shape)
        components = constraint.components()
        return Violation(constraint.name, float(at[row, column]), float(np.max(beside)), float(t[row]),
                         components[min(int(column), len(components) - 1)], tolerance, soft=constraint.soft is not None)

    def _integral(self, function: ca.Function) -> np.ndarray:
        """Integral of a function over the phase, [k]."""
        t = self.trajectory.t
        h = np.diff(t)
        times = (t[:-1, None] + h[:, None] * _POINTS).ravel()
        values = self._call(function, times, self._state(times), self._control(times))
        return np.asarray((h[:, None] * _WEIGHTS).ravel() @ values)


def excess(constraint: Constraint, values: np.ndarray) -> np.ndarray:
    """How far rows of values [k, nc] lie outside the constraint, [k, nc] (cones: [k, 1]); zero inside."""
    if constraint.sense is Sense.CONE:
        return np.maximum(0.0, np.linalg.norm(values[:, 1:], axis=1, keepdims=True) - values[:, :1])
    lower, upper = np.asarray(constraint.lower), np.asarray(constraint.upper)
    return np.maximum(0.0, np.maximum(lower - values, values - upper))


def _bound(name: str, lower: float, upper: float, knots: tuple[np.ndarray, np.ndarray],
           inner: tuple[np.ndarray, np.ndarray], tolerance: float) -> Iterator[Violation]:
    if np.isinf(lower) and np.isinf(upper):
        return
    at, beside = (np.maximum(0.0, np.maximum(lower - values, values - upper)) for _, values in (knots, inner))
    worst = int(np.argmax(np.nan_to_num(at, nan=np.inf)))
    yield Violation(name, float(at[worst]), float(np.max(beside, initial=0.0)), float(knots[0][worst]),
                    name.removeprefix("bound "), tolerance)
