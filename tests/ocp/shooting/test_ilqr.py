"""iLQR by independent roads: closed forms, plain NumPy rollouts, differences of the total cost, what the solution promises."""

import dataclasses
import itertools

import casadi as ca
import numpy as np
import pytest
from direct_problems import with_phase
from plain_shooting import flat, of_solution, rollout, step
from scipy.integrate import quad, solve_ivp
from shooting_problems import cart_pole, double_integrator, function, make, pendulum, quadrotor

from ocp.errors import ProblemError, UnsupportedError
from ocp.methods import make_options
from ocp.problem import INF, At, Boundary, Constraint, Cost, Finding, Kind, Sense, Status
from ocp.shooting.ilqr import ILQROptions, prepare, run, solve, unsupported
from ocp.spaces import euclidean


def add_cost(problem, name, at, build, weights=None):
    phase = problem.phase
    cost = Cost(name, at, function(phase.system.nx, phase.system.nu, build), weights)
    return with_phase(problem, costs=(*phase.costs, cost))


# ---- linear-quadratic problems: the answer is known --------------------------------------------------------------
@pytest.mark.parametrize("shooting", ["single", "open", "feasible", "multiple"])
def test_lqr_takes_one_iteration_and_has_the_riccati_cost(shooting):
    N, h = 50, 2.0 / 50
    options = ILQROptions(intervals=N, integrator="euler", cost_quadrature="rectangle", shooting=shooting)
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
    np.testing.assert_allclose(solution.extra["Vxx"][0], P, rtol=1e-9)
    np.testing.assert_allclose(solution.extra["costate"][0], P @ x0 + r, rtol=1e-9)


def test_another_run_leaves_a_solution_alone():
    program = prepare(pendulum(), ILQROptions(intervals=20))
    first = run(program)
    kept = {name: value.copy() for name, value in first.extra.items()}
    guess = program.problem.phase.guess
    second = run(program, guess=dataclasses.replace(guess, u=guess.u + 0.3))
    for name, value in kept.items():
        np.testing.assert_array_equal(first.extra[name], value)
        assert not np.array_equal(second.extra[name], value)  # by rounding at least


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


# ---- the discrete problem as a whole -----------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["cart-pole", "quadrotor"])
def test_gradient_of_the_total_cost_against_differences(name):
    """At a point that is not optimal: the costates of the sweep, the ambient adjoint, and differences of rollouts agree."""
    problem = {"cart-pole": cart_pole, "quadrotor": quadrotor}[name]()
    rng = np.random.default_rng(7)
    nu, guess = problem.phase.system.nu, problem.phase.guess
    wild = dataclasses.replace(guess, s=np.linspace(0, 1, 9), x=np.tile(guess.x[0], (9, 1)),
                               u=guess.u[0] + rng.normal(size=(9, nu)))
    solution = solve(with_phase(problem, guess=wild), ILQROptions(intervals=15, max_iterations=0))
    assert solution.status is Status.ITERATION_LIMIT
    gradient, path, data = solution.optimality.gradient(), solution.trajectory, solution.optimality
    for k, i in itertools.product((0, 7, 14), range(nu)):
        ends = []
        for sign in (1e-5, -1e-5):
            u = path.u.copy()
            u[k, i] += sign
            ends.append(rollout(problem, path.x[0], [u]).cost)
        assert gradient[k, i] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-6)
    assert solution.iterations[0]["gradient"] == pytest.approx(np.abs(gradient).max(), rel=1e-9)
    assert data.cost() == pytest.approx(solution.objective, rel=1e-12)
    assert of_solution(solution).cost == pytest.approx(solution.objective, rel=1e-12)
    assert max(np.abs(defect).max() for defect in data.defects()) < 1e-12


# ---- solutions ---------------------------------------------------------------------------------------------------
def test_pendulum_swings_up_within_its_torque_limit():
    solution = solve(pendulum(u_guess=[[1.0], [-1.0], [1.0], [-1.0]]), ILQROptions(intervals=100))
    assert solution.status is Status.CONVERGED, solution.ending
    u = solution.trajectory.u
    assert np.abs(u).max() == 2.5  # on the bound, never beyond it
    assert 5 < np.sum(np.abs(u) == 2.5) < 95
    np.testing.assert_allclose(solution.trajectory.x[-1], [np.pi, 0], atol=0.02)
    stationarity, complementarity = solution.optimality.residuals()
    assert stationarity < 2e-8
    assert complementarity < 1e-10
    # where a bound is active the gradient pushes into it
    gradient = solution.optimality.gradient()
    assert np.all(gradient[u == 2.5] <= 1e-8)
    assert np.all(gradient[u == -2.5] >= -1e-8)
    assert np.all(solution.extra["K"][np.abs(u[:, 0]) == 2.5] == 0)


