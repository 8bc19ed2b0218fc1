"""Inverse-kinematics files: what they mean, and that every mistake gets its place, what was expected and what is near."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from repository import ROOT
from scipy.spatial.transform import Rotation

import dynamics
from ocp.app.files.control.ik import load_ik, load_ik_text, solve_loaded
from ocp.app.files.load import load_problem, load_text
from ocp.app.files.syntax.findings import ProblemFileError
from ocp.errors import ProblemError

FOLDER = ROOT / "problems"

GOOD = """\
name: Arm
constants: {reach: 0.5}
robot: {robot: arm.urdf}
start:
  joints: {shoulder: 0.1, elbow: 0.6, wrist: 0}
tasks:
  - {name: tip, priority: 1, position: {frame: hand, target: [0, 0.3, reach]}}
  - {name: nose, priority: 2, alignment: {frame: hand, axis: [0, 0, 1], direction: [0, 1, 0]}}
  - {name: rest, priority: 3, posture: {joints: {elbow: 0.5}}}
limits: {position: true}
options: {tolerance: 1e-7, restarts: 4, max_iterations: 40, seed: 3}
"""
INERTIA = '<inertial><mass value="1"/><inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>'


def arm_urdf() -> str:
    joints = "".join(
        f'<joint name="{name}" type="revolute"><parent link="{parent}"/><child link="{child}"/><origin xyz="0 0 {at}"/>'
        f'<axis xyz="1 0 0"/><limit lower="-2" upper="2" velocity="3" effort="10"/></joint>'
        for name, parent, child, at in (("shoulder", "base", "upper", 0), ("elbow", "upper", "lower", 0.3),
                                        ("wrist", "lower", "palm", 0.3)))
    links = "".join(f'<link name="{name}">{INERTIA}</link>' for name in ("base", "upper", "lower", "palm"))
    return (f'<robot name="arm">{links}<link name="hand"/>{joints}<joint name="tip" type="fixed"><parent link="palm"/>'
            '<child link="hand"/><origin xyz="0 0 0.1"/></joint></robot>')


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "arm.urdf").write_text(arm_urdf())
    return tmp_path


def solved(text: str, folder: Path):
    loaded = load_ik_text(text, folder)
    return loaded, solve_loaded(loaded)


# ---- what a file means --------------------------------------------------------------------------------------------------
def test_tasks_limits_and_options_arrive(place):
    loaded, outcome = solved(GOOD, place)
    assert [[task.name for task in level] for level in loaded.tasks.levels] == [["tip"], ["nose"], ["rest"]]
    assert loaded.tolerances == (1e-7,) * 3
    assert loaded.start == pytest.approx([0.1, 0.6, 0.0])
    assert outcome.ok
    q = outcome.result.q
    # forward kinematics by hand: a planar chain that turns about x
    angles = np.cumsum(q)
    tip = sum(length * np.array([0.0, -math.sin(a), math.cos(a)]) for length, a in zip((0.3, 0.3, 0.1), angles, strict=True))
    assert tip == pytest.approx([0.0, 0.3, 0.5], abs=1e-7)


def test_without_priorities_the_order_decides(place):
    text = GOOD
    for k in (1, 2, 3):
        text = text.replace(f"priority: {k}, ", "")
    assert [len(level) for level in load_ik_text(text, place).tasks.levels] == [1, 1, 1]
    equal = GOOD.replace("priority: 2", "priority: 1").replace("priority: 3", "priority: 7")
    assert [[t.name for t in level] for level in load_ik_text(equal, place).tasks.levels] == [["tip", "nose"], ["rest"]]
    # a later entry of the list may rank first; its own tolerance goes with it
    turned = GOOD.replace("priority: 1", "priority: 9").replace("priority: 3", "priority: 1")
    turned = turned.replace("name: rest,", "name: rest, tolerance: 0.01,")
    loaded = load_ik_text(turned, place)
    assert [t.name for t in loaded.tasks.tasks] == ["rest", "nose", "tip"]
    assert loaded.tolerances == (0.01, 1e-7, 1e-7)
    assert loaded.tasks.indices == (2, 1, 0)


def test_every_kind_of_task_and_rotation_form(place):
    R = Rotation.from_rotvec([-0.7, 0, 0])
    forms = [f"rpy: {R.as_euler('xyz').tolist()}", "axis_angle: {axis: [-2, 0, 0], angle: 0.7}",
             "quaternion: {{w: {3}, x: {0}, y: {1}, z: {2}}}".format(*R.as_quat())]
    for form in forms:
        text = f"name: a\nrobot: arm.urdf\ntasks:\n  - orientation: {{frame: hand, {form}}}\n"
        _, outcome = solved(text, place)
        assert outcome.ok
        assert outcome.result.q.sum() == pytest.approx(-0.7, abs=1e-6)
    q = np.array([-0.4, 0.9, -0.2])
    model = load_ik_text(GOOD, place).model
    pose, p = (np.array(v) for v in dynamics.make_frame(model, "pose", "hand")(q))
    rpy = Rotation.from_matrix(pose).as_euler("xyz").tolist()
    head = "name: a\nrobot: arm.urdf\nstart: {joints: {shoulder: -0.3, elbow: 0.7, wrist: 0}}\ntasks:\n"
    for task in (f"pose: {{frame: hand, position: {p.ravel().tolist()}, rpy: {rpy}}}",
                 "posture: {joints: {shoulder: -0.4, elbow: 0.9, wrist: -0.2}}"):
        _, outcome = solved(f"{head}  - {task}\n", place)
        assert outcome.result.q == pytest.approx(q, abs=1e-5)
    _, outcome = solved(head + "  - joint: {name: elbow, value: {deg: 30}}\n", place)
    assert outcome.result.q[1] == pytest.approx(math.pi / 6)
    centre = np.array(dynamics.make(model, "centre_of_mass")(q)).ravel()
    _, outcome = solved(head + f"  - com: {{target: {centre.tolist()}}}\n", place)
    assert np.array(dynamics.make(model, "centre_of_mass")(outcome.result.q)).ravel() == pytest.approx(centre, abs=1e-5)
    _, outcome = solved(head + "  - aim: {frame: hand, axis: [0, 0, 1], point: [0, 5, 5]}\n", place)
    R, p = (np.array(v) for v in dynamics.make_frame(model, "pose", "hand")(outcome.result.q))
    line = np.array([0, 5, 5]) - p.ravel()
    assert R[:, 2] == pytest.approx(line / np.linalg.norm(line), abs=1e-5)


def test_a_reference_and_components(place):
    text = ("name: a\nrobot: arm.urdf\ntasks:\n"
            "  - position: {frame: hand, reference: lower, target: [0, 0.05, 0], components: [y]}\n")
    _, outcome = solved(text, place)
    assert outcome.ok
    assert -0.1 * math.sin(outcome.result.q[2]) == pytest.approx(0.05, abs=1e-6)


def test_limits_hold_unless_they_are_off(place):
    text = "name: a\nrobot: arm.urdf\ntasks:\n  - joint: {name: elbow, value: 2.5}\n"
    with pytest.raises(ProblemError, match=r"ik.yaml:4:33: tasks\[0\].joint.value: 'q.elbow' is 2.5, outside its bounds \[-2, 2\]"):
        load_ik_text(text, place)
    _, outcome = solved(text + "limits: {position: false}\n", place)
    assert outcome.result.q[1] == pytest.approx(2.5)
    far = ("name: a\nrobot: arm.urdf\ntasks:\n  - orientation: {frame: lower, axis_angle: {axis: [1, 0, 0], angle: 3.1}}\n"
           "options: {restarts: 2}\n")
    _, outcome = solved(far, place)
    assert outcome.ok  # two joints reach together what one cannot
    assert np.all(np.abs(outcome.result.q) <= 2.0)


def test_an_unreachable_target_is_not_solved(place):
    _, outcome = solved(GOOD.replace("[0, 0.3, reach]", "[0, 0, 2]").replace("restarts: 4", "restarts: 1"), place)
    assert not outcome.ok
    assert outcome.unmet == ("tip",)
    assert outcome.result.residuals["tip"] == pytest.approx(1.3, abs=1e-3)  # the arm is 0.7 m long


def test_clearances_keep_shapes_apart(place):
    text = """\
