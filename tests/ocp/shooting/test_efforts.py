"""Inverse dynamics in costs and constraints: found in their graphs, and differentiated in closed form."""

import casadi as ca
import numpy as np
import pytest
from shooting_problems import function
from stage_rows import curvature, slopes

from dynamics import algorithms as alg
from dynamics.derivatives import inner
from dynamics.model.synthetic import random_tree, serial_chain
from ocp.bridge import accelerations, effort_constraints, inverse_dynamics_system, robot_system
from ocp.problem import At, Boundary, Constraint, Cost, Duration, Guess, Phase, Problem
from ocp.shooting.ilqr import ILQROptions
from ocp.shooting.stages import costs, expressions, stretch
from ocp.shooting.stages.horizon import build

TREES = {
    "flat": lambda: random_tree(4, np.random.default_rng(1), kinds=("revolute", "prismatic", "universal"), damping=True),
    "curved": lambda: random_tree(2, np.random.default_rng(3), kinds=("spherical",), root="planar", damping=True),
}


def without_closed_forms(monkeypatch):
    for module in (stretch, costs):
        monkeypatch.setattr(module, "inner" if module is stretch else "inner_of", lambda system: None)


def torque(model, x, u):
    return alg.inverse_dynamics(model, x[:model.nq], x[model.nq:], u[:model.nv])


def mixed(model):
    """Efforts among everything else, in ways that no file would write."""
    def build(t, x, u):
        tau = torque(model, x, u)
        return ca.vertcat(tau[0], ca.sin(tau[1] * x[0]) + u[0], x[1], tau[2]**2 * ca.cos(tau[0]) - 0.3 * t)
    return build


def problem(model, seed=5):
    system, rng = inverse_dynamics_system(model), np.random.default_rng(seed)
    nx, nu = system.nx, system.nu
    x0 = np.r_[alg.random_configuration(model, rng), rng.normal(size=model.nv)]
    running = (
        Cost("effort", At.PATH, function(nx, nu, lambda t, x, u: torque(model, x, u)), weights=(0.3,) * model.nv),
        Cost("mixed", At.PATH, function(nx, nu, mixed(model)), weights=(0.5, 1.0, 0.2, 0.1)),
        Cost("scalar", At.PATH, function(nx, nu, lambda t, x, u: ca.sin(torque(model, x, u)[1] + x[0]))),
        Cost("none", At.PATH, function(nx, nu, lambda t, x, u: ca.vertcat(u, x)), weights=(0.1,) * (nx + nu)))
    limits = effort_constraints(model, limits=dict.fromkeys(model.velocity_names, (-2.0, 3.0)))
    odd = Constraint("odd", At.PATH, function(nx, nu, mixed(model)), (-1.0,) * 4, (1.0,) * 4)
    guess = Guess(np.array([0.0, 1.0]), np.tile(x0, (2, 1)), rng.normal(size=(2, nu)))
    return Problem("robot", (Phase("move", system, Duration(0.4, 0.4, 0.4), guess, costs=running, constraints=(*limits, odd),
                                   start=Boundary(tuple(x0), (True,) * system.space.ndx)),))


def point(model, seed=2):
    rng = np.random.default_rng(seed)
    return np.r_[alg.random_configuration(model, rng), rng.normal(size=model.nv)], rng.normal(size=model.nv)


@pytest.mark.parametrize("name", TREES)
def test_what_is_left_of_a_function_holds_efforts_as_symbols(name):
    model = TREES[name]()
    system, (x, u) = inverse_dynamics_system(model), point(model)
    f = function(system.nx, system.nu, mixed(model))
    rest = inner.split(f, inner.efforts(model, system.nu).sought)
    assert rest is not None
    assert rest.n_instructions() < 0.2 * f.n_instructions() + 40
    tau = np.array(ca.DM(torque(model, ca.DM(x), ca.DM(u)))).ravel()
    np.testing.assert_allclose(np.array(rest(0.7, x, u, [], tau)), np.array(f(0.7, x, u, [])), rtol=1e-13, atol=1e-13)
    # the symbols are arguments: other efforts, other values
    assert np.abs(np.array(rest(0.7, x, u, [], tau + 1.0)) - np.array(f(0.7, x, u, []))).max() > 1e-2


def test_where_no_effort_is_nothing_is_found():
    model = TREES["flat"]()
    system = inverse_dynamics_system(model)
    for build_one in (lambda t, x, u: u, lambda t, x, u: x[0] * u[1], lambda t, x, u: ca.SX(0, 1),
                      lambda t, x, u: torque(model, x, 2 * u)):  # the efforts of another motion are not those of this one
        assert inner.split(function(system.nx, system.nu, build_one), inner.efforts(model, system.nu).sought) is None
    assert accelerations(system) is model
    assert accelerations(robot_system(model)) is None


