"""Pyramids beside the exact cone, and planes that end: closed forms, and every condition of Coulomb's law by itself."""

import numpy as np
import pytest
from boxes import G, box, corners, coulombs, state

from dynamics.constraints import Cone, PointContact
from dynamics.errors import ModelError
from dynamics.mechanism import Mechanism
from dynamics.model.builder import Builder
from dynamics.model.model import BodyInertia, Joint
from ocp.plants.hybrid import HybridOptions, HybridPlant

NONE, SIDES = np.zeros(0), 4


def polygon(cone):
    """Corners [sides, 2] of what friction may be at mu x_n = 1, by trigonometry alone."""
    angle = (2 * np.arange(cone.sides) + 1) * np.pi / cone.sides
    return (1.0 if cone.pyramid == "inner" else 1 / np.cos(np.pi / cone.sides)) * np.column_stack([np.cos(angle), np.sin(angle)])


@pytest.mark.parametrize("pyramid", ["inner", "outer"])
@pytest.mark.parametrize("seed", range(12))
def test_coulombs_law_on_pyramids(seed, pyramid):
    """Friction lies in the pyramid, and of all that does none takes more power from the motion."""
    rng, cone = np.random.default_rng(seed), Cone(3 + seed % 6, pyramid)
    x, u, mu, scale = coulombs(rng, 5, 6 if seed % 2 else 18, cone=cone)
    for force, motion, m in zip(x, u, mu, strict=True):
        corners_ = m * force[2] * polygon(cone)
        edges = np.roll(corners_, -1, axis=0) - corners_
        off = force[:2] - corners_
        assert (edges[:, 0] * off[:, 1] - edges[:, 1] * off[:, 0]).min() >= -1e-9 * scale**2  # left of every side
        assert force[:2] @ motion[:2] <= (corners_ @ motion[:2]).min() + 1e-8 * scale**2


@pytest.mark.parametrize(("cone", "factor"), [(Cone(), 1.0), (Cone(4, "inner"), np.sqrt(0.5)), (Cone(4, "outer"), 1.0)])
@pytest.mark.sample(2)
def test_a_box_slides_along_the_normal_of_a_side(cone, factor):
    """Along the first tangent the inner pyramid of four sides has mu / sqrt 2, the outer one mu."""
    mu, v = 0.3, 1.0
    plant = HybridPlant(box(), [corners(friction=mu)], options=HybridOptions(cone=cone))
    plant.reset(state((0, 0, 0.05), velocity=(v, 0, 0, 0, 0, 0)))
    x = plant.step(NONE, 0.6)
    assert x[0] == pytest.approx(v * v / (2 * factor * mu * G), abs=2e-6)  # it turns to and fro within the side as it stops


@pytest.mark.parametrize(("cone", "factor"), [(Cone(4, "inner"), 1.0), (Cone(4, "outer"), np.sqrt(2.0))])
def test_a_box_slides_towards_a_corner(cone, factor):
    mu, v = 0.3, np.array([1.0, 1.0]) / np.sqrt(2)
    plant = HybridPlant(box(), [corners(friction=mu)], options=HybridOptions(cone=cone))
    plant.reset(state((0, 0, 0.05), velocity=(*v, 0, 0, 0, 0)))
    x = plant.step(NONE, 0.6)
    np.testing.assert_allclose(x[:2], v / (2 * factor * mu * G), atol=1e-9)


