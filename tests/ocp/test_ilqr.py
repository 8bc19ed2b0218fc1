"""iLQR by independent roads: closed forms, finite differences on the manifold, plain NumPy rollouts, broken kernels."""

import dataclasses
import itertools
import subprocess
import sys
from pathlib import Path

import casadi as ca
import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp
from shooting_problems import cart_pole, double_integrator, function, make, pendulum, quadrotor

from dynamics.kernels import find_compiler
from ocp.errors import ProblemError, UnsupportedError
from ocp.integrators import INTEGRATORS
from ocp.problem import INF, At, Boundary, Constraint, Cost, Duration, Sense, Status
from ocp.shooting import ilqr
from ocp.shooting.engine import loops
from ocp.shooting.engine.search import Search
from ocp.shooting.ilqr import ILQROptions, prepare, run, solve, unsupported
from ocp.shooting.optimality import discrete_gradient
from ocp.shooting.stages import stage
from ocp.spaces import euclidean


def change(problem, **fields):
    return dataclasses.replace(problem, phases=(dataclasses.replace(problem.phase, **fields),))


def add_cost(problem, name, at, build, weights=None):
    phase = problem.phase
    cost = Cost(name, at, function(phase.system.nx, phase.system.nu, build), weights)
    return change(problem, costs=(*phase.costs, cost))


def call(f, *args):
    out = f(*args)
    return [np.asarray(o) for o in (out if isinstance(out, tuple) else (out,))]


def total_cost(stages, t, x, u, h, p=()):
    """Total cost by a plain Python rollout."""
    total = 0.0
    for k in range(len(u)):
        x, part = call(stages.step, t[k], x, u[k], p, h)
        total += float(part[0, 0])
    return total + float(stages.final(t[len(u)], x, p))


# ---- linear-quadratic problems: the answer is known --------------------------------------------------------------
def test_lqr_takes_one_iteration_and_has_the_riccati_cost():
    N, h = 50, 2.0 / 50
    options = ILQROptions(intervals=N, integrator="euler", cost_quadrature="rectangle")
    solution = solve(double_integrator(), options)
    assert solution.status is Status.CONVERGED
    assert len(solution.iterations) == 2  # the guess and one step
    # plain recursion for V(x) = 1/2 x'P x + r'x + c of the same discrete problem
    A, B = np.array([[1, h], [0, 1]]), np.array([[0], [h]])
    Q, q, R = h * np.diag([1.4, 0.4]), h * np.array([0.3, 0]), np.array([[h * 0.5]])
    P, goal = np.diag([10.0, 4.0]), np.array([0.2, 0.1])
    r, c = -P @ goal, goal @ P @ goal / 2
    for _ in range(N):
        S, s = R + B.T @ P @ B, B.T @ r
        G = np.linalg.solve(S, B.T @ P @ A)
        P, r, c = Q + A.T @ P @ A - A.T @ P @ B @ G, q + A.T @ r - G.T @ s, c - s @ np.linalg.solve(S, s) / 2
    x0 = np.array([1.0, -0.5])
    assert solution.objective == pytest.approx(x0 @ P @ x0 / 2 + r @ x0 + c, rel=1e-11)
    np.testing.assert_allclose(solution.extra["K"][0], -G, rtol=1e-9)
    np.testing.assert_allclose(solution.extra["Vx"][0], P @ x0 + r, rtol=1e-9)


def test_continuous_lqr_is_approached_at_second_order():
    """min 1/2 int u^2 + 1/2 w x(T)^2 for x' = u from 1: u = -w/(1 + w T) is constant, so held controls are exact."""
    problem = make("lqr", euclidean(("x",)), ("u",), lambda t, x, u: u, (1.0,), 3.0,
                   running=[("effort", lambda t, x, u: u, (1.0,))], final=[("end", lambda t, x, u: x, (5.0,))])
    solution = solve(problem, ILQROptions(intervals=7))
    np.testing.assert_allclose(solution.trajectory.u, -5 / 16, rtol=1e-12)
    assert solution.objective == pytest.approx(5 / 32, rel=1e-12)


