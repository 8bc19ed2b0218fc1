"""Findings about a motion: energies, drift of constraints, costs, violations, and the motion as a Solution to draw."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import casadi as ca
import numpy as np

from ocp.bridge import closed
from ocp.guesses.sampling import polyline
from ocp.mpc.evaluate import values, violations
from ocp.mpc.result import Violation
from ocp.problem import Phase, Solution, Status
from ocp.problem.solution import join
from ocp.reductions.algebraic_elimination import with_unknowns
from ocp.reductions.algebraic_equations import state_equations
from ocp.simulation import Leg, Motion


@dataclass(frozen=True)
class Energy:
    """Energies along a motion at its times [k], in J: total, potential (None: the system does not tell it apart) and what was
    supplied since the start; jumps: what resets between phases added. ``change`` is what regression tables quote: the energy at the
    end less the potential energy at the start."""

    t: np.ndarray
    total: np.ndarray
    potential: np.ndarray | None
    supplied: np.ndarray
    jumps: float

    @property
    def unexplained(self) -> float:
        """Excess of the energy at the end over supplied work and resets."""
        return float(self.total[-1] - self.total[0] - self.supplied[-1] - self.jumps)

    @property
    def change(self) -> float:
        """Energy at the end less that at the start [J]."""
        return float(self.total[-1] - (0.0 if self.potential is None else self.potential[0]))


@dataclass(frozen=True)
class Drift:
    """How far a constraint of the mechanism is from being met along a motion: times [k] and sizes [k] of the largest row, of
    positions (m, rad) and of rates; NaN where there are none."""

    name: str
    t: np.ndarray
    gap: np.ndarray
    rate: np.ndarray


def energies(motion: Motion) -> Energy | None:
    """None where a phase has no energy."""
    if any(leg.phase.system.energy is None for leg in motion.legs):
        return None
    totals, rests, supplied, jumps, done = [], [], [], 0.0, 0.0
    for leg in motion.legs:
        system, u = leg.phase.system, held_controls(leg)
        totals.append(values(system.energy, system, leg.t, leg.x, u).ravel())
        if system.model is not None:
            still = leg.x.copy()
            still[:, system.model.nq:] = 0.0
            rests.append(values(system.energy, system, leg.t, still, u).ravel())
        supplied.append(done + leg.integrals[:, -1])
        done = supplied[-1][-1]
        if len(totals) > 1:
            jumps += totals[-1][0] - totals[-2][-1]
    potential = np.concatenate(rests) if len(rests) == len(totals) else None
    return Energy(motion.t, np.concatenate(totals), potential, np.concatenate(supplied), float(jumps))


def held_controls(leg: Leg) -> np.ndarray:
    """Controls [n+1, nu] at the times of a leg."""
    return np.vstack([leg.u, leg.u[-1:] if len(leg.u) else np.zeros((1, leg.phase.system.nu))])


def drifts(motion: Motion) -> tuple[Drift, ...]:
    """Every constraint of the mechanisms, the worst gap first; of several phases a row for each."""
    found = []
    for leg in motion.legs:
        prefix = f"{leg.phase.name}: " if len(motion.legs) > 1 else ""
        for name, positions, rates in _rows(leg.phase):
            sizes = [np.abs(values(f, leg.phase.system, leg.t, leg.x, held_controls(leg))).max(axis=1) if f.numel_out(0)
                     else np.full(len(leg.t), np.nan) for f in (positions, rates)]
            found.append(Drift(prefix + name, leg.t, *sizes))
    return tuple(found)


def _rows(phase: Phase) -> Iterator[tuple[str, ca.Function, ca.Function]]:
    """(name, positions, rates) of each constraint of the mechanism, functions of (t, x, u, p)."""
    system = phase.system
    mechanism = system.mechanism or system.implicit
    for c in () if mechanism is None else mechanism.constraints:
        both, gap = (closed(mechanism, c, system.np, speeds=speeds).function for speeds in (True, False))
        arguments = [ca.SX.sym(name, both.numel_in(i)) for i, name in enumerate("txup")]
        yield c.name, gap, ca.Function("rate", arguments, [both(*arguments)[gap.numel_out(0):]])


def broken(motion: Motion) -> tuple[Violation, ...]:
    """Bounds and path constraints of all phases along the motion, the worst first."""
    found = [v for leg in motion.legs for v in violations(leg.phase, leg.t, leg.x, held_controls(leg))]
    return tuple(sorted(found, key=lambda v: (v.soft, -v.largest)))


def costs(motion: Motion) -> dict[str, float]:
    """Costs by name, summed over phases; final ones only where their phase ended."""
    total: dict[str, float] = {}
    ends = np.cumsum([phase.duration.guess for phase in motion.problem.phases])
    for end, leg in zip(ends, motion.legs, strict=False):
        for name, value in leg.costs(ended=abs(leg.t[-1] - end) <= 1e-9 * end).items():
            total[name] = total.get(name, 0.0) + value
    return total


def away_from(motion: Motion) -> tuple[float, str] | None:
    """How far the end is from that of the problem's guess, in its worst component; None where the motion does not end there."""
    last, leg = motion.problem.phases[-1], motion.legs[-1]
    ends = sum(phase.duration.guess for phase in motion.problem.phases)
    if not motion.ok or len(motion.legs) < len(motion.problem.phases) or abs(motion.until - ends) > 1e-9 * ends:
        return None
    away = np.abs(np.asarray(last.system.space.minus(leg.x[-1], np.asarray(last.guess.x)[-1])).ravel())
    worst = int(np.argmax(away))
    return float(away[worst]), last.system.space.tangent_names[worst]


# ---- to draw and to save ------------------------------------------------------------------------------------------------
def as_solution(motion: Motion) -> Solution:
    """The motion as a solution of its problem, algebraic unknowns included, for the pages that show solutions."""
    stated = state_equations(motion.problem).phases
    paths = [polyline(leg.phase.system.space, leg.t, leg.x, leg.u) for leg in motion.legs]
    pairs = [(leg.phase, path) if phase.system.residual is None else with_unknowns(phase, leg.phase, path)
             for leg, path, phase in zip(motion.legs, paths, stated, strict=False)]
    whole = len(pairs) == len(motion.problem.phases)  # linkages name phases that a shorter motion does not reach
    problem = replace(motion.problem, phases=tuple(phase for phase, _ in pairs), linkages=motion.problem.linkages if whole else ())
    parts = tuple(path for _, path in pairs)
    return Solution(problem, f"simulation, {motion.integrator}", {}, Status.CONVERGED, float("nan"), join(parts), (), {},
                    parts=parts if len(parts) > 1 else ())
