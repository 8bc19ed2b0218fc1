"""The optimal-control problem as data: mathematics only, no mesh, solver or tolerance.

Every function of a problem is a CasADi Function of ``(t, x, u, p)``: time [s] since the start of the first phase, state [nx],
inputs [nu] and parameters [np]; all columns. Inputs are the controls, and behind them the algebraic unknowns of a system that has
any. Functions that hold at the start or the end must not depend on u.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import casadi as ca
import numpy as np

from ocp.errors import ProblemError
from ocp.pickles import Portable
from ocp.problem.bounds import Bounds
from ocp.problem.system import System
from ocp.problem.terms import At, Constraint, Cost, component_names

#: how far a start may break what its system asks of it, in the units of that
START_OFF = 1e-6


@dataclass(frozen=True)
class Boundary:
    """State prescribed at an end of a phase: ``value`` [nx] and which tangent components are ``fixed`` [ndx].

    The condition is ``minus(value, x) = 0`` in the fixed components, so that an attitude is never over-determined.
    """

    value: tuple[float, ...]
    fixed: tuple[bool, ...]

    @property
    def complete(self) -> bool:
        """Whether every tangent component is fixed."""
        return all(self.fixed)


@dataclass(frozen=True)
class Duration:
    """Length of a phase [s]: fixed when ``lower == upper``. vanishing: whether lower stands for zero; unknown: whether it is one of
    a program even where it is fixed, by its bounds."""

    lower: float
    upper: float
    guess: float
    vanishing: bool = False
    unknown: bool = False

    @property
    def free(self) -> bool:
        """Whether the duration is a decision variable."""
        return self.unknown or self.lower != self.upper


@dataclass(frozen=True)
class Guess:
    """Initial guess at phase fractions ``s`` [k] in [0, 1]: states x [k, nx] and inputs u [k, nu].

    States are interpolated on the manifold, inputs linearly.
    """

    s: np.ndarray
    x: np.ndarray
    u: np.ndarray


@dataclass(frozen=True)
class Phase:
    """One stretch of time with one system. Bounds are per coordinate: x_lower, x_upper [nx], u_lower, u_upper [nu]; where they are
    left empty, the limits of the system hold (-inf and inf where it has none). They are read as ``state_bounds`` and
    ``control_bounds``, and changed by ``with_bounds``.

    free_parameters: (index, lower, upper) of each parameter of the system that the solver chooses, once for the whole problem;
    phases whose systems have a parameter of the same name share it. The guess is its value in ``system.parameter_values``.
    reset: (x of the previous phase at its end, p) -> x of this phase at its start, p the parameters of this phase's system;
    None: continuous, then the spaces of both phases agree. The first phase has none. reset_slope(): x -> x of this phase and its
    derivative [ndx, ndx] in tangent spaces, where that is known in closed form; or None.
    """

    name: str
    system: System
    duration: Duration
    guess: Guess
    start: Boundary | None = None
    final: Boundary | None = None
    x_lower: tuple[float, ...] = ()
    x_upper: tuple[float, ...] = ()
    u_lower: tuple[float, ...] = ()
    u_upper: tuple[float, ...] = ()
    costs: tuple[Cost, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    free_parameters: tuple[tuple[int, float, float], ...] = ()
    reset: ca.Function | None = None
    reset_derivative: Callable[[], ca.Function] | None = None

    def __post_init__(self) -> None:
        for letter, size, limits in (("x", self.system.nx, self.system.x_limits), ("u", self.system.nu, self.system.u_limits)):
            for end in ("lower", "upper"):
                values = getattr(self, name := f"{letter}_{end}")
                if not values and size:
                    object.__setattr__(self, name, getattr(Bounds.of(limits) if limits else Bounds.free(size), end))
                elif len(values) != size:
                    raise ProblemError(f"{name} needs {size} values, got {len(values)}", where=f"phase {self.name!r}")
        if self.system.period is not None:
            whole_steps(self.duration, self.system.period, f"phase {self.name!r}")
        if any(c.at is At.PATH for c in self.system.constraints):
            for name, taken in _taken_over(self, At.PATH).items():
                object.__setattr__(self, name, taken)
        for index, low, high in self.free_parameters:
            if not 0 <= index < self.system.np:
                raise ProblemError(f"the system has no parameter {index}", where=f"phase {self.name!r}")
            name, guess = self.system.parameters[index], self.system.parameter_values[index]
            slack = 1e-6 * (1 + abs(guess))  # a solver's value may stand on its bound up to rounding
            if not low - slack <= guess <= high + slack:
                raise ProblemError(f"the guess {guess:g} of {name!r} lies outside [{low:g}, {high:g}]",
                                   where=f"phase {self.name!r}")

    @cached_property
    def state_bounds(self) -> Bounds:
        """Bounds of the states."""
        return Bounds(self.x_lower, self.x_upper)

    @cached_property
    def control_bounds(self) -> Bounds:
        """Of all inputs [nu], algebraic unknowns among them."""
        return Bounds(self.u_lower, self.u_upper)

    def with_bounds(self, *, states: Bounds | None = None, controls: Bounds | None = None, **changes: Any) -> Phase:
        """The phase with other bounds, and other changes of its fields at the same time."""
        for letter, bounds in (("x", states), ("u", controls)):
            if bounds is not None:
                changes |= {f"{letter}_lower": bounds.lower, f"{letter}_upper": bounds.upper}
        return replace(self, **changes)

    @property
    def steps(self) -> int | None:
        """Steps of a system in discrete time; None where time is continuous."""
        return None if self.system.period is None else round(self.duration.guess / self.system.period)


def whole_steps(duration: Duration, period: float, where: str | None = None) -> None:
    """Raise ProblemError unless a duration is fixed and of whole periods [s]."""
    if duration.free:
        raise ProblemError("the duration is free; a system in discrete time makes a fixed number of steps", where=where)
    steps = round(duration.guess / period)
    if not steps or abs(steps * period - duration.guess) > 1e-9 * duration.guess:
        raise ProblemError(f"{duration.guess:g} s; a system in discrete time makes whole steps, of {period:g} s", where=where)


def _taken_over(phase: Phase, at: At) -> dict[str, Any]:
    """As fields of a phase: its constraints with those that its system has there, and the system without them."""
    known = {c.name for c in phase.constraints}
    own = tuple(c for c in phase.system.constraints if c.at is at and c.name not in known)
    rest = tuple(c for c in phase.system.constraints if c.at is not at)
    return {"constraints": (*phase.constraints, *own), "system": replace(phase.system, constraints=rest)}


def _begun(phase: Phase) -> Phase:
    """The first phase of a problem with what its system asks of a start; one that is prescribed in full has to agree."""
    taken, start = _taken_over(phase, At.START), phase.start
    if start is None or not start.complete:
        return replace(phase, **taken)
    for c in phase.system.constraints:
        off = np.abs(np.asarray(c.function(0.0, start.value, np.zeros(phase.system.nu), phase.system.parameter_values)))
        if np.max(off, initial=0.0) > START_OFF:
            raise ProblemError(f"breaks the constraint {c.name!r} of the system by {np.max(off):.3g}",
                               where=f"phase {phase.name!r}: start")
    return replace(phase, system=taken["system"])


@dataclass(frozen=True)
class Linkage:
    """A constraint between ends of phases: ``lower <= function(x_1, ..., x_k, T, p) <= upper``, equal where the two are equal.

    ends: (number of a phase, At.START or At.FINAL) of each state in order; T: durations [s] of all phases; p: values of
    ``parameters``, by name, of whatever phase has them. Periodic motions link the last end to the first start.
    """

    name: str
    ends: tuple[tuple[int, At], ...]
    function: ca.Function
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    parameters: tuple[str, ...] = ()
    where: str | None = None
    labels: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Number of components."""
        return len(self.lower)

    def components(self) -> tuple[str, ...]:
        """Names of the components."""
        return component_names(self.name, self.size, self.labels)


