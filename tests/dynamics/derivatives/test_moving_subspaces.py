"""Closed forms and loops for joints whose S moves in its own coordinates, and wrenches on welded bodies, by other roads."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise

import casadi as ca
import numpy as np
import pytest
from joint_examples import TEST_KINDS, teach, tree_of_kinds
from loop_references import close, first_derivatives, hessians, mixed_tree, state

import dynamics
from dynamics import algorithms as alg
from dynamics.derivatives.complex_step import complex_step_jacobian
from dynamics.derivatives.inverse_contracted import contracted_inverse_dynamics
from dynamics.derivatives.inverse_first import inverse_dynamics_and_mass, inverse_dynamics_partials
from dynamics.derivatives.inverse_second import dense
from dynamics.derivatives.manifold import structure_constants
from dynamics.derivatives.second_order import (
    forward_dynamics_hessian,
    inverse_dynamics_hessian,
    inverse_dynamics_second_derivatives,
)
from dynamics.loops import LoopDynamics
from dynamics.model import Mimic

TREES = {
    "bead behind six": ("revolute",) * 6 + ("bead",), "bead inside": ("revolute", "bead", "revolute"), "cam": ("cam", "spherical"),
    "surface": ("surface", "revolute"), "curved manifold": ("wobble", "revolute"), "root and tip": ("wobble", "fixed", "cam"),
    "curve": ("spline_curve", "fixed", "spline_curve"), "composite": ("composite", "cam"),
    "chains": ("screw", "euler", "translation"),
    "all": ("spline_curve", "planar_translation", "wobble", "universal", "surface", "fixed"), "only": ("surface",),
    "follower": ("revolute", "cam", "spherical", "spline_curve"), "far apart": ("cam", *("revolute",) * 8, "surface"),
}


@pytest.fixture(autouse=True)
def _kinds(monkeypatch):
    teach(monkeypatch)


@cache
def model_of(name):
    model = tree_of_kinds(*TREES[name], seed=len(name), branching=0.0 if name == "far apart" else 0.3)
    if name == "follower":  # of two general joints, one backwards
        follow = {1: Mimic("j0", 0.7, 0.1), 3: Mimic("j0", -0.4, 0.9)}
        model = replace(model, bodies=tuple(replace(b, joint=replace(b.joint, mimic=follow.get(i))) for i, b in
                                            enumerate(model.bodies)))
    return model


@cache
def references(name):
    """Loops, state, wrenches on every body, and what differentiation of the recursions gives with them."""
    model = model_of(name)
    q, v, a, lam, _ = state(model, 5)
    rng = np.random.default_rng(8)
    wrenches = {b.name: 3 * rng.standard_normal(6) for b in model.bodies}
    symbols = {k: ca.DM(w) for k, w in wrenches.items()}
    first, second = first_derivatives(model, alg.inverse_dynamics, symbols), hessians(model, alg.inverse_dynamics, symbols)
    return LoopDynamics(model), (q, v, a, lam), wrenches, [np.array(x) for x in first(q, v, a)], \
        [np.array(x) for x in second(q, v, a, lam)]


def evaluated(results, symbols, values):
    return [np.array(x) for x in ca.Function("f", symbols, [ca.densify(ca.SX(x)) for x in results]).call(values)]


@pytest.mark.row("002:H18", "002:H20")
@pytest.mark.parametrize("name", TREES)
def test_closed_forms(name):
    model, (_, x, wrenches, first, second) = model_of(name), references(name)
    symbols = [ca.SX.sym("x", len(y)) for y in x]
    tau, *partials = evaluated(inverse_dynamics_partials(model, *symbols[:3], wrenches), symbols, x)
    for ours, theirs in zip(partials, first, strict=True):
        close(ours, theirs)
    gq, gv, ga, qq, qv, vv, qa = evaluated(contracted_inverse_dynamics(model, *symbols, wrenches), symbols, x)
    for ours, theirs in zip((gq, gv, ga), partials, strict=True):
        close(ours.ravel(), theirs.T @ x[3])
    for ours, theirs in zip(((qq + qq.T) / 2, qv.T, vv, qa.T), second, strict=True):
        close(ours, theirs)
    # the order of differentiation is that of the manifold
    close(qq - qq.T, -np.einsum("l,ljk->jk", gq.ravel(), structure_constants(model)))
    close(evaluated(inverse_dynamics_and_mass(model, *symbols[:3], wrenches), symbols, x)[0], tau)


@pytest.mark.row("002:H18", "002:H20")
@pytest.mark.parametrize("name", TREES)
def test_loops(name):
    model, (loops, (q, v, a, lam), wrenches, first, second) = model_of(name), references(name)
    symbols = {k: ca.DM(w) for k, w in wrenches.items()}
    tau = np.array(alg.inverse_dynamics(model, q, v, a, symbols)).ravel()
    close(loops.inverse_dynamics(q, v, a, wrenches), tau)
    close(loops.mass_matrix(q), first[2])
    close(loops.forward_dynamics(q, v, tau, wrenches), a, 1e-10)
    for ours, theirs in zip(loops.inverse_dynamics_derivatives(q, v, a, wrenches), first, strict=True):
        close(ours, theirs)
    for ours, theirs in zip(loops.contracted_second_order(q, v, a, lam, wrenches), second, strict=True):
        close(ours, theirs)
    raw = loops.contracted_second_order(q, v, a, lam, wrenches, symmetric=False)[0]
    close(raw - raw.T, -np.einsum("l,ljk->jk", lam @ first[0], structure_constants(model)))
    close(np.einsum("i,ikrc->krc", lam, loops.second_order(q, v, a, wrenches)), second)


@pytest.mark.row("002:H20")
@pytest.mark.parametrize("name", ["cam", "curved manifold", "bead behind six", "follower"])
def test_forward_dynamics(name):
    model = model_of(name)
    q, v, tau, mu, _ = state(model, 15)
    theirs = [np.array(x) for x in hessians(model, alg.forward_dynamics)(q, v, tau, mu)]
    _, _, _, qq, qv, vv, qtau = (np.array(x) for x in forward_dynamics_hessian(model)(q, v, tau, mu))
    for ours, x in zip(((qq + qq.T) / 2, qv.T, vv, qtau.T), theirs, strict=True):
        close(ours, x, 1e-10)
    a, first, second = LoopDynamics(model).forward_contracted_second_order(q, v, tau, mu)
    close(a, np.array(dynamics.make(model, "forward_dynamics")(q, v, tau)).ravel(), 1e-10)
    for ours, x in zip(first, first_derivatives(model, alg.forward_dynamics)(q, v, tau), strict=True):
        close(ours, x, 1e-10)
    for ours, x in zip(second, theirs, strict=True):
        close(ours, x, 1e-10)


@pytest.mark.row("002:H20")
@pytest.mark.parametrize("name", ["surface", "curved manifold", "composite"])
def test_by_complex_steps_and_nested_differences(name):
    """Roads that know no derivative rule: complex steps for the first order; a step along k, then one along j, for the second."""
    model = model_of(name)
    q, v, a, lam, _ = state(model, 25)
    d, x = ca.SX.sym("d", model.nv), ca.SX.sym("q", model.nq)
    f = ca.Function("f", [x, d], [ca.dot(lam, alg.inverse_dynamics(model, alg.integrate(model, x, d), v, a))])
    gq, _, _, qq, *_ = (np.array(y) for y in inverse_dynamics_hessian(model)(q, v, a, lam))
    jet = ca.Function("f", [x, d], [ca.dot(lam, alg.inverse_dynamics(model, alg.jet(model, x, d), v, a))])
    close(np.array(complex_step_jacobian(jet, 1)(q, np.zeros(model.nv))).ravel(), gq.ravel())
    move, h, unit = dynamics.make(model, "integrate"), 1e-3, np.eye(model.nv)
    numeric = np.array([[sum(s * t * float(f(move(q, s * h * unit[k]), t * h * unit[j])) for s in (1, -1) for t in (1, -1))
                         for k in range(model.nv)] for j in range(model.nv)]) / (4 * h * h)
    np.testing.assert_allclose(qq, numeric, atol=2e-5 * np.abs(qq).max())
    if name != "surface":
        assert np.abs(qq - qq.T).max() > 1e-2  # and the order is visible


@pytest.mark.row("002:H20")
@pytest.mark.parametrize("name", ["cam", pytest.param("curved manifold", marks=pytest.mark.slow), "follower"])
def test_tensors(name):
    model = model_of(name)
    q, v, a, lam, _ = state(model, 35)
    _, _, _, qq, qv, vv, qa = (np.array(x) for x in inverse_dynamics_hessian(model)(q, v, a, lam))
    slices = [dense(T, model.nv) for T in inverse_dynamics_second_derivatives(model)(q, v, a)]
    tensors = [np.einsum("i,ijk->jk", lam, T) for T in slices]
    for ours, theirs in zip(tensors, (qq, vv, qv, qa.T), strict=True):
        close(ours, theirs)
    full = LoopDynamics(model).second_order(q, v, a, symmetric=False)
    for k, T in ((0, 0), (2, 1), (3, 3)):
        close(full[:, k], slices[T])


@pytest.mark.row("002:H18")
def test_wrenches_on_welded_bodies_in_second_order_tensors():
    """A wrench on a body welded below a moving joint, turned and moved against it, in every form of the second order."""
    from dynamics.derivatives.inverse_second import inverse_dynamics_second_partials

    for kinds in (("revolute", "spherical", "fixed", "prismatic", "fixed"), ("universal", "revolute", "fixed", "fixed")):
        model = tree_of_kinds(*kinds, seed=4, branching=0.0)
        q, v, a, lam, _ = state(model, 45)
        rng = np.random.default_rng(46)
        for above, body in ((a, b) for a, b in pairwise(model.bodies) if b.joint.kind == "fixed"):
            f_ext = {body.name: 20 * rng.standard_normal(6)}
            x = [ca.SX.sym("x", len(y)) for y in (q, v, a)]
            tensors = evaluated(inverse_dynamics_second_partials(model, *x, f_ext), x, (q, v, a))
            ours = [np.einsum("i,ijk->jk", lam, dense(T, model.nv)) for T in tensors]
            theirs = [np.array(y) for y in hessians(model, alg.inverse_dynamics, {k: ca.DM(w) for k, w in f_ext.items()})(
                q, v, a, lam)]
            close((ours[0] + ours[0].T) / 2, theirs[0])
            close(ours[1], theirs[2])
            close(ours[2].T, theirs[1])
            close(ours[3], theirs[3])
            loops = LoopDynamics(model)
            for mine, y in zip(np.einsum("i,ikrc->krc", lam, loops.second_order(q, v, a, f_ext)), theirs, strict=True):
                close(mine, y)
            # the wrench matters, and where it acts matters
            assert np.abs(loops.second_order(q, v, a, f_ext)[:, 0] - loops.second_order(q, v, a)[:, 0]).max() > 1e-2
            elsewhere = {above.name: f_ext[body.name]}
            assert np.abs(loops.second_order(q, v, a, f_ext)[:, 0] - loops.second_order(q, v, a, elsewhere)[:, 0]).max() > 1e-2


# ------------------------------------------------------------------------------------------------ the machinery of the loops
def test_records_of_one_robot_do_not_share_memory_and_survive_each_other():
    model = model_of("all")
    q, v, a, lam, mu = state(model, 55)
    one, two = LoopDynamics(model), LoopDynamics(model)
    expected = one.inverse_dynamics(q, v, a)
    tables = two.tables
    assert tables.integers is not one.tables.integers
    two.inverse_dynamics(q + 0.1, lam, mu)
    np.testing.assert_array_equal(one.inverse_dynamics(q, v, a), expected)
    integers, reals, work = one.tables.integers, one.tables.reals, one.tables.workspace()
    del one, tables
    from dynamics.loops import rnea

    out = np.zeros(model.nv)  # the functions live as long as the table, whoever else is gone
    rnea.inverse_dynamics(integers, reals, work, q, v, a, np.zeros((0, 6)), out)
    np.testing.assert_array_equal(out, expected)


def any_joints(name):
    """A tree of joints whose subspace stands still in the body, or one of those above."""
    return mixed_tree(9, 2) if name == "constant" else model_of(name)


@pytest.mark.parametrize("name", ["constant", "curve"])
def test_one_workspace_serves_all_methods_in_any_order(name):
    model = any_joints(name)
    q, v, a, lam, _ = state(model, 65)
    shared, calls = LoopDynamics(model), {
        "inverse_dynamics": (q, v, a), "second_order": (q, v, a), "forward_dynamics_derivatives": (q, v, a),
        "contracted_second_order": (q, v, a, lam), "inverse_dynamics_derivatives": (q, v, a), "mass_matrix": (q,),
        "forward_contracted_second_order": (q, v, a, lam), "forward_dynamics": (q, v, a)}
    fresh = {name: getattr(LoopDynamics(model), name)(*args) for name, args in calls.items()}
    for name in [*calls, *reversed(list(calls))]:
        ours, theirs = getattr(shared, name)(*calls[name]), fresh[name]
        ours, theirs = (x if isinstance(x, tuple) else (x,) for x in (ours, theirs))
        for x, y in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(x, y, err_msg=name)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("name", ["constant", "surface"])
def test_bad_numbers_are_not_hidden_and_do_not_stay(name, which, bad):
    model = any_joints(name)
    arguments = list(state(model, 75)[:3])
    loops = LoopDynamics(model)
    good = loops.inverse_dynamics(*arguments), loops.forward_dynamics_derivatives(*arguments)[1]
    spoilt = [x.copy() for x in arguments]
    spoilt[which][0] = bad
    assert not np.isfinite(loops.inverse_dynamics(*spoilt)).all()
    assert not np.isfinite(loops.forward_dynamics_derivatives(*spoilt)[1]).all() or which == 2
    assert not np.isfinite(loops.forward_dynamics(*spoilt)).all()
    np.testing.assert_array_equal(loops.inverse_dynamics(*arguments), good[0])
    np.testing.assert_array_equal(loops.forward_dynamics_derivatives(*arguments)[1], good[1])


def test_another_curve_gives_another_answer(monkeypatch):
    """Poison: one bias with the wrong sign changes inverse dynamics; the closed forms read the record and nothing else."""
    model = model_of("bead inside")
    q, v, a, lam, _ = (10 * x for x in state(model, 85))
    right = inverse_dynamics_hessian(model)(q, v, a, lam)
    family = TEST_KINDS["bead"]
    wrong = replace(family, make=lambda joint: _poisoned(family.make(joint)), name="poisoned")
    monkeypatch.setattr(dynamics.joints, "KINDS", {**dynamics.joints.KINDS, "poisoned": wrong})
    spoilt = replace(model, bodies=tuple(replace(b, joint=replace(b.joint, kind="poisoned")) if b.joint.kind == "bead" else b
                                         for b in model.bodies))
    theirs = inverse_dynamics_hessian(spoilt)(q, v, a, lam)
    assert np.abs(np.array(right[4] - theirs[4])).max() > 1e-2
    assert np.abs(LoopDynamics(model).inverse_dynamics(q, v, a) - LoopDynamics(spoilt).inverse_dynamics(q, v, a)).max() > 1e-2


def _poisoned(record):
    return replace(record, bias=lambda q, v: -record.bias(q, v))
