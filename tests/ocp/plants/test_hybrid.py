"""The hybrid simulator against closed forms: sliding, holding, bouncing, rolling; energy, momentum, cones; what has no solution."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from boxes import G, box, corners, coulombs, solid, state

from dynamics.constraints import FlatContact, PointContact, Rod, RollingContact
from dynamics.errors import ModelError, UnknownNameError
from dynamics.forces import Place
from dynamics.mechanism import Mechanism
from dynamics.model import BodyInertia, Builder, Joint, Placement
from ocp.errors import ProblemError
from ocp.plants import Plant, Push
from ocp.plants.hybrid import HybridOptions, HybridPlant
from ocp.plants.smooth import STICK, Modes

NONE = np.zeros(0)


def run(plant, x, seconds, dt=2e-3, watch=None):
    plant.reset(x)
    for _ in range(round(seconds / dt)):
        plant.step(NONE, dt)
        if watch is not None:
            watch()
    return plant.measure()


def moments(plant, kind):
    return [event.time for event in plant.events if event.kind == kind]


# ---- Coulomb's law ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(40))
def test_coulombs_law_at_several_contacts(seed):
    """Every condition by itself, with redundant rows (more contacts than motions) and with friction from none to much."""
    x, u, mu, scale = coulombs(np.random.default_rng(seed), 9, 6 if seed % 2 else 18)
    friction, speed = np.linalg.norm(x[:, :2], axis=1), np.linalg.norm(u[:, :2], axis=1)
    assert (friction <= mu * x[:, 2] + 1e-12 * scale).all()
    slides = speed > 1e-7 * scale
    against = -(mu * x[:, 2])[slides, None] * u[slides, :2]
    np.testing.assert_allclose(x[slides, :2] * speed[slides, None], against, atol=1e-7 * scale**2)


# ---- closed forms -------------------------------------------------------------------------------------------------------
def test_a_box_slides_to_rest():
    """v^2 / (2 mu g) in v / (mu g); friction takes the whole kinetic energy, and stays on its cone."""
    plant, v, mu = HybridPlant(box(), [corners()]), 1.0, 0.3
    x = run(plant, state((0, 0, 0.05), velocity=(v, 0, 0, 0, 0, 0)), 0.5)
    assert isinstance(plant, Plant)
    assert x[0] == pytest.approx(v * v / (2 * mu * G), abs=1e-9)
    assert moments(plant, "stick") == pytest.approx([v / (mu * G)] * 4, abs=1e-9)
    assert np.abs(x[7:]).max() < 1e-12
    assert plant.work["friction"] == pytest.approx(-0.5 * 2.0 * v * v, abs=1e-9)


@pytest.mark.parametrize(("slope", "holds"), [(0.4635, True), (0.4638, False), (0.7, False)])
def test_a_block_on_an_incline_holds_where_its_tangent_is_at_most_the_friction(slope, holds):
    """atan(1/2) = 0.46365: one ten-thousandth of a radian to either side; beyond, the acceleration is g (sin - mu cos)."""
    n = (np.sin(slope), 0.0, np.cos(slope))
    plant = HybridPlant(box(), [corners(friction=0.5, normal=n)])
    start = state(0.05 * np.array(n), (np.cos(slope / 2), 0, np.sin(slope / 2), 0))
    x = run(plant, start, 0.1)
    moved = 0.0 if holds else G * (np.sin(slope) - 0.5 * np.cos(slope)) * 0.1**2 / 2
    down = np.array([np.cos(slope), 0.0, -np.sin(slope)])
    np.testing.assert_allclose(x[:3] - start[:3], moved * down, atol=1e-9)
    assert bool(moments(plant, "slip")) is not holds


@pytest.mark.row("001:D31")
def test_a_ball_bounces_and_comes_to_rest():
    """Impact times, impulses and losses of a geometric series; the ball never goes through the floor."""
    e, m, fall, lowest = 0.5, 2.0, np.sqrt(2 / G), [0.0]
    plant = HybridPlant(box(m), [PointContact("foot", "c", ((0.0, 0.0, -0.05),), friction=0.3)], restitution=e)
    run(plant, state((0, 0, 1.05)), 1.5, watch=lambda: lowest.append(min(plant.gaps.values())))
    assert min(lowest) >= -1e-9
    impacts = [event for event in plant.events if event.kind == "impact"]
    times = [fall * (1 + 2 * sum(e**k for k in range(1, i + 1))) for i in range(6)]
    assert [event.time for event in impacts[:6]] == pytest.approx(times, abs=1e-8)
    for i, event in enumerate(impacts[:6]):
        v = G * fall * e**i
        assert event.impulse == pytest.approx(m * (1 + e) * v, rel=1e-7)  # momentum
        assert event.energy == pytest.approx(0.5 * m * v * v * (1 - e * e), rel=1e-7)  # loss of energy
    assert moments(plant, "touch")[-1] == pytest.approx(fall * (1 + e) / (1 - e), abs=1e-4)
    assert np.abs(plant.measure()[7:]).max() < 1e-9


@pytest.mark.row("001:D28", "001:D30")
def test_a_rod_that_is_hit_at_its_end_loses_an_eighth():
    """A uniform rod falls flat, one end strikes: the inertia there is m / 4, so the loss is m v^2 / 8."""
    m, length, v = 3.0, 1.2, 0.7
    rod = solid(m, [1e-4, m * length**2 / 12, m * length**2 / 12], gravity=(0.0, 0.0, 0.0))
    plant = HybridPlant(rod, [PointContact("tip", "c", ((length / 2, 0.0, 0.0),), friction=0.0)])
    run(plant, state((0, 0, 0.01), velocity=(0, 0, -v, 0, 0, 0)), 0.02)
    impact, = (event for event in plant.events if event.kind == "impact")
    assert impact.time == pytest.approx(0.01 / v, abs=1e-9)
    assert impact.impulse == pytest.approx(m * v / 4, rel=1e-6)
    assert impact.energy == pytest.approx(m * v * v / 8, rel=1e-6)


# ---- balances -----------------------------------------------------------------------------------------------------------
def test_a_tumbling_box_keeps_its_books():
    """Eight corners, fifty impacts with friction and restitution: energy is what it was less the work of friction and impacts, and
    no corner is ever below the floor."""
    gap = [0.0]
    plant = HybridPlant(box(), [corners("bottom", 0.5), corners("top", 0.5, top=True)], restitution=0.3)
    start = state((0, 0, 0.3), (0.9, 0.3, 0.2, 0.1), (1, 0, 0, 1, 2, 3))
    plant.reset(start)
    before = plant.energy
    run(plant, start, 1.0, watch=lambda: gap.append(min(plant.gaps.values())))
    assert min(gap) >= -1e-9
    assert len(moments(plant, "impact")) > 10
    assert plant.energy - before == pytest.approx(sum(plant.work.values()), abs=1e-6)
    assert all(event.energy >= 0 for event in plant.events if event.kind == "impact")


def test_a_push_starts_and_ends_in_time():
    """Stronger than friction for a tenth of a second: the distance of both stretches."""
    m, mu, force = 2.0, 0.3, 12.0
    plant = HybridPlant(box(m), [corners(friction=mu)], pushes=[Push(0.0511, 0.1, frame="c", force=(force, 0.0, 0.0))])
    x = run(plant, state((0, 0, 0.05)), 0.5)
    v = (force / m - mu * G) * 0.1
    assert x[0] == pytest.approx(v * 0.05 + v * v / (2 * mu * G), abs=2e-6)
    assert x[2] == pytest.approx(0.05, abs=1e-12)


def test_friction_takes_what_a_push_gives_in_a_slow_motion():
    """Pressed down by 1e6 N and pushed as friction holds back: on at 1 cm/s, while far more is lost than the motion has."""
    m, mu, press, v = 2.0, 0.3, 1e6, 0.01
    hold = mu * (press + m * G)
    plant = HybridPlant(box(m), [corners(friction=mu)], pushes=[Push(0.0, 1.0, frame="c", force=(hold, 0.0, -press))])
    x = run(plant, state((0, 0, 0.05), velocity=(v, 0, 0, 0, 0, 0)), 0.1)
    assert x[0] == pytest.approx(v * 0.1, rel=1e-6)
    assert plant.work["friction"] == pytest.approx(-hold * v * 0.1, rel=1e-6)
    assert {event.kind for event in plant.events} == {"slip"}


@pytest.mark.parametrize(("how", "most"), [("projection", 1e-12), ("baumgarte", 1e-5), ("none", 1e-3)])
def test_drift_with_and_without_stabilisation(how, most):
    """A ball on an inclined plane that slides and spins: how far its point is off the plane after a second."""
    rod = solid(1.0, [0.002, 0.05, 0.05])
    plant = HybridPlant(rod, [PointContact("pin", "c", ((0.3, 0.0, 0.0),), friction=2.0)], options=HybridOptions(
        max_step=1e-2, stabilisation=how))
    off = []
    start = state((-0.3 * np.cos(0.5), 0, 0.3 * np.sin(0.5)), (np.cos(0.25), 0, np.sin(0.25), 0))
    run(plant, start, 0.2, dt=1e-2, watch=lambda: off.append(abs(plant.gaps["pin"])))
    assert max(off) < most


def test_a_loop_that_is_open_closes_like_a_critically_damped_spring():
    """Baumgarte's terms alone: ``g'' + 2 r g' + r^2 g = 0``, so g = d (1 + r t) exp(-r t) of what the loop was off by."""
    b = Builder("crank", gravity=(0.0, 0.0, 0.0))
    rod = BodyInertia(1.0, (0.15, 0.0, 0.0), ((0.01, 0.0, 0.0), (0.0, 0.01, 0.0), (0.0, 0.0, 0.01)))
    for k, (parent, at) in enumerate((("world", 0.0), ("l0", 0.3), ("world", 0.5))):
        b.body(f"l{k}", parent=parent, joint=Joint(f"j{k}", "revolute", Placement(position=(at, 0.0, 0.0)), ((0.0, 1.0, 0.0),)),
               inertia=rod)
    b.frame("tip", body="l1", placement=Placement(position=(0.4, 0.0, 0.0)))
    b.frame("end", body="l2", placement=Placement(position=(0.3, 0.0, 0.0)))
    q, rate = np.array([-0.9, 0.7, -1.2]), 20.0
    tie, model = Rod("tie", Place("tip"), Place("end"), 0.2), b.build()
    x = ca.SX.sym("q", 3)
    off = ca.Function("off", [x], [tie.value(model, x)])
    tie = replace(tie, length=0.2 + float(off(q)) - 1e-3)  # a millimetre too short
    off = ca.Function("off", [x], [tie.value(model, x)])
    plant = HybridPlant(Mechanism(model, constraints=(tie,)), [], options=HybridOptions(stabilisation="baumgarte", rate=rate))
    seen = []
    plant.reset(np.r_[q, np.zeros(3)])
    for _ in range(60):
        plant.step(NONE, 2e-3)
        seen.append(float(off(plant.q)))
    t = 2e-3 * np.arange(1, 61)
    np.testing.assert_allclose(seen, 1e-3 * (1 + rate * t) * np.exp(-rate * t), atol=1e-9)


def test_a_point_that_sticks_comes_back_to_its_anchor_like_a_critically_damped_spring():
    """The anchors of a box at rest moved aside: ``x = d (1 - (1 + r t) exp(-r t))`` under forces far below friction."""
    rate, aside = 20.0, np.array([1e-4, -5e-5])
    plant = HybridPlant(box(), [corners(friction=0.9)], options=HybridOptions(stabilisation="baumgarte", rate=rate))
    for t in (0.02, 0.05, 0.15):  # steps anew take new anchors
        plant.reset(state((0, 0, 0.05)))
        plant.step(NONE, 2e-3)
        assert (plant.modes.mode == STICK).all()
        plant.modes = Modes(plant.modes.mode, plant.modes.slip, plant.modes.anchor + aside)
        plant.step(NONE, t)
        np.testing.assert_allclose(plant.q[:2], (1 - (1 + rate * t) * np.exp(-rate * t)) * aside, atol=1e-10)
        assert not moments(plant, "slip")


def swinging(gap=0.0, down=0.0, **options):
    """A rod of a metre that turns about its lower end, which stands on the plane or falls to it at ``down`` (m/s) from ``gap`` (m).
    Its coordinates are those of its middle and an angle, in which the velocity of the end has a rate of its own."""
    angle, w = 1.0, 3.0
    b = Builder("rod")
    b.body("middle", parent="world", joint=Joint("at", "translation"))
    b.body("rod", parent="middle", joint=Joint("turn", "revolute", axes=((0.0, 1.0, 0.0),)),
           inertia=BodyInertia(1.0, (0.0, 0.0, 0.0), ((1e-4, 0, 0), (0, 1 / 12, 0), (0, 0, 1 / 12))))
    plant = HybridPlant(Mechanism(b.build()), [PointContact("tip", "rod", ((0.5, 0.0, 0.0),), friction=5.0)],
                        options=HybridOptions(**options))
    c, s = np.cos(angle) / 2, np.sin(angle) / 2  # the end is at (c, -s) of the middle
    plant.reset(np.r_[-c, 0, s + gap, angle, w * s, 0, w * c - down, w])
    assert plant.gaps["tip"] == pytest.approx(gap, abs=1e-12)
    return plant


def test_a_step_as_a_whole_is_of_first_order():
    """Velocities of a rod about the end on which it stands, to the square of the step, by the smooth motion."""
    errors = []
    for h in (4e-3, 2e-3, 1e-3):
        whole, smooth = swinging(), swinging()
        whole._whole(h, "crowded")
        smooth.step(NONE, h)
        assert not smooth.events
        errors.append(np.abs(whole.v - smooth.v).max())
    assert np.log2(np.array(errors[:-1]) / errors[1:]) == pytest.approx([2.0, 2.0], abs=0.15)


@pytest.mark.parametrize(("down", "left"), [(2.0, 0.0), (0.2, 8e-4)])
def test_a_point_that_reaches_its_plane_within_a_step_as_a_whole_ends_on_it(down, left):
    plant = swinging(1e-3, down, stabilisation="none")
    plant._whole(1e-3, "crowded")
    assert plant.gaps["tip"] == pytest.approx(left, abs=5e-5)


# ---- what has no solution, and bad input --------------------------------------------------------------------------------
def test_painleves_paradox_is_named():
    """A rod that is dragged on its lower end at 63 degrees: with mu above 4/3 no acceleration is consistent. The tip is stopped
    at once, about which the momentum is kept: 3/2 of the speed across the rod by its length."""
    length, angle = 1.0, np.arctan(2.0)
    rod = solid(1.0, [1e-4, length**2 / 12, length**2 / 12])
    tip = PointContact("tip", "c", ((-length / 2, 0.0, 0.0),), friction=1.6)
    half = -angle / 2  # pitch up: the middle lies ahead of the tip
    plant = HybridPlant(rod, [tip])
    turn = np.array([[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]])
    start = state((0, 0, length / 2 * np.sin(angle)), (np.cos(half), 0, np.sin(half), 0),
                  np.r_[turn @ [-2.0, 0, 0], 0, 0, 0])
    plant.reset(start)
    before = plant.energy
    plant.step(NONE, 2e-5)
    np.testing.assert_allclose(plant.v[4], -1.5 * 2.0 * np.sin(angle) / length, atol=1e-3)
    plant.step(NONE, 0.01)
    named = [event.contact for event in plant.events if event.kind == "painleve"]
    other = HybridPlant(rod, [PointContact("tip", "c", ((-length / 2, 0.0, 0.0),), friction=1.2)])
    other.reset(start)
    other.step(NONE, 0.01)
    forward = HybridPlant(rod, [tip])
    forward.reset(start * np.r_[np.ones(7), -np.ones(6)])
    forward.step(NONE, 0.01)
    both = [plant, forward]
    assert named == ["tip"]
    assert not any(event.kind == "painleve" for event in forward.events)  # friction pulls it off the ground
    assert not any(event.kind == "painleve" for event in other.events)  # too little friction for it
    assert all(np.isfinite(one.measure()).all() for one in both)
    assert plant.energy <= before + 1e-6


@pytest.mark.parametrize(("mu", "angle", "velocity"), [
    (2.0, 1.2095, (-0.295, 1.091, -1.191, 1.327, 3.945, 0.418)),
    (1.4, 0.9278, (-2.006, -0.49, 3.547, -0.94, -1.739, 0.154)),
])
def test_where_forces_grow_without_bound_nothing_makes_energy(mu, angle, velocity):
    """A rod slides and spins on its tip towards Painleve's paradox, too fast for steps: the ground neither pulls nor gives
    energy, and the books are kept."""
    rod = solid(1.0, [1e-3, 1 / 12, 1 / 12])
    plant = HybridPlant(rod, [PointContact("tip", "c", ((-0.5, 0.0, 0.0),), friction=mu)])
    plant.reset(state((0, 0, 0.5 * np.sin(angle)), (np.cos(angle / 2), 0, -np.sin(angle / 2), 0), velocity))
    energy = before = plant.energy
    for _ in range(30):
        plant.step(NONE, 2e-3)
        assert plant.energy <= energy + 1e-6
        assert plant.forces["tip"][2] >= 0.0
        energy = plant.energy
    assert energy - before == pytest.approx(sum(plant.work.values()), abs=0.1)  # of 12 J, where forces are steep


@pytest.mark.parametrize(("make", "words"), [
    (lambda: HybridPlant(box(), [PointContact("a", "c")]), "needs a coefficient of friction"),
    (lambda: HybridPlant(box(), [FlatContact("a", "c", friction=0.3)]), "half_sizes"),
    (lambda: HybridPlant(box(), [corners()], restitution=1.5), "between 0 and 1"),
    (lambda: HybridPlant(box(), [corners()], options=HybridOptions(stabilisation="projektion")), "did you mean 'projection'"),
    (lambda: HybridOptions(max_step=0.0), "must be positive"),
    (lambda: HybridPlant(box(), [corners()], pushes=[Push(0.0, 1.0, rate=(1.0,))]), "must be a force on a frame"),
    (lambda: HybridPlant(box(), [corners()]).reset(state((0, 0, 0.04))), "below its plane"),
])
def test_what_cannot_be_simulated_is_refused(make, words):
    with pytest.raises((ProblemError, ModelError), match=words):
        make()
    with pytest.raises(UnknownNameError, match="boks"):
        HybridPlant(box(), [corners()], restitution={"boks": 0.5})


def test_a_ball_rolls():
    """Down an incline without slipping: 5/7 of the acceleration of a block without friction."""
    slope, r, m = 0.2, 0.1, 1.5
    n = np.array([np.sin(slope), 0.0, np.cos(slope)])
    ball = solid(m, [0.4 * m * r * r] * 3)
    plant = HybridPlant(ball, [RollingContact("ball", "c", r, normal=tuple(n), friction=0.5)])
    x = run(plant, state(r * n), 0.4)
    assert np.linalg.norm(x[:3] - r * n) == pytest.approx(5 / 7 * G * np.sin(slope) * 0.4**2 / 2, rel=1e-9)



def test_a_robot_that_leaves_all_bounds_is_not_a_number():
    """Numbers beyond what squares allow: the state is not finite from there on, and no step raises."""
    plant = HybridPlant(box(), [corners()])
    plant.reset(state((0, 0, 10.0), velocity=(0, 0, 0, 1e200, 2e200, 3e200)))
    with np.errstate(all="ignore"):
        for _ in range(3):
            plant.step(NONE, 1e-2)
    assert not np.isfinite(plant.measure()).all()
