"""Shooting through several phases: reset maps in closed form, phases that are one motion, switching times."""

import dataclasses

import casadi as ca
import numpy as np
import pytest
from control_problems import fixed, flat_system
from free_problems import constant, cost
from plain_shooting import chosen_constants, of_solution
from shooting_problems import held, options, pendulum, reset

from ocp.problem import At, Boundary, Constraint, Duration, Phase, Problem, Status
from ocp.shooting.ilqr import solve

WAYS = ("single", "open", "feasible", "multiple")


# ---- a bouncing mass: everything in closed form
G, E = 9.81, 0.6


def ball():
    return flat_system("ball", ("z", "v"), ("push",), lambda t, x, u, p: ca.vertcat(x[1], u[0] - G))


def bouncing(drop=1.0):
    """Dropped from a height on the ground, thrown back with 0.6 of its speed, up to where it rests for an instant: both durations
    follow from the events. Effort costs; the ball needs none."""
    system = ball()
    effort = cost("effort", At.PATH, lambda t, x, u, p: u[0], 2, weights=(1.0,))
    ground = Boundary((0.0, 0.0), (True, False))
    fall = Phase("fall", system, Duration(0.1, 2.0, 0.3), constant((drop, 0), (0.0,)), fixed(drop, 0), ground, costs=(effort,))
    rise = Phase("rise", system, Duration(0.1, 2.0, 0.3), constant((0, 1), (0.0,)), final=Boundary((0.0, 0.0), (False, True)),
                 costs=(effort,), reset=reset(lambda x, p: ca.vertcat(x[0], -E * x[1]), 2))
    return Problem("bounce", (fall, rise))


@pytest.mark.parametrize("shooting", WAYS)
@pytest.mark.parametrize("hessian", ["gauss_newton", "full"])
def test_a_ball_bounces_as_it_must(shooting, hessian):
    found = solve(bouncing(), options(intervals=8, shooting=shooting, hessian=hessian))
    assert found.status is Status.CONVERGED, found.ending
    fall = np.sqrt(2 / G)
    fell, rose = found.parts
    assert fell.t[-1] == pytest.approx(fall, rel=1e-6)
    assert rose.t[-1] - rose.t[0] == pytest.approx(E * fall, rel=1e-6)
    assert rose.t[0] == fell.t[-1]
    assert fell.x[-1, 1] == pytest.approx(-G * fall, rel=1e-6)
    assert rose.x[0, 1] == pytest.approx(-E * fell.x[-1, 1], rel=1e-9)
    assert rose.x[-1, 0] == pytest.approx(E**2, rel=1e-5)
    assert found.objective == pytest.approx(0.0, abs=1e-10)
    assert set(chosen_constants(found)) == {"duration of fall", "duration of rise"}


def test_the_whole_trajectory_shows_both_sides_of_the_jump():
    found = solve(bouncing(), options(intervals=8))
    path = found.trajectory
    assert len(path.t) == 18
    assert path.t[8] == path.t[9]
    assert path.x[9, 1] == pytest.approx(-E * path.x[8, 1], rel=1e-9)
    before, after = path.state(path.t[8] - 1e-9), path.state(path.t[8] + 1e-9)
    assert before[1] < 0 < after[1]
    middle = path.t[8] + 0.4 * (path.t[-1] - path.t[8])
    speed = E * np.sqrt(2 * G)
    assert path.state(middle)[0] == pytest.approx(speed * (middle - path.t[8]) - G / 2 * (middle - path.t[8])**2, abs=1e-5)


# ---- phases that are one motion
def cut(problem, at):
    """The same motion as two phases without a reset."""
    phase = problem.phase
    first = dataclasses.replace(phase, name="one", duration=held(at), final=None,
                                costs=tuple(c for c in phase.costs if c.at is not At.FINAL))
    second = dataclasses.replace(phase, name="two", duration=held(phase.duration.guess - at), start=None,
                                 costs=tuple(c for c in phase.costs if c.at is not At.START))
    return Problem("cut", (first, second))


@pytest.mark.parametrize("shooting", WAYS)
@pytest.mark.parametrize("hessian", ["gauss_newton", "full"])
def test_two_continuous_phases_are_one(shooting, hessian):
    whole = pendulum(u_max=6.0, duration=2.0, u_guess=[[1.0], [1.0]], weight=20.0)
    one = solve(whole, options(intervals=40, hessian=hessian, shooting=shooting))
    two = solve(cut(whole, 1.0), options(intervals=20, hessian=hessian, shooting=shooting))
    assert one.status is two.status is Status.CONVERGED, (one.ending, two.ending)
    assert two.objective == pytest.approx(one.objective, rel=1e-9)
    np.testing.assert_allclose(np.vstack([part.u for part in two.parts]), one.trajectory.u, atol=2e-4)
    np.testing.assert_allclose(two.parts[0].x, one.trajectory.x[:21], atol=2e-4)
    np.testing.assert_allclose(two.parts[1].x, one.trajectory.x[20:], atol=2e-4)
    np.testing.assert_allclose(two.trajectory.t, np.insert(one.trajectory.t, 20, 1.0), atol=1e-12)
    np.testing.assert_allclose(two.extra["two.Vx"][0], one.extra["Vx"][20], atol=1e-4 * np.abs(one.extra["Vx"]).max())


