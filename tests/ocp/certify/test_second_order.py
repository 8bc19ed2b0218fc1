"""What kind of point a solution is: the inertia against dense eigenvalues, verdicts with known answers, and the way down."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from control_problems import one_state

from ocp.app.files.load import load_text
from ocp.certify import curvature
from ocp.certify.banded import Factors, negative
from ocp.methods import solve
from ocp.nlp.local import CONTROL, PARAMETER, Local, Owners
from ocp.problem import Kind, Statement, Status
from ocp.strategy.answer import moved_parameters

METHODS = ("collocation", "multiple_shooting", "ilqr")


@pytest.mark.parametrize("seed", range(6))
def test_inertia_is_that_of_dense_eigenvalues(seed):
    """Banded indefinite KKT matrices with a variable that meets every row."""
    rng = np.random.default_rng(seed)
    n, m, band = int(rng.integers(30, 300)), int(rng.integers(5, 25)), int(rng.integers(2, 7))
    H = sp.diags([rng.standard_normal(n - abs(k)) for k in range(-band, band + 1)], range(-band, band + 1))
    A = sp.lil_matrix((m, n))
    for i in range(m):
        near = np.unique(np.clip(i * n // m + rng.integers(-5, 6, 4), 0, n - 2))
        A[i, near] = rng.standard_normal(len(near))
        A[i, n - 1] = rng.standard_normal()
    K = sp.bmat([[H + H.T, A.T], [A, -1e-10 * sp.eye(m)]])
    assert negative(K) == negative(K, n) == int(np.sum(np.linalg.eigvalsh(K.toarray()) < 0))
    b = rng.standard_normal(n + m)
    np.testing.assert_allclose(Factors(K).solve(b), np.linalg.solve(K.toarray(), b), rtol=1e-6, atol=1e-9)


def test_inertia_of_a_program_along_time():
    """Knots of 3 unknowns, 20 inside each interval, 12 rows that couple these with the knots on either side: blocks are cut at
    knots, and the Schur complement that each hands on is that of its front."""
    rng, knots, inside, rows = np.random.default_rng(1), 3, 20, 12
    count, width = 12, knots + inside
    H = sp.block_diag([sp.csr_matrix(G + G.T) for G in rng.standard_normal((count + 1, width, width))])
    A = sp.lil_matrix((count * rows, H.shape[0]))
    for k in range(count):
        A[k * rows:(k + 1) * rows, k * width:(k + 1) * width + knots] = rng.standard_normal((rows, width + knots))
    K = sp.bmat([[H, A.T], [A, -1e-8 * sp.eye(A.shape[0])]])
    assert negative(K, H.shape[0]) == int(np.sum(np.linalg.eigvalsh(K.toarray()) < 0))


def escapes(found):
    """Points that were left along negative curvature."""
    return [one for one in found.findings if one.kind is Kind.ESCAPED]


@pytest.mark.parametrize("method", METHODS)
def test_an_objective_without_a_lower_bound_is_named(method):
    """x' = u from 0 over 1 s: u^2 - k x^2 is bounded below iff sqrt(k) < pi / 2."""
    below = solve(one_state("u**2 - 20*x**2"), method, {"intervals": 30})
    assert below.status is Status.UNBOUNDED
    assert not below.ok
    held = solve(one_state("u**2 - 2*x**2"), method, {"intervals": 30})
    assert held.ok, held.certificate.failures
    assert held.certificate.second_order.kind is Kind.STRICT_MINIMUM


@pytest.mark.parametrize(("factor", "kind"), [(0.97, "minimum"), (1.03, "saddle")])
def test_the_edge_between_minimum_and_saddle_is_where_theory_puts_it(factor, kind):
    """The conjugate point of u^2 - k x^2 lies at the end for k = (pi / 2)^2."""
    found = solve(one_state(f"u**2 - {factor * (np.pi / 2) ** 2}*x**2"), "collocation", {"intervals": 30})
    assert (found.status is Status.UNBOUNDED) == (kind == "saddle")


@pytest.mark.parametrize("method", ["multiple_shooting", "ilqr"])
def test_a_maximum_is_left(method):
    found = solve(one_state("-u**2", "{u: [-1, 1]}"), method, {"intervals": 20})
    assert found.objective == pytest.approx(-1.0, abs=1e-6)
    assert [one.data["point"] for one in escapes(found)][0] is Kind.MAXIMUM


def test_a_pendulum_that_hangs_still_swings_up():
    text = """
name: pendulum
system: {states: {q: rad, v: rad/s}, controls: {u: N m}, dynamics: {q: v, v: "u - 9.81*sin(q)"}}
phase:
  duration: 3.0
  start: {q: 0, v: 0}
  bounds: {u: [-3, 3]}
  costs: [{name: effort, running: "0.01*u**2"}, {name: up, final: "10*(1 + cos(q))"}]
"""
    found = solve(load_text(text).problem, "ilqr", {"intervals": 100})
    assert found.ok, found.certificate.failures
    assert found.objective < 4.0  # hanging still costs 20
    assert escapes(found)[0].data["point"] is Kind.SADDLE
    assert escapes(found)[0].value == pytest.approx(20)


def test_weakly_active_bounds_are_treated_as_theory_says():
    """-x^2 at x = 0 with x >= 0: the bound is met and does not push; inwards the objective falls: a saddle, though -x would leave
    the bound. With +x^2 it is a minimum, with both sides held by bounds of zero width there is nothing left to choose."""
    falling = solve(one_state("-x**2 + 0.001*u**2", "{x: [0, 1], u: [-5, 5]}"), "collocation", {"intervals": 20})
    assert falling.objective < -0.1
    rising = solve(one_state("x**2 + u**2", "{x: [0, 1]}"), "collocation", {"intervals": 20})
    assert rising.ok, rising.certificate.failures


