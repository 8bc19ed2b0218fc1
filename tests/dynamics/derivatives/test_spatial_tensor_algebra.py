"""Tensor algebra of spatial vectors, the Coriolis matrix, and how body quantities change along a joint."""

from dataclasses import replace

import casadi as ca
import complex_dynamics as cd
import numpy as np
import pytest
from complex_dynamics import crf, crm, swapped

from dynamics import algorithms as alg
from dynamics.derivatives import sweep as sw
from dynamics.model.synthetic import random_inertia, random_tree
from dynamics.notation import tensor_algebra as ta
from dynamics.spatial import Inertia, inertia_from_com, inertia_matrix

KINDS = ["revolute", "continuous", "prismatic", "spherical", "planar", "free_flyer"]
T, R, tm, mt = ta.transposed, ta.rotated, ta.tensor_times, ta.times_tensor


def close(a, b, tolerance=1e-12):
    scale = max(1.0, np.abs(b).max()) if np.size(b) else 1.0
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * scale)


def squeeze(A):
    """The matrix that a tensor with one column is, its pages as columns."""
    return R(A)[:, :, 0]


@pytest.mark.row("002:H01")
def test_operators_against_their_definitions():
    rng = np.random.default_rng(0)
    U, F, v = rng.standard_normal((6, 3)), rng.standard_normal((6, 3)), rng.standard_normal(6)
    for k in range(3):
        close(ta.cross(U)[:, :, k], crm(U[:, k]))
        close(ta.cross_force(U)[:, :, k], crf(U[:, k]))
        close(ta.cross_swapped(F)[:, :, k] @ v, crf(v) @ F[:, k])
        close(v @ ta.cross_swapped(F)[:, :, k] @ v, 0.0)
        close(ta.cross_swapped(F)[:, :, k], -ta.cross_swapped(F)[:, :, k].T)
    A, M = rng.standard_normal((6, 5, 4)), rng.standard_normal((5, 5))
    for k in range(4):
        close(tm(A, M)[:, :, k], A[:, :, k] @ M)
        close(mt(M, T(A))[:, :, k], M @ A[:, :, k].T)
    assert np.array_equal(R(A)[1, 2, 3], A[1, 3, 2])
    assert np.array_equal(T(R(A))[1, 2, 3], A[2, 3, 1])


@pytest.mark.row("002:H02")
def test_the_nineteen_identities():
    rng = np.random.default_rng(1)
    U, V, F = rng.standard_normal((6, 3)), rng.standard_normal((6, 4)), rng.standard_normal((6, 5))
    v, f, Bm, Y = rng.standard_normal(6), rng.standard_normal(6), rng.standard_normal((4, 6)), rng.standard_normal((6, 5, 3))
    c, cf, cs = ta.cross, ta.cross_force, ta.cross_swapped
    close(cf(U), -T(c(U)))  # 1
    close(-mt(V.T, cf(U)), T(tm(c(U), V)))  # 2
    close(-tm(mt(V.T, cf(U)), F), tm(T(tm(c(U), V)), F))  # 3
    close(squeeze(tm(c(U), v[:, None])), -crm(v) @ U)  # 4
    close(tm(cf(U), F), R(tm(cs(F), U)))  # 5
    close(tm(cs(F), U), R(tm(cf(U), F)))  # 6
    close(c(2.0 * U + 3.0 * V[:, :3]), 2.0 * c(U) + 3.0 * c(V[:, :3]))  # 7
    close(tm(c(U), V), -R(tm(c(V), U)))  # 8
    close(c(crm(v) @ U), mt(crm(v), c(U)) - tm(c(U), crm(v)))  # 9
    close(cf(crm(v) @ U), mt(crf(v), cf(U)) - tm(cf(U), crf(v)))  # 10
    close(cs(squeeze(tm(cf(U), f[:, None]))), tm(cf(U), swapped(f)) - mt(swapped(f), c(U)))  # 11
    close(T(tm(cf(U), F)), -mt(F.T, c(U)))  # 12
    product = mt(V.T, tm(cf(U), F))
    turned = T(R(tm(c(V), U)))
    close(product, tm(turned, F))  # 13
    close(product, T(mt(F.T, R(tm(c(V), U)))))  # 13, second form
    close(crf(v) @ F, squeeze(tm(cs(F), v[:, None])))  # 14
    close(swapped(f) @ U, squeeze(tm(cf(U), f[:, None])))  # 15
    left = mt(V.T, R(tm(cf(U), F)))
    close(left, R(tm(turned, F)))  # 16
    close(left, -T(mt(U.T, R(tm(cf(V), F)))))  # 17
    close(left, R(product))  # 18
    close(T(mt(Bm, Y)), tm(T(Y), Bm.T))  # 19


