"""The report: one page, no network, nothing of the user's runs in it; and the scene it animates."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from made_solutions import DURATION, arm, arm_poses, cart, cart_drawing, cart_state, certificate
from pages import Page

from dynamics.model import BodyInertia, Builder, Geometry, Joint, Placement
from ocp.app.pages.report import NO_SCENE, number, render_report
from ocp.app.pages.results import summarise
from ocp.app.pages.scene import Disc, Dot, Drawing, Edge, Polyline, Scene, encode, frame_times, scene_from_drawing, scene_from_model
from ocp.errors import ProblemError
from ocp.problem import Finding, Kind, Solution, Violation

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{ 7*7 }}</textarea>"
PIXEL = b"\x89PNG\r\n\x1a\n"


def report(solution: Solution | None = None, scene: Scene | None = None, yaml: str = "name: cart\n",
           **provenance: object) -> str:
    solution = solution or cart()
    return render_report(summarise(solution, {"command": "ocp solve", **provenance}), list(solution.iterations),
                         problem_yaml=yaml, images={"states": PIXEL}, scene=scene)


def cart_scene() -> Scene:
    t = frame_times(0.0, DURATION)
    return scene_from_drawing(cart_drawing(), t, cart_state(t), np.zeros((len(t), 1)), (0.5,))


def arm_scene() -> tuple[Scene, np.ndarray]:
    model, t = arm(), np.linspace(0.0, 1.0, 5)
    q = np.random.default_rng(4).uniform(-2, 2, (5, 7))
    poses = arm_poses(model, q)
    return scene_from_model(model, t, q, poses), poses


# ------------------------------------------------------------------------------------------------ the page
def test_everything_the_reader_needs_is_on_the_page() -> None:
    page = report(yaml="phase: {duration: 2.0}\n", seed=3)
    words = " ".join(Page(page).words)
    for text in ("cart swing", "✓ Certified", "The method reached its tolerances.", "segment re-integration gap",
                 "Largest on [0.8, 0.9] s", "rail", "0.0003", "by hand", "relative difference", "inf_pr",
                 "phase: {duration: 2.0}", "ocp solve", "symmetric problem", NO_SCENE):
        assert text in words, text
    assert "0.005" in words  # |60.3 - 60| / 60


def test_a_failed_certificate_says_what_fails_and_by_how_much() -> None:
    broken = certificate(violations=(Violation("rail", 4e-3, 5e-3, 0.8, "rail", 1e-6),))
    words = " ".join(Page(report(cart(certificate=broken))).words)
    assert "✗ Not certified" in words
    assert "constraint 'rail' violated by 0.004 > 1e-06 at t = 0.8 s" in words
    assert "✗ no" in words
    assert "Every check below holds" not in words


def test_without_a_certificate_the_page_says_so() -> None:
    words = " ".join(Page(report(cart(certificate=None, iterations=()))).words)
    assert "✗ Not certified" in words
    assert "No certificate was computed" in words


@pytest.mark.parametrize("with_scene", [False, True])
def test_the_page_needs_no_network_and_runs_no_script_but_its_own(with_scene: bool) -> None:
    page = Page(report(scene=cart_scene() if with_scene else None))
    assert page.all("link") == []
    sources = [a["src"] for _, a in page.elements if "src" in a]
    assert len(sources) == 1
    assert all(str(s).startswith("data:image/png;base64,") for s in sources)
    assert base64.b64decode(str(sources[0]).split(",")[1]) == PIXEL
    policy = next(str(a["content"]) for a in page.all("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")
    if not with_scene:
        assert page.all("script") == []
        assert "script-src 'none'" in policy
        return
    data, player = page.scripts
    assert [a.get("type") for a in page.all("script")] == ["application/json", None]
    digest = base64.b64encode(hashlib.sha256(player.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert not re.search(r"https?://|\bfetch\(|XMLHttpRequest|\bimport\(", player)
    assert json.loads(data)["kind"] == "2d"


def test_names_of_the_user_never_become_markup() -> None:
    solution = cart()
    problem = replace(solution.problem, name=EVIL, description=EVIL, source=EVIL,
                      reference=replace(solution.problem.reference, source=EVIL))
    evil = replace(
        solution, problem=problem, ending=Finding(Kind.LARGEST_VIOLATION, data={"violations": ((EVIL, 1.0),)}),
        findings=(Finding(Kind.KERNEL_REMARK, name=EVIL, data={"remark": EVIL}),), options={EVIL: EVIL}, seconds={EVIL: 1.0},
        iterations=({"iteration": 0, EVIL: 1.0},),
        certificate=certificate(violations=(Violation(EVIL, 1.0, 1.0, 0.0, EVIL, 1e-6),)))
    scene = replace(cart_scene(), labels=((0, EVIL),), notes=(EVIL,))
    text = report(evil, scene, yaml=EVIL, **{"by": EVIL})
    clean, dirty = Page(report(scene=cart_scene())), Page(text)
    assert len(dirty.all("script")) == 2
    assert len(dirty.all("img")) == 1
    assert all("onerror" not in a for _, a in dirty.elements)
    assert {tag for tag, _ in dirty.elements} <= {tag for tag, _ in clean.elements} | {"ul", "li"}
    assert "49" not in re.findall(r"\{\{ 7\*7 \}\}|\b49\b", text)
    assert json.loads(dirty.scripts[0])["labels"] == [[0, EVIL]]
    assert dirty.scripts[1] == clean.scripts[1]


def test_numbers_are_written_for_reading() -> None:
    assert [number(v) for v in (None, "NaN", "-Infinity", -1.5, 1e-9, 123456789.0)] == [
        "—", "not a number", "−∞", "−1.5", "1e−09", "1.23457e+08"]


# ------------------------------------------------------------------------------------------------ scenes
def test_a_drawing_follows_its_functions() -> None:
    scene = cart_scene()
    x, angle = scene.t, scene.t**2
    assert scene.edges == (Edge((0, 1)),)
    assert np.allclose(scene.points[:, 0], np.stack([x, 0 * x, 0 * x], axis=1))
    assert np.allclose(scene.points[:, 1], np.stack([x + 0.5 * np.sin(angle), -0.5 * np.cos(angle), 0 * x], axis=1))
    assert np.array_equal(scene.points[:, 2], scene.points[:, 1])
    assert scene.dots == (Dot(2, 0.05, "body"),)
    assert scene.traces == (2,)


def test_a_drawing_with_the_wrong_shape_names_its_primitive() -> None:
    wrong = Disc(cart().problem.phase.system.rate, 0.1)
    with pytest.raises(ProblemError, match="drawing primitive 1: needs a function with 2 rows"):
        scene_from_drawing(Drawing((*cart_drawing().primitives[:1], wrong)), np.zeros(2), np.zeros((2, 4)), np.zeros((2, 1)),
                           (0.5,))


def test_the_skeleton_joins_the_joints_of_a_robot_to_its_tool() -> None:
    scene, poses = arm_scene()
    assert scene.points.shape[0] == 5
    joints = scene.points[:, [d.point for d in scene.dots if d.radius == 0.0]]
    assert np.allclose(joints, poses[:, :, :3, 3])
    tool = poses[:, 6, :3, 3] + 0.15 * poses[:, 6, :3, 2]
    assert np.allclose(scene.points[:, scene.traces[0]], tool)
    lengths = [np.linalg.norm(scene.points[:, a] - scene.points[:, b], axis=-1) for a, b in (e.points for e in scene.edges)]
    assert np.allclose(lengths[:-1], 0.2)
    assert np.allclose(lengths[-1], 0.15)
    assert len(lengths) == 7
    assert [text for _, text in scene.labels] == [f"joint{i}" for i in range(7)]


def test_solids_are_closed_and_face_outwards() -> None:
    scene, _ = arm_scene()
    volumes = []
    for solid in scene.solids:
        vertices = np.array(solid.vertices)
        edges = [(a, b) for f in solid.faces for a, b in zip(f, f[1:] + f[:1], strict=True)]
        assert sorted(edges) == sorted((b, a) for a, b in edges)  # every edge is shared by two faces, once each way
        # divergence theorem: a sixth of the triple product over a fan of triangles; positive when faces look outwards
        volumes.append(sum(np.dot(vertices[f[0]], np.cross(vertices[f[k]], vertices[f[k + 1]])) / 6
                           for f in solid.faces for k in range(1, len(f) - 1)))
    sides = 16
    prism = sides / 2 * np.sin(2 * np.pi / sides) * 0.04**2 * 0.16
    assert np.allclose(sorted(volumes), sorted([prism] * 7 + [0.2 * 0.2 * 0.04]))


def test_a_floating_base_is_not_tied_to_the_world_and_a_bare_bob_ends_at_its_mass() -> None:
    build = Builder("drone")
    build.body("base", parent="world", joint=Joint("root", "free_flyer"), geometry=[Geometry("mesh", path="hull.stl")])
    hinge = Joint("hinge", "revolute", Placement(position=(0.3, 0.0, 0.0)), axes=((0.0, 1.0, 0.0),))
    build.body("rod", parent="base", joint=hinge, inertia=BodyInertia(1.0, (0.0, 0.0, -0.4)))
    model = build.build()
    poses = np.tile(np.eye(4), (2, 2, 1, 1))
    poses[:, :, :3, 3] = [[1.0, 2.0, 3.0], [1.3, 2.0, 3.0]]
    scene = scene_from_model(model, np.array([0.0, 1.0]), np.zeros((2, model.nq)), poses)
    ends = {tuple(np.round(scene.points[0, i], 9)) for e in scene.edges for i in e.points}
    assert ends == {(1.0, 2.0, 3.0), (1.3, 2.0, 3.0), (1.3, 2.0, 2.6)}
    assert scene.notes == ("Not drawn: hull.stl does not exist; the links show the motion.",)


def test_a_motion_that_diverges_is_shown_up_to_there() -> None:
    t = np.linspace(0.0, 1.0, 5)
    x = cart_state(t)
    x[3:] = np.nan
    scene = scene_from_drawing(cart_drawing(), t, x, np.zeros((5, 1)), (0.5,))
    assert scene.t.tolist() == t[:3].tolist()
    encode(scene)


def test_the_encoded_scene_decodes_to_a_tenth_of_a_millimetre() -> None:
    scene, poses = arm_scene()
    record = json.loads(encode(scene))
    points = np.array(record["points"]).reshape(5, record["count"], 3) * record["unit"]
    assert np.abs(points - scene.points).max() <= 0.5e-4 + 1e-12
    packed = np.array(record["poses"]).reshape(5, 7, 9)
    assert np.abs(packed[..., :3] * record["unit"] - poses[..., :3, 3]).max() <= 0.5e-4 + 1e-12
    assert np.abs(packed[..., 3:6] * record["turn"] - poses[..., :3, 0]).max() <= 0.5e-4 + 1e-12
    assert np.abs(packed[..., 6:] * record["turn"] - poses[..., :3, 1]).max() <= 0.5e-4 + 1e-12
    small = replace(scene, points=scene.points * 1e-4)
    again = json.loads(encode(small))
    assert np.abs(np.array(again["points"]) * again["unit"] - small.points.ravel()).max() < 1e-4 * np.ptp(small.points)


def test_scenes_are_checked() -> None:
    t, points = np.zeros(2), np.zeros((2, 3, 3))
    with pytest.raises(ProblemError, match="refers to point 3"):
        Scene("3d", t, points, edges=(Edge((0, 3)),))
    with pytest.raises(ProblemError, match="unknown scene role"):
        Scene("3d", t, points, dots=(Dot(0, role="lnik"),))
    with pytest.raises(ProblemError, match=r"must be \[2, n, 3\]"):
        Scene("2d", t, np.zeros((3, 3, 3)))
    with pytest.raises(ProblemError, match="body poses must be"):
        scene_from_model(arm(), t, np.zeros((2, 7)), np.zeros((2, 6, 4, 4)))


@pytest.mark.parametrize("span", [0.01, 2.0, 60.0])
def test_frames_are_enough_and_not_too_many(span: float) -> None:
    t = frame_times(1.0, 1.0 + span)
    assert (t[0], t[-1]) == (1.0, 1.0 + span)
    assert 60 <= len(t) <= 240


def test_a_line_that_never_moves_is_ground() -> None:
    f = cart_drawing().primitives[0].points  # type: ignore[union-attr]
    arguments = f.sx_in()
    rail = ca.Function("rail", arguments, [ca.DM([[-1.0, 1.0], [0.0, 0.0]])])
    t = np.linspace(0.0, 1.0, 4)
    scene = scene_from_drawing(Drawing((Polyline(rail), Polyline(f))), t, cart_state(t), np.zeros((4, 1)), (0.5,))
    assert [e.role for e in scene.edges] == ["ground", "link"]
