"""Compiled loops: first and second derivatives against algorithmic differentiation and against identities."""

import casadi as ca
import numpy as np
import pytest
from loop_references import close, coupled_tree, first_derivatives, hessians, mixed_tree, state

from dynamics import algorithms as alg
from dynamics.algorithms import tree
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


@pytest.mark.row("002:H14")
def test_contracted_gradient_is_the_weighted_jacobian(case):
    _, loops, (q, v, a, lam, _) = case
    close(loops.contracted_gradient(q, v, a, lam), np.einsum("i,kij->kj", lam, loops.inverse_dynamics_derivatives(q, v, a)))


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


def brackets(model):
    """c[l, j, k] with S_j x S_k = sum_l c[l, j, k] S_l in the body frame: nonzero inside spherical, planar and free joints."""
    c = np.zeros((model.nv,) * 3)
    for i, body in enumerate(model.bodies):
        kind, at = model.kind(i), model.v_slice(i)
        if body.joint.kind not in ("spherical", "planar", "free_flyer"):
            continue
        S = np.array(ca.densify(kind.subspace(ca.DM(kind.neutral))))
        for x in range(kind.nv):
            for y in range(kind.nv):
                moved = np.r_[np.cross(S[3:, x], S[:3, y]) + np.cross(S[:3, x], S[3:, y]), np.cross(S[3:, x], S[3:, y])]
                c[at, at.start + x, at.start + y] = S.T @ moved
    return c


@pytest.mark.row("002:H12")
def test_the_order_of_differentiation_differs_by_the_structure_constants(case):
    model, loops, (q, v, a, *_) = case
    raw = loops.second_order(q, v, a, symmetric=False)[:, 0]
    c = brackets(model)
    close(raw - raw.swapaxes(1, 2), -np.einsum("il,ljk->ijk", loops.inverse_dynamics_derivatives(q, v, a)[0], c))
    close((raw + raw.swapaxes(1, 2)) / 2, loops.second_order(q, v, a)[:, 0])


@pytest.mark.row("002:H07", "002:H09")
def test_velocity_hessian_and_mass_derivative_obey_hamel(case):
    """vv_ijk = dM_ij/dq_k + dM_ik/dq_j - dM_jk/dq_i + c^l_ij M_lk + c^l_ik M_lj; dM is symmetric and blind to the root."""
    model, loops, (q, v, a, *_) = case
    full, c = loops.second_order(q, v, a), brackets(model)
    M = loops.mass_matrix(q) - np.diag(np.array(ca.densify(tree.diagonal(model, "armature"))).ravel())  # rotors only add inertia
    dM = full[:, 3]  # aq of tau_i: dM_ij/dq_k
    close(dM, dM.swapaxes(0, 1))
    close(full[:, 2], dM + dM.swapaxes(1, 2) - np.einsum("jki->ijk", dM)
          + np.einsum("lij,lk->ijk", c, M) + np.einsum("lik,lj->ijk", c, M))
    for i, body in enumerate(model.bodies):
        if body.parent < 0 and body.joint.kind != "universal" and not model.has_coupling:
            assert np.abs(dM[:, :, model.v_slice(i)]).max(initial=0.0) < 1e-12


@pytest.mark.row("002:H08")
def test_homogeneity_in_the_velocity(case):
    """The Coriolis part is quadratic in v: contracting its velocity derivatives with v gives back lower orders exactly."""
    model, loops, (q, v, a, *_) = case
    full, zero = loops.second_order(q, v, a), np.zeros(model.nv)
    still, moving = loops.inverse_dynamics_derivatives(q, zero, a), loops.inverse_dynamics_derivatives(q, v, a)
    close(full[:, 2] @ v, moving[1] - still[1])
    close(np.einsum("ijk,j->ik", full[:, 1], v), 2 * (moving[0] - still[0]))
    close(np.einsum("ijk,j->ik", full[:, 3], a), still[0] - loops.inverse_dynamics_derivatives(q, zero, zero)[0])


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


def test_weights_enter_linearly_and_exactly_where_they_should(case):
    """Poison: a changed weight changes the Hessian by the matching slice of the tensor."""
    model, loops, (q, v, a, lam, _) = case
    poisoned = lam.copy()
    poisoned[-1] += 2.0
    gap = loops.contracted_second_order(q, v, a, poisoned) - loops.contracted_second_order(q, v, a, lam)
    close(gap, 2.0 * loops.second_order(q, v, a)[-1])
    assert np.abs(gap).max() > 1e-3
