"""Phases cut into pieces, each a phase of its own: the common part of reductions that cut phases, and its inverse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import casadi as ca
import numpy as np

from ocp.guesses.sampling import sample_guess
from ocp.problem import At, Constraint, Duration, Finding, Guess, Kind, Phase, Problem, Solution, glued, join
from ocp.reductions.chain import Reduction, Redundant

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Pieces:
    """The original problem, and the numbers of the pieces of each of its phases."""

    before: Problem
    numbers: tuple[tuple[int, ...], ...]


class Cut(Reduction):
    """A reduction that cuts phases into pieces; its inverse data are ``Pieces``."""

    keeps_controls = False
    said = Kind.PIECES_AT_JUMPS

    def invert(self, solution: Solution, data: Pieces) -> Solution:
        """The solution of the original problem."""
        paths = solution.parts or (solution.trajectory,)
        parts = tuple(glued([paths[k] for k in own]) for own in data.numbers)
        phases = []
        for phase, own, part in zip(data.before.phases, data.numbers, parts, strict=True):
            found = solution.problem.phases[own[0]]
            length = found.duration if len(own) == 1 else replace(phase.duration, guess=float(part.t[-1] - part.t[0]))
            system = replace(phase.system, parameter_values=found.system.parameter_values)
            phases.append(replace(phase, duration=length, system=system))
        cut = tuple(Finding(self.said, name=phase.name, value=len(own))
                    for phase, own in zip(phases, data.numbers, strict=True) if len(own) > 1)
        return replace(solution, problem=replace(solution.problem, phases=tuple(phases), linkages=data.before.linkages),
                       trajectory=join(parts), parts=parts if len(parts) > 1 else (), extra=_extra(solution, data),
                       findings=(*solution.findings, *(cut if solution.optimality is not None else ())))

    def origins(self, data: Pieces) -> tuple[int, ...]:
        """The phase of each piece."""
        return tuple(i for i, own in enumerate(data.numbers) for _ in own)

    def redundant_before(self, found: Redundant, data: Pieces) -> Redundant:
        """Redundant conditions of the original problem, from those of the pieces."""
        return Redundant(tuple(found.start[own[0]] for own in data.numbers), tuple(found.final[own[-1]] for own in data.numbers),
                         found.linkages[:len(data.before.linkages)])


def piece(phase: Phase, k: int, count: int, duration: Duration, share: tuple[float, float], functions: Mapping[int, ca.Function],
          added: tuple[Constraint, ...] = ()) -> Phase:
    """Piece k of ``count`` of a phase. share: the part of its guess, one instant if both ends are equal; functions: the functions
    that replace those of the phase, by identity; added: constraints of the piece alone."""
    last = count - 1

    def own(function: Any) -> Any:
        return None if function is None else functions.get(function.__hash__(), function)

    kept = {At.PATH, At.INTEGRAL, *([At.START] if k == 0 else []), *([At.FINAL] if k == last else [])}
    (a, b), space = share, phase.system.space
    s = np.unique(np.clip(np.concatenate([share, phase.guess.s]), a, b))
    x, u = sample_guess(phase.guess, space, s)
    fractions, first = np.unique((s - a) / (b - a) if b > a else np.zeros(1), return_index=True)  # rounded, two may be one
    guess = Guess(fractions, x[first], u[first] if b > a else 0 * u)
    return replace(
        phase, name=f"{phase.name}.{k}" if last else phase.name, duration=duration,
        system=replace(phase.system, rate=own(phase.system.rate), residual=own(phase.system.residual)), guess=guess,
        start=phase.start if k == 0 else None, final=phase.final if k == last else None, reset=phase.reset if k == 0 else None,
        costs=tuple(replace(c, function=own(c.function)) for c in phase.costs if c.at in kept),
        constraints=(*(replace(c, function=own(c.function)) for c in phase.constraints if c.at in kept), *added))


def _extra(solution: Solution, data: Pieces) -> dict[str, Array]:
    """Arrays of pieces joined, by names of phases; arrays of segments without the instants between pieces."""
    found = dict(solution.extra)
    names = [phase.name for phase in solution.problem.phases]
    for phase, own in zip(data.before.phases, data.numbers, strict=True):
        prefix = f"{phase.name}." if len(data.numbers) > 1 else ""
        for key in [key for key in found if key.startswith(f"{names[own[0]]}.")]:
            rest = key.removeprefix(f"{names[own[0]]}.")
            pieces = [found.pop(f"{names[k]}.{rest}") for k in own if f"{names[k]}.{rest}" in found]
            found |= {prefix + rest: np.concatenate(pieces)} if len(pieces) == len(own) else {}
    segments = np.cumsum([len(part.t) for part in solution.parts])
    seams = [segments[k] - 1 for own in data.numbers for k in own[:-1]]
    for key in ("certificate_segment_gap", "certificate_segment_defect"):
        if key in found:
            found[key] = np.delete(found[key], seams)
    return found
