"""Limits of time: what is at work stops at its next step, and what was found until then is kept."""

import json
import time

import control_problems as known
import pytest
from repository import ROOT
from stopping_clock import StoppingClock

from ocp import interrupts
from ocp.app import cli
from ocp.app.files.load import load_problem
from ocp.app.sentences import message
from ocp.interrupts import Activity
from ocp.methods import solve
from ocp.problem import SOLVED, Status
from ocp.problem.finding import Kind
from ocp.strategy import loop

FOLDER = ROOT / "problems"
CARTPOLE = FOLDER / "cartpole_swingup.yaml"
#: what asks before there is an iterate, by method
BEFORE = [("collocation", Activity.BOUNDS), ("collocation", Activity.FUNCTIONS), ("collocation", Activity.KERNELS),
          ("collocation", Activity.SCALING), ("multiple_shooting", Activity.FUNCTIONS), ("ilqr", Activity.FUNCTIONS),
          ("ilqr", Activity.KERNELS)]
#: what asks while the certificate is made
CHECKS = [Activity.CERTIFICATE, Activity.EVALUATION, Activity.INTEGRATION, Activity.CURVATURE]


def findings(found, kind=Kind.LEFT_OUT):
    return {one.name: one for one in found.findings if one.kind is kind}


# ------------------------------------------------------------------------------------------------ the budget
def test_limits_nest_and_end():
    now = [0.0]
    assert not interrupts.time_is_up()
    assert interrupts.seconds_left() == float("inf")
    with interrupts.limited(100.0, lambda: now[0]):
        with interrupts.limited(5.0):
            now[0] = 6.0
            assert interrupts.time_is_up()
            assert interrupts.seconds_left() == -1.0
            with interrupts.closing(2.0):
                assert not interrupts.time_is_up()
                with interrupts.closing(0.5):  # never less than around it
                    assert interrupts.seconds_left() == 1.0
                with interrupts.limited():  # a budget of its own has no more time than that around it
                    assert interrupts.time_is_up()
        assert not interrupts.time_is_up()
        with interrupts.limited(None):
            assert interrupts.seconds_left() == 94.0
    assert not interrupts.time_is_up()


def test_what_is_left_out_is_recorded_once_and_ctrl_c_ends_all_budgets():
    with interrupts.limited(10.0, lambda: 0.0) as outer, interrupts.limited() as inner:
        assert interrupts.attempt(lambda: 1, 0, Activity.PICTURES, "states") == 1
        assert not interrupts.asked()
        interrupts.stop()
        assert interrupts.asked()
        for _ in range(2):
            assert interrupts.attempt(lambda: 1, 0, Activity.PICTURES, "states") == 0
        with pytest.raises(interrupts.Stopped, match="pictures"):
            interrupts.check(Activity.PICTURES)
    assert inner.left_out == [(Activity.PICTURES, "states")]
    assert outer.left_out == []
    assert outer.asked
    assert not interrupts.asked()


# ------------------------------------------------------------------------------------------------ stages of a solve
@pytest.mark.parametrize("ctrl_c", [False, True])
@pytest.mark.parametrize(("name", "activity"), BEFORE)
def test_before_the_first_iterate_the_guess_comes_back(name, activity, ctrl_c):
    problem, clock = known.block_move(), StoppingClock(activity, ctrl_c=ctrl_c)
    with clock.limited():
        if ctrl_c:
            with pytest.raises(KeyboardInterrupt):
                solve(problem, name, {"intervals": 5})
        else:
            found = solve(problem, name, {"intervals": 5})
    assert clock.passed
    assert clock.asked <= 1 + (activity is Activity.KERNELS)  # kernels are left out, and what is built goes on interpreted
    if not ctrl_c:
        assert found.status is Status.TIME_LIMIT
        assert not found.ok
        assert found.certificate is None
        assert found.trajectory.x[0] == pytest.approx(problem.phases[0].guess.x[0])
        stopped, = findings(found, Kind.STOPPED_IN).values()
        assert stopped.data["by"] == "limit"


@pytest.mark.parametrize("ctrl_c", [False, True])
@pytest.mark.parametrize(("name", "options"), [
    ("collocation", {"intervals": 30}), ("collocation", {}), ("multiple_shooting", {"intervals": 30}),
    ("collocation", {"intervals": 30, "solver": "interior_point"}), ("ilqr", {"intervals": 30})])
@pytest.mark.sample(4)
def test_a_solve_stops_at_its_next_iteration(name, options, ctrl_c):
    rows, clock = [], StoppingClock(Activity.SOLVING, 12, 0.5, ctrl_c)

    def progress(row):
        rows.append((row, clock.passed))

    with clock.limited():
        found = solve(load_problem(CARTPOLE).problem, name, options, progress=progress)
    assert found.status is (Status.INTERRUPTED if ctrl_c else Status.TIME_LIMIT)
    assert 1 <= sum(not passed for _, passed in rows) == len(rows)
    assert len(rows) <= len(found.iterations) <= len(rows) + 1 + (name == "ilqr") * 10
    assert found.certificate is not None  # it gets a second of its own
    assert found.certificate.left_out == ()
    assert not found.ok


