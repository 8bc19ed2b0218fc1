"""IPOPT (Waechter and Biegler 2006): the interior-point method for every sparse program."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import casadi as ca
import numpy as np

from ocp.nlp.options import SolverOptions
from ocp.nlp.program import NLP, worst_violations
from ocp.nlp.result import NLPResult, Progress, Run, Warm, WatchPoint, ended
from ocp.nlp.scaling import beside_equations
from ocp.nlp.watch import Bell, Watch, barrier, interrupts
from ocp.problem import Finding, Kind, Status

#: smallest barrier parameter, and distance from bounds, of a warm start
MU_LEAST = 1e-11

#: MUMPS orders by quasi-dense minimum degree and does not permute for large diagonals; IPOPT refines where residuals ask for it.
#: On nine problems of this repository 4 to 21 % less time, in the same iterations give or take two. MUMPS scales as by default:
#: without that solves are faster still, but nothing notices that a program is singular
LINEAR_SOLVER = {"mumps_pivot_order": 6, "mumps_permuting_scaling": 0, "min_refinement_steps": 0}

#: options of CasADi's solvers. Its checks of inputs would print warnings; bounds are checked by ``NLP``, sizes by ``Solver``
QUIET = {"print_time": False, "show_eval_warnings": False, "error_on_fail": False, "inputs_check": False}

_STATUS = {
    "Solve_Succeeded": Status.CONVERGED,
    "Feasible_Point_Found": Status.CONVERGED,
    "Solved_To_Acceptable_Level": Status.STALLED,
    "Search_Direction_Becomes_Too_Small": Status.STALLED,
    "Error_In_Step_Computation": Status.STALLED,
    "Infeasible_Problem_Detected": Status.INFEASIBLE,
    "Maximum_Iterations_Exceeded": Status.ITERATION_LIMIT,
    "Diverging_Iterates": Status.DIVERGED,
    "User_Requested_Stop": Status.INTERRUPTED,
    "Invalid_Number_Detected": Status.NOT_A_NUMBER,
}

_LOG = {"obj": "objective", "inf_pr": "inf_pr", "inf_du": "inf_du", "mu": "mu", "d_norm": "d_norm", "alpha_pr": "alpha_pr",
        "alpha_du": "alpha_du", "regularization_size": "regularization"}


def prepare(nlp: NLP, options: SolverOptions, solvers: dict[float | None, tuple[Any, Bell]] | None = None) -> Run:
    """A function that solves the program with IPOPT, from one start after another. solvers: what was made for a program with the
    same functions and other limits, which serves this one, too.

    An interrupt (Ctrl-C, or KeyboardInterrupt raised by ``progress``) ends a solve with the last iterate and
    Status.INTERRUPTED; a second Ctrl-C interrupts Python as usual. Any other exception of ``progress`` is raised again.
    """
    solvers = {} if solvers is None else solvers
    # CasADi takes lists several times faster than arrays
    bounds = {name: ca.DM(value.tolist()) for name, value in (("lbx", nlp.x_lower), ("ubx", nlp.x_upper), ("lbg", nlp.g_lower),
                                                               ("ubg", nlp.g_upper))}

    def run(x0: np.ndarray, warm: Warm | None, progress: Progress | None, watch_point: WatchPoint | None) -> NLPResult:
        started = time.perf_counter()
        mu = None if warm is None else max(warm.mu, MU_LEAST)
        if mu not in solvers:
            if mu is not None:  # every barrier parameter of a warm start is an object of its own; one of them is kept
                for other in [key for key in solvers if key is not None]:
                    del solvers[other]
            solvers[mu] = _solver(nlp, options, mu)
        solver, bell = solvers[mu]
        watch = bell.watch = Watch(progress, watch_point, options.tolerance)
        try:
            with interrupts(watch.interrupt):
                given = {"x0": x0} if warm is None else {"x0": warm.x, "lam_x0": warm.lam_x, "lam_g0": warm.lam_g}
                found = solver(**{name: np.asarray(value, dtype=float).tolist() for name, value in given.items()}, **bounds)
        finally:
            bell.watch = None
        if watch.error is not None:
            raise watch.error
        stats = solver.stats()
        if watch.stop and stats["return_status"] == "NonIpopt_Exception_Thrown":
            raise KeyboardInterrupt  # a second Ctrl-C, which has cost the iterate
        point, rows = found["x"].full().ravel(), _log(stats)
        status, ending = _verdict(nlp, point, stats["return_status"], options.tolerance)
        findings = overdetermined(nlp)
        if watch.circled and status is Status.INTERRUPTED:
            status, ending = Status.CONVERGED, None
            findings = (*findings, Finding(Kind.CYCLED, data={
                "solver": "ipopt", "gradient": rows[-1]["inf_du"], "violation": rows[-1]["inf_pr"]}))
        return NLPResult(
            x=point, lam_x=found["lam_x"].full().ravel(), lam_g=found["lam_g"].full().ravel(),
            f=float(nlp.f(point)),  # of the point as it is handed back: IPOPT moves it into its bounds after it took the objective
            status=status, ending=ending, iterations=rows,
            seconds={"solver": time.perf_counter() - started,
                     "functions": sum(v for k, v in stats.items() if k.startswith("t_wall_nlp"))},
            n_evaluations=sum(v for k, v in stats.items() if k.startswith("n_call_nlp")), mu=barrier(rows),
            findings=findings,
        )

    if None not in solvers:
        solvers[None] = _solver(nlp, options, None)
    return run


def _solver(nlp: NLP, options: SolverOptions, mu: float | None) -> tuple[ca.Function, Bell]:
    """CasADi's solver object and the bell that it rings; mu: the barrier parameter of a warm start."""
    solver: Any = None
    bell = Bell(nlp.n, nlp.m, lambda first: _log(solver.stats(), first))
    settings: dict[str, Any] = {
        **QUIET, "iteration_callback": bell,
        # first derivatives are handed over: no derivative of the program's graph is ever formed by CasADi
        "grad_f": with_parameter(nlp.grad, "grad_f"), "jac_g": with_parameter(nlp.jac, "jac_g"), "no_nlp_grad": True,
        "calc_lam_p": False,
        "ipopt": {
            "print_level": 0, "sb": "yes", "max_iter": options.max_iterations, "tol": options.tolerance,
            "acceptable_iter": 0, "constr_viol_tol": options.tolerance, "bound_relax_factor": min(1e-8, options.tolerance),
            "honor_original_bounds": "yes",
            **LINEAR_SOLVER,
        },
    }
    # IPOPT itself only scales objectives down: costs in small units would be below its tolerances
    settings["ipopt"]["obj_scaling_factor"] = beside_equations(nlp)
    if mu is not None:
        # as near to the bounds as the point was: by default IPOPT moves it inside by a hundredth
        settings["ipopt"] |= {"warm_start_init_point": "yes", "mu_init": mu} | dict.fromkeys(
            ("warm_start_bound_push", "warm_start_bound_frac", "warm_start_slack_bound_push", "warm_start_slack_bound_frac",
             "warm_start_mult_bound_push"), MU_LEAST)
    if options.hessian == "limited_memory":
        settings["ipopt"]["hessian_approximation"] = "limited-memory"
    else:
        settings["hess_lag"] = with_parameter(hessian(nlp, options), "hess_lag")
    solver = ca.nlpsol("ipopt", "ipopt", oracle(nlp), settings)
    return solver, bell


