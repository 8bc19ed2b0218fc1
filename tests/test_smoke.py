"""Every method on a problem with a known answer, and on one whose stationary point is not to be certified."""

import hostile
import pytest
from repository import ROOT

from ocp.app.files.load import load_problem, load_text
from ocp.errors import UnsupportedError
from ocp.methods import METHODS, solve

pytestmark = pytest.mark.smoke
# a pendulum that hangs still is stationary for a cost that rewards swinging: a saddle
SADDLES = {load_text(case.text).method: case for case in hostile.cases() if case.family == "saddle"}
MOVE = """
name: Block move
system:
  states: {x: m, v: m/s}
  controls: {force: N}
  dynamics: {x: v, v: force}
phase:
  duration: 1.0
  start: {x: 0, v: 0}
  final: {x: 1, v: 0}
  costs: [{name: effort, running: "force**2"}]
solve: {method: %s}
"""


@pytest.mark.parametrize("method", [name for name in METHODS if name != "adjoint"])
def test_a_block_moves_at_least_effort(method):
    loaded = load_text(MOVE % method)
    solution = solve(loaded.problem, method, loaded.method_options)
    assert solution.ok
    assert solution.objective == pytest.approx(12.0, rel=1e-3)  # held over the steps: 12 n^2 / (n^2 - 1)


@pytest.mark.parametrize("method", [name for name in METHODS if name != "adjoint"])
def test_a_saddle_is_not_certified(method):
    case = SADDLES[method]
    loaded = load_text(case.text)
    solution = solve(loaded.problem, loaded.method, loaded.method_options)
    assert case.deserves(solution.ok, solution.objective)


def test_adjoint_gradients_end_where_they_vanish_and_refuse_what_they_cannot_hold():
    problem = load_problem(ROOT / "problems/spring_arm_design.yaml").problem
    solution = solve(problem, "adjoint", {"intervals": 5, "tolerance": 1e-4})
    assert solution.certificate.stationarity.holds
    with pytest.raises(UnsupportedError, match="write a cost"):
        solve(load_text(MOVE % "collocation").problem, "adjoint")
