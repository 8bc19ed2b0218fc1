"""Closed-form derivatives of inverse dynamics: tensor form, recursion, contraction, differentiation of the graph, complex steps."""

from dataclasses import replace
from functools import cache

import casadi as ca
import complex_dynamics as cd
import numpy as np
import pytest
import tensor_form
from row_trees import coupled, tree_of

from dynamics import algorithms as alg
from dynamics import derivatives as der
from dynamics.derivatives.inverse_contracted import contracted_inverse_dynamics
from dynamics.derivatives.inverse_first import inverse_dynamics_partials
from dynamics.derivatives.inverse_second import dense
from dynamics.derivatives.sweep import HUBS
from dynamics.errors import ModelError
from dynamics.joints import record
from dynamics.model.synthetic import random_tree

CONSTANT = ["revolute", "continuous", "prismatic", "spherical", "planar", "free_flyer"]
SEEDS = [0, 1, 2]
TOLERANCE = 1e-12


def close(a, b, tolerance=TOLERANCE):
    a, b = np.array(a), np.array(b)
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1.0, np.abs(b).max() if b.size else 1.0))


@cache
def case(seed):
    """A tree with every constant joint kind in it, a free joint at the root for even seeds and one inside always."""
    rng = np.random.default_rng(seed)
    base = tree_of("free_flyer" if seed % 2 == 0 else "revolute", *rng.permutation(CONSTANT).tolist(), seed=seed, branching=0.8)
    bodies = tuple(replace(b, joint=replace(b.joint, armature=tuple(rng.uniform(0, 0.1, record(b.joint).nv).tolist()),
                                            damping=tuple(rng.uniform(0, 1, record(b.joint).nv).tolist())))
                   for b in base.bodies)
    model = replace(base, bodies=bodies)
    q = alg.random_configuration(model, rng)
    v, a, lam = rng.standard_normal((3, model.nv))
    return model, q, v, a, lam


@cache
def oracle(seed):
    model, q, v, a, _ = case(seed)
    return cd.read(model, q)


@cache
def recursion(seed):
    model, q, v, a, _ = case(seed)
    out = der.inverse_dynamics_second_derivatives(model)(q, v, a)
    return dict(zip(("qq", "vv", "qv", "Mq"), (dense(x, model.nv) for x in out), strict=True))


@cache
def literal(seed):
    _, _, v, a, _ = case(seed)
    return tensor_form.tensors(oracle(seed), v, a)


# ------------------------------------------------------------------------------------------------ first order
@pytest.mark.row("002:H05")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("hubs", HUBS)
def test_first_order_against_complex_steps(seed, hubs):
    model, q, v, a, _ = case(seed)
    x, tree = [ca.SX.sym("x", len(y)) for y in (q, v, a)], oracle(seed)
    tau, *partials = ca.Function("f", x, list(inverse_dynamics_partials(model, *x, hubs=hubs)))(q, v, a)
    close(np.array(tau).ravel(), cd.rnea(tree, v, a))
    close(partials[0], cd.derivative_q(lambda t: cd.rnea(t, v, a), tree))
    close(partials[1], cd.derivative_x(lambda y: cd.rnea(tree, y, a), v))
    close(partials[2], cd.derivative_x(lambda y: cd.rnea(tree, v, y), a))


@pytest.mark.row("002:H05")
@pytest.mark.parametrize("seed", SEEDS)
def test_first_order_against_pinocchio(seed):
    pin = pytest.importorskip("pinocchio")
    import pinocchio_twin as twin

    # their algorithm wants the joints of every subtree to be neighbours in v
    rng = np.random.default_rng(seed)
    model = random_tree(8, rng, kinds=CONSTANT, depth_first=True)
    q, (v, a) = alg.random_configuration(model, rng), rng.standard_normal((2, model.nv))
    theirs = twin.build(model)
    data = theirs.createData()
    dq, dv, M = pin.computeRNEADerivatives(theirs, data, twin.configuration(model, q), v, a)
    for ours, reference in zip(der.inverse_dynamics_derivatives(model, "analytic")(q, v, a),
                               (dq, dv, np.triu(M) + np.triu(M, 1).T), strict=True):
        close(ours, reference)


@pytest.mark.row("002:H05")
def test_first_order_of_coupled_joints_and_split_joints_against_differentiation():
    for model in (coupled(), tree_of("free_flyer", "fixed", "universal", "fixed", "spherical", "universal", branching=0.3)):
        rng = np.random.default_rng(4)
        q, (v, a) = alg.random_configuration(model, rng), rng.standard_normal((2, model.nv))
        for ours, theirs in zip(*(der.inverse_dynamics_derivatives(model, s)(q, v, a) for s in ("analytic", "ad")), strict=True):
            close(ours, theirs)


