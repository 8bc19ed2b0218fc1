"""Rows of hard constraints and their augmented Lagrangian in the compiled loops: values, derivatives, multipliers and cones."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from engine_paths import symmetric
from manifold_differences import columns, hessian
from plain_shooting import flat
from shooting_problems import quadrotor
from stage_rows import curvature

from ocp.problem import INF, At, Boundary, Constraint, Problem, Sense
from ocp.shooting.engine import augmented
from ocp.shooting.engine.knots import JACOBIAN, ROW_HESSIAN, SLOTS
from ocp.shooting.ilqr import ILQROptions, prepare
from ocp.shooting.stages.rows import BELOW, CONE, EQUAL, IN_CONE


def constrained():
    """A quadrotor with every kind of constraint, its attitude part of some."""
    phase = quadrotor().phase
    nx, nu = phase.system.nx, phase.system.nu
    t, x, u, p = ca.SX.sym("t"), ca.SX.sym("x", nx), ca.SX.sym("u", nu), ca.SX.sym("p", 0)

    def function(value):
        return ca.Function("c", [t, x, u, p], [value])

    constraints = (
        Constraint("ball", At.PATH, function(ca.sumsqr(x[:3]) - 4 * x[3]), (-INF,), (2.0,)),
        Constraint("sum", At.PATH, function(ca.sum1(u) * x[4]), (0.5,), (0.5,), Sense.EQUAL),
        # a cone has as many bounds as rows: none of them is read
        Constraint("cone", At.PATH, function(ca.vertcat(u[0] + 1, x[7] * u[1], x[8])), (-INF,) * 3, (INF,) * 3, Sense.CONE),
        Constraint("between", At.FINAL, function(ca.vertcat(x[0] * x[1], x[2])), (-1.0, 0.3), (1.0, 0.3)),
        Constraint("soft", At.PATH, function(x[0]), (0.0,), (0.0,), soft=1.0),
    )
    final = Boundary(tuple(phase.system.space.neutral), (True, False) * (phase.system.space.ndx // 2))
    upper = [INF] * nx
    upper[2] = 1.5
    return replace(phase, constraints=constraints, final=final, x_upper=tuple(upper), x_lower=())


class Loaded:
    """The compiled rows of two steps with random multipliers: the path stands at random points."""

    def __init__(self, rng, mu=3.0):
        made = ILQROptions(intervals=2, kernels="interpreted", hessian="full")
        self.program = prepare(Problem("constrained", (constrained(),)), made)
        store, self.horizon = self.program.store, self.program.horizon
        self.engine, self.conset, self.plan, self.path = store, store.conset, store.plan, store.path
        self.conset.lam[:], self.conset.mu[:] = rng.standard_normal(self.conset.lam.shape), mu
        self.space = constrained().system.space
        a, d = ca.SX.sym("a", self.space.nx), ca.SX.sym("d", self.space.ndx)
        plus = ca.Function("plus", [a, d], [self.space.plus(a, d)])
        self.plus = lambda x, dx: flat(plus(x, dx))
        for k in range(3):
            self.path.x[k] = self.plus(self.space.neutral, rng.standard_normal(self.space.ndx))
        self.path.u[:] = rng.standard_normal(self.path.u.shape)

    def rows(self, k):
        return self.horizon.kind(k).rows

    def penalty(self, k, x=None, u=None):
        """Terms of knot k with another state and control in its place."""
        kept_x, kept_u = self.path.x[k].copy(), self.path.u[min(k, 1)].copy()
        self.path.x[k] = kept_x if x is None else x
        if k < 2:
            self.path.u[k] = kept_u if u is None else u
        value = augmented.penalty(self.engine, self.path, k)
        self.path.x[k], self.path.u[min(k, 1)] = kept_x, kept_u
        return value


def test_rows_are_those_of_the_problem():
    loaded = Loaded(np.random.default_rng(0))
    path, final, names = loaded.rows(0), loaded.rows(2), loaded.space.names
    assert path.names == (f"bound {names[2]} (upper)", "ball (upper)", "sum", "cone", "cone", "cone")
    assert path.kind.tolist() == [BELOW, BELOW, EQUAL, CONE, IN_CONE, IN_CONE]
    assert path.size[3] == 3
    assert path.needs_control.tolist() == [0, 0, 1, 1, 1, 1]
    fixed = [f"final {n}" for n, conset in zip(loaded.space.tangent_names, constrained().final.fixed, strict=True) if conset]
    assert list(final.names) == [*path.names[:2], *fixed, "between[0] (upper)", "between[0] (lower)", "between[1]"]
    x, u = loaded.path.x[1], loaded.path.u[1]
    c = flat(path.value(0, x, u, []))
    assert c[0] == pytest.approx(x[2] - 1.5)
    assert c[1] == pytest.approx(x[:3] @ x[:3] - 4 * x[3] - 2)
    assert c[2] == pytest.approx(u.sum() * x[4] - 0.5)


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
@pytest.mark.sample(2)
def test_gradients_and_stiffness_are_the_derivatives_of_the_terms(seed, k):
    """Along the path and at its end: against differences on the manifold, where no quadratic piece switches; the adjoint too."""
    loaded = Loaded(np.random.default_rng(seed))
    n, width = loaded.space.ndx, loaded.horizon.width
    x, u = loaded.path.x[k].copy(), loaded.path.u[k].copy() if k < 2 else np.zeros(0)
    size = n + len(u)

    def value(a, b):
        return loaded.penalty(k, a, b)

    gradient, bend = (f(value, loaded.plus, x, u, n, 1e-4) for f in (columns, hessian))
    g, H = np.zeros(width), np.zeros((n + 4, width))
    largest = augmented.add_gradient(loaded.engine, k, g)
    assert augmented.stiffness(loaded.engine, k, True, H)
    np.testing.assert_allclose(g[:size], gradient[0], atol=1e-5 * max(1, np.abs(gradient).max()))
    assert not g[size:].any()
    np.testing.assert_allclose(symmetric(H[:size, :size]), bend, atol=1e-5 * max(1, np.abs(bend).max()))
    rows, slope = loaded.rows(k), loaded.conset.gradient[k, :loaded.rows(k).count]
    by_x, by_u = rows.adjoint(loaded.plan.t[k], x, u, [], slope)
    tangent = np.asarray(ca.DM(loaded.space.rate(ca.DM(x)))).T @ flat(by_x)
    np.testing.assert_allclose(np.r_[tangent, flat(by_u)], g[:size], atol=1e-11 * max(1, np.abs(g).max()))
    c = flat(rows.value(loaded.plan.t[k], x, u, []))
    worst = max(abs(c[i]) if kind == EQUAL else max(0.0, c[i]) if kind == BELOW else max(0.0, np.linalg.norm(c[i + 1:i + 3]) - c[i])
                for i, kind in enumerate(rows.kind) if kind != IN_CONE)
    assert largest == pytest.approx(worst, rel=1e-12)


def test_without_exactness_the_curvature_of_the_rows_is_left_out():
    loaded = Loaded(np.random.default_rng(5))
    g, coarse, exact = np.zeros(loaded.horizon.width), *np.zeros((2, 16, loaded.horizon.width))
    arguments = loaded.engine, 1
    augmented.add_gradient(*arguments, g)
    augmented.stiffness(*arguments, False, coarse)
    augmented.stiffness(*arguments, True, exact)
    rows = loaded.rows(1)
    H = curvature(loaded.horizon.kind(1), loaded.plan.t[1], loaded.path.x[1], loaded.path.u[1], [],
                  loaded.conset.gradient[1, :rows.count])
    np.testing.assert_allclose(exact - coarse, H, atol=1e-10)
    assert np.linalg.eigvalsh(symmetric(coarse[:, :16]))[0] > -1e-10  # convex: W is, for a cone too
    assert np.abs(H).max() > 0.1


def test_curvature_of_convex_rows_is_kept_without_exactness():
    """With multipliers of the ball alone, whose curvature is positive semidefinite, both Hessians agree; turned inside out the row
    bounds no convex set any more and its curvature is left out."""
    loaded = Loaded(np.random.default_rng(5))
    rows, k = loaded.rows(1), 1
    ball = rows.names.index("ball (upper)")
    others = [r for r in range(rows.count) if r != ball]
    loaded.conset.holds[k, others] = 0
    loaded.conset.lam[k] = 0.0
    arguments = loaded.engine, k
    for lam, kept in ((50.0, True), (-50.0, False)):
        g, coarse, exact = np.zeros(loaded.horizon.width), *np.zeros((2, 16, loaded.horizon.width))
        conset, kind = loaded.conset, loaded.horizon.which[k]
        conset.kind[kind, ball], conset.lam[k, ball] = EQUAL, lam  # an equality may have either sign
        augmented.add_gradient(*arguments, g)
        assert np.sign(loaded.conset.gradient[k, ball]) == np.sign(lam)
        assert augmented.stiffness(*arguments, False, coarse)
        assert augmented.stiffness(*arguments, True, exact)
        bend = curvature(loaded.horizon.kind(k), loaded.plan.t[k], loaded.path.x[k], loaded.path.u[k], [],
                         loaded.conset.gradient[k, :rows.count])
        assert np.abs(bend).max() > 1
        np.testing.assert_allclose(exact - coarse, 0.0 if kept else bend, atol=1e-10 * np.abs(bend).max())


def test_linear_rows_have_no_kernel_for_their_curvature():
    from control_problems import block_move

    program = prepare(block_move(), ILQROptions(intervals=3, kernels="interpreted", hessian="full"))
    assert any(kind.rows.count for kind in program.horizon.kinds)
    assert any(slot % SLOTS == JACOBIAN for slot in program.compiled.bank)
    assert not any(slot % SLOTS == ROW_HESSIAN for slot in program.compiled.bank)


def test_what_an_update_moves_and_misses():
    """Sums over rows and knots of (new - old)^2 / (2 mu); the residual of a row is what it moves by the penalty."""
    loaded = Loaded(np.random.default_rng(3), mu=3.0)
    conset, which = loaded.conset, loaded.horizon.which
    for k in range(3):
        augmented.add_gradient(loaded.engine, k, np.zeros(loaded.horizon.width))
    old, slope = conset.lam.copy(), conset.gradient.copy()
    expected, residual = 0.0, np.zeros_like(conset.kind, dtype=float)
    for k in range(3):
        rows = loaded.rows(k)
        for r, kind in enumerate(rows.kind):
            change = (slope[k, r] if kind <= BELOW else -slope[k, r]) - old[k, r]
            expected += change**2 / 6
            if conset.holds[k, r] and kind in (EQUAL, BELOW):
                size = abs(change) / 3 if kind == EQUAL or conset.c[k, r] > 0 or abs(slope[k, r] * conset.c[k, r]) > 0.1 else 0.0
                residual[which[k], r] = max(residual[which[k], r], size)
    assert augmented.moved(conset, which) == pytest.approx(expected, rel=1e-12)
    found = np.full(conset.kind.shape, np.nan)
    largest = augmented.residuals(conset, which, 0.1, found)
    assert largest == found.max()
    plain = np.isin(conset.kind, (EQUAL, BELOW))
    np.testing.assert_allclose(found[plain], residual[plain], rtol=1e-12)
    augmented.update(conset, which, 1.0)
    np.testing.assert_allclose(conset.lam[:, 0], slope[:, 0])


def test_rows_without_control_do_not_hold_at_the_start():
    loaded = Loaded(np.random.default_rng(1))
    loaded.path.x[:, 2] = 5.0  # beyond its bound
    augmented.add_gradient(loaded.engine, 0, np.zeros(loaded.horizon.width))
    assert np.all(loaded.conset.gradient[0, :2] == 0)
    assert loaded.conset.gradient[0, 2] != 0
    augmented.add_gradient(loaded.engine, 1, np.zeros(loaded.horizon.width))
    assert loaded.conset.gradient[1, 0] > 0


def test_rows_that_are_not_finite_are_noticed():
    loaded = Loaded(np.random.default_rng(2))
    loaded.path.x[1, 0] = np.inf
    assert np.isnan(augmented.penalty(loaded.engine, loaded.path, 1))
    assert np.isnan(augmented.add_gradient(loaded.engine, 1, np.zeros(loaded.horizon.width)))


def test_multipliers_solve_a_convex_problem():
    """min (x - c)^2 over a cone, an upper bound and an equality, by multiplier updates: the KKT point in closed form."""
    rng = np.random.default_rng(0)
    c = np.array([0.2, 1.0, -2.0])  # outside |x[1:]| <= x[0]
    w = np.linalg.norm(c[1:])
    expected = 0.5 * (1 + c[0] / w) * np.r_[w, c[1:]]
    conset = Loaded(rng, mu=2.0).conset
    conset.lam[:], conset.holds[:] = 0.0, 1
    x = c.copy()
    for _ in range(60):
        for _ in range(40):  # Newton on 1/2 |x - c|^2 + terms of the cone rows
            conset.c[0, :6] = np.r_[-1.0, -1.0, 0.0, x]
            augmented.terms(conset, 0, 0, conset.c[0], conset.gradient[0])
            augmented._weights(conset, 0, 0)
            x = x - np.linalg.solve(np.eye(3) + conset.cone[3:6, 3:6], x - c + conset.gradient[0, 3:6])
        conset.c[0, :6] = np.r_[-1.0, -1.0, 0.0, x]
        augmented.terms(conset, 0, 0, conset.c[0], conset.gradient[0])
        augmented.update(conset, np.zeros(1, dtype=np.int64), 1.0)
    np.testing.assert_allclose(x, expected, atol=1e-9)
    np.testing.assert_allclose(conset.lam[0, 3:6], x - c, atol=1e-9)  # stationarity: x - c = multiplier of the cone
    assert augmented.row_violation(conset, 0, 3, conset.c[0]) < 1e-9
    assert augmented.violation(conset, 0, 0) < 1e-9
