"""Problem files turned into mathematics: values, boundaries, bounds, guesses, overrides, and the way back to YAML."""

from __future__ import annotations

import dataclasses
import json
import math
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from repository import ROOT
from scipy.spatial.transform import Rotation

from ocp.app.files.load import LoadedProblem, load_problem, load_text, parse_overrides
from ocp.app.files.problem.schema import SymbolicProblem, problem_json_schema, to_yaml
from ocp.app.files.problem.sections_schema import Solve
from ocp.app.pages.scene import Disc, Polyline, scene_from_drawing
from ocp.certify import Tolerances
from ocp.errors import ProblemError
from ocp.methods import METHODS
from ocp.options import flat
from ocp.problem import INF, At, Cost, Sense

PENDULUM = """\
name: Pendulum
description: |
  Swing up: from rest
  to upright.
source: "a book, section 2"
reference: {objective: 2*pi, tolerance: 1e-3, source: closed form}
constants: {m: 1.5, l: 0.5, g: 9.81, inertia: m*l**2, tilt: {deg: 30}, "no": 0}
system:
  states: {theta: rad, omega: rad/s}
  controls: {torque: N m}
  define: {height: -l*cos(theta), kinetic: inertia*omega**2/2}
  dynamics: {theta: omega, omega: torque/inertia - g/l*sin(theta)}
  energy: kinetic + m*g*height
  power: torque*omega
drawing:
  points: {pivot: [0, 0], bob: [l*sin(theta), height]}
  segments: [[pivot, bob]]
  circles: [{at: bob, radius: 0.05}]
  boxes: [{at: pivot, size: [0.1, 0.2]}]
  trace: [bob, pivot]
phase:
  duration: {lower: 0.5, upper: 4}
  start: {theta: tilt, omega: 0}
  final: {theta: pi}
  bounds: {theta: [null, 4], torque: [-5, 2*m]}
  costs:
    - {name: effort, running: torque**2 + t}
    - {name: time, final: 3*t}
    - {name: track, running_residual: [theta - pi, omega], weights: 4}
    - {name: end, final_residual: "[omega, 2*omega]", weights: [1, 10]}
  constraints:
    - {name: ceiling, expression: height, upper: [0.6]}
    - {name: arrive, at: final, expression: [height, omega], equal: [l, 0]}
    - {name: window, at: start, expression: [theta, omega], lower: [null, -1], upper: 2, soft: 100}
  guess:
    states: {theta: [0, 1, pi]}
    controls: {torque: [1, 2]}
solve: {method: ilqr, ilqr: {intervals: 2*25, tolerance: 1e-6}}
accept: {gap_segment: 1e-4}
"""


def value(function: Any, *arguments: Any) -> np.ndarray:
    return np.asarray(function(*arguments)).ravel()


def price(cost: Cost, *arguments: Any) -> float:
    return float(cost.expression(*arguments))


@pytest.fixture(scope="module")
def pendulum() -> LoadedProblem:
    return load_text(PENDULUM)


# ---- symbolic systems ---------------------------------------------------------------------------------------------------
def test_dynamics_and_costs_are_the_written_formulas(pendulum: LoadedProblem) -> None:
    phase, inertia = pendulum.problem.phase, 1.5 * 0.25
    t, x, u = 0.7, np.array([0.4, -1.2]), np.array([0.9])
    assert value(phase.system.rate, t, x, u, []) == pytest.approx([-1.2, 0.9 / inertia - 9.81 / 0.5 * math.sin(0.4)])
    effort, time, track, end = phase.costs
    assert [c.at for c in phase.costs] == [At.PATH, At.FINAL, At.PATH, At.FINAL]
    assert price(effort, t, x, u, []) == pytest.approx(0.81 + 0.7)
    assert price(time, t, x, u, []) == pytest.approx(2.1)
    assert price(track, t, x, u, []) == pytest.approx(0.5 * 4 * ((0.4 - math.pi) ** 2 + 1.44))
    assert price(end, t, x, u, []) == pytest.approx(0.5 * (1.44 + 10 * 4 * 1.44))


def test_energy_changes_by_the_supplied_power(pendulum: LoadedProblem) -> None:
    # dE/dt along the dynamics by a central difference against the power expression
    system = pendulum.problem.phase.system
    assert system.energy is not None
    x, u, h = np.array([0.4, -1.2]), np.array([0.9]), 1e-6
    rate = value(system.rate, 0, x, u, [])
    slope = (value(system.energy, 0, x + h * rate, u, []) - value(system.energy, 0, x - h * rate, u, [])) / (2 * h)
    assert slope == pytest.approx(value(system.power, 0, x, u, []), rel=1e-8)