@pytest.mark.parametrize(("quadrature", "expected"), [("integrator", 4), ("rectangle", 1)])
def test_order_of_the_cost(quadrature, expected):
    """Objective of a fixed control on x' = x cos t against the integral of x(t)^2, x = exp(sin t)."""
    problem = make("cost", euclidean(("x",)), ("u",), lambda t, x, u: x * ca.cos(t) + u, (1.0,), 2.0,
                   running=[("square", lambda t, x, u: x**2, None)], final=[("end", lambda t, x, u: 3 * x, None)])
    exact = quad(lambda t: np.exp(2 * np.sin(t)), 0, 2, epsabs=1e-12)[0] + 3 * np.exp(np.sin(2.0))
    counts, errors = np.array([8, 16, 32]), []
    for n in counts:
        options = ILQROptions(intervals=int(n), cost_quadrature=quadrature, max_iterations=0)
        errors.append(abs(solve(problem, options).objective - exact))
    assert -np.polyfit(np.log(counts), np.log(errors), 1)[0] == pytest.approx(expected, abs=0.25)


# ---- derivatives -------------------------------------------------------------------------------------------------
def scalar_costs(problem):
    """The problem with a scalar (not residual) running and final cost on top, both curved."""
    nx = problem.phase.system.nx
    problem = add_cost(problem, "bend", At.PATH, lambda t, x, u: ca.sin(x[0] + 2 * t) * x[nx - 1] + ca.cos(x[3]) * u[0])
    return add_cost(problem, "final bend", At.FINAL, lambda t, x, u: ca.cos(x[0]) * x[3] ** 2 + x[3] * x[nx - 1])


PROBLEMS = {"cart-pole": cart_pole, "quadrotor": quadrotor, "scalar": lambda: scalar_costs(quadrotor())}


def point(problem, seed):
    """A random time, state on the manifold, control and step."""
    rng = np.random.default_rng(seed)
    system = problem.phase.system
    stages = stage.build(problem.phase, ILQROptions())
    x = call(stages.plus, problem.phase.start.value, 0.5 * rng.normal(size=system.space.ndx))[0].ravel()
    return rng, 0.3, x, rng.normal(size=system.nu), 0.07


def read(stages, out):
    """Results of ``expand`` as matrices: they come transposed."""
    names = ("lx", "lu", "A", "B", "lxx", "luu", "lux")
    return {name: (value.ravel() if name in ("lx", "lu") else value.T) for name, value in zip(names, out, strict=False)}


def differences(f, x, u, stages, step=1e-5):
    """Central differences of f(x [+] dx, u + du) in (dx, u), columns stacked: [len f, ndx + nu]."""
    columns = []
    for j in range(stages.ndx + stages.nu):
        ends = []
        for sign in (step, -step):
            d = np.zeros(stages.ndx + stages.nu)
            d[j] = sign
            moved = call(stages.plus, x, d[:stages.ndx])[0].ravel()
            ends.append(np.atleast_1d(f(moved, u + d[stages.ndx:])))
        columns.append((ends[0] - ends[1]) / (2 * step))
    return np.column_stack(columns)


@pytest.mark.parametrize("integrator", list(INTEGRATORS))
@pytest.mark.parametrize("name", list(PROBLEMS))
def test_first_derivatives_against_differences_on_the_manifold(name, integrator):
    problem = PROBLEMS[name]()
    if integrator == "semi_implicit_euler" and name != "cart-pole":
        # the quadrotor's translational velocity is in the world, its rate is still v: allowed
        INTEGRATORS[integrator].check(problem.phase.system)
    _, t, x, u, h = point(problem, 1)
    stages = stage.build(problem.phase, ILQROptions(integrator=integrator))
    got = read(stages, call(stages.expand, t, x, u, [], h))
    after = call(stages.step, t, x, u, [], h)[0]
    AB = differences(lambda x, u: call(stages.difference, after, call(stages.step, t, x, u, [], h)[0])[0].ravel(), x, u, stages)
    np.testing.assert_allclose(np.hstack([got["A"], got["B"]]), AB, rtol=1e-6, atol=1e-8)
    slope = differences(lambda x, u: call(stages.step, t, x, u, [], h)[1].ravel(), x, u, stages)[0]
    np.testing.assert_allclose(np.r_[got["lx"], got["lu"]], slope, rtol=1e-6, atol=1e-8)


def second_differences(f, x, u, stages, step=2e-4):
    """Hessian of the scalar f along exp: d^2/dd^2 f(x [+] dx, u + du) at 0, off-diagonals by polarisation."""
    n = stages.ndx + stages.nu
    at = {}

    def value(d):
        key = tuple(d)
        if key not in at:
            at[key] = float(f(call(stages.plus, x, d[:stages.ndx])[0].ravel(), u + d[stages.ndx:]))
        return at[key]

    eye, H = step * np.eye(n), np.zeros((n, n))
    for i, j in itertools.combinations_with_replacement(range(n), 2):
        a, b = eye[i], eye[j]
        H[i, j] = H[j, i] = (value(a + b) - value(a - b) - value(b - a) + value(-a - b)) / (4 * step**2)
    return H


