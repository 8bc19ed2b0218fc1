"""Efforts on a tree in the loops: forces of a mechanism, thrusters and constraints, by three generated functions called by
address.

With f(q, v) = B(q) w + the sum of the forces, w the thrusts, J and c = drift + d rate + k g, with the gains (k, d) of each record,
of all constraints at time t stacked [rows], in rows that do not repeat each other within one record, multipliers lambda and
r = J a + c, the functions of (q, v, a, lambda, psi, nu, (t, w), motions of frames) give, one vector each, matrices row by row,

    VALUES  f [nv], J [rows nv], c [rows]
    JACOBIANS df/dq + d(J^T lambda)/dq, D [nv nv each], dr/dq, dr/dv [rows nv each], B [nv thrusters]
    HESSIANS second derivatives of s = nu^T r - psi^T (f + J^T lambda): qq (symmetric), vq, vv, aq [nv nv each];
            -d(J psi)/dq [rows nv], d(B^T psi)/dq [thrusters nv]

and behind them what ``dynamics.loops.ties`` says of constraints that are relations between frames, zero above; where
nothing else acts, that alone. Derivatives by q are right-tangent; by t there are none. How they enter the equations of motion is in
``dynamics.loops.held``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from dynamics.algorithms import rate_matrix
from dynamics.constraints.constraint import FrameConstraint
from dynamics.kernels import Kernel, compile_many
from dynamics.kernels.calls import address_of, call_at, put_integer
from dynamics.kernels.linked import linked
from dynamics.loops import layout as at
from dynamics.loops import ties
from dynamics.loops.lanes import get, put
from dynamics.loops.vectors import INLINE, OPTIONS
from dynamics.mechanism import ByFingerprint, Mechanism
from dynamics.mechanism.constrained import demanded, reduced

Array = np.ndarray
VALUES, SLOPES, BENDS = range(3)
Q, V, A, LAM, PSI, NU, GIVEN, MOTIONS = range(8)


class Sizes(NamedTuple):
    """How many numbers a function gives: values, first and second derivatives."""

    values: int
    first_order: int
    seconds: int


class Acting(NamedTuple):
    """The three functions of a mechanism; rows of its constraints; whether something acts by coordinates; relations of frames."""

    kernels: tuple[Kernel, ...]
    rows: int
    whole: bool
    relations: tuple[ties.Tie, ...]


# ---- made with the tables
def sizes(nv: int, rows: int, thrusters: int) -> Sizes:
    """How many numbers each function gives of what acts by coordinates."""
    return Sizes(nv + rows * nv + rows, (2 * nv + 2 * rows + thrusters) * nv, (4 * nv + rows + thrusters) * nv)


def acts(mechanism: Mechanism) -> bool:
    """Whether anything but motors acts on the tree."""
    return bool(mechanism.forces or mechanism.thrusters or mechanism.constraints)


def compiled(mechanism: Mechanism, by_frames: bool) -> Acting:
    """Forces, drives and constraints of a mechanism; by_frames: whether relations between frames are taken as such."""
    return _compiled(ByFingerprint(mechanism), by_frames)


@lru_cache(maxsize=16)
def _compiled(key: ByFingerprint, by_frames: bool) -> Acting:
    mechanism = key.mechanism
    model, all_held = mechanism.model, reduced(mechanism.constraints)
    held = ties.ties(model, all_held) if by_frames else ()
    whole = bool(mechanism.forces or mechanism.thrusters or not by_frames
                 or not all(isinstance(c, FrameConstraint) for c in all_held))
    rows = sum(c.size(model) for c in all_held)
    q, v, a = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv), ca.SX.sym("a", model.nv)
    given, motions = ca.SX.sym("given", 1 + len(mechanism.thrusters)), ca.SX.sym(
        "motions", ties.MOTION * sum(len(tie.moving) for tie in held))
    lam, psi, nu = ca.SX.sym("lam", rows), ca.SX.sym("psi", model.nv), ca.SX.sym("nu", rows)
    own = ties.functions(model, held, motions, lam, nu, given[0])
    results: tuple[list[Any], ...] = own
    if whole:
        others = tuple(None if by_frames and isinstance(c, FrameConstraint) else c for c in all_held)
        sizes_of = [c.size(model) for c in all_held]
        found = _by_coordinates(mechanism, tuple(zip(others, sizes_of, strict=True)), (q, v, a, lam, psi, nu, given))
        results = tuple([*x, *y] for x, y in zip(found, own, strict=True))
    inputs = [q, v, a, lam, psi, nu, given, motions]
    kernels = compile_many([ca.Function(name, inputs, ca.cse([ca.densify(ca.vertcat(ca.SX(0, 1), *parts))]))
                            for name, parts in zip(("values", "slopes", "bends"), results, strict=True)], mode="jit")
    return Acting(kernels, rows, whole, held)


def _by_coordinates(mechanism: Mechanism, equations: Any, symbols: tuple[ca.SX, ...]) -> tuple[list[Any], ...]:
    """The three functions of forces, thrusters and constraints; equations: constraints, rows of their Jacobian; None: zero."""
    model, (q, v, a, lam, psi, nu, given) = mechanism.model, symbols
    t, thrusts = given[0], given[1:]
    J = ca.vertcat(ca.SX(0, model.nv), *(ca.SX(rows, model.nv) if c is None else c.jacobian(model, q, t) for c, rows in equations))
    c = ca.vertcat(ca.SX(0, 1), *(ca.SX(rows, 1) if c is None else -demanded(model, (c,), q, v, t) for c, rows in equations))
    N, pushed = rate_matrix(model, q), ca.SX(mechanism.thrust_effort(q, thrusts))
    f, B = ca.SX(mechanism.force(q, v)) + pushed, ca.jacobian(pushed, thrusts)

    def by_q(x: Any) -> Any:
        return ca.jacobian(x, q) @ N

    r = J @ a + c
    s = ca.dot(nu, r) - ca.dot(psi, f + J.T @ lam)
    s_q = N.T @ ca.gradient(s, q)
    turned = by_q(s_q)
    s_v = ca.gradient(s, v)
    return ([f, _rows(J), c],
            [_rows(mechanism.stiffness(q, v) + by_q(pushed + J.T @ lam)), _rows(mechanism.damping(q, v)), _rows(by_q(r)),
             _rows(ca.jacobian(r, v)), _rows(B)],
            [_rows((turned + turned.T) / 2), _rows(by_q(s_v)), _rows(ca.jacobian(s_v, v)), _rows(by_q(J.T @ nu)),
             _rows(-by_q(J @ psi)), _rows(by_q(B.T @ psi))])


def _rows(matrix: Any) -> ca.SX:
    return ca.vec(ca.densify(ca.SX(matrix)).T)


# ---- inside loops
@linked(**OPTIONS)
def keep(table: Array, work: Array, which: int, x: Array) -> None:
    """Copy x to an input of the functions that act on the tree."""
    to = get(table, get(table, at.AT_ACTING) + at.ACT_INPUTS + which)
    for i in range(x.shape[0]):
        put(work, to + i, get(x, i))


@linked(**OPTIONS)
def clear(table: Array, work: Array, which: int, count: int) -> None:
    """Set an input of the functions that act on the tree to zero."""
    to = get(table, get(table, at.AT_ACTING) + at.ACT_INPUTS + which)
    for i in range(count):
        put(work, to + i, 0.0)


@linked(**OPTIONS)
def evaluate(table: Array, work: Array, which: int) -> int:
    """Run one of the three functions; where its results are. A failure would leave NaN."""
    record, own = get(table, at.AT_ACTING), address_of(work)
    arg, res = get(table, record + at.ACT_MEMORY), get(table, record + at.ACT_MEMORY + 1)
    for k in range(8):
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
    """Where B [nv, thrusters] is, after ``held.differentiate``."""
    nv = get(table, at.N_V)
    return get(table, get(table, at.AT_ACTING) + 3 * SLOPES + 2) + 2 * nv * (nv + get(table, at.N_ROWS))


@linked(**OPTIONS)
def thrust_derivatives(table: Array) -> int:
    """Where d(B^T psi)/dq [thrusters, nv] is, after ``held.differentiate_twice``."""
    nv = get(table, at.N_V)
    return get(table, get(table, at.AT_ACTING) + 3 * BENDS + 2) + nv * (4 * nv + get(table, at.N_ROWS))


@linked(**INLINE)
def whole(table: Array) -> bool:
    """Whether something acts by coordinates."""
    record = get(table, at.AT_ACTING)
    return record > 0 and get(table, record + at.ACT_WHOLE) != 0


@linked(**OPTIONS)
def push(table: Array, work: Array, q: Array, v: Array, weight: float, tau: Array) -> None:
    """``tau += weight f(q, v)``; leaves J and c."""
    keep(table, work, Q, q)
    keep(table, work, V, v)
    f = evaluate(table, work, VALUES)
    for i in range(get(table, at.N_V) if whole(table) else 0):
        put(tau, i, get(tau, i) + weight * get(work, f + i))


# ---- inverse dynamics: forces only; what constraints have to give is part of the answer
@linked(**OPTIONS)
def add_inverse_first_order(table: Array, work: Array, q: Array, v: Array, out: Array) -> None:
    """Subtract K and D from the first two blocks of out [., nv, nv]."""
    nv = get(table, at.N_V)
    keep(table, work, Q, q)
    keep(table, work, V, v)
    clear(table, work, LAM, get(table, at.N_ROWS))
    slopes = evaluate(table, work, SLOPES)
    for k in range(2 * nv * nv):
        put(out, k, get(out, k) - get(work, slopes + k))


@linked(**OPTIONS)
def add_inverse_second_order(table: Array, work: Array, q: Array, v: Array, lam: Array, out: Array) -> None:
    """Add the second derivatives of ``-lam^T f`` to out [4, nv, nv]."""
    nv, rows = get(table, at.N_V), get(table, at.N_ROWS)
    keep(table, work, Q, q)
    keep(table, work, V, v)
    keep(table, work, PSI, lam)
    clear(table, work, LAM, rows)
    clear(table, work, NU, rows)
    bends = evaluate(table, work, BENDS)
    for k in range(3 * nv * nv):
        put(out, k, get(out, k) + get(work, bends + k))
