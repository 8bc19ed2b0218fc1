"""Crocoddyl's gaits of ANYmal as files: their definitions agree with Crocoddyl's to the last term, and iLQR finds their optima."""

import pytest
from crocoddyl_gaits import GAITS, agreement, gait, probe

from dynamics.errors import ModelError
from dynamics.model.robots import robot_paths
from ocp.methods import make_options
from ocp.problem import Status
from ocp.shooting.ilqr import solve

try:
    PATHS = robot_paths()
except ModelError:
    PATHS = {}
pytestmark = [pytest.mark.skipif(not PATHS, reason="the robots extra is not installed"), pytest.mark.slow]

# Cost of ``probe`` and sum of squares of where its nodes lead, by Crocoddyl 3.2.1 with Pinocchio 4.0.0:
# tests/benchmarks/crocoddyl_set.py --agreement
BY_CROCODDYL = {
    "anymal_trot": (3639145.216732559, 30254.69913610792),
    "anymal_walk": (4528367.5781218, 40099.24520589549),
}


@pytest.mark.parametrize("name", GAITS)
def test_definitions_agree_with_crocoddyl(name):
    """Contacts with their stabilisation, impacts, barriers of friction and of limits, tracking, regularisation, quadrature."""
    problem = gait(name)
    assert agreement(problem, *probe(problem)) == pytest.approx(BY_CROCODDYL[name], rel=1e-11)


@pytest.mark.parametrize("name", GAITS)
def test_optima_of_crocoddyl_in_its_number_of_iterations(name):
    """Until the cost is within 1e-9 of the optimum. Crocoddyl counts its first iteration as number 0."""
    solution = solve(gait(name), make_options("ilqr", {"shooting": "feasible", "hessian": "gauss_newton"}))
    assert solution.status is Status.CONVERGED, solution.ending
    assert solution.objective == pytest.approx(GAITS[name].cost, rel=1e-9)
    close = next(i for i, row in enumerate(solution.iterations) if abs(row["cost"] / GAITS[name].cost - 1) <= 1e-9)
    assert close <= GAITS[name].iterations + 1
