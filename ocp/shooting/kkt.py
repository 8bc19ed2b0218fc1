"""The optimality conditions (KKT) of a discrete optimal-control problem as one banded linear system, in plain NumPy.

The problem, with states on manifolds and sizes that may change from knot to knot:

    minimise    l_0(x_0, u_0) + ... + l_S(x_S)
    subject to  x_0 = start,  x_{k+1} = f_k(x_k, u_k),  rows c_k(x_k, u_k),  lower <= u_k <= upper

A row of kind EQUAL vanishes, BELOW is not positive, and a CONE with its IN_CONE rows lies in ``|c[1:]| <= c[0]``
(``ocp.shooting.stages.rows``). The Lagrangian is

    sum l + costate_0 . (start (-) x_0) + sum costate_{k+1} . (f_k (-) x_{k+1}) + sum w . c

so that costate_k is the derivative of the remaining cost by x_k, and w (the "row multipliers") is positive for BELOW and minus a
point of the cone for cones. Bounds on controls carry no multiplier: theirs is what is left of the gradient.

Variables are ordered knot by knot, (costate, dx, du, y) with y the multipliers of the active rows, so the matrix is banded, about
``2 n + m + rows`` to either side. It is factored by LAPACK's banded LU with partial pivoting. Measured on 100 knots, factor and
solve, against SuperLU with its better ordering of the two (natural, COLAMD): n/m = 4/1 0.15 and 0.53 ms, 12/6 2.0 and 4.2 ms, 36/12
22 and 32 ms.

Where rows are redundant the matrix is singular: what is factored has small terms on the diagonal, and iterative refinement with
the matrix itself takes their effect away (the proximal method of multipliers; Friedlander, Orban 2012).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg.lapack import dgbtrf, dgbtrs

from ocp.shooting.stages.rows import BELOW, CONE, EQUAL

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

DIAGONAL = 1e-9
"""Term on the diagonal that makes a singular system solvable, relative to the Hessian (primal) or to the constraint (dual)."""
REFINEMENTS = 12


def _no(*shape: int) -> Callable[[], Array]:
    return lambda: np.zeros(shape)


@dataclass(frozen=True)
class Knot:
    """Values and derivatives at one knot, by ``z = (dx [n], du [m])``; the last knot has m = 0, and neither F nor gap.

    g [n+m]: gradient of the cost. H [n+m, n+m]: Hessian of the Lagrangian (exact, or of Gauss-Newton), constraints included but not
    the curvature of the cones themselves. F [n', n+m]: derivative of the step into the next state. gap [n']: ``f (-) x_next``, the
    dx with ``x_next [+] dx = f``. c [r], C [r, n+m]: rows and their derivatives; kind, size [r] as in ``stages.rows.Rows``; rows
    that do not hold at this knot are left out. u, lower, upper [m]: controls and their bounds.
    """

    n: int
    g: Array
    H: Array
    F: Array = field(default_factory=_no(0, 0))
    gap: Array = field(default_factory=_no(0))
    u: Array = field(default_factory=_no(0))
    lower: Array = field(default_factory=_no(0))
    upper: Array = field(default_factory=_no(0))
    c: Array = field(default_factory=_no(0))
    C: Array = field(default_factory=_no(0, 0))
    kind: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    size: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def __post_init__(self) -> None:
        for name in ("F", "C"):
            if not getattr(self, name).shape[0]:
                object.__setattr__(self, name, np.zeros((0, len(self.g))))

    @property
    def m(self) -> int:
        """Number of inequality constraints."""
        return len(self.g) - self.n

    def cones(self) -> list[slice]:
        """The constraints of each cone."""
        return [slice(int(r), int(r + self.size[r])) for r in np.flatnonzero(self.kind == CONE)]


@dataclass(frozen=True)
class Multipliers:
    """costate [S+1] of [n_k]; rows [S+1] of [r_k]: derivatives of the Lagrangian by the constraints c."""

    costate: tuple[Array, ...]
    rows: tuple[Array, ...]


@dataclass(frozen=True)
class Residuals:
    """Largest absolute residuals: gradient of the Lagrangian (projected where a control is at a bound), violation of a row, gap of
    the dynamics, and complementarity (natural residual: ``min(w, -c)``, where that is not the violation; for cones the distance of
    -w from the projection of -w - c)."""

    stationarity: float
    feasibility: float
    gap: float
    complementarity: float

    @property
    def finite(self) -> bool:
        """Whether all residuals are finite."""
        return bool(np.isfinite(self.stationarity + self.feasibility + self.gap + self.complementarity))

    def worst(self, scale: float = 1.0) -> float:
        """The largest, those of the gradient and of complementarity divided by ``scale``."""
        return max(self.stationarity / scale, self.feasibility, self.gap, self.complementarity / scale)


def lagrangian_gradients(knots: Sequence[Knot], multipliers: Multipliers) -> list[Array]:
    """Gradient of the Lagrangian by (dx, du) at every knot."""
    found = []
    for k, knot in enumerate(knots):
        gradient = knot.g.copy()
        gradient[:knot.n] -= multipliers.costate[k]
        if len(knot.gap):
            gradient += knot.F.T @ multipliers.costate[k + 1]
        if len(knot.c):
            gradient += knot.C.T @ multipliers.rows[k]
        found.append(gradient)
    return found


def costates(knots: Sequence[Knot], rows: Sequence[Array]) -> Multipliers:
    """The costates that make the gradient by the states vanish, for given row multipliers: a backward sweep."""
    found: list[Array] = []
    for knot, w in zip(reversed(knots), reversed(rows), strict=True):
        gradient = knot.g[:knot.n] + (knot.C[:, :knot.n].T @ w if len(knot.c) else 0.0)
        found.append(gradient + knot.F[:, :knot.n].T @ found[-1] if len(knot.gap) else gradient)
    return Multipliers(tuple(reversed(found)), tuple(rows))


def project_cone(v: Array) -> Array:
    """Projection of v onto ``|v[1:]| <= v[0]``."""
    norm = float(np.linalg.norm(v[1:]))
    if norm <= v[0]:
        return v
    if norm <= -v[0]:
        return np.zeros_like(v)
    axis = 0.5 * (v[0] + norm)
    return np.concatenate([[axis], axis / norm * v[1:]])


def residuals(knots: Sequence[Knot], multipliers: Multipliers) -> Residuals:
    """Residuals of the optimality conditions; NaN where something is not finite."""
    found = {"stationarity": [0.0], "feasibility": [0.0], "gap": [0.0], "complementarity": [0.0]}
    for knot, gradient, w in zip(knots, lagrangian_gradients(knots, multipliers), multipliers.rows, strict=True):
        # zero exactly where the conditions with bounds hold
        push = np.clip(gradient[knot.n:], knot.u - knot.upper, knot.u - knot.lower)
        found["stationarity"] += [_largest(gradient[:knot.n]), _largest(push)]
        found["gap"].append(_largest(knot.gap))
        if not len(knot.c):
            continue
        equal, below = knot.kind == EQUAL, knot.kind == BELOW
        found["feasibility"] += [_largest(knot.c[equal]), _largest(np.maximum(knot.c[below], 0.0))]
        found["complementarity"].append(_largest(np.minimum(w[below], np.maximum(-knot.c[below], 0.0))))
        for part in knot.cones():
            c = knot.c[part]
            found["feasibility"].append(max(0.0, float(np.linalg.norm(c[1:]) - c[0])))
            found["complementarity"].append(_largest(-w[part] - project_cone(-w[part] - c)))
    return Residuals(*(float(np.max(values)) for values in found.values()))


def _largest(values: Array) -> float:
    return float(np.max(np.abs(values))) if values.size else 0.0


@dataclass(frozen=True)
class ActiveConstraints:
    """Conditions of the active set of one knot on a step z: ``R z - soft y = b`` with ``w = T y + rest`` the multipliers after it.

    R [a, n+m], soft, b [a], T [r, a], rest [r]; share [a]: by which the residuals of rows are divided in that basis; side [m]: -1
    where a control is held at its lower bound, 1 at its upper, else 0.
    """

    R: Array
    soft: Array
    b: Array
    T: Array
    rest: Array
    share: Array
    side: NDArray[np.int8]


class System:
    """The factored matrix of the conditions with a fixed active set. ``solve`` works on flat vectors in the order of the variables;
    costates(k), states(k), controls(k), active(k) are the slices of knot k in them."""

    def __init__(self, knots: Sequence[Knot], active: Sequence[ActiveConstraints], diagonal: float = DIAGONAL):
        self.sizes = [(knot.n, knot.m, len(have.b)) for knot, have in zip(knots, active, strict=True)]
        self.offsets = np.concatenate([[0], np.cumsum([2 * n + m + a for n, m, a in self.sizes])]).astype(np.int64)
        self.size = int(self.offsets[-1])
        rows, columns, values, extra = _triplets(knots, active, self.offsets, diagonal)
        self.matrix = sp.csr_matrix((values, (rows, columns)), (self.size, self.size))
        apart = rows - columns
        self.below, self.above = int(apart.max(initial=0)), int(-apart.min(initial=0))
        top = self.below + self.above
        band = np.zeros((top + self.below + 1, self.size), order="F")
        band[top + apart, columns] = values
        band[top] += extra
        self._factor, self._pivots, info = dgbtrf(band, self.below, self.above, overwrite_ab=1)
        self.singular = info != 0 or not np.isfinite(values).all()

    def costates(self, k: int) -> slice:
        """Unknowns of the costate of knot k."""
        return slice(self.offsets[k], self.offsets[k] + self.sizes[k][0])

    def states(self, k: int) -> slice:
        """Unknowns of the state of knot k."""
        start = self.offsets[k] + self.sizes[k][0]
        return slice(start, start + self.sizes[k][0])

    def controls(self, k: int) -> slice:
        """Unknowns of the controls of knot k."""
        n, m, _ = self.sizes[k]
        return slice(self.offsets[k] + 2 * n, self.offsets[k] + 2 * n + m)

    def active(self, k: int) -> slice:
        """Unknowns of the active constraints of knot k."""
        n, m, _ = self.sizes[k]
        return slice(self.offsets[k] + 2 * n + m, self.offsets[k + 1])

    def solve(self, b: Array) -> tuple[Array, float]:
        """(solution of the system itself, not of the one with the added diagonal; largest residual that is left, relative to the
        largest entry of b). b [size] or [size, j]. A singular matrix gives NaN."""
        if self.singular:
            return np.full_like(b, np.nan), np.nan
        scale = float(np.max(np.abs(b), initial=0.0)) or 1.0
        best, least, x = np.zeros_like(b), np.inf, np.zeros_like(b)
        for _ in range(REFINEMENTS):
            left = b - self.matrix @ x
            size = float(np.max(np.abs(left), initial=0.0)) / scale
            if not size < least:
                break
            best, least = x, size
            if size <= 1e-15:
                break
            x = x + dgbtrs(self._factor, self.below, self.above, left, self._pivots)[0].reshape(b.shape)
        return best, least


class Triplets(NamedTuple):
    """Rows, columns and values of a matrix, and what the factored one has more on its diagonal."""

    rows: Indices
    columns: Indices
    values: Array
    extra: Array


def _triplets(knots: Sequence[Knot], active: Sequence[ActiveConstraints], offsets: Indices, diagonal: float) -> Triplets:
    """Rows, columns and values of the matrix, and what the factored one has more on its diagonal."""
    rows, columns, values = [], [], []
    extra = np.zeros(int(offsets[-1]))

    def put(row: int, column: int, block: Array) -> None:
        i, j = np.nonzero(block)
        rows.append(i + row)
        columns.append(j + column)
        values.append(block[i, j])

    for k, (knot, have) in enumerate(zip(knots, active, strict=True)):
        n, m, a = knot.n, knot.m, len(have.b)
        start, x, u = int(offsets[k]), int(offsets[k]) + n, int(offsets[k]) + 2 * n
        y, after = u + m, int(offsets[k + 1])
        fixed = n + np.flatnonzero(have.side)
        H, pushes, pulls = knot.H, have.R.T, knot.F.T
        if len(fixed):  # the row of a control at its bound says only how far it moves
            H, pushes, pulls = H.copy(), pushes.copy(), pulls.copy()
            H[fixed] = pushes[fixed] = 0.0
            H[fixed, fixed] = 1.0
            if len(knot.gap):
                pulls[fixed] = 0.0
        put(x, x, H)
        index = np.arange(n)
        rows += [start + index, x + index]
        columns += [x + index, start + index]
        values += [np.full(n, -1.0), np.full(n, -1.0)]
        scale = float(np.max(np.abs(np.diagonal(knot.H)), initial=0.0)) or 1.0
        extra[x:y] = diagonal * scale
        extra[n + start + fixed] = 0.0
        if a:
            put(y, x, have.R)
            put(x, y, pushes)
            rows.append(y + np.arange(a))
            columns.append(y + np.arange(a))
            values.append(-have.soft)
            extra[y:after] = -diagonal * np.maximum(np.max(np.abs(have.R), axis=1), 1e-8) ** 2 / scale
        if len(knot.gap):
            put(after, x, knot.F)
            put(x, after, pulls)
    return Triplets(np.concatenate(rows).astype(np.int64), np.concatenate(columns).astype(np.int64), np.concatenate(values), extra)