def test_constraints_with_their_sense_bounds_and_places(pendulum: LoadedProblem) -> None:
    ceiling, arrive, window = pendulum.problem.phase.constraints
    assert (ceiling.at, ceiling.sense, ceiling.soft) == (At.PATH, Sense.BOX, None)
    assert (ceiling.lower, ceiling.upper) == ((-INF,), (0.6,))
    assert (arrive.at, arrive.sense, arrive.lower, arrive.upper) == (At.FINAL, Sense.EQUAL, (0.5, 0.0), (0.5, 0.0))
    assert (window.at, window.lower, window.upper, window.soft) == (At.START, (-INF, -1.0), (2.0, 2.0), 100.0)
    assert ceiling.where == "problem.yaml:32:7: phase.constraints[0]"
    assert value(arrive.function, 0, [0.4, -1.2], [0.0], []) == pytest.approx([-0.5 * math.cos(0.4), -1.2])


def test_boundaries_bounds_duration_and_reference(pendulum: LoadedProblem) -> None:
    problem, phase = pendulum.problem, pendulum.problem.phase
    assert phase.start is not None
    assert phase.final is not None
    assert phase.start.value == pytest.approx((math.pi / 6, 0.0))
    assert phase.start.fixed == (True, True)
    assert phase.final.value[0] == math.pi
    assert phase.final.fixed == (True, False)
    assert (phase.x_lower, phase.x_upper) == ((-INF, -INF), (4.0, INF))
    assert (phase.u_lower, phase.u_upper) == ((-5.0,), (3.0,))
    assert (phase.duration.lower, phase.duration.upper, phase.duration.guess) == (0.5, 4.0, 2.25)
    assert problem.reference is not None
    assert (problem.reference.objective, problem.reference.tolerance) == (2 * math.pi, 1e-3)
    assert problem.description == "Swing up: from rest\nto upright.\n"
    assert phase.system.units == {"theta": "rad", "omega": "rad/s", "torque": "N m"}


def test_guesses_of_unequal_length_meet_on_one_grid(pendulum: LoadedProblem) -> None:
    guess = pendulum.problem.phase.guess
    assert guess.s.tolist() == [0, 0.5, 1]
    assert guess.x[:, 0] == pytest.approx([0, 1, math.pi])
    assert guess.x[:, 1].tolist() == [0, 0, 0]  # given at the start only: stays there
    assert guess.u[:, 0].tolist() == [1, 1.5, 2]


@pytest.mark.parametrize(("bounds", "expected"), [
    ("", 0.0), ("bounds: {torque: [1, 3]}", 2.0), ("bounds: {torque: [1, null]}", 1.0), ("bounds: {torque: [null, -1]}", -1.0)])
def test_a_control_without_guess_starts_at_zero_where_its_bounds_allow_that(bounds: str, expected: float) -> None:
    text = ("name: a\nsystem: {states: {x: m}, controls: {torque: N}, dynamics: {x: torque}}\n"
            "phase:\n  duration: 1\n  start: {others: free}\n  costs: []\n  ")
    guess = load_text(text + bounds + "\n").problem.phase.guess
    assert guess.u[:, 0].tolist() == [expected, expected]


def test_a_system_without_controls_and_boundaries() -> None:
    loaded = load_text("name: fall\nsystem: {states: {x: m, v: m/s}, dynamics: {x: v, v: -9.81}}\n"
                       "phase: {duration: 1, start: {others: free}, costs: []}\n")
    phase = loaded.problem.phase
    assert (phase.system.nu, phase.start, phase.final, phase.costs) == (0, None, None, ())
    assert (loaded.drawing, loaded.model) == (None, None)
    assert phase.guess.u.shape == (2, 0)
    assert (loaded.method, loaded.method_options, loaded.accept) == ("collocation", {}, {})
    assert value(phase.system.rate, 0, [1.0, 2.0], [], []).tolist() == [2.0, -9.81]


def test_options_and_tolerances(pendulum: LoadedProblem) -> None:
    assert (pendulum.method, pendulum.accept) == ("ilqr", {"gap_segment": 1e-4})
    assert pendulum.method_options == {"intervals": 50, "tolerance": 1e-6}
    assert type(pendulum.method_options["intervals"]) is int
    assert pendulum.options_for("collocation") == {}


