"""Terminals, pipes and places that take less than they are given: one clear message, and nothing lost."""

import errno
import json
import os
import subprocess
import sys
import time

import pytest
from commands import call
from repository import ROOT

import ocp.app.pages.results as results
import ocp.app.pipeline as pipeline
from ocp.app.pages.folders import is_run

BLOCK = ROOT / "problems" / "block_move.yaml"
SHORT = """\
name: Übermäßig kurz
system:
  states: {x: m, v: m/s}
  controls: {force: N}
  dynamics: {x: v, v: force}
phase:
  duration: 1.5
  start: {x: 0, v: 0}
  final: {x: 1, v: 0}
  bounds: {force: [-1, 1]}
  costs:
    - {name: effort, running: "force**2"}
"""


def process(*arguments, **environment):
    return subprocess.run([sys.executable, "-c", "from ocp.app.cli import main; main()", *map(str, arguments)], cwd=ROOT,
                          capture_output=True, timeout=120, env={**os.environ, **environment})


def test_a_terminal_without_utf8_gets_question_marks(tmp_path):
    file = tmp_path / "short.yaml"
    file.write_text(SHORT, encoding="utf-8")
    found = process("explain", file, LC_ALL="C", PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    assert found.returncode == 0, found.stderr
    assert b"?berm" in found.stdout
    assert b"In conflict" in found.stdout


def test_a_pipe_that_closes_early_ends_quietly(tmp_path):
    with subprocess.Popen([sys.executable, "-c", "from ocp.app.cli import main; main()", "solve", str(BLOCK), "--out",
                           str(tmp_path / "run")], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as one:
        one.stdout.close()
        told = one.stderr.read().decode()
        assert one.wait(timeout=120) == 0
    assert told == ""
    assert (tmp_path / "run" / "summary.json").is_file()


@pytest.mark.parametrize("place", ["/proc/nowhere", "{file}", "{file}/run", "{file}/deep/run"])
def test_a_place_where_no_folder_can_be_is_bad_input(place, tmp_path, capsys):
    file = tmp_path / "file"
    file.touch()
    assert call("solve", BLOCK, "--quiet", "--out", place.format(file=file)) == 2
    said = capsys.readouterr().err
    assert "error:" in said
    assert "another" in said
    assert "fault" not in said


def full(*arguments, **options):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_does_not_cost_the_answer(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(results, "write_arrays", full)
    assert call("solve", BLOCK, "--quiet", "--out", tmp_path / "run") == 1
    said = capsys.readouterr()
    assert "objective   12" in said.out
    assert "certified" in said.out
    assert "could not be written" in said.err
    assert "No space left" in said.err
    assert "fault" not in said.err
    assert not list(tmp_path.iterdir())


def test_a_disk_that_fills_up_at_the_pictures_keeps_the_run(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(pipeline, "write_pages", full)
    assert call("solve", BLOCK, "--quiet", "--out", tmp_path / "run") == 1
    assert "the report could not be written" in capsys.readouterr().err
    assert is_run(tmp_path / "run")


def killed(folder, process_id):
    folder.mkdir()
    (folder / "problem.yaml").write_text("name: x\n")
    (folder / "unfinished.json").write_text(json.dumps({"format": "lieocp run", "process": process_id}))


def test_what_a_killed_run_left_is_cleaned_up(tmp_path, capsys):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    killed(tmp_path / "run", dead.pid)
    half = tmp_path / ".run.partial-0123"
    half.mkdir()
    os.utime(half, (time.time() - 3600.0,) * 2)
    fresh = tmp_path / ".run.partial-4567"  # somebody may be writing there now
    fresh.mkdir()
    assert call("solve", BLOCK, "--quiet", "--out", tmp_path / "run") == 0
    assert is_run(tmp_path / "run")
    assert not half.exists()
    assert fresh.exists()


def test_a_run_of_a_living_process_is_left_alone(tmp_path, capsys):
    killed(tmp_path / "run", os.getpid())
    assert call("solve", BLOCK, "--quiet", "--out", tmp_path / "run") == 2
    assert "holds an interrupted run" in capsys.readouterr().err
