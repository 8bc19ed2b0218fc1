"""What contacts cannot do is named by ``ocp check``, and what they can is not."""

import time

import pytest

from dynamics.errors import ModelError
from dynamics.model.robots import robot_paths
from ocp.app.commands.begin import check
from ocp.app.files.load import load_problem
from ocp.app.robot import read_robot
from ocp.app.starter.write import write_starter
from ocp.errors import ProblemError
from ocp.explain import contact_findings
from ocp.problem import Kind
from tests.support.repository import ROOT

try:
    EXTRA = robot_paths()
except ModelError:
    EXTRA = {}
installed = pytest.mark.skipif(not EXTRA, reason="the robots extra is not installed")

HEAD = """name: Leg
system:
  robot: {models}/hopper.urdf
  actuated: [hip, knee]
  constraints:
    - {{name: foot, contact: {{frame: foot, friction: 0.7, clearance: 0}}}}{more}
"""
STANDS = "start: {joints: {base_pitch: 0, hip: -0.4, knee: 0.8}, rest: true, others: assembled}"
ONE = HEAD + "phase: {{duration: 1, " + STANDS.replace("{", "{{").replace("}", "}}") + ", costs: []{rest}}}\n"
PLACE = "constraints: [{{name: place, at: final, expression: 'position(\"foot\")[0]', equal: {x}}}]"
FLIGHT = HEAD + """phases:
  - {{name: flight, contacts: [], duration: {time}, costs: [], start: {{joints: {start}, rest: true}}, bounds: {high}}}
  - {{name: landing, contacts: [foot], duration: 0.5, reset: {{impact: true}}, costs: [], bounds: {high}}}
"""
LEAP = HEAD + """phases:
  - {{name: push, contacts: [foot], duration: 0.3, costs: [], {stands}}}
  - {{name: flight, contacts: [], duration: 0.3, costs: []}}
  - {{name: landing, contacts: [foot], duration: 0.5, reset: {{impact: true}}, costs: [], {place}}}
"""
HIGH = '{base_x: 0, base_z: "cos(0.4)", base_pitch: 0, hip: -0.4, knee: 0.8}'
QUADRUPED = """name: Quadruped
system:
  robot: {models}/quadruped.urdf
  root: free_flyer
  constraints: [{{name: lf, contact: {{frame: lf_foot}}}}, {{name: rf, contact: {{frame: rf_foot}}}}]
gait: {{swings: {{lf: [[0, 1]]}}, duration: 1}}
phase: {{start: {{others: free}}, costs: []}}
"""
TWICE = "\n    - {name: again, contact: {frame: foot, friction: 0.7}}"
SHANK = "\n    - {name: middle, contact: {frame: foot, points: [[0, 0, 0.1]], height: '0.1*cos(0.4)'}}"
CASES = {
    "does not touch": (ONE, {"rest": ""}, ("height: 0.3",), "breaks a constraint of the mechanism: 'foot'"),
    "may not leave": (ONE, {"rest": ", " + PLACE.format(x=0.3)}, (), "that the contact 'foot' does not move in phase by"),
    "no friction": (ONE, {"rest": ""}, ("friction: 0",), "friction: must be positive"),
    "never stands": (QUADRUPED, {}, (), "the foot 'lf' never stands"),
    "gravity": (FLIGHT, {"time": 0.6, "start": HIGH}, (), "the parabola of the mass centre in flight"),
    "too far": (LEAP, {"stands": STANDS, "place": "final: {joints: {base_x: 0.2}}, " + PLACE.format(x=2)}, (),
                "'place' at the end of landing"),
    "twice": (ONE, {"rest": "", "more": TWICE}, (), "contact equations are redundant: 'again' and 'foot' are the same"),
    "together": (ONE, {"rest": "", "more": SHANK}, (), "those of foot, middle"),
}


def written(tmp_path, text, fields, changes=()):
    text = text.format(**{"models": ROOT / "problems" / "models", "more": "", "high": "{joints: {base_z: [0.2, 2]}}", **fields})
    for change in changes:
        text = text.replace("friction: 0.7", change if change.startswith("friction") else f"friction: 0.7, {change}")
    path = tmp_path / "file.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", CASES)
def test_what_contacts_cannot_do_is_named(name, tmp_path, capsys):
    text, fields, changes, words = CASES[name]
    if name == "does not touch":
        text, fields = FLIGHT.replace("contacts: [], ", "contacts: [foot], "), {"time": 1, "start": HIGH}
    path = written(tmp_path, text, fields, changes)
    begun = time.process_time()
    try:
        code, told = check(path), " ".join(capsys.readouterr().out.split())
    except ProblemError as error:
        code, told = 2, str(error)
    assert words in told
    assert time.process_time() - begun < 5
    assert (code == 0) == (name in ("twice", "together"))


@pytest.mark.parametrize(("text", "fields"), [
    (ONE, {"rest": ", " + PLACE.format(x=0)}), (FLIGHT, {"time": 0.1, "start": HIGH.replace('"cos(0.4)"', "0.66")}),
    (LEAP, {"stands": STANDS, "place": PLACE.format(x=0.4)})])
def test_what_they_can_is_left_alone(text, fields, tmp_path):
    assert contact_findings(load_problem(written(tmp_path, text, fields)).problem) == ()


def test_the_leap_of_the_gallery_has_a_skeleton():
    assert contact_findings(load_problem(ROOT / "problems" / "leg_leap.yaml").problem) == ()


def test_a_miss_is_measured_and_named(tmp_path):
    """The foot stands at 0 and shall be at 0.3: the nearest of all states share the distance."""
    (finding,) = contact_findings(load_problem(written(tmp_path, ONE, {"rest": ", " + PLACE.format(x=0.3)})).problem)
    assert finding.kind is Kind.CONTACTS_OUT_OF_REACH
    missed = finding.data["missed"]
    assert {("foot", "phase", "stands"), ("place", "phase", "end")} <= missed.keys()
    assert 0.05 < max(missed.values()) < 0.3


@installed
@pytest.mark.slow
@pytest.mark.parametrize(("gait", "more", "words"), [
    ("trot", {}, "valid"), ("walk", {}, "valid"), ("jump", {}, "valid"), ("walk", {"advance": "[3, 0]"}, "does not reach [")])
def test_a_quadruped_is_checked_within_five_seconds(gait, more, words, tmp_path, capsys):
    place = write_starter(read_robot("solo12", root="free_flyer"), "gait", gait=gait, out=tmp_path / "x.yaml")
    begun = time.process_time()
    try:
        check(place, set_=tuple(f"gait.{key}={value}" for key, value in more.items()))
        told = capsys.readouterr().out
    except ProblemError as error:
        told = str(error)
    assert time.process_time() - begun < 5
    assert words in told


@installed
@pytest.mark.slow
def test_a_flight_that_gravity_forbids_is_named_within_five_seconds(tmp_path, capsys):
    place = write_starter(read_robot("solo12", root="free_flyer"), "gait", gait="jump", out=tmp_path / "x.yaml")
    slow = ", ".join(f"{leg}_KFE: [-10, 10], {leg}_HFE: [-10, 10]" for leg in ("FL", "FR", "HL", "HR"))
    begun = time.process_time()
    assert check(place, set_=("gait.swing=2.5", f"phase.bounds={{velocities: {{{slow}}}}}")) == 1
    assert "the parabola of the mass centre in flight" in " ".join(capsys.readouterr().out.split())
    assert time.process_time() - begun < 5
