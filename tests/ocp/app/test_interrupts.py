"""Ctrl-C at swept moments of ``ocp solve`` in real processes: what was found is never lost, and nobody sees a traceback."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from commands import call
from repository import ROOT

import ocp.methods as methods
from ocp.app.cli import guarded
from ocp.app.files.load import load_problem
from ocp.app.pages.folders import is_run
from ocp.app.pages.results import read_run
from ocp.certify import certify
from ocp.interrupts import CERTIFICATE_S, closing, holding_interrupts, seconds_left
from ocp.methods import solve
from ocp.problem import Status
from ocp.problem.finding import Kind
from ocp.strategy import loop

PROBLEM = ROOT / "problems" / "cartpole_swingup.yaml"
#: what the process says when it comes to a place, so that a signal can be sent there; each place waits for it
PLACES = {
    "reading": "ocp.app.files.load.load_problem",
    "transcription": "ocp.transcription.program.build",
    "solving": "ocp.nlp.watch.Watch.heard",
    "certificate": "ocp.certify.dynamics.gaps",
    "data": "ocp.app.pages.results.summarise",
    "verdict": "ocp.app.pages.summary.print_outcome",
    "pictures": "ocp.app.pages.plots.plot_run",
    "report": "ocp.app.pages.report.render_report",
}
PREAMBLE = """
import importlib, os, sys, time
def stop_at(path, after):
    module, names = path, []
    while True:
        module, _, name = module.rpartition('.')
        names.insert(0, name)
        try:
            owner = importlib.import_module(module)
            break
        except ModuleNotFoundError:
            pass
    for name in names[:-1]:
        owner = getattr(owner, name)
    whole, calls = getattr(owner, names[-1]), [0]
    def slow(*a, **k):
        calls[0] += 1
        if calls[0] == after:
            os.kill(os.getpid(), 2)
            time.sleep(0.02)
        return whole(*a, **k)
    setattr(owner, names[-1], slow)
    for other in list(sys.modules.values()):
        if getattr(other, '__dict__', {}).get(names[-1]) is whole:
            setattr(other, names[-1], slow)
