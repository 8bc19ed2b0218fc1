"""``ocp explain`` as a user meets it."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest
from commands import call
from repository import ROOT

import ocp.app.explain.run as run_module
from ocp.app.files.load import load_problem
from ocp.app.sentences import sentence
from ocp.explain import Infeasibility
from ocp.methods import make_options
from ocp.problem import Kind
from ocp.reach import first_findings

FOLDER = ROOT / "problems"
SHORT = """\
name: Too short
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
solve:
  collocation: {scheme: trapezoid, intervals: 40}
"""


@pytest.fixture
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")


@pytest.fixture
def short(tmp_path):
    file = tmp_path / "short.yaml"
    file.write_text(SHORT, encoding="utf-8")
    return file


def line(printed, start):
    (found,) = [text.split() for text in printed.splitlines() if text.strip().startswith(start)]
    return found


def check_short(printed):
    assert "its constraints are inconsistent" in printed
    assert "In conflict:" in printed
    duration = line(printed, "duration ")
    assert duration[1:3] == ["1.5", "s"]
    assert float(duration[3]) == pytest.approx(2.0, abs=5e-3)  # two seconds are needed
    assert float(duration[5]) == pytest.approx(0.5, abs=3e-3)
    assert duration[-1] == "solves"
    place = line(printed, "final x ")
    assert float(place[4]) == pytest.approx(0.5625, abs=5e-3)
    assert "Each was verified" in printed


def test_a_file_that_is_infeasible(short, capsys, wide):
    assert call("explain", short) == 0
    check_short(capsys.readouterr().out)


def test_a_run_that_ended_infeasible_is_taken_from_its_folder(short, tmp_path, capsys, wide):
    run = tmp_path / "run"
    assert call("solve", short, "--out", run, "--quiet") == 1
    capsys.readouterr()
    assert call("explain", run) == 0
    printed = capsys.readouterr().out
    assert "run of collocation (infeasible)" in printed
    check_short(printed)
    # with the remedy nothing is wrong any more
    assert call("explain", run, "--set", "phase.duration=2.01") == 0
    printed = capsys.readouterr().out
    assert "solved" in printed
    assert "bound of force" in printed


def test_not_a_number_is_shown_in_its_line(short, capsys, wide):
    text = SHORT.replace('"force**2"', '"force**2 + log(x - 0.5)"')
    short.write_text(text, encoding="utf-8")
    assert call("explain", short) == 0
    printed = capsys.readouterr().out
    number, column = next((i, at.index("log(") + 1) for i, at in enumerate(text.splitlines(), 1) if "log(" in at)
    assert f"{short}:{number}:{column}: phase.costs[0].running" in printed
    assert "log(x - 0.5) where x - 0.5 = -0.5" in printed
    lines = printed.splitlines()
    source, marks = next((a, b) for a, b in zip(lines[:-1], lines[1:], strict=True) if set(b) == {" ", "^"})
    begin = marks.index("^")
    assert source[begin:begin + marks.count("^")] == "log(x - 0.5)"


def test_a_run_that_met_not_a_number(short, tmp_path, capsys, wide):
    short.write_text(SHORT.replace('"force**2"', '"force**2 + sqrt(x - 0.5)"'), encoding="utf-8")
    run = tmp_path / "run"
    assert call("solve", short, "--out", run, "--quiet") == 1
    capsys.readouterr()
    assert call("explain", run) == 0
    printed = capsys.readouterr().out
    assert f"{run / 'problem.yaml'}:" in printed
    assert "sqrt(x - 0.5)" in printed


def test_a_solution_is_priced(tmp_path, capsys, wide):
    run = tmp_path / "run"
    assert call("solve", FOLDER / "block_move.yaml", "--out", run, "--quiet") == 0
    for target in (FOLDER / "block_move.yaml", run):
        capsys.readouterr()
        assert call("explain", target) == 0
        printed = capsys.readouterr().out
        final = line(printed, "final x ")
        assert final[2:4] == ["1", "m"]
        assert float(final[final.index("s") + 1]) == pytest.approx(24, rel=1e-5)
        assert "saves 24 per m less" in printed
        assert "saves 36 per s more" in printed


def test_a_run_without_an_end_says_what_it_sees(short, capsys, wide):
    text = SHORT.replace("[-1, 1]", "[-20, 20]").replace('"force**2"', '"-force**2 * (1 + x**2)"').replace(
        "bounds: {force: [-20, 20]}", "bounds: {}")
    short.write_text(text, encoding="utf-8")
    assert call("explain", short, "--set", "solve.collocation.max_iterations=30", "--set", "solve.collocation.intervals=10") == 0
    printed = capsys.readouterr().out
    assert "Largest violations at the last iterate" in printed
    assert "u.force has grown to" in printed
    assert "decreases without bound" in printed or "without limit" in printed
    assert "Scales of the Jacobian" in printed


def test_dependent_equations_are_named(short, capsys, wide):
    short.write_text(SHORT.replace("duration: 1.5", "duration: 3").replace("solve:", """\
  constraints:
    - {name: again, at: final, expression: "2 * x", equal: 2.2}