def blocks(got):
    return np.block([[got["lxx"], got["lux"].T], [got["lux"], got["luu"]]])


def test_hessian_of_scalar_costs_at_the_knot_is_exact():
    problem = scalar_costs(change(quadrotor(), costs=()))
    _, t, x, u, h = point(problem, 2)
    stages = stage.build(problem.phase, ILQROptions(cost_quadrature="rectangle"))
    got = read(stages, call(stages.expand, t, x, u, [], h))
    H = second_differences(lambda x, u: call(stages.step, t, x, u, [], h)[1][0, 0], x, u, stages)
    np.testing.assert_allclose(blocks(got), H, atol=2e-7)
    slope, bend = call(stages.expand_final, t, x, [])
    F = second_differences(lambda x, u: float(stages.final(t, x, [])), x, u, stages)
    np.testing.assert_allclose(bend, F[:12, :12], atol=2e-7)
    S = differences(lambda x, u: float(stages.final(t, x, [])), x, u, stages)[0]
    np.testing.assert_allclose(slope.ravel(), S[:12], rtol=1e-7, atol=1e-9)


def test_gauss_newton_hessian_of_residuals_is_jtwj():
    problem = quadrotor()
    _, t, x, u, h = point(problem, 3)
    stages = stage.build(problem.phase, ILQROptions(cost_quadrature="rectangle"))
    got = read(stages, call(stages.expand, t, x, u, [], h))
    H = np.zeros((16, 16))
    for cost in problem.phase.costs[:2]:
        J = differences(lambda x, u, cost=cost: call(cost.function, t, x, u, [])[0].ravel(), x, u, stages)
        H += h * J.T @ np.diag(cost.weights) @ J
    np.testing.assert_allclose(blocks(got), H, rtol=1e-6, atol=1e-8)


def test_gauss_newton_hessian_over_the_nodes_of_rk4():
    """The quadrature of J' H J with node positions, their Jacobians and Hessians all by differences."""
    problem = scalar_costs(change(quadrotor(), costs=()))
    cost, system = problem.phase.costs[0], problem.phase.system
    _, t, x, u, h = point(problem, 4)
    stages = stage.build(problem.phase, ILQROptions())
    got = read(stages, call(stages.expand, t, x, u, [], h))
    xs, us = ca.SX.sym("x", 13), ca.SX.sym("u", 4)
    _, nodes = INTEGRATORS["rk4"].advance(system, t, xs, us, ca.SX(0, 1), h)
    H = np.zeros((16, 16))
    for weight, time, expression in nodes:
        node = ca.Function("node", [xs, us], [ca.densify(expression)])
        here = call(node, x, u)[0].ravel()
        J = differences(lambda x, u, node=node, here=here: call(stages.difference, here, call(node, x, u)[0])[0].ravel(),
                        x, u, stages)
        J = np.vstack([J, np.hstack([np.zeros((4, 12)), np.eye(4)])])
        local = second_differences(lambda x, u, time=time: float(cost.function(time, x, u, [])), here, u, stages)
        H += h * weight * J.T @ local @ J
    np.testing.assert_allclose(blocks(got), H, atol=2e-7)


def test_full_hessian_is_that_of_the_lagrangian():
    problem = PROBLEMS["scalar"]()
    rng, t, x, u, h = point(problem, 5)
    costate = rng.normal(size=12)
    stages = stage.build(problem.phase, ILQROptions(hessian="full"))
    after = call(stages.step, t, x, u, [], h)[0]

    def lagrangian(x, u):
        moved, cost = call(stages.step, t, x, u, [], h)
        return cost[0, 0] + costate @ call(stages.difference, after, moved)[0].ravel()

    lxx, luu, lux = (m.T for m in call(stages.curvature, t, x, u, [], h, costate))
    H = np.block([[lxx, lux.T], [lux, luu]])
    np.testing.assert_allclose(H, second_differences(lagrangian, x, u, stages), rtol=1e-4, atol=3e-6)


