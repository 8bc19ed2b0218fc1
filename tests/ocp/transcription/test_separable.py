"""The program by its elements, summed up place by place, against its CasADi functions and twins differentiated as a whole."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import direct_problems as direct
import direct_twin
import numpy as np
import pytest
from control_problems import flat_system, function, line
from repository import ROOT
from separable_sums import Summed

from ocp.app.files.load import load_problem
from ocp.problem import At, Cost, Linkage, Phase, Problem
from ocp.transcription.collocation import CollocationOptions
from ocp.transcription.collocation import transcribe as collocation
from ocp.transcription.mesh import Grid, Mesh
from ocp.transcription.multiple_shooting import MultipleShootingOptions
from ocp.transcription.multiple_shooting import transcribe as shooting
from ocp.transcription.schemes import make_scheme

FOLDER = ROOT / "problems"
RICH = direct_twin.rich()
PLAIN = CollocationOptions(scheme="hermite_simpson", kernels="interpreted", hessian="gauss_newton")


def meshes():
    """Intervals of several schemes, degrees and widths; controls of three shapes."""
    kinds = [(("gauss", 2), ("radau", 3), ("lobatto", 4)), (("radau_left", 2), ("hermite_simpson",), ("trapezoid",), ("radau", 2)),
             (("gauss", 3, "differential"), ("lobatto", 4), ("radau_left", 3, "differential"))]
    edges = ((0, 0.2, 0.5, 1), (0, 0.3, 0.4, 0.8, 1), (0, 0.6, 0.9, 1))
    return [Mesh(np.array(own, dtype=float), tuple(make_scheme(*one) for one in schemes), shape)
            for own, schemes, shape in zip(edges, kinds, ("polynomial", "held", "linear"), strict=True)]


def grids(integrator="rk4", steps=2, linear=False):
    return [Grid(np.array(own, dtype=float), integrator, steps, linear) for own in ((0, 0.3, 1), (0, 0.1, 0.4, 1), (0, 0.7, 1))]


def point(nlp, seed):
    rng = np.random.default_rng(seed)
    x = nlp.x0 + 0.3 * rng.normal(size=nlp.n)
    return x, rng.normal(), rng.normal(size=nlp.m)


def same(one, other, what, close=1e-13):
    np.testing.assert_allclose(one, other, rtol=close, atol=close * max(1.0, np.abs(other).max(initial=0.0)), err_msg=what)


def compare_with_functions(nlp, seed):
    """Values, and patterns to the last nonzero."""
    parts, found = nlp.separable, Summed(nlp.separable)
    x, sigma, lam = point(nlp, seed)
    same(found.f(x), float(nlp.f(x)), "f")
    same(found.g(x), nlp.g(x).full().ravel(), "g")
    same(found.gradient(x), nlp.grad(x)[1].full().ravel(), "gradient")
    g, J = found.jacobian(x)
    same(g, nlp.jac(x)[0].full().ravel(), "g of the Jacobian")
    same(J, nlp.jac(x)[1].full(), "jacobian")
    same(found.hessian(x, sigma, lam), nlp.hess(x, sigma, lam).full(), "hessian")
    patterns = [(parts.jacobian, nlp.jac.sparsity_out(1)), (parts.hessian, nlp.hess.sparsity_out(0))]
    assert (parts.gauss_newton is None) == (nlp.gauss_newton is None)
    if nlp.gauss_newton is not None:
        same(found.gauss_newton(x, sigma), nlp.gauss_newton(x, sigma).full(), "gauss_newton")
        patterns.append((parts.gauss_newton, nlp.gauss_newton.sparsity_out(0)))
    for own, pattern in patterns:
        assert own.indptr.tolist() == pattern.colind()
        assert own.rows.tolist() == pattern.row()


def compare_with_twin(nlp, twin, seed, separable=None):
    x, sigma, lam = point(nlp, seed)
    found = Summed(separable or nlp.separable)
    f, g, gradient, J, hessian, gauss = (v.full() for v in twin(x, sigma, lam))
    same(found.f(x), f.item(), "f", 1e-11)
    same(found.g(x), g.ravel(), "g", 1e-11)
    same(found.gradient(x), gradient.ravel(), "gradient", 1e-11)
    same(found.jacobian(x)[1], J, "jacobian", 1e-11)
    same(found.hessian(x, sigma, lam), hessian, "hessian", 1e-10)
    if nlp.gauss_newton is not None:
        same(found.gauss_newton(x, sigma), sigma * gauss, "gauss_newton", 1e-11)
    assert np.abs(hessian).max() > 1


def test_phases_by_collocation():
    """Three phases, linkages, resets, free durations, a shared parameter, integrals, soft terms, residuals."""
    program = collocation(RICH, PLAIN, meshes())
    compare_with_functions(program.nlp, 1)
    compare_with_twin(program.nlp, direct_twin.collocation(program, RICH), 2)


@pytest.mark.parametrize(("integrator", "steps", "linear"), [("rk4", 2, False), ("gauss_legendre_1", 1, True)])
def test_phases_by_shooting(integrator, steps, linear):
    program = shooting(RICH, MultipleShootingOptions(kernels="interpreted"), grids(integrator, steps, linear))
    compare_with_functions(program.nlp, 3)
    if integrator == "rk4":  # the twin of implicit steps is exact to their Newton tolerance only
        compare_with_twin(program.nlp, direct_twin.shooting(program, RICH), 4)


@pytest.mark.parametrize("options", [
    {"scheme": "gauss", "degree": 2}, {"form": "compressed"}, {"scheme": "radau", "controls": "linear"}, {}], ids=str)
@pytest.mark.parametrize("states", ["tangent", "coordinates"])
def test_attitude_in_both_forms(states, options):
    program = collocation(direct.body_transfer(), replace(PLAIN, states=states, intervals=3, **options))
    compare_with_functions(program.nlp, 5)


def test_shooting_in_tangent_unknowns():
    options = MultipleShootingOptions(states="tangent", integrator="rkmk4", intervals=3, kernels="interpreted")
    compare_with_functions(shooting(direct.body_transfer(), options).nlp, 6)


@pytest.mark.parametrize("form", ["integral", "compressed"])
def test_phases_in_compressed_form(form):
    compare_with_functions(collocation(RICH, replace(PLAIN, form=form, intervals=3)).nlp, 7)


def test_loops_over_the_model():
    problem = load_problem(FOLDER / "acrobot.yaml").problem
    options = CollocationOptions(intervals=3, derivatives="analytic", execution="loops", kernels="interpreted")
    nlp = collocation(problem, options).nlp
    assert [e.batched for e in nlp.separable.elements].count(True) == 1
    compare_with_functions(nlp, 8)
    generated = collocation(problem, replace(options, execution="generated")).nlp
    x, sigma, lam = point(nlp, 9)
    one, other = Summed(nlp.separable), Summed(generated.separable)
    same(one.jacobian(x)[1], other.jacobian(x)[1], "jacobian", 1e-10)
    same(one.hessian(x, sigma, lam), other.hessian(x, sigma, lam), "hessian", 1e-9)


def test_elements_without_rows_and_without_costs():
    """Every element says whether it costs anything, and one without rows adds none."""
    system = flat_system("point", ("q",), ("u",), lambda t, x, u, p: u)
    goal = Cost("goal", At.FINAL, function(1, 1, lambda t, x, u, p: ca.sin(x[0])))
    problem = Problem("point", (Phase("point", system, direct.held(1.0), line([0.0], [1.0], 1), costs=(goal,)),))
    nlp = collocation(problem, CollocationOptions(scheme="trapezoid", intervals=2)).nlp
    assert [(e.name, e.has_cost, e.size) for e in nlp.separable.elements] == [("node", False, 1), ("ends", True, 0)]
    compare_with_functions(nlp, 10)
    free = Problem("point", (Phase("point", system, direct.held(1.0), line([0.0], [1.0], 1)),))
    nlp = collocation(free, CollocationOptions(scheme="trapezoid", intervals=2)).nlp
    assert [e.name for e in nlp.separable.elements] == ["node"]  # nothing is asked of the ends
    assert float(nlp.f(nlp.x0)) == 0.0
    compare_with_functions(nlp, 12)


def test_an_unknown_that_an_element_takes_twice():
    """A linkage that names one end twice: derivatives by both of its arguments belong to the same unknown."""
    link = direct.linkage_function(lambda a, b, T, p: a[0] * b[1] + ca.sin(a[1]) * b[1], (2, 2))
    system = flat_system("point", ("q", "v"), ("u",), lambda t, x, u, p: ca.vertcat(x[1], u))
    linkage = Linkage("twice", ((0, At.FINAL), (0, At.FINAL)), link, (0.0,), (1.0,))
    phase = Phase("point", system, direct.held(1.0), line([0.0, 1], [1.0, 1], 1))
    nlp = collocation(Problem("point", (phase,), linkages=(linkage,)), CollocationOptions(scheme="trapezoid", intervals=2)).nlp
    x, _, _ = point(nlp, 11)
    lam = np.zeros(nlp.m)
    lam[nlp.constraints.index("twice @ linkage")] = 1.0
    q, v = (nlp.variables.index(f"x.{name} @ knot 2") for name in "qv")
    expected = np.zeros((nlp.n, nlp.n))  # of q v + v sin v
    expected[q, v] = 1.0
    expected[v, v] = 2 * np.cos(x[v]) - x[v] * np.sin(x[v])
    same(Summed(nlp.separable).hessian(x, 0.0, lam), expected, "hessian")
    same(nlp.hess(x, 0.0, lam).full(), expected, "hessian of the function")


def test_the_sums_would_notice():
    """One weight that is another by a hundredth, or other sources."""
    program = collocation(RICH, PLAIN, meshes())
    nlp, twin = program.nlp, direct_twin.collocation(program, RICH)
    parts = nlp.separable
    entries = parts.jacobian.entries
    weight = entries.weight.copy()
    weight[17] *= 1.01
    for changed in (replace(entries, weight=weight), replace(entries, source=np.roll(entries.source, 1))):
        wrong = replace(parts, jacobian=replace(parts.jacobian, entries=changed))
        with pytest.raises(AssertionError, match="jacobian"):
            compare_with_twin(nlp, twin, 2, wrong)
