"""Joints whose motion subspace S moves in its own coordinates: S and its rate from the pose, and the blocks that derivatives need.

Nothing here knows any dynamics: functions of one joint's handful of variables are differentiated, once for each joint record.
With D_k the right-tangent derivative along velocity component k, and ``D_k D_j`` written at [j, k]:

    first_derivatives(kind): (q, v, a) -> G = S [6, n], ``dG/dt v`` [6], and [6, n] each: D(G v), D(G a + dG/dt v), d(dG/dt v)/dv
    second_derivatives(kind): (q, v, a, lam, w_q, w_t, w_v, w_a [6 each]) -> D(G lam) [6, n]; then [n, n] each, the second
                   derivatives of ``w_t^T G lam + w_v^T G v + w_a^T (G a + dG/dt v)``: qq, to which D_k (w_q^T G)_j is added, then
                   qv, vv, qa
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import casadi as ca

from dynamics.joints.kind import Expr, JointKind, Slices
from dynamics.spatial import Transform, motion


def from_pose(transform: Callable[[Expr], Transform], nq: int, nv: int, rate: Callable[[Expr], Expr] | None = None
              ) -> dict[str, Any]:
    """The fields transform, subspace, bias and slices of a joint known by its pose alone, by differentiation.

    rate(q): N [nq, nv] of the manifold where velocities are not the rates of coordinates.
    """
    q, v = ca.SX.sym("q", nq), ca.SX.sym("v", nv)
    N = ca.SX(rate(q)) if rate else ca.SX.eye(nv)
    R, p = (ca.densify(ca.SX(x)) for x in transform(q))
    columns = []
    for k in range(nv):
        turn = R.T @ ca.reshape(ca.jacobian(ca.vec(R), q) @ N[:, k], 3, 3)
        columns.append(motion(R.T @ (ca.jacobian(p, q) @ N[:, k]), ca.vertcat(turn[2, 1], turn[0, 2], turn[1, 0])))
    S = ca.sparsify(ca.cse(ca.horzcat(*columns)))
    subspace = ca.Function("subspace", [q], [S])
    bias = ca.Function("bias", [q, v], [ca.cse(ca.jacobian(S @ v, q) @ (N @ v))])

    def directional(M: Expr) -> list[Expr]:
        return [ca.reshape(ca.jacobian(ca.vec(ca.densify(M)), q) @ N[:, k], 6, nv) for k in range(nv)]

    def slices(x: Expr) -> Slices:
        first = directional(S)
        return Slices(ca.Function("first", [q], ca.cse(first)).call([x]),
                      lambda k, l: ca.Function("second", [q], [ca.cse(directional(first[k])[l])])(x))

    return {"transform": transform, "subspace": subspace, "bias": bias, "slices": slices}


class Terms(NamedTuple):
    """(q, v, a), G, dG/dt v, and D of a column."""

    symbols: list[ca.SX]
    G: ca.SX
    drift: ca.SX
    derivative: Callable[[ca.SX], ca.SX]


def _terms(kind: JointKind) -> Terms:
    """(q, v, a), G, dG/dt v, and D of a column."""
    q, v, a = ca.SX.sym("q", kind.nq), ca.SX.sym("v", kind.nv), ca.SX.sym("a", kind.nv)
    G, N = ca.SX(kind.subspace(q)), ca.SX(kind.rate(q))
    drift = ca.SX(6, 1) if kind.bias is None else ca.SX(kind.bias(q, v))
    return Terms([q, v, a], G, drift, lambda column: ca.jacobian(column, q) @ N)


@lru_cache(maxsize=4096)
def first_derivatives(kind: JointKind) -> ca.Function:
    """See the module's text."""
    (q, v, a), G, drift, D = _terms(kind)
    return ca.Function("first_derivatives", [q, v, a], ca.cse([G, drift, D(G @ v), D(G @ a + drift), ca.jacobian(drift, v)]))


@lru_cache(maxsize=4096)
def second_derivatives(kind: JointKind) -> ca.Function:
    """See the module's text."""
    (q, v, a), G, drift, D = _terms(kind)
    lam, weights = ca.SX.sym("lam", kind.nv), [ca.SX.sym(name, 6) for name in ("wq", "wt", "wv", "wa")]
    w_q, w_t, w_v, w_a = weights
    value = ca.dot(w_t, G @ lam) + ca.dot(w_v, G @ v) + ca.dot(w_a, G @ a + drift)
    by_q = ca.SX(kind.rate(q)).T @ ca.gradient(value, q)
    results = [D(G @ lam), D(by_q) + D(G.T @ w_q), ca.jacobian(by_q, v), ca.hessian(value, v)[0], ca.jacobian(by_q, a)]
    return ca.Function("second_derivatives", [q, v, a, lam, *weights], ca.cse(results))
