"""Gaps between steps and states: four ways of shooting, one optimum; unstable systems; merit, filter and threads."""

import itertools

import casadi as ca
import numpy as np
import pytest
from control_problems import bang_bang, block_move
from control_problems import cart_pole as constrained_cart_pole
from direct_problems import with_phase
from plain_shooting import of_solution, step
from shooting_problems import cart_pole, double_integrator, make, options, pendulum, quadrotor
from uncertified import by_ilqr

from ocp.problem import Guess, Kind, Status
from ocp.shooting.ilqr import solve
from ocp.spaces import euclidean

WAYS = ("single", "open", "feasible", "multiple")
GAPPED = ("feasible", "multiple")


def with_states(problem, x, u=None):
    """The problem with states [k, nx] as its guess, equally spaced in time."""
    guess, count = problem.phase.guess, len(x)
    u = np.tile(guess.u[0], (count, 1)) if u is None else u
    return with_phase(problem, guess=Guess(np.linspace(0, 1, count), np.asarray(x, float), u))


def wandering(problem, seed=0, size=0.3, count=7):
    """Random states around the start of the problem, on the manifold."""
    rng, space, x0 = np.random.default_rng(seed), problem.phase.system.space, ca.DM(problem.phase.start.value)
    away = size * rng.normal(size=(count, space.ndx))
    return with_states(problem, [np.asarray(ca.DM(space.plus(x0, ca.DM(d)))).ravel() for d in away])


CASES = {
    "pendulum": (lambda: pendulum(u_max=6.0, duration=2.0, weight=20.0, u_guess=[[1.0], [1.0]]), 40, "filter"),
    "cart-pole": (cart_pole, 50, "filter"),
    "quadrotor": (quadrotor, 30, "filter"),
    "block": (block_move, 20, "merit"),  # with a prescribed end
    "hurried block": (bang_bang, 20, "merit"),  # and a free duration
}


@pytest.mark.parametrize(("hessian", "name"), [
    pytest.param(hessian, name, marks=[pytest.mark.slow] * ((hessian, name) == ("full", "quadrotor")))
    for hessian in ("auto", "full") for name in CASES])
@pytest.mark.sample(3)
def test_all_ways_of_shooting_find_the_same_optimum(name, hessian):
    build, intervals, globalisation = CASES[name]
    ways = [way for way in WAYS if (name, way) != ("hurried block", "open")]  # bang-bang has no open loop to follow
    found = {way: solve(build(), options(intervals=intervals, hessian=hessian, shooting=way, globalisation=globalisation))
             for way in ways}
    for way, one in found.items():
        assert one.status is Status.CONVERGED, (way, one.ending)
        assert one.objective == pytest.approx(found["single"].objective, rel=1e-6), way
        assert max(np.abs(defect).max() for defect in one.optimality.defects()) < 1e-8
        assert of_solution(one).cost == pytest.approx(one.objective, rel=1e-6)


# ---- what a gap is, and how it closes
@pytest.mark.parametrize("way", GAPPED)
def test_the_gaps_of_a_guess_are_what_its_steps_miss(way):
    problem = wandering(quadrotor())
    found = solve(problem, options(intervals=6, shooting=way, max_iterations=0))
    phase, x, u = problem.phase, found.trajectory.x, found.trajectory.u
    np.testing.assert_allclose(x[1:], problem.phase.guess.x[1:], atol=1e-12)
    np.testing.assert_array_equal(x[0], phase.start.value)
    total, cost = 0.0, 0.0
    for k in range(6):
        after, part = step(phase, "rk4", False, k * 0.25, x[k], u[k], [], 0.25)
        total += np.abs(np.asarray(ca.DM(phase.system.space.minus(ca.DM(x[k + 1]), ca.DM(after))))).sum()
        cost += part
    assert found.iterations[0]["gap"] == pytest.approx(total, rel=1e-12)
    assert total > 1
    end = sum(float(c.expression(1.5, x[6], u[0], [])) for c in phase.costs if c.at.value == "final")
    assert found.objective == pytest.approx(cost + end, rel=1e-12)


