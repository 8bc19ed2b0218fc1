"""Quadrupeds on their feet, solved and certified as their files stand, by no option."""

from importlib import metadata

import numpy as np
import pytest

from ocp.app.files.load import load_problem, load_text
from ocp.app.robot import read_robot
from ocp.app.starter.write import write_starter
from ocp.certify.consistent import Consistent
from ocp.methods import solve

if not list(metadata.distributions(name="example-robot-data")):
    pytest.skip("needs the extra robots", allow_module_level=True)

LEGS = "FL", "FR", "HL", "HR"


def head(robot, feet):
    held = "".join(f"\n    - {{name: {foot}, contact: {{frame: {foot}, friction: 0.7, clearance: 0}}}}" for foot in feet)
    return f"\nname: A quadruped\nsystem:\n  robot: robots:{robot}\n  root: free_flyer\n  constraints:{held}"


HEAD = head("solo12", [f"{leg}_FOOT" for leg in LEGS])
STANDS = '{configuration: straight_standing, base: {position: [0, 0, "0.32*cos(0.8)"], rpy: [0, 0, 0]}, rest: true}'
COSTS = """
    costs:
      - {name: effort, running: "dot(tau, tau)"}
      - {name: calm, running: "0.01*dot(v, v)"}
"""
SQUAT = HEAD + f"""
phase:
    duration: 0.6
    start: {STANDS}
    final: {{base: {{position: [0, 0, 0.14], rpy: [0, 0, 0]}}, rest: true}}{COSTS}"""


@pytest.mark.slow
def test_a_squat_on_four_feet():
    """By inverse dynamics, where accelerations are the controls, the optimum is 1.010334 as well."""
    found = solve(load_text(SQUAT).problem)
    assert found.ok
    assert found.objective == pytest.approx(1.010334, rel=1e-5)
    assert len(found.iterations) < 60


@pytest.mark.slow
@pytest.mark.parametrize(("robot", "feet", "high", "low", "objective"), [
    ("go1", "{}_foot FL FR RL RR", 0.2538264027606626, 0.17382640276066258, 69.14385),
    ("anymal_b_simple/anymal", "{}_FOOT LF LH RF RH", 0.47919786726847047, 0.35919786726847047, 279.99724)])
def test_squats_of_other_robots(robot, feet, high, low, objective):
    """Forces stay in their cones, whatever a robot weighs."""
    form, *legs = feet.split()
    found = solve(load_text(head(robot, map(form.format, legs)) + f"""
phase:
    duration: 0.6
    start: {{configuration: standing, base: {{position: [0, 0, {high}], rpy: [0, 0, 0]}}, rest: true}}
    final: {{base: {{position: [0, 0, {low}], rpy: [0, 0, 0]}}, rest: true}}{COSTS}""").problem)
    assert found.ok, found.certificate.failures
    assert found.objective == pytest.approx(objective, rel=1e-4)
    inside_cones(found, 1e-3)


JUMP = HEAD + f"""
phases:
  - name: push
    contacts: [FL_FOOT, FR_FOOT, HL_FOOT, HR_FOOT]
    duration: 0.4
    start: {STANDS}{COSTS}
  - name: flight
    contacts: []
    duration: 0.25{COSTS}
  - name: landing
    contacts: [FL_FOOT, FR_FOOT, HL_FOOT, HR_FOOT]
    reset: {{impact: true}}
    duration: 0.4
    final: {{base: {{position: [0, 0, "0.32*cos(0.8)"], rpy: [0, 0, 0]}}, rest: true}}{COSTS}"""


@pytest.mark.slow
@pytest.mark.parametrize("formulation", ["residual", "forward_dynamics"])
def test_a_jump_in_place(formulation):
    """Push, flight and landing by impact. Two programs, whose flights are algebraic and explicit, end at the same optimum."""
    found = solve(load_text(JUMP.replace("  root:", f"  formulation: {formulation}\n  root:")).problem)
    assert found.ok, found.certificate.failures
    assert found.objective == pytest.approx(1.1652, rel=2e-4)
    assert len(found.iterations) < 120


def inside_cones(found, part):
    """Forces leave their cones by no more than this part of the largest, by the equations of motion at times between those of any
    mesh."""
    for phase, path in zip(found.problem.phases, found.parts or (found.trajectory,), strict=True):
        t = np.linspace(path.t[0], path.t[-1] - 1e-9, 501)[None, :]
        x, p = path.state(t[0]), np.zeros((phase.system.np, t.size))
        u = Consistent(phase.system).solved(t[0], x, path.control(t[0]), p)
        for c in phase.constraints:
            if c.name.endswith("friction"):
                force = np.asarray(c.function(t, x.T, u.T, p))
                assert np.max(np.linalg.norm(force[1:], axis=0) - force[0]) < part * np.max(force[0])


@pytest.mark.slow
@pytest.mark.parametrize(("gait", "robot", "objective", "meshes"), [
    ("trot", "solo12", 1.78144, 4), ("trot", "go1", 133.1497, 4), ("trot", "anymal_c_simple/anymal", 1573.42, 4),
    ("walk", "solo12", 3.78816, 5)])
def test_a_gait_as_it_is_written(gait, robot, objective, meshes, tmp_path):
    """Without any option."""
    named = read_robot(f"robots:{robot}", root="free_flyer")
    found = solve(load_problem(write_starter(named, "gait", gait=gait, out=tmp_path / "gait.yaml")).problem)
    assert found.ok, found.certificate.failures
    assert found.objective == pytest.approx(objective, rel=1e-4)
    assert len(found.extra["refinement"]) <= meshes
    inside_cones(found, 2e-4)
