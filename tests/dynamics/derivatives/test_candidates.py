"""Every quantity by every road: tensor form, recursion, contraction, differentiated graphs, loops and complex steps agree."""

from __future__ import annotations

from functools import cache

import casadi as ca
import complex_dynamics as cd
import numpy as np
import pytest
import tensor_form
from row_trees import coupled, tree_of

from dynamics import algorithms as alg
from dynamics.constraints import Coupling, PointContact
from dynamics.derivatives.candidates import CONSTRAINED, QUANTITIES, SOURCES, candidate, candidates, interpreted
from dynamics.errors import ModelError, UnknownNameError
from dynamics.model.synthetic import random_tree, serial_chain

# of the largest entry; forward dynamics multiplies errors by the condition number of M (about 1e3 here)
EXACT, FORWARD, DIFFERENCES, FORWARD_DIFFERENCES = 1e-12, 1e-11, 1e-8, 1e-6

TREES = {
    "free root": lambda: random_tree(3, np.random.default_rng(3), kinds=("prismatic", "revolute"), root="free_flyer", damping=True,
                                     branching=1.0),
    "free joint inside": lambda: tree_of("revolute", "free_flyer", seed=1),
    "planar and continuous": lambda: tree_of("planar", "continuous", "spherical", seed=2, branching=1.0),
    "chain": lambda: serial_chain(3),
}
SPLIT = {
    "mimic joints": coupled,
    "universal and fixed": lambda: tree_of("universal", "fixed", "universal", "fixed", seed=4, branching=0.5),
}
# the graphs that take longest to make are made for these only
LARGE = {"forward_second": ("planar and continuous", "chain"), "inverse_second": tuple(TREES),
         "forward_contracted": ("free joint inside", "chain", "universal and fixed")}


@cache
def robot(name):
    model = {**TREES, **SPLIT}[name]()
    rng = np.random.default_rng(11)
    q = alg.random_configuration(model, rng)
    return model, (q, *rng.standard_normal((3, model.nv)))


@cache
def by(name, quantity, source):
    model, x = robot(name)
    return candidate(model, quantity, source).evaluator()(*x[:len(QUANTITIES[quantity].inputs)])


def close(ours, theirs, tolerance):
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * max(1.0, np.abs(theirs).max(initial=0.0)))


def tolerance(quantity, source):
    if QUANTITIES[quantity].inverse:
        return DIFFERENCES if source == "fd" else EXACT
    return FORWARD_DIFFERENCES if source == "fd" else FORWARD


# ------------------------------------------------------------------------------------------------ agreement
def rows(quantity):
    return {"inverse_second": [pytest.mark.row("002:H10"), pytest.mark.row("002:H23")],
            "inverse_contracted": [pytest.mark.row("002:H14"), pytest.mark.row("002:H23")],
            "inverse_first": [pytest.mark.row("002:H05"), pytest.mark.row("002:H23")],
            "forward_first": [pytest.mark.row("002:H15")], "forward_second": [pytest.mark.row("002:H16")],
            "forward_contracted": [pytest.mark.row("002:H17")]}.get(quantity, [])


@pytest.mark.parametrize(("quantity", "name"), [
    pytest.param(quantity, name, marks=rows(quantity)) for quantity in QUANTITIES for name in (*TREES, *SPLIT)
    if quantity not in LARGE or name in LARGE[quantity]])
@pytest.mark.sample(4)
def test_all_methods_give_the_same_numbers(quantity, name):
    model, _ = robot(name)
    roads = [c.source for c in candidates(model, quantity) if not c.reason]
    assert len(roads) == {0: 2, 1: 6, 2: 7}[QUANTITIES[quantity].order]
    reference = by(name, quantity, "analytic")
    assert max(np.abs(x).max() for x in reference) > 1e-2
    for source in roads:
        for ours, theirs in zip(by(name, quantity, source), reference, strict=True):
            close(ours, theirs, tolerance(quantity, source))


