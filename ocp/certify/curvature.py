"""The kind of the point: minimum, flat, saddle or maximum, and how far below the optimum of the discrete problem may lie.

At a point that satisfies the first-order conditions, with the strictly active constraints as equations A, the Hessian H of the
Lagrangian on the null space of A decides (Nocedal and Wright 2006, Theorems 12.5 and 12.6). Variables are measured by their sizes
s, curvatures by those of the objective F and by the part w of the phase that belongs to a variable: the eigenvalues k of

    (Z' S H S Z) v = k F (Z' W Z) v

do not depend on units, and hardly on the mesh: a deviation by its scale all along the phase changes the objective by k F / 2.
The number below k follows from the inertia of the matrix [S H S / F - k W, A'; A, 0] (Gould 1985), whose blocks along time are
factorised one after another with the pivots of Bunch and Kaufman. Constraints that are met without pushing (weakly active) are
first left out: if the rest is a minimum, so is the whole; if not, a direction counts only if it leaves none of them: those that it
would leave are active, and another is looked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from ocp.certify.banded import Factors, arranged, negative
from ocp.certify.flat import Values, descent
from ocp.certify.motion import Motion
from ocp.interrupts import Activity, check
from ocp.nlp.local import CONTROL, COORDINATE, DURATION, PARAMETER, TANGENT, Local
from ocp.problem import MINIMA, Kind
from ocp.thresholds import ROUNDING, SECOND_ORDER

Array = np.ndarray


@dataclass(frozen=True)
class Curvature:
    """kind: one of the four; lowest: the lowest curvature that was found, minus infinity for below every bound tried; below: how
    many eigenvalues are negative, of all; direction [n]: one of negative curvature in the program's unknowns, or None;
    decrease: by how much a Newton step would change the objective, over its size, NaN where there is no minimum;
    for a flat minimum the decrease may be so small that only a search along the direction decides (``_doubtful``);
    weak: weakly active constraints; pushing: strictly active inequalities;
    gradient: gradient of the Lagrangian, root mean square over the phase, over the variation of the objective."""

    kind: Kind
    lowest: float
    below: int
    free: int
    direction: Array | None
    decrease: float
    weak: int
    pushing: int
    gradient: float

    @property
    def minimum(self) -> bool:
        """Whether the point is a minimum, strict or flat."""
        return self.kind in MINIMA


def sizes(local: Local, motions: Sequence[Motion]) -> Array:
    """The size of every unknown [n]."""
    own, found = local.owners, np.ones(len(local.x))
    for number, motion in enumerate(motions):
        scales = motion.scales
        for kind, values in ((COORDINATE, scales.wide_coordinates), (TANGENT, scales.wide_tangent), (CONTROL, scales.wide_control),
                             (PARAMETER, scales.parameters), (DURATION, np.array([motion.duration]))):
            here = (own.phase == number) & (own.kind == kind) & (own.component >= 0)
            found[here] = values[own.component[here]]
    other = own.component < 0
    found[other] = np.maximum(np.abs(local.x[other]), 1e-3)
    return found


class _Scaled:
    """The program at its point, with scaled variables and objective, and its active constraints."""

    def __init__(self, local: Local, size: Array, objective: float, also: tuple[Array, Array] | None = None):
        """also: masks of weakly active constraints and variables that are treated as active."""
        self.local, self.size = local, size
        S = sp.diags(size)
        A = sp.csr_matrix(local.jacobian @ S)
        rows = np.maximum(abs(A).max(axis=1).toarray().ravel() if A.shape[0] else np.zeros(0), 1e-300)
        pressed, near = self._active(local.g, local.g_lower, local.g_upper, local.lam_g * rows / objective, rows, 1.0)
        self.weak_rows = near & ~pressed
        self.row_sizes, apart = rows, local.g_lower < local.g_upper
        fixed, close = self._active(local.x, local.x_lower, local.x_upper, local.lam_x * size / objective, size, local.owners.share)
        self.weak_columns = close & ~fixed & (local.x_lower < local.x_upper)
        self.pushing = int((pressed & apart).sum() + (fixed & (local.x_lower < local.x_upper)).sum())
        more_rows, more_columns = (False, False) if also is None else also
        self.rows = np.flatnonzero(pressed | more_rows | ~apart)
        self.columns = np.flatnonzero(~(fixed | more_columns | (local.x_lower == local.x_upper)))
        self.H = sp.csc_matrix(S @ local.hessian @ S / objective)[self.columns][:, self.columns]
        self.A = sp.csc_matrix(sp.diags(1 / rows) @ A)[self.rows][:, self.columns]
        # rows whose every entry is fixed say nothing
        self.W = local.owners.share[self.columns]

    @staticmethod
    def _active(value: Array, lower: Array, upper: Array, push: Array, size: Array, share: Array | float) -> tuple[Array, Array]:
        """(strictly active constraints, weakly active constraints)."""
        with np.errstate(invalid="ignore"):
            distance = np.minimum(np.where(np.isfinite(lower), value - lower, np.inf),
                                  np.where(np.isfinite(upper), upper - value, np.inf)) / size
        density = np.abs(push) / share
        met = distance <= SECOND_ORDER.met
        return met & (density > np.maximum(SECOND_ORDER.active_multiplier, np.maximum(distance, 0.0))), met

    def matrix(self, shift: float) -> sp.csc_matrix:
        """[H - shift W, A'; A, -small]."""
        return sp.bmat([[self.H - shift * sp.diags(self.W), self.A.T],
                        [self.A, -ROUNDING.regularisation * sp.eye(self.A.shape[0])]], format="csc")

    @cached_property
    def order(self) -> Array:
        """The banded order of the matrix, whatever the shift."""
        return arranged(sp.csr_matrix(self.matrix(1.0)), len(self.columns))

    def below(self, shift: float) -> int:
        """Number of eigenvalues below the shift."""
        return negative(self.matrix(shift), len(self.columns), self.order) - self.A.shape[0]


def judge(local: Local, motions: Sequence[Motion], objective: float, varied: float, values: Values | None = None
          ) -> Curvature | None:
    """The kind of the point; None if derivatives are not finite or the program is too large. objective, varied: the scale of the
    objective, and its variation with states and controls. values: of the program beside its point, by which flat directions are
    followed."""
    size = sizes(local, motions)
    finite = all(np.all(np.isfinite(part)) for part in (local.hessian.data, local.jacobian.data, local.gradient, size))
    if not finite or len(local.x) + len(local.g) > SECOND_ORDER.max_unknowns:
        return None
    free = local.x_lower < local.x_upper
    gradient = float(np.sqrt(np.sum(((local.lagrangian_gradient() * size)**2 / local.owners.share)[free]))) / varied
    loose = _Scaled(local, size, varied)
    weak = int(loose.weak_rows.sum() + loose.weak_columns.sum())
    active, direction = _down(loose, varied)
    if direction is not None:
        below = active.below(-SECOND_ORDER.negative)
        independent = len(active.columns) - _rank(active)
        kind = Kind.MAXIMUM if below >= independent > 0 else Kind.SADDLE
        full = np.zeros(len(local.x))
        full[active.columns] = direction * size[active.columns]
        lowest = float(direction @ (active.H @ direction)) / float(direction @ (active.W * direction))
        return Curvature(kind, lowest, below, independent, full, float("nan"), weak, loose.pushing, gradient)
    strict = loose.below(SECOND_ORDER.flat) == 0
    if not strict and values is not None and (direction := descent(loose, values, varied)) is not None:
        return Curvature(Kind.SADDLE, 0.0, 0, len(loose.columns) - _rank(loose), direction, float("nan"), weak, loose.pushing,
                         gradient)
    kind, lowest = (Kind.STRICT_MINIMUM, SECOND_ORDER.flat) if strict else (Kind.FLAT_MINIMUM, -SECOND_ORDER.negative)
    return Curvature(kind, lowest, 0, 0, None if strict else _doubtful(loose), _decrease(local, size, objective), weak,
                     loose.pushing, gradient)


def complementarity(local: Local, objective: float) -> float:
    """Sum of the products of multipliers and distances to their bounds, over the scale of the objective; a multiplier whose bound
    is infinite counts by itself."""
    total = 0.0
    for value, lower, upper, lam in ((local.x, local.x_lower, local.x_upper, local.lam_x),
                                     (local.g, local.g_lower, local.g_upper, local.lam_g)):
        for bound, force in ((upper, np.maximum(lam, 0)), (lower, np.maximum(-lam, 0))):
            distance = np.where(np.isfinite(bound), np.abs(np.where(np.isfinite(bound), bound, 0.0) - value), 1.0)
            total += float(np.sum((distance * force)[lower < upper]))
    return total / objective


def _rank(active: _Scaled) -> int:
    """Number of independent active constraints."""
    n, m = len(active.columns), active.A.shape[0]
    diagonal = np.r_[np.full(n, 1e-3), np.full(m, 1e-9)]
    return negative(sp.diags(diagonal) + sp.bmat([[None, active.A.T], [active.A, None]], format="csc"), n) if m else 0


def _down(program: _Scaled, objective: float) -> tuple[_Scaled, Array | None]:
    """The active constraints, and a direction of negative curvature among the rest that leaves no weakly active constraint; None if
    none is found. Constraints that a direction would leave are made active, and the search is repeated, until all of them are."""
    weak = program.weak_rows, program.weak_columns
    rows, columns = (np.zeros_like(mask) for mask in weak)
    active = program
    for left in range(SECOND_ORDER.rounds, -1, -1):
        check(Activity.CURVATURE)
        if active.below(-SECOND_ORDER.negative) == 0:
            return active, None
        v = _curved(active)
        if v is not None and (inward := _inward(active, v)) is not None:
            return active, inward
        leaves = [] if v is None else [_left_by(active, sign * v) for sign in (1.0, -1.0)]
        counts = [int(a.sum() + b.sum()) for a, b in leaves]
        if v is not None and min(counts) == 0:
            return active, v if counts[0] == 0 else -v
        more = weak if v is None or left == 1 else leaves[int(np.argmin(counts))]
        if not np.any(more[0] & ~rows) and not np.any(more[1] & ~columns):
            return active, None
        rows, columns = rows | more[0], columns | more[1]
        active = _Scaled(program.local, program.size, objective, (rows, columns))
    return active, None


def _doubtful(program: _Scaled) -> Array | None:
    """A direction [n] along which a flat minimum may not be one: it decreases the terms that it affects, by an amount that is small
    against the whole objective. None if there is none."""
    if program.below(-SECOND_ORDER.doubtful) == 0 or (v := _curved(program, SECOND_ORDER.doubtful, 0.0)) is None:
        return None
    gain = float(v @ (program.H @ v))
    if not gain < -SECOND_ORDER.doubtful_share * float(np.abs(v) @ (abs(program.H) @ np.abs(v))):
        return None
    for sign in (1.0, -1.0):
        if not any(np.any(mask) for mask in _left_by(program, sign * v)):
            full = np.zeros(len(program.local.x))
            full[program.columns] = sign * v * program.size[program.columns]
            return full
    return None


def _curved(active: _Scaled, down: float = SECOND_ORDER.negative, gain: float = SECOND_ORDER.min_gain) -> Array | None:
    """A direction [columns] of negative curvature on the active constraints; None if none is found."""
    n, shift = len(active.columns), -down
    while active.below(SECOND_ORDER.shift_factor * shift) > 0:
        shift *= SECOND_ORDER.shift_factor
        if shift < -SECOND_ORDER.max_shift:
            return None
    if active.below(np.sqrt(SECOND_ORDER.shift_factor) * shift) > 0:
        shift *= np.sqrt(SECOND_ORDER.shift_factor)
    try:
        factor = Factors(active.matrix(2 * shift))
    except RuntimeError:
        return None
    v = np.random.default_rng(0).standard_normal(n)
    for _ in range(30):
        z = factor.solve(np.r_[active.W * v, np.zeros(active.A.shape[0])])[:n]
        v = z / np.max(np.abs(z))
    curved = float(v @ (active.H @ v)) / float(v @ (active.W * v))
    retained = float(np.max(np.abs(active.A @ v), initial=0.0))
    return v if curved < -down / 2 and v @ (active.H @ v) < -2 * gain and retained < SECOND_ORDER.max_residual else None


def _inward(active: _Scaled, v: Array) -> Array | None:
    """The direction with all weakly active variables moved inwards, projected onto the active constraints; None if it is no descent
    direction."""
    weak = active.weak_columns[active.columns]
    if not weak.any():
        return None
    local, columns = active.local, active.columns
    lower = (local.x - local.x_lower <= local.x_upper - local.x)[columns]
    v = np.where(weak, np.where(lower, np.abs(v), -np.abs(v)), v)
    A = active.A[:, ~weak]
    n, m = A.shape[1], A.shape[0]
    try:
        rest = Factors(sp.bmat([[sp.diags(active.W[~weak]), A.T], [A, -ROUNDING.regularisation * sp.eye(m)]], format="csc"))
    except RuntimeError:
        return None
    v[~weak] += rest.solve(np.r_[np.zeros(n), -(active.A @ v)])[:n]
    v /= np.max(np.abs(v))
    down = float(v @ (active.H @ v)) < -max(2 * SECOND_ORDER.min_gain, SECOND_ORDER.negative / 2 * float(v @ (active.W * v)))
    retained = float(np.max(np.abs(active.A @ v), initial=0.0)) < SECOND_ORDER.max_residual
    return v if down and retained and not any(np.any(mask) for mask in _left_by(active, v)) else None


def _left_by(active: _Scaled, v: Array) -> tuple[Array, Array]:
    """Masks of the weakly active constraints and variables that a direction [columns] leaves."""
    local, small = active.local, ROUNDING.resolution
    full, found = np.zeros(len(local.x)), []
    full[active.columns] = v
    for weak, value, lower, upper, move in (
            (active.weak_rows, local.g, local.g_lower, local.g_upper, (local.jacobian @ (full * active.size)) / active.row_sizes),
            (active.weak_columns, local.x, local.x_lower, local.x_upper, full)):
        at_lower = value - lower <= upper - value
        found.append(weak & np.where(at_lower, move < -small, move > small))
    return found[0], found[1]


def _decrease(local: Local, size: Array, objective: float) -> float:
    """Change of the objective by a Newton step onto the strictly active constraints, relative to its scale."""
    active = _Scaled(local, size, objective)
    n = len(active.columns)
    gradient = (local.gradient + local.jacobian.T @ local.lam_g)[active.columns] * size[active.columns] / objective
    at = local.g[active.rows]
    bound = np.where(np.abs(at - local.g_lower[active.rows]) <= np.abs(local.g_upper[active.rows] - at),
                     local.g_lower[active.rows], local.g_upper[active.rows])
    missed = (at - bound) / active.row_sizes[active.rows]
    # what is left of a barrier keeps the step inside bounds that are near and hardly push
    columns = _stiffness(local.x, local.x_lower, local.x_upper, local.lam_x)[active.columns] * size[active.columns]**2 / objective
    loose = np.setdiff1d(np.arange(len(local.g)), active.rows)
    rows = _stiffness(local.g, local.g_lower, local.g_upper, local.lam_g)[loose] / objective
    C = sp.csr_matrix(local.jacobian @ sp.diags(size))[loose][:, active.columns]
    barrier = sp.diags(columns) + C.T @ sp.diags(rows) @ C + SECOND_ORDER.negative * sp.diags(active.W)
    matrix = active.matrix(0.0) + sp.block_diag((barrier, sp.csc_matrix((len(missed), len(missed)))))
    try:
        d = Factors(matrix).solve(-np.r_[gradient, missed])[:n]
    except RuntimeError:
        return float("nan")
    return float(abs(gradient @ d + 0.5 * d @ (active.H @ d + (barrier - SECOND_ORDER.negative * sp.diags(active.W)) @ d))
                 + abs((local.lam_g[active.rows] / objective * active.row_sizes[active.rows]) @ missed))


def _stiffness(value: Array, lower: Array, upper: Array, lam: Array) -> Array:
    """Multipliers over the distances to their bounds; zero for infinite or active bounds."""
    distance = np.where(lam > 0, upper - value, value - lower)
    return np.where(np.isfinite(distance) & (distance > 0), np.abs(lam) / np.where(distance > 0, distance, 1.0), 0.0)
