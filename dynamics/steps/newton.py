"""Newton's method for the stages of implicit steps, and whole stretches of such steps, as compiled loops over kernels.

Kernels come by address, so that one machine code serves all systems. Work arrays are given; nothing is allocated.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dynamics.kernels.calls import address_of, call, row_address
from dynamics.kernels.linked import PLAIN, linked
from dynamics.kernels.record import Record

Array = np.ndarray
OPTIONS: dict[str, Any] = {**PLAIN, "cache": True, "error_model": "numpy"}
SOLVED, NOT_FINITE, SINGULAR, NOT_CONVERGED, ASTRAY = range(5)
STAGE, REACHED, BACK, RUNNING = range(4)  # kernels
PASSES, GIVES = 0.75, 0.25
"""A whole step has to bring the residual to this share of it, a halved one down by this share of what it promises."""


class Work(Record):
    """Kernels, and what Newton's method works on. where [4, 2]: their addresses and handles; arg, res, iw, w: of calls; trial,
    move, weights, order [nz], G [nz], J [nz nz]; numbers: tolerance, time and gamma h [s] of the stage; limits: iterations,
    halvings, whether a stage starts where velocities carry it."""

    where: Array
    arg: Array
    res: Array
    iw: Array
    w: Array
    trial: Array
    G: Array
    J: Array
    move: Array
    weights: Array
    order: Array
    numbers: Array
    limits: Array


class Stretch(Record):
    """Steps of one kind. scheme [N, s, 2 s + 4]: of each stage gamma, its time, a of the beginning and of the state before, then a
    and b of the stages of the step; t [N+1]; x [N+1, nx] and u [N, nu]: x[0] is given; before [nx]; z [nz]: start, then the last
    solution; rose [l] and rises [N, l]; nodes [N s, nx], found [N s, nz], iterations [N s]: of every stage. Y, K [s + 2, n],
    L [s + 2, 2 l]: coordinates in the chart of x_n, derivatives and integrands of the beginning, the state before, and the stages;
    known [n]: of a stage."""

    scheme: Array
    t: Array
    x: Array
    before: Array
    u: Array
    p: Array
    z: Array
    rose: Array
    nodes: Array
    found: Array
    rises: Array
    iterations: Array
    Y: Array
    K: Array
    L: Array
    known: Array


class Plain(Record):
    """Steps of a kernel (t, x, u, p, h) -> (x after, rises) and what calls of it work on: t [N], x [N+1, nx], u [N, nu], h [N],
    rises [N, l]."""

    address: int
    handle: int
    arg: Array
    res: Array
    iw: Array
    w: Array
    x: Array
    t: Array
    u: Array
    p: Array
    h: Array
    rises: Array


@linked(**OPTIONS)
def _call(work: Work, kernel: int) -> int:
    return int(call(work.where[kernel, 0], work.where[kernel, 1], work.arg, work.res, work.iw, work.w))


@linked(**OPTIONS)
def factorise(A: Array, n: int, order: Array) -> bool:
    """LU factors in the place of A [n, n], rows exchanged by the largest entry of a column; False where it is singular."""
    for k in range(n):
        best = k
        for i in range(k + 1, n):
            if abs(A[i + k * n]) > abs(A[best + k * n]):
                best = i
        order[k] = best
        if not abs(A[best + k * n]) > 0.0:
            return False
        if best != k:
            for j in range(n):
                A[k + j * n], A[best + j * n] = A[best + j * n], A[k + j * n]
        inverse = 1.0 / A[k + k * n]
        for i in range(k + 1, n):
            A[i + k * n] *= inverse
        for j in range(k + 1, n):
            top = A[k + j * n]
            if top != 0.0:
                for i in range(k + 1, n):
                    A[i + j * n] -= A[i + k * n] * top
    return True


@linked(**OPTIONS)
def substitute(A: Array, n: int, order: Array, x: Array) -> None:
    """x [n] <- A^-1 x by the factors."""
    for k in range(n):
        x[k], x[order[k]] = x[order[k]], x[k]
    for k in range(n):
        for i in range(k + 1, n):
            x[i] -= A[i + k * n] * x[k]
    for k in range(n - 1, -1, -1):
        x[k] /= A[k + k * n]
        for i in range(k):
            x[i] -= A[i + k * n] * x[k]


@linked(**OPTIONS)
def _weighed(G: Array, weights: Array, n: int) -> float:
    total = 0.0
    for i in range(n):
        total += (weights[i] * G[i]) ** 2
    return math.sqrt(total)


@linked(**OPTIONS)
def _largest(x: Array, n: int) -> float:
    """NaN where one of them is."""
    found = 0.0
    for i in range(n):
        found = abs(x[i]) if not abs(x[i]) <= found else found
    return found


@linked(**OPTIONS)
def _weigh(J: Array, n: int, own: bool, weights: Array) -> None:
    """One over the diagonal of J, of rows without one over their length; ones where rows are not weighed."""
    for i in range(n):
        size = abs(J[i + i * n])
        if size == 0.0:
            for j in range(n):
                size += J[i + j * n] ** 2
            size = math.sqrt(size)
        weights[i] = 1.0 if not own or size == 0.0 else 1.0 / size


@linked(**OPTIONS)
def solve(work: Work, z: Array) -> tuple[int, int]:
    """(status, iterations) of Newton's method from z, which becomes the solution; where it does not converge, from 0, and then with
    every row over its entry on the diagonal of J. work.arg: addresses of all arguments but z."""
    n, total, status, trial, G, J, move = z.shape[0], 0, NOT_CONVERGED, work.trial, work.G, work.J, work.move
    work.res[0], work.res[1], work.arg[0] = address_of(G), address_of(J), address_of(trial)
    for attempt in range(3):
        for i in range(n):
            z[i] = trial[i] = z[i] if attempt == 0 else 0.0
        status = NOT_CONVERGED if _call(work, STAGE) == 0 else NOT_FINITE
        for _ in range(work.limits[0]):
            if status != NOT_CONVERGED or not (math.isfinite(_largest(G, n)) and math.isfinite(_largest(J, n * n))):
                status = NOT_FINITE
                break
            total += 1
            _weigh(J, n, attempt == 2, work.weights)
            size = _weighed(G, work.weights, n)
            for i in range(n):
                move[i] = G[i]
            if not factorise(J, n, work.order):
                status = SINGULAR
                break
            substitute(J, n, work.order, move)
            short = _largest(move, n) <= work.numbers[0] * max(1.0, _largest(z, n))
            share, halved = 1.0, 0
            while not short:
                for i in range(n):
                    trial[i] = z[i] - share * move[i]
                if _call(work, STAGE) != 0:
                    status = NOT_FINITE
                    break
                enough = PASSES if halved == 0 else 1.0 - GIVES * share
                if halved >= work.limits[1] or _weighed(G, work.weights, n) < enough * size:  # False for NaN
                    break
                share, halved = share / 2, halved + 1
            for i in range(n):
                z[i] -= share * move[i]
            if short:
                return SOLVED, total
    return status, total


@linked(**OPTIONS)
def _known(way: Stretch, i: int, s: int, h: float) -> None:
    """What is known of stage s of step i before it is solved."""
    for j in range(way.Y.shape[1]):
        total = way.scheme[i, s, 3] * way.Y[1, j]
        for k in range(s):
            total += way.scheme[i, s, 4 + 2 * k] * way.Y[2 + k, j] + h * way.scheme[i, s, 5 + 2 * k] * way.K[2 + k, j]
        way.known[j] = total


@linked(**OPTIONS)
def _carried(way: Stretch, i: int, s: int, h: float) -> None:
    """A start for stage s of step i: where the velocities that were found last carry it."""
    nv, nx, time, gamma = way.Y.shape[1] // 2, way.x.shape[1], way.scheme[i, s, 1], h * way.scheme[i, s, 0]
    last, since = (0, time) if s == 0 else (1 + s, time - way.scheme[i, s - 1, 1])
    for j in range(nv):
        before = way.x[i, nx - nv + j]
        speed = before + (way.Y[last, nv + j] if s else 0.0)
        reach = (way.Y[last, j] if s else 0.0) + h * since * speed
        way.z[j] = ((reach - way.known[j]) / gamma - before - way.known[nv + j]) / gamma


@linked(**OPTIONS)
def _stage(work: Work, way: Stretch, i: int, s: int, h: float) -> int:
    """The status of stage s of step i, which is solved and kept."""
    row, gamma, arg, res, numbers = i * way.scheme.shape[1] + s, h * way.scheme[i, s, 0], work.arg, work.res, work.numbers
    numbers[1], numbers[2] = way.t[i] + way.scheme[i, s, 1] * h, gamma
    arg[1], arg[2], arg[3] = row_address(numbers, 1), row_address(way.x, i), address_of(way.known)
    arg[4], arg[5], arg[6] = row_address(numbers, 2), row_address(way.u, i), address_of(way.p)
    status, way.iterations[row] = solve(work, way.z)
    if status != SOLVED:
        return status
    arg[0], arg[1], arg[2], arg[3] = address_of(way.z), row_address(way.x, i), address_of(way.known), row_address(numbers, 2)
    res[0], res[1] = row_address(way.nodes, row), row_address(way.K, 2 + s)
    if _call(work, REACHED) != 0:
        return ASTRAY
    for j in range(way.z.shape[0]):
        way.found[row, j] = way.z[j]
    for j in range(way.Y.shape[1]):
        way.Y[2 + s, j] = way.known[j] + gamma * way.K[2 + s, j]
    for j in range(way.x.shape[1]):
        if not math.isfinite(way.nodes[row, j]):
            return ASTRAY
    return SOLVED


@linked(**OPTIONS)
def _risen(work: Work, way: Stretch, i: int, s: int, h: float) -> int:
    """Integrals until stage s of step i; the status."""
    row, arg, many = i * way.scheme.shape[1] + s, work.arg, way.rises.shape[1]
    arg[0], arg[1] = row_address(work.numbers, 1), row_address(way.nodes, row)
    arg[2], arg[3] = row_address(way.u, i), address_of(way.p)
    work.res[0] = row_address(way.rises, i)
    if _call(work, RUNNING) != 0:
        return ASTRAY
    for j in range(many):
        slope = way.rises[i, j]
        total = way.scheme[i, s, 3] * way.L[1, j] + h * way.scheme[i, s, 0] * slope
        for k in range(s):
            total += way.scheme[i, s, 4 + 2 * k] * way.L[2 + k, j] + h * way.scheme[i, s, 5 + 2 * k] * way.L[2 + k, many + j]
        way.L[2 + s, j], way.L[2 + s, many + j] = total, slope
    return SOLVED


@linked(**OPTIONS)
def march(work: Work, way: Stretch) -> tuple[int, int, int]:
    """(steps, stages, status): all steps, or those before the one that fails, and the stages done in that."""
    steps, count, many = way.u.shape[0], way.scheme.shape[1], way.rises.shape[1]
    for i in range(steps):
        h = way.t[i + 1] - way.t[i]
        work.arg[0], work.arg[1], work.res[0] = row_address(way.x, i), address_of(way.before), row_address(way.Y, 1)
        if _call(work, BACK) != 0:
            return i, 0, ASTRAY
        for j in range(many):
            way.L[1, j] = -way.rose[j]
        for s in range(count):
            _known(way, i, s, h)
            if work.limits[2]:
                _carried(way, i, s, h)
            status = _stage(work, way, i, s, h)
            if status == SOLVED and many:
                status = _risen(work, way, i, s, h)
            if status != SOLVED:
                return i, s, status
        for j in range(way.x.shape[1]):
            way.before[j], way.x[i + 1, j] = way.x[i, j], way.nodes[i * count + count - 1, j]
        for j in range(many):
            way.rose[j] = way.rises[i, j] = way.L[1 + count, j]
    return steps, 0, SOLVED


@linked(**OPTIONS)
def repeat(way: Plain) -> int:
    """How many of the steps have a finite state."""
    for i in range(way.u.shape[0]):
        way.arg[0], way.arg[1], way.arg[2] = row_address(way.t, i), row_address(way.x, i), row_address(way.u, i)
        way.arg[3], way.arg[4] = address_of(way.p), row_address(way.h, i)
        way.res[0], way.res[1] = row_address(way.x, i + 1), row_address(way.rises, i)
        if call(way.address, way.handle, way.arg, way.res, way.iw, way.w) != 0:
            return i
        for j in range(way.x.shape[1]):
            if not math.isfinite(way.x[i + 1, j]):
                return i
    return way.u.shape[0]
