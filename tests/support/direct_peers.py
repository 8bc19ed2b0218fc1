"""One-phase problems on flat spaces written for other tools of direct optimal control, from the same functions.

Each builder sets its tool up as its users do and returns ``solve() -> (objective, iterations, ok, seconds in functions)``, which
solves from the problem's own guess. Boundary states are fixed, bounds and path constraints are hard, running and final costs are
expressions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import casadi as ca
import numpy as np

from ocp.guesses.sampling import sample_guess
from ocp.problem import INF, At, Phase, Problem
from ocp.problem.terms import Sense

Answer = tuple[float, int, bool, float]
Solve = Callable[[], Answer]
TOLERANCE = 1e-9
ITERATIONS = 500
QUIET = {"print_time": False,
         "ipopt": {"print_level": 0, "sb": "yes", "tol": TOLERANCE, "constr_viol_tol": TOLERANCE, "max_iter": ITERATIONS}}


def function_seconds(stats: Any) -> float:
    """Wall time that CasADi's solver spent in functions of the program, as ours reports it."""
    return float(sum(value for key, value in stats.items() if key.startswith("t_wall_nlp")))


def _cost(phase: Phase, at: At, t: Any, x: Any, u: Any) -> Any:
    p = ca.DM(phase.system.parameter_values)
    return sum((c.expression(t, x, u, p) for c in phase.costs if c.at is at), start=ca.SX(0) if isinstance(x, ca.SX) else ca.MX(0))


def _rate(phase: Phase, t: Any, x: Any, u: Any) -> Any:
    return phase.system.rate(t, x, u, ca.DM(phase.system.parameter_values))


def opti_hermite_simpson(problem: Problem, intervals: int, compressed: bool = False) -> Solve:
    """CasADi's Opti with Hermite-Simpson, all in one graph, expanded to scalars. compressed: states at midpoints are not
    among the unknowns."""
    phase, N = problem.phase, intervals
    system, M = phase.system, 2 * intervals + 1
    opti = ca.Opti()
    T = _duration(opti, phase)
    X, U = opti.variable(system.nx, N + 1 if compressed else M), opti.variable(system.nu, M)
    s = np.linspace(0.0, 1.0, M)
    x0, u0 = sample_guess(phase.guess, system.space, s)
    opti.set_initial(X, x0[::2].T if compressed else x0.T)
    opti.set_initial(U, u0.T)
    f = ca.Function("f", *_symbols(phase, lambda t, x, u: [_rate(phase, t, x, u), _cost(phase, At.PATH, t, x, u)]))
    h = T / N
    ends = range(0, M, 2) if compressed else range(M)
    values = {i: f(T * s[i], X[:, k], U[:, i]) for k, i in enumerate(ends)}
    cost = _cost(phase, At.FINAL, T, X[:, -1], U[:, -1])
    for k in range(N):
        a, m, b = 2 * k, 2 * k + 1, 2 * k + 2
        x_a, x_b = (X[:, k], X[:, k + 1]) if compressed else (X[:, a], X[:, b])
        x_m = (x_a + x_b) / 2 + h / 8 * (values[a][0] - values[b][0])
        if compressed:
            values[m] = f(T * s[m], x_m, U[:, m])
        else:
            opti.subject_to(X[:, m] == x_m)
        opti.subject_to(x_b == x_a + h / 6 * (values[a][0] + 4 * values[m][0] + values[b][0]))
        cost += h / 6 * (values[a][1] + 4 * values[m][1] + values[b][1])
    _opti_limits(opti, phase, T, X, U[:, ::2] if compressed else U, s[::2] if compressed else s)
    if compressed:
        _opti_bounds(opti, U[:, 1::2], phase.u_lower, phase.u_upper)
    _opti_linkages(opti, problem, T, X)
    return _opti_solve(opti, cost)


