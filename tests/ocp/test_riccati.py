"""The backward sweep against dense KKT systems, the algebraic Riccati equation, and enumerated active sets."""

import itertools

import numpy as np
import pytest
from scipy.linalg import block_diag, solve_discrete_are

from ocp.shooting.engine import riccati


def random_lq(rng, N, n, m):
    """A random convex LQ problem with gradients and cross terms: every [lxx lux'; lux luu] is positive definite."""
    model = riccati.expansion(N, n, m)
    for k in range(N):
        root = rng.normal(size=(n + m, n + m))
        H = root @ root.T / (n + m) + 0.1 * np.eye(n + m)
        model.A[k], model.B[k] = np.eye(n) + 0.3 * rng.normal(size=(n, n)), rng.normal(size=(n, m))
        model.lxx[k], model.luu[k], model.lux[k] = H[:n, :n], H[n:, n:], H[n:, :n]
        model.lx[k], model.lu[k] = rng.normal(size=n), rng.normal(size=m)
    root = rng.normal(size=(n, n))
    model.lxx[N], model.lx[N] = root @ root.T, rng.normal(size=n)
    return model


def sweep(model, u=None, lower=-np.inf, upper=np.inf, mu_control=0.0, mu_state=0.0):
    N, n, m = model.B.shape
    policy, work = riccati.policy(N, n, m), riccati.scratch(n, m)
    u = np.zeros((N, m)) if u is None else u
    result = riccati.backward(model, u, np.full(m, lower), np.full(m, upper), mu_control, mu_state, policy, work)
    return policy, result


def follow(model, policy, dx):
    """Closed loop from dx: controls [N, m] and the quadratic cost change."""
    N, n, m = model.B.shape
    us, total = np.zeros((N, m)), 0.0
    for k in range(N):
        du = policy.k[k] + policy.K[k] @ dx
        total += model.lx[k] @ dx + model.lu[k] @ du + du @ model.lux[k] @ dx
        total += (dx @ model.lxx[k] @ dx + du @ model.luu[k] @ du) / 2
        us[k], dx = du, model.A[k] @ dx + model.B[k] @ du
    return us, total + model.lx[N] @ dx + dx @ model.lxx[N] @ dx / 2


def dense(model, dx, mu_control=0.0):
    """The same optimum by one dense KKT system in (du_0, dx_1, du_1, ..., dx_N) and multipliers."""
    N, n, m = model.B.shape
    size = N * (m + n)
    H, g, C, c = np.zeros((size, size)), np.zeros(size), np.zeros((N * n, size)), np.zeros(N * n)
    at_u = [slice(k * (m + n), k * (m + n) + m) for k in range(N)]
    at_x = [None] + [slice(k * (m + n) + m, (k + 1) * (m + n)) for k in range(N)]
    for k in range(N):
        H[at_u[k], at_u[k]] = model.luu[k] + mu_control * np.eye(m)
        g[at_u[k]] += model.lu[k]
        rows = slice(k * n, (k + 1) * n)
        C[rows, at_x[k + 1]], C[rows, at_u[k]] = np.eye(n), -model.B[k]
        if k == 0:
            g[at_u[0]] += model.lux[0] @ dx
            c[rows] = model.A[0] @ dx
        else:
            C[rows, at_x[k]] = -model.A[k]
            H[at_x[k], at_x[k]], H[at_u[k], at_x[k]] = model.lxx[k], model.lux[k]
            H[at_x[k], at_u[k]] = model.lux[k].T
            g[at_x[k]] = model.lx[k]
    H[at_x[N], at_x[N]], g[at_x[N]] = model.lxx[N], model.lx[N]
    K = np.block([[H, C.T], [C, np.zeros((N * n, N * n))]])
    z = np.linalg.solve(K, np.r_[-g, c])[:size]
    value = z @ H @ z / 2 + g @ z + model.lx[0] @ dx + dx @ model.lxx[0] @ dx / 2
    return np.array([z[s] for s in at_u]), value


@pytest.mark.parametrize(("n", "m"), [(1, 1), (4, 1), (3, 5), (7, 4)])
def test_gains_agree_with_a_dense_kkt_system(n, m):
    rng = np.random.default_rng(n * 10 + m)
    model = random_lq(rng, 8, n, m)
    policy, (failed, linear, quadratic) = sweep(model)
    assert failed == -1
    for _ in range(3):
        dx = rng.normal(size=n)
        controls, value = dense(model, dx)
        mine, total = follow(model, policy, dx)
        np.testing.assert_allclose(mine, controls, rtol=1e-8, atol=1e-9)
        assert total == pytest.approx(value, rel=1e-9, abs=1e-9)
        # the value function predicts what the closed loop really costs
        predicted = linear + quadratic + policy.Vx[0] @ dx + dx @ policy.Vxx[0] @ dx / 2
        assert total == pytest.approx(predicted, rel=1e-9, abs=1e-9)


