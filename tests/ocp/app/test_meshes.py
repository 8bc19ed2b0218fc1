"""Meshes of robots in the animation: thin, in place, and missed with a word."""

import numpy as np
import pytest
import trimesh

from ocp.app.pages.meshes import UnreadableMesh, read_mesh, thinned


@pytest.fixture
def ball(tmp_path):
    path = tmp_path / "ball.stl"
    trimesh.creation.icosphere(subdivisions=4, radius=0.5).export(path)
    return str(path)


def test_a_thinned_mesh_keeps_its_shape(ball):
    whole = trimesh.load(ball)
    assert len(whole.faces) == 5120
    vertices, faces = read_mesh(ball, (), 600)
    assert 200 <= len(faces) <= 600
    assert np.allclose(np.linalg.norm(vertices, axis=1), 0.5, atol=0.03)
    thin = trimesh.Trimesh(vertices, faces)
    assert abs(thin.area - whole.area) < 0.1 * whole.area
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    assert (np.einsum("ij,ij->i", a, np.cross(b - a, c - a)) > 0).mean() > 0.99  # faces still look outwards


def test_a_small_mesh_stays_as_it_is():
    box = trimesh.creation.box(extents=(1, 2, 3))
    vertices, faces = thinned(np.asarray(box.vertices), np.asarray(box.faces), 100)
    assert len(faces) == 12
    assert np.isclose(trimesh.Trimesh(vertices, faces).volume, 6.0)


def test_scale_and_collada(tmp_path):
    path = tmp_path / "box.dae"
    path.write_bytes(trimesh.exchange.dae.export_collada(trimesh.creation.box(extents=(1, 1, 1))))
    vertices, _ = read_mesh(str(path), (1.0, 2.0, 0.5), 100)
    assert np.allclose(np.ptp(vertices, axis=0), [1.0, 2.0, 0.5])


def test_shapes_that_cannot_be_drawn_are_reported(tmp_path):
    with pytest.raises(UnreadableMesh, match="does not exist"):
        read_mesh("package://unknown/arm.dae", (), 100)
    with pytest.raises(UnreadableMesh, match="has no file"):
        read_mesh(None, (), 100)
    junk = tmp_path / "junk.stl"
    junk.write_text("this is no mesh")
    with pytest.raises(UnreadableMesh, match="cannot be read|holds no triangles"):
        read_mesh(str(junk), (), 100)


URDF = """<robot name="arm">
  <link name="base"/>
  <link name="upper">
    <inertial><mass value="1"/><inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>
    <visual><origin xyz="0 0 0.5"/><geometry><mesh filename="ball.stl" scale="0.5 0.5 1"/></geometry></visual>
    <visual><geometry><mesh filename="lost.stl"/></geometry></visual>
  </link>
  <joint name="hinge" type="revolute"><parent link="base"/><child link="upper"/><axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
</robot>"""


def test_a_scene_has_the_meshes_of_its_robot(ball, tmp_path):
    from dynamics.model.urdf import read_urdf
    from ocp.app.pages.scene import encode, scene_from_model

    file = tmp_path / "arm.urdf"
    file.write_text(URDF)
    robot = read_urdf(file)
    q = np.zeros((2, 1))
    pose = np.eye(4)
    scene = scene_from_model(robot, np.array([0.0, 1.0]), q, np.broadcast_to(pose, (2, 1, 4, 4)))
    assert len(scene.solids) == 1
    assert scene.solids[0].mesh
    assert np.allclose(scene.solids[0].vertices.mean(axis=0), [0, 0, 0.5], atol=0.05)
    assert np.allclose(np.ptp(scene.solids[0].vertices, axis=0), [0.5, 0.5, 1.0], atol=0.05)
    assert "lost.stl does not exist" in scene.notes[0]
    assert len(encode(scene)) < 400_000


