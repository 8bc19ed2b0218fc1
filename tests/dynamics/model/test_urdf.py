"""Reading URDF: numbers worked out by hand, lumping, mimic chains, planar joints, notes; and the robots we ship."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest
import reference_kinematics as ref
from repository import ROOT
from scipy.spatial.transform import Rotation

from dynamics.errors import ModelError
from dynamics.model.packages import packages_in, resolve
from dynamics.model.urdf import read_urdf

MODELS = ROOT / "problems" / "models"

INERTIAL = """<inertial><origin xyz="0.1 0.2 0.3" rpy="0.4 -0.5 0.6"/><mass value="2"/>
  <inertia ixx="0.5" ixy="0.01" ixz="0.02" iyy="0.6" iyz="-0.03" izz="0.7"/></inertial>"""


def robot(body: str, name: str = "r") -> str:
    return f'<robot name="{name}">{body}</robot>'


def joint(name: str, kind: str, parent: str, child: str, inside: str = "") -> str:
    return (f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>{inside}</joint>')


def one_joint(kind: str, inside: str, link: str = "") -> str:
    return robot(f'<link name="base"/>{joint("j", kind, "base", "arm", inside)}<link name="arm">{link}</link>')


# ------------------------------------------------------------------------------------------------ one joint
def test_inertial_frame_is_rotated_into_the_link_frame():
    model = read_urdf(one_joint("continuous", '<axis xyz="0 0 1"/>', INERTIAL))
    R = Rotation.from_euler("xyz", [0.4, -0.5, 0.6]).as_matrix()  # lower case: fixed axes, as in URDF
    tensor = np.array([[0.5, 0.01, 0.02], [0.01, 0.6, -0.03], [0.02, -0.03, 0.7]])
    inertia = model.bodies[0].inertia
    assert inertia.mass == 2.0
    np.testing.assert_allclose(inertia.com, (0.1, 0.2, 0.3), atol=1e-16)
    np.testing.assert_allclose(inertia.inertia, R @ tensor @ R.T, atol=1e-15)


def test_joint_placement_limits_and_dynamics_are_carried():
    model = read_urdf(one_joint("revolute", """<origin xyz="1 2 3" rpy="0.1 0.2 0.3"/><axis xyz="0 1 0"/>
      <limit lower="-1" upper="2" velocity="3" effort="4"/><dynamics damping="0.5" friction="0.25"/>""", INERTIAL))
    j = model.bodies[0].joint
    R = Rotation.from_euler("xyz", [0.1, 0.2, 0.3]).as_matrix()
    np.testing.assert_allclose(j.placement.rotation, R, atol=1e-15)
    assert j.placement.position == (1.0, 2.0, 3.0)
    assert (j.kind, j.axes, j.damping, j.friction) == ("revolute", ((0.0, 1.0, 0.0),), (0.5,), (0.25,))
    assert (j.limits.lower, j.limits.upper, j.limits.velocity, j.limits.effort) == ((-1.0,), (2.0,), (3.0,), (4.0,))
    assert model.notes == ("dry friction of 'j' is ignored; the force joint_friction models it",)


def test_quarter_turns_written_with_few_digits_leave_structural_zeros():
    model = read_urdf(one_joint("continuous", '<origin rpy="1.57079632679 0 -3.14159265359"/>', INERTIAL))
    assert model.bodies[0].joint.placement.rotation == ((-1.0, 0.0, 0.0), (0.0, 0.0, 1.0), (0.0, 1.0, 0.0))


def test_default_axis_is_x_and_other_lengths_are_normalised_with_a_note():
    assert read_urdf(one_joint("continuous", "", INERTIAL)).bodies[0].joint.axes == ((1.0, 0.0, 0.0),)
    model = read_urdf(one_joint("continuous", '<axis xyz="0 3 4"/>', INERTIAL))
    np.testing.assert_allclose(model.bodies[0].joint.axes[0], (0, 0.6, 0.8), atol=1e-16)
    assert any("length 5" in note and "joint 'j'" in note for note in model.notes)


@pytest.mark.parametrize(("limit", "lower", "upper", "words"), [
    ("", None, None, "unlimited"),
    ('<limit effort="1" velocity="1"/>', None, None, "neither lower nor upper"),
    ('<limit upper="2" effort="1" velocity="1"/>', (0.0,), (2.0,), "lacks lower"),
    ('<limit lower="-inf" upper="inf" effort="1" velocity="1"/>', (-np.inf,), (np.inf,), None),
    ('<limit lower="0" upper="0" effort="1" velocity="1"/>', (0.0,), (0.0,), "cannot move"),
    ('<limit lower="-1" upper="1" effort="0" velocity="1"/>', (-1.0,), (1.0,), "effort limit is 0"),
], ids=["absent", "rates only", "upper only", "infinite", "locked", "no effort"])
def test_limits_of_a_revolute_joint(limit, lower, upper, words):
    model = read_urdf(one_joint("revolute", limit, INERTIAL))
    assert (model.bodies[0].joint.limits.lower, model.bodies[0].joint.limits.upper) == (lower, upper)
    assert any(words in note for note in model.notes) if words else model.notes == ()


def test_a_continuous_joint_ignores_its_range_with_a_note():
    model = read_urdf(one_joint("continuous", '<limit lower="-1" upper="1" effort="2" velocity="3"/>', INERTIAL))
    limits = model.bodies[0].joint.limits
    assert (limits.lower, limits.upper, limits.effort, limits.velocity) == (None, None, (2.0,), (3.0,))
    assert any("continuous" in note for note in model.notes)


def test_transmission_with_rotor_inertia_gives_armature():
    transmission = """<transmission name="t"><joint name="j"/><actuator name="m"><mechanicalReduction>-50
      </mechanicalReduction><rotorInertia>1e-5</rotorInertia></actuator></transmission>"""
    text = one_joint("continuous", "", INERTIAL).replace("</robot>", transmission + "</robot>")
    assert read_urdf(text).bodies[0].joint.armature == pytest.approx((0.025,))
    without = text.replace("<rotorInertia>1e-5</rotorInertia>", "")
    assert read_urdf(without).bodies[0].joint.armature == ()
    assert any("rotor inertia" in note for note in read_urdf(without).notes)


def test_floating_joint_is_a_free_flyer():
    model = read_urdf(one_joint("floating", '<origin xyz="0 0 1"/>', INERTIAL))
    assert (model.bodies[0].joint.kind, model.nq, model.nv) == ("free_flyer", 7, 6)


# ------------------------------------------------------------------------------------------------ planar
@pytest.mark.parametrize("axis", [(0, 0, 1), (0, 0, -1), (1, 0, 0), (0.6, 0, -0.8), (2, -1, 2)])
def test_planar_joint_moves_in_the_plane_of_its_axis_and_keeps_the_link_frame(axis):
    text = robot(f"""<link name="base"/>{joint("p", "planar", "base", "slab",
        f'<origin xyz="1 0 2" rpy="0.3 0.2 0.1"/><axis xyz="{axis[0]} {axis[1]} {axis[2]}"/>')}
        <link name="slab">{INERTIAL}</link>
        {joint("k", "revolute", "slab", "arm", '<origin xyz="0 1 0" rpy="0.1 0 0"/><axis xyz="0 1 0"/>')}
        <link name="arm">{INERTIAL}</link>""")
    model = read_urdf(text)
    normal = Rotation.from_euler("xyz", [0.3, 0.2, 0.1]).as_matrix() @ (np.array(axis) / np.linalg.norm(axis))
    origin = np.eye(4)
    origin[:3, :3], origin[:3, 3] = Rotation.from_euler("xyz", [0.3, 0.2, 0.1]).as_matrix(), (1, 0, 2)
    # at zero the link frame is the joint's <origin>, and the child's is one <origin> further
    np.testing.assert_allclose(ref.frame_pose(model, np.zeros(4), "slab"), origin, atol=1e-14)
    child = np.eye(4)
    child[:3, :3], child[:3, 3] = Rotation.from_euler("xyz", [0.1, 0, 0]).as_matrix(), (0, 1, 0)
    np.testing.assert_allclose(ref.frame_pose(model, np.zeros(4), "arm"), origin @ child, atol=1e-14)
    # motion: no displacement along the normal, rotation about it
    moved = ref.frame_pose(model, [0.7, -0.4, 0.9, 0.0], "slab")
    assert abs(normal @ (moved[:3, 3] - origin[:3, 3])) < 1e-14
    assert np.linalg.norm(moved[:3, 3] - origin[:3, 3]) == pytest.approx(np.hypot(0.7, 0.4))
    turn = Rotation.from_matrix(moved[:3, :3] @ origin[:3, :3].T).as_rotvec()
    np.testing.assert_allclose(turn, 0.9 * normal, atol=1e-13)
    # the mass sits where the link frame says, whatever frame the body uses
    com = ref.body_poses(model, np.zeros(4))[0] @ [*model.bodies[0].inertia.com, 1]
    np.testing.assert_allclose(com, origin @ [0.1, 0.2, 0.3, 1], atol=1e-14)


# ------------------------------------------------------------------------------------------------ lumping
FIXED_CHAIN = robot(f"""<link name="base">{INERTIAL}</link>
  {joint("a", "revolute", "base", "one", '<origin xyz="0 0 1"/><axis xyz="0 1 0"/>')}<link name="one">{INERTIAL}</link>
  {joint("f", "fixed", "one", "two", '<origin xyz="0.3 0 0.2" rpy="0.5 0.1 -0.4"/>')}<link name="two">{INERTIAL}</link>
  {joint("g", "fixed", "two", "empty", '<origin xyz="0 0.1 0" rpy="0 0 1"/>')}<link name="empty"/>
  {joint("b", "prismatic", "empty", "three", '<origin xyz="0 0 1"/><axis xyz="1 0 0"/>')}
  <link name="three">{INERTIAL}</link>
  {joint("h", "fixed", "three", "tip", '<origin xyz="0 0 0.5" rpy="1 1 1"/>')}<link name="tip">{INERTIAL}</link>""")


@pytest.mark.parametrize("root", ["fixed", "free_flyer"])
def test_lumping_changes_neither_poses_nor_total_inertia(root):
    lumped = read_urdf(FIXED_CHAIN, root=root)
    whole = read_urdf(FIXED_CHAIN, root=root, lump_fixed=False)
    assert len(lumped.bodies) == (2 if root == "fixed" else 3)
    assert len(whole.bodies) == len(lumped.bodies) + 3
    assert (lumped.nq, lumped.nv) == (whole.nq, whole.nv)
    rng = np.random.default_rng(3)
    for _ in range(3):
        q = ref.random_configuration(lumped, rng)
        for link in ("base", "one", "two", "empty", "three", "tip"):
            np.testing.assert_allclose(ref.frame_pose(lumped, q, link), ref.frame_pose(whole, q, link), atol=1e-13)
        np.testing.assert_allclose(ref.total_inertia_in_world(lumped, q), ref.total_inertia_in_world(whole, q), atol=1e-12)


def test_fixed_root_is_a_frame_of_the_world_and_a_free_one_a_body():
    fixed, free = read_urdf(FIXED_CHAIN), read_urdf(FIXED_CHAIN, root="free_flyer")
    assert fixed.frame("base").body == -1
    assert any("2 kg of links fixed to the world" in note for note in fixed.notes)
    assert (free.bodies[0].name, free.bodies[0].joint.name, free.bodies[0].joint.kind) == (
        "base", "root_joint", "free_flyer")
    assert free.mass == pytest.approx(fixed.mass + 2.0)


def test_name_of_the_free_joint_is_made_unique():
    model = read_urdf(FIXED_CHAIN.replace('name="a"', 'name="root_joint"'), root="free_flyer")
    assert [b.joint.name for b in model.bodies] == ["root_joint_2", "root_joint", "b"]


def test_a_moving_link_called_world_gives_way_to_the_inertial_frame():
    text = robot(f'<link name="world"/>{joint("w", "fixed", "world", "base")}<link name="base">{INERTIAL}</link>')
    assert read_urdf(text).frame("world").body == -1
    free = read_urdf(text, root="free_flyer")
    assert [b.name for b in free.bodies] == ["world_link"]
    assert free.frame("world").body == -1
    assert any("'world_link'" in note for note in free.notes)


def test_order_is_depth_first_in_file_order():
    text = robot('<link name="r"/><link name="a"/><link name="b"/><link name="c"/>'
                 + joint("j_b", "continuous", "r", "b") + joint("j_a", "continuous", "r", "a")
                 + joint("j_c", "continuous", "b", "c"))
    assert [b.joint.name for b in read_urdf(text).bodies] == ["j_b", "j_c", "j_a"]


def test_a_chain_of_thousands_of_links_is_no_problem():
    n = 3000
    text = robot("".join(f'<link name="l{i}"/>' for i in range(n + 1))
                 + "".join(joint(f"j{i}", "fixed", f"l{i}", f"l{i + 1}", '<origin xyz="0.001 0 0"/>')
                           for i in range(n)))
    assert read_urdf(text).frame(f"l{n}").placement.position[0] == pytest.approx(3.0)


# ------------------------------------------------------------------------------------------------ mimic
MIMIC = robot(f"""<link name="base"/>
  {joint("c", "prismatic", "b_link", "c_link", '<axis xyz="0 0 1"/><mimic joint="b" multiplier="0.5" offset="0.1"/>')}
  {joint("b", "revolute", "a_link", "b_link", '<axis xyz="0 1 0"/><mimic joint="a" multiplier="-2" offset="0.3"/>')}
  {joint("a", "revolute", "base", "a_link",
         '<axis xyz="0 0 1"/><limit lower="-1" upper="1" effort="1" velocity="1"/>')}
  <link name="a_link">{INERTIAL}</link><link name="b_link">{INERTIAL}</link><link name="c_link">{INERTIAL}</link>""")


def test_chain_of_mimic_joints_moves_with_the_independent_leader():
    model = read_urdf(MIMIC)
    assert (model.nq, len(model.bodies)) == (1, 3)
    assert {b.joint.mimic.leader for b in model.bodies if b.joint.mimic} == {"a"}
    a = 0.37
    b = -2 * a + 0.3
    c = 0.5 * b + 0.1
    expected = np.eye(4)
    expected[:3, :3] = Rotation.from_rotvec([0, 0, a]).as_matrix() @ Rotation.from_rotvec([0, b, 0]).as_matrix()
    expected[:3, 3] = expected[:3, :3] @ [0, 0, c]
    np.testing.assert_allclose(ref.frame_pose(model, [a], "c_link"), expected, atol=1e-14)


def test_independent_mimic_joints_reach_the_same_pose_when_set_by_hand():
    coupled, free = read_urdf(MIMIC), read_urdf(MIMIC, mimic="independent")
    assert (free.nq, free.has_coupling, coupled.has_coupling) == (3, False, True)
    q = {"a": -0.2, "b": 0.7, "c": 0.45}
    values = [q[name] for name in free.coordinate_names]
    np.testing.assert_allclose(ref.frame_pose(free, values, "c_link"), ref.frame_pose(coupled, [-0.2], "c_link"), atol=1e-14)
    assert any("independent" in note for note in free.notes)


def test_range_of_a_follower_tightens_its_leader():
    text = MIMIC.replace('<mimic joint="a" multiplier="-2"',
                         '<limit lower="-0.5" upper="1" effort="1" velocity="1"/><mimic joint="a" multiplier="-2"')
    model = read_urdf(text)
    np.testing.assert_allclose(model.limit("lower"), [-0.35])  # -2 a + 0.3 <= 1
    np.testing.assert_allclose(model.limit("upper"), [0.4])  # -2 a + 0.3 >= -0.5


# ------------------------------------------------------------------------------------------------ geometry, paths
def test_shapes_are_placed_in_the_body_frame():
    shapes = """<visual><origin xyz="0 0 1"/><geometry><box size="1 2 3"/></geometry></visual>
      <visual><geometry><capsule radius="0.1" length="2"/></geometry></visual>
      <visual><geometry><mesh filename="file:///m/a.stl" scale="2 2 2"/></geometry></visual>
      <collision><geometry><sphere radius="9"/></geometry></collision>"""
    text = robot(f'<link name="base"/>{joint("j", "continuous", "base", "arm")}<link name="arm"/>'
                 f'{joint("f", "fixed", "arm", "hand", "<origin xyz=" + chr(34) + "0 1 0" + chr(34) + "/>")}'
                 f'<link name="hand">{shapes}</link>')
    geometry = read_urdf(text).bodies[0].geometry
    assert [g.kind for g in geometry] == ["box", "cylinder", "sphere", "sphere", "mesh"]
    assert geometry[0].placement.position == (0.0, 1.0, 1.0)
    assert sorted(g.placement.position for g in geometry[2:4]) == [(0.0, 1.0, -1.0), (0.0, 1.0, 1.0)]
    assert (geometry[4].path, geometry[4].size) == ("/m/a.stl", (2.0, 2.0, 2.0))


@pytest.mark.parametrize(("scale", "used", "words"), [
    ("2 3 4 1", (2.0, 3.0, 4.0), "needs 3 numbers, got 4: '2 3 4 1'; the mesh is drawn with scale 2 3 4"),
    ("2", (2.0, 2.0, 2.0), "needs 3 numbers, got 1: '2'; the mesh is drawn with scale 2 2 2"),
    ("2 3", (), "needs 3 numbers, got 2: '2 3'; the mesh is drawn with scale 1 1 1"),
    ("", (), "is empty; the mesh is drawn with scale 1 1 1"), ("big", (), "must be a number, got 'big'"),
])
def test_a_slip_in_the_scale_of_a_mesh_is_a_note(scale, used, words):
    shape = f'<visual><geometry><mesh filename="file:///m/a.stl" scale="{scale}"/></geometry></visual>'
    model = read_urdf(one_joint("continuous", "", shape))
    assert model.bodies[0].geometry[0].size == used
    assert any(words in note and note.startswith("line ") for note in model.notes)


def test_a_chain_of_a_thousand_joints_is_read_in_seconds():
    links = "".join(f"<link name='l{i}'/>" + joint(f"j{i}", "continuous", f"l{i}", f"l{i + 1}") for i in range(1000))
    begin = time.process_time()
    model = read_urdf(robot(links + "<link name='l1000'/>"))
    assert model.nv == 1000
    assert time.process_time() - begin < 5.0


def test_collision_primitives_stand_in_for_visual_meshes():
    shapes = """<visual><geometry><mesh filename="package://nowhere/a.stl"/></geometry></visual>
      <collision><geometry><sphere radius="0.2"/></geometry></collision>"""
    model = read_urdf(one_joint("continuous", "", shapes))
    assert [g.kind for g in model.bodies[0].geometry] == ["mesh", "sphere"]
    assert any("package://nowhere/a.stl" in note and "packages" in note for note in model.notes)


def test_paths_resolve_without_ros(tmp_path):
    urdf = tmp_path / "ws" / "my_robot" / "urdf"
    (tmp_path / "ws" / "other" / "meshes").mkdir(parents=True)
    (tmp_path / "ws" / "other" / "package.xml").write_text("<package/>")
    urdf.mkdir(parents=True)
    ws = tmp_path / "ws"
    assert resolve("package://my_robot/meshes/a.stl", urdf) == str(ws / "my_robot/meshes/a.stl")
    assert resolve("model://other/meshes/a.stl", urdf) == str(ws / "other/meshes/a.stl")
    assert resolve("../meshes/a.stl", urdf) == str(ws / "my_robot/meshes/a.stl")
    assert resolve("file:///x/a%20b.stl", urdf) == "/x/a b.stl"
    assert resolve("package://far/a.stl", urdf) is None
    assert resolve("package://far/a.stl", urdf, {"far": "/f"}) == "/f/a.stl"
    assert resolve("http://far/a.stl", urdf) is None
    assert packages_in(f"{ws}{os.pathsep}{tmp_path / 'absent'}") == {"my_robot": ws / "my_robot", "other": ws / "other"}
    assert packages_in([ws / "other"]) == {"other": ws / "other"}


# ------------------------------------------------------------------------------------------------ notes
def test_what_is_not_read_is_noted_once_with_line_and_count():
    text = one_joint("continuous", '<safety_controller k_velocity="1"/>', INERTIAL).replace(
        "</robot>", "\n<gazebo/>\n<gazebo/>\n<gazebo/></robot>")
    notes = read_urdf(text).notes
    assert any(note.startswith("line 3 and 2 more: <gazebo>") for note in notes)
    assert any("<safety_controller>" in note for note in notes)


def test_unphysical_inertias_are_noted_and_kept():
    flat = INERTIAL.replace('izz="0.7"', 'izz="1.7"')
    model = read_urdf(one_joint("continuous", "", flat))
    assert any("triangle" in note and "link 'arm'" in note for note in model.notes)
    indefinite = INERTIAL.replace('ixy="0.01"', 'ixy="0.9"')
    model = read_urdf(one_joint("continuous", "", indefinite))
    assert any("not positive semidefinite" in note for note in model.notes)
    assert any("kept as given, but the mass matrix may be indefinite" in note for note in model.notes)
    assert np.linalg.eigvalsh(np.array(model.bodies[0].inertia.inertia))[0] < -0.1
    # carried by a heavier link it is harmless, and kept as given
    text = robot(f'<link name="base"/>{joint("j", "continuous", "base", "arm")}<link name="arm">'
                 f'{INERTIAL.replace("0.5", "50").replace("0.6", "60").replace("0.7", "70")}</link>'
                 f'{joint("f", "fixed", "arm", "tip")}<link name="tip">{indefinite}</link>')
    both = read_urdf(text)
    assert not any("may be indefinite" in note for note in both.notes)


def test_a_joint_that_moves_no_mass_is_noted():
    assert any("joint 'j' moves no mass" in note for note in read_urdf(one_joint("continuous", "")).notes)
    assert not any("no mass" in note for note in read_urdf(one_joint("continuous", "", INERTIAL)).notes)


def test_gravity_and_name_are_carried():
    model = read_urdf(one_joint("continuous", "", INERTIAL), gravity=(0, 0, -1.62))
    assert (model.gravity, model.name) == ((0.0, 0.0, -1.62), "r")


# ------------------------------------------------------------------------------------------------ shipped robots
@pytest.mark.parametrize(("name", "nv", "mass"), [
    ("pendulum", 1, 1.0), ("acrobot", 2, 2.0), ("ur5", 6, 16.9939), ("panda", 7, 16.822132)])
def test_shipped_robots_read_clean(name, nv, mass):
    model = read_urdf(MODELS / f"{name}.urdf")
    assert (model.name, model.nv) == (name, nv)
    assert model.mass == pytest.approx(mass, abs=1e-9)
    assert all("fixed to the world" in note or "triangle" in note for note in model.notes), model.notes


def test_shipped_quadrotor_flies():
    model = read_urdf(MODELS / "quadrotor.urdf", root="free_flyer")
    assert (model.nq, model.nv, model.mass, model.notes) == (7, 6, 0.5, ())
    rotors = [model.frame(f"rotor_{n}").placement.position for n in ("front", "left", "rear", "right")]
    np.testing.assert_allclose(np.sum(rotors, axis=0), 0, atol=1e-16)


def test_shipped_pendulum_swings_like_one():
    model = read_urdf(MODELS / "pendulum.urdf")
    # tip at angle t about +y from hanging: (-sin t, 0, -cos t) l
    np.testing.assert_allclose(ref.frame_pose(model, [0.4], "tip")[:3, 3], [-0.5 * np.sin(0.4), 0, -0.5 * np.cos(0.4)],
                               atol=1e-15)
    about_pivot = ref.spatial_inertia(model.bodies[0].inertia)[6]
    assert about_pivot == pytest.approx(0.25 + 0.4 * 0.02**2)


def test_missing_file_and_wrong_root_option():
    with pytest.raises(ModelError, match=r"ur6\.urdf.*did you mean .*'ur5\.urdf'"):
        read_urdf(MODELS / "ur6.urdf")
    with pytest.raises(ModelError, match="'free_flyer'"):
        read_urdf(MODELS / "ur5.urdf", root="free-flyer")
