"""Tangent unknowns find what coordinates find: a free body, a quadrotor, and loops over a floating quadruped."""

from __future__ import annotations

from dataclasses import replace

import direct_problems as direct
import numpy as np
import pytest
from direct_problems import solved
from repository import ROOT

from ocp.app.files.load import load_problem
from ocp.methods import solve
from ocp.problem import Kind, Status
from ocp.transcription.collocation import CollocationOptions, transcribe

FOLDER = ROOT / "problems"


@pytest.mark.parametrize("options", [
    {"scheme": "radau"}, {"scheme": "gauss", "controls": "linear"}, {}, *(pytest.param(one, marks=pytest.mark.slow) for one in (
        {"scheme": "gauss"}, {"scheme": "lobatto", "degree": 4}, {"scheme": "radau_left", "form": "differential"},
        {"form": "compressed"}))], ids=str)
@pytest.mark.sample(2)
def test_body_in_both_forms(options):
    problem = direct.body_transfer()
    found = [solved(problem, states=states, intervals=8, **options) for states in ("tangent", "coordinates")]
    assert found[0].objective == pytest.approx(found[1].objective, rel=3e-5)
    path, other = (one.trajectory for one in found)
    t = np.linspace(0, 1, 41)
    np.testing.assert_allclose(path.state(t), other.state(t), atol=3e-3)
    # interpolants reach the next knot from within every interval
    np.testing.assert_allclose(path.state(path.t[1:] - 1e-13), path.x[1:], atol=1e-9)
    assert found[0].findings[-1].kind is Kind.TANGENT_UNKNOWNS_CENTRED


@pytest.mark.slow
@pytest.mark.parametrize("integrator", ["rkmk4", "gauss_legendre_2"])
def test_body_by_shooting_in_both_forms(integrator):
    """One step maps states to states: the form of the unknowns changes nothing at all."""
    found = [solved(direct.body_transfer(), "multiple_shooting", states=states, integrator=integrator, intervals=6)
             for states in ("tangent", "coordinates")]
    assert found[0].objective == pytest.approx(found[1].objective, rel=1e-9)
    np.testing.assert_allclose(found[0].trajectory.x, found[1].trajectory.x, atol=1e-6)


@pytest.mark.slow
def test_quadrotor_in_both_forms():
    problem = load_problem(FOLDER / "quadrotor.yaml").problem
    found = [solve(problem, "collocation", {"states": states, "intervals": 20, "scheme": "gauss", "degree": 2, "tolerance": 1e-8})
             for states in ("tangent", "coordinates")]
    assert all(one.status is Status.CONVERGED for one in found)
    assert found[0].objective == pytest.approx(found[1].objective, rel=1e-4)
    np.testing.assert_allclose(found[0].trajectory.x, found[1].trajectory.x, atol=3e-3)


@pytest.mark.parametrize("states", ["tangent", "coordinates"])
def test_loops_over_a_floating_quadruped_equal_generated_code(states):
    """The same program from loops over the model and from generated code, at a random point about random centres."""
    problem = load_problem(FOLDER / "quadruped_righting.yaml").problem
    options = CollocationOptions(states=states, intervals=1, scheme="radau", degree=2, derivatives="analytic",
                                 kernels="interpreted")
    rng = np.random.default_rng(6)
    one, other = (transcribe(problem, replace(options, execution=how)).nlp for how in ("loops", "generated"))
    assert one.constraints == other.constraints
    z = one.x0 + 0.1 * rng.normal(size=one.n)
    lam = rng.normal(size=one.m)
    for name, arguments in (("g", (z,)), ("jac", (z,)), ("grad", (z,)), ("hess", (z, 0.8, lam))):
        for a, b in zip(getattr(one, name).call(arguments), getattr(other, name).call(arguments), strict=True):
            a, b = a.full(), b.full()
            np.testing.assert_allclose(a, b, atol=1e-8 * max(1, np.abs(b).max()), err_msg=name)
