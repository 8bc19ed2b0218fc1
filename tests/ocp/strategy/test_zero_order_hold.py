"""Zero-order hold takes the place of controls that chatter where the file left their shape open; a chosen shape stays."""

from functools import lru_cache

import control_problems as known
import numpy as np
import pytest
from repository import ROOT

from ocp.app.files.load import load_problem
from ocp.certify import Tolerances
from ocp.methods import judge, solve
from ocp.problem import Kind, Status
from ocp.strategy.collocation import HELD, searching
from ocp.strategy.search import Outside
from ocp.transcription.collocation import CollocationOptions

FOLDER = ROOT / "tests" / "first_files"


@lru_cache
def problem(name):
    return load_problem(FOLDER / f"{name}.yaml").problem


def early(found):
    """Of every time that zero-order hold served: whether it came between passes."""
    return [one.data["early"] for one in found.findings if one.kind is Kind.ZERO_ORDER_HOLD]


@pytest.mark.parametrize(("name", "hard"), [
    ("missile_turn", False), pytest.param("lee_ramirez", False, marks=pytest.mark.slow),
    ("planar_lander", True), pytest.param("cone_flight", True, marks=pytest.mark.slow)])
def test_controls_that_chatter_and_programs_that_are_hard_become_piecewise_constant(name, hard):
    """After a pass whose controls chatter, or before any where the program is hard to solve."""
    found = solve(problem(name), "collocation")
    assert found.ok, found.ending
    assert early(found) == [hard]
    assert [one.taken for one in found.strategy if one.rule == "zero_order_hold"] == [True]
    assert found.freeze["controls"] == found.options["controls"] == "held"
    reference = problem(name).reference
    assert abs(found.objective - reference.objective) <= found.certificate.error_bound + reference.error
    part = found.trajectory
    for t0, t1 in zip(part.t[:-1], part.t[1:], strict=True):  # one value in every interval
        np.testing.assert_array_equal(part.control(t0 + 0.1 * (t1 - t0)), part.control(t0 + 0.9 * (t1 - t0)))
    again = solve(problem(name), "collocation", dict(found.freeze))
    assert again.ok, again.ending
    assert again.objective == pytest.approx(found.objective, rel=1e-7)


@pytest.mark.slow
def test_a_shape_that_is_chosen_stays():
    found = solve(problem("missile_turn"), "collocation", {"controls": "polynomial"})
    assert found.options["controls"] == "polynomial"
    assert early(found) == []
    assert found.ok, found.ending


def test_a_checkpoint_of_piecewise_constant_controls_goes_on_with_them():
    outside = Outside(resume={"mesh": ["0:3*30 1"], HELD: np.ones(1)})
    search, state = searching(known.block_move(), CollocationOptions(), outside, judge(Tolerances()))
    assert (search.options.controls, search.refinement.family.controls, search.alternative) == ("held", "held", False)
    assert state.task.plans[0].intervals == 30
    assert state.task.resume is outside.resume
    plain, _ = searching(known.block_move(), CollocationOptions(), judge=judge(Tolerances()))
    assert (plain.options.controls, plain.refinement.family.controls, plain.alternative) == ("auto", "polynomial", True)


@pytest.mark.slow
def test_an_interrupted_solve_goes_on_with_piecewise_constant_controls():
    passes, kept = [], []

    def stop(row):
        passes.append(row["pass"])
        if passes.count(3.0) > 5:  # the first with piecewise constant controls
            raise KeyboardInterrupt

    first = solve(problem("lee_ramirez"), "collocation", progress=stop, checkpoint=kept.append)
    assert first.status is Status.INTERRUPTED
    assert all(b["iteration"] > a["iteration"] for a, b in zip(first.iterations[:-1], first.iterations[1:], strict=True))
    assert not first.ok
    found = solve(problem("lee_ramirez"), "collocation", resume=kept[-1])
    assert found.ok, found.ending
    assert found.options["controls"] == "held"
    assert found.objective == pytest.approx(problem("lee_ramirez").reference.objective, rel=1e-5)