def test_large_dynamics_stay_calls_and_give_the_same_expansion(monkeypatch):
    problem = PROBLEMS["scalar"]()
    _, t, x, u, h = point(problem, 6)
    inlined = stage.build(problem.phase, ILQROptions())
    monkeypatch.setattr(stage, "INLINE_LIMIT", 0)
    called = stage.build(problem.phase, ILQROptions())
    assert inlined.expand.is_a("SXFunction")
    assert called.expand.is_a("MXFunction")
    for name, args in (("step", (t, x, u, [], h)), ("expand", (t, x, u, [], h)), ("expand_final", (t, x, [])),
                       ("adjoint", (t, x, u, [], h, np.arange(13.0)))):
        for a, b in zip(call(getattr(inlined, name), *args), call(getattr(called, name), *args), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("hessian", ["gauss_newton", "full"])
def test_large_dynamics_are_solved_the_same(monkeypatch, hessian):
    options = ILQROptions(intervals=20, max_iterations=4, kernels="interpreted", hessian=hessian)
    expected = solve(quadrotor(), options)
    monkeypatch.setattr(stage, "INLINE_LIMIT", 0)
    got = solve(quadrotor(), options)
    np.testing.assert_allclose([r["cost"] for r in got.iterations], [r["cost"] for r in expected.iterations], rtol=1e-9)


def expanded(problem, options):
    """The search of a problem, rolled out from its guess and expanded."""
    program, N = prepare(problem, options), options.intervals
    system = program.phase.system
    x = np.tile(program.start, (N + 1, 1))
    u = np.tile(problem.phase.guess.u[0], (N, 1)) + 0.1 * np.random.default_rng(9).normal(size=(N, system.nu))
    search = Search(options, system.space, system.controls, program.calls, program.horizon, loops.Path(x, u, np.zeros(N + 1)),
                    program.rows, ((), ()))
    assert loops.rollout(program.calls["step"], program.calls["final"], program.rows, program.horizon, search.path)[1] == -1
    search._expand()
    return program, search


def test_expansion_by_differences_is_the_exact_one():
    """Off the optimum, where the torsion of the tangent frames would show in an lxx that is not symmetrised."""
    problem = scalar_costs(change(quadrotor(), costs=()))
    options = ILQROptions(intervals=6, cost_quadrature="rectangle")
    (_, exact), (_, got) = (expanded(problem, dataclasses.replace(options, derivatives=d)) for d in ("ad", "fd"))
    for name in ("A", "B", "lx", "lu", "lxx", "luu", "lux"):
        np.testing.assert_allclose(getattr(got.model, name), getattr(exact.model, name), atol=1e-8, err_msg=name)
    np.testing.assert_array_equal(got.model.lxx, np.swapaxes(got.model.lxx, 1, 2))


@pytest.mark.parametrize("name", ["cart-pole", "quadrotor"])
def test_gradient_of_the_total_cost_against_differences(name):
    """At a point that is not optimal: the costates of the sweep, the ambient adjoint, and differences of rollouts agree."""
    problem = PROBLEMS[name]()
    rng = np.random.default_rng(7)
    nu = problem.phase.system.nu
    guess = problem.phase.guess
    wild = dataclasses.replace(guess, s=np.linspace(0, 1, 9), x=np.tile(guess.x[0], (9, 1)),
                               u=guess.u[0] + rng.normal(size=(9, nu)))
    solution = solve(change(problem, guess=wild), ILQROptions(intervals=15, max_iterations=0))
    assert solution.status is Status.ITERATION_LIMIT
    gradient, path, data = discrete_gradient(solution), solution.trajectory, solution.optimality
    for k, i in itertools.product((0, 7, 14), range(nu)):
        ends = []
        for sign in (1e-5, -1e-5):
            u = path.u.copy()
            u[k, i] += sign
            ends.append(total_cost(data.stages, path.t, path.x[0], u, data.h))
        assert gradient[k, i] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-6)
    assert solution.iterations[0]["gradient"] == pytest.approx(np.abs(gradient).max(), rel=1e-9)
    assert data.cost() == pytest.approx(solution.objective, rel=1e-12)
    assert np.abs(data.defects()).max() < 1e-12


