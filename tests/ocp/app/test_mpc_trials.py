"""``ocp mpc --trials`` and ``--compare``: success where it is known beforehand, a trial alone, what the folders hold."""

import csv
import json
import math

import numpy as np
import pytest
from commands import call
from pages import Page

from ocp.app.batch.trials import MpcTrials
from ocp.app.files.load import load_text
from ocp.app.files.syntax.findings import ProblemFileError
from ocp.mpc.trials import draw

#: q'' = 9 q + u from rest at q0 is kept by |u| <= 4 only within |q0| < 4 / 9
POLE = """
name: pole
system: {states: {q: rad, w: rad/s}, controls: {u: rad/s^2}, dynamics: {q: w, w: 9*q + u}}
phase:
  duration: 1
  start: {q: 0, w: 0}
  bounds: {u: [-4, 4]}
  costs: [{name: upright, running: 50*q**2 + w**2 + 0.05*u**2}]
mpc:
  rate: 20
  duration: 3
  track: [{name: pole, quantity: q, unit: rad}]
  trials: {start: {q: 0.8}}
solve: {method: ilqr, ilqr: {intervals: 20, cost_quadrature: rectangle}}
"""
LOST = 4 / 9


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    place = tmp_path_factory.mktemp("trials") / "pole.yaml"
    place.write_text(POLE)
    return place


def test_those_trials_succeed_that_can(file, tmp_path, capsys):
    out = tmp_path / "trials"
    words = ("mpc", file, "--trials", 6, "--seed", 3, "--out", out, "-j", 0, "--quiet")
    assert call(*words) == 1
    rows = list(csv.DictReader((out / "cases.csv").read_text().splitlines()))
    starts = np.array([float(row["start.q"]) for row in rows])
    assert len(rows) == 6
    assert np.abs(starts).max() <= 0.8
    far = np.abs(starts) > LOST
    assert 1 <= far.sum() <= 5
    assert [row["ok"] for row in rows] == ["False" if lost else "True" for lost in far]
    assert "start.w" not in rows[0]
    kept = sorted(path.name for path in (out / "runs").iterdir())
    assert kept == sorted(f"{k:06d}" for k in np.flatnonzero(far))
    k = int(np.flatnonzero(far)[0])
    told = capsys.readouterr().out
    assert f"{(~far).sum()} of 6 trials succeed (seed 3)" in told
    assert f"--trial {k} --seed 3" in told
    assert call("report", out) == 0
    page = Page((out / "report.html").read_text())
    assert [image["alt"] for image in page.all("img")][0] == "Plot: Trials of the sweep"
    assert f"{(~far).sum()} of 6 trials succeed" in " ".join(" ".join(page.words).split())
    # nothing is done twice, and a journal that was cut short goes on to the same table
    whole, journal = (out / "cases.csv").read_bytes(), out / "journal.jsonl"
    assert call(*words) == 1
    assert len(journal.read_bytes().splitlines()) == 6
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:4]))
    assert call(*words) == 1
    assert (out / "cases.csv").read_bytes() == whole
    # a failure runs again to the last bit
    again = tmp_path / "again"
    assert call("mpc", file, "--trial", k, "--seed", 3, "--out", again, "--quiet") == 1
    with np.load(out / "runs" / f"{k:06d}" / "trajectory.npz") as one, np.load(again / "trajectory.npz") as other:
        assert one["fine_x"].tobytes() == other["fine_x"].tobytes()


def test_a_trial_is_the_same_among_any_others():
    """Starts, kicks and noise come from the seed and the number of the trial alone; the distributions are those asked for."""
    text = POLE.replace("trials: {start: {q: 0.8}}",
                        "disturbances: {measurement_noise: 0.01}\n  trials: {start: {q: 0.1}, kick: {w: 0.2}}")
    made = MpcTrials(text, ".", "pole.yaml", "")
    loaded, loop = made.loaded, made.loop
    some = [made.run(made.draw(7, k)[1]) for k in range(3)]
    alone = made.run(made.draw(7, 2)[1])
    assert alone.row == some[2].row
    assert alone.curve["value"].tobytes() == some[2].curve["value"].tobytes()
    assert some[1].curve["value"].tobytes() != some[2].curve["value"].tobytes()
    assert set(made.draw(7, 2)[0]) == {"start.q", "kick.time"}
    drawn = [draw(loop, loaded.mpc.trials, loaded.mpc.plant.disturbances, 1, k) for k in range(2000)]
    q = np.array([start[0] for start, _ in drawn])
    kicks = [given.kicks[0] for _, given in drawn]
    assert q.std() == pytest.approx(0.1 / math.sqrt(3), rel=0.05)
    assert np.std([kick.change[1] for kick in kicks]) == pytest.approx(0.2, rel=0.05)
    assert np.mean([kick.time for kick in kicks]) == pytest.approx(1.5, rel=0.05)
    assert all(kick.change[0] == 0.0 for kick in kicks)


def test_pushes_in_all_directions_are_of_one_strength():
    from repository import ROOT

    text = (ROOT / "problems" / "mpc" / "quadrotor_track.yaml").read_text()
    text = text.replace("mpc:\n", "mpc:\n  trials: {push: {frame: body, force: 3, duration: 0.2}}\n")
    random = load_text(text, ROOT / "problems" / "mpc").mpc.trials
    assert [push.force for push in random.pushes] == [(3, 0, 0), (0, 3, 0), (0, 0, 3)]

    class Loop:
        from types import SimpleNamespace as Some

        phase = Some(start=Some(value=(0.0,)), system=Some(space=Some(ndx=1)))
        options = Some(duration=2.0)

    from ocp.plants import Disturbances

    for k in range(20):
        given = draw(Loop, random, Disturbances(), 0, k)[1].pushes
        assert math.hypot(*(push.scale for push in given)) == pytest.approx(1.0)
        assert len({push.time for push in given}) == 1
        assert 0.0 <= given[0].time <= 1.8