# ------------------------------------------------------------------------------------------------ second order, in full
@pytest.mark.row("002:H10")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", [pytest.param("qq", marks=pytest.mark.row("002:H06")),
                                  pytest.param("vv", marks=pytest.mark.row("002:H07")),
                                  pytest.param("qv", marks=pytest.mark.row("002:H08")),
                                  pytest.param("Mq", marks=pytest.mark.row("002:H09"))])
def test_recursion_tensor_form_and_complex_steps_agree(seed, name):
    _, _, v, a, _ = case(seed)
    tree, ours, form = oracle(seed), recursion(seed)[name], literal(seed)
    stepped = {
        "qq": lambda: cd.derivative_q(lambda t: cd.first_order(t, v, a)[0], tree),
        "vv": lambda: cd.derivative_x(lambda x: cd.first_order(tree, x, a)[1], v),
        "qv": lambda: cd.derivative_x(lambda x: cd.first_order(tree, x, a)[0], v),
        "Mq": lambda: cd.derivative_q(lambda t: cd.first_order(t, v, a)[2], tree)}[name]()
    close(ours, stepped)
    close(np.swapaxes(form["vq"], 1, 2) if name == "qv" else form[name], stepped)
    if name == "qv":  # the two orders of differentiation commute
        close(np.swapaxes(ours, 1, 2), cd.derivative_q(lambda t: cd.first_order(t, v, a)[1], tree))


@pytest.mark.row("002:H06", "002:H07", "002:H08", "002:H09")
@pytest.mark.parametrize("seed", SEEDS)
def test_structural_identities(seed):
    model, q, v, a, _ = case(seed)
    T, c = recursion(seed), der.structure_constants(model)
    Q, V, M = (np.array(x) for x in der.inverse_dynamics_derivatives(model, "analytic")(q, v, a))
    joints = replace(model, bodies=tuple(replace(b, joint=replace(b.joint, armature=(), damping=())) for b in model.bodies))
    V, M = V - np.diag(oracle(seed).damping), np.array(der.inverse_dynamics_derivatives(joints, "analytic")(q, v, a)[2])
    dM = T["Mq"]
    # Christoffel symbols, with the Hamel terms of joints that do not commute
    christoffel = (dM + np.swapaxes(dM, 1, 2) - np.einsum("jki->ijk", dM)
                   + np.einsum("lij,lk->ijk", c, M) + np.einsum("lik,lj->ijk", c, M))
    close(T["vv"], christoffel)
    # homogeneity: tau is quadratic in v and affine in a
    close(T["vv"] @ v, V)
    first = der.inverse_dynamics_derivatives(joints, "analytic")
    still, moving, free = (np.array(first(q, *x)[0]) for x in ((0 * v, 0 * a), (v, 0 * a), (0 * v, a)))
    close(T["qv"] @ v, 2 * (moving - still))
    close(np.einsum("ijk,j->ik", dM, a), free - still)
    # symmetries, and what the pose of the root cannot change
    close(dM, np.swapaxes(dM, 0, 1))
    close(T["vv"], np.swapaxes(T["vv"], 1, 2))
    root = model.v_slice(0)
    assert not np.abs(dM[:, :, root]).max() > 1e-12
    assert not np.abs(T["qv"][:, root, :]).max() > 1e-12


# ------------------------------------------------------------------------------------------------ contracted
@pytest.mark.row("002:H14", "002:H10")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("hubs", HUBS)
def test_contraction_of_the_tensors(seed, hubs):
    model, q, v, a, lam = case(seed)
    x = [ca.SX.sym("x", len(y)) for y in (q, v, a, lam)]
    gq, gv, ga, qq, qv, vv, qa = ca.Function("f", x, list(contracted_inverse_dynamics(model, *x, hubs=hubs)))(q, v, a, lam)
    T = recursion(seed)
    close(qq, np.einsum("i,ijk->jk", lam, T["qq"]))
    close(qv, np.einsum("i,ijk->jk", lam, T["qv"]))
    close(vv, np.einsum("i,ijk->jk", lam, T["vv"]))
    close(qa, np.einsum("i,ijk->kj", lam, T["Mq"]))
    for ours, first in zip((gq, gv, ga), cd.first_order(oracle(seed), v, a), strict=True):
        close(np.array(ours).ravel(), lam @ first)


