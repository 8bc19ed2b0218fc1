"""Run folders, pictures and reports of problems with several phases, of one system and of different ones."""

import csv
import json
import re

import numpy as np
import pytest
from repository import ROOT

from ocp.app import cli
from ocp.app.files.load import load_problem
from ocp.app.pages import plots, sheet
from ocp.app.pages.legs import alike, legs, union, widened
from ocp.app.pages.results import read_run
from ocp.app.pipeline import picture, run
from ocp.problem import Bounds

FOLDER = ROOT / "problems"
RELAY = """
name: Relay
parameters:
  lift: {value: 0.5, optimise: [0.1, 2]}
phases:
  - name: push
    system: {states: {x: m, v: m/s}, controls: {f: N}, dynamics: {x: v, v: f/2}}
    duration: {lower: 0.2, upper: 3, guess: 1}
    start: {x: 0, v: 0}
    bounds: {v: [null, 0.8], f: [-4, 4]}
    final: {x: 0.5}
    costs: [{name: effort, control_error: 0, weights: 0.2}, {name: time, final: t}]
  - name: coast
    system: {states: {x: m, v: m/s}, controls: {f: N}, dynamics: {x: v, v: f/2}}
    duration: 1
    bounds: {v: [null, 1.5], f: [-1, 2]}
    constraints: [{name: gate, expression: "x - 0.3*v", upper: 1.2}]
    costs: [{name: effort, control_error: 0, weights: 0.2}, {name: price, final: "(lift - 1)**2"}]
  - name: fill
    system: {states: {level: m}, controls: {inlet: m/s, outlet: m/s}, dynamics: {level: inlet - outlet}}
    reset: {level: lift*v}
    duration: 2
    final: {level: 1}
    costs: [{name: pumps, control_error: 0, weights: 1}]
solve: {method: ilqr, ilqr: {intervals: 12, kernels: interpreted}}
"""
QUICK = {"solve.ilqr.intervals": "20", "solve.ilqr.kernels": "interpreted"}


@pytest.fixture(scope="module")
def bounce(tmp_path_factory):
    return run(FOLDER / "bouncing_ball.yaml", overrides=QUICK, out=tmp_path_factory.mktemp("runs") / "bounce")


@pytest.fixture(scope="module")
def relay(tmp_path_factory):
    folder = tmp_path_factory.mktemp("relay")
    (folder / "relay.yaml").write_text(RELAY)
    return run(folder / "relay.yaml", out=folder / "run")


def table(folder):
    rows = list(csv.reader((folder / "trajectory.csv").read_text().splitlines()))
    return rows[0], rows[1:]


# ------------------------------------------------------------------------------------------------ arrays and tables
def test_the_archive_has_every_phase_and_the_whole_where_there_is_one(bounce, relay):
    arrays, parts = read_run(bounce.folder).arrays, bounce.solution.parts
    assert arrays["phase_names"].tolist() == ["drop", "rise"]
    for name, part in zip(("drop", "rise"), parts, strict=True):
        for key in ("t", "x", "u", "t_u"):
            assert np.array_equal(arrays[f"{name}.{key}"], getattr(part, key))
    assert np.array_equal(arrays["x"], np.vstack([part.x for part in parts]))
    assert arrays["drop.K"].shape[0] == 20
    arrays = read_run(relay.folder).arrays
    assert "x" not in arrays  # columns of one name would mean different things
    assert arrays["fill.state_names"].tolist() == ["level"]
    assert arrays["fill.x"].shape == (13, 1)
    assert arrays["fill.u"].shape == (12, 2)


def test_the_table_names_the_phase_of_every_row_and_leaves_empty_what_it_lacks(bounce, relay):
    header, rows = table(bounce.folder)
    assert header == ["phase", "t", "height", "speed", "force"]
    assert [row[0] for row in rows] == ["drop"] * 21 + ["rise"] * 21
    assert rows[20][1] == rows[21][1]  # both sides of the jump
    assert float(rows[21][3]) == pytest.approx(-0.8 * float(rows[20][3]), rel=1e-12)
    header, rows = table(relay.folder)
    assert header == ["phase", "t", "x", "v", "level", "f", "inlet", "outlet"]
    push, fill = rows[0], rows[-1]
    assert push[4:5] + push[6:] == ["", "", ""]
    assert fill[2:4] + fill[5:6] == ["", "", ""]
    assert float(fill[4]) == pytest.approx(1.0, abs=1e-6)
    assert len(rows) == 3 * 13