def test_control_regularisation_is_that_of_the_problem_with_a_stiffer_control_cost():
    rng = np.random.default_rng(5)
    model = random_lq(rng, 1, 4, 2)  # one step: the regularised sweep and the stiffer problem coincide
    policy, _ = sweep(model, mu_control=0.7)
    dx = rng.normal(size=4)
    np.testing.assert_allclose(follow(model, policy, dx)[0], dense(model, dx, mu_control=0.7)[0], rtol=1e-10)


@pytest.mark.parametrize("mu", [0.0, 0.3])
def test_value_of_a_regularised_policy_is_what_it_costs(mu):
    rng = np.random.default_rng(6)
    model = random_lq(rng, 9, 5, 2)
    policy, (failed, linear, quadratic) = sweep(model, mu_control=mu, mu_state=2 * mu)
    assert failed == -1
    dx = rng.normal(size=5)
    predicted = linear + quadratic + policy.Vx[0] @ dx + dx @ policy.Vxx[0] @ dx / 2
    assert follow(model, policy, dx)[1] == pytest.approx(predicted, rel=1e-10)


def test_state_regularisation_by_its_definition():
    rng = np.random.default_rng(7)
    model = random_lq(rng, 1, 4, 3)
    policy, _ = sweep(model, mu_state=0.9)
    A, B, V = model.A[0], model.B[0], model.lxx[1] + 0.9 * np.eye(4)
    K = -np.linalg.solve(model.luu[0] + B.T @ V @ B, model.lux[0] + B.T @ V @ A)
    np.testing.assert_allclose(policy.K[0], K, rtol=1e-10)


def test_long_horizon_reaches_the_algebraic_riccati_equation():
    rng = np.random.default_rng(8)
    n, m, N = 5, 2, 400
    A, B = np.eye(n) + 0.2 * rng.normal(size=(n, n)), rng.normal(size=(n, m))
    Q, R = np.diag(rng.uniform(0.5, 2, n)), np.diag(rng.uniform(0.5, 2, m))
    model = riccati.expansion(N, n, m)
    model.A[:], model.B[:], model.lxx[:], model.luu[:] = A, B, Q, R
    policy, _ = sweep(model)
    P = solve_discrete_are(A, B, Q, R)
    np.testing.assert_allclose(policy.Vxx[0], P, rtol=1e-8)
    np.testing.assert_allclose(policy.K[0], -np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A), rtol=1e-7, atol=1e-9)


def test_costates_are_the_gradient_of_the_cost():
    rng = np.random.default_rng(9)
    model = random_lq(rng, 6, 3, 2)
    policy = riccati.policy(6, 3, 2)
    riccati.costates(model, policy.costate, policy.gradient)
    step = 1e-4
    for k, i in itertools.product(range(6), range(2)):
        ends = []
        for sign in (1, -1):
            fixed = riccati.policy(6, 3, 2)
            fixed.k[k, i] = sign * step
            ends.append(follow(model, fixed, np.zeros(3))[1])  # open loop: K = 0
        assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(policy.gradient[k, i], rel=1e-6, abs=1e-7)


def test_an_indefinite_knot_is_named():
    model = random_lq(np.random.default_rng(10), 7, 3, 2)
    model.luu[4] = np.diag([1.0, -1e4])
    assert sweep(model)[1][0] == 4
    assert sweep(model, mu_control=2e4)[1][0] == -1
    model = random_lq(np.random.default_rng(10), 7, 3, 2)
    model.luu[2, 0, 0] = np.nan
    assert sweep(model)[1][0] == 2


# ---- control bounds ----------------------------------------------------------------------------------------------
def box_qp(H, g, lower, upper, start):
    m = len(g)
    x, free, L = np.array(start, float), np.zeros(m, dtype=np.int64), np.zeros((m, m))
    count = riccati.box_qp(H, g, lower, upper, x, free, L, np.zeros(m), np.zeros(m), np.zeros(m))
    return x, free[:max(count, 0)], count


def enumerate_box_qp(H, g, lower, upper):
    """Every assignment of the controls to lower, upper and free; the best feasible stationary point."""
    best, m = (np.inf, None), len(g)
    for pattern in itertools.product((-1, 0, 1), repeat=m):
        pattern = np.array(pattern)
        x = np.where(pattern < 0, lower, np.where(pattern > 0, upper, 0.0))
        f = pattern == 0
        if f.any():
            x[f] = np.linalg.solve(H[np.ix_(f, f)], -g[f] - H[np.ix_(f, ~f)] @ x[~f])
        if np.all(x >= lower - 1e-12) and np.all(x <= upper + 1e-12):
            best = min(best, (x @ H @ x / 2 + g @ x, tuple(x)))
    return np.array(best[1])


