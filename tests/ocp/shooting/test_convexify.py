"""Full Hessians: convexification from far starts, the speed of convergence near the solution, the pieces against NumPy."""

import dataclasses
import itertools

import casadi as ca
import numpy as np
import pytest
from engine_paths import on_path, symmetric
from plain_shooting import of_solution
from shooting_problems import cart_pole, make, pendulum, quadrotor

from ocp.problem import Guess, Status
from ocp.shooting.engine.expansion import coarsen, convexify, project
from ocp.shooting.ilqr import ILQROptions, solve
from ocp.shooting.options import Tuning
from ocp.spaces import euclidean


def acrobot():
    """Two links of unit mass and length, driven at the elbow, from hanging to upright by cost."""
    def rate(t, x, u):
        c2, s2, w1, w2 = ca.cos(x[1]), ca.sin(x[1]), x[2], x[3]
        a, b, c = 5 / 3 + c2, 1 / 3 + c2 / 2, ca.SX(1 / 3)
        right1 = (2 * w1 * w2 + w2**2) * s2 / 2 - 9.81 * (1.5 * ca.sin(x[0]) + 0.5 * ca.sin(x[0] + x[1])) - 0.1 * w1
        right2 = u - s2 * w1**2 / 2 - 9.81 * 0.5 * ca.sin(x[0] + x[1]) - 0.1 * w2
        det = a * c - b * b
        return ca.vertcat(w1, w2, (c * right1 - b * right2) / det, (a * right2 - b * right1) / det)

    return make("acrobot", euclidean(("q1", "q2", "w1", "w2")), ("elbow",), rate, (0.0,) * 4, 3.0,
                running=[("effort", lambda t, x, u: u, (0.1,))],
                final=[("upright", lambda t, x, u: x - ca.DM([np.pi, 0, 0, 0]), (100.0, 100.0, 10.0, 10.0))],
                u_guess=[[1.0], [-1.0], [1.0]])


PROBLEMS = {
    "pendulum": (lambda: pendulum(u_guess=[[1.0], [-1.0], [1.0], [-1.0]]), 60),
    "cart-pole": (cart_pole, 60),
    "quadrotor": (quadrotor, 30),
    "acrobot": (acrobot, 80),
}


def wild(problem, seed, size=2.0):
    """The problem from random controls."""
    rng, phase = np.random.default_rng(seed), problem.phase
    u = phase.guess.u[0] + size * rng.normal(size=(6, phase.system.nu))
    guess = Guess(np.linspace(0, 1, 6), np.tile(phase.guess.x[0], (6, 1)), u)
    return dataclasses.replace(problem, phases=(dataclasses.replace(phase, guess=guess),))


# ---- from far away

WAYS = Tuning.CHOICES["convexify"]


@pytest.mark.parametrize(("name", "how"), [
    *(("cart-pole", how) for how in WAYS), ("quadrotor", "project"), ("acrobot", "project"),
    *(pytest.param(*case, marks=pytest.mark.slow) for case in itertools.product(("pendulum", "quadrotor"), WAYS)
      if case != ("quadrotor", "project"))])
@pytest.mark.sample(2)
def test_every_choice_leads_to_a_minimum_from_far(name, how):
    build, intervals = PROBLEMS[name]
    for seed in range(1 if name == "quadrotor" else 2):
        problem = wild(build(), seed)
        found = solve(problem, ILQROptions(intervals=intervals, hessian="full", tuning=Tuning(convexify=how, polish="never")))
        assert found.status is Status.CONVERGED, found.ending
        assert found.optimality.residuals()[0] < 1e-7
        costs = [row["cost"] for row in found.iterations]
        assert np.all(np.diff(costs) <= 1e-9 * max(1.0, costs[0]))  # no step went up
        rng, u = np.random.default_rng(1), found.trajectory.u
        bound = 2.5 if name == "pendulum" else np.inf
        for _ in range(10):  # a minimum, not a saddle
            near = np.clip(u + 1e-3 * rng.normal(size=u.shape), -bound, bound)
            assert of_solution(found, controls=[near]).cost > found.objective - 1e-10


