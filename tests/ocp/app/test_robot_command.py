"""``ocp robot`` and ``ocp init``: names of a robot, and starter files that certify as they are written."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from commands import call

from ocp.app.files.control.ik import load_ik
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


def test_a_robot_is_described_by_its_names(capsys):
    assert call("robot", MODELS / "kinova.urdf", "--picture", "k.png") == 0
    said = capsys.readouterr().out
    for words in ("j2s6s200_joint_2", "revolute", "nv = 6", "j2s6s200_end_effector", "mass [kg]", "left out", "a motor at each of"):
        assert words in said
    assert Path("k.png").read_bytes().startswith(b"\x89PNG")
    assert call("robot", MODELS / "kinova.urdf", "--notes") == 0
    assert "kg of links" in capsys.readouterr().out


def test_an_mjcf_robot_is_reported_with_its_motors(capsys):
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
    (("init", MODELS / "quadrotor.urdf", "--mpc"), "flies on rotors"),
    (("init", MODELS / "ur5.urdf", "--pose", "--mpc"), "give only one of"),
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
    assert "massless parts are fixed: grip" in text
    assert "position limits are left out: the file allows elbow no motion" in text
    assert call("solve", "arm_move.yaml", "--out", "run", "--quiet") == 0


def test_a_pose_is_reached_as_written_and_in_closed_loop():
    assert call("init", MODELS / "acrobot.urdf", "--ik") == 0
    assert call("ik", "acrobot_ik.yaml", "--out", "ik", "--quiet") == 0
    assert call("init", MODELS / "acrobot.urdf", "--mpc") == 0
    assert call("mpc", "acrobot_mpc.yaml", "--out", "mpc", "--quiet", "--set", "mpc.duration=1") == 0
    with np.load("mpc/trajectory.npz") as found:
        np.testing.assert_allclose(found["x"][-1][:2], [0.3, 0.3], atol=0.1)


DRONE = """<robot name="drone"><link name="frame"><inertial><origin xyz="0.01 0 0"/><mass value="1.2"/>
<inertia ixx="0.02" iyy="0.02" izz="0.03" ixy="0" ixz="0" iyz="0"/></inertial></link>""" + "".join(f"""<link name="r{k}"><inertial>
<mass value="0.01"/><inertia ixx="1e-6" iyy="1e-6" izz="1e-6" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="spin{k}" type="continuous"><parent link="frame"/><child link="r{k}"/><origin xyz="{x} {y} 0.05"/><axis xyz="0 0 {z}"/>
<limit effort="1" velocity="900"/></joint>""" for k, (x, y, z) in enumerate(
    ((0.2, 0.2, 1), (-0.2, -0.2, 1), (0.2, -0.2, -1), (-0.2, 0.2, -1)))) + "</robot>"


def test_a_robot_with_rotors_gets_a_flight():
    Path("drone.urdf").write_text(DRONE)
    assert call("init", "drone.urdf") == 0
    loaded = load_problem("drone_move.yaml")
    system = loaded.problem.phases[0].system
    assert list(system.controls) == ["r0", "r1", "r2", "r3"]
    assert loaded.model.nv == 6  # rotors are held
    x = np.array(loaded.problem.phases[0].start.value)
    rate = lambda u: np.asarray(system.rate(0, x, u, [])).ravel()[-6:]  # noqa: E731
    zero, effect = rate([0] * 4), np.array([rate(row) - rate([0] * 4) for row in np.eye(4)]).T
    assert np.linalg.matrix_rank(effect, tol=1e-6) == 4  # lift and three moments, whatever the order of the rotors
    lift = np.linalg.lstsq(effect, -zero, rcond=None)[0]
    assert np.allclose(effect @ lift, -zero, atol=1e-9)  # it can hover
    assert np.isclose(lift.sum(), 1.24 * 9.81)
    bounds = loaded.problem.phases[0].control_bounds
    assert np.all((np.array(bounds.lower) < lift) & (lift < np.array(bounds.upper)))


def test_wheels_are_no_rotors():
    from ocp.app.starter.fly import flight

    Path("cart.urdf").write_text(re.sub(r'<axis xyz="0 0 -?1"', '<axis xyz="0 1 0"', DRONE))
    assert flight(read_robot("cart.urdf", root="free_flyer")) is None


def test_a_file_that_names_a_home_is_started_from_it():
    pytest.importorskip("mujoco")
    keys = '<keyframe><key name="away" qpos="1 1"/><key name="home" qpos="-1.9 0.4"/></keyframe></mujoco>'
    Path("cart.xml").write_text(MJCF.replace("</mujoco>", keys))
    plan = make_plan(read_robot("cart.xml").mechanism)
    assert plan.start == {"slide": -1.9, "hinge": 0.4}
    assert plan.goal["slide"] > -1.9  # into its range
    assert call("robot", "cart.xml", "--picture", "c.png") == 0


def test_pictures_of_robots_of_one_name_stand_beside_each_other(capsys):
    for folder, mass in (("a", "1.2"), ("b", "2.2")):
        Path(folder).mkdir()
        Path(folder, "arm.urdf").write_text(DRONE.replace('"1.2"', f'"{mass}"'))
    for words, name in (("a", "arm-robot.png"), ("b", "arm-robot-2.png"), ("a", "arm-robot.png")):
        assert call("robot", f"{words}/arm.urdf") == 0
        assert f"picture: results/{name}\n" in capsys.readouterr().out
    assert call("robot", "a/arm.urdf", "--root", "planar") == 0
    assert "arm-robot-3.png" in capsys.readouterr().out
    assert len(list(Path("results").iterdir())) == 3
