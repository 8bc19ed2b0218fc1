"""``ocp robot`` and ``ocp init``: names of a robot, and starter files that certify as they are written."""

import json
from pathlib import Path

import numpy as np
import pytest
from commands import call

from ocp.app.files.ik_file import load_ik
from ocp.app.files.load import load_problem
from ocp.app.robot import read_robot
from ocp.app.starter.plan import make_plan

MODELS = Path(__file__).parents[3] / "problems" / "models"
MJCF = """<mujoco model="cart"><worldbody><body name="cart"><joint name="slide" type="slide" axis="1 0 0" range="-2 2"/>
<geom type="box" size=".2 .1 .1" mass="1"/><body name="pole"><joint name="hinge" type="hinge" axis="0 1 0"/>
<geom type="capsule" fromto="0 0 0 0 0 .5" size=".02" mass=".1"/></body></body></worldbody>
<actuator><motor name="push" joint="slide" gear="10" ctrlrange="-3 3"/></actuator></mujoco>"""


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_robot_is_told_by_its_names(capsys):
    assert call("robot", MODELS / "kinova.urdf", "--picture", "k.png") == 0
    said = capsys.readouterr().out
    for words in ("j2s6s200_joint_2", "revolute", "nv = 6", "j2s6s200_end_effector", "mass [kg]", "left out", "a motor at each of"):
        assert words in said
    assert Path("k.png").read_bytes().startswith(b"\x89PNG")
    assert call("robot", MODELS / "kinova.urdf", "--notes") == 0
    assert "kg of links" in capsys.readouterr().out


def test_an_mjcf_robot_is_told_with_its_motors(capsys):
    pytest.importorskip("mujoco")
    Path("cart.xml").write_text(MJCF)
    assert call("robot", "cart.xml") == 0
    said = capsys.readouterr().out
    assert "push" in said
    assert "+10*slide" in said
    assert "not driven: hinge" in said
    assert call("init", "cart.xml") == 0
    text = Path("cart_move.yaml").read_text()
    assert "robot: cart.xml" in text
    assert "velocities: {slide: 0}" in text  # nothing drives the hinge, and nothing is asked of it
    assert call("solve", "cart_move.yaml", "--quiet", "--out", "run") == 0


@pytest.mark.parametrize(("words", "message"), [
    (("robot", MODELS / "kinovva.urdf"), "did you mean 'kinova.urdf'"),
    (("robot", MODELS / "kinova.urdf", "--root", "free"), "did you mean 'free_flyer'"),
    (("init", MODELS / "quadrotor.urdf"), "--root free_flyer"),
    (("init", MODELS / "quadrotor.urdf", "--root", "free_flyer"), "system.thrusters"),
    (("init", MODELS / "ur5.urdf", "--pose", "--mpc"), "at a time"),
    (("init", MODELS / "ur5.urdf", "--pose", "--frame", "tool"), "did you mean 'tool0'"),
    (("check", MODELS / "ur5.urdf"), "ocp robot"),
    (("robot", "p.yaml"), "ocp show"),
])
def test_mistakes_say_what_is_near(words, message, capsys):
    assert call(*words) == 2
    assert message in capsys.readouterr().err


def test_paths_of_any_length_and_strange_names_are_written_so_that_they_are_read():
    folder = Path("a" * 90) / "on, off: [x]"
    folder.mkdir(parents=True)
    (folder / "p #1.urdf").write_text((MODELS / "pendulum.urdf").read_text())
    assert call("init", folder / "p #1.urdf", "--out", "p.yaml") == 0
    assert load_problem("p.yaml").model.nv == 1


def test_a_starter_file_is_never_overwritten_without_a_word(capsys):
    assert call("init", MODELS / "pendulum.urdf") == 0
    assert call("init", MODELS / "pendulum.urdf") == 2
    assert "--overwrite" in capsys.readouterr().err
    assert call("init", MODELS / "pendulum.urdf", "--overwrite") == 0


@pytest.mark.parametrize("robot", ["acrobot", "hopper", "mobile_manipulator", "panda", "quadruped"])
@pytest.mark.sample(2)
def test_plans_keep_the_limits_that_the_files_keep(robot):
    """Velocities and joints of the cubic stay inside what the robot file allows; so do all four files when they are read."""
    found = read_robot(str(MODELS / f"{robot}.urdf"))
    plan, model = make_plan(found.mechanism), found.mechanism.model
    for name, goal in plan.goal.items():
        i = model.joint_index(name)
        at, v = model.q_slice(i).start, model.v_slice(i).start
        assert model.limit("lower")[at] <= min(goal, plan.start[name])
        assert max(goal, plan.start[name]) <= model.limit("upper")[at]
        assert goal != plan.start[name]
        if "velocity" not in plan.limits:
            assert 1.5 * abs(goal - plan.start[name]) / plan.duration <= model.limit("velocity")[v]
    for kind in ("move", "pose", "mpc"):
        assert call("init", MODELS / f"{robot}.urdf", "--out", f"{kind}.yaml", *(() if kind == "move" else (f"--{kind}",))) == 0
        assert load_problem(f"{kind}.yaml").model.fingerprint
    assert call("init", MODELS / f"{robot}.urdf", "--out", "ik.yaml", "--ik") == 0
    assert load_ik("ik.yaml").model.nv


@pytest.mark.parametrize("robot", ["pendulum", "acrobot", "mobile_manipulator"])
@pytest.mark.sample(2)
def test_starter_files_certify_as_written(robot):
    assert call("init", MODELS / f"{robot}.urdf") == 0
    assert call("solve", f"{robot}_move.yaml", "--out", "run", "--quiet") == 0
    assert json.loads(Path("run/summary.json").read_text())["ok"]


def test_what_has_no_mass_is_held_and_limits_that_allow_nothing_are_left_out():
    """Both are found in robot files of makers: a gripper that nobody weighed, and a range of no width."""
    mass = '<inertial><mass value="1"/><inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>'
    joint = """<joint name="{0}" type="revolute"><parent link="{1}"/><child link="{2}"/><axis xyz="0 1 0"/><origin xyz="0 0 0.3"/>
<limit lower="{3}" upper="{4}" effort="50" velocity="5"/></joint>"""
    Path("arm.urdf").write_text(f"""<robot name="arm"><link name="base"/><link name="upper">{mass}</link><link name="lower">{mass}
</link><link name="finger"/>{joint.format("shoulder", "base", "upper", -2, 2)}{joint.format("elbow", "upper", "lower", 0, 0)}
{joint.format("grip", "lower", "finger", 0, 1)}</robot>""")
    assert call("init", "arm.urdf") == 0
    text = Path("arm_move.yaml").read_text()
    assert "what has no mass is held where it is: grip" in text
    assert "position limits are left out: the file allows elbow no motion" in text
    assert call("solve", "arm_move.yaml", "--out", "run", "--quiet") == 0


def test_a_pose_is_reached_as_written_and_in_closed_loop():
    assert call("init", MODELS / "acrobot.urdf", "--ik") == 0
    assert call("ik", "acrobot_ik.yaml", "--out", "ik", "--quiet") == 0
    assert call("init", MODELS / "acrobot.urdf", "--mpc") == 0
    assert call("mpc", "acrobot_mpc.yaml", "--out", "mpc", "--quiet", "--set", "mpc.duration=1") == 0
    with np.load("mpc/trajectory.npz") as found:
        np.testing.assert_allclose(found["x"][-1][:2], [0.3, 0.3], atol=0.1)
