"""``ocp simulate`` as a user meets it: the folder, the table, the page, what drives it, and what it says of mistakes."""

import json
import re

import numpy as np
import pytest
from commands import call
from repository import ROOT

from ocp.app.files.load import load_problem, load_text
from ocp.app.files.syntax.findings import ProblemFileError
from ocp.app.simulate.controls import choose
from ocp.errors import ProblemError
from ocp.simulation import simulate

FOLDER = ROOT / "problems"
FOUR_BAR = FOLDER / "four_bar.yaml"


@pytest.fixture(scope="module")
def linkage(tmp_path_factory):
    out = tmp_path_factory.mktemp("simulate") / "linkage"
    assert call("simulate", FOUR_BAR, "--integrator", "bdf2", "--dt", "0.01", "--out", out, "--quiet") == 0
    return out


def test_the_folder_is_complete(linkage):
    assert {p.name for p in linkage.iterdir()} == {
        "problem.yaml", "trajectory.npz", "trajectory.csv", "summary.json", "energy.png", "drift.png", "states.png", "controls.png",
        "report.html", "models"}
    summary = json.loads((linkage / "summary.json").read_text())
    assert summary["format"] == "lieocp simulation"
    assert summary["ok"] is True
    assert summary["steps"] == 100
    assert summary["integrator"] == "bdf2"
    assert summary["drift"][0]["name"] == "pin"
    assert 0 < summary["drift"][0]["gap"] < 1e-2
    energy = summary["energy"]
    assert energy["unexplained"] == pytest.approx(energy["end"] - energy["start"] - energy["supplied"], abs=1e-12)
    with np.load(linkage / "trajectory.npz", allow_pickle=False) as archive:
        assert archive["x"].shape == (101, 6)
        assert archive["u"].shape == (100, 1)
        assert archive["energy"][-1] == pytest.approx(energy["end"])
    assert load_problem(linkage / "problem.yaml").problem.name
    page = (linkage / "report.html").read_text()
    assert "Drift of constraints" in page
    assert "canvas" in page


def test_the_same_command_gives_the_same_bits(linkage, tmp_path):
    assert call("simulate", FOUR_BAR, "--integrator", "bdf2", "--dt", "0.01", "--out", tmp_path / "a", "--quiet", "--quick") == 0
    for name in ("trajectory.npz", "trajectory.csv", "energy.png"):
        assert (tmp_path / "a" / name).read_bytes() == (linkage / name).read_bytes()


def test_the_table_says_it_all(tmp_path, capsys):
    assert call("simulate", FOLDER / "redmax" / "stops.yaml", "--integrator", "bdf1", "--out", tmp_path / "s", "--quiet") == 0
    told = capsys.readouterr().out
    assert "bdf1, 200 steps of 0.005 s, controls: the guess: finished" in told
    assert re.search(r"end less potential energy at the start +-25928\.30530", told)
    assert "steps half as long move" in told


def test_a_bare_robot_file_falls_from_rest(tmp_path, capsys):
    assert call("simulate", FOLDER / "models" / "acrobot.urdf", "--until", "0.5", "--out", tmp_path / "a", "--quiet") == 0
    assert "unexplained" in capsys.readouterr().out
    assert json.loads((tmp_path / "a" / "summary.json").read_text())["reached"] == 0.5