@pytest.mark.parametrize("seed", range(30))
def test_box_qp_finds_the_best_active_set(seed):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, 6))
    root = rng.normal(size=(m, m))
    H, g = root @ root.T + 1e-3 * np.eye(m), 3 * rng.normal(size=m)
    lower, upper = -rng.uniform(0, 1, m), rng.uniform(0, 1, m)
    expected = enumerate_box_qp(H, g, lower, upper)
    for start in (np.zeros(m), lower, 10 * rng.normal(size=m)):
        x, free, count = box_qp(H, g, lower, upper, start)
        assert count >= 0
        np.testing.assert_allclose(x, expected, atol=1e-9)
        inside = np.flatnonzero((x > lower) & (x < upper))
        assert set(inside) <= set(free)


def test_box_qp_without_room_and_without_convexity():
    H, g = np.diag([1.0, 2.0]), np.array([5.0, -5.0])
    x, _, count = box_qp(H, g, np.array([0.5, -1.0]), np.array([0.5, 1.0]), np.zeros(2))
    assert (list(x), count) == ([0.5, 1.0], 0)
    assert box_qp(-H, g, np.full(2, -9.0), np.full(2, 9.0), np.zeros(2))[2] == -1


def test_bounded_sweep_solves_each_knot_within_the_bounds_and_clamps_its_gains():
    rng = np.random.default_rng(12)
    model = random_lq(rng, 12, 4, 3)
    u = rng.uniform(-0.4, 0.4, size=(12, 3))
    policy, (failed, linear, quadratic) = sweep(model, u, -0.5, 0.5)
    assert failed == -1
    clamped_rows = 0
    for k in range(12):
        A, B, V, v = model.A[k], model.B[k], policy.Vxx[k + 1], policy.Vx[k + 1]
        H, g = model.luu[k] + B.T @ V @ B, model.lu[k] + B.T @ v
        np.testing.assert_allclose(policy.k[k], enumerate_box_qp(H, g, -0.5 - u[k], 0.5 - u[k]), atol=1e-9)
        free = (u[k] + policy.k[k] > -0.5 + 1e-12) & (u[k] + policy.k[k] < 0.5 - 1e-12)
        assert np.all(policy.K[k][~free] == 0)
        clamped_rows += int((~free).sum())
        cross = model.lux[k] + B.T @ V @ A
        if free.any():
            expected = -np.linalg.solve(H[np.ix_(free, free)], cross[free])
            np.testing.assert_allclose(policy.K[k][free], expected, rtol=1e-8, atol=1e-10)
    assert 0 < clamped_rows < 36
    # with dx = 0 nothing is clipped, so the promise is what the policy costs
    assert follow(model, policy, np.zeros(4))[1] == pytest.approx(linear + quadratic, rel=1e-10)


def test_projected_gradient_vanishes_only_at_an_optimum():
    u, lower, upper = np.array([[0.0, 1.0, -1.0]]), np.full(3, -1.0), np.full(3, 1.0)
    assert riccati.projected_gradient(u, np.array([[0.0, -3.0, 5.0]]), lower, upper) == 0.0
    assert riccati.projected_gradient(u, np.array([[1e-9, -3.0, 5.0]]), lower, upper) == 1e-9
    assert riccati.projected_gradient(u, np.array([[0.0, 3.0, 5.0]]), lower, upper) == 2.0  # as far as the bounds let it
    assert np.isnan(riccati.projected_gradient(u, np.array([[np.nan, 0, 0]]), lower, upper))
    free = np.full(3, np.inf)
    assert riccati.projected_gradient(u, np.array([[0.1, -3.0, 2.0]]), -free, free) == 3.0


def test_block_diagonal_systems_decouple():
    """Two independent problems side by side give block-diagonal gains, exactly."""
    rng = np.random.default_rng(13)
    one, two = random_lq(rng, 5, 2, 1), random_lq(rng, 5, 3, 2)
    both = riccati.expansion(5, 5, 3)
    for k in range(5):
        for name in ("A", "B", "luu", "lux"):
            getattr(both, name)[k] = block_diag(getattr(one, name)[k], getattr(two, name)[k])
        both.lu[k] = np.r_[one.lu[k], two.lu[k]]
    for k in range(6):
        both.lxx[k], both.lx[k] = block_diag(one.lxx[k], two.lxx[k]), np.r_[one.lx[k], two.lx[k]]
    policy = sweep(both)[0]
    for k in range(5):
        expected = block_diag(sweep(one)[0].K[k], sweep(two)[0].K[k])
        np.testing.assert_allclose(policy.K[k], expected, rtol=1e-9, atol=1e-12)
