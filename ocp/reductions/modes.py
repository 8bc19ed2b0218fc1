"""Phases cut where the motion crosses surfaces of the state across which rates or costs jump: one sequence of modes.

A program with steps in the state has a gradient that misses what moving a crossing is worth. In a mode every step has one value:
on this side of its surface ``w(t, x, p) = 0``, on the other, or on it. A phase is a sequence of modes of free lengths, each a phase
of its own that keeps to its side; where the side changes, the state meets the surface (multi-phase formulation of hybrid systems
with a given sequence: Betts 2010, Practical Methods for Optimal Control and Estimation Using Nonlinear Programming, section 2.7;
at the crossings costates jump along the gradient of the surface: Bryson and Ho 1975, Applied Optimal Control, section 3.7). On a
surface the state stays by ``dw/dt = 0`` (sliding modes: Filippov 1988, Differential Equations with Discontinuous Righthand Sides),
with the value that functions have there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from ocp.problem import INF, At, Constraint, Duration, Kind, Linkage, Phase, Problem, Sense, Solution, Trajectory, relinked
from ocp.reductions.instants import ROUNDINGS, Opened, functions_of, opened
from ocp.reductions.pieces import Cut, Pieces, piece
from ocp.thresholds import ROUNDING, SWITCHES

Array = np.ndarray

#: value of an operation that steps by the sign of its argument
VALUES = {ca.OP_LT: lambda side: float(side < 0), ca.OP_LE: lambda side: float(side <= 0), ca.OP_SIGN: float}


class Mode(NamedTuple):
    """sides: for each surface the sign of its function, 0 on it; share: the part of the motion it is read from, one instant for a
    new mode; length: its share of the phase in the guess."""

    sides: tuple[int, ...]
    share: tuple[float, float]
    length: float


class Surfaces:
    """The surfaces of a phase: values [n] of w at (t, x, p), and the functions that jump across them."""

    def __init__(self, phase: Phase):
        system = phase.system
        self.phase = phase
        self.symbols = [ca.SX.sym(name, size) for name, size in zip("txup", (1, system.nx, system.nu, system.np), strict=True)]
        self.w: list[ca.SX] = []
        self.functions: dict[int, tuple[Opened, list[tuple[int, int]]]] = {}
        robot = system.robot is not None
        for function in functions_of(phase):
            if (own := opened(function, 1)) is None or any(step.code in ROUNDINGS for step in own.steps):
                continue
            if robot and function is system.rate:  # rates of a mechanism stand in other functions, too
                continue
            steps = [self._surface(ca.substitute([step.w], own.arguments, self.symbols)[0]) for step in own.steps]
            self.functions[function.__hash__()] = own, steps

    def _surface(self, w: ca.SX) -> tuple[int, int]:
        """Number and sign of a surface, new or known; surfaces whose functions are proportional are one."""
        values = self._samples(w)
        for i, other in enumerate(self.w):
            known = self._samples(other)
            ratio = values @ known / max(known @ known, ROUNDING.coincident)
            if np.abs(values - ratio * known).max(initial=0.0) <= ROUNDING.coincident * np.abs(values).max(initial=0.0):
                return i, 1 if ratio > 0 else -1
        self.w.append(w)
        return len(self.w) - 1, 1

    def _samples(self, w: ca.SX) -> Array:
        rng, system = np.random.default_rng(0), self.phase.system
        t, x = rng.random((1, 2 * system.nx + 2)), rng.standard_normal((system.nx, 2 * system.nx + 2))
        of = ca.Function("w", self.symbols, [w])
        return np.nan_to_num(np.asarray(of(t, x, np.zeros(system.nu), system.parameter_values)).ravel())

    def sides(self, t: Array, x: Array) -> Array:
        """The sides [k, n] of the surfaces at states x [k, nx]."""
        of = ca.Function("w", self.symbols, [ca.vertcat(*self.w)])
        w = np.asarray(of(t[None, :], x.T, np.zeros(self.phase.system.nu), self.phase.system.parameter_values)).T
        near = ROUNDING.resolution * np.max(np.abs(w), axis=0)
        return np.where(np.abs(w) <= near, 0, np.sign(w)).astype(int)

    def in_mode(self, sides: Sequence[int]) -> dict[int, ca.Function]:
        """The functions without steps that apply in a mode."""
        return {key: own.between([VALUES[step.code](sign * sides[i]) for step, (i, sign) in zip(own.steps, steps, strict=True)])
                for key, (own, steps) in self.functions.items()}

    def keep(self, sides: Sequence[int], rate: ca.Function) -> Constraint:
        """The path constraint that keeps a mode on its sides, in a system with this rate."""
        t = self.symbols[0]
        values = [side * w if side else ca.jacobian(w, t) + self._tangent_derivative(w) @ rate(*self.symbols)
                  for side, w in zip(sides, self.w, strict=True)]
        upper = tuple(INF if side else 0.0 for side in sides)
        return Constraint("mode", At.PATH, self._function(ca.vertcat(*values)), (0.0,) * len(sides), upper)

    def meet(self, numbers: Sequence[int], at: At) -> Constraint:
        """The constraint that the state lies on these surfaces at an end of a piece."""
        none = (0.0,) * len(numbers)
        return Constraint("surface", at, self._function(ca.vertcat(*(self.w[i] for i in numbers))), none, none, Sense.EQUAL)

    def on(self, sides: Sequence[int], part: Trajectory) -> Trajectory:
        """A trajectory with its states projected onto the surfaces of a mode."""
        t, x, u, p = self.symbols
        space, values = self.phase.system.space, ca.vertcat(*(w for side, w in zip(sides, self.w, strict=True) if not side))
        J = self._tangent_derivative(values)
        step = ca.Function("onto", [t, x, u, p], [space.plus(x, -J.T @ ca.solve(J @ J.T, values))])

        def moved(times: Any, states: Array) -> Array:
            return np.asarray(step(np.atleast_1d(times)[None, :], np.atleast_2d(states).T, np.zeros(u.numel()),
                                   self.phase.system.parameter_values)).T.reshape(np.shape(states))

        return replace(part, x=moved(part.t, part.x), state=lambda times: moved(times, part.state(times)))

    def _tangent_derivative(self, w: ca.SX) -> ca.SX:
        """Derivative [n, ndx] with respect to tangent components of the state."""
        x, space = self.symbols[1], self.phase.system.space
        d = ca.SX.sym("d", space.ndx)
        return ca.substitute(ca.jacobian(ca.substitute(w, x, space.plus(x, d)), d), d, 0)

    def _function(self, value: ca.SX) -> ca.Function:
        return ca.Function("surfaces", self.symbols, [ca.densify(value)], list("txup"), ["value"])


@dataclass(frozen=True)
class Modes(Cut):
    """Phases as sequences of modes, one for every phase; not where systems are in discrete time, where rates that jump are those of
    a mechanism, or where integrals are constrained."""

    sequences: tuple[tuple[Mode, ...], ...]
    name = "modes"
    said = Kind.PIECES_AT_SURFACES
    judged_in_pieces = True

    def apply(self, problem: Problem) -> tuple[Problem, Pieces | None]:
        """The reduced problem, and the data for ``invert``."""
        first = np.cumsum([0, *(len(own) for own in self.sequences)]).tolist()
        phases: list[Phase] = []
        linkages = [relinked(linkage, first) for linkage in problem.linkages]
        for number, (phase, sequence) in enumerate(zip(problem.phases, self.sequences, strict=True)):
            phases += [phase] if len(sequence) == 1 else _pieces(phase, sequence)
            if len(sequence) > 1:
                linkages.append(_length(phase, first[number], len(sequence), first[-1]))
        numbers = tuple(tuple(range(a, b)) for a, b in zip(first[:-1], first[1:], strict=True))
        return replace(problem, phases=tuple(phases), linkages=tuple(linkages)), Pieces(problem, numbers)

    def invert(self, solution: Solution, data: Pieces) -> Solution:
        """The solution of the original problem."""
        parts = list(solution.parts or (solution.trajectory,))
        for phase, numbers, sequence in zip(data.before.phases, data.numbers, self.sequences, strict=True):
            for k, mode in zip(numbers, sequence, strict=True):
                if 0 in mode.sides:
                    parts[k] = Surfaces(phase).on(mode.sides, parts[k])
        return super().invert(replace(solution, parts=tuple(parts)) if len(parts) > 1 else solution, data)


def _pieces(phase: Phase, sequence: Sequence[Mode]) -> Iterator[Phase]:
    surfaces, count, length = Surfaces(phase), len(sequence), phase.duration
    for k, mode in enumerate(sequence):
        functions = surfaces.in_mode(mode.sides)
        added = [surfaces.keep(mode.sides, functions.get(phase.system.rate.__hash__(), phase.system.rate))]
        after = sequence[k + 1].sides if k + 1 < count else mode.sides
        if met := [i for i, (a, b) in enumerate(zip(mode.sides, after, strict=True)) if a and a != b]:
            added.append(surfaces.meet(met, At.FINAL))
        if k == 0 and 0 in mode.sides and (phase.start is None or not phase.start.complete):
            added.append(surfaces.meet([i for i, side in enumerate(mode.sides) if not side], At.START))
        least = SWITCHES.vanished * length.guess
        duration = Duration(least, max(length.upper, 2 * least), max(mode.length * length.guess, 2 * least), vanishing=True)
        yield piece(phase, k, count, duration, mode.share, functions, tuple(added))


def _length(phase: Phase, first: int, count: int, of: int) -> Linkage:
    """The constraint that all pieces together last as long as the phase."""
    x, T, p = ca.SX.sym("x", phase.system.nx), ca.SX.sym("T", of), ca.SX.sym("p", 0)
    total = ca.Function("length", [x, T, p], [ca.sum1(T[first:first + count])])
    ends = (phase.duration.lower,), (phase.duration.upper,)
    return Linkage(f"length of {phase.name}", ((first + count - 1, At.FINAL),), total, *ends)
