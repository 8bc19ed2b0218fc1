"""``ocp wbc --trials``: a box on an incline of friction, whose success is known beforehand; starts that touch; a trial alone."""

import csv
import json

import numpy as np
import pytest
from commands import call
from repository import ROOT

import dynamics
from ocp.app.files.control.wbc import load_wbc_text
from ocp.app.files.syntax.findings import ProblemFileError

#: a box of the gallery that slides on friction mu with v0 stops after v0^2 / (2 mu g)
BOX = ROOT / "problems" / "wbc" / "box_slides.yaml"


def test_a_trial_is_random_where_it_is_asked_to_be_and_touches():
    text = (ROOT / "problems" / "wbc" / "quadruped_push.yaml").read_text()
    text += "trials: {start: {v: 0.1, q.lf_knee: 0.2}, push: {frame: trunk, force: 40}, friction: {lf: 0.2}}\n"
    loaded = load_wbc_text(text, ROOT / "problems" / "wbc")
    one, again, other = (loaded.trial(3, k) for k in (5, 5, 6))
    np.testing.assert_array_equal(one.setup.start, again.setup.start)
    assert abs(one.setup.start - other.setup.start).max() > 1e-3
    nq = loaded.mechanism.model.nq
    assert abs(one.setup.start[nq:] - loaded.setup.start[nq:]).max() <= 0.1
    push, = one.pushes[len(loaded.pushes):]
    assert np.linalg.norm(push.force) == pytest.approx(40.0)
    assert 0.0 <= push.time <= 4.9
    assert 0.4 <= one.friction["lf"] <= 0.8
    feet = [plan.record for plan in loaded.setup.contacts]
    heights = []
    for record in feet:
        at = dynamics.make_frame(loaded.mechanism.model, "pose", record.frame)
        heights.append(float(np.asarray(at(one.setup.start[:nq])[1]).ravel()[2]) - record.height)
    assert np.abs(heights).max() < 1e-9


def test_boxes_stop_where_their_friction_says(tmp_path, capsys):
    """From 1 m/s on friction mu the way is ``1/(2 mu g)``, or what it comes to in half a second: those succeed that end within 2 cm
    of what the file expects."""
    out, again = tmp_path / "trials", tmp_path / "again"
    changes = ("--set", "trials={friction: {box: 0.1}}", "--set", "expect={q.base.px: {value: 0.17, tolerance: 0.02}}")
    code = call("wbc", BOX, "--trials", 5, "--seed", 1, *changes, "-j", 0, "-q", "--out", out)
    rows = list(csv.DictReader((out / "cases.csv").read_text().splitlines()))
    assert len(rows) == 5
    good = []
    for row in rows:
        slowing = float(row["friction.box"]) * 9.81
        stops = min(1 / slowing, 0.5)
        good.append(abs(stops - slowing * stops**2 / 2 - 0.17) <= 0.02)
    assert [row["ok"] for row in rows] == [str(one) for one in good]
    assert (code, 0 < sum(good) < 5) == (1, True)
    assert f"{sum(good)} of 5 trials succeed" in capsys.readouterr().out
    number = good.index(False)
    place = out / "runs" / f"{number:06d}"
    assert json.loads((place / "summary.json").read_text())["format"] == "lieocp whole-body control"
    assert call("wbc", BOX, "--trial", number, "--seed", 1, *changes, "-q", "--out", again) == 1
    with np.load(place / "trajectory.npz") as one, np.load(again / "trajectory.npz") as other:
        assert one["x"].tobytes() == other["x"].tobytes()


@pytest.mark.parametrize(("section", "words"), [
    ("{friction: {lx: 0.1}}", "no contact named 'lx'"), ("{start: {q.knee: 0.1}}", "no state named"),
    ("{push: {frame: trunkk, force: 1}}", "trunkk"), ("{start: {v: -1}}", "must not be negative")])
def test_mistakes_in_the_section_have_a_place(section, words):
    text = (ROOT / "problems" / "wbc" / "quadruped_push.yaml").read_text() + f"trials: {section}\n"
    with pytest.raises(ProblemFileError, match=r"trials") as caught:
        load_wbc_text(text, ROOT / "problems" / "wbc")
    assert words in str(caught.value)


def test_trials_that_are_all_the_same_are_refused(tmp_path, capsys):
    assert call("wbc", BOX, "--trials", 2, "-j", 0, "--out", tmp_path / "out", "-q") == 2
    assert "nothing is random" in capsys.readouterr().err