def test_drawing_follows_the_state(pendulum: LoadedProblem) -> None:
    assert pendulum.drawing is not None
    theta = np.array([0.0, 0.3, 2.0])
    states = np.stack([theta, 0 * theta], axis=1)
    scene = scene_from_drawing(pendulum.drawing, np.array([0.0, 1.0, 2.0]), states, np.zeros((3, 1)))
    bob = np.stack([0.5 * np.sin(theta), -0.5 * np.cos(theta)], axis=1)
    box, segment, circle, pivot = pendulum.drawing.primitives
    assert [type(item) for item in pendulum.drawing.primitives] == [Polyline, Polyline, Disc, Disc]
    assert scene.points[:, 5, :2] == pytest.approx(bob)  # 4 corners, pivot and bob of the segment
    assert scene.points[:, 6, :2] == pytest.approx(bob)
    assert scene.points[0, :4, :2].tolist() == [[-0.05, -0.1], [0.05, -0.1], [0.05, 0.1], [-0.05, 0.1]]
    assert (circle.radius, circle.trace, pivot.radius, pivot.trace) == (0.05, True, 0.0, True)
    assert (box.closed, segment.closed) == (True, False)


# ---- the way back -------------------------------------------------------------------------------------------------------
def test_file_to_record_to_yaml_to_record(pendulum: LoadedProblem) -> None:
    text = to_yaml(pendulum.file)
    again = load_text(text)
    assert again.file == pendulum.file
    assert to_yaml(again.file) == text
    assert isinstance(again.file, SymbolicProblem)
    assert list(again.file.constants) == ["m", "l", "g", "inertia", "tilt", "no"]


def test_expanding_writes_every_default_and_changes_nothing(pendulum: LoadedProblem) -> None:
    again = load_text(pendulum.expanded())
    kind = METHODS["ilqr"].options_type()
    options = flat(kind, dataclasses.asdict(kind()))
    assert again.options_for("ilqr") == options | {"intervals": 50, "tolerance": 1e-6}
    assert again.accept == dataclasses.asdict(Tolerances()) | {"gap_segment": 1e-4}
    assert again.expanded() == pendulum.expanded()
    first, second = pendulum.problem.phase.system.rate, again.problem.phase.system.rate
    assert value(second, 0, [0.4, -1.2], [0.9], []).tolist() == value(first, 0, [0.4, -1.2], [0.9], []).tolist()


# ---- overrides ----------------------------------------------------------------------------------------------------------
def test_overrides_replace_values_everywhere() -> None:
    loaded = load_text(PENDULUM, overrides={
        "phase.duration": "3", "constants.m": "2*1", "phase.costs[1].final": "5*t",
        "phase.costs.track.weights": "[1, 2]", "phase.bounds.torque[1]": "7", "solve.collocation.tolerance": "1e-5",
        "phase.start": "{theta: {deg: 90}, others: free}", 'phase.bounds."omega"': "[null, 8]", "phase.guess": "{}"})
    phase = loaded.problem.phase
    assert phase.duration.lower == phase.duration.upper == 3
    assert price(phase.costs[1], 1.0, [0, 0], [0], []) == 5
    assert phase.costs[2].weights == (1.0, 2.0)
    assert (phase.u_lower, phase.u_upper) == ((-5.0,), (7.0,))
    assert phase.x_upper == (4.0, 8.0)
    assert phase.start is not None
    assert phase.start.fixed == (True, False)
    assert loaded.options_for("collocation") == {"tolerance": 1e-5}
    assert value(phase.system.rate, 0, [0, 0], [1.0], [])[1] == pytest.approx(1 / (2 * 0.25))


