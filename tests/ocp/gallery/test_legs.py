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
HEAD = """
name: Solo
system:
  robot: robots:solo12
  root: free_flyer
  constraints:""" + "".join(f"\n    - {{name: {leg}, contact: {{frame: {leg}_FOOT, friction: 0.7, clearance: 0}}}}" for leg in LEGS)
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


JUMP = HEAD + f"""
phases:
  - name: push
    contacts: [FL, FR, HL, HR]
    duration: 0.4
    start: {STANDS}{COSTS}
  - name: flight
    contacts: []
    duration: 0.25{COSTS}
  - name: landing
    contacts: [FL, FR, HL, HR]
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


@pytest.mark.slow
@pytest.mark.parametrize(("robot", "objective"), [("solo12", 1.78144), ("go1", 133.1497), ("anymal_c_simple/anymal", 1573.42)])
def test_a_trot_as_it_is_written(robot, objective, tmp_path):
    """Forces stay in their cones, evaluated from the equations of motion at times between those of any mesh."""
    named = read_robot(f"robots:{robot}", root="free_flyer")
    found = solve(load_problem(write_starter(named, "gait", gait="trot", out=tmp_path / "trot.yaml")).problem)
    assert found.ok, found.certificate.failures
    assert found.objective == pytest.approx(objective, rel=1e-4)
    assert len(found.extra["refinement"]) <= 4
    for phase, part in zip(found.problem.phases, found.parts, strict=True):
        t = np.linspace(part.t[0], part.t[-1] - 1e-9, 501)[None, :]
        x = part.state(t[0])
        u = Consistent(phase.system).solved(t[0], x, part.control(t[0]), np.zeros((phase.system.np, t.size)))
        for c in phase.constraints:
            if c.name.endswith("friction"):
                force = np.asarray(c.function(t, x.T, u.T, np.zeros((phase.system.np, t.size))))
                assert np.max(np.linalg.norm(force[1:], axis=0) - force[0]) < 2e-4 * np.max(force[0])
