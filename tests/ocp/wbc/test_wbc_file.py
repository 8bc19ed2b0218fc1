"""Files of whole-body control: what is wrong is told with file, line and key; what is right runs, and keeps its promises."""

import json
from pathlib import Path

import numpy as np
import pytest

from ocp.app.cli import main
from ocp.app.files.control.wbc import load_wbc, load_wbc_text
from ocp.app.files.syntax.findings import ProblemFileError
from ocp.app.wbc.run import run_loaded
from ocp.errors import ProblemError
from ocp.solvers.hqp import HQPOptions
from ocp.wbc import Path as Way
from ocp.wbc import constant, moving

FOLDER = Path(__file__).resolve().parents[3] / "problems" / "wbc"
TEXT = (FOLDER / "quadruped_push.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(("old", "new", "words"), [
    ("frame: lf_foot, friction: 0.6", "frame: lf_fot, friction: 0.6", r"contacts\.lf\.frame: .*did you mean 'lf_foot'"),
    ("frame: lf_foot, friction: 0.6", "frame: lf_foot, friction: 0", r"contacts\.lf\.friction: must be positive, got 0; on ice"),
    ("frame: lf_foot, friction: 0.6, least: 2", "frame: lf_foot, friction: 0.6, least: 2, most: 1", r"lf\.most: must be above"),
    ("frame: lf_foot, friction: 0.6, least: 2", "frame: lf_foot, friction: 0.6, sides: 2", r"contacts\.lf\.sides: .*at least 3"),
    ("frame: lf_foot, friction: 0.6, least: 2", "frame: lf_foot, friction: 0.6, height: 0.1", r"lf: is taken .* below its plane"),
    ("base: {position: [0, 0, 0.36]", "base: {position: [0, 0, 0.5]", r"contacts\.lf: is taken at the start, but does not touch"),
    ("orientation: {frame: trunk, rpy", "orientation: {frame: trunc, rpy", r"orientation\.frame: .*did you mean 'trunk'"),
    ("task: swing foot, by", "task: swing feet, by", r"schedule\[3\]\.move\.task: no task named 'swing feet'.*'swing foot'"),
    ("release: lf", "release: lg", r"schedule\[1\]\.release: no contact named 'lg'.*'lf'"),
    ("on: swing foot}", "on: swing}", r"schedule\[2\]\.on: no task named 'swing'"),
    ("effort: {}}", "effort: {}, com: {}}", r"tasks\[3\]"),
    ("  - {name: least torques, priority: 2, effort: {}}", "  - {name: least torques, priority: 2}", r"tasks\[3\]"),
    ("{name: trunk, priority: 1,", "{name: mass centre, priority: 1,",
     r"tasks\[1\]\.name: the name 'mass centre' is already used by tasks\[0\]"),
    ("gain: 20, on: false", "gain: -1, on: false", r"tasks\[2\]\.gain: must not be negative"),
    ("priority: 2, effort", "priority: 0, effort", r"tasks\[3\]\.priority: must be at least 1, got 0"),
    ("{time: 1.5, release: lf}", "{time: -1, release: lf}", r"schedule\[1\]\.time: must not be negative"),
    ("{time: 1.5, release: lf}", "{time: 1.5, release: lf, take: rf}", r"schedule\[1\]"),
    ("{time: 4.0, over: 0.1, push", "{time: 4.0, push", r"schedule\[8\]: a push needs a duration"),
    ("push: {frame: trunk,", "push: {frame: trunkk,", r"schedule\[8\]\.push\.frame"),
    ("{time: 2.3, over: 0.5, move", "{time: 1.9, over: 0.5, move", r"is still moving until 2.2 s"),
    ("wbc: {rate: 500", "wbc: {rate: 0", r"wbc\.rate: must be positive"),
    ("wbc: {rate: 500", "wbc: {horizon: 0, rate: 500", r"wbc\.horizon: must be positive"),
    ("wbc: {rate: 500", "wbc: {efforts: {lf_kne: 3}, rate: 500", r"wbc\.efforts\.lf_kne: no driven joint .*'lf_knee'"),
    ("wbc: {rate: 500", "plant: {friction: {lx: 1}}\nwbc: {rate: 500", r"plant\.friction\.lx: no contact named"),
    ("wbc: {rate: 500", "wbc: {engine: active_sets, rate: 500", r"engine: .*active_set, osqp, daqp.*'active_set'"),
    ("wbc: {rate: 500", "wbc: {rates: 3, rate: 500", r"wbc\.rates: unknown key.*'rate'"),
])
@pytest.mark.sample(4)
def test_errors_are_reported_with_their_location(old, new, words):
    assert old in TEXT
    with pytest.raises(ProblemError, match=words) as caught:
        load_wbc_text(TEXT.replace(old, new, 1), FOLDER, "mine.yaml")
    assert "mine.yaml:" in str(caught.value)


