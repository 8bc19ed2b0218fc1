"""Joints, bodies and frames that a problem file adds to a robot, or builds it of: what they mean, and what is wrong in words."""

from __future__ import annotations

import numpy as np
import pytest
from repository import ROOT

import dynamics
from dynamics import algorithms as alg
from dynamics.joints import KINDS
from dynamics.model import BodyInertia, Builder, Joint, Placement
from dynamics.model.builder import change_joint, joint
from dynamics.model.rigid import rotation_rpy
from ocp.app.files.control.ik import load_ik_text, solve_loaded
from ocp.app.files.load import load_problem, load_text
from ocp.app.files.problem.portable import portable
from ocp.app.pages.scene import scene_from_model
from ocp.errors import ProblemError

MODELS = ROOT / "problems" / "models"
INERTIA = "mass: 0.4, com: [0, 0, 0.1], inertia: {xx: 0.01, yy: 0.02, zz: 0.015, xy: 0.001}"
REST = """
phase: {duration: 0.3, start: {others: neutral}, costs: []}
"""
GRID = [[[0.1 * i, 0.1 * j, 0.02 * i * j, 0.05 * j, 0.1 * i, 0.03 * i * j] for j in range(4)] for i in range(4)]
EVERY = f"""
name: Every kind
system:
  robot: four_bar.urdf
  joints:
    crank: {{kind: universal, axes: [[0, 2, 0], [1, 0, 0]], damping: 0.1}}
    coupler_end: {{kind: spherical, armature: 0.01}}
    rocker: {{upper: 3, effort: 7}}
  bodies:
    top: {{parent: hand, {INERTIA}, joint: {{kind: euler, chart: zyx, position: [0, 0, 0.2]}}}}
    hand:
      parent: bead
      {INERTIA.replace(", com", chr(10) + "      com").replace(", inertia", chr(10) + "      inertia")}
      joint:
        kind: composite
        parts: [{{name: slide, kind: prismatic, axis: [0, 0, 1]}}, {{name: ball, kind: spherical, position: [0, 0, 0.1]}}]
    bead: {{parent: base, mass: 0.2, joint: {{kind: spline_curve, points: [[0, 0, 0.3], [0.2, 0, 0.5], [0.4, 0.1, 0.4]]}}}}
    cart: {{mass: 1, joint: {{kind: planar_translation, lower: -2, upper: [2, 3]}}, shapes: [{{box: [0.1, 0.2, 0.1]}}]}}
    load: {{parent: cart, mass: 0.5, joint: {{kind: translation}}, shapes: [{{sphere: 0.1}}]}}
    disc: {{parent: cart, {INERTIA}, joint: {{kind: planar, rpy: [0.1, 0, 0]}}, shapes: [{{cylinder: {{radius: 1, length: 2}}}}]}}
    lid: {{parent: disc, {INERTIA}, joint: {{kind: continuous, axis: [0, 3, 4]}}}}
    bolt: {{parent: lid, {INERTIA}, joint: {{kind: fixed, position: [0.1, 0, 0]}}}}
    turn: {{parent: cart, {INERTIA}, joint: {{kind: exponential}}}}
    sled: {{{INERTIA}, joint: {{kind: free_2d}}}}
    kite: {{{INERTIA}, joint: {{kind: free_3d, chart: zyx}}}}
    boat: {{{INERTIA}, joint: {{kind: free_3d_reversed, chart: rotation_vector}}}}
    bone: {{{INERTIA}, joint: {{kind: frame_spline, lower: 0, upper: 1, frames: [{{}}, {{position: [0.1, 0, 0]}},
      {{position: [0.2, 0.1, 0], rpy: [0, 0, 0.3]}}, {{position: [0.3, 0.2, 0], axis_angle: {{axis: [0, 1, 1], angle: 0.4}}}}]}}}}
    knee: {{parent: bone, {INERTIA}, joint: {{kind: spline_surface, grid: {GRID}}}}}
    free: {{parent: tip, {INERTIA}, joint: {{name: float, kind: free_flyer}}}}
  frames:
    grip: {{body: top, position: [0, 0, 0.1], rpy: [0, 0, 1]}}
    mark: {{body: grip, position: [0.1, 0, 0]}}
phase:
  duration: 0.2
  start:
    joints:
      crank: [0.1, 0.2]
      coupler: -0.9
      rocker: -1.5
      coupler_end: {{rpy: [0, 0, 0.1]}}
      bead: 0.1
      hand.slide: 0.05
      hand.ball: {{rpy: [0.1, 0, 0.2]}}
      top: [0, 0.1, 0]
      cart: [0, 1]
      load: [0, 0, 0.1]
      disc: [0.1, 0, 0.3]
      lid: 0.2
      float: {{position: [0, 0, 0.1], rpy: [0, 0, 0.5]}}
    velocities: {{crank: [0, 0.1], hand.ball: [0, 0, 1], cart: [1, 0], float: [0, 0, 0, 0, 0, 1]}}
    others: neutral
  final: {{joints: {{bead: 0.15}}}}
  costs: [{{name: effort, running: 'tau["bead"]**2 + tau["hand.ball.wx"]**2'}}]
  constraints: [{{name: high, expression: 'position("mark")[2]', lower: 0}}]
"""


