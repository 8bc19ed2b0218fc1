"""One phase along one trajectory: its functions at many times, and integrals over it. Rows are times, columns components."""

from __future__ import annotations

from collections.abc import Callable

import casadi as ca
import numpy as np

from ocp.problem import Phase, Trajectory

Array = np.ndarray

#: nodes of a panel where constraints are checked and defects integrated (Gauss-Legendre, exact to degree 9); a segment has one
#: panel for every so many nodes of the method's own
PER_PANEL = 4
POINTS, WEIGHTS = np.polynomial.legendre.leggauss(5)
POINTS, WEIGHTS = (POINTS + 1) / 2, WEIGHTS / 2
#: held controls jump at knots: a segment must never see its successor's control
INSIDE = 1.0 - 1e-9


class Motion:
    """The functions of a phase, numerically, along a trajectory.

    p: values of the parameters; panels: in every segment, of whatever is sampled between knots;
    scale [ndx]: 1 + the largest magnitude of each tangent component; finite: no NaN at the knots;
    field(t, x, u, p) -> dx/dt; minus, tangent: differences of states, and rates of states as tangent rates.
    """

    def __init__(self, phase: Phase, trajectory: Trajectory):
        self.phase, self.trajectory = phase, trajectory
        system = phase.system
        self.p = np.asarray(system.parameter_values, float)
        space = system.space
        t, x, u, p = ca.SX.sym("t"), ca.SX.sym("x", system.nx), ca.SX.sym("u", system.nu), ca.SX.sym("p", system.np)
        y = ca.SX.sym("y", system.nx)
        self.field = ca.Function("field", [t, x, u, p], [space.rate(x) @ system.rate(t, x, u, p)])
        self.minus = ca.Function("minus", [x, y], [space.minus(x, y)])
        self.tangent = ca.Function("tangent", [x, y], [space.rate_inverse(x) @ y])
        knots = self.minus(np.repeat(np.asarray(space.neutral)[:, None], len(trajectory.t), axis=1), trajectory.x.T)
        self.scale = 1.0 + np.nan_to_num(np.abs(np.array(knots)).max(axis=1), nan=0.0, posinf=0.0)
        held = trajectory.t_u if trajectory.t_path is None else trajectory.t_path
        counts = np.histogram(held, trajectory.t)[0] if self._increasing() else np.zeros(1)
        self.panels = max(1, -(-int(np.max(counts)) // PER_PANEL))
        self.finite = bool(np.all(np.isfinite(trajectory.x)) and np.all(np.isfinite(trajectory.u)))

    def _increasing(self) -> bool:
        return bool(np.all(np.diff(self.trajectory.t) > 0))

    def call(self, function: ca.Function, t: Array, x: Array, u: Array) -> Array:
        """A problem function at many times: [k] , [k, nx], [k, nu] -> [k, n]."""
        k = len(t)
        p = np.repeat(self.p[:, None], k, axis=1)
        return np.asarray(function(t[None, :], x.T, u.T, p)).T

    def control(self, t: Array) -> Array:
        return np.asarray(self.trajectory.control(t)).reshape(len(t), self.phase.system.nu)

    def state(self, t: Array) -> Array:
        return np.asarray(self.trajectory.state(t)).reshape(len(t), self.phase.system.nx)

    def distance(self, a: Array, b: Array) -> Array:
        """Scaled tangent distance row by row, [k]."""
        return np.abs(np.asarray(self.minus(a.T, b.T)).T / self.scale).max(axis=1)

    def nodes(self, panels: int | None = None) -> tuple[Array, Array]:
        """Times and weights [s] of the quadrature over the phase, with so many panels in every segment."""
        t, panels = self.trajectory.t, panels or self.panels
        h = np.diff(t)
        places = ((np.arange(panels)[:, None] + POINTS) / panels).ravel()
        return (t[:-1, None] + h[:, None] * places).ravel(), (h[:, None] * np.tile(WEIGHTS / panels, panels)).ravel()

    def integral(self, of: Callable[[Array, Array, Array], Array], panels: int | None = None) -> Array:
        """Integral over the phase of values [k, n] at (t [k], x [k, nx], u [k, nu]): [n]."""
        t, weights = self.nodes(panels)
        return np.asarray(weights @ of(t, self.state(t), self.control(t)))
