"""``ocp ik`` as a user meets it: exit codes, the table, the folder, the picture and the page."""

import csv
import json
import re

import numpy as np
import pytest
from commands import call
from pages import Page
from repository import ROOT

import dynamics
from ocp.app.files.control.ik import load_ik, load_ik_text, solve_loaded
from ocp.app.files.load import load_text
from ocp.app.files.robot.states import configuration_by_name
from ocp.app.files.syntax.yaml_source import parse_source
from ocp.app.files.syntax.yaml_text import dump
from ocp.app.pages.ik_picture import AXES, ik_scene, marks
from ocp.app.pages.ik_report import verdict

FOLDER = ROOT / "problems"
STANCE, UR5 = str(FOLDER / "ik" / "quadruped_stance.yaml"), str(FOLDER / "ik" / "ur5_pose.yaml")


@pytest.fixture(scope="module")
def stance(tmp_path_factory):
    """The folder of a floating-base robot, written once."""
    out = tmp_path_factory.mktemp("ik") / "stance"
    assert call("ik", STANCE, "--out", str(out), "--quiet") == 0
    return out


def test_the_folder_is_complete(stance):
    names = {p.name for p in stance.iterdir()}
    assert names == {"ik.yaml", "configuration.yaml", "configuration.csv", "configuration.npz", "summary.json", "picture.png",
                     "report.html"}
    assert (stance / "picture.png").read_bytes().startswith(b"\x89PNG")
    summary = json.loads((stance / "summary.json").read_text())
    assert summary["ok"] is True
    assert [t["priority"] for t in summary["tasks"]] == [1, 1, 1, 1, 1, 2, 3]
    assert all(t["met"] for t in summary["tasks"] if t["priority"] == 1)
    assert summary["provenance"]["seed"] == 0
    assert summary["provenance"]["model"]["sha256"]


def test_the_configuration_meets_the_tasks_however_it_is_read(stance):
    """Forward kinematics of what the archive, the table and the mapping say."""
    loaded = load_ik(STANCE)
    with np.load(stance / "configuration.npz", allow_pickle=False) as archive:
        q, names = archive["q"], archive["names"].tolist()
        assert archive["path"][-1] == pytest.approx(q)
    assert names == list(loaded.model.coordinate_names)
    rows = list(csv.DictReader((stance / "configuration.csv").read_text().splitlines()))
    assert [float(row["solution"]) for row in rows] == q.tolist()
    assert [row["name"] for row in rows] == names
    assert all(float(r["lower"]) - 1e-9 <= float(r["solution"]) <= float(r["upper"]) + 1e-9 for r in rows)
    foot = np.array(dynamics.make_frame(loaded.model, "pose", "lf_foot")(q)[1]).ravel()
    assert foot == pytest.approx([0.26, 0.15, 0.12], abs=1e-7)
    pasted = parse_source((stance / "configuration.yaml").read_text(), "c").tree
    start = load_ik_text(dump({"name": "again", "robot": {"robot": "models/quadruped.urdf", "root": "free_flyer"}, "start": pasted,
                               "tasks": [{"joint": {"name": "lf_knee", "value": -1}}]}), FOLDER).start
    assert start == pytest.approx(q, abs=1e-12)


def test_the_configuration_is_a_start_of_a_problem(stance):
    pasted = parse_source((stance / "configuration.yaml").read_text(), "c").tree
    text = dump({"name": "from there", "system": {"robot": "models/quadruped.urdf", "root": "free_flyer"},
                 "phase": {"duration": 0.5, "start": {**pasted, "rest": True}, "costs": []}})
    start = load_text(text, FOLDER).problem.phase.start
    with np.load(stance / "configuration.npz") as archive:
        assert np.array(start.value)[:19] == pytest.approx(archive["q"], abs=1e-12)


def test_the_expanded_input_gives_the_same_answer(stance, tmp_path):
    text = (stance / "ik.yaml").read_text()
    outcome = solve_loaded(load_ik_text(text, FOLDER / "ik"))
    with np.load(stance / "configuration.npz") as archive:
        assert outcome.result.q == pytest.approx(archive["q"], abs=0)


