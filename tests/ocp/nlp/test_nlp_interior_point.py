"""The interior-point method in compiled loops: closed forms, published optima, IPOPT as another road, and when things go wrong."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import casadi as ca
import numpy as np
import pytest
from nlp_programs import program, staged, with_functions
from repository import ROOT
from scipy.optimize import linprog

from ocp.app.files.load import load_problem
from ocp.certify import certify
from ocp.errors import ProblemError
from ocp.methods import solve as solve_problem
from ocp.nlp import SolverOptions, kkt, prepare_solver, solve_nlp
from ocp.nlp.interior_point import prepare
from ocp.nlp.result import Warm
from ocp.problem import Finding, Kind, Status
from ocp.transcription.collocation import CollocationOptions, transcribe
from ocp.transcription.multiple_shooting import MultipleShootingOptions
from ocp.transcription.multiple_shooting import transcribe as shooting

INF = np.inf
FOLDER = ROOT / "problems"
OURS = SolverOptions(solver="interior_point", max_iterations=300)
IPOPT = replace(OURS, solver="ipopt")


def rosenbrock(x):
    return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2


def residuals(nlp, found):
    return kkt(nlp, found.x, found.lam_x, found.lam_g)


def optimal(nlp, found, close=1e-8):
    """Converged, and so say the program's own functions."""
    own = residuals(nlp, found)
    bounds = np.abs(np.r_[nlp.x_lower, nlp.x_upper, nlp.g_lower, nlp.g_upper])
    violation = 2e-9 * max(1.0, np.max(bounds[np.isfinite(bounds)], initial=0.0))
    assert found.status is Status.CONVERGED, found.ending
    assert found.ending is None
    assert own.stationarity <= close
    assert own.complementarity <= 10 * close
    assert own.largest_violation <= violation
    assert float(nlp.f(found.x)) == pytest.approx(found.f, rel=1e-13, abs=1e-13)


def steps(found):
    return len(found.iterations) - 1


# ---- problems of optimal control ----
@cache
def gallery(name, intervals=20, **options):
    problem = load_problem(FOLDER / f"{name}.yaml").problem
    return transcribe(problem, CollocationOptions(intervals=intervals, **options)).nlp


GALLERY = {
    "bouncing_ball": {}, "van_der_pol_periodic": {}, "gear_ratio": {}, "bryson_denham": {"intervals": 30}, "planar_quadrotor": {},
    "hypersensitive": {"intervals": 50}, "van_der_pol_limited": {}, "rayleigh": {"form": "compressed"}, "brachistochrone": {},
    "block_move": {"scheme": "radau"}, "goddard_rocket": {}, "robot_arm_min_time": {"scheme": "trapezoid"}, "container_crane": {},
    "two_burn_orbit_raise": {"intervals": 8}, "quadrotor": {"states": "tangent"},
}


@pytest.mark.parametrize("name", GALLERY)
@pytest.mark.sample(3)
def test_as_ipopt_on_the_gallery(name):
    nlp = gallery(name, **{"intervals": 20, **GALLERY[name]})
    ours, other = solve_nlp(nlp, OURS), solve_nlp(nlp, IPOPT)
    optimal(nlp, ours)
    assert other.status is Status.CONVERGED
    assert ours.f == pytest.approx(other.f, rel=1e-7, abs=1e-8)
    assert abs(steps(ours) - steps(other)) <= max(3, 0.15 * steps(other))
    for one, two in ((ours.x, other.x), (ours.lam_g, other.lam_g), (ours.lam_x, other.lam_x)):
        np.testing.assert_allclose(one, two, atol=1e-4 * (1.0 + np.abs(two).max(initial=0.0)))
    assert {"solver", "functions"} <= set(ours.seconds)
    assert 0 <= ours.seconds["functions"] <= ours.seconds["solver"]


def test_a_robot_in_space():
    """No unique optimum: IPOPT finds another one of the same problem."""
    nlp = gallery("space_robot")
    optimal(nlp, solve_nlp(nlp, OURS))


