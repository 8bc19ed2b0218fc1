"""Operation counts over the number of joints and the depth of the tree, and the regular trees that they are taken on.

Counts are instructions of generated code: they do not depend on the machine. On serial chains they are polynomials up to single
instructions, because every body adds the same work per joint (or pair of joints) above it: finite differences show the degree.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import dynamics
from dynamics.derivatives.candidates import candidate
from dynamics.model.synthetic import branched_tree, star_tree


@cache
def count(quantity, bodies, branching=1, length=0, source="analytic"):
    """Instructions on a branched tree, or on a star with arms of ``length`` (a 1 + bodies tree)."""
    model = star_tree(bodies // length, length) if length else branched_tree(bodies, branching)
    if quantity in ("inverse_dynamics", "mass_matrix", "forward_dynamics"):
        return dynamics.make(model, quantity).n_instructions()
    return candidate(model, quantity, source).build().n_instructions()


def parents(model):
    return [body.parent for body in model.bodies]


def depths(model):
    out = []
    for parent in parents(model):
        out.append(1 + (out[parent] if parent >= 0 else 0))
    return np.array(out)


# ------------------------------------------------------------------------------------------------ the trees
def test_regular_trees():
    assert parents(branched_tree(5, 1)) == [-1, 0, 1, 2, 3]
    assert parents(branched_tree(8, 2)) == [-1, 0, 0, 1, 1, 2, 2, 3]
    assert parents(branched_tree(7, 5)) == [-1, 0, 0, 0, 0, 0, 1]
    assert parents(star_tree(3, 2)) == [-1, 0, 1, 0, 3, 0, 5]
    assert parents(star_tree(0, 4)) == parents(star_tree(4, 0)) == [-1]
    for model, size in ((branched_tree(13, 3), 13), (star_tree(4, 3), 13)):
        assert model.nq == model.nv == size
        assert {body.joint.kind for body in model.bodies} == {"revolute"}
        assert len({(body.parent, body.joint.placement.rotation) for body in model.bodies}) == size  # no siblings coincide
        for body in model.bodies:  # every axis leans sixty degrees from its parent's
            assert body.joint.placement.rotation[2][2] == pytest.approx(0.5)
    for wrong in ((0, 2), (3, 0)):
        with pytest.raises(ValueError, match="positive number of bodies and of branches"):
            branched_tree(*wrong)
    with pytest.raises(ValueError, match="cannot be negative"):
        star_tree(-1, 2)


# ------------------------------------------------------------------------------------------------ growth on chains
@pytest.mark.row("002:H11")
@pytest.mark.parametrize("quantity", ["inverse_dynamics", "forward_dynamics"])
def test_recursions_are_exactly_linear(quantity):
    counts = np.array([count(quantity, n) for n in range(3, 9)])
    assert counts[0] > 0
    assert set(np.diff(counts)) == {counts[1] - counts[0]}


@pytest.mark.row("002:H11")
@pytest.mark.parametrize(("quantity", "degree", "sizes"), [
    ("mass_matrix", 2, range(5, 11)), ("inverse_first", 2, range(5, 11)), ("inverse_contracted", 2, range(5, 11)),
    ("inverse_second", 3, range(4, 9))])
def test_derivatives_are_polynomials_of_the_depth(quantity, degree, sizes):
    """Differences of the order of the degree are constant and positive; those above are a few instructions."""
    counts = np.array([count(quantity, n) for n in sizes])
    leading = np.diff(counts, degree)
    assert leading.min() > 0
    assert np.ptp(leading) <= 0.07 * leading.mean()
    assert np.abs(np.diff(counts, degree + 1)).max() <= 10


@pytest.mark.row("002:H11")
@pytest.mark.parametrize(("quantity", "sizes", "least", "most"), [
    # theory 1, 1, 2, 2, 3: reached from above by what is linear less a constant, from below by what has a linear part as well
    ("inverse_dynamics", (15, 30), 0.99, 1.1), ("forward_dynamics", (15, 30), 0.99, 1.1),
    ("inverse_first", (10, 20), 1.55, 2.05), ("inverse_contracted", (10, 20), 1.55, 2.05),
    ("inverse_second", (4, 8), 2.2, 3.05)])
def test_exponents_on_chains(quantity, sizes, least, most):
    exponent = np.log(count(quantity, sizes[1]) / count(quantity, sizes[0])) / np.log(sizes[1] / sizes[0])
    assert least < exponent < most


# ------------------------------------------------------------------------------------------------ growth on trees
@pytest.mark.row("002:H11")
@pytest.mark.parametrize("quantity", ["inverse_dynamics", "inverse_contracted", "inverse_second"])
def test_bushy_trees_are_almost_linear(quantity):
    """Depth log N: N log N, whose exponent over these sizes is 1 + 1 / log N or so, and N log^2 N."""
    exponent = np.log(count(quantity, 21, 5) / count(quantity, 11, 5)) / np.log(21 / 11)
    levels = {n: depths(branched_tree(n, 5)) for n in (11, 21)}
    power = {"inverse_dynamics": 0, "inverse_contracted": 1, "inverse_second": 2}[quantity]
    work = {n: np.sum(d.astype(float)**power) for n, d in levels.items()}
    theory = np.log(work[21] / work[11]) / np.log(21 / 11)
    assert exponent == pytest.approx(theory, abs=0.2)  # the root and its children cost less than the rest


@pytest.mark.row("002:H11")
@pytest.mark.parametrize(("quantity", "power"), [("inverse_contracted", 1), ("inverse_second", 2)])
def test_one_law_for_all_shapes(quantity, power):
    """c0 N + c1 sum(d) + ... + cp sum(d^p) fits stars, bushes and chains within a tenth: O(N d^p), nothing more."""
    models = [(7, 1, 0), (9, 1, 0), (9, 2, 0), (9, 5, 0), (8, 1, 2), (8, 1, 4)]
    rows, counts = [], []
    for bodies, branching, length in models:
        model = star_tree(bodies // length, length) if length else branched_tree(bodies, branching)
        d = depths(model).astype(float)
        rows.append([np.sum(d**p) for p in range(power + 1)])
        counts.append(count(quantity, bodies, branching, length))
    A, b = np.array(rows), np.array(counts, float)
    weights = np.linalg.lstsq(A / b[:, None], np.ones(len(b)), rcond=None)[0]
    assert np.abs(A @ weights / b - 1).max() < 0.1
    assert weights[-1] > 0


@pytest.mark.row("002:H11")
@pytest.mark.parametrize("quantity", ["inverse_first", "inverse_contracted", "inverse_second"])
def test_differentiation_grows_faster_than_the_closed_form_on_chains(quantity):
    ratios = [count(quantity, n, source="ad_sx") / count(quantity, n) for n in (2, 4, 6)]
    assert 1.3 < ratios[0] < ratios[1] < ratios[2]


# ------------------------------------------------------------------------------------------------ differentiation
@pytest.mark.row("002:H24")
@pytest.mark.slow
def test_the_lead_of_the_closed_form_grows_with_depth():
    """Machine-independent part of the comparison over N: instructions of differentiated code over those of the closed form."""
    def lead(quantity, bodies, branching):
        return count(quantity, bodies, branching, source="ad_sx") / count(quantity, bodies, branching)

    for quantity in ("inverse_first", "inverse_contracted"):
        chain = [lead(quantity, n, 1) for n in (3, 6, 12)]
        assert 0.8 < chain[0] < chain[1] < chain[2]
        assert chain[2] > 1.2 * lead(quantity, 12, 5)  # a shallow bushy tree has little depth to use
    assert count("inverse_second", 8, 1, source="ad_of_analytic") > 2 * count("inverse_second", 8, 1)


@pytest.mark.row("002:H22", "002:H24")
def test_dense_outputs_of_bushy_trees_are_nearly_all_zeros():
    """What both programs write when outputs are filled with zeros hides what they compute: the crossover of dense tensors."""
    tensors = candidate(branched_tree(15, 5), "inverse_second", "analytic")
    nonzeros, entries = (sum(tensors.build(dense=d).nnz_out(k) for k in range(4)) for d in (False, True))
    assert entries == 4 * 15**3
    assert nonzeros < 0.1 * entries
