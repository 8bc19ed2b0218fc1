"""Every command ends at its limit of time, with what there is: by a clock that leaps while a chosen activity asks; and the process
that ends what cannot be left."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from commands import call
from repository import ROOT
from stopping_clock import StoppingClock

import ocp.app.prepare as prepare
from ocp import interrupts
from ocp.app import checkpoints, pipeline, supervisor
from ocp.app.commands import solve as solve_commands
from ocp.app.derivative_study import run as derivative_run
from ocp.app.derivative_study.study import Settings
from ocp.app.files.load import load_problem
from ocp.app.pages.folders import is_unfinished
from ocp.app.pages.results import read_run
from ocp.interrupts import Activity
from ocp.problem import Status

FOLDER = ROOT / "problems"
BLOCK = FOLDER / "block_move.yaml"


def left_out(folder):
    return {one["name"]: one["data"]["parts"] for one in read_run(folder).summary["findings"] if one["kind"] == "left_out"}


# ------------------------------------------------------------------------------------------------ stages of a run
@pytest.mark.parametrize("name", ["panda_reach", "bouncing_ball"])
def test_reading_stops_between_robots_and_phases(name):
    clock = StoppingClock(Activity.READING, 1)
    with clock.limited(), pytest.raises(interrupts.Stopped, match="reading"):
        load_problem(FOLDER / f"{name}.yaml")
    assert clock.asked == 1


@pytest.mark.parametrize("ctrl_c", [False, True])
@pytest.mark.parametrize("count", [0, 1, 3, 10**9])
def test_pictures_take_what_remains_and_the_answer_is_written(count, ctrl_c, tmp_path):
    clock = StoppingClock(Activity.PICTURES, count, ctrl_c=ctrl_c)
    with clock.limited():
        outcome = pipeline.run(BLOCK, out=tmp_path / "run")
    whole = count == 10**9
    assert clock.passed != whole
    run = read_run(tmp_path / "run")
    assert outcome.solution.ok
    assert run.summary["ok"]
    assert (tmp_path / "run" / "trajectory.csv").is_file()
    assert (tmp_path / "run" / "report.html").is_file() == whole
    if whole:
        assert left_out(tmp_path / "run") == {}
        return
    parts = left_out(tmp_path / "run")["pictures"]
    drawn = {path.stem for path in (tmp_path / "run").glob("*.png")}
    assert "report" in parts
    assert not drawn & set(parts)
    assert any("left out because of" in note and "pictures" in note for note in run.summary["notes"])
    assert ("interrupt" if ctrl_c else "limit") in {one.get("data", {}).get("by") for one in run.summary["findings"]}
    assert clock.asked <= len(parts) + 1


def test_a_first_compilation_is_ended(monkeypatch, tmp_path):
    begun = []

    def compiling(name, errors=None):
        begun.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE))
        return begun[-1]

    monkeypatch.setattr(prepare, "_compiling", compiling)
    monkeypatch.setattr(prepare, "missing", lambda names=(): tuple(names))
    clock = StoppingClock(Activity.COMPILATION, 2)
    with clock.limited():
        outcome = pipeline.run(BLOCK, method_name="ilqr", out=tmp_path / "run")
    assert begun
    assert all(process.poll() is not None for process in begun)
    assert outcome.solution.status is Status.TIME_LIMIT
    assert left_out(tmp_path / "run")["compilation"] == ["ilqr, ilqr with constraints"]
    begun.clear()
    pipeline.run(BLOCK, method_name="ilqr", out=tmp_path / "without")  # compiles as it goes
    assert not begun


# ------------------------------------------------------------------------------------------------ other commands
@pytest.mark.parametrize("ctrl_c", [False, True])
@pytest.mark.parametrize(("words", "activity"), [
    (["mpc", FOLDER / "mpc" / "cartpole_balance.yaml"], Activity.CLOSED_LOOP),
    (["wbc", FOLDER / "wbc" / "box_slides.yaml"], Activity.CLOSED_LOOP),
    (["simulate", FOLDER / "cartpole_swingup.yaml", "--quick"], Activity.SIMULATION)])
def test_what_runs_in_time_keeps_what_ran(words, activity, ctrl_c, tmp_path, capsys):
    clock = StoppingClock(activity, 1 if activity is Activity.SIMULATION else 7, ctrl_c=ctrl_c)
    with clock.limited():
        assert call(*words, "--quiet", "--out", tmp_path / "run") == 1
    assert clock.asked <= 2  # to stop, and why
    summary = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    assert summary.get("ok") is not True
    assert ("Interrupted by the user" if ctrl_c else "The time limit was reached") in " ".join(
        f"{json.dumps(summary)} {capsys.readouterr().out}".split())


def test_inverse_kinematics_draws_no_more_starts(tmp_path):
    clock = StoppingClock(Activity.SEARCH)
    with clock.limited():  # a pose out of reach, for which every start would be tried
        assert call("ik", FOLDER / "ik" / "ur5_pose.yaml", "--set", "tasks[0].pose.position=[9, 9, 9]", "--quiet", "--out",
                       tmp_path / "run") == 1
    assert clock.asked == 1
    assert (tmp_path / "run" / "summary.json").is_file()


def test_a_comparison_keeps_what_was_reached(tmp_path):
    clock = StoppingClock(Activity.ERROR_BOUND, leap=0.5)
    with clock.limited():
        code = call("compare", BLOCK, "--quiet", "--out", tmp_path / "run", "--methods", "collocation", "ilqr")
    assert code == 1
    summary = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    reached = [row["method"] for row in summary["rows"]]
    assert reached == ["collocation"]
    assert not summary["complete"]


@pytest.mark.parametrize("activity", [Activity.FUNCTIONS, Activity.SOLVING, Activity.EXPLANATION])
def test_an_explanation_says_what_it_has(activity, capsys):
    clock = StoppingClock(activity)
    with clock.limited():
        assert call("explain", BLOCK, "--quiet") in (0, 1)
    out = " ".join(capsys.readouterr().out.split())
    assert clock.passed
    assert "time limit" in out or "interrupted" in out
    assert clock.asked <= 2


def test_a_scoreboard_is_cut(tmp_path):
    clock = StoppingClock(Activity.ERROR_BOUND)
    with clock.limited():
        assert call("verify", BLOCK, FOLDER / "lqr_scalar.yaml", "--quiet", "--out", tmp_path / "run") == 1
    rows = (tmp_path / "run" / "scoreboard.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 2


def test_derivatives_stop_between_ways(tmp_path):
    clock = StoppingClock(Activity.MEASUREMENT, 2)
    with clock.limited():
        call("derivatives", FOLDER / "models" / "acrobot.urdf", "--quick", "--quiet", "--compile", "no", "--out",
                tmp_path / "run")
    assert clock.asked == 1
    assert json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))["complete"] is False
    clock = StoppingClock(Activity.MEASUREMENT, 1)
    with clock.limited():
        assert call("check-derivatives", BLOCK) == 1
    assert clock.asked == 1


def test_a_supervised_study_writes_what_is_measured_so_far(tmp_path, monkeypatch):
    """What its parent puts in place of the answer where a call of compiled code is not left."""
    told, place = [], tmp_path / "run"
    monkeypatch.setattr(derivative_run, "is_supervised", lambda: True)
    monkeypatch.setattr(derivative_run, "report", lambda **record: told.append((record, read_study(record["so_far"][0]))))
    settings = Settings(functions=("inverse_first", "forward_first"), sources=("analytic",), compiling="no", quick=True)
    assert derivative_run.derivatives(str(FOLDER / "models" / "acrobot.urdf"), settings, out=place, quiet=True) == 0
    assert [record["so_far"][1] for record, _ in told] == [str(place)] * 2
    assert [(found["complete"], found["measured"]) for _, found in told] == [(False, 1), (True, 2)]
    assert read_study(place)["complete"]


def read_study(folder):
    """The summary in a folder."""
    return json.loads((Path(folder) / "summary.json").read_text(encoding="utf-8"))


# ------------------------------------------------------------------------------------------------ a certified answer is never lost
def resumed(monkeypatch, place, **changes):
    """``ocp resume`` whose solve comes to these."""
    whole = pipeline.solve
    monkeypatch.setattr(pipeline, "solve", lambda *a, **k: pipeline.replace(whole(*a, **k), **changes))
    code = call("resume", place, "--quiet")
    monkeypatch.undo()
    return code


def test_a_certified_run_is_replaced_by_a_certified_one_only(tmp_path, monkeypatch, capsys):
    place, beside = tmp_path / "run", tmp_path / "run-resumed"
    with StoppingClock(Activity.PICTURES).limited():  # as Ctrl-C, or a closed pipe, leaves it: without its report
        assert call("solve", BLOCK, "--quiet", "--out", place) == 0
    before = (place / "trajectory.npz").read_bytes()
    assert resumed(monkeypatch, place, status=Status.INTERRUPTED) == 1
    assert "is kept; this one is beside it" in capsys.readouterr().out
    assert read_run(place).summary["ok"]
    assert (place / "trajectory.npz").read_bytes() == before
    assert read_run(beside).summary["status"]["name"] == "INTERRUPTED"

    def checkpoints_and_fails(*given, checkpoint, **how):
        checkpoint({"x": prepare.np.zeros(1)})
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, "solve", checkpoints_and_fails)
    assert call("resume", place, "--quiet") == 1
    monkeypatch.undo()
    assert read_run(place).summary["ok"]
    assert is_unfinished(beside)
    assert call("resume", place, "--quiet") == 0  # certified again, with its report
    assert read_run(place).summary["ok"]
    assert (place / "report.html").is_file()
    assert not beside.exists()


def test_the_place_beside_is_never_somebody_elses(tmp_path):
    assert checkpoints.free_folder(tmp_path / "none") == tmp_path / "none"
    call("solve", BLOCK, "--quiet", "--out", tmp_path / "run")
    (tmp_path / "run-resumed").mkdir()
    assert checkpoints.free_folder(tmp_path / "run") == tmp_path / "run-resumed-2"


# ------------------------------------------------------------------------------------------------ the supervisor
@pytest.mark.parametrize(("words", "limit"), [
    (["solve", "a.yaml", "--time-limit", "5"], 5.0), (["solve", "--time-limit=2.5", "a.yaml"], 2.5), (["solve", "a.yaml"], None),
    (["solve", "--time-limit"], None), (["solve", "--time-limit", "soon"], None), (["solve", "--time-limit", "0"], None),
    (["solve", "--time-limit", "nan"], None)])
def test_the_limit_is_read_off_the_command_line(words, limit):
    assert supervisor.limit_of(words) == limit


def supervised(body, limit=0.1):
    """A process that does this in a supervised child."""
    text = ("import signal, sys, time\nfrom ocp.app import supervisor\n"
            f"supervisor.supervise(['solve', '--time-limit', '{limit}'], time.perf_counter())\n{body}")
    return subprocess.Popen([sys.executable, "-c", text], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_what_ends_by_itself_keeps_its_exit_code():
    process = supervised("print('done'); sys.exit(4)", 600.0)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (4, "done\n", "")


@pytest.mark.parametrize("earlier", [False, True])
def test_what_does_not_end_is_killed_and_its_last_answer_takes_its_place(earlier, tmp_path):
    folder, target = tmp_path / ".run.so-far", tmp_path / "run"
    folder.mkdir()
    (folder / "summary.json").write_text("{}", encoding="utf-8")
    if earlier:
        target.mkdir()
        (target / "unfinished.json").write_text("{}", encoding="utf-8")
        (target / "checkpoint.npz").write_bytes(b"point")
    process = supervised(f"supervisor.report(so_far=({str(folder)!r}, {str(target)!r}))\n"
                         "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])\ntime.sleep(600)")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert f"the best answer so far, not certified, is in {target}" in err
    assert sorted(path.name for path in target.iterdir()) == ["checkpoint.npz", *["summary.json"]][not earlier:]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.slow
def test_a_comparison_that_does_not_end_keeps_what_ended(tmp_path):
    process = supervised(f"""