def load(text):
    return load_text(text, MODELS)


def at(model, q, frame):
    return np.array(dynamics.make_frame(model, "pose", frame)(q)[1]).ravel()


def test_every_kind_of_joint():
    loaded = load(EVERY)
    model, x = loaded.model, np.array(loaded.problem.phase.start.value)
    kinds = {body.joint.name: body.joint.kind for body in model.bodies}
    assert set(kinds.values()) == set(KINDS) - {"revolute", "prismatic"}  # the latter is a part of the composite one
    assert kinds["crank"] == "universal"
    where = dict(zip(model.coordinate_names, x, strict=False))
    assert [where[f"crank.{c}"] for c in ("q1", "q2")] == [0.1, 0.2]
    assert [where[n] for n in ("hand.slide", "cart.y", "disc.theta")] == [0.05, 1.0, 0.3]
    assert where["float.w"] == pytest.approx(np.cos(0.25))
    assert where["hand.ball.w"] ** 2 + where["hand.ball.x"] ** 2 + where["hand.ball.y"] ** 2 + where["hand.ball.z"] ** 2 == \
        pytest.approx(1)
    speed = dict(zip(model.velocity_names, x[model.nq:], strict=True))
    assert (speed["hand.ball.wz"], speed["float.wz"], speed["crank.v2"], speed["lid"]) == (1.0, 1.0, 0.1, 0.0)
    assert model.limit("upper")[model.coordinate_names.index("cart.y")] == 3.0
    assert model.limit("upper")[model.coordinate_names.index("rocker")] == 3.0
    assert model.limit("effort")[model.velocity_names.index("rocker")] == 7.0
    assert any("joint 'crank' is universal now; gone: velocity limit, effort limit" in note for note in model.notes)
    # a motor at every joint but the floating one
    assert loaded.problem.phase.system.controls == tuple(n for n in model.velocity_names if not n.startswith("float."))
    assert load(loaded.expanded()).model.fingerprint == model.fingerprint


def test_a_tree_of_a_file_is_that_of_the_builder():
    """The same robot by the file and by Python, and without the file of another robot."""
    text = f"""
name: Two
system:
  gravity: [0, 0, -1.6]
  bodies:
    fore: {{parent: upper, {INERTIA}, joint: {{name: elbow, kind: universal, axes: [[0, 1, 0], [2, 0, 0]], damping: 0.2,
      position: [0.1, 0, -0.3], rpy: [0.1, 0.2, 0.3]}}}}
    upper: {{{INERTIA}, joint: {{kind: revolute, axis: [0, 1, 0], lower: -1, upper: 1, armature: 0.1}}}}
{REST}"""
    body = BodyInertia(0.4, (0.0, 0.0, 0.1), ((0.01, 0.001, 0.0), (0.001, 0.02, 0.0), (0.0, 0.0, 0.015)))
    made = Builder("robot", gravity=(0.0, 0.0, -1.6))
    made.body("upper", parent="world", inertia=body,
              joint=joint("upper", "revolute", axes=[(0, 1, 0)], lower=-1, upper=1, armature=0.1))
    made.body("fore", parent="upper", inertia=body, joint=joint(
        "elbow", "universal", axes=[(0, 1, 0), (1, 0, 0)], damping=0.2, position=(0.1, 0, -0.3),
        rotation=rotation_rpy(0.1, 0.2, 0.3)))
    expected, model = made.build(), load(text).model
    q, v, a = np.array([0.3, -0.2, 0.5]), np.array([1.0, 2.0, -1.0]), np.array([0.5, 0.1, 0.2])
    ours, theirs = (np.array(dynamics.make(m, "inverse_dynamics")(q, v, a)) for m in (model, expected))
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    assert [b.name for b in model.bodies] == ["upper", "fore"]
    assert model.limit("lower").tolist() == [-1.0, -np.inf, -np.inf]