def test_contacts_that_cannot_hold_a_robot_come_with_advice():
    text = TEXT
    for leg in ("lh", "rf"):
        text = text.replace(f"frame: {leg}_foot, friction: 0.6, least: 2", f"frame: {leg}_foot, friction: 0.6, taken: false")
    loaded = load_wbc_text(text, FOLDER)
    assert any("5 of 6 directions" in note for note in loaded.notes)


def test_paths_are_smooth_and_their_rates_are_derivatives():
    import casadi as ca

    t = ca.SX.sym("t")
    way = Way.of("vector", constant([1.0, 0.0]))
    way.move(0.5, 1.0, moving(ca.Function("f", [t], [ca.vertcat(ca.sin(t), t**2)])))
    turn = Way.of("rotation", constant(np.eye(3).ravel()))
    turn.move(0.2, 0.8, constant(np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]]).ravel(order="F")))
    for time in (0.1, 0.7, 1.2, 1.9):
        h = 1e-5
        before, here, after = (way.at(time + s) for s in (-h, 0, h))
        np.testing.assert_allclose(here[1], (after[0] - before[0]) / (2 * h), atol=1e-8)
        np.testing.assert_allclose(here[2], (after[1] - before[1]) / (2 * h), atol=1e-7)
        change = (turn.at(time + h)[0] - turn.at(time - h)[0]) / (2 * h)
        R, dR = (np.reshape(x, (3, 3), order="F") for x in (turn.at(time)[0], change))
        spin = R.T @ dR
        np.testing.assert_allclose(turn.at(time)[1], [spin[2, 1], spin[0, 2], spin[1, 0]], atol=1e-8)


@pytest.mark.parametrize("kind", [pytest.param("hybrid", marks=pytest.mark.slow), "mujoco"])
def test_a_quadruped_lifts_a_foot(kind, tmp_path):
    """Two seconds at 200 Hz: the foot leaves and comes back, nothing is violated, feet that stand do not move."""
    pytest.importorskip("mujoco") if kind == "mujoco" else None
    loaded = load_wbc(FOLDER / "quadruped_push.yaml", {"wbc.rate": "200", "wbc.duration": "3.2"})
    found = run_loaded(loaded, kind)
    assert found.run.ok
    assert found.run.equations < 1e-9
    for contact in found.run.contacts[1:]:
        assert contact.drift < (1e-6 if kind == "hybrid" else 1e-3)
        assert np.nanmax(contact.share) <= 1.0 + 1e-6
    lifted = found.run.contacts[0]
    assert set(np.unique(lifted.state)) == {0, 1, 2}
    assert lifted.gap.max() > 0.04
    assert [note.text for note in found.run.notes][:2] == ["is released", "touches, and is taken"]


def test_a_file_has_every_engine_and_its_default_is_that_of_hierarchies():
    """Weak motors, so that limits are active: the same torques whatever looks for them."""
    def torques(engine):
        loaded = load_wbc_text(TEXT, FOLDER, overrides={"wbc.duration": "0.1", "wbc.efforts": "4", **engine})
        return loaded.setup.options.engine, run_loaded(loaded).run

    name, plain = torques({})
    other, asked = torques({"wbc.engine": "osqp"})
    assert (name, other) == (HQPOptions().engine, "osqp")
    assert np.nanmax(np.abs(plain.torque)) == pytest.approx(4.0)
    np.testing.assert_allclose(asked.torque, plain.torque, atol=1e-6)


def test_on_ice_tasks_give_way_in_their_order():
    """Height and trunk are met to rounding while the circle gives way; no foot slips."""
    loaded = load_wbc(FOLDER / "quadruped_ice.yaml", {"wbc.duration": "1.2"})
    found = run_loaded(loaded)
    assert found.run.ok
    levels = found.run.levels
    assert np.nanmax(levels["equations"]) < 1e-9
    assert max(np.nanmax(levels[f"priority {k}"]) for k in (1, 2)) < 1e-9
    assert np.nanmax(levels["priority 3"]) > 1.0
    assert max(contact.drift for contact in found.run.contacts) < 1e-8
    assert all(np.nanmax(contact.share[:, 1]) < 1.0 for contact in found.run.contacts)


@pytest.mark.slow
def test_the_wall_is_wiped_with_the_force_that_was_asked_for():
    """Twenty newtons in the plant, not only in the controller, while the hand draws."""
    found = run_loaded(load_wbc(FOLDER / "arm_wipes_wall.yaml", {"wbc.duration": "4", "wbc.rate": "250"}))
    assert found.run.ok
    hand, t = found.run.contacts[0], found.run.t[:-1]
    late = t > 2.1  # the hand needs a moment of sliding until the direction of its friction is known
    off = np.abs(-hand.actual[late, 0] - 20.0)
    assert np.median(off) < 0.1
    assert np.quantile(off, 0.95) < 1.0
    assert found.run.errors["stroke"][late].max() < 6e-3


