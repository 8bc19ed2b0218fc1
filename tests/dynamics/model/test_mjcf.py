"""Reading MJCF: poses, inertias and limits against MuJoCo itself."""

from __future__ import annotations

import sys

import casadi as ca
import numpy as np
import pytest
from reference_kinematics import body_poses, frame_pose, total_inertia_in_world

from dynamics.algorithms import mass_matrix
from dynamics.errors import ModelError
from dynamics.model.mjcf import read_mjcf

mujoco = pytest.importorskip("mujoco")

GEOM = '<geom type="box" size="0.1 0.2 0.3" pos="0.05 -0.1 0.2" euler="20 30 40" mass="1.5"/>'

CHAIN = f"""<mujoco model="chain"><worldbody>
  <body name="a" pos="0.1 0.2 1" euler="10 20 30">{GEOM}
    <joint name="a_hinge" type="hinge" axis="1 2 2" pos="0.3 -0.1 0.2" range="-90 45" armature="0.2" damping="0.3"
           frictionloss="0.4" actuatorfrcrange="-7 7"/>
    <site name="grip" pos="0.1 0 0" euler="0 0 90"/>
    <body name="plate" pos="0 0 0.5" euler="0 90 0">{GEOM}
      <body name="b" pos="0.4 0 0" euler="0 0 15">{GEOM}
        <joint name="b_slide" type="slide" axis="0 1 1" pos="1 1 1" ref="0.25" range="-1 1"/>
        <joint name="b_turn" type="hinge" axis="0 0 1" pos="0 0.2 0" ref="40"/>
        <joint name="b_tilt" type="hinge" axis="1 0 0" pos="0.1 0.2 0.3"/>
        <body name="c" pos="0 0.3 0">{GEOM}
          <joint name="c_ball" type="ball" pos="0.05 0.1 -0.2"/>
        </body>
      </body>
    </body>
  </body>
</worldbody></mujoco>"""

FREE = f"""<mujoco><option gravity="0 0 -1.62"/><worldbody>
  <body name="ship" pos="1 2 3" euler="10 20 30">{GEOM}<freejoint/>
    <body pos="0 0 0.5">{GEOM}<joint axis="0 1 0" pos="0 0 -0.1"/></body>
    <body name="fin" pos="0 1 0" euler="0 45 0">{GEOM}</body>
  </body>
  <body name="wall" pos="5 0 0">{GEOM}</body>
</worldbody></mujoco>"""


def random_qpos(m, rng):
    qpos = rng.uniform(-1.5, 1.5, m.nq)
    for j in range(m.njnt):
        start = m.jnt_qposadr[j] + (3 if m.jnt_type[j] == 0 else 0)
        if m.jnt_type[j] in (0, 1):
            qpos[start:start + 4] /= np.linalg.norm(qpos[start:start + 4])
    return qpos


def run(m, qpos):
    d = mujoco.MjData(m)
    d.qpos[:] = qpos
    mujoco.mj_kinematics(m, d)
    mujoco.mj_comPos(m, d)
    return d


def pose(rotation, position):
    H = np.eye(4)
    H[:3, :3], H[:3, 3] = np.reshape(rotation, (3, 3)), position
    return H


@pytest.mark.parametrize("text", [CHAIN, FREE], ids=["chain", "free"])
def test_poses_of_bodies_and_sites_match_mujoco(text):
    m, ours = mujoco.MjModel.from_xml_string(text), read_mjcf(text)
    assert (ours.nq, ours.nv) == (m.nq, m.nv)
    rng = np.random.default_rng(5)
    for _ in range(4):
        qpos = random_qpos(m, rng)
        d, bodies = run(m, qpos), body_poses(ours, qpos)
        for b in range(1, m.nbody):
            name = m.body(b).name or f"body{b}"
            np.testing.assert_allclose(frame_pose(ours, qpos, name, bodies), pose(d.xmat[b], d.xpos[b]), atol=1e-12)
        for s in range(m.nsite):
            expected = pose(d.site_xmat[s], d.site_xpos[s])
            np.testing.assert_allclose(frame_pose(ours, qpos, m.site(s).name, bodies), expected, atol=1e-12)


