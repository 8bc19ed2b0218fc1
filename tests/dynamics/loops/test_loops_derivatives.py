"""Compiled loops: first and second derivatives against algorithmic differentiation and against identities."""

import casadi as ca
import numpy as np
import pytest
from loop_references import close, coupled_tree, first_derivatives, hessians, mixed_tree, state

from dynamics import algorithms as alg
from dynamics.derivatives import inverse_dynamics_derivatives
from dynamics.loops import LoopDynamics
from dynamics.model.synthetic import random_tree, serial_chain

TREES = {
    "mixed": lambda: mixed_tree(7, 2), "free root": lambda: mixed_tree(5, 3, "free_flyer"), "coupled": lambda: coupled_tree(8, 6),
    "free inside": lambda: random_tree(4, np.random.default_rng(9), kinds=("free_flyer", "revolute"), root="revolute"),
    "spherical leaves": lambda: random_tree(6, np.random.default_rng(10), kinds=("spherical", "planar", "prismatic")),
    "universal": lambda: random_tree(4, np.random.default_rng(11), kinds=("universal",), damping=True),
    "chain": lambda: serial_chain(9),
}


@pytest.fixture(params=TREES, scope="module")
def case(request):
    model = TREES[request.param]()
    return model, LoopDynamics(model), state(model, 31)


@pytest.mark.row("002:H05", "002:H26")
def test_first_order_of_inverse_dynamics(case):
    model, loops, (q, v, a, *_) = case
    expected = inverse_dynamics_derivatives(model, "ad")(q, v, a)
    for ours, theirs in zip(loops.inverse_dynamics_derivatives(q, v, a), expected, strict=True):
        close(ours, theirs)


@pytest.mark.row("002:H15", "002:H26")
def test_first_order_of_forward_dynamics(case):
    """Against differentiation of the articulated-body algorithm, which has no mass matrix in it (but for mimic joints)."""
    model, loops, (q, v, tau, *_) = case
    a, ours = loops.forward_dynamics_derivatives(q, v, tau)
    close(a, np.array(alg.forward_dynamics(model, q, v, tau)).ravel())
    for x, theirs in zip(ours, first_derivatives(model, alg.forward_dynamics)(q, v, tau), strict=True):
        close(x, theirs)


@pytest.mark.row("002:H14", "002:H12", "002:H26")
def test_contracted_second_order_is_the_hessian_of_the_weighted_torque(case):
    model, loops, (q, v, a, lam, _) = case
    expected = hessians(model, alg.inverse_dynamics)(q, v, a, lam)
    for ours, theirs in zip(loops.contracted_second_order(q, v, a, lam), expected, strict=True):
        close(ours, theirs)


@pytest.mark.row("002:H17")
def test_contracted_second_order_of_forward_dynamics(case):
    model, loops, (q, v, tau, mu, _) = case
    a, first, ours = loops.forward_contracted_second_order(q, v, tau, mu)
    close(a, loops.forward_dynamics(q, v, tau))
    close(first, loops.forward_dynamics_derivatives(q, v, tau)[1])
    for x, theirs in zip(ours, hessians(model, alg.forward_dynamics)(q, v, tau, mu), strict=True):
        close(x, theirs)


@pytest.mark.row("002:H18")
@pytest.mark.parametrize("name", ["mixed", "coupled"])
def test_external_wrenches_in_all_orders(name):
    model = TREES[name]()
    q, v, a, lam, _ = state(model, 32)
    rng = np.random.default_rng(33)
    wrenches = {body.name: 5 * rng.standard_normal(6) for body in model.bodies}
    symbols = {name: ca.DM(w) for name, w in wrenches.items()}
    loops = LoopDynamics(model)
    id_first, fd_first = (first_derivatives(model, f, symbols) for f in (alg.inverse_dynamics, alg.forward_dynamics))
    id_second, fd_second = (hessians(model, f, symbols) for f in (alg.inverse_dynamics, alg.forward_dynamics))
    for ours, theirs in (
        (loops.inverse_dynamics_derivatives(q, v, a, wrenches), id_first(q, v, a)),
        (loops.forward_dynamics_derivatives(q, v, a, wrenches)[1], fd_first(q, v, a)),
        (loops.contracted_second_order(q, v, a, lam, wrenches), id_second(q, v, a, lam)),
        (loops.forward_contracted_second_order(q, v, a, lam, wrenches)[2], fd_second(q, v, a, lam)),
    ):
        for x, y in zip(ours, theirs, strict=True):
            close(x, y)
    assert np.abs(loops.inverse_dynamics_derivatives(q, v, a, wrenches) - loops.inverse_dynamics_derivatives(q, v, a)).max() > 0.1


@pytest.mark.row("002:H26")
@pytest.mark.parametrize("symmetric", [True, False])
def test_tensors_are_the_contractions_with_unit_vectors(case, symmetric):
    """Two roads: known subtree sums for a unit vector, and the general sweep."""
    model, loops, (q, v, a, lam, _) = case
    full = loops.second_order(q, v, a, symmetric=symmetric)
    close(np.einsum("i,ikrc->krc", lam, full), loops.contracted_second_order(q, v, a, lam, symmetric=symmetric))
    row = model.nv - 1
    close(full[row], loops.contracted_second_order(q, v, a, np.eye(model.nv)[row], symmetric=symmetric))


@pytest.mark.row("002:H22")
def test_structural_zeros_are_never_written(case):
    """With ``out`` filled by a mark, exactly the entries whose joints share no path from the root keep it."""
    model, loops, (q, v, a, lam, _) = case
    if model.has_coupling:
        pytest.skip("mimic joints fill the pattern")
    owner = [i for i in range(len(model.bodies)) for _ in range(model.kind(i).nv)]
    paths = []
    for i, body in enumerate(model.bodies):
        paths.append({i} | (paths[body.parent] if body.parent >= 0 else set()))
    related = np.array([[r in paths[c] or c in paths[r] for c in owner] for r in owner])
    n, mark = model.nv, -123.25
    for method, shape, extra in (("inverse_dynamics_derivatives", (3, n, n), ()), ("contracted_second_order", (4, n, n), (lam,))):
        out = getattr(loops, method)(q, v, a, *extra, out=np.full(shape, mark))
        for part in out:
            np.testing.assert_array_equal(part == mark, ~related)
    tensor = loops.second_order(q, v, a, out=np.full((n, 4, n, n), mark))
    for part in range(4):
        np.testing.assert_array_equal(tensor[:, part] == mark, ~(related[:, :, None] & related[:, None, :] & related[None]))