name: a
robot: arm.urdf
start: {joints: {shoulder: -0.5, elbow: 0.4, wrist: 0.3}}
tasks:
  - {position: {frame: hand, target: [0, 0.45, 0.2]}}
clearances:
  - name: elbow and ball
    first: {sphere: {frame: lower, radius: 0.05}}
    second: {sphere: {frame: world, radius: 0.05, centre: [0, 0.3, 0.1]}}
    margin: 0.02
"""
    loaded, outcome = solved(text, place)
    assert outcome.ok, outcome.broken
    elbow = np.array(dynamics.make_frame(loaded.model, "pose", "lower")(outcome.result.q)[1]).ravel()
    room = np.linalg.norm(elbow - [0, 0.3, 0.1]) - 0.1 - 0.02
    assert outcome.result.clearances["elbow and ball"] == pytest.approx(room, abs=1e-9)
    assert room >= -1e-9


def test_expanded_file_asks_the_same(place):
    loaded, outcome = solved(GOOD, place)
    again, twice = solved(loaded.expanded(), place)
    assert again.file == loaded.file
    assert twice.result.q == pytest.approx(outcome.result.q, abs=0)


@pytest.mark.parametrize("path", sorted((FOLDER / "ik").glob("*.yaml")), ids=lambda p: p.stem)
def test_shipped_files_are_solved(path):
    loaded = load_ik(path)
    outcome = solve_loaded(loaded)
    assert outcome.ok, (outcome.unmet, outcome.broken, outcome.result.message)
    assert loaded.file.description
    assert loaded.file.source


def test_the_second_priority_is_at_its_best_within_the_first():
    """Along the one motion that leaves the hand where it is, the distance to the posture is stationary, and grows both ways."""
    loaded = load_ik(FOLDER / "ik" / "panda_priorities.yaml")
    outcome = solve_loaded(loaded)
    assert outcome.result.levels == ("met", "best possible")
    q, target = outcome.result.q, loaded.tasks.tasks[1].target
    J = np.array(dynamics.make_frame(loaded.model, "jacobian", "panda_hand", "body")(q))
    n = np.linalg.svd(J)[2][-1]
    assert abs((q - target) @ n) < 1e-5
    best = np.linalg.norm(q - target)
    # the pose holds along the null space to first order only; second-order drift is far below the growth of the distance
    assert np.linalg.norm(outcome.loaded.start - target) > best
    assert all(np.linalg.norm(q + s * n - target) > best for s in (0.05, -0.05))


# ---- mistakes -----------------------------------------------------------------------------------------------------------
MISTAKES = [
    ("unknown key", ("options:", "option:"), "11:1: option: unknown key; did you mean 'options' or"),
    ("no tasks", ("tasks:\n", "task:\n"), "6:1: task: unknown key; did you mean 'tasks'?"),
    ("tasks empty", (GOOD[GOOD.index("tasks:"):GOOD.index("limits:")], "tasks: []\n"),
     "6:8: tasks: expected at least 1 entry, got 0"),
    ("robot missing", ("robot: {robot: arm.urdf}\n", ""), "1:1: the key 'robot' is missing (the robot: path of its file"),
    ("robot of another kind", ("robot: {robot: arm.urdf}", "robot: 3"),
     "3:8: robot: expected the path of a robot file, robots:NAME, or a mapping with the key 'robot'; got the number 3"),
    ("no such robot", ("arm.urdf", "arn.urdf"), "3:16: robot.robot: no file"),
    ("robot key", ("{robot: arm.urdf}", "{robot: arm.urdf, rot: fixed}"),
     "3:26: robot.rot: unknown key; did you mean 'root' or 'robot'?"),
    ("root", ("{robot: arm.urdf}", "{robot: arm.urdf, root: free}"),
     "3:32: robot.root: expected one of fixed, free_flyer, planar; got the text 'free'"),
    ("start joint", ("{shoulder: 0.1,", "{sholder: 0.1,"),
     "5:12: start.joints.sholder: no joint that moves named 'sholder'; did you mean 'shoulder'?"),
    ("start outside", ("elbow: 0.6", "elbow: 6"), "5:34: start.joints.elbow: 'q.elbow' is 6, outside its bounds [-2, 2]"),
    ("start velocity", ("start:\n", "start:\n  rest: true\n"),
     "5:3: start.rest: unknown key (known: base, configuration, joints)"),
    ("start base", ("  joints: {shoulder: 0.1", "  base: {position: [0, 0, 1]}\n  joints: {shoulder: 0.1"),
     "5:3: start.base: the robot has no floating base; it needs robot.root: free_flyer"),
    ("configuration", ("start:\n", "start:\n  configuration: home\n"),
     "5:18: start.configuration: no configuration named 'home'; the robot file comes with none (set robot.srdf)"),
    ("two kinds",
     ("position: {frame: hand, target: [0, 0.3, reach]}}",
      "position: {frame: hand, target: [0, 0, 1]}, com: {target: [0, 0, 0]}}"),
     "7:5: tasks[0]: needs exactly one of pose, position, orientation, com, posture, joint, alignment, aim; found posit"
     "ion and com"),
    ("no kind", (", posture: {joints: {elbow: 0.5}}", ""), "9:5: tasks[2]: needs exactly one of pose, position, orientation"),
    ("unknown kind", ("position: {frame", "positon: {frame"),
     "7:30: tasks[0].positon: unknown key; did you mean 'position' or"),
    ("frame", ("{frame: hand, target", "{frame: hnd, target"),
     "7:48: tasks[0].position.frame: no frame named 'hnd'; did you mean 'hand'?"),
    ("frame missing", ("{frame: hand, target", "{target"),
     "7:40: tasks[0].position: the key 'frame' is missing (frame of the robot)"),
    ("frame stands still", ("{frame: hand, target", "{frame: base, target"),
     "the frame 'base' does not move relative to 'world'"),
    ("target size", ("[0, 0.3, reach]", "[0, 0.3]"), "7:62: tasks[0].position.target: expected at least 3 entries, got 2"),
    ("constant", ("[0, 0.3, reach]", "[0, 0.3, rech]"),
     "7:71: tasks[0].position.target[2]: unknown name 'rech'; did you mean 'reach'?"),
    ("component", ("target: [0, 0.3, reach]", "target: [0, 0.3, reach], components: [x, w]"),
     "tasks[0].position.components[1]: expected one of x, y, z; got the text 'w'"),
    ("component twice", ("target: [0, 0.3, reach]", "target: [0, 0.3, reach], components: [x, x]"),
     "tasks[0].position.components[1]: 'x' is listed twice"),
    ("axis", ("axis: [0, 0, 1]", "axis: [0, 0, 0]"), "tasks[1].alignment.axis: the axis is zero"),
    ("direction", ("direction: [0, 1, 0]", "direction: [0, 0, 0]"), "tasks[1].alignment.direction: the direction is zero"),
    ("posture joint", ("{elbow: 0.5}", "{elbw: 0.5}"),
     "9:50: tasks[2].posture.joints.elbw: no joint that moves named 'elbw'; did you mean 'elbow'?"),
    ("posture empty", ("posture: {joints: {elbow: 0.5}}", "posture: {}"),
     "9:40: tasks[2].posture: names no joint; give joints, configuration or base"),
    ("joint name", ("posture: {joints: {elbow: 0.5}}", "joint: {name: elbo, value: 1}"),
     "9:45: tasks[2].joint.name: no joint that moves named 'elbo'; did you mean 'elbow'?"),
    ("weight", ("name: tip,", "name: tip, weight: 0,"),
     "7:25: tasks[0].weight: must be positive, got 0; leave the task or the component out instead"),
    ("weights", ("name: tip,", "name: tip, weight: [1, 2],"),
     "7:25: tasks[0].weight: 2 values for 3 components of the error"),
    ("task tolerance", ("name: tip,", "name: tip, tolerance: -1,"), "7:28: tasks[0].tolerance: must be positive, got -1"),
    ("name twice", ("name: nose", "name: tip"), "8:12: tasks[1].name: the name 'tip' is already used by tasks[0]"),
    ("priority zero", ("priority: 1", "priority: 0"), "7:27: tasks[0].priority: must be at least 1, got 0"),
    ("priority word", ("priority: 1", "priority: high"),
     "7:27: tasks[0].priority: expected a whole number; got the text 'high'"),
    ("priority of some", ("priority: 2, ", ""),
     "8:5: tasks[1]: has no priority, but other tasks have one; give it for all tasks or for none"),
    ("bare rotation",
     ("alignment: {frame: hand, axis: [0, 0, 1], direction: [0, 1, 0]}",
      "orientation: {frame: hand, quaternion: [1, 0, 0, 0]}"),
     "tasks[1].orientation.quaternion: a bare list is never a rotation"),
    ("no rotation",
     ("alignment: {frame: hand, axis: [0, 0, 1], direction: [0, 1, 0]}",
      "pose: {frame: hand, position: [0, 0, 1]}"),
     "tasks[1].pose: needs exactly one of rpy, quaternion, axis_angle; found none"),
    ("tolerance", ("tolerance: 1e-7", "tolerance: 0"), "11:22: options.tolerance: must be positive, got 0"),
    ("restarts", ("restarts: 4", "restarts: -4"), "11:38: options.restarts: must not be negative, got -4"),
    ("seed", ("seed: 3", "seed: 1.5"), "options.seed: expected a whole number; got the number 1.5"),
    ("limits", ("{position: true}", "{position: 1}"), "10:20: limits.position: expected true or false; got the number 1"),
    ("clearance and priorities",
     ("limits:",
      "clearances: [{first: {sphere: {frame: hand, radius: 0.1}}, second: {half_space: {normal: [0, 0, 1]}}}]\nlimits:"),
     "10:1: clearances: go with one priority, the tasks have 3"),
    ("half-space first",
     ("limits:",
      "clearances: [{first: {half_space: {normal: [0, 0, 1]}}, second: {sphere: {frame: hand, radius: 0.1}}}]\nlimits:"),
     "10:14: clearances[0]: a half-space must be the second shape"),
    ("clearance shape",
     ("limits:",
      "clearances: [{first: {ball: {frame: hand, radius: 0.1}}, second: {half_space: {normal: [0, 0, 1]}}}]\nlimits:"),
     "10:23: clearances[0].first.ball: unknown key (known: capsule, half_space, sphere)"),
    ("clearance radius",
     ("limits:",
      "clearances: [{first: {sphere: {frame: hand, radius: -1}}, second: {half_space: {normal: [0, 0, 1]}}}]\nlimits:"),
     "clearances[0].first.sphere.radius: must not be negative, got -1 m"),
    ("clearance of one body",
     ("limits:",
      "clearances: [{first: {sphere: {frame: hand, radius: 0.1}}, second: {sphere: {frame: palm, radius: 0.1}}}]\nlimits"
      ":"),
     "'hand' and 'palm' do not move relative to each other"),
]


@pytest.mark.parametrize(("change", "words"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES])
def test_one_mistake_one_message(place, change, words):
    old, new = change
    assert GOOD.count(old) == 1, "the change must be unambiguous"
    (place / "p.yaml").write_text(GOOD.replace(old, new))
    with pytest.raises(ProblemError) as caught:
        load_ik(place / "p.yaml")
    message = str(caught.value)
    assert words in message
    assert message.startswith(f"{place / 'p.yaml'}:")
    assert "pydantic" not in message
    if isinstance(caught.value, ProblemFileError):
        assert len(caught.value.findings) == 1, caught.value.findings


def test_all_mistakes_are_listed_at_once_in_the_order_of_the_file(place):
    text = GOOD.replace("elbow: 0.6", "elbow: 6").replace("{frame: hand, target", "{frame: hnd, target")
    text = text.replace("restarts: 4", "restarts: -4")
    with pytest.raises(ProblemFileError) as caught:
        load_ik_text(text, place, "a.yaml")
    places = [line.split(": ")[1] for line in caught.value.findings]
    assert places == ["start.joints.elbow", "tasks[0].position.frame", "options.restarts"]


def test_the_two_kinds_of_file_know_each_other(place):
    with pytest.raises(ProblemError, match="is a file of inverse kinematics .* run: ocp ik"):
        load_text(GOOD, place)
    with pytest.raises(ProblemError, match="is a problem file .* run: ocp solve"):
        load_ik(FOLDER / "block_move.yaml")


# ---- as initial guess ---------------------------------------------------------------------------------------------------
GUESS = """\
name: Arm
system: {robot: arm.urdf}
phase:
  duration: 1
  start: {joints: {shoulder: -0.3, elbow: 0.7, wrist: 0}, rest: true}
  costs: []
  bounds: {joints: {elbow: [0.2, 1.5]}}
  guess:
    states:
      - {}
      - ik:
          - {name: tip, position: {frame: hand, target: [0, 0.3, 0.5]}}
          - {posture: {joints: {wrist: 0.4}}}
        rest: true
