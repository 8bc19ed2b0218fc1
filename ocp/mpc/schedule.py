"""Several phases of fixed durations as one of constant size, for horizons that move across the instants between them.

Phases begin at times that are known, so what holds at a time t is known, too: the dynamics, costs and constraints of the phase
that t lies in. A step across an instant is made of two, with the reset of the state between them: instants lie anywhere between the
knots. The result is a system in discrete time whose step is the sampling period; running costs are sums over its knots. Costs and
constraints at the end of a phase hold where a step passes it; costs of the phase that the horizon ends in, at its last knot. After
the last phase its own terms go on, or phases repeat.

Phases of a robot on contacts have too much in each of them for one function of all: stages are those of single phases
(``ocp.shooting.stages.by_time``), which change at knots. Costs at the end of a phase then count where the horizon ends in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace

import casadi as ca
import numpy as np

from dynamics.errors import near
from dynamics.lie.expression import Expr
from ocp.errors import ProblemError
from ocp.problem import INF, At, Bounds, Constraint, Cost, Duration, Formulation, Guess, Phase, Problem, Sense
from ocp.reductions.algebraic_elimination import AlgebraicElimination
from ocp.reductions.algebraic_equations import state_equations
from ocp.shooting.stages.by_time import SLACK, TimedProblem, Timetable
from ocp.simulation import step_function


def scheduled(problem: Problem, length: float, step: float, integrator: str = "rk4", repeat: str = "") -> Problem:
    """One phase of ``length`` [s] in steps of ``step`` [s], whose time argument is that of the whole problem; with contacts a
    ``TimedProblem``, whose steps are the solver's. repeat: name of the phase that follows the last one; empty: the last goes on.
    Raises ProblemError for phases that differ in states, controls or parameters, free durations, linkages, and steps longer than a
    phase."""
    contacts = on_contacts(problem)
    if contacts:
        problem = AlgebraicElimination().apply(state_equations(problem))[0]
    names = [phase.name for phase in problem.phases]
    if repeat and repeat not in names:
        raise ProblemError(f"no phase named {repeat!r}{near(repeat, names)}", where="mpc.repeat")
    whole = _Schedule(problem, step, integrator, names.index(repeat) if repeat else None, contacts)
    first, count = problem.phases[0], round(length / step)
    guess = np.array(first.start.value if first.start is not None else first.guess.x[0], float)
    kept = {} if contacts else {"model": None, "drawn": None}
    system = first.system.with_controls(
        first.system.controls, whole.rate(), residual=None, formulation=Formulation(), **kept)
    system = replace(system, name=problem.name, period=None if contacts else step)
    x_bounds, u_bounds = (_widest([getattr(phase, kind) for phase in problem.phases])
                          for kind in ("state_bounds", "control_bounds"))
    lasting = Duration(count * step, count * step, count * step)
    one = replace(problem, linkages=(), phases=(Phase(
        "schedule", system, lasting, Guess(np.array([0.0, 1.0]), np.tile(guess, (2, 1)), np.tile(first.guess.u[:1], (2, 1))),
        start=first.start, x_lower=x_bounds.lower, x_upper=x_bounds.upper, u_lower=u_bounds.lower, u_upper=u_bounds.upper,
        costs=tuple(whole.costs()), constraints=tuple(whole.constraints(x_bounds, u_bounds))),))
    if not contacts:
        return one
    return TimedProblem(**{f.name: getattr(one, f.name) for f in fields(Problem)}, parts=problem, table=whole.table)


def on_contacts(problem: Problem) -> bool:
    """Whether phases are of a robot under constraints, which may differ from phase to phase."""
    return any(phase.system.robot is not None and phase.system.robot.constraints for phase in problem.phases)


def _widest(bounds: Sequence[Bounds]) -> Bounds:
    """The intersection of all bounds; those of one alone are a constraint of its phase."""
    lower, upper = (np.array([one.arrays[side] for one in bounds]) for side in (0, 1))
    return Bounds(tuple(lower.min(axis=0).tolist()), tuple(upper.max(axis=0).tolist()))


class _Schedule:
    """Symbols (t, x, u, p), and what holds where; ends [n]: times of the ends of the phases."""

    def __init__(self, problem: Problem, step: float, integrator: str, again: int | None, contacts: bool):
        _check(problem, step, contacts)
        self.phases, self.h, self.contacts = problem.phases, step, contacts
        self.ends = np.cumsum([phase.duration.guess for phase in problem.phases]).tolist()
        self.table = Timetable(tuple(self.ends), again)
        system = self.phases[0].system
        self.space = system.space
        self.t, self.x, self.u, self.p = (ca.MX.sym(name, size) for name, size in (
            ("t", 1), ("x", system.nx), ("u", system.nu), ("p", system.np)))
        self._steps = [] if contacts else [step_function(phase.system, integrator) for phase in self.phases]
        self.now = self.t
        if again is not None:  # as ``Timetable.within``
            first = self.ends[again - 1] if again else 0.0
            self.now = ca.if_else(self.t < self.ends[-1], self.t, first + ca.fmod(self.t - first, self.ends[-1] - first))

    # ---- where a time lies ------------------------------------------------------------------------------------------
    def within(self, i: int) -> Expr:
        """Whether t lies in phase i; the first and the last have no end of their own."""
        after = [self.now >= self.ends[i - 1] - SLACK * self.h] if i else []
        before = [self.now < self.ends[i] - SLACK * self.h] if i + 1 < len(self.phases) else []
        return ca.logic_and(*after, *before) if after and before else (after + before + [ca.MX(1)])[0]

    def passing(self, i: int) -> Expr:
        """Whether the step from t passes the end of phase i."""
        ahead = self.ends[i] - self.now
        return ca.logic_and(ahead > SLACK * self.h, ahead <= (1 + SLACK) * self.h)

    def before(self, i: int) -> tuple[Expr, Expr]:
        """Time and state at the end of phase i of a step that passes it."""
        share = ca.fmax(0.0, ca.fmin(self.ends[i] - self.now, self.h))
        return self.t + share, self._steps[i](self.t, self.x, self.u, self.p, share)[0]

    # ---- what holds there -------------------------------------------------------------------------------------------
    def follower(self, i: int) -> int | None:
        """Number of the phase behind phase i."""
        return i + 1 if i + 1 < len(self.phases) else self.table.again

    def rate(self) -> ca.Function:
        if self.contacts:
            rates = [phase.system.rate(self.t, self.x, self.u, self.p) for phase in self.phases]
            value = rates[-1]
            for i in reversed(range(len(self.phases) - 1)):
                value = ca.if_else(self.within(i), rates[i], value)
            return self._function("rate", value)
        after = self._steps[-1](self.t, self.x, self.u, self.p, self.h)[0]
        for i in reversed(range(len(self.phases))):
            j = self.follower(i)
            if j is None:
                continue
            end, state = self.before(i)
            reset = self.phases[j].reset
            state = state if reset is None else reset(state, self.p)
            across = self._steps[j](end, state, self.u, self.p, self.t + self.h - end)[0]
            own = self._steps[i](self.t, self.x, self.u, self.p, self.h)[0]
            after = ca.if_else(self.passing(i), across, ca.if_else(self.within(i), own, after))
        return self._function("rate", self.space.minus(self.x, after) / self.h)

    def costs(self) -> Iterator[Cost]:
        for i, phase in enumerate(self.phases):
            for cost in phase.costs:
                name = f"{phase.name}: {cost.name}"
                if cost.at is At.PATH:
                    yield self._cost(name, At.PATH, cost, self.within(i), cost.function(self.t, self.x, self.u, self.p), 1.0)
                else:
                    nothing = ca.MX.zeros(self.u.shape[0])
                    if self.follower(i) is not None and not self.contacts:
                        end, state = self.before(i)
                        value = cost.function(end, state, nothing, self.p)
                        yield self._cost(name, At.PATH, cost, self.passing(i), value, 1 / self.h)
                    yield self._cost(f"{name}, ahead", At.FINAL, cost, self.within(i),
                                     cost.function(self.t, self.x, nothing, self.p), 1.0)

    def _cost(self, name: str, at: At, cost: Cost, active: Expr, value: Expr, factor: float) -> Cost:
        if cost.weights is None:
            return Cost(name, at, self._function("cost", ca.if_else(active, factor * value, 0.0)))
        weights = tuple(factor * weight for weight in cost.weights)
        return Cost(name, at, self._function("cost", ca.if_else(active, value, ca.MX.zeros(*value.shape))), weights)

    def constraints(self, x_bounds: Bounds, u_bounds: Bounds) -> Iterator[Constraint]:
        last = len(self.phases) - (self.table.again is None)
        for i, phase in enumerate(self.phases):
            for what, value, own, common in (("states", self.x, phase.state_bounds, x_bounds),
                                             ("controls", self.u, phase.control_bounds, u_bounds)):
                if own != common:
                    bound = Constraint.within(f"{phase.name}: bounds of {what}", At.PATH, self._function("c", value), own)
                    yield self._constraint(bound, At.PATH, self.within(i), value)
            for c in phase.constraints:
                one = replace(c, name=f"{phase.name}: {c.name}")
                if c.at is At.PATH:
                    yield self._constraint(one, At.PATH, self.within(i), c.function(self.t, self.x, self.u, self.p))
                else:
                    yield from self._at_end(i, last, one, lambda t, x, u, f=c.function: f(t, x, u, self.p))
            if phase.final is not None and any(phase.final.fixed):
                fixed = np.flatnonzero(phase.final.fixed).tolist()
                goal, none = ca.DM(phase.final.value), (0.0,) * len(fixed)
                one = Constraint(f"{phase.name}: final state", At.FINAL, phase.system.rate, none, none, Sense.EQUAL)
                yield from self._at_end(i, last, one, lambda t, x, u, g=goal, f=fixed: self.space.minus(g, x)[f])

    def _at_end(self, i: int, last: int, one: Constraint, value: Callable[..., Expr]) -> Iterator[Constraint]:
        nothing = ca.MX.zeros(self.u.shape[0])
        if i < last:
            end, state = self.before(i)
            yield self._constraint(one, At.PATH, self.passing(i), value(end, state, nothing))
        else:
            yield self._constraint(one, At.FINAL, self.t >= self.ends[i] - SLACK * self.h, value(self.t, self.x, nothing))

    def _constraint(self, one: Constraint, at: At, active: Expr, value: Expr) -> Constraint:
        """The constraint where it is active; elsewhere a value that keeps it."""
        if one.sense is Sense.CONE:
            kept = np.r_[1.0, np.zeros(value.shape[0] - 1)]
        else:
            kept = np.array([_inside(*pair) for pair in one.bounds.pairs()])
        return replace(one, at=at, function=self._function("constraint", ca.if_else(active, value, ca.DM(kept))))

    def _function(self, name: str, value: Expr) -> ca.Function:
        made = ca.Function(name, [self.t, self.x, self.u, self.p], [ca.densify(ca.MX(value))])
        if self.contacts:  # for a run's report: evaluated there, and differentiated nowhere
            return made
        try:
            return made.expand()
        except RuntimeError:  # calls that have no scalar graph
            return made


def _inside(lower: float, upper: float) -> float:
    """A value well within bounds."""
    if lower == -INF:
        return 0.0 if upper == INF else upper - 1.0
    return lower + 1.0 if upper == INF else (lower + upper) / 2


def _check(problem: Problem, step: float, contacts: bool) -> None:
    first = problem.phases[0]
    if problem.linkages:
        raise ProblemError("a receding horizon over several phases does not support linkages", where=f"problem {problem.name!r}")
    for phase in problem.phases:
        where, system = f"phase {phase.name!r}", phase.system
        if phase.duration.free or phase.free_parameters:
            raise ProblemError("a receding horizon over several phases needs fixed durations and parameters", where=where)
        same = (system.space.names, system.controls, system.parameters, system.parameter_values)
        if same != (first.system.space.names, first.system.controls, first.system.parameters, first.system.parameter_values):
            raise ProblemError("a receding horizon needs the same states, controls and parameters in all phases", where=where)
        if system.period is not None or system.residual is not None:
            raise ProblemError("a receding horizon over several phases needs explicit systems in continuous time", where=where)
        if step > phase.duration.guess * (1 + SLACK):
            raise ProblemError(f"lasts {phase.duration.guess:g} s, less than a sampling period ({step:g} s)", where=where)
        places = {*(cost.at for cost in phase.costs), *(constraint.at for constraint in phase.constraints)}
        if contacts:
            _check_contacts(phase, first)
        if not places <= {At.PATH, At.FINAL}:
            raise ProblemError("a receding horizon over phases supports neither terms at the start of a phase nor integrals",
                               where=where)
    if first.start is None or not all(np.isfinite(first.start.value)) or INF in first.start.value:
        raise ProblemError("a receding horizon needs the whole initial state", where=f"phase {first.name!r}")


def _check_contacts(phase: Phase, first: Phase) -> None:
    where = f"phase {phase.name!r}"
    if phase.reset is not None or any(c.at is At.START for c in phase.constraints):
        raise ProblemError("a receding horizon over phases on contacts has no jumps; use reset: {consistent: false}, and "
                           "contact gains such as [0, 50], which bring the contact points to rest",
                           where=where)
    if phase.final is not None or any(c.at is At.FINAL for c in phase.constraints):
        raise ProblemError("a receding horizon over phases on contacts does not support conditions at their ends; make them costs",
                           where=where)
    if phase.control_bounds != first.control_bounds:
        raise ProblemError("a receding horizon over phases on contacts needs the same bounds of controls in all of them",
                           where=where)