@pytest.mark.parametrize("ctrl_c", [False, True])
@pytest.mark.parametrize("activity", CHECKS)
def test_checks_that_there_is_no_time_for_do_not_hold_and_are_named(activity, ctrl_c):
    clock, whole = StoppingClock(activity, 1, ctrl_c=ctrl_c), solve(known.bang_bang(), "collocation", {"intervals": 10})
    with clock.limited():
        found = solve(known.bang_bang(), "collocation", {"intervals": 10})
    assert clock.passed
    assert clock.asked <= len(found.certificate.left_out) + 1  # each check that is left asks once
    assert found.status is (Status.INTERRUPTED if ctrl_c else Status.TIME_LIMIT)
    assert found.objective == whole.objective
    left = found.certificate.left_out
    assert left
    assert not found.certificate.holds
    assert findings(found)[Activity.CERTIFICATE].data == {"parts": left, "by": "interrupt" if ctrl_c else "limit"}
    assert Activity.ERROR_BOUND in findings(found)
    done = {check.kind: check for check in found.certificate.checks}
    same = [check for check in whole.certificate.checks if done.get(check.kind) == check]
    assert bool(same) == (activity is Activity.CURVATURE)  # what was done before stands


def test_an_answer_without_its_error_bound_is_certified():
    clock = StoppingClock(Activity.ERROR_BOUND)
    with clock.limited():
        found = solve(known.block_move(), "collocation", {"intervals": 10})
    assert found.status in SOLVED
    assert found.certificate.objective_error is None
    assert found.ok
    assert list(findings(found)) == [Activity.ERROR_BOUND]
    assert clock.asked == 1
    bound = solve(known.block_move(), "collocation", {"intervals": 10})
    assert bound.certificate.objective_error is not None
    assert not findings(bound)


@pytest.mark.parametrize("activity", [Activity.FUNCTIONS, Activity.SOLVING])
def test_the_finer_mesh_of_the_error_bound_is_left_when_the_time_is_up(activity):
    clock, begun = StoppingClock(activity, 10**9), []
    finer = loop.certify

    def certified(*given):
        begun.append(given)
        clock.left = 0  # from the certificate on
        return finer(*given)

    with clock.limited(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "certify", certified)
        found = solve(known.block_move(), "collocation", {"intervals": 10})
    assert begun
    assert clock.passed
    assert found.ok
    assert list(findings(found)) == [Activity.ERROR_BOUND]


def test_a_refinement_hands_back_its_last_finished_pass():
    problem = load_problem(FOLDER / "hypersensitive.yaml").problem
    whole = solve(problem, "collocation")
    passes = [row["pass"] for row in whole.iterations]
    assert whole.ok
    assert passes[-1] >= 2
    clock = StoppingClock(Activity.SOLVING, 10**9, leap=0.5)  # time for the certificate

    def progress(row):
        if row["pass"] == 2:
            clock.left = 0

    with clock.limited():
        part = solve(problem, "collocation", progress=progress)
    assert part.status is Status.CONVERGED  # the pass is solved; that its mesh is too coarse is for the certificate to say
    assert message(part) == "The time limit was reached. Pass 1, the last completed one, is returned."
    assert part.certificate is not None
    assert not part.ok


def test_answers_so_far_are_handed_out():
    seen = []
    found = solve(known.block_move(), "collocation", {"intervals": 10}, so_far=seen.append)
    assert [one.status for one in seen] == [Status.TIME_LIMIT, Status.CONVERGED]
    assert all(one.certificate is None for one in seen)
    assert seen[1].objective == found.objective


# ------------------------------------------------------------------------------------------------ the command
@pytest.mark.parametrize("words", [["--time-limit", "1e-6"], ["--set", "solve.time_limit=1e-6"]])
def test_the_command_writes_what_was_found(words, tmp_path, capsys, monkeypatch):
    folder = tmp_path / "run"
    calls = []

    def limited(seconds):
        calls.append(seconds)
        return interrupts.limited(None if len(calls) == 1 else seconds)  # reading takes no time

    monkeypatch.setattr("ocp.app.commands.solve.limited", limited)
    monkeypatch.setattr("ocp.app.pipeline.LAST_PICTURE_S", 0.0)
    with pytest.raises(SystemExit) as ended:
        cli.main(["solve", str(FOLDER / "block_move.yaml"), *words, "--quiet", "--out", str(folder)])
    assert ended.value.code == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "The time limit was reached" in said
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert summary["status"]["name"] == "TIME_LIMIT"
    assert {one["kind"] for one in summary["findings"]} == {"stopped_in", "left_out"}
    assert {"animation", "report"} <= {part for one in summary["findings"] for part in one.get("data", {}).get("parts", ())}
    assert (folder / "trajectory.csv").is_file()
    assert not (folder / "report.html").exists()
    assert "time_limit: 1e-06" in (folder / "problem.yaml").read_text(encoding="utf-8")
    with pytest.raises(SystemExit) as ended:  # and from there without a limit
        cli.main(["resume", str(folder), "--set", "solve.time_limit=null", "--quiet", "--out", str(tmp_path / "on")])
    assert ended.value.code == 0


def test_while_reading_there_is_nothing_to_keep(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["solve", str(CARTPOLE), "--time-limit", "1e-9", "--quiet", "--out", str(tmp_path / "run")])
    assert ended.value.code == 1
    assert "the time limit was reached (reading), before there was anything to keep" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_limit_that_is_none_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["solve", str(CARTPOLE), "--time-limit", "0", "--out", str(tmp_path / "run")])
    assert ended.value.code in (1, 2)


def test_real_time_passes():
    begin = time.perf_counter()
    with interrupts.limited(0.01):
        while not interrupts.time_is_up(Activity.SOLVING):
            pass
    assert time.perf_counter() - begin >= 0.01
