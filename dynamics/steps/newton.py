"""Newton's method for the stages of implicit steps, and whole stretches of such steps, as compiled loops over kernels.

Kernels come by address, so that one machine code serves all systems. Work arrays are given; nothing is allocated.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dynamics.kernels.calls import address_of, call, row_address
from dynamics.kernels.linked import PLAIN, linked

Array = np.ndarray
OPTIONS: dict[str, Any] = {**PLAIN, "cache": True, "error_model": "numpy"}
SOLVED, NOT_FINITE, SINGULAR, NOT_CONVERGED, ASTRAY = range(5)
STAGE, REACHED, BACK, RUNNING = range(4)  # kernels
PASSES, GIVES = 0.75, 0.25
"""A whole step has to bring the residual to this share of it, a halved one down by this share of what it promises."""


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
def solve(where: Array, arg: Array, res: Array, iw: Array, w: Array, z: Array, trial: Array, G: Array, J: Array, move: Array,
          weights: Array, order: Array, numbers: Array, limits: Array) -> tuple[int, int]:
    """(status, iterations) of Newton's method from z, which becomes the solution; where it does not converge, from 0, and then with
    every row over its entry on the diagonal of J. arg: addresses of all arguments but z."""
    n, total, status = z.shape[0], 0, NOT_CONVERGED
    res[0], res[1], arg[0] = address_of(G), address_of(J), address_of(trial)
    for attempt in range(3):
        for i in range(n):
            z[i] = trial[i] = z[i] if attempt == 0 else 0.0
        status = NOT_CONVERGED if call(where[STAGE, 0], where[STAGE, 1], arg, res, iw, w) == 0 else NOT_FINITE
        for _ in range(limits[0]):
            if status != NOT_CONVERGED or not (math.isfinite(_largest(G, n)) and math.isfinite(_largest(J, n * n))):
                status = NOT_FINITE
                break
            total += 1
            _weigh(J, n, attempt == 2, weights)
            size = _weighed(G, weights, n)
            for i in range(n):
                move[i] = G[i]
            if not factorise(J, n, order):
                status = SINGULAR
                break
            substitute(J, n, order, move)
            short = _largest(move, n) <= numbers[0] * max(1.0, _largest(z, n))
            share, halved = 1.0, 0
            while not short:
                for i in range(n):
                    trial[i] = z[i] - share * move[i]
                if call(where[STAGE, 0], where[STAGE, 1], arg, res, iw, w) != 0:
                    status = NOT_FINITE
                    break
                enough = PASSES if halved == 0 else 1.0 - GIVES * share
                if halved >= limits[1] or _weighed(G, weights, n) < enough * size:  # False for NaN
                    break
                share, halved = share / 2, halved + 1
            for i in range(n):
                z[i] -= share * move[i]
            if short:
                return SOLVED, total
    return status, total


@linked(**OPTIONS)
def march(where: Array, arg: Array, res: Array, iw: Array, w: Array, scheme: Array, t: Array, x: Array, before: Array, u: Array,
          p: Array, z: Array, rose: Array, nodes: Array, found: Array, rises: Array, iterations: Array, Y: Array, K: Array,
          L: Array, known: Array, trial: Array, G: Array, J: Array, move: Array, weights: Array, order: Array, numbers: Array,
          limits: Array) -> tuple[int, int, int]:
    """(steps, stages, status): all steps, or those before the one that fails, and the stages done in that.

    scheme [N, s, 2 s + 4]: of each stage gamma, its time, a of the beginning and of the state before, then a and b of the stages of
    the step; t [N+1]; x [N+1, nx] and u [N, nu]: x[0] is given; before [nx]; z [nz]: start, then the last solution; rose [l] and
    rises [N, l]; nodes [N s, nx], found [N s, nz], iterations [N s]: of every stage. Y, K [s + 2, n], L [s + 2, l]: places in the
    chart of x_n, slopes and integrands of the beginning, the state before, and the stages. limits: iterations, halvings, whether
    a stage starts where velocities carry it."""
    steps, size, n, count, many = u.shape[0], z.shape[0], Y.shape[1], scheme.shape[1], rises.shape[1]
    nx, nv = x.shape[1], n // 2
    for i in range(steps):
        h = t[i + 1] - t[i]
        arg[0], arg[1], res[0] = row_address(x, i), address_of(before), row_address(Y, 1)
        if call(where[BACK, 0], where[BACK, 1], arg, res, iw, w) != 0:
            return i, 0, ASTRAY
        for j in range(many):
            L[1, j] = -rose[j]
        for s in range(count):
            row, gamma, time = i * count + s, h * scheme[i, s, 0], scheme[i, s, 1]
            for j in range(n):
                total = scheme[i, s, 3] * Y[1, j]
                for k in range(s):
                    total += scheme[i, s, 4 + 2 * k] * Y[2 + k, j] + h * scheme[i, s, 5 + 2 * k] * K[2 + k, j]
                known[j] = total
            if limits[2]:
                last, since = (0, time) if s == 0 else (1 + s, time - scheme[i, s - 1, 1])
                for j in range(nv):
                    speed = x[i, nx - nv + j] + (Y[last, nv + j] if s else 0.0)
                    reach = (Y[last, j] if s else 0.0) + h * since * speed
                    z[j] = ((reach - known[j]) / gamma - x[i, nx - nv + j] - known[nv + j]) / gamma
            numbers[1], numbers[2] = t[i] + time * h, gamma
            arg[1], arg[2], arg[3] = row_address(numbers, 1), row_address(x, i), address_of(known)
            arg[4], arg[5], arg[6] = row_address(numbers, 2), row_address(u, i), address_of(p)
            status, iterations[row] = solve(where, arg, res, iw, w, z, trial, G, J, move, weights, order, numbers, limits)
            if status != SOLVED:
                return i, s, status
            arg[0], arg[1], arg[2], arg[3] = address_of(z), row_address(x, i), address_of(known), row_address(numbers, 2)
            res[0], res[1] = row_address(nodes, row), row_address(K, 2 + s)
            if call(where[REACHED, 0], where[REACHED, 1], arg, res, iw, w) != 0:
                return i, s, ASTRAY
            for j in range(size):
                found[row, j] = z[j]
            for j in range(n):
                Y[2 + s, j] = known[j] + gamma * K[2 + s, j]
            for j in range(nx):
                if not math.isfinite(nodes[row, j]):
                    return i, s, ASTRAY
            if many:
                arg[0], arg[1], arg[2], arg[3] = row_address(numbers, 1), row_address(nodes, row), row_address(u, i), address_of(p)
                res[0] = row_address(rises, i)
                if call(where[RUNNING, 0], where[RUNNING, 1], arg, res, iw, w) != 0:
                    return i, s, ASTRAY
                for j in range(many):
                    slope, total = rises[i, j], scheme[i, s, 3] * L[1, j] + gamma * rises[i, j]
                    for k in range(s):
                        total += scheme[i, s, 4 + 2 * k] * L[2 + k, j] + h * scheme[i, s, 5 + 2 * k] * L[2 + k, many + j]
                    L[2 + s, j], L[2 + s, many + j] = total, slope
        for j in range(nx):
            before[j], x[i + 1, j] = x[i, j], nodes[i * count + count - 1, j]
        for j in range(many):
            rose[j] = rises[i, j] = L[1 + count, j]
    return steps, 0, SOLVED


@linked(**OPTIONS)
def repeat(address: int, handle: int, arg: Array, res: Array, iw: Array, w: Array, x: Array, t: Array, u: Array, p: Array, h: Array,
           rises: Array) -> int:
    """Steps of a kernel (t, x, u, p, h) -> (x after, rises): how many have a finite state."""
    for i in range(u.shape[0]):
        arg[0], arg[1], arg[2] = row_address(t, i), row_address(x, i), row_address(u, i)
        arg[3], arg[4] = address_of(p), row_address(h, i)
        res[0], res[1] = row_address(x, i + 1), row_address(rises, i)
        if call(address, handle, arg, res, iw, w) != 0:
            return i
        for j in range(x.shape[1]):
            if not math.isfinite(x[i + 1, j]):
                return i
    return u.shape[0]