solve:"""), encoding="utf-8")
    call("explain", short)
    printed = capsys.readouterr().out
    assert {word.strip(",.") for word in line(printed, "In conflict:")} >= {"again", "final"}
    (way,) = [text.split() for text in printed.splitlines() if text.startswith("  again ")]
    assert [float(way[i]) for i in (1, 2)] == pytest.approx([2.2, 2.0])
    assert "Linearly dependent equations" in printed
    assert "again @ final (+1)" in printed


@pytest.mark.parametrize(("name", "words"), [("nowhere.yaml", "there is no such file or run folder"),
                                             ("empty", "is not the folder of a run")])
def test_mistakes_exit_with_two(name, words, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert call("explain", tmp_path / name) == 2
    assert words in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------ first findings, certificates
FAR = SHORT.replace("bounds: {force: [-1, 1]}", "bounds: {force: [-1, 1], v: [-0.5, 0.5]}")


def test_first_findings_name_distances_out_of_reach(tmp_path):
    file = tmp_path / "far.yaml"
    file.write_text(FAR, encoding="utf-8")
    (found,) = first_findings(load_problem(file).problem)
    assert found.data["sure"]
    assert (found.kind, found.name, found.value, found.tolerance) == (Kind.DISTANCE_TOO_LONG, "x", 1.0, 0.75)
    assert (found.data["rate"], found.data["fastest"], found.data["longest"]) == ("v", 0.5, 1.5)
    assert sentence(found) == ("x has to move by 1 from its start to its end, but v is at most 0.5 in that direction: at most "
                               "0.75 in 1.5 s; it needs 2 s")
    file.write_text(FAR.replace("duration: 1.5", "duration: 2.6"), encoding="utf-8")
    assert first_findings(load_problem(file).problem) == ()


def test_first_findings_know_which_state_is_the_rate_of_which():
    problem = load_problem(FOLDER / "ur5_reach.yaml", {"phase.duration": "0.15"}).problem
    found = first_findings(problem)
    assert ("v.wrist_3_joint", 0.15) in [(one.data["rate"], one.data["longest"]) for one in found]
    assert not any(one.data["sure"] for one in found)
    for name in ("cartpole_swingup", "quadrotor", "ur5_reach", "block_move"):
        assert first_findings(load_problem(FOLDER / f"{name}.yaml").problem) == ()


def uncertified(folder, *settings):
    assert call("solve", FOLDER / "cartpole_swingup.yaml", "--quiet", "--out", folder, *settings) == 1


@pytest.mark.parametrize(("settings", "fails", "keys"), [
    (["solve.collocation.intervals=10"], "re-integration gap",
     {"solve.collocation.intervals": "20", "solve.collocation.refine": "h"}),
    (["accept.stationarity=1e-30"], "stationarity", {"solve.collocation.tolerance": "1e-10", "solve.collocation.scaling": "auto"}),
])
def test_a_run_that_converged_uncertified_gets_advice_that_the_file_takes(tmp_path, capsys, wide, settings, fails, keys):
    uncertified(tmp_path / "run", *(part for one in settings for part in ("--set", one)))
    capsys.readouterr()
    assert call("explain", tmp_path / "run") == 0
    printed = capsys.readouterr().out
    assert "converged, not certified" in printed
    assert fails in printed
    assert "price" not in printed
    for key, value in keys.items():
        assert f"--set {key}={value}" in printed
    offered = dict(line.partition("--set ")[2].rstrip(")").split("=") for line in printed.splitlines() if "--set " in line)
    for key, value in offered.items():
        loaded = load_problem(FOLDER / "cartpole_swingup.yaml", {key: value})
        make_options("collocation", loaded.options_for("collocation"))


def test_the_first_advice_helps(tmp_path, capsys, wide):
    uncertified(tmp_path / "run", "--set", "solve.collocation.intervals=10")
    capsys.readouterr()
    call("explain", tmp_path / "run")
    (first, *_) = [line.partition("--set ")[2].rstrip(")") for line in capsys.readouterr().out.splitlines() if "--set " in line]
    for _ in range(3):
        key, _, value = first.partition("=")
        file, place = FOLDER / "cartpole_swingup.yaml", tmp_path / "finer"
        if call("solve", file, "--quiet", "--out", place, "--overwrite", "--set", first) == 0:
            return
        first = f"{key}={2 * int(value)}"
    pytest.fail("doubling the intervals three times did not certify it")


def test_ctrl_c_leaves_what_is_known(short, capsys, wide, monkeypatch):
    def stopped(program, x, improved=None, **rest):
        improved(Infeasibility(False, ("duration", "final x"), point=x))
        raise KeyboardInterrupt

    monkeypatch.setattr(run_module.causes, "explain_infeasibility", stopped)
    call("explain", short)
    printed = capsys.readouterr().out
    assert "interrupted" in printed
    assert "inconsistent: duration, final x" in printed
    assert "In conflict: duration, final x" in printed
    assert "Traceback" not in printed


def test_explain_speaks_within_seconds(tmp_path):
    file = tmp_path / "fast.yaml"
    text = (FOLDER / "ur5_reach.yaml").read_text(encoding="utf-8").replace("robot: models/", f"robot: {FOLDER}/models/")
    file.write_text(re.sub(r"(?m)^  duration: .*", "  duration: 0.15", text), encoding="utf-8")
    process = subprocess.Popen([sys.executable, "-c", "from ocp.app.cli import main; main()", "explain", str(file)],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=FOLDER.parent,
                               env={**os.environ, "PYTHONUNBUFFERED": "1"})
    begin = time.monotonic()
    lines = [process.stdout.readline() for _ in range(3)]
    assert time.monotonic() - begin < 15.0  # 3 s where nothing else runs
    assert "first diagnosis" in "".join(lines)
    time.sleep(2.0)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert "interrupted" in out
    assert "Traceback" not in out + err
