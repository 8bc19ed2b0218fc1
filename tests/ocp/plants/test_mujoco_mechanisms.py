"""Springs, thrusters and closed loops on MuJoCo: the same motion as by our own simulator, or a refusal by name."""

import numpy as np
import pytest
from boxes import box, state

from dynamics.constraints import Closure, Coupling, PointContact
from dynamics.forces import Place
from dynamics.forces.body import Drag
from dynamics.forces.tension import Spring
from dynamics.mechanism import Mechanism, Motor
from dynamics.mechanism.drives import Thruster
from dynamics.model.builder import Builder
from dynamics.model.model import BodyInertia, Joint, Placement
from ocp.errors import ProblemError
from ocp.plants.hybrid import HybridPlant

mujoco = pytest.importorskip("mujoco")


def both(mechanism, start, u, seconds, dt=0.01):
    """The state afterwards on MuJoCo and on the hybrid plant."""
    from ocp.plants.mujoco import MujocoPlant

    found = []
    for plant in (MujocoPlant(mechanism, [], timestep=1e-4), HybridPlant(mechanism, [])):
        plant.reset(start)
        for k in range(round(seconds / dt)):
            plant.step(u(k * dt), dt)
        found.append(plant.measure())
    return found


def test_springs_drag_and_thrusters_of_a_floating_body():
    model = box().model
    frame = model.bodies[0].name
    spring = Spring("tie", (Place("world", (0.2, 0.1, 1.0)), Place(frame, (0.05, 0.02, 0.03))), 40.0, 0.5, 0.4)
    drag = Drag("air", frame, (0.3,) * 3 + (0.01,) * 3, (0.2,) * 3 + (0.005,) * 3)
    jets = (Thruster("up", frame, axis=(0.1, 0.0, 1.0), position=(0.02, 0.01, 0.0), moment_ratio=0.05),
            Thruster("aside", frame, axis=(0.0, 1.0, 0.2), position=(0.0, 0.0, 0.04)))
    mechanism = Mechanism(model, (), jets, (spring, drag))
    start = state((0, 0, 0.3), (0.9, 0.3, 0.2, 0.1), (0.5, -0.2, 0.1, 1.0, 2.0, -1.0))
    a, b = both(mechanism, start, lambda t: np.array([12.0 + 5 * np.sin(9 * t), 3.0]), 0.4)
    np.testing.assert_allclose(a[:7], b[:7], atol=2e-3)
    np.testing.assert_allclose(a[7:], b[7:], atol=2e-2)
    still, _ = both(Mechanism(model, (), jets), start, lambda t: np.zeros(2), 0.4)
    assert np.abs(a - still).max() > 0.5  # the forces matter


def parallelogram(joint="revolute", extra=()):
    builder = Builder("parallelogram")
    rod = BodyInertia(1.0, (0.0, 0.0, 0.15), tuple(map(tuple, np.diag([0.008, 0.008, 1e-4]))))
    bar = BodyInertia(1.0, (0.2, 0.0, 0.0), tuple(map(tuple, np.diag([1e-4, 0.014, 0.014]))))
    y = ((0.0, 1.0, 0.0),)
    builder.body("crank", parent="world", inertia=rod, joint=Joint("crank", "revolute", axes=y))
    builder.body("coupler", parent="crank", inertia=bar, joint=Joint("coupler", "revolute", Placement(position=(0.0, 0.0, 0.3)), y))
    builder.body("rocker", parent="world", inertia=rod, joint=Joint("rocker", "revolute", Placement(position=(0.4, 0.0, 0.0)), y))
    builder.frame("tip", body="coupler", placement=Placement(position=(0.4, 0.0, 0.0)))
    builder.frame("end", body="rocker", placement=Placement(position=(0.0, 0.0, 0.3)))
    loop = Closure("pin", "tip", "end", joint, y[0])
    return Mechanism(builder.build(), (Motor("crank", (("crank", 1.0),)),), constraints=(loop, *extra))


def test_a_loop_stays_closed_and_moves_as_it_should():
    w = 1.5
    a, b = both(parallelogram(), np.array([0.0, 0.0, 0.0, w, -w, w]), lambda t: np.array([0.7]), 0.3)
    np.testing.assert_allclose(a[:3], b[:3], atol=2e-3)
    assert abs(b[0]) > 0.3
    assert a[0] + a[1] == pytest.approx(0.0, abs=1e-3)  # the coupler stays level
    assert a[2] == pytest.approx(a[0], abs=1e-3)


def test_what_is_not_carried_over_is_refused_by_name():
    from ocp.plants.mujoco import MujocoPlant

    with pytest.raises(ProblemError, match="'pin' is a closure by a prismatic joint; .*fixed, spherical, revolute"):
        MujocoPlant(parallelogram("prismatic"), [])
    with pytest.raises(ProblemError, match="'geared' is a Coupling"):
        MujocoPlant(parallelogram(extra=(Coupling("geared", (("crank", 1.0), ("rocker", -1.0))),)), [])
    with pytest.raises(ProblemError, match="'floor' is a contact among the constraints"):
        MujocoPlant(parallelogram(extra=(PointContact("floor", "end"),)), [])
