"""Operators on plain vectors and matrices that the charts and their tests share: norm, projector, exp and log."""

import math

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamics.lie.expression import Expression, ExpressionLike, matrix

_EXP_TERMS = 18
_LOG_TERMS = 12
_LOG_ROOTS = 60


def norm(a: ExpressionLike) -> Expression:
    """Euclidean norm of a column; its derivative at a = 0 is 0 instead of NaN, one of its subgradients."""
    a = a if isinstance(a, (ca.SX, ca.MX, ca.DM)) else ca.DM(np.asarray(a, dtype=float))
    squared = ca.dot(a, a)
    zero = squared == 0.0
    return ca.if_else(zero, 0.0, ca.sqrt(squared + zero))


def null_space_projector(jacobian: ArrayLike, tolerance: float = 1e-9) -> NDArray[np.float64]:
    """N = I - J⁺ J (n, n) of a numeric matrix (m, n): J N = 0, N = Nᵀ = N².

    Singular values below `tolerance` times the largest count as zero.
    """
    j = np.atleast_2d(np.asarray(jacobian, dtype=float))
    _, values, rows = np.linalg.svd(j, full_matrices=True)
    rank = int(np.count_nonzero(values > tolerance * values.max(initial=0.0)))
    free = rows[rank:]
    return np.asarray(free.T @ free)


def matrix_exponential(a: ExpressionLike, squarings: int = 4) -> Expression:
    """e^A (3 x 3) of any 3 x 3 matrix, by its Taylor series at A / 2^squarings, squared as often.

    Full digits while the entries of A stay below 2^squarings / 3. For A = φ^ use `so3.exp`, the closed form.
    """
    scaled = matrix(a, 3, 3, "a") / 2.0**squarings
    value = ca.DM.eye(3)
    for k in range(_EXP_TERMS, 0, -1):
        value = ca.DM.eye(3) + ca.mtimes(scaled, value) / k
    for _ in range(squarings):
        value = ca.mtimes(value, value)
    return value


def matrix_logarithm(a: ArrayLike) -> NDArray[np.float64]:
    """Principal logarithm (n, n) of a numeric matrix: e^L = A, imaginary parts of its eigenvalues in (-π, π).

    `ValueError` for an eigenvalue that is zero or real and negative (a rotation by π, for one), where there is no
    principal logarithm; `so3.log` chooses one of the two there.
    Source: Higham 2008, "Functions of matrices", section 11.5 and Eq. 6.29 (product form of the square root).
    """
    x = np.asarray(a, dtype=float)
    if x.ndim != 2 or x.shape[0] != x.shape[1]:
        raise ValueError(f"a: expected a square matrix, got shape {x.shape}")
    eigenvalues = np.linalg.eigvals(x)
    scale = float(np.abs(eigenvalues).max())
    if not all(value.real > 0.0 or abs(value.imag) > 1e-12 * scale for value in eigenvalues):
        raise ValueError(f"a: no principal logarithm, an eigenvalue is zero or negative: {eigenvalues}")
    identity, roots = np.eye(len(x)), 0
    while np.abs(x - identity).max() > 0.05:
        if roots == _LOG_ROOTS:
            raise ValueError("a: the square roots do not approach the identity, the matrix is too close to singular")
        x, roots = _square_root(x), roots + 1
    z = np.linalg.solve(x + identity, x - identity)
    square, power, total = z @ z, z, np.zeros_like(x)
    for k in range(_LOG_TERMS):
        total = total + power / (2 * k + 1)
        power = power @ square
    return np.asarray(math.ldexp(2.0, roots) * total)


def _square_root(x: NDArray[np.float64]) -> NDArray[np.float64]:
    identity = np.eye(len(x))
    m, y = x, x
    for _ in range(50):
        inverse = np.linalg.inv(m)
        y = 0.5 * y @ (identity + inverse)
        m = 0.5 * (identity + 0.5 * (m + inverse))
        if np.abs(m - identity).max() < 1e-15:
            break
    return y
