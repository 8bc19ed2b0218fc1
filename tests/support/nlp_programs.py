"""Nonlinear programs for the tests of solvers: small ones with derivatives by AD, and multiple shooting with its stages."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import numpy as np

from ocp.nlp import NLP, Functions, Stages

INF = np.inf


def program(n, objective, constraints, x0, x_bounds=(-INF, INF), g_bounds=(-INF, INF), names=None, rows=None, residual=None,
            **more):
    """residual(x): the objective is half its square; brings a Gauss-Newton Hessian."""
    x = ca.SX.sym("x", n)
    if residual is not None:
        objective = lambda x: ca.sumsqr(residual(x)) / 2  # noqa: E731
    f, g = ca.SX(objective(x)), ca.densify(ca.vertcat(ca.SX(0, 1), *constraints(x)))
    m = g.shape[0]
    sigma, lam = ca.SX.sym("sigma"), ca.SX.sym("lam", m)
    hess = ca.triu(ca.hessian(sigma * f + ca.dot(lam, g), x)[0])
    gauss_newton = None
    if residual is not None:
        J = ca.jacobian(residual(x), x)
        gauss_newton = ca.Function("gauss_newton", [x, sigma], [ca.triu(sigma * ca.mtimes(J.T, J))])
    return NLP(
        Functions(f=ca.Function("f", [x], [f]), g=ca.Function("g", [x], [g]),
        grad=ca.Function("gradient", [x], [f, ca.densify(ca.gradient(f, x))]),
        jac=ca.Function("jacobian", [x], [g, ca.jacobian(g, x)]),
        hess=ca.Function("hessian", [x, sigma, lam], [hess]), gauss_newton=gauss_newton),
        x0=np.array(x0, dtype=float), x_lower=np.full(n, 1.0) * x_bounds[0], x_upper=np.full(n, 1.0) * x_bounds[1],
        g_lower=np.full(m, 1.0) * g_bounds[0], g_upper=np.full(m, 1.0) * g_bounds[1],
        variables=tuple(names or (f"x{i}" for i in range(n))), constraints=tuple(rows or (f"row {i}" for i in range(m))),
        **more)


def with_functions(nlp, **changed):
    """The same program with other functions."""
    own = {name: getattr(nlp, name) for name in ("f", "g", "grad", "jac", "hess", "gauss_newton")}
    return replace(nlp, functions=Functions(**{**own, **changed}))


def scaled(function, factor):
    """The last output of a function by a factor: a deliberate mistake."""
    inputs = [ca.SX.sym(f"i{k}", function.sparsity_in(k)) for k in range(function.n_in())]
    *rest, last = function.call(inputs)
    return ca.Function(function.name(), inputs, [*rest, factor * last])


def staged(N=20, order=None, factor=-1.0, limit=INF, step=0.2, swing=True):
    """A pendulum from rest to (1, 0) in N steps, stage by stage or in another ``order`` (seed) of rows and columns.

    factor: of the next state in the rows of the dynamics; limit: of the control; a path row in stage 2 holds x0^2 + u <= -0.3.
    """
    nx, nu = 2, 1
    x, u = [ca.SX.sym(f"x{k}", nx) for k in range(N + 1)], [ca.SX.sym(f"u{k}", nu) for k in range(N)]
    pull = (lambda v: ca.sin(v)) if swing else (lambda v: v)
    columns = [(f"x{k}[{i}]", x[k][i]) for k in range(N + 1) for i in range(nx)] + [(f"u{k}", u[k]) for k in range(N)]
    rows, f = [], 0
    for k in range(N):
        after = ca.vertcat(x[k][0] + step * x[k][1], x[k][1] + step * (u[k] - pull(x[k][0])))
        rows += [(f"gap {k}.{i}", -factor * (after[i] - x[k + 1][i]), 0.0, 0.0) for i in range(nx)]
        f += step * (u[k] ** 2 + 0.1 * x[k][0] ** 2)
    rows += [("far", x[2][0] ** 2 + u[2], -INF, -0.3), ("end 0", x[N][0], 1.0, 1.0), ("end 1", x[N][1], 0.0, 0.0)]
    rng = np.random.default_rng(order or 0)
    c_order = rng.permutation(len(columns)) if order is not None else np.arange(len(columns))
    r_order = rng.permutation(len(rows)) if order is not None else np.arange(len(rows))
    columns, rows = [columns[i] for i in c_order], [rows[i] for i in r_order]
    w, g = ca.vertcat(*(c[1] for c in columns)), ca.vertcat(*(r[1] for r in rows))
    n, m = len(columns), len(rows)
    sigma, lam = ca.SX.sym("sigma"), ca.SX.sym("lam", m)
    c_at, r_at = {c[0]: i for i, c in enumerate(columns)}, {r[0]: i for i, r in enumerate(rows)}
    stages = Stages(
        states=tuple(np.array([c_at[f"x{k}[{i}]"] for i in range(nx)]) for k in range(N + 1)),
        controls=tuple(np.array([c_at[f"u{k}"]] if k < N else [], dtype=int) for k in range(N + 1)),
        dynamics=tuple(np.array([r_at[f"gap {k}.{i}"] for i in range(nx)]) for k in range(N)),
        path=tuple(np.array([r_at[r] for r in {2: ["far"], N: ["end 0", "end 1"]}.get(k, [])], dtype=int) for k in range(N + 1)))
    low, high = np.full(n, -INF), np.full(n, INF)
    for name, i in c_at.items():
        if name.startswith("x0["):
            low[i] = high[i] = 0.0
        if name.startswith("u"):
            low[i], high[i] = -limit, limit
    return NLP(
        Functions(f=ca.Function("f", [w], [f]), g=ca.Function("g", [w], [g]),
        grad=ca.Function("gradient", [w], [f, ca.densify(ca.gradient(f, w))]),
        jac=ca.Function("jacobian", [w], [g, ca.jacobian(g, w)]),
        hess=ca.Function("hessian", [w, sigma, lam], [ca.triu(ca.hessian(sigma * f + ca.dot(lam, g), w)[0])])),
        x0=np.zeros(n), x_lower=low, x_upper=high, g_lower=np.array([r[2] for r in rows]), g_upper=np.array([r[3] for r in rows]),
        variables=tuple(c[0] for c in columns), constraints=tuple(r[0] for r in rows), stages=stages)


def from_shooting(s, x, u):
    """``StagedNLP`` of the benchmark on robust starts, from states [N+1, nx] and controls [N, nu]."""
    w, f, g = s.nlp["x"], s.nlp["f"], s.nlp["g"]
    n, m, nx, nu, N = w.shape[0], g.shape[0], s.nx[0], s.nu[0], s.intervals
    sigma, lam = ca.MX.sym("sigma"), ca.MX.sym("lam", m)
    first = np.cumsum([0, *(nx + s.ng[k] for k in range(N))])
    stages = Stages(
        states=tuple(k * (nx + nu) + np.arange(nx) for k in range(N + 1)),
        controls=tuple(k * (nx + nu) + nx + np.arange(nu if k < N else 0) for k in range(N + 1)),
        dynamics=tuple(first[k] + np.arange(nx) for k in range(N)),
        path=tuple(first[k] + (nx if k < N else 0) + np.arange(s.ng[k]) for k in range(N + 1)))
    functions = [ca.Function("f", [w], [f]), ca.Function("g", [w], [g]),
                 ca.Function("gradient", [w], [f, ca.densify(ca.gradient(f, w))]),
                 ca.Function("jacobian", [w], [g, ca.jacobian(g, w)]),
                 ca.Function("hessian", [w, sigma, lam], [ca.triu(ca.hessian(sigma * f + ca.dot(lam, g), w)[0])])]
    return NLP(Functions(*functions), x0=s.join(x, u), x_lower=s.w_lower, x_upper=s.w_upper, g_lower=s.g_lower, g_upper=s.g_upper,
               variables=tuple(f"w{i}" for i in range(n)), constraints=tuple(f"g{i}" for i in range(m)), stages=stages)
