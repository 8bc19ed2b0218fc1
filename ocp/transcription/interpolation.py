"""Trajectories between the nodes: the interpolants of the schemes, and steps of an integrator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import casadi as ca
import numpy as np

from ocp.errors import ProblemError
from ocp.guesses.sampling import on_manifold
from ocp.problem import Bounds, Trajectory
from ocp.transcription.charts import Form
from ocp.transcription.mesh import Mesh

Array = np.ndarray


def collocation_trajectory(mesh: Mesh, form: Form, start: float, duration: float, x: Array, u: Array, rates: Array,
                           charts: Array, bounds: Bounds) -> Trajectory:
    """Trajectory with the schemes' interpolants from ``start`` [s] on.

    x [M, nx]: states of the nodes; u [P, nu]: of the control points; rates [E, size]: time derivatives, at the evaluation points,
    of what the schemes act on; charts [N, nx]: centres of the intervals' charts, for tangent unknowns; bounds: of the controls,
    to which polynomials between their points are clipped: what overshoots there stands for no motion of the system.
    Quaternions are returned at unit length.
    Raises ProblemError when asked for a time outside the phase.
    """
    locate = _locator(mesh.edges, start, duration)
    moved = _moved(form)
    states = _Alike(mesh.schemes, lambda k: rates[mesh.evaluation.of[k]], lambda scheme, r: np.asarray(scheme.state_basis(r)))
    controls = _Alike(mesh.shapes, lambda k: u[mesh.point(k)], lambda shape, r: np.asarray(shape.basis(r)))

    def state(t: Any) -> Array:
        k, r = locate(t)
        flat = np.atleast_1d(k).ravel()
        rise = duration * mesh.widths[flat, None] * states(flat, np.atleast_1d(r).ravel())
        found = moved(x[mesh.knots[flat]], rise, charts[flat] if form.tangent else charts)
        return on_manifold(form.space, found.reshape(*np.shape(k), x.shape[1]))

    def control(t: Any) -> Array:
        k, r = locate(t)
        found = controls(np.atleast_1d(k).ravel(), np.atleast_1d(r).ravel())
        return bounds.clip(found.reshape(*np.shape(k), u.shape[1]))

    return Trajectory(t=start + duration * mesh.edges, x=on_manifold(form.space, x[mesh.knots]), u=u,
                      t_u=start + duration * mesh.control_fractions, state=state, control=control,
                      t_path=start + duration * _within(mesh))


class _Alike:
    """Combinations of the values of intervals, intervals of one kind at once. kinds [N]; values(k): [m, width] of an interval;
    basis(kind, r [q]) -> [q, m]."""

    def __init__(self, kinds: Sequence[Any], values: Callable[[int], Array], basis: Callable[[Any, Array], Array]):
        groups: dict[int, list[int]] = {}
        for k, kind in enumerate(kinds):
            groups.setdefault(id(kind), []).append(k)
        self.basis, self.groups = basis, []
        self.group, self.row = np.zeros(len(kinds), dtype=int), np.zeros(len(kinds), dtype=int)
        for number, own in enumerate(groups.values()):
            self.group[own], self.row[own] = number, np.arange(len(own))
            self.groups.append((kinds[own[0]], np.array([values(k) for k in own])))

    def __call__(self, k: Array, r: Array) -> Array:
        """[q, width] at the evaluation points r [q] within the intervals k [q]."""
        found, group = np.empty((len(k), self.groups[0][1].shape[2])), self.group[k]
        for number, (kind, values) in enumerate(self.groups):
            here = slice(None) if len(self.groups) == 1 else np.flatnonzero(group == number)
            found[here] = np.einsum("qm,qmw->qw", self.basis(kind, r[here]), values[self.row[k[here]]])
        return found


def _within(mesh: Mesh) -> Array:
    """Fractions of the evaluation points; those that end an interval lie a hair before its end, where its own control holds."""
    at = mesh.evaluation
    return at.fraction - 1e-9 * mesh.widths[at.interval] * (at.node == mesh.knots[at.interval + 1])


def shooting_trajectory(edges: Array, form: Form, start: float, duration: float, x: Array, u: Array, linear: bool,
                        advance: Callable[[Array, Array, Array, Array], Array]) -> Trajectory:
    """Trajectory through the knots x [N+1, nx] of a multiple-shooting program.

    advance(k [m], r [m], x [m, nx], u [m, nu (2 nu)]) -> [m, nx]: states after the fraction r of the intervals k.
    """
    locate = _locator(edges, start, duration)
    n = len(edges) - 1
    own = np.column_stack([u[:n], u[1:n + 1]]) if linear else u[:n]

    def state(t: Any) -> Array:
        k, r = locate(t)
        flat = np.atleast_1d(k).ravel()
        found = advance(flat, np.atleast_1d(r).ravel(), x[flat], own[flat])
        return on_manifold(form.space, found.reshape(*np.shape(k), x.shape[1]))

    def control(t: Any) -> Array:
        k, r = locate(t)
        if not linear:
            return np.asarray(u[k])
        return np.asarray(u[k] + np.asarray(r)[..., None] * (u[np.asarray(k) + 1] - u[k]))

    knots = start + duration * edges
    return Trajectory(t=knots, x=on_manifold(form.space, x), u=u, t_u=knots if linear else knots[:-1], state=state, control=control)


def parabola(edges: Array, form: Form, x: Array, first: Callable[[Array, Array, Array, Array], Array]
             ) -> Callable[[Array, Array, Array, Array], Array]:
    """As ``advance`` of ``shooting_trajectory`` for BDF2: in the chart of a knot, the parabola through its neighbours and itself;
    first: the same in the first interval."""
    space = form.space
    w = np.diff(edges)[1:] / np.diff(edges)[:-1]

    def advance(k: Array, r: Array, here: Array, u: Array) -> Array:
        found, on = np.array(here), np.asarray(k) > 0
        if not on.all():
            found[~on] = first(k[~on], r[~on], here[~on], u[~on])
        if on.any():
            j, s, ratio = k[on], r[on], w[k[on] - 1]
            onwards, back = (space.apart(here[on], x[other]).T for other in (j + 1, j - 1))
            y = onwards * s * (ratio * s + 1) / (ratio + 1) + back * ratio**2 * s * (s - 1) / (1 + ratio)
            found[on] = space.moved(here[on], y.T)
        return found

    return advance


def cubic(edges: Array, form: Form, duration: float, x: Array) -> Callable[[Array, Array, Array, Array], Array]:
    """As ``advance`` of ``shooting_trajectory`` for states (q, v): in the chart of a knot, the cubic through both knots with their
    velocities as derivatives, and its derivative as velocity."""
    space = form.space
    nv, widths = space.ndx // 2, duration * np.diff(edges)

    def advance(k: Array, s: Array, here: Array, u: Array) -> Array:
        k, h = np.asarray(k), widths[k]
        rise = space.apart(here, x[k + 1]).T[:nv]
        before, after = h * here[:, -nv:].T, h * x[k + 1, -nv:].T
        y = s**2 * (3 - 2 * s) * rise + s * (1 - s) ** 2 * before - s**2 * (1 - s) * after
        slope = 6 * s * (1 - s) * rise + (1 - s) * (1 - 3 * s) * before - s * (2 - 3 * s) * after
        return space.moved(here, np.vstack([y, (slope - before) / h]).T)

    return advance


def _locator(edges: Array, start: float, duration: float) -> Callable[[Any], tuple[Array, Array]]:
    knots, widths = start + duration * edges, duration * np.diff(edges)  # as trajectories give them: at a knot the right side holds

    def locate(t: Any) -> tuple[Array, Array]:
        t = np.asarray(t, dtype=float)
        if np.any((t < knots[0] - 1e-9 * duration) | (t > knots[-1] + 1e-9 * duration)):
            raise ProblemError(f"time {t} lies outside the phase [{start:.6g}, {start + duration:.6g}] s", where="trajectory")
        k = np.clip(np.searchsorted(knots, t, side="right") - 1, 0, len(edges) - 2)
        return k, (t - knots[k]) / widths[k]

    return locate


def _moved(form: Form) -> Callable[[Array, Array, Array], Array]:
    """(x [k, nx], rises [k, size] in charts, centres of the charts [k, nx]) -> states [k, nx]."""
    if not form.tangent:
        return lambda x, rise, chart: x + rise
    x, c, d = ca.SX.sym("x", form.space.nx), ca.SX.sym("c", form.space.nx), ca.SX.sym("d", form.space.ndx)
    plus = ca.Function("plus", [x, d, c], [form.space.plus(c, form.space.minus(c, x) + d)])
    return lambda x, rise, chart: np.asarray(plus(x.T, rise.T, chart.T)).T