def doubled(nlp):
    """The program with all its equations once more, in other units."""
    rows = np.flatnonzero(nlp.g_lower == nlp.g_upper)
    names = (*nlp.constraints, *(f"again {nlp.constraints[i]}" for i in rows))
    x, sigma, lam = ca.MX.sym("x", nlp.n), ca.MX.sym("sigma"), ca.MX.sym("lam", nlp.m + len(rows))
    factor = ca.DM.eye(nlp.m)
    spread = ca.vertcat(factor, 2 * factor[rows.tolist(), :])
    (g, J) = nlp.jac(x)
    more = {"g": ca.Function("g", [x], [ca.mtimes(spread, g)]), "jac": ca.Function("J", [x], [ca.mtimes(spread, g),
                                                                                          ca.mtimes(spread, J)]),
            "hess": ca.Function("H", [x, sigma, lam], [nlp.hess(x, sigma, ca.mtimes(spread.T, lam))])}
    return replace(with_functions(nlp, **more), constraints=names, g_lower=np.r_[nlp.g_lower, 2 * nlp.g_lower[rows]],
                   g_upper=np.r_[nlp.g_upper, 2 * nlp.g_upper[rows]])


@pytest.mark.parametrize("name", ["bryson_denham", "van_der_pol_limited", "planar_quadrotor"])
def test_rows_that_depend_on_each_other(name):
    """Every equation twice: the same optimum, and multipliers that add up to those of the single ones."""
    nlp = gallery(name, intervals=10)
    once, twin = solve_nlp(nlp, OURS), doubled(nlp)
    twice = solve_nlp(twin, OURS)
    optimal(twin, twice)
    assert twice.f == pytest.approx(once.f, rel=1e-8)
    rows = np.flatnonzero(nlp.g_lower == nlp.g_upper)
    total = twice.lam_g[:nlp.m].copy()
    total[rows] += 2 * twice.lam_g[nlp.m:]
    np.testing.assert_allclose(total, once.lam_g, atol=1e-5 * (1 + np.abs(once.lam_g).max()))
    assert steps(twice) <= 2 * steps(once) + 5


def test_large_bounds_hold_to_the_tolerance():
    nlp = gallery("cannonball")
    assert residuals(nlp, solve_nlp(nlp, IPOPT)).largest_violation < 1e-9
    assert residuals(nlp, solve_nlp(nlp, OURS)).largest_violation < 1e-8


@pytest.mark.parametrize("integrator", ["rk4", "gauss_legendre_1"])
def test_multiple_shooting(integrator):
    problem = load_problem(FOLDER / "cartpole_swingup.yaml").problem
    nlp = shooting(problem, MultipleShootingOptions(intervals=20, integrator=integrator)).nlp
    ours, other = solve_nlp(nlp, OURS), solve_nlp(nlp, IPOPT)
    optimal(nlp, ours)
    assert ours.f == pytest.approx(other.f, rel=1e-7)


