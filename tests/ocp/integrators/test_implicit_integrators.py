"""Implicit one-step maps: order, stability, invariants, derivatives of the implicit function, and honesty where Newton fails."""

import casadi as ca
import integrator_systems as systems
import numpy as np
import pytest
from integrator_systems import system

from dynamics import algorithms as alg
from dynamics.kernels import compile_kernel
from dynamics.model.synthetic import random_tree
from ocp.bridge import robot_system
from ocp.derivatives import differentiated
from ocp.integrators import INTEGRATORS, stage_equations
from ocp.problem import System
from ocp.spaces import euclidean

IMPLICIT = [name for name, integrator in INTEGRATORS.items() if integrator.implicit]
GAUSS = [name for name in IMPLICIT if name.startswith("gauss")]
#: steps whose errors stand clear of rounding
COUNTS = {1: (32, 64, 128), 2: (32, 64, 128), 3: (16, 32, 64), 4: (32, 64, 128), 5: (16, 32, 64), 6: (8, 16, 32), 8: (3, 6, 12)}


def counts(name):
    return np.array(COUNTS[INTEGRATORS[name].order])


# ---- order -------------------------------------------------------------------------------------------------------
def test_the_family_is_complete():
    assert {name: INTEGRATORS[name].order for name in IMPLICIT} == {
        "implicit_euler": 1, "tr_bdf2": 2, "gauss_legendre_1": 2, "gauss_legendre_2": 4, "gauss_legendre_3": 6,
        "gauss_legendre_4": 8, "radau_iia_2": 3, "radau_iia_3": 5, "bdf1": 1, "sdirk2": 2}


@pytest.mark.parametrize("cost", [False, True])
@pytest.mark.parametrize("name", IMPLICIT)
@pytest.mark.sample(4)
def test_order_of_state_and_running_cost_on_a_time_varying_system(name, cost):
    errors = [systems.scalar_error(name, n, cost) for n in counts(name)]
    assert systems.order(errors, counts(name)) == pytest.approx(INTEGRATORS[name].order, abs=0.2)


@pytest.mark.parametrize("name", ["tr_bdf2", "radau_iia_3"])
def test_order_on_a_floating_base_with_limbs(name):
    model, sys = floating_tree()
    x, u = tree_start(model, sys)
    fine, _ = systems.integrate(systems.stepper(sys, "rk4"), x, u, 0.3, 600)
    n = np.array([2, 4, 8]) if name == "radau_iia_3" else np.array([8, 16, 32])
    step = systems.stepper(sys, name, kind=ca.MX)
    errors = [np.linalg.norm(np.asarray(sys.space.minus(ca.DM(fine), ca.DM(systems.integrate(step, x, u, 0.3, k)[0])))) for k in n]
    assert systems.order(errors, n) == pytest.approx(INTEGRATORS[name].order, abs=0.4)


def floating_tree(bodies=3):
    model = random_tree(bodies, np.random.default_rng(12), kinds=("revolute", "spherical"), root="free_flyer", damping=True)
    names = [b.joint.name for b in model.bodies if b.joint.kind != "free_flyer"]
    return model, robot_system(model, actuated=names)


def tree_start(model, system):
    rng = np.random.default_rng(4)
    return np.r_[alg.random_configuration(model, rng), 0.6 * rng.normal(size=model.nv)], 0.3 * rng.normal(size=system.nu)


# ---- stability ---------------------------------------------------------------------------------------------------
#: x' = z x for a complex z, as two real components; the two parts of z are the control
LINEAR = system(euclidean(("re", "im")), 2, lambda t, x, u: ca.vertcat(u[0] * x[0] - u[1] * x[1], u[1] * x[0] + u[0] * x[1]))


def factor(name):
    """z -> x_next / x for h = 1."""
    step = systems.stepper(LINEAR, name)

    def of(z):
        after = step(0.0, [1.0, 0.0], [z.real, z.imag], 1.0)[0]
        return after[0] + 1j * after[1]
    return of