# ---- solutions ---------------------------------------------------------------------------------------------------
def test_pendulum_swings_up_within_its_torque_limit():
    solution = solve(pendulum(u_guess=[[1.0], [-1.0], [1.0], [-1.0]]), ILQROptions(intervals=100))
    assert solution.status is Status.CONVERGED, solution.message
    u = solution.trajectory.u
    assert np.abs(u).max() == 2.5  # on the bound, never beyond it
    assert 5 < np.sum(np.abs(u) == 2.5) < 95
    np.testing.assert_allclose(solution.trajectory.x[-1], [np.pi, 0], atol=0.02)
    stationarity, complementarity = solution.optimality.residuals()
    assert stationarity < 2e-8
    assert complementarity < 1e-10
    # where a bound is active the gradient pushes into it
    gradient = discrete_gradient(solution)
    assert np.all(gradient[u == 2.5] <= 1e-8)
    assert np.all(gradient[u == -2.5] >= -1e-8)
    assert np.all(solution.extra["K"][np.abs(u[:, 0]) == 2.5] == 0)


@pytest.fixture(scope="module")
def swung():
    return solve(cart_pole())


def test_cart_pole_swings_up(swung):
    assert swung.status is Status.CONVERGED, swung.message
    np.testing.assert_allclose(swung.trajectory.x[-1], [1, np.pi, 0, 0], atol=0.06)
    assert swung.optimality.residuals()[0] < 2e-8
    # the stiffer the goal, the closer to Kelly's optimum with an exact goal, from below
    assert swung.objective < solve(cart_pole(1e4)).objective < 58.85
    costs = [row["cost"] for row in swung.iterations]
    assert all(b <= a + 1e-12 for a, b in itertools.pairwise(costs))


def test_solution_is_a_minimum_of_the_discrete_cost(swung):
    data, path = swung.optimality, swung.trajectory
    rng = np.random.default_rng(8)
    for _ in range(20):
        u = path.u + 1e-2 * rng.normal(size=path.u.shape)
        assert total_cost(data.stages, path.t, path.x[0], u, data.h) > swung.objective


def test_full_hessian_converges_faster_to_the_same_point(swung):
    full = solve(cart_pole(), ILQROptions(hessian="full"))
    assert full.status is Status.CONVERGED
    assert full.objective == pytest.approx(swung.objective, rel=1e-9)
    assert len(full.iterations) < len(swung.iterations) / 2
    # quadratic: the last gradients shrink far faster than by a constant factor
    last = [row["gradient"] for row in full.iterations[-3:]]
    assert last[2] < 1e-3 * last[1]


def test_finite_differences_reach_the_same_point(swung):
    solution = solve(cart_pole(), ILQROptions(derivatives="fd"))
    assert solution.status is Status.CONVERGED
    assert solution.objective == pytest.approx(swung.objective, rel=1e-8)
    assert solution.iterations[-1] != swung.iterations[-1]


@pytest.mark.parametrize("hessian", ["gauss_newton", "full"])
def test_quadrotor_is_brought_to_hover(hessian):
    solution = solve(quadrotor(), ILQROptions(intervals=60, hessian=hessian))
    assert solution.status is Status.CONVERGED, solution.message
    last = solution.trajectory.x[-1]
    np.testing.assert_allclose(last[:3], [0.5, -0.3, 1.0], atol=0.1)
    assert abs(last[3:7] @ [np.cos(0.4), 0, 0, np.sin(0.4)]) > np.cos(0.03)
    np.testing.assert_allclose(last[7:], 0, atol=0.15)
    assert solution.optimality.residuals()[0] < 2e-8
    np.testing.assert_allclose(np.linalg.norm(solution.trajectory.x[:, 3:7], axis=1), 1, rtol=1e-14)
    assert solution.extra["K"].shape == (60, 4, 12)


def test_quadrotor_by_finite_differences():
    options = ILQROptions(intervals=30)
    exact, by_differences = (solve(quadrotor(), dataclasses.replace(options, derivatives=d)) for d in ("ad", "fd"))
    assert by_differences.status is Status.CONVERGED
    assert by_differences.objective == pytest.approx(exact.objective, rel=1e-8)
    np.testing.assert_allclose(by_differences.trajectory.u, exact.trajectory.u, atol=1e-4)


def test_feedback_gains_beat_open_loop_after_a_push(swung):
    """The stored policy really stabilises: from a pushed start, u + K dx ends closer to the goal than u alone."""
    data, path, K = swung.optimality, swung.trajectory, swung.extra["K"]
    ends = []
    for closed in (False, True):
        x = path.x[0] + np.array([0.02, 0.03, 0, 0])
        for k, u in enumerate(path.u):
            u = u + closed * K[k] @ (x - path.x[k])
            x = call(data.stages.step, path.t[k], x, u, [], data.h)[0].ravel()
        ends.append(np.linalg.norm(x - path.x[-1]))
    assert ends[1] < 0.3 * ends[0]