def test_the_page_stands_alone_and_says_what_happened(stance):
    page = Page((stance / "report.html").read_text())
    assert all(source.startswith("data:") for source in page.links)
    words = " ".join(page.words)
    for expected in ("✓ Solved", "position of lf_foot", "best possible", "lf_knee", "quaternion:",
                     "Every task of the first priority is met"):
        assert expected in words
    scene = json.loads(page.script["scene"])
    assert scene["kind"] == "3d"
    assert {edge[2] for edge in scene["edges"]} >= {"link", "ground", *AXES}
    assert sum(dot[2] == "target" for dot in scene["dots"]) == 5  # four feet and the centre of mass


def test_names_cannot_break_the_page(tmp_path):
    out = tmp_path / "r"
    named = ("--set", "name=<script>alert(1)</script> $x$", "--set", "tasks[0].name=<b>t")
    assert call("ik", UR5, "--out", str(out), "--quiet", *named) == 0
    text = (out / "report.html").read_text()
    assert "<script>alert" not in text
    assert "<b>t" not in text


def test_the_scene_runs_from_start_to_solution_and_targets_stand_still():
    loaded = load_ik(UR5)
    outcome = solve_loaded(loaded)
    (mark,) = marks(loaded.model, outcome.result.q, loaded.tasks.tasks)
    assert mark.position == pytest.approx([0.35, 0.45, 0.25])
    assert mark.at == pytest.approx(mark.position, abs=1e-6)
    assert mark.rotation[:, 2] == pytest.approx([0, 0, -1], abs=1e-12)
    scene = ik_scene(loaded.model, loaded.start, outcome.result, (mark,))
    for frame, q in ((0, loaded.start), (-1, outcome.result.q)):
        elbow = np.array(dynamics.make_frame(loaded.model, "pose", "forearm_link")(q)[1]).ravel()
        assert np.linalg.norm(scene.points[frame] - elbow, axis=1).min() < 1e-9
    arms = [edge for edge in scene.edges if edge.role in AXES]
    assert len(arms) == 3
    for edge in arms:
        ends = scene.points[:, list(edge.points)]
        assert np.ptp(ends, axis=0).max() == 0.0
        assert ends[0, 0] == pytest.approx(mark.position)


def test_targets_stand_where_the_robot_arrives():
    """Axes of a pose in the axes of a moving frame, and an arrow along an alignment, agree with the robot that meets them."""
    model = f"name: a\nrobot: {FOLDER / 'models' / 'ur5.urdf'}\nstart: {{joints: {{elbow_joint: 1.2, shoulder_lift_joint: -1}}}}\n"
    loaded = load_ik_text(model + """tasks:
  - {priority: 1, name: turned, orientation: {frame: tool0, reference: forearm_link, rpy: [0.3, -0.4, 1.1]}}
  - {priority: 1, name: level, alignment: {frame: upper_arm_link, axis: [1, 0, 0], direction: [0.6, 0, 0.8]}}
  - {priority: 2, name: near, position: {frame: forearm_link, target: [0.1, 0.2, 0.5]}}
""", FOLDER)
    outcome = solve_loaded(loaded)
    assert outcome.ok
    q = outcome.result.q
    turned, level, near = marks(loaded.model, q, loaded.tasks.tasks)
    R, p = (np.array(v) for v in dynamics.make_frame(loaded.model, "pose", "tool0")(q))
    assert turned.rotation == pytest.approx(R, abs=1e-5)
    assert turned.position == pytest.approx(p.ravel())
    R, p = (np.array(v) for v in dynamics.make_frame(loaded.model, "pose", "upper_arm_link")(q))
    assert level.tip == pytest.approx(R[:, 0], abs=1e-5)
    assert near.position == pytest.approx([0.1, 0.2, 0.5])
    elbow = np.array(dynamics.make_frame(loaded.model, "pose", "forearm_link")(q)[1]).ravel()
    assert np.linalg.norm(near.at - near.position) == pytest.approx(outcome.result.residuals["near"], abs=1e-9)
    assert near.at == pytest.approx(elbow)


def test_the_table_is_printed_unless_quiet(tmp_path, capsys):
    assert call("ik", UR5, "--out", str(tmp_path / "a")) == 0
    words = capsys.readouterr().out
    assert re.search(r"tool\s+1\s+\S+e-\d+\s+m, rad\s+1.0e-06\s+met", words)
    assert "elbow above the table" in words
    assert call("ik", UR5, "--out", str(tmp_path / "b"), "--quiet") == 0
    words = capsys.readouterr().out
    assert "solved" in words
    assert "residual" not in words


