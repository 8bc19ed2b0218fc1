"""Free durations, parameters and start states in shooting: closed forms, published optima, differences of the whole problem."""

import casadi as ca
import numpy as np
import pytest
from control_problems import bang_bang, brachistochrone, fixed, flat_system, problem
from direct_problems import with_phase
from free_problems import constant, cost, fast_pendulum, held_effort, hurried_block, late_start, particle_steering, wind
from plain_shooting import chosen_constants, of_solution
from shooting_problems import options
from uncertified import by_ilqr

from ocp.problem import At, Boundary, Duration, Finding, Kind, Phase, Status, with_parameters
from ocp.shooting.ilqr import ILQROptions

FULL = ILQROptions(intervals=40, hessian="full", kernels="interpreted")


# ---- minimum time
@pytest.mark.parametrize("shooting", ["single", "feasible", "multiple"])
@pytest.mark.parametrize("hessian", ["gauss_newton", "full"])
def test_the_block_takes_two_seconds_and_switches_half_way(hessian, shooting):
    found = by_ilqr(bang_bang(), options(intervals=100, hessian=hessian, shooting=shooting, globalisation="merit"))
    assert found.status is Status.CONVERGED, found.ending
    assert found.objective == pytest.approx(2.0, abs=2e-7)
    path = found.trajectory
    assert path.t[-1] == pytest.approx(2.0, abs=2e-7)
    np.testing.assert_allclose(path.u[:49, 0], 1.0, atol=1e-4)
    np.testing.assert_allclose(path.u[51:, 0], -1.0, atol=1e-4)
    np.testing.assert_allclose(path.x[-1], [1, 0], atol=1e-6)
    np.testing.assert_allclose(path.x[50], [0.5, 1.0], atol=1e-4)
    assert of_solution(found).cost == pytest.approx(found.objective, abs=1e-9)
    assert chosen_constants(found) == {"duration": pytest.approx(path.t[-1], rel=1e-14)}
    assert Finding(Kind.DURATION_CHOSEN, value=chosen_constants(found)["duration"]) in found.findings


def test_the_duration_keeps_its_bounds():
    found = by_ilqr(with_phase(bang_bang(), duration=Duration(3.0, 10.0, 5.0)), options(intervals=20, hessian="full"))
    assert found.status is Status.CONVERGED, found.ending
    assert found.objective == 3.0  # on the bound to the last digit
    short = by_ilqr(with_phase(hurried_block("residual final"), duration=Duration(0.5, 1.5, 1.0)), FULL)
    assert short.status is Status.CONVERGED, short.ending
    assert short.objective == pytest.approx(1.5 + held_effort(40) / 1.5**3, rel=1e-6)


def test_brachistochrone_is_the_cycloid():
    """With held controls the time approaches 0.82433867 from above at second order."""
    times = [by_ilqr(brachistochrone(), options(intervals=n, hessian="full")) for n in (25, 50)]
    assert all(found.status is Status.CONVERGED for found in times), [found.ending for found in times]
    one, two = (found.objective - 0.82433867 for found in times)
    assert 0 < two < one < 2e-4
    assert one / two == pytest.approx(4.0, rel=0.15)


def test_particle_steering_has_its_published_time():
    found = by_ilqr(particle_steering(), options(intervals=100, hessian="full", shooting="multiple", globalisation="merit"))
    assert found.status is Status.CONVERGED, found.ending
    assert 0 < found.objective - 0.5545708783 < 2e-5
    # the tangent of the thrust angle is linear in time
    u, t = found.trajectory.u[:, 0], found.trajectory.t[:-1] + found.trajectory.t[1] / 2
    tangent, line = np.tan(u), np.polyfit(t[5:-5], np.tan(u[5:-5]), 1)
    np.testing.assert_allclose(tangent[5:-5], np.polyval(line, t[5:-5]), atol=5e-3)


def test_a_pendulum_is_swung_up_as_soon_as_possible():
    """Held controls cannot switch between knots: a little slower than 7.58668, and nearer with more of them."""
    coarse, fine = (by_ilqr(fast_pendulum(), options(intervals=n)) for n in (60, 240))
    for found in (coarse, fine):
        assert found.status is Status.CONVERGED, found.ending
        np.testing.assert_allclose(found.trajectory.x[-1], [np.pi, 0], atol=1e-6)
        assert found.objective == pytest.approx(7.58668, rel=3e-3)
    assert abs(fine.objective - 7.58668) < abs(coarse.objective - 7.58668)
    u = fine.trajectory.u[:, 0]
    assert np.sum(np.abs(np.abs(u) - 0.5) < 1e-6) > 230  # bang-bang


# ---- time against effort: a closed form with held controls
@pytest.mark.parametrize("shooting", ["single", "multiple"])
@pytest.mark.parametrize("form", ["scalar final", "scalar running", "residual final", "residual running"])
def test_time_against_effort_in_closed_form(form, shooting):
    """min T + c / T^3: T = (3 c)^(1/4), c the least effort for one second."""
    c = held_effort(30)
    T = (3 * c) ** 0.25
    assert pytest.approx(18**0.25, rel=1e-3) == T
    found = by_ilqr(hurried_block(form), options(intervals=30, hessian="full", shooting=shooting, globalisation="merit"))
    assert found.status is Status.CONVERGED, found.ending
    assert found.trajectory.t[-1] == pytest.approx(T, rel=1e-5)
    assert found.objective == pytest.approx(T + c / T**3, rel=1e-7)
    stationarity, complementarity = found.optimality.residuals()
    assert max(stationarity, complementarity) < 1e-6


