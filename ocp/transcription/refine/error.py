"""How far a collocation solution is from the trajectory it stands for, interval by interval, from the solution alone.

In an interval the scheme's state polynomial x(r) obeys the dynamics at the collocated nodes only. Re-integrated along itself by a
rule of Gauss with more points,

    xhat(r) = x(0) + h int_0^r f(x, clip(u)) ds

it is exact up to the defect between nodes; ``|xhat - x|`` over 1 + the largest size of that state in the phase is the error
(Patterson, Hager, Rao 2015, A ph mesh refinement method for optimal control, Optimal Control Applications and Methods 36(4)).
Controls are clipped to their bounds: a polynomial that overshoots between nodes stands for no motion of the system. Beside it
count, in the same relative measure, path constraints and bounds of states that are broken between nodes, integral constraints by
quadrature, and what the controls' polynomials are too low to show: the state moved by their last Legendre coefficient, made
smaller by as much as that is smaller than the one before. The last is no error of the motion, which obeys its controls exactly,
but a sign that these have a kink that the mesh does not.

The error of the objective is the Lagrangian's, with the same rule: ``int cost + p' (f - xdot)`` minus the cost that the program
summed, with costates p of the program (Becker and Rannacher 2001, An optimal control approach to a posteriori error estimation
in finite element methods, Acta Numerica 10: the residual weighted by the dual).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import casadi as ca
import numpy as np

from ocp.problem import At, Phase, Problem, Solution, Trajectory
from ocp.transcription import points
from ocp.transcription.charts import Form
from ocp.transcription.conditions import cost_value, hard_rows, penalty
from ocp.transcription.mesh import Mesh
from ocp.transcription.part import graph_kind

Array = np.ndarray

#: points of the finer rule beyond the scheme's own; two would do for its leading term
MORE = 3
#: coefficients below this part of the largest state are rounding
FLOOR = 1e-13
#: the decay that stands for a function that a lower degree already holds
SMOOTHEST = 20.0


@dataclass(frozen=True, eq=False)
class PhaseErrors:
    """Errors of the intervals of one phase, all relative.

    state [N]: of the states; control [N]: of the states, by what polynomials of that degree do not show of the controls; path [N]:
        constraints broken between nodes, those on controls as a mean over their share of the phase; integral [N]: quadrature of
        integral constraints
    accumulated: errors at the ends of intervals added up over the phase, or the largest inside one: what a user sees
    decay [N]: digits by which Legendre coefficients of the rates fall from one degree to the next; smooth where large
    clipped [N]: whether a control overshoots its bounds between nodes
    worst [N]: name of the state or constraint with the largest error
    gap, defect [N]: what an end of an interval is off, and the integral of the defect, over the ranges of the states: estimates of
        what the certificate measures
    """

    state: Array
    control: Array
    path: Array
    integral: Array
    accumulated: float
    decay: Array
    clipped: Array
    worst: tuple[str, ...]
    gap: Array = field(default_factory=lambda: np.zeros(0))
    defect: Array = field(default_factory=lambda: np.zeros(0))

    @cached_property
    def total(self) -> Array:
        """The largest of the four [N]; NaN counts as infinite."""
        return np.nan_to_num(np.max([self.state, self.control, self.path, self.integral], axis=0), nan=np.inf)

    @property
    def of_motion(self) -> PhaseErrors:
        """The same without the errors of the controls' shape."""
        return replace(self, control=np.zeros_like(self.control))


@dataclass(frozen=True)
class Estimate:
    """Errors of all phases, and how much the true objective lies above the program's (costates weigh the defects)."""

    phases: tuple[PhaseErrors, ...]
    objective: float

    @property
    def largest(self) -> float:
        return float(max(np.max(phase.total) for phase in self.phases))

    @property
    def accumulated(self) -> float:
        return max(phase.accumulated for phase in self.phases)

    @property
    def motion(self) -> float:
        """The largest error but for that of the controls' own shape."""
        return float(np.nan_to_num(max(np.max([p.state, p.path, p.integral]) for p in self.phases), nan=np.inf))

    def where(self, problem: Problem) -> str:
        """The largest error in words."""
        i = int(np.argmax([np.max(phase.total) for phase in self.phases]))
        k = int(np.argmax(self.phases[i].total))
        name = f" of phase {problem.phases[i].name}" if len(self.phases) > 1 else ""
        return f"{self.phases[i].total[k]:.2g} in {self.phases[i].worst[k]}, interval {k}{name}"