def differentiated(model):
    """The same by algorithmic differentiation of the recursive Newton-Euler algorithm along the jet; qq symmetric."""
    n = model.nv
    q, v, a, lam, d = ca.SX.sym("q", model.nq), *(ca.SX.sym(s, n) for s in "vald")
    s = ca.dot(lam, alg.inverse_dynamics(model, alg.jet(model, q, d), v, a))
    H, g = ca.hessian(s, ca.vertcat(d, v, a))
    H, g = ca.substitute([H, g], [d], [ca.SX.zeros(n)])
    return ca.Function("f", [q, v, a, lam], [
        g[:n], g[n:2 * n], g[2 * n:], H[:n, :n], H[:n, n:2 * n], H[n:2 * n, n:2 * n], H[:n, 2 * n:]])


@pytest.mark.row("002:H12", "002:H14")
@pytest.mark.parametrize("seed", SEEDS)
def test_symmetrised_contraction_is_the_hessian_along_the_retraction(seed):
    model, q, v, a, lam = case(seed)
    ours = [np.array(x) for x in der.inverse_dynamics_hessian(model)(q, v, a, lam)]
    theirs = differentiated(model)(q, v, a, lam)
    assert np.abs(ours[3] - ours[3].T).max() > 1e-3  # the raw order is visible
    ours[3] = np.array(der.symmetrised(ca.DM(ours[3])))
    for x, y in zip(ours, theirs, strict=True):
        close(x, y)


@pytest.mark.row("002:H12")
@pytest.mark.parametrize("seed", SEEDS)
def test_raw_order_differs_from_its_transpose_by_the_structure_constants(seed):
    model, q, v, a, _ = case(seed)
    raw, c = recursion(seed)["qq"], der.structure_constants(model)
    Q = np.array(der.inverse_dynamics_derivatives(model, "analytic")(q, v, a)[0])
    close(raw - np.swapaxes(raw, 1, 2), -np.einsum("il,ljk->ijk", Q, c))
    flat = ca.DM(raw.reshape(model.nv, -1, order="F"))
    close(dense(der.symmetrised_tensor(flat), model.nv), (raw + np.swapaxes(raw, 1, 2)) / 2)
    # brackets of rotations about x and y, from the definition
    i = next(i for i, b in enumerate(model.bodies) if b.joint.kind == "spherical")
    assert c[model.v_slice(i), model.v_slice(i).start, model.v_slice(i).start + 1].tolist() == pytest.approx([0, 0, 1])


# ------------------------------------------------------------------------------------------------ external forces
@pytest.mark.row("002:H18")
@pytest.mark.parametrize("seed", SEEDS)
def test_external_forces(seed):
    model, q, v, a, lam = case(seed)
    rng = np.random.default_rng(seed + 100)
    f_ext = {model.bodies[k].name: 5 * rng.standard_normal(6) for k in (1, len(model.bodies) - 1)}
    tree = cd.read(model, q, f_ext)
    x = [ca.SX.sym("x", len(y)) for y in (q, v, a, lam)]
    tau, dq, _, _ = ca.Function("f", x[:3], list(inverse_dynamics_partials(model, *x[:3], f_ext)))(q, v, a)
    close(np.array(tau).ravel(), cd.rnea(tree, v, a))
    close(dq, cd.derivative_q(lambda t: cd.rnea(t, v, a), tree))
    qq = ca.Function("f", x, [contracted_inverse_dynamics(model, *x, f_ext).qq])(q, v, a, lam)
    close(qq, cd.derivative_q(lambda t: lam @ cd.first_order(t, v, a)[0], tree))
    close(np.einsum("i,ijk->jk", lam, tensor_form.tensors(tree, v, a)["qq"]), qq)


def test_an_unknown_choice_of_hubs_is_named():
    model = tree_of("revolute")
    with pytest.raises(ModelError, match="no selection of hubs named 'limbs'.*did you mean 'limb'"):
        inverse_dynamics_partials(model, ca.DM(1), ca.DM(1), ca.DM(1), hubs="limbs")


def test_analytic_is_shorter_than_differentiation_on_trees_of_some_depth():
    model = random_tree(12, np.random.default_rng(0), kinds=["revolute"], root="free_flyer", depth_first=True)
    ours, theirs = (der.inverse_dynamics_derivatives(model, s).n_instructions() for s in ("analytic", "ad"))
    assert ours < theirs / 2
    assert der.inverse_dynamics_hessian(model).n_instructions() < differentiated(model).n_instructions() / 3
