"""Constraints that hold only where an expression takes its least or largest value, replaced by equations with nonzero gradients.
Where ``x**2 + y**2 = 0``, ``norm(r) <= 0`` or ``cos(th) = -1`` holds, its gradient is zero or undefined: constraints are not
regular, multipliers need not exist, and Newton's method converges linearly at best (Nocedal and Wright 2006, section 12.6). The
same states satisfy ``x = 0`` and ``y = 0``: a sum takes its least value where each of its terms does, a power, an absolute value
or a root where its argument vanishes, and by ``1 + cos(a) = 2 sin((a - pi) / 2)**2`` a cosine where this sine does. All half turns
are roots of that, as before; the guess ends at the nearest.

"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isclose, pi
from typing import Any

import casadi as ca
import numpy as np

from ocp.problem import At, Constraint, Phase, Problem, Sense, Solution
from ocp.reductions.chain import Reduction
from ocp.thresholds import ROUNDING

#: the constraints of every phase as they were
Formulated = tuple[tuple[Constraint, ...], ...]


class VanishingSums(Reduction):
    """Replaces such equations in hard point constraints by one equation for every factor."""

    name = "vanishing_sums"

    def apply(self, problem: Problem) -> tuple[Problem, Formulated]:
        """The reduced problem, and the data for ``invert``."""
        stated = tuple(phase.constraints for phase in problem.phases)
        restated = tuple(tuple(map(_restated, own)) for own in stated)
        if all(new is old for after, before in zip(restated, stated, strict=True) for new, old in zip(after, before, strict=True)):
            return problem, stated
        return self.fit_guess(_with(problem, restated), stated), stated

    def fit_guess(self, problem: Problem, data: Formulated) -> Problem:
        """The reduced problem whose guess ends at roots of such equations."""
        return replace(problem, phases=tuple(map(_led_to_a_root, problem.phases)))

    def invert(self, solution: Solution, data: Formulated) -> Solution:
        """The solution of the original problem."""
        return replace(solution, problem=_with(solution.problem, data))


def _with(problem: Problem, constraints: Sequence[tuple[Constraint, ...]]) -> Problem:
    return replace(problem, phases=tuple(replace(phase, constraints=own)
                                         for phase, own in zip(problem.phases, constraints, strict=True)))


def _led_to_a_root(phase: Phase) -> Phase:
    """The phase whose guess is led, by as much as its time says, to the nearest roots ``sin(phi) = 0`` of equations at its end:
    midway between two of them the gradient vanishes, and beside that Newton's method leads to a root far away."""
    guess, space, duration = phase.guess, phase.system.space, phase.duration.guess
    found = [c.function for c in phase.constraints if c.at is At.FINAL and c.sense is Sense.EQUAL and c.function.is_a("SXFunction")]
    given = found[0].sx_in() if found else []
    rows = ca.vertsplit(ca.densify(ca.vertcat(*(ca.vec(f(*given)) for f in found)))) if found else []
    sines = [e.dep(0) for e in rows if not e.is_leaf() and e.op() == ca.OP_SIN]
    if not sines or not space.is_vector_space:
        return phase
    angle = ca.vertcat(*sines)
    phi, J = (np.asarray(v) for v in ca.Function("angles", given, [angle, ca.densify(ca.jacobian(angle, given[1]))])(
        duration, guess.x[-1], guess.u[-1], phase.system.parameter_values))
    free = np.ones(space.nx) if phase.final is None else ~np.array(phase.final.fixed)
    step = np.linalg.pinv(J * free) @ (pi * np.round(phi / pi) - phi).ravel()
    return replace(phase, guess=replace(guess, x=phase.state_bounds.clip(guess.x + np.outer(guess.s, free * step))))


def _restated(c: Constraint) -> Constraint:
    """A constraint with the factors instead of such equations; unchanged without any."""
    lower, upper = c.bounds.lower, c.bounds.upper
    if c.soft is not None or c.at is At.INTEGRAL or c.sense is Sense.CONE or not c.function.is_a("SXFunction"):
        return c
    given = c.function.sx_in()
    labels = c.labels or tuple(str(i) for i in range(c.size))
    rows: list[tuple[Any, float, float, str]] = []
    changed = False
    for value, low, high, label in zip(ca.vertsplit(ca.densify(ca.vec(c.function(*given)))), lower, upper, labels, strict=True):
        own = _factors_of_row(value, low, high)
        changed |= own is not None
        rows += [(value, low, high, label)] if own is None else [(one, 0.0, 0.0, label) for one in own]
    if not changed:
        return c
    values, below, above, names = zip(*rows, strict=True)
    function = ca.Function(c.function.name(), given, [ca.vertcat(*values)], c.function.name_in(), c.function.name_out())
    sense = Sense.EQUAL if c.sense is Sense.EQUAL or below == above else Sense.BOX
    return replace(c, function=function, lower=below, upper=above, sense=sense, labels=names if len(names) > 1 else c.labels)