def test_the_summary_has_phases_and_what_was_chosen(bounce, relay):
    summary = read_run(relay.folder).summary
    assert [phase["name"] for phase in summary["phases"]] == ["push", "coast", "fill"]
    assert [phase["free"] for phase in summary["phases"]] == [True, False, False]
    assert summary["chosen"]["durations"].keys() == {"push"}
    assert summary["chosen"]["parameters"]["lift"] == pytest.approx(relay.solution.extra["parameters"][0])
    assert 0.5 < summary["chosen"]["parameters"]["lift"] < 2
    ends = [phase["end"] for phase in summary["phases"]]
    assert summary["duration"] == ends[-1]
    assert ends[0] == pytest.approx(summary["chosen"]["durations"]["push"])
    assert [phase["start"] for phase in summary["phases"]] == [0.0, *ends[:-1]]
    assert read_run(bounce.folder).summary["chosen"]["durations"].keys() == {"drop", "rise"}
    names = [v["label"] for v in summary["certificate"]["violations"]]
    assert "coast: gate" in names
    assert "push: bound v" in names
    assert "coast to fill" in names


def test_the_terminal_says_each_thing_once(tmp_path, capsys):
    (tmp_path / "relay.yaml").write_text(RELAY)
    with pytest.raises(SystemExit) as stop:
        cli.main(["solve", str(tmp_path / "relay.yaml"), "--out", str(tmp_path / "run"), "--quiet"])
    assert stop.value.code == 0
    printed = capsys.readouterr().out
    assert re.search(r"phase +push: 0 to 0\.\d+ s, duration 0\.\d+ s \(chosen\)", printed)
    assert re.search(r"phase +coast: .* duration 1 s\n", printed)
    assert len(re.findall(r"\blift = ", printed)) == 1
    assert "duration of push" not in printed


def test_a_single_phase_with_a_chosen_duration_says_so(tmp_path, capsys):
    with pytest.raises(SystemExit):
        cli.main(["solve", str(FOLDER / "brachistochrone.yaml"), "--out", str(tmp_path / "run"), "--quiet"])
    assert re.search(r"duration +0\.\d+ s \(chosen\)", capsys.readouterr().out)
    assert "Chosen by the solver" in (tmp_path / "run" / "report.html").read_text()
    assert table(tmp_path / "run")[0][0] == "t"


# ------------------------------------------------------------------------------------------------ pictures
def test_curves_have_gaps_and_bounds_where_a_phase_lacks_something(relay):
    curves = plots._curves(legs(relay.solution), ("x", "v", "level"), "x", {})
    cuts = np.flatnonzero(np.isnan(curves.t))
    assert len(cuts) == 2  # no line joins two phases
    push, fill = curves.values[:cuts[0]], curves.values[cuts[1] + 1:]
    assert np.isfinite(push[:, :2]).all()
    assert np.isnan(push[:, 2]).all()
    assert np.isnan(fill[:, :2]).all()
    assert np.isfinite(fill[:, 2]).all()
    assert [b.bounds.upper[1] for b in curves.bounds] == [0.8, 1.5, np.inf]
    assert [b.span[0] for b in curves.bounds] == [part.t[0] for part in relay.solution.parts]
    assert curves.units == {"x": "m", "v": "m/s", "level": "m", "f": "N", "inlet": "m/s", "outlet": "m/s"}


def drawn(values, stretches):
    fig = sheet.figure(2.0)
    ax = sheet.axes(fig, (1.0, 0.5, 8.0, 1.2))
    ax.set_xlim(-0.1, 2.1)
    t = np.array([0.0, 0.5, 1.0, np.nan, 1.0, 1.5, 2.0])
    sheet.stretched(ax, t, np.asarray(values, float)[:, None], stretches, tolerance=1e-6)
    return ax


def test_bounds_hold_in_their_own_phase_only():
    high = [sheet.Stretch((0.0, 1.0), Bounds((-np.inf,), (1.0,))), sheet.Stretch((1.0, 2.0), Bounds((-np.inf,), (2.0,)))]
    values = [0.0, 0.5, 0.9, np.nan, 1.2, 1.8, 1.9]  # above the bound of the first phase, in the second
    ax = drawn(values, high)
    red = [line for line in ax.lines if line.get_color() == sheet.FAIL]
    assert not red
    filled = [p.vertices[:, 0] for c in ax.collections for p in c.get_paths() if len(p.vertices) > 2]
    spans = sorted((round(x.min(), 9), round(x.max(), 9)) for x in filled)
    assert spans == [(0.0, 1.0), (1.0, 2.0)]
    ax = drawn(values, [high[1], high[0]])  # the same bounds the wrong way round
    red = [line for line in ax.lines if line.get_color() == sheet.FAIL]
    assert np.flatnonzero(np.isfinite(red[0].get_ydata())).tolist() == [4, 5, 6]


