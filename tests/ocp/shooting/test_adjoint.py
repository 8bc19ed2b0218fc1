"""Single shooting by adjoint gradients: gradients against differences, the optimum of DDP, what it refuses and how it fails."""

from dataclasses import replace

import numpy as np
import pytest
from repository import ROOT
from rescaled import Units, rescaled

from ocp.app.files.load import load_problem
from ocp.app.pipeline import body_poses, drawn
from ocp.errors import ProblemError, UnsupportedError
from ocp.methods import METHODS, make_options, solve
from ocp.problem import Kind, with_parameters
from ocp.shooting import adjoint, ilqr
from ocp.shooting.adjoint import AdjointOptions, Shot, unsupported
from ocp.shooting.stages.horizon import build


def loaded(name="spring_arm_design"):
    return load_problem(ROOT / f"problems/{name}.yaml")


@pytest.mark.parametrize("integrator", ["bdf1", "sdirk2", "bdf2"])
def test_gradients_against_differences(integrator):
    """By torques, the length of a link and stiffnesses together, within 1e-6 of what they are large by."""
    shot = Shot(build(loaded().problem, AdjointOptions(integrator=integrator, intervals=12).steps()), "auto")
    u = np.random.default_rng(3).normal(size=int(shot.filled.sum()))
    u[:3] = 0.1, 6.0, 4.0
    shot.value(u)
    slope = shot.gradient()
    for i in range(len(u)):
        step = 1e-5 * np.eye(len(u))[i] * max(1.0, abs(u[i]))
        expected = (shot.value(u + step) - shot.value(u - step)) / (2 * step[i])
        assert slope[i] == pytest.approx(expected, rel=1e-6, abs=1e-7 * np.abs(slope).max()), i


def test_the_optimum_is_that_of_ddp():
    problem = loaded().problem
    one = solve(problem, "adjoint", {"intervals": 5, "tolerance": 1e-5})
    other = ilqr.solve(problem, ilqr.ILQROptions(integrator="sdirk2", intervals=5))
    assert one.status.name == other.status.name == "CONVERGED"
    assert one.objective == pytest.approx(other.objective, rel=3e-7)  # 1e-7 is what is left of the gradient at 1e-5
    assert one.certificate.stationarity.holds
    assert one.extra["gradient"].shape == (3 + 10,)


@pytest.mark.slow
def test_iterations_are_those_of_the_same_cost_in_another_unit():
    first, other = (solve(rescaled(loaded().problem, Units(cost=by)), "adjoint",
                          {"intervals": 5, "max_iterations": 12, "kernels": "interpreted"}) for by in (1.0, 2.0**30))
    assert len(first.iterations) == len(other.iterations) > 5
    assert [2.0**30 * row["cost"] for row in first.iterations] == [row["cost"] for row in other.iterations]
    np.testing.assert_array_equal(first.trajectory.u, other.trajectory.u)


def test_what_it_cannot_hold_is_named():
    sentences = unsupported(load_problem(ROOT / "problems/cartpole_swingup.yaml").problem)
    assert any("bounds of states (" in one for one in sentences)
    assert any("prescribed final state" in one for one in sentences)
    with pytest.raises(UnsupportedError, match="write a cost"):
        solve(load_problem(ROOT / "problems/cartpole_swingup.yaml").problem, "adjoint")
    assert METHODS["adjoint"].unsupported(loaded().problem) == []


@pytest.mark.parametrize(("options", "words"), [
    ({"integrator": "sdirk3"}, "sdirk2"), ({"intervals": 0}, "whole number"),
    ({"tolerance": 2.0}, "between 0 and 1")])
def test_bad_options_are_refused(options, words):
    with pytest.raises(ProblemError, match=words):
        make_options("adjoint", options)


@pytest.mark.parametrize("method", ["adjoint", "ilqr"])
def test_newton_that_fails_names_step_residual_and_joint(method):
    """Torques far beyond what a step of 0.4 s can follow; the states before it are kept."""
    problem = loaded().problem
    phase = problem.phase
    wild = replace(phase, guess=replace(phase.guess, u=np.full_like(phase.guess.u, 3e5)), u_lower=(-1e9,) * 2, u_upper=(1e9,) * 2)
    found = solve(replace(problem, phases=(wild,)), method, {"intervals": 2, "integrator": "bdf1", "kernels": "interpreted"})
    assert found.status.name in ("NOT_A_NUMBER", "DIVERGED")
    assert found.ending.kind is (Kind.STEP_FAILED if method == "adjoint" else Kind.STATE_NOT_FINITE)
    assert found.ending.data["step"] == 0
    failure = found.ending.data["failure"]
    assert failure["t"] == pytest.approx(0.4)
    assert failure["residual"] > 0
    assert failure["joint"] in ("shoulder", "elbow")
    assert np.all(found.trajectory.x[0] == phase.start.value)


def test_what_was_designed_is_drawn():
    """The elbow is drawn as far from the shoulder as its length says: one metre and what was added."""
    problem = with_parameters(loaded().problem, {"longer": -0.2})
    found = adjoint.solve(problem, AdjointOptions(intervals=2, integrator="bdf1", max_iterations=0))
    added = found.problem.phase.system.parameter_values[0]
    poses = body_poses(drawn(found.problem.phase.system), found.trajectory.x[:, :2])
    names = [body.name for body in found.problem.phase.system.model.bodies]
    apart = np.linalg.norm(poses[:, names.index("lower"), :3, 3] - poses[:, names.index("upper"), :3, 3], axis=1)
    np.testing.assert_allclose(apart, 1.0 + added)
    assert abs(added) > 0.1
