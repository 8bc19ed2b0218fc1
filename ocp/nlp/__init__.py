"""Nonlinear programs with named rows and columns, and their solution: the only package that calls an NLP solver."""

from ocp.nlp.check_stages import check_stages
from ocp.nlp.options import HESSIANS, SCALINGS, SOLVERS, IpoptOptions, SolverOptions
from ocp.nlp.program import KKT, NLP, Functions, kkt, not_finite, violation, worst_violations
from ocp.nlp.result import NLPResult, Warm, WatchPoint
from ocp.nlp.scaling import Scaling, choose_scaling, extraordinary, lifted, objective_size, scaled
from ocp.nlp.solve import Solver, prepare_solver, solve_nlp
from ocp.nlp.stages import Stages, Timeline

__all__ = [
    "HESSIANS", "KKT", "NLP", "SCALINGS", "SOLVERS", "Timeline", "Functions", "IpoptOptions", "NLPResult", "Scaling", "Solver",
    "SolverOptions", "Stages", "Warm", "WatchPoint", "check_stages", "choose_scaling", "extraordinary", "kkt", "lifted",
    "not_finite", "objective_size", "prepare_solver", "scaled", "solve_nlp", "violation", "worst_violations",
]
