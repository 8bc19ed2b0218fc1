"""``ocp verify`` as a user meets it: the scoreboard, its files, Ctrl-C and the exit code."""

import csv
import shutil
import time

import pytest
from commands import call
from repository import ROOT

import ocp
from ocp.app.verify import run as module
from ocp.app.verify.records import gather
from ocp.errors import ProblemError

FOLDER = ROOT / "problems"


def rows(folder):
    with (folder / "scoreboard.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def gallery(tmp_path):
    """Two problems, and files of other kinds beside and below."""
    place = tmp_path / "gallery"
    (place / "ik").mkdir(parents=True)
    (place / "mpc").mkdir()
    for name in ("block_move.yaml", "gear_ratio.yaml"):
        shutil.copy(FOLDER / name, place / name)
    shutil.copy(FOLDER / "ik" / "ur5_pose.yaml", place / "ik")
    shutil.copy(FOLDER / "mpc" / "cartpole_balance.yaml", place / "mpc")
    return place


def change(gallery, name, old, new):
    text = (gallery / name).read_text(encoding="utf-8")
    assert old in text
    (gallery / name).write_text(text.replace(old, new), encoding="utf-8")


def test_a_gallery_that_passes(gallery, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    out = tmp_path / "board"
    assert call("verify", gallery, "--out", out) == 0
    printed = capsys.readouterr().out
    assert "2 of 2 pass, 2 skipped" in printed
    assert "[1/4] block_move.yaml collocation: pass" in printed  # progress
    assert "skipped (inverse kinematics: ocp ik): ik/ur5_pose.yaml" in printed
    assert "skipped (closed loop: ocp mpc): mpc/cartpole_balance.yaml" in printed
    found = {row["file"]: row for row in rows(out)}
    block = found["block_move.yaml"]
    assert (block["verdict"], block["certificate"], block["method"]) == ("pass", "holds", "collocation")
    assert float(block["cost"]) == pytest.approx(12, rel=1e-9)
    assert float(block["difference"]) == pytest.approx(abs(float(block["cost"]) - 12) / 12, abs=1e-15)
    assert float(block["seconds"]) > 0
    page = (out / "scoreboard.md").read_text(encoding="utf-8")
    assert "| block_move.yaml | collocation | 12 | 12 |" in page
    assert "2 of 2 pass" in page


def test_a_wrong_reference_fails(gallery, tmp_path, capsys):
    change(gallery, "block_move.yaml", "objective: 12.0", "objective: 12.1")
    assert call("verify", gallery, "--out", tmp_path / "b", "--quiet") == 1
    printed = capsys.readouterr().out
    assert "1 of 2 pass, 1 fail" in printed
    assert "block_move.yaml collocation fails: cost differs from the reference by 0.0083 >" in printed


def test_what_is_not_certified_and_what_cannot_be_read_fails(gallery, tmp_path, capsys):
    change(gallery, "gear_ratio.yaml", "solve:", "accept: {error_estimate: 1e-30, gap_segment: 1e-30}\nsolve:")
    change(gallery, "block_move.yaml", "duration:", "duratoin:")
    assert call("verify", gallery, "--out", tmp_path / "b", "--quiet") == 1
    found = {row["file"]: row for row in rows(tmp_path / "b")}
    assert found["gear_ratio.yaml"]["certificate"] == "fails"
    assert "> 1e-30" in found["gear_ratio.yaml"]["failure"]
    assert "> 1e-30" in found["gear_ratio.yaml"]["reason"]
    assert found["block_move.yaml"]["verdict"] == "fail"
    assert "duratoin" in capsys.readouterr().out


def test_a_file_that_is_out_of_time_fails_and_the_rest_goes_on(gallery, tmp_path, capsys):
    assert call("verify", gallery, "--out", tmp_path / "b", "--seconds", "1e-9", "--quiet") == 1
    found = {row["file"]: row for row in rows(tmp_path / "b")}
    assert "out of time after 1e-09 s" in found["block_move.yaml"]["reason"]
    assert len(found) == 4
    assert "0 of 2 pass, 2 fail" in capsys.readouterr().out


def test_a_fault_of_ours_is_a_row_like_any_other(gallery, tmp_path, monkeypatch):
    whole = module.solve

    def broken(problem, *arguments, **more):
        if problem.name == "Block move":
            raise RuntimeError("a wheel came off")
        return whole(problem, *arguments, **more)

    monkeypatch.setattr(module, "solve", broken)
    assert call("verify", gallery, "--out", tmp_path / "b", "--quiet") == 1
    found = {row["file"]: row for row in rows(tmp_path / "b")}
    assert "RuntimeError: a wheel came off" in found["block_move.yaml"]["reason"]
    assert found["gear_ratio.yaml"]["verdict"] == "pass"


@pytest.mark.parametrize("inside", [True, False])
def test_ctrl_c_keeps_what_there_is(gallery, tmp_path, capsys, monkeypatch, inside):
    """Whether it meets the solver, which hands back its iterate, or anything else."""
    whole, calls = module.solve, []

    def interrupted(problem, *arguments, progress, **more):
        calls.append(problem.name)
        if len(calls) < 2:
            return whole(problem, *arguments, progress=progress, **more)
        if not inside:
            raise KeyboardInterrupt

        def stop(row):
            raise KeyboardInterrupt

        return whole(problem, *arguments, progress=stop, **more)

    monkeypatch.setattr(module, "solve", interrupted)
    assert call("verify", gallery, "--out", tmp_path / "b", "--quiet") == 1
    assert [row["file"] for row in rows(tmp_path / "b")] == ["block_move.yaml"]
    assert "interrupted, 3 not reached" in capsys.readouterr().out


def test_quick_leaves_out_what_is_large(gallery, tmp_path, capsys):
    change(gallery, "gear_ratio.yaml", "intervals: ", "intervals: 1000")
    assert call("verify", gallery, "--quick", "--out", tmp_path / "b", "--quiet") == 0
    found = {row["file"]: row for row in rows(tmp_path / "b")}
    assert found["gear_ratio.yaml"]["verdict"] == "skipped"
    assert "too large for --quick" in found["gear_ratio.yaml"]["reason"]
    assert found["block_move.yaml"]["verdict"] == "pass"


def test_all_takes_every_method_that_a_file_has_options_for(gallery, tmp_path):
    paths = [FOLDER / "cartpole_to_goal.yaml", gallery / "block_move.yaml"]
    tasks = [task for path in paths for task in module._tasks(path, True)]
    methods = {task.path.name: [t.method for t in tasks if t.path == task.path] for task in tasks}
    assert {"collocation", "ilqr"} <= set(methods["cartpole_to_goal.yaml"])
    assert methods["block_move.yaml"][0] == "collocation"


def test_files_are_gathered_in_order_and_once(gallery, tmp_path):
    found = gather([gallery / "gear_ratio.yaml", gallery])
    assert [p.relative_to(gallery).as_posix() for p in found] == ["gear_ratio.yaml", "block_move.yaml", "ik/ur5_pose.yaml",
                                                                  "mpc/cartpole_balance.yaml"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ProblemError, match=r"holds no \.yaml file"):
        gather([tmp_path / "empty"])


def test_places_that_do_not_exist_exit_with_two(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call("verify", tmp_path / "nowhere.yaml") == 2
    assert "there is no such file or folder" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_gallery_is_found_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert (module.gallery() / "block_move.yaml").is_file()  # of the source tree; a wheel carries it within the package
    assert call("check", "problems/block_move.yaml") == 0
    assert call("robot", "problems/models/ur5.urdf") == 0
    assert ocp.load("problems/block_move.yaml").to_yaml().startswith("name: Block move")
    assert call("check", "problems/nothing.yaml") == 2
    (tmp_path / "problems").mkdir()
    assert module.gallery().as_posix() == "problems"  # that of the folder comes first


def test_compilation_is_no_solving_time(gallery, tmp_path, capsys, monkeypatch):
    compiled = []

    def prepare(names):
        compiled.append(tuple(names))
        time.sleep(3.0)

    monkeypatch.setattr(module, "missing", lambda names: tuple(name for name in names if not compiled))
    monkeypatch.setattr(module, "prepare", prepare)
    change(gallery, "block_move.yaml", "method: collocation", "method: ilqr")
    (gallery / "gear_ratio.yaml").unlink()
    begin = time.monotonic()
    call("verify", gallery, "--out", tmp_path / "board")
    whole = time.monotonic() - begin
    assert compiled == [("ilqr", "ilqr with constraints")]
    assert "compiling ilqr, ilqr with constraints, once on this machine" in capsys.readouterr().err
    (block,) = [row for row in rows(tmp_path / "board") if row["file"] == "block_move.yaml"]
    assert 0.0 < float(block["seconds"]) < whole - 3.0
