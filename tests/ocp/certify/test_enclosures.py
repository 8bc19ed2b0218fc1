"""Enclosures of operations: they hold every sample, and corner pulses, steps and edges of domains of any form and width."""

import casadi as ca
import numpy as np
import pytest
from row_trees import tree_of

from dynamics import algorithms as alg
from ocp.certify.enclosures import sharp_times
from ocp.reach import intervals
from ocp.thresholds import SEARCH

EDGES = np.linspace(0.0, 1.0, 81)
AT = 0.6123456789


def function(expression_of):
    """A function of time and of a state that runs along sin 2t."""
    t, x, u, p = ca.SX.sym("t"), ca.SX.sym("x"), ca.SX.sym("u"), ca.SX.sym("p", 0)
    return ca.Function("f", [t, x, u, p], [expression_of(t, x)])


def sharp(expression_of, edges=EDGES):
    return sharp_times(function(expression_of), lambda t: (np.sin(2 * t)[:, None], 0 * t[:, None]), np.zeros(0), edges)


def squares(t):
    """(1 - t^2)^(2^30) by nothing but products."""
    w = 1 - t * t
    for _ in range(30):
        w = w * w
    return w


FORMS = {
    "gauss": lambda s, t, x: ca.exp(-(s**2)),
    "lorentz": lambda s, t, x: 1 / (1 + s**2),
    "sech": lambda s, t, x: 1 / ca.cosh(s) ** 2,
    "constant base": lambda s, t, x: ca.power(0.5, s**2),
    "two steps": lambda s, t, x: ca.tanh(9 * s + 9) - ca.tanh(9 * s - 9),
    "logistic": lambda s, t, x: 1 / (1 + ca.exp(-s)),
    "erf": lambda s, t, x: ca.erf(s),
    "atan2": lambda s, t, x: ca.atan2(s, 1),
    "difference": lambda s, t, x: 1 - ca.tanh(ca.fabs(s)),
    "beside waves": lambda s, t, x: ca.sin(300 * t) * ca.exp(-(s**2)),
    "of a state": lambda s, t, x: ca.exp(-(((x - np.sin(2 * AT)) * 2e4) ** 2)),
}


@pytest.mark.parametrize("width", [1e-4, 1e-6, 1e-9])
@pytest.mark.parametrize("form", FORMS)
def test_pulses_are_cornered_whatever_makes_them(form, width):
    """No sample between the first intervals lies in the pulse; in its middle there are several times, none of them far away."""
    found = sharp(lambda t, x: FORMS[form]((t - AT) / width, t, x))
    scale = 5e-5 if form == "of a state" else width
    assert np.min(np.abs(found - AT)) < 2 * scale
    assert 2 <= np.count_nonzero(np.abs(found - AT) < 1e3 * scale) <= len(found) <= SEARCH.max_breaks / 4


@pytest.mark.parametrize(
    "expression",
    [
        lambda t, x: squares(t - AT),
        lambda t, x: (1 - (t - AT) ** 2) ** ca.SX(1e9),
        lambda t, x: ca.cos(np.pi * (t - AT)) ** ca.SX(1e9),
    ],
    ids=["products", "polynomial", "cosine"],
)
def test_powers_are_pulses(expression):
    """All are 3e-5 s wide, or less."""
    found = sharp(expression)
    assert np.min(np.abs(found - AT)) < 3e-5
    assert np.count_nonzero(np.abs(found - AT) < 1e-4) >= 4


def test_pulses_of_seeded_places_and_widths_are_found():
    """A hundred Gaussians of random height, place and width, of time or of the state, in sums with smooth terms."""
    rng = np.random.default_rng(3)
    for _ in range(100):
        at, width, high = rng.uniform(0.02, 0.98), 10 ** rng.uniform(-9, -4), 10 ** rng.uniform(-6, 6)
        found = sharp(lambda t, x, at=at, w=width, high=high: ca.sin(3 * t) * x + high * ca.exp(-(((t - at) / w) ** 2)) + x**3)
        assert np.min(np.abs(found - at)) < width


def test_a_pulse_beside_a_higher_one_is_found():
    found = sharp(lambda t, x: ca.exp(-(((t - AT) * (t - 0.2)) ** 2) * 1e12 + 7 * t))
    assert min(np.min(np.abs(found - at)) for at in (0.2, AT)) < 1e-6


