"""One-phase problems on flat spaces written for Drake's DirectCollocation, from the same functions.

Drake's transcription is Hermite-Simpson in compressed form with controls that are linear in every interval. Its running cost is
integrated by the trapezoid rule, one order less than its dynamics; therefore the running cost is a state here, as Drake's users do
where they care.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import casadi as ca
import numpy as np
from direct_peers import Answer, Solve

from ocp.guesses.sampling import sample_guess
from ocp.problem import At, Phase, Problem

INFINITE = 1e19
ITERATIONS = 300


def symbolic(function: ca.Function, arguments: list[list[Any]]) -> list[list[Any]]:
    """A scalar CasADi function evaluated in pydrake.symbolic, instruction by instruction. arguments: entries of every input."""
    from pydrake import symbolic as sym

    unary: dict[int, Callable[[Any], Any]] = {
        ca.OP_ASSIGN: lambda a: a, ca.OP_NEG: lambda a: -a, ca.OP_SIN: sym.sin, ca.OP_COS: sym.cos, ca.OP_TAN: sym.tan,
        ca.OP_EXP: sym.exp, ca.OP_LOG: sym.log, ca.OP_SQRT: sym.sqrt, ca.OP_SQ: lambda a: a * a, ca.OP_TWICE: lambda a: 2 * a,
        ca.OP_INV: lambda a: 1 / a, ca.OP_TANH: sym.tanh, ca.OP_FABS: sym.abs, ca.OP_ATAN: sym.atan, ca.OP_ASIN: sym.asin}
    binary: dict[int, Callable[[Any, Any], Any]] = {
        ca.OP_ADD: lambda a, b: a + b, ca.OP_SUB: lambda a, b: a - b, ca.OP_MUL: lambda a, b: a * b,
        ca.OP_DIV: lambda a, b: a / b, ca.OP_POW: sym.pow, ca.OP_CONSTPOW: sym.pow, ca.OP_ATAN2: sym.atan2}
    work: dict[int, Any] = {}
    results: list[list[Any]] = [[sym.Expression(0.0)] * function.numel_out(i) for i in range(function.n_out())]
    where = [function.sparsity_out(i).find() for i in range(function.n_out())]
    places = [function.sparsity_in(i).find() for i in range(function.n_in())]
    for k in range(function.n_instructions()):
        op, into, out_of = function.instruction_id(k), function.instruction_output(k), function.instruction_input(k)
        if op == ca.OP_CONST:
            work[into[0]] = sym.Expression(function.instruction_constant(k))
        elif op == ca.OP_INPUT:
            work[into[0]] = arguments[out_of[0]][places[out_of[0]][out_of[1]]]
        elif op == ca.OP_OUTPUT:
            results[into[0]][where[into[0]][into[1]]] = work[out_of[0]]
        elif op in unary:
            work[into[0]] = unary[op](work[out_of[0]])
        else:
            work[into[0]] = binary[op](work[out_of[0]], work[out_of[1]])
    return results


def drake_collocation(problem: Problem, intervals: int, solver: str = "ipopt") -> Solve:
    """solver: "ipopt" or "snopt". Drake does not tell the number of iterations: -1."""
    from pydrake import symbolic as sym
    from pydrake.planning import DirectCollocation
    from pydrake.solvers import IpoptSolver, SnoptSolver, SolverOptions
    from pydrake.systems.primitives import SymbolicVectorSystem
    from pydrake.trajectories import PiecewisePolynomial

    phase, N = problem.phase, intervals
    system = phase.system
    nx, nu, running = system.nx, system.nu, any(c.at is At.PATH for c in phase.costs)
    x, u = ([sym.Variable(f"{name}{i}") for i in range(size)] for name, size in (("x", nx + int(running)), ("u", nu)))
    rate, cost = functions(phase)
    whole = [*(sym.Expression(e) for e in x[:nx]), *(sym.Expression(e) for e in u)]
    dynamics = symbolic(rate, [whole[:nx], whole[nx:]])
    plant = SymbolicVectorSystem(state=x, input=u, dynamics=[e for part in dynamics[:1 + int(running)] for e in part], output=x)
    duration = phase.duration
    low, high = duration.lower / N, min(duration.upper, 1e4) / N
    if low == high:
        low, high = low * (1 - 1e-9), high * (1 + 1e-9)
    made = DirectCollocation(plant, plant.CreateDefaultContext(), N + 1, low, high)
    program = made.prog()
    made.AddEqualTimeIntervalsConstraints()
    if not duration.free:
        made.AddDurationBounds(duration.lower, duration.lower)
    for k in range(N + 1):
        for entries, lowest, highest in ((made.state(k)[:nx], phase.x_lower, phase.x_upper),
                                         (made.input(k), phase.u_lower, phase.u_upper)):
            program.AddBoundingBoxConstraint(np.maximum(lowest, -INFINITE), np.minimum(highest, INFINITE), entries)
    for boundary, entries in ((phase.start, made.initial_state()), (phase.final, made.final_state())):
        for i, fixed in enumerate(boundary.fixed if boundary is not None else ()):
            if fixed:
                program.AddBoundingBoxConstraint(boundary.value[i], boundary.value[i], entries[i])
    if running:
        program.AddBoundingBoxConstraint(0.0, 0.0, made.initial_state()[nx])
    end = [*(sym.Expression(e) for e in made.final_state())]
    last = symbolic(cost, [[sum((made.time_step(k)[0] for k in range(N)), start=sym.Expression(0.0))], end[:nx]])[0][0]
    program.AddCost(last + (end[nx] if running else 0.0))
    s = np.linspace(0.0, 1.0, N + 1)
    x0, u0 = sample_guess(phase.guess, system.space, s)
    if running:
        x0 = np.column_stack([x0, np.zeros(N + 1)])
    at = s * duration.guess
    made.SetInitialTrajectory(PiecewisePolynomial.FirstOrderHold(at, u0.T), PiecewisePolynomial.FirstOrderHold(at, x0.T))
    if solver == "snopt":
        options, engine = SolverOptions(), SnoptSolver()
        for name, value in (("Major optimality tolerance", 1e-7), ("Major feasibility tolerance", 1e-8)):
            options.SetOption(engine.solver_id(), name, value)
    else:
        options, engine = SolverOptions(), IpoptSolver()
        for name, value in (("tol", 1e-9), ("constr_viol_tol", 1e-9), ("acceptable_iter", 0), ("max_iter", ITERATIONS)):
            options.SetOption(engine.solver_id(), name, value)
    guess = program.initial_guess()

    def solve() -> Answer:
        found = engine.Solve(program, guess, options)
        return float(found.get_optimal_cost()), -1, bool(found.is_success()), float("nan")

    return solve


def functions(phase: Phase) -> tuple[ca.Function, ca.Function]:
    """(x, u) -> (rate, running cost) and (T, x) -> final cost, scalar functions of a problem without time in its dynamics."""
    t, x, u = ca.SX.sym("t"), ca.SX.sym("x", phase.system.nx), ca.SX.sym("u", phase.system.nu)
    p = ca.DM(phase.system.parameter_values)

    def total(at: At, control: Any) -> Any:
        return sum((c.expression(t, x, control, p) for c in phase.costs if c.at is at), start=ca.SX(0))

    rate = ca.densify(phase.system.rate(t, x, u, p))
    if ca.depends_on(ca.vertcat(rate, total(At.PATH, u)), t):
        raise ValueError("the dynamics depend on time")
    return (ca.Function("rate", [x, u], [rate, ca.densify(total(At.PATH, u))]),
            ca.Function("cost", [t, x], [ca.densify(total(At.FINAL, ca.SX.zeros(phase.system.nu)))]))