# ---- trajectories ------------------------------------------------------------------------------------------------
def test_trajectory_follows_the_dynamics_between_knots(swung):
    path, phase = swung.trajectory, swung.problem.phase
    np.testing.assert_array_equal(path.state(path.t), path.x)
    np.testing.assert_array_equal(path.control(path.t_u), path.u)
    middle = (path.t[40] + path.t[41]) / 2
    np.testing.assert_array_equal(path.control(middle), path.u[40])
    exact = solve_ivp(lambda t, x: np.asarray(phase.system.rate(t, x, path.u[40], [])).ravel(), (path.t[40], middle),
                      path.x[40], rtol=1e-11, atol=1e-12).y[:, -1]
    np.testing.assert_allclose(path.state(middle), exact, atol=1e-6)
    assert path.state([0.1, 0.2, 0.3]).shape == (3, 4)
    assert path.control(2.0) == path.u[-1]
    with pytest.raises(ValueError, match="outside"):
        path.state(2.1)


# ---- kernels -----------------------------------------------------------------------------------------------------
@pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")
def test_interpreted_and_compiled_kernels_give_the_same_iterates():
    one, two = (solve(cart_pole(), ILQROptions(kernels=mode, max_iterations=15)) for mode in ("compiled", "interpreted"))
    assert one.notes != two.notes
    for a, b in zip(one.iterations, two.iterations, strict=True):
        for key in ("cost", "gradient", "step"):
            assert a[key] == pytest.approx(b[key], rel=1e-7)
    np.testing.assert_allclose(one.trajectory.x, two.trajectory.x, atol=1e-7)


def test_two_runs_are_equal_to_the_last_bit():
    program = prepare(pendulum(u_guess=[[1.0], [-1.0]]), ILQROptions(intervals=40, max_iterations=30))
    one, two, three = run(program), run(program), solve(program.problem, program.options)
    for other in (two, three):
        assert [dict(r) for r in one.iterations] == [dict(r) for r in other.iterations]
        assert np.array_equal(one.trajectory.u, other.trajectory.u)
        assert np.array_equal(one.extra["K"], other.extra["K"])


@pytest.mark.parametrize("factor", [-1.0, 0.5])
def test_a_wrong_input_matrix_is_noticed(monkeypatch, factor):
    """Poison: B is scaled in the kernel. The true gradient, by the other road, must not vanish at what comes out."""
    right = stage._tangent_jacobians

    def wrong(phase, x, *rest):
        found = right(phase, x, *rest)
        n = phase.system.space.ndx
        return [*found[:-1], ca.horzcat(found[-1][:, :n], factor * found[-1][:, n:])]

    monkeypatch.setattr(stage, "_tangent_jacobians", wrong)
    solution = solve(cart_pole(), ILQROptions(intervals=40, max_iterations=200))
    assert solution.status is not Status.CONVERGED or solution.optimality.residuals()[0] > 1e-4
    assert solution.optimality.residuals()[0] > 1e-4


def test_loops_allocate_nothing_per_knot():
    from numba.core.runtime import _nrt_python, rtsys

    _nrt_python.memsys_enable_stats()
    counts = []
    try:
        for N in (10, 300):
            program, search = expanded(cart_pole(), ILQROptions(intervals=N))
            found = []
            for _ in range(2):  # the first round loads the code
                before = rtsys.get_allocation_stats().alloc
                loops.rollout(program.calls["step"], program.calls["final"], program.rows, program.horizon, search.path)
                search._expand()
                search._sweep()
                search._line_search(-1.0, 0.0, 1e-3, 1e9)
                found.append(rtsys.get_allocation_stats().alloc - before)
            counts.append(found[1])
    finally:
        _nrt_python.memsys_disable_stats()
    assert counts[0] == counts[1]


def test_asking_what_is_supported_does_not_load_numba():
    code = ("import sys; import ocp.shooting.options, ocp.shooting.ilqr; "
            "print(sorted({m.split('.')[0] for m in sys.modules} & {'numba', 'llvmlite'}))")
    root = Path(ilqr.__file__).parents[2]
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert out.stdout.strip() == "[]"


# ---- what cannot be enforced -------------------------------------------------------------------------------------
def held(problem, name, at, build, lower, upper, **more):
    phase = problem.phase
    return Constraint(name, at, function(phase.system.nx, phase.system.nu, build), lower, upper, **more)


