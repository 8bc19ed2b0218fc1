"""One-phase problems on flat spaces written for other tools of direct optimal control, from the same functions.

Each builder returns ``(build, cost)``: ``build() -> solve`` sets the tool up as its users do, ``solve() -> (objective, iterations, ok)`` solves from
the problem's own guess. Boundary states are fixed, bounds and path constraints are hard, running and final costs are expressions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import casadi as ca
import numpy as np

from ocp.guess import sample_guess
from ocp.problem import INF, At, Phase, Problem

Answer = tuple[float, int, bool]
Solve = Callable[[], Answer]
TOLERANCE = 1e-9
QUIET = {"print_time": False, "ipopt": {"print_level": 0, "sb": "yes", "tol": TOLERANCE, "constr_viol_tol": TOLERANCE, "max_iter": 2000}}


def _cost(phase: Phase, at: At, t: Any, x: Any, u: Any) -> Any:
    p = ca.DM(phase.system.parameter_values)
    return sum((c.expression(t, x, u, p) for c in phase.costs if c.at is at), start=ca.SX(0) if isinstance(x, ca.SX) else ca.MX(0))


def _rate(phase: Phase, t: Any, x: Any, u: Any) -> Any:
    return phase.system.rate(t, x, u, ca.DM(phase.system.parameter_values))


def opti_hermite_simpson(problem: Problem, intervals: int, expand: bool = True) -> Solve:
    """CasADi's Opti with separated Hermite-Simpson, all in one graph, expanded to scalars."""
    phase, N = problem.phase, intervals
    system, M = phase.system, 2 * intervals + 1
    opti = ca.Opti()
    T: Any = phase.duration.lower
    if phase.duration.free:
        T = opti.variable()
        opti.subject_to(opti.bounded(phase.duration.lower, T, min(phase.duration.upper, 1e8)))
        opti.set_initial(T, phase.duration.guess)
    X, U = opti.variable(system.nx, M), opti.variable(system.nu, M)
    s = np.linspace(0.0, 1.0, M)
    x0, u0 = sample_guess(phase.guess, system.space, s)
    opti.set_initial(X, x0.T)
    opti.set_initial(U, u0.T)
    f = ca.Function("f", *_symbols(phase, lambda t, x, u: [_rate(phase, t, x, u), _cost(phase, At.PATH, t, x, u)]))
    h = T / N
    values = [f(T * s[i], X[:, i], U[:, i]) for i in range(M)]
    cost = _cost(phase, At.FINAL, T, X[:, -1], U[:, -1])
    for k in range(N):
        a, m, b = 2 * k, 2 * k + 1, 2 * k + 2
        opti.subject_to(X[:, m] == (X[:, a] + X[:, b]) / 2 + h / 8 * (values[a][0] - values[b][0]))
        opti.subject_to(X[:, b] == X[:, a] + h / 6 * (values[a][0] + 4 * values[m][0] + values[b][0]))
        cost += h / 6 * (values[a][1] + 4 * values[m][1] + values[b][1])
    _opti_limits(opti, phase, T, X, U, s)
    opti.minimize(cost)
    opti.solver("ipopt", {"expand": expand, "print_time": False, "detect_simple_bounds": True}, QUIET["ipopt"])
    return _opti_solve(opti)


def opti_shooting(problem: Problem, intervals: int) -> Solve:
    """CasADi's Opti with RK4 multiple shooting and held controls, expanded."""
    phase, N = problem.phase, intervals
    system = phase.system
    opti = ca.Opti()
    T: Any = phase.duration.lower
    if phase.duration.free:
        T = opti.variable()
        opti.subject_to(opti.bounded(phase.duration.lower, T, min(phase.duration.upper, 1e8)))
        opti.set_initial(T, phase.duration.guess)
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
    opti.minimize(cost)
    opti.solver("ipopt", {"expand": True, "print_time": False, "detect_simple_bounds": True}, QUIET["ipopt"])
    return _opti_solve(opti)


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


def _opti_limits(opti: Any, phase: Phase, T: Any, X: Any, U: Any, s: np.ndarray) -> None:
    """Bounds, boundary states and path constraints."""
    for values, low, high in ((X, phase.x_lower, phase.x_upper), (U, phase.u_lower, phase.u_upper)):
        for i, (a, b) in enumerate(zip(low, high, strict=True)):
            if np.isfinite(a) or np.isfinite(b):
                opti.subject_to(opti.bounded(a, values[i, :], b))
    for boundary, k in ((phase.start, 0), (phase.final, -1)):
        if boundary is not None:
            for i, fixed in enumerate(boundary.fixed):
                if fixed:
                    opti.subject_to(X[i, k] == boundary.value[i])
    p = ca.DM(phase.system.parameter_values)
    for c in phase.constraints:
        at = range(U.shape[1]) if c.at is At.PATH else [-1]
        for k in at:
            opti.subject_to(opti.bounded(ca.DM(c.lower), c.function(T * float(s[k]), X[:, k], U[:, k], p), ca.DM(c.upper)))


def _opti_solve(opti: Any) -> Solve:
    start = opti.debug.value(opti.x, opti.initial())

    def solve() -> Answer:
        opti.set_initial(opti.x, start)
        try:
            value = opti.solve().value(opti.f)
            ok = True
        except RuntimeError:
            value, ok = opti.debug.value(opti.f), False
        return float(value), int(opti.stats()["iter_count"]), ok

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
        "fatrop": {"print_level": 0, "tol": TOLERANCE, "max_iter": 2000}})

    def solve() -> Answer:
        found = solver(x0=guess, lbx=low, ubx=high, lbg=lower, ubg=upper)
        stats = solver.stats()
        return float(found["f"]), int(stats.get("iter_count", stats.get("fatrop", {}).get("iterations_count", 0))), bool(stats["success"])

    return solve


def rockit_shooting(problem: Problem, intervals: int) -> Solve:
    """rockit's MultipleShooting with RK4."""
    import rockit

    phase = problem.phase
    system, free = phase.system, phase.duration.free
    ocp = rockit.Ocp(T=rockit.FreeTime(phase.duration.guess) if free else phase.duration.lower)
    x, u = ocp.state(system.nx), ocp.control(system.nu)
    ocp.set_der(x, _rate(phase, ocp.t, x, u))
    if free:
        ocp.subject_to(phase.duration.lower <= (ocp.T <= min(phase.duration.upper, 1e8)))
    for values, low, high in ((x, phase.x_lower, phase.x_upper), (u, phase.u_lower, phase.u_upper)):
        for i, (a, b) in enumerate(zip(low, high, strict=True)):
            if np.isfinite(a) or np.isfinite(b):
                ocp.subject_to(max(a, -1e8) <= (values[i] <= min(b, 1e8)))
    for boundary, at in ((phase.start, ocp.at_t0), (phase.final, ocp.at_tf)):
        if boundary is not None:
            for i, fixed in enumerate(boundary.fixed):
                if fixed:
                    ocp.subject_to(at(x[i]) == boundary.value[i])
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

    def solve() -> Answer:
        try:
            found = ocp.solve()
            ok = True
        except RuntimeError:
            found, ok = ocp.non_converged_solution, False
        return float(found.value(ocp.objective)), int(ocp._method.opti.stats()["iter_count"]), ok

    return solve
