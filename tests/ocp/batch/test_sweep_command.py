"""``ocp sweep`` and ``ocp report`` from the command line."""

import csv
import json
import re

import numpy as np
import pytest
from block_file import SOLVED_BLOCK
from commands import call
from pages import Page

from ocp.app.batch.pictures import front, pictures
from ocp.app.batch.report import page

FILE = SOLVED_BLOCK + """sweep:
  over: {parameters.mass: "1:3:3", phase.duration: [1, 2]}
"""


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "block.yaml").write_text(FILE)
    assert call("sweep", folder / "block.yaml", "--out", folder / "out", "-j", "0", "-q") == 0
    return folder


def test_the_section_says_what_is_swept(swept, capsys):
    with (swept / "out" / "cases.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert [(float(row["parameters.mass"]), float(row["phase.duration"])) for row in rows] == [
        (m, t) for m in (1.0, 2.0, 3.0) for t in (1.0, 2.0)]
    for row in rows:
        wanted = 12 * float(row["parameters.mass"]) ** 2 / float(row["phase.duration"]) ** 3
        assert float(row["objective"]) == pytest.approx(wanted, rel=1e-6)
    assert call("solve", swept / "block.yaml", "--out", swept / "run", "--quiet") == 0
    assert "sweep:" in (swept / "run" / "problem.yaml").read_text()


def test_the_report_has_table_and_pictures(swept):
    assert call("report", swept / "out") == 0
    found = Page((swept / "out" / "report.html").read_text())
    assert not [link for link in found.links if link and not link.startswith("data:")]
    pictured = [image["alt"] for image in found.all("img")]
    assert pictured == [f"Plot: {title} of the sweep" for title in (
        "Parallel coordinates", "Response surface", "Success map", "Pareto front")]
    cells = [attributes["data-key"] for attributes in found.all("td") if "data-key" in attributes]
    assert "108.0" in " ".join(str(float(key)) if re.match(r"\d", key or "") else "" for key in cells) or "108" in str(cells)
    assert "6 of 6 cases are certified" in " ".join(found.words)


def test_a_report_escapes_and_tells_refused_cases_apart():
    rows = [{"case": k, "a.b": float(k), "status": "REFUSED" if k == 1 else "CONVERGED", "ok": k != 1, "objective": None if k == 1
             else 3.0 - k, "duration": 1.0 + k, "iterations": 3, "by": "program", "message": "<b>no</b>" if k == 1 else ""}
            for k in range(3)]
    head = {"file": "<i>x</i>.yaml", "text": "a: 1", "paths": ["a.b"], "cases": [[0.0], [1.0], [2.0], [3.0]]}
    text = page(head, rows, ("duration", "objective"))
    assert "<b>no</b>" not in text
    assert "<i>x</i>" not in text
    assert "2 of 4 cases are certified; 1 are not done yet" in " ".join(" ".join(Page(text).words).split())
    assert set(pictures(rows, ["a.b"], ("duration", "objective"))) == {"parallel", "response", "success", "pareto"}
    assert set(pictures([], [], ("duration", "objective"))) == set()


def test_pictures_have_units(monkeypatch):
    """On every axis of a quantity that has one; the picture of each is otherwise as before."""
    from ocp.app.batch import pictures as drawn

    said, inner = [], drawn.plain
    monkeypatch.setattr(drawn, "plain", lambda text: said.append(text) or inner(text))
    rows = [{"case": k, "a.b": float(k), "c": float(k * k), "ok": k != 1, "objective": 3.0 - k, "duration": 1.0 + k}
            for k in range(4)]
    drawn.pictures(rows, ["a.b", "c"], ("duration", "objective"), {"a.b": "rad", "c": "N"})
    assert {"a.b [rad]", "c [N]", "duration [s]", "objective"} <= set(said)
    assert not {"a.b", "c", "duration"} & set(said)


def test_the_pareto_front():
    """Against all pairs."""
    points = np.random.default_rng(3).random((60, 2))
    found = set(front(points).tolist())
    for i, own in enumerate(points):
        dominated = any(np.all(other <= own) and np.any(other < own) for other in points)
        assert (i in found) == (not dominated)


@pytest.mark.parametrize(("words", "message"), [
    (["--over", "parameters.mas=1:2:3"], "did you mean 'mass'"),
    (["--over", "phase.duration=0:1"], "a grid needs a number of values"),
    (["--over", "phase.duration=1:2", "--design", "latn", "--samples", "3"], "did you mean 'latin'"),
    (["--over", "phase.duration=1:2", "--design", "latin"], "needs samples"), (["--keep", "som"], "keeps none"),
    (["--scheduler", "tcp://127.0.0.1:9", "--over", "phase.duration=1:2:2"], "no scheduler answers")])