def test_every_phase_is_marked_in_every_panel_over_time(relay, monkeypatch):
    seen = []
    monkeypatch.setattr(sheet, "mark", lambda ax, marks: seen.append(list(marks)))
    plots.plot_run(relay.solution)
    starts = [(part.t[0], name) for part, name in zip(relay.solution.parts, ("push", "coast", "fill"), strict=True)]
    assert len(seen) == 3 + 3 + 2 + 1  # states, controls, gate and margins, gaps of the certificate
    assert all(marks == starts for marks in seen)


def test_a_mark_is_a_line_and_a_name():
    ax = sheet.axes(sheet.figure(2.0), (1.0, 0.5, 8.0, 1.2))
    ax.set_xlim(0.0, 1.6)
    top = ax.get_ylim()[1]
    sheet.mark(ax, [(0.0, "push"), (1.5, "a name far longer than its room")])
    assert [line.get_xdata()[0] for line in ax.lines] == [0.0, 1.5]
    words = [text.get_text().strip() for text in ax.texts]
    assert words[0] == "push"
    assert words[1] == "a name …"  # a sixteenth of the width
    strip = ax.get_ylim()[1] - top  # names stand above all that is drawn
    assert strip / (ax.get_ylim()[1] - ax.get_ylim()[0]) == pytest.approx(sheet.STRIP / 1.2)


def test_columns_by_name():
    assert union([("a", "b"), ("c", "a")]) == ("a", "b", "c")
    wide = widened(np.array([[1.0, 2.0]]), ("c", "a"), ("a", "b", "c"))
    assert np.array_equal(wide, [[2.0, np.nan, 1.0]], equal_nan=True)


# ------------------------------------------------------------------------------------------------ the page
def test_the_report_stands_alone_and_shows_the_phases(bounce, relay):
    for outcome, names in ((bounce, ("drop", "rise")), (relay, ("push", "coast", "fill"))):
        page = (outcome.folder / "report.html").read_text()
        assert not re.search(r'(?:src|href)="(?!data:|#)', page)
        for name in names:
            assert f'<tr><td class="name">{name}</td>' in page
    assert '<td class="name">lift</td>' in (relay.folder / "report.html").read_text()
    assert "coast: gate" in (relay.folder / "report.html").read_text()


def test_the_animation_runs_through_all_phases(bounce):
    assert alike(legs(bounce.solution))
    scene, note = picture(bounce.loaded, bounce.solution)
    assert note == ""
    assert scene.t[-1] == pytest.approx(bounce.solution.parts[-1].t[-1])
    fall = bounce.solution.parts[0].t[-1]
    height = scene.points[:, next(dot.point for dot in scene.dots), 1]
    assert height[0] == pytest.approx(1.0)
    assert height[-1] == pytest.approx(2.0, abs=1e-5)
    assert abs(scene.t[np.argmin(height)] - fall) < 2 * (scene.t[1] - scene.t[0])


def test_phases_of_different_systems_have_no_one_picture(relay):
    scene, note = picture(relay.loaded, relay.solution)
    assert scene is None
    assert "nothing to animate" in note


def test_a_run_of_several_phases_can_be_cut_short_and_resumed(tmp_path):
    loaded = load_problem(FOLDER / "bouncing_ball.yaml", QUICK)
    assert len(loaded.problem.phases) == 2
    from ocp.app.pipeline import run_loaded

    def stop(row):
        if row["iteration"] >= 3:
            raise KeyboardInterrupt

    cut = run_loaded(loaded, "ball", out=tmp_path / "run", progress=stop)
    assert not cut.solution.ok
    assert (tmp_path / "run" / "report.html").is_file()
    with pytest.raises(SystemExit) as stopped:
        cli.main(["resume", str(tmp_path / "run"), "--quiet"])
    assert stopped.value.code == 0
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["objective"] == pytest.approx(6.548, abs=5e-3)



def test_times_in_a_report_are_those_of_the_terminal(relay, capsys):
    from ocp.app.pages.summary import print_outcome

    print_outcome(relay)
    told = dict(re.findall(r"(read|solve and certify) ([\d.]+) s", capsys.readouterr().out))
    page = (relay.folder / "report.html").read_text(encoding="utf-8")
    for name, seconds in told.items():
        shown, = re.findall(rf"<small>{name}</small><strong>([\d.e−]+) s", page)
        assert float(shown.replace("−", "-")) == pytest.approx(float(seconds), abs=6e-3)
    assert len(told) == 2