@pytest.mark.parametrize("way", GAPPED)
@pytest.mark.parametrize("globalisation", ["merit", "filter"])
def test_gaps_of_a_linear_problem_close_in_the_first_step(way, globalisation):
    problem = wandering(double_integrator(), size=2.0)
    found = solve(problem, options(intervals=6, integrator="euler", shooting=way, globalisation=globalisation))
    exact = solve(double_integrator(), options(intervals=6, integrator="euler"))
    assert found.status is Status.CONVERGED
    assert [row["step"] for row in found.iterations] == [0.0, 1.0]
    assert found.iterations[0]["gap"] > 1
    assert found.iterations[1]["gap"] < 1e-12
    assert found.objective == pytest.approx(exact.objective, rel=1e-12)
    np.testing.assert_allclose(found.trajectory.u, exact.trajectory.u, atol=1e-11)
    assert max(np.abs(defect).max() for defect in found.optimality.defects()) < 1e-12


def test_a_step_of_a_feasible_search_closes_its_share_of_the_gaps():
    found = solve(wandering(quadrotor(), size=3.0), options(intervals=30, shooting="feasible"))
    assert found.status is Status.CONVERGED, found.ending
    shortened = 0
    for before, after in itertools.pairwise(found.iterations):
        assert after["gap"] == pytest.approx((1 - after["step"]) * before["gap"], rel=1e-9, abs=1e-13)
        shortened += 0 < after["step"] < 1 and before["gap"] > 0
    assert shortened > 0  # else nothing but full steps was seen


@pytest.mark.parametrize("tolerance", [1e-3, 1e-11])
def test_gaps_end_below_their_tolerance(tolerance):
    found = solve(wandering(cart_pole(), size=0.2),
                  options(intervals=40, shooting="multiple", gap_tolerance=tolerance, polish="never", hessian="full"))
    assert found.status is Status.CONVERGED, found.ending
    assert found.iterations[-1]["gap"] <= tolerance


@pytest.mark.parametrize("build", [cart_pole, lambda: pendulum(u_max=6.0, duration=2.0, weight=20.0, u_guess=[[1.0], [1.0]])],
                         ids=["cart-pole", "pendulum"])
def test_gaps_that_the_model_closes_stay_closed(build):
    """Steps along the linear model would leave gaps of second order for ever; feedback leaves none."""
    chosen = {"intervals": 40, "hessian": "full", "polish": "never"}
    found = solve(wandering(build(), size=0.2), options(shooting="multiple", **chosen))
    gaps = [row["gap"] for row in found.iterations]
    assert found.status is Status.CONVERGED, found.ending
    assert gaps[0] > 0.1
    assert gaps[-1] == 0.0
    assert not any(gaps[gaps.index(0.0):])
    exact = solve(build(), options(**chosen))
    assert found.objective == pytest.approx(exact.objective, rel=1e-7)


# ---- where only gaps help
def unstable(start=0.5, duration=12.0):
    """x' = x + x^3 + u: without control it is gone after a second."""
    return make("unstable", euclidean(("x",)), ("u",), lambda t, x, u: x + x**3 + u, (start,), duration,
                running=[("all", lambda t, x, u: ca.vertcat(x, u), (1.0, 0.1))], x_guess=None)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("globalisation", ["merit", "filter"])