@pytest.mark.parametrize("text", [CHAIN, FREE], ids=["chain", "free"])
def test_inertia_of_the_whole_matches_mujoco(text):
    m, ours = mujoco.MjModel.from_xml_string(text), read_mjcf(text)
    qpos = random_qpos(m, np.random.default_rng(6))
    d, total = run(m, qpos), np.zeros((4, 4))
    for b in range(1, m.nbody):
        if ours.frame(m.body(b).name or f"body{b}").body < 0:
            continue  # welded to the world
        R, c, mass = d.ximat[b].reshape(3, 3), d.xipos[b], m.body_mass[b]
        second = R @ (np.sum(m.body_inertia[b]) / 2 * np.eye(3) - np.diag(m.body_inertia[b])) @ R.T
        total += np.block([[second + mass * np.outer(c, c), mass * c[:, None]], [mass * c[None, :], np.array([[mass]])]])
    np.testing.assert_allclose(total_inertia_in_world(ours, qpos), total, atol=1e-12)


def test_joint_data_is_carried():
    model = read_mjcf(CHAIN)
    assert model.name == "chain"
    assert [b.name for b in model.bodies] == ["a", "b_1_of_3", "b_2_of_3", "b", "c"]
    assert [b.joint.kind for b in model.bodies] == ["revolute", "prismatic", "revolute", "revolute", "spherical"]
    hinge = model.bodies[0].joint
    assert (hinge.armature, hinge.damping, hinge.friction) == ((0.2,), (0.3,), (0.4,))
    assert hinge.limits.lower == pytest.approx((-np.pi / 2,))
    assert (hinge.limits.upper, hinge.limits.effort) == (pytest.approx((np.pi / 4,)), (7.0,))
    assert model.bodies[2].joint.limits.lower is None
    assert [b.inertia.mass for b in model.bodies] == [3.0, 0.0, 0.0, 1.5, 1.5]  # the plate is merged into a


def test_gravity_is_the_files_unless_given():
    assert read_mjcf(FREE).gravity == (0.0, 0.0, -1.62)
    assert read_mjcf(FREE, gravity=(0, 0, 0)).gravity == (0.0, 0.0, 0.0)
    assert any("fixed to the world" in note for note in read_mjcf(FREE).notes)


def test_mass_matrix_is_mujocos():
    """The whole road from file to algorithm; hinges and slides share their velocities with MuJoCo."""
    text = CHAIN.replace('<joint name="c_ball" type="ball" pos="0.05 0.1 -0.2"/>', "")
    m, ours = mujoco.MjModel.from_xml_string(text), read_mjcf(text)
    qpos = random_qpos(m, np.random.default_rng(8))
    d, unit = run(m, qpos), np.eye(m.nv)
    mujoco.mj_makeM(m, d)
    theirs = np.zeros((m.nv, m.nv))
    for k in range(m.nv):
        mujoco.mj_mulM(m, d, theirs[k], unit[k])
    np.testing.assert_allclose(np.array(ca.DM(mass_matrix(ours, ca.DM(qpos)))), theirs, atol=1e-12)


COUPLED = """<mujoco><compiler angle="radian"/><worldbody>
  <body name="a"><joint name="j1" axis="0 0 1" ref="0.2"/><geom size="0.1"/>
    <body name="b" pos="1 0 0"><joint name="j2" axis="0 0 1" ref="-0.3"/><geom size="0.1"/>
      <body name="c" pos="1 0 0"><joint name="j3" axis="0 0 1"/><geom size="0.1"/></body></body></body>
  </worldbody><equality>
  <joint name="e1" joint1="j2" joint2="j1" polycoef="0.1 2 0 0 0"/>
  <joint name="e2" joint1="j3" joint2="j2" polycoef="0 -1 0 0 0"/>EXTRA</equality>
  <keyframe><key name="home" qpos="0.5 0.4 -0.7"/><key qpos="0 0 0"/></keyframe></mujoco>"""