@pytest.mark.parametrize(("path", "text", "where", "words"), [
    ("phase.duratoin", "3", "--set phase.duratoin=3: phase.duratoin", "unknown key; did you mean 'duration'?"),
    ("phas.duration", "3", "--set phas.duration=3: phas", "unknown key; did you mean 'phase'?"),
    ("phase.duration", "-1", "--set phase.duration=-1: phase.duration", "a duration must be positive"),
    ("phase.duration", "{lowr: 1}", "--set phase.duration={lowr: 1}: phase.duration.lowr", "did you mean 'lower'?"),
    ("phase.duration", "{lower: -1, upper: 2}", "--set phase.duration={lower: -1, upper: 2}: phase.duration.lower",
     "must not be negative, got -1 s"),
    ("phase.costs[0].running", "torqe", "--set phase.costs[0].running=torqe: phase.costs[0].running", "did you mean 'torque'"),
    ("phase.costs[4].running", "1", "--set phase.costs[4].running=1", "phase.costs has 4 entries, the last is [3]"),
    ("phase.costs.efort.running", "1", "--set phase.costs.efort.running=1", "no entry named 'efort'; did you mean 'effort'?"),
    ("phase.duration.lower.x", "1", "--set phase.duration.lower.x=1", "phase.duration.lower is 0.5 and has no part 'x'"),
    ("constants.mm", "1", "--set constants.mm=1", "constants has no 'mm'; did you mean 'm'?"),
    ("constants.m", "[", "--set constants.m=[:1:", "not valid YAML"),
    ("constants.m", " ", "--set constants.m= ", "a value is missing"),
    ("phase..duration", "1", "--set phase..duration=1", "cannot read the path"),
    ("", "1", "--set =1", "the path before '=' is empty"),
    ("solve.ilqr.intervalls", "1", "--set solve.ilqr.intervalls=1: solve.ilqr.intervalls", "did you mean 'intervals'"),
])
def test_wrong_overrides_are_named_as_they_were_typed(path: str, text: str, where: str, words: str) -> None:
    with pytest.raises(ProblemError) as caught:
        load_text(PENDULUM, overrides={path: text})
    assert any(line.startswith(where) for line in str(caught.value).splitlines())
    assert words in str(caught.value)


def test_overrides_leave_the_source_untouched() -> None:
    assert load_text(PENDULUM, overrides={"constants.m": "2"}).text == PENDULUM
    assert load_text(PENDULUM).file.constants["m"] == 1.5


def test_words_of_the_command_line() -> None:
    assert parse_overrides(["a.b=1", "c=x=y"]) == {"a.b": "1", "c": "x=y"}
    with pytest.raises(ProblemError, match="set twice"):
        parse_overrides(["a=1", "a=2"])
    with pytest.raises(ProblemError, match=r"expected path\.to\.key=value"):
        parse_overrides(["a"])


# ---- JSON Schema --------------------------------------------------------------------------------------------------------
def _nodes(tree: Any) -> list[dict[str, Any]]:
    if isinstance(tree, dict):
        return [tree, *(node for value in tree.values() for node in _nodes(value))]
    return [node for value in tree for node in _nodes(value)] if isinstance(tree, list) else []


def test_json_schema_is_closed_complete_and_described() -> None:
    schema = problem_json_schema()
    definitions = schema["$defs"]
    assert json.loads(json.dumps(schema)) == schema
    for node in _nodes(schema):
        if "$ref" in node:
            assert node["$ref"].removeprefix("#/$defs/") in definitions
    for name, record in definitions.items():
        if "properties" in record:
            assert record["additionalProperties"] is False
            for key, field in record["properties"].items():
                known = definitions.get(field.get("$ref", "").removeprefix("#/$defs/"), {})
                assert field.get("description") or known.get("description"), f"{name}.{key}"
    for name, method in METHODS.items():
        known = {f.name for f in dataclasses.fields(method.options_type())}
        assert set(definitions["Solve"]["properties"][name]["properties"]) == known
    accept = definitions["RobotProblem"]["properties"]["accept"]["properties"]
    assert set(accept) == {f.name for f in dataclasses.fields(Tolerances)}


def test_the_schema_knows_every_method() -> None:
    assert set(METHODS) == set(Solve.model_fields) - {"method", "derivatives", "time_limit", "strategy"}
    assert Solve.model_json_schema()["properties"]["method"]["enum"] == list(METHODS)


# ---- robots -------------------------------------------------------------------------------------------------------------
_INERTIA = ('<inertial><origin xyz="0 0 -0.2"/><mass value="2"/>'
            '<inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>')
