"""Flat directions at finite distance: degenerate points in discrete time and of parameters that the motion feels."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from ocp.app.files.load import load_text
from ocp.certify import flat
from ocp.methods import solve
from ocp.problem import Kind


def in_steps(cost, rate="x + 0.1*u", bounds="{u: [-1, 1]}"):
    return load_text(f"""
name: ten steps
system: {{states: {{x: m}}, controls: {{u: m/s}}, next: {{x: {rate!r}}}, period: 0.1}}
phase: {{duration: 1, start: {{x: 0}}, bounds: {bounds}, costs: [{{name: c, running: "{cost}"}}]}}
""").problem


METHODS = ("multiple_shooting", "ilqr")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("cost", "best"), [("-u**4", -1.0), ("u**3", -1.0), ("u**4", 0.0)])
def test_higher_orders_decide_in_discrete_time(method, cost, best):
    """Ten steps of 0.1 s at u = 0, where gradient and Hessian vanish for all three."""
    found = solve(in_steps(cost), method, {})
    assert found.ok, found.certificate.failures
    assert found.objective == pytest.approx(best, abs=1e-6)
    assert (best < 0) == any(one.kind is Kind.ESCAPED for one in found.findings)


@pytest.mark.parametrize("method", METHODS)
def test_a_small_hill_around_the_point_leaves_it_a_local_minimum(method):
    """0.05 u^2 - u^4: from the minimum 0 it falls beyond |u| = 0.16 only."""
    found = solve(in_steps("0.05*u**2 - u**4"), method, {}, without=["better_controls"])
    assert found.ok, found.certificate.failures
    assert found.objective == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("method", ["collocation", *METHODS])
def test_a_parameter_that_the_motion_feels_leaves_a_degenerate_value(method):
    """x' = (p - 1/2)^3 for 1 s, x(1) is least for p = 0: -1/8; p = 1/2 is stationary to second order."""
    text = """
name: felt
parameters: {p: {value: 0.5, optimise: [0, 1]}}
system: {states: {x: m}, controls: {u: N}, dynamics: {x: "(p - 0.5)**3 + u"}}
phase: {duration: 1, start: {x: 0}, costs: [{name: effort, running: "u**2 + 10*u**4"}, {name: low, final: x}]}
"""
    found = solve(load_text(text).problem, method, {})
    assert found.ok, found.certificate.failures
    assert found.objective == pytest.approx(-0.125 - least(), abs=1e-5)


def test_a_degenerate_saddle_is_recognised_by_its_higher_orders():
    from ocp.app.sentences import sentence

    found = solve(in_steps("-u**4"), "ilqr", {}, without=["escape", "better_controls"])
    point = found.certificate.second_order
    assert not found.ok
    assert (point.kind, point.below) == (Kind.SADDLE, 0)
    assert "higher order" in sentence(point.finding)


def least():
    """max over constant u of -u - u^2 - 10 u^4, with its sign turned: what the control adds."""
    u = np.linspace(-1, 0, 2_000_001)
    return float(np.max(-u - u**2 - 10 * u**4))


@pytest.mark.parametrize("text", [
    "name: arc\nsystem: {states: {x: m, v: m/s}, controls: {u: N}, dynamics: {x: v, v: u - sin(x)}}\n"
    "phase: {duration: 1, start: {x: 0, v: 1}, bounds: {u: [-2, 2]}, final: {x: 1},\n"
    "        costs: [{name: c, running: u**2}], constraints: [{name: wall, expression: v, upper: 1.2}]}",
    "name: drag\nsystem: {states: {x: m}, controls: {u: N}, dynamics: {x: u - x**3}}\n"
    "phase: {duration: {lower: 0.5, upper: 2, guess: 1}, start: {others: free}, final: {x: 1},\n"
    "        bounds: {x: [-1, 1]}, costs: [{name: c, running: u**2 + 1}]}"])
@pytest.mark.parametrize("method", ["collocation", "multiple_shooting", "ilqr"])
def test_values_beside_the_point_are_those_that_its_derivatives_foretell(method, text):
    """Objective and rows at moved unknowns, by central differences: rows against the Jacobian, the objective against the gradient
    along directions that keep all rows (multipliers of the dynamics are not among those of shooting)."""
    found = solve(load_text(text).problem, method, {"intervals": 8})
    at, rng = found.optimality.local(), np.random.default_rng(3)
    f, g = found.optimality.values(np.zeros(len(at.x)))
    assert f == pytest.approx(found.optimality.cost(), rel=1e-12)
    assert g == pytest.approx(at.g, abs=1e-9)
    for _ in range(3):
        d = rng.standard_normal(len(at.x)) * (at.x_lower < at.x_upper)
        (_, g1), (_, g0) = (found.optimality.values(s * 1e-5 * d) for s in (1, -1))
        assert (g1 - g0) / 2e-5 == pytest.approx(at.jacobian @ d, rel=1e-5, abs=1e-6)
        rows = np.vstack([at.jacobian.toarray(), np.eye(len(d))[at.x_lower == at.x_upper]])
        d -= np.linalg.lstsq(rows, rows @ d, rcond=None)[0]
        f1, f0 = (found.optimality.values(s * 1e-5 * d)[0] for s in (1, -1))
        assert (f1 - f0) / 2e-5 == pytest.approx(at.gradient @ d, rel=1e-4, abs=1e-5)


def scaled(price):
    """Unknowns (a, b) with the row a + b^2 = 0 held, and b <= 1/2 not, at 0."""
    A, inf = sp.csr_matrix([[1.0, 0.0]]), np.full(2, np.inf)
    at = SimpleNamespace(x=np.zeros(2), x_lower=-inf, x_upper=inf, g=np.zeros(2), g_lower=np.array([0.0, -np.inf]),
                         g_upper=np.array([0.0, 0.5]), lam_g=np.array([price, 0.0]))
    own = SimpleNamespace(local=at, rows=np.array([0]), columns=np.array([0, 1]), size=np.ones(2), row_sizes=np.ones(2), A=A)
    restore = flat._factor([[sp.eye(2), A.T], [A, -1e-10 * sp.eye(1)]])
    return own, restore


def restored(move, error=0.0, price=1.0):
    own, restore = scaled(price)
    return flat._restored(own, lambda d: (d[0], np.array([d[0] + d[1]**2 + error, d[1]])), restore, np.array(move))


def test_constraints_are_restored_along_a_curved_way_or_the_way_is_none():
    assert restored([0.0, 0.3]) == pytest.approx(-0.09)
    assert restored([0.0, 0.6]) is None  # beyond the constraint that is not held


def test_what_is_left_of_a_violation_counts_by_its_multiplier():
    """5e-10 of a row whose multiplier is 1e9 may be worth a half."""
    assert restored([0.0, 0.0], 5e-10, 1e9) == pytest.approx(0.5)