@pytest.mark.parametrize(
    "expression",
    [
        lambda t, x: ca.sqrt(ca.fabs(t - AT) - 1e-8),
        lambda t, x: ca.log((t - AT) ** 2 - 1e-16),
        lambda t, x: ca.acos(1 + 1e-14 - (t - AT) ** 2),
    ],
    ids=["sqrt", "log", "acos"],
)
def test_edges_of_a_domain_are_found(expression):
    """Between the edges the function is no number, for 20 ns; of the arc cosine for 200 ns."""
    found = sharp(expression)
    assert np.min(np.abs(found - AT)) < 1.1e-7


@pytest.mark.parametrize(
    "expression",
    [
        lambda t, x: ca.sin(t) * x**2 + ca.cos(3 * x),
        lambda t, x: ca.tanh(t - 0.4) + ca.exp(x - 0.5),
        lambda t, x: ca.sin(t) ** 2 + ca.cos(t) ** 2,
        lambda t, x: ca.sin(1e5 * t),
        lambda t, x: 1 / (2 + ca.sin(20 * t)),
        lambda t, x: x**4 * ca.sqrt(1 + t),
    ],
    ids=["waves", "slow steps", "cancelled", "fast everywhere", "denominator", "powers"],
)
def test_what_is_smooth_or_fast_everywhere_has_no_events(expression):
    assert not len(sharp(expression))


def test_a_robot_is_smooth():
    """Accelerations of a chain of five joints, whose graph divides, and subtracts what nearly cancels."""
    q, v, tau = (ca.SX.sym(name, 5) for name in ("q", "v", "tau"))
    t, p = ca.SX.sym("t"), ca.SX.sym("p", 0)
    accelerations = ca.Function("f", [t, ca.vertcat(q, v), tau, p], [alg.forward_dynamics(tree_of(*["revolute"] * 5), q, v, tau)])

    def along(s):
        phases = np.arange(5)
        angles, rates = np.sin(3 * s[:, None] + phases), 3 * np.cos(3 * s[:, None] + phases)
        return np.hstack([angles, rates]), np.cos(5 * s[:, None] + phases)

    assert not len(sharp_times(accelerations, along, np.zeros(0), EDGES))


ONE = sorted({*intervals.RISING, *intervals.FALLING, *intervals.EVEN} | {ca.OP_SIN, ca.OP_COS, ca.OP_TAN, ca.OP_INV, ca.OP_NOT})
TWO = sorted(set(intervals.OTHERS) - set(ONE))


@pytest.mark.parametrize("code", [*ONE, *TWO])
def test_bounds_hold_every_sample(code):
    """Random boxes, and CasADi's own values inside of them; bounds are attained within the resolution of the samples."""
    if code == ca.OP_LIFT:
        pytest.skip("an identity that no expression makes")
    rng = np.random.default_rng(code)
    x, y = ca.SX.sym("x"), ca.SX.sym("y")
    of = ca.Function("of", [x, y], [ca.SX.unary(code, x) if code in ONE else ca.SX.binary(code, x, y)])
    low = np.round(rng.uniform(-4, 4, (2, 300)), 1)
    high = low + np.round(rng.choice([0.0, 0.2, 3.0], (2, 300)), 1)
    if code == ca.OP_CONSTPOW:
        low[1] = high[1] = np.round(low[1])
    with np.errstate(all="ignore"):
        bounds = intervals.enclosure(code, (low[0], high[0]), (low[1], high[1]))
    inside = low[:, None] + (high - low)[:, None] * np.concatenate([[[0, 0], [1, 1], [0, 1], [1, 0]], rng.random((60, 2))])[
        ..., None
    ].transpose(1, 0, 2)
    values = np.asarray(of(inside[0].ravel()[None], inside[1].ravel()[None])).reshape(inside.shape[1:])
    with np.errstate(invalid="ignore"):
        slack = 1e-12 * (1 + np.abs(values))
        assert not np.any(values < bounds[0] - slack)
        assert not np.any(values > bounds[1] + slack)
    undefined = np.isnan(values).any(axis=0)
    assert np.all(np.isinf(bounds[0][undefined]) | np.isinf(bounds[1][undefined]))
    points = np.all(low == high, axis=0) & np.isfinite(values[0])
    np.testing.assert_allclose(bounds[0][points], values[0][points], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(bounds[1][points], values[0][points], rtol=1e-12, atol=1e-12)