def test_bad_input_is_named(swept, tmp_path, capsys, monkeypatch, words, message):
    if "--scheduler" in words:
        pytest.importorskip("distributed")
        monkeypatch.setattr("ocp.app.batch.workers.ANSWERS", 1.0)
    assert call("sweep", swept / "block.yaml", "--out", tmp_path / "out", "-j", "0", "-q", *words) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_no_sweep_has_no_report(tmp_path, capsys):
    assert call("report", tmp_path) == 2
    assert "is not the folder of a sweep" in capsys.readouterr().err


WELL = """
name: well
system:
  states: {x: m}
  controls: {u: m/s}
  dynamics: {x: u}
phase:
  duration: 1.0
  start: {x: 0.1}
  costs:
    - {name: effort, running: 0.01*u**2}
    - {name: end, final: "(x**2 - 1)**2 + x/4"}
  guess: {states: {x: 1}}
solve:
  method: collocation
  collocation: {scheme: hermite_simpson, intervals: 10}
"""


def test_multi_start_lists_local_optima(tmp_path, capsys):
    """A particle in the double well ``(x^2 - 1)^2 + x/4`` ends in either; the better one is at the left."""
    (tmp_path / "well.yaml").write_text(WELL)
    assert call("sweep", tmp_path / "well.yaml", "--starts", "12", "--out", tmp_path / "out", "-j", "0") == 0
    told = capsys.readouterr().out
    optima = [float(number) for number in re.findall(r"optimum (\S+):", told)]
    x = np.linspace(-2, 2, 400001)
    value = (x**2 - 1) ** 2 + x / 4 + 0.01 * (x - 0.1) ** 2  # at constant speed
    minima = sorted(value[1:-1][(value[1:-1] < value[:-2]) & (value[1:-1] < value[2:])])
    np.testing.assert_allclose(optima, minima, rtol=1e-5)


@pytest.mark.slow
def test_a_search_ends_by_itself(tmp_path, capsys):
    """Rounds of twenty around the guess, then around the best; a killed one goes on; its table depends on no number of workers."""
    (tmp_path / "well.yaml").write_text(WELL)
    words = ("sweep", tmp_path / "well.yaml", "--starts", "auto", "--keep", "best", "-q", "-j", 0, "--out")
    assert call(*words, tmp_path / "out") == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "40 starts in rounds of 20" in told
    assert "less than 5% of starts there are estimated to lead to a better optimum, and 0% to any" in told
    rows = (tmp_path / "out" / "cases.csv").read_bytes()
    assert rows.count(b"\n") == 41
    (run,) = (tmp_path / "out" / "runs").iterdir()
    kept = json.loads((run / "summary.json").read_text())["objective"]
    assert kept == pytest.approx(min(float(own) for own in re.findall(r"optimum (\S+):", told)), rel=1e-7)
    journal = (tmp_path / "out" / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "out" / "journal.jsonl").write_bytes(b"".join(journal[:27]) + journal[27][:9])
    assert call(*words, tmp_path / "out") == 0
    assert (tmp_path / "out" / "cases.csv").read_bytes() == rows
    assert call("report", tmp_path / "out") == 0
    assert "None of the last 20 was better" in (tmp_path / "out" / "report.html").read_text()
    assert call(*words, tmp_path / "other", "--over", "phase.duration=[1, 2]") == 2
    assert "auto applies to a single problem" in capsys.readouterr().err


def test_a_surface_leaves_out_what_is_not_certified():
    """Triangles at a refused place are masked; no value beyond those of certified places is drawn."""
    from ocp.app.batch.pictures import _surface

    places = np.array([(i, j) for i in range(4) for j in range(4)], dtype=float)
    bad = places[places.min(axis=1) >= 2]
    good = places[places.min(axis=1) < 2]
    triangles, values = _surface(good, good.sum(axis=1), bad)
    kept = triangles.triangles[~triangles.mask]
    corners = np.stack([triangles.x, triangles.y], axis=1)[kept]
    assert len(kept)
    assert not (corners.min(axis=2) >= 2).any()
    np.testing.assert_allclose(values[kept], corners.sum(axis=2))
    assert _surface(good[:3], np.arange(3.0), bad) is None
    assert _surface(good, np.zeros(len(good)), bad) is None
