"""Multipliers of a solution carried over to the program on another mesh, for a warm start.

Multipliers of bounds and path rows are densities over the phase times a cell of the mesh: the densities are interpolated. Those
of defects are then the ones with which the stationarity conditions hold best, in least squares (as Waechter and Biegler 2006,
Sec. 3.6, begin, here with the multipliers of bounds and constraints in their places).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import scipy.sparse as sp
from scipy.linalg import solveh_banded
from scipy.sparse.csgraph import reverse_cuthill_mckee

from ocp.nlp import NLP, Warm
from ocp.nlp.names import groups, parts_of_name, phase_of
from ocp.thresholds import ROUNDING, WARM_START
from ocp.transcription.mesh import Mesh

Array = np.ndarray
#: by phase, "" of a single one: its mesh in the old program, and in the new one
Meshes = Mapping[str, tuple[Mesh, Mesh]]

#: columns with more entries than this part of the rows belong to the whole phase, and to no band along it
MIN_DENSE_SHARE = 0.3


def carried(old: NLP, lam_x: Array, lam_g: Array, new: NLP, meshes: Meshes) -> Warm:
    """The primal-dual point of the program ``new`` that begins at its guess with the multipliers of a solution of ``old``."""
    held = old.x_lower == old.x_upper  # what holds the ends belongs to no neighbour
    bounds = _moved(old.variables, new.variables, np.where(held, 0.0, lam_x), meshes)
    rows = _moved(old.constraints, new.constraints, lam_g, meshes)
    defects = new.defects
    x = np.clip(new.x0, new.x_lower, new.x_upper)
    fixed = new.x_lower == new.x_upper
    gradient, jacobian = new.grad(x)[1].full().ravel(), new.jac(x)[1].sparse().tocsr()
    rows[defects] = 0.0
    bounds[fixed] = 0.0
    A = jacobian[defects].tocsc()[:, np.flatnonzero(~fixed)]
    missing = -(gradient + jacobian.T @ rows + bounds)[~fixed]
    rows[defects] = _least_squares(A, missing, MIN_DENSE_SHARE / len(meshes))
    bounds[fixed] = -(gradient + jacobian.T @ rows)[fixed]
    return Warm(x, bounds, rows, WARM_START.barrier)


def _least_squares(A: sp.csc_matrix, right: Array, share: float) -> Array:
    """lam [m] with the least ``|A' lam - right|^2 + regularisation |lam|^2``: banded along time; columns with more than this share
    of the rows, of what belongs to all of a phase (durations, parameters), apart."""
    wide = np.diff(A.indptr) > share * A.shape[0]
    narrow, dense = A[:, np.flatnonzero(~wide)], A[:, np.flatnonzero(wide)].toarray()
    normal = narrow @ narrow.T
    normal = sp.csr_matrix(normal + ROUNDING.regularisation * max(1.0, normal.diagonal().max(initial=0.0)) * sp.eye(A.shape[0]))
    order = reverse_cuthill_mckee(normal, symmetric_mode=True)
    sorted_ = sp.coo_matrix(normal[order][:, order])
    above = sorted_.col >= sorted_.row
    band = np.zeros((int(np.max(sorted_.col - sorted_.row, initial=0)) + 1, A.shape[0]))
    band[(sorted_.col - sorted_.row)[above], sorted_.row[above]] = sorted_.data[above]
    found = solveh_banded(band, np.column_stack([A @ right, dense])[order], lower=True, check_finite=False)
    back = np.empty_like(found)
    back[order] = found
    lam, other = back[:, 0], back[:, 1:]
    return np.asarray(lam - other @ np.linalg.solve(np.eye(other.shape[1]) + dense.T @ other, dense.T @ lam))


def _moved(old: Sequence[str], new: Sequence[str], values: Array, meshes: Meshes) -> Array:
    """Values by name: of groups that are spread over a phase by interpolation, the same where there are as many, else zero."""
    found, known = np.zeros(len(new)), groups(old)
    for name, own in groups(new).items():
        if name not in known:
            continue
        pair = meshes.get("") or meshes.get(phase_of(name))
        a, b = (None, None) if pair is None else (_positions(pair[0], old, known[name]), _positions(pair[1], new, own))
        if a is not None and b is not None:
            order = np.argsort(a, kind="stable")
            s, rank = a[order], np.argsort(b, kind="stable")
            found[own[rank]] = np.interp(b[rank], s, values[known[name][order]] / _cells(s)) * _cells(b[rank])
        elif len(own) == len(known[name]):
            found[own] = values[known[name]]
    return found


def _positions(mesh: Mesh, names: Sequence[str], which: Array) -> Array | None:
    """Where the named values ``which`` hold, as fractions of the phase; None where they are not spread over it."""
    found = [mesh.located.get(parts_of_name(names[i])[1]) for i in which]
    return None if len(found) < 2 or None in found else np.array(found, dtype=float)


def _cells(s: Array) -> Array:
    """The share of the phase that belongs to each evaluation point."""
    edges = np.concatenate([s[:1], (s[1:] + s[:-1]) / 2, s[-1:]])
    return np.maximum(np.diff(edges), ROUNDING.coincident)
