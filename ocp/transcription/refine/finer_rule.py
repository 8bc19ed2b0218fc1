"""One phase of a solution under a finer rule: the parts that its error estimate (``error.py``) is made of, interval by interval."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from ocp.problem import At, Bounds, Phase, Sense, Trajectory
from ocp.thresholds import ROUNDING
from ocp.transcription import legendre
from ocp.transcription.charts import Form
from ocp.transcription.conditions import cost_value, hard_rows, penalty
from ocp.transcription.mesh import Mesh
from ocp.transcription.part import graph_kind, join

Array = np.ndarray
#: (t [k], x [k, nx], u [k, nu], p [np, k]) -> inputs [k, nu] whose algebraic unknowns solve their equations
Inputs = Callable[[Array, Array, Array, Array], Array]

#: points of the finer rule beyond the scheme's own; two would do for its leading term
EXTRA_POINTS = 3
#: the decay that stands for a function that a lower degree already holds
MAX_DECAY = 20.0


@dataclass(frozen=True)
class _Seen:
    """One phase of a solution at the E evaluation points of its mesh: rates [E, size], costs [E], rows [E, m], integrands [E, i];
    controls u at their points, states at the knots; what errors are measured by: scale and ranges [size], sizes [nx]."""

    phase: Phase
    mesh: Mesh
    start: float
    T: float
    p: Array
    u: Array
    knots: Array
    rates: Array
    costs: Array
    rows: Array
    integrands: Array
    scale: Array
    ranges: Array
    sizes: Array


@dataclass(frozen=True)
class _Finer:
    """G intervals of one scheme under a rule of Gauss with m points r and weights v, more than its own. Along the state
    polynomial, at these points and the end [m+1]: states x [G, m+1, nx], controls u as they are, constraints under clipped ones. At
    the points alone: rate, running, integrands; derivative, the rate of the polynomial itself; rate_below, that under controls
    without their last coefficient, with the digits [G] by which it is smaller. off [G, m+1, size]: the polynomial re-integrated
    less itself."""

    group: list[int]
    indices: Array
    r: Array
    v: Array
    h: Array
    x: Array
    u: Array
    rate: Array
    running: Array
    rows: Array
    integrands: Array
    rate_below: Array
    digits: Array
    off: Array
    derivative: Array


@dataclass(frozen=True)
class Found:
    """Errors by interval [N] as they come in, the largest of each with its name; ends [size]: those at ends of intervals, added;
    cost [N]: what the program's quadrature misses of running costs."""

    state: Array
    control: Array
    path: Array
    integral: Array
    decay: Array
    clipped: Array
    gap: Array
    defect: Array
    cost: Array
    ends: Array
    largest: Array
    worst: list[str]

    @classmethod
    def empty(cls, N: int, size: int) -> Found:
        """Errors of N intervals, all zero."""
        return cls(np.zeros(N), np.zeros(N), np.zeros(N), np.zeros(N), np.full(N, MAX_DECAY), np.zeros(N, dtype=bool), np.zeros(N),
                   np.zeros(N), np.zeros(N), np.zeros(size), np.full(N, -1.0), [""] * N)

    def blame(self, group: Sequence[int], values: Array, names: Sequence[str]) -> None:
        """Name the largest column of values [G, k] where it exceeds what is known of its interval."""
        known = np.nan_to_num(values, nan=np.inf)
        for k, row in zip(group, known, strict=True):
            if row.size and row.max() > self.largest[k]:
                self.largest[k], self.worst[k] = row.max(), names[int(row.argmax())]


