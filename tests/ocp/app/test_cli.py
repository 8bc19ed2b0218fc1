"""The command line as a user meets it: exit codes, messages, files, and no traceback for a user's mistake."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from commands import call
from repository import ROOT

from ocp.app import cli
from ocp.app.pages.results import read_run
from ocp.errors import ProblemError

FOLDER = ROOT / "problems"
BLOCK = str(FOLDER / "block_move.yaml")


def test_solve_writes_a_certified_run(tmp_path, capsys):
    out = tmp_path / "run"
    assert call("solve", BLOCK, "--out", str(out), "--quiet") == 0
    printed = capsys.readouterr().out
    assert "certified" in printed
    assert "objective   12" in printed
    run = read_run(out)
    assert run.summary["ok"] is True
    assert run.certificate.holds
    assert run.arrays["x"][-1] == pytest.approx([1.0, 0.0], abs=1e-9)
    for name in ("report.html", "states.png", "controls.png", "constraints.png", "certificate.png", "trajectory.csv",
                 "iterations.jsonl", "problem.yaml"):
        assert (out / name).stat().st_size > 0
    # the expanded input solves again to the same answer: a run can be repeated from its own folder
    again = tmp_path / "again"
    assert call("solve", str(out / "problem.yaml"), "--out", str(again), "--quiet") == 0
    assert read_run(again).summary["objective"] == run.summary["objective"]


def test_iteration_table_is_printed(tmp_path, capsys):
    assert call("solve", str(FOLDER / "pendulum_swingup.yaml"), "--method", "ilqr", "--out", str(tmp_path / "r")) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("cost" in line and "gradient" in line for line in lines)


def test_not_certified_exits_with_one(tmp_path, capsys):
    code = call("solve", str(FOLDER / "cartpole_swingup.yaml"), "--set", "solve.collocation.intervals=8",
                "--set", "solve.collocation.scheme=trapezoid", "--out", str(tmp_path / "r"), "--quiet")
    assert code == 1
    assert "not certified" in capsys.readouterr().out


def periodic(folder):
    """The block that shall end as fast as it began, which a gradient alone cannot ask for."""
    linkage = "linkages:\n  - {name: round again, expression: 'final[\"v\"] - start[\"v\"]', equal: 0}\nphase:\n"
    text = Path(BLOCK).read_text(encoding="utf-8").replace("phase:\n", linkage, 1)
    file = folder / "periodic.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_unsupported_constraints_exit_with_two_and_their_names(tmp_path, capsys):
    file = periodic(tmp_path)
    assert call("solve", str(file), "--method", "adjoint", "--out", str(tmp_path / "r")) == 2
    error = capsys.readouterr().err
    assert "linkage 'round again' between ends of phases" in error
    assert "Methods that can: collocation, multiple_shooting, ilqr" in error
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(("arguments", "words"), [
    (("solve", "nowhere.yaml"), "nowhere.yaml"),
    (("solve", BLOCK, "--method", "colocation"), "did you mean 'collocation'"),
    (("solve", BLOCK, "--set", "phase.duratoin=2"), "duration"),
    (("solve", BLOCK, "--set", "phase.duration"), "expected path.to.key=value"),
    (("solve", BLOCK, "--set", "solve.collocation.intervals=0"), "must be a whole number >= 1, got 0"),
    (("solve", BLOCK, "--fast"), "--fast"),
    (("solve",), "try: ocp solve --help"),
    (("slove", BLOCK), "slove"),
    (("check", str(FOLDER / "models" / "ur5.urdf")), "ur5.urdf"),
], ids=lambda value: "-".join(str(v)[:12] for v in value[-2:]) if isinstance(value, tuple) else "")
def test_user_mistakes_exit_with_two_and_one_message(arguments, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call(*arguments) == 2
    error = capsys.readouterr().err
    assert words in error
    assert "Traceback" not in error
    assert not list(tmp_path.iterdir())


def test_a_foreign_folder_is_never_overwritten(tmp_path, capsys):
    (tmp_path / "thesis.tex").write_text("years of work")
    assert call("solve", BLOCK, "--out", str(tmp_path), "--overwrite", "--quiet") == 2
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_internal_errors_exit_with_three(capsys):
    assert cli.guarded(lambda: 1 // 0) == 3
    assert "bug in lieocp" in capsys.readouterr().err
    assert cli.guarded(lambda: (_ for _ in ()).throw(ProblemError("bad"))) == 2
    assert cli.guarded(lambda: None) == 0


def test_check_names_the_methods(capsys, tmp_path):
    assert call("check", str(FOLDER / "ur5_reach.yaml")) == 0
    printed = capsys.readouterr().out
    assert "12 states, 6 controls" in printed
    assert "collocation (default): can solve it" in printed
    assert "ilqr: can solve it" in printed
    assert call("check", str(periodic(tmp_path))) == 0
    printed = capsys.readouterr().out
    assert "ilqr: can solve it" in printed
    assert "adjoint: cannot enforce\n    - linkage 'round again'" in printed


def test_show_expands_defaults_and_prints_the_schema(capsys, tmp_path):
    assert call("show", BLOCK) == 0
    text = capsys.readouterr().out
    assert "hermite_simpson" in text
    file = tmp_path / "expanded.yaml"
    file.write_text(text, encoding="utf-8")
    assert call("show", str(file)) == 0
    assert capsys.readouterr().out == text  # already expanded: nothing left to add
    assert call("show", BLOCK, "--schema") == 0
    assert "SymbolicProblem" in json.loads(capsys.readouterr().out)["$defs"]


def test_doctor_passes(capsys):
    assert call("doctor") == 0
    printed = capsys.readouterr().out
    for word in ("casadi", "compiler", "cache", "collocation: certified", "ilqr: certified"):
        assert word in printed


def test_interrupting_a_solve_keeps_what_it_has(tmp_path):
    """Ctrl-C in the middle: the run folder is written with the best iterate and the status says so."""
    if sys.platform == "win32":
        pytest.skip("signals differ on Windows")
    import signal

    out = tmp_path / "run"
    process = subprocess.Popen(
        [sys.executable, "-c", "from ocp.app.cli import main; main()", "solve", str(FOLDER / "acrobot.yaml"), "--out", str(out),
         "--set", "solve.collocation.intervals=600"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=FOLDER.parent)
    for line in process.stdout:
        if line.split()[:1] == ["2"]:  # the second iteration is on the screen
            process.send_signal(signal.SIGINT)
            break
    rest = process.communicate(timeout=120)[0]
    assert process.returncode == 1, rest
    run = read_run(out)
    assert "INTERRUPTED" in json.dumps(run.summary["status"])
    assert run.arrays["x"].shape[0] == 601


def test_help_needs_none_of_the_heavy_libraries():
    """Asking for help imports nothing that takes long."""
    code = ("import sys; import ocp.app.cli; "
            "heavy = {'casadi', 'numba', 'matplotlib', 'scipy', 'pydantic'} & set(sys.modules); "
            "sys.exit(str(heavy) if heavy else 0)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=FOLDER.parent)
    assert done.returncode == 0, done.stderr


def test_collocation_pays_neither_for_numba_nor_for_osqp(tmp_path):
    """What a problem does not use, its solve does not load."""
    code = ("import sys; from ocp.app.pipeline import run; "
            f"run({str(FOLDER / 'block_move.yaml')!r}, out={str(tmp_path / 'run')!r}); "
            "loaded = {'numba', 'osqp', 'mujoco'} & set(sys.modules); sys.exit(str(loaded) if loaded else 0)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=FOLDER.parent)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", [c.__name__.replace("_", "-") for group in cli.COMMANDS.values() for c in group])
def test_help_of_every_command_names_all_it_takes_and_nothing_else(command, capsys):
    cli.app([command, "--help"])
    printed = capsys.readouterr().out
    assert f"ocp {command}" in printed
    for noise in ("--no-", "--empty-", "{", "[default: False]"):
        assert noise not in printed
    body = printed[printed.find("Parameters"):] if "Parameters" in printed else ""
    flags = [line for line in body.splitlines() if line.startswith("│ --")]
    assert all(len(line.strip("│ ").split("  ", 1)) == 2 for line in flags), "a flag without a word about it"


@pytest.mark.parametrize("words", [
    ("show", "problems/block_move.yaml"), ("check", "problems/block_move.yaml"), ("robot", "problems/models/pendulum.urdf"),
    ("diff", "problems/block_move.yaml", "problems/block_move.yaml")])
def test_the_gallery_is_found_from_anywhere(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert call(*words) == 0
    assert capsys.readouterr().out
