"""Flat directions, followed to finite distance: where curvature vanishes, higher orders tell whether a point is a minimum.

The reduced Hessian of ``-u^4`` at 0 vanishes, as that of ``u^4`` does. So directions of almost no curvature that keep the active
constraints are followed for a part of the size of the unknowns, and further; constraints are restored by Newton steps with the
Jacobian of the point (Nocedal and Wright 2006, section 15.4, second-order correction). Where the objective falls, and rises nowhere
before, the point is no local minimum. This needs neither costates nor continuous time: steps in discrete time and parameters that
the motion feels are covered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from ocp.certify.banded import Factors
from ocp.interrupts import Activity, check
from ocp.nlp.local import CONTROL, DURATION, PARAMETER
from ocp.thresholds import ROUNDING, SECOND_ORDER

Array = np.ndarray

#: (objective, rows [m] as those of the program at its point) with the unknowns moved by so much [n]
Values = Callable[[Array], tuple[float, Array]]

def descent(scaled: Any, values: Values, objective: float) -> Array | None:
    """A direction [n] in the unknowns along which the objective decreases from the point, its largest component the scale of its
    unknown; None if none of the tried ones does. scaled: the program with its active constraints (``curvature``)."""
    at, now = scaled.local, values(np.zeros(len(scaled.local.x)))[0]
    restore = _factor([[sp.diags(scaled.W), scaled.A.T], [scaled.A, -ROUNDING.regularisation * sp.eye(scaled.A.shape[0])]])
    if restore is None:
        return None
    for v in _directions(scaled):
        for sign in (1.0, -1.0):
            check(Activity.CURVATURE)
            fall = 0.0
            for length in np.geomspace(SECOND_ORDER.nearest, 1.0, 4):
                point = _restored(scaled, values, restore, sign * length * v)
                change = np.inf if point is None else (point - now) / objective
                if not change <= fall + ROUNDING.negligible:
                    break
                fall = change
            if fall < -SECOND_ORDER.min_gain:
                found = np.zeros(len(at.x))
                found[scaled.columns] = sign * v * scaled.size[scaled.columns]
                return found
    return None


def _directions(scaled: Any) -> Iterator[Array]:
    """Directions [columns] of almost no curvature, the largest component 1: inverse iterations started from moves of one control
    along a phase, of a duration or of a parameter, and from random ones."""
    own, n = scaled.local.owners, len(scaled.columns)
    factor = _factor([[scaled.matrix(-SECOND_ORDER.negative)]])
    if factor is None:
        return
    names = np.stack([own.kind, own.phase, own.component])[:, scaled.columns]
    named = np.unique(names[:, np.isin(names[0], (CONTROL, DURATION, PARAMETER))], axis=1).T[:8]
    rng = np.random.default_rng(0)
    for v in (*(np.all(name == names.T, axis=1).astype(float) for name in named), *rng.standard_normal((2, n))):
        for _ in range(3):
            v = factor.solve(np.r_[scaled.W * v, np.zeros(scaled.A.shape[0])])[:n]
            v = v / max(float(np.max(np.abs(v), initial=0.0)), 1e-300)
        if np.all(np.isfinite(v)) and v @ (scaled.H @ v) <= SECOND_ORDER.flat * float(v @ (scaled.W * v)):
            yield v


def _restored(scaled: Any, values: Values, restore: Any, move: Array) -> float | None:
    """The objective with unknowns moved by so much [columns], over their sizes, and back onto the active constraints, with what is
    left of their violation weighed by multipliers; None where they are not met, or others are not."""
    at, rows, columns, n = scaled.local, scaled.rows, scaled.columns, len(scaled.columns)
    full, before = np.zeros(len(at.x)), np.inf
    for _ in range(SECOND_ORDER.rounds):
        moved = at.x[columns] + move * scaled.size[columns]
        full[columns] = np.clip(moved, at.x_lower[columns], at.x_upper[columns]) - at.x[columns]
        f, g = values(full)
        missed = (g - at.g)[rows] / scaled.row_sizes[rows]
        largest = float(np.max(np.abs(missed), initial=0.0))
        if not np.isfinite(f) or not np.all(np.isfinite(g)) or not largest < before:
            return None
        if largest <= ROUNDING.negligible:
            beyond = np.maximum(g - at.g_upper, at.g_lower - g) / scaled.row_sizes
            retained = np.max(np.delete(beyond, rows), initial=0.0) <= ROUNDING.resolution
            return f + float(np.abs(at.lam_g[rows]) @ np.abs((g - at.g)[rows])) if retained else None
        before = largest
        move = move + restore.solve(np.r_[np.zeros(n), -missed])[:n]
    return None


def _factor(blocks: list[list[Any]]) -> Any:
    try:
        return Factors(sp.bmat(blocks, format="csr"))
    except RuntimeError:
        return None