def trapezoid_then_bdf2(z):
    """TR-BDF2 as its name says: Bank et al. 1985, with gamma = 2 - sqrt 2."""
    g = 2 - np.sqrt(2)
    middle = (1 + g * z / 2) / (1 - g * z / 2)
    return (middle / (g * (2 - g)) - (1 - g) ** 2 / (g * (2 - g))) / (1 - (1 - g) / (2 - g) * z)


G = 1 - np.sqrt(1 / 2)
FACTORS = {  # Hairer, Wanner, Solving Ordinary Differential Equations II, section IV.3: Pade approximations of exp z
    "implicit_euler": lambda z: 1 / (1 - z),
    "tr_bdf2": trapezoid_then_bdf2,
    "gauss_legendre_1": lambda z: (1 + z / 2) / (1 - z / 2),
    "gauss_legendre_2": lambda z: (1 + z / 2 + z**2 / 12) / (1 - z / 2 + z**2 / 12),
    "gauss_legendre_3": lambda z: (1 + z / 2 + z**2 / 10 + z**3 / 120) / (1 - z / 2 + z**2 / 10 - z**3 / 120),
    "gauss_legendre_4": lambda z: ((1 + z / 2 + 3 * z**2 / 28 + z**3 / 84 + z**4 / 1680)
                                   / (1 - z / 2 + 3 * z**2 / 28 - z**3 / 84 + z**4 / 1680)),
    "bdf1": lambda z: 1 / (1 - z), "sdirk2": lambda z: (1 + (1 - 2 * G) * z) / (1 - G * z) ** 2,
    "radau_iia_2": lambda z: (1 + z / 3) / (1 - 2 * z / 3 + z**2 / 6),
    "radau_iia_3": lambda z: (1 + 2 * z / 5 + z**2 / 20) / (1 - 3 * z / 5 + 3 * z**2 / 20 - z**3 / 60),
}


@pytest.mark.parametrize("name", IMPLICIT)
def test_stability_function(name):
    of = factor(name)
    for z in (-0.3 + 0.2j, -2.0 + 0j, 1.5j, -40 + 7j, -1e3 + 1e3j, 0.4 - 0.1j):
        assert of(z) == pytest.approx(FACTORS[name](z), rel=1e-11, abs=1e-13)
    # A-stable: bounded on the imaginary axis, where Gauss methods rotate; L-stable: forgets what is infinitely stiff
    sizes = np.array([abs(of(1j * y)) for y in np.geomspace(1e-2, 1e4, 25)])
    assert sizes.max() <= 1 + 1e-12
    if name in GAUSS:
        np.testing.assert_allclose(sizes, 1.0, atol=1e-11)
        assert abs(of(-1e8 + 0j)) == pytest.approx(1.0, abs=1e-5)
    else:
        assert sizes[-1] < 0.01
        assert abs(of(-1e8 + 0j)) < 1e-6


@pytest.mark.parametrize("name", IMPLICIT)
def test_a_stiff_system_is_followed_with_long_steps(name):
    """Prothero, Robinson 1974: x' = -s (x - cos t) - sin t with s = 1e6, solution cos t."""
    stiff = system(euclidean(("x",)), 1, lambda t, x, u: -1e6 * (x - ca.cos(t)) - ca.sin(t))
    x, _ = systems.integrate(systems.stepper(stiff, name), [1.0], [0.0], 2.0, 20)
    assert x[0] == pytest.approx(np.cos(2.0), abs=3e-3 if name in GAUSS else 1e-6)
    wild, _ = systems.integrate(systems.stepper(stiff, "rk4"), [1.001], [0.0], 2.0, 20)
    assert not abs(wild[0]) < 1e20


