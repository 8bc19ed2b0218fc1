"""Quadrupeds on their feet, solved and certified as their files stand, by no option."""

from importlib import metadata

import pytest

from ocp.app.files.load import load_text
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