def test_far_from_the_solution_the_full_hessian_is_not_convex():
    """Otherwise the tests above would have nothing to convexify."""
    _, store = on_path(wild(acrobot(), 0), ILQROptions(intervals=80, hessian="full"))
    lowest = [np.linalg.eigvalsh(symmetric(store.model.H[k, :5, :5]))[0] for k in range(80)]
    assert min(lowest) < -1e-2


# ---- near the solution
@pytest.mark.parametrize("name", ["cart-pole", "acrobot"])
def test_automatic_hessians_begin_as_gauss_newton_and_end_as_newton(name):
    build, intervals = PROBLEMS[name]
    runs = {h: solve(build(), ILQROptions(intervals=intervals, hessian=h, tuning=Tuning(polish="never")))
            for h in ("auto", "gauss_newton")}
    assert runs["auto"].status is Status.CONVERGED
    first = [[row["cost"] for row in runs[h].iterations[:3]] for h in ("auto", "gauss_newton")]
    np.testing.assert_allclose(*first, rtol=1e-9)
    assert len(runs["auto"].iterations) <= len(runs["gauss_newton"].iterations)
    assert runs["auto"].optimality.residuals()[0] < 1e-7


# ---- the pieces
@pytest.mark.parametrize("size", [1, 2, 3, 7, 13, 24])
def test_projection_is_the_nearest_positive_semidefinite_matrix(size):
    rng = np.random.default_rng(size)
    for scale in (1.0, 1e-6, 1e8):
        root = rng.normal(size=(size, size))
        A = scale * (root + root.T)
        H, V = np.full((size + 2, 32), np.nan), np.zeros((size + 2, size + 2))
        H[:size, :size] = np.tril(A) + np.triu(rng.normal(size=(size, size)), 1)  # rubbish above the diagonal
        project(H, size, V)
        values, vectors = np.linalg.eigh(A)
        expected = vectors @ np.diag(np.maximum(values, 0)) @ vectors.T
        np.testing.assert_allclose(symmetric(H[:size, :size]), expected, atol=1e-13 * scale * size)


def test_projection_leaves_convex_matrices_and_zero_alone():
    rng, V = np.random.default_rng(0), np.zeros((6, 6))
    root = rng.normal(size=(6, 4))
    for A in (root @ root.T, np.zeros((6, 6)), np.diag([3.0, 0, 2, 0, 0, 1])):
        H = np.tril(A)
        project(H, 6, V)
        np.testing.assert_allclose(symmetric(H), A, atol=1e-14)
    H = np.diag([-1.0, 2.0, -3.0, 0.0, 5.0, -6.0])
    project(H, 6, V)
    np.testing.assert_allclose(np.tril(H), np.diag([0.0, 2, 0, 0, 5, 0]), atol=1e-15)


@pytest.mark.parametrize("name", ["cart-pole", "quadrotor"])
def test_blends_lie_between_the_full_hessian_and_that_of_gauss_newton(name):
    build, intervals = PROBLEMS[name]
    problem = wild(build(), 3, 0.5)
    n, m = problem.phase.system.space.ndx, problem.phase.system.nu
    _, store = on_path(problem, ILQROptions(intervals=intervals, hessian="full", tuning=Tuning(convexify="gauss_newton")))
    _, plain = on_path(problem, ILQROptions(intervals=intervals, hessian="gauss_newton"))
    full, coarse = (symmetric(s.model.H[:, :n + m, :n + m].copy()) for s in (store, plain))
    g, F = store.model.g.copy(), store.model.F.copy()
    assert coarsen(store) == -1
    np.testing.assert_allclose(store.model.g, g, rtol=1e-12, atol=1e-13)  # as they were
    np.testing.assert_allclose(store.model.F, F, rtol=1e-12, atol=1e-13)
    scale = np.abs(full).max()
    assert np.abs(full[:-1] - coarse[:-1]).max() > 1e-3
    for expected in ((full + coarse) / 2, (full + 3 * coarse) / 4):
        convexify(store, 0.5)
        np.testing.assert_allclose(symmetric(store.model.H[:-1, :n + m, :n + m]), expected[:-1], atol=1e-12 * scale)
    convexify(store, 1.0)
    np.testing.assert_allclose(symmetric(store.model.H[:-1, :n + m, :n + m]), coarse[:-1], atol=1e-12 * scale)