def test_a_changed_joint_keeps_its_place():
    """The tip is where it was at rest, and moves about the new axes."""
    change = "  joints: {coupler: {kind: universal, axes: [[0, 1, 0], [0, 0, 1]]}}\n"
    text = "name: Changed\nsystem:\n  robot: four_bar.urdf\nX" + REST
    before, after = load(text.replace("X", "")).model, load(text.replace("X", change)).model
    at_rest = [at(model, np.zeros(model.nq), "end") for model in (before, after)]
    np.testing.assert_allclose(*at_rest, atol=1e-15)
    q = np.zeros(after.nq)
    q[after.coordinate_names.index("coupler.q2")] = np.pi / 2
    np.testing.assert_allclose(at(after, q, "end"), [0.2, 0.5, 0.0], atol=1e-12)


@pytest.mark.parametrize(("old", "new", "place", "words"), [
    ("kind: spherical, a", "kind: sperical, a", "7:25", "unknown kind of joint 'sperical'; did you mean 'spherical'"),
    ("    rocker: {upper", "    rockr: {upper", "8:", "no joint named 'rockr'; did you mean 'rocker'"),
    ("axes: [[0, 2, 0], [1, 0, 0]]", "axes: [[0, 2, 0], [0, 0, 0]]", "6:", "has no direction"),
    ("axes: [[0, 2, 0], [1, 0, 0]]", "axis: [0, 2, 0]", "6:", "needs 2 axes, got 1"),
    ("chart: zyx", "chart: zzx", "10:", "zzx"),
    ("parent: cart, mass: 0.5", "parent: crt, mass: 0.5", "no body named 'crt'", "did you mean 'cart'"),
    ("parent: disc", "parent: lid", "lid.parent", "is its own ancestor"),
    ("[0.2, 0, 0.5], [0.4", "[0, 0, 0.3], [0.4", "bead", "neighbouring points of a curve must differ"),
    ("hand.slide: 0.05", "hand: [0.05, 1, 0, 0, 0]", "start.joints.hand", "give its parts: hand.slide, hand.ball"),
    ("hand.slide: 0.05", "hand.slid: 0.05", "hand.slid", "did you mean 'hand.slide'"),
    ("float: {position: [0, 0, 0.1], rpy", "float: {rpy", "start.joints.float", "a position and a rotation"),
    ("coupler_end: {rpy: [0, 0, 0.1]}", "coupler_end: {position: [0, 0, 0], rpy: [0, 0, 0.1]}", "position", "it has no position"),
    ("crank: [0.1, 0.2]", "crank: 0.1", "start.joints.crank", "a list [q1, q2]"),
    ("mass: 1, joint", "mass: -1, joint", "cart", "mass must be finite and not negative"),
    ("{sphere: 0.1}", "{sphere: 0.1, box: [1, 1, 1]}", "shapes[0]", "needs exactly one of sphere, box, cylinder"),
    ("{sphere: 0.1}", "{sphere: 0}", "sphere", "must be positive, got 0 m"),
    ("upper: [2, 3]", "upper: [2, 3, 4]", "cart", "limit upper needs 2 values"),
    ("{body: grip, position", "{body: gripp, position", "mark", "'gripp' has not been added yet; did you mean"),
    ("frames: [{},", "frames: [", "bone", "needs at least four frames, got 3"),
    ("kind: exponential", "kind: exponential, chart: zyx", "turn", "takes no chart"),
    ("kind: continuous, axis", "kind: continuous, points: [[0, 0, 0], [1, 0, 0]], axis", "lid", "takes no points"),
])
@pytest.mark.sample(4)
def test_wrong_inputs_are_reported_in_words(old, new, place, words):
    assert old in EVERY
    with pytest.raises(ProblemError) as caught:
        load(EVERY.replace(old, new))
    assert place in str(caught.value)
    assert words in str(caught.value)
    assert "has not been added yet" in words or "has not been added yet" not in str(caught.value)  # what hangs from it is not told