@pytest.mark.parametrize("name", TREES)
def test_derivatives_of_the_efforts_against_differences_on_the_manifold(name):
    model = TREES[name]()
    system, (x, u) = inverse_dynamics_system(model), point(model)
    X, U, D, W = (ca.SX.sym(n, k) for n, k in (("x", system.nx), ("u", system.nu), ("d", 3 * model.nv), ("w", model.nv)))
    n = system.space.ndx
    moved = ca.Function("moved", [X, U, D], [torque(model, system.space.plus(X, D[:n]), U + D[n:])])
    known = inner.efforts(model, system.nu)
    tau, T = known.first(0, X, U)
    found = ca.Function("found", [X, U, W], [tau, T, known.second(0, X, U, W)])
    w = np.random.default_rng(8).normal(size=model.nv)
    value, J, H = (np.array(y) for y in found(x, u, w))

    def at(d):
        return np.array(moved(x, u, d)).ravel()

    size, eye = 3 * model.nv, np.eye(3 * model.nv)
    np.testing.assert_allclose(value.ravel(), at(np.zeros(size)), rtol=1e-12, atol=1e-12)
    h = 1e-5
    np.testing.assert_allclose(J, np.column_stack([(at(h * e) - at(-h * e)) / (2 * h) for e in eye]), rtol=1e-6, atol=1e-6)
    h = 1e-3
    by_two = np.array([[w @ (at(h * (a + b)) - at(h * (a - b)) - at(h * (b - a)) + at(-h * (a + b))) / (4 * h * h) for b in eye]
                       for a in eye])
    np.testing.assert_allclose(H, by_two, rtol=1e-4, atol=1e-4 * np.abs(H).max())


@pytest.mark.parametrize(("name", "integrator", "exact"), [
    ("flat", "semi_implicit_euler", True), ("curved", "euler", False), ("curved", "heun", True), ("flat", "midpoint", False), *(
        pytest.param(*case, marks=pytest.mark.slow) for case in (
            ("flat", "semi_implicit_euler", False), ("flat", "midpoint", True), ("curved", "euler", True),
            ("curved", "heun", False), ("curved", "semi_implicit_euler", False), ("curved", "semi_implicit_euler", True)))])
@pytest.mark.sample(2)
def test_stages_are_those_without_the_closed_form(name, integrator, exact, monkeypatch):
    """The other road differentiates the whole graph."""
    monkeypatch.setattr(expressions, "INLINE_LIMIT", 6000)
    model = TREES[name]()
    given, options = problem(model), ILQROptions(intervals=3, integrator=integrator, hessian="full" if exact else "gauss_newton")
    ours = build(given, options).kinds[0]
    without_closed_forms(monkeypatch)
    theirs = build(given, options).kinds[0]
    assert ours.rows.names == theirs.rows.names
    (x, u), rng = point(model), np.random.default_rng(4)
    at, y, costate = (0.3, x, u, []), rng.normal(size=ours.rows.count), rng.normal(size=2 * model.nv)
    pairs = [*zip(ours.step.call([*at, 0.1])[:2], theirs.step.call([*at, 0.1])[:2], strict=True),
             *zip(ours.expand.call([*at, 0.1])[:3], theirs.expand.call([*at, 0.1])[:3], strict=True),
             *zip(slopes(ours, *at), slopes(theirs, *at), strict=True),
             (curvature(ours, *at, y), curvature(theirs, *at, y))]
    if exact:
        pairs.append((ours.hessian(*at, 0.1, costate), theirs.hessian(*at, 0.1, costate)))
        if (name, integrator) != ("curved", "heun"):  # projections on the way: differentiated as they are
            assert ours.whole.n_instructions() < 0.7 * theirs.whole.n_instructions()
    for a, b in pairs:
        a, b = np.array(a), np.array(b)
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-11 * max(1.0, np.abs(b).max()))
        assert np.abs(b).max() > 1e-3


def test_the_closed_form_is_short(monkeypatch):
    model = serial_chain(6)
    given, options = problem(model), ILQROptions(intervals=3, integrator="semi_implicit_euler", hessian="full")
    ours = build(given, options).kinds[0]
    without_closed_forms(monkeypatch)
    theirs = build(given, options).kinds[0]
    assert ours.rows.curvature.n_instructions() < 0.5 * theirs.rows.curvature.n_instructions()
    assert ours.whole.n_instructions() < 0.35 * theirs.whole.n_instructions()


def test_a_wrong_closed_form_is_noticed(monkeypatch):
    """Poison: the curvature of the efforts is off by a thousandth; only the Hessians change."""
    inner._efforts.cache_clear()
    right = inner.contracted_inverse_dynamics
    monkeypatch.setattr(inner, "contracted_inverse_dynamics", lambda *a: type(right(*a))(*(1.001 * part for part in right(*a))))
    model = TREES["flat"]()
    given, options = problem(model), ILQROptions(intervals=3, integrator="semi_implicit_euler", hessian="full")
    ours = build(given, options).kinds[0]
    inner._efforts.cache_clear()
    without_closed_forms(monkeypatch)
    theirs = build(given, options).kinds[0]
    x, u = point(model)
    costate = np.ones(2 * model.nv)
    a, b = (np.array(stage.hessian(0.3, x, u, [], 0.1, costate)) for stage in (ours, theirs))
    assert np.abs(a - b).max() > 1e-6 * np.abs(b).max()
    a, b = (np.array(stage.first_order(0.3, x, u, [], 0.1)[0]) for stage in (ours, theirs))
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-11 * np.abs(b).max())
