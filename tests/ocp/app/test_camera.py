"""The camera sees the robot past obstacles and planar motions from their side; links without shapes are solids that hold them."""

from types import SimpleNamespace

import numpy as np
import pytest
from made_solutions import arm

from dynamics.model import BodyInertia, Builder, Geometry, Joint, Placement
from ocp.app.mpc.folder import loop_scene
from ocp.app.pages.camera import ASIDE, PITCH, YAW, hidden, viewpoint
from ocp.app.pages.links import bare_links
from ocp.app.pages.scene import Dot, Edge, Scene, Solid, decode, encode, scene_from_model, shown_frames, solid_of
from ocp.app.pipeline import body_poses


def rod(*extra, points=((0.0, 0.0, 0.0), (0.0, 0.0, 1.0)), dots=(), solids=()):
    """A rod that stands, and scenery."""
    at = np.array([*points, *extra], float)
    return Scene("3d", np.array([0.0, 1.0]), np.stack([at, at]), (Edge((0, 1)),), dots, solids)


def eye(yaw):
    return np.array([-np.sin(yaw) * np.cos(PITCH), -np.cos(yaw) * np.cos(PITCH), np.sin(PITCH)])


def test_a_camera_walks_around_a_ball_before_the_robot():
    assert viewpoint(rod()) == pytest.approx(YAW)
    middle = np.array([0.0, 0.0, 1.0]) + 0.6 * eye(YAW)
    scene = rod(middle, dots=(Dot(2, 0.2, "ground"),))
    assert hidden(scene, scene.points[0, :2], YAW).tolist() == [False, True]
    found = viewpoint(scene)
    for end in scene.points[0, :2]:  # a walk along the line of sight
        line = end + np.linspace(0, 5, 5001)[:, None] * eye(found)
        assert np.linalg.norm(line - middle, axis=1).min() > 0.2
    assert abs(found - YAW) < np.pi / 2  # no further than it must


@pytest.mark.parametrize("far", [0.5, -0.5])
def test_boxes_hide_what_is_behind_them_and_nothing_before(far):
    shape = Geometry("box", (0.3, 0.3, 0.3), Placement(position=tuple((np.array([0.0, 0.0, 1.0]) + far * eye(YAW)).tolist())))
    scene = rod(solids=(solid_of(-1, shape),))
    assert hidden(scene, scene.points[0, :2], YAW).tolist() == [False, far > 0]


def test_closed_loops_show_obstacles_and_are_seen_past_them():
    model, t = arm(), np.linspace(0.0, 1.0, 50)
    x = np.zeros((50, model.nq + model.nv))
    tip = body_poses(model, x[:1, :model.nq])[0, -1, :3, 3]
    ball = Geometry("sphere", (0.2,), Placement(position=tuple((tip + 0.5 * eye(YAW)).tolist())))
    loop = SimpleNamespace(fine_t=t, fine_x=x, fine_u=np.zeros((49, model.nv)), tracking=(), problem=SimpleNamespace(
        phase=SimpleNamespace(system=SimpleNamespace(model=model, drawn=None))))
    scene, _ = loop_scene(SimpleNamespace(scenery=(ball,), drawing=None), loop)
    assert [dot.radius for dot in scene.dots if dot.role == "ground"] == [0.2]
    assert hidden(scene, tip[None], YAW).all()
    assert not hidden(scene, tip[None], scene.yaw).any()


def test_animations_show_finite_samples_from_the_first_to_the_last():
    x = np.zeros((100, 2))
    x[[0, 40, 99]] = np.nan
    found = shown_frames(np.linspace(0.0, 1.0, 100), x)
    assert found[0] == 1
    assert found[-1] == 98
    assert 40 not in found
    assert (np.diff(found) >= 0).all()
    assert shown_frames(np.array([0.0, 1.0]), np.array([[0.0], [np.nan]])) is None


def test_planar_motions_are_seen_from_their_side():
    turn = 0.4
    t = np.linspace(0, 1, 20)
    along = np.stack([np.cos(turn) * t, np.sin(turn) * t, t * (1 - t)], axis=1)
    scene = Scene("3d", t, np.stack([along, along + [0, 0, 1.0]], axis=1), (Edge((0, 1)),))
    yaw = viewpoint(scene) + ASIDE
    right = np.array([np.cos(yaw), -np.sin(yaw)])
    assert right @ [np.cos(turn), np.sin(turn)] == pytest.approx(1.0)
    assert decode(encode(Scene("3d", t, scene.points, scene.edges, yaw=yaw))).yaw == yaw


def test_links_without_shapes_hold_their_joints_and_are_convex():
    model = arm()
    found = bare_links(model, [])
    for i, (vertices, faces) in found.items():
        children = [np.asarray(model.bodies[k].joint.placement.position, float) for k in model.children(i)]
        a, b, c = (vertices[faces[:, k]] for k in range(3))
        normal = np.cross(b - a, c - a)
        for inside in (*children, vertices.mean(axis=0)):  # behind every face, whose corners go round counter-clockwise
            assert (np.einsum("ij,ij->i", inside - a, normal) <= 1e-12).all()
        assert (np.einsum("ijk,jk->ij", vertices[:, None] - a[None], normal) <= 1e-9 * np.abs(normal).max()).all()
    assert found
    assert set(bare_links(model, list(found))) == set()


def test_a_trunk_is_a_slab_and_no_cross():
    """The hull of balls at four hips: as long and as wide as they are apart, and a ball thick."""
    builder = Builder("table")
    builder.body("trunk", parent="world", joint=Joint("root", "free_flyer"), inertia=BodyInertia(2.0))
    for k, (x, y) in enumerate(((0.4, 0.2), (0.4, -0.2), (-0.4, 0.2), (-0.4, -0.2))):
        builder.body(f"leg {k}", parent="trunk", inertia=BodyInertia(0.5, (0.0, 0.0, -0.3)),
                     joint=Joint(f"hip {k}", "revolute", Placement(position=(x, y, 0.0)), axes=((0.0, 1.0, 0.0),)))
    model = builder.build()
    vertices, _ = bare_links(model, [])[0]
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    thick = high[2] - low[2]
    np.testing.assert_allclose((high - low)[:2], [0.8 + thick, 0.4 + thick], atol=0.1 * thick)
    q = np.zeros((2, model.nq))
    q[:, 3] = 1.0
    scene = scene_from_model(model, np.array([0.0, 1.0]), q, body_poses(model, q))
    assert {solid.body for solid in scene.solids if isinstance(solid, Solid)} == set(range(5))
    assert all(edge.points[0] in scene.inside for edge in scene.edges if edge.role == "link")