class Estimator:
    """Error estimates of solutions of one problem: its functions are built once."""

    def __init__(self, problem: Problem, forms: Sequence[Form]):
        self.problem = problem
        self.phases = [_PhaseFunctions(phase, form) for phase, form in zip(problem.phases, forms, strict=True)]

    def estimate(self, solution: Solution, meshes: Sequence[Mesh], jumps: Sequence[frozenset[int]] = ()) -> Estimate:
        """The errors of a collocation solution on these meshes. jumps: by phase, edges (by number) where controls jump."""
        parts = solution.parts or (solution.trajectory,)
        several = len(parts) > 1
        found, objective = [], 0.0
        for own, phase, part, mesh, there in zip(self.phases, solution.problem.phases, parts, meshes,
                                                 jumps or [frozenset[int]()] * len(parts), strict=True):
            costate = solution.extra.get(f"{phase.name}.costate" if several else "costate")
            errors, change = own.errors(phase, part, mesh, costate, there)
            found.append(errors)
            objective += change
        return Estimate(tuple(found), objective)


class _PhaseFunctions:
    """The rate, running cost and constraints of a phase as one function of (t, x, u, p, centre of the chart, duration)."""

    def __init__(self, phase: Phase, form: Form):
        system, space = phase.system, phase.system.space
        kind = graph_kind(system)
        t, x, u, p, T = kind.sym("t"), kind.sym("x", system.nx), kind.sym("u", system.nu), kind.sym("p", system.np), kind.sym("T")
        chart = kind.sym("chart", form.centre_size)
        here = (t, x, u, p)
        cost = sum((cost_value(c, here) for c in phase.costs if c.at is At.PATH), start=kind(0))
        cost += sum((penalty(c, here) for c in phase.constraints if c.at is At.PATH and c.soft is not None), start=kind(0))
        path = [hard_rows(c, here) for c in phase.constraints if c.at is At.PATH and c.soft is None]
        whole = [hard_rows(c, here) for c in phase.constraints if c.at is At.INTEGRAL]
        self.form, self.size = form, form.size
        outputs = [form.rate(x, system.rate(*here), chart, T), T * cost, _stack(kind, path), T * _stack(kind, whole)]
        self._function = ca.Function("between", [t, x, u, p, chart, T], [ca.densify(o) for o in outputs])
        self.path_bounds = [np.array(sum((getattr(r, side) for r in path), ()), dtype=float) for side in ("lower", "upper")]
        on_control = [[bool(ca.jacobian_sparsity(r.expression, u).nnz())] * len(r.names) for r in path]
        self.on_control = np.array(sum(on_control, []), dtype=bool)
        self.path_names = sum((r.names for r in path), ())
        self.whole_names = sum((r.names for r in whole), ())
        a, d = ca.SX.sym("a", system.nx), ca.SX.sym("d", self.size)
        self._plus = ca.Function("plus", [a, d], [space.plus(a, d) if form.tangent else a + d])

    def __call__(self, t: Array, x: Array, u: Array, p: Array, chart: Array, T: float) -> list[Array]:
        """At k times: [k], [k, nx], [k, nu] -> scaled rates [k, size], costs [k], rows [k, m], integrands [k, i]."""
        k = len(t)
        chart = chart if self.form.tangent else np.zeros((k, 0))
        found = self._function(t[None, :], x.T, u.T, np.repeat(p[:, None], k, axis=1), chart.T, np.full((1, k), T))
        rate, cost, rows, whole = (np.asarray(value).T.reshape(k, -1) for value in found)
        return [rate, cost[:, 0], rows, whole]

    def plus(self, x: Array, d: Array) -> Array:
        return np.asarray(self._plus(x.T, d.T)).T

    def scale(self, x: Array) -> Array:
        """1 + the largest size of each component of the state [size]; 1 where that is no coordinate."""
        sizes = np.max(np.abs(x), axis=0)
        if not self.form.tangent:
            return np.asarray(1 + sizes)
        scale = np.ones(self.size)
        for i, k in enumerate(self.form.space.tangent_index):
            if k >= 0:
                scale[k] += sizes[i]
        return scale

    def ranges(self, x: Array) -> Array:
        """Ranges of the components of the state [size], at least a millionth of their magnitude; 1 where that is no coordinate."""
        own = np.maximum(np.maximum(np.ptp(x, axis=0), 1e-6 * np.max(np.abs(x), axis=0)), 1e-300)
        if not self.form.tangent:
            return np.asarray(own)
        found = np.ones(self.size)
        for i, k in enumerate(self.form.space.tangent_index):
            if k >= 0:
                found[k] = own[i]
        return found

    def errors(self, phase: Phase, part: Trajectory, mesh: Mesh, costate: Any, jumps: frozenset[int]) -> tuple[PhaseErrors, float]:
        """The errors of one phase, and the Lagrangian of the finer rule minus the cost of the program's."""
        start, T = float(part.t[0]), float(part.t[-1] - part.t[0])
        p, N, places = np.asarray(phase.system.parameter_values, dtype=float), mesh.intervals, mesh.places
        # the last place lies a hair inside: rounding must not put it outside the phase
        nodes = np.asarray(part.state(np.clip(start + T * mesh.fractions, part.t[0], part.t[-1])))
        x, knots = nodes[places.node], nodes[mesh.knots]
        u = np.einsum("ec,ecu->eu", places.weights, part.u[places.points])
        chart = knots[places.interval]
        F, cost, _, whole = self(start + T * places.fraction, x, u, p, chart, T)
        scale, sizes = self.scale(nodes), 1 + np.max(np.abs(nodes), axis=0)
        state, path, integral, truncated = (np.zeros(N) for _ in range(4))
        decay, clipped, ends = np.full(N, SMOOTHEST), np.zeros(N, dtype=bool), np.zeros(self.size)
        worst, gap, defect = [""] * N, np.zeros(N), np.zeros(N)
        ranges = self.ranges(nodes)
        objective = 0.0
        names = self.form.names
        groups: dict[int, list[int]] = {}
        for k, scheme in enumerate(mesh.schemes):
            groups.setdefault(id(scheme), []).append(k)
        row_size = None
        for group in groups.values():
            scheme = mesh.schemes[group[0]]
            m, K, G = scheme.degree + MORE, scheme.degree, len(group)
            r, v = points.gauss(m)
            there = np.append(r, 1.0)
            h = mesh.widths[group]
            rise = np.asarray(scheme.state_basis(there))
            own = np.array([places.of[k] for k in group])  # [G, K]
            y = h[:, None, None] * np.einsum("ri,gik->grk", rise, F[own])
            at = self.plus(np.repeat(knots[group], m + 1, axis=0), y.reshape(G * (m + 1), -1)).reshape(G, m + 1, -1)
            control = np.array([mesh.shapes[k].basis(there) @ part.u[mesh.point(k)] for k in group])
            feasible = np.clip(control, phase.u_lower, phase.u_upper)
            times = start + T * (mesh.edges[group][:, None] + h[:, None] * there)
            charts = np.repeat(knots[group], m + 1, axis=0)
            found = self(times.ravel(), at.reshape(G * (m + 1), -1), feasible.reshape(G * (m + 1), -1), p, charts, T)
            rate, running, rows, integrands = (f.reshape(G, m + 1, -1) for f in found)
            inner = rate[:, :m]
            lower, digits = _reduced(mesh, group, part.u, there, r, v)
            less = self(times.ravel(), at.reshape(G * (m + 1), -1), np.clip(lower, phase.u_lower, phase.u_upper).reshape(
                G * (m + 1), -1), p, charts, T)[0].reshape(G, m + 1, -1)
            lost = h[:, None] * np.max(np.abs(inner - less[:, :m]), axis=1) / scale * 10.0 ** -digits[:, None]
            lost[[k in jumps or k + 1 in jumps for k in group]] = 0.0  # controls close to a switch are hardly determined
            truncated[group] = np.max(lost, axis=1, initial=0.0)
            again = h[:, None, None] * np.einsum("ri,gik->grk", points.integral_matrix(r, v, there), inner)
            difference = (again - y) / scale
            each = np.max(np.abs(difference), axis=1)  # [G, size]
            state[group] = np.max(each, axis=1, initial=0.0)
            gap[group] = np.max(np.abs(again - y)[:, -1] / ranges, axis=1, initial=0.0)
            slope = np.einsum("ri,gik->grk", np.asarray(scheme.rate_basis(r)), F[own])
            defect[group] = h * np.max(np.einsum("i,gik->gk", v, np.abs(inner - slope)) / ranges, axis=1, initial=0.0)
            ends = ends + np.sum(np.abs(difference[:, -1]), axis=0)
            excess = np.maximum(0, np.maximum(np.asarray(phase.x_lower) - at, at - np.asarray(phase.x_upper))) / sizes
            broken = np.max(excess, axis=1)  # [G, nx]
            path[group] = np.max(broken, axis=1, initial=0.0)
            if rows.shape[-1]:
                row_size = 1 + np.max(np.abs(rows), axis=(0, 1)) if row_size is None else row_size
                over = np.maximum(0, np.maximum(self.path_bounds[0] - rows, rows - self.path_bounds[1])) / row_size
                by_row = np.where(self.on_control, h[:, None] * np.mean(over, axis=1), np.max(over, axis=1))
                path[group] = np.maximum(path[group], np.max(by_row, axis=1))
            if integrands.shape[-1]:
                fine = np.einsum("i,gik->gk", v, integrands[:, :m])
                coarse = np.einsum("i,gik->gk", scheme.quadrature, whole[own])
                total = 1 + np.abs(mesh.weights @ whole)
                integral[group] = np.max(np.abs(h[:, None] * (fine - coarse)) / total, axis=1)
            beyond = np.max(np.abs(control - feasible), axis=(1, 2), initial=0.0)
            clipped[group] = beyond > 1e-6 * (1 + np.max(np.abs(part.u), initial=0.0))
            decay[group] = _decay(inner / scale * h[:, None, None], r, v, K)
            fine_cost = np.einsum("i,gi->g", v, running[:, :m, 0])
            objective += float(h @ (fine_cost - cost[own] @ scheme.quadrature))
            if costate is not None:
                weight = np.einsum("ri,gik->grk", np.asarray(scheme.control_basis(r)), costate[own])
                objective += float(h @ np.einsum("i,gik,gik->g", v, weight, inner - slope))
            for g, k in enumerate(group):
                sources = [(state[k], names[int(np.argmax(each[g]))] if self.size else ""),
                           (truncated[k], f"controls as they move {names[int(np.argmax(lost[g]))]}" if self.size else "")]
                sources.append((float(np.max(broken[g], initial=0.0)),
                                f"bound of {self.form.space.names[int(np.argmax(broken[g]))]} between nodes"))
                if rows.shape[-1]:
                    sources.append((float(np.max(by_row[g])), f"{self.path_names[int(np.argmax(by_row[g]))]} between nodes"))
                if integrands.shape[-1]:
                    sources.append((integral[k], "quadrature of integral constraints"))
                worst[k] = max(sources, key=lambda s: np.nan_to_num(s[0], nan=np.inf))[1]
        accumulated = float(max(np.max(ends, initial=0.0), np.max(state), np.max(truncated), np.max(path), np.sum(integral)))
        return PhaseErrors(state, truncated, path, integral, accumulated, decay, clipped, tuple(worst), gap, defect), objective