def opti_collocation(problem: Problem, intervals: int, kind: str = "radau", degree: int = 3) -> Solve:
    """CasADi's Opti with collocation at the points of ``ca.collocation_points``, as in CasADi's own example, but with a control at
    every point: states at knots and points, the polynomial's slope equal to the rate at the points, its end to the next knot."""
    phase, N = problem.phase, intervals
    system = phase.system
    r = np.append(0.0, ca.collocation_points(degree, kind))
    C, D, B = (np.array(part) for part in ca.collocation_coeff(list(r[1:])))
    opti = ca.Opti()
    T = _duration(opti, phase)
    X, Z = opti.variable(system.nx, N + 1), opti.variable(system.nx, N * degree)
    U = opti.variable(system.nu, N * degree)
    s = np.linspace(0.0, 1.0, N + 1)
    at = (s[:-1, None] + r[None, 1:] / N).ravel()
    opti.set_initial(X, sample_guess(phase.guess, system.space, s)[0].T)
    x0, u0 = sample_guess(phase.guess, system.space, at)
    opti.set_initial(Z, x0.T)
    opti.set_initial(U, u0.T)
    f = ca.Function("f", *_symbols(phase, lambda t, x, u: [_rate(phase, t, x, u), _cost(phase, At.PATH, t, x, u)]))
    h, cost = T / N, _cost(phase, At.FINAL, T, X[:, -1], U[:, -1])
    for k in range(N):
        own = range(k * degree, (k + 1) * degree)
        values = [f(T * at[i], Z[:, i], U[:, i]) for i in own]
        states = ca.horzcat(X[:, k], Z[:, k * degree:(k + 1) * degree])
        opti.subject_to(ca.vec(states @ C) == h * ca.vertcat(*(value[0] for value in values)))
        opti.subject_to(X[:, k + 1] == states @ D)
        cost += h * sum(float(b) * value[1] for b, value in zip(B.ravel(), values, strict=True))
    _opti_limits(opti, phase, T, X, U, s)
    _opti_bounds(opti, Z, phase.x_lower, phase.x_upper)
    return _opti_solve(opti, cost)


def _duration(opti: Any, phase: Phase) -> Any:
    if not phase.duration.free:
        return phase.duration.lower
    T = opti.variable()
    opti.subject_to(opti.bounded(phase.duration.lower, T, min(phase.duration.upper, 1e8)))
    opti.set_initial(T, phase.duration.guess)
    return T


def opti_shooting(problem: Problem, intervals: int) -> Solve:
    """CasADi's Opti with RK4 multiple shooting and held controls, expanded."""
    phase, N = problem.phase, intervals
    system = phase.system
    opti = ca.Opti()
    T = _duration(opti, phase)
    X, U = opti.variable(system.nx, N + 1), opti.variable(system.nu, N)
    s = np.linspace(0.0, 1.0, N + 1)
    x0, u0 = sample_guess(phase.guess, system.space, s)
    opti.set_initial(X, x0.T)
    opti.set_initial(U, u0[:-1].T)
    f = rk4(phase)
    h = T / N
    cost = _cost(phase, At.FINAL, T, X[:, -1], U[:, -1])
    for k in range(N):
        after, piece = f(T * s[k], X[:, k], U[:, k], h)
        opti.subject_to(X[:, k + 1] == after)
        cost += piece
    _opti_limits(opti, phase, T, X, U, s)
    return _opti_solve(opti, cost)


