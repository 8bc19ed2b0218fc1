"""Forces and cones in the animation, by the geometry of friction; what runs promise: cones, torques, an answer at every step."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from ocp.app.files.control.wbc import load_wbc, load_wbc_text
from ocp.app.wbc.folder import contact_rows, scene
from ocp.app.wbc.run import run_loaded
from ocp.wbc import Ending

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "problems" / "wbc"


def pushes():
    path = ROOT / "tests" / "benchmarks" / "wbc_pushes.py"
    spec = importlib.util.spec_from_file_location("wbc_pushes", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_arrows_of_a_sliding_box_end_on_the_rim_of_its_cone():
    """And once it rests the arrow stands upright, as long as before: it is the weight."""
    outcome = run_loaded(load_wbc(FOLDER / "box_slides.yaml"))
    made, words = scene(outcome)
    force = [edge for edge in made.edges if edge.role == "force"]
    rim, = (edge for edge in made.edges if edge.role == "target" and len(edge.points) > 2)
    base, tip = (made.points[:, k] for k in force[0].points)
    ring = made.points[:, rim.points[:-1]]
    centre = ring.mean(axis=1)
    moving = (made.t > 0.05) & (made.t < 0.33)
    reach = np.linalg.norm(ring - centre[:, None], axis=2)
    np.testing.assert_allclose(np.linalg.norm((tip - centre)[moving], axis=1), reach[moving].mean(axis=1), rtol=1e-6)
    assert ((tip - base)[moving, 0] < 0).all()  # friction brakes
    late = made.t > 0.36
    np.testing.assert_allclose((tip - base)[late, :2], 0.0, atol=1e-9)
    np.testing.assert_allclose((tip - base)[late, 2], (tip - base)[moving, 2].mean(), rtol=1e-6)
    np.testing.assert_allclose(reach[late] / (tip - base)[late, 2:], 0.3, rtol=1e-9)
    metres, newtons = words.split("(")[1].split(" m long for ")
    weight = outcome.loaded.mechanism.model.mass * 9.81
    assert (tip - base)[-1, 2] / weight == pytest.approx(float(metres) / float(newtons.split(" N")[0]), rel=0.05)
    np.testing.assert_allclose(base[:, 2], 0.0, atol=1e-9)


def test_a_wall_is_drawn_where_it_is_touched_and_cut_where_it_ends():
    text = (FOLDER / "box_slides.yaml").read_text(encoding="utf-8").split("expect:")[0]
    wall = "  wall: {frame: box, normal: [-1, 0, 0], height: -0.4, friction: 0.1, taken: false, within: {z: [null, 0.06]}}\n"
    outcome = run_loaded(load_wbc_text(text + wall + "wbc: {rate: 100, duration: 0.1}\n", FOLDER))
    made, _ = scene(outcome)
    outline = next(edge for edge in made.edges if edge.role == "ground" and len(edge.points) > 2)
    corners = made.points[0, outline.points[:-1]]
    np.testing.assert_allclose(corners[:, 0], 0.4, atol=1e-12)
    assert corners[:, 2].max() == pytest.approx(0.06)
    assert corners[:, 2].min() < 0.05


def test_the_table_shows_forces_of_contacts_that_are_never_taken():
    outcome = run_loaded(load_wbc(FOLDER / "box_bounces.yaml", {"wbc.duration": "1.5"}))
    row, = contact_rows(outcome.run)
    assert row["most"] > outcome.loaded.mechanism.model.mass * 9.81 * 0.99


# ---- what runs promise --------------------------------------------------------------------------------------------------
def promised(run, drift):
    """Every step has an answer, nothing leaves its limits, and feet that stand stay within drift (m)."""
    assert run.ending is Ending.FINISHED
    assert run.failures == 0
    assert run.equations < 1e-8
    assert (np.abs(run.torque) <= run.efforts * (1 + 1e-9)).all()
    for plan, contact in zip(run.setup.contacts, run.contacts, strict=True):
        n = plan.plane[2]
        normal = contact.commanded @ n
        across = np.linalg.norm(contact.commanded - normal[:, None] * n, axis=1)
        assert normal.min() >= -1e-9
        assert (across <= plan.friction * normal + 1e-9).all()
        assert contact.drift < drift


@pytest.mark.parametrize("kind", ["hybrid", "mujoco"])
def test_a_push_leaves_no_limit(kind):
    """A second with a push of 6 N s."""
    pytest.importorskip("mujoco") if kind == "mujoco" else None
    head = (FOLDER / "quadruped_push.yaml").read_text(encoding="utf-8").split("schedule:")[0]
    text = head + "schedule: [{time: 0.1, over: 0.1, push: {frame: trunk, force: [0, 60, 0]}}]\nwbc: {rate: 200, duration: 1}\n"
    promised(run_loaded(load_wbc_text(text, FOLDER), kind).run, 1e-3)


@pytest.mark.slow
def test_random_pushes_up_to_eight_newton_seconds_are_survived():
    """Ten of a seed of its own, on MuJoCo."""
    pytest.importorskip("mujoco")
    rng, module = np.random.default_rng(11), pushes()
    for _ in range(10):
        promised(module.pushed(rng.uniform(0, 2 * np.pi), rng.uniform(0, 8.0)), 5e-3)


@pytest.mark.slow
def test_thirty_seconds_of_steps_and_pushes_keep_every_limit():
    """Feet that stand move by less than a millimetre."""
    pytest.importorskip("mujoco")
    promised(pushes().sequence(30.0), 1e-3)


@pytest.mark.slow
def test_thirty_seconds_of_squats_keep_every_limit():
    pytest.importorskip("mujoco")
    promised(run_loaded(load_wbc(FOLDER / "humanoid_squats.yaml", {"wbc.duration": "30"}), "mujoco").run, 1e-3)
