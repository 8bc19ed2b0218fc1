"""First files: every one has a reference found by another road, and certified objectives lie within their bars."""

from importlib import metadata

import pytest
from repository import ROOT

from ocp.app.files.load import load_problem, load_text
from ocp.errors import ProblemError
from ocp.methods import solve

FILES = {file.stem: file for file in sorted((ROOT / "tests" / "first_files").glob("*.yaml"))}
CHEAP = ("batch_reactor", "crane_move", "hot_rod", "jacobson_lele", "nagurka", "stirred_tank", "tunnel_diode", "vaccination")
#: certified in some seconds
SLOW = ("alp_rider", "aly_chan", "bang_bang_300m", "detumbling", "fishing", "immunology", "iris_hop",
        "isothermal_tank", "kinova_move", "kinova_pose", "linear_tangent_steering", "missile_turn", "mountain_car",
        "orbit_transfer", "oscillator_min_time", "panda_min_time", "panda_move", "panda_pose", "parallel_reactions", "saving",
        "singular_regulator", "solo_righting", "speed_limit_effort", "talos_move", "talos_pose", "triple_integrator",
        "tuberculosis", "tumour", "two_discs", "ur10_pose", "ur5_move", "ur5_pose", "van_der_pol_min_time")
MOVE = """
name: Move
reference: {REFERENCE}
system: {states: {x: m}, controls: {v: m/s}, dynamics: {x: v}}
phase:
  duration: 1
  start: {x: 0}
  final: {x: 1}
  costs: [{name: effort, running: v**2}]
"""


def outside(name):
    """By how much a certified objective misses its reference more than its bar and the error of the reference allow."""
    if "robots:" in FILES[name].read_text(encoding="utf-8") and not list(metadata.distributions(name="example-robot-data")):
        pytest.skip("the robots extra is not installed")
    problem = load_problem(FILES[name]).problem
    found, reference = solve(problem), problem.reference
    assert found.ok, found.certificate.failures
    size = 1 + abs(reference.objective)
    return abs(found.objective - reference.objective) - found.certificate.error_bound - reference.error - 1e-9 * size


@pytest.mark.parametrize("name", CHEAP)
@pytest.mark.sample(3)
def test_certified_objectives_lie_within_their_error_bounds(name):
    assert outside(name) <= 0


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_all_certified_objectives_lie_within_their_error_bounds(name):
    assert outside(name) <= 0


def test_every_first_file_says_what_is_right():
    missing = [name for name, file in FILES.items() if "\nreference: {" not in file.read_text(encoding="utf-8")]
    assert not missing


def test_a_reference_says_how_far_it_may_be_off():
    def reference(words):
        return load_text(MOVE.replace("REFERENCE", words)).problem.reference

    assert reference("objective: 1").error == 0
    assert reference("objective: 1, error: 5e-4").error == 5e-4
    with pytest.raises(ProblemError, match=r"reference\.error.*must not be negative, got -0\.1"):
        reference("objective: 1, error: -0.1")