@pytest.mark.parametrize(("system", "words"), [
    ("{bodies: {}}", "needs a robot"), ("{bodies: {a: {joint: {kind: fixed}}}, root: free_flyer}", "needs a robot file"),
    ("{bodies: {a: {joint: {kind: revolute, axis: [0, 0, 1]}}}, joints: {a: {upper: 1}}}", "needs a robot file"),
    ("{robot: four_bar.urdf, joints: {crank: {axis: [0, 0, 1], axes: [[0, 0, 1]]}}}", "one of axis and axes; found both"),
    ("{robot: four_bar.urdf, bodies: {crank: {joint: {name: other, kind: fixed}}}}", "body name 'crank' appears 2 times")])
def test_what_does_not_go_together(system, words):
    with pytest.raises(ProblemError) as caught:
        load(f"name: Wrong\nsystem: {system}\n{REST}")
    assert words in str(caught.value)


def test_named_configurations_keep_what_they_say():
    """A joint of another kind, and one that is new, are neutral in them; a note says so."""
    made = Builder("arm", configurations={"home": (0.3, 0.7)})
    for name, parent in (("a", "world"), ("b", "a")):
        made.body(name, parent=parent, joint=joint(name, "revolute", axes=[(0, 1, 0)]), inertia=BodyInertia(1.0))
    changed = change_joint(made.build(), "a", "universal", axes=[(0, 1, 0), (1, 0, 0)])
    more = Builder.of(changed)
    more.body("c", parent="b", joint=Joint("c", "spherical", Placement(position=(0.0, 0.0, 1.0))), inertia=BodyInertia(1.0))
    model = more.build()
    assert model.configurations["home"] == (0.0, 0.0, 0.7, 1.0, 0.0, 0.0, 0.0)
    assert any("joints 'c' are neutral in the named configurations" in note for note in model.notes)
    assert any("joints 'a' are neutral" in note for note in model.notes)


def test_inverse_kinematics_serves_them():
    text = """
name: Reach
robot:
  bodies:
    bead: {mass: 1, joint: {kind: spline_curve, points: [[0, 0, 0], [0.5, 0.1, 0.2], [1, 0, 0]], lower: 0, upper: 1}}
    arm: {parent: bead, mass: 1, joint: {kind: universal, axes: [[0, 1, 0], [1, 0, 0]]}}
  frames: {tool: {body: arm, position: [0, 0, -0.5]}}
start: {joints: {bead: 0.3, arm: [0.1, 0.1]}}
tasks: [{position: {frame: tool, target: [0.6, 0.3, -0.1]}}]
"""
    outcome = solve_loaded(load_ik_text(text))
    assert outcome.ok
    np.testing.assert_allclose(at(outcome.loaded.model, outcome.result.q, "tool"), [0.6, 0.3, -0.1], atol=1e-6)


def test_animations_show_the_curve():
    """The wire passes through its points, where the bead is at the chord of each."""
    model = load(EVERY).model
    t, q = np.array([0.0, 1.0]), np.array([alg.neutral(model)] * 2)
    k, knot = model.coordinate_names.index("bead"), np.hypot(0.2, 0.2)
    q[1, k] = knot
    poses = np.zeros((2, len(model.bodies), 4, 4))
    for i, configuration in enumerate(q):
        for b, pose in enumerate(alg.body_poses(model, configuration)):
            poses[i, b, :3, :3], poses[i, b, :3, 3], poses[i, b, 3, 3] = np.array(pose.R), np.array(pose.p).ravel(), 1.0
    scene = scene_from_model(model, t, q, poses)
    wire = next(edge for edge in scene.edges if len(edge.points) > 2)
    curve = scene.points[0, list(wire.points)]
    bead = scene.points[:, [i for i, text in scene.labels if text == "bead"][0]]
    np.testing.assert_allclose(curve[0], bead[0], atol=1e-12)
    np.testing.assert_allclose(curve[-1], [0.4, 0.1, 0.4], atol=1e-12)
    np.testing.assert_allclose(bead[1], [0.2, 0.0, 0.5], atol=1e-12)
    assert np.min(np.linalg.norm(curve - bead[1], axis=1)) < 0.01