_LIMIT = '<limit lower="0.2" upper="2" velocity="3" effort="10"/>'
URDF = f"""<robot name="arm"><link name="base">{_INERTIA}</link><link name="upper">{_INERTIA}</link>
<link name="lower">{_INERTIA}</link><link name="finger">{_INERTIA}</link><link name="tip"/>
<joint name="shoulder" type="continuous"><parent link="base"/><child link="upper"/><axis xyz="0 1 0"/></joint>
<joint name="elbow" type="revolute"><parent link="upper"/><child link="lower"/><origin xyz="0 0 -0.4"/>
<axis xyz="0 1 0"/>{_LIMIT}</joint>
<joint name="grip" type="revolute"><parent link="lower"/><child link="finger"/><axis xyz="0 1 0"/>{_LIMIT}
<mimic joint="elbow" multiplier="0.5" offset="0.1"/></joint>
<joint name="end" type="fixed"><parent link="lower"/><child link="tip"/><origin xyz="0 0 -0.3"/></joint></robot>"""
SRDF = """<robot name="arm"><group_state name="home" group="all"><joint name="shoulder" value="0.25"/>
<joint name="elbow" value="0.75"/></group_state></robot>"""

ARM = """\
name: Arm
constants: {a: 0.5}
system:
  robot: arm.urdf
  actuated: [elbow]
  thrusters: [{name: jet, frame: tip, axis: [2, 0, 0], moment_ratio: 0.1}]
phase:
  duration: 1
  start: {joints: {shoulder: a, elbow: {deg: 60}}, rest: true}
  final: {joints: {shoulder: 1}, velocities: {elbow: 0}}
  bounds:
    joints: {shoulder: [-1, 2]}
    velocities: {shoulder: [-7, 7]}
    controls: {jet: [0, 5]}
  costs:
    - {name: effort, running: 'tau["elbow"]**2 + elbow + 10*jet + 100*v["grip"] + q["grip"]'}
    - {name: smooth, running_residual: v}
  constraints:
    - name: where
      expression: ['position("tip")[x]', 'position("tip")[2]', 'velocity("tip")[0]', 'com()[z]', 'energy()']
      lower: -100
    - {name: pose, at: final, pose_error: {frame: tip, position: [0, 0, -0.7], rpy: [0, 0, 0]}, equal: 0}
    - {name: place, at: final, position_error: {frame: tip, position: [0.1, 0.2, 0.3]}, lower: -1, upper: 1}
    - name: turn
      at: final
      orientation_error: {frame: tip, axis_angle: {axis: [0, 3, 0], angle: 0.2}}
      upper: [1, 2, null]
      lower: 0
  guess:
    states: {joints: {elbow: 1.5}}
    controls: {jet: [1, 2, 3]}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("robots")
    (place / "arm.urdf").write_text(URDF)
    (place / "arm.srdf").write_text(SRDF)
    return place


@pytest.fixture(scope="module")
def arm(folder: Path) -> LoadedProblem:
    (folder / "arm.yaml").write_text(ARM)
    return load_problem(folder / "arm.yaml")


def test_robot_expressions_agree_with_plane_trigonometry(arm: LoadedProblem) -> None:
    phase = arm.problem.phase
    s, e, ds, de = 0.3, 0.9, -0.8, 1.7
    x, u = [s, e, ds, de], [2.0, 3.0]
    place = phase.constraints[0].function
    tip = [-0.4 * math.sin(s) - 0.3 * math.sin(s + e), -0.4 * math.cos(s) - 0.3 * math.cos(s + e)]
    tip_rate = -0.4 * math.cos(s) * ds - 0.3 * math.cos(s + e) * (ds + de)
    finger, finger_rate = s + e + 0.5 * e + 0.1, ds + de + 0.5 * de
    heights = [-0.2 * math.cos(s), -0.4 * math.cos(s) - 0.2 * math.cos(s + e), -0.4 * math.cos(s) - 0.2 * math.cos(finger)]
    # the base link is welded to the world: it counts neither in the centre of mass nor in the energy
    elbow_rate = np.array([-0.4 * math.cos(s), 0.4 * math.sin(s)]) * ds
    speeds = [(0.2 * ds) ** 2,
              np.sum((elbow_rate + np.array([-math.cos(s + e), math.sin(s + e)]) * 0.2 * (ds + de)) ** 2),
              np.sum((elbow_rate + np.array([-math.cos(finger), math.sin(finger)]) * 0.2 * finger_rate) ** 2)]
    kinetic = sum(speeds) + 0.05 * (ds**2 + (ds + de) ** 2 + finger_rate**2)
    energy = kinetic + 2 * 9.81 * sum(heights)
    assert value(place, 0, x, u, []) == pytest.approx([tip[0], tip[1], tip_rate, sum(heights) / 3, energy])
    effort, smooth = phase.costs
    assert price(effort, 0, x, u, []) == pytest.approx(4 + 2 + 30 + 100 * 0.5 * de + 0.5 * e + 0.1)
    assert price(smooth, 0, x, u, []) == pytest.approx(0.5 * (ds**2 + de**2))


def test_frame_errors_vanish_at_their_target_and_measure_the_way_to_it(arm: LoadedProblem) -> None:
    _, pose, place, turn = arm.problem.phase.constraints
    assert value(pose.function, 0, [0, 0, 0, 0], [0, 0], []) == pytest.approx(np.zeros(6), abs=1e-15)
    bent = value(pose.function, 0, [0.0, 0.5, 0, 0], [0, 0], [])
    assert bent[3:] == pytest.approx([0, 0.5, 0])
    assert value(place.function, 0, [0, 0, 0, 0], [0, 0], []) == pytest.approx([-0.1, -0.2, -1.0])
    assert value(turn.function, 0, [0.1, 0.4, 0, 0], [0, 0], []) == pytest.approx([0, 0.3, 0])
    assert (pose.lower, pose.upper, pose.sense) == ((0.0,) * 6, (0.0,) * 6, Sense.EQUAL)
    assert turn.upper == (1.0, 2.0, INF)


def test_robot_boundaries_bounds_and_controls(arm: LoadedProblem) -> None:
    phase = arm.problem.phase
    assert phase.system.controls == ("elbow", "jet")
    assert phase.start is not None
    assert phase.final is not None
    assert phase.start.value == pytest.approx((0.5, math.pi / 3, 0, 0))
    assert phase.start.complete
    assert phase.final.fixed == (True, False, False, True)
    # the follower's range [0.2, 2] narrows its leader's: 0.5 q + 0.1 <= 2 is slack, 0.5 q + 0.1 >= 0.2 is the same 0.2
    assert phase.x_lower == pytest.approx((-1, 0.2, -7, -3))
    assert phase.x_upper == pytest.approx((2, 2, 7, 3))
    assert (phase.u_lower, phase.u_upper) == ((-10.0, 0.0), (10.0, 5.0))


def test_limits_of_the_robot_file_can_be_left_out(folder: Path) -> None:
    text = ARM.replace("actuated: [elbow]", "actuated: [elbow]\n  limits: {position: false, velocity: false, effort: false}")
    phase = load_text(text, folder).problem.phase
    assert phase.x_lower == (-1, -INF, -7, -INF)
    assert (phase.u_lower, phase.u_upper) == ((-INF, 0.0), (INF, 5.0))


def test_robot_guess_keeps_what_is_given_and_joins_start_and_final(arm: LoadedProblem) -> None:
    guess = arm.problem.phase.guess
    assert guess.s.tolist() == [0, 0.5, 1]
    assert guess.x[:, 0] == pytest.approx([0.5, 0.75, 1.0])
    assert guess.x[:, 1] == pytest.approx([1.5, 1.5, 1.5])
    assert guess.u.tolist() == [[0, 1], [0, 2], [0, 3]]


def test_listed_robot_states_are_joined_in_order(folder: Path) -> None:
    text = ARM.replace("states: {joints: {elbow: 1.5}}",
                       "states: [{joints: {elbow: 1}}, {joints: {elbow: 2}, velocities: {elbow: 3}}]")
    guess = load_text(text, folder).problem.phase.guess
    assert guess.x[:, 1] == pytest.approx([1, 1.5, 2])
    assert guess.x[:, 3] == pytest.approx([0, 1.5, 3])


def test_neutral_values_outside_the_limits_are_not_guessed(folder: Path) -> None:
    text = ("name: a\nsystem: {robot: arm.urdf}\n"
            "phase: {duration: 1, start: {others: free}, costs: [], bounds: {velocities: {shoulder: [-1, 1]}}}\n")
    phase = load_text(text, folder).problem.phase
    assert phase.start is None
    assert phase.guess.x[0] == pytest.approx([0, 1.1, 0, 0])  # the middle of [0.2, 2]


def test_named_configurations_come_from_the_srdf_file(folder: Path) -> None:
    text = ARM.replace("start: {joints: {shoulder: a, elbow: {deg: 60}}, rest: true}",
                       "start: {configuration: home, joints: {elbow: 1}, others: free}")
    start = load_text(text, folder).problem.phase.start
    assert start is not None
    assert start.value[:2] == (0.25, 1.0)
    assert start.fixed == (True, True, False, False)
    with pytest.raises(ProblemError, match="no configuration named 'hme'; did you mean 'home'"):
        load_text(text.replace("home", "hme"), folder)


def test_robot_files_round_trip(arm: LoadedProblem, folder: Path) -> None:
    again = load_text(to_yaml(arm.file), folder)
    assert again.file == arm.file
    assert again.model is not None
    assert arm.model is not None
    assert again.model.fingerprint == arm.model.fingerprint


@pytest.mark.parametrize(("text", "rotation"), [
    ("rpy: [0.3, -0.4, 2]", Rotation.from_euler("xyz", [0.3, -0.4, 2])),
    ("rpy: [{deg: 90}, 0, 0]", Rotation.from_euler("x", 90, degrees=True)),
    ("quaternion: {w: 0.1, x: -0.7, y: 0.5, z: 0.5}", Rotation.from_quat([-0.7, 0.5, 0.5, 0.1])),
    ("quaternion: {w: 0.7071, x: 0.7071, y: 0, z: 0}", Rotation.from_euler("x", 90, degrees=True)),
    ("axis_angle: {axis: [1, 2, -2], angle: 0.6}", Rotation.from_rotvec(np.array([1, 2, -2]) / 3 * 0.6)),
    ("axis_angle: {axis: [0, 0, 5], angle: 1.5*pi}", Rotation.from_rotvec([0, 0, -math.pi / 2])),
])
def test_rotations_in_their_three_forms(text: str, rotation: Rotation, folder: Path) -> None:
    problem = ("name: a\nsystem: {robot: arm.urdf, root: free_flyer}\nphase:\n  duration: 1\n  costs: []\n"
               "  bounds: {velocities: {shoulder: [-9, 9]}}\n"
               f"  start: {{base: {{{text}, position: [1, 2, 3], angular_velocity: [4, 5, 6]}}, others: free}}\n")
    start = load_text(problem, folder).problem.phase.start
    assert start is not None
    w, x, y, z = start.value[3:7]
    rounded = 1e-4 if "7071" in text else 1e-12
    assert (Rotation.from_quat([x, y, z, w]) * rotation.inv()).magnitude() < rounded
    assert np.linalg.norm(start.value[3:7]) == pytest.approx(1, abs=1e-15)
    assert start.value[:3] == (1, 2, 3)
    nq = 9
    assert start.value[nq + 3 : nq + 6] == (4, 5, 6)
    fixed = np.array(start.fixed)
    assert np.flatnonzero(fixed).tolist() == [0, 1, 2, 3, 4, 5, 8 + 3, 8 + 4, 8 + 5]


def test_a_base_turns_along_the_geodesic_in_the_guess(folder: Path) -> None:
    problem = ("name: a\nsystem: {robot: arm.urdf, root: free_flyer}\nphase:\n  duration: 1\n  costs: []\n"
               "  start: {base: {position: [0, 0, 0], rpy: [0, 0, 0]}, others: free}\n"
               "  final: {base: {position: [0, 0, 2], rpy: [0, 0, 2]}}\n"
               "  guess: {controls: {elbow: [0, 1, 2, 3, 4]}}\n")
    guess = load_text(problem, folder).problem.phase.guess
    assert guess.s.tolist() == [0, 0.25, 0.5, 0.75, 1]
    for s, x in zip(guess.s, guess.x, strict=True):
        assert x[3:7] == pytest.approx([math.cos(s), 0, 0, math.sin(s)], abs=1e-12)
        assert x[2] == pytest.approx(2 * s)


def test_the_base_has_a_name_of_its_own_in_expressions_and_bounds(folder: Path) -> None:
    problem = ("name: a\nsystem: {robot: arm.urdf, root: free_flyer}\nphase:\n  duration: 1\n  start: {others: free}\n  costs: []\n"
               "  bounds: {joints: {base.pz: [0.5, 2]}}\n"
               "  constraints:\n    - name: c\n      lower: 0\n"
               "      expression: ['q[\"base.pz\"]', 'v[\"base.wz\"]', 'q[\"root_joint.px\"]']\n")
    phase = load_text(problem, folder).problem.phase
    x = np.arange(17.0)
    assert value(phase.constraints[0].function, 0, x, [0, 0], []).tolist() == [2, 9 + 5, 0]
    assert (phase.x_lower[2], phase.x_upper[2]) == (0.5, 2.0)
    assert phase.guess.x[0, 2] == 1.25


def test_robots_of_the_collection(tmp_path: Path) -> None:
    try:
        metadata.distribution("example-robot-data")
    except metadata.PackageNotFoundError:
        pytest.skip("the collection of robots is not installed")
    text = "name: a\nsystem: {robot: 'robots:ur5_robot'}\nphase: {duration: 1, costs: [], start: {rest: true, others: free}}\n"
    loaded = load_text(text, tmp_path)
    assert loaded.model is not None
    assert loaded.model.nq == 6
    with pytest.raises(ProblemError, match="did you mean 'ur5_robot'"):
        load_text(text.replace("ur5_robot", "ur5_robt"), tmp_path)


def test_models_of_mujoco(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    (tmp_path / "ball.xml").write_text(
        '<mujoco><worldbody><body name="bob"><joint name="ball" type="ball"/>'
        '<geom type="sphere" size="0.1" pos="0 0 -0.5" mass="1"/></body></worldbody></mujoco>')
    text = ("name: Ball\nsystem: {robot: ball.xml, gravity: [0, 0, -1]}\nphase: {duration: 1, costs: [], "
            "start: {joints: {ball: {rpy: [0, 0.5, 0]}}, velocities: {ball: [0, 1, 2]}}}\n")
    loaded = load_text(text, tmp_path)
    start = loaded.problem.phase.start
    assert start is not None
    assert loaded.model is not None
    assert start.value == pytest.approx([math.cos(0.25), 0, math.sin(0.25), 0, 0, 1, 2])
    assert start.fixed == (True,) * 6
    assert loaded.model.gravity == (0, 0, -1)


def test_mimic_joints_can_be_read_as_joints_of_their_own(tmp_path):
    urdf = """<robot name="gripper"><link name="base"/>
      <link name="a"><inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>
      <link name="b"><inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>
      <joint name="lead" type="continuous"><parent link="base"/><child link="a"/><axis xyz="0 0 1"/></joint>
      <joint name="follow" type="continuous"><parent link="base"/><child link="b"/><axis xyz="0 0 1"/>
        <mimic joint="lead" multiplier="-1"/></joint></robot>"""
    (tmp_path / "gripper.urdf").write_text(urdf)
    text = """