def rk4(phase: Phase) -> ca.Function:
    """(t, x, u, h) -> (state, running cost) after one step of RK4, the cost integrated with the state."""
    def step(t: Any, x: Any, u: Any, h: Any) -> list[Any]:
        def rate(t: Any, y: Any) -> Any:
            return ca.vertcat(_rate(phase, t, y[:-1], u), _cost(phase, At.PATH, t, y[:-1], u))

        y = ca.vertcat(x, 0)
        k1 = rate(t, y)
        k2 = rate(t + h / 2, y + h / 2 * k1)
        k3 = rate(t + h / 2, y + h / 2 * k2)
        k4 = rate(t + h, y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return [y[:-1], y[-1]]

    t, x, u, h = ca.SX.sym("t"), ca.SX.sym("x", phase.system.nx), ca.SX.sym("u", phase.system.nu), ca.SX.sym("h")
    return ca.Function("rk4", [t, x, u, h], step(t, x, u, h))


def _symbols(phase: Phase, of: Callable[[Any, Any, Any], list[Any]]) -> tuple[list[Any], list[Any]]:
    t, x, u = ca.SX.sym("t"), ca.SX.sym("x", phase.system.nx), ca.SX.sym("u", phase.system.nu)
    return [t, x, u], of(t, x, u)


def _opti_limits(opti: Any, phase: Phase, T: Any, X: Any, U: Any, s: np.ndarray, p: Any = None) -> None:
    """Bounds, boundary states and path constraints; p: parameters of the system, default: their values."""
    _opti_bounds(opti, X, phase.x_lower, phase.x_upper)
    _opti_bounds(opti, U, phase.u_lower, phase.u_upper)
    for boundary, k in ((phase.start, 0), (phase.final, -1)):
        if boundary is not None:
            for i, fixed in enumerate(boundary.fixed):
                if fixed:
                    opti.subject_to(X[i, k] == boundary.value[i])
    p = ca.DM(phase.system.parameter_values) if p is None else p
    for c in phase.constraints:
        for k in {At.PATH: range(U.shape[1]), At.START: [0], At.FINAL: [-1]}[c.at]:
            value = c.function(T * float(s[k]), X[:, k], U[:, k], p)
            if c.sense is Sense.CONE:
                opti.subject_to(value[0] >= 0)
                opti.subject_to((value[0]**2 - ca.sumsqr(value[1:])) / c.unit >= 0)
            else:
                opti.subject_to(opti.bounded(ca.DM(c.lower), value, ca.DM(c.upper)))


def _opti_bounds(opti: Any, values: Any, low: tuple[float, ...], high: tuple[float, ...]) -> None:
    for i, (a, b) in enumerate(zip(low, high, strict=True)):
        if np.isfinite(a) or np.isfinite(b):
            opti.subject_to(opti.bounded(a, values[i, :], b))


def _opti_linkages(opti: Any, problem: Problem, T: Any, X: Any) -> None:
    """Constraints between the ends of the phase."""
    for linkage in problem.linkages:
        ends = [X[:, 0] if at is At.START else X[:, -1] for _, at in linkage.ends]
        opti.subject_to(opti.bounded(ca.DM(linkage.lower), linkage.function(*ends, T, ca.DM(0, 1)), ca.DM(linkage.upper)))


def _opti_solve(opti: Any, cost: Any) -> Solve:
    opti.minimize(cost)
    opti.solver("ipopt", {"expand": True, "print_time": False, "detect_simple_bounds": True}, QUIET["ipopt"])
    start = opti.debug.value(opti.x, opti.initial())

    def solve() -> Answer:
        opti.set_initial(opti.x, start)
        try:
            value = opti.solve().value(opti.f)
            ok = True
        except RuntimeError:
            value, ok = opti.debug.value(opti.f), False
        stats = opti.stats()
        return float(value), int(stats["iter_count"]), ok, function_seconds(stats)

    return solve


def fatrop_shooting(problem: Problem, intervals: int) -> Solve:
    """FATROP on RK4 multiple shooting by hand: stages stated, scalar graph; a free duration is a state that stays."""
    phase, N = problem.phase, intervals
    system, free = phase.system, phase.duration.free
    nx, nu = system.nx + int(free), system.nu
    f = rk4(phase)
    s = np.linspace(0.0, 1.0, N + 1)
    x0, u0 = sample_guess(phase.guess, system.space, s)
    X = [ca.SX.sym(f"x{k}", nx) for k in range(N + 1)]
    U = [ca.SX.sym(f"u{k}", nu) for k in range(N)]
    rows: list[Any] = []
    lower: list[float] = []
    upper: list[float] = []
    ng: list[int] = []
    cost: Any = ca.SX(0)
    p = ca.DM(phase.system.parameter_values)
    for k in range(N + 1):
        T = X[k][-1] if free else phase.duration.lower
        x = X[k][:system.nx]
        if k < N:
            after, piece = f(T * float(s[k]), x, U[k], T / N)
            cost += piece
            rows.append(X[k + 1] - (ca.vertcat(after, T) if free else after))
            lower += [0.0] * nx
            upper += [0.0] * nx
        else:
            cost += _cost(phase, At.FINAL, T, x, ca.SX.zeros(nu))
        here: list[Any] = []
        boundary = phase.start if k == 0 else phase.final if k == N else None
        if boundary is not None:
            fixed = [i for i, held in enumerate(boundary.fixed) if held]
            here += [x[i] for i in fixed]
            lower += [boundary.value[i] for i in fixed]
            upper += [boundary.value[i] for i in fixed]
        for c in phase.constraints:
            if (c.at is At.PATH and k < N) or (c.at is At.FINAL and k == N):
                here.append(c.function(T * float(s[k]), x, U[min(k, N - 1)], p))
                lower += c.lower
                upper += c.upper
        rows += here
        ng.append(sum(int(part.numel()) for part in here))
    unknowns, guess, low, high = [], [], [], []
    for k in range(N + 1):
        ends = (k == 0 and phase.start is not None, k == N and phase.final is not None)
        held = [any(flag and b is not None and b.fixed[i] for flag, b in zip(ends, (phase.start, phase.final), strict=True))
                for i in range(system.nx)]
        unknowns.append(X[k])
        guess += [*x0[k], *([phase.duration.guess] if free else [])]
        low += [-INF if h else v for h, v in zip(held, phase.x_lower, strict=True)] + ([phase.duration.lower] if free else [])
        high += [INF if h else v for h, v in zip(held, phase.x_upper, strict=True)] + ([phase.duration.upper] if free else [])
        if k < N:
            unknowns.append(U[k])
            guess += list(u0[k])
            low += list(phase.u_lower)
            high += list(phase.u_upper)
    solver = ca.nlpsol("solver", "fatrop", {"x": ca.vertcat(*unknowns), "f": cost, "g": ca.vertcat(*rows)}, {
        "structure_detection": "manual", "N": N, "nx": [nx] * (N + 1), "nu": [nu] * N + [0], "ng": ng, "print_time": False,
        "fatrop": {"print_level": 0, "tol": TOLERANCE, "max_iter": ITERATIONS}})

    def solve() -> Answer:
        found = solver(x0=guess, lbx=low, ubx=high, lbg=lower, ubg=upper)
        stats = solver.stats()
        iterations = int(stats.get("iter_count", stats.get("fatrop", {}).get("iterations_count", 0)))
        return float(found["f"]), iterations, bool(stats["success"]), function_seconds(stats)

    return solve


def rockit_shooting(problem: Problem, intervals: int, parametric: bool = False) -> Any:
    """rockit's MultipleShooting with RK4. parametric: the start is a parameter, and what solves takes another problem, and returns
    its objective."""
    import rockit

    phase = problem.phase
    system, free = phase.system, phase.duration.free
    ocp = rockit.Ocp(T=rockit.FreeTime(phase.duration.guess) if free else phase.duration.lower)
    x, u = ocp.state(system.nx), ocp.control(system.nu)
    ocp.set_der(x, _rate(phase, ocp.t, x, u))
    if free:
        ocp.subject_to(phase.duration.lower <= (ocp.T <= min(phase.duration.upper, 1e8)))  # noqa: SIM300  # rockit's own syntax
    for values, low, high in ((x, phase.x_lower, phase.x_upper), (u, phase.u_lower, phase.u_upper)):
        for i, (a, b) in enumerate(zip(low, high, strict=True)):
            if np.isfinite(a) or np.isfinite(b):
                ocp.subject_to(max(a, -1e8) <= (values[i] <= min(b, 1e8)))
    begin = ocp.parameter(system.nx) if parametric else None
    for boundary, at in ((phase.start, ocp.at_t0), (phase.final, ocp.at_tf)):
        if boundary is not None:
            for i, fixed in enumerate(boundary.fixed):
                if fixed:
                    value = begin[i] if parametric and boundary is phase.start else boundary.value[i]
                    ocp.subject_to(at(x[i]) == value)
    p = ca.DM(system.parameter_values)
    for c in phase.constraints:
        for i in range(c.size):
            value = c.function(ocp.t, x, u, p)[i]
            ocp.subject_to(max(c.lower[i], -1e8) <= (value <= min(c.upper[i], 1e8)), include_last=False)
    ocp.add_objective(ocp.integral(_cost(phase, At.PATH, ocp.t, x, u)))
    ocp.add_objective(ocp.at_tf(_cost(phase, At.FINAL, ocp.T if free else phase.duration.lower, x, u)))
    s = np.linspace(0.0, 1.0, intervals + 1)
    x0, u0 = sample_guess(phase.guess, system.space, s)
    ocp.set_initial(x, x0.T)
    ocp.set_initial(u, u0[:-1].T)
    ocp.solver("ipopt", {"expand": True, **QUIET})
    ocp.method(rockit.MultipleShooting(N=intervals, M=1, intg="rk"))

    if parametric:
        ocp.set_value(begin, phase.start.value)

    def again(case: Problem) -> float:
        ocp.set_value(begin, case.phase.start.value)
        return float(ocp.solve().value(ocp.objective))

    def solve() -> Answer:
        try:
            found = ocp.solve()
            ok = True
        except RuntimeError:
            found, ok = ocp.non_converged_solution, False
        stats = ocp._method.opti.stats()
        return float(found.value(ocp.objective)), int(stats["iter_count"]), ok, function_seconds(stats)

    return again if parametric else solve
