"""One phase along one trajectory: its functions, scales of the states, evaluation points, and integrals."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from ocp.certify.along import INSIDE, POINTS, WEIGHTS, TrajectoryEvaluator
from ocp.certify.events import Look, look
from ocp.certify.scale import Scales, scales
from ocp.problem import Phase, Trajectory
from ocp.thresholds import QUADRATURE

__all__ = ["INSIDE", "Motion"]

Array = np.ndarray


class Motion(TrajectoryEvaluator):
    """A phase along a trajectory, as the certificate needs it; scale [ndx]: of each tangent component. whole: the motion of the
    phase of which this one is a piece, by which states that are constant in a piece are scaled."""

    def __init__(self, phase: Phase, trajectory: Trajectory, whole: Motion | None = None):
        super().__init__(phase, trajectory)
        self.whole = whole

    @cached_property
    def scales(self) -> Scales:
        """The scales of states, controls and parameters along the motion."""
        if self.whole is None:
            return scales(self)
        names = {name: i for i, name in enumerate(self.whole.phase.system.controls)}
        return scales(self).at_least(self.whole.scales, [names.get(name, -1) for name in self.phase.system.controls])

    @property
    def scale(self) -> Array:
        """Scales of the tangent components of the state [ndx]."""
        return self.scales.tangent

    @cached_property
    def look(self) -> Look:
        """Evaluation points along the motion, independent of the mesh, and those at which functions break."""
        return look(self)

    def distance(self, a: Array, b: Array) -> Array:
        """Scaled tangent distances, [k]."""
        return np.abs(np.asarray(self.minus(a.T, b.T)).T / self.scale).max(axis=1)

    def graded_nodes(self, panels: int) -> tuple[Array, Array]:
        """As ``nodes``; segments in which functions break have panels that shrink towards the breaks from both sides."""
        t, breaks = self.trajectory.t, self.look.breaks
        if not len(breaks):
            return self.nodes(panels)
        shares = 0.5 ** np.arange(1, QUADRATURE.halvings + 1)
        graded = np.unique(np.concatenate([[0.0, 1.0], shares, 1 - shares]))
        edges = [np.linspace(a, b, panels + 1)[:-1] for a, b in zip(t[:-1], t[1:], strict=True)]
        which = np.clip(np.searchsorted(t, breaks, side="right") - 1, 0, len(t) - 2)
        for k in np.unique(which):
            cuts = np.unique(np.concatenate([t[k:k + 2], breaks[which == k]]))
            edges[k] = np.unique(np.concatenate([a + (b - a) * graded for a, b in zip(cuts[:-1], cuts[1:], strict=True)]))[:-1]
        every = np.append(np.concatenate(edges), t[-1])
        h = np.diff(every)
        return (every[:-1, None] + h[:, None] * POINTS).ravel(), (h[:, None] * WEIGHTS).ravel()

    def integral(self, of: Callable[[Array, Array, Array], Array], panels: int | None = None) -> Array:
        """Integral over the phase of values [k, n] at (t [k], x [k, nx], u [k, nu]): [n]; of a system in discrete time, the sum
        over its steps times the period."""
        if self.stepped:
            return np.asarray(np.diff(self.trajectory.t) @ of(self.look.t, self.look.x, self.look.u))
        t, weights = self.graded_nodes(panels or self.panels)
        return np.asarray(weights @ of(t, self.state(t), self.control(t)))