def relinked(linkage: Linkage, first: Sequence[int]) -> Linkage:
    """The linkage between phases that are cut into pieces, which sees the lengths of whole phases. first: number of the first piece
    of each phase, and behind them how many pieces there are."""
    f, pairs = linkage.function, list(zip(first[:-1], first[1:], strict=True))
    states = [ca.SX.sym(f"x{i}", f.sparsity_in(i)) for i in range(len(linkage.ends))]
    T, p = ca.SX.sym("T", first[-1]), ca.SX.sym("p", f.sparsity_in(len(states) + 1))
    lengths = ca.vertcat(*(ca.sum1(T[a:b]) for a, b in pairs))
    ends = tuple((first[i] if at is At.START else first[i + 1] - 1, at) for i, at in linkage.ends)
    return replace(linkage, ends=ends, function=ca.Function(f.name(), [*states, T, p], [f(*states, lengths, p)]))


@dataclass(frozen=True)
class Reference:
    """A published or closed-form optimum to compare with: objective, relative tolerance and where it is from.

    error: how far the objective itself may be from the optimum, such as half its last printed digit, in its own unit.
    """

    objective: float
    tolerance: float
    source: str
    error: float = 0.0

    def off(self, objective: float) -> float:
        """The signed difference from the reference, relative to it, or to 1 where that is zero."""
        return (objective - self.objective) / (abs(self.objective) or 1.0)


