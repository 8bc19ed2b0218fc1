"""Programs by their elements build functions of the whole only for those who ask, and say the same without them."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

import casadi as ca
import direct_twin
import numpy as np
import pytest
from control_problems import one_state
from nlp_programs import with_functions
from repository import ROOT

from ocp.app.files.load import load_problem
from ocp.nlp import NLP, Functions, IpoptOptions, solve_nlp
from ocp.nlp.names import Names
from ocp.nlp.ordered import ordered, starts
from ocp.nlp.program import kkt, not_finite, worst_violations
from ocp.nlp.separable import Gather
from ocp.nlp.values import Values
from ocp.nlp.whole import Whole, gathered
from ocp.problem import Kind
from ocp.transcription import kernels
from ocp.transcription.collocation import CollocationOptions, transcribe, uniform_meshes
from ocp.transcription.program import BY_SOLVER, build

FOLDER = ROOT / "problems"
FUNCTIONS = ("f", "g", "grad", "jac", "hess", "gauss_newton")
BOUNDS = ("x0", "x_lower", "x_upper", "g_lower", "g_upper")


def rich(**options):
    return transcribe(direct_twin.rich(), CollocationOptions(intervals=3, kernels="interpreted", **options)).nlp


def given(nlp):
    """The same program with functions that stand ready and without elements."""
    functions = {name: getattr(nlp, name) for name in FUNCTIONS}
    return NLP(Functions(**functions), **{name: getattr(nlp, name) for name in BOUNDS}, variables=tuple(nlp.variables),
               constraints=tuple(nlp.constraints))


def test_nothing_is_built_that_nobody_asks_for():
    nlp = rich()
    assert not any(nlp.built(name) for name in FUNCTIONS)
    x, lam_x, lam_g = nlp.x0, np.zeros(nlp.n), np.ones(nlp.m)
    kkt(nlp, x, lam_x, lam_g)
    worst_violations(nlp, x)
    assert not any(nlp.built(name) for name in FUNCTIONS)
    first = nlp.jac
    assert [name for name in FUNCTIONS if nlp.built(name)] == ["jac"]
    assert nlp.jac is first
    assert nlp.gauss_newton is None
    assert rich(hessian="gauss_newton").gauss_newton is not None


def test_residuals_from_the_elements_are_those_of_the_functions():
    rng = np.random.default_rng(2)
    nlp = rich()
    twin = given(rich())
    for _ in range(3):
        x, lam_x, lam_g = nlp.x0 + 0.3 * rng.normal(size=nlp.n), rng.normal(size=nlp.n), rng.normal(size=nlp.m)
        one, other = kkt(nlp, x, lam_x, lam_g), kkt(twin, x, lam_x, lam_g)
        assert one.stationarity == pytest.approx(other.stationarity, rel=1e-13)
        assert one.complementarity == pytest.approx(other.complementarity, rel=1e-13)
        np.testing.assert_allclose(one.violation, other.violation, rtol=1e-13, atol=1e-14)
        assert [name for name, _ in worst_violations(nlp, x, 5)] == [name for name, _ in worst_violations(twin, x, 5)]
        assert Values(nlp.separable, x).f() == pytest.approx(float(twin.f(x)), rel=1e-13)
    assert not nlp.built("grad")
    assert one.stationarity > 1e-3  # a zero would agree with anything


def test_residuals_of_loops_over_a_robot():
    problem = load_problem(FOLDER / "acrobot.yaml").problem
    options = CollocationOptions(intervals=3, derivatives="analytic", execution="loops", kernels="interpreted")
    nlp = transcribe(problem, options).nlp
    rng = np.random.default_rng(4)
    x, lam = nlp.x0 + 0.1 * rng.normal(size=nlp.n), rng.normal(size=nlp.m)
    before = kkt(nlp, x, np.zeros(nlp.n), lam)
    assert not nlp.built("grad")
    after = kkt(given(nlp), x, np.zeros(nlp.n), lam)
    assert before.stationarity == pytest.approx(after.stationarity, rel=1e-12)
    np.testing.assert_allclose(before.violation, after.violation, rtol=1e-12, atol=1e-13)


def test_what_is_not_finite_is_named_without_functions():
    nlp = replace(rich(), diagnose=None)
    x = nlp.x0.copy()
    x[nlp.variables.index("one: x.v2 @ knot 1")] = np.nan
    found = not_finite(nlp, x)
    assert found
    assert {one.kind for one in found} <= {Kind.OBJECTIVE_NOT_FINITE, Kind.CONSTRAINT_NOT_FINITE}
    assert any(one.name.startswith("one: ") for one in found)


def test_other_bounds_keep_the_elements_and_other_functions_lose_them():
    nlp = rich()
    wider = replace(nlp, g_upper=nlp.g_upper + 1.0)
    assert wider.separable is nlp.separable
    assert wider.jac is nlp.jac
    x = ca.MX.sym("x", nlp.n)
    double = ca.Function("double", [x], [2 * nlp.f(x)])
    other = with_functions(nlp, f=double)
    assert other.separable is None
    assert other.f is double
    assert float(other.f(nlp.x0)) == pytest.approx(2 * float(nlp.f(nlp.x0)))
    np.testing.assert_array_equal(np.array(other.jac(nlp.x0)[1]), np.array(nlp.jac(nlp.x0)[1]))
    assert other.hess is nlp.hess


def test_a_scaled_program_is_not_taken_for_its_elements():
    """Scaled functions are others than those of the elements; residuals must be those of the scaled program."""
    from ocp.nlp.scaling import Scaling, scaled

    nlp = rich()
    factors = Scaling("test", np.full(nlp.n, 4.0), np.full(nlp.m, 0.5), 2.0)
    inner, _ = scaled(nlp, factors)
    assert inner.separable is None
    x, lam = nlp.x0 + 0.1, np.linspace(-1, 1, nlp.m)
    expected = nlp.grad(x)[1].full().ravel() * 8 + 2 * (nlp.jac(x)[1].T @ ca.DM(lam)).full().ravel()
    free = inner.x_lower < inner.x_upper
    found = kkt(inner, x / 4, np.zeros(nlp.n), lam)
    assert found.stationarity == pytest.approx(np.abs(expected[free]).max(), rel=1e-12)


def test_a_solver_gets_the_same_from_late_functions():
    problem = load_problem(FOLDER / "cartpole_swingup.yaml").problem
    nlp = transcribe(problem, CollocationOptions(intervals=10)).nlp
    one, other = solve_nlp(nlp, IpoptOptions()), solve_nlp(given(nlp), IpoptOptions())
    assert one.f == other.f
    assert len(one.iterations) == len(other.iterations)


def test_kernels_may_be_left_to_the_solver():
    problem = load_problem(FOLDER / "biped_walking.yaml").problem
    options = CollocationOptions(intervals=20)
    how = replace(options.how(), kernels=BY_SOLVER)
    program = build(problem, uniform_meshes(problem, options), how)
    assert [one.kind for one in program.findings] == [Kind.DERIVATIVES_CHOSEN]
    assert program.seconds["compile"] == 0
    assert all(e.hessian.is_a("SXFunction") for e in program.nlp.separable.elements)
    plain = transcribe(problem, replace(options, kernels="interpreted")).nlp
    x, lam = plain.x0, np.linspace(-1, 1, plain.m)
    np.testing.assert_array_equal(program.nlp.hess(x, 1.0, lam).full(), plain.hess(x, 1.0, lam).full())


def test_equal_graphs_are_differentiated_once(monkeypatch):
    """Another mesh has the functions of the first; another cost has its own, with the derivatives that a fresh start has."""
    monkeypatch.setattr(kernels, "_PREPARED", OrderedDict())
    one, other, dearer = (transcribe(one_state(f"{factor}*u**2 + x**4"), CollocationOptions(intervals=n)).nlp
                          for factor, n in ((1, 10), (1, 17), (3, 10)))
    functions = [{e.name: e.hessian for e in nlp.separable.elements} for nlp in (one, other)]
    assert all(functions[1][name] == function for name, function in functions[0].items())
    monkeypatch.setattr(kernels, "_PREPARED", OrderedDict())
    fresh = transcribe(one_state("3*u**2 + x**4"), CollocationOptions(intervals=10)).nlp
    x, lam = one.x0 + 0.1, np.linspace(-1, 1, one.m)
    np.testing.assert_array_equal(dearer.hess(x, 1.0, lam).full(), fresh.hess(x, 1.0, lam).full())
    assert np.any(dearer.hess(x, 1.0, lam).full() != one.hess(x, 1.0, lam).full())


# --- names -------------------------------------------------------------------------------------------------------

def test_names_are_made_once_and_on_demand():
    made = []

    def make():
        made.append(1)
        return [f"row {i}" for i in range(4)]

    names = Names.joined([Names(4, make), ("last",)])
    assert len(names) == 5
    assert not made
    assert names == ("row 0", "row 1", "row 2", "row 3", "last")
    assert names != ("row 0",)
    assert names[1:3] == ("row 1", "row 2")
    assert (names[-1], names[np.int64(2)], names.index("row 3"), "row 9" in names) == ("last", "row 2", 3, False)
    assert [*names, "more"][-2:] == ["last", "more"]
    assert np.array(names).tolist() == list(names)
    assert len(made) == 1
    assert hash(names) == hash(tuple(names))


def test_miscounted_names_are_an_error():
    with pytest.raises(AssertionError, match="miscounted"):
        _ = Names(3, lambda: ["one"])[0]


# --- sums --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("top", [3, 5000, 2**61])
def test_order_of_whole_numbers(top):
    keys = np.random.default_rng(1).integers(0, top, size=1000)
    found, order = ordered(keys)
    np.testing.assert_array_equal(order, np.argsort(keys, kind="stable"))
    np.testing.assert_array_equal(found, np.sort(keys))
    if top == 3:
        np.testing.assert_array_equal(starts(found, 4), np.searchsorted(np.sort(keys), [0, 1, 2, 3, 4]))
    none, where = ordered(keys[:0])
    assert len(none) == len(where) == 0


@pytest.mark.parametrize("counts", [(1,) * 6, (0, 1, 2, 0, 1, 1), (5, 4, 6, 5, 0, 3), (0,) * 6, ()], ids=str)
@pytest.mark.parametrize("base", [0.0, 1.5])
def test_gathers(counts, base):
    """Any number of sources for a result, none included, in any order."""
    rng = np.random.default_rng(7)
    start = np.concatenate([[0], np.cumsum(counts)]).astype(int)
    source = np.concatenate([np.zeros(0, dtype=int), *(rng.choice(9, size=k, replace=False) for k in counts)])
    weight = rng.normal(size=len(source))
    bases = base * np.arange(len(counts))
    x, values = ca.MX.sym("x", 9), rng.normal(size=9)
    found = ca.Function("sums", [x], [gathered(Gather(start, source, weight, bases), x)])(values)
    expected = [b + sum(weight[k] * values[source[k]] for k in range(start[i], start[i + 1])) for i, b in enumerate(bases)]
    assert found.shape == (len(counts), 1)
    np.testing.assert_allclose(found.full().ravel(), expected, atol=1e-14)


def test_flat_functions_say_the_same():
    nlp = rich()
    flat, mapped = Whole(nlp.separable, 10**9), Whole(nlp.separable, 0)
    rng = np.random.default_rng(3)
    x, lam = nlp.x0 + 0.1 * rng.normal(size=nlp.n), rng.normal(size=nlp.m)
    for name, arguments in (("f", (x,)), ("g", (x,)), ("grad", (x,)), ("jac", (x,)), ("hess", (x, 0.7, lam))):
        one, other = getattr(flat, name), getattr(mapped, name)
        assert (one.is_a("SXFunction"), other.is_a("SXFunction")) == (True, False)
        for a, b in zip(one.call(arguments), other.call(arguments), strict=True):
            assert a.sparsity() == b.sparsity()
            np.testing.assert_allclose(a.full(), b.full(), rtol=1e-13, atol=1e-13 * max(1.0, np.abs(b.full()).max(initial=0.0)))
