"""Phases as the stages see them: with the free constants of the problem carried along as states of rate zero.

Free durations and free parameters are constants theta that the first stage of a horizon chooses; every later stage hands them on:
x_e = (x, theta). States at ends that linkages look back on are among them, written where the end is. Where the duration is free, or
that of a phase before, the time argument of a stage is the fraction s in [0, 1] of its phase, and ``t = T(theta) + s d(theta)``
with the start T and the duration d. A running cost is then ``d l`` per unit of s.

Steps that look back see the state one step before behind all that, (x, theta, x_before), but the first one of every phase, which a
one-step method makes: knots beyond it carry both. Costs and constraints see (x, theta) alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import casadi as ca
import numpy as np

from dynamics.derivatives.inner import Inner, split
from dynamics.lie.expression import Expr
from ocp.bridge import inner
from ocp.integrators import MULTISTEP, Node, looking_back, motion, serving
from ocp.integrators.integrator import velocity
from ocp.problem import At, Constraint, Cost, Linkage, Phase, Problem
from ocp.shooting.stages.costs import terms
from ocp.shooting.stages.symplectic import robot_step
from ocp.spaces import Space, euclidean, product

End = tuple[int, At]


@dataclass(frozen=True)
class Constants:
    """The constants theta: names, bounds, guesses; the position of each free duration by phase, of each parameter by name.

    memory: where the coordinates begin of each end (number of its phase, START or FINAL) that linkages look back on. The stage of
    that end writes them, behind all that is ``chosen`` at the start. linkages: by the last of their ends, where they are enforced.
    """

    names: tuple[str, ...] = ()
    lower: tuple[float, ...] = ()
    upper: tuple[float, ...] = ()
    guess: tuple[float, ...] = ()
    durations: Mapping[int, int] = field(default_factory=dict)
    parameters: Mapping[str, int] = field(default_factory=dict)
    memory: Mapping[End, int] = field(default_factory=dict)
    linkages: Mapping[End, tuple[Linkage, ...]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Number of constants."""
        return len(self.names)

    @property
    def chosen(self) -> int:
        """How many are chosen at the start."""
        return min(self.memory.values(), default=self.count)

    def remembered(self, theta: Expr, end: End, x: Expr) -> Expr:
        """theta with the state x [nx] of an end where linkages look back on it."""
        if end not in self.memory:
            return theta
        at = self.memory[end]
        return ca.vertcat(theta[:at, :], x, theta[at + x.shape[0]:, :])


def free_constants(problem: Problem) -> Constants:
    """Unknowns of a problem beside states and controls: durations of phases in order, then parameters; then the ends that
    linkages look back on."""
    found: list[tuple[str, float, float, float]] = []
    durations: dict[int, int] = {}
    parameters: dict[str, int] = {}
    for i, phase in enumerate(problem.phases):
        if phase.duration.free:
            durations[i] = len(found)
            name = "duration" if len(problem.phases) == 1 else f"duration of {phase.name}"
            found.append((name, phase.duration.lower, phase.duration.upper, phase.duration.guess))
    for phase in problem.phases:
        system = phase.system
        for index, lower, upper in phase.free_parameters:
            name = system.parameters[index]
            if name not in parameters:
                parameters[name] = len(found)
                found.append((name, lower, upper, system.parameter_values[index]))
    memory: dict[End, int] = {}
    linkages: dict[End, tuple[Linkage, ...]] = {}
    for linkage in problem.linkages:
        last = max(linkage.ends, key=_order)
        linkages[last] = (*linkages.get(last, ()), linkage)
        for number, at in linkage.ends:
            phase = problem.phases[number]
            if (number, at) != last and (number, at) not in memory:
                memory[number, at] = len(found)
                found += [(f"{at.value} of {phase.name}: {name}", -np.inf, np.inf, value) for name, value in zip(
                    phase.system.space.names, np.asarray(phase.guess.x[0 if at is At.START else -1]).tolist(), strict=True)]
    return Constants(tuple(name for name, *_ in found), tuple(low for _, low, *_ in found), tuple(high for _, _, high, _ in found),
                     tuple(guess for *_, guess in found), durations, parameters, memory, linkages)


def _order(end: End) -> tuple[int, bool]:
    """Ends in order of time."""
    return end[0], end[1] is At.FINAL


def carried(space: Space, constants: Constants) -> Space:
    """The state space with theta behind the state."""
    if not constants.count:
        return space
    return replace(product(space, euclidean(constants.names)), neutral=space.neutral + constants.guess)


class ClosedStep(NamedTuple):
    """State after a step [nx]; its derivative F [ndx, ndx + nu], None: by algorithmic differentiation; inner: values of the
    dynamics in constraints with their derivative, None: not at hand."""

    after: Expr
    F: Expr | None = None
    inner: tuple[Expr, Expr] | None = None


