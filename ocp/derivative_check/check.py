"""Every derivative of every term of a problem, by every method there is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import casadi as ca
import numpy as np

from dynamics.errors import ModelError
from ocp.derivative_check import terms
from ocp.derivative_check.compare import compare
from ocp.derivative_check.records import DerivativeCheck, Entry, Finding, Kind, Order, Point, TermCheck
from ocp.derivatives import differentiated_phase, without_closed_form
from ocp.errors import ProblemError
from ocp.interrupts import Activity, check
from ocp.problem import At, Phase, Problem
from ocp.reductions.algebraic_equations import state_equations

TOLERANCE = 1e-8
"""Agreement of methods that are exact up to rounding, relative to the scale of the derivative."""


def check_derivatives(
    problem: Problem, *, points: int = 3, seed: int = 0, second: bool = True, tolerance: float = TOLERANCE,
    locations: Mapping[str, str] | None = None,
) -> DerivativeCheck:
    """Compare first and second derivatives of all terms by CasADi, complex steps, differences with error bars and, for the
    dynamics of a robot and functions of its efforts, closed forms, as solvers have them.

    points: how many on the guess of each phase, at even fractions of it, and as many random neighbours within the bounds.
    second: Hessians too, contracted with random multipliers; where those disagree, one component at a time.
    locations: where terms without one of their own stand in the user's file: "system", and "cost NAME" for every cost.
    Raises ProblemError for points < 1 or a tolerance outside (0, 1).
    """
    if points < 1:
        raise ProblemError(f"needs at least one point, got {points}", where="points")
    if not 0 < tolerance < 1:
        raise ProblemError(f"must lie between 0 and 1, got {tolerance}", where="tolerance")
    rng = np.random.default_rng(seed)
    checked: list[TermCheck] = []
    remarks: list[str] = []
    begin = 0.0
    for phase in state_equations(problem).phases:
        moved, (closed, without) = terms.moves(phase.system), _in_closed_form(phase)
        used = np.zeros(len(terms.variables(phase.system)), bool)
        for term in terms.terms_of(phase, begin, points, rng, closed):
            check(Activity.MEASUREMENT)
            if term.location is None and locations:
                term = replace(term, location=locations.get(f"cost {term.name}" if term.cost else "system"))
            found, depends = _check(term, terms.derivatives(term, moved, without, second=second), second, tolerance, rng)
            checked.append(found)
            used |= depends.any(axis=0)
        remarks += _unused(phase, used, several=len(problem.phases) > 1)
        begin += phase.duration.guess
    return DerivativeCheck(problem.name, seed, points, tuple(checked), tuple(remarks))


def _in_closed_form(phase: Phase) -> tuple[Phase | None, str]:
    """The phase with derivatives in closed form, or why there are none."""
    if reason := without_closed_form(phase.system):
        return None, reason
    try:
        return differentiated_phase(phase, "analytic"), ""
    except (ModelError, ProblemError) as error:
        return None, str(error)


def _unused(phase: Phase, used: np.ndarray, *, several: bool) -> list[str]:
    system, where = phase.system, f" of phase {phase.name!r}" if several else ""
    names = terms.variables(system)
    count = len(names) - 1  # not the time
    return [f"{name!r} enters no function{where}: only bounds and boundary conditions can act on it"
            for name, on in zip(names[:count], used[:count], strict=True) if not on]


def _check(term: terms.Term, tools: terms.Derivatives, second: bool, tolerance: float, rng: np.random.Generator
           ) -> tuple[TermCheck, np.ndarray]:
    depends = terms.dependence(tools.value)
    found: list[Finding] = []
    orders = [Order(methods=methods) for methods in tools.methods]
    for point in term.points:
        at = _At(term, tools, point, tolerance)
        undefined = ~np.isfinite(at.value)
        if undefined.any():
            found += [at.finding(Kind.UNDEFINED, 1, term.components[i], (), ()) for i in np.flatnonzero(undefined)]
            continue
        first = at.first()
        orders[0] = orders[0].joined(first)
        found += at.findings(first.wrong, 1, None)
        rough = any(e.kind is not Kind.DISAGREEMENT for e in first.wrong)
        if second and not rough:
            weights = np.ones(1) if term.size == 1 else rng.standard_normal(term.size)
            comparison = at.second(weights)
            orders[1] = orders[1].joined(comparison)
            found += at.second_findings(comparison)
    return TermCheck(
        term.phase.name, term.kind, term.name, term.location, term.size, orders[0], orders[1] if second else None, _worst(found),
        _remarks(term, depends),
    ), depends


@dataclass(frozen=True)
class _At:
    """A term at a point."""

    term: terms.Term
    tools: terms.Derivatives
    point: Point
    tolerance: float

    @property
    def arguments(self) -> tuple[ca.DM, ...]:
        return ca.DM(self.point.t), _column(self.point.x), _column(self.point.u), _column(self.point.p)

    @property
    def value(self) -> np.ndarray:
        return np.array(self.tools.value(0, *self.arguments)).ravel()

    @property
    def scale(self) -> np.ndarray:
        """Size of every variable [n]: its magnitude, at least one, but no more than the distance between its bounds."""
        phase, system = self.term.phase, self.term.phase.system
        space, p = system.space, self.point
        size = np.maximum(1.0, np.abs(np.r_[space.by_tangent(p.x, 0.0), p.u, p.p, p.t]))
        widths = np.r_[space.by_tangent(phase.state_bounds.width, np.inf), phase.control_bounds.width,
                       np.full(system.np + 1, np.inf)]
        return np.minimum(size, np.maximum(widths, 1e-3))

    def on_line(self, function: ca.Function, *more: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        return lambda z: np.array(function(z, *self.arguments, *map(_column, more)))

    def matrix(self, function: ca.Function, *more: np.ndarray) -> np.ndarray:
        return np.array(function(0, *self.arguments, *map(_column, more)))

    def first(self) -> Order:
        methods = {name: self.matrix(function) for name, function in self.tools.jacobians.items()}
        return compare(self.on_line(self.tools.value), self.scale, methods, tolerance=self.tolerance, rows=True)

    def second(self, weights: np.ndarray) -> Order:
        methods = {name: self.matrix(function, weights) for name, function in self.tools.hessians.items()}
        return compare(self.on_line(self.tools.gradient, weights), self.scale, methods, tolerance=self.tolerance, rows=False)

    def second_findings(self, comparison: Order) -> list[Finding]:
        """The outcome of a contraction, by component where one alone shows it."""
        if not comparison.wrong:
            return []
        if self.term.size == 1:
            return self.findings(comparison.wrong, 2, 0)
        named = [finding for i, unit in enumerate(np.eye(self.term.size))
                 for finding in self.findings(self.second(unit).wrong, 2, i)]
        return named or self.findings(comparison.wrong, 2, -1)

    def findings(self, entries: Iterable[Entry], order: int, component: int | None) -> list[Finding]:
        """component: which one the Hessian is of, -1 for a contraction; None for a Jacobian, whose rows are components."""
        names, out = terms.variables(self.term.phase.system), []
        for e in entries:
            if component is None:
                out.append(self.finding(e.kind, order, self.term.components[e.i], (names[e.j],), (e,)))
            elif e.i <= e.j or not any((x.i, x.j) == (e.j, e.i) for x in entries):  # one of two mirror images
                name = self.term.components[component] if component >= 0 else f"a contraction of {self.term.name!r}"
                kind = Kind.KINK if e.kind is Kind.JUMP else e.kind  # a jump of the first derivative
                out.append(self.finding(kind, order, name, (names[e.i], names[e.j]), (e,)))
        return out

    def finding(self, kind: Kind, order: int, component: str, by: tuple[str, ...], entry: Sequence[Entry]) -> Finding:
        t = self.term
        return Finding(kind, order, t.phase.name, f"{t.kind} {t.name!r}", t.location, component, by, self.point,
                       entry[0].numbers if entry else (), size=entry[0].size if entry else float("inf"))


def _column(x: np.ndarray) -> ca.DM:
    return ca.DM(np.asarray(x, float).reshape(-1, 1))


def _worst(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """One finding for each entry: the worst point, a point of the guess before a random one."""
    groups: dict[tuple, list[Finding]] = {}
    for f in found:
        groups.setdefault((f.kind, f.order, f.component, f.by), []).append(f)
    return tuple(replace(max(group, key=lambda f: (f.size, f.point.guess)), points=len(group)) for group in groups.values())


def _remarks(term: terms.Term, depends: np.ndarray) -> tuple[str, ...]:
    out = [f"{term.components[i]} depends on nothing: it is constant" for i in np.flatnonzero(~depends.any(axis=1))]
    system = term.phase.system
    begin = system.space.ndx
    used = [name for k, name in enumerate(system.inputs) if depends[:, begin + k].any()]
    if term.at in (At.START, At.FINAL) and used:
        out.append(f"depends on controls ({', '.join(used)}), which have no value at the {term.at.value}")
    rough = terms.rough_operations(term.function) if term.kind not in ("rate", "energy", "power") else ()
    if rough:
        out.append(f"is not smooth everywhere: uses {', '.join(rough)}")
    return tuple(out)
