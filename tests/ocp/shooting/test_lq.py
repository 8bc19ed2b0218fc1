"""The linear-quadratic solve against dense KKT systems, the algebraic Riccati equation, and enumerated active sets."""

import itertools

import numpy as np
import pytest
from scipy.linalg import ldl, solve, solve_discrete_are

from ocp.control.arrays import work_for
from ocp.control.box_qp import box_qp
from ocp.shooting.engine import lq

INF = np.inf
SHAPES = {
    "one state": ([1] * 6, [1] * 5 + [0]),
    "cart-pole": ([4] * 9, [1] * 8 + [0]),
    "more controls than states": ([3] * 6, [5] * 5 + [0]),
    "arm": ([12] * 8, [6] * 7 + [0]),
    "three rows more than blocks": ([15] * 6, [11] * 5 + [0]),
    "many controls": ([20] * 5, [18] * 4 + [0]),
    "sizes by stage": ([0, 5, 7, 7, 13, 2, 9], [5, 1, 0, 8, 9, 3, 0]),
    "stages without controls": ([6, 6, 3, 3, 6], [2, 0, 0, 2, 0]),
    "no controls at all": ([5, 4, 6], [0, 0, 0]),
}


@pytest.fixture(params=SHAPES, ids=[name.replace(" ", "-") for name in SHAPES])
def sizes(request):
    return SHAPES[request.param]


def random_model(seed, n, m, gaps=True):
    """Convex: every Hessian in (x, u) is positive definite; rubbish above its diagonal."""
    rng = np.random.default_rng(seed)
    model = lq.model(n, m)
    for k in range(len(n)):
        size = n[k] + m[k]
        root = rng.normal(size=(size, size))
        model.H[k, :size, :size] = np.tril(root @ root.T / max(size, 1) + 0.1 * np.eye(size))
        model.H[k] += np.triu(rng.normal(size=model.H[k].shape), 1)
        model.g[k, :size] = rng.normal(size=size)
        if k < len(n) - 1:
            A = rng.normal(size=(n[k + 1], n[k])) / max(n[k], 1)**0.5
            model.F[k, :n[k + 1], :n[k]] = 0.9 * np.eye(n[k + 1], n[k]) + 0.3 * A
            model.F[k, :n[k + 1], n[k]:size] = rng.normal(size=(n[k + 1], m[k])) / max(m[k], 1)**0.5
            if gaps:
                model.gap[k, :n[k + 1]] = rng.normal(size=n[k + 1])
    return model


def stage(model, k):
    """A, B, H (symmetric), g of a stage, without padding."""
    n, m = model.n[k], model.m[k]
    lower = np.tril(model.H[k, :n + m, :n + m])
    H, g = lower + np.tril(lower, -1).T, model.g[k, :n + m]
    if k == len(model.n) - 1:
        return None, None, H, g
    rows = model.n[k + 1]
    return model.F[k, :rows, :n], model.F[k, :rows, n:n + m], H, g


def next_value(model, policy, k):
    """Vxx and the shifted gradient behind a stage."""
    rows = model.n[k + 1]
    V = policy.Vxx[k + 1, :rows, :rows]
    return V, policy.Vx[k + 1, :rows] + V @ model.gap[k, :rows]


def sweep(model, u=None, lower=-INF, upper=INF, mu=0.0, policy=None):
    n, m = model.n, model.m
    shape = model.F.shape[0], int(max(m))
    policy = lq.policy(n, m) if policy is None else policy
    u = np.zeros(shape) if u is None else u
    result = lq.backward(model, u, np.full(shape, lower), np.full(shape, upper), mu, policy, lq.scratch(n, m))
    return policy, result


def rollout(model, policy, a=1.0):
    dx, du = np.full(policy.Vx.shape, np.nan), np.full(policy.k.shape, 0.0)
    lq.forward(model, policy, a, dx, du)
    return dx, du


