"""Nonlinear programs with named rows and columns, and their solution: the only package that calls an NLP solver."""

from ocp.nlp.options import HESSIANS, SCALINGS, SOLVERS, IpoptOptions, SolverOptions
from ocp.nlp.program import KKT, NLP, kkt, not_finite, worst_violations
from ocp.nlp.result import NLPResult, Warm, WatchPoint
from ocp.nlp.solve import Solver, prepare_solver, solve_nlp
from ocp.nlp.stages import Chain, Stages

__all__ = [
    "HESSIANS", "KKT", "NLP", "Chain", "SCALINGS", "SOLVERS", "IpoptOptions", "NLPResult", "Solver", "SolverOptions", "Stages", "Warm",
    "WatchPoint", "kkt", "not_finite", "prepare_solver", "solve_nlp", "worst_violations",
]
