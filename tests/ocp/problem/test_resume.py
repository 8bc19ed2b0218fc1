"""A solve that is cut short, its checkpoint, and the solve that goes on: the same optimum as without the interruption."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from commands import call, stop_at
from repository import ROOT

import ocp.problem.checkpoint as checkpoint_module
from ocp.app.checkpoints import free_folder, is_certified, load_resumable
from ocp.app.files.load import load_problem
from ocp.app.files.problem.portable import portable
from ocp.app.pages.folders import is_unfinished
from ocp.app.pages.results import read_run
from ocp.app.pipeline import run, run_loaded
from ocp.app.runs import export_policy
from ocp.errors import ProblemError
from ocp.methods import solve
from ocp.problem import Kind, Status
from ocp.problem.checkpoint import log_arrays, log_rows

FOLDER = ROOT / "problems"


# ------------------------------------------------------------------------------------------------ methods
@pytest.mark.parametrize(("name", "method", "options", "after"), [
    ("acrobot", "ilqr", {"intervals": 60}, 40),
    ("block_move", "ilqr", {"intervals": 20}, 4),
    ("cartpole_to_goal", "ilqr", {"shooting": "feasible"}, 3),
    ("cartpole_to_goal", "ilqr", {"hessian": "auto", "convexify": "shift"}, 10),
    ("bouncing_ball", "ilqr", {"intervals": 30}, 3),
    ("cartpole_swingup", "collocation", {}, 12),
    ("brachistochrone", "collocation", {"intervals": 20}, 8),
])
@pytest.mark.sample(3)
def test_interrupted_and_resumed_is_as_good_as_never_interrupted(name, method, options, after):
    problem = load_problem(FOLDER / f"{name}.yaml").problem
    whole = solve(problem, method, options)
    kept = []
    part = solve(problem, method, options, progress=stop_at(after), checkpoint=kept.append)
    assert part.status is Status.INTERRUPTED
    found = kept[-1]
    done = int(found["iterations"][0])
    assert after <= done < len(whole.iterations) - 1  # a batch may be under way
    assert found["cost"][0] == pytest.approx(part.objective, rel=1e-12)
    assert all(array.dtype.kind in "fiU" for array in found.values())

    rest = solve(problem, method, options, resume=found)
    assert rest.status is whole.status is Status.CONVERGED
    assert rest.objective == pytest.approx(whole.objective, rel=1e-8)
    assert rest.trajectory.x == pytest.approx(whole.trajectory.x, abs=1e-5)
    # the log goes on where it was; the solve did not start again
    assert [row["iteration"] for row in rest.iterations] == list(range(len(rest.iterations)))
    keys = ("iteration", "cost" if method == "ilqr" else "objective")
    assert [[row[k] for k in keys] for row in rest.iterations[:done + 1]] == [
        [row[k] for k in keys] for row in whole.iterations[:done + 1]]
    again = len(rest.iterations) - 1 - done
    assert again <= len(whole.iterations) - 1 - done + 3
    assert again < len(whole.iterations) - 1
    assert [one.data["iterations"] for one in rest.findings if one.kind is Kind.RESUMED] == [done]


def test_a_run_cut_short_still_has_its_gains():
    """Exact Hessians may be indefinite where a solve stops; the last sweep regularises them."""
    problem = load_problem(FOLDER / "acrobot.yaml").problem
    for after in (2, 9, 23):
        options = {"intervals": 30, "hessian": "full", "max_iterations": after, "kernels": "interpreted"}
        assert solve(problem, "ilqr", options).extra["K"].shape[0] == 30


def test_a_limit_of_iterations_counts_anew():
    problem = load_problem(FOLDER / "cartpole_to_goal.yaml").problem
    options = {"max_iterations": 12}
    solution, kept, rounds = None, [None], 0
    while solution is None or solution.status is Status.ITERATION_LIMIT:
        solution = solve(problem, "ilqr", options, checkpoint=kept.append, resume=kept[-1])
        rounds += 1
    assert solution.status is Status.CONVERGED
    assert 3 <= rounds <= 8
    assert len(kept) == rounds  # None, and one for each but the last: a solve that converged leaves none
    assert solution.objective == pytest.approx(solve(problem, "ilqr").objective, rel=1e-10)


@pytest.mark.parametrize(("method", "name"), [("ilqr", "cartpole_to_goal"), ("collocation", "cartpole_swingup")])
def test_checkpoints_come_while_the_solve_goes_on(method, name, monkeypatch):
    problem, kept = load_problem(FOLDER / f"{name}.yaml").problem, []
    monkeypatch.setattr(checkpoint_module, "SECONDS", 0.0)
    whole = solve(problem, method, checkpoint=kept.append)
    counts = [int(found["iterations"][0]) for found in kept]
    assert len(counts) >= 3
    assert counts == sorted(counts)
    middle = kept[len(kept) // 2]
    assert middle["x"] is not kept[-1]["x"]
    if method == "collocation":  # the point handed out is the point whose objective the log has
        assert [float(found["cost"][0]) for found in kept] == pytest.approx(
            [whole.iterations[count]["objective"] for count in counts], rel=1e-6)
    rest = solve(problem, method, resume=middle)
    assert rest.objective == pytest.approx(whole.objective, rel=1e-7)
    kept.clear()
    monkeypatch.setattr(checkpoint_module, "SECONDS", 10.0)
    assert solve(problem, method, checkpoint=kept.append).status is Status.CONVERGED
    assert not kept


def test_multipliers_and_penalties_go_on_where_they_were(monkeypatch):
    problem, kept = load_problem(FOLDER / "block_move.yaml").problem, []
    monkeypatch.setattr(checkpoint_module, "SECONDS", 0.0)
    whole = solve(problem, "ilqr", {"intervals": 20, "polish": "never"}, checkpoint=kept.append)
    late = kept[-1]
    assert np.abs(late["multipliers"]).max() > 1.0
    rest = solve(problem, "ilqr", {"intervals": 20, "polish": "never"}, resume=late)
    first = rest.iterations[int(late["iterations"][0])]
    assert first["violation"] < 1e-2 * whole.iterations[0]["violation"]
    assert first["penalty"] == late["penalties"][-1].max()
    assert rest.objective == pytest.approx(whole.objective, rel=1e-9)


def test_the_log_survives_as_arrays():
    rows = [{"iteration": 0, "cost": 2.0}, {"iteration": 1, "cost": 1.0, "expected": 0.5}]
    assert list(log_rows(log_arrays(rows))) == rows
    assert log_rows(log_arrays([])) == ()


# ------------------------------------------------------------------------------------------------ errors
def checkpoint_of(name, method, options):
    kept = []
    solve(load_problem(FOLDER / f"{name}.yaml").problem, method, options, progress=stop_at(1), checkpoint=kept.append)
    return kept[-1]


def test_a_checkpoint_of_another_problem_is_refused_by_what_differs():
    found = checkpoint_of("block_move", "ilqr", {"intervals": 20})
    problem = load_problem(FOLDER / "block_move.yaml").problem
    for words, other, method, options in (
        ("problem 'Block move'; this is", "acrobot", "ilqr", {}),
        ("method 'ilqr'; this is 'collocation'", "block_move", "collocation", {}),
        ("with 21 stages; this one has 31", "block_move", "ilqr", {"intervals": 30}),
    ):
        with pytest.raises(ProblemError, match=words):
            solve(load_problem(FOLDER / f"{other}.yaml").problem, method, options, resume=found)
    with pytest.raises(ProblemError, match="not finite"):
        solve(problem, "ilqr", {"intervals": 20}, resume={**found, "u": found["u"] * np.nan})
    with pytest.raises(ProblemError, match="no u of shape"):
        solve(problem, "ilqr", {"intervals": 20}, resume={**found, "u": found["u"][1:]})
    with pytest.raises(ProblemError, match="holds no 'rows'"):
        solve(problem, "ilqr", {"intervals": 20}, resume={k: v for k, v in found.items() if k != "rows"})
    found = checkpoint_of("cartpole_swingup", "collocation", {"intervals": 20})
    with pytest.raises(ProblemError, match="variables; this one has"):
        solve(load_problem(FOLDER / "cartpole_swingup.yaml").problem, "collocation", {"intervals": 30}, resume=found)


# ------------------------------------------------------------------------------------------------ folders
QUICK = {"solve.ilqr.intervals": "60", "solve.ilqr.kernels": "interpreted"}


def interrupted(folder, name="cartpole_to_goal", after=15):
    return run_loaded(load_problem(FOLDER / f"{name}.yaml", QUICK), name, method_name="ilqr", out=folder, progress=stop_at(after))


def test_resume_goes_on_in_the_folder(tmp_path, capsys):
    place = tmp_path / "run"
    assert interrupted(place, "acrobot", 30).solution.status is Status.INTERRUPTED
    assert (place / "checkpoint.npz").is_file()
    assert (place / "models" / "acrobot.urdf").read_bytes() == (FOLDER / "models" / "acrobot.urdf").read_bytes()
    whole = run(FOLDER / "acrobot.yaml", method_name="ilqr", overrides=QUICK, write=False).solution
    other = tmp_path / "elsewhere"  # the folder alone is enough
    place.rename(other)
    call("resume", other)
    printed = capsys.readouterr().out
    found = read_run(other)
    assert found.summary["status"]["name"] == "CONVERGED"
    assert found.summary["objective"] == pytest.approx(whole.objective, rel=1e-9)
    assert len(found.iterations) == len(whole.iterations)
    first = int(next(line.split()[0] for line in printed.splitlines() if line.split()[:1] and line.split()[0].isdigit()))
    assert first >= 30  # the table goes on, too
    assert not (other / "checkpoint.npz").exists()
    assert call("resume", other, "--quiet") == 2
    error = capsys.readouterr().err
    assert "nothing to resume: the method converged" in error
    assert "Traceback" not in error


def test_resume_to_another_folder_with_other_options(tmp_path, capsys):
    place, out = tmp_path / "run", tmp_path / "out"
    interrupted(place)
    before = {p: p.read_bytes() for p in place.rglob("*") if p.is_file()}
    call("resume", place, "--out", out, "--quiet", "--set", "solve.ilqr.max_iterations=5")
    assert read_run(out).summary["status"]["name"] == "ITERATION_LIMIT"
    assert "ocp resume" in capsys.readouterr().out
    assert {p: p.read_bytes() for p in place.rglob("*") if p.is_file()} == before
    assert call("resume", place, "--out", out, "--quiet") == 2
    assert "already holds a run" in capsys.readouterr().err
    assert call("resume", place, "--out", out, "--overwrite", "--quiet", "--set", "solve.ilqr.intervals=50") == 2
    assert "stages; this one has" in capsys.readouterr().err
    assert read_run(out).summary["status"]["name"] == "ITERATION_LIMIT"  # an error replaces nothing


def test_what_is_no_run_is_an_error_in_one_line(tmp_path, capsys):
    (tmp_path / "acrobot").mkdir()
    (tmp_path / "acrobot" / "notes.txt").write_text("mine")
    for folder, words in (("acrobat", "did you mean 'acrobot'"), ("acrobot", "is not the folder of a run")):
        assert call("resume", tmp_path / folder) == 2
        error = capsys.readouterr().err
        assert words in error
        assert "Traceback" not in error
    interrupted(tmp_path / "run")
    (tmp_path / "run" / "checkpoint.npz").write_bytes(b"PK nonsense")
    assert call("resume", tmp_path / "run") == 2
    assert "cannot be read" in capsys.readouterr().err


def test_an_error_leaves_no_folder_and_an_earlier_run_stays(tmp_path):
    def broken(row):
        raise ValueError("no")

    loaded = load_problem(FOLDER / "cartpole_to_goal.yaml", QUICK)
    with pytest.raises(ValueError, match="no"):
        run_loaded(loaded, "cart", method_name="ilqr", out=tmp_path / "a" / "b", progress=broken)
    assert not list(tmp_path.iterdir())
    interrupted(tmp_path / "run")
    before = (tmp_path / "run" / "summary.json").read_bytes()
    with pytest.raises(ValueError, match="no"):
        run_loaded(loaded, "cart", method_name="ilqr", out=tmp_path / "run", overwrite=True, progress=broken)
    assert (tmp_path / "run" / "summary.json").read_bytes() == before
    with pytest.raises(ProblemError, match="already holds a run"):  # before anything is solved
        run_loaded(loaded, "cart", method_name="ilqr", out=tmp_path / "run", progress=broken)
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_a_killed_process_leaves_a_folder_to_go_on_from(tmp_path):
    code = ("import sys, time\nimport ocp.problem.checkpoint as c\nc.SECONDS = 0.0\n"
            "from ocp.app.files.load import load_problem\nfrom ocp.app.pipeline import run_loaded\n"
            f"loaded = load_problem({str(FOLDER / 'pendulum_swingup.yaml')!r}, {QUICK!r})\n"
            "run_loaded(loaded, 'pendulum', method_name='ilqr', out=sys.argv[1], "
            "progress=lambda row: time.sleep(1e3 if row['iteration'] >= 15 else 0))\n")
    place = tmp_path / "run"
    process = subprocess.Popen([sys.executable, "-c", code, str(place)], cwd=ROOT)
    try:
        deadline = time.monotonic() + 120
        while not (place / "checkpoint.npz").is_file() and time.monotonic() < deadline:
            assert process.poll() is None
            time.sleep(0.05)
        time.sleep(0.5)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert is_unfinished(place)
    assert sorted(p.name for p in place.iterdir()) == ["checkpoint.npz", "models", "problem.yaml", "unfinished.json"]
    with pytest.raises(ProblemError, match="interrupted run; continue it"):
        interrupted(place)
    _, found = load_resumable(place)
    assert found["iterations"][0] > 0
    assert call("resume", place, "--quiet") in (0, 1)
    assert read_run(place).summary["status"]["name"] == "CONVERGED"
    assert not (place / "unfinished.json").exists()


# ------------------------------------------------------------------------------------------------ files of a problem
def test_the_policy_of_a_run_needs_its_folder_alone(tmp_path):
    outcome = run(FOLDER / "pendulum_swingup.yaml", method_name="ilqr", overrides=QUICK, out=tmp_path / "run")
    assert "models/pendulum.urdf" in (outcome.folder / "problem.yaml").read_text()
    exported, _ = export_policy(outcome.folder)
    assert exported.K.shape[0] == 60
    urdf, text = outcome.folder / "models" / "pendulum.urdf", (FOLDER / "models" / "pendulum.urdf").read_text()
    urdf.write_text(re.sub(r'mass value="[^"]*"', 'mass value="7.5"', text))
    with pytest.raises(ProblemError, match="not the one that the run was made with"):
        export_policy(outcome.folder)


def test_matrices_and_robots_go_with_the_problem(tmp_path):
    for name in ("lqr80", "ur5_reach", "quadrotor"):
        loaded = load_problem(FOLDER / f"{name}.yaml")
        stored = portable(loaded)
        place = tmp_path / name
        (place / "models").mkdir(parents=True)
        (place / "problem.yaml").write_text(stored.text)
        for file, data in stored.files.items():
            (place / file).write_bytes(data)
        again = load_problem(place / "problem.yaml")
        assert portable(again) == stored
        systems = [found.problem.phase.system for found in (loaded, again)]
        x, u, p = np.linspace(0.1, 0.9, systems[0].nx), np.ones(systems[0].nu), systems[0].parameter_values
        assert np.array_equal(*(np.asarray(system.rate(0.0, x, u, list(p))) for system in systems))
        assert again.tree()["phase"] == loaded.tree()["phase"]


def test_a_closed_pipe_costs_neither_the_answer_nor_its_report(tmp_path):
    """Whoever reads the table of iterations may stop at its first line."""
    command = [sys.executable, "-c", "from ocp.app.cli import main; main()", "solve", str(FOLDER / "block_move.yaml"), "--out",
               str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=FOLDER.parent) as process:
        process.stdout.readline()
        process.stdout.close()
        told = process.stderr.read()
    assert process.returncode == 0, told
    assert is_certified(tmp_path / "run")
    assert (tmp_path / "run" / "report.html").is_file()


def test_a_run_that_goes_on_takes_the_place_of_no_certified_one(tmp_path):
    """Neither of that which it began from, nor of what was resumed before."""
    first = run(FOLDER / "block_move.yaml", out=tmp_path / "run").folder
    assert is_certified(first)
    assert free_folder(first) == tmp_path / "run-resumed"
    shutil.copytree(first, tmp_path / "run-resumed")
    assert free_folder(first) == tmp_path / "run-resumed-2"
    summary = tmp_path / "run-resumed" / "summary.json"
    summary.write_text(summary.read_text().replace('"ok": true', '"ok": false'))
    assert free_folder(first) == tmp_path / "run-resumed"
    assert free_folder(tmp_path / "nothing") == tmp_path / "nothing"