@pytest.mark.row("002:H10", "002:H14", "002:H23")
@pytest.mark.parametrize("name", TREES)
def test_five_ways_to_the_second_derivatives(name):
    """The appendix in tensor form and complex steps of plain NumPy dynamics, which share nothing with the roads, beside the
    recursion, the contraction, differentiation and complex steps of graphs."""
    model, (q, v, a, lam) = robot(name)
    n, tree = model.nv, cd.read(model, q)
    literal = tensor_form.tensors(tree, v, a)
    stepped = {"qq": cd.derivative_q(lambda t: cd.first_order(t, v, a)[0], tree),
               "vv": cd.derivative_x(lambda x: cd.first_order(tree, x, a)[1], v),
               "qv": cd.derivative_x(lambda x: cd.first_order(tree, x, a)[0], v),
               "Mq": cd.derivative_q(lambda t: cd.first_order(t, v, a)[2], tree)}
    for T in (literal, stepped):
        T["qq"] = (T["qq"] + T["qq"].swapaxes(1, 2)) / 2
    literal["qv"] = literal["vq"].swapaxes(1, 2)
    for source in ("analytic", "ad_sx", "ad_mx", "ad_of_analytic", "complex_step", "loop"):
        full = by(name, "inverse_second", source)
        contracted = dict(zip(("qq", "qv", "vv", "qa"), by(name, "inverse_contracted", source), strict=True))
        for T, output in zip(full, ("qq", "vv", "qv", "Mq"), strict=True):
            tensor = T.reshape(n, n, n, order="F")
            close(tensor, literal[output], EXACT)
            close(tensor, stepped[output], EXACT)
            weighted = np.einsum("i,ijk->jk", lam, tensor)
            close(contracted["qa"].T if output == "Mq" else contracted[output], weighted, EXACT)


@pytest.mark.parametrize("quantity", CONSTRAINED)
def test_all_methods_under_constraints_give_the_same_numbers(quantity):
    """A floating tree, a point held, two joints coupled; the algorithm differentiated shares nothing with the closed forms."""
    what, rng = CONSTRAINED[quantity], np.random.default_rng(3)
    model = random_tree(4, rng, kinds=("revolute", "prismatic"), root="free_flyer", branching=0.5)
    joints = [body.joint.name for body in model.bodies[1:]]
    held = PointContact("foot", "f2", ((0.1, 0.2, 0.3),)), Coupling("belt", ((joints[0], 1.0), (joints[2], 2.0)))
    x = {"q": alg.random_configuration(model, rng), "nu": rng.standard_normal(4)}
    x |= dict(zip(("v", "tau", "mu"), rng.standard_normal((3, model.nv)), strict=True))
    roads = [c for c in candidates(model, quantity, held) if not c.reason]
    assert len(roads) == {0: 2, 1: 5, 2: 6}[what.order] + (what.order > 0 and quantity.startswith("constrained"))
    found = {c.source: c.evaluator()(*(x[name] for name in what.inputs)) for c in roads}
    reference = found["ad_sx" if what.order else "loop"]
    assert [y.shape for y in reference] == [what.shape(roads[0].robot)] * len(what.outputs)
    for source, own in found.items():
        for ours, theirs in zip(own, reference, strict=True):
            close(ours, theirs, FORWARD_DIFFERENCES if source == "fd" else FORWARD)
    twice = (*held, Coupling("chain", ((joints[0], 2.0), (joints[2], 4.0))))
    assert ("not unique" in candidate(model, quantity, "analytic", twice).reason) == (what.family == "forces")


# ------------------------------------------------------------------------------------------------ the table and its entries
def test_every_source_appears_for_every_quantity_with_names_that_fit():
    model = serial_chain(2)
    for quantity, what in QUANTITIES.items():
        listed = candidates(model, quantity)
        assert [c.source for c in listed] == list(SOURCES)
        for c in listed:
            function = c.build()
            assert (function is None) == (bool(c.reason) or c.source == "loop") == (not c.symbolic)
            if function is not None:
                assert function.name_in() == list(what.inputs)
                assert function.name_out() == list(what.outputs)
                columns = 1 if what.order == 0 else model.nv**2 if what.tensor else model.nv
                assert {function.size_out(k) for k in range(function.n_out())} == {(model.nv, columns)}


@pytest.mark.row("002:H22")
@pytest.mark.parametrize(("quantity", "source"), [
    (quantity, source) for quantity in ("inverse_first", "inverse_contracted", "inverse_second")
    for source in ("ad_sx", "ad_of_analytic", "analytic") if (quantity, source) != ("inverse_first", "ad_of_analytic")])