# ---- free start
@pytest.mark.parametrize("hessian", ["gauss_newton", "full"])
@pytest.mark.parametrize("shooting", ["single", "open", "feasible", "multiple"])
def test_a_free_start_in_closed_form(hessian, shooting):
    """Linear and quadratic: one step from anywhere."""
    found = by_ilqr(late_start(), options(intervals=7, hessian=hessian, shooting=shooting))
    x0 = 2.0 / (2.0 + 5.0 / 16)
    assert found.status is Status.CONVERGED, found.ending
    assert len(found.iterations) == 2
    assert found.trajectory.x[0, 0] == pytest.approx(x0, rel=1e-12)
    np.testing.assert_allclose(found.trajectory.u, -5 * x0 / 16, rtol=1e-11)
    assert found.objective == pytest.approx((x0 - 1)**2 + 5 * x0**2 / 32, rel=1e-12)


def test_bounds_of_a_free_start_hold_exactly():
    found = by_ilqr(late_start(lower=1.4), options(intervals=7))
    assert found.status is Status.CONVERGED, found.ending
    assert found.trajectory.x[0, 0] == 1.4
    # x(t) must stay above 1.4 as well: nothing moves
    assert found.trajectory.x.min() > 1.4 - 1e-6
    assert found.objective == pytest.approx(0.4**2 + 2.5 * 1.4**2, rel=1e-6)


def test_part_of_the_start_is_free():
    """Which position at rest reaches the goal at least effort? The goal itself: the rest of the start is as prescribed."""
    moved = with_phase(hurried_block("residual final"), start=Boundary((0.0, 0.0), (False, True)), duration=Duration(1.0, 1.0, 1.0))
    found = by_ilqr(moved, options(intervals=10))
    assert found.status is Status.CONVERGED, found.ending
    np.testing.assert_allclose(found.trajectory.x, [[1.0, 0.0]] * 11, atol=1e-7)


# ---- parameters
@pytest.mark.parametrize("shooting", ["single", "multiple"])
def test_a_parameter_in_closed_form(shooting):
    w, r = 4.0, 3.0
    found = by_ilqr(wind(w, r), options(intervals=5, shooting=shooting))
    y = w / (1 + w * (2 + 4 / r))  # w (1 - x(2)) with x(2) = 2 u + 2 p
    assert found.status is Status.CONVERGED, found.ending
    assert chosen_constants(found)["wind"] == pytest.approx(2 * y / r, rel=1e-10)
    np.testing.assert_allclose(found.trajectory.u, y, rtol=1e-10)
    bound = by_ilqr(wind(w, r, upper=0.1), options(intervals=5))
    assert chosen_constants(bound)["wind"] == 0.1
    np.testing.assert_allclose(bound.trajectory.u, w * 0.8 / (1 + 2 * w), rtol=1e-10)


@pytest.mark.parametrize("name", ["block", "start", "parameter"])
def test_the_gradient_by_what_is_free_against_differences(name):
    """Off the optimum: the controls of the first stage are durations, start components and parameters."""
    given = {"block": lambda: with_phase(hurried_block("scalar final"), final=None), "start": late_start, "parameter": wind}[name]()
    found = by_ilqr(given, options(intervals=6, max_iterations=0))
    assert found.status is Status.ITERATION_LIMIT
    gradient, path = found.optimality.gradient(), found.trajectory

    def at(step):
        if name == "block":
            return of_solution(found, durations=[path.t[-1] + step]).cost
        if name == "start":
            return of_solution(found, start=path.x[0] + step).cost
        return of_solution(found, parameters={"wind": step}).cost

    assert gradient[0, 0] == pytest.approx((at(1e-5) - at(-1e-5)) / 2e-5, rel=1e-7)
    assert abs(gradient[0, 0]) > 1e-2
    nudged = [of_solution(found, controls=[path.u + sign * 1e-5 * np.eye(6)[:, 3:4]]).cost for sign in (1, -1)]
    assert gradient[4, 0] == pytest.approx((nudged[0] - nudged[1]) / 2e-5, rel=1e-7, abs=1e-9)


def test_the_optimum_moves_as_the_envelope_theorem_says():
    """A pendulum whose length stays a number: the derivative of the optimal cost is that of the cost with everything held."""
    system = flat_system("pendulum", ("th", "w"), ("u",), lambda t, x, u, p: ca.vertcat(x[1], u[0] - p[0] * ca.sin(x[0])),
                         ("g",), (1.0,))
    costs = (cost("time", At.FINAL, lambda t, x, u, p: t, 2, np_=1),
             cost("effort", At.PATH, lambda t, x, u, p: u[0], 2, np_=1, weights=(1.0,)),
             cost("end", At.FINAL, lambda t, x, u, p: x - ca.DM([1.0, 0.0]), 2, np_=1, weights=(50.0, 50.0)))
    swing = problem(Phase("swing", system, Duration(0.2, 9.0, 2.0), constant((0.0, 0.0), (0.5,)), fixed(0, 0), costs=costs))
    here = by_ilqr(swing, options(intervals=20, hessian="full"))
    assert here.status is Status.CONVERGED, here.ending
    step = 1e-4
    ends = [by_ilqr(with_parameters(swing, {"g": 1.0 + s}), options(intervals=20, hessian="full")).objective for s in (step, -step)]
    held = [of_solution(here, parameters={"g": 1.0 + s}).cost for s in (step, -step)]
    assert (ends[0] - ends[1]) / (2 * step) == pytest.approx((held[0] - held[1]) / (2 * step), rel=1e-5)