from pathlib import Path
from ocp.app.compare import run
def one(file, overrides, spec, *rest):
    if spec.method == "ilqr":
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])
        time.sleep(600)
    return run.Entry(spec, reasons=("it is not tried here",))
run._run_one = one
run.compare(Path({str(BLOCK)!r}), methods=["collocation", "ilqr"], out=Path({str(tmp_path / "run")!r}), quiet=True)""", 20.0)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert f"what was compared so far is in {tmp_path / 'run'}" in err
    summary = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    assert ([row["method"] for row in summary["rows"]], summary["complete"]) == (["collocation"], False)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_pictures_that_do_not_end_cost_no_verdict():
    process = supervised("supervisor.report(code=0)\ntime.sleep(600)")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "pictures and report are left out" in err


@pytest.mark.parametrize(("ok", "code"), [(True, 0), (False, 1)])
def test_an_answer_that_is_in_its_place_stays(ok, code, tmp_path):
    (tmp_path / "summary.json").write_text(json.dumps({"ok": ok}), encoding="utf-8")
    process = supervised(f"supervisor.report(so_far=({str(tmp_path / 'gone')!r}, {str(tmp_path)!r}))\ntime.sleep(600)")
    _, err = process.communicate(timeout=120)
    assert process.returncode == code
    assert f"the run is in {tmp_path}" in err


def test_without_an_answer_it_says_so():
    process = supervised("time.sleep(600)")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "nothing more is written" in err


def test_signals_go_to_the_child():
    process = supervised("try:\n    print('ready', flush=True); time.sleep(600)\nexcept KeyboardInterrupt:\n    sys.exit(7)", 600.0)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 7


def test_a_supervised_solve_writes_answers_so_far(tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(supervisor, "report", lambda **record: told.append(record))
    monkeypatch.setattr(pipeline, "is_supervised", lambda: True)
    monkeypatch.setattr(solve_commands, "report", lambda **record: told.append(record))
    seen = []
    whole = checkpoints.SoFar.__call__

    def kept(self, solution):
        whole(self, solution)
        summary = read_run(self.last).summary
        seen.append(summary["status"]["name"])
        assert list(left_out(self.last)) == ["certificate", "error bound of the objective", "pictures"]
        assert not summary["ok"]

    monkeypatch.setattr(checkpoints.SoFar, "__call__", kept)
    assert call("solve", BLOCK, "--quiet", "--out", tmp_path / "run") == 0
    assert seen == ["TIME_LIMIT", "TIME_LIMIT"]
    assert [list(one) for one in told] == [["so_far"], ["so_far"], ["code"]]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_folder_whose_making_is_interrupted_is_not_left(tmp_path, monkeypatch):
    def interrupted(started, folder):
        assert folder.is_dir()
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoints.Started, "_write", interrupted)
    assert call("solve", BLOCK, "--quiet", "--out", tmp_path / "results" / "run") == 1
    assert not list(tmp_path.iterdir())
