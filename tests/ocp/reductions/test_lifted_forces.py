"""Forces of contacts as unknowns: the optimum and the controls of the problem in forward dynamics."""

import numpy as np
import pytest
from repository import ROOT

from ocp.app.files.load import load_text
from ocp.guesses.motion import from_motion
from ocp.methods import make_options, method, solve
from ocp.reductions.lifted_forces import LiftedForces

SQUAT = f"""
name: Hopper squats
system:
  robot: {ROOT / "problems/models/hopper.urdf"}
  formulation: forward_dynamics
  actuated: [hip, knee]
  constraints: [{{name: foot, contact: {{frame: foot, friction: 0.5}}}}]
phase:
  duration: 0.5
  start: {{joints: {{base_pitch: 0, hip: -0.45, knee: 0.9}}, rest: true, others: assembled}}
  final: {{joints: {{base_pitch: 0, hip: -0.65, knee: 1.3}}, rest: true}}
  costs:
    - {{name: effort, running: "hip**2 + knee**2"}}
    - {{name: push, running: '0.1*constraint_force("foot")[0]**2'}}
"""
MESH = {"scheme": "radau", "intervals": 6, "degree": 3}


@pytest.mark.slow
def test_the_optimum_is_that_of_forward_dynamics(monkeypatch):
    """Cones that press and a cost of force, on one mesh: the program without unknowns for forces has the same solution, as
    closely as the solver leaves its barrier."""
    problem = load_text(SQUAT).problem
    lifted = solve(problem, "collocation", {**MESH, "guess": "given"})
    monkeypatch.setattr(LiftedForces, "needed", lambda self, options: False)
    plain = solve(from_motion(problem, (lifted.trajectory,), {}), "collocation", {**MESH, "guess": "given"})
    assert lifted.objective == pytest.approx(plain.objective, rel=1e-5)
    np.testing.assert_allclose(lifted.trajectory.x, plain.trajectory.x, atol=1e-4)
    np.testing.assert_allclose(lifted.trajectory.u, plain.trajectory.u, atol=1e-3)
    assert lifted.problem.phases[0].system is problem.phases[0].system


def test_only_what_holds_forces_is_lifted():
    """The cone becomes a function of forces alone; a robot without contacts, and loops over the model, keep their form."""
    problem = load_text(SQUAT).problem
    collocation = method("collocation")
    reduced = collocation.reduce(problem, make_options("collocation", MESH))
    cone = next(c for c in reduced.phases[0].constraints if "friction" in c.name).function
    assert cone.jac_sparsity(0, 1).nnz() == 0
    assert set(cone.jac_sparsity(0, 2).get_col()) <= set(range(reduced.phases[0].system.nu - 3, reduced.phases[0].system.nu))
    assert reduced.phases[0].system.controls == problem.phases[0].system.controls
    for text, options in ((SQUAT, {**MESH, "execution": "loops"}), (SQUAT.replace("friction: 0.5", "unilateral: false").split(
            "    - {name: push")[0], MESH)):
        same = collocation.reduce(load_text(text).problem, make_options("collocation", options))
        assert all(phase.system.residual is None for phase in same.phases)