# ------------------------------------------------------------------------------------------------ density, ground, soft bodies
SOFT = """
name: A soft bag on an arm
system:
  bodies:
    arm: {density: 500, shapes: [{box: [0.4, 0.04, 0.06], position: [0.2, 0, 0]}], joint: {kind: revolute, axis: [0, 1, 0]}}
    ball:
      density: 300
      shapes: [{sphere: 0.1}, {cylinder: {radius: 0.02, length: 0.3}, position: [0, 0, 0.15]}]
      joint: {kind: translation}
  mass_springs:
    vertices:
      root: {mass: 0.01, frame: arm, position: [0.4, 0, 0]}
      left: {mass: 0.02, position: [0.4, 0.1, -0.2]}
      right: {mass: 0.03, position: [0.4, -0.1, -0.2]}
    edges:
      - {between: [root, left], stiffness: 5, damping: 0.1}
      - {between: [root, right], stiffness: 5, length: 0.2}
      - {between: [left, right], stiffness: 2}
  forces:
    - ground: {points: [{frame: left}, {frame: ball, position: [0, 0, -0.1]}], stiffness: 1e4, damping: 5, friction: 0.4, creep: 20,
        normal: [0, 0, 2], origin: [0, 0, -0.3]}
phase: {duration: 0.3, start: {others: neutral}, costs: []}
"""


def test_density_gives_the_inertia_of_the_shapes():
    model = load_text(SOFT).model
    arm, ball = (next(b for b in model.bodies if b.name == name).inertia for name in ("arm", "ball"))
    mass = 500 * 0.4 * 0.04 * 0.06
    assert arm.mass == pytest.approx(mass + 0.01)  # with the vertex that it carries
    rod, round_one = 300 * np.pi * 0.02**2 * 0.3, 300 * 4 / 3 * np.pi * 0.1**3
    assert ball.mass == pytest.approx(rod + round_one)
    assert ball.com[2] == pytest.approx(0.15 * rod / (rod + round_one))
    bare = load_text(SOFT.replace("frame: arm, position: [0.4, 0, 0]", "position: [0.4, 0, 0]")).model
    alone = next(b for b in bare.bodies if b.name == "arm").inertia
    squares = np.array([0.04**2 + 0.06**2, 0.4**2 + 0.06**2, 0.4**2 + 0.04**2])
    np.testing.assert_allclose(np.diag(alone.inertia), mass / 12 * squares)
    np.testing.assert_allclose(alone.com, [0.2, 0, 0])
    # what a run keeps, every default written out, is the same robot
    assert load_text(portable(load_text(SOFT)).text).model == load_text(SOFT).model


MESH = """
name: A block in a file
system:
  actuated: []
  bodies:
    block: {joint: {kind: spherical}, density: 500, shapes: [SHAPE]}
phase: {duration: 0.3, start: {others: neutral}, costs: []}
""".replace("SHAPE", "{mesh: parts/block.stl, scale: 1e-3, position: [0.1, 0, 0], rpy: [0.3, 0, 0.2]}")


@pytest.fixture
def block(tmp_path):
    """A file of a box of 200 x 300 x 400 mm, and what names it."""
    import trimesh

    (tmp_path / "parts").mkdir()
    mesh = trimesh.creation.box((200, 300, 400))
    mesh.export(tmp_path / "parts" / "block.stl")
    mesh.faces = mesh.faces[1:]
    mesh.export(tmp_path / "parts" / "open.stl")
    (tmp_path / "parts" / "text.stl").write_text("nothing", encoding="utf-8")
    return tmp_path


def test_meshes_give_inertias_and_come_along(block):
    """The solid that the triangles enclose is the box; the file of a run stands alone; reports draw it."""
    (block / "mesh.yaml").write_text(MESH, encoding="utf-8")
    loaded = load_problem(block / "mesh.yaml")
    written = load_text(MESH.replace("mesh: parts/block.stl, scale: 1e-3", "box: [0.2, 0.3, 0.4]"))
    one, two = (found.model.bodies[0].inertia for found in (loaded, written))
    assert one.mass == pytest.approx(two.mass, rel=1e-6)  # single precision in the file
    np.testing.assert_allclose(one.com, two.com, atol=1e-7)
    np.testing.assert_allclose(one.inertia, two.inertia, atol=1e-6 * one.mass)
    alone, away = portable(loaded), block / "away"
    (away / "models").mkdir(parents=True)
    (away / "problem.yaml").write_text(alone.text, encoding="utf-8")
    for name, data in alone.files.items():
        (away / name).write_bytes(data)
    (block / "parts" / "block.stl").unlink()
    again = load_problem(away / "problem.yaml").model
    assert again.bodies[0].inertia == one
    drawn = scene_from_model(again, np.zeros(1), np.array([alg.neutral(again)]), np.eye(4)[None, None])
    assert "mesh" in str(drawn).lower()


