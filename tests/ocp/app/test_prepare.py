"""Compiling loops ahead of their use: which part a solve needs, what is missing, processes that fail or are ended."""

import os
import subprocess
import sys

import numpy as np
import pytest
from repository import ROOT

import ocp
import ocp.app.prepare as module
from dynamics import algorithms as alg
from dynamics.kernels.plain import address_of, plain_twin
from dynamics.model.urdf import read_urdf
from ocp.app import cli
from ocp.app.files.load import load_problem
from ocp.app.prepare import PARTS, needed, prepare
from ocp.control import engine
from ocp.control.ik import solve_ik
from ocp.control.tasks import pose_task
from ocp.derivatives import choose
from ocp.methods import make_options

FOLDER = ROOT / "problems"


@pytest.mark.parametrize(("name", "method", "values", "parts"), [
    ("cartpole_swingup", "collocation", {}, ()),
    ("cartpole_swingup", "collocation", {"solver": "interior_point"}, ("interior point",)),
    ("quadrotor", "ilqr", {}, ("ilqr",)),
    ("block_move", "ilqr", {}, ("ilqr", "ilqr with constraints")),
    ("ur5_reach", "ilqr", {}, ("ilqr", "ilqr in loops over robots")),
    ("ur5_reach", "collocation", {}, ()),
    ("ur5_reach", "collocation", {"execution": "loops", "derivatives": "analytic"}, ("collocation in loops over robots",)),
    ("four_bar_residual", "collocation", {"execution": "loops", "derivatives": "analytic"},
     ("collocation in loops over constrained robots",)),
    ("ur5_reach", "multiple_shooting", {"derivatives": "analytic"}, ()),
])
def test_a_solve_knows_which_loops_it_runs_in(name, method, values, parts):
    assert needed(method, make_options(method, values), load_problem(FOLDER / f"{name}.yaml").problem) == parts


def test_what_is_compiled_is_found_where_numba_keeps_it(tmp_path):
    code = ("from ocp.app.prepare import PARTS, missing\nassert missing() == tuple(PARTS), missing()\n"
            "PARTS['inverse kinematics'].make()\nassert 'inverse kinematics' not in missing()\n"
            "assert len(missing()) == len(PARTS) - 1")
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=300,
                   env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)})


def test_a_part_that_cannot_be_compiled_is_named(monkeypatch):
    told = []
    wrong = prepare(["no such part"], lambda name, seconds: told.append(name))
    assert "no such part" in wrong["no such part"]
    assert told == ["no such part"]


def test_ctrl_c_leaves_no_process(monkeypatch):
    started = []
    whole = subprocess.Popen

    def endless(arguments, **options):
        process = whole([sys.executable, "-c", "import time; time.sleep(1e3)"], **options)
        started.append(process)
        if len(started) == 2:
            raise KeyboardInterrupt
        return process

    monkeypatch.setattr(module.subprocess, "Popen", endless)
    monkeypatch.setattr(module.os, "cpu_count", lambda: 2)
    with pytest.raises(KeyboardInterrupt):
        prepare(["a", "b"])
    assert started[0].returncode is not None  # waited for: no zombie
    started[1].kill()
    started[1].communicate()


def test_doctor_says_what_is_not_compiled_and_prepares_it(monkeypatch, capsys):
    import ocp.app.doctor as doctor

    monkeypatch.setattr(doctor, "missing", lambda: ("interior point",))
    seen = []

    def quickly(names, done):
        seen.extend(names)
        done("interior point", 1.5)
        return {}

    monkeypatch.setattr(doctor, "prepare", quickly)
    with pytest.raises(SystemExit) as stop:
        cli.main(["doctor", "--prepare"])
    assert stop.value.code == 0
    assert seen == ["interior point"]
    said = capsys.readouterr().out
    assert "interior point: 1.5 s" in said
    assert f"compiled 1 of {len(PARTS)} parts" in said


# ------------------------------------------------------------------------------------------------ without Numba
def test_direct_methods_and_inverse_kinematics_do_without_numba(tmp_path):
    code = ("import sys\nfrom ocp.app.pipeline import run\n"
            f"outcome = run({str(FOLDER / 'ur5_reach.yaml')!r}, out={str(tmp_path / 'run')!r})\n"
            "assert outcome.solution.ok\nassert 'numba' not in sys.modules")
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=300)


def test_robots_up_to_five_thousand_operations_run_as_generated_code_in_direct_methods():
    system = load_problem(FOLDER / "quadruped_righting.yaml").problem.phase.system
    assert choose(system, "auto", "auto", exact=True)[:2] == ("analytic", False)
    assert choose(system, "auto", "auto")[:2] == ("analytic", True)  # shooting keeps its loops


def test_plain_and_compiled_loops_find_the_same_configurations(monkeypatch):
    robot = read_urdf(FOLDER / "models" / "ur5.urdf")
    q = np.array([0.3, -1.0, 1.2, -0.4, 0.8, 0.1])
    pose = alg.frame_pose(robot, q, "tool0")
    task = pose_task("tool0", np.array(pose.R, float), np.array(pose.p, float).ravel())
    monkeypatch.delitem(sys.modules, engine.COMPILED, raising=False)
    monkeypatch.setattr(engine.loops, "spent", 0.0)
    plain = solve_ik(robot, [task], q0=np.zeros(6))
    assert 0.0 < engine.loops.spent < engine.PATIENCE
    assert engine.COMPILED not in sys.modules
    monkeypatch.setattr(engine.loops, "spent", 2 * engine.PATIENCE)  # as after many searches
    compiled = solve_ik(robot, [task], q0=np.zeros(6))
    assert engine.COMPILED in sys.modules
    assert plain.converged
    assert plain.iterations == compiled.iterations
    assert plain.q == pytest.approx(compiled.q, abs=1e-12)


def test_addresses_of_arrays_with_gaps_are_refused():
    assert plain_twin("ocp.control.ik_search", "ocp.control.box_qp").address_of is address_of
    with pytest.raises(TypeError, match="contiguous"):
        address_of(np.zeros((4, 4))[::2, ::2])


def test_waiting_for_the_compiler_is_reported(monkeypatch):
    monkeypatch.setattr(module, "missing", lambda names: tuple(names))
    loaded = load_problem(FOLDER / "quadrotor.yaml")
    assert module.waiting(loaded, "collocation") == ""
    assert "compiling ilqr, once on this machine, about 10 s (ocp doctor --prepare" in module.waiting(loaded, "ilqr")
    monkeypatch.setattr(module, "missing", lambda names: ())
    assert module.waiting(loaded, "ilqr") == ""


def test_waiting_in_python_is_reported(monkeypatch, capsys):
    monkeypatch.setattr(module, "missing", lambda names: tuple(names))
    problem = ocp.load(FOLDER / "block_move.yaml")
    assert problem.solve().ok
    assert capsys.readouterr() == ("", "")
    assert problem.solve("ilqr").ok
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("compiling ilqr, ilqr with constraints, once on this machine, about 20 s")
