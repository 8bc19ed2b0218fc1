"""Closed-form derivatives of forward dynamics to second order."""

from dataclasses import replace

import casadi as ca
import complex_dynamics as cd
import numpy as np
import pytest
from row_trees import tree_of

from dynamics import algorithms as alg
from dynamics import derivatives as der
from dynamics.derivatives import forward_second as fs
from dynamics.derivatives.inverse_second import dense
from dynamics.model.synthetic import random_tree

CONSTANT = ["revolute", "prismatic", "spherical", "planar", "free_flyer"]
SEEDS = [0, 1, 2]
LAST = [*(pytest.param(seed, marks=pytest.mark.slow) for seed in (0, 1)), 2]  # the smallest tensors of the three


def close(a, b, tolerance=1e-10):
    a, b = np.array(a), np.array(b)
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1.0, np.abs(b).max()))


def case(seed, **options):
    rng = np.random.default_rng(seed)
    model = random_tree(4, rng, kinds=CONSTANT, damping=True, **options)
    return model, alg.random_configuration(model, rng), *rng.standard_normal((3, model.nv))


def complex_forward(tree, v, tau):
    n = tree.n
    M = cd.first_order(tree, 0 * v, np.zeros(n))[2]
    return np.linalg.solve(M, tau - cd.rnea(tree, v, np.zeros(n)))


def complex_partials(tree, v, tau):
    """da/dq, da/dv, da/dtau from the literal first-order formulas; complex wherever its arguments are."""
    Q, V, M = cd.first_order(tree, v, complex_forward(tree, v, tau))
    return -np.linalg.solve(M, Q), -np.linalg.solve(M, V), np.linalg.inv(M)


@pytest.mark.row("002:H15")
@pytest.mark.parametrize("seed", SEEDS)
def test_first_order_against_complex_steps_and_the_articulated_body_algorithm(seed):
    model, q, v, tau, _ = case(seed)
    tree = cd.read(model, q)
    ours = der.forward_dynamics_derivatives(model, "analytic")(q, v, tau)
    for x, y in zip(ours, complex_partials(tree, v, tau), strict=True):
        close(x, y)
    close(ours[0], cd.derivative_q(lambda t: complex_forward(t, v, tau), tree))
    for x, y in zip(ours, der.forward_dynamics_derivatives(model, "fd")(q, v, tau), strict=True):
        close(x, y, 1e-6)


@pytest.mark.row("002:H15")
@pytest.mark.parametrize("seed", SEEDS)
def test_first_order_against_pinocchio(seed):
    pin = pytest.importorskip("pinocchio")
    import pinocchio_twin as twin

    model, q, v, tau, _ = case(seed, depth_first=True)
    model = replace(model, bodies=tuple(replace(b, joint=replace(b.joint, damping=())) for b in model.bodies))
    theirs = twin.build(model)
    data = theirs.createData()  # the results are views of it
    expected = pin.computeABADerivatives(theirs, data, twin.configuration(model, q), v, tau)
    for x, y in zip(der.forward_dynamics_derivatives(model, "analytic")(q, v, tau), expected, strict=True):
        close(x, np.triu(y) + np.triu(y, 1).T if y is expected[2] else y)


@pytest.mark.row("002:H16")
@pytest.mark.parametrize("seed", LAST)
def test_second_order_in_full(seed):
    model, q, v, tau, _ = case(seed)
    tree, n = cd.read(model, q), model.nv
    qq, qv, vv, qtau = (dense(x, n) for x in der.forward_dynamics_second_derivatives(model)(q, v, tau))
    close(qq, cd.derivative_q(lambda t: complex_partials(t, v, tau)[0], tree))
    close(qv, cd.derivative_x(lambda x: complex_partials(tree, x, tau)[0], v))
    close(vv, cd.derivative_x(lambda x: complex_partials(tree, x, tau)[1], v))
    close(np.swapaxes(qtau, 1, 2), cd.derivative_q(lambda t: complex_partials(t, v, tau)[2], tree))
    # residual of the twice differentiated equation of motion
    A, M = complex_partials(tree, v, tau)[0], cd.first_order(tree, v, tau)[2]
    a = complex_forward(tree, v, tau)
    QQ, _, _, Mq = (dense(x, n) for x in der.inverse_dynamics_second_derivatives(model)(q, v, a))
    X = np.einsum("ilk,lj->ijk", Mq, A)
    residual = np.einsum("il,ljk->ijk", M, qq) + QQ + X + np.swapaxes(X, 1, 2)
    close(residual, 0 * residual, 1e-9 * max(1, np.abs(QQ).max()))