def test_each_unenforceable_thing_is_named():
    assert unsupported(cart_pole(u_max=5.0)) == []
    base = cart_pole()
    cases = {
        "constraint 'begin' (start): the fixed start state violates it": change(base, constraints=(
            held(base, "begin", At.START, lambda t, x, u: x[0], (1.0,), (1.0,)),)),
        "free duration between 1 and 3 s": change(base, duration=Duration(1.0, 3.0, 2.0)),
        "free start state q1 (a rollout needs every component of it)":
            change(base, start=Boundary((0.0,) * 4, (False, True, True, True))),
        "free start state (a rollout needs every component of it)": change(base, start=None),
        "2 phases ('move', 'move'); one phase only": dataclasses.replace(base, phases=base.phases * 2),
        "soft second-order cone 'cone' (only components between bounds can be soft)": change(base, constraints=(
            held(base, "cone", At.PATH, lambda t, x, u: x[:2], (0.0,) * 2, (INF,) * 2, sense=Sense.CONE, soft=1.0),)),
    }
    for sentence, problem in cases.items():
        assert unsupported(problem) == [sentence]
        with pytest.raises(UnsupportedError) as caught:
            solve(problem)
        assert sentence in str(caught.value)
    met = change(base, constraints=(held(base, "begin", At.START, lambda t, x, u: x[0], (0.0,), (0.0,)),))
    assert unsupported(met) == []


def test_soft_constraints_are_penalties():
    problem = double_integrator()
    soft = held(problem, "slow", At.PATH, lambda t, x, u: ca.vertcat(x[1], x[0]), (-0.6, -INF), (INF, 0.9), soft=1e4)
    target = held(problem, "stop", At.FINAL, lambda t, x, u: x[1], (0.0,), (0.0,), soft=1e5)
    limited = change(problem, constraints=(soft, target))
    assert unsupported(limited) == []
    free, held_back = solve(problem), solve(limited, ILQROptions(hessian="full"))
    assert held_back.status is Status.CONVERGED, held_back.message
    assert free.trajectory.x[:, 1].min() < -0.65
    assert held_back.trajectory.x[:, 1].min() > -0.605
    assert abs(held_back.trajectory.x[-1, 1]) < 1e-3 < abs(free.trajectory.x[-1, 1])
    # the penalty itself, written out: 1/2 soft viol^2, integrated and at the end
    stages = held_back.optimality.stages
    plain = stage.build(problem.phase, ILQROptions(cost_quadrature="rectangle"))
    both = stage.build(limited.phase, ILQROptions(cost_quadrature="rectangle"))
    x = np.array([1.2, -0.9])
    extra = float(both.step(0, x, 0, [], 0.1)[1] - plain.step(0, x, 0, [], 0.1)[1])
    assert extra == pytest.approx(0.1 * 0.5 * 1e4 * (0.3**2 + 0.3**2), rel=1e-12)
    assert float(stages.final(0, x, []) - plain.final(0, x, [])) == pytest.approx(0.5 * 1e5 * 0.81, rel=1e-12)


# ---- things that go wrong ----------------------------------------------------------------------------------------
def scalar(rate, start=1.0, duration=2.0, running=lambda t, x, u: x**2 + u**2, **more):
    return make("scalar", euclidean(("level",)), ("pump",), rate, (start,), duration,
                running=[("cost", running, None)], **more)


def test_nan_of_the_dynamics_is_located():
    solution = solve(scalar(lambda t, x, u: -ca.sqrt(x - 0.5) - 0.1 + u), ILQROptions(intervals=20, integrator="euler"))
    assert solution.status is Status.NOT_A_NUMBER
    assert "'level' becomes nan" in solution.message
    assert "t = " in solution.message
    assert not np.isfinite(solution.objective)


def test_nan_of_the_cost_and_of_derivatives_are_told_apart():
    solution = solve(scalar(lambda t, x, u: u, running=lambda t, x, u: ca.log(x - 2)), ILQROptions(intervals=5))
    assert solution.status is Status.NOT_A_NUMBER
    assert "running cost is nan" in solution.message
    solution = solve(scalar(lambda t, x, u: u, start=0.0, running=lambda t, x, u: ca.sqrt(x) + u**2), ILQROptions(intervals=5))
    assert solution.status is Status.NOT_A_NUMBER
    assert "the derivative lx of the cost" in solution.message
    assert "'level'" in solution.message
    solution = solve(scalar(lambda t, x, u: u, final=[("end", lambda t, x, u: ca.log(x - 5), None)]), ILQROptions(intervals=5))
    assert "the final cost is nan" in solution.message


