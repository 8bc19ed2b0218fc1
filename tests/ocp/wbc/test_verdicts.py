"""Whether a robot under whole-body control stands: its ground, what of it may touch that, tilt, support, and what was not kept."""

from dataclasses import replace

import numpy as np
import pytest
from repository import ROOT
from scipy.spatial import ConvexHull

from ocp.app.files.control.wbc import load_wbc, load_wbc_text
from ocp.app.sentences import sentence
from ocp.app.wbc.folder import summarise, verdict
from ocp.app.wbc.run import run_loaded
from ocp.problem import Kind
from ocp.wbc.ground import Ground, beyond_limits, outside

FOLDER = ROOT / "problems" / "wbc"
QUADRUPED = (FOLDER / "quadruped_push.yaml").read_text(encoding="utf-8").split("schedule:")[0]


def quadruped(more="", height=0.0, **changes):
    """The quadruped of the gallery, its ground at another height (m), with another end of its file."""
    text = QUADRUPED.replace("0.36]", f"{0.36 + height}]").replace("friction: 0.6", f"friction: 0.6, height: {height}")
    return load_wbc_text(text + more, FOLDER, overrides=changes)


def ground_of(loaded):
    return Ground.below(loaded.mechanism, loaded.setup.contacts, loaded.setup.start)


def turned(x, angle):
    """The state with its base turned by an angle (rad) about x."""
    x = x.copy()
    x[3:7] = [np.cos(angle / 2), np.sin(angle / 2), 0.0, 0.0]
    return x


def test_the_ground_is_the_lowest_plane_that_faces_upwards():
    loaded = quadruped("wbc: {duration: 1}\n", -1.0)
    assert ground_of(loaded).height == -1.0
    contacts = list(loaded.setup.contacts)
    wall = replace(contacts[0], normal=(-1.0, 0.0, 0.0), height=-5.0)
    assert Ground.below(loaded.mechanism, [wall], loaded.setup.start) is None
    assert Ground.below(loaded.mechanism, [wall, *contacts], loaded.setup.start).height == -1.0
    arm = load_wbc(FOLDER / "arm_wipes_wall.yaml")
    assert Ground.below(arm.mechanism, contacts, arm.setup.start) is None


def test_parts_of_a_robot_are_its_base_and_its_joints():
    """A box of even density comes back from its inertia; feet are no parts."""
    loaded = quadruped("wbc: {duration: 1}\n")
    ground, model = ground_of(loaded), loaded.mechanism.model
    frames = [part.frame for part in ground.parts]
    assert frames.count(model.bodies[0].name) == 8
    assert not {model.bodies[i].name for i in ground.carriers} & {f for f in frames if f != model.bodies[0].name}
    trunk = model.bodies[0].inertia
    corners = np.array([part.points[0] for part in ground.parts if part.frame == model.bodies[0].name])
    a, b, c = np.ptp(corners, axis=0)
    squares = np.array([b * b + c * c, a * a + c * c, a * a + b * b])
    assert np.diag(np.array(trunk.inertia)) == pytest.approx(trunk.mass / 12 * squares)
    sunk = loaded.setup.start.copy()
    sunk[2] = 0.0
    assert ground_of(loaded).parts
    lowered = Ground(loaded.mechanism, 0, ground.normal, 0.0, 0.5, sunk, ground.carriers)
    assert not [p for p in lowered.parts if p.points[0][2] < -0.04]


@pytest.mark.parametrize("height", [0.0, 2.0, -1.0])
def test_the_height_of_the_base_counts_from_its_ground(height):
    loaded = quadruped("wbc: {duration: 1}\n", height)
    ground, x = ground_of(loaded), loaded.setup.start.copy()
    assert ground.fallen(x, 0.0) is None
    x[2] = height + 0.12
    parts = ground.__dict__["parts"]
    object.__setattr__(ground, "parts", ())
    ground.__dict__.pop("_gaps")
    assert ground.fallen(x, 0.5) is None
    x[2] = height + 0.1
    found = ground.fallen(x, 0.5)
    assert (found.kind, found.time, found.value) == (Kind.BASE_SANK, 0.5, pytest.approx(0.1))
    assert found.tolerance == pytest.approx(0.3 * (loaded.setup.start[2] - height))
    assert parts
    assert "above its ground" in sentence(found)


def test_a_robot_that_touches_the_ground_with_its_base_has_fallen():
    """The lowest corner of its box touches where the height of the base is that of the corner below it."""
    loaded = quadruped("wbc: {duration: 1}\n")
    ground, x = ground_of(loaded), loaded.setup.start.copy()
    corners = np.array([part.points[0] for part in ground.parts if part.frame == loaded.mechanism.model.bodies[0].name])
    for angle in (0.0, 1.2):
        x = turned(x, angle)
        low = -(np.sin(angle) * corners[:, 1] + np.cos(angle) * corners[:, 2]).min()
        object.__setattr__(ground, "parts", tuple(p for p in ground.parts if p.frame == loaded.mechanism.model.bodies[0].name))
        ground.__dict__.pop("_gaps", None)
        for above, fallen in ((1e-3, False), (-1e-3, True)):
            x[2] = low + above
            found = ground.fallen(x, 1.0)
            assert (found is not None and found.kind is Kind.BODY_ON_GROUND) is fallen


def test_a_base_that_tips_over_is_seen_at_the_angle_of_the_closed_form():
    loaded = quadruped("wbc: {duration: 1}\n")
    ground, high = ground_of(loaded), loaded.setup.start.copy()
    high[2] += 1.0
    for angle in (0.3, 1.2, 1.3):
        assert ground.tilt(turned(high, angle)) == pytest.approx(angle)
        found = ground.fallen(turned(high, angle), 0.0)
        assert (found is not None and found.kind is Kind.BASE_TILTED) is (angle > 1.27)


