"""A four-bar linkage, and its closed form."""

import numpy as np

from dynamics.constraints import Closure
from dynamics.mechanism import Mechanism, direct_motors
from dynamics.model import BodyInertia, Builder, Joint, Placement


def four_bar(closed="revolute"):
    """Crank 0.2, coupler 0.5, rocker 0.4 on a base of 0.5 m in the x-z plane, gravity down; the rocker hangs from the base."""
    b, y = Builder("four_bar"), ((0.0, 1.0, 0.0),)

    def bar(length, mass):
        across = mass * length**2 / 12
        return BodyInertia(mass, (length / 2, 0.0, 0.0), ((1e-5, 0, 0), (0, across, 0), (0, 0, across)))

    b.body("crank", parent="world", joint=Joint("crank", "revolute", Placement(), y), inertia=bar(0.2, 0.5))
    b.body("coupler", parent="crank", joint=Joint("coupler", "revolute", Placement(position=(0.2, 0, 0)), y), inertia=bar(0.5, 1.0))
    b.body("rocker", parent="world", joint=Joint("rocker", "revolute", Placement(position=(0.5, 0, 0)), y), inertia=bar(0.4, 0.8))
    b.frame("end", body="coupler", placement=Placement(position=(0.5, 0, 0)))
    b.frame("tip", body="rocker", placement=Placement(position=(0.4, 0, 0)))
    model = b.build()
    return Mechanism(model, direct_motors(model, ["crank"]), constraints=(Closure("pin", "end", "tip", closed, (0.0, 1.0, 0.0)),))


def assembled(angle):
    """(coupler, rocker) angles of the open assembly, by the law of cosines; angles about y turn x towards -z."""
    A = np.array([0.2 * np.cos(angle), -0.2 * np.sin(angle)])
    B = np.array([0.5, 0.0])
    d = B - A
    L = np.linalg.norm(d)
    base = np.arctan2(-d[1], d[0])
    inner = np.arccos((0.5**2 + L**2 - 0.4**2) / (2 * 0.5 * L))
    coupler = base - inner
    end = A + 0.5 * np.array([np.cos(coupler), -np.sin(coupler)])
    rocker = np.arctan2(-(end - B)[1], (end - B)[0])
    return coupler - angle, rocker
