"""Second derivatives of inverse dynamics in full, as sparse tensors: O(N d^2) operations.

Source: Singh, Russell and Wensing (2022), Algorithm 1 and appendix B, with two corrections (the force in its line 22 is that of
the whole subtree; the last factor of the mixed derivative for k above j, j above or at i, is S_j), and with the structure of
2B(I, v) used throughout (``dynamics.derivatives.sweep``): several of its 6-vectors are pure moments, its matrices A1 and A3 are
an inertia and a Coriolis matrix displaced along S.

A solver wants ``contracted_inverse_dynamics`` instead, which is an order of magnitude shorter.

Tensors are stored as [nv, nv * nv] matrices with the tree's structural zeros: entry (i; j, k) sits in row i, column j + nv k, and
is d/dw_k d/du_j tau_i: the second letter of a name, and the third index, belong to the derivative that acts last. ``dense`` makes
[nv, nv, nv] arrays of evaluated ones. Entries are non-zero only if i, j and k lie on one way to the root.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from dynamics import spatial
from dynamics.derivatives.inverse_contracted import contracted_inverse_dynamics
from dynamics.derivatives.sweep import (
    Coriolis,
    Sweep,
    Swept,
    add_coriolis,
    coriolis,
    cross_columns,
    moment_columns,
    sweep,
    turned_coriolis,
    turned_inertia,
)
from dynamics.lie.expression import Expr
from dynamics.model.model import Model
from dynamics.spatial import Inertia, angular


class InverseSecondPartials(NamedTuple):
    """qq: d2tau/dq dq, raw order (not symmetric inside a joint of several degrees of freedom); vv: d2tau/dv dv; qv: entry
    (i; j, k) is d2tau_i / dq_j dv_k; Mq: dM_ij/dq_k. Each [nv, nv * nv], sparse."""

    qq: Expr
    vv: Expr
    qv: Expr
    Mq: Expr


def inverse_dynamics_second_partials(model: Model, q: Expr, v: Expr, a: Expr,
                                     f_ext: Mapping[str, Expr] | None = None) -> InverseSecondPartials:
    """q: [nq]; v, a: [nv]; f_ext: body name -> wrench [6], constant in body coordinates. Raises ModelError, UnknownNameError.

    Armature and damping are linear and do not appear.
    """
    passed = sweep(model, q, v, a, f_ext, "root")
    if passed.reduced.moving:
        return _row_by_row(model, q, v, a, f_ext)
    n, reduced = passed.reduced.nu, passed.reduced
    tensors = _Tensors(n)
    inertia, B, f = [x.inertia for x in passed.links], [x.B for x in passed.links], [x.force for x in passed.links]
    ways = _root_paths(passed)
    for i in reversed(range(len(passed.links))):
        own = passed.columns(i)
        for p in range(own.stop - own.start):
            terms = _ColumnTerms(passed.links[i], p, inertia[i], B[i], f[i])
            j = i
            while j >= 0:
                _blocks(tensors, own.start + p, terms, j == i, passed.links[j], ways[j])
                j = reduced.links[j].parent
        parent = reduced.links[i].parent
        if parent >= 0:
            inertia[parent], B[parent] = spatial.add_inertia(inertia[parent], inertia[i]), add_coriolis(B[parent], B[i])
            f[parent] = f[parent] + f[i]
    full = [tensors.matrix(name) for name in InverseSecondPartials._fields]
    if (G := passed.lifted.G) is not None:
        pairs = ca.kron(G, G)
        full = [G.T @ T @ pairs for T in full]
    return InverseSecondPartials(*full)


def _row_by_row(model: Model, q: Expr, v: Expr, a: Expr, f_ext: Mapping[str, Expr] | None) -> InverseSecondPartials:
    """Joints with S(q): the contraction with every unit vector, in a graph that finds what they share."""
    rows = [contracted_inverse_dynamics(model, q, v, a, unit, f_ext) for unit in ca.horzsplit(ca.DM.eye(model.nv))]
    fields = [(x.qq, x.vv, x.qv, x.qa.T) for x in rows]
    return InverseSecondPartials(*(ca.sparsify(ca.vertcat(*(ca.vec(ca.densify(row[k])).T for row in fields))) for k in range(4)))


def dense(tensor: Any, nv: int) -> np.ndarray:
    """A numeric tensor [nv, nv * nv] as an array T[i, j, k]."""
    return np.array(ca.DM(tensor)).reshape(nv, nv, nv, order="F")


# ------------------------------------------------------------------------------------------------ storage
class _Tensors:
    """Blocks of the four tensors, collected as triplets."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.parts: dict[str, list[tuple[np.ndarray, np.ndarray, Expr]]] = {x: [] for x in InverseSecondPartials._fields}

    def put(self, name: str, block: Expr, *orders: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
        """Write a block [r, c] where each order gives (row, column, page) index arrays of that shape."""
        flat = ca.vec(ca.densify(ca.SX(block)))
        for row, column, page in orders:
            shape = (block.shape[0], block.shape[1])
            r, c, k = (np.broadcast_to(x, shape).ravel(order="F") for x in (row, column, page))
            self.parts[name].append((r, c + self.n * k, flat))

    def matrix(self, name: str) -> ca.SX:
        parts, n = self.parts[name], self.n
        if not parts:
            return ca.SX(n, n * n)
        rows, columns = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
        pattern = ca.Sparsity.triplet(n, n * n, rows.tolist(), columns.tolist())
        # Sparsity.triplet sorts; the same sorting is applied to the values
        values = ca.vertcat(*(part[2] for part in parts))
        order = np.lexsort((rows, columns))
        return ca.sparsify(ca.SX(pattern, values[order.tolist()]))


class _RootPath(NamedTuple):
    """Joints from the root down to joint j, itself last: stacked columns [6, m], indices [m], how many belong to j."""

    S: Expr
    psi_dot: Expr
    psi_ddot: Expr
    fast: Expr
    indices: np.ndarray
    own: int


def _root_paths(passed: Sweep) -> list[_RootPath]:
    out: list[_RootPath] = []
    for i, (link, x) in enumerate(zip(passed.reduced.links, passed.links, strict=True)):
        columns = (x.S, x.psi_dot, x.psi_ddot, x.psi_dot + x.S_dot)
        index = np.arange(passed.columns(i).start, passed.columns(i).stop)
        above = out[link.parent] if link.parent >= 0 else None
        if above is not None:
            columns = tuple(ca.horzcat(up, mine) for up, mine in zip(above[:4], columns, strict=True))
        out.append(_RootPath(*columns, index if above is None else np.r_[above.indices, index], len(index)))
    return out


# ------------------------------------------------------------------------------------------------ blocks
class _ColumnTerms:
    """Effect of displacing one column s of joint i on the subtree that it carries: the quantities of Algorithm 1."""

    def __init__(self, x: Swept, p: int, inertia: Inertia, B: Coriolis, f: Expr) -> None:
        s, psi_dot = x.S[:, p], x.psi_dot[:, p]
        self.s, self.inertia = s, inertia
        self.Is = spatial.apply_inertia(inertia, s)
        self.Bs = coriolis(inertia, s)
        self.A1 = turned_inertia(s, inertia)
        self.A3 = add_coriolis(coriolis(inertia, psi_dot), turned_coriolis(s, B))
        self.moment = B.transposed(s)
        self.by_q = B.times(psi_dot) + spatial.apply_inertia(inertia, x.psi_ddot[:, p]) + spatial.cross_force(s, f)
        self.by_v = B.times(s) + spatial.apply_inertia(inertia, psi_dot + x.S_dot[:, p])


def _blocks(T: _Tensors, i: int, terms: _ColumnTerms, same: bool, x: Swept, path: _RootPath) -> None:
    """All entries of one column i, a joint j (``x``) on its way to the root, and the joints k on the way of j."""
    S, P, PP, fast = x.S, x.psi_dot, x.psi_ddot, x.psi_dot + x.S_dot
    Bs, A1, A3 = terms.Bs, terms.A1, terms.A3
    apply = spatial.apply_inertia
    m, mine = len(path.indices), path.own
    J, K, I = path.indices[m - mine:, None], path.indices[None, :], np.array([[i]])
    above = path.indices[None, : m - mine]  # k strictly above j
    k_S, k_P, k_PP, k_fast = path.S, path.psi_dot, path.psi_ddot, path.fast
    a_S, a_fast = k_S[:, : m - mine], k_fast[:, : m - mine]

    u8 = -(spatial.hat(terms.moment) @ angular(S)) - Bs.transposed(P)
    u9 = cross_columns(S, terms.Is)
    u11 = Bs.transposed(S)
    u2 = apply(A1, S)
    block = u8.T @ angular(k_P) + u9.T @ k_PP
    T.put("qq", block, (I, J, K))
    T.put("qq", block[:, : m - mine], (I, above, J))
    T.put("qv", -(u11.T @ angular(k_P)), (I, K, J))
    T.put("vv", -(u2.T @ k_S[:, m - mine:]), (I, J, path.indices[None, m - mine:]))
    if not same:
        u1 = A3.transposed(S)
        T.put("qq", u1.T @ angular(k_P) + u2.T @ k_PP, (J, K, I), (J, I, K))
        T.put("qv", u1.T @ angular(k_S) + u2.T @ k_fast, (J, I, K))
        T.put("qv", u11.T @ angular(k_P), (J, K, I))
        T.put("vv", u11.T @ angular(k_S), (J, K, I), (J, I, K))
        block = u2.T @ k_S
        T.put("Mq", block, (J, K, I))
        T.put("Mq", block[:, : m - mine], (above, J, I))
    if m == mine:
        return
    u3 = A3.times(P) + apply(A1, PP) + cross_columns(S, terms.by_q)
    u5 = 2 * moment_columns(P, terms.Is) - Bs.K2 @ angular(P) - spatial.hat(terms.moment) @ angular(S)
    u6 = Bs.times(P) + cross_columns(S, terms.by_v)
    T.put("qq", u3.T @ a_S, *([(above, I, J)] if same else [(above, I, J), (above, J, I)]))
    T.put("vv", -(u11.T @ angular(a_S)), (I, J, above), (I, above, J))
    T.put("qv", u5.T @ angular(a_S) + u9.T @ a_fast, (I, J, above))
    T.put("qv", u6.T @ a_S, (above, J, I))
    T.put("Mq", u9.T @ a_S, (above, I, J), (I, above, J))
    if same:
        T.put("vv", (spatial.cross_force(terms.s, apply(terms.inertia, S)) + u9).T @ a_S, (above, J, I))
    else:
        T.put("qv", (A3.times(S) + apply(A1, fast)).T @ a_S, (above, I, J))
        T.put("vv", Bs.times(S).T @ a_S, (above, I, J), (above, J, I))