# ---- geometry ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", IMPLICIT)
def test_gauss_methods_keep_quadratic_invariants(name):
    """Energy and squared angular momentum of a free top are quadratic in its velocities (Cooper 1987 for Gauss methods)."""
    lopsided = System("lopsided", euclidean(("a", "b", "c")), (), ca.Function("rate", (s := [
        ca.SX.sym("t"), ca.SX.sym("x", 3), ca.SX.sym("u", 0), ca.SX.sym("p", 0)]), [
        ca.vertcat(-1.4 * s[1][1] * s[1][2], 0.9 * s[1][2] * s[1][0], 0.3 * s[1][0] * s[1][1])]))
    # d/dt (p a^2 + q b^2 + r c^2) = 2 a b c (-1.4 p + 0.9 q + 0.3 r) vanishes for these two
    forms = np.array([[0.9, 1.4, 0.0], [0.3, 0.0, 1.4]])
    x, _ = systems.integrate(systems.stepper(lopsided, name), start := np.array([0.8, -0.6, 1.1]), [], 20.0, 100)
    drift = np.abs(forms @ (x**2 - start**2)).max()
    assert np.abs(x - start).max() > 0.1
    assert drift < 1e-12 if name in GAUSS else drift > 1e-7


# ---- derivatives -------------------------------------------------------------------------------------------------
STIFF = system(euclidean(("x", "y")), 1, lambda t, x, u: ca.vertcat(-500 * (x[0] - ca.sin(x[1]) * u), x[0] ** 2))
CASES = {"top": lambda: (systems.TOP, systems.top_start(), np.array([0.3, -0.2, 0.4])),
         "pendulum": lambda: (systems.PENDULUM, np.array([0.9, -1.3]), np.array([0.4])),
         "stiff": lambda: (STIFF, np.array([0.4, 0.8]), np.array([0.7]))}


@pytest.mark.parametrize("case", list(CASES))
@pytest.mark.parametrize("name", IMPLICIT)
@pytest.mark.sample(4)
def test_first_and_second_derivatives_against_differences_on_the_manifold(name, case):
    sys, x, u = CASES[case]()
    h, weights = 0.15, np.random.default_rng(7).normal(size=sys.space.ndx)
    J, H = systems.by_differences(sys, name, ca.SX, x, u, h, weights)
    for kind in (ca.SX, ca.MX):
        slope, bend = systems.derivatives(sys, name, kind, x, u, h, weights)
        np.testing.assert_allclose(slope, J, atol=1e-8 * max(1, np.abs(J).max()))
        np.testing.assert_allclose(bend, H, atol=2e-6 * max(1, np.abs(H).max()))
    assert np.abs(H).max() > 1e-3


@pytest.mark.parametrize("name", ["tr_bdf2", "gauss_legendre_2"])
def test_derivatives_in_time_parameters_and_step_length(name):
    """They are inputs of the equations too: the length of a free-time step, a free parameter."""
    t, x, u, p, h = (ca.MX.sym(s, size) for s, size in (("t", 1), ("x", 2), ("u", 1), ("p", 2), ("h", 1)))
    sys = System("forced", euclidean(("q", "v")), ("u",), ca.Function("rate", [t, x, u, p], [
        ca.vertcat(x[1], u * ca.cos(p[0] * t) - p[1] * ca.sin(x[0]))]), ("rate", "stiffness"), (1.0, 1.0))
    after, nodes = INTEGRATORS[name].advance(sys, t, x, u, p, h)
    everything = ca.vertcat(after, *(point for _, _, point in nodes))
    arguments = 0.3, np.array([0.4, -0.2]), np.array([0.7]), np.array([2.0, 5.0]), 0.2
    value = ca.Function("value", [t, x, u, p, h], [everything])
    slopes = ca.Function("slopes", [t, x, u, p, h], [ca.jacobian(everything, s) for s in (t, p, h)])(*arguments)
    for where, slope in zip((0, 3, 4), slopes, strict=True):
        for j in range(np.size(arguments[where])):
            ends = []
            for sign in (1e-5, -1e-5):
                moved = [np.array(a, dtype=float) for a in arguments]
                moved[where] = moved[where] + (sign * np.eye(np.size(arguments[where]))[j]).reshape(np.shape(arguments[where]))
                ends.append(np.array(value(*moved)).ravel())
            np.testing.assert_allclose(np.array(slope)[:, j], (ends[0] - ends[1]) / 2e-5, atol=1e-9)
            assert np.abs(ends[0] - ends[1]).max() > 1e-8