def test_outputs_keep_the_zeros_of_the_tree_unless_dense(quantity, source):
    model = tree_of("planar", "spherical", "revolute", "prismatic", seed=5, branching=1.0)
    q, v, a, lam = alg.random_configuration(model, np.random.default_rng(0)), *np.ones((3, model.nv))
    tree, n = cd.read(model, q), model.nv
    related = np.zeros((n, n), bool)
    for i in range(len(tree.parents)):
        for j in tree.way(i):
            related[tree.columns[i], tree.columns[j]] = related[tree.columns[j], tree.columns[i]] = True
    assert related.mean() < 0.9
    one = candidate(model, quantity, source)
    sparse, dense = one.build(), one.build(dense=True)
    x = (q, v, a, lam)[:sparse.n_in()]
    for k in range(sparse.n_out()):
        r, c = (np.array(y, int) for y in sparse.sparsity_out(k).get_triplet())
        assert np.all(related[r, c % n] & related[r, c // n] & related[c % n, c // n] if QUANTITIES[quantity].tensor
                      else related[r, c])
        assert dense.sparsity_out(k).is_dense()
        np.testing.assert_array_equal(np.array(sparse.call(x)[k]), np.array(dense.call(x)[k]))


def test_unknown_names_and_missing_methods_are_reported():
    model, x = robot("chain")
    with pytest.raises(UnknownNameError, match="no quantity named 'inverse_frst'.*did you mean 'inverse_first'"):
        candidates(model, "inverse_frst")
    with pytest.raises(UnknownNameError, match="no quantity named 'forces_first'"):
        candidates(model, "forces_first")
    with pytest.raises(UnknownNameError, match="no derivative source named 'ad'"):
        candidate(model, "inverse_first", "ad")
    missing = candidate(model, "inverse_first", "ad_of_analytic")
    assert missing.build() is None
    with pytest.raises(ModelError, match="no inverse_first by 'ad_of_analytic': the closed form is itself of first order"):
        missing.evaluator()
    large = serial_chain(40)
    assert "million instructions" in candidate(large, "forward_second", "ad_sx").reason
    assert "million instructions" in candidate(large, "inverse_second", "ad_mx").reason
    assert not candidate(large, "inverse_second", "analytic").reason


def test_evaluators_check_their_arguments_and_return_new_arrays():
    model, (q, v, a, _) = robot("chain")
    run = candidate(model, "inverse_first", "analytic").evaluator()
    first = run(q, v, a)
    kept = [x.copy() for x in first]
    run(q + 1, v, a)
    for x, y in zip(first, kept, strict=True):
        np.testing.assert_array_equal(x, y)
    with pytest.raises(ModelError, match=r"takes 3 arguments \(q, v, a\), got 2"):
        run(q, v)
    with pytest.raises(ModelError, match=r"v has shape \(2,\), expected \(3,\)"):
        run(q, v[:2], a)
    assert np.isnan(run(q * np.nan, v, a)[0]).any()


def test_compiled_evaluators_give_the_same_numbers():
    model, (q, v, a, lam) = robot("chain")
    for quantity, x in (("inverse_dynamics", (q, v, a)), ("inverse_contracted", (q, v, a, lam))):
        for ours, theirs in zip(candidate(model, quantity, "analytic").evaluator(compiled=True)(*x),
                                by("chain", quantity, "loop"), strict=True):
            close(ours, theirs, EXACT)


def test_nothing_to_differentiate():
    model, none = tree_of("fixed"), np.zeros(0)
    for quantity, what in QUANTITIES.items():
        for c in candidates(model, quantity):
            if not c.reason:
                assert sum(x.size for x in c.evaluator()(*[none] * len(what.inputs))) == 0


def test_interpreted_places_sparse_entries():
    x = ca.SX.sym("x", 2)
    matrix = ca.SX(2, 3)
    matrix[1, 0], matrix[0, 2] = x[0], x[1] * 10
    out, = interpreted(ca.Function("f", [x], [matrix]))([1.0, 2.0])
    np.testing.assert_array_equal(out, [[0, 0, 20], [1, 0, 0]])