def cost(model, dx, du):
    """The model's change of cost, by plain sums."""
    total = 0.0
    for k in range(len(model.n)):
        _, _, H, g = stage(model, k)
        z = np.r_[dx[k, :model.n[k]], du[k, :model.m[k]] if k < len(du) else ()]
        total += g @ z + z @ H @ z / 2
    return total


def follow(model, policy, start):
    """Closed loop from a given start in NumPy: (dx, du) as padded arrays."""
    dx, du = np.zeros(policy.Vx.shape), np.zeros(policy.k.shape)
    dx[0, :model.n[0]] = start
    for k in range(len(du)):
        A, B, _, _ = stage(model, k)
        n, m, rows = model.n[k], model.m[k], model.n[k + 1]
        du[k, :m] = policy.k[k, :m] + policy.K[k, :m, :n] @ dx[k, :n]
        dx[k + 1, :rows] = A @ dx[k, :n] + B @ du[k, :m] + model.gap[k, :rows]
    return dx, du


def kkt(model, start):
    """The dense KKT system in all z and the multipliers of dx_0 = start and of the dynamics: (matrix, right-hand side)."""
    n, m, S = model.n, model.m, model.F.shape[0]
    at = np.r_[0, np.cumsum(n + m)]
    rows = np.r_[0, np.cumsum(n)]
    H, g, C, c = np.zeros((at[-1], at[-1])), np.zeros(at[-1]), np.zeros((rows[-1], at[-1])), np.zeros(rows[-1])
    for k in range(S + 1):
        z = slice(at[k], at[k + 1])
        _, _, H[z, z], g[z] = stage(model, k)
        C[rows[k]:rows[k + 1], at[k]:at[k] + n[k]] = np.eye(n[k])
        if k < S:
            A, B, _, _ = stage(model, k)
            C[rows[k + 1]:rows[k + 2], z] = -np.hstack([A, B])
            c[rows[k + 1]:rows[k + 2]] = model.gap[k, :n[k + 1]]
    c[:n[0]] = start
    return np.block([[H, C.T], [C, np.zeros((len(c), len(c)))]]), np.r_[-g, c]


def packed(model, dx, du):
    return np.concatenate([np.r_[dx[k, :model.n[k]], du[k, :model.m[k]] if k < len(du) else ()] for k in range(len(model.n))])


# ---- the whole solve
def test_steps_solve_the_dense_kkt_system(sizes):
    model = random_model(1, *sizes)
    policy, (failed, linear, quadratic) = sweep(model)
    assert failed == -1
    dx, du = rollout(model, policy)
    K, right = kkt(model, 0.0)
    exact = solve(K, right)
    z = packed(model, dx, du)
    np.testing.assert_allclose(z, exact[:len(z)], rtol=1e-9, atol=1e-10)
    # multipliers from the value: those of dx_k are minus the gradient of the cost-to-go
    multipliers = -np.concatenate([policy.Vx[k, :n] + policy.Vxx[k, :n, :n] @ dx[k, :n] for k, n in enumerate(model.n)])
    assert np.abs(K @ np.r_[z, multipliers] - right).max() < 1e-10 * max(1.0, np.abs(right).max())
    assert linear + quadratic == pytest.approx(cost(model, dx, du), rel=1e-10, abs=1e-10)


def test_value_is_the_cost_to_go_from_any_start(sizes):
    model = random_model(2, *sizes)
    policy, (failed, linear, quadratic) = sweep(model)
    assert failed == -1
    n = model.n[0]
    start = np.random.default_rng(3).normal(size=n)
    predicted = linear + quadratic + policy.Vx[0, :n] @ start + start @ policy.Vxx[0, :n, :n] @ start / 2
    assert cost(model, *follow(model, policy, start)) == pytest.approx(predicted, rel=1e-10, abs=1e-10)
    K, right = kkt(model, start)
    z = packed(model, *follow(model, policy, start))
    np.testing.assert_allclose(z, solve(K, right)[:len(z)], rtol=1e-8, atol=1e-9)