@dataclass(frozen=True)
class Problem(Portable):
    """An optimal-control problem: phases in order of time, and linkages between their ends."""

    name: str
    phases: tuple[Phase, ...]
    description: str = ""
    source: str = ""
    reference: Reference | None = None
    linkages: tuple[Linkage, ...] = ()

    def __post_init__(self) -> None:
        if self.phases and self.phases[0].system.constraints:
            object.__setattr__(self, "phases", (_begun(self.phases[0]), *self.phases[1:]))
        for linkage in self.linkages:
            for number, at in linkage.ends:
                if not 0 <= number < len(self.phases) or at not in (At.START, At.FINAL):
                    raise ProblemError(f"needs ends of phases 0 to {len(self.phases) - 1}, got ({number}, {at})",
                                       where=linkage.where or f"linkage {linkage.name!r}")

    @property
    def phase(self) -> Phase:
        """The only phase. Raises ProblemError when there are several."""
        if len(self.phases) != 1:
            raise ProblemError(f"has {len(self.phases)} phases; a single one was expected", where=f"problem {self.name!r}")
        return self.phases[0]


def with_parameters(problem: Problem, values: Mapping[str, float]) -> Problem:
    """The same problem with other parameter values, wherever a system has a parameter of that name."""
    def changed(phase: Phase) -> Phase:
        system = phase.system
        new = tuple(float(values.get(n, v)) for n, v in zip(system.parameters, system.parameter_values, strict=True))
        return phase if new == system.parameter_values else replace(phase, system=replace(system, parameter_values=new))

    phases = tuple(changed(phase) for phase in problem.phases)
    return problem if all(new is old for new, old in zip(phases, problem.phases, strict=True)) else replace(problem, phases=phases)


def in_steps(problem: Problem) -> list[str]:
    """A sentence for each system in discrete time, for methods that cannot serve them."""
    names = dict.fromkeys(phase.system.name for phase in problem.phases if phase.steps is not None)
    return [f"system {name!r} is in discrete time: its steps are given, and there is nothing to discretise" for name in names]


def replaced_systems(problem: Problem, systems: Sequence[System]) -> Problem:
    """The same problem with other systems, phase by phase."""
    phases = tuple(phase if system is phase.system else replace(phase, system=system)
                   for phase, system in zip(problem.phases, systems, strict=True))
    return replace(problem, phases=phases)