@pytest.fixture(scope="module")
def swung():
    return solve(cart_pole(), ILQROptions(hessian="gauss_newton"))


def test_cart_pole_swings_up(swung):
    assert swung.status is Status.CONVERGED, swung.ending
    np.testing.assert_allclose(swung.trajectory.x[-1], [1, np.pi, 0, 0], atol=0.06)
    assert swung.optimality.residuals()[0] < 2e-8
    # the stiffer the goal, the closer to Kelly's optimum with an exact goal, from below
    assert swung.objective < solve(cart_pole(1e4)).objective < 58.85
    costs = [row["cost"] for row in swung.iterations]
    assert all(b <= a + 1e-12 for a, b in itertools.pairwise(costs))


def test_finite_differences_reach_the_same_point(swung):
    solution = solve(cart_pole(), ILQROptions(derivatives="fd", hessian="gauss_newton"))
    assert solution.status is Status.CONVERGED
    assert solution.objective == pytest.approx(swung.objective, rel=1e-8)
    assert solution.iterations[-1] != swung.iterations[-1]


@pytest.mark.parametrize("hessian", ["gauss_newton", "full"])
def test_quadrotor_is_brought_to_hover(hessian):
    solution = solve(quadrotor(), ILQROptions(intervals=60, hessian=hessian))
    assert solution.status is Status.CONVERGED, solution.ending
    last = solution.trajectory.x[-1]
    np.testing.assert_allclose(last[:3], [0.5, -0.3, 1.0], atol=0.1)
    assert abs(last[3:7] @ [np.cos(0.4), 0, 0, np.sin(0.4)]) > np.cos(0.03)
    np.testing.assert_allclose(last[7:], 0, atol=0.15)
    assert solution.optimality.residuals()[0] < 2e-8
    np.testing.assert_allclose(np.linalg.norm(solution.trajectory.x[:, 3:7], axis=1), 1, rtol=1e-14)
    assert solution.extra["K"].shape == (60, 4, 12)


def test_feedback_gains_beat_open_loop_after_a_push(swung):
    """The stored policy really stabilises: from a pushed start, u + K dx ends closer to the goal than u alone."""
    path, K, phase = swung.trajectory, swung.extra["K"], swung.problem.phase
    ends = []
    for closed in (False, True):
        x = path.x[0] + np.array([0.02, 0.03, 0, 0])
        for k, u in enumerate(path.u):
            u = u + closed * K[k] @ (x - path.x[k])
            x, _ = step(phase, "rk4", False, path.t[k], x, u, [], path.t[1])
        ends.append(np.linalg.norm(x - path.x[-1]))
    assert ends[1] < 0.3 * ends[0]


def test_costs_at_the_start_count_and_a_clipped_guess_is_noted():
    problem = double_integrator(u_max=0.3, u_guess=[[1.0], [-0.1]])
    plain = solve(problem)
    shifted = solve(add_cost(problem, "offset", At.START, lambda t, x, u: 7 * x[0]))
    assert shifted.objective == pytest.approx(plain.objective + 7.0, rel=1e-12)
    assert Finding(Kind.GUESS_MOVED_INTO_BOUNDS, data={"controls": ("a",)}) in plain.findings
    assert np.abs(plain.trajectory.u).max() == 0.3


# ---- trajectories ------------------------------------------------------------------------------------------------
def test_trajectory_follows_the_dynamics_between_knots(swung):
    path, phase = swung.trajectory, swung.problem.phase
    np.testing.assert_array_equal(path.state(path.t), path.x)
    np.testing.assert_array_equal(path.control(path.t_u), path.u)
    middle = (path.t[40] + path.t[41]) / 2
    np.testing.assert_array_equal(path.control(middle), path.u[40])
    exact = solve_ivp(lambda t, x: flat(phase.system.rate(t, x, path.u[40], [])), (path.t[40], middle), path.x[40], rtol=1e-11,
                      atol=1e-12).y[:, -1]
    np.testing.assert_allclose(path.state(middle), exact, atol=1e-6)
    assert path.state([0.1, 0.2, 0.3]).shape == (3, 4)
    assert path.control(2.0) == path.u[-1]
    with pytest.raises(ValueError, match="outside"):
        path.state(2.1)


