"""From a problem to a horizon: the sequence of its stages, their times and bounds.

    [choice of the start]  steps of phase 1  [passage]  steps of phase 2  ...  end

The first stage is there only if something is free at the start: components of the start state, durations, parameters. Its
controls are what is free, so that their bounds, gains and steps are those of any control. A passage closes one phase (final costs,
final rows) and opens the next (its reset map, start costs and start rows). Linkages are rows of the last of their ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import casadi as ca
import numpy as np

from dynamics.lie.expression import Expr
from ocp.derivatives import choose, differentiated
from ocp.errors import ProblemError
from ocp.integrators import Multistep, looking_back, serving
from ocp.problem import At, Phase, Problem
from ocp.shooting.options import ILQROptions
from ocp.shooting.stages.costs import local_cost, total
from ocp.shooting.stages.expressions import Symbol, symbol_for
from ocp.shooting.stages.rows import Row, final_rows, path_rows, start_rows
from ocp.shooting.stages.single import running_terms, single_graph
from ocp.shooting.stages.stage import NOWHERE, Draft, Stage, Term, cost_of, first_order, make_stage
from ocp.shooting.stages.start import end_costs, free_at_start, free_start, start_state
from ocp.shooting.stages.stretch import Constants, Stretch, stretches
from ocp.shooting.stages.written import Write, Written
from ocp.spaces import Space


@dataclass(frozen=True)
class Leg:
    """The stages of one phase: steps first ... last - 1, the last knot ``last`` belongs to the passage or the end behind it. two:
    the method of steps that look back."""

    stretch: Stretch
    first: int
    last: int
    two: Multistep | None = None

    @property
    def closing(self) -> Space:
        """Of what the last knot carries."""
        return self.stretch.space if self.two is None else self.stretch.behind


@dataclass(frozen=True)
class Horizon:
    """A discrete optimal-control problem.

    kinds: the different stages. which [S+1]: kind of every stage, the last being the end; t, h [S+1]: time argument and
    length of every stage; p [S+1, np]: parameters, behind them what steps that look back count by and the length of the step before
    them; lower, upper [S+1, M]: control bounds. start [nx]: state of the first knot. chosen: guess of what is free there. constant:
    costs at a fixed start, where nothing is left to choose.
    """

    problem: Problem
    legs: tuple[Leg, ...]
    constants: Constants
    kinds: tuple[Stage, ...]
    which: np.ndarray
    t: np.ndarray
    h: np.ndarray
    p: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    start: np.ndarray
    chosen: np.ndarray
    constant: float
    width: int

    @property
    def stages(self) -> int:
        """Number of stages before the end."""
        return len(self.which) - 1

    @property
    def inner(self) -> int:
        """Most values of the dynamics that rows of a stage hold, at least one."""
        return max(1, *(len(stage.rows.value_indices) for stage in self.kinds))

    def kind(self, k: int) -> Stage:
        """Kind of stage k."""
        return self.kinds[self.which[k]]

    def at(self, k: int, x: np.ndarray, u: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
        """(t, x, u, p) of stage k along states x [S+1, nx] and controls u [S, M]."""
        stage = self.kind(k)
        return (self.t[k], x[k, :stage.space.nx], u[k, :stage.nu] if k < self.stages else np.zeros(0),
                self.p[k, :stage.step.size1_in(3)])

    def leg(self, k: int) -> Leg:
        """The phase that stage k belongs to; the choice of the start to the first, passages to the phase they close."""
        return _leg(self.legs, k)

    def time(self, k: int, theta: np.ndarray) -> float:
        """Absolute time [s] of knot k with the constants theta."""
        return float(self.leg(k).stretch.clock(self.t[k], theta))

    def locate(self, k: int, x: np.ndarray) -> tuple[str, float]:
        """Where knot k of the states x stands: its phase, "" of a single one, and its time [s]."""
        leg = self.leg(k)
        theta = x[k, leg.stretch.phase.system.nx:leg.stretch.space.nx]
        known = theta if np.all(np.isfinite(theta)) else np.array(self.constants.guess)
        return leg.stretch.phase.name if len(self.legs) > 1 else "", self.time(k, known)

    def holds(self) -> np.ndarray:
        """Which rows hold at which stage [S+1, r]: all but those that a prescribed start leaves nothing to say about."""
        most = max(stage.rows.count for stage in self.kinds)
        found = np.zeros((len(self.which), most), dtype=np.int64)
        for k, kind in enumerate(self.which):
            found[k, :self.kinds[kind].rows.count] = 1
        if not len(self.chosen):
            first = self.kinds[self.which[0]].rows
            found[0, :first.count] = first.needs_control
        return found


def build(problem: Problem, options: ILQROptions, loops: bool = False, kinds: tuple[Stage, ...] = ()) -> Horizon:
    """The horizon of a problem; loops: steps of the phases are left to loops over the robot; kinds: those of the same problem on
    another grid, whose functions serve this one.

    Raises ProblemError for costs and integrators that do not fit it.
    """
    source, given = options.derivatives, stretches(problem)
    if not loops:
        problem = replace(problem, phases=tuple(
            replace(phase, system=differentiated(phase.system, choose(phase.system, source, "generated")[0]))
            for phase in problem.phases))
    legs: list[Leg] = []
    parts = stretches(problem)
    choice = free_start(parts[0])
    drafts = [] if choice is None else [choice]
    at = len(drafts)
    which = [0] * at
    for plain, stretch in zip(given, parts, strict=True):
        two = looking_back(stretch.phase.system, options.integrator)
        first = options if two is None else replace(options, integrator=two.first)
        serving(stretch.phase.system, first.integrator).check(stretch.phase.system)
        if stretch.number:
            which.append(len(drafts))
            drafts.append(_passage(legs[-1], stretch))
            at += 1
        steps = stretch.phase.steps or options.intervals
        made = [step_draft(stretch, first, loops, single_graph(plain, first, loops), two)]
        made += [step_draft(stretch, options, False, None, two)] if two is not None and steps > 1 else []
        which += [len(drafts)] + [len(drafts) + len(made) - 1] * (steps - 1)
        drafts += made
        legs.append(Leg(stretch, at, at + steps, two))
        at += steps
    which.append(len(drafts))
    drafts.append(end_draft(legs[-1]))
    from dynamics.loops.dense import padded  # Numba costs half a second: whoever only asks shall not pay for it

    width = padded(max(d.space.ndx for d in drafts) + max(len(d.controls) for d in drafts))
    if len(kinds) != len(drafts):  # none, or of a single interval, which has no step that looks back
        kinds = tuple(make_stage(draft, width, options.hessian != "gauss_newton") for draft in drafts)
    t, h = _times(legs, len(which))
    lower, upper = _bounds(max(len(d.controls) for d in drafts), legs, len(which), choice is not None)
    start, chosen = start_state(parts[0], choice is not None)
    return Horizon(problem, tuple(legs), parts[0].constants, kinds, np.array(which, dtype=np.int64), t, h,
                   _parameters(drafts, legs, which, t, h), lower, upper, start, chosen,
                   0.0 if choice is not None else _constant(parts[0].phase), width)


def moved(horizon: Horizon, problem: Problem) -> Horizon:
    """The horizon of a problem that differs in start state, parameters, bounds of controls, durations and guess alone."""
    parts, choice = stretches(problem), len(horizon.chosen) > 0
    legs = tuple(replace(leg, stretch=stretch) for leg, stretch in zip(horizon.legs, parts, strict=True))
    t, h = _times(legs, len(horizon.which))
    p = horizon.p.copy()
    for leg in reversed(legs):  # the knot between two belongs to the first
        system = leg.stretch.phase.system
        p[leg.first:leg.last + 1, :system.np] = system.parameter_values
    lower, upper = _bounds(horizon.lower.shape[1], legs, len(horizon.which), choice)
    start, chosen = start_state(parts[0], choice)
    return replace(horizon, problem=problem, legs=legs, constants=parts[0].constants, t=t, h=h, p=p, lower=lower, upper=upper,
                   start=start, chosen=chosen, constant=0.0 if choice else _constant(parts[0].phase))


def _constant(phase: Phase) -> float:
    """Costs at a prescribed start."""
    assert phase.start is not None
    costs = Stretch(phase, 0, Constants(), False, (phase.duration.guess,)).costs(At.START)
    if not costs:
        return 0.0
    return float(total(costs, 0.0, ca.DM(phase.start.value), ca.DM.zeros(phase.system.nu), ca.DM(phase.system.parameter_values)))


def _symbols(stretch: Stretch, costs: Sequence[Any], *more: ca.Function, implicit: bool = False) -> Symbol:
    """Scalar graphs where everything fits into one; analytic derivatives need calls, and factorisations of implicit steps are
    shared only as nodes."""
    system = stretch.phase.system
    if more and (system.derivatives != "ad" or implicit):
        return ca.MX.sym
    return symbol_for([*more, *(cost.function for cost in costs)])


def step_draft(stretch: Stretch, options: ILQROptions, loops: bool, single: Write | None, two: Multistep | None) -> Draft:
    """A step of the integrator along a phase; two: the two-step method that is the integrator, or that this is the first step of.
    Its parameters are those of the system, the weight of its running costs and the length of the step before."""
    phase, space, later = stretch.phase, stretch.space, looking_back(stretch.phase.system, options.integrator) is not None
    system, running = phase.system, stretch.costs(At.PATH)
    sym = _symbols(stretch, running, system.rate, implicit=later or serving(system, options.integrator).implicit)

    def advance(t: Expr, x: Expr, u: Expr, p: Expr, h: Expr) -> tuple[Expr, list[Term]]:
        now, known = stretch.now(x), p if two is None else p[:system.np]
        before = (x[space.nx:], h / p[system.np + 1]) if later else None
        after, nodes = stretch.advance(options.integrator, t, now, u, known, h, before)
        counts = 1.0 if two is None else p[system.np]
        if options.cost_quadrature == "rectangle":
            nodes, counts = ((1.0, t, now),), 1.0
        found = running_terms(stretch, running, [(h * w * counts, ti, xi) for w, ti, xi in nodes], sym)
        return after if two is None else ca.vertcat(after, stretch.split(now)[0]), found

    def rows(t: Expr, x: Expr, u: Expr, p: Expr, *k: Expr) -> list[Row]:
        return path_rows(stretch, t, stretch.now(x), u, p if two is None else p[:system.np], *k)

    return Draft(phase.name, stretch.behind if later else space, system.controls, system.np + (0 if two is None else 2),
                 space if two is None else stretch.behind, advance, rows, sym, local_cost(phase) if loops else None, single,
                 None if later else stretch.inner)


def _parameters(drafts: Sequence[Draft], legs: Sequence[Leg], which: Sequence[int], t: np.ndarray, h: np.ndarray) -> np.ndarray:
    """Parameters of every stage [S+1, np]."""
    p = np.zeros((len(which), max(1, max(d.parameters for d in drafts))))
    for k in range(len(which)):
        system = _leg(legs, k).stretch.phase.system
        p[k, :system.np] = system.parameter_values
    for leg in legs:
        if leg.two is not None:
            np_ = leg.stretch.phase.system.np
            p[leg.first:leg.last, np_] = leg.two.weights(t[leg.first:leg.last + 1])
            p[leg.first:leg.last, np_ + 1] = np.append(h[leg.first], h[leg.first:leg.last - 1])
    return p


def _leg(legs: Sequence[Leg], k: int) -> Leg:
    return next((leg for leg in legs if k <= leg.last), legs[-1])


def end_draft(leg: Leg) -> Draft:
    """The last knot."""
    stretch = leg.stretch
    system = stretch.phase.system
    sym = _symbols(stretch, stretch.costs(At.FINAL))
    return Draft("end", leg.closing, (), system.np, NOWHERE,
                 lambda t, x, u, p, h: (type(x)(0, 1), end_costs(stretch, At.FINAL, sym, t, stretch.now(x))),
                 lambda t, x, u, p: final_rows(stretch, t, stretch.now(x), p), sym)


def _passage(leg: Leg, after: Stretch) -> Draft:
    """From the end of one phase to the start of the next, through its reset map."""
    before = leg.stretch
    reset, one, other = after.phase.reset, before.phase.system, after.phase.system
    if reset is None and one.space.names != other.space.names:
        raise ProblemError(f"phase {after.phase.name!r} has other states than {before.phase.name!r}; "
                           "a reset must say how they begin",
                           where=f"phase {after.phase.name!r}")
    if one.parameters != other.parameters:
        raise ProblemError("all phases must have the same parameters", where=f"phase {after.phase.name!r}")
    _one_value(before, after)
    functions = [] if reset is None else [reset]
    sym = symbol_for([*functions, *(c.function for c in (*before.costs(At.FINAL), *after.costs(At.START)))])

    def moved(x: Expr, p: Expr) -> Expr:
        state, theta = before.split(x)
        opening = state if reset is None else reset(state, before.parameters(p, theta))
        theta = before.constants.remembered(theta, (before.number, At.FINAL), state)
        return ca.vertcat(opening, before.constants.remembered(theta, (after.number, At.START), opening))

    def opened(t: Expr) -> Expr:
        return 0.0 if after.fractional else t

    def advance(t: Expr, x: Expr, u: Expr, p: Expr, h: Expr) -> tuple[Expr, list[Term]]:
        there = moved(before.now(x), p)
        return there, [*end_costs(before, At.FINAL, sym, t, before.now(x)),
                       *end_costs(after, At.START, sym, opened(t), there)]

    def rows(t: Expr, x: Expr, u: Expr, p: Expr) -> list[Row]:
        now = before.now(x)
        return [*final_rows(before, t, now, p), *start_rows(after, opened(t), moved(now, p), p, prescribed=True)]

    return Draft(f"{before.phase.name} to {after.phase.name}", leg.closing, (), one.np, after.space, advance, rows, sym,
                 single=_jump(before, after) if leg.two is None else None)


def _jump(before: Stretch, after: Stretch) -> Write | None:
    """A passage whose reset has a derivative in closed form; None for others, and where constants are carried along."""
    if after.phase.reset is None or after.phase.reset_derivative is None or before.constants.count:
        return None
    reset = after.phase.reset_derivative()

    def write(t: Expr, x: Expr, u: Expr, p: Expr, h: Expr) -> Written:
        there, F = reset(x)
        found = [*end_costs(before, At.FINAL, ca.SX.sym, t, x), *end_costs(after, At.START, ca.SX.sym, t, there)]
        g, F, H = first_order(before.space, after.space, x, u, p, found, there, F)
        return Written(there, cost_of(found, u, p), g, F, H, None)

    return write


def _one_value(before: Stretch, after: Stretch) -> None:
    """Raise ProblemError where what opens a phase uses a parameter that has another value in the phase before: a passage has
    one."""
    phase, one, other = after.phase, before.phase.system, after.phase.system
    uses = [(c.function, 3) for c in phase.costs if c.at is At.START]
    uses += [(c.function, 3) for c in phase.constraints if c.at is At.START]
    uses += [] if phase.reset is None else [(phase.reset, 1)]
    for i, name in enumerate(other.parameters):
        a, b = one.parameter_values[i], other.parameter_values[i]
        if a != b and name not in after.constants.parameters and any(i in f.jac_sparsity(0, at).get_col() for f, at in uses):
            raise ProblemError(f"parameter {name!r} is {a:g} in phase {before.phase.name!r} and {b:g} here, and the start of this "
                               "phase depends on it; give it another name", where=f"phase {phase.name!r}")


def _times(legs: Sequence[Leg], count: int) -> tuple[np.ndarray, np.ndarray]:
    """Time argument and length of every stage."""
    t, h, began = np.zeros(count), np.zeros(count), 0.0
    for leg in legs:
        steps, length = leg.last - leg.first, leg.stretch.phase.duration.guess
        if leg.stretch.fractional:
            t[leg.first:leg.last + 1] = np.linspace(0.0, 1.0, steps + 1)
            h[leg.first:leg.last] = 1.0 / steps
        else:
            t[leg.first:leg.last + 1] = began + np.linspace(0.0, length, steps + 1)
            h[leg.first:leg.last] = length / steps
        began += length
    return t, h


def _bounds(most: int, legs: Sequence[Leg], count: int, choice: bool) -> tuple[np.ndarray, np.ndarray]:
    """Control bounds of every stage [count, most]; choice: whether the first stage chooses what is free at the start."""
    lower, upper = np.full((count, most), -np.inf), np.full((count, most), np.inf)
    for leg in legs:
        stage = slice(leg.first, leg.last), slice(leg.stretch.phase.system.nu)
        lower[stage], upper[stage] = leg.stretch.phase.control_bounds.arrays
    if choice:
        stretch = legs[0].stretch
        constants, space = stretch.constants, stretch.phase.system.space
        coordinate = {i: c for c, i in enumerate(space.tangent_index) if i >= 0}
        for j, i in enumerate(free_at_start(stretch)):
            if i >= space.ndx:
                lower[0, j], upper[0, j] = constants.lower[i - space.ndx], constants.upper[i - space.ndx]
            elif i in coordinate:
                lower[0, j], upper[0, j] = stretch.phase.state_bounds.pairs()[coordinate[i]]
    return lower, upper
