"""Trajectories between the nodes: the interpolants of the schemes, and steps of an integrator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import casadi as ca
import numpy as np

from ocp.errors import ProblemError
from ocp.guess import on_manifold
from ocp.problem import Trajectory
from ocp.transcription.charts import Form
from ocp.transcription.mesh import Mesh

Array = np.ndarray


def collocation_trajectory(mesh: Mesh, form: Form, start: float, duration: float, x: Array, u: Array, rates: Array,
                           charts: Array, bounds: tuple[Array, Array]) -> Trajectory:
    """Trajectory with the schemes' interpolants from ``start`` [s] on.

    x [M, nx]: states of the nodes; u [P, nu]: of the control points; rates [E, size]: time derivatives, at the places, of what the
    schemes act on; charts [N, nx]: centres of the intervals' charts, for tangent unknowns; bounds: of the controls, lower and upper
    [nu], to which polynomials between their points are clipped: what overshoots there stands for no motion of the system.
    Quaternions are returned at unit length.
    Raises ProblemError when asked for a time outside the phase.
    """
    locate = _locator(mesh.edges, start, duration)
    moved = _moved(form)

    def pieces(t: Any, of: Callable[[int, Array], Array], width: int) -> Array:
        k, r = locate(t)
        flat, places = np.atleast_1d(k).ravel(), np.atleast_1d(r).ravel()
        found = np.empty((len(flat), width))
        for i in np.unique(flat):
            here = flat == i
            found[here] = of(int(i), places[here])
        return found.reshape(*np.shape(k), width)

    def state_in(k: int, r: Array) -> Array:
        rise = duration * mesh.widths[k] * np.asarray(mesh.schemes[k].state_basis(r)) @ rates[mesh.places.of[k]]
        return moved(x[mesh.knots[k]], rise, charts[k])

    def state(t: Any) -> Array:
        return on_manifold(form.space, pieces(t, state_in, x.shape[1]))

    def control(t: Any) -> Array:
        return np.clip(pieces(t, lambda k, r: np.asarray(mesh.shapes[k].basis(r)) @ u[mesh.point(k)], u.shape[1]), *bounds)

    return Trajectory(t=start + duration * mesh.edges, x=on_manifold(form.space, x[mesh.knots]), u=u,
                      t_u=start + duration * mesh.control_fractions, state=state, control=control,
                      t_path=start + duration * _within(mesh))


def _within(mesh: Mesh) -> Array:
    """Fractions of the places; those that end an interval lie a hair before its end, where its own control holds."""
    places = mesh.places
    ends = places.node == mesh.knots[places.interval + 1]
    return places.fraction - 1e-9 * mesh.widths[places.interval] * ends


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
    """(x [nx], rises [k, size] in a chart, centre of the chart [nx]) -> states [k, nx]."""
    if not form.tangent:
        return lambda x, rise, chart: x + rise
    x, c, d = ca.SX.sym("x", form.space.nx), ca.SX.sym("c", form.space.nx), ca.SX.sym("d", form.space.ndx)
    plus = ca.Function("plus", [x, d, c], [form.space.plus(c, form.space.minus(c, x) + d)])
    return lambda x, rise, chart: np.asarray(plus(x, rise.T, chart)).T
