"""Limits of time: what is at work stops at its next iteration, and what was found until then is kept."""

import json
import time

import control_problems as known
import pytest
from repository import ROOT

from ocp import interrupts
from ocp.app import cli
from ocp.app.files.load import load_problem
from ocp.app.sentences import message
from ocp.methods import solve
from ocp.problem import SOLVED, Kind, Status
from ocp.strategy import loop

FOLDER = ROOT / "problems"
CARTPOLE = FOLDER / "cartpole_swingup.yaml"


def test_limits_nest_and_end():
    assert not interrupts.late()
    assert interrupts.deadline(3.0) is None
    with interrupts.limited(100.0):
        with interrupts.limited(1e-9):
            assert interrupts.late()
            assert 0 < interrupts.deadline(3.0) - time.perf_counter() <= 3.0
        assert not interrupts.late()
        with interrupts.limited(None):
            assert interrupts.deadline(0.0) - time.perf_counter() == pytest.approx(100.0, abs=1.0)
    assert interrupts.deadline(3.0) is None


@pytest.mark.parametrize(("name", "options"), [
    ("collocation", {"intervals": 30}), ("collocation", {}), ("multiple_shooting", {"intervals": 30}),
    ("collocation", {"intervals": 30, "solver": "interior_point"}), ("ilqr", {"intervals": 30})])
@pytest.mark.sample(2)
def test_a_solve_stops_at_the_first_iteration_after_its_limit(name, options):
    rows = []
    found = solve(load_problem(CARTPOLE).problem, name, options, progress=rows.append, time_limit=1e-9)
    assert found.status is Status.TIME_LIMIT
    assert len(rows) <= 1
    assert found.certificate is not None  # it gets seconds of its own
    assert not found.ok
    assert solve(known.block_move(), name, options, time_limit=1000.0).ok


def slowed(monkeypatch, count):
    """The time is up once the log has so many rows."""
    rows = []
    monkeypatch.setattr(interrupts, "late", lambda: len(rows) > count)
    for module in ("ocp.nlp.watch", "ocp.methods", "ocp.strategy.answer", "ocp.strategy.outcome", "ocp.strategy.zero_order_hold"):
        monkeypatch.setattr(f"{module}.late", lambda: len(rows) > count)
    return rows


def test_a_refinement_hands_back_its_last_finished_pass(monkeypatch):
    problem = load_problem(FOLDER / "hypersensitive.yaml").problem
    whole = solve(problem, "collocation")
    passes = [row["pass"] for row in whole.iterations]
    assert whole.ok
    assert passes[-1] >= 2
    rows = slowed(monkeypatch, passes.index(2.0) + 1)
    part = solve(problem, "collocation", progress=rows.append)
    assert part.status is Status.CONVERGED  # the pass is solved; that its mesh is too coarse is for the certificate to say
    assert message(part) == "The time limit was reached; the last finished pass is returned, number 1."
    assert part.certificate is not None
    assert not part.ok


def test_there_is_no_bar_after_the_limit(monkeypatch):
    rows = slowed(monkeypatch, 10_000)
    problem = known.block_move()
    assert solve(problem, "collocation", {"intervals": 10}, progress=rows.append).certificate.objective_error is not None
    certify = loop.certify

    def slow(*given):
        rows.extend([{}] * 20_000)
        return certify(*given)

    monkeypatch.setattr(loop, "certify", slow)
    found = solve(problem, "collocation", {"intervals": 10}, progress=rows.append)
    assert found.status in SOLVED
    assert found.certificate.objective_error is None
    assert [one.data for one in found.findings if one.kind is Kind.NO_ERROR_BOUND] == [{"limit": True}]
    assert found.ok


@pytest.mark.parametrize("words", [["--time-limit", "1e-6"], ["--set", "solve.time_limit=1e-6"]])
def test_the_command_writes_what_was_found(words, tmp_path, capsys):
    folder = tmp_path / "run"
    with pytest.raises(SystemExit) as ended:
        cli.main(["solve", str(FOLDER / "block_move.yaml"), *words, "--quiet", "--out", str(folder)])
    assert ended.value.code == 1
    assert "The time limit was reached" in capsys.readouterr().out
    assert json.loads((folder / "summary.json").read_text(encoding="utf-8"))["status"]["name"] == "TIME_LIMIT"
    assert "time_limit: 1e-06" in (folder / "problem.yaml").read_text(encoding="utf-8")
    with pytest.raises(SystemExit) as ended:  # and from there without a limit
        cli.main(["resume", str(folder), "--set", "solve.time_limit=null", "--quiet", "--out", str(tmp_path / "on")])
    assert ended.value.code == 0


def test_a_limit_that_is_none_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["solve", str(CARTPOLE), "--time-limit", "0", "--out", str(tmp_path / "run")])
    assert ended.value.code == 2
    assert "must be positive, got 0 s; null for none" in capsys.readouterr().err