class PhaseFunctions:
    """The rate, running cost and constraints of a phase as one function of (t, x, u, p, centre of the chart, duration); inputs:
    those of the motion between nodes, None: polynomials."""

    def __init__(self, phase: Phase, form: Form, inputs: Inputs | None = None):
        system = phase.system
        kind = graph_kind(system)
        t, x, u, p, T = kind.sym("t"), kind.sym("x", system.nx), kind.sym("u", system.nu), kind.sym("p", system.np), kind.sym("T")
        chart = kind.sym("chart", form.centre_size)
        here = (t, x, u, p)
        cost = sum((cost_value(c, here) for c in phase.costs if c.at is At.PATH), start=kind(0))
        cost += sum((penalty(c, here) for c in phase.constraints if c.at is At.PATH and c.soft is not None), start=kind(0))
        held = [c for c in phase.constraints if c.at is At.PATH and c.soft is None]
        path = [hard_rows(c, here) for c in held]
        whole = [hard_rows(c, here) for c in phase.constraints if c.at is At.INTEGRAL]
        rows, integrals = join(kind, path), join(kind, whole)
        self.form, self.size, self.inputs = form, form.size, inputs
        outputs = [form.rate(x, system.rate(*here), chart, T), T * cost, rows.expression, T * integrals.expression]
        self._function = ca.Function("between", [t, x, u, p, chart, T], [ca.densify(o) for o in outputs])
        self.path_bounds, self.path_names = Bounds(rows.lower, rows.upper), rows.names
        on_control = [[bool(ca.jacobian_sparsity(r.expression, u).nnz())] * len(r.names) for r in path]
        self.on_control = np.array(sum(on_control, []), dtype=bool)
        self.path_constraints = [c.name for c, r in zip(held, path, strict=True) for _ in r.names]
        firsts = np.cumsum([0, *(len(r.names) for r in path)])
        self.cones = [(int(first), c.unit) for c, first in zip(held, firsts[:-1], strict=True) if c.sense is Sense.CONE]

    def __call__(self, t: Array, x: Array, u: Array, p: Array, chart: Array, T: float) -> list[Array]:
        """At k times: [k], [k, nx], [k, nu] -> scaled rates [k, size], costs [k], rows [k, m], integrands [k, i]."""
        k = len(t)
        chart = chart if self.form.tangent else np.zeros((k, 0))
        found = self._function(t[None, :], x.T, u.T, np.repeat(p[:, None], k, axis=1), chart.T, np.full((1, k), T))
        rate, cost, rows, whole = (np.asarray(value).T.reshape(k, -1) for value in found)
        return [rate, cost[:, 0], rows, whole]

    def in_units(self, values: Array, first: int) -> Array:
        """Values [k, n] of which path constraints are the columns from ``first`` on, with the distance of a cone from its surface,
        negative outside, in place of the difference of squares that programs hold (``conditions.hard_rows``)."""
        found = values.copy()
        for row, unit in self.cones:
            squares, axis = values[:, first + row], values[:, first + row + 1]
            found[:, first + row] = axis - np.sqrt(np.maximum(axis**2 - unit**2 * squares, 0.0))
        return found

    def plus(self, x: Array, d: Array) -> Array:
        """States x [k, nx] displaced by tangent vectors d [k, ndx]."""
        return self.form.space.moved(x, d) if self.form.tangent else x + d

    def scale(self, x: Array) -> Array:
        """1 + the largest size of each component of the state [size]; 1 where that is no coordinate."""
        sizes = np.max(np.abs(x), axis=0)
        return np.asarray(1 + (self.form.space.by_tangent(sizes, 0.0) if self.form.tangent else sizes))

    def ranges(self, x: Array) -> Array:
        """Ranges of the components of the state [size], at least a millionth of their magnitude; 1 where that is no coordinate."""
        own = np.maximum(np.maximum(np.ptp(x, axis=0), 1e-6 * np.max(np.abs(x), axis=0)), 1e-300)
        return self.form.space.by_tangent(own) if self.form.tangent else np.asarray(own)

    def errors(self, phase: Phase, part: Trajectory, mesh: Mesh, costate: Any, jumps: frozenset[int]) -> tuple[Found, float]:
        """The errors of one phase, and the Lagrangian of the finer rule minus the cost of the program's."""
        seen, found, objective = self._at_points(phase, part, mesh), Found.empty(mesh.intervals, self.size), 0.0
        groups: dict[int, list[int]] = {}
        for k, scheme in enumerate(mesh.schemes):
            groups.setdefault(id(scheme), []).append(k)
        for group in groups.values():
            finer = self._finer(seen, group)
            self._of_motion(seen, finer, found)
            self._of_controls(seen, finer, found, jumps)
            self._between_nodes(seen, finer, found)
            self._of_integrals(seen, finer, found)
            objective += self._of_objective(seen, finer, costate, found)
        return found, objective

    def _at_points(self, phase: Phase, part: Trajectory, mesh: Mesh) -> _Seen:
        start, T = float(part.t[0]), float(part.t[-1] - part.t[0])
        p, at = np.asarray(phase.system.parameter_values, dtype=float), mesh.evaluation
        # the last evaluation point lies a hair inside: rounding must not put it outside the phase
        nodes = np.asarray(part.state(np.clip(start + T * mesh.fractions, part.t[0], part.t[-1])))
        knots = nodes[mesh.knots]
        u = np.einsum("ec,ecu->eu", at.weights, part.u[at.points])
        rates, costs, rows, integrands = self(start + T * at.fraction, nodes[at.node], u, p, knots[at.interval], T)
        return _Seen(phase, mesh, start, T, p, part.u, knots, rates, costs, rows, integrands, self.scale(nodes), self.ranges(nodes),
                     1 + np.max(np.abs(nodes), axis=0))

    def _finer(self, seen: _Seen, group: Sequence[int]) -> _Finer:
        mesh, count = seen.mesh, len(group)
        scheme = mesh.schemes[group[0]]
        r, v = legendre.gauss(scheme.degree + EXTRA_POINTS)
        there, h = np.append(r, 1.0), mesh.widths[group]
        points = np.array([mesh.evaluation.of[k] for k in group])  # [G, K]
        F = seen.rates[points]
        y = h[:, None, None] * np.einsum("ri,gik->grk", np.asarray(scheme.state_basis(there)), F)
        centre = np.repeat(seen.knots[group], len(there), axis=0)
        x = self.plus(centre, y.reshape(len(centre), -1))
        control = np.array([mesh.shapes[k].basis(there) @ seen.u[mesh.point(k)] for k in group])
        lower, digits = _reduced(mesh, group, seen.u, there, r, v)
        times = (seen.start + seen.T * (mesh.edges[group][:, None] + h[:, None] * there)).ravel()

        def under(u: Array) -> list[Array]:
            own = seen.phase.control_bounds.clip(u).reshape(len(centre), -1)
            own = own if self.inputs is None else self.inputs(times, x, own, np.repeat(seen.p[:, None], len(times), axis=1))
            return [f.reshape(count, len(there), -1) for f in self(times, x, own, seen.p, centre, seen.T)]

        rate, running, rows, integrands = under(control)
        again = h[:, None, None] * np.einsum("ri,gik->grk", legendre.integral_matrix(r, v, there), rate[:, :-1])
        slope = np.einsum("ri,gik->grk", np.asarray(scheme.control_basis(r)), F)
        return _Finer(list(group), points, r, v, h, x.reshape(count, len(there), -1), control, rate[:, :-1], running[:, :-1, 0],
                      rows, integrands[:, :-1], under(lower)[0][:, :-1], digits, again - y, slope)

    def _of_motion(self, seen: _Seen, finer: _Finer, found: Found) -> None:
        """The state polynomial against itself re-integrated."""
        group, h = finer.group, finer.h
        each = np.max(np.abs(finer.off / seen.scale), axis=1)  # [G, size]
        found.state[group] = np.max(each, axis=1, initial=0.0)
        found.blame(group, each, self.form.names)
        found.gap[group] = np.max(np.abs(finer.off[:, -1]) / seen.ranges, axis=1, initial=0.0)
        found.defect[group] = h * (np.max(np.abs(finer.rate - finer.derivative) / seen.ranges, axis=2, initial=0.0) @ finer.v)
        found.ends[:] += np.sum(np.abs(finer.off[:, -1] / seen.scale), axis=0)
        found.decay[group] = _decay(finer.rate / seen.scale * h[:, None, None], finer.r, finer.v, finer.indices.shape[1])

    def _of_controls(self, seen: _Seen, finer: _Finer, found: Found, jumps: frozenset[int]) -> None:
        """How far the last coefficient of the controls moves the state, and where they overshoot their bounds."""
        group = finer.group
        moved = finer.h[:, None] * np.max(np.abs(finer.rate - finer.rate_below), axis=1) / seen.scale
        lost = moved * 10.0 ** -finer.digits[:, None]
        lost[[k in jumps or k + 1 in jumps for k in group]] = 0.0  # controls close to a switch are hardly determined
        found.control[group] = np.max(lost, axis=1, initial=0.0)
        found.blame(group, lost, [f"controls as they move {name}" for name in self.form.names])
        beyond = np.max(np.abs(finer.u - seen.phase.control_bounds.clip(finer.u)), axis=(1, 2), initial=0.0)
        found.clipped[group] = beyond > 1e-6 * (1 + np.max(np.abs(seen.u), initial=0.0))

    def _between_nodes(self, seen: _Seen, finer: _Finer, found: Found) -> None:
        """Bounds of states and path constraints that are broken between nodes."""
        group, x, rows = finer.group, finer.x, finer.rows
        broken = np.max(seen.phase.state_bounds.violation(x), axis=1) / seen.sizes  # [G, nx]
        found.path[group] = np.max(broken, axis=1, initial=0.0)
        found.blame(group, broken, [f"bound of {name} between nodes" for name in self.form.space.names])
        if not rows.shape[-1]:
            return
        over = self.path_bounds.violation(rows) / (1 + np.max(np.abs(seen.rows), axis=0))
        by_row = np.where(self.on_control, finer.h[:, None] * np.mean(over, axis=1), np.max(over, axis=1))
        found.path[group] = np.maximum(found.path[group], np.max(by_row, axis=1))
        found.blame(group, by_row, [f"{name} between nodes" for name in self.path_names])

    def _of_integrals(self, seen: _Seen, finer: _Finer, found: Found) -> None:
        """Integral constraints by the finer rule and by the program's."""
        if not finer.integrands.shape[-1]:
            return
        quadrature = seen.mesh.schemes[finer.group[0]].quadrature
        fine = np.einsum("i,gik->gk", finer.v, finer.integrands)
        coarse = np.einsum("i,gik->gk", quadrature, seen.integrands[finer.indices])
        off = np.abs(finer.h[:, None] * (fine - coarse)) / (1 + np.abs(seen.mesh.weights @ seen.integrands))
        found.integral[finer.group] = np.max(off, axis=1)
        found.blame(finer.group, off, ["quadrature of integral constraints"] * off.shape[1])

    def _of_objective(self, seen: _Seen, finer: _Finer, costate: Any, found: Found) -> float:
        scheme = seen.mesh.schemes[finer.group[0]]
        change = finer.running @ finer.v - seen.costs[finer.indices] @ scheme.quadrature
        found.cost[finer.group] = np.abs(finer.h * change)
        if costate is not None:
            weight = np.einsum("ri,gik->grk", np.asarray(scheme.control_basis(finer.r)), costate[finer.indices])
            change += np.einsum("i,gik,gik->g", finer.v, weight, finer.rate - finer.derivative)
        return float(finer.h @ change)