def overdetermined(nlp: NLP) -> tuple[Finding, ...]:
    """That there are more equations than unknowns that are not fixed: some of them are redundant, or contradict others."""
    equations, unknowns = int(np.sum(nlp.g_lower == nlp.g_upper)), int(np.sum(nlp.x_lower < nlp.x_upper))
    if equations <= unknowns:
        return ()
    return (Finding(Kind.OVERDETERMINED, data={"equations": equations, "unknowns": unknowns}),)


def oracle(nlp: NLP) -> dict[str, ca.MX]:
    """The program as CasADi's solvers take it, its functions called and never looked into."""
    x = ca.MX.sym("x", nlp.n)
    return {"x": x, "f": nlp.f(x), "g": nlp.g(x)}


def hessian(nlp: NLP, options: SolverOptions) -> ca.Function:
    """The Hessian that the options ask for, in the signature of ``NLP.hess``."""
    if options.hessian != "gauss_newton":
        return nlp.hess
    assert nlp.gauss_newton is not None  # refused in ``prepare_solver``
    x, sigma, lam = ca.MX.sym("x", nlp.n), ca.MX.sym("sigma"), ca.MX.sym("lam_g", nlp.m)
    return ca.Function("gauss_newton", [x, sigma, lam], [nlp.gauss_newton(x, sigma)], ["x", "sigma", "lam_g"], ["hessian"])


def with_parameter(function: ca.Function, kind: str) -> ca.Function:
    """The function in the signature that nlpsol expects, which has a parameter vector (empty here) after x."""
    inputs = [ca.MX.sym(function.name_in(i), function.sparsity_in(i)) for i in range(function.n_in())]
    names = {"grad_f": (["x", "p"], ["f", "grad_f_x"]), "jac_g": (["x", "p"], ["g", "jac_g_x"]),
             "hess_lag": (["x", "p", "lam_f", "lam_g"], ["triu_hess_gamma_x_x"])}[kind]
    outputs = function.call(inputs)
    return ca.Function(f"nlp_{kind}", [inputs[0], ca.MX.sym("p", 0), *inputs[1:]], outputs, *names)


def _verdict(nlp: NLP, x: np.ndarray, returned: str, tolerance: float) -> tuple[Status, Finding | None]:
    """Status of IPOPT's return status, and how the solve ended."""
    if returned == "Restoration_Failed":
        worst = worst_violations(nlp, x, 1)
        infeasible = bool(worst) and not worst[0][1] <= np.sqrt(tolerance)
        status = Status.INFEASIBLE if infeasible else Status.STALLED
    else:
        status = _STATUS.get(returned, Status.FAILED)
    data = {"solver": "ipopt", "status": returned}
    if returned == "Not_Enough_Degrees_Of_Freedom":
        return ended(nlp, x, status, Finding(Kind.TOO_FEW_UNKNOWNS, data={
            **data, "equations": int(np.sum(nlp.g_lower == nlp.g_upper)), "unknowns": nlp.n}))
    return ended(nlp, x, status, Finding(Kind.SOLVER_STATUS, data=data))


def _log(stats: Mapping[str, Any], first: int = 0) -> tuple[Mapping[str, float], ...]:
    columns = {_LOG[key]: values for key, values in stats.get("iterations", {}).items() if key in _LOG}
    length = min((len(v) for v in columns.values()), default=0)
    return tuple({"iteration": k, **{key: float(v[k]) for key, v in columns.items()}} for k in range(first, length))
