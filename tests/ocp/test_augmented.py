"""Rows of hard constraints and their augmented Lagrangian: values, derivatives, multipliers and cones."""

import casadi as ca
import numpy as np
import pytest
from shooting_problems import quadrotor

from dynamics.kernels import compile_kernel
from ocp.problem import At, Boundary, Constraint, Sense
from ocp.shooting.engine import augmented
from ocp.shooting.engine.records import call
from ocp.shooting.stages.rows import BELOW, CONE, EQUAL, IN_CONE, final_rows, path_rows


def constrained():
    """A quadrotor with every kind of constraint, its attitude part of some."""
    from dataclasses import replace

    phase = quadrotor().phase
    nx, nu = phase.system.nx, phase.system.nu
    t, x, u, p = ca.SX.sym("t"), ca.SX.sym("x", nx), ca.SX.sym("u", nu), ca.SX.sym("p", 0)

    def function(value):
        return ca.Function("c", [t, x, u, p], [value])

    inf = float("inf")
    constraints = (
        Constraint("ball", At.PATH, function(ca.sumsqr(x[:3]) - 4 * x[3]), (-inf,), (2.0,)),
        Constraint("sum", At.PATH, function(ca.sum1(u) * x[4]), (0.5,), (0.5,), Sense.EQUAL),
        Constraint("cone", At.PATH, function(ca.vertcat(u[0] + 1, x[7] * u[1], x[8])), (), (), Sense.CONE),
        Constraint("between", At.FINAL, function(ca.vertcat(x[0] * x[1], x[2])), (-1.0, 0.3), (1.0, 0.3)),
        Constraint("soft", At.PATH, function(x[0]), (0.0,), (0.0,), soft=1.0),
    )
    # a cone has as many bounds as rows: none of them is read
    cone = constraints[2]
    constraints = (*constraints[:2], replace(cone, lower=(-inf,) * 3, upper=(inf,) * 3), *constraints[3:])
    final = Boundary(tuple(phase.system.space.neutral), (True, False) * (phase.system.space.ndx // 2))
    upper = [inf] * nx
    upper[2] = 1.5
    return replace(phase, constraints=constraints, final=final, x_upper=tuple(upper), x_lower=())


def held(rows, n, m, knots, rng, mu=3.0):
    r = rows.count
    kept, kernels = [], []
    for function in (rows.value, rows.jacobian, rows.curvature):
        record, owner = call(compile_kernel(function, mode="interpreted"))
        kernels.append(record)
        kept += owner
    z = np.zeros
    first = np.where(rows.needs_control > 0, 0, 1).astype(np.int64)
    return augmented.Held(*kernels, rows.kind, rows.size, first, 0, rng.standard_normal((knots, r)), np.full(r, mu), z((knots, r)),
                          z((knots, r)), z((knots, r, n)), z((knots, r, m)), z((n, n)), z((m, m)), z((m, n)), z((r, r))), kept


def point(phase, rng):
    space = phase.system.space
    x = np.array(ca.DM(space.plus(ca.DM(space.neutral), ca.DM(rng.standard_normal(space.ndx))))).ravel()
    return x, rng.standard_normal(phase.system.nu)


def test_rows_are_those_of_the_problem():
    phase = constrained()
    path, final = path_rows(phase), final_rows(phase)
    names = phase.system.space.names
    assert path.names == (f"bound {names[2]} (upper)", "ball (upper)", "sum", "cone", "cone", "cone")
    assert path.kind.tolist() == [BELOW, BELOW, EQUAL, CONE, IN_CONE, IN_CONE]
    assert path.needs_control.tolist() == [0, 0, 1, 1, 1, 1]
    fixed = [f"final {n}" for n, held in zip(phase.system.space.tangent_names, phase.final.fixed, strict=True) if held]
    assert list(final.names) == [*path.names[:2], *fixed, "between[0] (upper)", "between[0] (lower)", "between[1]"]
    x, u = point(phase, np.random.default_rng(0))
    c = np.array(path.value(0, x, u, [])).ravel()
    assert c[0] == pytest.approx(x[2] - 1.5)
    assert c[1] == pytest.approx(x[:3] @ x[:3] - 4 * x[3] - 2)
    assert c[2] == pytest.approx(u.sum() * x[4] - 0.5)


@pytest.mark.parametrize("seed", range(4))
def test_slopes_and_stiffness_are_the_derivatives_of_the_terms(seed):
    """Against differences along the manifold, where the quadratic pieces do not switch; the adjoint against both."""
    rng = np.random.default_rng(seed)
    phase = constrained()
    space, nu = phase.system.space, phase.system.nu
    rows, n = path_rows(phase), phase.system.space.ndx
    record, kept = held(rows, n, nu, 2, rng)
    x, u = point(phase, rng)
    t, p, k = np.array([0.0, 0.3]), np.zeros(0), 1
    lx, lu = np.zeros(n), np.zeros(nu)
    lxx, luu, lux = np.zeros((n, n)), np.zeros((nu, nu)), np.zeros((nu, n))

    def value(d):
        moved = np.array(ca.DM(space.plus(ca.DM(x), ca.DM(d[:n])))).ravel()
        return augmented.penalty(record, t, np.vstack([x, moved]), np.vstack([u, u + d[n:]]), p, k, 1, 1)

    h = 1e-4
    eye = h * np.eye(n + nu)
    gradient = np.array([(value(e) - value(-e)) / (2 * h) for e in eye])
    hessian = np.array([[(value(a + b) - value(a - b) - value(b - a) + value(-a - b)) / (4 * h * h) for a in eye] for b in eye])
    X, U = np.vstack([x, x]), np.vstack([u, u])
    assert augmented.slopes(record, t, X, U, p, k, 1, 1, lx, lu) == 0
    assert augmented.stiffness(record, t, X, U, p, k, 1, 1, True, lxx, luu, lux) == 0
    np.testing.assert_allclose(np.r_[lx, lu], gradient, atol=1e-5 * max(1, np.abs(gradient).max()))
    whole = np.block([[lxx, lux.T], [lux, luu]])
    np.testing.assert_allclose(whole, hessian, atol=1e-5 * max(1, np.abs(hessian).max()))
    gx, gu = rows.adjoint(t[k], x, u, p, record.slope[1])
    tangent = np.array(ca.DM(space.rate(ca.DM(x)))).T @ np.array(gx).ravel()
    np.testing.assert_allclose(np.r_[tangent, np.array(gu).ravel()], np.r_[lx, lu], atol=1e-11 * max(1, np.abs(lx).max()))
    assert len(kept) == 3


def test_rows_without_control_do_not_hold_at_the_start():
    phase, rng = constrained(), np.random.default_rng(1)
    record, kept = held(path_rows(phase), phase.system.space.ndx, phase.system.nu, 1, rng)
    x, u = point(phase, rng)
    X, U, t, p = x[None], u[None], np.zeros(1), np.zeros(0)
    augmented.penalty(record, t, X, U, p, 0, 0, 0)
    assert np.all(record.slope[0, :2] == 0)
    assert record.slope[0, 2] != 0
    assert kept


def test_multipliers_solve_a_convex_problem():
    """min (x - c)^2 over a cone, an upper bound and an equality, by multiplier updates: the KKT point in closed form."""
    rng = np.random.default_rng(0)
    c = np.array([0.2, 1.0, -2.0])  # outside |x[1:]| <= x[0]
    w = np.linalg.norm(c[1:])
    expected = 0.5 * (1 + c[0] / w) * np.r_[w, c[1:]]
    phase = constrained()
    record, kept = held(path_rows(phase), phase.system.space.ndx, phase.system.nu, 1, rng, mu=2.0)
    lam = np.zeros(6)
    record = record._replace(lam=lam[None], first=np.zeros(6, dtype=np.int64))
    x = c.copy()
    for _ in range(60):
        for _ in range(40):  # Newton on 1/2 |x - c|^2 + terms of the cone rows
            record.c[0] = np.r_[-1.0, -1.0, 0.0, x]
            augmented.terms(record, 0, 1)
            augmented._weights(record, 0, 1)
            step = np.linalg.solve(np.eye(3) + record.cone[3:, 3:], x - c + record.slope[0, 3:])
            x = x - step
        record.c[0] = np.r_[-1.0, -1.0, 0.0, x]
        augmented.terms(record, 0, 1)
        augmented.update(record)
    np.testing.assert_allclose(x, expected, atol=1e-9)
    np.testing.assert_allclose(record.lam[0, 3:], x - c, atol=1e-9)  # stationarity: x - c = multiplier of the cone
    out = np.zeros(6)
    augmented.violations(record, 1, out)
    assert out[3] < 1e-9
    assert kept
