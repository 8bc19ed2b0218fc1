"""`ocp diff` and `ocp replay`: what differs is told, what is the same is the same."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from ocp.app import cli
from ocp.app.runs import difference, replay
from ocp.errors import ProblemError

PROBLEMS = Path(__file__).resolve().parents[3] / "problems"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    from ocp.app.pipeline import run as solve

    folder = tmp_path_factory.mktemp("runs") / "block"
    solve(PROBLEMS / "block_move.yaml", out=folder)
    return folder


def test_a_run_comes_out_the_same(run):
    same, lines = replay(run)
    assert same
    assert lines[-1] == "motion     the same to the last bit"


def test_a_run_that_was_tampered_with_does_not(run, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(run, other)
    summary = json.loads((other / "summary.json").read_text())
    summary["objective"] += 0.5
    (other / "summary.json").write_text(json.dumps(summary))
    with np.load(other / "trajectory.npz") as archive:
        arrays = dict(archive)
    arrays["x"] = arrays["x"] + 1e-3
    np.savez(other / "trajectory.npz", **arrays)
    same, lines = replay(other)
    assert not same
    assert "not the same bits" in lines[-1]


def test_differences_of_files_and_runs(run, tmp_path, capsys):
    text = (PROBLEMS / "block_move.yaml").read_text()
    changed = tmp_path / "changed.yaml"
    changed.write_text(text.replace("duration: 1.0", "duration: 2.0"))
    lines = difference(PROBLEMS / "block_move.yaml", changed)
    assert any(line.startswith("-") and "1.0" in line for line in lines)
    assert any(line.startswith("+") and "2.0" in line for line in lines)
    assert difference(changed, changed) == []
    with pytest.raises(SystemExit) as ended:
        cli.main(["diff", str(run), str(run)])
    assert ended.value.code == 0
    assert capsys.readouterr().out == "the same\n"
    with pytest.raises(ProblemError, match="not the folder of a run"):
        difference(tmp_path, changed)
