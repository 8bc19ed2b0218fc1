"""Contacts that switch: times of events, speeds and energies of hybrid simulations against closed forms."""

import numpy as np
import pytest
from scipy.optimize import brentq

from dynamics.constraints import PointContact
from dynamics.forces import JointSpring
from dynamics.mechanism import Mechanism
from dynamics.model import BodyInertia, Builder, Joint
from ocp.plants.hybrid import HybridOptions, HybridPlant

G = 9.81


def kinds(plant, kind):
    return [event for event in plant.events if event.kind == kind]


@pytest.mark.row("001:D31")
def test_a_hopper_leaves_the_ground_and_comes_back():
    """A mass on a leg with a spring, pressed down by d: the foot lifts off where the spring pulls with the foot's weight,
    cos(w t) = -(m + f) g/(k d); in flight the mass centre is on a parabola; at touch-down the foot alone stops, and of the energy
    its own is lost."""
    m, f, k, rest, d = 1.3, 0.4, 300.0, 0.5, 0.12
    b = Builder("hopper")
    dot = ((1e-3, 0, 0), (0, 1e-3, 0), (0, 0, 1e-3))
    b.body("foot", parent="world", joint=Joint("height", "translation"), inertia=BodyInertia(f, (0, 0, 0), dot))
    b.body("mass", parent="foot", joint=Joint("leg", "prismatic", axes=((0.0, 0, 1.0),)), inertia=BodyInertia(m, (0, 0, 0), dot))
    mechanism = Mechanism(b.build(), forces=(JointSpring("spring", "leg", k, (rest,)),))
    plant = HybridPlant(mechanism, [PointContact("ground", "foot", friction=0.5)], options=HybridOptions(max_step=1e-3),
                        mode="interpreted")
    middle, w = rest - m * G / k, np.sqrt(k / m)
    plant.reset([0, 0, 0, middle - d, 0, 0, 0, 0])
    leaves = np.arccos(-(m + f) * G / (k * d)) / w
    rises = m * d * w * np.sin(w * leaves) / (m + f)  # of the mass centre
    at = m * (middle - d * np.cos(w * leaves)) / (m + f)
    plant.step([], leaves + 0.4 * rises / G)
    lift, = kinds(plant, "lift")
    assert lift.time == pytest.approx(leaves, abs=1e-7)
    t = plant.t - leaves
    centre, speed = (plant.q[2] * (m + f) + m * plant.q[3]) / (m + f), plant.v[2] + m * plant.v[3] / (m + f)
    assert centre == pytest.approx(at + rises * t - G * t**2 / 2, abs=1e-7)
    assert speed == pytest.approx(rises - G * t, abs=1e-6)
    W, turn = np.sqrt(k * (m + f) / (m * f)), w * leaves  # in flight the leg swings about its rest with the reduced mass
    out, rate = middle - d * np.cos(turn) - rest, d * w * np.sin(turn)

    def foot(s):
        leg = rest + out * np.cos(W * s) + rate / W * np.sin(W * s)
        return at + rises * s - G * s**2 / 2 - m / (m + f) * leg

    later = np.linspace(1e-3, 2 * rises / G, 4000)
    lands = next(s for s in later if foot(s) < 0)
    lands = brentq(foot, lands - (later[1] - later[0]), lands)
    speed = rises - G * lands - m / (m + f) * (rate * np.cos(W * lands) - out * W * np.sin(W * lands))
    plant.step([], leaves + lands + 1e-3 - plant.t)
    impact = kinds(plant, "impact")[0]
    assert impact.time == pytest.approx(leaves + lands, abs=1e-6)
    assert impact.impulse == pytest.approx(f * abs(speed), rel=1e-5)
    assert abs(impact.energy) == pytest.approx(f * speed**2 / 2, rel=1e-5)
    assert min(plant.gaps.values()) > -1e-9