def test_pushes_act_by_their_scale():
    from ocp.plants import Disturbances, IntegratedPlant, PlantSpec, Push

    system = load_text(POLE.replace("9*q + u", "u")).problem.phase.system
    plant = IntegratedPlant(PlantSpec(system, disturbances=Disturbances(pushes=(Push(0.0, 1.0, rate=(0.0, 2.0), scale=-0.5),))))
    x, _ = plant.advance(0.0, np.zeros(2), np.zeros(1), 1.0)
    assert x == pytest.approx([-0.5, -1.0])


@pytest.mark.parametrize(("old", "new", "words"), [
    ("start: {q: 0.8}}", "start: {p: 0.8}}", "no state named 'p'"), ("start: {q: 0.8}}", "kick: {q: -1}}", "must not be negative"),
    ("start: {q: 0.8}}", "push: {frame: a, force: 1}}", "only a robot has frames")])
def test_mistakes_in_the_section_have_a_place(old, new, words):
    with pytest.raises(ProblemFileError, match=r"mpc\.trials") as caught:
        load_text(POLE.replace(old, new))
    assert words in str(caught.value)


def test_trials_that_are_all_the_same_are_refused(file, capsys):
    assert call("mpc", file, "--trials", 2, "--set", "mpc.trials={}", "--out", file.parent / "none", "--quiet") == 2
    assert "nothing is random" in capsys.readouterr().err
    assert call("mpc", file, "--trials", 2, "--compare", "--quiet") == 2


def test_comparing_is_one_table_and_one_figure(file, tmp_path, capsys):
    """A wall that a swing runs into: all variants stand in the table, the file's keep it, and more iterations change little."""
    text = POLE
    for old, new in (("bounds: {u: [-4, 4]}", "bounds: {u: [-12, 12], q: [-2, 0.4]}"), ("50*q**2", "50*(q - 0.7*sin(2*t))**2"),
                     ("  trials: {start: {q: 0.8}}\n", "  plant: {substeps: 1}\n"), ("9*q + u", "u"),
                     ("duration: 3", "duration: 1.5"), ("track: [{name: pole, quantity: q, unit: rad}]", "iterations: 1")):
        text = text.replace(old, new)
    place, out = tmp_path / "wall.yaml", tmp_path / "compare"
    place.write_text(text)
    call("mpc", place, "--compare", "--out", out, "--quiet")
    rows = {row["variant"]: row for row in csv.DictReader((out / "compare.csv").read_text().splitlines())}
    assert set(rows) == {"the file", "2 iterations", "5 iterations", "20 iterations, converged", "multipliers",
                         "multipliers, converged", "10 Hz", "40 Hz", "horizon 0.5 s", "horizon 2 s"}
    assert float(rows["the file"]["largest violation"]) <= 1e-4 * 2.4
    assert float(rows["the file"]["cost"]) == pytest.approx(float(rows["20 iterations, converged"]["cost"]), rel=0.02)
    assert (out / "compare.png").read_bytes().startswith(b"\x89PNG")
    assert "20 iterations, converged" in capsys.readouterr().out


def test_a_closed_loop_acts_by_an_estimate_and_takes_parameters_over(tmp_path, capsys):
    """A pole twice as heavy as the file says, seen through encoders alone: rates and mass are estimated, the pole stays up."""
    from repository import ROOT

    file, out = ROOT / "problems" / "mpc" / "cartpole_estimation.yaml", tmp_path / "run"
    assert call("mpc", file, "--out", out, "--quiet", "--set", "mpc.duration=3") == 0
    summary = json.loads((out / "summary.json").read_text())
    found = summary["estimation"]
    assert found["parameters"]["m2"] == pytest.approx(0.6, abs=0.03)
    assert set(found["errors"]) == {"x", "theta", "v", "omega"}
    assert found["errors"]["theta"] < 0.005  # better than the encoder
    assert "m2 = 0." in capsys.readouterr().out
    with np.load(out / "trajectory.npz") as archive:
        assert archive["estimates"].shape == (300, 5)
        assert archive["estimate_names"].tolist() == ["x", "theta", "v", "omega", "m2"]
        assert np.array_equal(archive["measured"], archive["estimates"][:, :4])
        errors = archive["estimates"][:, :4] - archive["x"][:-1]
    assert np.sqrt((errors**2).mean(axis=0)) == pytest.approx(list(found["errors"].values()), rel=1e-9)


@pytest.mark.parametrize(("old", "new", "words"), [
    ("parameters: {m2: {", "parameters: {m3: {", "no parameter named 'm3'"), ("deviation: [0.002, 0.005]", "deviation: [1, 2, 3]",
                                                                             "must be one number, or 2"),
    ("deviation: [0.002, 0.005]", "deviation: [0, 1]", "needs 2 positive"),
    ("process: {x: 1e-3", "process: {y: 1e-3", "no state named")])
def test_mistakes_in_estimates_have_a_place(old, new, words):
    from repository import ROOT

    text = (ROOT / "problems" / "mpc" / "cartpole_estimation.yaml").read_text()
    assert old in text
    with pytest.raises(ProblemFileError, match=r"mpc\.estimate") as caught:
        load_text(text.replace(old, new))
    assert words in str(caught.value)