# ---- what cannot be enforced, and what is soft -------------------------------------------------------------------
def held(problem, name, at, build, lower, upper, **more):
    phase = problem.phase
    return Constraint(name, at, function(phase.system.nx, phase.system.nu, build), lower, upper, **more)


def test_each_unenforceable_thing_is_named():
    assert unsupported(cart_pole(u_max=5.0)) == []
    base = cart_pole()
    cases = {
        "constraint 'begin' (start): the fixed start state violates it": with_phase(base, constraints=(
            held(base, "begin", At.START, lambda t, x, u: x[0], (1.0,), (1.0,)),)),
        "soft second-order cone 'cone' (only components between bounds can be soft)": with_phase(base, constraints=(
            held(base, "cone", At.PATH, lambda t, x, u: x[:2], (0.0,) * 2, (INF,) * 2, sense=Sense.CONE, soft=1.0),)),
    }
    for sentence, problem in cases.items():
        assert unsupported(problem) == [sentence]
        with pytest.raises(UnsupportedError) as caught:
            solve(problem)
        assert sentence in str(caught.value)
    met = with_phase(base, constraints=(held(base, "begin", At.START, lambda t, x, u: x[0], (0.0,), (0.0,)),))
    assert unsupported(met) == []


def test_soft_constraints_are_penalties():
    problem = double_integrator()
    soft = held(problem, "slow", At.PATH, lambda t, x, u: ca.vertcat(x[1], x[0]), (-0.6, -INF), (INF, 0.9), soft=1e4)
    target = held(problem, "stop", At.FINAL, lambda t, x, u: x[1], (0.0,), (0.0,), soft=1e5)
    limited = with_phase(problem, constraints=(soft, target))
    assert unsupported(limited) == []
    free, held_back = solve(problem), solve(limited, ILQROptions(hessian="full", cost_quadrature="rectangle"))
    assert held_back.status is Status.CONVERGED, held_back.ending
    assert free.trajectory.x[:, 1].min() < -0.65
    assert held_back.trajectory.x[:, 1].min() > -0.605
    assert abs(held_back.trajectory.x[-1, 1]) < 1e-3 < abs(free.trajectory.x[-1, 1])
    # the penalty itself, written out: 1/2 soft viol^2, integrated and at the end
    motion, x = of_solution(held_back), held_back.trajectory.x
    excess = np.maximum(0, -0.6 - x[:-1, 1])**2 + np.maximum(0, x[:-1, 0] - 0.9)**2
    expected = motion.cost + 0.02 * 0.5 * 1e4 * excess.sum() + 0.5 * 1e5 * x[-1, 1]**2
    assert held_back.objective == pytest.approx(expected, rel=1e-12)
    assert expected - motion.cost > 1e-2


def test_wrong_input_is_refused():
    problem = cart_pole()
    with pytest.raises(ProblemError, match="'bad'.*depends on the control"):
        solve(add_cost(problem, "bad", At.FINAL, lambda t, x, u: u**2))
    with pytest.raises(ProblemError, match="closed-form derivatives exist for the dynamics of a robot only"):
        solve(problem, ILQROptions(derivatives="analytic"))
    with pytest.raises(ProblemError, match="did you mean 'rk4'"):
        ILQROptions(integrator="rk45")
    with pytest.raises(ProblemError, match="shooting named 'multi'"):
        ILQROptions(shooting="multi")
    for bad in ({"intervals": 0}, {"intervals": 2.5}, {"tolerance": 0.0}, {"tolerance": float("nan")}, {"armijo": 1.0},
                {"regularisation": -1.0}, {"hessian": "newton"}, {"max_iterations": True}, {"threads": 0}, {"gap_tolerance": 0.0},
                {"globalisation": "trust"}, {"convexify": ""}):
        with pytest.raises(ProblemError):
            make_options("ilqr", bad)
    body = quadrotor()
    crooked = (*body.phase.start.value[:3], 1.0, 0.5, 0.0, 0.0, *body.phase.start.value[7:])
    with pytest.raises(ProblemError, match="start quaternion .* has length 1.118"):
        solve(with_phase(body, start=Boundary(crooked, (True,) * 12)))
