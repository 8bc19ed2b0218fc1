"""Diagnosis of unsolved problems and prices of constraints: conflicting constraints and the amounts by which to relax them,
expressions that are not finite, dependent equations, active bounds. Records and functions; nothing is printed."""

from ocp.explain.active import Price, prices
from ocp.explain.advice import Advice, advice
from ocp.explain.conditioning import Conditioning, Dependence, condition, dependent_rows, unbounded_hints
from ocp.explain.groups import Group, Limit, Program, program_of, worst_rows
from ocp.explain.not_finite import Operand, Origin, Point, find_not_finite, infinite_ends, is_finite, points_of, trace
from ocp.explain.remedies import Amount, Elastic, Infeasibility, Remedy, explain_infeasibility, relax, solve_elastic
from ocp.explain.skeleton import contact_findings

__all__ = [
    "Advice", "Amount", "Conditioning", "Dependence", "Elastic", "Group", "Infeasibility", "Limit", "Operand", "Origin",
    "Point", "Price", "Program", "Remedy", "advice", "condition", "contact_findings", "dependent_rows", "explain_infeasibility",
    "find_not_finite", "infinite_ends", "is_finite", "points_of", "prices", "program_of", "relax", "solve_elastic", "trace",
    "unbounded_hints", "worst_rows",
]