@pytest.mark.row("002:H17", "002:H16")
@pytest.mark.parametrize("seed", LAST)
def test_contraction_against_the_tensors(seed):
    model, q, v, tau, mu = case(seed)
    tree, n = cd.read(model, q), model.nv
    full = [dense(x, n) for x in der.forward_dynamics_second_derivatives(model)(q, v, tau)]
    *gradients, qq, qv, vv, qtau = der.forward_dynamics_hessian(model)(q, v, tau, mu)
    for x, T in zip((qq, qv, vv, qtau), full, strict=True):
        close(x, np.einsum("i,ijk->jk", mu, T))
    for x, A in zip(gradients, complex_partials(tree, v, tau), strict=True):
        close(np.array(x).ravel(), mu @ A)


@pytest.mark.row("002:H18")
def test_external_forces():
    model, q, v, tau, mu = case(4)
    f_ext = {model.bodies[-1].name: np.array([3.0, -2.0, 5.0, 0.5, -0.4, 0.3])}
    tree = cd.read(model, q, f_ext)
    x = [ca.SX.sym("x", len(y)) for y in (q, v, tau, mu)]
    first = fs.forward_dynamics_partials(model, *x[:3], f_ext)
    second = fs.contracted_forward_dynamics(model, *x, f_ext)
    a, dq, qq = ca.Function("f", x, [first.a, first.da_dq, second.qq])(q, v, tau, mu)
    close(np.array(a).ravel(), complex_forward(tree, v, tau))
    close(dq, complex_partials(tree, v, tau)[0])
    close(qq, cd.derivative_q(lambda t: mu @ complex_partials(t, v, tau)[0], tree))


@pytest.mark.row("002:H18")
def test_full_tensors_with_a_wrench_on_a_welded_body():
    """Second derivatives of forward dynamics in full: a wrench on a body welded below a moving joint, and put elsewhere."""
    model = tree_of("free_flyer", "spherical", "fixed", "revolute", seed=7)
    rng = np.random.default_rng(8)
    q, (v, tau, mu) = alg.random_configuration(model, rng), rng.standard_normal((3, model.nv))
    n, f_ext = model.nv, {model.bodies[2].name: ca.DM(10 * rng.standard_normal(6))}
    x, d = [ca.SX.sym("x", len(y)) for y in (q, v, tau)], ca.SX.sym("d", n)
    z = ca.vertcat(d, *x[1:])
    s = ca.dot(ca.DM(mu), alg.forward_dynamics(model, alg.jet(model, x[0], d), *x[1:], f_ext))
    H = np.array(ca.Function("H", [*x, d], [ca.hessian(s, z)[0]])(q, v, tau, np.zeros(n)))

    def contracted(wrenches):
        full = ca.Function("f", x, [ca.SX(y) for y in fs.forward_dynamics_second_partials(model, *x, wrenches)])(q, v, tau)
        return [np.einsum("i,ijk->jk", mu, dense(y, n)) for y in full]

    qq, qv, vv, qtau = contracted(f_ext)
    blocks = H[:n, :n], H[:n, n:2 * n], H[n:2 * n, n:2 * n], H[:n, 2 * n:]
    for ours, theirs in zip(((qq + qq.T) / 2, qv, vv, qtau), blocks, strict=True):
        close(ours, theirs)
    misplaced = contracted({model.bodies[1].name: f_ext[model.bodies[2].name]})[0]
    assert np.abs((misplaced + misplaced.T) / 2 - blocks[0]).max() > 1e-2 * np.abs(blocks[0]).max()
