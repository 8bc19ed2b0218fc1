"""A solved motion in MuJoCo: as far from the plan as states differ; bodies without mass move there as in our own dynamics."""

import json

import casadi as ca
import numpy as np
import pytest
from repository import ROOT

from dynamics import algorithms as alg
from dynamics.constraints import Cone
from ocp.app import cli
from ocp.app.files.load import load_problem, load_text
from ocp.app.pipeline import run_loaded
from ocp.app.wbc.replay import replay
from ocp.contacts import with_contacts
from ocp.plants.table import PLANTS, Setting

pytest.importorskip("mujoco")
REACH = """
name: Reach
system: {robot: models/acrobot.urdf, actuated: [shoulder, elbow]}
phase:
  duration: 0.5
  start: {joints: {shoulder: 0, elbow: 0}, rest: true}
  final: {joints: {shoulder: 0.6, elbow: -0.4}, rest: true}
  costs: [{name: effort, running: "dot(tau, tau)"}]
solve: {method: collocation}
"""


@pytest.mark.parametrize("name", ["leg_leap.yaml", "biped_walking.yaml"])
def test_bodies_without_mass_move_in_mujoco_as_in_our_dynamics(name):
    """Free fall with torques: one short step changes velocities by the accelerations of the forward dynamics."""
    robot = load_problem(f"problems/{name}").problem.phases[0].system.robot
    free, model = with_contacts(robot, ()), robot.model
    rng, dt = np.random.default_rng(5), 5e-4
    plant = PLANTS["mujoco"].make(Setting(free, (), (), Cone()))
    q, v = rng.uniform(-0.5, 0.5, model.nq), rng.uniform(-0.5, 0.5, model.nv)
    u = rng.uniform(-1, 1, free.nu)
    plant.reset(np.r_[q, v])
    np.testing.assert_allclose(plant.measure(), np.r_[q, v], atol=1e-12)
    after = plant.step(u, dt)
    a = np.array(ca.DM(free.forward_dynamics(q, v, u))).ravel()
    np.testing.assert_allclose((after[model.nq:] - v) / dt, a, rtol=0.02, atol=0.02 * np.abs(a).max())


@pytest.fixture(scope="module")
def reach():
    return run_loaded(load_text(REACH, "problems"), "reach", write=False).solution


def test_a_replay_tells_how_far_the_plant_is_from_the_plan(reach):
    solution = reach
    found = replay(solution, "mujoco")
    assert found.holds
    end = float(solution.trajectory.t[-1])
    assert found.run.t[-1] == pytest.approx(5.0)  # it ends at rest, and is held there
    model, at = solution.problem.phase.system.model, np.minimum(found.run.t, end)
    plan = solution.trajectory.state(at)[:, :model.nq]
    pairs = zip(plan, found.run.x[:, :model.nq], strict=True)
    off = np.abs([np.array(ca.DM(alg.difference(model, a, b))).ravel() for a, b in pairs])
    assert found.strays == pytest.approx(off.max(), rel=0.05, abs=1e-4)
    assert 0.0 < found.strays < 0.01
    assert found.slips == 0.0


def test_the_command_tells_and_keeps_a_replay(tmp_path, capsys):
    (tmp_path / "reach.yaml").write_text(REACH.replace("models/", f"{(ROOT / 'problems')}/models/"))
    with pytest.raises(SystemExit) as ended:
        cli.main(["solve", str(tmp_path / "reach.yaml"), "--out", str(tmp_path / "run"), "--replay", "mujoco", "--quiet"])
    told = capsys.readouterr().out
    assert ended.value.code == 0, told
    record = json.loads((tmp_path / "run" / "summary.json").read_text())["replay"]
    assert record["holds"]
    assert record["sentence"] in " ".join(told.split())
    assert record["sentence"] in (tmp_path / "run" / "report.html").read_text()