@pytest.mark.parametrize(("old", "new", "words"), [
    ("block.stl", "blok.stl", r"shapes\[0\]\.mesh: no file .*blok.stl"),
    ("block.stl", "open.stl", r"shapes\[0\]\.mesh: .*not closed"),
    ("block.stl", "text.stl", r"shapes\[0\]\.mesh: mesh .*text.stl (cannot be read|holds no triangles)"),
    ("scale: 1e-3", "scale: -1", r"shapes\[0\]\.scale: must be positive, got -1$"),
    ("mesh: parts/block.stl", "sphere: 1", "'scale' applies to a mesh"),
])
def test_wrong_meshes_are_named(block, old, new, words):
    (block / "mesh.yaml").write_text(MESH.replace(old, new), encoding="utf-8")
    with pytest.raises(ProblemError, match=words):
        load_problem(block / "mesh.yaml")


def test_soft_bodies_and_the_ground_of_a_file_are_those_of_python():
    from dynamics.forces import Ground, Place
    from dynamics.mechanism import Mechanism
    from dynamics.redmax.deformable import Edge, Vertex, with_mass_springs

    loaded = load_text(SOFT)
    written = loaded.problem.phase.system.mechanism
    assert written.model.velocity_names[-3:] == ("right.vx", "right.vy", "right.vz")
    bare = load_text(SOFT[:SOFT.index("  mass_springs")] + SOFT[SOFT.index("phase:"):]).problem.phase.system.mechanism
    far = float(np.hypot(0.1, 0.2))
    made = with_mass_springs(Mechanism(bare.model), [
        Vertex("root", 0.01, Place("arm", (0.4, 0, 0))), Vertex("left", 0.02, Place("world", (0.4, 0.1, -0.2))),
        Vertex("right", 0.03, Place("world", (0.4, -0.1, -0.2)))],
        [Edge("root", "left", 5, far, 0.1), Edge("root", "right", 5, 0.2), Edge("left", "right", 2, 0.2)])
    ground = Ground("g", (Place("left"), Place("ball", (0, 0, -0.1))), 1e4, 5, 0.4, 20, (0, 0, 1), (0, 0, -0.3))
    made = Mechanism(made.model, forces=(*made.forces, ground))
    rng = np.random.default_rng(0)
    for _ in range(5):
        q, v = 0.2 * rng.standard_normal(made.model.nq), rng.standard_normal(made.model.nv)
        tau = np.zeros(written.nu)
        np.testing.assert_allclose(written.forward_dynamics(q, v, tau), made.forward_dynamics(q, v, np.zeros(0)), rtol=1e-9,
                                   atol=1e-8)


@pytest.mark.parametrize(("old", "new", "words"), [
    ("{density: 500,", "{density: 500, mass: 2,", "'density' gives mass, com and inertia; found mass, too"),
    ("density: 500, shapes: [{box: [0.4, 0.04, 0.06], position: [0.2, 0, 0]}]", "density: 500", "'density' needs 'shapes'"),
    ("density: 500", "density: -1", "density must be positive"),
    ("frame: arm,", "frame: amr,", r"vertices\.root.*'amr'.*'arm'"),
    ("between: [left, right]", "between: [left, rihgt]", r"edges\[2\]\.between\[1\].*no vertex.*'rihgt'; did you mean 'right'"),
    ("length: 0.2}", "length: 0}", r"edges\[1\]\.length.*must be positive, got 0 m"),
    ("stiffness: 5, length", "stiffness: -5, length", r"edges\[1\]\.stiffness.*must not be negative, got -5"),
    ("mass: 0.03", "mass: 0", r"vertex 'right': mass must be positive, got 0"),
    ("left: {mass", "arm: {mass", r"no vertex named 'left'"),
    ("position: [0.4, -0.1, -0.2]", "position: [0.4, 0.1, -0.2]", r"edges\[2\].*must be positive, got 0 m"),
    ("stiffness: 1e4", "stiffness: -1e4", r"ground.*stiffness.*-10000"),
    ("normal: [0, 0, 2]", "normal: [0, 0, 0]", "normal must be"),
])
def test_wrong_soft_bodies_are_named(old, new, words):
    assert old in SOFT
    with pytest.raises(ProblemError, match=words):
        load_text(SOFT.replace(old, new, 1))