"""


def interrupted_at(place, folder, after=1, *arguments, file=PROBLEM):
    code = (f"{PREAMBLE}\nfrom ocp.app.cli import main\nimport ocp.app.pipeline, ocp.transcription.collocation\n"
            f"import ocp.app.pages.summary, ocp.app.pages.plots, ocp.app.pages.report\n"
            f"import ocp.methods\nstop_at({PLACES[place]!r}, {after})\n"
            f"main(['solve', {str(file)!r}, '--out', {str(folder)!r}, *{list(arguments)!r}])")
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300)


def told(process):
    assert "Traceback" not in process.stderr + process.stdout, process.stderr
    assert "bug in lieocp" not in process.stderr
    return process.stdout + process.stderr


@pytest.mark.parametrize("place", ["reading", "transcription"])
def test_before_there_is_an_answer_nothing_is_left(place, tmp_path):
    process = interrupted_at(place, tmp_path / "run")
    assert process.returncode == 1
    assert "interrupted before there was anything to keep" in told(process)
    assert not list(tmp_path.iterdir())


def test_while_solving_there_is_a_run_to_go_on_from(tmp_path):
    process = interrupted_at("solving", tmp_path / "run", 6)
    assert process.returncode == 1
    assert "ocp resume" in told(process)
    assert read_run(tmp_path / "run").summary["status"]["name"] == "INTERRUPTED"
    assert call("resume", tmp_path / "run", "--quiet") == 0
    assert read_run(tmp_path / "run").summary["ok"]


@pytest.mark.parametrize("place", ["certificate", "pictures", *(
    pytest.param(place, marks=pytest.mark.slow) for place in ("data", "verdict", "report"))])
def test_an_answer_found_is_kept(place, tmp_path):
    process = interrupted_at(place, tmp_path / "run")
    told(process)
    kept = read_run(tmp_path / "run")
    assert kept.summary["status"]["name"] in ("CONVERGED", "INTERRUPTED")
    assert kept.summary["objective"] == pytest.approx(58.8, rel=1e-2)
    whole = kept.summary["status"]["name"] == "CONVERGED"
    assert process.returncode == (0 if whole else 1)
    if place in ("verdict", "pictures", "report"):
        assert whole
        assert not (tmp_path / "run" / "report.html").exists()
        assert "without its report: ocp resume" in process.stderr
        assert call("resume", tmp_path / "run", "--quiet") == 0
        assert (tmp_path / "run" / "report.html").is_file()


# ------------------------------------------------------------------------------------------------ the certificate
def test_after_an_interrupt_the_certificate_has_a_limit(monkeypatch):
    problem, seen = load_problem(ROOT / "problems" / "block_move.yaml").problem, []

    def interrupted(solution, tolerances=None):
        signal.raise_signal(signal.SIGINT)
        with closing(CERTIFICATE_S):
            seen.append(seconds_left())
        return certify(solution, tolerances)

    monkeypatch.setattr(loop, "certify", interrupted)
    found = solve(problem, "collocation", {"intervals": 10})
    assert len(seen) == 1
    assert 0.0 < seen[0] <= CERTIFICATE_S
    assert found.status is Status.CONVERGED  # it was in time
    assert [(one.name, one.data["by"]) for one in found.findings if one.kind is Kind.LEFT_OUT] == [
        ("error bound of the objective", "interrupt")]
    monkeypatch.setattr("ocp.certify.certificate.CERTIFICATE_S", -1.0)
    late = solve(problem, "collocation", {"intervals": 10})
    assert late.status is Status.INTERRUPTED
    assert not late.ok
    assert np.allclose(late.trajectory.x, found.trajectory.x)
    monkeypatch.undo()

    def impatient(*given):
        for _ in range(2):  # the second raises at once
            signal.raise_signal(signal.SIGINT)
        pytest.fail("Ctrl-C did not come")

    monkeypatch.setattr(methods, "concluded", impatient)
    cut = solve(problem, "collocation", {"intervals": 10})
    assert cut.status is Status.INTERRUPTED
    assert cut.certificate is None
    assert np.allclose(cut.trajectory.x, found.trajectory.x)


def test_a_run_whose_certificate_was_cut_goes_on_from_its_motion(tmp_path, monkeypatch):
    monkeypatch.setattr(methods, "_concluded", lambda search, solution, *rest: methods.dataclasses.replace(
        solution, status=Status.INTERRUPTED))
    assert call("solve", PROBLEM, "--out", tmp_path / "run", "--quiet") == 1
    (tmp_path / "run" / "checkpoint.npz").unlink(missing_ok=True)
    iterations = len(read_run(tmp_path / "run").iterations)
    monkeypatch.undo()
    assert call("resume", tmp_path / "run", "--quiet") == 0
    again = read_run(tmp_path / "run")
    assert again.summary["ok"]
    assert len(again.iterations) < iterations


def as_compiled_code_does():
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt as error:
        raise SystemError("returned a result with an exception set") from error


def test_ctrl_c_waits_where_something_may_be_lost():
    before, rows = signal.getsignal(signal.SIGINT), []
    with holding_interrupts(False, rows.append) as one:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert not one.asked
        one.progress({"iteration": 0})
        signal.raise_signal(signal.SIGINT)
        assert one.asked
        with pytest.raises(KeyboardInterrupt):
            one.progress({"iteration": 1})
        with pytest.raises(KeyboardInterrupt):  # the second time at once
            signal.raise_signal(signal.SIGINT)
    assert rows == [{"iteration": 0}]
    with pytest.raises(KeyboardInterrupt), holding_interrupts(False):
        as_compiled_code_does()
    with pytest.raises(ValueError, match="no"), holding_interrupts(False):
        raise ValueError("no")
    assert signal.getsignal(signal.SIGINT) is before


class Fragile:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)


def thrown_away():
    fragile = Fragile()
    del fragile
    time.sleep(1.0)


def test_callbacks_of_objects_that_an_interrupt_left_half_made_say_nothing(monkeypatch, capsys):
    heard = []
    monkeypatch.setattr(sys, "unraisablehook", lambda dropped: heard.append(type(dropped.exc_value)))

    class HalfMade:
        def __del__(self):
            raise KeyError("not registered yet")

    def action():
        kept = HalfMade()
        raise KeyboardInterrupt(f"with {type(kept).__name__} in hand")

    assert guarded(action) == 1
    assert heard == []
    assert "in hand" in capsys.readouterr().err


def test_ctrl_c_while_an_object_is_thrown_away_comes_again():
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt), holding_interrupts(False):
        thrown_away()
    assert time.monotonic() - begin < 0.5


# ------------------------------------------------------------------------------------------------ by the clock
def swept(folder, seconds, *arguments):
    process = subprocess.Popen([sys.executable, "-c", "from ocp.app.cli import main; main()", "solve", *map(str, arguments),
                                "--out", str(folder)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "PYTHONUNBUFFERED": "1"})
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    begin = time.monotonic()
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err, time.monotonic() - begin


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [
    [PROBLEM], [ROOT / "problems" / "goddard_arcs.yaml"], [ROOT / "problems" / "cartpole_to_goal.yaml", "--method", "ilqr"]],
    ids=lambda a: f"{Path(a[0]).stem}-{len(a)}")
def test_ctrl_c_by_the_clock(arguments, tmp_path):
    begin = time.monotonic()
    process = subprocess.run([sys.executable, "-c", "from ocp.app.cli import main; main()", "solve", *map(str, arguments),
                              "--out", str(tmp_path / "whole")], cwd=ROOT, capture_output=True, text=True, timeout=120)
    whole, wanted = time.monotonic() - begin, read_run(tmp_path / "whole").summary["objective"]
    assert process.returncode == 0
    for k, seconds in enumerate(np.linspace(0.15, whole, 25)):
        folder = tmp_path / f"run{k}"
        code, out, err, waited = swept(folder, seconds, *arguments)
        if code in (-signal.SIGINT, 1) and not out and seconds < 0.5:
            continue  # before Python had come to the first line of ours
        assert "Traceback" not in err, (seconds, err)
        assert waited < 10.0
        if "certified" in out:
            assert is_run(folder), seconds
            summary = json.loads((folder / "summary.json").read_text())
            if summary["status"]["name"] == "CONVERGED":
                assert summary["objective"] == pytest.approx(wanted, rel=1e-6)
        else:
            assert code == 1
            assert "interrupted" in err
