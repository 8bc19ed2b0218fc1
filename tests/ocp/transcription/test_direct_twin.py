"""The assembled program against a twin in plain loops that is differentiated as a whole: several phases, everything at once."""

from __future__ import annotations

import casadi as ca
import direct_twin
import numpy as np
import pytest
from nlp_programs import with_functions

from ocp.transcription import blocks
from ocp.transcription.collocation import CollocationOptions
from ocp.transcription.collocation import transcribe as collocation
from ocp.transcription.mesh import Grid, Mesh
from ocp.transcription.multiple_shooting import MultipleShootingOptions
from ocp.transcription.multiple_shooting import transcribe as shooting
from ocp.transcription.schemes import make_scheme

PROBLEM = direct_twin.rich()


def compare(nlp, twin, seed, close=1e-9):
    rng = np.random.default_rng(seed)
    for _ in range(2):
        z, y, s = 0.6 * rng.normal(size=nlp.n), rng.normal(size=nlp.m), rng.normal()
        z[-3:] = 1.0 + rng.uniform(size=3)  # durations and a parameter
        f, g, gradient, jacobian, hessian, gauss = (v.full() for v in twin(z, s, y))
        found = {"f": (nlp.f(z), f), "g": (nlp.g(z), g), "gradient": (nlp.grad(z)[1], gradient), "f with it": (nlp.grad(z)[0], f),
                 "jacobian": (nlp.jac(z)[1], jacobian), "g with it": (nlp.jac(z)[0], g), "hessian": (nlp.hess(z, s, y), hessian)}
        if nlp.gauss_newton is not None:
            found["gauss_newton"] = (nlp.gauss_newton(z, s), s * gauss)
        for name, (one, other) in found.items():
            np.testing.assert_allclose(one.full(), other, atol=close * max(1, np.abs(other).max()), err_msg=name)
    assert np.abs(hessian).max() > 1


def meshes(shapes, rotate=0):
    """Intervals of several schemes, degrees and widths; the neighbours share controls, or do not."""
    g, r, s, w = make_scheme("gauss", 2), make_scheme("radau", 3), make_scheme("radau_left", 2), make_scheme("lobatto", 4)
    d, e, h, z = (make_scheme("gauss", 3, "differential"), make_scheme("radau", 2, "differential"), make_scheme("hermite_simpson"),
                  make_scheme("trapezoid"))
    left = make_scheme("radau_left", 3, "differential")
    sets = [((0, 0.2, 0.5, 1), (g, r, w)), ((0, 0.3, 0.4, 0.8, 1), (s, h, z, e)), ((0, 0.6, 0.9, 1), (d, w, left))]
    sets = sets[rotate:] + sets[:rotate]
    return [Mesh(np.array(edges, dtype=float), schemes, shape) for (edges, schemes), shape in zip(sets, shapes, strict=True)]


@pytest.mark.parametrize("rotate", [0, 1, 2])
@pytest.mark.parametrize("shapes", [("polynomial", "held", "linear"), ("held", "linear", "polynomial"),
                                    ("linear", "polynomial", "held")], ids="-".join)
@pytest.mark.sample(3)
def test_collocation_equals_its_twin(shapes, rotate):
    options = CollocationOptions(kernels="interpreted", hessian="gauss_newton")
    program = collocation(PROBLEM, options, meshes(shapes, rotate))
    compare(program.nlp, direct_twin.collocation(program, PROBLEM), 7 + rotate)
    assert len(set(program.nlp.constraints)) == program.nlp.m
    assert len(set(program.nlp.variables)) == program.nlp.n


def test_mapped_functions_equal_flat_ones(monkeypatch):
    options, own = CollocationOptions(kernels="interpreted"), meshes(("polynomial", "held", "linear"))
    monkeypatch.setattr(blocks, "FLAT_BELOW", 0)
    program = collocation(PROBLEM, options, own)
    assert not program.nlp.hess.is_a("SXFunction")
    compare(program.nlp, direct_twin.collocation(program, PROBLEM), 11)


@pytest.mark.parametrize(("integrator", "steps", "linear"), [
    ("rk4", 1, False), ("rk4", 3, True), ("semi_implicit_euler", 1, True), ("semi_implicit_euler", 3, False),
    ("gauss_legendre_1", 1, False), ("gauss_legendre_1", 1, True), ("gauss_legendre_1", 3, False)])
