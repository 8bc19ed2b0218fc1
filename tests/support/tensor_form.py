"""The second derivatives of inverse dynamics in tensor form, case by case: appendix B of Singh, Russell and Wensing (2022).

Literal, with numbers, and slow: an oracle for the recursive and contracted algorithms. One factor differs from the print: the
last one of ``vq3`` is S_j (the printed psi_dot_j has the wrong unit).
"""

from __future__ import annotations

import numpy as np
from complex_dynamics import B, Tree, subtree, world

from dynamics.notation import tensor_algebra as ta

T, R, tm, mt = ta.transposed, ta.rotated, ta.tensor_times, ta.times_tensor


def tensors(tree: Tree, v, a) -> dict[str, np.ndarray]:
    """qq, vv, vq (entry i; v_j, q_k) and Mq, each [n, n, n]. Armature and damping do not enter."""
    w = world(tree, v, a)
    force, inertia = subtree(tree, w.f), subtree(tree, w.I)
    coriolis = subtree(tree, [B(I, x) for I, x in zip(w.I, w.v, strict=True)])
    n = tree.n
    qq, vv, vq, Mq = (np.zeros((n, n, n)) for _ in range(4))
    for i in range(len(inertia)):
        Si, Sdi, Pi, Pdi = w.S[i], w.Sd[i], w.Pd[i], w.Pdd[i]
        I, C, f, ii = inertia[i], coriolis[i], force[i], tree.columns[i]
        swap, cf = ta.cross_swapped, ta.cross_force
        BS, BP = ta.coriolis_tensor(I, Si), ta.coriolis_tensor(I, Pi)
        A1 = tm(cf(Si), C) - mt(C, ta.cross(Si))
        A2 = tm(cf(Si), I) - mt(I, ta.cross(Si))
        for j in tree.way(i):
            Sj, Sdj, Pj, Pdj, jj = w.S[j], w.Sd[j], w.Pd[j], w.Pdd[j], tree.columns[j]
            for k in tree.way(j):
                Sk, Sdk, Pk, Pdk, kk = w.S[k], w.Sd[k], w.Pd[k], w.Pdd[k], tree.columns[k]

                def put(out, value, rows, columns, pages):
                    out[rows, columns, pages] = value

                q1 = -T(mt(Pj.T, R(tm(2 * BS, Pk))) + 2 * mt(Sj.T, R(tm(swap(C.T @ Si), Pk)))
                        + mt(Sj.T, R(tm(swap(I @ Si), Pdk))))
                put(qq, q1, ii, jj, kk)
                put(vq, -T(mt(Sj.T, R(tm(2 * BS, Pk)))), ii, jj, kk)
                if k != j:
                    put(qq, R(q1), ii, kk, jj)
                    q3 = mt(Sk.T, R(2 * tm(BP + A1, Pj) + tm(A2, Pdj))
                            + tm(cf(Sj), 2 * C @ Pi + I @ Pdi + _columns(f, Si)))
                    put(qq, q3, kk, ii, jj)
                    if j != i:
                        put(qq, R(q3), kk, jj, ii)
                    v1 = -T(mt(Sj.T, R(tm(2 * BS, Sk))))
                    put(vv, v1, ii, jj, kk)
                    put(vv, R(v1), ii, kk, jj)
                    if j != i:
                        v4 = mt(Sk.T, R(tm(2 * BS, Sj)))
                        put(vv, v4, kk, ii, jj)
                        put(vv, R(v4), kk, jj, ii)
                        put(vq, mt(Sk.T, tm(2 * (BP + A1), Sj) + tm(A2, Pj + Sdj)), kk, jj, ii)
                    else:
                        put(vv, mt(Sk.T, R(tm(swap(I @ Si) + tm(cf(Si), I), Sj))), kk, ii, jj)
                    vq3 = T(mt(Sk.T, R(-2 * tm(BS, Pj) + tm(swap(2 * C.T @ Si), Sj) + 2 * tm(swap(I @ Si), Pj)))
                            + mt((Pk + Sdk).T, R(tm(swap(I @ Si), Sj))))
                    put(vq, vq3, ii, kk, jj)
                    put(vq, mt(Sk.T, R(tm(swap(2 * C @ Si + I @ (Pi + Sdi)), Sj) + 2 * tm(BS, Pj))), kk, ii, jj)
                    m = mt(Sk.T, R(tm(swap(I @ Si), Sj)))
                    put(Mq, m, kk, ii, jj)
                    put(Mq, T(m), ii, kk, jj)
                else:
                    put(vv, -T(mt(Sj.T, R(tm(A2, Sk)))), ii, jj, kk)
                if j != i:
                    q5 = mt(Sj.T, 2 * tm(BP + A1, Pk) + tm(A2, Pdk))
                    put(qq, q5, jj, kk, ii)
                    put(qq, R(q5), jj, ii, kk)
                    put(vq, mt(Sj.T, R(tm(2 * BS, Pk))), jj, ii, kk)
                    put(vq, mt(Sj.T, 2 * tm(BP + A1, Sk) + tm(A2, Pk + Sdk)), jj, kk, ii)
                    v7 = mt(Sj.T, tm(2 * BS, Sk))
                    put(vv, v7, jj, kk, ii)
                    put(vv, R(v7), jj, ii, kk)
                    m = mt(Sk.T, tm(A2, Sj))
                    put(Mq, m, kk, jj, ii)
                    put(Mq, T(m), jj, kk, ii)
    return {"qq": qq, "vv": vv, "vq": vq, "Mq": Mq}


def _columns(f, S):
    """f in the swapped cross product with every column of S."""
    return ta.cross_swapped(f) @ S