@pytest.mark.parametrize("method", METHODS)
def test_flat_directions_are_reported(method):
    """Two thrusters that do the same: their difference costs nothing."""
    text = """
name: twins
system: {states: {x: m, v: m/s}, controls: {a: N, b: N}, dynamics: {x: v, v: a + b}}
phase:
  duration: 1
  start: {x: 0, v: 0}
  final: {x: 1, v: 0}
  bounds: {a: [-20, 20], b: [-20, 20]}
  costs: [{name: effort, running: "(a + b)**2"}]
"""
    found = solve(load_text(text).problem, method, {"intervals": 20})
    assert found.ok, found.certificate.failures
    assert found.certificate.second_order.kind is Kind.FLAT_MINIMUM


def test_curvature_does_not_depend_on_units():
    """Kilometres and millinewtons: the same kind of point."""
    kinds = []
    for s in (1.0, 1e-3, 1e3):
        text = f"""
name: move
system: {{states: {{x: m, v: m/s}}, controls: {{u: N}}, dynamics: {{x: v, v: u}}}}
phase:
  duration: 1
  start: {{x: 0, v: 0}}
  final: {{x: {s}, v: 0}}
  costs: [{{name: effort, running: "(u/{s})**2"}}]
"""
        found = solve(load_text(text).problem, "collocation", {"intervals": 20})
        assert found.ok, found.certificate.failures
        assert found.objective == pytest.approx(12.0, rel=1e-6)
        kinds.append(found.certificate.second_order)
    assert kinds == [Statement(Kind.STRICT_MINIMUM)] * 3


def test_a_maximum_in_a_corner_is_left():
    """-u^2 with 0 <= u <= 1 from u = 0: every bound is met and none pushes; inwards the objective falls everywhere, while most
    directions of negative curvature would leave some bound."""
    found = solve(one_state("-u**2", "{u: [0, 1]}"), "ilqr", {"intervals": 20})
    assert found.objective == pytest.approx(-1.0, abs=1e-6)
    assert escapes(found)


@pytest.mark.parametrize(("corner", "minimum"), [(-1.0, False), (1.0, True)])
def test_a_saddle_whose_descent_direction_lies_in_a_corner(corner, minimum):
    """corner a b with a, b >= 0 at the corner, 40 times: between the bounds it falls along (1, 1) or not at all; (1, -1) leads down
    where (1, 1) leads up, and out of the bounds."""
    n, none = 40, np.zeros(0)
    H = sp.block_diag([np.array([[0.0, corner], [corner, 0.0]])] * (n // 2)).tocsr()
    local = Local(np.zeros(n), np.zeros(n), np.full(n, 9.0), np.zeros(n), none, none, none, none, np.zeros(n),
                  sp.csr_matrix((0, n)), H, replace(Owners.empty(n), kind=np.full(n, CONTROL), component=np.zeros(n, dtype=int)))
    found = curvature.judge(local, [SimpleNamespace(scales=SimpleNamespace(
        wide_coordinates=none, wide_tangent=none, wide_control=np.ones(1), parameters=none), duration=1.0)], 1.0, 1.0)
    assert found.minimum is minimum
    if not minimum:
        assert found.direction.min() >= -1e-6
        assert found.direction @ H @ found.direction < 0


def test_a_maximum_beside_something_large_is_left():
    """A block of effort 12 d^2 = 1200 beside -u^2 with |u| <= 1: u = 0 is a maximum whose curvature is little beside the whole."""
    text = """
name: beside
system: {states: {y: m, v: m/s, x: m}, controls: {a: m/s2, u: m/s}, dynamics: {y: v, v: a, x: u}}
phase:
  duration: 1
  start: {y: 0, v: 0, x: 0}
  final: {y: 10, v: 0}
  bounds: {u: [-1, 1]}
  costs: [{name: large, running: a**2}, {name: small, running: -u**2}]
"""
    found = solve(load_text(text).problem)
    assert found.ok, found.certificate.failures
    assert abs(found.objective - 1199) <= found.certificate.error_bound + 1e-6
    assert escapes(found)


def test_a_design_at_a_maximum_is_left():
    """u^2 + (p^2 - 1)^2 from p = 0, where its slope is zero: the way down is that of the parameter."""
    text = """
name: design
parameters: {p: {value: 0, optimise: [-3, 3]}}
system: {states: {x: m}, controls: {u: m/s}, dynamics: {x: u}}
phase: {duration: 1, start: {x: 0}, final: {x: 1}, costs: [{name: c, running: "u**2 + (p**2 - 1)**2"}]}
"""
    found = solve(load_text(text).problem)
    assert found.ok, found.certificate.failures
    assert found.objective == pytest.approx(1.0, abs=1e-6)
    assert abs(found.problem.phase.system.parameter_values[0]) == pytest.approx(1.0, abs=1e-5)


def test_a_descent_direction_moves_parameters_within_their_bounds():
    text = """
name: design
parameters: {p: {value: 0.5, optimise: [-3, 3]}, q: {value: 2}}
system: {states: {x: m}, controls: {u: m/s}, dynamics: {x: u}}
phase: {duration: 1, start: {x: 0}, final: {x: 1}, costs: [{name: c, running: "q*u**2 + (p - 1)**2"}]}
"""
    found = solve(load_text(text).problem)
    owners = found.optimality.local().owners
    (column,) = np.flatnonzero((owners.kind == PARAMETER) & (owners.component >= 0))
    for step, there in ((0.5, 1.5), (-0.25, 0.75), (9.0, 3.0)):
        moved = moved_parameters(found, step * np.eye(len(owners.kind))[column])
        assert moved == {"p": pytest.approx(there, abs=1e-6)}