def test_linear_coupling_becomes_a_mimic_that_satisfies_mujocos_constraint():
    text = COUPLED.replace("EXTRA", "")
    model = read_mjcf(text)
    assert (model.nq, len(model.bodies)) == (1, 3)
    m, q1 = mujoco.MjModel.from_xml_string(text), 0.9
    angles = [j.mimic.multiplier * q1 + j.mimic.offset if j.mimic else q1 for j in (b.joint for b in model.bodies)]
    d = mujoco.MjData(m)
    d.qpos[:] = angles
    mujoco.mj_forward(m, d)
    np.testing.assert_allclose(d.efc_pos[:2], 0, atol=1e-14)  # residuals of the two equalities
    np.testing.assert_allclose(frame_pose(model, [q1], "c"), pose(d.body("c").xmat, d.body("c").xpos), atol=1e-13)
    # keyframe "home" obeys the coupling (0.4 + 0.3 = 0.1 + 2 * 0.3), the unnamed one does not
    assert model.configurations == {"qpos0": (0.2,), "home": (0.5,), "key1": (0.0,)}
    assert any("'key1'" in note and "coupling" in note for note in model.notes)
    assert not any("'home'" in note for note in model.notes)


@pytest.mark.parametrize(("equality", "words"), [
    ('<joint name="x" joint1="j1" joint2="j3"/>', "cycle"),
    ('<joint name="x" joint1="j2" joint2="j1"/>', "coupled already"),
    ('<joint name="x" joint1="j1" polycoef="1 0 0 0 0"/>', "linear coupling"),
    ('<joint name="x" joint1="j1" joint2="j3" polycoef="0 1 1 0 0"/>', "linear coupling"),
    ('<joint name="x" joint1="j1" joint2="j3" active="false"/>', "not active"),
    ('<connect name="x" body1="c" anchor="0 0 0"/>', "without this constraint"),
], ids=["cycle", "twice", "constant", "quadratic", "inactive", "connect"])
def test_other_equalities_are_named_in_the_notes(equality, words):
    model = read_mjcf(COUPLED.replace("EXTRA", equality))
    assert model.nq == 1
    assert any("'x'" in note and words in note for note in model.notes)


def test_keyframes_of_a_free_body_carry_unit_quaternions():
    key = '<keyframe><key name="k" qpos="4 5 6 0 2 0 0 0.7"/></keyframe></mujoco>'
    model = read_mjcf(FREE.replace("</mujoco>", key))
    assert model.configurations["k"] == (4, 5, 6, 0, 1, 0, 0, 0.7)
    assert model.configurations["qpos0"][:3] == (1, 2, 3)  # where the file draws the body


def test_what_has_no_place_in_a_model_is_named():
    text = """<mujoco><option density="1.2"/><worldbody>
      <body name="a"><joint name="j" stiffness="3"/><geom type="ellipsoid" size="1 1 1"/><site name="s"/>
      <body pos="0 0 1" gravcomp="1"><geom type="capsule" size="0.1 0.2"/><joint name="k" range="0 1"
        type="ball"/></body></body></worldbody>
      <actuator><motor joint="j"/></actuator><sensor><jointpos joint="j"/></sensor>
      <tendon><fixed><joint joint="j" coef="1"/></fixed></tendon></mujoco>"""
    notes = " ".join(read_mjcf(text).notes)
    for words in ("springs of joints", "ellipsoid", "1 actuators", "1 sensors", "1 tendons", "contacts", "gravity compensation",
                  "fluid", "range of a ball joint"):
        assert words in notes


def test_shapes_have_full_sizes_in_the_body_frame():
    model = read_mjcf('<mujoco><worldbody><body><joint pos="0 0 1"/><geom type="box" size="1 2 3" pos="0 1 0"/>'
                      '<geom type="capsule" size="0.1 0.5"/></body></worldbody></mujoco>')
    box, cylinder, *caps = model.bodies[0].geometry
    assert (box.kind, box.size, box.placement.position) == ("box", (2.0, 4.0, 6.0), (0.0, 1.0, -1.0))
    assert (cylinder.kind, cylinder.size) == ("cylinder", (0.1, 1.0))
    assert sorted(c.placement.position[2] for c in caps) == [-1.5, -0.5]


def test_mujocos_complaint_comes_with_file_and_line(tmp_path):
    path = tmp_path / "bad.xml"
    path.write_text("<mujoco>\n<worldbody>\n<body><joint tpe='hinge'/></body></worldbody></mujoco>")
    with pytest.raises(ModelError, match="tpe") as caught:
        read_mjcf(path)
    assert (caught.value.source, caught.value.line) == (str(path), 3)
    with pytest.raises(ModelError, match="cannot read the MJCF file"):
        read_mjcf(tmp_path / "absent.xml")


def test_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(ModelError, match=r"pip install lieocp\[mujoco\]"):
        read_mjcf(CHAIN)
