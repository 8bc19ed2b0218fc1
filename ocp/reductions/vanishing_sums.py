"""Equations whose nonnegative terms must all vanish, replaced by factors with nonzero gradients.
Where ``x**2 + y**2 = 0`` or ``norm(r) <= 0`` holds, its gradient is zero or undefined: constraints are not regular, multipliers
need not exist, and Newton's method converges linearly at best (Nocedal and Wright 2006, section 12.6). The same states satisfy ``x
= 0`` and ``y = 0``: a sum of nonnegative terms vanishes where each of them does, and a power, an absolute value or a root where its
argument does.

"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import casadi as ca
import numpy as np

from ocp.problem import At, Constraint, Problem, Sense, Solution
from ocp.reductions.chain import Reduction

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
        return _with(problem, restated), stated

    def invert(self, solution: Solution, data: Formulated) -> Solution:
        """The solution of the original problem."""
        return replace(solution, problem=_with(solution.problem, data))


def _with(problem: Problem, constraints: Sequence[tuple[Constraint, ...]]) -> Problem:
    return replace(problem, phases=tuple(replace(phase, constraints=own)
                                         for phase, own in zip(problem.phases, constraints, strict=True)))


def _restated(c: Constraint) -> Constraint:
    """A constraint with the factors instead of such equations; unchanged without any."""
    lower, upper = c.bounds.lower, c.bounds.upper
    if c.soft is not None or c.at is At.INTEGRAL or c.sense is Sense.CONE or 0.0 not in (*lower, *upper) or \
            not c.function.is_a("SXFunction"):
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
    for signed, most, least in ((value, upper, lower), (-value, -lower, -upper)):
        if most == 0.0 and (least == 0.0 or _nonnegative(signed)):
            found = factors(signed)
            if len(found) != 1 or not _same(found[0], _unscaled(signed)):
                return found
    return None


def factors(e: ca.SX) -> list[ca.SX]:
    """Expressions that vanish together exactly where a scalar does: itself if its operations give no others."""
    e = _unscaled(e)
    op = e.op() if not e.is_constant() and not e.is_symbolic() else None
    if op in (ca.OP_SQ, ca.OP_FABS, ca.OP_SQRT) or (op in (ca.OP_POW, ca.OP_CONSTPOW) and _power(e) > 0):
        return factors(e.dep(0))
    if op == ca.OP_ADD and _nonnegative(e):
        return factors(e.dep(0)) + factors(e.dep(1))
    if op == ca.OP_MUL:
        one, other = factors(e.dep(0)), factors(e.dep(1))
        return one if len(one) == len(other) == 1 and _same(one[0], other[0]) else [e]
    return [e]


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