def test_a_target_out_of_reach_exits_with_one_and_still_writes(tmp_path, capsys):
    out = tmp_path / "far"
    far = ("--set", "tasks=[{name: far, position: {frame: tool0, target: [3, 0, 0]}}]", "--set", "clearances=[]",
           "--set", "options.restarts=1")
    assert call("ik", UR5, "--out", str(out), *far) == 1
    words = capsys.readouterr().out
    assert "not solved" in words
    assert "'far'" in words
    summary = json.loads((out / "summary.json").read_text())
    assert summary["ok"] is False
    assert summary["tasks"][0]["residual"] > 1.0
    assert "✗ Not solved" in (out / "report.html").read_text()


def test_bad_input_exits_with_two_and_leaves_nothing(tmp_path, capsys):
    out = tmp_path / "r"
    assert call("ik", UR5, "--out", str(out), "--set", "tasks.tool.pose.frame=tol0") == 2
    error = capsys.readouterr().err
    assert "--set tasks.tool.pose.frame=tol0: tasks[0].pose.frame: no frame named 'tol0'; did you mean 'tool0'" in error
    assert not out.exists()
    assert call("ik", str(tmp_path / "absent.yaml")) == 2
    assert call("ik", str(FOLDER / "block_move.yaml")) == 2
    assert "run: ocp solve" in capsys.readouterr().err
    assert call("solve", UR5) == 2
    assert "run: ocp ik" in capsys.readouterr().err