def test_scenery_stands_in_the_world():
    from ocp.app.files.load import load_text
    from ocp.app.pages.scene import scene_from_model
    from ocp.errors import ProblemError

    text = """
    name: A mast
    system:
      bodies: {mast: {mass: 1, com: [1, 0, 0], joint: {kind: revolute, axis: [0, 0, 1]}}}
      scenery: [{box: [1, 2, 0.5], position: [3, 0, 0.25]}, {sphere: 0.2, position: [0, 1, 1]}]
    phase: {duration: 1, start: {joints: {mast: 0}, rest: true}, costs: []}
    """
    loaded = load_text(text)
    poses = np.broadcast_to(np.eye(4), (2, 1, 4, 4)).copy()
    poses[:, :, :3, 3] = 7.0  # the body is elsewhere
    scene = scene_from_model(loaded.model, np.array([0.0, 1.0]), np.zeros((2, 1)), poses, loaded.scenery)
    box = next(solid for solid in scene.solids if solid.body == -1)
    assert np.allclose(box.vertices.min(axis=0), [2.5, -1.0, 0.0])
    ball = next(dot for dot in scene.dots if dot.radius)
    assert np.allclose(scene.points[:, ball.point], [0.0, 1.0, 1.0])
    with pytest.raises(ProblemError, match="sphere: must be positive, got -0.2 m"):
        load_text(text.replace("sphere: 0.2", "sphere: -0.2"))


def test_a_scene_survives_its_report():
    from ocp.app.pages.scene import Dot, Edge, Scene, Solid, decode, encode

    rng = np.random.default_rng(0)
    frames, turns = 4, np.linalg.qr(rng.standard_normal((4, 2, 3, 3)))[0]
    turns[np.linalg.det(turns) < 0] *= -1
    poses = np.tile(np.eye(4), (frames, 2, 1, 1))
    poses[..., :3, :3], poses[..., :3, 3] = turns, rng.standard_normal((frames, 2, 3))
    box = trimesh.creation.box(extents=(0.1, 0.2, 0.3))
    scene = Scene("3d", np.linspace(0, 1, frames), rng.standard_normal((frames, 3, 3)), (Edge((0, 1), role="force"), Edge((1, 2))),
                  (Dot(2, 0.1, "body"),), (Solid(1, np.asarray(box.vertices), box.faces.tolist(), True),), poses,
                  ((0, "a<b"),), (2,))
    again = decode(encode(scene))
    assert np.allclose(again.points, scene.points, atol=1e-4)
    assert np.allclose(again.poses, scene.poses, atol=3e-4)
    assert (again.edges, again.dots, again.labels, again.traces) == (scene.edges, scene.dots, scene.labels, scene.traces)
    assert np.allclose(again.solids[0].vertices, box.vertices, atol=1e-4)


def test_the_live_view_moves_what_the_report_shows():
    viser = pytest.importorskip("viser")
    from ocp.app.pages.scene import Dot, Edge, Scene, Solid
    from ocp.app.viewer import Stage

    poses = np.tile(np.eye(4), (2, 1, 1, 1))
    poses[1, 0, :3, 3] = [1.0, 2.0, 3.0]
    poses[1, 0, :3, :3] = [[0, -1, 0], [1, 0, 0], [0, 0, 1]]  # a quarter turn about z
    box = trimesh.creation.box(extents=(0.1, 0.2, 0.3))
    points = np.array([[[0, 0, 0], [0, 0, 1]], [[1, 2, 3], [1, 2, 4]]], float)
    server = viser.ViserServer(port=0, verbose=False)
    try:
        stage = Stage(server, Scene("3d", np.array([0.0, 1.0]), points, (Edge((0, 1)),), (Dot(1, 0.2),),
                                    (Solid(0, np.asarray(box.vertices), box.faces.tolist(), True),), poses, traces=(1,)))
        stage.show(1)
        frame = stage._frames[0]
        assert np.allclose(frame.position, [1, 2, 3])
        assert np.allclose(np.abs(frame.wxyz), [np.sqrt(0.5), 0, 0, np.sqrt(0.5)])
        assert np.allclose(stage._balls[0][1].position, [1, 2, 4])
    finally:
        server.stop()


@pytest.mark.parametrize("corner", [3, -1, 2**31])
def test_triangles_of_missing_vertices_are_reported(tmp_path, corner, monkeypatch):
    found = trimesh.Trimesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]], process=False)
    found._data["faces"] = np.array([[0, 1, corner]])
    monkeypatch.setattr(trimesh, "load", lambda *args, **kwargs: found)
    (tmp_path / "a.glb").touch()
    with pytest.raises(UnreadableMesh, match=f"corner {corner}, of 3 corners"):
        read_mesh(str(tmp_path / "a.glb"), (), 100)