@pytest.mark.parametrize("cone", [Cone(), Cone(SIDES, "inner"), Cone(SIDES, "outer")])
@pytest.mark.sample(2)
def test_friction_at_creeping_speed_is_that_of_the_cone(cone):
    """20 mm/s, turning as it slides: no force leaves the cone at any step, and the box stops."""
    worst, mu = 0.0, 0.4
    plant = HybridPlant(box(), [corners(friction=mu)], options=HybridOptions(cone=cone))
    plant.reset(state((0, 0, 0.05), velocity=(0.02, 0.003, 0, 0, 0, 0.1)))
    for _ in range(80):
        x = plant.step(NONE, 5e-4)
        for f in plant.forces.values():
            angle = 2 * np.pi * np.arange(cone.sides) / max(cone.sides, 1)
            across = np.hypot(f[0], f[1]) if not cone.sides else (np.cos(angle) * f[0] + np.sin(angle) * f[1]).max()
            worst = max(worst, across - mu * (np.cos(np.pi / SIDES) if cone.pyramid == "inner" and cone.sides else 1.0) * f[2])
    assert worst < 1e-8
    assert np.abs(x[7:]).max() < 1e-9


def test_a_cone_needs_three_sides():
    with pytest.raises(ModelError, match="at least 3 sides"):
        Cone(2)
    with pytest.raises(ModelError, match="inner"):
        Cone(4, "midway")


# ---- planes that end ----------------------------------------------------------------------------------------------------
def puck(mass=2.0):
    """A point mass that moves along x and z."""
    builder = Builder("puck")
    builder.body("slider", parent="world", inertia=BodyInertia(0.0), joint=Joint("x", "prismatic", axes=((1.0, 0.0, 0.0),)))
    builder.body("puck", parent="slider", inertia=BodyInertia(mass), joint=Joint("z", "prismatic", axes=((0.0, 0.0, 1.0),)))
    return Mechanism(builder.build())


def test_a_puck_leaves_its_table_at_the_edge_and_lands_below():
    """Friction up to the edge, a parabola beyond, and an impact on the floor, where both planes are under the same point."""
    mu, v, edge, drop = 0.2, 1.5, 0.3, 0.4
    table, floor = (PointContact(name, "puck", friction=mu, height=h) for name, h in (("table", 0.0), ("floor", -drop)))
    plant = HybridPlant(puck(), [table, floor], within={"table": ((-np.inf, edge), (-np.inf, np.inf), (-np.inf, np.inf))})
    plant.reset([0.0, 0.0, v, 0.0])
    x = plant.step(NONE, 1.0)
    at_edge = np.sqrt(v * v - 2 * mu * G * edge)
    left = (v - at_edge) / (mu * G)
    lift, = (event for event in plant.events if event.kind == "lift")
    assert lift.time == pytest.approx(left, abs=1e-9)
    impact, = (event for event in plant.events if event.kind == "impact")
    fall = np.sqrt(2 * drop / G)
    assert impact.time == pytest.approx(left + fall, abs=1e-9)
    after = at_edge - mu * G * fall  # friction of the impact: mu times its normal impulse
    assert x[0] == pytest.approx(edge + at_edge * fall + after**2 / (2 * mu * G), abs=1e-8)
    assert x[1] == pytest.approx(-drop, abs=1e-9)


def test_a_box_of_the_world_is_one():
    with pytest.raises(ModelError, match="is not a box"):
        HybridPlant(puck(), [PointContact("table", "puck", friction=0.2)], within={"table": ((0.0, -1.0), (0.0, 1.0), (0.0, 1.0))})


def test_forces_that_are_reported_lie_in_their_cones_where_many_would_do():
    """A puck in a corner of floor and wall, pushed against both: the least forces would have the wall carry weight."""
    mu = 0.2
    planes = [PointContact("floor", "puck", friction=mu), PointContact("wall", "puck", normal=(-1.0, 0.0, 0.0), friction=mu)]
    plant = HybridPlant(puck(), planes)
    plant.reset(np.zeros(4))
    plant.step(NONE, 0.01)
    told = plant.forces
    assert np.hypot(*told["floor"][:2]) <= mu * told["floor"][2] + 1e-9
    assert np.hypot(*told["wall"][1:]) <= -mu * told["wall"][0] + 1e-9
    assert (told["floor"] + told["wall"])[2] == pytest.approx(2.0 * G, abs=1e-9)
