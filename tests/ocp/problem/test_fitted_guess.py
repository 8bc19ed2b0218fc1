"""Guesses fitted to the dynamics: controls against closed forms, states against solutions of the differential equation."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from repository import ROOT

from ocp.app.files.load import load_problem
from ocp.guesses.fitted import simulated, with_fitted_controls
from ocp.guesses.sampling import INTERVALS
from ocp.methods import solve
from ocp.problem import At, Boundary, Constraint, Duration, Guess, Phase, Problem, System
from ocp.spaces import euclidean

INF = float("inf")


def problem(rate, ends, controls=1, duration=None, **more):
    """rate: (t, x, u) -> expressions; ends [2, nx]: of the guess, without controls."""
    ends = np.array(ends, dtype=float)
    n = ends.shape[1]
    t, x, u, p = (ca.SX.sym(*pair) for pair in (("t", 1), ("x", n), ("u", controls), ("p", 0)))
    names = tuple(f"x{i}" for i in range(n))
    system = System("one", euclidean(names), tuple(f"u{i}" for i in range(controls)),
                    ca.Function("rate", [t, x, u, p], [ca.vertcat(*rate(t, x, u))]))
    guess = Guess(np.array([0.0, 1.0]), ends, more.pop("u", np.zeros((2, controls))))
    return Problem("one", (Phase("one", system, duration or Duration(2.0, 2.0, 2.0), guess, **more),))


def test_controls_carry_the_guess_of_the_states():
    """x' = exp(u) - x along x = 1 + t/2 asks for u = log(1/2 + x)."""
    found = with_fitted_controls(problem(lambda t, x, u: [ca.exp(u) - x], [[1], [2]])).phase.guess
    inside = (found.s > 0) & (found.s < 1)
    assert np.allclose(found.u[inside, 0], np.log(1.5 + found.s[inside]), atol=1e-4)
    assert np.allclose(found.x[:, 0], 1 + found.s)
    assert len(found.s) == INTERVALS + 2


def test_a_free_duration_is_fitted_with_them():
    """A boat of speed 2 over still water: 100 m take 50 s, and the heading is the direction."""
    boat = problem(lambda t, x, u: [2 * ca.cos(u), 2 * ca.sin(u)], [[0, 0], [60, 80]], duration=Duration(1.0, 600.0, 300.0))
    found = with_fitted_controls(boat).phase
    assert found.duration.guess == pytest.approx(50, rel=1e-3)
    assert np.allclose(found.guess.u[:, 0], np.arctan2(80, 60), atol=1e-3)
    assert with_fitted_controls(replace(boat, phases=(replace(boat.phase, duration=Duration(80.0, 600.0, 300.0)),))
                                ).phase.duration.guess == 80.0


def test_bounds_hold_and_time_counts():
    """x' = u + t along x = 0 asks for u = -t, down to the bound."""
    found = with_fitted_controls(problem(lambda t, x, u: [u + t], [[0], [0]], u_lower=(-1.0,), u_upper=(3.0,))).phase.guess
    inside = (found.s > 0) & (found.s < 1)
    assert np.allclose(found.u[inside, 0], np.maximum(-2 * found.s[inside], -1), atol=1e-5)


@pytest.mark.parametrize("given", [
    problem(lambda t, x, u: [u], [[1], [2]], u=np.ones((2, 1))),                  # controls of the user
    problem(lambda t, x, u: [x[1], u], [[0, 0], [1, 0]]),                         # rest to rest: no control is better than none
    problem(lambda t, x, u: [ca.log(u - 1)], [[1], [2]])], ids=["given", "at rest", "no number"])
def test_nothing_is_fitted_where_nothing_is_to_gain(given):
    assert with_fitted_controls(given) is None


def test_a_simulation_gives_the_states():
    """x' = t - x + u from x = 3 with u = 1: x = t + 3 exp(-t)."""
    found = simulated(problem(lambda t, x, u: [t - x + u], [[3], [0]], u=np.ones((2, 1)))).phase.guess
    t = 2 * found.s
    assert np.allclose(found.x[:, 0], t + 3 * np.exp(-t), atol=1e-5)
    assert np.all(found.u == 1)


def test_a_simulation_stays_within_bounds():
    found = simulated(problem(lambda t, x, u: [-1 - u], [[1], [1]], x_lower=(0.0,), x_upper=(INF,))).phase.guess
    assert np.allclose(found.x[:, 0], np.maximum(1 - 2 * found.s, 0), atol=1e-6)


@pytest.mark.parametrize("given", [
    problem(lambda t, x, u: [x**2 + u], [[1], [1]]),                              # runs away at t = 1
    problem(lambda t, x, u: [u], [[1], [2]], final=Boundary((2.0,), (True,))),
    problem(lambda t, x, u: [u], [[1], [2]], constraints=(Constraint("end", At.FINAL, ca.Function(
        "end", [ca.SX.sym(*pair) for pair in (("t", 1), ("x", 1), ("u", 1), ("p", 0))], [1.0]), (0.0,), (INF,)),))],
    ids=["away", "final", "end"])
def test_nothing_is_simulated_where_a_simulation_says_nothing(given):
    assert simulated(given) is None


def test_a_boat_finds_its_heading():
    """From a heading along the river, headings end in branches far apart; the fitted one crosses."""
    loaded = load_problem(ROOT / "tests" / "first_files" / "river.yaml")
    found = solve(loaded.problem, "collocation")
    assert found.ok, found.ending
    assert found.freeze["guess"] == "dynamics"
    assert found.objective == pytest.approx(loaded.problem.reference.objective, rel=1e-8)