def _decay(f: Array, r: Array, v: Array, K: int) -> Array:
    """Digits lost per degree by the Legendre coefficients 0 .. K of functions f [G, m, size] at the points of a rule: [G].

    The slope of a line through the logarithms of the coefficients 1 .. K, of the components that are largest there (Liu, Hager,
    Rao 2018, Adaptive mesh refinement method for optimal control using decay rates of Legendre polynomial coefficients, IEEE
    Transactions on Control Systems Technology 26(4)).
    """
    size = np.max(np.abs(np.einsum("ji,gik->gjk", points.legendre_transform(r, v), f)), axis=2)[:, :K + 1]
    found = np.full(len(size), SMOOTHEST)
    if size.shape[1] < 2:
        return found
    logs = np.log10(np.maximum(size, FLOOR))
    for g, own in enumerate(logs):
        last = int(np.max(np.flatnonzero(size[g] > FLOOR), initial=0))
        if last == 0:
            continue
        j = np.arange(last + 1) if last < 3 else np.arange(1, last + 1)
        centred = j - j.mean()
        found[g] = -float(centred @ own[j]) / float(centred @ centred)
    return found


def _reduced(mesh: Mesh, group: Sequence[int], u: Array, there: Array, r: Array, v: Array) -> tuple[Array, Array]:
    """Controls [G, k, nu] of intervals at the places ``there`` without their highest Legendre coefficient, and the digits by which
    coefficients fall from the last but one to the last [G]; the controls themselves where they are held or of degree 0."""
    shapes = [mesh.shapes[k] for k in group]
    count = len(shapes[0].points)
    values = np.array([shape.basis(r) @ u[mesh.point(k)] for shape, k in zip(shapes, group, strict=True)])
    full = np.einsum("ji,giu->gju", points.legendre_transform(r, v), values)[:, :count]
    digits = np.zeros(len(group))
    if count < 2 or mesh.controls != "polynomial":
        return np.einsum("rj,gju->gru", points.legendre(there, count), full), digits
    sizes = np.max(np.abs(full), axis=2) if u.shape[1] else np.zeros((len(group), count))
    last, before = sizes[:, -1], np.max(sizes[:, max(1, count - 2):-1], axis=1) if count > 2 else sizes[:, 0]
    digits = np.clip(np.log10(np.maximum(before, 1e-300) / np.maximum(last, 1e-300)), 0.0, 3.0)
    return np.einsum("rj,gju->gru", points.legendre(there, count - 1), full[:, :-1]), digits


def _stack(kind: Any, rows: Sequence[Any]) -> Any:
    return ca.vertcat(kind(0, 1), *(r.expression for r in rows))
