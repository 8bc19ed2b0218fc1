"""Equivalent formulations of a problem: each file is one reduction, with ``apply`` and ``invert``, and a chain composes them.

``ocp.methods`` names the reductions of every method. A solve applies the chain once:

    reduced = method(name).reduce(problem, options)     what the method solves: a ``ReducedProblem``, or the problem itself
    solution = ... solve(reduced, options) ...          methods, strategies and ``transcribe`` reduce nothing themselves
    invert(solution)                                    of the problem that was given

The inverse data stay with the reduced problem, in its ``steps``, and never in a ``Phase``: ``dataclasses.replace`` keeps them
when a strategy changes the guess. After such a change, ``fit_guess`` makes the guess meet what reductions added, such as slacks.
``certify`` takes solutions of reduced problems as they are: it judges optimality where the multipliers are, and motions and
conditions on the problem that was given, with more room for ``redundant`` ones. ``with_dropped_conditions`` is the problem for an
analysis of bounds, ``objective_shortfall`` a part of the error bound of the objective.

A new reduction is one file, one row of ``REDUCTIONS``, and its name at the methods that need it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ocp.reductions.algebraic_elimination import AlgebraicElimination
from ocp.reductions.algebraic_equations import AlgebraicEquations
from ocp.reductions.chain import (
    Chain,
    ReducedProblem,
    Reduction,
    Redundant,
    Step,
    again,
    fit_guess,
    invert,
    judged_in_pieces,
    objective_shortfall,
    origins,
    redundant,
    with_dropped_conditions,
)
from ocp.reductions.control_bounds import ControlBounds
from ocp.reductions.control_norms import ControlNorms
from ocp.reductions.hidden_constraints import HiddenConstraints
from ocp.reductions.lifted_forces import LiftedForces
from ocp.reductions.redundant_conditions import RedundantConditions
from ocp.reductions.time_switches import TimeSwitches
from ocp.reductions.vanishing_sums import VanishingSums

__all__ = ["EXPLICIT", "REDUCTIONS", "Chain", "ReducedProblem", "Reduction", "Redundant", "Step", "again", "chain_of",
           "fit_guess", "invert", "judged_in_pieces", "objective_shortfall", "origins", "redundant", "with_dropped_conditions"]

REDUCTIONS: Mapping[str, Reduction] = {one.name: one for one in (
    TimeSwitches(), VanishingSums(), HiddenConstraints(), ControlNorms(), LiftedForces(), AlgebraicEquations(),
    AlgebraicElimination(), RedundantConditions(), ControlBounds())}
#: what makes systems explicit
EXPLICIT = ("algebraic_equations", "algebraic_elimination")


def chain_of(names: Iterable[str]) -> Chain:
    """The reductions of these names, in this order."""
    return Chain(tuple(REDUCTIONS[name] for name in names))