def test_an_unstable_system_is_held_from_a_guess_of_its_states(way, globalisation):
    """The guess says that the state falls to zero; the rollout of its controls explodes."""
    problem = with_states(unstable(), [[0.5], [0.0], [0.0]])
    found = solve(problem, options(intervals=120, shooting=way, globalisation=globalisation))
    if way in ("single", "open"):
        assert found.status is Status.DIVERGED
        assert (found.ending.kind, found.ending.name) == (Kind.STATE_TOO_LARGE, "x")
        return
    assert found.status is Status.CONVERGED, found.ending
    assert np.abs(found.trajectory.x).max() <= 0.5 + 1e-9
    assert found.iterations[-1]["gap"] <= 1e-9
    # of an infinite horizon the Hamiltonian vanishes: u = -(f + sqrt(f^2 + x^2 / 0.1)), f = x + x^3; here at the middle of steps
    for k in range(8):
        x = found.trajectory.state(0.1 * k + 0.05)[0]
        assert found.trajectory.u[k, 0] == pytest.approx(-(x + x**3 + np.sqrt((x + x**3)**2 + x**2 / 0.1)), rel=0.03)
    assert found.optimality.residuals()[0] < 1e-6


@pytest.mark.parametrize(("way", "globalisation"), [("feasible", "merit"), ("feasible", "filter"), ("multiple", "filter")])
def test_hard_constraints_and_gaps_close_together(way, globalisation):
    """Kelly's cart-pole with bounds on the rail and a prescribed end, from a straight line between start and goal."""
    problem = with_states(constrained_cart_pole(), [[0, 0, 0, 0], [1, np.pi, 0, 0]])
    found = by_ilqr(problem, options(intervals=60, shooting=way, globalisation=globalisation, hessian="full"))
    assert found.status is Status.CONVERGED, found.ending
    np.testing.assert_allclose(found.trajectory.x[-1], [1, np.pi, 0, 0], atol=1e-6)
    assert max(np.abs(defect).max() for defect in found.optimality.defects()) < 1e-7
    assert max(found.optimality.residuals()) < 1e-6
    assert found.objective == pytest.approx(59.0, abs=1.5)


# ---- threads
def numbers(row):
    """A row of the log without the clock."""
    return {name: value for name, value in row.items() if name != "seconds"}


@pytest.mark.parametrize(("way", "hessian"), [("single", "full"), ("feasible", "gauss_newton"), ("multiple", "full")])
def test_threads_change_no_bit(way, hessian):
    problem = with_states(constrained_cart_pole(), [[0, 0, 0, 0], [1, np.pi, 0, 0]])
    runs = [solve(problem, options(intervals=30, shooting=way, hessian=hessian, threads=threads, max_iterations=60, polish="never"))
            for threads in (1, 2, 3)]
    for other in runs[1:]:
        assert [numbers(row) for row in other.iterations] == [numbers(row) for row in runs[0].iterations]
        np.testing.assert_array_equal(other.trajectory.x, runs[0].trajectory.x)
        np.testing.assert_array_equal(other.trajectory.u, runs[0].trajectory.u)
        assert other.ending == runs[0].ending


def test_more_threads_than_stages():
    one, many = (solve(double_integrator(), options(intervals=2, threads=threads)) for threads in (1, 7))
    assert many.status is Status.CONVERGED
    np.testing.assert_array_equal(one.trajectory.u, many.trajectory.u)


@pytest.mark.parametrize("hessian", ["auto", "gauss_newton", "full"])
def test_automatic_globalisation_without_rows_takes_what_either_accepts(hessian):
    """The filter alone stalls from here with Gauss-Newton Hessians, the merit function alone runs out of iterations."""
    found = solve(wandering(cart_pole(), size=0.2), options(intervals=40, shooting="multiple", hessian=hessian))
    assert found.status is Status.CONVERGED, found.ending
    assert found.optimality.residuals()[0] < 1e-6


def test_automatic_globalisation_with_rows_is_the_merit_function():
    """Bit by bit."""
    problem = wandering(constrained_cart_pole(), size=0.5)
    auto, merit, filtered = (solve(problem, options(intervals=30, shooting="multiple", globalisation=name, max_iterations=60,
                                                    polish="never")) for name in ("auto", "merit", "filter"))
    assert [numbers(row) for row in auto.iterations] == [numbers(row) for row in merit.iterations]
    assert [row["cost"] for row in auto.iterations] != [row["cost"] for row in filtered.iterations]