def test_the_command_writes_a_run_and_a_box_needs_no_controller(tmp_path, capsys):
    out = tmp_path / "run"
    with pytest.raises(SystemExit) as ended:
        main(["wbc", str(FOLDER / "box_slides.yaml"), "--out", str(out)])
    assert ended.value.code == 0
    assert {"report.html", "summary.json", "trajectory.npz", "trajectory.csv", "problem.yaml", "levels.png", "contacts.png"} <= {
        p.name for p in out.iterdir()}
    x = np.load(out / "trajectory.npz")["x"]
    assert x[-1, 0] == pytest.approx(1 / (2 * 0.3 * 9.81), abs=1e-9)
    told = capsys.readouterr().out
    assert "finished" in told
    assert "The plant alone" in told
    assert "torque limits" not in told  # nothing is said of a controller that is not there
    assert "0 %" not in told
    with pytest.raises(SystemExit) as ended:
        main(["check", str(FOLDER / "box_slides.yaml")])
    assert ended.value.code == 0


def test_tasks_that_cannot_all_be_met_come_with_advice():
    """Two orientations of one trunk at one priority: 9 rates of 6; and a foot that stands and shall move."""
    other = "  - {name: other, priority: 1, orientation: {frame: trunk, rpy: [0, 0, 0.1]}}\n"
    twice = TEXT.replace("  - {name: trunk,", f"{other}  - {{name: trunk,")
    moving_foot = TEXT.replace("gain: 20, on: false", "gain: 20")
    for text, words in ((twice, "ask for 9 rates at one priority, of which contacts and loops leave 6 free"),
                        (moving_foot, "ask for 9 rates at one priority, of which contacts and loops leave 6 free")):
        text = text.split("schedule:")[0] + "wbc: {rate: 200, duration: 0.01}\n"
        assert any(words in note.text for note in run_loaded(load_wbc_text(text, FOLDER)).run.notes)
    posture = TEXT.replace("  - {name: least torques,", "  - {name: posture, priority: 3, posture: {}}\n  - {name: least torques,")
    assert not run_loaded(load_wbc_text(posture.split("schedule:")[0] + "wbc: {rate: 200, duration: 0.01}\n", FOLDER)).run.notes


ROD = """
name: rod on its tip
robot:
  bodies:
    rod: {joint: {name: base, kind: free_flyer}, mass: 1, inertia: {xx: 1e-4, yy: 1/12, zz: 1/12}}
start:
  base: {position: [0, 0, 1/sqrt(5)], rpy: [0, -atan(2), 0], linear_velocity: [-2/sqrt(5), 0, 4/sqrt(5)]}
contacts:
  tip: {frame: rod, points: [[-0.5, 0, 0]], friction: 1.6}
wbc: {rate: 500, duration: 0.004}
"""


def test_painleves_paradox_is_reported_in_words(tmp_path, capsys):
    """Dragged on its tip at 63 degrees, with friction above 4/3: with its contact and its time, on screen and in the folder."""
    place, out = tmp_path / "rod.yaml", tmp_path / "run"
    place.write_text(ROD, encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        main(["wbc", str(place), "--out", str(out)])
    assert ended.value.code == 0
    words = "Painlevé's paradox of contact tip at 0 s: rigid bodies that slide with this friction have no consistent acceleration"
    assert words in capsys.readouterr().out
    assert any(note.startswith(words) for note in json.loads((out / "summary.json").read_text(encoding="utf-8"))["notes"])
    assert not run_loaded(load_wbc_text(ROD.replace("friction: 1.6", "friction: 1.3"))).notes


def test_independent_errors_come_at_once():
    """Of contacts, tasks, the controller and the plant: none waits for another."""
    text = TEXT
    contact = "lf: {frame: lf_foot, friction: 0.6, least: 2"
    for right, wrong in ((f"{contact}}}", f"{contact}, most: 1}}"),
                         ("{frame: trunk, rpy", "{frame: trunkk, rpy"), ("rate: 500", "rate: -500")):
        assert right in text
        text = text.replace(right, wrong)
    with pytest.raises(ProblemFileError) as caught:
        load_wbc_text(text + "plant: {kind: mujocoo}\n", FOLDER)
    keys = [one.split(": ")[1] for one in caught.value.findings]
    assert keys == ["contacts.lf.most", "tasks[1].orientation.frame", "wbc.rate", "plant.kind"]
