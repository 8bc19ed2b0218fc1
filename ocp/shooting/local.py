"""The discrete problem of a shooting solution as a sparse program at its point, differentiated by differences of adjoints.

With multipliers y of ``step(x_k, u_k) - x_{k+1} = 0`` in ambient coordinates, the gradient of the Lagrangian by the tangent of
knot k is ``N(x)' (adjoint(x, u, y_{k+1}) - y_k)``, where the bracket vanishes at the point itself: so the derivative of the bracket
alone gives the Hessian, and no curvature of the manifold is left out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import casadi as ca
import numpy as np
import scipy.sparse as sp

from ocp.nlp.local import CONTROL, DURATION, PARAMETER, TANGENT, Local, Owners
from ocp.shooting.stages.horizon import Horizon
from ocp.shooting.stages.rows import BELOW, CONE
from ocp.shooting.stages.start import free_at_start
from ocp.shooting.stages.stretch import Stretch

Array = np.ndarray

#: difference of central differences, relative to 1 + the magnitude of the component
STEP = 1e-5


class FirstOrder(NamedTuple):
    """The gradient of the Lagrangian by (x, u) without y of the knot itself; the state after [nx']; rows."""

    gradient: Array
    after: Array
    rows: Array


class LocalDerivatives(NamedTuple):
    """Hessian [k, z, z], step into the tangent of the next knot [k, n', z], rows [k, r, z]; and the rows [k, r]."""

    H: Array
    F: Array
    C: Array
    rows: Array


class _Knots:
    """All knots of one kind: functions at all of them at once. Arguments and results have one row a knot."""

    def __init__(self, horizon: Horizon, kind: int, x: Array, u: Array, weights: Array, y: Array):
        self.stage, self.at = horizon.kinds[kind], np.flatnonzero(horizon.which == kind)
        stage, at = self.stage, self.at
        self.n, self.m = stage.space.ndx, stage.nu
        self.x = x[at, :stage.space.nx]
        self.u = u[at, :self.m] if self.m else np.zeros((len(at), 0))
        self.t, self.h = horizon.t[at], horizon.h[at]
        self.p = horizon.p[at, :stage.step.size1_in(3)]
        self.y = y[at, :stage.space.nx]
        self.after = y[np.minimum(at + 1, len(y) - 1), :stage.after.nx]
        self.following = x[np.minimum(at + 1, len(x) - 1), :stage.after.nx]
        self.weights = weights[at, :stage.rows.count]
        a = ca.SX.sym("a", stage.space.nx)
        self.rate = ca.Function("rate", [a], [ca.densify(ca.SX(stage.space.rate(a)))])

    def call(self, function: ca.Function, *arguments: Array) -> list[Array]:
        found: Any = function.call([np.asarray(a).T if np.ndim(a) == 2 else np.asarray(a)[None, :] for a in arguments])
        return [np.asarray(one).T for one in found]

    def first(self, x: Array, u: Array) -> FirstOrder:
        """(gradient of the Lagrangian by (x, u), ambient, without y of the knot itself; state after [nx']; rows)."""
        stage, p = self.stage, self.p
        slope_x, slope_u = self.call(stage.adjoint, self.t, x, u, p, self.h, self.after)
        rows = np.zeros((len(x), 0))
        if stage.rows.count:
            by_x, by_u = self.call(stage.rows.adjoint, self.t, x, u, p, self.weights)
            slope_x, slope_u = slope_x + by_x, slope_u + by_u
            rows = self.call(stage.rows.value, self.t, x, u, p)[0]
        return FirstOrder(np.hstack([slope_x - self.y, slope_u]), self.call(stage.step, self.t, x, u, p, self.h)[0], rows)

    def derivatives(self) -> LocalDerivatives:
        """By (dx, du), central differences: Hessian [k, z, z], step into the tangent of the next knot [k, n', z], rows [k, r, z];
        and the rows [k, r]."""
        k, z = len(self.x), self.n + self.m
        _, end, rows = self.first(self.x, self.u)
        H, F, C = np.zeros((k, z, z)), np.zeros((k, self.stage.after.ndx, z)), np.zeros((k, rows.shape[1], z))
        N = self._frames()
        for i in range(z):
            size = STEP * (1 + (np.abs(self.u[:, i - self.n]) if i >= self.n else np.zeros(k)))
            sides = []
            for sign in (1.0, -1.0):
                x, u = self.x, self.u.copy()
                if i < self.n:
                    x = self.call(self.stage.plus, x, (sign * size)[:, None] * np.eye(self.n)[i])[0]
                else:
                    u[:, i - self.n] += sign * size
                sides.append(self.first(x, u))
            gradient_z, after, values = ((a - b) / (2 * size[:, None]) for a, b in zip(*sides, strict=True))
            nx = self.x.shape[1]
            H[:, :self.n, i], H[:, self.n:, i] = np.einsum("kxn,kx->kn", N, gradient_z[:, :nx]), gradient_z[:, nx:]
            if F.shape[1]:
                F[:, :, i] = self._tangent(end, after)
            C[:, :, i] = values
        return LocalDerivatives((H + H.transpose(0, 2, 1)) / 2, F, C, rows)

    def gaps(self, after: Array) -> Array:
        """States after the steps against those of the next knots, in tangents of these [k, ndx']."""
        space = self.stage.after
        a, b = ca.SX.sym("a", space.nx), ca.SX.sym("b", space.nx)
        return self.call(ca.Function("gap", [a, b], [space.minus(a, b)]), self.following, after)[0]

    def _frames(self) -> Array:
        """N(x) [k, nx, ndx]."""
        found = np.asarray(self.rate(self.x.T))
        return found.reshape(self.x.shape[1], len(self.x), self.n).transpose(1, 0, 2)

    def _tangent(self, x: Array, rate: Array) -> Array:
        """Rates of states after the step as tangent rates [k, ndx']."""
        space = self.stage.after
        a, b = ca.SX.sym("a", space.nx), ca.SX.sym("b", space.nx)
        inward = ca.Function("inward", [a, b], [space.rate_inverse(a) @ b])
        return self.call(inward, x, rate)[0]


def adjoints(horizon: Horizon, x: Array, u: Array, weights: Array) -> tuple[Array, Array]:
    """Ambient adjoints y [S+1, nx] of all knots and the gradient [S, M] by the controls, of the Lagrangian by a reverse sweep."""
    found, gradient, y = np.zeros_like(x), np.zeros_like(u), np.zeros(0)
    for k in range(horizon.stages, -1, -1):
        stage, arguments = horizon.kind(k), horizon.at(k, x, u)
        y, gradient_z = (np.asarray(part).ravel() for part in stage.adjoint(*arguments, horizon.h[k], y))
        if stage.rows.count:
            by_x, by_u = stage.rows.adjoint(*arguments, weights[k, :stage.rows.count])
            y, gradient_z = y + np.asarray(by_x).ravel(), gradient_z + np.asarray(by_u).ravel()
        found[k, :stage.space.nx] = y
        if k < horizon.stages:
            gradient[k, :stage.nu] = gradient_z
    return found, gradient


def localised(horizon: Horizon, x: Array, u: Array, weights: Array) -> Local:
    """The discrete problem at a point as a program: unknowns (dx_k, du_k) knot after knot, rows of the dynamics, then the others.

    Constraints of cones are left out where their multiplier vanishes, else active as one equation: tangents of the cone.
    """
    S = horizon.stages
    sizes = np.array([[horizon.kind(k).space.ndx, horizon.kind(k).nu if k < S else 0] for k in range(S + 1)])
    first = np.append(0, np.cumsum(sizes.sum(axis=1)))
    n = int(first[-1])
    y, holds = adjoints(horizon, x, u, weights)[0], horizon.holds()
    lower, upper, values = np.full(n, -np.inf), np.full(n, np.inf), np.zeros(n)
    hessian: list[tuple[Array, Array, Array]] = []
    rows: list[tuple[Array, Array, float, float, float, float]] = []  # columns, entries, value, lower, upper, multiplier
    gradient_z = np.zeros(n)
    for kind in range(len(horizon.kinds)):
        own = _Knots(horizon, kind, x, u, weights, y)
        H, F, C, c = own.derivatives()
        gradient = own.first(own.x, own.u)[0][:, own.x.shape[1]:]
        z = own.n + own.m
        for i, k in enumerate(own.at):
            columns = first[k] + np.arange(z)
            H[i] += _cone_curvature(own, c[i], C[i], own.weights[i])
            a, b = np.nonzero(H[i])
            hessian.append((columns[a], columns[b], H[i][a, b]))
            gradient_z[columns[own.n:]] = gradient[i]
            values[columns[own.n:]] = own.u[i]
            if k < S:
                lower[columns[own.n:]], upper[columns[own.n:]] = horizon.lower[k, :own.m], horizon.upper[k, :own.m]
                following = first[k + 1] + np.arange(F.shape[1])
                for j in range(F.shape[1]):
                    rows.append((np.append(columns, following[j]), np.append(F[i, j], -1.0), 0.0, 0.0, 0.0, 0.0))
            rows += _own_rows(own, i, columns, c[i], C[i], holds[k])
    lower[:sizes[0, 0]] = upper[:sizes[0, 0]] = 0.0  # the state of the first knot is given; what is free of it is a control
    across, along, entries = (np.concatenate(part) for part in zip(*hessian, strict=True))
    m = len(rows)
    A = sp.csr_matrix((np.concatenate([r[1] for r in rows]),
                       (np.repeat(np.arange(m), [len(r[0]) for r in rows]), np.concatenate([r[0] for r in rows]))), (m, n))
    g, g_lower, g_upper, lam_g = (np.array([r[k] for r in rows]) for k in (2, 3, 4, 5))
    # what bounds take from the gradient is their multiplier
    owners = _owners(horizon, first, sizes)
    for leg in horizon.legs:
        carried, nx = leg.stretch.constants.count, leg.stretch.phase.system.nx
        for knot in range(leg.first, leg.last + 1):
            column = first[knot] + leg.stretch.phase.system.space.ndx
            values[column:column + carried] = x[knot, nx:nx + carried]
    lam_x = np.where(_presses(horizon, x, u, owners, gradient_z, values, lower, upper), -gradient_z, 0.0)
    lam_x[:sizes[0, 0]] = 0.0
    return Local(values, lower, upper, lam_x, g, g_lower, g_upper, lam_g, gradient_z - A.T @ lam_g, A,
                 sp.csr_matrix((entries, (across, along)), (n, n)), owners)


def measured(horizon: Horizon, x: Array, u: Array) -> tuple[float, Array]:
    """Cost and rows [m] of ``localised`` at other states and controls."""
    holds, cost, rows = horizon.holds(), horizon.constant, []
    none = np.zeros((len(x), max(one.rows.count for one in horizon.kinds)))
    for kind in range(len(horizon.kinds)):
        own = _Knots(horizon, kind, x, u, none, np.zeros_like(x))
        after, costs, *_ = own.call(own.stage.step, own.t, own.x, own.u, own.p, own.h)
        cost += float(costs.sum())
        gaps = own.gaps(after)
        c = own.call(own.stage.rows.value, own.t, own.x, own.u, own.p)[0] if own.stage.rows.count else np.zeros((len(own.at), 0))
        for i, k in enumerate(own.at):
            rows.append(gaps[i] if k < horizon.stages else np.zeros(0))
            rows.append(np.array([np.linalg.norm(c[i, part][1:]) - c[i, part][0] if cone else c[i, part][0]
                                  for part, cone in _parts(own.stage.rows, holds[k])]))
    return cost, np.concatenate(rows)


def _presses(horizon: Horizon, x: Array, u: Array, owners: Owners, gradient_z: Array, values: Array, lower: Array, upper: Array
             ) -> Array:
    """Where a bound is nearer than what the gradient asks for, the distance in shares of the range (without one of the largest
    value of what it bounds), the gradient in shares of the cost's size."""
    cost = abs(horizon.constant)
    for k in range(horizon.stages + 1):
        cost += abs(float(horizon.kind(k).step(*horizon.at(k, x, u), horizon.h[k])[1]))
    _, alike = np.unique(np.stack([owners.kind, owners.phase, owners.component]), axis=1, return_inverse=True)
    largest = np.zeros(len(values))
    np.maximum.at(largest, alike.ravel(), np.abs(values))
    far = np.where(np.isfinite(upper - lower), upper - lower, largest[alike.ravel()])
    near = np.where(gradient_z > 0, values - lower, upper - values)
    return near * (cost or 1.0) <= far**2 * np.abs(gradient_z)


def _cone_curvature(own: _Knots, c: Array, C: Array, weights: Array) -> Array:
    """Curvature of the cones ``|c[1:]| <= c[0]`` themselves in the Hessian of the Lagrangian [z, z]."""
    found = np.zeros((own.n + own.m, own.n + own.m))
    for r in np.flatnonzero(own.stage.rows.kind == CONE):
        part = slice(r + 1, r + int(own.stage.rows.size[r]))
        norm, push = float(np.linalg.norm(c[part])), float(np.linalg.norm(weights[part]))
        if norm > 0 and push > 0:
            across = np.eye(len(c[part])) - np.outer(c[part], c[part]) / norm**2
            found += push / norm * C[part].T @ across @ C[part]
    return found


def _own_rows(own: _Knots, i: int, columns: Array, c: Array, C: Array, holds: Array) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for part, cone in _parts(own.stage.rows, holds):
        r, push = part.start, own.weights[i, part]
        if not cone:
            low = -np.inf if own.stage.rows.kind[r] == BELOW else 0.0
            found.append((columns, C[r], float(c[r]), low, 0.0, float(push[0])))
        else:
            across = c[part][1:]
            norm = float(np.linalg.norm(across))
            normal = np.r_[-1.0, across / norm if norm > 0 else np.zeros(len(across))]
            found.append((columns, normal @ C[part], norm - float(c[r]), -np.inf, 0.0, float(np.linalg.norm(push))))
    return found


def _parts(rows: Any, holds: Array) -> list[tuple[slice, bool]]:
    """Active constraints, as slices, one for a whole cone; and whether it is one."""
    found, r = [], 0
    while r < len(rows.kind):
        cone = bool(rows.kind[r] == CONE)
        size = int(rows.size[r]) if cone else 1
        if holds[r]:
            found.append((slice(r, r + size), cone))
        r += size
    return found


def _owners(horizon: Horizon, first: Array, sizes: Array) -> Owners:
    found = Owners.empty(int(first[-1]))
    for leg in horizon.legs:
        system, number = leg.stretch.phase.system, leg.stretch.number
        share = 1.0 / max(1, leg.last - leg.first)
        for k in range(leg.first, leg.last + 1):
            found.put(first[k] + np.arange(system.space.ndx), TANGENT, number, np.arange(system.space.ndx), share)
            _put_constants(found, leg.stretch, first[k] + system.space.ndx)
            if k < leg.last:
                start = first[k] + sizes[k, 0]
                found.put(start + np.arange(system.nu), CONTROL, number, np.arange(system.nu), share)
    opening = horizon.legs[0]
    if opening.first:  # what is free at the start is chosen there
        free, ndx = np.array(free_at_start(opening.stretch)), opening.stretch.phase.system.space.ndx
        of_state, begin = free < ndx, first[0] + sizes[0, 0]
        found.put(begin + np.flatnonzero(of_state), TANGENT, opening.stretch.number, free[of_state])
        _put_constants(found, opening.stretch, begin + int(of_state.sum()))
    return found


def _put_constants(owners: Owners, stretch: Stretch, begin: int) -> None:
    """Free durations and parameters, from this column on."""
    for number, position in stretch.constants.durations.items():
        owners.put(np.array([begin + position]), DURATION, number, 0)
    for index, _, _ in stretch.phase.free_parameters:
        position = stretch.constants.parameters[stretch.phase.system.parameters[index]]
        owners.put(np.array([begin + position]), PARAMETER, stretch.number, index)