def test_an_exploding_guess_is_reported_as_divergence():
    solution = solve(scalar(lambda t, x, u: x**3 + u, start=3.0), ILQROptions(intervals=50))
    assert solution.status is Status.DIVERGED
    assert "'level'" in solution.message


def test_diverging_trial_steps_are_survived():
    """x' = x^3 + u explodes for moderately wrong controls; the search must back off instead of failing."""
    solution = solve(scalar(lambda t, x, u: x**3 + u, start=0.9, duration=1.5, u_guess=[[-1.0], [-1.0]],
                            final=[("end", lambda t, x, u: x - 1.5, (1000.0,))]), ILQROptions(intervals=60))
    assert solution.status is Status.CONVERGED, solution.message
    assert solution.trajectory.x[-1, 0] == pytest.approx(1.5, abs=0.02)


def test_interrupt_hands_back_the_best_iterate():
    seen = []

    def progress(row):
        seen.append(row)
        if len(seen) == 6:
            raise KeyboardInterrupt

    solution = solve(cart_pole(), ILQROptions(), progress)
    assert solution.status is Status.INTERRUPTED
    assert [dict(r) for r in seen] == [dict(r) for r in solution.iterations]
    assert solution.objective == seen[-1]["cost"] == min(r["cost"] for r in seen)
    assert solution.optimality.cost() == pytest.approx(solution.objective, rel=1e-12)
    assert "K" not in solution.extra  # the last sweep belonged to the iterate before


def test_iteration_limit_and_a_stationary_guess():
    solution = solve(cart_pole(), ILQROptions(max_iterations=3))
    assert solution.status is Status.ITERATION_LIMIT
    assert [r["iteration"] for r in solution.iterations] == [0, 1, 2, 3]
    resting = make("rest", euclidean(("q",)), ("u",), lambda t, x, u: u, (0.0,), 1.0,
                   running=[("all", lambda t, x, u: ca.vertcat(x, u), (1.0, 1.0))])
    solution = solve(resting)
    assert solution.status is Status.CONVERGED
    assert any("stationary" in note for note in solution.notes)


def test_a_cost_without_curvature_stalls_in_words():
    solution = solve(scalar(lambda t, x, u: u, running=lambda t, x, u: -u**2 + x), ILQROptions(intervals=5))
    assert solution.status in (Status.STALLED, Status.DIVERGED, Status.ITERATION_LIMIT)
    assert solution.message
    bounded = solve(scalar(lambda t, x, u: u, running=lambda t, x, u: x, u_max=1.0), ILQROptions(intervals=5))
    np.testing.assert_allclose(bounded.trajectory.u, -1.0)  # linear: bang, once regularised


def test_wrong_input_is_refused():
    problem = cart_pole()
    with pytest.raises(ProblemError, match="'bad'.*depends on the control"):
        solve(add_cost(problem, "bad", At.FINAL, lambda t, x, u: u**2))
    with pytest.raises(ProblemError, match="closed-form derivatives exist for the forward dynamics of a robot only"):
        solve(problem, ILQROptions(derivatives="analytic"))
    with pytest.raises(ProblemError, match="did you mean 'rk4'"):
        ILQROptions(integrator="rk45")
    for bad in ({"intervals": 0}, {"intervals": 2.5}, {"tolerance": 0.0}, {"tolerance": float("nan")}, {"armijo": 1.0},
                {"regularisation": -1.0}, {"hessian": "newton"}, {"max_iterations": True}):
        with pytest.raises(ProblemError):
            ILQROptions(**bad)
    body = quadrotor()
    crooked = (*body.phase.start.value[:3], 1.0, 0.5, 0.0, 0.0, *body.phase.start.value[7:])
    with pytest.raises(ProblemError, match="quaternion of the start state has length 1.118"):
        solve(change(body, start=Boundary(crooked, (True,) * 12)))


def test_costs_at_the_start_count_and_a_clipped_guess_is_noted():
    problem = double_integrator(u_max=0.3, u_guess=[[1.0], [-0.1]])
    plain = solve(problem)
    shifted = solve(add_cost(problem, "offset", At.START, lambda t, x, u: 7 * x[0]))
    assert shifted.objective == pytest.approx(plain.objective + 7.0, rel=1e-12)
    assert any("'a' was moved into its bounds" in note for note in plain.notes)
    assert np.abs(plain.trajectory.u).max() == 0.3