@pytest.mark.slow
def test_elements_that_leave_compiled_code():
    """Loops over the model run through Python; generated code gives the same optimum in the same iterations."""
    options = {"derivatives": "analytic", "intervals": 4}
    loops, generated = (gallery("acrobot", execution=way, **options) for way in ("loops", "generated"))
    assert any(e.batched for e in loops.separable.elements)
    one, two = (solve_nlp(nlp, replace(OURS, max_iterations=1)) for nlp in (loops, generated))
    assert steps(one) == steps(two) == 1
    np.testing.assert_allclose(one.x, two.x, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("steep", [1.0, 1e4])
def test_room_for_the_factors_grows(steep, monkeypatch):
    """Too little room at first costs another try, and changes nothing else; steep: rows are scaled at the start."""
    def small(order, size, spare=0.05):
        rooms.append(spare)
        return room(order, size, spare / 16)

    nlp = program(30, lambda x: ca.sumsqr(x - 3), lambda x: [steep * x[i] * x[i + 1] for i in range(29)], np.ones(30),
                  g_bounds=(steep, 2 * steep))
    rooms, plain = [], solve_nlp(nlp, OURS)
    room = prepare.workspace
    monkeypatch.setattr(prepare, "workspace", small)
    found = solve_nlp(nlp, OURS)
    assert len(rooms) > 1
    optimal(nlp, found)
    np.testing.assert_allclose(found.x, plain.x, rtol=1e-9)


def test_several_starts_from_one_solver_and_identical_bits():
    nlp = gallery("planar_quadrotor")
    solver = prepare_solver(nlp, OURS)
    first = solver.solve()
    away = solver.solve(x0=nlp.x0 + 0.1 * np.random.default_rng(0).normal(size=nlp.n))
    second, fresh = solver.solve(), prepare_solver(nlp, OURS).solve()
    assert away.f == pytest.approx(first.f, rel=1e-7)
    assert not np.array_equal(first.x, away.x)
    for again in (second, fresh):
        for name in ("x", "lam_x", "lam_g"):
            np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
        assert first.iterations == again.iterations
        assert (first.f, first.mu, first.n_evaluations) == (again.f, again.mu, again.n_evaluations)


@pytest.mark.parametrize(("name", "most"), [("bryson_denham", 0), ("van_der_pol_limited", 0), ("bouncing_ball", 0),
                                           ("container_crane", 1)])
def test_warm_starts(name, most):
    """An optimum with its multipliers is one at once, unless it is moved off its bounds; from IPOPT's it is not far."""
    nlp = gallery(name)
    solver = prepare_solver(nlp, OURS)
    ours, other = solver.solve(), solve_nlp(nlp, IPOPT)
    for found in (ours, other):
        again = solver.solve(warm=Warm(found.x, found.lam_x, found.lam_g, found.mu))
        optimal(nlp, again)
        assert steps(again) <= (most if found is ours else 2)
        np.testing.assert_allclose(again.x, ours.x, atol=1e-5 * (1 + np.abs(ours.x).max()))
    assert steps(ours) > 6


@pytest.mark.parametrize("name", ["bryson_denham", "bouncing_ball"])
@pytest.mark.parametrize("mu", [1e-3, 1.0])
def test_a_solution_is_one_whatever_the_barrier(name, mu):
    """The barrier begins in proportion to the optimality error, at most where it is asked to: no iteration at a solution, few from
    a point beside one, whose error is not that of the tolerance."""
    nlp = gallery(name)
    found = solve_nlp(nlp, OURS)
    again = solve_nlp(nlp, OURS, warm=Warm(found.x, found.lam_x, found.lam_g, mu))
    assert steps(again) == 0
    np.testing.assert_allclose(again.x, found.x, atol=1e-9 * (1 + np.abs(found.x).max()))
    beside = solve_nlp(nlp, OURS, warm=Warm(found.x + 1e-6, found.lam_x, found.lam_g, mu))
    optimal(nlp, beside)
    assert steps(beside) <= 5 < steps(found)
    assert beside.iterations[0]["mu"] < 1e-4


def test_a_warm_start_of_a_neighbour():
    """Another mass of the same problem: half the iterations."""
    nlp = gallery("van_der_pol_limited")
    before = solve_nlp(nlp, OURS)
    held = np.flatnonzero((nlp.x_lower == nlp.x_upper) & (nlp.x_lower != 0))
    lower, upper = nlp.x_lower.copy(), nlp.x_upper.copy()
    assert len(held)
    lower[held] = upper[held] = 1.01 * lower[held]
    other = replace(nlp, x_lower=lower, x_upper=upper)
    cold = solve_nlp(other, OURS)
    warm = solve_nlp(other, OURS, warm=Warm(before.x, before.lam_x, before.lam_g, 1e-5))
    optimal(other, warm)
    assert warm.f == pytest.approx(cold.f, rel=1e-8)
    assert steps(warm) < steps(cold)


# ---- through the methods ----
@pytest.mark.parametrize(("name", "options"), [
    ("bryson_denham", {}), ("bouncing_ball", {"form": "compressed"}),
    pytest.param("quadrotor", {"states": "tangent", "intervals": 15}, marks=pytest.mark.slow),
    ("van_der_pol", {"scheme": "lobatto", "hessian": "gauss_newton", "scaling": "auto"}),
    ("van_der_pol", {"scheme": "radau", "refine": "hp", "intervals": 6, "tolerance_mesh": 1e-5}),
], ids=str)
@pytest.mark.sample(2)
def test_with_a_certificate(name, options):
    problem = load_problem(FOLDER / f"{name}.yaml").problem
    found = {}
    for solver in ("interior_point", "ipopt"):
        taken = CollocationOptions(**{"intervals": 20, **options}, solver=solver)
        found[solver] = certify(solve_problem(problem, "collocation", taken))
    ours, other = found.values()
    assert ours.status is Status.CONVERGED
    assert ours.objective == pytest.approx(other.objective, rel=1e-6)
    assert ours.certificate is not None
    assert ours.certificate.holds == other.certificate.holds


# ---- programs by hand ----
def quadratic(seed, n=8, m=5, equations=3):
    """(program, x, multipliers) of a quadratic program with equations, in closed form."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, n))
    Q, c, A, b = root @ root.T + np.eye(n), rng.normal(size=n), rng.normal(size=(equations, n)), rng.normal(size=equations)
    K = np.block([[Q, A.T], [A, np.zeros((equations, equations))]])
    solution = np.linalg.solve(K, np.r_[-c, b])
    nlp = program(n, lambda x: ca.mtimes(x.T, ca.mtimes(ca.DM(Q), x)) / 2 + ca.dot(ca.DM(c), x),
                  lambda x: [ca.mtimes(ca.DM(A), x)], np.zeros(n), g_bounds=(b, b), rows=[f"row {i}" for i in range(equations)])
    return nlp, solution[:n], solution[n:]


@pytest.mark.parametrize("seed", range(3))
def test_an_equality_program_is_one_step(seed):
    nlp, x, lam = quadratic(seed)
    found = solve_nlp(nlp, OURS)
    optimal(nlp, found)
    assert steps(found) == 1
    np.testing.assert_allclose(found.x, x, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found.lam_g, lam, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("linear", [True, False])
def test_random_convex_programs(linear):
    """Inequalities, equations, bounds; residuals prove optima of convex programs, and linear ones have SciPy's value."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n, m = int(rng.integers(2, 15)), int(rng.integers(1, 12))
        root, c, A, inside = rng.normal(size=(n, n // 2)), rng.normal(size=n), rng.normal(size=(m, n)), rng.normal(size=n)
        Q, kind = root @ root.T * (not linear), rng.integers(0, 3, m)
        kind[n - 1:] = np.maximum(kind[n - 1:], 1)  # fewer equations than unknowns
        low, high = A @ inside - rng.exponential(size=m), A @ inside + rng.exponential(size=m)
        low, high = np.where(kind == 0, A @ inside, low), np.where(kind == 0, A @ inside, np.where(kind == 1, high, INF))
        box = inside - rng.exponential(size=n), inside + rng.exponential(size=n)
        nlp = program(n, lambda x: ca.dot(x, ca.mtimes(ca.DM(Q), x)) / 2 + ca.dot(ca.DM(c), x),  # noqa: B023
                      lambda x: [ca.mtimes(ca.DM(A), x)], np.zeros(n), x_bounds=box, g_bounds=(low, high))  # noqa: B023
        found = solve_nlp(nlp, OURS)
        optimal(nlp, found)
        if linear:
            limited = np.isfinite(high)
            known = linprog(c, np.r_[-A, A[limited]], np.r_[-low, high[limited]], bounds=np.c_[box])
            assert known.status == 0
            assert found.f == pytest.approx(known.fun, abs=1e-6)


def test_hock_schittkowski_71():
    nlp = program(4, lambda x: x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2], lambda x: [x[0] * x[1] * x[2] * x[3], ca.sumsqr(x)],
                  [1, 5, 5, 1], x_bounds=(1, 5), g_bounds=np.array([[25, 40], [INF, 40]]))
    found = solve_nlp(nlp, OURS)
    optimal(nlp, found)
    assert found.f == pytest.approx(17.0140173, abs=1e-7)
    np.testing.assert_allclose(found.x, [1, 4.7429994, 3.8211503, 1.3794082], atol=1e-6)
    np.testing.assert_allclose(found.lam_g, [-0.5522937, 0.1614686], atol=1e-6)  # published to seven digits
    np.testing.assert_allclose(found.lam_x, [-1.0878712, 0, 0, 0], atol=1e-6)


def test_rosenbrock_with_and_without_a_disc():
    free = program(2, rosenbrock, lambda x: [], [-1.2, 1])
    found = solve_nlp(free, OURS)
    optimal(free, found)
    np.testing.assert_allclose(found.x, [1, 1], atol=1e-8)
    assert found.lam_g.shape == (0,)
    disc = program(2, rosenbrock, lambda x: [ca.sumsqr(x)], [-1.2, 1], g_bounds=(-INF, 1))
    found = solve_nlp(disc, OURS)
    optimal(disc, found)
    assert found.x @ found.x == pytest.approx(1.0, abs=1e-8)
    assert found.f == pytest.approx(0.0456748087, abs=1e-8)
    assert found.lam_g[0] > 0.1


def test_signs_of_multipliers():
    """min (x-3)^2 + (y+2)^2 + (z-1)^2 + (w+1)^2 with limits on both sides, of unknowns and of rows: gradients (-4, 2, -2, 1)."""
    nlp = program(4, lambda x: (x[0] - 3) ** 2 + (x[1] + 2) ** 2 + (x[2] - 1) ** 2 + (x[3] + 1) ** 2, lambda x: [x[2], 2 * x[3]],
                  np.zeros(4), x_bounds=np.array([[-5, -1, -INF, -INF], [1, 5, INF, INF]]),
                  g_bounds=np.array([[-3, -1], [0, 4]]))
    found = solve_nlp(nlp, OURS)
    optimal(nlp, found)
    np.testing.assert_allclose(found.x, [1, -1, 0, -0.5], atol=1e-8)
    np.testing.assert_allclose(found.lam_x, [4, -2, 0, 0], atol=1e-7)
    np.testing.assert_allclose(found.lam_g, [2, -0.5], atol=1e-7)


@pytest.mark.parametrize("scaling", ["none", "bounds", "jacobian", "auto"])
def test_scaling_changes_no_multiplier(scaling):
    nlp = program(2, lambda x: (x[0] - 3e3) ** 2 + 1e2 * (x[1] + 2) ** 2, lambda x: [1e-2 * x[0], 1e3 * x[1]], [10.0, 0.0],
                  x_bounds=np.array([[0, -1e3], [4e3, 1e3]]), g_bounds=np.array([[-INF, -1e3], [20, INF]]))
    found = solve_nlp(nlp, replace(OURS, scaling=scaling))
    np.testing.assert_allclose(found.x, [2e3, -1], rtol=1e-4)
    np.testing.assert_allclose(found.lam_g, [1e2 * 2 * 1e3, -0.2], rtol=1e-3)
    np.testing.assert_allclose(found.lam_x, [0, 0], atol=1e-3)
    assert found.status is Status.CONVERGED


def test_rows_without_bounds_have_no_say():
    nlp = program(2, lambda x: ca.sumsqr(x - 3), lambda x: [x[0] * x[1], x[0], ca.exp(x[1])], [0, 0],
                  g_bounds=np.array([[-INF, -INF, -INF], [INF, 1, INF]]))
    found = solve_nlp(nlp, OURS)
    optimal(nlp, found)
    np.testing.assert_allclose(found.x, [1, 3], atol=1e-8)
    np.testing.assert_allclose(found.lam_g, [0, 4, 0], atol=1e-7)


def test_fixed_unknowns_take_any_force():
    nlp = program(3, lambda x: ca.sumsqr(x - 3), lambda x: [x[0] * x[1]], [9, 0, 0],
                  x_bounds=np.array([[2, -INF, -1], [2, INF, -1]]), g_bounds=(-INF, 4))
    found = solve_nlp(nlp, OURS)
    optimal(nlp, found)
    np.testing.assert_allclose(found.x, [2, 2, -1], atol=1e-8)
    np.testing.assert_array_equal(found.x[[0, 2]], [2, -1])
    np.testing.assert_allclose(found.lam_g, [1], atol=1e-7)
    np.testing.assert_allclose(found.lam_x, [0, 0, 8], atol=1e-7)  # 2 (2 - 3) + 1 * 2 + lam = 0, 2 (-1 - 3) + lam = 0


def test_nothing_free_and_no_rows():
    held = np.array([[1, 2], [1, 2]])
    nlp = program(2, lambda x: ca.sumsqr(x), lambda x: [], [7, 7], x_bounds=held)
    found = solve_nlp(nlp, OURS)
    optimal(nlp, found)
    np.testing.assert_array_equal(found.x, [1, 2])
    np.testing.assert_allclose(found.lam_x, [-2, -4])
    equation = program(2, lambda x: ca.sumsqr(x), lambda x: [x[0] + x[1]], [7, 7], x_bounds=held, g_bounds=(3, 3))
    assert solve_nlp(equation, OURS).status is Status.CONVERGED
    wrong = program(2, lambda x: ca.sumsqr(x), lambda x: [x[0] + x[1]], [7, 7], x_bounds=held, g_bounds=(0, 1), rows=["sum"])
    found = solve_nlp(wrong, OURS)
    assert found.status is Status.INFEASIBLE
    assert (found.ending.kind, found.ending.name) == (Kind.LARGEST_VIOLATION, "sum")
    assert found.ending.value == pytest.approx(2)


def test_degenerate_programs():
    """Redundant equations; a row whose gradient vanishes at the optimum; complementary unknowns."""
    twice = program(2, lambda x: ca.sumsqr(x - 1), lambda x: [x[0] + x[1], 2 * x[0] + 2 * x[1]], [1, 2],
                    g_bounds=np.array([[1, 2], [1, 2]]))
    found = solve_nlp(twice, OURS)
    optimal(twice, found)
    np.testing.assert_allclose(found.x, [0.5, 0.5], atol=1e-8)
    assert found.lam_g[0] + 2 * found.lam_g[1] == pytest.approx(1.0, abs=1e-6)
    over = program(1, lambda x: ca.sumsqr(x - 1), lambda x: [x[0], 2 * x[0], x[0] ** 2], [0.5], g_bounds=np.array([[1, 2, 1]] * 2))
    np.testing.assert_allclose(solve_nlp(over, OURS).x, [1.0], atol=1e-8)
    corner = program(2, lambda x: (x[0] - 1) ** 2 + (x[1] - 1) ** 2, lambda x: [x[0] * x[1]], [0.3, 0.4], x_bounds=(0, INF),
                     g_bounds=(-INF, 0))
    found = solve_nlp(corner, OURS)
    assert found.status is Status.CONVERGED
    assert found.f == pytest.approx(1.0, abs=1e-7)


def test_least_squares_by_gauss_newton():
    rng = np.random.default_rng(0)
    t = np.linspace(0, 1, 12)
    seen = 2.0 * np.exp(-1.3 * t) + 0.01 * rng.normal(size=12)
    nlp = program(2, None, lambda x: [x[0] + x[1]], [1.0, 0.0], g_bounds=(0, 10),
                  residual=lambda x: x[0] * ca.exp(-x[1] * ca.DM(t)) - ca.DM(seen))
    found, exact = (solve_nlp(nlp, replace(OURS, hessian=kind)) for kind in ("gauss_newton", "exact"))
    optimal(nlp, found)
    np.testing.assert_allclose(found.x, exact.x, rtol=1e-6)
    np.testing.assert_allclose(found.x, [2.0, 1.3], atol=0.05)
    assert found.iterations != exact.iterations
    with pytest.raises(ProblemError, match="gauss_newton"):
        solve_nlp(program(1, lambda x: x[0] ** 2, lambda x: [], [0]), replace(OURS, hessian="gauss_newton"))


def test_a_nonconvex_program_leaves_a_saddle():
    """From a point where the curvature is negative: inertia correction turns the step downhill, to the minima x = +-1."""
    nlp = program(2, lambda x: (x[0] ** 2 - 1) ** 2 + x[1] ** 2, lambda x: [x[0] + x[1]], [0.01, 0.0], g_bounds=(-5, 5))
    found = solve_nlp(nlp, OURS)
    optimal(nlp, found)
    np.testing.assert_allclose(np.abs(found.x), [1, 0], atol=1e-7)
    assert max(row["regularization"] for row in found.iterations) > 0


def test_convergence_is_superlinear():
    """Without bounds the last steps are Newton's."""
    nlp = program(2, lambda x: ca.exp(x[0]) + x[1] ** 2, lambda x: [x[0] ** 2 + x[1] ** 2 + x[0] * x[1]], [1, 1], g_bounds=(2, 2))
    sharp, errors = solve_nlp(nlp, replace(OURS, tolerance=1e-13)), []

    def take(point, rows):
        errors.append(np.linalg.norm(np.r_[point.x - sharp.x, point.lam_g - sharp.lam_g]))

    solve_nlp(nlp, replace(OURS, tolerance=1e-13), None, (lambda: True, take))
    last = [(a, b) for a, b in zip(errors, errors[1:], strict=False) if 1e-7 < a < 0.1]
    assert len(last) >= 2
    assert all(b <= 10 * a ** 2 + 1e-12 for a, b in last), errors


def test_pendulum_stage_by_stage_in_any_order():
    one, other = solve_nlp(staged(), OURS), solve_nlp(staged(order=3), OURS)
    optimal(staged(), one)
    assert other.f == pytest.approx(one.f, rel=1e-9)
    assert one.f == pytest.approx(solve_nlp(staged(), IPOPT).f, rel=1e-8)


# ---- when things go wrong ----
def test_infeasible_from_two_sides():
    nlp = program(2, lambda x: ca.sumsqr(x), lambda x: [x[0] ** 2 + 1], [1, 2], g_bounds=(0, 0), rows=["never"])
    assert solve_nlp(nlp, IPOPT).status is Status.INFEASIBLE
    assert solve_nlp(nlp, OURS).status is Status.INFEASIBLE


@pytest.mark.parametrize(("rows", "bounds", "missed"), [
    (lambda x: [x[0] ** 2 + x[1] ** 2 + 1], (0, 0), 1.0),
    (lambda x: [x[0] + x[1], ca.sumsqr(x)], np.array([[5, -INF], [5, 1]]), 2.8),
    (lambda x: [x[0] + x[1], x[0] + x[1]], np.array([[1, 2], [1, 2]]), 0.5),
], ids=["equation", "disc", "contradiction"])
def test_infeasible_names_the_rows(rows, bounds, missed):
    count = np.size(bounds) // 2 if isinstance(bounds, np.ndarray) else 1
    nlp = program(2, lambda x: ca.sumsqr(x), rows, [1, 2], g_bounds=bounds, rows=["never", "other"][:count])
    found = solve_nlp(nlp, OURS)
    assert found.status is Status.INFEASIBLE
    assert dict(found.ending.data["violations"])["never"] == pytest.approx(missed, abs=0.05)
    assert np.all(np.isfinite(found.x))


def test_infeasible_ends_where_the_violation_is_least():
    """In the unit square, x + y >= 3 fails by 1 at (1, 1) and by more elsewhere."""
    nlp = program(2, lambda x: x[0] - x[1], lambda x: [x[0] + x[1]], [0.3, 0.5], x_bounds=(0, 1), g_bounds=(3, INF), rows=["sum"])
    found = solve_nlp(nlp, OURS)
    assert found.status is Status.INFEASIBLE
    np.testing.assert_allclose(found.x, [1, 1], atol=1e-3)
    assert found.ending.name == "sum"
    assert found.ending.value == pytest.approx(1, rel=1e-2)


def test_a_start_from_which_newton_steps_alone_never_arrive():
    """Linearised rows and bounds contradict each other all the way; Waechter and Biegler 2000, Mathematical Programming 88."""
    nlp = program(3, lambda x: x[0], lambda x: [x[0] ** 2 - x[1] - 1, x[0] - x[2] - 0.5], [-2, 3, 1],
                  x_bounds=np.array([[-INF, 0, 0], [INF] * 3]), g_bounds=(0, 0))
    found = solve_nlp(nlp, OURS)
    optimal(nlp, found)
    np.testing.assert_allclose(found.x, [1, 0, 0.5], atol=1e-7)


def test_an_infeasible_problem_of_optimal_control():
    """A block to be moved by 1 in 1 s takes a bang-bang force of 4 at least."""
    nlp = gallery("block_move")
    force = np.array([name.startswith("u") for name in nlp.variables])
    assert np.sum(force) > 10
    for limit, expected in ((4.5, Status.CONVERGED), (3.0, Status.INFEASIBLE)):
        lower, upper = np.where(force, -limit, nlp.x_lower), np.where(force, limit, nlp.x_upper)
        found = solve_nlp(replace(nlp, x_lower=lower, x_upper=upper), OURS)
        assert found.status is expected
    assert found.ending.kind is Kind.LARGEST_VIOLATION


@pytest.mark.parametrize(("objective", "row", "x0", "what"), [
    (lambda x: ca.log(x[0]), lambda x: x[0], -1.0, Finding(Kind.OBJECTIVE_NOT_FINITE)),
    (lambda x: x[0], lambda x: ca.sqrt(x[0]), -1.0, Finding(Kind.CONSTRAINT_NOT_FINITE, name="root")),
    (lambda x: ca.sqrt(x[0]), lambda x: x[0], 0.0, Finding(Kind.GRADIENT_NOT_FINITE, name="x0")),
    (lambda x: x[0], lambda x: ca.sqrt(x[0]), 0.0, Finding(Kind.JACOBIAN_NOT_FINITE, name="root", data={"variable": "x0"})),
], ids=["objective", "row", "gradient", "jacobian"])
def test_not_a_number_at_the_start(objective, row, x0, what):
    found = solve_nlp(program(1, objective, lambda x: [row(x)], [x0], g_bounds=(-3, 2), rows=["root"]), OURS)
    assert found.status is Status.NOT_A_NUMBER
    assert found.ending.kind is Kind.NOT_FINITE
    assert found.ending.data["found"] == (what,)


def test_not_a_number_on_the_way_shortens_the_step():
    nlp = program(1, lambda x: x[0] - ca.log(x[0]), lambda x: [], [10.0])  # the Newton step from 10 ends at -80
    found = solve_nlp(nlp, OURS)
    optimal(nlp, found)
    assert found.x[0] == pytest.approx(1.0, abs=1e-8)
    assert found.iterations[1]["alpha_pr"] < 1


@pytest.mark.parametrize("limit", [0, 1, 4])
def test_iteration_limit(limit):
    found = solve_nlp(program(2, rosenbrock, lambda x: [], [-1.2, 1]), replace(OURS, max_iterations=limit))
    assert found.status is Status.ITERATION_LIMIT
    assert found.ending.kind is Kind.ITERATION_LIMIT
    assert [row["iteration"] for row in found.iterations] == list(range(limit + 1))
    assert (found.f == pytest.approx(24.2)) == (limit == 0)


def test_unbounded():
    for nlp in (program(1, lambda x: x[0], lambda x: [], [0.0]),
                program(2, lambda x: -ca.sumsqr(x), lambda x: [x[0] - x[1]], [1, 0.5], g_bounds=(0, 0))):
        found = solve_nlp(nlp, OURS)
        assert found.status is Status.UNBOUNDED
        assert found.ending.kind is Kind.OBJECTIVE_UNBOUNDED
        assert found.ending.data["last"] < found.ending.data["first"]


def test_limited_memory_is_refused():
    with pytest.raises(ProblemError, match="interior_point with hessian limited_memory.*no quasi-Newton update"):
        SolverOptions(solver="interior_point", hessian="limited_memory")
    with pytest.raises(ProblemError, match="interior_point"):
        CollocationOptions(solver="interior_point", hessian="limited_memory")


# ---- watched from outside ----
def test_an_interrupt_keeps_the_last_iterate():
    nlp = program(2, rosenbrock, lambda x: [ca.sumsqr(x)], [-1.2, 1], g_bounds=(-INF, 1))

    def stop(row):
        if row["iteration"] == 4:
            raise KeyboardInterrupt

    solver = prepare_solver(nlp, OURS)
    found = solver.solve(progress=stop)
    limited = solve_nlp(nlp, replace(OURS, max_iterations=4))
    assert limited.status is Status.ITERATION_LIMIT
    free = program(2, rosenbrock, lambda x: [x[0]], [-1.2, 1], g_bounds=(-INF, 9))
    assert solve_nlp(free, replace(OURS, max_iterations=6)).status is Status.ITERATION_LIMIT  # far from falling without bound
    assert found.status is Status.INTERRUPTED
    assert len(found.iterations) == 5
    np.testing.assert_array_equal(found.x, limited.x)
    np.testing.assert_array_equal(found.lam_g, limited.lam_g)
    assert solver.solve().status is Status.CONVERGED

    def broken(row):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        solver.solve(progress=broken)


def test_points_on_the_way_can_be_gone_on_from():
    nlp, points = gallery("container_crane"), []
    found = solve_nlp(nlp, OURS, None, (lambda: True, lambda point, rows: points.append((point, rows))))
    assert [len(rows) for _, rows in points] == list(range(2, len(found.iterations) + 1))
    last, middle = points[-1][0], points[2 * len(points) // 3][0]
    np.testing.assert_array_equal(last.x, found.x)
    np.testing.assert_array_equal(last.lam_g, found.lam_g)
    again = solve_nlp(nlp, OURS, warm=middle)
    optimal(nlp, again)
    assert again.f == pytest.approx(found.f, rel=1e-7)
    assert steps(again) < steps(found)
    never = []
    solve_nlp(nlp, OURS, None, (lambda: False, lambda point, rows: never.append(point)))
    assert never == []


def test_wrong_starts_are_refused():
    solver = prepare_solver(program(2, rosenbrock, lambda x: [], [0, 0]), OURS)
    with pytest.raises(ProblemError, match="x0 needs 2 values"):
        solver.solve(x0=[1.0])
    with pytest.raises(ProblemError, match="warm.lam_x needs 2 values"):
        solver.solve(warm=Warm(np.zeros(2), np.zeros(3), np.zeros(0), 0.1))