def test_an_inverted_pendulum_tips_beyond_its_extrapolated_mass_centre():
    """The linear pendulum c'' = (g/h)(c - p) stops over a point p of its feet iff c + v sqrt(h/g) reaches no farther."""
    loaded = quadruped("wbc: {duration: 1}\n")
    ground, x = ground_of(loaded), loaded.setup.start.copy()
    feet = np.array([[0.2, 0.15, 0], [0.2, -0.15, 0], [-0.2, -0.15, 0], [-0.2, 0.15, 0]])
    c = np.ravel(ground._motion(x[:loaded.mechanism.model.nq], x[loaded.mechanism.model.nq:])[0].full())
    omega = np.sqrt(9.81 / c[2])
    for share, tips in ((0.9, False), (1.2, True)):
        moving = x.copy()
        moving[loaded.mechanism.model.nq + 1] = share * (0.15 - c[1]) * omega  # the whole robot along y
        found = [one for one in ground.unsteady(moving, 1.0, feet, True) if one.kind is Kind.TIPPING]
        assert bool(found) is tips
        p, y, v, h = 0.15, c[1], moving[loaded.mechanism.model.nq + 1], 1e-3
        for _ in range(5000):  # the best that feet can do is to push at their edge
            v += h * omega**2 * (y - p)
            y += h * v
        assert bool(y > p) is tips
        if tips:
            assert found[0].value == pytest.approx((share - 1.0) * (0.15 - c[1]), rel=1e-6)
    assert [one.kind for one in ground.unsteady(x, 1.0, feet[:0], True)] == [Kind.NOTHING_HOLDS]


def test_leaning_is_no_fault_where_a_task_asks_for_it():
    loaded = quadruped("wbc: {duration: 1}\n")
    ground, x = ground_of(loaded), turned(loaded.setup.start, 0.6)
    feet = np.array([[2.0, 2, 0], [2, -2, 0], [-2, -2, 0], [-2, 2, 0]])
    assert [one.kind for one in ground.unsteady(x, 1.0, feet, False)] == [Kind.LEANING]
    assert list(ground.unsteady(x, 1.0, feet, True)) == []
    assert list(ground.unsteady(turned(x, 0.4), 1.0, feet, False)) == []


def test_distances_from_a_hull_are_those_of_its_facets():
    rng = np.random.default_rng(3)
    for _ in range(20):
        points = rng.uniform(-1, 1, (8, 2))
        hull = ConvexHull(points)
        inside = points.mean(axis=0)
        assert outside(points, inside) == pytest.approx(0.0, abs=1e-6)
        facet = hull.equations[0]
        middle = points[hull.simplices[0]].mean(axis=0)
        assert outside(points, middle + 0.3 * facet[:2]) == pytest.approx(0.3, abs=1e-6)
    assert outside(np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([2.0, 1.0])) == pytest.approx(np.sqrt(2), abs=1e-6)


def test_speeds_beyond_the_limits_of_joints_are_reported():
    loaded = load_wbc(FOLDER / "arm_wipes_wall.yaml")
    model, x = loaded.mechanism.model, np.tile(loaded.setup.start, (3, 1))
    fastest, upper = model.limit("velocity"), model.limit("upper")
    x[1, model.nq] = -1.011 * fastest[0]
    x[2, 1] = upper[1] + 0.02
    found = {one.kind: one for one in beyond_limits(model, np.array([0.0, 1.0, 2.0]), x)}
    speed, place = found[Kind.JOINT_SPEED], found[Kind.JOINT_RANGE]
    assert (speed.name, speed.time, speed.data["percent"]) == ("panda_joint1", 1.0, pytest.approx(1.1))
    assert (place.name, place.time, place.value) == ("panda_joint2", 2.0, pytest.approx(0.02))
    assert "1.1 % faster" in sentence(speed)
    assert len(found) == 2


def test_sliding_feet_are_reported_with_their_distance():
    """Ice that the controller knows nothing of: what pushes the trunk pushes the feet along."""
    loaded = quadruped("schedule:\n  - {time: 0.0, over: 0.3, push: {frame: trunk, force: [0, 30, 0]}}\n"
                       "plant: {friction: {lf: 0.01, rf: 0.01, lh: 0.01, rh: 0.01}}\nwbc: {rate: 250, duration: 0.4}\n")
    found = run_loaded(loaded)
    assert not found.ok
    slid = [one for one in found.run.findings if one.kind is Kind.CONTACT_SLID]
    assert slid
    assert {one.name for one in slid} <= {"lf", "rf", "lh", "rh"}
    for one in slid:
        assert one.value == next(c.drift for c in found.run.contacts if c.name == one.name)
    assert "slid by" in verdict(found)
    assert {one["kind"] for one in summarise(found, {})["findings"]} >= {"contact_slid"}


@pytest.mark.parametrize(("height", "force", "falls"), [(-1.0, 0.0, False), (2.0, -900.0, True)])
def test_a_robot_is_pressed_down_or_stands_at_any_height(height, force, falls):
    push = f"schedule:\n  - {{time: 0.05, over: 1, push: {{frame: trunk, force: [0, 0, {force}]}}}}\n" if force else ""
    found = run_loaded(quadruped(push + "wbc: {rate: 250, duration: 0.4}\n", height))
    assert found.ok is not falls
    assert [one.kind in (Kind.BODY_ON_GROUND, Kind.BASE_SANK) for one in found.run.findings][:1] == ([True] if falls else [])
