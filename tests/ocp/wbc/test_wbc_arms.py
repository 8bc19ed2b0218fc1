"""Arms under whole-body control from files: the notes' worked numbers, and contact that the controller does not know of."""

from pathlib import Path

import numpy as np
import pytest

from ocp.app.files.control.wbc import load_wbc, load_wbc_text
from ocp.app.wbc.run import run_loaded
from ocp.errors import ProblemError

FOLDER = Path(__file__).resolve().parents[3] / "problems" / "wbc"
PLANAR, PEG = ((FOLDER / f"{name}.yaml").read_text(encoding="utf-8") for name in ("planar_arm_priorities", "peg_in_hole"))
R3 = np.sqrt(3.0)
REST = "  - {name: joints rest, posture: {joints: {joint1: pi/6, joint2: pi/3}}, gain: rate/2}\n"


@pytest.mark.row("001:K57", "001:C07")
@pytest.mark.parametrize(("tasks", "rates"), [
    (REST, [(2 * R3 - 6) / 15, (R3 - 3) / 15, (3 - 11 * R3) / 15]),
    (REST.replace("{joint1: pi/6, joint2: pi/3}", "{joint1: pi/6, joint2: pi/3, joint3: pi/3}"),
     [-4 / 9 + 8 * R3 / 27, -1 / 9 - 7 * R3 / 27, 1 / 9 - 11 * R3 / 27]),
    (REST.replace("name: joints rest", "priority: 1, name: joints rest"), [(2 * R3 - 6) / 19, (R3 - 3) / 19, (1 - 13 * R3) / 19]),
], ids=["strict", "least rates", "equal"])
def test_the_worked_numbers_of_example_2_9_1(tasks, rates):
    """(2.225), (2.230) and (2.238), by accelerations within one step of twenty microseconds."""
    text = PLANAR.replace(REST, tasks).replace("rate: 5000", "rate: 50000").split("expect:")[0]
    if "priority: 1" in tasks:
        text = text.replace("name: tip moves", "priority: 1, name: tip moves")
    found = run_loaded(load_wbc_text(text + "wbc: {rate: rate, duration: 1/rate, horizon: null}\n", FOLDER))
    np.testing.assert_allclose(found.run.x[-1, 3:], rates, atol=1e-4)


@pytest.mark.slow
@pytest.mark.row("001:C12")
def test_a_soft_peg_finds_its_hole_and_a_stiff_one_jams():
    """On the bottom with 20 N although its place is wrong by 2.3 mm; forces of the walls grow with the square of the gain."""
    def hand(gain):
        found = run_loaded(load_wbc_text(PEG.replace("gain: 8}", f"gain: {gain}}}"), FOLDER))
        assert all(np.nanmax(c.share[:, 1], initial=0.0) <= 1.0 + 1e-6 for c in found.run.contacts)
        return found, {c.name: c.actual for c in found.run.contacts}

    soft, on = hand(8)
    assert soft.ok
    up = on["bottom"][-1, 2] + on["wall +x"][-1, 2] + on["wall +y"][-1, 2]
    assert up == pytest.approx(20.0, abs=1e-6)
    stiff, jammed = hand(32)
    assert any("q.zeta" in line for line in stiff.missed)
    assert np.abs(jammed["bottom"]).max() == 0.0
    for wall in ("wall +x", "wall +y"):
        assert jammed[wall][625] == pytest.approx(16 * on[wall][550], rel=1e-2)  # both on their way down along the walls
        assert np.abs(on[wall.replace("+", "-")]).max() == 0.0


def test_a_plane_lies_where_its_height_says_whatever_the_length_of_its_normal():
    """Controller and plant agree on a floor 20 mm up."""
    text = (FOLDER / "box_slides.yaml").read_text(encoding="utf-8").split("expect:")[0]
    text = text.replace("friction: 0.3", "friction: 0.3, normal: [0, 0, 3], height: 0.02").replace("0, 0.05]", "0, 0.07]", 1)
    loaded = load_wbc_text(text + "wbc: {rate: 100, duration: 0.1}\n", FOLDER)
    found = run_loaded(loaded).run
    assert not loaded.notes
    assert found.x[-1, 2] == pytest.approx(0.07, abs=1e-9)
    assert np.abs(found.contacts[0].gap).max() < 1e-9


@pytest.mark.parametrize(("old", "new", "words"), [
    ("z: [bottom - 0.001, edge]}", "z: [edge, bottom]}", r"wall \+x\"\]\.within\.z: must end above its beginning"),
    ("z: [bottom - 0.001, edge]}", "w: [null, edge]}", r"wall \+x\"\]\.within\.w: unknown key"),
    ("wbc: {rate", "plant: {cone: around}\nwbc: {rate", r"plant\.cone: .*exact, inner, outer"),
    ("wbc: {rate", "plant: {cone: inner, sides: 2}\nwbc: {rate", r"plant\.sides: .*3"),
])
def test_planes_and_cones_that_cannot_be(old, new, words):
    with pytest.raises(ProblemError, match=words):
        load_wbc_text(PEG.replace(old, new, 1), FOLDER)


def test_what_mujoco_does_not_know_is_refused_by_name():
    pytest.importorskip("mujoco")
    with pytest.raises(ProblemError, match=r"plane of contact 'wall \+x' ends"):
        load_wbc_text(PEG, FOLDER).plant("mujoco")
    slides = load_wbc(FOLDER / "box_slides.yaml", {"plant.cone": "inner"})
    with pytest.raises(ProblemError, match="only the exact cone"):
        slides.plant("mujoco")


@pytest.mark.slow
def test_friction_of_the_plant_may_be_a_pyramid():
    """The inner pyramid of four sides brakes a box along the normal of a side by mu / sqrt 2: it slides sqrt 2 times as far."""
    loaded = load_wbc(FOLDER / "box_slides.yaml", {"plant.cone": "inner", "wbc.duration": "0.6"})
    found = run_loaded(loaded).run
    assert found.x[-1, 0] == pytest.approx(np.sqrt(2.0) / (2 * 0.3 * 9.81), abs=2e-6)
