"""Scenes 7 and 9 of the reference implementation in Euler angles: BDF2 whose charts change between steps; what Newton leaves."""

from functools import lru_cache

import casadi as ca
import numpy as np
import pytest

from dynamics.joints import charts
from dynamics.mechanism import Mechanism
from dynamics.model import Builder, Joint, Placement
from dynamics.model.rigid import moved
from dynamics.model.shapes import box
from dynamics.redmax.implicit import Options, Step, simulate, system
from dynamics.redmax.schemes import BACKWARD

TIGHT = Options(tolerance=1e-13)


def energy(mechanism, q, v):
    x = [ca.SX.sym(name, mechanism.model.nv) for name in "qv"]
    return float(ca.Function("E", x, [mechanism.energy(*x)])(q, v))


@lru_cache
def bars(names):
    """Two bars on balls, each in its chart."""
    b = Builder("bars", gravity=(0.0, 0.0, -980.0))
    for k, chart in enumerate(names):
        joint = Joint(f"j{k}", "euler", Placement(position=(0.0, 0.0, -10.0 * k)), chart=chart)
        b.body(f"b{k}", parent=f"b{k - 1}" if k else "world", joint=joint,
               inertia=moved(Placement(position=(0.0, 0.0, -5.0)), box(1.0, (1.0, 1.0, 10.0))))
    return system(Mechanism(b.build()), mode="interpreted")


def recharted(names, nodes):
    """The two last (q, v) in charts that are far from singular at both of them, for joints with ``|det S| <= 0.5`` at the last."""
    out, kept = list(names), [(q.copy(), v.copy()) for q, v in nodes]
    for i, chart in enumerate(names):
        own = slice(3 * i, 3 * i + 3)
        if abs(float(charts.measure(chart, ca.DM(nodes[-1][0][own])))) > 0.5:
            continue
        out[i] = charts.best(np.array(charts.joint_of(chart).transform(ca.DM(q[own])).R) for q, _ in nodes)
        for (q, v), (old, rate) in zip(kept, nodes, strict=True):
            found = charts.switch(charts.ChartState(chart, old[own], rate[own], np.zeros(3)), out[i])
            q[own], v[own] = found.q, found.v
    return tuple(out), kept


@pytest.mark.row("003:J07", "003:J10", "003:I06")
def test_bars_on_balls_change_their_charts():
    """The published energy of 500 steps on the way through two other charts; where Newton stops moves its ninth digit."""
    h, names, used = 2e-3, ("xyz", "xyz"), []
    q, v = np.array([np.pi / 8, 0, 0, np.pi / 2, 0, 0]), np.array([2.0, 2, 2, 0, 0, 0])
    potential = energy(bars(names).mechanism, q, 0 * v)
    first = simulate(bars(names), "sdirk2", (q, v), h, 1, options=TIGHT)
    names, nodes = recharted(names, [(q, v), (first.q[1], first.v[1])])
    for _ in range(499):
        made, past = bars(names), [np.array([*node, 0 * q]) for node in reversed(nodes)]
        (q, v, _), *_ = Step(made, BACKWARD, past, h, (np.zeros(0), made.nominal)).newton(nodes[-1][0] + h * nodes[-1][1], TIGHT)
        names, nodes = recharted(names, [nodes[-1], (q, v)])
        used += [names] * (not used or used[-1] != names)
    assert used == [("xyz", "xyz"), ("xyz", "xyx"), ("xyz", "yxz")]
    found = energy(bars(names).mechanism, *nodes[-1]) - potential
    assert found == pytest.approx(8.6544602745403390e3, rel=2e-8)


@pytest.mark.row("003:I06", "003:J16")
def test_the_published_energy_of_a_flight_holds_what_newton_left():
    """A thrown cube: with a tolerance like the source's all twelve digits, converged 1.9e-8 beside them."""
    b = Builder("cube", gravity=(0.0, 0.0, -1.0))
    b.body("b", parent="world", joint=Joint("j", "free_3d", chart="xyz"), inertia=box(1.0, (1.0, 1.0, 1.0)))
    made, v = system(Mechanism(b.build()), mode="interpreted"), np.array([0, 0, 3, 0.2, 0.4, 0.6])
    for tolerance, near in ((1e-8, 1e-12), (1e-13, 2e-8)):
        run = simulate(made, "bdf2", (np.zeros(6), v), 0.05, 120, options=Options(tolerance=tolerance))
        found = energy(made.mechanism, run.q[-1], run.v[-1]) - energy(made.mechanism, np.zeros(6), np.zeros(6))
        assert found == pytest.approx(4.5466508559364156, rel=near)
