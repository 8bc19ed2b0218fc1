"""Loops over joints of which only pose and S(q) are known: small compiled functions of these joints, called by address.

Such a joint is a free body to the loops, whose pose, G = S(q) and rates come from four functions of all such joints of a model,
made and compiled when its tables are: ``dynamics.joints.moving`` with the coordinates of the model. All take (q, v, a, lam, w),
which ``fill_poses``, ``move``, ``accelerate``, ``weigh`` leave in the workspace, and give one vector, there too, joint after joint:

    POSE    columns of R [9], p [3], G [6 n]                    RATE    dG/dt v [6]
    JACOBIANS D(G v), D(G a + dG/dt v), d(dG/dt v)/dv [6 n each], D_k (w_t^T G)_j [n n]
    HESSIANS D(G lam) [6 n], qq, qv, vv, qa [n n each]

Matrices are written row by row. The weights w are 24 numbers for each joint: w_q, w_t, w_v, w_a.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from dynamics.algorithms.reduced_tree import Link, ReducedTree
from dynamics.joints.moving import first_derivatives, second_derivatives
from dynamics.kernels import Kernel, compile_many
from dynamics.kernels.calls import address_of, call_at, put_integer
from dynamics.kernels.linked import linked
from dynamics.loops import layout as at
from dynamics.loops.lanes import WIDTH, get, put
from dynamics.loops.vectors import OPTIONS

Array = np.ndarray
POSE, RATE, SLOPES, BENDS = range(4)
WEIGHTS = 24


class Sizes(NamedTuple):
    """How many numbers a function of a joint gives: pose and S, drift, first and second derivatives."""

    pose: int
    drift: int
    first_order: int
    seconds: int


# ---- made with the tables
def sizes(link: Link) -> Sizes:
    """How many numbers each function gives for one joint."""
    n = link.kind.nv
    return Sizes(12 + 6 * n, 6, 18 * n + n * n, 6 * n + 4 * n * n)


def compiled(reduced: ReducedTree, nq: int) -> tuple[Kernel, ...]:
    """The four functions of a robot's general links."""
    q, v, a, lam = (ca.SX.sym(name, n) for name, n in zip(("q", "v", "a", "lam"), (nq, *[reduced.nv] * 3), strict=True))
    w = ca.SX.sym("w", WEIGHTS * len(reduced.moving))
    out: list[list[ca.SX]] = [[], [], [], []]
    for i, link in enumerate(reduced.moving):
        m, own = link.multiplier, [link.coordinates(q), *(link.velocities(x) for x in (v, a, lam))]
        weights = ca.vertsplit(w[WEIGHTS * i:WEIGHTS * (i + 1)], 6)
        pose, (G, drift, *rates) = link.kind.transform(own[0]), first_derivatives(link.kind)(*own[:3])
        turn = second_derivatives(link.kind)(*own[:3], ca.DM(link.kind.nv, 1), weights[1], *[ca.DM(6, 1)] * 3)[1]
        first, *second = second_derivatives(link.kind)(*own, *weights)
        out[POSE] += [ca.vec(ca.SX(pose.R)), ca.SX(pose.p), _rows(m * G)]
        out[RATE] += [drift]
        out[SLOPES] += [*(_rows(m * x) for x in rates), _rows(m**2 * turn)]
        out[BENDS] += [_rows(m * first), *(_rows(m**2 * x) for x in second)]
    names = ("pose", "rate", "slopes", "bends")
    return compile_many([ca.Function(name, [q, v, a, lam, w], ca.cse([ca.densify(ca.vertcat(*parts))]))
                         for name, parts in zip(names, out, strict=True)], mode="jit")


def _rows(matrix: Any) -> ca.SX:
    return ca.vec(ca.densify(ca.SX(matrix)).T)


# ---- inside loops
@linked(**OPTIONS)
def remember(table: Array, work: Array, which: int, x: Array) -> None:
    """Keep an argument of the functions: q (0), v, a or lam (3)."""
    to = get(table, get(table, at.AT_HOOKS) + at.HOOK_INPUTS + which)
    for i in range(x.shape[0]):
        put(work, to + i, get(x, i))


@linked(**OPTIONS)
def evaluate(table: Array, work: Array, which: int) -> None:
    """Run one of the four functions. A failure would leave NaN."""
    hooks, own = get(table, at.AT_HOOKS), address_of(work)
    record, arg, res = hooks + 3 * which, get(table, hooks + at.HOOK_MEMORY), get(table, hooks + at.HOOK_MEMORY + 1)
    for k in range(5):
        put_integer(work, arg + k, own + 8 * get(table, hooks + at.HOOK_INPUTS + k))
    to = get(table, record + 2)
    put_integer(work, res, own + 8 * to)
    status = call_at(get(table, record), get(table, record + 1), own + 8 * arg, own + 8 * res,
                     own + 8 * get(table, hooks + at.HOOK_MEMORY + 2), own + 8 * get(table, hooks + at.HOOK_MEMORY + 3))
    if status != 0:
        put(work, to, np.nan)


@linked(**OPTIONS)
def spread(table: Array, work: Array, row: int, x: Array) -> None:
    """G x into a row of the columns of the general links. x: [nv]."""
    for g in range(get(table, at.N_GENERAL)):
        record = get(table, at.AT_GENERAL) + at.GENERAL * g
        first, v, n = get(table, record), get(table, record + 1), get(table, record + 2)
        G = get(table, record + 3 + POSE) + 12
        for c in range(6):
            total = 0.0
            for j in range(n):
                total += get(work, G + c * n + j) * get(x, v + j)
            put(work, (first + c) // WIDTH * at.ROWS + (first + c) % WIDTH + row, total)


@linked(**OPTIONS)
def add_rates(table: Array, work: Array, row: int) -> None:
    """Add ``dG/dt v`` to a row of the columns of the general links."""
    for g in range(get(table, at.N_GENERAL)):
        record = get(table, at.AT_GENERAL) + at.GENERAL * g
        first, rate = get(table, record), get(table, record + 3 + RATE)
        for c in range(6):
            to = (first + c) // WIDTH * at.ROWS + (first + c) % WIDTH + row
            put(work, to, get(work, to) + get(work, rate + c))
