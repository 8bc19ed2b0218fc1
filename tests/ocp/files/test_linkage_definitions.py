"""Definitions of a system at the ends of phases, and angular momentum in expressions: values and messages."""

import casadi as ca
import numpy as np
import pytest

from dynamics import algorithms as alg
from ocp.app.files.load import load_text
from ocp.errors import ProblemError
from ocp.methods import solve

SYMBOLIC = """
name: spring
system:
  states: {{x: m, v: m/s}}
  controls: {{f: N}}
  define: {{E: "(v**2 + k*x**2)/2", P: f*v, late: t*x}}
  dynamics: {{x: v, v: f - k*x}}
parameters: {{k: {{value: 1, optimise: [0.5, 4]}}}}
phase:
  duration: 1
  start: {{x: 1, others: free}}
  costs: [{{name: effort, running: "f**2"}}]
linkages:
  - {{name: energy, expression: '{expression}', equal: 0}}
solve: {{method: collocation, collocation: {{intervals: 10}}}}
"""

ROBOT = """
name: acrobot
system:
  robot: problems/models/acrobot.urdf
  define: {{L: '{momentum}', push: 'tau["elbow"]'}}
phase:
  duration: 1
  start: {{joints: {{shoulder: 0.3, elbow: 0.2}}, rest: true}}
  costs: [{{name: effort, control_error: 0}}]
linkages:
  - {{name: momentum, expression: 'final["L"]', equal: 0.5}}
solve: {{method: collocation, collocation: {{intervals: 10}}}}
"""
SUBTREE = 'angular_momentum("lower", "tip")[1]'


def test_a_definition_has_the_value_of_its_state_and_parameter():
    problem = load_text(SYMBOLIC.format(expression='start["E"] - 2*final["E"] + duration')).problem
    (linkage,) = problem.linkages
    assert linkage.parameters == ("k",)
    x0, x1, k = np.array([0.3, -0.7]), np.array([1.1, 0.4]), 2.5

    def energy(x):
        return (x[1] ** 2 + k * x[0] ** 2) / 2

    assert float(linkage.function(x0, x1, 1.7, k)) == pytest.approx(energy(x0) - 2 * energy(x1) + 1.7)


def test_it_holds_at_the_solution():
    solution = solve(load_text(SYMBOLIC.format(expression='final["E"] - 3')).problem, "collocation", {"intervals": 10})
    assert solution.ok, solution.certificate.failures
    x, k = solution.trajectory.x[-1], float(solution.problem.phase.system.parameter_values[0])
    assert (x[1] ** 2 + k * x[0] ** 2) / 2 == pytest.approx(3, abs=1e-7)


def test_durations_alone_may_be_linked():
    text = SYMBOLIC.format(expression="duration - 1.5").replace("duration: 1\n", "duration: {lower: 0.5, upper: 4, guess: 1}\n")
    solution = solve(load_text(text).problem, "collocation", {"intervals": 10})
    assert solution.ok, solution.certificate.failures
    assert solution.trajectory.t[-1] == pytest.approx(1.5, abs=1e-9)
    with pytest.raises(ProblemError, match="no free duration"):
        load_text(SYMBOLIC.format(expression="duration - 1.5"))


@pytest.mark.parametrize(("expression", "words"), [
    ('final["P"]', "'P' depends on time or on controls"),
    ('start["late"]', "'late' depends on time or on controls"),
    ('final["EE"]', "did you mean 'E'"),
    ("E", "unknown name 'E'"),
])
def test_what_an_end_cannot_know_is_refused(expression, words):
    with pytest.raises(ProblemError, match=words):
        load_text(SYMBOLIC.format(expression=expression))


def test_definitions_of_phases_go_by_the_phase():
    text = """
name: ball
constants: {g: 9.81}
parameters: {kept: {value: 0.9, optimise: [0.1, 1]}}
system:
  states: {h: m, v: m/s}
  define: {E: "v**2/2 + g*h"}
  dynamics: {h: v, v: -g}
phases:
  - {name: fall, duration: {lower: 0.1, upper: 2, guess: 0.4}, start: {h: 1, v: 0}, final: {h: 0}, costs: []}
  - {name: rise, duration: {lower: 0.01, upper: 0.3, guess: 0.1}, reset: {v: -kept*v}, costs: [{name: time, final: t}]}
linkages:
  - {name: half the energy, expression: 'final["rise.E"] - final["fall.E"]/2', equal: 0}
  - {name: below, expression: 'final["rise.h"] - start["fall.h"]/4', equal: 0}
"""
    solution = solve(load_text(text).problem, "collocation", {"intervals": 5, "scheme": "gauss", "degree": 2})
    assert solution.ok, solution.certificate.failures
    up = np.sqrt(9.81)  # speed after the bounce; the quarter of a metre is passed on the way up
    assert solution.objective == pytest.approx(np.sqrt(2 / 9.81) + (up - np.sqrt(up**2 - 9.81 / 2)) / 9.81, rel=1e-9)
    with pytest.raises(ProblemError, match="did you mean .*'rise.E'"):
        load_text(text.replace('final["rise.E"]', 'final["rise.e"]'))


def test_angular_momentum_in_a_file():
    loaded = load_text(ROBOT.format(momentum=SUBTREE))
    (linkage,) = loaded.problem.linkages
    x = np.random.default_rng(1).standard_normal(4)
    poses, twists = alg.body_poses(loaded.model, ca.DM(x[:2])), alg.body_velocities(loaded.model, ca.DM(x[:2]), ca.DM(x[2:]))
    R, p, twist = np.array(poses[1].R), np.array(poses[1].p).ravel(), np.array(twists[1]).ravel()
    com, tip = R @ [0, 0, -0.5] + p, R @ [0, 0, -1] + p
    velocity = R @ (twist[:3] + np.cross(twist[3:], [0, 0, -0.5]))
    expected = 1.0 * np.cross(com - tip, velocity)[1] + (x[2] + x[3]) / 12
    assert float(linkage.function(x, 1.0, [])) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("momentum", "words"), [
    ('angular_momentum("lower")[1]', "takes 2 frame names in quotes"),
    ('angular_momentum("lower", 3)[1]', "takes 2 frame names in quotes"),
    ('angular_momentum("lowr", "upper")[1]', "lower"),
    ('angular_momentum("lower", "uper")[1]', "upper"),
    ('angular_momentum("lower", "upper")', "3 components"),
])
def test_wrong_calls_are_refused(momentum, words):
    with pytest.raises(ProblemError, match=words):
        load_text(ROBOT.format(momentum=momentum))


def test_an_effort_is_not_known_at_an_end():
    with pytest.raises(ProblemError, match="'push' depends on time or on controls"):
        load_text(ROBOT.format(momentum=SUBTREE).replace('final["L"]', 'final["push"]'))
