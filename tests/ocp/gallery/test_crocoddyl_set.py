"""Crocoddyl's own problems: the definitions agree with Crocoddyl's, and iLQR finds the optima that it publishes, or better ones."""

import numpy as np
import pytest
from crocoddyl_problems import CASES, ROBOT_FREE, case, moves, probe, rollout, total_cost

from dynamics.errors import ModelError
from dynamics.model.robots import robot_paths
from ocp.methods import make_options
from ocp.problem import Status
from ocp.shooting.ilqr import ILQROptions, solve
from ocp.shooting.options import Tuning

try:
    PATHS = robot_paths()
except ModelError:
    PATHS = {}
robots = pytest.mark.skipif(not PATHS, reason="the robots extra is not installed")


def marked(names, *marks_of_robots):
    return [pytest.param(name, marks=() if name in ROBOT_FREE else (robots, *marks_of_robots)) for name in names]


# Cost of ``probe`` and sum of squares of its steps, by Crocoddyl 3.2.1 with Pinocchio 4.0.0 (ShootingProblem.calc, then
# StateAbstract.diff(x, xnext) of every knot): tests/benchmarks/crocoddyl_set.py --agreement
BY_CROCODDYL = {
    "kinova": (2071.798247080205, 13806.78879168422),
    "kinova_inv": (2079.534100044934, 0.20329011092544544),
    "panda": (881.6043671386818, 70.28680758984721),
    "talos_arm": (1717.6457219231243, 856.1630891261574),
    "quadrotor": (59.00550590722343, 7.9751047042478245),
    "double_pendulum_cpp": (2976.101126262168, 3474.187189569198),
    "unicycle": (110497.79493607901, 0.49932831813699846),
    "lqr80x40": (13692.148387686206, 500.1332603490799),
}


@pytest.mark.parametrize("name", marked(CASES))
def test_definitions_agree_with_crocoddyl(name):
    built = case(name)
    x, u = probe(built)
    cost, after = total_cost(built, x, u)
    # Pinocchio's continuous joints take an arc cosine of numbers near one, which leaves 1e-8 of a small angle
    assert (cost, moves(built, x, after)) == pytest.approx(BY_CROCODDYL[name], rel=1e-10)


def solved(name, guess, **options):
    """The solution by the method of Crocoddyl's solver, FDDP: gaps of the guess stay until steps close them, and a step has to
    bring a tenth of the decrease that the model promises."""
    built = case(name, guess)
    solution = solve(built.problem, make_options("ilqr", {
        "intervals": built.intervals, "shooting": "feasible", "armijo": 0.1, "tolerance": 1e-9, **built.options, **options}))
    assert solution.status is Status.CONVERGED, solution.ending
    return built, solution


@pytest.mark.parametrize("name", marked(("quadrotor", "double_pendulum_cpp", "unicycle", "lqr80x40")))
def test_published_costs(name):
    """From the guess of the published runs, which stopped at an expected decrease of 1e-9: the cost falls a little further."""
    built = case(name)
    built, solution = solved(name, built.published_from, hessian="gauss_newton")
    assert solution.objective == pytest.approx(built.optima[0], rel=1e-9)
    assert -1e-9 <= (built.published - solution.objective) / abs(built.published) <= 1e-7
    assert total_cost(built, rollout(built, solution.trajectory.u), solution.trajectory.u)[0] == pytest.approx(
        solution.objective, rel=1e-9)


@pytest.mark.slow
@robots
def test_published_cost_of_the_talos_arm():
    built, solution = solved("talos_arm", "zero", hessian="gauss_newton")
    assert solution.objective == pytest.approx(6.624598290153, rel=1e-9)
    assert solution.objective == pytest.approx(built.published, rel=1e-8)


# From "hold", Crocoddyl's converged costs (expected decrease 1e-14), not the published optima, which start from "zero"
FROM_HOLD = {"kinova": 3.698422748929, "kinova_inv": 3.698422748929, "panda": 14.0352312536, "talos_arm": 6.009848717659}


@pytest.mark.slow
@robots
@pytest.mark.parametrize("name", FROM_HOLD)
def test_arms_find_the_optimum_that_crocoddyl_finds_from_the_same_guess(name):
    built, solution = solved(name, "hold", hessian="gauss_newton")
    assert solution.objective == pytest.approx(FROM_HOLD[name], rel=1e-9)
    assert any(solution.objective == pytest.approx(cost, rel=1e-9) for cost in built.optima)


@pytest.mark.slow
@robots
@pytest.mark.parametrize("name", ["kinova", "kinova_inv", "panda"])
def test_arms_from_the_published_guess_end_below_the_published_cost(name):
    """That guess is so far off that iterates part ways: Crocoddyl ends at 8.125, 34.8 and 31.4, iLQR at better optima."""
    built, solution = solved(name, "zero", hessian="gauss_newton")
    assert solution.objective < built.published * (1 + 1e-9)
    assert any(solution.objective == pytest.approx(cost, rel=1e-8) for cost in built.optima)


def test_one_step_solves_the_linear_quadratic_problem():
    _, solution = solved("lqr80x40", "hold", hessian="gauss_newton")
    assert len(solution.iterations) == 2  # the guess and one step
    # each driven pair is x' = x + u with stage costs 1/2 (x + 1)^2 + 1/2 u^2 up to constants and a sum of u that telescopes: its
    # Riccati equation P = 1 + P / (1 + P) has the golden ratio as its solution, and far from the end x + 1 shrinks by P / (1 + P)
    gain = (np.sqrt(5) - 1) / 2
    np.testing.assert_allclose(solution.trajectory.u[0], -gain, rtol=1e-12)
    k = np.arange(20)[:, None]
    np.testing.assert_allclose(solution.trajectory.x[:20, :40] + 1, np.tile((1 - gain) ** k, (1, 40)), atol=1e-14)
    assert not solution.trajectory.x[:, 40:].any()


@robots
def test_overshoot_at_the_rounding_level_is_answered_by_shorter_steps():
    """Whole steps of Gauss-Newton leave the error times -0.9 here; below rounding nothing else would halve them."""
    chosen = case("panda", "hold")
    found = solve(chosen.problem, ILQROptions(
        **chosen.options, intervals=100, shooting="feasible", tolerance=1e-9, hessian="gauss_newton",
        tuning=Tuning(armijo=0.1, polish="never")))
    assert found.status is Status.CONVERGED
    assert len(found.iterations) - 1 <= 50
