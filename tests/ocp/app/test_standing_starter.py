"""``ocp init --wbc``: robots that stand on feet, and why others do not."""

import numpy as np
import pytest

from dynamics import algorithms as alg
from dynamics.errors import ModelError
from dynamics.model.robots import robot_paths
from ocp.app.files.control.wbc import load_wbc
from ocp.app.files.load import load_problem
from ocp.app.robot import read_robot
from ocp.app.starter.write import write_starter
from ocp.errors import ProblemError
from tests.support.repository import ROOT

MODELS = ROOT / "problems" / "models"


try:
    EXTRA = robot_paths()
except ModelError:
    EXTRA = {}
installed = pytest.mark.skipif(not EXTRA, reason="the robots extra is not installed")


@installed
def test_feet_are_found_and_stand_on_the_ground(tmp_path):
    for name, feet, points in (("a1", 4, 4), ("talos_reduced", 2, 8)):
        place = write_starter(read_robot(name, root="free_flyer"), "wbc", out=tmp_path / f"{name}.yaml")
        loaded = load_wbc(place)
        contacts = list(loaded.setup.contacts)
        assert len(contacts) == feet
        model, x = loaded.mechanism.model, np.asarray(loaded.setup.start)
        heights = []
        for contact in contacts:
            pose = alg.frame_pose(model, x[:model.nq], contact.frame)
            heights += [float((pose.R @ np.array(point) + pose.p)[2]) for point in contact.points]
        assert len(heights) == points
        np.testing.assert_allclose(heights, 0.0, atol=1e-9)
        com = np.asarray(alg.centre_of_mass(model, x[:model.nq])).ravel()
        assert abs(com[1]) < 0.05


def test_stretched_legs_are_bent(tmp_path):
    """A humanoid whose file gives straight legs: knees bend their own way, soles stay flat where they were, the rest as it was."""
    robot = read_robot(str(MODELS / "humanoid.urdf"), root="free_flyer")
    loaded = load_wbc(write_starter(robot, "wbc", out=tmp_path / "x.yaml"))
    model, q = loaded.mechanism.model, np.asarray(loaded.setup.start)[:loaded.mechanism.model.nq]
    straight = np.array(alg.neutral(model), float).ravel()
    joint = {name: q[model.q_slice(model.joint_index(name)).start] for name in ("l_knee", "r_knee", "l_elbow", "neck", "l_hip_yaw")}
    assert 0.3 < joint["l_knee"] < 1.5
    assert joint["r_knee"] == pytest.approx(joint["l_knee"], abs=1e-3)
    np.testing.assert_allclose([joint[name] for name in ("neck", "l_hip_yaw")], 0.0, atol=0.05)
    apart = []
    for at in (q, straight):
        left, right = (alg.frame_pose(model, at, f"{side}_sole") for side in "lr")
        np.testing.assert_allclose(np.array(left.R), np.eye(3), atol=1e-3)
        apart.append(np.array(left.p - right.p).ravel())
    np.testing.assert_allclose(apart[0], apart[1], atol=1e-3)


@installed
def test_soles_of_tilted_frames_lie_in_a_plane_and_missing_meshes_are_named(tmp_path):
    """iCub's sole frames are tilted, so that rounded corners need not lie in a plane; Romeo's meshes are not in the collection."""
    loaded = load_wbc(write_starter(read_robot("icub", root="free_flyer"), "wbc", out=tmp_path / "icub.yaml"))
    for plan in loaded.setup.contacts:
        assert np.linalg.svd(np.subtract(plan.points, plan.points[0]), compute_uv=False)[2] < 1e-9
    with pytest.raises(ProblemError, match=r"sole of 'l_sole' is not known: its mesh .*LAnkleRollBasic.mesh does not exist"):
        write_starter(read_robot("romeo_laas_small", root="free_flyer"), "wbc", out=tmp_path / "x.yaml")


@installed
def test_two_points_are_not_stood_on(tmp_path):
    with pytest.raises(ProblemError, match="stands on two points"):
        write_starter(read_robot("bolt", root="free_flyer"), "wbc", out=tmp_path / "x.yaml")


def test_why_a_robot_does_not_stand_is_reported(tmp_path):
    for name, root, told in (("ur5.urdf", None, "fixed to the world"), ("ur5.urdf", "free_flyer", "does not stand on feet in any")):
        with pytest.raises(ProblemError, match=told):
            write_starter(read_robot(str(MODELS / name), root=root), "wbc", out=tmp_path / "x.yaml")


@pytest.mark.slow
def test_a_file_runs_as_it_is_written(tmp_path):
    from ocp.app.wbc.run import run_loaded

    place = write_starter(read_robot(str(MODELS / "quadruped.urdf"), root="free_flyer"), "wbc", out=tmp_path / "x.yaml")
    assert run_loaded(load_wbc(place, {"wbc.duration": "1"})).ok


# ---- gaits ----------------------------------------------------------------------------------------------------------------
def walks(name, gait, tmp_path, feet):
    """The file that is written for a gait, read: at the start all feet touch, flat, and every one swings once a cycle."""
    loaded = load_problem(write_starter(read_robot(name, root="free_flyer"), "gait", gait=gait, out=tmp_path / "x.yaml"))
    phases, model = loaded.problem.phases, loaded.problem.phases[0].system.model
    contacts = phases[0].system.robot.constraints
    assert len(contacts) == feet
    q = np.asarray(phases[0].start.value)[:model.nq]
    for contact in contacts:
        np.testing.assert_allclose(np.array(contact.value(model, q)).ravel(), 0, atol=1e-7)
    lands = [c.name for phase in phases[1:] for c in phase.constraints if c.name.endswith("begins")]
    assert sorted(lands) == sorted(f"{contact.name} begins" for contact in contacts)
    return loaded