@pytest.mark.sample(3)
def test_shooting_equals_its_twin(integrator, steps, linear):
    edges = ((0, 0.3, 1), (0, 0.1, 0.4, 1), (0, 0.7, 1))
    grids = [Grid(np.array(own, dtype=float), integrator, steps, linear) for own in edges]
    program = shooting(PROBLEM, MultipleShootingOptions(kernels="interpreted"), grids)
    compare(program.nlp, direct_twin.shooting(program, PROBLEM), 5, close=1e-8)
    assert len(set(program.nlp.constraints)) == program.nlp.m


def test_collocation_and_shooting_may_stand_side_by_side():
    """Phases of one program on a mesh, a grid and a mesh: only the rows of each differ from those of the pure programs."""
    mixed = [meshes(("polynomial",) * 3)[0], Grid(np.array([0, 0.3, 0.4, 0.8, 1]), "rk4", 2, False), meshes(("polynomial",) * 3)[2]]
    program = collocation(PROBLEM, CollocationOptions(kernels="interpreted"), mixed)
    pure = [collocation(PROBLEM, CollocationOptions(kernels="interpreted"), meshes(("polynomial",) * 3)),
            shooting(PROBLEM, MultipleShootingOptions(kernels="interpreted"), [mixed[1]] * 3)]
    rng = np.random.default_rng(4)
    value = {name: rng.uniform(0.5, 1.5) for one in (program, *pure) for name in one.nlp.variables}
    rows = [dict(zip(one.nlp.constraints, one.nlp.g(np.array([value[v] for v in one.nlp.variables])).full().ravel(), strict=True))
            for one in (program, *pure)]
    for name, found in rows[0].items():
        source = rows[2] if name.startswith("two: ") else rows[1]
        assert found == pytest.approx(source[name], rel=1e-12), name


def test_bounds_of_rows_and_columns():
    nlp = collocation(PROBLEM, CollocationOptions(), meshes(("polynomial", "held", "linear"))).nlp
    row = {name: (low, high) for name, low, high in zip(nlp.constraints, nlp.g_lower, nlp.g_upper, strict=True)}
    inf = np.inf
    for name, bounds in (("one: tube[0] @ node 1 of interval 0", (-1, 1)), ("one: tube[1] @ knot 3", (-2, inf)),
                         ("one: lid @ knot 0", (-inf, 4)), ("one: cone (cone) @ knot 3", (0, inf)),
                         ("one: fuel @ whole phase", (2, 2)),
                         ("one: dose[0] @ whole phase", (-1, inf)), ("one: dose[1] @ whole phase", (-inf, 2)),
                         ("one: launch @ start", (0.5, 0.5)), ("one: land @ final", (-1, 2)), ("one to two v @ passage", (0, 0)),
                         ("cycle[0] @ linkage", (0, 0)), ("cycle[1] @ linkage", (-1, inf)), ("order @ linkage", (-inf, 5))):
        assert row[name] == bounds, name
    assert all(bounds == (0, 0) for name, bounds in row.items() if "defect" in name)
    assert row["one: tube[0] @ knot 0"] == (-1, 1)  # Gauss: the control is extrapolated there
    column = {name: (low, high) for name, low, high in zip(nlp.variables, nlp.x_lower, nlp.x_upper, strict=True)}
    for name, bounds in (("one: x.q1 @ knot 0", (0.1, 0.1)), ("one: x.q2 @ knot 0", (-inf, inf)), ("one: x.v1 @ knot 0", (0, 0)),
                         ("one: x.v2 @ knot 1", (-inf, 9)), ("one: u.w @ node 2 of interval 0", (-6, inf)),
                         ("three: x.v @ knot 3", (0.5, 0.5)), ("two: u.f @ knot 1", (-inf, 7)), ("one: duration", (0.5, 3)),
                         ("two: duration", (0.3, 2)), ("p.gain", (0.1, 3))):
        assert column[name] == bounds, name
    guess = dict(zip(nlp.variables, nlp.x0, strict=True))
    assert (guess["one: duration"], guess["p.gain"], guess["two: x.q @ knot 4"]) == (1.2, 0.7, 1.0)


def test_the_twin_would_notice():
    """A hundredth more of one row of one interval's derivative is seen."""
    program = collocation(PROBLEM, CollocationOptions(kernels="interpreted"), meshes(("polynomial", "held", "linear")))
    nlp, x = program.nlp, ca.MX.sym("x", program.nlp.n)
    twin = direct_twin.collocation(program, PROBLEM)
    scale = np.ones(nlp.m)
    scale[nlp.constraints.index("two: defect v @ interval 2")] = 1.01
    wrong = ca.Function("wrong", [x], [nlp.g(x), ca.diag(ca.DM(scale)) @ nlp.jac(x)[1]])
    with pytest.raises(AssertionError, match="jacobian"):
        compare(with_functions(nlp, jac=wrong), twin, 7)