def test_folders_are_replaced_only_on_demand_and_never_those_of_others(stance, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call("ik", UR5, "--out", str(stance)) == 2
    assert "already holds a run" in capsys.readouterr().err
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("x")
    assert call("ik", UR5, "--out", str(mine), "--overwrite") == 2
    assert (mine / "thesis.txt").read_text() == "x"
    for _ in range(2):  # the default place is replaced
        assert call("ik", UR5, "--quiet") == 0
    assert (tmp_path / "results" / "ur5_pose-ik" / "report.html").is_file()
    # a folder of inverse kinematics is not a run that solve may replace
    assert call("solve", str(FOLDER / "block_move.yaml"), "--quiet", "--out", "results/ur5_pose-ik", "--overwrite") == 2
    assert (tmp_path / "results" / "ur5_pose-ik" / "picture.png").is_file()


def test_check_knows_the_file(capsys):
    assert call("check", STANCE) == 0
    words = capsys.readouterr().out
    assert "valid, a file of inverse kinematics" in words
    assert "priority 2: trunk leans with the step" in words


def test_every_joint_kind_has_its_form_in_the_mapping():
    from dynamics import algorithms as alg
    from dynamics.model import BodyInertia, Builder, Joint

    inertia = BodyInertia(1.0, (0, 0, 0.1), ((0.1, 0, 0), (0, 0.1, 0), (0, 0, 0.1)))
    builder = Builder("mixed")
    builder.body("trunk", parent="world", joint=Joint("float", "free_flyer"), inertia=inertia)
    builder.body("ball", parent="trunk", joint=Joint("ball_joint", "spherical"), inertia=inertia)
    builder.body("slide", parent="ball", joint=Joint("flat", "planar"), inertia=inertia)
    model = builder.build()
    q = alg.random_configuration(model, np.random.default_rng(4))
    mapping = configuration_by_name(model, q)
    assert mapping["base"]["position"] == pytest.approx(q[:3])
    assert list(mapping["base"]["quaternion"].values()) == pytest.approx(q[3:7])
    assert list(mapping["joints"]["ball_joint"]["quaternion"].values()) == pytest.approx(q[model.q_slice(1)])
    assert mapping["joints"]["flat"] == pytest.approx(q[model.q_slice(2)])


def test_the_verdict_names_what_is_broken():
    """A tool that has to be inside a ball cannot keep clear of it."""
    outcome = solve_loaded(load_ik_text(
        f"name: a\nrobot: {FOLDER / 'models' / 'ur5.urdf'}\n"
        "tasks: [{name: t, position: {frame: tool0, target: [0.4, 0, 0.2]}}]\n"
        "clearances: [{name: inside, first: {sphere: {frame: tool0, radius: 0.1}}, second: {sphere: {frame: world, radius: 0.1, "
        "centre: [0.4, 0, 0.2]}}}]\noptions: {restarts: 1}\n"))
    assert not outcome.ok
    room = outcome.result.clearances["inside"]
    assert outcome.broken == ((f"inside is {-room:.3g} m too close",) if room < -1e-9 else ())
    assert outcome.unmet == (("t",) if outcome.result.residuals["t"] > 1e-6 else ())
    words = verdict(outcome)
    assert all(name in words for name in outcome.unmet)
    assert all(line[1:] in words for line in outcome.broken)


FIVE_BAR = """<mujoco><compiler angle="radian"/><worldbody>
<body name="la" pos="-0.1 0 0.5"><joint name="ql" axis="0 1 0"/><geom type="capsule" size="0.01" fromto="0 0 0 -0.2 0 0"/>
<body name="lb" pos="-0.2 0 0"><joint name="pl" axis="0 1 0"/><geom type="capsule" size="0.01" fromto="0 0 0 0.3 0 -0.25"/>
<site name="tip" pos="0.3 0 -0.25"/></body></body>
<body name="ra" pos="0.1 0 0.5"><joint name="qr" axis="0 1 0"/><geom type="capsule" size="0.01" fromto="0 0 0 0.2 0 0"/>
<body name="rb" pos="0.2 0 0"><joint name="pr" axis="0 1 0"/><geom type="capsule" size="0.01" fromto="0 0 0 -0.3 0 -0.25"/></body>
</body></worldbody><equality><connect name="close" body1="lb" body2="rb" anchor="0.3 0 -0.25"/></equality></mujoco>"""
REACH = """
name: five bar
robot: five_bar.xml
start: {joints: {ql: 0, pl: 0, qr: 0, pr: 0}}
tasks:
  - {name: tip, position: {frame: tip, target: [%g, 0, %g]}}
"""


@pytest.fixture
def reaching(tmp_path):
    pytest.importorskip("mujoco")

    def search(x, z, robot=FIVE_BAR):
        (tmp_path / "five_bar.xml").write_text(robot)
        return solve_loaded(load_ik_text(REACH % (x, z), tmp_path))

    return search


def chain(q, p, side):
    """Where a half of the five-bar ends, by turning its links about y: R(a) (x, z) = (x cos a + z sin a, z cos a - x sin a)."""
    def turn(a, x, z):
        return np.array([x * np.cos(a) + z * np.sin(a), z * np.cos(a) - x * np.sin(a)])
    return np.array([side * 0.1, 0.5]) + turn(q, side * 0.2, 0.0) + turn(q + p, -side * 0.3, -0.25)


@pytest.mark.parametrize(("target", "reached"), [((0.05, 0.2), True), ((0.0, 0.12), True), ((0.9, 0.2), False)])
def test_loops_are_closed_where_the_tip_is_on_its_target(reaching, target, reached):
    outcome = reaching(*target)
    assert outcome.ok is reached
    ql, pl, qr, pr = outcome.result.q
    if reached:
        assert chain(ql, pl, -1) == pytest.approx(target, abs=1e-6)
        assert chain(qr, pr, 1) == pytest.approx(target, abs=1e-6)
    else:
        assert "tip" in outcome.unmet


def test_a_loop_that_cannot_be_closed_is_reported(reaching):
    outcome = reaching(0.05, 0.2, FIVE_BAR.replace('"ra" pos="0.1', '"ra" pos="2.1'))
    assert not outcome.ok
    assert any("'close' open by" in words for words in outcome.broken)
    assert "open by" in verdict(outcome)


def test_a_starter_asks_for_a_place_that_the_closed_loop_reaches(tmp_path):
    pytest.importorskip("mujoco")
    (tmp_path / "five_bar.xml").write_text(FIVE_BAR)
    assert call("init", tmp_path / "five_bar.xml", "--ik", "--frame", "tip", "--out", tmp_path / "ik.yaml") == 0
    outcome = solve_loaded(load_ik(tmp_path / "ik.yaml"))
    assert outcome.ok
    ql, pl, qr, pr = outcome.result.q
    assert chain(ql, pl, -1) == pytest.approx(chain(qr, pr, 1), abs=1e-6)
