"""Path equations on the state: index reduction, against the same motions in coordinates that need no equation."""

import casadi as ca
import numpy as np
import pytest
from scipy.integrate import quad, solve_bvp

from ocp.app.files.load import load_text
from ocp.methods import solve
from ocp.problem import At
from ocp.reductions import chain_of, redundant

CIRCLE = """
name: half a turn on a circle
system: {states: {x: m, y: m, vx: m/s, vy: m/s}, controls: {fx: N, fy: N}, dynamics: {x: vx, y: vy, vx: fx, vy: fy}}
phase:
  duration: 1
  start: {x: 1, y: 0, vx: 0, vy: 0}
  final: {x: -1, y: 0, vx: 0, vy: 0}
  costs: [{name: effort, running: fx**2 + fy**2}]
  constraints: [{name: circle, expression: x**2 + y**2, equal: 1}]
  guess: {states: {x: [1, 0, -1], y: [0, 1, 0]}}
"""
FREE, REST = "start: {x: 1, y: 0, others: free}", "start: {x: 1, y: 0, vx: 0, vy: 0}"


def least_effort(at_rest):
    """Of the angle: least integral of th''^2 + th'^4, so that th'''' = 6 th'^2 th''; from rest, or with any speed at the start."""
    def ends(a, b):
        return np.array([a[0], a[1] if at_rest else a[2], b[0] - np.pi, b[1]])

    t = np.linspace(0, 1, 50)
    found = solve_bvp(lambda t, y: np.array([y[1], y[2], y[3], 6 * y[1]**2 * y[2]]), ends, t,
                      np.array([np.pi * t, np.pi + 0 * t, 0 * t, 0 * t]), tol=1e-6)
    assert found.success
    return quad(lambda s: found.sol(s)[2]**2 + found.sol(s)[1]**4, 0, 1)[0]


def reduced(text):
    return chain_of(["hidden_constraints"]).apply(load_text(text).problem)


@pytest.mark.parametrize("at_rest", [True, False])
def test_half_a_turn_costs_what_it_does_in_the_angle(at_rest):
    given = load_text(CIRCLE if at_rest else CIRCLE.replace(REST, FREE)).problem
    found = solve(given)
    assert found.ok, found.certificate.failures
    true = least_effort(at_rest)
    assert found.objective == pytest.approx(true, rel=1e-5)
    assert abs(found.objective - true) <= found.certificate.error_bound
    assert found.problem.phase.constraints == given.phase.constraints
    assert found.problem.phase.final == given.phase.final
    assert np.abs(np.sum(found.trajectory.x[:, :2]**2, axis=1) - 1).max() <= 4e-6  # of a range of 2, twice the gradient


def test_the_equation_becomes_its_second_derivative_and_hidden_ones_hold_at_a_free_start():
    phase = reduced(CIRCLE.replace(REST, FREE)).phase
    path, start, branch = phase.constraints
    x, u = np.array([0.3, -2.0, 0.7, 1.1]), np.array([0.4, -0.6])
    second = 2 * (x[2:] @ x[2:] + x[:2] @ u)
    assert float(path.function(0, x, u, [])) == pytest.approx(second)
    assert (start.at, start.size) == (At.START, 1)  # x and y are given: that the velocity is a tangent is all that is left
    assert float(start.function(0, x, u, [])) == pytest.approx(2 * x[:2] @ x[2:])
    assert (branch.at, branch.labels, branch.lower, branch.upper) == (At.FINAL, ("x",), (-2.0,), (0.0,))
    assert phase.start.fixed == (True, True, False, False)
    free = reduced(CIRCLE.replace(REST, "start: {y: 0, vy: 3, others: free}")).phase.constraints[1]
    assert np.asarray(free.function(0, x, u, [])).ravel() == pytest.approx([x[:2] @ x[:2] - 1, 2 * x[:2] @ x[2:]])


def test_prescribed_components_that_follow_are_left_out():
    problem = reduced(CIRCLE)
    assert problem.phase.start.complete  # no row is needed there, and none may be left open
    assert len(problem.phase.constraints) == 2
    assert problem.phase.final.fixed == (False, True, False, True)
    assert redundant(problem).final == ((True, False, True, False),)


def test_velocities_that_an_equation_ties_have_index_two():
    text = CIRCLE.replace("x**2 + y**2, equal: 1", "vx - 2*vy, equal: 0").replace("x: -1, y: 0,", "x: 3, y: 1,")
    problem = reduced(text)
    assert float(problem.phase.constraints[0].function(0, [0, 0, 5, 6], [3, 7], [])) == pytest.approx(3 - 2 * 7)
    assert problem.phase.final.fixed.count(True) == 3


@pytest.mark.parametrize(("old", "new"), [
    (REST, "start: {x: 1, y: 0, vx: 1, vy: 0}"),  # leaves the circle at once
    ("equal: 1", "upper: 1"), ("x**2 + y**2, equal: 1", "x*fx + y*fy, equal: 1"),
    ("x: vx, y: vy, vx: fx, vy: fy", "x: vx, y: vy, vx: 0, vy: 0"),  # no control can keep it
    ("name: circle", "at: final, name: circle")])
def test_what_is_no_such_equation_or_cannot_hold_stays(old, new):
    given = load_text(CIRCLE.replace(old, new)).problem
    assert chain_of(["hidden_constraints"]).apply(given) is given


def test_equations_that_ask_for_more_than_the_controls_stay():
    text = CIRCLE.replace("equal: 1}]", "equal: 1}, {name: twice, expression: 2*x**2 + 2*y**2, equal: 2}]")
    given = load_text(text).problem
    assert chain_of(["hidden_constraints"]).apply(given) is given


def test_explicit_time_counts():
    text = CIRCLE.replace("x**2 + y**2, equal: 1", "x - cos(3*t), equal: 0").replace("final: {x: -1, y: 0, vx: 0, vy: 0}",
                                                                                 "final: {y: 0.5, vy: 0}")
    problem = reduced(text)
    t, u = 0.4, [1.5, 0.0]
    assert float(problem.phase.constraints[0].function(t, [0] * 4, u, ca.DM(0, 1))) == pytest.approx(1.5 + 9 * np.cos(3 * t))
