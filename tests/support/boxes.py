"""A box and a rod that touch planes: robots without joints, for simulators."""

from __future__ import annotations

import numpy as np

from dynamics.constraints import PointContact
from dynamics.mechanism import Mechanism
from dynamics.model.model import Body, BodyInertia, Frame, Joint, Model, Placement
from ocp.plants.coulomb import coulomb

G = 9.81
SIZE = (0.2, 0.1, 0.1)
CORNERS = tuple((sx * 0.1, sy * 0.05, -0.05) for sx in (1, -1) for sy in (1, -1))


def coulombs(rng, most, nv, **cone):
    """Coulomb's law at up to ``most`` contacts of a random robot: (forces x, motions u [n, 3], friction mu [n], scale). Nothing
    pulls, nothing sinks in, and what parts does not push."""
    n = int(rng.integers(1, most))
    J, mu = rng.standard_normal((3 * n, nv)), rng.uniform(0.0, 1.2, n)
    G_, b = J @ J.T, J @ rng.standard_normal(nv)
    law = coulomb(G_, b, mu.tolist(), **cone)
    assert law.holds
    x, u = law.x.reshape(-1, 3), (G_ @ law.x + b).reshape(-1, 3)
    scale = np.abs(x).max() + np.abs(u).max()
    assert x[:, 2].min() >= 0
    assert u[:, 2].min() >= -1e-9 * scale
    assert np.abs(x[:, 2] * u[:, 2]).max() <= 1e-8 * scale**2
    return x, u, mu, scale


def solid(mass: float, inertia, gravity=(0.0, 0.0, -G)) -> Mechanism:
    """A free body with the principal inertia [3] about its middle, and a frame "c" there."""
    rows = tuple(tuple(float(x) for x in row) for row in np.diag(inertia))
    return Mechanism(Model("solid", (Body("solid", -1, Joint("base", "free_flyer"), BodyInertia(mass, (0.0, 0.0, 0.0), rows)),),
                           (Frame("c", 0, Placement()),), gravity=gravity))


def box(mass: float = 2.0) -> Mechanism:
    a, b, c = SIZE
    return solid(mass, [mass / 12 * (b * b + c * c), mass / 12 * (a * a + c * c), mass / 12 * (a * a + b * b)])


def corners(name: str = "box", friction: float = 0.3, normal=(0.0, 0.0, 1.0), top: bool = False) -> PointContact:
    points = tuple((x, y, 0.05) for x, y, _ in CORNERS) if top else CORNERS
    return PointContact(name, "c", points, normal, friction=friction)


def state(position, quaternion=(1.0, 0.0, 0.0, 0.0), velocity=(0.0,) * 6) -> np.ndarray:
    """(position, unit quaternion, twist in body axes) as x."""
    q = np.asarray(quaternion, float)
    return np.r_[position, q / np.linalg.norm(q), velocity].astype(float)