def body(rng):
    x = random_inertia(rng)
    return inertia_from_com(x.mass, x.com, x.inertia)


@pytest.mark.row("002:H03")
def test_coriolis_matrix_and_its_twelve_entries():
    rng = np.random.default_rng(2)
    inertia, other = body(rng), body(rng)
    I, v, w, u = np.array(inertia_matrix(inertia)), *rng.standard_normal((3, 6))
    B = cd.B(I, v)
    close(B @ v, crf(v) @ I @ v)
    close(ta.coriolis_tensor(I, v), B)
    close(ta.coriolis_tensor(I, np.c_[v, w])[:, :, 1], cd.B(I, w))
    close(B.T @ w, -cd.B(I, w).T @ v)
    close(B @ w, cd.B(I, w) @ v - I @ crm(v) @ w)
    close(u @ B @ w, -v @ cd.B(I, u) @ w)
    two = sw.coriolis(inertia, ca.DM(v))
    close(np.array(two.times(ca.DM.eye(6))), 2 * B)
    close(np.array(two.transposed(ca.DM(w))).ravel(), (2 * B.T @ w)[3:])
    close((B.T @ w)[:3], np.zeros(3))
    both = sw.add_coriolis(two, sw.coriolis(other, ca.DM(v)))
    total = Inertia(*(a + b for a, b in zip(inertia, other, strict=True)))
    close(np.array(both.times(ca.DM(u))), np.array(sw.coriolis(total, ca.DM(v)).times(ca.DM(u))))
    close(np.array(sw.turned_coriolis(ca.DM(w), two).times(ca.DM.eye(6))), 2 * (crf(w) @ B - B @ crm(w)))
    close(np.array(inertia_matrix(sw.turned_inertia(ca.DM(w), inertia))), crf(w) @ I - I @ crm(w))


@pytest.fixture(scope="module")
def tree():
    rng = np.random.default_rng(5)
    model = random_tree(6, rng, kinds=KINDS, root="free_flyer")
    q = alg.random_configuration(model, rng)
    return cd.read(model, q), rng.standard_normal(model.nv), rng.standard_normal(model.nv)