def test_padding_stays_zero_and_values_are_symmetric(sizes):
    model = random_model(4, *sizes)
    policy, _ = sweep(model, lower=-0.3, upper=0.3)
    lq.costates(model, policy.costate, policy.gradient)
    dx, du = rollout(model, policy)
    for k, n in enumerate(model.n):
        V = policy.Vxx[k]
        np.testing.assert_array_equal(V[:n, :n], V[:n, :n].T)
        for rest in (V[n:], V[:, n:], policy.Vx[k, n:], policy.costate[k, n:], dx[k, n:]):
            assert not rest.any()
    for k, m in enumerate(model.m[:-1]):
        for rest in (policy.k[k, m:], policy.K[k, m:], policy.K[k, :, model.n[k]:], policy.gradient[k, m:], du[k, m:]):
            assert not rest.any()


def test_the_model_is_left_as_it_was(sizes):
    model, same = random_model(5, *sizes), random_model(5, *sizes)
    policy, _ = sweep(model, lower=-0.3, upper=0.3, mu=0.1)
    lq.costates(model, policy.costate, policy.gradient)
    rollout(model, policy)
    for mine, before in zip(model, same, strict=True):
        np.testing.assert_array_equal(mine, before)


@pytest.mark.parametrize("a", [1.0, 0.4, 0.05])
def test_change_along_partial_steps(sizes, a):
    model = random_model(6, *sizes)
    policy, (_, linear, quadratic) = sweep(model, lower=-0.4, upper=0.6, mu=0.2)
    dx, du = rollout(model, policy, a)
    change = lq.change(model, dx, du)
    assert change == (pytest.approx(a * linear, rel=1e-9, abs=1e-12), pytest.approx(a * a * quadratic, rel=1e-9, abs=1e-12))
    assert sum(change) == pytest.approx(cost(model, dx, du), rel=1e-10, abs=1e-12)