@pytest.mark.parametrize("name", ["tr_bdf2", pytest.param("gauss_legendre_2", marks=pytest.mark.slow)])
def test_large_rates_are_called_and_mean_the_same(name, monkeypatch):
    model, sys = floating_tree(2)
    x, u = tree_start(model, sys)
    weights = np.random.default_rng(3).normal(size=sys.space.ndx)
    monkeypatch.setattr(stage_equations, "INLINE_LIMIT", 0)
    called = systems.derivatives(sys, name, ca.MX, x, u, 0.05, weights)
    monkeypatch.setattr(stage_equations, "INLINE_LIMIT", 10**9)
    inlined = systems.derivatives(sys, name, ca.MX, x, u, 0.05, weights)
    closed = systems.derivatives(differentiated(sys, "analytic"), name, ca.MX, x, u, 0.05, weights)
    for one, other, third in zip(called, inlined, closed, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-11 * np.abs(other).max())
        np.testing.assert_allclose(third, other, atol=1e-9 * np.abs(other).max())


# ---- graphs, kernels, failure ------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) if name in (
    "gauss_legendre_3", "gauss_legendre_4", "radau_iia_3") else name for name in IMPLICIT])
@pytest.mark.sample(3)
def test_scalar_and_matrix_graphs_and_compiled_kernels_agree(name):
    arguments = 0.2, systems.top_start(), np.array([0.3, -0.2, 0.1]), 0.05
    found = []
    for kind in (ca.SX, ca.MX):
        function = systems.step_function(systems.TOP, name, kind, lambda t, x, u: t * x[5] + u[0])
        found += [function(*arguments), compile_kernel(function, mode="auto")(*arguments)]
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_allclose(np.array(a).ravel(), np.array(b).ravel(), rtol=1e-13, atol=1e-15)
    assert np.linalg.norm(np.array(found[0][0])[:4]) == pytest.approx(1, abs=1e-15)


BLOW_UP = system(euclidean(("x",)), 1, lambda t, x, u: x**2 + u)


def test_a_step_without_solution_is_not_a_number():
    """Implicit Euler on x' = x^2 from 1: y = h (1 + y)^2 has real roots for h <= 1/4 only, and the smaller one is the step.

    Beyond, Newton's iterates wander and may come back to where they were, which must not pass for convergence.
    """
    step = systems.step_function(BLOW_UP, "implicit_euler")
    kernel = compile_kernel(step)
    for h in (0.01, 0.1, 0.2, 0.24):
        y = (1 - 2 * h - np.sqrt(1 - 4 * h)) / (2 * h)
        for run in (step, kernel):
            assert float(np.array(run(0.0, [1.0], [0.0], h)[0]).item()) == pytest.approx(1 + y, rel=1e-13)
    for h in [*np.linspace(0.26, 3.0, 60), 1.0]:
        for run in (step, kernel):
            assert np.isnan(np.array(run(0.0, [1.0], [0.0], h)[0])).all(), h


@pytest.mark.parametrize("name", IMPLICIT)
def test_every_step_solves_its_equations_or_is_not_a_number(name):
    tableau = INTEGRATORS[name].tableau
    t, x, u, p, h = (ca.SX.sym(s, size) for s, size in (("t", 1), ("x", 1), ("u", 1), ("p", 0), ("h", 1)))
    after, nodes = INTEGRATORS[name].advance(BLOW_UP, t, x, u, p, h)
    function = ca.Function("step", [t, x, u, p, h], [after, *(point for _, _, point in nodes)])
    failed = 0
    for length in np.geomspace(0.01, 30, 80):
        value, *points = (float(out) for out in function(0, 1.0, 0.2, [], length))
        if np.isnan(value):
            failed += 1
            continue
        rates = np.array(points) ** 2 + 0.2
        np.testing.assert_allclose(points, 1.0 + length * np.array(tableau.a) @ rates, rtol=1e-10)
        assert value == pytest.approx(1.0 + length * np.dot(tableau.b, rates), rel=1e-10)
    assert 0 < failed < 80


def test_what_is_not_a_number_stays_so():
    step = systems.step_function(systems.OSCILLATOR, "gauss_legendre_2", ca.MX)
    for run in (step, compile_kernel(step)):
        assert np.isnan(np.array(run(0.0, [np.nan, 1.0], [0.0], 0.1)[0])).any()
