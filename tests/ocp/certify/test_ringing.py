"""Ringing controls are named with what helps; smooth, bang-bang and held ones are not."""

from dataclasses import replace
from importlib import metadata

import numpy as np
import pytest
from repository import ROOT
from uncertified import by_collocation

from ocp.app.files.load import load_problem
from ocp.certify.ringing import ringing
from ocp.methods import solve
from ocp.problem import Kind
from ocp.transcription.collocation import CollocationOptions

FOLDER = ROOT / "problems"


@pytest.fixture(scope="module")
def smooth():
    return solve(load_problem(FOLDER / "cartpole_swingup.yaml").problem, "collocation", {"intervals": 50})


def test_a_saw_on_a_control_is_named(smooth):
    path = smooth.trajectory
    for size, rings in ((0.0, False), (1e-3, False), (0.05, True)):
        saw = size * np.ptp(path.u) * (-1.0) ** np.arange(len(path.u))[:, None]
        said = ringing(replace(smooth, trajectory=replace(path, u=path.u + saw)))
        assert bool(said) == rings, size
    (found,) = said
    assert found.kind is Kind.OSCILLATING_CONTROLS
    assert found.data["option"] == {"scheme": "gauss"}
    (control,) = found.data["controls"]
    assert control["name"] == "force"
    assert control["amplitude"] == pytest.approx(0.05, abs=0.01)


def test_switches_are_no_ringing():
    found = solve(load_problem(FOLDER / "double_integrator_min_time.yaml").problem, "collocation", {"intervals": 40})
    assert ringing(found) == ()


@pytest.mark.skipif(not list(metadata.distributions(name="example-robot-data")), reason="the robots extra is not installed")
def test_light_wrists_ring_by_hermite_simpson_and_not_by_gauss():
    problem = load_problem(FOLDER.parent / "tests" / "first_files" / "ur10_move.yaml").problem
    said = [ringing(by_collocation(problem, CollocationOptions(scheme=scheme, intervals=n)))
            for scheme, n in (("hermite_simpson", 50), ("gauss", 20))]
    assert "wrist_3_joint" in [one["name"] for one in said[0][0].data["controls"]]
    assert said[1] == ()
