"""``ocp compare`` as a user meets it: the table, the folder, the exit codes."""

import csv
import json

import pytest
from commands import call
from repository import ROOT

from ocp.app.compare.records import Comparison, Entry, Spec, parse_specs
from ocp.app.pages.results import read_run
from ocp.errors import ProblemError
from ocp.methods import METHODS, Method

FOLDER = ROOT / "problems"
BLOCK = FOLDER / "block_move.yaml"
COARSE = "collocation:scheme=trapezoid,intervals=40"


def rows(folder):
    with (folder / "compare.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_two_option_sets_side_by_side(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    out = tmp_path / "both"
    assert call("compare", BLOCK, "--methods", "collocation", COARSE, "--tolerance", "0.01", "--repeat", "2", "--out", out) == 0
    printed = capsys.readouterr().out
    assert "All 2 runs are certified and agree with the reference" in printed
    assert "scheme=trapezoid" in printed
    fine, coarse = rows(out)
    assert (fine["method"], coarse["options"]) == ("collocation", "scheme=trapezoid,intervals=40")
    assert float(fine["cost"]) == pytest.approx(12, rel=1e-9)
    # piecewise linear force through the trapezoid rule: a second-order error above the optimum
    assert float(coarse["relative to best"]) == pytest.approx(float(coarse["cost"]) / float(fine["cost"]) - 1, rel=1e-9)
    assert 0 < float(coarse["relative to reference"]) < 0.01
    for row in (fine, coarse):
        assert row["status"] == "CONVERGED"
        assert row["certificate"] == "holds"
        assert float(row["transcription [s]"]) + float(row["solve [s]"]) == pytest.approx(float(row["total [s]"]))
        assert 0 < float(row["again [s]"]) < 10
        run = read_run(out / row["run"])
        assert run.summary["objective"] == float(row["cost"])
        assert max(v["at_knots"] for v in run.summary["certificate"]["violations"]) == float(row["violation at knots"])
    assert read_run(out / coarse["run"]).summary["options"]["intervals"] == 40
    assert (out / "trajectories.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((out / "summary.json").read_text(encoding="utf-8"))["unanimous"] is True


def test_runs_that_disagree_exit_with_four(tmp_path, capsys):
    both = ("--methods", "collocation", COARSE)
    assert call("compare", BLOCK, *both, "--tolerance", "1e-6", "--out", tmp_path / "c", "--quiet") == 4
    assert f"{COARSE} differs from the reference by more than 1e-06" in capsys.readouterr().out


def test_runs_that_are_not_certified_exit_with_one(tmp_path, capsys):
    few = "collocation:scheme=trapezoid,intervals=8"
    out, file = tmp_path / "c", FOLDER / "cartpole_swingup.yaml"
    assert call("compare", file, "--methods", "collocation", "--methods", few, "--out", out, "--quiet") == 1
    printed = capsys.readouterr().out
    assert "1 of 2 certified" in printed
    assert f"{few} fails: " in printed
    assert rows(out)[1]["certificate"].startswith("fails: ")


def refusing(monkeypatch):
    """Only collocation takes a problem; iLQR says why it does not."""
    reasons = {"collocation": [], "ilqr": ["constraint 'moon' is out of reach"]}
    monkeypatch.setattr(Method, "unsupported", lambda self, problem: reasons.get(self.name, ["not today"]))


def test_by_default_every_method_is_asked_and_refusals_are_reported(tmp_path, capsys, monkeypatch):
    """A refusal is in the table with its reason and costs nothing; asked for by name it is a failure."""
    refusing(monkeypatch)
    out = tmp_path / "c"
    assert call("compare", BLOCK, "--out", out, "--quiet") in (0, 4)
    printed = capsys.readouterr().out
    assert "ilqr refuses: constraint 'moon' is out of reach" in printed
    found = {row["method"]: row for row in rows(out)}
    assert set(found) == set(METHODS)
    assert found["ilqr"]["status"] == "REFUSED"
    assert found["ilqr"]["refused"] == "constraint 'moon' is out of reach"
    assert found["collocation"]["status"] == "CONVERGED"
    assert call("compare", BLOCK, "--methods", "collocation", "ilqr", "--out", tmp_path / "d", "--quiet") == 1


def test_an_interrupt_keeps_what_there_is(tmp_path, capsys, monkeypatch):
    """Ctrl-C in the second solve: the first stays, the third is never begun."""
    from ocp.app.compare import run as module
    from ocp.problem import Status

    whole, seen = module.run_loaded, []

    def interrupted(*arguments, **more):
        from dataclasses import replace

        outcome = whole(*arguments, **more)
        seen.append(1)
        return outcome if len(seen) < 2 else replace(outcome, solution=replace(outcome.solution, status=Status.INTERRUPTED))

    monkeypatch.setattr(module, "run_loaded", interrupted)
    out = tmp_path / "c"
    assert call("compare", BLOCK, "--methods", "collocation", COARSE, "collocation:intervals=7", "--out", out, "--quiet") == 1
    assert len(seen) == 2
    assert [row["status"] for row in rows(out)] == ["CONVERGED", "INTERRUPTED"]
    assert "Interrupted: 2 reached" in capsys.readouterr().out


@pytest.mark.parametrize(("words", "message"), [
    (("colocation",), "did you mean 'collocation'"),
    (("collocation:intervals",), "is not key=value"),
    (("collocation:intervals=5,intervals=6",), "intervals is given twice"),
    (("collocation", "collocation"), "is listed twice"),
])
def test_specs_are_read_strictly(words, message):
    with pytest.raises(ProblemError, match=message):
        parse_specs(words)


def test_specs_have_labels_and_folders():
    (spec,) = parse_specs(["collocation:scheme=trapezoid, intervals=40"])
    assert spec == Spec("collocation", {"scheme": "trapezoid", "intervals": "40"})
    assert spec.label == COARSE
    assert spec.slug == "collocation-scheme-trapezoid-intervals-40"
    assert [s.method for s in parse_specs([])] == list(METHODS)


@pytest.mark.parametrize(("arguments", "words"), [
    (("--methods", "collocation:intervalz=5"), "did you mean 'intervals'"),
    (("--methods", "collocation:intervals=0"), "must be a whole number >= 1, got 0"),
    (("--repeat", "-1"), "must not be negative"), (("--tolerance", "0"), "must be positive"),
])
def test_mistakes_exit_with_two_before_anything_runs(arguments, words, tmp_path, capsys):
    assert call("compare", BLOCK, *arguments, "--out", tmp_path / "c") == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "c").exists()


def test_the_median_of_repeats():
    assert Entry(Spec("ilqr"), again=(3.0, 1.0, 2.0)).median_again == 2.0
    assert Entry(Spec("ilqr"), again=(4.0, 1.0)).median_again == 2.5
    assert Entry(Spec("ilqr")).median_again is None
    empty = Comparison("none", (Entry(Spec("ilqr", asked=False), reasons=("no",)),), None, 1e-3)
    assert not empty.certified