"""


def test_a_guess_by_inverse_kinematics(place):
    loaded = load_text(GUESS, place)
    guess = loaded.problem.phase.guess
    assert guess.x[0] == pytest.approx([-0.3, 0.7, 0, 0, 0, 0])
    q = guess.x[-1][:3]
    tip = np.array(dynamics.make_frame(loaded.model, "pose", "hand")(q)[1]).ravel()
    assert tip == pytest.approx([0, 0.3, 0.5], abs=1e-6)
    assert 0.2 <= q[1] <= 1.5
    assert guess.x[-1][3:] == pytest.approx(0.0)


def test_a_guess_keeps_the_bounds_of_the_phase(place):
    """The elbow bends the other way where the bounds ask for it: both answers are those of the two-link triangle."""
    text = GUESS.replace("          - {posture: {joints: {wrist: 0.4}}}\n", "          - {joint: {name: wrist, value: 0}}\n")
    up = load_text(text, place).problem.phase.guess.x[-1][:3]
    text = text.replace("[0.2, 1.5]", "[-1.5, -0.2]").replace("elbow: 0.7", "elbow: -0.7")
    down = load_text(text, place).problem.phase.guess.x[-1][:3]
    # law of cosines: links of 0.3 m and 0.4 m to a point sqrt(0.34) m away
    bend = math.acos((0.34 - 0.3**2 - 0.4**2) / (2 * 0.3 * 0.4))
    assert up == pytest.approx([up[0], bend, 0], abs=1e-5)
    assert down == pytest.approx([down[0], -bend, 0], abs=1e-5)


def test_a_guess_that_cannot_be_found_names_its_task(place):
    with pytest.raises(ProblemError) as caught:
        load_text(GUESS.replace("[0, 0.3, 0.5]", "[0, 0, 2]"), place)
    message = str(caught.value)
    assert message.startswith("problem.yaml:12:13: phase.guess.states[1].ik[0]: inverse kinematics cannot meet the task 'tip': "
                              "its residual is 1.3")
    with pytest.raises(ProblemError, match=r"states\[1\].ik\[0\].position.frame: no frame named 'hnd'; did you mean 'hand'"):
        load_text(GUESS.replace("frame: hand", "frame: hnd"), place)


def test_the_panda_guess_meets_the_constraint_at_the_end():
    loaded = load_problem(FOLDER / "panda_reach.yaml")
    phase = loaded.problem.phase
    (hand,) = phase.constraints
    value = np.array(hand.function(0.0, phase.guess.x[-1], np.zeros(7), [])).ravel()
    assert np.abs(value).max() < 1e-6