def test_a_gait_begins_on_the_ground(tmp_path):
    loaded = walks(str(MODELS / "quadruped.urdf"), "bound", tmp_path, 4)
    swings = [{c.name for c in phase.system.robot.constraints} for phase in loaded.problem.phases]
    assert {"lh_foot", "rh_foot"} in swings
    with pytest.raises(ProblemError, match="a trot is one of 4 feet; the robot has 2"):
        write_starter(read_robot(str(MODELS / "humanoid.urdf"), root="free_flyer"), "gait", gait="trot", out=tmp_path / "y.yaml")


@pytest.mark.slow
@installed
@pytest.mark.parametrize(("name", "gait", "feet"), [
    ("solo12", "trot", 4), ("go1", "pace", 4), ("anymal_c_simple/anymal", "walk", 4), ("talos_reduced", "walk", 2),
    ("g1_29dof_rev_1_0", "step", 2), (str(MODELS / "humanoid.urdf"), "walk", 2)])
def test_robots_of_the_collection_walk(name, gait, feet, tmp_path):
    walks(name, gait, tmp_path, feet)


def test_a_gait_that_repeats_is_written_in_the_scale_of_the_robot(tmp_path, monkeypatch, capsys):
    """Lengths of the trunk, torques of standing: from the statics of the posture, written once more."""
    from commands import call

    monkeypatch.chdir(tmp_path)
    assert call("init", MODELS / "quadruped.urdf", "--gait", "trot", "--mpc") == 0
    assert "now run: ocp mpc quadruped_trot_mpc.yaml" in capsys.readouterr().out
    loaded = load_problem("quadruped_trot_mpc.yaml")
    model, first = loaded.model, loaded.problem.phases[0]
    q = np.array(first.start.value)[:model.nq]
    assert loaded.mpc.problem.table.again == 1
    assert loaded.mpc.options.horizon == pytest.approx(3 * loaded.problem.phases[1].duration.guess, abs=0.01)
    up = np.array([0, 0, model.mass * 9.81 / 4])
    bias = np.array(alg.bias_force(model, q, np.zeros(model.nv))).ravel()
    feet = [c.frame for c in first.system.robot.constraints]
    assert len(feet) == 4
    torques = bias - sum(np.array(alg.frame_jacobian(model, q, foot, "world_aligned"))[:3].T @ up for foot in feet)
    (effort,) = (cost for cost in first.costs if cost.name == "effort")
    assert effort.weights[0] * np.sum(torques[6:] ** 2) == pytest.approx(0.5, rel=0.05)
    assert loaded.mpc.tracked[0].within == pytest.approx(0.25 * q[2], rel=0.05)


@installed
def test_two_points_are_walked_on(tmp_path):
    """Bolt's gait repeats itself: its start is free, near the posture of its file, and the mass centre sways over the feet."""
    place = write_starter(read_robot("bolt", root="free_flyer"), "gait", gait="walk", out=tmp_path / "x.yaml")
    problem = load_problem(place).problem
    phases, model = problem.phases, problem.phases[0].system.model
    assert {one.name: len(one.lower) for one in problem.linkages} == {"advances": 2, "repeats": model.nq - 3 + model.nv}
    assert phases[0].start is None or not any(phases[0].start.fixed)
    first, last = phases[0].guess.x[0], phases[-1].guess.x[-1]
    np.testing.assert_allclose(last[2:], first[2:], atol=1e-5)
    assert last[0] - first[0] == pytest.approx(0.1, abs=1e-5)
    assert first[model.q_slice(model.joint_index("FL_KFE"))] == pytest.approx(-np.pi / 2, abs=0.3)
    sideways = [np.array(alg.centre_of_mass(model, phase.guess.x[-1][:model.nq])).ravel()[1] for phase in (phases[1], phases[4])]
    feet = [np.array(alg.frame_pose(model, first[:model.nq], f"{side}_FOOT").p).ravel()[1] for side in ("FR", "FL")]
    assert 0 < sideways[0] / feet[0] < 1
    assert sideways[1] == pytest.approx(-sideways[0], abs=0.1 * abs(feet[0]))
    with pytest.raises(ProblemError, match="stands on two points"):
        write_starter(read_robot("bolt", root="free_flyer"), "gait", gait="stand", out=tmp_path / "y.yaml")


@pytest.mark.slow
def test_legs_alone_step(tmp_path):
    """The other joints are locked where the whole robot stands, so that its mass centre and its feet are where they were."""
    robot, found = read_robot(str(MODELS / "humanoid.urdf"), root="free_flyer"), []
    for legs in (False, True):
        place = write_starter(robot, "gait", gait="stand", legs=legs, out=tmp_path / f"{legs}.yaml")
        phase = load_problem(place).problem.phases[0]
        model, q = phase.system.model, np.asarray(phase.start.value)[:phase.system.model.nq]
        places = [np.array(alg.frame_pose(model, q, f"{side}_sole").p).ravel() for side in "lr"]
        found.append((model.nv, np.concatenate([np.array(alg.centre_of_mass(model, q)).ravel(), *places])))
    assert [nv for nv, _ in found] == [28, 18]
    np.testing.assert_allclose(found[1][1], found[0][1], atol=2e-6)