name: gripper
system: {robot: gripper.urdf, mimic: MODE}
phase:
  duration: 1
  start: {rest: true, others: free}
  costs: []
"""
    for mode, count in (("couple", 1), ("independent", 2)):
        loaded = load_text(text.replace("MODE", mode), tmp_path)
        assert loaded.model.nv == count
        assert len(loaded.problem.phase.system.controls) == count


GALLERY = ROOT / "problems"
HELD_ARM = """
name: arm with a held hand
constants: {open: 0.04}
system: {robot: models/panda.urdf, lock: {LOCK}}
phase:
  duration: 1
  start: {joints: {panda_joint1: 0, panda_joint2: -0.785, panda_joint3: 0, panda_joint4: -2.356, panda_joint5: 0,
                   panda_joint6: 1.571, panda_joint7: 0.785}, rest: true}
  costs: []
"""


def test_locked_joints_are_no_states() -> None:
    from dynamics.model.urdf import read_urdf

    robot = read_urdf(GALLERY / "models" / "panda.urdf")
    names = [b.joint.name for b in robot.bodies if b.joint.mimic is None and robot.kind(robot.joint_index(b.joint.name)).nv]
    text = HELD_ARM.replace("{LOCK}", "{panda_joint3: 0.3, panda_joint5: open}").replace("panda_joint3: 0, ", "").replace(
        "panda_joint5: 0,\n                   ", "")
    problem = load_text(text, folder=GALLERY).problem
    assert problem.phase.system.nx == 2 * (len(names) - 2)
    for wrong, message in (("{panda_joint33: 0}", r"system\.lock\.panda_joint33.*did you mean 'panda_joint3'"),
                           ("{panda_joint3: [0, 1]}", r"system\.lock\.panda_joint3.*expected 1 finite number"),
                           ("{panda_joint4: 3}", r"system\.lock\.panda_joint4.*outside its limits")):
        with pytest.raises(ProblemError, match=message):
            load_text(HELD_ARM.replace("{LOCK}", wrong), folder=GALLERY)
