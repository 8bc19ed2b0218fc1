"""Linear controls that chatter are held where nobody chose their shape; what is chosen stays."""

from functools import lru_cache

import numpy as np
import pytest
from repository import ROOT

from ocp.app.files.load import load_problem
from ocp.methods import solve
from ocp.problem import Status

FOLDER = ROOT / "tests" / "first_files"


@lru_cache
def problem(name):
    return load_problem(FOLDER / f"{name}.yaml").problem


@pytest.mark.parametrize("name", ["missile_turn", pytest.param("lee_ramirez", marks=pytest.mark.slow)])
def test_controls_that_chatter_are_held(name):
    found = solve(problem(name), "collocation")
    assert found.ok, found.ending
    assert any(note.startswith("controls chattered") for note in found.notes)
    assert found.freeze["controls"] == found.options["controls"] == "held"
    reference = problem(name).reference
    assert abs(found.objective - reference.objective) <= found.certificate.bar + reference.error
    part = found.trajectory
    for t0, t1 in zip(part.t[:-1], part.t[1:], strict=True):  # one value in every interval
        np.testing.assert_array_equal(part.control(t0 + 0.1 * (t1 - t0)), part.control(t0 + 0.9 * (t1 - t0)))
    again = solve(problem(name), "collocation", dict(found.freeze))
    assert again.ok, again.ending
    assert again.objective == pytest.approx(found.objective, rel=1e-7)


@pytest.mark.parametrize("name", ["planar_lander", pytest.param("cone_flight", marks=pytest.mark.slow)])
def test_programs_that_are_hard_to_solve_are_tried_with_held_controls(name):
    found = solve(problem(name), "collocation")
    assert found.ok, found.ending
    assert any(note.startswith("programs with controls of this shape were hard") for note in found.notes)
    reference = problem(name).reference
    assert abs(found.objective - reference.objective) <= found.certificate.bar + reference.error
    again = solve(problem(name), "collocation", dict(found.freeze))
    assert again.ok, again.ending
    assert again.objective == pytest.approx(found.objective, rel=1e-7)


@pytest.mark.slow
def test_a_shape_that_is_chosen_stays():
    found = solve(problem("missile_turn"), "collocation", {"controls": "polynomial"})
    assert found.options["controls"] == "polynomial"
    assert not any(note.startswith("controls chattered") for note in found.notes)
    assert found.ok, found.ending


@pytest.mark.slow
def test_an_interrupted_solve_goes_on_with_held_controls():
    passes, kept = [], []

    def stop(row):
        passes.append(row["pass"])
        if passes.count(3.0) > 5:  # the first with held controls
            raise KeyboardInterrupt

    first = solve(problem("lee_ramirez"), "collocation", progress=stop, checkpoint=kept.append)
    assert first.status is Status.INTERRUPTED
    assert all(b["iteration"] > a["iteration"] for a, b in zip(first.iterations[:-1], first.iterations[1:], strict=True))
    assert not first.ok
    found = solve(problem("lee_ramirez"), "collocation", resume=kept[-1])
    assert found.ok, found.ending
    assert found.options["controls"] == "held"
    assert found.objective == pytest.approx(problem("lee_ramirez").reference.objective, rel=1e-5)
