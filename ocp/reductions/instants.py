"""Instants at which functions of a phase jump in explicit time, as expressions of the free parameters.

A function jumps in explicit time where an operation that steps (a comparison, a sign, a rounding) has an argument w that depends on
time and parameters alone. The step is where w passes zero, or a whole number: solved for exactly where w is affine in
time, by bisection and Newton's method where it is monotone, sought for on a grid where no free parameter moves it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import casadi as ca
import numpy as np

from dynamics.kernels.tape import codes, operation, replay
from ocp.problem import At, Phase, Problem
from ocp.thresholds import MESH_CHANGE, ROUNDING, SEARCH

Array = np.ndarray

COMPARISONS = (ca.OP_LT, ca.OP_LE)
ROUNDINGS = (ca.OP_FLOOR, ca.OP_CEIL)
#: values of an operation on both sides of its step
SIDES = {ca.OP_LT: (0.0, 1.0), ca.OP_LE: (0.0, 1.0), ca.OP_SIGN: (-1.0, 1.0)}


@dataclass(frozen=True, eq=False)
class FreeParameters:
    """Names of the parameters that the solver chooses, their symbols q [n], and samples [k, n] of their values, the guess first."""

    names: tuple[str, ...]
    symbols: ca.SX
    samples: Array

    def of(self, phase: Phase) -> ca.SX:
        """Parameters [np] of a phase, in terms of q."""
        system = phase.system
        return ca.vertcat(ca.SX(0, 1), *(self.symbols[self.names.index(name)] if name in self.names else ca.SX(value)
                                         for name, value in zip(system.parameters, system.parameter_values, strict=True)))

    def values(self, expression: ca.SX) -> Array:
        """An expression of q at the samples [k]."""
        return np.asarray(ca.Function("values", [self.symbols], [expression])(self.samples.T)).ravel() * np.ones(len(self.samples))


@dataclass(frozen=True, eq=False)
class Instant:
    """An instant [s] at which functions jump: expression: of q; values [k]: at the samples of q."""

    expression: ca.SX
    values: Array

    @property
    def moves(self) -> bool:
        """Whether free parameters move it."""
        return bool(np.ptp(self.values) > 0)

    def at(self, free: FreeParameters, q: Sequence[float]) -> float:
        """The instant [s] at values of the free parameters."""
        return float(ca.Function("at", [free.symbols], [self.expression])(q))


@dataclass(frozen=True, eq=False)
class Step:
    """An operation that steps: its code, its argument w(t, p) or w(t, x, p), its value and its symbol in ``Opened``."""

    code: int
    w: ca.SX
    value: ca.SX
    symbol: ca.SX


@dataclass(frozen=True, eq=False)
class Opened:
    """A function of (t, x, u, p) with symbols instead of its steps in explicit time."""

    function: ca.Function
    arguments: list[ca.SX]
    steps: list[Step]
    value: ca.SX

    def only(self, steps: list[Step]) -> Opened:
        """With symbols for these steps alone."""
        others = [step for step in self.steps if step not in steps]
        value = ca.substitute([self.value], [step.symbol for step in others], [step.value for step in others])[0]
        return replace(self, steps=steps, value=value)

    def between(self, values: Sequence[float]) -> ca.Function:
        """The function with these values of its steps."""
        f = self.function
        value = ca.substitute([self.value], [step.symbol for step in self.steps], [ca.SX(value) for value in values])[0]
        return ca.Function(f.name(), self.arguments, [value], [f.name_in(i) for i in range(4)], f.name_out())


def free_parameters(problem: Problem) -> FreeParameters:
    """The free parameters of a problem, with samples of their bounds: corners, and random ones."""
    bounds: dict[str, tuple[float, float, float]] = {}
    for phase in problem.phases:
        for i, low, high in phase.free_parameters:
            name, value = phase.system.parameters[i], phase.system.parameter_values[i]
            a, b, _ = bounds.get(name, (-np.inf, np.inf, value))
            bounds[name] = max(a, low), min(b, high), value
    reach = {name: MESH_CHANGE.max_change * max(1.0, abs(g)) for name, (_, _, g) in bounds.items()}
    box = np.array([(a if np.isfinite(a) else g - reach[name], b if np.isfinite(b) else g + reach[name])
                    for name, (a, b, g) in bounds.items()]).reshape(-1, 2)
    guess = np.array([[g for _, _, g in bounds.values()]])
    corners = np.array(list(itertools.islice(itertools.product(*box), SEARCH.zoom_points)))
    rng = np.random.default_rng(0)
    samples = box[:, 0] + (box[:, 1] - box[:, 0]) * rng.random((SEARCH.zoom_points, len(box)))
    return FreeParameters(tuple(bounds), ca.SX.sym("q", len(bounds)), np.vstack([guess, corners, samples]))


def functions_of(phase: Phase) -> list[ca.Function]:
    """The functions along a phase: rates, equations, running costs, path and integral constraints."""
    found = [phase.system.rate, *(c.function for c in phase.costs if c.at is At.PATH)]
    found += [c.function for c in phase.constraints if c.at in (At.PATH, At.INTEGRAL)]
    return found if phase.system.residual is None else [*found, phase.system.residual]


def opened(function: ca.Function, moved_by: int = 0) -> Opened | None:
    """The function of (t, x, u, p) with symbols for its steps in explicit time, which may depend on parameters; moved_by 1: for
    steps in the state. None if it has no steps, or cannot be expanded."""
    if not function.nnz_in(moved_by) or not function.jac_sparsity(0, moved_by).nnz():
        return None
    try:
        function = function if function.is_a("SXFunction") else function.expand()
    except RuntimeError:
        return None
    arguments, steps = function.sx_in(), list[Step]()
    known = {symbol.element_hash() for i in {0, moved_by, 3} for symbol in ca.vertsplit(arguments[i])}
    if ca.OP_CALL in codes(function):
        return None

    def apply(code: int, operands: list[ca.SX]) -> ca.SX:
        made = operation(code, operands)
        if code in SIDES or code in ROUNDINGS:
            w = operands[0] - operands[1] if code in COMPARISONS else operands[0]
            if ca.depends_on(w, arguments[moved_by]) and {s.element_hash() for s in ca.symvar(w)} <= known:
                steps.append(Step(code, w, made, ca.SX.sym(f"step_{len(steps)}")))
                return steps[-1].symbol
        return made

    (values,) = replay(function, lambda i, j: arguments[i].nz[j], ca.SX, apply)
    value = ca.SX(function.sparsity_out(0), ca.vertcat(*values))
    return Opened(function, arguments, steps, value) if steps else None


class Finder:
    """Finds instants between the earliest start and the latest end of a phase, ``window`` [s]; horizon: the same, finite."""

    def __init__(self, phase: Phase, free: FreeParameters, window: tuple[float, float]):
        self.phase, self.free, self.window = phase, free, window
        self.horizon = window[0], min(window[1], window[0] + MESH_CHANGE.max_change * phase.duration.guess)
        self.t, self.p = ca.SX.sym("t"), free.of(phase)

    def instants(self, function: Opened, step: Step) -> list[Instant]:
        """Instants of an operation inside the window; none if they cannot be found."""
        w = ca.substitute([step.w], [function.arguments[0], function.arguments[3]], [self.t, self.p])[0]
        if step.code not in ROUNDINGS:
            return self._zeros(w)
        ends = np.concatenate([self.free.values(ca.substitute(w, self.t, end)) for end in self.horizon])
        if not np.all(np.isfinite(ends)) or np.ptp(ends) > MESH_CHANGE.many_intervals:
            return []
        return [one for n in range(int(np.floor(ends.min())), int(np.ceil(ends.max())) + 1) for one in self._zeros(w - n)]

    def _zeros(self, w: ca.SX) -> list[Instant]:
        q, gradient = self.free.symbols, ca.jacobian(w, self.t)
        if not ca.depends_on(gradient, self.t):
            rate = self.free.values(gradient)
            found = [] if not np.all(rate * rate[0] > 0) else [-ca.substitute(w, self.t, 0) / gradient]
        elif not ca.depends_on(w, q):
            found = self._sought(w)
        else:
            t = np.linspace(*self.horizon, SEARCH.zoom_points)
            rates = ca.Function("rates", [self.t, q], [gradient])
            sides = np.sign(np.concatenate([np.asarray(rates(t[None, :], np.repeat(own[:, None], len(t), axis=1))).ravel()
                                            for own in self.free.samples]))
            found = [] if np.any(sides == -sides[-1]) or not sides.any() else [self._inverse(w, float(sides[-1]))]
        made = [Instant(place, self.free.values(place)) for place in found]
        return [one for one in made if np.max(one.values) > self.window[0] and np.min(one.values) < self.window[1]]

    def _sought(self, w: ca.SX) -> list[ca.SX]:
        """Sign changes of a function of time alone, between the points of a grid."""
        of = ca.Function("w", [self.t], [w])
        t = np.linspace(*self.horizon, SEARCH.min_samples)
        side = np.asarray(of(t[None, :])).ravel() > 0
        k = np.flatnonzero(side[1:] != side[:-1])
        low, high = t[k], t[k + 1]
        for _ in range(64 if len(k) else 0):
            middle = (low + high) / 2
            same = (np.asarray(of(middle[None, :])).ravel() > 0) == side[k]
            low, high = np.where(same, middle, low), np.where(same, high, middle)
        return [ca.SX(place) for place in (low + high) / 2]

    def _inverse(self, w: ca.SX, side: float) -> ca.SX:
        """The zero of a function that is monotone in time: by bisection, and two steps of Newton's method for its derivatives."""
        q = self.free.symbols
        of = ca.Function("w", [self.t, q], [w, w / ca.jacobian(w, self.t)])
        low, high = (ca.SX(end) for end in self.horizon)
        for _ in range(64):
            middle = (low + high) / 2
            before = side * of(middle, q)[0] < 0
            low, high = ca.if_else(before, middle, low), ca.if_else(before, high, middle)
        found = (low + high) / 2
        for _ in range(2):
            found -= of(found, q)[1]
        return found

    def jumps(self, function: Opened, step: Step, at: Instant) -> bool:
        """Whether the function jumps with the step at that instant, at states near the guess, for all values of the other steps."""
        guess, system, rng = self.phase.guess, self.phase.system, np.random.default_rng(0)
        level = np.floor(float(ca.Function("w", [*function.arguments], [step.w])(
            at.values[0], np.zeros(system.nx), np.zeros(system.nu), system.parameter_values)) + 0.5)
        sides = SIDES.get(step.code, (level, level + 1))
        symbols = ca.vertcat(*(one.symbol for one in function.steps))
        of = ca.Function("opened", [*function.arguments, symbols], [function.value])
        which = function.steps.index(step)
        for k in range(SEARCH.zoom_rounds):
            i = k % len(guess.s)
            x = guess.x[i] + (k >= len(guess.s)) * rng.standard_normal(system.nx)
            u = guess.u[i] + rng.standard_normal(system.nu)
            others = rng.integers(0, 2, len(function.steps)) if k > 1 else np.full(len(function.steps), k)
            sided = []
            for side in sides:
                own = others.astype(float)
                own[which] = side
                sided.append(np.asarray(of(at.values[0], x, u, system.parameter_values, own)).ravel())
            size = np.max(np.abs(sided), initial=0.0)
            if np.any(np.abs(np.nan_to_num(sided[1] - sided[0])) > ROUNDING.resolution * size):
                return True
        return False
