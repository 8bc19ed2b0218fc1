"""Scene 9 of the reference implementation in Euler angles: what Newton's method leaves is in the published energy."""

import casadi as ca
import numpy as np
import pytest

from dynamics.mechanism import Mechanism
from dynamics.model import Builder, Joint
from dynamics.model.shapes import box
from dynamics.redmax.implicit import simulate, system
from dynamics.steps.march import Newton


def energy(mechanism, q, v):
    x = [ca.SX.sym(name, mechanism.model.nv) for name in "qv"]
    return float(ca.Function("E", x, [mechanism.energy(*x)])(q, v))


@pytest.mark.row("003:I06", "003:J16")
def test_the_published_energy_of_a_flight_holds_what_newton_left():
    """A thrown cube: with a tolerance like the source's all twelve digits, converged 1.9e-8 beside them."""
    b = Builder("cube", gravity=(0.0, 0.0, -1.0))
    b.body("b", parent="world", joint=Joint("j", "free_3d", chart="xyz"), inertia=box(1.0, (1.0, 1.0, 1.0)))
    made, v = system(Mechanism(b.build()), mode="interpreted"), np.array([0, 0, 3, 0.2, 0.4, 0.6])
    for tolerance, near in ((1.0, 1e-12), (1e-8, 2e-8)):
        run = simulate(made, "bdf2", (np.zeros(6), v), 0.05, 120, options=Newton(tolerance, coast=True))
        found = energy(made.mechanism, run.q[-1], run.v[-1]) - energy(made.mechanism, np.zeros(6), np.zeros(6))
        assert found == pytest.approx(4.5466508559364156, rel=near)
