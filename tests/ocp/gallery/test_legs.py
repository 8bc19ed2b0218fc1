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
