"""One phase along one trajectory: its functions, what states are measured by, where to look, and integrals over it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from ocp.certify.along import INSIDE, POINTS, WEIGHTS, Along
from ocp.certify.events import Look, look
from ocp.certify.scale import Scales, scales
from ocp.problem import Phase, Trajectory
from ocp.thresholds import QUADRATURE

__all__ = ["INSIDE", "Motion"]

Array = np.ndarray


class Motion(Along):
    """A phase along a trajectory with what the certificate asks of it; scale [ndx]: what each tangent component is measured by.
    whole: the motion of the phase that this one is a piece of: what rests in a piece is measured by what it does in all."""

    def __init__(self, phase: Phase, trajectory: Trajectory, whole: Motion | None = None):
        super().__init__(phase, trajectory)
        self.whole = whole

    @cached_property
    def scales(self) -> Scales:
        if self.whole is None:
            return scales(self)
        names = {name: i for i, name in enumerate(self.whole.phase.system.controls)}
        return scales(self).at_least(self.whole.scales, [names.get(name, -1) for name in self.phase.system.controls])

    @property
    def scale(self) -> Array:
        return self.scales.tangent

    @cached_property
    def look(self) -> Look:
        """Times at which whatever holds along the motion is looked at, independent of the mesh, and where functions break."""
        return look(self)

    def distance(self, a: Array, b: Array) -> Array:
        """Scaled tangent distance row by row, [k]."""
        return np.abs(np.asarray(self.minus(a.T, b.T)).T / self.scale).max(axis=1)

    def graded_nodes(self, panels: int) -> tuple[Array, Array]:
        """As ``nodes``; segments in which functions break have panels that shrink towards these places from both sides."""
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