def test_a_run_that_fails_is_kept_and_named(tmp_path, capsys):
    file = tmp_path / "burst.yaml"
    file.write_text("""
name: A force with an end
system:
  bodies: {block: {mass: 1, joint: {kind: prismatic, axis: [1, 0, 0]}}}
  forces: [{efforts: {block: "1000*sqrt(0.5 - q['block'])"}}]
phase: {duration: 1, start: {joints: {block: 0.2}, velocities: {block: 40}}, costs: []}
""")
    assert call("simulate", file, "--integrator", "bdf1", "--dt", "0.005", "--out", tmp_path / "out", "--quiet") == 1
    told = " ".join(capsys.readouterr().out.split())
    assert re.search(r"A step failed.*Step \d+ of phase.*(residual is .* at|first in) 'block'", told)
    with np.load(tmp_path / "out" / "trajectory.npz") as archive:
        assert len(archive["t"]) >= 2


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run by shooting, with gains."""
    out = tmp_path_factory.mktemp("run") / "move"
    assert call("solve", FOLDER / "block_move.yaml", "--method", "ilqr", "--out", out, "--quiet") == 0
    return out


def test_a_run_is_followed_by_its_controls_and_by_its_policy(run, tmp_path):
    loaded = load_problem(FOLDER / "block_move.yaml")
    problem, controls = choose(loaded, None, run, None)
    assert controls.label.endswith("held")
    motion = simulate(problem, "rk4", controls, kernels="interpreted")
    np.testing.assert_allclose(motion.legs[0].x[-1], [1.0, 0.0], atol=1e-6)
    assert call("policy", run, "--out", tmp_path / "policy") == 0
    for place in (run, tmp_path / "policy", tmp_path / "policy" / "policy.npz"):
        problem, policy = choose(loaded, None, None, str(place))
        pushed = simulate(problem, "bdf2", policy, kernels="interpreted").legs[0].x[-1]
        np.testing.assert_allclose(pushed, [1.0, 0.0], atol=5e-2)


def test_the_horizon_of_a_file_drives_it_as_ocp_mpc_does(tmp_path):
    """The same samples, plant and plan: the same motion to rounding."""
    from dataclasses import replace

    from ocp.app.mpc.run import run_loaded

    loaded = load_problem(FOLDER / "mpc" / "cartpole_balance.yaml", {"mpc.duration": "0.2"})
    plain = replace(loaded.mpc.plant, system=loaded.problem.phase.system, disturbances=type(loaded.mpc.plant.disturbances)())
    loop = run_loaded(replace(loaded, mpc=replace(loaded.mpc, plant=plain))).loop
    problem, controls = choose(loaded, None, None, "mpc")
    motion = simulate(problem, plain.integrator, controls, dt=loaded.mpc.options.period / plain.substeps, until=0.2)
    np.testing.assert_allclose(motion.legs[0].x[::plain.substeps], loop.x, atol=1e-9)


@pytest.mark.parametrize(("how", "words"), [
    ({"words": ["forse=1"]}, "no control named 'forse'; did you mean 'force'"),
    ({"words": ["force"]}, "expected guess, zero or NAME=VALUE, got 'force'"),
    ({"words": ["force=strong"]}, "'strong' is not a number"),
    ({"words": ["force=inf"]}, "must be finite"),
    ({"words": ["force=1,force=2"]}, "given twice"),
    ({"words": ["zero"], "policy": "mpc"}, "--controls and --policy: cannot be combined"),
    ({"policy": "mpc"}, "no section 'mpc'"),
    ({"policy": "nowhere"}, "no such file or folder"),
    ({"policy": str(FOUR_BAR)}, "not an archive of a policy"),
])
def test_wrong_words_are_named(how, words):
    with pytest.raises(ProblemError, match=words):
        choose(load_problem(FOLDER / "block_move.yaml"), how.get("words"), None, how.get("policy"))


def test_a_policy_of_another_problem_is_refused(run):
    with pytest.raises(ProblemError, match="has the states x, v; the problem has"):
        choose(load_problem(FOLDER / "pendulum_swingup.yaml"), None, None, str(run))


TEXT = (FOLDER / "block_move.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(("section", "words"), [
    ("{integrator: rk5}", r"simulate\.integrator.*no integrator named 'rk5'"),
    ("{dt: 0}", r"simulate\.dt.*must be positive, got 0"),
    ("{until: -1}", r"simulate\.until.*must be positive, got -1"),
    ("{controls: {forse: 1}}", r"simulate\.controls\.forse.*did you mean 'force'"),
    ("{steps: 5}", r"simulate\.steps"),
    ("{expect: [{integrator: rk4, energy: 1}, {integrator: rk4, energy: 2}]}", r"expect\[1\].*there is an energy by 'rk4' already"),
])
def test_a_wrong_section_is_named(section, words):
    with pytest.raises(ProblemFileError, match=words):
        load_text(TEXT + f"\nsimulate: {section}\n", FOLDER)


def test_constants_of_the_file_act(tmp_path):
    loaded = load_text(TEXT + "\nsimulate: {controls: {force: 2}, dt: 0.1, integrator: heun}\n", FOLDER)
    assert "simulate:" in loaded.expanded()
    assert load_text(loaded.expanded()).simulate == loaded.simulate
    problem, controls = choose(loaded, None, None, None)
    motion = simulate(problem, loaded.simulate.integrator, controls, dt=loaded.simulate.dt, kernels="interpreted")
    np.testing.assert_allclose(motion.legs[0].x[-1], [1.0, 2.0])
    assert controls.label == "constant: force = 2"
