"""Third-order tensors of spatial vectors: stacks of 6x6 cross-product operators and their products, for numbers.

The language in which Singh, Russell and Wensing (2022) state second derivatives (Eqs. 3, 4, 9, 10 and Fig. 2). A tensor
A[i, j, k] is a stack of matrices, *pages* A[:, :, k]. Everything is NumPy, real or complex, in the component order of
``dynamics.spatial``. The recursive and contracted algorithms do without these tensors.
"""

from __future__ import annotations

import casadi as ca
import numpy as np

from dynamics import spatial

# spatial operators as constant tensors: operator(u)[i, j] = sum_k table[i, j, k] u[k]; this keeps complex numbers possible
_CROSS, _CROSS_FORCE, _SWAPPED = (
    np.stack([np.array(operator(ca.DM(unit))) for unit in np.eye(6)], axis=2)
    for operator in (spatial.cross_motion_matrix, spatial.cross_force_matrix, spatial.cross_swapped_matrix))


def cross(U: np.ndarray) -> np.ndarray:
    """``u x`` of every column: [6, n] -> [6, 6, n] (or [6] -> [6, 6]); motion vectors to motion vectors, Eq. 3."""
    return np.asarray(np.tensordot(_CROSS, U, axes=(2, 0)))


def cross_force(U: np.ndarray) -> np.ndarray:
    """``u x*`` of every column: [6, n] -> [6, 6, n]; force vectors to force vectors, Eq. 4: ``-(u x)^T``."""
    return np.asarray(np.tensordot(_CROSS_FORCE, U, axes=(2, 0)))


def cross_swapped(F: np.ndarray) -> np.ndarray:
    """The skew matrix of every force column that takes a motion vector v to ``v x* f``: [6, n] -> [6, 6, n]."""
    return np.asarray(np.tensordot(_SWAPPED, F, axes=(2, 0)))


def tensor_times(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """``Z[i, j, k] = sum_l A[i, l, k] B[l, j]``: every page times the matrix B, Eq. 9."""
    return np.asarray(np.einsum("ilk,lj->ijk", A, B))


def times_tensor(B: np.ndarray, A: np.ndarray) -> np.ndarray:
    """``Y[i, j, k] = sum_l B[i, l] A[l, j, k]``: the matrix B times every page, Eq. 10."""
    return np.asarray(np.einsum("il,ljk->ijk", B, A))


def transposed(A: np.ndarray) -> np.ndarray:
    """Every page transposed: first two indices exchanged."""
    return np.swapaxes(A, 0, 1)


def rotated(A: np.ndarray) -> np.ndarray:
    """Last two indices exchanged: columns and pages."""
    return np.swapaxes(A, 1, 2)


def coriolis_tensor(inertia: np.ndarray, V: np.ndarray) -> np.ndarray:
    """B(I, v) = ((v x*) I - I (v x) + (I v) x*-swapped) / 2 for every column of V: [6, 6], [6, n] -> [6, 6, n], Eqs. 6, 15.

    ``B(I, v) v = v x* I v``, and B is linear in I and in v: for the sum over a subtree the composite inertia does.
    """
    stacked = V if V.ndim == 2 else V[:, None]
    out = (tensor_times(cross_force(stacked), inertia) - times_tensor(inertia, cross(stacked))
           + cross_swapped(inertia @ stacked)) / 2
    return out if V.ndim == 2 else out[:, :, 0]
