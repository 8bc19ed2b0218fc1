"""Efforts on a tree in the loops: forces of a mechanism, thrusters and constraints, by three generated functions called by
address.

With f(q, v) = B(q) w + the sum of the forces, w the thrusts, J and c = drift + 2 RATE rate + RATE^2 g of all constraints at time t
stacked [rows], in rows that do not repeat each other within one record, multipliers lambda and r = J a + c, the functions of
(q, v, a, lambda, psi, nu, (t, w)) give, one vector each, matrices row by row,

    VALUES  f [nv], J [rows nv], c [rows]
    SLOPES  df/dq + d(J^T lambda)/dq, D [nv nv each], dr/dq, dr/dv [rows nv each], B [nv thrusters]
    BENDS   second derivatives of s = nu^T r - psi^T (f + J^T lambda): qq (symmetric), vq, vv, aq [nv nv each];
            -d(J psi)/dq [rows nv], d(B^T psi)/dq [thrusters nv]

Derivatives by q are right-tangent; by t there are none. Rows may depend on each other: (A + eps) lambda = b is refined as in
``dynamics.mechanism.Mechanism.constrained_dynamics``. First derivatives follow from M da = -dID + d(f + J^T lambda) and J da = -dr;
second ones from the stationary point of mu^T a - psi^T (ID - tau - f - J^T lambda) - nu^T r in (a, lambda), which is at
psi = M^-1 (mu - J^T nu), J psi = 0.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from dynamics.algorithms import rate_matrix
from dynamics.algorithms.saddle import EPSILON
from dynamics.kernels import Kernel, compile_many
from dynamics.kernels.calls import address_of, call_at, put_integer
from dynamics.kernels.linked import linked
from dynamics.loops import layout as at
from dynamics.loops.factor import solve
from dynamics.loops.lanes import get, put
from dynamics.loops.vectors import OPTIONS
from dynamics.mechanism import ByFingerprint, Mechanism
from dynamics.mechanism.constrained import demanded, reduced, stacked

Array = np.ndarray
VALUES, SLOPES, BENDS = range(3)
Q, V, A, LAM, PSI, NU, GIVEN = range(7)
REFINED = 3


class Sizes(NamedTuple):
    """How many numbers a function gives: values, slopes, and second derivatives."""

    values: int
    slopes: int
    seconds: int


# ---- made with the tables
def sizes(nv: int, rows: int, thrusters: int) -> Sizes:
    """How many numbers each function gives."""
    return Sizes(nv + rows * nv + rows, (2 * nv + 2 * rows + thrusters) * nv, (4 * nv + rows + thrusters) * nv)


def acts(mechanism: Mechanism) -> bool:
    """Whether anything but motors acts on the tree."""
    return bool(mechanism.forces or mechanism.thrusters or mechanism.constraints)


def compiled(mechanism: Mechanism) -> tuple[tuple[Kernel, ...], int]:
    """The three functions of a mechanism, and how many rows its constraints have."""
    return _compiled(ByFingerprint(mechanism))


@lru_cache(maxsize=16)
def _compiled(key: ByFingerprint) -> tuple[tuple[Kernel, ...], int]:
    mechanism = key.mechanism
    model, held = mechanism.model, reduced(mechanism.constraints)
    q, v, a = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv), ca.SX.sym("a", model.nv)
    t, thrusts = ca.SX.sym("t"), ca.SX.sym("w", len(mechanism.thrusters))
    J = ca.vertcat(ca.SX(0, model.nv), stacked(model, held, "jacobian", q, t)) if held else ca.SX(0, model.nv)
    c = -demanded(model, held, q, v, t) if held else ca.SX(0, 1)
    rows = J.shape[0]
    lam, psi, nu = ca.SX.sym("lam", rows), ca.SX.sym("psi", model.nv), ca.SX.sym("nu", rows)
    N, pushed = rate_matrix(model, q), ca.SX(mechanism.thrust_effort(q, thrusts))
    f, B = ca.SX(mechanism.force(q, v)) + pushed, ca.jacobian(pushed, thrusts)

    def by_q(x: Any) -> Any:
        return ca.jacobian(x, q) @ N

    r = J @ a + c
    s = ca.dot(nu, r) - ca.dot(psi, f + J.T @ lam)
    s_q = N.T @ ca.gradient(s, q)
    turned = by_q(s_q)
    s_v = ca.gradient(s, v)
    results = ([f, _rows(J), c],
               [_rows(mechanism.stiffness(q, v) + by_q(pushed + J.T @ lam)), _rows(mechanism.damping(q, v)), _rows(by_q(r)),
                _rows(ca.jacobian(r, v)), _rows(B)],
               [_rows((turned + turned.T) / 2), _rows(by_q(s_v)), _rows(ca.jacobian(s_v, v)), _rows(by_q(J.T @ nu)),
                _rows(-by_q(J @ psi)), _rows(by_q(B.T @ psi))])
    inputs = [q, v, a, lam, psi, nu, ca.vertcat(t, thrusts)]
    kernels = compile_many([ca.Function(name, inputs, ca.cse([ca.densify(ca.vertcat(*parts))]))
                            for name, parts in zip(("values", "slopes", "bends"), results, strict=True)], mode="jit")
    return kernels, rows


def _rows(matrix: Any) -> ca.SX:
    return ca.vec(ca.densify(ca.SX(matrix)).T)


# ---- inside loops
@linked(**OPTIONS)
def _keep(table: Array, work: Array, which: int, x: Array) -> None:
    to = get(table, get(table, at.AT_ACTING) + at.ACT_INPUTS + which)
    for i in range(x.shape[0]):
        put(work, to + i, get(x, i))


@linked(**OPTIONS)
def _clear(table: Array, work: Array, which: int, count: int) -> None:
    to = get(table, get(table, at.AT_ACTING) + at.ACT_INPUTS + which)
    for i in range(count):
        put(work, to + i, 0.0)


@linked(**OPTIONS)
def _evaluate(table: Array, work: Array, which: int) -> int:
    """Run one of the three functions; where its results are. A failure would leave NaN."""
    record, own = get(table, at.AT_ACTING), address_of(work)
    arg, res = get(table, record + at.ACT_MEMORY), get(table, record + at.ACT_MEMORY + 1)
    for k in range(7):
        put_integer(work, arg + k, own + 8 * get(table, record + at.ACT_INPUTS + k))
    to = get(table, record + 3 * which + 2)
    put_integer(work, res, own + 8 * to)
    status = call_at(get(table, record + 3 * which), get(table, record + 3 * which + 1), own + 8 * arg, own + 8 * res,
                     own + 8 * get(table, record + at.ACT_MEMORY + 2), own + 8 * get(table, record + at.ACT_MEMORY + 3))
    if status != 0:
        put(work, to, np.nan)
    return to


@linked(**OPTIONS)
def give(table: Array, work: Array, t: float, u: Array, first: int, count: int) -> None:
    """Keep the time [s] and the thrusts [N], count numbers from the first in u on, for what is computed next."""
    if get(table, at.AT_ACTING) > 0:
        to = get(table, get(table, at.AT_ACTING) + at.ACT_INPUTS + GIVEN)
        put(work, to, t)
        for i in range(count):
            put(work, to + 1 + i, get(u, first + i))


@linked(**OPTIONS)
def directions(table: Array) -> int:
    """Where B [nv, thrusters] is, after ``add_slopes``."""
    nv = get(table, at.N_V)
    return get(table, get(table, at.AT_ACTING) + 3 * SLOPES + 2) + 2 * nv * (nv + get(table, at.N_ROWS))


@linked(**OPTIONS)
def turns(table: Array) -> int:
    """Where d(B^T psi)/dq [thrusters, nv] is, after ``add_products``."""
    nv = get(table, at.N_V)
    return get(table, get(table, at.AT_ACTING) + 3 * BENDS + 2) + nv * (4 * nv + get(table, at.N_ROWS))


@linked(**OPTIONS)
def push(table: Array, work: Array, q: Array, v: Array, weight: float, tau: Array) -> None:
    """``tau += weight f(q, v)``; leaves J and c."""
    _keep(table, work, Q, q)
    _keep(table, work, V, v)
    f = _evaluate(table, work, VALUES)
    for i in range(get(table, at.N_V)):
        put(tau, i, get(tau, i) + weight * get(work, f + i))


@linked(**OPTIONS)
def constrain(table: Array, work: Array, a: Array) -> None:
    """From the free acceleration to that under the constraints, after ``push``; needs the factors of M, leaves the multipliers."""
    nv, rows, record = get(table, at.N_V), get(table, at.N_ROWS), get(table, at.AT_ACTING)
    across, A, scratch = (get(table, record + at.ACT_ACROSS), get(table, record + at.ACT_A), get(table, record + at.ACT_SCRATCH))
    J = get(table, record + 3 * VALUES + 2) + nv
    for i in range(rows):
        row = work[across + i * nv:across + (i + 1) * nv]
        for k in range(nv):
            put(row, k, get(work, J + i * nv + k))
        solve(table, work, row)
    for i in range(rows):
        total = -get(work, J + rows * nv + i)
        for k in range(nv):
            total -= get(work, J + i * nv + k) * get(a, k)
        put(work, scratch + i, total)
        for j in range(rows):
            total = 0.0
            for k in range(nv):
                total += get(work, J + i * nv + k) * get(work, across + j * nv + k)
            put(work, A + i * rows + j, total)
    _factorise(table, work)
    lam = get(table, record + at.ACT_INPUTS + LAM)
    _refine(table, work, lam, 1)
    for i in range(nv):
        total = get(a, i)
        for j in range(rows):
            total += get(work, across + j * nv + i) * get(work, lam + j)
        put(a, i, total)


@linked(**OPTIONS)
def _factorise(table: Array, work: Array) -> None:
    """Lower triangular L with ``L L^T = A + eps``."""
    rows, record = get(table, at.N_ROWS), get(table, at.AT_ACTING)
    A, L = get(table, record + at.ACT_A), get(table, record + at.ACT_FACTORS)
    small = 0.0
    for i in range(rows):
        small += get(work, A + i * rows + i) * EPSILON / rows
    for i in range(rows):
        for j in range(i + 1):
            total = get(work, A + i * rows + j) + (small if i == j else 0.0)
            for k in range(j):
                total -= get(work, L + i * rows + k) * get(work, L + j * rows + k)
            put(work, L + i * rows + j, np.sqrt(total) if i == j else total / get(work, L + j * rows + j))


@linked(**OPTIONS)
def _refine(table: Array, work: Array, x: int, stride: int) -> None:
    """Solve ``A x = b`` for b from the scratch; x at an address with a stride."""
    rows, record = get(table, at.N_ROWS), get(table, at.AT_ACTING)
    A, L, b = get(table, record + at.ACT_A), get(table, record + at.ACT_FACTORS), get(table, record + at.ACT_SCRATCH)
    z = b + rows
    for n in range(REFINED):
        for i in range(rows):
            total = get(work, b + i)
            if n > 0:
                for j in range(rows):
                    total -= get(work, A + i * rows + j) * get(work, x + j * stride)
            put(work, z + rows + i, total)
        for i in range(rows):
            total = get(work, z + rows + i)
            for j in range(i):
                total -= get(work, L + i * rows + j) * get(work, z + j)
            put(work, z + i, total / get(work, L + i * rows + i))
        for i in range(rows - 1, -1, -1):
            total = get(work, z + i)
            for j in range(i + 1, rows):
                total -= get(work, L + j * rows + i) * get(work, z + j)
            put(work, z + i, total / get(work, L + i * rows + i))
        for i in range(rows):
            put(work, x + i * stride, get(work, z + i) + (get(work, x + i * stride) if n > 0 else 0.0))


@linked(**OPTIONS)
def add_slopes(table: Array, work: Array, a: Array, out: Array) -> None:
    """From out [3, nv, nv] of the tree under constant forces, ``-M^-1 dID`` and M^-1, to the derivatives of a."""
    nv, rows, record = get(table, at.N_V), get(table, at.N_ROWS), get(table, at.AT_ACTING)
    size = nv * nv
    _keep(table, work, A, a)
    slopes = _evaluate(table, work, SLOPES)
    for k in range(2):
        for i in range(nv):
            for j in range(nv):
                factor = get(out, 2 * size + i * nv + j)
                for c in range(nv):
                    to = k * size + i * nv + c
                    put(out, to, get(out, to) + factor * get(work, slopes + k * size + j * nv + c))
    if rows == 0:
        return
    across, J = get(table, record + at.ACT_ACROSS), get(table, record + 3 * VALUES + 2) + nv
    found, b = get(table, record + at.ACT_SLOPES), get(table, record + at.ACT_SCRATCH)
    for k in range(3):
        bent = slopes + 2 * size + k * rows * nv
        for c in range(nv):
            for r in range(rows):
                total = -get(work, bent + r * nv + c) if k < 2 else 0.0
                for j in range(nv):
                    total -= get(work, J + r * nv + j) * get(out, k * size + j * nv + c)
                put(work, b + r, total)
            _refine(table, work, found + k * rows * nv + c, nv)
        for i in range(nv):
            for r in range(rows):
                factor = get(work, across + r * nv + i)
                for c in range(nv):
                    to = k * size + i * nv + c
                    put(out, to, get(out, to) + factor * get(work, found + (k * rows + r) * nv + c))


@linked(**OPTIONS)
def weights(table: Array, work: Array, mu: Array, first: Array, psi: Array) -> None:
    """psi [nv] and nu of the contraction by mu, after ``add_slopes``."""
    nv, rows, record = get(table, at.N_V), get(table, at.N_ROWS), get(table, at.AT_ACTING)
    for i in range(nv):
        total = 0.0
        for j in range(nv):
            total += get(first, 2 * nv * nv + i * nv + j) * get(mu, j)
        put(psi, i, total)
    _keep(table, work, PSI, psi)
    found, nu = get(table, record + at.ACT_SLOPES) + 2 * rows * nv, get(table, record + at.ACT_INPUTS + NU)
    for r in range(rows):
        total = 0.0
        for j in range(nv):
            total -= get(work, found + r * nv + j) * get(mu, j)
        put(work, nu + r, total)


@linked(**OPTIONS)
def add_products(table: Array, work: Array, first: Array, out: Array) -> None:
    """Add ``(da/dz)^T s_aq - (dlambda/dz)^T d(J psi)/dq`` for z = q, v, tau to blocks 0, 1, 3 of out, half of s_qq to block 0 and
    s_vq to block 1, after ``weights``; leaves the second derivatives."""
    nv, rows, record = get(table, at.N_V), get(table, at.N_ROWS), get(table, at.AT_ACTING)
    size, bends = nv * nv, _evaluate(table, work, BENDS)
    found = get(table, record + at.ACT_SLOPES)
    for k in range(size):
        put(out, k, get(out, k) + 0.5 * get(work, bends + k))
        put(out, size + k, get(out, size + k) + get(work, bends + size + k))
    if rows == 0:
        return
    for k in range(3):
        block = (0, size, 3 * size)[k]
        for i in range(nv):
            for j in range(nv):
                total = get(out, block + i * nv + j)
                for n in range(nv):
                    total += get(first, k * size + n * nv + i) * get(work, bends + 3 * size + n * nv + j)
                for r in range(rows):
                    total += get(work, found + (k * rows + r) * nv + i) * get(work, bends + 4 * size + r * nv + j)
                put(out, block + i * nv + j, total)


@linked(**OPTIONS)
def take_vv(table: Array, work: Array, out: Array) -> None:
    """Subtract s_vv from block 2 of out, after ``add_products``."""
    size = get(table, at.N_V) ** 2
    bends = get(table, get(table, at.AT_ACTING) + 3 * BENDS + 2)
    for k in range(size):
        put(out, 2 * size + k, get(out, 2 * size + k) - get(work, bends + 2 * size + k))


# ---- inverse dynamics: forces only; what constraints have to give is part of the answer
@linked(**OPTIONS)
def inverse_slopes(table: Array, work: Array, q: Array, v: Array, out: Array) -> None:
    """Subtract K and D from the first two blocks of out [., nv, nv]."""
    nv = get(table, at.N_V)
    _keep(table, work, Q, q)
    _keep(table, work, V, v)
    _clear(table, work, LAM, get(table, at.N_ROWS))
    slopes = _evaluate(table, work, SLOPES)
    for k in range(2 * nv * nv):
        put(out, k, get(out, k) - get(work, slopes + k))


@linked(**OPTIONS)
def inverse_gradient(table: Array, work: Array, q: Array, v: Array, lam: Array, out: Array) -> None:
    """Subtract ``K^T lam`` and ``D^T lam`` from the first two rows of out [3, nv]."""
    nv = get(table, at.N_V)
    _keep(table, work, Q, q)
    _keep(table, work, V, v)
    _clear(table, work, LAM, get(table, at.N_ROWS))
    slopes = _evaluate(table, work, SLOPES)
    for k in range(2):
        for i in range(nv):
            for j in range(nv):
                put(out, k * nv + j, get(out, k * nv + j) - get(work, slopes + (k * nv + i) * nv + j) * get(lam, i))


@linked(**OPTIONS)
def inverse_bends(table: Array, work: Array, q: Array, v: Array, lam: Array, out: Array) -> None:
    """Add the second derivatives of ``-lam^T f`` to out [4, nv, nv]."""
    nv, rows = get(table, at.N_V), get(table, at.N_ROWS)
    _keep(table, work, Q, q)
    _keep(table, work, V, v)
    _keep(table, work, PSI, lam)
    _clear(table, work, LAM, rows)
    _clear(table, work, NU, rows)
    bends = _evaluate(table, work, BENDS)
    for k in range(3 * nv * nv):
        put(out, k, get(out, k) + get(work, bends + k))