@dataclass(frozen=True)
class Stretch:
    """One phase with theta carried along.

    number: of the phase. fractional: the time argument is the fraction s of the phase, see the module docstring.
    lengths: durations of the phases before and of this one, as numbers or as positions in theta.
    """

    phase: Phase
    number: int
    constants: Constants
    fractional: bool
    lengths: tuple[float, ...]

    @property
    def space(self) -> Space:
        """State space with the constants appended."""
        return carried(self.phase.system.space, self.constants)

    @property
    def behind(self) -> Space:
        """The carried state with that of the system one step before behind it."""
        own = self.phase.system.space
        return product(self.space, replace(own, names=tuple(f"{name} before" for name in own.names),
                                           tangent_names=tuple(f"{name} before" for name in own.tangent_names)))

    def now(self, x: Expr) -> Expr:
        """The carried state without the state before."""
        return x if x.shape[0] == self.space.nx else x[:self.space.nx]

    @cached_property
    def inner(self) -> Inner | None:
        """Values of the dynamics that costs and constraints may hold, as functions of the carried state."""
        found = inner(self.phase.system)
        return None if found is None else found.carried(self.phase.system.nx, self.constants.count)

    def split(self, x: Expr) -> tuple[Expr, Expr]:
        """State of the system, and theta."""
        nx = self.phase.system.nx
        return x[:nx], x[nx:] if self.constants.count else ca.DM(0, 1)  # of one state x[1:] would be a row

    def length(self, number: int, theta: Expr) -> Expr:
        """Duration [s] of a phase up to this one."""
        at = self.constants.durations
        return theta[at[number]] if number in at else self.lengths[number]

    def clock(self, t: Expr, theta: Expr) -> Expr:
        """Absolute time [s]."""
        if not self.fractional:
            return t
        return sum((self.length(i, theta) for i in range(self.number)), start=0.0) + t * self.length(self.number, theta)

    def pace(self, theta: Expr) -> Expr:
        """Seconds per unit of the time argument."""
        return self.length(self.number, theta) if self.fractional else 1.0

    def parameters(self, p: Expr, theta: Expr) -> Expr:
        """Parameters of the system, the free ones taken from theta."""
        at = self.constants.parameters
        names = self.phase.system.parameters
        if not any(name in at for name in names):
            return p
        return ca.vertcat(*(theta[at[name]] if name in at else p[i] for i, name in enumerate(names)))

    def at_point(self, function: ca.Function) -> Callable[[Expr, Expr, Expr, Expr], Expr]:
        """A function of (t, x, u, p) as one of the carried state."""
        def call(t: Expr, x: Expr, u: Expr, p: Expr) -> Expr:
            state, theta = self.split(x)
            return function(self.clock(t, theta), state, u, self.parameters(p, theta))
        return call

    def around(self, function: ca.Function) -> ca.Function | None:
        """The same with values k of ``inner`` as the last argument; None where it holds none."""
        if self.inner is None or not function.is_a("SXFunction"):
            return None
        if self.constants.count:
            sizes = (1, self.space.nx, function.size1_in(2), function.size1_in(3))
            symbols = [ca.SX.sym(n, size) for n, size in zip("txup", sizes, strict=True)]
            function = ca.Function(function.name(), symbols, [self.at_point(function)(*symbols)])
        return split(function, self.inner.sought)

    def costs(self, at: At) -> tuple[Cost, ...]:
        """Costs of the phase there as functions of the carried state; running costs per unit of the time argument."""
        found = terms(self.phase, at)
        return tuple(self._lifted(cost) for cost in found) if self.constants.count else found

    def _lifted(self, cost: Cost) -> Cost:
        system = self.phase.system
        kind = ca.SX if cost.function.is_a("SXFunction") else ca.MX
        t, x, u, p = kind.sym("t"), kind.sym("x", self.space.nx), kind.sym("u", system.nu), kind.sym("p", system.np)
        value = self.at_point(cost.function)(t, x, u, p)
        if cost.at is At.PATH and self.fractional:
            pace = self.pace(self.split(x)[1])
            value = value * (pace if cost.weights is None else ca.sqrt(pace))
        return replace(cost, function=ca.Function(cost.function.name(), [t, x, u, p], [value]))

    def linkage(self, linkage: Linkage, x: Expr, p: Expr) -> Expr:
        """Value of a linkage whose last end is at the carried state x of this phase, p the parameters of its system."""
        state, theta = self.split(x)
        at, system = self.constants.memory, self.phase.system
        last = max(linkage.ends, key=_order)
        states = [state if end == last else theta[at[end]:at[end] + size, :]
                  for end, size in zip(linkage.ends, (linkage.function.numel_in(i) for i in range(len(linkage.ends))), strict=True)]
        durations = ca.vertcat(*(self.length(i, theta) for i in range(len(self.lengths))))
        known = dict(zip(system.parameters, ca.vertsplit(self.parameters(p, theta)) if system.np else (), strict=True))
        return linkage.function(*states, durations, ca.vertcat(*(known[name] for name in linkage.parameters)))

    def hard(self, at: At) -> list[Constraint]:
        """Hard constraints there, as they are."""
        return [c for c in self.phase.constraints if c.at is at and c.soft is None]

    def advance(self, integrator: str, t: Expr, x: Expr, u: Expr, p: Expr, h: Expr, before: tuple[Expr, Expr] | None = None
                ) -> tuple[Expr, tuple[Node, ...]]:
        """One step of the integrator and the nodes of its quadrature, with the time argument of the stages. before: of a two-step
        method, the state [nx] one step ago, and h over the length of that step."""
        system, (state, theta), given = self.phase.system, self.split(x), (t, x, u, p, h)
        if self.constants.count:
            given = (self.clock(t, theta), state, u, self.parameters(p, theta), h * self.pace(theta))
        if before is None:
            after, nodes = serving(system, integrator).advance(system, *given)
        else:
            after, nodes = MULTISTEP[integrator].advance(system, given[0], before[0], *given[1:], before[1])
        if not self.constants.count:
            return after, nodes
        places = self._fractions(integrator) if before is None else [1.0]
        lifted = tuple((weight, t + place * h, x if at is state else ca.vertcat(at, theta))
                       for (weight, _, at), place in zip(nodes, places, strict=True))
        return ca.vertcat(after, theta), lifted

    def field(self, t: Expr, x: Expr, u: Expr, p: Expr) -> Expr:
        """Derivative [nx] of the carried state in ambient coordinates by the time argument."""
        system, (state, theta) = self.phase.system, self.split(x)
        rise = velocity(system, self.clock(t, theta), state, u, self.parameters(p, theta))
        return ca.vertcat(self.pace(theta) * rise, ca.SX(self.constants.count, 1))

    def closed_step(self, x: Expr, u: Expr, h: Expr) -> ClosedStep:
        """A step of symplectic Euler of a robot with its derivative in closed form."""
        state, theta = self.split(x)
        after, by_x, by_u, by_h, inner = robot_step(self.phase.system.continuous, state, u, h * self.pace(theta))
        if not self.constants.count:
            return ClosedStep(after, ca.horzcat(by_x, by_u), inner)
        count, nu = self.constants.count, u.shape[0]
        by_theta = ca.mtimes(by_h, ca.jacobian(h * self.pace(theta), theta) if self.fractional else ca.SX(1, count))
        held = ca.horzcat(ca.SX(count, by_x.shape[1]), ca.SX.eye(count), ca.SX(count, nu))
        return ClosedStep(ca.vertcat(after, theta), ca.vertcat(ca.horzcat(by_x, by_theta, by_u), held))

    def failure(self, integrator: str, t: float, x: np.ndarray, u: np.ndarray, h: float) -> motion.Failure | None:
        """Why an implicit step by the equations of motion from a carried state, the state before with it where there is one, has
        no solution; None where it has one, or is none."""
        system, size, two = self.phase.system, self.space.nx, looking_back(self.phase.system, integrator)
        before = (x[size:size + system.nx], 1.0) if len(x) > size else None
        integrator = two.first if two is not None and before is None else integrator
        if integrator not in ("bdf1", "sdirk2", "bdf2") or not motion.moves(system):
            return None
        theta = x[system.nx:system.nx + self.constants.count]
        p = np.array(ca.DM(self.parameters(ca.DM(system.parameter_values), ca.DM(theta)))).ravel()
        return motion.failure(system, integrator, float(self.clock(t, theta)), x[:system.nx], u[:system.nu], p,
                              float(h * self.pace(theta)), before)

    def _fractions(self, integrator: str) -> list[float]:
        """Where the nodes stand in a step, in units of h, by a step of length 1 from time 0."""
        system, sym = self.phase.system, ca.MX.sym
        t, h = sym("t"), sym("h")
        x, u, p = (sym(name, size) for name, size in (("x", system.nx), ("u", system.nu), ("p", system.np)))
        nodes = serving(system, integrator).advance(system, t, x, u, p, h)[1]
        places: list[float] = ca.Function("places", [t, h], [ca.vertcat(*(time for _, time, _ in nodes))])(0.0, 1.0).elements()
        return places


def stretches(problem: Problem) -> tuple[Stretch, ...]:
    """The phases of a problem in order, each with all the constants of the problem."""
    constants = free_constants(problem)
    lengths = tuple(phase.duration.guess for phase in problem.phases)
    return tuple(Stretch(phase, i, constants, any(j in constants.durations for j in range(i + 1)), lengths)
                 for i, phase in enumerate(problem.phases))
