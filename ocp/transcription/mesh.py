"""Where a scheme's nodes lie in a phase, what they are called, and how values between them follow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np
import scipy.sparse as sp

from ocp.errors import ProblemError
from ocp.problem import Guess, Trajectory
from ocp.spaces import Space
from ocp.transcription.schemes import Scheme


@dataclass(frozen=True)
class Mesh:
    """Intervals of a phase: ``edges`` [N+1] from 0 to 1 as fractions of its duration; neighbours share end nodes."""

    scheme: Scheme
    edges: np.ndarray

    @property
    def intervals(self) -> int:
        return len(self.edges) - 1

    @property
    def nodes(self) -> int:
        return self.intervals * (self.scheme.size - 1) + 1

    @property
    def widths(self) -> np.ndarray:
        """h [N] as fractions of the duration."""
        return np.diff(self.edges)

    @property
    def knots(self) -> np.ndarray:
        """Node numbers [N+1] of the ends of the intervals."""
        return np.arange(self.intervals + 1) * (self.scheme.size - 1)

    def node(self, interval: np.ndarray) -> np.ndarray:
        """Node numbers [k, s] of the intervals [k]."""
        return np.asarray(interval)[..., None] * (self.scheme.size - 1) + np.arange(self.scheme.size)

    @property
    def fractions(self) -> np.ndarray:
        """Places of all nodes [M] as fractions of the duration."""
        inner = self.edges[:-1, None] + self.widths[:, None] * np.array(self.scheme.nodes[:-1])
        return np.append(inner.ravel(), self.edges[-1])

    def node_name(self, j: int) -> str:
        interval, inner = divmod(j, self.scheme.size - 1)
        if inner == 0:
            return f"knot {interval}"
        return f"midpoint {interval}" if self.scheme.size == 3 else f"node {inner} of interval {interval}"

    def defects(self, nx: int) -> tuple[sp.csr_matrix, sp.csr_matrix]:
        """(D, W) [N (s-1) nx, M nx]: the defects are ``D vec(X) + W vec(Y)`` with the states X and ``Y = duration * rate``
        stacked node by node."""
        rows = np.arange(self.intervals * (self.scheme.size - 1)).reshape(self.intervals, -1, 1)
        columns = self.node(np.arange(self.intervals))[:, None, :]
        shape = (rows.size, self.nodes)
        parts = []
        for table, scale in ((self.scheme.defect_state, np.ones(self.intervals)), (self.scheme.defect_rate, self.widths)):
            values = scale[:, None, None] * np.array(table)
            r, c = (np.broadcast_to(i, values.shape).ravel() for i in (rows, columns))
            matrix = sp.csr_matrix((values.ravel(), (r, c)), shape=shape)
            matrix.eliminate_zeros()
            parts.append(sp.csr_matrix(sp.kron(matrix, sp.identity(nx), format="csr")))
        return parts[0], parts[1]

    def weights(self) -> np.ndarray:
        """Quadrature weights [M] of the nodes over the whole phase; they sum to 1."""
        w = np.zeros(self.nodes)
        np.add.at(w, self.node(np.arange(self.intervals)), self.widths[:, None] * np.array(self.scheme.quadrature))
        return w


def uniform_mesh(scheme: Scheme, intervals: int) -> Mesh:
    return Mesh(scheme, np.linspace(0.0, 1.0, intervals + 1))


def sample_guess(guess: Guess, space: Space, fractions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """States [k, nx] and controls [k, nu] of a guess at these fractions; its ends are held where it does not reach.

    States lie on the manifold: ``x_i [+] r (x_{i+1} [-] x_i)``. Raises ProblemError for a malformed guess.
    """
    s, x, u = (np.asarray(a, dtype=float) for a in (guess.s, guess.x, guess.u))
    if s.ndim != 1 or len(s) == 0 or np.any(np.diff(s) <= 0) or s[0] < 0 or s[-1] > 1:
        raise ProblemError("fractions must increase within [0, 1]", where="guess.s")
    for name, value, width in (("x", x, space.nx), ("u", u, None)):
        if value.ndim != 2 or len(value) != len(s) or (width is not None and value.shape[1] != width):
            raise ProblemError(f"expected shape ({len(s)}, {'nu' if width is None else width}), got {value.shape}",
                               where=f"guess.{name}")
        if not np.all(np.isfinite(value)):
            raise ProblemError("holds NaN or infinity", where=f"guess.{name}")
    controls = np.column_stack([np.interp(fractions, s, c) for c in u.T]) if u.shape[1] else np.zeros((len(fractions), 0))
    if space.is_vector_space:
        return np.column_stack([np.interp(fractions, s, c) for c in x.T]), controls
    if len(s) == 1:
        return np.repeat(x, len(fractions), axis=0), controls
    a, b, r = ca.SX.sym("a", space.nx), ca.SX.sym("b", space.nx), ca.SX.sym("r")
    between = ca.Function("between", [a, b, r], [space.plus(a, r * space.minus(a, b))])
    i = np.clip(np.searchsorted(s, fractions, side="right") - 1, 0, len(s) - 2)
    ratio = np.clip((fractions - s[i]) / (s[i + 1] - s[i]), 0.0, 1.0)
    return between(x[i].T, x[i + 1].T, ratio[None, :]).full().T, controls


def on_manifold(space: Space, x: np.ndarray) -> np.ndarray:
    """States [..., nx] with their quaternions brought back to unit length."""
    x = np.array(x, dtype=float)
    for q in space.quaternions:
        x[..., q:q + 4] /= np.linalg.norm(x[..., q:q + 4], axis=-1, keepdims=True)
    return x


def trajectory(mesh: Mesh, space: Space, duration: float, x: np.ndarray, u: np.ndarray, rate: np.ndarray) -> Trajectory:
    """Trajectory with the scheme's interpolants through the node values x [M, nx], u [M, nu] and ``rate`` [M, nx],
    the time derivatives of the coordinates. Quaternions are returned at unit length.

    Raises ProblemError when asked for a time outside the phase.
    """
    basis_u, basis_x = np.array(mesh.scheme.control), np.array(mesh.scheme.state)

    def locate(t: Any) -> tuple[np.ndarray, np.ndarray]:
        place = np.asarray(t, dtype=float) / duration
        if np.any((place < -1e-9) | (place > 1 + 1e-9)):
            raise ProblemError(f"time {t} lies outside the phase [0, {duration:.6g}] s", where="trajectory")
        k = np.clip(np.searchsorted(mesh.edges, place, side="right") - 1, 0, mesh.intervals - 1)
        return k, (place - mesh.edges[k]) / mesh.widths[k]

    def state(t: Any) -> np.ndarray:
        k, r = locate(t)
        nodes = mesh.node(k)
        weights = _powers(r, 1, basis_x.shape[1]) @ basis_x.T
        step = (duration * mesh.widths[k])[..., None]
        return on_manifold(space, x[nodes[..., 0]] + step * np.einsum("...i,...ij->...j", weights, rate[nodes]))

    def control(t: Any) -> np.ndarray:
        k, r = locate(t)
        weights = _powers(r, 0, basis_u.shape[1]) @ basis_u.T
        return np.asarray(np.einsum("...i,...ij->...j", weights, u[mesh.node(k)]))

    times = duration * mesh.fractions
    return Trajectory(t=times[mesh.knots], x=on_manifold(space, x[mesh.knots]), u=u, t_u=times, state=state, control=control)


def _powers(r: np.ndarray, first: int, count: int) -> np.ndarray:
    return np.asarray(r)[..., None] ** np.arange(first, first + count)