def test_a_partial_step_is_that_part_of_the_full_one(sizes):
    model = random_model(7, *sizes)
    policy, _ = sweep(model)
    (x, u), (half_x, half_u) = rollout(model, policy), rollout(model, policy, 0.5)
    np.testing.assert_allclose(half_x, 0.5 * x, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(half_u, 0.5 * u, rtol=1e-12, atol=1e-13)
    whole, part = lq.change(model, x, u), lq.change(model, half_x, half_u)
    assert part == (pytest.approx(0.5 * whole[0], rel=1e-10), pytest.approx(0.25 * whole[1], rel=1e-10))
    assert sum(whole) == pytest.approx(cost(model, x, u), rel=1e-10)


def test_long_horizon_reaches_the_algebraic_riccati_equation():
    rng = np.random.default_rng(8)
    n, m, S = 13, 5, 400
    A, B = np.eye(n) + 0.1 * rng.normal(size=(n, n)), rng.normal(size=(n, m))
    Q, R = np.diag(rng.uniform(0.5, 2, n)), np.diag(rng.uniform(0.5, 2, m))
    model = lq.model([n] * (S + 1), [m] * S + [0])
    model.F[:, :, :n], model.F[:, :, n:n + m] = A, B
    model.H[:, :n, :n], model.H[:, n:, n:n + m] = Q, R
    policy, _ = sweep(model)
    P = solve_discrete_are(A, B, Q, R)
    np.testing.assert_allclose(policy.Vxx[0, :, :n], P, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(policy.K[0, :, :n], -np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A), rtol=1e-7, atol=1e-8)


def test_costates_are_the_derivatives_of_the_cost(sizes):
    """By changing one control at a time in an open loop; and the costate by changing the start."""
    model = random_model(9, *sizes, gaps=False)
    policy = lq.policy(model.n, model.m)
    lq.costates(model, policy.costate, policy.gradient)
    for k in range(model.F.shape[0]):
        for i in range(model.m[k]):
            fixed = lq.policy(model.n, model.m)
            fixed.k[k, i] = 1.0  # the cost is quadratic: central differences have no error
            slope = (cost(model, *rollout(model, fixed)) - cost(model, *rollout(model, fixed, -1.0))) / 2
            assert policy.gradient[k, i] == pytest.approx(slope, rel=1e-9, abs=1e-9)
    still = lq.policy(model.n, model.m)
    for i in range(model.n[0]):
        ends = [cost(model, *follow(model, still, sign * np.eye(model.n[0])[i])) for sign in (1, -1)]
        assert policy.costate[0, i] == pytest.approx((ends[0] - ends[1]) / 2, rel=1e-9, abs=1e-9)


# ---- regularisation
def expected_gains(model, policy, k, mu, free=None):
    """k and K of a stage from the next value, by definition; ``free``: the controls that are not clamped."""
    A, B, H, g = stage(model, k)
    n, m = model.n[k], model.m[k]
    V, v = next_value(model, policy, k)
    Quu, Qux, Qu = H[n:, n:] + B.T @ V @ B + mu * np.eye(m), H[n:, :n] + B.T @ V @ A, g[n:] + B.T @ v
    free = np.arange(m) if free is None else free
    K = np.zeros((m, n))
    if len(free):
        K[free] = -np.linalg.solve(Quu[np.ix_(free, free)], Qux[free])
    return Quu, Qu, K


@pytest.mark.parametrize("mu", [0.7, 0.3])
def test_regularisation_by_its_definition(sizes, mu):
    model = random_model(10, *sizes)
    policy, (failed, linear, quadratic) = sweep(model, mu=mu)
    assert failed == -1
    for k in range(model.F.shape[0]):
        Quu, Qu, K = expected_gains(model, policy, k, mu)
        n, m = model.n[k], model.m[k]
        np.testing.assert_allclose(policy.K[k, :m, :n], K, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(policy.k[k, :m], -np.linalg.solve(Quu, Qu), rtol=1e-8, atol=1e-9)
    # the value is what this policy costs, not what the regularised one would
    start = np.random.default_rng(11).normal(size=model.n[0])
    n = model.n[0]
    predicted = linear + quadratic + policy.Vx[0, :n] @ start + start @ policy.Vxx[0, :n, :n] @ start / 2
    assert cost(model, *follow(model, policy, start)) == pytest.approx(predicted, rel=1e-9)


def test_the_general_formula_meets_the_fast_one():
    """A regularisation of nearly nothing goes another way to the same numbers."""
    model = random_model(12, *SHAPES["sizes by stage"])
    fast, one = sweep(model)
    general, two = sweep(model, mu=1e-300)
    assert one == (two[0], pytest.approx(two[1], rel=1e-12), pytest.approx(two[2], rel=1e-12))
    for a, b in zip(fast, general, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("m", [1, 2, 7, 9, 20])
def test_an_indefinite_stage_is_named_and_regularisation_mends_it(m):
    n, S = 6, 5
    model = random_model(13, [n] * (S + 1), [m] * S + [0])
    model.H[3, n:, n:n + m] -= 1e4 * np.diag(np.arange(m) == m // 2)
    assert sweep(model)[1][0] == 3
    policy, (failed, linear, quadratic) = sweep(model, mu=3e4)
    assert failed == -1
    assert linear + quadratic == pytest.approx(cost(model, *rollout(model, policy)), rel=1e-8)
    eigenvalues = np.linalg.eigvalsh(ldl(stage(model, 3)[2][n:, n:])[1])
    assert eigenvalues[0] < 0  # it was indefinite


@pytest.mark.parametrize("where", ["Quu", "Qux", "Qu", "A", "gap", "Vx"])
def test_numbers_that_are_none_are_failures(where):
    for bad in (np.nan, np.inf):
        model = random_model(14, [5] * 7, [2] * 6 + [0])
        array, index = {"Quu": (model.H, (2, 6, 5)), "Qux": (model.H, (2, 5, 1)), "Qu": (model.g, (2, 6)),
                        "A": (model.F, (2, 0, 0)), "gap": (model.gap, (2, 0)), "Vx": (model.g, (6, 0))}[where]
        array[index] = bad
        failed = sweep(model)[1][0]
        assert failed == (5 if where == "Vx" else 2)


# ---- control bounds
def solve_box(H, g, lower, upper, start):
    m, w = len(g), 8 * (-(-len(g) // 8))
    work = work_for(m)
    stored = np.tril(H) + np.triu(np.full((m, m), np.nan), 1)  # what lies above the diagonal must not be read
    flat, x = np.zeros(m * w), np.array(start, float)
    flat.reshape(m, w)[:, :m] = stored
    count = box_qp(flat, 0, w, np.array(g, float), np.array(lower, float), np.array(upper, float), x, work)
    return x, work.free[:max(count, 0)].copy(), count


def enumerate_box(H, g, lower, upper):
    """Every assignment of the controls to lower, upper and free; the best feasible stationary point."""
    best, m = (INF, None), len(g)
    for pattern in map(np.array, itertools.product((-1, 0, 1), repeat=m)):
        x = np.where(pattern < 0, lower, np.where(pattern > 0, upper, 0.0))
        f = pattern == 0
        if not np.isfinite(x).all():
            continue
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
    lower[rng.uniform(size=m) < 0.2], upper[rng.uniform(size=m) < 0.2] = -INF, INF
    expected = enumerate_box(H, g, lower, upper)
    for start in (np.zeros(m), 10 * rng.normal(size=m), np.full(m, np.nan)):
        x, free, count = solve_box(H, g, lower, upper, start)
        assert count >= 0
        np.testing.assert_allclose(x, expected, atol=1e-9 * (1 + np.abs(expected).max()))
        assert set(np.flatnonzero((x > lower) & (x < upper))) <= set(free)


@pytest.mark.parametrize("m", [8, 19, 40])
def test_box_qp_of_many_controls_meets_its_optimality_conditions(m):
    rng = np.random.default_rng(m)
    root = rng.normal(size=(m, m))
    H, g = root @ root.T / m + 0.05 * np.eye(m), rng.normal(size=m)
    x, free, count = solve_box(H, g, np.full(m, -0.4), np.full(m, 0.4), np.zeros(m))
    assert 0 < count == len(free) < m
    slope = H @ x + g
    assert np.abs(x - np.clip(x - slope, -0.4, 0.4)).max() < 1e-12
    assert np.all(np.diff(free) > 0)


def test_box_qp_without_room_and_without_convexity():
    H, g = np.diag([1.0, 2.0]), np.array([5.0, -5.0])
    x, _, count = solve_box(H, g, np.array([0.5, -1.0]), np.array([0.5, 1.0]), np.zeros(2))
    assert (list(x), count) == ([0.5, 1.0], 0)
    assert solve_box(-H, g, np.full(2, -9.0), np.full(2, 9.0), np.zeros(2))[2] == -1


@pytest.mark.parametrize("mu", [0.0, 0.2])
@pytest.mark.parametrize("bound", [0.05, 0.3, 5.0])
def test_bounded_sweep_solves_each_stage_within_its_bounds_and_clamps_its_gains(bound, mu):
    rng = np.random.default_rng(15)
    n, m = [4, 4, 5, 3] * 3 + [4], [3, 2, 0, 3] * 3 + [0]
    model = random_model(15, n, m)
    u = rng.uniform(-bound, bound, size=(12, 3))
    lower, upper = np.full((12, 3), -bound), np.full((12, 3), bound)
    lower[3], upper[5, 1] = -INF, INF
    policy, work = lq.policy(n, m), lq.scratch(n, m)
    for again in range(3):  # from nothing, from the answer, and from bounds that were not held
        if again == 2:
            policy.k[:] = 10 * rng.normal(size=policy.k.shape)
        failed, linear, quadratic = lq.backward(model, u, lower, upper, mu, policy, work)
        assert failed == -1
        clamped = 0
        for k in range(12):
            mk, nk = m[k], n[k]
            low, high, step = lower[k, :mk] - u[k, :mk], upper[k, :mk] - u[k, :mk], policy.k[k, :mk]
            free = np.flatnonzero((step > low) & (step < high))
            Quu, Qu, K = expected_gains(model, policy, k, mu, free)
            np.testing.assert_allclose(step, enumerate_box(Quu, Qu, low, high), atol=1e-9)
            np.testing.assert_allclose(policy.K[k, :mk, :nk], K, rtol=1e-8, atol=1e-9)
            clamped += mk - len(free)
        assert clamped > 0 if bound < 1 else clamped < 5
        dx0 = rng.normal(size=n[0])
        predicted = linear + quadratic + policy.Vx[0, :4] @ dx0 + dx0 @ policy.Vxx[0, :4, :4] @ dx0 / 2
        assert cost(model, *follow(model, policy, dx0)) == pytest.approx(predicted, rel=1e-9)


@pytest.mark.parametrize("m", [9, 16, 21])
def test_bounded_sweep_of_many_controls(m):
    n, S, bound = 10, 4, 0.6
    model = random_model(20 + m, [n] * (S + 1), [m] * S + [0])
    policy, (failed, linear, quadratic) = sweep(model, lower=-bound, upper=bound)
    assert failed == -1
    for k in range(S):
        step = policy.k[k]
        free = np.flatnonzero(np.abs(step) < bound)
        Quu, Qu, K = expected_gains(model, policy, k, 0.0, free)
        assert 0 < len(free) < m
        assert np.abs(step - np.clip(step - (Quu @ step + Qu), -bound, bound)).max() < 1e-11
        np.testing.assert_allclose(policy.K[k, :, :n], K, rtol=1e-8, atol=1e-9)
    assert linear + quadratic == pytest.approx(cost(model, *rollout(model, policy)), rel=1e-10)


def test_an_indefinite_quu_is_no_failure_where_bounds_hold_its_direction():
    model = random_model(16, [3] * 4, [2] * 3 + [0], gaps=False)
    model.H[1, 4, 4] = -1e3  # the second control of stage 1
    assert sweep(model)[1][0] == 1
    policy = lq.policy(model.n, model.m)
    policy.k[1, 1] = 0.1
    u, lower, upper = np.zeros((3, 2)), np.full((3, 2), -INF), np.full((3, 2), INF)
    lower[1], upper[1] = -0.1, 0.1
    failed, linear, quadratic = lq.backward(model, u, lower, upper, 0.0, policy, lq.scratch(model.n, model.m))
    assert failed == -1
    assert policy.k[1, 1] == 0.1
    assert not policy.K[1, 1].any()
    assert linear + quadratic == pytest.approx(cost(model, *rollout(model, policy)), rel=1e-10)


def test_projected_gradient_vanishes_only_at_an_optimum():
    u, lower, upper, m = np.array([[0.0, 1.0, -1.0]]), np.full((1, 3), -1.0), np.full((1, 3), 1.0), np.array([3, 0])

    def norm(*gradient, low=lower, high=upper, sizes=m):
        return lq.projected_gradient(sizes, u, np.array([gradient]), low, high, 1.0)

    assert norm(0.0, -3.0, 5.0) == 0.0
    assert norm(1e-9, -3.0, 5.0) == 1e-9
    assert norm(0.0, 3.0, 5.0) == 2.0  # as far as the bounds let it
    assert np.isnan(norm(np.nan, 0.0, 0.0))
    assert norm(0.1, -3.0, 2.0, low=-INF * upper, high=INF * upper) == 3.0
    assert norm(0.1, -3.0, np.nan, sizes=np.array([1, 0])) == 0.1  # controls that the stage has not are not looked at


def test_sizes_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match="expected 3 sizes"):
        lq.model([2, 2, 2], [1, 0])
    with pytest.raises(ValueError, match="last of them 0"):
        lq.policy([2, 2], [1, 1])