def _decay(f: Array, r: Array, v: Array, K: int) -> Array:
    """Digits lost per degree by the Legendre coefficients 0 .. K of functions f [G, m, size] at the points of a rule: [G].

    The slope of a line through the logarithms of the coefficients 1 .. K, of the components that are largest there (Liu, Hager,
    Rao 2018, Adaptive mesh refinement method for optimal control using decay rates of Legendre polynomial coefficients, IEEE
    Transactions on Control Systems Technology 26(4)).
    """
    size = np.max(np.abs(np.einsum("ji,gik->gjk", legendre.legendre_transform(r, v), f)), axis=2)[:, :K + 1]
    found = np.full(len(size), MAX_DECAY)
    if size.shape[1] < 2:
        return found
    logs = np.log10(np.maximum(size, ROUNDING.rounding))
    for g, own in enumerate(logs):
        last = int(np.max(np.flatnonzero(size[g] > ROUNDING.rounding), initial=0))
        if last == 0:
            continue
        j = np.arange(last + 1) if last < 3 else np.arange(1, last + 1)
        centred = j - j.mean()
        found[g] = -float(centred @ own[j]) / float(centred @ centred)
    return found


def _reduced(mesh: Mesh, group: Sequence[int], u: Array, there: Array, r: Array, v: Array) -> tuple[Array, Array]:
    """Controls [G, k, nu] of intervals at the evaluation points ``there`` without their highest Legendre coefficient, and the
    digits by which coefficients fall from the last but one to the last [G]; the controls themselves where they are piecewise
    constant."""
    shapes = [mesh.shapes[k] for k in group]
    count = len(shapes[0].points)
    values = np.array([shape.basis(r) @ u[mesh.point(k)] for shape, k in zip(shapes, group, strict=True)])
    full = np.einsum("ji,giu->gju", legendre.legendre_transform(r, v), values)[:, :count]
    digits = np.zeros(len(group))
    if count < 2 or mesh.controls != "polynomial":
        return np.einsum("rj,gju->gru", legendre.legendre(there, count), full), digits
    sizes = np.max(np.abs(full), axis=2) if u.shape[1] else np.zeros((len(group), count))
    last, before = sizes[:, -1], np.max(sizes[:, max(1, count - 2):-1], axis=1) if count > 2 else sizes[:, 0]
    digits = np.clip(np.log10(np.maximum(before, 1e-300) / np.maximum(last, 1e-300)), 0.0, 3.0)
    return np.einsum("rj,gju->gru", legendre.legendre(there, count - 1), full[:, :-1]), digits