def _factors_of_row(value: ca.SX, lower: float, upper: float) -> list[ca.SX] | None:
    """The expressions that vanish where the component is within its bounds; None if it is no such equation, or its own gradient
    does not vanish."""
    for side, bound in ((-1, upper), (1, lower)):
        end = extreme(value, side)
        if end is not None and end[1] and isclose(end[0], bound, rel_tol=ROUNDING.coincident):
            return None if len(end[1]) == 1 and _same(end[1][0], _unscaled(value)) else end[1]
    if lower == upper == 0.0:
        found = factors(value)
        return None if len(found) == 1 and _same(found[0], _unscaled(value)) else found
    return None


def factors(e: ca.SX) -> list[ca.SX]:
    """Expressions that vanish together exactly where a scalar does: itself if its operations give no others."""
    e = _unscaled(e)
    op = e.op() if not e.is_constant() and not e.is_symbolic() else None
    if op in (ca.OP_SQ, ca.OP_FABS, ca.OP_SQRT) or (op in (ca.OP_POW, ca.OP_CONSTPOW) and _power(e) > 0):
        return factors(e.dep(0))
    if op == ca.OP_MUL:
        one, other = factors(e.dep(0)), factors(e.dep(1))
        return one if len(one) == len(other) == 1 and _same(one[0], other[0]) else [e]
    if op in (ca.OP_ADD, ca.OP_SUB):
        for end in (extreme(e, -1), extreme(e, 1)):
            if end is not None and end[0] == 0.0 and end[1]:
                return end[1]
    return [e]


def extreme(e: ca.SX, side: int) -> tuple[float, list[ca.SX]] | None:
    """The least (side -1) or largest (side 1) value of a scalar, and expressions that vanish together exactly where it is taken;
    None if its operations do not show them."""
    if e.is_constant():
        return float(e), []
    if e.is_symbolic():
        return None
    op = e.op()
    if op in (ca.OP_NEG, ca.OP_TWICE, ca.OP_MUL, ca.OP_DIV):
        a, b = e.dep(0), e.dep(1) if op in (ca.OP_MUL, ca.OP_DIV) else ca.SX(1)
        of, by = (b, a) if op == ca.OP_MUL and a.is_constant() else (a, b)
        by = {ca.OP_NEG: -1.0, ca.OP_TWICE: 2.0}.get(op) or (float(by) if by.is_constant() else 0.0)
        if by:
            by, end = 1 / by if op == ca.OP_DIV else by, extreme(of, side if by > 0 else -side)
            return None if end is None else (by * end[0], end[1])
    if op in (ca.OP_ADD, ca.OP_SUB):
        one, other = extreme(e.dep(0), side), extreme(e.dep(1), side if op == ca.OP_ADD else -side)
        if one is None or other is None:
            return None
        return (one[0] + other[0] if op == ca.OP_ADD else one[0] - other[0]), one[1] + other[1]
    if op in (ca.OP_COS, ca.OP_SIN):
        root = pi / 2 * ((0 if side > 0 else 2) if op == ca.OP_COS else side)
        return float(side), [ca.sin((e.dep(0) - root if root else e.dep(0)) / 2)]
    return (0.0, factors(e)) if side < 0 and _nonnegative(e) else None


def _unscaled(e: ca.SX) -> ca.SX:
    """A scalar without its sign and constant factors."""
    while not e.is_constant() and not e.is_symbolic():
        if e.op() in (ca.OP_NEG, ca.OP_TWICE) or (e.op() == ca.OP_DIV and e.dep(1).is_constant()):
            e = e.dep(0)
        elif e.op() == ca.OP_MUL and e.dep(0).is_constant() and float(e.dep(0)) != 0:
            e = e.dep(1)
        else:
            break
    return e


def _same(a: ca.SX, b: ca.SX) -> bool:
    return bool(ca.is_equal(a, b, 9))


def _nonnegative(e: ca.SX) -> bool:
    """Whether the operations of a scalar show that it is nowhere negative."""
    if e.is_constant():
        return float(e) >= 0
    if e.is_symbolic():
        return False
    op = e.op()
    if op in (ca.OP_SQ, ca.OP_FABS, ca.OP_SQRT, ca.OP_EXP):
        return True
    if op in (ca.OP_POW, ca.OP_CONSTPOW):
        return _nonnegative(e.dep(0)) or (_power(e) > 0 and float(np.fmod(_power(e), 2)) == 0)
    if op == ca.OP_TWICE:
        return _nonnegative(e.dep(0))
    if op in (ca.OP_ADD, ca.OP_MUL):
        return (op == ca.OP_MUL and _same(e.dep(0), e.dep(1))) or (_nonnegative(e.dep(0)) and _nonnegative(e.dep(1)))
    return False


def _power(e: ca.SX) -> float:
    """The exponent of a power; 0 if it is not constant."""
    return float(e.dep(1)) if e.dep(1).is_constant() else 0.0