@pytest.mark.row("002:H04", "002:H23")
def test_changes_of_body_quantities_along_a_joint(tree):
    """The identities K1-K16 of the paper, all pairs of bodies, by complex steps along T exp(i h s)."""
    tree, v, a = tree
    w = cd.world(tree, v, a)
    Cs = cd.subtree(tree, [cd.B(I, x) for I, x in zip(w.I, w.v, strict=True)])
    Is, fs = cd.subtree(tree, w.I), cd.subtree(tree, w.f)

    def composite(t, vv=v):
        x = cd.world(t, vv, a)
        return cd.subtree(t, [cd.B(I, y) for I, y in zip(x.I, x.v, strict=True)])

    def along(function):
        return cd.derivative_q(function, tree)

    B = [cd.B(I, x) for I, x in zip(w.I, w.v, strict=True)]
    for i in range(len(w.S)):
        get = {name: along(lambda t, name=name, i=i: getattr(cd.world(t, v, a), name)[i])
               for name in ("S", "Sd", "Pd", "Pdd", "I", "a", "f")}
        own = along(lambda t, i=i: crm((x := cd.world(t, v, a)).S[i] @ v[t.columns[i]]) @ x.S[i])
        Ia = along(lambda t, i=i: (x := cd.world(t, v, a)).I[i] @ x.a[i])
        IC = along(lambda t, i=i: cd.subtree(t, cd.world(t, v, a).I)[i])
        BC = along(lambda t, i=i: composite(t)[i])
        fC = along(lambda t, i=i: cd.subtree(t, cd.world(t, v, a).f)[i])
        rate = {name: cd.derivative_x(lambda x, name=name, i=i: getattr(cd.world(tree, x, a), name)[i], v)
                for name in ("Sd", "Pd", "a")}
        rate_B = cd.derivative_x(lambda x, i=i: composite(tree, x)[i], v)
        Si = w.S[i]
        for j, cj in enumerate(tree.columns):
            Sj, Pj, Pdj = w.S[j], w.Pd[j], w.Pdd[j]
            below, beyond = j in tree.way(i), i in tree.way(j)
            if below:
                c, cf = ta.cross(Sj), ta.cross_force(Sj)
                close(get["S"][:, :, cj], tm(c, Si))  # K1
                close(get["Sd"][:, :, cj], tm(ta.cross(Pj), Si) + tm(c, w.Sd[i]))  # K2
                close(own[:, :, cj], tm(c, crm(Si @ v[tree.columns[i]]) @ Si))  # K3
                close(get["Pd"][:, :, cj], tm(ta.cross(Pj), Si) + tm(c, w.Pd[i]))  # K4
                close(get["I"][:, :, cj], tm(cf, w.I[i]) - mt(w.I[i], c))  # K5
                close(get["a"][:, cj], Pdj - crm(w.v[i]) @ Pj - crm(w.a[i]) @ Sj)  # K7
                close(Ia[:, cj], squeeze(tm(cf, (w.I[i] @ w.a[i])[:, None])) + w.I[i] @ (Pdj - crm(w.v[i]) @ Pj))  # K8
                close(get["Pdd"][:, :, cj], tm(ta.cross(Pdj), Si) + 2 * tm(ta.cross(Pj), w.Pd[i]) + tm(c, w.Pdd[i]))  # K9
                turned = squeeze(tm(cf, w.f[i][:, None]))
                close(get["f"][:, cj], w.I[i] @ Pdj + turned + 2 * B[i] @ Pj)  # K11
                close(T(get["S"][:, :, cj]), -mt(Si.T, cf))  # K13
                close(rate["Sd"][:, :, cj], tm(c, Si))  # K14
                close(rate["Pd"][:, :, cj], tm(c, Si) if j != i else 0 * tm(c, Si))  # K15
                close(rate["a"][:, cj], Pj + w.Sd[j] - crm(w.v[i]) @ Sj)
            else:
                assert not np.any(get["S"][:, :, cj])
                assert not np.any(get["a"][:, cj])
            if below or beyond:
                b = i if below else j
                c, cf = ta.cross(Sj), ta.cross_force(Sj)
                close(IC[:, :, cj], tm(cf, Is[b]) - mt(Is[b], c))  # K6
                close(BC[:, :, cj], ta.coriolis_tensor(Is[b], Pj) + tm(cf, Cs[b]) - mt(Cs[b], c))  # K10
                close(fC[:, cj], Is[b] @ Pdj + squeeze(tm(cf, fs[b][:, None])) + 2 * Cs[b] @ Pj)  # K12
                close(rate_B[:, :, cj], ta.coriolis_tensor(Is[b], Sj))  # K16


@pytest.mark.row("002:H23")
def test_complex_step_of_the_torques_against_series_differences(tree):
    """The oracle itself: complex steps of the recursive algorithm against fourth-order central differences of it."""
    tree, v, a = tree
    exact = cd.derivative_q(lambda t: cd.rnea(t, v, a), tree)
    h = 1e-3

    def moved(k, s):
        # real finite displacement along one column: eight terms of the exponential
        i = next(i for i, c in enumerate(tree.columns) if c.start <= k < c.stop)
        x = s * tree.S[i][:, k - tree.columns[i].start]
        A = np.block([[cd.hat(x[3:]), x[:3, None]], [np.zeros((1, 4))]])
        E, term = np.eye(4), np.eye(4)
        for order in range(1, 9):
            term = term @ A / order
            E = E + term
        R_, p_ = list(tree.R), list(tree.p)
        p_[i], R_[i] = p_[i] + R_[i] @ E[:3, 3], R_[i] @ E[:3, :3]
        return cd.rnea(replace(tree, R=tuple(R_), p=tuple(p_)), v, a)

    for k in range(tree.n):
        numeric = (8 * (moved(k, h) - moved(k, -h)) - (moved(k, 2 * h) - moved(k, -2 * h))) / (12 * h)
        close(numeric, exact[:, k], 1e-9)
    close(cd.first_order(tree, v, a)[0], exact)
    close(cd.first_order(tree, v, a)[1], cd.derivative_x(lambda x: cd.rnea(tree, x, a), v))
    close(cd.first_order(tree, v, a)[2], cd.derivative_x(lambda x: cd.rnea(tree, v, x), a))