def test_the_first_iterates_are_the_same_too():
    """A passage without a reset is no step: cost by cost the same search."""
    whole = pendulum(u_max=6.0, duration=2.0, u_guess=[[1.0], [1.0]], weight=20.0)
    one = solve(whole, options(intervals=40, hessian="gauss_newton", max_iterations=6, polish="never"))
    two = solve(cut(whole, 1.0), options(intervals=20, hessian="gauss_newton", max_iterations=6, polish="never"))
    np.testing.assert_allclose([row["cost"] for row in two.iterations], [row["cost"] for row in one.iterations], rtol=1e-9)


def test_prescribed_states_between_phases_hold():
    """A way point: position and speed at the end of the first phase, position alone at the start of the second."""
    system = flat_system("block", ("x", "v"), ("u",), lambda t, x, u, p: ca.vertcat(x[1], u[0]))
    effort = cost("effort", At.PATH, lambda t, x, u, p: u[0], 2, weights=(1.0,))
    one = Phase("out", system, held(1.0), constant((0, 0), (0.0,)), fixed(0, 0), fixed(1, 0), costs=(effort,))
    back = Boundary((1.0, 0.0), (True, False))
    two = Phase("back", system, held(1.0), constant((1, 0), (0.0,)), back, fixed(0, 0), costs=(effort,))
    found = solve(Problem("there and back", (one, two)), options(intervals=20))
    assert found.status is Status.CONVERGED, found.ending
    np.testing.assert_allclose(found.parts[0].x[-1], [1, 0], atol=1e-6)
    A = np.vstack([0.05**2 * (19.5 - np.arange(20)), np.full(20, 0.05)])
    u = A.T @ np.linalg.solve(A @ A.T, [1.0, 0.0])
    np.testing.assert_allclose(found.parts[0].u.ravel(), u, atol=1e-4)
    np.testing.assert_allclose(found.parts[1].u.ravel(), -u, atol=1e-4)


# ---- switching times
def switched(free):
    """x' = 1 - x + u until T, then x' = -2 x + u until 3 s in all: which T and u keep int 2 x^2 + (x - 1)^2 + 100 u^2 smallest?"""
    def system(rate):
        return flat_system("tank", ("x",), ("u",), rate)

    track = cost("track", At.PATH, lambda t, x, u, p: ca.vertcat(x[0], x[0] - 1, u[0]), 1, weights=(2.0, 1.0, 100.0))
    fill, drain = (Duration(0.1, 2.9, t) if free else held(t) for t in (1.0, 2.0))
    whole = Constraint("together", At.FINAL, _time(1), (3.0,), (3.0,))
    one = Phase("fill", system(lambda t, x, u, p: 1 - x[0] + u[0]), fill, constant((0,), (0.0,)), fixed(0), costs=(track,))
    two = Phase("drain", system(lambda t, x, u, p: -2 * x[0] + u[0]), drain, constant((0,), (0.0,)), costs=(track,),
                constraints=(whole,))
    return Problem("switched", (one, two))


def _time(nx):
    t, x, u, p = ca.SX.sym("t"), ca.SX.sym("x", nx), ca.SX.sym("u", 1), ca.SX.sym("p", 0)
    return ca.Function("time", [t, x, u, p], [t])


@pytest.mark.parametrize("shooting", ["single", "multiple"])
def test_the_best_switching_time_is_where_the_hamiltonian_is_continuous(shooting):
    """Against a scan over fixed times, which leaves only controls to choose."""
    found = solve(switched(True), options(intervals=30, hessian="full", shooting=shooting))
    assert found.status is Status.CONVERGED, found.ending
    T = found.parts[0].t[-1]
    assert found.parts[1].t[-1] == pytest.approx(3.0, abs=1e-6)
    assert 0.2 < T < 2.8

    def best(T):
        phases = [dataclasses.replace(phase, duration=held(t), constraints=())
                  for phase, t in zip(switched(False).phases, (T, 3.0 - T), strict=True)]
        return solve(Problem("fixed", tuple(phases)), options(intervals=30)).objective

    assert found.objective == pytest.approx(best(T), rel=1e-7)
    h = 1e-2
    below, above = best(T - h), best(T + h)
    assert min(below, above) > found.objective
    assert abs(above - below) / (2 * h) < 1e-3  # stationary: the slope between the two is of order h^2
    assert (above + below - 2 * found.objective) / h**2 > 0.1  # and it is a minimum worth the name


def test_a_solution_of_phases_follows_the_plain_rollout():
    found = solve(bouncing(), options(intervals=8))
    motion = of_solution(found)
    for mine, theirs in zip(found.parts, motion.x, strict=True):
        np.testing.assert_allclose(mine.x, theirs, atol=1e-9)
    assert motion.cost == pytest.approx(found.objective, abs=1e-12)
