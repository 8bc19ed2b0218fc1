"""Stage functions of every kind against plain NumPy and differences along the manifold: times, parameters and starts free."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from manifold_differences import columns, hessian
from plain_shooting import flat
from rich_horizon import DRAG, DURATIONS, RICH, START, cost, gauss_newton, minus, parameters, plain_stages, plus, split
from stage_rows import curvature, slopes

from ocp.problem import At
from ocp.shooting.options import ILQROptions
from ocp.shooting.stages import expressions
from ocp.shooting.stages.horizon import build
from ocp.shooting.stages.rows import BELOW, CONE, EQUAL, IN_CONE

KINDS = ("start", "flight", "passage", "slide", "end")
AT = {"start": (0.0, 0.0), "flight": (0.3, 0.04), "passage": (1.0, 0.0), "slide": (0.4, 0.1), "end": (1.0, 0.0)}
"""Argument of time and length of a stage."""


@pytest.fixture(scope="module")
def horizon():
    return build(RICH, ILQROptions(intervals=5, hessian="full"))


def stage_of(horizon, kind):
    return horizon.kinds[KINDS.index(kind)]


def point(plain, stage, seed):
    """A carried state near the start of the problem, and controls."""
    rng = np.random.default_rng(seed)
    phase = plain.before
    x = np.r_[START if phase.name == "flight" else (0.4, -0.6), DURATIONS, DRAG]
    away = np.r_[0.3 * rng.normal(size=phase.system.space.ndx), rng.uniform(-0.3, 0.3, 3)]
    return plus(phase)(x, away), rng.normal(size=stage.nu)


def case(horizon, kind, seed):
    plain, stage = plain_stages(*AT[kind])[kind], stage_of(horizon, kind)
    return plain, stage, *point(plain, stage, seed)


def given(kind, x, u):
    """Arguments of a stage function; the parameter that is free is rubbish here, for its value stands in the state."""
    t, h = AT[kind]
    return t, x, u, [9.0, np.nan], h


def matrix(out, size):
    """A matrix that comes row by row, filled up with zeros."""
    value = np.asarray(out).T
    assert not value[:, size:].any()
    return value[:, :size]


def symmetric(out, size):
    lower = matrix(out, size)
    assert not np.triu(lower, 1).any()
    return lower + np.tril(lower, -1).T


def test_the_horizon_is_the_problem_in_order(horizon):
    assert [horizon.kinds[i].label for i in horizon.which] == ["start", *["flight"] * 5, "flight to slide", *["slide"] * 5, "end"]
    constants = ("duration of flight", "duration of slide", "drag")
    assert stage_of(horizon, "start").controls == ("start x", "start ry", "start vz", *constants)
    assert horizon.constants.names == constants
    np.testing.assert_allclose(horizon.t, [0, 0, 0.2, 0.4, 0.6, 0.8, 1, 0, 0.2, 0.4, 0.6, 0.8, 1], atol=1e-15)
    np.testing.assert_allclose(horizon.h, [0, *[0.2] * 5, 0, *[0.2] * 5, 0], atol=1e-15)
    np.testing.assert_array_equal(horizon.lower[0], [-np.inf, -np.inf, -np.inf, 0.5, 0.2, 0.0])
    np.testing.assert_array_equal(horizon.upper[0], [np.inf, np.inf, np.inf, 3.0, 2.0, 2.0])
    np.testing.assert_array_equal(horizon.lower[1:6, :2], [[0.0, -5.0]] * 5)
    np.testing.assert_allclose(horizon.chosen, [0.1, 0.0, -0.3, 1.1, 0.7, 0.4])
    np.testing.assert_allclose(horizon.start, [*START, 1.1, 0.7, 0.4])
    theta = np.array([1.3, 0.8, 0.1])
    assert horizon.time(3, theta) == pytest.approx(0.4 * 1.3)
    assert horizon.time(6, theta) == pytest.approx(1.3)  # the passage belongs to the phase that it closes
    assert horizon.time(9, theta) == pytest.approx(1.3 + 0.4 * 0.8)
    assert horizon.locate(9, np.full((13, 16), np.nan)) == ("slide", pytest.approx(1.38))


@pytest.mark.parametrize("kind", KINDS)
def test_steps_and_costs_are_those_of_the_phases(horizon, kind):
    for seed in range(3):
        plain, stage, x, u = case(horizon, kind, seed)
        after, value, _ = stage.step(*given(kind, x, u))
        np.testing.assert_allclose(flat(after), plain.after(x, u), rtol=1e-13, atol=1e-13)
        expected = cost(plain, x, u)
        assert float(value) == pytest.approx(expected, rel=1e-12)
        assert abs(expected) > 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_first_derivatives_against_differences_on_the_manifold(horizon, kind):
    plain, stage, x, u = case(horizon, kind, 4)
    n, size = stage.space.ndx, stage.space.ndx + stage.nu
    for found in (stage.expand(*given(kind, x, u)), stage.first_order(*given(kind, x, u))):
        g = columns(lambda a, b: cost(plain, a, b), plus(plain.before), x, u, n)[0]
        np.testing.assert_allclose(flat(found[0])[:size], g, rtol=1e-6, atol=1e-8)
        assert not flat(found[0])[size:].any()
        F = matrix(found[1], size) if plain.following else np.zeros((0, size))
        if plain.following is not None:
            here, away = plain.after(x, u), minus(plain.following)
            expected = columns(lambda a, b, here=here, away=away: away(here, plain.after(a, b)), plus(plain.before), x, u, n)
            np.testing.assert_allclose(F, expected, rtol=1e-6, atol=1e-8)
        assert F.shape[0] == stage.after.ndx


@pytest.mark.parametrize("kind", KINDS)
def test_gauss_newton_hessian_drops_the_curvature_of_steps_and_residuals(horizon, kind):
    plain, stage, x, u = case(horizon, kind, 5)
    H = symmetric(stage.expand(*given(kind, x, u))[2], stage.space.ndx + stage.nu)
    np.testing.assert_allclose(H, gauss_newton(plain, x, u), atol=2e-6 * max(1, np.abs(H).max()))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sample(2)
def test_full_hessian_is_that_of_the_lagrangian(horizon, kind):
    plain, stage, x, u = case(horizon, kind, 6)
    costate = np.random.default_rng(6).normal(size=stage.after.ndx)
    here = plain.after(x, u)

    def lagrangian(a, b):
        carried = 0.0 if plain.following is None else costate @ minus(plain.following)(here, plain.after(a, b))
        return cost(plain, a, b) + carried

    H = symmetric(stage.hessian(*given(kind, x, u), costate), stage.space.ndx + stage.nu)
    expected = hessian(lagrangian, plus(plain.before), x, u, stage.space.ndx)
    np.testing.assert_allclose(H, expected, rtol=1e-4, atol=1e-5)
    assert np.abs(H - gauss_newton(plain, x, u)).max() > 1e-2  # there was something to drop


@pytest.mark.parametrize("kind", KINDS)
def test_the_adjoint_in_coordinates_is_the_one_in_the_tangent_space(horizon, kind):
    plain, stage, x, u = case(horizon, kind, 7)
    y = np.random.default_rng(7).normal(size=stage.after.nx)
    by_x, by_u = stage.adjoint(*given(kind, x, u), y)
    tangent = np.asarray(ca.DM(stage.space.rate(ca.DM(x)))).T @ flat(by_x)
    expected = columns(lambda a, b: cost(plain, a, b) + y @ plain.after(a, b), plus(plain.before), x, u, stage.space.ndx)[0]
    np.testing.assert_allclose(np.r_[tangent, flat(by_u)], expected, rtol=1e-6, atol=1e-8)


# ---- rows
def flight_rows(t, x, u, p, end):
    found = [("bound z (upper)", BELOW, x[2] - 1.5),
             ("corridor (upper)", BELOW, x[0]**2 + np.sin(t) * x[4] - 2),
             ("corridor (lower)", BELOW, -1 - x[0]**2 - np.sin(t) * x[4])]
    if not end:
        found.append(("thrust (upper)", BELOW, u[0]**2 * p[1] + x[3] - 3))
    return [*found, ("cone", CONE, 2 + x[0]), ("cone", IN_CONE, x[7] * t), ("cone", IN_CONE, x[8])]


def expected_rows(problem, plain, kind, x, u):
    """(name, kind, value) of the rows of a stage in order."""
    flight, slide = problem.phases
    state, theta = split(plain.before, x)
    p, t = parameters(theta), AT[kind][0]
    if kind == "start":
        chosen = plain.after(x, u)
        return [("begin low (upper)", BELOW, chosen[2] + chosen[5] * u[5] - 0.9)]
    if kind == "flight":
        return flight_rows(t * theta[0], state, u, p, False)
    if kind == "passage":
        away, dropped = flat(ca.DM(flight.system.space.minus(ca.DM(START), ca.DM(state)))), plain.after(x, u)
        return [*flight_rows(theta[0], state, u, p, True), ("final rx", EQUAL, away[3]),
                ("meet", EQUAL, state[0] * state[1] - theta[0] * p[1] - 0.2),
                ("start s", EQUAL, dropped[0] - 0.3), ("soft landing (upper)", BELOW, dropped[1] * dropped[0] + theta[0] - 1)]
    bound = ("bound s (lower)", BELOW, -2 - state[0])
    value = state[0] * p[1] + theta[0] + theta[1]
    return [bound] if kind == "slide" else [bound, ("end (upper)", BELOW, value - 3), ("end (lower)", BELOW, -1 - value)]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_of_the_problem(horizon, kind):
    plain, stage, x, u = case(horizon, kind, 8)
    expected = expected_rows(RICH, plain, kind, x, u)
    assert list(stage.rows.names) == [name for name, _, _ in expected]
    assert stage.rows.kind.tolist() == [k for _, k, _ in expected]
    np.testing.assert_allclose(flat(stage.rows.value(*given(kind, x, u)[:4])), [v for _, _, v in expected], rtol=1e-12, atol=1e-13)
    thrust = [name == "thrust (upper)" for name in stage.rows.names]
    assert stage.rows.needs_control.tolist() == ([1] if kind == "start" else thrust)  # the start is a control


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_of_rows_against_differences(horizon, kind):
    plain, stage, x, u = case(horizon, kind, 9)
    n, size = stage.space.ndx, stage.space.ndx + stage.nu

    def c(a, b):
        return np.array([v for _, _, v in expected_rows(RICH, plain, kind, a, b)])

    value, C = slopes(stage, *given(kind, x, u)[:4])
    np.testing.assert_allclose(flat(value), c(x, u), rtol=1e-12, atol=1e-13)
    J = columns(c, plus(plain.before), x, u, n)
    np.testing.assert_allclose(C[:, :size], J, rtol=1e-6, atol=1e-8)
    y = np.random.default_rng(9).normal(size=len(c(x, u)))
    H = symmetric(curvature(stage, *given(kind, x, u)[:4], y).T, size)
    bend = hessian(lambda a, b: y @ c(a, b), plus(plain.before), x, u, n)
    np.testing.assert_allclose(H, bend, atol=1e-6 * max(1, np.abs(H).max()))
    by_x, by_u = stage.rows.adjoint(*given(kind, x, u)[:4], y)
    tangent = np.asarray(ca.DM(stage.space.rate(ca.DM(x)))).T @ flat(by_x)
    np.testing.assert_allclose(np.r_[tangent, flat(by_u)], J.T @ y, rtol=1e-6, atol=1e-8)


# ---- other roads to the same functions
@pytest.mark.parametrize(("integrator", "quadrature"), [("euler", "integrator"), ("rk4", "rectangle"), ("cf4", "integrator")])
@pytest.mark.parametrize("kind", ["flight", "slide"])
@pytest.mark.sample(2)
def test_integrators_and_rectangles(kind, integrator, quadrature):
    horizon = build(RICH, ILQROptions(intervals=5, integrator=integrator, cost_quadrature=quadrature, hessian="gauss_newton"))
    plain = plain_stages(*AT[kind], integrator, quadrature == "rectangle")[kind]
    stage = stage_of(horizon, kind)
    assert stage.first_order is None  # nothing asked for the full Hessian
    assert stage.hessian is None
    x, u = point(plain, stage, 10)
    after, value, _ = stage.step(*given(kind, x, u))
    np.testing.assert_allclose(flat(after), plain.after(x, u), rtol=1e-12, atol=1e-13)
    assert float(value) == pytest.approx(cost(plain, x, u), rel=1e-12)
    g, F, H, *_ = stage.expand(*given(kind, x, u))
    n, size = stage.space.ndx, stage.space.ndx + stage.nu
    here, away = plain.after(x, u), minus(plain.following)
    by_z = columns(lambda a, b: np.r_[cost(plain, a, b), away(here, plain.after(a, b))], plus(plain.before), x, u, n)
    np.testing.assert_allclose(flat(g)[:size], by_z[0], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(matrix(F, size), by_z[1:], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(symmetric(H, size), gauss_newton(plain, x, u), atol=2e-6 * max(1, np.abs(np.asarray(H)).max()))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sample(2)
def test_large_functions_stay_calls_and_give_the_same_numbers(horizon, kind, monkeypatch):
    monkeypatch.setattr(expressions, "INLINE_LIMIT", 0)
    called = build(RICH, ILQROptions(intervals=5, hessian="full"))
    (_, one, x, u), two = case(horizon, kind, 11), stage_of(called, kind)
    assert one.expand.is_a("SXFunction")
    assert two.expand.is_a("MXFunction")
    y = np.arange(1.0, one.after.nx + 1)
    for name, more in (("step", ()), ("expand", ()), ("first_order", ()), ("hessian", (y[:one.after.ndx],)), ("adjoint", (y,))):
        arguments = [*given(kind, x, u), *more]
        for a, b in zip(getattr(one, name).call(arguments), getattr(two, name).call(arguments), strict=True):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-10, atol=1e-12)


def test_nothing_is_carried_where_nothing_is_free():
    """A fixed problem: the spaces are those of the systems, the time argument is time, the start costs are a number."""
    flight, slide = RICH.phases
    whole = (True,) * 12
    fixed = replace(flight, start=replace(flight.start, fixed=whole), duration=replace(flight.duration, lower=1.1, upper=1.1),
                    free_parameters=())
    ends = replace(slide, duration=replace(slide.duration, lower=0.7, upper=0.7))
    made = build(replace(RICH, phases=(fixed, ends)), ILQROptions(intervals=2))
    assert [made.kinds[i].label for i in made.which] == ["flight", "flight", "flight to slide", "slide", "slide", "end"]
    assert made.kinds[0].space.nx == 13
    np.testing.assert_allclose(made.t, [0, 0.55, 1.1, 1.1, 1.45, 1.8])
    np.testing.assert_allclose(made.h, [0.55, 0.55, 0, 0.35, 0.35, 0])
    begin = next(c for c in flight.costs if c.at is At.START)
    assert made.constant == pytest.approx(float(begin.function(0, START, [0, 0], [9.0, 0.4])))
    np.testing.assert_array_equal(made.holds()[0, :7], [0, 0, 0, 1, 0, 0, 0])  # only what the control can change
    np.testing.assert_array_equal(made.holds()[1, :7], 1)
